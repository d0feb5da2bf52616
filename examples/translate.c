/* translate: a sentence a line in, a translation a line out.

       translate MODEL [options] < in > out

   cc -O2 -I. examples/translate.c -o translate -lm

   Lines are read a window at a time, sorted by length inside it so that a batch holds little
   padding, and written in their own order: line n of the output is always line n of the input,
   empty where the input is blank or faulty. No option's result depends on --batch. */
#if defined(__unix__) || defined(__APPLE__)
#define TRANSLATE_SIGNALS
#ifndef _POSIX_C_SOURCE
#define _POSIX_C_SOURCE 200809L /* sigaction */
#endif
#endif
#define TRANSFORMER_IMPLEMENTATION
#include "transformer.h"
#include "heatmap.h"
#include "sentences.h"
#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#ifdef _WIN32
#include <io.h>
#define isatty _isatty
#else
#include <unistd.h>
#endif
#ifdef TRANSLATE_SIGNALS
#include <fcntl.h>
#include <signal.h>
#endif

static const char usage[] =
    "usage: translate MODEL [options] < in > out\n"
    "\n"
    "Translates standard input, a sentence a line, to standard output, a line each: where a\n"
    "translation has a line break of its own (or a tab, where tabs separate fields), the output "
    "has\n"
    "a space.\n"
    "\n"
    "  --document              lines are paragraphs: each is split into sentences, by rules for\n"
    "                          many languages; they are translated one by one and joined again\n"
    "  --tokens                lines are tokens of the vocabularies between spaces, in and out; "
    "in\n"
    "                          a token \\s \\t \\n \\v \\f \\r \\u0085 ... are whitespace, \\\\ a "
    "backslash\n"
    "  --from CODE, --to CODE  languages, for models of several (eng_Latn, fra ...)\n"
    "  --batch N               sentences translated together (default 16; 1 on a terminal, where\n"
    "                          each line is answered at once)\n"
    "  --threads N             that share the work (default 1); outputs are the same for any "
    "number\n"
    "  --max-source N          a line of more than N source tokens is an error (default 4096), "
    "and\n"
    "                          so is one of more than 64 N bytes to tokenize\n"
    "\n"
    "search\n"
    "  --beam N                hypotheses followed at each step (default 1: greedy, or --n-best)\n"
    "  --length-penalty X      order hypotheses by sum / length^X (default 0)\n"
    "  --max-length N          at most N target tokens a sentence (default 2 x source + 16)\n"
    "  --min-length N          at least N, but within --max-length\n"
    "  --no-repeat-ngram N     no N tokens in a row twice\n"
    "  --repetition-penalty X  above 1: tokens that came before get less likely\n"
    "  --prefix FILE           line n of FILE is what translation n begins with; blank: anything\n"
    "  --sample                draw tokens instead of searching: --n-best N independent samples\n"
    "  --temperature X --top-k N --top-p X --seed N\n"
    "                          of --sample; line n is drawn with seed N + n\n"
    "\n"
    "output\n"
    "  --scores                before each translation its score and a tab: the sum of\n"
    "                          log-probabilities, over length^X if there is a length penalty\n"
    "  --n-best N              the N best, a line each: number of the input line, tab, text\n"
    "  --align                 after each translation a tab and pairs source-target of token\n"
    "                          positions from 0: what each target token attends to most\n"
    "  --attention FILE        draw the attention of the first sentence that is not blank: SVG,\n"
    "                          last layer, mean over heads\n"
    "\n"
    "  --score FILE            do not translate: line n of FILE is the translation of line n, and\n"
    "                          the output its sum of log-probabilities\n"
    "  --per-token             with --score: then a tab and each token's, the end token's last\n"
    "  --help, --version\n"
    "\n"
    "Exit status: 0 all lines translated; 1 some line could not be (its output is empty, standard\n"
    "error says why); 2 wrong usage, no model, or input or output failed. An interrupt (Ctrl-C) "
    "ends\n"
    "it after the last line that is ready.\n";

enum { EXIT_LINES = 1, EXIT_USAGE = 2, WINDOW_BATCHES = 16, FULL_BATCH_SOURCE = 512 };
enum { MOST_TOKENS = 1000000 }; /* of a target, whatever the options say */
enum { TEXT_SCRATCH = 3136 };   /* bytes to tokenize a target, for each of --max-source */
enum { MOST_DRAWN = 400 };      /* tokens each way in a picture */

typedef struct options {
    const char *model, *from, *to, *prefix, *score, *attention;
    const char *beside; /* the file of --prefix or --score: lines that go with those of the input */
    tfm_text_form form;
    int document, tokens, scores, align, per_token, sample;
    int32_t batch, threads, max_length, max_source, beam, n_best;
    tfm_decode_options decode;
} options;

typedef struct buffer {
    char *data;
    size_t size, room;
} buffer;

/* One line of input, or one sentence of a line, and what became of it. */
typedef struct line {
    int64_t number;        /* from 1 */
    int32_t sentence;      /* from 1 in each line; 0 without --document */
    int32_t n, n_target;   /* tokens */
    int32_t *ids;          /* of the source */
    int32_t *target;       /* of the prefix or of the translation to score */
    buffer text, beside;   /* input, and the line of the other file */
    buffer out;            /* without the last newline */
    int cut, faulty, done; /* too long for memory; reported; out is what is to be written */
} line;

