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
    "                          so is one whose tokenizing takes more than 3 kB for each of N\n"
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
enum { MOST_TOKENS = 1000000 }; /* of a line, whatever the options say */
enum { TOKEN_SCRATCH = 3136 };  /* bytes of the tokenizer's scratch for each of --max-source */

typedef struct options {
    const char *model;
    tfm_text_form form;
    int32_t batch, threads, max_length, max_source;
    int document, scores, align, per_token, sample;
    int32_t beam, n_best;
    const char *beside; /* the file of --prefix or --score: lines that go with those of the input */
    const char *prefix, *score, *attention;
    const char *from, *to; /* languages */
    tfm_decode_options decode;
} options;

/* Bytes that grow; data is terminated after append. */
typedef struct buffer {
    char *data;
    size_t size, room;
} buffer;

typedef struct ids {
    int32_t *data;
    int32_t n;
    size_t room;
} ids;

/* One line of input, or one sentence of a line, and what became of it. */
typedef struct line {
    int64_t number;   /* from 1 */
    int32_t sentence; /* from 1 in each line; 0 without --document */
    buffer text, beside;
    ids source, target; /* target: of the prefix or of the translation to score */
    buffer out;         /* without the last newline */
    int faulty;         /* reported already */
    int cut;            /* by too little memory */
    int done;           /* out is what is to be written */
} line;

/* What a session is made for. */
typedef struct shape {
    int32_t source, target; /* tokens: of a source; of a prefix, or of a target to score */
    int32_t rows;
    int attention;
} shape;

typedef struct translator {
    options opt;
    tfm_model *model;
    buffer scratch;   /* of the tokenizer */
    int32_t language; /* token before each source; -1: none */
    tfm_session *session;
    shape made;    /* rows 0: no session yet */
    shape rows_at; /* the last answer of rows_at */
    size_t memory; /* bytes that a session of several rows may have */
    int attention; /* 1: sessions keep it now */
    FILE *picture; /* of the attention; NULL: drawn, or not wanted */
    int any_faulty;
} translator;

/* ---- memory and messages -------------------------------------------------------------------- */

static void *grow(void *memory, size_t bytes) {
    void *grown = realloc(memory, bytes ? bytes : 1);
    if (!grown) {
        fprintf(stderr, "translate: no memory for %lu bytes\n", (unsigned long)bytes);
        exit(EXIT_USAGE);
    }
    return grown;
}

/* Room for n items of what the text of a line asks for: 0 where there is no memory for it. */
static int make_room(void **data, size_t *room, size_t n, size_t size) {
    void *grown = n > *room ? realloc(*data, n * size) : *data;
    if (grown && n > *room) *data = grown, *room = n;
    return grown || !n;
}

static void reserve(buffer *b, size_t more) {
    if (b->size + more + 1 > b->room)
        b->data = (char *)grow(b->data, b->room = 2 * b->room + more + 128);
}

static void append(buffer *b, const char *text, size_t size) {
    reserve(b, size);
    if (size) memcpy(b->data + b->size, text, size);
    b->data[b->size += size] = 0;
}

static void append_number(buffer *b, const char *before, double value) {
    char text[400]; /* a double of any size with four decimals */
    append(b, text, (size_t)snprintf(text, sizeof text, "%s%.4f", before, value));
}

static void push(ids *list, int32_t id) {
    if ((size_t)list->n + 1 > list->room)
        list->data =
            (int32_t *)grow(list->data, (list->room = 2 * list->room + 64) * sizeof *list->data);
    list->data[list->n++] = id;
}

/* Begins a message about a line. */
static void name_line(const line *l) {
    fprintf(stderr, "translate: line %ld", (long)l->number);
    if (l->sentence) fprintf(stderr, ", sentence %d", (int)l->sentence);
    fputs(": ", stderr);
}

static void report(translator *t, line *l, const char *cause) {
    name_line(l);
    fprintf(stderr, "%s\n", cause);
    l->faulty = l->done = t->any_faulty = 1;
}

/* A file of the user's, or the end of the program. */
static FILE *open_file(const char *path, const char *mode) {
    FILE *file = fopen(path, mode);
    if (!file) {
        fprintf(stderr, "translate: %s: %s\n", path, strerror(errno));
        exit(EXIT_USAGE);
    }
    return file;
}

/* Reads one line without its newline; 0 at the end of the input. A last line without newline
   counts. A line that memory cannot hold is read to its end and is *cut. */
static int read_line(FILE *in, buffer *b, int *cut) {
    int c;
    b->size = 0, *cut = 0;
    while ((c = getc(in)) != EOF && c != '\n') {
        if (b->size + 1 >= b->room && !*cut) {
            size_t room = 2 * b->room + 128;
            char *grown = b->size < INT32_MAX ? (char *)realloc(b->data, room) : NULL;
            if (grown) b->data = grown, b->room = room;
            else *cut = 1;
        }
        if (!*cut) b->data[b->size++] = (char)c;
    }
    return c != EOF || b->size > 0;
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

/* ---- the command line ----------------------------------------------------------------------- */

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
    char *end = NULL;
    double value = 0;
    if (o->kind == PATH && text) {
        *(const char **)o->to = text;
        return;
    }
    if (o->kind == PATH) {
        fprintf(stderr, "translate: %s takes the name of a file\n", o->name);
        exit(EXIT_USAGE);
    }
    if (o->kind == SEED) {
        errno = 0;
        if (text && *text >= '0' && *text <= '9')
            *(uint64_t *)o->to = (uint64_t)strtoull(text, &end, 10);
        if (end && !*end && !errno) return;
        fprintf(stderr, "translate: %s takes a whole number of up to 64 bits, not '%s'\n", o->name,
                text ? text : "");
        exit(EXIT_USAGE);
    }
    if (text && o->kind == COUNT) value = (double)strtol(text, &end, 10);
    else if (text) value = strtod(text, &end);
    if (!text || end == text || *end || !(value >= o->least && value <= o->most)) {
        fprintf(stderr, "translate: %s takes a number from %.7g to %.7g, not '%s'\n", o->name,
                o->least, o->most, text ? text : "");
        exit(EXIT_USAGE);
    }
    if (o->kind == COUNT) *(int32_t *)o->to = (int32_t)value;
    else *(double *)o->to = value;
}

