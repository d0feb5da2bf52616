/* hello: loads a model and translates a sentence.
   cc -O2 -I. examples/hello.c -o hello -lm */
#define TRANSFORMER_IMPLEMENTATION
#include "transformer.h"
#include <stdio.h>

static int print(void *user, const tfm_translated *t) {
    return fprintf((FILE *)user, "%s\n", t->status == TFM_OK ? t->text.data : t->message) < 0;
}

int main(void) {
    static const char file[] = "examples/models/zh-en.safetensors", source[] = "我是学生。";
    tfm_error err;
    tfm_model *model = NULL;
    tfm_translator *translator = NULL;
    tfm_request text = tfm_request_text(source, sizeof source - 1);
    int ok = tfm_model_load_file(&model, file, NULL, &err) == TFM_OK &&
             tfm_translator_create(&translator, model, NULL, &err) == TFM_OK &&
             tfm_translator_run(translator, &text, 1, print, stdout, &err) == TFM_OK;
    tfm_translator_free(translator);
    tfm_model_free(model);
    return ok ? 0 : (fprintf(stderr, "%s\n", err.text), 1);
}
