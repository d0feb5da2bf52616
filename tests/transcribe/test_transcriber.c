/* Runs the kept inputs of tests/fuzz/whisper.c: changed Whisper files and sounds, through all of
   transcriber.h. Behind each block of memory that the headers of transcribe allocate is a page that
   nobody can read, so reading past an end ends the test without a sanitizer too. */
#define _POSIX_C_SOURCE 200809L
#include "tests/fuzz/fuzz_whisper.h"
#include <fcntl.h>
#include <unistd.h>
#if defined(__unix__) || defined(__APPLE__)
#include <sys/mman.h>

enum { GUARD = 1 << 17, BLOCKS = 64 };
static struct {
    char *at, *given;
    size_t size;
} blocks[BLOCKS];

static void *guarded(size_t n) {
    size_t size = (n + 4095) / 4096 * 4096;
    int i, none = open("/dev/zero", O_RDWR);
    char *at;
    for (i = 0; i < BLOCKS && blocks[i].at; i++) {
    }
    at = i < BLOCKS ? (char *)mmap(NULL, size + GUARD, PROT_READ | PROT_WRITE, MAP_PRIVATE, none, 0)
                    : (char *)MAP_FAILED;
    close(none);
    if (at == (char *)MAP_FAILED || mprotect(at + size, GUARD, PROT_NONE) != 0) return malloc(n);
    blocks[i].at = at, blocks[i].size = size + GUARD;
    return blocks[i].given = at + (size - n) / 16 * 16;
}
static void release(void *p) {
    int i;
    for (i = 0; i < BLOCKS; i++)
        if (p && blocks[i].given == p) {
            munmap(blocks[i].at, blocks[i].size);
            memset(&blocks[i], 0, sizeof blocks[i]);
            return;
        }
    free(p);
}
#define malloc guarded
#define free release
#endif
#include "tests/fuzz/whisper.c"
#undef malloc
#undef free
#include "tests/kept_inputs.h"

/* Writes a WAV file of 16 kHz and 16 bits with sizes that are not known. Returns its size. */
static size_t test_wave(uint8_t *out, size_t room) {
    static const char head[45] =
        "RIFF\1\1\0\0WAVEfmt \20\0\0\0\1\0\1\0\200\76\0\0\0\0\0\0\4\0\20\0data\0\0\0";
    memset(out, 1, room), memcpy(out, head, 44);
    return room;
}

/* A disk that fails within a sound: the descriptor becomes that of a folder, which cannot be
   read. */
static void test_read_error(void) {
    static const char path[] = "build/test_transcriber.wav";
    static uint8_t wave[1 << 17];
    track_source source = {path, NULL, NULL, 0};
    track t;
    size_t n;
    const char *why;
    FILE *f = fopen(path, "wb");
    int folder = open("/", O_RDONLY);
    int64_t frames;
    n = test_wave(wave, sizeof wave);
    if (!f || folder < 0 || fwrite(wave, 1, n, f) != n || fclose(f)) exit(2);
    why = track_open(&t, &source, NULL, NULL);
    CHECK(!why, "opened: %s", why ? why : "");
    if (why) exit(2);
    frames = track_frames(&t, 0, 1);
    CHECK(frames == 1 && !t.fault, "the beginning: %d frames", (int)frames);
    if (dup2(folder, fileno(t.file)) < 0) exit(2);
    frames = track_frames(&t, 0, 300);
    CHECK(frames == -1 && t.fault && strstr(t.fault, "cannot be read to its end"),
          "got %d frames and \"%s\", wanted -1 and a reason", (int)frames, t.fault ? t.fault : "");
    track_close(&t), close(folder), remove(path);
}

/* A model whose tokens are so long that a window's text is over 64 kB. */
static void test_long_text(void) {
    static const uint8_t input[] = {0, 0, 1, FUZZ_TEXTS - 1, 0};
    static uint8_t wave[32044];
    static transcriber h;
    const uint8_t *data = input;
    track_source source = {NULL, NULL, NULL, 0};
    transcriber_options o;
    tfm_model *model = NULL;
    tfm_safetensors *file = NULL;
    tfm_status status;
    void *bytes = NULL;
    size_t n = 0;
    transcriber_defaults(&o);
    o.decoding.beam = o.decoding.n_temperatures = 1, o.decoding.without_times = 1;
    source.data = wave, source.size = test_wave(wave, sizeof wave);
    if (!fuzz_whisper(&data, input + sizeof input, &bytes, &n) ||
        tfm_model_load(&model, bytes, n, NULL, &err) != TFM_OK ||
        tfm_safetensors_open(&file, bytes, n, NULL, &err) != TFM_OK ||
        transcriber_load(&h, model, file, 1, 1, 0, &err) != TFM_OK ||
        transcriber_begin(&h, &o, &source, &err) != TFM_OK)
        printf("%s\n", err.text), exit(2);
    status = transcriber_next(&h, &err);
    CHECK(status == TFM_E_TOO_SMALL && h.n == 0, "got %s and %d segments, wanted %s",
          tfm_status_text(status), (int)h.n, tfm_status_text(TFM_E_TOO_SMALL));
    CHECK(strstr(err.text, "over 65535 bytes in a window of 1 s"), "got \"%s\", wanted the limit",
          err.text);
    transcriber_free(&h), tfm_safetensors_free(file), tfm_model_free(model), free(bytes);
}

