/* random_model.h: makes Transformer base with random weights: 6 + 6 layers, 512 wide, 8 heads, FFN
   2048. A seed gives the same numbers on every machine. */
#ifndef RANDOM_MODEL_H
#define RANDOM_MODEL_H

#include "output.h"
#include "transformer.h"
#include "write_safetensors.h"

enum { TOKEN_START = 1, TOKEN_END = 2 };
enum { D = 512, F = 2048, LAYERS = 6 };
static int random_layers = LAYERS; /* of the encoder, and of the decoder */

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

/* A model while it is made. The writer only points to the tensors' data, so it is kept here. */
typedef struct maker {
    st_writer writer;
    void *data[512];
    /* made counts tensors without their scales. It is part of each tensor's seed, so a model with
       scales has the same random numbers as one without. */
    int n, made;
    tfm_dtype type; /* type of matrices */
    uint64_t seed;
    int failed;
} maker;

/* Allocates n floats that stay until the model is written. Sets failed if there is no memory. */
static float *make_floats(maker *m, int64_t n) {
    float *data = NULL;
    if (m->n < (int)(sizeof m->data / sizeof *m->data))
        data = (float *)malloc((size_t)n * sizeof *data);
    if (data) m->data[m->n++] = data;
    else m->failed = 1;
    return data;
}

/* Adds a tensor [d0, d1], or [d0] if d1 is 0, with numbers between -scale and scale; scale 0: ones.
   Each tensor has its own random sequence, so models with different vocabularies have equal
   layers. */
static void make(maker *m, const char *prefix, const char *name, int64_t d0, int64_t d1,
                 float scale) {
    int64_t n = d0 * (d1 ? d1 : 1), dims[2], i;
    float *data = make_floats(m, n), *scales = d1 && data ? make_floats(m, d0) : NULL;
    tfm_dtype type = d1 ? m->type : TFM_DTYPE_F32;
    char whole[128];
    if (m->failed) return;
    if (scale > 0) fill(data, n, scale, mix(m->seed + (uint64_t)m->made));
    else
        for (i = 0; i < n; i++) data[i] = 1;
    /* converts in place: no type is larger than F32, so a converted row never reaches the next
       row */
    for (i = 0; type != TFM_DTYPE_F32 && i < d0; i++) {
        float row[F]; /* F is the largest d1 */
        memcpy(row, data + i * d1, (size_t)d1 * sizeof *row);
        st_row(type, (char *)data + i * d1 * tfm_dtype_bits(type) / 8, row, d1, &scales[i]);
    }
    m->made++;
    dims[0] = d0, dims[1] = d1;
    snprintf(whole, sizeof whole, "%s%s", prefix, name);
    st_add(&m->writer, whole, tfm_tensor_make(data, type, d1 ? 2 : 1, dims));
    snprintf(whole, sizeof whole, "%s%s_scale", prefix, name);
    if (type == TFM_DTYPE_I8) st_add(&m->writer, whole, tfm_tensor_1d(scales, TFM_DTYPE_F32, d0));
}

/* Adds weight and bias of a linear layer. size: expected size of outputs relative to inputs. */
static void make_linear(maker *m, const char *prefix, const char *weight, const char *bias,
                        int64_t out, int64_t in, float size) {
    make(m, prefix, weight, out, in, size * sqrtf(3.0f / (float)in));
    make(m, prefix, bias, out, 0, 0.01f);
}

/* Size of a sublayer's output relative to its residual. With 1 the biases of the layers would hide
   the words, and all positions would get the same logits. */
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

/* Writes Transformer base to a file, or to memory if path is NULL. */
static int make_model(const char *path, int32_t vocabulary, uint64_t seed, tfm_dtype type,
                      void **data, size_t *size) {
    maker *m = (maker *)calloc(1, sizeof *m);
    const char *fault;
    char config[200];
    int i;
    if (!m) return output_fail("bench", "the model", "no memory");
    st_init(&m->writer);
    m->seed = mix(seed);
    m->type = type;
    snprintf(config, sizeof config,
             "{\"n_heads\": 8, \"embedding_scale\": \"sqrt_d\", \"start\": %d, \"end\": %d}",
             (int)TOKEN_START, (int)TOKEN_END);
    st_add_metadata(&m->writer, "transformer.config", config);
    make(m, "src_embedding", ".weight", vocabulary, D, sqrtf(3.0f / (float)D));
    /* a tied generator would translate each word to itself */
    make(m, "generator", ".weight", vocabulary, D, sqrtf(3.0f / (float)D));
    for (i = 0; i < random_layers; i++) make_layer(m, "encoder", i, 0);
    for (i = 0; i < random_layers; i++) make_layer(m, "decoder", i, 1);
    if (m->failed) fault = "no memory";
    else fault = path ? st_write_file(&m->writer, path) : st_write_memory(&m->writer, data, size);
    if (fault) output_fail("bench", "the model", fault);
    st_free(&m->writer);
    for (i = 0; i < m->n; i++) free(m->data[i]);
    free(m);
    return !fault;
}

#endif
