/* Text: how texts become tokens and tokens become texts, which texts are refused, and tfm_translate
   against the calls that it consists of. */
#include "transformer.h"
#include "tiny.h"

#define SPACE "\xe2\x96\x81"
/* ids:                     0     1    2     3      4       5   6  7  8                9   10 */
static const char words[] = "<pad>\n<s>\n</s>\n<unk>\nhello\nworld\na\nb\nna\xc3\xafve\nx\ny\n";
static const char characters[] =
    "<pad>\n<s>\n</s>\n<unk>\n" SPACE
    "\n\xe5\xad\xa6\t\xe5\xad\xb8\t\xf0\xa4\x8b\xae\na\nb\n!\tB\tC\nx\ny\n";
static const char pieces[] = "<pad>\n<s>\n</s>\n<unk>\n" SPACE "hel\nlo\n" SPACE
                             "wor\nld\n.\n" SPACE "\nx" SPACE "y\n'\nz\n";

static tfm_model *text_model(const char *src, const char *kinds) {
    static char config[256];
    tiny t = tiny_default();
    snprintf(config, sizeof config, ", \"start\": 1, \"end\": 2, \"src_pad\": 0%s", kinds);
    t.src = src, t.tgt = pieces, t.config = config;
    return tiny_model(t);
}

/* Returns the ids of a text as "4 5 6", or the error. */
static const char *ids_of(const tfm_model *m, const char *text, size_t size, tfm_text_form form) {
    static char shown[512];
    int32_t ids[64], count = -1, i;
    size_t at = 0;
    shown[0] = 0;
    if (tfm_model_tokenize(m, tfm_text_make(text, size), form, ids, 64, &count, NULL, &err) !=
        TFM_OK)
        return err.text;
    for (i = 0; i < count; i++)
        at += (size_t)snprintf(shown + at, sizeof shown - at, i ? " %d" : "%d", (int)ids[i]);
    return shown;
}
#define IDS(model, text, form, expected)                                                           \
    do {                                                                                           \
        const char *got = ids_of(model, text, sizeof text - 1, form);                              \
        CHECK(strstr(got, expected) == got && (*expected || !*got), "'%s': %s", text, got);        \
    } while (0)

static void tokenizing(void) {
    tfm_model *m;
    int32_t ids[4] = {-1, -1, -1, -1}, count = 77;
    SECTION("words");
    m = text_model(words, ", \"src_unk\": 3");
    IDS(m, "hello world", TFM_TEXT_FORM_TEXT, "4 5");
    IDS(m, "  hello\t\r\n world  ", TFM_TEXT_FORM_TEXT, "4 5");
    IDS(m,
        "hello\xe3\x80\x80world\xc2\xa0"
        "a",
        TFM_TEXT_FORM_TEXT, "4 5 6");
    IDS(m, "hello there na\xc3\xafve", TFM_TEXT_FORM_TEXT, "4 3 8");
    IDS(m, "", TFM_TEXT_FORM_TEXT, "");
    IDS(m, " \t\xe3\x80\x80 ", TFM_TEXT_FORM_TEXT, "");
    IDS(m, "hello\0world", TFM_TEXT_FORM_TEXT, "3");
    IDS(m, "hello \xff", TFM_TEXT_FORM_TEXT, "text is not UTF-8 at byte 6");
    IDS(m, "hello \xe5\xad", TFM_TEXT_FORM_TEXT, "text is not UTF-8 at byte 6");
    IDS(m, "ab\xc0\x80", TFM_TEXT_FORM_TEXT, "text is not UTF-8 at byte 2");
    IDS(m, "\xed\xbf\xbf", TFM_TEXT_FORM_TEXT, "text is not UTF-8 at byte 0");
    CHECK_FAILS(tfm_model_tokenize(m, tfm_text_make("a b a b a", 9), TFM_TEXT_FORM_TEXT, ids, 4,
                                   &count, NULL, &err),
                TFM_E_TOO_LONG, "text has 5 tokens, there is room for 4");
    CHECK(ids[0] == -1 && count == 77, "outputs untouched");
    tfm_model_free(m);
    m = text_model(words, "");
    IDS(m, "hello there", TFM_TEXT_FORM_TEXT,
        "\"there\" at byte 6 is not in src_vocabulary. Change the text, or set src_unk in the "
        "model's config: the id of unknown tokens");
    IDS(m, "hello \xe5\xad\xa6\x1b[m hello", TFM_TEXT_FORM_TEXT, "\"\xe5\xad\xa6?[m\" at byte 6");
    { /* of a long token the whole characters in its first 60 bytes */
        char text[128] = "hello x", expected[256] = "\"x", *at = text + 7, *to = expected + 2;
        int i;
        for (i = 0; i < 60; i++, at += 2) memcpy(at, "\xc3\xa9", 3);
        for (i = 0; i < 29; i++, to += 2) memcpy(to, "\xc3\xa9", 3);
        strcpy(to, "...\" at byte 6");
        IDS(m, text, TFM_TEXT_FORM_TEXT, expected);
    }
    tfm_model_free(m);
    m = text_model(words, ", \"src_unk\": 3, \"src_start\": 1, \"src_end\": 2");
    IDS(m, "hello b", TFM_TEXT_FORM_TEXT, "1 4 7 2");
    IDS(m, " ", TFM_TEXT_FORM_TEXT, "");
    tfm_model_free(m);
    SECTION("characters");
    m = text_model(characters, ", \"src_unk\": 3, \"src_text\": \"characters\"");
    IDS(m,
        "\xe5\xad\xa6"
        "ab",
        TFM_TEXT_FORM_TEXT, "5 6 7");
    IDS(m, "\xe5\xad\xb8\xf0\xa4\x8b\xae\xe5\xad\xa6", TFM_TEXT_FORM_TEXT,
        "5 5 5"); /* three spellings */
    IDS(m, " a  b ", TFM_TEXT_FORM_TEXT, "6 4 7");
    IDS(m, "aQ\xf0\x9f\x98\x80!BC", TFM_TEXT_FORM_TEXT, "6 3 3 8 8 8");
    IDS(m, "a b", TFM_TEXT_FORM_TOKENS, "6 7");
    IDS(m, "<s> " SPACE " \xe5\xad\xa6", TFM_TEXT_FORM_TOKENS, "1 4 5");
    tfm_model_free(m);
    m = text_model(words, ", \"src_unk\": 3, \"src_text\": \"characters\"");
    IDS(m, "a b", TFM_TEXT_FORM_TEXT, "6 7");
    tfm_model_free(m);
}

