/* clang -g -O1 -fsanitize=fuzzer,address,undefined -I. -Itools/common -Itests tests/fuzz/translate.c -lm
   Runs the command line with a model of hostile pieces. Each line of input must give one line of
   output, fields must stay whole, and tokens must be readable again. The first byte chooses the
   options, the second the weights. The pieces follow (bytes up to 0xFE, each piece ended by 0xFF),
   then the input. */
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
        if (n && n < 100 && seen == begin && fuzz_is_utf8(bytes + begin, n))
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
    status = lines_run(options, bytes + i, size - i);
    if (status == 2) { /* The model is refused, because a piece is <s>, or the input is UTF-16. */
        need(strncmp(lines_messages.data, "translate: model: ", 18) == 0 ||
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
