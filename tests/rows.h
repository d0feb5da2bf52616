/* rows.h: decodes the rows of a matrix of ids, a request for each. Include transformer.h first. */
#ifndef ROWS_H
#define ROWS_H

#include <stdlib.h>
#include <string.h>

#if defined(__GNUC__)
#define ROWS_UNUSED __attribute__((unused))
#else
#define ROWS_UNUSED
#endif

/* What belongs to a row alone. All zero: nothing. */
typedef struct by_row {
    const tfm_batch *prompt, *prefix, *draft; /* rows of other lengths */
    const int32_t *first;                     /* [rows]: first tokens; -1: the model's */
    const uint64_t *seeds;                    /* [rows] */
    int32_t rows; /* later rows have nothing of this; 0: every row has */
} by_row;

static ROWS_UNUSED tfm_ids row_ids(const tfm_batch *batch, int32_t row) {
    if (!batch) return tfm_ids_make(NULL, 0);
    return tfm_ids_make(batch->ids ? batch->ids + (size_t)row * (size_t)batch->width : NULL,
                        batch->lengths ? batch->lengths[row] : batch->width);
}

/* Returns the request of a row; one_row [2] becomes its embeddings or its memory. */
static ROWS_UNUSED tfm_request row_request(const tfm_batch *src, const by_row *with, int32_t row,
                                           tfm_tensor *one_row) {
    tfm_request r = tfm_request_ids(NULL, 0);
    const tfm_tensor *t = src ? (src->memory ? src->memory : src->embeddings) : NULL;
    if (t) {
        *one_row = *t;
        one_row->rank = 2;
        one_row->data = (char *)t->data + row * t->strides[0] * (int64_t)sizeof(float);
        one_row->dims[0] = src->lengths ? src->lengths[row] : t->dims[1];
        one_row->dims[1] = t->dims[2];
        one_row->strides[0] = t->strides[1], one_row->strides[1] = t->strides[2];
        if (src->memory) r.memory = one_row;
        else r.embeddings = one_row;
    } else if (src) r.ids = row_ids(src, row);
    if (!with || (with->rows && row >= with->rows)) return r;
    r.prompt = row_ids(with->prompt, row), r.prefix = row_ids(with->prefix, row);
    r.draft = row_ids(with->draft, row);
    if (with->first && with->first[row] >= 0) r.first_token = with->first + row;
    if (with->seeds) r.seed = with->seeds[row];
    return r;
}

/* Starts a decode of a matrix. src NULL: of the session's last source. A source with ids and vectors
   is encoded first. */
static ROWS_UNUSED tfm_status start_rows(tfm_session *session, const tfm_batch *src,
                                         const by_row *with, const tfm_decode_options *options,
                                         tfm_error *err) {
    int both = src && src->ids && (src->embeddings || src->memory);
    int32_t n = src       ? src->rows
                : session ? (int32_t)tfm_session_encoder_output(session).dims[0]
                          : 0;
    int32_t i;
    size_t room = n > 0 && n < 4096 ? (size_t)n : 0; /* of more rows the library reads none */
    tfm_request *requests = (tfm_request *)malloc((room + 1) * sizeof *requests);
    tfm_tensor *tensors = (tfm_tensor *)malloc((room + 1) * sizeof *tensors);
    tfm_status status = requests && tensors ? TFM_OK : TFM_E_MEMORY;
    if (status == TFM_OK) requests[0] = tfm_request_ids(NULL, 0);
    for (i = 0; status == TFM_OK && i < (int32_t)room; i++)
        requests[i] = row_request(both ? NULL : src, with, i, &tensors[i]);
    if (status == TFM_OK && both) status = tfm_session_encode(session, src, err);
    if (status == TFM_OK)
        status = src && !both ? tfm_session_start(session, requests, n, options, err)
                              : tfm_session_restart(session, requests, n, options, err);
    free(requests), free(tensors);
    return status;
}

static ROWS_UNUSED tfm_status decode_rows(tfm_session *session, const tfm_batch *src,
                                          const by_row *with, const tfm_decode_options *options,
                                          tfm_error *err) {
    int32_t running = 1;
    tfm_status status = start_rows(session, src, with, options, err);
    while (status == TFM_OK && running) status = tfm_session_step(session, &running, err);
    return status;
}

#ifndef TRANSFORMER_NO_TEXT
/* Translates texts, a request for each. */
static ROWS_UNUSED tfm_status translate_texts(tfm_session *session, const tfm_text *texts,
                                              const by_row *with, tfm_text *out, int32_t n,
                                              const tfm_decode_options *options, char *buffer,
                                              size_t capacity, tfm_error *err) {
    tfm_request requests[64];
    int32_t i;
    for (i = 0; texts && i < n && i < 64; i++) {
        requests[i] = row_request(NULL, with, i, NULL);
        requests[i].text = tfm_request_text(texts[i].data, texts[i].size).text;
    }
    return tfm_translate_batch(session, texts ? requests : NULL, n, options, out, buffer, capacity,
                               err);
}
#endif

#endif
