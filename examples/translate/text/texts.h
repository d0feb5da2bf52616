/* texts.h: translates texts as people write them. It is a tfm_translator (transformer.h, chapter 1)
   in front of which paragraph.h takes each text apart: labels, bullets, quotation marks, emoji and
   text without letters never reach the model, and each sentence is translated by itself.

       texts_translator *t = NULL;
       texts_options o;
       memset(&o, 0, sizeof o);                     zeros: as the model file says, one thread
       texts_create(&t, model, &o, &err);
       texts_run(t, requests, n, done, user, &err);           of an array
       texts_pull(t, next, done, user, &err);                 of a file or a pipe
       texts_free(t);

   Sentences of many texts are in a batch together. Results are in the order of the texts. Memory is
   bounded: at most TEXTS_MOST texts, or TEXTS_BYTES bytes of text, are on their way. A line of text
   becomes the line that the program translate writes for it, byte for byte. A tfm_translator gives
   neither scores nor alignments. So a sentence that may already be in the target language, and one
   with characters that nobody sees, is decoded by a session beside it, one sentence at a time.

   A text reaches the model as it is if options.plain is set, if the model file does not say that
   the model reads sentences, and if the request has a prefix, a prompt or a draft, or is no text.

   Include transformer.h before this header. */
#ifndef TEXTS_H
#define TEXTS_H

#include "languages.h"
#include "paragraph.h"

#include "../target_ends.h"

enum { TEXTS_MOST = 4096, TEXTS_BYTES = 1 << 24 };

/* All zero: defaults. */
typedef struct texts_options {
    tfm_translator_options of; /* as for tfm_translator_create */
    int plain;                 /* 1: every text reaches the model as it is */
    int flags;                 /* of around_reader */
    int all_languages;         /* 1: sentences in the target language are translated, too */
    const char *language; /* of the translations: decides about quotation marks. NULL: the target
                             language of `of`, or of the model file */
} texts_options;

/* What became of a text. It is valid during the call that gets it. */
typedef struct texts_result {
    tfm_translated of; /* text, status, message ... */
    int64_t left;      /* sentences that stay as they are, because the model cannot read them or
                          they are in the target language */
    int64_t divided;   /* sentences that were divided, because they have no end in sight */
    int64_t unknown;   /* other sentences with tokens that the model does not know */
} texts_result;

/* Gets a result, in the order of the texts. Returns 0, or anything else to end the run. As with
   tfm_translator_run, one thread at a time calls it, but not always the same one. */
typedef int (*texts_done)(void *user, const texts_result *result);

/* A text on its way. */
typedef struct texts_item {
    tfm_request request; /* as the program gave it */
    paragraph parts;
    int is_whole;       /* the translator gets the request as it is */
    int is_read;        /* the translator got all that it gets */
    size_t given, made; /* parts up to which sentences were given to the translator, and came */
    size_t n_ahead;     /* sentences that the translator has */
    texts_result result;
    tfm_error failure;
} texts_item;

typedef struct texts_translator {
    const tfm_model *model;
    const tfm_config *config;
    texts_options options;
    tfm_decode_options decode;
    tfm_translator *translator;
    tfm_session *own; /* for single sentences: scores, alignments; NULL: not needed so far */
    int32_t max_source, max_target; /* of `own` */
    text_buffer ids, spans, out;
    int surrounds, looks;
    languages_table languages;
    texts_item **items; /* [room]: a ring of n texts that begins at `first` */
    size_t room, first, n, bytes;
    int is_ended;                  /* done ended the run */
    int64_t number;                /* of the next result */
    const tfm_request *list, *end; /* texts_run: requests that are left */
    tfm_translator_next next;      /* texts_pull */
    texts_done done;
    void *user;
    tfm_status status;
    tfm_error err;
} texts_translator;

static tfm_status texts_no_memory(tfm_error *err) {
    if (!err) return TFM_E_MEMORY;
    strcpy(err->text, "too little memory");
    return err->status = TFM_E_MEMORY;
}

static texts_item *texts_at(const texts_translator *t, size_t i) {
    return t->items[(t->first + i) % t->room];
}

/* ---- tokens and scores of single sentences --------------------------------------------------- */

