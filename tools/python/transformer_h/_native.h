/* What the package does without the GIL besides the library's own calls: loops over a batch. */

#include "aligned.h"
#include "batches.h"
#include "find_model.h"
#include "live_pipeline.h"
#include "text/languages.h"
#include "text/paragraph.h"
#include "transcriber.h"
#include "live.h"

/* The path of the model with this name, which th_free frees, or NULL. */
static char *th_find_model(const char *name) { return find_model(name); }

/* The next sentence of a text: place has where to look on, and then also its begin and end. */
static int th_sentence(const char *text, size_t size, size_t *place) {
    tfm_text sentence;
    if (!tfm_sentence_next(tfm_text_make(text, size), &place[0], &sentence)) return 0;
    place[1] = (size_t)(sentence.data - text);
    place[2] = place[1] + sentence.size;
    return 1;
}

static int th_space_after(const char *text, size_t size) {
    return tfm_space_after(tfm_text_make(text, size));
}

/* How th_paragraphs_read takes texts apart. */
typedef enum th_how {
    TH_ONE,       /* each text is one sentence */
    TH_LINES,     /* a text of one sentence with nothing around it keeps its whitespace */
    TH_DOCUMENT,  /* a text is a paragraph of a document */
    TH_PLAIN = 4, /* added: sentences are given to the model as they are */
    TH_WHOLE = 8  /* added: a text is one sentence, whatever is in it */
} th_how;

/* What th_paragraphs_read found out about a text. */
typedef enum th_kind {
    TH_AS_IS,       /* its source is the text itself, and its translation that of the source */
    TH_CLEANED,     /* only its translation is that of the source */
    TH_CHANGED,     /* th_paragraphs_join makes its translation */
    TH_BLANK,       /* its translation is empty */
    TH_ALIGNED = 4, /* added: the translation of its source must be aligned */
    TH_KINDS = 3
} th_kind;

/* Texts that are taken apart, and the text that was made last. */
struct th_paragraphs {
    paragraph p;
    int how;
    text_buffer sources, ends, out;
};

/* Returns the number of tokens of a word, for around_capitalize. */
static int32_t counted_tokens(void *user, const char *own, size_t size) {
    enum { MOST = 64 };
    const tfm_text text = tfm_text_make(own, size);
    int32_t ids[MOST];
    tfm_tokens tokens;
    memset(&tokens, 0, sizeof tokens);
    tokens.ids = ids, tokens.capacity = MOST;
    return tfm_session_tokenize((tfm_session *)user, &text, TFM_TEXT_FORM_TEXT, &tokens, NULL) ==
                   TFM_OK
               ? tokens.n
               : MOST;
}

/* Returns what takes texts apart, or NULL if there is no memory; th_paragraphs_free frees it.
   labels: a text may begin with >>code<<. language, which may be NULL, must stay in memory. */
static void *th_paragraphs_make(int how, int labels, const char *language) {
    struct th_paragraphs *t = (struct th_paragraphs *)calloc(1, sizeof *t);
    if (!t) return NULL;
    t->how = how & (TH_PLAIN - 1);
    t->p.flags = how & TH_WHOLE ? AROUND_ONE : 0, t->p.labels = labels, t->p.language = language;
    t->p.mode = how & TH_PLAIN     ? PARAGRAPH_PLAIN
                : t->how == TH_ONE ? PARAGRAPH_ALL
                                   : PARAGRAPH_DIVIDED;
    return t;
}
static void th_paragraphs_free(void *texts) {
    struct th_paragraphs *t = (struct th_paragraphs *)texts;
    paragraph_free(&t->p);
    text_buffer_free(&t->sources), text_buffer_free(&t->ends), text_buffer_free(&t->out);
    free(t);
}

/* Takes one text apart. Returns 0 if there is no memory. */
static int read_one_text(struct th_paragraphs *t, const char *text, size_t size) {
    return t->how == TH_ONE ? paragraph_read_one(&t->p, text, size)
                            : paragraph_read(&t->p, text, size);
}

/* Returns what kind of text was read last. */
static int kind_of_text(const struct th_paragraphs *t, const char *text, size_t size) {
    const paragraph_part *part = t->p.parts;
    size_t i;
    int needs;
    uint32_t c = ' ';
    if (t->how != TH_ONE) {
        if (t->how == TH_DOCUMENT) return TH_CHANGED;
        if (!t->p.n) return TH_AS_IS;
        if (t->p.n > 1 || !part->source.size || part->kept[0].size || part->kept[1].size)
            return TH_CHANGED;
        return t->p.mode == PARAGRAPH_PLAIN || part->sentence.size == size ||
                       !around_has_letter(part->sentence.data, part->sentence.size)
                   ? TH_AS_IS
                   : TH_CHANGED; /* whitespace around letters is not given to the model */
    }
    if (!part->source.size) {
        for (i = 0; i < size && character_is_space(c);)
            i += tfm_character_next(text + i, size - i, &c);
        return character_is_space(c) ? TH_BLANK : TH_CHANGED;
    }
    needs = around_needs_alignment(&part->inner) ? TH_ALIGNED : 0;
    if (around_is_changed(&part->inner)) return TH_CHANGED | needs;
    return part->source.size == size && memcmp(part->source.data, text, size) == 0 ? TH_AS_IS
                                                                                   : TH_CLEANED;
}

