/* What the package does without the GIL besides the library's own calls: loops over a batch. */

#include "sentences.h"

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

/* All hypotheses of rows, into out (most of them) and their texts side by side into the buffer;
   *n how many, *size the bytes that are needed. */
static tfm_status th_results(tfm_session *session, int32_t rows, int form, th_hypothesis *out,
                             int32_t most, int32_t *n, char *buffer, size_t capacity, size_t *size,
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
                status = tfm_result_text(session, row, rank, (tfm_text_form)form, buffer + *size,
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
