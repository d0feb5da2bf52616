/* spm_file.h: writes SentencePiece model files field by field. put_... appends to built, which has
   n_built bytes. */
#ifndef SPM_FILE_H
#define SPM_FILE_H

#include "test.h"

#define SPACE "\xe2\x96\x81"

static unsigned char built[1 << 20];
static size_t n_built;

static void TEST_UNUSED put_bytes(const void *data, size_t n) {
    if (n > sizeof built - n_built) exit(2);
    if (n) memcpy(built + n_built, data, n);
    n_built += n;
}
static void TEST_UNUSED put_varint(uint64_t n) {
    unsigned char byte;
    do {
        byte = (unsigned char)((n & 127) | (n > 127 ? 128 : 0));
        put_bytes(&byte, 1);
    } while (n >>= 7);
}
static void TEST_UNUSED put_field(unsigned number, const void *data, size_t n) {
    put_varint(number << 3 | 2), put_varint(n), put_bytes(data, n);
}
static void TEST_UNUSED put_number(unsigned number, uint64_t value) {
    put_varint((uint64_t)number << 3), put_varint(value);
}
/* Turns everything that was put since begin into a field that holds a message. */
static void TEST_UNUSED wrap(unsigned number, size_t begin) {
    static unsigned char inner[sizeof built];
    size_t n = n_built - begin;
    memcpy(inner, built + begin, n);
    n_built = begin;
    put_field(number, inner, n);
}
static void TEST_UNUSED put_piece_of(const void *text, size_t n, float score, unsigned type) {
    size_t begin = n_built;
    uint32_t bits;
    unsigned char four[4];
    int i;
    put_field(1, text, n);
    memcpy(&bits, &score, 4);
    for (i = 0; i < 4; i++) four[i] = (unsigned char)(bits >> 8 * i & 0xFF);
    put_varint(2 << 3 | 5), put_bytes(four, 4);
    put_number(3, type);
    wrap(1, begin);
}
static void TEST_UNUSED put_piece(const char *text, float score, unsigned type) {
    put_piece_of(text, strlen(text), score, type);
}
/* Begins a file with <unk>, <s>, </s>, a, b, ab, U+2581 and U+2581 a. */
static void TEST_UNUSED begin_file(void) {
    n_built = 0;
    put_piece("<unk>", 0, 2), put_piece("<s>", 0, 3), put_piece("</s>", 0, 3);
    put_piece("a", -1, 1), put_piece("b", -2, 1), put_piece("ab", -2.5f, 1);
    put_piece(SPACE, -3, 1), put_piece(SPACE "a", -1.5f, 1);
}
static void TEST_UNUSED put_trainer(unsigned field, uint64_t value) {
    size_t begin = n_built;
    put_number(field, value);
    wrap(2, begin);
}

/* Adds a charsmap: units of its trie (units that are not given are 0x100 + label, which are
   nobody's child), then the strings. */
typedef struct unit_row {
    unsigned at, value;
} unit_row;
static void TEST_UNUSED put_rules(unsigned spec, const unit_row *rows, int n, const char *strings,
                                  size_t size) {
    static unsigned char map[4 + 1024 + 4096];
    size_t begin = n_built;
    unsigned i, k;
    map[0] = 0, map[1] = 4, map[2] = map[3] = 0;
    for (i = 0; i < 256; i++) {
        unsigned value = (i ^ 1) & 0xFF;
        for (k = 0; k < (unsigned)n; k++)
            if (rows[k].at == i) value = rows[k].value;
        for (k = 0; k < 4; k++) map[4 + 4 * i + k] = (unsigned char)(value >> 8 * k & 0xFF);
    }
    memcpy(map + 1028, strings, size);
    put_field(2, map, 1028 + size);
    for (i = 3; spec == 5 && i <= 5; i++)
        put_number(i, 0); /* Denormalization uses only the rules. */
    wrap(spec, begin);
}
static void TEST_UNUSED put_charsmap(const unit_row *rows, int n, const char *strings,
                                     size_t size) {
    put_rules(3, rows, n, strings, size);
}
#endif
