/* Requests: sources of all kinds in one call, what fails and what it leaves, texts of several
   sentences. de-en.safetensors translates; models of tiny.h have vectors and labels. */
#include <stdint.h>
#define TRANSFORMER_IMPLEMENTATION
#include "transformer.h"
#include "tiny.h"

enum { OUT = 4096 };
static tfm_model *german; /* de-en.safetensors */

static tfm_session *session_of(const tfm_model *m, int32_t batch, int32_t source) {
    tfm_session_options o;
    tfm_session *s = NULL;
    memset(&o, 0, sizeof o);
    o.max_batch = batch, o.max_source = source, o.max_beam = 2;
    must(tfm_session_create(&s, m, &o, &err));
    return s;
}

static tfm_request request_of(const char *text) { return tfm_request_text(text, strlen(text)); }

/* ---- one request ---- */

/* The cases of issue 44: blank.c, seeds.c. */
static void numbers(void) {
    static const char *const lines[2][3] = {{"Guten Tag.", "Wo ist der Bahnhof?",
                                             "Mein Hund schl\xc3\xa4"
                                             "ft."},
                                            {"", "Wo ist der Bahnhof?",
                                             "Mein Hund schl\xc3\xa4"
                                             "ft."}};
    tfm_session *s = session_of(german, 3, 64);
    tfm_request requests[3];
    tfm_text out[3];
    tfm_decode_options o;
    tfm_result r;
    char text[2][OUT], samples[2][3][256];
    size_t size;
    int i, k;
    SECTION("results and seeds have the number of their request");
    must(tfm_translate(s, "Guten Tag.", text[0], OUT, &err));
    requests[0] = request_of("");
    must(tfm_translate_batch(s, requests, 1, NULL, out, text[1], OUT, &err));
    must(tfm_result_text(s, 0, 0, TFM_TEXT_FORM_TEXT, text[0], OUT, &size, &err));
    must(tfm_result_get(s, 0, 0, &r, &err));
    CHECK(size == 0 && r.length == 0 && r.finish == TFM_FINISH_BLANK && r.status == TFM_OK &&
              tfm_result_count(s, 0) == 1,
          "a blank text does not report the results of the text before");
    memset(&o, 0, sizeof o), o.samples = 1, o.temperature = 1.5;
    for (k = 0; k < 2; k++) {
        for (i = 0; i < 3; i++)
            requests[i] = request_of(lines[k][i]), requests[i].seed = 11 * (uint64_t)(i + 1);
        must(tfm_translate_batch(s, requests, 3, &o, out, text[0], OUT, &err));
        for (i = 0; i < 3; i++) strcpy(samples[k][i], out[i].data);
    }
    CHECK(!samples[1][0][0] && strcmp(samples[0][1], samples[1][1]) == 0 &&
              strcmp(samples[0][2], samples[1][2]) == 0,
          "a blank text changes no other sample: '%s', '%s'", samples[1][1], samples[1][2]);
    tfm_session_free(s);
}

/* Everything that a call with a wrong request says. The decode in progress must go on as if the
   call had not been made. */
