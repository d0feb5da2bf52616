/* vectors: translates a source of vectors instead of token ids. The vectors could be frames of
   sound or patches of an image; here the program looks up the tokens' embeddings in the model file,
   as the encoder would. It then decodes a second time, from a copy of the encoder's output.
   cc -O2 -I. examples/vectors.c -o vectors -lm */
#define TRANSFORMER_IMPLEMENTATION
#include "transformer.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MODEL "tests/data/models/toy.safetensors"

/* Decodes a source and prints the translation. */
static tfm_status show(tfm_session *session, const tfm_request *request, tfm_error *err) {
    char text[256];
    size_t size = 0;
    tfm_status status = tfm_session_decode(session, request, 1, NULL, err);
    if (status == TFM_OK)
        status = tfm_result_text(session, 0, 0, TFM_TEXT_FORM_TEXT, text, sizeof text, &size, err);
    if (status == TFM_OK) printf("%.*s\n", (int)size, text);
    return status;
}

int main(void) {
    static const int32_t tokens[] = {1, 2, 3, 4};
    static float input[4 * 1024], kept[4 * 1024];
    static tfm_request request; /* zeros: no source yet */
    tfm_safetensors *file = NULL;
    tfm_model *model = NULL;
    tfm_session *session = NULL;
    tfm_tensor vectors, memory;
    tfm_error err;
    tfm_status status = tfm_model_load_file(&model, MODEL, NULL, &err);
    if (status == TFM_OK) status = tfm_session_create(&session, model, NULL, &err);
    if (status == TFM_OK) status = tfm_safetensors_open_file(&file, MODEL, NULL, &err);
    if (status == TFM_OK) {
        const tfm_config *c = tfm_model_config(model);
        int64_t D = c->d_input, i, at = tfm_safetensors_find(file, "src_embedding.weight");
        float *table = (float *)malloc((size_t)(c->src_vocab_size * D) * sizeof(float));
        if (!table) return 1;
        status = tfm_safetensors_read(file, at, TFM_DTYPE_F32, table, &err);
        for (i = 0; i < 4 * D; i++) /* a tensor [4, D] */
            input[i] = table[tokens[i / D] * D + i % D] * (float)c->embedding_scale;
        free(table);
        request.embeddings = &vectors;
        vectors = tfm_tensor_2d(input, TFM_DTYPE_F32, 4, D);
    }
    if (status == TFM_OK) status = show(session, &request, &err);
    if (status == TFM_OK) {
        memory = tfm_session_encoder_output(
            session); /* valid until the session's next call, so copy it */
        memcpy(kept, memory.data, 4 * (size_t)memory.dims[2] * sizeof(float));
        memory = tfm_tensor_2d(kept, TFM_DTYPE_F32, 4, memory.dims[2]);
        request.embeddings = NULL, request.memory = &memory;
        status = show(session, &request, &err);
    }
    if (status != TFM_OK) fprintf(stderr, "%s\n", err.text);
    tfm_safetensors_free(file), tfm_session_free(session), tfm_model_free(model);
    return status == TFM_OK ? 0 : 1;
}