static const option *find_option(const option *table, const char *name) {
    for (; table->name; table++)
        if (strcmp(table->name, name) == 0) return table;
    return NULL;
}

/* Options that contradict each other, or do nothing without another. */
static void check_together(const option *table) {
    const option *sample = find_option(table, "--sample"), *score = find_option(table, "--score");
    static const char *const of_lines[] = {"--tokens", "--prefix", "--score", "--scores",
                                           "--n-best", "--align",  NULL};
    const option *o;
    int i;
    for (i = 0; find_option(table, "--document")->given && of_lines[i]; i++)
        if (find_option(table, of_lines[i])->given) {
            fprintf(stderr, "translate: %s and --document do not go together\n", of_lines[i]);
            exit(EXIT_USAGE);
        }
    for (o = table; o->name; o++) {
        const option *needed = o->use == SAMPLING ? sample : o->use == SCORING ? score : NULL;
        const option *other = o->use == SEARCHING ? sample : NULL;
        if (!o->given) continue;
        if (score->given && (o->use == SEARCHING || o->use == TRANSLATING)) other = score;
        if (needed && !needed->given) {
            fprintf(stderr, "translate: %s needs %s\n", o->name, needed->name);
            exit(EXIT_USAGE);
        }
        if (other && other->given) {
            fprintf(stderr, "translate: %s and %s do not go together\n", o->name, other->name);
            exit(EXIT_USAGE);
        }
    }
}

static options parse_options(int argc, char **argv) {
    options o;
    tfm_decode_options *d = &o.decode;
    int tokens = 0, i;
    option table[] = {
        {"--document", FLAG, &o.document, 0, 0, ANY_USE, 0},
        {"--tokens", FLAG, &tokens, 0, 0, ANY_USE, 0},
        {"--batch", COUNT, &o.batch, 1, 1000000, ANY_USE, 0},
        {"--threads", COUNT, &o.threads, 1, 64, ANY_USE, 0},
        {"--max-source", COUNT, &o.max_source, 1, 1000000, ANY_USE, 0},
        {"--beam", COUNT, &o.beam, 1, 1000, SEARCHING, 0},
        {"--length-penalty", NUMBER, &d->length_penalty, -100, 100, TRANSLATING, 0},
        {"--max-length", COUNT, &o.max_length, 1, 1000000, TRANSLATING, 0},
        {"--min-length", COUNT, &d->min_length, 0, 1000000, TRANSLATING, 0},
        {"--no-repeat-ngram", COUNT, &d->no_repeat_ngram, 0, 1000000, TRANSLATING, 0},
        {"--repetition-penalty", NUMBER, &d->repetition_penalty, 0.01, 100, TRANSLATING, 0},
        {"--from", PATH, &o.from, 0, 0, ANY_USE, 0},
        {"--to", PATH, &o.to, 0, 0, ANY_USE, 0},
        {"--prefix", PATH, &o.prefix, 0, 0, TRANSLATING, 0},
        {"--sample", FLAG, &o.sample, 0, 0, TRANSLATING, 0},
        {"--temperature", NUMBER, &d->temperature, 0.01, 100, SAMPLING, 0},
        {"--top-k", COUNT, &d->top_k, 1, 1000000, SAMPLING, 0},
        {"--top-p", NUMBER, &d->top_p, 0.0001, 1, SAMPLING, 0},
        {"--seed", SEED, &d->seed, 0, 0, SAMPLING, 0},
        {"--scores", FLAG, &o.scores, 0, 0, TRANSLATING, 0},
        {"--n-best", COUNT, &o.n_best, 1, 1000, TRANSLATING, 0},
        {"--align", FLAG, &o.align, 0, 0, TRANSLATING, 0},
        {"--attention", PATH, &o.attention, 0, 0, TRANSLATING, 0},
        {"--score", PATH, &o.score, 0, 0, ANY_USE, 0},
        {"--per-token", FLAG, &o.per_token, 0, 0, SCORING, 0},
        {NULL, FLAG, NULL, 0, 0, ANY_USE, 0}};
    memset(&o, 0, sizeof o);
    for (i = 1; i < argc; i++) {
        const char *a = argv[i];
        option *known = (option *)find_option(table, a);
        if (strcmp(a, "--help") == 0) fputs(usage, stdout), exit(0);
        if (strcmp(a, "--version") == 0) printf("translate %s\n", tfm_version()), exit(0);
        if (known) {
            known->given = 1;
            if (known->kind == FLAG) *(int *)known->to = 1;
            else parse_value(known, i + 1 < argc ? argv[i + 1] : NULL), i++;
        } else if (a[0] == '-' && a[1]) {
            fprintf(stderr, "translate: unknown option '%s' (--help lists them)\n", a);
            exit(EXIT_USAGE);
        } else if (o.model) {
            fprintf(stderr, "translate: one model, not '%s' and '%s'\n", o.model, a);
            exit(EXIT_USAGE);
        } else o.model = a;
    }
    if (!o.model) fputs(usage, stderr), exit(EXIT_USAGE);
    check_together(table);
    if (o.beam && o.n_best > o.beam) {
        fprintf(stderr, "translate: --n-best %d needs a --beam of %d at least, not %d\n",
                (int)o.n_best, (int)o.n_best, (int)o.beam);
        exit(EXIT_USAGE);
    }
    if (o.max_length && d->min_length >= o.max_length) {
        fprintf(stderr, "translate: --min-length %d leaves no room for an end in --max-length %d\n",
                (int)d->min_length, (int)o.max_length);
        exit(EXIT_USAGE);
    }
    o.form = tokens ? TFM_FORM_ESCAPED : TFM_FORM_TEXT;
    o.beside = o.prefix ? o.prefix : o.score;
    if (!o.batch) o.batch = isatty(0) ? 1 : 16;
    if (!o.max_source) o.max_source = 4096;
    if (!o.n_best) o.n_best = 1;
    if (!o.beam) o.beam = o.n_best;
    d->max_length = o.max_length;
    if (o.sample) d->samples = o.n_best;
    else d->beam = o.beam, d->n_best = o.n_best;
    return o;
}

