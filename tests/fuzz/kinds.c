/* clang -g -O1 -fsanitize=fuzzer,address,undefined -I. -Itools/common -Itests tests/fuzz/kinds.c
   -lm Asks for the kind of any first bytes, of any name, and of any word of --format. The bytes
   have no byte behind them. Where bytes say a kind, more bytes behind them must say the same. */
#include "fuzz.h"

#include "examples/translate/kinds.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char *bytes = (char *)malloc(size + 1), *name = (char *)malloc(size + 2);
    const kind_entry *kind;
    kind_form form = KIND_OTHER;
    size_t i, letters;
    if (!bytes || !name) abort();
    bytes = (char *)realloc(bytes, size ? size : 1); /* exactly so many */
    if (!bytes) abort();
    if (size) memcpy(bytes, data, size), memcpy(name, data, size);
    name[size] = 0;
    kind = kind_of_start(bytes, size);
    need(!kind || (*kind->name && (kind->form >= KIND_OTHER) == (kind->advice != NULL)));
    for (i = letters = 0; kind && kind->start[i]; i++) letters += kind->start[i] != ' ';
    need(size >= letters); /* there may be no space where a start has one */
    memcpy(name, size ? bytes : "", size), name[size] = ' ';
    if (kind && size) need(kind_of_start(name, size + 1) == kind);
    name[size] = 0;
    kind = kind_of_name(name);
    need(!kind || strchr(name, '.'));
    if (kind_of_word(name, &form)) need(form < KIND_OTHER);
    return free(bytes), free(name), 0;
}
