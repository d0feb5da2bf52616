/* The formulas of tools/arithmetic.h against what the library multiplies and adds, exactly, and
   against the tensors of the model files. */
#include <stdint.h>

static int64_t counted;
#define TFM_COUNT(operations) ((void)(counted += (operations)))
#define TRANSFORMER_IMPLEMENTATION
#include "transformer.h"
#include "test.h"
#include "tools/arithmetic.h"
#include "tools/write_safetensors.h"

static tfm_error err;

/* ---- random models in memory ---- */

enum { POOL = 1 << 14, IDS = 1024 };
static float pool[POOL]; /* all weights are views of this: larger than any tensor below */
static int32_t ids[IDS]; /* tokens of any batch */

static uint32_t next_random(void) {
    static uint32_t state = 1;
    state = state * 1664525u + 1013904223u;
    return state >> 8;
}

/* Adds a tensor [d0, d1], or [d0] where d1 is 0, and returns its elements. */
static int64_t add(st_writer *w, const char *prefix, const char *name, int64_t d0, int64_t d1) {
    int64_t n = d1 ? d0 * d1 : d0;
    float *data = pool + next_random() % (uint32_t)(POOL - n);
    char full[64];
    snprintf(full, sizeof full, "%s%s", prefix, name);
    st_add(w, full, d1 ? tfm_tensor_2d(data, TFM_F32, d0, d1) : tfm_tensor_1d(data, TFM_F32, d0));
    return n;
}

static int64_t add_norm(st_writer *w, const char *prefix, const char *name, const model_shape *m,
                        int64_t tensors) {
    char norm[64];
    int64_t n = 0;
    snprintf(norm, sizeof norm, "%s%s", prefix, name);
    if (tensors > 0) n += add(w, norm, ".weight", m->D, 0);
    if (tensors > 1) n += add(w, norm, ".bias", m->D, 0);
    return n;
}

static int64_t add_attention(st_writer *w, const char *layer, const char *name,
                             const model_shape *m, int packed) {
    int64_t HK = m->H * m->K, HW = m->H * m->W, n = 0;
    char prefix[64];
    snprintf(prefix, sizeof prefix, "%s%s.", layer, name);
    if (packed) {
        n += add(w, prefix, "in_proj_weight", 2 * HK + HW, m->D);
        if (m->in_bias) n += add(w, prefix, "in_proj_bias", 2 * HK + HW, 0);
    } else {
        n += add(w, prefix, "q_proj.weight", HK, m->D) + add(w, prefix, "k_proj.weight", HK, m->D);
        n += add(w, prefix, "v_proj.weight", HW, m->D);
        if (m->in_bias)
            n += add(w, prefix, "q_proj.bias", HK, 0) + add(w, prefix, "k_proj.bias", HK, 0) +
                 add(w, prefix, "v_proj.bias", HW, 0);
    }
    if (m->out_proj) n += add(w, prefix, "out_proj.weight", m->D, HW);
    if (m->out_bias) n += add(w, prefix, "out_proj.bias", m->D, 0);
    return n;
}

/* What layers of both stacks have. */
static int64_t add_layer(st_writer *w, const char *prefix, const model_shape *m, int64_t F,
                         int packed) {
    int64_t n = add_attention(w, prefix, "self_attn", m, packed);
    n += add(w, prefix, "linear1.weight", F, m->D) + add(w, prefix, "linear2.weight", m->D, F);
    if (m->linear1_bias) n += add(w, prefix, "linear1.bias", F, 0);
    if (m->linear2_bias) n += add(w, prefix, "linear2.bias", m->D, 0);
    n += add_norm(w, prefix, "norm1", m, m->norm);
    return n + add_norm(w, prefix, "norm2", m, m->norm);
}