/* Tokenizes a source or a target: t->ids gets *n ids. */
static tfm_status texts_tokenize(texts_translator *t, tfm_text text, int is_target, int32_t *n,
                                 tfm_error *err) {
    tfm_status (*const tokenize)(const tfm_model *, tfm_text, tfm_text_form, int32_t *, int32_t,
                                 int32_t *, tfm_arena *, tfm_error *) =
        is_target ? tfm_model_tokenize_target : tfm_model_tokenize;
    tfm_status status = tokenize(t->model, text, TFM_TEXT_FORM_TEXT, NULL, 0, n, NULL, err);
    t->ids.size = 0;
    if (status != TFM_OK) return status;
    if (!text_buffer_reserve(&t->ids, (size_t)*n * sizeof(int32_t))) return texts_no_memory(err);
    return tokenize(t->model, text, TFM_TEXT_FORM_TEXT, (int32_t *)(void *)t->ids.data, *n, n, NULL,
                    err);
}

/* Returns the number of tokens of a word, for around_capitalize. */
static int32_t texts_count(void *user, const char *word, size_t size) {
    const tfm_model *model = ((const texts_translator *)user)->model;
    int32_t n = INT32_MAX;
    (void)tfm_model_tokenize(model, tfm_text_make(word, size), TFM_TEXT_FORM_TEXT, NULL, 0, &n,
                             NULL, NULL);
    return n;
}

/* Makes sure that t->own reads and writes so many tokens. */
static tfm_status texts_fit(texts_translator *t, int32_t source, int32_t target, tfm_error *err) {
    const tfm_translator_options *of = &t->options.of;
    const int32_t most = t->config->max_positions;
    tfm_session_options o;
    tfm_status status;
    if (t->own && source <= t->max_source && target <= t->max_target) return TFM_OK;
    memset(&o, 0, sizeof o);
    for (o.max_source = 64; o.max_source < source;) o.max_source *= 2;
    o.max_target = 2 * o.max_source + 16; /* never what ends a translation */
    if (t->decode.max_length > o.max_target) o.max_target = t->decode.max_length;
    if (t->decode.min_length > o.max_target) o.max_target = t->decode.min_length;
    if (target > o.max_target) o.max_target = target;
    if (most && o.max_source > most) o.max_source = most;
    if (most && o.max_target > most) o.max_target = most;
    o.decoding = &t->decode, o.attention = 1, o.cache = of->cache, o.allocator = of->allocator;
    tfm_session_free(t->own);
    t->own = NULL;
    status = tfm_session_create(&t->own, t->model, &o, err);
    if (status == TFM_OK && (of->source_language || of->target_language))
        status = tfm_languages_set(t->own, of->source_language, of->target_language, err);
    t->max_source = o.max_source, t->max_target = o.max_target;
    if (status != TFM_OK) tfm_session_free(t->own), t->own = NULL;
    return status;
}

/* Tokenizes a source of at most n tokens with spans. */
static tfm_status texts_find_spans(texts_translator *t, tfm_text source, int32_t n,
                                   tfm_tokens *tokens, tfm_error *err) {
    const size_t most = (size_t)n + 4; /* also tokens of languages */
    tfm_status status = texts_fit(t, (int32_t)most, 0, err);
    memset(tokens, 0, sizeof *tokens);
    t->ids.size = t->spans.size = 0;
    if (status != TFM_OK) return status;
    if (!text_buffer_reserve(&t->ids, most * sizeof *tokens->ids) ||
        !text_buffer_reserve(&t->spans, most * sizeof *tokens->spans))
        return texts_no_memory(err);
    tokens->ids = (int32_t *)(void *)t->ids.data;
    tokens->spans = (tfm_span *)(void *)t->spans.data;
    tokens->capacity = (int32_t)most;
    return tfm_session_tokenize(t->own, &source, TFM_TEXT_FORM_TEXT, tokens, err);
}

/* Translates a sentence with t->own, of which *r then is the result. */
static tfm_status texts_decode(texts_translator *t, const tfm_request *request, tfm_tokens *tokens,
                               tfm_result *r, tfm_error *err) {
    int32_t n = 0;
    tfm_status status = texts_tokenize(t, request->text, 0, &n, err);
    if (status == TFM_OK) status = texts_find_spans(t, request->text, n, tokens, err);
    if (status == TFM_OK) status = tfm_session_decode(t->own, request, 1, &t->decode, err);
    return status == TFM_OK ? tfm_result_get(t->own, 0, 0, r, err) : status;
}

