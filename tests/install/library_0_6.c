/* A library with the interface of version 0.6.0, as far as a program calls it: it checks sizes as
   that version did, and its "translation" says that it ran. */
#include "../data/abi-0.6.0.h"
#include <stdio.h>
#include <string.h>

tfm_status tfm_sizes_check(size_t config, size_t model_options, size_t session_options,
                           size_t forward_options, size_t decode_options, size_t result,
                           tfm_error *err) {
    static const size_t here[] = {TFM_SIZES};
    const size_t given[] = {config,          model_options,  session_options,
                            forward_options, decode_options, result};
    if (memcmp(here, given, sizeof here) == 0) return TFM_OK;
    sprintf(err->text, "tfm_config has %lu bytes here", (unsigned long)config);
    return TFM_E_ARGUMENT;
}
tfm_status tfm_model_load_file(tfm_model **model, const char *path,
                               const tfm_model_options *options, tfm_error *err) {
    (void)path, (void)options, (void)err;
    *model = NULL;
    return TFM_OK;
}
void tfm_model_free(tfm_model *model) { (void)model; }
tfm_status tfm_session_create(tfm_session **session, const tfm_model *model,
                              const tfm_session_options *options, tfm_error *err) {
    (void)model, (void)options, (void)err;
    *session = NULL;
    return TFM_OK;
}
void tfm_session_free(tfm_session *session) { (void)session; }
tfm_status tfm_translate(tfm_session *session, const char *text, char *out, size_t capacity,
                         tfm_error *err) {
    (void)session, (void)text, (void)capacity, (void)err;
    strcpy(out, "version 0.6.0");
    return TFM_OK;
}
