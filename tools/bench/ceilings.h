/* ceilings.h: measures the limits of this machine: how fast each unit of its CPU multiplies and
   adds in registers, and how fast memory can be read. It uses as many threads as the workload, so
   compare a workload only with ceilings of the same number of threads. The including program must
   contain the implementation of transformer.h, because these are the library's threads.

       ceilings top;
       ceilings_measure(&top, 2, &how, &err);    returns TFM_OK, or an error in err */
#ifndef CEILINGS_H
#define CEILINGS_H

#include "times.h"
#include "transformer.h"

enum { N_READS = 3 };
static const int64_t read_bytes[N_READS] = {512 * 1024, 12 * 1024 * 1024, 200 * 1024 * 1024};
static const char *const read_names[N_READS] = {"512KB", "12MB", "200MB"};

/* The units that multiply and add: f32, int8 (u8 x s8) and bf16 in vectors, int8 and bf16 in
   AMX. */
enum { UNIT_FMA, UNIT_VNNI, UNIT_BF16, UNIT_AMX_INT8, UNIT_AMX_BF16, N_UNITS };
static const struct {
    const char *name, *json, *head; /* json: key of the rate; head: heading of the percent column */
} units[N_UNITS] = {{"FMA", "gflops", "% FMA"},
                    {"VNNI", "vnni_gops", "% VNNI"},
                    {"BF16", "bf16_gflops", "% BF16"},
                    {"AMX int8", "amx_int8_gops", "% AMX"},
                    {"AMX bf16", "amx_bf16_gflops", "% AMX"}};

/* One measured piece of work. It makes n vector multiply-adds, into CHAINS independent sums, so no
   instruction waits for the one before it. Or it adds up n floats, which takes as long as loading
   them. Returns the number of operations or bytes. */
typedef double (*stint)(const float *x, int64_t n);

typedef struct ceilings {
    const char *name;     /* instruction set of the vectors */
    double unit[N_UNITS]; /* operations per second; 0: the CPU lacks the unit */
    double read[N_READS]; /* bytes per second */
    stint reader;         /* the function that measured them */
} ceilings;

/* Makes a team of the library's own threads. One thread needs no helpers. */
static tfm_status start_team(tfm__team *team, tfm__workers *workers, int32_t threads,
                             tfm_error *err) {
    memset(team, 0, sizeof *team);
    team->kernels = tfm__kernel_best(), team->n = threads;
    team->parallel.run = tfm__workers_run, team->parallel.user = workers;
    return threads > 1 ? tfm__workers_start(workers, threads - 1, err) : TFM_OK;
}
static void stop_team(const tfm__team *team) {
    if (team->n > 1) tfm__workers_stop((tfm__workers *)team->parallel.user);
}

/* CHAINS is at least the latency of a multiply-add (in cycles) times the number that start in one
   cycle. With fewer independent sums, the unit would wait. */
enum { CHAINS = 12, COMPUTE_N = 1200000 };

#ifdef TFM__X86
#define TWELVE(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11)
#define START(n) a[n] = start;
#define HIDE(n)                                                                                    \
    __asm__ volatile("" : "+v"(a[n])); /* the compiler must not compute the loop in advance */

/* Defines a stint. step(n) changes sum n. Each step advances i by advance and counts as amount
   operations or bytes. */
#define CEILING(name, instructions, type, value, step, advance, amount)                            \
    __attribute__((target(instructions))) static double name(const float *p, int64_t n) {          \
        const type start = value, x = start;                                                       \
        type a[CHAINS];                                                                            \
        int64_t i;                                                                                 \
        (void)p, (void)x;                                                                          \
        TWELVE(START)                                                                              \
        TWELVE(HIDE)                                                                               \
        for (i = 0; i + CHAINS * advance <= n; i += CHAINS * advance) {                            \
            TWELVE(step)                                                                           \
        }                                                                                          \
        TWELVE(HIDE)                                                                               \
        return (double)(amount) * (double)n / advance;                                             \
    }
