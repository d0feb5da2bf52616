/* web.c: the library as WebAssembly, for transformer.js. An instance holds one model. `make web`
   builds it:

       clang --target=wasm32-wasi -std=c99 -Os -msimd128 -I. examples/web/web.c -o web.wasm \
           -nostartfiles -Wl,--no-entry

   It imports nothing. Calls that can fail return a tfm_status below 0, negated, and web_error has
   the message. What a pointer leads to stays until the next call that returns such a pointer.
   Define TRANSFORMER_NO_TEXT or the like in the library's place to leave parts out. */
#define TRANSFORMER_STATIC
#define TRANSFORMER_NO_STDIO
#define TRANSFORMER_NO_THREADS
#define TRANSFORMER_IMPLEMENTATION
#include "transformer.h"

/* Code that is not computing may be slow: it is compiled for size. */
#pragma clang attribute push(__attribute__((minsize)), apply_to = function)
#include "../translate/attention.h"
#include "../translate/live_pipeline.h"
#include "../translate/text/languages.h"
#include "../translate/text/paragraph.h"

#define EXPORT(type, name) __attribute__((export_name(#name))) type name

enum { MOST_SOURCE = 512, MOST_BEAM = 256 }; /* tokens of a sentence; hypotheses */
enum { DRAFT_TOKENS = 8, MOST_DRAFTS = 4 };  /* that a step verifies of a draft; rows with drafts */
enum { MOST_BYTES = 1 << 26, MOST_ROOM = 1 << 30 }; /* of a batch's session; of a buffer */

/* The options, which JavaScript writes before it starts. 0: the model's default, or the library's
   if the model has none. */
enum {
    GREEDY,
    BEAM,
    N_BEST,
    LENGTH_PENALTY,
    MAX_LENGTH,
    NO_REPEAT_NGRAM,
    REPETITION_PENALTY,
    ALTERNATIVES,
    MIN_PROBABILITY,
    KEEP_ATTENTION,
    N_OPTIONS
};

/* A block of memory that grows and is reused. */
typedef struct room {
    void *data;
    size_t size;
} room;

/* A hypothesis, as JavaScript reads it. */
typedef struct hypothesis {
    double score, log_probability;
    int32_t finish, length;
    const int32_t *ids;
    const char *text;
    size_t size;
    const uint32_t *ends;   /* [length] bytes of the text up to each token's end */
    const double *each;     /* [length + 1] log-probabilities */
    const float *weights;   /* [length, source tokens], or NULL */
    const int32_t *aligned; /* [length] source tokens, or NULL */
} hypothesis;

/* What the model reads of a text, as JavaScript reads it: size 0 if there is nothing to translate,
   -1 if the text is too long for a sentence, so that the model gets it as it is. */
typedef struct taken {
    const char *text;
    int32_t size, needs_alignment;
} taken;

/* A text with what stands around it. The part from `begin` on is the translation. */
typedef struct restored {
    const char *text;
    int32_t size, begin;
} restored;

static struct {
    tfm_model *model;
    tfm_session *reader, *session; /* one tokenizes, one translates */
    tfm_session_options limits;    /* of the session */
    int32_t reader_source;
    char source[64], target[64]; /* languages */
    double options[N_OPTIONS];
    room text, batch, ids, spans, out, each, ends, weights, scratch, requests, marks, aligned;
    paragraph around;  /* of the text at hand */
    text_buffer whole; /* of web_restore and web_live_read */
    int32_t is_exact;
    int32_t n; /* number of tokens of the last text */
    hypothesis result;
    size_t used; /* bytes of all allocations */
    tfm_error err;
} web;

/* ---- memory --------------------------------------------------------------------------------- */

/* Allocates a block that stores its own size, so that web.used can be kept. */
static void *take(void *user, size_t bytes) {
    size_t *block = bytes < SIZE_MAX - 16 ? (size_t *)malloc(bytes + 16) : NULL;
    (void)user;
    if (!block) return NULL;
    web.used += block[0] = bytes;
    return block + 4;
}
static void give_back(void *user, void *pointer) {
    size_t *block = (size_t *)pointer - 4;
    (void)user;
    if (!pointer) return;
    web.used -= block[0];
    free(block);
}
static const tfm_allocator counting = {take, give_back, NULL};

static int32_t failed(tfm_status status) {
    web.err.status = status;
    return -(int32_t)status;
}
/* Sets the error's message and returns the status, negated. */
static int32_t fail(tfm_status status, const char *message) {
    web.err.text[0] = 0;
    strncat(web.err.text, message, sizeof web.err.text - 1);
    return failed(status);
}
static int32_t no_memory(void) { return fail(TFM_E_MEMORY, "too little memory"); }

