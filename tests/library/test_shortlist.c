/* Shortlists: compares decodes that may emit only some ids with decodes over the whole vocabulary,
   and lexical shortlists with the caller's list of the same ids. */
#include "output.h"
#include "transformer.h"
#include "tiny.h"

enum { START = 1, END = 2, SOURCE = 7, TARGET = 14, ROWS = 6, BEAM = 3, MOST = 120 };

static const int32_t lengths[ROWS] = {7, 3, 5, 1, 7, 4};
static int32_t ids[ROWS * SOURCE];
static const uint64_t seeds[ROWS] = {11, 12, 13, 14, 15, 16};

typedef struct kind {
    const char *name;
    int32_t beam, samples, alternatives;
} kind;
static const kind kinds[] = {
    {"greedy", 1, 0, 0}, {"beam", BEAM, 0, 0}, {"samples", 0, BEAM, 0}, {"alternatives", 0, 0, 2}};
enum {
    KINDS = sizeof kinds / sizeof *kinds,
    RESULTS = (int)(sizeof kinds / sizeof *kinds) * (int)ROWS
};

static by_row with_seeds(int32_t b) {
    by_row with;
    memset(&with, 0, sizeof with), with.seeds = seeds + b;
    return with;
}

static tfm_decode_options options_of(const kind *k) {
    tfm_decode_options o;
    memset(&o, 0, sizeof o);
    o.beam = k->beam, o.samples = k->samples, o.alternatives = k->alternatives;
    o.n_best = k->beam;
    return o;
}

/* Models with numbers of columns that are a multiple of four or not, or exceed a block of bytes;
   rows that fill panels, fewer, and many; a projection of their own, or the embedding without a
   bias. The last two models have a lexicon, for two vocabularies and for one. */
enum { MODELS = 6, LEXICAL = 4 };
static tiny model_of(int i) {
    tiny t = tiny_default();
    t.config = ", \"start\": 1, \"end\": 2, \"src_pad\": 0, \"norm\": \"pre\"";
    t.seed = 5 + (unsigned)i;
    if (i == 1) t.d = 18, t.vt = 64;
    if (i == 2) t.d = 22, t.vt = 117, t.without = "generator";
    if (i == 3) t.d = 2102, t.vt = 90, t.encoder = t.decoder = 1;
    if (i == 4) t.vt = 117;
    if (i == 5) t.vs = t.vt = 90, t.without = "tgt_embedding generator.weight";
    if (i == 5) t.config = ", \"start\": 1, \"end\": 2, \"src_pad\": 0, \"shortlist_first\": 3";
    return t;
}

/* Makes a lexicon for V source and target ids. Some source ids have no candidates, and some have a
   candidate twice. */
static uint32_t offsets[MOST + 1], list_ids[8 * MOST];
static void add_lexicon(st_writer *w, int64_t V, int64_t targets) {
    unsigned seed = 77;
    int64_t i;
    uint32_t n = 0, more;
    for (i = 0; i < V; i++)
        for (offsets[i] = n, more = tiny_random(&seed) % 9; more > 0; more--)
            list_ids[n++] = tiny_random(&seed) % (uint32_t)targets;
    offsets[V] = n;
    st_add(w, "shortlist.offsets", tfm_tensor_1d(offsets, TFM_DTYPE_U32, V + 1));
    st_add(w, "shortlist.ids", tfm_tensor_1d(list_ids, TFM_DTYPE_U32, n));
}

typedef struct form {
    const char *name;
    tfm_weight_type weights;
    int in_place, in_file; /* panels of a file replace its rows */
} form;
static const form forms[] = {{"F32", TFM_WEIGHT_TYPE_F32, 0, 0},
                             {"F32 in rows", TFM_WEIGHT_TYPE_F32, 1, 0},
                             {"F32 of a file", TFM_WEIGHT_TYPE_AS_STORED, 0, 1},
                             {"F16", TFM_WEIGHT_TYPE_F16, 0, 0},
                             {"BF16", TFM_WEIGHT_TYPE_BF16, 0, 0},
                             {"I8", TFM_WEIGHT_TYPE_I8, 0, 0}};
enum { FORMS = sizeof forms / sizeof *forms };

