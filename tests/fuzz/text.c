/* clang -g -O1 -fsanitize=fuzzer,address,undefined -I. -Itools/common -Itests tests/fuzz/text.c -lm
   Tokenizes, decodes and translates a text with models of words, characters, unigram (also with
   denormalization) and BPE, also taken apart by texts.h. All output must be UTF-8. */
#include "fuzz.h"

#include "examples/translate/text/texts.h"

static int check_translated(void *user, const tfm_translated *t) {
    need((t->status == TFM_OK) == !t->message[0] && (t->status == TFM_OK || !t->text.size));
    need(t->text.data[t->text.size] == 0 && test_is_utf8(t->text.data, t->text.size));
    ++*(int *)user;
    return 0;
}

/* Translates a text sentence by sentence. */
static void translate_sentences(const tfm_model *m, int kind, tfm_text in) {
    static tfm_translator *translators[5];
    static tfm_decode_options greedy;
    tfm_request request = tfm_request_text(in.data, in.size);
    tfm_translator_options how;
    int n = 0;
    memset(&how, 0, sizeof how);
    how.sentences = TFM_SENTENCES_SPLIT, how.max_source = 16, how.decoding = &greedy;
    if (!translators[kind])
        need(tfm_translator_create(&translators[kind], m, &how, &err) == TFM_OK);
    need(tfm_translator_run(translators[kind], &request, 1, check_translated, &n, &err) == TFM_OK);
    need(n == 1);
}

static int check_text(void *user, const texts_result *t) {
    need((t->of.status == TFM_OK) == !t->of.message[0]);
    need(t->of.status == TFM_OK || !t->of.text.size);
    need(t->left + t->unknown <= (int64_t)t->of.request->text.size);
    if (test_is_utf8(t->of.request->text.data, t->of.request->text.size))
        need(test_is_utf8(t->of.text.data, t->of.text.size));
    ++*(int *)user;
    return 0;
}

/* Translates a text and its end with texts.h, as of a model that reads sentences. */
static void translate_texts_apart(const tfm_model *m, int kind, tfm_text in) {
    static texts_translator *translators[5];
    static tfm_decode_options greedy;
    texts_translator *t = translators[kind];
    tfm_request requests[2];
    texts_options o;
    int n = 0;
    if (!t) {
        memset(&o, 0, sizeof o);
        greedy.max_length = 8; /* random weights seldom end a translation */
        o.of.sentences = TFM_SENTENCES_SPLIT, o.of.max_source = 16, o.of.decoding = &greedy;
        need(texts_create(&t, m, &o, &err) == TFM_OK);
        t->surrounds = t->looks = 1;
        languages_begin(&t->languages);
        translators[kind] = t;
    }
    requests[0] = tfm_request_text(in.data, in.size);
    requests[1] = tfm_request_text(in.data + in.size / 2, in.size - in.size / 2);
    need(texts_run(t, requests, 2, check_text, &n, &err) == TFM_OK && n == 2);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static tfm_session *sessions[5];
    static char out[1 << 16];
    int kind = size ? (data[0] & 11) == 10 ? 4 : data[0] & 3 : 0;
    tfm_model *m = fuzz_text_model(kind);
    const char *text = (const char *)data + 1;
    tfm_arena arena = tfm_arena_make(fuzz_room, sizeof fuzz_room);
    tfm_text_form form = (tfm_text_form)(size ? data[0] >> 4 & 2 ? 2 : data[0] >> 2 & 1 : 0);
    int32_t ids[1024], again[1024], n = 0, i;
    tfm_span spans[1024];
    size_t length = 0;
    tfm_text in, translated;
    tfm_decode_options options;
    tfm_result result;
    if (!size) return 0;
    if (!sessions[kind]) sessions[kind] = tiny_session(m, 1, 16, 16);
    in.data = text, in.size = size - 1;
    if (session_tokens(sessions[kind], &in, form, again, spans, 1024, &n, NULL, &err) == TFM_OK)
        for (i = 0; i < n; i++)
            need(spans[i].begin <= spans[i].end && spans[i].end < size &&
                 (!i || spans[i].begin >= spans[i - 1].begin));
    if (tfm_model_tokenize(m, tfm_text_make(text, size - 1), form, ids, 1024, &n, &arena, &err) ==
        TFM_OK) {
        for (i = 0; i < n; i++) need(ids[i] >= 0 && ids[i] < tfm_model_config(m)->src_vocab_size);
        need(tfm_model_detokenize(m, ids, n, TFM_TEXT_FORM_TEXT, out, sizeof out, &length, &err) ==
             TFM_OK);
        need(out[length] == 0 && test_is_utf8(out, length));
    }
    memset(&options, 0, sizeof options);
    options.skip_errors = 1;
    if (translate_texts(sessions[kind], &in, NULL, &translated, 1, &options, out, sizeof out,
                        &err) == TFM_OK) {
        need(tfm_result_get(sessions[kind], 0, 0, &result, &err) == TFM_OK);
        need((result.status == TFM_OK) == !result.message[0]);
        need(result.status == TFM_OK || !translated.size);
        need(translated.size + 1 == tfm_translation_size(sessions[kind]));
        need(test_is_utf8(translated.data, translated.size));
    }
    translate_sentences(m, kind, in);
    translate_texts_apart(m, kind, in);
    if (tfm_model_tokenize_target(m, tfm_text_make(text, size - 1), form, ids, 1024, &n, &arena,
                                  &err) == TFM_OK)
        need(tfm_model_detokenize(m, ids, n, form, out, sizeof out, &length, &err) == TFM_OK &&
             test_is_utf8(out, length));
    return 0;
}
