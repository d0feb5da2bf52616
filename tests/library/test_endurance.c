/* Long and large work: a session that translates sentence after sentence, a source of 4,096 tokens,
   an empty batch. test_endurance [SENTENCES] sets how many sentences the session translates
   (20,000). */
#include "transformer.h"
#include "tiny.h"

/* A sanitizer checks each access, but not whether memory grows, which takes many sentences to
   see. */
#ifdef TEST_SANITIZED
#define SENTENCES 3000
#else
#define SENTENCES 20000
#endif

enum { TOKENS = 4096, PERIOD = 64, TEXTS = 48, MOST_WORDS = 6 };

static tfm_model *text_model(const tfm_allocator *allocator) {
    tfm_model_options options;
    tiny t = tiny_default();
    st_writer w;
    t.d = 8, t.heads = 2, t.key = t.value = 4, t.ff = 8, t.encoder = t.decoder = 1;
    t.vs = 7, t.vt = 9;
    t.src = "<pad>\none\ntwo\nthree\nfour\nfive\nsix\n";
    t.tgt = "<pad>\n<s>\n</s>\na\nb\nc\nd\ne\nf\n";
    t.config = ", \"start\": 1, \"end\": 2, \"src_pad\": 0, \"tgt_pad\": 0";
    tiny_write(&w, t);
    tiny_raise(&w, 2, 1);
    memset(&options, 0, sizeof options);
    options.allocator = allocator;
    return tiny_load(&w, &options);
}

/* Short texts of different lengths, and what the session made of each the first time. */
static char texts[TEXTS][64], first[TEXTS][256];

static void many_sentences(long sentences) {
    static const char *const words[] = {"one", "two", "three", "four", "five", "six"};
    test_allocator model_counter, counter;
    tfm_allocator of_model = test_counting(&model_counter), of_session = test_counting(&counter);
    tfm_model *model = text_model(&of_model);
    tfm_session_options o;
    tfm_session *s = NULL;
    tfm_decode_options search;
    tfm_text in[2], out[2];
    char text[256], both[512];
    unsigned seed = 3;
    long i, before = 0, after, differ = 0;
    int calls, length, k;
    memset(&o, 0, sizeof o);
    memset(&search, 0, sizeof search);
    o.max_batch = 2, o.max_source = 8, o.max_beam = 2, o.attention = 1, o.allocator = &of_session;
    search.beam = 2, search.length_penalty = 1;
    must(tfm_session_create(&s, model, &o, &err));
    for (k = 0; k < TEXTS; k++) {
        texts[k][0] = 0;
        for (length = 1 + k % MOST_WORDS; length; length--) {
            strcat(texts[k], words[tiny_random(&seed) % 6]);
            strcat(texts[k], " ");
        }
        must(tfm_translate(s, texts[k], first[k], sizeof first[k], &err));
    }
    calls = model_counter.calls;
    for (i = 0; i < sentences; i++) {
        k = (int)(tiny_random(&seed) % TEXTS);
        if (i % 8 ==
            7) { /* Two sentences by beam search run in between; nothing checks their result. */
            in[0].data = texts[k], in[0].size = strlen(texts[k]);
            in[1].data = texts[0], in[1].size = strlen(texts[0]);
            must(translate_texts(s, in, NULL, out, 2, &search, both, sizeof both, &err));
        }
        if (i % 1000 == 999) /* Refused calls in between leave nothing behind. */
            differ += tfm_translate(s, "one seven", text, sizeof text, &err) != TFM_E_TOKEN;
        must(tfm_translate(s, texts[k], text, sizeof text, &err));
        differ += strcmp(text, first[k]) != 0;
        if (i == sentences / 10) before = test_pages();
    }
    after = test_pages();
    CHECK(differ == 0, "%ld short sentences through one session, each as the first time",
          sentences);
    CHECK(counter.calls == 1 && counter.live == 1 && model_counter.calls == calls,
          "the session allocates once, when it is made");
    if (before)
        CHECK(after <= before, "%ld pages of memory after a tenth of them, %ld at the end", before,
              after);
    else test_skip("memory of a session: this system does not report it, or a sanitizer runs");
    tfm_session_free(s);
    tfm_model_free(model);
    CHECK(counter.live == 0 && model_counter.live == 0, "the session frees all of its memory");
}