/* Takes n texts apart; text i ends at byte ends[i]. kinds[i], counts[i] and divided[i] become the
   text's kind, the number of its sources and how many of its sentences are divided. reader counts
   tokens; with NULL no word in capitals is changed. Returns 0 if there is no memory. */
static int th_paragraphs_read(void *texts, const char *text, const int64_t *ends, int32_t n,
                              tfm_session *reader, unsigned char *kinds, int32_t *counts,
                              int32_t *divided) {
    struct th_paragraphs *t = (struct th_paragraphs *)texts;
    int32_t i;
    size_t k;
    t->p.count = reader ? counted_tokens : NULL, t->p.user = reader;
    t->sources.size = t->ends.size = 0;
    for (i = 0; i < n; i++) {
        const char *own = text + (i ? ends[i - 1] : 0);
        const size_t size = (size_t)(ends[i] - (i ? ends[i - 1] : 0));
        if (!read_one_text(t, own, size)) return 0;
        kinds[i] = (unsigned char)kind_of_text(t, own, size);
        counts[i] = divided[i] = 0;
        if ((kinds[i] & TH_KINDS) == TH_AS_IS) {
            counts[i] = 1;
            continue;
        }
        for (k = 0; k < t->p.n; k++) {
            const tfm_text source = paragraph_source(&t->p, k);
            divided[i] += t->p.parts[k].is_divided;
            if (!source.size) continue;
            counts[i]++;
            text_buffer_append(&t->sources, source.data, source.size);
            text_buffer_append(&t->ends, (const char *)&t->sources.size, sizeof t->sources.size);
        }
    }
    t->p.count = NULL; /* a text is read again to be joined, where only the places count */
    return !t->sources.broken && !t->ends.broken;
}

/* Returns the sources of the texts that are not TH_AS_IS, one after another, and where each ends.
   */
static const char *th_paragraphs_sources(const void *texts, size_t *size, const size_t **ends) {
    const struct th_paragraphs *t = (const struct th_paragraphs *)texts;
    *size = t->sources.size, *ends = (const size_t *)(const void *)t->ends.data;
    return t->sources.data;
}

/* Puts the translation of part i into its place. tokens [n] are those of the translation, and
   become those of the text. Returns 0 if there is no memory. */
static int put_translation(paragraph *p, size_t i, const char *text, size_t size,
                           markup_token *tokens, size_t n) {
    size_t k, *at = n ? (size_t *)malloc(3 * n * sizeof *at) : NULL;
    if (n && !at) return 0;
    for (k = 0; k < n; k++) {
        at[k] = tokens[k].end;
        at[n + k] = tokens[k].source_begin, at[2 * n + k] = tokens[k].source_end;
    }
    paragraph_put(p, i, text, size, n, at, n ? at + n : NULL, n ? at + 2 * n : NULL);
    for (k = 0; k < n; k++) {
        tokens[k].end = at[k];
        tokens[k].source_begin = at[n + k], tokens[k].source_end = at[2 * n + k];
    }
    free(at);
    return 1;
}

/* Returns a text, which was read before, with translations in the places of its sources.
   Translation i of n ends at byte ends[i] of made; ends[i] is -1 if its source stays. tokens
   [n_tokens], which may be NULL, are those of a text of one source, and become those of the text.
   is_partial: the text ends with the last translation. The result has *n_out bytes and stays in
   memory until the next call; NULL: there is no memory. */
static const char *th_paragraphs_join(void *texts, const char *text, size_t size, const char *made,
                                      const int64_t *ends, size_t n, void *tokens, size_t n_tokens,
                                      int is_partial, size_t *n_out) {
    struct th_paragraphs *t = (struct th_paragraphs *)texts;
    size_t i, k = 0, begin = 0, last = 0;
    text_buffer_clear(&t->out, (size_t)1 << 16);
    if (!read_one_text(t, text, size)) return NULL;
    for (i = 0; i < t->p.n && k < n; i++) {
        if (!t->p.parts[i].source.size) continue;
        last = i + 1;
        if (ends[k] >= 0 && !put_translation(&t->p, i, made + begin, (size_t)ends[k] - begin,
                                             (markup_token *)tokens, n_tokens))
            return NULL;
        if (ends[k] >= 0) begin = (size_t)ends[k];
        k++;
    }
    if (is_partial) t->p.n = last;
    if (is_partial && last) t->p.parts[last - 1].kept[1].size = 0;
    paragraph_join(&t->p, &t->out);
    *n_out = t->out.size;
    return t->out.broken ? NULL : t->out.data ? t->out.data : "";
}