static void refusals(void) {
    static const int32_t ids[] = {3, 4, 5, 6}, beyond[] = {3, 99};
    float numbers_of_vectors[4 * 20];
    tfm_tensor vectors = tfm_tensor_2d(numbers_of_vectors, TFM_DTYPE_F32, 4, 20), wide = vectors;
    tfm_model *m = tiny_model(tiny_default());
    tfm_session *s = session_of(m, 2, 8), *alone = session_of(m, 2, 8);
    tfm_request good[2], r;
    tfm_result a, b;
    int32_t running = 1, expected[32];
    int i;
    for (i = 0; i < 80; i++) numbers_of_vectors[i] = (float)(i % 7) / 7;
    SECTION("requests that are refused");
    good[0] = tfm_request_ids(ids, 4), good[1] = tfm_request_ids(ids + 1, 2);
    must(tfm_session_decode(alone, good, 2, NULL, &err));
    must(tfm_session_start(s, good, 2, NULL, &err)), must(tfm_session_step(s, &running, &err));
#define REFUSED(change, status, says)                                                              \
    do {                                                                                           \
        tfm_request two[2];                                                                        \
        r = tfm_request_ids(ids, 4);                                                               \
        change;                                                                                    \
        two[0] = good[0], two[1] = r;                                                              \
        CHECK_FAILS(tfm_session_start(s, two, 2, NULL, &err), status, "request 1: " says);         \
        CHECK_FAILS(tfm_session_start(s, &r, 1, NULL, &err), status, says);                        \
    } while (0)
    REFUSED(r.ids = tfm_ids_make(NULL, 0), TFM_E_ARGUMENT, "the request has no source");
    REFUSED(r.text = tfm_text_make("a", 1), TFM_E_ARGUMENT, "the request has two sources");
    REFUSED(r.embeddings = &vectors, TFM_E_ARGUMENT, "the request has two sources");
    REFUSED(r.memory = &vectors, TFM_E_ARGUMENT, "the request has two sources");
    REFUSED(r = tfm_request_text("a", 1);
            r.memory = &vectors, TFM_E_ARGUMENT, "the request has two sources");
    REFUSED(r = tfm_request_text("", 0);
            r.embeddings = r.memory = &vectors, TFM_E_ARGUMENT, "the request has two sources");
    REFUSED(r = tfm_request_text("a", 1), TFM_E_NO_TEXT, "the model has no vocabularies");
    REFUSED(r.ids.n = -1, TFM_E_ARGUMENT, "ids: -1 ids");
    REFUSED(r.ids.data = NULL, TFM_E_ARGUMENT, "ids: 4 ids, but it is NULL");
    REFUSED(r.ids.n = 9, TFM_E_TOO_LONG, "src has 9 tokens, the session takes 1 to 8");
    REFUSED(r.ids = tfm_ids_make(beyond, 2), TFM_E_TOKEN, "ids: position 1: id 99");
    REFUSED(r.prefix = tfm_ids_make(beyond, 2), TFM_E_TOKEN, "prefix: position 1: id 99");
    REFUSED(r.first_token = beyond + 1, TFM_E_TOKEN, "first_token: position 0: id 99");
    REFUSED(r.target_language = "fra", TFM_E_TOKEN, "the model has no languages, so not 'fra'");
    wide.rank = 1;
    REFUSED(r.ids.data = NULL; r.ids.n = 0;
            r.embeddings = &wide, TFM_E_SHAPE, "embeddings has rank 1");
    wide = vectors, wide.dims[1] = 19;
    REFUSED(r.ids.data = NULL; r.ids.n = 0; r.memory = &wide, TFM_E_SHAPE, "memory is [4, 19]");
#undef REFUSED
    CHECK_FAILS(tfm_session_start(s, good, 3, NULL, &err), TFM_E_TOO_LONG,
                "3 requests, the session takes 1 to 2 (max_batch)");
    CHECK_FAILS(tfm_session_start(s, good, 0, NULL, &err), TFM_E_ARGUMENT, "0 requests");
    CHECK_FAILS(tfm_session_start(s, NULL, 1, NULL, &err), TFM_E_ARGUMENT, "NULL");
    CHECK_FAILS(tfm_session_restart(s, good, 2, NULL, &err), TFM_E_ARGUMENT,
                "the request has a source");
    CHECK_FAILS(tfm_session_restart(s, good, 1, NULL, &err), TFM_E_ARGUMENT,
                "1 requests, but the last source has 2");
    while (running) must(tfm_session_step(s, &running, &err));
    for (i = 0; i < 2; i++) {
        must(tfm_result_get(alone, i, 0, &a, &err));
        memcpy(expected, a.ids, (size_t)a.length * sizeof *a.ids);
        must(tfm_result_get(s, i, 0, &b, &err));
        CHECK(a.length == b.length && a.score == b.score &&
                  memcmp(expected, b.ids, (size_t)b.length * sizeof *b.ids) == 0,
              "the decode in progress is unchanged");
    }
    SECTION("results that no request has");
    CHECK_FAILS(tfm_result_get(s, 2, 0, &a, &err), TFM_E_ARGUMENT, "request is 2, expected 0 to 1");
    CHECK_FAILS(tfm_result_get(s, -1, 0, &a, &err), TFM_E_ARGUMENT, "request is -1");
    CHECK_FAILS(tfm_result_get(s, 1, 1, &a, &err), TFM_E_ARGUMENT, "request 1: rank is 1");
    CHECK(tfm_result_count(s, 2) == 0 && !tfm_result_logits(s, 2, 0), "none");
    must(encode_rows(s, NULL, &err) == TFM_OK ? TFM_E_STATE : TFM_OK);
    tfm_session_free(s), tfm_session_free(alone), tfm_model_free(m);
}

