/* place.h: when the segments and words of a window are spoken, in seconds of the whole sound.
   transcriber.h includes it. */
#ifndef PLACE_H
#define PLACE_H

/* Returns when a moment of the parts with speech is in the sound, at most where the sound ends. A
   word's middle tells which part it is in: of decides. */
static double transcriber_time(const transcriber *h, double at, double of, int is_end) {
    const voice *v = &h->t.parts;
    double last = h->t.total < 0 ? INFINITY
                                 : (double)(v->net ? v->seen : h->t.total) / (int)SOUND_RATE;
    if (v->net && v->n_parts) at = voice_time_in(v, voice_part_of(v, of, is_end), at);
    return fmin(at, last);
}

/* Gives the segments and words of the window their times in the sound. */
static void transcriber_place(transcriber *h) {
    int32_t k, i;
    for (k = 0; k < h->n; k++) {
        whisper_segment *s = &h->segments[k];
        word *at = h->found->at + s->first_word, *first = NULL, *end = NULL;
        s->begin = transcriber_time(h, s->begin, s->begin, 0);
        s->end = transcriber_time(h, s->end, s->end, 1);
        for (i = 0; h->o.with_words && i < s->n_words; i++, at++) {
            double middle = (at->begin + at->end) / 2;
            at->begin = transcriber_time(h, at->begin, middle, 0);
            at->end = transcriber_time(h, at->end, middle, 0);
            if (!at->text[0]) continue;
            if (!first) first = at;
            end = at;
        }
        if (first && h->t.parts.net) s->begin = first->begin, s->end = end->end;
    }
}

#endif
