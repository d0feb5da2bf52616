/* A program of a user in C: translates its second argument. */
#include <stdio.h>
#include <transformer.h>

int main(int argc, char **argv) {
    tfm_error err;
    tfm_model *model = NULL;
    tfm_session *session = NULL;
    char out[4096];
    tfm_status status;
    if (argc < 3) return 2;
    status = tfm_model_load_file(&model, argv[1], NULL, &err);
    if (status == TFM_OK) status = tfm_session_create(&session, model, NULL, &err);
    if (status == TFM_OK) status = tfm_translate(session, argv[2], out, sizeof out, &err);
    if (status == TFM_OK) puts(out);
    else fprintf(stderr, "%s\n", err.text);
    tfm_session_free(session);
    tfm_model_free(model);
    return status != TFM_OK;
}
