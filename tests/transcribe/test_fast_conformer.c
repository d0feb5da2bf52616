/* Tests examples/transcribe/fast_conformer.h and canary.h with the random models of
   tests/data/transcribe: the memory of a sound is the one that transformers has computed
   (tests/make/make_canary.py), with the same bits for one thread and for three; a long sound is cut
   where it is quiet; files that lack something are refused by name, and files with changed bytes
   give a text or a message. */
#include "transformer.h"
#include "test.h"
#if defined(__GNUC__)
#pragma GCC diagnostic ignored "-Wunused-function" /* of the headers */
#endif
#include "../../examples/transcribe/transcriber.h"

enum { SAMPLES = 25600, ROOM = 4096, FILE_ROOM = 1 << 17 };
static const char *const paths[] = {"tests/data/transcribe/canary.safetensors",
                                    "tests/data/transcribe/cohere.safetensors"};
static const char *const memories[] = {"tests/data/transcribe/canary.f32",
                                       "tests/data/transcribe/cohere.f32"};

static float samples[SAMPLES];
static char bytes[FILE_ROOM], changed[FILE_ROOM];

static size_t read_file(const char *path, void *to, size_t size) {
    FILE *f = fopen(path, "rb");
    size_t n = f ? fread(to, 1, size, f) : 0;
    if (f) fclose(f);
    CHECK(n > 0 && n < size, "%s: %d bytes", path, (int)n);
    return n;
}

/* Loads the encoder of the file in memory. */
static tfm_status load(conformer *f, speech *s, const char *data, size_t n, tfm_error *err) {
    tfm_safetensors *file = NULL;
    tfm_status status = tfm_safetensors_open(&file, data, n, NULL, err);
    memset(s, 0, sizeof *s), memset(f, 0, sizeof *f);
    if (status == TFM_OK) status = conformer_load(f, s, file, err);
    tfm_safetensors_free(file);
    return status;
}

static void run_in_order(void *user, tfm_task task, void *context, int32_t parts) {
    (void)user;
    while (parts-- > 0) task(context, parts);
}

static void test_rows(int which) {
    static float wanted[ROOM], alone[ROOM];
    static const tfm_parallel helpers = {run_in_order, NULL};
    conformer f;
    speech s;
    tfm_tensor memory;
    tfm_error err;
    double far = 0, largest = 0;
    size_t n = read_file(paths[which], bytes, sizeof bytes), k;
    size_t numbers = read_file(memories[which], wanted, sizeof wanted) / sizeof *wanted;
    CHECK(load(&f, &s, bytes, n, &err) == TFM_OK, "");
    CHECK(conformer_encode(&f, &s, samples, SAMPLES, &memory, &err) == TFM_OK, "");
    CHECK(memory.dims[0] == 20 && (size_t)(20 * memory.dims[1]) == numbers,
          "%s: a row for each 80 ms", paths[which]);
    for (k = 0; k < numbers && (int64_t)k < 20 * memory.dims[1]; k++) {
        double x = alone[k] = ((const float *)memory.data)[k];
        far = fmax(far, fabs(x - wanted[k])), largest = fmax(largest, fabs(x));
    }
    CHECK(far < 1e-4 && largest > 1, "the memory differs by %g from that of transformers", far);
    s.parallel = &helpers, s.threads = 3;
    CHECK(conformer_encode(&f, &s, samples, SAMPLES, &memory, &err) == TFM_OK, "");
    CHECK(!memcmp(memory.data, alone, numbers * sizeof *alone), "three threads: the same bits");
    CHECK(conformer_encode(&f, &s, samples, 319, &memory, &err) == TFM_OK && !memory.dims[0],
          "a sound under two frames has no rows");
    CHECK(conformer_encode(&f, &s, samples, 320, &memory, &err) == TFM_OK && memory.dims[0] == 1 &&
              isfinite(*(const float *)memory.data),
          "a sound of two frames has one");
    conformer_free(&f), speech_free(&s);
}

/* A sound of 40 s that is quiet from frame 3217 to 3240, of which up to 35 s are heard. */
static void test_cut(void) {
    canary c;
    track t;
    int64_t i, n = 4000 * SPEECH_HOP;
    memset(&c, 0, sizeof c), memset(&t, 0, sizeof t);
    t.x = (float *)calloc((size_t)(n + 2 * TRACK_LEAD), sizeof *t.x), t.n = n;
    if (!t.x) return;
    for (i = 0; i < n; i++) t.x[i + TRACK_LEAD] = i % 2 ? 0.1f : -0.1f;
    for (i = 3217 * SPEECH_HOP; i < 3240 * SPEECH_HOP; i++) t.x[i + TRACK_LEAD] *= 0.01f;
    c.search = 500;
    CHECK(canary_cut(&c, &t, 0, 3500, 1) == 3220, "the first quiet tenth of a second");
    CHECK(canary_cut(&c, &t, 100, 3500, 1) == 3120, "from frame 100 on");
    CHECK(canary_cut(&c, &t, 0, 3500, 0) == 3500, "the end of the sound is not cut");
    c.search = 0;
    CHECK(canary_cut(&c, &t, 0, 3500, 1) == 3500, "no search");
    c.search = 200;
    CHECK(canary_cut(&c, &t, 0, 3500, 1) == 3300, "all is as loud: the first place");
    free(t.x);
}

