/* bench.c: measures how fast the library is on this machine, and how fast it could be.

       cc -O2 -I. -Itools tools/bench/bench.c -o bench -lm
       bench [--threads N] [--weights int8]  Transformer base with random weights
       bench MODEL < lines                   your model on your text
       bench MODEL --ids                     your model on random tokens

   The usage text below defines what is measured. One run measures workloads and ceilings, because
   machines differ, and a shared machine differs from hour to hour. Compare percentages, not
   times. */

#include "output.h"

#include <stdarg.h>
#include <stdint.h>

/* The operations that TFM__COUNT reported since this was set to 0, in all threads. */
static int64_t counted;
#ifdef __GNUC__
#define TFM__COUNT(n) ((void)__atomic_fetch_add(&counted, (int64_t)(n), __ATOMIC_RELAXED))
#else
#define TFM__COUNT(n) ((void)(counted += (int64_t)(n)))
#endif

static void change_part(int part);
#define TFM__PART(part) change_part(TFM__PART_##part)

#define TRANSFORMER_IMPLEMENTATION
#include "transformer.h"
#include "arithmetic.h"
#include "ceilings.h"
#include "options.h"
#include "random_model.h"
#include "times.h"
#ifndef _WIN32
#include <sys/resource.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>
#endif

enum { MOST_THREADS = 64, DEFAULT_VOCABULARY = 32000, FIRST_WORD = 4 };
#define MB (1024.0 * 1024.0)

typedef enum kind { ENCODE, FORWARD, DECODE, LOAD, PRODUCT } kind;

typedef struct workload {
    const char *name;
    kind of;
    int32_t rows, source, target, beam, vocabulary;
} workload;

static const workload workloads[] = {
    /* First, because its processes are forked from this one, and their peak of memory includes what
       this process has used so far. */
    {"load", LOAD, 1, 32, 64, 1, DEFAULT_VOCABULARY},
    {"encode-1x32", ENCODE, 1, 32, 0, 1, DEFAULT_VOCABULARY},
    {"encode-1x128", ENCODE, 1, 128, 0, 1, DEFAULT_VOCABULARY},
    {"encode-8x128", ENCODE, 8, 128, 0, 1, DEFAULT_VOCABULARY},
    {"encode-1x512", ENCODE, 1, 512, 0, 1, DEFAULT_VOCABULARY},
    {"greedy-1", DECODE, 1, 32, 64, 1, DEFAULT_VOCABULARY},
    {"beam4-1", DECODE, 1, 32, 64, 4, DEFAULT_VOCABULARY},
    {"greedy-32", DECODE, 32, 32, 64, 1, DEFAULT_VOCABULARY},
    {"beam4-16", DECODE, 16, 32, 64, 4, DEFAULT_VOCABULARY},
    {"forward-32x10-32x20", FORWARD, 32, 10, 20, 1, 10000},
    /* only a product: y [rows, target] = x [rows, source] w^T */
    {"product-128x512x2048", PRODUCT, 128, 512, 2048, 1, 0},
    {"product-2048x2048x2048", PRODUCT, 2048, 2048, 2048, 1, 0},
};
enum { N_WORKLOADS = sizeof workloads / sizeof *workloads };

/* Types of matrices; the index is a tfm_weight_type. */
static const struct {
    const char *name;
    tfm_dtype dtype;
} weight_types[] = {{"weights as stored", TFM_DTYPE_F32},
                    {"f32", TFM_DTYPE_F32},
                    {"f16", TFM_DTYPE_F16},
                    {"bf16", TFM_DTYPE_BF16},
                    {"int8", TFM_DTYPE_I8}};
enum { N_WEIGHT_TYPES = sizeof weight_types / sizeof *weight_types };

static struct options {
    const char *model, *only, *write, *type;
    repeats how;
    int weights, json, cpu, parts, steps, neighbour, f16_cache, bf16_attention, ids;
    int32_t repeat, batch, vocabulary, layers, rows, beam, source, target, threads, workers;
    uint64_t seed;
} opt;

