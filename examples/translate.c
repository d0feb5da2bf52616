/* translate: a sentence a line in, a translation a line out.

       translate MODEL [options] < in > out

   cc -O2 -I. examples/translate.c -o translate -lm

   Lines are read a window at a time, sorted by length inside it so that a batch holds little
   padding, and written in their own order: line n of the output is always line n of the input,
   empty where the input is blank or faulty. No option's result depends on --batch. */
#if !defined(_WIN32) && !defined(_POSIX_C_SOURCE)
#define _POSIX_C_SOURCE 200809L /* sigaction */
#endif
#define TRANSFORMER_IMPLEMENTATION
#include "transformer.h"
#include "attention.h"
#include "interrupts.h"
#include "options.h"
#include "sentences.h"
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#ifdef _WIN32
#include <io.h>
#define isatty _isatty
#define is_open(file) ((file) >= 0)
#else
#include <fcntl.h>
#include <unistd.h>
#define is_open(file) (fcntl(file, F_GETFD) != -1) /* if not, the next file would get its number */
#endif

enum { EXIT_LINES = 1, EXIT_USAGE = 2, WINDOW_BATCHES = 16, FULL_BATCH_SOURCE = 512 };
enum { MOST_TOKENS = 1000000 }; /* of a target, whatever the options say */
enum { TEXT_SCRATCH = 3136 };   /* bytes to tokenize a target, for each of --max-source */
enum { MOST_DRAWN = 400 };      /* tokens each way in a picture */

/* A line has two sides: its source, and what --prefix or --score has beside it. */
enum { SOURCE, TARGET, SIDES };

typedef struct buffer {
    char *data;
    size_t size, room;
} buffer;

/* One line of input, or one sentence of a line, and what became of it. */
typedef struct line {
    int64_t number;      /* from 1 */
    int32_t sentence;    /* from 1 in each line; 0 without --document */
    buffer text[SIDES];  /* as they were read */
    int32_t *ids[SIDES]; /* their tokens */
    int32_t n[SIDES];
    buffer out;            /* without the last newline */
    int cut, faulty, done; /* too long for memory; reported; out is what is to be written */
} line;

/* All that was given on the command line; 0: not given. */
static struct {
    const char *model, *from, *to, *prefix, *score, *attention;
    int document, tokens, scores, align, per_token, sample;
    int32_t batch, threads, max_length, max_source, beam, n_best;
    tfm_decode_options decode;
    /* what follows from it */
    const char *beside; /* the file of --prefix or --score */
    tfm_text_form form;
} opt;

static struct {
    tfm_model *model;
    const tfm_config *config;
    tfm_session *reader, *session;          /* one tokenizes, one translates */
    int32_t reader_source, most_source;     /* tokens that the reader takes; that it may take */
    int32_t rows, length[SIDES], attention; /* what the session takes; whether it keeps attention */
    int keep_attention;                     /* whether the next batch needs it */
    int32_t *ids;                           /* [most_source]: a line's, before they are copied */
    buffer scratch;                         /* to tokenize targets */
    line *lines;                            /* of the window at hand */
    int64_t n, room;
    FILE *beside, *picture; /* picture NULL: drawn, or not wanted */
    tfm_error err;          /* of the last call that failed */
    int any_faulty;
} t;

/* ---- messages and memory -------------------------------------------------------------------- */

#ifdef TFM__ANALYZED /* analyzers do not look into such a function (make analyze) */
__attribute__((noreturn))
#endif
static void fail(const char *format, ...) {
    va_list arguments;
    fputs("translate: ", stderr);
    va_start(arguments, format), vfprintf(stderr, format, arguments), va_end(arguments);
    fputs("\n", stderr);
    exit(EXIT_USAGE);
}

/* What is to be said of a line; fault: it cannot be translated. */
static void report(line *l, int fault, const char *format, ...) {
    va_list arguments;
    fprintf(stderr, "translate: line %ld", (long)l->number);
    if (l->sentence) fprintf(stderr, ", sentence %d", (int)l->sentence);
    fputs(": ", stderr);
    va_start(arguments, format), vfprintf(stderr, format, arguments), va_end(arguments);
    fputs("\n", stderr);
    if (fault) l->faulty = l->done = t.any_faulty = 1;
}

/* A fault of the program's own, in the manner of the library. */
static tfm_status no_memory(const char *format, size_t size) {
    snprintf(t.err.text, sizeof t.err.text, format, (unsigned long)size);
    return TFM_E_MEMORY;
}

/* Room for more bytes and a terminator: 0 where there is no memory for them. */
static int reserve(buffer *b, size_t more) {
    size_t room = b->size + more + 1 > b->room ? 2 * b->room + more + 128 : b->room;
    char *grown = room > b->room ? (char *)realloc(b->data, room) : b->data;
    if (grown) b->data = grown, b->room = room;
    return grown != NULL;
}