static int64_t add_model(st_writer *w, const model_shape *m, int packed) {
    char prefix[32];
    int64_t n = add(w, "", "src_embedding.weight", m->V_source, m->D), i;
    if (m->tgt_embedding) n += add(w, "", "tgt_embedding.weight", m->V_target, m->D);
    if (m->generator) n += add(w, "", "generator.weight", m->V_target, m->D);
    if (m->generator_bias) n += add(w, "", "generator.bias", m->V_target, 0);
    if (m->src_positions) n += add(w, "", "src_positions.weight", m->src_positions, m->D);
    if (m->tgt_positions) n += add(w, "", "tgt_positions.weight", m->tgt_positions, m->D);
    n += add_norm(w, "", "src_embedding_norm", m, m->src_embedding_norm);
    n += add_norm(w, "", "tgt_embedding_norm", m, m->tgt_embedding_norm);
    for (i = 0; i < m->N_encoder; i++) {
        snprintf(prefix, sizeof prefix, "encoder.layers.%d.", (int)i);
        n += add_layer(w, prefix, m, m->F_encoder, packed);
    }
    for (i = 0; i < m->N_decoder; i++) {
        snprintf(prefix, sizeof prefix, "decoder.layers.%d.", (int)i);
        n += add_layer(w, prefix, m, m->F_decoder, packed);
        n += add_attention(w, prefix, "multihead_attn", m, packed);
        n += add_norm(w, prefix, "norm3", m, m->norm);
    }
    n += add_norm(w, "encoder", ".norm", m, m->encoder_norm);
    return n + add_norm(w, "decoder", ".norm", m, m->decoder_norm);
}

/* ---- one attention ---- */

static void fill_linear(tfm_linear_weights *w, int64_t in, int64_t out) {
    w->weight = tfm_tensor_2d(pool, TFM_F32, out, in);
    w->bias = tfm_tensor_1d(pool, TFM_F32, out);
}

/* A self-attention of width h over l tokens in a batch of b, by the module. */
static int64_t count_self_attention(int64_t l, int64_t b, int64_t h, int32_t heads, int causal) {
    static float out[POOL];
    static unsigned char memory[1 << 18];
    tfm_arena scratch = tfm_arena_make(memory, sizeof memory);
    tfm_tensor x = tfm_tensor_3d(pool, TFM_F32, b, l, h), y = tfm_tensor_3d(out, TFM_F32, b, l, h);
    tfm_attention_weights w;
    tfm_masks masks;
    memset(&w, 0, sizeof w);
    memset(&masks, 0, sizeof masks);
    fill_linear(&w.query, h, h);
    w.key = w.value = w.out = w.query;
    w.n_heads = heads;
    masks.causal = causal;
    counted = 0;
    if (tfm_multi_head_attention(&y, NULL, &w, &x, &x, &x, &masks, &scratch, &err) != TFM_OK)
        CHECK(0, "%s", err.text);
    return counted;
}

static void self_attention(void) {
    static const int shapes[][4] = {/* l, b, h, heads */
                                    {1, 1, 8, 1},
                                    {7, 3, 12, 3},
                                    {16, 2, 32, 8},
                                    {50, 1, 64, 4},
                                    {33, 5, 20, 20}};
    size_t i;
    SECTION("a self-attention alone takes 4lbh(2h + l) operations and 4h^2 + 4h parameters");
    for (i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        int64_t l = shapes[i][0], b = shapes[i][1], h = shapes[i][2], n;
        int32_t heads = shapes[i][3];
        model_shape m;
        memset(&m, 0, sizeof m);
        m.D = h, m.H = heads, m.K = m.W = h / heads;
        m.in_bias = m.out_proj = m.out_bias = 1;
        n = count_self_attention(l, b, h, heads, 0);
        CHECK(n == 4 * l * b * h * (2 * h + l) &&
                  n == ops_attention(&m, b * l, b * l, b * pairs_self(l, 0)),
              "l %d, b %d, h %d, %d heads: %lld operations", (int)l, (int)b, (int)h, (int)heads,
              (long long)n);
        n = count_self_attention(l, b, h, heads, 1);
        CHECK(n == 8 * l * b * h * h + 2 * b * l * (l + 1) * h &&
                  n == ops_attention(&m, b * l, b * l, b * pairs_self(l, 1)),
              "  causal, l(l+1)/2 pairs: %lld operations", (long long)n);
        CHECK(params_attention(&m) == 4 * h * h + 4 * h, "  %lld parameters",
              (long long)params_attention(&m));
    }
}

/* ---- whole models ---- */

typedef struct model_case {
    const char *name, *config;
    int packed; /* the projections of query, key and value lie in one tensor */
    int32_t B, S, T;
    int64_t sizes[10], tensors[13], positions[2]; /* the fields of model_shape, in order */
} model_case;

