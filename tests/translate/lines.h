/* lines.h: the command-line translator inside a test: input and output are strings, and models
   consist of hostile pieces. Include it first. */
#ifndef LINES_H
#define LINES_H

#if !defined(_POSIX_C_SOURCE) && (defined(__unix__) || defined(__APPLE__))
#define _POSIX_C_SOURCE 200809L
#endif
#if defined(__GNUC__)
#pragma GCC diagnostic ignored "-Wshadow" /* The translator gets names of its own here. */
#endif
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Replaces the standard streams, and limits memory. */
static FILE *lines_in, *lines_out, *lines_err;
static jmp_buf lines_end;
static size_t lines_limit = (size_t)1 << 30;
static size_t lines_large = (size_t)1 << 30, lines_most; /* what is counted, the largest of all */
static int lines_n_large;                                /* requests of lines_large or more */

static void *lines_malloc(size_t bytes) {
    if (bytes > lines_most) lines_most = bytes;
    lines_n_large += bytes >= lines_large;
    return bytes > lines_limit ? NULL : malloc(bytes);
}
static void *lines_realloc(void *memory, size_t bytes) {
    return bytes > lines_limit ? NULL : realloc(memory, bytes);
}
static void lines_exit(int status) { longjmp(lines_end, status + 1); }

#include "transformer.h"

/* Loads the current model instead of a file. Messages name the file, as those of
   tfm_model_load_file. */
static void *lines_model;
static size_t lines_model_size;
static tfm_status lines_load(tfm_model **model, const char *path, const tfm_model_options *options,
                             tfm_error *err) {
    tfm_error why;
    tfm_status status = tfm_model_load(model, lines_model, lines_model_size, options, &why);
    err->status = why.status;
    if (status != TFM_OK) snprintf(err->text, sizeof err->text, "%s: %.200s", path, why.text);
    return status;
}

#undef stdin
#undef stdout
#undef stderr
#define stdin lines_in
#define stdout lines_out
#define stderr lines_err
#define main translate_main
#define exit lines_exit
#define malloc lines_malloc
#define realloc lines_realloc
#define tfm_model_load_file lines_load
#include "examples/translate/translate.c"
#undef main
#undef exit
#undef malloc
#undef realloc
#undef tfm_model_load_file

#include "tiny.h"

/* ---- models ---- */

static unsigned char lines_spm[1 << 16];
static size_t lines_spm_size;

static void TEST_UNUSED lines_put(const void *data, size_t n) {
    if (n > sizeof lines_spm - lines_spm_size) abort();
    if (n) memcpy(lines_spm + lines_spm_size, data, n);
    lines_spm_size += n;
}
static void TEST_UNUSED lines_put_number(size_t n) {
    do {
        unsigned char byte = (unsigned char)((n & 127) | (n > 127 ? 128 : 0));
        lines_put(&byte, 1);
    } while (n >>= 7);
}
/* Adds a piece of SentencePiece of a type: 1 normal, 2 unknown, 3 control, 6 byte. */
static void TEST_UNUSED lines_piece(const char *text, size_t n, unsigned char type) {
    lines_put("\x0a", 1), lines_put_number(n + (n > 127 ? 3 : 2) + 2);
    lines_put("\x0a", 1), lines_put_number(n), lines_put(text, n);
    lines_put("\x18", 1), lines_put(&type, 1);
}
static void TEST_UNUSED lines_begin(void) {
    lines_spm_size = 0;
    lines_piece("<unk>", 5, 2), lines_piece("<s>", 3, 3), lines_piece("</s>", 4, 3);
}

/* Adds a normalization rule: 'a' becomes 1,024 times 'x', the longest string that a rule may
   give. */
static void TEST_UNUSED lines_put_rule(void) {
    static unsigned char map[4 + 1024 + 1025];
    unsigned i, k, value;
    size_t size = sizeof map;
    map[1] = 4;
    for (i = 0; i < 256; i++) {
        value = i == 0 ? 0 : i == 97 ? 97 | 1 << 8 | 128u << 10 : i == 225 ? 0x80000000u : i ^ 1;
        for (k = 0; k < 4; k++) map[4 + 4 * i + k] = (unsigned char)(value >> 8 * k & 0xFF);
    }
    memset(map + 1028, 'x', 1024);
    lines_put("\x1a", 1), lines_put_number(size + 3);
    lines_put("\x12", 1), lines_put_number(size), lines_put(map, size);
}

static int lines_width = 8; /* columns of the next model */

/* Makes a model of random weights whose source and target tokens are the n pieces that were
   added. */
static void TEST_UNUSED lines_make(int pieces, unsigned seed, const char *config) {
    tiny t = tiny_default();
    st_writer w;
    const char *fault;
    t.d = t.ff = lines_width, t.key = t.value = lines_width / 4, t.encoder = t.decoder = 1,
    t.seed = seed;
    t.vs = t.vt = pieces, t.config = config;
    tiny_write(&w, t);
    tiny_raise(&w, 2, -2); /* makes the end token unlikely at the first step */
    st_add(&w, "src_sentencepiece",
           tfm_tensor_1d(lines_spm, TFM_DTYPE_U8, (int64_t)lines_spm_size));
    free(lines_model);
    fault = st_write_memory(&w, &lines_model, &lines_model_size);
    if (fault) printf("%s\n", fault), abort();
    st_free(&w);
}

/* ---- runs ---- */

/* The output of the last run. */
typedef struct lines_text {
    char *data;
    size_t size;
} lines_text;
static lines_text lines_output, lines_messages;

