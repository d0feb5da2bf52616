/* speech.h: from 30 seconds of sound to the embeddings that Whisper's encoder reads. To copy into
   your program, which includes transformer.h first.

       speech s;
       if (speech_load(&s, file, &err) == TFM_OK &&            file: a tfm_safetensors, the model's
           speech_mel(&s, samples, SPEECH_FRAMES, mel, &loudest, &err) == TFM_OK)
           speech_convolve(&s, mel, SPEECH_FRAMES, SPEECH_FRAMES, loudest, embeddings, &err);
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

#ifndef SPEECH_SECONDS
#define SPEECH_SECONDS 30 /* of a window; tests/fuzz has shorter ones */
#endif
enum {
    SPEECH_FRAMES = 100 * SPEECH_SECONDS,   /* of a window */
    SPEECH_POSITIONS = 50 * SPEECH_SECONDS, /* that the encoder makes of them */
    SPEECH_HOP = 160,                       /* samples from one frame to the next */
    SPEECH_SPAN = 400,                      /* samples that a frame sees */
    SPEECH_BINS = 201,                      /* frequencies of a frame, 0 to 8 kHz */
    SPEECH_LINEAR = -1                      /* of speech_product: no activation */
};

typedef struct speech {
    int32_t bins, mels, width;         /* of a frame: SPEECH_BINS, mel bins; of an embedding */
    tfm_linear_weights waves, filters; /* [2 * bins, 400], the window in it; [mels, bins] */
    tfm_linear_weights layers[2];      /* convolutions: [width, 3 * mels], [width, 3 * width] */
    float *spectrum, *padded, *middle; /* [3000, 2 * bins]; [3002, mels or width], zeros around */
    const tfm_parallel *parallel;      /* NULL: the calling thread computes all */
    int32_t threads;
} speech;

static float *speech_zeros(int64_t n) { return (float *)calloc((size_t)n, sizeof(float)); }

/* Reads a tensor into new memory. sizes [rank]: -1 stands for any size, which is stored there. */
static tfm_status speech_read(const tfm_safetensors *file, const char *name, int rank,
                              int32_t *sizes, tfm_tensor *out, tfm_error *err) {
    int64_t i = tfm_safetensors_find(file, name), n = 1, d;
    tfm_tensor t = tfm_safetensors_tensor(file, i);
    for (d = 0; d < t.rank && t.rank == rank; d++) {
        if (sizes[d] < 0 && t.dims[d] <= 65536) sizes[d] = (int32_t)t.dims[d];
        if (sizes[d] != t.dims[d]) break;
        n *= t.dims[d];
    }
    if (d != rank || n < 1 || n > 65536 * 4096) {
        snprintf(err->text, sizeof err->text,
                 i < 0 ? "tensor '%s' is missing: this is not a Whisper model from tools/convert.py"
                       : "tensor '%s' has another shape",
                 name);
        return err->status = TFM_E_TENSOR;
    }
    *out = tfm_tensor_2d(speech_zeros(n), TFM_DTYPE_F32, sizes[0], n / sizes[0]);
    out->rank = rank > 1 ? 2 : 1;
    return out->data ? tfm_safetensors_read(file, i, TFM_DTYPE_F32, out->data, err) : TFM_E_MEMORY;
}

/* Fills in the Fourier transform to bins frequencies, with a window of Hann that has the period
   given, and Slaney's mel filters: triangles of equal area between points that are linear in
   frequency up to 1 kHz and logarithmic above. */
static void speech_make_tables(float *waves, float *filters, int32_t mels, int32_t bins,
                               int32_t period) {
    const double pi = 3.14159265358979323846, top = 45.245640471924965; /* 8 kHz in mel */
    double edge[3];
    int32_t size = 2 * (bins - 1), k, n, m;
    for (k = 0; k < bins; k++)
        for (n = 0; n < SPEECH_SPAN; n++) {
            double window = 0.5 - 0.5 * cos(2 * pi * n / period);
            double angle = 2 * pi * (k * n % size) / size;
            waves[k * SPEECH_SPAN + n] = (float)(window * cos(angle));
            waves[(bins + k) * SPEECH_SPAN + n] = (float)(window * sin(angle));
        }
    for (m = 0; m < mels; m++) {
        for (k = 0; k < 3; k++) {
            double mel = (m + k) * top / (mels + 1);
            edge[k] = mel < 15 ? mel * 200 / 3 : 1000 * exp(log(6.4) / 27 * (mel - 15));
        }
        for (k = 0; k < bins; k++) {
            double f = 8000.0 * k / (bins - 1), rise = (f - edge[0]) / (edge[1] - edge[0]);
            double height = fmax(0, fmin(rise, (edge[2] - f) / (edge[2] - edge[1])));
            filters[m * bins + k] = (float)(height * 2 / (edge[2] - edge[0]));
        }
    }
}

