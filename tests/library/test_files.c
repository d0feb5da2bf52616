/* Faulty files: the safetensors container byte by byte, the config, and tensors that are missing,
   extra or misshapen. Each file must be refused with a message that names the fault. Outputs must
   stay unchanged and nothing may leak, also when an allocation fails at any point. */
#include "transformer.h"
#include "tiny.h"

/* ---- the container ---- */

/* Makes a file from its header text and bytes of data, in memory of exactly its size, so a
   sanitizer sees a read past the end. */
static tfm_status open_bytes(const char *header, size_t header_size, size_t data_size,
                             uint64_t stated) {
    size_t size = 8 + header_size + data_size, i;
    unsigned char *bytes = (unsigned char *)malloc(size);
    tfm_safetensors *file = NULL;
    tfm_status status;
    if (!bytes) exit(2);
    memset(bytes, 1, size);
    for (i = 0; i < 8; i++) bytes[i] = (unsigned char)(stated >> 8 * i & 0xff);
    memcpy(bytes + 8, header, header_size);
    err.text[0] = 0;
    status = tfm_safetensors_open(&file, bytes, size, NULL, &err);
    if (status != TFM_OK && file) printf("output touched on failure\n"), exit(2);
    tfm_safetensors_free(file);
    free(bytes);
    return status;
}
static tfm_status open_text(const char *header, size_t data_size) {
    return open_bytes(header, strlen(header), data_size, strlen(header));
}

