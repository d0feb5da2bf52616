/* command.h: the command-line options of translate. Their values are in `opt`.

       read_options(argc, argv);

   read_options ends the program when the options are wrong and after --help or --version. fail and
   fail_writing always end the program; open_file does when it cannot open the file.
   Include transformer.h before this header. */
#ifndef COMMAND_H
#define COMMAND_H

#include "find_model.h"
#include "interrupts.h"
#include "kinds.h"
#include "messages.h"
#include "options.h"
#include "utf8_files.h"
#include <stdarg.h>
#ifdef _WIN32
#include <io.h>
#define isatty _isatty
#define is_open(file) ((file) >= 0)
#define END_OF_INPUT "Ctrl-Z and Enter"
#else
#include <fcntl.h>
#include <unistd.h>
#define is_open(file) (fcntl(file, F_GETFD) != -1) /* or the next file gets its number */
#define END_OF_INPUT "Ctrl-D"
#endif

#if defined(__unix__) || defined(__APPLE__)
enum { PAUSES = 1 }; /* 1: reader.h detects when the input pauses */
#else
enum { PAUSES = 0 };
#endif

enum { EXIT_LINES = 1, EXIT_USAGE = 2 };

/* The options of the command line; 0 or NULL for those that were not given. */
static struct {
    const char *model, *text, *from, *via, *to, *prefix, *drafts, *score, *attention, *output,
        *terms, *lang, *sentences, *format, *input;
    option_rest files;
    int document, tokens, align, per_token, sample, map, exact;
    int scores; /* 1: the score of each translation; 2: also of each token */
    int greedy, verbose, keep_going, progress, no_progress, f16_cache, truncate, protect, html, srt,
        markdown, wrapped, plain, no_protect, all_languages, live, json;
    int32_t batch, threads, max_length, max_source, beam, n_best, column, first_line, width,
        cue_width, cue_lines;
    tfm_decode_options decode;
    uint64_t seed;
    /* derived from the options above */
    const char *second; /* path of the second model; NULL: there is only one model */
    const char *beside; /* the file of --prefix, --drafts or --score */
    tfm_text_form form;
    const char *one_text; /* an option that reads a line as one text; NULL: there is none */
    int is_told;          /* the user said what kind the input is */
    int numbered;         /* output lines begin with the input line's number: it may have several */
} opt;

#ifdef TFM__ANALYZED /* tells the analyzers of `make analyze` that fail does not return */
__attribute__((noreturn))
#endif
static void
fail(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format), output_complain("translate", format, arguments), va_end(arguments);
    if (interrupts_word) fputs(interrupts_word, stderr);
    exit(EXIT_USAGE);
}

/* Reports that the output cannot be written and ends the program at once: exit() could wait for a
   thread that is reading input. */
static void fail_writing(int fault) {
    fprintf(stderr, "translate: writing: %s\n", strerror(fault));
    if (interrupts_word) fputs(interrupts_word, stderr);
    _Exit(EXIT_USAGE);
}

/* Opens a file that the user named; ends the program with a message if it cannot be opened. */
static FILE *open_file(const char *path, const char *mode) {
    FILE *file = utf8_open(path, mode);
    if (!file) fail("%s: %s", path, strerror(errno));
    return file;
}

/* Marks of options: NOT_X contradicts option X, OF_X has no effect without option X. */
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
    OF_WRAPPED = 4096,
    NOT_PROGRESS = 8192,
    OF_HTML = 16384,
    OF_SRT = 32768,
    OF_LIVE = 65536,
    LIVE = 131072 /* goes with --live; other options do not */
};

