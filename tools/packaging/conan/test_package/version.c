#include <stdio.h>
#include <transformer.h>

int main(void) {
    tfm_error err;
    tfm_model *model;
    printf("transformer.h %s, %s\n", tfm_version(), tfm_cpu_string());
    return tfm_model_load(&model, "", 0, NULL, &err) == TFM_OK;
}
