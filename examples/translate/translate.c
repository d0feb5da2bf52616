/* translate: reads text, and writes one line of translation for each line.

       translate MODEL [MODEL2.safetensors] [FILE ... | TEXT] [options] < in > out

   cc -O2 -I. -Itools/common examples/translate/translate.c -o translate -lm

   The program reads lines a window at a time and sorts each window by length, because a batch of
   lines of similar length has little padding. Each batch is a job for a worker thread, which
   tokenizes and translates the lines with its own sessions and keeps the output in memory. Windows
   are written in input order while the workers go on with later windows. Line n of the output is
   always the translation of line n of the input; it is empty if the input line is blank or cannot
   be translated. The output does not depend on --batch or --threads. With two models a job runs
   through the first model, its lines are sorted again, and it runs through the second. */
#if !defined(_WIN32) && !defined(__APPLE__) && !defined(_POSIX_C_SOURCE) /* macOS hides less */
#define _POSIX_C_SOURCE 200809L                                          /* sigaction */
#endif
#define TRANSFORMER_IMPLEMENTATION
#if !defined(_WIN32) && !defined(__wasm__)
#define TRANSFORMER_MMAP /* --map */
#endif
#include "part_file.h"
#include "transformer.h"
#include "aligned.h"
#include "attention.h"
#include "batches.h"
#include "command.h"
#include "documents.h"
#include "input.h"
#include "interrupts.h"
#include "progress.h"
#include "live_lines.h"
#include "text/languages.h"
#include "workers.h"
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { WINDOW_BATCHES = 16 };   /* batches in a window */
enum { MOST_TOKENS = 1000000 }; /* longest target, for models without a limit of their own */
enum { MOST_LINE = 4096 };      /* longest line, in bytes for each token of --max-source */
enum { MOST_TARGET = 128 };     /* longest target to tokenize, in the same */
enum { DRAFT_TOKENS = 8 };      /* tokens of a draft that a step verifies at most */
enum { MOST_DRAWN = 400 };      /* most tokens of the source, and of the target, in a picture */

/* The state that each worker thread has for each model. */
typedef struct worker {
    const struct stage *of;
    tfm_session *reader;               /* tokenizes */
    tfm_session *session;              /* translates */
    batches_memory kept;               /* the session's memory */
    int32_t reader_source;             /* longest source, in tokens, that the reader accepts */
    int32_t rows, length[INPUT_SIDES]; /* largest batch that the session accepts */
    int32_t attention;                 /* whether the session keeps the attention weights */
    int32_t threads;                   /* threads that the session uses */
    int keep_attention;                /* whether the next batch needs the attention weights */
    text_buffer ids;                   /* tokens of the job's lines */
    terms_found found;                 /* with --terms: the terms of the line at hand */
    tfm_error err;                     /* of the last call that failed */
} worker;

/* A model that lines go through. */
typedef struct stage {
    const char *path;
    tfm_model *model;
    const tfm_config *config;
    int is_last;
    size_t limit;              /* most bytes for the session of several lines */
    int32_t most_source;       /* longest line, in tokens */
    tfm_decode_options decode; /* the model's defaults, overridden by the options that were given */
    worker states[WORKERS_MOST];
} stage;

static struct {
    stage stages[2];
    int n_stages;
    int32_t threads; /* of each session: --threads until a window has several jobs, then 1 */
    input_stream in;
    workers_pool pool;
    terms_list list; /* of --terms */
    languages_table languages;
    int looks; /* whether sentences that are already in the language of the translation stay */
    input_window windows[WORKERS_GROUPS];
    part_file made;      /* of --output */
    FILE *out, *picture; /* picture NULL: already drawn, or --attention was not given */
    int64_t n_failed;    /* lines that could not be translated */
    int64_t bytes;       /* size of the input; 0: not known */
    int any_failed;
    int split, whole; /* what the first model reads: sentences, or whole texts */
    int64_t n_left, n_divided, n_unknown; /* sentences, for the last line on standard error */
    int advised;                          /* the advice about the input's encoding is written */
    int started;                          /* main was called */
    int shows;                            /* progress */
    int is_read;                          /* the output is read while it comes */
    progress shown;                       /* this and what follows is guarded by the pool's lock */
    struct {
        int64_t lines, bytes;
    } done, ahead[WORKERS_GROUPS]; /* of the input; ahead: of windows that are not yet written */
    size_t most_lines;             /* of a window */
    double written;                /* when the last window was */
} t;

/* ---- messages ------------------------------------------------------------------------------- */

/* Stores a message about a line; write_line writes it to standard error, so messages are in the
   order of the lines. me names the model if there are two; NULL names none. With fault the line
   counts as one that cannot be translated. */
static void report(const worker *me, input_item *l, int fault, const char *format, ...) {
    va_list arguments;
    text_buffer_format(&l->said, "translate: %s %ld", t.in.next ? "sentence" : "line",
                       (long)l->number);
    if (l->sentence) text_buffer_format(&l->said, ", sentence %d", (int)l->sentence);
    text_buffer_append(&l->said, ": ", 2);
    if (me && t.n_stages > 1) text_buffer_format(&l->said, "%s: ", me->of->path);
    va_start(arguments, format);
    text_buffer_vformat(&l->said, format, arguments);
    va_end(arguments);
    text_buffer_append(&l->said, "\n", 1);
    if (fault) l->faulty = l->failed = l->done = 1;
}

/* Returns TFM_E_MEMORY with text as its message, like a call of the library that failed. */
static tfm_status no_memory(worker *me, const char *text) {
    snprintf(me->err.text, sizeof me->err.text, "%s", text);
    return TFM_E_MEMORY;
}

/* Shows how far the input is. Any thread may call this function. */
static void show_progress(void) {
    char text[100];
    int64_t lines = 0, bytes = 0;
    double share = 0;
    int i;
    if (!t.shows) return;
    workers_lock(&t.pool);
    if (progress_is_due(&t.shown)) {
        lines = t.done.lines, bytes = t.done.bytes;
        for (i = 0; i < WORKERS_GROUPS; i++) lines += t.ahead[i].lines, bytes += t.ahead[i].bytes;
        if (t.bytes) share = (double)bytes / (double)t.bytes;
        snprintf(text, sizeof text, "%ld line%s, %.1f a second", (long)lines, lines == 1 ? "" : "s",
                 (double)lines / progress_seconds(&t.shown));
        progress_show(&t.shown, share, text);
    }
    workers_unlock(&t.pool);
}

/* ---- tokens --------------------------------------------------------------------------------- */

/* Creates a session and sets its languages: --from and --to, or with two models --from and --via
   for the first, --via and --to for the second. */
static tfm_status make_session(worker *me, tfm_session **session, const tfm_session_options *o) {
    const char *via = me->of->config->n_languages ? opt.via : NULL;
    const char *from = me->of == t.stages ? opt.from : via, *to = me->of->is_last ? opt.to : via;
    tfm_status status = tfm_session_create(session, me->of->model, o, &me->err);
    if (status == TFM_OK && (from || to)) status = tfm_languages_set(*session, from, to, &me->err);
    return status;
}

/* Replaces the worker's reader by a larger one, up to the model's longest line. It begins at 64
   tokens, because a reader for --max-source would take memory that most inputs never need. */
static tfm_status grow_reader(worker *me) {
    tfm_session *smaller = me->reader;
    tfm_session_options o;
    tfm_status status;
    memset(&o, 0, sizeof o);
    o.max_source = me->reader_source ? 8 * me->reader_source : 64, o.max_target = 1;
    if (o.max_source > me->of->most_source) o.max_source = me->of->most_source;
    status = make_session(me, &me->reader, &o);
    if (status == TFM_OK) tfm_session_free(smaller), me->reader_source = o.max_source;
    return status;
}

/* Records that the n tokens behind the end of me->ids, which the caller has reserved and written,
   belong to one side of a line. */
static void keep_ids(worker *me, input_item *l, int side, int32_t n) {
    l->ids[side] = me->ids.size;
    l->n[side] = n;
    me->ids.size += (size_t)n * sizeof(int32_t);
}
/* Returns the tokens that begin at byte `at` of me->ids. */
static int32_t *ids_of(const worker *me, size_t at) {
    return (int32_t *)(void *)(me->ids.data + at);
}

