/* fuzz.h: the code that the fuzz targets share. Each target is a program of libFuzzer. Its first
   line is the command, and `make fuzz SECONDS=30` runs all targets. For other compilers -DFUZZ_MAIN
   makes a program that runs the files in its arguments: crashes of fuzzers, or the corpus. */
#ifndef FUZZ_H
#define FUZZ_H

#define TRANSFORMER_IMPLEMENTATION
#include "transformer.h"
#include "tiny.h"

#ifdef __cplusplus
extern "C"
#endif
    int
    LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* A condition that must hold; a fuzzer stops where it does not. */
static void TEST_UNUSED need(int condition) {
    if (!condition) abort();
}

static char TEST_UNUSED fuzz_room[1 << 18];

/* Calls malloc and remembers the largest block. */
static size_t fuzz_largest;
static void TEST_UNUSED *fuzz_allocate(void *user, size_t bytes) {
    (void)user;
    if (bytes > fuzz_largest) fuzz_largest = bytes;
    return malloc(bytes);
}
static void TEST_UNUSED fuzz_release(void *user, void *pointer) {
    (void)user;
    free(pointer);
}
static const tfm_allocator TEST_UNUSED *fuzz_counting(void) {
    static tfm_allocator allocator;
    allocator.allocate = fuzz_allocate, allocator.release = fuzz_release;
    fuzz_largest = 0, err.text[0] = 0;
    return &allocator;
}

/* Checks that an input that was refused early took no block over 4 times its size. */
static void TEST_UNUSED fuzz_bounded(size_t size) { need(fuzz_largest <= 4 * size + 16384); }

/* Checks that a refused input gave no object, and a message. */
static void TEST_UNUSED fuzz_refused(size_t size, const void *output) {
    need(!output && err.text[0]);
    fuzz_bounded(size);
}

/* Makes large inputs from small ones. 0xFF, n, a seed and a tail become 256 n different lines of a
   few letters, or that many pieces of a SentencePiece file, and then the tail. Returns NULL for
   other inputs. */
static uint8_t TEST_UNUSED *fuzz_large(const uint8_t *data, size_t *size, int are_pieces) {
    size_t n, i, k, at = 0, letters;
    uint8_t *to;
    if (*size < 3 || data[0] != 0xFF) return NULL;
    n = (size_t)data[1] * 256, letters = data[2] % 60;
    to = (uint8_t *)malloc(n * (letters + 12) + *size);
    if (!to) abort();
    for (i = 0; i < n; i++) {
        uint32_t hash = (uint32_t)(i + 1) * 2654435761u + data[2];
        if (are_pieces)
            to[at++] = 10, to[at++] = (uint8_t)(letters + 5), to[at++] = 10,
            to[at++] = (uint8_t)(letters + 3);
        for (k = 0; k < 3; k++)
            to[at++] = (uint8_t)('A' + i / (k == 0 ? 1 : k == 1 ? 50 : 2500) % 50);
        for (k = 0; k < letters; k++, hash = hash * 1103515245u + 12345u)
            to[at++] = (uint8_t)('!' + (hash >> 16) % 90);
        if (!are_pieces) to[at++] = hash >> 30 ? '\n' : '\t';
    }
    memcpy(to + at, data + 3, *size - 3);
    *size = at + *size - 3;
    return to;
}

#define FUZZ_IDS ", \"start\": 1, \"end\": 2, \"src_unk\": 3, \"tgt_unk\": 3"
#define FUZZ_WORDS "<pad>\n<s>\n</s>\n<unk>\nhello\nworld\na\tA\nb\n\xe2\x96\x81\n\xe5\xad\xa6\ne\n"
#define FUZZ_SPM ", \"src_text\": \"sentencepiece\", \"tgt_text\": \"sentencepiece\""

/* Loads models of words, characters, unigram and BPE, and one with denormalization. The program
   must run in the repository's root. */
static tfm_model TEST_UNUSED *fuzz_text_model(int kind) {
    static const char *const models[] = {"unigram_symbols.model", "bpe_bytes.model",
                                         "unigram_back.model"};
    static tfm_model *made[5];
    tfm_safetensors *file;
    tiny t = tiny_default();
    st_writer w;
    if (made[kind]) return made[kind];
    t.d = 8, t.key = t.value = 2, t.ff = 8, t.encoder = t.decoder = 1;
    t.config = kind > 1    ? FUZZ_IDS FUZZ_SPM
               : kind == 1 ? FUZZ_IDS ", \"src_text\": \"characters\", \"tgt_text\": \"pieces\""
                           : FUZZ_IDS;
    if (kind < 2) t.src = t.tgt = FUZZ_WORDS, t.vt = 11;
    else t.vs = t.vt = 420;
    tiny_write(&w, t);
    file = test_open("sentencepiece.safetensors");
    if (kind > 1) st_add(&w, "src_sentencepiece", test_get(file, models[kind - 2]));
    tfm_safetensors_free(file);
    return made[kind] = tiny_load(&w, NULL);
}

#ifdef FUZZ_MAIN
int main(int argc, char **argv) {
    static uint8_t bytes[1 << 20];
    int i;
    for (i = 1; i < argc; i++) {
        FILE *f = fopen(argv[i], "rb");
        size_t n = f ? fread(bytes, 1, sizeof bytes, f) : 0;
        uint8_t *exact = (uint8_t *)malloc(n + 1);
        if (!f || !exact) return printf("%s: cannot be read\n", argv[i]), 2;
        memcpy(exact, bytes, n);
        (void)LLVMFuzzerTestOneInput(exact, n);
        free(exact), fclose(f);
    }
    printf("%d inputs\n", argc - 1);
    return 0;
}
#endif
#endif