static const char *text_of(const tfm_model *m, const int32_t *ids, int32_t n, tfm_text_form form) {
    static char text[256];
    size_t size = 0;
    if (tfm_model_detokenize(m, ids, n, form, text, sizeof text, &size, &err) != TFM_OK)
        return err.text;
    if (strlen(text) != size) return "size is not the length";
    return text;
}

/* Tests spaces before punctuation. */
static void cleaning(void) {
    static const int32_t stop[] = {4, 5, 9, 8, 9, 9, 8, 9}, quote[] = {4, 9, 11, 9, 12};
    tfm_model *m = text_model(words, ", \"tgt_text\": \"pieces\", \"clean_up\": \"spaces\"");
    SECTION("clean_up");
    CHECK(strcmp(text_of(m, stop, 8, TFM_TEXT_FORM_TEXT), "hello. . ") == 0, "stops: '%s'",
          text_of(m, stop, 8, TFM_TEXT_FORM_TEXT));
    CHECK(strcmp(text_of(m, quote, 5, TFM_TEXT_FORM_TEXT), "hel'z") == 0, "a quote: '%s'",
          text_of(m, quote, 5, TFM_TEXT_FORM_TEXT));
    CHECK(strcmp(text_of(m, quote, 3, TFM_TEXT_FORM_TEXT), "hel '") == 0, "its begin: '%s'",
          text_of(m, quote, 3, TFM_TEXT_FORM_TEXT));
    CHECK(strcmp(text_of(m, stop, 4, TFM_TEXT_FORM_TOKENS), SPACE "hel lo " SPACE " .") == 0,
          "as tokens the text is unchanged: '%s'", text_of(m, stop, 4, TFM_TEXT_FORM_TOKENS));
    tfm_model_free(m);
}

static void detokenizing(void) {
    static const int32_t ids[] = {4, 5, 6, 7, 8, 9, 10};
    int32_t bad[] = {4, 13};
    char buffer[8] = "before";
    size_t size = 99;
    tfm_model *m = text_model(words, ", \"tgt_text\": \"pieces\"");
    SECTION("joining");
    CHECK(strcmp(text_of(m, ids, 7, TFM_TEXT_FORM_TEXT), "hello world. x y") == 0, "pieces: '%s'",
          text_of(m, ids, 7, TFM_TEXT_FORM_TEXT));
    CHECK(strcmp(text_of(m, ids + 5, 1, TFM_TEXT_FORM_TEXT), "") == 0, "a lone space is dropped");
    CHECK(strcmp(text_of(m, ids, 0, TFM_TEXT_FORM_TEXT), "") == 0, "no ids give an empty text");
    CHECK(strcmp(text_of(m, ids, 3, TFM_TEXT_FORM_TOKENS), SPACE "hel lo " SPACE "wor") == 0,
          "tokens: '%s'", text_of(m, ids, 3, TFM_TEXT_FORM_TOKENS));
    CHECK_FAILS(tfm_model_detokenize(m, bad, 2, TFM_TEXT_FORM_TEXT, buffer, 8, &size, &err),
                TFM_E_TOKEN, "position 1: id 13, the vocabulary has 13 tokens");
    CHECK_FAILS(tfm_model_detokenize(m, ids, 4, TFM_TEXT_FORM_TEXT, buffer, 8, &size, &err),
                TFM_E_TOO_SMALL, "takes 12 bytes, the buffer has 8");
    CHECK(strcmp(buffer, "before") == 0 && size == 99, "outputs untouched");
    CHECK(tfm_model_detokenize(m, ids, 2, TFM_TEXT_FORM_TEXT, buffer, 6, &size, &err) == TFM_OK &&
              size == 5,
          "exactly enough: '%s'", buffer);
    tfm_model_free(m);
    m = text_model(words, ", \"tgt_text\": \"words\"");
    CHECK(strcmp(text_of(m, ids + 7 - 3, 2, TFM_TEXT_FORM_TEXT), ". " SPACE) == 0, "words: '%s'",
          text_of(m, ids + 4, 2, TFM_TEXT_FORM_TEXT));
    tfm_model_free(m);
}