/* Makes room for at least that many bytes. Returns NULL if there is no memory. */
static void *fit(room *r, int64_t bytes) {
    size_t size = bytes < MOST_ROOM ? (size_t)(bytes + bytes / 4 + 64) : 0;
    if (size && r->data && (size_t)bytes <= r->size) return r->data;
    give_back(NULL, r->data);
    r->data = size ? take(NULL, size) : NULL;
    r->size = r->data ? size : 0;
    return r->data;
}

EXPORT(void *, web_allocate)(size_t bytes) { return take(NULL, bytes); }
EXPORT(void, web_free)(void *pointer) { give_back(NULL, pointer); }
/* Return the memory where JavaScript writes a text, and the memory where it writes ids. */
EXPORT(void *, web_text)(size_t bytes) { return fit(&web.text, bytes); }
EXPORT(void *, web_batch)(size_t bytes) { return fit(&web.batch, bytes); }
EXPORT(double *, web_options)(void) { return web.options; }
EXPORT(size_t, web_used)(void) { return web.used; }
EXPORT(int32_t, web_failed)(void) { return -(int32_t)web.err.status; }
EXPORT(const char *, web_error)(void) { return web.err.text; }
EXPORT(const char *, web_status)(int32_t status) {
    static const char *const names[] = {
#define NAME(name, text) #name,
        TFM_STATUS_TABLE(NAME)
#undef NAME
    };
    return status >= 0 && status < TFM_STATUS_COUNT ? names[status] : "";
}

/* ---- the model ------------------------------------------------------------------------------ */

/* Loads a model of size bytes at data, which must come from web_allocate. Packs the matrices in
   place, like tfm_model_load_file, because a second copy would double the memory. */
EXPORT(int32_t, web_load)(void *data, size_t size, int32_t exact) {
    tfm_model_options o;
    memset(&o, 0, sizeof o);
    o.exact = web.is_exact = exact, o.allocator = &counting, o.overwrite = 1;
    return failed(tfm_model_load(&web.model, data, size, &o, &web.err));
}

EXPORT(const char *, web_version)(void) { return tfm_version(); }
EXPORT(const char *, web_kernels)(void) {
#ifdef __wasm_simd128__
    if (web.is_exact) return "WASM SIMD128, fused";
#endif
    return tfm_cpu_string();
}
EXPORT(const char *, web_arithmetic)(void) { return tfm_arithmetic_string(web.model); }
EXPORT(const int32_t *, web_info)(void) {
    static int32_t info[14];
    const tfm_config *c = tfm_model_config(web.model);
    info[0] = c->n_encoder_layers, info[1] = c->n_decoder_layers, info[2] = c->n_heads;
    info[3] = c->d_model, info[4] = c->src_vocab_size, info[5] = c->tgt_vocab_size;
    info[6] = c->has_text, info[7] = c->n_ssru_layers, info[8] = c->n_languages;
    info[9] = c->src_language == TFM_LANGUAGE_USE_SOURCE;
    info[10] = c->src_language == TFM_LANGUAGE_USE_TARGET || c->tgt_language_forced;
    info[11] = c->forced >= 0 ||
               c->tgt_language_forced; /* whether the first id of a result is forced */
    info[12] = c->sentences == TFM_SENTENCES_SPLIT, info[13] = c->src_unk;
    return info;
}
EXPORT(const char *, web_language)(int32_t i) {
    return tfm_model_config(web.model)->languages[i].code;
}

/* ---- sessions ------------------------------------------------------------------------------- */

static const char *code(const char *language) { return *language ? language : NULL; }

static tfm_status open_session(tfm_session **session, const tfm_session_options *o) {
    tfm_status status = tfm_session_create(session, web.model, o, &web.err);
    if (status == TFM_OK && (*web.source || *web.target))
        status = tfm_languages_set(*session, code(web.source), code(web.target), &web.err);
    if (status == TFM_OK) return status;
    tfm_session_free(*session);
    *session = NULL;
    return status;
}

/* Replaces the reader by a larger one. It begins small, because most texts are short. */
static tfm_status grow_reader(void) {
    int32_t most = tfm_model_config(web.model)->max_positions;
    tfm_session_options o;
    memset(&o, 0, sizeof o);
    o.max_source = web.reader ? 8 * web.reader_source : 64, o.max_target = 1;
    if (o.max_source > MOST_SOURCE) o.max_source = MOST_SOURCE;
    if (most && o.max_source > most) o.max_source = most;
    tfm_session_free(web.reader);
    web.reader = NULL;
    web.reader_source = o.max_source;
    return open_session(&web.reader, &o);
}

