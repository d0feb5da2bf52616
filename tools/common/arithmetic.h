/* arithmetic.h: computes the parameters, operations and bytes of an encoder-decoder Transformer by
   formula. An operation is a multiplication or an addition of a matrix product, as TFM__COUNT
   counts them. Softmax, norms, biases and activations are not counted; they add about one percent.

   Legend, as in transformer.h: B batch, S source length, T target length, l length of either,
   D model width, H heads, K and W key and value width of a head, F feed-forward width,
   V vocabulary, N layers.

   The textbook case is a self-attention of width h = D = HK = HW over l tokens in a batch of b. By
   the general formulas below it has

       4h^2 + 4h parameters        four projections [h, h], each with a bias
       4lbh(2h + l) operations     8lbh^2 for the projections, 4bl^2h for scores and weighted sum */

#ifndef ARITHMETIC_H
#define ARITHMETIC_H

#include "transformer.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

typedef struct model_shape {
    int64_t D, H, K, W;
    int64_t G_encoder, G_decoder; /* heads of keys and values */
    int64_t is_merged;            /* 1: decoder layers have one attention, to target and source */
    int64_t F_encoder, F_decoder, V_source, V_target, N_encoder, N_decoder;
    /* tensors that a model may lack: 1 if it has them, else 0 */
    int64_t tgt_embedding, generator, generator_bias;
    int64_t in_bias, out_proj, out_bias, linear1_bias, linear2_bias;
    /* number of tensors of each norm, weight and bias: 0 to 2 */
    int64_t norm, encoder_norm, decoder_norm, src_embedding_norm, tgt_embedding_norm;
    int64_t out_norm;                     /* of what a sub-layer gives */
    int64_t head_norm;                    /* of queries and keys, a head wide, of self-attention */
    int64_t src_positions, tgt_positions; /* rows of learned positions; 0: none */
    int64_t N_ssru;                       /* decoder layers with an SSRU, no self-attention */
    int64_t ssru_bias, ssru_gate_bias;    /* 1 if the first such layer has the bias */
    int64_t gate, gate_bias;              /* 1 if feed-forward layers have a gate, and its bias */
    int64_t encoder_relative,
        decoder_relative; /* elements of relative and rotary positions, which are always F32 */
    int64_t D_memory;     /* width of the encoder's output; 0: D */
    int64_t D_input, projection_bias; /* columns of src_projection; 0: none */
} model_shape;

static inline int64_t shape_has(const tfm_safetensors *file, const char *name) {
    return tfm_safetensors_find(file, name) >= 0;
}
static inline int64_t shape_norm(const tfm_safetensors *file, const char *weight,
                                 const char *bias) {
    return shape_has(file, weight) + shape_has(file, bias);
}
static inline int64_t shape_rows(const tfm_safetensors *file, const char *name) {
    int64_t i = tfm_safetensors_find(file, name);
    return i < 0 ? 0 : tfm_safetensors_tensor(file, i).dims[0];
}

/* Returns 1 if the first layer of the encoder has a tensor. A model without encoder layers is asked
   for the first decoder layer. */
static inline int64_t shape_part(const tfm_config *c, const tfm_safetensors *file,
                                 const char *part) {
    char name[80];
    snprintf(name, sizeof name, "%s.layers.0.%s", c->n_encoder_layers ? "encoder" : "decoder",
             part);
    return shape_has(file, name);
}

/* Returns the number of elements of a stack's tables of relative positions, and of the frequencies
   of rotary ones. */
static inline int64_t shape_relative(const tfm_safetensors *file, const char *stack, int64_t n) {
    static const char *const parts[] = {"relative_positions.weight", "rotary.frequencies"};
    char name[80];
    int64_t i, count = 0, at;
    int part;
    for (i = -1; i < n; i++)
        for (part = 0; part < 2; part++) {
            if (i < 0) snprintf(name, sizeof name, "%s.%s", stack, parts[part]);
            else
                snprintf(name, sizeof name, "%s.layers.%d.self_attn.%s", stack, (int)i,
                         parts[part]);
            at = tfm_safetensors_find(file, name);
            if (at >= 0)
                count += tfm_safetensors_tensor(file, at).dims[0] *
                         (part ? 1 : tfm_safetensors_tensor(file, at).dims[1]);
        }
    return count;
}

/* Returns the shape of a model that tfm_model_load accepts. Reads from the first layer which biases
   and norms the layers have. If layers differ, the formulas are wrong: compare params_model with
   the number of elements of the tensors. */