/* Tokenizes a line's source; --truncate sets *left_out to the number of tokens that it drops. spans
   gets the bytes of each token and may be NULL. */
static tfm_status tokenize_source(worker *me, input_item *l, tfm_span *spans, int32_t *left_out) {
    tfm_tokens tokens;
    *left_out = 0;
    tfm_status status = me->reader ? TFM_OK : grow_reader(me);
    while (status == TFM_OK) {
        if (!text_buffer_reserve(&me->ids, (size_t)me->reader_source * sizeof(int32_t)))
            return no_memory(me, "too long for the memory at hand");
        memset(&tokens, 0, sizeof tokens);
        tokens.ids = ids_of(me, me->ids.size), tokens.spans = spans;
        tokens.capacity = me->reader_source;
        tokens.truncate = opt.truncate && me->reader_source == me->of->most_source;
        status =
            tfm_session_tokenize(me->reader, &l->text[INPUT_SOURCE], opt.form, &tokens, &me->err);
        if (status == TFM_OK) {
            *left_out = tokens.left_out;
            keep_ids(me, l, INPUT_SOURCE, tokens.n);
            break;
        }
        if (status == TFM_E_TOO_LONG && me->reader_source < me->of->most_source)
            status = grow_reader(me);
    }
    return status;
}

/* Tokenizes the line's prefix or draft, or its translation to score. */
static tfm_status tokenize_target(worker *me, input_item *l) {
    const tfm_text text = l->text[INPUT_TARGET];
    int32_t n = 0;
    tfm_status status = TFM_E_MEMORY;
    if (text.size / MOST_TARGET <= (size_t)opt.max_source)
        status =
            tfm_model_tokenize_target(me->of->model, text, opt.form, NULL, 0, &n, NULL, &me->err);
    if (status == TFM_E_MEMORY || !text_buffer_reserve(&me->ids, (size_t)n * sizeof(int32_t)))
        return no_memory(me, "too long for --max-source, or for memory");
    if (status == TFM_OK)
        status = tfm_model_tokenize_target(me->of->model, text, opt.form, ids_of(me, me->ids.size),
                                           n, &n, NULL, &me->err);
    if (status == TFM_OK) keep_ids(me, l, INPUT_TARGET, n);
    return status;
}

/* Tokenizes a line's target and reports targets that cannot be used. An unknown token can be
   scored, but a prefix with one is rejected, since the translation would begin with it. Prefixes
   that are too long are found here, because the library would reject the whole batch for one of
   them. */
static void check_target(worker *me, input_item *l) {
    const char *option_name = opt.score ? "--score" : "--prefix";
    int32_t i, n,
        most = me->of->config->max_positions ? me->of->config->max_positions : MOST_TOKENS;
    if (opt.drafts) { /* a draft changes no output, so a line without tokens of it is translated */
        if (l->text[INPUT_TARGET].size && tokenize_target(me, l) != TFM_OK)
            report(me, l, 0, "--drafts: %s", me->err.text);
        return;
    }
    if (l->text[INPUT_TARGET].size && tokenize_target(me, l) != TFM_OK) {
        report(me, l, 1, "%s: %s", option_name, me->err.text);
        return;
    }
    n = l->n[INPUT_TARGET];
    if (!l->n[INPUT_SOURCE] && n)
        report(me, l, 1, "blank, but its %s is not", opt.score ? "translation" : "prefix");
    if (opt.score || l->faulty || !n) return;
    for (i = 0; i < n && ids_of(me, l->ids[INPUT_TARGET])[i] != me->of->config->tgt_unk; i++)
        continue;
    if (me->of->decode.max_length && me->of->decode.max_length < most)
        most = me->of->decode.max_length;
    if (i < n)
        report(me, l, 1, "%s: token %d is not in the target vocabulary", option_name, (int)i + 1);
    else if (n + (me->of->config->forced >= 0) >= most)
        report(me, l, 1, "%s: %d tokens leave no room for another, the limit is %d", option_name,
               (int)(n + (me->of->config->forced >= 0)), (int)most);
}

static void append_columns(input_item *l, double score, const double *each, int32_t n);

/* Appends text to a line's output as one line, or as one field of it. */
static void append_flat(input_item *l, const char *text, size_t size) {
    const int fields = opt.column || opt.numbered || opt.scores;
    text_buffer_append(&l->out, text, size);
    if (!l->out.broken)
        l->out.size -= size - text_buffer_flatten(l->out.data + l->out.size - size, size,
                                                  TEXT_BUFFER_FLATTEN_CONTROLS | fields);
}

/* Appends the text around a sentence that is kept: side 0 in front of it, side 1 behind it. */
static void append_kept(const worker *me, input_item *l, int side) {
    if (me->of->is_last && l->kept[side].size)
        append_flat(l, l->kept[side].data, l->kept[side].size);
}

/* Makes a source its own translation. A document copies a sentence that has no translation. */
static void copy_source(const worker *me, input_item *l, tfm_text text) {
    l->copied = l->done = 1;
    if (t.in.next) return;
    if (me->of->is_last) append_columns(l, 0, NULL, 0);
    append_kept(me, l, 0), append_flat(l, text.data, text.size), append_kept(me, l, 1);
}

/* Returns the number of tokens of a word, for around_capitalize. */
static int32_t count_tokens(void *user, const char *word, size_t size) {
    const worker *me = (const worker *)user;
    int32_t n = INT32_MAX;
    (void)tfm_model_tokenize(me->of->model, tfm_text_make(word, size), opt.form, NULL, 0, &n, NULL,
                             NULL);
    return n;
}

/* Returns whether a text has nothing but whitespace. */
static int is_blank(tfm_text text) {
    size_t i;
    uint32_t c;
    for (i = 0; i < text.size;) {
        i += tfm_character_next(text.data + i, text.size - i, &c);
        if (!character_is_space(c)) return 0;
    }
    return 1;
}

/* Removes from a line what --protect copies, and what surrounds its sentence. Returns 0 if nothing
   is left to translate: the line is then its own translation. */
static int take_apart(worker *me, input_item *l) {
    const tfm_text text = l->text[INPUT_SOURCE];
    const int protects = opt.protect && !t.in.next;
    int left;
    l->safe.keeps_capitals = t.in.surrounds; /* around_take knows more about them */
    left = !protects || protect_take(&l->safe, text.data, text.size);
    if (protects && l->safe.clean.broken) report(me, l, 1, "too little memory");
    left |= protects && (!l->safe.n || l->faulty);
    if (left && protects)
        l->text[INPUT_SOURCE] = tfm_text_make(l->safe.clean.data, l->safe.clean.size);
    if (left && t.in.surrounds && !is_blank(text)) {
        left = !l->is_data &&
               around_take(&l->inner, l->text[INPUT_SOURCE].data, l->text[INPUT_SOURCE].size);
        if (left) around_capitalize(&l->inner, count_tokens, me);
        if (left && l->inner.clean.broken) report(me, l, 1, "too little memory");
        if (left) l->text[INPUT_SOURCE] = tfm_text_make(l->inner.clean.data, l->inner.clean.size);
    } else if (l->is_data) left = 0;
    if (!left) copy_source(me, l, text);
    return left;
}

/* Counts the tokens of a source that the model does not know. If they are most of the text, as
   those of another script are, the text is its own translation. */
static void count_unknown(worker *me, input_item *l, tfm_text text) {
    const int32_t unknown = me->of->config->src_unk, *ids = ids_of(me, l->ids[INPUT_SOURCE]);
    const size_t kept_ids = l->ids[INPUT_SOURCE];
    int32_t i, n = 0, left_out;
    int is_most = 0;
    tfm_span *spans;
    for (i = 0; i < l->n[INPUT_SOURCE]; i++) n += ids[i] == unknown;
    if (unknown < 0 || !n) return;
    l->is_unknown = n;
    spans = (tfm_span *)malloc((size_t)me->reader_source * sizeof *spans);
    if (spans && tokenize_source(me, l, spans, &left_out) == TFM_OK)
        is_most = languages_is_unknown(ids_of(me, l->ids[INPUT_SOURCE]), spans, l->n[INPUT_SOURCE],
                                       unknown, l->text[INPUT_SOURCE].size);
    me->ids.size = l->ids[INPUT_SOURCE], l->ids[INPUT_SOURCE] = kept_ids;
    free(spans);
    if (!is_most) return;
    l->is_left = 1, l->n[INPUT_SOURCE] = 0;
    copy_source(me, l, text);
}

