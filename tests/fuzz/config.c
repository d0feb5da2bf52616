/* clang -g -O1 -fsanitize=fuzzer,address,undefined -I. -Itools/common -Itests tests/fuzz/config.c
   -lm Parses the input as JSON, and as the config of a model. */
#include "fuzz_pool.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    tfm__json j;
    tfm__pool pool = fuzz_pool();
    tfm__config_stated stated;
    char *text = (char *)malloc(size + 1);
    if (!text || tfm__utf8_fault((const char *)data, size) >= 0) return free(text), 0;
    j.begin = j.at = (const char *)data, j.end = j.at + size;
    (void)tfm__json_count(&j, '{');
    need(j.at >= j.begin && j.at <= j.end);
    if (size) memcpy(text, data, size);
    text[size] = 0;
    err.text[0] = 0;
    if (tfm__config_read(text, &pool, &stated, &err) != TFM_OK) fuzz_refused(size, NULL);
    else
        need(stated.config.n_heads > 0 && stated.config.n_suppressed >= 0 &&
             stated.config.end >= -1);
    tfm__pool_free(pool);
    return free(text), 0;
}
