/* tiny.h: small models with random weights, built in memory. Call tiny_default(), then change
   fields. To make a faulty model, change the writer's entries between tiny_write and tiny_load. */
#ifndef TINY_H
#define TINY_H

#include "test.h"
#include "rows.h"
#include "write_safetensors.h"

/* the error of the current call, and a check for calls that the test depends on */
static tfm_error TEST_UNUSED err;
static void TEST_UNUSED must(tfm_status status) {
    if (status == TFM_OK) return;
    printf("%s\n", err.text);
    exit(2);
}

typedef struct tiny {
    int64_t d, heads, key, value, ff, encoder, decoder, vs, vt;
    int64_t ff_decoder;                   /* feed-forward width of the decoder; 0: ff */
    int64_t src_positions, tgt_positions; /* rows of learned positions; 0: no such tensor */
    int packed;     /* whether query, key and value projections are one tensor, in_proj */
    int more_norms; /* whether there are norms for the embeddings and at the end of each stack
                       too */
    /* leaves out tensors with one of these in their name, one space between them: "bias norm" for
       no bias and plain norms; NULL: leaves out none */
    const char *without;
    const char *config;    /* members of transformer.config after n_heads: ", \"end\": 1" */
    const char *src, *tgt; /* vocabularies, or NULL */
    tfm_dtype dtype; /* the type of the weights: F32, or F16 or BF16 with random bit patterns */
    unsigned seed;
    unsigned ssru;    /* bit i: decoder layer i is an SSRU */
    int t5;           /* gates; relative positions: 1: a table for each stack, 2: for each layer */
    int64_t kv_heads; /* of keys and values; 0: heads */
    int gemma; /* 1: rotary positions, norms of what sub-layers give, and of queries and keys; 2:
                  and one attention of a decoder layer */
    int64_t input,
        memory; /* columns of src_projection (0: no projection), and width of the memory (0: d) */
} tiny;

/* Members of transformer.config of models like T5Gemma and T5Gemma 2, whose tensors tiny_like_gemma
   chooses. */
#define TINY_GEMMA_1                                                                               \
    "\"norm\": \"pre\", \"layer_norm\": \"rms\", \"positions\": \"none\", \"attention_cap\": 2, "  \
    "\"decoder_activation\": \"swish\", \"logit_cap\": 5, \"encoder_windows\": [[0, 3, 2]], "      \
    "\"decoder_windows\": [[1, 3, 1]]"
#define TINY_GEMMA_2                                                                               \
    "\"norm\": \"pre\", \"layer_norm\": \"rms\", \"positions\": \"none\", "                        \
    "\"cross_attention\": \"merged\", \"rotary_layout\": \"interleaved\", "                        \
    "\"decoder_windows\": [[0, 2, 1]]"
/* The configs of models that are not like T5Gemma (0), like T5Gemma (1) and like T5Gemma 2 (2). */
static const char *const TEST_UNUSED tiny_gemma_configs[] = {
    ", \"start\": 1, \"end\": 2", ", \"start\": 1, \"end\": 2, " TINY_GEMMA_1,
    ", \"start\": 1, \"end\": 2, " TINY_GEMMA_2};

static tiny TEST_UNUSED tiny_default(void) {
    tiny t;
    memset(&t, 0, sizeof t);
    t.d = 20, t.heads = 2, t.key = 6, t.value = 5, t.ff = 24, t.encoder = 2, t.decoder = 2;
    t.vs = 11, t.vt = 13;
    t.config = ", \"start\": 1, \"end\": 2";
    t.seed = 1;
    return t;
}

/* Makes a model like T5Gemma (1) or T5Gemma 2 (2), with one head of keys and values; 0: changes
   nothing. The config is the caller's. */
static void TEST_UNUSED tiny_like_gemma(tiny *t, int kind) {
    if (kind) t->gemma = kind, t->kv_heads = 1, t->t5 = 0, t->packed = 0;
}

static unsigned TEST_UNUSED tiny_random(unsigned *seed) {
    *seed = *seed * 1664525u + 1013904223u;
    return *seed >> 8;
}

/* Returns whether t->without keeps a tensor of that name. */
static int TEST_UNUSED tiny_has(const tiny *t, const char *name) {
    const char *part = t->without ? t->without : "", *at;
    size_t n;
    for (; *part; part += n + (part[n] == ' ')) {
        n = strcspn(part, " ");
        for (at = name; *at; at++)
            if (strncmp(at, part, n) == 0) return 0;
    }
    return 1;
}

