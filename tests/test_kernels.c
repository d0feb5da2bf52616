/* Each kernel set that this machine has against plain loops in double: awkward sizes, padding full
   of NaN, ULPs. */
#define TRANSFORMER_IMPLEMENTATION
#include "transformer.h"
#include "tiny.h"

enum { MOST = 200, STRIDE = MOST + 24 };
static float xs[4 * STRIDE], ws[16 * STRIDE], ys[STRIDE];
static const float *x_rows[4], *w_rows[16];

/* Rows of n numbers with NaN before and behind: what is read by mistake shows. */
static void fill(int64_t n, unsigned seed) {
    int64_t i, k;
    for (i = 0; i < 4 * STRIDE; i++) xs[i] = NAN;
    for (i = 0; i < 16 * STRIDE; i++) ws[i] = NAN;
    for (i = 0; i < 16; i++) {
        w_rows[i] = ws + i * STRIDE + 3 + i % 5; /* rows that are not aligned */
        for (k = 0; k < n; k++)
            ws[i * STRIDE + 3 + i % 5 + k] = (float)tiny_random(&seed) / 8388608.0f - 1.0f;
    }
    for (i = 0; i < 4; i++) {
        x_rows[i] = xs + i * STRIDE + 1 + i;
        for (k = 0; k < n; k++)
            xs[i * STRIDE + 1 + i + k] = (float)tiny_random(&seed) / 8388608.0f - 1.0f;
    }
}

/* The error of a sum in units of what its terms' rounding may give. */
static double dot_error(const float *x, const float *w, int64_t n, float got) {
    double sum = 0, size = 0;
    int64_t k;
    for (k = 0; k < n; k++) {
        sum += (double)x[k] * (double)w[k];
        size += fabs((double)x[k] * (double)w[k]);
    }
    return n ? fabs((double)got - sum) / (size * 6e-8) : fabs((double)got);
}

static void dots(const tfm__kernels *k) {
    double most = 0;
    float four[16], one[16], few[4];
    int64_t n;
    int i, j, same = 1;
    for (n = 0; n <= MOST; n++) {
        fill(n, (unsigned)n + 1);
        k->dots_4x4(x_rows, w_rows, n, four);
        k->dots_1x16(x_rows[1], w_rows, n, one);
        k->dots_1x4(x_rows[1], w_rows, n, few);
        for (i = 0; i < 4; i++)
            for (j = 0; j < 4; j++) {
                double error = dot_error(x_rows[i], w_rows[j], n, four[4 * i + j]);
                if (!(error <= most)) most = error;
            }
        for (j = 0; j < 16; j++) {
            double error = dot_error(x_rows[1], w_rows[j], n, one[j]);
            if (!(error <= most)) most = error;
        }
        /* the shape of the product changes no bit of a sum */
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
            for (j = 0; j < width && p[i] != 0.0f; j++) /* rows of weight 0 stay NaN */
                rows[i * STRIDE + j] = (float)tiny_random(&seed) / 8388608.0f - 1.0f;
        }
        for (j = 0; j < STRIDE; j++) ys[j] = at_once[j] = j < width ? 1.0f : 7.0f;
        k->weighted_sum(at_once, p, rows, STRIDE, 9, width);
        k->weighted_sum(ys, p, rows, STRIDE, 4, width);
        k->weighted_sum(ys, p + 4, rows + 4 * STRIDE, STRIDE, 5, width);
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
    CHECK(clean && same, "nothing written behind; in two parts the same bits");
}

static void exponentials(const tfm__kernels *k) {
    double most = 0, sum, total;
    float x[33], y[33], at = -110, worst_at = 0;
    int64_t i, n;
    int clean = 1;
    for (; at < 88.7f; at += 0.00173f) {
        double expected = exp((double)at), ulp, error;
        for (i = 0; i < 33; i++) x[i] = at;
        k->exp_sum(y, x, 0, 17);
        /* a unit in the last place; below the normal numbers it stays what it is */
        ulp = ldexp(1, (int)fmax(floor(log2(expected)), -126) - 23);
        error = fabs((double)y[16] - expected) / ulp;
        if (!(error <= most)) most = error, worst_at = at;
        clean &= y[0] == y[16];
    }
    CHECK(most <= 2 && clean, "exp of %d numbers: within %.2f ULP, at %g", 114855, most,
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
            if (i % 13 == 4) x[i] = NAN; /* passed over */
            else if (i < n && x[i] > max) max = x[i];
        }
        right &= k->largest(x, n) == max;
        k->scale(y, 0.5f, n);
        for (i = 0; i < 70; i++)
            right &= y[i] == (i < n ? ((float)((i * 37) % 61) - 70) / 2 : 1e9f);
    }
    CHECK(right, "the largest of 0 to 66 numbers, NaN passed over; their halves");
}

/* Products of awkward shapes, whole: every element has the bits of the row alone. */
static void products(void) {
    static const int64_t sizes[] = {1, 2, 3, 4, 5, 7, 16, 17, 31, 64, 65};
    enum { N_SIZES = sizeof sizes / sizeof *sizes, EDGE = 65 };
    static float x[EDGE * EDGE], w[EDGE * EDGE], b[EDGE], y[EDGE * (EDGE + 1)], one[EDGE];
    unsigned seed = 3;
    int64_t i, j, m;
    int a, c, d, same = 1, clean = 1;
    for (i = 0; i < EDGE * EDGE; i++) {
        x[i] = (float)tiny_random(&seed) / 8388608.0f - 1.0f;
        w[i] = (float)tiny_random(&seed) / 8388608.0f - 1.0f;
    }
    for (i = 0; i < EDGE; i++) b[i] = (float)i;
    for (a = 0; a < N_SIZES; a++)
        for (c = 0; c < N_SIZES; c++)
            for (d = 0; d < N_SIZES; d++) {
                int64_t M = sizes[a], N = sizes[c], K = sizes[d];
                const float *bias = (a + c + d) % 2 ? b : NULL;
                for (i = 0; i < M * (N + 1); i++) y[i] = 7;
                tfm__matmul(y, N + 1, x, EDGE, M, w, EDGE, N, K, bias);
                for (m = 0; m < M; m++) {
                    tfm__matmul(one, N, x + m * EDGE, EDGE, 1, w, EDGE, N, K, bias);
                    for (j = 0; j < N; j++) same &= one[j] == y[m * (N + 1) + j];
                    clean &= y[m * (N + 1) + N] == 7;
                }
            }
    CHECK(same, "products of %d shapes: a row has the bits that it has alone",
          N_SIZES * N_SIZES * N_SIZES);
    CHECK(clean, "nothing written behind their rows");
}

int main(void) {
    int i;
    for (i = 0; i < TFM__KERNEL_SETS; i++) {
        const tfm__kernels *k = tfm__kernel_set(i);
        if (!k) {
            printf("  kernel set %d: skipped, not on this machine\n", i);
            test_skipped++;
            continue;
        }
        SECTION(k->name);
        dots(k);
        weighted(k);
        exponentials(k);
        largest_and_scale(k);
    }
    SECTION(tfm_cpu_string());
#ifndef TRANSFORMER_BLAS
    products();
#endif
    return test_done("test_kernels");
}