static void container(void) {
    static const struct {
        const char *header;
        int data;
        const char *says; /* NULL: the file must be accepted */
    } rows[] = {
        {"{}", 0, NULL},
        {" \t\n\r{} \t\n\r ", 0, NULL},
        {"{" TINY_MEMBER("a", "F32", "[2]", "[0,8]") "}", 8, NULL},
        {"{" TINY_MEMBER("a", "F32", "[]", "[0,4]") "," TINY_MEMBER("b", "F32", "[0,3]",
                                                                    "[4,4]") "}",
         4, NULL},
        {"{" TINY_MEMBER("b", "U8", "[3]", "[2,5]") "," TINY_MEMBER("a", "BF16", "[1,1]",
                                                                    "[0,2]") "}",
         5, NULL},
        {"{" TINY_MEMBER("\\u0061\\\\", "F32", "[1]", "[0,4]") "}", 4, NULL},
        {"{\"a\":{\"x\":[{\"y\":null}],\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}", 4,
         NULL},
        {"{\"__metadata__\":{\"k\":\"v\",\"l\":\"\"}}", 0, NULL},
        {"{" TINY_MEMBER("a", "F4", "[2]", "[0,1]") "}", 1, NULL},
        /* sizes and offsets */
        {"{" TINY_MEMBER("a", "F32", "[2]", "[0,8]") "}", 7,
         "the file is cut short: 69 bytes, the header promises 70"},
        {"{" TINY_MEMBER("a", "F32", "[2]", "[0,8]") "}", 9, "1 bytes follow the last tensor"},
        {"{" TINY_MEMBER("a", "F32", "[1]", "[4,8]") "}", 8, "begins at byte 4, expected 0 (hole)"},
        {"{" TINY_MEMBER("a", "F32", "[1]", "[0,4]") "," TINY_MEMBER("b", "F32", "[1]",
                                                                     "[8,12]") "}",
         12, "'b' begins at byte 8, expected 4"},
        {"{" TINY_MEMBER("a", "F32", "[1]", "[0,4]") "," TINY_MEMBER("b", "F32", "[1]",
                                                                     "[0,4]") "}",
         4, "overlap"},
        {"{" TINY_MEMBER("a", "F32", "[2]", "[0,8]") "," TINY_MEMBER("b", "F32", "[2]",
                                                                     "[4,12]") "}",
         12, "overlap"},
        {"{" TINY_MEMBER("a", "F32", "[1]", "[4,0]") "}", 4,
         "begins at byte 4 and ends before, at 0"},
        {"{" TINY_MEMBER("a", "F32", "[1]", "[-4,0]") "}", 4, "data_offsets"},
        {"{" TINY_MEMBER("a", "F32", "[1]", "[0,4.0]") "}", 4, "data_offsets"},
        {"{" TINY_MEMBER("a", "F32", "[1]", "[0,4e0]") "}", 4, "data_offsets"},
        {"{" TINY_MEMBER("a", "F32", "[1]", "[0,18446744073709551620]") "}", 4, "data_offsets"},
        {"{" TINY_MEMBER("a", "F32", "[1]", "[0,9223372036854775807]") "}", 4,
         "1 elements of F32 in 9223372036854775807 bytes"},
        {"{" TINY_MEMBER("a", "U8", "[1152921504606846975]", "[0,1152921504606846975]") "}", 4,
         ": 101 bytes, the header promises 1152921504606847072"},
        {"{" TINY_MEMBER("a", "F32", "[1]", "[0]") "}", 4, "data_offsets"},
        {"{" TINY_MEMBER("a", "F32", "[1]", "[0,4,8]") "}", 4, "data_offsets"},
        {"{" TINY_MEMBER("a", "F32", "[3]", "[0,8]") "}", 8, "3 elements of F32 in 8 bytes"},
        {"{" TINY_MEMBER("a", "F32", "[4294967296,4294967296]", "[0,0]") "}", 0, "shape overflows"},
        {"{" TINY_MEMBER("a", "F32", "[2305843009213693952,8]", "[0,8]") "}", 8, "shape overflows"},
        {"{" TINY_MEMBER("a", "F64", "[1152921504606846976]", "[0,0]") "}", 0,
         "elements of F64 in 0 bytes"},
        {"{" TINY_MEMBER("a", "F4", "[1]", "[0,0]") "}", 0, "1 elements of F4"},
        {"{" TINY_MEMBER("a", "F32", "[-1]", "[0,4]") "}", 4, "shape"},
        {"{" TINY_MEMBER("a", "F32", "[1,1,1,1,1,1,1,1,1]", "[0,4]") "}", 4, "shape"},
        {"{" TINY_MEMBER("a", "F99", "[1]", "[0,4]") "}", 4, "unknown dtype 'F99'"},
        {"{" TINY_MEMBER("a", "f32", "[1]", "[0,4]") "}", 4, "unknown dtype 'f32'"},
        /* fields */
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1]}}", 0, "'a' has no data_offsets"},
        {"{\"a\":{\"shape\":[1],\"data_offsets\":[0,4]}}", 4, "'a' has no dtype"},
        {"{\"a\":{\"dtype\":\"F32\",\"data_offsets\":[0,4]}}", 4, "'a' has no shape"},
        {"{\"a\":{}}", 0, "'a' has no dtype"},
        {"{\"a\":[]}", 0, "the entry is not an object of a"},
        {"{\"a\":{\"dtype\":7,\"shape\":[1],\"data_offsets\":[0,4]}}", 4, "dtype of a"},
        {"{\"a\":{\"dtype\":\"F32\",\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}", 4,
         "bad or duplicate dtype"},
        {"{" TINY_MEMBER("a", "F32", "[1]", "[0,4]") "," TINY_MEMBER("a", "F32", "[1]",
                                                                     "[4,8]") "}",
         8, "duplicate tensor name 'a'"},
        {"{" TINY_MEMBER("a", "F32", "[1]", "[0,4]") "," TINY_MEMBER("\\u0061", "F32", "[1]",
                                                                     "[4,8]") "}",
         8, "duplicate tensor name 'a'"},
        {"{\"__metadata__\":{},\"__metadata__\":{}}", 0, "duplicate __metadata__"},
        {"{\"__metadata__\":{\"k\":\"1\",\"k\":\"2\"}}", 0, "duplicate metadata key 'k'"},
        {"{\"__metadata__\":{\"k\":1}}", 0, "the value is not a string of k"},
        {"{\"__metadata__\":[]}", 0, "__metadata__ is not an object"},
        /* JSON */
        {"", 0, "malformed JSON"},
        {"[]", 0, "malformed JSON"},
        {"{\"a\"}", 0, "malformed JSON"},
        {"{\"a\":1,}", 0, "malformed JSON"},
        {"{,}", 0, "malformed JSON"},
        {"{\"a\":[1}]", 0, "malformed JSON"},
        {"{\"a\":01}", 0, "malformed JSON"},
        {"{\"a\":+1}", 0, "malformed JSON"},
        {"{\"a\":1.}", 0, "malformed JSON"},
        {"{\"a\":.5}", 0, "malformed JSON"},
        {"{\"a\":1e}", 0, "malformed JSON"},
        {"{\"a\":nul}", 0, "malformed JSON"},
        {"{\"a\":tru", 0, "malformed JSON"},
        {"{\"a", 0, "malformed JSON"},
        {"{\"a\\", 0, "malformed JSON"},
        {"{\"\\x\":1}", 0, "malformed JSON"},
        {"{\"\\u12\":1}", 0, "malformed JSON"},
        {"{\"\\ud800\":1}", 0, "malformed JSON"},
        {"{\"\\udc00\":1}", 0, "malformed JSON"},
        {"{\"\\ud800\\u0041\":1}", 0, "malformed JSON"},
        {"{\"\\u0000\":1}", 0, "malformed JSON"},
        {"{\"a\nb\":1}", 0, "malformed JSON"},
        {"{} {}", 0, "bytes after the object"},
        {"{}x", 0, "bytes after the object"},
        {"{\"\xff\":1}", 0, "not UTF-8"},
        {"{\"\xc0\xaf\":1}", 0, "not UTF-8"},
        {"{\"\xed\xa0\x80\":1}", 0, "not UTF-8"},
        {"{\"\xf4\x90\x80\x80\":1}", 0, "not UTF-8"},
        {"\xef\xbb\xbf{}", 0, "malformed JSON"},
    };
    static const uint64_t lengths[] = {3, 100000001, (uint64_t)1 << 63, UINT64_MAX, UINT64_MAX - 7};
    char *deep, zero[3];
    tfm_safetensors *file = NULL;
    size_t i, n;
    int ok = 1;
    SECTION("the container");
    for (i = 0; i < sizeof rows / sizeof *rows; i++) {
        tfm_status status = open_text(rows[i].header, (size_t)rows[i].data);
        if (rows[i].says)
            CHECK(status == TFM_E_FORMAT && strstr(err.text, rows[i].says), "%s", err.text);
        else CHECK(status == TFM_OK, "accepted: %s %s", rows[i].header, err.text);
    }
    for (i = 0; i <= 8; i++) /* files of 0 to 8 bytes */
        ok &= tfm_safetensors_open(&file, "\1\0\0\0\0\0\0\0", i, NULL, &err) == TFM_E_FORMAT;
    CHECK(ok, "files of 0 to 8 bytes");
    for (i = 0; i < sizeof lengths / sizeof *lengths; i++)
        CHECK(open_bytes("{}", 2, 0, lengths[i]) == TFM_E_FORMAT, "%s", err.text);
    memcpy(zero, "{}", 3);
    CHECK(open_bytes(zero, 3, 0, 3) == TFM_E_FORMAT, "NUL behind the object: %s", err.text);
    n = 1000000;
    deep = (char *)test_memory(n + 16);
    memcpy(deep, "{\"a\":", 5);
    memset(deep + 5, '[', n);
    CHECK(open_bytes(deep, n + 5, 0, n + 5) == TFM_E_FORMAT, "a million brackets: %s", err.text);
    memset(deep + 2, 'n', n); /* a name of 1 MB */
    memcpy(deep + n, "\":{}}", 5);
    CHECK(open_bytes(deep, n + 5, 0, n + 5) == TFM_E_FORMAT && strlen(err.text) < sizeof err.text,
          "a name of 1 MB: %.60s...", err.text);
}

