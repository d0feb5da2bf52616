/* binding.c: binding.h by texts.h. make bindings copies it with all that it includes to the
   packages that compile it, where it also compiles the library, and builds a shared library of it
   for the others. */
#ifndef TFM__IMPLEMENTED   /* the library is in another object file */
#define TRANSFORMER_STATIC /* a program may also have another version of the library */
#define TRANSFORMER_IMPLEMENTATION
#endif
#include "binding.h"

#include "translate/text/texts.h"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct binding_model {
    tfm_model *of;
    void *data; /* the bytes of a model that was not a file: the model uses them in place */
    pthread_mutex_t mutex; /* of all counts, and of binding_translator.run */
    int64_t references;    /* the program's, and those of translators */
};

struct binding_translator {
    binding_model *model;
    texts_translator *of; /* NULL: options may still change */
    texts_options options;
    tfm_decode_options decode;
    char *source_language, *target_language; /* which options point to */
    binding_run *run;                        /* NULL: none */
    int64_t references;                      /* the program's, and that of its run */
};

typedef struct binding_text { /* a text on its way, in a list; its bytes are behind the struct */
    struct binding_text *next;
    size_t size;
} binding_text;

/* A run's thread waits in one of its two callbacks while the program has the turn. */
struct binding_run {
    binding_translator *translator;
    pthread_t thread;
    pthread_mutex_t mutex; /* of all below */
    pthread_cond_t changed;
    int32_t event; /* binding_event, or -1: the translator has the turn */
    int is_stopped, has_texts;
    int is_shown; /* 1: binding_run_next has returned the result: the next call is done with it */
    binding_text *first, **last, *given; /* texts on their way; the one that was given last */
    const texts_result *result;
    tfm_error err;
};

static tfm_status binding_fail(tfm_error *err, tfm_status status, const char *text,
                               const char *name) {
    if (!err) return status;
    snprintf(err->text, sizeof err->text, "%s%s%s", name ? name : "", name ? ": " : "", text);
    return err->status = status;
}

const char *binding_status_name(int32_t status) {
#define BINDING_NAME(id, text) #id,
    static const char *const names[] = {TFM_STATUS_TABLE(BINDING_NAME)};
#undef BINDING_NAME
    if (status < 0 || status >= TFM_STATUS_COUNT) return "UNKNOWN";
    return names[status] + (status ? sizeof "TFM_E_" : sizeof "TFM_") - 1;
}

/* ---- models ---------------------------------------------------------------------------------- */

/* Makes a handle of what was loaded. Frees data if that failed. */
static tfm_status binding_model_make(binding_model **model, tfm_status status, tfm_model *of,
                                     void *data, tfm_error *err) {
    binding_model *m = status == TFM_OK ? (binding_model *)calloc(1, sizeof *m) : NULL;
    if (m && pthread_mutex_init(&m->mutex, NULL) == 0) {
        m->of = of, m->data = data, m->references = 1;
        return *model = m, TFM_OK;
    }
    if (status == TFM_OK) status = binding_fail(err, TFM_E_MEMORY, "too little memory", NULL);
    free(m), tfm_model_free(of), free(data);
    return status;
}

tfm_status binding_model_open(binding_model **model, const char *path, tfm_error *err) {
    tfm_model *of = NULL;
    const tfm_status status = tfm_model_load_file(&of, path, NULL, err);
    return binding_model_make(model, status, of, NULL, err);
}

tfm_status binding_model_read(binding_model **model, const void *data, size_t size,
                              tfm_error *err) {
    tfm_model *of = NULL;
    void *copy = data ? malloc(size + 1) : NULL;
    tfm_status status;
    if (!copy)
        return data ? binding_fail(err, TFM_E_MEMORY, "too little memory", NULL)
                    : binding_fail(err, TFM_E_ARGUMENT, "data is NULL", NULL);
    memcpy(copy, data, size);
    status = tfm_model_load(&of, copy, size, NULL, err);
    return binding_model_make(model, status, of, copy, err);
}

