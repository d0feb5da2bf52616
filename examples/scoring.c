/* scoring: computes how likely a model finds given translations. Use it to choose the best of
   several translations, or to find pairs in which a text and its translation do not match.
   cc -O2 -I. examples/scoring.c -o scoring -lm */
#define TRANSFORMER_IMPLEMENTATION
#include "transformer.h"
#include <stdio.h>
#include <string.h>

enum { ROWS = 3, WIDTH = 32 };

int main(void) {
    static const char source[] = "她忘了關窗戶。";
    static const char *const targets[ROWS] = {"She forgot to close the window.",
                                              "She forgot to open the window.",
                                              "The train was ten minutes late."};
    int32_t ids[ROWS][WIDTH];
    tfm_request requests[ROWS];
    tfm_ids tgt[ROWS];
    double scores[ROWS * (WIDTH + 1)]; /* log-probabilities: tokens, end token, then zeros */
    tfm_session_options limits;
    tfm_error err;
    tfm_model *model = NULL;
    tfm_session *session = NULL;
    tfm_status status;
    int row, i, longest = 0;

    memset(&limits, 0, sizeof limits);
    limits.max_batch = ROWS;
    status = tfm_model_load_file(&model, "examples/models/zh-en.safetensors", NULL, &err);
    if (status == TFM_OK) status = tfm_session_create(&session, model, &limits, &err);
    for (row = 0; status == TFM_OK && row < ROWS; row++) {
        requests[row] = tfm_request_text(source, strlen(source));
        tgt[row] = tfm_ids_make(ids[row], 0);
        status = tfm_model_tokenize_target(model, tfm_text_make(targets[row], strlen(targets[row])),
                                           TFM_TEXT_FORM_TEXT, ids[row], WIDTH, &tgt[row].n, NULL,
                                           &err);
        if (longest < tgt[row].n) longest = tgt[row].n;
    }
    if (status == TFM_OK) status = tfm_session_score(session, requests, ROWS, tgt, 0, scores, &err);
    for (row = 0; status == TFM_OK && row < ROWS; row++) {
        double sum = 0;
        for (i = 0; i <= tgt[row].n; i++) sum += scores[row * (longest + 1) + i];
        printf("%8.2f a token  %s\n", sum / (tgt[row].n + 1), targets[row]);
    }
    if (status != TFM_OK) fprintf(stderr, "%s\n", err.text);
    tfm_session_free(session);
    tfm_model_free(model);
    return status == TFM_OK ? 0 : 1;
}
