/* bench_drafts.c: measures how much time drafts save.

       cc -O2 -I. -Itools/common tools/bench/bench_drafts.c -o bench_drafts -lm
       bench_drafts --weights int8    Transformer base with random weights
       bench_drafts MODEL < lines     your model on your text

   The usage text below defines what is measured. Each batch is decoded without a draft and with
   each of the drafts, one after the other, so compare only the ratios of one run. If a draft
   changes a token or a score, bench_drafts fails. */
#include "output.h"

#include "transformer.h"
#include "options.h"
#include "random_model.h"
#include "times.h"
#include "utf8_files.h"

#include <stdarg.h>

enum { WIDTH = 128, WORDS = 24, VOCABULARY = 32000, FIRST_WORD = 4, MOST_BATCH = 64 };

/* What a decode gets as its draft; SAME shows the most that drafts can save. */
typedef enum kind { NONE, EDIT, USELESS, SAME, KINDS } kind;
static const char *const kind_names[KINDS] = {"no draft", "edited", "useless", "right"};

static struct {
    const char *model, *type;
    int32_t rows, rounds, max_draft, batch;
    uint64_t seed;
} opt = {NULL, NULL, 500, 3, 8, 0, 1};

static const char *const types[] = {"stored", "f32", "f16", "bf16", "int8"};

static option_entry table[] = {
    {"usage: bench_drafts [options]\n"
     "       bench_drafts MODEL [options] < lines\n"
     "\n"
     "Measures greedy decoding with a draft against decoding without one, with batches of 1, 2\n"
     "and 4 sentences and one thread. Without MODEL, the model is that of bench, and a sentence\n"
     "has 24 tokens in and 24 out.\n"
     "\n"
     "  edited   With MODEL: the translation of the line before one word was replaced. The word\n"
     "           is a number or begins with a capital letter, but is not the line's first, and\n"
     "           the new word is such a word of another line. Lines without one are left out.\n"
     "           Without MODEL: the right translation with one token replaced.\n"
     "  useless  the translation of another line\n"
     "  right    the right translation\n",
     NULL, OPTION_TEXT, NULL, 0, 0, 0, NULL},
    {"model", NULL, OPTION_OPERAND, &opt.model, 0, 0, 0, NULL},
    {"--weights", "TYPE", OPTION_PATH, &opt.type, 0, 0, 0,
     "f32, f16, bf16 or int8 (default: as stored; random: f32)"},
    {"--sentences", "N", OPTION_INTEGER, &opt.rows, 2, 100000, 0, "sentences (default 500)"},
    {"--rounds", "N", OPTION_INTEGER, &opt.rounds, 1, MOST_REPEATS, 0,
     "times each batch N times; the fastest counts (default 3)"},
    {"--batch", "N", OPTION_INTEGER, &opt.batch, 1, MOST_BATCH, 0,
     "only batches of N sentences (default: 1, 2 and 4)"},
    {"--max-draft", "N", OPTION_INTEGER, &opt.max_draft, 1, 64, 0,
     "max_draft of the session (default 8)"},
    {"--seed", "N", OPTION_SEED, &opt.seed, 0, 0, 0, "seed of weights and edits (default 1)"},
    {"--help", NULL, OPTION_STOP, NULL, 0, 0, 0, "prints this text"},
    {"\n"
     "For each kind of draft, the table has the time without a draft divided by the time with it,\n"
     "and in parentheses the calls of tfm_session_step that a batch takes.",
     NULL, OPTION_TEXT, NULL, 0, 0, 0, NULL}};
enum { N_OPTIONS = sizeof table / sizeof *table };

static int fail(const char *subject, const char *cause) {
    return output_fail("bench_drafts", subject, cause);
}

static void misuse(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format), output_complain("bench_drafts", format, arguments),
        va_end(arguments);
    exit(2);
}

/* ---- sentences and drafts: rows of WIDTH ids ---- */

typedef struct rows {
    int32_t *ids, *lengths;
} rows;

static rows src, drafts[KINDS];
static int32_t n_rows;
static tfm_model *model;

static int rows_make(rows *r) {
    r->ids = (int32_t *)calloc((size_t)n_rows * (WIDTH + 1), sizeof *r->ids);
    r->lengths = r->ids ? r->ids + (int64_t)n_rows * WIDTH : NULL;
    return r->ids || fail("sentences", "no memory");
}

static tfm_ids row_of(const rows *r, int32_t i) {
    return tfm_ids_make(r->ids + (int64_t)i * WIDTH, r->lengths[i]);
}

/* Decodes n rows step by step and counts the steps. */
static int decode(tfm_session *s, int32_t first, int32_t n, kind k, double *seconds,
                  int64_t *steps) {
    static const int32_t end = TOKEN_END;
    tfm_request requests[MOST_BATCH];
    tfm_decode_options o;
    tfm_error err;
    int32_t running = 1, i;
    double before;
    memset(&o, 0, sizeof o);
    if (!opt.model) o.suppressed = &end, o.n_suppressed = 1, o.max_length = WORDS;
    memset(requests, 0, sizeof requests);
    for (i = 0; i < n; i++) requests[i].ids = row_of(&src, first + i);
    for (i = 0; k != NONE && i < n; i++) requests[i].draft = row_of(&drafts[k], first + i);
    before = wall_clock();
    if (tfm_session_start(s, requests, n, &o, &err) != TFM_OK) return fail("decode", err.text);
    for (; running; ++*steps)
        if (tfm_session_step(s, &running, &err) != TFM_OK) return fail("decode", err.text);
    *seconds += wall_clock() - before;
    return 1;
}

