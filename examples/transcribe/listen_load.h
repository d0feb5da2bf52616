/* listen_load.h: reads the encoder of Moonshine streaming from a model file. listen.h includes it,
   and needs transformer.h and speech.h before it. */
#ifndef LISTEN_LOAD_H
#define LISTEN_LOAD_H

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { LISTEN_TAPS = 5, LISTEN_STRIDE = 2, LISTEN_LAYERS = 64 };
enum { LISTEN_ROWS = 32, LISTEN_FRAMES = 4 * LISTEN_ROWS }; /* computed at once, at most */

typedef struct listen_layer {
    tfm_norm_weights norm1, norm2;
    tfm_linear_weights q, k, v, out, linear1, linear2;
    int32_t left, right; /* position t sees the keys s with t - left < s < t + right */
    int32_t columns, kv_columns;
} listen_layer;

typedef struct listen_weights {
    int32_t frame, width, n_heads, n_layers, n_positions; /* frame: samples */
    float k;                                              /* before asinh */
    tfm_activation activation;
    tfm_linear_weights frames, convolutions[2]; /* [D, frame], [2D, 5 * D], [D, 5 * 2D] */
    listen_layer layers[LISTEN_LAYERS];
    tfm_norm_weights norm;
    tfm_tensor positions; /* [n_positions, D] */
} listen_weights;

/* Returns how many rows of memory n samples give. */
static int64_t listen_positions(const listen_weights *w, int64_t n) {
    if (n < w->frame) return 0;
    n = (n + w->frame - 1) / w->frame; /* the rest of a frame is a frame of zeros */
    n = (n + 1) / 2;
    return (n + 1) / 2;
}

static void listen_free_linear(tfm_linear_weights *w) { free(w->weight.data), free(w->bias.data); }

static void listen_free(listen_weights *w) {
    int32_t i;
    for (i = 0; i < w->n_layers; i++) {
        listen_layer *l = &w->layers[i];
        free(l->norm1.weight.data), free(l->norm2.weight.data);
        listen_free_linear(&l->q), listen_free_linear(&l->k), listen_free_linear(&l->v);
        listen_free_linear(&l->out), listen_free_linear(&l->linear1);
        listen_free_linear(&l->linear2);
    }
    listen_free_linear(&w->frames), listen_free_linear(&w->convolutions[0]);
    listen_free_linear(&w->convolutions[1]);
    free(w->norm.weight.data), free(w->positions.data);
    memset(w, 0, sizeof *w);
}

static tfm_status listen_fail(tfm_error *err, tfm_status status, const char *what,
                              const char *why) {
    snprintf(err->text, sizeof err->text, "%s %s", what, why);
    return err->status = status;
}

/* Reads extra.listen.NAME.weight [rows, columns], and NAME.bias if it is there or needed. */
static tfm_status listen_linear(const tfm_safetensors *file, const char *name, int32_t *rows,
                                int32_t *columns, int bias, tfm_linear_weights *out,
                                tfm_error *err) {
    char whole[96];
    int32_t sizes[2];
    tfm_status status;
    sizes[0] = *rows, sizes[1] = *columns;
    snprintf(whole, sizeof whole, "extra.listen.%s.weight", name);
    status = speech_read(file, whole, 2, sizes, &out->weight, err);
    *rows = sizes[0], *columns = sizes[1];
    snprintf(whole, sizeof whole, "extra.listen.%s.bias", name);
    if (status == TFM_OK && (bias || tfm_safetensors_find(file, whole) >= 0))
        status = speech_read(file, whole, 1, rows, &out->bias, err);
    return status;
}

static tfm_status listen_norm(const tfm_safetensors *file, const char *name, int32_t *D,
                              tfm_norm_weights *out, tfm_error *err) {
    char whole[96];
    snprintf(whole, sizeof whole, "extra.listen.%s.weight", name);
    return speech_read(file, whole, 1, D, &out->weight, err);
}

static tfm_status listen_load_layer(listen_weights *w, const tfm_safetensors *file, int32_t i,
                                    tfm_error *err) {
    listen_layer *l = &w->layers[i];
    const struct {
        const char *name;
        tfm_linear_weights *to;
    } parts[] = {{"self_attn.q_proj", &l->q}, {"self_attn.k_proj", &l->k},
                 {"self_attn.v_proj", &l->v}, {"self_attn.out_proj", &l->out},
                 {"linear1", &l->linear1},    {"linear2", &l->linear2}};
    int32_t *D = &w->width, ff = -1, part;
    char name[64];
    tfm_status status = TFM_OK;
    l->columns = l->kv_columns = -1;
    for (part = 0; part < 6 && status == TFM_OK; part++) {
        int32_t *rows = part == 0 ? &l->columns : part < 3 ? &l->kv_columns : part == 4 ? &ff : D;
        int32_t *columns = part == 3 ? &l->columns : part == 5 ? &ff : D;
        snprintf(name, sizeof name, "layers.%d.%s", (int)i, parts[part].name);
        status = listen_linear(file, name, rows, columns, part >= 4, parts[part].to, err);
    }
    for (part = 1; part <= 2 && status == TFM_OK; part++) {
        snprintf(name, sizeof name, "layers.%d.norm%d", (int)i, (int)part);
        status = listen_norm(file, name, D, part == 1 ? &l->norm1 : &l->norm2, err);
    }
    if (status == TFM_OK && (l->columns % w->n_heads || l->kv_columns % (l->columns / w->n_heads) ||
                             w->n_heads % (l->kv_columns / (l->columns / w->n_heads))))
        status =
            listen_fail(err, TFM_E_TENSOR, "extra.listen:", "the heads do not fit to the shapes");
    return status;
}

