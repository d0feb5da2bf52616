/* clang -g -O1 -fsanitize=fuzzer,address,undefined -I. -Itools/common -Itests
   tests/fuzz/container.c -lm Opens the input as a safetensors file. A file that opens must be
   consistent and readable. */
#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    tfm_safetensors *file = NULL;
    int64_t i, end = 0;
    if (tfm_safetensors_open(&file, data, size, fuzz_counting(), &err) != TFM_OK)
        return fuzz_refused(size, file), 0;
    need(fuzz_largest <= 4 * size + 16384);
    for (i = 0; i < tfm_safetensors_count(file); i++) {
        tfm_tensor t = tfm_safetensors_tensor(file, i);
        int64_t bytes = st_bytes(&t);
        need(tfm_safetensors_find(file, tfm_safetensors_name(file, i)) == i);
        need(bytes >= 0 && (const uint8_t *)t.data + bytes <= data + size);
        end += bytes;
        if (test_count(&t) * 8 > (int64_t)sizeof fuzz_room) continue;
        (void)tfm_safetensors_read(file, i, TFM_DTYPE_F32, fuzz_room, &err);
        (void)tfm_safetensors_read(file, i, TFM_DTYPE_I64, fuzz_room, &err);
    }
    need(end <= (int64_t)size && tfm_safetensors_find(file, "no such name") < 0);
    (void)tfm_safetensors_metadata(file, "transformer.config");
    (void)tfm_safetensors_metadata_key(file, 0);
    tfm_safetensors_free(file);
    return 0;
}