static option_entry table[] = {
    {"usage: translate MODEL [MODEL2.safetensors] [FILE ... | TEXT] [options] < in > out\n\n"
     "Translates files, a text or standard input, line by line, to standard output, one line for\n"
     "each. MODEL is a file, or a name such as de-en: de-en.safetensors in a folder of\n"
     "$TRANSFORMER_MODELS, where `transformer-model get de-en` writes, or beside the program. A "
     "pair\n"
     "without a model of its own is translated through English by two.\n"
     "Output is flushed whenever the input pauses, at the latest when a batch is full.\n"
     "A line break inside a translation is written as a space, and so is a tab if tabs separate\n"
     "fields of the output.\n\n"
     "If the FILE right after MODEL ends in .safetensors, it is a second model, and it translates\n"
     "the output of the first. Search and sampling options apply to both models. --prefix, "
     "--drafts,\n"
     "--alternatives, --n-best, --scores and --to apply to the second only, --from to the first.\n"
     "Tags and copied text are placed by the alignment: for each word of the translation, the\n"
     "source word to which the model attended most.",
     NULL, OPTION_TEXT, NULL, 0, 0, 0, NULL},
    {"model", NULL, OPTION_OPERAND, &opt.model, 0, 0, 0, NULL},
    {"files", NULL, OPTION_REST, &opt.files, 0, 0, 0, NULL},
    {"\ninput", NULL, OPTION_TEXT, NULL, 0, 0, 0, NULL},
    {"--text", "TEXT", OPTION_PATH, &opt.text, 0, 0, 0,
     "translate TEXT. An operand with white space that is no file is a text, too"},
    {"--document", NULL, OPTION_FLAG, &opt.document, 0, 0, NOT_COLUMN,
     "as --sentences split, for lines that are paragraphs: if one sentence\n"
     "cannot be translated, the others of its line are written"},
    {"--live", NULL, OPTION_FLAG, &opt.live, 0, 0, LIVE,
     "translate a text while it comes, word by word, until its line ends. Words\n"
     "are written when they are stable, and never change. A terminal also shows,\n"
     "in grey, the words that may still change. The search is greedy. With a\n"
     "second model, the stable words of the first one are the second one's text"},
    {"--json", NULL, OPTION_FLAG, &opt.json, 0, 0, LIVE | OF_LIVE,
     "with --live: write an object with source, stable_text, text and done for\n"
     "each word that has come. stable_text is the beginning of text, and only\n"
     "grows until done is true; then it is all of text"},
    {"--input", "WORD", OPTION_PATH, &opt.input, 0, 0, LIVE | OF_LIVE,
     "with --live: text, or json for the lines of transcribe --live --format\n"
     "json. Default: json if the first byte of the input is {"},
    {"--plain", NULL, OPTION_FLAG, &opt.plain, 0, 0, 0,
     "give each sentence to the model as it is. Without it, if the model file\n"
     "says that the model reads sentences, labels (1. , •), reference marks,\n"
     "brackets, emoji and unseen characters around a sentence are kept, and\n"
     "text in capitals, without letters or without end is treated specially"},
    {"--all-languages", NULL, OPTION_FLAG, &opt.all_languages, 0, 0, 0,
     "translate also sentences that are already in the language of the\n"
     "translation, and text that the document says is in another language\n"
     "than the model reads (lang, <lang> of WebVTT, classes of SAMI). Without\n"
     "it they stay as they are, and are counted"},
    {"--sentences", "WORD", OPTION_PATH, &opt.sentences, 0, 0, NOT_SCORE,
     "split or whole: how a line of several sentences is read. split: by rules\n"
     "for many languages, and its translation is what its sentences alone\n"
     "give, with the whitespace between them. whole: a line is one text, and\n"
     "a paragraph of --html and the like. Default: what the model file says\n"
     "(inspect shows it). If it does not say it, lines are whole and\n"
     "documents are split"},
    {"--format", "KIND", OPTION_PATH, &opt.format, 0, 0, 0,
     "lines, html, markdown, srt or wrapped: the kind of the input. srt is also\n"
     "WebVTT, ASS and the lines of transcribe --timestamps. Without this\n"
     "option, and those of the kinds, the names and first bytes of the files\n"
     "decide; other files and standard input are lines"},
    {"--html", NULL, OPTION_FLAG, &opt.html, 0, 0, NOT_DOCUMENT | NOT_COLUMN | NOT_SCORE,
     "the input is an HTML or XML document: translate its text by sentences.\n"
     "Tags keep their words. Block tags end sentences. Code and elements\n"
     "with translate=\"no\" are copied. alt, aria-label, placeholder, title\n"
     "and the description in meta are translated, too"},
    {"--lang", "CODE", OPTION_PATH, &opt.lang, 0, 0, OF_HTML,
     "with --html: the language that the html element's lang attribute gets\n"
     "(default: that of --to, or what the model file says; if neither says\n"
     "one, the attribute stays)"},
    {"--markdown", NULL, OPTION_FLAG, &opt.markdown, 0, 0, NOT_DOCUMENT | NOT_COLUMN | NOT_SCORE,
     "the input is Markdown: translate it as --html does. Wrapped paragraphs\n"
     "are wrapped again. Code, addresses and front matter are copied"},
    {"--wrapped", NULL, OPTION_FLAG, &opt.wrapped, 0, 0, NOT_DOCUMENT | NOT_COLUMN | NOT_SCORE,
     "the input is wrapped text (mail with quotes, manual pages, books):\n"
     "translate its paragraphs by sentences and wrap them again"},
    {"--width", "N", OPTION_INTEGER, &opt.width, 20, 1000000, NOT_SCORE | OF_WRAPPED,
     "with --wrapped or --markdown: wrap at N columns (default: the width of\n"
     "the input)"},
    {"--srt", NULL, OPTION_FLAG, &opt.srt, 0, 0, NOT_DOCUMENT | NOT_COLUMN | NOT_SCORE,
     "the input is subtitles (SubRip, WebVTT, ASS, MicroDVD, MPL2 ...): numbers,\n"
     "times and styles stay. A sentence over several lines or cues is translated\n"
     "as a whole, and the translation is divided again. Times of sung syllables\n"
     "are dropped"},
    {"--cue-width", "N", OPTION_INTEGER, &opt.cue_width, 1, 1000000, NOT_SCORE | OF_SRT,
     "with --srt: the lines of a cue whose text became longer have at most N\n"
     "characters (default 42; 16 in Chinese, Japanese and Korean). Cues that do\n"
     "not fit are counted on standard error"},
    {"--cue-lines", "N", OPTION_INTEGER, &opt.cue_lines, 1, 1000000, NOT_SCORE | OF_SRT,
     "the same of the number of lines (default 2)"},
    {"--tokens", NULL, OPTION_FLAG, &opt.tokens, 0, 0,
     NOT_DOCUMENT | NOT_SECOND | NOT_PROTECT | NOT_MARKUP,
     "input and output lines are vocabulary tokens separated by spaces. In a\n"
     "token, \\s \\t \\n \\v \\f \\r \\u0085 ... mean whitespace, \\\\ a backslash"},
    {"--protect", NULL, OPTION_FLAG, &opt.protect, 0, 0, 0,
     "copy addresses, numbers with units, emoji and code: remove them from\n"
     "the source and insert them in the translation. A line in capitals is\n"
     "translated in small letters, and its translation is written in\n"
     "capitals"},
    {"--no-protect", NULL, OPTION_FLAG, &opt.no_protect, 0, 0, NOT_PROTECT,
     "do not copy such text in a document, where --protect is the default if\n"
     "the model file says that the model reads sentences"},
    {"--terms", "FILE", OPTION_PATH, &opt.terms, 0, 0, NOT_SECOND,
     "use the terms of FILE: a line has a word or words of the source, a tab\n"
     "and the translation. The term replaces the words of the translation\n"
     "that the alignment names. Only whole words match, in either case;\n"
     "each inflected form needs its own line. ! before the source: only this\n"
     "case. Blank lines and lines that begin with # are comments"},
    {"--column", "N", OPTION_INTEGER, &opt.column, 1, 1000000, 0,
     "lines are rows of a table with tabs between columns: translate column\n"
     "N (from 1) and copy the others"},
    {"--first-line", "N", OPTION_INTEGER, &opt.first_line, 1, INT32_MAX, 0,
     "the number of the first input line (default 1), for messages, --n-best\n"
     "and --seed; for input that is a part of a larger file"},
    {"--from", "CODE", OPTION_PATH, &opt.from, 0, 0, LIVE,
     "language of the source, for multilingual models (eng_Latn, fra ...)"},
    {"--to", "CODE", OPTION_PATH, &opt.to, 0, 0, LIVE,
     "language of the translation, for multilingual models"},
    {"--via", "CODE", OPTION_PATH, &opt.via, 0, 0, OF_SECOND | LIVE,
     "language between two models of which one or both are multilingual"},
    {"--batch", "N", OPTION_INTEGER, &opt.batch, 1, 1000000, 0,
     "translate up to N sentences together (default 64), fewer if they are long"},
    {"-j, --threads", "N", OPTION_INTEGER, &opt.threads, 1, 64, LIVE,
     "use N threads (default 1), each with its own batch; a single line is\n"
     "shared by all threads. The output is the same for any N"},
    {"--map", NULL, OPTION_FLAG, &opt.map, 0, 0, LIVE,
     "map MODEL into memory: models made by quantize --packed load at once,\n"
     "and processes share them. Nothing may change or truncate the file\n"
     "meanwhile"},
    {"--exact", NULL, OPTION_FLAG, &opt.exact, 0, 0, LIVE,
     "compute the same bits as other machines also where that is slower (on\n"
     "x86-64 without AVX2, in WebAssembly, bf16 weights with AMX or BF16)"},
    {"--f16-cache", NULL, OPTION_FLAG, &opt.f16_cache, 0, 0, LIVE,
     "store the decoder's keys and values in 16 bits: half the memory"},
    {"--max-source", "N", OPTION_INTEGER, &opt.max_source, 1, 1000000, 0,
     "reject lines of more than N source tokens (default 4096), and lines\n"
     "that need more than 64 N bytes to tokenize"},
    {"--truncate", NULL, OPTION_FLAG, &opt.truncate, 0, 0, 0,
     "instead of rejecting a line of too many tokens for --max-source or for\n"
     "the model's positions, translate its first ones, and write to standard\n"
     "error how many are left out"},
    {"\nsearch", NULL, OPTION_TEXT, NULL, 0, 0, 0, NULL},
    {"--beam", "N", OPTION_INTEGER, &opt.beam, 1, 1000, NOT_SCORE | NOT_SAMPLE,
     "keep N hypotheses at each step (default: the model's, or 1, which is\n"
     "greedy; at least --n-best)"},
    {"--greedy", NULL, OPTION_FLAG, &opt.greedy, 0, 0, NOT_SCORE | LIVE,
     "ignore the decoding defaults of the model file; without --greedy they\n"
     "apply wherever no option is given (inspect shows them)"},
    {"--verbose", NULL, OPTION_FLAG, &opt.verbose, 0, 0, LIVE,
     "write the decoding defaults of the model file to standard error"},
    {"--length-penalty", "X", OPTION_NUMBER, &opt.decode.length_penalty, -100, 100, NOT_SCORE,
     "rank hypotheses by their sum of log-probabilities divided by length^X,\n"
     "the length in tokens (default: the model's, or 0). With --beam 1 or\n"
     "--sample it changes no translation, only --scores"},
    {"--max-length", "N", OPTION_INTEGER, &opt.max_length, 1, 1000000, NOT_SCORE,
     "stop each sentence after N target tokens (default: the model's, or\n"
     "twice the source's tokens plus 16)"},
    {"--min-length", "N", OPTION_INTEGER, &opt.decode.min_length, 0, 1000000, NOT_SCORE,
     "generate at least N target tokens, fewer than --max-length (default:\n"
     "the model's, or 0)"},
    {"--no-repeat-ngram", "N", OPTION_INTEGER, &opt.decode.no_repeat_ngram, 0, 1000000, NOT_SCORE,
     "never repeat a sequence of N tokens (default: the model's, or 0: off)"},
    {"--repetition-penalty", "X", OPTION_NUMBER, &opt.decode.repetition_penalty, 0.01, 100,
     NOT_SCORE,
     "above 1: make tokens that were already generated less likely (default:\n"
     "the model's, or 1)"},
    {"--prefix", "FILE", OPTION_PATH, &opt.prefix, 0, 0, NOT_SCORE | NOT_DOCUMENT | NOT_MARKUP,
     "begin the translation of line n with line n of FILE, unless it is blank"},
    {"--drafts", "FILE", OPTION_PATH, &opt.drafts, 0, 0,
     NOT_SCORE | NOT_SAMPLE | NOT_DOCUMENT | NOT_MARKUP,
     "line n of FILE is a guess of the translation of line n, such as the\n"
     "translation before an edit: saves time if lines come one by one. The\n"
     "output is the same without FILE. Needs a greedy search (--beam 1)"},
    {"--alternatives", "N", OPTION_INTEGER, &opt.decode.alternatives, 1, 1000,
     NOT_SCORE | NOT_SAMPLE | NOT_DOCUMENT | NOT_COLUMN | NOT_MARKUP,
     "write the N most likely continuations of the prefix, each translated\n"
     "to its end, one per line as --n-best does"},
    {"--shortlist", NULL, OPTION_FLAG, &opt.decode.lexical_shortlist, 0, 0, NOT_SCORE,
     "consider only target tokens that MODEL's lexicon lists for the\n"
     "sentence's tokens: faster, but a few translations get worse"},
    {"\nsampling", NULL, OPTION_TEXT, NULL, 0, 0, 0, NULL},
    {"--sample", NULL, OPTION_FLAG, &opt.sample, 0, 0, NOT_SCORE,
     "draw tokens at random instead of searching; --n-best N draws N\n"
     "independent samples"},
    {"--temperature", "X", OPTION_NUMBER, &opt.decode.temperature, 0.01, 100, OF_SAMPLE,
     "above 1: more random; below 1: less random (default 1)"},
    {"--top-k", "N", OPTION_INTEGER, &opt.decode.top_k, 1, 1000000, OF_SAMPLE,
     "draw only from the N most probable tokens (default: from all)"},
    {"--top-p", "X", OPTION_NUMBER, &opt.decode.top_p, 0.0001, 1, OF_SAMPLE,
     "draw only from the smallest set of most probable tokens whose total\n"
     "probability is at least X (default 1)"},
    {"--seed", "N", OPTION_SEED, &opt.seed, 0, 0, OF_SAMPLE,
     "draw line n with seed N + n (default 0)"},
    {"\nscoring", NULL, OPTION_TEXT, NULL, 0, 0, 0, NULL},
    {"--score", "FILE", OPTION_PATH, &opt.score, 0, 0,
     NOT_DOCUMENT | NOT_COLUMN | NOT_SECOND | NOT_PROTECT,
     "do not translate: score line n of FILE as the translation of line n,\n"
     "and write the sum of its tokens' log-probabilities (base e)"},
    {"--per-token", NULL, OPTION_FLAG, &opt.per_token, 0, 0, OF_SCORE,
     "with --score: also write a tab and the log-probability of each token,\n"
     "the end token's last (as --scores=tokens does)"},
    {"\noutput", NULL, OPTION_TEXT, NULL, 0, 0, 0, NULL},
    {"-o, --output", "FILE", OPTION_PATH, &opt.output, 0, 0, LIVE,
     "write to FILE instead of standard output"},
    {"--keep-going", NULL, OPTION_FLAG, &opt.keep_going, 0, 0, LIVE,
     "exit with status 0 even if some lines could not be translated; write\n"
     "their number to standard error"},
    {"--progress", NULL, OPTION_FLAG, &opt.progress, 0, 0, 0,
     "write progress to standard error, with the time left, and a summary.\n"
     "This is the default on a terminal if the output does not go there"},
    {"--no-progress", NULL, OPTION_FLAG, &opt.no_progress, 0, 0, NOT_PROGRESS | LIVE,
     "never write progress"},
    {"--keep-end", NULL, OPTION_FLAG, &opt.decode.keep_end, 0, 0, NOT_SCORE | OF_TOKENS,
     "with --tokens: write the end token too, if the translation has one"},
    {"--scores", "tokens", OPTION_FLAG, &opt.scores, 0, 0, NOT_DOCUMENT | NOT_MARKUP,
     "write the score and a tab before each translation: the sum of\n"
     "log-probabilities (base e), divided by length^X with a length penalty.\n"
     "=tokens adds the log-probability of each token, separated by spaces,\n"
     "the end token's last (0 if there is none), and a tab. With --score,\n"
     "which always writes scores, only =tokens changes the output"},
    {"--n-best", "N", OPTION_INTEGER, &opt.n_best, 1, 1000,
     NOT_SCORE | NOT_DOCUMENT | NOT_COLUMN | NOT_MARKUP,
     "write the N best translations (default 1), one per line: the number of\n"
     "the input line, a tab, the text"},
    {"--align", NULL, OPTION_FLAG, &opt.align, 0, 0,
     NOT_SCORE | NOT_DOCUMENT | NOT_SECOND | NOT_PROTECT | NOT_MARKUP,
     "write a tab and the alignment after each translation: source-target\n"
     "pairs of token positions from 0, with the source token that each target\n"
     "token attends to most"},
    {"--attention", "FILE", OPTION_PATH, &opt.attention, 0, 0,
     NOT_SCORE | NOT_SECOND | NOT_PROTECT | NOT_MARKUP,
     "draw the attention of the first sentence that is not blank as SVG: the\n"
     "mean over the heads of the last layer, or over the alignment heads that\n"
     "the model file names"},
    {"--help", NULL, OPTION_STOP, NULL, 0, 0, 0, "print this text; so does -h"},
    {"--version", NULL, OPTION_STOP, NULL, 0, 0, 0, "print the version number"},
    {"\nexamples\n"
     "    translate de-en 'Guten Tag.'\n"
     "    translate de-en letter.txt --document -o letter.en.txt\n"
     "    translate de-en page.html > page.en.html\n"
     "    translate de-en lines.txt -j 4 --beam 4 --progress > lines.en.txt\n"
     "    translate de-en lines.txt --n-best 3 --scores > best.txt\n"
     "    translate zh-en.safetensors en-de.safetensors lines.txt > lines.de.txt",
     NULL, OPTION_TEXT, NULL, 0, 0, 0, NULL},
    {"\nExit status: 0: all lines were translated, or --keep-going was given. 1: some lines could\n"
     "not be translated; each is empty in the output, with a message on standard error. 2: wrong\n"
     "usage, no model, or input or output failed. An interrupt (Ctrl-C) ends the program after\n"
     "the last line that is ready. The file of --output is whole or stays as it was: after an\n"
     "interrupt or a failure, FILE.part has the lines that were ready.",
     NULL, OPTION_TEXT, NULL, 0, 0, 0, NULL}};
