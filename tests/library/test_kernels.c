/* Compares each kernel set with loops in double (awkward sizes, padding full of NaN, errors in
   ULPs), and each set with a fused multiply-add with the plain loops, to the bit. */
#ifndef TRANSFORMER_KERNELS
#define TRANSFORMER_KERNELS 6
#endif
static int kernels_of_build(void) { return TRANSFORMER_KERNELS; }
static int kernels_wanted; /* kernels_of_build(), or each kernel set in turn, for a whole model */
#undef TRANSFORMER_KERNELS
#define TRANSFORMER_KERNELS kernels_wanted
#define TFM__EVEX
#define TRANSFORMER_IMPLEMENTATION
#include "transformer.h"
/* The kernels below are computed as the header's are: it forbids fused operations up to its end. */
#if defined(__clang__)
#pragma STDC FP_CONTRACT OFF
#elif defined(__GNUC__) && !defined(__TINYC__)
#pragma GCC optimize("fp-contract=off")
#endif
#include "amx_emulator.h"
#include "tiny.h"
#include <float.h>
#include <time.h>

/* ---- the micro-kernels of AMX and AVX512-BF16 once more, with emulated instructions ---- */

#define TFM__V float
#define TFM__VL 1
#define TFM__ISA emulated
#define TFM__V_SET(x) (x)
#define TFM__V_LOAD(p) (*(p))
#define TFM__V_STORE(p, v) ((void)(*(p) = (v)))
#define TFM__V_FMA(a, b, c) tfm__fma(a, b, c)
#define TFM__V_DOT_BF16(sum, x, w) sum = emulated_pair(sum, &x, &w)
#define TFM__TARGET
#define TFM__FLOAT_TILES(X, type) X(type, 2, 4) X(type, 1, 4)
#define TFM__INT8_TARGET
#define TFM__INT8_TILES(X, type) X(type, 4, 2) X(type, 1, 4)
#define TFM__INT8_SPLIT 1
#define TFM__I int32_t
#define TFM__I_LOAD(p) tfm__emulated_four(p)
#define TFM__I_X(four) (four)
#define TFM__I_DOT(sum, x, w) sum = emulated_dot(sum, x, w)
#define TFM__I_FLOATS(a, b, sums) ((float)((a) - *(sums)))
/* The header has these with the instructions of the CPU. */
#undef TFM__TILE_CONFIGURE
#undef TFM__TILE_RELEASE
#undef TFM__TILE_ZERO
#undef TFM__TILE_LOAD
#undef TFM__TILE_STORE
#undef TFM__TILE_DOT_INT8
#undef TFM__TILE_DOT_BF16
#define TFM__TILE_CONFIGURE(shape) amx_ldtilecfg(shape)
#define TFM__TILE_RELEASE() amx_tilerelease()
#define TFM__TILE_ZERO(t) amx_tilezero(t)
#define TFM__TILE_LOAD(t, p, stride) amx_tileloadd(t, p, stride)
#define TFM__TILE_STORE(t, p, stride) amx_tilestored(t, p, stride)
#define TFM__TILE_DOT_INT8(c, a, b) amx_tdpbusd(c, a, b)
#define TFM__TILE_DOT_BF16(c, a, b) amx_tdpbf16ps(c, a, b)

/* Multiplies u8 by s8 as VNNI does. */
static int32_t emulated_dot(int32_t sum, int32_t x, int32_t w) {
    unsigned char a[4];
    signed char b[4];
    memcpy(a, &x, 4), memcpy(b, &w, 4);
    return sum + a[0] * b[0] + a[1] * b[1] + a[2] * b[2] + a[3] * b[3];
}

/* VDPBF16PS: adds the odd columns to the sum, then the even ones, each by a fused multiply-add that
   rounds to nearest. Denormals count as zeros. */
static float emulated_pair(float sum, const void *x, const void *w) {
    const unsigned char *a = (const unsigned char *)x, *b = (const unsigned char *)w;
    sum = amx_flush(fmaf(amx_bf16(a + 2), amx_bf16(b + 2), amx_flush(sum)));
    return amx_flush(fmaf(amx_bf16(a), amx_bf16(b), sum));
}
#include "transformer.h"
#ifndef FLT_EVAL_METHOD /* tcc's float.h lacks it */
#define FLT_EVAL_METHOD 0
#endif

static void emulated_narrow(unsigned char *to, const float *x, int64_t n) {
    tfm__narrow(to, x, TFM_DTYPE_BF16, n);
}

enum { BF16_SET = 5, AMX_SET, AVX_VNNI = TFM__KERNEL_SETS, EMULATED_BF16, EMULATED_AMX, SETS };

/* AVX2 with VNNI, also on CPUs on which AVX-512 hides it */
static const tfm__kernels *avx_vnni_set(void) {
#ifdef TFM__AVX_VNNI
    static tfm__kernels k;
    if (!tfm__kernel_set(2) || !tfm__cpu_has(TFM__CPU_AVX_VNNI)) return NULL;
    k = *tfm__kernel_set(2);
    k.name = "AVX2 with VNNI, as AVX-512 encodes it";
    k.zero_point = 128, k.split = NULL, k.tiles[TFM_WEIGHT_TYPE_I8] = tfm__avx_vnni_int8;
    return &k;
#else
    return NULL;
#endif
}

/* Returns set i of the library, or one of the emulated sets here, or NULL. The emulated sets are
   sets of x86, and take minutes where qemu runs the test, so they exist on x86 alone. They do not
   exist with x87 either, which computes floats in wider registers and rounds differently in each
   loop. */
static const tfm__kernels *kernel_set(int i) {
    static tfm__kernels emulated[SETS - EMULATED_BF16], *k;
    int is_x86 = 0;
#if defined(__x86_64__) || defined(__i386__) || defined(_M_X64) || defined(_M_IX86)
    is_x86 = 1;
#endif
    if (i < TFM__KERNEL_SETS) return tfm__kernel_set(i);
    if (i == AVX_VNNI) return avx_vnni_set();
    if (FLT_EVAL_METHOD || !is_x86) return NULL;
    k = &emulated[i - EMULATED_BF16], *k = *tfm__kernel_set(0);
    k->narrow = emulated_narrow, k->tiles[TFM_WEIGHT_TYPE_F32] = tfm__emulated_f32;
    if (i == EMULATED_BF16) {
        k->name = "AVX512-BF16, emulated";
        k->tiles[TFM_WEIGHT_TYPE_BF16] = tfm__emulated_pairs;
    } else {
        k->name = "AMX, emulated", k->zero_point = 128, k->configure = tfm__emulated_configure;
        k->tiles[TFM_WEIGHT_TYPE_BF16] = tfm__emulated_amx_bf16;
        k->tiles[TFM_WEIGHT_TYPE_I8] = tfm__emulated_amx_int8;
    }
    (void)tfm__emulated_bf16; /* by widening, as in every set */
    return k;
}

enum { MOST = 200, STRIDE = MOST + 24, W_STRIDE = STRIDE + 1 };
static float xs[4 * STRIDE], ws[16 * W_STRIDE], ys[STRIDE];
static const float *x_rows[4], *w_rows[16];

/* Makes rows of n numbers with NaN before and behind them, so a wrong read shows. */
static void fill(int64_t n, unsigned seed) {
    int64_t i, k;
    for (i = 0; i < 4 * STRIDE; i++) xs[i] = NAN;
    for (i = 0; i < 16 * W_STRIDE; i++) ws[i] = NAN;
    for (i = 0; i < 16; i++) {
        w_rows[i] = ws + i * W_STRIDE + 3; /* The rows are not aligned. */
        for (k = 0; k < n; k++)
            ws[i * W_STRIDE + 3 + k] = (float)tiny_random(&seed) / 8388608.0f - 1.0f;
    }
    for (i = 0; i < 4; i++) {
        x_rows[i] = xs + i * STRIDE + 1 + i;
        for (k = 0; k < n; k++)
            xs[i * STRIDE + 1 + i + k] = (float)tiny_random(&seed) / 8388608.0f - 1.0f;
    }
}

/* Returns the error of a sum in units of the rounding that its terms may cause. */
static double dot_error(const float *x, const float *w, int64_t n, float got) {
    double sum = 0, size = 0;
    int64_t k;
    for (k = 0; k < n; k++) {
        sum += (double)x[k] * (double)w[k];
        size += fabs((double)x[k] * (double)w[k]);
    }
    return n ? fabs((double)got - sum) / (size * 6e-8) : fabs((double)got);
}

/* The number of a case of the kernel set at hand, for test_in_slice: its kind and a number below
   1,000. */
static int chosen_set;
static long case_of(int kind, int i) { return (chosen_set * 10L + kind) * 1000 + i; }

static void dots(const tfm__kernels *k) {
    double most = 0;
    float four[16], one[16], few[4];
    int64_t n;
    int i, j, same = 1;
    for (n = 0; n <= MOST; n++) {
        fill(n, (unsigned)n + 1);
        k->dots_4x4(x_rows, w_rows, n, four);
        k->dots(one, x_rows[1], w_rows[0], W_STRIDE, 16, n, 0);
        k->dots(few, x_rows[1], w_rows[0], W_STRIDE, 4, n, 0);
        for (i = 0; i < 4; i++)
            for (j = 0; j < 4; j++) {
                double error = dot_error(x_rows[i], w_rows[j], n, four[4 * i + j]);
                if (!(error <= most)) most = error;
            }
        for (j = 0; j < 16; j++) {
            double error = dot_error(x_rows[1], w_rows[j], n, one[j]);
            if (!(error <= most)) most = error;
        }
        /* The shape of the product must not change a bit of a sum. */
        same &= memcmp(one, few, sizeof few) == 0 && memcmp(one, four + 4, sizeof few) == 0;
    }
    CHECK(most < 4, "dots of 0 to %d: largest error %.2g roundings", MOST, most);
    CHECK(same, "a sum has the same bits in any shape");
}

