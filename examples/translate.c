/* translate: a sentence a line in, a translation a line out.

       translate MODEL [options] < in > out

   cc -O2 -I. examples/translate.c -o translate -lm

   Lines are read a window at a time, sorted by length inside it so that a batch holds little
   padding, and written in their own order: line n of the output is always line n of the input,
   empty where the input is blank or faulty. */
#define TRANSFORMER_IMPLEMENTATION
#include "transformer.h"
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <time.h>
#ifdef _WIN32
#include <io.h>
#define isatty _isatty
#else
#include <unistd.h>
#endif

static const char usage[] =
    "usage: translate MODEL [options] < in > out\n"
    "\n"
    "Translates standard input, a sentence a line, to standard output, a line each.\n"
    "\n"
    "  --tokens          lines are space-separated tokens of the vocabularies, in and out\n"
    "  --from CODE, --to CODE   languages, for models of several (eng_Latn, fra ...)\n"
    "  --batch N         sentences translated together (default 16; 1 on a terminal, where each\n"
    "                    line is answered at once)\n"
    "  --max-length N    at most N target tokens a sentence (default 2 x source + 16)\n"
    "  --max-source N    a line of more than N source tokens is an error (default 4096)\n"
    "  --scores          put the sum of log-probabilities and a tab before each translation\n"
    "  --help, --version\n"
    "\n"
    "Exit status: 0 all lines translated; 1 some line could not be (its output is empty, standard\n"
    "error says why); 2 wrong usage, no model, or input or output failed.\n";

enum { EXIT_LINES = 1, EXIT_USAGE = 2, WINDOW_BATCHES = 16, FULL_BATCH_SOURCE = 512 };

typedef struct options {
    const char *model;
    tfm_text_form form;
    int32_t batch, max_length, max_source;
    int scores;
    const char *from, *to;
} options;

/* One line of input and what became of it. */
typedef struct line {
    char *text;
    size_t size, room;
    int32_t *ids;
    int32_t n_ids;
    size_t ids_room;
    char *out;
    double score;
    int faulty; /* reported already */
} line;

typedef struct translator {
    options opt;
    tfm_model *model;
    tfm_session *session;
    int32_t max_batch, max_source; /* of the session; 0: no session yet */
    int32_t language;              /* token before each source; -1: none */
    void *scratch;                 /* of the tokenizer */
    size_t scratch_room;
    int64_t n_lines; /* done in earlier windows */
    int any_faulty;
} translator;

static void *grow(void *memory, size_t bytes) {
    void *grown = realloc(memory, bytes ? bytes : 1);
    if (!grown) {
        fprintf(stderr, "translate: no memory for %lu bytes\n", (unsigned long)bytes);
        exit(EXIT_USAGE);
    }
    return grown;
}

/* Reads one line without its newline; 0 at the end of the input. A last line without newline
   counts. */
static int read_line(line *l) {
    int c;
    l->size = 0;
    while ((c = getchar()) != EOF && c != '\n') {
        if (l->size + 1 >= l->room) l->text = (char *)grow(l->text, l->room = 2 * l->room + 128);
        l->text[l->size++] = (char)c;
    }
    return c != EOF || l->size > 0;
}

static void report(translator *t, line *lines, int64_t i, const char *cause) {
    fprintf(stderr, "translate: line %ld: %s\n", (long)(t->n_lines + i + 1), cause);
    lines[i].faulty = t->any_faulty = 1;
}

static int32_t parse_count(const char *option, const char *text) {
    char *end = NULL;
    long value = text ? strtol(text, &end, 10) : 0;
    if (!text || end == text || *end || value < 1 || value > 1000000) {
        fprintf(stderr, "translate: %s takes a number from 1 to 1000000, not '%s'\n", option,
                text ? text : "");
        exit(EXIT_USAGE);
    }
    return (int32_t)value;
}

