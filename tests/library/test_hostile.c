/* Hostile inputs: what an untrusted file or text may try. The title of a section says what the
   attack is. Each input has memory of exactly its size, so a sanitizer sees a read past its end.
   Each refusal leaves outputs untouched, leaks nothing, and allocates no block larger than 4 x the
   input and 8 kB (the manual promises 16 kB).

   THE ATTACK                                     WHERE IT IS TESTED
   files of the reader:
   cut short, or shorter than its header says     cut() here; test_files container
   lengths, offsets and products that overflow    offsets(), sizes() here; test_files container
   files of more than 2 and 4 GiB                 sizes() here
   a million members                              many() here; test_files many_tensors
   ranks, shapes without elements, wrong types    shapes() here; test_files container, model_files
   data at odd addresses, big-endian machines     addresses() here; test_model
   reads that fail, files that change meanwhile   test_faults reading
   JSON: deep nesting                             deep() here; test_files container
   JSON: odd numbers, decimal commas              numbers() here; test_locale.sh
   JSON: names that are equal, empty or no text   names() here; test_files container
   models:
   missing, double or unknown tensors             test_files every_tensor, model_files
   heads, layers and languages that do not fit    heads(), many_layers() here
   special ids outside the vocabulary             special_ids() here; test_files model_files
   weights that are NaN or infinite               numbers_of_weights() here; test_model
   ids, lengths and limits of a call              bad_ids() here; test_model limits
   scales of bytes                                scales_of_bytes(), shapes() here
   sources that are not ids                       sources() here
   packed files                                   packed_files() here
   lexical shortlists                             lexicons() here
   no memory, and calls of stdio that fail        test_faults
   text:
   SentencePiece's protobuf                       test_sentencepiece wire, damaged
   its charsmap                                   test_sentencepiece charsmaps
   a megabyte of small pieces                     pieces() here; test_sentencepiece wire
   special tokens that are the same               equal_ids() here; test_sentencepiece wire
   texts without a NUL, of any bytes, of 2 GiB    texts(), large_texts() here; test_text
   vocabularies                                   vocabularies() here; test_files vocabularies
   merges and added tokens of byte-level BPE      byte_bpe() here; test_byte_bpe refused */
#define _DEFAULT_SOURCE /* mmap and all of its flags */
#define TRANSFORMER_IMPLEMENTATION
#include "transformer.h"
#include "tiny.h"
#include <locale.h>
#if defined(__linux__) && SIZE_MAX > UINT32_MAX
#include <sys/mman.h>
#define PAGES_ON_DEMAND
#endif

#define SPACE "\xe2\x96\x81"
#define WORDS "<pad>\n<s>\n</s>\n<unk>\nhello\nworld\na\nb\nc\nd\ne\n"
#define IDS ", \"start\": 1, \"end\": 2, \"src_unk\": 3, \"tgt_unk\": 3"

/* ---- accounting ---- */

static struct {
    int refused;
    double most; /* the largest block of a refused input, as a multiple of the input's size */
    int outside; /* number of refused inputs that took a block over 4 x their size and 8 kB */
} account;
static test_allocator memory = {0, 0, 0, 0, 0, (size_t)1 << 30, 0, 0, 0};
static const tfm_allocator allocator = {test_allocate, test_release, &memory};

static void refused(size_t size, const void *output) {
    account.refused++;
    if (memory.largest > 4 * size + 8192) account.outside++;
    if (size > 8192 && (double)memory.largest / (double)size > account.most)
        account.most = (double)memory.largest / (double)size;
    if (output) printf("output touched on failure\n"), exit(2);
    if (memory.live) printf("%d blocks leaked\n", memory.live), exit(2);
    if (!err.text[0] || strlen(err.text) >= sizeof err.text) printf("no message\n"), exit(2);
}

/* Copies the bytes into memory of exactly their size, at an address of its own. */
static void *exact(const void *data, size_t size) {
    void *copy = malloc(size ? size : 1);
    if (!copy) exit(2);
    if (size) memcpy(copy, data, size);
    return copy;
}

/* Calls tfm_safetensors_open. A file that opens is read and freed. */
static tfm_status open_bytes(const void *data, size_t size) {
    tfm_safetensors *file = NULL;
    void *copy = exact(data, size);
    tfm_status status;
    memory.largest = 0, err.text[0] = 0;
    status = tfm_safetensors_open(&file, copy, size, &allocator, &err);
    if (status != TFM_OK) refused(size, file);
    tfm_safetensors_free(file);
    free(copy);
    return status;
}

/* Makes a header and so many bytes of data. */
static char *file_of(const char *header, size_t n, size_t data_size, size_t *size) {
    char *bytes = (char *)malloc(8 + n + data_size);
    int i;
    if (!bytes) exit(2);
    for (i = 0; i < 8; i++) bytes[i] = (char)((uint64_t)n >> 8 * i & 0xff);
    memcpy(bytes + 8, header, n);
    memset(bytes + 8 + n, 1, data_size);
    *size = 8 + n + data_size;
    return bytes;
}
static tfm_status open_header(const char *header, size_t n, size_t data_size) {
    size_t size;
    char *bytes = file_of(header, n, data_size, &size);
    tfm_status status = open_bytes(bytes, size);
    free(bytes);
    return status;
}
static tfm_status open_text(const char *header, size_t data_size) {
    return open_header(header, strlen(header), data_size);
}

/* Calls tfm_model_load. A model that loads is kept in *out, or freed where out is NULL. */
static tfm_status load_bytes(const void *data, size_t size, tfm_model **kept) {
    tfm_model *model = NULL;
    tfm_model_options o = tiny_options();
    tfm_status status;
    memset(&o, 0, sizeof o);
    o.allocator = &allocator;
    memory.largest = 0, err.text[0] = 0;
    status = tfm_model_load(&model, data, size, &o, &err);
    if (status != TFM_OK) refused(size, model);
    if (kept) *kept = model;
    else tfm_model_free(model);
    return status;
}
static tfm_status load(st_writer *w) {
    size_t size;
    void *data = tiny_bytes(w, &size), *copy = exact(data, size);
    tfm_status status = load_bytes(copy, size, NULL);
    free(copy);
    return status;
}
static tfm_status load_config(const char *config) {
    tiny t = tiny_default();
    st_writer w;
    t.config = config;
    tiny_write(&w, t);
    return load(&w);
}
static st_entry *entry(st_writer *w, const char *name) {
    size_t i;
    for (i = 0; i < w->n_entries; i++)
        if (strcmp(w->entries[i].name, name) == 0) return &w->entries[i];
    printf("no entry %s\n", name);
    exit(2);
}

/* A text that grows, for headers of a million tensors. */
static char *big;
static size_t n_big, room_big;
static void put(const char *text) {
    size_t n = strlen(text);
    if (n_big + n + 1 > room_big) {
        room_big = 2 * (n_big + n + 1);
        big = (char *)realloc(big, room_big);
        if (!big) exit(2);
    }
    memcpy(big + n_big, text, n + 1);
    n_big += n;
}
static void put_many(const char *text, int n) {
    while (n--) put(text);
}

/* Checks that the input in big was refused and took no large block. */
static void bounded(const char *what, tfm_status status) {
    CHECK(status != TFM_OK && account.outside == 0, "%s: %s; a block of %d kB for %d kB", what,
          err.text, (int)(memory.largest >> 10), (int)(n_big >> 10));
}

/* ---- the container ---- */

static void cut(void) {
    tiny t = tiny_default();
    st_writer w;
    size_t size, n, header;
    unsigned char *data;
    int wrong = 0, cuts = 0;
    SECTION("a model cut short");
    t.src = t.tgt = WORDS, t.vt = 11, t.d = 8;
    tiny_write(&w, t);
    data = (unsigned char *)tiny_bytes(&w, &size);
    header = 8 + data[0] + 256 * (size_t)data[1];
    for (n = 0; n < size; n += n < 64 || n + 64 > size ? 1 : n < header ? 13 : 101, cuts++) {
        void *copy = exact(data, n);
        wrong += load_bytes(copy, n, NULL) != TFM_E_FORMAT;
        free(copy);
    }
    CHECK(wrong == 0, "at %d of %d lengths", cuts, (int)size);
}

static void offsets(void) {
    static const struct {
        const char *header;
        int data;
        const char *says; /* NULL: the file must be accepted */
    } rows[] = {
        {"{" TINY_MEMBER("a", "F32", "[1]", "[0,1e3]") "}", 4, "data_offsets of a"},
        {"{" TINY_MEMBER("a", "F32", "[1]", "[0,1.0]") "}", 4, "data_offsets of a"},
        {"{" TINY_MEMBER("a", "F32", "[1]", "[-0,4]") "}", 4, "data_offsets of a"},
        {"{" TINY_MEMBER("a", "F32", "[1]", "[null,4]") "}", 4, "data_offsets of a"},
        {"{" TINY_MEMBER("a", "F32", "[1]", "[\"0\",4]") "}", 4, "data_offsets of a"},
        {"{" TINY_MEMBER("a", "F32", "[1]", "[[0],4]") "}", 4, "data_offsets of a"},
        {"{" TINY_MEMBER("a", "F32", "[1]", "[0,9223372036854775808]") "}", 4, "data_offsets of a"},
        {"{" TINY_MEMBER("a", "F32", "[1]", "[18446744073709551612,0]") "}", 4,
         "data_offsets of a"},
        {"{" TINY_MEMBER("a", "F32", "[1]", "[99999999999999999999999999999999,0]") "}", 4,
         "data_offsets"},
        /* products that overflow to the size of the data */
        {"{" TINY_MEMBER("a", "F32", "[4611686018427387905]", "[0,4]") "}", 4, "'a'"},
        {"{" TINY_MEMBER("a", "F32", "[3037000500,3037000500]", "[0,4]") "}", 4, "'a'"},
        {"{" TINY_MEMBER("a", "U8", "[4294967296,4294967296,1]", "[0,0]") "}", 0,
         "its shape overflows"},
        {"{" TINY_MEMBER("a", "U8", "[9223372036854775807,2]", "[0,0]") "}", 0,
         "its shape overflows"},
        {"{" TINY_MEMBER("a", "U8", "[9223372036854775807]", "[0,0]") "}", 0,
         "elements of U8 in 0 bytes"},
        {"{" TINY_MEMBER("a", "F64", "[288230376151711744]", "[0,0]") "}", 0,
         "elements of F64 in 0 bytes"},
        {"{" TINY_MEMBER("a", "U8", "[9223372036854775807,9223372036854775807,0]", "[0,0]") "}", 0,
         "its shape overflows"},
        {"{" TINY_MEMBER("a", "U8", "[0,9223372036854775807,9223372036854775807]", "[0,0]") "}", 0,
         NULL},
        {"{" TINY_MEMBER("a", "U8", "[1e0]", "[0,1]") "}", 1, "shape"},
        {"{" TINY_MEMBER("a", "U8", "[18446744073709551617]", "[0,1]") "}", 1, "shape"},
        /* sums that overflow */
        {"{" TINY_MEMBER("a", "U8", "[9223372036854775807]",
                         "[0,9223372036854775807]") "," TINY_MEMBER("b", "U8", "[1]",
                                                                    "[9223372036854775807,"
                                                                    "9223372036854775808]") "}",
         1, "elements of U8 in 9223372036854775807 bytes"},
        {"{" TINY_MEMBER("a", "U8", "[1]", "[0,1]") "," TINY_MEMBER(
             "b", "U8", "[9223372036854775807]", "[1,9223372036854775807]") "}",
         1, "elements of U8 in 9223372036854775806 bytes"},
    };
    size_t i;
    SECTION("offsets, products, sums");
    for (i = 0; i < sizeof rows / sizeof *rows; i++) {
        tfm_status status = open_text(rows[i].header, (size_t)rows[i].data);
        if (rows[i].says)
            CHECK(status == TFM_E_FORMAT && strstr(err.text, rows[i].says), "%s", err.text);
        else CHECK(status == TFM_OK, "accepted: %s %s", rows[i].header, err.text);
    }
}

