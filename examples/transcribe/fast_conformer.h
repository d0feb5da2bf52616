/* fast_conformer.h: the FastConformer encoder (arXiv:2305.05084) of Canary and Cohere Transcribe,
   from sound to the rows that the decoder reads. To copy into your program, with
   fast_conformer_load.h, and after transformer.h and speech.h.

       speech s;
       conformer f;
       memset(&s, 0, sizeof s);
       if (conformer_load(&f, &s, file, &err) == TFM_OK) {
           conformer_encode(&f, &s, samples, n, &memory, &err);     as often as you like
           conformer_free(&f);
       }
       speech_free(&s);

   One row of memory is 80 ms of sound, one eighth of the 100 frames that a second has:

       samples        x[t] - 0.97 x[t-1], which makes high sounds louder
         |            windows of 400 samples, every 160: the power of 257 frequencies
         |            128 mel bins, their logarithm
         |            each bin of the whole sound: its mean becomes 0, its deviation 1
       [ L, 128]      one channel: a picture of L frames
         |            3 x 3 pixels, stride 2 in both directions, to C channels; ReLU
       [ L/2, 64, C]
         |            3 x 3, stride 2, every channel by itself; C x C; ReLU
       [ L/4, 32, C]
         |            the same once more
       [ L/8, 16, C]
         |            16 C -> D
       [ T, D]        T = L/8 rows, to which every layer adds:

             +----------------------------------------------+
         x --+-- norm -- feed-forward ---------------- half -(+)
         x --+-- norm -- attention with distances ----------(+)
         x --+-- norm -- [ a | b ] = 2D x D;  a * sigmoid(b)
             |           each column with its neighbours in time (depthwise, 9 rows)
             |           activation;  D x D ----------------(+)
         x --+-- norm -- feed-forward ---------------- half -(+)
         x ----- norm ----------------------------------------> the next layer

   The norm of a batch, which follows the depthwise convolution, is in its weights: tools/convert.py
   has put it there.

   The attention has no positions in x. The score of query t and key s is, by Transformer-XL
   (arXiv:1901.02860, section 3.3),

       (q_t + u) . k_s  +  (q_t + v) . r_(t-s),     divided by sqrt(K)

   where r is a product of the sines of a distance, from T-1 down to -(T-1): row j of `distances`
   is that of T-1-j. So of query t the rows from T-1-t on are those of the keys 0, 1, 2 ...

       row j        0     1     2     3     4
       distance     2     1     0    -1    -2         T = 3
       query 0                 s=0   s=1   s=2
       query 1          s=0   s=1   s=2
       query 2    s=0   s=1   s=2

   A product of n queries with the T+n-1 rows that they need, read at such an offset, gives what the
   "relative shift" of other programs cuts out of all 2T-1 columns. */
#ifndef FAST_CONFORMER_H
#define FAST_CONFORMER_H

#include "fast_conformer_load.h"

/* Computes the features [n_frames, mels] of n samples. */
static tfm_status conformer_features(conformer *f, speech *s, const float *samples, int64_t n,
                                     int64_t n_frames, tfm_error *err) {
    const int64_t lead = SPEECH_SPAN / 2;
    float *emphasized = f->sound + lead, *at = f->features;
    int64_t M = f->mels, i, m, k;
    tfm_status status = TFM_OK;
    for (i = 0; i < n; i++)
        emphasized[i] = samples[i] - (i ? (float)f->preemphasis * samples[i - 1] : 0);
    memset(emphasized + n, 0, (SPEECH_SPAN + SPEECH_HOP) * sizeof *emphasized);
    for (i = 0; i < n_frames && status == TFM_OK; i += k, at += k * M) {
        k = n_frames - i < CONFORMER_FRAMES ? n_frames - i : (int)CONFORMER_FRAMES;
        status = speech_power(s, f->sound + i * SPEECH_HOP, k, at, err);
    }
    for (i = 0; i < n_frames * M && status == TFM_OK; i++)
        f->features[i] = logf(f->features[i] + 5.9604644775390625e-8f); /* 2^-24 */
    for (m = 0; m < M && status == TFM_OK; m++) {
        double mean = 0, squares = 0, deviation;
        for (i = 0; i < n_frames; i++) mean += f->features[i * M + m];
        mean /= (double)n_frames;
        for (i = 0; i < n_frames; i++)
            squares += (f->features[i * M + m] - mean) * (f->features[i * M + m] - mean);
        deviation = sqrt(squares / (double)(n_frames - 1)) + 1e-5;
        for (i = 0; i < n_frames; i++)
            f->features[i * M + m] = (float)((f->features[i * M + m] - mean) / deviation);
    }
    return status;
}