static tfm_model *load(int i, const form *f) {
    static const char path[] = "build/test_shortlist.safetensors";
    tfm_model_options o;
    tfm_model *model = NULL;
    tiny t = model_of(i);
    st_writer w;
    memset(&o, 0, sizeof o);
    o.weights = f->weights, o.in_place = f->in_place;
    tiny_write(&w, t);
    if (i >= LEXICAL) add_lexicon(&w, t.vs, t.vt);
    tiny_raise(&w, END, 0.7f); /* makes the end token come sometimes */
    if (!f->in_file) return tiny_load(&w, &o);
    if (st_write_file(&w, path)) printf("%s: cannot be written\n", path), exit(2);
    st_free(&w);
    must(tfm_model_load_file(&model, path, &o, &err));
    remove(path);
    return model;
}

static tfm_session_options limits(int32_t shortlist) {
    tfm_session_options o;
    memset(&o, 0, sizeof o);
    o.max_batch = ROWS, o.max_source = SOURCE, o.max_target = TARGET, o.max_beam = BEAM;
    o.max_shortlist = shortlist;
    return o;
}

static tfm_session *make(const tfm_model *model, const tfm_session_options *o) {
    tfm_session *s = NULL;
    must(tfm_session_create(&s, model, o, &err));
    return s;
}

/* Puts all V ids in random order, with the end token among the first n. */
static void shuffle(int32_t *list, int32_t V, int32_t n, unsigned *seed) {
    int32_t i, other, swap;
    for (i = 0; i < V; i++) list[i] = i;
    for (i = V - 1; i > 0; i--) {
        other = (int32_t)(tiny_random(seed) % (unsigned)(i + 1)), swap = list[i];
        list[i] = list[other], list[other] = swap;
    }
    for (i = n; i < V; i++)
        if (list[i] == END) other = n / 2, list[i] = list[other], list[other] = END;
}

static int has(const int32_t *list, int32_t n, int32_t id) {
    while (n > 0)
        if (list[--n] == id) return 1;
    return 0;
}

/* Collects everything that a row's hypotheses say, as bytes. */
typedef struct outcome {
    size_t n;
    char bytes[1024];
} outcome;
static outcome outcome_of(tfm_session *s, int32_t row) {
    outcome o;
    int32_t k, n = tfm_result_count(s, row);
    memset(&o, 0, sizeof o);
    for (k = 0; k < n; k++) {
        tfm_result r;
        memset(&r, 0, sizeof r);
        must(tfm_result_get(s, row, k, &r, &err));
        if (r.length) memcpy(o.bytes + o.n, r.ids, (size_t)r.length * 4);
        o.n += (size_t)r.length * 4;
        memcpy(o.bytes + o.n, &r.score, 8), o.n += 8;
        memcpy(o.bytes + o.n, &r.log_probability, 8), o.n += 8;
        memcpy(o.bytes + o.n, &r.finish, sizeof r.finish), o.n += sizeof r.finish;
    }
    return o;
}
static int same_outcome(const outcome *a, const outcome *b) {
    return a->n == b->n && memcmp(a->bytes, b->bytes, a->n) == 0;
}

/* Counts the rows that have the same results after these options in these sessions. */
static int rows_alike(tfm_session *s, const tfm_decode_options *o, tfm_session *other,
                      const tfm_decode_options *others) {
    id_matrix src = tiny_batch(ids, lengths, ROWS, SOURCE);
    int32_t b, alike = 0;
    must(decode_rows(s, &src, NULL, o, &err));
    must(decode_rows(other, &src, NULL, others, &err));
    for (b = 0; b < ROWS; b++) {
        outcome x = outcome_of(s, b), y = outcome_of(other, b);
        alike += same_outcome(&x, &y);
    }
    return alike;
}

/* ---- the whole vocabulary ---- */

static void whole(const tfm_model *model, const char *name) {
    int32_t V = tfm_model_config(model)->tgt_vocab_size, list[MOST];
    tfm_session_options with = limits(V), without = limits(0);
    tfm_session *s = make(model, &with), *plain = make(model, &without);
    unsigned seed = 3;
    int k, same = 0, other = 0, after = 0;
    for (k = 0; k < KINDS; k++) {
        tfm_decode_options o = options_of(&kinds[k]), all = o;
        shuffle(list, V, V, &seed);
        o.shortlist = list, o.n_shortlist = V;
        same += rows_alike(s, &o, plain, &all);
        shuffle(list, V, V / 2, &seed);
        o.n_shortlist = V / 2;
        other += rows_alike(s, &o, plain, &all);
        after += rows_alike(s, &all, plain, &all);
    }
    CHECK(same == RESULTS && after == RESULTS && other == 0,
          "%-24s %d rows as without, %d with half of it, %d without one after", name, same, other,
          after);
    tfm_session_free(s), tfm_session_free(plain);
}

