/* listen.h: the encoder of Moonshine streaming, fed with pieces of sound of any size. To copy into
   your program, which includes transformer.h and speech.h first.

       listen_weights w;
       listen l;
       if (listen_load(&w, file, &err) == TFM_OK && listen_begin(&l, &w, &err) == TFM_OK) {
           listen_feed(&l, samples, n, take, user, &err);     and so on, piece by piece
           listen_finish(&l, take, user, &err);               what waits for later sound
       }
       listen_end(&l), listen_free(&w);

   take(user, row) gets the rows of the decoder's memory, one after the other, each as soon as the
   sound that it sees has come: at most the windows to the right of all layers, summed, later. The
   rows have the same bits for any pieces, and the state has the same size however long the sound
   is. It is a frame of samples, the last rows before each convolution, and in each layer as many
   keys, values and queries as its window sees.

   A frame of 5 ms has its mean and its deviation taken out, and asinh makes it less steep. Two
   causal convolutions over 5 rows with a stride of 2 follow, so a row of memory is 20 ms. The
   layers have no positions; the memory gets learned ones. */
#ifndef LISTEN_H
#define LISTEN_H

#include "listen_load.h"

/* Rows from number first on, of which a consumer forgets the oldest. */
typedef struct listen_rows {
    float *at;              /* [room, columns] */
    int64_t first, n, done; /* done: outputs of what reads them */
    int32_t columns;
} listen_rows;

typedef void (*listen_take)(void *user, const float *row);

typedef struct listen {
    const listen_weights *w;
    listen_rows frames, before[2]; /* frames of samples; rows before each convolution */
    listen_rows x[LISTEN_LAYERS], q[LISTEN_LAYERS], k[LISTEN_LAYERS], v[LISTEN_LAYERS];
    int32_t n_samples; /* of the frame behind frames.n, which is not complete */
    int64_t n_memory;  /* rows that were given away */
    float *scratch[3]; /* [LISTEN_FRAMES, widest row] */
    float *scores;     /* [keys of the largest window] */
    int is_last;       /* no more sound comes */
} listen;

static int listen_make_rows(listen_rows *r, int64_t room, int32_t columns) {
    r->columns = columns, r->n = r->first = r->done = 0;
    r->at = speech_zeros(room * columns);
    return r->at != NULL;
}

static void listen_end(listen *l) {
    int32_t i;
    free(l->frames.at), free(l->before[0].at), free(l->before[1].at);
    for (i = 0; i < LISTEN_LAYERS; i++)
        free(l->x[i].at), free(l->q[i].at), free(l->k[i].at), free(l->v[i].at);
    for (i = 0; i < 3; i++) free(l->scratch[i]);
    free(l->scores);
    memset(l, 0, sizeof *l);
}

/* Begins a sound. w stays with the caller. On failure there is nothing to free. */
static tfm_status listen_begin(listen *l, const listen_weights *w, tfm_error *err) {
    int64_t widest = 2 * w->width, longest = 0;
    int32_t i;
    int ok;
    memset(l, 0, sizeof *l);
    l->w = w;
    ok = listen_make_rows(&l->frames, LISTEN_FRAMES, w->frame);
    for (i = 0; i < 2; i++) {
        ok &= listen_make_rows(&l->before[i], LISTEN_TAPS + LISTEN_FRAMES / (i + 1),
                               (i + 1) * w->width);
        l->before[i].n = LISTEN_TAPS - 1; /* zeros */
    }
    for (i = 0; i < w->n_layers; i++) {
        const listen_layer *y = &w->layers[i];
        int64_t room = y->left + y->right + LISTEN_ROWS;
        ok &= listen_make_rows(&l->x[i], room, w->width) &
              listen_make_rows(&l->q[i], room, y->columns);
        ok &= listen_make_rows(&l->k[i], room, y->kv_columns) &
              listen_make_rows(&l->v[i], room, y->kv_columns);
        if (y->columns > widest) widest = y->columns;
        if (y->linear1.weight.dims[0] > widest) widest = y->linear1.weight.dims[0];
        if (room > longest) longest = room;
    }
    for (i = 0; i < 3; i++) ok &= (l->scratch[i] = speech_zeros(LISTEN_FRAMES * widest)) != NULL;
    ok &= (l->scores = speech_zeros(longest)) != NULL;
    if (ok) return TFM_OK;
    listen_end(l);
    return listen_fail(err, TFM_E_MEMORY, "no memory", "for the sound");
}

