/* Tests examples/transcribe/sound.h: each kind of WAV file against the samples that were written,
   rates against the sine that they hold, and headers that lie. */
#include "test.h"
#include "../../examples/transcribe/sound.h"

enum { N = 8000 };

static void put(FILE *f, uint64_t value, int bytes) {
    for (; bytes > 0; bytes--, value >>= 8) putc((int)(value & 255), f);
}

/* Writes sample x of some kind: positive bits for integers, negative bits for floats. */
static void put_sample(FILE *f, double x, int bits) {
    double scale = ldexp(1, (bits < 0 ? -bits : bits) - 1);
    if (bits == -32) {
        float narrow = (float)x;
        uint32_t word;
        memcpy(&word, &narrow, 4), put(f, word, 4);
    } else if (bits == -64) {
        uint64_t word;
        memcpy(&word, &x, 8), put(f, word, 8);
    } else if (bits > 64) { /* for headers that are refused */
        for (; bits > 0; bits -= 8) fputc(0, f);
    } else if (bits == 8) {
        put(f, (uint64_t)(int64_t)(x * 127 + 128.5), 1);
    } else {
        double v = floor(x * scale + 0.5);
        int rest = (8 - bits % 8) % 8; /* below the sample, which begins at the top of its bytes */
        int64_t most = (int64_t)((UINT64_C(1) << (bits - 1)) - 1);
        put(f, (uint64_t)(v >= scale ? most : (int64_t)v) << rest, (bits + 7) / 8);
    }
}

static void put_header(FILE *f, int kind, int channels, int rate, int bits, uint32_t size) {
    int bytes = ((bits < 0 ? -bits : bits) + 7) / 8;
    fwrite("RIFF", 1, 4, f), put(f, size + 36, 4), fwrite("WAVE", 1, 4, f);
    fwrite("LIST", 1, 4, f), put(f, 3, 4), put(f, 0, 4); /* a chunk of odd size, with its padding */
    fwrite("fmt ", 1, 4, f), put(f, 16, 4), put(f, (uint64_t)kind, 2),
        put(f, (uint64_t)channels, 2);
    put(f, (uint64_t)rate, 4), put(f, (uint64_t)rate * (uint64_t)(channels * bytes), 4);
    put(f, (uint64_t)(channels * bytes), 2), put(f, (uint64_t)(bits < 0 ? -bits : bits), 2);
    fwrite("data", 1, 4, f), put(f, size, 4);
}

static double wave_at(double seconds, double hertz) {
    return 0.7 * sin(2 * 3.14159265358979 * hertz * seconds);
}

/* Writes n frames of a sine; channel 1 has twice the sine and channel 2 silence, so their mean is
   the sine. */
static FILE *make(int channels, int rate, int bits, int n, double hertz) {
    FILE *f = tmpfile();
    int i;
    put_header(f, bits < 0 ? 3 : 1, channels, rate, bits,
               (uint32_t)(n * channels * ((abs(bits) + 7) / 8)));
    for (i = 0; i < n; i++) {
        double x = wave_at((double)i / rate, hertz);
        put_sample(f, channels == 2 ? x / 0.7 * 0.5 * 2 * 0.7 : x, bits);
        if (channels == 2) put_sample(f, 0, bits);
    }
    rewind(f);
    return f;
}

static void test_kinds(void) {
    static const int bits[] = {8, 16, 24, 32, -32, -64, 12, 20, 40, 48, 56, 64};
    static float out[N];
    char name[80];
    int k, channels, i;
    for (channels = 1; channels <= 2; channels++)
        for (k = 0; k < 12; k++) {
            FILE *f = make(channels, SOUND_RATE, bits[k], N, 440);
            double worst = 0, allowed = bits[k] == 8    ? 0.012
                                        : bits[k] == 12 ? 3e-4
                                        : bits[k] == 16 ? 2e-5
                                                        : 1e-6;
            sound s;
            const char *why = sound_open(&s, f, SOUND_WAV);
            int32_t n = why ? 0 : sound_read(&s, out, N);
            for (i = 0; i < n; i++)
                worst = test_max(
                    worst, fabs(out[i] - wave_at((double)i / (int)SOUND_RATE, 440) / channels));
            snprintf(name, sizeof name, "%d bits, %d channels: %d samples, differ by %.1e", bits[k],
                     channels, (int)n, worst);
            CHECK(!why && n == N && worst <= allowed && sound_read(&s, out, N) == 0, "%s", name);
            sound_close(&s), fclose(f);
        }
}