/* ---- some ids ---- */

/* Decodes greedily step by step, and compares with a session that forbids all other ids. */
static void some(const tfm_model *model, const char *name) {
    int32_t V = tfm_model_config(model)->tgt_vocab_size, list[MOST], n, b, i;
    tfm_session_options with = limits(V), without = limits(0);
    tfm_session *s = make(model, &with), *plain = make(model, &without);
    id_matrix src = tiny_batch(ids, lengths, ROWS, SOURCE);
    unsigned seed = 9;
    int logits = 0, wrong = 0, steps = 0, tokens = 0, ended = 0, bigger = 0;
    for (n = V - 1; n > 1; n = n * 2 / 3) {
        tfm_decode_options o, all;
        int32_t running = 1, others = 1;
        memset(&o, 0, sizeof o);
        shuffle(list, V, n, &seed);
        all = o;
        o.shortlist = list, o.n_shortlist = n;
        all.suppressed = list + n, all.n_suppressed = V - n;
        must(start_rows(s, &src, NULL, &o, &err));
        must(start_rows(plain, &src, NULL, &all, &err));
        while (running) {
            must(tfm_session_step(s, &running, &err));
            must(tfm_session_step(plain, &others, &err));
            steps++, wrong += running != others;
            for (b = 0; b < ROWS; b++) {
                const float *x = tfm_result_logits(s, b, 0), *y = tfm_result_logits(plain, b, 0);
                wrong += (x != NULL) != (y != NULL);
                for (i = 0; x && y && i < V; i++, logits++)
                    if (has(list, n, i)) wrong += memcmp(x + i, y + i, sizeof *x) != 0;
                    else wrong += !(x[i] == -INFINITY && y[i] > -INFINITY);
            }
        }
        for (b = 0; b < ROWS; b++) {
            tfm_result r, full;
            memset(&r, 0, sizeof r);
            full = r;
            must(tfm_result_get(s, b, 0, &r, &err));
            must(tfm_result_get(plain, b, 0, &full, &err));
            wrong += r.length != full.length || r.finish != full.finish;
            for (i = 0; i < r.length && i < full.length; i++, tokens++)
                wrong += r.ids[i] != full.ids[i] || !has(list, n, r.ids[i]);
            ended += r.finish == TFM_FINISH_ENDED;
            bigger += r.log_probability > full.log_probability;
        }
    }
    CHECK(!wrong && tokens > ROWS && bigger > ROWS,
          "%-24s %d steps, %d logits, %d tokens, %d rows end by themselves", name, steps, logits,
          tokens, ended);
    tfm_session_free(s), tfm_session_free(plain);
}

/* For every search only ids of the list may come out, and each row must have the same results alone
   and in the batch. */
static void batches(const tfm_model *model, const char *name) {
    int32_t V = tfm_model_config(model)->tgt_vocab_size, list[MOST], n = V / 2, b, i, r;
    tfm_session_options together = limits(n), apart = limits(V);
    tfm_session *s, *alone;
    id_matrix src = tiny_batch(ids, lengths, ROWS, SOURCE);
    unsigned seed = 21;
    int k, same = 0, outside = 0, tokens = 0;
    by_row all = with_seeds(0), own;
    together.threads = 2;
    s = make(model, &together), alone = make(model, &apart);
    for (k = 0; k < KINDS; k++) {
        tfm_decode_options o = options_of(&kinds[k]);
        shuffle(list, V, n, &seed);
        o.shortlist = list, o.n_shortlist = n;
        must(decode_rows(s, &src, &all, &o, &err));
        for (b = 0; b < ROWS; b++) {
            id_matrix one = tiny_batch(ids + b * SOURCE, NULL, 1, lengths[b]);
            outcome x, y;
            own = with_seeds(b);
            must(decode_rows(alone, &one, &own, &o, &err));
            x = outcome_of(s, b), y = outcome_of(alone, 0);
            same += same_outcome(&x, &y);
            for (r = 0; r < tfm_result_count(s, b); r++) {
                tfm_result result;
                memset(&result, 0, sizeof result);
                must(tfm_result_get(s, b, r, &result, &err));
                for (i = 0; i < result.length; i++, tokens++)
                    outside += !has(list, n, result.ids[i]);
            }
        }
    }
    CHECK(same == RESULTS && !outside && tokens > 0, "%-24s %d of %d rows, %d tokens", name, same,
          RESULTS, tokens);
    tfm_session_free(s), tfm_session_free(alone);
}