static option_entry table[] = {
    {"usage: bench [options]\n"
     "       bench MODEL [options] < lines\n"
     "       bench MODEL --ids [options]\n"
     "       bench --write FILE [--weights TYPE] [--vocabulary N] [--layers N] [--seed N]\n"
     "\n"
     "Without MODEL, bench measures the base model of Vaswani et al. 2017 with random weights:\n"
     "6 + 6 layers, 512 wide, 8 heads, feed-forward 2048, post-norm, ReLU, 32,000 tokens, one\n"
     "embedding for both sides. The end token is forbidden, so all translations have 64 tokens.\n"
     "\n"
     "  encode-BxS           the encoder on B sentences of S tokens: 1x32, 1x128, 8x128, 1x512\n"
     "  forward-32x10-32x20  encoder and decoder, teacher-forced, vocabulary of 10,000 tokens\n"
     "  greedy-1, greedy-32  1 or 32 sentences of 32 tokens, greedy\n"
     "  beam4-1, beam4-16    1 or 16 sentences of 32 tokens, beam 4\n"
     "  product-MxKxN        one matrix product: 128x512x2048, 2048x2048x2048\n"
     "  load                 loading a file with matrices of the given type; also the largest\n"
     "                       use of memory after loading and after greedy-1\n"
     "\n"
     "With MODEL, bench measures sentences per second over all lines, sorted by length, with\n"
     "beam 1 and 4. With --ids it measures the workloads above with the weights of MODEL.\n",
     NULL, OPTION_TEXT, NULL, 0, 0, 0, NULL},
    {"model", NULL, OPTION_OPERAND, &opt.model, 0, 0, 0, NULL},
    {"--only", "NAME", OPTION_PATH, &opt.only, 0, 0, 0,
     "measures only this workload, or all that begin with NAME"},
    {"--threads", "N", OPTION_INTEGER, &opt.threads, 1, MOST_THREADS, 0,
     "threads of one session, 1 to 64 (default 1)"},
    {"--workers", "N", OPTION_INTEGER, &opt.workers, 1, MOST_THREADS, 0,
     "N sessions at the same time, with a thread each (default 1);\n"
     "each has the whole workload, or every N-th batch of lines"},
    {"--neighbour", NULL, OPTION_FLAG, &opt.neighbour, 0, 0, 0,
     "measures while another thread reads 200 MB again and again"},
    {"--weights", "TYPE", OPTION_PATH, &opt.type, 0, 0, 0,
     "f32, f16, bf16 or int8: the type of packed matrices\n"
     "(default: as stored; f32 for the random model)"},
    {"--f16-cache", NULL, OPTION_FLAG, &opt.f16_cache, 0, 0, 0,
     "stores keys and values as F16 (default: F32)"},
    {"--bf16-attention", NULL, OPTION_FLAG, &opt.bf16_attention, 0, 0, 0,
     "multiplies bf16 in the encoder's attention, if the CPU can\n"
     "(default: F32)"},
    {"--repeat", "N", OPTION_INTEGER, &opt.repeat, 1, MOST_REPEATS, 0,
     "times N runs, 1 to 1000, after one that does not count\n"
     "(default: see --seconds)"},
    {"--seconds", "S", OPTION_NUMBER, &opt.how.seconds, 0, 86400, 0,
     "times runs for S seconds, but at least 3 runs (default 3)"},
    {"--parts", NULL, OPTION_FLAG, &opt.parts, 0, 0, 0,
     "prints the share of time of each part of the work, measured\n"
     "in extra runs"},
    {"--steps", NULL, OPTION_FLAG, &opt.steps, 0, 0, 0,
     "prints percentiles of the times of decoding steps, and the\n"
     "times by position"},
    {"--rows", "N", OPTION_INTEGER, &opt.rows, 1, 4096, 0,
     "sentences of a greedy or beam workload (default: the workload's)"},
    {"--beam", "N", OPTION_INTEGER, &opt.beam, 1, 64, 0,
     "beam of a greedy or beam workload (default: the workload's)"},
    {"--source", "N", OPTION_INTEGER, &opt.source, 1, 16384, 0,
     "source tokens of a sentence (default: the workload's)"},
    {"--target", "N", OPTION_INTEGER, &opt.target, 1, 16384, 0,
     "target tokens of a sentence (default: the workload's)"},
    {"--cpu", NULL, OPTION_FLAG, &opt.cpu, 0, 0, 0,
     "measures CPU time instead of elapsed time, for a busy machine"},
    {"--batch", "N", OPTION_INTEGER, &opt.batch, 1, 4096, 0,
     "with MODEL: lines translated together (default 32)"},
    {"--ids", NULL, OPTION_FLAG, &opt.ids, 0, 0, 0,
     "with MODEL: measures encode, forward, greedy and beam workloads\n"
     "on random tokens, and reads no lines"},
    {"--json", NULL, OPTION_FLAG, &opt.json, 0, 0, 0, "prints JSON instead of a table"},
    {"--vocabulary", "N", OPTION_INTEGER, &opt.vocabulary, 10, 1000000, 0,
     "tokens of the random model (default: the workload's)"},
    {"--layers", "N", OPTION_INTEGER, &opt.layers, 1, 64, 0,
     "layers of the random model's encoder and decoder (default 6)"},
    {"--write", "FILE", OPTION_PATH, &opt.write, 0, 0, 0,
     "writes the random model to FILE and measures nothing"},
    {"--seed", "N", OPTION_SEED, &opt.seed, 0, 0, 0, "seed of the random weights (default 1)"},
    {"--help", NULL, OPTION_STOP, NULL, 0, 0, 0, "prints this text"},
    {"\n"
     "Ceilings are the limits of the machine, measured with as many threads: multiply-adds in\n"
     "registers (floats, int8 with VNNI, bf16, int8 and bf16 with AMX), and repeated reading of\n"
     "512 KB, 12 MB and 200 MB. GFLOP/s and GB/s are the least that the workload must compute and\n"
     "read, by formula (tools/common/arithmetic.h), divided by its median time. The percentages\n"
     "compare GFLOP/s with the ceiling of the fastest unit for the type of weights, and GB/s with\n"
     "that of reading. The larger percentage says how close a workload is to the limits.\n"
     "\n"
     "Exit status: 0 done, 1 an error in a file, 2 an error in the command line.",
     NULL, OPTION_TEXT, NULL, 0, 0, 0, NULL}};
enum { N_OPTIONS = sizeof table / sizeof *table };

static ceilings top;

static int fail(const char *subject, const char *cause) {
    return output_fail("bench", subject, cause);
}

static tfm_model_options model_options(void) {
    tfm_model_options how;
    memset(&how, 0, sizeof how);
    how.weights = (tfm_weight_type)opt.weights;
    return how;
}

/* ---- where the time goes ---- */

enum { N_PARTS = TFM__PART_SEARCH + 1 };
static const char *const part_names[N_PARTS] = {"other", "embedding", "projections", "attention",
                                                "FFN",   "output",    "norm",        "search"};

#ifdef __GNUC__
#define BENCH_LOCAL __thread
#else
#define BENCH_LOCAL
#endif

/* The profile of one thread. Only the main thread switches it on, so times of helpers do not
   count. */
static BENCH_LOCAL struct profile {
    int is_on, part;
    double since, seconds[N_PARTS];
} profile;

/* Called by TFM__PART when a part begins. Adds the time since the last call to the part before. */
static void change_part(int part) {
    double t;
    if (!profile.is_on) return;
    t = wall_clock();
    profile.seconds[profile.part] += t - profile.since;
    profile.since = t, profile.part = part;
}

/* ---- a record: the results of a workload ---- */

/* The numbers of a record: name and digits in JSON, format and heading of the table's column. A
   number with a format but without a heading is printed after the columns. */
/* clang-format off */
#define NUMBERS(X) \
    X(repeats, 0, "%5.0f", "runs") X(median_ms, 4, "%10.2f", "median ms") \
    X(p10_ms, 4, "%10.2f", "p10") X(p90_ms, 4, "%10.2f", "p90") \
    X(tokens_per_s, 1, "%11.1f", "tokens/s") X(gflops, 2, "%9.1f", "GFLOP/s") \
    X(percent_peak, 1, "%7.1f", "%") X(gb_per_s, 2, "%7.1f", "GB/s") \
    X(percent_read, 1, "%7.1f", "% read") X(percent_fma, 1, NULL, NULL) \
    X(percent_vnni, 2, NULL, NULL) X(operations, 0, NULL, NULL) \
    X(operations_counted, 0, NULL, NULL) X(bytes, 0, NULL, NULL) X(start_ms, 4, NULL, NULL) \
    X(read_ms, 4, "  reading alone %.1f ms", NULL) \
    X(file_mb, 1, "; file %.1f MB", NULL) X(peak_before_mb, 1, "; peak %.1f MB before", NULL) \
    X(peak_loaded_mb, 1, ", %.1f loaded", NULL) \
    X(peak_decoded_mb, 1, ", %.1f after greedy-1", NULL) \
    X(tokens, 0, NULL, NULL) X(sentences_per_s, 2, "   %.1f sentences/s", NULL) \
    X(sentences, 0, " (%.0f,", NULL) X(batch, 0, " batches of %.0f)", NULL)
