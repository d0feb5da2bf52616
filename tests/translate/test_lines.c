/* Lines of the command line: each line of input must give one line of output, whatever the model's
   pieces are. No line may end the run, and memory must follow the lines at hand. */
#include "lines.h"

#define IDS ", \"start\": 1, \"end\": 2"
#define SPM IDS ", \"src_text\": \"sentencepiece\", \"tgt_text\": \"sentencepiece\""

/* Pieces with every character that breaks lines, fields or tokens, and byte pieces for all other
   characters. */
static const char *const hostile[] = {"a",
                                      "b",
                                      "\xE2\x96\x81",
                                      "x\ny",
                                      "\n",
                                      "\r",
                                      "\v\f",
                                      "\t",
                                      "p\tq",
                                      " ",
                                      "u v",
                                      "\xC2\x85",
                                      "\xE2\x80\xA8",
                                      "\xE2\x80\xA9z",
                                      "\xC2\xA0",
                                      "\xE3\x80\x80",
                                      "\\",
                                      "\\n",
                                      "\\\\s",
                                      "\\u0085",
                                      "\\x",
                                      "\x1c",
                                      NULL};

static void hostile_model_with(unsigned seed, const char *config) {
    int i, n = 3;
    char byte[8];
    lines_begin();
    for (i = 0; hostile[i]; i++, n++) lines_piece(hostile[i], strlen(hostile[i]), 1);
    for (i = 0; i < 256; i++, n++) {
        snprintf(byte, sizeof byte, "<0x%02X>", (unsigned)i);
        lines_piece(byte, 6, 6);
    }
    lines_put("\x12\x03\x98\x02\x01", 5); /* trainer_spec.byte_fallback */
    lines_make(n, seed, config);
}
static void hostile_model(unsigned seed) { hostile_model_with(seed, SPM); }

static void discipline(void) {
    static const struct {
        const char *options;
        int fields, more, numbered;
    } cases[] = {{"", 0, 0, 0},
                 {"--batch 1", 0, 0, 0},
                 {"--scores", 1, 0, 0},
                 {"--align", 0, 1, 0},
                 {"--beam 4 --n-best 3 --scores", 2, 0, 1},
                 {"--sample --n-best 4 --align", 1, 1, 1},
                 {"--sample --temperature 3", 0, 0, 0},
                 {"--document", 0, 0, 0},
                 {"--tokens --sample --temperature 3", 0, 0, 0},
                 {"--tokens --sample --n-best 2 --scores --align", 2, 1, 1},
                 {"b.safetensors --scores=tokens", 2, 0, 0},
                 {"b.safetensors --beam 3 --n-best 2", 1, 0, 1},
                 {"--protect --sample --n-best 2 --scores", 2, 0, 1},
                 {"--terms build/test_lines.tsv --protect", 0, 0, 0},
                 {"--terms build/test_lines.tsv --sample --n-best 2 --scores", 2, 0, 1}};
    static const char in[] = "a\na\n\nab b\r\n \xE2\x80\xA8 \n\xff\nb a\xC2\x85 b. b\na";
    size_t c, n = lines_count(in, sizeof in - 1);
    int status;
    unsigned seed;
    FILE *terms = fopen("build/test_lines.tsv", "wb");
    SECTION("a line of output for each of input");
    CHECK(terms && fputs("a\tc d\nb a\t\xE6\x88\x91\n!b\tx\n", terms) >= 0 && fclose(terms) == 0,
          "");
    for (seed = 1; seed <= 4; seed++) {
        hostile_model(seed);
        for (c = 0; c < sizeof cases / sizeof *cases; c++) {
            if (!test_in_slice("discipline", (long)(seed * (sizeof cases / sizeof *cases) + c)))
                continue;
            status = lines_run(cases[c].options, in, sizeof in - 1);
            const char *fault = lines_fault(n, cases[c].fields, cases[c].more, cases[c].numbered);
            CHECK(status == 1 && !fault, "%s", fault ? cases[c].options : "");
            if (fault) printf("      %s\n", fault);
            if (strstr(cases[c].options, "--tokens") && !cases[c].fields) {
                fault = lines_read_back();
                CHECK(!fault, "%s", fault ? fault : "");
            }
        }
    }
    status = lines_run("--tokens --max-length 30", "a \\s b\n\\u0085 \\\\n\n", 16);
    CHECK(status == 0, "");
}

