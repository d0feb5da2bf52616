/* Translators: any number of texts in, translations and errors out in their order, the same bits as
   tfm_translate for any threads and batches. Built with -fsanitize=thread this is a race test. */
#define TRANSFORMER_IMPLEMENTATION
#include "transformer.h"
#include "tiny.h"

enum { TEXT = 512, OUT = 32768, MOST = 12 };
#ifdef TEST_SANITIZED
enum { LINES = 2000, ENDLESS = 3000, PARTS = 3 };
#else
enum { LINES = 10000, ENDLESS = 5000, PARTS = 1 };
#endif

static const char words[] = "<pad>\n<s>\n</s>\n<unk>\nAa.\nBb?\nCc\nDd\nEe\nFf!\n<fra>\n<deu>\n";
static tfm_model *model; /* reads sentences */

static tfm_model *model_of(const char *config, const tfm_allocator *allocator) {
    static char whole[512];
    st_writer w;
    tiny t = tiny_default();
    tfm_model_options o;
    tfm_model *m = NULL;
    snprintf(whole, sizeof whole, ", \"start\": 1, \"end\": 2, \"suppressed\": [0, 1, 10, 11]%s",
             config);
    t.src = t.tgt = words, t.vs = t.vt = 12, t.config = whole;
    memset(&o, 0, sizeof o), o.allocator = allocator;
    tiny_write(&w, t);
    m = tiny_load(&w, &o);
    return m;
}

/* ---- the program: what a program needs that knows only translators ---- */

typedef struct lines {
    char (*in)[TEXT];
    int64_t n, next, done;
    char *out, *at;
    int wrong;
} lines;
static int next_line(void *user, tfm_request *request) {
    lines *l = (lines *)user;
    if (l->next == l->n) return 0;
    *request = tfm_request_text(l->in[l->next], strlen(l->in[l->next]));
    return l->next++, 1;
}
static int keep_line(void *user, const tfm_translated *r) {
    lines *l = (lines *)user;
    l->wrong += r->number != l->done++ || r->text.data[r->text.size] != 0;
    l->at += sprintf(l->at, "%s%s\n", r->text.data, r->message);
    return 0;
}
static void program(const tfm_model *m, int32_t threads, lines *l) {
    tfm_translator *t = NULL;
    tfm_translator_options how;
    memset(&how, 0, sizeof how);
    how.threads = threads, how.max_source = MOST;
    must(tfm_translator_create(&t, m, &how, &err));
    must(tfm_translator_pull(t, next_line, keep_line, l, &err));
    tfm_translator_free(t);
}

/* ---- texts, and what tfm_translate makes of them ---- */

/* Writes text number i: none to six sentences, some too long for MOST, some not UTF-8. */
static void write_text(int64_t i, char *text) {
    static const char *const word[] = {"Cc", "Dd", "Ee", "Zz"}, *const end[] = {"Aa.", "Bb?",
                                                                                "Ff!"};
    static const char *const gaps[] = {" ", "  ", "\n", " "};
    unsigned seed = (unsigned)i * 7919u + 1;
    int k, j, n = (int)(tiny_random(&seed) % 7);
    char *at = text;
    *at = 0;
    for (k = 0; k < n; k++) {
        int more = (int)(tiny_random(&seed) % 6);
        if (tiny_random(&seed) % 60 == 0) more = MOST + 3;
        for (j = 0; j < more; j++) at += sprintf(at, "%s ", word[tiny_random(&seed) % 4]);
        at += sprintf(at, "%s%s", end[tiny_random(&seed) % 3], gaps[tiny_random(&seed) % 4]);
    }
    if (tiny_random(&seed) % 50 == 0) at += sprintf(at, "\xff");
    if (tiny_random(&seed) % 50 == 0) sprintf(at, " ");
}

static char texts[LINES][TEXT], expected[LINES * 400], made[LINES * 400];

