/* ceilings.h: what this machine can do at most: multiply-adds in registers and reading memory, by as
   many threads as a workload has. The program has the implementation of transformer.h, whose threads
   these are.

       ceilings top;
       ceilings_measure(&top, 2, &how, &err);    TFM_OK, or why there are none */
#ifndef CEILINGS_H
#define CEILINGS_H

#include "times.h"
#include "transformer.h"

enum { N_READS = 3 };
static const int64_t read_bytes[N_READS] = {512 * 1024, 12 * 1024 * 1024, 200 * 1024 * 1024};

typedef struct ceilings {
    const char *name;     /* of the instructions */
    double flops;         /* a second */
    double vnni;          /* the same of int8; 0: the CPU has no such instruction */
    double read[N_READS]; /* bytes a second */
} ceilings;

/* The library's own threads: helpers for so many, or none. */
static tfm_status start_team(tfm__team *team, tfm__workers *workers, int32_t threads,
                             tfm_error *err) {
    team->kernels = tfm__kernels_here(), team->n = threads;
    team->parallel.run = tfm__run_parts, team->parallel.user = workers;
    return threads > 1 ? tfm__start_workers(workers, threads - 1, err) : TFM_OK;
}
static void stop_team(const tfm__team *team) {
    if (team->n > 1) tfm__stop_workers((tfm__workers *)team->parallel.user);
}

/* Two functions each: rounds of CHAINS multiply-adds that wait for nobody but themselves, of a
   vector each; and the sum of a buffer, which is nothing but loads. CHAINS is the product of
   latency and rate of the machines that have the instructions, or more. */
enum { CHAINS = 12, ROUNDS = 100000 };
static volatile float sink; /* results go here, or no compiler would compute them */
/* read once a chain: a compiler that knew that chains are equal would compute one */
static volatile float one_half = 0.5f;

#if defined(__GNUC__) && defined(__x86_64__) && !defined(TRANSFORMER_NO_SIMD)
#define BENCH_X86
#include <immintrin.h>

/* vector type, instructions, and how many floats a vector has */
#define BENCH_CEILINGS(suffix, type, instructions, lanes, set1, fmadd, loadu, add, storeu)         \
    __attribute__((target(instructions))) static double fma_##suffix(void) {                       \
        type x = set1(one_half), y = set1(one_half), a0 = set1(one_half), a1 = set1(one_half);     \
        type a2 = set1(one_half), a3 = set1(one_half), a4 = set1(one_half), a5 = set1(one_half);   \
        type a6 = set1(one_half), a7 = set1(one_half), a8 = set1(one_half), a9 = set1(one_half);   \
        type a10 = set1(one_half), a11 = set1(one_half);                                           \
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
    __m512i a[CHAINS], x = _mm512_set1_epi32((int)one_half + 0x01020304), y = x;
    int32_t last[16];
    int i, c;
    for (c = 0; c < CHAINS; c++) a[c] = _mm512_set1_epi32((int)one_half);
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
    float a[4 * CHAINS], x = one_half;
    int i, l;
    for (l = 0; l < 4 * CHAINS; l++) a[l] = one_half;
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

/* What a ceiling does: each thread calls compute, or reads its part of x, so many times. */
typedef struct stint {
    const tfm__team *team;
    double (*compute)(void);
    void (*read)(const float *x, int64_t n);
    const float *x;
    int64_t n, times;
    double operations; /* of one call of compute */
} stint;

static void stint_part(void *work, int32_t part) {
    const stint *s = (const stint *)work;
    int64_t i, n = s->n / s->team->n;
    for (i = 0; i < s->times; i++)
        if (s->compute) s->compute();
        else s->read(s->x + part * n, n);
}
static int run_stint(void *work) {
    const stint *s = (const stint *)work;
    tfm__parallel_for(s->team, stint_part, work, s->team->n);
    return 1;
}

/* The median seconds of a stint, which should be long enough to wake threads for. */
static double time_stint(const repeats *how, stint *s) {
    times t;
    time_runs(&t, how, LEAST_REPEATS, run_stint, NULL, s);
    return median(&t);
}

/* Operations a second. */
static double measure_compute(const repeats *how, const tfm__team *team, double (*compute)(void)) {
    stint s;
    memset(&s, 0, sizeof s);
    s.team = team, s.compute = compute, s.times = 10;
    s.operations = compute() * (double)s.times * team->n;
    return s.operations / time_stint(how, &s);
}

static tfm_status ceilings_measure(ceilings *top, int32_t threads, const repeats *of,
                                   tfm_error *err) {
    double (*fma)(void) = fma_plain;
    stint s;
    int64_t i, most = read_bytes[N_READS - 1], n_floats = most / 4;
    float *buffer = (float *)malloc((size_t)most);
    repeats how = *of; /* a small share of the time */
    tfm__workers workers;
    tfm__team team;
    int size;
    if (!buffer) return tfm__fail(err, TFM_E_MEMORY, "no memory to read");
    if (start_team(&team, &workers, threads, err) != TFM_OK) return free(buffer), err->status;
    memset(top, 0, sizeof *top);
    memset(&s, 0, sizeof s);
    s.team = &team, s.x = buffer, s.read = read_plain, top->name = "plain C";
    if (how.repeat && how.repeat < LEAST_REPEATS) how.repeat = LEAST_REPEATS;
    how.seconds /= 4;
#ifdef BENCH_X86
    if (__builtin_cpu_supports("avx512f")) {
        top->name = "AVX-512", fma = fma_avx512, s.read = read_avx512;
    } else if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
        top->name = "AVX2 and FMA", fma = fma_avx2, s.read = read_avx2;
    }
    if (__builtin_cpu_supports("avx512vnni")) top->vnni = measure_compute(&how, &team, fma_vnni);
#endif
    top->flops = measure_compute(&how, &team, fma);
    for (i = 0; i < n_floats; i++) buffer[i] = (float)(i % 251); /* else all pages are one */
    for (size = 0; size < N_READS; size++) {
        s.n = read_bytes[size] / 4, s.times = 1;
        run_stint(&s); /* small ones are in their cache now */
        s.times = most / read_bytes[size];
        top->read[size] = (double)(s.times * read_bytes[size]) / time_stint(&how, &s);
    }
    stop_team(&team);
    free(buffer);
    return TFM_OK;
}

/* The read ceiling that goes with so many bytes read over and over. */
static double read_ceiling(const ceilings *top, double bytes) {
    int size = 0;
    while (size < N_READS - 1 && bytes > (double)read_bytes[size]) size++;
    return top->read[size];
}

#endif
