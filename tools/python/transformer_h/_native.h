/* What the package does without the GIL besides the library's own calls: loops over a batch. */

#include "target_ends.h"
#include "text/terms.h"

/* The next sentence of a text: place has where to look on, and then also its begin and end. */
static int th_sentence(const char *text, size_t size, size_t *place) {
    const char *sentence;
    size_t length;
    if (!next_sentence(text, size, &place[0], &sentence, &length)) return 0;
    place[1] = (size_t)(sentence - text);
    place[2] = place[1] + length;
    return 1;
}

static int th_space_after(const char *text, size_t size) { return sentence_space_after(text, size); }

/* Source texts, concatenated, text i up to ends[i], to ids [n, width]; faults[i] says of each. */
static void th_sources(tfm_session *reader, const char *text, const int64_t *ends, int32_t n,
                       int form, int32_t *ids, int32_t width, int32_t *counts, tfm_error *faults) {
    int32_t i;
    for (i = 0; i < n; i++) {
        int64_t begin = i ? ends[i - 1] : 0;
        tfm_text source;
        source.data = text + begin, source.size = (size_t)(ends[i] - begin);
        counts[i] = 0;
        faults[i].status = TFM_OK;
        (void)tfm_session_tokenize(reader, &source, (tfm_text_form)form, ids + (size_t)i * (size_t)width,
                                   NULL, width, &counts[i], NULL, &faults[i]);
    }
}

/* The same of targets. */
static void th_targets(const tfm_model *model, const char *text, const int64_t *ends, int32_t n,
                       int form, int32_t *ids, int32_t width, int32_t *counts, tfm_error *faults) {
    int32_t i;
    for (i = 0; i < n; i++) {
        int64_t begin = i ? ends[i - 1] : 0;
        size_t size = (size_t)(ends[i] - begin);
        tfm_arena scratch = tfm_arena_measuring();
        void *memory = NULL;
        counts[i] = 0;
        faults[i].status = TFM_OK;
        if (tfm_tokenize_target(model, text + begin, size, (tfm_text_form)form, NULL, 0, &counts[i],
                                &scratch, &faults[i]) != TFM_OK)
            continue;
        counts[i] = 0;
        memory = malloc(scratch.peak + 64);
        if (!memory) {
            faults[i].status = TFM_E_MEMORY;
            strcpy(faults[i].text, "no memory to tokenize a target");
            continue;
        }
        scratch = tfm_arena_make(memory, scratch.peak + 64);
        (void)tfm_tokenize_target(model, text + begin, size, (tfm_text_form)form,
                                  ids + (size_t)i * (size_t)width, width, &counts[i], &scratch,
                                  &faults[i]);
        free(memory);
    }
}

/* At most n steps: the caller looks around between calls. */
static tfm_status th_steps(tfm_session *session, int32_t n, int32_t *running, tfm_error *err) {
    tfm_status status = TFM_OK;
    while (n-- > 0 && *running && status == TFM_OK) status = tfm_step(session, running, err);
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
                status = tfm_result_text(session, row, rank, (tfm_text_form)form, NULL, 0, &one, err);
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

/* Returns a list of terms, or NULL and a message of at most 160 bytes. th_terms_free frees it. */
static void *th_terms_read(const char *text, size_t size, char *message) {
    terms *list = (terms *)calloc(1, sizeof *list);
    if (list && terms_read(list, text, size, message, 160)) return list;
    if (!list) strcpy(message, "no memory for the terms");
    free(list);
    return NULL;
}
static void th_terms_free(void *list) {
    terms_free((terms *)list);
    free(list);
}
static void th_free(void *memory) { free(memory); }

/* Puts the terms of a list that are in a source, which has at most `most` tokens, into the text of one
   hypothesis. *out is the new text, which the caller frees with th_free, or NULL if the source has no
   terms. */
static tfm_status th_terms_put(const void *list, tfm_session *reader, int32_t most,
                               const tfm_model *model, tfm_session *session, int32_t row,
                               int32_t rank, const char *source, size_t n_source, const char *text,
                               size_t size, char **out, size_t *n_out, tfm_error *err) {
    terms_found found;
    buffer made;
    tfm_result r;
    tfm_text from;
    int32_t i, n = 0, *ids = NULL, *sources = NULL;
    tfm_span *spans = NULL;
    size_t *at = NULL;
    tfm_status status = TFM_OK;
    *out = NULL, *n_out = 0;
    memset(&found, 0, sizeof found), memset(&made, 0, sizeof made);
    from.data = source, from.size = n_source;
    if (terms_find((const terms *)list, source, n_source, &found) || found.broken) {
        status = tfm_result_get(session, row, rank, &r, err);
        if (status != TFM_OK) goto end;
        ids = (int32_t *)malloc((size_t)most * sizeof *ids);
        spans = (tfm_span *)malloc((size_t)most * sizeof *spans);
        sources = (int32_t *)malloc(((size_t)r.length + 1) * sizeof *sources);
        at = (size_t *)malloc((3 * (size_t)r.length + 1) * sizeof *at);
        status = TFM_E_MEMORY;
        if (err) strcpy(err->text, "no memory for the terms"), err->status = status;
        if (!ids || !spans || !sources || !at || found.broken) goto end;
        status = tfm_result_alignment(session, row, rank, sources, err);
        if (status == TFM_OK)
            status =
                tfm_session_tokenize(reader, &from, TFM_FORM_TEXT, ids, spans, most, &n, NULL, err);
        if (status == TFM_OK)
            status = find_target_ends(model, r.ids, r.length, TFM_FORM_TEXT, at, err);
        for (i = 0; status == TFM_OK && i < r.length; i++) {
            int is_aligned = sources[i] >= 0 && sources[i] < n;
            if (at[i] > size) at[i] = size;
            at[r.length + i] = is_aligned ? spans[sources[i]].begin : 0;
            at[2 * r.length + i] = is_aligned ? spans[sources[i]].end : 0;
        }
        if (status != TFM_OK) goto end;
        terms_put(&found, text, size, (size_t)r.length, at, at + r.length, at + 2 * r.length,
                  &made);
        status = found.broken || made.broken ? TFM_E_MEMORY : TFM_OK;
        if (status == TFM_OK) *out = made.data, *n_out = made.size, made.data = NULL;
        else if (err) strcpy(err->text, "no memory for the terms"), err->status = status;
    }
end:
    free(ids), free(spans), free(sources), free(at);
    buffer_free(&made), terms_found_free(&found);
    return status;
}
