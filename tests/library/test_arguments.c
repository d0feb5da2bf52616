/* Tests what every call reports for arguments that are missing, out of range or in the wrong state,
   tries arenas of every size that is too small, and checks rules for rare cases: ties, pads inside
   a row, arrows in texts. */
#define TRANSFORMER_IMPLEMENTATION
#include "transformer.h"
#include "tiny.h"
#include <time.h>

#define SPACE "\xe2\x96\x81"
#define WORDS "<pad>\n<s>\n</s>\n<unk>\nhello\nworld\na\nb\nc\nd\ne\n"
#define IDS ", \"start\": 1, \"end\": 2, \"src_unk\": 3, \"tgt_unk\": 3"
#define ARGUMENT(call) CHECK_FAILS(call, TFM_E_ARGUMENT, "")
#define BOTH ", \"src_text\": \"sentencepiece\", \"tgt_text\": \"sentencepiece\""
static const char both[] = IDS BOTH;
static const int32_t three[] = {3, 4, 5};

static tfm_model *words_model(const char *config) {
    tiny t = tiny_default();
    t.src = t.tgt = WORDS, t.vt = 11, t.config = config;
    return tiny_model(t);
}
static tfm_model *pieces_model(const char *name, const char *config) {
    tfm_safetensors *file = test_open("sentencepiece.safetensors");
    tiny t = tiny_default();
    st_writer w;
    tfm_model *m;
    t.config = config, t.vs = t.vt = 420;
    tiny_write(&w, t);
    st_add(&w, "src_sentencepiece", test_get(file, name));
    m = tiny_load(&w, NULL);
    tfm_safetensors_free(file);
    return m;
}
static tfm_session *session_of(const tfm_model *m, int32_t beam, int attention) {
    tfm_session_options o;
    tfm_session *s = NULL;
    memset(&o, 0, sizeof o);
    o.max_batch = 2, o.max_source = 8, o.max_target = 12, o.max_beam = beam;
    o.attention = attention;
    must(tfm_session_create(&s, m, &o, &err));
    return s;
}

/* ---- sessions laid out in every arena that is too small ---- */

static void layouts(void) {
    static const char *const spm[] = {"", "", "bpe_bytes.model", "bpe_unused.model", ""};
    int kind;
    SECTION("a session in arenas of every size");
    for (kind = 0; kind < 5; kind++) {
        tfm_model *m;
        tfm_session plan, s;
        tfm_session_options o;
        tfm_arena measured = tfm_arena_measuring(), arena;
        size_t at;
        char *memory;
        int wrong = 0, tried = 0;
        tiny t = tiny_default();
        t.config = ", \"positions\": \"learned\"", t.src_positions = 40;
        if (kind ==
            4) { /* a shortlist and a text of bytes: every feature that a session can have */
            tfm_model_options mo = tiny_options();
            st_writer w;
            memset(&mo, 0, sizeof mo);
            mo.weights = TFM_WEIGHT_TYPE_I8;
            tiny_write(&w, tiny_default());
            m = tiny_load(&w, &mo);
        } else {
            m = kind > 1 ? pieces_model(spm[kind], both) : kind ? words_model(IDS) : tiny_model(t);
        }
        memset(&o, 0, sizeof o);
        if (kind == 4) o.max_shortlist = 9;
        o.max_source = 3, o.max_target = 4, o.max_beam = 2, o.attention = kind != 1;
        must(tfm__session_plan(&plan, m, &o, &measured, &err));
        memory = (char *)malloc(measured.peak);
        if (!memory) exit(2);
        for (at = 0; at < measured.peak; at += 64, tried++) {
            arena = tfm_arena_make(memory, at), s = plan;
            err.status = tfm__session_layout(&s, o.attention, &arena, &err);
            if (err.status == TFM_OK) break; /* The struct of the session is stored elsewhere. */
            wrong += err.status != TFM_E_ARENA || arena.used > arena.size;
        }
        CHECK(wrong == 0 && tried > 100, "%d sizes: %s", tried, err.text);
        free(memory);
        tfm_model_free(m);
    }
}

static void serial(void *user, tfm_task task, void *context, int32_t parts) {
    int32_t part;
    (void)user;
    for (part = 0; part < parts; part++) task(context, part);
}

/* These calls must refuse a number of rows before they go through the rows. The arrays have only
   two rows, so the address sanitizer, or the time that the call takes, would show a read of a
   third. */
static void too_many_rows(const tfm_model *m) {
    tfm_session *s = session_of(m, 2, 0);
    id_matrix src = tiny_batch(three, NULL, INT32_MAX, 1), none = tiny_batch(three, NULL, 0, 0);
    int32_t first[2] = {-1, -1}, rows;
    double scores[4];
    float logits[4];
    tfm_tensor out;
    by_row with;
    int i;
    time_t began = time(NULL);
    for (i = 0; i < 2; i++) {
        src.rows = rows = i ? 3 : INT32_MAX;
        none.rows = rows;
        out = tfm_tensor_3d(logits, TFM_DTYPE_F32, rows, 0, 11);
        CHECK_FAILS(encode_rows(s, &src, &err), TFM_E_TOO_LONG, "session takes 1 to 2");
        CHECK_FAILS(start_rows(s, &src, NULL, NULL, &err), TFM_E_TOO_LONG, "session takes 1 to 2");
        memset(&with, 0, sizeof with), with.first = first, with.prefix = &none;
        with.rows = 2;
        CHECK_FAILS(start_rows(s, &src, &with, NULL, &err), TFM_E_TOO_LONG, "session takes 1 to 2");
        CHECK_FAILS(score_rows(s, &src, &none, 0, scores, &err), TFM_E_TOO_LONG, "takes 1 to 2");
        CHECK_FAILS(forward_rows(s, &src, &none, NULL, &out, &err), TFM_E_TOO_LONG, "takes 1 to 2");
    }
    CHECK(difftime(time(NULL), began) < 3, "no call goes through 2147483647 rows");
    tfm_session_free(s);
}

static void sessions(void) {
    static const int32_t sizes[][5] = {
        {-1, 0, 0, 0, 0}, {0, -1, 0, 0, 0}, {0, 0, -1, 0, 0},        {0, 0, 0, -1, 0},
        {0, 0, 0, 0, -1}, {0, 0, 0, 0, 65}, {0, INT32_MAX, 0, 0, 0}, {1 << 16, 0, 0, 1 << 16, 0}};
    tiny t = tiny_default();
    tfm_model *m = words_model(IDS), *few, *bare;
    tfm_session_options o;
    tfm_parallel parallel;
    tfm_session *s = NULL;
    tfm_forward_options fo;
    tfm_allocator half;
    id_matrix src = tiny_batch(three, NULL, 1, 3), none;
    float logits[64];
    double scores[4];
    tfm_tensor out = tfm_tensor_3d(logits, TFM_DTYPE_F32, 1, 3, 11), wrong;
    size_t bytes = 0, i;
    SECTION("sessions");
    for (i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        memset(&o, 0, sizeof o);
        o.max_batch = sizes[i][0], o.max_source = sizes[i][1], o.max_target = sizes[i][2];
        o.max_beam = sizes[i][3], o.threads = sizes[i][4];
        ARGUMENT(tfm_session_create(&s, m, &o, &err));
    }
    memset(&o, 0, sizeof o), memset(&parallel, 0, sizeof parallel);
    o.parallel = &parallel, o.threads = 2;
    CHECK_FAILS(tfm_session_create(&s, m, &o, &err), TFM_E_ARGUMENT, "parallel has no run");
    parallel.run = serial,
    o.threads = 0; /* The session cannot know how many threads a host's run has. */
    CHECK_FAILS(tfm_session_create(&s, m, &o, &err), TFM_E_ARGUMENT, "set threads to how many");
    memset(&half, 0, sizeof half), memset(&o, 0, sizeof o);
    o.sentences = TFM_SENTENCES_COUNT;
    CHECK_FAILS(tfm_session_create(&s, m, &o, &err), TFM_E_ARGUMENT,
                "sentences is 3, expected TFM_SENTENCES_UNKNOWN");
    o.sentences = TFM_SENTENCES_UNKNOWN;
    half.release = test_release, o.allocator = &half;
    ARGUMENT(tfm_session_create(&s, m, &o, &err));
    half.release = NULL, half.allocate = test_allocate;
    ARGUMENT(tfm_session_create(&s, m, &o, &err));
    ARGUMENT(tfm_session_create(&s, NULL, NULL, &err));
    ARGUMENT(tfm_session_create(NULL, m, NULL, &err));
    ARGUMENT(tfm_session_bytes(m, NULL, NULL, &err));
    ARGUMENT(tfm_session_bytes(NULL, NULL, &bytes, &err));
    {
        tfm_model *pieces = pieces_model("unigram_symbols.model", both);
        memset(&o, 0, sizeof o), o.max_source = INT32_MAX / 2 - 8;
        CHECK_FAILS(tfm_session_bytes(pieces, &o, &bytes, &err), TFM_E_OVERFLOW,
                    sizeof(size_t) > 4 ? "after normalization, at most 1073741823"
                                       : "more than this machine can address");
        tfm_model_free(pieces);
    }
    t.config = ", \"positions\": \"learned\"", t.src_positions = 20;
    few = tiny_model(t);
    memset(&o, 0, sizeof o), o.max_source = 21;
    CHECK_FAILS(tfm_session_create(&s, few, &o, &err), TFM_E_TOO_LONG, "positions for 20");
    memset(&o, 0, sizeof o), o.max_target = 21;
    CHECK_FAILS(tfm_session_create(&s, few, &o, &err), TFM_E_TOO_LONG, "positions for 20");
    CHECK(!s && !bytes, "outputs untouched");
    memset(&o, 0, sizeof o), o.max_source = o.max_target = 20;
    must(tfm_session_create(&s, few, &o, &err));
    CHECK_FAILS(start_rows(s, &src, NULL, NULL, &err), TFM_E_CONFIG, "'start' is missing");
    CHECK_FAILS(score_rows(s, &src, &src, 0, scores, &err), TFM_E_CONFIG, "'end' is missing");
    CHECK_FAILS(tfm_translate(s, "a", (char *)logits, 8, &err), TFM_E_NO_TEXT, "");
    tfm_session_free(s), tfm_model_free(few);
    t = tiny_default(), t.config = ", \"end\": 2";
    bare = tiny_model(t);
    s = session_of(bare, 1, 0);
    CHECK_FAILS(score_rows(s, &src, &src, 0, scores, &err), TFM_E_CONFIG, "'start' is missing");
    tfm_session_free(s), tfm_model_free(bare);
    t.config = ", \"end\": 2, \"start_embedding\": \"zero\"";
    bare = tiny_model(t);
    s = session_of(bare, 1, 0);
    must(decode_rows(s, &src, NULL, NULL, &err)), must(score_rows(s, &src, &src, 0, scores, &err));
    CHECK(1, "a model without a start token has a first embedding of zero");
    tfm_session_free(s), tfm_model_free(bare);
    SECTION("encode, forward, score");
    s = session_of(m, 1, 0);
    none = tiny_batch(NULL, NULL, 1, 3);
    ARGUMENT(encode_rows(NULL, &src, &err));
    ARGUMENT(encode_rows(s, NULL, &err));
    ARGUMENT(encode_rows(s, &none, &err));
    none.width = 0; /* No ids are missing when rows are empty. */
    CHECK_FAILS(encode_rows(s, &none, &err), TFM_E_ARGUMENT, "the request has no source");
    none.width = 3;
    ARGUMENT(forward_rows(NULL, &src, &src, NULL, &out, &err));
    ARGUMENT(forward_rows(s, NULL, &src, NULL, &out, &err));
    ARGUMENT(forward_rows(s, &src, NULL, NULL, &out, &err));
    ARGUMENT(forward_rows(s, &src, &none, NULL, &out, &err));
    wrong = tfm_tensor_3d(logits, TFM_DTYPE_F32, 1, 3, 3);
    memset(&fo, 0, sizeof fo), fo.encoder_attention = wrong;
    CHECK_FAILS(forward_rows(s, &src, &src, &fo, &out, &err), TFM_E_SHAPE, "encoder_attention");
    memset(&fo, 0, sizeof fo), fo.decoder_attention = wrong;
    CHECK_FAILS(forward_rows(s, &src, &src, &fo, &out, &err), TFM_E_SHAPE, "decoder_attention");
    memset(&fo, 0, sizeof fo), fo.cross_attention = wrong;
    CHECK_FAILS(forward_rows(s, &src, &src, &fo, &out, &err), TFM_E_SHAPE, "cross_attention");
    CHECK_FAILS(forward_rows(s, &src, &src, NULL, &wrong, &err), TFM_E_SHAPE, "");
    ARGUMENT(score_rows(NULL, &src, &src, 0, scores, &err));
    ARGUMENT(tfm_result_log_probabilities(NULL, 0, 0, scores, &err));
    ARGUMENT(tfm_result_log_probabilities(s, 0, 0, NULL, &err));
    ARGUMENT(score_rows(s, NULL, &src, 0, scores, &err));
    ARGUMENT(score_rows(s, &src, NULL, 0, scores, &err));
    ARGUMENT(score_rows(s, &src, &src, 0, NULL, &err));
    CHECK(encode_rows(s, &none, NULL) == TFM_E_ARGUMENT, "a NULL place for the message");
    tfm_session_free(s);
    too_many_rows(m);
    tfm_model_free(m);
}