/* A sine below Nyquist keeps its amplitude and phase; one above disappears. */
static void test_rates(void) {
    static const int rates[] = {8000, 11025, 16001, 22050, 32000, 44100, 48000, 96000, 192000};
    static float out[SOUND_RATE + 100];
    char name[120];
    int k, i;
    for (k = 0; k < 9; k++) {
        int rate = rates[k], n = 0, got;
        double limit = rate < SOUND_RATE ? rate / 2.0 : (int)SOUND_RATE / 2.0, worst = 0, alias = 0;
        FILE *f = make(1, rate, -32, rate, 0.8 * limit);
        sound s;
        if (sound_open(&s, f, SOUND_WAV)) continue;
        while ((got = sound_read(&s, out + n,
                                 777 < SOUND_RATE + 100 - n ? 777 : SOUND_RATE + 100 - n)) > 0)
            n += got;
        for (i = 400; i < n - 400; i++)
            worst =
                test_max(worst, fabs(out[i] - wave_at((double)i / (int)SOUND_RATE, 0.8 * limit)));
        sound_close(&s), fclose(f);
        if (rate > 18000) {
            f = make(1, rate, -32, rate, 1.06 * limit);
            if (!sound_open(&s, f, SOUND_WAV)) {
                int m = sound_read(&s, out, SOUND_RATE);
                for (i = 400; i < m - 400; i++) alias = test_max(alias, fabs(out[i]));
                sound_close(&s);
            }
            fclose(f);
        }
        snprintf(name, sizeof name, "%d Hz: %d samples, differ by %.1e, above Nyquist %.1e", rate,
                 n, worst, alias);
        CHECK(n >= SOUND_RATE - 1 && n <= SOUND_RATE + 2 && worst < 2e-3 && alias < 1e-3, "%s",
              name);
    }
}

/* Rates whose ratio to 16 kHz has large numbers: the table of weights stays small, and the sound is
   the one that the formula in sound.h gives in double, without a table. */
static void test_odd_rates(void) {
    static const int rates[] = {5512,  7999,  11127, 15999, 16001,  22051,
                                44056, 44101, 47999, 95999, 191999, 383999};
    enum { FRAMES = 3000 };
    static float in[FRAMES], out[10 * FRAMES];
    char name[120];
    int k, i;
    for (k = 0; k < (int)(sizeof rates / sizeof *rates); k++) {
        int rate = rates[k], n = 0, got, m;
        double worst = 0, cut = 0.95 * (rate > SOUND_RATE ? (double)SOUND_RATE / rate : 1);
        FILE *f = tmpfile();
        unsigned seed = 7;
        size_t weights;
        sound s;
        put_header(f, 3, 1, rate, -32, 4 * FRAMES);
        for (i = 0; i < FRAMES; i++) {
            seed = seed * 1664525u + 1013904223u;
            in[i] = (float)(seed >> 8) / 8388608 - 1;
            put_sample(f, in[i], -32);
        }
        rewind(f);
        if (sound_open(&s, f, SOUND_WAV)) continue;
        while ((got = sound_read(&s, out + n, 777)) > 0) n += got;
        weights = (size_t)(s.phases + s.is_between) * (size_t)s.half * 2;
        for (m = 0; m < n; m++) {
            double at = (double)m * rate / (int)SOUND_RATE, sum = 0, all = 0;
            int first = (int)floor(at) - s.half + 1;
            for (i = first; i < first + 2 * s.half; i++) {
                double t = i - at, x = 3.14159265358979323846 * cut * t, u = t / s.half;
                double w = u * u < 1 ? sound_bessel(8.5 * sqrt(1 - u * u)) : 0;
                w *= fabs(x) < 1e-9 ? 1 : sin(x) / x;
                all += w, sum += i >= 0 && i < FRAMES ? w * in[i] : 0;
            }
            worst = fmax(worst, fabs(out[m] - sum / all));
        }
        snprintf(name, sizeof name, "%d Hz: %d samples, %d weights, differ by %.1e", rate, n,
                 (int)weights, worst);
        CHECK(n >= (int)((double)FRAMES * (double)SOUND_RATE / rate) && weights <= SOUND_WEIGHTS &&
                  worst < 1e-5,
              "%s", name);
        sound_close(&s), fclose(f);
    }
}

