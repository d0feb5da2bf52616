/* sound.h: reads a WAV file, or raw samples, as mono floats at 16 kHz. To copy into your program.

       sound s;
       const char *why = sound_open(&s, file, SOUND_WAV);
       if (why) ... the file is no WAV file that this reader knows
       while ((n = sound_read(&s, out, capacity)) > 0) ... n samples from -1 to 1
       sound_close(&s);

   sound_open_memory reads a file that is in memory. WAV, RF64 and BW64: integers of 8 to 64 bits,
   floats of 32 and 64 bits, mu-law and A-law, 1 to 64 channels, which are averaged, and any rate
   from 1 to 384 kHz. For other formats the message names the command of ffmpeg that converts them.
   Raw: 16-bit little-endian samples, mono, 16 kHz. SOUND_ANY reads a WAV file as such, refuses
   other files whose first bytes name their format, and reads all else as raw samples. The file may
   be a pipe, and the header may give a wrong size: reading ends where the file ends. A sample that
   is not finite counts as 0. Memory does not grow with the length of the sound.

   Another rate becomes 16 kHz by a windowed sinc: each output is a weighted mean of the input
   around its time. The weights are sin(x) / x, cut off after SOUND_ZEROS zeros on each side by a
   Kaiser window. They pass what is below 0.92 of the lower of the two Nyquist frequencies, and
   suppress what cannot be represented by over 80 dB. Usual rates have a row of weights for each
   place that an output can have between two samples. Other rates, such as 16001 Hz, would have up
   to 16000 rows: they have at most SOUND_STEPS, and what is between two rows is interpolated,
   which changes a sound by less than 0.00001 of its loudest sample. */
#ifndef SOUND_H
#define SOUND_H

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef enum sound_form { SOUND_WAV, SOUND_RAW, SOUND_ANY } sound_form;
enum { SOUND_PCM = 1, SOUND_FLOAT = 3, SOUND_A_LAW = 6, SOUND_MU_LAW = 7 }; /* WAV's codes */
enum { SOUND_RATE = 16000, SOUND_ZEROS = 48, SOUND_CHUNK = 4096, SOUND_CHANNELS = 64 };
/* The most weights with a row for each phase, and else the rows from one zero to the next. */
enum { SOUND_WEIGHTS = 262144, SOUND_STEPS = 1024 };
enum { SOUND_CHUNKS = 65536 }; /* before the samples; a pipe of zeros would have them without end */

typedef struct sound {
    FILE *file;                /* NULL: the file is in memory */
    const unsigned char *data; /* what is not yet read of it; of a file, bytes before the others */
    size_t size;
    unsigned char head[12];    /* the first bytes of a file, of SOUND_ANY */
    int channels, bytes, kind; /* bytes: of one sample of one channel; kind: SOUND_PCM ... */
    int32_t rate;
    uint64_t left;  /* bytes of the data chunk that are not yet read */
    int ended, cut; /* cut: bytes behind the last whole sample */
    /* the resampler, without tables at 16 kHz */
    float *in;      /* [2 * half + SOUND_CHUNK]: input samples around the next output */
    float *weights; /* [phases, 2 * half], and a last row if is_between */
    int is_between; /* phases are fewer than up: weights are interpolated */
    int32_t half, phases, n_in, up, down; /* 16000 / rate = up / down */
    int64_t first;                        /* number of the input sample in in[0] */
    int64_t n_read, n_out;
} sound;