static languages_table th_languages;
static void th_languages_begin(void) { languages_begin(&th_languages); }

/* Returns 1 if a source has tokens that the model does not know, 3 if they are most of it, as those
   of another script are, or 0. ids [n] are its tokens, and width is the longest source. */
static unsigned char unknown_tokens(tfm_session *reader, const tfm_text *source, tfm_text_form form,
                                    const int32_t *ids, int32_t n, int32_t width, int32_t unknown) {
    tfm_tokens tokens;
    tfm_span *spans;
    int is_most = 0;
    int32_t i;
    for (i = 0; i < n && ids[i] != unknown;) i++;
    if (i == n) return 0;
    memset(&tokens, 0, sizeof tokens);
    spans = (tfm_span *)malloc((size_t)width * (sizeof *spans + sizeof *tokens.ids));
    if (!spans) return 1;
    tokens.spans = spans, tokens.ids = (int32_t *)(void *)(spans + width), tokens.capacity = width;
    if (tfm_session_tokenize(reader, source, form, &tokens, NULL) == TFM_OK)
        is_most = languages_is_unknown(tokens.ids, spans, tokens.n, unknown, source->size);
    free(spans);
    return is_most ? 3 : 1;
}

/* Source texts, concatenated, text i up to ends[i], to ids [n, width]; faults[i] says of each.
   flags, which may be NULL, get what unknown_tokens returns. */
static void th_sources(tfm_session *reader, const char *text, const int64_t *ends, int32_t n,
                       int form, int32_t *ids, int32_t width, int32_t *counts, tfm_error *faults,
                       int32_t unknown, unsigned char *flags) {
    int32_t i;
    for (i = 0; i < n; i++) {
        int64_t begin = i ? ends[i - 1] : 0;
        tfm_tokens tokens;
        tfm_text source;
        source.data = text + begin, source.size = (size_t)(ends[i] - begin);
        counts[i] = 0;
        faults[i].status = TFM_OK;
        memset(&tokens, 0, sizeof tokens);
        tokens.ids = ids + (size_t)i * (size_t)width, tokens.capacity = width;
        (void)tfm_session_tokenize(reader, &source, (tfm_text_form)form, &tokens, &faults[i]);
        counts[i] = tokens.n;
        if (flags)
            flags[i] = faults[i].status != TFM_OK
                           ? 0
                           : unknown_tokens(reader, &source, (tfm_text_form)form, tokens.ids,
                                            tokens.n, width, unknown);
    }
}

/* The same of targets. */
static void th_targets(const tfm_model *model, const char *text, const int64_t *ends, int32_t n,
                       int form, int32_t *ids, int32_t width, int32_t *counts, tfm_error *faults) {
    int32_t i;
    for (i = 0; i < n; i++) {
        int64_t begin = i ? ends[i - 1] : 0;
        counts[i] = 0;
        faults[i].status = TFM_OK;
        (void)tfm_model_tokenize_target(
            model, tfm_text_make(text + begin, (size_t)(ends[i] - begin)), (tfm_text_form)form,
            ids + (size_t)i * (size_t)width, width, &counts[i], NULL, &faults[i]);
    }
}

/* At most n steps: the caller looks around between calls. */
static tfm_status th_steps(tfm_session *session, int32_t n, int32_t *running, tfm_error *err) {
    tfm_status status = TFM_OK;
    while (n-- > 0 && *running && status == TFM_OK)
        status = tfm_session_step(session, running, err);
    return status;
}

typedef struct th_hypothesis {
    int32_t row, length, finish;
    int64_t end; /* of its text in the buffer */
    double score, log_probability;
} th_hypothesis;

/* All hypotheses of rows, into out (most of them) and their texts side by side into texts;
   *n how many, *size the bytes that are needed. */
static tfm_status th_results(tfm_session *session, int32_t rows, int form, th_hypothesis *out,
                             int32_t most, int32_t *n, char *texts, size_t capacity, size_t *size,
                             tfm_error *err) {
    int32_t row, rank;
    tfm_status status = TFM_OK;
    tfm_result result;
    *n = 0, *size = 0;
    for (row = 0; row < rows; row++)
        for (rank = 0; rank < tfm_result_count(session, row) && *n < most; rank++) {
            th_hypothesis *h = &out[(*n)++];
            size_t one = 0;
            status = tfm_result_get(session, row, rank, &result, err);
            if (status == TFM_OK)
                status =
                    tfm_result_text(session, row, rank, (tfm_text_form)form, NULL, 0, &one, err);
            if (status == TFM_OK && *size + one < capacity)
                status = tfm_result_text(session, row, rank, (tfm_text_form)form, texts + *size,
                                         capacity - *size, &one, err);
            if (status != TFM_OK) return status;
            *size += one;
            h->row = row, h->length = result.length, h->finish = (int32_t)result.finish;
            h->end = (int64_t)*size;
            h->score = result.score, h->log_probability = result.log_probability;
        }
    ++*size; /* the last terminator */
    return TFM_OK;
}

