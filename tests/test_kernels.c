/* Each kernel set that this machine has against plain loops in double: awkward sizes, padding full
   of NaN, ULPs. */
#ifndef TRANSFORMER_KERNELS
#define TRANSFORMER_KERNELS 4
#endif
static int kernels_wanted = TRANSFORMER_KERNELS; /* each in turn, for a whole model */
#undef TRANSFORMER_KERNELS
#define TRANSFORMER_KERNELS kernels_wanted
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
    int clean = 1, tried = 0;
    for (; at < 88.7f; at += 0.00173f, tried++) {
        double expected = exp((double)at), ulp, error;
        for (i = 0; i < 33; i++) x[i] = at;
        k->exp_sum(y, x, 0, 17);
        /* a unit in the last place; below the normal numbers it stays what it is */
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

/* Numbers in -1 .. 1, NaN behind each row of n. */
static void fill_rows(float *rows, int64_t m, int64_t n, int64_t stride, unsigned *seed) {
    int64_t i, k;
    for (i = 0; i < m * stride; i++) rows[i] = NAN;
    for (i = 0; i < m; i++)
        for (k = 0; k < n; k++) rows[i * stride + k] = (float)tiny_random(seed) / 8388608.0f - 1.0f;
}

/* The integer next to x, ties to even. */
static int nearest(float x) {
    double low = floor((double)x), above = (double)x - low;
    int n = (int)low;
    return above > 0.5 || (above == 0.5 && n % 2 != 0) ? n + 1 : n;
}

/* A token as int8: q = x * (127 / absmax), rounded. Returns its scale. */
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

static void loops(const tfm__kernels *k) {
    static const float weights[64] = {1, 2, 3}, biases[64] = {0.5f, -1, 7};
    float x[80], y[80], z[80];
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
        for (i = 0; i < n; i++) sums &= z[i] == x[i] + y[i];
        for (; i < 80; i++) clean &= z[i] == 3;
        for (i = 0; i < n; i++)
            if (fabsf(x[i]) > most) most = fabsf(x[i]);
        sizes &= k->absmax(x, n) == most;
        k->quantize(bytes, x, 127 / most, 128, n);
        for (i = 0; i < n; i++) {
            float v = x[i] * (127 / most);
            rounded &= bytes[i] == (unsigned char)(nearest(v) + 128);
        }
        if (n < 2 || n > 64) continue;
        memset(&w, 0, sizeof w);
        if (n % 2) w.weight = tfm_tensor_1d((void *)(uintptr_t)weights, TFM_F32, n);
        if (n % 3) w.bias = tfm_tensor_1d((void *)(uintptr_t)biases, TFM_F32, n);
        for (i = 0; i < n; i++) mean += (double)x[i] / (double)n;
        for (i = 0; i < n; i++) square += ((double)x[i] - mean) * ((double)x[i] - mean);
        for (i = 0; i < 80; i++) z[i] = 3;
        k->norm(z, x, n, &w);
        for (i = 0; i < n; i++) {
            double v = ((double)x[i] - mean) / sqrt(square / (double)n + 1e-5);
            if (n % 2) v *= (double)weights[i];
            if (n % 3) v += (double)biases[i];
            v = fabs(v - (double)z[i]);
            if (!(v <= norm_error)) norm_error = v;
        }
        for (; i < 80; i++) clean &= z[i] == 3;
    }
    CHECK(sums && clean, "sums of 1 to 66, nothing written behind");
    CHECK(sizes && rounded, "sizes and bytes of 1 to 66");
    CHECK(norm_error < 2e-6, "norms of 2 to 64: largest difference %.2g", norm_error);
}

/* Of each activation at many places, in units of the last place of |x|, or of the value where that
   is larger: what is lost where a sum cancels is no fault of the kernel's. */
