/* spm_ids MODEL [PASSES] < TEXTS > RESULTS: tokenizes texts with a SentencePiece model (for
   compare_sentencepiece.py) or with the tokenizer of a model file (for compare_byte_bpe.py). A text
   is its size (4 bytes) and its bytes. A result is the number of ids, the ids, the begin and end of
   each id's span, the size of the decoded text, and that text. With PASSES the program also prints
   to standard error how many seconds each pass over the texts took for tokenizing alone. */
#include "transformer.h"
#include "tiny.h"
#include <time.h>

/* Reads the whole stream. */
static char *slurp(FILE *stream, size_t *size) {
    char *data = NULL;
    size_t room = 0, got;
    *size = 0;
    do {
        data = (char *)realloc(data, room = 2 * room + 65536);
        if (!data) exit(2);
        got = fread(data + *size, 1, room - *size, stream);
        *size += got;
    } while (got);
    return data;
}

/* Builds a model around the pieces. The number of pieces is unknown until the model is read, so the
   first try has too few rows, and its error message contains the number. */
static tfm_model *load(const char *path) {
    FILE *stream = fopen(path, "rb");
    tfm_model *model = NULL;
    char *data, *at;
    size_t size, bytes;
    void *file;
    int pass;
    tiny t = tiny_default();
    if (!stream) fprintf(stderr, "%s: cannot be opened\n", path), exit(2);
    if (strstr(path, ".safetensors")) { /* The file is a model file already. */
        fclose(stream);
        if (tfm_model_load_file(&model, path, NULL, &err) != TFM_OK)
            fprintf(stderr, "%s: %s\n", path, err.text), exit(3);
        return model;
    }
    data = slurp(stream, &size);
    fclose(stream);
    t.config = ", \"src_text\": \"sentencepiece\", \"tgt_text\": \"sentencepiece\"";
    t.vs = t.vt = 1, t.heads = 1, t.d = 2, t.key = t.value = 2, t.ff = 2;
    for (pass = 0; pass < 2 && !model; pass++) {
        st_writer w;
        tiny_write(&w, t);
        st_add(&w, "src_sentencepiece", tfm_tensor_1d(data, TFM_DTYPE_U8, (int64_t)size));
        file = tiny_bytes(&w, &bytes);
        if (tfm_model_load(&model, file, bytes, NULL, &err) == TFM_OK) break;
        at = strstr(err.text, " has ");
        if (!at || !strstr(err.text, "pieces, its embedding")) break;
        t.vs = t.vt = atoi(at + 5);
    }
    if (!model) fprintf(stderr, "%s: %s\n", path, err.text), exit(3);
    free(data);
    return model;
}

static double seconds(void) { return (double)clock() / CLOCKS_PER_SEC; }

static void put(const void *data, size_t size) {
    if (size && fwrite(data, 1, size, stdout) != size) exit(2);
}

/* Writes the spans of a text's tokens, which tfm_session_tokenize returns for any size of
   scratch. */
static void spans_of(const tfm_model *model, const char *text, size_t size, tfm_arena *scratch,
                     size_t capacity) {
    int32_t *ids = (int32_t *)malloc(capacity * sizeof *ids), count = 0, i;
    tfm_span *spans = (tfm_span *)malloc(capacity * sizeof *spans);
    tfm_text source = tfm_text_make(text, size);
    tfm__ids out = {ids, NULL, (int32_t)capacity, &count, -1, NULL};
    if (!ids || !spans) exit(2);
    out.spans = spans;
    must(tfm__tokenize(model, &model->source, &source, TFM_TEXT_FORM_TEXT, &out, scratch, &err));
    for (i = 0; i < count; i++) {
        uint32_t ends[2];
        ends[0] = (uint32_t)spans[i].begin, ends[1] = (uint32_t)spans[i].end;
        put(ends, sizeof ends);
    }
    free(ids), free(spans);
}

/* IDS instead of PASSES: each text is a row of ids, and each result is a size and a text. */
static int write_texts(const tfm_model *model, const char *in, size_t size) {
    static char out[1 << 20];
    static int32_t ids[1 << 12];
    size_t at, n_out;
    uint32_t n;
    for (at = 0; at + 4 <= size; at += 4 + n) {
        memcpy(&n, in + at, 4);
        if (n > sizeof ids) exit(2);
        memcpy(ids, in + at + 4, n);
        must(tfm_model_detokenize(model, ids, (int32_t)(n / 4), TFM_TEXT_FORM_TEXT, out, sizeof out,
                                  &n_out, &err));
        n = (uint32_t)n_out, put(&n, 4), put(out, n);
        memcpy(&n, in + at, 4);
    }
    return 0;
}

int main(int argc, char **argv) {
    tfm_model *model;
    char *in, *out = NULL;
    int32_t *ids = NULL, count = 0;
    void *memory = NULL;
    size_t size, at, room = 0, largest = 0, out_size, size_of;
    int pass, passes = argc > 2 ? atoi(argv[2]) : 0;
    if (argc < 2) return 2;
    model = load(argv[1]);
    in = slurp(stdin, &size);
    if (argc > 2 && !strcmp(argv[2], "IDS")) return write_texts(model, in, size);
    for (pass = 0; pass <= passes; pass++) {
        double begin = seconds();
        for (at = 0; at + 4 <= size;) {
            uint32_t n;
            tfm_arena scratch = tfm_arena_measuring();
            const char *text = in + at + 4;
            memcpy(&n, in + at, 4);
            at += 4 + n;
            if (pass == 0) { /* room for all texts and results */
                if (tfm_model_tokenize(model, tfm_text_make(text, n), TFM_TEXT_FORM_TEXT, NULL, 0,
                                       &count, &scratch, &err) != TFM_OK)
                    fprintf(stderr, "%s\n", err.text), exit(3);
                if (scratch.peak > room || largest < scratch.peak / 17 + 2) {
                    memory = realloc(memory, room = 2 * scratch.peak);
                    ids = (int32_t *)realloc(ids, (largest = room / 17 + 2) * sizeof *ids);
                    out = (char *)realloc(out, 256 * largest);
                    if (!memory || !ids || !out) exit(2);
                }
            }
            scratch = tfm_arena_make(memory, room);
            if (tfm_model_tokenize(model, tfm_text_make(text, n), TFM_TEXT_FORM_TEXT, ids,
                                   (int32_t)largest, &count, &scratch, &err) != TFM_OK)
                fprintf(stderr, "%s\n", err.text), exit(3);
            if (pass) continue;
            size_of = n;
            if (tfm_model_detokenize(model, ids, count, TFM_TEXT_FORM_TEXT, out, 256 * largest,
                                     &out_size, &err) != TFM_OK)
                fprintf(stderr, "%s\n", err.text), exit(3);
            n = (uint32_t)count, put(&n, 4), put(ids, 4 * (size_t)n);
            spans_of(model, text, size_of, &scratch, largest);
            n = (uint32_t)out_size, put(&n, 4), put(out, n);
        }
        if (pass) fprintf(stderr, "%.6f\n", seconds() - begin);
    }
    free(in), free(out), free(ids), free(memory);
    tfm_model_free(model);
    return 0;
}
