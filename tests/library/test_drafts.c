/* Drafts. A decode with a draft must give the bits of the decode without one: ids, scores, logits,
   attention, of every model, draft, batch and option. A draft that is right must save steps. */
#include "decodes.h"

enum { MOST = 40 }; /* tokens of a draft: more than a target can have */

static outcome without, with;

static struct {
    int32_t ids[(int)ROWS * MOST], lengths[ROWS];
    id_matrix batch;
} draft;

/* ---- drafts of all kinds ---- */

/* Makes a draft from n ids: the same, with edits, garbage, or nothing. Returns its length. */
static int32_t draw_draft(const int32_t *ids, int32_t n, int32_t kind, int32_t *to) {
    int32_t i, m = 0, edits;
    if (kind == 0) return 0;
    if (kind == 1) { /* garbage, often longer than the limit, with end tokens and pads */
        for (m = 0; m < 1 + below(MOST); m++) to[m] = below(V);
        return m;
    }
    memcpy(to, ids, (size_t)n * sizeof *to);
    m = n;
    for (edits = kind == 2 ? 0 : 1 + below(3); edits > 0 && m > 0; edits--) {
        int32_t place = below(m), how = below(4);
        if (how == 0) to[place] = below(V); /* substitutes */
        if (how == 1) memmove(to + place, to + place + 1, (size_t)(--m - place) * sizeof *to);
        if (how == 2 && m < MOST) { /* inserts */
            memmove(to + place + 1, to + place, (size_t)(m++ - place) * sizeof *to);
            to[place] = below(V);
        }
        if (how == 3) to[place] = END;
    }
    for (i = kind == 4 ? below(4) : 0; i > 0 && m < MOST; i--) to[m++] = below(V);
    return m;
}

/* Draws a draft for each row from the results of a session. */
static void draw_drafts(tfm_session *s, int32_t rows) {
    int32_t b;
    for (b = 0; b < rows; b++) {
        tfm_result r;
        must(tfm_result_get(s, b, 0, &r, &err));
        draft.lengths[b] = draw_draft(r.ids, r.length, below(5), draft.ids + b * MOST);
    }
    draft.batch = tiny_batch(draft.ids, draft.lengths, rows, MOST);
}

/* Options that a draft goes with: those of greedy decoding, with shortlists. */
static tfm_decode_options draw_greedy(void) {
    static const int32_t list[] = {END, 4, 7, 8, 11, 3};
    tfm_decode_options o = draw_options();
    int32_t kind = below(4);
    o.beam = o.n_best = o.samples = o.top_k = o.alternatives = 0;
    if (below(2)) o.max_length = 0;
    if (below(2)) at.with.prompt = &at.prompt;
    if (kind == 0)
        o.shortlist = list, o.n_shortlist = 6, at.with.prefix = NULL, at.with.first = NULL;
    if (kind == 1) o.lexical_shortlist = 1;
    return o;
}

/* ---- the same bits ---- */

/* Adds attention and alignment of a row to what was collected. */
static void collect_attention(tfm_session *s, int32_t row, int32_t source, outcome *to) {
    static float weights[TARGET * SOURCE];
    int32_t sources[TARGET + 1];
    tfm_result r;
    tfm_tensor out;
    must(tfm_result_get(s, row, 0, &r, &err));
    out = tfm_tensor_2d(weights, TFM_DTYPE_F32, r.length, source);
    must(tfm_result_attention(s, row, 0, &out, &err));
    must(tfm_result_alignment(s, row, 0, sources, &err));
    put(to, weights, (size_t)(r.length * source) * sizeof *weights);
    put(to, sources, (size_t)r.length * sizeof *sources);
}

/* Collects a row's result, and the logits of its last step. */
static void collect_all(tfm_session *s, int32_t row, int attention, int last_step, outcome *to) {
    const float *logits = tfm_result_logits(s, row, 0);
    collect(s, row, 0, 1, to);
    if (last_step) put(to, logits, V * sizeof *logits);
    if (attention) collect_attention(s, row, at.lengths[row], to);
}

/* Compares decodes with and without a draft, as a batch and each row alone. Returns how many rows
   differ. */