/* ---- target text to target tokens ----------------------------------------------------------- */

/* Bytes of the UTF-8 character at text, 0 if there is none. */
static size_t character_size(const char *text, size_t size) {
    uint32_t c = 0;
    size_t n = size ? sentence_char(text, size, &c) : 0;
    return n == 1 && c == 0xFFFD ? 0 : n;
}

/* Bytes of the white space at text, 0 if there is none. */
static size_t space_size(const char *text, size_t size) {
    uint32_t c = 0;
    size_t n = size ? sentence_char(text, size, &c) : 0;
    return sentence_is_space(c) ? n : 0;
}

/* tfm_tokenize, or tfm_tokenize_target. */
typedef tfm_status (*cutter)(const tfm_model *model, const char *text, size_t size,
                             tfm_text_form form, int32_t *ids, int32_t capacity, int32_t *count,
                             tfm_arena *scratch, tfm_error *err);

/* Text in tokens: asks what scratch it takes, and makes room. */
static tfm_status cut_text(translator *t, cutter cut, const buffer *text, ids *out,
                           tfm_error *err) {
    tfm_arena scratch = tfm_arena_measuring();
    size_t most;
    tfm_status status =
        cut(t->model, text->data, text->size, t->opt.form, NULL, 0, &out->n, &scratch, err);
    if (status != TFM_OK) return status;
    /* a token is a byte at least, of the text, of a mark before a word, or of what normalization
       adds, for which the scratch has 17 bytes and more; start and end come on top */
    most = 2 * text->size + scratch.peak / 17 + 3;
    if (scratch.peak / TOKEN_SCRATCH > (size_t)t->opt.max_source) {
        snprintf(err->text, sizeof err->text,
                 "tokenizing takes %lu bytes, more than %d for each of %d tokens (--max-source)",
                 (unsigned long)scratch.peak, (int)TOKEN_SCRATCH, (int)t->opt.max_source);
        return err->status = TFM_E_TOO_LONG;
    }
    if (!make_room((void **)&out->data, &out->room, most, sizeof *out->data) ||
        !make_room((void **)&t->scratch.data, &t->scratch.room, scratch.peak + 1, 1)) {
        snprintf(err->text, sizeof err->text, "too little memory to tokenize %lu bytes",
                 (unsigned long)text->size);
        return err->status = TFM_E_MEMORY;
    }
    scratch = tfm_arena_make(t->scratch.data, t->scratch.room);
    if (most > INT32_MAX) most = INT32_MAX;
    return cut(t->model, text->data, text->size, t->opt.form, out->data, (int32_t)most, &out->n,
               &scratch, err);
}

/* The line's prefix, or the translation to score, in tokens; reports what cannot be. An unknown
   token has a likelihood, but nobody wants a translation to begin with one. */
static void tokenize_target(translator *t, line *l) {
    const tfm_config *c = tfm_model_config(t->model);
    const char *what = t->opt.score ? "--score" : "--prefix";
    const buffer *b = &l->beside;
    ids *s = &l->target;
    int32_t n, i;
    int64_t most;
    tfm_error err;
    char cause[320];
    if (!b->size) return;
    if (cut_text(t, tfm_tokenize_target, b, s, &err) != TFM_OK) {
        snprintf(cause, sizeof cause, "%s: %s", what, err.text);
        report(t, l, cause);
        return;
    }
    for (i = 0; i < s->n && !t->opt.score; i++)
        if (s->data[i] == c->tgt_unk) {
            snprintf(cause, sizeof cause, "%s: token %d is not in the target vocabulary", what,
                     (int)i + 1);
            report(t, l, cause);
            return;
        }
    if (!s->n && !t->opt.score) return;
    /* what the library would refuse for the whole batch */
    most = c->max_positions ? c->max_positions : MOST_TOKENS;
    if (!t->opt.score && t->opt.max_length && t->opt.max_length < most) most = t->opt.max_length;
    n = s->n + (!t->opt.score && c->forced >= 0);
    if (n >= most) {
        snprintf(cause, sizeof cause, "%s: %d tokens leave no room for another, the limit is %d",
                 what, (int)n, (int)most);
        report(t, l, cause);
    }
}

/* ---- source text to source tokens ----------------------------------------------------------- */