static void weighted(const tfm__kernels *k) {
    static float rows[9 * STRIDE], p[9];
    unsigned seed = 5;
    double most = 0;
    int64_t width, i, j;
    int clean = 1, same = 1;
    for (width = 1; width <= MOST; width++) {
        float at_once[STRIDE];
        for (i = 0; i < 9 * STRIDE; i++) rows[i] = NAN;
        for (i = 0; i < 9; i++) {
            p[i] = i % 4 == 2 ? 0.0f : (float)tiny_random(&seed) / 16777216.0f;
            for (j = 0; j < width && p[i] != 0.0f; j++) /* Rows of weight 0 stay NaN. */
                rows[i * STRIDE + j] = (float)tiny_random(&seed) / 8388608.0f - 1.0f;
        }
        for (j = 0; j < STRIDE; j++) ys[j] = at_once[j] = j < width ? 1.0f : 7.0f;
        k->weighted_sum(at_once, p, rows, STRIDE, 9, width, 0);
        k->weighted_sum(ys, p, rows, STRIDE, 4, width, 0);
        k->weighted_sum(ys, p + 4, rows + 4 * STRIDE, STRIDE, 5, width, 0);
        same &= memcmp(ys, at_once, sizeof ys) == 0;
        for (j = 0; j < width; j++) {
            double sum = 1, error;
            for (i = 0; i < 9; i++)
                if (p[i] != 0.0f) sum += (double)p[i] * (double)rows[i * STRIDE + j];
            error = fabs((double)ys[j] - sum);
            if (!(error <= most)) most = error;
        }
        for (; j < STRIDE; j++) clean &= ys[j] == 7.0f;
    }
    CHECK(most < 1e-6, "weighted sums 1 to %d wide: largest difference %.2g", MOST, most);
    CHECK(clean && same, "nothing written behind; the same bits in two parts");
}

/* Compares loops over F16 with loops over floats that read the same rows widened: all sizes, any
   number of rows, any address. NaN is behind the rows. */
static void halves(const tfm__kernels *k) {
    enum { ROWS = 21 };
    static float rows[(int)ROWS * (int)STRIDE];
    static uint16_t all[(int)ROWS * (int)STRIDE + 1];
    uint16_t *const half = all + 1;
    float p[ROWS], x[STRIDE], sums[ROWS + 1], expected[ROWS + 1];
    unsigned seed = 6;
    double most = 0;
    int64_t width, n, i, j;
    int clean = 1, same = 1;
    for (i = 0; i < STRIDE; i++) x[i] = (float)tiny_random(&seed) / 8388608.0f - 1.0f;
    for (width = 1; width <= MOST; width++) {
        float from_half[STRIDE], from_rows[STRIDE];
        n = 1 + width % ROWS;
        memset(all, 0xFF, sizeof all); /* NaN */
        for (i = 0; i < n; i++)
            for (j = 0; j < width; j++) {
                half[i * STRIDE + j] =
                    (uint16_t)tfm__half_from_float((float)tiny_random(&seed) / 8388608.0f - 1.0f);
                rows[i * STRIDE + j] = tfm__float_from_half(half[i * STRIDE + j]);
            }
        sums[n] = expected[n] = 7;
        k->dots(expected, x, rows, STRIDE, n, width, 0);
        k->dots(sums, x, half, STRIDE, n, width, 1);
        for (i = 0; i < n; i++) {
            double error = dot_error(x, rows + i * STRIDE, width, sums[i]);
            if (!(error <= most)) most = error;
        }
        same &= memcmp(sums, expected, (size_t)(n + 1) * sizeof *sums) == 0;
        for (i = 0; i < n; i++) {
            p[i] = i % 4 == 2 ? 0.0f : (float)tiny_random(&seed) / 16777216.0f;
            if (p[i] == 0.0f) memset(half + i * STRIDE, 0xFF, (size_t)width * sizeof *half);
        }
        for (j = 0; j < STRIDE; j++) from_half[j] = from_rows[j] = j < width ? 1.0f : 7.0f;
        k->weighted_sum(from_half, p, half, STRIDE, n / 2, width, 1);
        k->weighted_sum(from_half, p + n / 2, half + n / 2 * STRIDE, STRIDE, n - n / 2, width, 1);
        k->weighted_sum(from_rows, p, rows, STRIDE, n, width, 0);
        same &= memcmp(from_half, from_rows, sizeof from_half) == 0;
        clean &= sums[n] == 7;
    }
    CHECK(most < 4, "dots with F16: largest error %.2g roundings", most);
    CHECK(same || FLT_EVAL_METHOD,
          "dots and weighted sums of F16 have the bits of the widened floats");
    CHECK(clean, "nothing written behind");
}

/* Returns the nearest F16, within its range. */
static void nearest_halves(const tfm__kernels *k) {
    static const float ends[] = {65504, 65519, 65520, 1e9f,     INFINITY, -65520,
                                 -1e9f, 1e-9f, -0.0f, 5.97e-8f, -6e-5f};
    enum { ENDS = sizeof ends / sizeof *ends };
    float x[MOST];
    uint16_t to[MOST + 1];
    unsigned seed = 8;
    int64_t n, i;
    int wrong = 0, clean = 1;
    memset(x, 0, sizeof x);
    for (n = 0; n <= MOST; n++) {
        for (i = 0; i < n; i++)
            x[i] = i % 2 ? ends[(i + n) % ENDS]
                         : ((float)tiny_random(&seed) / 8388608.0f - 1.0f) * (float)(1 << n % 18);
        to[n] = 7;
        k->narrow_f16(to, x, n);
        for (i = 0; i < n; i++) {
            float v = x[i] > 65504 ? 65504.0f : x[i] < -65504 ? -65504.0f : x[i];
            wrong += to[i] != tfm__half_from_float(v);
        }
        clean &= to[n] == 7;
    }
    for (i = 0; i < MOST; i++) x[i] = NAN;
    k->narrow_f16(to, x, MOST);
    for (i = 0; i < MOST; i++) wrong += (to[i] & 0x7C00) != 0x7C00 || !(to[i] & 0x3FF);
    CHECK(!wrong && clean, "floats to F16: %d are not the nearest; NaN stays", wrong);
}

static void exponentials(const tfm__kernels *k) {
    double most = 0, sum, total;
    float x[33], y[33], at = -110, worst_at = 0;
    int64_t i, n;
    int clean = 1, tried = 0;
    for (; at < 88.7f; at += 0.00173f, tried++) {
        double expected = exp((double)at), ulp, error;
        for (i = 0; i < 33; i++) x[i] = at;
        k->exp_sum(y, x, 0, 17);
        /* a unit in the last place; below the normal numbers it is constant */
        ulp = ldexp(1, (int)fmax(floor(log2(expected)), -126) - 23);
        error = fabs((double)y[16] - expected) / ulp;
        if (!(error <= most)) most = error, worst_at = at;
        clean &= y[0] == y[16];
    }
    CHECK(most <= 2 && clean, "exp of %d numbers: within %.2f ULP, at %g", tried, most,
          (double)worst_at);
    for (n = 0; n <= 32; n++) {
        for (i = 0, total = 0; i < 33; i++) {
            x[i] = i < n ? (float)i * 0.37f - 5 : NAN;
            y[i] = 7;
            if (i < n) total += exp((double)x[i] - 2);
        }
        sum = k->exp_sum(y, x, 2, n);
        clean &= fabs(sum - total) <= 1e-6 * total && sum == k->exp_sum(NULL, x, 2, n);
        for (i = n; i < 33; i++) clean &= y[i] == 7;
    }
    CHECK(clean, "sums of 0 to 32, nothing read or written behind");
    x[0] = -INFINITY, x[1] = INFINITY, x[2] = NAN, x[3] = 1000, x[4] = -1000;
    k->exp_sum(y, x, 0, 5);
    CHECK(y[0] == 0 && y[1] == INFINITY && isnan(y[2]) && y[3] == INFINITY && y[4] == 0,
          "infinities and NaN: %g %g %g %g %g", (double)y[0], (double)y[1], (double)y[2],
          (double)y[3], (double)y[4]);
}

static void largest_and_scale(const tfm__kernels *k) {
    float x[70], y[70];
    int64_t n, i;
    int right = 1;
    for (n = 0; n <= 66; n++) {
        float max = -INFINITY;
        for (i = 0; i < 70; i++) {
            x[i] = y[i] = i < n ? (float)((i * 37) % 61) - 70 : 1e9f;
            if (i % 13 == 4) x[i] = NAN; /* NaN must be ignored. */
            else if (i < n && x[i] > max) max = x[i];
        }
        right &= k->largest(x, n) == max;
        k->scale(y, 0.5f, n);
        for (i = 0; i < 70; i++)
            right &= y[i] == (i < n ? ((float)((i * 37) % 61) - 70) / 2 : 1e9f);
    }
    CHECK(right, "the largest of 0 to 66 numbers, NaN ignored; their halves");
}

/* Makes numbers in -1 .. 1, with NaN behind each row of n. */
static void fill_rows(float *rows, int64_t m, int64_t n, int64_t stride, unsigned *seed) {
    int64_t i, k;
    for (i = 0; i < m * stride; i++) rows[i] = NAN;
    for (i = 0; i < m; i++)
        for (k = 0; k < n; k++) rows[i * stride + k] = (float)tiny_random(seed) / 8388608.0f - 1.0f;
}

/* Returns the integer nearest to x, ties to even. */
static int nearest(float x) {
    double low = floor((double)x), above = (double)x - low;
    int n = (int)low;
    return above > 0.5 || (above == 0.5 && n % 2 != 0) ? n + 1 : n;
}

/* Quantizes a token to int8: q = x * (127 / absmax), rounded. Returns its scale. */
static float quantized(int *q, const float *x, int64_t n) {
    float absmax = 0, factor;
    int64_t i;
    for (i = 0; i < n; i++)
        if (fabsf(x[i]) > absmax) absmax = fabsf(x[i]);
    factor = 127.0f / absmax;
    for (i = 0; i < n; i++) {
        float v = x[i] * factor;
        q[i] = nearest(v);
    }
    return absmax / 127.0f;
}

