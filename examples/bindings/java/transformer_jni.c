/* The native half of Native.java: binding.h for Java. Texts are UTF-8 in byte arrays, because JNI's
   own strings are not quite UTF-8. */
#include "binding.h"

#include <jni.h>
#include <stdlib.h>
#include <string.h>

#define JAVA(type, name) JNIEXPORT type JNICALL Java_transformer_Native_##name
#define HANDLE(type, number) ((type *)(intptr_t)(number))

/* Throws a TransformerException if a call has failed. native is the class Native. */
static void raise_error(JNIEnv *env, jclass native, tfm_status status, const tfm_error *err) {
    const jsize size = status ? (jsize)strlen(err->text) : 0;
    const jmethodID fail = status ? (*env)->GetStaticMethodID(env, native, "fail", "(I[B)V") : NULL;
    const jbyteArray text = fail ? (*env)->NewByteArray(env, size) : NULL;
    if (!text) return; /* if there was an error, Java has thrown another one */
    (*env)->SetByteArrayRegion(env, text, 0, size, (const jbyte *)err->text);
    (*env)->CallStaticVoidMethod(env, native, fail, (jint)status, text);
}

/* Copies a byte array, and terminates the copy. Returns NULL after throwing an error. The caller
   frees the copy. */
static char *copy_bytes(JNIEnv *env, jclass native, jbyteArray from, size_t *size) {
    const tfm_error err = {TFM_E_MEMORY, "too little memory"};
    char *to = (char *)malloc((*size = (size_t)(*env)->GetArrayLength(env, from)) + 1);
    if (to) (*env)->GetByteArrayRegion(env, from, 0, (jsize)*size, (jbyte *)to), to[*size] = 0;
    else raise_error(env, native, err.status, &err);
    return to;
}

JAVA(jlong, load)(JNIEnv *env, jclass native, jbyteArray data, jboolean is_path) {
    size_t size;
    char *bytes = copy_bytes(env, native, data, &size);
    binding_model *model = NULL;
    tfm_error err;
    if (bytes)
        raise_error(env, native,
                    is_path ? binding_model_open(&model, bytes, &err)
                            : binding_model_read(&model, bytes, size, &err),
                    &err);
    free(bytes);
    return (jlong)(intptr_t)model;
}

/* Makes a translator of a model or, if that is 0, a run of a translator. */
JAVA(jlong, make)(JNIEnv *env, jclass native, jlong model, jlong of) {
    binding_translator *translator = NULL;
    binding_run *run = NULL;
    tfm_error err;
    raise_error(env, native,
                model ? binding_translator_create(&translator, HANDLE(binding_model, model), &err)
                      : binding_run_start(&run, HANDLE(binding_translator, of), &err),
                &err);
    return model ? (jlong)(intptr_t)translator : (jlong)(intptr_t)run;
}

/* Sets an option to a text or, if that is null, to a number. */
JAVA(void, set)
(JNIEnv *env, jclass native, jlong translator, jbyteArray name, jbyteArray text, jdouble number) {
    size_t size;
    char *key = copy_bytes(env, native, name, &size),
         *value = text ? copy_bytes(env, native, text, &size) : NULL;
    binding_translator *t = HANDLE(binding_translator, translator);
    tfm_error err;
    if (key && (value || !text))
        raise_error(env, native,
                    text ? binding_translator_text(t, key, value, &err)
                         : binding_translator_number(t, key, number, &err),
                    &err);
    free(key), free(value);
}

JAVA(void, check)(JNIEnv *env, jclass native, jlong translator) {
    tfm_error err;
    raise_error(env, native, binding_translator_check(HANDLE(binding_translator, translator), &err),
                &err);
}

/* Sets counts to the event and the numbers of binding_result. Returns the text of a result. */
JAVA(jbyteArray, next)(JNIEnv *env, jclass native, jlong run, jlongArray counts) {
    binding_result r = {NULL, 0, 0, 0, 0, 0, 0};
    tfm_error err;
    const int32_t event = binding_run_next(HANDLE(binding_run, run), &r, &err);
    const jlong numbers[5] = {event, r.sentences, r.cut, r.left, r.status};
    jbyteArray text;
    (*env)->SetLongArrayRegion(env, counts, 0, 5, numbers);
    if (event == BINDING_FAILED) raise_error(env, native, err.status, &err);
    if (event != BINDING_HAS_RESULT || !(text = (*env)->NewByteArray(env, (jsize)r.size)))
        return NULL;
    (*env)->SetByteArrayRegion(env, text, 0, (jsize)r.size, (const jbyte *)r.text);
    return text;
}

JAVA(void, give)(JNIEnv *env, jclass native, jlong run, jbyteArray text) { /* null: no more texts */
    size_t size = 0;
    char *copy = text ? copy_bytes(env, native, text, &size) : NULL;
    tfm_error err;
    if (copy || !text)
        raise_error(env, native, binding_run_give(HANDLE(binding_run, run), copy, size, &err),
                    &err);
    free(copy);
}

JAVA(jlong, release)(JNIEnv *env, jclass native, jlong run, jlong translator, jlong model) {
    (void)env, (void)native;
    binding_run_release(HANDLE(binding_run, run));
    binding_translator_release(HANDLE(binding_translator, translator));
    binding_model_release(HANDLE(binding_model, model));
    return 0;
}

JAVA(jstring, statusName)(JNIEnv *env, jclass native, jint status) {
    (void)native;
    return (*env)->NewStringUTF(env, binding_status_name((int32_t)status));
}