/* Forgets the rows before number first. */
static void listen_drop(listen_rows *r, int64_t first) {
    int64_t n = first - r->first;
    if (n <= 0) return;
    memmove(r->at, r->at + n * r->columns, (size_t)((r->n - n) * r->columns) * sizeof *r->at);
    r->first += n, r->n -= n;
}

static tfm_status listen_product(float *out, const float *x, int64_t rows, int64_t stride,
                                 const tfm_linear_weights *w, tfm_error *err) {
    tfm_tensor y = tfm_tensor_2d(out, TFM_DTYPE_F32, rows, w->weight.dims[0]);
    tfm_tensor from = tfm_tensor_2d((float *)(uintptr_t)x, TFM_DTYPE_F32, rows, w->weight.dims[1]);
    from.strides[0] = stride;
    return tfm_linear(&y, &from, w, err);
}

static tfm_status listen_activate(float *x, int64_t rows, int64_t columns, tfm_activation how,
                                  tfm_error *err) {
    tfm_tensor y = tfm_tensor_2d(x, TFM_DTYPE_F32, rows, columns);
    return tfm_activate(&y, &y, how, err);
}

static tfm_status listen_normalize(float *out, const float *x, int64_t rows, int64_t D,
                                   const tfm_norm_weights *w, tfm_error *err) {
    tfm_tensor y = tfm_tensor_2d(out, TFM_DTYPE_F32, rows, D);
    tfm_tensor from = tfm_tensor_2d((float *)(uintptr_t)x, TFM_DTYPE_F32, rows, D);
    return tfm_layer_norm(&y, &from, w, err);
}

/* Computes the contexts of query number t over the keys of its window that there are. */
static void listen_attend(listen *l, int32_t i, int64_t t, float *context) {
    const listen_layer *y = &l->w->layers[i];
    const listen_rows *k = &l->k[i], *v = &l->v[i];
    const float *q = l->q[i].at + (t - l->q[i].first) * y->columns;
    int64_t from = t - y->left + 1 > 0 ? t - y->left + 1 : 0, to = t + y->right, s, d, h;
    int64_t K = y->columns / l->w->n_heads, group = y->columns / y->kv_columns;
    float scale = 1 / sqrtf((float)K);
    if (to > k->first + k->n) to = k->first + k->n;
    for (h = 0; h < l->w->n_heads; h++) {
        float top = -INFINITY, sum = 0, *out = context + h * K;
        for (s = from; s < to; s++) {
            const float *key = k->at + (s - k->first) * y->kv_columns + h / group * K;
            float dot = 0;
            for (d = 0; d < K; d++) dot += q[h * K + d] * key[d];
            l->scores[s - from] = dot *= scale;
            if (dot > top) top = dot;
        }
        for (d = 0; d < K; d++) out[d] = 0;
        for (s = from; s < to; s++) {
            const float *value = v->at + (s - v->first) * y->kv_columns + h / group * K;
            float weight = expf(l->scores[s - from] - top);
            sum += weight;
            for (d = 0; d < K; d++) out[d] += weight * value[d];
        }
        for (d = 0; d < K; d++) out[d] /= sum;
    }
}

/* Gives rows [n, D] of memory away, with their norm and their positions. */
static tfm_status listen_give(listen *l, const float *rows, int64_t n, listen_take take, void *user,
                              tfm_error *err) {
    const listen_weights *w = l->w;
    int64_t D = w->width, i, k;
    tfm_status status = listen_normalize(l->scratch[0], rows, n, D, &w->norm, err);
    for (i = 0; i < n && status == TFM_OK; i++) {
        float *row = l->scratch[0] + i * D;
        const float *place = (const float *)w->positions.data + l->n_memory * D;
        if (l->n_memory == w->n_positions) break; /* the decoder knows no place for more */
        for (k = 0; k < D; k++) row[k] += place[k];
        take(user, row), l->n_memory++;
    }
    return status;
}

