/* command.h: what can be said on the command line of translate, in `opt`.

       read_options(argc, argv);

   It ends the program where that cannot be, or where --help or --version is asked for; so do fail,
   fail_writing, and open_file where there is no such file. Include transformer.h before it. */
#ifndef COMMAND_H
#define COMMAND_H

#include "options.h"
#include <stdarg.h>
#ifdef _WIN32
#include <io.h>
#define isatty _isatty
#define is_open(file) ((file) >= 0)
#else
#include <fcntl.h>
#include <unistd.h>
#define is_open(file) (fcntl(file, F_GETFD) != -1) /* if not, the next file would get its number */
#endif

#if defined(__unix__) || defined(__APPLE__)
enum { PAUSES = 1 }; /* are seen where input is read */
#else
enum { PAUSES = 0 };
#endif

enum { EXIT_LINES = 1, EXIT_USAGE = 2 };

/* All that was given on the command line; 0: not given. */
static struct {
    const char *model, *from, *via, *to, *prefix, *score, *attention, *output;
    option_rest files;
    int document, tokens, align, per_token, sample, map;
    int scores; /* 2: of each token, too */
    int greedy, verbose, keep_going, f16_cache, truncate, protect, html, srt, markdown, wrapped;
    int32_t batch, threads, max_length, max_source, beam, n_best, column, first_line, width;
    tfm_decode_options decode;
    /* what follows from it */
    const char *second; /* model; NULL: there is one */
    const char *beside; /* the file of --prefix or --score */
    tfm_text_form form;
    int numbered; /* lines of output are numbered: one of input may have several */
} opt;

#ifdef TFM__ANALYZED /* analyzers do not look into such a function (make analyze) */
__attribute__((noreturn))
#endif
static void
fail(const char *format, ...) {
    va_list arguments;
    fputs("translate: ", stderr);
    va_start(arguments, format), vfprintf(stderr, format, arguments), va_end(arguments);
    fputs("\n", stderr);
    exit(EXIT_USAGE);
}

/* Ends the program without waiting for a thread that reads input. */
static void fail_writing(int fault) {
    fprintf(stderr, "translate: writing: %s\n", strerror(fault));
    _Exit(EXIT_USAGE);
}

/* A file of the user's, or the end of the program. */
static FILE *open_file(const char *path, const char *mode) {
    FILE *file = fopen(path, mode);
    if (!file) fail("%s: %s", path, strerror(errno));
    return file;
}

/* Options that contradict another, or do nothing without it. */
enum {
    NOT_DOCUMENT = 2,
    NOT_SAMPLE = 4,
    NOT_SCORE = 8,
    OF_SAMPLE = 16,
    OF_SCORE = 32,
    NOT_COLUMN = 64,
    OF_TOKENS = 128,
    NOT_SECOND = 256,
    OF_SECOND = 512,
    NOT_PROTECT = 1024,
    NOT_MARKUP = 2048,
    OF_WRAPPED = 4096
};

