/* live_window.h: encodes and decodes the window of live text, and keeps its stable tokens. live.h
   includes it. */
#ifndef LIVE_WINDOW_H
#define LIVE_WINDOW_H

static double live_seconds_of(const live *l, int64_t sample) {
    return (double)(sample < l->fed ? sample : l->fed) / (int)SOUND_RATE;
}

/* Returns when the next stable text begins: where the last one ended, or after a pause, where
   somebody began to speak. */
static double live_begins(const live *l) {
    return live_seconds_of(l, l->said > l->spoke ? l->said : l->spoke);
}

/* Encodes the window with seconds of silence behind it. */
static tfm_status live_encode(live *l, double room, tfm_error *err) {
    transcriber *h = l->h;
    int64_t M = h->s.mels, i, rows, frames = (l->end - l->start) / SPEECH_HOP;
    int64_t last = (l->first + l->n - TRACK_LEAD - l->start) / SPEECH_HOP;
    float loudest = -INFINITY, unused = -INFINITY;
    tfm_tensor input;
    tfm_request request = tfm_request_ids(NULL, 0);
    tfm_status status = TFM_OK;
    if (frames > last) frames = last;
    if (frames > SPEECH_FRAMES) frames = SPEECH_FRAMES;
    if (frames > l->n_mel)
        status = speech_mel(&h->s,
                            l->x + (l->start + l->n_mel * SPEECH_HOP - TRACK_LEAD - l->first),
                            frames - l->n_mel, h->mel + l->n_mel * M, &unused, err);
    if (status != TFM_OK) return status;
    if (frames > l->n_mel) l->n_mel = frames;
    for (i = 0; i < frames * M; i++) loudest = h->mel[i] > loudest ? h->mel[i] : loudest;
    rows = (frames + (int64_t)(room * 100) + 99) / 100 * 100;
    if (rows > SPEECH_FRAMES) rows = SPEECH_FRAMES;
    status = speech_convolve(&h->s, h->mel, frames, rows, loudest, h->embeddings, err);
    input = tfm_tensor_2d(h->embeddings, TFM_DTYPE_F32, rows / 2, (int64_t)h->s.width);
    request.embeddings = &input, l->positions = (int32_t)(rows / 2);
    l->with_sound = (int32_t)(frames / 2);
    return status == TFM_OK ? tfm_session_encode(h->w.session, &request, 1, err) : status;
}

/* Does what whisper_edit does, and keeps -log(probability) of the most probable token, for
   o.doubt. */
static void live_edit(void *user, int32_t row, const int32_t *ids, int32_t n, float *y) {
    live *l = (live *)user;
    whisper *w = &l->h->w;
    float top, sum = 0;
    int32_t i;
    whisper_edit(w, row, ids, n, y);
    top = whisper_largest(y, w->V);
    for (i = 0; i < w->V; i++)
        if (y[i] > top - 12) sum += expf(y[i] - top);
    if (n <= WHISPER_TOKENS) l->doubts[n] = logf(sum);
}

/* Returns the position that a token attends to most: weights [S]. said: the position of the tokens
   before it. A token is spoken after them, so what it attends to more than LIVE_BACK before does
   not count: a word that the decoder guesses attends to the window's beginning. The rest of a word
   (is_rest) that does so counts as spoken with the word's first token. */
static int32_t live_attends(const float *weights, int32_t S, int32_t said, int is_rest) {
    int32_t i, least = said > LIVE_BACK ? said - LIVE_BACK : 0, top = 0, at = least;
    for (i = 1; i < S; i++)
        if (weights[i] > weights[top]) top = i;
    for (i = least + 1; i < S; i++)
        if (weights[i] > weights[at]) at = i;
    return is_rest && top < least ? said : at;
}

/* Decodes the window behind its stable tokens: ids [r->length], and the position that each token
   attends to most: at [r->length + 1], for the end the last one that has sound. */
