/* clang -g -O1 -fsanitize=fuzzer,address,undefined -I. -Itools/common -Itests
   tests/fuzz/vocabulary.c -lm Reads a vocabulary of any lines and spellings. Every token that was
   read must be found again. */
#include "fuzz_pool.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    uint8_t *large = fuzz_large(data, &size, 0);
    const char *text = (const char *)(large ? large : data);
    tfm__pool pool = fuzz_pool();
    tfm__text_reader r;
    tfm__vocabulary v;
    int32_t lines = 0;
    size_t k;
    int64_t i;
    for (k = 0; k < size; k++) lines += text[k] == '\n';
    memset(&v, 0, sizeof v), err.text[0] = 0;
    memset(&r, 0, sizeof r);
    r.name = "v", r.pool = r.temporary = &pool, r.err = &err;
    if (tfm__read_vocabulary(&r, &v, text, (int64_t)size, lines) == TFM_OK) {
        fuzz_bounded(size);
        need(tfm__build_vocabulary(&v, &pool, &err) == TFM_OK && v.n == lines);
        for (i = 0; i < v.n_spellings; i++)
            need(tfm__find_token(&v, v.spellings[i].text, v.spellings[i].size) ==
                 v.spellings[i].id);
    } else fuzz_refused(size, NULL);
    tfm__pool_free(pool);
    free(large);
    return 0;
}
