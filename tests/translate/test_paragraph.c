/* test_paragraph: tests how paragraph.h takes texts apart and puts them together, and texts.h with
   the shipped models.

   test_paragraph MODEL [THREADS [plain]] < lines > translations
   translates lines with texts.h; test_texts.sh compares them with the program translate. */
#include "examples/translate/text/texts.h"
#include "test.h"

static const char german[] = "examples/models/de-en.safetensors";

/* ---- paragraph.h ---- */

static int32_t count_bytes(void *user, const char *word, size_t size) {
    (void)user, (void)word;
    return (int32_t)size;
}

/* Translates each source by writing it between < and >, and a long one by "<...>". */
static void put_marked(paragraph *p) {
    char text[80];
    size_t i;
    for (i = 0; i < p->n; i++) {
        const tfm_text source = paragraph_source(p, i);
        if (!source.size) continue;
        if (source.size > 60) strcpy(text, "<...>");
        else snprintf(text, sizeof text, "<%.*s>", (int)source.size, source.data);
        paragraph_put(p, i, text, strlen(text), 0, NULL, NULL, NULL);
    }
}

static void texts_apart(void) {
    static const struct {
        const char *text, *made;
        int flags, labels;
    } cases[] = {{"Der Hund bellt.", "<Der Hund bellt.>", 0, 0},
                 {"  Der Hund bellt. ", "<Der Hund bellt.>", 0, 0},
                 {"  1. Der Hund bellt. ", "  1. <Der Hund bellt.>", 0, 0},
                 {"- Hallo! Danke!\tBitte!", "- <Hallo!> <Danke!>\t<Bitte!>", 0, 0},
                 {"Hallo!\nDanke!\n", "<Hallo!>\n<Danke!>", 0, 0},
                 {"(Der Hund bellt.)", "(<Der Hund bellt.>)", 0, 0},
                 {" (Der Hund bellt.) ", "(<Der Hund bellt.>)", 0, 0},
                 {"DER HUND BELLT HEUTE.", "<DER HUND BELLT HEUTE.>", 0, 0},
                 {"42", "42", 0, 0},
                 {"  42  ", "  42  ", 0, 0},
                 {" - 42. ", " - 42. ", 0, 0},
                 {"", "", 0, 0},
                 {" \n ", "", 0, 0},
                 {"42 Hunde. 43. Ende", "<42 Hunde.> 43. <Ende>", 0, 0},
                 {"狗在叫。猫睡了。", "<狗在叫。><猫睡了。>", 0, 0},
                 {"ANNA: Der Hund bellt.", "ANNA: <Der Hund bellt.>", AROUND_CUES, 0},
                 {"Eins. Zwei.", "<Eins. Zwei.>", AROUND_ONE, 0},
                 {">>fra<< Eins. Zwei.", "<>>fra<< Eins.> <Zwei.>", 0, 0},
                 {">>fra<< Eins. Zwei.", "<>>fra<< Eins.> <>>fra<<Zwei.>", 0, 1},
                 {" >>fra<< Eins. Zwei.", "<>>fra<< Eins.> < >>fra<<Zwei.>", 0, 1}};
    paragraph p;
    text_buffer out;
    size_t i;
    SECTION("texts taken apart and put together");
    memset(&p, 0, sizeof p), memset(&out, 0, sizeof out);
    for (i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *text = cases[i].text;
        p.flags = cases[i].flags, p.labels = cases[i].labels, p.count = count_bytes;
        out.size = 0;
        text_buffer_append(&out, "", 0);
        CHECK(paragraph_read(&p, text, strlen(text)), "");
        put_marked(&p);
        paragraph_join(&p, &out);
        CHECK(strcmp(out.data, cases[i].made) == 0, "'%s': '%s', not '%s'", text, out.data,
              cases[i].made);
        out.size = 0;
        text_buffer_append(&out, "", 0);
        CHECK(paragraph_read(&p, text, strlen(text)), "");
        paragraph_join(&p, &out);
        CHECK(strstr(text, out.data) || strchr(text, '\t') || i == 14,
              "'%s' without translations: '%s'", text, out.data);
    }
    paragraph_free(&p), text_buffer_free(&out);
}

/* A label in front of a script without spaces gets a space, and the words of a sentence in capitals
   get a capital letter where that saves tokens. */