enum { N_OPTIONS = sizeof table / sizeof *table };

/* Ends the program with a message if two of the given options contradict each other, or if one of
   them has no effect without an option that is missing. */
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
                 {NOT_PROTECT, 0, opt.terms != NULL, "--terms"},
                 {NOT_MARKUP, OF_HTML, opt.html, "--html"},
                 {NOT_MARKUP, OF_SRT, opt.srt, "--srt"},
                 {NOT_MARKUP, 0, opt.markdown, "--markdown"},
                 {NOT_MARKUP, 0, opt.wrapped, "--wrapped"},
                 {0, OF_WRAPPED, opt.wrapped || opt.markdown, "--wrapped"},
                 {NOT_PROGRESS, 0, opt.progress, "--progress"},
                 {NOT_SAMPLE, OF_SAMPLE, opt.sample, "--sample"},
                 {NOT_SCORE, OF_SCORE, opt.score != NULL, "--score"},
                 {0, OF_LIVE, opt.live, "--live"}};
    size_t i, k;
    for (i = 0; i < N_OPTIONS; i++)
        for (k = 0; k < sizeof rules / sizeof *rules && table[i].marks & OPTION_GIVEN; k++) {
            if (table[i].marks & rules[k].without && rules[k].on)
                fail("%s and %s do not go together", option_name(&table[i]), rules[k].name);
            if (table[i].marks & rules[k].with && !rules[k].on)
                fail("%s needs %s", option_name(&table[i]), rules[k].name);
        }
    for (i = 0; i < N_OPTIONS && opt.live; i++)
        if (*table[i].name == '-' && table[i].marks & OPTION_GIVEN && !(table[i].marks & LIVE))
            fail("%s and --live do not go together", option_name(&table[i]));
    if (opt.live && opt.text) fail("a text on the command line and --live do not go together");
    if (opt.input && strcmp(opt.input, "text") && strcmp(opt.input, "json"))
        fail("--input %s: give text or json", opt.input);
    if (opt.beam && opt.n_best > opt.beam)
        fail("--n-best %d needs a --beam of at least %d, not %d", (int)opt.n_best, (int)opt.n_best,
             (int)opt.beam);
    if (opt.html + opt.srt + opt.markdown + opt.wrapped > 1)
        fail("%s and %s do not go together",
             opt.wrapped    ? "--wrapped"
             : opt.markdown ? "--markdown"
                            : "--html",
             opt.srt    ? "--srt"
             : opt.html ? "--html"
                        : "--markdown");
    if (opt.sentences && strcmp(opt.sentences, "split") && strcmp(opt.sentences, "whole"))
        fail("--sentences %s: give split or whole", opt.sentences);
    if (opt.sentences && (opt.tokens || (opt.document && *opt.sentences == 'w')))
        fail("--sentences%s and %s do not go together", opt.tokens ? "" : " whole",
             opt.tokens ? "--tokens" : "--document");
    if (opt.sentences && *opt.sentences == 's' && opt.one_text)
        fail("--sentences split and %s do not go together", opt.one_text);
    if (opt.drafts && (opt.prefix || opt.decode.alternatives))
        fail("--drafts and %s do not go together", opt.prefix ? "--prefix" : "--alternatives");
    if (opt.n_best && opt.decode.alternatives)
        fail("--n-best and --alternatives do not go together");
}

