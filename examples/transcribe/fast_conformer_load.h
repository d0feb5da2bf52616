/* fast_conformer_load.h: reads a FastConformer encoder from a model file of tools/convert.py.
   fast_conformer.h includes it, and needs transformer.h and speech.h before it. */
#ifndef FAST_CONFORMER_LOAD_H
#define FAST_CONFORMER_LOAD_H

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CONFORMER_MAPS = 6, CONFORMER_SECONDS = 60, CONFORMER_BINS = 257 };
enum { CONFORMER_ROWS = 64, CONFORMER_FRAMES = 256 }; /* computed at once, at most */

/* A convolution over frames and mel bins. The first one makes all channels of the one channel that
   the spectrum has. Each other one convolves every channel by itself, and a product then mixes the
   channels. */
typedef struct conformer_map {
    tfm_linear_weights filter; /* first: [C, taps^2]; others: [taps^2, C]. bias [C] */
    tfm_linear_weights mix;    /* [C, C]; absent of the first */
    int32_t bins;              /* what is left of the mel bins behind it */
} conformer_map;

typedef struct conformer_layer {
    tfm_norm_weights norm_feed1, norm_attention, norm_convolution, norm_feed2, norm_out;
    tfm_linear_weights feed1[2], feed2[2];               /* [F, D], [D, F] */
    tfm_linear_weights query, key, value, out, distance; /* distance: of relative positions */
    tfm_tensor content, place;                           /* u and v, [H * K]: added to queries */
    tfm_linear_weights gated, channel, mix;              /* [2D, D]; [taps, D], bias [D]; [D, D] */
} conformer_layer;

typedef struct conformer {
    int32_t mels, width, n_heads, columns, n_maps, n_layers; /* columns: H * K */
    int32_t channels, taps, stride; /* of the maps: taps in each direction */
    int32_t frames, widest;         /* of 10 ms, at most; columns of the widest product */
    double preemphasis;
    tfm_activation activation;
    conformer_map maps[CONFORMER_MAPS];
    tfm_linear_weights linear;             /* [D, bins * C] */
    conformer_layer *layers;               /* [n_layers]; NULL: the file has no FastConformer */
    float *sound, *features;               /* the samples, with zeros around; [frames, mels] */
    float *rows[CONFORMER_MAPS], *patches; /* a stretch of each map; scratch of a map */
    float *x, *normal, *hidden, *positions, *distances, *q, *k, *v;
} conformer;

/* Returns how many rows n frames have behind the first `maps` convolutions. Zeros stand around a
   map, (taps - 1) / 2 on each side. */
static int64_t conformer_size(const conformer *f, int64_t n, int32_t maps) {
    for (; maps > 0 && n > 0; maps--) {
        n += (f->taps - 1) / 2 * 2 - f->taps;
        n = n < 0 ? 0 : n / f->stride + 1;
    }
    return n;
}

static void conformer_free_linear(tfm_linear_weights *w) {
    free(w->weight.data), free(w->bias.data);
}

static void conformer_free_norm(tfm_norm_weights *w) { free(w->weight.data), free(w->bias.data); }

static void conformer_free(conformer *f) {
    int32_t i, k;
    for (i = 0; i < f->n_layers && f->layers; i++) {
        conformer_layer *l = &f->layers[i];
        conformer_free_norm(&l->norm_feed1), conformer_free_norm(&l->norm_attention);
        conformer_free_norm(&l->norm_convolution), conformer_free_norm(&l->norm_feed2);
        conformer_free_norm(&l->norm_out);
        for (k = 0; k < 2; k++)
            conformer_free_linear(&l->feed1[k]), conformer_free_linear(&l->feed2[k]);
        conformer_free_linear(&l->query), conformer_free_linear(&l->key);
        conformer_free_linear(&l->value), conformer_free_linear(&l->out);
        conformer_free_linear(&l->distance), conformer_free_linear(&l->gated);
        conformer_free_linear(&l->channel), conformer_free_linear(&l->mix);
        free(l->content.data), free(l->place.data);
    }
    for (i = 0; i < CONFORMER_MAPS; i++) {
        conformer_free_linear(&f->maps[i].filter), conformer_free_linear(&f->maps[i].mix);
        free(f->rows[i]);
    }
    conformer_free_linear(&f->linear);
    free(f->layers), free(f->sound), free(f->features), free(f->patches), free(f->x);
    free(f->normal), free(f->hidden), free(f->positions), free(f->distances);
    free(f->q), free(f->k), free(f->v);
    memset(f, 0, sizeof *f);
}