/* A file that was cut says how long it is and how long it should be. Other kinds of files say what
   they are and what to run. */
static void other_files(void) {
    static const char header[] = "{" TINY_MEMBER("a", "U8", "[6]", "[0,6]") "}";
    static const struct {
        const char *bytes; /* zeros follow */
        const char *says;
    } rows[] = {
        {"GGUF\3", "a GGUF file: run tools/convert.py"},
        {"lmgg\1", "a ggml file: run tools/convert.py"},
        {"version https://git-lfs.github.com/spec/v1\noid sha256:",
         "a git-LFS pointer: run git lfs pull"},
        {"<!DOCTYPE html>\n<html>",
         "an HTML page: the address or login was wrong, download it again"},
        {"\r\n  <html lang=\"en\">", "an HTML page"},
        {"\xEF\xBB\xBF<?xml version=", "an HTML page"},
        {"<p>", "an HTML page"},
        {"PK\3\4\24", "a zip archive, such as a checkpoint: run tools/convert.py"},
        {"\x80\2}q", "a pickle of Python: run tools/convert.py"},
        {"\x1f\x8b\x08", "a gzip archive: run gunzip"},
        {"\x28\xb5\x2f\xfd\4", "a zstd archive: run zstd -d"},
        {"RIFF$\1", "a sound: give the model first"},
        {"{\n  \"architectures\": [", "a text in JSON: give the file that ends in .safetensors"},
        {"a text", "a text"}, /* only that it is none */
    };
    char bytes[64], says[80];
    size_t i, n = 8 + strlen(header), size = n + 6;
    int same = 1;
    SECTION("files that were cut, and other kinds of files");
    memset(bytes, 0, sizeof bytes), bytes[0] = (char)strlen(header);
    {
        char *whole = (char *)test_memory(size);
        tfm_safetensors *file = NULL;
        memset(whole, 0, size), memcpy(whole, bytes, 8), memcpy(whole + 8, header, n - 8);
        must(tfm_safetensors_open(&file, whole, size, NULL, &err));
        tfm_safetensors_free(file), file = NULL;
        for (i = 8; i < size; i++) {
            snprintf(says, sizeof says,
                     "the file is cut short: %d bytes, the header promises %d: copy", (int)i,
                     (int)(i < n ? n : size));
            if (tfm_safetensors_open(&file, whole, i, NULL, &err) != TFM_E_FORMAT ||
                strncmp(err.text, says, strlen(says)) != 0)
                same = 0, printf("    %d bytes: %s\n", (int)i, err.text);
        }
    }
    CHECK(same, "each of %d beginnings of a file says how long it is and should be",
          (int)(size - 8));
    for (i = 0; i < sizeof rows / sizeof *rows; i++) {
        tfm_safetensors *file = NULL;
        memset(bytes, i == sizeof rows / sizeof *rows - 1 ? '.' : 0, sizeof bytes);
        memcpy(bytes, rows[i].bytes, strlen(rows[i].bytes));
        if (rows[i].says[0] == 'a' && bytes[0] == 'a')
            CHECK_FAILS(tfm_safetensors_open(&file, bytes, sizeof bytes, NULL, &err), TFM_E_FORMAT,
                        "not a safetensors file: its header length would be over the limit");
        else
            CHECK_FAILS(tfm_safetensors_open(&file, bytes, sizeof bytes, NULL, &err), TFM_E_FORMAT,
                        rows[i].says);
    }
    memcpy(bytes, "\6\0\0\0\17\0TransformerSpec\0", 22);
    {
        tfm_safetensors *file = NULL;
        CHECK_FAILS(tfm_safetensors_open(&file, bytes, sizeof bytes, NULL, &err), TFM_E_FORMAT,
                    "of CTranslate2: run tools/convert.py on its directory");
        CHECK_FAILS(tfm_safetensors_open(&file, "<p>", 3, NULL, &err), TFM_E_FORMAT,
                    "an HTML page");
    }
}