/* Compares floats to bf16 with the plain loop: all signs, exponents and ties. */
static void narrowed(const tfm__kernels *k) {
    enum { N = 32 * 512 };
    static float x[N];
    static unsigned char expected[2 * N], got[2 * N + 64];
    int64_t n;
    int right = 1;
    for (n = 0; n < N; n++) {
        static const uint32_t low[] = {0, 1, 0x7FFF, 0x8000, 0x8001, 0xFFFF};
        uint32_t bits = (uint32_t)n << 18 | (uint32_t)(n % 5 & 3) << 16 | low[n % 6];
        memcpy(&x[n], &bits, 4);
    }
    tfm__narrow(expected, x, TFM_DTYPE_BF16, N);
    for (n = 0; n <= N; n = n < 40 ? n + 1 : n + 1111) {
        memset(got, 0xAA, sizeof got);
        k->narrow(got, x, n);
        right &= memcmp(got, expected, (size_t)(2 * n)) == 0;
        right &= got[(n + 15) / 16 * 32] == 0xAA;
    }
    k->narrow(got, x, N);
    CHECK(right && memcmp(got, expected, sizeof expected) == 0,
          "%d floats to bf16, NaN and denormals among them: the nearest, ties to even", N);
}

static void loops(const tfm__kernels *k) {
    static const float weights[64] = {1, 2, 3}, biases[64] = {0.5f, -1, 7};
    float x[80], y[80], z[80], sum[80];
    unsigned char bytes[80 + 64];
    unsigned seed = 11;
    double norm_error = 0;
    int64_t n, i;
    int sums = 1, sizes = 1, rounded = 1, clean = 1;
    for (n = 1; n <= 66; n++) {
        double mean = 0, square = 0;
        float most = 0;
        tfm_norm_weights w;
        fill_rows(x, 1, n, 80, &seed);
        fill_rows(y, 1, n, 80, &seed);
        memcpy(z, y, sizeof z);
        for (i = n; i < 80; i++) z[i] = 3;
        k->add(z, x, n);
        for (i = 0; i < n; i++) {
            sum[i] = x[i] + y[i]; /* rounded to float, on x87 too */
            sums &= z[i] == sum[i];
        }
        k->times(z, x, n);
        for (i = 0; i < n; i++) {
            sum[i] *= x[i];
            sums &= z[i] == sum[i];
        }
        for (; i < 80; i++) clean &= z[i] == 3;
        for (i = 0; i < n; i++)
            if (fabsf(x[i]) > most) most = fabsf(x[i]);
        sizes &= k->absmax(x, n) == most;
        k->quantize(bytes, x, 127 / most, 128, n);
        for (i = 0; i < n; i++) {
            float v = x[i] * (127 / most);
            rounded &= bytes[i] == (unsigned char)(nearest(v) + 128);
        }
        k->quantize(bytes, x, 700 / most, 128, n); /* a factor that the file states may clip */
        for (i = 0; i < n; i++) {
            float v = x[i] * (700 / most);
            rounded &= bytes[i] == 128 + (v > 127 ? 127 : v < -127 ? -127 : nearest(v));
        }
        if (n < 2 || n > 64) continue;
        memset(&w, 0, sizeof w);
        if (n % 2) w.weight = tfm_tensor_1d((void *)(uintptr_t)weights, TFM_DTYPE_F32, n);
        if (n % 3) w.bias = tfm_tensor_1d((void *)(uintptr_t)biases, TFM_DTYPE_F32, n);
        if (n % 5 == 0) w.kind = TFM_NORM_KIND_RMS_NORM, w.eps = 1e-5;
        for (i = 0; w.kind != TFM_NORM_KIND_RMS_NORM && i < n; i++)
            mean += (double)x[i] / (double)n;
        for (i = 0; i < n; i++) square += ((double)x[i] - mean) * ((double)x[i] - mean);
        for (i = 0; i < 80; i++) z[i] = 3;
        k->norm(z, n, x, n, 1, n, &w);
        for (i = 0; i < n; i++) {
            double v = ((double)x[i] - mean) / sqrt(square / (double)n + 1e-5);
            if (n % 2) v *= (double)weights[i];
            if (n % 3) v += (double)biases[i];
            v = fabs(v - (double)z[i]);
            if (!(v <= norm_error)) norm_error = v;
        }
        for (; i < 80; i++) clean &= z[i] == 3;
    }
    CHECK(sums && clean, "sums and products of 1 to 66, nothing written behind");
    if (k->narrow) narrowed(k);
    CHECK(sizes && rounded, "sizes and bytes of 1 to 66");
    CHECK(norm_error < 2e-6, "norms of 2 to 64: largest difference %.2g", norm_error);
}

/* Compares each activation at many places. The unit is the last place of |x|, or of the value where
   that is larger, because the kernel is not to blame for digits lost where a sum cancels. */
static void activations(const tfm__kernels *k) {
    int a, i;
    for (a = TFM_ACTIVATION_RELU; a <= TFM__SIGMOID; a++) {
        double most = 0;
        float at, x[19];
        int same = 1;
        for (at = -12; at < 12; at += 0.00037f) {
            double v = (double)at, expected, size, error;
            for (i = 0; i < 19; i++) x[i] = at;
            k->activate(x, 18, (tfm_activation)a);
            expected = test_activation((tfm_activation)a, v);
            if (a == TFM__SIGMOID) expected = 1 / (1 + exp(-v));
            size = fmax(fabs(expected), a == TFM_ACTIVATION_GELU || a == TFM_ACTIVATION_GELU_TANH
                                            ? fabs(v)
                                            : 1e-30);
            error = fabs((double)x[17] - expected) /
                    ldexp(1, (int)fmax(floor(log2(size + 1e-30)), -126) - 23);
            /* exp of a rounded argument has an error that grows with the argument. */
            error /= a > TFM_ACTIVATION_GELU_TANH ? 1 + fabs(v) : 1;
            if (!(error <= most)) most = error;
            same &= x[0] == x[17] && x[18] == at;
        }
        x[0] = NAN, x[1] = -1000, x[2] = 1000;
        k->activate(x, 3, (tfm_activation)a);
        CHECK(most <= 4 && same && isnan(x[0]) && fabsf(x[1]) == 0 &&
                  x[2] == (a == TFM__SIGMOID ? 1 : (float)test_activation((tfm_activation)a, 1000)),
              "%s: within %.2f ULP",
              a == TFM__SIGMOID ? "an SSRU's gate" : tfm_activation_name((tfm_activation)a), most);
    }
}

/* Packs a matrix of rows for these kernels, as a model's matrices are packed. */
typedef struct held {
    tfm__pool pool;
    tfm__linear linear;
} held;
static void pack(held *h, const tfm__kernels *kernels, const float *data, tfm_weight_type weights,
                 int64_t rows, int64_t columns) {
    tfm__packer p;
    unsigned char *little = (unsigned char *)test_memory((size_t)(rows * columns) * 4);
    int64_t i;
    memset(&p, 0, sizeof p);
    memset(h, 0, sizeof *h);
    must(tfm__choose_allocator(&h->pool.allocator, NULL, &err));
    p.kernels = kernels, p.weights = weights, p.err = &err;
    p.scratch = test_memory((size_t)tfm__packed_scratch(columns) * sizeof(float));
    for (i = 0; i < rows * columns; i++) { /* in the byte order of a file */
        uint32_t bits;
        memcpy(&bits, data + i, 4);
        little[4 * i] = (unsigned char)bits, little[4 * i + 1] = (unsigned char)(bits >> 8);
        little[4 * i + 2] = (unsigned char)(bits >> 16);
        little[4 * i + 3] = (unsigned char)(bits >> 24);
    }
    h->linear.w.dtype = TFM_DTYPE_F32, h->linear.w.rows = rows, h->linear.w.columns = columns;
    h->linear.w.data = little;
    must(tfm__packed_make_all(&p, &h->pool, &h->linear));
}

/* Computes one product by the kernels, on rows of x between NaN. y is [M, N + 1], with 7 where
   nothing may be written. */
static void multiply(const tfm__kernels *kernels, const tfm__linear *linear, float *y,
                     const float *x, int64_t x_stride, int64_t M, int64_t first, int64_t N) {
    tfm__rows from = tfm__rows_make((float *)(uintptr_t)x, 1, M, linear->w.columns);
    tfm__rows to = tfm__rows_make(y, 1, M, N);
    tfm__product p;
    tfm__team team;
    int64_t i;
    memset(&team, 0, sizeof team);
    team.kernels = kernels;
    /* Tiles read rows behind the last and ignore them, but valgrind objects to uninitialized
       ones. */
    team.converted = (unsigned char *)calloc(
        1, (size_t)((M + TFM__MOST_ROWS) * tfm__product_x_bytes(kernels, &linear->w)) + 1);
    team.scales = (float *)malloc((size_t)M * sizeof(float));
    from.sl = x_stride, to.sl = N + 1;
    for (i = 0; i < M * (N + 1); i++) y[i] = 7;
    p = tfm__product_make(&to, &from, linear);
    p.first = first;
    tfm__product_prepare(&p, &team);
    if (p.converted) tfm__product_convert(kernels, &p, 0, M);
    tfm__product_packed(kernels, &p);
    free(team.converted);
    free(team.scales);
}

/* Converts x for tiles that take bf16: 2 n bytes, zeros behind. row receives the rounded values. */
static void narrow_row(const tfm__kernels *kernels, unsigned char *to, float *row, int64_t n) {
    memset(to, 0, (size_t)(2 * n + 63) / 64 * 64);
    tfm__narrow(to, row, TFM_DTYPE_BF16, n);
    tfm__widen(row, to, TFM_DTYPE_BF16, n);
    memset(to, 0xAA, (size_t)(2 * n));
    kernels->narrow(to, row, n); /* numbers that are bf16 already must not change */
    memset(to + 2 * n, 0, (size_t)(-2 * n & 63));
}

/* Tests products with matrices of each type and awkward shapes, only a few where each takes
   long. */