#define NUMBER_ENUM(name, digits, format, head) n_##name,
#define NUMBER_ROW(name, digits, format, head) {#name, format, head, digits},
enum { NUMBERS(NUMBER_ENUM) N_NUMBERS, N_COLUMNS = n_percent_read + 1 };
static const struct { const char *name, *format, *head; int digits; } numbers[] = {
    NUMBERS(NUMBER_ROW)};
/* clang-format on */

/* The lists of a record. The table has a line for each list whose items have labels. */
enum { RUNS, IDS, STEPS, POSITIONS, PARTS, N_LISTS, MOST_ITEMS = 8 };
typedef struct list {
    const char *name; /* its name in JSON; NULL: the record lacks this list */
    char lead[40];    /* begins its line in the table */
    int digits, n;
    const double *values; /* n values without labels; NULL: the values are in item */
    struct {
        char label[24];
        double value; /* in PARTS a share of 1, else milliseconds */
    } item[MOST_ITEMS];
} list;

typedef struct record {
    const char *name;
    times t;
    double number[N_NUMBERS]; /* -1: not measured; NaN: this machine lacks the unit */
    list lists[N_LISTS];
} record;

static void record_begin(record *r, const char *name) {
    int i;
    memset(r, 0, sizeof *r);
    r->name = name;
    for (i = 0; i < N_NUMBERS; i++) r->number[i] = -1;
}
static list *record_list(record *r, int which, const char *name, int digits, const double *values) {
    list *l = &r->lists[which];
    l->name = name, l->digits = digits, l->values = values;
    return l;
}
static void list_add(list *l, const char *label, double value) {
    snprintf(l->item[l->n].label, sizeof l->item[0].label, "%s", label);
    l->item[l->n++].value = value;
}

/* ---- workers: several threads do the same work, each with its own session ---- */

typedef struct crew {
    int (*run)(void *);
    char *each; /* what workers run on: opt.workers items of size bytes */
    size_t size;
    tfm__team team; /* n 1: only this thread */
    tfm__workers threads;
    tfm__atomic done; /* workers, in this run */
    int ok[MOST_THREADS];
    float *neighbour; /* what the neighbour reads, or NULL */
} crew;

static void crew_part(void *context, int32_t part) {
    crew *c = (crew *)context;
    const int64_t n = read_bytes[0] / 4, all = read_bytes[N_READS - 1] / 4;
    int64_t at;
    if (part < opt.workers) {
        c->ok[part] = c->run(c->each + (size_t)part * c->size);
        tfm__atomic_increment(&c->done);
    } else {
        for (at = 0; tfm__atomic_load(&c->done) < (uint64_t)opt.workers; at = (at + n) % (all - n))
            top.reader(c->neighbour + at, n);
    }
}
static int run_crew(void *context) {
    crew *c = (crew *)context;
    int i, ok = 1;
    counted = 0, c->done = 0;
    tfm__team_run(&c->team, crew_part, c, c->team.n);
    for (i = 0; i < opt.workers; i++) ok &= c->ok[i];
    return ok;
}
static int crew_begin(crew *c, int (*run)(void *), void *each, size_t size) {
    size_t all = (size_t)read_bytes[N_READS - 1], i;
    tfm_error err;
    memset(c, 0, sizeof *c);
    c->run = run, c->each = (char *)each, c->size = size;
    c->neighbour = opt.neighbour ? (float *)malloc(all) : NULL;
    for (i = 0; c->neighbour && i < all / 4; i++) c->neighbour[i] = (float)(i % 251);
    if (opt.neighbour && !c->neighbour) return fail("the neighbour", "no memory");
    return start_team(&c->team, &c->threads, opt.workers + opt.neighbour, &err) == TFM_OK ||
           fail("workers", err.text);
}
static void crew_end(crew *c) {
    stop_team(&c->team);
    free(c->neighbour);
}

/* Times run. With --parts, runs it for half a second more with the profile, whose clock takes
   time. */
static int record_time(record *r, int least, int (*run)(void *), void *what) {
    int ok = time_runs(&r->t, &opt.how, least, run, NULL, what);
    double began = wall_clock();
    profile.is_on = ok && opt.parts, profile.part = TFM__PART_OTHER, profile.since = began;
    while (ok && opt.parts && wall_clock() - began < 0.5)
        ok = run(what), change_part(TFM__PART_OTHER);
    profile.is_on = 0;
    return ok;
}

/* ---- printing records as a table or as JSON ---- */

static int n_printed; /* so far */

static void print_head(void) {
    const char *kernels = tfm_cpu_string(), *weights = weight_types[opt.weights].name;
    int peak = unit_for(&top, weight_types[opt.weights].dtype), k;
    if (opt.json)
        printf("{\"version\": \"%s\", \"kernels\": \"%s\", \"weights\": \"%s\", \"threads\": %d, "
               "\"workers\": %d, \"clock\": \"%s\",\n \"ceilings\": {\"instructions\": \"%s\"",
               tfm_version(), kernels, weights, (int)opt.threads, (int)opt.workers,
               opt.cpu ? "cpu" : "wall", top.name);
    else {
        printf("transformer.h %s, %s, %s, ", tfm_version(), kernels, weights);
        if (opt.workers > 1) printf("%d workers of ", (int)opt.workers);
        printf("%d thread%s, %s%s\nceilings: %s", (int)opt.threads, opt.threads > 1 ? "s" : "",
               opt.cpu ? "CPU time" : "time", opt.neighbour ? ", beside a neighbour" : "",
               top.name);
    }
    for (k = 0; k < N_UNITS; k++)
        if (top.unit[k] > 0)
            printf(opt.json ? ", \"%s\": %.2f" : ", %s %.1f",
                   opt.json ? units[k].json : units[k].name, 1e-9 * top.unit[k]);
        else if (opt.json) printf(", \"%s\": null", units[k].json);
    printf(opt.json ? "" : " GOP/s;\n          read");
    for (k = 0; k < N_READS; k++)
        printf(opt.json ? "%s \"read_%s\": %.2f" : "%s %s %.1f", k || opt.json ? "," : "",
               read_names[k], 1e-9 * top.read[k]);
    printf(opt.json ? "},\n \"workloads\": [" : " GB/s\n\nworkload            ");
    for (k = 0; k < N_COLUMNS && !opt.json; k++)
        printf("%*s", atoi(numbers[k].format + 1),
               k == n_percent_peak ? units[peak].head : numbers[k].head);
    printf(opt.json ? "" : "\n");
    fflush(stdout);
}

