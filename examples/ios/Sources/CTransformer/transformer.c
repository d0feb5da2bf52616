/* The implementation, compiled once. */
#define TRANSFORMER_IMPLEMENTATION
#include "include/CTransformer.h"

#include "../../../translate/text/texts.h"
#include <stdlib.h>
#include <string.h>

struct text_translator {
    tfm_model *model;
    texts_translator *of;
};

text_translator *text_translator_open(const char *path, tfm_error *err) {
    text_translator *t = (text_translator *)calloc(1, sizeof *t);
    if (t && tfm_model_load_file(&t->model, path, NULL, err) == TFM_OK &&
        texts_create(&t->of, t->model, NULL, err) == TFM_OK)
        return t;
    if (!t) strcpy(err->text, "too little memory");
    text_translator_close(t);
    return NULL;
}

typedef struct answer {
    char *text;
    tfm_error *err;
} answer;

static int take(void *user, const texts_result *result) {
    answer *a = (answer *)user;
    const size_t size = result->of.text.size;
    if (result->of.status == TFM_OK && (a->text = (char *)malloc(size + 1)) != NULL) {
        memcpy(a->text, result->of.text.data, size);
        a->text[size] = 0;
    } else
        snprintf(a->err->text, sizeof a->err->text, "%s",
                 result->of.status == TFM_OK ? "too little memory" : result->of.message);
    return 0;
}

char *text_translator_run(text_translator *t, const char *text, tfm_error *err) {
    const tfm_request request = tfm_request_text(text, strlen(text));
    answer a = {NULL, err};
    return texts_run(t->of, &request, 1, take, &a, err) == TFM_OK ? a.text : NULL;
}

void text_translator_close(text_translator *t) {
    if (!t) return;
    texts_free(t->of);
    tfm_model_free(t->model);
    free(t);
}