static inline model_shape shape_of_model(const tfm_config *c, const tfm_safetensors *file) {
    char name[64];
    model_shape m;
    int i;
    memset(&m, 0, sizeof m);
    m.D = c->d_model, m.H = c->n_heads, m.K = c->d_key, m.W = c->d_value;
    m.G_encoder = c->n_kv_heads, m.G_decoder = c->n_kv_heads_decoder;
    m.is_merged = c->cross_attention;
    m.out_norm = shape_part(c, file, "norm1_out.weight") + shape_part(c, file, "norm1_out.bias");
    m.head_norm = shape_part(c, file, "self_attn.q_norm.weight") +
                  shape_part(c, file, "self_attn.k_norm.weight");
    m.F_encoder = c->d_ff, m.F_decoder = c->d_ff_decoder;
    m.V_source = c->src_vocab_size, m.V_target = c->tgt_vocab_size;
    m.N_encoder = c->n_encoder_layers, m.N_decoder = c->n_decoder_layers;
    m.tgt_embedding = shape_has(file, "tgt_embedding.weight");
    m.generator = shape_has(file, "generator.weight");
    m.generator_bias = shape_has(file, "generator.bias");
    m.in_bias = shape_part(c, file, "self_attn.in_proj_bias") ||
                shape_part(c, file, "self_attn.q_proj.bias");
    m.out_proj = shape_part(c, file, "self_attn.out_proj.weight");
    m.out_bias = shape_part(c, file, "self_attn.out_proj.bias");
    m.linear1_bias = shape_part(c, file, "linear1.bias");
    m.linear2_bias = shape_part(c, file, "linear2.bias");
    m.norm = shape_part(c, file, "norm1.weight") + shape_part(c, file, "norm1.bias");
    m.encoder_norm = shape_norm(file, "encoder.norm.weight", "encoder.norm.bias");
    m.decoder_norm = shape_norm(file, "decoder.norm.weight", "decoder.norm.bias");
    m.src_embedding_norm = shape_norm(file, "src_embedding_norm.weight", "src_embedding_norm.bias");
    m.tgt_embedding_norm = shape_norm(file, "tgt_embedding_norm.weight", "tgt_embedding_norm.bias");
    m.src_positions = shape_rows(file, "src_positions.weight");
    m.tgt_positions = shape_rows(file, "tgt_positions.weight");
    m.gate = c->has_gate;
    m.gate_bias = shape_part(c, file, "linear1_gate.bias");
    if (c->d_memory != c->d_model) m.D_memory = c->d_memory;
    if (shape_has(file, "src_projection.weight")) m.D_input = c->d_input;
    m.projection_bias = shape_has(file, "src_projection.bias");
    m.encoder_relative = shape_relative(file, "encoder", m.N_encoder);
    m.decoder_relative = shape_relative(file, "decoder", m.N_decoder);
    m.N_ssru = c->n_ssru_layers;
    for (i = c->n_decoder_layers - 1; m.N_ssru && i >= 0; i--) {
        snprintf(name, sizeof name, "decoder.layers.%d.ssru.weight", i);
        if (!shape_has(file, name)) continue;
        snprintf(name, sizeof name, "decoder.layers.%d.ssru.bias", i);
        m.ssru_bias = shape_has(file, name);
        snprintf(name, sizeof name, "decoder.layers.%d.ssru_gate.bias", i);
        m.ssru_gate_bias = shape_has(file, name);
    }
    return m;
}

/* ---- parameters, and their bytes ---- */

/* The weight of each thing that is counted: an element of a matrix, a row of a matrix (for its
   scale), and an element of any other tensor. All ones but the row count parameters; bytes count
   memory. */
typedef struct weight_unit {
    int64_t matrix, row, vector;
} weight_unit;

static inline weight_unit unit_parameters(void) {
    weight_unit u = {1, 0, 1};
    return u;
}
/* Returns the bytes of each element if matrices are F32, F16, BF16, or I8 with a scale per row. */
static inline weight_unit unit_bytes(tfm_dtype matrices) {
    weight_unit u = {4, 0, 4};
    if (matrices == TFM_DTYPE_F16 || matrices == TFM_DTYPE_BF16) u.matrix = 2;
    if (matrices == TFM_DTYPE_I8) u.matrix = 1, u.row = 4;
    return u;
}
/* Returns the type of a file's matrices: the type in the first layer, because tools/quantize gives
   all matrices one type. */
