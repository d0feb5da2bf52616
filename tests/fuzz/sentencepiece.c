/* clang -g -O1 -fsanitize=fuzzer,address,undefined -I. -Itools/common -Itests
   tests/fuzz/sentencepiece.c Reads a SentencePiece model and tokenizes a text with it. All ids must
   be in range. */
#include "fuzz_pool.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const char text[] =
        "  ab <0x41> \xc3\xa9\x65\xcc\x81 \xef\xbc\xa1 xabcab \xf0\x9f\x91\x8d ";
    uint8_t *large = fuzz_large(data, &size, 1);
    tfm_arena arena = tfm_arena_make(fuzz_room, sizeof fuzz_room);
    tfm__sentencepiece *p = (tfm__sentencepiece *)calloc(1, sizeof *p);
    tfm__pool pool = fuzz_pool(), temporary = pool;
    tfm_text source = tfm_text_make(text, sizeof text - 1);
    tfm__text_reader r;
    tfm__side side;
    tfm__token_cursor cursor;
    tfm__token token;
    memset(&r, 0, sizeof r), memset(&side, 0, sizeof side), err.text[0] = 0;
    r.name = "model", r.pool = &pool, r.temporary = &temporary, r.err = &err;
    side.tokenizer = &tfm__tokenizers[TFM_TEXT_KIND_SENTENCEPIECE];
    if (tfm__spm_read(&r, p, large ? large : data, (int64_t)size) != TFM_OK)
        fuzz_refused(size, NULL);
    else {
        fuzz_bounded(size);
        need(tfm__spm_build(p, &pool, &err) == TFM_OK);
        tfm__spm_attach(&side, p), side.unk_piece = p->unk;
        if (tfm__cursor_begin(&cursor, NULL, &side, TFM_TEXT_FORM_TEXT, &source, NULL, &arena,
                              &err) == TFM_OK)
            while (tfm__cursor_next(&cursor, &token))
                need(token.id >= 0 && token.id < p->vocabulary.n);
    }
    tfm__pool_free(pool), tfm__pool_free(temporary);
    free(large);
    return free(p), 0;
}