static void append(buffer *b, const char *text, size_t size) {
    if (!reserve(b, size)) fail("no memory for %lu bytes", (unsigned long)size);
    if (size) memcpy(b->data + b->size, text, size);
    b->data[b->size += size] = 0;
}

static void append_format(buffer *b, const char *format, ...) {
    char text[400]; /* a double of any size with four decimals */
    va_list arguments;
    va_start(arguments, format);
    append(b, text, (size_t)vsnprintf(text, sizeof text, format, arguments));
    va_end(arguments);
}

/* A file of the user's, or the end of the program. */
static FILE *open_file(const char *path, const char *mode) {
    FILE *file = fopen(path, mode);
    if (!file) fail("%s: %s", path, strerror(errno));
    return file;
}

/* ---- options -------------------------------------------------------------------------------- */

/* Options that contradict another, or do nothing without it. */
enum { NOT_DOCUMENT = 2, NOT_SAMPLE = 4, NOT_SCORE = 8, OF_SAMPLE = 16, OF_SCORE = 32 };

static option table[] = {
    {"usage: translate MODEL [options] < in > out\n\n"
     "Translates standard input, a sentence a line, to standard output, a line each: where a\n"
     "translation has a line break of its own (or a tab, where tabs separate fields), the output\n"
     "has a space.",
     NULL, OPTION_TEXT, NULL, 0, 0, 0, NULL},
    {"model", NULL, OPTION_OPERAND, &opt.model, 0, 0, 0, NULL},
    {"\ninput", NULL, OPTION_TEXT, NULL, 0, 0, 0, NULL},
    {"--document", NULL, OPTION_FLAG, &opt.document, 0, 0, 0,
     "lines are paragraphs: each is split into sentences, by rules for\n"
     "many languages; they are translated one by one and joined again"},
    {"--tokens", NULL, OPTION_FLAG, &opt.tokens, 0, 0, NOT_DOCUMENT,
     "lines are tokens of the vocabularies between spaces, in and out; in\n"
     "a token \\s \\t \\n \\v \\f \\r \\u0085 ... are whitespace, \\\\ a backslash"},
    {"--from", "CODE", OPTION_PATH, &opt.from, 0, 0, 0,
     "language of the source, for models of several (eng_Latn, fra ...)"},
    {"--to", "CODE", OPTION_PATH, &opt.to, 0, 0, 0, "language of the translation"},
    {"--batch", "N", OPTION_INTEGER, &opt.batch, 1, 1000000, 0,
     "sentences translated together (default 16; 1 on a terminal, where\n"
     "each line is answered at once)"},
    {"--threads", "N", OPTION_INTEGER, &opt.threads, 1, 64, 0,
     "that share the work (default 1); outputs are the same for any number"},
    {"--max-source", "N", OPTION_INTEGER, &opt.max_source, 1, 1000000, 0,
     "a line of more than N source tokens is an error (default 4096), and\n"
     "so is one of more than 64 N bytes to tokenize"},
    {"\nsearch", NULL, OPTION_TEXT, NULL, 0, 0, 0, NULL},
    {"--beam", "N", OPTION_INTEGER, &opt.beam, 1, 1000, NOT_SCORE | NOT_SAMPLE,
     "hypotheses followed at each step (default 1: greedy, or --n-best)"},
    {"--length-penalty", "X", OPTION_NUMBER, &opt.decode.length_penalty, -100, 100, NOT_SCORE,
     "order hypotheses by sum / length^X (default 0)"},
    {"--max-length", "N", OPTION_INTEGER, &opt.max_length, 1, 1000000, NOT_SCORE,
     "at most N target tokens a sentence (default 2 x source + 16)"},
    {"--min-length", "N", OPTION_INTEGER, &opt.decode.min_length, 0, 1000000, NOT_SCORE,
     "at least N, but within --max-length"},
    {"--no-repeat-ngram", "N", OPTION_INTEGER, &opt.decode.no_repeat_ngram, 0, 1000000, NOT_SCORE,
     "no N tokens in a row twice"},
    {"--repetition-penalty", "X", OPTION_NUMBER, &opt.decode.repetition_penalty, 0.01, 100,
     NOT_SCORE, "above 1: tokens that came before get less likely"},
    {"--prefix", "FILE", OPTION_PATH, &opt.prefix, 0, 0, NOT_SCORE | NOT_DOCUMENT,
     "line n of FILE is what translation n begins with; blank: anything"},
    {"\nsampling", NULL, OPTION_TEXT, NULL, 0, 0, 0, NULL},
    {"--sample", NULL, OPTION_FLAG, &opt.sample, 0, 0, NOT_SCORE,
     "draw tokens instead of searching: --n-best N independent samples"},
    {"--temperature", "X", OPTION_NUMBER, &opt.decode.temperature, 0.01, 100, OF_SAMPLE,
     "above 1: more variety; below: less (default 1)"},
    {"--top-k", "N", OPTION_INTEGER, &opt.decode.top_k, 1, 1000000, OF_SAMPLE,
     "only the N most probable tokens"},
    {"--top-p", "X", OPTION_NUMBER, &opt.decode.top_p, 0.0001, 1, OF_SAMPLE,
     "only the most probable ones, of X together"},
    {"--seed", "N", OPTION_SEED, &opt.decode.seed, 0, 0, OF_SAMPLE,
     "line n is drawn with seed N + n (default 0)"},
    {"\nscoring", NULL, OPTION_TEXT, NULL, 0, 0, 0, NULL},
    {"--score", "FILE", OPTION_PATH, &opt.score, 0, 0, NOT_DOCUMENT,
     "do not translate: line n of FILE is the translation of line n, and\n"
     "the output its sum of log-probabilities"},
    {"--per-token", NULL, OPTION_FLAG, &opt.per_token, 0, 0, OF_SCORE,
     "with --score: then a tab and each token's, the end token's last"},
    {"\noutput", NULL, OPTION_TEXT, NULL, 0, 0, 0, NULL},
    {"--scores", NULL, OPTION_FLAG, &opt.scores, 0, 0, NOT_SCORE | NOT_DOCUMENT,
     "before each translation its score and a tab: the sum of\n"
     "log-probabilities, over length^X if there is a length penalty"},
    {"--n-best", "N", OPTION_INTEGER, &opt.n_best, 1, 1000, NOT_SCORE | NOT_DOCUMENT,
     "the N best, a line each: number of the input line, tab, text"},
    {"--align", NULL, OPTION_FLAG, &opt.align, 0, 0, NOT_SCORE | NOT_DOCUMENT,
     "after each translation a tab and pairs source-target of token\n"
     "positions from 0: what each target token attends to most"},
    {"--attention", "FILE", OPTION_PATH, &opt.attention, 0, 0, NOT_SCORE,
     "draw the attention of the first sentence that is not blank: SVG,\n"
     "last layer, mean over heads"},
    {"--help", NULL, OPTION_STOP, NULL, 0, 0, 0, "this text"},
    {"--version", NULL, OPTION_STOP, NULL, 0, 0, 0, "the number of this version"},
    {"\nExit status: 0 all lines translated; 1 some line could not be (its output is empty,\n"
     "standard error says why); 2 wrong usage, no model, or input or output failed. An interrupt\n"
     "(Ctrl-C) ends it after the last line that is ready.",
     NULL, OPTION_TEXT, NULL, 0, 0, 0, NULL}};