/* Reads what the metadata say: heads, activation, and the window of each layer. */
static tfm_status listen_load_config(listen_weights *w, const tfm_safetensors *file,
                                     tfm_error *err) {
    const char *heads = tfm_safetensors_metadata(file, "extra.listen.heads");
    const char *name = tfm_safetensors_metadata(file, "extra.listen.activation");
    const char *at = tfm_safetensors_metadata(file, "extra.listen.windows");
    int k;
    w->n_heads = heads ? (int32_t)strtol(heads, NULL, 10) : 0;
    if (w->n_heads < 1 || w->n_heads > 4096)
        return listen_fail(err, TFM_E_CONFIG, "metadata 'extra.listen.heads'",
                           "is missing or no number of heads");
    for (k = 0; k < TFM_ACTIVATION_COUNT; k++)
        if (name && strcmp(name, tfm_activation_name((tfm_activation)k)) == 0) break;
    if (k == TFM_ACTIVATION_COUNT)
        return listen_fail(err, TFM_E_CONFIG, "metadata 'extra.listen.activation'",
                           "is missing or no activation");
    w->activation = (tfm_activation)k;
    while (at && *at && w->n_layers < LISTEN_LAYERS) {
        listen_layer *l = &w->layers[w->n_layers];
        char *next;
        long left = strtol(at, &next, 10), right = -1;
        if (next != at && *next == ':') right = strtol(at = next + 1, &next, 10);
        if (next == at || left < 1 || left > 4095 || right < 0 || right > 4095) break;
        l->left = (int32_t)left, l->right = right > 1 ? (int32_t)right : 1;
        w->n_layers++, at = next + (*next == ',');
    }
    if (at && !*at && w->n_layers) return TFM_OK;
    w->n_layers = 0; /* no tensor of a layer was read */
    return listen_fail(err, TFM_E_CONFIG, "metadata 'extra.listen.windows'",
                       "is missing or no list of windows, as 16:4,16:0");
}

/* Loads the encoder of a model file. On failure there is nothing to free. */
static tfm_status listen_load(listen_weights *w, const tfm_safetensors *file, tfm_error *err) {
    int32_t sizes[3], one = 1, twice, i;
    tfm_tensor k;
    tfm_status status;
    memset(w, 0, sizeof *w), memset(&k, 0, sizeof k);
    w->frame = w->width = w->n_positions = -1;
    status = listen_load_config(w, file, err);
    if (status == TFM_OK)
        status = listen_linear(file, "frames", &w->width, &w->frame, 0, &w->frames, err);
    if (status == TFM_OK) status = speech_read(file, "extra.listen.log_k", 1, &one, &k, err);
    if (status == TFM_OK) w->k = expf(*(float *)k.data);
    free(k.data);
    for (i = 0; i < 2 && status == TFM_OK; i++) {
        char name[40];
        twice = i ? w->width : 2 * w->width;
        sizes[0] = twice, sizes[1] = LISTEN_TAPS, sizes[2] = i ? 2 * w->width : w->width;
        snprintf(name, sizeof name, "extra.listen.conv%d.weight", (int)i + 1);
        status = speech_read(file, name, 3, sizes, &w->convolutions[i].weight, err);
        snprintf(name, sizeof name, "extra.listen.conv%d.bias", (int)i + 1);
        if (status == TFM_OK)
            status = speech_read(file, name, 1, &twice, &w->convolutions[i].bias, err);
    }
    for (i = 0; i < w->n_layers && status == TFM_OK; i++)
        status = listen_load_layer(w, file, i, err);
    if (status == TFM_OK) status = listen_norm(file, "norm", &w->width, &w->norm, err);
    if (status == TFM_OK) {
        sizes[0] = -1, sizes[1] = w->width;
        status = speech_read(file, "extra.listen.positions.weight", 2, sizes, &w->positions, err);
        w->n_positions = sizes[0];
    }
    if (status != TFM_OK) listen_free(w);
    return status;
}

#endif