/* Makes the tables of speech_power, and room for frames at once. */
static tfm_status speech_make_spectrum(speech *s, int32_t bins, int32_t period, int32_t frames) {
    float *waves = speech_zeros(bins * 2 * SPEECH_SPAN), *filters = speech_zeros(bins * s->mels);
    s->bins = bins;
    s->waves.weight = tfm_tensor_2d(waves, TFM_DTYPE_F32, 2 * bins, SPEECH_SPAN);
    s->filters.weight = tfm_tensor_2d(filters, TFM_DTYPE_F32, s->mels, bins);
    s->spectrum = speech_zeros((int64_t)frames * 2 * bins);
    if (!waves || !filters || !s->spectrum) return TFM_E_MEMORY;
    speech_make_tables(waves, filters, s->mels, bins, period);
    return TFM_OK;
}

static void speech_free(speech *s) {
    int i;
    for (i = 0; i < 2; i++) free(s->layers[i].weight.data), free(s->layers[i].bias.data);
    free(s->waves.weight.data), free(s->filters.weight.data);
    free(s->spectrum), free(s->padded), free(s->middle);
    memset(s, 0, sizeof *s);
}

/* Loads the convolutions of a model file. On failure there is nothing to free. */
static tfm_status speech_load(speech *s, const tfm_safetensors *file, tfm_error *err) {
    static const char *const names[] = {"extra.conv1.weight", "extra.conv1.bias",
                                        "extra.conv2.weight", "extra.conv2.bias"};
    int32_t sizes[3] = {-1, 3, -1}, frames = SPEECH_FRAMES, i;
    tfm_status status = TFM_OK;
    memset(s, 0, sizeof *s);
    for (i = 0; i < 4 && status == TFM_OK; i++) {
        tfm_tensor *t = i % 2 ? &s->layers[i / 2].bias : &s->layers[i / 2].weight;
        status = speech_read(file, names[i], i % 2 ? 1 : 3, sizes, t, err);
        if (i == 0) s->mels = sizes[2], s->width = sizes[2] = sizes[0];
        if (s->mels > SPEECH_BINS) { /* the filters would have more memory than the file */
            snprintf(err->text, sizeof err->text,
                     "tensor '%s' has %d mel bins, but a frame has %d frequencies", names[i],
                     (int)s->mels, (int)SPEECH_BINS);
            status = err->status = TFM_E_TENSOR;
        }
    }
    if (status == TFM_OK) {
        status = speech_make_spectrum(s, SPEECH_BINS, SPEECH_SPAN, frames);
        s->padded = speech_zeros((int64_t)(frames + 2) * s->mels);
        s->middle = speech_zeros((int64_t)(frames + 2) * s->width);
        if (!s->padded || !s->middle) status = TFM_E_MEMORY;
    }
    if (status == TFM_E_MEMORY) snprintf(err->text, sizeof err->text, "no memory for the sound");
    if (status != TFM_OK) speech_free(s);
    return status;
}

/* A product whose rows threads can share. */
typedef struct speech_task {
    tfm_tensor y, x; /* [rows, n] and [rows, columns] */
    const tfm_linear_weights *w;
    int32_t parts, activation;
    tfm_status status; /* of part 0; the others would fail for the same reason */
    tfm_error err;
} speech_task;

/* Computes a share of the rows. */
static void speech_part(void *context, int32_t part) {
    speech_task *t = (speech_task *)context;
    tfm_tensor y = t->y, x = t->x;
    int64_t at = y.dims[0] * part / t->parts;
    tfm_error err;
    tfm_status status;
    y.dims[0] = x.dims[0] = y.dims[0] * (part + 1) / t->parts - at;
    y.data = (float *)y.data + at * y.strides[0];
    x.data = (float *)x.data + at * x.strides[0];
    status = tfm_linear(&y, &x, t->w, &err);
    if (status == TFM_OK && t->activation >= 0)
        status = tfm_activate(&y, &y, (tfm_activation)t->activation, &err);
    if (part == 0) t->status = status, t->err = err;
}