/* ---- lexical ---- */

/* Lists the ids that row b may emit: those of the definition, and those that the options add, in
   any order. Returns their number. */
static int32_t candidates_of(const tfm_model *model, const id_matrix *src, int32_t b,
                             const tfm_decode_options *o, const by_row *with, int32_t *list) {
    const tfm_config *c = tfm_model_config(model);
    int one = c->src_vocab_size == c->tgt_vocab_size;
    int32_t v, i, n = 0;
    uint32_t k;
    for (v = c->tgt_vocab_size - 1; v >= 0; v--) {
        int in = v < c->shortlist_first ||
                 (o->n_end_ids ? has(o->end_ids, o->n_end_ids, v) : v == END);
        for (i = 0; i < src->lengths[b]; i++) {
            int32_t id = src->ids[b * src->width + i];
            for (k = id ? offsets[id] : offsets[1]; k < offsets[id + 1]; k++)
                in |= list_ids[k] == (uint32_t)v;
            in |= one && id && id == v;
        }
        in |= with->first && with->first[b] == v;
        if (with->prefix)
            in |= has(with->prefix->ids + b * with->prefix->width, with->prefix->lengths[b], v);
        if (in) list[n++] = v;
    }
    return n;
}

/* Options that add candidates: forced tokens and favoured tokens. */
static const int32_t firsts[ROWS] = {-1, 12, -1, 3, -1, 30}, ends[] = {END, 40},
                     prefix_ids[ROWS * 2] = {9, 40, 1, 1, 50, 1, 60, 2, 1, 1, 1, 70},
                     prefix_lengths[ROWS] = {2, 0, 1, 1, 0, 2};
static id_matrix prefixes;
static by_row added; /* by add_options */
static void add_options(tfm_decode_options *o, int variant) {
    added = with_seeds(0);
    if (variant) o->end_ids = ends, o->n_end_ids = 2, o->repetition_penalty = 1.3;
    if (variant) added.first = firsts, added.prefix = &prefixes;
    if (variant == 2) o->prefix_bias = 0.9;
}

/* Compares a row alone, with the list of its candidates, with its lexical decode step by step:
   outcome, and number of logits that differ. */
static outcome apart(tfm_session *s, tfm_session *other, const tfm_model *model,
                     const id_matrix *src, int32_t b, tfm_decode_options o, int *wrong) {
    int32_t V = tfm_model_config(model)->tgt_vocab_size, list[MOST], running = 1, i;
    id_matrix one = tiny_batch(src->ids + b * SOURCE, src->lengths + b, 1, SOURCE), prefix;
    tfm_decode_options given;
    by_row own = with_seeds(b);
    if (added.prefix) {
        prefix = tiny_batch(prefix_ids + 2 * b, prefix_lengths + b, 1, 2);
        own.prefix = &prefix, own.first = firsts + b;
    }
    o.lexical_shortlist = 1;
    given = o, given.lexical_shortlist = 0, given.shortlist = list;
    given.n_shortlist = candidates_of(model, &one, 0, &o, &own, list);
    must(start_rows(s, &one, &own, &o, &err));
    must(start_rows(other, &one, &own, &given, &err));
    while (running) {
        const float *x, *y;
        must(tfm_session_step(s, &running, &err));
        must(tfm_session_step(other, &running, &err));
        x = tfm_result_logits(s, 0, 0), y = tfm_result_logits(other, 0, 0);
        *wrong += x != tfm_result_logits(s, 0, 0) || !x != !y;
        *wrong += x && y && memcmp(x, y, (size_t)V * sizeof *x) != 0;
        for (i = 0; x && i < V; i++)
            *wrong += (x[i] > -INFINITY) != has(list, given.n_shortlist, i);
    }
    return outcome_of(other, 0);
}

