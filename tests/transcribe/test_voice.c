/* Tests examples/transcribe/vad.h and voice.h: the network with random weights against its
   definition in plain loops, and the parts of a sound against the rules of faster-whisper, written
   down again over all probabilities at once. */
#include "transformer.h"
#include "tiny.h"
#if defined(__GNUC__)
#pragma GCC diagnostic ignored "-Wshadow" /* The headers have arguments that are named err. */
#pragma GCC diagnostic ignored "-Wunused-function"
#endif
#include "../../examples/transcribe/sound.h"
#include "../../examples/transcribe/speech.h"
#include "../../examples/transcribe/vad.h"
#include "../../examples/transcribe/voice.h"
#include "../vad_tensors.h"

enum { FRAMES = 12, MOST = 400 };
enum { TENSORS = sizeof vad_tensors / sizeof *vad_tensors };
static float *weights[TENSORS];
static unsigned seed = 7;

static double uniform(void) { return tiny_random(&seed) / 8388608.0 - 1; }

/* Writes a file with the tensors; without < TENSORS: not this one; short_of: this one has a row
   less. */
static tfm_safetensors *detector(int without, int short_of, void **bytes) {
    tfm_safetensors *file = NULL;
    st_writer w;
    size_t size;
    int i;
    memset(&w, 0, sizeof w);
    for (i = 0; i < TENSORS; i++) {
        int64_t dims[3], n = 1, k;
        char name[64];
        for (k = 0; k < vad_tensors[i].rank; k++) dims[k] = vad_tensors[i].dims[k], n *= dims[k];
        if (!weights[i]) {
            weights[i] = (float *)malloc((size_t)n * sizeof(float));
            for (k = 0; k < n; k++)
                weights[i][k] = (float)(uniform() * 1.5 / sqrt((double)(n / dims[0])));
        }
        if (i == short_of) dims[0]--;
        snprintf(name, sizeof name, "extra.vad.%s", vad_tensors[i].name);
        if (i != without)
            st_add(&w, name, tfm_tensor_make(weights[i], TFM_DTYPE_F32, vad_tensors[i].rank, dims));
    }
    if (st_write_memory(&w, bytes, &size)) exit(2);
    st_free(&w);
    must(tfm_safetensors_open(&file, *bytes, size, NULL, &err));
    return file;
}

/* A convolution over three columns [n, in] with zeros around them, and ReLU. */
static int convolve(const double *x, int n, int in, int stride, int layer, double *y) {
    const float *w = weights[2 * layer + 1], *bias = weights[2 * layer + 2];
    int out = (int)vad_tensors[2 * layer + 1].dims[0], m = (n - 1) / stride + 1, t, o, k, c;
    for (t = 0; t < m; t++)
        for (o = 0; o < out; o++) {
            double sum = bias[o];
            for (k = 0; k < 3; k++)
                for (c = 0; c < in; c++)
                    if (t * stride + k >= 1 && t * stride + k <= n)
                        sum += w[(o * 3 + k) * in + c] * x[(t * stride + k - 1) * in + c];
            y[t * out + o] = sum > 0 ? sum : 0;
        }
    return m;
}

static double logistic(double x) { return 1 / (1 + exp(-x)); }

static void test_network(void) {
    static float sound_of[FRAMES * 512 + 64];
    double h[128] = {0}, c[128] = {0}, a[4 * 129], b[4 * 129], most = 0;
    void *bytes = NULL;
    tfm_safetensors *file = detector(-1, -1, &bytes);
    vad net;
    vad_state state;
    int i, t, k, n;
    must(vad_load(&net, file, &err));
    CHECK(net.is_there, "loaded");
    memset(&state, 0, sizeof state);
    for (i = 64; i < FRAMES * 512 + 64; i++) sound_of[i] = (float)(uniform() * (i / 512 % 3));
    for (i = 0; i < FRAMES; i++) {
        const float *x = sound_of + i * 512; /* 64 samples before the frame */
        float got = -1;
        double sum = weights[12][0];
        for (t = 0; t < 4; t++)
            for (k = 0; k < 129; k++) {
                double re = 0, im = 0;
                for (n = 0; n < 256; n++) {
                    int at = t * 128 + n;
                    double value = x[at < 576 ? at : 2 * 575 - at];
                    re += weights[0][k * 256 + n] * value,
                        im += weights[0][(129 + k) * 256 + n] * value;
                }
                a[t * 129 + k] = sqrt(re * re + im * im);
            }
        n = convolve(a, 4, 129, 1, 0, b), n = convolve(b, n, 128, 2, 1, a);
        n = convolve(a, n, 64, 2, 2, b), n = convolve(b, n, 64, 1, 3, a);
        for (k = 0; k < 128; k++) b[k] = h[k];
        for (k = 0; k < 128; k++) {
            double gate[4];
            for (t = 0; t < 4; t++) {
                const float *row = weights[9] + (t * 128 + k) * 256;
                gate[t] = weights[10][t * 128 + k];
                for (n = 0; n < 128; n++) gate[t] += row[n] * a[n] + row[128 + n] * b[n];
            }
            c[k] = logistic(gate[1]) * c[k] + logistic(gate[0]) * tanh(gate[2]);
            h[k] = logistic(gate[3]) * tanh(c[k]);
            sum += weights[11][k] * (h[k] > 0 ? h[k] : 0);
        }
        must(vad_frame(&net, &state, x + 64, &got, &err));
        if (fabs(got - logistic(sum)) > most) most = fabs(got - logistic(sum));
    }
    CHECK(most < 1e-5, "probabilities of %d frames: at most %g off", FRAMES, most);
    vad_free(&net), tfm_safetensors_free(file), free(bytes);
    for (i = 1; i < TENSORS; i++)
        for (k = 0; k < 2; k++) {
            char name[64];
            snprintf(name, sizeof name, "'extra.vad.%s'", vad_tensors[i].name);
            file = detector(k ? -1 : i, k ? i : -1, &bytes), err.text[0] = 0;
            CHECK(vad_load(&net, file, &err) == TFM_E_TENSOR && strstr(err.text, name), "%s %s: %s",
                  name, k ? "has another shape" : "is missing", err.text);
            tfm_safetensors_free(file), free(bytes);
        }
    file = detector(0, -1, &bytes);
    CHECK(vad_load(&net, file, &err) == TFM_OK && !net.is_there, "a file without detector");
    tfm_safetensors_free(file), free(bytes);
}

