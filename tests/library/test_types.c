/* Compares the writer's conversions of weights with arithmetic that does not use bits, and tests
   the order of its tensors. */
#include "output.h"
#include "transformer.h"
#include "tiny.h"

/* Returns the value that the library reads from 16 bits. */
static float read_16(uint16_t bits, tfm_dtype type) {
    st_writer w;
    tfm_safetensors *file = NULL;
    void *data;
    size_t size;
    float x = 0;
    st_init(&w);
    st_add(&w, "x", tfm_tensor_1d(&bits, type, 1));
    data = tiny_bytes(&w, &size);
    if (CHECK_OK(tfm_safetensors_open(&file, data, size, NULL, &err), &err))
        CHECK_OK(tfm_safetensors_read(file, 0, TFM_DTYPE_F32, &x, &err), &err);
    tfm_safetensors_free(file);
    return x;
}

/* Rounds to the nearest number with so many bits of fraction and no bit below 2^least; ties to
   even. */
static double nearest(double x, int fraction, int least) {
    int exponent;
    double unit, rest, whole;
    if (x == 0) return 0;
    (void)frexp(x, &exponent);
    if (exponent - 1 - fraction > least) least = exponent - 1 - fraction;
    unit = ldexp(1, least);
    whole = floor(x / unit);
    rest = x / unit - whole;
    if (rest > 0.5 || (rest == 0.5 && fmod(whole, 2) != 0)) whole++;
    return whole * unit;
}

static void sixteen_bits(void) {
    unsigned seed = 7;
    int i, f16 = 0, bf16 = 0, n = 0;
    SECTION("floats to 16 bits: the nearest, ties to even");
    for (i = 0; i < 4000; i++) {
        /* numbers with 5 bits more than F16: many ties, exponents in its range and below it */
        double x = ldexp((double)(tiny_random(&seed) % 65536), (int)(tiny_random(&seed) % 38) - 38);
        float y;
        if (i & 1) x = -x;
        y = (float)x;
        n++;
        f16 += (double)read_16(st_f16(y), TFM_DTYPE_F16) == nearest((double)y, 10, -24);
        bf16 += (double)read_16(st_bf16(y), TFM_DTYPE_BF16) == nearest((double)y, 7, -133);
    }
    CHECK(f16 == n, "F16: %d of %d", f16, n);
    CHECK(bf16 == n, "BF16: %d of %d", bf16, n);
    CHECK(st_f16(65519.0f) == 0x7BFF && st_f16(65520.0f) == 0x7C00 && st_f16(-1e9f) == 0xFC00,
          "F16: 65519 is the last, then infinite");
    CHECK(
        st_f16((float)ldexp(1, -25)) == 0 && st_f16((float)ldexp(1.5, -25)) == 1 &&
            st_f16((float)ldexp(1023.5, -24)) == 0x400,
        "  half of the smallest becomes 0, more becomes the smallest; the last denormal rounds up");
    CHECK((st_f16((float)NAN) & 0x7FFF) == 0x7E00 && (st_bf16((float)NAN) & 0x7FFF) > 0x7F80,
          "NaN stays NaN");
    CHECK(st_bf16((float)INFINITY) == 0x7F80 && st_f16(-(float)INFINITY) == 0xFC00,
          "infinite stays infinite");
}

/* Tests integers from -most to most: 127 for 8 bits, 63 for 7. */
static void integers(int most) {
    enum { N = 1000 };
    float row[N], scale, worst = 0;
    int8_t out[N];
    unsigned seed = 3;
    int i, extreme = 0;
    SECTION(most == 127 ? "floats to int8: value = i8 * scale" : "the same to 7 bits");
    for (i = 0; i < N; i++) row[i] = (float)tiny_random(&seed) / 8388608.0f - 1.0f;
    row[500] = -1.75f;
    scale = st_i8_row(out, row, N, (float)most);
    for (i = 0; i < N; i++) {
        float off = fabsf(row[i] - (float)out[i] * scale);
        if (off > worst) worst = off;
        extreme += out[i] < -most || out[i] > most;
    }
    CHECK(scale == 1.75f / (float)most && out[500] == -most && !extreme,
          "the largest is %d times scale", -most);
    CHECK(worst <= 0.5001f * scale && worst > 0.4f * scale, "at most half a scale off: %g of it",
          (double)(worst / scale));
    row[0] = (float)most, row[1] = 2.5f, row[2] = 3.5f, row[3] = -0.5f, row[4] = -1.5f;
    scale = st_i8_row(out, row, 5, (float)most);
    CHECK(scale == 1 && out[1] == 2 && out[2] == 4 && out[3] == 0 && out[4] == -2, "ties to even");
    row[0] = row[1] = 0;
    CHECK(st_i8_row(out, row, 2, (float)most) == 0 && out[0] == 0 && out[1] == 0,
          "zeros have scale 0");
    row[1] = 1e-44f;
    scale = st_i8_row(out, row, 2, (float)most);
    CHECK(scale >= 0 && out[1] <= most && out[1] >= 0, "a tiny scale");
    row[1] = (float)NAN;
    CHECK(st_i8_row(out, row, 2, (float)most) < 0, "NaN is refused");
    row[1] = -(float)INFINITY;
    CHECK(st_i8_row(out, row, 2, (float)most) < 0, "infinite is refused");
}