/* When a worker thread cannot be started, the call stops the threads that it started and makes no
   session. */
static void workers(void) {
#if defined(TRANSFORMER_MMAP) && defined(TFM__THREADS) /* POSIX */
    static const char *const says[] = {
        "no mutex or condition variable", "no mutex or condition variable",
        "thread 2 of 4 cannot be started", "thread 3 of 4 cannot be started",
        "thread 4 of 4 cannot be started"};
    tfm_model *m = tiny_model(tiny_default());
    tfm_session_options o;
    tfm_session *s = NULL;
    test_allocator count;
    tfm_allocator a = test_counting(&count);
    test_calls *threads = &test_hooks.threads;
    int i;
    SECTION("threads that do not start give an error");
    memset(&o, 0, sizeof o);
    o.max_source = 4, o.threads = 4, o.allocator = &a;
    threads->count = 1;
    for (i = 0; i < 5; i++) {
        threads->calls = 0, threads->fail_at = i + 1;
        CHECK_FAILS(tfm_session_create(&s, m, &o, &err), TFM_E_MEMORY, says[i]);
        CHECK(!s && count.live == 0 && threads->live == 0, "a failed session leaves no allocation");
    }
    threads->calls = threads->fail_at = 0;
    must(tfm_session_create(&s, m, &o, &err));
    CHECK(threads->calls == 5 && threads->live == 5, "then they do");
    tfm_session_free(s), tfm_model_free(m);
    CHECK(count.live == 0 && threads->live == 0, "and end");
    threads->count = 0;
#endif
}

/* ---- decoding ---- */

static void decoding(void) {
    static const int32_t ends[] = {2, 4}, pads[] = {3, 0, 5}, first[] = {-1, -1};
    static const int32_t forbidden[] = {3, 4};
    tfm_model *m = words_model(IDS ", \"src_pad\": 0");
    tfm_session *s = session_of(m, 3, 1), *plain = session_of(m, 1, 0);
    id_matrix src = tiny_batch(three, NULL, 1, 3), padded = tiny_batch(pads, NULL, 1, 3), bad;
    tfm_ids sequence;
    by_row with;
    tfm_decode_options o;
    tfm_result r;
    tfm_tensor out;
    int32_t running = 7, sources[16], rank, i;
    float room[64];
    int good = 1;
    SECTION("decoding");
    memset(&r, 0, sizeof r);
    CHECK(tfm_result_count(NULL, 0) == 0 && tfm_result_count(s, 0) == 0 &&
              !tfm_result_logits(NULL, 0, 0) && !tfm_result_logits(s, 0, 0),
          "nothing before tfm_session_start");
    CHECK_FAILS(tfm_result_get(s, 0, 0, &r, &err), TFM_E_STATE,
                "call tfm_session_start or tfm_session_decode first");
    CHECK_FAILS(tfm_result_attention(s, 0, 0, &out, &err), TFM_E_STATE,
                "call tfm_session_start or tfm_session_decode first");
    CHECK_FAILS(tfm_result_alignment(s, 0, 0, sources, &err), TFM_E_STATE,
                "call tfm_session_start or tfm_session_decode first");
    CHECK_FAILS(tfm_session_step(s, &running, &err), TFM_E_STATE, "");
    ARGUMENT(start_rows(NULL, &src, NULL, NULL, &err));
    ARGUMENT(start_rows(s, NULL, NULL, NULL, &err));
    ARGUMENT(decode_rows(s, NULL, NULL, NULL, &err));
    must(start_rows(s, &src, NULL, NULL, &err));
    ARGUMENT(tfm_session_step(NULL, &running, &err));
    ARGUMENT(tfm_session_step(s, NULL, &err));
    must(tfm_session_step(s, &running, &err));
    CHECK(tfm_result_count(s, -1) == 0 && tfm_result_count(s, 1) == 0 &&
              !tfm_result_logits(s, -1, 0) && !tfm_result_logits(s, 1, 0),
          "no rows but those of the batch");
    ARGUMENT(tfm_result_get(NULL, 0, 0, &r, &err));
    ARGUMENT(tfm_result_get(s, -1, 0, &r, &err));
    ARGUMENT(tfm_result_get(s, 1, 0, &r, &err));
    ARGUMENT(tfm_result_get(s, 0, -1, &r, &err));
    ARGUMENT(tfm_result_get(s, 0, 1, &r, &err));
    ARGUMENT(tfm_result_get(s, 0, 0, NULL, &err));
    ARGUMENT(tfm_result_alignment(s, 0, 0, NULL, &err));
    ARGUMENT(tfm_result_attention(s, 0, 0, NULL, &err));
#define REFUSED(session, change)                                                                   \
    do {                                                                                           \
        memset(&o, 0, sizeof o);                                                                   \
        o.change;                                                                                  \
        ARGUMENT(start_rows(session, &src, NULL, &o, &err));                                       \
    } while (0)
    REFUSED(s, n_suppressed_sequences = -1);
    bad = tiny_batch(NULL, NULL, 1, 1);
    REFUSED(s, beam = 0; suppress_rows(&o, &bad, &sequence));
    REFUSED(s, attention_head = -1);
    REFUSED(s, prefix_bias = 0.5; o.alternatives = 2);
    REFUSED(plain, attention_layer = 1);
    REFUSED(plain, attention_head = 1);
#undef REFUSED
    for (i = 0; i < 3; i++) { /* results before any decode began */
        memset(&o, 0, sizeof o);
        if (i == 0) o.samples = 2;
        if (i == 1) o.alternatives = 2;
        if (i == 2) o.beam = 3, o.n_best = 3, o.stop = TFM_STOP_EARLY_NEVER;
        must(start_rows(s, &src, NULL, &o, &err));
        must(tfm_result_get(s, 0, 0, &r, &err));
        good &= tfm_result_count(s, 0) == 1 && r.length == 0 && r.finish == TFM_FINISH_RUNNING;
        do {
            must(tfm_session_step(s, &running, &err));
            for (rank = 0; rank < tfm_result_count(s, 0); rank++) {
                must(tfm_result_get(s, 0, rank, &r, &err));
                /* A beam shows running hypotheses as long as there are any. */
                good &= i != 2 || (r.finish == TFM_FINISH_RUNNING) == (running > 0);
            }
        } while (running);
        good &= tfm_result_count(s, 0) >= (i == 2 ? 1 : 2);
    }
    CHECK(good, "before the first step a hypothesis has no tokens");
    SECTION("what is rare");
    for (i = 0; i < 8; i++) {
        memset(&o, 0, sizeof o);
        o.max_length = 10;
        if (i == 0) o.min_length = 3, o.end_ids = ends, o.n_end_ids = 2;
        if (i == 1) o.beam = 3, o.coverage_penalty = 0.5;
        if (i == 2) o.samples = 3, o.suppressed = forbidden, o.n_suppressed = 2;
        if (i == 3) o.samples = 2, o.top_k = 3, o.suppressed = forbidden, o.n_suppressed = 2;
        if (i == 4) o.repetition_penalty = 1, o.no_unknown = 1;
        memset(&with, 0, sizeof with), with.first = i == 5 ? first : NULL;
        if (i == 6) o.beam = 3, o.length_penalty = 1, o.patience = 2, o.min_length = 2;
        if (i == 7) o.samples = 3, o.top_p = 0.999, o.temperature = 100;
        must(decode_rows(s, i & 1 ? &padded : &src, &with, &o, &err));
        for (rank = 0; rank < tfm_result_count(s, 0); rank++) {
            int32_t k;
            must(tfm_result_get(s, 0, rank, &r, &err));
            must(tfm_result_alignment(s, 0, rank, sources, &err));
            for (k = 0; k < r.length; k++) {
                good &= r.ids[k] >= 0 && r.ids[k] < 11 && !(i == 4 && r.ids[k] == 3);
                good &= !((i == 2 || i == 3) && (r.ids[k] == 3 || r.ids[k] == 4));
                /* A pad inside a row is no candidate for no_source_ngram. */
                good &= !(i & 1 && sources[k] == 1);
            }
            good &= i != 0 || r.length >= 3 || r.finish == TFM_FINISH_STUCK;
        }
    }
    CHECK(good, "lower bounds with ends, pads inside, samples without them, no first token");
    must(tfm_result_get(s, 0, 0, &r, &err));
    out = tfm_tensor_2d(room, TFM_DTYPE_F32, r.length, 3);
    must(tfm_result_attention(s, 0, 0, &out, &err));
    tfm_session_free(s), tfm_session_free(plain), tfm_model_free(m);
}

/* All tokens have the same probability: the lower id wins, and then the continuation of the better
   hypothesis. */
