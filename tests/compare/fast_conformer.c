/* fast_conformer: what Canary and Cohere Transcribe compute of a sound, for
   tests/tools/test_canary.py.

       build/fast_conformer MODEL SAMPLES.f32 BEAM LANGUAGE [TO [plain]]

   The first line has the numbers of rows and columns of the memory, the second line its numbers,
   the third the ids of the text, and what follows is the text. */
#include "transformer.h"
#include <stdio.h>
#if defined(__GNUC__)
#pragma GCC diagnostic ignored "-Wunused-function" /* of the headers */
#endif
#include "examples/transcribe/transcriber.h"

static void fail(const char *what) {
    fprintf(stderr, "fast_conformer: %s\n", what);
    exit(2);
}

int main(int argc, char **argv) {
    static transcriber h;
    static whisper_text heard;
    static float samples[CONFORMER_SECONDS * SOUND_RATE];
    transcriber_options o;
    tfm_safetensors *file;
    tfm_model *model;
    tfm_tensor rows;
    tfm_error err;
    int64_t n, i, k;
    FILE *f = argc >= 5 ? fopen(argv[2], "rb") : NULL;
    if (!f) fail("MODEL SAMPLES.f32 BEAM LANGUAGE [TO [plain]]");
    n = (int64_t)fread(samples, sizeof *samples, sizeof samples / sizeof *samples, f);
    fclose(f);
    transcriber_defaults(&o);
    o.language = argv[4], o.to = argc > 5 ? argv[5] : NULL, o.no_punctuation = argc > 6;
    o.decoding.beam = atoi(argv[3]);
    if (tfm_safetensors_open_file(&file, argv[1], NULL, &err) != TFM_OK ||
        tfm_model_load_file(&model, argv[1], NULL, &err) != TFM_OK ||
        transcriber_load(&h, model, file, 1, o.decoding.beam, 0, &err) != TFM_OK ||
        transcriber_set(&h, &o, &err) != TFM_OK ||
        canary_hear(&h.c, &h.s, &h.w, samples, n, &heard, &err) != TFM_OK ||
        conformer_encode(&h.c.f, &h.s, samples, n, &rows, &err) != TFM_OK)
        fail(err.text);
    printf("%d %d\n", (int)rows.dims[0], (int)rows.dims[1]);
    for (i = 0; i < rows.dims[0]; i++)
        for (k = 0; k < rows.dims[1]; k++)
            printf("%.9g ", ((const float *)rows.data)[i * rows.dims[1] + k]);
    printf("\n");
    for (i = 0; i < heard.n; i++) printf("%d ", (int)heard.ids[i]);
    printf("\n%s", h.w.text);
    transcriber_free(&h), tfm_model_free(model), tfm_safetensors_free(file);
    return 0;
}
