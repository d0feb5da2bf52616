/* clang -g -O1 -fsanitize=fuzzer,address,undefined -I. -Itools/common -Itests tests/fuzz/sound.c
   -lm Reads any bytes as a WAV file, as raw samples, or as what they begin with: the first byte
   tells. Samples must be finite, and there cannot be more of them than the file's bytes and the
   largest ratio of rates allow. The bytes in memory give the same sound. */
#define _POSIX_C_SOURCE 200809L
#include "fuzz.h"

#include "examples/transcribe/sound.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static float out[1000], again[1000];
    sound s, m;
    FILE *file;
    sound_form form;
    int32_t n, i;
    size_t total = 0;
    if (size < 2 || !(file = fmemopen((void *)(uintptr_t)(data + 1), size - 1, "rb"))) return 0;
    form = data[0] & 1 ? SOUND_RAW : data[0] & 2 ? SOUND_ANY : SOUND_WAV;
    if (!sound_open(&s, file, form)) {
        need(!sound_open_memory(&m, data + 1, size - 1, form));
        while ((n = sound_read(&s, out, 1 + data[0] * 3)) > 0 && total < 1000000) {
            need(sound_read(&m, again, 1 + data[0] * 3) == n &&
                 memcmp(out, again, (size_t)n * sizeof *out) == 0);
            for (i = 0, total += (size_t)n; i < n; i++) need(out[i] >= -1e7f && out[i] <= 1e7f);
        }
        need(total <= 17 * size || total >= 1000000);
        sound_close(&s), sound_close(&m);
    }
    fclose(file);
    return 0;
}
