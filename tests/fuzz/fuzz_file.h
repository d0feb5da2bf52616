/* fuzz_file.h: changes tensors of a model file before it is written. */
#ifndef FUZZ_FILE_H
#define FUZZ_FILE_H

#include "fuzz.h"

#define FUZZ_COUNT(array) ((int)(sizeof array / sizeof *array))

/* Data for tensors: random bytes */
static unsigned char fuzz_bytes[4096];

/* Returns the entry of that name, or NULL. */
static st_entry TEST_UNUSED *fuzz_entry(st_writer *w, const char *name) {
    size_t i;
    for (i = 0; i < w->n_entries; i++)
        if (strcmp(w->entries[i].name, name) == 0) return &w->entries[i];
    return NULL;
}
static void TEST_UNUSED fuzz_drop(st_writer *w, st_entry *e) {
    if (!e) return;
    free(e->name);
    *e = w->entries[--w->n_entries];
}

/* Replaces e's tensor by another, where there are enough data for it. */
static void TEST_UNUSED fuzz_put(st_entry *e, tfm_tensor t) {
    int64_t bytes = st_bytes(&t);
    if (bytes < 0 || bytes > (int64_t)sizeof fuzz_bytes || tfm_dtype_bits(t.dtype) < 8) return;
    e->tensor = t, e->bytes = bytes;
}

/* Gives a weight another type, and moves it to its place in the file's order or leaves it. */
static void TEST_UNUSED fuzz_retype(st_entry *e, tfm_dtype type) {
    tfm_tensor t = e->tensor;
    fuzz_put(e, tfm_tensor_make(fuzz_bytes, type, t.rank, t.dims));
}

#endif