static void shapes(void) {
    static const char *const names[] = {"src_embedding.weight", "encoder.layers.0.norm1.weight",
                                        "decoder.layers.1.linear1.weight"};
    static float zeros[4096];
    tiny t = tiny_default();
    st_writer w;
    size_t i;
    int type, good = 0, named = 1;
    SECTION("ranks");
    n_big = 0;
    put("{\"a\":{\"dtype\":\"F32\",\"shape\":["), put_many("1,", 1000000);
    put("1],\"data_offsets\":[0,4]}}");
    CHECK(open_header(big, n_big, 4) == TFM_E_FORMAT, "a million dimensions: %s", err.text);
    for (i = 0; i < 3; i++) {
        st_entry *e;
        tiny_write(&w, t);
        e = entry(&w, names[i]);
        e->tensor = tfm_tensor_make(zeros, TFM_DTYPE_F32, 0, NULL), e->bytes = 4;
        CHECK_FAILS(load(&w), TFM_E_TENSOR, names[i]);
    }
    SECTION("shapes without elements");
    for (i = 0; i < 3; i++) {
        st_entry *e;
        tiny_write(&w, t);
        e = entry(&w, names[i]);
        e->tensor = tfm_tensor_2d(zeros, TFM_DTYPE_F32, 0, 0), e->bytes = 0;
        CHECK_FAILS(load(&w), TFM_E_TENSOR, names[i]);
    }
    tiny_write(&w, t);
    for (i = 0; i < w.n_entries; i++) {
        tfm_tensor *x = &w.entries[i].tensor;
        *x = x->rank == 2 ? tfm_tensor_2d(zeros, TFM_DTYPE_F32, 0, 0)
                          : tfm_tensor_1d(zeros, TFM_DTYPE_F32, 0);
        w.entries[i].bytes = 0;
    }
    CHECK_FAILS(load(&w), TFM_E_TENSOR, "is [0, 0]: a size out of range");
    for (type = 0; type < 3; type++) {
        t = tiny_default();
        t.encoder = type == 0 ? 0 : 1, t.decoder = type == 1 ? 0 : 1;
        tiny_write(&w, t);
        while (type == 2 && w.n_entries) free(w.entries[--w.n_entries].name);
        CHECK_FAILS(load(&w), TFM_E_TENSOR, "is missing");
    }
    SECTION("element types");
    t = tiny_default();
    for (type = 0; type < TFM_DTYPE_COUNT; type++)
        for (i = 0; i < 3; i++) {
            st_entry *e;
            tfm_status status;
            int64_t bits = tfm__dtypes[type].bits;
            tiny_write(&w, t);
            e = entry(&w, names[i]);
            if (test_count(&e->tensor) * bits % 8 || bits < 8) {
                st_free(&w);
                continue;
            }
            e->tensor = tfm_tensor_make(zeros, (tfm_dtype)type, e->tensor.rank, e->tensor.dims);
            e->bytes = test_count(&e->tensor) * bits / 8;
            status = load(&w);
            if (status == TFM_OK) good++;
            else named &= status == TFM_E_TENSOR && strstr(err.text, names[i]) != NULL;
        }
    CHECK(good == 9 && named,
          "weights may be F32, F16 and BF16; the message names every other type");
    tiny_write(&w, t);
    st_add(&w, "encoder.layers.0.linear1.weight_scale", tfm_tensor_1d(zeros, TFM_DTYPE_F32, 24));
    CHECK_FAILS(load(&w), TFM_E_TENSOR, "linear1.weight_scale' is not part of a model");
}

static void addresses(void) {
    static const char header[] = "{" TINY_MEMBER("a", "U8", "[1]", "[0,1]") "," TINY_MEMBER(
        "b", "I64", "[1]", "[1,9]") "," TINY_MEMBER("c", "F32", "[1]", "[9,13]") "}";
    static const unsigned char data[] = {7, 1, 2, 3, 4, 5, 6, 7, 8, 0, 0, 0x20, 0xC1};
    static char room[1024];
    tfm_safetensors *file = NULL;
    size_t size, k;
    char *bytes = file_of(header, sizeof header - 1, sizeof data, &size);
    int good = 1;
    SECTION("elements at any address, little-endian on any machine");
    memcpy(bytes + size - sizeof data, data, sizeof data);
    for (k = 0; k < 8; k++) {
        int64_t whole = 0;
        float f = 0;
        memcpy(room + k, bytes, size);
        must(tfm_safetensors_open(&file, room + k, size, NULL, &err));
        must(tfm_safetensors_read(file, 1, TFM_DTYPE_I64, &whole, &err));
        must(tfm_safetensors_read(file, 2, TFM_DTYPE_F32, &f, &err));
        good &= whole == 0x0807060504030201 && f == -10.0f;
        tfm_safetensors_free(file);
    }
    CHECK(good, "an I64 and an F32 at eight addresses");
    free(bytes);
}

/* Makes a header of that member n times, with a number in each name. */
static void put_named(const char *member, int n) {
    char named[128];
    int i;
    n_big = 0;
    put("{");
    for (i = 0; i < n; i++) {
        if (i) put(",");
        snprintf(named, sizeof named, member, i);
        put(named);
    }
    put("}");
}

static void many(void) {
    tfm_safetensors *file = NULL;
    size_t size;
    char *bytes, name[128];
    int i, found = 1;
    SECTION("a million members");
    put_named(TINY_MEMBER("%d", "F32", "[1]", "[0,4]"), 100000);
    CHECK(open_header(big, n_big, 4) == TFM_E_FORMAT, "100,000 names for four bytes: %s", err.text);
    put_named(TINY_MEMBER("%d", "U8", "[0]", "[0,0]"), 1000000);
    bytes = file_of(big, n_big, 0, &size);
    memory.largest = 0;
    must(tfm_safetensors_open(&file, bytes, size, &allocator, &err));
    CHECK(memory.largest < 4 * size, "a million empty tensors, %d MB: the largest block has %d MB",
          (int)(size >> 20), (int)(memory.largest >> 20));
    for (i = 0; i < 100000; i++) {
        int64_t at;
        snprintf(name, sizeof name, "%d", i * 10);
        at = tfm_safetensors_find(file, name);
        found &= at >= 0 && strcmp(tfm_safetensors_name(file, at), name) == 0;
    }
    CHECK(found && tfm_safetensors_find(file, "1000000") == -1,
          "100,000 tensors are found by name");
    tfm_safetensors_free(file);
    free(bytes);
    n_big = 0;
    put("{"), put_many("\"\":0,", 1000000), put("\"\":0}");
    bounded("a million members that are no tensors", open_header(big, n_big, 0));
    n_big = 0;
    put("{\"__metadata__\":{"), put_many("\"\":\"\",", 1000000), put("\"\":\"\"}}");
    bounded("a million members of metadata", open_header(big, n_big, 0));
}

/* Sizes beyond any memory are refused before a byte beyond the header is read. A file over 4 GiB is
   read at its end; only its touched pages exist. */