/* Changes a count of references, and returns what it is then. */
static int64_t binding_count(binding_model *m, int64_t *references, int change) {
    int64_t n;
    pthread_mutex_lock(&m->mutex);
    n = *references += change;
    pthread_mutex_unlock(&m->mutex);
    return n;
}

void binding_model_release(binding_model *m) {
    if (!m || binding_count(m, &m->references, -1)) return;
    pthread_mutex_destroy(&m->mutex);
    tfm_model_free(m->of), free(m->data), free(m);
}

/* ---- translators ----------------------------------------------------------------------------- */

tfm_status binding_translator_create(binding_translator **translator, binding_model *model,
                                     tfm_error *err) {
    binding_translator *t;
    if (!model) return binding_fail(err, TFM_E_ARGUMENT, "model is NULL", NULL);
    if (!(t = (binding_translator *)calloc(1, sizeof *t)))
        return binding_fail(err, TFM_E_MEMORY, "too little memory", NULL);
    binding_count(model, &model->references, 1);
    t->model = model, t->decode = *tfm_model_decoding(model->of), t->references = 1;
    t->options.of.decoding = &t->decode;
    return *translator = t, TFM_OK;
}

tfm_status binding_translator_number(binding_translator *t, const char *name, double value,
                                     tfm_error *err) {
    /* Each option that is a number: its name, and where it is as an integer or as a double. */
    const struct {
        const char *name;
        int32_t *whole;
        double *real;
    } known[] = {
        {"threads", &t->options.of.threads, NULL},
        {"max_batch", &t->options.of.max_batch, NULL},
        {"max_source", &t->options.of.max_source, NULL},
        {"beam", &t->decode.beam, NULL},
        {"max_length", &t->decode.max_length, NULL},
        {"min_length", &t->decode.min_length, NULL},
        {"truncate", &t->decode.truncate, NULL},
        {"length_penalty", NULL, &t->decode.length_penalty},
        {"coverage_penalty", NULL, &t->decode.coverage_penalty},
        {"patience", NULL, &t->decode.patience},
        {"no_repeat_ngram", &t->decode.no_repeat_ngram, NULL},
        {"repetition_penalty", NULL, &t->decode.repetition_penalty},
        {"no_unknown", &t->decode.no_unknown, NULL},
        {"samples", &t->decode.samples, NULL},
        {"temperature", NULL, &t->decode.temperature},
        {"top_k", &t->decode.top_k, NULL},
        {"top_p", NULL, &t->decode.top_p},
        {"lexical_shortlist", &t->decode.lexical_shortlist, NULL},
        {"plain", &t->options.plain, NULL}, /* these two: 0 or 1, as in texts.h */
        {"all_languages", &t->options.all_languages, NULL},
    };
    size_t i = 0;
    if (t->of) return binding_fail(err, TFM_E_STATE, "the translator has its options", name);
    if (!strcmp(name, "memory")) {
        if (!(value >= 0 && value < (double)SIZE_MAX / 2))
            return binding_fail(err, TFM_E_ARGUMENT, "a number of bytes is expected", name);
        t->options.of.memory = (size_t)value;
        return TFM_OK;
    }
    while (i < sizeof known / sizeof *known && strcmp(known[i].name, name)) i++;
    if (i == sizeof known / sizeof *known)
        return binding_fail(err, TFM_E_ARGUMENT, "no option is called so, or it is a text", name);
    if (known[i].real) *known[i].real = value;
    else if (value >= INT32_MIN && value <= INT32_MAX && value == (double)(int32_t)value)
        *known[i].whole = (int32_t)value;
    else return binding_fail(err, TFM_E_ARGUMENT, "a whole number is expected", name);
    return TFM_OK;
}

