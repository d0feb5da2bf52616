/* clang -g -O1 -fsanitize=fuzzer,address,undefined -I. -Itools/common -Itests tests/fuzz/live.c -lm
   Hears live sound with a changed Whisper file (fuzz_whisper.h) and any options. Four bytes stand
   before the file: the size of pieces, the rule and the history, an option, and its value. What
   must hold is in fuzz_live.h. */
#include "fuzz_live.h"

/* Returns options whose windows have up to a second, because the model hears no more. */
static live_options fuzz_options(unsigned rule, unsigned which, unsigned value) {
    static const double values[] = {0,  NAN,   INFINITY, -1,   1e-9, 0.001, 0.01, 0.02,
                                    .1, 0.125, 0.3,      0.49, 0.5,  1,     30,   1e300};
    live_options o;
    double *const numbers[] = {&o.step, &o.guard,    &o.pause, &o.lead, &o.doubt,   &o.look,
                               &o.gap,  &o.shortest, &o.room,  &o.kept, &o.longest, &o.longest};
    live_defaults(&o);
    o.step = 0.05, o.guard = 0.05, o.pause = 0.2, o.lead = 0.05, o.shortest = 0.1, o.gap = 0.1;
    o.room = 0.1, o.longest = 0.8, o.kept = 0.4;
    *numbers[which % FUZZ_COUNT(numbers)] = values[value % FUZZ_COUNT(values)];
    /* A second number: two that do not fit are refused, or must do no harm. */
    *numbers[which / 16 % FUZZ_COUNT(numbers)] = values[value / 16 % FUZZ_COUNT(values)];
    o.rule = (live_rule)(rule & 3), o.without_drafts = rule >> 2 & 1;
    o.history = (int32_t)(rule >> 3) * 8 - 8;
    return o;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const int64_t pieces[] = {1, 77, 320, 700, 4096, 16000, 65536, 512};
    static uint8_t wave[1 << 17];
    static float x[FUZZ_LIVE_ROOM];
    static transcriber h;
    const uint8_t *end = data + size;
    unsigned how_fed = fuzz_byte(&data, end), rule = fuzz_byte(&data, end);
    unsigned which = fuzz_byte(&data, end), value = fuzz_byte(&data, end);
    live_options o = fuzz_options(rule, which, value);
    void *bytes = NULL;
    size_t n = 0;
    tfm_model *model = NULL;
    tfm_safetensors *file = NULL;
    tfm_model_options how;
    transcriber_options settings;
    if (!fuzz_whisper(&data, end, &bytes, &n)) return 0;
    memset(&how, 0, sizeof how), how.allocator = fuzz_counting();
    transcriber_defaults(&settings);
    settings.decoding.is_stopped = fuzz_stops, fuzz_asked = 0;
    if (how_fed & 8) settings.decoding.compression = settings.decoding.log_prob = 0;
    if (how_fed & 16) settings.prompt = "a world. b", settings.language = "fr";
    if (how_fed & 32) settings.own_words = tfm_text_make(" world\na\n", 9);
    if (tfm_model_load(&model, bytes, n, &how, &err) != TFM_OK) fuzz_refused(n, model);
    else if (tfm_safetensors_open(&file, bytes, n, NULL, &err) == TFM_OK &&
             transcriber_load(&h, model, file, 1, TRANSCRIBER_LIVE, 0, &err) == TFM_OK) {
        fuzz_live(&h, &settings, &o, x,
                  fuzz_samples(wave, fuzz_wave(data, end, wave, sizeof wave), x),
                  pieces[how_fed & 7]);
        transcriber_free(&h);
    } else need(err.text[0]);
    tfm_safetensors_free(file), tfm_model_free(model);
    return free(bytes), 0;
}
