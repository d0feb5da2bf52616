/* One program of five translation units: build/transformer.o has the implementation, this unit has
   main, b.c includes only the declarations, and static_1.c and static_2.c have static copies of
   their own. */
#include "transformer.h"
#include "test.h"

const char *version_by_declarations(void);
int evaluations_of_an_error(void);
double norm_by_static_copy_1(void);
double norm_by_static_copy_2(void);

int main(void) {
    float x[2] = {1, 3};
    tfm_tensor t = tfm_tensor_1d(x, TFM_DTYPE_F32, 2);
    CHECK(strcmp(version_by_declarations(), TFM_VERSION) == 0,
          "a second unit links to the one implementation");
    CHECK(evaluations_of_an_error() == 1,
          "a program with TRANSFORMER_LIBRARY evaluates each argument once");
    CHECK(tfm_layer_norm(&t, &t, NULL, NULL) == TFM_OK,
          "the linked implementation computes a norm");
    CHECK(norm_by_static_copy_1() == (double)x[1] && norm_by_static_copy_2() == (double)x[1],
          "two static copies, which cannot map files, work in the same program");
    return test_done("test_units");
}