/* A model file with weights in bytes must give the results of bytes times scales: packed
   projections and their parts, and tables that are both looked up and multiplied with. */
static void bytes_in_a_file(void) {
    static const int32_t ids[] = {3, 4, 5, 6};
    static const tfm_weight_type as[] = {TFM_WEIGHT_TYPE_F32, TFM_WEIGHT_TYPE_AS_STORED,
                                         TFM_WEIGHT_TYPE_F16};
    static const char path[] = "build/test_types.safetensors";
    int kind, i;
    SECTION("a model whose matrices are bytes");
    for (kind = 0; kind < 5; kind++) { /* 3 and 4 are like T5Gemma 1 and 2 */
        tfm_tensor logits[5];
        for (i = 0; i < 5; i++) {
            tiny t = tiny_default();
            tfm_model_options o = tiny_options();
            id_matrix batch = tiny_batch(ids, NULL, 1, 4);
            tfm_model *model;
            tfm_session *s;
            st_writer w;
            t.packed = kind > 0, t.without = kind == 2 ? "generator" : NULL;
            if (kind > 2) tiny_like_gemma(&t, kind - 2), t.config = tiny_gemma_configs[kind - 2];
            if (kind == 1) t.d = 22, t.ff = 26; /* no multiple of four */
            tiny_write(&w, t);
            tiny_quantize(&w, i == 3);
            memset(&o, 0, sizeof o);
            o.weights = as[i % 4 % 3];
            if (i < 4) {
                model = tiny_load(&w, &o);
            } else {
                const char *fault = st_write_file(&w, path);
                if (fault) printf("%s\n", fault), exit(2);
                st_free(&w);
                o.weights = TFM_WEIGHT_TYPE_AS_STORED;
                must(tfm_model_load_file(&model, path, &o, &err));
                remove(path);
            }
            s = tiny_session(model, 1, 4, 4);
            logits[i] = test_like(tfm_tensor_3d(NULL, TFM_DTYPE_F32, 1, 4, 13));
            must(forward_rows(s, &batch, &batch, NULL, &logits[i], &err));
            tfm_session_free(s), tfm_model_free(model);
        }
        CHECK(test_difference(&logits[0], &logits[3]) == 0, "as F32: the numbers of floats");
        CHECK(test_difference(&logits[4], &logits[1]) == 0,
              "from a file, whose rows become panels where they fill them: the same");
        CHECK(test_difference(&logits[1], &logits[3]) < 0.01 &&
                  test_difference(&logits[2], &logits[3]) < 0.001,
              "as bytes they are %.2g off, as F16 %.2g", test_difference(&logits[1], &logits[3]),
              test_difference(&logits[2], &logits[3]));
    }
}

/* A packed file must give the bits of the plain file. Its panels are used in place, rearranged, or
   converted to another type; some rows and columns fill no panel; the file is in the caller's
   memory, at an odd address, or read from disk. */
