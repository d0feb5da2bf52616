/* vad.h: where in a sound somebody speaks, by the network of Silero (MIT licence). To copy into
   your program, which includes transformer.h, sound.h and speech.h first.

       vad net;                      reads the tensors extra.vad.* that tools/convert.py has written
       vad_state state;
       status = vad_load(&net, file, &err);
       memset(&state, 0, sizeof state);
       if (status == TFM_OK && net.is_there) ... the file may have no detector
           status = vad_frame(&net, &state, samples, &probability, &err);     of 512 samples
       vad_free(&net);

   A frame has 512 samples (32 ms) at 16 kHz. The network sees them behind the last 64 samples of
   the frame before: a Fourier transform of four parts, four convolutions over three columns each,
   and an LSTM, which remembers what was before. A net serves several threads, a state one. */
#ifndef VAD_H
#define VAD_H

enum { VAD_FRAME = 512, VAD_CONTEXT = 64, VAD_SPAN = 256, VAD_HOP = 128, VAD_BINS = 129 };
enum { VAD_WIDTH = 128, VAD_COLUMNS = 4, VAD_LAYERS = 4, VAD_TENSORS = 2 * VAD_LAYERS + 5 };

typedef struct vad {
    int is_there;
    tfm_linear_weights waves, layers[VAD_LAYERS]; /* [258, 256]; [out, 3 * in] */
    tfm_linear_weights gates, out; /* [4 * 128, 256] of input, forget, cell, output; [1, 128] */
} vad;

typedef struct vad_state {
    float context[VAD_CONTEXT], past[2 * VAD_WIDTH], cell[VAD_WIDTH]; /* past: input, hidden */
} vad_state;

static void vad_free(vad *v) {
    int i;
    for (i = 0; i < VAD_LAYERS; i++) free(v->layers[i].weight.data), free(v->layers[i].bias.data);
    free(v->waves.weight.data), free(v->gates.weight.data), free(v->gates.bias.data);
    free(v->out.weight.data), free(v->out.bias.data);
    memset(v, 0, sizeof *v);
}

/* Loads the detector of a model file; is_there becomes 0 if the file has none. On failure there is
   nothing to free. */
static tfm_status vad_load(vad *v, const tfm_safetensors *file, tfm_error *err) {
    const struct {
        const char *name;
        tfm_tensor *to;
        int rank;
        int32_t sizes[3];
    } all[VAD_TENSORS] = {
        {"extra.vad.waves.weight", &v->waves.weight, 2, {2 * VAD_BINS, VAD_SPAN, 0}},
        {"extra.vad.conv1.weight", &v->layers[0].weight, 3, {VAD_WIDTH, 3, VAD_BINS}},
        {"extra.vad.conv1.bias", &v->layers[0].bias, 1, {VAD_WIDTH, 0, 0}},
        {"extra.vad.conv2.weight", &v->layers[1].weight, 3, {VAD_WIDTH / 2, 3, VAD_WIDTH}},
        {"extra.vad.conv2.bias", &v->layers[1].bias, 1, {VAD_WIDTH / 2, 0, 0}},
        {"extra.vad.conv3.weight", &v->layers[2].weight, 3, {VAD_WIDTH / 2, 3, VAD_WIDTH / 2}},
        {"extra.vad.conv3.bias", &v->layers[2].bias, 1, {VAD_WIDTH / 2, 0, 0}},
        {"extra.vad.conv4.weight", &v->layers[3].weight, 3, {VAD_WIDTH, 3, VAD_WIDTH / 2}},
        {"extra.vad.conv4.bias", &v->layers[3].bias, 1, {VAD_WIDTH, 0, 0}},
        {"extra.vad.lstm.weight", &v->gates.weight, 2, {4 * VAD_WIDTH, 2 * VAD_WIDTH, 0}},
        {"extra.vad.lstm.bias", &v->gates.bias, 1, {4 * VAD_WIDTH, 0, 0}},
        {"extra.vad.out.weight", &v->out.weight, 2, {1, VAD_WIDTH, 0}},
        {"extra.vad.out.bias", &v->out.bias, 1, {1, 0, 0}}};
    tfm_status status = TFM_OK;
    int32_t sizes[3];
    int i;
    memset(v, 0, sizeof *v);
    if (tfm_safetensors_find(file, all[0].name) < 0) return TFM_OK;
    for (i = 0; i < VAD_TENSORS && status == TFM_OK; i++) {
        memcpy(sizes, all[i].sizes, sizeof sizes);
        status = speech_read(file, all[i].name, all[i].rank, sizes, all[i].to, err);
    }
    if (status != TFM_OK) vad_free(v);
    v->is_there = status == TFM_OK;
    return status;
}

