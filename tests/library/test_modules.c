/* Compares every module with golden data (PyTorch's numbers; tests/data/README.md says how they
   were made), and tests the error paths of the module functions. */
#include "transformer.h"
#include "test.h"
#include <ctype.h>

enum { SCRATCH = 8 << 20 };
static unsigned char *scratch_memory; /* at a multiple of 64, as in an arena */
static tfm_arena scratch;
static tfm_error err;

static void must(tfm_status status) { CHECK_OK(status, &err); }

#define MODULE_LIMIT 1e-5

/* The call must succeed, and its output must agree with the golden tensor. */
static void compare(const char *what, tfm_status status, const tfm_tensor *got,
                    const tfm_tensor *expected) {
    double d = status == TFM_OK ? test_difference(got, expected) : INFINITY;
    CHECK(d <= MODULE_LIMIT, "%-44s largest difference %.2g%s%s", what, d,
          status == TFM_OK ? "" : ": ", status == TFM_OK ? "" : err.text);
}

/* ---- positions ---- */

static void golden_positions(const char *name, tfm_position_kind kind) {
    tfm_safetensors *file = test_open(name);
    tfm_tensor expected = test_get(file, "expect.pe"), out = test_like(expected), tail;
    tfm_position_options o;
    memset(&o, 0, sizeof o);
    o.kind = kind;
    compare(name, tfm_positions(&out, &o, NULL, &err), &out, &expected);
    /* the same rows, computed from an offset on */
    o.first = 7;
    tail = expected;
    tail.dims[0] -= 7;
    tail.data = (float *)tail.data + 7 * tail.strides[0];
    out = test_like(tail);
    compare("  from position 7 on", tfm_positions(&out, &o, NULL, &err), &out, &tail);
    tfm_safetensors_free(file);
}

/* Rows behind a text's length are zeros. */
static void pad_rows(void) {
    tfm_safetensors *file = test_open("pe_pad_row.safetensors");
    tfm_tensor expected = test_get(file, "expect.pe"), lengths = test_get(file, "input.lengths");
    tfm_tensor out = test_like(expected);
    tfm_position_options o;
    memset(&o, 0, sizeof o);
    o.double_angles = 1;
    compare("pe_pad_row.safetensors, zero rows for pads",
            tfm_positions(&out, &o, (int32_t *)lengths.data, &err), &out, &expected);
    tfm_safetensors_free(file);
}

static void positions(void) {
    tfm_tensor out, table;
    tfm_position_options o;
    float row[6];
    int64_t i;
    double most = 0;
    SECTION("positions");
    golden_positions("pe_interleaved_20.safetensors", TFM_POSITION_KIND_SINUSOIDAL);
    golden_positions("pe_interleaved_36.safetensors", TFM_POSITION_KIND_SINUSOIDAL);
    golden_positions("pe_per_index_20.safetensors", TFM_POSITION_KIND_SINUSOIDAL_PER_INDEX);
    golden_positions("pe_per_index_36.safetensors", TFM_POSITION_KIND_SINUSOIDAL_PER_INDEX);
    pad_rows();

    /* halves: the columns of the interleaved form, regrouped; and fairseq's divisor by its
       formula */
    memset(&o, 0, sizeof o);
    o.kind = TFM_POSITION_KIND_SINUSOIDAL_HALVES;
    o.first = 41;
    out = tfm_tensor_2d(row, TFM_DTYPE_F32, 1, 6);
    CHECK(tfm_positions(&out, &o, NULL, &err) == TFM_OK, "");
    for (i = 0; i < 3; i++) {
        double angle = 41 / pow(10000, 2.0 * (double)i / 6);
        most = test_max(most, fabs((double)row[i] - sin(angle)));
        most = test_max(most, fabs((double)row[i + 3] - cos(angle)));
    }
    CHECK(most < 1e-6, "halves, divisor D, by the formula              largest difference %.2g",
          most);
    o.divisor_half = 1;
    CHECK(tfm_positions(&out, &o, NULL, &err) == TFM_OK, "");
    for (i = 0, most = 0; i < 3; i++) {
        double angle = 41 * exp(-(double)i * log(10000) / 2);
        most = test_max(most, fabs((double)row[i] - sin(angle)));
        most = test_max(most, fabs((double)row[i + 3] - cos(angle)));
    }
    CHECK(most < 1e-6, "halves, divisor D/2 - 1, by the formula        largest difference %.2g",
          most);
    out = tfm_tensor_2d(row, TFM_DTYPE_F32, 1, 5);
    CHECK(tfm_positions(&out, &o, NULL, &err) == TFM_OK && row[4] == 0.0f,
          "halves, odd width: the last column is zero");

    /* Positions have no limit of 5,000. */
    memset(&o, 0, sizeof o);
    o.first = 123456789;
    o.double_angles = 1;
    out = tfm_tensor_2d(row, TFM_DTYPE_F32, 1, 6);
    CHECK(tfm_positions(&out, &o, NULL, &err) == TFM_OK &&
              fabs((double)row[0] - sin(123456789.0)) < 1e-6 &&
              fabs((double)row[3] - cos(123456789 / pow(10000, 2.0 / 6))) < 1e-6,
          "position 123,456,789");

    table = test_like(tfm_tensor_2d(NULL, TFM_DTYPE_F32, 10, 6));
    for (i = 0; i < 60; i++) ((float *)table.data)[i] = (float)i;
    memset(&o, 0, sizeof o);
    o.kind = TFM_POSITION_KIND_LEARNED, o.table = table, o.first = 9;
    CHECK(tfm_positions(&out, &o, NULL, &err) == TFM_OK && row[0] == 54.0f && row[5] == 59.0f,
          "learned, the last row");
    o.first = 10;
    CHECK_FAILS(tfm_positions(&out, &o, NULL, &err), TFM_E_TOO_LONG, "11 positions needed");
}

/* ---- norm, linear, softmax, feed-forward ---- */

static void norms(void) {
    tfm_safetensors *file = test_open("layer_norm.safetensors");
    tfm_tensor x = test_get(file, "input.x"), expected = test_get(file, "expect.y");
    tfm_tensor out = test_like(x), plain;
    tfm_norm_weights w;
    int64_t i;
    double worst = 0;
    SECTION("layer norm");
    memset(&w, 0, sizeof w);
    w.weight = test_get(file, "input.gamma"), w.bias = test_get(file, "input.beta");
    compare("PyTorch's", tfm_layer_norm(&out, &x, &w, &err), &out, &expected);
    /* Divides the golden output by the weight and subtracts the bias. */
    plain = test_like(x);
    CHECK(tfm_layer_norm(&plain, &x, NULL, &err) == TFM_OK, "");
    for (i = 0; i < test_count(&x); i++) {
        float back = ((float *)plain.data)[i] * ((float *)w.weight.data)[i % 48] +
                     ((float *)w.bias.data)[i % 48];
        worst = test_max(worst, fabs((double)back - (double)((float *)expected.data)[i]));
    }
    CHECK(worst <= MODULE_LIMIT,
          "without weight and bias                       largest difference %.2g", worst);
    tfm_safetensors_free(file);
    file = test_open("layer_norm_std.safetensors");
    expected = test_get(file, "expect.y");
    w.kind = TFM_NORM_KIND_LAYER_NORM_UNBIASED;
    compare("unbiased deviation, eps outside", tfm_layer_norm(&out, &x, &w, &err), &out, &expected);
    compare("  in place", tfm_layer_norm(&x, &x, &w, &err), &x, &expected);
    w.weight.dims[0] = 47;
    CHECK_FAILS(tfm_layer_norm(&out, &x, &w, &err), TFM_E_SHAPE,
                "norm.weight is [47], expected [48]");
    tfm_safetensors_free(file);
}

static float at(const tfm_tensor *t, int64_t i) { return ((float *)t->data)[i]; }

/* Fills an array with a fixed pattern of unit scale. */
static tfm_tensor pattern(int rank, int64_t d0, int64_t d1, int64_t d2, unsigned seed) {
    int64_t dims[3], i;
    tfm_tensor t;
    dims[0] = d0, dims[1] = d1, dims[2] = d2;
    t = test_like(tfm_tensor_make(NULL, TFM_DTYPE_F32, rank, dims));
    for (i = 0; i < test_count(&t); i++) {
        seed = seed * 1664525u + 1013904223u;
        ((float *)t.data)[i] = (float)(seed >> 8) / 8388608.0f - 1.0f;
    }
    return t;
}

/* The rows of the input, of the output, or of both are apart: [L, B, D] taken as [B, L, D]. */
static void norms_apart(void) {
    int i, apart;
    int64_t b, l, d, D = 7;
    tfm_tensor x = pattern(3, 3, 4, D, 11), expected = test_like(x);
    SECTION("layer norm of rows that are apart");
    CHECK(tfm_layer_norm(&expected, &x, NULL, &err) == TFM_OK, "");
    for (apart = 1; apart < 4; apart++) {
        tfm_tensor views[2]; /* x, out */
        for (i = 0; i < 2; i++) {
            int is_apart = apart >> i & 1;
            views[i] = pattern(3, is_apart ? 4 : 3, is_apart ? 3 : 4, D, 12);
            if (is_apart) views[i] = tfm_tensor_swap(views[i], 0, 1);
        }
        for (b = 0; b < 3; b++)
            for (l = 0; l < 4; l++)
                memcpy((float *)views[0].data + b * views[0].strides[0] + l * views[0].strides[1],
                       (float *)x.data + (b * 4 + l) * D, (size_t)D * sizeof(float));
        CHECK(tfm_layer_norm(&views[1], &views[0], NULL, &err) == TFM_OK, "");
        for (i = 0, b = 0; b < 3; b++)
            for (l = 0; l < 4; l++)
                for (d = 0; d < D; d++)
                    i += ((float *)views[1]
                              .data)[b * views[1].strides[0] + l * views[1].strides[1] + d] !=
                         ((float *)expected.data)[(b * 4 + l) * D + d];
        CHECK(!i, "%s: %d of %d numbers differ from those of adjacent rows",
              apart == 1   ? "the input's"
              : apart == 2 ? "the output's"
                           : "both",
              i, (int)(12 * D));
    }
}

static void linears(void) {
    char says[80];
    static const int64_t sizes[] = {1, 2, 3, 5, 15, 16, 17, 31, 67};
    tfm_tensor x, out, y;
    tfm_linear_weights w;
    double worst = 0;
    size_t a, b;
    int64_t m, n, k, M = 5;
    SECTION("linear and softmax");
    for (a = 0; a < sizeof sizes / sizeof *sizes; a++)
        for (b = 0; b < sizeof sizes / sizeof *sizes; b++) {
            int64_t K = sizes[a], N = sizes[b];
            x = pattern(2, M, K, 0, 1), w.weight = pattern(2, N, K, 0, 2);
            w.bias = pattern(1, N, 0, 0, 3);
            out = test_like(tfm_tensor_2d(NULL, TFM_DTYPE_F32, M, N));
            if (tfm_linear(&out, &x, &w, &err) != TFM_OK) worst = INFINITY;
            for (m = 0; m < M; m++)
                for (n = 0; n < N; n++) {
                    double sum = (double)at(&w.bias, n);
                    for (k = 0; k < K; k++)
                        sum += (double)at(&x, m * K + k) * (double)at(&w.weight, n * K + k);
                    worst = test_max(worst, fabs(sum - (double)at(&out, m * N + n)));
                }
        }
    CHECK(worst < MODULE_LIMIT,
          "81 shapes against sums in double              largest difference %.2g", worst);
    memset(&w.bias, 0, sizeof w.bias);
    CHECK(tfm_linear(&out, &x, &w, &err) == TFM_OK, "");
    w.weight.dims[1]--;
    CHECK_FAILS(tfm_linear(&out, &x, &w, &err), TFM_E_SHAPE, "linear.weight is [67, 66]");
    x.dtype = TFM_DTYPE_F16;
    CHECK_FAILS(tfm_linear(&out, &x, &w, &err), TFM_E_DTYPE, "x is F16, expected F32");

    x = pattern(2, 3, 67, 0, 9), out = test_like(x), y = x;
    ((float *)x.data)[70] =
        300.0f; /* exp would overflow if softmax did not subtract the maximum. */
    CHECK(tfm_softmax(&out, &x, &err) == TFM_OK, "");
    for (m = 0, worst = 0; m < 3; m++) {
        double sum = 0, max = -1e30;
        for (k = 0; k < 67; k++) max = test_max(max, (double)at(&y, m * 67 + k));
        for (k = 0; k < 67; k++) sum += exp((double)at(&y, m * 67 + k) - max);
        for (k = 0; k < 67; k++)
            worst = test_max(worst, fabs(exp((double)at(&y, m * 67 + k) - max) / sum -
                                         (double)at(&out, m * 67 + k)));
    }
    CHECK(worst < 1e-6, "softmax against double                        largest difference %.2g",
          worst);
    for (m = 0, worst = 0; m < TFM_ACTIVATION_COUNT; m++) {
        tfm_tensor strided = tfm_tensor_swap(y, 0, 1);
        CHECK(tfm_activate(&out, &y, (tfm_activation)m, &err) == TFM_OK, "");
        for (k = 0; k < 3 * 67; k++)
            worst = test_max(worst, fabs((double)at(&out, k) -
                                         test_activation((tfm_activation)m, (double)at(&y, k))));
        x = test_like(y), memcpy(x.data, y.data, 3 * 67 * sizeof(float));
        CHECK(tfm_activate(&x, &x, (tfm_activation)m, &err) == TFM_OK &&
                  memcmp(x.data, out.data, 3 * 67 * sizeof(float)) == 0,
              "");
        x = test_like(out), x = tfm_tensor_swap(x, 0, 1);
        CHECK(tfm_activate(&x, &strided, (tfm_activation)m, &err) == TFM_OK &&
                  memcmp(x.data, out.data, 3 * 67 * sizeof(float)) == 0,
              "");
    }
    CHECK(worst < 2e-6,
          "activations against double, in place, with strides   largest difference %.2g", worst);
    snprintf(says, sizeof says, "activation is %d, expected TFM_ACTIVATION_RELU, TFM_",
             (int)TFM_ACTIVATION_COUNT);
    CHECK_FAILS(tfm_activate(&out, &y, TFM_ACTIVATION_COUNT, &err), TFM_E_ARGUMENT, says);
    for (m = 0; m < (int)TFM_ACTIVATION_COUNT; m++) {
        char *c = says + snprintf(says, sizeof says, "TFM_ACTIVATION_");
        snprintf(c, (size_t)(says + sizeof says - c), "%s", tfm_activation_name((tfm_activation)m));
        for (; *c; c++) *c = (char)toupper((unsigned char)*c);
        CHECK(strstr(err.text, says) != NULL, "");
    }
    CHECK(strstr(err.text, " or TFM_ACTIVATION_") != NULL, "all of them: %s", err.text);
}