enum { N_OPTIONS = sizeof table / sizeof *table };

static void check_together(void) {
    size_t i;
    for (i = 0; i < N_OPTIONS; i++)
        if (table[i].marks & OPTION_GIVEN && table[i].marks & NOT_DOCUMENT && opt.document)
            fail("%s and --document do not go together", table[i].name);
    for (i = 0; i < N_OPTIONS; i++) {
        const char *name = table[i].name;
        unsigned marks = table[i].marks & OPTION_GIVEN ? table[i].marks : 0;
        if (marks & OF_SAMPLE && !opt.sample) fail("%s needs --sample", name);
        if (marks & OF_SCORE && !opt.score) fail("%s needs --score", name);
        if (marks & NOT_SCORE && opt.score) fail("%s and --score do not go together", name);
        if (marks & NOT_SAMPLE && opt.sample) fail("%s and --sample do not go together", name);
    }
    if (opt.beam && opt.n_best > opt.beam)
        fail("--n-best %d needs a --beam of %d at least, not %d", (int)opt.n_best, (int)opt.n_best,
             (int)opt.beam);
    if (opt.max_length && opt.decode.min_length >= opt.max_length)
        fail("--min-length %d leaves no room for an end in --max-length %d",
             (int)opt.decode.min_length, (int)opt.max_length);
}

static void read_options(int argc, char **argv) {
    const option *stop = options_read(table, N_OPTIONS, argc, argv, fail);
    if (stop) {
        if (strcmp(stop->name, "--help") == 0) options_print(table, N_OPTIONS, stdout);
        else printf("translate %s\n", tfm_version());
        exit(0);
    }
    if (!opt.model) options_print(table, N_OPTIONS, stderr), exit(EXIT_USAGE);
    check_together();
    opt.form = opt.tokens ? TFM_FORM_ESCAPED : TFM_FORM_TEXT;
    opt.beside = opt.prefix ? opt.prefix : opt.score;
    if (!opt.batch) opt.batch = isatty(0) ? 1 : 16;
    if (!opt.max_source) opt.max_source = 4096;
    if (!opt.n_best) opt.n_best = 1;
    if (!opt.beam) opt.beam = opt.n_best;
    opt.decode.max_length = opt.max_length;
    if (opt.sample) opt.decode.samples = opt.n_best;
    else opt.decode.beam = opt.beam, opt.decode.n_best = opt.n_best;
}

/* ---- reading: lines, sentences, tokens ------------------------------------------------------ */

/* Reads one line without its newline; 0 at the end of the input. A last line without newline
   counts. A line that memory cannot hold is read to its end and is *cut. */