/* Adds a tensor [d0, d1], or [d0] if d1 is 0, of random numbers of unit scale. */
static void TEST_UNUSED tiny_tensor(st_writer *w, tiny *t, const char *prefix, const char *name,
                                    int64_t d0, int64_t d1) {
    int64_t n = d0 * (d1 ? d1 : 1), i, dims[2];
    float scale = sqrtf(d1 ? 2.0f / (float)d1 : 0.1f), *data;
    char whole[128];
    snprintf(whole, sizeof whole, "%s%s", prefix, name);
    if (!tiny_has(t, whole)) return;
    data = (float *)test_memory((size_t)n * sizeof(float));
    for (i = 0; i < n; i++) data[i] = scale * ((float)tiny_random(&t->seed) / 8388608.0f - 1.0f);
    /* The upper 16 bits of a float are the same number in BF16. As F16 these bits are another
       number, which a cleared top exponent bit keeps below 2. */
    for (i = 0; i < n && t->dtype != TFM_DTYPE_F32; i++) {
        uint32_t bits;
        memcpy(&bits, &data[i], 4);
        if (t->dtype == TFM_DTYPE_F16) bits &= 0xBBFFFFFFu;
        ((uint16_t *)data)[i] = (uint16_t)(bits >> 16);
    }
    dims[0] = d0, dims[1] = d1;
    st_add(w, whole, tfm_tensor_make(data, t->dtype, d1 ? 2 : 1, dims));
}

/* Adds weight and bias of a linear map, or of a norm if in is 0. */
static void TEST_UNUSED tiny_pair(st_writer *w, tiny *t, const char *prefix, const char *name,
                                  int64_t out, int64_t in) {
    char whole[100];
    snprintf(whole, sizeof whole, "%s%s", prefix, name);
    tiny_tensor(w, t, whole, ".weight", out, in);
    tiny_tensor(w, t, whole, ".bias", out, 0);
}

static void TEST_UNUSED tiny_attention(st_writer *w, tiny *t, const char *prefix,
                                       const char *name) {
    int64_t HK = t->heads * t->key, HW = t->heads * t->value;
    int64_t GK = (t->kv_heads ? t->kv_heads : t->heads) * t->key;
    int64_t from = t->memory && strcmp(name, "multihead_attn") == 0 ? t->memory : t->d;
    char whole[80];
    snprintf(whole, sizeof whole, "%s%s.", prefix, name);
    if (t->packed) {
        tiny_tensor(w, t, whole, "in_proj_weight", 2 * HK + HW, t->d);
        tiny_tensor(w, t, whole, "in_proj_bias", 2 * HK + HW, 0);
    } else {
        tiny_pair(w, t, whole, "q_proj", HK, t->d);
        tiny_pair(w, t, whole, "k_proj", GK, from);
        tiny_pair(w, t, whole, "v_proj", GK / t->key * t->value, from);
    }
    if (t->gemma && strcmp(name, "self_attn") == 0) {
        tiny_tensor(w, t, whole, "q_norm.weight", t->key, 0);
        tiny_tensor(w, t, whole, "k_norm.weight", t->key, 0);
    }
    tiny_pair(w, t, whole, "out_proj", t->d, HW);
}

/* of rotary positions: heads are 6 columns wide, of which 6 turn in layer 0 and 4 in the others */
static const float TEST_UNUSED tiny_frequencies[] = {1.0f, 0.5f, 0.0625f};

