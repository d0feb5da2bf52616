/* The native half of Translator.java: a model and a session behind a number. Texts are UTF-8 in
   byte arrays, because JNI's own strings are not quite UTF-8. */
#define TRANSFORMER_IMPLEMENTATION
#include "transformer.h"
#include <jni.h>
#include <stdlib.h>
#include <string.h>

typedef struct translator {
    tfm_model *model;
    tfm_session *session;
    void *data; /* the model file, which the model uses in place */
} translator;

static void close_translator(translator *t) {
    if (!t) return;
    tfm_session_free(t->session);
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
    tfm_session_options options;
    tfm_error err;
    (void)self;
    memset(&options, 0, sizeof options);
    if (t) t->data = malloc((size_t)size + 1);
    if (!t || !t->data) {
        close_translator(t);
        throw_error(env, "no memory for the model");
        return 0;
    }
    (*env)->GetByteArrayRegion(env, file, 0, size, (jbyte *)t->data);
    if (tfm_model_load(&t->model, t->data, (size_t)size, NULL, &err) != TFM_OK ||
        ((void)(options.decoding = tfm_model_decoding(t->model)), /* as the model file says */
         tfm_session_create(&t->session, t->model, &options, &err)) != TFM_OK) {
        close_translator(t);
        throw_error(env, err.text);
        return 0;
    }
    return (jlong)(intptr_t)t;
}

JNIEXPORT jbyteArray JNICALL Java_example_Translator_translate(JNIEnv *env, jclass self,
                                                               jlong handle, jbyteArray text) {
    translator *t = (translator *)(intptr_t)handle;
    jsize size = (*env)->GetArrayLength(env, text);
    size_t capacity = 65536;
    char *source = (char *)malloc((size_t)size + 1), *target = (char *)malloc(capacity);
    jbyteArray result = NULL;
    tfm_error err;
    (void)self;
    if (!source || !target) throw_error(env, "no memory for the text");
    else {
        (*env)->GetByteArrayRegion(env, text, 0, size, (jbyte *)source);
        source[size] = 0;
        if (tfm_translate(t->session, source, target, capacity, &err) != TFM_OK)
            throw_error(env, err.text);
        else if ((result = (*env)->NewByteArray(env, (jsize)strlen(target))) != NULL)
            (*env)->SetByteArrayRegion(env, result, 0, (jsize)strlen(target),
                                       (const jbyte *)target);
    }
    free(source);
    free(target);
    return result;
}

JNIEXPORT void JNICALL Java_example_Translator_close(JNIEnv *env, jclass self, jlong handle) {
    (void)env, (void)self;
    close_translator((translator *)(intptr_t)handle);
}
