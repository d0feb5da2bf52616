/* bench.c: how fast the library is on this machine, and how fast it could be.

       cc -O2 -I. -Itools tools/bench.c -o bench -lm
       bench [--threads N] [--weights int8]  Transformer base with random weights
       bench MODEL < lines                   a model that you have, on text that you have

   The text below says what is measured. Workloads and ceilings are measured in one run, as machines
   differ and one machine differs from hour to hour: compare percentages, not times. */

#include "output.h"

#include <stdint.h>

/* What TFM_COUNT said since it was last cleared, in any thread. */
static int64_t counted;
#ifdef __GNUC__
#define TFM_COUNT(n) ((void)__atomic_fetch_add(&counted, (int64_t)(n), __ATOMIC_RELAXED))
#else
#define TFM_COUNT(n) ((void)(counted += (int64_t)(n)))
#endif

static void change_part(int part);
#define TFM_PART(part) change_part(TFM_PART_##part)

#define TRANSFORMER_IMPLEMENTATION
#include "transformer.h"
#include "arithmetic.h"
#include "ceilings.h"
#include "random_model.h"
#include "times.h"
#ifndef _WIN32
#include <sys/resource.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>
#endif

static const char usage[] =
    "usage: bench [--only NAME] [--threads N] [--weights TYPE] [--repeat N] [--seconds S]\n"
    "             [--parts] [--steps] [--source N] [--target N] [--cpu] [--json] [--seed N]\n"
    "             [--vocabulary N]\n"
    "       bench MODEL [--batch N] [the same] < lines\n"
    "       bench --write FILE [--weights TYPE] [--vocabulary N] [--seed N]\n"
    "\n"
    "Without MODEL, Transformer base: 6 + 6 layers, 512 wide, 8 heads, FFN 2048, post-norm, "
    "ReLU,\n"
    "32,000 tokens (one embedding for both sides), random weights. The end token is forbidden, "
    "so\n"
    "all translations have 64 tokens.\n"
    "\n"
    "  encode-BxS           the encoder on B sentences of S tokens: 1x32, 1x128, 8x128, 1x512\n"
    "  forward-32x10-32x20  encoder and decoder, teacher-forced, 10,000 tokens\n"
    "  greedy-1, greedy-32  1 or 32 sentences of 32 tokens, greedy\n"
    "  beam4-1, beam4-16    1 or 16 sentences of 32 tokens, beam 4\n"
    "  product-MxKxN        one product: 128x512x2048, 2048x2048x2048\n"
    "  load                 loading a file that has the type of weights, and the peak of memory\n"
    "                       after it and after greedy-1\n"
    "\n"
    "With MODEL: sentences a second over all lines, sorted by length, beam 1 and 4.\n"
    "\n"
    "  --only NAME     that workload, or those whose name begins so\n"
    "  --threads N     that share the work, 1 to 64 (default 1)\n"
    "  --weights TYPE  f32, f16, bf16 or int8: the type of packed matrices (default: as stored,\n"
    "                  and f32 for the random model)\n"
    "  --repeat N      N runs after one that does not count, 1 to 1000\n"
    "  --seconds S     or as many as fit into S seconds, at least 3 (default 3)\n"
    "  --parts         where the time goes, in runs of their own: projections, attention ...\n"
    "  --steps         how long a decoding step takes: percentiles, and by position\n"
    "  --source N      source tokens of a sentence, instead of what a workload has\n"
    "  --target N      target tokens of a sentence, the same\n"
    "  --cpu           CPU time instead of time: for machines that are busy with other things\n"
    "  --batch N       sentences translated together (default 32)\n"
    "  --json          JSON instead of a table\n"
    "  --vocabulary N  tokens of the random model, instead of what a workload has\n"
    "  --write FILE    writes the random model's file and measures nothing\n"
    "  --seed N        of the random weights (default 1)\n"
    "\n"
    "Ceilings, by as many threads: multiply-adds of floats in registers, the same of int8 where\n"
    "the CPU has VNNI, and reading 512 KB, 12 MB and 200 MB over and over, each thread its share.\n"
    "GFLOP/s and GB/s are what the workload must compute and read at least, by formula\n"
    "(tools/arithmetic.h), over its median time; % FMA (int8: % VNNI) and % read are of the\n"
    "ceilings. The larger of both says how close a workload is to what the machine can do.\n"
    "\n"
    "Exit status: 0 done, 1 a fault in a file, 2 a fault in the command line.\n";

enum { MOST_THREADS = 64, DEFAULT_VOCABULARY = 32000, FIRST_WORD = 4 };
#define KB 1024.0
#define MB (1024.0 * 1024.0)

typedef enum kind { ENCODE, FORWARD, DECODE, LOAD, PRODUCT } kind;

typedef struct workload {
    const char *name;
    kind of;
    int32_t rows, source, target, beam, vocabulary;
} workload;

static const workload workloads[] = {
    /* first, in processes of its own, which begin as large as this one is */
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
    /* y [rows, target] = x [rows, source] w^T, alone */
    {"product-128x512x2048", PRODUCT, 128, 512, 2048, 1, 0},
    {"product-2048x2048x2048", PRODUCT, 2048, 2048, 2048, 1, 0},
};
enum { N_WORKLOADS = sizeof workloads / sizeof *workloads };

/* Types of matrices. */
typedef struct weight_choice {
    const char *name;
    tfm_weight_type load;
    tfm_dtype dtype;
} weight_choice;

static const weight_choice weight_choices[] = {{"f32", TFM_WEIGHTS_F32, TFM_F32},
                                               {"f16", TFM_WEIGHTS_F16, TFM_F16},
                                               {"bf16", TFM_WEIGHTS_BF16, TFM_BF16},
                                               {"int8", TFM_WEIGHTS_I8, TFM_I8}};