/* Fills one languages_look for each row: for its source, which ends at byte ends[row], and the
   first of its hypotheses. language: of the sources, or NULL. Hypothesis k is of row h[k].row, and
   its text ends at byte h[k].end of texts. Returns the number of suspects. */
static int32_t th_suspects(const char *sources, const int64_t *ends, int32_t rows,
                           const th_hypothesis *h, int32_t n, const char *texts, double penalty,
                           const char *language, languages_look *suspects) {
    int32_t i, count = 0, last = -1;
    for (i = 0; i < rows; i++) suspects[i].level = 0;
    for (i = 0; i < n; last = h[i++].row) {
        const int32_t row = h[i].row;
        const int64_t begin = i ? h[i - 1].end : 0, from = row ? ends[row - 1] : 0;
        if (row == last) continue;
        count += languages_suspects(&suspects[row], &th_languages, language, sources + from,
                                    (size_t)(ends[row] - from), texts + begin,
                                    (size_t)(h[i].end - begin), h[i].score,
                                    h[i].length + (h[i].finish == (int32_t)TFM_FINISH_ENDED),
                                    penalty) > 0;
    }
    return count;
}

/* Tokenizes a text as a translation. Returns its ids, which the caller frees, or NULL. */
static int32_t *target_ids(const tfm_model *model, tfm_text text, tfm_text_form form, int32_t *n) {
    int32_t *ids = NULL;
    *n = 0;
    if (tfm_model_tokenize_target(model, text, form, NULL, 0, n, NULL, NULL) == TFM_OK)
        ids = (int32_t *)malloc(((size_t)*n + 1) * sizeof *ids);
    if (ids && tfm_model_tokenize_target(model, text, form, ids, *n, n, NULL, NULL) == TFM_OK)
        return ids;
    free(ids);
    return NULL;
}

/* Lets the model score the suspected sources as their own translations. stays[row] becomes whether
   it finds one likely: then the source is of the language of the translation. ids are the tokens of
   the sources. The results of the session are lost. */
static void th_look_again(tfm_session *session, const tfm_model *model, const char *sources,
                          const int64_t *ends, int32_t rows, const tfm_request *ids, int form,
                          int32_t limit, const languages_look *suspects, unsigned char *stays) {
    tfm_request *requests = (tfm_request *)malloc(((size_t)rows + 1) * sizeof *requests);
    tfm_ids *targets = (tfm_ids *)malloc(((size_t)rows + 1) * sizeof *targets);
    int32_t *of = (int32_t *)malloc(((size_t)rows + 1) * sizeof *of);
    int32_t **made = (int32_t **)calloc((size_t)rows + 1, sizeof *made);
    double *scores = NULL, sum;
    int32_t row, i, n, count = 0, longest = 0;
    for (row = 0; requests && targets && of && made && row < rows; row++) {
        const int64_t from = row ? ends[row - 1] : 0;
        if (!suspects[row].level) continue;
        made[count] = target_ids(model, tfm_text_make(sources + from, (size_t)(ends[row] - from)),
                                 (tfm_text_form)form, &n);
        if (!made[count] || (limit && n >= limit) || n >= 2 * ids[row].ids.n + 16) {
            free(made[count]), made[count] = NULL;
            continue; /* the session has no room for so many */
        }
        requests[count] = tfm_request_ids(ids[row].ids.data, ids[row].ids.n);
        targets[count] = tfm_ids_make(made[count], n), of[count++] = row;
        if (longest < n) longest = n;
    }
    if (count) scores = (double *)malloc((size_t)count * ((size_t)longest + 1) * sizeof *scores);
    if (scores && tfm_session_score(session, requests, count, targets, 0, scores, NULL) == TFM_OK)
        for (row = 0; row < count; row++) {
            const double *each = scores + (size_t)row * ((size_t)longest + 1);
            for (sum = 0, i = 0; i <= targets[row].n; i++) sum += each[i];
            stays[of[row]] = (unsigned char)languages_stays(suspects + of[row], sum);
        }
    for (row = 0; row < count; row++) free(made[row]);
    free(requests), free(targets), free(of), free(made), free(scores);
}