/* Returns how many samples a file has, or -1 if its header is refused, -2 if a sample is out of
   range, -3 if its bytes give another sound from memory. */
static long count(FILE *f, const char **why) {
    static float out[N], again[N];
    static unsigned char data[65536];
    const char *other;
    size_t size;
    long n = 0;
    int32_t got;
    sound s, m;
    int i, good = 1, same = 1;
    rewind(f);
    size = fread(data, 1, sizeof data, f);
    rewind(f);
    *why = sound_open(&s, f, SOUND_WAV), other = sound_open_memory(&m, data, size, SOUND_WAV);
    if (*why || other) return *why && other && strcmp(*why, other) == 0 ? -1 : -3;
    while ((got = sound_read(&s, out, N)) > 0) {
        same &= sound_read(&m, again, N) == got &&
                memcmp(out, again, (size_t)got * sizeof *out) == 0;
        for (i = 0, n += got; i < got; i++) good &= out[i] >= -1e6f && out[i] <= 1e6f;
    }
    same &= sound_read(&m, again, N) == 0;
    sound_close(&s), sound_close(&m);
    return !same ? -3 : good ? n : -2;
}

static FILE *with_header(int kind, int channels, int rate, int bits, uint32_t size, int samples) {
    FILE *f = tmpfile();
    put_header(f, kind, channels, rate, bits, size);
    for (; samples > 0; samples--) put_sample(f, 0.5, bits);
    return f;
}

static void test_lies(void) {
    const struct {
        const char *name;
        int kind, channels, rate, bits;
        uint32_t size;
        int samples;
        long expected;
    } cases[] = {{"no samples", 1, 1, 16000, 16, 0, 0, 0},
                 {"a size of 0, as of a pipe", 1, 1, 16000, 16, 0, 100, 100},
                 {"the largest size", 1, 1, 16000, 16, 0xFFFFFFFFu, 100, 100},
                 {"a size beyond the file", 1, 1, 16000, 16, 1000000, 100, 100},
                 {"a size below the file", 1, 1, 16000, 16, 50, 100, 25},
                 {"half a frame at the end", 1, 2, 16000, 16, 0, 101, 50},
                 {"no channels", 1, 0, 16000, 16, 200, 100, -1},
                 {"65 channels", 1, 65, 16000, 16, 200, 100, -1},
                 {"a rate of 0", 1, 1, 0, 16, 200, 100, -1},
                 {"a rate of 2 GHz", 1, 1, 2000000000, 16, 200, 100, -1},
                 {"a rate of 2,147,499,648 Hz, 16000 in its low 31 bits", 1, 1, -2147467648, 16,
                  200, 100, -1},
                 {"a rate of 4,294,967,295 Hz", 1, 1, -1, 16, 200, 100, -1},
                 {"a format of 0", 0, 1, 16000, 16, 200, 100, -1},
                 {"4 bits", 1, 1, 16000, 4, 200, 100, -1},
                 {"12 bits", 1, 1, 16000, 12, 200, 100, 100},
                 {"72 bits", 1, 1, 16000, 72, 200, 100, -1},
                 {"A-law of 16 bits", 6, 1, 16000, 16, 200, 100, -1},
                 {"mu-law of 8 bits", 7, 1, 16000, 8, 100, 100, 100},
                 {"floats of 16 bits", 3, 1, 16000, 16, 200, 100, -1},
                 {"compressed", 85, 1, 16000, 16, 200, 100, -1},
                 {"one sample at 48 kHz", 1, 1, 48000, 16, 2, 1, 1}};
    static const float odd[] = {NAN, INFINITY, -INFINITY, 3e38f, -3e38f, 1e7f};
    const char *why;
    size_t k;
    FILE *f;
    long n;
    for (k = 0; k < sizeof cases / sizeof *cases; k++) {
        f = with_header(cases[k].kind, cases[k].channels, cases[k].rate, cases[k].bits,
                        cases[k].size, cases[k].samples);
        n = count(f, &why);
        CHECK(n == cases[k].expected, "%s: got %ld, wanted %ld", cases[k].name, n,
              cases[k].expected);
        CHECK(n >= 0 || !strstr(cases[k].name, " channels") || strstr(why, "not 1 to 64"), "%s: %s",
              cases[k].name, n < 0 ? why : "");
        CHECK(n >= 0 || cases[k].kind || strstr(why, "compressed"), "%s: %s", cases[k].name,
              n < 0 ? why : "");
        fclose(f);
    }
    f = tmpfile();
    put_header(f, 3, 1, 44100, -32, 0);
    for (k = 0; k < 600; k++) {
        uint32_t word;
        memcpy(&word, &odd[k % 6], 4), put(f, word, 4);
    }
    CHECK(count(f, &why) > 0, "NaN, infinity and large floats");
    fclose(f);
    f = with_header(1, 1, 16000, 16, 200, 100);
    for (n = 0; n < 58; n++) { /* the file ends within its header */
        char head[64];
        FILE *part = tmpfile();
        rewind(f);
        if (fread(head, 1, (size_t)n, f) == (size_t)n) fwrite(head, 1, (size_t)n, part);
        if (count(part, &why) > 0) break;
        fclose(part);
    }
    CHECK(n == 58, "files that end within the header");
    fclose(f);
    f = fopen("/dev/zero", "rb"); /* a pipe of zeros behind a header is chunks without end */
    if (f) {
        static const unsigned char head[] = "RIFF\0\0\0\0WAVE";
        sound s;
        why = sound_begin(&s, f, head, 12, SOUND_WAV);
        CHECK(why && strstr(why, "over 65,536 chunks"), "zeros without end: %s", why ? why : "");
        fclose(f);
    }
}