static struct {
    options opt;
    tfm_model *model;
    const tfm_config *config;
    tfm_session *reader, *session;      /* one tokenizes, one translates */
    int32_t reader_source, most_source; /* tokens that the reader takes; that it may take */
    int32_t rows, source, target;       /* what the session takes */
    int session_attention,
        attention;           /* whether it keeps attention; whether the next batch needs it */
    int32_t *ids;            /* [most_source]: a line's, before they are copied */
    buffer scratch;          /* to tokenize targets */
    line *lines;             /* of the window at hand */
    int64_t *order, n, room; /* of translation */
    FILE *picture;           /* of the attention; NULL: drawn, or not wanted */
    int any_faulty;
} t;

/* ---- messages and memory -------------------------------------------------------------------- */

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

static void append_number(buffer *b, const char *format, double value) {
    char text[400]; /* a double of any size with four decimals */
    append(b, text, (size_t)snprintf(text, sizeof text, format, value));
}

/* A copy of n ids in the place of others: 0 where there is no memory for it. */
static int keep_ids(int32_t **kept, const int32_t *ids, int32_t n) {
    int32_t *grown = (int32_t *)realloc(*kept, (size_t)(n + 1) * sizeof *ids);
    if (!grown) return 0;
    if (n) memcpy(grown, ids, (size_t)n * sizeof *ids);
    *kept = grown;
    return 1;
}

/* A file of the user's, or the end of the program. */
static FILE *open_file(const char *path, const char *mode) {
    FILE *file = fopen(path, mode);
    if (!file) fail("%s: %s", path, strerror(errno));
    return file;
}

/* ---- interrupts -----------------------------------------------------------------------------

   While lines are translated and written, SIGINT and SIGTERM let the step at hand and the line that
   is being written end; a second one ends the program at once, and so does one while it waits for
   input, since all that was read has been written then. */

static volatile int stopped; /* the signal */

#ifdef TRANSLATE_SIGNALS
static void stop(int number) { stopped = number; }

static void hold_interrupts(int hold) {
    static const int numbers[] = {SIGINT, SIGTERM};
    struct sigaction action, old;
    int i;
    memset(&action, 0, sizeof action);
    if (hold) action.sa_handler = stop, action.sa_flags = SA_RESTART | (int)SA_RESETHAND;
    else action.sa_handler = SIG_DFL;
    for (i = 0; i < 2; i++)
        if (sigaction(numbers[i], NULL, &old) == 0 && old.sa_handler != SIG_IGN)
            (void)sigaction(numbers[i], &action, NULL);
}

static void end_by_signal(void) { hold_interrupts(0), raise(stopped); }

/* A closed standard input or output would be the next file that is opened. */
static int is_open(int file) { return fcntl(file, F_GETFD) != -1; }
#else
static void hold_interrupts(int hold) { (void)hold; }
static void end_by_signal(void) {}
static int is_open(int file) { return file >= 0; }
#endif

/* ---- options -------------------------------------------------------------------------------- */

typedef enum option_kind { FLAG, COUNT, NUMBER, SEED, PATH } option_kind;
/* With --score or not, with --sample or not. */
typedef enum option_use { ANY_USE, TRANSLATING, SEARCHING, SAMPLING, SCORING } option_use;

typedef struct option {
    const char *name;
    option_kind kind;
    void *to;
    double least, most;
    option_use use;
    int given;
} option;

static void parse_value(const option *o, const char *text) {
    const char *shown = text ? text : "";
    char *end = NULL;
    double value = 0;
    if (o->kind == PATH) {
        if (!text) fail("%s takes the name of a file", o->name);
        *(const char **)o->to = text;
    } else if (o->kind == SEED) {
        errno = 0;
        if (*shown >= '0' && *shown <= '9') *(uint64_t *)o->to = strtoull(text, &end, 10);
        if (!end || *end || errno)
            fail("%s takes an integer of up to 64 bits, not '%s'", o->name, shown);
    } else {
        if (text) value = o->kind == COUNT ? (double)strtol(text, &end, 10) : strtod(text, &end);
        if (!text || end == text || *end || !(value >= o->least && value <= o->most))
            fail("%s takes a number from %.7g to %.7g, not '%s'", o->name, o->least, o->most,
                 shown);
        if (o->kind == COUNT) *(int32_t *)o->to = (int32_t)value;
        else *(double *)o->to = value;
    }
}

static option *find_option(option *table, const char *name) {
    for (; table->name; table++)
        if (strcmp(table->name, name) == 0) return table;
    return NULL;
}