static void print_list(const list *l, int is_share) {
    int i;
    if (opt.json) printf(",\n   \"%s\": %c", l->name, l->values ? '[' : '{');
    else if (!l->values) printf("\n %s", l->lead);
    for (i = 0; i < l->n; i++) {
        double x = l->values ? l->values[i] : l->item[i].value;
        if (opt.json && i) printf(", ");
        if (opt.json && !l->values) printf("\"%s\": ", l->item[i].label);
        if (opt.json) printf("%.*f", l->digits, x);
        else if (!l->values)
            printf(is_share ? "%s %s %.1f %%" : "%s %s %.3f", i ? "," : "", l->item[i].label,
                   is_share ? 100 * x : x);
    }
    if (opt.json) putchar(l->values ? ']' : '}');
    else if (!l->values && !is_share) printf(" ms");
}

/* Prints a record, with the times of its runs and the profile. Clears the profile. */
static void print_record(record *r) {
    const times *t = &r->t;
    list *l = record_list(r, RUNS, "ms", 4, t->seconds);
    double all = 0, *x = r->number;
    int n = N_COLUMNS, i;
    for (; l->n < t->n; l->n++) r->t.seconds[l->n] *= 1e3;
    x[n_repeats] = t->n, x[n_median_ms] = median(t);
    x[n_p10_ms] = percentile(t->seconds, t->n, 0.1);
    x[n_p90_ms] = percentile(t->seconds, t->n, 0.9);
    for (i = 0; i < N_PARTS; i++) all += profile.seconds[i];
    if (all > 0) l = record_list(r, PARTS, "parts", 6, NULL);
    for (i = 1; all > 0 && i <= N_PARTS; i++) /* "other", part 0, is last */
        list_add(l, part_names[i % N_PARTS], profile.seconds[i % N_PARTS] / all);
    memset(&profile, 0, sizeof profile);
    if (opt.json) printf("%s\n  {\"name\": \"%s\"", n_printed ? "," : "", r->name);
    else printf("%-20s", r->name);
    while (x[n - 1] < 0) n--;
    for (i = 0; i < N_NUMBERS; i++) {
        if (opt.json && !(x[i] < 0))
            printf(x[i] >= 0 ? ", \"%s\": %.*f" : ", \"%s\": null", numbers[i].name,
                   numbers[i].digits, x[i]);
        if (opt.json || !numbers[i].format) continue;
        if (x[i] >= 0) printf(numbers[i].format, x[i]);
        else if (i < n) printf("%*s", atoi(numbers[i].format + 1), "-");
    }
    for (i = 0; i < N_LISTS; i++)
        if (r->lists[i].name) print_list(&r->lists[i], i == PARTS);
    printf(opt.json ? "}" : "\n");
    fflush(stdout);
    n_printed++;
}

/* ---- the random model's workloads ---- */

static struct {
    int32_t vocabulary; /* 0: no model is loaded */
    void *bytes;
    tfm_model *model;
    model_shape shape;
} random_model;

static void drop_model(void) {
    tfm_model_free(random_model.model);
    free(random_model.bytes);
    memset(&random_model, 0, sizeof random_model);
}

/* Loads the model of --ids. */
static int need_file(void) {
    tfm_safetensors *file = NULL;
    tfm_model_options how = model_options();
    const tfm_config *c;
    tfm_error err;
    if (random_model.model) return 1;
    if (tfm_model_load_file(&random_model.model, opt.model, &how, &err) != TFM_OK ||
        tfm_safetensors_open_file(&file, opt.model, NULL, &err) != TFM_OK)
        return fail(NULL, err.text);
    c = tfm_model_config(random_model.model);
    random_model.shape = shape_of_model(c, file);
    tfm_safetensors_free(file);
    random_model.vocabulary = c->src_vocab_size < c->tgt_vocab_size ? c->src_vocab_size
                                                                    : c->tgt_vocab_size;
    return random_model.vocabulary > FIRST_WORD || fail(opt.model, "has no words to draw from");
}

static int need_model(int32_t vocabulary) {
    tfm_safetensors *file = NULL;
    tfm_model_options how = model_options();
    tfm_error err;
    size_t size = 0;
    if (opt.ids) return need_file();
    if (random_model.vocabulary == vocabulary) return 1;
    drop_model();
    if (!make_model(NULL, vocabulary, opt.seed, TFM_DTYPE_F32, &random_model.bytes, &size))
        return 0;
    if (tfm_model_load(&random_model.model, random_model.bytes, size, &how, &err) != TFM_OK ||
        tfm_safetensors_open(&file, random_model.bytes, size, NULL, &err) != TFM_OK)
        return fail("the model", err.text);
    random_model.shape = shape_of_model(tfm_model_config(random_model.model), file);
    tfm_safetensors_free(file);
    random_model.vocabulary = vocabulary;
    return 1;
}

typedef struct job {
    const workload *w;
    const tfm_config *config;
    tfm_session *session;
    int32_t *src, *tgt;
    tfm_request *requests; /* [w->rows] */
    tfm_ids *targets;      /* [w->rows] */
    float *logits;
    double *steps, *ids; /* times of each run: start and w->target steps; ids of the first row */
    int n_runs;
} job;

/* Computes the operations and bytes that a workload needs at least. *once: the bytes of one pass or
   step, which are read repeatedly; their number decides which cache or memory they are in. */
static void cost_of(const workload *w, const model_shape *m, weight_unit u, double *operations,
                    double *bytes, double *once) {
    int64_t B = w->rows, S = w->source, T = w->target, R = B * w->beam, t;
    /* tfm_session_encode also computes keys and values for the decoder, a seventh of its work; an
       encoder alone does not need them, so they do not count */
    int64_t keys_values = m->N_decoder * ops_keys_values(m, B * S, m->G_decoder);
    int64_t ops = ops_encode(m, B * S, B * pairs_self(S, 0)), read = bytes_encode(m, u, B * S);
    if (w->of == ENCODE)
        ops -= keys_values, read -= m->N_decoder * size_keys_values(m, u, m->G_decoder);
    if (w->of == FORWARD) {
        ops += ops_decode(m, B * T, B * pairs_self(T, 1), B * T * S);
        read += bytes_decode(m, u, B * T);
    }
    *once = (double)read;
    if (w->of == DECODE) *once = (double)bytes_decode(m, u, R);
    for (t = 0; w->of == DECODE && t < T; t++) {
        ops += ops_decode(m, R, R * (t + 1), R * S);
        read += bytes_decode(m, u, R) + bytes_cache(m, R * (t + 1), B * S) / (1 + opt.f16_cache);
    }
    *operations = (double)ops;
    *bytes = (double)read;
}

/* Runs greedy or beam search step by step, and stores the times of start and steps. A step takes so
   long that reading the clock does not matter. */