static int read_line(FILE *in, buffer *b, int *cut) {
    int c, fits = 1;
    b->size = 0;
    while ((c = getc(in)) != EOF && c != '\n') {
        fits = fits && b->size < INT32_MAX && reserve(b, 1);
        if (fits) b->data[b->size++] = (char)c;
    }
    *cut |= !fits;
    return c != EOF || b->size > 0;
}

/* The next line of the window, with the memory of an earlier one. */
static line *add_line(int64_t number, int32_t sentence) {
    line *l;
    int side;
    if (t.n == t.room) {
        size_t room = 2 * (size_t)t.room + 16;
        l = (line *)realloc(t.lines, room * sizeof *l);
        if (!l) fail("no memory for %lu lines", (unsigned long)room);
        memset(l + t.room, 0, (room - (size_t)t.room) * sizeof *l);
        t.lines = l, t.room = (int64_t)room;
    }
    l = &t.lines[t.n++];
    l->number = number, l->sentence = sentence;
    for (side = 0; side < SIDES; side++) l->n[side] = 0, l->text[side].size = 0;
    l->out.size = 0, l->cut = l->faulty = l->done = 0;
    return l;
}

/* Reads a line of the input and the one beside it into the window, or a paragraph's sentences; 0 at
   the end, or where a file has fewer lines than the input, or more: *status says so. */
static int read_lines(int64_t number, int *status) {
    static buffer text[SIDES];
    const char *sentence;
    size_t at = 0, length;
    int32_t n = 0;
    int side, cut = 0, more = read_line(stdin, &text[SOURCE], &cut);
    if (!more && ferror(stdin)) return 0;
    if (t.beside && read_line(t.beside, &text[TARGET], &cut) != more) {
        fprintf(stderr, "translate: %s has %s lines than the input\n", opt.beside,
                more ? "fewer" : "more");
        *status = EXIT_USAGE;
        return 0;
    }
    if (!more) return 0;
    while (opt.document && !cut &&
           next_sentence(text[SOURCE].data, text[SOURCE].size, &at, &sentence, &length))
        append(&add_line(number, ++n)->text[SOURCE], sentence, length);
    if (!n) { /* a blank paragraph is a line, too */
        line *l = add_line(number, opt.document);
        l->cut = cut;
        for (side = 0; side <= (t.beside != NULL) && !cut; side++)
            append(&l->text[side], text[side].data, text[side].size);
    }
    return 1;
}

/* A session for the languages that the options say. */
static tfm_status make_session(tfm_session **session, const tfm_session_options *o) {
    tfm_status status = tfm_session_create(session, t.model, o, &t.err);
    if (status == TFM_OK && (opt.from || opt.to))
        status = tfm_languages_set(*session, opt.from, opt.to, &t.err);
    return status;
}

/* The reader begins small and follows what arrives. */
static tfm_status grow_reader(void) {
    tfm_session *smaller = t.reader;
    tfm_session_options o;
    tfm_status status;
    memset(&o, 0, sizeof o);
    o.max_source = t.reader_source ? 8 * t.reader_source : 64, o.max_target = 1;
    if (o.max_source > t.most_source) o.max_source = t.most_source;
    status = make_session(&t.reader, &o);
    if (status == TFM_OK) tfm_session_free(smaller), t.reader_source = o.max_source;
    return status;
}

/* A line's source in tokens, in t.ids. */
static tfm_status tokenize_source(const line *l, tfm_span *spans, int32_t *n) {
    tfm_text text;
    tfm_status status;
    text.data = l->text[SOURCE].data, text.size = l->text[SOURCE].size;
    do {
        status = tfm_session_tokenize(t.reader, &text, opt.form, t.ids, spans, t.reader_source, n,
                                      &t.err);
        if (status != TFM_E_TOO_LONG || t.reader_source == t.most_source) return status;
        status = grow_reader();
    } while (status == TFM_OK);
    return status;
}

/* The line's prefix, or the translation to score, in tokens, in t.scratch. */
static tfm_status tokenize_target(const line *l, int32_t *n) {
    const buffer *text = &l->text[TARGET];
    tfm_arena need = tfm_arena_measuring(), scratch;
    tfm_status status =
        tfm_tokenize_target(t.model, text->data, text->size, opt.form, NULL, 0, n, &need, &t.err);
    size_t most = 2 * text->size + need.peak / 17 + 3; /* a token is a byte of scratch or text */
    size_t ids_size = most * sizeof **l->ids;
    if (status != TFM_OK) return status;
    t.scratch.size = 0;
    if (need.peak / TEXT_SCRATCH > (size_t)opt.max_source || most > INT32_MAX ||
        !reserve(&t.scratch, ids_size + 64 + need.peak))
        return no_memory("too long for --max-source, or for memory", 0);
    scratch = tfm_arena_make(t.scratch.data + ids_size, need.peak + 64);
    return tfm_tokenize_target(t.model, text->data, text->size, opt.form,
                               (int32_t *)(void *)t.scratch.data, (int32_t)most, n, &scratch,
                               &t.err);
}

