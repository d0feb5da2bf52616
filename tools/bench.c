/* bench.c: how fast the library is on this machine, and how fast it could be.

       cc -O2 -I. -Itools tools/bench.c -o bench -lm
       bench [--threads N] [--weights int8]  Transformer base with random weights
       bench MODEL < lines                   a model that you have, on text that you have

   The text below says what is measured. Workloads and ceilings are measured in one run, as machines
   differ and one machine differs from hour to hour: compare percentages, not times. */

#if !defined(_WIN32) && !defined(_XOPEN_SOURCE)
#define _XOPEN_SOURCE 700 /* clock_gettime, getrusage, fork beside -std=c99 */
#endif
#ifndef _DEFAULT_SOURCE
#define _DEFAULT_SOURCE
#endif
#if defined(__APPLE__) && !defined(_DARWIN_C_SOURCE)
#define _DARWIN_C_SOURCE
#endif

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
#include "write_safetensors.h"
#include <time.h>
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
    "  --weights TYPE  f32, f16, bf16 or int8: what matrices are kept as (default: as stored,\n"
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
    "Ceilings, by as many threads: multiply-adds of floats in registers, the same of bytes where\n"
    "the CPU has VNNI, and reading 512 KB, 12 MB and 200 MB over and over, each thread its share.\n"
    "GFLOP/s and GB/s are what the workload must compute and read at least, by formula\n"
    "(tools/arithmetic.h), over its median time; % FMA (int8: % VNNI) and % read are of the\n"
    "ceilings. The larger of both says how close a workload is to what the machine can do.\n"
    "\n"
    "Exit status: 0 done, 1 a fault in a file, 2 a fault in the command line.\n";

enum { MOST_REPEATS = 1000, LEAST_REPEATS = 3, N_READS = 3, DEFAULT_VOCABULARY = 32000 };
enum { TOKEN_START = 1, TOKEN_END = 2, FIRST_WORD = 4 };
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

/* What matrices can be kept as. */
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
enum { MOST_THREADS = 64 };

typedef struct options {
    const char *model, *only, *write;
    const weight_choice *weights; /* NULL: as stored */
    int repeat, json, cpu, parts, steps;
    int32_t batch, vocabulary, source, target, threads;
    double seconds;
    uint64_t seed;
} options;

/* Times of one thing, in order once they are sorted. */
typedef struct times {
    double seconds[MOST_REPEATS];
    int n;
} times;

typedef struct ceilings {
    const char *name; /* of the instructions */
    double flops;     /* a second */
    double vnni;      /* the same of bytes; 0: the CPU has no such instruction */
    double read[N_READS];
} ceilings;
static const int64_t read_bytes[N_READS] = {512 * 1024, 12 * 1024 * 1024, 200 * 1024 * 1024};

