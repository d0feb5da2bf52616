/* tiny.h: small models with random weights, built in memory, for tests that need one of a certain
   shape. Change the writer's entries before tiny_load to make faulty ones. */
#ifndef TINY_H
#define TINY_H

#include "test.h"
#include "write_safetensors.h"

typedef struct tiny {
    int64_t d, heads, key, value, ff, encoder, decoder, vs, vt;
    int bare;              /* no biases, norms without weight and bias */
    int learned;           /* rows of learned positions */
    const char *config;    /* members of transformer.config after n_heads: ", \"end\": 1" */
    const char *src, *tgt; /* vocabularies, or NULL */
    tfm_dtype dtype;       /* of the weights: F32, or F16 or BF16 with random bit patterns */
    unsigned seed;
} tiny;

static tiny TEST_UNUSED tiny_default(void) {
    tiny t;
    memset(&t, 0, sizeof t);
    t.d = 20, t.heads = 2, t.key = 6, t.value = 5, t.ff = 24, t.encoder = 2, t.decoder = 2;
    t.vs = 11, t.vt = 13;
    t.config = ", \"start\": 1, \"end\": 2";
    t.seed = 1;
    return t;
}

static unsigned TEST_UNUSED tiny_random(unsigned *seed) {
    *seed = *seed * 1664525u + 1013904223u;
    return *seed >> 8;
}

/* Adds a tensor of unit-scaled random numbers. */
static void TEST_UNUSED tiny_tensor(st_writer *w, tiny *t, const char *prefix, const char *name,
                                    int64_t d0, int64_t d1) {
    int64_t n = d0 * (d1 ? d1 : 1), i, dims[2];
    float scale = sqrtf(d1 ? 2.0f / (float)d1 : 0.1f);
    float *data = (float *)test_memory((size_t)n * sizeof(float));
    char whole[128];
    for (i = 0; i < n; i++) data[i] = scale * ((float)tiny_random(&t->seed) / 8388608.0f - 1.0f);
    /* 16 bits: the upper half of the float is BF16; as F16 the same bits are some other number,
       kept below 2 by clearing the top exponent bit */
    for (i = 0; i < n && t->dtype != TFM_F32; i++) {
        uint32_t bits;
        memcpy(&bits, &data[i], 4);
        if (t->dtype == TFM_F16) bits &= 0xBBFFFFFFu;
        ((uint16_t *)data)[i] = (uint16_t)(bits >> 16);
    }
    snprintf(whole, sizeof whole, "%s%s", prefix, name);
    dims[0] = d0, dims[1] = d1;
    st_add(w, whole, tfm_tensor_make(data, t->dtype, d1 ? 2 : 1, dims));
}

static void TEST_UNUSED tiny_linear(st_writer *w, tiny *t, const char *prefix, const char *name,
                                    int64_t out, int64_t in) {
    char whole[128];
    snprintf(whole, sizeof whole, "%s%s", prefix, name);
    tiny_tensor(w, t, whole, ".weight", out, in);
    if (!t->bare) tiny_tensor(w, t, whole, ".bias", out, 0);
}

static void TEST_UNUSED tiny_attention(st_writer *w, tiny *t, const char *prefix,
                                       const char *name) {
    char whole[100];
    snprintf(whole, sizeof whole, "%s%s", prefix, name);
    tiny_linear(w, t, whole, ".q_proj", t->heads * t->key, t->d);
    tiny_linear(w, t, whole, ".k_proj", t->heads * t->key, t->d);
    tiny_linear(w, t, whole, ".v_proj", t->heads * t->value, t->d);
    tiny_linear(w, t, whole, ".out_proj", t->d, t->heads * t->value);
}

static void TEST_UNUSED tiny_norm(st_writer *w, tiny *t, const char *prefix, const char *name) {
    char whole[128];
    if (t->bare) return;
    snprintf(whole, sizeof whole, "%s%s", prefix, name);
    tiny_tensor(w, t, whole, ".weight", t->d, 0);
    tiny_tensor(w, t, whole, ".bias", t->d, 0);
}