static tfm_status live_decode(live *l, int32_t *ids, int32_t *at, tfm_result *r, tfm_error *err) {
    whisper *w = &l->h->w;
    int32_t prompt[WHISPER_TOKENS], n = 0, i, k, said = 0, running = 1, S = l->positions;
    int32_t count = l->n_history < l->o.history ? l->n_history : l->o.history;
    tfm_request request;
    tfm_decode_options o;
    tfm_tensor out;
    tfm_status status = TFM_OK;
    memset(&o, 0, sizeof o), memset(&request, 0, sizeof request);
    if (count) prompt[n++] = w->previous;
    for (i = l->n_history - count; i < l->n_history; i++) prompt[n++] = l->history[i];
    prompt[n++] = w->start;
    if (l->is_unsure) w->language = 0;
    if (!w->language && tfm_model_config(w->model)->n_languages)
        status = whisper_probe(w, NULL, prompt + n - 1, 1, err);
    if (w->language) {
        prompt[n++] = w->language;
        prompt[n++] = w->options.is_translation ? w->translate : w->transcribe;
    }
    prompt[n++] = w->no_times;
    for (i = 0; i < l->n_given; i++) prompt[n++] = l->given[i];
    request.prompt = tfm_ids_make(prompt, n);
    if (!l->o.without_drafts) request.draft = tfm_ids_make(l->draft, l->n_draft);
    o.edit_logits = live_edit, o.edit_user = l;
    w->with_own = w->own.n_words > 0;
    if (w->with_own) o.suppressed = &w->start, o.n_suppressed = 1;
    o.max_length = 16 + l->with_sound / 6 - l->n_given; /* more than 8 tokens a second are a loop */
    if (o.max_length < 16) o.max_length = 16;
    if (o.max_length > WHISPER_TOKENS - n) o.max_length = WHISPER_TOKENS - n;
    w->n_given = l->n_given;
    if (status == TFM_OK) status = tfm_session_restart(w->session, &request, 1, &o, err);
    for (; status == TFM_OK && running && !whisper_is_stopped(w); l->steps++)
        status = tfm_session_step(w->session, &running, err);
    w->n_given = 0;
    if (status == TFM_OK) status = tfm_result_get(w->session, 0, 0, r, err);
    if (status != TFM_OK) return status;
    l->runs++, l->tokens += r->length + 1;
    if (l->with_sound >= LIVE_SURE) l->is_unsure = 0;
    memcpy(ids, r->ids, (size_t)r->length * sizeof *ids);
    out = tfm_tensor_2d(l->attention, TFM_DTYPE_F32, r->length, S);
    if (r->length) status = tfm_result_attention(w->session, 0, 0, &out, err);
    if (l->n_given && l->given_end[l->n_given - 1] > 0) said = l->given_end[l->n_given - 1];
    for (k = 0; k < r->length && status == TFM_OK; k++) {
        status = whisper_spell(w, ids + k, 1, err);
        at[k] = live_attends(l->attention + (int64_t)k * S, S, said, w->text[0] != ' ');
        if (at[k] > said && at[k] < l->with_sound) said = at[k];
    }
    at[r->length] = l->with_sound;
    return status;
}

/* Returns how many of ids [n] are sure: the rule holds for them and for all before them. */
static int32_t live_sure(const live *l, const int32_t *ids, const int32_t *at, int32_t n) {
    int32_t sure;
    for (sure = 0; sure < n; sure++) {
        double wait = l->o.doubt * (sure || l->n_given ? 1 : LIVE_FIRST);
        double behind = l->o.guard + wait * fmin(l->doubts[sure], LIVE_DOUBT);
        if (l->o.rule != LIVE_AGREE && at[sure] >= l->with_sound - (int32_t)(behind * 50)) break;
        if (l->o.rule != LIVE_ALIGN && (sure >= l->n_draft || ids[sure] != l->draft[sure])) break;
    }
    return sure;
}

/* Returns whether one of ids [n] that would become stable has a small probability. */
static int live_is_doubtful(const live *l, const int32_t *ids, const int32_t *at, int32_t n) {
    int32_t i, sure;
    if (live_listens(l)) return 0;
    sure = l->is_over || live_is_full(l) ? n : live_sure(l, ids, at, n);
    if (sure == n && !l->is_over) sure--; /* no other word follows */
    for (i = 0; i < sure; i++)
        if (l->doubts[i] > l->o.look) return 1;
    return 0;
}