/* Returns the model's decoding defaults, overridden by the options that were given. is_last says
   whether the model is the last that lines go through; name is what --verbose calls it. */
static tfm_decode_options take_defaults(const tfm_model *model, int is_last, const char *name) {
    tfm_decode_options d;
    int32_t n_best = is_last ? opt.n_best : 1;
    size_t i;
    memset(&d, 0, sizeof d);
    if (!opt.greedy && !opt.score) d = *tfm_model_decoding(model);
    if (opt.verbose)
        fprintf(stderr,
                "translate: %s says: beam %d, length penalty %g, max length %d, min length %d, "
                "n-gram %d, repetition penalty %g (0: not set; inspect shows all)\n",
                opt.greedy ? "--greedy" : name, (int)d.beam, d.length_penalty, (int)d.max_length,
                (int)d.min_length, (int)d.no_repeat_ngram, d.repetition_penalty);
    if (opt.sample) d.beam = 0, d.length_penalty = d.patience = 0, d.stop = TFM_STOP_CTRANSLATE2;
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
    if (opt.beam && !opt.sample) d.samples = 0; /* of the model file */
    if (opt.sample) d.samples = n_best, d.beam = 0;
    else d.n_best = n_best;
    if (!is_last) d.alternatives = 0;
    if (opt.drafts && is_last && d.beam > 1)
        fail("--drafts needs a greedy search: give --beam 1, not %d", (int)d.beam);
    if (d.max_length && d.min_length >= d.max_length)
        fail("--min-length %d leaves no room for an end in --max-length %d", (int)d.min_length,
             (int)d.max_length);
    return d;
}