static void close_sessions(void) {
    tfm_session_free(web.reader), tfm_session_free(web.session);
    web.reader = web.session = NULL;
}

/* Sets the languages of sessions from web.text, which is "source\0target\0"; "" means none. After
   an error there are none. */
EXPORT(int32_t, web_languages)(void) {
    const char *source = (const char *)web.text.data, *target = source + strlen(source) + 1;
    tfm_status status = TFM_E_TOKEN;
    close_sessions(); /* because a session cannot go back to no languages */
    *web.source = *web.target = 0;
    if (strlen(source) >= sizeof web.source || strlen(target) >= sizeof web.target)
        return fail(status, "a language's code is longer than 63 bytes");
    strcpy(web.source, source), strcpy(web.target, target);
    status = grow_reader();
    if (status != TFM_OK) *web.source = *web.target = 0;
    return failed(status);
}

/* Tokenizes the first size bytes of the text and returns the number of tokens; they are at web_ids
   and web_spans. */
EXPORT(int32_t, web_tokenize)(size_t size) {
    tfm_text text;
    tfm_tokens tokens;
    tfm_status status = web.reader ? TFM_OK : grow_reader();
    text.data = (const char *)web.text.data, text.size = size;
    while (status == TFM_OK) {
        int32_t *ids = (int32_t *)fit(&web.ids, (size_t)web.reader_source * sizeof *ids);
        tfm_span *spans = (tfm_span *)fit(&web.spans, (size_t)web.reader_source * sizeof *spans);
        int32_t before = web.reader_source;
        if (!ids || !spans) return no_memory();
        memset(&tokens, 0, sizeof tokens);
        tokens.ids = ids, tokens.spans = spans, tokens.capacity = web.reader_source;
        status = tfm_session_tokenize(web.reader, &text, TFM_TEXT_FORM_TEXT, &tokens, &web.err);
        if (status == TFM_OK) web.n = tokens.n;
        if (status == TFM_OK) return web.n;
        if (status != TFM_E_TOO_LONG) break;
        if (before < MOST_SOURCE) status = grow_reader();
        if (web.reader_source == before) return -TFM_E_TOO_LONG;
    }
    return failed(status);
}
/* Tokenizes the first size bytes of the text as a target and returns the number of tokens. */
EXPORT(int32_t, web_tokenize_target)(size_t size) {
    const tfm_text text = tfm_text_make((const char *)web.text.data, size);
    tfm_status status = tfm_model_tokenize_target(web.model, text, TFM_TEXT_FORM_TEXT, NULL, 0,
                                                  &web.n, NULL, &web.err);
    if (status != TFM_OK) return failed(status);
    if (!fit(&web.ids, (int64_t)web.n * (int64_t)sizeof(int32_t))) return no_memory();
    status = tfm_model_tokenize_target(web.model, text, TFM_TEXT_FORM_TEXT, (int32_t *)web.ids.data,
                                       web.n, &web.n, NULL, &web.err);
    return status == TFM_OK ? web.n : failed(status);
}
EXPORT(const int32_t *, web_ids)(void) { return (const int32_t *)web.ids.data; }
EXPORT(const tfm_span *, web_spans)(void) { return (const tfm_span *)web.spans.data; }

/* Return the label of token i of the text that was tokenized last, and the label of a target id. */
EXPORT(const char *, web_source_label)(int32_t i, size_t size) {
    tfm_text text;
    const tfm_config *c = tfm_model_config(web.model);
    const int32_t *ids = (const int32_t *)web.ids.data;
    const tfm_span *spans = (const tfm_span *)web.spans.data;
    char *label;
    (void)attention_draw; /* attention.h defines it; avoids the warning that it is unused */
    text.data = (const char *)web.text.data, text.size = size;
    label = (char *)fit(&web.out, attention_label_source(NULL, c, &text, ids, spans, web.n, i));
    if (label) attention_label_source(label, c, &text, ids, spans, web.n, i);
    return label;
}
EXPORT(const char *, web_target_label)(int32_t id) {
    size_t size = attention_label_target(NULL, 0, web.model, id);
    char *label = (char *)fit(&web.out, size);
    if (label) *label = 0, attention_label_target(label, size, web.model, id);
    return label;
}

/* ---- sentences ------------------------------------------------------------------------------ */

/* Widens the first piece of a line to what stays of the whitespace around it: the indent of a
   label, and all of a line without letters. */
