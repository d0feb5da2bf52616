/* clang -g -O1 -fsanitize=fuzzer,address,undefined -I. -Itools/common -Itests
   tests/fuzz/moonshine.c -lm

   Hears a sound with a changed file of Moonshine, Canary or Cohere. The first byte chooses one of
   four kept files and says how many bytes of its header change, and whether the sound is heard
   live. Three bytes follow for each change: two say where, and the third is the new byte. Texts
   must be UTF-8, and the sound must come to its end. */
#include "fuzz_live.h"

enum { FUZZ_SIZE = 1 << 18, FUZZ_CHANGES = 16 };

/* Reads a kept file. Returns its size, and the end of its header in *header. */
static size_t fuzz_kept(int which, char *bytes, size_t *header) {
    static char kept[4][FUZZ_SIZE];
    static size_t sizes[4];
    static const char *const paths[4] = {"tests/data/transcribe/moonshine.safetensors",
                                         "tests/data/transcribe/moonshine-streaming.safetensors",
                                         "tests/data/transcribe/canary.safetensors",
                                         "tests/data/transcribe/cohere.safetensors"};
    FILE *f = sizes[which] ? NULL : fopen(paths[which], "rb");
    if (f) sizes[which] = fread(kept[which], 1, FUZZ_SIZE, f), fclose(f);
    need(sizes[which] > 8); /* run it in the repository */
    memcpy(bytes, kept[which], sizes[which]);
    *header = 8 + (unsigned char)bytes[0] + 256u * (unsigned char)bytes[1];
    return sizes[which];
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static char bytes[FUZZ_SIZE];
    static uint8_t wave[1 << 17];
    static transcriber h;
    const uint8_t *end = data + size;
    unsigned flags = fuzz_byte(&data, end);
    size_t header, n = fuzz_kept((flags & 1) | (flags >> 4 & 2), bytes, &header);
    int changes = (int)(flags >> 1) % FUZZ_CHANGES;
    tfm_model *model = NULL;
    tfm_safetensors *file = NULL;
    tfm_model_options how;
    transcriber_options o;
    track_source source = {NULL, NULL, NULL, 0};
    transcriber *all = &h;
    for (; changes > 0; changes--) {
        size_t at = fuzz_byte(&data, end);
        at = (at << 8 | fuzz_byte(&data, end)) % header;
        bytes[at] = (char)fuzz_byte(&data, end);
    }
    memset(&how, 0, sizeof how), how.allocator = fuzz_counting();
    transcriber_defaults(&o);
    o.decoding.beam = flags & 64 ? 2 : 1, o.voice.pad = 0;
    if (flags & 32) o.language = "de"; /* of Canary and Cohere, which do not detect it */
    source.data = wave, source.size = fuzz_wave(data, end, wave, sizeof wave);
    if (tfm_model_load(&model, bytes, n, &how, &err) != TFM_OK) fuzz_refused(n, model);
    else if (flags & 128 && tfm_safetensors_open(&file, bytes, n, NULL, &err) == TFM_OK &&
             transcriber_load(&h, model, file, 1, TRANSCRIBER_LIVE, 0, &err) == TFM_OK) {
        static float x[FUZZ_LIVE_ROOM];
        live_options when;
        live_defaults(&when);
        when.pause = 0.1, when.lead = 0.05, when.shortest = 0.1, when.longest = 0.5;
        fuzz_live(&h, &o, &when, x, fuzz_samples(wave, source.size, x), 700);
        transcriber_free(&h);
    } else if (file || flags & 128) need(err.text[0]);
    else if (tfm_safetensors_open(&file, bytes, n, NULL, &err) == TFM_OK &&
             transcriber_load(&h, model, file, 1, 2, 0, &err) == TFM_OK) {
        tfm_status status = transcriber_begin(&h, &o, &source, &err);
        if (status == TFM_OK) status = transcriber_survey(&all, 1, &err);
        while (status == TFM_OK && !h.ended) {
            int64_t seek = h.seek;
            int32_t k;
            status = transcriber_next(&h, &err);
            for (k = 0; status == TFM_OK && k < h.n; k++)
                if (transcriber_spell(&h, k, &err) == TFM_OK)
                    need(test_is_utf8(h.w.text, strlen(h.w.text)));
            need(status != TFM_OK || h.ended || h.seek > seek);
        }
        need(status == TFM_OK || err.text[0]);
        transcriber_free(&h);
    } else need(err.text[0]);
    tfm_safetensors_free(file), tfm_model_free(model);
    return 0;
}
