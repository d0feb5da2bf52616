/* The same bits on every machine: translates made-up lines with both shipped models, and made-up
   ids with small models like T5Gemma 1 and 2, by greedy search, beam search and sampling, computes
   logits by forward, and compares checksums of ids, scores and logits with tests/data/bits.txt.
   Compiler, options, kernels and machine do not matter where the arithmetic is "fused".

       build/test_bits [LINES]        5, 50 or 1000 lines
       build/test_bits LINES print    prints the lines of bits.txt instead */
#include "transformer.h"
#include "tiny.h"
#include <time.h>

/* ---- checksums ---- */

static uint64_t sum; /* FNV-1a */
static void add(const void *data, size_t size) {
    const unsigned char *p = (const unsigned char *)data;
    while (size--) sum = (sum ^ *p++) * (uint64_t)1099511628211u;
}
/* Adds a number by its value, so that the order of bytes does not matter. */
static void add_number(uint64_t number) {
    unsigned char bytes[8];
    int i;
    for (i = 0; i < 8; i++) bytes[i] = (unsigned char)(number >> 8 * i);
    add(bytes, 8);
}
static void add_float(float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    add_number(x != x ? 0x7FC00000u : bits); /* all NaNs are one */
}
static void add_double(double x) {
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    add_number(x != x ? 0 : bits);
}

/* Line i: words of the model's language in an order that depends on i, from 1 to 24 of them. */
static void make_line(char *line, size_t size, const char *const *words, int n, int chinese,
                      int i) {
    uint32_t seed = (uint32_t)i * 2654435761u + 12345u;
    int k, count;
    size_t used = 0;
    seed = seed * 1664525u + 1013904223u;
    count = 1 + (int)(seed >> 16) % 24;
    for (k = 0; k < count; k++) {
        seed = seed * 1664525u + 1013904223u;
        used += (size_t)snprintf(line + used, size - used, "%s%s", k && !chinese ? " " : "",
                                 words[(int)(seed >> 16) % n]);
    }
    snprintf(line + used, size - used, "%s", chinese ? "\xe3\x80\x82" : ".");
}

/* Sentence i for a model without text: 1 to 24 ids. */
static int32_t make_ids(int32_t *ids, int32_t vocabulary, int i) {
    unsigned seed = 77 + (unsigned)i;
    int32_t n = 1 + (int32_t)(tiny_random(&seed) % 24), k;
    for (k = 0; k < n; k++) ids[k] = (int32_t)(tiny_random(&seed) % (unsigned)vocabulary);
    return n;
}

static tfm_model *model_of(int number, const char *name) {
    char path[100];
    tfm_model *model = NULL;
    tfm_model_options options;
    memset(&options, 0, sizeof options);
    options.exact = 1;
    if (number < 2) {
        snprintf(path, sizeof path, "examples/models/%s.safetensors", name);
        must(tfm_model_load_file(&model, path, &options, &err));
    } else {
        tiny t = tiny_default();
        st_writer w;
        tiny_like_gemma(&t, number - 1), t.config = tiny_gemma_configs[number - 1];
        t.d = 48, t.heads = 4, t.key = 18, t.value = 17, t.ff = 70, t.vs = t.vt = 60;
        tiny_write(&w, t);
        model = tiny_load(&w, &options);
    }
    return model;
}

enum { GREEDY, BEAM, SAMPLES, FORWARD, KINDS };
static const char *const kinds[] = {"greedy", "beam", "samples", "forward"};

static tfm_status search(tfm_session *s, int kind, const int32_t *ids, int32_t n) {
    tfm_decode_options o;
    id_matrix src;
    tfm_result r;
    int32_t running = 1, k;
    static const uint64_t seed = 7;
    by_row with;
    memset(&o, 0, sizeof o), memset(&with, 0, sizeof with);
    memset(&src, 0, sizeof src);
    src.ids = ids, src.rows = 1, src.width = n;
    o.beam = o.n_best = kind == BEAM ? 4 : 1;
    o.length_penalty = kind == BEAM ? 0.6 : 0;
    if (kind == SAMPLES) o.samples = 2, with.seeds = &seed, o.top_k = 40, o.temperature = 0.8;
    o.max_length = 2 * n + 8;
    if (start_rows(s, &src, &with, &o, &err) != TFM_OK) return err.status;
    while (running)
        if (tfm_session_step(s, &running, &err) != TFM_OK) return err.status;
    for (k = 0; k < (kind == BEAM ? 4 : kind == SAMPLES ? 2 : 1); k++) {
        int32_t i;
        memset(&r, 0, sizeof r);
        if (tfm_result_get(s, 0, k, &r, &err) != TFM_OK) return err.status;
        for (i = 0; i < r.length; i++) add_number((uint64_t)r.ids[i]);
        add_double(r.score), add_double(r.log_probability);
    }
    return TFM_OK;
}

static tfm_status forward(tfm_session *s, int32_t vocabulary, const int32_t *ids, int32_t n) {
    id_matrix src, tgt;
    tfm_tensor logits;
    tfm_status status;
    float *data = (float *)malloc((size_t)n * (size_t)vocabulary * sizeof *data);
    int64_t i;
    if (!data) return TFM_E_MEMORY;
    memset(&src, 0, sizeof src);
    src.ids = ids, src.rows = 1, src.width = n;
    tgt = src; /* any ids do */
    logits = tfm_tensor_3d(data, TFM_DTYPE_F32, 1, n, vocabulary);
    status = forward_rows(s, &src, &tgt, NULL, &logits, &err);
    for (i = 0; status == TFM_OK && i < (int64_t)n * vocabulary; i++) add_float(data[i]);
    free(data);
    return status;
}