/* Computes out [rows, n] = activation(x w^T + bias), or without an activation (SPEECH_LINEAR). Row
   i of x begins at x + i * stride. */
static tfm_status speech_product(speech *s, float *out, int64_t rows, float *x, int64_t stride,
                                 const tfm_linear_weights *w, int activation, tfm_error *err) {
    const int64_t *sizes = w->weight.dims;
    speech_task t = {tfm_tensor_2d(out, TFM_DTYPE_F32, rows, sizes[0]),
                     tfm_tensor_2d(x, TFM_DTYPE_F32, rows, sizes[1]),
                     w,
                     1,
                     activation,
                     TFM_OK,
                     {TFM_OK, ""}};
    t.x.strides[0] = stride;
    if (s->parallel && s->threads > 1 && rows >= s->threads) t.parts = s->threads;
    if (t.parts > 1) s->parallel->run(s->parallel->user, speech_part, &t, t.parts);
    else if (rows > 0) speech_part(&t, 0);
    if (t.status != TFM_OK) *err = t.err;
    return t.status;
}

/* Computes out [rows, n] = x w^T, or GELU(x w^T + bias) if there is a bias. */
static tfm_status speech_linear(speech *s, float *out, int64_t rows, float *x, int64_t stride,
                                const tfm_linear_weights *w, tfm_error *err) {
    return speech_product(s, out, rows, x, stride, w,
                          w->bias.data ? (int)TFM_ACTIVATION_GELU : (int)SPEECH_LINEAR, err);
}

/* Computes the mel spectrum [frames, mels] of as many frames as the tables have room for. Frame i
   sees samples 160 i to 160 i + 399: the sound's from 160 i - 200 on. */
static tfm_status speech_power(speech *s, float *samples, int64_t frames, float *mel,
                               tfm_error *err) {
    int64_t bins = s->bins, i, k;
    tfm_status status = speech_linear(s, s->spectrum, frames, samples, SPEECH_HOP, &s->waves, err);
    for (i = 0; i < frames && status == TFM_OK; i++)
        for (k = 0; k < bins; k++) { /* the power takes the place of the real part */
            float *re = s->spectrum + i * 2 * bins + k, im = re[bins];
            *re = *re * *re + im * im;
        }
    if (status != TFM_OK) return status;
    return speech_linear(s, mel, frames, s->spectrum, 2 * bins, &s->filters, err);
}

/* Computes the logarithmic mel spectrum [frames, mels] of at most SPEECH_FRAMES frames. Raises
   *loudest to the largest. */
static tfm_status speech_mel(speech *s, float *samples, int64_t frames, float *mel, float *loudest,
                             tfm_error *err) {
    int64_t M = s->mels, i;
    tfm_status status = speech_power(s, samples, frames, mel, err);
    for (i = 0; i < frames * M && status == TFM_OK; i++) {
        mel[i] = log10f(mel[i] > 1e-10f ? mel[i] : 1e-10f);
        if (mel[i] > *loudest) *loudest = mel[i];
    }
    return status;
}

/* Computes the embeddings [rows / 2, width] of mel [frames, mels] by two convolutions over three
   frames, with GELU after each; the second has an output for every second frame. Values more than
   80 dB below loudest are raised to that: faster-whisper takes the loudest value of the sound,
   transformers that of the window. The rest of the window of rows frames (an even number, at most
   SPEECH_FRAMES) and a row on both sides are zeros. */
static tfm_status speech_convolve(speech *s, const float *mel, int64_t frames, int64_t rows,
                                  float loudest, float *embeddings, tfm_error *err) {
    int64_t M = s->mels, D = s->width, i;
    float *scaled = s->padded + M;
    tfm_status status;
    for (i = 0; i < frames * M; i++)
        scaled[i] = ((mel[i] > loudest - 8 ? mel[i] : loudest - 8) + 4) / 4;
    memset(scaled + frames * M, 0, (size_t)((rows - frames + 1) * M) * sizeof *scaled);
    status = speech_linear(s, s->middle + D, rows, s->padded, M, &s->layers[0], err);
    if (status != TFM_OK) return status;
    memset(s->middle + (rows + 1) * D, 0, (size_t)D * sizeof *s->middle);
    return speech_linear(s, embeddings, rows / 2, s->middle, 2 * D, &s->layers[1], err);
}

#endif