/* A file of 100,000 tensors must open in time proportional to their number, and each must be
   found. */
static void many_tensors(void) {
    enum { N = 100000 };
    size_t room = (size_t)N * 80 + 16, at = 8, i;
    char *bytes = (char *)test_memory(room + N);
    tfm_safetensors *file = NULL;
    int64_t value = 0;
    bytes[at++] = '{';
    for (i = 0; i < N; i++)
        at += (size_t)snprintf(
            bytes + at, 80, "%s\"t%d\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[%d,%d]}",
            i ? "," : "", (int)i, (int)i, (int)i + 1);
    bytes[at++] = '}';
    for (i = 0; i < 8; i++) bytes[i] = (char)((uint64_t)(at - 8) >> 8 * i & 0xff);
    for (i = 0; i < N; i++) bytes[at + i] = (char)(i % 251);
    CHECK(tfm_safetensors_open(&file, bytes, at + N, NULL, &err) == TFM_OK, "");
    CHECK(tfm_safetensors_count(file) == N && tfm_safetensors_find(file, "t77777") == 77777 &&
              tfm_safetensors_read(file, 77777, TFM_DTYPE_I64, &value, &err) == TFM_OK &&
              value == 77777 % 251 && tfm_safetensors_find(file, "t100000") == -1,
          "100,000 tensors");
    tfm_safetensors_free(file);
}