/* Returns a list of terms, or NULL and a message of at most 160 bytes. th_terms_free frees it. */
static void *th_terms_read(const char *text, size_t size, char *message) {
    terms_list *list = (terms_list *)calloc(1, sizeof *list);
    if (list && terms_read(list, text, size, message, 160)) return list;
    if (!list) strcpy(message, "no memory for the terms");
    free(list);
    return NULL;
}
static void th_terms_free(void *list) {
    terms_free((terms_list *)list);
    free(list);
}
static void th_free(void *memory) { free(memory); }

/* Puts the terms of a list, which may be NULL, into the text of one hypothesis, if they are in its
   source, and aligns the text with the source, which has at most `most` tokens. *out is the new
   text, and with is_aligned *tokens has a markup_token for each token. Line breaks of an aligned
   text become spaces. The caller frees both with th_free. *out is NULL if there is nothing to
   do. */
static tfm_status th_aligned(const void *list, int is_aligned, tfm_session *reader, int32_t most,
                             const tfm_model *model, tfm_session *session, int32_t row,
                             int32_t rank, const char *source, size_t n_source, const char *text,
                             size_t size, char **out, size_t *n_out, char **tokens,
                             size_t *n_tokens, tfm_error *err) {
    terms_found found;
    text_buffer made, origins;
    tfm_text from;
    int32_t length = 0;
    tfm_tokens read;
    tfm_span *spans = NULL;
    size_t *at = NULL;
    tfm_status status = TFM_OK;
    *out = *tokens = NULL, *n_out = *n_tokens = 0;
    memset(&read, 0, sizeof read), memset(&found, 0, sizeof found), memset(&made, 0, sizeof made),
        memset(&origins, 0, sizeof origins);
    from.data = source, from.size = n_source;
    if (list) (void)terms_find((const terms_list *)list, source, n_source, &found);
    if (is_aligned || found.n || found.broken) {
        text_buffer_append(&made, text, size);
        if (is_aligned && !made.broken) made.size = text_buffer_flatten(made.data, size, 0);
        spans = (tfm_span *)malloc((size_t)most * sizeof *spans + (size_t)most * sizeof length);
        read.ids = (int32_t *)(void *)(spans + most), read.spans = spans, read.capacity = most;
        if (spans) status = tfm_session_tokenize(reader, &from, TFM_TEXT_FORM_TEXT, &read, err);
        if (spans && status == TFM_OK)
            status = aligned_text(model, session, row, rank, TFM_TEXT_FORM_TEXT, spans, read.n,
                                  &found, &made, &at, &length, err);
        if (status == TFM_OK && is_aligned) aligned_tokens(at, length, &origins);
        if (!spans || made.broken || origins.broken) {
            status = TFM_E_MEMORY;
            strcpy(err->text, "no memory for the alignment"), err->status = status;
        }
        if (status == TFM_OK) {
            *out = made.data, *n_out = made.size, made.data = NULL;
            *tokens = origins.data, *n_tokens = origins.size, origins.data = NULL;
        }
    }
    free(spans), free(at);
    text_buffer_free(&made), text_buffer_free(&origins), terms_found_free(&found);
    return status;
}

/* Returns the bytes of the placeholder at a position of a text, or 0. */
static size_t th_placeholder(const char *text, size_t size, size_t at) {
    return protect_placeholder(text, size, at);
}

/* Returns how many texts a session with these options translates together: at most `most`, fewer if
   they are long. */
static int32_t th_batch_rows(const tfm_model *model, const tfm_session_options *options,
                             int32_t most) {
    return batches_rows(model, options, most, batches_limit(tfm_model_config(model), most));
}

/* Returns a length to which sessions are made. */
static int32_t th_batch_round(int32_t length) { return batches_round(length); }

/* A document, and what is written of it. */
struct document_in_work {
    markup_document markup;
    text_buffer out, source; /* source: the language that it is in */
};

/* Reads a document, which must stay in memory. source: the language to translate, or NULL. Returns
   NULL if there is no memory. th_document_free frees it. */
static void th_document_free(void *document) {
    struct document_in_work *d = (struct document_in_work *)document;
    if (!d) return;
    markup_free(&d->markup), text_buffer_free(&d->out), text_buffer_free(&d->source);
    free(d);
}
static void *th_document_read(markup_form form, const char *text, size_t size, int whole,
                              int surrounds, int protects, int all_languages, const char *source) {
    struct document_in_work *d = (struct document_in_work *)calloc(1, sizeof *d);
    if (d) d->markup.whole = whole, d->markup.surrounds = surrounds, d->markup.protects = protects;
    if (d) d->markup.all_languages = all_languages;
    if (d && source) text_buffer_append(&d->source, source, strlen(source) + 1);
    if (d) d->markup.source = d->source.data;
    if (d && !d->source.broken && markup_read(&d->markup, form, text, size)) return d;
    th_document_free(d);
    return NULL;
}

