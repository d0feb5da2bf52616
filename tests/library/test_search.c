/* The search: compares beams, constraints, sampling, alternatives, scoring and attention with plain
   searches in this file, which have no caches, heaps or batches. There every hypothesis is a fresh
   teacher-forced pass. */
#include "transformer.h"
#include "tiny.h"

enum { V = 6, MOST = 12, SOURCE = 9, START = 1, END = 2, UNKNOWN = 3 };

static unsigned ssru; /* vocabulary size of all models here */
static int t5;

static tfm_model *small_model(unsigned seed, const char *more) {
    static char config[512];
    tiny t = tiny_default();
    snprintf(config, sizeof config, ", \"start\": 1, \"end\": 2, \"src_pad\": 0, \"tgt_unk\": 3%s",
             more);
    t.vt = V, t.seed = seed, t.config = config, t.ssru = ssru, t.t5 = t5;
    return tiny_model(t);
}

static tfm_dtype cache = TFM_DTYPE_F32,
                 encoder_attention = TFM_DTYPE_F32; /* limits of all sessions here */

static tfm_session *wide_session(const tfm_model *model, int32_t batch, int32_t beam,
                                 int32_t target) {
    tfm_session_options o;
    tfm_session *session = NULL;
    memset(&o, 0, sizeof o);
    o.max_batch = batch, o.max_source = SOURCE, o.max_target = target, o.max_beam = beam;
    o.attention = 1, o.cache = cache, o.encoder_attention = encoder_attention;
    must(tfm_session_create(&session, model, &o, &err));
    return session;
}

static tfm_decode_options no_options(void) {
    tfm_decode_options o;
    memset(&o, 0, sizeof o);
    return o;
}

/* ---- the plain search ---- */

typedef struct plain {
    const tfm_model *model;
    tfm_session *session;
    tfm_decode_options o;
    by_row with; /* one row */
    const int32_t *src;
    int32_t n_src;
} plain;

typedef struct hypothesis {
    int32_t ids[MOST], length;
    int ended;
    double sum, score, each[MOST + 1]; /* score of each token, the end token's last */
} hypothesis;

typedef struct hypotheses {
    hypothesis *items;
    int64_t n, room;
} hypotheses;

static void add(hypotheses *list, const hypothesis *h) {
    if (list->n == list->room) {
        hypothesis *grown = (hypothesis *)test_memory((size_t)(2 * list->room + 64) * sizeof *h);
        if (list->n) memcpy(grown, list->items, (size_t)list->n * sizeof *h);
        list->items = grown, list->room = 2 * list->room + 64;
    }
    list->items[list->n++] = *h;
}

static int by_score(const void *a, const void *b) {
    const hypothesis *x = (const hypothesis *)a, *y = (const hypothesis *)b;
    return x->score > y->score ? -1 : x->score < y->score;
}

/* Computes logits [V] behind the tokens, and the attention [steps, n_src] of the steps so far. */
static void plain_pass(plain *p, const int32_t *ids, int32_t n, float *logits, double *attention) {
    const tfm_config *c = tfm_model_config(p->model);
    int32_t tgt[MOST + 1], t, s, h, H = c->n_heads, N = c->n_decoder_layers, layer, from, to;
    float all[(MOST + 1) * V], cross[2 * 2 * (MOST + 1) * SOURCE];
    id_matrix src = tiny_batch(p->src, NULL, 1, p->n_src), target = tiny_batch(tgt, NULL, 1, n + 1);
    tfm_tensor out = tfm_tensor_3d(all, TFM_DTYPE_F32, 1, n + 1, V);
    tfm_forward_options f;
    int64_t dims[5];
    memset(&f, 0, sizeof f);
    dims[0] = N, dims[1] = 1, dims[2] = H, dims[3] = n + 1, dims[4] = p->n_src;
    f.cross_attention = tfm_tensor_make(cross, TFM_DTYPE_F32, 5, dims);
    tgt[0] = START;
    if (n) memcpy(tgt + 1, ids, (size_t)n * sizeof *ids);
    must(forward_rows(p->session, &src, &target, &f, &out, &err));
    memcpy(logits, all + n * V, V * sizeof *logits);
    layer = p->o.attention_layer ? p->o.attention_layer - 1 : N - 1;
    from = p->o.attention_head ? p->o.attention_head - 1 : 0;
    to = p->o.attention_head ? p->o.attention_head : H;
    for (t = 0; attention && t <= n; t++)
        for (s = 0; s < p->n_src; s++) {
            double sum = 0;
            for (h = from; h < to; h++)
                sum += (double)cross[((layer * H + h) * (n + 1) + t) * p->n_src + s];
            attention[t * p->n_src + s] = sum / (to - from);
        }
}

static int contains_end(const tfm_decode_options *o, int32_t id) {
    int32_t i;
    for (i = 0; i < o->n_end_ids; i++)
        if (o->end_ids[i] == id) return 1;
    return !o->n_end_ids && id == END;
}

/* Returns whether ids [n] contain that sequence anywhere. */
static int contains(const int32_t *ids, int32_t n, const int32_t *sequence, int32_t length) {
    int32_t i;
    for (i = 0; i + length <= n; i++)
        if (memcmp(ids + i, sequence, (size_t)length * sizeof *ids) == 0) return 1;
    return 0;
}

/* Applies the rules to a whole hypothesis instead of a next token. */
static int allowed(const plain *p, const int32_t *ids, int32_t n) {
    const tfm_decode_options *o = &p->o;
    int32_t i, j, id = ids[n - 1], longer[MOST + 2];
    if (contains_end(o, id) && n - 1 < o->min_length) return 0;
    for (i = 0; i < o->n_suppressed; i++)
        if (o->suppressed[i] == id) return 0;
    if (o->no_unknown && id == UNKNOWN) return 0;
    for (i = 0; i < o->n_suppressed_sequences; i++) {
        const tfm_ids *f = &o->suppressed_sequences[i];
        if (contains(ids, n, f->data, f->n)) return 0;
    }
    for (i = 0; o->no_source_ngram && i + o->no_source_ngram <= n; i++)
        if (contains(p->src, p->n_src, ids + i, o->no_source_ngram)) return 0;
    if (o->repetition) { /* The start token counts as a target token. */
        memcpy(longer + 1, ids, (size_t)n * sizeof *ids), longer[0] = START;
        ids = longer, n++;
    }
    for (i = 0; o->no_repeat_ngram && i + o->no_repeat_ngram <= n; i++)
        for (j = i + 1; j + o->no_repeat_ngram <= n; j++)
            if (contains(ids + i, o->no_repeat_ngram, ids + j, o->no_repeat_ngram)) return 0;
    return 1;
}

/* Computes log p of every next token, -inf for forbidden tokens. */
static void plain_next(plain *p, const int32_t *ids, int32_t n, double *log_p) {
    const tfm_decode_options *o = &p->o;
    const int32_t *prefix = p->with.prefix ? p->with.prefix->ids : NULL;
    int32_t first = p->with.first ? p->with.first[0] : -1,
            n_prefix = p->with.prefix ? p->with.prefix->width : 0;
    int32_t at = n - (first >= 0), v, longer[MOST + 1], seen = 0;
    float logits[V];
    double sum = 0, scaled[V], factors[V];
    int late = o->repetition &&
               o->beam > 1; /* In this case Hugging Face penalizes log-probabilities. */
    plain_pass(p, ids, n, logits, NULL);
    for (v = 0; v < V; v++) {
        int penalized = o->repetition_penalty > 0 &&
                        (contains(ids, n, &v, 1) || (o->repetition && v == START));
        factors[v] = penalized ? o->repetition_penalty : 1;
        scaled[v] = (double)logits[v];
        if (!late) scaled[v] *= scaled[v] > 0 ? 1 / factors[v] : factors[v];
        sum += exp(scaled[v]);
    }
    for (v = 0; v < V; v++) log_p[v] = (scaled[v] - log(sum)) * (late ? factors[v] : 1);
    while (at >= 0 && seen < at && seen < n_prefix && ids[n - at + seen] == prefix[seen]) seen++;
    if (o->prefix_bias > 0 && at >= 0 && at < n_prefix && seen == at)
        for (v = 0; v < V; v++)
            log_p[v] =
                log((1 - o->prefix_bias) * exp(log_p[v]) + (v == prefix[at] ? o->prefix_bias : 0));
    if (n) memcpy(longer, ids, (size_t)n * sizeof *ids);
    for (v = 0; v < V; v++) {
        int32_t forced = at < 0 ? first : at < n_prefix && !(o->prefix_bias > 0) ? prefix[at] : -1;
        longer[n] = v;
        if (forced < 0 && o->force_end && n + 1 == o->max_length)
            forced = o->n_end_ids ? o->end_ids[0] : END;
        if (forced >= 0) log_p[v] = v == forced ? 0 : -INFINITY;
        else if (!allowed(p, longer, n + 1)) log_p[v] = -INFINITY;
    }
}

static double plain_score(plain *p, const hypothesis *h) {
    int32_t length = h->length + h->ended, s, t, steps = length;
    double score = h->sum / pow(length, p->o.length_penalty), coverage = 0;
    double attention[(MOST + 1) * SOURCE];
    float logits[V];
    if (p->o.coverage_penalty > 0) {
        plain_pass(p, h->ids, h->ended ? h->length : h->length - 1, logits, attention);
        for (s = 0; s < p->n_src; s++) {
            double sum = 0;
            for (t = 0; t < steps; t++) sum += attention[t * p->n_src + s];
            coverage += log(sum < 1 ? sum : 1);
        }
    }
    return score + p->o.coverage_penalty * coverage;
}

/* Enumerates all possible hypotheses. */
static void enumerate(plain *p, const hypothesis *h, hypotheses *all) {
    double log_p[V];
    int32_t v;
    plain_next(p, h->ids, h->length, log_p);
    for (v = 0; v < V; v++) {
        hypothesis longer = *h;
        if (log_p[v] == -INFINITY) continue;
        longer.sum += log_p[v], longer.each[longer.length] = log_p[v];
        longer.ended = contains_end(&p->o, v);
        if (!longer.ended) longer.ids[longer.length++] = v;
        longer.score = longer.ended || longer.length == p->o.max_length ? plain_score(p, &longer)
                                                                        : 0;
        if (longer.ended || longer.length == p->o.max_length) add(all, &longer);
        else enumerate(p, &longer, all);
    }
}