static void widen(const around_piece *piece, int32_t n, tfm_text line, uint32_t *out,
                  const char *text) {
    if (line.size && line.data[line.size - 1] == '\r') line.size--;
    if (piece->before) out[0] = (uint32_t)(line.data - text);
    else if (n == 1 && !piece->after && !piece->is_copied &&
             !around_has_letter(piece->text, piece->size))
        out[0] = (uint32_t)(line.data - text), out[1] = out[0] + (uint32_t)line.size;
}

/* Finds the sentences of a line, with what stands around each of them if `surrounds` is set, and
   returns their number. out [n, 2] gets the begin and end of each in the text; it may be NULL. */
static int32_t find_sentences(const char *text, tfm_text line, int surrounds, int whole,
                              uint32_t *out) {
    around_reader r;
    around_piece piece, first;
    tfm_text sentence;
    int32_t n;
    memset(&r, 0, sizeof r), memset(&first, 0, sizeof first);
    r.text = line.data, r.size = line.size;
    for (n = 0;; n++) {
        if (surrounds) {
            if (!around_next(&r, &piece)) break;
            sentence =
                tfm_text_make(piece.text - piece.before, piece.before + piece.size + piece.after);
            if (!n) first = piece;
        } else {
            tfm_text more;
            if (!tfm_sentence_next(line, &r.at, &sentence)) break;
            while (whole && tfm_sentence_next(line, &r.at, &more))
                sentence.size = (size_t)(more.data + more.size - sentence.data);
        }
        if (!out) continue;
        out[2 * n] = (uint32_t)(sentence.data - text);
        out[2 * n + 1] = out[2 * n] + (uint32_t)sentence.size;
    }
    if (out && n && surrounds) widen(&first, n, line, out, text);
    return n;
}

/* Finds the sentences in the text's lines and returns their number; web_batch has the begin and end
   of each, in bytes. word is a tfm_sentences, 0: the model's. A model that reads whole texts gets
   each line as one; a file that does not say what its model reads is read by sentences. plain 1:
   what stands around sentences is not looked at. */
EXPORT(int32_t, web_sentences)(size_t size, int32_t word, int32_t plain) {
    const tfm_config *c = tfm_model_config(web.model);
    int whole = (word ? word : (int32_t)c->sentences) == TFM_SENTENCES_WHOLE;
    int surrounds = !plain && !whole && c->sentences == TFM_SENTENCES_SPLIT;
    const char *text = (const char *)web.text.data;
    int32_t n = 0, pass;
    for (pass = 0; pass < 2; pass++) {
        uint32_t *out = pass ? (uint32_t *)fit(&web.batch, 8 * (size_t)n + 8) : NULL;
        size_t line, end;
        if (pass && !out) return no_memory();
        for (n = 0, line = 0; line < size; line = end + 1) {
            const char *newline = (const char *)memchr(text + line, '\n', size - line);
            end = newline ? (size_t)(newline - text) : size;
            n += find_sentences(text, tfm_text_make(text + line, end - line), surrounds, whole,
                                out ? out + 2 * n : NULL);
        }
    }
    return n;
}
/* Returns what goes between two translated sentences, the first of which is the text's first `size`
   bytes. Then the whitespace between their sources follows, of `between` bytes. 2: that whitespace,
   1: a space, 0: nothing. */
EXPORT(int32_t, web_sentence_space)(size_t size, size_t between) {
    const char *text = (const char *)web.text.data;
    tfm_text space =
        tfm_sentence_space(tfm_text_make(text, size), tfm_text_make(text + size, between));
    return between && space.data == text + size ? 2 : (int32_t)space.size;
}

/* ---- what stands around a sentence --------------------------------------------------------- */

/* Returns the number of tokens of a word, for around_capitalize. */
static int32_t count_tokens(void *user, const char *word, size_t size) {
    int32_t n = INT32_MAX;
    (void)user;
    (void)tfm_model_tokenize(web.model, tfm_text_make(word, size), TFM_TEXT_FORM_TEXT, NULL, 0, &n,
                             NULL, NULL);
    return n;
}

/* Takes the first size bytes of the text apart. Several sentences are taken as one. */
static int take_apart(size_t size) {
    paragraph *p = &web.around;
    p->flags = 0, p->count = count_tokens, p->language = code(web.target);
    if (!p->language) p->language = tfm_model_config(web.model)->target_language;
    if (!paragraph_read(p, (const char *)web.text.data, size)) return 0;
    if (p->n < 2) return 1;
    p->flags = AROUND_ONE;
    return paragraph_read(p, (const char *)web.text.data, size);
}

