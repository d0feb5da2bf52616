/* clang -g -O1 -fsanitize=fuzzer,address,undefined -I. -Itools/common -Itests
   tests/fuzz/translate.c -lm Runs the command line with a model of hostile pieces. Each line of
   input must give one line of output, fields must stay whole, and tokens must be readable again. A
   document must stay UTF-8, and so must what --live writes. The first byte chooses the options, the
   second the weights. With --terms, the list begins the input and ends at 0xFE. The pieces follow
   (bytes up to 0xFE, each piece ended by 0xFF), then the input. */
#define LINES_IN_MEMORY
#include "tests/translate/lines.h"

#include "fuzz.h"

static const struct {
    const char *options;
    int fields, more, numbered, tokens;
} cases[] = {{"--protect --sample --temperature 3", 0, 0, 0, 0},
             {"--scores --batch 2", 1, 0, 0, 0},
             {"--beam 3 --n-best 2 --align", 1, 1, 1, 0},
             {"--sample --n-best 3 --scores", 2, 0, 1, 0},
             {"--document", 0, 0, 0, 0},
             {"--tokens --sample --temperature 3", 0, 0, 0, 1},
             {"b.safetensors --sample --temperature 3 --batch 1", 0, 0, 0, 0},
             {"--tokens --sample --n-best 2 --align --scores", 2, 1, 1, 0}};

static const char *const documents[] = {"--html",  "--markdown",     "--srt",          "--wrapped",
                                        "--terms", "--html --terms", "--protect --srt"};

/* Writes the list of terms to a file of this process, in memory where there is /dev/shm. */
static char list[64];
static void remove_list(void) { remove(list); }
static void write_list(const char *bytes, size_t n) {
    FILE *f;
    if (!list[0]) {
        snprintf(list, sizeof list, "%s/fuzz-terms-%ld",
                 access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp", (long)getpid());
        need(atexit(remove_list) == 0);
    }
    f = fopen(list, "wb");
    need(f && fwrite(bytes, 1, n, f) == n && fclose(f) == 0);
}

/* A program that ends early leaves its list of terms to the system. */
#if defined(__GNUC__) && defined(__linux__)
__attribute__((weak)) void __lsan_disable(void);
__attribute__((weak)) void __lsan_enable(void);
#define leaks(are_found)                                                                           \
    (__lsan_disable && __lsan_enable ? are_found ? __lsan_enable() : __lsan_disable() : (void)0)
#else
#define leaks(are_found) (void)0
#endif

/* Translates a document, or with terms. */
static void run_document(const char *how, const char *bytes, size_t n) {
    const char *end;
    char options[128];
    int status;
    snprintf(options, sizeof options, "%s", how);
    if (strstr(how, "--terms")) {
        end = n ? (const char *)memchr(bytes, 0xFE, n) : NULL;
        if (!end) end = bytes + n;
        write_list(bytes, (size_t)(end - bytes));
        snprintf(options, sizeof options, "%s %s", how, list);
        if (end < bytes + n) end++;
        n -= (size_t)(end - bytes), bytes = end;
    }
    strcat(options, " --max-length 12 --max-source 64");
    leaks(0), status = lines_run(options, bytes, n), leaks(1);
    need(status >= 0 && status <= 2);
    need(status < 2 || strncmp(lines_messages.data, "translate: ", 11) == 0);
    if (test_is_utf8(bytes, n)) need(test_is_utf8(lines_output.data, lines_output.size));
    if (status == 2) return;
    if (!strcmp(how, "--terms")) {
        lines_copies = 1;
        need(!lines_fault(lines_count(bytes, n), 0, 0, 0));
    }
}

/* Translates text, or lines of transcribe, while they come. */
static void run_live(const char *options, const char *bytes, size_t n) {
    const int status = lines_run(options, bytes, n);
    need(status >= 0 && status <= 2);
    need(test_is_utf8(lines_output.data, lines_output.size));
    need(!lines_output.size || lines_output.data[lines_output.size - 1] == '\n');
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    const char *bytes = (const char *)data;
    size_t i, n, begin = 2, seen;
    int pieces = 4, c, status;
    char options[128];
    if (size < 3) return 0;
    lines_begin(), lines_piece("\xE2\x96\x81", 3, 1);
    for (i = 2; i < size && data[i] != 0xFE && pieces < 40; i++) {
        if (data[i] != 0xFF) continue;
        n = i - begin;
        /* Each piece may occur once, because a file with duplicates is refused. */
        for (seen = 2; seen < begin; seen++)
            if ((seen == 2 || data[seen - 1] == 0xFF) && data[seen + n] == 0xFF &&
                memcmp(data + seen, data + begin, n) == 0)
                break;
        if (n && n < 100 && seen == begin && test_is_utf8(bytes + begin, n))
            lines_piece(bytes + begin, n, 1), pieces++;
        begin = i + 1;
    }
    i += i < size && data[i] == 0xFE;
    c = data[0] % 8;
    snprintf(options, sizeof options, "%s --max-length 12 --max-source 64%s", cases[c].options,
             cases[c].options[2] == 'b' || cases[c].tokens ? "" : " --no-repeat-ngram 3");
    lines_make(pieces, data[1],
               data[0] & 8 ? FUZZ_IDS FUZZ_SPM
                           : ", \"start\": 1, \"end\": 2, \"src_text\": \"sentencepiece\"");
    if (data[0] & 128) {
        run_live(data[0] & 16 ? "--live --json --input json" : "--live --json", bytes + i,
                 size - i);
        return 0;
    }
    if (data[0] >> 4 & 7) {
        run_document(documents[(data[0] >> 4 & 7) - 1], bytes + i, size - i);
        return 0;
    }
    status = lines_run(options, bytes + i, size - i);
    if (status == 2) { /* The model is refused, because a piece is <s>, or the input is UTF-16. */
        need(strncmp(lines_messages.data, "translate: model.safetensors: ", 30) == 0 ||
             strncmp(lines_messages.data, "translate: the input is probably UTF-", 37) == 0);
        return 0;
    }
    need(status == 0 || status == 1);
    lines_copies = c == 0;
    need(!lines_fault(lines_count(bytes + i, size - i), cases[c].fields, cases[c].more,
                      cases[c].numbered));
    if (cases[c].tokens) need(!lines_read_back());
    return 0;
}