/* Returns whether the search is over, given these finished and running hypotheses, both best first.
   The rules are CTranslate2's, or Hugging Face's if stop says so. */
static int plain_over(const tfm_decode_options *o, const hypotheses *results,
                      const hypotheses *live, int best_ended) {
    int32_t beam = o->beam ? o->beam : 1, n_best = o->n_best ? o->n_best : 1;
    double patience = o->patience > 0 ? o->patience : 1;
    if (!live->n || (beam == 1 && results->n)) return 1;
    if (o->stop == TFM_STOP_EARLY_NEVER) {
        double length = o->length_penalty > 0 ? o->max_length : live->items[0].length;
        return results->n >= beam && results->items[beam - 1].score >=
                                         live->items[0].sum / pow(length, o->length_penalty);
    }
    if (o->stop == TFM_STOP_EARLY_FALSE)
        return results->n >= beam &&
               results->items[beam - 1].score >=
                   live->items[0].sum / pow(live->items[0].length, o->length_penalty);
    if (o->stop == TFM_STOP_CTRANSLATE2 && o->length_penalty == 0 && o->coverage_penalty == 0)
        return best_ended && results->n >= n_best;
    return results->n >= (int64_t)floor(beam * patience + 0.5);
}

/* Runs a beam search. It ranks the best 2 * beam candidates (3 * beam with two end tokens).
   Candidates among the first beam that end become results, and the first beam candidates that do
   not end go on. */
static void plain_beam(plain *p, hypotheses *results) {
    const tfm_decode_options *o = &p->o;
    int32_t beam = o->beam ? o->beam : 1, n_best = o->n_best ? o->n_best : 1, t, v;
    int best_ended = 0;
    hypotheses live, candidates;
    int64_t i;
    hypothesis empty;
    memset(&live, 0, sizeof live);
    memset(&empty, 0, sizeof empty);
    add(&live, &empty);
    for (t = 0; live.n; t++) {
        memset(&candidates, 0, sizeof candidates);
        for (i = 0; i < live.n; i++) {
            double log_p[V];
            plain_next(p, live.items[i].ids, live.items[i].length, log_p);
            for (v = 0; v < V; v++) {
                hypothesis longer = live.items[i];
                if (log_p[v] == -INFINITY) continue;
                longer.sum += log_p[v], longer.score = longer.sum;
                longer.each[longer.length] = log_p[v];
                longer.ended = contains_end(o, v);
                if (!longer.ended) longer.ids[longer.length++] = v;
                add(&candidates, &longer);
            }
        }
        if (candidates.n)
            qsort(candidates.items, (size_t)candidates.n, sizeof(hypothesis), by_score);
        live.n = 0;
        for (i = 0; i < candidates.n && i < (o->n_end_ids ? 1 + o->n_end_ids : 2) * beam; i++) {
            hypothesis *h = &candidates.items[i];
            if (i < beam && (h->ended || t + 1 == o->max_length)) {
                h->score = plain_score(p, h);
                add(results, h);
                if (i == 0) best_ended = 1;
            } else if (!h->ended && live.n < beam && t + 1 < o->max_length) add(&live, h);
        }
        if (results->n) qsort(results->items, (size_t)results->n, sizeof(hypothesis), by_score);
        if (plain_over(o, results, &live, best_ended)) break;
    }
    if (results->n > n_best) results->n = n_best;
}

/* Compares the session's hypotheses for a row with that list. Returns whether all are equal in
   order, and the largest difference of a score and of a token's score. The first difference fails a
   check. */
static int agree(tfm_session *s, int32_t row, const hypotheses *expected, int32_t n, double *most,
                 const char *what) {
    double each[MOST + 1];
    int32_t k, i, count = tfm_result_count(s, row);
    if (count != n) {
        CHECK(count == n, "%s: wanted %d hypotheses, got %d", what, (int)n, (int)count);
        return 0;
    }
    for (k = 0; k < n; k++) {
        const hypothesis *e = &expected->items[k];
        tfm_result r;
        memset(&r, 0, sizeof r);
        must(tfm_result_get(s, row, k, &r, &err));
        i = r.length == e->length && memcmp(r.ids, e->ids, (size_t)r.length * 4) == 0 &&
            r.finish == (e->ended ? TFM_FINISH_ENDED : TFM_FINISH_HIT_LENGTH);
        if (!i) {
            char wanted[200], got[200];
            CHECK(i, "%s, hypothesis %d: wanted ids %s, %s, score %.9g; got ids %s, %s, score %.9g",
                  what, (int)k, test_ids(wanted, sizeof wanted, e->ids, e->length),
                  e->ended ? "ended" : "cut", e->score, test_ids(got, sizeof got, r.ids, r.length),
                  r.finish == TFM_FINISH_ENDED        ? "ended"
                  : r.finish == TFM_FINISH_HIT_LENGTH ? "cut"
                                                      : "stuck",
                  r.score);
            return 0;
        }
        if (!(fabs(r.score - e->score) <= *most)) *most = fabs(r.score - e->score);
        if (!(fabs(r.log_probability - e->sum) <= *most)) *most = fabs(r.log_probability - e->sum);
        must(tfm_result_log_probabilities(s, row, k, each, &err));
        for (i = 0; i <= e->length; i++)
            if (!(fabs(each[i] - e->each[i]) <= *most)) *most = fabs(each[i] - e->each[i]);
    }
    return 1;
}

static const int32_t source[SOURCE] = {3, 7, 4, 9, 10, 5};

static plain plain_of(const tfm_model *model, tfm_session *session, tfm_decode_options o) {
    plain p;
    memset(&p, 0, sizeof p);
    p.model = model, p.session = session, p.o = o, p.src = source, p.n_src = 6;
    return p;
}

/* ---- against all possible hypotheses ---- */

static const int32_t some_forbidden[] = {0, 5}, some_ends[] = {4, 5}, a_first[] = {4};
static const int32_t some_sequences[] = {4, 5, 3, 0, 5, 0, 0, 0}, sequence_lengths[] = {2, 3};
static const int32_t a_prefix[] = {5, 0};

typedef struct setting {
    const char *name;
    tfm_decode_options o;
    by_row with;
} setting;

/* One setting of each option, and some together. */
static int make_settings(setting *settings) {
    static id_matrix prefix;
    static tfm_ids lists[2];
    id_matrix sequences = tiny_batch(some_sequences, sequence_lengths, 2, 4);
    int n = 0, i;
    prefix = tiny_batch(a_prefix, NULL, 1, 2);
    memset(settings, 0, 26 * sizeof *settings);
    for (i = 0; i < 26; i++) settings[i].o = no_options();
#define SETTING(text, change) settings[n].name = text, settings[n].change, n++
    SETTING("plain", o.beam = 0);
    SETTING("length penalty 0.6", o.length_penalty = 0.6);
    SETTING("length penalty 1", o.length_penalty = 1);
    SETTING("length penalty -0.5", o.length_penalty = -0.5);
    SETTING("coverage penalty", o.coverage_penalty = 0.7);
    SETTING("min length 2", o.min_length = 2);
    SETTING("suppressed ids", o.suppressed = some_forbidden), settings[n - 1].o.n_suppressed = 2;
    SETTING("suppressed sequences", o.beam = 0),
        suppress_rows(&settings[n - 1].o, &sequences, lists);
    SETTING("no unknown", o.no_unknown = 1);
    SETTING("no repeated token", o.no_repeat_ngram = 1);
    SETTING("no repeated bigram", o.no_repeat_ngram = 2);
    SETTING("repetition penalty 1.5", o.repetition_penalty = 1.5);
    SETTING("other ends", o.end_ids = some_ends), settings[n - 1].o.n_end_ids = 2;
    SETTING("forced first token", with.first = a_first);
    SETTING("prefix", with.prefix = &prefix);
    SETTING("biased prefix", with.prefix = &prefix), settings[n - 1].o.prefix_bias = 0.4;
    SETTING("a prefix after a first token", with.prefix = &prefix),
        settings[n - 1].with.first = a_first;
    SETTING("no token of the source", o.no_source_ngram = 1);
    SETTING("no two of the source", o.no_source_ngram = 2);
    SETTING("Hugging Face's penalty", o.repetition = TFM_REPETITION_HUGGING_FACE);
    settings[n - 1].o.repetition_penalty = 1.5;
    SETTING("Hugging Face's tokens", o.repetition = TFM_REPETITION_HUGGING_FACE);
    settings[n - 1].o.no_repeat_ngram = 1;
    SETTING("Hugging Face's bigrams", o.repetition = TFM_REPETITION_HUGGING_FACE);
    settings[n - 1].o.no_repeat_ngram = 2, settings[n - 1].o.length_penalty = 1;
    SETTING("a forced end", o.force_end = 1), settings[n - 1].o.length_penalty = 1;
    SETTING("many at once", with.prefix = &prefix);
    settings[n - 1].o.prefix_bias = 0.3, settings[n - 1].o.no_repeat_ngram = 2;
    settings[n - 1].o.length_penalty = 1, settings[n - 1].o.min_length = 1;
    settings[n - 1].o.repetition_penalty = 1.2, settings[n - 1].o.suppressed = some_forbidden;
    settings[n - 1].o.n_suppressed = 1;
#undef SETTING
    return n;
}

