/* binding.h: a small C API for the packages of other languages. It has handles, numbers and texts
   only: no callback and no struct of options, which other languages describe badly.

       binding_model_open(&model, "de-en.safetensors", &err);
       binding_translator_create(&translator, model, &err);
       binding_translator_number(translator, "threads", 2, &err);           options, by their names
       binding_run_start(&run, translator, &err);
       for (;;)
           switch (binding_run_next(run, &result, &err)) {
           case BINDING_NEEDS_TEXT: binding_run_give(run, text, size, &err); continue;
           case BINDING_HAS_RESULT: ... result.text ...; continue;
           case BINDING_ENDED: ...                                            or BINDING_FAILED
           }
       binding_run_release(run), binding_translator_release(translator);
       binding_model_release(model);

   A run translates any number of texts by texts.h, as the program translate does, in a thread of
   its own. So everything that the program does, it does in the thread that calls these functions.

   A handle keeps what it was made from, so a program may release them in any order. Any threads may
   share a model. One thread at a time uses a translator and its run. */
#ifndef BINDING_H
#define BINDING_H

#include "transformer.h"

#ifdef __cplusplus
extern "C" {
#endif
#if defined(_WIN32)
#define BINDING_DEF __declspec(dllexport)
#elif defined(__GNUC__)
#define BINDING_DEF __attribute__((visibility("default")))
#else
#define BINDING_DEF
#endif

typedef struct binding_model binding_model;
typedef struct binding_translator binding_translator;
typedef struct binding_run binding_run;

/* What binding_run_next returns. */
typedef enum binding_event {
    BINDING_ENDED,      /* all texts have their results */
    BINDING_NEEDS_TEXT, /* give the next text with binding_run_give */
    BINDING_HAS_RESULT,
    BINDING_FAILED /* the run has ended with an error, which has nothing to do with one text */
} binding_event;

/* What became of a text. `text` is valid until the next call for this run. */
typedef struct binding_result {
    const char *text;  /* the translation, or the message if status is not 0. It is terminated */
    int64_t size;      /* bytes of text */
    int64_t number;    /* of the text in this run, counted from 0 */
    int64_t sentences; /* sentences that the model translated */
    int64_t cut;       /* sentences whose translation is shortened (tfm_translated.cut) */
    int64_t left;      /* sentences that stay as they are: the model cannot read them, or they are
                          in the target language */
    int64_t status;    /* 0, or the tfm_status that says why the text was not translated */
} binding_result;

/* Returns the name of a status without TFM_E_: "ARGUMENT", "IO", "FORMAT", "TOO_LONG", "UTF8" ...,
   or "UNKNOWN". */
BINDING_DEF const char *binding_status_name(int32_t status);

/* Loads a model from the file at path, or from bytes, which are copied. Errors: as
   tfm_model_load_file. */
BINDING_DEF tfm_status binding_model_open(binding_model **model, const char *path, tfm_error *err);
BINDING_DEF tfm_status binding_model_read(binding_model **model, const void *data, size_t size,
                                          tfm_error *err);
/* Releases a model, which may be NULL. It is freed when its translators are released, too. */
BINDING_DEF void binding_model_release(binding_model *model);

/* Creates a translator. Without options it decodes as the model file says, in one thread. */
BINDING_DEF tfm_status binding_translator_create(binding_translator **translator,
                                                 binding_model *model, tfm_error *err);
/* Sets an option of a translator before its first run: a number, or a text. binding.c has the
   names. Errors: TFM_E_ARGUMENT for another name, or a value that the option cannot have. */
BINDING_DEF tfm_status binding_translator_number(binding_translator *translator, const char *name,
                                                 double value, tfm_error *err);
BINDING_DEF tfm_status binding_translator_text(binding_translator *translator, const char *name,
                                               const char *value, tfm_error *err);
/* Checks all options together. The first run does so, too. Errors: as tfm_translator_create. */
BINDING_DEF tfm_status binding_translator_check(binding_translator *translator, tfm_error *err);
/* Releases a translator, which may be NULL. It is freed when its run is released, too. */
BINDING_DEF void binding_translator_release(binding_translator *translator);

/* Starts a run. Errors: TFM_E_STATE if the translator has one already; as
   binding_translator_check; TFM_E_MEMORY if no thread can be started. */
BINDING_DEF tfm_status binding_run_start(binding_run **run, binding_translator *translator,
                                         tfm_error *err);
/* Waits until the run needs a text, has a result or ends, and says which (binding_event). Only
   BINDING_HAS_RESULT fills in result, only BINDING_FAILED err. */
BINDING_DEF int32_t binding_run_next(binding_run *run, binding_result *result, tfm_error *err);
/* Gives a run that needs one a text, which is copied. text NULL: there are no more texts. Errors:
   TFM_E_STATE, TFM_E_MEMORY. */
BINDING_DEF tfm_status binding_run_give(binding_run *run, const char *text, size_t size,
                                        tfm_error *err);
/* Ends and frees a run, which may be NULL. Sentences that are being decoded are finished first. */
BINDING_DEF void binding_run_release(binding_run *run);

#ifdef __cplusplus
}
#endif
#endif