static void translating(void) {
    static const char *const lines[] = {"hello world", "", "a b a b a b", "  ", "x"};
    tfm_model *m = text_model(words, ", \"src_unk\": 3, \"tgt_text\": \"pieces\"");
    tfm_session *s = tiny_session(m, 5, 8, 20), *one = tiny_session(m, 1, 8, 20);
    tfm_text in[5], out[5];
    char buffer[2048], single[1024], tiny_buffer[4] = "no";
    int i, same = 1;
    SECTION("tfm_translate");
    for (i = 0; i < 5; i++) in[i].data = lines[i], in[i].size = strlen(lines[i]);
    CHECK(translate_texts(s, in, NULL, out, 5, NULL, buffer, sizeof buffer, &err) == TFM_OK, "%s",
          err.text);
    for (i = 0; i < 5; i++) {
        int32_t ids[8], count = 0, running = 1;
        id_matrix src;
        tfm_result r;
        char expected[1024] = "";
        size_t size = 0;
        CHECK(tfm_translate(one, lines[i], single, sizeof single, &err) == TFM_OK, "");
        same &= strcmp(single, out[i].data) == 0 && strlen(single) == out[i].size;
        /* the same with the single calls */
        CHECK(tfm_model_tokenize(m, tfm_text_make(lines[i], strlen(lines[i])), TFM_TEXT_FORM_TEXT,
                                 ids, 8, &count, NULL, &err) == TFM_OK,
              "");
        src = tiny_batch(ids, NULL, 1, count);
        if (count) {
            CHECK(start_rows(one, &src, NULL, NULL, &err) == TFM_OK, "");
            while (running) CHECK(tfm_session_step(one, &running, &err) == TFM_OK, "");
            CHECK(tfm_result_get(one, 0, 0, &r, &err) == TFM_OK, "");
            CHECK(tfm_model_detokenize(m, r.ids, r.length, TFM_TEXT_FORM_TEXT, expected,
                                       sizeof expected, &size, &err) == TFM_OK,
                  "");
        }
        same &= strcmp(single, expected) == 0;
    }
    CHECK(same && out[1].size == 0 && out[3].size == 0 && out[0].size > 0,
          "a batch with blank lines, each line alone, and the single calls agree");
    CHECK_FAILS(tfm_translate(one, "a a a a a a a a a", single, sizeof single, &err),
                TFM_E_TOO_LONG, "text has 9 tokens, there is room for 8");
    CHECK_FAILS(tfm_translate(one, "hello world", tiny_buffer, sizeof tiny_buffer, &err),
                TFM_E_TOO_SMALL, "the buffer has 4");
    CHECK(strcmp(tiny_buffer, "no") == 0, "outputs untouched");
    in[2].data = "b \x80", in[2].size = 3;
    CHECK_FAILS(translate_texts(s, in, NULL, out, 5, NULL, buffer, sizeof buffer, &err), TFM_E_UTF8,
                "request 2: text is not UTF-8 at byte 2");
    CHECK_FAILS(translate_texts(one, in, NULL, out, 2, NULL, buffer, sizeof buffer, &err),
                TFM_E_TOO_LONG, "2 requests");
    CHECK(translate_texts(one, in, NULL, out, 0, NULL, buffer, sizeof buffer, &err) == TFM_OK,
          "an empty batch of texts");
    tfm_session_free(s), tfm_session_free(one), tfm_model_free(m);
    m = tiny_model(tiny_default());
    one = tiny_session(m, 1, 8, 20);
    CHECK_FAILS(tfm_translate(one, "hello", single, sizeof single, &err), TFM_E_NO_TEXT,
                "no vocabular");
    tfm_session_free(one), tfm_model_free(m);
}

/* Returns a session's tokens and spans as "4:0-5 2:5-5", or the error. */
static const char *spans_of(tfm_session *s, const char *text, tfm_text_form form) {
    static char shown[512];
    tfm_span spans[16];
    tfm_text source;
    int32_t ids[16], count = 0, i;
    size_t at = 0;
    shown[0] = 0, source.data = text, source.size = strlen(text);
    if (session_tokens(s, &source, form, ids, spans, 16, &count, NULL, &err) != TFM_OK)
        return err.text;
    for (i = 0; i < count; i++)
        at += (size_t)snprintf(shown + at, sizeof shown - at, i ? " %d:%d-%d" : "%d:%d-%d",
                               (int)ids[i], (int)spans[i].begin, (int)spans[i].end);
    return shown;
}
#define SPANS(session, text, form, expected)                                                       \
    CHECK(strcmp(spans_of(session, text, form), expected) == 0, "'%s': %s", text,                  \
          spans_of(session, text, form))

static void tokens_of_a_session(void) {
    tfm_model *m = text_model(words, ", \"src_unk\": 3, \"src_start\": 1, \"src_end\": 2");
    tfm_session *s = tiny_session(m, 1, 4, 8);
    tfm_text source = {"a b a b a", 9}, bad = {"a\xff", 2}, none = {NULL, 3}, blank = {" ", 1};
    tfm_span spans[4];
    int32_t ids[4] = {-1, -1, -1, -1}, count = 77, left = 88;
    SECTION("tfm_session_tokenize");
    SPANS(s, " hello  na\xc3\xafve zz\n", TFM_TEXT_FORM_TEXT, "1:0-0 4:1-6 8:8-14 3:15-17 2:18-18");
    SPANS(s, "  ", TFM_TEXT_FORM_TEXT, "");
    SPANS(s, "", TFM_TEXT_FORM_TEXT, "");
    SPANS(s, "</s> a", TFM_TEXT_FORM_TOKENS, "1:0-0 2:0-4 6:5-6 2:6-6");
    spans[0].end = 99;
    CHECK_FAILS(session_tokens(s, &source, TFM_TEXT_FORM_TEXT, ids, spans, 4, &count, NULL, &err),
                TFM_E_TOO_LONG, "text has 7 tokens, there is room for 4");
    CHECK_FAILS(session_tokens(s, &bad, TFM_TEXT_FORM_TEXT, ids, spans, 4, &count, NULL, &err),
                TFM_E_UTF8, "text is not UTF-8 at byte 1");
    CHECK(count == 77 && ids[0] == -1 && spans[0].end == 99, "outputs untouched");
    CHECK_FAILS(session_tokens(s, &none, TFM_TEXT_FORM_TEXT, ids, spans, 4, &count, NULL, &err),
                TFM_E_ARGUMENT, "text.data is NULL");
    CHECK_FAILS(
        session_tokens(NULL, &source, TFM_TEXT_FORM_TEXT, ids, spans, 4, &count, NULL, &err),
        TFM_E_ARGUMENT, "session, text or tokens is NULL");
    CHECK_FAILS(session_tokens(s, NULL, TFM_TEXT_FORM_TEXT, ids, spans, 4, &count, NULL, &err),
                TFM_E_ARGUMENT, "session, text or tokens is NULL");
    source.size = 1;
    CHECK(session_tokens(s, &source, TFM_TEXT_FORM_TEXT, ids, NULL, 4, &count, NULL, &err) ==
                  TFM_OK &&
              count == 3 && ids[1] == 6,
          "without spans");
    source.size = 9;
    CHECK(session_tokens(s, &source, TFM_TEXT_FORM_TEXT, ids, spans, 4, &count, &left, &err) ==
                  TFM_OK &&
              count == 4 && left == 3 && ids[2] == 7 && ids[3] == 2 && spans[2].begin == 2,
          "cut on request");
    CHECK(session_tokens(s, &blank, TFM_TEXT_FORM_TEXT, ids, spans, 4, &count, &left, &err) ==
                  TFM_OK &&
              count == 0 && left == 0,
          "an empty text is not cut");
    tfm_session_free(s), tfm_model_free(m);
    m = text_model(characters, ", \"src_unk\": 3, \"src_text\": \"characters\"");
    s = tiny_session(m, 1, 4, 8);
    SPANS(s, " a \t\xf0\xa4\x8b\xae!", TFM_TEXT_FORM_TEXT, "6:1-2 4:2-4 5:4-8 8:8-9");
    tfm_session_free(s), tfm_model_free(m);
    m = text_model(words,
                   ", \"src_unk\": 3, \"src_end\": 2, \"languages\": {\"aa\": 6, \"bb\": 7}, "
                   "\"src_language\": \"target\"");
    s = tiny_session(m, 1, 8, 8);
    SPANS(s, "x y", TFM_TEXT_FORM_TEXT,
          "the model knows several languages: call tfm_languages_set first");
    SPANS(s, " >>bb<< x y", TFM_TEXT_FORM_TEXT, "7:7-7 9:8-9 10:10-11 2:11-11");
    SPANS(s, "b x", TFM_TEXT_FORM_TOKENS, "7:0-1 9:2-3 2:3-3");
    must(tfm_languages_set(s, NULL, "aa", &err));
    SPANS(s, "x", TFM_TEXT_FORM_TEXT, "6:0-0 9:0-1 2:1-1");
    SPANS(s, ">>bb<<x", TFM_TEXT_FORM_TEXT, "7:6-6 9:6-7 2:7-7");
    SPANS(s, "x", TFM_TEXT_FORM_TOKENS, "6:0-0 9:0-1 2:1-1");
    SPANS(s, "b x", TFM_TEXT_FORM_TOKENS, "7:0-1 9:2-3 2:3-3");
    SPANS(s, ">>bb<< ", TFM_TEXT_FORM_TEXT, "");
    SPANS(s, ">>bb x", TFM_TEXT_FORM_TEXT, "6:0-0 3:0-4 9:5-6 2:6-6");
    tfm_session_free(s), tfm_model_free(m);
}