/* Moves the second model's path from opt.files to opt.second, if there is one. */
static void find_second(void) {
    static const char ending[] = ".safetensors";
    size_t size;
    int i;
    for (i = 0; i < opt.files.n; i++) {
        size = strlen(opt.files.at[i]);
        if (size < sizeof ending || strcmp(opt.files.at[i] + size + 1 - sizeof ending, ending) != 0)
            continue;
        if (i) fail("%s: the second model must come right after the first", opt.files.at[i]);
        opt.second = opt.files.at[0];
    }
    if (opt.second) opt.files.at++, opt.files.n--;
}

/* Replaces the name of the model by the path of its file. A pair of languages may take two
   models. */
static void find_models(void) {
    static char *paths[2]; /* they stay until main is called again */
    char message[1200];
    free(paths[0]), free(paths[1]);
    paths[0] = find_model(opt.model), paths[1] = NULL;
    if (!paths[0] && !opt.second) (void)find_pair(opt.model, &paths[0], &paths[1]);
    if (!paths[0] && find_is_name(opt.model)) {
        find_message(opt.model, message, sizeof message);
        fail("%s", message);
    }
    if (paths[0]) opt.model = paths[0];
    if (paths[1]) opt.second = paths[1];
}

/* Makes the only operand the text to translate if it has white space and is no file. */
static void find_text(void) {
    if (opt.text && opt.files.n) fail("--text and %s do not go together", opt.files.at[0]);
    if (opt.files.n != 1 || !strpbrk(opt.files.at[0], " \t\n") || find_is_file(opt.files.at[0]))
        return;
    opt.text = opt.files.at[0], opt.files.n = 0;
}

