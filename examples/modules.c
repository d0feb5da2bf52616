/* modules: computes multi-head attention on your own tensors, without a model file: 4 sequences of
   up to 10 positions, width 128, 8 heads. It shows that padding gets no attention. Then the same
   with rotary positions, 2 heads of keys and values for all 8 of queries, and a window of 3 keys.
   cc -O2 -I. examples/modules.c -o modules -lm */
#define TRANSFORMER_IMPLEMENTATION
#include "transformer.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { B = 4, L = 10, D = 128, H = 8, K = D / H, G = 2, WINDOW = 3 };

static float x_data[B * L * D], out_data[B * L * D], weights_data[B * H * L * L];
static float in_proj[3 * D * D], out_proj[D * D];

/* Fills data with uniform numbers in +-range. Training initializes weights with range 1/sqrt(D). */
static void fill(float *data, int n, float range, unsigned seed) {
    for (; n; n--, seed = seed * 1664525u + 1013904223u)
        *data++ = ((float)(seed >> 8) / 8388608.0f - 1.0f) * range;
}

/* Calls tfm_multi_head_attention twice: with an arena that measures, and with memory. */
static tfm_status attend(tfm_tensor *out, tfm_tensor *weights, const tfm_attention_weights *w,
                         const tfm_attention_inputs *inputs, tfm_error *err) {
    tfm_arena scratch = tfm_arena_measuring();
    tfm_status status = tfm_multi_head_attention(out, weights, w, inputs, &scratch, err);
    void *memory = malloc(scratch.peak);
    if (!memory) exit(2);
    scratch = tfm_arena_make(memory, scratch.peak);
    if (status == TFM_OK) status = tfm_multi_head_attention(out, weights, w, inputs, &scratch, err);
    free(memory);
    return status;
}

/* Prints the weights that head 0 of query t of a sequence gives to the keys. */
static void print_weights(const char *what, const tfm_tensor *weights, int sequence, int t) {
    int64_t at = sequence * weights->strides[0] + t * weights->strides[2];
    int i;
    printf("%s, head 0:", what);
    for (i = 0; i < L; i++) printf(" %.2f", (double)weights_data[at + i]);
    printf("\n");
}

int main(void) {
    static const int32_t lengths[B] = {10, 7, 3, 1};
    static float frequencies[K / 2], turned_data[D];
    tfm_tensor x = tfm_tensor_3d(x_data, TFM_DTYPE_F32, B, L, D);
    tfm_tensor out = tfm_tensor_3d(out_data, TFM_DTYPE_F32, B, L, D);
    tfm_tensor weights = tfm_tensor_4d(weights_data, TFM_DTYPE_F32, B, H, L, L);
    tfm_tensor packed =
        tfm_tensor_2d(in_proj, TFM_DTYPE_F32, 3 * D, D); /* PyTorch's in_proj_weight */
    tfm_tensor last = tfm_tensor_3d(x_data + (L - 1) * D, TFM_DTYPE_F32, 1, 1, D);
    tfm_tensor turned = tfm_tensor_3d(turned_data, TFM_DTYPE_F32, 1, 1, D);
    char memory[4096];
    tfm_arena scratch = tfm_arena_make(memory, sizeof memory);
    tfm_attention_weights attention;
    tfm_attention_inputs inputs;
    tfm_masks masks;
    tfm_error err;
    tfm_status status;
    int i;

    memset(&attention, 0, sizeof attention), memset(&masks, 0, sizeof masks);
    inputs.query = inputs.key = inputs.value = &x; /* self-attention */
    inputs.masks = &masks;
    fill(x_data, B * L * D, 3, 1);
    fill(in_proj, 3 * D * D, 1 / sqrtf((float)D), 2), fill(out_proj, D * D, 1 / sqrtf((float)D), 3);
    attention.n_heads = H;
    attention.out.weight = tfm_tensor_2d(out_proj, TFM_DTYPE_F32, D, D);
    masks.key_lengths = lengths; /* keys beyond a sequence's length are padding */
    status = tfm_attention_unpack(&attention, &packed, NULL, &err);
    if (status == TFM_OK) status = attend(&out, &weights, &attention, &inputs, &err);
    if (status == TFM_OK) {
        printf("output  [%d, %d, %d]\n", (int)out.dims[0], (int)out.dims[1], (int)out.dims[2]);
        print_weights("sequence 2 has 3 keys; weights of its first query", &weights, 2, 0);
    }

    /* As in newer models. Frequency i is base^(-i / n). */
    for (i = 0; i < K / 2; i++) frequencies[i] = powf(10000, -(float)i / (K / 2));
    attention.rotary.frequencies = tfm_tensor_1d(frequencies, TFM_DTYPE_F32, K / 2);
    attention.key.weight = tfm_tensor_2d(in_proj + D * D, TFM_DTYPE_F32, G * K, D);
    attention.value.weight = tfm_tensor_2d(in_proj + 2 * D * D, TFM_DTYPE_F32, G * K, D);
    attention.left = WINDOW, attention.right = 1; /* the query's own key and 2 before it */
    if (status == TFM_OK) status = attend(&out, &weights, &attention, &inputs, &err);
    if (status == TFM_OK) print_weights("a window of 3; weights of query 6", &weights, 0, 6);
    /* Programs with a cache turn queries and keys themselves, here a row of heads at position 9. */
    if (status == TFM_OK)
        status = tfm_rotary(&turned, &last, &attention.rotary, H, L - 1, &scratch, &err);
    if (status == TFM_OK)
        printf("column 0 of position 9: %.3f, turned: %.3f\n", (double)x_data[(L - 1) * D],
               (double)turned_data[0]);
    else fprintf(stderr, "%s\n", err.text);
    return status == TFM_OK ? 0 : 1;
}