/* Computes the log-probability of a text as the translation of a request, which is read as one
   text: what translate --score writes. Errors: as tfm_session_score. */
static inline tfm_status texts_score(texts_translator *t, const tfm_request *request, tfm_text text,
                                     double *score, tfm_error *err) {
    tfm_ids target;
    double *each;
    int32_t n = 0, length = 0, i;
    tfm_status status = texts_tokenize(t, request->text, 0, &n, err);
    if (status == TFM_OK) status = texts_tokenize(t, text, 1, &length, err);
    if (status == TFM_OK) status = texts_fit(t, n + 4, length + 1, err);
    if (status != TFM_OK) return status;
    each = (double *)malloc(((size_t)length + 1) * sizeof *each);
    if (!each) return texts_no_memory(err);
    target = tfm_ids_make((const int32_t *)(void *)t->ids.data, length);
    status = tfm_session_score(t->own, request, 1, &target, 0, each, err);
    for (*score = 0, i = 0; status == TFM_OK && i <= length; i++) *score += each[i];
    free(each);
    return status;
}

/* Returns whether a sentence is already in the language of its translation, which is `text`. Only
   few sentences are decoded once more for their score: those that have a sign of that language. */
static int texts_is_translation(texts_translator *t, const texts_item *item, size_t part,
                                tfm_text text) {
    const languages_table *table = &t->languages;
    languages_look look;
    tfm_request request = item->request;
    tfm_text source;
    tfm_tokens tokens;
    tfm_result r;
    double copy = 0;
    int32_t n;
    request.text = source = paragraph_source(&item->parts, part);
    /* The lower the score, the more sentences the function suspects. */
    if (!t->looks ||
        !languages_suspects(&look, table, t->config->source_language, source.data, source.size,
                            text.data, text.size, -1e30, 0, 0) ||
        texts_decode(t, &request, &tokens, &r, NULL) != TFM_OK)
        return 0;
    if (!languages_suspects(&look, table, t->config->source_language, source.data, source.size,
                            text.data, text.size, r.score,
                            r.length + (r.finish == TFM_FINISH_ENDED), t->decode.length_penalty) ||
        texts_tokenize(t, source, 1, &n, NULL) != TFM_OK)
        return 0;
    return !(t->decode.max_length && n >= t->decode.max_length) &&
           n < 2 * tokens.n + 16 && /* no longer than a translation would be */
           texts_score(t, &request, source, &copy, NULL) == TFM_OK && languages_stays(&look, copy);
}

/* ---- sentences and texts --------------------------------------------------------------------- */

/* Notes why a text cannot be translated: the first reason counts. */
static void texts_fail(texts_item *item, size_t part, tfm_status status, const char *message) {
    tfm_error *err = &item->failure;
    int before = 0;
    if (err->status != TFM_OK) return;
    err->status = status;
    if (item->parts.n > 1)
        before = snprintf(err->text, sizeof err->text,
                          "sentence %ld, at byte %ld of the text: ", (long)part + 1,
                          (long)(item->parts.parts[part].sentence.data - item->request.text.data));
    snprintf(err->text + before, sizeof err->text - (size_t)before, "%.*s",
             (int)sizeof err->text - before - 1, message);
}

/* Leaves a sentence as it is. */
static void texts_leave(texts_item *item, size_t part) {
    item->parts.parts[part].source.size = 0;
    item->result.left++;
}

/* Takes the translation of a sentence, with its alignment as paragraph_put describes it. */
static void texts_put(texts_translator *t, texts_item *item, size_t part, tfm_text text, size_t n,
                      size_t *ends) {
    text_buffer *made = &item->parts.parts[part].made;
    if (texts_is_translation(t, item, part, text)) texts_leave(item, part);
    else
        paragraph_put(&item->parts, part, text.data, text.size, n, ends, ends ? ends + n : NULL,
                      ends ? ends + 2 * n : NULL);
    if (made->broken) texts_fail(item, part, TFM_E_MEMORY, "too little memory");
}