static void TEST_UNUSED tiny_stack(st_writer *w, tiny *t, const char *name, int64_t layers,
                                   int64_t ff, int cross) {
    char prefix[64];
    int i;
    for (i = 0; i < layers; i++) {
        snprintf(prefix, sizeof prefix, "%s.layers.%d.", name, i);
        if (cross && t->ssru >> i & 1) {
            tiny_tensor(w, t, prefix, "ssru.weight", t->d, t->d);
            tiny_pair(w, t, prefix, "ssru_gate", t->d, t->d);
        } else {
            tiny_attention(w, t, prefix, "self_attn");
        }
        if (cross && t->gemma < 2) tiny_attention(w, t, prefix, "multihead_attn");
        tiny_pair(w, t, prefix, "linear1", ff, t->d);
        if (t->t5) tiny_pair(w, t, prefix, "linear1_gate", ff, t->d);
        if (t->t5 == 2 && !(cross && t->ssru >> i & 1))
            tiny_tensor(w, t, prefix, "self_attn.relative_positions.weight", 9, t->heads);
        tiny_pair(w, t, prefix, "linear2", t->d, ff);
        tiny_pair(w, t, prefix, "norm1", t->d, 0);
        tiny_pair(w, t, prefix, "norm2", t->d, 0);
        if (cross && t->gemma < 2) tiny_pair(w, t, prefix, "norm3", t->d, 0);
        if (!t->gemma) continue;
        tiny_pair(w, t, prefix, "norm1_out", t->d, 0);
        tiny_pair(w, t, prefix, "norm2_out", t->d, 0);
        if (cross && t->gemma < 2) tiny_pair(w, t, prefix, "norm3_out", t->d, 0);
        if (i) continue; /* the others have the stack's */
        snprintf(prefix, sizeof prefix, "%s.layers.%d.self_attn.rotary.frequencies", name, i);
        st_add(w, prefix, tfm_tensor_1d((void *)tiny_frequencies, TFM_DTYPE_F32, 3));
    }
    if (t->gemma) {
        snprintf(prefix, sizeof prefix, "%s.rotary.frequencies", name);
        st_add(w, prefix, tfm_tensor_1d((void *)(tiny_frequencies + 1), TFM_DTYPE_F32, 2));
    }
    if (t->more_norms) tiny_pair(w, t, name, ".norm", t->d, 0);
    if (t->t5 == 1) tiny_tensor(w, t, name, ".relative_positions.weight", 9, t->heads);
}

static void TEST_UNUSED tiny_vocabulary(st_writer *w, const char *name, const char *text) {
    if (text) st_add(w, name, tfm_tensor_1d((void *)text, TFM_DTYPE_U8, (int64_t)strlen(text)));
}

static void TEST_UNUSED tiny_embedding(st_writer *w, tiny *t, const char *side, int64_t vocabulary,
                                       int64_t positions) {
    tiny_tensor(w, t, side, "_embedding.weight", vocabulary, t->d);
    if (positions) tiny_tensor(w, t, side, "_positions.weight", positions, t->d);
    if (t->more_norms) tiny_pair(w, t, side, "_embedding_norm", t->d, 0);
}

/* Fills w with a whole model. */
static void TEST_UNUSED tiny_write(st_writer *w, tiny t) {
    static char config[1 << 16];
    st_init(w);
    snprintf(config, sizeof config, "{\"n_heads\": %d%s}", (int)t.heads, t.config);
    st_add_metadata(w, "transformer.config", config);
    tiny_embedding(w, &t, "src", t.vs, t.src_positions);
    tiny_embedding(w, &t, "tgt", t.vt, t.tgt_positions);
    if (t.input) tiny_pair(w, &t, "", "src_projection", t.d, t.input);
    tiny_stack(w, &t, "encoder", t.encoder, t.ff, 0);
    tiny_stack(w, &t, "decoder", t.decoder, t.ff_decoder ? t.ff_decoder : t.ff, 1);
    tiny_pair(w, &t, "", "generator", t.vt, t.d);
    tiny_vocabulary(w, "src_vocabulary", t.src);
    tiny_vocabulary(w, "tgt_vocabulary", t.tgt);
}

/* Makes a target token more likely by raising its bias. */
static void TEST_UNUSED tiny_raise(st_writer *w, int32_t id, float by) {
    size_t i;
    for (i = 0; i < w->n_entries; i++)
        if (strcmp(w->entries[i].name, "generator.bias") == 0)
            ((float *)w->entries[i].tensor.data)[id] += by;
}

/* Turns every matrix of the writer into bytes with scales, or, with as_floats, into the floats that
   these stand for. */
