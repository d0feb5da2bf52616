/* beam: prints the three best translations of a sentence, found by a beam of four, with their
   scores.
   cc -O2 -I. examples/beam.c -o beam -lm */
#define TRANSFORMER_IMPLEMENTATION
#include "transformer.h"
#include <stdio.h>
#include <string.h>

int main(void) {
    static const char source[] = "火车晚了十分钟。";
    tfm_request request = tfm_request_text(source, sizeof source - 1);
    tfm_text best;
    tfm_error err;
    tfm_model *model = NULL;
    tfm_session *session = NULL;
    tfm_session_options limits;
    tfm_decode_options options;
    tfm_status status;
    char text[1024];
    int32_t rank;

    memset(&limits, 0, sizeof limits), memset(&options, 0, sizeof options);
    limits.max_beam = 4;        /* memory of the session: hypotheses per sentence */
    options.beam = 4;           /* hypotheses that this search follows */
    options.n_best = 3;         /* hypotheses that it returns */
    options.length_penalty = 1; /* score: log-probability / length */

    status = tfm_model_load_file(&model, "examples/models/zh-en.safetensors", NULL, &err);
    if (status == TFM_OK) status = tfm_session_create(&session, model, &limits, &err);
    if (status == TFM_OK)
        status =
            tfm_translate_batch(session, &request, 1, &options, &best, text, sizeof text, &err);
    /* text holds the best translation; the session keeps all three until its next call */
    for (rank = 0; status == TFM_OK && rank < tfm_result_count(session, 0); rank++) {
        tfm_result result;
        size_t size;
        status = tfm_result_get(session, 0, rank, &result, &err);
        if (status == TFM_OK)
            status = tfm_result_text(session, 0, rank, TFM_TEXT_FORM_TEXT, text, sizeof text, &size,
                                     &err);
        if (status == TFM_OK) printf("%.4f  %s\n", result.score, text);
    }
    if (status != TFM_OK) fprintf(stderr, "%s\n", err.text);
    tfm_session_free(session);
    tfm_model_free(model);
    return status == TFM_OK ? 0 : 1;
}
