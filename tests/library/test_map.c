/* Model files that are not copied: the library uses them in the caller's memory, or maps them. */
#ifndef _DEFAULT_SOURCE
#define _DEFAULT_SOURCE /* declares madvise */
#endif
#define TRANSFORMER_IMPLEMENTATION
#include "transformer.h"
#include "tiny.h"
#ifdef TRANSFORMER_MMAP
#include <sys/wait.h>
#include <unistd.h>
#endif

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
          "are used in place, if the machine is little-endian");
    tfm_model_free(model);
}

/* Matrices are rearranged within the caller's memory, which saves most of what a model takes. */
static void overwritten(void) {
    static const int32_t ids[] = {4, 5, 6};
    id_matrix batch = tiny_batch(ids, NULL, 1, 3);
    tfm_tensor logits[2];
    size_t taken[2];
    int i, rearranges = 1;
#ifdef TRANSFORMER_BLAS
    rearranges = 0; /* OpenBLAS reads rows of floats where they are */
#endif
    SECTION("bytes that may be overwritten");
    for (i = 0; i < 2; i++) {
        tiny t = tiny_default();
        tfm_model_options o = tiny_options();
        tfm_model *model = NULL;
        tfm_session *s;
        test_allocator count;
        tfm_allocator a = test_counting(&count);
        st_writer w;
        char *bytes, *before;
        size_t size;
        t.ff = 256;
        tiny_write(&w, t);
        bytes = (char *)tiny_bytes(&w, &size);
        before = (char *)test_memory(size);
        memcpy(before, bytes, size);
        o.overwrite = i, o.allocator = &a;
        must(tfm_model_load(&model, bytes, size, &o, &err));
        taken[i] = count.bytes;
        s = tiny_session(model, 1, 3, 3);
        logits[i] = test_like(tfm_tensor_3d(NULL, TFM_DTYPE_F32, 1, 3, t.vt));
        must(forward_rows(s, &batch, &batch, NULL, &logits[i], &err));
        CHECK((memcmp(bytes, before, size) == 0) == !(i && rearranges), "%d: they are%s changed", i,
              i && rearranges ? "" : " not");
        tfm_session_free(s), tfm_model_free(model);
    }
    CHECK(test_difference(&logits[0], &logits[1]) == 0, "the numbers are the same");
    CHECK(rearranges ? taken[1] < taken[0] * 2 / 3 : taken[1] == taken[0], "%d bytes, not %d",
          (int)taken[1], (int)taken[0]);
}

