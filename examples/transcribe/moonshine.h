/* moonshine.h: what Moonshine has in the place of Whisper's spectrum, prompt and times. Needs
   transformer.h, speech.h, track.h and whisper.h before it, and the model file of tools/convert.py.

   Moonshine reads a whole utterance of raw sound and writes its text: no times, no language, no
   prompt. Its encoder has a position for each 384 samples (Moonshine) or each 320 (streaming, see
   listen.h), so a short utterance costs little. A long sound is cut where the voice detector ends a
   part, and at the quietest place of the last two thirds of a window. */
#ifndef MOONSHINE_H
#define MOONSHINE_H

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "listen.h"

typedef enum moonshine_kind {
    MOONSHINE_NONE, /* another model */
    MOONSHINE_WHOLE,
    MOONSHINE_STREAMING
} moonshine_kind;

enum { MOONSHINE_PAUSE = 30, MOONSHINE_SAMPLES = SPEECH_FRAMES * SPEECH_HOP };

typedef struct moonshine {
    moonshine_kind kind;
    double tokens_a_second;     /* at most so many are written; Moonshine's own programs have 6.5 */
    int32_t width;              /* of the embeddings that the encoder reads */
    tfm_linear_weights stem[3]; /* convolutions: [D, 127], [2D, 7 * D], [D, 3 * 2D] */
    tfm_tensor gain, shift;     /* [D]: of the norm over all that the first convolution gives */
    float *rows[3];             /* what each convolution gives */
    listen_weights listen;      /* of the streaming encoder */
    float *memory;              /* [MOONSHINE_SAMPLES / 320 + 1, listen.width] */
} moonshine;

/* Samples from one output of a convolution of the stem to the next, and samples (or rows) it
   sees. */
static const int32_t moonshine_stride[3] = {64, 3, 2}, moonshine_taps[3] = {127, 7, 3};

/* Returns how many rows convolution number k of the stem gives of n samples. */
static int64_t moonshine_rows(int64_t n, int k) {
    int i;
    for (i = 0; i <= k; i++)
        n = n < moonshine_taps[i] ? 0 : (n - moonshine_taps[i]) / moonshine_stride[i] + 1;
    return n;
}

static void moonshine_free(moonshine *m) {
    int i;
    for (i = 0; i < 3; i++)
        free(m->stem[i].weight.data), free(m->stem[i].bias.data), free(m->rows[i]);
    free(m->gain.data), free(m->shift.data), free(m->memory);
    listen_free(&m->listen);
    memset(m, 0, sizeof *m);
}

/* Returns what kind of model a file has. */
static moonshine_kind moonshine_find(const tfm_safetensors *file) {
    if (tfm_safetensors_find(file, "extra.stem1.weight") >= 0) return MOONSHINE_WHOLE;
    if (tfm_safetensors_find(file, "extra.listen.frames.weight") >= 0) return MOONSHINE_STREAMING;
    return MOONSHINE_NONE;
}

/* Reads the three convolutions and the norm. */
static tfm_status moonshine_load_stem(moonshine *m, const tfm_safetensors *file, tfm_error *err) {
    int32_t D = -1, sizes[3], one, i;
    tfm_status status = TFM_OK;
    for (i = 0; i < 3 && status == TFM_OK; i++) {
        char name[32];
        sizes[0] = i == 1 ? 2 * D : D, sizes[1] = moonshine_taps[i];
        sizes[2] = i == 0 ? 1 : i == 1 ? D : 2 * D;
        snprintf(name, sizeof name, "extra.stem%d.weight", (int)i + 1);
        status = speech_read(file, name, 3, sizes, &m->stem[i].weight, err);
        if (i == 0) D = sizes[0];
        one = i == 1 ? 2 * D : D;
        snprintf(name, sizeof name, "extra.stem%d.bias", (int)i + 1);
        if (i && status == TFM_OK) status = speech_read(file, name, 1, &one, &m->stem[i].bias, err);
        if (status == TFM_OK) {
            m->rows[i] = speech_zeros((moonshine_rows(MOONSHINE_SAMPLES, i) + 1) * one);
            if (!m->rows[i]) status = TFM_E_MEMORY;
        }
    }
    m->width = D;
    if (status == TFM_OK)
        status = speech_read(file, "extra.stem_norm.weight", 1, &D, &m->gain, err);
    if (status == TFM_OK) status = speech_read(file, "extra.stem_norm.bias", 1, &D, &m->shift, err);
    return status;
}

/* Loads what is beside the Transformer of a model file, and fits the limits of its session. On
   failure there is nothing to free. */