static void lexical(const tfm_model *model, const char *name) {
    enum { WAYS = 3 }; /* all rows in one product, in the full product, in another order */
    int32_t V = tfm_model_config(model)->tgt_vocab_size, most = 0, b, n, list[MOST];
    int32_t moved[ROWS * SOURCE], moved_lengths[ROWS], some_ids[ROWS * SOURCE];
    id_matrix src = tiny_batch(some_ids, lengths, ROWS, SOURCE), turned;
    tfm_session_options so = limits(V);
    tfm_session *s, *tight, *one, *other;
    tfm_decode_options o;
    int k, variant, same[WAYS] = {0, 0, 0}, rows = 0, wrong = 0, unlike = 0;
    memcpy(some_ids, ids, sizeof some_ids), some_ids[4 * SOURCE + 2] = 0; /* a pad between tokens */
    turned = tiny_batch(moved, moved_lengths, ROWS, SOURCE);
    for (b = 0; b < ROWS; b++) {
        memcpy(moved + b * SOURCE, some_ids + (ROWS - 1 - b) * SOURCE, SOURCE * sizeof *ids);
        moved_lengths[b] = lengths[ROWS - 1 - b];
    }
    prefixes = tiny_batch(prefix_ids, prefix_lengths, ROWS, 2);
    memset(&o, 0, sizeof o), add_options(&o, 1);
    for (b = 0; b < ROWS; b++)
        if ((n = candidates_of(model, &src, b, &o, &added, list)) > most) most = n;
    one = make(model, &so), other = make(model, &so);
    so.threads = 2, s = make(model, &so);
    so.max_shortlist = most, tight = make(model, &so);
    for (k = 0; k < KINDS; k++)
        for (variant = 0; variant < (kinds[k].beam ? 3 : 2); variant++) {
            outcome expected[ROWS];
            o = options_of(&kinds[k]), add_options(&o, variant);
            for (b = 0; b < ROWS; b++) expected[b] = apart(one, other, model, &src, b, o, &wrong);
            o.lexical_shortlist = 1;
            must(decode_rows(s, &src, &added, &o, &err));
            must(decode_rows(tight, &src, &added, &o, &err));
            for (b = 0; b < ROWS; b++, rows++) {
                outcome x = outcome_of(s, b), y = outcome_of(tight, b);
                same[0] += same_outcome(&x, &expected[b]);
                same[1] += same_outcome(&y, &expected[b]);
            }
            if (variant || kinds[k].samples) continue;
            must(decode_rows(s, &turned, &added, &o, &err));
            for (b = 0; b < ROWS; b++) {
                outcome x = outcome_of(s, ROWS - 1 - b);
                same[2] += same_outcome(&x, &expected[b]);
            }
            o.lexical_shortlist = 0;
            must(decode_rows(s, &src, &added, &o, &err));
            for (b = 0; b < ROWS; b++) {
                outcome x = outcome_of(s, b);
                unlike += !same_outcome(&x, &expected[b]);
            }
        }
    CHECK(same[0] == rows && same[1] == rows && same[2] == 3 * ROWS && !wrong && unlike > ROWS,
          "%-24s %d rows, %d without room for all, %d in another order; %d unlike without", name,
          same[0], same[1], same[2], unlike);
    tfm_session_free(s), tfm_session_free(tight), tfm_session_free(one), tfm_session_free(other);
}

/* ---- with other options ---- */