static void TEST_UNUSED tiny_vocabulary(st_writer *w, const char *name, const char *text) {
    if (text) st_add(w, name, tfm_tensor_1d((void *)text, TFM_U8, (int64_t)strlen(text)));
}

/* Fills w with a whole model. */
static void TEST_UNUSED tiny_write(st_writer *w, tiny t) {
    char prefix[64], config[512];
    int i, norm;
    st_init(w);
    snprintf(config, sizeof config, "{\"n_heads\": %d%s}", (int)t.heads, t.config);
    st_add_metadata(w, "transformer.config", config);
    tiny_tensor(w, &t, "src_embedding", ".weight", t.vs, t.d);
    tiny_tensor(w, &t, "tgt_embedding", ".weight", t.vt, t.d);
    if (t.learned) tiny_tensor(w, &t, "src_positions", ".weight", t.learned, t.d);
    for (i = 0; i < t.encoder; i++) {
        snprintf(prefix, sizeof prefix, "encoder.layers.%d.", i);
        tiny_attention(w, &t, prefix, "self_attn");
        tiny_linear(w, &t, prefix, "linear1", t.ff, t.d);
        tiny_linear(w, &t, prefix, "linear2", t.d, t.ff);
        tiny_norm(w, &t, prefix, "norm1");
        tiny_norm(w, &t, prefix, "norm2");
    }
    for (i = 0; i < t.decoder; i++) {
        snprintf(prefix, sizeof prefix, "decoder.layers.%d.", i);
        tiny_attention(w, &t, prefix, "self_attn");
        tiny_attention(w, &t, prefix, "multihead_attn");
        tiny_linear(w, &t, prefix, "linear1", t.ff, t.d);
        tiny_linear(w, &t, prefix, "linear2", t.d, t.ff);
        for (norm = 1; norm <= 3; norm++) {
            char name[16];
            snprintf(name, sizeof name, "norm%d", norm);
            tiny_norm(w, &t, prefix, name);
        }
    }
    tiny_linear(w, &t, "", "generator", t.vt, t.d);
    tiny_vocabulary(w, "src_vocabulary", t.src);
    tiny_vocabulary(w, "tgt_vocabulary", t.tgt);
}

/* The file's bytes; they live until the test ends. */
static void TEST_UNUSED *tiny_bytes(st_writer *w, size_t *size) {
    void *data = NULL, *kept;
    const char *fault = st_write_memory(w, &data, size);
    if (fault) {
        printf("%s\n", fault);
        exit(2);
    }
    kept = test_memory(*size + 64);
    kept = (char *)kept + (64 - (size_t)((uintptr_t)kept % 64)) % 64;
    memcpy(kept, data, *size);
    free(data);
    st_free(w);
    return kept;
}

static tfm_model TEST_UNUSED *tiny_load(st_writer *w, const tfm_model_options *options) {
    size_t size;
    void *data = tiny_bytes(w, &size);
    tfm_model *model = NULL;
    tfm_error error;
    if (tfm_model_load(&model, data, size, options, &error) != TFM_OK) {
        printf("tiny model: %s\n", error.text);
        exit(2);
    }
    return model;
}

static tfm_model TEST_UNUSED *tiny_model(tiny t) {
    st_writer w;
    tiny_write(&w, t);
    return tiny_load(&w, NULL);
}

static tfm_session TEST_UNUSED *tiny_session(const tfm_model *model, int32_t batch, int32_t source,
                                             int32_t target) {
    tfm_session_options o;
    tfm_session *session = NULL;
    tfm_error error;
    memset(&o, 0, sizeof o);
    o.max_batch = batch, o.max_source = source, o.max_target = target;
    if (tfm_session_create(&session, model, &o, &error) != TFM_OK) {
        printf("tiny session: %s\n", error.text);
        exit(2);
    }
    return session;
}

static tfm_batch TEST_UNUSED tiny_batch(const int32_t *ids, const int32_t *lengths, int32_t rows,
                                        int32_t width) {
    tfm_batch b;
    b.ids = ids, b.lengths = lengths, b.rows = rows, b.width = width;
    return b;
}

#endif