/* Options that contradict each other, or do nothing without another. */
static void check_together(option *table) {
    static const char *const of_lines[] = {"--tokens", "--prefix", "--score", "--scores",
                                           "--n-best", "--align",  NULL};
    const option *sample = find_option(table, "--sample"), *score = find_option(table, "--score");
    const option *o;
    int i;
    for (i = 0; t.opt.document && of_lines[i]; i++)
        if (find_option(table, of_lines[i])->given)
            fail("%s and --document do not go together", of_lines[i]);
    for (o = table; o->name; o++) {
        const option *needed = o->use == SAMPLING ? sample : o->use == SCORING ? score : NULL;
        const option *other = o->use == SEARCHING ? sample : NULL;
        if (!o->given) continue;
        if (score->given && (o->use == SEARCHING || o->use == TRANSLATING)) other = score;
        if (needed && !needed->given) fail("%s needs %s", o->name, needed->name);
        if (other && other->given) fail("%s and %s do not go together", o->name, other->name);
    }
}

static void parse_options(int argc, char **argv) {
    options *o = &t.opt;
    tfm_decode_options *d = &o->decode;
    int i;
    option table[] = {
        {"--document", FLAG, &o->document, 0, 0, ANY_USE, 0},
        {"--tokens", FLAG, &o->tokens, 0, 0, ANY_USE, 0},
        {"--batch", COUNT, &o->batch, 1, 1000000, ANY_USE, 0},
        {"--threads", COUNT, &o->threads, 1, 64, ANY_USE, 0},
        {"--max-source", COUNT, &o->max_source, 1, 1000000, ANY_USE, 0},
        {"--beam", COUNT, &o->beam, 1, 1000, SEARCHING, 0},
        {"--length-penalty", NUMBER, &d->length_penalty, -100, 100, TRANSLATING, 0},
        {"--max-length", COUNT, &o->max_length, 1, 1000000, TRANSLATING, 0},
        {"--min-length", COUNT, &d->min_length, 0, 1000000, TRANSLATING, 0},
        {"--no-repeat-ngram", COUNT, &d->no_repeat_ngram, 0, 1000000, TRANSLATING, 0},
        {"--repetition-penalty", NUMBER, &d->repetition_penalty, 0.01, 100, TRANSLATING, 0},
        {"--from", PATH, &o->from, 0, 0, ANY_USE, 0},
        {"--to", PATH, &o->to, 0, 0, ANY_USE, 0},
        {"--prefix", PATH, &o->prefix, 0, 0, TRANSLATING, 0},
        {"--sample", FLAG, &o->sample, 0, 0, TRANSLATING, 0},
        {"--temperature", NUMBER, &d->temperature, 0.01, 100, SAMPLING, 0},
        {"--top-k", COUNT, &d->top_k, 1, 1000000, SAMPLING, 0},
        {"--top-p", NUMBER, &d->top_p, 0.0001, 1, SAMPLING, 0},
        {"--seed", SEED, &d->seed, 0, 0, SAMPLING, 0},
        {"--scores", FLAG, &o->scores, 0, 0, TRANSLATING, 0},
        {"--n-best", COUNT, &o->n_best, 1, 1000, TRANSLATING, 0},
        {"--align", FLAG, &o->align, 0, 0, TRANSLATING, 0},
        {"--attention", PATH, &o->attention, 0, 0, TRANSLATING, 0},
        {"--score", PATH, &o->score, 0, 0, ANY_USE, 0},
        {"--per-token", FLAG, &o->per_token, 0, 0, SCORING, 0},
        {NULL, FLAG, NULL, 0, 0, ANY_USE, 0}};
    for (i = 1; i < argc; i++) {
        option *known = find_option(table, argv[i]);
        if (strcmp(argv[i], "--help") == 0) fputs(usage, stdout), exit(0);
        if (strcmp(argv[i], "--version") == 0) printf("translate %s\n", tfm_version()), exit(0);
        if (known) {
            known->given = 1;
            if (known->kind == FLAG) *(int *)known->to = 1;
            else parse_value(known, i + 1 < argc ? argv[i + 1] : NULL), i++;
        } else if (argv[i][0] == '-' && argv[i][1]) {
            fail("unknown option '%s' (--help lists them)", argv[i]);
        } else if (o->model) {
            fail("one model, not '%s' and '%s'", o->model, argv[i]);
        } else o->model = argv[i];
    }
    if (!o->model) fputs(usage, stderr), exit(EXIT_USAGE);
    check_together(table);
    if (o->beam && o->n_best > o->beam)
        fail("--n-best %d needs a --beam of %d at least, not %d", (int)o->n_best, (int)o->n_best,
             (int)o->beam);
    if (o->max_length && d->min_length >= o->max_length)
        fail("--min-length %d leaves no room for an end in --max-length %d", (int)d->min_length,
             (int)o->max_length);
    o->form = o->tokens ? TFM_FORM_ESCAPED : TFM_FORM_TEXT;
    o->beside = o->prefix ? o->prefix : o->score;
    if (!o->batch) o->batch = isatty(0) ? 1 : 16;
    if (!o->max_source) o->max_source = 4096;
    if (!o->n_best) o->n_best = 1;
    if (!o->beam) o->beam = o->n_best;
    d->max_length = o->max_length;
    if (o->sample) d->samples = o->n_best;
    else d->beam = o->beam, d->n_best = o->n_best;
}