static options parse_options(int argc, char **argv) {
    options o;
    int i;
    memset(&o, 0, sizeof o);
    for (i = 1; i < argc; i++) {
        const char *a = argv[i], *value = i + 1 < argc ? argv[i + 1] : NULL;
        if (strcmp(a, "--help") == 0) fputs(usage, stdout), exit(0);
        if (strcmp(a, "--version") == 0) printf("translate %s\n", tfm_version()), exit(0);
        if (strcmp(a, "--tokens") == 0) o.form = TFM_FORM_TOKENS;
        else if (strcmp(a, "--scores") == 0) o.scores = 1;
        else if (strcmp(a, "--from") == 0 && value) o.from = value, i++;
        else if (strcmp(a, "--to") == 0 && value) o.to = value, i++;
        else if (strcmp(a, "--batch") == 0) o.batch = parse_count(a, value), i++;
        else if (strcmp(a, "--max-length") == 0) o.max_length = parse_count(a, value), i++;
        else if (strcmp(a, "--max-source") == 0) o.max_source = parse_count(a, value), i++;
        else if (a[0] == '-' && a[1]) {
            fprintf(stderr, "translate: unknown option '%s' (--help lists them)\n", a);
            exit(EXIT_USAGE);
        } else if (o.model) {
            fprintf(stderr, "translate: one model, not '%s' and '%s'\n", o.model, a);
            exit(EXIT_USAGE);
        } else o.model = a;
    }
    if (!o.model) fputs(usage, stderr), exit(EXIT_USAGE);
    if (!o.batch) o.batch = isatty(0) ? 1 : 16;
    if (!o.max_source) o.max_source = 4096;
    return o;
}

/* Puts the language's token before the others, but behind src_start; a line that begins with
   ">>code<<" has it already. 0: the model needs a token, and there is none. */
static int put_language(const translator *t, line *l) {
    const tfm_config *c = tfm_model_config(t->model);
    int32_t at = c->src_start >= 0, i;
    if (c->src_language == TFM_LANGUAGE_NONE || !l->n_ids) return 1;
    for (i = 0; i < c->n_languages && c->src_language == TFM_LANGUAGE_TARGET; i++)
        if (l->ids[at] == c->languages[i].id) return 1;
    if (t->language < 0) return 0;
    memmove(l->ids + at + 1, l->ids + at, (size_t)(l->n_ids - at) * sizeof *l->ids);
    l->ids[at] = t->language;
    l->n_ids++;
    return 1;
}

/* Tokenizes a line, and reports it if it cannot be translated. */
static void tokenize(translator *t, line *lines, int64_t i) {
    line *l = &lines[i];
    const tfm_config *c = tfm_model_config(t->model);
    tfm_arena scratch = tfm_arena_measuring();
    size_t most;
    tfm_error err;
    char cause[128];
    l->n_ids = 0, l->score = 0, l->faulty = 0;
    if (l->out) l->out[0] = 0;
    if (tfm_tokenize(t->model, l->text, l->size, t->opt.form, NULL, 0, &l->n_ids, &scratch, &err) !=
        TFM_OK) {
        report(t, lines, i, err.text);
        return;
    }
    /* a token is a byte at least, of the text or of what the scratch holds, which is 17 bytes and
       more for each; start and end come on top */
    most = l->size + scratch.peak / 17 + 3;
    if (most > INT32_MAX) {
        report(t, lines, i, "longer than 2 GiB");
        return;
    }
    if (scratch.peak > t->scratch_room) {
        t->scratch_room = 2 * scratch.peak;
        t->scratch = grow(t->scratch, t->scratch_room);
    }
    scratch = tfm_arena_make(t->scratch, t->scratch_room);
    if (most > l->ids_room)
        l->ids = (int32_t *)grow(l->ids, (l->ids_room = 2 * most) * sizeof *l->ids);
    if (tfm_tokenize(t->model, l->text, l->size, t->opt.form, l->ids, (int32_t)most, &l->n_ids,
                     &scratch, &err) != TFM_OK) {
        report(t, lines, i, err.text);
        return;
    }
    if (t->opt.form == TFM_FORM_TEXT && !put_language(t, l)) {
        report(t, lines, i, "no language (--from, --to)");
    } else if (l->n_ids > t->opt.max_source) {
        snprintf(cause, sizeof cause, "%d tokens, the limit is %d (--max-source)", (int)l->n_ids,
                 (int)t->opt.max_source);
        report(t, lines, i, cause);
    } else if (c->max_positions && l->n_ids > c->max_positions) {
        snprintf(cause, sizeof cause, "%d tokens, the model has positions for %d", (int)l->n_ids,
                 (int)c->max_positions);
        report(t, lines, i, cause);
    }
}