/* Ids, embeddings and memory in one batch have the bits of each alone, also after a restart. */
static void kinds_of_sources(void) {
    static const int32_t ids[] = {3, 4, 5, 6, 7};
    static float input[5 * 20], output[5 * 20];
    tfm_tensor vectors = tfm_tensor_2d(input, TFM_DTYPE_F32, 5, 20), memory;
    tfm_model *m = tiny_model(tiny_default());
    tfm_session *s = session_of(m, 5, 8), *one = session_of(m, 1, 8);
    tfm_request requests[5], none[5];
    tfm_decode_options o;
    tfm_result a, b;
    int i, round, same = 0;
    for (i = 0; i < 100; i++) input[i] = (float)(i * 37 % 11) / 9 - 0.5f;
    SECTION("all kinds of sources in one call");
    memset(requests, 0, sizeof requests), memset(none, 0, sizeof none), memset(&o, 0, sizeof o);
    o.max_length = 8, o.beam = 2;
    requests[0] = tfm_request_ids(ids, 3);
    requests[1].embeddings = &vectors;
    requests[2] = tfm_request_ids(ids, 0); /* blank */
    requests[4] = tfm_request_ids(ids, 5);
    must(tfm_session_decode(one, &requests[0], 1, &o, &err));
    memory = tfm_session_encoder_output(one);
    memcpy(output, memory.data, 3 * 20 * sizeof(float));
    memory = tfm_tensor_2d(output, TFM_DTYPE_F32, 3, 20);
    requests[3].memory = &memory;
    for (round = 0; round < 2; round++) {
        int32_t running = 1;
        if (round == 0) must(tfm_session_start(s, requests, 5, &o, &err));
        else must(tfm_session_restart(s, none, 5, &o, &err));
        while (running) must(tfm_session_step(s, &running, &err));
        for (i = 0; i < 5; i++) {
            must(tfm_session_decode(one, &requests[i], 1, &o, &err));
            must(tfm_result_get(one, 0, 0, &a, &err)), must(tfm_result_get(s, i, 0, &b, &err));
            same += a.length == b.length && a.score == b.score && a.finish == b.finish &&
                    (a.length > 0) == (i != 2) &&
                    memcmp(a.ids, b.ids, (size_t)a.length * sizeof *a.ids) == 0;
        }
    }
    CHECK(same == 10, "%d of 10 as alone, with a restart", same);
    must(tfm_result_get(s, 0, 0, &a, &err)), must(tfm_result_get(s, 3, 0, &b, &err));
    CHECK(a.score == b.score && a.length == b.length, "memory is what the encoder returned");
    tfm_session_free(s), tfm_session_free(one), tfm_model_free(m);
}

/* A request that fails under skip_errors has its status and message, whatever part of it is
   wrong. */
static void skipped(void) {
    static const int32_t beyond[] = {99999999};
    tfm_session *s = session_of(german, 6, 8), *one = session_of(german, 1, 8);
    tfm_request requests[6];
    tfm_text out[6];
    tfm_decode_options o;
    tfm_result r;
    char text[OUT], alone[OUT];
    int i, good = 0;
    static const struct {
        tfm_status status;
        const char *says;
    } expected[] = {{TFM_OK, ""},
                    {TFM_E_UTF8, "text is not UTF-8 at byte 6"},
                    {TFM_E_TOO_LONG, "there is room for 8"},
                    {TFM_OK, ""},
                    {TFM_E_TOKEN, "prefix: position 0: id 99999999"},
                    {TFM_E_ARGUMENT, "the request has no source"}};
    SECTION("requests that fail one by one");
    memset(&o, 0, sizeof o), o.skip_errors = 1;
    for (i = 0; i < 6; i++) requests[i] = request_of(i == 3 ? "" : "Guten Tag.");
    requests[1] = request_of("Guten \xff");
    requests[2] = request_of("Wo ist hier in der Stadt der Bahnhof, und wann kommt der Zug?");
    requests[4].prefix = tfm_ids_make(beyond, 1);
    memset(&requests[5], 0, sizeof requests[5]);
    must(tfm_translate(one, "Guten Tag.", alone, OUT, &err));
    must(tfm_translate_batch(s, requests, 6, &o, out, text, OUT, &err));
    for (i = 0; i < 6; i++) {
        must(tfm_result_get(s, i, 0, &r, &err));
        CHECK(r.status == expected[i].status && strstr(r.message, expected[i].says) &&
                  (r.status == TFM_OK) == !r.message[0] &&
                  (r.finish == TFM_FINISH_BLANK) == (i > 0),
              "request %d: %s '%s'", i, tfm_status_text(r.status), r.message);
        good += (out[i].size == 0) == (i > 0);
    }
    CHECK(good == 6 && strcmp(out[0].data, alone) == 0, "the others are translated");
    o.skip_errors = 0;
    CHECK_FAILS(tfm_translate_batch(s, requests, 6, &o, out, text, OUT, &err), TFM_E_UTF8,
                "request 1: text is not UTF-8 at byte 6");
    tfm_session_free(s), tfm_session_free(one);
}