/* Returns whether a line that is one text has several sentences. */
static int has_sentences(const input_item *l) {
    return !l->sentence && !t.in.next && !opt.tokens &&
           input_sentences(l->text[INPUT_SOURCE], 2) > 1;
}

/* Returns advice for a line that is too long: if it has several sentences, --sentences helps. */
static const char *length_advice(const input_item *l) {
    return !has_sentences(l) ? ""
           : opt.one_text || opt.score
               ? "; it has several sentences"
               : "; it has several sentences, which --sentences split translates one by one";
}

/* Warns of a line that begins with the token of a target language, as Marian's models have them
   (>>fra<<), if the vocabulary has no such token: its characters are translated. */
static void check_language(worker *me, input_item *l) {
    enum { LONGEST = 40 };
    const tfm_config *c = me->of->config;
    const char *text = l->text[INPUT_SOURCE].data;
    size_t size = l->text[INPUT_SOURCE].size, i = 2;
    int32_t ids[4 * LONGEST], n = 0, k, own = 0, known = 0;
    for (; size && *text == ' '; size--) text++;
    if (size < 5 || memcmp(text, ">>", 2) != 0) return;
    while (i + 1 < size && i < LONGEST && text[i] != '<' && text[i] != '>') i++;
    if (i == 2 || i + 1 >= size || memcmp(text + i, "<<", 2) != 0) return;
    for (k = 0; k < c->n_languages && !known; k++)
        known = strlen(c->languages[k].code) == i - 2 &&
                memcmp(c->languages[k].code, text + 2, i - 2) == 0;
    size = i + 2;
    if (!known && tfm_model_tokenize(me->of->model, tfm_text_make(text, size), opt.form, ids,
                                     4 * LONGEST, &n, NULL, &me->err) == TFM_OK)
        for (k = 0; k < n; k++)
            if (ids[k] != c->src_start && ids[k] != c->src_end)
                own++, known = own == 1 && ids[k] != c->src_unk;
    if (!known)
        report(me, l, 0, "the model has no language token %.*s, and translates it as text",
               (int)size, text);
}

/* Tokenizes a line, or reports why it cannot be translated. */
static void tokenize(worker *me, input_item *l) {
    const tfm_text text = l->text[INPUT_SOURCE];
    int32_t left_out = 0;
    tfm_status status;
    l->n[INPUT_SOURCE] = l->copied = l->look.level = 0, l->whole = text;
    if (!l->cut && !l->columns && !take_apart(me, l)) return;
    status = l->cut || l->columns ? no_memory(me, "too long for --max-source, or for memory")
                                  : tokenize_source(me, l, NULL, &left_out);
    if (l->columns) report(me, l, 1, "%d columns, not %d", (int)l->columns, (int)opt.column);
    else if (status == TFM_E_STATE)
        report(me, l, 1, "the model knows several languages: --from%s and --to choose",
               t.n_stages > 1 ? ", --via" : "");
    else if (status == TFM_E_TOO_LONG)
        report(me, l, 1, "%s (%s)%s", me->err.text,
               me->of->most_source < opt.max_source ? "the model's positions" : "--max-source",
               length_advice(l));
    else if (status == TFM_E_TOKEN && me->of->config->src_text == TFM_TEXT_KIND_WORDS &&
             !opt.tokens)
        report(me, l, 1,
               "%s. If the vocabulary has characters, convert with --set src_text=characters",
               me->err.text);
    else if (status != TFM_OK) report(me, l, 1, "%s", me->err.text);
    else if (opt.beside && me->of->is_last) check_target(me, l);
    if (status == TFM_OK && me->of == t.stages && !opt.tokens) check_language(me, l);
    if (status == TFM_OK && me->of == t.stages && opt.one_text && t.split && has_sentences(l))
        report(me, l, 0, "several sentences, which %s reads as one text", opt.one_text);
    if (left_out)
        report(me, l, 0, "of %d tokens the last %d are left out%s",
               (int)(l->n[INPUT_SOURCE] + left_out), (int)left_out, length_advice(l));
    if (status == TFM_E_UTF8)
        l->encoding = encoding_of_line(l->text[INPUT_SOURCE].data, l->text[INPUT_SOURCE].size);
    if (status == TFM_OK && t.in.surrounds) count_unknown(me, l, text);
    if (!l->n[INPUT_SOURCE]) l->done = 1;
}

/* ---- output: lines, fields, a picture ------------------------------------------------------- */

/* Appends the log-probabilities of n tokens, separated by spaces. */
static void append_tokens(input_item *l, const double *each, int32_t n) {
    int32_t i;
    for (i = 0; i < n; i++) text_buffer_format(&l->out, i ? " %.4f" : "%.4f", each[i]);
}

/* Appends the columns before a translation. Blank and faulty lines have them too, because all lines
   must have the same number of columns. */
static void append_columns(input_item *l, double score, const double *each, int32_t n) {
    if (opt.score) return;
    if (l->sentence) { /* write_line adds them up for the line */
        l->score = score;
        for (l->scores.size = 0; n > 0; n--, each++) text_buffer_format(&l->scores, " %.4f", *each);
        return;
    }
    if (opt.numbered) text_buffer_format(&l->out, "%ld\t", (long)l->number);
    if (opt.scores) text_buffer_format(&l->out, "%.4f\t", score);
    if (opt.scores == 2) append_tokens(l, each, n), text_buffer_append(&l->out, "\t", 1);
}

/* Appends the pairs of positions that --align writes after a translation. */
static tfm_status append_alignment(worker *me, input_item *l, int32_t row, int32_t rank,
                                   int32_t length) {
    int32_t *sources = (int32_t *)malloc(((size_t)length + 1) * sizeof *sources);
    int32_t i, start = me->of->config->src_start >= 0;
    const char *before = "\t";
    tfm_status status = no_memory(me, "too little memory");
    if (sources) status = tfm_result_alignment(me->session, row, rank, sources, &me->err);
    if (status == TFM_OK && !length) text_buffer_append(&l->out, "\t", 1);
    for (i = 0; status == TFM_OK && i < length; i++) {
        if (sources[i] < start) continue; /* a source of nothing but padding */
        text_buffer_format(&l->out, "%s%d-%d", before, (int)(sources[i] - start), (int)i);
        before = " ";
    }
    free(sources);
    return status;
}

/* Returns the language of a model's translation if an option or its file says it, or NULL. */
static const char *language_of(const stage *s) {
    const char *stated = !s->is_last ? opt.via : opt.lang ? opt.lang : opt.to;
    return stated ? stated : s->config->target_language;
}

/* Puts the terms of me->found into a hypothesis, which is the last size bytes of the line's output,
   and inserts what take_apart removed. For a document the function stores where each token came
   from instead of the protected spans: markup.h inserts spans and tags. */
static tfm_status restore(worker *me, input_item *l, int32_t row, int32_t rank, size_t size) {
    text_buffer text;
    int32_t left_out, length = 0;
    size_t *at = NULL, ids = l->ids[INPUT_SOURCE], n_ids = me->ids.size;
    tfm_span *spans = (tfm_span *)malloc((size_t)me->reader_source * sizeof *spans);
    tfm_status status = no_memory(me, "too little memory");
    memset(&text, 0, sizeof text);
    l->out.size -= size;
    text_buffer_append(&text, l->out.data + l->out.size, size);
    if (spans) status = tokenize_source(me, l, spans, &left_out);
    l->ids[INPUT_SOURCE] = ids, me->ids.size = n_ids;
    if (status == TFM_OK)
        status = aligned_text(me->of->model, me->session, row, rank, opt.form, spans,
                              l->n[INPUT_SOURCE], &me->found, &text, &at, &length, &me->err);
    if (status == TFM_OK && t.in.surrounds && around_is_changed(&l->inner)) {
        text_buffer whole;
        memset(&whole, 0, sizeof whole);
        around_put(&l->inner, text.data, text.size, (size_t)length, at, at + length,
                   at + 2 * length, language_of(me->of), &whole);
        text_buffer_free(&text), text = whole;
    }
    if (status == TFM_OK && t.in.next) {
        aligned_tokens(at, length, &l->tokens);
        if (me->of != t.stages) aligned_through(&l->tokens, &l->aligned);
    }
    if (status == TFM_OK && opt.protect && !t.in.next)
        protect_put(&l->safe, text.data, text.size, (size_t)length, at, at + length, &l->out);
    else text_buffer_append(&l->out, text.data, text.size);
    text_buffer_free(&text), free(spans), free(at);
    return status;
}

