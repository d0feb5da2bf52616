/* Compares the formulas of tools/common/arithmetic.h with the exact number of multiplications and
   additions in the library, and with the tensors of the model files. */
#include <stdint.h>
#define TRANSFORMER_IMPLEMENTATION
#include "transformer.h"
#include "tiny.h"
#include "arithmetic.h"

enum { POOL = 1 << 12, IDS = 1024 };
static float pool[POOL]; /* every tensor of an attention alone is a view of this array */
static int32_t ids[IDS]; /* tokens of any batch */

/* ---- one attention ---- */

static void fill_linear(tfm_linear_weights *w, int64_t in, int64_t out) {
    w->weight = tfm_tensor_2d(pool, TFM_DTYPE_F32, out, in);
    w->bias = tfm_tensor_1d(pool, TFM_DTYPE_F32, out);
}

/* Runs a self-attention of width h over l tokens in a batch of b with the module. */
static int64_t count_self_attention(int64_t l, int64_t b, int64_t h, int32_t heads, int causal) {
    static float out[POOL];
    static unsigned char memory[1 << 18];
    tfm_arena scratch = tfm_arena_make(memory, sizeof memory);
    tfm_tensor x = tfm_tensor_3d(pool, TFM_DTYPE_F32, b, l, h),
               y = tfm_tensor_3d(out, TFM_DTYPE_F32, b, l, h);
    tfm_attention_weights w;
    tfm_masks masks;
    memset(&w, 0, sizeof w);
    memset(&masks, 0, sizeof masks);
    fill_linear(&w.query, h, h);
    w.key = w.value = w.out = w.query;
    w.n_heads = heads;
    masks.causal = causal;
    test_hooks.products = 0;
    CHECK_OK(test_multi_head(&y, NULL, &w, &x, &x, &x, &masks, &scratch, &err), &err);
    return test_hooks.products;
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
        m.D = h, m.H = m.G_encoder = heads, m.K = m.W = h / heads;
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
    const char *name;
    int32_t B, S, T;
    tiny t;
} model_case;

static model_case make_case(const char *name, int32_t B, int32_t S, int32_t T) {
    model_case c;
    c.name = name, c.B = B, c.S = S, c.T = T;
    c.t = tiny_default();
    c.t.config = ", \"start\": 1"; /* no end token */
    return c;
}

/* Returns how many tensors a norm has. */
static int64_t norm_tensors(const tiny *t, const char *norm) {
    char weight[64], bias[64];
    snprintf(weight, sizeof weight, "%s.weight", norm);
    snprintf(bias, sizeof bias, "%s.bias", norm);
    return tiny_has(t, weight) + tiny_has(t, bias);
}

static model_shape shape_of_tiny(const tiny *t) {
    model_shape m;
    int i;
    memset(&m, 0, sizeof m);
    m.D = t->d, m.H = t->heads, m.K = t->key, m.W = t->value;
    m.G_encoder = m.G_decoder = t->kv_heads ? t->kv_heads : t->heads;
    m.is_merged = t->gemma == 2, m.head_norm = t->gemma ? 2 : 0;
    m.out_norm = t->gemma ? norm_tensors(t, "norm1_out") : 0;
    m.F_encoder = t->ff, m.F_decoder = t->ff_decoder ? t->ff_decoder : t->ff;
    m.V_source = t->vs, m.V_target = t->vt;
    m.N_encoder = t->encoder, m.N_decoder = t->decoder;
    m.tgt_embedding = tiny_has(t, "tgt_embedding.weight");
    m.generator = tiny_has(t, "generator.weight");
    m.generator_bias = tiny_has(t, "generator.bias");
    m.in_bias = tiny_has(t, t->packed ? "in_proj_bias" : "q_proj.bias");
    m.out_proj = tiny_has(t, "out_proj.weight"), m.out_bias = tiny_has(t, "out_proj.bias");
    m.linear1_bias = tiny_has(t, "linear1.bias"), m.linear2_bias = tiny_has(t, "linear2.bias");
    m.gate = t->t5 > 0, m.gate_bias = m.gate && tiny_has(t, "linear1_gate.bias");
    m.encoder_relative = 9 * t->heads * (t->t5 == 2 ? t->encoder : t->t5);
    m.decoder_relative = 9 * t->heads * (t->t5 == 2 ? t->decoder : t->t5);
    if (t->gemma) m.encoder_relative += 5, m.decoder_relative += 5; /* frequencies */
    m.norm = norm_tensors(t, "norm1");
    m.encoder_norm = t->more_norms * norm_tensors(t, "encoder.norm");
    m.decoder_norm = t->more_norms * norm_tensors(t, "decoder.norm");
    m.src_embedding_norm = t->more_norms * norm_tensors(t, "src_embedding_norm");
    m.tgt_embedding_norm = t->more_norms * norm_tensors(t, "tgt_embedding_norm");
    m.src_positions = t->src_positions, m.tgt_positions = t->tgt_positions;
    for (i = 0; i < t->decoder; i++) m.N_ssru += t->ssru >> i & 1;
    m.ssru_gate_bias = t->ssru && tiny_has(t, "ssru_gate.bias");
    m.D_memory = t->memory, m.D_input = t->input;
    m.projection_bias = t->input && tiny_has(t, "src_projection.bias");
    return m;
}

