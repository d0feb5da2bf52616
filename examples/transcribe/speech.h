/* speech.h: from 30 seconds of sound to the embeddings that Whisper's encoder reads. To copy into
   your program, which includes transformer.h first.

       speech s;
       if (speech_load(&s, file, &err) == TFM_OK &&            file: a tfm_safetensors, the model's
           speech_mel(&s, samples, SPEECH_FRAMES, mel, &loudest, &err) == TFM_OK) {
           speech_scale(mel, SPEECH_FRAMES * s.mels, loudest);
           speech_convolve(&s, mel, embeddings, &err);
       }
       speech_free(&s);

   Everything is matrix products by tfm_linear, over rows that overlap in memory: the Fourier
   transform of frames of 400 samples that begin every 160 samples, and the convolutions over three
   frames. One speech serves one thread; after loading, set threads and parallel (as in
   tfm_session_options) to let several threads share the rows. */
#ifndef SPEECH_H
#define SPEECH_H

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    SPEECH_FRAMES = 3000,    /* of a window of 30 s */
    SPEECH_POSITIONS = 1500, /* that the encoder makes of them */
    SPEECH_HOP = 160,        /* samples from one frame to the next */
    SPEECH_SPAN = 400,       /* samples that a frame sees */
    SPEECH_BINS = 201        /* frequencies of a frame, 0 to 8 kHz */
};

typedef struct speech {
    int32_t mels, width;          /* of a frame: mel bins; of an embedding: the model's d_model */
    float *waves;                 /* [2 * 201, 400]: cosines and sines, times the window */
    float *filters;               /* [mels, 201] */
    float *weight[2], *bias[2];   /* [width, 3 * mels] and [width, 3 * width]; [width] each */
    float *spectrum;              /* [SPEECH_FRAMES, 402]: scratch */
    float *padded, *middle;       /* [SPEECH_FRAMES + 2, mels or width]: scratch, zeros around */
    const tfm_parallel *parallel; /* NULL: the calling thread computes all */
    int32_t threads;
} speech;

/* Reads a tensor as floats into new memory. sizes [rank] has -1 for sizes that are found and stored
   there. */
static tfm_status speech_read(const tfm_safetensors *file, const char *name, int rank,
                              int32_t *sizes, float **out, tfm_error *err) {
    int64_t i = tfm_safetensors_find(file, name), n = 1;
    tfm_tensor t = tfm_safetensors_tensor(file, i);
    int d;
    for (d = 0; d < t.rank && t.rank == rank; d++) {
        if (t.dims[d] < 1 || t.dims[d] > 65536) break;
        if (sizes[d] < 0) sizes[d] = (int32_t)t.dims[d];
        if (sizes[d] != t.dims[d]) break;
        n *= t.dims[d];
    }
    if (d != rank || n > 65536 * 4096) {
        snprintf(err->text, sizeof err->text, "tensor '%s' %s", name,
                 i >= 0 ? "has another shape"
                        : "is missing: this is no Whisper model that "
                          "tools/convert.py has written");
        return err->status = TFM_E_TENSOR;
    }
    *out = (float *)malloc((size_t)n * sizeof **out);
    return *out ? tfm_safetensors_read(file, i, TFM_F32, *out, err) : TFM_E_MEMORY;
}

/* Fills in the Fourier transform with Hann's window, and Slaney's mel filters: triangles of equal
   area between points that are linear in frequency up to 1 kHz and logarithmic above. */
static void speech_make_tables(speech *s) {
    const double pi = 3.14159265358979323846, top = 45.245640471924965; /* 8 kHz in mel */
    double edge[3];
    int32_t k, n, m;
    for (k = 0; k < SPEECH_BINS; k++)
        for (n = 0; n < SPEECH_SPAN; n++) {
            double window = 0.5 - 0.5 * cos(2 * pi * n / (int)SPEECH_SPAN);
            double angle = 2 * pi * (k * n % SPEECH_SPAN) / (int)SPEECH_SPAN;
            s->waves[k * SPEECH_SPAN + n] = (float)(window * cos(angle));
            s->waves[(SPEECH_BINS + k) * SPEECH_SPAN + n] = (float)(window * sin(angle));
        }
    for (m = 0; m < s->mels; m++) {
        for (k = 0; k < 3; k++) {
            double mel = (m + k) * top / (s->mels + 1);
            edge[k] = mel < 15 ? mel * 200 / 3 : 1000 * exp(log(6.4) / 27 * (mel - 15));
        }
        for (k = 0; k < SPEECH_BINS; k++) {
            double f = 8000.0 * k / (SPEECH_BINS - 1), rise = (f - edge[0]) / (edge[1] - edge[0]);
            double height = fmax(0, fmin(rise, (edge[2] - f) / (edge[2] - edge[1])));
            s->filters[m * SPEECH_BINS + k] = (float)(height * 2 / (edge[2] - edge[0]));
        }
    }
}