static uint32_t sound_u32(const unsigned char *p) {
    return p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

/* Reads n bytes, or what is left. Returns how many there were. */
static size_t sound_bytes(sound *s, void *out, size_t n) {
    size_t kept = n < s->size ? n : s->size;
    if (kept) memcpy(out, s->data, kept), s->data += kept, s->size -= kept;
    if (!s->file || kept == n) return kept;
    return kept + fread((char *)out + kept, 1, n - kept, s->file);
}

static int sound_skip(sound *s, uint64_t n) {
    char buffer[4096];
    while (n > 0) {
        size_t want = n < sizeof buffer ? (size_t)n : sizeof buffer;
        if (sound_bytes(s, buffer, want) != want) return 0;
        n -= want;
    }
    return 1;
}

#define SOUND_CONVERT " (ffmpeg -i IN -ar 16000 -ac 1 OUT.wav makes a WAV file of it)"

/* Returns the message about a file of another known format, by its first 12 bytes, or NULL. */
static const char *sound_named_file(const unsigned char *b) {
    static const struct {
        const char *bytes, *message;
        int at, n;
    } all[] = {{"fLaC", "a FLAC file, not a WAV file" SOUND_CONVERT, 0, 4},
               {"OggS", "an Ogg file (Opus, Vorbis), not a WAV file" SOUND_CONVERT, 0, 4},
               {"ID3", "an MP3 file, not a WAV file" SOUND_CONVERT, 0, 3},
               {"ftyp", "an MP4 or M4A file, not a WAV file" SOUND_CONVERT, 4, 4},
               {"\x1A\x45\xDF\xA3", "a WebM or Matroska file, not a WAV file" SOUND_CONVERT, 0, 4},
               {"FORM", "an AIFF file, not a WAV file" SOUND_CONVERT, 0, 4},
               {".snd", "an AU file, not a WAV file" SOUND_CONVERT, 0, 4},
               {"caff", "a CAF file, not a WAV file" SOUND_CONVERT, 0, 4},
               {"RIFX", "a big-endian WAV file" SOUND_CONVERT, 0, 4}};
    size_t i;
    for (i = 0; i < sizeof all / sizeof *all; i++)
        if (memcmp(b + all[i].at, all[i].bytes, (size_t)all[i].n) == 0) return all[i].message;
    return NULL;
}

/* Returns what a file is that is no WAV file, by its first 12 bytes. */
static const char *sound_other_file(const unsigned char *b) {
    const char *why = sound_named_file(b);
    if (why) return why;
    if (b[0] == 0xFF && (b[1] & 0xE0) == 0xE0)
        return "an MP3 or AAC file, not a WAV file" SOUND_CONVERT;
    return "not a WAV file" SOUND_CONVERT;
}

/* Returns what is wrong with a kind of samples, or NULL. */
static const char *sound_check_kind(int kind, int bits) {
    if (kind == 2 || kind == 0x11 || kind == 0x20 || kind == 0x45)
        return "the WAV file holds ADPCM" SOUND_CONVERT;
    if (kind == 0x50 || kind == 0x55) return "the WAV file holds MP3" SOUND_CONVERT;
    if (kind != SOUND_PCM && kind != SOUND_FLOAT && kind != SOUND_A_LAW && kind != SOUND_MU_LAW)
        return "the WAV file is compressed" SOUND_CONVERT;
    if (kind == SOUND_PCM     ? bits < 8 || bits > 64
        : kind == SOUND_FLOAT ? bits != 32 && bits != 64
                              : bits != 8)
        return "the WAV file has samples of another size than 8 to 64 bits, float 32 or 64, or 8 "
               "of A-law and "
               "mu-law" SOUND_CONVERT;
    return NULL;
}

static int sound_is_wav(const unsigned char *b) {
    return memcmp(b + 8, "WAVE", 4) == 0 &&
           (memcmp(b, "RIFF", 4) == 0 || memcmp(b, "RF64", 4) == 0 || memcmp(b, "BW64", 4) == 0);
}

/* Reads the chunks of a WAV file up to its samples. Returns NULL, or what is wrong. */
static const char *sound_read_header(sound *s) {
    unsigned char b[40];
    int bits = 0, has_format = 0, chunks = 0;
    uint32_t rate = 0;
    uint64_t large = 0; /* the size that RF64 states elsewhere */
    const char *why;
    memset(b, 0, sizeof b);
    if (sound_bytes(s, b, 12) != 12 || !sound_is_wav(b)) return sound_other_file(b);
    for (;;) {
        uint32_t size, n;
        if (chunks++ == SOUND_CHUNKS) return "the WAV file has over 65,536 chunks before its data";
        if (sound_bytes(s, b, 8) != 8)
            return has_format ? "the WAV file has no data chunk" : "the WAV file has no fmt chunk";
        size = sound_u32(b + 4);
        if (memcmp(b, "data", 4) == 0) {
            if (!has_format) return "the WAV file has no fmt chunk before its data";
            /* programs that write to a pipe do not know the size: 0 or the largest number */
            s->left = size && size < 0xFFFFFF00u ? size : large ? large : UINT64_MAX;
            break;
        }
        n = size < sizeof b ? size : (uint32_t)sizeof b;
        if (memcmp(b, "ds64", 4) == 0 && n >= 16) {
            if (sound_bytes(s, b, n) != n || !sound_skip(s, (uint64_t)size - n + (size & 1)))
                return "the WAV file ends early";
            large = sound_u32(b + 8) | (uint64_t)sound_u32(b + 12) << 32;
            continue;
        }
        if (memcmp(b, "fmt ", 4) != 0) {
            if (!sound_skip(s, (uint64_t)size + (size & 1))) return "the WAV file ends early";
            continue;
        }
        if (n < 16 || sound_bytes(s, b, n) != n || !sound_skip(s, size - n + (size & 1)))
            return "the fmt chunk of the WAV file is too short";
        s->kind = b[0] | b[1] << 8, has_format = 1;
        s->channels = b[2] | b[3] << 8;
        rate = sound_u32(b + 4);
        bits = b[14] | b[15] << 8;
        if (s->kind == 0xFFFE && n >= 26) s->kind = b[24] | b[25] << 8; /* extensible */
    }
    s->bytes = (bits + 7) / 8;
    why = sound_check_kind(s->kind, bits);
    if (why) return why;
    if (s->channels < 1 || s->channels > SOUND_CHANNELS)
        return "the WAV file's number of channels is not 1 to 64";
    if (rate < 1000 || rate > 384000) return "the WAV file's rate is not 1 to 384 kHz";
    s->rate = (int32_t)rate;
    return NULL;
}

/* Returns the Bessel function I0, from which Kaiser's window is made. */
static double sound_bessel(double x) {
    double sum = 1, term = 1;
    int k;
    for (k = 1; k < 64 && term > 1e-20 * sum; k++) term *= x / (2 * k) * (x / (2 * k)), sum += term;
    return sum;
}

static const char *sound_make_weights(sound *s) {
    const double pi = 3.14159265358979323846;
    int32_t a = s->rate, b = SOUND_RATE, phase, rows, k;
    double cut, beta = 8.5;
    while (b) {
        int32_t rest = a % b;
        a = b, b = rest;
    }
    s->up = SOUND_RATE / a, s->down = s->rate / a;
    cut = 0.95 * (s->rate > SOUND_RATE ? (double)SOUND_RATE / s->rate : 1);
    s->half = (int32_t)ceil((int)SOUND_ZEROS / cut);
    s->is_between = (int64_t)s->up * 2 * s->half > SOUND_WEIGHTS;
    s->phases = s->is_between ? (int32_t)ceil((int)SOUND_STEPS * cut) : s->up;
    rows = s->phases + s->is_between;
    s->in = (float *)calloc((size_t)(2 * s->half + SOUND_CHUNK), sizeof(float));
    s->weights = (float *)malloc((size_t)rows * (size_t)s->half * 2 * sizeof(float));
    if (!s->in || !s->weights) return "no memory to resample the sound";
    for (phase = 0; phase < rows; phase++) {
        float *w = s->weights + (int64_t)phase * 2 * s->half;
        double sum = 0;
        for (k = 0; k < 2 * s->half; k++) {
            double t = k - s->half + 1 - (double)phase / s->phases, x = pi * cut * t;
            double u = t / s->half, window = u * u < 1 ? sound_bessel(beta * sqrt(1 - u * u)) : 0;
            double value = (fabs(x) < 1e-9 ? 1 : sin(x) / x) * window;
            w[k] = (float)value, sum += value;
        }
        for (k = 0; k < 2 * s->half; k++) w[k] = (float)(w[k] / sum);
    }
    s->n_in = s->half - 1; /* zeros stand before the first sample */
    s->first = -(int64_t)s->n_in;
    return NULL;
}

static void sound_close(sound *s) {
    free(s->in), free(s->weights);
    memset(s, 0, sizeof *s);
}

static const char *sound_begin(sound *s, FILE *file, const void *data, size_t size,
                               sound_form form) {
    const char *why = NULL;
    memset(s, 0, sizeof *s);
    s->file = file, s->data = (const unsigned char *)data, s->size = size;
    s->channels = 1, s->bytes = 2, s->kind = SOUND_PCM, s->rate = SOUND_RATE, s->left = UINT64_MAX;
    if (form == SOUND_ANY && file && !size)
        s->data = s->head, s->size = fread(s->head, 1, sizeof s->head, file);
    if (form == SOUND_ANY && s->size >= sizeof s->head)
        form = sound_is_wav(s->data) ? SOUND_WAV : form, why = sound_named_file(s->data);
    if (form == SOUND_WAV) why = sound_read_header(s);
    if (!why && s->rate != SOUND_RATE) why = sound_make_weights(s);
    if (why) sound_close(s);
    return why;
}

/* Begins to read. Returns NULL, or what is wrong. The caller keeps the file. */
static const char *sound_open(sound *s, FILE *file, sound_form form) {
    return sound_begin(s, file, NULL, 0, form);
}

/* Does the same with the bytes of a file. The caller keeps them. */
static const char *sound_open_memory(sound *s, const void *data, size_t size, sound_form form) {
    return sound_begin(s, NULL, data, size, form);
}

/* Returns a sample of G.711: a sign, an exponent of 3 bits and a mantissa of 4. */
static float sound_logarithmic(int kind, int code) {
    int x, exponent;
    code ^= kind == SOUND_MU_LAW ? 0xFF : 0x55;
    exponent = code >> 4 & 7, x = (code & 15) << 4 | 8;
    if (kind == SOUND_MU_LAW) x = ((x / 2 + 128) << exponent) - 132; /* 33 steps of 4 lower */
    else if (exponent) x = (x + 256) << (exponent - 1);
    return (float)((code & 128 ? 1 : -1) * (kind == SOUND_MU_LAW ? -x : x)) / 32768;
}

/* Returns the sample of one channel. Integers have their bits at the upper end of their bytes; with
   one byte, 128 is silence. */
static float sound_sample(const sound *s, const unsigned char *p) {
    uint64_t bits = 0;
    int i;
    for (i = 0; i < s->bytes; i++) bits |= (uint64_t)p[i] << 8 * i;
    if (s->kind == SOUND_FLOAT) {
        uint32_t low = (uint32_t)bits;
        double wide;
        float narrow;
        memcpy(&wide, &bits, sizeof wide), memcpy(&narrow, &low, sizeof narrow);
        if (s->bytes == 4) wide = narrow;
        return wide >= -1e6 && wide <= 1e6 ? (float)wide : 0; /* false for NaN */
    }
    if (s->kind != SOUND_PCM) return sound_logarithmic(s->kind, p[0]);
    if (s->bytes == 1) return (p[0] - 128) / 128.0f;
    return (float)((double)(int64_t)(bits << (64 - 8 * s->bytes)) / 9223372036854775808.0);
}

/* Reads at most n samples at the file's rate, with their channels averaged. 0: the end. */
static int32_t sound_read_mono(sound *s, float *out, int32_t n) {
    unsigned char buffer[SOUND_CHANNELS * 8 * 16];
    int32_t frame = s->channels * s->bytes, done = 0, i, c;
    while (done < n && s->left >= (uint64_t)frame) {
        int32_t want = (int32_t)sizeof buffer / frame;
        if (want > n - done) want = n - done;
        if ((uint64_t)want > s->left / (uint64_t)frame) want = (int32_t)(s->left / (uint64_t)frame);
        want = (int32_t)sound_bytes(s, buffer, (size_t)(want * frame));
        s->cut = want % frame, want /= frame;
        if (want <= 0) break;
        for (i = 0; i < want; i++, done++) {
            float sum = 0;
            for (c = 0; c < s->channels; c++)
                sum += sound_sample(s, buffer + i * frame + c * s->bytes);
            out[done] = sum / (float)s->channels;
        }
        if (s->left != UINT64_MAX) s->left -= (uint64_t)want * (uint64_t)frame;
    }
    return done;
}

/* Reads at most n samples at 16 kHz. Returns how many there were; 0 is the end. */
static int32_t sound_read(sound *s, float *out, int32_t n) {
    int32_t done = 0, k;
    if (!s->weights) return sound_read_mono(s, out, n);
    while (done < n) {
        int64_t place = s->n_out * s->down, at = place / s->up, begin = at - s->half + 1 - s->first;
        int64_t row = place % s->up * s->phases;
        const float *w = s->weights + row / s->up * 2 * s->half, *next = w + 2 * s->half;
        float part = (float)((double)(row % s->up) / s->up);
        float sum = 0;
        if (s->ended && at >= s->n_read) break;
        if (begin + 2 * s->half > s->n_in) { /* the next samples, and zeros after the last */
            int32_t drop = (int32_t)(begin < s->n_in ? begin : s->n_in), more;
            memmove(s->in, s->in + drop, (size_t)(s->n_in - drop) * sizeof *s->in);
            s->n_in -= drop, s->first += drop;
            more = s->ended ? 0 : sound_read_mono(s, s->in + s->n_in, SOUND_CHUNK);
            s->n_read += more;
            if (!more) {
                s->ended = 1, more = 2 * s->half;
                memset(s->in + s->n_in, 0, (size_t)more * sizeof *s->in);
            }
            s->n_in += more;
            continue;
        }
        for (k = 0; k < 2 * s->half && !s->is_between; k++) sum += w[k] * s->in[begin + k];
        for (k = 0; k < 2 * s->half && s->is_between; k++)
            sum += (w[k] + part * (next[k] - w[k])) * s->in[begin + k];
        out[done++] = sum, s->n_out++;
    }
    return done;
}

#endif