static void activations(const tfm__kernels *k) {
    static const char *const names[] = {"relu", "gelu", "gelu_tanh", "swish", "gelu_sigmoid"};
    int a, i;
    for (a = TFM_RELU; a <= TFM_GELU_SIGMOID; a++) {
        double most = 0;
        float at, x[19];
        int same = 1;
        for (at = -12; at < 12; at += 0.00037f) {
            double v = (double)at, expected = 0, size, error;
            for (i = 0; i < 19; i++) x[i] = at;
            k->activate(x, 18, (tfm_activation)a);
            if (a == TFM_RELU) expected = v < 0 ? 0 : v;
            if (a == TFM_GELU) expected = v / 2 * (1 + erf(v * sqrt(0.5)));
            if (a == TFM_GELU_TANH)
                expected =
                    v / 2 *
                    (1 + tanh(sqrt(2 / 3.14159265358979323846) * (v + 0.044715 * v * v * v)));
            if (a == TFM_SWISH) expected = v / (1 + exp(-v));
            if (a == TFM_GELU_SIGMOID) expected = v / (1 + exp(-1.702 * v));
            size = fmax(fabs(expected), a == TFM_GELU || a == TFM_GELU_TANH ? fabs(v) : 1e-30);
            error = fabs((double)x[17] - expected) /
                    ldexp(1, (int)fmax(floor(log2(size + 1e-30)), -126) - 23);
            /* exp of an argument that was rounded: its error grows with the argument */
            error /= a > TFM_GELU_TANH ? 1 + fabs(v) : 1;
            if (!(error <= most)) most = error;
            same &= x[0] == x[17] && x[18] == at;
        }
        x[0] = NAN, x[1] = -1000, x[2] = 1000;
        k->activate(x, 3, (tfm_activation)a);
        CHECK(most <= 4 && same && isnan(x[0]) && fabsf(x[1]) == 0 && x[2] == 1000,
              "%s: within %.2f ULP", names[a], most);
    }
}

/* A matrix of rows, packed for these kernels as a model's is. */
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
    p.kernels = kernels, p.pool = &h->pool, p.weights = weights, p.err = &err;
    p.scratch = test_memory((size_t)tfm__pack_scratch(columns) * sizeof(float));
    for (i = 0; i < rows * columns; i++) { /* as a file has them */
        uint32_t bits;
        memcpy(&bits, data + i, 4);
        little[4 * i] = (unsigned char)bits, little[4 * i + 1] = (unsigned char)(bits >> 8);
        little[4 * i + 2] = (unsigned char)(bits >> 16);
        little[4 * i + 3] = (unsigned char)(bits >> 24);
    }
    h->linear.w.dtype = TFM_F32, h->linear.w.rows = rows, h->linear.w.columns = columns;
    h->linear.w.data = little;
    must(tfm__pack(&p, &h->linear.w));
}

/* One product by the kernels, on rows of x between NaN. y: [M, N + 1], 7 where nothing belongs. */
static void multiply(const tfm__kernels *kernels, const tfm__linear *linear, float *y,
                     const float *x, int64_t x_stride, int64_t M, int64_t first, int64_t N) {
    tfm__rows from = tfm__rows_make((float *)(uintptr_t)x, 1, M, linear->w.columns);
    tfm__rows to = tfm__rows_make(y, 1, M, N);
    tfm__product p;
    int64_t i;
    from.sl = x_stride, to.sl = N + 1;
    for (i = 0; i < M * (N + 1); i++) y[i] = 7;
    p = tfm__product_of(&to, &from, linear);
    p.first = first;
    tfm__multiply_packed(kernels, &p);
}