static void exhaustive(void) {
    setting settings[26];
    int n = make_settings(settings), i, different = 0;
    unsigned seed;
    SECTION("a beam as wide as the tree finds the ten best of all hypotheses");
    for (i = 0; i < n && different < TEST_PRINTED; i++) {
        double most = 0;
        int equal = 0;
        int64_t trees = 0;
        for (seed = 1; seed <= 3; seed++) {
            tfm_model *model = small_model(seed, "");
            tfm_session *s = wide_session(model, 1, 1300, 4),
                        *f = wide_session(model, 1, 1, MOST + 1);
            id_matrix src = tiny_batch(source, NULL, 1, 6);
            hypotheses all;
            hypothesis empty;
            plain p;
            settings[i].o.max_length = 4;
            settings[i].o.stop = TFM_STOP_EARLY_NEVER, settings[i].o.beam = 1300,
            settings[i].o.n_best = 10;
            memset(&all, 0, sizeof all);
            memset(&empty, 0, sizeof empty);
            p = plain_of(model, f, settings[i].o), p.with = settings[i].with;
            enumerate(&p, &empty, &all);
            qsort(all.items, (size_t)all.n, sizeof(hypothesis), by_score);
            must(decode_rows(s, &src, &settings[i].with, &settings[i].o, &err));
            equal += agree(s, 0, &all, (int32_t)(all.n < 10 ? all.n : 10), &most, settings[i].name);
            trees += all.n;
            tfm_session_free(s), tfm_session_free(f), tfm_model_free(model);
        }
        different += 3 - equal;
        CHECK(equal == 3 && most < 1e-5,
              "%-28s %d of 3 trees of %lld hypotheses, scores within %.1g", settings[i].name, equal,
              (long long)trees, most);
    }
}

/* ---- narrow beams ---- */

static void narrow(void) {
    static const double patiences[] = {0, 0.5, 2, 0, 0, 0};
    static const tfm_stop stops[] = {TFM_STOP_CTRANSLATE2, TFM_STOP_CTRANSLATE2,
                                     TFM_STOP_CTRANSLATE2, TFM_STOP_EARLY_NEVER,
                                     TFM_STOP_EARLY_TRUE,  TFM_STOP_EARLY_FALSE};
    setting settings[26];
    int n = make_settings(settings), i, beam, z, equal, all_equal = 0, total = 0;
    double most = 0;
    char what[160];
    static long times; /* main calls it for several models */
    long first = times++ * n;
    SECTION("narrow beams against the plain beam search");
    for (i = 0; i < n && total - all_equal < TEST_PRINTED; i++) {
        tfm_model *model;
        tfm_session *s, *f;
        id_matrix src;
        if (!test_in_slice("narrow", first + i)) continue;
        model = small_model(20 + (unsigned)i, "");
        s = wide_session(model, 1, 40, 8), f = wide_session(model, 1, 1, MOST + 1);
        src = tiny_batch(source, NULL, 1, 6);
        for (beam = 1; beam <= 20; beam += beam < 5 ? 1 : 15)
            for (z = 0; z < 6; z++) {
                hypotheses expected;
                plain p;
                tfm_decode_options o = settings[i].o;
                o.max_length = 8, o.beam = beam, o.n_best = z == 0 ? 1 : beam;
                o.patience = patiences[z], o.stop = stops[z];
                if (beam > 1 && z == 2) o.n_best = 2 * beam; /* as many as patience allows */
                memset(&expected, 0, sizeof expected);
                p = plain_of(model, f, o), p.with = settings[i].with;
                plain_beam(&p, &expected);
                must(decode_rows(s, &src, &p.with, &o, &err));
                snprintf(what, sizeof what, "%s, beam %d, patience %g, stop %d", settings[i].name,
                         beam, patiences[z], (int)stops[z]);
                equal = agree(s, 0, &expected, (int32_t)expected.n, &most, what);
                all_equal += equal, total++;
            }
        tfm_session_free(s), tfm_session_free(f), tfm_model_free(model);
    }
    CHECK(all_equal == total && most < 1e-5,
          "%d of %d searches (beams 1 to 20, a vocabulary of 6), scores within %.1g", all_equal,
          total, most);
}

/* ---- batch-invariant: the same bits alone and in any batch ---- */

typedef struct kind {
    const char *name;
    int32_t beam, n_best, samples, alternatives;
    double length_penalty, coverage_penalty;
} kind;

static const kind kinds[] = {{"greedy", 1, 1, 0, 0, 0, 0},
                             {"beam 4", 4, 4, 0, 0, 0.6, 0},
                             {"beam 3 with coverage", 3, 2, 0, 0, 1, 0.3},
                             {"three samples", 0, 0, 3, 0, 0, 0},
                             {"four alternatives", 0, 0, 0, 4, 0, 0},
                             {"two with beams of 2", 2, 0, 0, 2, 1, 0.2}};
enum { N_KINDS = sizeof kinds / sizeof *kinds, SENTENCES = 32 };

static tfm_decode_options options_of(const kind *k) {
    tfm_decode_options o = no_options();
    o.beam = k->beam, o.n_best = k->n_best, o.samples = k->samples;
    o.alternatives = k->alternatives;
    o.length_penalty = k->length_penalty, o.coverage_penalty = k->coverage_penalty;
    return o;
}

/* Collects everything that a row's hypotheses say, as bytes. */
static size_t bytes_of(tfm_session *s, int32_t row, int32_t n_src, char *bytes) {
    size_t at = 0;
    int32_t k, n = tfm_result_count(s, row);
    for (k = 0; k < n; k++) {
        tfm_result r;
        tfm_tensor out;
        memset(&r, 0, sizeof r);
        must(tfm_result_get(s, row, k, &r, &err));
        memcpy(bytes + at, r.ids, (size_t)r.length * 4), at += (size_t)r.length * 4;
        memcpy(bytes + at, &r.score, sizeof r.score), at += sizeof r.score;
        memcpy(bytes + at, &r.log_probability, 8), at += 8;
        memcpy(bytes + at, &r.finish, sizeof r.finish), at += sizeof r.finish;
        at = (at + 3) & ~(size_t)3;
        out = tfm_tensor_2d(bytes + at, TFM_DTYPE_F32, r.length, n_src);
        must(tfm_result_attention(s, row, k, &out, &err));
        at += (size_t)(r.length * n_src) * sizeof(float);
    }
    return at;
}

static void same_bits(void) {
    static const int32_t sizes[] = {2, 7, 32};
    static char alone[SENTENCES][8192], together[8192];
    static size_t n_alone[SENTENCES];
    static uint64_t seeds[SENTENCES];
    int32_t ids[SENTENCES][SOURCE], lengths[SENTENCES], order[SENTENCES], i, j, b, z;
    tiny t = tiny_default();
    st_writer w;
    tfm_model *model;
    tfm_session *s;
    unsigned seed = 77;
    int k;
    SECTION("alone, in padded batches of 2, 7 and 32, shuffled: ids, scores, attention");
    t.config = ", \"start\": 1, \"end\": 2, \"src_pad\": 0, \"norm\": \"pre\"";
    tiny_write(&w, t);
    tiny_raise(&w, END, 0.6f); /* makes the end token come sometimes */
    model = tiny_load(&w, NULL);
    for (i = 0; i < SENTENCES; i++) {
        lengths[i] = 1 + i % SOURCE, order[i] = i, seeds[i] = 1000 + (uint64_t)i;
        for (j = 0; j < SOURCE; j++) ids[i][j] = 1 + (int32_t)(tiny_random(&seed) % 10);
    }
    s = wide_session(model, SENTENCES, 4, 24);
    for (k = 0; k < N_KINDS; k++) {
        tfm_decode_options o = options_of(&kinds[k]);
        by_row with;
        int ends = 0, same = 1, most_tokens = 0;
        memset(&with, 0, sizeof with);
        for (i = 0; i < SENTENCES; i++) {
            id_matrix one = tiny_batch(ids[i], NULL, 1, lengths[i]);
            tfm_result r;
            memset(&r, 0, sizeof r);
            with.seeds = &seeds[i];
            must(decode_rows(s, &one, &with, &o, &err));
            n_alone[i] = bytes_of(s, 0, lengths[i], alone[i]);
            must(tfm_result_get(s, 0, 0, &r, &err));
            ends += r.finish == TFM_FINISH_ENDED;
            if (r.length > most_tokens) most_tokens = r.length;
        }
        for (z = 0; z < 3; z++) {
            for (i = SENTENCES - 1; i > 0; i--) {
                int32_t other = (int32_t)(tiny_random(&seed) % (unsigned)(i + 1)), swap = order[i];
                order[i] = order[other], order[other] = swap;
            }
            for (b = 0; b < SENTENCES; b += sizes[z]) {
                int32_t rows = SENTENCES - b < sizes[z] ? SENTENCES - b : sizes[z], width = 0;
                int32_t batch_ids[(int)SENTENCES * SOURCE], batch_lengths[SENTENCES];
                uint64_t batch_seeds[SENTENCES];
                id_matrix batch;
                for (i = 0; i < rows; i++)
                    if (lengths[order[b + i]] > width) width = lengths[order[b + i]];
                for (i = 0; i < rows; i++) {
                    memcpy(batch_ids + i * width, ids[order[b + i]], (size_t)width * 4);
                    batch_lengths[i] = lengths[order[b + i]];
                    batch_seeds[i] = seeds[order[b + i]];
                }
                batch = tiny_batch(batch_ids, batch_lengths, rows, width);
                with.seeds = batch_seeds;
                must(decode_rows(s, &batch, &with, &o, &err));
                for (i = 0; i < rows; i++) {
                    size_t n = bytes_of(s, i, batch_lengths[i], together);
                    int32_t sentence = order[b + i];
                    same &= n == n_alone[sentence] && memcmp(together, alone[sentence], n) == 0;
                }
            }
        }
        CHECK(same && ends > 0 && ends < 32, "%-22s %d of 32 end by themselves, up to %d tokens",
              kinds[k].name, ends, most_tokens);
    }
    tfm_session_free(s), tfm_model_free(model);
}

/* ---- no allocation ---- */