/* Returns the number of sentences. */
static size_t th_document_count(const void *document) {
    return ((const struct document_in_work *)document)->markup.n_sentences;
}

/* Returns how many sentences were divided, because they are too long for a model. */
static size_t th_document_divided(const void *document) {
    return ((const struct document_in_work *)document)->markup.n_divided;
}

/* Returns sentence i, which has *size bytes. */
static const char *th_document_sentence(const void *document, size_t i, size_t *size) {
    const markup_sentence *s = &((const struct document_in_work *)document)->markup.sentences[i];
    *size = s->size;
    return s->text;
}

/* Writes for each sentence whether the document needs to know which bytes of the source each token
   of its translation comes from. */
static void th_document_needs_tokens(const void *document, unsigned char *needs) {
    const markup_document *m = &((const struct document_in_work *)document)->markup;
    size_t i;
    for (i = 0; i < m->n_sentences; i++)
        needs[i] = (unsigned char)markup_needs_tokens(m, &m->sentences[i]);
}

/* Returns what is wrong with a document that is not translated, or NULL. */
static const char *th_document_refused(const void *document) {
    return markup_no_times(&((const struct document_in_work *)document)->markup);
}

/* Returns a line for each kind of text that stayed in the last th_document_join, of *size bytes,
   which the caller frees with th_free; NULL if there is none. */
static char *th_document_left(const void *document, size_t *size) {
    text_buffer out;
    memset(&out, 0, sizeof out);
    markup_left(&((const struct document_in_work *)document)->markup, &out);
    *size = out.size;
    return out.data;
}

/* Begins the document again, with translations of its sentences. lang, which may be NULL, is for
   the html element, and must stay in memory until th_document_end. */
static void th_document_begin(void *document, const char *lang) {
    struct document_in_work *d = (struct document_in_work *)document;
    text_buffer_free(&d->out);
    d->markup.lang = lang, d->markup.broken = 0;
    markup_begin(&d->markup);
}

/* Appends translations of the next n sentences. Translation i ends at byte ends[2 * i] of text, and
   its tokens end at byte ends[2 * i + 1] of tokens. A sentence whose translation is empty is
   copied. Returns 0 if there is no memory. */
static int th_document_put(void *document, const char *text, const char *tokens, const size_t *ends,
                           size_t n) {
    struct document_in_work *d = (struct document_in_work *)document;
    size_t i, begin = 0, token = 0;
    int ok = 1;
    for (i = 0; ok && i < n; begin = ends[2 * i], token = ends[2 * i + 1], i++) {
        markup_translation made;
        made.text = ends[2 * i] > begin ? text + begin : NULL, made.size = ends[2 * i] - begin;
        made.tokens = (const markup_token *)(const void *)(tokens + token);
        made.n = (ends[2 * i + 1] - token) / sizeof *made.tokens;
        ok = markup_put(&d->markup, &made, &d->out);
    }
    return ok;
}

/* Returns the document with the translations, of *size bytes, which the caller frees with th_free;
   NULL if there is no memory. */
static char *th_document_end(void *document, size_t *size) {
    struct document_in_work *d = (struct document_in_work *)document;
    text_buffer out;
    if (!markup_end(&d->markup, &d->out)) return NULL;
    out = d->out;
    memset(&d->out, 0, sizeof d->out);
    *size = out.size;
    return out.data;
}

static void th_transcriber_defaults(transcriber_options *o) { transcriber_defaults(o); }

/* Returns a transcriber, which th_transcriber_free frees, or NULL. The model file is at path, or in
   memory. */
static void *th_transcriber_load(const tfm_model *model, const char *path, const void *data,
                                 size_t size, int32_t threads, int32_t beam, int fast,
                                 tfm_error *err) {
    transcriber *h = (transcriber *)malloc(sizeof *h);
    tfm_safetensors *file = NULL;
    tfm_status status = h ? TFM_OK
                          : transcriber_fail(err, TFM_E_MEMORY, "no memory to transcribe", "");
    if (h && path) status = tfm_safetensors_open_file(&file, path, NULL, err);
    else if (h) status = tfm_safetensors_open(&file, data, size, NULL, err);
    if (status == TFM_OK) status = transcriber_load(h, model, file, threads, beam, fast, err);
    tfm_safetensors_free(file);
    if (status == TFM_OK) return h;
    free(h);
    return NULL;
}
static void th_transcriber_free(void *h) {
    transcriber_free((transcriber *)h);
    free(h);
}

/* Begins with a WAV file at path, or in memory. */
static tfm_status th_transcriber_begin(void *h, const transcriber_options *o, const char *path,
                                       const void *data, size_t size, tfm_error *err) {
    track_source source = {NULL, NULL, NULL, 0};
    source.path = path, source.data = data, source.size = size;
    return transcriber_begin((transcriber *)h, o, &source, err);
}