static option table[] = {
    {"usage: translate MODEL [MODEL2.safetensors] [FILE ...] [options] < in > out\n\n"
     "Translates files or standard input, a sentence a line, to standard output, a line each: "
     "what\n"
     "has come is answered where input pauses, at the latest when a batch is full. Where a\n"
     "translation has a line break of its own (or a tab, where tabs separate fields), the output\n"
     "has a space.\n\n"
     "A FILE right after MODEL whose name ends in .safetensors is a second model: what the first\n"
     "one makes of a line goes through the other. Options of search and sampling hold for both;\n"
     "--prefix, --alternatives, --n-best, --scores, --to are of the second, --from of the first.",
     NULL, OPTION_TEXT, NULL, 0, 0, 0, NULL},
    {"model", NULL, OPTION_OPERAND, &opt.model, 0, 0, 0, NULL},
    {"files", NULL, OPTION_REST, &opt.files, 0, 0, 0, NULL},
    {"\ninput", NULL, OPTION_TEXT, NULL, 0, 0, 0, NULL},
    {"--document", NULL, OPTION_FLAG, &opt.document, 0, 0, NOT_COLUMN,
     "lines are paragraphs: each is split into sentences, by rules for\n"
     "many languages; they are translated one by one and joined again"},
    {"--html", NULL, OPTION_FLAG, &opt.html, 0, 0,
     NOT_DOCUMENT | NOT_SECOND | NOT_COLUMN | NOT_SCORE,
     "the input is a document in HTML or XML: its text is translated by\n"
     "sentences, and has the tags where the alignment says; block tags end\n"
     "sentences; code and what says translate=\"no\" is copied"},
    {"--markdown", NULL, OPTION_FLAG, &opt.markdown, 0, 0,
     NOT_DOCUMENT | NOT_SECOND | NOT_COLUMN | NOT_SCORE,
     "the input is Markdown: as --html; what is wrapped is wrapped again, and\n"
     "code, addresses and front matter are copied"},
    {"--wrapped", NULL, OPTION_FLAG, &opt.wrapped, 0, 0,
     NOT_DOCUMENT | NOT_SECOND | NOT_COLUMN | NOT_SCORE,
     "the input is text in lines that were wrapped (mail with quotes, manual\n"
     "pages, books): paragraphs are translated by sentences and wrapped again"},
    {"--width", "N", OPTION_INTEGER, &opt.width, 20, 1000000, NOT_SCORE | OF_WRAPPED,
     "with --wrapped, --markdown: columns of a line (default: the input's)"},
    {"--srt", NULL, OPTION_FLAG, &opt.srt, 0, 0, NOT_DOCUMENT | NOT_SECOND | NOT_COLUMN | NOT_SCORE,
     "the input is subtitles, SubRip or WebVTT: numbers and times stay,\n"
     "sentences that run over lines or cues are translated whole and cut"},
    {"--tokens", NULL, OPTION_FLAG, &opt.tokens, 0, 0,
     NOT_DOCUMENT | NOT_SECOND | NOT_PROTECT | NOT_MARKUP,
     "lines are tokens of the vocabularies between spaces, in and out; in\n"
     "a token \\s \\t \\n \\v \\f \\r \\u0085 ... are whitespace, \\\\ a backslash"},
    {"--protect", NULL, OPTION_FLAG, &opt.protect, 0, 0, 0,
     "copy addresses, numbers with units, emoji and code: they are taken\n"
     "out of the source, and put back where the alignment says; a line in\n"
     "capitals is translated in small letters, and comes out in capitals"},
    {"--column", "N", OPTION_INTEGER, &opt.column, 1, 1000000, 0,
     "lines are rows of a table, with tabs between: translate column N\n"
     "(from 1) and keep the others"},
    {"--first-line", "N", OPTION_INTEGER, &opt.first_line, 1, INT32_MAX, 0,
     "the first line is number N, in messages, --n-best and --seed, as in\n"
     "the file that the input was cut from (default 1)"},
    {"--from", "CODE", OPTION_PATH, &opt.from, 0, 0, 0,
     "language of the source, for models of several (eng_Latn, fra ...)"},
    {"--to", "CODE", OPTION_PATH, &opt.to, 0, 0, 0, "language of the translation"},
    {"--via", "CODE", OPTION_PATH, &opt.via, 0, 0, OF_SECOND,
     "language between two models, for those of them that have several"},
    {"--batch", "N", OPTION_INTEGER, &opt.batch, 1, 1000000, 0,
     "sentences translated together, at most (default 64)"},
    {"--threads", "N", OPTION_INTEGER, &opt.threads, 1, 64, 0,
     "a worker each, with a batch of its own (default 1); a single line is\n"
     "shared by all; outputs are the same for any number"},
    {"--map", NULL, OPTION_FLAG, &opt.map, 0, 0, 0,
     "use MODEL where it lies on disk (packed ones, quantize --packed, load\n"
     "at once and are shared): nobody may change it or cut it short meanwhile"},
    {"--f16-cache", NULL, OPTION_FLAG, &opt.f16_cache, 0, 0, 0,
     "keep the decoder's keys and values in 16 bits: half the memory"},
    {"--max-source", "N", OPTION_INTEGER, &opt.max_source, 1, 1000000, 0,
     "a line of more than N source tokens is an error (default 4096), and\n"
     "so is one of more than 64 N bytes to tokenize"},
    {"--truncate", NULL, OPTION_FLAG, &opt.truncate, 0, 0, 0,
     "of more tokens than that, or than the model has positions for, the\n"
     "first are translated, and standard error says how many are left out"},
    {"\nsearch", NULL, OPTION_TEXT, NULL, 0, 0, 0, NULL},
    {"--beam", "N", OPTION_INTEGER, &opt.beam, 1, 1000, NOT_SCORE | NOT_SAMPLE,
     "hypotheses followed at each step (default: the model's, or 1, which\n"
     "is greedy, or --n-best)"},
    {"--greedy", NULL, OPTION_FLAG, &opt.greedy, 0, 0, 0,
     "leave out what the model file says of decoding, which is used where\n"
     "no option says otherwise (inspect shows it)"},
    {"--verbose", NULL, OPTION_FLAG, &opt.verbose, 0, 0, 0,
     "say on standard error what the model file says of decoding"},
    {"--length-penalty", "X", OPTION_NUMBER, &opt.decode.length_penalty, -100, 100, NOT_SCORE,
     "order hypotheses by sum / length^X (default: the model's, or 0)"},
    {"--max-length", "N", OPTION_INTEGER, &opt.max_length, 1, 1000000, NOT_SCORE,
     "at most N target tokens a sentence (default: the model's, or\n"
     "2 x source + 16)"},
    {"--min-length", "N", OPTION_INTEGER, &opt.decode.min_length, 0, 1000000, NOT_SCORE,
     "at least N, but within --max-length"},
    {"--no-repeat-ngram", "N", OPTION_INTEGER, &opt.decode.no_repeat_ngram, 0, 1000000, NOT_SCORE,
     "no N tokens in a row twice"},
    {"--repetition-penalty", "X", OPTION_NUMBER, &opt.decode.repetition_penalty, 0.01, 100,
     NOT_SCORE, "above 1: tokens that came before get less likely"},
    {"--prefix", "FILE", OPTION_PATH, &opt.prefix, 0, 0, NOT_SCORE | NOT_DOCUMENT | NOT_MARKUP,
     "line n of FILE is what translation n begins with; blank: anything"},
    {"--alternatives", "N", OPTION_INTEGER, &opt.decode.alternatives, 1, 1000,
     NOT_SCORE | NOT_SAMPLE | NOT_DOCUMENT | NOT_COLUMN | NOT_MARKUP,
     "the N likeliest ways to go on behind the prefix, each translated to\n"
     "its end: a line each, as --n-best"},
    {"--shortlist", NULL, OPTION_FLAG, &opt.decode.lexical_shortlist, 0, 0, NOT_SCORE,
     "only tokens that MODEL's lexicon has for those of the sentence, if it\n"
     "has one: faster, and a few translations are worse"},
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
    {"--score", "FILE", OPTION_PATH, &opt.score, 0, 0,
     NOT_DOCUMENT | NOT_COLUMN | NOT_SECOND | NOT_PROTECT,
     "do not translate: line n of FILE is the translation of line n, and\n"
     "the output its sum of log-probabilities"},
    {"--per-token", NULL, OPTION_FLAG, &opt.per_token, 0, 0, OF_SCORE,
     "with --score: then a tab and each token's, the end token's last (as\n"
     "--scores=tokens does)"},
    {"\noutput", NULL, OPTION_TEXT, NULL, 0, 0, 0, NULL},
    {"--output", "FILE", OPTION_PATH, &opt.output, 0, 0, 0, "write FILE, not standard output"},
    {"--keep-going", NULL, OPTION_FLAG, &opt.keep_going, 0, 0, 0,
     "exit status 0 although some lines could not be translated: they are\n"
     "counted on standard error"},
    {"--keep-end", NULL, OPTION_FLAG, &opt.decode.keep_end, 0, 0, NOT_SCORE | OF_TOKENS,
     "with --tokens: the end token too, where a translation has one"},
    {"--scores", "tokens", OPTION_FLAG, &opt.scores, 0, 0, NOT_DOCUMENT | NOT_MARKUP,
     "before each translation its score and a tab: the sum of\n"
     "log-probabilities, over length^X if there is a length penalty;\n"
     "=tokens: then each token's with spaces between, the end token's last\n"
     "(0 where there is none), and a tab"},
    {"--n-best", "N", OPTION_INTEGER, &opt.n_best, 1, 1000,
     NOT_SCORE | NOT_DOCUMENT | NOT_COLUMN | NOT_MARKUP,
     "the N best, a line each: number of the input line, tab, text"},
    {"--align", NULL, OPTION_FLAG, &opt.align, 0, 0,
     NOT_SCORE | NOT_DOCUMENT | NOT_SECOND | NOT_PROTECT | NOT_MARKUP,
     "after each translation a tab and pairs source-target of token\n"
     "positions from 0: what each target token attends to most"},
    {"--attention", "FILE", OPTION_PATH, &opt.attention, 0, 0,
     NOT_SCORE | NOT_SECOND | NOT_PROTECT | NOT_MARKUP,
     "draw the attention of the first sentence that is not blank: SVG,\n"
     "last layer, mean over heads"},
    {"--help", NULL, OPTION_STOP, NULL, 0, 0, 0, "this text; so does -h"},
    {"--version", NULL, OPTION_STOP, NULL, 0, 0, 0, "the number of this version"},
    {"\nExit status: 0 all lines translated, or --keep-going; 1 some line could not be (it is\n"
     "empty, and standard error says why); 2 wrong usage, no model, or input or output failed.\n"
     "An interrupt (Ctrl-C) ends it after the last line that is ready.",
     NULL, OPTION_TEXT, NULL, 0, 0, 0, NULL}};