static void feed_forwards(void) {
    tfm_tensor x = pattern(3, 2, 3, 20, 5), out = test_like(x);
    tfm_ffn_weights w;
    tfm_arena measure = tfm_arena_measuring(), tight;
    int64_t r, f, d;
    int kind, bias;
    SECTION("feed-forward");
    memset(&w, 0, sizeof w);
    w.linear1.weight = pattern(2, 37, 20, 0, 6), w.linear2.weight = pattern(2, 20, 37, 0, 7);
    for (bias = 0; bias < 2; bias++)
        for (kind = 0; kind < TFM_ACTIVATION_COUNT; kind++) {
            double worst = 0;
            w.activation = (tfm_activation)kind;
            if (bias)
                w.linear1.bias = pattern(1, 37, 0, 0, 8), w.linear2.bias = pattern(1, 20, 0, 0, 9);
            if (tfm_feed_forward(&out, &x, &w, &scratch, &err) != TFM_OK) worst = INFINITY;
            for (r = 0; r < 6; r++)
                for (d = 0; d < 20; d++) {
                    double sum = bias ? (double)at(&w.linear2.bias, d) : 0;
                    for (f = 0; f < 37; f++) {
                        double h = bias ? (double)at(&w.linear1.bias, f) : 0;
                        int64_t k;
                        for (k = 0; k < 20; k++)
                            h += (double)at(&x, r * 20 + k) *
                                 (double)at(&w.linear1.weight, f * 20 + k);
                        sum += test_activation(w.activation, h) *
                               (double)at(&w.linear2.weight, d * 37 + f);
                    }
                    worst = test_max(worst, fabs(sum - (double)at(&out, r * 20 + d)));
                }
            CHECK(worst < MODULE_LIMIT,
                  "%-10s %s biases, by the formula         largest difference %.2g",
                  tfm_activation_name((tfm_activation)kind), bias ? "with" : "no  ", worst);
        }
    CHECK(tfm_feed_forward(&out, &x, &w, &measure, &err) == TFM_OK, "");
    CHECK(measure.peak >= 6 * 37 * 4, "a measuring arena: %d bytes", (int)measure.peak);
    tight = tfm_arena_make(scratch_memory + 1, measure.peak);
    CHECK(tfm_feed_forward(&out, &x, &w, &tight, &err) == TFM_OK,
          "that size suffices at any alignment");
    tight = tfm_arena_make(scratch_memory, 6 * 37 * 4 - 1);
    CHECK_FAILS(tfm_feed_forward(&out, &x, &w, &tight, &err), TFM_E_ARENA, "are needed");
    CHECK(tight.used == 0, "a failed call gives its scratch back");
}

/* ---- attention ---- */

static void scaled_dot_product(const char *name, double scale) {
    tfm_safetensors *file = test_open(name);
    tfm_tensor q = test_get(file, "input.q"), k = test_get(file, "input.k");
    tfm_tensor v = test_get(file, "input.v"), context = test_get(file, "expect.context");
    tfm_tensor weights = test_get(file, "expect.weights"), got = test_like(context);
    tfm_tensor got_weights = test_like(weights);
    tfm_masks masks;
    tfm_status status;
    int64_t i;
    int zero = 1;
    memset(&masks, 0, sizeof masks);
    masks.attention = test_get(file, "input.mask");
    status = test_dot_product(&got, &got_weights, &q, &k, &v, scale, &masks, &scratch, &err);
    compare(name, status, &got, &context);
    compare("  weights", status, &got_weights, &weights);
    /* The first query of the first row sees no key at all. */
    memset(masks.attention.data, 1, (size_t)masks.attention.dims[2]);
    status = test_dot_product(&got, &got_weights, &q, &k, &v, scale, &masks, &scratch, &err);
    for (i = 0; i < got.dims[2]; i++) zero &= at(&got, i) == 0.0f;
    for (i = 0; i < got_weights.dims[2]; i++) zero &= at(&got_weights, i) == 0.0f;
    CHECK(status == TFM_OK && zero, "  a query with no key left gets zeros");
    tfm_safetensors_free(file);
}

/* [B, H, T, K] tensors: each head must have the bits that it has as a [B, T, K] tensor. The heads
   of a row are side by side, as projections write them, so the views need strides and no copies. */
static void heads_by_strides(void) {
    enum { B = 2, H = 3, T = 4, S = 6, K = 5 };
    tfm_tensor q = pattern(3, B, T, H * K, 21), k = pattern(3, B, S, H * K, 22);
    tfm_tensor v = pattern(3, B, S, H * K, 23), context = test_like(q), context4;
    tfm_tensor weights = test_like(tfm_tensor_4d(NULL, TFM_DTYPE_F32, B, H, T, S));
    tfm_tensor one = test_like(tfm_tensor_3d(NULL, TFM_DTYPE_F32, B, T, K));
    tfm_tensor one_weights = test_like(tfm_tensor_3d(NULL, TFM_DTYPE_F32, B, T, S));
    tfm_tensor in[3], part[3];
    tfm_masks masks, part_masks;
    int i, h, b, t, same = 1;
    memset(&masks, 0, sizeof masks);
    masks.attention = tfm_tensor_3d(test_memory(B * H * T * S), TFM_DTYPE_BOOL, B * H, T, S);
    for (i = 0; i < B * H * T * S; i += 3) ((unsigned char *)masks.attention.data)[i] = 1;
    in[0] = q, in[1] = k, in[2] = v;
    context4 = tfm_tensor_swap(tfm_tensor_4d(context.data, TFM_DTYPE_F32, B, T, H, K), 1, 2);
    for (i = 0; i < 3; i++)
        part[i] =
            tfm_tensor_swap(tfm_tensor_4d(in[i].data, TFM_DTYPE_F32, B, in[i].dims[1], H, K), 1, 2);
    CHECK(test_dot_product(&context4, &weights, &part[0], &part[1], &part[2], 0, &masks, &scratch,
                           &err) == TFM_OK,
          "%s", err.text);
    for (h = 0; h < H; h++) {
        part_masks = masks;
        part_masks.attention.dims[0] = B;
        part_masks.attention.strides[0] *= H;
        part_masks.attention.data = (unsigned char *)masks.attention.data + h * T * S;
        for (i = 0; i < 3; i++) {
            part[i] = in[i];
            part[i].dims[2] = K;
            part[i].data = (float *)in[i].data + h * K;
        }
        CHECK(test_dot_product(&one, &one_weights, &part[0], &part[1], &part[2], 0, &part_masks,
                               &scratch, &err) == TFM_OK,
              "");
        for (b = 0; b < B; b++)
            for (t = 0; t < T; t++) {
                same &= memcmp((float *)context.data + (b * T + t) * H * K + h * K,
                               (float *)one.data + (b * T + t) * K, K * sizeof(float)) == 0;
                same &= memcmp((float *)weights.data + ((b * H + h) * T + t) * S,
                               (float *)one_weights.data + (b * T + t) * S, S * sizeof(float)) == 0;
            }
    }
    CHECK(same, "[B, H, T, K] with masks per head: the bits of each head alone");
}

static void seed0_attention(void) {
    tfm_safetensors *file = test_open("seed0_mha.safetensors");
    tfm_tensor q = test_get(file, "input.query"), k = test_get(file, "input.key");
    tfm_tensor v = test_get(file, "input.value"), expected = test_get(file, "expect.output");
    tfm_tensor out = test_like(expected);
    tfm_attention_weights w;
    memset(&w, 0, sizeof w);
    w.n_heads = 8;
    w.query.weight = test_get(file, "weights.w_q.weight"),
    w.query.bias = test_get(file, "weights.w_q.bias");
    w.key.weight = test_get(file, "weights.w_k.weight"),
    w.key.bias = test_get(file, "weights.w_k.bias");
    w.value.weight = test_get(file, "weights.w_v.weight"),
    w.value.bias = test_get(file, "weights.w_v.bias");
    w.out.weight = test_get(file, "weights.fc.weight"),
    w.out.bias = test_get(file, "weights.fc.bias");
    compare("separate projections",
            test_multi_head(&out, NULL, &w, &q, &k, &v, NULL, &scratch, &err), &out, &expected);
    w.n_heads = 7;
    CHECK_FAILS(test_multi_head(&out, NULL, &w, &q, &k, &v, NULL, &scratch, &err), TFM_E_SHAPE,
                "do not divide into 7 heads");
    w.n_heads = 0;
    CHECK_FAILS(test_multi_head(&out, NULL, &w, &q, &k, &v, NULL, &scratch, &err), TFM_E_ARGUMENT,
                "n_heads is 0");
    tfm_safetensors_free(file);
}

/* [L, B, D] tensors need strides and no copies. */
static void seed2_attention(const char *name) {
    tfm_safetensors *file = test_open(name);
    tfm_tensor q = tfm_tensor_swap(test_get(file, "input.query"), 0, 1);
    tfm_tensor k = tfm_tensor_swap(test_get(file, "input.key"), 0, 1);
    tfm_tensor v = tfm_tensor_swap(test_get(file, "input.value"), 0, 1);
    tfm_tensor expected = test_get(file, "expect.output"), out = test_like(expected), out_view;
    tfm_tensor weights = test_get(file, "expect.weights"), got_weights = test_like(weights);
    tfm_tensor packed = test_get(file, "weights.in_proj_weight");
    tfm_tensor packed_bias = test_get(file, "weights.in_proj_bias");
    tfm_attention_weights w;
    tfm_masks masks;
    tfm_status status;
    memset(&w, 0, sizeof w);
    memset(&masks, 0, sizeof masks);
    w.n_heads = 4;
    CHECK(tfm_attention_unpack(&w, &packed, &packed_bias, &err) == TFM_OK, "");
    w.out.weight = test_get(file, "weights.out_proj.weight");
    w.out.bias = test_get(file, "weights.out_proj.bias");
    masks.key_padding = test_get(file, "input.key_padding_mask");
    masks.attention = test_get(file, "input.attn_mask");
    out_view = tfm_tensor_swap(out, 0, 1);
    status = test_multi_head(&out_view, &got_weights, &w, &q, &k, &v, &masks, &scratch, &err);
    compare(name, status, &out, &expected);
    compare("  weights per head", status, &got_weights, &weights);
    if (masks.attention.data) {
        masks.attention.dims[masks.attention.rank - 1]--;
        CHECK_FAILS(test_multi_head(&out_view, NULL, &w, &q, &k, &v, &masks, &scratch, &err),
                    TFM_E_SHAPE, "attention mask is [");
    }
    tfm_safetensors_free(file);
}