static int32_t count_nouns(void *user, const char *word, size_t size) {
    (void)user;
    return size == 4 && memcmp(word, "Hund", 4) == 0 ? 1 : 2;
}
static void spaces_and_capitals(void) {
    paragraph p;
    text_buffer out;
    tfm_text source;
    SECTION("spaces and capitals");
    memset(&p, 0, sizeof p), memset(&out, 0, sizeof out);
    CHECK(paragraph_read(&p, "一、狗在叫。", strlen("一、狗在叫。")), "");
    paragraph_put(&p, 0, "The dog barks.", 14, 0, NULL, NULL, NULL);
    paragraph_join(&p, &out);
    CHECK(strcmp(out.data, "一、 The dog barks.") == 0, "a space behind a label: %s", out.data);
    out.size = 0;
    p.count = count_nouns;
    CHECK(paragraph_read(&p, "DER HUND BELLT HEUTE.", 21), "");
    source = paragraph_source(&p, 0);
    CHECK(source.size == 21 && memcmp(source.data, "Der Hund bellt heute.", 21) == 0,
          "capitals: %.*s", (int)source.size, source.data);
    paragraph_put(&p, 0, "Le chien crie.", 14, 0, NULL, NULL, NULL);
    paragraph_join(&p, &out);
    CHECK(strcmp(out.data, "LE CHIEN CRIE.") == 0, "and back: %s", out.data);
    paragraph_free(&p), text_buffer_free(&out);
}

/* ---- texts.h ---- */

enum { MANY = 5000 };

typedef struct seen {
    int64_t n, most; /* results so far; the run ends behind `most` of them, 0: at the end */
    int is_disordered;
    char text[20][200];
    texts_result result[20]; /* without what it points to */
    char message[20][200];
    /* of next */
    int64_t given, ahead, size; /* texts given; the most that had no result; how many there are */
    int pauses;
} seen;

static int see(void *user, const texts_result *r) {
    seen *s = (seen *)user;
    s->is_disordered |= r->of.number != s->n;
    if (s->n < 20) {
        snprintf(s->text[s->n], 200, "%.*s", (int)r->of.text.size, r->of.text.data);
        snprintf(s->message[s->n], 200, "%s", r->of.message);
        s->result[s->n] = *r;
    }
    return ++s->n == s->most;
}

static int give(void *user, tfm_request *request) {
    static const char *const texts[] = {"Ja.", "42", "- Nein.", "", "Danke. Bitte."};
    seen *s = (seen *)user;
    const char *text = texts[s->given % 5];
    if (s->given - s->n > s->ahead) s->ahead = s->given - s->n;
    if (s->given == s->size) return 0;
    if (s->pauses && s->given % 7 == 3 && s->given != s->n) return -1;
    s->given++;
    *request = tfm_request_text(text, strlen(text));
    return 1;
}