/* Returns the checksum of a kind of search for some lines. */
static uint64_t checksum(tfm_model *model, int chinese, int kind, int lines) {
    static const char *const german[] = {"Der",
                                         "Hund",
                                         ("schl\xc3\xa4"
                                          "ft"),
                                         "nicht",
                                         "heute",
                                         "eine",
                                         "Frau",
                                         "liest",
                                         "das",
                                         "Buch",
                                         "und",
                                         "wir",
                                         "gehen",
                                         "morgen",
                                         "nach",
                                         "Hause",
                                         "Wetter",
                                         "sch\xc3\xb6n",
                                         "kalt",
                                         "Zug",
                                         "Minuten",
                                         "zwanzig",
                                         "hatte",
                                         "Kinder",
                                         "spielen",
                                         "im"};
    static const char *const zh[] = {"\xe6\x88\x91",
                                     "\xe6\x98\xaf",
                                     "\xe5\xad\xa6\xe7\x94\x9f",
                                     "\xe4\xbb\x96",
                                     "\xe5\x96\x9c\xe6\xac\xa2",
                                     "\xe4\xbb\x8a\xe5\xa4\xa9",
                                     "\xe5\xad\xa9\xe5\xad\x90",
                                     "\xe5\x9c\xa8",
                                     "\xe5\x85\xac\xe5\x9b\xad",
                                     "\xe7\x8e\xa9",
                                     "\xe4\xb8\x8d",
                                     "\xe5\xbe\x88",
                                     "\xe5\xa5\xbd",
                                     "\xe7\x9a\x84",
                                     "\xe4\xb9\xa6"};
    tfm_session *s = NULL;
    tfm_session_options how;
    const tfm_config *config = tfm_model_config(model);
    int i;
    memset(&how, 0, sizeof how);
    how.max_source = 128, how.max_target = 264, how.max_beam = 4;
    sum = (uint64_t)14695981039346656037u;
    if (tfm_session_create(&s, model, &how, &err) != TFM_OK) return 0;
    for (i = 0; i < lines; i++) {
        static char scratch[100000];
        char line[1000];
        int32_t ids[128], n = 0;
        tfm_status status;
        tfm_arena arena = tfm_arena_make(scratch, sizeof scratch);
        if (!config->has_text) n = make_ids(ids, config->src_vocab_size, i);
        else
            make_line(line, sizeof line, chinese ? zh : german,
                      chinese ? (int)(sizeof zh / sizeof *zh)
                              : (int)(sizeof german / sizeof *german),
                      chinese, i);
        if (config->has_text &&
            tfm_model_tokenize(model, tfm_text_make(line, strlen(line)), TFM_TEXT_FORM_TEXT, ids,
                               128, &n, &arena, &err) != TFM_OK)
            break;
        status = kind == FORWARD ? forward(s, config->tgt_vocab_size, ids, n < 24 ? n : 24)
                                 : search(s, kind, ids, n);
        if (status != TFM_OK) break;
    }
    if (i < lines) printf("%s\n", err.text), sum = 0;
    tfm_session_free(s);
    return sum;
}

/* Returns the checksum that bits.txt has, or "" if it has none. */
static const char *expected_of(const char *name) {
    static char line[200];
    FILE *f = fopen("tests/data/bits.txt", "r");
    size_t n = strlen(name);
    *line = 0;
    while (f && fgets(line, sizeof line, f) && strncmp(line, name, n) != 0) *line = 0;
    if (f) fclose(f);
    line[strcspn(line, "\r\n")] = 0;
    return *line ? line + n : "";
}

static void compare(int lines, int prints) {
    static const char *const models[] = {"de-en", "zh-en", "t5gemma", "t5gemma2"};
    int m, kind;
    for (m = 0; m < 4; m++) {
        char name[100], got[20];
        tfm_model *model = model_of(m, models[m]);
        for (kind = 0; kind < KINDS; kind++) {
            uint64_t bits;
            if (!test_in_slice(lines > 5 ? "lines" : "first lines", m * KINDS + kind)) continue;
            bits = checksum(model, m, kind, lines);
            snprintf(name, sizeof name, "%s %s %d ", models[m], kinds[kind], lines);
            snprintf(got, sizeof got, "%08lx%08lx", (unsigned long)(bits >> 32),
                     (unsigned long)(bits & 0xFFFFFFFFu));
            if (prints) printf("%s%s\n", name, got);
            else if (strcmp(tfm_arithmetic_string(model), "fused") == 0)
                CHECK(strcmp(got, expected_of(name)) == 0, "%s%s, expected %s", name, got,
                      expected_of(name));
            else {
                char skipped[150];
                snprintf(skipped, sizeof skipped, "%s: the arithmetic is \"%s\"", name,
                         tfm_arithmetic_string(model));
                test_skip(skipped);
            }
        }
        tfm_model_free(model);
    }
}

int main(int argc, char **argv) {
    time_t begun = time(NULL);
    compare(argc > 1 ? atoi(argv[1]) : 5, argc > 2);
    /* more lines, where that does not take long */
    if (argc == 1 && time(NULL) - begun < 12) compare(50, 0);
    return argc > 2 ? 0 : test_done("test_bits");
}