/* Rows from `first` on of what a map reads: `size` rows in all, of bins pixels of n_channels. */
typedef struct conformer_stretch {
    const float *at;
    int64_t first, size;
    int32_t bins, n_channels;
} conformer_stretch;

/* Returns the pixel of row t and bin b, or NULL where only zeros are. */
static const float *conformer_pixel(const conformer_stretch *in, int64_t t, int64_t b) {
    if (t < 0 || t >= in->size || b < 0 || b >= in->bins) return NULL;
    return in->at + ((t - in->first) * in->bins + b) * in->n_channels;
}

/* Copies the pixels that each pixel of the first map's rows from `from` to `to` sees. */
static void conformer_copy_patches(conformer *f, const conformer_stretch *in, int64_t from,
                                   int64_t to) {
    int64_t taps = f->taps, pad = (taps - 1) / 2, t, b, i, k;
    float *out = f->patches;
    for (t = from; t < to; t++)
        for (b = 0; b < f->maps[0].bins; b++)
            for (i = 0; i < taps; i++)
                for (k = 0; k < taps; k++) {
                    const float *x =
                        conformer_pixel(in, t * f->stride - pad + i, b * f->stride - pad + k);
                    *out++ = x ? *x : 0;
                }
}

/* Convolves each channel by itself: the pixels of map number m in the rows from `from` to `to`. */
static void conformer_convolve(conformer *f, int32_t m, const conformer_stretch *in, int64_t from,
                               int64_t to) {
    const conformer_map *map = &f->maps[m];
    const float *w = (const float *)map->filter.weight.data;
    const float *bias = (const float *)map->filter.bias.data;
    int64_t taps = f->taps, pad = (taps - 1) / 2, C = f->channels, t, b, i, k, c;
    float *out = f->patches;
    for (t = from; t < to; t++)
        for (b = 0; b < map->bins; b++, out += C) {
            for (c = 0; c < C; c++) out[c] = bias ? bias[c] : 0;
            for (i = 0; i < taps; i++)
                for (k = 0; k < taps; k++) {
                    const float *x =
                        conformer_pixel(in, t * f->stride - pad + i, b * f->stride - pad + k);
                    const float *tap = w + (i * taps + k) * C;
                    for (c = 0; x && c < C; c++) out[c] += tap[c] * x[c];
                }
        }
}

/* Computes the rows of x from number `from` to `to`, at most CONFORMER_ROWS. Of each map, the rows
   that they see are computed, so that no map has to be in memory as a whole. */
static tfm_status conformer_subsample_rows(conformer *f, speech *s, int64_t n_frames, int64_t from,
                                           int64_t to, tfm_error *err) {
    int64_t first[CONFORMER_MAPS + 1], end[CONFORMER_MAPS + 1], size, n;
    int32_t pad = (f->taps - 1) / 2, m;
    conformer_stretch in = {f->features, 0, n_frames, f->mels, 1};
    tfm_status status = TFM_OK;
    first[f->n_maps] = from, end[f->n_maps] = to;
    for (m = f->n_maps - 1; m > 0; m--) {
        size = conformer_size(f, n_frames, m);
        first[m] = first[m + 1] * f->stride - pad;
        end[m] = (end[m + 1] - 1) * f->stride - pad + f->taps;
        if (first[m] < 0) first[m] = 0;
        if (end[m] > size) end[m] = size;
        if (end[m] < first[m]) end[m] = first[m];
    }
    for (m = 0; m < f->n_maps && status == TFM_OK; m++) {
        const conformer_map *map = &f->maps[m];
        n = (end[m + 1] - first[m + 1]) * map->bins;
        if (m) conformer_convolve(f, m, &in, first[m + 1], end[m + 1]);
        else conformer_copy_patches(f, &in, first[1], end[1]);
        status = speech_product(s, f->rows[m], n, f->patches, m ? f->channels : f->taps * f->taps,
                                m ? &map->mix : &map->filter, TFM_ACTIVATION_RELU, err);
        in.at = f->rows[m], in.first = first[m + 1], in.size = conformer_size(f, n_frames, m + 1);
        in.bins = map->bins, in.n_channels = f->channels;
    }
    if (status != TFM_OK) return status;
    n = (int64_t)in.bins * f->channels;
    return speech_product(s, f->x + from * f->width, to - from, f->rows[f->n_maps - 1], n,
                          &f->linear, SPEECH_LINEAR, err);
}