static void others(void) {
    static const int32_t few[] = {4, 5, 6}, five[] = {5}, three[] = {6, 6, 4};
    tfm_model *model = load(0, &forms[0]);
    tfm_session_options so = limits(3);
    tfm_session *s = make(model, &so);
    id_matrix src = tiny_batch(ids, lengths, 1, SOURCE), prefix = tiny_batch(three, NULL, 1, 3);
    tfm_decode_options o;
    tfm_result r;
    int32_t i, n;
    by_row with;
    SECTION("with other options");
    memset(&r, 0, sizeof r);
    memset(&o, 0, sizeof o), memset(&with, 0, sizeof with);
    o.shortlist = few, o.n_shortlist = 3;
    must(decode_rows(s, &src, &with, &o, &err));
    must(tfm_result_get(s, 0, 0, &r, &err));
    CHECK(r.finish == TFM_FINISH_HIT_LENGTH && r.length == TARGET,
          "without the end token: %d tokens", r.length);
    o.end_ids = five, o.n_end_ids = 1, o.min_length = 2, o.suppressed = few, o.n_suppressed = 1;
    must(decode_rows(s, &src, &with, &o, &err));
    must(tfm_result_get(s, 0, 0, &r, &err));
    for (i = n = 0; i < r.length; i++) n += r.ids[i] == 6;
    CHECK(n == r.length && n >= 2, "another end, a least length, a forbidden id: %d tokens", n);
    memset(&o, 0, sizeof o), memset(&with, 0, sizeof with);
    o.shortlist = few, o.n_shortlist = 3, o.beam = 3, with.prefix = &prefix;
    must(decode_rows(s, &src, &with, &o, &err));
    must(tfm_result_get(s, 0, 0, &r, &err));
    CHECK(memcmp(r.ids, three, sizeof three) == 0 && r.score < 0 && r.score > -INFINITY,
          "after a prefix: %g", r.score);
    o.prefix_bias = 0.9, o.repetition_penalty = 1.5;
    must(decode_rows(s, &src, &with, &o, &err));
    must(tfm_result_get(s, 0, 0, &r, &err));
    CHECK(r.score < 0 && r.score > -INFINITY && has(few, 3, r.ids[0]), "favouring one: %g",
          r.score);
    memset(&o, 0, sizeof o), memset(&with, 0, sizeof with);
    o.shortlist = five, o.n_shortlist = 1, o.alternatives = 3, o.max_length = 4;
    must(decode_rows(s, &src, &with, &o, &err));
    must(tfm_result_get(s, 0, 0, &r, &err));
    CHECK(tfm_result_count(s, 0) == 1 && r.length == 4 && r.score == 0,
          "alternatives among one id: one, with probability 1");
    for (i = 0; i < 2; i++) {
        o.alternatives = 0, o.samples = i, o.suppressed = five, o.n_suppressed = 1;
        must(decode_rows(s, &src, &with, &o, &err));
        must(tfm_result_get(s, 0, 0, &r, &err));
        CHECK(r.finish == TFM_FINISH_STUCK && r.length == 0,
              "all ids forbidden: the decode is stuck");
    }
    tfm_session_free(s), tfm_model_free(model);
}

/* ---- memory ---- */

static void memory(void) {
    int32_t list[MOST], V, most[] = {0, 5, 32};
    size_t bytes[3], last = 0;
    int f, i;
    unsigned seed = 1;
    id_matrix src = tiny_batch(ids, lengths, ROWS, SOURCE);
    SECTION("one allocation of the announced size");
    for (f = 0; f < 2 * FORMS; f++) {
        tfm_model *model = load(f < FORMS ? 1 : LEXICAL, &forms[f % FORMS]);
        int told = 0, calls = 0, live = 0, k;
        V = tfm_model_config(model)->tgt_vocab_size;
        for (i = 0; i < 3; i++) {
            test_allocator counter;
            tfm_allocator allocator = test_counting(&counter);
            tfm_session_options so = limits(most[i]);
            tfm_session *s;
            so.allocator = &allocator;
            must(tfm_session_bytes(model, &so, &bytes[i], &err));
            s = make(model, &so);
            told += counter.last == bytes[i];
            for (k = 0; k < KINDS; k++) {
                tfm_decode_options o = options_of(&kinds[k]);
                shuffle(list, V, most[i], &seed);
                o.shortlist = list, o.n_shortlist = most[i];
                must(decode_rows(s, &src, NULL, &o, &err));
                o.n_shortlist = 0, o.lexical_shortlist = 1;
                if (f >= FORMS && i == 2) must(decode_rows(s, &src, NULL, &o, &err));
            }
            calls += counter.calls;
            tfm_session_free(s);
            live += counter.live;
        }
        last = bytes[2] - bytes[0];
        CHECK(told == 3 && calls == 3 && !live && bytes[0] < bytes[1] && bytes[1] < bytes[2],
              "%-24s %d bytes for 32 ids%s", forms[f % FORMS].name, (int)last,
              f < FORMS ? "" : ", lexical ones too");
        tfm_model_free(model);
    }
}