static void no_allocation(void) {
    static const char vocabulary[] = "<pad>\n<s>\n</s>\n<unk>\na\nb\n";
    tiny t = tiny_default();
    test_allocator counter;
    tfm_allocator allocator = test_counting(&counter);
    tfm_session_options so;
    tfm_model *model;
    tfm_session *s = NULL;
    tfm_text in, out;
    char text[512];
    double scores[8];
    int32_t ids[] = {4, 5, 4, 5}, i, before;
    id_matrix src = tiny_batch(ids, NULL, 1, 4);
    int k;
    SECTION("the allocator after the session is made");
    t.vs = t.vt = 6, t.src = t.tgt = vocabulary;
    t.config = ", \"start\": 1, \"end\": 2, \"src_unk\": 3";
    model = tiny_model(t);
    memset(&so, 0, sizeof so);
    so.max_beam = 4, so.attention = 1, so.allocator = &allocator, so.max_target = 40;
    must(tfm_session_create(&s, model, &so, &err));
    before = counter.calls;
    in.data = "a b a", in.size = 5;
    for (i = 0; i < 50; i++)
        for (k = 0; k < N_KINDS; k++) {
            tfm_decode_options o = options_of(&kinds[k]);
            must(decode_rows(s, &src, NULL, &o, &err));
            must(translate_texts(s, &in, NULL, &out, 1, &o, text, sizeof text, &err));
            must(score_rows(s, &src, &src, 0, scores, &err));
        }
    CHECK(before == 1 && counter.calls == before, "%d calls for the session, %d for 500 sentences",
          before, counter.calls - before);
    tfm_session_free(s);
    CHECK(counter.live == 0, "all memory is released");
    tfm_model_free(model);
}

/* ---- sampling ---- */

/* Compares how often each first token occurs in n samples with n times its probability. Returns
   chi-squared, and marks in support the tokens that occur. */
static double chi_squared(tfm_session *s, const tfm_decode_options *options, const double *p, int n,
                          int *support) {
    id_matrix src = tiny_batch(source, NULL, 1, 6);
    tfm_decode_options o = *options;
    int count[V] = {0, 0, 0, 0, 0, 0}, i, v;
    int32_t k;
    uint64_t seed;
    double sum = 0;
    by_row with;
    memset(&with, 0, sizeof with);
    o.max_length = 1;
    for (i = 0; i < n; i += o.samples) {
        seed = (uint64_t)i, with.seeds = &seed;
        must(decode_rows(s, &src, &with, &o, &err));
        for (k = 0; k < o.samples; k++) {
            tfm_result r;
            memset(&r, 0, sizeof r);
            must(tfm_result_get(s, 0, k, &r, &err));
            count[r.length ? r.ids[0] : END]++;
        }
    }
    *support = 0;
    for (v = 0; v < V; v++) {
        if (count[v]) *support |= 1 << v;
        if (p[v] > 0) sum += (count[v] - n * p[v]) * (count[v] - n * p[v]) / (n * p[v]);
    }
    return sum;
}

/* Computes the requested distribution from the model's probabilities. */
static void shape(const double *log_p, double temperature, int top_k, double top_p, double *p) {
    int order[V], i, j, kept;
    double sum = 0, total = 0;
    for (i = 0; i < V; i++) order[i] = i;
    for (i = 0; i < V; i++)
        for (j = i + 1; j < V; j++)
            if (log_p[order[j]] > log_p[order[i]]) {
                int swap = order[i];
                order[i] = order[j], order[j] = swap;
            }
    kept = top_k ? top_k : V;
    for (i = 0; i < kept; i++) total += exp(log_p[order[i]] / temperature);
    for (i = 0; i < V; i++) {
        int in = i < kept && sum < top_p * total;
        p[order[i]] = in ? exp(log_p[order[i]] / temperature) : 0;
        if (in) sum += p[order[i]];
    }
    for (i = 0; i < V; i++) p[i] /= sum;
}

static void sampling(void) {
    static const struct {
        const char *name;
        double temperature;
        int top_k;
        double top_p;
    } cases[] = {{"all tokens", 1, 0, 1},
                 {"temperature 0.5", 0.5, 0, 1},
                 {"temperature 2", 2, 0, 1},
                 {"top 3", 1, 3, 1},
                 {"nucleus 0.6", 1, 0, 0.6},
                 {"nucleus 0.7 of the top 4", 1.3, 4, 0.7},
                 {"top 2 at temperature 3", 3, 2, 1}};
    tfm_model *model = small_model(5, "");
    tfm_session *s = wide_session(model, 2, 50, 12), *f = wide_session(model, 1, 1, MOST + 1);
    id_matrix src = tiny_batch(source, NULL, 1, 6);
    tfm_decode_options o = no_options();
    plain p = plain_of(model, f, o);
    double log_p[V], expected[V], chi, scores[MOST + 1], sum;
    tfm_result a, b;
    int support, wanted, c, v, same = 1, differ = 0;
    int32_t i, k;
    uint64_t seed = 9;
    by_row with;
    memset(&a, 0, sizeof a);
    memset(&b, 0, sizeof b);
    memset(&with, 0, sizeof with);
    SECTION("sampling: 20,000 first tokens against the model's distribution");
    plain_next(&p, NULL, 0, log_p);
    for (c = 0; c < (int)(sizeof cases / sizeof *cases); c++) {
        o = no_options();
        o.samples = 50;
        o.temperature = cases[c].temperature, o.top_k = cases[c].top_k, o.top_p = cases[c].top_p;
        shape(log_p, cases[c].temperature, cases[c].top_k, cases[c].top_p, expected);
        chi = chi_squared(s, &o, expected, 20000, &support);
        for (v = wanted = 0; v < V; v++)
            if (expected[v] > 0) wanted |= 1 << v;
        /* With 5 degrees of freedom chi-squared exceeds 20.5 once in 1,000 times; the seeds are
           fixed. */
        CHECK(chi < 20.5 && support == wanted, "%-26s chi-squared %.1f", cases[c].name, chi);
    }
    SECTION("samples");
    o = no_options();
    o.samples = 20, with.seeds = &seed;
    must(decode_rows(s, &src, &with, &o, &err));
    for (k = 0; k < 20; k++) {
        /* Sample k must not depend on the number of samples. */
        int32_t ids[MOST];
        id_matrix tgt;
        must(tfm_result_get(s, 0, k, &a, &err));
        memcpy(ids, a.ids, (size_t)a.length * 4);
        tgt = tiny_batch(ids, NULL, 1, a.length);
        must(score_rows(f, &src, &tgt, 0, scores, &err));
        for (i = 0, sum = 0; i < a.length + (a.finish == TFM_FINISH_ENDED); i++) sum += scores[i];
        same &= sum == a.log_probability && a.score == sum;
        must(tfm_result_get(s, 0, 0, &b, &err));
        differ += k && (a.length != b.length || memcmp(a.ids, b.ids, (size_t)a.length * 4) != 0);
    }
    CHECK(same, "the score of a sample is that of tfm_session_score");
    CHECK(differ > 10, "%d of 19 others differ from the first", differ);
    o.top_k = 1, o.samples = 3, o.max_length = 12;
    must(decode_rows(s, &src, NULL, &o, &err));
    o = no_options();
    o.max_length = 12;
    must(decode_rows(f, &src, NULL, &o, &err));
    must(tfm_result_get(f, 0, 0, &b, &err));
    for (k = 0, same = 1; k < 3; k++) {
        must(tfm_result_get(s, 0, k, &a, &err));
        same &= a.length == b.length && memcmp(a.ids, b.ids, (size_t)a.length * 4) == 0 &&
                a.score == b.score;
    }
    CHECK(same, "the top token is the greedy one, with the same score");
    {
        id_matrix prefix = tiny_batch(a_prefix, NULL, 1, 2);
        o = no_options();
        o.samples = 3, o.top_k = 1, o.max_length = 12, with.prefix = &prefix;
        o.repetition_penalty = 1.5;
        must(decode_rows(s, &src, &with, &o, &err));
        o.samples = o.top_k = 0;
        must(decode_rows(f, &src, &with, &o, &err));
        must(tfm_result_get(f, 0, 0, &b, &err));
        for (k = 0, same = 1; k < 3; k++) {
            must(tfm_result_get(s, 0, k, &a, &err));
            same &= a.score == b.score;
        }
        CHECK(same, "  after a prefix, with a repetition penalty, too");
    }
    tfm_session_free(s), tfm_session_free(f), tfm_model_free(model);
}

/* ---- alternatives ---- */

static void alternatives(void) {
    tfm_model *model = small_model(8, "");
    tfm_session *s = wide_session(model, 1, 8, 10), *f = wide_session(model, 1, 1, MOST + 1);
    id_matrix src = tiny_batch(source, NULL, 1, 6), prefix = tiny_batch(a_prefix, NULL, 1, 2);
    tfm_decode_options o = no_options();
    int32_t k, used = 0;
    int same = 1;
    double last = 0;
    by_row with;
    memset(&with, 0, sizeof with);
    SECTION("alternatives after a prefix");
    with.prefix = &prefix, o.alternatives = 6, o.max_length = 10;
    must(decode_rows(s, &src, &with, &o, &err));
    CHECK(tfm_result_count(s, 0) == 5, "the requested number, without the end token");
    for (k = 0; k < 5; k++) {
        tfm_decode_options greedy = no_options();
        int32_t id, begin[3], tokens = 3;
        double log_p[V], first;
        plain p = plain_of(model, f, no_options());
        tfm_result a, b;
        id_matrix forced;
        by_row own;
        memset(&own, 0, sizeof own);
        memset(&a, 0, sizeof a);
        memset(&b, 0, sizeof b);
        must(tfm_result_get(s, 0, k, &a, &err));
        id = a.length > 2 ? a.ids[2] : END;
        used |= 1 << id;
        plain_next(&p, a_prefix, 2, log_p);
        first = log_p[id];
        same &= memcmp(a.ids, a_prefix, sizeof a_prefix) == 0;
        same &= k == 0 || first <= last; /* in order of probability */
        last = first;
        /* the continuation is greedy */
        memcpy(begin, a_prefix, sizeof a_prefix), begin[2] = id;
        forced = tiny_batch(begin, NULL, 1, tokens);
        own.prefix = &forced, greedy.max_length = 10;
        must(decode_rows(f, &src, &own, &greedy, &err));
        must(tfm_result_get(f, 0, 0, &b, &err));
        same &= a.length == b.length && memcmp(a.ids, b.ids, (size_t)a.length * 4) == 0 &&
                fabs(a.score - (b.score + first)) < 1e-5 && a.finish == b.finish;
    }
    CHECK(same, "each begins with the prefix and continues greedily, best first");
    CHECK(used == ((1 << V) - 1 - (1 << END)),
          "each token of the vocabulary once, without the end token");
    o.alternatives = 8;
    must(decode_rows(s, &src, &with, &o, &err));
    CHECK(tfm_result_count(s, 0) == 5, "8 of a vocabulary of 6 are 5");
    tfm_session_free(s), tfm_session_free(f), tfm_model_free(model);
}