static void reading(void) {
    /* clang-format off */
    static const char header[] = "{" TINY_MEMBER("i", "I16", "[2]", "[0,4]") ","
        TINY_MEMBER("u", "U64", "[1]", "[4,12]") "," TINY_MEMBER("b", "BOOL", "[2]", "[12,14]") ","
        TINY_MEMBER("h", "F16", "[3]", "[14,20]") "," TINY_MEMBER("e", "U8", "[0]", "[14,14]") "}";
    /* clang-format on */
    unsigned char bytes[8 + sizeof header - 1 + 20];
    static const unsigned char data[20] = {0xfe, 0xff, 0x39, 0x30, 0,    0,   0,
                                           0,    0,    0,    0,    0x80, 1,   0,
                                           0x00, 0x3c, 0x01, 0x80, 0x00, 0xfc};
    static const char notes[] = "\43\0\0\0\0\0\0\0{\"__metadata__\":{\"b\":\"1\",\"a\":\"2\"}} ";
    tfm_safetensors *file = NULL;
    int64_t wide[3];
    int32_t narrow[3];
    float f[3];
    SECTION("reading elements");
    memset(bytes, 0, 8);
    bytes[0] = (unsigned char)(sizeof header - 1);
    bytes[1] = (unsigned char)((sizeof header - 1) >> 8);
    memcpy(bytes + 8, header, sizeof header - 1);
    memcpy(bytes + 8 + sizeof header - 1, data, 20);
    CHECK(tfm_safetensors_open(&file, bytes, sizeof bytes, NULL, &err) == TFM_OK, "%s",
          "five types");
    CHECK(tfm_safetensors_read(file, tfm_safetensors_find(file, "i"), TFM_DTYPE_I32, narrow,
                               &err) == TFM_OK &&
              narrow[0] == -2 && narrow[1] == 12345,
          "I16 as I32");
    CHECK(tfm_safetensors_read(file, tfm_safetensors_find(file, "b"), TFM_DTYPE_I64, wide, &err) ==
                  TFM_OK &&
              wide[0] == 1 && wide[1] == 0,
          "BOOL as I64");
    CHECK(tfm_safetensors_read(file, tfm_safetensors_find(file, "h"), TFM_DTYPE_F32, f, &err) ==
                  TFM_OK &&
              f[0] == 1.0f && f[1] == -ldexpf(1, -24) && f[2] == -INFINITY,
          "F16 as F32: 1, the smallest, -inf");
    CHECK_FAILS(
        tfm_safetensors_read(file, tfm_safetensors_find(file, "u"), TFM_DTYPE_I64, wide, &err),
        TFM_E_OVERFLOW, "'u': element 0 does not fit I64");
    CHECK_FAILS(tfm_safetensors_read(file, tfm_safetensors_find(file, "i"), TFM_DTYPE_F32, f, &err),
                TFM_E_DTYPE, "'i' is I16, which is not read as F32");
    CHECK_FAILS(tfm_safetensors_read(file, 5, TFM_DTYPE_F32, f, &err), TFM_E_ARGUMENT,
                "no entry 5");
    CHECK(tfm_safetensors_name(file, 99) == NULL && tfm_safetensors_tensor(file, -1).data == NULL,
          "");
    tfm_safetensors_free(file);
    CHECK(tfm_safetensors_open(&file, notes, sizeof notes - 1, NULL, &err) == TFM_OK, "metadata");
    CHECK(strcmp(tfm_safetensors_metadata_key(file, 0), "b") == 0 &&
              strcmp(tfm_safetensors_metadata_key(file, 1), "a") == 0 &&
              !tfm_safetensors_metadata_key(file, 2) && !tfm_safetensors_metadata_key(file, -1),
          "the keys are in the order of the file");
    CHECK(strcmp(tfm_safetensors_metadata(file, "a"), "2") == 0 &&
              !tfm_safetensors_metadata(file, "c"),
          "their values");
    tfm_safetensors_free(file);
    CHECK_FAILS(tfm_safetensors_open_file(&file, "tests/data/no such file", NULL, &err), TFM_E_IO,
                "no such file: cannot be opened");
    CHECK_FAILS(tfm_safetensors_open_file(&file, "tests/data", NULL, &err), TFM_E_IO,
                "tests/data: ");
}

/* ---- model files ---- */

static st_entry *entry(st_writer *w, const char *name) {
    size_t i;
    for (i = 0; i < w->n_entries; i++)
        if (strcmp(w->entries[i].name, name) == 0) return &w->entries[i];
    printf("no entry %s\n", name);
    exit(2);
}
static void remove_entry(st_writer *w, const char *name) {
    st_entry *e = entry(w, name);
    free(e->name);
    *e = w->entries[--w->n_entries];
}
/* Replaces a tensor by one of another shape, full of zeros. */
static void reshape(st_writer *w, const char *name, tfm_dtype dtype, int rank, int64_t d0,
                    int64_t d1) {
    static float zeros[65536];
    st_entry *e = entry(w, name);
    int64_t dims[2];
    dims[0] = d0, dims[1] = d1;
    e->tensor = tfm_tensor_make(zeros, dtype, rank, dims);
    e->bytes = st_bytes(&e->tensor);
}
static void set_config(st_writer *w, const char *json) {
    free(w->pairs[0].value);
    w->pairs[0].value = st_copy(json);
}
static tfm_status load(st_writer *w) {
    size_t size;
    void *data = tiny_bytes(w, &size);
    tfm_model *model = NULL;
    tfm_status status;
    err.text[0] = 0;
    status = tfm_model_load(&model, data, size, NULL, &err);
    if (status != TFM_OK && model) printf("output touched on failure\n"), exit(2);
    tfm_model_free(model);
    return status;
}

static const char vocab_src[] = "<pad>\n<s>\n</s>\n<unk>\na\nb\nc\nd\ne\nf\ng\n";
static const char vocab_tgt[] = "<pad>\n<s>\n</s>\n<unk>\nA\nB\nC\nD\nE\nF\nG\nH\nI\n";

