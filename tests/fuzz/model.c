/* clang -g -O1 -fsanitize=fuzzer,address,undefined -I. -Itools -Itests tests/fuzz/model.c -lm
   Changes config, names, shapes, types and weights of a valid model, and translates with it. */
#include "fuzz_model.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char out[512];
    void *bytes = NULL;
    size_t n = 0;
    tfm_model *model = NULL;
    tfm_session *s = NULL;
    tfm_session_options so;
    tfm_decode_options o = fuzz_options(data, size);
    if (!fuzz_changed(data, size, &bytes, &n)) return 0;
    memset(&so, 0, sizeof so);
    so.max_source = 8, so.max_beam = 4, so.attention = 1;
    if (tfm_model_load(&model, bytes, n, NULL, &err) != TFM_OK) need(!model && err.text[0]);
    else if (tfm_session_create(&s, model, &so, &err) == TFM_OK) {
        static const int32_t ids[] = {3, 1, 2};
        tfm_batch src = tiny_batch(ids, NULL, 1, 3);
        (void)tfm_translate(s, "hello a  world", out, sizeof out, &err);
        if (tfm_decode(s, &src, &o, &err) == TFM_OK) fuzz_results(s, model);
    }
    tfm_free_session(s), tfm_free_model(model);
    return free(bytes), 0;
}