/* Appends one hypothesis of a row to its line's output, as a line. */
static tfm_status append_hypothesis(worker *me, input_item *l, int32_t row, int32_t rank,
                                    const tfm_result *result) {
    tfm_session *s = me->session;
    tfm_status status;
    int is_last = me->of->is_last, fields = opt.column || opt.numbered || opt.scores || opt.align;
    size_t size = 0;
    int is_changed;
    char *text;
    if (rank) text_buffer_append(&l->out, "\n", 1);
    if (opt.scores == 2 && is_last) {
        int32_t n = result->length + !(opt.decode.keep_end && result->finish == TFM_FINISH_ENDED);
        double *each = (double *)malloc(((size_t)result->length + 1) * sizeof *each);
        status = no_memory(me, "too little memory");
        if (each) status = tfm_result_log_probabilities(s, row, rank, each, &me->err);
        if (status == TFM_OK) append_columns(l, result->score, each, n);
        free(each);
        if (status != TFM_OK) return status;
    } else if (is_last) append_columns(l, result->score, NULL, 0);
    append_kept(me, l, 0);
    status = tfm_result_text(s, row, rank, opt.form, NULL, 0, &size, &me->err);
    if (status == TFM_OK && !text_buffer_reserve(&l->out, size + 1))
        status = no_memory(me, "too little memory for the translation");
    if (status != TFM_OK) return status;
    text = l->out.data + l->out.size;
    status = tfm_result_text(s, row, rank, opt.form, text, size + 1, &size, &me->err);
    if (status != TFM_OK) return status;
    if (opt.form == TFM_TEXT_FORM_TEXT)
        size = text_buffer_flatten(
            text, size, TEXT_BUFFER_FLATTEN_CONTROLS | (is_last ? fields : opt.column != 0));
    if (me->of->is_last &&
        paragraph_needs_space(l->kept[0], l->text[INPUT_SOURCE], tfm_text_make(text, size))) {
        memmove(text + 1, text, size);
        *text++ = ' ', l->out.size++;
    }
    l->out.size += size;
    (void)terms_find(&t.list, l->text[INPUT_SOURCE].data, l->text[INPUT_SOURCE].size, &me->found);
    if (me->found.broken) return no_memory(me, "too little memory");
    if (t.looks && !rank)
        (void)languages_suspects(
            &l->look, &t.languages, me->of->config->source_language, l->text[INPUT_SOURCE].data,
            l->text[INPUT_SOURCE].size, text, size, result->score,
            result->length + (result->finish == TFM_FINISH_ENDED), me->of->decode.length_penalty);
    is_changed = t.in.surrounds && around_is_changed(&l->inner);
    if (t.in.next || me->found.n || (opt.protect && (l->safe.n || l->safe.capitals)) ||
        (is_changed && me->keep_attention)) {
        status = restore(me, l, row, rank, size);
        append_kept(me, l, 1);
        return status;
    }
    if (is_changed) { /* brackets and capitals need no alignment */
        text_buffer whole;
        memset(&whole, 0, sizeof whole);
        around_put(&l->inner, text, size, 0, NULL, NULL, NULL, language_of(me->of), &whole);
        l->out.size -= size;
        text_buffer_append(&l->out, whole.data, whole.size);
        l->out.broken |= whole.broken;
        text_buffer_free(&whole);
    }
    append_kept(me, l, 1);
    return opt.align ? append_alignment(me, l, row, rank, result->length) : TFM_OK;
}

/* Draws the attention of row 0, which is the row of line l. */
static void draw_line(worker *me, input_item *l, int32_t length) {
    static tfm_span spans[MOST_DRAWN];
    const tfm_text *source = &l->text[INPUT_SOURCE];
    int32_t n = l->n[INPUT_SOURCE], left_out;
    l->failed = 1;
    if (!length) report(me, l, 0, "an empty translation has no attention to draw");
    else if (n > MOST_DRAWN || length > MOST_DRAWN)
        report(me, l, 0, "too long to draw its attention: %d tokens are the limit",
               (int)MOST_DRAWN);
    else if (tokenize_source(me, l, spans, &left_out) == TFM_OK &&
             attention_draw(t.picture, me->session, me->of->model, 0, source,
                            ids_of(me, l->ids[INPUT_SOURCE]), spans, n, &me->err) == TFM_OK)
        l->failed = 0;
}

/* Closes the picture; ends the program with exit status 2 if it could not be written. */
static void close_picture(void) {
    int broken = ferror(t.picture);
    if (fclose(t.picture) != 0 || broken) fail("%s: %s", opt.attention, strerror(errno));
    t.picture = NULL;
}

/* Appends a row's hypotheses to its line's output, and reports those that hit a limit. */
static void append_row(worker *me, input_item *l, int32_t row) {
    int32_t rank, n = tfm_result_count(me->session, row);
    tfm_result result;
    for (rank = 0; rank < n; rank++) {
        tfm_status status = tfm_result_get(me->session, row, rank, &result, &me->err);
        if (status == TFM_OK) status = append_hypothesis(me, l, row, rank, &result);
        if (status != TFM_OK) {
            report(me, l, 1, "%s", me->err.text);
            return;
        }
        if (result.finish == TFM_FINISH_HIT_LENGTH)
            report(me, l, 0, "stopped at its limit of %d tokens%s", (int)result.length,
                   length_advice(l));
        else if (result.finish == TFM_FINISH_STUCK)
            report(me, l, 0, "no token was left to choose after %d", (int)result.length);
        if (rank == 0 && me->keep_attention && t.picture) draw_line(me, l, result.length);
    }
}

/* ---- translating: sessions and batches ------------------------------------------------------ */

/* Returns the options of a session for so many lines, whose lengths are at most these. max_target
   must never be what ends a sentence: the output would depend on the batch. */
static tfm_session_options plan_session(const worker *me, int32_t rows, const int32_t *length) {
    const tfm_decode_options *decode = &me->of->decode;
    int32_t most = me->of->config->max_positions;
    tfm_session_options o;
    memset(&o, 0, sizeof o);
    o.max_batch = rows;
    o.max_source = length[INPUT_SOURCE];
    if (opt.f16_cache) o.cache = TFM_DTYPE_F16;
    o.decoding = decode; /* makes max_beam, max_shortlist and attention large enough */
    if (opt.score) o.max_target = length[INPUT_TARGET] + 1;
    else if (decode->max_length) o.max_target = decode->max_length;
    else o.max_target = 2 * o.max_source + 16 + length[INPUT_TARGET];
    if (o.max_target < decode->min_length) o.max_target = decode->min_length;
    if (most && o.max_source > most) o.max_source = most;
    if (most && o.max_target > most) o.max_target = most;
    o.attention = me->keep_attention;
    o.threads = t.threads;
    if (opt.drafts && me->of->is_last) o.max_draft = DRAFT_TOKENS;
    return o;
}

/* Sets the lengths of a session for lines up to these lengths. */
static void round_lengths(const int32_t *longest, int32_t *length) {
    int32_t target = opt.drafts ? 0 : longest[INPUT_TARGET];
    length[INPUT_SOURCE] = batches_round(longest[INPUT_SOURCE]);
    length[INPUT_TARGET] = target ? batches_round(target) : 0;
}

/* Returns how many lines up to these lengths are translated together: --batch, or fewer if the
   session would take too much memory. */
static int32_t rows_at(const worker *me, const int32_t *longest) {
    int32_t length[INPUT_SIDES];
    tfm_session_options o;
    round_lengths(longest, length);
    o = plan_session(me, 1, length);
    return batches_rows(me->of->model, &o, opt.batch, me->of->limit);
}