/* Finds what the model reads of the first size bytes of the text. Returns NULL if there is no
   memory. */
EXPORT(const taken *, web_take)(size_t size) {
    static taken t;
    tfm_text source = tfm_text_make("", 0);
    if (!take_apart(size)) return no_memory(), NULL;
    if (web.around.n) source = paragraph_source(&web.around, 0);
    t.text = source.data, t.size = web.around.n > 1 ? -1 : (int32_t)source.size;
    t.needs_alignment = source.size && around_needs_alignment(&web.around.parts->inner);
    return &t;
}

/* Returns room for three numbers of each of n tokens. */
EXPORT(size_t *, web_marks)(size_t n) { return (size_t *)fit(&web.marks, 3 * n * sizeof(size_t)); }

/* Puts what web_take kept around the translation, the n_text bytes behind the first size bytes of
   the text. web_marks has three numbers of each of n tokens: all ends in the translation, then all
   begins in what web_take gave, then all ends there. They become those in the whole texts. Returns
   NULL if there is no memory. */
EXPORT(const restored *, web_restore)(size_t size, size_t n_text, size_t n) {
    static restored r;
    const char *text = (const char *)web.text.data;
    size_t *ends = (size_t *)web.marks.data, i, begin;
    const paragraph_part *part;
    if (!take_apart(size)) return no_memory(), NULL;
    if (web.around.n && paragraph_source(&web.around, 0).size)
        paragraph_put(&web.around, 0, text + size, n_text, n, ends, ends + n, ends + 2 * n);
    text_buffer_clear(&web.whole, 1 << 16);
    paragraph_join(&web.around, &web.whole);
    if (web.whole.broken) return no_memory(), NULL;
    r.text = web.whole.data, r.size = (int32_t)web.whole.size, r.begin = 0;
    if (!web.around.n || !web.around.parts->is_translated) return &r;
    part = web.around.parts;
    r.begin = (int32_t)(web.whole.size - part->kept[1].size - part->made.size);
    begin = (size_t)(part->sentence.data - text);
    for (i = 0; i < n; i++) {
        ends[i] += (size_t)r.begin;
        if (ends[2 * n + i]) ends[n + i] += begin, ends[2 * n + i] += begin;
    }
    return &r;
}

/* ---- translating ---------------------------------------------------------------------------- */

static tfm_decode_options decode_options(void) {
    const double *o = web.options;
    tfm_decode_options d;
    memset(&d, 0, sizeof d);
    if (!(o[GREEDY] != 0)) d = *tfm_model_decoding(web.model);
    if (o[BEAM] > 0) d.beam = (int32_t)o[BEAM];
    if (o[N_BEST] > 0) d.n_best = (int32_t)o[N_BEST];
    if (o[LENGTH_PENALTY] != 0) d.length_penalty = o[LENGTH_PENALTY];
    if (o[MAX_LENGTH] > 0) d.max_length = (int32_t)o[MAX_LENGTH];
    if (o[NO_REPEAT_NGRAM] > 0) d.no_repeat_ngram = (int32_t)o[NO_REPEAT_NGRAM];
    if (o[REPETITION_PENALTY] > 0) d.repetition_penalty = o[REPETITION_PENALTY];
    if (d.beam < d.n_best) d.beam = d.n_best;
    if (d.beam < 1) d.beam = 1;
    d.alternatives = (int32_t)o[ALTERNATIVES];
    d.min_alternative_prob = o[MIN_PROBABILITY];
    if (d.alternatives) d.n_best = 1;
    return d;
}

/* Returns the number of hypotheses of a sentence that a session must hold. */
static int32_t ways(const tfm_decode_options *d) {
    return d->beam * (d->alternatives ? d->alternatives : 1);
}

static int32_t round_up(int32_t n, int32_t least) {
    while (least < n) least *= 2;
    return least;
}

static tfm_session_options session_limits(int32_t rows, int32_t source, int32_t prefix,
                                          int32_t target, int32_t beam, int attention) {
    int32_t most = tfm_model_config(web.model)->max_positions;
    tfm_session_options o;
    memset(&o, 0, sizeof o);
    o.max_batch = round_up(rows, 1);
    o.max_source = round_up(source, 64);
    /* large enough that the session's limit never ends a sentence */
    o.max_target = target ? round_up(target, 64)
                          : 2 * o.max_source + 16 + (prefix ? round_up(prefix, 64) : 0);
    o.max_beam = beam;
    o.attention = attention;
    if (most && o.max_source > most) o.max_source = most;
    if (most && o.max_target > most) o.max_target = most;
    return o;
}