static model_shape shape_of_case(const model_case *c) {
    model_shape m;
    memset(&m, 0, sizeof m);
    m.D = c->sizes[0], m.H = c->sizes[1], m.K = c->sizes[2], m.W = c->sizes[3];
    m.F_encoder = c->sizes[4], m.F_decoder = c->sizes[5];
    m.V_source = c->sizes[6], m.V_target = c->sizes[7];
    m.N_encoder = c->sizes[8], m.N_decoder = c->sizes[9];
    m.tgt_embedding = c->tensors[0], m.generator = c->tensors[1], m.generator_bias = c->tensors[2];
    m.in_bias = c->tensors[3], m.out_proj = c->tensors[4], m.out_bias = c->tensors[5];
    m.linear1_bias = c->tensors[6], m.linear2_bias = c->tensors[7], m.norm = c->tensors[8];
    m.encoder_norm = c->tensors[9], m.decoder_norm = c->tensors[10];
    m.src_embedding_norm = c->tensors[11], m.tgt_embedding_norm = c->tensors[12];
    m.src_positions = c->positions[0], m.tgt_positions = c->positions[1];
    return m;
}

static void check_parameters(const model_shape *m, const void *data, size_t size, int64_t elements,
                             const tfm_config *config) {
    tfm_safetensors *file = NULL;
    model_shape read;
    CHECK(params_model(m) == elements, "%lld parameters", (long long)elements);
    if (tfm_safetensors_open(&file, data, size, NULL, &err) != TFM_OK) {
        CHECK(0, "%s", err.text);
        return;
    }
    read = shape_of_model(config, file);
    CHECK(memcmp(&read, m, sizeof read) == 0, "the shape is read back from the file");
    tfm_free_safetensors(file);
}

/* A batch of rows x width ids; lengths may be NULL. */
static tfm_batch make_batch(int32_t rows, int32_t width, const int32_t *lengths) {
    tfm_batch batch;
    batch.ids = ids;
    batch.lengths = lengths;
    batch.rows = rows;
    batch.width = width;
    return batch;
}

static void check_forward(const model_case *c, const model_shape *m, tfm_session *session) {
    tfm_batch src = make_batch(c->B, c->S, NULL), tgt = make_batch(c->B, c->T, NULL);
    tfm_tensor logits = tfm_tensor_3d(NULL, TFM_F32, c->B, c->T, m->V_target);
    tfm_forward_options options;
    int64_t B = c->B, S = c->S, T = c->T, expected;
    logits.data = test_memory((size_t)st_bytes(&logits));
    memset(&options, 0, sizeof options);
    for (options.not_causal = 0; options.not_causal < 2; options.not_causal++) {
        counted = 0;
        if (tfm_forward(session, &src, &tgt, &options, &logits, &err) != TFM_OK)
            CHECK(0, "%s", err.text);
        expected = ops_encode(m, B * S, B * pairs_self(S, 0)) +
                   ops_decode(m, B * T, B * pairs_self(T, !options.not_causal), B * T * S);
        CHECK(counted == expected, "forward%s: %lld operations, by formula %lld",
              options.not_causal ? ", not causal" : "", (long long)counted, (long long)expected);
    }
}

/* Pads are projected as every position is, but no query visits those at a row's end. */
static void check_lengths(const model_case *c, const model_shape *m, tfm_session *session) {
    int32_t lengths[IDS], b;
    tfm_batch src = make_batch(c->B, c->S, lengths);
    int64_t visible = 0, expected;
    for (b = 0; b < c->B; b++) visible += lengths[b] = 1 + (b + c->S / 2) % c->S;
    counted = 0;
    if (tfm_encode(session, &src, &err) != TFM_OK) CHECK(0, "%s", err.text);
    expected = ops_encode(m, (int64_t)c->B * c->S, c->S * visible);
    CHECK(counted == expected, "encode, %lld of %lld tokens are no pads: %lld operations",
          (long long)visible, (long long)c->B * c->S, (long long)counted);
}

