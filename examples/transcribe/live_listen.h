/* live_listen.h: hears the window of live text with Moonshine streaming. live.h includes it.

   A window is an utterance, as for whole files: positions begin at 0, and a pause or o.longest ends
   it. The encoder reads each sample once, and its memory grows with the sound. Each run decodes the
   memory so far behind the stable tokens. Moonshine has no alignment heads, so LIVE_AGREE is its
   rule, and a stable text ends where the sound of the run before ended. */
#ifndef LIVE_LISTEN_H
#define LIVE_LISTEN_H

static int live_listens(const live *l) { return l->h->m.kind == MOONSHINE_STREAMING; }

/* Returns where the window ends now. In a pause that goes on, no sample is heard that the utterance
   will not have, because the encoder cannot forget one. */
static int64_t live_reaches(const live *l) {
    int64_t end = l->scanned, most = l->start + live_samples(l->o.longest);
    if (!live_listens(l)) return end;
    if (l->parts.pauses >= 0 && end > l->parts.pauses + l->parts.pad)
        end = l->parts.pauses + l->parts.pad;
    if (end > most) end = most;
    if (end > l->fed) end = l->fed;
    return end > l->heard ? end : l->heard;
}

/* Fits the options: no window is longer than the memory, or than the tokens that it may have. */
static tfm_status live_listen_fit(live *l, tfm_error *err) {
    const moonshine *m = &l->h->m;
    double most = (double)m->listen.n_positions * 4 * m->listen.frame / (int)SOUND_RATE;
    l->o.rule = LIVE_AGREE;
    l->o.longest = fmin(l->o.longest, fmin(most, (int)SPEECH_SECONDS));
    l->o.longest = fmin(l->o.longest, (int)WHISPER_TOKENS / 2 / m->tokens_a_second);
    if (most >= 1) return TFM_OK;
    return transcriber_fail(err, TFM_E_CONFIG,
                            "the model hears less than a second at once, too little for live text",
                            "");
}

/* Begins an utterance at l->start. */
static tfm_status live_listen_begin(live *l, tfm_error *err) {
    moonshine *m = &l->h->m;
    int64_t room = listen_positions(&m->listen, MOONSHINE_SAMPLES);
    l->memory.at = m->memory, l->memory.width = m->listen.width, l->memory.n = 0;
    l->memory.room = room < m->listen.n_positions ? room : m->listen.n_positions;
    l->heard = l->start, l->is_listening = 1;
    return listen_begin(&l->ear, &m->listen, err);
}

static void live_listen_end(live *l) {
    if (l->is_listening) listen_end(&l->ear);
    l->is_listening = 0;
}

/* Spells ids behind the stable tokens of the window into w.text. A text of Moonshine begins without
   a space, so the first one of a window gets one. */
static tfm_status live_spell(live *l, const int32_t *ids, int32_t n, tfm_error *err) {
    whisper *w = &l->h->w;
    int32_t all[2 * WHISPER_TOKENS];
    size_t before, size;
    tfm_status status;
    if (!live_listens(l) || !n) return whisper_spell(w, ids, n, err);
    memcpy(all, l->given, (size_t)l->n_given * sizeof *all);
    memcpy(all + l->n_given, ids, (size_t)n * sizeof *all);
    status = whisper_spell(w, all, l->n_given, err);
    before = strlen(w->text);
    if (status == TFM_OK) status = whisper_spell(w, all, l->n_given + n, err);
    if (status != TFM_OK) return status;
    size = strlen(w->text);
    if (before > size) before = size;
    memmove(w->text, w->text + before, size - before + 1), size -= before;
    if (before || !size || w->text[0] == ' ' || size + 2 > WHISPER_TEXT) return status;
    memmove(w->text + 1, w->text, size + 1), w->text[0] = ' ';
    return status;
}

/* Returns how many of ids [n] are stable: those of the first sure that another word follows. */
static int32_t live_listen_words(live *l, const int32_t *ids, int32_t n, int32_t sure,
                                 int is_complete, tfm_error *err) {
    whisper *w = &l->h->w;
    size_t size;
    if (sure == n && is_complete) return n;
    for (; sure > 0; sure--) {
        if (sure == n || live_spell(l, ids, sure, err) != TFM_OK) continue;
        size = strlen(w->text);
        if (live_spell(l, ids, sure + 1, err) == TFM_OK && strlen(w->text) > size &&
            w->text[size] == ' ')
            break;
    }
    return sure;
}

/* Feeds the encoder with the sound that has come, and decodes behind the stable tokens. is_last:
   the utterance ends. at: where the sound of the run before ended. */
static tfm_status live_listen(live *l, int is_last, int32_t *ids, int32_t *at, tfm_result *r,
                              tfm_error *err) {
    whisper *w = &l->h->w;
    moonshine *m = &l->h->m;
    int32_t prompt[WHISPER_TOKENS], running = 1, i;
    int64_t before = (is_last ? l->is_over ? l->quiet : l->end : l->ran) - l->start;
    tfm_tensor rows;
    tfm_request request;
    tfm_decode_options o;
    tfm_status status = l->is_listening ? TFM_OK : live_listen_begin(l, err);
    memset(&o, 0, sizeof o), memset(&request, 0, sizeof request);
    if (status == TFM_OK && l->end > l->heard)
        status = listen_feed(&l->ear, l->x + (l->heard - l->first), l->end - l->heard, listen_keep,
                             &l->memory, err);
    if (l->end > l->heard) l->heard = l->end;
    if (status == TFM_OK && is_last) status = listen_finish(&l->ear, listen_keep, &l->memory, err);
    l->with_sound = l->positions = (int32_t)l->memory.n;
    if (status != TFM_OK || l->memory.n < 1) return status;
    prompt[0] = tfm_model_config(w->model)->start;
    memcpy(prompt + 1, l->given, (size_t)l->n_given * sizeof *prompt);
    rows = tfm_tensor_2d(m->memory, TFM_DTYPE_F32, l->memory.n, l->memory.width);
    request.memory = &rows, request.prompt = tfm_ids_make(prompt, l->n_given + 1);
    if (!l->o.without_drafts) request.draft = tfm_ids_make(l->draft, l->n_draft);
    o.max_length = moonshine_most(m, l->end - l->start) - l->n_given;
    if (o.max_length < 1) o.max_length = 1;
    status = tfm_session_start(w->session, &request, 1, &o, err);
    for (; status == TFM_OK && running && !whisper_is_stopped(w); l->steps++)
        status = tfm_session_step(w->session, &running, err);
    if (status == TFM_OK) status = tfm_result_get(w->session, 0, 0, r, err);
    if (status != TFM_OK) return status;
    l->runs++, l->tokens += r->length + 1;
    memcpy(ids, r->ids, (size_t)r->length * sizeof *ids);
    for (i = 0; i <= r->length; i++) at[i] = (int32_t)(before / (2 * SPEECH_HOP));
    return status;
}

/* Ends the utterance. If somebody speaks on, the next one begins there. */
static void live_listen_next(live *l) {
    live_listen_end(l);
    l->is_kept = 0, l->n_given = l->n_draft = 0;
    l->start = l->ran = l->end;
}

#endif