static int conformer_is_in(const tfm_safetensors *file) {
    return tfm_safetensors_find(file, "extra.conformer.linear.weight") >= 0;
}

static tfm_status conformer_fail(tfm_error *err, tfm_status status, const char *what,
                                 const char *why) {
    snprintf(err->text, sizeof err->text, "%s %s", what, why);
    return err->status = status;
}

/* Reads extra.conformer.NAME.weight [rows, columns] and extra.conformer.NAME.bias, which has as
   many numbers as n_bias says: its rows, or the columns of a convolution of single channels. */
static tfm_status conformer_linear(const tfm_safetensors *file, const char *name, int32_t *rows,
                                   int32_t *columns, int32_t *n_bias, tfm_linear_weights *out,
                                   tfm_error *err) {
    char whole[96];
    int32_t sizes[2];
    tfm_status status;
    sizes[0] = *rows, sizes[1] = *columns;
    snprintf(whole, sizeof whole, "extra.conformer.%s.weight", name);
    status = speech_read(file, whole, 2, sizes, &out->weight, err);
    *rows = sizes[0], *columns = sizes[1];
    snprintf(whole, sizeof whole, "extra.conformer.%s.bias", name);
    if (status == TFM_OK && tfm_safetensors_find(file, whole) >= 0)
        status = speech_read(file, whole, 1, n_bias, &out->bias, err);
    return status;
}

static tfm_status conformer_vector(const tfm_safetensors *file, const char *name, int32_t *n,
                                   tfm_tensor *out, tfm_error *err) {
    char whole[96];
    snprintf(whole, sizeof whole, "extra.conformer.%s", name);
    return speech_read(file, whole, 1, n, out, err);
}

static tfm_status conformer_load_layer(conformer *f, const tfm_safetensors *file, int32_t i,
                                       tfm_error *err) {
    conformer_layer *l = &f->layers[i];
    int32_t *D = &f->width, *H = &f->columns, F = -1, twice = 2 * f->width, taps = -1, part;
    const struct {
        const char *name;
        int32_t *rows, *columns, *n_bias;
        tfm_linear_weights *to;
    } products[] = {{"feed_forward1.linear1", &F, D, &F, &l->feed1[0]},
                    {"feed_forward1.linear2", D, &F, D, &l->feed1[1]},
                    {"self_attn.q_proj", H, D, H, &l->query},
                    {"self_attn.k_proj", H, D, H, &l->key},
                    {"self_attn.v_proj", H, D, H, &l->value},
                    {"self_attn.out_proj", D, H, D, &l->out},
                    {"self_attn.relative_k_proj", H, D, H, &l->distance},
                    {"conv.pointwise1", &twice, D, &twice, &l->gated},
                    {"conv.depthwise", &taps, D, D, &l->channel},
                    {"conv.pointwise2", D, D, D, &l->mix},
                    {"feed_forward2.linear1", &F, D, &F, &l->feed2[0]},
                    {"feed_forward2.linear2", D, &F, D, &l->feed2[1]}};
    const struct {
        const char *name;
        int32_t *n;
        tfm_tensor *to;
    } vectors[] = {{"norm_feed_forward1.weight", D, &l->norm_feed1.weight},
                   {"norm_feed_forward1.bias", D, &l->norm_feed1.bias},
                   {"norm_self_att.weight", D, &l->norm_attention.weight},
                   {"norm_self_att.bias", D, &l->norm_attention.bias},
                   {"norm_conv.weight", D, &l->norm_convolution.weight},
                   {"norm_conv.bias", D, &l->norm_convolution.bias},
                   {"norm_feed_forward2.weight", D, &l->norm_feed2.weight},
                   {"norm_feed_forward2.bias", D, &l->norm_feed2.bias},
                   {"norm_out.weight", D, &l->norm_out.weight},
                   {"norm_out.bias", D, &l->norm_out.bias},
                   {"self_attn.bias_u", H, &l->content},
                   {"self_attn.bias_v", H, &l->place}};
    char name[80];
    tfm_status status = TFM_OK;
    for (part = 0; part < (int32_t)(sizeof products / sizeof *products) && status == TFM_OK;
         part++) {
        snprintf(name, sizeof name, "layers.%d.%s", (int)i, products[part].name);
        status = conformer_linear(file, name, products[part].rows, products[part].columns,
                                  products[part].n_bias, products[part].to, err);
    }
    for (part = 0; part < (int32_t)(sizeof vectors / sizeof *vectors) && status == TFM_OK; part++) {
        snprintf(name, sizeof name, "layers.%d.%s", (int)i, vectors[part].name);
        status = conformer_vector(file, name, vectors[part].n, vectors[part].to, err);
    }
    if (status == TFM_OK && (f->columns % f->n_heads || taps % 2 == 0))
        status = conformer_fail(err, TFM_E_TENSOR, "extra.conformer:",
                                f->columns % f->n_heads ? "the heads do not divide the queries"
                                                        : "a layer's convolution has even taps");
    if (F > f->widest) f->widest = F;
    return status;
}