static void expect(const tfm_model *m, int64_t n) {
    tfm_session_options o;
    tfm_session *s = NULL;
    char out[OUT], *at = expected;
    int64_t i;
    memset(&o, 0, sizeof o);
    o.max_source = MOST, o.max_batch = 8, o.decoding = tfm_model_decoding(m);
    must(tfm_session_create(&s, m, &o, &err));
    for (i = 0; i < n; i++)
        at += sprintf(at, "%s\n", tfm_translate(s, texts[i], out, OUT, &err) ? err.text : out);
    tfm_session_free(s);
}

static void ten_thousand_lines(void) {
    static const int32_t threads[] = {2, 1, 5};
    int64_t i;
    int k;
    SECTION("lines through a program that only uses translators");
    for (i = 0; i < LINES; i++) write_text(i, texts[i]);
    expect(model, LINES);
    CHECK(strstr(expected, "sentence 2, at byte ") && strstr(expected, "is not UTF-8") &&
              strstr(expected, "tokens, there is room for 12"),
          "some lines cannot be translated");
    for (k = 0; k < 3; k++) {
        lines l;
        memset(&l, 0, sizeof l);
        l.in = texts, l.n = k ? LINES / 10 : LINES, l.out = l.at = made;
        program(model, threads[k], &l);
        CHECK(l.done == l.n && !l.wrong && strncmp(made, expected, (size_t)(l.at - made)) == 0,
              "%d threads: %ld lines, as tfm_translate has them", (int)threads[k], (long)l.done);
    }
}

/* ---- batches, order, growth ---- */

typedef struct outcome {
    int64_t n, last, sentences, blank, cut, tokens;
    int failed, wrong, stop_at;
    tfm_status status;
    char message[256];
    char *text; /* where the translations go, or NULL */
} outcome;
static int collect(void *user, const tfm_translated *r) {
    outcome *o = (outcome *)user;
    o->wrong += r->number != o->n || !r->request || (r->status != TFM_OK && r->text.size);
    o->n++, o->sentences += r->sentences, o->blank += r->blank, o->cut += r->cut;
    o->tokens += r->tokens, o->failed += r->status != TFM_OK;
    if (r->status != TFM_OK) o->status = r->status, strcpy(o->message, r->message);
    if (o->text) o->text += sprintf(o->text, "%s|", r->text.data);
    return o->stop_at && o->n == o->stop_at;
}

static tfm_translator *translator_of(const tfm_model *m, int32_t threads, int32_t batch,
                                     const tfm_decode_options *decoding) {
    tfm_translator_options how;
    tfm_translator *t = NULL;
    memset(&how, 0, sizeof how), how.threads = threads, how.max_batch = batch;
    how.decoding = decoding;
    must(tfm_translator_create(&t, m, &how, &err));
    return t;
}

static outcome run(tfm_translator *t, const tfm_request *requests, int64_t n, char *text) {
    outcome o;
    memset(&o, 0, sizeof o), o.text = text;
    must(tfm_translator_run(t, requests, n, collect, &o, &err));
    return o;
}

static void reverse(tfm_request *requests, int n) {
    int i;
    for (i = 0; i < n / 2; i++) {
        tfm_request swapped = requests[i];
        requests[i] = requests[n - 1 - i], requests[n - 1 - i] = swapped;
    }
}

