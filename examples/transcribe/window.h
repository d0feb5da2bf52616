/* window.h: what a transcriber does with the text of a window: segments, words, times, history.
   transcriber.h includes it. */
#ifndef WINDOW_H
#define WINDOW_H

/* Returns whether made-up texts are left out: without voice detector, if the options allow it. */
static int transcriber_is_guarded(const transcriber *h) {
    return !h->t.parts.net && h->o.silence < 0 && h->w.options.no_speech < INFINITY;
}

/* Cuts what was heard in a window of size frames into segments, finds their words, and keeps the
   tokens as the history of the next window. Moves h->seek on. */
static tfm_status transcriber_cut(transcriber *h, int64_t size, tfm_error *err) {
    whisper *w = &h->w;
    int32_t n, k, m, plain[WHISPER_TOKENS];
    int ends;
    double usual;
    int64_t moved = whisper_cut(w, &h->heard, h->seek, size, h->segments, &n, &ends);
    tfm_status status = TFM_OK;
    h->found->n = h->made_up = 0;
    if (h->o.with_words) {
        for (k = m = 0; k < h->segments[n - 1].first + h->segments[n - 1].n; k++)
            if (h->heard.ids[k] < w->end) plain[m++] = h->heard.ids[k];
        status = words_find(w, NULL, plain, m, (int32_t)(size / 2), h->found, &usual, err);
        if (status != TFM_OK) return status;
        h->last_end =
            words_place(h->found, h->segments, n, w, &h->heard, h->seek, usual, h->last_end);
        if (!ends && h->found->n && h->last_end > (double)h->seek * 0.01)
            moved = (int64_t)(h->last_end * 100 + 0.5) - h->seek;
    }
    if (transcriber_is_guarded(h)) status = guard_compare(&h->g, w, h->heard.ids, h->heard.n, err);
    for (k = 0; k < n && status == TFM_OK; k++) {
        whisper_segment s = h->segments[k];
        status = transcriber_spell(h, k, err);
        if (status != TFM_OK || s.begin == s.end || !*words_trim(w->text)) continue;
        if (transcriber_is_guarded(h) && guard_is_made_up(&h->g, w, h->heard.ids, s.first, s.n)) {
            h->made_up++;
            continue;
        }
        h->segments[h->n++] = s;
        memcpy(h->history + h->n_history, h->heard.ids + s.first, (size_t)s.n * sizeof *h->history);
        h->n_history += s.n;
        if (h->n_history >= WHISPER_TOKENS) {
            memmove(h->history, h->history + h->n_history - WHISPER_TOKENS / 2,
                    WHISPER_TOKENS / 2 * sizeof *h->history);
            h->n_history = WHISPER_TOKENS / 2;
        }
    }
    transcriber_place(h);
    if (h->o.no_previous || h->heard.temperature > 0.5) h->n_history = 0;
    h->seek += moved > 0 ? moved : size;
    return status;
}

/* Hears the next utterance of at most size frames, which is one segment. (Not of Whisper.) */
static tfm_status transcriber_utter(transcriber *h, int64_t size, tfm_error *err) {
    int64_t n, all = h->t.total < 0 ? INT64_MAX : h->t.total - h->seek * SPEECH_HOP;
    int is_more = all / SPEECH_HOP > size && h->seek + size < h->to;
    float *x = h->t.x + h->seek * SPEECH_HOP + TRACK_LEAD - h->t.first;
    tfm_status status;
    size = h->m.kind ? moonshine_cut(&h->t, h->seek, size, is_more)
                     : canary_cut(&h->c, &h->t, h->seek, size, is_more);
    n = all - size * SPEECH_HOP < SPEECH_HOP ? all
                                             : size * SPEECH_HOP; /* less than a frame remains */
    status = h->m.kind ? moonshine_hear(&h->m, &h->s, &h->w, x, n, &h->heard, err)
                       : canary_hear(&h->c, &h->s, &h->w, x, n, &h->heard, err);
    if (status != TFM_OK || whisper_is_stopped(&h->w)) {
        h->ended = 1;
        return status;
    }
    memset(h->segments, 0, sizeof *h->segments);
    h->segments->begin = (double)h->seek * 0.01;
    h->segments->end = (double)(h->seek + size) * 0.01;
    h->segments->n = h->heard.n;
    status = transcriber_spell(h, 0, err);
    h->n = *words_trim(h->w.text) != 0;
    transcriber_place(h);
    h->seek += size;
    return status;
}

#endif