/* Makes tokens, or vectors for a model that takes no tokens. */
static id_matrix source_of(const model_case *c, const int32_t *lengths) {
    static tfm_tensor vectors;
    const tiny *t = &c->t;
    id_matrix b = tiny_batch(ids, lengths, c->B, c->S);
    if (t->vs) return b;
    vectors = tfm_tensor_3d(pool, TFM_DTYPE_F32, c->B, c->S,
                            t->encoder  ? (t->input ? t->input : t->d)
                            : t->memory ? t->memory
                                        : t->d);
    b.ids = NULL;
    if (t->encoder) b.embeddings = &vectors;
    else b.memory = &vectors;
    return b;
}

static void check_parameters(const model_shape *m, const void *data, size_t size,
                             const tfm_config *config) {
    tfm_safetensors *file = NULL;
    model_shape read;
    tfm_tensor tensor;
    int64_t elements = 0, halves = 0, bytes = 0, i;
    if (!CHECK_OK(tfm_safetensors_open(&file, data, size, NULL, &err), &err)) return;
    for (i = 0; i < tfm_safetensors_count(file); i++) {
        tensor = tfm_safetensors_tensor(file, i);
        elements += test_count(&tensor);
        if (strncmp(tfm_safetensors_name(file, i), "encoder.", 8) != 0) continue;
        if (!st_is_matrix(tfm_safetensors_name(file, i), &tensor)) {
            halves += 4 * test_count(&tensor), bytes += 4 * test_count(&tensor);
            continue;
        }
        halves += 2 * test_count(&tensor);
        bytes += test_count(&tensor) + 4 * tensor.dims[0];
    }
    CHECK(params_model(m) == elements, "%lld parameters", (long long)elements);
    CHECK(size_encoder(m, unit_bytes(TFM_DTYPE_BF16)) == halves &&
              size_encoder(m, unit_bytes(TFM_DTYPE_I8)) == bytes,
          "the encoder in %lld bytes as BF16, %lld as I8", (long long)halves, (long long)bytes);
    read = shape_of_model(config, file);
    CHECK(memcmp(&read, m, sizeof read) == 0, "the shape is read back from the file");
    tfm_safetensors_free(file);
}

static void check_forward(const model_case *c, const model_shape *m, tfm_session *session) {
    id_matrix src = source_of(c, NULL), tgt = tiny_batch(ids, NULL, c->B, c->T);
    tfm_tensor logits = tfm_tensor_3d(NULL, TFM_DTYPE_F32, c->B, c->T, m->V_target);
    tfm_forward_options options;
    int64_t B = c->B, S = c->S, T = c->T, expected;
    logits.data = test_memory((size_t)st_bytes(&logits));
    memset(&options, 0, sizeof options);
    for (options.not_causal = 0; options.not_causal < 2 - (m->N_ssru > 0); options.not_causal++) {
        test_hooks.products = 0;
        CHECK_OK(forward_rows(session, &src, &tgt, &options, &logits, &err), &err);
        expected = ops_encode(m, B * S, B * pairs_self(S, 0)) +
                   ops_decode(m, B * T, B * pairs_self(T, !options.not_causal), B * T * S);
        CHECK(test_hooks.products == expected, "forward%s: %lld operations, by formula %lld",
              options.not_causal ? ", not causal" : "", (long long)test_hooks.products,
              (long long)expected);
    }
}

/* Sentences of similar length are encoded together, the longest first, up to the number of
   positions of a pass. Pads that remain are projected like every position, but no query visits
   them. The encoder alone makes no keys and values for the decoder. */
