/* Decodes of small random models of all kinds of decoder, with random options, and everything that
   they give as bytes. A test compares decodes that must not differ in a bit. */
#ifndef DECODES_H
#define DECODES_H

#include "transformer.h"
#include "tiny.h"

enum {
    V = 13,
    SOURCE = 6,
    TARGET = 14,
    ROWS = 4,
    BEAM = 3,
    START = 1,
    END = 2,
    PAD = 5,
    LONGEST = 8
};

/* ---- models of all kinds of decoder ---- */

static const char *const configs[] = {
    "\"norm\": \"post\"",
    "\"norm\": \"pre\", \"positions\": \"learned\", \"embedding_scale\": \"sqrt_d\"",
    "\"norm\": \"pre\", \"layer_norm\": \"rms\", \"positions\": \"none\", \"relative_buckets\": 9",
    "\"norm\": \"pre\", \"layer_norm\": \"rms\", \"positions\": \"none\"",
    "\"positions\": \"sinusoidal_halves\"",
    "\"positions\": \"sinusoidal_per_index\", \"norm\": \"pre\"",
    "\"position_offset\": 2, \"pad_position\": \"zero\", \"tgt_pad\": 5, \"suppressed\": [5]",
    "\"start_embedding\": \"zero\"",
    TINY_GEMMA_1,
    TINY_GEMMA_2,
};
enum { KINDS = sizeof configs / sizeof *configs, TYPES = 3 };

static tfm_model *model_of(int kind, tfm_weight_type type) {
    static char config[300];
    static uint32_t offsets[V + 1], candidates[2 * V]; /* a lexicon: two for each source token */
    tfm_model_options o;
    uint32_t i;
    st_writer w;
    tiny t = tiny_default();
    memset(&o, 0, sizeof o);
    o.weights = type;
    snprintf(config, sizeof config, ", \"start\": %d, \"end\": %d, %s", (int)START, (int)END,
             configs[kind]);
    t.config = config, t.vs = t.vt = V, t.seed = 40 + (unsigned)kind;
    t.src_positions = kind == 1 ? SOURCE : 0, t.tgt_positions = kind == 1 ? TARGET : 0;
    t.more_norms = kind % 2;
    t.t5 = kind == 2 ? 1 : kind == 3 ? 2 : 0;
    t.ssru = kind == 4 ? 3 : kind == 5 ? 1 : 0;
    if (kind == 6) t.decoder = 1;
    if (kind >= 8) tiny_like_gemma(&t, kind - 7);
    tiny_write(&w, t);
    tiny_raise(&w, END, 0.5f);
    for (i = 0; i < V; i++) {
        offsets[i + 1] = 2 * (i + 1);
        candidates[2 * i] = i / 2, candidates[2 * i + 1] = V / 2 + i / 2;
    }
    st_add(&w, "shortlist.offsets", tfm_tensor_1d(offsets, TFM_DTYPE_U32, V + 1));
    st_add(&w, "shortlist.ids", tfm_tensor_1d(candidates, TFM_DTYPE_U32, 2 * V));
    return tiny_load(&w, &o);
}

/* Sessions of one model that differ in what must not change a bit. */
static tfm_session *session_of(const tfm_model *model, int attention, int threads, int f16,
                               int32_t max_draft) {
    tfm_session_options o;
    tfm_session *s = NULL;
    size_t bytes;
    memset(&o, 0, sizeof o);
    o.max_batch = ROWS, o.max_source = SOURCE, o.max_target = TARGET, o.max_beam = BEAM;
    o.max_shortlist = V, o.attention = attention, o.threads = threads;
    o.cache = f16 ? TFM_DTYPE_F16 : TFM_DTYPE_F32, o.max_draft = max_draft;
    must(tfm_session_bytes(model, &o, &bytes, &err));
    must(tfm_session_create(&s, model, &o, &err));
    return s;
}

static unsigned seed;
static int32_t below(int32_t n) { return (int32_t)(tiny_random(&seed) % (unsigned)n); }

/* ---- what a decode gives, as bytes ---- */

typedef struct outcome {
    size_t n;
    unsigned char bytes[12000];
    int has_logits[BEAM]; /* those of the last step, if the row took part in it */
    float logits[BEAM][V];
} outcome;

static void put(outcome *o, const void *data, size_t n) {
    if (o->n + n > sizeof o->bytes) exit(2);
    memcpy(o->bytes + o->n, data, n);
    o->n += n;
}

/* Collects a row's results, from token number skip on: ids, scores of each token, last logits. */
static void collect(tfm_session *s, int32_t row, int32_t skip, int scores, outcome *to) {
    int32_t n = tfm_result_count(s, row), rank;
    double each[TARGET + 1];
    memset(to, 0, sizeof *to);
    put(to, &n, sizeof n);
    for (rank = 0; rank < n; rank++) {
        const float *logits = tfm_result_logits(s, row, rank);
        tfm_result r;
        int32_t length;
        memset(&r, 0, sizeof r);
        must(tfm_result_get(s, row, rank, &r, &err));
        must(tfm_result_log_probabilities(s, row, rank, each, &err));
        length = r.length - skip;
        put(to, &length, sizeof length);
        if (length < 0) continue;
        put(to, r.ids + skip, (size_t)length * sizeof *r.ids);
        put(to, each + skip, (size_t)(length + 1) * sizeof *each);
        put(to, &r.finish, sizeof r.finish);
        put(to, &r.log_probability, sizeof r.log_probability);
        if (scores) put(to, &r.score, sizeof r.score);
        to->has_logits[rank] = logits != NULL;
        if (logits) memcpy(to->logits[rank], logits, V * sizeof *logits);
    }
}