static void TEST_UNUSED tiny_quantize(st_writer *w, int as_floats) {
    size_t i, n = w->n_entries;
    for (i = 0; i < n; i++) {
        tfm_tensor t = w->entries[i].tensor, scales;
        int64_t row, k, K = t.dims[1];
        int8_t *bytes;
        char name[160];
        if (!st_is_matrix(w->entries[i].name, &t)) continue;
        bytes = (int8_t *)test_memory((size_t)(t.dims[0] * K));
        scales = test_like(tfm_tensor_1d(NULL, TFM_DTYPE_F32, t.dims[0]));
        for (row = 0; row < t.dims[0]; row++) {
            float *floats = (float *)t.data + row * K, scale;
            if (!st_row(TFM_DTYPE_I8, bytes + row * K, floats, K, &scale)) exit(2);
            ((float *)scales.data)[row] = scale;
            for (k = 0; k < K; k++) floats[k] = (float)bytes[row * K + k] * scale;
        }
        if (as_floats) continue;
        w->entries[i].tensor = tfm_tensor_2d(bytes, TFM_DTYPE_I8, t.dims[0], K);
        w->entries[i].bytes = st_bytes(&w->entries[i].tensor);
        snprintf(name, sizeof name, "%s_scale", w->entries[i].name);
        st_add(w, name, scales);
    }
}

/* Makes a packed file of the model: all matrices become panels of k_group columns, those of int8 of
   four columns, except embeddings that are only looked up. The projections must not be one
   tensor. */
static void TEST_UNUSED tiny_pack(st_writer *w, const tiny *t, int64_t k_group) {
    st_writer packed;
    char config[1024], name[160], groups[64] = "";
    size_t i;
    st_init(&packed);
    if (t->kv_heads)
        snprintf(groups, sizeof groups, ", \"n_kv_heads\": %d, \"n_kv_heads_decoder\": %d",
                 (int)t->kv_heads, (int)t->kv_heads);
    snprintf(
        config, sizeof config,
        "{\"n_heads\": %d, \"packed\": 2, \"d_model\": %d, \"d_ff\": %d, \"d_ff_decoder\": %d, "
        "\"d_key\": %d, \"d_value\": %d, \"src_vocab_size\": %d, \"tgt_vocab_size\": %d%s%s}",
        (int)t->heads, (int)t->d, (int)t->ff, (int)(t->ff_decoder ? t->ff_decoder : t->ff),
        (int)t->key, (int)t->value, (int)t->vs, (int)t->vt, groups, t->config);
    st_add_metadata(&packed, "transformer.config", config);
    for (i = 0; i < w->n_entries; i++) {
        const st_entry *e = &w->entries[i];
        tfm_tensor from = e->tensor, to;
        int64_t rows = from.dims[0], columns = from.dims[1];
        int is_scale = st_is_scale(e->name);
        int is_looked_up = strstr(e->name, "_embedding.weight") && tiny_has(t, "generator.weight");
        if (is_scale && !is_looked_up) {
            to = test_like(tfm_tensor_1d(NULL, TFM_DTYPE_F32, st_padded_rows(rows)));
            memset(to.data, 0, (size_t)st_bytes(&to));
            memcpy(to.data, from.data, (size_t)rows * sizeof(float));
        } else if (st_is_matrix(e->name, &from) && !is_looked_up) {
            to = st_panels(NULL, from.dtype, rows, columns,
                           from.dtype == TFM_DTYPE_I8 ? 4 : k_group);
            to.data = test_memory((size_t)st_bytes(&to));
            st_pack(&to, from.data, rows, columns);
        } else {
            to = from;
        }
        st_add(&packed, e->name, to);
        if (to.rank != 4 || to.dtype != TFM_DTYPE_I8) continue;
        snprintf(name, sizeof name, "%s_sums", e->name);
        to = st_sums(NULL, rows, columns);
        to.data = test_memory((size_t)st_bytes(&to));
        st_sum(&to, (const int8_t *)from.data, rows, columns);
        st_add(&packed, name, to);
    }
    st_free(w);
    *w = packed;
}

/* Returns the file's bytes, which live until the test ends. */
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

static tfm_model_options TEST_UNUSED tiny_options(void) {
    tfm_model_options options;
    memset(&options, 0, sizeof options);
    return options;
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

static id_matrix TEST_UNUSED tiny_batch(const int32_t *ids, const int32_t *lengths, int32_t rows,
                                        int32_t width) {
    id_matrix b;
    memset(&b, 0, sizeof b);
    b.ids = ids, b.lengths = lengths, b.rows = rows, b.width = width;
    return b;
}

/* Adds a member to a container's header. */
#define TINY_MEMBER(name, dtype, shape, offsets)                                                   \
    "\"" name "\":{\"dtype\":\"" dtype "\",\"shape\":" shape ",\"data_offsets\":" offsets "}"

#endif