static void check_lengths(const model_case *c, const model_shape *m, tfm_session *session) {
    int32_t lengths[IDS], b, l;
    id_matrix src;
    int64_t tokens = 0, expected = 0, here = 0, longest = 0;
    for (b = 0; b < c->B; b++) tokens += lengths[b] = 1 + (b + c->S / 2) % c->S;
    src = source_of(c, lengths);
    test_hooks.products = 0;
    CHECK_OK(encode_rows(session, &src, &err), &err);
    for (l = c->S; l > 0; l--)
        for (b = 0; b < c->B; b++) {
            if (lengths[b] != l) continue;
            if (here == 0) longest = l, here = tfm__session_group_rows(session) / l;
            expected += ops_encode(m, longest, longest * l) - ops_memory(m, longest);
            if (!c->t.vs) expected -= ops_linear(longest - l, m->D_input, m->D);
            here--;
        }
    CHECK(test_hooks.products == expected,
          "encode %lld tokens of %d sentences: %lld operations, by formula %lld", (long long)tokens,
          (int)c->B, (long long)test_hooks.products, (long long)expected);
}

static void check_steps(const model_case *c, const model_shape *m, tfm_session *session) {
    id_matrix src = source_of(c, NULL);
    tfm_decode_options options;
    int64_t B = c->B, S = c->S, position, expected;
    int32_t running;
    memset(&options, 0, sizeof options);
    options.max_length = c->T; /* Without an end token all rows run to this limit. */
    test_hooks.products = 0;
    CHECK_OK(start_rows(session, &src, NULL, &options, &err), &err);
    expected = ops_encode(m, B * S, B * S * S);
    CHECK(test_hooks.products == expected, "start: %lld operations, by formula %lld",
          (long long)test_hooks.products, (long long)expected);
    for (position = 0; position < c->T; position++) {
        test_hooks.products = 0;
        CHECK_OK(tfm_session_step(session, &running, &err), &err);
        expected = ops_decode(m, B, B * (position + 1), B * S);
        CHECK(test_hooks.products == expected,
              "step at position %d: %lld operations, by formula %lld", (int)position,
              (long long)test_hooks.products, (long long)expected);
    }
    CHECK(running == 0, "no step after the last");
}

static void check_model(const model_case *c) {
    model_shape m = shape_of_tiny(&c->t);
    st_writer w;
    void *data;
    size_t size;
    tfm_model *model = NULL;
    tfm_session *session;
    SECTION(c->name);
    tiny_write(&w, c->t);
    data = tiny_bytes(&w, &size);
    err.text[0] = 0;
    CHECK(tfm_model_load(&model, data, size, NULL, &err) == TFM_OK,
          "model file in memory, %d bytes %s", (int)size, err.text);
    if (!model) return;
    session = tiny_session(model, c->B, c->S, c->T);
    check_parameters(&m, data, size, tfm_model_config(model));
    check_forward(c, &m, session);
    check_lengths(c, &m, session);
    check_steps(c, &m, session);
    tfm_session_free(session);
    tfm_model_free(model);
}