/* Makes sure that the session has at least these limits. Frees the old session before it creates a
   larger one. */
static tfm_status fit_session(tfm_session_options o) {
    if (web.session && web.limits.max_batch >= o.max_batch &&
        web.limits.max_source == o.max_source && web.limits.max_target >= o.max_target &&
        web.limits.max_beam >= o.max_beam && web.limits.max_draft >= o.max_draft &&
        web.limits.attention == o.attention)
        return TFM_OK;
    tfm_session_free(web.session);
    web.session = NULL;
    web.limits = o;
    return open_session(&web.session, &o);
}

/* Returns how many of the rows to translate in one batch: fewer if sentences, beam or model are so
   large that the session would exceed MOST_BYTES. */
EXPORT(int32_t, web_rows)(int32_t rows, int32_t width, int32_t prefix_width) {
    tfm_decode_options d = decode_options();
    size_t bytes = 0;
    for (; rows > 1; rows /= 2) {
        tfm_session_options o = session_limits(rows, width, prefix_width, d.max_length, ways(&d),
                                               web.options[KEEP_ATTENTION] != 0);
        if (tfm_session_bytes(web.model, &o, &bytes, NULL) == TFM_OK && bytes <= MOST_BYTES) break;
    }
    return rows;
}

/* Starts to translate a batch. web_batch has lengths [rows], ids [rows, width], prefix lengths
   [rows], prefix ids [rows, prefix_width], draft lengths [rows] and draft ids [rows, draft_width].
   Drafts are used where they save time; they never change the result. */
EXPORT(int32_t, web_start)(int32_t rows, int32_t width, int32_t prefix_width, int32_t draft_width) {
    const int32_t *at = (const int32_t *)web.batch.data;
    tfm_decode_options d = decode_options();
    tfm_session_options o;
    tfm_request *requests;
    tfm_status status;
    int32_t i;
    int has_drafts = draft_width && ways(&d) == 1 && rows <= MOST_DRAFTS;
    if (d.beam > MOST_BEAM || d.alternatives > MOST_BEAM || ways(&d) > MOST_BEAM)
        return fail(TFM_E_ARGUMENT, "beam and alternatives: at most 256 hypotheses of a sentence");
    if (tfm_model_config(web.model)->tgt_language_forced && !*web.target)
        return fail(TFM_E_STATE, "the model knows several languages: options.target chooses one");
    requests = (tfm_request *)fit(&web.requests, (size_t)rows * sizeof *requests);
    if (!requests) return no_memory();
    memset(requests, 0, (size_t)rows * sizeof *requests);
    for (i = 0; i < rows; i++) {
        const int32_t *ids = at + rows;
        requests[i].ids = tfm_ids_make(ids + i * width, at[i]);
        ids += rows * width;
        if (prefix_width) requests[i].prefix = tfm_ids_make(ids + rows + i * prefix_width, ids[i]);
        ids += rows + rows * prefix_width;
        if (has_drafts) requests[i].draft = tfm_ids_make(ids + rows + i * draft_width, ids[i]);
    }
    o = session_limits(rows, width, prefix_width, d.max_length, ways(&d),
                       web.options[KEEP_ATTENTION] != 0);
    if (has_drafts) o.max_draft = DRAFT_TOKENS;
    status = fit_session(o);
    return failed(status == TFM_OK ? tfm_session_start(web.session, requests, rows, &d, &web.err)
                                   : status);
}

/* Adds a token to each hypothesis. Returns how many rows are not finished. */
EXPORT(int32_t, web_step)(void) {
    int32_t running = 0;
    tfm_status status = tfm_session_step(web.session, &running, &web.err);
    return status == TFM_OK ? running : failed(status);
}
EXPORT(int32_t, web_count)(int32_t row) { return tfm_result_count(web.session, row); }

/* Sets the text of web.result's ids, and where each id ends in it. */
static tfm_status spell(void) {
    hypothesis *h = &web.result;
    size_t *found = (size_t *)fit(&web.ends, ((size_t)h->length + 1) * sizeof *found);
    uint32_t *ends = (uint32_t *)(void *)found; /* read by JavaScript, narrowed in place */
    int32_t i;
    tfm_status status = tfm_model_detokenize(web.model, h->ids, h->length, TFM_TEXT_FORM_TEXT, NULL,
                                             0, &h->size, &web.err);
    if (status == TFM_OK && (!found || !fit(&web.out, h->size + 1)))
        return no_memory(), TFM_E_MEMORY;
    h->ends = ends, h->text = (const char *)web.out.data;
    if (status == TFM_OK)
        status = tfm_model_detokenize(web.model, h->ids, h->length, TFM_TEXT_FORM_TEXT,
                                      (char *)web.out.data, h->size + 1, &h->size, &web.err);
    if (status == TFM_OK)
        status =
            target_ends_find(web.model, h->ids, h->length, TFM_TEXT_FORM_TEXT, found, &web.err);
    for (i = 0; status == TFM_OK && i < h->length; i++) {
        uint32_t end = (uint32_t)found[i];
        memcpy(&ends[i], &end, sizeof end);
    }
    return status;
}