/* Tests texts that are too long and cut on request. The beginning is translated, and the result
   says how much was left out. keep_end must not change a text. */
static void truncated(void) {
    tfm_model *m = text_model(words, ", \"src_unk\": 3, \"src_end\": 2, \"tgt_text\": \"pieces\"");
    tfm_session *s = tiny_session(m, 3, 8, 20);
    tfm_text in[3], out[3];
    tfm_decode_options o;
    char buffer[2048], single[512];
    tfm_result r;
    int32_t keep;
    memset(&o, 0, sizeof o), memset(&r, 0, sizeof r);
    SECTION("texts that are cut on request");
    in[0].data = "", in[1].data = "a b a a b a a a b a", in[2].data = "b a";
    for (keep = 0; keep < 3; keep++) in[keep].size = strlen(in[keep].data);
    CHECK_FAILS(translate_texts(s, in, NULL, out, 3, &o, buffer, sizeof buffer, &err),
                TFM_E_TOO_LONG, "text has 11 tokens, there is room for 8");
    for (keep = 0; keep < 2; keep++) {
        o.truncate = 100, o.keep_end = keep;
        must(translate_texts(s, in, NULL, out, 3, &o, buffer, sizeof buffer, &err));
        must(tfm_result_get(s, 1, 0, &r, &err));
        CHECK(r.left_out == 3, "8 of 11 tokens are read, the end token among them");
        must(tfm_result_get(s, 2, 0, &r, &err));
        CHECK(r.left_out == 0 && out[0].size == 0, "the other texts are unchanged");
        must(tfm_translate(s, "a b a a b a a", single, sizeof single, &err));
        CHECK(strcmp(out[1].data, single) == 0, "as its first 7: %s", single);
        o.truncate = 3;
        must(translate_texts(s, in, NULL, out, 3, &o, buffer, sizeof buffer, &err));
        must(tfm_result_get(s, 1, 0, &r, &err));
        must(tfm_translate(s, "a b", single, sizeof single, &err));
        CHECK(r.left_out == 8 && strcmp(out[1].data, single) == 0, "or as its first 2");
    }
    o.truncate = 1;
    CHECK_FAILS(translate_texts(s, in, NULL, out, 3, &o, buffer, sizeof buffer, &err),
                TFM_E_TOO_LONG, "text has 11 tokens, there is room for 1");
    tfm_session_free(s), tfm_model_free(m);
}

static int32_t seen_rows[8];
static void see_row(void *user, int32_t row, const int32_t *ids, int32_t n, float *logits) {
    (void)user, (void)ids, (void)n, (void)logits;
    seen_rows[row]++;
}