static void test_spoilt(void) {
    static const char *const names[] = {"extra.conformer.maps.0.weight",
                                        "extra.conformer.maps.1.mix.weight",
                                        "extra.conformer.layers.0.norm_out.weight",
                                        "extra.conformer.layers.1.conv.depthwise.weight",
                                        "extra.conformer.layers.1.self_attn.bias_v",
                                        "extra.conformer.heads",
                                        "extra.conformer.mels",
                                        "extra.conformer.stride",
                                        "extra.conformer.seconds",
                                        "extra.conformer.preemphasis",
                                        "extra.conformer.activation"};
    size_t n = read_file(paths[0], bytes, sizeof bytes), k, i;
    for (k = 0; k < sizeof names / sizeof *names; k++) {
        size_t length = strlen(names[k]);
        conformer f;
        speech s;
        tfm_error err;
        memcpy(changed, bytes, n), err.text[0] = 0;
        for (i = 0; i + length + 2 < n; i++)
            if (changed[i] == '"' && !memcmp(changed + i + 1, names[k], length) &&
                changed[i + 1 + length] == '"')
                changed[i + length] = '_';
        CHECK(load(&f, &s, changed, n, &err) != TFM_OK && strstr(err.text, names[k]),
              "%s is missing: %s", names[k], err.text);
        conformer_free(&f), speech_free(&s);
    }
}

/* Hears the sound with files of which some bytes of the header are changed. */
static void test_changed(int which, int mutants) {
    size_t n = read_file(paths[which], bytes, sizeof bytes);
    size_t header = 8 + (unsigned char)bytes[0] + 256u * (unsigned char)bytes[1];
    unsigned dice = 11;
    int i, k, heard = 0, refused = 0;
    for (i = 0; i < mutants; i++) {
        static transcriber h;
        static whisper_text text;
        tfm_safetensors *file = NULL;
        tfm_model *m = NULL;
        tfm_error err;
        memcpy(changed, bytes, n), err.text[0] = 0;
        for (k = 0; k < 1 + i % 3; k++) {
            size_t at;
            do { /* a digit, so that most files remain JSON */
                dice = dice * 1103515245u + 12345u, at = 8 + (dice >> 8) % (header - 8);
            } while (i % 4 && (changed[at] < '0' || changed[at] > '9'));
            dice = dice * 1103515245u + 12345u;
            changed[at] = i % 4 ? (char)('0' + (dice >> 8) % 10) : (char)(dice >> 8);
        }
        if (tfm_safetensors_open(&file, changed, n, NULL, &err) == TFM_OK &&
            tfm_model_load(&m, changed, n, NULL, &err) == TFM_OK &&
            transcriber_load(&h, m, file, 1, 2, 0, &err) == TFM_OK) {
            transcriber_options o;
            transcriber_defaults(&o);
            o.language = "de", o.decoding.beam = 2;
            if (canary_is_there(&h.c) && transcriber_set(&h, &o, &err) == TFM_OK &&
                canary_hear(&h.c, &h.s, &h.w, samples, 16000, &text, &err) == TFM_OK)
                heard++;
            else refused += err.text[0] != 0;
            transcriber_free(&h);
        } else refused += err.text[0] != 0;
        tfm_model_free(m), tfm_safetensors_free(file);
    }
    CHECK(heard + refused == mutants && heard > 0 && refused > mutants / 2,
          "%s: %d heard, %d refused of %d", paths[which], heard, refused, mutants);
}

int main(void) {
    static unsigned char wave[44 + 2 * SAMPLES + 1];
    int i;
    read_file("tests/data/transcribe/noise.wav", wave, sizeof wave);
    for (i = 0; i < SAMPLES; i++) {
        int value = wave[44 + 2 * i] | wave[45 + 2 * i] << 8;
        samples[i] = (float)(value > 32767 ? value - 65536 : value) / 32768;
    }
    SECTION("the memory");
    test_rows(0);
    test_rows(1);
    SECTION("long sound");
    test_cut();
    SECTION("files that lack something");
    test_spoilt();
    SECTION("changed files");
    test_changed(0, 200);
    test_changed(1, 200);
    return test_done("test_fast_conformer");
}