/* What only the model can tell about the options. */
static void check_against_model(void) {
    int32_t most = t.config->max_positions, longest = t.opt.decode.min_length + 1;
    if (longest < t.opt.max_length) longest = t.opt.max_length;
    if (!most || longest <= most) return;
    if (longest == t.opt.max_length)
        fail("--max-length %d: the model has positions for %d tokens", (int)longest, (int)most);
    fail("--min-length %d: the model has positions for %d tokens", (int)longest - 1, (int)most);
}

/* ---- reading: lines, sentences, tokens ------------------------------------------------------ */

/* Reads one line without its newline; 0 at the end of the input. A last line without newline
   counts. A line that memory cannot hold is read to its end and is *cut. */
static int read_line(FILE *in, buffer *b, int *cut) {
    int c;
    b->size = 0, *cut = 0;
    while ((c = getc(in)) != EOF && c != '\n') {
        if (!*cut && (b->size == INT32_MAX || !reserve(b, 1))) *cut = 1;
        if (!*cut) b->data[b->size++] = (char)c;
    }
    return c != EOF || b->size > 0;
}

/* The next line of the window, with the memory of an earlier one. */
static line *add_line(int64_t number, int32_t sentence) {
    line *l;
    if (t.n == t.room) {
        size_t room = 2 * (size_t)t.room + 16;
        l = (line *)realloc(t.lines, room * sizeof *l);
        if (l) t.lines = l;
        if (l) t.order = (int64_t *)realloc(t.order, room * sizeof *t.order);
        if (!l || !t.order) fail("no memory for %lu lines", (unsigned long)room);
        memset(t.lines + t.room, 0, (room - (size_t)t.room) * sizeof *l);
        t.room = (int64_t)room;
    }
    l = &t.lines[t.n++];
    l->number = number, l->sentence = sentence;
    l->n = l->n_target = 0, l->text.size = l->beside.size = l->out.size = 0;
    l->cut = l->faulty = l->done = 0;
    return l;
}

/* Reads line number of the input and the one beside it into the window, or a paragraph's sentences;
   0 at the end, or where a file has fewer lines than the input, or more: *status says so. */
static int read_lines(FILE *beside, int64_t number, int *status) {
    static buffer text, other;
    const char *sentence;
    size_t at = 0, length;
    int32_t n = 0;
    int cut, other_cut = 0, more = read_line(stdin, &text, &cut);
    if (!more && ferror(stdin)) return 0;
    if (beside && read_line(beside, &other, &other_cut) != more) {
        fprintf(stderr, "translate: %s has %s lines than the input\n", t.opt.beside,
                more ? "fewer" : "more");
        *status = EXIT_USAGE;
        return 0;
    }
    if (!more) return 0;
    while (t.opt.document && !cut && next_sentence(text.data, text.size, &at, &sentence, &length))
        append(&add_line(number, ++n)->text, sentence, length);
    if (!n) { /* a blank paragraph is a line, too */
        line *l = add_line(number, t.opt.document);
        l->cut = cut || other_cut;
        append(&l->text, text.data, l->cut ? 0 : text.size);
        if (beside) append(&l->beside, other.data, l->cut ? 0 : other.size);
    }
    return 1;
}

/* A session that tokenizes up to so many tokens, in place of the one before. */
static tfm_status make_reader(int32_t source, tfm_error *err) {
    tfm_session_options o;
    tfm_session *made;
    tfm_status status;
    memset(&o, 0, sizeof o);
    o.max_source = source, o.max_target = 1;
    status = tfm_session_create(&made, t.model, &o, err);
    if (status != TFM_OK) return status;
    if (t.opt.from || t.opt.to) status = tfm_languages_set(made, t.opt.from, t.opt.to, err);
    tfm_session_free(t.reader);
    t.reader = made, t.reader_source = source;
    return status;
}

/* A line's text in tokens, in t.ids. The reader begins small and follows what arrives. */
static tfm_status tokenize_source(const line *l, tfm_span *spans, int32_t *n, tfm_error *err) {
    tfm_text text;
    text.data = l->text.data, text.size = l->text.size;
    for (;;) {
        int32_t source = t.reader_source < t.most_source / 8 ? 8 * t.reader_source : t.most_source;
        tfm_status status = tfm_session_tokenize(t.reader, &text, t.opt.form, t.ids, spans,
                                                 t.reader_source, n, err);
        if (status != TFM_E_TOO_LONG || t.reader_source == t.most_source) return status;
        status = make_reader(source, err);
        if (status != TFM_OK) return status;
    }
}