/* Counts the tokens of a sentence that the model does not know. A sentence that is mostly unknown,
   as one of another script is, stays as it is. */
static void texts_look(texts_translator *t, texts_item *item, size_t part) {
    const tfm_text source = paragraph_source(&item->parts, part);
    const int32_t unknown = t->config->src_unk, *ids;
    tfm_tokens tokens;
    int32_t n = 0, i, count = 0;
    if (unknown < 0 || texts_tokenize(t, source, 0, &n, NULL) != TFM_OK) return;
    ids = (const int32_t *)(void *)t->ids.data;
    for (i = 0; i < n; i++) count += ids[i] == unknown;
    if (!count) return;
    if (texts_find_spans(t, source, n, &tokens, NULL) == TFM_OK &&
        languages_is_unknown(tokens.ids, tokens.spans, tokens.n, unknown, source.size))
        texts_leave(item, part);
    else item->result.unknown++;
}

/* Translates a sentence that needs its alignment, because characters that nobody sees go back to
   its words: the translator gives no alignment. */
static tfm_status texts_align(texts_translator *t, texts_item *item, size_t part, tfm_error *err) {
    tfm_request request = item->request;
    tfm_tokens tokens;
    tfm_result r;
    text_buffer text;
    size_t size = 0, *ends = NULL;
    int32_t i, *sources = NULL;
    tfm_status status;
    memset(&text, 0, sizeof text);
    request.text = paragraph_source(&item->parts, part);
    status = texts_decode(t, &request, &tokens, &r, err);
    if (status == TFM_OK)
        status = tfm_result_text(t->own, 0, 0, TFM_TEXT_FORM_TEXT, NULL, 0, &size, err);
    if (status != TFM_OK) return status;
    sources = (int32_t *)malloc(((size_t)r.length + 1) * sizeof *sources);
    ends = (size_t *)malloc((3 * (size_t)r.length + 1) * sizeof *ends);
    if (!sources || !ends || !text_buffer_reserve(&text, size + 1)) status = texts_no_memory(err);
    if (status == TFM_OK)
        status = tfm_result_text(t->own, 0, 0, TFM_TEXT_FORM_TEXT, text.data, size + 1, &size, err);
    if (status == TFM_OK) status = tfm_result_alignment(t->own, 0, 0, sources, err);
    if (status == TFM_OK)
        status = target_ends_find(t->model, r.ids, r.length, TFM_TEXT_FORM_TEXT, ends, err);
    for (i = 0; status == TFM_OK && i < r.length; i++) {
        const int is_aligned = sources[i] >= 0 && sources[i] < tokens.n;
        if (ends[i] > size) ends[i] = size;
        ends[r.length + i] = is_aligned ? tokens.spans[sources[i]].begin : 0;
        ends[2 * r.length + i] = is_aligned ? tokens.spans[sources[i]].end : 0;
    }
    if (status == TFM_OK) {
        item->result.of.sentences++, item->result.of.tokens += r.length;
        item->result.of.blank += !r.length;
        item->result.of.cut += r.left_out || r.finish == TFM_FINISH_HIT_LENGTH;
        texts_put(t, item, part, tfm_text_make(text.data, size), (size_t)r.length, ends);
    }
    free(sources), free(ends), text_buffer_free(&text);
    return status;
}

/* Sets the request to the next sentence of a text that the translator gets. Returns 0 if there is
   none. */
static int texts_give(texts_translator *t, texts_item *item, tfm_request *request) {
    tfm_error err;
    *request = item->request;
    if (item->is_whole) return item->is_read = 1;
    while (item->given < item->parts.n) {
        const size_t part = item->given++;
        if (!paragraph_source(&item->parts, part).size) continue;
        texts_look(t, item, part);
        request->text = paragraph_source(&item->parts, part);
        if (!request->text.size) continue;
        if (!around_needs_alignment(&item->parts.parts[part].inner)) return 1;
        err.status = texts_align(t, item, part, &err);
        if (err.status != TFM_OK)
            texts_fail(item, part, err.status, err.text), item->parts.parts[part].source.size = 0;
    }
    return !(item->is_read = 1);
}