/* Hears a second of noise with a model that writes the same text for every sound. Returns the
   number of segments, with those that were left out in *made_up. */
static int32_t hear_puppet(const transcriber_options *o, int32_t *made_up) {
    static const uint8_t input[] = {0, 0, 5, FUZZ_TEXTS + 1, 0, 4, FUZZ_TEXTS + 40, FUZZ_TEXTS, 0};
    static uint8_t wave[32044];
    static transcriber h;
    const uint8_t *data = input;
    track_source source = {NULL, NULL, NULL, 0};
    tfm_model *model = NULL;
    tfm_safetensors *file = NULL;
    void *bytes = NULL;
    size_t n = 0, i;
    int32_t found = 0;
    source.data = wave, source.size = test_wave(wave, sizeof wave);
    for (i = 44; i < sizeof wave; i++) wave[i] = (uint8_t)(i * i >> 5);
    if (!fuzz_whisper(&data, input + sizeof input, &bytes, &n) ||
        tfm_model_load(&model, bytes, n, NULL, &err) != TFM_OK ||
        tfm_safetensors_open(&file, bytes, n, NULL, &err) != TFM_OK ||
        transcriber_load(&h, model, file, 1, 1, 0, &err) != TFM_OK ||
        transcriber_begin(&h, o, &source, &err) != TFM_OK)
        printf("%s\n", err.text), exit(2);
    *made_up = 0;
    while (!h.ended) {
        must(transcriber_next(&h, &err));
        if (!h.ended) found += h.n, *made_up += h.made_up;
    }
    transcriber_free(&h), tfm_safetensors_free(file), tfm_model_free(model), free(bytes);
    return found;
}

/* A text that does not depend on the sound is left out, unless everything is to be heard. */
static void test_guard(void) {
    transcriber_options o;
    int32_t made_up, n;
    transcriber_defaults(&o);
    o.decoding.beam = o.decoding.best_of = 1;
    n = hear_puppet(&o, &made_up);
    CHECK(n == 0 && made_up > 0, "got %d segments, %d left out", (int)n, (int)made_up);
    o.silence = 0;
    n = hear_puppet(&o, &made_up);
    CHECK(n > 0 && made_up == 0, "silence 0: got %d segments, %d left out", (int)n, (int)made_up);
    o.silence = -60, o.decoding.no_speech = 1;
    n = hear_puppet(&o, &made_up);
    CHECK(n > 0 && made_up == 0, "no_speech 1: got %d segments, %d left out", (int)n, (int)made_up);
}

/* What gains and log-probabilities say of the second half of a window of 20 tokens. */
static void test_guard_rules(void) {
    static const struct {
        const char *what;
        double first, gain, log_prob; /* first: gain of the first half */
        int is_made_up;
    } cases[] = {{"spoken", 5, 4, -0.2, 0},
                 {"spoken in noise", 2, 1.7, -1.5, 0},
                 {"repeated by the speaker", 5, 0.3, -0.1, 0},
                 {"made up behind speech", 5, -0.6, -3, 1},
                 {"a loop that fills the window", 0.1, 0.02, -0.05, 1},
                 {"made up for music", 1, 0.9, -2, 1},
                 {"letters for a tone", 3.8, 2.6, -4.7, 1},
                 {"spoken after what was made up", 0.1, 5, -0.3, 0}};
    static guard g;
    whisper w;
    int32_t ids[20], i, k;
    memset(&w, 0, sizeof w), w.end = 100;
    for (k = 0; k < FUZZ_COUNT(cases); k++) {
        for (i = 0; i < 20; i++) {
            ids[i] = i;
            g.gain[i] = i < 10 ? cases[k].first : cases[k].gain;
            g.log_prob[i] = cases[k].log_prob;
        }
        ids[0] = ids[10] = 101; /* a time counts for nothing */
        g.gain[0] = g.gain[10] = g.log_prob[10] = -1000;
        g.is_made_up = guard_is_small(&g, &w, ids, 0, 20);
        CHECK(guard_is_made_up(&g, &w, ids, 10, 10) == cases[k].is_made_up, "%s", cases[k].what);
    }
}

int main(void) {
    run_kept("tests/fuzz/corpus/whisper");
    test_read_error();
    test_long_text();
    test_guard();
    test_guard_rules();
    return test_done("test_transcriber");
}
