/* Prompts and edited logits. The library runs prompts and forced tokens in one pass; a session that
   keeps attention runs forced tokens step by step, so the two must have the same bits. Plain code
   in this file says what edited logits must give. */
#include "decodes.h"

/* ---- one pass and steps ---- */

static outcome one, other;

/* Compares a batch with prompts, in sessions with and without threads and attention, with its rows
   alone. Returns how many comparisons differ. */
static int batches_differ(tfm_session *const *sessions, int n) {
    tfm_decode_options o = draw_options();
    int32_t rows = at.src.rows, b;
    int wrong = 0, i;
    if (below(4)) at.with.prompt = &at.prompt;
    for (i = 0; i < n; i++) must(decode_rows(sessions[i], &at.src, &at.with, &o, &err));
    for (b = 0; b < rows; b++) {
        id_matrix src;
        by_row own = alone(b, &src);
        collect(sessions[0], b, 0, 1, &one);
        for (i = 1; i < n; i++) collect(sessions[i], b, 0, 1, &other), wrong += !same(&one, &other);
        must(decode_rows(sessions[n - 1], &src, &own, &o, &err));
        collect(sessions[n - 1], 0, 0, 1, &other);
        wrong += !same(&one, &other);
        must(decode_rows(sessions[n - 1], &at.src, &at.with, &o, &err));
    }
    return wrong;
}

/* Compares a prompt that begins with the start token with the same ids as a prefix, through which
   the other session steps. */
static int prefix_differs(tfm_session *pass, tfm_session *steps) {
    tfm_decode_options o;
    by_row with_prompt, with_prefix;
    id_matrix src, prefix, prompt;
    int32_t n = at.prompt_lengths[0];
    memset(&o, 0, sizeof o), memset(&with_prompt, 0, sizeof with_prompt);
    memset(&with_prefix, 0, sizeof with_prefix);
    o.beam = 1 + below(BEAM), o.n_best = o.beam, o.max_length = 1 + below(TARGET - LONGEST);
    src = tiny_batch(at.ids, at.lengths, 1, SOURCE);
    at.prompt_ids[0] = START;
    prompt = tiny_batch(at.prompt_ids, &n, 1, LONGEST);
    prefix = tiny_batch(at.prompt_ids + 1, NULL, 1, n - 1);
    with_prompt.prompt = &prompt, with_prefix.prefix = &prefix;
    must(decode_rows(pass, &src, &with_prompt, &o, &err));
    o.max_length += n - 1;
    must(decode_rows(steps, &src, &with_prefix, &o, &err));
    collect(pass, 0, 0, 0, &one), collect(steps, 0, n - 1, 0, &other);
    return !same(&one, &other);
}

/* Compares the logits of each step with those of tfm_session_forward for the prompt and the tokens
   so far. */
static int forward_differs(tfm_session *s, tfm_session *teacher) {
    static float logits[TARGET * V];
    int32_t ids[TARGET], n = at.prompt_lengths[0], length, running = 1;
    id_matrix src = tiny_batch(at.ids, at.lengths, 1, SOURCE), prompt, tgt;
    by_row with;
    tfm_result r;
    int wrong = 0;
    memset(&with, 0, sizeof with);
    prompt = tiny_batch(at.prompt_ids, &n, 1, LONGEST);
    with.prompt = &prompt;
    must(start_rows(s, &src, &with, NULL, &err));
    memcpy(ids, at.prompt_ids, (size_t)n * sizeof *ids);
    for (length = n; running && length < TARGET; length++) {
        tfm_tensor out = tfm_tensor_3d(logits, TFM_DTYPE_F32, 1, length, V);
        must(tfm_session_step(s, &running, &err));
        tgt = tiny_batch(ids, NULL, 1, length);
        must(forward_rows(teacher, &src, &tgt, NULL, &out, &err));
        wrong +=
            memcmp(tfm_result_logits(s, 0, 0), logits + (length - 1) * V, V * sizeof *logits) != 0;
        must(tfm_result_get(s, 0, 0, &r, &err));
        if (r.length) ids[length] = r.ids[r.length - 1];
    }
    return wrong;
}