static void check_steps(const model_case *c, const model_shape *m, tfm_session *session) {
    tfm_batch src = make_batch(c->B, c->S, NULL);
    tfm_decode_options options;
    int64_t B = c->B, S = c->S, position, expected;
    int32_t running;
    options.max_length = c->T; /* without an end token, all rows run until then */
    counted = 0;
    if (tfm_start(session, &src, &options, &err) != TFM_OK) CHECK(0, "%s", err.text);
    expected = ops_encode(m, B * S, B * S * S);
    CHECK(counted == expected, "start: %lld operations", (long long)counted);
    for (position = 0; position < c->T; position++) {
        counted = 0;
        if (tfm_step(session, &running, &err) != TFM_OK) CHECK(0, "%s", err.text);
        expected = ops_decode(m, B, B * (position + 1), B * S);
        CHECK(counted == expected, "step at position %d: %lld operations", (int)position,
              (long long)counted);
    }
    CHECK(running == 0, "and no step after the last");
}

static void check_model(const model_case *c) {
    model_shape m = shape_of_case(c);
    st_writer w;
    const char *fault;
    void *data = NULL;
    size_t size = 0;
    int64_t elements;
    tfm_model *model = NULL;
    tfm_session *session = NULL;
    tfm_session_options limits;
    SECTION(c->name);
    st_init(&w);
    st_add_metadata(&w, "transformer.config", c->config);
    elements = add_model(&w, &m, c->packed);
    fault = st_write_memory(&w, &data, &size);
    CHECK(!fault, "model file in memory, %d bytes%s%s", (int)size, fault ? ": " : "",
          fault ? fault : "");
    memset(&limits, 0, sizeof limits);
    limits.max_batch = c->B, limits.max_source = c->S, limits.max_target = c->T;
    if (!fault && tfm_model_load(&model, data, size, NULL, &err) == TFM_OK &&
        tfm_session_create(&session, model, &limits, &err) == TFM_OK) {
        check_parameters(&m, data, size, elements, tfm_model_config(model));
        check_forward(c, &m, session);
        check_lengths(c, &m, session);
        check_steps(c, &m, session);
    } else if (!fault) {
        CHECK(0, "%s", err.text);
    }
    tfm_free_session(session);
    tfm_free_model(model);
    st_free(&w);
    free(data);
}

int main(void) {
    static const model_case cases[] = {
        {"the paper's: post-norm, all biases, packed, one embedding for all",
         "{\"n_heads\": 4, \"start\": 1}",
         1,
         2,
         7,
         5,
         {32, 4, 8, 8, 64, 64, 23, 23, 1, 1},
         {0, 0, 0, 1, 1, 1, 1, 1, 2, 0, 0, 0, 0},
         {0, 0}},
        {"document 003's: heads of their own widths, no biases, plain norms",
         "{\"n_heads\": 3, \"start\": 0}",
         0,
         3,
         6,
         4,
         {24, 3, 10, 7, 50, 50, 30, 40, 3, 2},
         {1, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0},
         {0, 0}},
        {"pre-norm, learned positions, embedding norms, packed with narrow heads",
         "{\"n_heads\": 2, \"start\": 1, \"norm\": \"pre\", \"positions\": \"learned\"}",
         1,
         1,
         9,
         8,
         {18, 2, 5, 9, 40, 30, 17, 19, 2, 3},
         {1, 0, 1, 1, 1, 1, 1, 1, 2, 2, 2, 2, 2},
         {12, 11}},
        {"no output projection, some biases, norms without bias, shared positions",
         "{\"n_heads\": 4, \"start\": 1, \"positions\": \"learned\"}",
         0,
         2,
         3,
         12,
         {20, 4, 3, 5, 16, 24, 11, 13, 1, 2},
         {1, 1, 1, 0, 0, 0, 1, 0, 1, 1, 1, 1, 0},
         {12, 0}},
        {"a batch that passes through the scratch in groups",
         "{\"n_heads\": 1, \"start\": 0}",
         1,
         30,
         21,
         19,
         {8, 1, 8, 8, 12, 12, 9, 9, 2, 1},
         {0, 0, 1, 1, 1, 1, 1, 1, 2, 0, 0, 0, 0},
         {0, 0}}};
    size_t i;
    for (i = 0; i < POOL; i++) pool[i] = (float)(next_random() % 2001) / 1000.0f - 1.0f;
    for (i = 0; i < IDS; i++) ids[i] = (int32_t)(next_random() % 9); /* in every vocabulary */
    self_attention();
    for (i = 0; i < sizeof cases / sizeof cases[0]; i++) check_model(&cases[i]);
    return test_done("test_operations");
}
