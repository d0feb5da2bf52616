/* clang -g -O1 -fsanitize=fuzzer,address,undefined -I. -Itools -Itests tests/fuzz/sentencepiece.c
   A SentencePiece model, and a text cut by it: ids are in range. (Memory of the size of units.) */
#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const char text[] =
        "  ab <0x41> \xc3\xa9\x65\xcc\x81 \xef\xbc\xa1 xabcab \xf0\x9f\x91\x8d ";
    tfm_arena arena = tfm_arena_make(fuzz_room, sizeof fuzz_room);
    tfm__sentencepiece *p = (tfm__sentencepiece *)calloc(1, sizeof *p);
    tfm__pool pool = fuzz_pool(), temporary = pool;
    tfm__spm_reader r;
    tfm__spm_work work;
    tfm__spm_target to;
    int64_t n;
    memset(&r, 0, sizeof r), memset(&to, 0, sizeof to), err.text[0] = 0;
    r.name = "model", r.pool = &pool, r.temporary = &temporary, r.err = &err, to.v = &p->vocabulary;
    if (tfm__spm_read(&r, p, data, (int64_t)size) != TFM_OK) fuzz_refused(size, NULL);
    else if (tfm__spm_cut(p, text, sizeof text - 1, &arena, &work, &err) == TFM_OK) {
        static int32_t ids[1 << 16];
        need((n = tfm__spm_emit(p, &work, &to, NULL)) <= 1 << 16);
        for (need(tfm__spm_emit(p, &work, &to, ids) == n); n-- > 0;)
            need(ids[n] >= 0 && ids[n] < p->vocabulary.n);
    }
    tfm__pool_free(&pool), tfm__pool_free(&temporary);
    return free(p), 0;
}