/* Compares both rules of repetition, which differ only in the start token: a prompt replaces it. */
static int rules_differ(tfm_session *s) {
    id_matrix src = tiny_batch(at.ids, at.lengths, 1, SOURCE), prompt;
    tfm_decode_options o;
    by_row with;
    memset(&o, 0, sizeof o), memset(&with, 0, sizeof with);
    prompt = tiny_batch(at.prompt_ids, at.prompt_lengths, 1, LONGEST);
    with.prompt = &prompt, o.no_repeat_ngram = 1, o.repetition_penalty = 1.5;
    must(decode_rows(s, &src, &with, &o, &err));
    collect(s, 0, 0, 1, &one);
    o.repetition = TFM_REPETITION_HUGGING_FACE;
    must(decode_rows(s, &src, &with, &o, &err));
    collect(s, 0, 0, 1, &other);
    return !same(&one, &other);
}

static void test_one_pass(void) {
    static const tfm_weight_type types[TYPES] = {TFM_WEIGHT_TYPE_F32, TFM_WEIGHT_TYPE_I8,
                                                 TFM_WEIGHT_TYPE_BF16};
    int kind, type, f16, k, i, batches = 0, prefixes = 0, forwards = 0, rules = 0;
    SECTION("prompts and forced tokens in one pass");
    for (kind = 0; kind < KINDS; kind++)
        for (type = 0; type < TYPES; type++)
            for (f16 = 0; f16 < 2; f16++) {
                tfm_model *model = model_of(kind, types[type]);
                tfm_session *sessions[4];
                for (i = 0; i < 4; i++)
                    sessions[i] = session_of(model, i == 1, 1 + (i == 2), f16, 0);
                seed = (unsigned)(1000 * kind + 10 * type + f16 + 1);
                for (k = 0; k < 12; k++) {
                    draw_batch(1 + below(ROWS));
                    batches += batches_differ(sessions, 3);
                    if (kind < 7 && type < 2) prefixes += prefix_differs(sessions[0], sessions[1]);
                    forwards += forward_differs(sessions[0], sessions[3]);
                    rules += rules_differ(sessions[0]);
                }
                for (i = 0; i < 4; i++) tfm_session_free(sessions[i]);
                tfm_model_free(model);
            }
    CHECK(batches == 0, "  %d rows differ in a batch, alone, with threads or step by step",
          batches);
    CHECK(prefixes == 0, "  %d prompts differ from prefixes step by step", prefixes);
    CHECK(forwards == 0, "  %d steps have other logits than tfm_session_forward", forwards);
    CHECK(rules == 0, "  %d times a rule counts the start token, which the prompt replaces", rules);
}

/* ---- edited logits ---- */

static struct {
    int32_t calls, rows, bad;
    const int32_t *list; /* with n_list: the only ids that are allowed */
    int32_t n_list;
    float outside; /* what the callback writes to other ids */
} seen;

static void edit_by_list(void *user, int32_t row, const int32_t *ids, int32_t n, float *logits) {
    int32_t i, k;
    seen.calls++;
    seen.bad += user != (void *)&seen || row < 0 || row >= seen.rows || n < 0 || n >= TARGET;
    for (i = 0; i < n; i++) seen.bad += ids[i] < 0 || ids[i] >= V;
    for (i = 0; i < V && seen.n_list; i++) {
        for (k = 0; k < seen.n_list && seen.list[k] != i;) k++;
        if (k == seen.n_list) logits[i] = seen.outside;
    }
}

/* Counts the logits that are not -INFINITY, and then forbids none. */
static void edit_count(void *user, int32_t row, const int32_t *ids, int32_t n, float *logits) {
    int32_t i, *count = (int32_t *)user;
    (void)row, (void)ids, (void)n;
    for (i = 0, *count = 0; i < V; i++) {
        *count += logits[i] > -INFINITY;
        if (!(logits[i] > -INFINITY)) logits[i] = 1000;
    }
}

static void edit_all(void *user, int32_t row, const int32_t *ids, int32_t n, float *logits) {
    int32_t i;
    (void)row, (void)ids, (void)n;
    for (i = 0; i < V; i++) logits[i] = *(const float *)user;
}

/* Decodes greedily by teacher-forced passes, with logits that edit_some changed. */
static double plain_greedy(tfm_session *s, const id_matrix *src, int32_t most, int32_t *ids,
                           int32_t *n) {
    static float logits[TARGET * V];
    double sum = 0;
    *n = 0;
    ids[0] = START;
    for (;;) {
        id_matrix tgt = tiny_batch(ids, NULL, 1, *n + 1);
        tfm_tensor out = tfm_tensor_3d(logits, TFM_DTYPE_F32, 1, *n + 1, V);
        float *row = logits + *n * V;
        double total = 0;
        int32_t i, best = 0;
        must(forward_rows(s, src, &tgt, NULL, &out, &err));
        edit_some(NULL, 0, ids + 1, *n, row);
        for (i = 1; i < V; i++)
            if (row[i] > row[best]) best = i;
        for (i = 0; i < V; i++) total += exp((double)row[i]);
        sum += (double)row[best] - log(total);
        if (best == END) return sum;
        ids[++*n] = best;
        if (*n == most) return sum;
    }
}