static void seed4_attention(void) {
    tfm_safetensors *file = test_open("seed4_self_attn.safetensors");
    tfm_tensor x = test_get(file, "input.x"), tokens = test_get(file, "input.tokens");
    tfm_tensor expected = test_get(file, "expect.output"), out = test_like(expected);
    tfm_tensor weights = test_get(file, "expect.weights"), got_weights = test_like(weights);
    tfm_tensor pads = tfm_tensor_2d(test_memory(4 * 9), TFM_DTYPE_BOOL, 4, 9);
    tfm_attention_weights w;
    tfm_masks masks;
    tfm_status status;
    memset(&w, 0, sizeof w);
    memset(&masks, 0, sizeof masks);
    w.n_heads = 4, w.scale = 1 / sqrt(32.0);
    w.query.weight = test_get(file, "weights.Q.weight"),
    w.query.bias = test_get(file, "weights.Q.bias");
    w.key.weight = test_get(file, "weights.K.weight"),
    w.key.bias = test_get(file, "weights.K.bias");
    w.value.weight = test_get(file, "weights.V.weight"),
    w.value.bias = test_get(file, "weights.V.bias");
    masks.attention = test_get(file, "expect.mask");
    status = test_multi_head(&out, &got_weights, &w, &x, &x, &x, &masks, &scratch, &err);
    compare("a scale of its own, no output projection", status, &out, &expected);
    compare("  weights", status, &got_weights, &weights);
    memset(&masks, 0, sizeof masks);
    CHECK(tfm_mask_from_ids(&pads, (int32_t *)tokens.data, 0, &err) == TFM_OK, "");
    masks.key_padding = pads;
    status = test_multi_head(&out, &got_weights, &w, &x, &x, &x, &masks, &scratch, &err);
    compare("  with a pad mask made from ids instead", status, &out, &expected);
    tfm_safetensors_free(file);
}

/* Lengths and the causal flag must have the effect of the masks that the helpers make. */
static void masks_agree(void) {
    static const int32_t lengths[] = {5, 2, 4};
    tfm_tensor x = pattern(3, 3, 5, 16, 11), a = test_like(x), b = test_like(x);
    tfm_attention_weights w;
    tfm_masks flags, tensors;
    memset(&w, 0, sizeof w);
    memset(&flags, 0, sizeof flags);
    memset(&tensors, 0, sizeof tensors);
    w.n_heads = 2;
    w.query.weight = pattern(2, 16, 16, 0, 12), w.key.weight = pattern(2, 16, 16, 0, 13);
    w.value.weight = pattern(2, 16, 16, 0, 14), w.out.weight = pattern(2, 16, 16, 0, 15);
    flags.key_lengths = lengths, flags.causal = 1;
    tensors.key_padding = tfm_tensor_2d(test_memory(15), TFM_DTYPE_BOOL, 3, 5);
    tensors.attention = tfm_tensor_2d(test_memory(25), TFM_DTYPE_BOOL, 5, 5);
    CHECK(tfm_mask_from_lengths(&tensors.key_padding, lengths, &err) == TFM_OK, "");
    CHECK(tfm_mask_causal(&tensors.attention, &err) == TFM_OK, "");
    CHECK(test_multi_head(&a, NULL, &w, &x, &x, &x, &flags, &scratch, &err) == TFM_OK, "");
    CHECK(test_multi_head(&b, NULL, &w, &x, &x, &x, &tensors, &scratch, &err) == TFM_OK, "");
    CHECK(memcmp(a.data, b.data, 3 * 5 * 16 * sizeof(float)) == 0,
          "lengths and causal flag give the bits of the mask tensors");
}

/* ---- rotary positions, groups of heads, windows, caps ---- */

static void rotary(void) {
    static float frequencies[2] = {1.0f, 0.25f};
    tfm_tensor x = pattern(3, 2, 3, 12, 21), out = test_like(x);
    tfm_rotary_positions r;
    float *to = (float *)out.data, *from = (float *)x.data;
    int layout, i;
    double worst = 0;
    memset(&r, 0, sizeof r);
    SECTION("rotary positions against their formula, in both layouts");
    r.frequencies = tfm_tensor_1d(frequencies, TFM_DTYPE_F32, 2);
    for (layout = 0; layout < 2; layout++) { /* 2 heads of 6 columns, of which 4 turn */
        r.interleaved = layout;
        CHECK(tfm_rotary(&out, &x, &r, 2, 7, &scratch, &err) == TFM_OK, "%s", err.text);
        for (i = 0; i < 2 * 3 * 12; i++) {
            int column = i % 6, pair = layout ? column / 2 : column % 2;
            int second = layout ? column % 2 : column / 2;
            int other = column + (second ? -1 : 1) * (layout ? 1 : 2);
            double angle = (double)((float)(7 + i / 12 % 3) * frequencies[pair % 2]);
            double wanted = column > 3 ? (double)from[i]
                                       : (double)from[i] * cos(angle) +
                                             (second ? 1 : -1) * (double)from[i - column + other] *
                                                 sin(angle);
            worst = fmax(worst, fabs(wanted - (double)to[i]));
        }
    }
    CHECK(worst < 1e-6, "largest difference %.2g", worst);
    CHECK(tfm_rotary(&x, &x, &r, 2, 7, &scratch, &err) == TFM_OK &&
              memcmp(x.data, out.data, 2 * 3 * 12 * sizeof(float)) == 0,
          "in place, the same bits");
    CHECK(tfm_rotary(&out, &x, &r, 5, 0, &scratch, &err) == TFM_E_ARGUMENT &&
              strstr(err.text, "n_heads is 5"),
          "%s", err.text);
    CHECK(tfm_rotary(&out, &x, &r, 4, 0, &scratch, &err) == TFM_E_ARGUMENT &&
              strstr(err.text, "turns 4 columns, but heads have 3"),
          "%s", err.text);
}

static void grouped_heads(void) {
    tfm_tensor x = pattern(3, 2, 9, 16, 31), a = test_like(x), b = test_like(x);
    tfm_tensor flags = tfm_tensor_2d(test_memory(81), TFM_DTYPE_BOOL, 9, 9), weights;
    float *hidden = (float *)test_memory(2 * 4 * 9 * 9 * sizeof(float)), *rows;
    tfm_attention_weights w, whole;
    tfm_masks masks;
    int h, t, s, same = 1;
    memset(&w, 0, sizeof w);
    memset(&masks, 0, sizeof masks);
    w.n_heads = 4;
    w.query.weight = pattern(2, 16, 16, 0, 32), w.key.weight = pattern(2, 8, 16, 0, 33);
    w.value.weight = pattern(2, 8, 16, 0, 34), w.out.weight = pattern(2, 16, 16, 0, 35);
    whole = w;
    whole.key.weight = pattern(2, 16, 16, 0, 36), whole.value.weight = pattern(2, 16, 16, 0, 37);
    SECTION("groups of heads, windows and caps");
    for (h = 0; h < 4; h++) /* heads 0 and 1 read the same keys, and heads 2 and 3 */
        for (t = 0; t < 2; t++) {
            tfm_linear_weights *to = t ? &whole.value : &whole.key;
            const tfm_linear_weights *from = t ? &w.value : &w.key;
            rows = (float *)to->weight.data + h * 4 * 16;
            memcpy(rows, (float *)from->weight.data + h / 2 * 4 * 16, 4 * 16 * sizeof *rows);
        }
    CHECK(test_multi_head(&a, NULL, &w, &x, &x, &x, NULL, &scratch, &err) == TFM_OK &&
              test_multi_head(&b, NULL, &whole, &x, &x, &x, NULL, &scratch, &err) == TFM_OK,
          "%s", err.text);
    CHECK(memcmp(a.data, b.data, 2 * 9 * 16 * sizeof(float)) == 0,
          "groups have the bits of heads whose keys and values are repeated");
    weights = tfm_tensor_4d(hidden, TFM_DTYPE_F32, 2, 4, 9, 9);
    w.left = 3, w.right = 2;
    for (t = 0; t < 9; t++)
        for (s = 0; s < 9; s++) ((unsigned char *)flags.data)[t * 9 + s] = s <= t - 3 || s >= t + 2;
    masks.attention = flags;
    CHECK(test_multi_head(&a, &weights, &w, &x, &x, &x, NULL, &scratch, &err) == TFM_OK &&
              test_multi_head(&b, NULL, &whole, &x, &x, &x, &masks, &scratch, &err) == TFM_OK,
          "%s", err.text);
    compare("a window, and the same as a mask", TFM_OK, &a, &b);
    for (t = 0; t < 2 * 4 * 81; t++)
        same &= (hidden[t] == 0.0f) == (((unsigned char *)flags.data)[t % 81] != 0);
    CHECK(same, "weights beyond the window are 0");
    w.left = w.right = 0, w.cap = 100;
    whole.cap = 0;
    CHECK(test_multi_head(&a, NULL, &w, &x, &x, &x, NULL, &scratch, &err) == TFM_OK &&
              test_multi_head(&b, NULL, &whole, &x, &x, &x, NULL, &scratch, &err) == TFM_OK,
          "%s", err.text);
    CHECK(test_difference(&a, &b) < 0.01, "a cap far above the scores: %.2g",
          test_difference(&a, &b));
    w.left = 1;
    CHECK(test_multi_head(&a, NULL, &w, &x, &x, &x, NULL, &scratch, &err) == TFM_E_ARGUMENT &&
              strstr(err.text, "left is 1 and right 0"),
          "%s", err.text);
    w.left = 0, w.cap = -1;
    CHECK(test_multi_head(&a, NULL, &w, &x, &x, &x, NULL, &scratch, &err) == TFM_E_ARGUMENT &&
              strstr(err.text, "cap is negative"),
          "%s", err.text);
    w.cap = 0, w.key.weight = w.value.weight = pattern(2, 12, 16, 0, 33);
    CHECK(test_multi_head(&a, NULL, &w, &x, &x, &x, NULL, &scratch, &err) == TFM_E_SHAPE &&
              strstr(err.text, "a number that divides 4"),
          "%s", err.text);
}

/* ---- stacks ---- */

/* Reads weights.STACK.layers.LAYER.PART.NAME, or weights.STACK.PART.NAME if layer is negative. */
static tfm_tensor named(const tfm_safetensors *file, const char *stack, int layer, const char *part,
                        const char *name) {
    char whole[128];
    if (layer < 0) snprintf(whole, sizeof whole, "weights.%s.%s%s", stack, part, name);
    else snprintf(whole, sizeof whole, "weights.%s.layers.%d.%s%s", stack, layer, part, name);
    return test_get(file, whole);
}

static tfm_attention_weights get_attention(const tfm_safetensors *file, const char *stack,
                                           int layer, const char *part) {
    tfm_attention_weights w;
    tfm_tensor packed = named(file, stack, layer, part, ".in_proj_weight");
    tfm_tensor bias = named(file, stack, layer, part, ".in_proj_bias");
    memset(&w, 0, sizeof w);
    w.n_heads = 6;
    CHECK(tfm_attention_unpack(&w, &packed, &bias, &err) == TFM_OK, "");
    w.out.weight = named(file, stack, layer, part, ".out_proj.weight");
    w.out.bias = named(file, stack, layer, part, ".out_proj.bias");
    return w;
}
static tfm_norm_weights get_norm(const tfm_safetensors *file, const char *stack, int layer,
                                 const char *part) {
    tfm_norm_weights w;
    memset(&w, 0, sizeof w);
    w.weight = named(file, stack, layer, part, ".weight");
    w.bias = named(file, stack, layer, part, ".bias");
    return w;
}
static tfm_ffn_weights get_ffn(const tfm_safetensors *file, const char *stack, int layer,
                               tfm_activation a) {
    tfm_ffn_weights w;
    memset(&w, 0, sizeof w);
    w.linear1.weight = named(file, stack, layer, "linear1", ".weight");
    w.linear1.bias = named(file, stack, layer, "linear1", ".bias");
    w.linear2.weight = named(file, stack, layer, "linear2", ".weight");
    w.linear2.bias = named(file, stack, layer, "linear2", ".bias");
    w.activation = a;
    return w;
}