static void packed_files(void) {
    static const int32_t ids[] = {3, 4, 5, 6};
    static const char path[] = "build/test_types.safetensors";
    static const tfm_dtype kinds[] = {TFM_DTYPE_F32, TFM_DTYPE_F16, TFM_DTYPE_BF16, TFM_DTYPE_I8};
    static const struct {
        int64_t d, ff, heads, key, value, vs, vt;
        const char *without;
        int gemma;
    } sizes[] = {{20, 24, 2, 6, 5, 11, 13, NULL, 0},
                 {22, 26, 2, 7, 3, 11, 33, NULL, 0},
                 {17, 31, 1, 5, 17, 19, 19, "generator tgt_embedding", 0},
                 {16, 2049, 2, 8, 8, 40, 48, "generator", 0},
                 {20, 24, 2, 6, 5, 11, 13, NULL, 1},
                 {22, 26, 4, 7, 3, 11, 33, "generator", 2}};
    size_t kind, size, bytes;
    int i;
    SECTION("a packed file gives the bits of a plain one");
    for (kind = 0; kind < 4; kind++)
        for (size = 0; size < sizeof sizes / sizeof *sizes; size++) {
            int equal = 0, n = 0, as, k_group, how;
            for (as = 0; as <= TFM_WEIGHT_TYPE_I8; as++) {
                tfm_tensor logits[2];
                for (i = 0; i < 2; i++)
                    logits[i] = test_like(tfm_tensor_3d(NULL, TFM_DTYPE_F32, 1, 4, sizes[size].vt));
                for (k_group = 0; k_group <= 4; k_group = k_group ? 2 * k_group : 1)
                    for (how = 0; how < 4; how++) {
                        tiny t = tiny_default();
                        tfm_model_options o = tiny_options();
                        id_matrix batch = tiny_batch(ids, NULL, 1, 4);
                        tfm_model *model = NULL;
                        tfm_session *s;
                        st_writer w;
                        t.d = sizes[size].d, t.ff = sizes[size].ff, t.heads = sizes[size].heads;
                        t.key = sizes[size].key, t.value = sizes[size].value;
                        t.vs = sizes[size].vs, t.vt = sizes[size].vt;
                        t.without = sizes[size].without;
                        tiny_like_gemma(&t, sizes[size].gemma);
                        t.config = tiny_gemma_configs[sizes[size].gemma];
                        if (size == 1) t.ff_decoder = 50, t.ssru = 1;
                        if (size == 2) t.ssru = 3;
                        if (size == 3) t.encoder = t.decoder = 1;
                        t.dtype = kinds[kind] == TFM_DTYPE_I8 ? TFM_DTYPE_F32 : kinds[kind];
                        memset(&o, 0, sizeof o);
                        o.weights = (tfm_weight_type)as;
                        if (how == 3) o.in_place = 1;
                        if (how == 3 && (as ? as != TFM_WEIGHT_TYPE_I8 : kind != 3))
                            continue; /* Rows of floats add up in another order. */
                        tiny_write(&w, t);
                        if (kinds[kind] == TFM_DTYPE_I8) tiny_quantize(&w, 0);
                        if (k_group) tiny_pack(&w, &t, k_group);
                        if (how == 1) {
                            const char *fault = st_write_file(&w, path);
                            if (fault) printf("%s\n", fault), exit(2);
                            st_free(&w);
                            must(tfm_model_load_file(&model, path, &o, &err));
                            remove(path);
                        } else {
                            char *data = (char *)tiny_bytes(&w, &bytes);
                            char *odd = (char *)test_memory(bytes + 1);
                            memcpy(odd + 1, data, bytes);
                            must(
                                tfm_model_load(&model, how == 2 ? odd + 1 : data, bytes, &o, &err));
                        }
                        s = tiny_session(model, 1, 4, 4);
                        must(forward_rows(s, &batch, &batch, NULL, &logits[n > 0], &err));
                        equal += memcmp(logits[0].data, logits[n > 0].data,
                                        (size_t)st_bytes(&logits[0])) == 0;
                        n++;
                        tfm_session_free(s), tfm_model_free(model);
                    }
                if (equal != n) break;
                equal = n = 0;
            }
            CHECK(as > TFM_WEIGHT_TYPE_I8, "%s, sizes %d: in each type",
                  tfm_dtype_name(kinds[kind]), (int)size);
        }
}