static void test_edits(void) {
    static const int32_t list[] = {END, 4, 7, 8, 11};
    static const float worst[] = {-INFINITY, NAN, INFINITY};
    tfm_model *model = model_of(0, TFM_WEIGHT_TYPE_F32);
    tfm_session *s = session_of(model, 0, 1, 0, 0), *t = session_of(model, 1, 1, 0, 0);
    int32_t ids[TARGET + 1], n, b, count = 0;
    int k, wrong[6] = {0, 0, 0, 0, 0, 0};
    double most = 0;
    SECTION("edited logits");
    seed = 9, seen.list = list, seen.outside = -INFINITY;
    for (k = 0; k < 100; k++) {
        tfm_decode_options o, with;
        draw_batch(1 + below(ROWS));
        with = o = draw_options();
        with.edit_logits = edit_by_list, with.edit_user = &seen, o.edit_logits = NULL;
        seen.n_list = 0, seen.rows = at.src.rows;
        if (k % 2)
            o.shortlist = list, o.n_shortlist = 5, at.with.prefix = NULL, at.with.first = NULL;
        if (k % 2) with = o, with.edit_logits = edit_by_list, with.edit_user = &seen;
        must(decode_rows(s, &at.src, &at.with, &o, &err));
        must(decode_rows(t, &at.src, &at.with, &with, &err));
        for (b = 0; b < at.src.rows; b++) {
            collect(s, b, 0, 1, &one), collect(t, b, 0, 1, &other);
            wrong[0] += !same(&one, &other);
        }
        if (!(k % 2)) continue;
        with.shortlist = NULL, with.n_shortlist = 0, seen.n_list = 5;
        must(decode_rows(t, &at.src, &at.with, &with, &err));
        for (b = 0; b < at.src.rows; b++) {
            tfm_result x, y;
            must(tfm_result_get(s, b, 0, &x, &err)), must(tfm_result_get(t, b, 0, &y, &err));
            wrong[1] += x.length != y.length || x.finish != y.finish ||
                        memcmp(x.ids, y.ids, (size_t)x.length * sizeof *x.ids) != 0;
            most = test_max(most, fabs(x.log_probability - y.log_probability));
        }
        with = o, with.edit_logits = edit_count, with.edit_user = &count;
        must(decode_rows(t, &at.src, &at.with, &with, &err));
        for (b = 0; b < at.src.rows; b++) {
            collect(s, b, 0, 1, &one), collect(t, b, 0, 1, &other);
            wrong[2] += !same(&one, &other) || count != 5;
        }
    }
    CHECK(seen.calls > 500 && seen.bad == 0, "  %d calls, %d with wrong arguments", seen.calls,
          seen.bad);
    CHECK(wrong[0] == 0, "  an edit of nothing changes %d results", wrong[0]);
    CHECK(wrong[1] == 0 && most < 1e-5, "  forbidding others: %d unlike the shortlist, %.1e off",
          wrong[1], most);
    CHECK(wrong[2] == 0, "  outside the shortlist nothing can be allowed: %d differ", wrong[2]);
    for (k = 0, most = 0; k < 20; k++) {
        tfm_decode_options o;
        tfm_result r;
        double sum;
        draw_batch(1);
        memset(&o, 0, sizeof o);
        o.max_length = 8, o.edit_logits = edit_some;
        must(decode_rows(s, &at.src, NULL, &o, &err));
        must(tfm_result_get(s, 0, 0, &r, &err));
        sum = plain_greedy(t, &at.src, 8, ids, &n);
        wrong[3] += n != r.length || memcmp(ids + 1, r.ids, (size_t)n * sizeof *ids) != 0;
        most = test_max(most, fabs(sum - r.log_probability));
    }
    CHECK(wrong[3] == 0 && most < 1e-5, "  greedy with edits: %d differ, %.1e off", wrong[3], most);
    for (k = 0; k < 3; k++) {
        tfm_decode_options o;
        tfm_result r;
        memset(&o, 0, sizeof o);
        o.edit_logits = edit_all, o.edit_user = (void *)&worst[k], o.samples = k == 1;
        must(decode_rows(s, &at.src, NULL, &o, &err));
        must(tfm_result_get(s, 0, 0, &r, &err));
        wrong[4] += r.finish != TFM_FINISH_STUCK || r.length != 0;
    }
    CHECK(wrong[4] == 0, "  nothing is allowed, or logits are no numbers: stuck");
    for (k = 0; k < 2; k++) { /* a favoured prefix that is forbidden is not taken */
        id_matrix prefix = tiny_batch(list + 1, NULL, 1, 1), src;
        tfm_decode_options o;
        by_row own;
        tfm_result r;
        memset(&o, 0, sizeof o), memset(&own, 0, sizeof own);
        src = tiny_batch(at.ids, at.lengths, 1, SOURCE);
        seen.list = list + 2, seen.n_list = 3, seen.rows = 1;
        o.edit_logits = edit_by_list, o.edit_user = &seen;
        own.prefix = &prefix, o.prefix_bias = 0.99, o.beam = 1 + k, o.max_length = 3;
        must(decode_rows(s, &src, &own, &o, &err));
        must(tfm_result_get(s, 0, 0, &r, &err));
        wrong[5] += r.length < 1 || r.ids[0] == list[1];
    }
    CHECK(wrong[5] == 0, "  a favoured prefix that is forbidden is not taken");
    tfm_session_free(s), tfm_session_free(t);
    tfm_model_free(model);
}

