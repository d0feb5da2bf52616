/* aligned.h: finds which bytes of the source each token of a translation comes from, and puts terms
   into the translation.

       tfm_session_tokenize(reader, &source, form, &tokens, &err);
       terms_find(&list, source.data, source.size, &found);
       aligned_text(model, session, row, 0, form, tokens.spans, tokens.n, &found, &text, &at,
                    &length, &err);
       aligned_tokens(at, length, &out);
       aligned_through(&out, &first);       with two models: the first one's tokens

   Include transformer.h before this header. */
#ifndef ALIGNED_H
#define ALIGNED_H

#include "target_ends.h"
#include "text/markup.h"
#include "text/terms.h"

/* Aligns a hypothesis with its source, of which spans [n] has the bytes of each token. The session
   must keep the attention weights. text is the hypothesis's text; terms that were found in the
   source are put into it. *at gets three numbers for each of *length tokens: first all ends in the
   text, then all begins in the source, then all ends there. The caller frees it, also after a
   failure. */
static tfm_status aligned_text(const tfm_model *model, tfm_session *session, int32_t row,
                               int32_t rank, tfm_text_form form, const tfm_span *spans, int32_t n,
                               terms_found *found, text_buffer *text, size_t **at, int32_t *length,
                               tfm_error *err) {
    tfm_result r;
    int32_t i, *sources = NULL;
    size_t *ends = *at = NULL;
    tfm_status status = tfm_result_get(session, row, rank, &r, err);
    *length = 0;
    if (status != TFM_OK) return status;
    sources = (int32_t *)malloc(((size_t)r.length + 1) * sizeof *sources);
    ends = *at = (size_t *)malloc((3 * (size_t)r.length + 1) * sizeof *ends);
    if (!sources || !ends || text->broken || found->broken) goto no_memory;
    status = tfm_result_alignment(session, row, rank, sources, err);
    if (status == TFM_OK) status = target_ends_find(model, r.ids, r.length, form, ends, err);
    for (i = 0; status == TFM_OK && i < r.length; i++) {
        int is_aligned = sources[i] >= 0 && sources[i] < n;
        if (ends[i] > text->size) ends[i] = text->size;
        ends[r.length + i] = is_aligned ? spans[sources[i]].begin : 0;
        ends[2 * r.length + i] = is_aligned ? spans[sources[i]].end : 0;
    }
    if (status == TFM_OK && found->n) {
        text_buffer made;
        memset(&made, 0, sizeof made);
        terms_put(found, text->data, text->size, (size_t)r.length, ends, ends + r.length,
                  ends + 2 * r.length, &made);
        text_buffer_free(text), *text = made;
        if (found->broken || text->broken) goto no_memory;
    }
    *length = r.length;
    free(sources);
    return status;
no_memory:
    free(sources);
    if (err) strcpy(err->text, "too little memory"), err->status = TFM_E_MEMORY;
    return TFM_E_MEMORY;
}

/* Appends a markup_token for each token that aligned_text found. */
static void aligned_tokens(const size_t *at, int32_t length, text_buffer *tokens) {
    int32_t i;
    (void)text_buffer_reserve(tokens,
                              (size_t)length * sizeof(markup_token)); /* no more than that */
    for (i = 0; i < length; i++) {
        markup_token token;
        token.end = at[i];
        token.source_begin = at[length + i], token.source_end = at[2 * length + i];
        text_buffer_append(tokens, (const char *)&token, sizeof token);
    }
}

/* Changes the sources of tokens, which are in the output of another model, to sources in the input
   of that model: those of the token of `first` that has most of their bytes. */
static void aligned_through(text_buffer *tokens, const text_buffer *first) {
    markup_token *token = (markup_token *)(void *)tokens->data;
    const markup_token *middle = (const markup_token *)(const void *)first->data;
    size_t n = tokens->size / sizeof *token, n_middle = first->size / sizeof *middle, low, high, i;
    for (i = 0; i < n; i++, token++) {
        size_t best = n_middle, most = 0, begin, end, at;
        for (low = 0, high = n_middle; low < high;) { /* the first that ends behind the begin */
            at = low + (high - low) / 2;
            if (middle[at].end <= token->source_begin) low = at + 1;
            else high = at;
        }
        for (at = low; at < n_middle; at++) {
            begin = at ? middle[at - 1].end : 0, end = middle[at].end;
            if (begin >= token->source_end) break;
            if (begin < token->source_begin) begin = token->source_begin;
            if (end > token->source_end) end = token->source_end;
            if (end > begin && end - begin > most && middle[at].source_end)
                most = end - begin, best = at;
        }
        token->source_begin = best < n_middle ? middle[best].source_begin : 0;
        token->source_end = best < n_middle ? middle[best].source_end : 0;
    }
}

#endif
