/* clang -g -O1 -fsanitize=fuzzer,address,undefined -I. -Itools/common -Itests tests/fuzz/tools.c
   -lm Runs quantize, inspect or forward on changed models and ids. The first byte chooses the
   tool. */
#include "fuzz_tool.h"
#define main quantize_main
#define usage quantize_usage
#define fail quantize_fail
#define misuse quantize_misuse
#include "tools/model/quantize.c"
#undef main
#undef usage
#undef fail
#undef misuse
#define main inspect_main
#define usage inspect_usage
#define fail inspect_fail
#define misuse inspect_misuse
#include "tools/model/inspect.c"
#undef main
#undef usage
#undef fail
#undef misuse
#define main forward_main
#define usage forward_usage
#define fail forward_fail
#define misuse forward_misuse
#include "tools/model/forward.c"
#undef main

/* If the input loads, the file that quantize writes must load too. */
static int try_quantize(const uint8_t *data, size_t size) {
    static const char *const types[] = {"int8", "bf16", "f16", "f32"};
    const char *arguments[] = {"quantize", NULL, NULL, NULL, NULL};
    tfm_model *model = NULL;
    tfm_safetensors *file = NULL;
    int loads;
    fuzz_write_model(data, size);
    arguments[1] = fuzz_paths[0], arguments[2] = fuzz_paths[2];
    arguments[3] = types[size ? data[size - 1] & 3 : 0];
    if (fuzz_run(quantize_main, arguments)) return 0;
    need(tfm_safetensors_open_file(&file, fuzz_paths[2], NULL, &err) == TFM_OK);
    tfm_safetensors_free(file);
    loads = tfm_model_load_file(&model, fuzz_paths[0], NULL, &err) == TFM_OK;
    tfm_model_free(model), model = NULL;
    need(!loads || tfm_model_load_file(&model, fuzz_paths[2], NULL, &err) == TFM_OK);
    tfm_model_free(model);
    return 0;
}

/* inspect must succeed for files that load, and only for those. */
static int try_inspect(const uint8_t *data, size_t size) {
    static const char *const tokens[] = {"1", "7", "1000000", "32"};
    const char *arguments[] = {"inspect", NULL, "--src", NULL, "--tgt", NULL, "--tensors", NULL};
    int last = size ? data[size - 1] : 0, status;
    tfm_model *model = NULL;
    fuzz_write_model(data, size);
    arguments[1] = fuzz_paths[0], arguments[3] = tokens[last & 3],
    arguments[5] = tokens[last >> 2 & 3];
    if (last & 16) arguments[6] = NULL;
    status = fuzz_run(inspect_main, arguments);
    need(status == (tfm_model_load_file(&model, fuzz_paths[0], NULL, &err) != TFM_OK));
    tfm_model_free(model);
    return 0;
}

/* Writes src, tgt and their lengths as the first ten bytes choose, one choice a byte; or writes
   data unchanged. */
static void write_ids(const uint8_t *data, size_t size) {
    static const char *const names[] = {"src", "tgt", "src_lengths", "tgt_lengths"};
    static const tfm_dtype dtypes[] = {TFM_DTYPE_I32, TFM_DTYPE_I64, TFM_DTYPE_I32, TFM_DTYPE_U8};
    static int64_t wide[256];
    static int32_t narrow[512]; /* forward reads U8 too */
    st_writer w;
    void *bytes = NULL;
    size_t n = 0, i;
    if (size < 10 || data[0] & 128) {
        fuzz_write(1, data, size);
        return;
    }
    for (i = 0; i < 256; i++) wide[i] = i + 10 < size ? (int8_t)data[i + 10] : (int64_t)(i % 11);
    for (i = 0; i < 512; i++) narrow[i] = (int32_t)wide[i % 256];
    st_init(&w);
    for (i = 0; i < 4; i++) {
        tfm_dtype dtype = dtypes[data[i + 1] & 3];
        int64_t dims[3];
        dims[0] = 1 + (data[i + 1] >> 2 & 3), dims[1] = data[i + 5] % 16, dims[2] = 1;
        if (data[9] >> i & 1) continue;
        st_add(&w, data[9] >> 4 == (int)i + 1 ? "other" : names[i],
               tfm_tensor_make(dtype == TFM_DTYPE_I64 ? (void *)wide : (void *)narrow, dtype,
                               data[i + 1] >> 6 == 3 ? 3
                               : i < 2               ? 2
                                                     : 1,
                               dims));
    }
    if (st_write_memory(&w, &bytes, &n) == NULL) fuzz_write(1, bytes, n);
    else fuzz_write(1, data, size);
    st_free(&w);
    free(bytes);
}

static int try_forward(const uint8_t *data, size_t size) {
    const char *arguments[] = {"forward", NULL, NULL, NULL, NULL, NULL, NULL};
    size_t ids = size / 2;
    tfm_safetensors *file = NULL;
    int n = 4, last = size ? data[size - 1] : 0;
    write_ids(data, ids);
    fuzz_write_model(data + ids, size - ids);
    arguments[1] = fuzz_paths[0], arguments[2] = fuzz_paths[1], arguments[3] = fuzz_paths[2];
    if (last & 1) arguments[n++] = "--attention";
    if (last & 2) arguments[n++] = "--not-causal";
    if (fuzz_run(forward_main, arguments)) return 0;
    need(tfm_safetensors_open_file(&file, fuzz_paths[2], NULL, &err) == TFM_OK);
    need(tfm_safetensors_count(file) == (last & 1 ? 5 : 2));
    need(tfm_safetensors_find(file, "logits") >= 0 && tfm_safetensors_find(file, "memory") >= 0);
    tfm_safetensors_free(file);
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (!size) return 0;
    if (data[0] % 3 == 0) return try_quantize(data + 1, size - 1);
    return data[0] % 3 == 1 ? try_inspect(data + 1, size - 1) : try_forward(data + 1, size - 1);
}