/* ---- limits ---- */

static void test_limits(void) {
    static const int32_t source[] = {4, 5, 6, 4, 5, 6}, beyond[] = {1, V, 1, V, 1, 2};
    static const int32_t none[] = {1, 0}, longer[2 * (TARGET + 1)] = {0}, shorter[] = {TARGET, 1};
    id_matrix src = tiny_batch(source, NULL, 2, 3), prompt, prefix;
    tfm_model *model = model_of(1, TFM_WEIGHT_TYPE_F32);
    tfm_session *s = session_of(model, 0, 1, 0, 0);
    tfm_decode_options o;
    by_row with;
    tfm_result r[2];
    SECTION("prompts: limits");
    memset(&o, 0, sizeof o), memset(&with, 0, sizeof with);
    with.prompt = &prompt;
    prompt = tiny_batch(beyond, NULL, 2, 2);
    CHECK_FAILS(start_rows(s, &src, &with, &o, &err), TFM_E_TOKEN,
                "request 0: prompt: position 1: id 13, the vocabulary has 13 tokens");
    prompt = tiny_batch(source, none, 2, 2);
    CHECK_FAILS(start_rows(s, &src, &with, &o, &err), TFM_E_ARGUMENT,
                "request 1: prompt has no ids");
    prompt = tiny_batch(NULL, NULL, 2, 2);
    CHECK_FAILS(start_rows(s, &src, &with, &o, &err), TFM_E_ARGUMENT,
                "prompt: 2 ids, but it is NULL");
    prompt = tiny_batch(source, NULL, 2, -1);
    CHECK_FAILS(start_rows(s, &src, &with, &o, &err), TFM_E_ARGUMENT, "request 0: prompt: -1 ids");
    prompt = tiny_batch(longer, NULL, 2, TARGET + 1);
    CHECK_FAILS(start_rows(s, &src, &with, &o, &err), TFM_E_TOO_LONG,
                "request 0: prompt has 15 tokens, the session's max_target is 14");
    prompt = tiny_batch(longer, shorter, 2, TARGET), with.prefix = &prefix;
    prefix = tiny_batch(source, NULL, 2, 1);
    CHECK_FAILS(start_rows(s, &src, &with, &o, &err), TFM_E_TOO_LONG,
                "request 0: 1 tokens are forced, but max_target leaves room for 1");
    with.prefix = NULL, o.max_length = 5, o.min_length = 4;
    CHECK(decode_rows(s, &src, &with, &o, &err) == TFM_OK &&
              tfm_result_get(s, 0, 0, &r[0], &err) == TFM_OK &&
              tfm_result_get(s, 1, 0, &r[1], &err) == TFM_OK && r[0].length == 1 &&
              r[0].finish == TFM_FINISH_HIT_LENGTH && r[1].length >= 4,
          "a prompt of max_target tokens leaves room for one token");
    tfm_session_free(s);
    tfm_model_free(model);
}

int main(void) {
    test_one_pass();
    test_edits();
    test_limits();
    return test_done("test_prompts");
}