/* Sets the option of a kind of document. */
static void take_form(kind_form form) {
    opt.html = form == KIND_HTML, opt.markdown = form == KIND_MARKDOWN;
    opt.srt = form == KIND_SRT, opt.wrapped = form == KIND_WRAPPED;
}

/* Returns the name of an option that was given and that only lines have, or NULL. */
static const char *option_of_lines(void) {
    const unsigned marks = NOT_MARKUP | OF_TOKENS | OF_SCORE;
    size_t i;
    if (opt.document) return "--document";
    if (opt.column) return "--column";
    if (opt.tokens) return "--tokens";
    if (opt.score) return "--score";
    for (i = 0; i < N_OPTIONS; i++)
        if (table[i].marks & OPTION_GIVEN && table[i].marks & marks) return option_name(&table[i]);
    return NULL;
}

/* Decides what kind of input there is: by --format, by the option of a kind, or by the files'
   names. */
static void find_format(void) {
    const kind_entry *first = NULL, *kind;
    kind_form form;
    int i;
    opt.is_told = opt.html || opt.markdown || opt.srt || opt.wrapped || opt.format;
    if (opt.format) {
        if (!kind_of_word(opt.format, &form))
            fail("--format %s: the kinds are lines, html, markdown, srt and wrapped", opt.format);
        if ((opt.html && form != KIND_HTML) || (opt.markdown && form != KIND_MARKDOWN) ||
            (opt.srt && form != KIND_SRT) || (opt.wrapped && form != KIND_WRAPPED))
            fail("--format %s and --%s do not go together", opt.format,
                 opt.html       ? "html"
                 : opt.markdown ? "markdown"
                 : opt.srt      ? "srt"
                                : "wrapped");
        take_form(form);
        return;
    }
    if (opt.is_told) return;
    for (i = 0; i < opt.files.n; i++) {
        kind = kind_of_name(opt.files.at[i]);
        if (i && (kind ? kind->form : KIND_LINES) != (first ? first->form : KIND_LINES))
            fail("%s and %s are of different kinds: translate them one by one, or give --format",
                 opt.files.at[0], opt.files.at[i]);
        first = kind;
    }
    if (!first || first->form >= KIND_OTHER) return;
    if (option_of_lines()) {
        fprintf(stderr, "translate: %s is taken as lines, because of %s\n", opt.files.at[0],
                option_of_lines());
        opt.is_told = 1;
        return;
    }
    take_form(first->form);
}