#if defined(TRANSFORMER_MMAP) && !defined(TRANSFORMER_NO_STDIO)
static void same_numbers(void) {
    static const int32_t ids[] = {4, 5, 6};
    id_matrix batch = tiny_batch(ids, NULL, 1, 3);
    tfm_tensor expected, logits;
    int in_place, map;
    SECTION("a mapped file gives the numbers of one that is read");
    memset(&expected, 0, sizeof expected);
    for (map = 0; map < 2; map++)
        for (in_place = 0; in_place < 2; in_place++) {
            tfm_model_options o;
            tfm_model *model = NULL;
            tfm_session *s;
            test_allocator count;
            tfm_allocator a = test_counting(&count);
            memset(&o, 0, sizeof o);
            o.in_place = in_place, o.map = o.overwrite = map, o.allocator = &a;
            must(tfm_model_load_file(&model, TOY, &o, &err));
            s = tiny_session(model, 1, 3, 3);
            logits = test_like(
                tfm_tensor_3d(NULL, TFM_DTYPE_F32, 1, 3, tfm_model_config(model)->tgt_vocab_size));
            must(forward_rows(s, &batch, &batch, NULL, &logits, &err));
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
    tfm_model_free(model), model = NULL; /* Without options the file is read. */
    memset(&o, 0, sizeof o);
    o.map = 1;
    if (empty) fclose(empty);
    CHECK_FAILS(tfm_model_load_file(&model, NULL, &o, &err), TFM_E_ARGUMENT, "path");
    CHECK_FAILS(tfm_model_load_file(&model, "build/none", &o, &err), TFM_E_IO, "cannot be opened");
    CHECK_FAILS(tfm_model_load_file(&model, "build/empty.safetensors", &o, &err), TFM_E_IO,
                "cannot be mapped");
    test_hooks.no_stat = 1;
    CHECK_FAILS(tfm_model_load_file(&model, TOY, &o, &err), TFM_E_IO, "cannot be mapped");
    test_hooks.no_stat = 0;
    CHECK_FAILS(tfm_model_load_file(&model, "README.md", &o, &err), TFM_E_FORMAT, "");
    CHECK(model == NULL, "the call gives no model");
    remove("build/empty.safetensors");
}

/* Counts the linear maps of a model that read only memory in the mapping. */
static int count_mapped(const tfm_model *model, int *of) {
    const char *begin = (const char *)model->mapping, *end = begin + model->mapped;
    const tfm__linear *l;
    int n = 0;
    *of = 0;
    for (l = model->linears; l; l = l->next, ++*of)
        n += (const char *)l->w.data > begin && (const char *)l->w.data < end && !l->w.tail &&
             (!l->w.scales ||
              ((const char *)l->w.scales > begin && (const char *)l->w.scales < end)) &&
             (!l->w.block_sums ||
              ((const char *)l->w.block_sums > begin && (const char *)l->w.block_sums < end)) &&
             (const char *)l->bias > begin && (const char *)l->bias < end;
    return n;
}

#ifdef TFM__SYSTEM_CALLS
/* Returns whether the system's map of this process says that the page at p may be a huge one. */
static int may_be_huge(const void *p) {
    FILE *smaps = fopen("/proc/self/smaps", "r");
    char line[512];
    unsigned long begin, end;
    int here = 0, found = 0;
    while (smaps && fgets(line, sizeof line, smaps)) {
        if (sscanf(line, "%lx-%lx ", &begin, &end) == 2)
            here = (uintptr_t)p >= begin && (uintptr_t)p < end;
        else if (here && strncmp(line, "VmFlags:", 8) == 0) found = strstr(line, " hg") != NULL;
    }
    if (smaps) fclose(smaps);
    return found;
}

/* Returns whether the map says so of memory that libc's madvise was called for. */
static int tells_huge(void) {
    size_t size = 4 << 20;
    void *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    int tells = p != MAP_FAILED && madvise(p, size, MADV_HUGEPAGE) == 0 && may_be_huge(p);
    if (p != MAP_FAILED) munmap(p, size);
    return tells;
}

static void huge_pages(void) {
    static const char path[] = "examples/models/de-en.safetensors";
    char *bytes = (char *)test_memory(16 << 20);
    FILE *file = fopen(path, "rb");
    size_t size = file ? fread(bytes, 1, 16 << 20, file) : 0;
    tfm_safetensors *opened;
    const unsigned char *begin;
    int own, read;
    if (file) fclose(file);
    SECTION("a model's weights are in huge pages where its memory is malloc's");
    if (!tells_huge()) {
        test_skip("huge pages: this system has none, or does not report them");
        return;
    }
    for (own = 0; own < 2; own++)
        for (read = 0; read < 2; read++) {
            tfm_model_options o;
            tfm_model *model = NULL;
            test_allocator count;
            tfm_allocator a = test_counting(&count);
            int huge;
            memset(&o, 0, sizeof o);
            if (!own) o.allocator = &a;
            if (read) must(tfm_model_load_file(&model, path, &o, &err));
            else must(tfm_model_load(&model, bytes, size, &o, &err));
            /* the largest matrix: 1.5 MB of bytes, far from the ends of its allocation */
            huge = may_be_huge(model->generator.w.data + (1 << 20));
            CHECK(huge == own, "%s, %s: %s", own ? "malloc" : "an allocator of the caller",
                  read ? "from a file" : "from memory", huge ? "huge" : "not");
            tfm_model_free(model);
        }
    must(tfm_safetensors_open_file(&opened, path, NULL, &err));
    begin = opened->data + opened->size - size;
    CHECK((uintptr_t)begin % TFM__HUGE_PAGE == 0 && may_be_huge(begin) &&
              may_be_huge(begin + size - 1),
          "a file of 7.3 MB is read into four huge pages, from the first byte to the last");
    tfm_safetensors_free(opened);
}

/* If a huge page took long, the rest of the file is read into small pages. */
static void slow_pages(void) {
    static const char path[] = "examples/models/de-en.safetensors";
    tfm_model *models[2];
    const tfm__linear *a, *b;
    int i, equal = 1;
    SECTION("memory whose huge pages are slow");
    for (i = 0; i < 2; i++) {
        test_hooks.slow_page = i ? -1 : 0;
        must(tfm_model_load_file(&models[i], path, NULL, &err));
    }
    test_hooks.slow_page = 0;
    for (a = models[0]->linears, b = models[1]->linears; a && b; a = a->next, b = b->next) {
        int64_t whole = a->w.rows - a->w.rows % TFM__PANEL;
        int64_t bytes = a->w.floats ? 0 : tfm__packed_bytes(a->w.type, whole, a->w.columns);
        equal &= memcmp(a->w.data, b->w.data, (size_t)bytes) == 0;
    }
    CHECK(equal && !a && !b, "the same matrices");
    if (tells_huge())
        CHECK(may_be_huge(models[1]->generator.w.data + (1 << 20)),
              "the system may join the small pages later");
    for (i = 0; i < 2; i++) tfm_model_free(models[i]);
}
#endif

static void packed(void) {
    static const char path[] = "build/packed.safetensors";
    static const int32_t ids[] = {4, 5, 6};
    id_matrix batch = tiny_batch(ids, NULL, 1, 3);
    const unsigned one = 1;
    int little = *(const unsigned char *)&one, type, map, n;
    SECTION("a packed file is used in its mapping: each type, also of models like T5Gemma 1 and 2");
    for (n = 3 * TFM_WEIGHT_TYPE_F32; n < 3 * TFM_WEIGHT_TYPE_I8 + 3; n++) {
        tfm_tensor logits[2];
        int mapped_maps = 0, maps = 0, has_tiles = 1, gemma = n % 3;
        type = n / 3;
        for (map = 0; map < 2; map++) {
            tfm_model_options o = tiny_options();
            tfm_model *model = NULL;
            tfm_session *s;
            tiny t = tiny_default();
            st_writer w;
            FILE *file = fopen(path, "wb");
            size_t size;
            void *bytes;
            t.dtype = type == TFM_WEIGHT_TYPE_I8 ? TFM_DTYPE_F32 : tfm__types[type].dtype;
            tiny_like_gemma(&t, gemma), t.config = tiny_gemma_configs[gemma];
            tiny_write(&w, t);
            if (type == TFM_WEIGHT_TYPE_I8) tiny_quantize(&w, 0);
            tiny_pack(&w, &t, tfm__types[type].k_group);
            /* Biases are floats, as tools/quantize writes them. */
            for (size = 0; little && size < w.n_entries; size++)
                if (w.entries[size].tensor.rank == 1 &&
                    w.entries[size].tensor.dtype != TFM_DTYPE_F32) {
                    tfm_tensor *b = &w.entries[size].tensor;
                    float *floats = (float *)test_memory((size_t)b->dims[0] * sizeof(float));
                    tfm__widen(floats, (const unsigned char *)b->data, b->dtype, b->dims[0]);
                    *b = tfm_tensor_1d(floats, TFM_DTYPE_F32, b->dims[0]);
                    w.entries[size].bytes = st_bytes(b);
                }
            bytes = tiny_bytes(&w, &size);
            if (!file || fwrite(bytes, 1, size, file) != size || fclose(file)) exit(2);
            o.map = map;
            must(tfm_model_load_file(&model, path, &o, &err));
            if (map) mapped_maps = count_mapped(model, &maps);
            has_tiles = model->kernels->tiles[type] != NULL;
            s = tiny_session(model, 1, 3, 3);
            logits[map] = test_like(tfm_tensor_3d(NULL, TFM_DTYPE_F32, 1, 3, 13));
            must(forward_rows(s, &batch, &batch, NULL, &logits[map], &err));
            tfm_session_free(s), tfm_model_free(model);
        }
        CHECK(test_difference(&logits[0], &logits[1]) == 0, "%s: the bits of one that is read",
              tfm__types[type].name);
#ifdef TRANSFORMER_BLAS
        has_tiles = type == TFM_WEIGHT_TYPE_I8;
#endif
        if (little && has_tiles)
            CHECK(mapped_maps == maps, "  %d of %d linear maps read the mapping", mapped_maps,
                  maps);
    }
    remove(path);
}

enum { PROCESSES = 8, RENAMES = 100, WIDTH = 6, VOCABULARY = 900 };
static const char mapped[] = "build/mapped.safetensors", next_one[] = "build/mapped.next";
/* number of linear maps in the mapping, for each file, copied or in place */
static float expected[2][2][WIDTH * VOCABULARY];

static tfm_model *map_model(int in_place) {
    tfm_model_options o = tiny_options();
    tfm_model *model = NULL;
    o.map = 1, o.in_place = in_place;
    must(tfm_model_load_file(&model, mapped, &o, &err));
    return model;
}

/* Computes the logits of one sentence in a session of its own. */
static void compute(const tfm_model *model, float *out) {
    static const int32_t ids[WIDTH] = {3, 1, 4, 1, 5, 9};
    id_matrix batch = tiny_batch(ids, NULL, 1, WIDTH);
    tfm_tensor logits = tfm_tensor_3d(out, TFM_DTYPE_F32, 1, WIDTH, VOCABULARY);
    tfm_session *s = tiny_session(model, 1, WIDTH, WIDTH);
    must(forward_rows(s, &batch, &batch, NULL, &logits, &err));
    tfm_session_free(s);
}

/* Returns which of the two files a model is from, or -1. */
static int which_file(const tfm_model *model, int in_place) {
    static float out[WIDTH * VOCABULARY];
    compute(model, out);
    if (memcmp(out, expected[0][in_place], sizeof out) == 0) return 0;
    return memcmp(out, expected[1][in_place], sizeof out) == 0 ? 1 : -1;
}

/* Puts file number i at the path as tools do it: writes it beside the path, then renames it. */
static void put_file(int i) {
    static void *bytes[2];
    static size_t sizes[2];
    FILE *file = fopen(next_one, "wb");
    if (!bytes[i]) {
        tiny t = tiny_default();
        st_writer w;
        t.d = 64, t.ff = 128, t.vs = t.vt = VOCABULARY, t.seed = 1 + (unsigned)i;
        tiny_write(&w, t);
        bytes[i] = tiny_bytes(&w, &sizes[i]);
    }
    if (!file || fwrite(bytes[i], 1, sizes[i], file) != sizes[i] || fclose(file) ||
        rename(next_one, mapped)) {
        printf("%s cannot be written\n", mapped);
        exit(2);
    }
}

/* Runs one of the processes. A model that was opened before the first rename must give the first
   file's bits to the end. Models opened meanwhile give one of the two files' bits, and after the
   last rename the last file's. */
static int process(int in_place, int ready, int go) {
    tfm_model *first = map_model(in_place), *later;
    int good = which_file(first, in_place) == 0, i;
    char byte = 0;
    good &= write(ready, &byte, 1) == 1;
    for (i = 0; i < RENAMES / 4; i++) {
        later = map_model(i % 2);
        good &= which_file(later, i % 2) >= 0;
        tfm_model_free(later);
        good &= which_file(first, in_place) == 0;
    }
    good &= read(go, &byte, 1) == 0; /* The parent closes the pipe. */
    later = map_model(in_place);
    good &= which_file(later, in_place) == 1 && which_file(first, in_place) == 0;
    tfm_model_free(later), tfm_model_free(first);
    return good;
}

static void replaced(void) {
    pid_t pids[PROCESSES];
    int ready[2], go[2], i, status, good = 0;
    char byte;
    SECTION("a mapped file that is replaced by rename");
    for (i = 3; i >= 0; i--) {
        tfm_model *model;
        put_file(i / 2);
        model = map_model(i % 2);
        compute(model, expected[i / 2][i % 2]);
        tfm_model_free(model);
    }
    CHECK(memcmp(expected[0], expected[1], sizeof expected[0]) != 0, "two files, two results");
    if (pipe(ready) || pipe(go)) exit(2);
    fflush(stdout);
    for (i = 0; i < PROCESSES; i++) {
        pids[i] = fork();
        if (pids[i]) continue;
        close(go[1]);
        _exit(process(i % 2, ready[1], go[0]) ? 0 : 1);
    }
    close(ready[1]);
    for (i = 0; i < PROCESSES; i++)
        if (read(ready[0], &byte, 1) != 1) printf("    a process did not begin\n");
    for (i = 0; i < RENAMES; i++) put_file(i % 2);
    close(go[1]);
    for (i = 0; i < PROCESSES; i++)
        good += pids[i] > 0 && waitpid(pids[i], &status, 0) == pids[i] && status == 0;
    CHECK(good == PROCESSES, "%d processes kept the bits of their file while %d took its place",
          good, RENAMES);
    close(ready[0]), close(go[0]);
    remove(mapped);
}
#endif

int main(void) {
    where_they_lie();
    overwritten();
#if !defined(TRANSFORMER_MMAP) || defined(TRANSFORMER_NO_STDIO)
    test_skip("mapped files: this system or this build has none");
#else
#ifdef TFM__SYSTEM_CALLS
    huge_pages();
    slow_pages();
#endif
    same_numbers();
    packed();
    faults();
    replaced();
#endif
    return test_done("test_map");
}
