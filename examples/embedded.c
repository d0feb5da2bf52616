/* embedded: compiles a model into the program, which then reads no file. od makes the array here;
   xxd -i, C23's #embed or a linker's -b binary work too.
   od -An -v -tx1 tests/data/models/toy.safetensors | sed 's/ \(..\)/0x\1,/g' > build/model.inc
   cc -O2 -I. -Ibuild examples/embedded.c -o embedded -lm */
#define TRANSFORMER_NO_STDIO /* leaves out the library's functions that read files */
#define TRANSFORMER_IMPLEMENTATION
#include "transformer.h"
#include <stdio.h>

static const unsigned char bytes[] = {
#include "model.inc"
};

int main(void) {
    tfm_error err;
    tfm_model *model = NULL;
    tfm_session *session = NULL;
    char text[1024];
    /* the model reads the array until it is freed, and never writes to it */
    int ok = tfm_model_load(&model, bytes, sizeof bytes, NULL, &err) == TFM_OK &&
             tfm_session_create(&session, model, NULL, &err) == TFM_OK &&
             tfm_translate(session, "我是学生", text, sizeof text, &err) == TFM_OK;
    if (ok) printf("%d bytes of model: %s\n", (int)sizeof bytes, text);
    else fprintf(stderr, "%s\n", err.text);
    tfm_session_free(session);
    tfm_model_free(model);
    return ok ? 0 : 1;
}