enum { N_OPTIONS = sizeof table / sizeof *table };

static void check_together(void) {
    const struct {
        unsigned without, with;
        int on;
        const char *name;
    } rules[] = {{0, OF_TOKENS, opt.tokens, "--tokens"},
                 {NOT_DOCUMENT, 0, opt.document, "--document"},
                 {NOT_COLUMN, 0, opt.column != 0, "--column"},
                 {NOT_SECOND, OF_SECOND, opt.second != NULL, "a second model"},
                 {NOT_PROTECT, 0, opt.protect, "--protect"},
                 {NOT_MARKUP, 0, opt.html, "--html"},
                 {NOT_MARKUP, 0, opt.srt, "--srt"},
                 {NOT_MARKUP, 0, opt.markdown, "--markdown"},
                 {NOT_MARKUP, 0, opt.wrapped, "--wrapped"},
                 {0, OF_WRAPPED, opt.wrapped || opt.markdown, "--wrapped"},
                 {NOT_SAMPLE, OF_SAMPLE, opt.sample, "--sample"},
                 {NOT_SCORE, OF_SCORE, opt.score != NULL, "--score"}};
    size_t i, k;
    for (i = 0; i < N_OPTIONS; i++)
        for (k = 0; k < sizeof rules / sizeof *rules && table[i].marks & OPTION_GIVEN; k++) {
            if (table[i].marks & rules[k].without && rules[k].on)
                fail("%s and %s do not go together", table[i].name, rules[k].name);
            if (table[i].marks & rules[k].with && !rules[k].on)
                fail("%s needs %s", table[i].name, rules[k].name);
        }
    if (opt.beam && opt.n_best > opt.beam)
        fail("--n-best %d needs a --beam of %d at least, not %d", (int)opt.n_best, (int)opt.n_best,
             (int)opt.beam);
    if (opt.html + opt.srt + opt.markdown + opt.wrapped > 1)
        fail("%s and %s do not go together",
             opt.wrapped    ? "--wrapped"
             : opt.markdown ? "--markdown"
                            : "--html",
             opt.srt    ? "--srt"
             : opt.html ? "--html"
                        : "--markdown");
    if (opt.n_best && opt.decode.alternatives)
        fail("--n-best and --alternatives do not go together");
}

