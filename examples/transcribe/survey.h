/* survey.h: reads a whole sound once, before a transcriber hears it. transcriber.h includes it. */
#ifndef SURVEY_H
#define SURVEY_H

enum { SURVEY_QUIET = 10 }; /* frames of 10 ms */

/* Finds the loudest value of a whole sound, and where quiet places divide it into n parts, one for
   each transcriber of all, which have begun the same sound. Without it, each window is scaled by
   its own loudest value: so it is for samples that come from a pipe. */
static tfm_status transcriber_survey(transcriber **all, int n, tfm_error *err) {
    transcriber *h = all[0];
    int64_t at = 0, total, size, i, k, n_powers = 0, capacity = 0;
    float *powers = NULL;
    track t;
    tfm_status status = transcriber_open(h, &t, err);
    if (status != TFM_OK) return status;
    t.parts.is_recording = 1;
    while ((size = track_frames(&t, at, SPEECH_FRAMES)) > 0 || at == 0) {
        if (size < 0) break;
        if (size < SPEECH_FRAMES) size++; /* of the silence after the end */
        if (transcriber_is_whisper(h))
            status =
                speech_mel(&h->s, t.x + at * SPEECH_HOP - t.first, size, h->mel, &h->loudest, err);
        for (i = 0; n > 1 && i < size - SURVEY_QUIET; i += SURVEY_QUIET) {
            double sum = 0;
            for (k = 0; k < SURVEY_QUIET; k++) sum += track_power(&t, at + i + k);
            if (n_powers == capacity) {
                float *more;
                capacity = 2 * capacity + 1024;
                more = (float *)realloc(powers, (size_t)capacity * sizeof *powers);
                if (!more) status = TFM_E_MEMORY;
                if (!more) break;
                powers = more;
            }
            powers[n_powers++] = (float)sum;
        }
        at += size;
        if (status != TFM_OK || size < SPEECH_FRAMES || whisper_is_stopped(&h->w)) break;
    }
    total = t.total >= 0 ? t.total / SPEECH_HOP : at;
    h->spoken = t.parts.known, h->n_spoken = t.parts.n_known;
    for (k = 0; k < n; k++) { /* the quietest tenth of a second, at most 15 s from an equal share */
        int64_t middle = n_powers * k / n, best = middle;
        for (i = middle - 150; k > 0 && i <= middle + 150; i++)
            if (i > 0 && i < n_powers && powers[i] < powers[best]) best = i;
        all[k]->loudest = h->loudest;
        all[k]->t.parts.known = h->spoken, all[k]->t.parts.n_known = h->n_spoken;
        all[k]->duration = t.parts.net ? (double)t.parts.seen / (int)SOUND_RATE
                                       : (double)total * 0.01;
        all[k]->from = all[k]->seek = k ? best * SURVEY_QUIET : 0, all[k]->to = total;
        if (k && all[k]->from < all[k - 1]->from) all[k]->from = all[k]->seek = all[k - 1]->from;
        if (k) all[k - 1]->to = all[k]->from;
    }
    if (size < 0) status = transcriber_fail(err, TFM_E_IO, t.fault, "");
    if (status == TFM_E_MEMORY && !err->text[0])
        transcriber_fail(err, status, "no memory for the sound", "");
    free(powers);
    track_close(&t);
    return status;
}

#endif