/* Each alternative continues as a search of its own, whose prefix includes the alternative's token
   and scores it in full. */
static void alternative_beams(void) {
    tfm_model *model = small_model(9, "");
    tfm_session *s = wide_session(model, 1, 15, 10), *f = wide_session(model, 1, 1, MOST + 1);
    id_matrix src = tiny_batch(source, NULL, 1, 6), prefix = tiny_batch(a_prefix, NULL, 1, 2);
    tfm_decode_options o = no_options();
    double log_p[V], most = 0;
    int32_t k, same = 1, few;
    plain p = plain_of(model, f, no_options());
    by_row with;
    memset(&with, 0, sizeof with);
    SECTION("alternatives with beams");
    with.prefix = &prefix, o.alternatives = 5, o.max_length = 10, o.beam = 3;
    must(decode_rows(s, &src, &with, &o, &err));
    plain_next(&p, a_prefix, 2, log_p);
    CHECK(tfm_result_count(s, 0) == 5, "each token, without the end token");
    for (k = 0; k < 5; k++) {
        hypotheses expected;
        int32_t begin[3];
        id_matrix forced;
        tfm_decode_options own = no_options();
        tfm_result r;
        memset(&r, 0, sizeof r);
        memset(&expected, 0, sizeof expected);
        must(tfm_result_get(s, 0, k, &r, &err));
        memcpy(begin, r.ids, sizeof begin);
        forced = tiny_batch(begin, NULL, 1, 3);
        own.beam = 3, own.max_length = 10;
        p = plain_of(model, f, own), p.with.prefix = &forced;
        plain_beam(&p, &expected);
        same &= begin[2] != END && r.length == expected.items[0].length &&
                memcmp(r.ids, expected.items[0].ids, (size_t)r.length * 4) == 0;
        most = test_max(most, fabs(r.score - expected.items[0].score - log_p[begin[2]]));
    }
    CHECK(same && most < 1e-5, "each is what a beam finds behind its token, within %.1g", most);
    o.min_alternative_prob = 0.15;
    for (k = few = 0; k < V; k++) few += k != END && exp(log_p[k]) >= 0.15;
    must(decode_rows(s, &src, &with, &o, &err));
    CHECK(tfm_result_count(s, 0) == few && few > 0 && few < 5, "%d are more probable than 0.15",
          (int)few);
    o.min_alternative_prob = 1;
    must(decode_rows(s, &src, &with, &o, &err));
    CHECK(tfm_result_count(s, 0) == 1, "the best one stays");
    tfm_session_free(s), tfm_session_free(f), tfm_model_free(model);
}

/* ---- scoring ---- */

static void scoring(void) {
    static const int32_t targets[3][5] = {{4, 5, 3, 0, 4}, {5, 0, 0, 0, 0}, {0, 0, 0, 0, 0}};
    static const int32_t lengths[] = {5, 1, 0};
    int32_t ids[3][6] = {{3, 4, 5, 6, 7, 8}, {9, 10, 3, 0, 0, 0}, {4, 4, 4, 4, 4, 4}}, b, i, k;
    int32_t src_lengths[] = {6, 3, 6};
    tfm_model *model = small_model(11, "");
    tfm_session *s = wide_session(model, 3, 1, MOST), *f = wide_session(model, 1, 1, MOST + 1);
    id_matrix src = tiny_batch(&ids[0][0], src_lengths, 3, 6);
    id_matrix tgt = tiny_batch(&targets[0][0], lengths, 3, 5);
    double got[18], alone[6], most = 0;
    int same = 1, zeros = 1;
    SECTION("scoring given targets");
    must(score_rows(s, &src, &tgt, 0, got, &err));
    for (b = 0; b < 3; b++) {
        plain p = plain_of(model, f, no_options());
        id_matrix one = tiny_batch(ids[b], NULL, 1, src_lengths[b]);
        id_matrix target = tiny_batch(targets[b], NULL, 1, lengths[b]);
        p.src = ids[b], p.n_src = src_lengths[b];
        for (i = 0; i <= lengths[b]; i++) {
            double log_p[V], d;
            plain_next(&p, targets[b], i, log_p);
            d = fabs(got[b * 6 + i] - log_p[i < lengths[b] ? targets[b][i] : END]);
            if (!(d <= most)) most = d;
        }
        for (i = lengths[b] + 1; i < 6; i++) zeros &= got[b * 6 + i] == 0;
        must(score_rows(f, &one, &target, 0, alone, &err));
        same &= memcmp(alone, got + b * 6, (size_t)(lengths[b] + 1) * sizeof *alone) == 0;
    }
    CHECK(most < 1e-5, "per token, the end token too: within %.1g of the forward pass", most);
    CHECK(same && zeros, "a row has the bits that it has alone, and zeros behind");
    for (k = 0, same = 1; k <= 5; k++) {
        double rest[18];
        must(score_rows(s, &src, &tgt, k, rest, &err));
        for (i = 0; i < 18; i++) same &= rest[i] == (i % 6 < k ? 0 : got[i]);
    }
    CHECK(same, "from an offset on: the same bits, and zeros before");
    CHECK_FAILS(score_rows(s, &src, &tgt, 6, got, &err), TFM_E_ARGUMENT,
                "offset is 6, tgt has 5 tokens a row");
    {
        tfm_decode_options o = no_options();
        id_matrix one = tiny_batch(ids[0], NULL, 1, 6);
        tfm_session *w = wide_session(model, 1, 4, MOST);
        o.beam = o.n_best = 4;
        must(decode_rows(w, &one, NULL, &o, &err));
        for (k = 0, same = 1; k < tfm_result_count(w, 0); k++) {
            tfm_result r;
            id_matrix target;
            double sum = 0, scores[MOST + 1];
            memset(&r, 0, sizeof r);
            must(tfm_result_get(w, 0, k, &r, &err));
            target = tiny_batch(r.ids, NULL, 1, r.length);
            must(score_rows(f, &one, &target, 0, scores, &err));
            for (i = 0; i < r.length + (r.finish == TFM_FINISH_ENDED); i++) sum += scores[i];
            same &= sum == r.log_probability;
        }
        CHECK(same && k == 4, "the scores of the search, bit for bit");
        tfm_session_free(w);
    }
    tfm_session_free(s), tfm_session_free(f), tfm_model_free(model);
    model = small_model(11, ", \"forced\": 4");
    s = wide_session(model, 3, 1, 5);
    tgt = tiny_batch(&targets[0][0], NULL, 1, 5), src.rows = 1;
    CHECK_FAILS(score_rows(s, &src, &tgt, 0, got, &err), TFM_E_TOO_LONG,
                "tgt: row 0 has 5 ids, expected 0 to 4");
    tgt.width = 4;
    must(score_rows(s, &src, &tgt, 0, got, &err));
    CHECK(got[0] == 0 && got[1] < 0, "a first token that the model forces scores 0");
    tfm_session_free(s), tfm_model_free(model);
}

/* ---- attention ---- */

/* Returns whether tfm_session_forward writes for n named heads what it writes for them among all
   heads. heads counts layers and heads from 1. */
static int same_named(const tfm_model *model, const int32_t *heads, int32_t n) {
    enum { ROWS = 2, T = 4, S = 4 };
    static const int32_t targets[ROWS * T] = {START, 5, 4, 3, START, 3, 5, 5};
    id_matrix src = tiny_batch(source, NULL, ROWS, S), tgt = tiny_batch(targets, NULL, ROWS, T);
    tfm_session *s = tiny_session(model, ROWS, S, T + 1);
    float all[2][ROWS][2][T][S], named[3][ROWS][T + 1][S], logits[ROWS * T * V];
    tfm_tensor out = tfm_tensor_3d(logits, TFM_DTYPE_F32, ROWS, T, V);
    tfm_forward_options f;
    int64_t dims[5] = {2, ROWS, 2, T, S};
    int32_t k, b;
    int same = 1;
    memset(&f, 0, sizeof f), memset(named, 0, sizeof named);
    f.cross_attention = tfm_tensor_make(all, TFM_DTYPE_F32, 5, dims);
    must(forward_rows(s, &src, &tgt, &f, &out, &err));
    f.alignment_heads = 1;
    CHECK_FAILS(forward_rows(s, &src, &tgt, &f, &out, &err), TFM_E_SHAPE, "cross_attention");
    f.cross_attention = tfm_tensor_4d(named, TFM_DTYPE_F32, n, ROWS, T, S);
    f.cross_attention.strides[1] = (T + 1) * S, f.cross_attention.strides[0] = ROWS * (T + 1) * S;
    must(forward_rows(s, &src, &tgt, &f, &out, &err));
    for (k = 0; k < n; k++)
        for (b = 0; b < ROWS; b++)
            same &= !memcmp(named[k][b], all[heads[2 * k] - 1][b][heads[2 * k + 1] - 1],
                            sizeof all[0][0][0]) &&
                    named[k][b][T][0] == 0 && named[k][b][0][0] > 0;
    tfm_session_free(s);
    return same;
}