/* Ends the program if the input has a structure that no reader knows. start and named are what its
   first bytes and its name say. Of text in a file that is called .txt, and of standard input, the
   first bytes are only a hint. */
static void refuse_structure(const char *name, const kind_entry *start, const kind_entry *named,
                             int is_plain) {
    const int is_start =
        start && start->form == KIND_STRUCTURED && !is_plain &&
        (!named || named->form >= KIND_OTHER || (named->form == KIND_HTML && *start->start == '<'));
    const int is_named = named && named->form > KIND_OTHER;
    const kind_entry *kind = !start || (is_named && kind_is_general(start)) ? named
                             : is_start                                     ? start
                                                                            : NULL;
    if (!kind || kind->form <= KIND_OTHER || (kind->form == KIND_TABLE && opt.column)) return;
    fail("%s is %s; %s", name ? name : "the input", kind->name, kind->advice);
}

/* Compares the kind of the input with its first bytes, and writes to standard error what is taken.
   name is NULL for standard input. Ends the program if the input is no text, or has another
   structure. */
static void check_format(const char *name, const char *bytes, size_t n) {
    const kind_entry *start = kind_of_start(bytes, n), *named = name ? kind_of_name(name) : NULL;
    const char *shown = name ? name : "the input", *by_name = named ? named->name : "lines";
    const size_t size = name ? strlen(name) : 0;
    const int is_plain = !name || (size > 4 && strcmp(name + size - 4, ".txt") == 0);
    kind_form taken = opt.html       ? KIND_HTML
                      : opt.markdown ? KIND_MARKDOWN
                      : opt.srt      ? KIND_SRT
                      : opt.wrapped  ? KIND_WRAPPED
                                     : KIND_LINES;
    static const char *const forms[] = {"lines", "HTML", "Markdown", "subtitles", "wrapped text"};
    if (start && start->form == KIND_OTHER) {
        if (named && named->form == KIND_OTHER && !*named->start && *start->start == 'P')
            start = named; /* which kind of zip archive it is */
        fail("%s is %s; %s", shown, start->name, start->advice);
    }
    if (named && named->form == KIND_OTHER && !opt.is_told) {
        if (n) /* its bytes are not those of its name */
            fail("%s has the name of %s, but its first bytes are not: a damaged file, or give "
                 "--format",
                 name, named->name);
        return;
    }
    if (opt.is_told) {
        kind_form said = start ? start->form : named ? named->form : taken;
        if (opt.format && said != taken && n)
            fprintf(stderr, "translate: %s is taken as %s, as --format says, not as %s\n", shown,
                    forms[taken], start ? start->name : by_name);
        return;
    }
    if (n) refuse_structure(name, start, named, is_plain);
    if (start && start->form < KIND_OTHER && start->form != taken && !is_plain &&
        !option_of_lines()) {
        take_form(start->form);
        fprintf(stderr,
                "translate: %s is taken as %s, as its first bytes say, not as %s (--format "
                "changes that)\n",
                name, start->name, by_name);
        return;
    }
    if (taken != KIND_LINES && name)
        fprintf(stderr, "translate: %s is taken as %s (--format lines: one sentence a line)\n",
                name, by_name);
    else if (taken == KIND_LINES && start && start->form < KIND_OTHER)
        fprintf(stderr,
                "translate: %s is taken as lines, but looks like %s; --format %s translates it\n",
                shown, start->name, start->form == KIND_HTML ? "html" : "srt");
    else if (taken == KIND_LINES && start && !named)
        fprintf(stderr, "translate: %s is taken as lines, but looks like %s; %s\n", shown,
                start->name, start->advice);
    else if (taken == KIND_LINES && name && n && !option_of_lines())
        fprintf(stderr,
                "translate: %s is taken as lines (--document: a paragraph a line; --wrapped: "
                "wrapped text)\n",
                name);
}