/* All codes of G.711: what ffmpeg decodes, as a sum in which each code has a weight of its own. */
static void test_logarithmic(void) {
    static const struct {
        const char *name;
        int kind, codes[6], samples[6];
        double sum;
    } cases[] = {{"mu-law",
                  7,
                  {0x00, 0x80, 0x7F, 0xFF, 0x55, 0x10},
                  {-32124, 32124, 0, 0, -716, -15996},
                  38902332},
                 {"A-law",
                  6,
                  {0x00, 0x80, 0x55, 0xD5, 0xAA, 0x2A},
                  {-5504, 5504, -8, 8, 32256, -32256},
                  3893152}};
    static float out[256];
    int k, i;
    for (k = 0; k < 2; k++) {
        FILE *f = tmpfile();
        double sum = 0;
        int bad = 0;
        sound s;
        put_header(f, cases[k].kind, 1, 16000, 8, 256);
        for (i = 0; i < 256; i++) putc(i, f);
        rewind(f);
        if (sound_open(&s, f, SOUND_WAV)) exit(2);
        bad += sound_read(&s, out, 256) != 256;
        for (i = 0; i < 256; i++) sum += out[i] * 32768.0 * (i * i % 257);
        for (i = 0; i < 6; i++) bad += (int)(out[cases[k].codes[i]] * 32768) != cases[k].samples[i];
        CHECK(!bad && sum == cases[k].sum, "%s: %d differences, sum %.0f", cases[k].name, bad, sum);
        sound_close(&s), fclose(f);
    }
}

/* RF64 and BW64: the size of the data is in ds64, and may be over 4 GB. */
static void test_rf64(void) {
    static const struct {
        const char *name;
        uint64_t size;
        long expected;
    } cases[] = {{"RF64", 100, 50},
                 {"BW64", 100, 50},
                 {"RF64", UINT64_C(5000000000), 100},
                 {"RF64", 0, 100}};
    const char *why;
    int k, i;
    for (k = 0; k < 4; k++) {
        FILE *f = tmpfile();
        long n;
        fwrite(cases[k].name, 1, 4, f), put(f, 0xFFFFFFFFu, 4), fwrite("WAVEds64", 1, 8, f);
        put(f, 28, 4), put(f, cases[k].size + 72, 8), put(f, cases[k].size, 8), put(f, 0, 8),
            put(f, 0, 4);
        fwrite("fmt ", 1, 4, f), put(f, 16, 4), put(f, 1, 2), put(f, 1, 2), put(f, 16000, 4);
        put(f, 32000, 4), put(f, 2, 2), put(f, 16, 2), fwrite("data", 1, 4, f),
            put(f, 0xFFFFFFFFu, 4);
        for (i = 0; i < 100; i++) put_sample(f, 0.5, 16);
        n = count(f, &why);
        CHECK(n == cases[k].expected, "%s: got %ld samples, wanted %ld", cases[k].name, n,
              cases[k].expected);
        fclose(f);
    }
}