/* The same texts in two orders, with sentences of 1 to 180 tokens. */
static void same_bits(void) {
    enum { N = 16 };
    static char in[N][TEXT * 2], one[N * (int)OUT], two[N * (int)OUT], three[N * (int)OUT];
    static const int32_t batches[] = {1, 2, 7, 64};
    static tfm_decode_options greedy; /* to twice the length of the source */
    tfm_request requests[N];
    tfm_translator *t = translator_of(model, 1, 1, &greedy);
    unsigned seed = 5;
    int i, k, j;
    SECTION("the same bits in any batch and order, with sentences that grow");
    for (i = 0; i < N; i++) {
        int n = i % 8 == 7 ? 12 * i : (int)(tiny_random(&seed) % 9);
        for (j = 0; j < n; j++) strcat(in[i], tiny_random(&seed) % 2 ? "Cc " : "Dd ");
        strcat(in[i], "Aa.");
        requests[i] = tfm_request_text(in[i], strlen(in[i]));
    }
    (void)run(t, requests, N, one);
    tfm_translator_free(t);
    for (k = 0; k < 4; k += PARTS)
        for (j = 1; j < 4; j++) {
            outcome o;
            t = translator_of(model, j, batches[k], &greedy);
            o = run(t, requests, N, two);
            CHECK(!o.failed && !o.wrong && strcmp(one, two) == 0, "%d threads, batches of %d", j,
                  (int)batches[k]);
            reverse(requests, N), (void)run(t, requests, N, three);
            reverse(requests, N), o = run(t, requests, N, three);
            CHECK(!o.failed && strcmp(one, three) == 0, "and after another order");
            tfm_translator_free(t);
        }
}

/* ---- input without an end ---- */

typedef struct pipe_state {
    outcome out;
    int64_t pulled, ahead, at_pause;
    int pauses;     /* 1: says after each text that it would have to wait */
    int has_waited; /* 1: the next call is the one that waits */
    int inside;     /* calls of the two functions at this moment */
} pipe_state;
static int next_endless(pipe_state *p, tfm_request *request) {
    if (p->pauses && !p->has_waited && p->pulled) return p->has_waited = 1, -1;
    if (p->has_waited) p->at_pause += p->out.n == p->pulled;
    p->has_waited = 0;
    if (p->pauses && p->pulled == 5) return 0;
    *request = tfm_request_text(texts[p->pulled % 500], strlen(texts[p->pulled % 500]));
    p->pulled++;
    return 1;
}
static int endless(void *user, tfm_request *request) {
    pipe_state *p = (pipe_state *)user;
    int got;
    p->out.wrong += p->inside++;
    got = next_endless(p, request);
    p->inside--;
    return got;
}
static int collect_endless(void *user, const tfm_translated *r) {
    pipe_state *p = (pipe_state *)user;
    int is_over;
    p->out.wrong += p->inside++;
    is_over = collect(&p->out, r);
    p->inside--;
    return is_over;
}

static void pulled(void) {
    tfm_translator *t = translator_of(model, 2, 4, NULL);
    pipe_state p;
    size_t peak[2];
    int k;
    SECTION("input that is pulled");
    for (k = 0; k < 2; k++) {
        memset(&p, 0, sizeof p);
        p.out.stop_at = k ? ENDLESS : 1000;
        must(tfm_translator_pull(t, endless, collect_endless, &p, &err));
        peak[k] = tfm_translator_bytes(t);
        CHECK(p.out.n == p.out.stop_at && !p.out.wrong && p.pulled < p.out.n + 4 * 16 * 4 + 16,
              "done ends the run after %ld texts, and %ld were read", (long)p.out.n,
              (long)p.pulled);
    }
    CHECK(peak[0] > 0 && peak[1] <= peak[0] + peak[0] / 8, "memory is bounded: %ld and %ld bytes",
          (long)peak[0], (long)peak[1]);
    tfm_translator_free(t);
    for (k = 1; k < 4; k++) {
        t = translator_of(model, k, 1, NULL);
        memset(&p, 0, sizeof p), p.pauses = 1;
        must(tfm_translator_pull(t, endless, collect_endless, &p, &err));
        CHECK(p.at_pause == 5 && p.out.n == 5 && !p.out.wrong,
              "before input waits, all texts are translated, by %d threads", k);
        tfm_translator_free(t);
    }
}

/* ---- requests of all kinds, counts, languages ---- */

