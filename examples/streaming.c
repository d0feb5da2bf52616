/* streaming: shows a translation while it is generated, for at most ten seconds. The program calls
   the decoder step by step, so a time limit or a cancel button is a condition of its loop.
   cc -O2 -I. examples/streaming.c -o streaming -lm */
#define TRANSFORMER_IMPLEMENTATION
#include "transformer.h"
#include <stdio.h>
#include <time.h>

int main(void) {
    static const char source[] = "如果明天下雨，我们就待在家里。";
    tfm_request request = tfm_request_text(source, sizeof source - 1);
    tfm_error err;
    tfm_model *model = NULL;
    tfm_session *session = NULL;
    int32_t running = 1;
    size_t shown = 0, size;
    time_t start = time(NULL); /* clock() would add up the time of all threads */
    char text[1024];
    tfm_status status;

    status = tfm_model_load_file(&model, "examples/models/zh-en.safetensors", NULL, &err);
    if (status == TFM_OK) status = tfm_session_create(&session, model, NULL, &err);
    if (status == TFM_OK) status = tfm_session_start(session, &request, 1, NULL, &err);
    while (status == TFM_OK && running && difftime(time(NULL), start) < 10) {
        status = tfm_session_step(session, &running, &err);
        /* the text so far; with greedy search, later steps only add to it */
        if (status == TFM_OK)
            status =
                tfm_result_text(session, 0, 0, TFM_TEXT_FORM_TEXT, text, sizeof text, &size, &err);
        if (status != TFM_OK || size == shown) continue;
        printf("%s|", text + shown);
        fflush(stdout);
        shown = size;
    }
    printf("%s\n", running ? "..." : "");
    if (status != TFM_OK) fprintf(stderr, "%s\n", err.text);
    tfm_session_free(session);
    tfm_model_free(model);
    return status == TFM_OK ? 0 : 1;
}