/* What a model says of decoding, with what was given on the command line over it. */
static tfm_decode_options take_defaults(const tfm_model *model, int is_last, const char *name) {
    tfm_decode_options d;
    int32_t n_best = is_last ? opt.n_best : 1;
    size_t i;
    tfm_decode_defaults(opt.greedy || opt.score ? NULL : model, &d);
    if (opt.verbose)
        fprintf(stderr,
                "translate: %s says: beam %d, length penalty %g, max length %d, min length %d, "
                "n-gram %d, repetition penalty %g (0: nothing; inspect shows all)\n",
                opt.greedy ? "--greedy" : name, (int)d.beam, d.length_penalty, (int)d.max_length,
                (int)d.min_length, (int)d.no_repeat_ngram, d.repetition_penalty);
    if (opt.sample) d.beam = 0, d.length_penalty = d.patience = 0, d.stop = TFM_STOP_ENOUGH;
    for (i = 0; i < N_OPTIONS; i++) {
        const char *from = (const char *)table[i].to, *begin = (const char *)&opt.decode;
        option_kind kind = table[i].kind;
        size_t size = kind == OPTION_INTEGER || kind == OPTION_FLAG ? 4 : sizeof(double);
        if (table[i].marks & OPTION_GIVEN && from >= begin && from < begin + sizeof opt.decode)
            memcpy((char *)&d + (from - begin), from, size);
    }
    if (opt.max_length) d.max_length = opt.max_length;
    if (opt.beam) d.beam = opt.beam;
    if (d.beam < n_best) d.beam = n_best;
    if (opt.sample) d.samples = n_best, d.beam = 0;
    else d.n_best = n_best;
    if (!is_last) d.alternatives = 0;
    if (d.max_length && d.min_length >= d.max_length)
        fail("--min-length %d leaves no room for an end in --max-length %d", (int)d.min_length,
             (int)d.max_length);
    return d;
}

