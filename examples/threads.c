/* threads: many threads translate by one model, a session each. A model is immutable, so nothing is
   locked, and which thread translates a line changes no bit of it.
   cc -O2 -I. examples/threads.c -o threads -lm -pthread */
#define TRANSFORMER_IMPLEMENTATION
#include "transformer.h"
#include <pthread.h>
#include <stdio.h>

enum { THREADS = 4, LINES = 8 };

static const char *const lines[LINES] = {
    "我是学生。",         "我喜欢学习。",     "他每天晚上都喝一杯牛奶。", "她忘了關窗戶。",
    "孩子们在公园里玩。", "火车晚了十分钟。", "這本書比那本貴。",         "医生让他多休息。"};
static char texts[LINES][256]; /* translations, or what went wrong */
static tfm_model *model;

/* Translates every line whose number is the worker's, or that plus a multiple of THREADS. */
static void *work(void *argument) {
    int line, first = *(int *)argument;
    tfm_session *session = NULL;
    tfm_error err;
    tfm_status status = tfm_session_create(&session, model, NULL, &err);
    for (line = first; line < LINES; line += THREADS) {
        if (status == TFM_OK)
            status = tfm_translate(session, lines[line], texts[line], sizeof texts[line], &err);
        if (status != TFM_OK) snprintf(texts[line], sizeof texts[line], "%s", err.text);
    }
    tfm_session_free(session);
    return NULL;
}

int main(void) {
    pthread_t threads[THREADS];
    int numbers[THREADS], i, started;
    tfm_error err;
    if (tfm_model_load_file(&model, "examples/models/zh-en.safetensors", NULL, &err) != TFM_OK) {
        fprintf(stderr, "%s\n", err.text);
        return 1;
    }
    for (started = 0; started < THREADS; started++) {
        numbers[started] = started;
        if (pthread_create(&threads[started], NULL, work, &numbers[started]) != 0) break;
    }
    for (i = 0; i < started; i++) pthread_join(threads[i], NULL);
    for (i = 0; i < LINES; i++) puts(texts[i]);
    tfm_model_free(model); /* after its sessions */
    return started == THREADS ? 0 : 1;
}