/* Rows of the options are numbers of texts: a blank text before another one changes nothing. */
static void numbers_of_texts(void) {
    static const char *const lines[2][3] = {{"hello world", "a b", "b a a"}, {" ", "a b", "b a a"}};
    static const uint64_t seeds[] = {11, 22, 33};
    static const int32_t starts[] = {4, 5, 4}, lengths[] = {1, 0, 1}, firsts[] = {-1, 5, -1};
    tfm_model *m = text_model(words, ", \"src_unk\": 3, \"tgt_text\": \"pieces\"");
    tfm_session *s = tiny_session(m, 3, 8, 20);
    id_matrix prefix = tiny_batch(starts, lengths, 3, 1);
    tfm_decode_options o;
    tfm_text in[4], out[4];
    tfm_result r;
    by_row with;
    char text[2][512], before[3][512], single[512];
    size_t size;
    int k, i, same = 1;
    SECTION("numbers of texts");
    memset(&o, 0, sizeof o), memset(&with, 0, sizeof with), memset(before, 0, sizeof before);
    memset(in, 0, sizeof in), with.rows = 3;
    o.samples = 1, o.temperature = 1.5, with.seeds = seeds, with.prefix = &prefix;
    with.first = firsts;
    o.edit_logits = see_row, o.max_length = 12;
    for (k = 0; k < 2; k++) {
        memset(seen_rows, 0, sizeof seen_rows);
        for (i = 0; i < 3; i++) in[i] = tfm_text_make(lines[k][i], strlen(lines[k][i]));
        must(translate_texts(s, in, &with, out, 3, &o, text[0], sizeof text[0], &err));
        for (i = 0; i < 3; i++) {
            must(tfm_result_text(s, i, 0, TFM_TEXT_FORM_TEXT, single, sizeof single, &size, &err));
            same &= strcmp(single, out[i].data) == 0 && (seen_rows[i] > 0) == (i > 0 || !k);
            if (k && i) same &= strcmp(single, before[i]) == 0;
            strcpy(before[i], single);
        }
    }
    CHECK(same && before[0][0] == 0,
          "seed, first token, prefix and edited logits stay with their text");
    must(tfm_result_get(s, 1, 0, &r, &err));
    CHECK(r.ids[0] == 5, "the first token of text 1");
    must(tfm_translate(s, "hello world", single, sizeof single, &err));
    must(tfm_translate(s, "", text[1], sizeof text[1], &err));
    must(tfm_result_text(s, 0, 0, TFM_TEXT_FORM_TEXT, single, sizeof single, &size, &err));
    CHECK(size == 0 && text[1][0] == 0, "after a blank text there is no result of the one before");
    CHECK_FAILS(translate_texts(s, in, &with, out, 4, &o, text[0], 512, &err), TFM_E_TOO_LONG,
                "4 requests, the session takes 1 to 3");
    in[1] = tfm_text_make("\xff", 1);
    CHECK_FAILS(translate_texts(s, in, &with, out, 3, &o, text[0], 512, &err), TFM_E_UTF8,
                "request 1: ");
    must(tfm_result_text(s, 0, 0, TFM_TEXT_FORM_TEXT, single, sizeof single, &size, &err));
    CHECK(size == 0 && tfm_result_count(s, 1) == 0,
          "a refused call leaves the results of the last");
    tfm_session_free(s), tfm_model_free(m);
}

/* Tests a status for each text, sizes as numbers, and an output that grows without translating
   again. */
static void faults_and_sizes(void) {
    static const char *const lines[] = {"hello world", "b \x80", "", "a a a a a a a a a", "x"};
    tfm_model *m = text_model(words, ", \"src_unk\": 3, \"tgt_text\": \"pieces\"");
    tfm_session *s = tiny_session(m, 5, 8, 20);
    tfm_result results[5];
    tfm_decode_options o;
    tfm_text in[5], out[5], again[5];
    char buffer[2048], single[512], *exact;
    size_t size = 0, needed = 0, i;
    int32_t ids[] = {4, 5}, running;
    id_matrix src = tiny_batch(ids, NULL, 1, 2);
    tfm_result r;
    int same = 1;
    SECTION("a status for each text");
    memset(&o, 0, sizeof o), memset(results, 7, sizeof results);
    o.skip_errors = 1;
    for (i = 0; i < 5; i++) in[i].data = lines[i], in[i].size = strlen(lines[i]);
    CHECK(tfm_translation_size(s) == 0, "no translation has no size");
    CHECK_FAILS(tfm_translation_get(s, out, buffer, sizeof buffer, &err), TFM_E_STATE,
                "has no translations");
    must(translate_texts(s, in, NULL, out, 5, &o, buffer, sizeof buffer, &err));
    for (i = 0; i < 5; i++) must(tfm_result_get(s, (int32_t)i, 0, &results[i], &err));
    CHECK(results[0].status == TFM_OK && results[1].status == TFM_E_UTF8 &&
              results[2].status == TFM_OK && results[3].status == TFM_E_TOO_LONG &&
              results[4].status == TFM_OK && !results[0].message[0] && !results[2].message[0],
          "each text has its own status");
    CHECK(strcmp(results[1].message, "text is not UTF-8 at byte 2") == 0 &&
              strstr(results[3].message, "9 tokens"),
          "'%s', '%s'", results[1].message, results[3].message);
    CHECK(out[1].size == 0 && out[2].size == 0 && out[3].size == 0,
          "texts with an error are empty");
    for (i = 0; i < 5; i++) { /* a result has the number of its text */
        int is_empty = i > 0 && i < 4;
        must(tfm_result_get(s, (int32_t)i, 0, &r, &err));
        same &= r.status == results[i].status && (r.finish == TFM_FINISH_BLANK) == is_empty;
        same &= (r.length == 0) == is_empty && (!is_empty || tfm_result_count(s, (int32_t)i) == 1);
        must(tfm_result_text(s, (int32_t)i, 0, TFM_TEXT_FORM_TEXT, single, sizeof single, &size,
                             &err));
        same &= strcmp(single, out[i].data) == 0;
    }
    CHECK(same, "results have the numbers of their texts");
    CHECK_FAILS(tfm_result_get(s, 5, 0, &r, &err), TFM_E_ARGUMENT, "request is 5, expected 0 to 4");
    CHECK_FAILS(tfm_result_get(s, 2, 1, &r, &err), TFM_E_ARGUMENT,
                "request 2: rank is 1, and there are 1");
    CHECK(!tfm_result_logits(s, 2, 0) && tfm_session_stop(s, 2, &err) == TFM_OK,
          "a blank text has no logits and cannot run");
    for (i = 0; i < 5; i++) needed += out[i].size + 1;
    CHECK(tfm_translation_size(s) == needed, "%d bytes", (int)needed);
    exact = (char *)malloc(needed);
    memset(exact, 'q', needed);
    CHECK_FAILS(tfm_translation_get(s, again, exact, needed - 1, &err), TFM_E_TOO_SMALL, "takes ");
    CHECK(exact[0] == 'q', "outputs untouched");
    must(tfm_translation_get(s, again, exact, needed, &err));
    for (i = 0; i < 5; i++)
        same &= again[i].size == out[i].size && strcmp(again[i].data, out[i].data) == 0;
    CHECK(same && memcmp(exact, buffer, needed) == 0, "written again, in exactly that many bytes");
    must(tfm_translation_get(s, NULL, exact, needed, &err));
    free(exact);
    for (i = 0; i < 5; i += 4) {
        must(tfm_translate(s, lines[i], single, sizeof single, &err));
        same &= strcmp(single, out[i].data) == 0;
    }
    CHECK(same, "the other texts are as each alone");
    in[0].data = "\xff", in[0].size = 1, in[4] = in[0];
    must(translate_texts(s, in, NULL, out, 5, &o, buffer, sizeof buffer, &err));
    CHECK(tfm_translation_size(s) == 5 && tfm_result_get(s, 0, 0, &r, &err) == TFM_OK &&
              r.status == TFM_E_UTF8,
          "all texts refused or blank");
    must(tfm_session_step(s, &running, &err));
    must(tfm_result_get(s, 2, 0, &r, &err));
    CHECK(running == 0 && tfm_result_count(s, 4) == 1 && r.finish == TFM_FINISH_BLANK,
          "no decode runs");
    SECTION("an output that grows");
    single[0] = 'q';
    CHECK_FAILS(tfm_translate(s, "hello world", single, 1, &err), TFM_E_TOO_SMALL, "takes ");
    CHECK(single[0] == 'q', "outputs untouched");
    needed = tfm_translation_size(s);
    must(tfm_translation_get(s, NULL, single, needed, &err));
    must(tfm_translate(s, "hello world", buffer, sizeof buffer, &err));
    CHECK(strlen(single) + 1 == needed && strcmp(single, buffer) == 0, "%s", single);
    must(tfm_result_text(s, 0, 0, TFM_TEXT_FORM_TEXT, NULL, 0, &size, &err));
    CHECK(size + 1 == needed, "the size of a hypothesis");
    must(tfm_model_detokenize(m, ids, 2, TFM_TEXT_FORM_TEXT, NULL, 0, &size, &err));
    CHECK(size == 5, "the size of tokens");
    CHECK_FAILS(tfm_model_detokenize(m, ids, 2, TFM_TEXT_FORM_TEXT, NULL, 9, &size, &err),
                TFM_E_ARGUMENT, "NULL");
    CHECK_FAILS(tfm_result_text(s, 0, 0, TFM_TEXT_FORM_TEXT, NULL, 9, &size, &err), TFM_E_ARGUMENT,
                "NULL");
    must(start_rows(s, &src, NULL, NULL, &err)), must(tfm_session_step(s, &running, &err));
    must(tfm_result_text(s, 0, 0, TFM_TEXT_FORM_TEXT, NULL, 0, &size, &err));
    CHECK(tfm_translation_size(s) == size + 1, "the size of a decode that runs");
    must(encode_rows(s, &src, &err));
    CHECK(tfm_translation_size(s) == 0, "the session has other work now");
    CHECK_FAILS(tfm_translation_get(s, NULL, single, sizeof single, &err), TFM_E_STATE,
                "has no translations");
    CHECK(tfm_translation_size(NULL) == 0, "");
    CHECK_FAILS(tfm_translation_get(NULL, NULL, single, 9, &err), TFM_E_ARGUMENT, "NULL");
    tfm_session_free(s), tfm_model_free(m);
}

