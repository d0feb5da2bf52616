/* What a program that was compiled with transformer.h 0.6.0 knows of the library: the structs that
   it passes, as their sizes on 64-bit Linux, and the functions that tests/install/abi.sh calls.
   From the header of version 0.6.0. */
#ifndef TRANSFORMER_H
#define TRANSFORMER_H
#include <stddef.h>
typedef int tfm_status;
typedef struct tfm_error {
    int status;
    char text[256];
} tfm_error;
typedef struct tfm_model tfm_model;
typedef struct tfm_session tfm_session;
typedef struct tfm_model_options tfm_model_options;
typedef struct tfm_session_options tfm_session_options;
enum { TFM_OK = 0, TFM_E_ARGUMENT = 1 };
/* sizes of tfm_config, tfm_model_options, tfm_session_options, tfm_forward_options,
   tfm_decode_options, tfm_result */
#define TFM_SIZES 280, 24, 72, 448, 272, 40
tfm_status tfm_sizes_check(size_t config, size_t model_options, size_t session_options,
                           size_t forward_options, size_t decode_options, size_t result,
                           tfm_error *err);
tfm_status tfm_model_load_file(tfm_model **model, const char *path,
                               const tfm_model_options *options, tfm_error *err);
void tfm_model_free(tfm_model *model);
tfm_status tfm_session_create(tfm_session **session, const tfm_model *model,
                              const tfm_session_options *options, tfm_error *err);
void tfm_session_free(tfm_session *session);
tfm_status tfm_translate(tfm_session *session, const char *text, char *out, size_t capacity,
                         tfm_error *err);
#ifdef TRANSFORMER_LIBRARY
#define tfm_model_load_file(model, path, options, err)                                             \
    (tfm_sizes_check(TFM_SIZES, err) == TFM_OK ? tfm_model_load_file(model, path, options, err)    \
                                               : TFM_E_ARGUMENT)
#endif
#endif