static void with_a_model(void) {
    static const char *const texts[] = {"1. Guten Tag.",
                                        "This is the house of my brother.",
                                        "42",
                                        "",
                                        "Guten Tag. \xFF. Danke.",
                                        "我是学生。",
                                        "Guten Tag.\n- Danke."};
    enum { N = 7 };
    tfm_request requests[N + 1];
    tfm_model *model = NULL;
    texts_translator *t = NULL;
    texts_options o;
    tfm_error err;
    int32_t ids[1] = {0};
    seen s;
    int i, k;
    SECTION("texts with a model");
    if (tfm_model_load_file(&model, german, NULL, &err) != TFM_OK) {
        test_skip("no examples/models/de-en.safetensors");
        return;
    }
    memset(&o, 0, sizeof o), memset(&s, 0, sizeof s);
    for (i = 0; i < N; i++) requests[i] = tfm_request_text(texts[i], strlen(texts[i]));
    requests[N] = tfm_request_text("1. Guten Tag.", 13);
    requests[N].prefix = tfm_ids_make(ids, 0), requests[N].draft = tfm_ids_make(ids, 0);
    CHECK(texts_create(&t, NULL, NULL, &err) == TFM_E_ARGUMENT, "no model is an error");
    CHECK(texts_create(&t, model, NULL, &err) == TFM_OK, "");
    CHECK(texts_run(t, requests, N, see, &s, &err) == TFM_OK && s.n == N && !s.is_disordered,
          "each text has a result");
    CHECK(strcmp(s.text[0], "1. Good day.") == 0, "a label stays: %s", s.text[0]);
    CHECK(strcmp(s.text[1], texts[1]) == 0 && s.result[1].left == 1,
          "text of the target language stays: %s", s.text[1]);
    CHECK(strcmp(s.text[2], "42") == 0 && !s.text[3][0], "text without letters: %s", s.text[2]);
    CHECK(s.result[4].of.status == TFM_E_UTF8 && !s.text[4][0] &&
              strncmp(s.message[4], "sentence 2, at byte 11 of the text: ", 36) == 0,
          "a text that fails: %s", s.message[4]);
    CHECK(strcmp(s.text[5], texts[5]) == 0 && s.result[5].left == 1, "another script: %s",
          s.text[5]);
    CHECK(strcmp(s.text[6], "Good day.\n- Thanks.") == 0 && s.result[6].of.sentences == 2,
          "lines: %s", s.text[6]);
    memset(&s, 0, sizeof s), s.most = 2;
    CHECK(texts_run(t, requests, N, see, &s, &err) == TFM_OK && s.n == 2, "done ends a run");
    for (k = 0; k < 2; k++) {
        memset(&s, 0, sizeof s), s.size = k ? 300 : 2 * MANY, s.pauses = k;
        CHECK(texts_pull(t, give, see, &s, &err) == TFM_OK && s.n == s.size && !s.is_disordered &&
                  s.ahead <= TEXTS_MOST + 1,
              "%s: %ld results, %ld texts on their way", k ? "pauses" : "many texts", (long)s.n,
              (long)s.ahead);
    }
    texts_free(t), t = NULL;
    o.plain = 1;
    CHECK(texts_create(&t, model, &o, &err) == TFM_OK, "");
    memset(&s, 0, sizeof s);
    CHECK(texts_run(t, requests, 3, see, &s, &err) == TFM_OK && strcmp(s.text[1], texts[1]) != 0 &&
              strcmp(s.text[2], "42") != 0 && !s.result[1].left,
          "plain: %s %s", s.text[1], s.text[2]);
    texts_free(t), t = NULL;
    o.plain = 0, o.all_languages = 1, o.of.threads = 2, o.of.max_batch = 1;
    CHECK(texts_create(&t, model, &o, &err) == TFM_OK, "");
    memset(&s, 0, sizeof s);
    CHECK(texts_run(t, requests, N, see, &s, &err) == TFM_OK && s.n == N && !s.is_disordered &&
              strcmp(s.text[1], texts[1]) != 0 && strcmp(s.text[2], "42") == 0,
          "all languages, two threads: %s", s.text[1]);
    texts_free(t);
    tfm_model_free(model);
}

/* ---- the program ----------------------------------------------------------------------------- */

static int next_line(void *user, tfm_request *request) {
    char *line = NULL;
    text_buffer b;
    int c;
    (void)user;
    memset(&b, 0, sizeof b);
    text_buffer_append(&b, "", 0);
    while ((c = getchar()) != EOF && c != '\n') {
        const char byte = (char)c;
        text_buffer_append(&b, &byte, 1);
    }
    if (c == EOF && !b.size) {
        text_buffer_free(&b);
        return 0;
    }
    line = b.data;
    *request = tfm_request_text(line, b.size);
    return 1;
}
static int write_line(void *user, const texts_result *r) {
    (void)user;
    printf("%.*s\n", (int)r->of.text.size, r->of.text.data);
    if (r->of.status != TFM_OK) fprintf(stderr, "%s\n", r->of.message);
    free((void *)(uintptr_t)r->of.request->text.data);
    return 0;
}
static int translate_lines(const char *path, const char *threads, int plain) {
    tfm_model *model = NULL;
    texts_translator *t = NULL;
    texts_options o;
    tfm_error err;
    memset(&o, 0, sizeof o);
    o.of.threads = atoi(threads), o.plain = plain;
    if (tfm_model_load_file(&model, path, NULL, &err) != TFM_OK ||
        texts_create(&t, model, &o, &err) != TFM_OK ||
        texts_pull(t, next_line, write_line, NULL, &err) != TFM_OK)
        return fprintf(stderr, "%s\n", err.text), 1;
    texts_free(t);
    tfm_model_free(model);
    return 0;
}

int main(int argc, char **argv) {
    if (argc > 1) return translate_lines(argv[1], argc > 2 ? argv[2] : "1", argc > 3);
    texts_apart();
    spaces_and_capitals();
    with_a_model();
    return test_done("test_paragraph");
}