static tfm_status decode_once(job *j, tfm_error *err) {
    const int32_t end = j->config->end;
    tfm_decode_options decode;
    double *step = j->steps + (int64_t)j->n_runs * (j->w->target + 1), before = opt.how.now(),
           after;
    int32_t running = 1, n;
    memset(&decode, 0, sizeof decode);
    decode.max_length = j->w->target, decode.beam = j->w->beam;
    decode.suppressed = &end, decode.n_suppressed = end >= 0;
    if (tfm_session_start(j->session, j->requests, j->w->rows, &decode, err) != TFM_OK)
        return err->status;
    for (n = 0; n <= j->w->target; n++) {
        after = opt.how.now();
        step[n] = after - before, before = after;
        if (running && tfm_session_step(j->session, &running, err) != TFM_OK) return err->status;
    }
    return TFM_OK;
}

static int run_job(void *what) {
    job *j = (job *)what;
    const workload *w = j->w;
    tfm_tensor logits =
        tfm_tensor_3d(j->logits, TFM_DTYPE_F32, w->rows, w->target, j->config->tgt_vocab_size);
    tfm_error err;
    tfm_status status;
    if (w->of == ENCODE) status = tfm_session_encode(j->session, j->requests, w->rows, &err);
    else if (w->of == FORWARD)
        status =
            tfm_session_forward(j->session, j->requests, w->rows, j->targets, NULL, &logits, &err);
    else status = decode_once(j, &err);
    j->n_runs += j->n_runs < MOST_REPEATS; /* further runs of --parts reuse the last place */
    return status == TFM_OK || fail(w->name, err.text);
}

/* Returns token i of the workloads' sentences; it is never a special token. */
static int32_t word(uint64_t i, int32_t vocabulary) {
    return FIRST_WORD + (int32_t)(mix(i) % (uint64_t)(vocabulary - FIRST_WORD));
}

static int prepare(job *j, const tfm_model *model, const workload *w) {
    tfm_session_options limits;
    tfm_error err;
    size_t n_src = (size_t)w->rows * (size_t)w->source, n_tgt = (size_t)(w->rows * w->target), i;
    size_t n_steps = (size_t)(w->target + 1) * (MOST_REPEATS + 1), n_ids = (size_t)w->target;
    const tfm_config *c = tfm_model_config(model);
    size_t n_logits = w->of == FORWARD ? n_tgt * (size_t)c->tgt_vocab_size : 0;
    memset(j, 0, sizeof *j);
    memset(&limits, 0, sizeof limits);
    limits.max_batch = w->rows, limits.max_source = w->source, limits.max_beam = w->beam;
    limits.max_target = w->target ? w->target : 1, limits.threads = opt.threads;
    if (opt.f16_cache) limits.cache = TFM_DTYPE_F16;
    if (opt.bf16_attention) limits.encoder_attention = TFM_DTYPE_BF16;
    j->w = w, j->config = c;
    j->steps = (double *)malloc((n_steps + n_ids) * sizeof *j->steps +
                                (n_logits + n_src + n_tgt) * sizeof *j->logits);
    j->requests = (tfm_request *)malloc((size_t)w->rows * sizeof *j->requests);
    j->targets = (tfm_ids *)malloc((size_t)w->rows * sizeof *j->targets);
    if (!j->steps || !j->requests || !j->targets) return fail(w->name, "no memory");
    j->ids = j->steps + n_steps, j->logits = (float *)(j->ids + n_ids);
    j->src = (int32_t *)(j->logits + n_logits), j->tgt = j->src + n_src;
    for (i = 0; i < n_src + n_tgt; i++) j->src[i] = word(i, w->vocabulary);
    for (i = 0; i < (size_t)w->rows; i++) {
        j->requests[i] = tfm_request_ids(j->src + i * (size_t)w->source, w->source);
        j->targets[i] = tfm_ids_make(j->tgt + i * (size_t)w->target, w->target);
    }
    return tfm_session_create(&j->session, model, &limits, &err) == TFM_OK ||
           fail(w->name, err.text);
}

static void release(job *j) {
    tfm_session_free(j->session);
    free(j->steps), free(j->requests), free(j->targets);
}

/* Returns the median time of a step over n runs, in ms. Steps count from 1; step 0 is the start. */
static double median_step(const job *j, int n, int64_t step) {
    times t;
    for (t.n = 0; t.n < n; t.n++)
        t.seconds[t.n] = j->steps[(int64_t)t.n * (j->w->target + 1) + step];
    sort_times(&t);
    return 1e3 * median(&t);
}

/* Adds the times of steps: means over spans of positions, and percentiles of all steps. It sorts
   j->steps, so call it last. */
static void add_steps(record *r, job *j) {
    static const double shares[] = {0.1, 0.5, 0.9, 0.99, 1};
    static const char *const names[] = {"p10", "p50", "p90", "p99", "max"};
    int64_t T = j->w->target, most = MOST_ITEMS, spans = T < most ? T : most, k, i, all = 0;
    list *l = record_list(r, POSITIONS, "step_ms_at", 4, NULL);
    char label[24];
    snprintf(l->lead, sizeof l->lead, " mean of positions");
    r->number[n_start_ms] = median_step(j, r->t.n, 0);
    for (k = 0; k < spans; k++) {
        int64_t first = k * T / spans, end = (k + 1) * T / spans;
        double sum = 0;
        for (i = first; i < end; i++) sum += median_step(j, r->t.n, i + 1);
        snprintf(label, sizeof label, "%d-%d", (int)first + 1, (int)end);
        list_add(l, label, sum / (double)(end - first));
    }
    for (i = 0; i < r->t.n; i++)
        for (k = 1; k <= T; k++) j->steps[all++] = j->steps[i * (T + 1) + k];
    qsort(j->steps, (size_t)all, sizeof *j->steps, by_size);
    l = record_list(r, STEPS, "step_ms", 4, NULL);
    snprintf(l->lead, sizeof l->lead, " start %.3f ms; steps", r->number[n_start_ms]);
    for (k = 0; k < 5; k++) list_add(l, names[k], 1e3 * percentile(j->steps, all, shares[k]));
}

/* Adds operations per second, and their percentage of the ceilings. */
static void add_rates(record *r, double operations) {
    double rate = operations / median(&r->t),
           peak = top.unit[unit_for(&top, weight_types[opt.weights].dtype)];
    r->number[n_gflops] = 1e-9 * rate;
    r->number[n_percent_peak] = peak > 0 ? 100 * rate / peak : (double)NAN;
    r->number[n_percent_fma] = 100 * rate / top.unit[UNIT_FMA];
    r->number[n_percent_vnni] = top.unit[UNIT_VNNI] > 0 ? 100 * rate / top.unit[UNIT_VNNI]
                                                        : (double)NAN;
}