/* Puts the language's token before the others, but behind src_start; a line that begins with
   ">>code<<" has it already. 0: the model needs a token, and there is none. */
static int put_language(const translator *t, ids *s) {
    const tfm_config *c = tfm_model_config(t->model);
    int32_t at = c->src_start >= 0, i;
    if (c->src_language == TFM_LANGUAGE_NONE || !s->n) return 1;
    for (i = 0; i < c->n_languages && c->src_language == TFM_LANGUAGE_TARGET; i++)
        if (s->data[at] == c->languages[i].id) return 1;
    if (t->language < 0) return 0;
    push(s, 0);
    memmove(s->data + at + 1, s->data + at, (size_t)(s->n - 1 - at) * sizeof *s->data);
    s->data[at] = t->language;
    return 1;
}

/* Tokenizes a line, and reports it if it cannot be translated. */
static void tokenize(translator *t, line *l) {
    const tfm_config *c = tfm_model_config(t->model);
    ids *s = &l->source;
    tfm_error err;
    char cause[128];
    s->n = l->target.n = 0, l->out.size = 0, l->faulty = l->done = 0;
    if (l->cut) {
        report(t, l, "too long for the memory at hand");
    } else if (cut_text(t, tfm_tokenize, &l->text, s, &err) != TFM_OK) {
        report(t, l, err.text);
    } else if (!put_language(t, s)) {
        report(t, l, "the model knows several languages: --from and --to choose");
    } else if (s->n > t->opt.max_source) {
        snprintf(cause, sizeof cause, "%d tokens, the limit is %d (--max-source)", (int)s->n,
                 (int)t->opt.max_source);
        report(t, l, cause);
    } else if (c->max_positions && s->n > c->max_positions) {
        snprintf(cause, sizeof cause, "%d tokens, the model has positions for %d", (int)s->n,
                 (int)c->max_positions);
        report(t, l, cause);
    } else if (t->opt.beside) tokenize_target(t, l);
    if (!l->faulty && !s->n && l->target.n)
        report(t, l,
               t->opt.score ? "blank, but its translation is not" : "blank, but its prefix is not");
}

/* The languages that were asked for are the model's. */
static tfm_status find_languages(translator *t, tfm_error *err) {
    const tfm_config *c = tfm_model_config(t->model);
    const char *first = c->src_language == TFM_LANGUAGE_SOURCE ? t->opt.from : t->opt.to;
    tfm_status status = TFM_OK;
    int32_t id;
    t->language = -1;
    if (t->opt.from) status = tfm_language_find(t->model, t->opt.from, &id, err);
    if (status == TFM_OK && t->opt.to) status = tfm_language_find(t->model, t->opt.to, &id, err);
    if (status == TFM_OK && c->src_language && first)
        status = tfm_language_find(t->model, first, &t->language, err);
    return status;
}

/* What only the model can tell about the options. */
static void check_against_model(const translator *t) {
    const tfm_config *c = tfm_model_config(t->model);
    int32_t longest = t->opt.max_length;
    if (longest < t->opt.decode.min_length + 1) longest = t->opt.decode.min_length + 1;
    if (c->max_positions && longest > c->max_positions) {
        fprintf(stderr, "translate: %s %d: the model has positions for %d tokens\n",
                longest == t->opt.max_length ? "--max-length" : "--min-length",
                (int)(longest == t->opt.max_length ? longest : longest - 1), (int)c->max_positions);
        exit(EXIT_USAGE);
    }
}

/* ---- sessions ------------------------------------------------------------------------------- */

/* Lengths are rounded up so that a session serves many batches. */
static int32_t round_length(int32_t length, int32_t least) {
    int32_t rounded = least;
    while (rounded < length) rounded = rounded ? 2 * rounded : 64;
    return rounded;
}

/* A session for the shape, whose lengths are rounded here. The target's limit must not decide where
   a sentence ends, or its output would depend on its batch. */
static tfm_session_options session_options(const translator *t, const shape *s) {
    const tfm_config *c = tfm_model_config(t->model);
    tfm_session_options o;
    int32_t target = round_length(s->target, 0);
    memset(&o, 0, sizeof o);
    o.max_batch = s->rows;
    o.max_beam = t->opt.sample ? t->opt.n_best : t->opt.beam;
    o.max_source = round_length(s->source, 64);
    if (t->opt.score) o.max_target = target + 1, o.max_beam = 1;
    else if (t->opt.max_length) o.max_target = t->opt.max_length;
    else o.max_target = 2 * o.max_source + 16 + target;
    if (o.max_target < t->opt.decode.min_length) o.max_target = t->opt.decode.min_length;
    if (c->max_positions && o.max_source > c->max_positions) o.max_source = c->max_positions;
    if (c->max_positions && o.max_target > c->max_positions) o.max_target = c->max_positions;
    o.attention = s->attention, o.threads = t->opt.threads;
    return o;
}

/* A full batch of long sentences, greedy: no session of several rows takes more. */
static void plan_memory(translator *t) {
    translator greedy = *t;
    tfm_session_options o;
    shape full;
    memset(&full, 0, sizeof full);
    greedy.opt.beam = greedy.opt.n_best = 1, greedy.opt.score = NULL;
    full.source = FULL_BATCH_SOURCE, full.rows = t->opt.batch;
    o = session_options(&greedy, &full);
    if (tfm_session_bytes(t->model, &o, &t->memory, NULL) != TFM_OK) t->memory = 0;
}

/* How many sentences of such lengths go together: all of a batch, or fewer where sentences, beams
   or attention are so large that memory would go to them. */