/* Returns how many of ids [n] are stable: whole words of the first sure tokens. */
static int32_t live_words(live *l, const tfm_result *r, int32_t sure, int *is_settled) {
    const words *found = l->found;
    int32_t i, n = 0;
    for (i = 0; i < found->n; i++) {
        const word *one = &found->at[i];
        const char *text = words_trim(one->text);
        int is_last = i + 1 == found->n,
            is_mark = strlen(text) == 1 && ispunct((unsigned char)*text);
        if (is_last && (r->finish != TFM_FINISH_ENDED || is_mark)) break;
        if (one->first + one->n > sure) break;
        n = one->first + one->n;
    }
    *is_settled = i == found->n || (i + 1 == found->n && r->finish == TFM_FINISH_ENDED &&
                                    found->at[i].first + found->at[i].n <= sure);
    return n;
}

/* Makes the first n of ids stable. */
static tfm_status live_give(live *l, const int32_t *ids, const int32_t *at, int32_t n,
                            tfm_error *err) {
    whisper *w = &l->h->w;
    tfm_status status = live_spell(l, ids, n, err);
    int32_t i;
    if (status != TFM_OK || !n) return status;
    memcpy(l->stable, w->text, strlen(w->text) + 1);
    l->stable_begin = live_begins(l);
    l->said = l->start + (int64_t)at[n] * 2 * SPEECH_HOP;
    if (l->said > l->end) l->said = l->end; /* it attends to the silence behind the sound */
    if (l->said < live_samples(l->stable_begin)) l->said = live_samples(l->stable_begin);
    l->stable_end = live_seconds_of(l, l->said);
    for (i = 0; i < n && l->n_given < WHISPER_TOKENS / 2; i++, l->n_given++)
        l->given[l->n_given] = ids[i], l->given_end[l->n_given] = -1;
    /* Attention may look back, and a cut there would leave words in the window that are in no
       prompt. */
    if (l->n_given)
        l->given_end[l->n_given - 1] = (int32_t)((l->said - l->start) / (2 * SPEECH_HOP));
    return TFM_OK;
}

/* Moves the first n stable tokens from the window to the history. */
static void live_forget(live *l, int32_t n) {
    int32_t i;
    if (l->n_history + n > 2 * WHISPER_TOKENS) {
        memmove(l->history, l->history + l->n_history - WHISPER_TOKENS,
                WHISPER_TOKENS * sizeof *l->history);
        l->n_history = WHISPER_TOKENS;
    }
    for (i = 0; i < n; i++) l->history[l->n_history++] = l->given[i];
    for (i = n; i < l->n_given; i++)
        l->given[i - n] = l->given[i], l->given_end[i - n] = l->given_end[i];
    l->n_given -= n;
}

/* Cuts off the beginning of a long window: up to the last stable word that ends more than o.kept
   before its end, or up to the first stable word's end. Without a stable word it keeps o.kept. It
   cuts off at least o.step, or half of a shorter window: a word may end where the window begins,
   and a window that stays full would be heard again without new sound. */
static void live_shorten(live *l) {
    int32_t i, cut = 0, keep = l->with_sound - (int32_t)(l->o.kept * 50), at = keep > 0 ? keep : 0;
    int32_t least = (int32_t)ceil(fmin(l->o.step, l->o.longest / 2) * 50);
    int64_t frames, M = l->h->s.mels;
    for (i = 0; i < l->n_given; i++)
        if (l->given_end[i] >= 0 && (l->given_end[i] <= keep || !cut))
            cut = i + 1, at = l->given_end[i];
    live_forget(l, cut);
    if (at < least) at = least;
    if (at > l->with_sound) at = l->with_sound;
    for (i = 0; i < l->n_given; i++)
        if (l->given_end[i] >= 0) l->given_end[i] = l->given_end[i] > at ? l->given_end[i] - at : 0;
    frames = 2 * (int64_t)at < l->n_mel ? 2 * (int64_t)at : l->n_mel;
    memmove(l->h->mel, l->h->mel + frames * M, (size_t)((l->n_mel - frames) * M) * sizeof(float));
    l->n_mel -= frames, l->start += frames * SPEECH_HOP;
}

#endif
