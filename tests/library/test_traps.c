/* Calls that a program of version 0.7.0 could make, and that crashed, did something in silence or
   left too much to guess. Each says now what is wrong, or does what its comment says. */
#define TRANSFORMER_IMPLEMENTATION
#include "transformer.h"
#include "tiny.h"

#define WORDS "<pad>\n<s>\n</s>\n<unk>\nhello\nworld\na\nb\nc\nd\ne\n"
static const int32_t three[] = {3, 4, 5};
static tfm_model *model;

static tfm_session *session_of(const tfm_decode_options *decoding) {
    tfm_session_options o;
    tfm_session *s = NULL;
    memset(&o, 0, sizeof o);
    o.max_batch = 2, o.max_source = 8, o.max_target = 12, o.max_beam = 3, o.decoding = decoding;
    must(tfm_session_create(&s, model, &o, &err));
    return s;
}

static void nothing(void) {
    tfm_tensor none;
    SECTION("functions that return what an object has: of NULL they return nothing");
    CHECK(tfm_model_config(NULL) == NULL && tfm_model_decoding(NULL) == NULL, "a model");
    CHECK(tfm_safetensors_count(NULL) == 0 && tfm_safetensors_find(NULL, "x") == -1,
          "the entries of a file");
    CHECK(!tfm_safetensors_name(NULL, 0) && !tfm_safetensors_metadata(NULL, "x") &&
              !tfm_safetensors_metadata_key(NULL, 0),
          "the names of a file");
    none = tfm_safetensors_tensor(NULL, 0);
    CHECK(!none.data && none.rank == 0, "a tensor of a file");
    none = tfm_session_encoder_output(NULL);
    CHECK(!none.data && none.rank == 0, "the encoder's output");
}

static void names_of_norms(void) {
    tiny t = tiny_default();
    tfm_model *m;
    SECTION("tfm_config: norm_order is where norms are, norm_kind what they compute");
    t.config = ", \"norm\": \"pre\", \"layer_norm\": \"layer_norm_unbiased\"";
    m = tiny_model(t);
    CHECK(tfm_model_config(m)->norm_order == TFM_NORM_ORDER_PRE &&
              tfm_model_config(m)->norm_kind == TFM_NORM_KIND_LAYER_NORM_UNBIASED,
          "the file's keys norm and layer_norm");
    tfm_model_free(m);
}

static void attention_of_sessions(void) {
    static const int32_t wrong[] = {-1, 2, 99};
    tfm_session_options o;
    tfm_session *s = NULL;
    size_t bytes = 0;
    int i;
    SECTION("attention is 0 or 1");
    for (i = 0; i < 3; i++) {
        memset(&o, 0, sizeof o), o.attention = wrong[i];
        CHECK_FAILS(tfm_session_create(&s, model, &o, &err), TFM_E_ARGUMENT, "expected 0 or 1");
        CHECK_FAILS(tfm_session_bytes(model, &o, &bytes, &err), TFM_E_ARGUMENT, "attention is");
    }
}

static void decoding_is_copied(void) {
    tfm_decode_options o;
    tfm_request r = tfm_request_ids(three, 3);
    tfm_session *s;
    memset(&o, 0, sizeof o), o.beam = 3, o.n_best = 2;
    SECTION("the decoding of a session is copied, as its parallel is");
    s = session_of(&o);
    memset(&o, 0x5A, sizeof o);
    must(tfm_session_decode(s, &r, 1, NULL, &err));
    CHECK(tfm_result_count(s, 0) == 2, "%d results of 2", (int)tfm_result_count(s, 0));
    tfm_session_free(s);
}

static void numbers_of_tokens(void) {
    tfm_request r = tfm_request_text("hello world a b c d", 19);
    tfm_decode_options o;
    tfm_session *s = session_of(NULL);
    tfm_result got;
    SECTION("options.truncate is a number of tokens, and says so");
    memset(&o, 0, sizeof o), o.truncate = 1;
    CHECK_FAILS(tfm_session_decode(s, &r, 1, &o, &err), TFM_E_TOO_LONG,
                "truncate is a number of tokens, expected 2 or more");
    o.truncate = 4;
    must(tfm_session_decode(s, &r, 1, &o, &err));
    must(tfm_result_get(s, 0, 0, &got, &err));
    CHECK(got.left_out == 3, "%d tokens are left out, expected 3", (int)got.left_out);
    tfm_session_free(s);
}