static void speech_free(speech *s) {
    int i;
    for (i = 0; i < 2; i++) free(s->weight[i]), free(s->bias[i]);
    free(s->waves), free(s->filters), free(s->spectrum), free(s->padded), free(s->middle);
    memset(s, 0, sizeof *s);
}

/* Loads the convolutions of a model file. On failure there is nothing to free. */
static tfm_status speech_load(speech *s, const tfm_safetensors *file, tfm_error *err) {
    static const char *const names[] = {"extra.conv1", "extra.conv2"};
    int32_t sizes[3] = {-1, 3, -1}, i;
    tfm_status status = TFM_OK;
    memset(s, 0, sizeof *s);
    for (i = 0; i < 2 && status == TFM_OK; i++) {
        char name[32];
        snprintf(name, sizeof name, "%s.weight", names[i]);
        status = speech_read(file, name, 3, sizes, &s->weight[i], err);
        snprintf(name, sizeof name, "%s.bias", names[i]);
        if (status == TFM_OK) status = speech_read(file, name, 1, sizes, &s->bias[i], err);
        if (i == 0) s->mels = sizes[2], s->width = sizes[2] = sizes[0];
    }
    if (status == TFM_OK) {
        size_t frames = SPEECH_FRAMES + 2, mels = (size_t)s->mels, width = (size_t)s->width;
        s->waves = (float *)malloc(2 * SPEECH_BINS * SPEECH_SPAN * sizeof(float));
        s->filters = (float *)malloc(mels * SPEECH_BINS * sizeof(float));
        s->spectrum = (float *)malloc(SPEECH_FRAMES * 2 * SPEECH_BINS * sizeof(float));
        s->padded = (float *)calloc(frames * mels, sizeof(float));
        s->middle = (float *)calloc(frames * width, sizeof(float));
        if (!s->waves || !s->filters || !s->spectrum || !s->padded || !s->middle)
            status = TFM_E_MEMORY;
    }
    if (status == TFM_E_MEMORY) snprintf(err->text, sizeof err->text, "no memory for the sound");
    if (status == TFM_OK) speech_make_tables(s);
    else speech_free(s);
    return status;
}

/* Computes out [rows, n] = x weight^T, or GELU(x weight^T + bias) if there is a bias. Row i of x
   begins at x + i * stride. */
static tfm_status speech_linear(float *out, int64_t rows, int64_t n, float *x, int64_t stride,
                                int64_t columns, float *weight, float *bias, tfm_error *err) {
    tfm_tensor y = tfm_tensor_2d(out, TFM_F32, rows, n);
    tfm_tensor in = tfm_tensor_2d(x, TFM_F32, rows, columns);
    tfm_linear_weights w;
    tfm_status status;
    memset(&w, 0, sizeof w);
    in.strides[0] = stride;
    w.weight = tfm_tensor_2d(weight, TFM_F32, n, columns);
    if (bias) w.bias = tfm_tensor_1d(bias, TFM_F32, n);
    status = tfm_linear(&y, &in, &w, err);
    return status == TFM_OK && bias ? tfm_activate(&y, &y, TFM_GELU, err) : status;
}

/* The convolutions and the mel spectrum. Their rows are independent, so threads can share them. */
enum { SPEECH_CONV1, SPEECH_CONV2, SPEECH_MEL };
typedef struct speech_task {
    speech *s;
    int32_t kind, parts;
    float *x, *out;
    int64_t rows;
    tfm_status status; /* of part 0; the others would fail for the same reason */
    tfm_error err;
} speech_task;

