/* attention.h: draws the attention of a translation as a picture. The columns are the source's
   tokens, as they are in its text; the rows are the tokens of the translation.

       tfm_session_tokenize(session, &source, form, &tokens, &err);
       ... decode, in a session created with options.attention
       attention_draw(file, session, model, row, &source, tokens.ids, tokens.spans, tokens.n, &err);

   Include transformer.h before this header. */
#ifndef ATTENTION_H
#define ATTENTION_H

#include "heatmap.h"
#include "target_ends.h"
#include "text/characters.h"
#include <stdlib.h>

/* Writes the label of source token i, with a NUL, unless out is NULL. Returns its bytes. A token
   that comes from no text (a language, start or end token) is labelled with its meaning. */
static size_t attention_label_source(char *out, const tfm_config *c, const tfm_text *source,
                                     const int32_t *ids, const tfm_span *spans, int32_t n,
                                     int32_t i) {
    const char *text = source->data + spans[i].begin;
    size_t size = spans[i].end - spans[i].begin;
    uint32_t first = 0;
    int32_t k;
    if (size) (void)tfm_character_next(text, size, &first);
    if (c->src_text == TFM_TEXT_KIND_CHARACTERS && character_is_space(first))
        text = "\xE2\x96\x81", size = 3;
    if (!size) {
        for (text = "", k = 0; k < c->n_languages; k++)
            if (c->languages[k].id == ids[i]) text = c->languages[k].code;
        if (!i && c->src_start >= 0) text = "[start]";
        else if (i == n - 1 && c->src_end >= 0) text = "[end]";
        size = strlen(text);
    }
    if (out) memcpy(out, text, size), out[size] = 0;
    return size + 1;
}

/* Writes the label of a target token, which is its text in the vocabulary, with a NUL. Returns its
   bytes. */
static size_t attention_label_target(char *out, size_t room, const tfm_model *model, int32_t id) {
    size_t size = 0;
    (void)tfm_model_detokenize(model, &id, 1, TFM_TEXT_FORM_TOKENS, out, room, &size, NULL);
    return size + 1;
}

/* Draws the attention of hypothesis 0 of a row to f. source is the row's text, ids [n] and spans
   [n] are its tokens. Returns the errors of tfm_result_attention, and TFM_E_MEMORY. */
static tfm_status attention_draw(FILE *f, tfm_session *session, const tfm_model *model, int32_t row,
                                 const tfm_text *source, const int32_t *ids, const tfm_span *spans,
                                 int32_t n, tfm_error *err) {
    const tfm_config *c = tfm_model_config(model);
    tfm_status status;
    tfm_result result;
    tfm_tensor tensor;
    size_t size = 0, across;
    float *weights;
    char *labels, *at, title[80];
    int32_t i;
    status = tfm_result_get(session, row, 0, &result, err);
    if (status != TFM_OK) return status;
    for (i = 0; i < n; i++) size += attention_label_source(NULL, c, source, ids, spans, n, i);
    for (across = size, i = 0; i < result.length; i++)
        size += attention_label_target(NULL, 0, model, result.ids[i]);
    weights = (float *)malloc(((size_t)n * (size_t)result.length + 1) * sizeof *weights);
    at = labels = (char *)malloc(size + 1);
    tensor = tfm_tensor_2d(weights, TFM_DTYPE_F32, result.length, n);
    if (!weights || !labels) status = TFM_E_MEMORY;
    else status = tfm_result_attention(session, row, 0, &tensor, err);
    if (status == TFM_OK) {
        for (i = 0; i < n; i++) at += attention_label_source(at, c, source, ids, spans, n, i);
        for (i = 0; i < result.length; i++)
            at += attention_label_target(at, size - (size_t)(at - labels), model, result.ids[i]);
        snprintf(title, sizeof title, "Attention from target (down) to source (across), score %.4f",
                 (double)result.score);
        heatmap_write(f, title, weights, labels + across, result.length, labels, n);
    }
    free(weights), free(labels);
    return status;
}

#endif
