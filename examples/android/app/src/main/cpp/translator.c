/* The native half of Translator.java: a model and a translator behind a number. Texts are UTF-8 in
   byte arrays, because JNI's own strings are not quite UTF-8. */
#define TRANSFORMER_IMPLEMENTATION
#include "transformer.h"

#include "examples/translate/text/texts.h"
#include <jni.h>
#include <stdlib.h>

typedef struct translator {
    tfm_model *model;
    texts_translator *of;
    void *data; /* the model file, which the model uses in place */
} translator;

static void close_translator(translator *t) {
    if (!t) return;
    texts_free(t->of);
    tfm_model_free(t->model);
    free(t->data);
    free(t);
}
static void throw_error(JNIEnv *env, const char *text) {
    jclass kind = (*env)->FindClass(env, "java/lang/IllegalStateException");
    if (kind) (*env)->ThrowNew(env, kind, text);
}

JNIEXPORT jlong JNICALL Java_example_Translator_open(JNIEnv *env, jclass self, jbyteArray file) {
    jsize size = (*env)->GetArrayLength(env, file);
    translator *t = (translator *)calloc(1, sizeof *t);
    tfm_error err;
    (void)self;
    if (t) t->data = malloc((size_t)size + 1);
    if (!t || !t->data) {
        close_translator(t);
        throw_error(env, "no memory for the model");
        return 0;
    }
    (*env)->GetByteArrayRegion(env, file, 0, size, (jbyte *)t->data);
    if (tfm_model_load(&t->model, t->data, (size_t)size, NULL, &err) != TFM_OK ||
        texts_create(&t->of, t->model, NULL, &err) != TFM_OK) {
        close_translator(t);
        throw_error(env, err.text);
        return 0;
    }
    return (jlong)(intptr_t)t;
}

typedef struct answer {
    JNIEnv *env;
    jbyteArray text;
} answer;

static int take(void *user, const texts_result *result) { /* by the thread that translates */
    answer *a = (answer *)user;
    const tfm_text *text = &result->of.text;
    jsize size = (jsize)text->size;
    if (result->of.status != TFM_OK) throw_error(a->env, result->of.message);
    else if ((a->text = (*a->env)->NewByteArray(a->env, size)) != NULL)
        (*a->env)->SetByteArrayRegion(a->env, a->text, 0, size, (const jbyte *)text->data);
    return 0;
}

JNIEXPORT jbyteArray JNICALL Java_example_Translator_translate(JNIEnv *env, jclass self,
                                                               jlong handle, jbyteArray text) {
    translator *t = (translator *)(intptr_t)handle;
    jsize size = (*env)->GetArrayLength(env, text);
    char *source = (char *)malloc((size_t)size + 1);
    answer a = {env, NULL};
    tfm_request request;
    tfm_error err;
    (void)self;
    if (source) {
        (*env)->GetByteArrayRegion(env, text, 0, size, (jbyte *)source);
        request = tfm_request_text(source, (size_t)size);
        if (texts_run(t->of, &request, 1, take, &a, &err) != TFM_OK) throw_error(env, err.text);
    } else throw_error(env, "no memory for the text");
    free(source);
    return a.text;
}

JNIEXPORT void JNICALL Java_example_Translator_close(JNIEnv *env, jclass self, jlong handle) {
    (void)env, (void)self;
    close_translator((translator *)(intptr_t)handle);
}