typedef struct bench {
    options opt;
    ceilings top;
    int n_rows; /* printed so far */
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

/* ---- time ---- */

static double now(const options *opt) {
#ifndef _WIN32
    struct timespec t;
    if (!opt->cpu && clock_gettime(CLOCK_MONOTONIC, &t) == 0)
        return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
#else
    (void)opt;
#endif
    return (double)clock() / CLOCKS_PER_SEC;
}

static int by_size(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}
static void sort_times(times *t) { qsort(t->seconds, (size_t)t->n, sizeof *t->seconds, by_size); }

/* Of sorted times: the one that a share of them is below. */
static double percentile(const times *t, double share) {
    int i = (int)(share * (double)(t->n - 1) + 0.5);
    return t->seconds[i];
}

/* Whether there should be one more run. began: when the first that counts did. */
static int goes_on(const options *opt, const times *t, double began, int least) {
    if (t->n >= MOST_REPEATS) return 0;
    if (opt->repeat) return t->n < opt->repeat;
    return t->n < least || now(opt) - began < opt->seconds;
}

/* ---- random numbers: the same weights and sentences from the same seed everywhere ---- */

static uint64_t mix(uint64_t x) { /* splitmix64 */
    x += UINT64_C(0x9E3779B97F4A7C15);
    x = (x ^ (x >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94D049BB133111EB);
    return x ^ (x >> 31);
}

static void fill(float *data, int64_t n, float scale, uint64_t seed) {
    int64_t i;
    for (i = 0; i < n; i++) {
        uint64_t bits = mix(seed + (uint64_t)i / 2) >> 32 * (i & 1) & 0xFFFFFF;
        data[i] = scale * ((float)(int32_t)bits / 8388608.0f - 1.0f);
    }
}

/* Word i of the workloads' sentences; no special token among them. */
static int32_t word(int64_t i, int32_t vocabulary) {
    return FIRST_WORD + (int32_t)(mix((uint64_t)i) % (uint64_t)(vocabulary - FIRST_WORD));
}

/* ---- the model ---- */

enum { D = 512, F = 2048, LAYERS = 6 };

/* A model being made: its tensors, which the writer only points to. */
typedef struct maker {
    st_writer writer;
    void *data[512];
    int n, made;    /* made: but for scales, which change no numbers */
    tfm_dtype type; /* of matrices */
    uint64_t seed;
    int failed;
} maker;

/* A matrix in the type that is wanted, none of which is larger: each row ends before the next one
   begins. The scales of I8 beside it. */
static void make_rows(maker *m, char *name, float *data, int64_t rows, int64_t width) {
    size_t size = (size_t)(st_bits(m->type) / 8);
    float *scales = (float *)malloc((size_t)rows * sizeof *scales);
    float copy[F]; /* the longest row */
    int64_t row;
    if (!scales || m->n == (int)(sizeof m->data / sizeof *m->data)) {
        free(scales);
        m->failed = 1;
        return;
    }
    m->data[m->n++] = scales;
    for (row = 0; row < rows; row++) {
        memcpy(copy, data + row * width, (size_t)width * sizeof *copy);
        st_row(m->type, (char *)data + (size_t)(row * width) * size, copy, width, &scales[row]);
    }
    st_add(&m->writer, name, tfm_tensor_2d(data, m->type, rows, width));
    if (m->type != TFM_I8) return;
    strcat(name, "_scale"); /* there is room */
    st_add(&m->writer, name, tfm_tensor_1d(scales, TFM_F32, rows));
}

/* A tensor [d0, d1], or [d0] where d1 is 0, within +-scale; scale 0: ones. Each has numbers of its
   own, so that models of two vocabularies have the same layers. */
static void make(maker *m, const char *prefix, const char *name, int64_t d0, int64_t d1,
                 float scale) {
    int64_t n = d0 * (d1 ? d1 : 1), dims[2], i;
    float *data = (float *)malloc((size_t)n * sizeof *data);
    char whole[128];
    if (!data || m->n == (int)(sizeof m->data / sizeof *m->data)) {
        free(data);
        m->failed = 1;
        return;
    }
    if (scale > 0) fill(data, n, scale, mix(m->seed + (uint64_t)m->made));
    else
        for (i = 0; i < n; i++) data[i] = 1;
    dims[0] = d0, dims[1] = d1;
    m->data[m->n++] = data;
    m->made++;
    snprintf(whole, sizeof whole, "%s%s", prefix, name);
    if (d1 && m->type != TFM_F32) make_rows(m, whole, data, d0, d1);
    else st_add(&m->writer, whole, tfm_tensor_make(data, TFM_F32, d1 ? 2 : 1, dims));
}

/* size: of what comes out, relative to what goes in. */
static void make_linear(maker *m, const char *prefix, const char *weight, const char *bias,
                        int64_t out, int64_t in, float size) {
    make(m, prefix, weight, out, in, size * sqrtf(3.0f / (float)in));
    make(m, prefix, bias, out, 0, 0.01f);
}

/* What a sublayer adds is small beside what it is added to: else the layers' own constants drown
   the words, and all positions get the same logits. */
#define BRANCH 0.3f

static void make_layer(maker *m, const char *stack, int layer, int cross) {
    static const char *const norms[] = {"norm1", "norm2", "norm3"};
    char prefix[64], name[32];
    int i;
    snprintf(prefix, sizeof prefix, "%s.layers.%d.", stack, layer);
    make_linear(m, prefix, "self_attn.in_proj_weight", "self_attn.in_proj_bias", 3 * D, D, 1);
    make_linear(m, prefix, "self_attn.out_proj.weight", "self_attn.out_proj.bias", D, D, BRANCH);
    if (cross) {
        make_linear(m, prefix, "multihead_attn.in_proj_weight", "multihead_attn.in_proj_bias",
                    3 * D, D, 1);
        make_linear(m, prefix, "multihead_attn.out_proj.weight", "multihead_attn.out_proj.bias", D,
                    D, BRANCH);
    }
    make_linear(m, prefix, "linear1.weight", "linear1.bias", F, D, 1);
    make_linear(m, prefix, "linear2.weight", "linear2.bias", D, F, BRANCH);
    for (i = 0; i < (cross ? 3 : 2); i++) {
        snprintf(name, sizeof name, "%s.weight", norms[i]);
        make(m, prefix, name, D, 0, 0);
        snprintf(name, sizeof name, "%s.bias", norms[i]);
        make(m, prefix, name, D, 0, 0.01f);
    }
}

/* Transformer base, into a file, or into memory if path is NULL. */
static int make_model(const char *path, int32_t vocabulary, uint64_t seed, tfm_dtype type,
                      void **data, size_t *size) {
    maker *m = (maker *)calloc(1, sizeof *m);
    const char *fault;
    char config[200];
    int i;
    if (!m) return fail("the model", "no memory");
    st_init(&m->writer);
    m->seed = mix(seed);
    m->type = type;
    snprintf(config, sizeof config,
             "{\"n_heads\": 8, \"embedding_scale\": \"sqrt_d\", \"start\": %d, \"end\": %d}",
             (int)TOKEN_START, (int)TOKEN_END);
    st_add_metadata(&m->writer, "transformer.config", config);
    make(m, "src_embedding", ".weight", vocabulary, D, sqrtf(3.0f / (float)D));
    /* not the embedding once more, which would translate each word to itself */
    make(m, "generator", ".weight", vocabulary, D, sqrtf(3.0f / (float)D));
    for (i = 0; i < LAYERS; i++) make_layer(m, "encoder", i, 0);
    for (i = 0; i < LAYERS; i++) make_layer(m, "decoder", i, 1);
    if (m->failed) fault = "no memory";
    else fault = path ? st_write_file(&m->writer, path) : st_write_memory(&m->writer, data, size);
    if (fault) fail("the model", fault);
    st_free(&m->writer);
    for (i = 0; i < m->n; i++) free(m->data[i]);
    free(m);
    return !fault;
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

/* ---- ceilings ---- */

/* Two functions each: rounds of CHAINS multiply-adds that wait for nobody but themselves, of a
   vector each; and the sum of a buffer, which is nothing but loads. CHAINS is the product of
   latency and rate of the machines that have the instructions, or more. */
enum { CHAINS = 12, ROUNDS = 100000 };
static volatile float sink; /* results go here, or no compiler would compute them */
/* read once a chain: a compiler that knew that chains are equal would compute one */
static volatile float factor = 0.5f;

#if defined(__GNUC__) && defined(__x86_64__) && !defined(TRANSFORMER_NO_SIMD)
#define BENCH_X86
#include <immintrin.h>

/* vector type, instructions, and how many floats a vector has */
#define BENCH_CEILINGS(suffix, type, instructions, lanes, set1, fmadd, loadu, add, storeu)         \
    __attribute__((target(instructions))) static double fma_##suffix(void) {                       \
        type x = set1(factor), y = set1(factor), a0 = set1(factor), a1 = set1(factor);             \
        type a2 = set1(factor), a3 = set1(factor), a4 = set1(factor), a5 = set1(factor);           \
        type a6 = set1(factor), a7 = set1(factor), a8 = set1(factor), a9 = set1(factor);           \
        type a10 = set1(factor), a11 = set1(factor);                                               \
        float last[lanes];                                                                         \
        int i;                                                                                     \
        for (i = 0; i < ROUNDS; i++) {                                                             \
            a0 = fmadd(a0, x, y), a1 = fmadd(a1, x, y), a2 = fmadd(a2, x, y);                      \
            a3 = fmadd(a3, x, y), a4 = fmadd(a4, x, y), a5 = fmadd(a5, x, y);                      \
            a6 = fmadd(a6, x, y), a7 = fmadd(a7, x, y), a8 = fmadd(a8, x, y);                      \
            a9 = fmadd(a9, x, y), a10 = fmadd(a10, x, y), a11 = fmadd(a11, x, y);                  \
        }                                                                                          \
        a0 = add(add(add(a0, a1), add(a2, a3)), add(add(a4, a5), add(a6, a7)));                    \
        a0 = add(a0, add(add(a8, a9), add(a10, a11)));                                             \
        storeu(last, a0);                                                                          \
        sink = last[0];                                                                            \
        return 2.0 * lanes * (double)CHAINS * (double)ROUNDS;                                      \
    }                                                                                              \
    __attribute__((target(instructions))) static void read_##suffix(const float *x, int64_t n) {   \
        type a0 = set1(0.0f), a1 = a0, a2 = a0, a3 = a0, a4 = a0, a5 = a0, a6 = a0, a7 = a0;       \
        float last[lanes];                                                                         \
        int64_t i;                                                                                 \
        for (i = 0; i + 8 * lanes <= n; i += 8 * lanes) {                                          \
            a0 = add(a0, loadu(x + i)), a1 = add(a1, loadu(x + i + lanes));                        \
            a2 = add(a2, loadu(x + i + 2 * lanes)), a3 = add(a3, loadu(x + i + 3 * lanes));        \
            a4 = add(a4, loadu(x + i + 4 * lanes)), a5 = add(a5, loadu(x + i + 5 * lanes));        \
            a6 = add(a6, loadu(x + i + 6 * lanes)), a7 = add(a7, loadu(x + i + 7 * lanes));        \
        }                                                                                          \
        storeu(last, add(add(add(a0, a1), add(a2, a3)), add(add(a4, a5), add(a6, a7))));           \
        sink = last[0];                                                                            \
    }

BENCH_CEILINGS(avx512, __m512, "avx512f", 16, _mm512_set1_ps, _mm512_fmadd_ps, _mm512_loadu_ps,
               _mm512_add_ps, _mm512_storeu_ps)

/* Four products of bytes and their sum in each of 16 lanes. */
__attribute__((target("avx512f,avx512vnni"))) static double fma_vnni(void) {
    __m512i a[CHAINS], x = _mm512_set1_epi32((int)factor + 0x01020304), y = x;
    int32_t last[16];
    int i, c;
    for (c = 0; c < CHAINS; c++) a[c] = _mm512_set1_epi32((int)factor);
    for (i = 0; i < ROUNDS; i++) {
        a[0] = _mm512_dpbusd_epi32(a[0], x, y), a[1] = _mm512_dpbusd_epi32(a[1], x, y);
        a[2] = _mm512_dpbusd_epi32(a[2], x, y), a[3] = _mm512_dpbusd_epi32(a[3], x, y);
        a[4] = _mm512_dpbusd_epi32(a[4], x, y), a[5] = _mm512_dpbusd_epi32(a[5], x, y);
        a[6] = _mm512_dpbusd_epi32(a[6], x, y), a[7] = _mm512_dpbusd_epi32(a[7], x, y);
        a[8] = _mm512_dpbusd_epi32(a[8], x, y), a[9] = _mm512_dpbusd_epi32(a[9], x, y);
        a[10] = _mm512_dpbusd_epi32(a[10], x, y), a[11] = _mm512_dpbusd_epi32(a[11], x, y);
    }
    for (c = 1; c < CHAINS; c++) a[0] = _mm512_add_epi32(a[0], a[c]);
    _mm512_storeu_si512(last, a[0]);
    sink = (float)last[0];
    return 2.0 * 64 * (double)CHAINS * (double)ROUNDS;
}
BENCH_CEILINGS(avx2, __m256, "avx2,fma", 8, _mm256_set1_ps, _mm256_fmadd_ps, _mm256_loadu_ps,
               _mm256_add_ps, _mm256_storeu_ps)
#endif

/* What the compiler makes of loops: a ceiling of its own, perhaps not the machine's. */
static double fma_plain(void) {
    float a[4 * CHAINS], x = factor;
    int i, l;
    for (l = 0; l < 4 * CHAINS; l++) a[l] = factor;
    for (i = 0; i < ROUNDS; i++)
        for (l = 0; l < 4 * CHAINS; l++) a[l] = a[l] * x + x;
    for (l = 1; l < 4 * CHAINS; l++) a[0] += a[l];
    sink = a[0];
    return 8.0 * (double)CHAINS * (double)ROUNDS;
}
static void read_plain(const float *x, int64_t n) {
    float a[32];
    int64_t i;
    int l;
    memset(a, 0, sizeof a);
    for (i = 0; i + 32 <= n; i += 32)
        for (l = 0; l < 32; l++) a[l] += x[i + l];
    for (l = 1; l < 32; l++) a[0] += a[l];
    sink = a[0];
}

/* What one thread does for a ceiling: calls of compute, or passes of read over its part. */
typedef struct stint {
    double (*compute)(void);
    void (*read)(const float *x, int64_t n);
    const float *x;
    int64_t n, times;
    double operations;
} stint;

static void *do_stint(void *work) {
    stint *s = (stint *)work;
    int64_t i;
    s->operations = 0;
    for (i = 0; i < s->times; i++)
        if (s->compute) s->operations += s->compute();
        else s->read(s->x, s->n);
    return NULL;
}

/* The same stint in all threads, on a part each; seconds until the last is done, or -1. */
static double do_stints(const options *opt, const stint *one, double *operations) {
    stint all[MOST_THREADS];
    double start;
    int n = opt->threads, i;
#ifdef TFM__THREADS
    pthread_t threads[MOST_THREADS];
    int started;
#endif
    for (i = 0; i < n; i++) {
        all[i] = *one;
        all[i].n = one->n / n;
        all[i].x = one->x ? one->x + i * all[i].n : NULL;
    }
    start = now(opt);
#ifdef TFM__THREADS
    for (started = 1; started < n; started++)
        if (pthread_create(&threads[started], NULL, do_stint, &all[started]) != 0) break;
    do_stint(&all[0]);
    for (i = 1; i < started; i++) pthread_join(threads[i], NULL);
    if (started < n) return -1;
#else
    for (i = 0; i < n; i++) do_stint(&all[i]);
#endif
    start = now(opt) - start;
    for (i = 0, *operations = 0; i < n; i++) *operations += all[i].operations;
    return start;
}

/* The median seconds of a stint, which should be long enough to start threads for; or -1. */
static double time_stints(const options *opt, const stint *one, double *operations) {
    times t;
    double began = now(opt);
    for (t.n = 0; goes_on(opt, &t, began, LEAST_REPEATS); t.n++)
        if ((t.seconds[t.n] = do_stints(opt, one, operations)) < 0) return -1;
    sort_times(&t);
    return percentile(&t, 0.5);
}

/* Operations a second; 0 if threads failed. */
static double measure_compute(const options *opt, double (*compute)(void)) {
    stint one;
    double operations = 0, seconds;
    memset(&one, 0, sizeof one);
    one.compute = compute, one.times = 10;
    compute();
    seconds = time_stints(opt, &one, &operations);
    return seconds > 0 ? operations / seconds : 0;
}

static int measure_ceilings(bench *b) {
    double (*fma)(void) = fma_plain;
    stint one;
    float *buffer = (float *)malloc((size_t)read_bytes[N_READS - 1]);
    options opt = b->opt; /* a small share of the time */
    double seconds = 0, operations;
    int size;
    if (!buffer) return fail("read bandwidth", "no memory");
    memset(&one, 0, sizeof one);
    b->top.name = "plain C", one.read = read_plain;
    if (opt.repeat && opt.repeat < LEAST_REPEATS) opt.repeat = LEAST_REPEATS;
    opt.seconds /= 4;
#ifdef BENCH_X86
    if (__builtin_cpu_supports("avx512f")) {
        b->top.name = "AVX-512", fma = fma_avx512, one.read = read_avx512;
    } else if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
        b->top.name = "AVX2 and FMA", fma = fma_avx2, one.read = read_avx2;
    }
    if (__builtin_cpu_supports("avx512vnni")) b->top.vnni = measure_compute(&opt, fma_vnni);
#endif
    b->top.flops = measure_compute(&opt, fma);
    fill(buffer, read_bytes[N_READS - 1] / 4, 1.0f, 1); /* pages that were never written are one */
    one.x = buffer;
    for (size = 0; size < N_READS && seconds >= 0; size++) {
        one.n = read_bytes[size] / 4;
        one.times = 1;
        do_stints(&opt, &one, &operations); /* small ones are in their cache now */
        one.times = read_bytes[N_READS - 1] / read_bytes[size];
        seconds = time_stints(&opt, &one, &operations);
        b->top.read[size] = (double)one.times * (double)read_bytes[size] / seconds;
    }
    free(buffer);
    return (seconds > 0 && b->top.flops > 0) || fail("ceilings", "threads cannot be started");
}