/* Takes the second model out of the files. */
static void find_second(void) {
    static const char ending[] = ".safetensors";
    size_t size;
    int i;
    for (i = 0; i < opt.files.n; i++) {
        size = strlen(opt.files.at[i]);
        if (size < sizeof ending || strcmp(opt.files.at[i] + size + 1 - sizeof ending, ending) != 0)
            continue;
        if (i) fail("%s: a second model comes right after the first", opt.files.at[i]);
        opt.second = opt.files.at[0];
    }
    if (opt.second) opt.files.at++, opt.files.n--;
}

static void read_options(int argc, char **argv) {
    const option *stop = options_read(table, N_OPTIONS, argc, argv, fail);
    if (stop) {
        if (strcmp(stop->name, "--help") == 0) options_print(table, N_OPTIONS, stdout);
        else printf("translate %s\n", tfm_version());
        exit(0);
    }
    if (!opt.model) options_print(table, N_OPTIONS, stderr), exit(EXIT_USAGE);
    find_second();
    check_together();
    if (!is_open(0) && !opt.files.n) fail("standard input is closed");
    if (!is_open(1) && !opt.output) fail("standard output is closed");
    opt.form = opt.tokens ? TFM_FORM_ESCAPED : TFM_FORM_TEXT;
    opt.beside = opt.prefix ? opt.prefix : opt.score;
    opt.per_token |= opt.scores == 2;
    if (!opt.batch) opt.batch = PAUSES || !isatty(0) ? 64 : 1;
    if (!opt.first_line) opt.first_line = 1;
    if (!opt.max_source) opt.max_source = 4096;
    if (!opt.threads) opt.threads = 1;
    if (!opt.n_best) opt.n_best = 1;
    opt.numbered = opt.n_best > 1 || opt.decode.alternatives;
}

#endif