/* The line's prefix, or the translation to score, in tokens. */
static tfm_status tokenize_target(line *l, tfm_error *err) {
    tfm_arena scratch = tfm_arena_measuring();
    size_t ids_size, most;
    tfm_status status = tfm_tokenize_target(t.model, l->beside.data, l->beside.size, t.opt.form,
                                            NULL, 0, &l->n_target, &scratch, err);
    if (status != TFM_OK) return status;
    most = 2 * l->beside.size + scratch.peak / 17 + 3; /* a token is a byte of scratch or text */
    ids_size = most * sizeof *t.ids;
    t.scratch.size = 0;
    if (scratch.peak / TEXT_SCRATCH > (size_t)t.opt.max_source || most > INT32_MAX ||
        !reserve(&t.scratch, ids_size + 64 + scratch.peak)) {
        snprintf(err->text, sizeof err->text, "too long for --max-source, or for memory");
        return TFM_E_TOO_LONG;
    }
    scratch = tfm_arena_make(t.scratch.data + ids_size, scratch.peak + 64);
    status = tfm_tokenize_target(t.model, l->beside.data, l->beside.size, t.opt.form,
                                 (int32_t *)(void *)t.scratch.data, (int32_t)most, &l->n_target,
                                 &scratch, err);
    if (status == TFM_OK &&
        !keep_ids(&l->target, (const int32_t *)(const void *)t.scratch.data, l->n_target)) {
        snprintf(err->text, sizeof err->text, "too long for memory");
        status = TFM_E_MEMORY;
    }
    return status;
}

/* Reports a target that cannot be. An unknown token has a likelihood, but nobody wants a
   translation to begin with one; what is too long the library would refuse for the whole batch. */
static void check_target(line *l) {
    const char *what = t.opt.score ? "--score" : "--prefix";
    int32_t i, n, most = t.config->max_positions ? t.config->max_positions : MOST_TOKENS;
    tfm_error err;
    if (l->beside.size && tokenize_target(l, &err) != TFM_OK) {
        report(l, 1, "%s: %s", what, err.text);
        return;
    }
    if (!l->n && l->n_target)
        report(l, 1, "blank, but its %s is not", t.opt.score ? "translation" : "prefix");
    if (t.opt.score || l->faulty || !l->n_target) return;
    for (i = 0; i < l->n_target; i++)
        if (l->target[i] == t.config->tgt_unk) {
            report(l, 1, "%s: token %d is not in the target vocabulary", what, (int)i + 1);
            return;
        }
    if (t.opt.max_length && t.opt.max_length < most) most = t.opt.max_length;
    n = l->n_target + (t.config->forced >= 0);
    if (n >= most)
        report(l, 1, "%s: %d tokens leave no room for another, the limit is %d", what, (int)n,
               (int)most);
}

/* Tokenizes a line, and reports it if it cannot be translated. */
static void tokenize(line *l) {
    tfm_error err;
    tfm_status status;
    if (l->cut) {
        report(l, 1, "too long for the memory at hand");
        return;
    }
    status = tokenize_source(l, NULL, &l->n, &err);
    if (status == TFM_E_STATE)
        report(l, 1, "the model knows several languages: --from and --to choose");
    else if (status == TFM_E_TOO_LONG)
        report(l, 1, "%s (%s)", err.text,
               t.most_source < t.opt.max_source ? "the model's positions" : "--max-source");
    else if (status != TFM_OK) report(l, 1, "%s", err.text);
    else if (!keep_ids(&l->ids, t.ids, l->n)) report(l, 1, "too long for the memory at hand");
    else if (t.opt.beside) check_target(l);
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
    int64_t tokens = (int64_t)t.opt.batch * FULL_BATCH_SOURCE;
    int64_t rows = tokens / ((int64_t)round_length(source, 64) * (t.opt.score ? 1 : t.opt.beam));
    return rows < 1 ? 1 : rows < t.opt.batch ? (int32_t)rows : t.opt.batch;
}

/* Makes sure that the session takes so many sentences of such lengths. The target's limit must not
   decide where a sentence ends, or its output would depend on its batch. */
static tfm_status fit_session(int32_t rows, int32_t source, int32_t target, tfm_error *err) {
    int32_t most = t.config->max_positions;
    tfm_session_options o;
    tfm_status status;
    if (t.session && rows <= t.rows && source <= t.source && target <= t.target &&
        t.attention == t.session_attention)
        return TFM_OK;
    tfm_session_free(t.session);
    t.session = NULL;
    memset(&o, 0, sizeof o);
    t.rows = round_length(rows, 1), t.session_attention = t.attention;
    t.source = round_length(source, 64), t.target = round_length(target, 0);
    o.max_batch = t.rows, o.max_source = t.source;
    o.max_beam = t.opt.score ? 1 : t.opt.sample ? t.opt.n_best : t.opt.beam;
    if (t.opt.score) o.max_target = t.target + 1;
    else if (t.opt.max_length) o.max_target = t.opt.max_length;
    else o.max_target = 2 * o.max_source + 16 + t.target;
    if (o.max_target < t.opt.decode.min_length) o.max_target = t.opt.decode.min_length;
    if (most && o.max_source > most) o.max_source = most;
    if (most && o.max_target > most) o.max_target = most;
    o.attention = t.attention, o.threads = t.opt.threads;
    status = tfm_session_create(&t.session, t.model, &o, err);
    if (status == TFM_OK && (t.opt.from || t.opt.to))
        status = tfm_languages_set(t.session, t.opt.from, t.opt.to, err);
    return status;
}