static int32_t rows_at(translator *t, int32_t source, int32_t target) {
    shape s;
    s.source = round_length(source, 64), s.target = round_length(target, 0);
    s.attention = t->attention;
    if (t->rows_at.rows && t->rows_at.source == s.source && t->rows_at.target == s.target &&
        t->rows_at.attention == s.attention)
        return t->rows_at.rows;
    for (s.rows = t->opt.batch; s.rows > 1; s.rows -= (s.rows + 7) / 8) {
        tfm_session_options o = session_options(t, &s);
        size_t bytes;
        if (tfm_session_bytes(t->model, &o, &bytes, NULL) == TFM_OK && bytes <= t->memory) break;
    }
    t->rows_at = s;
    return s.rows;
}

/* Makes sure that the session takes so many sentences of such lengths. */
static int fit_session(translator *t, int32_t rows, int32_t source, int32_t target,
                       tfm_error *err) {
    shape s;
    tfm_session_options o;
    if (source <= t->made.source && target <= t->made.target && rows <= t->made.rows &&
        t->attention == t->made.attention)
        return 1;
    tfm_session_free(t->session);
    t->session = NULL, memset(&t->made, 0, sizeof t->made);
    s.source = round_length(source, 64), s.target = round_length(target, 0);
    for (s.rows = 1; s.rows < rows;) s.rows *= 2; /* so many as there are, not as there may be */
    if (s.rows > t->opt.batch) s.rows = t->opt.batch;
    s.attention = t->attention;
    o = session_options(t, &s);
    if (tfm_session_create(&t->session, t->model, &o, err) != TFM_OK) return 0;
    t->made = s;
    if (!t->opt.from && !t->opt.to) return 1;
    return tfm_languages_set(t->session, t->opt.from, t->opt.to, err) == TFM_OK;
}

/* ---- a picture of the attention ------------------------------------------------------------- */

enum { MOST_DRAWN = 400 }; /* tokens each way */

/* Tokens, one after the other, each terminated. */
typedef struct labels {
    buffer text;
    int32_t n;
} labels;

static void add_label(labels *list, const char *text, size_t size) {
    append(&list->text, text, size);
    list->text.size++; /* keeps the terminator */
    list->n++;
}

/* The tokens of a source, as they stand in its text; with_spaces: white space between characters is
   a token. */
static void split_source(const translator *t, const line *l, int with_spaces, labels *out) {
    const tfm_config *c = tfm_model_config(t->model);
    int words = t->opt.form != TFM_FORM_TEXT || c->src_text == TFM_TEXT_WORDS, blank = 0;
    const char *text = l->text.data;
    size_t size = l->text.size, at, begin, n;
    out->n = 0, out->text.size = 0;
    if (c->src_start >= 0) add_label(out, "[start]", 7);
    for (at = 0; at < size;) {
        if ((n = space_size(text + at, size - at)) != 0) {
            at += n, blank = 1;
            continue;
        }
        if (blank && with_spaces && out->n > (c->src_start >= 0)) add_label(out, "\xE2\x96\x81", 3);
        begin = at, blank = 0;
        do at += character_size(text + at, size - at);
        while (words && at < size && !space_size(text + at, size - at));
        add_label(out, text + begin, at - begin);
    }
    if (c->src_end >= 0) add_label(out, "[end]", 5);
}

/* Where the text does not show what the tokens are: positions as --align counts them. */
static void number_source(const translator *t, const line *l, labels *out) {
    const tfm_config *c = tfm_model_config(t->model);
    int32_t start = c->src_start >= 0, i, n = l->source.n - (c->src_end >= 0);
    char number[16];
    out->n = 0, out->text.size = 0;
    if (start) add_label(out, "[start]", 7);
    for (i = start; i < n; i++)
        add_label(out, number, (size_t)snprintf(number, sizeof number, "%d", (int)(i - start)));
    if (c->src_end >= 0) add_label(out, "[end]", 5);
}

/* Draws the best hypothesis of row 0, which is that line's; once. */
static void draw_attention(translator *t, line *l, const tfm_result *result) {
    const tfm_config *c = tfm_model_config(t->model);
    labels across, down;
    buffer *token = &down.text;
    float *weights = NULL;
    tfm_tensor tensor;
    tfm_error err;
    int32_t i;
    memset(&across, 0, sizeof across), memset(&down, 0, sizeof down);
    split_source(t, l, 0, &across);
    if (across.n != l->source.n) split_source(t, l, 1, &across);
    if (across.n != l->source.n ||
        (c->src_text == TFM_TEXT_SENTENCEPIECE && t->opt.form == TFM_FORM_TEXT))
        number_source(t, l, &across);
    for (i = 0; i < result->length; i++) {
        size_t size = 0, room;
        tfm_status status = TFM_E_TOO_SMALL;
        for (room = 64; status == TFM_E_TOO_SMALL; room *= 2) {
            reserve(token, room);
            status = tfm_detokenize(t->model, result->ids + i, 1, TFM_FORM_TOKENS,
                                    token->data + token->size, room, &size, &err);
        }
        token->size += size + 1, down.n++;
    }
    if (down.n && across.n <= MOST_DRAWN && down.n <= MOST_DRAWN) {
        weights = (float *)grow(NULL, (size_t)across.n * (size_t)down.n * sizeof *weights);
        tensor = tfm_tensor_2d(weights, TFM_F32, down.n, across.n);
        if (tfm_result_attention(t->session, 0, 0, &tensor, &err) == TFM_OK)
            write_heat_map(t->picture, weights, down.text.data, down.n, across.text.data, across.n);
    } else {
        name_line(l);
        fprintf(stderr, "%s\n",
                down.n ? "too long to draw its attention: 400 tokens are the limit"
                       : "an empty translation has no attention to draw");
        t->any_faulty = 1;
    }
    free(weights), free(across.text.data), free(down.text.data);
}

