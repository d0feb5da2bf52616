/* background: how a program with a window translates. A thread of its own loads the model and
   translates, so the window never waits. The window shows each sentence while it grows and how many
   are done, and it can cancel. Here two models work at once, and the longer text is cancelled.
   cc -O2 -I. examples/background.c -o background -lm -pthread */
#define TRANSFORMER_IMPLEMENTATION
#include "transformer.h"
#include <pthread.h>
#include <stdio.h>
#include <string.h>

/* A text and its translation. The window sets the first group of fields before the thread begins.
   Both threads use the second group only while they hold the lock; err is for the window when the
   job no longer runs. */
typedef struct job {
    const char *name, *model, *text;

    int is_cancelled, is_running, done; /* done: sentences */
    size_t size;       /* bytes of whole sentences in out; the beginning of the next follows */
    char out[1 << 16]; /* a longer translation is cut */
    tfm_error err;     /* status TFM_OK: the job did not fail */
} job;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static int n_changes; /* "changed" tells the window that there is one more. A real program sends an
                         event instead: PostMessage, g_idle_add, dispatch_async. */

/* Stores a sentence, or its beginning. Returns 0 if the job was cancelled. */
static int show(job *j, const char *text, int is_whole) {
    int go_on;
    pthread_mutex_lock(&lock);
    snprintf(j->out + j->size, sizeof j->out - j->size, "%s ", text);
    if (is_whole) j->size = strlen(j->out), j->done++;
    go_on = !j->is_cancelled;
    n_changes++, pthread_cond_signal(&changed);
    pthread_mutex_unlock(&lock);
    return go_on;
}

/* Translates a sentence step by step, because a job can be cancelled between two steps. */
static tfm_status translate(job *j, tfm_session *session, const tfm_text *sentence, int *go_on) {
    tfm_request request = tfm_request_text(sentence->data, sentence->size);
    tfm_status status = tfm_session_start(session, &request, 1, NULL, &j->err);
    int32_t running = 1;
    char text[8192];
    size_t size;
    while (status == TFM_OK && running && *go_on) {
        status = tfm_session_step(session, &running, &j->err);
        if (status == TFM_OK)
            status = tfm_result_text(session, 0, 0, TFM_TEXT_FORM_TEXT, text, sizeof text, &size,
                                     &j->err);
        if (status == TFM_OK) *go_on = show(j, text, !running);
    }
    return status;
}

/* The job's thread. A program that translates often keeps model and session for the next text. */
static void *work(void *argument) {
    job *j = (job *)argument;
    tfm_model *model = NULL;
    tfm_session *session = NULL;
    tfm_text sentence;
    size_t at = 0;
    int go_on = 1;
    tfm_status status = tfm_model_load_file(&model, j->model, NULL, &j->err);
    if (status == TFM_OK) status = tfm_session_create(&session, model, NULL, &j->err);
    while (status == TFM_OK && go_on &&
           tfm_sentence_next(tfm_text_make(j->text, strlen(j->text)), &at, &sentence))
        status = translate(j, session, &sentence, &go_on);
    tfm_session_free(session), tfm_model_free(model);
    pthread_mutex_lock(&lock);
    j->is_running = 0;
    n_changes++, pthread_cond_signal(&changed);
    pthread_mutex_unlock(&lock);
    return NULL;
}

int main(void) {
    static char book[1 << 14];
    static job jobs[2]; /* zeros */
    pthread_t threads[2];
    int i, seen = 0;
    while (strlen(book) < sizeof book - 64) strcat(book, "Unser Zug hatte heute Verspätung. ");
    jobs[0].name = "zh-en", jobs[0].model = "examples/models/zh-en.safetensors";
    jobs[0].text = "她忘了關窗戶。火车晚了十分钟。";
    jobs[1].name = "de-en", jobs[1].model = "examples/models/de-en.safetensors";
    jobs[1].text = book;
    pthread_mutex_lock(&lock);
    for (i = 0; i < 2; i++) {
        jobs[i].is_running = 1;
        if (pthread_create(&threads[i], NULL, work, &jobs[i]) != 0) return 1;
    }
    /* the window draws, and reacts to the user */
    while (jobs[0].is_running || jobs[1].is_running) {
        while (seen == n_changes) pthread_cond_wait(&changed, &lock);
        seen = n_changes;
        for (i = 0; i < 2; i++)
            printf("%s, %d sentences, then: %s\n", jobs[i].name, jobs[i].done,
                   jobs[i].out + jobs[i].size);
        jobs[1].is_cancelled = !jobs[0].is_running && jobs[1].done; /* a click on Cancel */
    }
    pthread_mutex_unlock(&lock);
    for (i = 0; i < 2; i++) {
        pthread_join(threads[i], NULL);
        printf("%s: %s\n", jobs[i].name,
               jobs[i].err.status     ? jobs[i].err.text
               : jobs[i].is_cancelled ? "cancelled"
                                      : jobs[i].out);
    }
    return 0;
}