static void stacks(const char *name, tfm_activation activation_kind, tfm_norm_order order) {
    tfm_safetensors *file = test_open(name);
    tfm_encoder_layer_weights encoder_layers[2];
    tfm_decoder_layer_weights decoder_layers[2];
    tfm_encoder_weights encoder;
    tfm_decoder_weights decoder;
    tfm_norm_weights encoder_norm = get_norm(file, "encoder", -1, "norm");
    tfm_norm_weights decoder_norm = get_norm(file, "decoder", -1, "norm");
    tfm_tensor src = tfm_tensor_swap(test_get(file, "input.src"), 0, 1);
    tfm_tensor tgt = tfm_tensor_swap(test_get(file, "input.tgt"), 0, 1);
    tfm_tensor memory = test_get(file, "expect.memory"), got_memory = test_like(memory);
    tfm_tensor output = test_get(file, "expect.output"), got = test_like(output), view, memory_view;
    tfm_masks src_masks, tgt_masks, memory_masks;
    tfm_arena measure;
    tfm_status status;
    char what[64];
    int i;
    memset(encoder_layers, 0, sizeof encoder_layers);
    memset(decoder_layers, 0, sizeof decoder_layers);
    for (i = 0; i < 2; i++) {
        tfm_encoder_layer_weights *e = &encoder_layers[i];
        tfm_decoder_layer_weights *d = &decoder_layers[i];
        e->order = d->order = order;
        e->self_attn = get_attention(file, "encoder", i, "self_attn");
        e->ffn = get_ffn(file, "encoder", i, activation_kind);
        e->norm1 = get_norm(file, "encoder", i, "norm1");
        e->norm2 = get_norm(file, "encoder", i, "norm2");
        d->self_attn = get_attention(file, "decoder", i, "self_attn");
        d->cross_attn = get_attention(file, "decoder", i, "multihead_attn");
        d->ffn = get_ffn(file, "decoder", i, activation_kind);
        d->norm1 = get_norm(file, "decoder", i, "norm1");
        d->norm2 = get_norm(file, "decoder", i, "norm2");
        d->norm3 = get_norm(file, "decoder", i, "norm3");
    }
    encoder.layers = encoder_layers, encoder.n_layers = 2;
    encoder.norm = encoder_norm.weight.data ? &encoder_norm : NULL;
    decoder.layers = decoder_layers, decoder.n_layers = 2;
    decoder.norm = decoder_norm.weight.data ? &decoder_norm : NULL;
    memset(&src_masks, 0, sizeof src_masks);
    memset(&tgt_masks, 0, sizeof tgt_masks);
    memset(&memory_masks, 0, sizeof memory_masks);
    src_masks.key_padding = test_get(file, "input.src_key_padding_mask");
    tgt_masks.key_padding = test_get(file, "input.tgt_key_padding_mask");
    tgt_masks.attention = test_get(file, "input.tgt_mask");
    memory_masks.key_padding = test_get(file, "input.memory_key_padding_mask");
    memory_masks.attention = test_get(file, "input.memory_mask");

    memory_view = tfm_tensor_swap(got_memory, 0, 1);
    measure = tfm_arena_measuring();
    CHECK(tfm_encoder(&memory_view, NULL, &encoder, &src, &src_masks, &measure, &err) == TFM_OK,
          "");
    scratch = tfm_arena_make(scratch_memory, measure.peak);
    status = tfm_encoder(&memory_view, NULL, &encoder, &src, &src_masks, &scratch, &err);
    scratch = tfm_arena_make(scratch_memory, SCRATCH);
    snprintf(what, sizeof what, "%s: encoder", name);
    compare(what, status, &got_memory, &memory);
    view = tfm_tensor_swap(got, 0, 1);
    status = test_decoder(&view, NULL, NULL, &decoder, &tgt, &memory_view, &tgt_masks,
                          &memory_masks, &scratch, &err);
    compare("  decoder, masks merged, [L, B, D] by strides", status, &got, &output);

    /* The layers one by one, in place, without the final norm, must equal the stack. */
    if (!encoder.norm) {
        tfm_tensor stream =
                       test_like(tfm_tensor_3d(NULL, TFM_DTYPE_F32, src.dims[0], src.dims[1], 48)),
                   back;
        int64_t b, l;
        for (b = 0; b < src.dims[0]; b++)
            for (l = 0; l < src.dims[1]; l++)
                memcpy((float *)stream.data + b * stream.strides[0] + l * 48,
                       (float *)src.data + b * src.strides[0] + l * src.strides[1],
                       48 * sizeof(float));
        for (i = 0; i < 2; i++)
            CHECK(tfm_encoder_layer(&stream, NULL, &encoder_layers[i], &stream, &src_masks,
                                    &scratch, &err) == TFM_OK,
                  "");
        back = test_like(memory);
        for (b = 0; b < src.dims[0]; b++)
            for (l = 0; l < src.dims[1]; l++)
                memcpy((float *)back.data + b * src.strides[0] + l * src.strides[1],
                       (float *)stream.data + b * stream.strides[0] + l * 48, 48 * sizeof(float));
        compare("  layer by layer, in place", TFM_OK, &back, &memory);
    }
    decoder_layers[1].ffn.linear2.bias.dims[0] = 47;
    CHECK_FAILS(test_decoder(&view, NULL, NULL, &decoder, &tgt, &memory_view, &tgt_masks,
                             &memory_masks, &scratch, &err),
                TFM_E_SHAPE, "linear2.bias is [47], expected [48]");
    tfm_safetensors_free(file);
}

/* Stacks with layers that are NULL must be refused. */
static void no_layers(void) {
    tfm_tensor x = pattern(3, 1, 2, 8, 31);
    tfm_encoder_weights e;
    tfm_decoder_weights d;
    memset(&e, 0, sizeof e);
    memset(&d, 0, sizeof d);
    e.n_layers = d.n_layers = 1;
    CHECK_FAILS(tfm_encoder(&x, NULL, &e, &x, NULL, &scratch, &err), TFM_E_ARGUMENT,
                "layers is NULL");
    CHECK_FAILS(test_decoder(&x, NULL, NULL, &d, &x, &x, NULL, NULL, &scratch, &err),
                TFM_E_ARGUMENT, "layers is NULL");
}

/* ---- the SSRU ---- */

static tfm_ssru_weights ssru_of(int64_t W, int64_t D, unsigned seed) {
    tfm_ssru_weights w;
    w.input.weight = pattern(2, W, D, 0, seed), w.input.bias = pattern(1, W, 0, 0, seed + 1);
    w.gate.weight = pattern(2, W, D, 0, seed + 2), w.gate.bias = pattern(1, W, 0, 0, seed + 3);
    return w;
}

/* Computes row n of x w^T + bias, in double. */
static double map_at(const tfm_linear_weights *w, const tfm_tensor *x, int64_t row, int64_t n) {
    int64_t k, D = x->dims[2];
    double sum = w->bias.data ? (double)at(&w->bias, n) : 0;
    for (k = 0; k < D; k++) sum += (double)at(x, row * D + k) * (double)at(&w->weight, n * D + k);
    return sum;
}

/* Computes an SSRU by its formula, in double, from a given state on. Then compares runs in pieces,
   with strides, and in a layer. */
static void ssrus(void) {
    enum { B = 3, T = 7, D = 20, W = 33 };
    tfm_ssru_weights w = ssru_of(W, D, 11);
    tfm_tensor bias = w.input.bias;
    tfm_tensor x = pattern(3, B, T, D, 14),
               out = test_like(tfm_tensor_3d(NULL, TFM_DTYPE_F32, B, T, W));
    tfm_tensor first = pattern(2, B, W, 0, 15), state = test_like(first), again = test_like(out);
    tfm_tensor turned = test_like(tfm_tensor_3d(NULL, TFM_DTYPE_F32, T, B, D)), swapped, ends;
    tfm_arena measure = tfm_arena_measuring();
    int64_t b, t, n, cut;
    int with, same = 1;
    SECTION("SSRU");
    for (with = 0; with < 2; with++) {
        double worst = 0;
        w.input.bias.data = with ? bias.data : NULL;
        memcpy(state.data, first.data, (size_t)(B * W) * sizeof(float));
        if (tfm_ssru(&out, with ? &state : NULL, &w, &x, &scratch, &err) != TFM_OK)
            worst = INFINITY;
        for (b = 0; b < B; b++)
            for (n = 0; n < W; n++) {
                double c = with ? (double)at(&first, b * W + n) : 0;
                for (t = 0; t < T; t++) {
                    double g = 1 / (1 + exp(-map_at(&w.gate, &x, b * T + t, n)));
                    c = g * c + (1 - g) * map_at(&w.input, &x, b * T + t, n);
                    worst = test_max(worst,
                                     fabs((c > 0 ? c : 0) - (double)at(&out, (b * T + t) * W + n)));
                }
                if (with) worst = test_max(worst, fabs(c - (double)at(&state, b * W + n)));
            }
        CHECK(worst < MODULE_LIMIT, "%s        largest difference %.2g",
              with ? "with biases, from a given state on" : "from a zero state         ", worst);
    }
    ends = test_like(state);
    memcpy(ends.data, state.data, (size_t)(B * W) * sizeof(float));
    for (cut = 1; cut < T; cut++) {
        memcpy(state.data, first.data, (size_t)(B * W) * sizeof(float));
        for (t = 0; t < T; t += cut) {
            int64_t some = cut < T - t ? cut : T - t;
            tfm_tensor part = x, to = again;
            part.data = (float *)x.data + t * D, to.data = (float *)again.data + t * W;
            part.dims[1] = to.dims[1] = some;
            same &= tfm_ssru(&to, &state, &w, &part, &scratch, &err) == TFM_OK;
        }
        same &= memcmp(again.data, out.data, (size_t)(B * T * W) * sizeof(float)) == 0;
        same &= memcmp(state.data, ends.data, (size_t)(B * W) * sizeof(float)) == 0;
    }
    CHECK(same, "positions in pieces of one to six: the same bits");
    for (b = 0; b < B; b++)
        for (t = 0; t < T; t++)
            memcpy((float *)turned.data + (t * B + b) * D, (float *)x.data + (b * T + t) * D,
                   D * sizeof(float));
    memcpy(state.data, first.data, (size_t)(B * W) * sizeof(float));
    turned = tfm_tensor_swap(turned, 0, 1);
    again = test_like(tfm_tensor_3d(NULL, TFM_DTYPE_F32, T, B, W)),
    swapped = tfm_tensor_swap(again, 0, 1);
    CHECK(tfm_ssru(&swapped, &state, &w, &turned, &scratch, &err) == TFM_OK, "");
    for (b = 0, same = 1; b < B; b++)
        for (t = 0; t < T; t++)
            same &= memcmp((float *)again.data + (t * B + b) * W,
                           (float *)out.data + (b * T + t) * W, W * sizeof(float)) == 0;
    CHECK(same && memcmp(state.data, ends.data, (size_t)(B * W) * sizeof(float)) == 0,
          "[T, B, D] by strides: the same bits");
    CHECK(tfm_ssru(&out, &state, &w, &x, &measure, &err) == TFM_OK, "");
    CHECK(measure.peak >= B * T * W * 4 &&
              memcmp(state.data, ends.data, (size_t)(B * W) * sizeof(float)) == 0,
          "a measuring arena: %d bytes, and the state is unchanged", (int)measure.peak);
    x.dims[1] = out.dims[1] = 0;
    CHECK(tfm_ssru(&out, &state, &w, &x, &scratch, &err) == TFM_OK &&
              memcmp(state.data, ends.data, (size_t)(B * W) * sizeof(float)) == 0,
          "without positions the state is unchanged");
}

/* ---- refused calls ---- */

/* The arguments of the next call. Its outputs are in output_memory, which is full of one byte until
   something is written. */
typedef tfm_status (*function)(void);
static struct {
    tfm_tensor *out, *attention, *cross;
    const tfm_tensor *x, *key, *value; /* For a decoder, key is its memory. */
    const void *weights;
    const tfm_masks *masks, *cross_masks;
    const int32_t *numbers;
    tfm_arena *scratch;
} given;
static float output_memory[3][1024];
static int n_refused;

static int is_untouched(void) {
    const unsigned char *bytes = (const unsigned char *)output_memory;
    size_t i;
    for (i = 0; i < sizeof output_memory && bytes[i] == 0xA5;) i++;
    return i == sizeof output_memory;
}
static void start_giving(void) {
    memset(&given, 0, sizeof given);
    memset(output_memory, 0xA5, sizeof output_memory);
    given.scratch = &scratch;
    n_refused = 0;
}
static void give_outputs(void) { memset(output_memory, 0xA5, sizeof output_memory); }

static tfm_tensor dims4(void *data, int rank, int64_t d0, int64_t d1, int64_t d2, int64_t d3) {
    tfm_tensor t = tfm_tensor_4d(data, TFM_DTYPE_F32, d0, d1, d2, d3);
    return tfm_tensor_make(data, TFM_DTYPE_F32, rank, t.dims);
}