/* Stores a hypothesis for JavaScript at web_hypothesis. */
EXPORT(int32_t, web_result)(int32_t row, int32_t rank) {
    hypothesis *h = &web.result;
    tfm_result r;
    tfm_status status = tfm_result_get(web.session, row, rank, &r, &web.err);
    if (status != TFM_OK) return failed(status);
    memset(h, 0, sizeof *h);
    h->score = r.score, h->log_probability = r.log_probability;
    h->finish = (int32_t)r.finish, h->length = r.length, h->ids = r.ids;
    h->each = (double *)fit(&web.each, ((size_t)r.length + 1) * sizeof *h->each);
    if (!h->each) return no_memory();
    status =
        tfm_result_log_probabilities(web.session, row, rank, (double *)web.each.data, &web.err);
    if (status == TFM_OK) status = spell();
    if (status == TFM_OK && web.limits.attention) {
        int32_t width = ((const int32_t *)web.batch.data)[row];
        tfm_tensor t;
        h->weights =
            (const float *)fit(&web.weights, (size_t)r.length * (size_t)width * sizeof(float));
        if (!h->weights) return no_memory();
        t = tfm_tensor_2d(web.weights.data, TFM_DTYPE_F32, r.length, width);
        if (r.length) status = tfm_result_attention(web.session, row, rank, &t, &web.err);
        h->aligned = (const int32_t *)fit(&web.aligned, 4 * (int64_t)r.length + 4);
        if (!h->aligned) return no_memory();
        if (status == TFM_OK)
            status =
                tfm_result_alignment(web.session, row, rank, (int32_t *)web.aligned.data, &web.err);
    }
    return failed(status);
}
/* Stores n ids at web_batch as a hypothesis at web_hypothesis; it has a text, but no scores. */
EXPORT(int32_t, web_spell)(int32_t n) {
    memset(&web.result, 0, sizeof web.result);
    web.result.ids = (const int32_t *)web.batch.data, web.result.length = n;
    return failed(spell());
}
EXPORT(const hypothesis *, web_hypothesis)(void) { return &web.result; }

/* Returns whether the first size bytes of the text are already in the language of their
   translation, the n_text bytes behind them. score is its log-probability. */
EXPORT(int32_t, web_stays)(size_t size, size_t n_text, double score) {
    static languages_table *table;
    const char *text = (const char *)web.text.data;
    const tfm_request request = tfm_request_text(text, size);
    const int32_t limit = decode_options().max_length;
    languages_look look;
    double *each, copy = 0;
    int32_t n, length, i;
    tfm_ids target;
    if (!table) {
        table = (languages_table *)malloc(sizeof *table);
        if (!table) return no_memory();
        languages_begin(table);
    }
    if (!languages_suspects(&look, table, tfm_model_config(web.model)->source_language, text, size,
                            text + size, n_text, score, 0, 0))
        return 0;
    n = web_tokenize(size), length = n < 0 ? n : web_tokenize_target(size);
    if (length < 0 || length >= 2 * n + 16 || (limit && length >= limit)) return 0;
    target = tfm_ids_make((const int32_t *)web.ids.data, length);
    each = (double *)fit(&web.each, ((int64_t)length + 1) * (int64_t)sizeof *each);
    if (!each) return no_memory();
    if (fit_session(session_limits(1, n, 0, length + 1, 1, 0)) != TFM_OK ||
        tfm_session_score(web.session, &request, 1, &target, 0, each, &web.err) != TFM_OK)
        return 0;
    for (i = 0; i <= length; i++) copy += each[i];
    return languages_stays(&look, copy);
}

/* ---- a text that is translated while it comes ------------------------------------------------ */

/* A text with a session of its own. */
typedef struct live_text {
    live_pipeline pipeline;
    live_translation translation;
    tfm_session *session;
} live_text;

static void live_show(void *user, int is_done) {
    live_pipeline_object((live_pipeline *)user, is_done, &web.whole);
}
/* The message of the first run of a call that failed is kept. */
static void live_fail(void *user, const tfm_error *err) {
    (void)user;
    if (web.err.status == TFM_OK) web.err = *err;
}