/* Makes sure that the worker's session is large enough for a batch; creates another one if not. */
static tfm_status fit_session(worker *me, int32_t rows, const int32_t *longest) {
    int32_t most;
    tfm_session_options o;
    if (me->session && rows <= me->rows && longest[INPUT_SOURCE] <= me->length[INPUT_SOURCE] &&
        (opt.drafts || longest[INPUT_TARGET] <= me->length[INPUT_TARGET]) &&
        me->attention == me->keep_attention && me->threads == t.threads)
        return TFM_OK;
    tfm_session_free(me->session);
    me->session = NULL;
    me->attention = me->keep_attention;
    me->threads = t.threads;
    for (me->rows = 1; me->rows < rows;) me->rows *= 2;
    most = rows_at(me, longest);
    if (me->rows > most) me->rows = most < rows ? rows : most;
    round_lengths(longest, me->length);
    o = plan_session(me, me->rows, me->length);
    o.allocator = batches_allocator(&me->kept, me->of->limit);
    return make_session(me, &me->session, &o);
}

/* Returns the ids of one side of a line. */
static tfm_ids line_ids(const worker *me, const input_item *line, int side) {
    return tfm_ids_make(line->n[side] ? ids_of(me, line->ids[side]) : NULL, line->n[side]);
}

/* Scores each line's target and writes its log-probability, with --per-token also of each token. */
static tfm_status score_batch(worker *me, input_item *const *lines, tfm_request *requests,
                              int32_t n, int32_t longest) {
    size_t width = (size_t)longest + 1;
    double *scores = (double *)malloc((size_t)n * width * sizeof *scores), *each, sum;
    tfm_ids *targets = (tfm_ids *)malloc((size_t)n * sizeof *targets);
    tfm_status status = TFM_E_MEMORY;
    int32_t row, i;
    for (row = 0; targets && row < n; row++) targets[row] = line_ids(me, lines[row], INPUT_TARGET);
    if (scores && targets)
        status = tfm_session_score(me->session, requests, n, targets, 0, scores, &me->err);
    for (row = 0; status == TFM_OK && row < n; row++) {
        input_item *l = lines[row];
        each = scores + (size_t)row * width;
        for (sum = 0, i = 0; i <= l->n[INPUT_TARGET]; i++) sum += each[i];
        text_buffer_format(&l->out, opt.per_token ? "%.4f\t" : "%.4f", sum);
        if (opt.per_token) append_tokens(l, each, l->n[INPUT_TARGET] + 1);
        l->done = 1;
    }
    free(scores), free(targets);
    return status;
}

/* Lets the model score the suspected lines of a batch as their own translations. A line that it
   finds likely is of the language of the translation, and stays as it is. */
static void look_again(worker *me, input_item *const *lines, int32_t n) {
    const int32_t limit = me->of->decode.max_length;
    tfm_request *requests = (tfm_request *)malloc(((size_t)n + 1) * sizeof *requests);
    tfm_ids *targets = (tfm_ids *)malloc(((size_t)n + 1) * sizeof *targets);
    input_item **found = (input_item **)malloc(((size_t)n + 1) * sizeof *found);
    double *scores = NULL, sum;
    int32_t row, i, count = 0, longest = 0;
    for (row = 0; requests && targets && found && row < n; row++) {
        input_item *l = lines[row];
        if (!l->look.level || l->faulty) continue;
        l->text[INPUT_TARGET] = l->text[INPUT_SOURCE];
        if (tokenize_target(me, l) != TFM_OK || (limit && l->n[INPUT_TARGET] >= limit) ||
            l->n[INPUT_TARGET] >=
                2 * l->n[INPUT_SOURCE] + 16) /* the session has room for so many */
            continue;
        found[count++] = l;
        if (longest < l->n[INPUT_TARGET]) longest = l->n[INPUT_TARGET];
    }
    if (count) scores = (double *)malloc((size_t)count * ((size_t)longest + 1) * sizeof *scores);
    for (row = 0; scores && row < count; row++) {
        requests[row] = tfm_request_ids(NULL, 0);
        requests[row].ids = line_ids(me, found[row], INPUT_SOURCE);
        targets[row] = line_ids(me, found[row], INPUT_TARGET);
    }
    if (scores &&
        tfm_session_score(me->session, requests, count, targets, 0, scores, &me->err) == TFM_OK)
        for (row = 0; row < count; row++) {
            input_item *l = found[row];
            const double *each = scores + (size_t)row * ((size_t)longest + 1);
            for (sum = 0, i = 0; i <= l->n[INPUT_TARGET]; i++) sum += each[i];
            if (!languages_stays(&l->look, sum)) continue;
            l->out.size = l->tokens.size = 0, l->is_left = 1;
            copy_source(me, l, l->whole);
        }
    free(requests), free(targets), free(found), free(scores);
}

/* Translates a batch and appends the results to the lines. Line n is sampled with seed + n, so a
   sample does not depend on the batch. */
static tfm_status decode_batch(worker *me, input_item *const *lines, tfm_request *requests,
                               int32_t n) {
    int32_t row, running = 1;
    int suspects = 0;
    tfm_status status;
    for (row = 0; row < n; row++) {
        tfm_ids target = line_ids(me, lines[row], INPUT_TARGET);
        requests[row].seed = opt.seed + (uint64_t)lines[row]->number;
        if (opt.prefix && me->of->is_last) requests[row].prefix = target;
        if (opt.drafts && me->of->is_last) requests[row].draft = target;
    }
    status = tfm_session_start(me->session, requests, n, &me->of->decode, &me->err);
    while (status == TFM_OK && running && !interrupts_stopped()) {
        status = tfm_session_step(me->session, &running, &me->err);
        show_progress();
    }
    for (row = 0; status == TFM_OK && !running && row < n; row++) {
        append_row(me, lines[row], row);
        lines[row]->done = 1, suspects |= lines[row]->look.level;
    }
    if (suspects) look_again(me, lines, n);
    return status;
}

/* Translates or scores n lines together. If memory is too small, does so in two halves. */
static void translate_batch(worker *me, input_item *const *lines, int32_t n) {
    tfm_request *requests;
    int32_t row, side, longest[INPUT_SIDES] = {0, 0};
    tfm_status status = no_memory(me, "too little memory");
    if (interrupts_stopped()) return;
    requests = (tfm_request *)malloc((size_t)n * sizeof *requests);
    for (row = 0; requests && row < n; row++) {
        requests[row] = tfm_request_ids(NULL, 0);
        requests[row].ids = line_ids(me, lines[row], INPUT_SOURCE);
        for (side = 0; side < INPUT_SIDES; side++)
            if (longest[side] < lines[row]->n[side]) longest[side] = lines[row]->n[side];
    }
    if (requests) status = fit_session(me, n, longest);
    if (status == TFM_OK)
        status = opt.score ? score_batch(me, lines, requests, n, longest[INPUT_TARGET])
                           : decode_batch(me, lines, requests, n);
    free(requests);
    if (status == TFM_E_MEMORY && n > 1) {
        translate_batch(me, lines, n / 2);
        translate_batch(me, lines + n / 2, n - n / 2);
        return;
    }
    for (row = 0; status != TFM_OK && row < n; row++) report(me, lines[row], 1, "%s", me->err.text);
}

/* Translates lines of similar length, in one batch unless they are too long. */
static void run_batches(worker *me, input_item **next, input_item **end) {
    int32_t n;
    for (; next < end; next += n) {
        int32_t longest[INPUT_SIDES] = {0, 0}, left = (int32_t)(end - next), most = 0, side;
        for (n = 0; n < left; n++) {
            int is_longer = !n;
            for (side = 0; side < INPUT_SIDES; side++)
                if (longest[side] < next[n]->n[side])
                    longest[side] = next[n]->n[side], is_longer = 1;
            if (is_longer) most = rows_at(me, longest);
            if (n && n >= most) break;
        }
        n = (left + (left + n - 1) / n - 1) / ((left + n - 1) / n); /* batches of the same size */
        translate_batch(me, next, n);
    }
}

/* Runs n lines of similar length through a model. Lines that
   need no translation (blank, faulty) are moved after the others and skipped. */