/* By default attention is the mean over the heads that the model names, in any layers. */
static void named_heads(void) {
    static const char *const named[] = {"[[1, 1]]", "[[0, 1], [0, 0]]", "[[0, 1], [1, 0], [1, 1]]"};
    static const int32_t heads[3][6] = {{2, 2}, {1, 2, 1, 1}, {1, 2, 2, 1, 2, 2}},
                         counts[] = {1, 2, 3};
    id_matrix src = tiny_batch(source, NULL, 1, 6);
    float got[MOST * SOURCE], one[MOST * SOURCE];
    double most = 0;
    int32_t i, k, n = 0;
    int z, same = 0;
    tfm_result r;
    memset(&r, 0, sizeof r);
    for (z = 0; z < 3; z++) {
        double mean[MOST * SOURCE] = {0};
        char more[80];
        tfm_model *model;
        tfm_session *s;
        tfm_tensor out;
        snprintf(more, sizeof more, ", \"alignment_heads\": %s", named[z]);
        model = small_model(14, more);
        s = wide_session(model, 1, 3, MOST);
        for (k = -1; k < counts[z]; k++) {
            tfm_decode_options o = no_options();
            o.beam = 3, o.min_length = 6;
            if (k >= 0) o.attention_layer = heads[z][2 * k], o.attention_head = heads[z][2 * k + 1];
            must(decode_rows(s, &src, NULL, &o, &err));
            must(tfm_result_get(s, 0, 0, &r, &err));
            out = tfm_tensor_2d(k < 0 ? got : one, TFM_DTYPE_F32, r.length, 6);
            must(tfm_result_attention(s, 0, 0, &out, &err));
            for (i = 0; k >= 0 && i < 6 * r.length; i++) mean[i] += (double)one[i] / counts[z];
        }
        for (i = 0; i < 6 * r.length; i++, n++)
            most = test_max(most, fabs((double)got[i] - mean[i]));
        same += same_named(model, heads[z], counts[z]);
        tfm_session_free(s), tfm_model_free(model);
    }
    CHECK(n > 100 && most < 1e-6, "heads that the model names, in one layer or two: within %.1g",
          most);
    CHECK(same == 3,
          "tfm_session_forward writes the attention of these heads alone, with the same bits");
}

static void attention(void) {
    static const int32_t layers[] = {0, 1, 2, 0, 1}, heads[] = {0, 0, 0, 2, 1};
    tfm_model *model = small_model(14, ", \"src_start\": 3, \"src_end\": 5");
    tfm_session *s = wide_session(model, 1, 3, MOST), *f = wide_session(model, 1, 1, MOST + 1);
    tfm_session *without = tiny_session(model, 1, SOURCE, MOST);
    id_matrix src = tiny_batch(source, NULL, 1, 6);
    double most = 0, expected[(MOST + 1) * SOURCE];
    float weights[MOST * SOURCE], logits[V];
    int32_t pairs[MOST], i, x, k;
    int z, right = 1, rows = 0;
    tfm_tensor out;
    tfm_result r;
    memset(&r, 0, sizeof r);
    SECTION("attention");
    for (z = 0; z < 5; z++) {
        tfm_decode_options o = no_options();
        o.beam = o.n_best = 3, o.attention_layer = layers[z], o.attention_head = heads[z];
        must(decode_rows(s, &src, NULL, &o, &err));
        for (k = 0; k < 3; k++) {
            plain p = plain_of(model, f, o);
            must(tfm_result_get(s, 0, k, &r, &err));
            out = tfm_tensor_2d(weights, TFM_DTYPE_F32, r.length, 6);
            must(tfm_result_attention(s, 0, k, &out, &err));
            must(tfm_result_alignment(s, 0, k, pairs, &err));
            plain_pass(&p, r.ids, r.length, logits, expected);
            for (i = 0; i < r.length; i++) {
                int32_t best =
                    1; /* The first and the last source tokens are the start and the end token. */
                for (x = 0; x < 6; x++) {
                    double d = fabs((double)weights[i * 6 + x] - expected[i * 6 + x]);
                    if (!(d <= most)) most = d;
                    if (x > 0 && x < 5 && weights[i * 6 + x] > weights[i * 6 + best]) best = x;
                }
                right &= pairs[i] == best, rows++;
            }
        }
    }
    CHECK(most < 1e-6 && rows > (ssru ? 10 : 20),
          "%d rows of hypotheses that forked: within %.1g of the forward "
          "pass, any layer and head",
          rows, most);
    CHECK(right, "alignments are the largest weights between the start and the end token");
    named_heads();
    out = tfm_tensor_2d(weights, TFM_DTYPE_F32, 1, 5);
    CHECK_FAILS(tfm_result_attention(s, 0, 0, &out, &err), TFM_E_SHAPE, "out is [1, 5], expected");
    must(decode_rows(without, &src, NULL, NULL, &err));
    CHECK_FAILS(tfm_result_alignment(without, 0, 0, pairs, &err), TFM_E_STATE,
                "the session was made without attention");
    tfm_session_free(s), tfm_session_free(f), tfm_session_free(without), tfm_model_free(model);
}

/* ---- the end token in results, prefixes and sources that are too long ---- */

static void ends_and_cuts(void) {
    tfm_model *model = small_model(11, ", \"src_end\": 5");
    tfm_session *s = wide_session(model, 1, 4, 8), *small;
    int32_t ids[12] = {3, 4, 6, 7, 8, 9, 10, 3, 4, 6, 7, 5}, lengths[] = {12, 4}, k, n, same = 1;
    int32_t cut[2][6] = {{3, 4, 6, 7, 8, 5}, {3, 4, 6, 5, 0, 0}}, cut_lengths[] = {6, 4};
    int32_t both[2][12] = {{3, 4, 6, 7, 8, 9, 10, 3, 4, 6, 7, 5}, {3, 4, 6, 5}};
    id_matrix src = tiny_batch(source, NULL, 1, 6), prefix;
    tfm_decode_options o = no_options();
    tfm_result a, b;
    static char x[8192], y[8192];
    float weights[MOST * SOURCE];
    tfm_tensor out;
    by_row with;
    memset(&a, 0, sizeof a), memset(&b, 0, sizeof b), memset(&with, 0, sizeof with);
    SECTION("ends, prefixes and sources that are cut");
    o.beam = o.n_best = 4, o.max_length = 8, o.length_penalty = -1;
    for (k = n = 0; k < 4; k++) {
        int32_t kept[MOST];
        o.keep_end = 0;
        must(decode_rows(s, &src, NULL, &o, &err));
        must(tfm_result_get(s, 0, k, &a, &err));
        memcpy(kept, a.ids, (size_t)a.length * 4);
        o.keep_end = 1;
        must(decode_rows(s, &src, NULL, &o, &err));
        must(tfm_result_get(s, 0, k, &b, &err));
        out = tfm_tensor_2d(weights, TFM_DTYPE_F32, b.length, 6);
        must(tfm_result_attention(s, 0, k, &out, &err));
        same &= memcmp(kept, b.ids, (size_t)a.length * 4) == 0 && a.score == b.score;
        same &= b.length == a.length + (a.finish == TFM_FINISH_ENDED);
        if (a.finish == TFM_FINISH_ENDED) same &= b.ids[a.length] == END, n++;
        for (a.length = 0; a.length < 6 * b.length; a.length++)
            same &= weights[a.length] >= 0 && weights[a.length] <= 1;
    }
    CHECK(same && n, "%d of 4 results with the end token, and its attention", (int)n);
    o = no_options();
    prefix = tiny_batch(ids, NULL, 1, 5);
    ids[4] = 0, ids[2] = ids[3] = 3;
    for (k = 0; k < 3; k++) {
        with.prefix = &prefix, o.max_length = 3, o.alternatives = k == 1 ? 2 : 0;
        o.samples = k == 2 ? 2 : 0;
        must(decode_rows(s, &src, &with, &o, &err));
        must(tfm_result_get(s, 0, 0, &a, &err));
        CHECK(tfm_result_count(s, 0) == 1 && a.length == 3 && a.finish == TFM_FINISH_HIT_LENGTH &&
                  memcmp(a.ids, ids, 12) == 0 && a.score == 0,
              "a prefix of 5 is cut to a max_length of 3");
    }
    o = no_options();
    o.min_length = o.max_length = 4;
    must(decode_rows(s, &src, NULL, &o, &err));
    must(tfm_result_get(s, 0, 0, &a, &err));
    CHECK(a.length == 4 && a.finish == TFM_FINISH_HIT_LENGTH,
          "min_length = max_length: exactly that length");
    /* sources that are too long */
    tfm_session_free(s);
    s = wide_session(model, 2, 1, 40);
    small = wide_session(model, 2, 1, 40);
    src = tiny_batch(&both[0][0], lengths, 2, 12);
    CHECK_FAILS(decode_rows(s, &src, NULL, NULL, &err), TFM_E_TOO_LONG, "src has 12 tokens");
    o = no_options();
    o.truncate = 6;
    must(decode_rows(s, &src, NULL, &o, &err));
    src = tiny_batch(&cut[0][0], cut_lengths, 2, 6);
    must(decode_rows(small, &src, NULL, NULL, &err));
    for (k = 0, same = 1; k < 2; k++) {
        size_t size = bytes_of(s, k, cut_lengths[k], x);
        same &= size == bytes_of(small, k, cut_lengths[k], y) && memcmp(x, y, size) == 0;
        must(tfm_result_get(s, k, 0, &a, &err));
        must(tfm_result_get(small, k, 0, &b, &err));
        same &= a.left_out == (k ? 0 : 6) && b.left_out == 0;
    }
    CHECK(same, "a source of 12 tokens, cut to 5 and its end: as if given so");
    o.truncate = 1000;
    src = tiny_batch(&both[0][0], lengths, 2, 12);
    must(decode_rows(s, &src, NULL, &o, &err));
    must(tfm_result_get(s, 0, 0, &a, &err));
    CHECK(a.left_out == 12 - SOURCE, "never more than max_source: %d left out", (int)a.left_out);
    tfm_session_free(s), tfm_session_free(small), tfm_model_free(model);
}

/* ---- control of a running decode ---- */

/* A stopped row keeps its hypotheses so far, and the other rows get the results that they have
   without the stop. The logits of a hypothesis must be the forward pass's. */