static void ties(void) {
    tiny t = tiny_default();
    st_writer w;
    tfm_model *m;
    tfm_session *s;
    id_matrix src = tiny_batch(three, NULL, 1, 3);
    tfm_decode_options o;
    tfm_result r;
    size_t i;
    int32_t k, zeros = 1;
    SECTION("ties");
    tiny_write(&w, t);
    for (i = 0; i < w.n_entries; i++)
        if (strncmp(w.entries[i].name, "generator", 9) == 0)
            memset(w.entries[i].tensor.data, 0, (size_t)w.entries[i].bytes);
    m = tiny_load(&w, NULL);
    s = session_of(m, 3, 0);
    memset(&o, 0, sizeof o), memset(&r, 0, sizeof r);
    must(decode_rows(s, &src, NULL, NULL, &err)), must(tfm_result_get(s, 0, 0, &r, &err));
    for (k = 0; k < r.length; k++) zeros &= r.ids[k] == 0;
    CHECK(zeros && r.length == 12 && r.finish == TFM_FINISH_HIT_LENGTH, "greedy: id 0 %d times",
          r.length);
    o.beam = o.n_best = 3, o.min_length = 3, o.max_length = 5, o.stop = TFM_STOP_EARLY_NEVER;
    must(decode_rows(s, &src, NULL, &o, &err)), must(tfm_result_get(s, 0, 0, &r, &err));
    CHECK(r.length == 3 && r.ids[0] == 0 && r.ids[1] == 0 && r.ids[2] == 0 &&
              r.finish == TFM_FINISH_ENDED,
          "a beam: the shortest hypothesis, of the lowest ids, is first");
    must(tfm_result_get(s, 0, 1, &r, &err));
    CHECK(r.ids[0] == 0 && r.ids[1] == 0, "the continuation of the first one follows");
    tfm_session_free(s), tfm_model_free(m);
}

/* Without an end token or a token for unknown words there is nothing to suppress. */
static void without_ids(void) {
    tiny t = tiny_default();
    tfm_model *m;
    tfm_session *s;
    tfm_decode_options o;
    id_matrix src = tiny_batch(three, NULL, 1, 3);
    tfm_result r;
    int32_t ids[12];
    SECTION("the model lacks these ids");
    t.config = ", \"start\": 1";
    m = tiny_model(t), s = session_of(m, 2, 0);
    memset(&o, 0, sizeof o), memset(&r, 0, sizeof r);
    must(decode_rows(s, &src, NULL, &o, &err)), must(tfm_result_get(s, 0, 0, &r, &err));
    CHECK(r.length == 12 && r.finish == TFM_FINISH_HIT_LENGTH, "%d tokens and no end", r.length);
    memcpy(ids, r.ids, sizeof ids);
    o.min_length = 5, o.no_unknown = 1;
    must(decode_rows(s, &src, NULL, &o, &err)), must(tfm_result_get(s, 0, 0, &r, &err));
    CHECK(r.length == 12 && memcmp(ids, r.ids, sizeof ids) == 0,
          "the same with a minimum length and no unknown words");
    tfm_session_free(s), tfm_model_free(m);
}

/* Checks sums with relevant rounding, and scores that are NaN. */
static void numbers(void) {
    enum { V = 200 };
    static tfm_session bare;
    tiny t = tiny_default();
    tfm_model *m;
    tfm_session *s;
    tfm_decode_options o;
    id_matrix src = tiny_batch(three, NULL, 1, 3);
    tfm__candidate all[8];
    float logits[V], top; /* one block has all of them */
    double log_sum;
    tfm__logits y = {logits, &top, &log_sum, NULL, V};
    tfm__hypothesis h;
    unsigned seed = 3;
    int32_t i, k, good = 1, n = 0;
    SECTION("rounding in sums and scores");
    t.vt = V;
    m = tiny_model(t), s = session_of(m, 1, 0);
    for (k = 0; k < 4;
         k++) { /* all tokens, the best 20, a nucleus of nearly all tokens, both limits */
        memset(&o, 0, sizeof o);
        o.samples = 1;
        if (k & 1) o.top_k = 20;
        if (k & 2) o.top_p = 0.99999999999999989;
        must(start_rows(s, &src, NULL, &o, &err));
        for (n = 0; n < 500; n++) {
            for (i = 0; i < V; i++) logits[i] = (float)tiny_random(&seed) / 8388608.0f;
            /* the largest random number that the generator draws */
            i = tfm__sample_draw(s, &y, 0.99999999999999989);
            good &= i >= 0 && i < V;
        }
    }
    CHECK(good, "a sum that is one bit too small draws the last token");
    bare.decode.length_penalty = -100;
    memset(&h, 0, sizeof h), good = tfm__score_normalize(&bare, &h, 2000) == -(double)INFINITY;
    good &= tfm__score_normalize(&bare, &h, 2) == 0;
    h.sum = -1;
    CHECK(good && tfm__score_normalize(&bare, &h, 2) < -1e30, "a score of 0 / 0 ranks last");
    for (i = 0; i < 8; i++) all[i].total = -(i >> 2), all[i].from = i >> 1 & 1, all[i].id = i & 1;
    for (i = 0, good = 1; i < 8; i++)
        for (k = 0; k < 8; k++)
            good &= tfm__candidates_compare(&all[i], &all[k]) == (i > k) - (i < k);
    CHECK(good, "candidates are ordered by score, then hypothesis, then id");
    tfm_session_free(s), tfm_model_free(m);
}

/* ---- tensors, arenas, files ---- */

static void tensors(void) {
    static const int64_t wide[] = {INT64_MAX, INT64_MAX, 2}, most[9] = {1, 1, 1, 1, 1, 1, 1, 1, 1};
    float data[64] = {0};
    tfm_norm_weights norm;
    tfm_tensor x = tfm_tensor_2d(data, TFM_DTYPE_F32, 2, 4), y = x, t;
    tfm_arena arena;
    void *memory = NULL;
    tfm__rows rows;
    char text[64];
    int good = 1;
    SECTION("tensors");
    memset(&norm, 0, sizeof norm);
    norm.eps = 1e-5;
    must(tfm_layer_norm(&y, &x, &norm, &err));
    ARGUMENT(tfm_layer_norm(&y, NULL, &norm, &err));
    ARGUMENT(tfm_layer_norm(NULL, &x, &norm, &err));
    t = x, t.dtype = TFM_DTYPE_I32;
    CHECK_FAILS(tfm_layer_norm(&y, &t, &norm, &err), TFM_E_DTYPE, "I32, expected F32");
    t.dtype = TFM_DTYPE_COUNT;
    CHECK_FAILS(tfm_layer_norm(&y, &t, &norm, &err), TFM_E_DTYPE, "is ?");
#ifndef __cplusplus /* where the enum type cannot hold -1 */
    t.dtype = (tfm_dtype)-1;
    CHECK_FAILS(tfm_layer_norm(&y, &t, &norm, &err), TFM_E_DTYPE, "is ?");
#endif
    t = x, t.rank = 0;
    CHECK_FAILS(tfm_layer_norm(&y, &t, &norm, &err), TFM_E_SHAPE, "rank 0");
    t.rank = TFM_MAX_RANK + 1;
    CHECK_FAILS(tfm_layer_norm(&y, &t, &norm, &err), TFM_E_SHAPE, "rank 9");
    t = x, t.dims[0] = -2;
    CHECK_FAILS(tfm_layer_norm(&y, &t, &norm, &err), TFM_E_SHAPE, "the impossible shape [-2, 4]");
    t = tfm_tensor_make(data, TFM_DTYPE_F32, 3, wide);
    CHECK(t.strides[0] == -1 && t.strides[1] == 2, "strides that overflow");
    CHECK_FAILS(tfm_layer_norm(&y, &t, &norm, &err), TFM_E_SHAPE, "the impossible shape");
    t = x, t.data = NULL;
    CHECK_FAILS(tfm_layer_norm(&y, &t, &norm, &err), TFM_E_ARGUMENT, "no data");
    t = x, t.strides[1] = 2;
    CHECK_FAILS(tfm_layer_norm(&y, &t, &norm, &err), TFM_E_SHAPE, "the last stride is 2");
    t = tfm_tensor_make(data, TFM_DTYPE_F32, -1, NULL);
    CHECK(t.rank == 0 && tfm_tensor_make(data, TFM_DTYPE_F32, 9, most).rank == TFM_MAX_RANK,
          "ranks out of range");
    t = tfm_tensor_swap(x, -1, 0);
    CHECK(t.dims[0] == 2 && tfm_tensor_swap(x, 0, -1).dims[0] == 2 &&
              tfm_tensor_swap(x, 0, 1).dims[0] == 2 && tfm_tensor_swap(x, 1, 0).dims[0] == 2,
          "the last dimension stays; numbers of dimensions out of range");
    t = tfm_tensor_1d(data, TFM_DTYPE_F32, 4);
    must(tfm__view(&t, "t", 1, TFM_MAX_RANK, &rows, &err));
    CHECK(rows.L == 1 && rows.B == 1 && rows.D == 4, "a row");
    t = tfm_tensor_make(data, TFM_DTYPE_F32, 5, most);
    t.dims[0] = 2, t.dims[1] = 2, t.dims[2] = 2, t.dims[3] = 2, t.dims[4] = 4;
    t.strides[0] = 32, t.strides[1] = 16, t.strides[2] = 8, t.strides[3] = 4;
    must(tfm__view(&t, "t", 1, TFM_MAX_RANK, &rows, &err));
    CHECK(rows.B == 8 && rows.L == 2 && rows.sb == 8, "five dimensions that are contiguous");
    t.strides[0] = 48;
    CHECK_FAILS(tfm__view(&t, "t", 1, TFM_MAX_RANK, &rows, &err), TFM_E_SHAPE,
                "dimension 0 must be contiguous");
    t.dims[1] = t.dims[2] = 1;
    must(tfm__view(&t, "t", 1, TFM_MAX_RANK, &rows, &err));
    CHECK(rows.B == 2 && rows.sb == 48, "dimensions of size 1 between them do not matter");
    SECTION("arenas");
    arena = tfm_arena_make(data, sizeof data);
    CHECK_FAILS(tfm_arena_take(&arena, -1, 4, &memory, &err), TFM_E_OVERFLOW, "");
    CHECK_FAILS(tfm_arena_take(&arena, INT64_MAX, 1, &memory, &err), TFM_E_OVERFLOW, "");
    CHECK_FAILS(tfm_arena_take(&arena, INT64_MAX / 2, 4, &memory, &err), TFM_E_OVERFLOW, "");
    CHECK_FAILS(tfm_arena_take(&arena, 1 << 20, 4, &memory, &err), TFM_E_ARENA, "are needed");
    arena = tfm_arena_measuring();
    must(tfm_arena_take(&arena, (int64_t)(SIZE_MAX / 2) - 200, 1, &memory, &err));
    CHECK_FAILS(tfm_arena_take(&arena, (int64_t)(SIZE_MAX / 2) - 200, 1, &memory, &err),
                TFM_E_OVERFLOW, "more than this machine can address");
    CHECK_FAILS(tfm_arena_take(&arena, 150, 1, &memory, &err), TFM_E_OVERFLOW, "can address");
    CHECK_FAILS(tfm_arena_take(&arena, 100, 1, &memory, &err), TFM_E_OVERFLOW, "can address");
    CHECK(!memory && tfm_arena_make(NULL, 100).size == 0 && tfm_arena_make(data, 0).size == 0,
          "an arena without memory gives nothing");
    SECTION("sizes and messages");
    {
        static tfm__sentencepiece p;
        static tfm__side side;
        tfm__lattice lattice;
        arena = tfm_arena_measuring(), side.spm = &p;
        side.tokenizer = &tfm__tokenizers[TFM_TEXT_KIND_SENTENCEPIECE];
        CHECK_FAILS(tfm__lattice_alloc(&lattice, &side, (int64_t)INT32_MAX / 2 + 1, &arena, &err),
                    TFM_E_OVERFLOW, "1073741824 bytes after normalization");
    }
    {
        int32_t *some;
        arena = tfm_arena_measuring();
        CHECK_FAILS(TFM__TAKE(&arena, INT64_MAX, 2, &some, &err), TFM_E_OVERFLOW, "");
    }
    {
        int64_t n = 7;
        tfm__pool pool;
        memset(&pool, 0, sizeof pool);
        CHECK(!tfm__mul(-1, 1, &n) && !tfm__mul(1, -1, &n) && !tfm__add(-1, 1, &n) &&
                  !tfm__add(1, -1, &n) && !tfm__add(INT64_MAX, 1, &n) && n == 7 &&
                  tfm__mul(5, 0, &n) && n == 0,
              "negative numbers and sums that overflow");
        CHECK_FAILS(tfm__pool_take(&pool, INT64_MAX, 1, &memory, &err), TFM_E_OVERFLOW, "");
        CHECK_FAILS(tfm__pool_take(&pool, INT64_MAX, 8, &memory, &err), TFM_E_OVERFLOW, "");
        CHECK_FAILS(tfm__allocate(&pool.allocator, -1, &memory, &err), TFM_E_OVERFLOW, "");
    }
    {
        const float odd[] = {(float)NAN, -(float)INFINITY, 65519.0f, 65520.0f,
                             -1e9f,      (float)INFINITY,  1.0f};
        static const uint16_t f16[] = {0x7E00, 0xFC00, 0x7BFF, 0x7C00, 0xFC00, 0x7C00, 0x3C00};
        static const uint16_t bf16[] = {0x7FC0, 0xFF80, 0x4780, 0x4780, 0xCE6E, 0x7F80, 0x3F80};
        uint16_t out[7];
        uint32_t c = 7;
        tfm__narrow((unsigned char *)out, odd, TFM_DTYPE_F16, 7), out[0] &= 0x7FFF;
        CHECK(memcmp(out, f16, sizeof out) == 0, "F16 of NaN, infinite or large numbers");
        tfm__narrow((unsigned char *)out, odd, TFM_DTYPE_BF16, 7), out[0] &= 0x7FFF;
        CHECK(memcmp(out, bf16, sizeof out) == 0, "and BF16");
        CHECK(tfm__utf8_next("a", 0, &c) == 0 && c == 7, "an empty text has no character");
    }
    tfm__format(text, sizeof text, "%s %q", "a\x7f\n");
    CHECK(strcmp(text, "a?? ") == 0, "'%s'", text);
    tfm__format(text, 4, "%i", INT64_MIN);
    CHECK(strcmp(text, "-92") == 0, "'%s'", text);
    t.rank = 100;
    tfm__format(text, sizeof text, "%t", &t);
    CHECK(text[0] == '[', "%s", text);
#define TFM_X(name, text) good &= strcmp(tfm_status_text(name), text) == 0;
    TFM_STATUS_TABLE(TFM_X)
#undef TFM_X
    CHECK(good && strcmp(tfm_version(), TFM_VERSION) == 0,
          "the name of every status, and the version");
#ifndef __cplusplus
    CHECK(strcmp(tfm_status_text((tfm_status)-5), "unknown status") == 0 &&
              strcmp(tfm_status_text((tfm_status)1000), "unknown status") == 0,
          "numbers that are no status");
#endif
}