static void run_stage(worker *me, input_item **next, size_t n_lines) {
    input_item **end = next, *l;
    size_t i, n_aligned = 0;
    me->ids.size = 0;
    for (i = 0; i < n_lines && !interrupts_stopped(); i++) {
        l = next[i];
        tokenize(me, l);
        if (!l->done) next[i] = *end, *end++ = l;
    }
    if (t.picture && next < end) { /* alone: attention for a whole batch would take much memory */
        me->keep_attention = 1;
        translate_batch(me, next++, 1);
        close_picture();
    }
    me->keep_attention = opt.align || opt.protect || opt.terms || t.in.next;
    for (i = 0; !me->keep_attention && t.in.surrounds && next + i < end;) { /* others first */
        l = next[i];
        if (!around_needs_alignment(&l->inner)) i++;
        else next[i] = *--end, *end = l, n_aligned++;
    }
    run_batches(me, next, end);
    if (!n_aligned) return;
    me->keep_attention = 1;
    qsort(end, n_aligned, sizeof *end, input_by_size);
    run_batches(me, end, end + n_aligned);
}

/* Makes the first model's output of n lines the source for the second model. Lines that failed, or
   that an interrupt left out, are dropped. Returns how many are kept; they are sorted again. */
static size_t hand_on(input_item **lines, size_t n) {
    size_t i, kept = 0;
    for (i = 0; i < n; i++) {
        input_item *l = lines[i];
        text_buffer made = l->out, tokens = l->tokens;
        if (l->out.broken) report(NULL, l, 1, "too little memory");
        if (!l->done || l->faulty) continue;
        l->out = l->middle, l->middle = made;
        l->tokens = l->aligned, l->aligned = tokens, l->tokens.size = 0;
        l->text[INPUT_SOURCE].data = made.data ? made.data : "",
        l->text[INPUT_SOURCE].size = made.size;
        l->done = 0;
        lines[kept++] = l;
    }
    qsort(lines, kept, sizeof *lines, input_by_size);
    return kept;
}

/* Runs a job: takes its lines through all models, from text to text. */
static void run_job(int number, int group, int job) {
    input_window *w = &t.windows[group];
    size_t first = (size_t)job * w->job_lines, n = w->n - first;
    int64_t lines = 0, bytes = 0;
    size_t k;
    int i;
    if (n > w->job_lines) n = w->job_lines;
    for (k = first; k < first + n; k++) {
        lines += w->sorted[k]->sentence <= 1;
        bytes += (int64_t)w->sorted[k]->text[INPUT_SOURCE].size + 1;
    }
    for (i = 0; i < t.n_stages; i++) {
        if (i) n = hand_on(w->sorted + first, n);
        run_stage(&t.stages[i].states[number], w->sorted + first, n);
    }
    workers_lock(&t.pool);
    t.ahead[group].lines += lines, t.ahead[group].bytes += bytes;
    workers_unlock(&t.pool);
    show_progress();
}

/* ---- writing windows ------------------------------------------------------------------------ */

/* Writes to standard error, once, which encoding the input probably has and how to convert it. */
static void advise(const char *encoding) {
    if (t.advised++) return;
    if (*encoding)
        fprintf(stderr,
                "translate: the input is probably Latin-1 or Windows-1252 text, not UTF-8; convert "
                "it first: iconv -f %s -t UTF-8 FILE > FILE.utf8\n",
                encoding);
    else
        fputs("translate: the input is not UTF-8; find out its encoding and convert it first: "
              "iconv -f ENCODING -t UTF-8 FILE > FILE.utf8 (iconv -l lists encodings)\n",
              stderr);
}

/* Appends what --scores writes before a line of n sentences: the sum of their scores, and the
   log-probabilities of all their tokens. */
static void append_scores(text_buffer *out, const input_item *l, size_t n) {
    double sum = 0;
    size_t i, begin;
    if (!opt.scores) return;
    for (i = 0; i < n; i++) sum += l[i].score;
    text_buffer_format(out, "%.4f\t", sum);
    if (opt.scores < 2) return;
    for (i = 0, begin = out->size; i < n; i++) /* each begins with a space */
        text_buffer_append(out, l[i].scores.data + (out->size == begin && l[i].scores.size),
                           l[i].scores.size - (out->size == begin && l[i].scores.size));
    text_buffer_append(out, "\t", 1);
}

/* Writes an output line and its messages. The line is made of n sentences, with the whitespace
   between them. If one of them cannot be translated, the line is empty, except in a document. */
static void write_line(input_item *l, size_t n) {
    static text_buffer out;
    const input_item *row = l;
    size_t i, begin;
    int failed = 0, faulty = 0, spaced = 1;
    text_buffer_clear(&out, INPUT_OUT);
    text_buffer_append(&out, l->around[0].data, l->around[0].size);
    for (i = 0; i < n; i++) {
        if (l[i].out.broken || l[i].said.broken || l[i].scores.broken)
            report(NULL, &l[i], 1, "too little memory");
        faulty |= l[i].faulty;
    }
    for (i = 0; faulty && !opt.document && i < n; i++)
        l[i].out.size = l[i].scores.size = 0, l[i].score = 0;
    if (l->sentence) append_scores(&out, l, n);
    for (i = 0, begin = out.size; i < n; i++, l++) {
        if (l->faulty || (!l->n[INPUT_SOURCE] && !l->copied)) {
            l->out.size = 0;
            append_columns(l, 0, NULL, 0);
        }
        if (l->said.size) fwrite(l->said.data, 1, l->said.size, stderr);
        if (l->encoding) advise(l->encoding);
        if (out.size > begin && l->out.size) {
            /* spaced: what tfm_sentence_space finds at the last letter of all text before */
            tfm_text space = tfm_sentence_space(
                tfm_text_make(spaced ? "a" : "\xE6\x88\x91", spaced ? 1 : 3), l->between);
            text_buffer_append(&out, space.data, space.size);
            if (!out.broken)
                out.size -= space.size - text_buffer_flatten(out.data + out.size - space.size,
                                                             space.size,
                                                             TEXT_BUFFER_FLATTEN_CONTROLS |
                                                                 (opt.column || opt.scores));
        }
        text_buffer_append(&out, l->out.data, l->out.size);
        if (l->out.size && around_has_letter(l->out.data, l->out.size))
            spaced = tfm_space_after(tfm_text_make(l->out.data, l->out.size));
        t.n_left += l->is_left, t.n_divided += l->is_divided,
            t.n_unknown += l->is_unknown && !l->is_left;
        failed |= l->failed;
        if (t.in.next) document_line(l, t.out);
    }
    t.n_failed += failed;
    if (t.in.next) return;
    text_buffer_append(&out, row->around[1].data, row->around[1].size);
    text_buffer_append(&out, "\n", 1);
    if (out.broken) fail_writing(ENOMEM);
    fwrite(out.data, 1, out.size, t.out);
}

/* Writes a window's lines. Returns 0 at the first line that an interrupt left out. */
static int write_lines(input_window *w) {
    size_t i, next;
    for (i = 0; i < w->n; i = next) {
        for (next = i; next < w->n && (next == i || w->lines[next].sentence > 1); next++)
            if (!w->lines[next].done) return 0;
        write_line(&w->lines[i], next - i);
    }
    return 1;
}

/* Writes the summary that replaces the progress. */
static void end_progress(int64_t n_lines) {
    char text[100];
    if (!(t.shown.shown > 0) && !opt.progress) return;
    snprintf(text, sizeof text, "%ld lines in %.0f seconds", (long)n_lines,
             progress_seconds(&t.shown));
    progress_end(&t.shown, text);
}

/* Chooses how many lines the next window has, when one has been written. Long windows save time,
   because lines of similar length stand together, but who reads the output as it comes waits for a
   whole window. So for pipes and terminals a window grows only while it takes less than half a
   second. */
static void choose_window(void) {
    double now = progress_now(), took = now - t.written;
    size_t least = (size_t)opt.batch, most = least * WINDOW_BATCHES;
    if (t.is_read && took < 0.5 && t.most_lines < most) t.most_lines *= 2;
    if (t.is_read && took > 1 && t.most_lines > least) t.most_lines /= 2;
    t.written = now;
}