static tfm_status call_positions(void) {
    return tfm_positions(given.out, (const tfm_position_options *)given.weights, given.numbers,
                         &err);
}
static tfm_status call_norm(void) {
    return tfm_layer_norm(given.out, given.x, (const tfm_norm_weights *)given.weights, &err);
}
static tfm_status call_linear(void) {
    return tfm_linear(given.out, given.x, (const tfm_linear_weights *)given.weights, &err);
}
static tfm_status call_softmax(void) { return tfm_softmax(given.out, given.x, &err); }
static tfm_status call_activate(void) {
    return tfm_activate(given.out, given.x, TFM_ACTIVATION_GELU, &err);
}
static tfm_status call_ffn(void) {
    return tfm_feed_forward(given.out, given.x, (const tfm_ffn_weights *)given.weights,
                            given.scratch, &err);
}
static tfm_status call_ssru(void) {
    return tfm_ssru(given.out, given.attention, (const tfm_ssru_weights *)given.weights, given.x,
                    given.scratch, &err);
}
static tfm_status call_mask_ids(void) {
    return tfm_mask_from_ids(given.out, given.numbers, 0, &err);
}
static tfm_status call_mask_lengths(void) {
    return tfm_mask_from_lengths(given.out, given.numbers, &err);
}
static tfm_status call_mask_causal(void) { return tfm_mask_causal(given.out, &err); }
static tfm_status call_dot_product(void) {
    return test_dot_product(given.out, given.attention, given.x, given.key, given.value, 0,
                            given.masks, given.scratch, &err);
}
static tfm_status call_attention(void) {
    return test_multi_head(given.out, given.attention, (const tfm_attention_weights *)given.weights,
                           given.x, given.key, given.value, given.masks, given.scratch, &err);
}
static tfm_status call_encoder(void) {
    return tfm_encoder(given.out, given.attention, (const tfm_encoder_weights *)given.weights,
                       given.x, given.masks, given.scratch, &err);
}
static tfm_status call_encoder_layer(void) {
    return tfm_encoder_layer(given.out, given.attention,
                             (const tfm_encoder_layer_weights *)given.weights, given.x, given.masks,
                             given.scratch, &err);
}
static tfm_status call_decoder(void) {
    return test_decoder(given.out, given.attention, given.cross,
                        (const tfm_decoder_weights *)given.weights, given.x, given.key, given.masks,
                        given.cross_masks, given.scratch, &err);
}
static tfm_status call_decoder_layer(void) {
    return test_decoder_layer(given.out, given.attention, given.cross,
                              (const tfm_decoder_layer_weights *)given.weights, given.x, given.key,
                              given.masks, given.cross_masks, given.scratch, &err);
}

/* The call must fail with this status and text, and leave outputs and scratch unchanged. */
static void refused(function call, tfm_status expected, const char *says) {
    tfm_status status;
    size_t used = given.scratch ? given.scratch->used : 0;
    int as_wanted;
    err.text[0] = 0, err.status = TFM_OK;
    status = call();
    as_wanted = status == expected && err.status == expected && strstr(err.text, says) &&
                is_untouched() && (!given.scratch || given.scratch->used == used);
    if (as_wanted) test_passed++, n_refused++;
    else
        CHECK(as_wanted, "wanted status \"%s\" and a message with '%s', got \"%s\": %s%s",
              tfm_status_text(expected), says, tfm_status_text(status), err.text,
              is_untouched() ? "" : "; an output was written");
}
static void accepted(function call) {
    CHECK(call() == TFM_OK, "%s", err.text);
    give_outputs();
}

/* How a tensor is checked: whether it may be missing, and whether all of its dimensions are known
   or only the last. */
enum { OPTIONAL = 1, SHAPED = 2, WIDE = 4 };

/* Makes the tensor wrong in every possible way. */
static void wrong_tensor(function call, tfm_tensor *t, const char *name, int how) {
    tfm_tensor kept = *t;
    char says[96];
    int i;
    snprintf(says, sizeof says, "%s is %s, expected", name,
             kept.dtype == TFM_DTYPE_F32 ? "I32" : "F64");
    t->dtype = kept.dtype == TFM_DTYPE_F32 ? TFM_DTYPE_I32 : TFM_DTYPE_F64;
    refused(call, TFM_E_DTYPE, says), *t = kept;
    snprintf(says, sizeof says, "%s has rank 0, expected", name), t->rank = 0;
    refused(call, TFM_E_SHAPE, says), *t = kept;
    snprintf(says, sizeof says, "%s has rank 9, expected", name), t->rank = TFM_MAX_RANK + 1;
    refused(call, TFM_E_SHAPE, says), *t = kept;
    snprintf(says, sizeof says, "%s: the last stride is 2", name), t->strides[t->rank - 1] = 2;
    refused(call, TFM_E_SHAPE, says), *t = kept;
    snprintf(says, sizeof says, "%s has no data", name), t->data = NULL;
    if (!(how & OPTIONAL)) refused(call, TFM_E_ARGUMENT, says);
    *t = kept;
    snprintf(says, sizeof says, "%s is [", name);
    for (i = how & SHAPED ? 0 : how & WIDE ? t->rank - 1 : t->rank; i < t->rank; i++) {
        t->dims[i]++;
        refused(call, TFM_E_SHAPE, says), *t = kept;
    }
}
/* Does the same for a tensor that the call receives by address. */
static void wrong_argument(function call, const tfm_tensor **which, const char *name, int how) {
    const tfm_tensor *kept = *which;
    tfm_tensor t = *kept;
    char says[96];
    *which = &t;
    wrong_tensor(call, &t, name, how);
    *which = NULL;
    snprintf(says, sizeof says, "%s is NULL", name);
    if (how & OPTIONAL) accepted(call);
    else refused(call, TFM_E_ARGUMENT, says);
    *which = kept;
}
static void wrong_output(function call, tfm_tensor *t, const char *name, int how) {
    tfm_tensor kept = *t;
    wrong_tensor(call, t, name, how);
    if (how & OPTIONAL) {
        t->data = NULL;
        accepted(call);
        *t = kept;
    }
}

/* Tests each arena that is too small. The message must name the need of the whole call, which a
   measuring arena tells beforehand. */
static void small_arenas(function call) {
    tfm_arena measure = tfm_arena_measuring(), arena;
    char says[64];
    size_t at;
    given.scratch = &measure;
    CHECK(call() == TFM_OK && is_untouched() && measure.used == 0, "%s", err.text);
    given.scratch = &arena;
    for (at = 0; at + 64 <= measure.peak; at += 64) {
        arena = tfm_arena_make(scratch_memory, at);
        snprintf(says, sizeof says, "has %d bytes, %d are needed", (int)at, (int)measure.peak);
        refused(call, TFM_E_ARENA, says);
    }
    arena = tfm_arena_make(scratch_memory, measure.peak);
    CHECK(call() == TFM_OK && !is_untouched(), "");
    give_outputs();
    given.scratch = NULL;
    refused(call, TFM_E_ARGUMENT, "scratch is NULL");
    given.scratch = &scratch;
}

/* ---- weights to make wrong: D 8, 2 heads with K 3 and W 5, F 7, memory of width 6 ---- */

static tfm_linear_weights linear_of(int64_t out, int64_t in, unsigned seed) {
    tfm_linear_weights w;
    w.weight = pattern(2, out, in, 0, seed), w.bias = pattern(1, out, 0, 0, seed + 1);
    return w;
}
static tfm_norm_weights norm_of(int64_t D, unsigned seed) {
    tfm_norm_weights w;
    memset(&w, 0, sizeof w);
    w.weight = pattern(1, D, 0, 0, seed), w.bias = pattern(1, D, 0, 0, seed + 1);
    return w;
}
static tfm_attention_weights attention_of(int64_t memory, unsigned seed) {
    tfm_attention_weights w;
    memset(&w, 0, sizeof w);
    w.n_heads = 2;
    w.query = linear_of(6, 8, seed), w.key = linear_of(6, memory, seed + 2);
    w.value = linear_of(10, memory, seed + 4), w.out = linear_of(8, 10, seed + 6);
    return w;
}
static tfm_ffn_weights ffn_of(unsigned seed) {
    tfm_ffn_weights w;
    memset(&w, 0, sizeof w);
    w.linear1 = linear_of(7, 8, seed), w.linear2 = linear_of(8, 7, seed + 2);
    w.activation = TFM_ACTIVATION_RELU;
    return w;
}

static void wrong_linear(function call, tfm_linear_weights *w, const char *name) {
    char part[128];
    snprintf(part, sizeof part, "%s.weight", name);
    wrong_tensor(call, &w->weight, part, WIDE);
    snprintf(part, sizeof part, "%s.bias", name);
    wrong_tensor(call, &w->bias, part, SHAPED | OPTIONAL);
}
static void wrong_norm(function call, tfm_norm_weights *w, const char *name) {
    tfm_norm_weights kept = *w;
    char part[128];
    snprintf(part, sizeof part, "%s.weight", name);
    wrong_tensor(call, &w->weight, part, SHAPED | OPTIONAL);
    snprintf(part, sizeof part, "%s.bias", name);
    wrong_tensor(call, &w->bias, part, SHAPED | OPTIONAL);
    snprintf(part, sizeof part, "%s.eps is negative or no number", name);
    w->eps = -1e-9;
    refused(call, TFM_E_ARGUMENT, part);
    w->eps = (double)NAN;
    refused(call, TFM_E_ARGUMENT, part), *w = kept;
#ifndef __cplusplus
    snprintf(part, sizeof part, "%s.kind is %d, expected TFM_NORM_KIND_LAYER_NORM, TFM_NORM_", name,
             (int)TFM_NORM_KIND_COUNT);
    w->kind = TFM_NORM_KIND_COUNT;
    refused(call, TFM_E_ARGUMENT, part), *w = kept;
#endif
}
static void wrong_ffn(function call, tfm_ffn_weights *w) {
    tfm_ffn_weights kept = *w;
    wrong_linear(call, &w->linear1, "linear1");
    wrong_linear(call, &w->linear2, "linear2");
    w->linear2.weight.dims[0]--, w->linear2.bias.dims[0]--;
    refused(call, TFM_E_SHAPE, "linear2.weight is [7, 7], expected 8 rows"), *w = kept;
    w->gate = linear_of(7, 8, 3);
    accepted(call), wrong_tensor(call, &w->gate.weight, "gate.weight", WIDE | OPTIONAL);
    wrong_tensor(call, &w->gate.bias, "gate.bias", SHAPED | OPTIONAL);
    w->gate = linear_of(6, 8, 3);
    refused(call, TFM_E_SHAPE, "gate.weight is [6, 8], expected 7 rows"), *w = kept;
#ifndef __cplusplus /* where the enum type cannot hold -1 */
    w->activation = (tfm_activation)-1;
    refused(call, TFM_E_ARGUMENT, "activation is -1, expected TFM_ACTIVATION_RELU, ");
    w->activation = TFM_ACTIVATION_COUNT;
    refused(call, TFM_E_ARGUMENT, ", expected TFM_ACTIVATION_RELU, "), *w = kept;
#endif
}
static void wrong_attention(function call, tfm_attention_weights *w, const char *name) {
    tfm_attention_weights kept = *w;
    static const char *const parts[] = {"query", "key", "value", "out"};
    tfm_linear_weights *linears_of[4];
    char says[64];
    int i;
    linears_of[0] = &w->query, linears_of[1] = &w->key;
    linears_of[2] = &w->value, linears_of[3] = &w->out;
    for (i = 0; i < 4; i++) {
        snprintf(says, sizeof says, "%s %s", name, parts[i]);
        if (i < 3) wrong_linear(call, linears_of[i], says);
        else wrong_tensor(call, &w->out.bias, "out.bias", SHAPED | OPTIONAL);
    }
    snprintf(says, sizeof says, "%s out.weight", name);
    w->out.weight.dims[1]++;
    refused(call, TFM_E_SHAPE, says), *w = kept;
    snprintf(says, sizeof says, "%s: n_heads is 0, expected 1 or more", name), w->n_heads = 0;
    refused(call, TFM_E_ARGUMENT, says), *w = kept;
    snprintf(says, sizeof says, "%s key.weight is [4, %d], expected 6 rows", name,
             (int)w->key.weight.dims[1]);
    w->key.weight.dims[0] = w->key.bias.dims[0] = 4;
    refused(call, TFM_E_SHAPE, says), *w = kept;
    w->query.weight.dims[0] = w->query.bias.dims[0] = 0;
    w->key.weight.dims[0] = w->key.bias.dims[0] = 0;
    refused(call, TFM_E_SHAPE, "0 and 10 columns do not divide into 2 heads"), *w = kept;
    w->value.weight.dims[0] = w->value.bias.dims[0] = 0;
    refused(call, TFM_E_SHAPE, "6 and 0 columns do not divide into 2 heads"), *w = kept;
    w->value.weight.dims[0] = w->value.bias.dims[0] = 9;
    refused(call, TFM_E_SHAPE, "6 and 9 columns do not divide into 2 heads"), *w = kept;
    w->query.weight.dims[0] = w->query.bias.dims[0] = 5;
    w->key.weight.dims[0] = w->key.bias.dims[0] = 5;
    refused(call, TFM_E_SHAPE, "5 and 10 columns do not divide into 2 heads"), *w = kept;
    w->relative.table = pattern(2, 8, 2, 0, 5);
    if (strcmp(name, "cross_attn") != 0) accepted(call);
    else refused(call, TFM_E_ARGUMENT, "cross_attn has relative positions");
    snprintf(says, sizeof says, "%s relative.table", name);
    wrong_tensor(call, &w->relative.table, says, WIDE | OPTIONAL);
    w->relative.max_distance = 2;
    refused(call, TFM_E_ARGUMENT, "8 buckets of both directions up to a distance of 2");
    w->relative.max_distance = -1, w->relative.causal = 1;
    refused(call, TFM_E_ARGUMENT, "8 buckets up to a distance of -1");
    w->relative.max_distance = 0, w->relative.table.dims[0] = 1;
    refused(call, TFM_E_ARGUMENT, "1 buckets up to a distance of 128"), *w = kept;
}
/* An attention that is added to the stream and lacks an output projection. */
static void wrong_residual(function call, tfm_attention_weights *w, const char *name) {
    tfm_attention_weights kept = *w;
    char says[64];
    wrong_attention(call, w, name);
    snprintf(says, sizeof says, "%s gives 10 columns, expected 8", name);
    w->out.weight.data = NULL;
    refused(call, TFM_E_SHAPE, says), *w = kept;
}
/* Masks for B 2, H 2. */
static void wrong_masks(function call, const tfm_masks **which, int64_t T, int64_t S) {
    int32_t lengths[2];
    tfm_masks masks;
    unsigned char hidden[2 * 2 * 5 * 5];
    memset(&masks, 0, sizeof masks), memset(hidden, 0, sizeof hidden);
    *which = &masks;
    accepted(call);
    masks.key_padding = tfm_tensor_2d(hidden, TFM_DTYPE_BOOL, 2, S);
    accepted(call), wrong_tensor(call, &masks.key_padding, "key_padding", SHAPED | OPTIONAL);
    memset(&masks, 0, sizeof masks);
    masks.attention = tfm_tensor_2d(hidden, TFM_DTYPE_BOOL, T, S);
    accepted(call), wrong_tensor(call, &masks.attention, "attention mask", SHAPED | OPTIONAL);
    masks.attention = tfm_tensor_3d(hidden, TFM_DTYPE_BOOL, 2, T, S);
    accepted(call), wrong_tensor(call, &masks.attention, "attention mask", SHAPED | OPTIONAL);
    masks.attention = tfm_tensor_3d(hidden, TFM_DTYPE_BOOL, 4, T, S);
    accepted(call), wrong_tensor(call, &masks.attention, "attention mask", SHAPED | OPTIONAL);
    memset(&masks, 0, sizeof masks);
    masks.key_lengths = lengths;
    lengths[0] = (int32_t)S, lengths[1] = 0;
    accepted(call), lengths[1] = -1;
    refused(call, TFM_E_ARGUMENT, "key_lengths[1] is -1, expected 0 to"), lengths[1] = 0;
    lengths[0]++;
    refused(call, TFM_E_ARGUMENT, "key_lengths[0] is "), lengths[0]--;
    masks.causal = 1;
    accepted(call);
    *which = NULL;
}