/* Keeps a copy of a line's ids. */
static tfm_status keep_ids(line *l, int side, const void *ids, int32_t n) {
    int32_t *kept = (int32_t *)realloc(l->ids[side], (size_t)(n + 1) * sizeof *kept);
    if (!kept) return no_memory("too long for the memory at hand", 0);
    if (n) memcpy(kept, ids, (size_t)n * sizeof *kept);
    l->ids[side] = kept, l->n[side] = n;
    return TFM_OK;
}

/* Reports a target that cannot be. An unknown token has a likelihood, but nobody wants a
   translation to begin with one; what is too long the library would refuse for the whole batch. */
static void check_target(line *l) {
    const char *option_name = opt.score ? "--score" : "--prefix";
    int32_t i, n = 0, most = t.config->max_positions ? t.config->max_positions : MOST_TOKENS;
    if (l->text[TARGET].size &&
        (tokenize_target(l, &n) != TFM_OK || keep_ids(l, TARGET, t.scratch.data, n) != TFM_OK)) {
        report(l, 1, "%s: %s", option_name, t.err.text);
        return;
    }
    if (!l->n[SOURCE] && n)
        report(l, 1, "blank, but its %s is not", opt.score ? "translation" : "prefix");
    if (opt.score || l->faulty || !n) return;
    for (i = 0; i < n && l->ids[TARGET][i] != t.config->tgt_unk; i++) continue;
    if (opt.max_length && opt.max_length < most) most = opt.max_length;
    if (i < n)
        report(l, 1, "%s: token %d is not in the target vocabulary", option_name, (int)i + 1);
    else if (n + (t.config->forced >= 0) >= most)
        report(l, 1, "%s: %d tokens leave no room for another, the limit is %d", option_name,
               (int)(n + (t.config->forced >= 0)), (int)most);
}

/* Tokenizes a line, and reports it if it cannot be translated. */
static void tokenize(line *l) {
    int32_t n = 0;
    tfm_status status = l->cut ? no_memory("too long for the memory at hand", 0)
                               : tokenize_source(l, NULL, &n);
    if (status == TFM_OK) status = keep_ids(l, SOURCE, t.ids, n);
    if (status == TFM_E_STATE)
        report(l, 1, "the model knows several languages: --from and --to choose");
    else if (status == TFM_E_TOO_LONG)
        report(l, 1, "%s (%s)", t.err.text,
               t.most_source < opt.max_source ? "the model's positions" : "--max-source");
    else if (status != TFM_OK) report(l, 1, "%s", t.err.text);
    else if (opt.beside) check_target(l);
}

/* ---- translating: sessions and batches ------------------------------------------------------ */

/* Lengths are rounded up so that a session serves many batches. */
static int32_t round_length(int32_t length, int32_t least) {
    int32_t rounded = least;
    while (rounded < length) rounded = rounded ? 2 * rounded : 64;
    return rounded;
}

/* How many sentences of such lengths go together: all of a batch, or fewer where sentences or beams
   are so large that memory would go to them. */
static int32_t rows_at(int32_t source) {
    int64_t tokens = (int64_t)opt.batch * FULL_BATCH_SOURCE;
    int64_t rows = tokens / ((int64_t)round_length(source, 64) * (opt.score ? 1 : opt.beam));
    return rows < 1 ? 1 : rows < opt.batch ? (int32_t)rows : opt.batch;
}

/* Makes sure that the session takes so many sentences of such lengths. The target's limit must not
   decide where a sentence ends, or its output would depend on its batch. */
static tfm_status fit_session(const tfm_batch *sides) {
    int32_t most = t.config->max_positions;
    tfm_session_options o;
    if (t.session && sides->rows <= t.rows && sides[SOURCE].width <= t.length[SOURCE] &&
        sides[TARGET].width <= t.length[TARGET] && t.attention == t.keep_attention)
        return TFM_OK;
    tfm_session_free(t.session);
    t.session = NULL, t.attention = t.keep_attention;
    t.rows = round_length(sides->rows, 1);
    t.length[SOURCE] = round_length(sides[SOURCE].width, 64);
    t.length[TARGET] = round_length(sides[TARGET].width, 0);
    memset(&o, 0, sizeof o);
    o.max_batch = t.rows, o.max_source = t.length[SOURCE];
    o.max_beam = opt.score ? 1 : opt.sample ? opt.n_best : opt.beam;
    if (opt.score) o.max_target = t.length[TARGET] + 1;
    else if (opt.max_length) o.max_target = opt.max_length;
    else o.max_target = 2 * o.max_source + 16 + t.length[TARGET];
    if (o.max_target < opt.decode.min_length) o.max_target = opt.decode.min_length;
    if (most && o.max_source > most) o.max_source = most;
    if (most && o.max_target > most) o.max_target = most;
    o.attention = t.attention, o.threads = opt.threads;
    return make_session(&t.session, &o);
}