/* Writes the sines and cosines of the distances T-1 to -(T-1), one after the other in a row. */
static void conformer_place(conformer *f, int64_t T) {
    int64_t D = f->width, j, i;
    for (i = 0; i < D; i += 2) {
        float frequency = 1 / powf(10000, (float)i / (float)D);
        for (j = 0; j < 2 * T - 1; j++) {
            float angle = (float)(T - 1 - j) * frequency;
            f->positions[j * D + i] = sinf(angle), f->positions[j * D + i + 1] = cosf(angle);
        }
    }
}

/* The attention of one layer, whose heads threads share. */
typedef struct conformer_attention {
    const conformer *f;
    const conformer_layer *l;
    float *scratch, *out; /* [parts, n_scratch]; [T, H * K] */
    int64_t T, n_scratch;
    int32_t parts;
    tfm_status status; /* of part 0; the others would fail for the same reason */
    tfm_error err;
} conformer_attention;

static int64_t conformer_scratch(int64_t T, int64_t K) {
    return CONFORMER_ROWS * (2 * K + T + (T + (int)CONFORMER_ROWS)) + K * T;
}

/* Computes n contexts of head h from query t on. values is V^T [K, T]. */
static tfm_status conformer_attend(const conformer_attention *a, int64_t h, int64_t t, int64_t n,
                                   float *values, float *scratch, tfm_error *err) {
    const conformer *f = a->f;
    int64_t H = f->columns, K = H / f->n_heads, T = a->T, i, k, s;
    const float *u = (const float *)a->l->content.data + h * K;
    const float *v = (const float *)a->l->place.data + h * K;
    float *qu = scratch, *qv = qu + n * K, *scores = qv + n * K, *shifted = scores + n * T;
    float scale = 1 / sqrtf((float)K);
    tfm_linear_weights w;
    tfm_tensor x, y;
    tfm_status status;
    memset(&w, 0, sizeof w);
    for (i = 0; i < n; i++)
        for (k = 0; k < K; k++) {
            float q = f->q[(t + i) * H + h * K + k];
            qu[i * K + k] = (q + u[k]) * scale, qv[i * K + k] = (q + v[k]) * scale;
        }
    w.weight = tfm_tensor_2d(f->k + h * K, TFM_DTYPE_F32, T, K), w.weight.strides[0] = H;
    x = tfm_tensor_2d(qu, TFM_DTYPE_F32, n, K), y = tfm_tensor_2d(scores, TFM_DTYPE_F32, n, T);
    status = tfm_linear(&y, &x, &w, err);
    if (status != TFM_OK) return status;
    w.weight = tfm_tensor_2d(f->distances + (T - t - n) * H + h * K, TFM_DTYPE_F32, T + n - 1, K);
    w.weight.strides[0] = H;
    x = tfm_tensor_2d(qv, TFM_DTYPE_F32, n, K);
    y = tfm_tensor_2d(shifted, TFM_DTYPE_F32, n, T + n - 1);
    status = tfm_linear(&y, &x, &w, err);
    if (status != TFM_OK) return status;
    for (i = 0; i < n; i++)
        for (s = 0; s < T; s++) scores[i * T + s] += shifted[i * (T + n - 1) + n - 1 - i + s];
    x = tfm_tensor_2d(scores, TFM_DTYPE_F32, n, T);
    status = tfm_softmax(&x, &x, err);
    if (status != TFM_OK) return status;
    w.weight = tfm_tensor_2d(values, TFM_DTYPE_F32, K, T);
    y = tfm_tensor_2d(a->out + t * H + h * K, TFM_DTYPE_F32, n, K), y.strides[0] = H;
    return tfm_linear(&y, &x, &w, err);
}