enum { N_WEIGHT_CHOICES = sizeof weight_choices / sizeof *weight_choices };

typedef struct options {
    const char *model, *only, *write;
    const weight_choice *weights; /* NULL: as stored */
    repeats how;
    int json, cpu, parts, steps;
    int32_t batch, vocabulary, source, target, threads;
    uint64_t seed;
} options;

typedef struct bench {
    options opt;
    ceilings top;
    int n_records; /* printed so far */
    /* the random model that is loaded now; vocabulary 0: none */
    int32_t vocabulary;
    void *bytes;
    size_t size;
    tfm_model *model;
    model_shape shape;
} bench;

static int fail(const char *subject, const char *cause) {
    return output_fail("bench", subject, cause);
}

static tfm_dtype type_of(const options *opt) {
    return opt->weights ? opt->weights->dtype : TFM_F32;
}
static tfm_model_options model_options(const options *opt) {
    tfm_model_options how;
    memset(&how, 0, sizeof how);
    if (opt->weights) how.weights = opt->weights->load;
    return how;
}

/* ---- where the time goes ---- */

enum { N_PARTS = TFM_PART_SEARCH + 1 };
static const char *const part_names[N_PARTS] = {"other", "embedding", "projections", "attention",
                                                "FFN",   "output",    "norm",        "search"};

#ifdef __GNUC__
#define BENCH_LOCAL __thread
#else
#define BENCH_LOCAL
#endif

/* Of one thread: those that help are switched off. */
static BENCH_LOCAL struct profile {
    int is_on, part;
    double since, seconds[N_PARTS];
} profile;

/* TFM_PART: what was since the last call belongs to the part then. */
static void change_part(int part) {
    double t;
    if (!profile.is_on) return;
    t = wall_clock();
    profile.seconds[profile.part] += t - profile.since;
    profile.since = t, profile.part = part;
}

static int run_in_parts(int (*run)(void *), void *what) {
    int ok;
    profile.is_on = 1, profile.part = TFM_PART_OTHER, profile.since = wall_clock();
    ok = run(what);
    change_part(TFM_PART_OTHER);
    profile.is_on = 0;
    return ok;
}

/* ---- what is printed: a record a workload, as JSON or as a line of the table ---- */

/* In the order of JSON: name, digits there, width of the table's column (0: none). */
/* clang-format off */
#define NUMBERS(X) \
    X(tokens_per_s, 1, 10) X(gflops, 2, 8) X(percent_fma, 1, 6) X(percent_vnni, 2, 6) \
    X(gb_per_s, 2, 6) X(percent_read, 1, 6) X(operations, 0, 0) X(operations_counted, 0, 0) \
    X(bytes, 0, 0) X(start_ms, 4, 0) X(read_ms, 4, 0) X(file_mb, 1, 0) X(peak_before_mb, 1, 0) \
    X(peak_loaded_mb, 1, 0) X(peak_decoded_mb, 1, 0) X(tokens, 0, 0) X(sentences, 0, 0) \
    X(sentences_per_s, 2, 0)
#define NUMBER_ENUM(name, digits, width) n_##name,
#define NUMBER_ROW(name, digits, width) {#name, digits, width},
enum { NUMBERS(NUMBER_ENUM) N_NUMBERS };
static const struct {
    const char *name;
    int digits, width;
} numbers[] = {NUMBERS(NUMBER_ROW)};
/* clang-format on */

enum { STEPS, POSITIONS, PARTS, N_LISTS, MOST_ITEMS = 8 };

typedef struct list {
    const char *name; /* in JSON */
    char begin[48];   /* in the table, before the items */
    int n, is_share;  /* shares of 1, or ms */
    double value[MOST_ITEMS];
    char label[MOST_ITEMS][48];
} list;

typedef struct record {
    const char *name;
    times t;
    double number[N_NUMBERS]; /* -1: there is none; NaN: this machine has none */
    char note[160];           /* behind the table's columns */
    list lists[N_LISTS];
    const int32_t *ids;
    int32_t n_ids, has_ids; /* has_ids 0: none are printed */
} record;

static list *begin_list(record *r, int which, const char *name, const char *begin) {
    list *l = &r->lists[which];
    l->name = name, l->is_share = which == PARTS;
    snprintf(l->begin, sizeof l->begin, "%s", begin);
    return l;
}
static void add_item(list *l, const char *label, double value) {
    snprintf(l->label[l->n], sizeof l->label[0], "%s", label);
    l->value[l->n++] = value;
}

static void begin_record(record *r, const char *name) {
    int i;
    memset(r, 0, sizeof *r);
    r->name = name;
    for (i = 0; i < N_NUMBERS; i++) r->number[i] = -1;
}

static int is_int8(const bench *b) { return b->opt.weights && b->opt.weights->dtype == TFM_I8; }