static void files(void) {
    static const char *const bad[] = {
        "{\"a\":{\"dtype\":\"U8\",\"shape\":1,\"data_offsets\":[0,1]}}",
        "{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"shape\":[1],\"data_offsets\":[0,1]}}",
        "{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1],\"data_offsets\":[0,1]}}",
        "{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[1]}}",
        "{\"a\":{\"dtype\":1,\"shape\":[1],\"data_offsets\":[0,1]}}",
        "{\"\\u00G0\":0}",
        "{\"\\u00g0\":0}",
        "{\"\\uD800",
        "{\"\\uD800\\",
        "{\"\\u12\":0}",
        "{\"\\u",
        "{\"\\uDC00\":0}",
        "{\"\\uD800\":0}",
        "{\"\\uD800\\n\":0}",
        "{\"\\uD800\\u0041\":0}",
        "{\"\\uD800\\uE000\":0}",
        "{\"\\uD800\\uDZ00\":0}",
        "{\"\\uD800x12345\":0}",
        "{\"\\u0000\":0}",
        "{\"\\x\":0}",
        "{\"a\":"};
    static const char good[] = "{\"\\uD83D\\uDE00\\u00e9\\u00C9\\uFFFD\\uE000\":{\"dtype\":\"U64\","
                               "\"shape\":[1],\"data_offsets\":[0,8]}}";
    static const char *const configs[] = {", \"embedding_scale\": -1e31",
                                          ", \"embedding_scale\": 1e30",
                                          ", \"suppressed\": 3",
                                          ", \"tgt_language\": \"forced\"",
                                          ", \"src_language\": \"source\"",
                                          ", \"src_text\": \"pieces\"",
                                          ", \"languages\": [1]",
                                          ", \"norm\": 1",
                                          ", \"languages\": {\"a\": 1, \"a\": 2}",
                                          ", \"languages\": {\"a\": -2}"};
    unsigned char bytes[512];
    uint64_t number = 0;
    tfm_safetensors *file = NULL;
    tfm_model *model = NULL;
    tfm_model_options mo;
    tfm_allocator half;
    void *data;
    size_t i, n;
    SECTION("files");
    for (i = 0; i <= sizeof bad / sizeof *bad; i++) {
        const char *header = i < sizeof bad / sizeof *bad ? bad[i] : good;
        memset(bytes, 0, sizeof bytes);
        n = strlen(header), bytes[0] = (unsigned char)n;
        memcpy(bytes + 8, header, n);
        if (header == good) {
            bytes[8 + n] = 5, bytes[8 + n + 7] = 0x80;
            must(tfm_safetensors_open(&file, bytes, 8 + n + 8, NULL, &err));
        } else {
            CHECK_FAILS(tfm_safetensors_open(&file, bytes, 8 + n + 1, NULL, &err), TFM_E_FORMAT,
                        "");
        }
    }
    CHECK(tfm_safetensors_find(file, "\xF0\x9F\x98\x80\xC3\xA9\xC3\x89\xEF\xBF\xBD\xEE\x80\x80") ==
              0,
          "a name with escapes");
    CHECK_FAILS(tfm_safetensors_read(file, 0, TFM_DTYPE_I64, &number, &err), TFM_E_OVERFLOW, "");
    CHECK_FAILS(tfm_safetensors_read(file, 0, TFM_DTYPE_F32, &number, &err), TFM_E_DTYPE, "");
    ARGUMENT(tfm_safetensors_read(file, 0, TFM_DTYPE_U64, NULL, &err));
    ARGUMENT(tfm_safetensors_read(file, 1, TFM_DTYPE_U64, &number, &err));
    ARGUMENT(tfm_safetensors_read(file, -1, TFM_DTYPE_U64, &number, &err));
    must(tfm_safetensors_read(file, 0, TFM_DTYPE_U64, &number, &err));
    CHECK(number == 0x8000000000000005u && !tfm_safetensors_name(file, 1) &&
              tfm_safetensors_tensor(file, 1).rank == 0,
          "itself");
    tfm_safetensors_free(file), file = NULL;
    for (i = 0; i < sizeof configs / sizeof *configs; i++) {
        tiny t = tiny_default();
        st_writer w;
        t.config = configs[i];
        tiny_write(&w, t);
        data = tiny_bytes(&w, &n);
        CHECK_FAILS(tfm_model_load(&model, data, n, NULL, &err), TFM_E_CONFIG, "");
    }
    memset(&half, 0, sizeof half), memset(&mo, 0, sizeof mo);
    {
        tiny t = tiny_default();
        st_writer w;
        tiny_write(&w, t);
        data = tiny_bytes(&w, &n);
        mo.allocator = &half;
        must(tfm_model_load(&model, data, n, &mo, &err));
        CHECK(model != NULL, "an allocator struct of zeros means malloc");
        tfm_model_free(model), model = NULL;
#ifndef __cplusplus
        mo.weights = (tfm_weight_type)-1;
        CHECK_FAILS(tfm_model_load(&model, data, n, &mo, &err), TFM_E_ARGUMENT, "weights is -1");
        mo.weights = (tfm_weight_type)(TFM_WEIGHT_TYPE_I8 + 1);
        CHECK_FAILS(tfm_model_load(&model, data, n, &mo, &err), TFM_E_ARGUMENT,
                    "weights is 5, expected TFM_WEIGHT_TYPE_AS_STORED");
        CHECK_FAILS(tfm_model_load_file(&model, "x", &mo, &err), TFM_E_ARGUMENT,
                    "weights is 5, expected TFM_WEIGHT_TYPE_AS_STORED");
#endif
#ifndef TRANSFORMER_MMAP /* in test_units, too */
        memset(&mo, 0, sizeof mo), mo.map = 1;
        CHECK_FAILS(tfm_model_load_file(&model, "x", &mo, &err), TFM_E_ARGUMENT,
                    "map: this build cannot map files: compile with TRANSFORMER_MMAP");
#endif
        memset(&mo, 0, sizeof mo);
    }
    half.allocate = test_allocate, mo.allocator = &half;
    ARGUMENT(tfm_safetensors_open(&file, bytes, 9, &half, &err));
    ARGUMENT(tfm_safetensors_open(NULL, bytes, 9, NULL, &err));
    ARGUMENT(tfm_safetensors_open(&file, NULL, 9, NULL, &err));
    ARGUMENT(tfm_model_load(&model, bytes, 9, &mo, &err));
    ARGUMENT(tfm_model_load(NULL, bytes, 9, NULL, &err));
    ARGUMENT(tfm_model_load(&model, NULL, 9, NULL, &err));
    ARGUMENT(tfm_safetensors_open_file(NULL, "x", NULL, &err));
    ARGUMENT(tfm_safetensors_open_file(&file, NULL, NULL, &err));
    ARGUMENT(tfm_safetensors_open_file(&file, "x", &half, &err));
    ARGUMENT(tfm_model_load_file(NULL, "x", NULL, &err));
    ARGUMENT(tfm_model_load_file(&model, NULL, NULL, &err));
    ARGUMENT(tfm_model_load_file(&model, "x", &mo, &err));
    CHECK(!file && !model, "outputs untouched");
    tfm_safetensors_free(NULL), tfm_model_free(NULL), tfm_session_free(NULL);
}

