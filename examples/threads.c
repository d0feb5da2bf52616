/* threads: many threads translate by one model, a session and a batch at a time each: the way to
   most sentences a second. A model is immutable, so nothing is locked, and neither the thread nor
   the batch of a line changes a bit of it.
   cc -O2 -I. examples/threads.c -o threads -lm -pthread */
#define TRANSFORMER_IMPLEMENTATION
#include "transformer.h"
#include <pthread.h>
#include <stdio.h>
#include <string.h>

enum { THREADS = 2, LINES = 8, BATCH = LINES / THREADS }; /* 64 is a good batch for more lines */

static const char *const lines[LINES] = {
    "我是学生。",         "我喜欢学习。",     "他每天晚上都喝一杯牛奶。", "她忘了關窗戶。",
    "孩子们在公园里玩。", "火车晚了十分钟。", "這本書比那本貴。",         "医生让他多休息。"};
static char texts[THREADS][BATCH * 256]; /* a batch's translations */
static tfm_text out[LINES];              /* where they are, or what went wrong */
static tfm_model *model;
static tfm_error errors[THREADS];

/* Translates a batch of lines. A program with many batches goes on with the next one here, and
   sorts its lines by length before. */
static void *work(void *argument) {
    int i, number = *(int *)argument, first = number * BATCH;
    tfm_error *err = &errors[number];
    tfm_session *session = NULL;
    tfm_session_options options;
    tfm_text in[BATCH];
    for (i = 0; i < BATCH; i++) {
        in[i].data = lines[first + i];
        in[i].size = strlen(in[i].data);
        out[first + i].data = err->text;
    }
    memset(&options, 0, sizeof options);
    options.max_batch = BATCH;
    options.max_source = 64; /* tokens; memory is in proportion */
    if (tfm_session_create(&session, model, &options, err) == TFM_OK)
        (void)tfm_translate_batch(session, in, out + first, BATCH, NULL, texts[number],
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
    tfm_model_free(model); /* after its sessions */
    return started == THREADS ? 0 : 1;
}