static void wrong_positions(void) {
    tfm_tensor out = dims4(output_memory[0], 3, 2, 3, 8, 0), table = pattern(2, 4, 8, 0, 41), row;
    tfm_position_options o;
    int32_t lengths[2] = {3, 1};
    int64_t D, i;
    int both, same = 1;
    start_giving();
    memset(&o, 0, sizeof o);
    given.out = &out, given.weights = &o, given.numbers = lengths;
    accepted(call_positions), wrong_tensor(call_positions, &out, "out", 0);
    given.out = NULL;
    refused(call_positions, TFM_E_ARGUMENT, "out is NULL"), given.out = &out;
    given.weights = NULL;
    refused(call_positions, TFM_E_ARGUMENT, "options is NULL"), given.weights = &o;
#ifndef __cplusplus
    o.kind = (tfm_position_kind)-1;
    refused(call_positions, TFM_E_ARGUMENT, "options.kind is -1");
    o.kind = TFM_POSITION_KIND_COUNT;
    refused(call_positions, TFM_E_ARGUMENT, "expected TFM_POSITION_KIND_SINUSOIDAL, TFM_POSITION_");
#endif
    o.kind = TFM_POSITION_KIND_LEARNED, o.table = table;
    accepted(call_positions), wrong_tensor(call_positions, &o.table, "options.table", WIDE);
    o.first = 2;
    refused(call_positions, TFM_E_TOO_LONG, "5 positions needed, options.table has 4");
    o.first = -1;
    refused(call_positions, TFM_E_ARGUMENT, "options.first is -1, expected 0 to 2^63 - 4");
    o.first = INT64_MAX - 2;
    refused(call_positions, TFM_E_ARGUMENT, "options.first is 9223372036854775805, expected");
    CHECK(n_refused > 10, "positions: %d times refused", n_refused);
    o.kind = TFM_POSITION_KIND_NONE, o.first = 0;
    CHECK(call_positions() == TFM_OK, "");
    for (i = 0; i < 48; i++) same &= output_memory[0][i] == 0.0f;
    CHECK(same, "no positions: zeros");
    /* With one frequency the first one is the last. */
    for (D = 2; D < 4; D++)
        for (both = 0; both < 2; both++) {
            memset(&o, 0, sizeof o);
            o.divisor_half = 1, o.double_angles = both, o.first = 2;
            row = tfm_tensor_2d(output_memory[0], TFM_DTYPE_F32, 1, D);
            CHECK(tfm_positions(&row, &o, NULL, &err) == TFM_OK &&
                      fabs((double)output_memory[0][0] - sin(2.0)) < 1e-6 &&
                      fabs((double)output_memory[0][1] - cos(2.0)) < 1e-6,
                  "divisor D/2 - 1, %d columns", (int)D);
        }
}

static void wrong_modules(void) {
    tfm_tensor out = dims4(output_memory[0], 3, 2, 3, 8, 0), x = pattern(3, 2, 3, 8, 42);
    tfm_tensor four = dims4(x.data, 4, 2, 3, 1, 8),
               four_out = dims4(output_memory[0], 4, 2, 3, 1, 8);
    tfm_norm_weights norm = norm_of(8, 43);
    tfm_linear_weights linear = linear_of(8, 8, 45);
    tfm_ffn_weights ffn = ffn_of(47);
    tfm_arena measure = tfm_arena_measuring();
    const void *all[5];
    int kind;
    static const function calls[] = {call_norm, call_linear, call_softmax, call_ffn, call_activate};
    start_giving();
    given.out = &out, given.x = &x;
    all[0] = &norm, all[1] = &linear, all[2] = all[4] = NULL, all[3] = &ffn;
    for (kind = 0; kind < 5; kind++) {
        given.weights = all[kind];
        accepted(calls[kind]);
        wrong_argument(calls[kind], &given.x, "x", 0);
        wrong_output(calls[kind], &out, "out", SHAPED);
        given.out = NULL;
        refused(calls[kind], TFM_E_ARGUMENT, "out is NULL"), given.out = &out;
        if (kind == 0) wrong_norm(call_norm, &norm, "norm");
        if (kind == 1) wrong_linear(call_linear, &linear, "linear");
        if (kind == 3) wrong_ffn(call_ffn, &ffn), small_arenas(call_ffn);
        given.weights = NULL;
        if (kind & 1) refused(calls[kind], TFM_E_ARGUMENT, "is NULL");
        else
            accepted(
                calls[kind]); /* A norm may lack its weights; softmax and activations have none. */
        /* Tensors of more than three dimensions are blocks of rows only where the dimensions are
           contiguous. */
        given.weights = all[kind], given.x = &four, given.out = &four_out;
        four_out.strides[0] = 28;
        refused(calls[kind], TFM_E_SHAPE, "out: dimension 0 must be contiguous");
        four.strides[0] = 28;
        refused(calls[kind], TFM_E_SHAPE, "x: dimension 0 must be contiguous");
        four.strides[0] = four_out.strides[0] = 24;
        accepted(calls[kind]), given.x = &x, given.out = &out;
    }
    norm = norm_of(1, 49), norm.kind = TFM_NORM_KIND_LAYER_NORM_UNBIASED;
    x = pattern(2, 3, 1, 0, 51), out = tfm_tensor_2d(output_memory[0], TFM_DTYPE_F32, 3, 1);
    given.weights = &norm;
    refused(call_norm, TFM_E_SHAPE, "norm: 1 columns cannot be normalized");
    norm.kind = TFM_NORM_KIND_LAYER_NORM;
    accepted(call_norm);
    given.weights = NULL, x.dims[1] = out.dims[1] = 0;
    refused(call_norm, TFM_E_SHAPE, "norm: 0 columns cannot be normalized");
    x = tfm_tensor_3d(NULL, TFM_DTYPE_F32, 2, 0, 8), out = x, given.weights = &linear;
    CHECK(call_linear() == TFM_OK && is_untouched(), "no rows: the call succeeds and does nothing");
    x = tfm_tensor_3d(output_memory[1], TFM_DTYPE_F32, 1, INT64_MAX / 8, 8), out = x;
    given.weights = &ffn, given.scratch = &measure;
    refused(call_ffn, TFM_E_OVERFLOW, "overflow");
    CHECK(n_refused > 100, "norm, linear, softmax, feed-forward: %d times refused", n_refused);
}

static void wrong_ssru(void) {
    tfm_tensor out = dims4(output_memory[0], 3, 2, 3, 6, 0), x = pattern(3, 2, 3, 8, 42);
    tfm_tensor state = dims4(output_memory[1], 2, 2, 6, 0, 0);
    tfm_ssru_weights w = ssru_of(6, 8, 43), kept = w;
    start_giving();
    given.out = &out, given.x = &x, given.weights = &w;
    accepted(call_ssru); /* without a state */
    given.attention = &state;
    wrong_argument(call_ssru, &given.x, "x", 0);
    wrong_output(call_ssru, &out, "out", SHAPED);
    wrong_output(call_ssru, &state, "state", SHAPED);
    memset(output_memory[1], 0, sizeof output_memory[1]);
    accepted(call_ssru);
    wrong_linear(call_ssru, &w.input, "ssru input");
    wrong_linear(call_ssru, &w.gate, "ssru gate");
    w.gate = linear_of(5, 8, 50);
    refused(call_ssru, TFM_E_SHAPE, "ssru gate.weight is [5, 8], expected 6 rows"), w = kept;
    given.out = NULL;
    refused(call_ssru, TFM_E_ARGUMENT, "out is NULL"), given.out = &out;
    given.weights = NULL;
    refused(call_ssru, TFM_E_ARGUMENT, "is NULL"), given.weights = &w;
    given.scratch = NULL;
    refused(call_ssru, TFM_E_ARGUMENT, "is NULL"), given.scratch = &scratch;
    small_arenas(call_ssru);
    CHECK(n_refused > 25, "SSRU: %d times refused", n_refused);
}

static void wrong_mask_helpers(void) {
    static const function calls[] = {call_mask_ids, call_mask_lengths, call_mask_causal};
    static const int32_t numbers[6] = {1, 2, 0, 3, 0, 0};
    tfm_tensor mask = tfm_tensor_2d(output_memory[0], TFM_DTYPE_BOOL, 2, 3);
    int i;
    start_giving();
    given.out = &mask;
    for (i = 0; i < 3; i++) {
        given.numbers = numbers;
        accepted(calls[i]), wrong_tensor(calls[i], &mask, "mask", 0);
        given.out = NULL;
        refused(calls[i], TFM_E_ARGUMENT, "mask is NULL"), given.out = &mask;
        given.numbers = NULL;
        if (i < 2) refused(calls[i], TFM_E_ARGUMENT, "ids or lengths is NULL");
    }
    CHECK(n_refused > 15, "masks: %d times refused", n_refused);
}

static void wrong_unpack(void) {
    tfm_tensor weight = pattern(2, 18, 8, 0, 53), bias = pattern(1, 18, 0, 0, 54);
    tfm_attention_weights w, kept;
    tfm_tensor t;
    memset(&w, 0, sizeof w), memset(&kept, 0, sizeof kept);
    CHECK_FAILS(tfm_attention_unpack(NULL, &weight, &bias, &err), TFM_E_ARGUMENT,
                "weights is NULL");
    CHECK_FAILS(tfm_attention_unpack(&w, NULL, &bias, &err), TFM_E_ARGUMENT,
                "in_proj_weight is NULL");
    t = weight, t.dims[0] = 17;
    CHECK_FAILS(tfm_attention_unpack(&w, &t, &bias, &err), TFM_E_SHAPE,
                "17 rows are not three equal parts");
    t = bias, t.dims[0] = 17;
    CHECK_FAILS(tfm_attention_unpack(&w, &weight, &t, &err), TFM_E_SHAPE,
                "in_proj_bias is [17], expected [18]");
    CHECK(memcmp(&w, &kept, sizeof w) == 0, "a refused call unpacks nothing");
    t.data = NULL;
    CHECK(tfm_attention_unpack(&w, &weight, &t, &err) == TFM_OK && !w.value.bias.data &&
              w.value.weight.data == (float *)weight.data + 96,
          "a bias without data is no bias");
    CHECK(tfm_attention_unpack(&w, &weight, NULL, &err) == TFM_OK && !w.query.bias.data,
          "a NULL bias neither");
    CHECK(tfm_attention_unpack(&w, &weight, &bias, &err) == TFM_OK &&
              w.key.bias.data == (float *)bias.data + 6,
          "thirds of the bias");
}