static void products(const tfm__kernels *kernels, int few) {
    static const int64_t ms[] = {1, 2, 3, 4, 5, 6, 7, 12, 13, 23, 147};
    static const int64_t ns[] = {1, 15, 16, 17, 65}, ks[] = {1, 3, 4, 17, 512, 517, 2052};
    enum { MOST_M = 147, MOST_N = 65, MOST_K = 2052, X_STRIDE = MOST_K + 3 };
    static float x[MOST_M * X_STRIDE], w[MOST_N * MOST_K], bias[MOST_N];
    static float y[MOST_M * (MOST_N + 1)], one[MOST_N + 1], rows[MOST_N * MOST_K];
    static float one_x[MOST_K];
    static unsigned char bytes[2 * MOST_K + 64];
    static int xb[MOST_K];
    int type, a, b, c;
    for (type = few ? TFM_WEIGHT_TYPE_BF16 : TFM_WEIGHT_TYPE_F32; type <= TFM_WEIGHT_TYPE_I8;
         type++) {
        static const char *const names[] = {"", "f32", "f16", "bf16", "i8"};
        double most = 0;
        int same = 1, clean = 1, exact = 1, shapes = 0, shape = 0;
        unsigned seed = 3;
        for (b = 0; b < 5; b += few ? 3 : 1)
            for (c = 0; c < 7; c += few ? 3 : 1) {
                int64_t N = ns[b], K = ks[c], first = N > 16 ? 16 : 0, m, n, k;
                held h;
                if (!test_in_slice("products", case_of(type, shape++))) continue;
                fill_rows(x, MOST_M, K, X_STRIDE, &seed);
                fill_rows(w, N, K, K, &seed);
                fill_rows(bias, 1, N, N, &seed);
                pack(&h, kernels, w, (tfm_weight_type)type, N, K);
                for (n = 0; n < N; n++) tfm__matrix_read_row(&h.linear.w, n, rows + n * K);
                for (a = 0; a < 11; a += !few ? 1 : a ? 3 : 6, shapes++) {
                    int64_t M = ms[a];
                    const float *some = (a + b + c) % 2 ? bias : NULL;
                    h.linear.bias = some;
                    multiply(kernels, &h.linear, y, x, X_STRIDE, M, 0, N);
                    for (m = 0; m < M; m++) clean &= y[m * (N + 1) + N] == 7;
                    /* A row alone, and its later columns alone, as threads compute them, must have
                       the same bits. */
                    for (m = 0; m < M; m += 1 + M / 5) {
                        multiply(kernels, &h.linear, one, x + m * X_STRIDE, X_STRIDE, 1, 0, N);
                        same &= memcmp(one, y + m * (N + 1), (size_t)N * sizeof *one) == 0;
                        multiply(kernels, &h.linear, one, x + m * X_STRIDE, X_STRIDE, 1, first,
                                 N - first);
                        same &= memcmp(one, y + m * (N + 1) + first,
                                       (size_t)(N - first) * sizeof *one) == 0;
                    }
                    /* compares the last row with sums in double, and int8 with integers */
                    m = M - 1;
                    for (n = 0; n < N; n++) {
                        float *xm = (float *)memcpy(one_x, x + m * X_STRIDE, (size_t)K * sizeof *x);
                        double sum = some ? (double)some[n] : 0, size = fabs(sum), error;
                        float scale = 0, v = 0;
                        if (type == TFM_WEIGHT_TYPE_BF16 && kernels->narrow)
                            narrow_row(kernels, bytes, xm, K);
                        if (type == TFM_WEIGHT_TYPE_I8) scale = quantized(xb, xm, K);
                        if (type == TFM_WEIGHT_TYPE_I8) {
                            int64_t k0, whole;
                            for (k0 = 0; k0 < K; k0 += 2048) {
                                float part;
                                for (k = k0, whole = 0; k < K && k < k0 + 2048; k++)
                                    whole += (int64_t)xb[k] *
                                             nearest(rows[n * K + k] / h.linear.w.scales[n]);
                                part = (float)whole * (scale * h.linear.w.scales[n]);
                                v = k0 ? v + part : part;
                            }
                            if (some) v += some[n];
                            exact &= v == y[m * (N + 1) + n];
                        }
                        for (k = 0; k < K; k++) {
                            sum += (double)xm[k] * (double)rows[n * K + k];
                            size += fabs((double)xm[k] * (double)rows[n * K + k]);
                        }
                        error = fabs((double)y[m * (N + 1) + n] - sum) / size;
                        if (!(error <= most)) most = error;
                    }
                }
                /* Each stored number must be the nearest of its type. */
                for (k = 0; k < N * K; k++) {
                    double off = fabs((double)rows[k] - (double)w[k]), size = fabs((double)w[k]);
                    clean &= type == TFM_WEIGHT_TYPE_F32    ? off == 0
                             : type == TFM_WEIGHT_TYPE_F16  ? off <= fmax(size / 2048, 3e-8)
                             : type == TFM_WEIGHT_TYPE_BF16 ? off <= size / 256
                                                            : off <= 0.502 / 127;
                }
                tfm__pool_free(h.pool);
            }
        CHECK(same, "%s: a row has the bits that it has alone, and in parts", names[type]);
        CHECK(clean, "%s: weights as near as can be, nothing written behind", names[type]);
        CHECK(exact && most < (type == TFM_WEIGHT_TYPE_I8 ? 2e-2 : 1e-6),
              "%s: products of %d shapes: largest error %.2g of the sum of sizes%s", names[type],
              shapes, most, type == TFM_WEIGHT_TYPE_I8 ? ", sums of bytes exact" : "");
    }
}

/* Compares each tile of each element type with the plain one: remainders after whole vectors, new
   sums and continued sums, with a bias and without. */
static void tiles(const tfm__kernels *kernels) {
    enum { ROWS = (int)TFM__MOST_PANELS * (int)TFM__PANEL, MOST_K = 520, Y_STRIDE = ROWS + 8 };
    static const int64_t ks[] = {1, 2, 3, 4, 5, 63, MOST_K, MOST_K};
    enum { FLOATS = (int)TFM__MOST_ROWS * (int)TFM__X_STRIDE / 4 };
    static float w[ROWS * MOST_K], block[2 * FLOATS], s8[FLOATS]; /* orders are behind the rows */
    static float y[(int)TFM__MOST_ROWS * Y_STRIDE], expected[(int)TFM__MOST_ROWS * Y_STRIDE];
    float bias[ROWS], scales[TFM__MOST_ROWS];
    int type, c, form, i, r;
    for (type = TFM_WEIGHT_TYPE_F32; type <= TFM_WEIGHT_TYPE_I8; type++) {
        const tfm__tiling *tiling = kernels->tiles[type];
        double most = 0;
        int same = 1, clean = 1, n = 0, numbers = 0, shape = 0;
        unsigned seed = 7;
        for (; tiling; tiling = tiling->least > 1 ? tiling + 1 : NULL)
            for (c = 0; c < 8; c++) {
                int64_t K = ks[c], k;
                held h;
                tfm__tile t;
                if (!test_in_slice("tiles", case_of(type, shape++))) continue;
                fill_rows(w, ROWS, K, K, &seed);
                pack(&h, kernels, w, (tfm_weight_type)type, ROWS, K);
                fill_rows(bias, 1, ROWS, ROWS, &seed);
                fill_rows(scales, 1, TFM__MOST_ROWS, TFM__MOST_ROWS, &seed);
                fill_rows(block, TFM__MOST_ROWS, K, TFM__X_STRIDE / 4, &seed);
                if (type == TFM_WEIGHT_TYPE_I8 &&
                    !kernels->zero_point) /* A file may contain -128. */
                    for (i = 0; i < (int)tiling->panels; i++) {
                        unsigned char *panel = tfm__packed_panel(&h.linear.w, i, 0);
                        for (k = i; k < (K + 3) / 4 * 4 * TFM__PANEL; k += 5) panel[k] = 128;
                    }
                memcpy(s8, block, sizeof s8);
                for (r = 0; r < TFM__MOST_ROWS && type == TFM_WEIGHT_TYPE_I8; r++)
                    for (k = 0; k < (K + 3) / 4 * 4;
                         k++) { /* The bytes behind K may have any value. */
                        int q = (int)(tiny_random(&seed) % 255) - 127;
                        if (c & 1 || (c == 2 && r % 2)) q = q < 0 ? -q : q; /* as after ReLU */
                        if (k / 8 % 3 == 2 && c > 5) q = 0;
                        if (k % 64 < 32) q /= 4; /* many pairs fit 16 bits */
                        ((signed char *)s8)[r * TFM__X_STRIDE + k] = (signed char)q;
                        ((unsigned char *)block)[r * TFM__X_STRIDE + k] =
                            (unsigned char)(q + kernels->zero_point);
                    }
                for (r = 0; r < TFM__MOST_ROWS && type == TFM_WEIGHT_TYPE_I8 && kernels->split;
                     r++) {
                    unsigned char *row = (unsigned char *)block + r * TFM__X_STRIDE;
                    memset(row + (K + 3) / 4 * 4, 0, 64);
                    kernels->split(row, row + 4 * FLOATS, (K + 3) / 4 * 4);
                }
                for (r = 0; r < TFM__MOST_ROWS && type == TFM_WEIGHT_TYPE_BF16 && kernels->narrow;
                     r++)
                    narrow_row(kernels, (unsigned char *)block + r * TFM__X_STRIDE,
                               s8 + r * (TFM__X_STRIDE / 4), K);
                for (form = 0; form < 4; form++, n++) {
                    fill_rows(y, TFM__MOST_ROWS, ROWS, Y_STRIDE, &seed);
                    memcpy(expected, y, sizeof y);
                    memset(&t, 0, sizeof t);
                    for (i = 0; i < TFM__MOST_PANELS; i++)
                        t.w[i] = tfm__packed_panel(&h.linear.w, i, 0);
                    t.x = s8, t.K = K, t.y = expected, t.y_stride = Y_STRIDE, t.begins = form & 1;
                    t.bias = form & 2 ? bias : NULL;
                    t.x_scales = scales, t.w_scales = h.linear.w.scales;
                    t.ahead = t.w[0], t.block_sums = h.linear.w.block_sums;
                    t.rows = form < 2 ? tiling->least + 2 * form : tiling->rows + form - 3;
                    t.rows = t.rows < tiling->least ? tiling->least : t.rows;
                    t.rows = t.rows > tiling->rows ? tiling->rows : t.rows;
                    if (type == TFM_WEIGHT_TYPE_I8)
                        tfm__plain_tile_int8(&t, t.rows, tiling->panels);
                    else tfm__plain_tile(&t, (tfm_weight_type)type, t.rows, tiling->panels);
                    t.x = block, t.y = y, t.order = 4 * FLOATS;
                    if (tiling->configured) kernels->configure(1);
                    tiling->run(&t);
                    if (tiling->configured) kernels->configure(0);
                    same &= memcmp(y, expected, sizeof y) == 0;
                    for (i = 0; i < (int)TFM__MOST_ROWS * Y_STRIDE; i++) {
                        double off = fabs((double)y[i] - (double)expected[i]);
                        if (isnan(expected[i])) clean &= isnan(y[i]) != 0;
                        else if (!(off <= most * (double)(K + 2))) most = off / (double)(K + 2);
                        numbers += !isnan(expected[i]);
                    }
                }
                tfm__pool_free(h.pool);
            }
        if (!n) continue;
        clean &= numbers == n * (int)TFM__MOST_ROWS * ROWS; /* Next to y alone there is NaN. */
        CHECK(clean && (type == TFM_WEIGHT_TYPE_I8 ||
                                (kernels->fused && !FLT_EVAL_METHOD &&
                                 !(type == TFM_WEIGHT_TYPE_BF16 && kernels->narrow))
                            ? same
                            : most < 2.4e-7),
              "%s: %d tiles as the plain one, %s%.2g off for each term", tfm__types[type].name, n,
              same ? "to the bit: " : "", most);
    }
}