static void kinds(void) {
    static const int32_t ids[] = {6, 7, 4};
    static const char *const in[] = {"Cc Aa. Bb? ", "", " ", "Cc \xff", "Dd Ff! Cc Cc Cc Cc Cc Cc"};
    tfm_request requests[8];
    tfm_translator_options how;
    tfm_translator *t = NULL;
    tfm_decode_options decoding;
    char text[OUT], first[OUT], one[OUT];
    outcome o;
    int i;
    SECTION("requests of all kinds in one run, and counts");
    for (i = 0; i < 5; i++) requests[i] = tfm_request_text(in[i], strlen(in[i]));
    requests[5] = tfm_request_ids(ids, 3);
    requests[6] = requests[5], requests[6].text = requests[0].text;
    requests[7] = requests[0], requests[7].prefix = tfm_ids_make(ids, 2);
    memset(&how, 0, sizeof how), memset(&decoding, 0, sizeof decoding);
    decoding.max_length = 5, decoding.truncate = 6, how.decoding = &decoding;
    must(tfm_translator_create(&t, model, &how, &err));
    o = run(t, requests, 8, text);
    CHECK(o.n == 8 && o.failed == 2 && !o.wrong && o.status == TFM_E_ARGUMENT &&
              strstr(o.message, "two sources"),
          "one text is not UTF-8, one request has two sources: %s", o.message);
    CHECK(o.sentences == 10 && o.blank == 2 && o.cut > 2 && o.tokens > 10,
          "%d sentences, %d blank, %d cut, %d tokens", (int)o.sentences, (int)o.blank, (int)o.cut,
          (int)o.tokens);
    o = run(t, requests + 4, 1, first);
    CHECK(o.sentences == 2 && o.cut >= 1, "a source that is truncated is cut");
    o = run(t, requests + 7, 1, first);
    CHECK(o.sentences == 1 && strncmp(first, "Cc Dd ", 6) == 0,
          "a text with a prefix is one sentence: %s", first);
    tfm_translator_free(t);
    decoding.max_length = decoding.truncate = 0, decoding.samples = 1, decoding.temperature = 2;
    must(tfm_translator_create(&t, model, &how, &err));
    requests[1] = requests[0], requests[0].seed = 1, requests[1].seed = 2;
    (void)run(t, requests, 2, text), (void)run(t, requests + 1, 1, one);
    CHECK(strncmp(text, one, strlen(one)) != 0 && strcmp(strchr(text, '|') + 1, one) == 0,
          "each request has its seed");
    tfm_translator_free(t);
    memset(&decoding, 0, sizeof decoding), how.sentences = TFM_SENTENCES_WHOLE;
    must(tfm_translator_create(&t, model, &how, &err));
    o = run(t, requests, 1, text);
    CHECK(o.sentences == 1, "a text that is read as a whole");
    tfm_translator_free(t);
}

static void languages(void) {
    tfm_model *m = model_of(", \"src_unk\": 3, \"sentences\": \"split\", \"src_language\": "
                            "\"target\", \"languages\": {\"fra\": 10, \"deu\": 11}",
                            NULL);
    tfm_request requests[4];
    tfm_translator_options how;
    tfm_translator *t = translator_of(m, 2, 0, NULL);
    static const int32_t language[] = {10, 11, 11};
    char text[OUT];
    outcome o;
    int i;
    SECTION("languages");
    requests[0] = tfm_request_text("Cc Aa. Bb?", 10);
    o = run(t, requests, 1, text);
    CHECK(o.status == TFM_E_STATE && strstr(o.message, "several languages"), "%s", o.message);
    tfm_translator_free(t), t = NULL;
    memset(&how, 0, sizeof how), how.target_language = "fra";
    must(tfm_translator_create(&t, m, &how, &err));
    requests[1] = tfm_request_text(">>deu<< Cc Aa. Bb?", 18);
    requests[2] = requests[0], requests[2].target_language = "deu";
    requests[3] = requests[0], requests[3].target_language = "xx";
    for (i = 0; i < 3; i++) { /* both sentences begin with the language's token */
        const tfm__id_rows *src;
        (void)run(t, requests + i, 1, text);
        src = &t->workers[0].session->src;
        CHECK(src->B == 2 && src->ids[0] == language[i] && src->ids[src->L] == language[i],
              "language %d is of all sentences", (int)language[i]);
    }
    o = run(t, requests, 4, NULL);
    CHECK(o.failed == 1 && strstr(o.message, "no language 'xx'"), "%s", o.message);
    tfm_translator_free(t);
    how.target_language = "xx";
    CHECK_FAILS(tfm_translator_create(&t, m, &how, &err), TFM_E_TOKEN, "no language 'xx'");
    tfm_model_free(m);
}