tfm_status binding_translator_text(binding_translator *t, const char *name, const char *value,
                                   tfm_error *err) {
    char **at = !strcmp(name, "source_language")   ? &t->source_language
                : !strcmp(name, "target_language") ? &t->target_language
                                                   : NULL;
    const size_t size = strlen(value) + 1;
    int how = TFM_SENTENCES_COUNT - 1;
    if (t->of) return binding_fail(err, TFM_E_STATE, "the translator has its options", name);
    if (!strcmp(name, "sentences")) {
        while (how && strcmp(value, tfm_sentences_name((tfm_sentences)how))) how--;
        if (!how) return binding_fail(err, TFM_E_ARGUMENT, "\"split\" or \"whole\"", name);
        t->options.of.sentences = (tfm_sentences)how;
        return TFM_OK;
    }
    if (!at)
        return binding_fail(err, TFM_E_ARGUMENT, "no option is called so, or it is a number", name);
    free(*at);
    if (!(*at = (char *)malloc(size)))
        return binding_fail(err, TFM_E_MEMORY, "too little memory", NULL);
    memcpy(*at, value, size);
    t->options.of.source_language = t->source_language;
    t->options.of.target_language = t->target_language;
    return TFM_OK;
}

tfm_status binding_translator_check(binding_translator *t, tfm_error *err) {
    return t->of ? TFM_OK : texts_create(&t->of, t->model->of, &t->options, err);
}

void binding_translator_release(binding_translator *t) {
    if (!t || binding_count(t->model, &t->references, -1)) return;
    texts_free(t->of);
    binding_model_release(t->model);
    free(t->source_language), free(t->target_language), free(t);
}

/* ---- runs ------------------------------------------------------------------------------------ */

/* Gives the program the turn, and waits until it gives the turn back. The run's mutex is held. */
static void binding_turn(binding_run *r, int32_t event) {
    r->event = event, r->is_shown = 0;
    pthread_cond_broadcast(&r->changed);
    while (r->event == event && !r->is_stopped) pthread_cond_wait(&r->changed, &r->mutex);
}

static int binding_next_text(void *user, tfm_request *request) {
    binding_run *r = (binding_run *)user;
    int has_text;
    pthread_mutex_lock(&r->mutex);
    r->given = NULL;
    if (r->has_texts && !r->is_stopped) binding_turn(r, BINDING_NEEDS_TEXT);
    if ((has_text = r->given && !r->is_stopped) != 0)
        *request = tfm_request_text((const char *)(r->given + 1), r->given->size);
    pthread_mutex_unlock(&r->mutex);
    return has_text;
}

static int binding_take_result(void *user, const texts_result *result) {
    binding_run *r = (binding_run *)user;
    binding_text *text;
    int is_stopped;
    pthread_mutex_lock(&r->mutex);
    r->result = result;
    if (!r->is_stopped) binding_turn(r, BINDING_HAS_RESULT);
    text = r->first; /* results are in the order of the texts */
    if ((r->first = text->next) == NULL) r->last = &r->first;
    is_stopped = r->is_stopped;
    pthread_mutex_unlock(&r->mutex);
    free(text);
    return is_stopped;
}

static void *binding_work(void *user) {
    binding_run *r = (binding_run *)user;
    tfm_error err;
    const tfm_status status =
        texts_pull(r->translator->of, binding_next_text, binding_take_result, r, &err);
    pthread_mutex_lock(&r->mutex);
    if (status != TFM_OK) r->err = err;
    r->event = status == TFM_OK ? BINDING_ENDED : BINDING_FAILED;
    pthread_cond_broadcast(&r->changed);
    pthread_mutex_unlock(&r->mutex);
    return NULL;
}

/* Frees a run that has no thread. */
static void binding_run_forget(binding_run *r) {
    binding_translator *t = r->translator;
    pthread_mutex_lock(&t->model->mutex);
    t->run = NULL;
    pthread_mutex_unlock(&t->model->mutex);
    binding_translator_release(t);
    free(r);
}