/* Returns the best score of request i. */
static double score_of(tfm_session *s, int32_t i) {
    tfm_result r;
    memset(&r, 0, sizeof r);
    must(tfm_result_get(s, i, 0, &r, &err));
    return r.score;
}

static void same_sources(void) {
    tfm_request requests[2];
    tfm_decode_options o;
    tfm_session *s = session_of(NULL);
    double scores[3][2];
    int i, k;
    SECTION("requests NULL are the sources of the last call, in a decode as in forward and score");
    memset(&o, 0, sizeof o), o.beam = 3;
    CHECK_FAILS(tfm_session_restart(s, NULL, 2, &o, &err), TFM_E_ARGUMENT, "no source yet");
    for (i = 0; i < 2; i++) requests[i] = tfm_request_ids(three + i, 3 - i);
    for (k = 0; k < 3; k++) {
        if (k == 0) must(tfm_session_start(s, requests, 2, &o, &err));
        if (k == 2) memset(requests, 0, sizeof requests);
        if (k) must(tfm_session_restart(s, k == 1 ? NULL : requests, 2, &o, &err));
        for (i = 1; i;) must(tfm_session_step(s, &i, &err));
        for (i = 0; i < 2; i++) scores[k][i] = score_of(s, i);
    }
    for (k = 1; k < 3; k++)
        CHECK(memcmp(scores[k], scores[0], sizeof *scores) == 0, "way %d: scores %g %g of %g %g", k,
              scores[k][0], scores[k][1], scores[0][0], scores[0][1]);
    CHECK_FAILS(tfm_session_restart(s, NULL, 1, &o, &err), TFM_E_ARGUMENT, "the last source has 2");
    CHECK_FAILS(tfm_session_start(s, NULL, 2, &o, &err), TFM_E_ARGUMENT, "requests is NULL");
    tfm_session_free(s);
}

static void log_probabilities(void) {
    tfm_request r = tfm_request_ids(three, 3);
    tfm_decode_options o;
    tfm_session *s = session_of(NULL);
    int keeps, ended = 0;
    SECTION("tfm_result_log_probabilities writes one number more than tokens, if the end is none");
    for (keeps = 0; keeps < 2; keeps++) {
        int32_t k, n;
        memset(&o, 0, sizeof o), o.samples = 3, o.temperature = 3, o.keep_end = keeps;
        must(tfm_session_decode(s, &r, 1, &o, &err));
        for (k = 0; k < tfm_result_count(s, 0); k++) {
            tfm_result got;
            double each[16], sum = 0;
            int32_t i, written = 0;
            memset(&got, 0, sizeof got);
            for (i = 0; i < 16; i++) each[i] = 7; /* no logarithm of a probability */
            must(tfm_result_get(s, 0, k, &got, &err));
            must(tfm_result_log_probabilities(s, 0, k, each, &err));
            while (written < 16 && each[written] < 1) sum += each[written++];
            n = got.length + !(keeps && got.finish == TFM_FINISH_ENDED);
            ended += keeps && got.finish == TFM_FINISH_ENDED;
            CHECK(written == n, "keep_end %d: %d numbers, expected %d", keeps, (int)written,
                  (int)n);
            CHECK(fabs(sum - got.log_probability) < 1e-9, "their sum is %g, expected %g", sum,
                  got.log_probability);
        }
    }
    CHECK(ended > 0, "a sample has an end token that was kept");
    tfm_session_free(s);
}

int main(void) {
    tiny t = tiny_default();
    t.src = t.tgt = WORDS, t.vt = 11;
    t.config = ", \"start\": 1, \"end\": 2, \"src_unk\": 3, \"tgt_unk\": 3, \"src_end\": 2";
    model = tiny_model(t);
    nothing();
    names_of_norms();
    attention_of_sessions();
    decoding_is_copied();
    numbers_of_tokens();
    same_sources();
    log_probabilities();
    tfm_model_free(model);
    return test_done("test_traps");
}
