/* hello: loads a model and translates a sentence.
   cc -O2 -I. examples/hello.c -o hello -lm */
#define TRANSFORMER_IMPLEMENTATION
#include "transformer.h"
#include <stdio.h>

int main(void) {
    tfm_error err;
    tfm_model *model = NULL;
    tfm_session *session = NULL;
    static tfm_session_options how; /* zeros: defaults */
    char text[1024];
    int ok;
    ok = tfm_model_load_file(&model, "examples/models/zh-en.safetensors", NULL, &err) == TFM_OK;
    how.decoding = tfm_model_decoding(model); /* as the model file says; NULL: greedy search */
    ok = ok && tfm_session_create(&session, model, &how, &err) == TFM_OK &&
         tfm_translate(session, "我是学生。", text, sizeof text, &err) == TFM_OK;
    if (ok) puts(text);
    else fprintf(stderr, "%s\n", err.text);
    tfm_session_free(session);
    tfm_model_free(model);
    return ok ? 0 : 1;
}
