/* Uses binding.h as packages do, from three threads with one model: runs that end after any number
   of steps, and handles that are released in any order. tests/examples/bindings.sh compiles it with
   sanitizers, which find what goes wrong. Prints "as expected" if all texts of the runs that were
   not ended early have their translations. */
#define _DEFAULT_SOURCE /* usleep */
#include "binding.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static binding_model *model;
static int64_t translated[3];

/* Starts a run of so many texts, and releases it after so many steps. */
static int64_t use(binding_translator *t, int texts, int steps) {
    static const char *const all[] = {"Guten Tag.", "", "1. \"Danke.\"", "A\xff", "Bis bald."};
    binding_run *run = NULL, *second = NULL;
    binding_result result;
    tfm_error err;
    int64_t n = 0;
    int32_t event;
    const int all_texts = texts, is_whole = steps < 0;
    if (binding_run_start(&run, t, &err) != TFM_OK) return -1000;
    if (binding_run_start(&second, t, &err) != TFM_E_STATE) return -2000;
    while (steps-- && (event = binding_run_next(run, &result, &err)) != BINDING_ENDED) {
        const char *text = texts > 0 ? all[texts % 5] : NULL;
        if (event == BINDING_HAS_RESULT) n++;
        else if (event == BINDING_FAILED) return -3000;
        else if (binding_run_give(run, text, text ? strlen(text) : 0, &err) != TFM_OK) return -4000;
        else {
            texts--;
            if (texts % 2) usleep(500); /* then an empty text has its result before the next call */
        }
        if (event == BINDING_HAS_RESULT && binding_run_give(run, "", 0, &err) == TFM_OK)
            n -= 5000; /* it may need a text only after the next call */
    }
    binding_run_release(run);
    if (is_whole && n != all_texts) return -8000;
    return n;
}

static void *work(void *number) {
    int64_t *n = (int64_t *)number;
    tfm_error err;
    int i;
    for (i = 0; i < 12; i++) {
        binding_translator *t = NULL;
        if (binding_translator_create(&t, model, &err) != TFM_OK ||
            binding_translator_number(t, "threads", 1 + i % 3, &err) != TFM_OK ||
            binding_translator_number(t, "max_batch", 2, &err) != TFM_OK)
            *n -= 6000;
        *n += use(t, 40, i * 7);
        if (binding_translator_number(t, "beam", 2, &err) != TFM_E_STATE) *n -= 7000;
        *n += use(t, 16, -1); /* the first one is empty */
        binding_translator_release(t);
    }
    return NULL;
}

int main(int argc, char **argv) {
    binding_translator *t = NULL;
    binding_run *run = NULL;
    pthread_t threads[3];
    tfm_error err;
    int i;
    if (argc < 2 || binding_model_open(&model, argv[1], &err) != TFM_OK) return 1;
    for (i = 0; i < 3; i++)
        if (pthread_create(&threads[i], NULL, work, &translated[i])) return 1;
    for (i = 0; i < 3; i++) pthread_join(threads[i], NULL);
    if (binding_translator_create(&t, model, &err) != TFM_OK ||
        binding_run_start(&run, t, &err) != TFM_OK)
        return 1;
    binding_model_release(model), binding_translator_release(t), binding_run_release(run);
    for (i = 0; i < 3; i++)
        if (translated[i] < 12 * 16) printf("thread %d: %ld\n", i, (long)translated[i]);
    puts("as expected");
    return 0;
}