static void print_head(const bench *b) {
    const ceilings *top = &b->top;
    const options *opt = &b->opt;
    const char *weights = opt->weights ? opt->weights->name : "weights as stored";
    char vnni[32] = "-";
    if (top->vnni > 0)
        snprintf(vnni, sizeof vnni, opt->json ? "%.2f" : "%.1f GOP/s", 1e-9 * top->vnni);
    if (opt->json) {
        printf("{\"version\": \"%s\", \"kernels\": \"%s\", \"clock\": \"%s\", \"threads\": %d, "
               "\"weights\": \"%s\",\n"
               " \"ceilings\": {\"instructions\": \"%s\", \"gflops\": %.2f, \"vnni_gops\": %s,\n"
               "  \"read_512KB\": %.2f, \"read_12MB\": %.2f, \"read_200MB\": %.2f},\n"
               " \"workloads\": [",
               tfm_version(), tfm_cpu_string(), opt->cpu ? "cpu" : "wall", (int)opt->threads,
               weights, top->name, 1e-9 * top->flops, top->vnni > 0 ? vnni : "null",
               1e-9 * top->read[0], 1e-9 * top->read[1], 1e-9 * top->read[2]);
        return;
    }
    printf("transformer.h %s, %s, %s, %d thread%s, %s\n", tfm_version(), tfm_cpu_string(), weights,
           (int)opt->threads, opt->threads > 1 ? "s" : "", opt->cpu ? "CPU time" : "time");
    printf("ceilings: FMA %.1f GFLOP/s (%s), VNNI %s;\n"
           "          read %.1f GB/s of 512 KB, %.1f of 12 MB, %.1f of 200 MB\n\n",
           1e-9 * top->flops, top->name, vnni, 1e-9 * top->read[0], 1e-9 * top->read[1],
           1e-9 * top->read[2]);
    printf("%-20s %4s %9s %9s %9s %10s %8s %6s %6s %6s\n", "workload", "runs", "median ms", "p10",
           "p90", "tokens/s", "GFLOP/s", is_int8(b) ? "% VNNI" : "% FMA", "GB/s", "% read");
    fflush(stdout);
}

static void print_tail(const bench *b) {
    if (b->opt.json) printf("\n ]}\n");
}

static void print_json(const bench *b, const record *r) {
    int i, n, k;
    printf("%s\n  {\"name\": \"%s\", \"repeats\": %d, \"median_ms\": %.4f, \"p10_ms\": %.4f, "
           "\"p90_ms\": %.4f,\n   \"ms\": [",
           b->n_records ? "," : "", r->name, r->t.n, 1e3 * median(&r->t),
           1e3 * percentile(r->t.seconds, r->t.n, 0.1),
           1e3 * percentile(r->t.seconds, r->t.n, 0.9));
    for (i = 0; i < r->t.n; i++) printf("%s%.4f", i ? ", " : "", 1e3 * r->t.seconds[i]);
    printf("]");
    for (i = n = 0; i < N_NUMBERS; i++) {
        if (r->number[i] < 0) continue;
        printf(n++ && i != n_operations ? ", " : ",\n   ");
        if (r->number[i] >= 0)
            printf("\"%s\": %.*f", numbers[i].name, numbers[i].digits, r->number[i]);
        else printf("\"%s\": null", numbers[i].name);
    }
    for (i = 0; i < r->n_ids; i++) printf("%s%d", i ? "," : ", \"ids\": [", (int)r->ids[i]);
    if (r->has_ids) printf(r->n_ids ? "]" : ", \"ids\": []");
    for (k = 0; k < N_LISTS; k++) {
        const list *l = &r->lists[k];
        if (l->n) printf(",\n   \"%s\": {", l->name);
        for (i = 0; i < l->n; i++)
            printf("%s\"%s\": %.*f%s", i ? ", " : "", l->label[i], l->is_share ? 6 : 4, l->value[i],
                   i < l->n - 1 ? "" : "}");
    }
    printf("}");
}

static void print_line(const bench *b, const record *r) {
    const int columns[] = {n_tokens_per_s, n_gflops,
                           is_int8(b) ? (int)n_percent_vnni : (int)n_percent_fma, n_gb_per_s,
                           n_percent_read};
    int i, k, n = (int)(sizeof columns / sizeof *columns);
    printf("%-20s %4d %9.2f %9.2f %9.2f", r->name, r->t.n, 1e3 * median(&r->t),
           1e3 * percentile(r->t.seconds, r->t.n, 0.1),
           1e3 * percentile(r->t.seconds, r->t.n, 0.9));
    while (n > 0 && r->number[columns[n - 1]] < 0) n--;
    for (i = 0; i < n; i++) {
        int width = numbers[columns[i]].width;
        if (r->number[columns[i]] >= 0) printf(" %*.1f", width, r->number[columns[i]]);
        else printf(" %*s", width, "-");
    }
    printf("%s", r->note);
    for (k = 0; k < N_LISTS; k++) {
        const list *l = &r->lists[k];
        if (l->n) printf("\n %s%s", *l->begin ? " " : "", l->begin);
        for (i = 0; i < l->n; i++)
            printf(l->is_share ? "%s %s %.1f %%" : "%s %s %.3f", i ? "," : "", l->label[i],
                   l->is_share ? 100 * l->value[i] : l->value[i]);
        if (l->n && !l->is_share) printf(" ms");
    }
}

/* And what the profile has, which it loses. */
static void print_record(bench *b, record *r) {
    list *l = begin_list(r, PARTS, "parts", "");
    double all = 0;
    int i;
    for (i = 0; i < N_PARTS; i++) all += profile.seconds[i];
    for (i = 1; all > 0 && i <= N_PARTS; i++) /* what is left over comes last */
        add_item(l, part_names[i % N_PARTS], profile.seconds[i % N_PARTS] / all);
    if (b->opt.json) print_json(b, r);
    else print_line(b, r), printf("\n");
    fflush(stdout);
    memset(&profile, 0, sizeof profile);
    b->n_records++;
}

/* ---- the random model's workloads ---- */

static void drop_model(bench *b) {
    tfm_model_free(b->model);
    free(b->bytes);
    b->model = NULL, b->bytes = NULL, b->vocabulary = 0;
}

static int need_model(bench *b, int32_t vocabulary) {
    tfm_safetensors *file = NULL;
    tfm_model_options how = model_options(&b->opt);
    tfm_error err;
    if (b->vocabulary == vocabulary) return 1;
    drop_model(b);
    if (!make_model(NULL, vocabulary, b->opt.seed, TFM_F32, &b->bytes, &b->size)) return 0;
    if (tfm_model_load(&b->model, b->bytes, b->size, &how, &err) != TFM_OK ||
        tfm_safetensors_open(&file, b->bytes, b->size, NULL, &err) != TFM_OK)
        return fail("the model", err.text);
    b->shape = shape_of_model(tfm_model_config(b->model), file);
    tfm_safetensors_free(file);
    b->vocabulary = vocabulary;
    return 1;
}