/* ---- from results to output ----------------------------------------------------------------- */

/* The columns before a translation: all lines have them, blank and faulty ones too. */
static void append_columns(const translator *t, line *l, double score) {
    char number[32];
    if (t->opt.n_best > 1)
        append(&l->out, number, (size_t)snprintf(number, sizeof number, "%ld\t", (long)l->number));
    if (t->opt.scores) append_number(&l->out, "", score), append(&l->out, "\t", 1);
}

/* What pairs of positions follow a translation. */
static tfm_status append_alignment(translator *t, line *l, int32_t row, int32_t rank,
                                   int32_t length, tfm_error *err) {
    static ids sources;
    int32_t i, start = tfm_model_config(t->model)->src_start >= 0;
    const char *before = "\t";
    tfm_status status;
    for (sources.n = 0; sources.n <= length;) push(&sources, 0);
    status = tfm_result_alignment(t->session, row, rank, sources.data, err);
    if (status != TFM_OK) return status;
    if (!length) append(&l->out, "\t", 1);
    for (i = 0; i < length; i++) {
        char pair[64];
        if (sources.data[i] < start) continue; /* all pads */
        append(&l->out, pair,
               (size_t)snprintf(pair, sizeof pair, "%s%d-%d", before,
                                (int)(sources.data[i] - start), (int)i));
        before = " ";
    }
    return TFM_OK;
}

/* A line of output is one line: what breaks lines becomes a space, and so does TAB in a field. */
static size_t flatten(char *text, size_t size, int fields) {
    static const char *const breaks[] = {"\n",       "\r",           "\v",           "\f",
                                         "\xC2\x85", "\xE2\x80\xA8", "\xE2\x80\xA9", "\t"};
    size_t at = 0, to = 0, n = 0, i;
    while (at < size) {
        for (i = 0; i < (fields ? 8 : 7); i++) {
            n = strlen(breaks[i]);
            if (size - at >= n && memcmp(text + at, breaks[i], n) == 0) break;
        }
        if (i < (fields ? 8 : 7)) text[to++] = ' ', at += n;
        else text[to++] = text[at++];
    }
    return to;
}

/* One hypothesis of a row, as a line. */
static tfm_status append_hypothesis(translator *t, line *l, int32_t row, int32_t rank,
                                    tfm_result *result, tfm_error *err) {
    size_t room = 256, size = 0;
    tfm_status status = tfm_result_get(t->session, row, rank, result, err);
    if (status != TFM_OK) return status;
    if (rank) append(&l->out, "\n", 1);
    append_columns(t, l, result->score);
    do {
        reserve(&l->out, room);
        status = tfm_detokenize(t->model, result->ids, result->length, t->opt.form,
                                l->out.data + l->out.size, room, &size, err);
        room *= 2;
    } while (status == TFM_E_TOO_SMALL);
    if (status != TFM_OK) return status;
    if (t->opt.form == TFM_FORM_TEXT)
        size = flatten(l->out.data + l->out.size, size,
                       t->opt.n_best > 1 || t->opt.scores || t->opt.align);
    l->out.size += size;
    return t->opt.align ? append_alignment(t, l, row, rank, result->length, err) : TFM_OK;
}

/* A row's hypotheses, into its line. */
static void finish_line(translator *t, line *l, int32_t row) {
    int32_t rank, n = tfm_result_count(t->session, row);
    tfm_result result;
    tfm_error err;
    for (rank = 0; rank < n; rank++) {
        if (append_hypothesis(t, l, row, rank, &result, &err) != TFM_OK) {
            report(t, l, err.text);
            return;
        }
        if (result.finish == TFM_HIT_LENGTH) {
            name_line(l);
            fprintf(stderr, "stopped at its limit of %d tokens\n", (int)result.length);
        } else if (result.finish == TFM_STUCK) {
            name_line(l);
            fprintf(stderr, "no token was left to choose after %d\n", (int)result.length);
        }
        if (rank == 0 && t->attention && t->picture) draw_attention(t, l, &result);
    }
}

/* ---- batches -------------------------------------------------------------------------------- */

/* Rows of ids of different lengths, side by side. */
typedef struct table {
    int32_t *ids, *lengths;
    size_t room;
    tfm_batch batch;
} table;

/* The sources, or the targets, of lines[order[0 .. n)]. */
static void fill_table(table *f, line *lines, const int64_t *order, int32_t n, int targets) {
    int32_t row, width = 0;
    size_t cells;
    for (row = 0; row < n; row++) {
        const ids *from = targets ? &lines[order[row]].target : &lines[order[row]].source;
        if (from->n > width) width = from->n;
    }
    cells = (size_t)n * (size_t)width + (size_t)n;
    if (cells > f->room) f->ids = (int32_t *)grow(f->ids, (f->room = 2 * cells) * sizeof *f->ids);
    f->lengths = f->ids + (size_t)n * (size_t)width;
    for (row = 0; row < n; row++) {
        const ids *from = targets ? &lines[order[row]].target : &lines[order[row]].source;
        if (from->n)
            memcpy(f->ids + (size_t)row * (size_t)width, from->data,
                   (size_t)from->n * sizeof *f->ids);
        f->lengths[row] = from->n;
    }
    f->batch.ids = f->ids, f->batch.lengths = f->lengths;
    f->batch.rows = n, f->batch.width = width;
}