/* Computes a share of the heads. */
static void conformer_attend_part(void *context, int32_t part) {
    conformer_attention *a = (conformer_attention *)context;
    const conformer *f = a->f;
    int64_t H = f->columns, K = H / f->n_heads, T = a->T, h, t, n, i, k;
    float *values = a->scratch + part * a->n_scratch, *scratch = values + K * T;
    tfm_status status = TFM_OK;
    tfm_error err;
    for (h = (int64_t)f->n_heads * part / a->parts;
         h < (int64_t)f->n_heads * (part + 1) / a->parts && status == TFM_OK; h++) {
        for (i = 0; i < T; i++)
            for (k = 0; k < K; k++) values[k * T + i] = f->v[i * H + h * K + k];
        for (t = 0; t < T && status == TFM_OK; t += n) {
            n = T - t < CONFORMER_ROWS ? T - t : (int)CONFORMER_ROWS;
            status = conformer_attend(a, h, t, n, values, scratch, &err);
        }
    }
    if (part == 0) a->status = status, a->err = err;
}

/* Adds the attention of layer l to x. */
static tfm_status conformer_add_attention(conformer *f, speech *s, const conformer_layer *l,
                                          int64_t T, tfm_error *err) {
    const tfm_linear_weights *w[3];
    float *to[3], *out = f->hidden;
    int64_t D = f->width, H = f->columns, i;
    conformer_attention a;
    tfm_status status = TFM_OK;
    memset(&a, 0, sizeof a);
    w[0] = &l->query, w[1] = &l->key, w[2] = &l->value, to[0] = f->q, to[1] = f->k, to[2] = f->v;
    for (i = 0; i < 3 && status == TFM_OK; i++)
        status = speech_product(s, to[i], T, f->normal, D, w[i], SPEECH_LINEAR, err);
    if (status == TFM_OK)
        status = speech_product(s, f->distances, 2 * T - 1, f->positions, D, &l->distance,
                                SPEECH_LINEAR, err);
    if (status != TFM_OK) return status;
    a.f = f, a.l = l, a.out = out, a.T = T, a.n_scratch = conformer_scratch(T, H / f->n_heads);
    a.parts = s->parallel && s->threads > 1 ? s->threads : 1;
    if (a.parts > f->n_heads) a.parts = f->n_heads;
    a.scratch = (float *)malloc((size_t)(a.parts * a.n_scratch) * sizeof *a.scratch);
    if (!a.scratch) return conformer_fail(err, TFM_E_MEMORY, "no memory", "for an attention");
    if (a.parts > 1) s->parallel->run(s->parallel->user, conformer_attend_part, &a, a.parts);
    else conformer_attend_part(&a, 0);
    free(a.scratch);
    if (a.status != TFM_OK) *err = a.err;
    status = a.status;
    if (status == TFM_OK)
        status = speech_product(s, f->normal, T, out, H, &l->out, SPEECH_LINEAR, err);
    for (i = 0; i < T * D && status == TFM_OK; i++) f->x[i] += f->normal[i];
    return status;
}

/* Adds the convolution of layer l to x. */
static tfm_status conformer_add_convolution(conformer *f, speech *s, const conformer_layer *l,
                                            int64_t T, tfm_error *err) {
    int64_t D = f->width, taps = l->channel.weight.dims[0], t, i, d, from, to;
    const float *w = (const float *)l->channel.weight.data;
    const float *bias = (const float *)l->channel.bias.data;
    tfm_tensor y = tfm_tensor_2d(f->normal, TFM_DTYPE_F32, T, D);
    tfm_status status =
        speech_product(s, f->hidden, T, f->normal, D, &l->gated, SPEECH_LINEAR, err);
    if (status != TFM_OK) return status;
    for (t = 0; t < T; t++) { /* the gated rows take the place of the products */
        const float *a = f->hidden + t * 2 * D, *b = a + D;
        float *out = f->hidden + t * D;
        for (d = 0; d < D; d++) out[d] = a[d] / (1 + expf(-b[d]));
    }
    for (t = 0; t < T; t++) {
        float *out = f->normal + t * D;
        for (d = 0; d < D; d++) out[d] = bias ? bias[d] : 0;
        from = t - taps / 2 < 0 ? taps / 2 - t : 0;
        to = t + taps / 2 >= T ? T - t + taps / 2 : taps;
        for (i = from; i < to; i++) {
            const float *x = f->hidden + (t + i - taps / 2) * D, *tap = w + i * D;
            for (d = 0; d < D; d++) out[d] += tap[d] * x[d];
        }
    }
    status = tfm_activate(&y, &y, f->activation, err);
    if (status == TFM_OK)
        status = speech_product(s, f->hidden, T, f->normal, D, &l->mix, SPEECH_LINEAR, err);
    for (i = 0; i < T * D && status == TFM_OK; i++) f->x[i] += f->hidden[i];
    return status;
}