/* Writes the translation of a text to t->out. */
static void texts_join(texts_translator *t, texts_item *item) {
    const tfm_text text = item->request.text;
    text_buffer *out = &t->out;
    text_buffer_clear(out, 1 << 16);
    if (item->failure.status != TFM_OK) return;
    paragraph_join(&item->parts, out);
    if (out->size && !memchr(text.data, '\n', text.size)) /* a line stays a line */
        out->size = text_buffer_flatten(out->data, out->size, TEXT_BUFFER_FLATTEN_CONTROLS);
    if (out->size) out->data[out->size] = 0;
    if (out->broken) {
        texts_fail(item, 0, TFM_E_MEMORY, "too little memory");
        out->size = 0;
    }
}

/* Gives the program all results at the begin of the ring that are complete. */
static void texts_deliver(texts_translator *t) {
    while (t->n && !t->is_ended) {
        texts_item *item = texts_at(t, 0);
        tfm_translated *of = &item->result.of;
        if (!item->is_read || item->n_ahead) return;
        if (!item->is_whole) {
            texts_join(t, item);
            of->text = tfm_text_make(t->out.size ? t->out.data : "", t->out.size);
            of->status = item->failure.status;
            of->message = of->status == TFM_OK ? "" : item->failure.text;
        }
        of->number = t->number++, of->request = &item->request;
        t->first = (t->first + 1) % t->room, t->n--;
        t->bytes -= item->request.text.size;
        t->is_ended = t->done(t->user, &item->result) != 0;
    }
}

/* Takes a translation: it belongs to the first text of the ring. */
static int texts_take(void *user, const tfm_translated *made) {
    texts_translator *t = (texts_translator *)user;
    texts_item *item = texts_at(t, 0);
    tfm_translated *of = &item->result.of;
    item->n_ahead--;
    if (item->is_whole) *of = *made;
    else {
        while (!paragraph_source(&item->parts, item->made).size ||
               item->parts.parts[item->made].is_translated)
            item->made++;
        of->sentences += made->sentences, of->blank += made->blank;
        of->cut += made->cut, of->tokens += made->tokens;
        if (made->status == TFM_OK) texts_put(t, item, item->made, made->text, 0, NULL);
        else texts_fail(item, item->made, made->status, made->message);
        item->made++;
    }
    texts_deliver(t);
    return t->is_ended;
}

/* ---- reading texts --------------------------------------------------------------------------- */

/* Makes room for a text behind the others. Returns NULL if there is no memory. */
static texts_item *texts_add(texts_translator *t) {
    texts_item **at, *item;
    paragraph kept;
    if (t->n == t->room) {
        const size_t room = 2 * t->room + 16;
        texts_item **items = (texts_item **)calloc(room, sizeof *items);
        size_t i;
        if (!items) return NULL;
        for (i = 0; i < t->room; i++) items[i] = texts_at(t, i);
        free(t->items);
        t->items = items, t->room = room, t->first = 0;
    }
    at = &t->items[(t->first + t->n) % t->room];
    if (!*at) *at = (texts_item *)calloc(1, sizeof **at);
    if ((item = *at) == NULL) return NULL;
    kept = item->parts;
    memset(item, 0, sizeof *item);
    item->parts = kept, item->parts.n = 0;
    return item;
}

/* Reads a text into the ring. Returns what the program's `next` returns. */
static int texts_read(texts_translator *t) {
    texts_item *item = texts_add(t);
    const tfm_request *r;
    int more = 1;
    if (!item) return t->status = texts_no_memory(&t->err), 0;
    if (t->next) more = t->next(t->user, &item->request);
    else if (t->list == t->end) more = 0;
    else item->request = *t->list++;
    if (more != 1) return more;
    r = &item->request, t->n++, t->bytes += r->text.size;
    item->is_whole = !t->surrounds || !r->text.data || r->ids.data || r->embeddings || r->memory ||
                     r->prompt.n || r->first_token || r->prefix.n || r->draft.n;
    if (item->is_whole) return 1;
    item->parts.flags = t->options.flags, item->parts.language = t->options.language;
    item->parts.labels = t->config->src_language == TFM_LANGUAGE_USE_TARGET;
    item->parts.count = texts_count, item->parts.user = t;
    if (!paragraph_read(&item->parts, r->text.data, r->text.size)) {
        item->parts.n = 0;
        texts_fail(item, 0, TFM_E_MEMORY, "too little memory");
    } else {
        size_t i;
        for (i = 0; i < item->parts.n; i++) item->result.divided += item->parts.parts[i].is_divided;
    }
    return 1;
}

