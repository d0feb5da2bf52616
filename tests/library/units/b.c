#define TRANSFORMER_LIBRARY /* as a program that uses an installed library */
#include "transformer.h"

const char *version_by_declarations(void);
const char *version_by_declarations(void) { return tfm_version(); }

/* Loads a file that does not exist. Returns how often the error's argument was evaluated. */
int evaluations_of_an_error(void);
int evaluations_of_an_error(void) {
    tfm_error errors[4];
    tfm_model *model = NULL;
    int n = 0;
    return tfm_model_load_file(&model, "no file", NULL, &errors[n++]) == TFM_E_IO && !model ? n
                                                                                            : -1;
}