/* The sources, or the targets, of n lines side by side, in memory for the caller to free. */
static int32_t *make_batch(tfm_batch *batch, const int64_t *order, int32_t n, int targets) {
    int32_t row, width = 0, *ids, *lengths;
    for (row = 0; row < n; row++) {
        const line *l = &t.lines[order[row]];
        int32_t length = targets ? l->n_target : l->n;
        if (length > width) width = length;
    }
    lengths = n > 0 ? (int32_t *)malloc((size_t)n * ((size_t)width + 1) * sizeof *lengths) : NULL;
    if (!lengths) return NULL;
    ids = lengths + n;
    for (row = 0; row < n; row++) {
        const line *l = &t.lines[order[row]];
        lengths[row] = targets ? l->n_target : l->n;
        if (lengths[row])
            memcpy(ids + (size_t)row * (size_t)width, targets ? l->target : l->ids,
                   (size_t)lengths[row] * sizeof *ids);
    }
    batch->ids = ids, batch->lengths = lengths, batch->rows = n, batch->width = width;
    return lengths;
}

static void write_row(line *l, int32_t row);

/* The log-probability of each row's target, and of its tokens. */
static tfm_status score_batch(const int64_t *order, const tfm_batch *sources,
                              const tfm_batch *targets, tfm_error *err) {
    size_t width = (size_t)targets->width + 1;
    double *scores = (double *)malloc((size_t)targets->rows * width * sizeof *scores);
    tfm_status status = scores ? tfm_score(t.session, sources, targets, scores, err) : TFM_E_MEMORY;
    int32_t row, i;
    for (row = 0; status == TFM_OK && row < targets->rows; row++) {
        const double *each = scores + (size_t)row * width;
        line *l = &t.lines[order[row]];
        double sum = 0;
        for (i = 0; i <= l->n_target; i++) sum += each[i];
        append_number(&l->out, "%.4f", sum);
        for (i = 0; t.opt.per_token && i <= l->n_target; i++)
            append_number(&l->out, i ? " %.4f" : "\t%.4f", each[i]);
    }
    free(scores);
    return status;
}

/* Decodes to the end and takes the results. Line n is sampled with seed + n, in any batch. */
static tfm_status decode_batch(const int64_t *order, const tfm_batch *sources,
                               const tfm_batch *prefixes, tfm_error *err) {
    tfm_decode_options decode = t.opt.decode;
    uint64_t *seeds = (uint64_t *)malloc((size_t)sources->rows * sizeof *seeds);
    int32_t row, running = 1;
    tfm_status status = seeds ? TFM_OK : TFM_E_MEMORY;
    for (row = 0; seeds && row < sources->rows; row++)
        seeds[row] = decode.seed + (uint64_t)t.lines[order[row]].number;
    decode.seeds = seeds;
    if (t.opt.prefix) decode.prefix = prefixes;
    if (seeds) status = tfm_start(t.session, sources, &decode, err);
    while (status == TFM_OK && running && !stopped) status = tfm_step(t.session, &running, err);
    for (row = 0; status == TFM_OK && !stopped && row < sources->rows; row++)
        write_row(&t.lines[order[row]], row);
    free(seeds);
    return status;
}

/* Translates, or scores, lines[order[0 .. n)] together; in halves where memory is too little. */
static void translate_batch(const int64_t *order, int32_t n) {
    tfm_batch sources, targets;
    tfm_error err;
    tfm_status status = TFM_E_MEMORY;
    int32_t row, *source_memory, *target_memory;
    if (stopped) return;
    source_memory = make_batch(&sources, order, n, 0);
    target_memory = make_batch(&targets, order, n, 1);
    snprintf(err.text, sizeof err.text, "too little memory");
    if (source_memory && target_memory) status = fit_session(n, sources.width, targets.width, &err);
    if (status == TFM_OK)
        status = t.opt.score ? score_batch(order, &sources, &targets, &err)
                             : decode_batch(order, &sources, &targets, &err);
    free(source_memory), free(target_memory);
    if (status == TFM_E_MEMORY && n > 1) {
        translate_batch(order, n / 2), translate_batch(order + n / 2, n - n / 2);
        return;
    }
    for (row = 0; row < n; row++)
        if (status != TFM_OK) report(&t.lines[order[row]], 1, "%s", err.text);
        else t.lines[order[row]].done |= !stopped;
}

/* A picture that could not be written ends in exit status 2, like the output. */
static void close_picture(void) {
    int broken = ferror(t.picture);
    if (fclose(t.picture) != 0 || broken) fail("%s: %s", t.opt.attention, strerror(errno));
    t.picture = NULL;
}

static int by_length(const void *a, const void *b) {
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    int32_t p = t.lines[x].n, q = t.lines[y].n;
    return p != q ? (p < q ? -1 : 1) : x < y ? -1 : x > y;
}

static void translate_window(void) {
    int64_t i, todo = 0, end, *order = t.order;
    for (i = 0; i < t.n; i++) {
        tokenize(&t.lines[i]);
        if (!t.lines[i].faulty && t.lines[i].n) order[todo++] = i;
        else t.lines[i].done = 1;
    }
    if (t.picture && todo) { /* the first sentence, alone: only it needs so large a session */
        t.attention = 1;
        translate_batch(order++, 1), todo--;
        t.attention = t.opt.align;
        close_picture();
    }
    if (todo) qsort(order, (size_t)todo, sizeof *order, by_length);
    for (i = 0; i < todo; i = end) {
        for (end = i + 1; end < todo && end - i < rows_at(t.lines[order[end]].n);) end++;
        translate_batch(order + i, (int32_t)(end - i));
    }
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
    if (t.opt.n_best > 1) append_number(&l->out, "%.0f\t", (double)l->number);
    if (t.opt.scores) append_number(&l->out, "%.4f\t", score);
}