static void models(void) {
    model_case c;
    tiny *t = &c.t;

    c = make_case("the Transformer paper's: post-norm, all biases, packed, one embedding for all",
                  2, 7, 5);
    t->d = 32, t->heads = 4, t->key = t->value = 8, t->ff = 64, t->vs = t->vt = 23;
    t->encoder = t->decoder = 1;
    t->packed = 1;
    t->without = "tgt_embedding generator";
    check_model(&c);

    c = make_case("heads with widths of their own, no biases, plain norms", 3, 6, 4);
    t->d = 24, t->heads = 3, t->key = 10, t->value = 7, t->ff = 50, t->vs = 30, t->vt = 40;
    t->encoder = 3, t->decoder = 2;
    t->without = "bias norm";
    check_model(&c);

    c = make_case("pre-norm, learned positions, embedding norms, packed with narrow heads", 1, 9,
                  8);
    t->d = 18, t->heads = 2, t->key = 5, t->value = 9, t->vs = 17, t->vt = 19;
    t->ff = 40, t->ff_decoder = 30, t->encoder = 2, t->decoder = 3;
    t->src_positions = 12, t->tgt_positions = 11;
    t->packed = t->more_norms = 1;
    t->without = "generator.weight";
    t->config = ", \"start\": 1, \"norm\": \"pre\", \"positions\": \"learned\"";
    check_model(&c);

    c = make_case("no output projection, some biases, norms without bias, shared positions", 2, 3,
                  12);
    t->d = 20, t->heads = 4, t->key = 3, t->value = 5, t->vs = 11, t->vt = 13;
    t->ff = 16, t->ff_decoder = 24, t->encoder = 1, t->decoder = 2;
    t->src_positions = 12;
    t->more_norms = 1;
    t->without = "q_proj.bias k_proj.bias v_proj.bias out_proj linear2.bias tgt_embedding_norm "
                 "norm.bias norm1.bias norm2.bias norm3.bias";
    t->config = ", \"start\": 1, \"positions\": \"learned\"";
    check_model(&c);

    c = make_case("a batch that passes through the scratch in groups", 30, 21, 19);
    t->d = 8, t->heads = 1, t->key = t->value = 8, t->ff = 12, t->vs = t->vt = 9;
    t->encoder = 2, t->decoder = 1;
    t->packed = 1;
    t->without = "tgt_embedding generator.weight";
    check_model(&c);

    c = make_case("a student of Marian: its decoder layers are SSRUs", 2, 7, 5);
    t->d = 24, t->heads = 4, t->key = t->value = 6, t->ff = 40, t->vs = t->vt = 23;
    t->decoder = 3, t->ssru = 7;
    t->without = "tgt_embedding generator.weight";
    t->config = ", \"start_embedding\": \"zero\"";
    check_model(&c);

    c = make_case("T5: relative positions, gates, heads with widths of their own, no biases", 2, 7,
                  5);
    t->t5 = 1, t->without = "bias", t->ff_decoder = 17;
    t->config = ", \"start\": 1, \"layer_norm\": \"rms\", \"positions\": \"none\"";
    check_model(&c);

    c = make_case("relative positions for each layer, biases", 2, 7, 5);
    t->t5 = 2;
    check_model(&c);

    c = make_case("rotary positions, groups of heads, norms before and after sub-layers", 2, 7, 5);
    t->gemma = 1, t->kv_heads = 1, t->without = "bias";
    t->config = ", \"start\": 1, \"norm\": \"pre\", \"positions\": \"none\"";
    check_model(&c);

    c = make_case("one attention of a decoder layer over target and source", 2, 7, 5);
    t->gemma = 2, t->without = "bias";
    t->config = ", \"start\": 1, \"norm\": \"pre\", \"positions\": \"none\", "
                "\"cross_attention\": \"merged\"";
    check_model(&c);

    c = make_case("sources that are embeddings, projected", 3, 6, 4);
    t->input = 31, t->vs = 0, t->without = "src_embedding";
    check_model(&c);

    c = make_case("a decoder alone, for wide memories", 3, 6, 4);
    t->memory = 27, t->vs = 0, t->encoder = 0, t->without = "src_ bias";
    check_model(&c);

    c = make_case("layers of both kinds, no biases", 3, 6, 4);
    t->decoder = 3, t->ssru = 2, t->without = "bias";
    check_model(&c);
}

/* A step reads what its windows show, however far the target is. */
static void windows(void) {
    enum { T = 9 };
    tiny t = tiny_default();
    int64_t counts[T];
    tfm_decode_options options;
    tfm_model *model;
    tfm_session *session;
    id_matrix src;
    st_writer w;
    int32_t running;
    int i;
    SECTION("windows bound the work of a step");
    t.gemma = 1, t.config = ", \"start\": 1, \"norm\": \"pre\", \"positions\": \"none\", "
                            "\"decoder_windows\": [[0, 3, 1], [1, 3, 1]]";
    tiny_write(&w, t);
    model = tiny_load(&w, NULL);
    session = tiny_session(model, 1, 5, T);
    src = tiny_batch(ids, NULL, 1, 5);
    memset(&options, 0, sizeof options);
    options.max_length = T;
    CHECK_OK(start_rows(session, &src, NULL, &options, &err), &err);
    for (i = 0; i < T; i++) {
        test_hooks.products = 0;
        CHECK_OK(tfm_session_step(session, &running, &err), &err);
        counts[i] = test_hooks.products;
    }
    CHECK(counts[0] < counts[1] && counts[1] < counts[2], "it grows up to 3 positions");
    for (i = 3; i < T; i++)
        CHECK(counts[i] == counts[2], "step at position %d: %lld operations", i,
              (long long)counts[i]);
    tfm_session_free(session), tfm_model_free(model);
}

int main(void) {
    unsigned seed = 1;
    size_t i;
    test_hooks.count = 1;
    for (i = 0; i < POOL; i++) pool[i] = (float)tiny_random(&seed) / 8388608.0f - 1.0f;
    for (i = 0; i < IDS; i++)
        ids[i] = (int32_t)(tiny_random(&seed) % 9); /* a token in every vocabulary */
    self_attention();
    models();
    windows();
    return test_done("test_operations");
}