/* ---- texts of several sentences ---- */

static const char *const sentences[] = {"Guten Tag.", "Wo ist der Bahnhof?",
                                        "Heute ist Montag, und morgen kommt der Zug.", "Danke!",
                                        "Ich gehe jetzt nach Hause."};
static const char *const gaps[] = {" ", "  ", "\n", " \t ", ""};
enum { SENTENCES = 5 };

static void paragraphs(void) {
    static const int32_t batches[] = {1, 2, 3, 5, 40};
    char text[OUT] = " ", expected[OUT] = "", out[OUT], one[OUT];
    size_t i, size;
    int k;
    tfm_result r;
    SECTION("a text of several sentences");
    for (i = 0; i < SENTENCES; i++) {
        tfm_session *s = session_of(german, 1, 64);
        must(tfm_translate(s, sentences[i], one, OUT, &err));
        strcat(text, sentences[i]), strcat(text, gaps[i]);
        strcat(expected, one), strcat(expected, gaps[i]);
        tfm_session_free(s);
    }
    for (k = 0; k < 5; k++) {
        tfm_session *s = session_of(german, batches[k], 64);
        int64_t before;
        must(tfm_translate(s, text, out, OUT, &err));
        CHECK(strcmp(out, expected) == 0, "in batches of %d: %s", (int)batches[k], out);
        memset(out, 'q', sizeof out);
        CHECK_FAILS(tfm_translate(s, text, out, 20, &err), TFM_E_TOO_SMALL, "the buffer has 20");
        size = tfm_translation_size(s), before = test_hooks.products;
        CHECK(out[0] == 'q' && size == strlen(expected) + 1, "outputs untouched, size %d",
              (int)size);
        CHECK_FAILS(tfm_translation_get(s, NULL, out, size - 1, &err), TFM_E_TOO_SMALL, "");
        must(tfm_translation_get(s, NULL, out, size, &err));
        CHECK(strcmp(out, expected) == 0 && test_hooks.products == before && before > 0,
              "written without a second decode");
        CHECK_FAILS(tfm_result_get(s, 0, 0, &r, &err), TFM_E_STATE, "no results");
        CHECK(!tfm_session_encoder_output(s).data, "nor a source to decode again");
        must(tfm_translate(s, sentences[0], out, OUT, &err));
        must(tfm_result_get(s, 0, 0, &r, &err));
        CHECK(tfm_translation_size(s) == strlen(out) + 1 && r.length > 0, "one sentence: %s", out);
        tfm_session_free(s);
    }
}