/* Removes each tensor in turn. An error must name each necessary tensor, and a model must load
   without an optional one. */
static void every_tensor(void) {
    tiny t = tiny_default();
    st_writer w;
    size_t i, n;
    int required = 0, optional = 0, named = 1;
    char name[128];
    t.vt = t.vs; /* This size lets a shared embedding fit. */
    tiny_write(&w, t);
    n = w.n_entries;
    st_free(&w);
    for (i = 0; i < n; i++) {
        tfm_status status;
        tiny_write(&w, t);
        snprintf(name, sizeof name, "%s", w.entries[i].name);
        remove_entry(&w, name);
        status = load(&w);
        if (status == TFM_OK) {
            optional++;
            /* Only biases, norms, shared or tied tensors and the source's embedding are optional.
               Without the source's embedding the sources are embeddings. */
            named &= strstr(name, ".bias") || strstr(name, "norm") ||
                     strcmp(name, "src_embedding.weight") == 0 ||
                     strcmp(name, "tgt_embedding.weight") == 0 ||
                     strcmp(name, "generator.weight") == 0;
        } else {
            required++;
            named &= strstr(err.text, name) != NULL;
        }
    }
    CHECK(named && required > 30, "each of %d tensors missing: %d named in the error, %d optional",
          (int)n, required, optional);
}

