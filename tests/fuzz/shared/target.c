/* A target whose code is in the object file of transformer.c: -DFUZZ_TARGET=fuzz_config and so
   on. */
#include <stddef.h>
#include <stdint.h>

int FUZZ_TARGET(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) { return FUZZ_TARGET(data, size); }
