/* clang -g -O1 -fsanitize=fuzzer,address,undefined -I. -Itools/common -Itests tests/fuzz/whisper.c
   -lm Hears a sound with a changed Whisper file (fuzz_whisper.h). Segments and words must lie
   within what was heard, texts must be UTF-8, and the sound must come to its end. */
#include "fuzz_whisper.h"
#include "examples/transcribe/transcriber.h"

static void check_window(transcriber *h) {
    int32_t k, i;
    need(h->n >= 0 && h->n <= WHISPER_TOKENS && h->heard.n >= 0 && h->heard.n <= WHISPER_TOKENS);
    for (k = 0; k < h->n; k++) {
        const whisper_segment *s = &h->segments[k];
        need(s->first >= 0 && s->n >= 0 && s->first + s->n <= h->heard.n);
        need(fabs(s->begin) < 1e9 && fabs(s->end) < 1e9);
        if (transcriber_spell(h, k, &err) == TFM_OK)
            need(test_is_utf8(h->w.text, strlen(h->w.text)));
        if (!h->o.with_words) continue;
        need(s->first_word >= 0 && s->n_words >= 0 && s->first_word + s->n_words <= h->found->n);
        for (i = s->first_word; i < s->first_word + s->n_words; i++) {
            const word *one = &h->found->at[i];
            need(one->first >= 0 && one->n >= 0 && one->first + one->n <= h->heard.n);
            need(memchr(one->text, 0, sizeof one->text) &&
                 test_is_utf8(one->text, strlen(one->text)));
            need(fabs(one->begin) < 1e9 && fabs(one->end) < 1e9);
        }
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static uint8_t wave[1 << 17];
    static transcriber h;
    const uint8_t *end = data + size;
    unsigned flags = size ? data[0] >> 3 : 0;
    void *bytes = NULL;
    size_t n = 0;
    tfm_model *model = NULL;
    tfm_safetensors *file = NULL;
    tfm_model_options how;
    transcriber_options o;
    track_source source = {NULL, NULL, NULL, 0};
    transcriber *all = &h;
    const char *code;
    if (!fuzz_whisper(&data, end, &bytes, &n)) return 0;
    memset(&how, 0, sizeof how), how.allocator = fuzz_counting();
    transcriber_defaults(&o);
    o.with_words = flags & 1, o.decoding.without_times = flags >> 1 & 1;
    o.decoding.beam = flags & 4 ? 2 : 1, o.decoding.best_of = 2, o.decoding.is_stopped = fuzz_stops;
    if (flags & 8) o.decoding.compression = 0, o.decoding.log_prob = 0, o.decoding.no_speech = 1;
    else o.decoding.n_temperatures = 2;
    if (flags & 16) o.prompt = "a world. b", o.language = "fr";
    source.data = wave, source.size = fuzz_wave(data, end, wave, sizeof wave);
    o.voice.silence = 32 * (flags & 7), o.voice.pad = 32 * (flags >> 3);
    if (flags & 2)
        o.own_words = tfm_text_make((const char *)wave, source.size < 300 ? source.size : 300);
    fuzz_asked = 0;
    if (tfm_model_load(&model, bytes, n, &how, &err) != TFM_OK) fuzz_refused(n, model);
    else if (tfm_safetensors_open(&file, bytes, n, NULL, &err) == TFM_OK &&
             transcriber_load(&h, model, file, 1, 2, 0, &err) == TFM_OK) {
        tfm_status status = transcriber_begin(&h, &o, &source, &err);
        if (status == TFM_OK) status = transcriber_survey(&all, 1, &err);
        while (status == TFM_OK && !h.ended) {
            int64_t seek = h.seek;
            status = transcriber_next(&h, &err);
            if (status == TFM_OK) check_window(&h);
            need(status != TFM_OK || h.ended || h.seek > seek);
        }
        need(status == TFM_OK || err.text[0]);
        code = transcriber_language(&h);
        need(!code || test_is_utf8(code, strlen(code)));
        transcriber_free(&h);
    } else need(err.text[0]);
    tfm_safetensors_free(file), tfm_model_free(model);
    return free(bytes), 0;
}