/* Translates all rows without a draft into a kind of drafts. */
static int translate_into(tfm_session *s, rows *to) {
    int32_t i;
    double seconds = 0;
    int64_t steps = 0;
    tfm_result r;
    for (i = 0; i < n_rows; i++) {
        if (!decode(s, i, 1, NONE, &seconds, &steps)) return 0;
        if (tfm_result_get(s, 0, 0, &r, NULL) != TFM_OK) return fail("result", "none");
        to->lengths[i] = r.length;
        memcpy(to->ids + (int64_t)i * WIDTH, r.ids, (size_t)r.length * sizeof *r.ids);
    }
    return 1;
}

/* ---- the random model's sentences ---- */

static int32_t word(uint64_t i) {
    return FIRST_WORD + (int32_t)(mix(i) % (VOCABULARY - FIRST_WORD));
}

static int make_random(tfm_session *s) {
    int32_t i, k;
    for (i = 0; i < n_rows; i++)
        for (src.lengths[i] = WORDS, k = 0; k < WORDS; k++)
            src.ids[(int64_t)i * WIDTH + k] = word(opt.seed + (uint64_t)i * WORDS + (uint64_t)k);
    if (!translate_into(s, &drafts[SAME])) return 0;
    memcpy(drafts[EDIT].ids, drafts[SAME].ids, (size_t)n_rows * (WIDTH + 1) * sizeof *src.ids);
    for (i = 0; i < n_rows; i++) {
        k = (int32_t)(mix(~opt.seed + (uint64_t)i) % WORDS);
        drafts[EDIT].ids[(int64_t)i * WIDTH + k] = word(~(uint64_t)i);
    }
    return 1;
}

/* ---- lines of text and their edits ---- */

enum { MOST_LINE = 4096 };

/* Finds the last word of a line, other than its first, that is a number or begins with a capital
   letter. Returns its length without punctuation, or 0. */