/* Fills n bytes with int8 of one kind: 0 and 1 all the same, 2 extremes with random signs, 3 any, 4
   small, so that four of them add up to about 255 in places. 5 and 6 are as after a ReLU: none is
   negative, half of 5 and most of 6 are zero. */
static void fill_bytes(signed char *q, int64_t n, int kind, int most, unsigned *seed) {
    int64_t i;
    for (i = 0; i < n; i++) {
        int any = (int)(tiny_random(seed) % (unsigned)(2 * most + 1)) - most;
        int sign = tiny_random(seed) % 2 ? 1 : -1;
        q[i] = (signed char)(kind == 0   ? most
                             : kind == 1 ? -most
                             : kind == 2 ? sign * most
                             : kind == 3 ? any
                             : kind == 4 ? sign * (60 + any % 10)
                             : kind == 5 ? (any > 0 ? any : 0)
                                         : (any % 5 == 0 && any > 0 ? any : 0));
    }
}

/* Compares int8 tiles with the plain one where all weights fit 7 bits, where one does not, and
   where all are 127 or -127. AVX2 multiplies 7 bits another way. In both ways, the largest numbers
   fill the sums of 16 bits. */
static void largest_sums(const tfm__kernels *kernels) {
    enum { ROWS = (int)TFM__MOST_PANELS * (int)TFM__PANEL, MOST_K = TFM__X_BYTES };
    enum { STRIDE_8 = TFM__X_STRIDE, ALL = (int)TFM__MOST_ROWS * STRIDE_8 };
    enum { WEIGHTS = 8, ACTIVATIONS = 7 };
    static const int64_t ks[] = {4, 12, 512, 520, 1028, MOST_K};
    static const int fills[WEIGHTS] = {0, 1, 2, 3, 0, 1, 0, 1};
    static float w[ROWS * MOST_K], block[2 * ALL / 4]; /* orders are behind the rows */
    static signed char s8[ALL];
    static float y[(int)TFM__MOST_ROWS * ROWS], expected[(int)TFM__MOST_ROWS * ROWS];
    float scales[TFM__MOST_ROWS];
    unsigned char *const x = (unsigned char *)block;
    unsigned seed = (unsigned)time(NULL), begun = seed;
    int c, kind, some, n = 0, wrong = 0, i;
    fill_rows(w, ROWS, MOST_K, MOST_K, &seed);
    for (i = 0; i < TFM__MOST_ROWS; i++) scales[i] = 1;
    for (c = 0; c < 6; c++)
        for (kind = 0; kind < WEIGHTS; kind++) {
            int64_t K = ks[c], bytes = K * TFM__PANEL, k;
            const tfm__tiling *tiling = kernels->tiles[TFM_WEIGHT_TYPE_I8];
            held h;
            if (!test_in_slice("sums", case_of(c, kind))) continue;
            pack(&h, kernels, w, TFM_WEIGHT_TYPE_I8, ROWS, K);
            for (i = 0; i < TFM__MOST_PANELS; i++) {
                signed char *panel = (signed char *)tfm__packed_panel(&h.linear.w, i, 0);
                fill_bytes(panel, bytes, fills[kind], kind < 6 ? 63 : 127, &seed);
                /* one weight of 64 or -65, which the sums with w + 64 have no room for */
                if (kind == 4 || kind == 5)
                    panel[tiny_random(&seed) % (unsigned)bytes] =
                        (signed char)(kind == 4 ? 64 : -65);
                else if (kind == 1 && !kernels->zero_point) panel[0] = -64;
                if (h.linear.w.block_sums) tfm__packed_set_block_sums(kernels, &h.linear.w, i);
            }
            for (i = 0; i < (int)tfm__packed_padded_rows(ROWS); i++) h.linear.w.scales[i] = 1;
            for (some = 0; some < ACTIVATIONS; some++) {
                fill_bytes(s8, ALL, some, 127, &seed);
                for (i = 0; i < ALL; i++) x[i] = (unsigned char)(s8[i] + kernels->zero_point);
                for (i = 0; i < TFM__MOST_ROWS && kernels->split; i++) {
                    memset(x + i * STRIDE_8 + K, 0, 64);
                    kernels->split(x + i * STRIDE_8, x + ALL + i * STRIDE_8, K);
                }
                for (tiling = kernels->tiles[TFM_WEIGHT_TYPE_I8]; tiling;
                     tiling = tiling->least > 1 ? tiling + 1 : NULL) {
                    tfm__tile t;
                    memset(&t, 0, sizeof t);
                    for (i = 0; i < TFM__MOST_PANELS; i++)
                        t.w[i] = tfm__packed_panel(&h.linear.w, i, 0);
                    t.x = s8, t.K = K, t.y = expected, t.y_stride = ROWS, t.begins = 1;
                    t.x_scales = scales, t.w_scales = h.linear.w.scales;
                    t.ahead = t.w[0], t.block_sums = h.linear.w.block_sums;
                    k = tiling->rows - (int64_t)(tiny_random(&seed) % 27);
                    t.rows = (int)tfm__max(tiling->least, k);
                    memset(y, 0, sizeof y), memset(expected, 0, sizeof expected);
                    tfm__plain_tile_int8(&t, t.rows, tiling->panels);
                    t.x = x, t.y = y, t.order = ALL;
                    if (tiling->configured) kernels->configure(1);
                    tiling->run(&t);
                    if (tiling->configured) kernels->configure(0);
                    n++, wrong += memcmp(y, expected, sizeof y) != 0;
                }
            }
            tfm__pool_free(h.pool);
        }
    CHECK(!wrong, "seed %u: %d of %d tiles with the largest numbers differ from the plain one",
          begun, wrong, n);
}

/* Compares the emulated instructions with the CPU's own, if it has them. y must have the same bits,
   for numbers whose sums round, for denormals and for numbers that overflow. */
static void as_the_hardware(const tfm__kernels *emulated, const tfm__kernels *kernels) {
    enum { ROWS = 64, MOST_K = 96, FLOATS = (int)TFM__MOST_ROWS * TFM__X_STRIDE / 4 };
    static const int64_t ks[] = {1, 2, 31, 64, MOST_K};
    static float w[ROWS * MOST_K], x[FLOATS], block[FLOATS], y[2][(int)TFM__MOST_ROWS * ROWS];
    const tfm__tiling *tiling = emulated->tiles[TFM_WEIGHT_TYPE_BF16];
    int c, r, form, same = 1, n = 0;
    unsigned seed = 3;
    if (!kernels || !tiling) {
        test_skip("emulated AMX: this CPU lacks the kernels that it builds on");
        return;
    }
    for (; tiling; tiling = tiling->least > 1 ? tiling + 1 : NULL)
        for (c = 0; c < 5; c++)
            for (form = 0; form < 6; form++, n++) {
                const float size = form < 2 ? 1.0f : form < 4 ? 1e-20f : 1e19f;
                tfm__tile t;
                held h;
                int set;
                fill_rows(w, ROWS, ks[c], ks[c], &seed);
                fill_rows(x, TFM__MOST_ROWS, ks[c], TFM__X_STRIDE / 4, &seed);
                for (r = 0; r < ROWS * (int)ks[c]; r++) w[r] *= size;
                for (r = 0; r < FLOATS; r++) x[r] *= size;
                fill_rows(y[0], TFM__MOST_ROWS, ROWS, ROWS, &seed);
                for (r = 0; r < (int)TFM__MOST_ROWS * ROWS; r++) y[0][r] *= size * size;
                memcpy(y[1], y[0], sizeof y[0]);
                pack(&h, kernels, w, TFM_WEIGHT_TYPE_BF16, ROWS, ks[c]);
                memset(block, 0, sizeof block);
                for (r = 0; r < TFM__MOST_ROWS; r++)
                    narrow_row(kernels, (unsigned char *)block + r * TFM__X_STRIDE,
                               x + r * (TFM__X_STRIDE / 4), ks[c]);
                memset(&t, 0, sizeof t);
                for (r = 0; r < TFM__MOST_PANELS; r++)
                    t.w[r] = tfm__packed_panel(&h.linear.w, r, 0);
                t.x = block, t.K = ks[c], t.y_stride = ROWS, t.begins = form & 1;
                for (set = 0; set < 2; set++) {
                    const tfm__kernels *k = set ? kernels : emulated;
                    const tfm__tiling *tile = kernels->tiles[TFM_WEIGHT_TYPE_BF16];
                    while (tile->rows != tiling->rows) tile++;
                    t.y = y[set], t.rows = tiling->rows, t.ahead = t.w[0];
                    if (tiling->configured) k->configure(1);
                    (set ? tile : tiling)->run(&t);
                    if (tiling->configured) k->configure(0);
                }
                same &= memcmp(y[0], y[1], sizeof y[0]) == 0;
                tfm__pool_free(h.pool);
            }
    CHECK(same, "%d tiles of bf16: the bits of the CPU's", n);
}