#ifdef LINES_IN_MEMORY
static FILE TEST_UNUSED *lines_open(const char *name, lines_text *text) {
    (void)name;
    free(text->data), text->data = NULL;
    return open_memstream(&text->data, &text->size);
}
static void TEST_UNUSED lines_close(FILE *f, lines_text *text) { (void)text, fclose(f); }
static FILE TEST_UNUSED *lines_feed(const char *in, size_t size) {
    return size ? fmemopen((void *)(uintptr_t)in, size, "rb") : fopen("/dev/null", "rb");
}
#else
static FILE TEST_UNUSED *lines_open(const char *name, lines_text *text) {
    (void)text;
    return fopen(name, "w+b");
}
static void TEST_UNUSED lines_close(FILE *f, lines_text *text) {
    long size = ftell(f);
    free(text->data);
    text->size = size < 0 ? 0 : (size_t)size;
    text->data = (char *)calloc(text->size + 1, 1);
    rewind(f);
    if (!text->data || fread(text->data, 1, text->size, f) != text->size) abort();
    fclose(f);
}
static FILE TEST_UNUSED *lines_feed(const char *in, size_t size) {
    FILE *f = fopen("build/lines.in", "w+b");
    if (!f || fwrite(in, 1, size, f) != size) abort();
    rewind(f);
    return f;
}
#endif

/* Runs the translator with options that spaces separate. Returns its exit status. */
static int TEST_UNUSED lines_run(const char *options, const char *in, size_t size) {
    static char words[512], name[] = "translate", model[] = "model.safetensors";
    char *argv[40];
    volatile int status = 0;
    static int argc; /* static, because longjmp leaves the stack */
    char *word;
    argc = 2;
    argv[0] = name, argv[1] = model;
    snprintf(words, sizeof words, "%s", options);
    for (word = strtok(words, " "); word && argc < 39; word = strtok(NULL, " "))
        argv[argc++] = word;
    argv[argc] = NULL;
    lines_in = lines_feed(in, size);
    lines_out = lines_open("build/lines.out", &lines_output);
    lines_err = lines_open("build/lines.err", &lines_messages);
    if (!lines_in || !lines_out || !lines_err) abort();
    status = setjmp(lines_end);
    if (status) status = status - 1;
    else status = translate_main(argc, argv);
    fclose(lines_in);
    lines_close(lines_out, &lines_output), lines_close(lines_err, &lines_messages);
    return status;
}

/* ---- line discipline ---- */

static size_t TEST_UNUSED lines_count(const char *text, size_t size) {
    size_t n = 0, i;
    for (i = 0; i < size; i++) n += text[i] == '\n';
    return n + (size && text[size - 1] != '\n');
}

static int lines_copies; /* the input may have control characters, and parts of it are copied */

/* Returns what is wrong with the output of n lines of input, or NULL. fields: TABs that each line
   has; more: TABs that a translation may add; numbered: lines begin with the number of their input
   line, and several may have the same. */
static const char TEST_UNUSED *lines_fault(size_t n, int fields, int more, int numbered) {
    const char *at = lines_output.data, *end = at + lines_output.size, *line;
    unsigned long number = 0;
    size_t lines = 0, i;
    if (!test_is_utf8(at, lines_output.size)) return "not UTF-8";
    for (; at < end; at++, lines++) {
        int tabs = 0;
        for (line = at; at < end && *at != '\n'; at++) {
            static const char *const breaks[] = {"\r",       "\v",           "\f",
                                                 "\xC2\x85", "\xE2\x80\xA8", "\xE2\x80\xA9"};
            for (i = 0; i < 6; i++)
                if ((size_t)(end - at) >= strlen(breaks[i]) &&
                    memcmp(at, breaks[i], strlen(breaks[i])) == 0)
                    return "a line has a line break";
            tabs += *at == '\t';
            if (((unsigned char)*at < 32 && *at != '\t') || *at == 127 ||
                ((unsigned char)*at == 0xC2 && at + 1 < end && (unsigned char)at[1] < 0xA0))
                if (!lines_copies) return "a control character";
        }
        if (at == end) return "a line has no end";
        if (fields + more && tabs != fields && tabs != fields + more) return "fields";
        if (numbered) {
            unsigned long before = number;
            number = strtoul(line, NULL, 10);
            if (number != before && number != before + 1) return "numbers of lines";
        }
    }
    if (numbered) lines = number;
    return lines == n ? NULL : "number of lines";
}

/* Checks that each line, read as escaped target tokens, gives as many tokens as it has words, and
   that these tokens are written as the same line. */
static const char TEST_UNUSED *lines_read_back(void) {
    tfm_model *model = NULL;
    const char *at = lines_output.data, *end = at + lines_output.size, *fault = NULL;
    tfm_error error;
    if (tfm_model_load(&model, lines_model, lines_model_size, NULL, &error) != TFM_OK) abort();
    for (; at < end && !fault; at++) {
        static int32_t ids[4096];
        static char again[1 << 16];
        const char *line = at;
        int32_t n = 0, words = 0;
        size_t size = 0;
        for (; at < end && *at != '\n'; at++) words += at == line || *at == ' ';
        if (tfm_model_tokenize_target(model, tfm_text_make(line, (size_t)(at - line)),
                                      TFM_TEXT_FORM_ESCAPED, ids, 4096, &n, NULL, &error) != TFM_OK)
            fault = "tokens cannot be read back";
        else if (n != words) fault = "other tokens are read back";
        else if (tfm_model_detokenize(model, ids, n, TFM_TEXT_FORM_ESCAPED, again, sizeof again,
                                      &size, &error) != TFM_OK ||
                 size != (size_t)(at - line) || memcmp(again, line, size) != 0)
            fault = "tokens read back are others";
    }
    tfm_model_free(model);
    return fault;
}
#endif