/* Target text to ids. */
static void target_text(void) {
    static const struct {
        const char *kinds, *text, *expected;
        tfm_text_form form;
    } cases[] = {
        {", \"tgt_unk\": 3, \"tgt_text\": \"pieces\"", "hello world.", "4 5 6 7 8",
         TFM_TEXT_FORM_TEXT},
        {", \"tgt_unk\": 3, \"tgt_text\": \"pieces\"", "  world  hello ", "6 7 4 5",
         TFM_TEXT_FORM_TEXT},
        {", \"tgt_unk\": 3, \"tgt_text\": \"pieces\"", "hello qqq.", "4 5 9 3 8",
         TFM_TEXT_FORM_TEXT},
        {", \"tgt_unk\": 3", "lo ld <unk>", "5 7 3", TFM_TEXT_FORM_TOKENS},
        {", \"tgt_unk\": 3", "", "", TFM_TEXT_FORM_TEXT},
        {", \"tgt_unk\": 3, \"tgt_text\": \"words\"", "lo . nothing", "5 8 3", TFM_TEXT_FORM_TEXT},
        {", \"tgt_unk\": 3, \"tgt_text\": \"characters\"", ".'z", "8 11 12", TFM_TEXT_FORM_TEXT},
    };
    char memory[512], shown[128];
    int32_t ids[16], n = 0, i;
    size_t c, at;
    SECTION("target text");
    for (c = 0; c < sizeof cases / sizeof *cases; c++) {
        tfm_model *m = text_model(words, cases[c].kinds);
        tfm_arena scratch = tfm_arena_make(memory, sizeof memory);
        const char *text = cases[c].text;
        shown[at = 0] = 0;
        must(tfm_model_tokenize_target(m, tfm_text_make(text, strlen(text)), cases[c].form, ids, 16,
                                       &n, &scratch, &err));
        for (i = 0; i < n; i++)
            at += (size_t)snprintf(shown + at, sizeof shown - at, i ? " %d" : "%d", (int)ids[i]);
        CHECK(strcmp(shown, cases[c].expected) == 0, "'%s': %s", text, shown);
        if (n > 1) {
            n = 77;
            CHECK_FAILS(tfm_model_tokenize_target(m, tfm_text_make(text, strlen(text)),
                                                  cases[c].form, ids, 1, &n, &scratch, &err),
                        TFM_E_TOO_LONG, "there is room for 1");
            CHECK(n == 77, "outputs untouched");
        }
        tfm_model_free(m);
    }
    {
        tfm_model *m = text_model(words, ", \"tgt_text\": \"pieces\"");
        tfm_arena scratch = tfm_arena_make(memory, sizeof memory);
        CHECK_FAILS(tfm_model_tokenize_target(m, tfm_text_make("qq", 2), TFM_TEXT_FORM_TEXT, ids,
                                              16, &n, &scratch, &err),
                    TFM_E_TOKEN, "\"qq\" at byte 0 is not in tgt_vocabulary. Change the");
        CHECK_FAILS(tfm_model_tokenize_target(m, tfm_text_make(" hello  q\xc3\xa9.", 12),
                                              TFM_TEXT_FORM_TEXT, ids, 16, &n, &scratch, &err),
                    TFM_E_TOKEN, "\"q\xc3\xa9\" at byte 8 is not in tgt_vocabulary");
        CHECK_FAILS(tfm_model_tokenize_target(m, tfm_text_make("\xff", 1), TFM_TEXT_FORM_TEXT, ids,
                                              16, &n, &scratch, &err),
                    TFM_E_UTF8, "text is not UTF-8 at byte 0");
        tfm_model_free(m);
    }
}