static void order(void) {
    static char zeros[64 * 64];
    static const struct {
        const char *name;
        tfm_dtype dtype;
        int64_t n;
    } tensors[] = {{"text", TFM_DTYPE_U8, 7},     {"halves", TFM_DTYPE_F16, 5},
                   {"matrix", TFM_DTYPE_I8, 128}, {"scales", TFM_DTYPE_F32, 3},
                   {"vector", TFM_DTYPE_F32, 16}, {"other", TFM_DTYPE_F16, 64},
                   {"numbers", TFM_DTYPE_I64, 9}};
    static const char *const expected[] = {"matrix", "vector", "other", "numbers",
                                           "scales", "halves", "text"};
    st_writer w;
    tfm_safetensors *file = NULL;
    const char *data;
    size_t size, i;
    int in_order = 1, aligned = 1;
    SECTION("tensors of a multiple of 64 bytes come first, all aligned to 64");
    st_init(&w);
    for (i = 0; i < 7; i++)
        st_add(&w, tensors[i].name, tfm_tensor_1d(zeros, tensors[i].dtype, tensors[i].n));
    data = (const char *)tiny_bytes(&w, &size);
    if (!CHECK_OK(tfm_safetensors_open(&file, data, size, NULL, &err), &err)) return;
    for (i = 0; i < 7; i++) {
        tfm_tensor t = tfm_safetensors_tensor(file, (int64_t)i);
        int64_t at = (const char *)t.data - data;
        in_order &= strcmp(tfm_safetensors_name(file, (int64_t)i), expected[i]) == 0;
        aligned &= at % (i < 3 ? 64 : tfm_dtype_bits(t.dtype) / 8) == 0;
    }
    CHECK(in_order, "then by the size of an element");
    CHECK(aligned, "all are aligned");
    tfm_safetensors_free(file);
}

static void names(void) {
    tfm_tensor matrix = tfm_tensor_2d(NULL, TFM_DTYPE_F32, 2, 3),
               vector = tfm_tensor_1d(NULL, TFM_DTYPE_F32, 3);
    SECTION("names of a model's matrices");
    CHECK(st_is_matrix("encoder.layers.0.linear1.weight", &matrix) &&
              st_is_matrix("decoder.layers.1.multihead_attn.in_proj_weight", &matrix) &&
              st_is_matrix("src_embedding.weight", &matrix),
          "weights");
    CHECK(!st_is_matrix("encoder.layers.0.norm1.weight", &vector) &&
              !st_is_matrix("src_positions.weight", &matrix) &&
              !st_is_matrix("tgt_positions.weight", &matrix) &&
              !st_is_matrix("encoder.layers.0.linear1.weight_scale", &matrix) &&
              !st_is_matrix("extra.weight", &matrix),
          "norms, positions, scales and a program's own tensors are none");
}

/* Rows of x that overlap, as the windows of a spectrogram do, or that are one row many times. BLAS
   has no such rows. */
static void overlapping_rows(void) {
    enum { ROWS = 6, INPUTS = 16, OUTPUTS = 5 };
    static const int64_t strides[] = {0, 5, INPUTS, INPUTS + 3};
    float x[ROWS * (INPUTS + 3)], weight[OUTPUTS * INPUTS], y[ROWS * OUTPUTS];
    unsigned seed = 11;
    int i, k, m, n, wrong;
    SECTION("tfm_linear of rows that overlap");
    for (i = 0; i < ROWS * (INPUTS + 3); i++) x[i] = (float)(tiny_random(&seed) % 9) - 4;
    for (i = 0; i < OUTPUTS * INPUTS; i++) weight[i] = (float)(tiny_random(&seed) % 9) - 4;
    for (k = 0; k < 4; k++) {
        tfm_linear_weights w;
        tfm_tensor from = tfm_tensor_2d(x, TFM_DTYPE_F32, ROWS, INPUTS),
                   to = tfm_tensor_2d(y, TFM_DTYPE_F32, ROWS, OUTPUTS);
        memset(&w, 0, sizeof w);
        w.weight = tfm_tensor_2d(weight, TFM_DTYPE_F32, OUTPUTS, INPUTS);
        from.strides[0] = strides[k];
        if (!CHECK_OK(tfm_linear(&to, &from, &w, &err), &err)) continue;
        for (m = wrong = 0; m < ROWS; m++)
            for (n = 0; n < OUTPUTS; n++) {
                float sum = 0;
                for (i = 0; i < INPUTS; i++) sum += x[m * strides[k] + i] * weight[n * INPUTS + i];
                wrong += y[m * OUTPUTS + n] != sum;
            }
        CHECK(!wrong, "stride %d: %d numbers differ", (int)strides[k], wrong);
    }
}

int main(void) {
    overlapping_rows();
    sixteen_bits();
    integers(127);
    integers(63);
    bytes_in_a_file();
    packed_files();
    order();
    names();
    return test_done("test_types");
}