/* Sources are rounded up so that a session serves many batches. */
static int32_t round_source(int32_t source) {
    int32_t rounded = 64;
    while (rounded < source) rounded *= 2;
    return rounded;
}

/* How many sentences of that length go together: all of a batch, or fewer where they are so long that
   their caches would be what memory goes to. */
static int32_t rows_at(const translator *t, int32_t source) {
    int64_t rows = (int64_t)t->opt.batch * FULL_BATCH_SOURCE / round_source(source);
    return (int32_t)(rows < 1 ? 1 : rows > t->opt.batch ? t->opt.batch : rows);
}

/* Makes sure that the session takes so many sources of that length. */
static int fit_session(translator *t, int32_t rows, int32_t source, tfm_error *err) {
    const tfm_config *c = tfm_model_config(t->model);
    tfm_session_options o;
    if (source <= t->max_source && rows <= t->max_batch) return 1;
    tfm_free_session(t->session);
    t->session = NULL, t->max_source = t->max_batch = 0;
    memset(&o, 0, sizeof o);
    o.max_batch = rows_at(t, source);
    o.max_source = round_source(source);
    o.max_target = t->opt.max_length ? t->opt.max_length : 2 * o.max_source + 16;
    if (c->max_positions && o.max_source > c->max_positions) o.max_source = c->max_positions;
    if (c->max_positions && o.max_target > c->max_positions) o.max_target = c->max_positions;
    if (tfm_session_create(&t->session, t->model, &o, err) != TFM_OK) return 0;
    if ((t->opt.from || t->opt.to) &&
        tfm_set_languages(t->session, t->opt.from, t->opt.to, err) != TFM_OK)
        return 0;
    t->max_source = o.max_source, t->max_batch = o.max_batch;
    return 1;
}

/* The text of row's result, into its line. */
static void finish_line(translator *t, line *lines, int64_t i, int32_t row) {
    line *l = &lines[i];
    size_t room = 256, size;
    tfm_result result;
    tfm_error err;
    tfm_status status;
    memset(&result, 0, sizeof result);
    status = tfm_get_result(t->session, row, &result, &err);
    while (status == TFM_OK) {
        l->out = (char *)grow(l->out, room);
        status = tfm_detokenize(t->model, result.ids, result.length, t->opt.form, l->out, room,
                                &size, &err);
        if (status == TFM_OK) break;
        if (status == TFM_E_TOO_SMALL) room *= 2, status = TFM_OK;
    }
    l->score = result.score;
    if (status != TFM_OK) report(t, lines, i, err.text);
    else if (result.finish == TFM_HIT_LENGTH)
        fprintf(stderr, "translate: line %ld: stopped at its limit of %d tokens\n",
                (long)(t->n_lines + i + 1), (int)result.length);
}

/* The languages that were asked for are the model's. */
static tfm_status find_languages(translator *t, tfm_error *err) {
    const tfm_config *c = tfm_model_config(t->model);
    const char *first = c->src_language == TFM_LANGUAGE_SOURCE ? t->opt.from : t->opt.to;
    tfm_status status = TFM_OK;
    int32_t id;
    t->language = -1;
    if (t->opt.from) status = tfm_find_language(t->model, t->opt.from, &id, err);
    if (status == TFM_OK && t->opt.to) status = tfm_find_language(t->model, t->opt.to, &id, err);
    if (status == TFM_OK && c->src_language && first)
        status = tfm_find_language(t->model, first, &t->language, err);
    return status;
}

/* Translates the lines of order[0 .. n) together. */
static void translate_batch(translator *t, line *lines, const int64_t *order, int32_t n) {
    static int32_t *ids;
    static size_t ids_room;
    int32_t *lengths, width = 0, row, running = 1;
    tfm_batch batch;
    tfm_decode_options decode;
    tfm_error err;
    tfm_status status;
    size_t cells;
    for (row = 0; row < n; row++)
        if (lines[order[row]].n_ids > width) width = lines[order[row]].n_ids;
    cells = (size_t)n * (size_t)width;
    if (cells + (size_t)n > ids_room)
        ids = (int32_t *)grow(ids, (ids_room = 2 * (cells + (size_t)n)) * sizeof *ids);
    lengths = ids + cells;
    for (row = 0; row < n; row++) {
        const line *l = &lines[order[row]];
        memcpy(ids + (size_t)row * (size_t)width, l->ids, (size_t)l->n_ids * sizeof *ids);
        lengths[row] = l->n_ids;
    }
    memset(&decode, 0, sizeof decode);
    decode.max_length = t->opt.max_length;
    batch.ids = ids, batch.lengths = lengths, batch.rows = n, batch.width = width;
    status = fit_session(t, n, width, &err) ? tfm_start(t->session, &batch, &decode, &err)
                                            : TFM_E_MEMORY;
    while (status == TFM_OK && running) status = tfm_step(t->session, &running, &err);
    for (row = 0; row < n; row++) {
        if (status == TFM_OK) finish_line(t, lines, order[row], row);
        else report(t, lines, order[row], err.text);
    }
}