/* TFM_TEXT_FORM_ESCAPED writes any tokens on one line, and reads the same ids back. */
static void escaped(void) {
    static const char vocabulary[] = "<pad>\n<s>\n</s>\n<unk>\na b\n \n\r\n\v\f\n\xc2\x85\n"
                                     "\xe3\x80\x80x\n\\\n\\n\n\\\\s\n";
    static const char line[] = "a\\sb \\s \\r \\v\\f \\u0085 \\u3000x \\\\ \\\\n \\\\\\\\s";
    int32_t all[9], ids[16], n = 0, i;
    tiny t = tiny_default();
    tfm_model *m;
    SECTION("escaped tokens");
    t.config = ", \"start\": 1, \"end\": 2, \"src_unk\": 3, \"tgt_unk\": 3";
    t.src = t.tgt = vocabulary, t.vs = t.vt = 13;
    m = tiny_model(t);
    for (i = 0; i < 9; i++) all[i] = i + 4;
    CHECK(strcmp(text_of(m, all, 9, TFM_TEXT_FORM_ESCAPED), line) == 0, "written: %s",
          text_of(m, all, 9, TFM_TEXT_FORM_ESCAPED));
    CHECK(strcmp(text_of(m, all, 2, TFM_TEXT_FORM_TOKENS), "a b  ") == 0,
          "other forms are unchanged");
    IDS(m, "a\\sb \\s \\r \\v\\f \\u0085 \\u3000x \\\\ \\\\n \\\\\\\\s", TFM_TEXT_FORM_ESCAPED,
        "4 5 6 7 8 9 10 11 12");
    must(tfm_model_tokenize_target(m, tfm_text_make(line, sizeof line - 1), TFM_TEXT_FORM_ESCAPED,
                                   ids, 16, &n, NULL, &err));
    CHECK(n == 9 && memcmp(ids, all, sizeof all) == 0, "target tokens too");
    IDS(m, "\\ \\q \\u12 \\ud800 \\uzzzz \\u0000 <s>\\", TFM_TEXT_FORM_ESCAPED, "10 3 3 3 3 3 3");
    IDS(m, "\\u005c \\u005Cn \\x0a", TFM_TEXT_FORM_ESCAPED, "10 11 3");
    IDS(m, "\\n \\\\s", TFM_TEXT_FORM_TOKENS, "11 12");
    tfm_model_free(m);
}

/* Makes the tokens "w0" to "w263", a line each. */
static const char *numbered(int n) {
    static char lines[4096];
    int i, at = 0;
    for (i = 0; i < n; i++) at += snprintf(lines + at, sizeof lines - (size_t)at, "w%d\n", i);
    return lines;
}

/* Tests ids that are bytes plus an offset. The output must be UTF-8 for any ids. */
static void bytes(void) {
    static const char text[] = "a\xc3\xa9 \xe4\xb8\xad\n \xf0\x9f\x98\x80";
    /* what Python's errors="ignore" keeps of these bytes, in hexadecimal */
    static const struct {
        const char *in, *out;
    } rows[] = {{"e4 b8 41", "A"},
                {"c3 e4 b8 ad ad", "\xe4\xb8\xad"},
                {"ed a0 80 42", "B"},
                {"f0 9f 98 c3 a9 80 43", "\xc3\xa9"
                                         "C"},
                {"ff fe 44 c0 80", "D"},
                {"f4 90 80 80 45 e0 80", "E"},
                {"f0 f0 9f 98 80", "\xf0\x9f\x98\x80"},
                {"c3", ""}};
    int32_t ids[40], n = 0, i;
    size_t size, r;
    char out[40];
    tfm_span spans[40];
    tfm_text source;
    tiny t = tiny_default();
    tfm_session *s;
    tfm_model *m;
    static const char *const lines[] = {"a\nb\tc\rd\ve\ff", "\\n \\\\ \\u2028 x",
                                        "\xe2\x80\xa8 \xc2\x85\xe4\xbd\xa0\xf0\x9f\x98\x80\n",
                                        NULL};
    int32_t read[40], n_read;
    SECTION("bytes");
    t.config = ", \"start\": 0, \"end\": 1, \"src_end\": 1, \"src_text\": \"bytes\", "
               "\"tgt_text\": \"bytes\", \"byte_offset\": 3";
    t.vs = t.vt = 264;
    m = tiny_model(t);
    must(tfm_model_tokenize(m, tfm_text_make(text, sizeof text - 1), TFM_TEXT_FORM_TEXT, ids, 40,
                            &n, NULL, &err));
    for (i = 0; i < n - 1 && ids[i] == 3 + (unsigned char)text[i];) i++;
    CHECK(n == (int32_t)sizeof text && i == n - 1 && ids[i] == 1, "ids are bytes, and the end");
    must(tfm_model_detokenize(m, ids, n, TFM_TEXT_FORM_TOKENS, out, sizeof out, &size, &err));
    CHECK(size == sizeof text - 1 && strcmp(out, text) == 0, "the bytes come back in any form");
    for (i = 0; lines[i]; i++) {
        for (n = 0; lines[i][n]; n++) ids[n] = 3 + (unsigned char)lines[i][n];
        must(tfm_model_detokenize(m, ids, n, TFM_TEXT_FORM_ESCAPED, out, sizeof out, &size, &err));
        CHECK(!strpbrk(out, "\n\r\t\v\f"), "one line, no TAB: %s", out);
        must(tfm_model_tokenize_target(m, tfm_text_make(out, size), TFM_TEXT_FORM_ESCAPED, read, 40,
                                       &n_read, NULL, &err));
        CHECK(n_read == n && memcmp(read, ids, (size_t)n * sizeof *ids) == 0,
              "  the same ids again");
    }
    ids[0] = 3; /* byte 0 */
    must(tfm_model_detokenize(m, ids, 1, TFM_TEXT_FORM_ESCAPED, out, sizeof out, &size, &err));
    CHECK(strcmp(out, "\\u0000") == 0, "byte 0: %s", out);
    must(tfm_model_tokenize_target(m, tfm_text_make(out, size), TFM_TEXT_FORM_ESCAPED, read, 40,
                                   &n_read, NULL, &err));
    CHECK(n_read == 1 && read[0] == 3, "  and back");
    must(tfm_model_tokenize_target(m, tfm_text_make(" ", 1), TFM_TEXT_FORM_ESCAPED, ids, 40, &n,
                                   NULL, &err));
    CHECK(n == 1 && ids[0] == 35, "a space is not blank");
    must(tfm_model_tokenize(m, tfm_text_make("", 0), TFM_TEXT_FORM_TEXT, ids, 40, &n, NULL, &err));
    CHECK(n == 0, "nothing is");
    CHECK_FAILS(tfm_model_tokenize(m, tfm_text_make("a\xff", 2), TFM_TEXT_FORM_TEXT, ids, 40, &n,
                                   NULL, &err),
                TFM_E_UTF8, "at byte 1");
    for (r = 0; r < sizeof rows / sizeof *rows; r++) {
        const char *at = rows[r].in;
        char *end;
        for (n = 0; *at; at = end) ids[n++] = 3 + (int32_t)strtol(at, &end, 16), ids[n++] = 260;
        must(tfm_model_detokenize(m, ids, n, TFM_TEXT_FORM_TEXT, out, sizeof out, &size, &err));
        CHECK(size == strlen(rows[r].out) && strcmp(out, rows[r].out) == 0, "%s: %s", rows[r].in,
              out);
    }
    s = tiny_session(m, 1, 20, 20);
    source.data = text, source.size = 3;
    must(session_tokens(s, &source, TFM_TEXT_FORM_TEXT, ids, spans, 40, &n, NULL, &err));
    CHECK(n == 4 && spans[1].begin == 1 && spans[1].end == 2 && spans[3].begin == 3, "spans");
    CHECK(tfm_translate(s, text, out, sizeof out, &err) == TFM_OK, "%s", err.text);
    tfm_session_free(s), tfm_model_free(m);
    t.config = ", \"start\": 0, \"end\": 1, \"tgt_text\": \"bytes\"";
    t.src = numbered(264);
    m = tiny_model(t);
    must(tfm_model_tokenize(m, tfm_text_make("w8 w9", 5), TFM_TEXT_FORM_TEXT, ids, 40, &n, NULL,
                            &err));
    CHECK(n == 2 && ids[0] == 8, "words in, bytes out");
    tfm_model_free(m);
}