/* Takes n new positions [n, D] into layer i, computes those whose windows are complete, and passes
   them on. At the end of the sound n may be 0. n is at most LISTEN_ROWS, and a layer passes on at
   most n + right rows. */
static tfm_status listen_layer_step(listen *l, int32_t i, const float *rows, int64_t n,
                                    listen_take take, void *user, tfm_error *err) {
    const listen_weights *w = l->w;
    const listen_layer *y = &w->layers[i];
    listen_rows *all[4];
    int64_t D = w->width, end, m, at, k, ff;
    float *context = l->scratch[0], *x, *hidden = l->scratch[1], *normal = l->scratch[2];
    tfm_status status = TFM_OK;
    if (i == w->n_layers) return listen_give(l, rows, n, take, user, err);
    ff = y->linear1.weight.dims[0];
    all[0] = &l->x[i], all[1] = &l->q[i], all[2] = &l->k[i], all[3] = &l->v[i];
    if (n) {
        memcpy(all[0]->at + all[0]->n * D, rows, (size_t)(n * D) * sizeof *rows);
        status = listen_normalize(normal, rows, n, D, &y->norm1, err);
        for (k = 1; k < 4 && status == TFM_OK; k++)
            status = listen_product(all[k]->at + all[k]->n * all[k]->columns, normal, n, D,
                                    k == 1   ? &y->q
                                    : k == 2 ? &y->k
                                             : &y->v,
                                    err);
        for (k = 0; k < 4; k++) all[k]->n += n;
    }
    end = all[0]->first + all[0]->n;
    m = (l->is_last ? end : end - y->right + 1) - all[0]->done, at = all[0]->done;
    for (; m > 0 && status == TFM_OK; m -= k, at += k) {
        k = m < LISTEN_ROWS ? m : (int)LISTEN_ROWS;
        for (n = 0; n < k; n++) listen_attend(l, i, at + n, context + n * y->columns);
        status = listen_product(normal, context, k, y->columns, &y->out, err);
        x = all[0]->at + (at - all[0]->first) * D;
        for (n = 0; n < k * D && status == TFM_OK; n++) x[n] += normal[n];
        if (status == TFM_OK) status = listen_normalize(normal, x, k, D, &y->norm2, err);
        if (status == TFM_OK) status = listen_product(hidden, normal, k, D, &y->linear1, err);
        if (status == TFM_OK) status = listen_activate(hidden, k, ff, w->activation, err);
        if (status == TFM_OK) status = listen_product(normal, hidden, k, ff, &y->linear2, err);
        for (n = 0; n < k * D && status == TFM_OK; n++) x[n] += normal[n];
        all[0]->done = at + k;
        if (status == TFM_OK) status = listen_layer_step(l, i + 1, x, k, take, user, err);
    }
    listen_drop(all[0], all[0]->done), listen_drop(all[1], all[0]->done);
    listen_drop(all[2], all[0]->done - y->left + 1),
        listen_drop(all[3], all[0]->done - y->left + 1);
    return status;
}

/* Takes n new rows into convolution number k. */
static tfm_status listen_convolve(listen *l, int k, const float *rows, int64_t n, listen_take take,
                                  void *user, tfm_error *err) {
    listen_rows *r = &l->before[k];
    const tfm_linear_weights *w = &l->w->convolutions[k];
    int64_t first, m;
    float *out = l->scratch[k + 1];
    tfm_status status = TFM_OK;
    memcpy(r->at + r->n * r->columns, rows, (size_t)(n * r->columns) * sizeof *rows), r->n += n;
    first = LISTEN_STRIDE * r->done - r->first;
    m = r->n - first < LISTEN_TAPS ? 0 : (r->n - first - LISTEN_TAPS) / LISTEN_STRIDE + 1;
    if (!m) return TFM_OK;
    status = listen_product(out, r->at + first * r->columns, m, LISTEN_STRIDE * r->columns, w, err);
    r->done += m, listen_drop(r, LISTEN_STRIDE * r->done);
    if (k) return status == TFM_OK ? listen_layer_step(l, 0, out, m, take, user, err) : status;
    if (status == TFM_OK)
        status = listen_activate(out, m, w->weight.dims[0], TFM_ACTIVATION_SWISH, err);
    return status == TFM_OK ? listen_convolve(l, 1, out, m, take, user, err) : status;
}

