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
    int32_t src_ids[ROWS][WIDTH], src_lengths[ROWS], tgt_ids[ROWS][WIDTH], tgt_lengths[ROWS];
    static tfm_batch src, tgt;      /* zeros */
    double scores[ROWS][WIDTH + 1]; /* log-probabilities: the tokens, the end token, then zeros */
    double memory[512];
    tfm_arena scratch = tfm_arena_make(memory, sizeof memory); /* for the tokenizer */
    tfm_session_options limits;
    tfm_error err;
    tfm_model *model = NULL;
    tfm_session *session = NULL;
    tfm_status status;
    int row, i;

    memset(&limits, 0, sizeof limits);
    limits.max_batch = ROWS;
    src.ids = src_ids[0], src.lengths = src_lengths, src.rows = ROWS, src.width = WIDTH;
    tgt.ids = tgt_ids[0], tgt.lengths = tgt_lengths, tgt.rows = ROWS, tgt.width = WIDTH;
    status = tfm_model_load_file(&model, "examples/models/zh-en.safetensors", NULL, &err);
    if (status == TFM_OK) status = tfm_session_create(&session, model, &limits, &err);
    for (row = 0; status == TFM_OK && row < ROWS; row++) {
        status = tfm_model_tokenize(model, tfm_text_make(source, strlen(source)),
                                    TFM_TEXT_FORM_TEXT, src_ids[row], WIDTH, &src_lengths[row],
                                    &scratch, &err);
        if (status == TFM_OK)
            status = tfm_model_tokenize_target(
                model, tfm_text_make(targets[row], strlen(targets[row])), TFM_TEXT_FORM_TEXT,
                tgt_ids[row], WIDTH, &tgt_lengths[row], &scratch, &err);
    }
    if (status == TFM_OK) status = tfm_session_score(session, &src, &tgt, 0, scores[0], &err);
    for (row = 0; status == TFM_OK && row < ROWS; row++) {
        double sum = 0;
        for (i = 0; i <= tgt_lengths[row]; i++) sum += scores[row][i];
        printf("%8.2f a token  %s\n", sum / (tgt_lengths[row] + 1), targets[row]);
    }
    if (status != TFM_OK) fprintf(stderr, "%s\n", err.text);
    tfm_session_free(session);
    tfm_model_free(model);
    return status == TFM_OK ? 0 : 1;
}
