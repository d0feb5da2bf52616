/* Five translation units of one program: build/transformer.o has the implementation, this one has main,
   b.c only includes the declarations, static_1.c and static_2.c have static copies of their own. */
#include "transformer.h"
#include "test.h"

const char *version_by_declarations(void);
double norm_by_static_copy_1(void);
double norm_by_static_copy_2(void);

int main(void) {
    float x[2] = {1, 3};
    tfm_tensor t = tfm_tensor_1d(x, TFM_F32, 2);
    CHECK(strcmp(version_by_declarations(), TFM_VERSION) == 0,
          "a second unit links to the one implementation");
    CHECK(tfm_layer_norm(&t, &t, NULL, NULL) == TFM_OK, "and computes a norm");
    CHECK(norm_by_static_copy_1() == (double)x[1] && norm_by_static_copy_2() == (double)x[1],
          "two static copies live in one program with it");
    return test_done("test_units");
}