static void model_files(void) {
    static const struct {
        const char *config;
        const char *says;
    } configs[] = {
        {", \"norm\": \"middle\"", "'norm' is 'middle', expected post|pre"},
        {", \"norm\": 3", "'norm' is not one of post|pre"},
        {", \"nrom\": \"pre\"", "'nrom' is not a known field"},
        {", \"norm\": \"pre\", \"norm\": \"pre\"", "'norm' is a duplicate key"},
        {", \"d_model\": 21", "'d_model' is 21, the tensors say 20"},
        {", \"d_ff\": 23", "'d_ff' is 23, the tensors say 24"},
        {", \"d_key\": 5", "'d_key' is 5, the tensors say 6"},
        {", \"d_value\": 6", "'d_value' is 6, the tensors say 5"},
        {", \"n_encoder_layers\": 2147483647",
         "'n_encoder_layers' is 2147483647, the tensors say 2"},
        {", \"n_decoder_layers\": 0", "'n_decoder_layers' is 0, the tensors say 2"},
        {", \"src_vocab_size\": 12", "'src_vocab_size' is 12, the tensors say 11"},
        {", \"tgt_vocab_size\": 12", "'tgt_vocab_size' is 12, the tensors say 13"},
        {", \"src_pad\": 11", "'src_pad' is 11, the vocabulary has 11 tokens"},
        {", \"end\": 13", "'end' is 13, the vocabulary has 13 tokens"},
        {", \"end\": -1", "'end' is not an integer"},
        {", \"end\": 2147483648", "'end' is not an integer"},
        {", \"end\": 1.5", "'end' is not an integer"},
        {", \"suppressed\": [0, 13]", "'suppressed' has 13"},
        {", \"suppressed\": [0, ]", "malformed JSON"},
        {", \"suppressed\": [\"a\"]", "'suppressed' is not a list of ids"},
        {", \"layer_norm_eps\": 0", "'layer_norm_eps' must be more than 0"},
        {", \"layer_norm_eps\": -1e-5", "'layer_norm_eps' must be more than 0"},
        {", \"layer_norm_eps\": 1e999", "'layer_norm_eps' is not between -1e30 and 1e30"},
        {", \"attention_scale\": 0", "'attention_scale' is 0"},
        {", \"embedding_scale\": \"d\"", "'embedding_scale' is 'd', expected sqrt_d"},
        {", \"position_base\": 0", "'position_base' must be more than 0"},
        {", \"positions\": \"learned\"", "'src_positions.weight' is missing"},
        {", }", "malformed JSON"},
        {"}{", "malformed JSON"},
    };
    tiny t = tiny_default();
    st_writer w;
    size_t i;
    SECTION("model files");
    for (i = 0; i < sizeof configs / sizeof *configs; i++) {
        t = tiny_default();
        t.config = configs[i].config;
        tiny_write(&w, t);
        CHECK(load(&w) != TFM_OK && strstr(err.text, configs[i].says), "%s", err.text);
    }
    t = tiny_default();
    t.config =
        ", \"d_model\": 20, \"d_ff\": 24, \"d_key\": 6, \"d_value\": 5, \"n_encoder_layers\": 2, "
        "\"n_decoder_layers\": 2, \"src_vocab_size\": 11, \"tgt_vocab_size\": 13, "
        "\"layer_norm_eps\": 1.0E-05, "
        "\"embedding_scale\": 2.5, \"suppressed\": [ ]";
    tiny_write(&w, t);
    CHECK(load(&w) == TFM_OK, "fields that agree with the tensors may be stated %s", err.text);
    every_tensor();

    t = tiny_default();
    tiny_write(&w, t);
    st_add(&w, "encoder.layers.0.self_attn.bias_k", w.entries[0].tensor);
    CHECK_FAILS(load(&w), TFM_E_TENSOR,
                "'encoder.layers.0.self_attn.bias_k' is not part of a model");
    tiny_write(&w, t);
    st_add(&w, "encoder.layers.3.linear1.weight", w.entries[0].tensor);
    CHECK_FAILS(load(&w), TFM_E_TENSOR, "'encoder.layers.3.linear1.weight' is not part of a model");
    tiny_write(&w, t);
    st_add(&w, "extra.of.mine", w.entries[0].tensor);
    st_add_metadata(&w, "extra.", "anything");
    CHECK(load(&w) == TFM_OK, "names that begin with extra. are the program's %s", err.text);
    tiny_write(&w, t);
    st_add(&w, "extra", w.entries[0].tensor);
    CHECK_FAILS(load(&w), TFM_E_TENSOR, "'extra' is not part of a model");
    tiny_write(&w, t);
    st_add_metadata(&w, "licence", "x");
    CHECK_FAILS(load(&w), TFM_E_CONFIG, "metadata key 'licence' is not part of a model");
    tiny_write(&w, t);
    st_add_metadata(&w, "format|license", "x");
    CHECK_FAILS(load(&w), TFM_E_CONFIG, "metadata key 'format|license' is not part of a model");
    tiny_write(&w, t);
    st_add_metadata(&w, "license", "CC-BY-4.0");
    st_add_metadata(&w, "source", "Helsinki-NLP/opus-mt-en-mg");
    st_add_metadata(&w, "revision", "");
    CHECK(load(&w) == TFM_OK, "metadata may hold licence, source and revision %s", err.text);
    tiny_write(&w, t);
    st_add_metadata(&w, "format", "pt");
    CHECK(load(&w) == TFM_OK, "the metadata key that PyTorch's writer adds is accepted %s",
          err.text);
    tiny_write(&w, t);
    w.pairs[0].key[0] = 'T';
    CHECK_FAILS(load(&w), TFM_E_CONFIG, "no 'transformer.config'");
    tiny_write(&w, t);
    reshape(&w, "decoder.layers.1.linear2.weight", TFM_DTYPE_F32, 2, 24, 20);
    CHECK_FAILS(load(&w), TFM_E_TENSOR,
                "'decoder.layers.1.linear2.weight' is [24, 20], expected [20, 24]");
    tiny_write(&w, t);
    reshape(&w, "encoder.layers.1.norm1.weight", TFM_DTYPE_F32, 1, 21, 0);
    CHECK_FAILS(load(&w), TFM_E_TENSOR, "'encoder.layers.1.norm1.weight' is [21], expected [20]");
    tiny_write(&w, t);
    reshape(&w, "encoder.layers.1.norm1.weight", TFM_DTYPE_F32, 2, 20, 1);
    CHECK_FAILS(load(&w), TFM_E_TENSOR,
                "'encoder.layers.1.norm1.weight' is [20, 1], expected rank 1");
    tiny_write(&w, t);
    reshape(&w, "src_embedding.weight", TFM_DTYPE_F32, 2, 0, 20);
    CHECK_FAILS(load(&w), TFM_E_TENSOR, "'src_embedding.weight' is [0, 20]");
    tiny_write(&w, t);
    reshape(&w, "src_embedding.weight", TFM_DTYPE_I32, 2, 11, 20);
    CHECK_FAILS(load(&w), TFM_E_TENSOR,
                "'src_embedding.weight' is I32, expected F32, F16, BF16 or I8");
    tiny_write(&w, t);
    reshape(&w, "encoder.layers.0.self_attn.q_proj.weight", TFM_DTYPE_F32, 2, 14, 20);
    CHECK_FAILS(load(&w), TFM_E_TENSOR,
                "'encoder.layers.0.self_attn.q_proj.bias' is [12], expected [14]");
    tiny_write(&w, t);
    reshape(&w, "encoder.layers.1.self_attn.q_proj.weight", TFM_DTYPE_F32, 2, 14, 20);
    CHECK_FAILS(load(&w), TFM_E_TENSOR,
                "'encoder.layers.1.self_attn.q_proj.weight' is [14, 20], expected [12, 20]");
    t.heads = 5, t.key = 5, t.value = 5;
    tiny_write(&w, t);
    set_config(&w, "{\"n_heads\": 3}");
    CHECK_FAILS(load(&w), TFM_E_TENSOR, "do not divide into 3 heads");
    tiny_write(&w, t);
    set_config(&w, "{\"n_heads\": 0}");
    CHECK_FAILS(load(&w), TFM_E_CONFIG, "'n_heads' is 0");
    tiny_write(&w, t);
    set_config(&w, "{}");
    CHECK_FAILS(load(&w), TFM_E_CONFIG, "'n_heads' is missing");
    t = tiny_default();
    t.encoder = 0;
    tiny_write(&w, t);
    CHECK_FAILS(load(&w), TFM_E_TENSOR, "'encoder.layers.0.linear1.weight' is missing");
}