typedef struct job {
    const workload *w;
    const repeats *how;
    tfm_session *session;
    int32_t *src, *tgt;
    float *logits;
    double *steps; /* of each run: start, and w->target steps */
    int n_runs;
} job;

/* Operations and bytes that a workload cannot do without. *once: of the bytes, those that are read
   again and again, which decides what memory they come from. */
static void cost_of(const workload *w, const model_shape *m, weight_unit u, double *operations,
                    double *bytes, double *once) {
    int64_t B = w->rows, S = w->source, T = w->target, R = B * w->beam, t;
    /* of an encoder alone nobody wants keys and values for the decoder, though tfm_encode makes
       them: a seventh more */
    int64_t keys_values = m->N_decoder * ops_keys_values(m, B * S);
    int64_t ops = ops_encode(m, B * S, B * pairs_self(S, 0)), read = bytes_encode(m, u, B * S);
    if (w->of == ENCODE) {
        ops -= keys_values;
        read -= m->N_decoder * size_keys_values(m, u);
        *once = (double)read;
    } else if (w->of == FORWARD) {
        ops += ops_decode(m, B * T, B * pairs_self(T, 1), B * T * S);
        read += bytes_decode(m, u, B * T);
        *once = (double)read;
    } else {
        for (t = 0; t < T; t++) {
            ops += ops_decode(m, R, R * (t + 1), R * S);
            read += bytes_decode(m, u, R) + bytes_cache(m, R * (t + 1) + B * S);
        }
        *once = (double)bytes_decode(m, u, R);
    }
    *operations = (double)ops;
    *bytes = (double)read;
}

/* Greedy or beam search, step by step: the times of start and steps, which are so long that the
   clock costs nothing. */
static int decode_once(job *j, const tfm_batch *src, tfm_error *err) {
    static const int32_t end = TOKEN_END;
    tfm_decode_options decode;
    double *step = j->steps + (int64_t)j->n_runs * (j->w->target + 1), before = j->how->now(),
           after;
    int32_t running = 1, n;
    memset(&decode, 0, sizeof decode);
    decode.max_length = j->w->target, decode.beam = j->w->beam;
    decode.forbidden = &end, decode.n_forbidden = 1;
    if (tfm_start(j->session, src, &decode, err) != TFM_OK) return 0;
    for (n = 0;; n++) {
        after = j->how->now();
        if (n <= j->w->target) step[n] = after - before;
        before = after;
        if (!running) return 1;
        if (tfm_step(j->session, &running, err) != TFM_OK) return 0;
    }
}

static int run_job(void *what) {
    job *j = (job *)what;
    const workload *w = j->w;
    tfm_batch src, tgt;
    tfm_tensor logits =
        tfm_tensor_3d(j->logits, TFM_F32, w->rows, w->target, (int64_t)w->vocabulary);
    tfm_error err;
    int ok;
    src.ids = j->src, tgt.ids = j->tgt, src.lengths = tgt.lengths = NULL;
    src.rows = tgt.rows = w->rows, src.width = w->source, tgt.width = w->target;
    counted = 0;
    if (w->of == ENCODE) ok = tfm_encode(j->session, &src, &err) == TFM_OK;
    else if (w->of == FORWARD)
        ok = tfm_forward(j->session, &src, &tgt, NULL, &logits, &err) == TFM_OK;
    else ok = decode_once(j, &src, &err);
    j->n_runs++;
    return ok || fail(w->name, err.text);
}

/* Word i of the workloads' sentences; no special token among them. */
static int32_t word(int64_t i, int32_t vocabulary) {
    return FIRST_WORD + (int32_t)(mix((uint64_t)i) % (uint64_t)(vocabulary - FIRST_WORD));
}

static int prepare(job *j, const options *opt, const tfm_model *model, const workload *w) {
    tfm_session_options limits;
    tfm_error err;
    int64_t i, n_src = (int64_t)w->rows * w->source, n_tgt = (int64_t)w->rows * w->target;
    memset(j, 0, sizeof *j);
    memset(&limits, 0, sizeof limits);
    limits.max_batch = w->rows, limits.max_source = w->source;
    limits.max_target = w->target ? w->target : 1, limits.max_beam = w->beam;
    limits.threads = opt->threads;
    j->w = w, j->how = &opt->how;
    j->src = (int32_t *)malloc((size_t)(n_src + n_tgt) * sizeof *j->src);
    if (w->of == FORWARD)
        j->logits = (float *)malloc((size_t)n_tgt * (size_t)w->vocabulary * sizeof *j->logits);
    j->steps = (double *)malloc((size_t)(w->target + 1) * (MOST_REPEATS + 1) * sizeof *j->steps);
    if (!j->src || !j->steps || (w->of == FORWARD && !j->logits)) return fail(w->name, "no memory");
    j->tgt = j->src + n_src;
    for (i = 0; i < n_src + n_tgt; i++) j->src[i] = word(i, w->vocabulary);
    return tfm_session_create(&j->session, model, &limits, &err) == TFM_OK ||
           fail(w->name, err.text);
}

static void release(job *j) {
    tfm_session_free(j->session);
    free(j->src);
    free(j->logits);
    free(j->steps);
}

/* The median over n runs of a step, counted from 1, in ms; 0 is the start. */
static double median_step(const job *j, int n, int64_t step) {
    times t;
    for (t.n = 0; t.n < n; t.n++)
        t.seconds[t.n] = j->steps[(int64_t)t.n * (j->w->target + 1) + step];
    sort_times(&t);
    return 1e3 * median(&t);
}