/* ---- refused arguments ---- */

static void arguments(void) {
    static const int32_t good[] = {9, END, 4, 7}, beyond[] = {4, 13}, below[] = {4, 5, -1};
    static const int32_t twice[] = {4, 5, 4}, two_firsts[] = {-1, 5}, two_ids[] = {4, 7, 4, 8};
    static const int32_t widths[] = {1, 2};
    tfm_model *model = load(0, &forms[5]);
    tfm_session_options so = limits(4);
    tfm_session *s = make(model, &so), *none = NULL, *plain;
    id_matrix src = tiny_batch(ids, lengths, ROWS, SOURCE),
              two = tiny_batch(ids, lengths, 2, SOURCE);
    id_matrix prefix = tiny_batch(two_ids, widths, 2, 2);
    tfm_decode_options o;
    int32_t running = 1, b, alike = 0;
    size_t bytes = 0;
    outcome expected[ROWS];
    by_row with;
    SECTION("arguments, and a decode that refused calls leave unchanged");
    memset(&o, 0, sizeof o);
    o.shortlist = good, o.n_shortlist = 4;
    must(decode_rows(s, &src, NULL, &o, &err));
    for (b = 0; b < ROWS; b++) expected[b] = outcome_of(s, b);
    must(start_rows(s, &src, NULL, &o, &err));
    must(tfm_session_step(s, &running, &err));
#define REFUSED(change, status, says)                                                              \
    do {                                                                                           \
        memset(&o, 0, sizeof o), memset(&with, 0, sizeof with);                                    \
        o.change;                                                                                  \
        CHECK_FAILS(start_rows(s, &two, &with, &o, &err), status, says);                           \
    } while (0)
    REFUSED(shortlist = below; o.n_shortlist = 3, TFM_E_TOKEN, "shortlist: position 2: id -1");
    REFUSED(shortlist = twice;
            o.n_shortlist = 3, TFM_E_TOKEN, "shortlist: position 2: id 4 is there already");
    REFUSED(shortlist = ids; o.n_shortlist = 5, TFM_E_TOO_LONG,
                             "shortlist has 5 ids, the session's max_shortlist is 4");
    REFUSED(n_shortlist = 2, TFM_E_ARGUMENT, "shortlist: 2 ids, but it is NULL");
    REFUSED(shortlist = good; o.n_shortlist = -1, TFM_E_ARGUMENT, "shortlist: -1 ids");
    REFUSED(shortlist = good; o.n_shortlist = 4;
            with.first = two_firsts, TFM_E_TOKEN,
            "request 1: the first token 5 is not in the shortlist");
    REFUSED(shortlist = good; o.n_shortlist = 4;
            with.prefix = &prefix, TFM_E_TOKEN,
            "request 1: the prefix's token 8 is not in the shortlist");
    REFUSED(shortlist = beyond; o.n_shortlist = 2, TFM_E_TOKEN,
                                "shortlist: position 1: id 13, the vocabulary has 13 tokens");
    REFUSED(lexical_shortlist = 1, TFM_E_ARGUMENT, "the model has no tensors 'shortlist.offsets'");
    REFUSED(lexical_shortlist = 2, TFM_E_ARGUMENT, "lexical_shortlist is out of range: it takes 0");
    while (running) must(tfm_session_step(s, &running, &err));
    for (b = 0; b < ROWS; b++) {
        outcome now = outcome_of(s, b);
        alike += same_outcome(&now, &expected[b]);
    }
    CHECK(alike == ROWS, "%d rows as without the refusals", alike);
    so = limits(0);
    plain = make(model, &so);
    memset(&o, 0, sizeof o);
    o.shortlist = good, o.n_shortlist = 1;
    CHECK_FAILS(start_rows(plain, &src, NULL, &o, &err), TFM_E_TOO_LONG,
                "shortlist has 1 ids, the session's max_shortlist is 0");
    so = limits(14);
    CHECK_FAILS(tfm_session_create(&none, model, &so, &err), TFM_E_ARGUMENT,
                "max_shortlist is 14, expected 0 to the target vocabulary's 13 tokens");
    so = limits(-1);
    CHECK_FAILS(tfm_session_bytes(model, &so, &bytes, &err), TFM_E_ARGUMENT, "max_shortlist is -1");
    CHECK(!none && !bytes, "no session is made");
    tfm_session_free(s), tfm_session_free(plain), tfm_model_free(model);
}

