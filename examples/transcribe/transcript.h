/* transcript.h: writes what a transcriber has heard, as cues.h writes cues. Needs transcriber.h and
   cues.h before it. */
#ifndef TRANSCRIPT_H
#define TRANSCRIPT_H

/* Writes the words from at to end, each as a cue. */
static void transcript_write_words(int lane, const word *at, const word *end, cue_line *out) {
    for (; at < end; at++) {
        cue_clear(out), cue_append_text(out, words_trim(at->text));
        cue_add(lane, at->begin, at->end, out->at);
    }
}

/* Appends the words to the text of a cue of WebVTT, each with the time when it begins. */
static void transcript_append_words(cue_line *out, const word *at, const word *end) {
    for (; at < end; at++) {
        int64_t ms = (int64_t)((at->begin > 0 ? at->begin : 0) * 1000 + 0.5);
        if (!at->text[0]) continue;
        cue_append(out, "<%02d:%02d:%02d.%03d><c>", (int)(ms / 3600000), (int)(ms / 60000 % 60),
                   (int)(ms / 1000 % 60), (int)(ms % 1000));
        cue_append_text(out, at->text);
        cue_append(out, "</c>");
    }
}

/* Appends a segment as an object of JSON. at NULL: without the times of words. */
static void transcript_append_object(cue_line *out, const transcriber *h, const whisper_segment *s,
                                     const char *text, const word *at, const word *end) {
    const whisper_text *heard = &h->heard;
    const char *code = transcriber_language(h);
    int32_t i;
    cue_append(out, "{\"start\": %.2f, \"end\": %.2f, \"text\": ", s->begin, s->end);
    cue_append_text(out, text);
    if (code) cue_append(out, ", \"language\": "), cue_append_text(out, code);
    cue_append(out, ", \"seek\": %d, \"temperature\": %.4g, \"avg_logprob\": ", (int)h->began,
               heard->temperature);
    cue_append_number(out, "%.5f", heard->log_prob);
    cue_append(out, ", \"compression_ratio\": "),
        cue_append_number(out, "%.3f", heard->compression);
    if (heard->no_speech >= 0) cue_append(out, ", \"no_speech_prob\": %.5f", heard->no_speech);
    cue_append(out, ", \"tokens\": [");
    for (i = 0; i < s->n; i++) cue_append(out, i ? ", %d" : "%d", (int)heard->ids[s->first + i]);
    cue_append(out, "]");
    if (at) cue_append(out, ", \"words\": [");
    for (i = 0; at && at < end; at++) {
        if (!at->text[0]) continue;
        cue_append(out, i++ ? ", {\"word\": " : "{\"word\": ");
        cue_append_text(out, at->text);
        cue_append(out, ", \"start\": %.2f, \"end\": %.2f, \"probability\": ", at->begin, at->end);
        cue_append_number(out, "%.4f", at->prob), cue_append(out, "}");
    }
    cue_append(out, at ? "]}" : "}");
}

/* Writes segment k of the last window into a lane of cues. */
static tfm_status transcript_write(int lane, transcriber *h, int32_t k, cue_line *out,
                                   tfm_error *err) {
    const whisper_segment *s = &h->segments[k];
    const word *at = h->o.with_words ? h->found->at + s->first_word : NULL;
    const word *end = at ? at + s->n_words : NULL;
    const char *text;
    tfm_status status = transcriber_spell(h, k, err);
    if (status != TFM_OK) return status;
    text = words_trim(h->w.text), cue_clear(out);
    if (at && (cue_output.form == CUE_TEXT || cue_output.form == CUE_SRT)) {
        transcript_write_words(lane, at, end, out);
        return TFM_OK;
    }
    if (cue_output.form == CUE_JSON) transcript_append_object(out, h, s, text, at, end);
    else if (at) transcript_append_words(out, at, end);
    else cue_append_text(out, text);
    cue_add(lane, s->begin, s->end, out->at);
    return TFM_OK;
}

/* Writes the parts of the sound in which somebody speaks. */
static void transcript_write_parts(transcriber *h) {
    static float samples[SOUND_CHUNK];
    voice *v = &h->t.parts;
    int32_t k = 0, more = 1;
    while (more) {
        more = whisper_is_stopped(&h->w) ? 0 : voice_read(v, &h->t.in, samples, SOUND_CHUNK);
        for (; k < v->n_parts && (!more || k + 1 < v->n_parts); k++) {
            double begin = (double)v->parts[k].begin / (int)SOUND_RATE;
            double end = (double)(v->parts[k].end == VOICE_OPEN ? v->seen : v->parts[k].end) /
                         (int)SOUND_RATE;
            fprintf(cue_file(),
                    cue_output.form == CUE_JSON ? "{\"start\": %.5f, \"end\": %.5f}\n"
                                                : "%.5f %.5f\n",
                    begin, end);
        }
        if (v->fault) cue_fail(v->fault);
    }
    if (fflush(cue_file()) || ferror(cue_file())) cue_fail("the output cannot be written");
}

#endif