static void stopping(void) {
    tfm_model *model = small_model(21, "");
    tfm_session *s = wide_session(model, 2, 4, MOST), *f = wide_session(model, 1, 1, MOST + 1),
                *whole = wide_session(model, 2, 4, MOST);
    int32_t ids[] = {3, 7, 4, 9, 10, 5, 9, 10, 3, 4, 5, 6}, running = 1, steps = 0, k, v, got = 0;
    id_matrix src = tiny_batch(ids, NULL, 2, 6);
    tfm_decode_options o = no_options();
    double most = 0, weights[(MOST + 1) * SOURCE];
    float logits[V];
    static char a[8192], b[8192];
    size_t n;
    int same = 1, way;
    SECTION("stopping a row, and a hypothesis's logits");
    CHECK_FAILS(tfm_session_stop(s, 0, &err), TFM_E_STATE,
                "call tfm_session_start or tfm_session_decode first");
    for (way = 0; way < 3; way++) {
        o = no_options();
        if (way == 0) o.beam = o.n_best = 4, o.stop = TFM_STOP_EARLY_NEVER;
        if (way == 1) o.samples = 3;
        if (way == 2) o.alternatives = 2, o.beam = 2;
        o.min_length = 4, o.max_length = MOST;
        must(decode_rows(whole, &src, NULL, &o, &err));
        must(start_rows(s, &src, NULL, &o, &err));
        same &= tfm_result_logits(s, 0, 0) == NULL;
        for (running = 1, steps = 0; running; steps++) {
            must(tfm_session_step(s, &running, &err));
            for (k = 0; k < tfm_result_count(s, 0); k++) {
                const float *theirs = tfm_result_logits(s, 0, k);
                plain p = plain_of(model, f, o);
                tfm_result r;
                memset(&r, 0, sizeof r);
                must(tfm_result_get(s, 0, k, &r, &err));
                if (r.length + (r.finish == TFM_FINISH_ENDED) != steps + 1) {
                    same &= steps >= 4 || theirs == NULL;
                    continue;
                }
                if (steps >= 4) continue;
                plain_pass(&p, r.ids, steps, logits, weights);
                for (v = 0; v < V && theirs; v++)
                    most = test_max(most, fabs((double)theirs[v] - (double)logits[v])), got++;
            }
            if (steps == 3) {
                int32_t before = tfm_result_count(s, 0);
                must(tfm_session_stop(s, 0, &err));
                must(tfm_session_stop(s, 0, &err));
                same &= tfm_result_count(s, 0) == before;
                for (k = 0; k < tfm_result_count(s, 0); k++) {
                    tfm_result r;
                    memset(&r, 0, sizeof r);
                    must(tfm_result_get(s, 0, k, &r, &err));
                    same &= r.finish == TFM_FINISH_STOPPED && r.length == 4;
                }
                must(tfm_session_step(s, &running, &err));
                same &= tfm_result_logits(s, 0, 0) == NULL;
                steps++;
            }
        }
        n = bytes_of(s, 1, 6, a);
        same &= n == bytes_of(whole, 1, 6, b) && memcmp(a, b, n) == 0;
    }
    CHECK(same, "a beam, samples, alternatives: stopped after 4 steps, the other row is unchanged");
    CHECK(most < 1e-5 && got > 100, "%d logits within %.1g of the forward pass", (int)got, most);
    CHECK_FAILS(tfm_session_stop(s, 2, &err), TFM_E_ARGUMENT,
                "request is 2, expected 0 to 1: there are 2 requests");
    tfm_session_free(s), tfm_session_free(f), tfm_session_free(whole), tfm_model_free(model);
}

static void driving(void) {
    tfm_model *model = small_model(17, "");
    tfm_session *s = wide_session(model, 2, 4, 20), *whole = wide_session(model, 2, 4, 20);
    int32_t ids[] = {3, 4, 5, 6, 7, 8, 9, 10, 3, 4, 5, 6}, running = 1, steps = 0, k, row;
    id_matrix src = tiny_batch(ids, NULL, 2, 6), bad = src;
    tfm_decode_options o = no_options(), wrong = no_options();
    int shrinks = 0, sane = 1, before = 2, same = 1;
    SECTION("step by step");
    o.beam = o.n_best = 4, o.length_penalty = 1;
    must(start_rows(s, &src, NULL, &o, &err));
    CHECK(tfm_result_count(s, 0) == 1 && tfm_result_count(s, 2) == 0, "one empty hypothesis");
    for (; running; steps++) {
        must(tfm_session_step(s, &running, &err));
        shrinks += running < before, before = running;
        for (row = 0; row < 2; row++)
            for (k = 0; k < tfm_result_count(s, row); k++) {
                tfm_result r;
                memset(&r, 0, sizeof r);
                must(tfm_result_get(s, row, k, &r, &err));
                sane &= r.finish == TFM_FINISH_RUNNING ? r.length == steps + 1
                                                       : r.length <= steps + 1;
                sane &= r.score <= 0;
            }
        wrong.beam = 5; /* A refused call must leave the decode unchanged. */
        sane &= start_rows(s, &src, NULL, &wrong, &err) == TFM_E_TOO_LONG;
        bad.ids = NULL;
        sane &= start_rows(s, &bad, NULL, &o, &err) == TFM_E_ARGUMENT;
    }
    CHECK(sane && shrinks, "%d steps with hypotheses to look at after each", steps);
    must(decode_rows(whole, &src, NULL, &o, &err));
    for (row = 0; row < 2; row++) {
        static char a[8192], b[8192];
        size_t n = bytes_of(s, row, 6, a);
        same &= n == bytes_of(whole, row, 6, b) && memcmp(a, b, n) == 0;
    }
    CHECK(same, "give what one call gives");
    CHECK(tfm_session_step(s, &running, &err) == TFM_OK && running == 0, "a step after the end");
    tfm_session_free(s), tfm_session_free(whole), tfm_model_free(model);
}

static void stuck(void) {
    static const int32_t everything[] = {0, 1, 2, 3, 4, 5};
    tfm_model *model = small_model(3, "");
    tfm_session *s = wide_session(model, 1, 3, 20);
    id_matrix src = tiny_batch(source, NULL, 1, 6);
    tfm_decode_options o = no_options();
    tfm_result r;
    memset(&r, 0, sizeof r);
    SECTION("nothing left");
    o.suppressed = everything, o.n_suppressed = 6;
    must(decode_rows(s, &src, NULL, &o, &err));
    must(tfm_result_get(s, 0, 0, &r, &err));
    CHECK(r.finish == TFM_FINISH_STUCK && r.length == 0,
          "everything forbidden: the decode is stuck at once");
    o.samples = 3;
    must(decode_rows(s, &src, NULL, &o, &err));
    must(tfm_result_get(s, 0, 2, &r, &err));
    CHECK(r.finish == TFM_FINISH_STUCK && r.length == 0, "every sample is stuck too");
    o.samples = 0, o.alternatives = 2;
    must(decode_rows(s, &src, NULL, &o, &err));
    must(tfm_result_get(s, 0, 0, &r, &err));
    CHECK(tfm_result_count(s, 0) == 1 && r.finish == TFM_FINISH_STUCK, "one alternative is left");
    o = no_options();
    o.beam = o.n_best = 3, o.max_length = 1, o.suppressed = everything, o.n_suppressed = V - 2;
    must(decode_rows(s, &src, NULL, &o, &err));
    CHECK(tfm_result_count(s, 0) == 2, "n_best 3 where 2 hypotheses exist: %d results",
          (int)tfm_result_count(s, 0));
    must(tfm_result_get(s, 0, 0, &r, &err));
    CHECK(tfm_result_get(s, 0, 2, &r, &err) == TFM_E_ARGUMENT, "the third does not exist");
    o = no_options();
    o.min_length = 18;
    must(decode_rows(s, &src, NULL, &o, &err)); /* 2 * 6 + 16 is more than the session's limit. */
    must(tfm_result_get(s, 0, 0, &r, &err));
    CHECK(r.length >= 18, "min_length is reached where the source is short");
    o.no_repeat_ngram = 1, o.min_length = 19, o.beam = 3;
    must(decode_rows(s, &src, NULL, &o, &err));
    must(tfm_result_get(s, 0, 0, &r, &err));
    CHECK(r.finish == TFM_FINISH_STUCK && r.length == V - 1,
          "every token once, and no end: %d tokens", (int)r.length);
    tfm_session_free(s), tfm_model_free(model);
}

/* The decoding options of a model file must have the effect of the same options in a call. */
static void defaults(void) {
    static const int32_t forbidden[] = {0}, ends[] = {4, 2}, rows[] = {4, 5, 3, 5, 0, 0},
                         lengths[] = {3, 1};
    tfm_model *without = small_model(3, ", \"decoding\": {}"),
              *model = small_model(
                  3, ", \"decoding\": {\"beam\": 3, \"length_penalty\": 0.6, \"patience\": 1.5, "
                     "\"stop\": \"sure\", \"max_length\": 11, \"min_length\": 2, "
                     "\"no_repeat_ngram\": 2, \"repetition_penalty\": 1.25, \"repetition\": "
                     "\"hugging_face\", \"force_end\": 1, \"no_unknown\": 1, \"forbidden\": [0], "
                     "\"forbidden_sequences\": [[4, 5, 3], [5]], \"end_ids\": [4, 2]}");
    tfm_session *s = wide_session(model, 1, 3, MOST);
    id_matrix src = tiny_batch(source, NULL, 1, 6), sequences = tiny_batch(rows, lengths, 2, 3);
    tfm_decode_options o, expected = no_options();
    static char a[8192], b[8192];
    tfm_ids lists[2];
    size_t n;
    SECTION("decoding options in the model file");
    memset(&o, 1, sizeof o);
    o = *tfm_model_decoding(without);
    CHECK(memcmp(&o, &expected, sizeof o) == 0, "an empty object: greedy");
    CHECK(tfm_model_decoding(NULL) == NULL, "no model: NULL");
    o = *tfm_model_decoding(model);
    expected.beam = 3, expected.length_penalty = 0.6, expected.patience = 1.5;
    expected.stop = TFM_STOP_EARLY_NEVER, expected.max_length = 11, expected.min_length = 2;
    expected.no_repeat_ngram = 2, expected.repetition_penalty = 1.25, expected.force_end = 1;
    expected.repetition = TFM_REPETITION_HUGGING_FACE, expected.no_unknown = 1;
    expected.suppressed = o.suppressed, expected.n_suppressed = 1;
    expected.suppressed_sequences = o.suppressed_sequences, expected.n_suppressed_sequences = 2;
    expected.end_ids = o.end_ids, expected.n_end_ids = 2;
    CHECK(memcmp(&o, &expected, sizeof o) == 0, "all options");
    expected.suppressed = forbidden, expected.end_ids = ends,
    suppress_rows(&expected, &sequences, lists);
    must(decode_rows(s, &src, NULL, &o, &err)), n = bytes_of(s, 0, 6, a);
    must(decode_rows(s, &src, NULL, &expected, &err));
    CHECK(n == bytes_of(s, 0, 6, b) && memcmp(a, b, n) == 0, "lists of tokens");
    must(decode_rows(s, &src, NULL, NULL, &err));
    CHECK(n != bytes_of(s, 0, 6, b) || memcmp(a, b, n) != 0, "without options a decode is greedy");
    tfm_session_free(s), tfm_model_free(model), tfm_model_free(without);
}

