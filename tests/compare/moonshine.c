/* moonshine: what Moonshine computes of a sound, for tests/tools/test_moonshine.py.

       build/moonshine MODEL SAMPLES.f32 BEAM PIECE

   The first line has the shape of what the stem gives (Moonshine) or of the memory (streaming,
   which is fed in pieces of PIECE samples; 0: none of this, the text alone), the second line its
   numbers, the third the ids of the text, and what follows is the text. */
#include "transformer.h"
#include <stdio.h>
#if defined(__GNUC__)
#pragma GCC diagnostic ignored "-Wunused-function" /* of the headers */
#endif
#include "examples/transcribe/transcriber.h"

static void fail(const char *what) {
    fprintf(stderr, "moonshine: %s\n", what);
    exit(2);
}

int main(int argc, char **argv) {
    static transcriber h;
    static whisper_text heard;
    static float samples[SPEECH_FRAMES * SPEECH_HOP];
    tfm_safetensors *file;
    tfm_model *model;
    tfm_tensor rows;
    tfm_error err;
    int64_t n, i, k, piece;
    FILE *f = argc == 5 ? fopen(argv[2], "rb") : NULL;
    if (!f) fail("moonshine MODEL SAMPLES.f32 BEAM PIECE");
    n = (int64_t)fread(samples, sizeof *samples, sizeof samples / sizeof *samples, f);
    fclose(f);
    if (tfm_safetensors_open_file(&file, argv[1], NULL, &err) != TFM_OK ||
        tfm_model_load_file(&model, argv[1], NULL, &err) != TFM_OK ||
        transcriber_load(&h, model, file, 1, atoi(argv[3]), 0, &err) != TFM_OK)
        fail(err.text);
    h.w.options.beam = atoi(argv[3]);
    piece = atoi(argv[4]);
    memset(&rows, 0, sizeof rows);
    if (!piece) {
    } else if (h.m.kind == MOONSHINE_WHOLE) {
        if (moonshine_stem(&h.m, &h.s, samples, n, &rows, &err) != TFM_OK) fail(err.text);
    } else {
        static listen l;
        listen_sink to = {h.m.memory, h.m.listen.width, listen_positions(&h.m.listen, n), 0};
        if (listen_begin(&l, &h.m.listen, &err) != TFM_OK) fail(err.text);
        for (i = 0; i < n; i += piece)
            if (listen_feed(&l, samples + i, piece < n - i ? piece : n - i, listen_keep, &to,
                            &err) != TFM_OK)
                fail(err.text);
        if (listen_finish(&l, listen_keep, &to, &err) != TFM_OK) fail(err.text);
        listen_end(&l);
        rows = tfm_tensor_2d(h.m.memory, TFM_DTYPE_F32, to.n, h.m.listen.width);
    }
    printf("%d %d\n", (int)rows.dims[0], (int)rows.dims[1]);
    for (i = 0; i < rows.dims[0]; i++)
        for (k = 0; k < rows.dims[1]; k++)
            printf("%.9g ", ((const float *)rows.data)[i * rows.dims[1] + k]);
    if (moonshine_hear(&h.m, &h.s, &h.w, samples, n, &heard, &err) != TFM_OK) fail(err.text);
    printf("\n");
    for (i = 0; i < heard.n; i++) printf("%d ", (int)heard.ids[i]);
    printf("\n%s", h.w.text);
    transcriber_free(&h), tfm_model_free(model), tfm_safetensors_free(file);
    return 0;
}