/* One side of n lines as a batch, in memory for the caller to free. */
static int32_t *make_batch(tfm_batch *batch, line *const *lines, int32_t n, int side) {
    int32_t row, width = 0, *lengths;
    for (row = 0; row < n; row++)
        if (lines[row]->n[side] > width) width = lines[row]->n[side];
    lengths = (int32_t *)malloc((size_t)n * ((size_t)width + 1) * sizeof *lengths);
    if (!lengths) return NULL;
    batch->ids = lengths + n, batch->lengths = lengths, batch->rows = n, batch->width = width;
    for (row = 0; row < n; row++) {
        lengths[row] = lines[row]->n[side];
        if (lengths[row])
            memcpy(lengths + n + (size_t)row * (size_t)width, lines[row]->ids[side],
                   (size_t)lengths[row] * sizeof *lengths);
    }
    return lengths;
}

static void write_row(line *l, int32_t row);

/* The log-probability of each row's target, and of its tokens. */
static tfm_status score_batch(line *const *lines, const tfm_batch *sides) {
    size_t width = (size_t)sides[TARGET].width + 1;
    double *scores = (double *)malloc((size_t)sides->rows * width * sizeof *scores), *each, sum;
    tfm_status status = TFM_E_MEMORY;
    int32_t row, i;
    if (scores) status = tfm_score(t.session, &sides[SOURCE], &sides[TARGET], scores, &t.err);
    for (row = 0; status == TFM_OK && row < sides->rows; row++) {
        line *l = lines[row];
        each = scores + (size_t)row * width;
        for (sum = 0, i = 0; i <= l->n[TARGET]; i++) sum += each[i];
        append_format(&l->out, "%.4f", sum);
        for (i = 0; opt.per_token && i <= l->n[TARGET]; i++)
            append_format(&l->out, i ? " %.4f" : "\t%.4f", each[i]);
    }
    free(scores);
    return status;
}

/* Decodes to the end and takes the results. Line n is sampled with seed + n, in any batch. */
static tfm_status decode_batch(line *const *lines, const tfm_batch *sides) {
    tfm_decode_options decode = opt.decode;
    uint64_t *seeds = (uint64_t *)malloc((size_t)sides->rows * sizeof *seeds);
    int32_t row, running = 1;
    tfm_status status = TFM_E_MEMORY;
    for (row = 0; seeds && row < sides->rows; row++)
        seeds[row] = decode.seed + (uint64_t)lines[row]->number;
    decode.seeds = seeds;
    if (opt.prefix) decode.prefix = &sides[TARGET];
    if (seeds) status = tfm_start(t.session, &sides[SOURCE], &decode, &t.err);
    while (status == TFM_OK && running && !stopped) status = tfm_step(t.session, &running, &t.err);
    for (row = 0; status == TFM_OK && !stopped && row < sides->rows; row++)
        write_row(lines[row], row);
    free(seeds);
    return status;
}

/* Translates, or scores, n lines together; in halves where memory is too little. */
static void translate_batch(line *const *lines, int32_t n) {
    tfm_batch sides[SIDES];
    int32_t row, *source, *target;
    tfm_status status;
    if (stopped) return;
    status = no_memory("too little memory", 0);
    source = make_batch(&sides[SOURCE], lines, n, SOURCE);
    target = make_batch(&sides[TARGET], lines, n, TARGET);
    if (source && target) status = fit_session(sides);
    if (status == TFM_OK)
        status = opt.score ? score_batch(lines, sides) : decode_batch(lines, sides);
    free(source), free(target);
    if (status == TFM_E_MEMORY && n > 1) {
        translate_batch(lines, n / 2), translate_batch(lines + n / 2, n - n / 2);
        return;
    }
    for (row = 0; row < n; row++)
        if (status != TFM_OK) report(lines[row], 1, "%s", t.err.text);
        else lines[row]->done |= !stopped;
}

/* A picture that could not be written ends in exit status 2, like the output. */
static void close_picture(void) {
    int broken = ferror(t.picture);
    if (fclose(t.picture) != 0 || broken) fail("%s: %s", opt.attention, strerror(errno));
    t.picture = NULL;
}

static int by_length(const void *a, const void *b) {
    const line *x = *(line *const *)a, *y = *(line *const *)b;
    if (x->n[SOURCE] != y->n[SOURCE]) return x->n[SOURCE] < y->n[SOURCE] ? -1 : 1;
    return x < y ? -1 : x > y;
}

static void translate_window(void) {
    line **lines = (line **)malloc(((size_t)t.n + 1) * sizeof *lines), **next = lines, **end;
    int64_t i;
    if (!lines) fail("no memory for %lu lines", (unsigned long)t.n);
    for (end = lines, i = 0; i < t.n; i++) {
        tokenize(&t.lines[i]);
        if (!t.lines[i].faulty && t.lines[i].n[SOURCE]) *end++ = &t.lines[i];
        else t.lines[i].done = 1;
    }
    if (t.picture && next < end) { /* the first sentence, alone: only it needs so large a session */
        t.keep_attention = 1;
        translate_batch(next++, 1);
        t.keep_attention = opt.align;
        close_picture();
    }
    qsort(next, (size_t)(end - next), sizeof *next, by_length);
    while (next < end) {
        int32_t n = 1;
        while (next + n < end && n < rows_at(next[n]->n[SOURCE])) n++;
        translate_batch(next, n);
        next += n;
    }
    free(lines);
}