/* Prints what a person needs who gave no model. */
static void print_usage(FILE *f) {
    fputs("usage: translate MODEL [FILE ... | TEXT] [options] < in > out\n"
          "Translates each line of text. Examples:\n"
          "    translate de-en 'Guten Tag.'\n"
          "    translate de-en letter.txt --document -o letter.en.txt\n"
          "    translate de-en film.srt > film.en.srt\n"
          "Often used: --document (paragraphs), --format html (or markdown, srt), --beam N,\n"
          "    -j N (threads), -o FILE (output). translate --help describes all options.\n",
          f);
}

/* Reads and checks the command line, and sets the defaults in `opt`. */
static void read_options(int argc, char **argv) {
    const option_entry *stop = options_read(table, N_OPTIONS, argc, argv, fail);
    if (stop) {
        if (strcmp(stop->name, "--help") == 0) options_print(table, N_OPTIONS, stdout);
        else printf("translate %s\n", tfm_version());
        exit(output_finish("translate") ? 0 : EXIT_USAGE);
    }
    if (!opt.model) print_usage(stderr), exit(EXIT_USAGE);
    find_second();
    find_text();
    find_format();
    opt.one_text = opt.prefix                ? "--prefix"
                   : opt.decode.alternatives ? "--alternatives"
                   : opt.n_best > 1          ? "--n-best"
                   : opt.align               ? "--align"
                                             : NULL;
    check_together();
    find_models();
    if (!is_open(0) && !opt.files.n && !opt.text) fail("standard input is closed");
    if (!is_open(1) && !opt.output) fail("standard output is closed");
    opt.form = opt.tokens ? TFM_TEXT_FORM_ESCAPED : TFM_TEXT_FORM_TEXT;
    opt.beside = opt.prefix ? opt.prefix : opt.drafts ? opt.drafts : opt.score;
    opt.per_token |= opt.scores == 2;
    if (!opt.batch) opt.batch = PAUSES || !isatty(0) ? 64 : 1;
    if (!opt.first_line) opt.first_line = 1;
    if (!opt.max_source) opt.max_source = 4096;
    if (!opt.threads) opt.threads = 1;
    if (!opt.n_best) opt.n_best = 1;
    opt.numbered = opt.n_best > 1 || opt.decode.alternatives;
}

#endif