#define FMA_AVX2(n) a[n] = _mm256_fmadd_ps(a[n], x, x);
#define FMA_AVX512(n) a[n] = _mm512_fmadd_ps(a[n], x, x);
#define FMA_VNNI(n) a[n] = _mm512_dpbusd_epi32(a[n], x, x);
#define LOAD_AVX2(n) a[n] = _mm256_add_ps(a[n], _mm256_loadu_ps(p + i + 8 * n));
#define LOAD_AVX512(n) a[n] = _mm512_add_ps(a[n], _mm512_loadu_ps(p + i + 16 * n));
CEILING(fma_avx2, "avx2,fma", __m256, _mm256_set1_ps(0.5f), FMA_AVX2, 1, 2 * 8)
CEILING(fma_avx512, "avx512f", __m512, _mm512_set1_ps(0.5f), FMA_AVX512, 1, 2 * 16)
CEILING(vnni, "avx512f,avx512vnni", __m512i, _mm512_set1_epi32(0x01020304), FMA_VNNI, 1, 2 * 64)
CEILING(read_avx2, "avx2", __m256, _mm256_setzero_ps(), LOAD_AVX2, 8, 32)
CEILING(read_avx512, "avx512f", __m512, _mm512_setzero_ps(), LOAD_AVX512, 16, 64)

#ifdef TFM__AVX_VNNI
#define FMA_AVX_VNNI(n) TFM__DOT_AVX_VNNI(a[n], x, x);
CEILING(avx_vnni, "avx2", __m256i, _mm256_set1_epi32(0x01020304), FMA_AVX_VNNI, 1, 2 * 32)
#endif

#ifdef TFM__BF16
#define FMA_BF16(n) a[n] = _mm512_dpbf16_ps(a[n], (__m512bh)x, (__m512bh)x);
CEILING(bf16, "avx512f,avx512bf16", __m512, _mm512_set1_ps(0.5f), FMA_BF16, 1, 2 * 32)
#endif

#ifdef TFM__AMX
/* Defines a stint for AMX tiles of 16 rows of 64 bytes: n / 10 products into six sums. A tile
   product takes about as long as ten vector instructions or more, so the stint is shorter. */
#define TILE_CEILING(name, instructions, step, amount)                                             \
    __attribute__((target("amx-tile," instructions))) static double name(const float *p,           \
                                                                         int64_t n) {              \
        int64_t i;                                                                                 \
        (void)p;                                                                                   \
        tfm__avx512_configure(1);                                                                  \
        for (i = 0; i < n / 60; i++) {                                                             \
            step(0) step(1) step(2) step(3) step(4) step(5)                                        \
        }                                                                                          \
        tfm__avx512_configure(0);                                                                  \
        return (double)(amount) * (double)n / 10;                                                  \
    }
#define TILE_INT8(n) _tile_dpbusd(n, 6, 7);
#define TILE_BF16(n) _tile_dpbf16ps(n, 6, 7);
TILE_CEILING(amx_int8, "amx-int8", TILE_INT8, 2 * 16 * 16 * 64)
TILE_CEILING(amx_bf16, "amx-bf16", TILE_BF16, 2 * 16 * 16 * 32)
#endif
#endif

/* Plain C for CPUs without known vector instructions. The compiler may not reach the limits of the
   machine with it. The variables are volatile because the compiler would otherwise skip the
   work. */
static volatile float sink, one_half = 0.5f;
static double fma_plain(const float *p, int64_t n) {
    float a[4 * CHAINS], x = one_half;
    int64_t i;
    int l;
    (void)p;
    for (l = 0; l < 4 * CHAINS; l++) a[l] = one_half;
    for (i = 0; i < n; i += CHAINS)
        for (l = 0; l < 4 * CHAINS; l++) a[l] = a[l] * x + x;
    for (l = 1; l < 4 * CHAINS; l++) a[0] += a[l];
    sink = a[0];
    return 8.0 * (double)n;
}
static double read_plain(const float *x, int64_t n) {
    float a[32];
    int64_t i;
    int l;
    memset(a, 0, sizeof a);
    for (i = 0; i + 32 <= n; i += 32)
        for (l = 0; l < 32; l++) a[l] += x[i + l];
    for (l = 1; l < 32; l++) a[0] += a[l];
    sink = a[0];
    return 4.0 * (double)n;
}

/* Chooses the stint for each unit that this CPU has, and the one for reading. Returns the name of
   the vector instructions. */
static const char *find_stints(stint *unit, stint *read) {
    const char *name = "plain C";
    unit[UNIT_FMA] = fma_plain, *read = read_plain;
#ifdef TFM__X86
    if (__builtin_cpu_supports("avx512f")) {
        name = "AVX-512", unit[UNIT_FMA] = fma_avx512, *read = read_avx512;
    } else if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
        name = "AVX2 and FMA", unit[UNIT_FMA] = fma_avx2, *read = read_avx2;
    }
    if (__builtin_cpu_supports("avx512vnni")) unit[UNIT_VNNI] = vnni;