/* ---- writing: lines, fields, a picture ------------------------------------------------------ */

/* A line of output is one line: what breaks lines becomes a space, and so does TAB in a field. */
static size_t flatten(char *text, size_t size, int fields) {
    static const char *const breaks[] = {"\n",       "\r",           "\v",           "\f",
                                         "\xC2\x85", "\xE2\x80\xA8", "\xE2\x80\xA9", "\t"};
    size_t at = 0, to = 0, n = 0, i, most = fields ? 8 : 7;
    while (at < size) {
        for (i = 0; i < most; i++) {
            n = strlen(breaks[i]);
            if (size - at >= n && memcmp(text + at, breaks[i], n) == 0) break;
        }
        if (i < most) text[to++] = ' ', at += n;
        else text[to++] = text[at++];
    }
    return to;
}

/* The columns before a translation: all lines have them, blank and faulty ones too. */
static void append_columns(line *l, double score) {
    if (opt.n_best > 1) append_format(&l->out, "%ld\t", (long)l->number);
    if (opt.scores) append_format(&l->out, "%.4f\t", score);
}

/* What pairs of positions follow a translation. */
static tfm_status append_alignment(line *l, int32_t row, int32_t rank, int32_t length) {
    int32_t *sources = (int32_t *)malloc(((size_t)length + 1) * sizeof *sources);
    int32_t i, start = t.config->src_start >= 0;
    const char *before = "\t";
    tfm_status status = no_memory("too little memory", 0);
    if (sources) status = tfm_result_alignment(t.session, row, rank, sources, &t.err);
    if (status == TFM_OK && !length) append(&l->out, "\t", 1);
    for (i = 0; status == TFM_OK && i < length; i++) {
        if (sources[i] < start) continue; /* all pads */
        append_format(&l->out, "%s%d-%d", before, (int)(sources[i] - start), (int)i);
        before = " ";
    }
    free(sources);
    return status;
}

/* One hypothesis of a row, as a line. */
static tfm_status append_hypothesis(line *l, int32_t row, int32_t rank, const tfm_result *result) {
    tfm_status status;
    size_t size = 0;
    if (rank) append(&l->out, "\n", 1);
    append_columns(l, result->score);
    status = tfm_result_text(t.session, row, rank, NULL, opt.form, NULL, 0, &size, &t.err);
    if (status == TFM_OK && !reserve(&l->out, size))
        status = no_memory("too little memory for %lu bytes of translation", size);
    if (status == TFM_OK)
        status = tfm_result_text(t.session, row, rank, NULL, opt.form, l->out.data + l->out.size,
                                 size + 1, &size, &t.err);
    if (status != TFM_OK) return status;
    if (opt.form == TFM_FORM_TEXT)
        size = flatten(l->out.data + l->out.size, size, opt.n_best > 1 || opt.scores || opt.align);
    l->out.size += size;
    return opt.align ? append_alignment(l, row, rank, result->length) : TFM_OK;
}

/* Draws the attention of row 0, which is that line's; once. */
static void draw_line(line *l, int32_t length) {
    static tfm_span spans[MOST_DRAWN];
    tfm_text source;
    int32_t n = l->n[SOURCE];
    source.data = l->text[SOURCE].data, source.size = l->text[SOURCE].size;
    if (!length) report(l, 0, "an empty translation has no attention to draw");
    else if (n > MOST_DRAWN || length > MOST_DRAWN)
        report(l, 0, "too long to draw its attention: %d tokens are the limit", (int)MOST_DRAWN);
    else if (tokenize_source(l, spans, &n) == TFM_OK &&
             draw_attention(t.picture, t.session, t.model, 0, &source, t.ids, spans, n, &t.err) ==
                 TFM_OK)
        return;
    t.any_faulty = 1;
}

/* A row's hypotheses, into its line. */
static void write_row(line *l, int32_t row) {
    int32_t rank, n = tfm_result_count(t.session, row);
    tfm_result result;
    for (rank = 0; rank < n; rank++) {
        tfm_status status = tfm_result_get(t.session, row, rank, &result, &t.err);
        if (status == TFM_OK) status = append_hypothesis(l, row, rank, &result);
        if (status != TFM_OK) {
            report(l, 1, "%s", t.err.text);
            return;
        }
        if (result.finish == TFM_HIT_LENGTH)
            report(l, 0, "stopped at its limit of %d tokens", (int)result.length);
        else if (result.finish == TFM_STUCK)
            report(l, 0, "no token was left to choose after %d", (int)result.length);
        if (rank == 0 && t.keep_attention && t.picture) draw_line(l, result.length);
    }
}

