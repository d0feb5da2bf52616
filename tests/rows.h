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

/* A matrix of ids, ids[row * width + i], or of vectors, F32 [rows, width, columns]. lengths [rows]
   says how much of each row counts; NULL: all. */
typedef struct id_matrix {
    const int32_t *ids;
    const int32_t *lengths;
    int32_t rows, width;
    const tfm_tensor *embeddings, *memory; /* NULL: none */
} id_matrix;

/* What belongs to a row alone. All zero: nothing. */
typedef struct by_row {
    const id_matrix *prompt, *prefix, *draft; /* rows of other lengths */
    const int32_t *first;                     /* [rows]: first tokens; -1: the model's */
    const uint64_t *seeds;                    /* [rows] */
    int32_t rows; /* later rows have nothing of this; 0: every row has */
} by_row;

static ROWS_UNUSED tfm_ids row_ids(const id_matrix *matrix, int32_t row) {
    if (!matrix || row >= matrix->rows) return tfm_ids_make(NULL, 0);
    return tfm_ids_make(matrix->ids ? matrix->ids + (size_t)row * (size_t)matrix->width : NULL,
                        matrix->lengths ? matrix->lengths[row] : matrix->width);
}

/* Suppresses the sequences that are rows of a matrix. lists [rows] has room for them. */
static ROWS_UNUSED void suppress_rows(tfm_decode_options *options, const id_matrix *matrix,
                                      tfm_ids *lists) {
    int32_t row;
    for (row = 0; row < matrix->rows; row++) lists[row] = row_ids(matrix, row);
    options->suppressed_sequences = lists, options->n_suppressed_sequences = matrix->rows;
}

/* Returns the request of a row; one_row [2] becomes its embeddings or its memory. */
static ROWS_UNUSED tfm_request row_request(const id_matrix *src, const by_row *with, int32_t row,
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

/* The rows of matrices as a call takes them. */
typedef struct row_lists {
    int32_t n;
    tfm_request *requests; /* [n] */
    tfm_tensor *tensors;   /* [n]: their vectors */
    tfm_ids *targets;      /* [n] */
} row_lists;

/* src NULL: as many rows as the session's last source. */
static ROWS_UNUSED row_lists rows_begin(const tfm_session *session, const id_matrix *src,
                                        const id_matrix *tgt, const by_row *with) {
    row_lists r;
    size_t room;
    int32_t i;
    r.n = src ? src->rows : session ? (int32_t)tfm_session_encoder_output(session).dims[0] : 0;
    room = r.n > 0 && r.n < 4096 ? (size_t)r.n : 0; /* of more rows the library reads none */
    r.requests = (tfm_request *)malloc((room + 1) * sizeof *r.requests);
    r.tensors = (tfm_tensor *)malloc((room + 1) * sizeof *r.tensors);
    r.targets = (tfm_ids *)malloc((room + 1) * sizeof *r.targets);
    if (!r.requests || !r.tensors || !r.targets) exit(2);
    r.requests[0] = tfm_request_ids(NULL, 0), r.targets[0] = tfm_ids_make(NULL, 0);
    for (i = 0; i < (int32_t)room; i++) {
        r.requests[i] = row_request(src, with, i, &r.tensors[i]);
        r.targets[i] = row_ids(tgt, i);
    }
    return r;
}
static ROWS_UNUSED tfm_status rows_end(row_lists r, tfm_status status) {
    free(r.requests), free(r.tensors), free(r.targets);
    return status;
}

/* Starts a decode of a matrix. src NULL: of the session's last source. */
static ROWS_UNUSED tfm_status start_rows(tfm_session *session, const id_matrix *src,
                                         const by_row *with, const tfm_decode_options *options,
                                         tfm_error *err) {
    row_lists r = rows_begin(session, src, NULL, with);
    return rows_end(r, src ? tfm_session_start(session, r.requests, r.n, options, err)
                           : tfm_session_restart(session, r.requests, r.n, options, err));
}

/* Calls tfm_session_encode for a matrix. */
static ROWS_UNUSED tfm_status encode_rows(tfm_session *session, const id_matrix *src,
                                          tfm_error *err) {
    row_lists r = rows_begin(session, src, NULL, NULL);
    return rows_end(r, tfm_session_encode(session, src ? r.requests : NULL, r.n, err));
}

/* Calls tfm_session_forward for matrices. src NULL: the session's last source. Logits of positions
   after the longest row are not written. */
static ROWS_UNUSED tfm_status forward_rows(tfm_session *session, const id_matrix *src,
                                           const id_matrix *tgt, const tfm_forward_options *options,
                                           tfm_tensor *logits, tfm_error *err) {
    row_lists r = rows_begin(session, src, tgt, NULL);
    tfm_tensor out = *logits;
    int32_t row, longest = 0;
    for (row = 0; tgt && r.n < 4096 && row < r.n; row++)
        if (longest < r.targets[row].n) longest = r.targets[row].n;
    if (tgt && out.dims[1] == tgt->width && longest) out.dims[1] = longest;
    return rows_end(r, tfm_session_forward(session, src ? r.requests : NULL, r.n,
                                           tgt ? r.targets : NULL, options, &out, err));
}

/* Calls tfm_session_score for matrices: out [rows, width of tgt + 1]. */
static ROWS_UNUSED tfm_status score_rows(tfm_session *session, const id_matrix *src,
                                         const id_matrix *tgt, int32_t offset, double *out,
                                         tfm_error *err) {
    row_lists r = rows_begin(session, src, tgt, NULL);
    int32_t row, i, longest = 0, n = r.n;
    tfm_status status = tfm_session_score(session, src ? r.requests : NULL, n,
                                          tgt ? r.targets : NULL, offset, out, err);
    for (row = 0; status == TFM_OK && row < n; row++)
        if (longest < r.targets[row].n) longest = r.targets[row].n;
    for (row = n - 1; status == TFM_OK && row >= 0; row--) /* to the matrix's width */
        for (i = tgt->width; i >= 0; i--)
            out[row * (tgt->width + 1) + i] = i <= longest ? out[row * (longest + 1) + i] : 0;
    return rows_end(r, status);
}

static ROWS_UNUSED tfm_status decode_rows(tfm_session *session, const id_matrix *src,
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