/* Reads every integer type as the two types that ids have. */
static void integers(void) {
    static const tfm_dtype types[] = {TFM_DTYPE_BOOL, TFM_DTYPE_U8,  TFM_DTYPE_I8,  TFM_DTYPE_U16,
                                      TFM_DTYPE_I16,  TFM_DTYPE_U32, TFM_DTYPE_I32, TFM_DTYPE_U64,
                                      TFM_DTYPE_I64,  TFM_DTYPE_F32};
    static const int64_t expected[] = {1, 255, -1, 65535, -1, 4294967295, -1, 0, -1, 0};
    static unsigned char ones[8] = {255, 255, 255, 255, 255, 255, 255, 255}, one[8] = {1};
    int64_t far_off[2], wide;
    int32_t narrow;
    size_t i;
    SECTION("integers of all types");
    far_off[0] = (int64_t)INT32_MIN - 1, far_off[1] = (int64_t)INT32_MAX + 1;
    for (i = 0; i < sizeof types / sizeof *types; i++) {
        st_writer w;
        tfm_safetensors *file = NULL;
        void *data;
        size_t size;
        st_init(&w);
        st_add(&w, "x", tfm_tensor_1d(types[i] == TFM_DTYPE_BOOL ? one : ones, types[i], 1));
        data = tiny_bytes(&w, &size);
        must(tfm_safetensors_open(&file, data, size, NULL, &err));
        wide = 7, narrow = 7;
        if (types[i] == TFM_DTYPE_F32) {
            CHECK_FAILS(tfm_safetensors_read(file, 0, TFM_DTYPE_I32, &narrow, &err), TFM_E_DTYPE,
                        "'x' is F32, which is not read as I32");
            CHECK_FAILS(tfm_safetensors_read(file, 0, TFM_DTYPE_I64, &wide, &err), TFM_E_DTYPE,
                        "as I64");
        } else if (types[i] == TFM_DTYPE_U64) {
            CHECK_FAILS(tfm_safetensors_read(file, 0, TFM_DTYPE_I64, &wide, &err), TFM_E_OVERFLOW,
                        "element 0 does not fit I64");
        } else {
            must(tfm_safetensors_read(file, 0, TFM_DTYPE_I64, &wide, &err));
            if (types[i] == TFM_DTYPE_U32)
                CHECK_FAILS(tfm_safetensors_read(file, 0, TFM_DTYPE_I32, &narrow, &err),
                            TFM_E_OVERFLOW, "element 0 does not fit I32");
            else must(tfm_safetensors_read(file, 0, TFM_DTYPE_I32, &narrow, &err));
            CHECK(wide == expected[i] && (types[i] == TFM_DTYPE_U32 ? narrow == 7 : narrow == wide),
                  "%s: %d", tfm_dtype_name(types[i]), (int)wide);
        }
        CHECK_FAILS(tfm_safetensors_read(file, 0, TFM_DTYPE_F16, &narrow, &err), TFM_E_DTYPE,
                    "as F16");
        tfm_safetensors_free(file);
    }
    for (i = 0; i < 2; i++) {
        st_writer w;
        tfm_safetensors *file = NULL;
        void *data;
        size_t size;
        st_init(&w);
        st_add(&w, "x", tfm_tensor_1d(&far_off[i], TFM_DTYPE_I64, 1));
        data = tiny_bytes(&w, &size);
        must(tfm_safetensors_open(&file, data, size, NULL, &err));
        narrow = 7;
        CHECK_FAILS(tfm_safetensors_read(file, 0, TFM_DTYPE_I32, &narrow, &err), TFM_E_OVERFLOW,
                    "does not fit I32");
        CHECK(narrow == 7, "the output is unchanged");
        CHECK(tfm__file_has_prefix(file, "x") && !tfm__file_has_prefix(file, "y") &&
                  !tfm__file_has_prefix(file, "w"),
              "prefixes of names");
        tfm_safetensors_free(file);
    }
}

/* ---- weights that do not fit each other ---- */

typedef struct misfit {
    const char *config, *name; /* the tensor that changes */
    tfm_dtype type;
    int64_t d0, d1; /* its new dimensions; d1 0: rank 1; d0 0: the tensor is missing */
    const char *says;
} misfit;

/* With tfm_model_decoding as its decoding a session's size and a call without options follow the
   model file. */
static void defaults(void) {
    static const char *const configs[] = {
        IDS, IDS ", \"decoding\": {\"beam\": 3, \"length_penalty\": 0.6, \"no_repeat_ngram\": 1}",
        IDS ", \"decoding\": {\"max_length\": 2000, \"min_length\": 3}"};
    int i;
    SECTION("the decoding of a session");
    for (i = 0; i < 3; i++) {
        tfm_model *m = words_model(configs[i]);
        tfm_session_options o;
        tfm_session *s, *greedy, *with;
        tfm_decode_options decode;
        tfm_text in, out;
        char text[3][256];
        memset(&o, 0, sizeof o), in.data = "a b hello c", in.size = 11;
        must(tfm_session_create(&greedy, m, &o, &err));
        o.decoding = tfm_model_decoding(m);
        must(tfm_session_create(&s, m, &o, &err));
        decode = *tfm_model_decoding(m);
        o.decoding = NULL, o.max_beam = decode.beam, o.max_target = decode.max_length;
        must(tfm_session_create(&with, m, &o, &err));
        must(tfm_translate(s, in.data, text[0], 256, &err));
        must(translate_texts(with, &in, NULL, &out, 1, &decode, text[1], 256, &err));
        CHECK(strcmp(text[0], text[1]) == 0, "as tfm_model_decoding: %.40s", text[0]);
        must(tfm_translate(greedy, in.data, text[2], 256, &err));
        if (i < 2) CHECK((strcmp(text[0], text[2]) == 0) == (i == 0), "greedy: %.40s", text[2]);
        else
            CHECK(s->max_target == 2000 && greedy->max_target == 1040,
                  "there is room for max_length");
        memset(&decode, 0, sizeof decode);
        must(translate_texts(s, &in, NULL, &out, 1, &decode, text[1], 256, &err));
        CHECK(strcmp(text[1], text[2]) == 0, "all-zero options are greedy there too");
        tfm_session_free(s), tfm_session_free(greedy), tfm_session_free(with);
        o.decoding = tfm_model_decoding(m), o.max_target = 0, o.max_beam = 2;
        must(tfm_session_create(&s, m, &o, &err));
        if (i == 1)
            CHECK_FAILS(tfm_translate(s, "a", text[0], 256, &err), TFM_E_TOO_LONG, "max_beam 2");
        tfm_session_free(s), tfm_model_free(m);
    }
}

/* A model file may have every decoding option but edit_logits, and a session with its decoding has
   room for what the option needs. */
static void each_option(void) {
    int i;
    SECTION("each option in a model file");
    for (i = 0; i < TFM__N_DECODE_FIELDS; i++) {
        const tfm__config_field *f = &tfm__decode_fields[i];
        const int n = f->kind == TFM__FIELD_IDS ? 2 : 1, is_list = f->kind >= TFM__FIELD_IDS;
        const char *value = f->kind == TFM__FIELD_IDS         ? "[2, 3]"
                            : f->kind == TFM__FIELD_SEQUENCES ? "[[2, 3]]"
                                                              : "1";
        char config[256], word[32], out[256];
        const tfm_decode_options *o;
        tfm_session_options limits;
        tfm_session *s;
        tfm_model *m;
        snprintf(word, sizeof word, "\"%s\"", f->words ? f->words->words[1] : "");
        snprintf(config, sizeof config, IDS ", \"decoding\": {\"%s\": %s}", f->name,
                 f->words ? word : value);
        if (strcmp(f->name, "lexical_shortlist") == 0) continue; /* this model has no lexicon */
        m = words_model(config), o = tfm_model_decoding(m);
        if (is_list) CHECK(*(const int32_t *)((const char *)o + f->count) == n, "%s", f->name);
        else CHECK(tfm__config_get(f, o) == 1, "%s: %g", f->name, tfm__config_get(f, o));
        memset(&limits, 0, sizeof limits), limits.decoding = o;
        must(tfm_session_create(&s, m, &limits, &err));
        CHECK(tfm_translate(s, "a b", out, sizeof out, &err) == TFM_OK, "%s: %s", f->name,
              err.text);
        tfm_session_free(s), tfm_model_free(m);
    }
}

static const tfm__words *field_words(const char *name) {
    const tfm__config_field *field = tfm__config_fields, *end = field + TFM__N_CONFIG_FIELDS;
    while (field < end && strcmp(field->name, name) != 0) field++;
    if (field == end)
        for (field = tfm__decode_fields; strcmp(field->name, name) != 0;) field++;
    return field->words;
}

/* Each value of an enum of the config has a word, and the config's reader maps the word to that
   value. */