/* ---- 4,096 tokens ---- */

static int32_t ids[TOKENS + 1];

static tfm_session *long_session(const tfm_model *model, int32_t threads) {
    tfm_session_options o;
    tfm_session *s = NULL;
    memset(&o, 0, sizeof o);
    o.max_batch = 2, o.max_source = TOKENS, o.max_target = 20, o.attention = 1, o.threads = threads;
    must(tfm_session_create(&s, model, &o, &err));
    return s;
}

static tfm_model *long_model(const char *config) {
    tiny t = tiny_default();
    t.config = config;
    return tiny_model(t);
}

/* Without positions a text repeated 64 times looks to every query like the text itself. */
static void repeated(void) {
    tfm_model *model =
        long_model(", \"start\": 1, \"end\": 2, \"src_pad\": 0, \"positions\": \"none\"");
    tfm_session *s = long_session(model, 1);
    id_matrix src = tiny_batch(ids, NULL, 1, PERIOD);
    int64_t d = tfm_model_config(model)->d_model, i;
    float *once = (float *)test_memory((size_t)(PERIOD * d) * sizeof(float)), *memory;
    double most = 0;
    must(encode_rows(s, &src, &err));
    memcpy(once, tfm_session_encoder_output(s).data, (size_t)(PERIOD * d) * sizeof(float));
    src.width = TOKENS;
    must(encode_rows(s, &src, &err));
    memory = (float *)tfm_session_encoder_output(s).data;
    for (i = 0; i < TOKENS * d; i++) {
        double difference = fabs((double)memory[i] - (double)once[i % (PERIOD * d)]);
        if (!(difference <= most)) most = difference;
    }
    CHECK(most < 1e-5, "64 tokens repeated 64 times, without positions: %.1e from the 64", most);
    tfm_session_free(s);
    tfm_model_free(model);
}

typedef struct outcome {
    int32_t ids[20], length;
    double score;
    float attention[20 * TOKENS];
} outcome;

static void take(tfm_session *s, const id_matrix *src, int32_t row, int64_t length, outcome *out) {
    tfm_result r;
    tfm_tensor attention;
    memset(out, 0, sizeof *out);
    memset(&r, 0, sizeof r);
    must(decode_rows(s, src, NULL, NULL, &err));
    must(tfm_result_get(s, row, 0, &r, &err));
    memcpy(out->ids, r.ids, (size_t)r.length * 4);
    out->length = r.length, out->score = r.log_probability;
    attention = tfm_tensor_2d(out->attention, TFM_DTYPE_F32, r.length, length);
    must(tfm_result_attention(s, row, 0, &attention, &err));
}

static void long_source(void) {
    static outcome alone, other;
    static int32_t two[2 * TOKENS];
    tfm_model *model = long_model(", \"start\": 1, \"src_pad\": 0");
    tfm_session *s = long_session(model, 1), *threads = long_session(model, 3);
    id_matrix src = tiny_batch(ids, NULL, 1, TOKENS);
    const int32_t lengths[2] = {5, TOKENS};
    double most = 0, sum;
    int32_t t, i;
    take(s, &src, 0, TOKENS, &alone);
    for (t = 0; t < alone.length; t++) {
        for (i = 0, sum = 0; i < TOKENS; i++) sum += (double)alone.attention[t * TOKENS + i];
        if (!(fabs(sum - 1) <= most)) most = fabs(sum - 1);
    }
    CHECK(alone.length == 20 && alone.score < 0 && alone.score > -INFINITY,
          "20 tokens from 4,096, log-probability %.3f", alone.score);
    CHECK(most < 1e-5, "4,096 weights of attention sum to 1 within %.1e", most);
    memcpy(two, ids, 5 * sizeof *ids), memcpy(two + TOKENS, ids, TOKENS * sizeof *ids);
    src = tiny_batch(two, lengths, 2, TOKENS);
    take(s, &src, 1, TOKENS, &other);
    CHECK(memcmp(&alone, &other, sizeof alone) == 0, "the same bits next to a row of five");
    src = tiny_batch(ids, NULL, 1, TOKENS);
    take(threads, &src, 0, TOKENS, &other);
    CHECK(memcmp(&alone, &other, sizeof alone) == 0, "the same bits with three threads");
    take(s, &src, 0, TOKENS, &other);
    src.width = TOKENS + 1;
    CHECK_FAILS(start_rows(s, &src, NULL, NULL, &err), TFM_E_TOO_LONG,
                "src has 4097 tokens, the session takes 1 to 4096");
    tfm_session_free(threads);
    tfm_session_free(s);
    tfm_model_free(model);
}