/* ---- faults ---- */

static void memory_fails(void) {
    test_allocator count;
    tfm_allocator allocator = test_counting(&count);
    tfm_request requests[30];
    tfm_translator_options how;
    char all[OUT], some[OUT];
    int n, i, persistent, good = 1, created = 0, failed = 0, whole = 0;
    SECTION("each allocation fails, once and from then on");
    for (i = 0; i < 30; i++) requests[i] = tfm_request_text(texts[i + 20], strlen(texts[i + 20]));
    memset(&how, 0, sizeof how), how.allocator = &allocator, how.max_batch = 3, how.max_source = 9;
    for (persistent = 0; persistent < 2; persistent++)
        for (n = 0; n < 400; n += n < 20 ? 1 : 17) { /* 0: none */
            tfm_translator *t = NULL;
            outcome o;
            tfm_status status;
            memset(&o, 0, sizeof o), o.text = n ? some : all;
            count.calls = 0, count.fail_at = n, count.persistent = persistent;
            status = tfm_translator_create(&t, model, &how, &err);
            if (status == TFM_OK) {
                created++;
                status = tfm_translator_run(t, requests, 30, collect, &o, &err);
                failed += status != TFM_OK || o.status == TFM_E_MEMORY;
                whole += status == TFM_OK && o.n == 30 && strcmp(some, all) == 0;
                good &= !o.wrong && (status == TFM_OK ? o.n == 30 : status == TFM_E_MEMORY);
                count.fail_at = 0;
                memset(&o, 0, sizeof o), o.text = some;
                must(tfm_translator_run(t, requests, 30, collect, &o, &err));
                good &= n == 0 || strcmp(some, all) == 0;
            } else good &= status == TFM_E_MEMORY && !t;
            tfm_translator_free(t);
            good &= count.live == 0;
        }
    CHECK(good && created > 20 && failed > 20 && whole > 2,
          "%d translators, %d runs with a fault, %d that needed no more memory", created, failed,
          whole);
    {
        tfm_translator *t = NULL;
        outcome o;
        char *text = (char *)test_memory(1 << 16);
        memset(text, ' ', 1 << 16);
        for (i = 0; i < 3000; i++) memcpy(text + 3 * i, "Cc ", 3);
        requests[3] = tfm_request_text(text, 9000);
        memset(&how, 0, sizeof how), how.memory = 1 << 20;
        must(tfm_translator_create(&t, model, &how, &err));
        o = run(t, requests + 3, 1, NULL);
        CHECK(o.status == TFM_E_MEMORY && strstr(o.message, "a sentence of 3000 tokens takes") &&
                  tfm_translator_bytes(t) < 3 << 20,
              "options.memory: %s", o.message);
        tfm_translator_free(t);
    }
}

#ifdef TFM__THREADS
static void threads_fail(void) {
    tfm_request requests[30];
    tfm_translator *t = NULL;
    tfm_translator_options how;
    char all[OUT], some[OUT];
    outcome o;
    int n, i, good = 1, refused = 0;
    SECTION("each call of threads fails");
    for (i = 0; i < 30; i++) requests[i] = tfm_request_text(texts[i], strlen(texts[i]));
    t = translator_of(model, 1, 2, NULL);
    (void)run(t, requests, 30, all);
    tfm_translator_free(t);
    memset(&how, 0, sizeof how), how.threads = 3, how.max_batch = 2;
    for (n = 1; n < 20; n++) {
        t = NULL;
        test_hooks.threads.calls = 0, test_hooks.threads.fail_at = n;
        test_hooks.threads.persistent = 1;
        if (tfm_translator_create(&t, model, &how, &err) != TFM_OK) refused++, good &= !t;
        else {
            o = run(t, requests, 30, some);
            good &= o.n == 30 && strcmp(some, all) == 0;
        }
        tfm_translator_free(t);
        good &= test_hooks.threads.live == 0;
        test_hooks.threads.fail_at = 0;
    }
    CHECK(good && refused == 2, "%d of 19 are refused, the others translate", refused);
}
#endif