/* Computes y [rows, n] = x w^T + bias. Row i of x begins at x + i * stride. */
static tfm_status vad_linear(float *y, int64_t rows, float *x, int64_t stride,
                             const tfm_linear_weights *w, tfm_error *err) {
    tfm_tensor out = tfm_tensor_2d(y, TFM_DTYPE_F32, rows, w->weight.dims[0]);
    tfm_tensor in = tfm_tensor_2d(x, TFM_DTYPE_F32, rows, w->weight.dims[1]);
    in.strides[0] = stride;
    return tfm_linear(&out, &in, w, err);
}

static float vad_sigmoid(float x) { return 1 / (1 + expf(-x)); }

/* Computes the probability that somebody speaks in a frame, and moves the state on. */
static tfm_status vad_frame(const vad *v, vad_state *s, const float *samples, float *probability,
                            tfm_error *err) {
    static const int strides[VAD_LAYERS] = {1, 2, 2, 1};
    float x[VAD_CONTEXT + VAD_FRAME + VAD_CONTEXT], spectrum[VAD_COLUMNS * 2 * VAD_BINS];
    float padded[2][(VAD_COLUMNS + 2) * VAD_BINS], gates[4 * VAD_WIDTH], hidden[VAD_WIDTH];
    int columns = VAD_COLUMNS, size = VAD_BINS, i, k;
    tfm_status status;
    memcpy(x, s->context, sizeof s->context);
    memcpy(x + VAD_CONTEXT, samples, VAD_FRAME * sizeof *x);
    for (i = 0; i < VAD_CONTEXT; i++) /* mirrored behind the last sample */
        x[VAD_CONTEXT + VAD_FRAME + i] = x[VAD_CONTEXT + VAD_FRAME - 2 - i];
    memcpy(s->context, x + VAD_FRAME, sizeof s->context);
    status = vad_linear(spectrum, VAD_COLUMNS, x, VAD_HOP, &v->waves, err);
    memset(padded, 0, sizeof padded); /* a column of zeros stands before and behind */
    for (i = 0; i < VAD_COLUMNS && status == TFM_OK; i++)
        for (k = 0; k < VAD_BINS; k++) {
            float re = spectrum[i * 2 * VAD_BINS + k], im = spectrum[(i * 2 + 1) * VAD_BINS + k];
            padded[0][(i + 1) * VAD_BINS + k] = sqrtf(re * re + im * im);
        }
    for (i = 0; i < VAD_LAYERS && status == TFM_OK; i++) {
        float *in = padded[i % 2], *out = padded[(i + 1) % 2];
        int next = (int)v->layers[i].weight.dims[0], n = (columns - 1) / strides[i] + 1;
        status = vad_linear(out + next, n, in, strides[i] * size, &v->layers[i], err);
        for (k = next; k < (n + 1) * next; k++) out[k] = out[k] > 0 ? out[k] : 0;
        memset(out, 0, (size_t)next * sizeof *out);
        memset(out + (n + 1) * next, 0, (size_t)next * sizeof *out);
        columns = n, size = next;
    }
    memcpy(s->past, padded[0] + VAD_WIDTH, VAD_WIDTH * sizeof *s->past);
    if (status == TFM_OK) status = vad_linear(gates, 1, s->past, 2 * VAD_WIDTH, &v->gates, err);
    for (k = 0; k < VAD_WIDTH && status == TFM_OK; k++) {
        float in = vad_sigmoid(gates[k]), forget = vad_sigmoid(gates[VAD_WIDTH + k]);
        float out = vad_sigmoid(gates[3 * VAD_WIDTH + k]), *past = &s->past[VAD_WIDTH + k];
        s->cell[k] = forget * s->cell[k] + in * tanhf(gates[2 * VAD_WIDTH + k]);
        *past = out * tanhf(s->cell[k]), hidden[k] = *past > 0 ? *past : 0;
    }
    if (status == TFM_OK) status = vad_linear(probability, 1, hidden, VAD_WIDTH, &v->out, err);
    if (status == TFM_OK) *probability = vad_sigmoid(*probability);
    return status;
}

#endif
