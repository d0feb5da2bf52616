/* Model files that are not copied: used where the caller has them, or mapped. */
#if !defined(_WIN32) && !defined(__wasm__)
#define TRANSFORMER_MMAP
#include <sys/stat.h>
/* a file that says nothing about itself */
static int no_stat;
static int map_fstat(int file, struct stat *about) { return no_stat ? -1 : fstat(file, about); }
#define fstat map_fstat
#endif
#define TRANSFORMER_IMPLEMENTATION
#include "transformer.h"
#include "tiny.h"

#define TOY "tests/data/models/toy.safetensors"

static void where_they_lie(void) {
    const unsigned one = 1;
    int little = *(const unsigned char *)&one;
    tfm_model_options o = tiny_options();
    tfm_model *model;
    st_writer w;
    size_t size;
    char *bytes;
    const char *generator;
    SECTION("weights in the caller's memory");
    o.in_place = 1;
    tiny_write(&w, tiny_default());
    bytes = (char *)tiny_bytes(&w, &size);
    must(tfm_model_load(&model, bytes, size, &o, &err));
    generator = (const char *)model->generator.w.floats;
    CHECK((generator > bytes && generator < bytes + size) == little,
          "are used where they lie, if the machine is little-endian");
    tfm_model_free(model);
}

#if defined(TRANSFORMER_MMAP) && !defined(TRANSFORMER_NO_STDIO)
static void same_numbers(void) {
    static const int32_t ids[] = {4, 5, 6};
    tfm_batch batch = tiny_batch(ids, NULL, 1, 3);
    tfm_tensor expected, logits;
    int in_place, map;
    SECTION("a mapped file gives the numbers of one that is read");
    memset(&expected, 0, sizeof expected);
    for (map = 0; map < 2; map++)
        for (in_place = 0; in_place < 2; in_place++) {
            tfm_model_options o;
            tfm_model *model = NULL;
            tfm_session *s;
            tiny_counter count;
            tfm_allocator a = tiny_counting(&count);
            memset(&o, 0, sizeof o);
            o.in_place = in_place, o.map = map, o.allocator = &a;
            must(tfm_model_load_file(&model, TOY, &o, &err));
            s = tiny_session(model, 1, 3, 3);
            logits = test_like(
                tfm_tensor_3d(NULL, TFM_F32, 1, 3, tfm_model_config(model)->tgt_vocab_size));
            must(tfm_forward(s, &batch, &batch, NULL, &logits, &err));
            if (!map && !in_place) expected = logits;
            CHECK(test_difference(&logits, &expected) < 1e-4,
                  "mapped %d, in place %d: %d allocations", map, in_place, count.calls);
            tfm_session_free(s), tfm_model_free(model);
        }
}

static void faults(void) {
    tfm_model_options o;
    tfm_model *model = NULL;
    FILE *empty = fopen("build/empty.safetensors", "wb");
    SECTION("files that cannot be mapped");
    must(tfm_model_load_file(&model, TOY, NULL, &err));
    tfm_model_free(model), model = NULL; /* without options it is read */
    memset(&o, 0, sizeof o);
    o.map = 1;
    if (empty) fclose(empty);
    CHECK_FAILS(tfm_model_load_file(&model, NULL, &o, &err), TFM_E_ARGUMENT, "path");
    CHECK_FAILS(tfm_model_load_file(&model, "build/none", &o, &err), TFM_E_IO, "cannot be opened");
    CHECK_FAILS(tfm_model_load_file(&model, "build/empty.safetensors", &o, &err), TFM_E_IO,
                "cannot be mapped");
    no_stat = 1;
    CHECK_FAILS(tfm_model_load_file(&model, TOY, &o, &err), TFM_E_IO, "cannot be mapped");
    no_stat = 0;
    CHECK_FAILS(tfm_model_load_file(&model, "README.md", &o, &err), TFM_E_FORMAT, "");
    CHECK(model == NULL, "no model came of it");
    remove("build/empty.safetensors");
}
#endif

int main(void) {
    where_they_lie();
#if !defined(TRANSFORMER_MMAP) || defined(TRANSFORMER_NO_STDIO)
    printf("  skipped, this system or this build maps no files\n");
    test_skipped++;
#else
    same_numbers();
    faults();
#endif
    return test_done("test_map");
}
