/* clang -g -O1 -fsanitize=fuzzer,address,undefined -I. -Itools/common -Itests tests/fuzz/byte_bpe.c
   -lm Tokenizes a text by a hostile vocabulary with merges and added tokens. The first bytes hold
   the flags and three sizes: bytes of vocabulary, rows of merges (three bytes each) and rows of
   added tokens (two bytes each). These tables and the text follow. */
#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static unsigned char merges[12 * 256], added[8 * 256];
    static char out[1 << 16];
    int32_t ids[1024], n = 0, i;
    tfm_arena arena = tfm_arena_make(fuzz_room, sizeof fuzz_room);
    tfm_model_options mo;
    tfm_model *m = NULL;
    tiny t = tiny_default();
    st_writer w;
    void *bytes;
    size_t length = 0, at, rows, more, k;
    if (size < 4 || size < 4u + data[1] + 3u * data[2] + 2u * data[3]) return 0;
    at = 4u + data[1], rows = data[2], more = data[3];
    for (k = 0; k < 3 * rows; k++) merges[4 * k] = data[at + k];
    for (k = 0; k < 2 * more; k++) added[4 * k] = data[at + 3 * rows + k];
    memset(&mo, 0, sizeof mo), mo.allocator = fuzz_counting();
    t.config = data[0] & 1 ? FUZZ_IDS ", \"src_text\": \"byte_bpe\", \"tgt_text\": \"byte_bpe\""
                           : FUZZ_IDS ", \"src_text\": \"byte_bpe\", \"tgt_text\": \"byte_bpe\", "
                                      "\"prefix_space\": \"add\"";
    t.d = 4, t.key = t.value = 2, t.ff = 4, t.encoder = t.decoder = 1, t.vs = 0;
    for (k = 4; k < at; k++) t.vs += data[k] == '\n';
    t.vt = t.vs;
    tiny_write(&w, t);
    st_add(&w, "src_vocabulary", tfm_tensor_1d((void *)(data + 4), TFM_DTYPE_U8, data[1]));
    st_add(&w, "src_merges", tfm_tensor_2d(merges, TFM_DTYPE_U32, (int64_t)rows, 3));
    st_add(&w, "src_added", tfm_tensor_2d(added, TFM_DTYPE_U32, (int64_t)more, 2));
    bytes = tiny_bytes(&w, &length);
    if (tfm_model_load(&m, bytes, length, &mo, &err) != TFM_OK) return fuzz_refused(length, m), 0;
    data += at + 3 * rows + 2 * more, size -= at + 3 * rows + 2 * more;
    if (tfm_model_tokenize(m, tfm_text_make((const char *)data, size), TFM_TEXT_FORM_TEXT, ids,
                           1024, &n, &arena, &err) == TFM_OK) {
        for (i = 0; i < n; i++) need(ids[i] >= 0 && ids[i] < t.vs);
        need(tfm_model_detokenize(m, ids, n, TFM_TEXT_FORM_TEXT, out, sizeof out, &length, &err) ==
             TFM_OK);
        need(out[length] == 0 && test_is_utf8(out, length));
    }
    tfm_model_free(m);
    return 0;
}