static int run_workload(workload *w) {
    record r;
    job jobs[MOST_THREADS], *j = &jobs[0];
    crew c;
    tfm_result result;
    double operations, bytes, once, *x = r.number;
    const int n = opt.workers;
    int i, ok = need_model(w->vocabulary);
    list *l;
    memset(jobs, 0, sizeof jobs);
    record_begin(&r, w->name);
    if (opt.ids) w->vocabulary = random_model.vocabulary;
    for (i = 0; ok && i < n; i++) ok = prepare(&jobs[i], random_model.model, w);
    ok = ok && crew_begin(&c, run_job, jobs, sizeof *jobs) && run_crew(&c);
    for (i = 0; i < n; i++) jobs[i].n_runs = 0;
    ok = ok && record_time(&r, LEAST_REPEATS, run_crew, &c);
    if (ok) {
        cost_of(w, &random_model.shape, unit_bytes(weight_types[opt.weights].dtype), &operations,
                &bytes, &once);
        add_rates(&r, n * operations);
        x[n_tokens_per_s] = (double)n * w->rows * (w->of == ENCODE ? w->source : w->target) /
                            median(&r.t);
        x[n_gb_per_s] = 1e-9 * n * bytes / median(&r.t);
        x[n_percent_read] = 1e11 * x[n_gb_per_s] / read_ceiling(&top, once);
        x[n_operations] = n * operations, x[n_bytes] = n * bytes;
        x[n_operations_counted] = (double)counted;
        l = record_list(&r, IDS, "ids", 0, j->ids);
        if (w->of == DECODE && tfm_result_get(j->session, 0, 0, &result, NULL) == TFM_OK)
            for (; l->n < result.length; l->n++) j->ids[l->n] = result.ids[l->n];
        if (w->of == DECODE && (opt.json || opt.steps)) add_steps(&r, j);
        print_record(&r);
    }
    if (ok) crew_end(&c);
    for (i = 0; i < n; i++) release(&jobs[i]);
    return ok;
}

/* ---- one matrix product, with the library's own threads ---- */

/* Packs a linear layer from its rows, as loading a model of this type of weights does. */
static tfm_status pack_linear(tfm__pool *pool, tfm__linear *l, float *rows, int64_t N, int64_t K,
                              tfm_error *err) {
    tfm__packer p;
    memset(&p, 0, sizeof p);
    memset(l, 0, sizeof *l);
    memset(pool, 0, sizeof *pool);
    TFM__TRY(tfm__choose_allocator(&pool->allocator, NULL, err));
    p.kernels = tfm__kernel_best(), p.err = err;
    p.weights = (tfm_weight_type)opt.weights;
    l->w.dtype = TFM_DTYPE_F32, l->w.rows = N, l->w.columns = K, l->w.data = (unsigned char *)rows;
    TFM__TRY(tfm__pool_take(pool, tfm__packed_scratch(K), sizeof(float), &p.scratch, err));
    return tfm__packed_make_all(&p, pool, l);
}

typedef struct product {
    tfm__rows x, y;
    tfm__linear linear;
    tfm__team team;
} product;

static int run_linear(void *what) {
    product *p = (product *)what;
    tfm__linear_run(&p->team, &p->y, &p->x, &p->linear);
    return 1;
}

static int run_product(const workload *w) {
    int64_t M = w->rows, K = w->source, N = w->target, most = M > N ? M : N, i, j;
    float *x = (float *)malloc((size_t)(2 * most * K + M * N) * sizeof *x), *rows = x + most * K;
    tfm__pool pool;
    product p;
    tfm__workers workers;
    tfm_error err;
    record r;
    if (!x) return fail(w->name, "no memory");
    record_begin(&r, w->name);
    memset(&p, 0, sizeof p);
    p.x = tfm__rows_make(x, 1, M, K), p.y = tfm__rows_make(rows + most * K, 1, M, N);
    fill(rows, most * K, 1.0f, 7);
    /* The sum of twelve uniform numbers is nearly normal, as activations are. In uniform numbers
       too many pairs are large, and AVX2's int8 tile would take its slow way for most steps. */
    for (i = 0; i < M * K; i++) {
        float parts[12];
        fill(parts, 12, 1.0f, 8 + 6 * (uint64_t)i);
        for (x[i] = 0, j = 0; j < 12; j++) x[i] += parts[j];
    }
    if (pack_linear(&pool, &p.linear, rows, N, K, &err) != TFM_OK ||
        start_team(&p.team, &workers, opt.threads, &err) != TFM_OK ||
        TFM__NEW(&pool,
                 (M + TFM__MOST_ROWS) * tfm__product_x_bytes(p.team.kernels, &p.linear.w) + 1,
                 &p.team.converted, &err) != TFM_OK ||
        TFM__NEW(&pool, M, &p.team.scales, &err) != TFM_OK) {
        free(x);
        return fail(w->name, err.text);
    }
    run_linear(&p);
    time_runs(&r.t, &opt.how, LEAST_REPEATS, run_linear, NULL, &p);
    add_rates(&r, 2.0 * (double)M * (double)N * (double)K);
    print_record(&r);
    stop_team(&p.team);
    tfm__pool_free(pool);
    free(x);
    return 1;
}

/* ---- load time and peak memory ---- */

#ifdef _WIN32 /* Windows has no getrusage */
static int run_load_apart(const char *path, const workload *w) { return path || w; }
#else
/* Returns the peak of memory of this process, in MB. */
static double peak_memory(void) {
    struct rusage used;
    double unit = 1024;
#ifdef __APPLE__
    unit = 1;
#endif
    return getrusage(RUSAGE_SELF, &used) == 0 ? (double)used.ru_maxrss * unit / MB : 0;
}

typedef struct loading {
    const char *path;
    const workload *w; /* runs after the first load; NULL: none */
    tfm_model *model;
    record r;
} loading;

static int run_load(void *what) {
    loading *l = (loading *)what;
    tfm_model_options how = model_options();
    tfm_error err;
    return tfm_model_load_file(&l->model, l->path, &how, &err) == TFM_OK || fail(NULL, err.text);
}

/* Stores the peaks after the first load only: a peak never falls, so later ones say nothing. */
static int after_load(void *what) {
    loading *l = (loading *)what;
    double *x = l->r.number;
    job j;
    if (x[n_peak_loaded_mb] < 0) {
        x[n_peak_loaded_mb] = peak_memory();
        if (l->w && prepare(&j, l->model, l->w) && run_job(&j))
            x[n_peak_decoded_mb] = peak_memory();
        if (l->w) release(&j);
    }
    tfm_model_free(l->model);
    l->model = NULL;
    return 1;
}