static void lexical_arguments(void) {
    static const int32_t good[] = {9, END, 4, 7}, source[] = {10, 11};
    tfm_model *model = load(LEXICAL, &forms[5]);
    tfm_session_options so = limits(5);
    tfm_session *s = make(model, &so), *plain;
    id_matrix src = tiny_batch(ids, lengths, ROWS, SOURCE), one = tiny_batch(source, NULL, 1, 1),
              two = tiny_batch(source, NULL, 1, 2);
    tfm_decode_options o;
    int32_t running = 1;
    outcome expected, now;
    by_row with;
    SECTION("arguments of lexical shortlists, which leave a decode unchanged");
    memset(&o, 0, sizeof o), o.lexical_shortlist = 1;
    CHECK(tfm_model_config(model)->has_shortlist && !tfm_model_config(model)->shortlist_first,
          "the config has shortlist_first");
    must(decode_rows(s, &one, NULL, &o, &err));
    expected = outcome_of(s, 0);
    must(start_rows(s, &one, NULL, &o, &err));
    must(tfm_session_step(s, &running, &err));
    CHECK_FAILS(start_rows(s, &src, NULL, &o, &err), TFM_E_TOO_LONG,
                "request 0: the source has 12 candidates, the session's max_shortlist is 5");
    CHECK_FAILS(start_rows(s, &two, NULL, &o, &err), TFM_E_TOKEN, "ids: position 1: id 11");
    REFUSED(lexical_shortlist = 1; o.shortlist = good;
            o.n_shortlist = 4, TFM_E_ARGUMENT, "shortlist, lexical_shortlist: choose one");
#undef REFUSED
    while (running) must(tfm_session_step(s, &running, &err));
    now = outcome_of(s, 0);
    CHECK(same_outcome(&now, &expected),
          "the row has the results that it has without the refusals");
    so = limits(0), plain = make(model, &so);
    o.n_shortlist = 0;
    CHECK_FAILS(start_rows(plain, &one, NULL, &o, &err), TFM_E_ARGUMENT,
                "lexical_shortlist: the session's max_shortlist is 0");
    tfm_session_free(s), tfm_session_free(plain), tfm_model_free(model);
}

int main(void) {
    static void (*const tests[])(const tfm_model *, const char *) = {whole, some, batches, lexical};
    static const char *const titles[] = {
        "the whole vocabulary, shuffled: ids and scores of every search",
        "some ids: the bits of the full projection's logits, and no others; greedy's ids",
        "in a batch in two threads, and alone",
        "lexical: as the caller's list of the same ids, alone, logits too"};
    static const uint16_t one = 1;
    int big_endian =
        /* Emulated kernels run the lexicons alone, because all tests would take minutes. */
        !*(const unsigned char *)&one;
    unsigned seed = 4;
    int i, f, t;
    for (i = 0; i < ROWS * SOURCE; i++) ids[i] = 1 + (int32_t)(tiny_random(&seed) % 10);
    for (t = big_endian ? 3 : 0; t < 4; t++) {
        SECTION(titles[t]);
        for (i = t == 3 ? LEXICAL : 0; i < (t == 3 ? MODELS : LEXICAL); i++)
            for (f = 0; f < FORMS; f += big_endian ? FORMS - 1 : 1) {
                tfm_model *model;
                char name[64];
                if (!test_in_slice(titles[t], i * FORMS + f)) continue;
#ifdef TRANSFORMER_BLAS /* The library chooses the set itself. */
                if (i == 3 && f < 3) continue;
#endif
                model = load(i, &forms[f]);
                snprintf(name, sizeof name, "%s, %d x %d", forms[f].name,
                         (int)tfm_model_config(model)->tgt_vocab_size,
                         (int)tfm_model_config(model)->d_model);
                tests[t](model, name);
                tfm_model_free(model);
            }
    }
    others();
    memory();
    arguments();
    lexical_arguments();
    return test_done("test_shortlist");
}