/* Writes a window. workers.h calls this function for one window at a time, in input order. */
static void finish_window(int group) {
    input_window *w = &t.windows[group];
    int whole = write_lines(w);
    if (fflush(t.out) != 0 || ferror(t.out)) fail_writing(errno);
    if (!whole) interrupts_end();
    workers_lock(&t.pool);
    t.ahead[group].lines = t.ahead[group].bytes = 0;
    t.done.lines = w->lines[w->n - 1].number - opt.first_line + 1, t.done.bytes = w->taken;
    choose_window();
    workers_unlock(&t.pool);
    show_progress();
}

/* Delays interrupts while there is output to write, which an interrupt would lose. */
static void hold_while_busy(int busy) {
    interrupts_hold(busy);
    if (!busy && interrupts_stopped()) interrupts_end();
}

/* ---- the program ---------------------------------------------------------------------------- */

/* Returns whether the model file at path is of Whisper, whose rules tools/convert.py writes. */
static int is_speech(const char *path) {
    tfm_safetensors *file = NULL;
    int is_one = tfm_safetensors_open_file(&file, path, NULL, NULL) == TFM_OK &&
                 tfm_safetensors_metadata(file, "extra.transcribe") != NULL;
    tfm_safetensors_free(file);
    return is_one;
}

/* Loads a model, checks the options that depend on the model, and creates the first reader. */
static void open_model(const char *path, int is_last) {
    stage *s = &t.stages[t.n_stages++];
    worker *me = &s->states[0];
    int32_t most, i;
    tfm_model_options o;
    memset(&o, 0, sizeof o);
    for (i = 0; i < WORKERS_MOST; i++) s->states[i].of = s;
    s->path = path, s->is_last = is_last;
    o.map = opt.map, o.exact = opt.exact;
    errno = 0;
    if (tfm_model_load_file(&s->model, path, &o, &me->err) != TFM_OK) {
        const char *reason = me->err.status == TFM_E_IO && errno ? strerror(errno) : "";
        fail("%s%s%s", me->err.text, *reason ? ": " : "", reason);
    }
    s->config = tfm_model_config(s->model);
    if (!s->config->src_vocab_size)
        fail("%s: %s", path,
             !s->config->d_input ? "its source is not text, but the output of another encoder"
             : is_speech(path)   ? "a speech model: use transcribe"
                                 : "its source is not text: a program must compute its input");
    most = s->config->max_positions;
    s->decode = take_defaults(s->model, is_last, opt.second ? path : "the model");
    if (most && s->decode.max_length > most)
        fail("--max-length %d: the model has positions for %d tokens", (int)s->decode.max_length,
             (int)most);
    if (most && s->decode.min_length >= most)
        fail("--min-length %d: the model has positions for %d tokens", (int)s->decode.min_length,
             (int)most);
    if (s->decode.lexical_shortlist && !s->config->has_shortlist) {
        if (is_last && (t.n_stages == 1 || !t.stages[0].decode.lexical_shortlist))
            fail("--shortlist: %s has no lexicon. Leave the option out, or convert a model of "
                 "Firefox "
                 "or Bergamot together with its lexicon (lex.*.bin)",
                 path);
        s->decode.lexical_shortlist = 0;
    }
    if (opt.via && is_last && !s->config->n_languages && !t.stages[0].config->n_languages)
        fail("--via: neither model has languages");
    s->limit = batches_limit(s->config, opt.batch);
    s->most_source = most && most < opt.max_source ? most : opt.max_source;
    if (grow_reader(me) != TFM_OK)
        fail("%s%s%s", opt.second ? path : "", opt.second ? ": " : "", me->err.text);
}

/* Divides a window into jobs and hands it to the workers. A job is a batch, or fewer lines if a
   worker would get no job otherwise. The workers start with the first window of several jobs;
   before that, the threads share the work of one session. */
static void give_window(input_window *w) {
    size_t share = (w->n + (size_t)opt.threads - 1) / (size_t)opt.threads, jobs;
    w->job_lines = t.picture ? w->n : share < (size_t)opt.batch ? share : (size_t)opt.batch;
    jobs = (w->n + w->job_lines - 1) / w->job_lines;
    if (jobs > 1 && t.threads > 1) {
        t.threads = 1;
        workers_start(&t.pool, opt.threads);
    }
    workers_give(&t.pool, (int)jobs);
}

/* Frees all memory and closes the input. */
static void free_all(void) {
    input_window *w;
    worker *me;
    int i;
    for (w = t.windows; w < t.windows + WORKERS_GROUPS; w++) input_window_free(w);
    for (i = 0; i < t.n_stages; i++) {
        for (me = t.stages[i].states; me < t.stages[i].states + WORKERS_MOST; me++) {
            text_buffer_free(&me->ids);
            terms_found_free(&me->found);
            tfm_session_free(me->reader);
            tfm_session_free(me->session);
            batches_memory_free(&me->kept);
        }
        tfm_model_free(t.stages[i].model);
    }
    reader_close(&t.in.from), reader_close(&t.in.beside);
    terms_free(&t.list);
}

/* Reports why a file could not be read to its end. */
static void report_fault(const reader_stream *r, int fault) {
    const char *name = r->name ? r->name : "FILE";
    if (!r->encoding)
        fprintf(stderr, "translate: %s: %s%s%s%s\n", r->name ? r->name : "reading", strerror(fault),
                !r->file ? " (--text " : "", !r->file ? name : "",
                !r->file ? " translates it as a text)" : "");
    else
        fprintf(stderr,
                "translate: %s is probably %s text, not UTF-8; convert it first: iconv -f %s -t "
                "UTF-8 %s > %s.utf8\n",
                r->name ? r->name : "the input", r->encoding, r->encoding, name, name);
}

/* Writes to standard error how many sentences were not translated as others are. */
static void report_counts(void) {
    const struct {
        int64_t n;
        const char *one, *several;
    } counts[] = {{t.n_left, "stays as it is", "stay as they are"},
                  {t.n_divided, "divided, because it has no end in sight",
                   "divided, because they have no end in sight"},
                  {t.n_unknown, "with unknown tokens", "with unknown tokens"}};
    const char *before = "translate: ";
    size_t i;
    for (i = 0; i < sizeof counts / sizeof *counts; i++) {
        if (!counts[i].n) continue;
        fprintf(stderr, "%s%ld sentence%s %s", before, (long)counts[i].n,
                counts[i].n > 1 ? "s" : "", counts[i].n > 1 ? counts[i].several : counts[i].one);
        before = ", ";
    }
    if (*before == ',') fputs("\n", stderr);
}

/* Reports faults of the whole run and returns the exit status. */
static int end_status(void) {
    if (t.in.beside.encoding) report_fault(&t.in.beside, 0);
    else if (t.in.uneven)
        fprintf(stderr, "translate: %s has %s lines than the input\n", opt.beside, t.in.uneven);
    if (t.in.fault) report_fault(&t.in.from, t.in.fault);
    if (t.in.uneven || t.in.fault) return EXIT_USAGE;
    if (t.picture) {
        fprintf(stderr, "translate: %s: no sentence to draw\n", opt.attention);
        close_picture();
        t.any_failed = 1;
    }
    if (t.n_failed && opt.keep_going)
        fprintf(stderr, "translate: %ld lines could not be translated\n", (long)t.n_failed);
    return t.any_failed || (t.n_failed && !opt.keep_going) ? EXIT_LINES : 0;
}

/* Reads the list of --terms; ends the program with a message if it cannot be used. */
static void read_terms(void) {
    FILE *file = open_file(opt.terms, "rb");
    char bytes[4096], message[160];
    text_buffer text;
    size_t n;
    memset(&text, 0, sizeof text);
    while ((n = fread(bytes, 1, sizeof bytes, file)) > 0) text_buffer_append(&text, bytes, n);
    if (ferror(file)) fail("%s: %s", opt.terms, strerror(errno));
    fclose(file);
    if (text.broken) fail("%s: too little memory", opt.terms);
    if (!terms_read(&t.list, text.data, text.size, message, sizeof message))
        fail("%s: %s", opt.terms, message);
    text_buffer_free(&text);
}

/* Reads the first bytes of the input, and checks the kind of the input by them. */
static void look_at_input(void) {
    reader_stream *r = &t.in.from;
    if (!r->file && !r->text && !reader_open(r)) return;
    while (r->end < KIND_START && reader_fill(r) && r->name) continue;
    check_format(r->name, r->data + r->begin, r->end - r->begin);
}