static int same(const outcome *a, const outcome *b) {
    int same_logits = 1, i;
    for (i = 0; i < BEAM; i++)
        if (a->has_logits[i] && b->has_logits[i])
            same_logits &= memcmp(a->logits[i], b->logits[i], V * sizeof(float)) == 0;
    return same_logits && a->n == b->n && memcmp(a->bytes, b->bytes, a->n) == 0;
}

static void fill(int32_t *ids, int32_t n) {
    while (n-- > 0) do
            ids[n] = below(V);
        while (ids[n] == PAD);
}

/* A random batch: ids, prompts and prefixes of ragged lengths. */
static struct {
    int32_t ids[ROWS * SOURCE], lengths[ROWS], first[ROWS];
    int32_t prompt_ids[ROWS * LONGEST], prompt_lengths[ROWS];
    int32_t prefix_ids[ROWS * LONGEST], prefix_lengths[ROWS];
    uint64_t seeds[ROWS];
    id_matrix src, prompt, prefix;
    by_row with; /* what draw_options chose of them */
} at;

static void draw_batch(int32_t rows) {
    int32_t b;
    fill(at.ids, ROWS * SOURCE), fill(at.prompt_ids, ROWS * LONGEST);
    fill(at.prefix_ids, ROWS * LONGEST), fill(at.first, ROWS);
    for (b = 0; b < ROWS; b++) {
        at.lengths[b] = 1 + below(SOURCE), at.seeds[b] = (uint64_t)below(1 << 20);
        at.prompt_lengths[b] = 1 + below(below(2) ? 2 : LONGEST);
        at.prefix_lengths[b] = below(5);
    }
    at.src = tiny_batch(at.ids, at.lengths, rows, SOURCE);
    at.prompt = tiny_batch(at.prompt_ids, at.prompt_lengths, rows, LONGEST);
    at.prefix = tiny_batch(at.prefix_ids, at.prefix_lengths, rows, LONGEST);
}

/* Edits logits in a way that only the tokens decide: some are forbidden, some become likelier. */
static void edit_some(void *user, int32_t row, const int32_t *ids, int32_t n, float *logits) {
    unsigned hash = (unsigned)n * 31u + 7u;
    int32_t i;
    (void)row, (void)user;
    for (i = 0; i < n; i++) hash = hash * 1664525u + (unsigned)ids[i] + 1013904223u;
    for (i = 0; i < V; i++) {
        hash = hash * 1664525u + 1013904223u;
        if (hash >> 28 < 3) logits[i] = -INFINITY;
        if (hash >> 28 > 12) logits[i] += 1.5f;
    }
}

static tfm_decode_options draw_options(void) {
    tfm_decode_options o;
    int32_t kind = below(4);
    memset(&o, 0, sizeof o);
    memset(&at.with, 0, sizeof at.with), at.with.seeds = at.seeds;
    if (kind == 1) o.beam = 2 + below(2), o.n_best = 2, o.stop = (tfm_stop)below(4);
    if (kind == 2) o.samples = 1 + below(BEAM), o.top_k = below(5);
    if (kind == 3) o.alternatives = 1 + below(BEAM);
    if (below(2)) o.length_penalty = 0.7;
    if (below(3) == 0) o.no_repeat_ngram = 2;
    if (below(3) == 0) o.repetition_penalty = 1.3, o.repetition = (tfm_repetition)below(2);
    if (below(4) == 0) o.force_end = 1;
    if (below(3) == 0) o.min_length = below(4);
    if (below(2)) o.max_length = o.min_length + 1 + below(6);
    if (below(3)) at.with.prefix = &at.prefix;
    if (below(4) == 0 && kind < 2) o.prefix_bias = 0.4;
    if (below(3) == 0) at.with.first = at.first;
    if (below(3) == 0) o.edit_logits = edit_some;
    return o;
}

/* Gives row b of the batch alone. */
static by_row alone(int32_t b, id_matrix *src) {
    static id_matrix prompt, prefix;
    by_row own = at.with;
    *src = tiny_batch(at.ids + b * SOURCE, at.lengths + b, 1, SOURCE);
    prompt = tiny_batch(at.prompt_ids + b * LONGEST, at.prompt_lengths + b, 1, LONGEST);
    prefix = tiny_batch(at.prefix_ids + b * LONGEST, at.prefix_lengths + b, 1, LONGEST);
    if (own.prompt) own.prompt = &prompt;
    if (own.prefix) own.prefix = &prefix;
    if (own.first) own.first = at.first + b;
    own.seeds = at.seeds + b;
    return own;
}

#endif