/* ---- attention ---- */

static int64_t first_of(const tfm__attention *a, int64_t b) { return a->firsts ? a->firsts[b] : 0; }

/* Returns whether a mask hides a key from a query. */
static int hidden(const tfm__attention *a, int64_t b, int64_t h, int64_t t, int64_t s) {
    const tfm_masks *m = a->masks;
    const unsigned char *pads = (const unsigned char *)m->key_padding.data;
    const unsigned char *mask = (const unsigned char *)m->attention.data;
    int64_t kv = a->kv_rows ? a->kv_rows[b] : b, block = 0;
    if (m->attention.rank == 3) block = m->attention.dims[0] == a->B ? b : b * a->H + h;
    return (m->key_lengths && s >= m->key_lengths[kv]) || (m->causal && s > first_of(a, b) + t) ||
           (pads && pads[kv * a->S + s]) || (mask && mask[(block * a->T + t) * a->S + s]);
}

/* Returns column i of a key or value. */
static double element(const tfm__heads *x, int64_t b, int64_t h, int64_t s, int64_t i) {
    const void *row = tfm__head_at(x, b, h, s);
    if (x->is_f16) return (double)tfm__float_from_half(((const uint16_t *)row)[i]);
    return (double)((const float *)row)[i];
}

/* Computes the definition for one query of one head of one row. weights = softmax over the visible
   keys of scale * q . k + bias, or 0 where no key is visible; context = the sum of the values by
   these weights. */
static void attention(const tfm__attention *a, int64_t b, int64_t h, int64_t t, double *weights,
                      double *context) {
    const float *q = tfm__head_row(&a->q, b, h, t);
    double sum = 0;
    int64_t s, i;
    for (i = 0; i < a->W; i++) context[i] = 0;
    for (s = 0; s < a->S; s++) {
        int64_t kv = a->kv_rows ? a->kv_rows[b] : b;
        int64_t row = a->ancestry ? a->ancestry[b * a->ancestry_stride + s] : kv;
        double score = 0;
        for (i = 0; i < a->K; i++) score += (double)q[i] * element(&a->k, row, h, s, i);
        score *= (double)a->scale;
        if (a->bias) score += (double)a->bias[h * a->bias_head + s - first_of(a, b) - t];
        weights[s] = hidden(a, b, h, t, s) ? 0 : exp(score);
        sum += weights[s];
        for (i = 0; weights[s] > 0 && i < a->W; i++)
            context[i] += weights[s] * element(&a->v, row, h, s, i);
    }
    for (s = 0; sum > 0 && s < a->S; s++) weights[s] /= sum;
    for (i = 0; sum > 0 && i < a->W; i++) context[i] /= sum;
}

/* Describes [rows, 3 heads, positions, columns] at data. */
static tfm__heads heads(void *data, int64_t positions, int64_t columns) {
    tfm__heads x = {data, 3 * positions * columns, positions * columns, columns, 0};
    return x;
}

/* Tests products of bf16 by bf16. */
static int takes_bf16(const tfm__kernels *kernels) {
    return kernels->narrow && kernels->tiles[TFM_WEIGHT_TYPE_BF16];
}

/* Tests blocks of keys: the last one is not whole, a bias makes the largest score grow from block
   to block, pads hide the first block and more, and a mask hides all keys from a query. Also tests
   queries that read blocks of keys together. */
static void long_attention(const tfm__kernels *kernels) {
    enum { T = 35, S = 1101, K = 37, W = 33, BLIND = 3 };
    static float q[T * K], k[3 * S * K], v[3 * S * W], context[T * W], alone[T * W];
    static float seen[T * S], plain[2][T * W], bias[S + T];
    static double weights[S];
    static unsigned char pads[S], mask[T * S];
    static const int32_t lengths[] = {S - 24}, step_lengths[] = {S - 24, S - 24};
    int32_t rows[T];
    unsigned seed = 31;
    double values[W];
    int bf16, kind;
    fill_rows(q, 1, T * K, T * K, &seed);
    fill_rows(k, 1, S * K, S * K, &seed);
    fill_rows(v, 1, S * W, S * W, &seed);
    for (kind = 0; kind < S + T; kind++) bias[kind] = 0.004f * (float)kind;
    for (kind = 0; kind < S; kind++) pads[kind] = kind < 300 || kind % 7 == 0;
    memset(mask + BLIND * S, 1, S);
    for (bf16 = 0; bf16 <= takes_bf16(kernels); bf16++) {
        tfm_weight_type type = bf16 ? TFM_WEIGHT_TYPE_BF16 : TFM_WEIGHT_TYPE_F32;
        size_t floats = (size_t)tfm__attend_tile_scratch(type, S, K, W);
        float *scratch = (float *)test_memory((floats + 1) * sizeof *scratch);
        tfm__attention a;
        tfm_masks m;
        double most = 0;
        int64_t t, s;
        memset(&a, 0, sizeof a);
        a.kernels = kernels;
        memset(&m, 0, sizeof m);
        a.q = heads(q, T, K), a.k = heads(k, S, K), a.v = heads(v, S, W);
        a.context = heads(context, T, W), a.scratch = scratch;
        a.B = a.H = 1, a.T = T, a.S = S, a.K = K, a.W = W, a.scale = 0.5f;
        m.key_lengths = lengths, a.masks = &m, a.tiles = type;
        for (kind = 0; kind < 8; kind++) { /* a bias, pads and mask, weights */
            a.bias = kind & 1 ? bias + T - 1 : NULL;
            m.key_padding = tfm_tensor_2d(kind & 2 ? pads : NULL, TFM_DTYPE_BOOL, 1, S);
            m.attention = tfm_tensor_2d(kind & 2 ? mask : NULL, TFM_DTYPE_BOOL, T, S);
            a.weights = heads(kind & 4 ? seen : NULL, T, S);
            for (s = 0; s <= (int64_t)floats; s++) scratch[s] = 7;
            for (s = 0; s < T * W; s++) context[s] = NAN;
            tfm__attend_tiles(&a, 0, 0, 1, scratch);
            CHECK(scratch[floats] == 7, "nothing written behind");
            for (t = 0; t < T; t++) {
                attention(&a, 0, 0, t, weights, values);
                for (s = 0; s < W; s++) {
                    double off = fabs((double)context[t * W + s] - values[s]);
                    if (!(off <= most)) most = off;
                }
                for (s = 0; kind & 4 && s < S; s++) {
                    double off = fabs((double)seen[t * S + s] - weights[s]);
                    if (!(off <= most)) most = off;
                }
            }
            if (kind == 1) memcpy(plain[bf16], context, sizeof context);
            if (kind == 5)
                CHECK(memcmp(plain[bf16], context, sizeof context) == 0,
                      "the same bits if weights are wanted");
        }
        CHECK(most < (bf16 ? 0.004 : 1e-6), "%s: %d queries of %d columns see %d keys, %.2g off",
              tfm__types[type].name, T, K, S - 24, most);
        memset(&a.weights, 0, sizeof a.weights), a.bias = NULL;
        m.key_padding.data = m.attention.data = NULL;
        m.causal = bf16, m.key_lengths = bf16 ? NULL : lengths;
        a.scratch_size = S, tfm__attend_heads(&a, 0, 1, 0, 1, scratch);
        memcpy(alone, context, sizeof alone);
        a.scratch_size = 9 * S, tfm__attend_heads(&a, 0, 1, 0, 1, scratch);
        CHECK(memcmp(alone, context, sizeof alone) == 0, "8 queries together have the bits of one");
        s = tfm__attend_tile_scratch(type, 8192, K, W) - tfm__attend_tile_scratch(type, 4096, K, W);
        CHECK(s <= 4096 * (K + W + 16), "a position more: scratch for a key and a value more");
        if (bf16) continue; /* causal: a step's only query would see one key */
        memset(context, 0, sizeof context);
        for (t = 0; t < T; t++) rows[t] = t % 13 == 12;
        memcpy(k + S * K, k, S * K * sizeof *k), memcpy(v + S * W, v, S * W * sizeof *v);
        a.T = 1, a.B = T, a.kv_rows = rows, a.tiles = TFM_WEIGHT_TYPE_AS_STORED, a.parts = 3;
        a.q.b = K, a.context.b = W, a.k.b = S * K, a.v.b = S * W;
        m.key_lengths = step_lengths;
        for (t = 0; t < 3; t++) tfm__attend_part(&a, (int32_t)t);
        CHECK(memcmp(alone, context, sizeof alone) == 0,
              "so have hypotheses of a step that share keys, in three parts");
    }
}

/* Kernels that count the floats of keys that are packed, and blocks of keys that are read after
   others. */
static const tfm__kernels *counted_kernels;
static int64_t packed_floats, key_blocks;
static const void *last_block;

static void counted_scale(float *x, float factor, int64_t n) {
    if (n >= 16 * 37) packed_floats += n;
    counted_kernels->scale(x, factor, n);
}

static void counted_dots(float *sums, const float *x, const void *rows, int64_t stride, int64_t n,
                         int64_t width, int is_f16) {
    key_blocks += rows != last_block;
    last_block = rows;
    counted_kernels->dots(sums, x, rows, stride, n, width, is_f16);
}

/* Tests that the heads of a group read their keys and values once: tiles pack them once for each
   part that has a head of the group, and a step reads each block once for its heads and hypotheses.
   The bits are those of keys and values that are repeated for each head. */