static void vocabularies(void) {
    static const struct {
        const char *src, *tgt, *says;
    } rows[] = {
        {vocab_src, vocab_tgt, NULL},
        {"<pad>\n<s>\n", vocab_tgt, "src_vocabulary has 2 lines, its embedding 11 rows"},
        {vocab_src, vocab_src, "tgt_vocabulary has 11 lines, its embedding 13 rows"},
        {vocab_src, NULL, "'tgt_vocabulary' is missing"},
        {NULL, vocab_tgt, "'src_vocabulary' is missing"},
        {"a\nb\nc\nd\ne\nf\ng\nh\ni\nj\na\n", vocab_tgt,
         "src_vocabulary: lines 1 and 11 have the same token"},
        {"a\tb\nb\nc\nd\ne\nf\ng\nh\ni\nj\nk\n", vocab_tgt, "src_vocabulary: lines "},
        {"a\nb\n\nd\ne\nf\ng\nh\ni\nj\nk\n", vocab_tgt,
         "src_vocabulary: line 3 has an empty token"},
        {"a\nb\nc\t\nd\ne\nf\ng\nh\ni\nj\nk\n", vocab_tgt,
         "src_vocabulary: line 3 has an empty token"},
        {"a\nb\nc\nd\ne\nf\ng\nh\ni\nj\nk", vocab_tgt, "src_vocabulary: the last line has no end"},
        {"a\nb\nc\nd\ne\nf\ng\nh\ni\nj\n\xff\n", vocab_tgt, "src_vocabulary: byte 20 is not UTF-8"},
    };
    size_t i;
    SECTION("vocabularies");
    for (i = 0; i < sizeof rows / sizeof *rows; i++) {
        tiny t = tiny_default();
        st_writer w;
        tfm_status status;
        t.src = rows[i].src, t.tgt = rows[i].tgt;
        tiny_write(&w, t);
        status = load(&w);
        if (rows[i].says) CHECK(status != TFM_OK && strstr(err.text, rows[i].says), "%s", err.text);
        else CHECK(status == TFM_OK, "a good vocabulary %s", err.text);
    }
}

/* ---- no memory ---- */

static void no_memory(void) {
    tiny t = tiny_default();
    st_writer w;
    size_t size;
    void *data;
    int persistent, n = 0, clean = 1;
    SECTION("no memory");
    t.src = vocab_src, t.tgt = vocab_tgt;
    t.config = ", \"start\": 1, \"end\": 2, \"suppressed\": [0]";
    t.dtype = TFM_DTYPE_F16;
    tiny_write(&w, t);
    data = tiny_bytes(&w, &size);
    for (persistent = 0; persistent < 2; persistent++)
        for (n = 1;; n++) {
            test_allocator f;
            tfm_allocator a;
            tfm_model_options o;
            tfm_model *model = NULL;
            tfm_session *session = NULL;
            tfm_status status;
            memset(&f, 0, sizeof f);
            memset(&o, 0, sizeof o);
            f.fail_at = n, f.persistent = persistent;
            a.allocate = test_allocate, a.release = test_release, a.user = &f;
            o.allocator = &a;
            status = tfm_model_load(&model, data, size, &o, &err);
            clean &= (status == TFM_OK) == (model != NULL);
            if (status == TFM_OK) status = tfm_session_create(&session, model, NULL, &err);
            clean &= status == TFM_OK ||
                     (status == TFM_E_MEMORY && !session && strstr(err.text, "no memory"));
            tfm_session_free(session);
            tfm_model_free(model);
            clean &= f.live == 0;
            if (status == TFM_OK) break;
        }
    CHECK(clean && n > 20,
          "load and session with each of %d allocations failing, once and from then on", n - 1);
}

int main(void) {
    container();
    other_files();
    many_tensors();
    reading();
    model_files();
    vocabularies();
    no_memory();
    return test_done("test_files");
}