static int drafts_differ(tfm_session *s, int attention) {
    tfm_decode_options o = draw_greedy();
    by_row own;
    int32_t rows = at.src.rows, b;
    int wrong = 0;
    for (b = 0; b < rows; b++) {
        id_matrix src, one;
        own = alone(b, &src);
        own.draft = NULL;
        must(decode_rows(s, &src, &own, &o, &err));
        if (b == 0) must(decode_rows(s, &at.src, &at.with, &o, &err)), draw_drafts(s, rows);
        must(decode_rows(s, &src, &own, &o, &err));
        collect_all(s, 0, 0, 1, &without);
        one = tiny_batch(draft.ids + b * MOST, draft.lengths + b, 1, MOST);
        own.draft = &one;
        must(decode_rows(s, &src, &own, &o, &err));
        collect_all(s, 0, 0, 1, &with);
        wrong += !same(&without, &with);
    }
    for (b = 0; b < rows; b++) {
        at.with.draft = NULL;
        must(decode_rows(s, &at.src, &at.with, &o, &err));
        collect_all(s, b, attention, 0, &without);
        at.with.draft = &draft.batch;
        must(decode_rows(s, &at.src, &at.with, &o, &err));
        collect_all(s, b, attention, 0, &with);
        wrong += !same(&without, &with);
    }
    return wrong;
}

/* Counts the steps of a decode. Each step's result must begin with that of the step before. */
static int32_t count_steps(tfm_session *s, const id_matrix *src, const by_row *given, int *wrong) {
    int32_t running = 1, n = 0, before[TARGET], length = 0;
    tfm_result r;
    must(start_rows(s, src, given, NULL, &err));
    while (running) {
        must(tfm_session_step(s, &running, &err));
        must(tfm_result_get(s, 0, 0, &r, &err));
        *wrong += r.length < length || memcmp(before, r.ids, (size_t)length * sizeof *before) != 0;
        memcpy(before, r.ids, (size_t)r.length * sizeof *before);
        length = r.length, n++;
    }
    return n;
}

static void test_bits(void) {
    static const tfm_weight_type types[TYPES] = {TFM_WEIGHT_TYPE_F32, TFM_WEIGHT_TYPE_I8,
                                                 TFM_WEIGHT_TYPE_BF16};
    static const int32_t most[] = {1, 3, 8, MOST};
    int kind, type, f16, k, i, differ = 0, backwards = 0;
    int32_t steps[4] = {0, 0, 0, 0};
    SECTION("drafts: the same bits");
    for (kind = 0; kind < KINDS; kind++)
        for (type = 0; type < TYPES; type++)
            for (f16 = 0; f16 < 2; f16++) {
                tfm_model *model;
                tfm_session *sessions[4];
                if (!test_in_slice("bits", (kind * TYPES + type) * 2 + f16)) continue;
                model = model_of(kind, types[type]);
                for (i = 0; i < 4; i++)
                    sessions[i] = session_of(model, i == 1, 1 + (i == 2), f16, most[i]);
                seed = (unsigned)(1000 * kind + 10 * type + f16 + 1);
                for (k = 0; k < 24; k++) {
                    by_row own;
                    draw_batch(1 + below(ROWS));
                    differ += drafts_differ(sessions[k % 4], k % 4 == 1);
                    memset(&own, 0, sizeof own);
                    draw_batch(1);
                    steps[0] += count_steps(sessions[2], &at.src, &own, &backwards);
                    for (i = 1; i < 4; i++) { /* right, one token changed, garbage */
                        tfm_result r;
                        own.draft = NULL;
                        must(decode_rows(sessions[2], &at.src, &own, NULL, &err));
                        must(tfm_result_get(sessions[2], 0, 0, &r, &err));
                        *draft.lengths = draw_draft(r.ids, r.length, i == 3 ? 1 : 2, draft.ids);
                        if (i == 2) draft.ids[r.length / 2] = below(V);
                        draft.batch = tiny_batch(draft.ids, draft.lengths, 1, MOST);
                        own.draft = &draft.batch;
                        steps[i] += count_steps(sessions[2], &at.src, &own, &backwards);
                    }
                }
                for (i = 0; i < 4; i++) tfm_session_free(sessions[i]);
                tfm_model_free(model);
            }
    CHECK(differ == 0, "  %d rows differ with a draft", differ);
    CHECK(backwards == 0, "  %d times a step takes tokens back", backwards);
    if (!steps[0]) return; /* TEST_LIST: no case ran */
    CHECK(3 * steps[1] < steps[0], "  %d steps without, %d with the right draft", steps[0],
          steps[1]);
    CHECK(10 * steps[2] < 6 * steps[0], "  %d with one token changed", steps[2]);
    CHECK(steps[3] <= steps[0], "  %d with garbage", steps[3]);
}