/* The log-probability of each row's target, and of its tokens. */
static tfm_status score_batch(translator *t, line *lines, const int64_t *order,
                              const tfm_batch *sources, const tfm_batch *targets, tfm_error *err) {
    size_t width = (size_t)targets->width + 1;
    double *scores = (double *)grow(NULL, (size_t)targets->rows * width * sizeof *scores);
    tfm_status status = tfm_score(t->session, sources, targets, scores, err);
    int32_t row, i;
    for (row = 0; status == TFM_OK && row < targets->rows; row++) {
        const double *each = scores + (size_t)row * width;
        line *l = &lines[order[row]];
        double sum = 0;
        for (i = 0; i <= l->target.n; i++) sum += each[i];
        append_number(&l->out, "", sum);
        for (i = 0; t->opt.per_token && i <= l->target.n; i++)
            append_number(&l->out, i ? " " : "\t", each[i]);
    }
    free(scores);
    return status;
}

/* Decodes to the end and takes the results. Line n is sampled with seed + n, in any batch. */
static tfm_status decode_batch(translator *t, line *lines, const int64_t *order,
                               const tfm_batch *sources, const tfm_batch *prefixes,
                               tfm_error *err) {
    tfm_decode_options decode = t->opt.decode;
    uint64_t *seeds = (uint64_t *)grow(NULL, (size_t)sources->rows * sizeof *seeds);
    int32_t row, running = 1;
    tfm_status status;
    for (row = 0; row < sources->rows; row++)
        seeds[row] = decode.seed + (uint64_t)lines[order[row]].number;
    decode.seeds = seeds;
    if (t->opt.prefix) decode.prefix = prefixes;
    status = tfm_start(t->session, sources, &decode, err);
    while (status == TFM_OK && running && !stopped) status = tfm_step(t->session, &running, err);
    for (row = 0; status == TFM_OK && !stopped && row < sources->rows; row++)
        finish_line(t, &lines[order[row]], row);
    free(seeds);
    return status;
}

/* Translates, or scores, lines[order[0 .. n)] together. */
static void translate_batch(translator *t, line *lines, const int64_t *order, int32_t n) {
    static table sources, targets;
    tfm_error err;
    tfm_status status = TFM_E_MEMORY;
    int32_t row;
    if (stopped) return;
    fill_table(&sources, lines, order, n, 0), fill_table(&targets, lines, order, n, 1);
    if (fit_session(t, n, sources.batch.width, targets.batch.width, &err))
        status = t->opt.score ? score_batch(t, lines, order, &sources.batch, &targets.batch, &err)
                              : decode_batch(t, lines, order, &sources.batch, &targets.batch, &err);
    if (status == TFM_E_MEMORY && n > 1) { /* fewer at a time take less */
        translate_batch(t, lines, order, n / 2);
        translate_batch(t, lines, order + n / 2, n - n / 2);
        return;
    }
    for (row = 0; row < n; row++)
        if (status != TFM_OK) report(t, &lines[order[row]], err.text);
        else lines[order[row]].done |= !stopped;
}

/* A picture that could not be written ends in exit status 2, like the output. */
static void close_picture(translator *t) {
    int broken = ferror(t->picture);
    if (fclose(t->picture) != 0 || broken) {
        fprintf(stderr, "translate: %s: %s\n", t->opt.attention, strerror(errno));
        exit(EXIT_USAGE);
    }
    t->picture = NULL;
}

static const line *sort_lines; /* qsort passes no context */
static int by_length(const void *a, const void *b) {
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    int32_t p = sort_lines[x].source.n, q = sort_lines[y].source.n;
    return p != q ? (p < q ? -1 : 1) : x < y ? -1 : x > y;
}

/* Lines that are read, translated and written together. */
typedef struct window {
    line *lines;
    int64_t *order; /* of translation */
    int64_t n, room;
} window;

static void translate_window(translator *t, window *w) {
    line *lines = w->lines;
    int64_t i, todo = 0, end, *order = w->order;
    for (i = 0; i < w->n; i++) {
        tokenize(t, &lines[i]);
        if (!lines[i].faulty && lines[i].source.n) order[todo++] = i;
        else lines[i].done = 1;
    }
    if (t->picture && todo) { /* the first sentence, alone: only it needs so large a session */
        t->attention = 1;
        translate_batch(t, lines, order++, 1);
        todo--;
        t->attention = t->opt.align;
        close_picture(t);
    }
    sort_lines = lines;
    if (todo) qsort(order, (size_t)todo, sizeof *order, by_length);
    for (i = 0; i < todo; i = end) {
        /* sources come in ascending length, targets in any */
        int32_t target = lines[order[i]].target.n;
        for (end = i + 1; end < todo; end++) {
            const line *l = &lines[order[end]];
            if (l->target.n > target) target = l->target.n;
            if (end - i >= rows_at(t, l->source.n, target)) break;
        }
        translate_batch(t, lines, order + i, (int32_t)(end - i));
    }
}

/* ---- from standard input to standard output ------------------------------------------------- */

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

/* The next line of a window, with the memory of an earlier one. */
static line *add_line(window *w, int64_t number, int32_t sentence) {
    line *l;
    if (w->n == w->room) {
        size_t room = 2 * (size_t)w->room + 16;
        w->lines = (line *)grow(w->lines, room * sizeof *w->lines);
        w->order = (int64_t *)grow(w->order, room * sizeof *w->order);
        memset(w->lines + w->room, 0, (room - (size_t)w->room) * sizeof *w->lines);
        w->room = (int64_t)room;
    }
    l = &w->lines[w->n++];
    l->number = number, l->sentence = sentence;
    l->text.size = l->beside.size = 0, l->cut = 0;
    return l;
}