/* The rules of faster-whisper's get_speech_timestamps. Returns the number of parts. */
static int find_parts(const float *p, int n, int64_t total, double threshold, int64_t silence,
                      int64_t pad, voice_part *out) {
    double lower = fmax(threshold - 0.15, 0.01);
    int64_t start = -1, pause = 0, gap;
    int i, k = 0;
    for (i = 0; i < n; i++) {
        if (p[i] >= threshold) pause = 0;
        if (p[i] >= threshold && start < 0) {
            start = 512 * i;
        } else if (p[i] < lower && start >= 0) {
            if (!pause) pause = 512 * i;
            if (512 * i - pause < silence) continue;
            out[k].begin = start, out[k++].end = pause, start = -1, pause = 0;
        }
    }
    if (start >= 0 && total > start) out[k].begin = start, out[k++].end = total;
    for (i = 0; i < k; i++) {
        if (i == 0) out[i].begin = out[i].begin > pad ? out[i].begin - pad : 0;
        if (i == k - 1) {
            out[i].end = out[i].end + pad < total ? out[i].end + pad : total;
            break;
        }
        gap = out[i + 1].begin - out[i].end;
        if (gap < 2 * pad) out[i].end += gap / 2, out[i + 1].begin -= gap / 2;
        else out[i].end += pad, out[i + 1].begin -= pad;
    }
    return k;
}

static void test_parts(void) {
    static float known[MOST], got[MOST * 512];
    static unsigned char raw[MOST * 1024];
    static voice_part parts[MOST];
    static const double pads[] = {0, 30, 100, 400}, silences[] = {0, 100, 500, 2000};
    vad net;
    int round, i, k, bad = 0, bad_times = 0, n_all = 0;
    memset(&net, 0, sizeof net), net.is_there = 1;
    for (i = 0; i < MOST * 512; i++)
        raw[2 * i] = (unsigned char)i, raw[2 * i + 1] = (unsigned char)(i >> 8);
    for (round = 0; round < 400; round++) {
        int frames = 1 + (int)(tiny_random(&seed) % (MOST - 1)), n;
        int64_t total = (int64_t)(frames - 1) * 512 + tiny_random(&seed) % 512, done = 0, at = 0;
        voice_options o;
        sound in;
        voice v;
        int32_t more;
        double level = 0.5;
        for (i = 0; i < frames; i++) { /* it stays on one side for a while */
            if (tiny_random(&seed) % (unsigned)(2 + round % 40) == 0) level = (uniform() + 1) / 2;
            known[i] = (float)(level + uniform() * 0.2);
        }
        o.threshold = 0.05 + (uniform() + 1) * 0.45, o.pad = pads[tiny_random(&seed) % 4];
        o.silence = silences[tiny_random(&seed) % 4];
        n = find_parts(known, frames, total, o.threshold, (int64_t)o.silence * 16,
                       (int64_t)o.pad * 16, parts);
        if (sound_open_memory(&in, raw, (size_t)total * 2, SOUND_RAW)) exit(2);
        voice_begin(&v, &net, &o, known, frames);
        while ((more = voice_read(&v, &in, got + done, 1 + (int32_t)(tiny_random(&seed) % 5000))) >
               0)
            done += more;
        bad += v.fault != NULL || v.n_parts != n;
        for (i = 0; i < n && v.n_parts == n; i++) {
            bad += v.parts[i].begin != parts[i].begin || v.parts[i].end != parts[i].end ||
                   v.parts[i].at != at;
            for (k = 0; k < parts[i].end - parts[i].begin && at + k < done; k++) {
                int64_t from = parts[i].begin + k;
                bad += got[at + k] != (float)(int16_t)(uint16_t)from / 32768;
            }
            at += parts[i].end - parts[i].begin;
            if (at >
                parts[i].end - parts[i].begin) { /* between two parts, an end is in the first */
                double seconds = ((double)v.parts[i].at + 0.25) / 16000; /* truncated */
                bad_times += voice_part_of(&v, seconds, 1) != i - 1 ||
                             voice_part_of(&v, seconds, 0) != i;
            }
            bad_times += fabs(voice_time_in(&v, i, (double)v.parts[i].at / 16000) -
                              (double)parts[i].begin / 16000) > 0.00501;
        }
        bad += done != at, n_all += n;
        voice_end(&v), sound_close(&in);
    }
    CHECK(bad == 0 && n_all > 1000, "%d parts: %d differences from the rules", n_all, bad);
    CHECK(bad_times == 0, "times of parts: %d are wrong", bad_times);
}

int main(void) {
    int i;
    test_network();
    test_parts();
    for (i = 0; i < TENSORS; i++) free(weights[i]);
    return test_done("test_voice");
}
