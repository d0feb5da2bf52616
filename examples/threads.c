/* threads: several threads share one model, and each translates batches with its own session. This
   way translates the most sentences per second. A model never changes, so no lock is needed. A
   translation does not depend on its thread or batch.
   cc -O2 -I. examples/threads.c -o threads -lm -pthread */
#define TRANSFORMER_IMPLEMENTATION
#include "transformer.h"
#include <pthread.h>
#include <stdio.h>
#include <string.h>

enum { THREADS = 2, LINES = 8, BATCH = LINES / THREADS }; /* with more lines use 64 */

static const char *const lines[LINES] = {
    "我是学生。",         "我喜欢学习。",     "他每天晚上都喝一杯牛奶。", "她忘了關窗戶。",
    "孩子们在公园里玩。", "火车晚了十分钟。", "這本書比那本貴。",         "医生让他多休息。"};
static char texts[THREADS][BATCH * 256]; /* the memory for each batch's translations */
static tfm_text out[LINES];              /* the translations, or error messages */
static tfm_model *model;
static tfm_error errors[THREADS];

/* Translates a batch of lines. A program with many batches would loop over them here, and sort the
   lines by length first, because lines of similar length need less padding. */
static void *work(void *argument) {
    int i, number = *(int *)argument, first = number * BATCH;
    tfm_error *err = &errors[number];
    tfm_session *session = NULL;
    tfm_session_options options;
    tfm_request requests[BATCH];
    for (i = 0; i < BATCH; i++) {
        requests[i] = tfm_request_text(lines[first + i], strlen(lines[first + i]));
        out[first + i].data = err->text;
    }
    memset(&options, 0, sizeof options);
    options.max_batch = BATCH;
    options.max_source = 64; /* tokens; the session's memory grows with this number */
    if (tfm_session_create(&session, model, &options, err) == TFM_OK)
        (void)tfm_translate_batch(session, requests, BATCH, NULL, out + first, texts[number],
                                  sizeof texts[number], err);
    tfm_session_free(session);
    return NULL;
}

int main(void) {
    pthread_t threads[THREADS];
    int numbers[THREADS], i, started;
    if (tfm_model_load_file(&model, "examples/models/zh-en.safetensors", NULL, errors) != TFM_OK) {
        fprintf(stderr, "%s\n", errors->text);
        return 1;
    }
    for (started = 0; started < THREADS; started++) {
        numbers[started] = started;
        if (pthread_create(&threads[started], NULL, work, &numbers[started]) != 0) break;
    }
    for (i = 0; i < started; i++) pthread_join(threads[i], NULL);
    for (i = 0; i < started * BATCH; i++) puts(out[i].data);
    tfm_model_free(model); /* only after its sessions */
    return started == THREADS ? 0 : 1;
}
