/* A static copy of the library behind one function, whose name is COPY. It leaves out the parts
   that the function does not need, to compile faster. */
#define TRANSFORMER_STATIC
#ifndef TRANSFORMER_NO_TEXT
#define TRANSFORMER_NO_TEXT
#endif
#ifndef TRANSFORMER_NO_SIMD
#define TRANSFORMER_NO_SIMD
#endif
#define TRANSFORMER_IMPLEMENTATION
#include "transformer.h"

double COPY(void);
double COPY(void) {
    float x[2] = {1, 3};
    tfm_tensor t = tfm_tensor_1d(x, TFM_DTYPE_F32, 2);
#ifndef TRANSFORMER_NO_STDIO
    tfm_model_options options;
    tfm_model *model = NULL;
    tfm_error err;
    memset(&options, 0, sizeof options), options.map = 1;
    if (tfm_model_load_file(&model, "x", &options, &err) != TFM_E_ARGUMENT ||
        !strstr(err.text, "compile with TRANSFORMER_MMAP"))
        return 0; /* This copy cannot map files, and says so. */
#endif
    return tfm_layer_norm(&t, &t, NULL, NULL) == TFM_OK ? (double)x[1] : 0;
}