#endif
#ifdef TFM__AVX_VNNI
    if (!unit[UNIT_VNNI] && tfm__cpu_has(TFM__CPU_AVX_VNNI)) unit[UNIT_VNNI] = avx_vnni;
#endif
#ifdef TFM__BF16
    if (__builtin_cpu_supports("avx512bf16")) unit[UNIT_BF16] = bf16;
#endif
#ifdef TFM__AMX
    if (tfm__cpu_has(TFM__CPU_AMX)) unit[UNIT_AMX_INT8] = amx_int8, unit[UNIT_AMX_BF16] = amx_bf16;
#endif
    return name;
}

/* What is timed: each thread runs its stint times times, on its own n elements of x. */
typedef struct trial {
    tfm__team team;
    stint run;
    const float *x;
    int64_t n, times;
} trial;

static void trial_part(void *work, int32_t part) {
    const trial *t = (const trial *)work;
    int64_t i;
    for (i = 0; i < t->times; i++) t->run(t->x + (t->x ? part * t->n : 0), t->n);
}
static int run_trial(void *work) {
    const tfm__team *team = &((const trial *)work)->team;
    tfm__team_run(team, trial_part, work, team->n);
    return 1;
}

/* Returns operations or bytes per second. A trial is so long that waking the threads does not
   matter. */
static double rate_of(trial *s, const repeats *how) {
    double amount = s->run(s->x, s->n) * s->team.n * (double)s->times;
    times t;
    run_trial(s); /* what is small is in its cache now */
    time_runs(&t, how, LEAST_REPEATS, run_trial, NULL, s);
    return amount / median(&t);
}

static tfm_status ceilings_measure(ceilings *top, int32_t threads, const repeats *of,
                                   tfm_error *err) {
    int64_t i, most = read_bytes[N_READS - 1];
    float *buffer; /* allocated as the weights of a model are, because huge pages change the rate */
    tfm__pool pool;
    stint unit[N_UNITS] = {NULL};
    repeats how = *of; /* a small share of the time */
    tfm__workers workers;
    trial s;
    int k;
    memset(&s, 0, sizeof s);
    memset(top, 0, sizeof *top);
    top->name =
        find_stints(unit, &top->reader); /* asks for AMX, which threads that start later inherit */
    pool.blocks = NULL, tfm__choose_allocator(&pool.allocator, NULL, err);
    if (TFM__NEW(&pool, most / 4, &buffer, err) != TFM_OK) return err->status;
    if (start_team(&s.team, &workers, threads, err) != TFM_OK)
        return tfm__pool_free(pool), err->status;
    if (how.repeat && how.repeat < LEAST_REPEATS) how.repeat = LEAST_REPEATS;
    how.seconds /= 6;
    for (k = 0; k < N_UNITS; k++) {
        s.run = unit[k], s.n = COMPUTE_N, s.times = 10;
        if (s.run) top->unit[k] = rate_of(&s, &how);
    }
    /* without this, all pages would be the same page of zeros, which stays in the cache */
    for (i = 0; i < most / 4; i++) buffer[i] = (float)(i % 251);
    for (k = 0; k < N_READS; k++) {
        s.run = top->reader, s.x = buffer, s.times = most / read_bytes[k];
        s.n = read_bytes[k] / 4 / threads;
        top->read[k] = rate_of(&s, &how);
    }
    stop_team(&s.team);
    tfm__pool_free(pool);
    return TFM_OK;
}

/* Returns the fastest unit that can multiply weights of a type. Its rate may be 0. */
static int unit_for(const ceilings *top, tfm_dtype type) {
    if (type == TFM_DTYPE_I8) return top->unit[UNIT_AMX_INT8] > 0 ? UNIT_AMX_INT8 : UNIT_VNNI;
    if (type != TFM_DTYPE_BF16 ||
        top->unit[UNIT_FMA] > top->unit[UNIT_BF16] + top->unit[UNIT_AMX_BF16])
        return UNIT_FMA;
    return top->unit[UNIT_AMX_BF16] > 0 ? UNIT_AMX_BF16 : UNIT_BF16;
}

/* Returns the read ceiling of the cache or memory that holds that many bytes. */
static double read_ceiling(const ceilings *top, double bytes) {
    int k = 0;
    while (k < N_READS - 1 && bytes > (double)read_bytes[k]) k++;
    return top->read[k];
}

#endif