/* Reads the whole sound once, for its loudest value and its length. */
static tfm_status th_transcriber_survey(void *h, tfm_error *err) {
    transcriber *all = (transcriber *)h;
    return transcriber_survey(&all, 1, err);
}

/* Hears the next window. *n becomes the number of its segments, or -1 at the end; seconds [2]: how
   much has been heard, and how long the sound is. */
static tfm_status th_transcriber_next(void *context, int32_t *n, double *seconds, tfm_error *err) {
    transcriber *h = (transcriber *)context;
    tfm_status status = transcriber_next(h, err);
    int64_t seek = h->seek < h->to ? h->seek : h->to;
    *n = h->ended ? -1 : h->n;
    seconds[1] = h->duration;
    seconds[0] = h->seek < h->to ? transcriber_time(h, (double)seek * 0.01, (double)seek * 0.01, 1)
                                 : h->duration;
    return status;
}

/* Closes the sound. */
static void th_transcriber_end(void *h) { track_close(&((transcriber *)h)->t); }

typedef struct th_segment {
    double start, end, temperature, avg_logprob, compression_ratio, no_speech_prob;
    int32_t seek, n_tokens, n_words;
    const int32_t *tokens;
    const char *text, *language;
} th_segment;

typedef struct th_word {
    double start, end, probability;
    const char *word; /* empty: its text has been joined to a neighbour */
} th_word;

/* Gets segment k of the last window. Its pointers serve until the next call. */
static tfm_status th_transcriber_segment(void *context, int32_t k, th_segment *out,
                                         tfm_error *err) {
    transcriber *h = (transcriber *)context;
    const whisper_segment *s = &h->segments[k];
    tfm_status status = transcriber_spell(h, k, err);
    out->start = s->begin, out->end = s->end, out->seek = (int32_t)h->began;
    out->temperature = h->heard.temperature, out->avg_logprob = h->heard.log_prob;
    out->compression_ratio = h->heard.compression, out->no_speech_prob = h->heard.no_speech;
    out->tokens = h->heard.ids + s->first, out->n_tokens = s->n, out->n_words = s->n_words;
    out->text = words_trim(h->w.text), out->language = transcriber_language(h);
    return status;
}

/* Gets word i of segment k of the last window. */
static void th_transcriber_word(const void *context, int32_t k, int32_t i, th_word *out) {
    const transcriber *h = (const transcriber *)context;
    const word *one = &h->found->at[h->segments[k].first_word + i];
    out->start = one->begin, out->end = one->end, out->probability = one->prob,
    out->word = one->text;
}

/* A text of the last run: stable, or one that may still change. */
typedef struct th_live_text {
    double start, end;
    const char *text;
    int32_t stable;
} th_live_text;

/* Begins to hear live sound with a transcriber that was loaded for TRANSCRIBER_LIVE hypotheses.
   Returns what th_live_free frees, or NULL. */
static void *th_live_begin(void *h, const transcriber_options *o, tfm_error *err) {
    live *l = (live *)malloc(sizeof *l);
    live_options how;
    live_defaults(&how);
    if (!l) (void)transcriber_fail(err, TFM_E_MEMORY, "no memory for live sound", "");
    if (l && live_begin(l, (transcriber *)h, o, &how, err) == TFM_OK) return l;
    free(l);
    return NULL;
}
static void th_live_free(void *l) {
    live_free((live *)l);
    free(l);
}

/* Feeds n samples: floats of 4 bytes or integers of 2, little-endian. *is_behind: more sound waits,
   which should be fed before th_live_next. n 0: no sound comes now, so what has come is heard. now,
   waited: see live_is_behind. */
static tfm_status th_live_feed(void *context, const char *bytes, size_t n, int32_t is_float,
                               double now, double waited, int32_t *is_behind, tfm_error *err) {
    live *l = (live *)context;
    float samples[SOUND_CHUNK];
    size_t done = 0, more, i;
    tfm_status status = TFM_OK;
    sound form;
    memset(&form, 0, sizeof form);
    form.kind = is_float ? SOUND_FLOAT : SOUND_PCM, form.bytes = is_float ? 4 : 2;
    for (; done < n && status == TFM_OK; done += more) {
        more = n - done < SOUND_CHUNK ? n - done : SOUND_CHUNK;
        for (i = 0; i < more; i++)
            samples[i] =
                sound_sample(&form, (const unsigned char *)bytes + (done + i) * (size_t)form.bytes);
        status = live_feed(l, samples, (int64_t)more, err);
    }
    l->is_stalled = !n;
    *is_behind = status == TFM_OK && live_is_behind(l, now, waited, (int64_t)n);
    return status;
}
static tfm_status th_live_finish(void *l, tfm_error *err) { return live_finish((live *)l, err); }