/* Reads the file's bytes into new memory. Loading a model cannot be faster than this. */
static int run_read(void *what) {
    loading *l = (loading *)what;
    FILE *file = utf8_open(l->path, "rb");
    long n = file && fseek(file, 0, SEEK_END) == 0 ? ftell(file) : 0;
    char *data = n > 0 && fseek(file, 0, SEEK_SET) == 0 ? (char *)malloc((size_t)n) : NULL;
    int ok = data && fread(data, 1, (size_t)n, file) == (size_t)n;
    l->r.number[n_file_mb] = (double)n / MB;
    free(data);
    if (file) fclose(file);
    return ok || fail(l->path, "cannot be read");
}

static int measure_load(const char *path, const workload *w) {
    loading l;
    times read;
    record_begin(&l.r, "load");
    l.path = path, l.w = w, l.model = NULL;
    l.r.number[n_peak_before_mb] = peak_memory();
    if (!time_runs(&l.r.t, &opt.how, LEAST_REPEATS, run_load, after_load, &l) ||
        !time_runs(&read, &opt.how, LEAST_REPEATS, run_read, NULL, &l))
        return 0;
    l.r.number[n_read_ms] = 1e3 * median(&read);
    print_record(&l.r);
    return 1;
}

/* Measures loading a file; path NULL: a temporary file of the random model. A child process makes
   the file and another one measures, so neither adds to the peak of memory of the other. */
static int run_load_apart(const char *path, const workload *w) {
    char made[] = "/tmp/bench-XXXXXX";
    output watched;
    int file = -1, ok = 1, step, status = 0;
    fflush(stdout);
    output_watch(&watched); /* after Ctrl-C the children end, and this process removes the file */
    if (!path) file = mkstemp(made), ok = file >= 0 || fail(made, strerror(errno));
    for (step = path != NULL; ok && step < 2 && !output_stopped(); step++) {
        pid_t child = fork();
        if (child == 0) {
            if (step == 0)
                ok = make_model(made, w->vocabulary, opt.seed, weight_types[opt.weights].dtype,
                                NULL, NULL);
            else ok = path ? measure_load(path, NULL) : measure_load(made, w);
            fflush(stdout);
            _exit(!ok);
        }
        ok = child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status) &&
             WEXITSTATUS(status) == 0;
    }
    if (file >= 0) close(file), remove(made);
    output_unwatch(&watched);
    n_printed += ok;
    return ok;
}
#endif

static int is_wanted(const char *name) {
    int i;
    for (i = 0; opt.only && i < N_WORKLOADS; i++) /* --only beam4-1 must not run beam4-16 */
        if (strcmp(workloads[i].name, opt.only) == 0) return strcmp(name, opt.only) == 0;
    return !opt.only || strncmp(name, opt.only, strlen(opt.only)) == 0;
}

/* Applies --vocabulary, --rows, --beam, --source and --target to a workload, and gives it a name
   with the numbers that changed. */
static void change_workload(workload *w, char *name, size_t size) {
    if (opt.vocabulary) w->vocabulary = opt.vocabulary;
    if (w->of == DECODE && (opt.rows || opt.beam)) {
        if (opt.rows) w->rows = opt.rows;
        if (opt.beam) w->beam = opt.beam;
        snprintf(name, size, "decode-%dx%d", (int)w->rows, (int)w->beam);
        w->name = strcpy(name + size / 2, name);
    }
    if (w->of == LOAD || w->of == PRODUCT || (!opt.source && !opt.target)) return;
    if (opt.source) w->source = opt.source;
    if (opt.target && w->of != ENCODE) w->target = opt.target;
    if (w->of == ENCODE) snprintf(name, size, "encode-%dx%d", (int)w->rows, (int)w->source);
    else if (w->of == FORWARD)
        snprintf(name, size, "forward-%dx%d-%dx%d", (int)w->rows, (int)w->source, (int)w->rows,
                 (int)w->target);
    else snprintf(name, size, "%s-%dx%d", w->name, (int)w->source, (int)w->target);
    w->name = name;
}

static int begin(void) {
    tfm_error err;
    if (ceilings_measure(&top, opt.threads * opt.workers, &opt.how, &err) != TFM_OK)
        return fail("ceilings", err.text);
    print_head();
    return 1;
}

/* Returns whether --ids, which reads a model file, has this workload. */
static int is_possible(const workload *w) {
    return !opt.ids || (w->of != PRODUCT && w->of != LOAD);
}

static int run_random(void) {
    char name[128];
    int i, ok;
    if (!opt.weights && !opt.ids) opt.weights = TFM_WEIGHT_TYPE_F32;
    ok = begin();
    for (i = 0; ok && i < N_WORKLOADS; i++) {
        workload w = workloads[i];
        if (!is_wanted(w.name) || !is_possible(&w)) continue;
        change_workload(&w, name, sizeof name);
        ok = w.of == PRODUCT ? run_product(&w)
             : w.of == LOAD  ? run_load_apart(NULL, &w)
                             : run_workload(&w);
    }
    if (ok && opt.json) printf("\n ]}\n");
    drop_model();
    return ok;
}

/* ---- a model on lines of text ---- */

enum { LONGEST_SOURCE = 512, TEXT_ROOM = 65536 };

static struct {
    char *data; /* the text of all lines */
    tfm_text *texts;
    int64_t n;
    size_t longest;
} lines;

static int by_length(const void *a, const void *b) {
    const tfm_text *x = (const tfm_text *)a, *y = (const tfm_text *)b;
    if (x->size != y->size) return x->size < y->size ? 1 : -1;
    return (x->data > y->data) - (x->data < y->data);
}

/* Reads the lines that are not blank and sorts them by length, so a batch has little padding. */
static int read_lines(void) {
    size_t room = 0, size = 0, at, end;
    for (;;) {
        if (size + 1 >= room) {
            char *larger = (char *)realloc(lines.data, room = 2 * room + 65536);
            if (!larger) return fail("standard input", "no memory");
            lines.data = larger;
        }
        end = fread(lines.data + size, 1, room - size - 1, stdin);
        if (!end) break;
        size += end;
    }
    lines.data[size] = '\0';
    for (at = 0, room = 0; at < size; at++) room += lines.data[at] == '\n';
    lines.texts = (tfm_text *)malloc((room + 1) * sizeof *lines.texts);
    if (!lines.texts) return fail("standard input", "no memory");
    for (at = 0; at < size; at = end + 1) {
        for (end = at; end < size && lines.data[end] != '\n';) end++;
        if (strspn(lines.data + at, " \t\r") >= end - at) continue;
        lines.texts[lines.n].data = lines.data + at;
        lines.texts[lines.n++].size = end - at;
        if (end - at > lines.longest) lines.longest = end - at;
    }
    qsort(lines.texts, (size_t)lines.n, sizeof *lines.texts, by_length);
    return lines.n > 0 || fail("standard input", "no lines");
}