/* Adds half of a feed-forward to x. */
static tfm_status conformer_add_feed(conformer *f, speech *s, const tfm_linear_weights *w,
                                     int64_t T, tfm_error *err) {
    int64_t D = f->width, F = w[0].weight.dims[0], i;
    tfm_status status =
        speech_product(s, f->hidden, T, f->normal, D, &w[0], (int)f->activation, err);
    if (status == TFM_OK)
        status = speech_product(s, f->normal, T, f->hidden, F, &w[1], SPEECH_LINEAR, err);
    for (i = 0; i < T * D && status == TFM_OK; i++) f->x[i] += 0.5f * f->normal[i];
    return status;
}

/* Computes out = the norm of x. */
static tfm_status conformer_normalize(conformer *f, float *out, const tfm_norm_weights *w,
                                      int64_t T, tfm_error *err) {
    tfm_tensor x = tfm_tensor_2d(f->x, TFM_DTYPE_F32, T, f->width);
    tfm_tensor y = tfm_tensor_2d(out, TFM_DTYPE_F32, T, f->width);
    return tfm_layer_norm(&y, &x, w, err);
}

static tfm_status conformer_run_layer(conformer *f, speech *s, const conformer_layer *l, int64_t T,
                                      tfm_error *err) {
    tfm_status status = conformer_normalize(f, f->normal, &l->norm_feed1, T, err);
    if (status == TFM_OK) status = conformer_add_feed(f, s, l->feed1, T, err);
    if (status == TFM_OK) status = conformer_normalize(f, f->normal, &l->norm_attention, T, err);
    if (status == TFM_OK) status = conformer_add_attention(f, s, l, T, err);
    if (status == TFM_OK) status = conformer_normalize(f, f->normal, &l->norm_convolution, T, err);
    if (status == TFM_OK) status = conformer_add_convolution(f, s, l, T, err);
    if (status == TFM_OK) status = conformer_normalize(f, f->normal, &l->norm_feed2, T, err);
    if (status == TFM_OK) status = conformer_add_feed(f, s, l->feed2, T, err);
    return status == TFM_OK ? conformer_normalize(f, f->x, &l->norm_out, T, err) : status;
}

/* Computes the memory [rows, D] of n samples, at most frames * SPEECH_HOP. It stays in f until the
   next call. Sound under two frames has no rows, as nothing can be said of its deviation. */
static tfm_status conformer_encode(conformer *f, speech *s, const float *samples, int64_t n,
                                   tfm_tensor *memory, tfm_error *err) {
    int64_t n_frames, T, at, k;
    int32_t i;
    tfm_status status = TFM_OK;
    if (n > (int64_t)(f->frames + 1) * SPEECH_HOP - 1)
        n = (int64_t)(f->frames + 1) * SPEECH_HOP - 1;
    n_frames = n / SPEECH_HOP;
    T = n_frames < 2 ? 0 : conformer_size(f, n_frames, f->n_maps);
    *memory = tfm_tensor_2d(f->x, TFM_DTYPE_F32, T, f->width);
    if (T < 1) return TFM_OK;
    status = conformer_features(f, s, samples, n, n_frames, err);
    for (at = 0; at < T && status == TFM_OK; at += k) {
        k = T - at < CONFORMER_ROWS ? T - at : (int)CONFORMER_ROWS;
        status = conformer_subsample_rows(f, s, n_frames, at, at + k, err);
    }
    conformer_place(f, T);
    for (i = 0; i < f->n_layers && status == TFM_OK; i++)
        status = conformer_run_layer(f, s, &f->layers[i], T, err);
    return status;
}

#endif