/* Makes the next run, if one is due. *n becomes the number of its texts in out [2], or -1 if none
   is due. Their pointers serve until the next call. */
static tfm_status th_live_next(void *context, int32_t *n, th_live_text *out, tfm_error *err) {
    live *l = (live *)context;
    tfm_status status;
    *n = -1;
    if (!live_is_due(l)) return TFM_OK;
    status = live_hear(l, err);
    *n = 0;
    if (status == TFM_OK && l->stable[0]) {
        th_live_text *t = &out[(*n)++];
        t->start = l->stable_begin, t->end = l->stable_end, t->text = l->stable, t->stable = 1;
    }
    if (status == TFM_OK && l->is_changed) {
        th_live_text *t = &out[(*n)++];
        t->start = l->tentative_begin, t->end = l->tentative_end, t->text = l->tentative;
        t->stable = 0;
    }
    return status;
}

/* A text that is translated while it comes, with one model or with two in a row. */
struct coming_text {
    live_pipeline pipeline;
    live_translation of[2];
    text_buffer lines; /* of JSON, that nobody has got */
    tfm_status status; /* of the first run that has failed since the last call */
    tfm_error err;
};

static void coming_show(void *user, int is_done) {
    struct coming_text *t = (struct coming_text *)user;
    live_pipeline_object(&t->pipeline, is_done, &t->lines);
}

static void coming_failed(void *user, const tfm_error *err) {
    struct coming_text *t = (struct coming_text *)user;
    if (t->status == TFM_OK) t->status = err->status, t->err = *err;
}

/* Forgets the lines that the caller has got, and the failure. */
static struct coming_text *coming_called(void *text) {
    struct coming_text *t = (struct coming_text *)text;
    text_buffer_clear(&t->lines, (size_t)1 << 16);
    t->status = TFM_OK;
    return t;
}

static tfm_status coming_status(struct coming_text *t, tfm_error *err) {
    if (t->status == TFM_OK && t->lines.broken) t->status = live_translation_no_memory(&t->err);
    if (t->status != TFM_OK) *err = t->err;
    return t->status;
}

/* Returns the limits of a session that th_coming_begin takes. */
static void th_coming_limits(const tfm_model *model, tfm_session_options *limits) {
    live_translation_limits(model, limits);
}

/* Begins to translate with a model, or with two: then `second` translates what `first` has made.
   sure is that of live_translation. Returns what th_coming_free frees, or NULL if there is no
   memory. The models and their sessions must stay. */
static void *th_coming_begin(const tfm_model *first, tfm_session *session, const tfm_model *second,
                             tfm_session *session_of_second, double sure) {
    struct coming_text *t = (struct coming_text *)calloc(1, sizeof *t);
    if (!t) return NULL;
    live_translation_begin(&t->of[0], first, session, tfm_model_decoding(first));
    t->of[0].sure = sure, t->pipeline.first = &t->of[0];
    if (second) {
        live_translation_begin(&t->of[1], second, session_of_second, tfm_model_decoding(second));
        t->of[1].sure = sure, t->pipeline.second = &t->of[1];
    }
    t->pipeline.user = t, t->pipeline.show = coming_show, t->pipeline.fail = coming_failed;
    return t;
}
static void th_coming_free(void *text) {
    struct coming_text *t = (struct coming_text *)text;
    live_translation_free(&t->of[0]), live_translation_free(&t->of[1]);
    text_buffer_free(&t->lines);
    free(t);
}

/* Reads bytes of text. The end of a line ends a text. */
static tfm_status th_coming_read(void *text, const char *bytes, size_t size, tfm_error *err) {
    struct coming_text *t = coming_called(text);
    while (size) {
        size_t n = live_pipeline_line(&t->pipeline, bytes, size);
        bytes += n, size -= n;
    }
    return coming_status(t, err);
}

/* Reads words of speech, which were heard from one time to another, in seconds. */
static tfm_status th_coming_hear(void *text, const char *words, size_t size, int is_stable,
                                 double start, double end, tfm_error *err) {
    struct coming_text *t = coming_called(text);
    if (size) live_pipeline_wait(&t->pipeline, start);
    if (is_stable) live_pipeline_hear(&t->pipeline, words, size, end);
    else live_pipeline_guess(&t->pipeline, words, size);
    return coming_status(t, err);
}

/* Ends the text, if one has begun. */
static tfm_status th_coming_end(void *text, tfm_error *err) {
    struct coming_text *t = coming_called(text);
    if (t->pipeline.is_begun) live_pipeline_end(&t->pipeline);
    return coming_status(t, err);
}

/* Returns the lines of JSON that the last call has made. They stay until the next call. */
static const char *th_coming_lines(const void *text, size_t *size) {
    const struct coming_text *t = (const struct coming_text *)text;
    *size = t->lines.size;
    return t->lines.size ? t->lines.data : "";
}