static void grouped_attention(const tfm__kernels *kernels) {
    enum { B = 2, H = 6, G = 2, T = 26, S = 150, K = 37, W = 21, BLOCKS = (S + 63) / 64 };
    static float q[B * H * T * K], k[B * H * S * K], v[B * H * S * W], kg[B * G * S * K];
    static float vg[B * G * S * W], context[2][B * H * T * W];
    static const int32_t same_row[B] = {1, 1};
    const int64_t size = tfm__attend_tile_scratch(TFM_WEIGHT_TYPE_F32, S, K, W);
    const int64_t packed = tfm__packed_bytes(TFM_WEIGHT_TYPE_F32, S, K) / 4;
    float *scratch = (float *)test_memory((size_t)(4 * size) * sizeof *scratch);
    tfm__kernels counting = *kernels;
    unsigned seed = 37;
    int i, form, parts, grouped;
    fill_rows(q, 1, B * H * T * K, B * H * T * K, &seed);
    fill_rows(kg, 1, B * G * S * K, B * G * S * K, &seed);
    fill_rows(vg, 1, B * G * S * W, B * G * S * W, &seed);
    for (i = 0; i < B * H; i++) {
        memcpy(k + i * S * K, kg + i / (H / G) * S * K, S * K * sizeof *k);
        memcpy(v + i * S * W, vg + i / (H / G) * S * W, S * W * sizeof *v);
    }
    counted_kernels = kernels;
    counting.scale = counted_scale, counting.dots = counted_dots;
    for (form = 0; form < 3; form++) /* tiles, a step of two sentences, of two hypotheses of one */
        for (parts = 1; parts <= 4; parts += 3) {
            int64_t expected = form == 0 ? B * G * packed : form == 1 ? B * G * BLOCKS : G * BLOCKS;
            int64_t count = 0, length = form ? 1 : T;
            for (grouped = 0; grouped < 2; grouped++) {
                tfm__heads x = {q, H * length * K, length * K, K, 0};
                tfm__heads keys = {grouped ? kg : k, (grouped ? G : H) * S * K, S * K, K, 0};
                tfm__heads values = {grouped ? vg : v, (grouped ? G : H) * S * W, S * W, W, 0};
                tfm__heads y = {context[grouped], H * length * W, length * W, W, 0};
                tfm__attention a;
                memset(&a, 0, sizeof a);
                a.kernels = &counting;
                a.q = x, a.k = keys, a.v = values, a.context = y, a.group = grouped ? H / G : 1;
                a.B = B, a.H = H, a.T = length, a.S = S, a.K = K, a.W = W, a.scale = 0.5f;
                a.tiles = form ? TFM_WEIGHT_TYPE_AS_STORED : TFM_WEIGHT_TYPE_F32;
                a.kv_rows = form == 2 ? same_row : NULL;
                a.scratch = scratch, a.scratch_size = size, a.parts = parts;
                packed_floats = key_blocks = 0, last_block = NULL;
                for (i = 0; i < parts; i++) tfm__attend_part(&a, i);
                count = form ? key_blocks : packed_floats;
            }
            CHECK(memcmp(context[0], context[1], sizeof(float) * (size_t)(B * H * length * W)) == 0,
                  "form %d, %d parts: a group has the bits of repeated keys", form, parts);
            /* four parts of three heads each are whole groups; those of hypotheses share groups */
            CHECK(count == (form == 2 && parts == 4 ? 2 : 1) * expected,
                  "form %d, %d parts: the keys of a group are read once: %.0f, expected %.0f", form,
                  parts, (double)count, (double)expected);
        }
}

/* Compares both loops with the definition, with every kind of mask, alone and together, query by
   query. Keys and values may be F16. */
static void attentions(const tfm__kernels *kernels) {
    enum { B = 2, H = 3, T = 27, S = 21, K = 5, W = 19, ALL = B * H * T * S };
    static const int32_t lengths[B] = {S, 9}, rows[B] = {1, 0}, firsts[B] = {2, 0};
    static float q[B * H * T * K], k[B * H * S * K], v[B * H * S * W], context[B * H * T * W];
    static uint16_t k_f16[B * H * S * K], v_f16[B * H * S * W];
    static float weights[ALL], scratch[(S + 16) * (K + W + 16) + 3 * 32 * 528];
    static unsigned char pads[B * S], mask[ALL];
    static float bias[H * 2 * (S + T)];
    int32_t ancestry[B * S];
    double most[4] = {0, 0, 0, 0}, expected[S], values[W];
    int kind, tiled, compared[4] = {0, 0, 0, 0}, empty = 0, i;
    unsigned seed = 29;
    fill_rows(q, 1, B * H * T * K, B * H * T * K, &seed);
    fill_rows(k, 1, B * H * S * K, B * H * S * K, &seed);
    fill_rows(v, 1, B * H * S * W, B * H * S * W, &seed);
    fill_rows(bias, 1, H * 2 * (S + T), H * 2 * (S + T), &seed);
    kernels->narrow_f16(k_f16, k, B * H * S * K);
    kernels->narrow_f16(v_f16, v, B * H * S * W);
    for (i = 0; i < B * S; i++) ancestry[i] = (int32_t)(tiny_random(&seed) % B);
    for (i = 0; i < B * S; i++) pads[i] = tiny_random(&seed) % 4 == 0;
    for (i = 0; i < ALL; i++) mask[i] = tiny_random(&seed) % 3 == 0 || i / S % T == 3;
    /* lengths, causal, pads, three shapes of attention mask, other rows, ancestries of a cache, a
       bias */
    for (kind = 0; kind < 2 * 2 * 2 * 4 * 3 * 2; kind++)
        for (tiled = 0; tiled < 4 && test_in_slice("attention", case_of(0, kind));
             tiled++) { /* 2: F16; 3: tiles of bf16 */
            int64_t b, h, t, s;
            int shape = kind / 8 % 4, from = kind / 32 % 3;
            tfm_masks m;
            tfm__attention a;
            memset(&m, 0, sizeof m);
            memset(&a, 0, sizeof a);
            a.kernels = kernels;
            if (kind & 1) m.key_lengths = lengths;
            m.causal = kind >> 1 & 1;
            if (kind & 4) m.key_padding = tfm_tensor_2d(pads, TFM_DTYPE_BOOL, B, S);
            if (shape == 1) m.attention = tfm_tensor_2d(mask, TFM_DTYPE_BOOL, T, S);
            if (shape > 1)
                m.attention = tfm_tensor_3d(mask, TFM_DTYPE_BOOL, shape == 2 ? B : B * H, T, S);
            if (tiled % 2 && (m.causal || from))
                continue; /* Tiles are never used for these masks. */
            if (tiled == 3 && !takes_bf16(kernels)) continue;
            a.tiles = tiled == 3 ? TFM_WEIGHT_TYPE_BF16 : TFM_WEIGHT_TYPE_F32;
            a.B = B, a.H = H, a.T = T, a.S = S, a.K = K, a.W = W;
            a.q = heads(q, T, K), a.k = heads(k, S, K), a.v = heads(v, S, W);
            if (tiled == 2) {
                a.k = heads(k_f16, S, K), a.v = heads(v_f16, S, W);
                a.k.is_f16 = a.v.is_f16 = 1;
            }
            a.context = heads(context, T, W), a.weights = heads(weights, T, S);
            a.scale = 1.7f, a.masks = &m, a.firsts = m.causal ? firsts : NULL;
            a.scratch_size = kind % 3 * 3 * S; /* one query at a time, 3 or 6 */
            if (kind >= 96) a.bias = bias + T + 2, a.bias_head = 2 * (S + T);
            if (from == 1) a.kv_rows = rows;
            if (from == 2) a.ancestry = ancestry, a.ancestry_stride = S;
            for (i = 0; i < ALL; i++) weights[i] = NAN;
            for (i = 0; i < B * H * T * W; i++) context[i] = NAN;
            for (b = 0; b < B; b++)
                for (h = 0; h < H; h++) {
                    for (i = 0; i < (int)(sizeof scratch / sizeof *scratch); i++) scratch[i] = NAN;
                    if (tiled % 2) tfm__attend_tiles(&a, b, h, 1, scratch);
                    else tfm__attend_heads(&a, b, 1, h, 1, scratch);
                    for (t = 0; t < T; t++) {
                        double sum = 0, off;
                        int64_t at = (b * H + h) * T + t;
                        attention(&a, b, h, t, expected, values);
                        for (s = 0; s < S; s++) {
                            off = fabs((double)weights[at * S + s] - expected[s]);
                            if (!(off <= most[tiled])) most[tiled] = off;
                            sum += expected[s];
                        }
                        for (s = 0; s < W; s++) {
                            off = fabs((double)context[at * W + s] - values[s]);
                            if (!(off <= most[tiled])) most[tiled] = off;
                        }
                        compared[tiled]++, empty += sum == 0;
                    }
                }
        }
    CHECK(most[0] < 1e-6 && most[1] < 1e-6 && (empty > 0 || !compared[0]),
          "%d queries one by one, %.2g off the definition; %d in tiles, %.2g off; %d see nothing",
          compared[0], most[0], compared[1], most[1], empty);
    CHECK(!takes_bf16(kernels) || most[3] < 0.01, "%d queries in tiles of bf16, %.2g off",
          compared[3], most[3]);
    CHECK(most[2] < 1e-6, "%d queries over keys and values in F16, %.2g off", compared[2], most[2]);
}

/* Returns whether n floats have the same bits, or are both NaN. */
static int test_same(const float *x, const float *y, int64_t n) {
    int64_t i;
    for (i = 0; i < n; i++)
        if (memcmp(&x[i], &y[i], sizeof *x) != 0 && !(isnan(x[i]) && isnan(y[i]))) return 0;
    return 1;
}

/* Loops that work row by row must have the same bits in both sets, for sums of any length and
   numbers of any kind. */