/* Gives the translator the next sentence. */
static int texts_next(void *user, tfm_request *request) {
    texts_translator *t = (texts_translator *)user;
    for (;;) {
        texts_item *item = t->n ? texts_at(t, t->n - 1) : NULL;
        int more;
        if (t->is_ended) return 0;
        if (item && !item->is_read && texts_give(t, item, request)) return item->n_ahead++, 1;
        texts_deliver(t);
        if (t->is_ended) return 0;
        if (t->n >= TEXTS_MOST || (t->n && t->bytes > TEXTS_BYTES)) return -1;
        more = texts_read(t);
        if (more != 1) return more;
    }
}

/* ---- the translator -------------------------------------------------------------------------- */

/* Frees a translator, which may be NULL. */
static inline void texts_free(texts_translator *t) {
    size_t i;
    if (!t) return;
    for (i = 0; i < t->room; i++)
        if (t->items[i]) paragraph_free(&t->items[i]->parts), free(t->items[i]);
    free(t->items);
    text_buffer_free(&t->ids), text_buffer_free(&t->spans);
    text_buffer_free(&t->out);
    tfm_session_free(t->own);
    tfm_translator_free(t->translator);
    free(t);
}

/* Creates a translator. options may be NULL. The model, and what the options point to, must outlive
   it. Errors: as tfm_translator_create. */
static inline tfm_status texts_create(texts_translator **translator, const tfm_model *model,
                                      const texts_options *options, tfm_error *err) {
    texts_translator *t = (texts_translator *)calloc(1, sizeof *t);
    tfm_translator_options *of;
    tfm_status status;
    if (!t) return texts_no_memory(err);
    if (options) t->options = *options;
    of = &t->options.of;
    t->model = model, t->config = tfm_model_config(model);
    if (model) t->decode = of->decoding ? *of->decoding : *tfm_model_decoding(model);
    t->surrounds = !t->options.plain && model && t->config->sentences == TFM_SENTENCES_SPLIT &&
                   of->sentences != TFM_SENTENCES_WHOLE;
    t->looks = t->surrounds && !t->options.all_languages && t->decode.n_best < 2 &&
               !t->decode.samples;
    if (t->surrounds) of->sentences = TFM_SENTENCES_WHOLE; /* paragraph.h finds the sentences */
    if (t->looks) languages_begin(&t->languages);
    if (!t->options.language) t->options.language = of->target_language;
    if (!t->options.language && model) t->options.language = t->config->target_language;
    status = tfm_translator_create(&t->translator, model, of, err);
    if (status == TFM_OK) *translator = t;
    else texts_free(t);
    return status;
}

/* Runs what t->next or t->list gives. */
static tfm_status texts_work(texts_translator *t, texts_done done, void *user, tfm_error *err) {
    tfm_status status;
    t->done = done, t->user = user, t->status = TFM_OK;
    t->first = t->n = t->bytes = 0, t->number = 0, t->is_ended = 0;
    status = tfm_translator_pull(t->translator, texts_next, texts_take, t, err);
    if (status != TFM_OK || t->status == TFM_OK) return status;
    if (err) *err = t->err;
    return t->status;
}

/* Translates n requests, and calls done for each, in their order. A request that fails has an error
   in its result. Errors: as tfm_translator_run. */
static inline tfm_status texts_run(texts_translator *t, const tfm_request *requests, int64_t n,
                                   texts_done done, void *user, tfm_error *err) {
    t->next = NULL, t->list = requests, t->end = n > 0 ? requests + n : requests;
    return texts_work(t, done, user, err);
}

/* Does the same with requests that next gives, as tfm_translator_pull describes it. */
static inline tfm_status texts_pull(texts_translator *t, tfm_translator_next next, texts_done done,
                                    void *user, tfm_error *err) {
    t->next = next;
    return texts_work(t, done, user, err);
}

#endif