static size_t find_word(const char *line, size_t *at) {
    size_t i, n = 0, end;
    for (i = 1; line[i]; i++) {
        int c = (unsigned char)line[i];
        if (line[i - 1] != ' ' || !((c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z'))) continue;
        for (end = i; line[end] && !strchr(" ,.;:!?\"()'", line[end]);) end++;
        *at = i, n = end - i;
    }
    return n;
}

static int tokenize(rows *to, int32_t i, const char *text) {
    static char memory[64 * 3 * MOST_LINE];
    tfm_arena scratch = tfm_arena_make(memory, sizeof memory);
    tfm_error err;
    if (tfm_model_tokenize(model, tfm_text_make(text, strlen(text)), TFM_TEXT_FORM_TEXT,
                           to->ids + (int64_t)i * WIDTH, WIDTH, &to->lengths[i], &scratch,
                           &err) != TFM_OK)
        return fail(text, err.text);
    return 1;
}

/* Reads the lines, translates them into the drafts "edited", and makes the edited lines src. */
static int make_edits(tfm_session *s, char *lines) {
    static char edited[3 * MOST_LINE];
    size_t at = 0, from = 0, n, n_from;
    int32_t i;
    for (i = 0; i < n_rows; i++)
        if (!tokenize(&src, i, lines + (int64_t)i * MOST_LINE)) return 0;
    if (!translate_into(s, &drafts[EDIT])) return 0;
    for (i = 0; i < n_rows; i++) {
        const char *line = lines + (int64_t)i * MOST_LINE, *other;
        int32_t j =
            (int32_t)(((uint64_t)i + 1 + mix(opt.seed + (uint64_t)i) % ((uint64_t)n_rows - 1)) %
                      (uint64_t)n_rows);
        n = find_word(line, &at);
        do { /* another word */
            other = lines + (int64_t)j * MOST_LINE, n_from = find_word(other, &from);
            j = (j + 1) % n_rows;
        } while (n == n_from && !memcmp(line + at, other + from, n) && other != line);
        snprintf(edited, sizeof edited, "%.*s%.*s%s", (int)at, line, (int)n_from, other + from,
                 line + at + n);
        if (!tokenize(&src, i, edited)) return 0;
    }
    return translate_into(s, &drafts[SAME]);
}

/* Reads opt.rows lines that have a word to replace. Sets n_rows. */
static char *read_lines(void) {
    char *lines = (char *)malloc((size_t)opt.rows * MOST_LINE), *line = lines;
    size_t at;
    while (lines && n_rows < opt.rows && fgets(line, MOST_LINE, stdin)) {
        line[strcspn(line, "\r\n")] = '\0';
        if (line[0] && find_word(line, &at)) n_rows++, line += MOST_LINE;
    }
    return lines;
}

/* ---- measuring ---- */

static int measure(tfm_session *s, int32_t batch) {
    static double scores[MOST_BATCH];
    double sums[KINDS] = {0, 0, 0, 0}, seconds[KINDS], least[KINDS];
    int64_t steps[KINDS] = {0, 0, 0, 0}, counted;
    int32_t round, first, b, n = n_rows / batch;
    int k;
    for (first = 0; first < n * batch; first += batch) {
        for (round = 0; round < opt.rounds; round++)
            for (k = 0; k < KINDS; k++) {
                seconds[k] = 0, counted = 0;
                if (!decode(s, first, batch, (kind)k, &seconds[k], &counted)) return 0;
                if (!round || seconds[k] < least[k]) least[k] = seconds[k];
                if (!round) steps[k] += counted;
                for (b = 0; b < batch; b++) {
                    tfm_result r;
                    const int32_t *right = drafts[SAME].ids + (int64_t)(first + b) * WIDTH;
                    if (tfm_result_get(s, b, 0, &r, NULL) != TFM_OK ||
                        r.length != drafts[SAME].lengths[first + b] ||
                        memcmp(r.ids, right, (size_t)r.length * sizeof *right) != 0 ||
                        (k && memcmp(&r.score, &scores[b], sizeof r.score) != 0))
                        return fail(kind_names[k], "the result differs");
                    scores[b] = r.score;
                }
            }
        for (k = 0; k < KINDS; k++) sums[k] += least[k];
    }
    printf("%5d %10.3f (%5.2f)", (int)batch, 1e3 * sums[NONE] / (n * batch),
           (double)steps[NONE] / n);
    for (k = EDIT; k < KINDS; k++)
        printf(" %9.3f (%5.2f)", sums[NONE] / sums[k], (double)steps[k] / n);
    printf("\n");
    fflush(stdout);
    return 1;
}

static int run(void) {
    static const int32_t batches[] = {1, 2, 4};
    tfm_session_options limits;
    tfm_model_options how;
    tfm_session *s = NULL;
    tfm_error err;
    char *lines = NULL;
    void *bytes = NULL;
    size_t size = 0;
    int ok = 1, k, i;
    memset(&how, 0, sizeof how);
    memset(&limits, 0, sizeof limits);
    for (i = 0; opt.type && strcmp(types[i], opt.type) != 0;)
        if (++i == 5) misuse("--weights takes f32, f16, bf16 or int8");
    how.weights = (tfm_weight_type)(opt.type ? i : opt.model ? 0 : (int)TFM_WEIGHT_TYPE_F32);
    limits.max_batch = MOST_BATCH, limits.max_source = WIDTH, limits.max_target = WIDTH;
    limits.max_draft = opt.max_draft;
    if (opt.model) lines = read_lines();
    else n_rows = opt.rows;
    if (n_rows < 2) return fail("standard input", "fewer than two lines with a word to replace");
    ok = rows_make(&src);
    for (k = EDIT; k < KINDS; k++) ok = ok && rows_make(&drafts[k]);
    if (!ok) return 0;
    if (!opt.model && !make_model(NULL, VOCABULARY, opt.seed, TFM_DTYPE_F32, &bytes, &size))
        return 0;
    if ((opt.model ? tfm_model_load_file(&model, opt.model, &how, &err)
                   : tfm_model_load(&model, bytes, size, &how, &err)) != TFM_OK ||
        tfm_session_create(&s, model, &limits, &err) != TFM_OK)
        return fail("the model", err.text);
    ok = opt.model ? make_edits(s, lines) : make_random(s);
    for (i = 0; ok && i < n_rows; i++) { /* the draft of another line */
        int32_t other = (i + n_rows / 2) % n_rows;
        memcpy(drafts[USELESS].ids + (int64_t)i * WIDTH, drafts[SAME].ids + (int64_t)other * WIDTH,
               WIDTH * sizeof *src.ids);
        drafts[USELESS].lengths[i] = drafts[SAME].lengths[other];
    }
    if (ok)
        printf("%s, %s, %d sentences\nbatch  ms a sentence %18s %17s %17s\n", tfm_cpu_string(),
               opt.model ? opt.model : "random", (int)n_rows, kind_names[EDIT], kind_names[USELESS],
               kind_names[SAME]);
    for (i = 0; ok && i < 3; i++)
        if (!opt.batch) ok = measure(s, batches[i]);
    if (ok && opt.batch) ok = measure(s, opt.batch);
    tfm_session_free(s);
    tfm_model_free(model);
    free(bytes);
    free(lines);
    free(src.ids);
    for (k = EDIT; k < KINDS; k++) free(drafts[k].ids);
    return ok;
}

int main(int argc, char **argv) {
    argv = utf8_arguments(&argc, argv);
    if (options_read(table, N_OPTIONS, argc, argv, misuse)) {
        options_print(table, N_OPTIONS, stdout);
        return !output_finish("bench_drafts");
    }
    return !(run() && output_finish("bench_drafts"));
}