/* Reads a number of the metadata, from least to most. */
static tfm_status conformer_number(const tfm_safetensors *file, const char *key, double least,
                                   double most, double *out, tfm_error *err) {
    const char *text = tfm_safetensors_metadata(file, key);
    char *end = NULL;
    *out = text ? strtod(text, &end) : NAN;
    if (text && end != text && !*end && *out >= least && *out <= most) return TFM_OK;
    snprintf(err->text, sizeof err->text, "metadata '%s' is missing, or no number from %g to %g",
             key, least, most);
    return err->status = TFM_E_CONFIG;
}

/* Reads what the metadata say. */
static tfm_status conformer_load_config(conformer *f, const tfm_safetensors *file, tfm_error *err) {
    const char *name = tfm_safetensors_metadata(file, "extra.conformer.activation");
    double mels = 0, heads = 0, stride = 0, seconds = 0;
    int k;
    tfm_status status =
        conformer_number(file, "extra.conformer.mels", 1, CONFORMER_BINS, &mels, err);
    if (status == TFM_OK)
        status = conformer_number(file, "extra.conformer.heads", 1, 4096, &heads, err);
    if (status == TFM_OK)
        status = conformer_number(file, "extra.conformer.stride", 1, 8, &stride, err);
    if (status == TFM_OK)
        status = conformer_number(file, "extra.conformer.preemphasis", -1, 1, &f->preemphasis, err);
    if (status == TFM_OK)
        status =
            conformer_number(file, "extra.conformer.seconds", 1, CONFORMER_SECONDS, &seconds, err);
    f->mels = (int32_t)mels, f->n_heads = (int32_t)heads, f->stride = (int32_t)stride;
    f->frames = (int32_t)(seconds * 100);
    for (k = 0; k < TFM_ACTIVATION_COUNT; k++)
        if (name && strcmp(name, tfm_activation_name((tfm_activation)k)) == 0) break;
    f->activation = (tfm_activation)k;
    if (status == TFM_OK && k == TFM_ACTIVATION_COUNT)
        status = conformer_fail(err, TFM_E_CONFIG, "metadata 'extra.conformer.activation'",
                                "is missing or no activation");
    return status;
}

/* Reads the convolutions before the layers. */
static tfm_status conformer_load_maps(conformer *f, const tfm_safetensors *file, tfm_error *err) {
    int32_t *C = &f->channels, squared = -1, flat, bins = f->mels, i;
    char name[80];
    tfm_status status = TFM_OK;
    *C = -1;
    for (i = 0; i < CONFORMER_MAPS && status == TFM_OK; i++) {
        snprintf(name, sizeof name, "extra.conformer.maps.%d.weight", (int)i);
        if (i && tfm_safetensors_find(file, name) < 0) break;
        snprintf(name, sizeof name, "maps.%d", (int)i);
        status = conformer_linear(file, name, i ? &squared : C, i ? C : &squared, C,
                                  &f->maps[i].filter, err);
        snprintf(name, sizeof name, "maps.%d.mix", (int)i);
        if (i && status == TFM_OK)
            status = conformer_linear(file, name, C, C, C, &f->maps[i].mix, err);
        while (i == 0 && status == TFM_OK && f->taps * f->taps < squared && f->taps < 16) f->taps++;
        if (status == TFM_OK && (f->taps * f->taps != squared || *C > 16384))
            status = conformer_fail(err, TFM_E_TENSOR, name, "has another shape");
        if (status == TFM_OK) f->maps[i].bins = bins = (int32_t)conformer_size(f, bins, 1);
    }
    f->n_maps = i, flat = bins * *C, f->width = -1;
    if (status == TFM_OK)
        status = conformer_linear(file, "linear", &f->width, &flat, &f->width, &f->linear, err);
    if (status == TFM_OK && f->width % 2)
        status = conformer_fail(err, TFM_E_TENSOR, "extra.conformer.linear.weight",
                                "has an odd number of rows, which relative positions cannot have");
    return status;
}