/* ---- a batch of none ---- */

static void empty_batch(void) {
    tfm_model *model = text_model(NULL);
    tfm_session *s = tiny_session(model, 2, 8, 6);
    id_matrix src = tiny_batch(ids, NULL, 1, 4), none = tiny_batch(ids, NULL, 0, 4),
              nothing = tiny_batch(NULL, NULL, 0, 0), narrow = tiny_batch(ids, NULL, 1, 0);
    int32_t four[4] = {1, 2, 3, 4}, before[6], running = 1, length;
    float data[9] = {7};
    double scores[5] = {7}, log_probability;
    tfm_tensor logits = tfm_tensor_3d(data, TFM_DTYPE_F32, 0, 4, 9);
    tfm_text text = {NULL, 0};
    tfm_result r;
    char out[4] = "out";
    memset(&r, 0, sizeof r);
    src.ids = four;
    must(start_rows(s, &src, NULL, NULL, &err));
    must(tfm_session_step(s, &running, &err));
    must(tfm_result_get(s, 0, 0, &r, &err));
    length = r.length, log_probability = r.log_probability;
    memcpy(before, r.ids, (size_t)length * 4);
    CHECK_FAILS(encode_rows(s, &none, &err), TFM_E_ARGUMENT, "0 requests");
    CHECK_FAILS(encode_rows(s, &nothing, &err), TFM_E_ARGUMENT, "0 requests");
    CHECK_FAILS(encode_rows(s, &narrow, &err), TFM_E_ARGUMENT, "the source is blank");
    CHECK_FAILS(start_rows(s, &none, NULL, NULL, &err), TFM_E_ARGUMENT, "0 requests");
    CHECK_FAILS(decode_rows(s, &none, NULL, NULL, &err), TFM_E_ARGUMENT, "0 requests");
    CHECK_FAILS(forward_rows(s, &none, &none, NULL, &logits, &err), TFM_E_ARGUMENT, "0 requests");
    CHECK_FAILS(score_rows(s, &none, &none, 0, scores, &err), TFM_E_ARGUMENT, "0 requests");
    CHECK(data[0] == 7 && scores[0] == 7, "outputs untouched");
    memset(&r, 0, sizeof r);
    CHECK(tfm_result_get(s, 0, 0, &r, &err) == TFM_OK && r.length == length &&
              r.log_probability == log_probability &&
              memcmp(r.ids, before, (size_t)length * 4) == 0,
          "the decode in progress is unchanged");
    CHECK(tfm_session_step(s, &running, &err) == TFM_OK, "and goes on");
    CHECK(translate_texts(s, &text, NULL, &text, 0, NULL, out, sizeof out, &err) == TFM_OK &&
              strcmp(out, "out") == 0,
          "an empty batch of texts gives an empty result");
    tfm_session_free(s);
    tfm_model_free(model);
}

int main(int argc, char **argv) {
    unsigned seed = 11;
    int i;
    for (i = 0; i < PERIOD; i++) ids[i] = 1 + (int32_t)(tiny_random(&seed) % 10);
    for (; i <= TOKENS; i++) ids[i] = ids[i % PERIOD];
    SECTION("sentence after sentence");
    many_sentences(argc > 1 ? atol(argv[1]) : SENTENCES);
    SECTION("a source of 4,096 tokens");
    repeated();
    long_source();
    SECTION("an empty batch");
    empty_batch();
    return test_done("test_endurance");
}