static inline tfm_dtype type_of_matrices(const tfm_safetensors *file) {
    int64_t i = tfm_safetensors_find(file, "decoder.layers.0.linear1.weight");
    return i < 0 ? TFM_DTYPE_F32 : tfm_safetensors_tensor(file, i).dtype;
}

/* Returns the size of a matrix [out, in] and of its bias, if bias is 1. */
static inline int64_t size_linear(weight_unit u, int64_t in, int64_t out, int64_t bias) {
    return u.matrix * in * out + (u.row + u.vector * bias) * out;
}
static inline int64_t size_keys_values(const model_shape *m, weight_unit u, int64_t G) {
    return size_linear(u, m->D, G * (m->K + m->W), m->in_bias);
}
/* Returns the size of the key and value projections of cross-attention. They run once per sentence,
   on the encoder's output. */
static inline int64_t size_memory(const model_shape *m, weight_unit u) {
    return size_linear(u, m->D_memory ? m->D_memory : m->D, m->G_decoder * (m->K + m->W),
                       m->in_bias);
}
static inline int64_t size_projection(const model_shape *m, weight_unit u) {
    return m->D_input ? size_linear(u, m->D_input, m->D, m->projection_bias) : 0;
}
static inline int64_t size_attention(const model_shape *m, weight_unit u, int64_t G) {
    return size_linear(u, m->D, m->H * m->K, m->in_bias) + size_keys_values(m, u, G) +
           m->out_proj * size_linear(u, m->H * m->W, m->D, m->out_bias);
}
static inline int64_t size_feed_forward(const model_shape *m, weight_unit u, int64_t F) {
    return size_linear(u, m->D, F, m->linear1_bias) +
           m->gate * size_linear(u, m->D, F, m->gate_bias) +
           size_linear(u, F, m->D, m->linear2_bias);
}
static inline int64_t size_encoder(const model_shape *m, weight_unit u) {
    int64_t layer = size_attention(m, u, m->G_encoder) + size_feed_forward(m, u, m->F_encoder) +
                    2 * (m->norm + m->out_norm) * u.vector * m->D + m->head_norm * u.vector * m->K;
    return m->N_encoder * layer + u.vector * (m->encoder_norm * m->D + m->encoder_relative);
}
static inline int64_t size_decoder(const model_shape *m, weight_unit u) {
    int64_t ssru = size_linear(u, m->D, m->D, m->ssru_bias) +
                   size_linear(u, m->D, m->D, m->ssru_gate_bias);
    int64_t attention = size_attention(m, u, m->G_decoder);
    int64_t cross = attention + size_memory(m, u) - size_keys_values(m, u, m->G_decoder);
    int64_t layer = attention + (m->is_merged ? 0 : cross) + size_feed_forward(m, u, m->F_decoder) +
                    (3 - m->is_merged) * (m->norm + m->out_norm) * u.vector * m->D +
                    m->head_norm * u.vector * m->K;
    return m->N_decoder * layer + m->N_ssru * (ssru - attention) +
           u.vector * (m->decoder_norm * m->D + m->decoder_relative);
}

static inline int64_t params_attention(const model_shape *m) {
    return size_attention(m, unit_parameters(), m->G_encoder ? m->G_encoder : m->G_decoder);
}
/* Counts the parameters of the embeddings. An embedding that both sides share counts once. */
static inline int64_t params_embeddings(const model_shape *m) {
    int64_t rows = m->V_source + m->tgt_embedding * m->V_target + m->src_positions +
                   m->tgt_positions + m->src_embedding_norm + m->tgt_embedding_norm;
    return rows * m->D;
}
/* Counts the parameters of the generator. A weight that is tied to the target embedding counts
   there. */
static inline int64_t params_generator(const model_shape *m) {
    return m->V_target * (m->generator * m->D + m->generator_bias);
}
static inline int64_t params_model(const model_shape *m) {
    weight_unit u = unit_parameters();
    return params_embeddings(m) + size_projection(m, u) + size_encoder(m, u) + size_decoder(m, u) +
           params_generator(m);
}

/* ---- operations ---- */

/* Returns the number of query-key pairs of self-attention over l tokens. Causal attention stops at
   the diagonal. */
static inline int64_t pairs_self(int64_t l, int causal) { return causal ? l * (l + 1) / 2 : l * l; }