/* Tests the arguments of both attention functions: key, value and outputs must fit the query. */
static void wrong_fit(function call, tfm_tensor *key, int how, tfm_tensor *out, const char *name,
                      tfm_tensor *weights, const char *weights_name) {
    char says[64];
    accepted(call);
    wrong_argument(call, &given.x, "query", 0);
    wrong_argument(call, &given.key, "key", how);
    wrong_argument(call, &given.value, "value", 0);
    key->dims[0] = 1;
    refused(call, TFM_E_SHAPE, "key is [1, "), key->dims[0] = 2;
    wrong_output(call, out, name, SHAPED);
    wrong_output(call, weights, weights_name, SHAPED | OPTIONAL);
    given.attention = NULL;
    accepted(call), given.attention = weights;
    snprintf(says, sizeof says, "%s is NULL", name), given.out = NULL;
    refused(call, TFM_E_ARGUMENT, says), given.out = out;
}

static void wrong_dot_product(void) {
    int rank;
    start_giving();
    for (rank = 3; rank <= 4; rank++) {
        int64_t H = rank == 4 ? 2 : 3;
        tfm_tensor q, k, v, out, weights;
        q = rank == 4 ? dims4(pattern(3, 4, 3, 5, 55).data, 4, 2, H, 3, 5)
                      : pattern(3, 2, 3, 5, 55);
        k = rank == 4 ? dims4(pattern(3, 4, 4, 5, 56).data, 4, 2, H, 4, 5)
                      : pattern(3, 2, 4, 5, 56);
        v = rank == 4 ? dims4(pattern(3, 4, 4, 6, 57).data, 4, 2, H, 4, 6)
                      : pattern(3, 2, 4, 6, 57);
        out = rank == 4 ? dims4(output_memory[0], 4, 2, H, 3, 6)
                        : dims4(output_memory[0], 3, 2, 3, 6, 0);
        weights = rank == 4 ? dims4(output_memory[1], 4, 2, H, 3, 4)
                            : dims4(output_memory[1], 3, 2, 3, 4, 0);
        given.x = &q, given.key = &k, given.value = &v, given.out = &out;
        given.attention = &weights;
        wrong_fit(call_dot_product, &k, WIDE, &out, "context", &weights, "weights");
        v.dims[0] = 1;
        refused(call_dot_product, TFM_E_SHAPE, "value is [1, "), v.dims[0] = 2;
        given.attention = NULL;
        small_arenas(call_dot_product);
        if (rank == 4) wrong_masks(call_dot_product, &given.masks, 3, 4);
    }
    CHECK(n_refused > 80, "scaled dot-product: %d times refused", n_refused);
}

static void wrong_multi_head(void) {
    tfm_tensor q = pattern(3, 2, 3, 8, 58), k = pattern(3, 2, 4, 6, 59), v = k;
    tfm_tensor out = dims4(output_memory[0], 3, 2, 3, 8, 0);
    tfm_tensor weights = dims4(output_memory[1], 4, 2, 2, 3, 4);
    tfm_attention_weights w = attention_of(6, 60), kept = w;
    start_giving();
    given.out = &out, given.attention = &weights, given.weights = &w;
    given.x = &q, given.key = &k, given.value = &v;
    wrong_fit(call_attention, &k, 0, &out, "out", &weights, "attention");
    v.dims[1] = 3;
    refused(call_attention, TFM_E_SHAPE, "value is [2, 3, 6], expected [2, 4, 6]"), v.dims[1] = 4;
    given.weights = NULL;
    refused(call_attention, TFM_E_ARGUMENT, "weights, inputs or scratch is NULL"),
        given.weights = &w;
    wrong_attention(call_attention, &w, "attention");
    wrong_masks(call_attention, &given.masks, 3, 4);
    small_arenas(call_attention);
    w.out.weight.data = NULL, out.dims[2] = 10, out.strides[1] = 10, out.strides[0] = 30;
    accepted(call_attention),
        w = kept; /* Without an output projection the output is the contexts. */
    CHECK(n_refused > 100, "multi-head attention: %d times refused", n_refused);
}

/* Tests the attention outputs of a stack: wrong tensors, and a tensor with a gap after each row,
   which must receive the same weights. */
static void stack_attention(function call, tfm_tensor *t, const char *name) {
    static float weights[1024];
    tfm_tensor kept = *t;
    int64_t width = t->dims[t->rank - 1], n = test_count(t) / width, same = 0, i;
    int d;
    wrong_output(call, t, name, SHAPED | OPTIONAL);
    CHECK(call() == TFM_OK, "%s", err.text);
    memcpy(weights, t->data, (size_t)(n * width) * sizeof *weights);
    give_outputs();
    t->strides[t->rank - 2] = width + 1;
    for (d = t->rank - 3; d >= 0; d--) t->strides[d] = t->strides[d + 1] * t->dims[d + 1];
    CHECK(call() == TFM_OK, "%s", err.text);
    for (i = 0; i < n; i++) {
        const float *row = (const float *)t->data + i * (width + 1);
        same += memcmp(row, weights + i * width, (size_t)width * sizeof *row) == 0 &&
                *(const unsigned char *)(row + width) == 0xA5;
    }
    CHECK(same == n, "%s with strides: %d of %d rows", name, (int)same, (int)n);
    give_outputs(), *t = kept;
}

static void wrong_encoders(void) {
    tfm_tensor x = pattern(3, 2, 3, 8, 70), out = dims4(output_memory[0], 3, 2, 3, 8, 0);
    int64_t dims[5] = {2, 2, 2, 3, 3};
    tfm_tensor attention = tfm_tensor_make(output_memory[1], TFM_DTYPE_F32, 5, dims), expected;
    tfm_encoder_layer_weights layers[2], kept;
    tfm_encoder_weights w;
    tfm_norm_weights norm = norm_of(8, 71);
    tfm_arena measure = tfm_arena_measuring();
    function call;
    int one;
    memset(layers, 0, sizeof layers);
    layers[0].self_attn = attention_of(8, 72), layers[0].ffn = ffn_of(80);
    layers[0].norm1 = norm_of(8, 84), layers[0].norm2 = norm_of(8, 86);
    kept = layers[1] = layers[0];
    w.layers = layers, w.n_layers = 2, w.norm = &norm;
    start_giving();
    given.out = &out, given.x = &x, given.attention = &attention;
    for (one = 0; one < 2; one++) {
        call = one ? call_encoder_layer : call_encoder;
        given.weights = one ? (const void *)&layers[1] : (const void *)&w;
        if (one) attention = tfm_tensor_make(output_memory[1], TFM_DTYPE_F32, 4, dims + 1);
        accepted(call);
        wrong_argument(call, &given.x, "x", 0);
        wrong_output(call, &out, "out", SHAPED);
        given.out = NULL;
        refused(call, TFM_E_ARGUMENT, "out is NULL"), given.out = &out;
        given.weights = NULL;
        refused(call, TFM_E_ARGUMENT, "is NULL");
        given.weights = one ? (const void *)&layers[1] : (const void *)&w;
        stack_attention(call, &attention, "attention");
        given.attention = NULL;
        accepted(call);
        wrong_residual(call, &layers[1].self_attn, "self_attn");
        wrong_ffn(call, &layers[1].ffn);
        wrong_norm(call, &layers[1].norm1, "norm1");
        wrong_norm(call, &layers[1].norm2, "norm2");
#ifndef __cplusplus
        layers[1].order = (tfm_norm_order)7;
        refused(call, TFM_E_ARGUMENT, "order is 7, expected TFM_NORM_ORDER_POST"), layers[1] = kept;
#endif
        wrong_masks(call, &given.masks, 3, 3);
        small_arenas(call);
        given.attention = &attention;
    }
    given.weights = &w, given.attention = NULL;
    wrong_norm(call_encoder, &norm, "norm");
    w.n_layers = 0, w.layers = NULL;
    CHECK(call_encoder() == TFM_OK, "");
    expected = test_like(x);
    CHECK(tfm_layer_norm(&expected, &x, &norm, &err) == TFM_OK &&
              test_difference(&expected, &out) == 0,
          "no layers: only the norm is applied");
    give_outputs();
    w.norm = NULL, given.scratch = &measure, w.n_layers = 2, w.layers = layers;
    /* sizes beyond any memory */
    layers[0] = kept;
    x = tfm_tensor_3d(output_memory[1], TFM_DTYPE_F32, 1, (int64_t)1 << 53, 8), out = x;
    CHECK(call_encoder() == (sizeof(size_t) > 4 ? TFM_OK : TFM_E_OVERFLOW), "2^53 positions: %s",
          err.text);
    x = tfm_tensor_3d(output_memory[1], TFM_DTYPE_F32, 1, (int64_t)1 << 58, 8), out = x;
    refused(call_encoder, TFM_E_OVERFLOW, "");
    CHECK(n_refused > 200, "encoders: %d times refused", n_refused);
}

/* Sets to = x, plus y if y is not NULL. */
static tfm_tensor sum_of(const tfm_tensor *x, const tfm_tensor *y) {
    tfm_tensor to = test_like(*x);
    int64_t i;
    for (i = 0; i < test_count(x); i++) ((float *)to.data)[i] = at(x, i) + (y ? at(y, i) : 0);
    return to;
}

/* Compares a decoder layer with its parts: an SSRU, cross-attention, a feed-forward, and their
   norms. */
static void ssru_layers(void) {
    tfm_tensor x = pattern(3, 2, 5, 8, 130), memory = pattern(3, 2, 4, 6, 131);
    tfm_tensor out = test_like(x), y = test_like(x);
    tfm_decoder_layer_weights w;
    int pre, part;
    memset(&w, 0, sizeof w);
    w.ssru = ssru_of(8, 8, 132), w.cross_attn = attention_of(6, 135), w.ffn = ffn_of(143);
    w.norm1 = norm_of(8, 147), w.norm2 = norm_of(8, 149), w.norm3 = norm_of(8, 151);
    for (pre = 0; pre < 2; pre++) {
        tfm_tensor stream = sum_of(&x, NULL), in;
        tfm_status status;
        w.order = pre ? TFM_NORM_ORDER_PRE : TFM_NORM_ORDER_POST;
        for (part = 0; part < 3; part++) {
            const tfm_norm_weights *norm = part == 0 ? &w.norm1 : part == 1 ? &w.norm2 : &w.norm3;
            in = sum_of(&stream, NULL);
            if (pre) CHECK(tfm_layer_norm(&in, &stream, norm, &err) == TFM_OK, "");
            if (part == 0) status = tfm_ssru(&y, NULL, &w.ssru, &in, &scratch, &err);
            else if (part == 1)
                status = test_multi_head(&y, NULL, &w.cross_attn, &in, &memory, &memory, NULL,
                                         &scratch, &err);
            else status = tfm_feed_forward(&y, &in, &w.ffn, &scratch, &err);
            CHECK(status == TFM_OK, "");
            stream = sum_of(&stream, &y);
            if (!pre) CHECK(tfm_layer_norm(&stream, &stream, norm, &err) == TFM_OK, "");
        }
        compare(pre ? "decoder layer with an SSRU, pre-norm, by its parts"
                    : "decoder layer with an SSRU, by its parts",
                test_decoder_layer(&out, NULL, NULL, &w, &x, &memory, NULL, NULL, &scratch, &err),
                &out, &stream);
    }
}

/* ---- features of T5: norms by the root mean square, gates, relative positions ---- */

/* The first distance of each bucket: 32 buckets, up to a distance of 128. */
static const int first_distance[2][32] = {{0, 1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 23, 32, 46, 64, 91},
                                          {0,  1,  2,  3,  4,  5,  6,  7,  8,  9,  10,
                                           11, 12, 13, 14, 15, 16, 19, 21, 24, 27, 31,
                                           35, 40, 46, 52, 59, 67, 77, 87, 99, 113}};

static int64_t bucket_of(int64_t distance, int causal) {
    int64_t n = distance < 0 ? -distance : causal ? 0 : distance, i = causal ? 31 : 15;
    while (n < first_distance[causal][i]) i--;
    return i + (!causal && distance > 0 ? 16 : 0);
}