/* ---- limits ---- */

static void test_limits(void) {
    static const int32_t source[] = {4, 5, 6, 4, 5, 6}, beyond[] = {1, 3, V, 4};
    id_matrix src = tiny_batch(source, NULL, 2, 3);
    tfm_model *model = model_of(0, TFM_WEIGHT_TYPE_F32);
    tfm_session *s = session_of(model, 0, 1, 0, 8), *no_drafts = session_of(model, 0, 1, 0, 0);
    tfm_session_options limits;
    tfm_decode_options o;
    by_row given;
    size_t bytes[2];
    SECTION("drafts: limits");
    memset(&o, 0, sizeof o), memset(&given, 0, sizeof given);
    given.draft = &draft.batch;
    draft.batch = tiny_batch(source, NULL, 2, 3);
    CHECK_FAILS(start_rows(no_drafts, &src, &given, &o, &err), TFM_E_ARGUMENT,
                "draft: the session's max_draft is 0");
    o.beam = 2;
    CHECK_FAILS(start_rows(s, &src, &given, &o, &err), TFM_E_ARGUMENT,
                "draft: only greedy decoding can verify it, and beam is above 1");
    o.beam = 1, o.samples = 2;
    CHECK_FAILS(start_rows(s, &src, &given, &o, &err), TFM_E_ARGUMENT,
                "can verify it, not samples");
    o.samples = 0, o.alternatives = 2;
    CHECK_FAILS(start_rows(s, &src, &given, &o, &err), TFM_E_ARGUMENT,
                "can verify it, not alternatives");
    o.alternatives = 0;
    draft.batch = tiny_batch(beyond, NULL, 2, 2);
    CHECK_FAILS(start_rows(s, &src, &given, &o, &err), TFM_E_TOKEN,
                "request 1: draft: position 0: id 13, the vocabulary has 13 tokens");
    draft.batch = tiny_batch(NULL, NULL, 2, 2);
    CHECK_FAILS(start_rows(s, &src, &given, &o, &err), TFM_E_ARGUMENT,
                "draft: 2 ids, but it is NULL");
    draft.batch = tiny_batch(NULL, NULL, 2, 0);
    CHECK(decode_rows(s, &src, &given, &o, &err) == TFM_OK, "a draft without tokens");
    memset(&limits, 0, sizeof limits);
    must(tfm_session_bytes(model, &limits, &bytes[0], &err));
    limits.max_draft = 8;
    must(tfm_session_bytes(model, &limits, &bytes[1], &err));
    CHECK(bytes[1] > bytes[0], "  room for drafts: %d bytes", (int)(bytes[1] - bytes[0]));
    limits.max_draft = -1;
    CHECK_FAILS(tfm_session_bytes(model, &limits, bytes, &err), TFM_E_ARGUMENT, "max_draft -1");
    limits.max_draft = INT32_MAX;
    CHECK_FAILS(tfm_session_bytes(model, &limits, bytes, &err), TFM_E_ARGUMENT,
                "max_draft 2147483647: a limit is out of range");
    limits.max_draft = 1 << 20, limits.max_batch = 1 << 12;
    CHECK_FAILS(tfm_session_bytes(model, &limits, bytes, &err), TFM_E_ARGUMENT, "out of range");
    tfm_session_free(s), tfm_session_free(no_drafts);
    tfm_model_free(model);
}

int main(void) {
    test_bits();
    test_limits();
    return test_done("test_drafts");
}
