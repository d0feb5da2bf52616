/* fuzz.h: what the fuzz targets share. Each target is a program of libFuzzer: its first line is the
   command, and `make fuzz SECONDS=30` runs them all. For other compilers -DFUZZ_MAIN makes it a
   program that runs the files in its arguments: crashes of fuzzers, or the corpus. */
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

/* What must hold; a fuzzer stops where it does not. */
static void TEST_UNUSED need(int condition) {
    if (!condition) abort();
}

static char TEST_UNUSED fuzz_room[1 << 18];

/* malloc, which remembers the largest block that was asked for. */
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

/* An input that was refused made nothing, says why, and took no block over 4 times its size. */
static void TEST_UNUSED fuzz_refused(size_t size, const void *output) {
    need(!output && err.text[0] && fuzz_largest <= 4 * size + 16384);
}

/* A pool by malloc that counts. */
static tfm__pool TEST_UNUSED fuzz_pool(void) {
    tfm__pool pool;
    memset(&pool, 0, sizeof pool);
    pool.allocator = *fuzz_counting();
    return pool;
}

#define FUZZ_IDS ", \"start\": 1, \"end\": 2, \"src_unk\": 3, \"tgt_unk\": 3"
#define FUZZ_WORDS "<pad>\n<s>\n</s>\n<unk>\nhello\nworld\na\tA\nb\n\xe2\x96\x81\n\xe5\xad\xa6\ne\n"
#define FUZZ_SPM ", \"src_text\": \"sentencepiece\", \"tgt_text\": \"sentencepiece\""

/* Models of words, characters, unigram and BPE, and one with denormalization; run in the repository's root. */
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