static const line *sort_lines; /* qsort passes no context */
static int by_length(const void *a, const void *b) {
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    int32_t p = sort_lines[x].n_ids, q = sort_lines[y].n_ids;
    return p != q ? (p < q ? -1 : 1) : x < y ? -1 : x > y;
}

static void translate_window(translator *t, line *lines, int64_t n, int64_t *order) {
    int64_t i, todo = 0, end;
    for (i = 0; i < n; i++) {
        tokenize(t, lines, i);
        if (!lines[i].faulty && lines[i].n_ids) order[todo++] = i;
    }
    sort_lines = lines;
    qsort(order, (size_t)todo, sizeof *order, by_length);
    for (i = 0; i < todo; i = end) {
        /* the longest comes last, and decides how many fit */
        for (end = i + 1; end < todo && end - i < rows_at(t, lines[order[end]].n_ids);) end++;
        translate_batch(t, lines, order + i, (int32_t)(end - i));
    }
}

/* A line on the terminal once the work takes longer than people like to wait unsure. */
static void show_progress(const translator *t, time_t start, int done) {
    static int shown;
    double seconds = difftime(time(NULL), start);
    if (!isatty(2) || (isatty(1) && !done)) return;
    if (!done && seconds >= 3)
        shown = fprintf(stderr, "\r%ld lines, %.1f a second ", (long)t->n_lines,
                        (double)t->n_lines / seconds);
    if (done && shown) fprintf(stderr, "\r%ld lines in %.0f seconds\n", (long)t->n_lines, seconds);
}

int main(int argc, char **argv) {
    translator t;
    tfm_error err;
    line *lines;
    int64_t window, n, i, *order;
    time_t start = time(NULL);
    int more = 1, status;
    memset(&t, 0, sizeof t);
    t.opt = parse_options(argc, argv);
    if (tfm_model_load_file(&t.model, t.opt.model, NULL, &err) != TFM_OK) {
        fprintf(stderr, "translate: %s: %s\n", t.opt.model, err.text);
        return EXIT_USAGE;
    }
    if (find_languages(&t, &err) != TFM_OK) {
        fprintf(stderr, "translate: %s\n", err.text);
        return EXIT_USAGE;
    }
    window = t.opt.batch == 1 ? 1 : (int64_t)t.opt.batch * WINDOW_BATCHES;
    lines = (line *)grow(NULL, (size_t)window * sizeof *lines);
    order = (int64_t *)grow(NULL, (size_t)window * sizeof *order);
    memset(lines, 0, (size_t)window * sizeof *lines);
    while (more) {
        for (n = 0; n < window && (more = read_line(&lines[n])) != 0;) n++;
        translate_window(&t, lines, n, order);
        for (i = 0; i < n; i++) {
            if (t.opt.scores) printf("%.4f\t", lines[i].score);
            puts(lines[i].out && !lines[i].faulty ? lines[i].out : "");
        }
        t.n_lines += n;
        if ((window == 1 || isatty(1)) && fflush(stdout) != 0) break;
        show_progress(&t, start, !more);
    }
    status = t.any_faulty ? EXIT_LINES : 0;
    if (ferror(stdin) || fflush(stdout) != 0 || ferror(stdout)) {
        fprintf(stderr, "translate: %s: %s\n", ferror(stdin) ? "reading" : "writing",
                strerror(errno));
        status = EXIT_USAGE;
    }
    for (i = 0; i < window; i++) free(lines[i].text), free(lines[i].ids), free(lines[i].out);
    free(lines), free(order), free(t.scratch);
    tfm_free_session(t.session);
    tfm_free_model(t.model);
    return status;
}
