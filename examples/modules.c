/* modules: attention and layers on tensors of your own, without a model file.

   The attention example that every tutorial has: a batch of 4 sequences of 10 positions, width 128,
   8 heads, and the shapes that come out. Then the same weights in an encoder layer, with pads.
   cc -O2 -I. examples/modules.c -o modules -lm */
#define TRANSFORMER_IMPLEMENTATION
#include "transformer.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { B = 4, L = 10, D = 128, H = 8, F = 512 };

/* Weights of the size that training starts from: uniform in +-1/sqrt(columns). */
static tfm_tensor random_matrix(int64_t rows, int64_t columns, unsigned *seed) {
    float *data = (float *)malloc((size_t)(rows * columns) * sizeof(float));
    int64_t i;
    if (!data) exit(2);
    for (i = 0; i < rows * columns; i++) {
        *seed = *seed * 1664525u + 1013904223u;
        data[i] = ((float)(*seed >> 8) / 8388608.0f - 1.0f) / sqrtf((float)columns);
    }
    return tfm_tensor_2d(data, TFM_F32, rows, columns);
}

static void print_shape(const char *name, const tfm_tensor *t) {
    int i;
    printf("%-10s [", name);
    for (i = 0; i < t->rank; i++) printf("%s%d", i ? ", " : "", (int)t->dims[i]);
    printf("]\n");
}

int main(void) {
    static float x_data[B * L * D], out_data[B * L * D], weights_data[B * H * L * L];
    static const int32_t lengths[B] = {10, 7, 3, 1};
    tfm_tensor x = tfm_tensor_3d(x_data, TFM_F32, B, L, D);
    tfm_tensor out = tfm_tensor_3d(out_data, TFM_F32, B, L, D);
    tfm_tensor weights = tfm_tensor_4d(weights_data, TFM_F32, B, H, L, L);
    tfm_encoder_layer_weights layer;
    tfm_attention_weights *attention = &layer.self_attn;
    tfm_position_options positions;
    tfm_masks masks;
    tfm_arena scratch = tfm_arena_measuring();
    tfm_error err;
    tfm_status status;
    unsigned seed = 1;
    void *memory;

    memset(&layer, 0, sizeof layer);
    memset(&positions, 0, sizeof positions);
    memset(&masks, 0, sizeof masks);
    attention->n_heads = H;
    attention->query.weight = random_matrix(D, D, &seed);
    attention->key.weight = random_matrix(D, D, &seed);
    attention->value.weight = random_matrix(D, D, &seed);
    attention->out.weight = random_matrix(D, D, &seed);
    layer.ffn.linear1.weight = random_matrix(F, D, &seed);
    layer.ffn.linear2.weight = random_matrix(D, F, &seed);
    masks.key_lengths = lengths;

    /* Positions alone are input enough to look at. */
    status = tfm_positions(&x, &positions, NULL, &err);

    /* A measuring arena tells how much scratch a call needs. */
    if (status == TFM_OK)
        status = tfm_encoder_layer(&out, &weights, &layer, &x, &masks, &scratch, &err);
    memory = malloc(scratch.peak);
    if (!memory) return 2;
    printf("scratch    %d bytes\n", (int)scratch.peak);
    scratch = tfm_arena_make(memory, scratch.peak);

    if (status == TFM_OK)
        status =
            tfm_multi_head_attention(&out, &weights, attention, &x, &x, &x, NULL, &scratch, &err);
    if (status == TFM_OK) {
        print_shape("query", &x);
        print_shape("output", &out);
        print_shape("weights", &weights);
    }
    if (status == TFM_OK)
        status = tfm_encoder_layer(&out, &weights, &layer, &x, &masks, &scratch, &err);
    if (status == TFM_OK) {
        int t;
        print_shape("layer", &out);
        printf("row 2 has %d keys; its first query's weights, head 0:", (int)lengths[2]);
        for (t = 0; t < L; t++) printf(" %.2f", (double)weights_data[2 * weights.strides[0] + t]);
        printf("\n");
    }
    if (status != TFM_OK) fprintf(stderr, "%s\n", err.text);
    free(memory);
    free(attention->query.weight.data), free(attention->key.weight.data);
    free(attention->value.weight.data), free(attention->out.weight.data);
    free(layer.ffn.linear1.weight.data), free(layer.ffn.linear2.weight.data);
    return status == TFM_OK ? 0 : 1;
}