/* What pairs of positions follow a translation. */
static tfm_status append_alignment(line *l, int32_t row, int32_t rank, int32_t length,
                                   tfm_error *err) {
    int32_t *sources = (int32_t *)malloc(((size_t)length + 1) * sizeof *sources);
    int32_t i, start = t.config->src_start >= 0;
    const char *before = "\t";
    tfm_status status = TFM_E_MEMORY;
    snprintf(err->text, sizeof err->text, "too little memory");
    if (sources) status = tfm_result_alignment(t.session, row, rank, sources, err);
    if (status == TFM_OK && !length) append(&l->out, "\t", 1);
    for (i = 0; status == TFM_OK && i < length; i++) {
        char pair[64];
        if (sources[i] < start) continue; /* all pads */
        append(&l->out, pair,
               (size_t)snprintf(pair, sizeof pair, "%s%d-%d", before, (int)(sources[i] - start),
                                (int)i));
        before = " ";
    }
    free(sources);
    return status;
}

static void add_label(buffer *labels, const char *text, size_t size) {
    append(labels, text, size);
    labels->size++; /* keeps the terminator */
}

/* The source's tokens as they stand in its text; what comes from no text says what it is. */
static int label_source(const line *l, buffer *labels) {
    tfm_span *spans = (tfm_span *)malloc((size_t)l->n * sizeof *spans);
    tfm_error err;
    int32_t i, k, n = 0;
    int ok = spans && tokenize_source(l, spans, &n, &err) == TFM_OK;
    for (i = 0; ok && i < n; i++) {
        const char *text = l->text.data + spans[i].begin, *code = "";
        size_t size = spans[i].end - spans[i].begin;
        uint32_t c = 0;
        if (size) (void)sentence_char(text, size, &c);
        for (k = 0; k < t.config->n_languages; k++)
            if (t.config->languages[k].id == t.ids[i]) code = t.config->languages[k].code;
        if (!size && !i && t.config->src_start >= 0) add_label(labels, "[start]", 7);
        else if (!size && i == n - 1 && t.config->src_end >= 0) add_label(labels, "[end]", 5);
        else if (!size) add_label(labels, code, strlen(code));
        else if (t.config->src_text == TFM_TEXT_CHARACTERS && sentence_is_space(c))
            add_label(labels, "\xE2\x96\x81", 3);
        else add_label(labels, text, size);
    }
    free(spans);
    return ok;
}

/* Draws the best hypothesis of row 0, which is that line's; once. */
static void draw_attention(line *l, const tfm_result *result) {
    size_t cells = (size_t)l->n * (size_t)result->length, size = 0;
    float *weights = NULL;
    buffer across, down;
    tfm_tensor tensor;
    tfm_error err;
    int32_t i;
    memset(&across, 0, sizeof across), memset(&down, 0, sizeof down);
    if (!result->length) report(l, 0, "an empty translation has no attention to draw");
    else if (l->n > MOST_DRAWN || result->length > MOST_DRAWN)
        report(l, 0, "too long to draw its attention: %d tokens are the limit", (int)MOST_DRAWN);
    else weights = (float *)malloc(cells * sizeof *weights);
    if (!weights) {
        t.any_faulty = 1;
        return;
    }
    for (i = 0; i < result->length; i++) {
        (void)tfm_detokenize(t.model, result->ids + i, 1, TFM_FORM_TOKENS, NULL, 0, &size, &err);
        if (!reserve(&down, size + 1)) break;
        (void)tfm_detokenize(t.model, result->ids + i, 1, TFM_FORM_TOKENS, down.data + down.size,
                             size + 1, &size, &err);
        down.size += size + 1;
    }
    tensor = tfm_tensor_2d(weights, TFM_F32, result->length, l->n);
    if (i == result->length && label_source(l, &across) &&
        tfm_result_attention(t.session, 0, 0, &tensor, &err) == TFM_OK)
        write_heat_map(t.picture, weights, down.data, result->length, across.data, l->n);
    free(weights), free(across.data), free(down.data);
}

/* One hypothesis of a row, as a line. */
static tfm_status append_hypothesis(line *l, int32_t row, int32_t rank, const tfm_result *result,
                                    tfm_error *err) {
    tfm_status status;
    size_t size;
    if (rank) append(&l->out, "\n", 1);
    append_columns(l, result->score);
    status = tfm_result_text(t.session, row, rank, NULL, t.opt.form, NULL, 0, &size, err);
    if (status == TFM_OK && !reserve(&l->out, size)) {
        snprintf(err->text, sizeof err->text, "too little memory for %lu bytes of translation",
                 (unsigned long)size);
        status = TFM_E_MEMORY;
    }
    if (status == TFM_OK)
        status = tfm_result_text(t.session, row, rank, NULL, t.opt.form, l->out.data + l->out.size,
                                 size + 1, &size, err);
    if (status != TFM_OK) return status;
    if (t.opt.form == TFM_FORM_TEXT)
        size = flatten(l->out.data + l->out.size, size,
                       t.opt.n_best > 1 || t.opt.scores || t.opt.align);
    l->out.size += size;
    return t.opt.align ? append_alignment(l, row, rank, result->length, err) : TFM_OK;
}