/* Products with matrices of each type, of awkward shapes. */
static void products(const tfm__kernels *kernels) {
    static const int64_t ms[] = {1, 2, 3, 4, 5, 6, 7, 12, 13, 23, 147};
    static const int64_t ns[] = {1, 15, 16, 17, 65}, ks[] = {1, 3, 4, 17, 512, 517, 2052};
    enum { MOST_M = 147, MOST_N = 65, MOST_K = 2052, X_STRIDE = MOST_K + 3 };
    static float x[MOST_M * X_STRIDE], w[MOST_N * MOST_K], bias[MOST_N];
    static float y[MOST_M * (MOST_N + 1)], one[MOST_N + 1], rows[MOST_N * MOST_K];
    static int xb[MOST_K];
    int type, a, b, c;
    for (type = TFM_WEIGHTS_F32; type <= TFM_WEIGHTS_I8; type++) {
        static const char *const names[] = {"", "f32", "f16", "bf16", "i8"};
        double most = 0;
        int same = 1, clean = 1, exact = 1;
        unsigned seed = 3;
        for (b = 0; b < 5; b++)
            for (c = 0; c < 7; c++) {
                int64_t N = ns[b], K = ks[c], first = N > 16 ? 16 : 0, m, n, k;
                held h;
                fill_rows(x, MOST_M, K, X_STRIDE, &seed);
                fill_rows(w, N, K, K, &seed);
                fill_rows(bias, 1, N, N, &seed);
                pack(&h, kernels, w, (tfm_weight_type)type, N, K);
                for (n = 0; n < N; n++) tfm__unpack_row(&h.linear.w, n, rows + n * K);
                for (a = 0; a < 11; a++) {
                    int64_t M = ms[a];
                    const float *some = (a + b + c) % 2 ? bias : NULL;
                    h.linear.bias = some;
                    multiply(kernels, &h.linear, y, x, X_STRIDE, M, 0, N);
                    for (m = 0; m < M; m++) clean &= y[m * (N + 1) + N] == 7;
                    /* a row alone, and its later columns alone, as threads take them */
                    for (m = 0; m < M; m += 1 + M / 5) {
                        multiply(kernels, &h.linear, one, x + m * X_STRIDE, X_STRIDE, 1, 0, N);
                        same &= memcmp(one, y + m * (N + 1), (size_t)N * sizeof *one) == 0;
                        multiply(kernels, &h.linear, one, x + m * X_STRIDE, X_STRIDE, 1, first,
                                 N - first);
                        same &= memcmp(one, y + m * (N + 1) + first,
                                       (size_t)(N - first) * sizeof *one) == 0;
                    }
                    /* the last row against its sums in double, of int8 against integers */
                    m = M - 1;
                    for (n = 0; n < N; n++) {
                        const float *xm = x + m * X_STRIDE;
                        double sum = some ? (double)some[n] : 0, size = fabs(sum), error;
                        float scale = 0, v = 0;
                        if (type == TFM_WEIGHTS_I8) scale = quantized(xb, xm, K);
                        if (type == TFM_WEIGHTS_I8) {
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
                /* what was kept is the nearest of its type */
                for (k = 0; k < N * K; k++) {
                    double off = fabs((double)rows[k] - (double)w[k]), size = fabs((double)w[k]);
                    clean &= type == TFM_WEIGHTS_F32    ? off == 0
                             : type == TFM_WEIGHTS_F16  ? off <= fmax(size / 2048, 3e-8)
                             : type == TFM_WEIGHTS_BF16 ? off <= size / 256
                                                        : off <= 0.502 / 127;
                }
                tfm__pool_free(&h.pool);
            }
        CHECK(same, "%s: a row has the bits that it has alone, and in parts", names[type]);
        CHECK(clean, "%s: weights as near as can be, nothing written behind", names[type]);
        CHECK(exact && most < (type == TFM_WEIGHTS_I8 ? 2e-2 : 1e-6),
              "%s: products of %d shapes: largest error %.2g of the sum of sizes%s", names[type],
              11 * 5 * 7, most, type == TFM_WEIGHTS_I8 ? ", sums of bytes exact" : "");
    }
}

/* Each tile of each element type against the plain one: what is left after whole vectors, sums that
   begin and that go on, with a bias and without. */
static void tiles(const tfm__kernels *kernels) {
    enum { ROWS = (int)TFM__MOST_PANELS * (int)TFM__PANEL, MOST_K = 512, Y_STRIDE = ROWS + 8 };
    static const int64_t ks[] = {1, 2, 3, 4, 5, 63, MOST_K};
    static float w[ROWS * MOST_K], block[TFM__X_ROWS * TFM__X_STRIDE / 4];
    static float s8[TFM__X_ROWS * TFM__X_STRIDE / 4];
    static float y[(int)TFM__X_ROWS * Y_STRIDE], expected[(int)TFM__X_ROWS * Y_STRIDE];
    float bias[ROWS], scales[TFM__X_ROWS];
    int type, c, form, i, r;
    for (type = TFM_WEIGHTS_F32; type <= TFM_WEIGHTS_I8; type++) {
        const tfm__tiling *tiling = kernels->tiles[type];
        double most = 0;
        int same = 1, clean = 1, n = 0;
        unsigned seed = 7;
        for (; tiling; tiling = tiling->rows > 1 ? tiling + 1 : NULL)
            for (c = 0; c < 7; c++) {
                int64_t K = ks[c], k;
                held h;
                tfm__tile t;
                fill_rows(w, ROWS, K, K, &seed);
                pack(&h, kernels, w, (tfm_weight_type)type, ROWS, K);
                fill_rows(bias, 1, ROWS, ROWS, &seed);
                fill_rows(scales, 1, TFM__X_ROWS, TFM__X_ROWS, &seed);
                fill_rows(block, TFM__X_ROWS, K, TFM__X_STRIDE / 4, &seed);
                memcpy(s8, block, sizeof block);
                for (r = 0; r < TFM__X_ROWS && type == TFM_WEIGHTS_I8; r++)
                    for (k = 0; k < (K + 3) / 4 * 4; k++) { /* behind K anything may stand */
                        int q = (int)(tiny_random(&seed) % 255) - 127;
                        ((signed char *)s8)[r * TFM__X_STRIDE + k] = (signed char)q;
                        ((unsigned char *)block)[r * TFM__X_STRIDE + k] =
                            (unsigned char)(q + kernels->zero_point);
                    }
                for (form = 0; form < 4; form++, n++) {
                    fill_rows(y, TFM__X_ROWS, ROWS, Y_STRIDE, &seed);
                    memcpy(expected, y, sizeof y);
                    memset(&t, 0, sizeof t);
                    for (i = 0; i < TFM__MOST_PANELS; i++) t.w[i] = tfm__panel(&h.linear.w, i, 0);
                    t.x = s8, t.K = K, t.y = expected, t.y_stride = Y_STRIDE, t.begins = form & 1;
                    t.bias = form & 2 ? bias : NULL;
                    t.x_scales = scales, t.w_scales = h.linear.w.scales;
                    t.ahead = t.w[0], t.block_sums = h.linear.w.block_sums;
                    if (type == TFM_WEIGHTS_I8)
                        tfm__plain_tile_int8(&t, tiling->rows, tiling->panels);
                    else tfm__plain_tile(&t, (tfm_weight_type)type, tiling->rows, tiling->panels);
                    t.x = block, t.y = y;
                    tiling->run(&t);
                    same &= memcmp(y, expected, sizeof y) == 0;
                    for (i = 0; i < (int)TFM__X_ROWS * Y_STRIDE; i++) {
                        double off = fabs((double)y[i] - (double)expected[i]);
                        if (isnan(expected[i])) clean &= isnan(y[i]) != 0;
                        else if (!(off <= most * (double)(K + 2))) most = off / (double)(K + 2);
                    }
                }
                tfm__pool_free(&h.pool);
            }
        if (!n) continue;
        CHECK(clean && (type == TFM_WEIGHTS_I8 ? same : most < 2.4e-7),
              "%s: %d tiles as the plain one, %s%.2g off for each term", tfm__types[type].name, n,
              same ? "to the bit: " : "", most);
    }
}

/* ---- attention ---- */

/* Whether a query may not see a key. */
static int hidden(const tfm__attention *a, int64_t b, int64_t h, int64_t t, int64_t s) {
    const tfm_masks *m = a->masks;
    const unsigned char *pads = (const unsigned char *)m->key_padding.data;
    const unsigned char *mask = (const unsigned char *)m->attention.data;
    int64_t kv = a->kv_rows ? a->kv_rows[b] : b, block = 0;
    if (m->attention.rank == 3) block = m->attention.dims[0] == a->B ? b : b * a->H + h;
    return (m->key_lengths && s >= m->key_lengths[kv]) || (m->causal && s > a->first + t) ||
           (pads && pads[kv * a->S + s]) || (mask && mask[(block * a->T + t) * a->S + s]);
}

/* The definition: weights = softmax over the keys that are seen of scale * q . k, 0 where none is;
   context = the sum of the values by these weights. Of one query of one head of one row. */
static void attention(const tfm__attention *a, int64_t b, int64_t h, int64_t t, double *weights,
                      double *context) {
    const float *q = a->q + b * a->q_strides[0] + h * a->q_strides[1] + t * a->q_strides[2];
    double sum = 0;
    int64_t s, i;
    for (i = 0; i < a->W; i++) context[i] = 0;
    for (s = 0; s < a->S; s++) {
        int64_t kv = a->kv_rows ? a->kv_rows[b] : b;
        int64_t row = a->ancestry ? a->ancestry[b * a->ancestry_stride + s] : kv;
        const float *k = a->k + row * a->k_strides[0] + h * a->k_strides[1] + s * a->k_strides[2];
        const float *v = a->v + row * a->v_strides[0] + h * a->v_strides[1] + s * a->v_strides[2];
        double score = 0;
        for (i = 0; i < a->K; i++) score += (double)q[i] * (double)k[i];
        weights[s] = hidden(a, b, h, t, s) ? 0 : exp((double)a->scale * score);
        sum += weights[s];
        for (i = 0; weights[s] > 0 && i < a->W; i++) context[i] += weights[s] * (double)v[i];
    }
    for (s = 0; sum > 0 && s < a->S; s++) weights[s] /= sum;
    for (i = 0; sum > 0 && i < a->W; i++) context[i] /= sum;
}

/* Both loops against it, with every kind of mask, alone and together. */
static void attentions(const tfm__kernels *kernels) {
    enum { B = 2, H = 3, T = 27, S = 21, K = 5, W = 19, ALL = B * H * T * S };
    static const int32_t lengths[B] = {S, 9}, rows[B] = {1, 0};
    static float q[B * H * T * K], k[B * H * S * K], v[B * H * S * W], context[B * H * T * W];
    static float weights[ALL], scratch[(S + 16) * (24 + K + W + 16)];
    static unsigned char pads[B * S], mask[ALL];
    int32_t ancestry[B * S];
    double most[2] = {0, 0}, expected[S], values[W];
    int kind, tiled, compared[2] = {0, 0}, empty = 0, i;
    unsigned seed = 29;
    fill_rows(q, 1, B * H * T * K, B * H * T * K, &seed);
    fill_rows(k, 1, B * H * S * K, B * H * S * K, &seed);
    fill_rows(v, 1, B * H * S * W, B * H * S * W, &seed);
    for (i = 0; i < B * S; i++) ancestry[i] = (int32_t)(tiny_random(&seed) % B);
    for (i = 0; i < B * S; i++) pads[i] = tiny_random(&seed) % 4 == 0;
    for (i = 0; i < ALL; i++) mask[i] = tiny_random(&seed) % 3 == 0 || i / S % T == 3;
    /* lengths, causal, pads, three shapes of attention mask; other rows, ancestries of a cache */
    for (kind = 0; kind < 2 * 2 * 2 * 4 * 3; kind++)
        for (tiled = 0; tiled < 2; tiled++) {
            int64_t b, h, t, s;
            int shape = kind / 8 % 4, from = kind / 32;
            tfm_masks m;
            tfm__attention a;
            memset(&m, 0, sizeof m);
            memset(&a, 0, sizeof a);
            if (kind & 1) m.key_lengths = lengths;
            m.causal = kind >> 1 & 1;
            if (kind & 4) m.key_padding = tfm_tensor_2d(pads, TFM_BOOL, B, S);
            if (shape == 1) m.attention = tfm_tensor_2d(mask, TFM_BOOL, T, S);
            if (shape > 1)
                m.attention = tfm_tensor_3d(mask, TFM_BOOL, shape == 2 ? B : B * H, T, S);
            if (tiled && (m.causal || from)) continue; /* for which tiles are never used */
            a.q = q, a.k = k, a.v = v, a.context = context, a.weights = weights;
            a.B = B, a.H = H, a.T = T, a.S = S, a.K = K, a.W = W;
            a.q_strides[0] = H * T * K, a.q_strides[1] = T * K, a.q_strides[2] = K;
            a.k_strides[0] = H * S * K, a.k_strides[1] = S * K, a.k_strides[2] = K;
            a.v_strides[0] = H * S * W, a.v_strides[1] = S * W, a.v_strides[2] = W;
            a.context_strides[0] = H * T * W, a.context_strides[1] = T * W;
            a.weight_strides[0] = H * T * S, a.weight_strides[1] = T * S;
            a.context_strides[2] = W, a.weight_strides[2] = S;
            a.scale = 1.7f, a.masks = &m, a.first = m.causal ? 2 : 0;
            if (from == 1) a.kv_rows = rows;
            if (from == 2) a.ancestry = ancestry, a.ancestry_stride = S;
            for (i = 0; i < ALL; i++) weights[i] = NAN;
            for (i = 0; i < B * H * T * W; i++) context[i] = NAN;
            for (b = 0; b < B; b++)
                for (h = 0; h < H; h++) {
                    for (i = 0; i < (int)(sizeof scratch / sizeof *scratch); i++) scratch[i] = NAN;
                    if (tiled) tfm__attend_tiles(&a, kernels, b, h, scratch);
                    else tfm__attend_head(&a, kernels, b, h, scratch);
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
    CHECK(most[0] < 1e-6 && most[1] < 1e-6 && empty > 0,
          "%d queries one by one, %.2g off the definition; %d in tiles, %.2g off; %d see nothing",
          compared[0], most[0], compared[1], most[1], empty);
}

/* A whole model, loaded and run by each set. */
static void whole_model(void) {
    static const int32_t ids[] = {3, 4, 5, 6, 7, 8, 9, 10}, lengths[] = {4, 2, 3, 1};
    tfm_batch src = tiny_batch(ids, lengths, 2, 4), tgt = tiny_batch(ids + 1, lengths + 2, 2, 3);
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
        t.config = ", \"start\": 1, \"end\": 2, \"activation\": \"gelu\"";
        model = tiny_model(t), s = tiny_session(model, 2, 4, 4);
        logits = test_like(tfm_tensor_3d(NULL, TFM_F32, 2, 3, 13));
        must(tfm_forward(s, &src, &tgt, NULL, &logits, &err));
        if (!i) expected = logits;
        CHECK(test_difference(&logits, &expected) < 1e-5, "%s: largest difference %.2g",
              tfm_cpu_string(), test_difference(&logits, &expected));
        tfm_session_free(s), tfm_model_free(model);
    }
    kernels_wanted = wanted;
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
        loops(k);
        activations(k);
#ifndef TRANSFORMER_BLAS /* which decides by itself */
        products(k);
#endif
        tiles(k);
        attentions(k);
    }
    whole_model();
    printf("  here: %s\n", tfm_cpu_string());
    return test_done("test_kernels");
}