/* Takes the memory for the longest sound. */
static tfm_status conformer_make_room(conformer *f, tfm_error *err) {
    int64_t T = conformer_size(f, f->frames, f->n_maps), n = CONFORMER_ROWS, rows = 0, D = f->width;
    int64_t C = f->channels;
    int32_t i, squared = f->taps * f->taps;
    int ok = 1;
    for (i = f->n_maps; i > 0; i--) { /* rows that CONFORMER_ROWS rows behind the last map see */
        int64_t patch = (i == 1 ? squared : C) * n * f->maps[i - 1].bins;
        ok &= (f->rows[i - 1] = speech_zeros(n * f->maps[i - 1].bins * C + 1)) != NULL;
        rows = patch > rows ? patch : rows;
        n = (n - 1) * f->stride + f->taps;
    }
    if (f->widest < 2 * f->width) f->widest = 2 * f->width;
    if (f->widest < f->columns) f->widest = f->columns;
    ok &= (f->patches = speech_zeros(rows + 1)) != NULL;
    ok &= (f->sound = speech_zeros((int64_t)(f->frames + 1) * SPEECH_HOP + 2 * SPEECH_SPAN)) !=
          NULL;
    ok &= (f->features = speech_zeros((int64_t)(f->frames + 1) * f->mels)) != NULL;
    ok &= (f->x = speech_zeros(T * D + 1)) != NULL;
    ok &= (f->normal = speech_zeros(T * D + 1)) != NULL;
    ok &= (f->hidden = speech_zeros(T * f->widest + 1)) != NULL;
    ok &= (f->positions = speech_zeros(2 * T * D + 1)) != NULL;
    ok &= (f->distances = speech_zeros(2 * T * f->columns + 1)) != NULL;
    ok &= (f->q = speech_zeros(T * f->columns + 1)) != NULL;
    ok &= (f->k = speech_zeros(T * f->columns + 1)) != NULL;
    ok &= (f->v = speech_zeros(T * f->columns + 1)) != NULL;
    return ok ? TFM_OK : conformer_fail(err, TFM_E_MEMORY, "no memory", "for the sound");
}

/* Loads the encoder of a model file, and the tables of its spectrum into s. On failure there is
   nothing to free in f. */
static tfm_status conformer_load(conformer *f, speech *s, const tfm_safetensors *file,
                                 tfm_error *err) {
    char name[80];
    int32_t i;
    tfm_status status;
    memset(f, 0, sizeof *f);
    f->columns = -1;
    status = conformer_load_config(f, file, err);
    if (status == TFM_OK) status = conformer_load_maps(f, file, err);
    do {
        snprintf(name, sizeof name, "extra.conformer.layers.%d.norm_out.weight", (int)f->n_layers);
    } while (tfm_safetensors_find(file, name) >= 0 && ++f->n_layers < 9999);
    f->layers = (conformer_layer *)calloc((size_t)f->n_layers + 1, sizeof *f->layers);
    if (status == TFM_OK && !f->layers)
        status = conformer_fail(err, TFM_E_MEMORY, "no memory", "for the layers");
    if (status == TFM_OK && !f->n_layers)
        status = conformer_fail(err, TFM_E_TENSOR, name, "is missing");
    for (i = 0; i < f->n_layers && status == TFM_OK; i++)
        status = conformer_load_layer(f, file, i, err);
    if (status == TFM_OK) status = conformer_make_room(f, err);
    s->mels = f->mels;
    if (status == TFM_OK) {
        status = speech_make_spectrum(s, CONFORMER_BINS, SPEECH_SPAN - 1, CONFORMER_FRAMES);
        if (status != TFM_OK) conformer_fail(err, status, "no memory", "for the sound");
    }
    if (status != TFM_OK) conformer_free(f);
    return status;
}

#endif