static void sizes(void) {
    static const char header[] = "{" TINY_MEMBER("a", "U8", "[1]", "[0,1]") "}";
    size_t size;
    char *bytes = file_of(header, sizeof header - 1, 1, &size);
    tfm_safetensors *file = NULL;
    tfm_model *model = NULL;
    SECTION("files of more than 2 and 4 GiB");
    CHECK_FAILS(tfm_safetensors_open(&file, bytes, (size_t)1 << 31, NULL, &err), TFM_E_FORMAT,
                "bytes follow the last tensor");
    CHECK_FAILS(tfm_safetensors_open(&file, bytes, SIZE_MAX / 2, NULL, &err), TFM_E_FORMAT,
                "bytes follow the last tensor");
#if SIZE_MAX > UINT32_MAX
    CHECK_FAILS(tfm_safetensors_open(&file, bytes, SIZE_MAX, NULL, &err), TFM_E_OVERFLOW,
                "size is beyond 2^63");
    CHECK_FAILS(tfm_model_load(&model, bytes, SIZE_MAX, NULL, &err), TFM_E_OVERFLOW,
                "size is beyond 2^63");
#endif
    CHECK(!file && !model, "outputs untouched");
    free(bytes);
#ifdef PAGES_ON_DEMAND
    {
        static const char large[] =
            "{" TINY_MEMBER("a", "U8", "[5,1073741824]", "[0,5368709120]") "," TINY_MEMBER(
                "b", "F32", "[2]", "[5368709120,5368709128]") "}";
        static const unsigned char ten[] = {0, 0, 0x20, 0x41};
        int64_t data = 5368709128;
        float got[2] = {-1, -1};
        void *map;
        bytes = file_of(large, sizeof large - 1, 0, &size);
        map = mmap(NULL, size + (size_t)data, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (map == MAP_FAILED) {
            test_skip("a file of 5 GiB: too few addresses for it");
        } else {
            memcpy(map, bytes, size);
            memcpy((char *)map + size + data - 4, ten, 4);
            must(tfm_safetensors_open(&file, map, size + (size_t)data, NULL, &err));
            must(tfm_safetensors_read(file, 1, TFM_DTYPE_F32, got, &err));
            CHECK(tfm_safetensors_find(file, "b") == 1 && got[0] == 0 && got[1] == 10 &&
                      tfm_safetensors_tensor(file, 0).dims[1] == 1073741824 &&
                      (char *)tfm_safetensors_tensor(file, 1).data ==
                          (char *)map + size + 5368709120,
                  "two floats behind 5 GiB");
            tfm_safetensors_free(file), file = NULL;
            CHECK_FAILS(tfm_safetensors_open(&file, map, size + (size_t)data - 1, NULL, &err),
                        TFM_E_FORMAT,
                        "the file is cut short: 5368709279 bytes, the header promises 5368709280");
            munmap(map, size + (size_t)data);
        }
        free(bytes);
    }
#else
    test_skip("a file of 5 GiB: this system cannot map it");
#endif
}

/* ---- JSON ---- */

static void deep(void) {
    static const char *const begins[] = {
        "{\"__metadata__\":{\"k\":", "{\"a\":{\"x\":", "{\"__metadata__\":", "{\"x\":", ""};
    static const char *const brackets[] = {"[", "{\"a\":", "[{\"a\":"};
    char config[2048];
    int i, k;
    SECTION("nesting");
    for (i = 0; i < 5; i++)
        for (k = 0; k < 3; k++) {
            n_big = 0;
            put(begins[i]), put_many(brackets[k], 1000000);
            CHECK(open_header(big, n_big, 0) == TFM_E_FORMAT, "a million '%s' behind '%s': %.60s",
                  brackets[k], begins[i], err.text);
        }
    for (i = 0; i < 2;
         i++) { /* brackets that are closed again, at the limit of 64 and just beyond it */
        n_big = 0;
        put("{\"a\":{\"x\":"), put_many("[", i ? 64 : 62), put_many("]", i ? 64 : 62);
        put(",\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]}}");
        CHECK((open_header(big, n_big, 0) == TFM_OK) == !i, "%d brackets: %s", i ? 64 : 62,
              i ? err.text : "accepted");
    }
    memset(config, '[', 400);
    memcpy(config, ", \"norm\": ", 10), config[400] = 0;
    CHECK_FAILS(load_config(config), TFM_E_CONFIG, "malformed JSON");
}

/* Parses the text as a number. Returns 0 where it is no number, has too many digits, or exceeds the
   range of double. */
static int number_of(const char *text, double *value) {
    size_t n = strlen(text);
    char *copy = (char *)exact(text, n); /* a buffer without a NUL behind the text */
    tfm__json_decimal number;
    tfm__json j;
    double read;
    int good;
    j.begin = j.at = copy, j.end = copy + n;
    good = tfm__json_number(&j, &number) && j.at == j.end;
    free(copy);
    if (!good || number.n_digits > TFM__EXACT_DIGITS) return 0;
    read = tfm__json_to_double(&number);
    if (read == HUGE_VAL) return 0;
    *value = read;
    return 1;
}

/* Parses the text as an integer from 0 on. Returns 0 where it is none. */
static int integer_of(const char *text, int64_t *value) {
    tfm__json j;
    j.begin = j.at = text, j.end = text + strlen(text);
    return tfm__json_int64(&j, value) && j.at == j.end;
}

/* Compares random doubles with the C library's strtod in the C locale. They are written as Python's
   json writes them, in the shortest form, and with 17 to 19 digits. Every exponent occurs;
   exponents that configs use occur more often. -DNUMBERS=1000000 draws more of them. */
#ifndef NUMBERS
#define NUMBERS 200000
#endif
static void random_numbers(void) {
    unsigned seed = 1;
    int i, digits, wrong = 0, tried = 0;
    char text[64];
    double value, read;
    for (i = 0; i < NUMBERS; i++) {
        uint64_t bits = (uint64_t)tiny_random(&seed) << 40 ^ (uint64_t)tiny_random(&seed) << 20 ^
                        tiny_random(&seed);
        if (i % 16) bits = (bits & ~((uint64_t)0x7FF << 52)) | (1023 - 50 + bits % 101) << 52;
        memcpy(&value, &bits, 8);
        if (!(value - value == 0)) continue;
        for (digits = 15; digits < 18; digits++) {
            snprintf(text, sizeof text, "%.*g", digits, value);
            if (digits < 17 && strtod(text, NULL) != value) continue;
            wrong += !number_of(text, &read) || memcmp(&read, &value, sizeof value) != 0;
            tried++;
            if (digits < 17) digits = 16; /* first the shortest form, then 17 digits */
        }
        if (i % 16 > 1) continue;
        snprintf(text, sizeof text, "%.*e", i / 16 % 19, value);
        value = strtod(text, NULL);
        read = -1;
        wrong += number_of(text, &read) != (value < HUGE_VAL && value > -HUGE_VAL);
        wrong += read != value && read != -1;
        tried++;
    }
    CHECK(wrong == 0 && tried > NUMBERS, "%d random numbers to the bit, %d not", tried - wrong,
          wrong);
}

/* Returns whether the system has a locale with a decimal comma. */
static int numbers(void) {
    static const char *const locales[] = {"de_DE.UTF-8", "de_DE.utf8", "de_DE",
                                          "fr_FR.UTF-8", "fr_FR.utf8", "German_Germany"};
    static const struct {
        const char *text;
        double value; /* the compiler's own conversion of the constant */
    } rows[] = {{"1.5", 1.5},
                {"0.25e1", 2.5},
                {"-12.5E-1", -1.25},
                {"1234567890123456789", 1234567890123456789.},
                {"9.999999747378752e-06", 9.999999747378752e-06},
                {"9999999999999999999e11", 9999999999999999999e11},
                {"1e-30", 1e-30},
                {"0.1", 0.1},
                {"1E+2", 100},
                {"0.000000000000000000000000000000000000000000000000000000000001e60", 1},
                {"9007199254740993", 9007199254740992.},
                {"9007199254740992.999", 9007199254740992.},
                {"9007199254740993.001", 9007199254740994.},
                {"1.7976931348623158e308", 1.7976931348623157e308},
                {"2.2250738585072011e-308", 2.2250738585072011e-308},
                {"4.9406564584124654e-324", 4.9406564584124654e-324},
                {"2.4703282292062328e-324", 4.9406564584124654e-324},
                {"2.4703282292062327e-324", 0},
                {"1e-329", 0},
                {"1e-400", 0},
                {"1e-99999999999999999999", 0},
                {"0e99999999999999999999", 0},
                {"0.000e5", 0}};
    static const char *const none[] = {"",
                                       "-",
                                       "+1",
                                       "01",
                                       "1.",
                                       ".5",
                                       "1e",
                                       "1e+",
                                       "0x1",
                                       "1,5",
                                       "NaN",
                                       "1e400",
                                       "-1e309",
                                       "1.7976931348623159e308",
                                       "1e99999999999999999999",
                                       "12345678901234567890",
                                       "0.00012345678901234567890"};
    double value;
    int64_t whole;
    int i, comma = 0;
    SECTION("numbers, whatever the locale");
    random_numbers();
    for (i = 0; i < 6 && !comma; i++)
        comma = setlocale(LC_ALL, locales[i]) && localeconv()->decimal_point[0] == ',';
    if (test_loud()) printf("    the decimal point is a %s\n", comma ? "comma" : "point");
    for (i = 0; i < (int)(sizeof rows / sizeof *rows); i++) {
        value = -1;
        CHECK(number_of(rows[i].text, &value) && memcmp(&value, &rows[i].value, sizeof value) == 0,
              "%s", rows[i].text);
    }
    {
        tfm__json j;
        j.begin = j.at = j.end = "";
        CHECK(!tfm__json_int64(&j, &whole) && tfm__json_value(&j, 0) < 0,
              "an empty text is not a number");
    }
    CHECK(number_of("-0.0", &value) && value == 0 && 1 / value < 0, "-0.0");
    for (i = 0; i < (int)(sizeof none / sizeof *none); i++)
        CHECK(!number_of(none[i], &value), "'%s' is not a number", none[i]);
    CHECK(integer_of("9223372036854775807", &whole) && whole == INT64_MAX, "the largest integer");
    CHECK(!integer_of("9223372036854775808", &whole) && !integer_of("1e1", &whole) &&
              !integer_of("1.0", &whole) && !integer_of("-1", &whole),
          "one more, an exponent, a fraction, a sign");
    CHECK(load_config(", \"embedding_scale\": 1.5, \"layer_norm_eps\": 1.0E-6") == TFM_OK, "%s",
          err.text);
    CHECK_FAILS(load_config(", \"embedding_scale\": 1,5"), TFM_E_CONFIG, "malformed JSON");
    CHECK_FAILS(load_config(", \"embedding_scale\": NaN"), TFM_E_CONFIG, "malformed JSON");
    CHECK_FAILS(load_config(", \"embedding_scale\": 1e400"), TFM_E_CONFIG, "embedding_scale");
    CHECK_FAILS(load_config(", \"embedding_scale\": 0.12345678901234567890"), TFM_E_CONFIG,
                "'embedding_scale' has 20 digits, at most 19");
    CHECK_FAILS(load_config(", \"embedding_scale\": 0x10"), TFM_E_CONFIG, "malformed JSON");
    CHECK_FAILS(load_config(", \"layer_norm_eps\": 1e-400"), TFM_E_CONFIG, "must be more than 0");
    setlocale(LC_ALL, "C");
    return comma;
}

static void names(void) {
    static const char header[] = "{" TINY_MEMBER("", "U8", "[0]", "[0,0]") "," TINY_MEMBER(
        "a", "U8", "[1]",
        "[0,1]") "," TINY_MEMBER("ab", "U8", "[1]",
                                 "[1,2]") "," TINY_MEMBER("a.b", "U8", "[1]",
                                                          "[2,3]") "," TINY_MEMBER("b", "U8", "[1]",
                                                                                   "[3,4]") "}";
    static const char *const all[] = {"", "a", "ab", "a.b", "b"}, *const none[] = {"A", "a.", "abc",
                                                                                   " ", "a b"};
    static const char *const values[] = {"1", "null", "true", "[]", "{}", "\"a"};
    tfm_safetensors *file = NULL;
    size_t size;
    char *bytes = file_of(header, sizeof header - 1, 4, &size), text[128];
    int i, good = 1;
    SECTION("names with a common beginning, and an empty name");
    must(tfm_safetensors_open(&file, bytes, size, NULL, &err));
    for (i = 0; i < 5; i++) {
        good &= tfm_safetensors_find(file, all[i]) == i;
        good &= tfm_safetensors_find(file, none[i]) == -1;
    }
    CHECK(good, "each name is found, and nothing else");
    tfm_safetensors_free(file);
    free(bytes);
    SECTION("values that are no strings");
    for (i = 0; i < 6; i++) {
        snprintf(text, sizeof text, "{\"__metadata__\":{\"k\":%s}}", values[i]);
        CHECK_FAILS(open_text(text, 0), TFM_E_FORMAT, i == 5 ? "malformed" : "not a string of k");
        snprintf(text, sizeof text,
                 "{\"a\":{\"x\":%s,\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]}}",
                 values[i]);
        CHECK((open_text(text, 0) == TFM_OK) == (i < 5), "an unknown field may hold %s", values[i]);
    }
}

/* ---- the contents of a model ---- */

/* Makes the largest number of languages and one more, with numbers as ids and codes. */
static void many_languages(void) {
    int i, k;
    SECTION("languages");
    for (k = 4096; k < 4098; k++) {
        tiny t = tiny_default();
        st_writer w;
        char one[32];
        n_big = 0;
        put("{\"n_heads\": 2, \"languages\": {\"x\": 0");
        for (i = 1; i < k; i++) snprintf(one, sizeof one, ",\"%x\":1", i), put(one);
        put("}, \"src_language\": \"source\"}");
        tiny_write(&w, t);
        free(w.pairs[0].value);
        w.pairs[0].value = st_copy(big);
        CHECK(load(&w) == (k == 4096 ? TFM_OK : TFM_E_CONFIG), "%d: %s", k, err.text);
    }
}

static void heads(void) {
    static const char *const bad[] = {"-1",   "1.5", "2147483647", "2147483648", "\"2\"",
                                      "null", "[2]", "1e1",        "13",         "7"};
    char config[64];
    size_t i;
    SECTION("heads");
    for (i = 0; i < sizeof bad / sizeof *bad; i++) {
        tiny t = tiny_default();
        st_writer w;
        tiny_write(&w, t);
        snprintf(config, sizeof config, "{\"n_heads\": %s}", bad[i]);
        free(w.pairs[0].value);
        w.pairs[0].value = st_copy(config);
        CHECK(load(&w) != TFM_OK && (strstr(err.text, "n_heads") || strstr(err.text, "heads")),
              "%s: %s", bad[i], err.text);
    }
}

/* Adds a tensor of zeros to the layer "encoder.layers.3.". */
static void add_part(st_writer *w, const char *stack, int layer, const char *part, int64_t d0,
                     int64_t d1) {
    static float zeros[4096];
    char name[64];
    snprintf(name, sizeof name, "%s.layers.%d.%s", stack, layer, part);
    st_add(w, name,
           d1 ? tfm_tensor_2d(zeros, TFM_DTYPE_F32, d0, d1)
              : tfm_tensor_1d(zeros, TFM_DTYPE_F32, d0));
}

/* Tests 2,000 layers and a fault after them. In the file each layer has only one name; or all names
   lack numbers; or each layer has every tensor that it needs, and is a hundred times smaller in the
   file than in memory. */
static void many_layers(void) {
    static const char *const stacks[] = {"encoder", "decoder"};
    static const char *const says[] = {
        ".layers.2.", ".layers.2.self_attn.", ".layers.1999.linear2.weight' is [1, 2]",
        "surplus' is not part of a model", "'start' is 13, the vocabulary has 13 tokens"};
    int i, k, kind;
    SECTION("thousands of layers");
    for (k = 0; k < 10; k++) {
        const char *stack = stacks[k % 2];
        tiny t = tiny_default();
        st_writer w;
        kind = k / 2;
        t.d = 1, t.heads = 1, t.key = t.value = 1, t.ff = 1, t.without = "out_proj bias norm";
        t.packed = 1;
        if (kind == 4) t.config = ", \"start\": 13";
        tiny_write(&w, t);
        for (i = 2; i < 2000; i++) {
            int64_t one = kind > 1;
            if (kind == 0) add_part(&w, stack, i, "", 1, 0);
            if (kind == 0) continue;
            add_part(&w, stack, i, "self_attn.in_proj_weight", 3 * one, 1);
            add_part(&w, stack, i, "linear1.weight", one, 1);
            add_part(&w, stack, i, "linear2.weight", one, kind == 2 && i == 1999 ? 2 : 1);
            if (k % 2) add_part(&w, stack, i, "multihead_attn.in_proj_weight", 3 * one, 1);
        }
        if (kind == 3) add_part(&w, stack, 0, "surplus", 1, 0);
        CHECK(load(&w) != TFM_OK && strstr(err.text, says[kind]) && account.outside == 0,
              "%s: %s; the largest block has %d kB", stack, err.text, (int)(memory.largest >> 10));
    }
}

/* Tests tables of relative positions, and gates whose other matrices are missing. */
static void t5(void) {
    static const int64_t shapes[][2] = {{INT64_C(1) << 31, 0}, {9, 3}, {3, 2}, {1, 2}, {0, 2}};
    static float zeros[64];
    static uint16_t halves[20000];
    static const char *const stacks[] = {"encoder.relative_positions.weight",
                                         "decoder.relative_positions.weight"};
    tiny t = tiny_default();
    st_writer w;
    size_t i;
    SECTION("relative positions and gates");
    t.t5 = 1;
    for (i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        st_entry *e;
        tiny_write(&w, t);
        e = entry(&w, stacks[i % 2]);
        e->tensor = tfm_tensor_2d(zeros, TFM_DTYPE_F32, shapes[i][0], shapes[i][1]);
        e->bytes = st_bytes(&e->tensor);
        CHECK(load(&w) != TFM_OK && strstr(err.text, "relative_positions"), "%s", err.text);
    }
    t.without = "0.linear1.weight";
    tiny_write(&w, t);
    CHECK_FAILS(load(&w), TFM_E_TENSOR, "layers.0.linear1.weight' is missing");
    t.without = NULL, t.config = ", \"relative_max_distance\": 0";
    tiny_write(&w, t);
    CHECK_FAILS(load(&w), TFM_E_TENSOR, "9 buckets of both directions up to a distance of 0");
    /* A table must be converted to floats for a stack of many layers. */
    t.config = ", \"relative_max_distance\": 10000", t.dtype = TFM_DTYPE_F16,
    t.encoder = t.decoder = 30;
    tiny_write(&w, t);
    for (i = 0; i < 2; i++) {
        entry(&w, stacks[i])->tensor = tfm_tensor_2d(halves, TFM_DTYPE_F16, 10000, 2);
        entry(&w, stacks[i])->bytes = sizeof halves;
    }
    memory.bytes = 0;
    must(load(&w));
    CHECK(memory.bytes < 60 * sizeof halves, "60 layers share two tables of floats: %d kB in all",
          (int)(memory.bytes >> 10));
}

/* Tests faulty files of models whose sources are vectors: tensors that are missing, do not fit, or
   are superfluous. */
static void sources(void) {
    static const struct {
        const char *without, *config, *name;
        int64_t d0, d1; /* the tensor that changes, and its new shape; 0: unchanged */
        const char *says;
    } rows[] = {
        {"src_embedding tgt_embedding", "", NULL, 0, 0, "'src_embedding.weight' is missing"},
        {"encoder.", "", NULL, 0, 0, "'encoder.layers.0.linear1.weight' is missing"},
        {"src_embedding encoder.layers", "", "encoder.norm.weight", 20, 0,
         "'encoder.layers.0.linear1.weight' is missing"},
        {"src_ encoder.", "", "src_projection.weight", 20, 9, "not part of a model"},
        {"src_ encoder.", "", "src_embedding_norm.weight", 20, 0, "not part of a model"},
        {"src_ encoder.", "", "src_vocabulary", 7, 0, "src_vocabulary"},
        {"src_ encoder.", ", \"src_pad\": 0", NULL, 0, 0, "'src_pad' is 0"},
        {"src_ encoder.", ", \"d_memory\": 21", NULL, 0, 0, "'d_memory' is 21, the tensors say 20"},
        {"src_ encoder.", ", \"d_input\": 20", NULL, 0, 0, "'d_input' is 20, the tensors say 0"},
        {"src_ encoder.", "", "decoder.layers.1.multihead_attn.k_proj.weight", 12, 21,
         "decoder.layers.1.multihead_attn.k_proj.weight' is [12, 21], expected [12, 20]"},
        {"src_ encoder.", "", "decoder.layers.0.multihead_attn.v_proj.weight", 10, 21,
         "decoder.layers.0.multihead_attn.v_proj.weight' is [10, 21], expected [10, 20]"},
        {"src_ encoder.", "", "decoder.layers.0.self_attn.k_proj.weight", 12, 21,
         "decoder.layers.0.self_attn.k_proj.weight' is [12, 21], expected [12, 20]"},
        {"", "", "decoder.layers.0.multihead_attn.k_proj.weight", 12, 21,
         "decoder.layers.0.multihead_attn.k_proj.weight' is [12, 21], expected [12, 20]"},
        {"", "", "src_projection.weight", 21, 9, "'src_projection.weight' is [21, 9]"},
        {"", "", "src_projection.weight", 20, 0, "'src_projection.weight'"},
        {"src_embedding", ", \"d_input\": 8", "src_projection.weight", 20, 9, "'d_input' is 8"},
        {"src_embedding", "", "src_projection.bias", 20, 0, "not part of a model"},
        {"src_ tgt_positions", ", \"positions\": \"learned\"", NULL, 0, 0,
         "'tgt_positions.weight' is missing"},
        {"src_embedding", ", \"positions\": \"learned\", \"position_offset\": 3",
         "tgt_positions.weight", 3, 20, "'tgt_positions.weight' is [3, 20], but position_offset"}};
    static const char *const packed[][2] = {
        {", \"d_memory\": 2147483647", "expected [1, 2147483647, 16, 1]"},
        {", \"d_input\": 2147483647", "expected [2, 2147483647, 16, 1]"},
        {", \"d_memory\": 2147483648", "'d_memory'"},
        {", \"d_input\": -31", "'d_input'"},
        {"", "'decoder.layers.0.multihead_attn.k_proj.weight' is [1, 27, 16, 1]"},
        {"", "'src_projection.weight' is [2, 31, 16, 1], expected [2, 20, 16, 1]"}};
    static float zeros[512];
    size_t i;
    SECTION("sources that are not ids");
    for (i = 0; i < sizeof rows / sizeof *rows; i++) {
        tiny t = tiny_default();
        tfm_tensor made = tfm_tensor_2d(zeros, TFM_DTYPE_F32, rows[i].d0, rows[i].d1);
        char config[128];
        st_entry *e = NULL;
        st_writer w;
        size_t k;
        snprintf(config, sizeof config, ", \"start\": 1, \"end\": 2%s", rows[i].config);
        t.without = rows[i].without, t.config = config;
        tiny_write(&w, t);
        if (!rows[i].d1) made = tfm_tensor_1d(zeros, TFM_DTYPE_F32, rows[i].d0);
        for (k = 0; rows[i].name && k < w.n_entries; k++)
            if (strcmp(w.entries[k].name, rows[i].name) == 0) e = &w.entries[k];
        if (e) e->tensor = made, e->bytes = st_bytes(&made);
        else if (rows[i].name) st_add(&w, rows[i].name, made);
        CHECK(load(&w) != TFM_OK && strstr(err.text, rows[i].says), "%s", err.text);
    }
    /* A packed file states the sizes that its padded panels do not show. */
    for (i = 0; i < sizeof packed / sizeof *packed; i++) {
        tiny t = tiny_default();
        char config[128];
        st_writer w;
        snprintf(config, sizeof config, ", \"start\": 1, \"end\": 2%s", packed[i][0]);
        t.without = i % 2 ? "src_embedding" : "src_ encoder.", t.config = config, t.vs = 0;
        if (i % 2) t.input = 31;
        else t.memory = 27;
        tiny_write(&w, t), tiny_pack(&w, &t, 1);
        CHECK(load(&w) != TFM_OK && strstr(err.text, packed[i][1]), "%s", err.text);
    }
}

static void special_ids(void) {
    static const char *const fields[] = {"src_pad", "tgt_pad", "src_unk", "tgt_unk", "src_start",
                                         "src_end", "start",   "end",     "forced"};
    static const char *const bad[] = {"13",          "14",  "2147483647", "4294967296", "-1",
                                      "-2147483648", "1.0", "\"1\"",      "true"};
    char config[128];
    size_t i, k;
    int wrong = 0;
    SECTION("ids outside the vocabulary");
    for (i = 0; i < sizeof fields / sizeof *fields; i++)
        for (k = 0; k < sizeof bad / sizeof *bad; k++) {
            snprintf(config, sizeof config, ", \"%s\": %s", fields[i], bad[k]);
            wrong += load_config(config) != TFM_E_CONFIG || !strstr(err.text, fields[i]);
        }
    CHECK(wrong == 0, "%d fields with %d values each: refused, and named", (int)i, (int)k);
    for (k = 0; k < sizeof bad / sizeof *bad; k++) {
        snprintf(config, sizeof config, ", \"suppressed\": [0, %s]", bad[k]);
        wrong += load_config(config) != TFM_E_CONFIG || !strstr(err.text, "suppressed");
        snprintf(config, sizeof config, ", \"position_offset\": %s", bad[k]);
        if (k > 3) wrong += load_config(config) != TFM_E_CONFIG;
    }
    CHECK(wrong == 0, "a list of ids, and an offset");
}

static void decoding(void) {
    static const struct {
        const char *value, *says;
    } rows[] = {
        {"[]", "'decoding' is not an object"},
        {"3", "'decoding' is not an object"},
        {"{\"n_best\": 2}", "decoding: n_best is 2, expected 0 to 1: a beam of 1"},
        {"{\"edit_logits\": 2}", "decoding: 'edit_logits' is not a known field"},
        {"{\"samples\": 2, \"beam\": 2}", "decoding: samples, and a beam or alternatives"},
        {"{\"samples\": 2, \"prefix_bias\": 0.5}", "decoding: prefix_bias needs beam search"},
        {"{\"top_p\": 2}", "decoding: top_p is out of range: it takes 0 to 1"},
        {"{\"attention_layer\": 99}", "decoding: attention_layer is out of range"},
        {"{\"attention_head\": 99}", "decoding: attention_head is out of range"},
        {"{\"lexical_shortlist\": 1}", "decoding: lexical_shortlist: the model has no tensors"},
        {"{\"end_ids\": [0, 13]}", "'end_ids' has 13, the vocabulary has 13 tokens"},
        {"{\"end_ids\": 3}", "'end_ids' is not a list"},
        {"{\"shortlist\": [13]}", "'shortlist' has 13, the vocabulary has 13 tokens"},
        {"{\"\": 2}", "decoding: '' is not a known field"},
        {"{\"beam\": 2, \"beam\": 2}", "decoding: 'beam' is a duplicate key"},
        {"{\"suppressed\": [], \"suppressed\": []}", "decoding: 'suppressed' is a duplicate key"},
        {"{\"suppressed\": [], \"forbidden\": []}", "decoding: 'forbidden' is a duplicate key"},
        {"{\"beam\": -1}", "'beam' is not an integer"},
        {"{\"beam\": 2147483648}", "'beam' is not an integer"},
        {"{\"beam\": \"4\"}", "'beam' is not an integer"},
        {"{\"length_penalty\": 101}", "decoding: length_penalty is out of range"},
        {"{\"length_penalty\": null}", "'length_penalty' is not a number"},
        {"{\"length_penalty\": 1e400}", "'length_penalty' is not between"},
        {"{\"patience\": -1}", "decoding: patience is out of range"},
        {"{\"repetition_penalty\": -0.5}", "decoding: repetition_penalty is out of range"},
        {"{\"stop\": \"soon\"}",
         "'stop' is 'soon', expected ctranslate2|early_never|early_true|early_false"},
        {"{\"stop\": 1}", "'stop' is not one of"},
        {"{\"repetition\": \"\"}", "'repetition' is '', expected target|hugging_face"},
        {"{\"force_end\": 2}", "decoding: force_end is out of range: it takes 0 to 1"},
        {"{\"force_end\": true}", "'force_end' is not an integer"},
        {"{\"min_length\": 6, \"max_length\": 5}", "decoding: min_length is 6, max_length 5"},
        {"{\"max_length\": 21}", "decoding: max_length is 21, there are positions for 20"},
        {"{\"min_length\": 20}", "decoding: min_length is 20, there are positions for 20"},
        {"{\"suppressed\": [0, 13]}", "'suppressed' has 13, the vocabulary has 13 tokens"},
        {"{\"suppressed\": {}}", "'suppressed' is not a list"},
        {"{\"suppressed\": [[0]]}", "'suppressed' is not a list of ids"},
        {"{\"suppressed_sequences\": [[2147483647]]}", "'suppressed_sequences' has 2147483647"},
        {"{\"suppressed_sequences\": [1]}", "is not a list of lists of ids"},
        {"{\"suppressed_sequences\": [[1], []]}", "is not a list of lists of ids"},
        {"{\"suppressed_sequences\": [[1, -1]]}", "is not a list of lists of ids"},
        {"{\"suppressed_sequences\": [[1, [1]]]}", "is not a list of lists of ids"},
        {"{\"suppressed_sequences\": 1}", "'suppressed_sequences' is not a list"},
    };
    static const char *const good[] = {"{}",
                                       "{\"suppressed\": [], \"suppressed_sequences\": []}",
                                       "{\"forbidden\": [2], \"forbidden_sequences\": [[1, 2]], "
                                       "\"stop\": \"likely\"}", /* to 0.6.0 */
                                       "{\"beam\": 4, \"length_penalty\": -0.6, \"max_length\": "
                                       "20, \"min_length\": 19}",
                                       " { \"suppressed_sequences\" : [ [ 1 , 2 ] , [ 3 ] ] , "
                                       "\"stop\" : \"early_never\" } ",
                                       "{\"end_ids\": [], \"samples\": 2147483647}"};
    static char config[1 << 16];
    size_t i, n;
    SECTION("decoding defaults");
    for (i = 0; i < sizeof rows / sizeof *rows + sizeof good / sizeof *good; i++) {
        const char *says = i < sizeof rows / sizeof *rows ? rows[i].says : NULL;
        const char *value = says ? rows[i].value : good[i - sizeof rows / sizeof *rows];
        tiny t = tiny_default();
        st_writer w;
        snprintf(config, sizeof config, ", \"positions\": \"learned\", \"decoding\": %s", value);
        t.config = config, t.src_positions = 20;
        tiny_write(&w, t);
        if (says) CHECK_FAILS(load(&w), TFM_E_CONFIG, says);
        else CHECK(load(&w) == TFM_OK, "%s %s", value, err.text);
    }
    /* One long list among short ones: memory stays in proportion to the text. */
    n = (size_t)snprintf(config, sizeof config, ", \"decoding\": {\"suppressed_sequences\": [[1");
    for (i = 0; i < 2000; i++) n += (size_t)snprintf(config + n, sizeof config - n, ",1");
    n += (size_t)snprintf(config + n, sizeof config - n, "]");
    for (i = 0; i < 2000; i++) n += (size_t)snprintf(config + n, sizeof config - n, ",[1]");
    snprintf(config + n, sizeof config - n, "]}");
    CHECK(load_config(config) == TFM_OK, "lists of 2001 ids and of 1 id: %s", err.text);
}

/* Tests lexical shortlists for 11 source ids and 13 target ids. */
static void lexicons(void) {
    static const struct {
        uint32_t offsets[12], ids[4];
        int64_t n_offsets, n_ids; /* -1: the tensor is missing */
        tfm_dtype type;
        const char *first, *says; /* NULL: the file must be accepted */
    } rows[] = {
        {{0, 1, 1, 2, 4, 4, 4, 4, 4, 4, 4, 4}, {0, 12, 3, 3}, 12, 4, TFM_DTYPE_U32, "13", NULL},
        {{0}, {0}, 12, 0, TFM_DTYPE_U32, "0", NULL},
        {{0, 1, 1, 2, 4, 4, 4, 4, 4, 4, 4, 4},
         {0, 13, 3, 3},
         12,
         4,
         TFM_DTYPE_U32,
         "0",
         "'shortlist.ids': element 1 is 13, expected 0 to 12"},
        {{0, 1, 1, 2, 4, 4, 4, 4, 4, 4, 4, 4},
         {0, 1, 3, 0xFFFFFFFF},
         12,
         4,
         TFM_DTYPE_U32,
         "0",
         "'shortlist.ids': element 3 is 4294967295, expected 0 to 12"},
        {{1, 1, 1, 2, 4, 4, 4, 4, 4, 4, 4, 4},
         {0},
         12,
         4,
         TFM_DTYPE_U32,
         "0",
         "'shortlist.offsets': element 0 is 1, expected 0 to 0"},
        {{0, 1, 3, 2, 4, 4, 4, 4, 4, 4, 4, 4},
         {0},
         12,
         4,
         TFM_DTYPE_U32,
         "0",
         "'shortlist.offsets': element 3 is 2, expected 3 to 4"},
        {{0, 1, 1, 2, 5, 4, 4, 4, 4, 4, 4, 4},
         {0},
         12,
         4,
         TFM_DTYPE_U32,
         "0",
         "'shortlist.offsets': element 4 is 5, expected 2 to 4"},
        {{0, 1, 1, 2, 4, 4, 4, 4, 4, 4, 4, 0xFFFFFFFF},
         {0},
         12,
         4,
         TFM_DTYPE_U32,
         "0",
         "'shortlist.offsets': element 11 is 4294967295, expected 4 to 4"},
        {{0, 1, 1, 2, 3, 3, 3, 3, 3, 3, 3, 3},
         {0},
         12,
         4,
         TFM_DTYPE_U32,
         "0",
         "'shortlist.offsets': element 11 is 3, expected 4 to 4"},
        {{0}, {0}, 11, 0, TFM_DTYPE_U32, "0", "'shortlist.offsets' is [11], expected [12]"},
        {{0}, {0}, 0, 0, TFM_DTYPE_U32, "0", "'shortlist.offsets' is [0], expected [12]"},
        {{0},
         {0},
         12,
         4,
         TFM_DTYPE_I32,
         "0",
         "'shortlist.offsets' is I32 [12], expected U32 of rank 1"},
        {{0}, {0}, -1, 4, TFM_DTYPE_U32, "0", "'shortlist.offsets' is missing"},
        {{0}, {0}, 12, -1, TFM_DTYPE_U32, "0", "'shortlist.ids' is missing"},
        {{0}, {0}, -1, -1, TFM_DTYPE_U32, "1", "'shortlist_first' is 1, but there is no tensor"},
        {{0}, {0}, 12, 0, TFM_DTYPE_U32, "14", "'shortlist_first' is 14, more than the target"},
        {{0}, {0}, 12, 0, TFM_DTYPE_U32, "-1", "'shortlist_first' is not an integer"}};
    char config[128];
    size_t i;
    SECTION("lexical shortlists");
    for (i = 0; i < sizeof rows / sizeof *rows; i++) {
        tiny t = tiny_default();
        tfm_tensor offsets = tfm_tensor_1d((void *)(uintptr_t)rows[i].offsets, rows[i].type,
                                           rows[i].n_offsets),
                   ids =
                       tfm_tensor_1d((void *)(uintptr_t)rows[i].ids, TFM_DTYPE_U32, rows[i].n_ids);
        tfm_status status;
        st_writer w;
        snprintf(config, sizeof config, ", \"shortlist_first\": %s", rows[i].first);
        t.config = config;
        tiny_write(&w, t);
        if (rows[i].n_offsets >= 0) st_add(&w, "shortlist.offsets", offsets);
        if (rows[i].n_ids >= 0) st_add(&w, "shortlist.ids", ids);
        status = load(&w);
        CHECK(rows[i].says ? status != TFM_OK && strstr(err.text, rows[i].says) : status == TFM_OK,
              "%s", rows[i].says ? err.text : "accepted");
    }
}

/* Checks that every kind of search ends with ids in range, whatever the weights. Frees the
   model. */
static int searches_end(tfm_model *model, int *runs) {
    static const int32_t ids[] = {3, 4, 5};
    id_matrix src = tiny_batch(ids, NULL, 1, 3);
    int32_t V = tfm_model_config(model)->tgt_vocab_size;
    tfm_session *s = NULL;
    tfm_session_options so;
    double scores[4];
    int search, good = 1;
    memset(&so, 0, sizeof so);
    so.max_source = 4, so.max_beam = 4, so.attention = 1;
    must(tfm_session_create(&s, model, &so, &err));
    for (search = 0; search < 6; search++, ++*runs) {
        tfm_decode_options o;
        tfm_result r;
        int32_t rank, k;
        memset(&o, 0, sizeof o);
        if (search == 1 || search == 4) o.beam = 4, o.n_best = 4;
        if (search == 2) o.samples = 4, o.top_p = 0.5, o.top_k = 5;
        if (search == 3) o.alternatives = 4;
        if (search == 4) o.coverage_penalty = 0.5, o.stop = TFM_STOP_EARLY_NEVER;
        if (search == 5) o.repetition_penalty = 2, o.no_repeat_ngram = 2;
        must(decode_rows(s, &src, NULL, &o, &err));
        for (rank = 0; rank < tfm_result_count(s, 0); rank++) {
            must(tfm_result_get(s, 0, rank, &r, &err));
            good &= r.finish != TFM_FINISH_RUNNING && r.length <= 24;
            for (k = 0; k < r.length; k++) good &= r.ids[k] >= 0 && r.ids[k] < V;
        }
    }
    must(score_rows(s, &src, &src, 0, scores, &err));
    tfm_session_free(s), tfm_model_free(model);
    return good;
}

static void numbers_of_weights(void) {
    const float values[] = {NAN, INFINITY, -INFINITY, 3.4e38f, -3.4e38f, 1e-42f, 0};
    int v, good = 1, runs = 0;
    SECTION("weights that are NaN or infinite");
    for (v = 0; v < 21; v++) { /* also in models like T5Gemma 1 and 2 */
        tiny t = tiny_default();
        st_writer w;
        size_t i;
        int64_t k;
        tiny_like_gemma(&t, v / 7), t.config = tiny_gemma_configs[v / 7];
        tiny_write(&w, t);
        for (i = 0; i < w.n_entries; i++)
            for (k = (int64_t)i % 7;
                 k < test_count(&w.entries[i].tensor) && !strstr(w.entries[i].name, "frequencies");
                 k += 7) /* the frequencies are shared by all tests */
                ((float *)w.entries[i].tensor.data)[k] = values[v % 7];
        good &= searches_end(tiny_load(&w, NULL), &runs);
    }
    CHECK(good, "%d searches end, with ids in range", runs);
}

/* Tests matrices of bytes and their scales. */
static void scales_of_bytes(void) {
    const float values[] = {0, NAN, INFINITY, -INFINITY, -0.5f, 3.4e38f, 1e-42f};
    const float wrong_factors[] = {0, NAN, INFINITY, -0.5f, 1e-42f};
    static const tfm_weight_type as[] = {TFM_WEIGHT_TYPE_AS_STORED, TFM_WEIGHT_TYPE_F32,
                                         TFM_WEIGHT_TYPE_F16, TFM_WEIGHT_TYPE_BF16};
    static const char name[] = "encoder.layers.0.linear1.weight_scale";
    static const int32_t ids[] = {3, 4, 5};
    static float numbers[64];
    id_matrix batch = tiny_batch(ids, NULL, 1, 3);
    tfm_tensor wrong[5], logits[2];
    int i, v, good = 1, runs = 0;
    SECTION("scales");
    wrong[0] = tfm_tensor_1d(numbers, TFM_DTYPE_F32, 23),
    wrong[1] = tfm_tensor_1d(numbers, TFM_DTYPE_F32, 25);
    wrong[2] = tfm_tensor_2d(numbers, TFM_DTYPE_F32, 24, 1),
    wrong[3] = tfm_tensor_1d(numbers, TFM_DTYPE_I32, 24);
    wrong[4] = tfm_tensor_1d(numbers, TFM_DTYPE_F32, 0);
    for (i = 0; i < 5; i++) {
        st_writer w;
        st_entry *e;
        tiny_write(&w, tiny_default()), tiny_quantize(&w, 0);
        e = entry(&w, name);
        e->tensor = wrong[i], e->bytes = st_bytes(&wrong[i]);
        CHECK_FAILS(load(&w), TFM_E_TENSOR, "linear1.weight_scale' is ");
    }
    for (i = 0; i < 7; i++) {
        float factors[2] = {0, 1};
        tfm_tensor factor = i < 6 ? tfm_tensor_1d(factors, TFM_DTYPE_F32, 1 + (i == 5))
                                  : tfm_tensor_1d(numbers, TFM_DTYPE_I32, 1);
        st_writer w;
        factors[0] = i < 5 ? wrong_factors[i] : 1; /* then a wrong shape and a wrong type */
        tiny_write(&w, tiny_default()), tiny_quantize(&w, 0);
        st_add(&w, "encoder.layers.0.linear1.weight_input_factor", factor);
        CHECK_FAILS(load(&w), TFM_E_TENSOR, "linear1.weight_input_factor' is ");
    }
    for (v = 0; v < 7; v++)
        for (i = 0; i < 4; i++) {
            tfm_model_options o = tiny_options();
            st_writer w;
            size_t k;
            tiny_write(&w, tiny_default()), tiny_quantize(&w, 0);
            for (k = 0; k < w.n_entries; k++)
                if (strstr(w.entries[k].name, "_scale"))
                    ((float *)w.entries[k].tensor.data)[k % 3] = values[v];
            o.weights = as[i];
            good &= searches_end(tiny_load(&w, &o), &runs);
        }
    CHECK(good,
          "scales of 0, infinity, negative numbers or NaN: %d searches end, with ids in range",
          runs);
    for (i = 0; i < 2; i++) {
        tfm_model_options o = tiny_options();
        tfm_model *model;
        tfm_session *s;
        st_writer w;
        size_t k;
        tiny_write(&w, tiny_default()), tiny_quantize(&w, 0);
        for (k = 0; k < w.n_entries; k++)
            if (w.entries[k].tensor.dtype == TFM_DTYPE_I8)
                memset(w.entries[k].tensor.data, 0x80, (size_t)w.entries[k].bytes / 2);
        o.weights = as[i];
        model = tiny_load(&w, &o), s = tiny_session(model, 1, 3, 3);
        logits[i] = test_like(tfm_tensor_3d(NULL, TFM_DTYPE_F32, 1, 3, 13));
        must(forward_rows(s, &batch, &batch, NULL, &logits[i], &err));
        tfm_session_free(s), tfm_model_free(model);
    }
    CHECK(test_difference(&logits[0], &logits[1]) < 0.05, "bytes of -128: %.2g off those as floats",
          test_difference(&logits[0], &logits[1]));
}

/* Makes a packed model of int8 or floats; config is what follows its sizes. */
static void write_packed(st_writer *w, int is_int8, const char *config) {
    tiny t = tiny_default();
    t.config = config;
    tiny_write(w, t);
    if (is_int8) tiny_quantize(w, 0);
    tiny_pack(w, &t, 1);
}

/* Tests the sorted order of a vocabulary, which a packed file holds to save sorting. */
static void orders(void) {
    static const int32_t right[] = {2, 0, 1, 3, 6, 7, 8, 9, 10, 4, 5};
    static const struct {
        tfm_dtype dtype;
        int64_t n;
        int at;
        int32_t becomes;
        const char *says;
    } rows[] = {
        {TFM_DTYPE_I32, 11, 0, 2, NULL},
        {TFM_DTYPE_I32, 10, 0, 2, "'src_vocabulary_sorted' is [10], expected [11]"},
        {TFM_DTYPE_I32, 12, 0, 2, "is [12], expected [11]"},
        {TFM_DTYPE_I32, 0, 0, 2, "is [0], expected [11]"},
        {TFM_DTYPE_U32, 11, 0, 2, "'src_vocabulary_sorted' is U32 [11], expected I32 of rank 1"},
        {TFM_DTYPE_I32, 11, 3, 11, "element 3 is 11, of 11"},
        {TFM_DTYPE_I32, 11, 3, -1, "element 3 is 4294967295, of 11"},
        {TFM_DTYPE_I32, 11, 3, INT32_MIN, "element 3 is 2147483648, of 11"},
        {TFM_DTYPE_I32, 11, 3, 6, "'src_vocabulary_sorted': element 4 does not come next"},
        {TFM_DTYPE_I32, 11, 10, 2, "element 10 does not come next"},
        {TFM_DTYPE_I32, 11, 1, 1, "element 2 does not come next"}};
    int i, packed;
    for (packed = 1; packed >= 0; packed--)
        for (i = 0; i < (packed ? (int)(sizeof rows / sizeof *rows) : 1); i++) {
            int32_t order[12] = {0};
            tiny t = tiny_default();
            tfm_status status;
            st_writer w;
            memcpy(order, right, sizeof right);
            order[rows[i].at] = rows[i].becomes;
            t.src = t.tgt = WORDS, t.vt = 11, t.config = IDS;
            tiny_write(&w, t);
            if (packed) tiny_pack(&w, &t, 1);
            st_add(&w, "src_vocabulary_sorted", tfm_tensor_1d(order, rows[i].dtype, rows[i].n));
            status = load(&w);
            if (!packed)
                CHECK(status == TFM_E_TENSOR && strstr(err.text, "not part of a model"),
                      "a plain file must not have an order: %s", err.text);
            else if (rows[i].says)
                CHECK(status == TFM_E_TENSOR && strstr(err.text, rows[i].says), "%s", err.text);
            else CHECK(status == TFM_OK, "the right order: %s", err.text);
        }
}

/* tests shapes that contradict the config, which alone tells how much is read. Then it tests
   values that nobody checks, because they are only inputs of arithmetic. */
static void packed_files(void) {
    static double zeros[1 << 12];
    static const struct {
        int is_int8;
        const char *name; /* The tensor becomes dtype dims. */
        tfm_dtype dtype;
        int rank;
        int64_t dims[5];
        const char *says;
    } rows[] = {
        {0,
         "encoder.layers.0.linear1.weight",
         TFM_DTYPE_F32,
         4,
         {1, 20, 16, 1},
         "[1, 20, 16, 1], expected [2, 20, 16, 1]"},
        {0,
         "encoder.layers.0.linear1.weight",
         TFM_DTYPE_F32,
         4,
         {3, 20, 16, 1},
         "expected [2, 20, 16, 1]"},
        {0,
         "encoder.layers.0.linear1.weight",
         TFM_DTYPE_F32,
         4,
         {2, 19, 16, 1},
         "expected [2, 20, 16, 1]"},
        {0,
         "encoder.layers.0.linear1.weight",
         TFM_DTYPE_F32,
         4,
         {2, 20, 8, 1},
         "expected [2, 20, 16, 1]"},
        {0,
         "encoder.layers.0.linear1.weight",
         TFM_DTYPE_F32,
         4,
         {2, 20, 16, 2},
         "expected [2, 10, 16, 2]"},
        {0,
         "encoder.layers.0.linear1.weight",
         TFM_DTYPE_F32,
         4,
         {2, 7, 16, 3},
         "expected [2, 20, 16, 1]"},
        {0,
         "encoder.layers.0.linear1.weight",
         TFM_DTYPE_F32,
         4,
         {2, 1, 16, 128},
         "expected [2, 20, 16, 1]"},
        {0,
         "encoder.layers.0.linear1.weight",
         TFM_DTYPE_F32,
         4,
         {2, 20, 16, 0},
         "expected [2, 20, 16, 1]"},
        {0,
         "encoder.layers.0.linear1.weight",
         TFM_DTYPE_F32,
         4,
         {0, 20, 16, 1},
         "expected [2, 20, 16, 1]"},
        {0, "encoder.layers.0.linear1.weight", TFM_DTYPE_F32, 3, {2, 20, 16}, "expected rank 2"},
        {0,
         "encoder.layers.0.linear1.weight",
         TFM_DTYPE_F32,
         5,
         {2, 20, 16, 1, 1},
         "expected rank 2"},
        {0, "encoder.layers.0.linear1.weight", TFM_DTYPE_F64, 4, {2, 20, 16, 1}, "is F64"},
        {0,
         "encoder.layers.0.linear1.weight",
         TFM_DTYPE_I8,
         4,
         {2, 20, 16, 1},
         "expected [2, 5, 16, 4]"},
        {0,
         "encoder.layers.0.linear1.weight",
         TFM_DTYPE_I8,
         4,
         {2, 5, 16, 4},
         "linear1.weight_sums' is missing"},
        {0, "encoder.layers.0.linear1.bias", TFM_DTYPE_F32, 4, {24, 1, 1, 1}, "expected rank 1"},
        {0,
         "encoder.layers.0.self_attn.out_proj.weight",
         TFM_DTYPE_F32,
         4,
         {2, 11, 16, 1},
         "expected [2, 10, 16, 1]"},
        {0,
         "encoder.layers.0.self_attn.q_proj.weight",
         TFM_DTYPE_F32,
         4,
         {2, 20, 16, 1},
         "expected [1, 20, 16, 1]"},
        {0,
         "decoder.layers.1.multihead_attn.v_proj.weight",
         TFM_DTYPE_F32,
         4,
         {2, 20, 16, 1},
         "expected [1, 20, 16, 1]"},
        {0, "generator.weight", TFM_DTYPE_F32, 4, {2, 20, 16, 1}, "expected [1, 20, 16, 1]"},
        {0, "src_embedding.weight", TFM_DTYPE_F32, 4, {2, 20, 16, 1}, "expected [1, 20, 16, 1]"},
        {0, "src_embedding.weight", TFM_DTYPE_F32, 2, {12, 20}, "expected [11, 20]"},
        {1,
         "encoder.layers.0.linear1.weight",
         TFM_DTYPE_I8,
         4,
         {2, 10, 16, 2},
         "expected [2, 5, 16, 4]"},
        {1,
         "encoder.layers.0.linear1.weight",
         TFM_DTYPE_I8,
         4,
         {2, 5, 16, 3},
         "expected [2, 5, 16, 4]"},
        {1, "encoder.layers.0.linear1.weight_scale", TFM_DTYPE_F32, 1, {24}, "[24], expected [96]"},
        {1, "encoder.layers.0.linear1.weight_scale", TFM_DTYPE_F32, 1, {95}, "expected [96]"},
        {1, "encoder.layers.0.linear1.weight_scale", TFM_DTYPE_I32, 1, {96}, "is I32"},
        {1,
         "encoder.layers.0.linear1.weight_sums",
         TFM_DTYPE_I32,
         2,
         {1, 95},
         "is [1, 95], expected [1, 96]"},
        {1,
         "encoder.layers.0.linear1.weight_sums",
         TFM_DTYPE_I32,
         2,
         {2, 96},
         "is [2, 96], expected [1, 96]"},
        {1,
         "encoder.layers.0.linear1.weight_sums",
         TFM_DTYPE_I32,
         1,
         {96},
         "is [96], expected rank 2"},
        {1, "encoder.layers.0.linear1.weight_sums", TFM_DTYPE_F32, 2, {1, 96}, "is F32 [1, 96]"},
        {1, "encoder.layers.0.linear1.weight_sums", TFM_DTYPE_I64, 2, {1, 96}, "is I64 [1, 96]"},
    };
    static const struct {
        const char *from, *to, *says;
    } configs_of[] = {
        {"\"packed\": 2", "\"packed\": 3",
         "'packed' is 3, expected 2: make it with build/quantize"},
        {"\"packed\": 2", "\"packed\": 1", "'packed' is 1, expected 2"},
        {"\"packed\": 2", "\"packed\": 0", "'packed' is 0, expected 2"},
        {"\"packed\": 2, ", "", "generator.weight' is [1, 20, 16, 1], expected rank 2"},
        {"\"d_model\": 20, ", "", "'d_model' is missing"},
        {"\"d_ff\": 24, ", "", "'d_ff' is missing"},
        {"\"d_key\": 6, ", "", "'d_key' is missing"},
        {"\"d_value\": 5, ", "", "'d_value' is missing"},
        {"\"src_vocab_size\": 11, ", "", "'src_vocab_size' is missing"},
        {"\"tgt_vocab_size\": 13", "\"tgt_vocab_size\": 0", "'tgt_vocab_size' is missing or 0"},
        {"\"d_ff_decoder\": 24", "\"d_ff_decoder\": 0", "'d_ff_decoder' is 0"},
        {"\"d_ff_decoder\": 24", "\"d_ff_decoder\": 17", "decoder.layers.0.linear1"},
        {"\"d_model\": 20", "\"d_model\": 19",
         "src_embedding.weight' is [11, 20], expected [11, 19]"},
        {"\"d_ff\": 24", "\"d_ff\": 23", "linear1.bias' is [24], expected [23]"},
        {"\"d_key\": 6", "\"d_key\": 2147483647", "q_proj.weight' is "},
        {"\"d_value\": 5", "\"d_value\": 6", "out_proj.weight' is "},
        {"\"n_heads\": 2", "\"n_heads\": 2147483647", "out_proj.weight' is "},
        {"\"n_heads\": 2", "\"n_heads\": 1", "out_proj.weight' is "}};
    const float values[] = {NAN, INFINITY, 3.4e38f, 1e-42f};
    int i, v, good = 1, runs = 0;
    SECTION("packed files");
    for (i = 0; i < (int)(sizeof rows / sizeof *rows); i++) {
        st_writer w;
        st_entry *e;
        write_packed(&w, rows[i].is_int8, tiny_default().config);
        e = entry(&w, rows[i].name);
        e->tensor = tfm_tensor_make(zeros, rows[i].dtype, rows[i].rank, rows[i].dims);
        e->bytes = st_bytes(&e->tensor);
        CHECK_FAILS(load(&w), TFM_E_TENSOR, rows[i].says);
        CHECK(strstr(err.text, rows[i].name) != NULL, "  the message names the tensor");
    }
    for (i = 0; i < (int)(sizeof configs_of / sizeof *configs_of); i++) {
        char config[1024];
        const char *whole, *at;
        st_writer w;
        write_packed(&w, 0, tiny_default().config);
        whole = w.pairs[0].value, at = strstr(whole, configs_of[i].from);
        if (!at) printf("no %s\n", configs_of[i].from), exit(2);
        snprintf(config, sizeof config, "%.*s%s%s", (int)(at - whole), whole, configs_of[i].to,
                 at + strlen(configs_of[i].from));
        free(w.pairs[0].value);
        w.pairs[0].value = st_copy(config);
        CHECK(load(&w) != TFM_OK && strstr(err.text, configs_of[i].says), "%s: %s",
              configs_of[i].to, err.text);
    }
    {
        static const int64_t dims[] = {2, 20, 16, 1}; /* 2 * 12 + 10 rows would be three panels. */
        tiny t = tiny_default();
        st_writer w;
        t.packed = 1;
        t.config = ", \"packed\": 2, \"d_model\": 20, \"d_ff\": 24, \"d_key\": 6, \"d_value\": 5, "
                   "\"src_vocab_size\": 11, \"tgt_vocab_size\": 13";
        tiny_write(&w, t);
        must(load(&w)); /* a packed file with rows instead of panels */
        tiny_write(&w, t);
        st_add(&w, "surplus", tfm_tensor_make(zeros, TFM_DTYPE_F32, 4, dims));
        CHECK_FAILS(load(&w), TFM_E_TENSOR, "surplus");
        tiny_write(&w, t);
        entry(&w, "encoder.layers.0.self_attn.in_proj_weight")->tensor =
            tfm_tensor_make(zeros, TFM_DTYPE_F32, 4, dims);
        entry(&w, "encoder.layers.0.self_attn.in_proj_weight")->bytes = 4 * 2 * 20 * 16;
        CHECK_FAILS(load(&w), TFM_E_TENSOR, "in_proj_weight' is [2, 20, 16, 1], expected rank 2");
    }
    orders();
    for (v = 0; v < 4; v++)
        for (i = 0; i <= TFM_WEIGHT_TYPE_I8; i++) {
            tfm_model_options o = tiny_options();
            st_writer w;
            size_t k;
            int64_t at;
            write_packed(&w, 1, tiny_default().config);
            for (k = 0; k < w.n_entries; k++) { /* random bytes, in the padding too */
                const st_entry *e = &w.entries[k];
                if (strstr(e->name, "_scale") || strstr(e->name, "_sums"))
                    for (at = v % 2; at < e->bytes / 4; at += 2)
                        memcpy((char *)e->tensor.data + 4 * at, &values[v], 4);
                else if (e->tensor.dtype == TFM_DTYPE_I8)
                    memset(e->tensor.data, 0x80 + v, (size_t)e->bytes);
            }
            o.weights = (tfm_weight_type)i;
            good &= searches_end(tiny_load(&w, &o), &runs);
        }
    CHECK(good, "wrong scales, sums and padding: %d searches end, with ids in range", runs);
}

/* Tests ids and counts out of range, in every call that takes any. */
static void bad_ids(void) {
    static const int32_t bad[] = {-1, 13, INT32_MIN, INT32_MAX}, good_ids[] = {3, 4, 5};
    static const int32_t sizes[] = {-1, INT32_MIN, INT32_MAX};
    tiny t = tiny_default();
    tfm_model *model;
    tfm_session *s;
    id_matrix src = tiny_batch(good_ids, NULL, 1, 3), wrong;
    float logits[3 * 13];
    tfm_tensor out = tfm_tensor_3d(logits, TFM_DTYPE_F32, 1, 3, 13);
    double scores[4] = {7, 7, 7, 7};
    int32_t ids[3] = {3, 4, 5}, length;
    int i, refusals = 0, touched;
    SECTION("ids, lengths and caps");
    t.vs = 13;
    model = tiny_model(t);
    s = tiny_session(model, 1, 6, 20);
    for (i = 0; i < 39; i++) logits[i] = 7;
    for (i = 0; i < 4; i++) {
        tfm_decode_options o;
        by_row with;
        wrong = tiny_batch(ids, NULL, 1, 3);
        ids[2] = bad[i];
        memset(&o, 0, sizeof o);
        refusals += encode_rows(s, &wrong, &err) == TFM_E_TOKEN;
        refusals += start_rows(s, &wrong, NULL, NULL, &err) == TFM_E_TOKEN;
        refusals += forward_rows(s, &wrong, &src, NULL, &out, &err) == TFM_E_TOKEN;
        refusals += forward_rows(s, &src, &wrong, NULL, &out, &err) == TFM_E_TOKEN;
        refusals += score_rows(s, &wrong, &src, 0, scores, &err) == TFM_E_TOKEN;
        refusals += score_rows(s, &src, &wrong, 0, scores, &err) == TFM_E_TOKEN;
        memset(&with, 0, sizeof with), with.prefix = &wrong;
        refusals += start_rows(s, &src, &with, &o, &err) == TFM_E_TOKEN;
        memset(&o, 0, sizeof o), o.suppressed = ids, o.n_suppressed = 3;
        refusals += start_rows(s, &src, NULL, &o, &err) == TFM_E_TOKEN;
        memset(&o, 0, sizeof o), o.end_ids = ids, o.n_end_ids = 3;
        refusals += start_rows(s, &src, NULL, &o, &err) == TFM_E_TOKEN;
    }
    CHECK(refusals == 36, "%d of 36 calls name an id that is none", refusals);
    for (i = 0, refusals = 0; i < 3; i++) {
        tfm_decode_options o;
        tfm_session_options so;
        tfm_session *none = NULL;
        wrong = tiny_batch(good_ids, NULL, sizes[i], 3);
        refusals += encode_rows(s, &wrong, &err) != TFM_OK;
        wrong = tiny_batch(good_ids, NULL, 1, sizes[i]);
        refusals += encode_rows(s, &wrong, &err) != TFM_OK;
        length = sizes[i], wrong = tiny_batch(good_ids, &length, 1, 3);
        refusals += encode_rows(s, &wrong, &err) != TFM_OK;
        refusals += score_rows(s, &src, &wrong, 0, scores, &err) != TFM_OK;
        memset(&o, 0, sizeof o), o.max_length = sizes[i];
        refusals += start_rows(s, &src, NULL, &o, &err) != TFM_OK;
        memset(&o, 0, sizeof o), o.n_suppressed = sizes[i];
        refusals += start_rows(s, &src, NULL, &o, &err) != TFM_OK;
        memset(&so, 0, sizeof so), so.max_batch = sizes[i];
        if (i < 2) refusals += tfm_session_create(&none, model, &so, &err) != TFM_OK && !none;
        memset(&so, 0, sizeof so), so.max_target = sizes[i];
        if (i < 2) refusals += tfm_session_create(&none, model, &so, &err) != TFM_OK && !none;
    }
    CHECK(refusals == 22, "%d of 22 sizes out of range are refused", refusals);
    wrong = tiny_batch(NULL, NULL, 1, 3);
    CHECK_FAILS(encode_rows(s, &wrong, &err), TFM_E_ARGUMENT, "");
    CHECK_FAILS(encode_rows(s, NULL, &err), TFM_E_ARGUMENT, "");
    for (i = touched = 0; i < 39; i++) touched += logits[i] != 7;
    for (i = 0; i < 4; i++) touched += scores[i] != 7;
    CHECK(touched == 0, "outputs untouched");
    tfm_session_free(s), tfm_model_free(model);
}

/* ---- text ---- */

/* Tests models in which start, end, unknown and pad are one token, or any two of them are. */
static void equal_ids(void) {
    char config[256], out[256];
    int i, good = 1;
    SECTION("special tokens that are the same");
    for (i = 0; i < 256; i++) {
        tiny t = tiny_default();
        tfm_model *model;
        tfm_session *s;
        tfm_status status;
        snprintf(config, sizeof config,
                 ", \"start\": %d, \"end\": %d, \"src_unk\": %d, \"src_pad\": %d, \"tgt_pad\": %d, "
                 "\"src_end\": 6, \"forced\": %d",
                 i & 3, i >> 2 & 3, i >> 4 & 3, i >> 6 & 3, i >> 1 & 3, i >> 3 & 3);
        t.src = t.tgt = WORDS, t.vt = 11, t.config = config, t.d = 8;
        model = tiny_model(t);
        s = tiny_session(model, 1, 8, 24);
        out[0] = 'x';
        status = tfm_translate(s, "hello there b", out, sizeof out, &err);
        good &= status == TFM_OK && strlen(out) < sizeof out;
        tfm_session_free(s), tfm_model_free(model);
    }
    CHECK(good, "256 models translate, and each decode ends");
}

static const char *const configs[] = {
    IDS, IDS ", \"src_text\": \"characters\"",
    IDS ", \"src_text\": \"sentencepiece\", \"tgt_text\": \"sentencepiece\""};

static tfm_model *text_model(int kind) {
    tfm_safetensors *file = test_open("sentencepiece.safetensors");
    static const char *const models[] = {"", "", "unigram_symbols.model", "bpe_bytes.model"};
    tiny t = tiny_default();
    st_writer w;
    tfm_model *model;
    t.config = configs[kind < 2 ? kind : 2];
    if (kind < 2) t.src = t.tgt = WORDS, t.vt = 11;
    else t.vs = t.vt = 420;
    tiny_write(&w, t);
    if (kind >= 2) st_add(&w, "src_sentencepiece", test_get(file, models[kind]));
    model = tiny_load(&w, NULL);
    tfm_safetensors_free(file);
    return model;
}

static void texts(void) {
    static char room[1 << 18];
    static int32_t ids[4096];
    static const char some[] = "a\xe2\x96\x81\xc3\xa9 \x80\xf0\x9f";
    unsigned seed = 1;
    int kind, i, k;
    SECTION("texts without a NUL, of any bytes");
    for (kind = 0; kind < 4; kind++) {
        tfm_model *m = text_model(kind);
        tfm_arena arena = tfm_arena_make(room, sizeof room);
        int taken = 0, wrong = 0;
        int32_t count;
        for (i = 0; i < 20000; i++) {
            unsigned char bytes[16];
            size_t n = (size_t)(1 + tiny_random(&seed) % 16);
            char *text;
            tfm_status status;
            for (k = 0; k < (int)n; k++) { /* half of the texts are plausible UTF-8 */
                unsigned random = tiny_random(&seed);
                bytes[k] = (unsigned char)random;
                if (i & 1) bytes[k] = (unsigned char)some[random % (sizeof some - 1)];
            }
            text = (char *)exact(bytes, n);
            count = -1;
            status = tfm_model_tokenize(m, tfm_text_make(text, n), TFM_TEXT_FORM_TEXT, ids, 4096,
                                        &count, &arena, &err);
            taken += status == TFM_OK;
            wrong += (status == TFM_OK) != (tfm__utf8_fault(text, n) < 0);
            wrong += status != TFM_OK && (status != TFM_E_UTF8 || count != -1);
            for (k = 0; k < count; k++)
                wrong += ids[k] < 0 || ids[k] >= tfm_model_config(m)->src_vocab_size;
            free(text);
        }
        memset(room, ' ', 4096);
        CHECK(wrong == 0 && taken > 100, "%d of 20,000 are UTF-8, and have ids in range", taken);
        if (kind < 2) {
            char *spaces = (char *)malloc(1000000);
            if (!spaces) exit(2);
            memset(spaces, ' ', 1000000);
            CHECK(tfm_model_tokenize(m, tfm_text_make(spaces, 1000000), TFM_TEXT_FORM_TEXT, ids, 1,
                                     &count, NULL, &err) == TFM_OK &&
                      count == 0,
                  "a million spaces are blank");
            memset(spaces, 0, 1000000);
            count = -1;
            CHECK(tfm_model_tokenize(m, tfm_text_make(spaces, 1000000), TFM_TEXT_FORM_TEXT, ids, 1,
                                     &count, NULL, &err) == (kind ? TFM_E_TOO_LONG : TFM_OK),
                  "a million NULs are %s", kind ? "too many characters" : "an unknown word");
            free(spaces);
        }
        tfm_model_free(m);
    }
}

/* Texts and text tensors of 2 GiB must be refused because of their size: only one byte of each
   exists. */
static void large_texts(void) {
    static const size_t lengths[] = {(size_t)INT32_MAX + 1, SIZE_MAX - 1, SIZE_MAX};
    static char room[1 << 12], out[1 << 12];
    tfm__pool pool;
    tfm__vocabulary v;
    tfm__joined j;
    int kind, i, refusals = 0;
    SECTION("texts of 2 GiB and more");
    memset(&pool, 0, sizeof pool), memset(&v, 0, sizeof v), memset(&j, 0, sizeof j);
    for (kind = 0; kind < 4; kind++) {
        tfm_model *m = text_model(kind);
        tfm_session *s = NULL;
        tfm_session_options so;
        tfm_text translated = {out, 7};
        char *text = (char *)exact("a", 1);
        memset(&so, 0, sizeof so);
        so.max_source = 8, so.attention = 1;
        must(tfm_session_create(&s, m, &so, &err));
        must(tfm_translate(s, "a", out, sizeof out, &err));
        for (i = 0; i < 3; i++) {
            tfm_arena arena = tfm_arena_make(room, sizeof room), measuring = tfm_arena_measuring();
            tfm_text in;
            int32_t ids[4], count = -1;
            size_t n = 0;
            in.data = text, in.size = lengths[i], out[0] = 'x';
            refusals += tfm_model_tokenize(m, tfm_text_make(text, in.size), TFM_TEXT_FORM_TEXT, ids,
                                           4, &count, &arena, &err) == TFM_E_TOO_LONG;
            refusals += tfm_model_tokenize(m, tfm_text_make(text, in.size), TFM_TEXT_FORM_TOKENS,
                                           ids, 4, &count, &measuring, &err) == TFM_E_TOO_LONG;
            refusals += tfm_model_tokenize_target(m, tfm_text_make(text, in.size),
                                                  TFM_TEXT_FORM_TEXT, ids, 4, &count, &arena,
                                                  &err) == TFM_E_TOO_LONG;
            refusals += translate_texts(s, &in, NULL, &translated, 1, NULL, out, sizeof out,
                                        &err) == TFM_E_TOO_LONG;
            if (count != -1 || n || out[0] != 'x' || translated.size != 7)
                printf("outputs touched on failure\n"), exit(2);
        }
        tfm_session_free(s), tfm_model_free(m);
        free(text);
    }
    CHECK(refusals == 48, "%d of 48 calls say that it is too long", refusals);
    {
        tfm__sentencepiece *p = (tfm__sentencepiece *)calloc(1, sizeof *p);
        tfm__text_reader r;
        if (!p) exit(2);
        memset(&r, 0, sizeof r);
        r.name = "v", r.err = &err, r.pool = r.temporary = &pool;
        CHECK_FAILS(tfm__read_vocabulary(&r, &v, "a", (int64_t)1 << 31, 1), TFM_E_TENSOR,
                    "v has 2147483648 bytes");
        CHECK_FAILS(tfm__spm_read(&r, p, (const unsigned char *)"a", (int64_t)1 << 31),
                    TFM_E_TENSOR, "v has 2147483648 bytes");
        free(p);
    }
    /* The output may be longer than the input, and size computations saturate at the largest
       size_t. */
    j.size = SIZE_MAX - 1;
    tfm__join_bytes(&j, "abc", 3);
    CHECK(j.size == SIZE_MAX && tfm__more(SIZE_MAX, 1) == SIZE_MAX &&
              tfm__more(SIZE_MAX - 1, 1) == SIZE_MAX && tfm__more(1, SIZE_MAX - 2) == SIZE_MAX - 1,
          "the size of a text does not overflow");
}

static void vocabularies(void) {
    static const char *const what[] = {
        "tabs", "lines", "a NUL", "one line", "returns", "twice", "ten times 40,000 lines"};
    int i, k;
    SECTION("vocabularies");
    for (i = 0; i < 7; i++) {
        tiny t = tiny_default();
        st_writer w;
        tfm_status status;
        n_big = 0;
        for (k = 0; k < (i == 6 ? 0 : 10); k++) {
            char line[24];
            snprintf(line, sizeof line, "w%d%s\n", k, i == 4 ? "\r" : "");
            put(line);
        }
        if (i == 0) put("w"), put_many("\t\t\t\t\t\t\t\t", 100000), put("\n");
        if (i == 1) put_many("\n\n\n\n\n\n\n\n", 100000);
        if (i == 2) put("a?b\n"), big[n_big - 3] = 0;
        if (i == 3) put_many("long", 250000), put("\n");
        if (i == 4) put("w10\r\n");
        if (i == 5) put_many("w\tx\ty\tz\t", 100000), put("w\n");
        if (i == 6) put_many("a\nb\nc\nd\ne\nf\ng\nh\ni\nj\n", 40000);
        t.d = 1, t.heads = 1, t.key = t.value = 1, t.ff = 1, t.vt = 11;
        if (i == 6) t.vs = 400000, t.dtype = TFM_DTYPE_F16;
        tiny_write(&w, t);
        st_add(&w, "src_vocabulary", tfm_tensor_1d(big, TFM_DTYPE_U8, (int64_t)n_big));
        st_add(&w, "tgt_vocabulary", tfm_tensor_1d(big, TFM_DTYPE_U8, (int64_t)n_big));
        status = load(&w);
        CHECK((status == TFM_OK) == (i == 3 || i == 4) && memory.largest <= 4 * n_big + 16384,
              "%s: %s; a block of %d kB for %d kB", what[i], err.text, (int)(memory.largest >> 10),
              (int)(n_big >> 10));
    }
}

/* Tests byte-level BPE with hundreds of thousands of merges and added tokens. Each list has a fault
   of its own, except one list of tokens so long that comparing them would take quadratic time. */
static void byte_bpe(void) {
    static const char *const says[] = {"merge the same",
                                       "token 4294967295",
                                       "is not spelled as the other two",
                                       "src_added, row 1 is 4",
                                       "expected [n, 3]",
                                       "is not spelled as the other two",
                                       ""};
    static const unsigned char rows[][12] = {{4, 0, 0, 0, 4, 0, 0, 0, 5},
                                             {255, 255, 255, 255},
                                             {4, 0, 0, 0, 4, 0, 0, 0, 4},
                                             {4, 0, 0, 0, 0, 0, 0, 0}};
    const int64_t n = 100000;
    unsigned char *table = (unsigned char *)calloc((size_t)n, 12);
    int64_t i;
    int k;
    SECTION("merges and added tokens");
    if (!table) exit(2);
    for (k = 0; k < 7; k++) {
        int64_t merges = k == 3 ? 1 : k >= 5 ? 127 : n;
        tiny t = tiny_default();
        st_writer w;
        n_big = 0;
        put("<pad>\n<s>\n</s>\n<unk>\na\naa\n");
        for (i = 0; i < merges; i++) memcpy(table + 12 * i, rows[k == 4 ? 0 : k > 4 ? 2 : k], 12);
        /* The first token is a and 4096 more letters; each further token is longer. */
        for (i = 0; k >= 5 && i < 127; i++) {
            size_t begin = n_big;
            put_many("aaaaaaaaaaaaaaaa", k == 5 ? 512 : 256), put_many("a", (int)i), put("\n");
            if (k == 5 && i) n_big = begin, put("z"), put_many("z", (int)i), put("\n");
            table[12 * i] = (unsigned char)(6 + i), table[12 * i + 8] = (unsigned char)(7 + i);
        }
        if (k >= 5) put_many("aaaaaaaaaaaaaaaa", k == 5 ? 512 : 256), put_many("a", 127), put("\n");
        t.config = IDS ", \"src_text\": \"byte_bpe\", \"tgt_text\": \"byte_bpe\"";
        t.d = 1, t.heads = 1, t.key = t.value = 1, t.ff = 1, t.vs = t.vt = k >= 5 ? 134 : 6;
        tiny_write(&w, t);
        st_add(&w, "src_vocabulary", tfm_tensor_1d(big, TFM_DTYPE_U8, (int64_t)n_big));
        st_add(&w, "src_merges",
               tfm_tensor_2d(table, TFM_DTYPE_U32, k == 4 ? 2 * n : merges, k == 4 ? 1 : 3));
        if (k == 3) {
            for (i = 0; i < n; i++) memcpy(table + 8 * i + 12, rows[3], 8);
            memcpy(table, rows[0], 12);
            st_add(&w, "src_added", tfm_tensor_2d(table + 12, TFM_DTYPE_U32, n, 2));
        }
        for (i = 0; i < 3 * n; i++) { /* The writer takes numbers in the machine's byte order. */
            const unsigned char *byte = table + 4 * i;
            uint32_t word = byte[0] | (uint32_t)byte[1] << 8 | (uint32_t)byte[2] << 16 |
                            (uint32_t)byte[3] << 24;
            memcpy(table + 4 * i, &word, 4);
        }
        if (k < 6) CHECK_FAILS(load(&w), TFM_E_TENSOR, says[k]);
        else CHECK(load(&w) == TFM_OK, "127 merges to tokens of 4,223 bytes");
        CHECK(memory.largest <=
                  4 * (n_big + 12 * (size_t)merges + 8 * (size_t)n * (k == 3)) + 16384,
              "a block of %d kB", (int)(memory.largest >> 10));
    }
    free(table);
}

/* Tests SentencePiece files of many small pieces, each with a fault of its own. */
static void pieces(void) {
    static const struct {
        const char *bytes; /* fields of a piece */
        size_t n;
        const char *says;
    } rows[] = {{"\x0a\0", 2, "piece 0: it is empty"},
                {"\x0a\2\x0a\0", 4, "piece 0: it is empty"},
                {"\x0a\3\x0a\1a", 5, "the unknown piece is missing"},
                {"\x0a\5\x0a\1a\x18\2", 7, "piece 1: a second one of type unknown"},
                {"\x0a\3\x0a\0\x30", 5, "malformed field"},
                {"\x0a\4\x0a\2ab\x0a\3\x0a\1c", 11, "the unknown piece is missing"},
                {"\x0a\3\x0a\2a", 5, "malformed field"},
                {"\x12\0", 2, "trainer_spec: duplicate field"},
                {"\x30\1", 2, "pieces: missing"}};
    tiny t = tiny_default();
    size_t i, k;
    SECTION("a megabyte of small pieces");
    t.config = configs[2];
    for (i = 0; i <= sizeof rows / sizeof *rows; i++) {
        int last = i == sizeof rows / sizeof *rows; /* an unknown piece, then copies of one piece */
        size_t one = last ? 5 : rows[i].n, n = 1000000 / one * one + (last ? 8 : 0);
        const char *says = last ? "are the same" : rows[i].says;
        char *bytes = (char *)malloc(n);
        st_writer w;
        if (!bytes) exit(2);
        if (last) memcpy(bytes, "\x0a\6\x0a\2aa\x18\2", 8);
        for (k = last ? 8 : 0; k < n; k += one)
            memcpy(bytes + k, last ? rows[2].bytes : rows[i].bytes, one);
        tiny_write(&w, t);
        st_add(&w, "src_sentencepiece", tfm_tensor_1d(bytes, TFM_DTYPE_U8, (int64_t)n));
        CHECK_FAILS(load(&w), TFM_E_TENSOR, says);
        CHECK(memory.largest <= 4 * n + 16384, "%s: a block of %d kB for %d kB", says,
              (int)(memory.largest >> 10), (int)(n >> 10));
        free(bytes);
    }
}

/* Tests valid texts in a faulty file. Their tables take more than four times the file's size, so
   they must be made only after the last check. Until 0.3.0 they took 5 and 8 times its size. */
static void refused_late(void) {
    static const char *const what[] = {"spellings of two bytes",
                                       "pieces without common beginnings"};
    unsigned long random = 1;
    int i, k, n;
    SECTION("valid texts in a file with an unknown tensor");
    for (i = 0; i < 2; i++) {
        tiny t = tiny_default();
        const char *name = i ? "src_sentencepiece" : "src_vocabulary";
        st_writer w;
        n_big = 0;
        t.d = 1, t.heads = 1, t.key = t.value = 1, t.ff = 1, t.vs = 1, t.vt = 1,
        t.dtype = TFM_DTYPE_F16;
        if (i) { /* the unknown piece, and pieces of 100 random letters */
            char piece[106] = "\x0a\x66\x0a\x64";
            t.config = configs[2];
            memcpy(big, "\x0a\x09\x0a\x05<unk>\x18\x02", 11), n_big = 11;
            for (n = 0; n < 5000; n++) {
                for (k = 0; k < 100; k++) {
                    random = (random * 1103515245 + 12345) & 0x7FFFFFFF;
                    piece[4 + k] = (char)('!' + (random >> 16) % 90);
                }
                memcpy(big + n_big, piece, 104), n_big += 104;
            }
            t.vs = t.vt = 5001;
        } else /* all spellings of two characters */
            for (n = 0; n < 90 * 90; n++) {
                big[n_big++] = (char)('!' + n / 90), big[n_big++] = (char)('!' + n % 90);
                big[n_big++] = n < 90 * 90 - 1 ? '\t' : '\n';
            }
        tiny_write(&w, t);
        st_add(&w, name, tfm_tensor_1d(big, TFM_DTYPE_U8, (int64_t)n_big));
        if (!i) st_add(&w, "tgt_vocabulary", tfm_tensor_1d((void *)"a\n", TFM_DTYPE_U8, 2));
        st_add(&w, "zzz", tfm_tensor_1d((void *)"a", TFM_DTYPE_U8, 1));
        CHECK_FAILS(load(&w), TFM_E_TENSOR, "'zzz' is not part of a model");
        CHECK(memory.largest <= 4 * n_big + 16384, "%s: a block of %d kB for %d kB", what[i],
              (int)(memory.largest >> 10), (int)(n_big >> 10));
    }
}

/* ---- all of them together ---- */

/* Changes bytes of a valid model with text: the model must be refused, or translate. */
static void changed(void) {
    static const char *const interesting[] = {"\0", "\xff", "\x80", "\x7f", "\x01", "9", "\"", "{"};
    int kind, i, k, good = 0, bad = 0;
    char out[512];
    SECTION("changed models");
    for (kind = 0; kind < 7; kind++) { /* 2 and 3 are packed, 4 to 6 are like T5Gemma 1 and 2 */
        tiny t = tiny_default();
        st_writer w;
        size_t size, header;
        unsigned char *data;
        unsigned seed = 7 + (unsigned)kind;
        if (!test_in_slice("changed", kind)) continue;
        t.src = t.tgt = WORDS, t.vt = 11, t.d = 4, t.key = t.value = 2, t.ff = 4;
        t.config = kind < 4 ? configs[kind % 2] : tiny_gemma_configs[1 + kind % 2];
        if (kind > 3) t.d = 12, t.key = t.value = 6, tiny_like_gemma(&t, 1 + kind % 2);
        tiny_write(&w, t);
        if (kind == 3) tiny_quantize(&w, 0);
        if (kind == 2 || kind == 3 || kind == 6) tiny_pack(&w, &t, 1);
        data = (unsigned char *)tiny_bytes(&w, &size);
        header = 8 + data[0] + 256 * (size_t)data[1];
        for (i = 0; i < 3000; i++) {
            unsigned char *copy = (unsigned char *)exact(data, size);
            tfm_model *model = NULL;
            for (k = 0; k < 1 + i % 3; k++) {
                size_t range = i % 4 ? header : size, at = tiny_random(&seed) % range;
                copy[at] = (unsigned char)(i % 2 ? interesting[tiny_random(&seed) % 8][0]
                                                 : (char)('0' + tiny_random(&seed) % 10));
            }
            if (load_bytes(copy, size, &model) == TFM_OK) {
                tfm_session *s = tiny_session(model, 1, 8, 12);
                (void)tfm_translate(s, "hello a world b", out, sizeof out, &err);
                tfm_session_free(s), tfm_model_free(model);
                good++;
            } else {
                bad++;
            }
            free(copy);
        }
    }
    if (good + bad) CHECK(good > 100 && bad > 100, "%d refused, %d translate", bad, good);
}

static void any_numbers(void) { (void)numbers(); }

/* "test_hostile numbers" runs one row alone: test_locale.sh makes a locale with a decimal comma for
   it. */
int main(int argc, char **argv) {
    static void (*const kinds[])(void) = {cut,
                                          offsets,
                                          shapes,
                                          addresses,
                                          many,
                                          sizes,
                                          deep,
                                          any_numbers,
                                          names,
                                          heads,
                                          many_languages,
                                          many_layers,
                                          special_ids,
                                          t5,
                                          sources,
                                          decoding,
                                          numbers_of_weights,
                                          scales_of_bytes,
                                          packed_files,
                                          lexicons,
                                          bad_ids,
                                          equal_ids,
                                          texts,
                                          large_texts,
                                          vocabularies,
                                          byte_bpe,
                                          pieces,
                                          refused_late};
    size_t i;
    if (argc > 1 && strcmp(argv[1], "numbers") == 0) {
        if (!numbers()) test_skip("numbers: no locale with a decimal comma");
        free(big);
        return test_done("test_locale");
    }
    for (i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (test_in_slice("kinds", (long)i)) kinds[i]();
    changed();
    CHECK(memory.live == 0 && account.outside == 0,
          "%d refused inputs; the largest block is %.1f x the input", account.refused,
          account.most);
    free(big);
    return test_done("test_hostile");
}