/* Counts y[rows, out] = x[rows, in] w^T: a multiplication and an addition per weight and row. */
static inline int64_t ops_linear(int64_t rows, int64_t in, int64_t out) {
    return 2 * rows * in * out;
}
static inline int64_t ops_keys_values(const model_shape *m, int64_t rows, int64_t G) {
    return ops_linear(rows, m->D, G * (m->K + m->W));
}
/* Counts an attention with G heads of keys and values. queries: number of query rows. keys: number
   of rows that are projected to keys and values now; 0 if these are in a cache. pairs: number of
   scores that one head computes. */
static inline int64_t ops_grouped(const model_shape *m, int64_t G, int64_t queries, int64_t keys,
                                  int64_t pairs) {
    return ops_linear(queries, m->D, m->H * m->K) + ops_keys_values(m, keys, G) +
           2 * pairs * m->H * (m->K + m->W) + m->out_proj * ops_linear(queries, m->H * m->W, m->D);
}
static inline int64_t ops_attention(const model_shape *m, int64_t queries, int64_t keys,
                                    int64_t pairs) {
    return ops_grouped(m, m->G_encoder ? m->G_encoder : m->G_decoder, queries, keys, pairs);
}
static inline int64_t ops_feed_forward(const model_shape *m, int64_t rows, int64_t F) {
    return (1 + m->gate) * ops_linear(rows, m->D, F) + ops_linear(rows, F, m->D);
}
/* Counts the key and value projections of the encoder's output in all decoder layers. */
static inline int64_t ops_memory(const model_shape *m, int64_t rows) {
    return m->N_decoder *
           ops_linear(rows, m->D_memory ? m->D_memory : m->D, m->G_decoder * (m->K + m->W));
}
/* Counts the encoder, and the key and value projections of its output. rows: BS. A model without a
   source vocabulary also has the projection of its input vectors. */
static inline int64_t ops_encode(const model_shape *m, int64_t rows, int64_t pairs) {
    return m->N_encoder * (ops_grouped(m, m->G_encoder, rows, rows, pairs) +
                           ops_feed_forward(m, rows, m->F_encoder)) +
           ops_memory(m, rows) + (m->V_source ? 0 : ops_linear(rows, m->D_input, m->D));
}
/* Counts decoder and generator over rows target positions. A teacher-forced pass has BT rows. A
   step has B rows, B(position + 1) self-attention pairs and BS cross-attention pairs. */
static inline int64_t ops_decode(const model_shape *m, int64_t rows, int64_t self_pairs,
                                 int64_t cross_pairs) {
    int64_t self = (m->N_decoder - m->N_ssru) *
                       ops_grouped(m, m->G_decoder, rows, rows, self_pairs) +
                   m->N_ssru * 2 * ops_linear(rows, m->D, m->D);
    int64_t cross = m->is_merged ? 2 * cross_pairs * m->H * (m->K + m->W)
                                 : ops_grouped(m, m->G_decoder, rows, 0, cross_pairs);
    return self + m->N_decoder * (cross + ops_feed_forward(m, rows, m->F_decoder)) +
           ops_linear(rows, m->D, m->V_target);
}

/* ---- bytes ---- */

/* Returns the bytes of rows of the embedding and of learned positions (always F32), and of the norm
   of the embedding, which has norm tensors. */
static inline int64_t bytes_embed(const model_shape *m, weight_unit u, int64_t rows, int64_t norm) {
    return rows * (u.matrix * m->D + u.row) + (m->src_positions ? rows : 0) * u.vector * m->D +
           norm * u.vector * m->D;
}
/* Returns the bytes of weights that the encoder reads for rows positions, each weight once: rows of
   the embeddings and positions, all layers, and the key and value projections of
   cross-attention. */
static inline int64_t bytes_encode(const model_shape *m, weight_unit u, int64_t rows) {
    return (m->V_source ? bytes_embed(m, u, rows, m->src_embedding_norm) : size_projection(m, u)) +
           size_encoder(m, u) + m->N_decoder * size_memory(m, u);
}
static inline int64_t bytes_decode(const model_shape *m, weight_unit u, int64_t rows) {
    return bytes_embed(m, u, rows, m->tgt_embedding_norm) + size_decoder(m, u) -
           m->N_decoder * (m->is_merged ? 0 : size_memory(m, u)) +
           size_linear(u, m->D, m->V_target, m->generator_bias);
}
/* Returns the bytes of the keys and values of target and source positions in all decoder layers, as
   floats. The state of an SSRU is as small as one position and is not counted. */
static inline int64_t bytes_cache(const model_shape *m, int64_t target, int64_t source) {
    return 4 * ((m->N_decoder - m->N_ssru) * target + m->N_decoder * source) * m->G_decoder *
           (m->K + m->W);
}

#endif