static tfm_status moonshine_load(moonshine *m, const tfm_safetensors *file, const tfm_model *model,
                                 tfm_session_options *limits, tfm_error *err) {
    const tfm_config *c = tfm_model_config(model);
    const char *rate = tfm_safetensors_metadata(file, "extra.tokens_per_second");
    tfm_status status;
    memset(m, 0, sizeof *m);
    m->kind = moonshine_find(file);
    m->tokens_a_second = rate ? strtod(rate, NULL) : 6.5;
    if (!(m->tokens_a_second > 0 && m->tokens_a_second <= 100)) m->tokens_a_second = 6.5;
    limits->max_target = (int32_t)(m->tokens_a_second * (int)SPEECH_SECONDS) + 1;
    if (m->kind == MOONSHINE_WHOLE) {
        limits->max_source = (int32_t)moonshine_rows(MOONSHINE_SAMPLES, 2);
        status = moonshine_load_stem(m, file, err);
        if (status == TFM_OK && m->width != c->d_input) status = TFM_E_TENSOR;
    } else {
        status = listen_load(&m->listen, file, err);
        if (status == TFM_OK)
            limits->max_source = (int32_t)listen_positions(&m->listen, MOONSHINE_SAMPLES);
        if (status == TFM_OK && limits->max_source > m->listen.n_positions)
            limits->max_source = m->listen.n_positions;
        if (status == TFM_OK) {
            m->memory = speech_zeros((int64_t)limits->max_source * m->listen.width);
            if (!m->memory) status = TFM_E_MEMORY;
            else if (m->listen.width != c->d_memory || c->d_input) status = TFM_E_TENSOR;
        }
    }
    if (status == TFM_E_TENSOR && !err->text[0])
        snprintf(err->text, sizeof err->text, "the convolutions do not fit to the encoder");
    if (status == TFM_E_MEMORY) snprintf(err->text, sizeof err->text, "no memory for the sound");
    if (status != TFM_OK) moonshine_free(m), err->status = status;
    return status;
}

/* Computes the embeddings [*n_rows, width] of n samples: tanh of the first convolution, normalized
   over all of it with one mean and one deviation; GELU after the two others. They stay in m. */
static tfm_status moonshine_stem(moonshine *m, speech *s, float *samples, int64_t n,
                                 tfm_tensor *out, tfm_error *err) {
    int64_t rows = moonshine_rows(n, 0), D = m->width, i, k;
    float *y = m->rows[0];
    const float *gain = (const float *)m->gain.data, *shift = (const float *)m->shift.data;
    double sum = 0, squares = 0, mean, scale;
    tfm_status status = speech_linear(s, y, rows, samples, moonshine_stride[0], &m->stem[0], err);
    for (i = 0; i < rows * D && status == TFM_OK; i++) y[i] = tanhf(y[i]), sum += y[i];
    mean = rows ? sum / (double)(rows * D) : 0;
    for (i = 0; i < rows * D; i++) squares += (y[i] - mean) * (y[i] - mean);
    scale = rows ? 1 / sqrt(squares / (double)(rows * D) + 1e-5) : 0;
    for (i = 0; i < rows; i++)
        for (k = 0; k < D; k++)
            y[i * D + k] = (float)((y[i * D + k] - mean) * scale) * gain[k] + shift[k];
    if (status == TFM_OK)
        status = speech_linear(s, m->rows[1], moonshine_rows(n, 1), y, moonshine_stride[1] * D,
                               &m->stem[1], err);
    rows = moonshine_rows(n, 2);
    if (status == TFM_OK)
        status = speech_linear(s, m->rows[2], rows, m->rows[1], moonshine_stride[2] * 2 * D,
                               &m->stem[2], err);
    *out = tfm_tensor_2d(m->rows[2], TFM_DTYPE_F32, rows, D);
    return status;
}

/* Returns how many frames from frame seek on are one utterance, of the size frames that the track
   has read. is_more: the sound goes on behind them. */
static int64_t moonshine_cut(const track *t, int64_t seek, int64_t size, int is_more) {
    int64_t i, k, best = size;
    double quietest = INFINITY;
    if (t->parts.net && t->parts.n_parts) {
        double at = ((double)seek + 0.5) * (int)SPEECH_HOP / (int)SOUND_RATE;
        const voice_part *p = &t->parts.parts[voice_part_of(&t->parts, at, 0)];
        int64_t end = p->end == VOICE_OPEN ? INT64_MAX : (p->at + p->end - p->begin) / SPEECH_HOP;
        if (end > seek && end - seek <= size) return end - seek;
    }
    if (!is_more) return size;
    for (i = size / 3; i + MOONSHINE_PAUSE <= size; i += MOONSHINE_PAUSE / 3) {
        double power = 0;
        for (k = 0; k < MOONSHINE_PAUSE; k++) power += track_power(t, seek + i + k);
        if (power < quietest) quietest = power, best = i + MOONSHINE_PAUSE / 2;
    }
    return best;
}

/* Returns how many tokens an utterance of n samples has at most. */
static int32_t moonshine_most(const moonshine *m, int64_t n) {
    int32_t most = (int32_t)((double)n * m->tokens_a_second / (int)SOUND_RATE) - 1;
    return most < 1 ? 1 : most;
}

/* Hears an utterance of n samples. Sounds that are too short for one position have no text. */
static tfm_status moonshine_hear(moonshine *m, speech *s, whisper *w, float *samples, int64_t n,
                                 whisper_text *heard, tfm_error *err) {
    tfm_request request;
    tfm_tensor rows;
    tfm_status status;
    memset(&request, 0, sizeof request), memset(heard, 0, sizeof *heard);
    heard->no_speech = -1;
    if (n > MOONSHINE_SAMPLES) n = MOONSHINE_SAMPLES;
    if (m->kind == MOONSHINE_WHOLE) {
        status = moonshine_stem(m, s, samples, n, &rows, err);
        request.embeddings = &rows;
    } else {
        status = listen_whole(&m->listen, samples, n, m->memory, &rows, err);
        request.memory = &rows;
    }
    if (status != TFM_OK || rows.dims[0] < 1) return status;
    return whisper_write(w, &request, moonshine_most(m, n), heard, err);
}

#endif
