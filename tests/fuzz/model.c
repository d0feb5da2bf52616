/* clang -g -O1 -fsanitize=fuzzer,address,undefined -I. -Itools/common -Itests tests/fuzz/model.c
   -lm Changes the config, names, shapes, types and weights of a valid model, and runs every
   function on the result. */
#include "fuzz_model.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const int32_t ids[] = {3, 1, 2};
    char out[512];
    void *bytes = NULL;
    size_t n = 0;
    tfm_model *model = NULL;
    tfm_session *s = NULL;
    tfm_session_options so;
    tfm_model_options mo;
    id_matrix src = tiny_batch(ids, NULL, 1, 3), two = tiny_batch(ids + 1, NULL, 1, 2);
    by_row with;
    tfm_decode_options o = fuzz_options(data, size, &with);
    double scores[3]; /* at most two tokens and the end token */
    tfm_tensor vectors;
    if (!fuzz_changed(data, size, &bytes, &n)) return 0;
    memset(&so, 0, sizeof so), memset(&mo, 0, sizeof mo);
    so.max_source = 8, so.max_beam = 4, so.attention = 1, mo.allocator = fuzz_counting();
    if (tfm_model_load(&model, bytes, n, &mo, &err) != TFM_OK) fuzz_refused(n, model);
    else {
        o.edit_user = model;
        o.lexical_shortlist = tfm_model_config(model)->has_shortlist;
        so.max_shortlist = o.lexical_shortlist ? tfm_model_config(model)->tgt_vocab_size - 1 : 0;
        vectors = tfm_tensor_3d(fuzz_same[size % 8], TFM_DTYPE_F32, 1, 3,
                                tfm_model_config(model)->d_input
                                    ? tfm_model_config(model)->d_input
                                    : tfm_model_config(model)->d_memory);
        if (!tfm_model_config(model)->src_vocab_size) src.ids = NULL, src.memory = &vectors;
        if (src.memory && tfm_model_config(model)->d_input)
            src.embeddings = &vectors, src.memory = NULL;
    }
    if (model && tfm_session_create(&s, model, &so, &err) == TFM_OK) {
        if (tfm_languages_set(s, "deu", "fra", &err) != TFM_OK)
            (void)tfm_languages_set(s, "fra", "fra", &err);
        if (tfm_translate(s, "hello a  world \xe5\xad\xa6", out, sizeof out, &err) == TFM_OK)
            need(test_is_utf8(out, strlen(out)));
        if (tfm_translate(s, " >>deu<< hello", out, sizeof out, &err) == TFM_OK)
            need(test_is_utf8(out, strlen(out)));
        (void)score_rows(s, &src, &two, 0, scores, &err);
        if (decode_rows(s, &src, &with, &o, &err) == TFM_OK) fuzz_results(s, model);
    }
    tfm_session_free(s), tfm_model_free(model);
    return free(bytes), 0;
}