static void words(void) {
    int v;
    SECTION("words of the config");
#define NAMED(type, n, choices)                                                                    \
    for (v = 0; v < (int)(n); v++)                                                                 \
        CHECK(tfm__config_choice(choices, type##_name((type)v)) == v, "%s", type##_name((type)v)); \
    CHECK(strcmp(type##_name((type)(n)), "?") == 0, "")
    NAMED(tfm_norm_order, TFM_NORM_ORDER_COUNT, field_words("norm"));
    NAMED(tfm_norm_kind, TFM_NORM_KIND_COUNT, field_words("layer_norm"));
    NAMED(tfm_activation, TFM_ACTIVATION_COUNT, field_words("activation"));
    NAMED(tfm_position_kind, TFM_POSITION_KIND_COUNT, field_words("positions"));
    NAMED(tfm_text_kind, TFM_TEXT_KIND_COUNT, field_words("tgt_text"));
    NAMED(tfm_language_use, TFM_LANGUAGE_USE_COUNT, field_words("src_language"));
    NAMED(tfm_stop, TFM_STOP_COUNT, field_words("stop"));
    NAMED(tfm_repetition, TFM_REPETITION_COUNT, field_words("repetition"));
#undef NAMED
    /* words of files of version 0.6.0 and earlier */
    CHECK(tfm__config_choice(field_words("layer_norm"), "variance") == TFM_NORM_KIND_LAYER_NORM &&
              tfm__config_choice(field_words("layer_norm"), "deviation") ==
                  TFM_NORM_KIND_LAYER_NORM_UNBIASED &&
              tfm__config_choice(field_words("layer_norm"), "rms") == TFM_NORM_KIND_RMS_NORM,
          "old words of norms");
    CHECK(tfm__config_choice(&tfm__stop_words, "enough") == TFM_STOP_CTRANSLATE2 &&
              tfm__config_choice(&tfm__stop_words, "sure") == TFM_STOP_EARLY_NEVER &&
              tfm__config_choice(&tfm__stop_words, "full") == TFM_STOP_EARLY_TRUE &&
              tfm__config_choice(&tfm__stop_words, "likely") == TFM_STOP_EARLY_FALSE,
          "old words of stop");
}

static void weights(void) {
    static char many[8300] = ", \"alignment_heads\": [[0, 0]"; /* and 1024 more */
    static const misfit rows[] = {
        {"", "encoder.layers.0.self_attn.in_proj_bias", TFM_DTYPE_F32, 5, 0,
         "in_proj_bias' is [5]"},
        {"", "encoder.layers.0.self_attn.in_proj_weight", TFM_DTYPE_F32, 11, 20, "of query, "},
        {"", "encoder.layers.0.self_attn.in_proj_weight", TFM_DTYPE_F32, 10, 20, "of query, "},
        {"", "encoder.layers.1.self_attn.in_proj_weight", TFM_DTYPE_F32, 42, 20,
         "has 42 rows, not 12 of query"},
        {"", "encoder.layers.0.self_attn.in_proj_weight", TFM_DTYPE_F32, 32, 20, "do not divide"},
        {"", "encoder.layers.0.self_attn.in_proj_weight", TFM_DTYPE_F32, 13, 20, "of query, "},
        {"", "tgt_embedding.weight", TFM_DTYPE_F32, 13, 19, "is [13, 19], expected [13, 20]"},
        {"", "decoder.layers.0.linear1.weight", TFM_DTYPE_I8, 24, 20, "weight_scale' is missing"},
        {"", "decoder.layers.1.linear1.weight", TFM_DTYPE_F32, 24, 19,
         "is [24, 19], expected [24, 20]"},
        {"", "encoder.norm.weight", TFM_DTYPE_F32, 19, 0, "encoder.norm.weight' is [19]"},
        {"", "decoder.norm.bias", TFM_DTYPE_F32, 21, 0, "decoder.norm.bias' is [21]"},
        {"", "src_embedding_norm.bias", TFM_DTYPE_F32, 1, 0, "src_embedding_norm.bias' is [1]"},
        {"", "tgt_embedding_norm.weight", TFM_DTYPE_F32, 1, 0, "tgt_embedding_norm.weight' is [1]"},
        {"", "generator.bias", TFM_DTYPE_F32, 12, 0, "generator.bias' is [12]"},
        {", \"positions\": \"learned\"", "", TFM_DTYPE_F32, 0, 0,
         "'src_positions.weight' is missing"},
        {", \"positions\": \"learned\"", "src_positions.weight", TFM_DTYPE_F32, 9, 19,
         "is [9, 19]"},
        {", \"positions\": \"learned\", \"position_offset\": 9", "src_positions.weight",
         TFM_DTYPE_F32, 9, 20, "but position_offset is 9"},
        {", \"positions\": \"learned\"", "tgt_positions.weight", TFM_DTYPE_F32, 9, 19,
         "is [9, 19]"},
        {"", "src_vocabulary", TFM_DTYPE_F32, 4, 0, "expected U8 of rank 1"},
        {"", "src_vocabulary", TFM_DTYPE_U8, 4, 2, "[4, 2], expected rank 1"},
        {", \"src_text\": \"sentencepiece\"", "src_sentencepiece", TFM_DTYPE_I8, 4, 0,
         "expected U8"},
        {", \"tgt_text\": \"sentencepiece\"", "tgt_sentencepiece", TFM_DTYPE_U8, 4, 2,
         "expected rank 1"},
        {", \"tgt_text\": \"sentencepiece\"", "", TFM_DTYPE_U8, 0, 0,
         "tgt_sentencepiece' is missing"},
        {"", "src_sentencepiece", TFM_DTYPE_U8, 4, 0,
         "'src_text' is words, but tensor 'src_sentencepiece' is there"},
        {", \"languages\": {\"a\": 11}, \"src_language\": \"source\"", "", TFM_DTYPE_U8, 0, 0,
         "'languages' has 11 for a"},
        {", \"languages\": {\"a\": 13}, \"tgt_language\": \"forced\"", "", TFM_DTYPE_U8, 0, 0,
         "'languages' has 13 for a"},
        {", \"alignment_heads\": [[0, 1], [9, 1]]", "", TFM_DTYPE_U8, 0, 0,
         "'alignment_heads' has [9, 1] of"},
        {many, "", TFM_DTYPE_U8, 0, 0,
         "'alignment_heads' has 1025 heads, at most 1024 can be listed"},
        {", \"alignment_heads\": [[0, 1], [0, 0], [0, 1]]", "", TFM_DTYPE_U8, 0, 0,
         "'alignment_heads' has [0, 1] twice"},
        {"", "decoder.layers.0.ssru.weight", TFM_DTYPE_F32, 21, 20,
         "ssru.weight' is [21, 20], expected"},
        {"", "decoder.layers.0.ssru.weight", TFM_DTYPE_F32, 20, 21,
         "ssru.weight' is [20, 21], expected"},
        {"", "decoder.layers.0.ssru.weight", TFM_DTYPE_F32, 20, 0,
         "ssru.weight' is [20], expected rank"},
        {"", "decoder.layers.0.ssru.weight", TFM_DTYPE_I32, 20, 20,
         "ssru.weight' is I32, expected F32"},
        {"", "decoder.layers.0.ssru.weight", TFM_DTYPE_I8, 20, 20,
         "0.ssru.weight_scale' is missing"},
        {"", "decoder.layers.1.ssru_gate.weight", TFM_DTYPE_F32, 10, 20, "expected [20, 20]"},
        {"", "decoder.layers.1.ssru_gate.bias", TFM_DTYPE_F32, 19, 0, "expected [20]"},
        {"", "decoder.layers.2.ssru.weight", TFM_DTYPE_F32, 20, 20,
         "2.ssru_gate.weight' is missing"},
        {"", "decoder.layers.2.ssru_gate.weight", TFM_DTYPE_F32, 20, 20,
         "2.ssru.weight' is missing"},
        {"", "decoder.layers.2.ssru_gate.bias", TFM_DTYPE_F32, 20, 0, "2.ssru.weight' is missing"},
        {"", "decoder.layers.0.ssru_gates.weight", TFM_DTYPE_F32, 20, 20, "is not part of a model"},
        {"", "decoder.layers.0.self_attn.in_proj_weight", TFM_DTYPE_F32, 32, 20,
         "'decoder.layers.0' has both self_attn and ssru"},
        {"", "decoder.layers.1.self_attn.out_proj.bias", TFM_DTYPE_F32, 20, 0,
         "'decoder.layers.1' has both self_attn and ssru"},
        {"", "decoder.norm1.weight", TFM_DTYPE_F32, 20, 0, "is not part of a model"},
        {"", "encoder.layers.0.ssru.weight", TFM_DTYPE_F32, 20, 20,
         "0.ssru.weight' is not part of"},
        {"", "encoder.relative_positions.weight", TFM_DTYPE_F32, 8, 3,
         "is [8, 3], expected [8, 2]"},
        {"", "encoder.relative_positions.weight", TFM_DTYPE_F32, 16, 0, "expected rank 2"},
        {"", "encoder.relative_positions.weight", TFM_DTYPE_I8, 8, 2,
         "is I8, expected F32, F16 or BF16"},
        {"", "encoder.relative_positions.weight", TFM_DTYPE_F32, 3, 2,
         "encoder.relative_positions: 3 buckets of both directions up to a distance of 128"},
        {"", "encoder.layers.1.self_attn.relative_positions.weight", TFM_DTYPE_F32, 1, 2,
         "1.self_attn.relative_positions: 1 buckets of both directions"},
        {", \"relative_max_distance\": 4", "encoder.relative_positions.weight", TFM_DTYPE_F32, 16,
         2, "16 buckets of both directions up to a distance of 4"},
        {", \"relative_buckets\": 9", "encoder.relative_positions.weight", TFM_DTYPE_F32, 8, 2,
         "'relative_buckets' is 9, the tensors say 8"},
        {", \"relative_buckets\": 9", "", TFM_DTYPE_F32, 0, 0,
         "'relative_buckets' is 9, the tensors say 0"},
        {", \"relative_buckets\": 2147483648", "", TFM_DTYPE_F32, 0, 0,
         "'relative_buckets' is not an int"},
        {"", "decoder.layers.0.multihead_attn.relative_positions.weight", TFM_DTYPE_F32, 8, 2,
         "is not part of a model"},
        {", \"encoder_windows\": [[0, 0, 1]]", "", TFM_DTYPE_F32, 0, 0,
         "'encoder_windows' has [0, 0, 1], expected a layer below 2"},
        {", \"encoder_windows\": [[0, 1]]", "", TFM_DTYPE_F32, 0, 0,
         "'encoder_windows' is not a list of [layer, left, right]"},
        {", \"encoder_windows\": [[2, 1, 1]]", "", TFM_DTYPE_F32, 0, 0,
         "'encoder_windows' has [2, 1, 1], expected a layer below 2"},
        {", \"encoder_windows\": [[1, 1, 1], [1, 2, 2]]", "", TFM_DTYPE_F32, 0, 0,
         "'encoder_windows' has [1, 2, 2], expected a layer below 2"},
        {", \"decoder_windows\": [[0, 1, 0]]", "", TFM_DTYPE_F32, 0, 0,
         "'decoder_windows' has [0, 1, 0], expected a layer below 2"},
        {", \"d_rotary\": 3", "", TFM_DTYPE_F32, 0, 0, "'d_rotary' is 3, which is odd"},
        {", \"d_rotary\": 4", "", TFM_DTYPE_F32, 0, 0, "'d_rotary' is 4, the tensors say 0"},
        {"", "encoder.rotary.frequencies", TFM_DTYPE_F32, 4, 0,
         "turns 8 columns, but heads have 6"},
        {", \"rotary_layout\": \"quarters\"", "", TFM_DTYPE_F32, 0, 0,
         "'rotary_layout' is 'quarters', expected halves|interleaved"},
        {", \"decoder_activation\": \"tanh\"", "", TFM_DTYPE_F32, 0, 0,
         "'decoder_activation' is 'tanh', expected relu|gelu|"},
        {", \"attention_cap\": 0", "", TFM_DTYPE_F32, 0, 0, "'attention_cap' must be more than 0"},
        {", \"n_kv_heads\": 1", "", TFM_DTYPE_F32, 0, 0, "'n_kv_heads' is 1, the tensors say 2"},
        {", \"cross_attention\": \"merged\"", "", TFM_DTYPE_F32, 0, 0,
         "multihead_attn.in_proj_weight' is not part of a model"},
        {"", "encoder.layers.0.self_attn.k_norm.weight", TFM_DTYPE_F32, 5, 0, "expected [6]"},
        {"", "encoder.layers.0.linear1_gate.weight", TFM_DTYPE_F32, 23, 20, "expected [24, 20]"},
        {"", "encoder.layers.1.linear1_gate.weight", TFM_DTYPE_F32, 24, 19, "expected [24, 20]"},
        {"", "encoder.layers.0.linear1_gate.bias", TFM_DTYPE_F32, 24, 0, "is not part of a model"},
        {", \"src_text\": \"bytes\", \"tgt_text\": \"bytes\"", "", TFM_DTYPE_F32, 0, 0,
         "'src_text' is bytes from id 0 on, the vocabulary has 11 tokens"},
        {", \"tgt_text\": \"bytes\", \"byte_offset\": 2147483647", "", TFM_DTYPE_F32, 0, 0,
         "'tgt_text' is bytes from id 2147483647 on, the vocabulary has 13 tokens"}};
    static float zeros[4096];
    tfm_model *model = NULL;
    size_t i, k, size;
    void *data;
    SECTION("weights that do not fit each other");
    for (i = strlen(many), k = 0; k < 1024; k++, i += 7) memcpy(many + i, ",[0, 0]", 8);
    memcpy(many + i, "]", 2);
    for (i = 0; i < sizeof rows / sizeof *rows; i++) {
        const misfit *r = &rows[i];
        tfm_tensor x = r->d1 ? tfm_tensor_2d(zeros, r->type, r->d0, r->d1)
                             : tfm_tensor_1d(zeros, r->type, r->d0);
        tiny t = tiny_default();
        st_writer w;
        t.packed = t.more_norms = 1, t.config = r->config;
        if (strstr(r->name, "in_proj_weight")) t.without = "in_proj_bias";
        if (strstr(r->name, "decoder.layers.")) t.ssru = 3;
        if (strstr(r->name, "tgt_positions")) t.src_positions = t.tgt_positions = 9;
        tiny_write(&w, t);
        for (k = 0; k < w.n_entries && strcmp(w.entries[k].name, r->name) != 0;) k++;
        if (k == w.n_entries && r->d0) st_add(&w, r->name, x);
        else if (k < w.n_entries) w.entries[k].tensor = x, w.entries[k].bytes = st_bytes(&x);
        data = tiny_bytes(&w, &size);
        CHECK(tfm_model_load(&model, data, size, NULL, &err) != TFM_OK && !model &&
                  strstr(err.text, r->says),
              "%s", err.text);
    }
    for (i = 0; i < 5; i++) { /* heads of queries that those of keys do not divide */
        static const int64_t heads[] = {4, 4, 4, 2, 6}, rows_of_keys[] = {18, 9, 30, 18, 24};
        tiny t = tiny_default();
        st_writer w;
        char says[64];
        t.heads = heads[i], t.without = "bias";
        tiny_write(&w, t);
        for (k = 0; strcmp(w.entries[k].name, "decoder.layers.0.self_attn.k_proj.weight") != 0;)
            k++;
        w.entries[k].tensor = tfm_tensor_2d(zeros, TFM_DTYPE_F32, rows_of_keys[i], 20);
        w.entries[k].bytes = st_bytes(&w.entries[k].tensor);
        snprintf(says, sizeof says, "and %d of keys, which do not divide into %d heads",
                 (int)rows_of_keys[i], (int)heads[i]);
        data = tiny_bytes(&w, &size);
        CHECK_FAILS(tfm_model_load(&model, data, size, NULL, &err), TFM_E_TENSOR, says);
    }
    {
        tiny t = tiny_default();
        st_writer w;
        t.src = "";
        tiny_write(&w, t);
        data = tiny_bytes(&w, &size);
        CHECK_FAILS(tfm_model_load(&model, data, size, NULL, &err), TFM_E_TENSOR,
                    "src_vocabulary has 0 lines, its embedding 11 rows");
    }
    for (i = 0; i < 2; i++) { /* Two tensors agree on another value width. */
        static const char *const says[] = {"which do not divide into 2 heads",
                                           "is [20, 12], expected [20, 10]"};
        int64_t HW = i ? 12 : 9;
        tiny t = tiny_default();
        st_writer w;
        t.packed = 1, t.without = "in_proj_bias";
        tiny_write(&w, t);
        for (k = 0; k < w.n_entries; k++) {
            st_entry *e = &w.entries[k];
            if (strncmp(e->name, i ? "encoder.layers.1.self" : "encoder.layers.0.self", 21) != 0)
                continue;
            if (strstr(e->name, "in_proj"))
                e->tensor = tfm_tensor_2d(zeros, TFM_DTYPE_F32, 24 + HW, 20);
            if (strstr(e->name, "out_proj.w"))
                e->tensor = tfm_tensor_2d(zeros, TFM_DTYPE_F32, 20, HW);
            e->bytes = st_bytes(&e->tensor);
        }
        data = tiny_bytes(&w, &size);
        CHECK_FAILS(tfm_model_load(&model, data, size, NULL, &err), TFM_E_TENSOR, says[i]);
    }
    {
        st_writer w;
        tiny_write(&w, tiny_default());
        for (k = 0; strcmp(w.entries[k].name, "src_embedding.weight") != 0;) k++;
        w.entries[k].tensor = tfm_tensor_2d(zeros, TFM_DTYPE_F32, (int64_t)1 << 31, 0);
        w.entries[k].bytes = 0;
        data = tiny_bytes(&w, &size);
        CHECK_FAILS(tfm_model_load(&model, data, size, NULL, &err), TFM_E_TENSOR,
                    "'src_embedding.weight' is [2147483648, 0]: a size out of range");
    }
    {
        tiny t = tiny_default();
        st_writer w;
        t.config = ", \"positions\": \"learned\"", t.src_positions = 9, t.dtype = TFM_DTYPE_F16;
        tiny_write(&w, t);
        for (k = 0; strcmp(w.entries[k].name, "src_positions.weight") != 0;) k++;
        data = tiny_bytes(&w, &size);
        must(tfm_model_load(&model, data, size, NULL, &err));
        CHECK(model->source.positions.dtype == TFM_DTYPE_F32 && model->config.max_positions == 9 &&
                  fabsf(((float *)model->source.positions.data)[179]) < 2,
              "learned positions of F16");
        tfm_model_free(model), model = NULL;
    }
    {
        tiny t = tiny_default();
        st_writer w;
        t.d = 1, t.config = ", \"layer_norm\": \"deviation\"";
        tiny_write(&w, t);
        data = tiny_bytes(&w, &size);
        CHECK_FAILS(tfm_model_load(&model, data, size, NULL, &err), TFM_E_CONFIG,
                    "d_model must be at least 2");
    }
}

/* ---- text ---- */

/* Tests whitespace and the characters next to it in Unicode. */
static void spaces(void) {
    static const uint32_t white[] = {9,      10,     11,     12,     13,     32,
                                     0x85,   0xA0,   0x1680, 0x2000, 0x200A, 0x2028,
                                     0x2029, 0x202F, 0x205F, 0x3000};
    static const uint32_t others[] = {8,      14,     31,     33,     0x84,   0x86,   0x9F,
                                      0xA1,   0x167F, 0x1681, 0x1FFF, 0x200B, 0x2027, 0x202A,
                                      0x202E, 0x2030, 0x205E, 0x2060, 0x2FFF, 0x3001, 0x10FFFF};
    tfm_model *m = words_model(IDS);
    char text[8];
    int32_t ids[8], count = -1;
    size_t i, n;
    int good = 1;
    SECTION("whitespace");
    for (i = 0; i < sizeof white / sizeof *white + sizeof others / sizeof *others; i++) {
        int is_white = i < sizeof white / sizeof *white;
        text[0] = 'a';
        n = (size_t)(tfm__utf8_put(text + 1,
                                   is_white ? white[i] : others[i - sizeof white / sizeof *white]) -
                     text);
        text[n++] = 'b';
        must(tfm_model_tokenize(m, tfm_text_make(text, n), TFM_TEXT_FORM_TEXT, ids, 8, &count, NULL,
                                &err));
        good &= is_white ? count == 2 && ids[0] == 6 && ids[1] == 7 : count == 1 && ids[0] == 3;
    }
    CHECK(good, "exactly 16 characters separate words");
    tfm_model_free(m);
}

static void texts(void) {
    tfm_model *m = words_model(IDS), *bare = tiny_model(tiny_default()), *other;
    tfm_session *s = session_of(m, 1, 1);
    id_matrix src = tiny_batch(three, NULL, 1, 3);
    char room[256] = {0}, out[4096];
    tfm_decode_options o;
    tfm_arena arena = tfm_arena_make(room, sizeof room);
    int32_t ids[16] = {4, 5, 99, -1}, count = -1;
    size_t n = 0;
    tfm_text in = {"hello", 5}, translated, bad = {NULL, 3};
    SECTION("text");
    ARGUMENT(tfm_model_tokenize(NULL, tfm_text_make("a", 1), TFM_TEXT_FORM_TEXT, ids, 4, &count,
                                NULL, &err));
    ARGUMENT(tfm_model_tokenize(m, tfm_text_make(NULL, 1), TFM_TEXT_FORM_TEXT, ids, 4, &count, NULL,
                                &err));
    ARGUMENT(tfm_model_tokenize(m, tfm_text_make("a", 1), TFM_TEXT_FORM_TEXT, NULL, 4, &count, NULL,
                                &err));
    ARGUMENT(
        tfm_model_tokenize(m, tfm_text_make("a", 1), TFM_TEXT_FORM_TEXT, ids, 4, NULL, NULL, &err));
    ARGUMENT(tfm_model_tokenize_target(NULL, tfm_text_make("a", 1), TFM_TEXT_FORM_TEXT, ids, 4,
                                       &count, NULL, &err));
    ARGUMENT(tfm_model_tokenize_target(m, tfm_text_make(NULL, 1), TFM_TEXT_FORM_TEXT, ids, 4,
                                       &count, NULL, &err));
    ARGUMENT(tfm_model_tokenize_target(m, tfm_text_make("a", 1), TFM_TEXT_FORM_TEXT, NULL, 4,
                                       &count, NULL, &err));
    ARGUMENT(tfm_model_tokenize_target(m, tfm_text_make("a", 1), TFM_TEXT_FORM_TEXT, ids, 4, NULL,
                                       NULL, &err));
    ARGUMENT(tfm_model_detokenize(NULL, ids, 1, TFM_TEXT_FORM_TEXT, out, 8, &n, &err));
    ARGUMENT(tfm_model_detokenize(m, NULL, 1, TFM_TEXT_FORM_TEXT, out, 8, &n, &err));
    ARGUMENT(tfm_model_detokenize(m, ids, 1, TFM_TEXT_FORM_TEXT, NULL, 8, &n, &err));
    ARGUMENT(tfm_model_detokenize(m, ids, 1, TFM_TEXT_FORM_TEXT, out, 8, NULL, &err));
    CHECK_FAILS(tfm_model_detokenize(m, ids, 3, TFM_TEXT_FORM_TEXT, out, 8, &n, &err), TFM_E_TOKEN,
                "id 99");
    CHECK_FAILS(tfm_model_detokenize(m, ids + 3, 1, TFM_TEXT_FORM_TEXT, out, 8, &n, &err),
                TFM_E_TOKEN, "-1");
    CHECK_FAILS(tfm_model_tokenize(bare, tfm_text_make("a", 1), TFM_TEXT_FORM_TEXT, ids, 4, &count,
                                   NULL, &err),
                TFM_E_NO_TEXT, "");
    CHECK_FAILS(tfm_model_tokenize_target(bare, tfm_text_make("a", 1), TFM_TEXT_FORM_TEXT, ids, 4,
                                          &count, NULL, &err),
                TFM_E_NO_TEXT, "");
    CHECK_FAILS(tfm_model_detokenize(bare, ids, 1, TFM_TEXT_FORM_TEXT, out, 8, &n, &err),
                TFM_E_NO_TEXT, "");
    ARGUMENT(tfm_translate(s, NULL, out, sizeof out, &err));
    ARGUMENT(tfm_translate(NULL, "a", out, sizeof out, &err));
    ARGUMENT(tfm_translate(s, "a", NULL, sizeof out, &err));
    ARGUMENT(translate_texts(s, NULL, NULL, &translated, 1, NULL, out, sizeof out, &err));
    ARGUMENT(translate_texts(s, &in, NULL, NULL, 1, NULL, out, sizeof out, &err));
    ARGUMENT(translate_texts(s, &in, NULL, &translated, -1, NULL, out, sizeof out, &err));
    ARGUMENT(translate_texts(s, &bad, NULL, &translated, 1, NULL, out, sizeof out, &err));
    must(tfm_model_tokenize_target(m, tfm_text_make("hello b", 7), TFM_TEXT_FORM_TEXT, ids, 16,
                                   &count, &arena, &err));
    CHECK(count == 2 && ids[0] == 4 && ids[1] == 7,
          "words accept a scratch arena, but do not need one");
    must(tfm_model_tokenize(m, tfm_text_make(NULL, 0), TFM_TEXT_FORM_TEXT, NULL, 0, &count, NULL,
                            &err));
    CHECK(count == 0, "no text");
    must(tfm_model_tokenize_target(m, tfm_text_make(NULL, 0), TFM_TEXT_FORM_TEXT, NULL, 0, &count,
                                   NULL, &err));
    must(tfm_model_detokenize(m, NULL, 0, TFM_TEXT_FORM_TEXT, out, 1, &n, &err));
    CHECK(count == 0 && n == 0 && !*out, "no tokens");
    must(tfm_model_tokenize(m, tfm_text_make("a b", 3), TFM_TEXT_FORM_TEXT, NULL, 0, &count, NULL,
                            &err));
    must(tfm_model_tokenize_target(m, tfm_text_make("a", 1), TFM_TEXT_FORM_TEXT, NULL, 0, &ids[9],
                                   NULL, &err));
    CHECK(count == 2 && ids[9] == 1, "without ids it counts: %d, %d", (int)count, (int)ids[9]);
    count = 0;
    CHECK_FAILS(tfm_model_tokenize(m, tfm_text_make("a", 1), TFM_TEXT_FORM_TEXT, ids, 0, &count,
                                   NULL, &err),
                TFM_E_TOO_LONG, "1 tokens, there is room for 0");
    CHECK_FAILS(tfm_model_tokenize_target(m, tfm_text_make("a", 1), TFM_TEXT_FORM_TEXT, ids, 0,
                                          &count, NULL, &err),
                TFM_E_TOO_LONG, "1 tokens, there is room for 0");
    memset(&o, 0, sizeof o), o.beam = 9;
    CHECK_FAILS(translate_texts(s, &in, NULL, &translated, 1, &o, out, sizeof out, &err),
                TFM_E_TOO_LONG, "beam is 9");
    CHECK_FAILS(tfm_result_text(s, 0, 0, TFM_TEXT_FORM_TEXT, out, 8, &n, &err), TFM_E_STATE, "");
    must(decode_rows(s, &src, NULL, NULL, &err));
    ARGUMENT(tfm_result_text(s, 0, 0, TFM_TEXT_FORM_TEXT, NULL, 8, &n, &err));
    ARGUMENT(tfm_result_text(s, 0, 0, TFM_TEXT_FORM_TEXT, out, 8, NULL, &err));
    ARGUMENT(tfm_result_text(s, 0, 1, TFM_TEXT_FORM_TEXT, out, 8, &n, &err));
    must(tfm_result_text(s, 0, 0, TFM_TEXT_FORM_TOKENS, out, sizeof out, &n, &err));
    CHECK_FAILS(tfm_result_text(s, 0, 0, TFM_TEXT_FORM_TOKENS, out, n, &n, &err), TFM_E_TOO_SMALL,
                "the text takes");
    tfm_session_free(s), tfm_model_free(m);
    s = session_of(bare, 1, 1);
    must(decode_rows(s, &src, NULL, NULL, &err));
    CHECK_FAILS(tfm_result_text(s, 0, 0, TFM_TEXT_FORM_TEXT, out, 8, &n, &err), TFM_E_NO_TEXT, "");
    CHECK_FAILS(tfm_language_find(bare, "fra", ids, &err), TFM_E_TOKEN, "has no languages");
    tfm_session_free(s), tfm_model_free(bare);
    other = words_model(", \"start\": 1, \"end\": 2");
    CHECK_FAILS(tfm_model_tokenize_target(other, tfm_text_make("hello you", 9), TFM_TEXT_FORM_TEXT,
                                          ids, 16, &count, NULL, &err),
                TFM_E_TOKEN, "set tgt_unk");
    tfm_model_free(other);
    other = words_model(IDS ", \"tgt_text\": \"pieces\", \"tgt_pad\": 0");
    {
        tfm_arena small = tfm_arena_make(room, 64), measuring = tfm_arena_measuring();
        CHECK_FAILS(tfm_model_tokenize_target(other, tfm_text_make(room, 60), TFM_TEXT_FORM_TEXT,
                                              ids, 16, &count, &small, &err),
                    TFM_E_ARENA, "");
        must(tfm_model_tokenize_target(other, tfm_text_make(room, 60), TFM_TEXT_FORM_TEXT, ids, 16,
                                       &count, &measuring, &err));
        CHECK(measuring.peak > 240 && count == 0, "%d bytes of scratch", (int)measuring.peak);
        must(tfm_model_tokenize_target(other, tfm_text_make("a", 1), TFM_TEXT_FORM_TEXT, ids, 16,
                                       &count, &arena, &err));
        must(tfm_model_tokenize_target(other, tfm_text_make("a", 1), TFM_TEXT_FORM_TEXT, ids, 16,
                                       &ids[15], NULL, &err));
        CHECK(count > 0 && ids[15] == count, "without scratch the model's allocator gives it");
    }
    must(tfm_model_tokenize_target(other, tfm_text_make("<pad><s></s><unk>a", 18),
                                   TFM_TEXT_FORM_TEXT, ids, 16, &count, &arena, &err));
    CHECK(count >= 2 && ids[0] == 3 && ids[count - 1] == 6,
          "special tokens are not parsed in text");
    tfm_model_free(other);
}

static void languages(void) {
    static const char *const arrows[] = {">>",       ">>a",  ">>fra",    ">>fra<",
                                         ">>fra <<", ">x<<", ">> fra<<", "  \xe3\x80\x80>>fr",
                                         ">>f<a<"};
    static const char codes[] = IDS ", \"languages\": {\"fra\": 9, \"deu\": 10}";
    char config[256], out[256];
    tfm_model *m;
    tfm_session *s;
    int32_t ids[16], count = -1, i, id = -1;
    size_t n = 0;
    SECTION("languages");
    snprintf(config, sizeof config, "%s, \"src_language\": \"target\"", codes);
    m = words_model(config);
    s = session_of(m, 1, 1);
    ARGUMENT(tfm_language_find(NULL, "fra", &id, &err));
    ARGUMENT(tfm_language_find(m, NULL, &id, &err));
    ARGUMENT(tfm_language_find(m, "fra", NULL, &err));
    ARGUMENT(tfm_languages_set(NULL, "fra", "fra", &err));
    ARGUMENT(tfm_languages_set(s, "fra", NULL, &err));
    CHECK_FAILS(tfm_languages_set(s, "fr", "deu", &err), TFM_E_TOKEN, "'fr'; near it: fra");
    CHECK_FAILS(tfm_languages_set(s, "fra", "de", &err), TFM_E_TOKEN, "'de'; near it: deu");
    CHECK_FAILS(tfm_language_find(m, "0123456789012345678901234567890123456789", &id, &err),
                TFM_E_TOKEN, "'0123456789012345678901234567890'");
    CHECK_FAILS(tfm_translate(s, "hello", out, sizeof out, &err), TFM_E_STATE,
                "call tfm_languages_set first");
    must(tfm_translate(s, ">>deu<<hello", out, sizeof out, &err));
    must(tfm_translate(s, "  \t", out, sizeof out, &err));
    CHECK(!*out, "a blank text needs no language");
    must(tfm_model_tokenize(m, tfm_text_make(NULL, 0), TFM_TEXT_FORM_TEXT, NULL, 0, &count, NULL,
                            &err));
    CHECK(count == 0, "an empty batch of texts neither");
    for (i = 0; i < (int32_t)(sizeof arrows / sizeof *arrows); i++) {
        must(tfm_model_tokenize(m, tfm_text_make(arrows[i], strlen(arrows[i])), TFM_TEXT_FORM_TEXT,
                                ids, 16, &count, NULL, &err));
        CHECK(count >= 1 && ids[0] == 3, "'%s' is a text about arrows", arrows[i]);
    }
    CHECK_FAILS(tfm_model_tokenize(m, tfm_text_make(">><<a", 5), TFM_TEXT_FORM_TEXT, ids, 16,
                                   &count, NULL, &err),
                TFM_E_TOKEN, "no language ''");
    must(tfm_languages_set(s, NULL, "fra", &err));
    for (ids[0] = 9, ids[1] = 4, i = 0; i < 2; i++) {
        must(tfm_model_detokenize(m, ids, 2, i ? TFM_TEXT_FORM_TOKENS : TFM_TEXT_FORM_TEXT, out,
                                  sizeof out, &n, &err));
        CHECK(strcmp(out, i ? "d hello" : "hello") == 0, "'%s'", out);
    }
    tfm_session_free(s), tfm_model_free(m);
    snprintf(config, sizeof config, "%s, \"src_language\": \"source\"", codes);
    m = words_model(config), s = session_of(m, 1, 0);
    ARGUMENT(tfm_languages_set(s, NULL, "fra", &err));
    must(tfm_languages_set(s, "fra", NULL, &err));
    must(tfm_translate(s, "hello", out, sizeof out, &err));
    tfm_session_free(s), tfm_model_free(m);
    snprintf(config, sizeof config, "%s, \"tgt_language\": \"forced\"", codes);
    m = words_model(config), s = session_of(m, 1, 0);
    ARGUMENT(tfm_languages_set(s, "fra", NULL, &err));
    CHECK_FAILS(tfm_translate(s, "hello", out, sizeof out, &err), TFM_E_STATE, "");
    must(tfm_translate(s, " ", out, sizeof out, &err));
    must(tfm_languages_set(s, NULL, "deu", &err));
    must(tfm_translate(s, "hello", out, sizeof out, &err));
    tfm_session_free(s), tfm_model_free(m);
}

/* Options structs whose size belongs to another version of the header. */
static void sizes(void) {
#define TFM_X(type) #type,
    static const char *const names[] = {TFM_STRUCT_TABLE(TFM_X)};
#undef TFM_X
#define TFM_X(type) sizeof(type),
    static const size_t here[] = {TFM_STRUCT_TABLE(TFM_X)};
#undef TFM_X
    enum { N = sizeof here / sizeof *here };
    size_t s[N + 1];
    int i;
    SECTION("sizes of structs");
    CHECK(tfm_sizes_check(here, N, &err) == TFM_OK, "%s", err.text);
    CHECK_FAILS(tfm_sizes_check(NULL, N, &err), TFM_E_ARGUMENT, "sizes is NULL");
    for (i = 0; i < N; i++) {
        memcpy(s, here, sizeof here);
        s[i] += 8;
        CHECK_FAILS(tfm_sizes_check(s, N, &err), TFM_E_ARGUMENT, names[i]);
        CHECK(tfm_sizes_check(s, N, NULL) == TFM_E_ARGUMENT, "no err");
    }
    memcpy(s, here, sizeof here);
    s[N] = 8;
    CHECK_FAILS(tfm_sizes_check(s, N + 1, &err), TFM_E_ARGUMENT, "structs here and");
    CHECK_FAILS(tfm_sizes_check(s, N - 1, &err), TFM_E_ARGUMENT, "structs here and");
}

int main(void) {
    sizes();
    layouts();
    sessions();
    workers();
    decoding();
    ties();
    without_ids();
    numbers();
    tensors();
    files();
    integers();
    defaults();
    each_option();
    words();
    weights();
    spaces();
    texts();
    languages();
    return test_done("test_arguments");
}