/* Computes the frames that are complete. */
static tfm_status listen_flush(listen *l, listen_take take, void *user, tfm_error *err) {
    int64_t m = l->frames.n, n = l->w->frame, D = l->w->width, i, k;
    float *x = l->frames.at, *out = l->scratch[0];
    tfm_status status;
    if (!m) return TFM_OK;
    for (k = 0; k < m; k++, x += n) {
        double mean = 0, squares = 0, scale;
        for (i = 0; i < n; i++) mean += x[i];
        mean /= (double)n;
        for (i = 0; i < n; i++) squares += (x[i] - mean) * (x[i] - mean);
        scale = 1 / sqrt(squares / (double)n + 1e-6);
        for (i = 0; i < n; i++) x[i] = asinhf(l->w->k * (float)((x[i] - mean) * scale));
    }
    status = listen_product(out, l->frames.at, m, n, &l->w->frames, err);
    if (status == TFM_OK) status = listen_activate(out, m, D, TFM_ACTIVATION_SWISH, err);
    if (status == TFM_OK) status = listen_convolve(l, 0, out, m, take, user, err);
    memmove(l->frames.at, x, (size_t)l->n_samples * sizeof *x), l->frames.n = 0;
    return status;
}

/* Takes n samples of 16 kHz. */
static tfm_status listen_feed(listen *l, const float *samples, int64_t n, listen_take take,
                              void *user, tfm_error *err) {
    int64_t k;
    tfm_status status = TFM_OK;
    for (; n > 0 && status == TFM_OK; n -= k, samples += k) {
        k = l->w->frame - l->n_samples < n ? l->w->frame - l->n_samples : n;
        memcpy(l->frames.at + l->frames.n * l->w->frame + l->n_samples, samples,
               (size_t)k * sizeof *samples);
        l->n_samples += (int32_t)k;
        if (l->n_samples < l->w->frame) continue;
        l->n_samples = 0, l->frames.n++;
        if (l->frames.n == LISTEN_FRAMES) status = listen_flush(l, take, user, err);
    }
    return status == TFM_OK ? listen_flush(l, take, user, err) : status;
}

/* Ends the sound. A rest that is no frame is a frame of zeros, as transformers has it. */
static tfm_status listen_finish(listen *l, listen_take take, void *user, tfm_error *err) {
    tfm_status status = TFM_OK;
    int32_t i;
    if (l->n_samples && l->before[0].first + l->before[0].n >= LISTEN_TAPS) {
        memset(l->scratch[0], 0, (size_t)l->w->width * sizeof(float));
        status = listen_convolve(l, 0, l->scratch[0], 1, take, user, err);
    }
    l->is_last = 1;
    for (i = 0; i < l->w->n_layers && status == TFM_OK; i++)
        status = listen_layer_step(l, i, NULL, 0, take, user, err);
    return status;
}

typedef struct listen_sink {
    float *at;
    int64_t width, room, n;
} listen_sink;

static void listen_keep(void *user, const float *row) {
    listen_sink *to = (listen_sink *)user;
    if (to->n == to->room) return;
    memcpy(to->at + to->n++ * to->width, row, (size_t)to->width * sizeof *row);
}

/* Computes the memory of a whole sound into memory, which has room for its rows. */
static tfm_status listen_whole(const listen_weights *w, const float *samples, int64_t n,
                               float *memory, tfm_tensor *out, tfm_error *err) {
    listen l;
    listen_sink to = {memory, w->width, 0, 0};
    tfm_status status = listen_begin(&l, w, err);
    to.room = listen_positions(w, n) < w->n_positions ? listen_positions(w, n) : w->n_positions;
    if (status != TFM_OK) return status;
    status = listen_feed(&l, samples, n, listen_keep, &to, err);
    if (status == TFM_OK) status = listen_finish(&l, listen_keep, &to, err);
    listen_end(&l);
    *out = tfm_tensor_2d(memory, TFM_DTYPE_F32, to.n, w->width);
    return status;
}

#endif