/* How long steps take: all of n runs in order, and spans of positions. Sorts them. */
static void add_steps(record *r, job *j, int n) {
    static const double shares[] = {0.1, 0.5, 0.9, 0.99, 1};
    static const char *const names[] = {"p10", "p50", "p90", "p99", "max"};
    const int64_t most = MOST_ITEMS;
    int64_t T = j->w->target, spans = T < most ? T : most, k, i, all = 0;
    list *l = begin_list(r, POSITIONS, "step_ms_at", "mean of positions");
    char text[24]; /* what a label has */
    r->number[n_start_ms] = median_step(j, n, 0);
    for (k = 0; k < spans; k++) {
        int64_t first = k * T / spans, end = (k + 1) * T / spans;
        double sum = 0;
        for (i = first; i < end; i++) sum += median_step(j, n, i + 1);
        snprintf(text, sizeof text, "%d-%d", (int)first + 1, (int)end);
        add_item(l, text, sum / (double)(end - first));
    }
    for (i = 0; i < n; i++)
        for (k = 1; k <= T; k++) j->steps[all++] = j->steps[i * (T + 1) + k];
    qsort(j->steps, (size_t)all, sizeof *j->steps, by_size);
    snprintf(text, sizeof text, "start %.3f ms; steps", r->number[n_start_ms]);
    l = begin_list(r, STEPS, "step_ms", text);
    for (k = 0; k < 5; k++) add_item(l, names[k], 1e3 * percentile(j->steps, all, shares[k]));
}

/* Operations a second, and percent of the ceilings. */
static void add_rates(record *r, const ceilings *top, double operations) {
    double rate = operations / median(&r->t);
    r->number[n_gflops] = 1e-9 * rate;
    r->number[n_percent_fma] = 100 * rate / top->flops;
    r->number[n_percent_vnni] = top->vnni > 0 ? 100 * rate / top->vnni : (double)NAN;
}

static int run_workload(bench *b, const workload *w) {
    record r;
    job j;
    tfm_result result;
    double began, bytes = 0, once = 0, *x = r.number;
    int ok = need_model(b, w->vocabulary), n;
    if (!ok) return 0;
    begin_record(&r, w->name);
    ok = prepare(&j, &b->opt, b->model, w) && run_job(&j);
    j.n_runs = 0;
    ok = ok && time_runs(&r.t, &b->opt.how, LEAST_REPEATS, run_job, NULL, &j);
    n = j.n_runs;
    began = wall_clock(); /* half a second for those that are short */
    while (ok && b->opt.parts && wall_clock() - began < 0.5) {
        j.n_runs = n; /* in the room behind the last run */
        ok = run_in_parts(run_job, &j);
    }
    if (ok) {
        cost_of(w, &b->shape, unit_bytes(type_of(&b->opt)), &x[n_operations], &bytes, &once);
        add_rates(&r, &b->top, x[n_operations]);
        x[n_tokens_per_s] = (double)w->rows * (w->of == ENCODE ? w->source : w->target) /
                            median(&r.t);
        x[n_gb_per_s] = 1e-9 * bytes / median(&r.t);
        x[n_percent_read] = 1e11 * x[n_gb_per_s] / read_ceiling(&b->top, once);
        x[n_operations_counted] = (double)counted, x[n_bytes] = bytes;
        r.has_ids = 1;
        if (w->of == DECODE) {
            if (tfm_result_get(j.session, 0, 0, &result, NULL) == TFM_OK)
                r.ids = result.ids, r.n_ids = result.length;
            if (b->opt.json || b->opt.steps) add_steps(&r, &j, n);
        }
        print_record(b, &r);
    }
    release(&j);
    return ok;
}

/* ---- a product alone, by the library's own threads ---- */