/* Reads line number of the input and the one beside it into the window, or a paragraph's sentences;
   0 at the end, or where a file has fewer lines than the input, or more: *status says so. */
static int read_lines(const translator *t, FILE *beside, window *w, int64_t number, int *status) {
    static buffer text, other;
    const char *sentence;
    size_t at = 0, length;
    int32_t n = 0;
    int cut, other_cut = 0, more = read_line(stdin, &text, &cut);
    if (!more && ferror(stdin)) return 0;
    if (beside && read_line(beside, &other, &other_cut) != more) {
        fprintf(stderr, "translate: %s has %s lines than the input\n", t->opt.beside,
                more ? "fewer" : "more");
        *status = EXIT_USAGE;
        return 0;
    }
    if (!more) return 0;
    while (t->opt.document && !cut && next_sentence(text.data, text.size, &at, &sentence, &length))
        append(&add_line(w, number, ++n)->text, sentence, length);
    if (!n) { /* a blank paragraph is a line, too */
        line *l = add_line(w, number, t->opt.document);
        l->cut = cut || other_cut;
        append(&l->text, text.data, l->cut ? 0 : text.size);
        if (beside) append(&l->beside, other.data, l->cut ? 0 : other.size);
    }
    return 1;
}

/* Writes lines; up to the first that an interrupt left out. Sentences of a line stand in one, with a
   space between them where their language has spaces. */
static void write_window(const translator *t, window *w) {
    static buffer out;
    int64_t i, next;
    for (i = 0; i < w->n; i++) {
        line *l = &w->lines[i];
        for (next = i; next < w->n && (next == i || w->lines[next].sentence > 1); next++)
            if (!w->lines[next].done) return; /* nor those behind it */
        if (l->faulty || !l->source.n) l->out.size = 0, append_columns(t, l, 0);
        if (l->sentence > 1 && out.size && l->out.size && sentence_space_after(out.data, out.size))
            append(&out, " ", 1);
        append(&out, l->out.data, l->out.size);
        if (i + 1 < w->n && w->lines[i + 1].sentence > 1) continue;
        append(&out, "\n", 1);
        fwrite(out.data, 1, out.size, stdout);
        out.size = 0;
    }
}

int main(int argc, char **argv) {
    translator t;
    tfm_error err;
    window w;
    FILE *beside = NULL;
    int64_t i, most, n_lines = 0;
    time_t start = time(NULL);
    int more = 1, status = 0, fault = 0;
    memset(&t, 0, sizeof t), memset(&w, 0, sizeof w);
    t.opt = parse_options(argc, argv);
    if (!is_open(0) || !is_open(1)) {
        fprintf(stderr, "translate: standard %s is closed\n", is_open(0) ? "output" : "input");
        return EXIT_USAGE;
    }
    errno = 0;
    if (tfm_model_load_file(&t.model, t.opt.model, NULL, &err) != TFM_OK) {
        fault = errno;
        if (err.status == TFM_E_IO && fault)
            fprintf(stderr, "translate: %s: %s\n", err.text, strerror(fault));
        else if (err.status == TFM_E_IO) fprintf(stderr, "translate: %s\n", err.text);
        else fprintf(stderr, "translate: %s: %s\n", t.opt.model, err.text);
        return EXIT_USAGE;
    }
    if (find_languages(&t, &err) != TFM_OK) {
        fprintf(stderr, "translate: %s\n", err.text);
        tfm_model_free(t.model);
        return EXIT_USAGE;
    }
    check_against_model(&t);
    if (t.opt.beside) beside = open_file(t.opt.beside, "rb");
    if (t.opt.attention) t.picture = open_file(t.opt.attention, "wb");
    t.attention = t.opt.align;
    plan_memory(&t);
    most = t.opt.batch == 1 ? 1 : (int64_t)t.opt.batch * WINDOW_BATCHES;
    while (more) {
        for (w.n = 0; w.n < most; n_lines++) {
            errno = 0;
            more = read_lines(&t, beside, &w, n_lines + 1, &status);
            if (!more) break;
        }
        if (ferror(stdin)) fault = errno;
        hold_interrupts(1);
        translate_window(&t, &w);
        write_window(&t, &w);
        if (fflush(stdout) != 0 || ferror(stdout)) {
            fault = errno;
            break;
        }
        if (stopped) end_by_signal();
        hold_interrupts(0);
        show_progress(n_lines, start, !more);
    }
    if (t.picture) {
        fprintf(stderr, "translate: %s: no sentence to draw\n", t.opt.attention);
        t.any_faulty = 1;
        close_picture(&t);
    }
    if (!status && t.any_faulty) status = EXIT_LINES;
    if (ferror(stdin) || ferror(stdout)) {
        fprintf(stderr, "translate: %s: %s\n", ferror(stdin) ? "reading" : "writing",
                strerror(fault));
        status = EXIT_USAGE;
    }
    for (i = 0; i < w.room; i++) {
        free(w.lines[i].text.data), free(w.lines[i].beside.data), free(w.lines[i].out.data);
        free(w.lines[i].source.data), free(w.lines[i].target.data);
    }
    free(w.lines), free(w.order), free(t.scratch.data);
    if (beside) fclose(beside);
    tfm_session_free(t.session);
    tfm_model_free(t.model);
    return status;
}