EXPORT(void, web_live_free)(live_text *t) {
    live_translation_free(&t->translation);
    tfm_session_free(t->session);
    give_back(NULL, t);
}

/* Begins a text in the languages of web_languages. sure is that of live_translation, 0 its default.
   Returns NULL if that failed. */
EXPORT(live_text *, web_live_begin)(double sure) {
    live_text *t = (live_text *)take(NULL, sizeof *t);
    tfm_session_options limits;
    tfm_status status;
    if (!t) return no_memory(), NULL;
    memset(t, 0, sizeof *t);
    live_translation_limits(web.model, &limits);
    status = open_session(&t->session, &limits);
    if (status != TFM_OK) return failed(status), give_back(NULL, t), NULL;
    live_translation_begin(&t->translation, web.model, t->session, tfm_model_decoding(web.model));
    if (sure > 0) t->translation.sure = sure;
    t->pipeline.first = &t->translation, t->pipeline.user = &t->pipeline;
    t->pipeline.show = live_show, t->pipeline.fail = live_fail;
    return t;
}

/* Reads the first size bytes of web_text. The end of a line ends a text, and so does size 0. */
EXPORT(int32_t, web_live_read)(live_text *t, size_t size) {
    const char *text = (const char *)web.text.data;
    web.err.status = TFM_OK;
    text_buffer_clear(&web.whole, 1 << 16);
    if (!size && t->pipeline.is_begun) live_pipeline_end(&t->pipeline);
    while (size) {
        size_t n = live_pipeline_line(&t->pipeline, text, size);
        text += n, size -= n;
    }
    return web.whole.broken ? no_memory() : failed(web.err.status);
}

/* Returns the lines of JSON that web_live_read has made. */
EXPORT(const char *, web_live_lines)(void) { return web.whole.size ? web.whole.data : ""; }

/* ---- attention of all layers and heads ------------------------------------------------------- */

/* Computes the attention of one row. web_batch has the source and the target, laid out like source
   and prefix of web_start. kind 0: of the decoder to the source [N, H, T + 1, S]; row t chose token
   t, and the last row the end token. kind 1: of the encoder [N, H, S, S].
   kind 2: of the decoder to earlier target tokens [N, H, T + 1, T + 1]. */
EXPORT(const float *, web_attention)(int32_t width, int32_t target, int32_t kind) {
    const tfm_config *c = tfm_model_config(web.model);
    int32_t *at = (int32_t *)web.batch.data, rows = kind == 1 ? width : target + 1;
    int32_t columns = kind == 2 ? rows : width;
    int64_t dims[5];
    tfm_forward_options o;
    tfm_tensor logits, *weights = kind == 1   ? &o.encoder_attention
                                  : kind == 2 ? &o.decoder_attention
                                              : &o.cross_attention;
    tfm_request source;
    tfm_ids to;
    tfm_status status;
    int64_t n = 1;
    int i;
    memset(&o, 0, sizeof o);
    dims[0] = kind == 1 ? c->n_encoder_layers : c->n_decoder_layers;
    dims[1] = 1, dims[2] = c->n_heads, dims[3] = rows, dims[4] = columns;
    for (i = 0; i < 5; i++) n *= dims[i];
    source = tfm_request_ids(at + 1, width);
    /* the start token replaces the length before the ids */
    to = tfm_ids_make(at + 1 + width, target + 1);
    at[1 + width] = c->start < 0 ? 0 : c->start;
    status = fit_session(session_limits(1, width, 0, target + 1, 1, 0));
    if (status == TFM_OK && (!fit(&web.weights, 4 * n) ||
                             !fit(&web.scratch, 4 * ((int64_t)target + 1) * c->tgt_vocab_size)))
        no_memory(), status = TFM_E_MEMORY;
    if (status == TFM_OK) {
        *weights = tfm_tensor_make(web.weights.data, TFM_DTYPE_F32, 5, dims);
        logits = tfm_tensor_3d(web.scratch.data, TFM_DTYPE_F32, 1, target + 1, c->tgt_vocab_size);
        o.keep_pads = 1; /* the start token may be the padding id (Marian, T5) */
        status = tfm_session_forward(web.session, &source, 1, &to, &o, &logits, &web.err);
    }
    give_back(NULL, web.scratch.data), memset(&web.scratch, 0, sizeof web.scratch);
    return failed(status) ? NULL : (const float *)web.weights.data;
}
#pragma clang attribute pop
