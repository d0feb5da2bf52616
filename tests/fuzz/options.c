/* clang -g -O1 -fsanitize=fuzzer,address,undefined -I. -Itools/common -Itests tests/fuzz/options.c
   -lm Reads any command line: arguments with a byte 0 behind each. Values must be in their range,
   and a message must have no control characters after output_text. */
#define _POSIX_C_SOURCE 200809L
#include "fuzz.h"

#include "messages.h"
#include "options.h"
#include <setjmp.h>

static jmp_buf wrong;
static void misuse(const char *format, ...) {
    static char text[1 << 16];
    char *said = NULL;
    size_t size = 0, i;
    FILE *f = open_memstream(&said, &size);
    va_list arguments;
    need(f != NULL);
    va_start(arguments, format), vsnprintf(text, sizeof text, format, arguments), va_end(arguments);
    output_text(f, text, 0), fclose(f);
    need(size > 0 && test_is_utf8(said, size));
    for (i = 0; i < size; i++) need((uint8_t)said[i] >= 32 && said[i] != 127);
    free(said);
    longjmp(wrong, 1);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static int flag;
    static int32_t count;
    static double share;
    static uint64_t seed;
    static const char *path, *file;
    static option_rest rest;
    static option_entry table[] = {{"a text\n", NULL, OPTION_TEXT, NULL, 0, 0, 0, NULL},
                                   {"file", NULL, OPTION_OPERAND, &file, 0, 0, 0, NULL},
                                   {"files", NULL, OPTION_REST, &rest, 0, 0, 0, NULL},
                                   {"--flag", "more", OPTION_FLAG, &flag, 0, 0, 0, "a\nb"},
                                   {"-n, --count", "N", OPTION_INTEGER, &count, 1, 100, 0, "n"},
                                   {"--share", "X", OPTION_NUMBER, &share, -1, 1.5, 0, "x"},
                                   {"--seed", "S", OPTION_SEED, &seed, 0, 0, 0, "s"},
                                   {"-p, --path", "P", OPTION_PATH, &path, 0, 0, 0, "p"},
                                   {"--help", NULL, OPTION_STOP, NULL, 0, 0, 0, "this text"}};
    static char *argv[66], *copy;
    static int argc, i;
    size_t at;
    free(copy), copy = (char *)malloc(size + 1);
    if (!copy) abort();
    if (size) memcpy(copy, data, size);
    copy[size] = 0, argv[0] = copy + size, argc = 1;
    for (at = 0; at < size && argc < 65; at += strlen(copy + at) + 1) argv[argc++] = copy + at;
    argv[argc] = NULL, flag = 0, count = 1, share = 0, path = file = NULL, rest.n = 0;
    if (setjmp(wrong)) return 0;
    (void)options_read(table, sizeof table / sizeof *table, argc, argv, misuse);
    need(flag >= 0 && flag <= 2 && count >= 1 && count <= 100 && share >= -1 && share <= 1.5);
    for (i = 0; i < rest.n; i++) need(strlen(rest.at[i]) <= size);
    need(!rest.n || file);
    (void)options_print;
    return 0;
}