/* A row's hypotheses, into its line. */
static void write_row(line *l, int32_t row) {
    int32_t rank, n = tfm_result_count(t.session, row);
    tfm_result result;
    tfm_error err;
    for (rank = 0; rank < n; rank++) {
        tfm_status status = tfm_result_get(t.session, row, rank, &result, &err);
        if (status == TFM_OK) status = append_hypothesis(l, row, rank, &result, &err);
        if (status != TFM_OK) {
            report(l, 1, "%s", err.text);
            return;
        }
        if (result.finish == TFM_HIT_LENGTH)
            report(l, 0, "stopped at its limit of %d tokens", (int)result.length);
        else if (result.finish == TFM_STUCK)
            report(l, 0, "no token was left to choose after %d", (int)result.length);
        if (rank == 0 && t.attention && t.picture) draw_attention(l, &result);
    }
}

/* Writes lines, up to the first that an interrupt left out. Sentences of a line stand in one, with
   a space between them where their language has spaces. */
static void write_window(void) {
    static buffer out;
    int64_t i, next;
    out.size = 0;
    for (i = 0; i < t.n; i++) {
        line *l = &t.lines[i];
        for (next = i; next < t.n && (next == i || t.lines[next].sentence > 1); next++)
            if (!t.lines[next].done) return; /* nor those behind it */
        if (l->faulty || !l->n) l->out.size = 0, append_columns(l, 0);
        if (l->sentence > 1 && out.size && l->out.size && sentence_space_after(out.data, out.size))
            append(&out, " ", 1);
        append(&out, l->out.data, l->out.size);
        if (i + 1 < t.n && t.lines[i + 1].sentence > 1) continue;
        append(&out, "\n", 1);
        fwrite(out.data, 1, out.size, stdout);
        out.size = 0;
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

/* Loads the model and makes the session that tokenizes. */
static void open_model(void) {
    tfm_error err;
    int32_t first = 64;
    errno = 0;
    if (tfm_model_load_file(&t.model, t.opt.model, NULL, &err) != TFM_OK) {
        const char *reason = errno ? strerror(errno) : "";
        if (err.status == TFM_E_IO) fail("%s%s%s", err.text, *reason ? ": " : "", reason);
        fail("%s: %s", t.opt.model, err.text);
    }
    t.config = tfm_model_config(t.model);
    check_against_model();
    t.most_source = t.opt.max_source;
    if (t.config->max_positions && t.config->max_positions < t.most_source)
        t.most_source = t.config->max_positions;
    if (first > t.most_source) first = t.most_source;
    t.ids = (int32_t *)malloc((size_t)t.most_source * sizeof *t.ids);
    if (!t.ids) fail("no memory for %d tokens", (int)t.most_source);
    if (make_reader(first, &err) != TFM_OK) fail("%s", err.text);
}

static void free_all(void) {
    int64_t i;
    for (i = 0; i < t.room; i++) {
        free(t.lines[i].text.data), free(t.lines[i].beside.data), free(t.lines[i].out.data);
        free(t.lines[i].ids), free(t.lines[i].target);
    }
    free(t.lines), free(t.order), free(t.ids), free(t.scratch.data);
    tfm_session_free(t.reader), tfm_session_free(t.session);
    tfm_model_free(t.model);
}

int main(int argc, char **argv) {
    FILE *beside = NULL;
    int64_t most, n_lines = 0;
    time_t start = time(NULL);
    int more = 1, status = 0, fault = 0;
    memset(&t, 0, sizeof t);
    parse_options(argc, argv);
    if (!is_open(0) || !is_open(1)) fail("standard %s is closed", is_open(0) ? "output" : "input");
    open_model();
    if (t.opt.beside) beside = open_file(t.opt.beside, "rb");
    if (t.opt.attention) t.picture = open_file(t.opt.attention, "wb");
    t.attention = t.opt.align;
    most = t.opt.batch == 1 ? 1 : (int64_t)t.opt.batch * WINDOW_BATCHES;
    while (more && !fault) {
        errno = 0;
        for (t.n = 0; more && t.n < most;)
            n_lines += more = read_lines(beside, n_lines + 1, &status);
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
        fprintf(stderr, "translate: %s: no sentence to draw\n", t.opt.attention);
        t.any_faulty = 1;
    }
    if (t.picture) close_picture();
    if (!status && t.any_faulty) status = EXIT_LINES;
    if (ferror(stdin) || ferror(stdout)) {
        fprintf(stderr, "translate: %s: %s\n", ferror(stdin) ? "reading" : "writing",
                strerror(fault));
        status = EXIT_USAGE;
    }
    if (beside) fclose(beside);
    free_all();
    return status;
}