/* A linear map by rows, packed as a model of this type has it. */
static tfm_status pack_linear(const bench *b, tfm__pool *pool, tfm__linear *l, float *rows,
                              int64_t N, int64_t K, tfm_error *err) {
    tfm__packer p;
    memset(&p, 0, sizeof p);
    memset(l, 0, sizeof *l);
    memset(pool, 0, sizeof *pool);
    TFM__TRY(tfm__choose_allocator(&pool->allocator, NULL, err));
    p.kernels = tfm__kernels_here(), p.pool = pool, p.weights = b->opt.weights->load, p.err = err;
    l->w.dtype = TFM_F32, l->w.rows = N, l->w.columns = K, l->w.data = (unsigned char *)rows;
    TFM__TRY(tfm__pool_take(pool, tfm__pack_scratch(K), sizeof(float), &p.scratch, err));
    return tfm__pack(&p, &l->w);
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

static int run_product(bench *b, const workload *w) {
    int64_t M = w->rows, K = w->source, N = w->target, most = M > N ? M : N;
    float *x = (float *)malloc((size_t)(2 * most * K + M * N) * sizeof *x), *rows = x + most * K;
    tfm__pool pool;
    product p;
    tfm__workers workers;
    tfm_error err;
    record r;
    if (!x) return fail(w->name, "no memory");
    begin_record(&r, w->name);
    memset(&p, 0, sizeof p);
    p.x = tfm__rows_make(x, 1, M, K), p.y = tfm__rows_make(rows + most * K, 1, M, N);
    fill(x, 2 * most * K, 1.0f, 7);
    if (pack_linear(b, &pool, &p.linear, rows, N, K, &err) != TFM_OK ||
        start_team(&p.team, &workers, b->opt.threads, &err) != TFM_OK) {
        free(x);
        return fail(w->name, err.text);
    }
    run_linear(&p);
    time_runs(&r.t, &b->opt.how, LEAST_REPEATS, run_linear, NULL, &p);
    add_rates(&r, &b->top, 2.0 * (double)M * (double)N * (double)K);
    print_record(b, &r);
    stop_team(&p.team);
    tfm__pool_free(&pool);
    free(x);
    return 1;
}

/* ---- load time and peak memory ---- */

#ifndef _WIN32
/* In MB; of this process. */
static double peak_memory(void) {
    struct rusage used;
    if (getrusage(RUSAGE_SELF, &used) != 0) return 0;
#ifdef __APPLE__
    return (double)used.ru_maxrss / MB;
#else
    return (double)used.ru_maxrss / KB;
#endif
}

typedef struct loading {
    const bench *b;
    const char *path;
    const workload *w; /* to be done after the first load, or NULL */
    tfm_model *model;
    times read;
    double size, loaded, decoded; /* peaks */
} loading;

static int run_load(void *what) {
    loading *l = (loading *)what;
    tfm_model_options how = model_options(&l->b->opt);
    tfm_error err;
    return tfm_model_load_file(&l->model, l->path, &how, &err) == TFM_OK || fail("load", err.text);
}

/* The peaks after the first load, which are never taken back; then the file's bytes into memory and
   nothing more: the least that loading can take. */
static int after_load(void *what) {
    loading *l = (loading *)what;
    double start;
    FILE *file;
    char *data = NULL;
    long n = -1;
    job j;
    if (l->read.n == 0) {
        l->loaded = peak_memory();
        if (l->w && prepare(&j, &l->b->opt, l->model, l->w) && run_job(&j))
            l->decoded = peak_memory();
        if (l->w) release(&j);
    }
    tfm_model_free(l->model);
    l->model = NULL;
    start = l->b->opt.how.now();
    file = fopen(l->path, "rb");
    if (file && fseek(file, 0, SEEK_END) == 0) n = ftell(file);
    if (n > 0) data = (char *)malloc((size_t)n);
    l->size = data && fseek(file, 0, SEEK_SET) == 0 ? (double)fread(data, 1, (size_t)n, file) : 0;
    free(data);
    if (file) fclose(file);
    l->read.seconds[l->read.n++] = l->b->opt.how.now() - start;
    return 1;
}

/* The random model's file, or the user's. */
static int measure_load(bench *b, const char *path, const workload *w) {
    loading l;
    record r;
    double *x = r.number;
    size_t used;
    begin_record(&r, "load");
    memset(&l, 0, sizeof l);
    l.b = b, l.path = path, l.w = w;
    x[n_peak_before_mb] = peak_memory();
    if (!time_runs(&r.t, &b->opt.how, LEAST_REPEATS, run_load, after_load, &l)) return 0;
    sort_times(&l.read);
    x[n_read_ms] = 1e3 * median(&l.read), x[n_file_mb] = l.size / MB;
    x[n_peak_loaded_mb] = l.loaded, x[n_peak_decoded_mb] = l.decoded;
    snprintf(r.note, sizeof r.note,
             "  reading alone %.1f ms; file %.1f MB; peak %.1f MB before, %.1f loaded",
             x[n_read_ms], x[n_file_mb], x[n_peak_before_mb], x[n_peak_loaded_mb]);
    used = strlen(r.note);
    if (w) snprintf(r.note + used, sizeof r.note - used, ", %.1f after greedy-1", l.decoded);
    print_record(b, &r);
    return 1;
}

/* Runs step 0 or 1 in a process of its own: makes the file, measures. */
static int in_process(bench *b, int step, const char *path, const workload *w) {
    int status = 0, ok;
    pid_t child;
    fflush(stdout);
    child = fork();
    if (child == 0) {
        ok = step == 0 ? make_model(path, w->vocabulary, b->opt.seed, type_of(&b->opt), NULL, NULL)
                       : measure_load(b, path, w);
        fflush(stdout);
        _exit(!ok);
    }
    if (child < 0 || waitpid(child, &status, 0) != child) return fail("load", "no process");
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}
#endif

/* path NULL: a file of the random model, for the time of the run. */
static int load_workload(bench *b, const char *path, const workload *w) {
#ifdef _WIN32
    (void)b, (void)path, (void)w;
    return 1; /* no getrusage there */
#else
    char made[] = "/tmp/bench-XXXXXX";
    output watched;
    int file, ok;
    if (path) {
        ok = in_process(b, 1, path, NULL);
    } else {
        output_watch(&watched); /* a Ctrl-C leaves no file: it ends the children */
        file = mkstemp(made);
        ok = file >= 0 || fail(made, strerror(errno));
        if (file >= 0) close(file);
        ok = ok && in_process(b, 0, made, w) && !output_stopped() && in_process(b, 1, made, w);
        if (file >= 0) remove(made);
        output_unwatch(&watched);
    }
    b->n_records += ok;
    return ok;
#endif
}

static int is_wanted(const bench *b, const char *name) {
    const char *only = b->opt.only;
    int i;
    for (i = 0; only && i < N_WORKLOADS; i++) /* beam4-1 is not beam4-16 */
        if (strcmp(workloads[i].name, only) == 0) return strcmp(name, only) == 0;
    return !only || strncmp(name, only, strlen(only)) == 0;
}

/* What the command line says instead of the workload, and a name that says so. */
static void change_workload(const options *opt, workload *w, char *name, size_t size) {
    if (opt->vocabulary) w->vocabulary = opt->vocabulary;
    if (w->of == LOAD || w->of == PRODUCT || (!opt->source && !opt->target)) return;
    if (opt->source) w->source = opt->source;
    if (opt->target && w->of != ENCODE) w->target = opt->target;
    if (w->of == ENCODE) snprintf(name, size, "encode-%dx%d", (int)w->rows, (int)w->source);
    else if (w->of == FORWARD)
        snprintf(name, size, "forward-%dx%d-%dx%d", (int)w->rows, (int)w->source, (int)w->rows,
                 (int)w->target);
    else snprintf(name, size, "%s-%dx%d", w->name, (int)w->source, (int)w->target);
    w->name = name;
}

static int measure_ceilings(bench *b) {
    tfm_error err;
    return ceilings_measure(&b->top, b->opt.threads, &b->opt.how, &err) == TFM_OK ||
           fail("ceilings", err.text);
}

static int run_random(bench *b) {
    char name[64];
    int i, ok = measure_ceilings(b);
    if (!b->opt.weights) b->opt.weights = &weight_choices[0];
    if (ok) print_head(b);
    for (i = 0; ok && i < N_WORKLOADS; i++) {
        workload w = workloads[i];
        if (!is_wanted(b, w.name)) continue;
        change_workload(&b->opt, &w, name, sizeof name);
        if (w.of == PRODUCT) ok = run_product(b, &w);
        else ok = w.of == LOAD ? load_workload(b, NULL, &w) : run_workload(b, &w);
    }
    if (ok) print_tail(b);
    drop_model(b);
    return ok;
}

/* ---- a model on lines of text ---- */

enum { LONGEST_SOURCE = 512, TEXT_ROOM = 65536 };

typedef struct lines {
    char *data; /* all of them */
    tfm_text *texts;
    int64_t n;
    size_t longest;
} lines;

static int by_length(const void *a, const void *b) {
    const tfm_text *x = (const tfm_text *)a, *y = (const tfm_text *)b;
    if (x->size != y->size) return x->size < y->size ? 1 : -1;
    return (x->data > y->data) - (x->data < y->data);
}

/* Lines that are not blank, the longest first: a batch holds little padding. */
static int read_lines(lines *l) {
    size_t room = 0, size = 0, at, end;
    for (;;) {
        if (size + 1 >= room) {
            char *larger = (char *)realloc(l->data, room = 2 * room + 65536);
            if (!larger) return fail("standard input", "no memory");
            l->data = larger;
        }
        end = fread(l->data + size, 1, room - size - 1, stdin);
        if (!end) break;
        size += end;
    }
    l->data[size] = '\0';
    for (at = 0, room = 0; at < size; at++) room += l->data[at] == '\n';
    l->texts = (tfm_text *)malloc((room + 1) * sizeof *l->texts);
    if (!l->texts) return fail("standard input", "no memory");
    for (at = 0; at < size; at = end + 1) {
        for (end = at; end < size && l->data[end] != '\n';) end++;
        if (strspn(l->data + at, " \t\r") >= end - at) continue;
        l->texts[l->n].data = l->data + at;
        l->texts[l->n++].size = end - at;
        if (end - at > l->longest) l->longest = end - at;
    }
    qsort(l->texts, (size_t)l->n, sizeof *l->texts, by_length);
    return l->n > 0 || fail("standard input", "no lines");
}

typedef struct translation {
    const bench *b;
    const lines *l;
    tfm_session *session;
    int beam;
    int64_t end; /* of the lines */
    tfm_text *out;
    char *buffer;
    double tokens; /* that came out */
} translation;

static int translate(void *what) {
    translation *t = (translation *)what;
    tfm_decode_options decode;
    tfm_result result;
    tfm_error err;
    int64_t i;
    int32_t n, row, batch = t->b->opt.batch;
    memset(&decode, 0, sizeof decode);
    decode.beam = t->beam;
    for (i = 0, t->tokens = 0; i < t->end; i += n) {
        n = (int32_t)(t->end - i < batch ? t->end - i : batch);
        if (tfm_translate_batch(t->session, t->l->texts + i, t->out, n, &decode, t->buffer,
                                (size_t)batch * TEXT_ROOM, &err) != TFM_OK)
            return fail(t->b->opt.model, err.text);
        for (row = 0; row < n; row++)
            if (tfm_result_get(t->session, row, 0, &result, NULL) == TFM_OK)
                t->tokens += (double)result.length;
    }
    return 1;
}

static int run_beam(bench *b, const tfm_model *model, const lines *l, int beam) {
    tfm_session_options limits;
    translation t;
    record r;
    tfm_error err;
    int32_t batch = b->opt.batch;
    double *x = r.number;
    int ok = 1;
    begin_record(&r, beam == 1 ? "beam 1" : "beam 4");
    memset(&t, 0, sizeof t);
    t.b = b, t.l = l, t.beam = beam, t.end = l->n < batch ? l->n : batch;
    t.out = (tfm_text *)malloc((size_t)batch * sizeof *t.out);
    t.buffer = (char *)malloc((size_t)batch * TEXT_ROOM);
    memset(&limits, 0, sizeof limits);
    limits.max_batch = batch, limits.max_beam = beam, limits.threads = b->opt.threads;
    /* a token has a byte or more; of what rules of normalization make longer we take the risk */
    limits.max_source = l->longest + 8 < LONGEST_SOURCE ? (int32_t)l->longest + 8 : LONGEST_SOURCE;
    if (!t.out || !t.buffer) ok = fail("beam", "no memory");
    if (ok && tfm_session_create(&t.session, model, &limits, &err) != TFM_OK)
        ok = fail(b->opt.model, err.text);
    ok = ok && translate(&t);
    t.end = l->n;
    ok = ok && time_runs(&r.t, &b->opt.how, 1, translate, NULL, &t) &&
         (!b->opt.parts || run_in_parts(translate, &t));
    if (ok) {
        x[n_tokens_per_s] = t.tokens / median(&r.t), x[n_tokens] = t.tokens;
        x[n_sentences] = (double)l->n, x[n_sentences_per_s] = (double)l->n / median(&r.t);
        snprintf(r.note, sizeof r.note, "   %.1f sentences/s (%lld, batches of %d)",
                 x[n_sentences_per_s], (long long)l->n, (int)batch);
        print_record(b, &r);
    }
    tfm_session_free(t.session);
    free(t.out);
    free(t.buffer);
    return ok;
}

static int run_lines(bench *b) {
    tfm_model_options how = model_options(&b->opt);
    tfm_model *model = NULL;
    tfm_error err;
    lines l;
    int ok;
    memset(&l, 0, sizeof l);
    ok = read_lines(&l) && measure_ceilings(b);
    if (ok) print_head(b);
    if (ok && is_wanted(b, "load")) ok = load_workload(b, b->opt.model, NULL);
    if (ok && tfm_model_load_file(&model, b->opt.model, &how, &err) != TFM_OK)
        ok = fail(b->opt.model, err.text);
    if (ok && is_wanted(b, "beam 1")) ok = run_beam(b, model, &l, 1);
    if (ok && is_wanted(b, "beam 4")) ok = run_beam(b, model, &l, 4);
    if (ok) print_tail(b);
    tfm_model_free(model);
    free(l.data);
    free(l.texts);
    return ok;
}

/* ---- the command line ---- */

/* The weights of that name, or NULL. */
static const weight_choice *find_weights(const char *name) {
    int i;
    for (i = 0; name && i < N_WEIGHT_CHOICES; i++)
        if (strcmp(name, weight_choices[i].name) == 0) return &weight_choices[i];
    return NULL;
}

/* A number from least to most; 0 with a message if text is none. */
static int read_number(const char *option, const char *text, double least, double most,
                       double *number) {
    char *end = NULL;
    *number = text ? strtod(text, &end) : 0;
    if (text && end != text && !*end && *number >= least && *number <= most) return 1;
    fprintf(stderr, "bench: %s takes a number from %g to %g; see --help\n", option, least, most);
    return 0;
}

static int read_options(options *opt, int argc, char **argv) {
    double repeat = 0, batch = 32, threads = 1, source = 0, target = 0, vocabulary = 0, seed = 1;
    const struct {
        const char *name;
        double least, most, *to;
    } taking[] = {{"--repeat", 1, MOST_REPEATS, &repeat},
                  {"--seconds", 0, 86400, &opt->how.seconds},
                  {"--batch", 1, 4096, &batch},
                  {"--threads", 1, MOST_THREADS, &threads},
                  {"--source", 1, 16384, &source},
                  {"--target", 1, 16384, &target},
                  {"--vocabulary", 10, 1000000, &vocabulary},
                  {"--seed", 0, 1e15, &seed}};
    const struct {
        const char *name;
        int *to;
    } flags[] = {{"--json", &opt->json},
                 {"--cpu", &opt->cpu},
                 {"--parts", &opt->parts},
                 {"--steps", &opt->steps}};
    int i, k, n, f;
    opt->how.seconds = 3;
    for (i = 1; i < argc; i++) {
        const char *name = argv[i], *value = i + 1 < argc ? argv[i + 1] : NULL;
        for (n = 0, k = 8; n < 8; n++)
            if (strcmp(taking[n].name, name) == 0) k = n;
        for (n = 0, f = 4; n < 4; n++)
            if (strcmp(flags[n].name, name) == 0) f = n;
        if (f < 4) {
            *flags[f].to = 1;
        } else if (k < 8) {
            if (!read_number(name, value, taking[k].least, taking[k].most, taking[k].to)) return 0;
            i++;
        } else if (strcmp(name, "--only") == 0 && value) {
            opt->only = argv[++i];
        } else if (strcmp(name, "--write") == 0 && value) {
            opt->write = argv[++i];
        } else if (strcmp(name, "--weights") == 0) {
            i++;
            if ((opt->weights = find_weights(value)) != NULL) continue;
            fputs("bench: --weights takes f32, f16, bf16 or int8; see --help\n", stderr);
            return 0;
        } else if (name[0] == '-' || opt->model) {
            fprintf(stderr, "bench: '%s' is unknown or one too many; see --help\n", name);
            return 0;
        } else {
            opt->model = name;
        }
    }
    opt->how.now = opt->cpu ? cpu_clock : wall_clock, opt->how.repeat = (int)repeat;
    opt->batch = (int32_t)batch, opt->threads = (int32_t)threads, opt->source = (int32_t)source;
    opt->target = (int32_t)target, opt->vocabulary = (int32_t)vocabulary,
    opt->seed = (uint64_t)seed;
    if (!opt->cpu || opt->threads == 1) return 1;
    fputs("bench: --cpu adds up the time of all threads: not with --threads\n", stderr);
    return 0;
}

/* A misspelt name would otherwise be a table without rows. */
static int check_only(const bench *b) {
    int i;
    if (b->opt.model && (is_wanted(b, "beam 1") || is_wanted(b, "beam 4"))) return 1;
    for (i = 0; i < N_WORKLOADS; i++)
        if (is_wanted(b, workloads[i].name) && (!b->opt.model || workloads[i].of == LOAD)) return 1;
    fprintf(stderr, "bench: no workload begins with '%s'; see --help\n", b->opt.only);
    return 0;
}

int main(int argc, char **argv) {
    bench b;
    int i;
    for (i = 1; i < argc; i++)
        if (strcmp(argv[i], "--help") == 0) return fputs(usage, stdout) < 0 || fflush(stdout) != 0;
    memset(&b, 0, sizeof b);
    if (!read_options(&b.opt, argc, argv) || !check_only(&b)) return 2;
    if (b.opt.write)
        return !make_model(b.opt.write, b.opt.vocabulary ? b.opt.vocabulary : DEFAULT_VOCABULARY,
                           b.opt.seed, type_of(&b.opt), NULL, NULL);
    return !(b.opt.model ? run_lines(&b) : run_random(&b));
}