static void arguments(void) {
    tfm_translator *t = NULL;
    tfm_translator_options how;
    tfm_decode_options decoding;
    tfm_model *ids = tiny_model(tiny_default());
    tfm_request request = tfm_request_text("Aa.", 3);
    outcome o;
    SECTION("arguments");
    memset(&how, 0, sizeof how), memset(&decoding, 0, sizeof decoding), memset(&o, 0, sizeof o);
    CHECK_FAILS(tfm_translator_create(NULL, model, NULL, &err), TFM_E_ARGUMENT, "NULL");
    CHECK_FAILS(tfm_translator_create(&t, NULL, NULL, &err), TFM_E_ARGUMENT, "NULL");
    CHECK_FAILS(tfm_translator_create(&t, ids, NULL, &err), TFM_E_NO_TEXT, "no vocabularies");
    how.threads = 65;
    CHECK_FAILS(tfm_translator_create(&t, model, &how, &err), TFM_E_ARGUMENT, "threads 65");
    how.threads = 0, how.max_batch = -1;
    CHECK_FAILS(tfm_translator_create(&t, model, &how, &err), TFM_E_ARGUMENT, "max_batch -1");
    how.max_batch = 0, how.sentences = TFM_SENTENCES_COUNT;
    CHECK_FAILS(tfm_translator_create(&t, model, &how, &err), TFM_E_ARGUMENT, "sentences");
    how.sentences = TFM_SENTENCES_UNKNOWN, how.decoding = &decoding, decoding.beam = -2;
    CHECK_FAILS(tfm_translator_create(&t, model, &how, &err), TFM_E_ARGUMENT, "beam");
    decoding.beam = 2, decoding.n_best = 3;
    CHECK_FAILS(tfm_translator_create(&t, model, &how, &err), TFM_E_ARGUMENT, "n_best");
    how.decoding = NULL, how.cache = TFM_DTYPE_I8;
    CHECK_FAILS(tfm_translator_create(&t, model, &how, &err), TFM_E_ARGUMENT, "cache");
    CHECK(!t && !tfm_translator_bytes(NULL), "nothing was created");
    tfm_translator_free(NULL);
    t = translator_of(model, 1, 0, NULL);
    CHECK_FAILS(tfm_translator_run(t, NULL, 1, collect, &o, &err), TFM_E_ARGUMENT, "requests");
    CHECK_FAILS(tfm_translator_run(t, &request, -1, collect, &o, &err), TFM_E_ARGUMENT, "negative");
    CHECK_FAILS(tfm_translator_run(NULL, &request, 1, collect, &o, &err), TFM_E_ARGUMENT, "NULL");
    CHECK_FAILS(tfm_translator_run(t, &request, 1, NULL, &o, &err), TFM_E_ARGUMENT, "NULL");
    CHECK_FAILS(tfm_translator_pull(t, NULL, collect, &o, &err), TFM_E_ARGUMENT, "NULL");
    must(tfm_translator_run(t, NULL, 0, collect, &o, &err));
    CHECK(o.n == 0, "no texts, no results");
    tfm_translator_free(t), tfm_model_free(ids);
}

int main(void) {
    model = model_of(", \"src_unk\": 3, \"sentences\": \"split\", "
                     "\"decoding\": {\"max_length\": 6, \"no_repeat_ngram\": 2}",
                     NULL);
    ten_thousand_lines();
    same_bits();
    pulled();
    kinds();
    languages();
    memory_fails();
#ifdef TFM__THREADS
    threads_fail();
#endif
    arguments();
    tfm_model_free(model);
    return test_done("test_translator");
}