/* Writes lines, up to the first that an interrupt left out. Sentences of a line stand in one, with
   a space between them where their language has spaces. */
static void write_window(void) {
    static buffer out;
    int64_t i, next;
    for (i = 0; i < t.n; i++) {
        line *l = &t.lines[i];
        if (l->sentence < 2) out.size = 0;
        for (next = i; next < t.n && (next == i || t.lines[next].sentence > 1); next++)
            if (!t.lines[next].done) return; /* nor those behind it */
        if (l->faulty || !l->n[SOURCE]) l->out.size = 0, append_columns(l, 0);
        if (l->sentence > 1 && out.size && l->out.size && sentence_space_after(out.data, out.size))
            append(&out, " ", 1);
        append(&out, l->out.data, l->out.size);
        if (i + 1 < t.n && t.lines[i + 1].sentence > 1) continue;
        append(&out, "\n", 1);
        fwrite(out.data, 1, out.size, stdout);
    }
}

/* A line on the terminal once the work takes longer than people like to wait unsure. */
static void show_progress(int64_t n_lines, time_t start, int done) {
    static int shown;
    double seconds = difftime(time(NULL), start);
    if (!isatty(2) || (isatty(1) && !done)) return;
    if (!done && seconds >= 3)
        shown = fprintf(stderr, "\r%ld lines, %.1f a second ", (long)n_lines,
                        (double)n_lines / seconds);
    if (done && shown) fprintf(stderr, "\r%ld lines in %.0f seconds\n", (long)n_lines, seconds);
}

/* ---- the program ---------------------------------------------------------------------------- */

/* Loads the model, checks what only it can tell about the options, and makes the reader. */
static void open_model(void) {
    int32_t most, longest = opt.decode.min_length;
    errno = 0;
    if (tfm_model_load_file(&t.model, opt.model, NULL, &t.err) != TFM_OK) {
        const char *reason = errno ? strerror(errno) : "";
        if (t.err.status == TFM_E_IO) fail("%s%s%s", t.err.text, *reason ? ": " : "", reason);
        fail("%s: %s", opt.model, t.err.text);
    }
    t.config = tfm_model_config(t.model);
    most = t.config->max_positions;
    if (most && opt.max_length > most)
        fail("--max-length %d: the model has positions for %d tokens", (int)opt.max_length,
             (int)most);
    if (most && longest >= most)
        fail("--min-length %d: the model has positions for %d tokens", (int)longest, (int)most);
    t.most_source = most && most < opt.max_source ? most : opt.max_source;
    t.ids = (int32_t *)malloc((size_t)t.most_source * sizeof *t.ids);
    if (!t.ids) fail("no memory for %d tokens", (int)t.most_source);
    if (grow_reader() != TFM_OK) fail("%s", t.err.text);
}

static void free_all(void) {
    int64_t i;
    int side;
    for (i = 0; i < t.room; i++) {
        for (side = 0; side < SIDES; side++)
            free(t.lines[i].text[side].data), free(t.lines[i].ids[side]);
        free(t.lines[i].out.data);
    }
    free(t.lines), free(t.ids), free(t.scratch.data);
    tfm_session_free(t.reader), tfm_session_free(t.session);
    tfm_model_free(t.model);
    if (t.beside) fclose(t.beside);
}

int main(int argc, char **argv) {
    int64_t most, n_lines = 0;
    time_t start = time(NULL);
    int more = 1, status = 0, fault = 0;
    memset(&t, 0, sizeof t), memset(&opt, 0, sizeof opt);
    read_options(argc, argv);
    if (!is_open(0) || !is_open(1)) fail("standard %s is closed", is_open(0) ? "output" : "input");
    open_model();
    if (opt.beside) t.beside = open_file(opt.beside, "rb");
    if (opt.attention) t.picture = open_file(opt.attention, "wb");
    t.keep_attention = opt.align;
    most = opt.batch == 1 ? 1 : (int64_t)opt.batch * WINDOW_BATCHES;
    while (more && !fault) {
        errno = 0;
        for (t.n = 0; more && t.n < most;) n_lines += more = read_lines(n_lines + 1, &status);
        if (ferror(stdin)) fault = errno;
        hold_interrupts(1);
        translate_window();
        write_window();
        if (fflush(stdout) != 0 || ferror(stdout)) fault = errno;
        else if (stopped) end_by_signal();
        hold_interrupts(0);
        show_progress(n_lines, start, !more);
    }
    if (t.picture && !fault) {
        fprintf(stderr, "translate: %s: no sentence to draw\n", opt.attention);
        t.any_faulty = 1;
    }
    if (t.picture) close_picture();
    if (!status && t.any_faulty) status = EXIT_LINES;
    if (ferror(stdin) || ferror(stdout)) {
        fprintf(stderr, "translate: %s: %s\n", ferror(stdin) ? "reading" : "writing",
                strerror(fault));
        status = EXIT_USAGE;
    }
    free_all();
    return status;
}