/* One line needs more memory than there is. */
static void long_lines(void) {
    size_t n = 400000;
    char *in = (char *)test_memory(n + 8), *alone;
    int status;
    SECTION("a line that is too long");
    lines_begin(), lines_piece("\xE2\x96\x81", 3, 1), lines_piece("b", 1, 1);
    lines_put_rule(), lines_make(5, 1, SPM);
    memcpy(in, "b\n", 2), memset(in + 2, 'a', n), memcpy(in + 2 + n, "\nb\n", 3);
    status = lines_run("--batch 1", "b\n", 2);
    CHECK(status == 0 && lines_output.size > 1, "");
    alone = (char *)test_memory(2 * lines_output.size + 2);
    sprintf(alone, "%s\n%s", lines_output.data, lines_output.data);
    if (test_in_slice("long", 0)) {
        status = lines_run("", in, n + 5);
        CHECK(status == 1, "exit status");
        CHECK(strcmp(lines_output.data, alone) == 0, "the lines around it are translated");
        CHECK(strstr(lines_messages.data, "translate: line 2: ") != NULL, "it is named");
    }
    if (test_in_slice("long", 1)) {
        status = lines_run("--max-source 1000000", in, n + 5);
        CHECK(status == 1 && strcmp(lines_output.data, alone) == 0, "they are with any limit");
    }
    if (test_in_slice("long", 2)) {
        lines_limit = 500000; /* less than the line, which is read into twice its size */
        status = lines_run("", in, n + 5);
        CHECK(status == 1 && strcmp(lines_output.data, alone) == 0,
              "and where memory does not hold the line");
    }
    lines_limit = (size_t)1 << 30;
}

/* Sessions must be as large as the lines at hand need. */
static void memory(void) {
    static char in[1000];
    char *expected;
    int i, status;
    SECTION("memory");
    hostile_model(1);
    for (i = 0; i < 500; i++) in[2 * i] = i % 3 ? 'a' : 'b', in[2 * i + 1] = '\n';
    status = lines_run("--batch 1", in, sizeof in);
    CHECK(status == 0, "");
    expected = (char *)test_memory(lines_output.size + 1);
    strcpy(expected, lines_output.data);
    lines_limit = 20000000;
    status = lines_run("--batch 1000000", in, 2);
    CHECK(status == 0 && lines_output.size > 1, "one line, in a batch of a million");
    status = lines_run("--batch 500", in, sizeof in);
    CHECK(status == 0 && strcmp(lines_output.data, expected) == 0, "500 lines in a batch");
    lines_limit = (size_t)1 << 30;
}

/* Long lines must be translated in smaller batches, whose sessions get the same memory. */
static void long_batches(void) {
    enum { LINES = 128, LONG = 250, SHORT = 40, LIMIT = 16000000 };
    static char in[LINES / 2 * (LONG + SHORT + 2)];
    char *expected;
    size_t size = 0;
    int i, status;
    SECTION("batches of long lines");
    lines_width = 128, hostile_model(1), lines_width = 8;
    for (i = 0; i < LINES; i++) {
        int n = i % 2 ? LONG : SHORT;
        memset(in + size, i % 3 ? 'a' : 'b', (size_t)n), size += (size_t)n, in[size++] = '\n';
    }
    status = lines_run("--max-length 300 --batch 1", in, size);
    CHECK(status < 2, "");
    expected = (char *)test_memory(lines_output.size + 1);
    strcpy(expected, lines_output.data);
    lines_most = 0, lines_n_large = 0, lines_large = LIMIT / 4;
    status = lines_run("--max-length 300", in, size);
    lines_large = (size_t)1 << 30;
    CHECK(status < 2 && strcmp(lines_output.data, expected) == 0, "the output of single lines");
    CHECK(lines_most > LIMIT / 2 && lines_most <= LIMIT, "a session of %d bytes, of at most %d",
          (int)lines_most, LIMIT);
    CHECK(lines_n_large == 1, "%d allocations of sessions, expected 1", lines_n_large);
}

static lines_text copy_text(const lines_text *text) {
    lines_text copy;
    copy.size = text->size;
    copy.data = (char *)test_memory(text->size + 1);
    memcpy(copy.data, text->data, text->size);
    copy.data[text->size] = 0;
    return copy;
}
static int same_text(const lines_text *a, const lines_text *b) {
    return a->size == b->size && memcmp(a->data, b->data, a->size) == 0;
}