static void t5_modules(void) {
    enum { T = 150, S = 140, H = 2 };
    tfm_tensor x = pattern(3, 1, T, 8, 160), memory = pattern(3, 1, S, 6, 161);
    tfm_tensor out = test_like(x), expected = test_like(x), stream;
    tfm_tensor got = test_like(tfm_tensor_4d(NULL, TFM_DTYPE_F32, 1, H, T, S)),
               want = test_like(got);
    tfm_tensor itself = test_like(tfm_tensor_4d(NULL, TFM_DTYPE_F32, 1, H, T, T));
    tfm_norm_weights norm = norm_of(8, 162);
    tfm_ffn_weights ffn = ffn_of(164);
    tfm_attention_weights w = attention_of(6, 170);
    static const tfm_activation kinds[] = {TFM_ACTIVATION_RELU, TFM_ACTIVATION_GELU_TANH,
                                           TFM_ACTIVATION_SWISH};
    int64_t t, s, n, k, h;
    int i, causal;
    SECTION("T5");
    norm.kind = TFM_NORM_KIND_RMS_NORM;
    for (t = 0; t < T; t++) {
        double square = 0;
        for (n = 0; n < 8; n++) square += (double)at(&x, t * 8 + n) * (double)at(&x, t * 8 + n);
        for (n = 0; n < 8; n++)
            ((float *)expected.data)[t * 8 + n] = (float)((double)at(&x, t * 8 + n) /
                                                              sqrt(square / 8 + 1e-6) *
                                                              (double)at(&norm.weight, n) +
                                                          (double)at(&norm.bias, n));
    }
    compare("a norm by the root mean square", tfm_layer_norm(&out, &x, &norm, &err), &out,
            &expected);
    ffn.gate = linear_of(7, 8, 168);
    for (i = 0; i < 3; i++) {
        ffn.activation = kinds[i];
        for (t = 0; t < T; t++)
            for (n = 0; n < 8; n++) {
                double sum = (double)at(&ffn.linear2.bias, n);
                for (k = 0; k < 7; k++)
                    sum += (double)at(&ffn.linear2.weight, n * 7 + k) *
                           test_activation(kinds[i], map_at(&ffn.gate, &x, t, k)) *
                           map_at(&ffn.linear1, &x, t, k);
                ((float *)expected.data)[t * 8 + n] = (float)sum;
            }
        compare("a gated feed-forward", tfm_feed_forward(&out, &x, &ffn, &scratch, &err), &out,
                &expected);
    }
    w.relative.table = pattern(2, 32, H, 0, 180);
    for (i = 0; i < 64; i++) ((float *)w.relative.table.data)[i] *= 3;
    for (causal = 0; causal < 2; causal++) {
        w.relative.causal = causal;
        for (h = 0; h < H; h++)
            for (t = 0; t < T; t++) {
                double p[S], sum = 0;
                for (s = 0; s < S; s++) {
                    p[s] = (double)at(&w.relative.table, bucket_of(s - t, causal) * H + h);
                    for (k = 0; k < 3; k++)
                        p[s] += map_at(&w.query, &x, t, 3 * h + k) *
                                map_at(&w.key, &memory, s, 3 * h + k) / sqrt(3.0);
                    sum += p[s] = exp(p[s]);
                }
                for (s = 0; s < S; s++)
                    ((float *)want.data)[(h * T + t) * S + s] = (float)(p[s] / sum);
            }
        compare(causal ? "relative positions, causal" : "relative positions",
                test_multi_head(&out, &got, &w, &x, &memory, &memory, NULL, &scratch, &err), &got,
                &want);
    }
    for (causal = 0; causal < 2; causal++) { /* compares layers with their parts */
        tfm_decoder_layer_weights layers[2];
        tfm_encoder_layer_weights encoder_layers[2];
        tfm_decoder_weights decoder = {layers, 2, &norm};
        tfm_encoder_weights encoder = {encoder_layers, 2, &norm};
        tfm_masks masks;
        tfm_tensor y = test_like(x), in = test_like(x);
        memset(layers, 0, sizeof layers), memset(encoder_layers, 0, sizeof encoder_layers);
        memset(&masks, 0, sizeof masks);
        masks.causal = causal;
        stream = sum_of(&x, NULL);
        for (i = 0; i < 2; i++) {
            tfm_decoder_layer_weights *l = &layers[i];
            tfm_attention_weights *self = &l->self_attn;
            l->order = TFM_NORM_ORDER_PRE, l->norm1 = l->norm2 = l->norm3 = norm, l->ffn = ffn;
            *self = attention_of(8, 190 + 20 * (unsigned)i), l->cross_attn = attention_of(6, 230);
            self->relative = w.relative, self->relative.causal = causal, self->scale = 1;
            if (i) self->relative.table = pattern(2, 32, H, 0, 181);
            encoder_layers[i].self_attn = *self, encoder_layers[i].ffn = ffn;
            encoder_layers[i].norm1 = encoder_layers[i].norm2 = norm;
            encoder_layers[i].order = TFM_NORM_ORDER_PRE;
            must(tfm_layer_norm(&in, &stream, &norm, &err));
            must(test_multi_head(&y, &itself, self, &in, &in, &in, &masks, &scratch, &err));
            stream = sum_of(&stream, &y);
            if (causal) {
                must(tfm_layer_norm(&in, &stream, &norm, &err));
                must(test_multi_head(&y, NULL, &l->cross_attn, &in, &memory, &memory, NULL,
                                     &scratch, &err));
                stream = sum_of(&stream, &y);
            }
            must(tfm_layer_norm(&in, &stream, &norm, &err));
            must(tfm_feed_forward(&y, &in, &ffn, &scratch, &err));
            stream = sum_of(&stream, &y);
        }
        must(tfm_layer_norm(&expected, &stream, &norm, &err));
        compare(causal ? "a decoder by its parts" : "an encoder by its parts",
                causal ? test_decoder(&out, NULL, NULL, &decoder, &x, &memory, &masks, NULL,
                                      &scratch, &err)
                       : tfm_encoder(&out, NULL, &encoder, &x, NULL, &scratch, &err),
                &out, &expected);
    }
}

static void wrong_decoders(void) {
    tfm_tensor x = pattern(3, 2, 3, 8, 90), memory = pattern(3, 2, 4, 6, 91);
    tfm_tensor out = dims4(output_memory[0], 3, 2, 3, 8, 0);
    int64_t dims[5] = {2, 2, 2, 3, 3}, cross_dims[5] = {2, 2, 2, 3, 4};
    tfm_tensor self = tfm_tensor_make(output_memory[1], TFM_DTYPE_F32, 5, dims);
    tfm_tensor cross = tfm_tensor_make(output_memory[2], TFM_DTYPE_F32, 5, cross_dims);
    tfm_decoder_layer_weights layers[2], kept;
    tfm_decoder_weights w;
    tfm_norm_weights norm = norm_of(8, 92);
    function call;
    char says[64];
    int one;
    memset(layers, 0, sizeof layers);
    layers[0].self_attn = attention_of(8, 93), layers[0].cross_attn = attention_of(6, 101);
    layers[0].ffn = ffn_of(109), layers[0].norm1 = norm_of(8, 113);
    layers[0].norm2 = norm_of(8, 115), layers[0].norm3 = norm_of(8, 117);
    kept = layers[1] = layers[0];
    w.layers = layers, w.n_layers = 2, w.norm = &norm;
    start_giving();
    given.out = &out, given.x = &x, given.key = &memory;
    given.attention = &self, given.cross = &cross;
    for (one = 0; one < 2; one++) {
        call = one ? call_decoder_layer : call_decoder;
        given.weights = one ? (const void *)&layers[1] : (const void *)&w;
        if (one) {
            self = tfm_tensor_make(output_memory[1], TFM_DTYPE_F32, 4, dims + 1);
            cross = tfm_tensor_make(output_memory[2], TFM_DTYPE_F32, 4, cross_dims + 1);
        }
        accepted(call);
        wrong_argument(call, &given.x, "x", 0);
        wrong_argument(call, &given.key, "memory", 0);
        memory.dims[0] = 1;
        refused(call, TFM_E_SHAPE, "memory is [1, 4, 6], expected [2, 4, 6]"), memory.dims[0] = 2;
        wrong_output(call, &out, "out", SHAPED);
        given.out = NULL;
        refused(call, TFM_E_ARGUMENT, "out is NULL"), given.out = &out;
        given.weights = NULL;
        refused(call, TFM_E_ARGUMENT, "is NULL");
        given.weights = one ? (const void *)&layers[1] : (const void *)&w;
        stack_attention(call, &self, "self_attention");
        stack_attention(call, &cross, "cross_attention");
        given.attention = given.cross = NULL;
        accepted(call);
        wrong_residual(call, &layers[1].self_attn, "self_attn");
        wrong_residual(call, &layers[1].cross_attn, "cross_attn");
        wrong_ffn(call, &layers[1].ffn);
        wrong_norm(call, &layers[1].norm1, "norm1");
        wrong_norm(call, &layers[1].norm2, "norm2");
        wrong_norm(call, &layers[1].norm3, "norm3");
#ifndef __cplusplus
        layers[1].order = (tfm_norm_order)7;
        refused(call, TFM_E_ARGUMENT, "order is 7, expected TFM_NORM_ORDER_POST"), layers[1] = kept;
#endif
        wrong_masks(call, &given.masks, 3, 3);
        wrong_masks(call, &given.cross_masks, 3, 4);
        small_arenas(call), give_outputs();
        layers[1].ssru = ssru_of(8, 8, 120);
        snprintf(says, sizeof says, "layers[%d] has both self_attn and ssru", !one);
        refused(call, TFM_E_ARGUMENT, says);
        memset(&layers[1].self_attn, 0, sizeof layers[1].self_attn);
        accepted(call);
        small_arenas(call), give_outputs();
        wrong_linear(call, &layers[1].ssru.input, "ssru input");
        wrong_linear(call, &layers[1].ssru.gate, "ssru gate");
        layers[1].ssru = ssru_of(7, 8, 123);
        refused(call, TFM_E_SHAPE, "ssru input.weight is [7, 8], expected 8 rows");
        layers[1].ssru = ssru_of(8, 8, 120), layers[1].ssru.input.weight.data = NULL;
        refused(call, TFM_E_ARGUMENT, "ssru input.weight has no data");
        layers[1].ssru = ssru_of(8, 8, 120), given.attention = &self;
        snprintf(says, sizeof says, "self_attention: layers[%d] is an SSRU", !one);
        refused(call, TFM_E_ARGUMENT, says);
        layers[1] = kept;
        given.attention = &self, given.cross = &cross;
    }
    given.weights = &w, given.attention = given.cross = NULL;
    wrong_norm(call_decoder, &norm, "norm");
    w.n_layers = 0, w.layers = NULL, w.norm = NULL;
    CHECK(call_decoder() == TFM_OK && memcmp(output_memory[0], x.data, 48 * sizeof(float)) == 0,
          "no layers and no norm: a copy");
    CHECK(n_refused > 300, "decoders: %d times refused", n_refused);
}

/* Compares the cases in test_folder, which test_drawn.py draws. */
static void drawn_cases(void) {
    norms();
    norms_apart();
    SECTION("attention");
    scaled_dot_product("sdpa_scaled.safetensors", 0);
    scaled_dot_product("sdpa_unscaled.safetensors", 1);
    seed2_attention("seed2_mha_none.safetensors");
    seed2_attention("seed2_mha_2d.safetensors");
    seed2_attention("seed2_mha_3d.safetensors");
    seed4_attention();
    SECTION("stacks");
    stacks("seed2_relu_post.safetensors", TFM_ACTIVATION_RELU, TFM_NORM_ORDER_POST);
    stacks("seed2_relu_pre.safetensors", TFM_ACTIVATION_RELU, TFM_NORM_ORDER_PRE);
    stacks("seed2_gelu_post.safetensors", TFM_ACTIVATION_GELU, TFM_NORM_ORDER_POST);
    stacks("seed2_gelu_pre.safetensors", TFM_ACTIVATION_GELU, TFM_NORM_ORDER_PRE);
}

/* With arguments the program compares only the cases in these folders (test_drawn.py). */
int main(int argc, char **argv) {
    int i;
    scratch_memory = (unsigned char *)test_memory(SCRATCH + 64);
    scratch_memory += (64 - (size_t)((uintptr_t)scratch_memory % 64)) % 64;
    scratch = tfm_arena_make(scratch_memory, SCRATCH);
    for (i = 1; i < argc; i++) {
        test_folder = argv[i];
        drawn_cases();
    }
    if (argc > 1) return test_done("test_modules");
    drawn_cases();
    SECTION("heads and masks");
    heads_by_strides();
    seed0_attention();
    masks_agree();
    rotary();
    grouped_heads();
    positions();
    linears();
    feed_forwards();
    ssrus();
    no_layers();
    ssru_layers();
    t5_modules();
    SECTION("refused calls");
    wrong_positions();
    wrong_modules();
    wrong_ssru();
    wrong_mask_helpers();
    wrong_unpack();
    wrong_dot_product();
    wrong_multi_head();
    wrong_encoders();
    wrong_decoders();
    return test_done("test_modules");
}