typedef struct translation {
    tfm_session *session;
    int beam;
    int64_t first, stride, end; /* lines: first batch, distance to the next batch, end */
    tfm_request *requests;
    tfm_text *out;
    char *buffer;
    double tokens; /* target tokens */
} translation;

static int translate(void *what) {
    translation *t = (translation *)what;
    tfm_decode_options decode;
    tfm_result result;
    tfm_error err;
    int64_t i;
    int32_t n, row;
    memset(&decode, 0, sizeof decode);
    decode.beam = t->beam;
    for (i = t->first, t->tokens = 0; i < t->end; i += t->stride) {
        n = (int32_t)(t->end - i < opt.batch ? t->end - i : opt.batch);
        for (row = 0; row < n; row++)
            t->requests[row] =
                tfm_request_text(lines.texts[i + row].data, lines.texts[i + row].size);
        if (tfm_translate_batch(t->session, t->requests, n, &decode, t->out, t->buffer,
                                (size_t)opt.batch * TEXT_ROOM, &err) != TFM_OK)
            return fail(opt.model, err.text);
        for (row = 0; row < n; row++)
            if (tfm_result_get(t->session, row, 0, &result, NULL) == TFM_OK)
                t->tokens += (double)result.length;
    }
    return 1;
}

static int run_beam(const tfm_model *model, int beam) {
    tfm_session_options limits;
    translation all[MOST_THREADS], *const end = all + opt.workers, *t;
    crew c;
    record r;
    tfm_error err;
    double *x = r.number, tokens = 0;
    int ok = 1;
    record_begin(&r, beam == 1 ? "beam 1" : "beam 4");
    if (!is_wanted(r.name)) return 1;
    memset(all, 0, sizeof all);
    memset(&limits, 0, sizeof limits);
    limits.max_batch = opt.batch, limits.max_beam = beam, limits.threads = opt.threads;
    if (opt.f16_cache) limits.cache = TFM_DTYPE_F16;
    if (opt.bf16_attention) limits.encoder_attention = TFM_DTYPE_BF16;
    /* A token has at least one byte. Normalization may lengthen a text beyond that; the translation
       then fails, and bench reports it. */
    limits.max_source = lines.longest + 8 < LONGEST_SOURCE ? (int32_t)lines.longest + 8
                                                           : LONGEST_SOURCE;
    for (t = all; ok && t < end; t++) {
        t->beam = beam, t->first = (t - all) * opt.batch, t->stride = opt.workers * opt.batch;
        t->end = lines.n < t->stride ? lines.n : t->stride; /* the warm-up: one batch each */
        t->out = (tfm_text *)malloc((size_t)opt.batch * sizeof *t->out);
        t->buffer = (char *)malloc((size_t)opt.batch * TEXT_ROOM);
        t->requests = (tfm_request *)malloc((size_t)opt.batch * sizeof *t->requests);
        if (!t->out || !t->buffer || !t->requests) ok = fail("beam", "no memory");
        if (ok && tfm_session_create(&t->session, model, &limits, &err) != TFM_OK)
            ok = fail(opt.model, err.text);
    }
    ok = ok && crew_begin(&c, translate, all, sizeof *all) && run_crew(&c);
    for (t = all; t < end; t++) t->end = lines.n;
    ok = ok && record_time(&r, 1, run_crew, &c);
    for (t = all; t < end; t++) tokens += t->tokens;
    if (ok) {
        x[n_tokens_per_s] = tokens / median(&r.t), x[n_tokens] = tokens;
        x[n_sentences] = (double)lines.n, x[n_sentences_per_s] = (double)lines.n / median(&r.t);
        x[n_batch] = opt.batch;
        print_record(&r);
        crew_end(&c);
    }
    for (t = all; t < end; t++) {
        tfm_session_free(t->session);
        free(t->requests), free(t->out);
        free(t->buffer);
    }
    return ok;
}

static int run_lines(void) {
    tfm_model_options how = model_options();
    tfm_model *model = NULL;
    tfm_error err;
    int ok;
    ok = read_lines() && begin() &&
         (!is_wanted("load") || run_load_apart(opt.model, &workloads[0]));
    if (ok && tfm_model_load_file(&model, opt.model, &how, &err) != TFM_OK)
        ok = fail(NULL, err.text);
    ok = ok && run_beam(model, 1) && run_beam(model, 4);
    if (ok && opt.json) printf("\n ]}\n");
    tfm_model_free(model);
    free(lines.data);
    free(lines.texts);
    return ok;
}

/* ---- the command line ---- */

static void misuse(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format), output_complain("bench", format, arguments), va_end(arguments);
    exit(2);
}

/* Rejects a name that no workload has. Otherwise a misspelt name would print an empty table. */
static void check_only(void) {
    int i, n = opt.model && !opt.ids && (is_wanted("beam 1") || is_wanted("beam 4"));
    for (i = 0; i < N_WORKLOADS; i++)
        n += is_wanted(workloads[i].name) && is_possible(&workloads[i]) &&
             (!opt.model || opt.ids || workloads[i].of == LOAD);
    if (!n) misuse("no workload begins with '%s' (--help lists them)", opt.only);
}

int main(int argc, char **argv) {
    opt.how.seconds = 3, opt.batch = 32, opt.threads = opt.workers = 1;
    opt.seed = 1;
    argv = utf8_arguments(&argc, argv);
    if (options_read(table, N_OPTIONS, argc, argv, misuse)) {
        options_print(table, N_OPTIONS, stdout);
        return !output_finish("bench");
    }
    while (opt.type && ++opt.weights < N_WEIGHT_TYPES)
        if (strcmp(weight_types[opt.weights].name, opt.type) == 0) break;
    if (opt.weights == N_WEIGHT_TYPES) misuse("--weights takes f32, f16, bf16 or int8");
    if (opt.cpu && opt.threads * opt.workers + opt.neighbour > 1)
        misuse("--cpu excludes --threads, --workers and --neighbour, whose times it would add up");
    if (opt.threads * opt.workers > MOST_THREADS)
        misuse("--threads times --workers must be at most %d", (int)MOST_THREADS);
    if (opt.ids && !opt.model) misuse("--ids needs MODEL, whose weights it measures");
    check_only();
    if (opt.layers) random_layers = (int)opt.layers;
    opt.how.now = opt.cpu ? cpu_clock : wall_clock, opt.how.repeat = (int)opt.repeat;
    if (opt.write)
        return !make_model(opt.write, opt.vocabulary ? opt.vocabulary : DEFAULT_VOCABULARY,
                           opt.seed, weight_types[opt.weights].dtype, NULL, NULL);
    return !((opt.model && !opt.ids ? run_lines() : run_random()) && output_finish("bench"));
}