static void TEST_UNUSED same_rows(const tfm__kernels *k, const tfm__kernels *other) {
    enum { ROWS = 7, LONG = 1100, PLACES = ROWS * LONG + 64 };
    static float x[PLACES], w[LONG], y[2][PLACES];
    static unsigned char q[2][LONG + 64];
    static uint16_t halves[3 * LONG];
    const float odd[] = {NAN, INFINITY, -INFINITY, -0.0f, 1e-42f, 3e38f, -88.5f, 104.5f};
    const tfm__kernels *sets[2];
    double sums[2][4];
    unsigned seed = 3;
    int64_t n, i;
    int strange, same = 1, set, a;
    tfm_norm_weights weights;
    sets[0] = k, sets[1] = other;
    memset(&weights, 0, sizeof weights);
    for (n = 1; n <= LONG; n += n < 70 ? 1 : n < 500 ? 37 : 113)
        for (strange = 0; strange < 2 && test_in_slice("rows", case_of(0, (int)n)); strange++) {
            fill_rows(x, ROWS, n, n, &seed);
            fill_rows(w, 1, n, n, &seed);
            for (i = 0; i < n * ROWS; i++) x[i] *= 5;
            for (i = 0; strange && i < n * ROWS; i += 5) x[i] = odd[i / 5 % 8];
            weights.weight = tfm_tensor_1d(w, TFM_DTYPE_F32, n);
            weights.kind = n % 2 ? TFM_NORM_KIND_RMS_NORM : TFM_NORM_KIND_LAYER_NORM;
            for (set = 0; set < 2; set++) {
                k = sets[set];
                memset(y[set], 0, sizeof y[set]);
                memset(q[set], 0, sizeof q[set]);
                sums[set][0] = k->exp_sum(y[set], x, 1, n);
                sums[set][1] = k->exp_sum(NULL, x, 1, n);
                sums[set][2] = (double)k->largest(x, n), sums[set][3] = (double)k->absmax(x, n);
                k->quantize(q[set], x, 20, 0, n);
                memset(q[set] + n, 0, 64);
            }
            same &= memcmp(q[0], q[1], sizeof q[0]) == 0 && test_same(y[0], y[1], n);
            for (i = 0; i < 4; i++)
                same &= sums[0][i] == sums[1][i] || (isnan(sums[0][i]) && isnan(sums[1][i]));
            for (a = TFM_ACTIVATION_RELU - 1; a <= TFM__SIGMOID; a++) {
                for (set = 0; set < 2; set++) {
                    k = sets[set];
                    memcpy(y[set], x, sizeof x);
                    if (a >= TFM_ACTIVATION_RELU) k->activate(y[set], n, (tfm_activation)a);
                    else k->norm(y[set], n, x, n, ROWS, n, &weights);
                }
                same &= test_same(y[0], y[1], n * ROWS);
            }
            /* rows together, rows alone, and in place */
            for (i = 0; i < ROWS; i++) k->norm(y[0] + i * n, n, x + i * n, n, 1, n, &weights);
            memcpy(y[1], x, sizeof x);
            k->norm(y[1], n, y[1], n, ROWS, n, &weights);
            same &= test_same(y[0], y[1], n * ROWS);
            for (set = 0; set < 2; set++) {
                k = sets[set];
                memcpy(y[set], x, sizeof x);
                k->weighted_sum(y[set], w, x + n, 1, n, n * 3 / 4, 0);
                k->scale(y[set] + n, 0.37f, n), k->add(y[set] + n, w, n);
                k->times(y[set] + n, x, n);
                k->dots(y[set] + 2 * n, w, x, n, ROWS, n, 0);
                k->narrow_f16(halves, x, 3 * n);
                k->dots(y[set] + 2 * n + ROWS, w, halves, n, 3, n, 1);
                k->weighted_sum(y[set] + 3 * n, w, halves, 1, n, n * 3 / 4, 1);
                k->quantize(q[set], x, 300, 128, n);
                memset(q[set] + n, 0, 64);
            }
            same &= memcmp(q[0], q[1], sizeof q[0]) == 0 && test_same(y[0], y[1], n * ROWS);
        }
    CHECK(same, "rows of 1 to %d: the same bits as %s, NaN and infinities too", (int)LONG,
          other->name);
}

/* Loads a whole model and runs it with each set. */
static void whole_model(void) {
    static const int32_t ids[] = {3, 4, 5, 6, 7, 8, 9, 10}, lengths[] = {4, 2, 3, 1};
    id_matrix src = tiny_batch(ids, lengths, 2, 4), tgt = tiny_batch(ids + 1, lengths + 2, 2, 3);
    tfm_tensor expected, logits;
    int i, wanted = kernels_wanted;
    memset(&expected, 0, sizeof expected);
    SECTION("a whole model");
    for (i = 0; i < TFM__KERNEL_SETS; i++) {
        tiny t = tiny_default();
        tfm_model *model;
        tfm_session *s;
        if (!tfm__kernel_set(i)) continue;
        kernels_wanted = i;
        t.config = ", \"start\": 1, \"end\": 2, \"activation\": \"gelu\", \"layer_norm\": \"rms\"";
        t.ssru = 2, t.t5 = 1;
        model = tiny_model(t), s = tiny_session(model, 2, 4, 4);
        logits = test_like(tfm_tensor_3d(NULL, TFM_DTYPE_F32, 2, 3, 13));
        must(forward_rows(s, &src, &tgt, NULL, &logits, &err));
        if (!i) expected = logits;
        CHECK(test_difference(&logits, &expected) <
                  (tfm__kernel_set(i)->fused && !FLT_EVAL_METHOD ? 1e-30 : 1e-5),
              "%s: largest difference %.2g", tfm_cpu_string(), test_difference(&logits, &expected));
        tfm_session_free(s), tfm_model_free(model);
    }
    kernels_wanted = wanted;
}

/* Returns how far a is from b, in units of the last place of b. */
static double ulps(double a, double b) { return fabs(a - b) / ldexp(1, ilogb(b) - 52); }

static float any_float(unsigned *seed) {
    uint32_t bits = tiny_random(seed) << 16 ^ tiny_random(seed);
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* Compares the library's own functions with libm's, on random numbers of another seed in each
   run. */
static void arithmetic(void) {
    unsigned seed = (unsigned)time(NULL), begun = seed;
    int is_in[TEST_SLICES];
    double worst_exp = 0, worst_log = 0, worst_sine = 0, worst_pow = 0;
#ifdef _WIN32
    double sine_bound = 1e-13; /* MinGW's sine is x87's, whose pi has 66 bits: 1e6 / 2^66 */
#else
    double sine_bound = 1e-15;
#endif
    int i, wrong = 0;
    SECTION("arithmetic");
    for (i = 0; i < TEST_SLICES; i++) is_in[i] = test_in_slice("arithmetic", i);
    for (i = 0; i < 200000; i++) {
        if (!is_in[i % TEST_SLICES]) continue;
        double r = (double)tiny_random(&seed) / 16777216.0;
        double s = (double)tiny_random(&seed) / 16777216.0, x = (r - 0.5) * 1400, y = exp(x / 2);
        worst_exp = test_max(worst_exp, ulps(tfm__exp(x / 2), y));
        worst_exp = test_max(worst_exp, ulps(tfm__exp(r - s), exp(r - s)));
        if (y != 1) worst_log = test_max(worst_log, ulps(tfm__log(y), log(y)));
        x = r * 1e6 * s;
        worst_sine = test_max(worst_sine, fabs(tfm__sine(x, 0) - sin(x)));
        worst_sine = test_max(worst_sine, fabs(tfm__sine(-x, 1) - cos(x)));
        x = 1 + 300 * r;
        worst_pow = test_max(worst_pow, fabs(tfm__pow(x, 3 * s) / pow(x, 3 * s) - 1));
    }
    CHECK(worst_exp < 4 && worst_log < 8 && worst_sine < sine_bound && worst_pow < 1e-14,
          "seed %u: exp %.2g ULP, log %.2g ULP, sine %.2g, pow %.2g", begun, worst_exp, worst_log,
          worst_sine, worst_pow);
#if defined(__GLIBC__) && !FLT_EVAL_METHOD
    for (i = 0; i < 1000000; i++) {
        float a, b, c, ours, libms;
        if (!is_in[i / 100 % TEST_SLICES]) continue;
        a = any_float(&seed), b = any_float(&seed), c = any_float(&seed);
        if (i % 2) c = ldexpf(-a * b, i % 60 - 30); /* sums that nearly cancel, ties */
        if (i % 8 == 1) a = ldexpf(a, -70), c = ldexpf(1, -120 - i % 30); /* small numbers */
        ours = tfm__fma(a, b, c), libms = fmaf(a, b, c);
        wrong += memcmp(&ours, &libms, sizeof ours) != 0 && !(isnan(ours) && isnan(libms));
    }
    CHECK(!wrong, "seed %u: %d of 1,000,000 fused multiply-adds are wrong", begun, wrong);
#else
    (void)wrong, (void)any_float;
    test_skip("fused multiply-adds: not every libm computes them right");
#endif
}

int main(void) {
    int i;
    kernels_wanted = kernels_of_build();
    arithmetic();
    for (i = 0; i < SETS; i++) {
        const tfm__kernels *k = kernel_set(i);
        if (!k) {
            char what[80];
            snprintf(what, sizeof what, "kernel set %d: this CPU or this build lacks it", i);
            test_skip(what);
            continue;
        }
        SECTION(k->name);
        chosen_set = i;
        if (i >= EMULATED_BF16) { /* All of its functions but the tiles are plain C's. */
#ifndef TRANSFORMER_BLAS
            products(k, 1);
#endif
            tiles(k);
            largest_sums(k);
            as_the_hardware(k, tfm__kernel_set(i == EMULATED_BF16 ? BF16_SET : AMX_SET));
            attentions(k);
            if (test_in_slice("long", i)) long_attention(k);
            grouped_attention(k);
            continue;
        }
        dots(k);
        weighted(k);
        halves(k);
        nearest_halves(k);
        exponentials(k);
        largest_and_scale(k);
        loops(k);
        activations(k);
#ifndef TRANSFORMER_BLAS /* The library chooses the set itself. */
        products(k, 0);
#endif
        tiles(k);
        largest_sums(k);
        attentions(k);
        if (test_in_slice("long", i)) long_attention(k);
        grouped_attention(k);
        if (i && k->fused) same_rows(k, tfm__kernel_set(0));
    }
    whole_model();
    if (test_loud()) printf("  here: %s\n", tfm_cpu_string());
    return test_done("test_kernels");
}
