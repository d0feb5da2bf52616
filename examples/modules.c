/* modules: computes multi-head attention on your own tensors, without a model file: 4 sequences of
   up to 10 positions, width 128, 8 heads. It shows that padding gets no attention.
   cc -O2 -I. examples/modules.c -o modules -lm */
#define TRANSFORMER_IMPLEMENTATION
#include "transformer.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { B = 4, L = 10, D = 128, H = 8 };

static float x_data[B * L * D], out_data[B * L * D], weights_data[B * H * L * L];
static float in_proj[3 * D * D], out_proj[D * D];

/* Fills data with uniform numbers in +-range. Training initializes weights with range 1/sqrt(D). */
static void fill(float *data, int n, float range, unsigned seed) {
    for (; n; n--, seed = seed * 1664525u + 1013904223u)
        *data++ = ((float)(seed >> 8) / 8388608.0f - 1.0f) * range;
}

int main(void) {
    static const int32_t lengths[B] = {10, 7, 3, 1};
    tfm_tensor x = tfm_tensor_3d(x_data, TFM_DTYPE_F32, B, L, D);
    tfm_tensor out = tfm_tensor_3d(out_data, TFM_DTYPE_F32, B, L, D);
    tfm_tensor weights = tfm_tensor_4d(weights_data, TFM_DTYPE_F32, B, H, L, L);
    tfm_tensor packed =
        tfm_tensor_2d(in_proj, TFM_DTYPE_F32, 3 * D, D); /* PyTorch's in_proj_weight */
    tfm_attention_weights attention;
    tfm_attention_inputs inputs;
    tfm_masks masks;
    tfm_arena scratch = tfm_arena_measuring(); /* pass 0 only measures the memory that is needed */
    tfm_error err;
    tfm_status status = TFM_OK;
    void *memory = NULL;
    int pass, i;

    memset(&attention, 0, sizeof attention), memset(&masks, 0, sizeof masks);
    inputs.query = inputs.key = inputs.value = &x; /* self-attention */
    inputs.masks = &masks;
    fill(x_data, B * L * D, 3, 1);
    fill(in_proj, 3 * D * D, 1 / sqrtf((float)D), 2), fill(out_proj, D * D, 1 / sqrtf((float)D), 3);
    attention.n_heads = H;
    attention.out.weight = tfm_tensor_2d(out_proj, TFM_DTYPE_F32, D, D);
    masks.key_lengths = lengths; /* keys beyond a sequence's length are padding */
    if (tfm_attention_unpack(&attention, &packed, NULL, &err) != TFM_OK) return 1;
    for (pass = 0; pass < 2 && status == TFM_OK; pass++) {
        if (pass && !(memory = malloc(scratch.peak))) return 2;
        if (pass) scratch = tfm_arena_make(memory, scratch.peak);
        status = tfm_multi_head_attention(&out, &weights, &attention, &inputs, &scratch, &err);
    }
    if (status == TFM_OK) {
        printf("output  [%d, %d, %d]\n", (int)out.dims[0], (int)out.dims[1], (int)out.dims[2]);
        printf("sequence 2 has %d keys; weights of its first query, head 0:", (int)lengths[2]);
        for (i = 0; i < L; i++) printf(" %.2f", (double)weights_data[2 * weights.strides[0] + i]);
        printf("\n");
    } else fprintf(stderr, "%s\n", err.text);
    free(memory);
    return status == TFM_OK ? 0 : 1;
}