static void bad_paragraphs(void) {
    static const char *const middles[] = {
        "Wo ist hier in der Stadt der Bahnhof, wann kommt der Zug?", "Gut \xff so."};
    static const char *const says[] = {"sentence 3, at byte 31 of the text: text has ",
                                       "text is not UTF-8 at byte 35"};
    char text[OUT], out[OUT];
    int32_t batch;
    int k;
    SECTION("a sentence in the middle that fails");
    for (k = 0; k < 2; k++)
        for (batch = 1; batch < 5; batch++) {
            tfm_session *s = session_of(german, batch, 12);
            snprintf(text, sizeof text, "Guten Tag. Wo ist der Bahnhof? %s Danke!", middles[k]);
            strcpy(out, "before");
            CHECK_FAILS(tfm_translate(s, text, out, OUT, &err), k ? TFM_E_UTF8 : TFM_E_TOO_LONG,
                        says[k]);
            CHECK(strcmp(out, "before") == 0 && tfm_translation_size(s) == (size_t)0,
                  "no output is written");
            must(tfm_translate(s, "Guten Tag. Danke!", out, OUT, &err));
            tfm_session_free(s);
        }
    for (k = 0, *text = 0; k < 200; k++) strcat(text, "Guten Tag. ");
    {
        tfm_model *m;
        tfm_session *s;
        tiny t = tiny_default();
        t.src = t.tgt = "<pad>\n<s>\n</s>\n<unk>\na.\nb\nc\nd\ne\nf\n";
        t.vs = t.vt = 10;
        t.config = ", \"start\": 1, \"end\": 2, \"src_unk\": 3, \"sentences\": \"split\"";
        m = tiny_model(t), s = session_of(m, 1, 4);
        CHECK_FAILS(tfm_translate(s, text, out, OUT, &err), TFM_E_TOO_LONG,
                    "more than the session's room of 320 bytes for it: raise max_source");
        tfm_session_free(s), tfm_model_free(m);
    }
}

/* tfm_translate_batch once gave all sentences of a text to the model as one source, with status 0:
   of eight sentences it made 144 words of nonsense. */
static void batches_of_paragraphs(void) {
    static const char *const eight = "Guten Tag. Wo ist der Bahnhof? Heute ist Montag. Danke! Ich "
                                     "gehe jetzt nach Hause. Der Zug "
                                     "kommt morgen. Das Wetter ist gut. Wir haben Zeit.";
    static const int32_t batches[] = {3, 4, 40};
    tfm_request requests[3];
    tfm_text out[3], again[3];
    tfm_decode_options o;
    tfm_result r;
    char text[OUT], one[3][OUT], copy[OUT];
    int k, i, same = 1;
    SECTION("texts of several sentences in a batch");
    requests[0] = request_of(eight), requests[1] = request_of("Danke!");
    requests[2] = request_of("Guten Tag. Danke!\nIch gehe jetzt nach Hause.");
    for (k = 0; k < 3; k++) {
        tfm_session *s = session_of(german, batches[k], 64);
        for (i = 0; i < 3; i++) must(tfm_translate(s, requests[i].text.data, one[i], OUT, &err));
        must(tfm_translate_batch(s, requests, 3, NULL, out, text, OUT, &err));
        must(tfm_translation_get(s, again, copy, tfm_translation_size(s), &err));
        for (i = 0; i < 3; i++)
            same &= strcmp(out[i].data, one[i]) == 0 && out[i].size == strlen(one[i]) &&
                    again[i].size == out[i].size && strcmp(again[i].data, out[i].data) == 0;
        CHECK(same && out[0].size > 100 && out[0].size < 300, "as tfm_translate has them: %s",
              out[0].data);
        CHECK_FAILS(tfm_result_get(s, 0, 0, &r, &err), TFM_E_STATE, "no results");
        memset(&o, 0, sizeof o), o.skip_errors = 1;
        requests[1] = request_of("Guten Tag. Wo \xff ist der Bahnhof?");
        must(tfm_translate_batch(s, requests, 3, &o, out, text, OUT, &err));
        CHECK(strcmp(out[0].data, one[0]) == 0 && strcmp(out[2].data, one[2]) == 0 && !out[1].size,
              "one that fails is empty, and the others are translated");
        must(tfm_result_get(s, 1, 0, &r, &err));
        CHECK(r.status == TFM_E_UTF8 && strcmp(r.message, "text is not UTF-8 at byte 14") == 0,
              "its result says why: %s", r.message);
        must(tfm_result_get(s, 2, 0, &r, &err));
        CHECK(r.status == TFM_OK && r.finish == TFM_FINISH_BLANK, "and the others' nothing else");
        o.skip_errors = 0, requests[1] = request_of("Danke! Wo \xff?");
        strcpy(text, "before");
        CHECK_FAILS(tfm_translate_batch(s, requests, 3, &o, out, text, OUT, &err), TFM_E_UTF8,
                    "request 1: text is not UTF-8 at byte 10");
        CHECK(strcmp(text, "before") == 0, "no output is written");
        requests[1] = request_of("Danke!");
        tfm_session_free(s);
    }
}