/* Tests added tokens among bytes: they are found in texts, also where the text around them ends
   inside a character of the target, and they are written where they give text. */
static void bytes_added(void) {
    static const char text[] = "a \xc3\xa9 w260w261 w26";
    static const int32_t expected[] = {100, 35, 198, 172, 260, 261, 35, 122, 53, 57, 1};
    static const int32_t target[] = {231, 187, 260, 176, 261, 231, 261, 187, 261, 176, 262};
    static uint32_t added[] = {260, 1, 261, 4, 1, 0};
    int32_t ids[40], n = 0, count, left_out = 0;
    char out[40];
    tfm_span spans[40];
    tfm_text source = {text, sizeof text - 1};
    tiny t = tiny_default();
    tfm_session *s;
    tfm_model *m = NULL;
    size_t size;
    void *data;
    st_writer w;
    SECTION("added tokens among bytes");
    t.config = ", \"start\": 0, \"end\": 1, \"src_end\": 1, \"src_text\": \"bytes\", "
               "\"tgt_text\": \"bytes\", \"byte_offset\": 3";
    t.vs = t.vt = 264;
    t.src = numbered(264);
    tiny_write(&w, t);
    st_add(&w, "src_added", tfm_tensor_2d(added, TFM_DTYPE_U32, 3, 2));
    data = tiny_bytes(&w, &size);
    must(tfm_model_load(&m, data, size, NULL, &err));
    s = tiny_session(m, 1, 20, 20);
    must(session_tokens(s, &source, TFM_TEXT_FORM_TEXT, ids, spans, 40, &n, NULL, &err));
    CHECK(n == 11 && memcmp(ids, expected, sizeof expected) == 0, "%d ids, found in the text", n);
    CHECK(spans[4].begin == 5 && spans[4].end == 9 && spans[5].begin == 9 && spans[6].begin == 13,
          "spans: the first token begins behind the space that it takes");
    must(tfm_model_detokenize(m, target, 11, TFM_TEXT_FORM_TEXT, out, sizeof out, &size, &err));
    CHECK(strcmp(out, "w260\xe4\xb8\xad") == 0, "text, and nothing of a silent one: %s", out);
    source.size = 13;
    must(session_tokens(s, &source, TFM_TEXT_FORM_ESCAPED, ids, NULL, 40, &n, NULL, &err));
    CHECK(n == 14, "in a form with tokens all are bytes: %d", n);
    source.data = "abw1", source.size = 4;
    must(tfm_model_tokenize(m, source, TFM_TEXT_FORM_TEXT, NULL, 0, &count, NULL, &err));
    CHECK(count == 3, "counted without ids and scratch, as with room for all: %d", count);
    must(session_tokens(s, &source, TFM_TEXT_FORM_TEXT, ids, NULL, 3, &n, &left_out, &err));
    CHECK(n == 3 && ids[2] == 1 && left_out == 0, "a text that ends with the end token: no second");
    must(session_tokens(s, &source, TFM_TEXT_FORM_TEXT, ids, NULL, 2, &n, &left_out, &err));
    CHECK(n == 2 && ids[1] == 1 && left_out == 2, "a text that is cut off ends with one");
    tfm_session_free(s);
    tfm_model_free(m);
}

int main(void) {
    bytes();
    bytes_added();
    escaped();
    tokenizing();
    detokenizing();
    cleaning();
    translating();
    tokens_of_a_session();
    truncated();
    numbers_of_texts();
    faults_and_sizes();
    target_text();
    return test_done("test_text");
}