/* Computes a share of the rows. */
static void speech_part(void *context, int32_t part) {
    speech_task *t = (speech_task *)context;
    speech *s = t->s;
    int64_t at = t->rows * part / t->parts, rows = t->rows * (part + 1) / t->parts - at, i, k;
    int64_t M = s->mels, D = s->width, bins = SPEECH_BINS, wide = t->kind == SPEECH_CONV1 ? M : D;
    float *power = s->spectrum + at * 2 * bins, *out = t->out + at * (t->kind < SPEECH_MEL ? D : M);
    tfm_error err;
    tfm_status status;
    if (t->kind != SPEECH_MEL) {
        float *x = t->x + at * (t->kind + 1) * wide; /* conv2 moves on by two frames */
        status = speech_linear(out, rows, D, x, (t->kind + 1) * wide, 3 * wide, s->weight[t->kind],
                               s->bias[t->kind], &err);
    } else if ((status = speech_linear(power, rows, 2 * bins, t->x + at * SPEECH_HOP, SPEECH_HOP,
                                       SPEECH_SPAN, s->waves, NULL, &err)) == TFM_OK) {
        for (i = 0; i < rows; i++)
            for (k = 0; k < bins; k++) {
                float *re = power + i * 2 * bins + k, im = re[bins];
                *re = *re * *re + im * im;
            }
        status = speech_linear(out, rows, M, power, 2 * bins, bins, s->filters, NULL, &err);
        for (i = 0; i < rows * M; i++) out[i] = log10f(out[i] > 1e-10f ? out[i] : 1e-10f);
    }
    if (part == 0) t->status = status, t->err = err;
}

static tfm_status speech_run(speech *s, int32_t kind, float *x, float *out, int64_t rows,
                             tfm_error *err) {
    speech_task t = {s, kind, 1, x, out, rows, TFM_OK, {TFM_OK, ""}};
    if (s->parallel && s->threads > 1 && rows >= s->threads) t.parts = s->threads;
    if (t.parts > 1) s->parallel->run(s->parallel->user, speech_part, &t, t.parts);
    else if (rows > 0) speech_part(&t, 0);
    if (t.status != TFM_OK) *err = t.err;
    return t.status;
}

/* Computes the logarithmic mel spectrum [frames, mels] of at most SPEECH_FRAMES frames. Frame i sees
   samples 160 i to 160 i + 399; in a sound, that is its sample 160 i - 200 and later. *loudest is
   raised to the largest value. */
static tfm_status speech_mel(speech *s, float *samples, int64_t frames, float *mel, float *loudest,
                             tfm_error *err) {
    int64_t i;
    tfm_status status = speech_run(s, SPEECH_MEL, samples, mel, frames, err);
    for (i = 0; i < frames * s->mels && status == TFM_OK; i++)
        if (mel[i] > *loudest) *loudest = mel[i];
    return status;
}

/* Scales n values for the model: what is over 80 dB below loudest is raised to that. faster-whisper
   takes the loudest value of the whole sound, transformers that of each window. */
static void speech_scale(float *mel, int64_t n, float loudest) {
    int64_t i;
    for (i = 0; i < n; i++) mel[i] = ((mel[i] > loudest - 8 ? mel[i] : loudest - 8) + 4) / 4;
}

/* Computes the embeddings [SPEECH_POSITIONS, width] of mel [SPEECH_FRAMES, mels] by two convolutions
   over three frames, with GELU after each. The first has an output for every frame, the second for
   every second one. The scratch has a row of zeros before the first frame and after the last. */
static tfm_status speech_convolve(speech *s, const float *mel, float *embeddings, tfm_error *err) {
    int64_t M = s->mels, D = s->width, rows = SPEECH_FRAMES;
    tfm_status status;
    memcpy(s->padded + M, mel, (size_t)(rows * M) * sizeof(float));
    status = speech_run(s, SPEECH_CONV1, s->padded, s->middle + D, rows, err);
    return status == TFM_OK ? speech_run(s, SPEECH_CONV2, s->middle, embeddings, rows / 2, err)
                            : status;
}

#endif