/* Files that ffmpeg has to convert: the message says what they are, and the command. */
static void test_others(void) {
    static const struct {
        const char *bytes, *said;
    } cases[] = {{"fLaC\0\0\0\"\20\0\20\0", "FLAC"}, {"OggS\0\2\0\0\0\0\0\0", "Opus"},
                 {"ID3\4\0\0\0\0\0\0\0\0", "MP3"},   {"\xFF\xFB\x90\0\0\0\0\0\0\0\0\0", "MP3"},
                 {"\0\0\0 ftypM4A ", "M4A"},         {"\x1A\x45\xDF\xA3\0\0\0\0\0\0\0\0", "WebM"},
                 {"FORM\0\0\0\0AIFF", "AIFF"},       {"some text is", "not a WAV file"}};
    const char *why = NULL;
    size_t k;
    FILE *f;
    for (k = 0; k < sizeof cases / sizeof *cases; k++) {
        f = tmpfile();
        fwrite(cases[k].bytes, 1, 12, f);
        CHECK(count(f, &why) == -1 && strstr(why, cases[k].said) && strstr(why, "ffmpeg -i IN"),
              "%s: %s", cases[k].said, why ? why : "");
        fclose(f);
    }
    for (k = 0; k < 5; k++) {
        static const int kinds[] = {2, 0x11, 0x20, 0x45, 0x55};
        f = with_header(kinds[k], 1, 16000, 8, 100, 100);
        CHECK(count(f, &why) == -1 && strstr(why, k < 4 ? "ADPCM" : "MP3") &&
                  strstr(why, "ffmpeg -i IN"),
              "kind %d: %s", kinds[k], why ? why : "");
        fclose(f);
    }
}

/* SOUND_ANY: WAV files, files of other formats, and raw samples, of a file and from memory. */
static void test_any(void) {
    static const struct {
        const char *name, *bytes;
        size_t size;
        long expected; /* -1: refused */
    } cases[] = {
        {"raw samples", "some raw samples", 16, 8},
        {"raw samples that begin as frames of MP3", "\xFF\xFB\x90\0\0\0\0\0\0\0\0\0", 12, 6},
        {"five samples", "RIFF123456", 10, 5},
        {"no bytes", "", 0, 0},
        {"FLAC", "fLaC\0\0\0\"\20\0\20\0", 12, -1},
        {"MP4", "\0\0\0 ftypM4A ", 12, -1}};
    static float out[N], again[N];
    static unsigned char data[1024];
    size_t k, size;
    for (k = 0; k <= sizeof cases / sizeof *cases; k++) {
        int is_wav = k == sizeof cases / sizeof *cases, refused;
        long wanted = is_wav ? 50 : cases[k].expected;
        FILE *f = is_wav ? with_header(6, 2, 16000, 8, 100, 100) : tmpfile();
        sound s, m;
        if (!is_wav) fwrite(cases[k].bytes, 1, cases[k].size, f);
        rewind(f), size = fread(data, 1, sizeof data, f), rewind(f);
        refused = sound_open(&s, f, SOUND_ANY) != NULL;
        refused += sound_open_memory(&m, data, size, SOUND_ANY) != NULL;
        if (refused) {
            CHECK(refused == 2 && wanted == -1, "%s: refused", cases[k].name);
        } else {
            int32_t n = sound_read(&s, out, N), n_again = sound_read(&m, again, N);
            CHECK(n == wanted && n_again == n && !memcmp(out, again, (size_t)n * sizeof *out),
                  "%s: %d samples, %d from memory", is_wav ? "A-law" : cases[k].name, (int)n,
                  (int)n_again);
            sound_close(&s), sound_close(&m);
        }
        fclose(f);
    }
}

int main(void) {
    test_kinds();
    test_logarithmic();
    test_rf64();
    test_others();
    test_any();
    test_rates();
    test_odd_rates();
    test_lies();
    return test_done("test_sound");
}