/* A label counts for all sentences; a text that is read whole is one source. */
static void labels_and_switch(void) {
    tiny t = tiny_default();
    tfm_session_options so;
    tfm_session *s = NULL, *whole = NULL;
    tfm_model *m;
    char out[OUT], parts[2][OUT], expected[2 * OUT];
    int32_t id;
    SECTION("labels, and texts that are read whole");
    t.src = t.tgt = "<pad>\n<s>\n</s>\n<unk>\n<fra>\n<deu>\nAa.\nBb.\nCc\nDd\n";
    t.vs = t.vt = 10;
    t.config = ", \"start\": 1, \"end\": 2, \"src_unk\": 3, \"sentences\": \"split\","
               " \"src_language\": \"target\", \"languages\": {\"fra\": 4, \"deu\": 5}";
    m = tiny_model(t), s = session_of(m, 1, 16);
    must(tfm_languages_set(s, NULL, "fra", &err));
    must(tfm_translate(s, ">>deu<< Aa. Bb.", out, OUT, &err));
    id = s->src.ids[0]; /* the language of the last sentence */
    must(tfm_translate(s, ">>deu<< Aa.", parts[0], OUT, &err));
    must(tfm_translate(s, ">>deu<< Bb.", parts[1], OUT, &err));
    snprintf(expected, sizeof expected, "%s %s", parts[0], parts[1]);
    CHECK(strcmp(out, expected) == 0 && id == 5, "a label counts for all sentences: %.60s", out);
    must(tfm_translate(s, "Aa. Bb.", out, OUT, &err));
    CHECK(s->src.ids[0] == 4, "and for no later text");
    CHECK_FAILS(tfm_translate(s, ">>xx<< Aa. Bb.", out, OUT, &err), TFM_E_TOKEN,
                "no language 'xx'");
    memset(&so, 0, sizeof so), so.sentences = TFM_SENTENCES_WHOLE, so.max_source = 16;
    must(tfm_session_create(&whole, m, &so, &err));
    must(tfm_languages_set(whole, NULL, "fra", &err));
    must(tfm_translate(whole, "Aa. Bb.", out, OUT, &err));
    CHECK(whole->src.lengths[0] == 3 && tfm_result_count(whole, 0) == 1, "the switch of a session");
    tfm_session_free(s), tfm_session_free(whole), tfm_model_free(m);
}

/* What goes between two sentences depends on the script of the translation, as in all programs. */
static void space_between(void) {
    static const char *const between[][2] = {{" ", ""}, {"\n", "\n"}, {"  ", "  "}};
    char out[OUT], text[OUT], parts[2][OUT], expected[2 * OUT];
    tiny t = tiny_default();
    tfm_session *s;
    tfm_model *m;
    int i;
    SECTION("space between sentences of a script without spaces");
    t.src = "<pad>\n<s>\n</s>\n<unk>\nAa.\nBb.\n";
    t.tgt = "<pad>\n<s>\n</s>\n\xe4\xbd\xa0\n\xe5\xa5\xbd\n\xe6\x88\x91\n";
    t.vs = t.vt = 6;
    t.config = ", \"start\": 1, \"end\": 2, \"src_unk\": 3, \"sentences\": \"split\","
               " \"tgt_text\": \"characters\", \"suppressed\": [0, 1]";
    m = tiny_model(t), s = session_of(m, 2, 16);
    must(tfm_translate(s, "Aa.", parts[0], OUT, &err));
    must(tfm_translate(s, "Bb.", parts[1], OUT, &err));
    for (i = 0; i < 3; i++) {
        snprintf(text, sizeof text, "Aa.%sBb.", between[i][0]);
        snprintf(expected, sizeof expected, "%s%s%s", parts[0], between[i][1], parts[1]);
        must(tfm_translate(s, text, out, OUT, &err));
        CHECK(*parts[0] && strcmp(out, expected) == 0, "%d: %.60s", i, out);
    }
    tfm_session_free(s), tfm_model_free(m);
}

int main(void) {
    test_hooks.count = 1;
    must(tfm_model_load_file(&german, "examples/models/de-en.safetensors", NULL, &err));
    numbers();
    refusals();
    kinds_of_sources();
    skipped();
    paragraphs();
    bad_paragraphs();
    batches_of_paragraphs();
    space_between();
    labels_and_switch();
    tfm_model_free(german);
    return test_done("test_requests");
}