/* Opens the output. Says what the program waits for, if it reads from a terminal. */
static void open_output(void) {
    static char word[4400];
    struct stat about;
    t.out = stdout;
    if (opt.output && !part_file_open(&t.made, opt.output))
        fail("%s: %s", opt.output, strerror(errno));
    if (opt.output) t.out = t.made.stream;
    if (t.made.part) {
        snprintf(word, sizeof word, "%stranslate: what was finished is in %.4096s\n",
                 isatty(2) ? "\n" : "", t.made.part);
        interrupts_word = word, interrupts_hold(0);
    }
    t.is_read = !opt.output &&
                (isatty(1) || fstat(1, &about) != 0 || (about.st_mode & S_IFMT) != S_IFREG);
    t.most_lines = (size_t)opt.batch * (t.is_read ? 1 : (size_t)WINDOW_BATCHES);
    t.shows = !opt.no_progress && (opt.progress || (isatty(2) && (!isatty(1) || opt.output)));
    progress_begin(&t.shown, isatty(2), t.shows);
    t.written = progress_now();
    if (t.in.from.file == stdin && isatty(0) && isatty(2) && !opt.no_progress)
        fputs("translate: reading lines from the terminal; " END_OF_INPUT " ends the input\n",
              stderr);
}

/* Opens the input and the output, and sets how lines are read. */
static void open_files(void) {
    t.in.from.paths = opt.files.at, t.in.from.n_paths = opt.files.n;
    if (opt.text) t.in.from.text = opt.text;
    else if (!opt.files.n) t.in.from.file = stdin;
    if (opt.beside) t.in.beside.name = opt.beside, t.in.beside.file = open_file(opt.beside, "rb");
    if (opt.attention) t.picture = open_file(opt.attention, "wb");
    if (opt.output && reader_reads(&t.in.from, opt.output))
        fail("%s is input and --output", opt.output);
    if (!opt.live) look_at_input();
    open_output();
    t.bytes = reader_size(&t.in.from);
    t.in.n = opt.first_line - 1;
    t.in.column = opt.column;
    t.in.document = opt.document;
    t.split = (opt.sentences && *opt.sentences == 's') ||
              (!opt.sentences && t.stages[0].config->sentences == TFM_SENTENCES_SPLIT);
    t.whole = (opt.sentences && *opt.sentences == 'w') ||
              (!opt.sentences && t.stages[0].config->sentences == TFM_SENTENCES_WHOLE);
    t.in.surrounds = t.stages[0].config->sentences == TFM_SENTENCES_SPLIT && !t.whole &&
                     !opt.plain && !opt.score && !opt.tokens && !opt.prefix && !opt.drafts &&
                     !opt.attention && !opt.align && !opt.decode.alternatives;
    t.looks = t.in.surrounds && !opt.all_languages && opt.n_best == 1 && !opt.sample;
    if (t.looks) languages_begin(&t.languages);
    t.in.flags = (opt.srt ? AROUND_CUES : 0) | (opt.one_text ? AROUND_ONE : 0);
    t.in.splits = t.split && !opt.one_text && !opt.score && !opt.tokens;
    t.in.unsplit = -(opt.sentences || opt.document || opt.score || opt.tokens || opt.html ||
                     opt.srt || opt.markdown || opt.wrapped ||
                     t.stages[0].config->sentences != TFM_SENTENCES_UNKNOWN);
    t.in.labels = t.stages[0].config->src_language == TFM_LANGUAGE_USE_TARGET;
    t.in.most = opt.document ? INT32_MAX : (size_t)opt.max_source * MOST_LINE;
}

/* Says that the model file does not say what the model reads. */
static void warn_unknown(void) {
    fprintf(stderr,
            "translate: line %ld has several sentences, and %s does not say whether it reads "
            "sentences or whole texts. Lines are translated as whole texts: --sentences split "
            "or --sentences whole chooses\n",
            (long)t.in.unsplit, t.stages[0].path);
    t.in.unsplit = -1;
}

/* Closes the output. A file that is not whole, because the input could not be read to its end, is
   left under its other name. */
static void close_output(int status) {
    if (!opt.output) return;
    if (status == EXIT_USAGE) {
        if (fclose(t.out) != 0) fail_writing(errno);
        if (interrupts_word) fputs(interrupts_word, stderr);
    } else if (part_file_close(&t.made) != 0) fail_writing(errno);
    interrupts_word = NULL, interrupts_hold(0);
    free(t.made.part);
}

/* Writes a message of live_lines_run. */
static void complain_live(const char *message) { fprintf(stderr, "translate: %s\n", message); }

/* Returns what translates with a model while the text comes. */
static live_translation *live_stage(stage *s, tfm_session **session) {
    live_translation *l = (live_translation *)calloc(1, sizeof *l);
    tfm_session_options limits;
    if (!l) fail("too little memory");
    live_translation_limits(s->model, &limits);
    limits.threads = opt.threads;
    if (opt.f16_cache) limits.cache = TFM_DTYPE_F16;
    if (make_session(&s->states[0], session, &limits) != TFM_OK) fail("%s", s->states[0].err.text);
    live_translation_begin(l, s->model, *session, &s->decode);
    return l;
}

/* Translates the input while it comes. Returns the exit status. */
static int translate_live(void) {
    live_translation *of[2] = {NULL, NULL};
    tfm_session *sessions[2] = {NULL, NULL};
    live_lines lines;
    int64_t failures;
    int i;
    for (i = 0; i < t.n_stages; i++) of[i] = live_stage(&t.stages[i], &sessions[i]);
    memset(&lines, 0, sizeof lines);
    lines.texts.first = of[0], lines.texts.second = of[1];
    lines.in = &t.in.from, lines.out = t.out, lines.complain = complain_live;
    lines.is_json = opt.json, lines.is_terminal = !opt.output && isatty(1);
    if (opt.input) lines.input = *opt.input == 'j' ? LIVE_LINES_JSON : LIVE_LINES_TEXT;
    interrupts_hold(1);
    failures = live_lines_run(&lines);
    if (lines.fault) fail_writing(lines.fault);
    if (interrupts_stopped()) interrupts_end();
    interrupts_hold(0);
    if (t.in.from.fault) report_fault(&t.in.from, t.in.from.fault);
    for (i = 0; i < t.n_stages; i++)
        live_translation_free(of[i]), free(of[i]), tfm_session_free(sessions[i]);
    return t.in.from.fault ? EXIT_USAGE : failures && !opt.keep_going ? EXIT_LINES : 0;
}

int main(int argc, char **argv) {
    static const workers_task task = {run_job, finish_window, hold_while_busy};
    int more = 1, status;
    if (t.started)
        memset(&t, 0, sizeof t), memset(&opt, 0, sizeof opt); /* main was called before */
    t.started = 1;
    argv = utf8_arguments(&argc, argv);
    read_options(argc, argv);
    if (opt.terms) read_terms();
    open_model(opt.model, !opt.second);
    if (opt.second) open_model(opt.second, 1);
    open_files();
    if (opt.live) {
        status = translate_live();
        close_output(status);
        free_all();
        return status;
    }
    if (opt.html || opt.srt || opt.markdown || opt.wrapped)
        document_open(&t.in, t.whole, opt.from ? opt.from : t.stages[0].config->source_language,
                      language_of(&t.stages[t.n_stages - 1]));
    if (t.in.next) t.n_divided = (int64_t)page.m.n_divided;
    t.threads = opt.threads;
    if (!workers_open(&t.pool, &task)) fail("the system cannot create another lock");
    while (more) {
        input_window *w = &t.windows[workers_take(&t.pool)];
        int one = t.picture != NULL || opt.batch == 1;
        t.in.unsorted = t.picture != NULL;
        size_t most;
        workers_lock(&t.pool);
        most = t.most_lines;
        workers_unlock(&t.pool);
        more = input_read(&t.in, w, one ? 1 : most);
        if (t.in.unsplit > 0) warn_unknown();
        if (w->n) give_window(w);
    }
    workers_close(&t.pool);
    if (t.in.next) document_close(t.out);
    end_progress(t.in.n - opt.first_line + 1);
    report_counts();
    status = end_status();
    close_output(status);
    free_all();
    return status;
}