static void arguments(void) {
    static const int32_t beyond[] = {3, 6}, ends_too_long[2][8] = {{3, 4, 5, 3, 4, 5, 3, 4}};
    tfm_model *model = small_model(3, "");
    tfm_session *s = wide_session(model, 2, 3, 8),
                *plain_session = tiny_session(model, 1, SOURCE, 8);
    int32_t two[] = {3, 4, 5, 6, 3, 4};
    id_matrix src = tiny_batch(two, NULL, 2, 3), prefix = tiny_batch(beyond, NULL, 1, 2);
    tfm_ids sequence;
    tfm_decode_options o;
    by_row with;
    tfm_session_options so;
    size_t bytes = 0;
    SECTION("arguments");
#define REFUSED(change, status, says)                                                              \
    do {                                                                                           \
        o = no_options(), memset(&with, 0, sizeof with);                                           \
        o.change;                                                                                  \
        CHECK_FAILS(start_rows(s, &src, &with, &o, &err), status, says);                           \
    } while (0)
#define REFUSED_ROW(change, status, says) REFUSED(beam = 0; with.change, status, says)
    REFUSED(beam = 4, TFM_E_TOO_LONG, "beam is 4, the session's max_beam 3");
    REFUSED(samples = 4, TFM_E_TOO_LONG, "samples is 4, the session's max_beam 3");
    REFUSED(alternatives = 9, TFM_E_TOO_LONG, "alternatives is 9, the session's max_beam 3");
    REFUSED(beam = -1, TFM_E_ARGUMENT, "beam is out of range");
    REFUSED(n_best = 2, TFM_E_ARGUMENT, "n_best is 2, expected 0 to 1: a beam of 1 gives so many");
    REFUSED(max_length = 9, TFM_E_TOO_LONG, "max_length is 9, the session's max_target 8");
    REFUSED(min_length = 9, TFM_E_TOO_LONG, "min_length is 9, the session's max_target 8");
    REFUSED(min_length = 6; o.max_length = 5, TFM_E_ARGUMENT, "min_length is 6, max_length 5");
    REFUSED(length_penalty = NAN, TFM_E_ARGUMENT, "length_penalty is out of range");
    REFUSED(coverage_penalty = -1, TFM_E_ARGUMENT, "coverage_penalty is out of range");
    REFUSED(patience = INFINITY, TFM_E_ARGUMENT, "patience is out of range");
    REFUSED(temperature = -1, TFM_E_ARGUMENT, "temperature is out of range");
#ifndef __cplusplus /* compilers whose enum types cannot hold -1 */
    REFUSED(stop = (tfm_stop)99, TFM_E_ARGUMENT, "stop is out of range");
    REFUSED(repetition = (tfm_repetition)2, TFM_E_ARGUMENT, "repetition is out of range");
#endif
    REFUSED(force_end = 2, TFM_E_ARGUMENT, "force_end is out of range: it takes 0 to 1");
    REFUSED(top_p = 1.5, TFM_E_ARGUMENT, "top_p is out of range: it takes 0 to 1");
    REFUSED(top_k = -3, TFM_E_ARGUMENT, "top_k is out of range");
    REFUSED(repetition_penalty = NAN, TFM_E_ARGUMENT, "repetition_penalty is out of range");
    REFUSED(no_repeat_ngram = -1, TFM_E_ARGUMENT, "no_repeat_ngram is out of range");
    REFUSED(attention_layer = 3, TFM_E_ARGUMENT,
            "attention_layer is out of range: it takes 0 to 2");
    REFUSED(attention_head = 3, TFM_E_ARGUMENT, "attention_head is out of range: it takes 0 to 2");
    REFUSED(n_suppressed = 2, TFM_E_ARGUMENT, "suppressed: 2 ids, but it is NULL");
    REFUSED(suppressed = beyond; o.n_suppressed = 2, TFM_E_TOKEN, "suppressed: position 1: id 6");
    REFUSED(end_ids = beyond; o.n_end_ids = 2, TFM_E_TOKEN, "end_ids: position 1: id 6");
    REFUSED_ROW(first = beyond, TFM_E_TOKEN, "request 1: first_token: position 0: id 6");
    REFUSED(samples = 2; o.alternatives = 2, TFM_E_ARGUMENT, "choose one");
    REFUSED(samples = 2; o.prefix_bias = 0.5, TFM_E_ARGUMENT, "prefix_bias needs beam search");
    prefix = tiny_batch(beyond, NULL, 2, 1);
    REFUSED_ROW(prefix = &prefix, TFM_E_TOKEN, "request 1: prefix: position 0: id 6");
    prefix = tiny_batch(&ends_too_long[0][0], NULL, 2, 8);
    REFUSED_ROW(prefix = &prefix, TFM_E_TOO_LONG,
                "request 0: 8 tokens are forced, but max_target leaves room for 8");
    REFUSED(beam = 2; o.n_best = 4;
            o.patience = 2, TFM_E_TOO_LONG, "n_best is 4, the session's max_beam 3");
    REFUSED(beam = 2; o.alternatives = 2, TFM_E_TOO_LONG, "alternatives * beam is 4");
    REFUSED(min_alternative_prob = 1.5, TFM_E_ARGUMENT, "min_alternative_prob is out of range");
    REFUSED(truncate = -1, TFM_E_ARGUMENT, "truncate is out of range");
    REFUSED(keep_end = 2, TFM_E_ARGUMENT, "keep_end is out of range: it takes 0 to 1");
    prefix.width = -1;
    REFUSED_ROW(prefix = &prefix, TFM_E_ARGUMENT, "request 0: prefix: -1 ids");
    prefix = tiny_batch(beyond, NULL, 1, 2);
    REFUSED(beam = 0; suppress_rows(&o, &prefix, &sequence), TFM_E_TOKEN,
                      "suppressed_sequences: row 0, position 1");
    prefix = tiny_batch(beyond, NULL, 1, 0);
    REFUSED(beam = 0; suppress_rows(&o, &prefix, &sequence), TFM_E_ARGUMENT,
                      "suppressed_sequences: row 0 has 0 ids");
    REFUSED(n_suppressed_sequences = 1, TFM_E_ARGUMENT, "1 lists, but it is NULL");
    REFUSED(n_suppressed_sequences = -1, TFM_E_ARGUMENT, "-1 lists, expected 0 or more");
#undef REFUSED
#undef REFUSED_ROW
    o = no_options();
    o.coverage_penalty = 0.5, src.rows = 1;
    CHECK_FAILS(start_rows(plain_session, &src, NULL, &o, &err), TFM_E_ARGUMENT,
                "need a session with attention");
    memset(&so, 0, sizeof so);
    so.max_beam = INT32_MAX, so.max_batch = 2;
    CHECK_FAILS(tfm_session_bytes(model, &so, &bytes, &err), TFM_E_ARGUMENT, "max_beam 2147483647");
    so.max_beam = -1;
    CHECK_FAILS(tfm_session_bytes(model, &so, &bytes, &err), TFM_E_ARGUMENT, "max_beam -1");
    so.max_beam = 0, so.cache = TFM_DTYPE_BF16;
    CHECK_FAILS(tfm_session_bytes(model, &so, &bytes, &err), TFM_E_ARGUMENT,
                "cache is BF16, expected F32 or F16");
    so.cache = TFM_DTYPE_F16, so.encoder_attention = TFM_DTYPE_F16;
    CHECK_FAILS(tfm_session_bytes(model, &so, &bytes, &err), TFM_E_ARGUMENT,
                "encoder_attention is F16, expected F32 or BF16");
    so.cache = (tfm_dtype)TFM_DTYPE_COUNT;
    CHECK_FAILS(tfm_session_bytes(model, &so, &bytes, &err), TFM_E_ARGUMENT, "cache is ?");
    tfm_session_free(s), tfm_session_free(plain_session), tfm_model_free(model);
}

int main(void) {
    exhaustive();
    narrow();
    same_bits();
    no_allocation();
    sampling();
    alternatives();
    alternative_beams();
    scoring();
    attention();
    ends_and_cuts();
    driving();
    stopping();
    stuck();
    defaults();
    arguments();
    SECTION("keys and values in F16, and an encoder's attention in BF16:");
    cache = TFM_DTYPE_F16, encoder_attention = TFM_DTYPE_BF16;
    narrow();
    same_bits();
    alternatives();
    scoring();
    attention();
    driving();
    for (t5 = 2; t5; t5--) {
        SECTION(t5 == 2 ? "relative positions of each layer, and gates:"
                        : "relative positions of all layers, and gates:");
        cache = t5 == 2 ? TFM_DTYPE_F16 : TFM_DTYPE_F32, encoder_attention = TFM_DTYPE_F32;
        narrow();
        same_bits();
        alternatives();
        scoring();
    }
    for (ssru = 3; ssru; ssru--) {
        SECTION(ssru == 3   ? "decoder layers that are SSRUs: all"
                : ssru == 2 ? "decoder layers that are SSRUs: 2"
                            : "decoder layers that are SSRUs: 1");
        cache = ssru == 2 ? TFM_DTYPE_F16 : TFM_DTYPE_F32, encoder_attention = TFM_DTYPE_F32;
        narrow();
        same_bits();
        alternatives();
        scoring();
        attention();
        driving();
    }
    return test_done("test_search");
}