/* The read ceiling that goes with so many bytes read over and over. */
static double read_ceiling(const ceilings *top, double bytes) {
    int size = 0;
    while (size < N_READS - 1 && bytes > (double)read_bytes[size]) size++;
    return top->read[size];
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

static double clock_of_parts(void) {
#ifndef _WIN32
    struct timespec t;
    if (clock_gettime(CLOCK_MONOTONIC, &t) == 0) return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
#endif
    return (double)clock() / CLOCKS_PER_SEC;
}

/* TFM_PART: what was since the last call belongs to the part then. */
static void change_part(int part) {
    double t;
    if (!profile.is_on) return;
    t = clock_of_parts();
    profile.seconds[profile.part] += t - profile.since;
    profile.since = t, profile.part = part;
}

static void begin_parts(void) {
    profile.is_on = 1, profile.part = TFM_PART_OTHER, profile.since = clock_of_parts();
}
static void end_parts(void) {
    change_part(TFM_PART_OTHER);
    profile.is_on = 0;
}

/* ---- what is printed ---- */

static const char *weights_name(const bench *b) {
    return b->opt.weights ? b->opt.weights->name : "weights as stored";
}
static int is_int8(const bench *b) { return b->opt.weights && b->opt.weights->dtype == TFM_I8; }

/* A number that may not be there, in JSON. */
static void print_or_null(const char *name, double number) {
    if (number > 0) printf(", \"%s\": %.2f", name, number);
    else printf(", \"%s\": null", name);
}

static void print_head(const bench *b) {
    const ceilings *top = &b->top;
    if (b->opt.json) {
        printf("{\"version\": \"%s\", \"kernels\": \"%s\", \"clock\": \"%s\", \"threads\": %d, "
               "\"weights\": \"%s\",\n"
               " \"ceilings\": {\"instructions\": \"%s\", \"gflops\": %.2f",
               tfm_version(), tfm_cpu_string(), b->opt.cpu ? "cpu" : "wall", (int)b->opt.threads,
               weights_name(b), top->name, 1e-9 * top->flops);
        print_or_null("vnni_gops", 1e-9 * top->vnni);
        printf(",\n  \"read_512KB\": %.2f, \"read_12MB\": %.2f, \"read_200MB\": %.2f},\n"
               " \"workloads\": [",
               1e-9 * top->read[0], 1e-9 * top->read[1], 1e-9 * top->read[2]);
        return;
    }
    printf("transformer.h %s, %s, %s, %d thread%s, %s\n", tfm_version(), tfm_cpu_string(),
           weights_name(b), (int)b->opt.threads, b->opt.threads > 1 ? "s" : "",
           b->opt.cpu ? "CPU time" : "time");
    printf("ceilings: FMA %.1f GFLOP/s (%s), VNNI ", 1e-9 * top->flops, top->name);
    if (top->vnni > 0) printf("%.1f GOP/s", 1e-9 * top->vnni);
    else printf("-");
    printf(";\n          read %.1f GB/s of 512 KB, %.1f of 12 MB, %.1f of 200 MB\n\n",
           1e-9 * top->read[0], 1e-9 * top->read[1], 1e-9 * top->read[2]);
    printf("%-20s %4s %9s %9s %9s %10s %8s %6s %6s %6s\n", "workload", "runs", "median ms", "p10",
           "p90", "tokens/s", "GFLOP/s", is_int8(b) ? "% VNNI" : "% FMA", "GB/s", "% read");
    fflush(stdout);
}

static void print_tail(const bench *b) {
    if (b->opt.json) printf("\n ]}\n");
}

/* Name and times of a row, which the caller ends. */
static void begin_row(bench *b, const char *name, const times *t) {
    double median = 1e3 * percentile(t, 0.5);
    double p10 = 1e3 * percentile(t, 0.1), p90 = 1e3 * percentile(t, 0.9);
    int i;
    if (!b->opt.json) {
        printf("%-20s %4d %9.2f %9.2f %9.2f", name, t->n, median, p10, p90);
        return;
    }
    printf("%s\n  {\"name\": \"%s\", \"repeats\": %d, \"median_ms\": %.4f, \"p10_ms\": %.4f, "
           "\"p90_ms\": %.4f,\n   \"ms\": [",
           b->n_rows ? "," : "", name, t->n, median, p10, p90);
    for (i = 0; i < t->n; i++) printf("%s%.4f", i ? ", " : "", 1e3 * t->seconds[i]);
    printf("]");
}
/* What the profile has, which it loses. */
static void print_parts(const bench *b) {
    double all = 0;
    int i, n = 0;
    for (i = 0; i < N_PARTS; i++) all += profile.seconds[i];
    if (all > 0) {
        printf(b->opt.json ? ",\n   \"parts\": {" : "\n ");
        for (i = 1; i <= N_PARTS; i++) { /* what is left over comes last */
            const char *name = part_names[i % N_PARTS];
            double share = profile.seconds[i % N_PARTS] / all;
            if (b->opt.json) printf("%s\"%s\": %.6f", n++ ? ", " : "", name, share);
            else printf(" %s %.1f %%%s", name, 100 * share, i < N_PARTS ? "," : "");
        }
        if (b->opt.json) printf("}");
    }
    memset(&profile, 0, sizeof profile);
}
static void end_row(bench *b) {
    if (b->opt.parts) print_parts(b);
    printf(b->opt.json ? "}" : "\n");
    fflush(stdout);
    b->n_rows++;
}

/* ---- the workloads ---- */

typedef struct job {
    const workload *w;
    tfm_session *session;
    int32_t *src, *tgt;
    float *logits;
    /* of each run that counts: start, and w->target steps */
    double *steps;
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
static int decode_once(job *j, const options *opt, const tfm_batch *src, tfm_error *err) {
    static const int32_t end = TOKEN_END;
    tfm_decode_options decode;
    double *step = j->steps + (int64_t)j->n_runs * (j->w->target + 1), before = now(opt), after;
    int32_t running = 1, n;
    memset(&decode, 0, sizeof decode);
    decode.max_length = j->w->target, decode.beam = j->w->beam;
    decode.forbidden = &end, decode.n_forbidden = 1;
    if (tfm_start(j->session, src, &decode, err) != TFM_OK) return 0;
    for (n = 0;; n++) {
        after = now(opt);
        if (n <= j->w->target) step[n] = after - before;
        before = after;
        if (!running) return 1;
        if (tfm_step(j->session, &running, err) != TFM_OK) return 0;
    }
}

static int run_once(job *j, const options *opt, tfm_error *err) {
    const workload *w = j->w;
    tfm_batch src, tgt;
    src.ids = j->src, src.lengths = NULL, src.rows = w->rows, src.width = w->source;
    if (w->of == ENCODE) return tfm_encode(j->session, &src, err) == TFM_OK;
    if (w->of == FORWARD) {
        tfm_tensor logits =
            tfm_tensor_3d(j->logits, TFM_F32, w->rows, w->target, (int64_t)w->vocabulary);
        tgt.ids = j->tgt, tgt.lengths = NULL, tgt.rows = w->rows, tgt.width = w->target;
        return tfm_forward(j->session, &src, &tgt, NULL, &logits, err) == TFM_OK;
    }
    return decode_once(j, opt, &src, err);
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
    j->w = w;
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

static void print_result_ids(job *j) {
    tfm_result result;
    int32_t i;
    printf(", \"ids\": [");
    if (j->w->of == DECODE && tfm_result_get(j->session, 0, 0, &result, NULL) == TFM_OK)
        for (i = 0; i < result.length; i++) printf("%s%d", i ? "," : "", (int)result.ids[i]);
    printf("]");
}

/* The median over the runs of step n, counted from 1; 0 is the start. */
static double median_step(const job *j, int32_t n) {
    times t;
    for (t.n = 0; t.n < j->n_runs; t.n++)
        t.seconds[t.n] = j->steps[(int64_t)t.n * (j->w->target + 1) + n];
    sort_times(&t);
    return percentile(&t, 0.5);
}

/* How long steps take: all of all runs in order, and spans of positions. Sorts, so it comes last. */
static void print_steps(const bench *b, job *j) {
    const int64_t most = 8;
    static const double shares[] = {0.1, 0.5, 0.9, 0.99, 1};
    static const char *const names[] = {"p10", "p50", "p90", "p99", "max"};
    int64_t T = j->w->target, n = 0, i, k, spans = T < most ? T : most;
    double start = 1e3 * median_step(j, 0), sum[8];
    int json = b->opt.json;
    memset(sum, 0, sizeof sum);
    for (k = 0; k < spans; k++)
        for (i = k * T / spans; i < (k + 1) * T / spans; i++)
            sum[k] += 1e3 * median_step(j, (int32_t)i + 1);
    for (i = 0; i < j->n_runs; i++)
        for (k = 1; k <= T; k++) j->steps[n++] = j->steps[i * (T + 1) + k];
    qsort(j->steps, (size_t)n, sizeof *j->steps, by_size);
    printf(json ? ",\n   \"start_ms\": %.4f, \"step_ms\": {" : "\n  start %.3f ms; steps", start);
    for (i = 0; i < 5; i++)
        printf(json ? "%s\"%s\": %.4f" : "%s %s %.3f", i ? (json ? ", " : ",") : "", names[i],
               1e3 * j->steps[(int64_t)(shares[i] * (double)(n - 1) + 0.5)]);
    printf(json ? "},\n   \"step_ms_at\": {" : " ms\n  mean of positions");
    for (k = 0; k < spans; k++) {
        int64_t first = k * T / spans, end = (k + 1) * T / spans;
        printf(json ? "%s\"%lld-%lld\": %.4f" : "%s %lld-%lld %.3f", k ? (json ? ", " : ",") : "",
               (long long)first + 1, (long long)end, sum[k] / (double)(end - first));
    }
    printf(json ? "}" : " ms");
}

static void print_workload(bench *b, job *j, times *t) {
    const workload *w = j->w;
    double operations, bytes, once, median, tokens, flops, rate, of_flops, of_read;
    double of_vnni;
    sort_times(t);
    median = percentile(t, 0.5);
    cost_of(w, &b->shape, unit_bytes(type_of(&b->opt)), &operations, &bytes, &once);
    tokens = (double)w->rows * (w->of == ENCODE ? w->source : w->target) / median;
    flops = operations / median, of_flops = 100 * flops / b->top.flops;
    of_vnni = b->top.vnni > 0 ? 100 * flops / b->top.vnni : 0;
    rate = bytes / median, of_read = 100 * rate / read_ceiling(&b->top, once);
    begin_row(b, w->name, t);
    if (b->opt.json) {
        printf(",\n   \"tokens_per_s\": %.1f, \"gflops\": %.2f, \"percent_fma\": %.1f", tokens,
               1e-9 * flops, of_flops);
        print_or_null("percent_vnni", of_vnni);
        printf(", \"gb_per_s\": %.2f, \"percent_read\": %.1f,\n"
               "   \"operations\": %.0f, \"operations_counted\": %lld, \"bytes\": %.0f",
               1e-9 * rate, of_read, operations, (long long)counted, bytes);
        print_result_ids(j);
    } else {
        printf(" %10.1f %8.1f", tokens, 1e-9 * flops);
        if (is_int8(b) && of_vnni <= 0) printf(" %6s", "-");
        else printf(" %6.1f", is_int8(b) ? of_vnni : of_flops);
        printf(" %6.1f %6.1f", 1e-9 * rate, of_read);
    }
    if (w->of == DECODE && (b->opt.json || b->opt.steps)) print_steps(b, j);
    end_row(b);
}

static int run_workload(bench *b, const workload *w) {
    times t;
    job j;
    tfm_error err;
    double began, start;
    int ok;
    if (!need_model(b, w->vocabulary)) return 0;
    ok = prepare(&j, &b->opt, b->model, w);
    if (ok && !run_once(&j, &b->opt, &err)) ok = fail(w->name, err.text);
    for (t.n = 0, began = now(&b->opt); ok && goes_on(&b->opt, &t, began, LEAST_REPEATS); t.n++) {
        counted = 0;
        start = now(&b->opt);
        if (!run_once(&j, &b->opt, &err)) ok = fail(w->name, err.text);
        t.seconds[t.n] = now(&b->opt) - start;
        j.n_runs++;
    }
    /* in the room behind the last run; half a second for those that are short */
    for (began = now(&b->opt), start = 0; ok && b->opt.parts && start < 0.5;
         start = now(&b->opt) - began) {
        counted = 0;
        begin_parts();
        if (!run_once(&j, &b->opt, &err)) ok = fail(w->name, err.text);
        end_parts();
    }
    if (ok) print_workload(b, &j, &t);
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

static int run_product(bench *b, const workload *w) {
    int64_t M = w->rows, K = w->source, N = w->target, most = M > N ? M : N;
    float *numbers = (float *)malloc((size_t)(2 * most * K + M * N) * sizeof *numbers);
    float *x = numbers, *rows = numbers + most * K, *y = rows + most * K;
    tfm__rows from = tfm__rows_make(x, 1, M, K), to = tfm__rows_make(y, 1, M, N);
    tfm__linear linear;
    tfm__pool pool;
    tfm__workers workers;
    tfm__team team;
    tfm_error err;
    times t;
    double began, start, operations = 2.0 * (double)M * (double)N * (double)K, rate;
    int ok = numbers != NULL || fail(w->name, "no memory");
    team.kernels = tfm__kernels_here(), team.n = b->opt.threads;
    team.parallel.run = tfm__run_parts, team.parallel.user = &workers;
    if (!ok) return 0;
    fill(numbers, 2 * most * K, 1.0f, 7);
    if (pack_linear(b, &pool, &linear, rows, N, K, &err) != TFM_OK ||
        (team.n > 1 && tfm__start_workers(&workers, team.n - 1, &err) != TFM_OK)) {
        free(numbers);
        return fail(w->name, err.text);
    }
    tfm__linear_run(&team, &to, &from, &linear);
    for (t.n = 0, began = now(&b->opt); goes_on(&b->opt, &t, began, LEAST_REPEATS); t.n++) {
        start = now(&b->opt);
        tfm__linear_run(&team, &to, &from, &linear);
        t.seconds[t.n] = now(&b->opt) - start;
    }
    sort_times(&t);
    rate = operations / percentile(&t, 0.5);
    begin_row(b, w->name, &t);
    if (b->opt.json)
        printf(",\n   \"gflops\": %.2f, \"percent_fma\": %.1f", 1e-9 * rate,
               100 * rate / b->top.flops);
    else
        printf(" %10s %8.1f %6.1f", "-", 1e-9 * rate,
               100 * rate / (is_int8(b) && b->top.vnni > 0 ? b->top.vnni : b->top.flops));
    end_row(b);
    if (team.n > 1) tfm__stop_workers(&workers);
    tfm__pool_free(&pool);
    free(numbers);
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

/* The file's bytes into memory and nothing more, in seconds: the least that loading can take. */
static double read_file(const options *opt, const char *path, double *size) {
    double start = now(opt);
    FILE *file = fopen(path, "rb");
    char *data = NULL;
    long n = -1;
    if (file && fseek(file, 0, SEEK_END) == 0) n = ftell(file);
    if (n > 0) data = (char *)malloc((size_t)n);
    *size = data && fseek(file, 0, SEEK_SET) == 0 ? (double)fread(data, 1, (size_t)n, file) : 0;
    free(data);
    if (file) fclose(file);
    return now(opt) - start;
}

/* The random model's file, or the user's. What is read first stays: a peak is never taken back. */
static int measure_load(bench *b, const char *path, const workload *w) {
    times load, read;
    tfm_model_options how = model_options(&b->opt);
    tfm_model *model = NULL;
    tfm_error err;
    job j;
    double size = 0, began, start, before = peak_memory(), loaded = 0, decoded = 0;
    load.n = read.n = 0;
    for (began = now(&b->opt); goes_on(&b->opt, &load, began, LEAST_REPEATS); load.n++) {
        start = now(&b->opt);
        if (tfm_model_load_file(&model, path, &how, &err) != TFM_OK) return fail("load", err.text);
        load.seconds[load.n] = now(&b->opt) - start;
        if (load.n == 0) {
            loaded = peak_memory();
            if (w && prepare(&j, &b->opt, model, w) && run_once(&j, &b->opt, &err))
                decoded = peak_memory();
            if (w) release(&j);
        }
        tfm_model_free(model);
        read.seconds[read.n++] = read_file(&b->opt, path, &size);
    }
    sort_times(&load), sort_times(&read);
    begin_row(b, "load", &load);
    if (b->opt.json)
        printf(",\n   \"read_ms\": %.4f, \"file_mb\": %.1f, \"peak_before_mb\": %.1f, "
               "\"peak_loaded_mb\": %.1f, \"peak_decoded_mb\": %.1f",
               1e3 * percentile(&read, 0.5), size / MB, before, loaded, decoded);
    else
        printf("  reading alone %.1f ms; file %.1f MB; peak %.1f MB before, %.1f loaded",
               1e3 * percentile(&read, 0.5), size / MB, before, loaded);
    if (!b->opt.json && w) printf(", %.1f after greedy-1", decoded);
    end_row(b);
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
static int run_load(bench *b, const char *path, const workload *w) {
#ifdef _WIN32
    (void)b, (void)path, (void)w;
    return 1; /* no getrusage there */
#else
    char made[] = "/tmp/bench-XXXXXX";
    int file, ok;
    if (path) {
        ok = in_process(b, 1, path, NULL);
    } else {
        file = mkstemp(made);
        if (file < 0) return fail(made, strerror(errno));
        close(file);
        ok = in_process(b, 0, made, w) && in_process(b, 1, made, w);
        remove(made);
    }
    b->n_rows += ok;
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
        else ok = w.of == LOAD ? run_load(b, NULL, &w) : run_workload(b, &w);
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

/* Translates lines from first to end; adds up the tokens that came out. */
static int translate(const bench *b, tfm_session *session, const lines *l, int64_t end, int beam,
                     tfm_text *out, char *buffer, double *tokens) {
    tfm_decode_options decode;
    tfm_result result;
    tfm_error err;
    int64_t i;
    int32_t n, row;
    memset(&decode, 0, sizeof decode);
    decode.beam = beam;
    for (i = 0; i < end; i += n) {
        n = (int32_t)(end - i < b->opt.batch ? end - i : b->opt.batch);
        if (tfm_translate_batch(session, l->texts + i, out, n, &decode, buffer,
                                (size_t)b->opt.batch * TEXT_ROOM, &err) != TFM_OK)
            return fail(b->opt.model, err.text);
        for (row = 0; row < n; row++)
            if (tfm_result_get(session, row, 0, &result, NULL) == TFM_OK)
                *tokens += (double)result.length;
    }
    return 1;
}

static int run_beam(bench *b, const tfm_model *model, const lines *l, int beam) {
    tfm_session_options limits;
    tfm_session *session = NULL;
    tfm_error err;
    tfm_text *out = (tfm_text *)malloc((size_t)b->opt.batch * sizeof *out);
    char *buffer = (char *)malloc((size_t)b->opt.batch * TEXT_ROOM), name[32];
    times t;
    double began, start, tokens = 0, median;
    int64_t warm_up = l->n < b->opt.batch ? l->n : b->opt.batch;
    int ok = 1;
    memset(&limits, 0, sizeof limits);
    limits.max_batch = b->opt.batch, limits.max_beam = beam, limits.threads = b->opt.threads;
    /* a token has a byte or more; of what rules of normalization make longer we take the risk */
    limits.max_source = l->longest + 8 < LONGEST_SOURCE ? (int32_t)l->longest + 8 : LONGEST_SOURCE;
    if (!out || !buffer) ok = fail("beam", "no memory");
    if (ok && tfm_session_create(&session, model, &limits, &err) != TFM_OK)
        ok = fail(b->opt.model, err.text);
    if (ok) ok = translate(b, session, l, warm_up, beam, out, buffer, &tokens);
    for (t.n = 0, began = now(&b->opt); ok && goes_on(&b->opt, &t, began, 1); t.n++) {
        start = now(&b->opt);
        tokens = 0;
        ok = translate(b, session, l, l->n, beam, out, buffer, &tokens);
        t.seconds[t.n] = now(&b->opt) - start;
    }
    if (ok && b->opt.parts) {
        double again = 0;
        begin_parts();
        ok = translate(b, session, l, l->n, beam, out, buffer, &again);
        end_parts();
    }
    if (ok) {
        sort_times(&t);
        median = percentile(&t, 0.5);
        snprintf(name, sizeof name, "beam %d", beam);
        begin_row(b, name, &t);
        if (b->opt.json)
            printf(", \"tokens_per_s\": %.1f, \"tokens\": %.0f, \"sentences\": %lld, "
                   "\"sentences_per_s\": %.2f",
                   tokens / median, tokens, (long long)l->n, (double)l->n / median);
        else
            printf(" %10.1f   %.1f sentences/s (%lld, batches of %d)", tokens / median,
                   (double)l->n / median, (long long)l->n, (int)b->opt.batch);
        end_row(b);
    }
    tfm_session_free(session);
    free(out);
    free(buffer);
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
    if (ok && is_wanted(b, "load")) ok = run_load(b, b->opt.model, NULL);
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

/* A number from least to most; 0 with a message if text is none. */
static int read_number(const char *option, const char *text, double least, double most,
                       double *number) {
    char *end = NULL;
    *number = text ? strtod(text, &end) : 0;
    if (text && end != text && !*end && *number >= least && *number <= most) return 1;
    fprintf(stderr, "bench: %s takes a number from %g to %g; see --help\n", option, least, most);
    return 0;
}

static int read_weights(options *opt, const char *text) {
    int i;
    for (i = 0; text && i < N_WEIGHT_CHOICES; i++)
        if (strcmp(text, weight_choices[i].name) == 0) opt->weights = &weight_choices[i];
    if (opt->weights) return 1;
    fputs("bench: --weights takes f32, f16, bf16 or int8; see --help\n", stderr);
    return 0;
}

static int read_options(options *opt, int argc, char **argv) {
    double number;
    int i;
    for (i = 1; i < argc; i++) {
        const char *name = argv[i], *value = i + 1 < argc ? argv[i + 1] : NULL;
        i++;
        if (strcmp(name, "--only") == 0 && value) {
            opt->only = value;
        } else if (strcmp(name, "--write") == 0 && value) {
            opt->write = value;
        } else if (strcmp(name, "--repeat") == 0) {
            if (!read_number(name, value, 1, MOST_REPEATS, &number)) return 0;
            opt->repeat = (int)number;
        } else if (strcmp(name, "--seconds") == 0) {
            if (!read_number(name, value, 0, 86400, &opt->seconds)) return 0;
        } else if (strcmp(name, "--batch") == 0) {
            if (!read_number(name, value, 1, 4096, &number)) return 0;
            opt->batch = (int32_t)number;
        } else if (strcmp(name, "--weights") == 0) {
            if (!read_weights(opt, value)) return 0;
        } else if (strcmp(name, "--threads") == 0) {
            if (!read_number(name, value, 1, MOST_THREADS, &number)) return 0;
            opt->threads = (int32_t)number;
        } else if (strcmp(name, "--source") == 0) {
            if (!read_number(name, value, 1, 16384, &number)) return 0;
            opt->source = (int32_t)number;
        } else if (strcmp(name, "--target") == 0) {
            if (!read_number(name, value, 1, 16384, &number)) return 0;
            opt->target = (int32_t)number;
        } else if (strcmp(name, "--vocabulary") == 0) {
            if (!read_number(name, value, 10, 1000000, &number)) return 0;
            opt->vocabulary = (int32_t)number;
        } else if (strcmp(name, "--seed") == 0) {
            if (!read_number(name, value, 0, 1e15, &number)) return 0;
            opt->seed = (uint64_t)number;
        } else {
            i--; /* none that takes a value */
            if (strcmp(name, "--json") == 0) {
                opt->json = 1;
            } else if (strcmp(name, "--cpu") == 0) {
                opt->cpu = 1;
            } else if (strcmp(name, "--parts") == 0) {
                opt->parts = 1;
            } else if (strcmp(name, "--steps") == 0) {
                opt->steps = 1;
            } else if (name[0] == '-' || opt->model) {
                fprintf(stderr, "bench: '%s' is unknown or one too many; see --help\n", name);
                return 0;
            } else {
                opt->model = name;
            }
        }
    }
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
    b.opt.seconds = 3, b.opt.batch = 32, b.opt.seed = 1, b.opt.threads = 1;
    if (!read_options(&b.opt, argc, argv) || !check_only(&b)) return 2;
    if (b.opt.write)
        return !make_model(b.opt.write, b.opt.vocabulary ? b.opt.vocabulary : DEFAULT_VOCABULARY,
                           b.opt.seed, type_of(&b.opt), NULL, NULL);
    return !(b.opt.model ? run_lines(&b) : run_random(&b));
}