tfm_status binding_run_start(binding_run **run, binding_translator *t, tfm_error *err) {
    binding_run *r;
    tfm_status status;
    int is_busy;
    if (!t) return binding_fail(err, TFM_E_ARGUMENT, "translator is NULL", NULL);
    if (!(r = (binding_run *)calloc(1, sizeof *r)))
        return binding_fail(err, TFM_E_MEMORY, "too little memory", NULL);
    pthread_mutex_lock(&t->model->mutex);
    if (!(is_busy = t->run != NULL)) t->run = r, t->references++;
    pthread_mutex_unlock(&t->model->mutex);
    if (is_busy) {
        free(r);
        return binding_fail(err, TFM_E_STATE, "the translator has a run that has not ended", NULL);
    }
    r->translator = t, r->event = -1, r->has_texts = 1, r->last = &r->first;
    status = binding_translator_check(t, err);
    if (status == TFM_OK) {
        const int has_mutex = pthread_mutex_init(&r->mutex, NULL) == 0;
        const int has_both = has_mutex && pthread_cond_init(&r->changed, NULL) == 0;
        if (has_both && pthread_create(&r->thread, NULL, binding_work, r) == 0)
            return *run = r, TFM_OK;
        if (has_both) pthread_cond_destroy(&r->changed);
        if (has_mutex) pthread_mutex_destroy(&r->mutex);
        status = binding_fail(err, TFM_E_MEMORY, "no thread can be started", NULL);
    }
    binding_run_forget(r);
    return status;
}

int32_t binding_run_next(binding_run *r, binding_result *result, tfm_error *err) {
    int32_t event;
    pthread_mutex_lock(&r->mutex);
    if (r->event == BINDING_HAS_RESULT && r->is_shown)
        r->event = -1, pthread_cond_broadcast(&r->changed);
    while (r->event < 0) pthread_cond_wait(&r->changed, &r->mutex);
    event = r->event, r->is_shown = 1;
    if (event == BINDING_HAS_RESULT) {
        const tfm_translated *of = &r->result->of;
        const int is_text = of->status == TFM_OK;
        result->text = is_text ? of->text.data : of->message;
        result->size = (int64_t)(is_text ? of->text.size : strlen(of->message));
        result->number = of->number, result->sentences = of->sentences;
        result->cut = of->cut, result->left = r->result->left, result->status = of->status;
    }
    if (event == BINDING_FAILED && err) *err = r->err;
    pthread_mutex_unlock(&r->mutex);
    return event;
}

tfm_status binding_run_give(binding_run *r, const char *text, size_t size, tfm_error *err) {
    binding_text *copy = NULL;
    tfm_status status = TFM_OK;
    if (text && !(copy = (binding_text *)malloc(sizeof *copy + size)))
        return binding_fail(err, TFM_E_MEMORY, "too little memory", NULL);
    if (copy) copy->next = NULL, copy->size = size, memcpy(copy + 1, text, size);
    pthread_mutex_lock(&r->mutex);
    if (r->event != BINDING_NEEDS_TEXT) {
        free(copy);
        status = binding_fail(err, TFM_E_STATE, "the run does not need a text now", NULL);
    } else {
        r->has_texts = copy != NULL, r->given = copy;
        if (copy) *r->last = copy, r->last = &copy->next;
        r->event = -1;
        pthread_cond_broadcast(&r->changed);
    }
    pthread_mutex_unlock(&r->mutex);
    return status;
}

void binding_run_release(binding_run *r) {
    binding_text *text;
    if (!r) return;
    pthread_mutex_lock(&r->mutex);
    r->is_stopped = 1;
    pthread_cond_broadcast(&r->changed);
    pthread_mutex_unlock(&r->mutex);
    pthread_join(r->thread, NULL);
    while ((text = r->first) != NULL) r->first = text->next, free(text);
    pthread_cond_destroy(&r->changed), pthread_mutex_destroy(&r->mutex);
    binding_run_forget(r);
}