/* Any number of workers, with batches of any size, must give the same output and messages. */
static void any_workers(void) {
    static const char *const cases[] = {"", "--beam 3 --n-best 2 --scores --align",
                                        "--sample --n-best 2 --temperature 3", "--document",
                                        "--tokens --sample"};
    static const char *const workers[] = {"--threads 1 --batch 1", "--threads 2 --batch 1",
                                          "--threads 2 --batch 5", "--threads 3 --batch 2",
                                          "--threads 7 --batch 64"};
    static char in[4000], options[128];
    size_t size = 0, c, k;
    lines_text expected, told;
    int i, status;
    SECTION("workers");
    hostile_model(2);
    for (i = 0; i < 150; i++)
        size += (size_t)sprintf(in + size, "%s\n",
                                i % 11 == 4   ? "\xff"
                                : i % 7 == 2  ? ""
                                : i % 50 == 3 ? "ab. ba. abab. a b a b a b a b a b a b a b a b"
                                : i % 2       ? "ab"
                                              : "a \xC2\x85 b");
    for (c = 0; c < sizeof cases / sizeof *cases; c++) {
        int in_slice[sizeof workers / sizeof *workers], n_in_slice = 0;
        for (k = 0; k < sizeof workers / sizeof *workers; k++)
            n_in_slice += in_slice[k] = test_in_slice("workers", (long)(c * 5 + k));
        if (!n_in_slice) continue;
        sprintf(options, "%s --max-length 30 --batch 16", cases[c]);
        status = lines_run(options, in, size);
        expected = copy_text(&lines_output);
        told = copy_text(&lines_messages);
        CHECK(status == 1 && strstr(told.data, "translate: line 5") != NULL, "%s", options);
        for (k = 0; k < sizeof workers / sizeof *workers; k++) {
            if (!in_slice[k]) continue;
            sprintf(options, "%s --max-length 30 %s", cases[c], workers[k]);
            status = lines_run(options, in, size);
            CHECK(status == 1 && same_text(&expected, &lines_output) &&
                      same_text(&told, &lines_messages),
                  "%s", options);
        }
    }
}

/* Two models in one command must give the output and messages of two runs in a pipe. */
static void two_models(void) {
    static const struct {
        const char *both, *first, *second;
    } cases[] = {
        {"", "", ""},
        {"--threads 3", "--batch 7", "--batch 1"},
        {"--beam 3 --n-best 2 --scores", "--beam 3", "--beam 3 --n-best 2 --scores"},
        {"--sample --n-best 3 --seed 5", "--sample --seed 5", "--sample --n-best 3 --seed 5"},
        {"--column 2 --scores=tokens", "--column 2", "--column 2 --scores=tokens"},
        {"--min-length 20 --first-line 7", "--min-length 20", "--min-length 20"},
        {"--from fra --via deu --to fra", "--from fra --to deu", "--from deu --to fra"}};
    static const char in[] = "a\tab\na\n\nab b\tb\r\n \xE2\x80\xA8 \n\xff\tb\nb a\xC2\x85 b. "
                             "b\tab ab a\tc\na";
    char options[160];
    size_t c;
    int i, first, second, both;
    lines_text made, expected;
    SECTION("two models");
    hostile_model(3);
    for (c = 0; c < sizeof cases / sizeof *cases; c++) {
        if (!test_in_slice("models", (long)c)) continue;
        if (strstr(cases[c].both, "--via"))
            hostile_model_with(3,
                               SPM ", \"languages\": {\"fra\": 5, \"deu\": 6}, \"src_language\": "
                                   "\"source\", \"tgt_language\": \"forced\"");
        for (i = 0; i < 2; i++) {
            const char *limit = i ? " --max-length 30" : " --max-length 24 --max-source 25";
            sprintf(options, "%s%s", cases[c].first, limit);
            first = lines_run(options, in, sizeof in - 1);
            made = copy_text(&lines_output);
            sprintf(options, "%s%s", cases[c].second, limit);
            second = lines_run(options, made.data, made.size);
            expected = copy_text(&lines_output);
            sprintf(options, "b.safetensors %s%s", cases[c].both, limit);
            both = lines_run(options, in, sizeof in - 1);
            CHECK(both == (first > second ? first : second) && both < 2 && made.size > 20 &&
                      same_text(&expected, &lines_output),
                  "%s: the bytes of a pipe", cases[c].both);
        }
    }
    hostile_model(3);
    (void)lines_run("b.safetensors --max-length 24 --max-source 4", "\xff\nab\n", 5);
    CHECK(strstr(lines_messages.data, "translate: line 1: model.safetensors: text is not UTF-8") &&
              strstr(lines_messages.data, "translate: line 2: b.safetensors: text has"),
          "messages name the model: %s", lines_messages.data);
    for (i = 0; i < 4; i++) {
        static const char *const refused[][2] = {
            {"--via fra", "--via needs a second model"},
            {"nofile b.safetensors",
             "b.safetensors: the second model must come right after the first"},
            {"b.safetensors nofile", "nofile: No such file"},
            {"b.safetensors --tokens", "--tokens and a second model do not go together"}};
        first = lines_run(refused[i][0], "a\n", 2);
        CHECK(first == 2 && strstr(lines_messages.data, refused[i][1]), "%s", refused[i][1]);
    }
}

int main(void) {
    test_hooks.allocate = lines_malloc;
    discipline();
    any_workers();
    two_models();
    long_lines();
    memory();
    long_batches();
    free(lines_model), free(lines_output.data), free(lines_messages.data);
    return test_done("test_lines");
}
