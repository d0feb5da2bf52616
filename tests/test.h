/* test.h: the code that the test programs share: checks that count, and golden files.

   CHECK prints each check that fails, below the name of its section. With V=1 in the environment it
   prints the checks that pass too. test_skip prints each check that cannot be made here, and the
   reason. The last line of a program is "name: N passed, N failed[, N skipped]". A check without a
   message ("") is a step of the next check: it counts only when it fails. Programs that go through
   a table of calls (test_modules, test_arguments) count the table's rows.

   A failed check prints what was wanted and what it got. A check in a loop prints its first ten
   failures of a section (V=1: all); a loop that costs time ends there (test_enough).

   A test of many cases asks test_in_slice whether to run case i. It runs all of them, or with
   SLICE=n in the environment, as .ci/run has it, every seventh: the cases with i % 7 == n % 7. With
   TEST_LIST=n it runs none of them and prints each with its place among the slices of the seven
   seeds from n; tests/slices.py reads that. */
#ifndef TEST_H
#define TEST_H

#include <math.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#if defined(__GNUC__)
#define TEST_UNUSED __attribute__((unused))
#else
#define TEST_UNUSED
#endif

static int test_passed, test_failed, test_skipped;
enum { TEST_PRINTED = 10, TEST_LINES = 4096 };
static int test_failures[TEST_LINES]; /* failures of each line of the test, in this section */
static int test_last_line;            /* the line of the last failure */

#define SECTION(name) test_begin(name)
#define CHECK(condition, ...)                                                                      \
    test_check((condition) ? 1 : 0, #condition, __FILE__, __LINE__, __VA_ARGS__)

static char test_section[200]; /* the section's name, until it is printed */
static int TEST_UNUSED test_loud(void) {
    const char *v = getenv("V");
    return v && *v && *v != '0';
}
static void TEST_UNUSED test_print_section(void) {
    if (*test_section) printf("  %s\n", test_section);
    *test_section = 0;
}
static void TEST_UNUSED test_begin(const char *name) {
    snprintf(test_section, sizeof test_section, "%s", name);
    memset(test_failures, 0, sizeof test_failures);
    if (test_loud()) test_print_section();
}

static void TEST_UNUSED test_check(int ok, const char *condition, const char *file, int line,
                                   const char *format, ...) {
    va_list arguments;
    if (ok && !*format) return;
    if (ok) test_passed++;
    else test_failed++;
    if (ok && !test_loud()) return;
    if (!ok) {
        int failures = ++test_failures[test_last_line = line % TEST_LINES];
        if (failures > TEST_PRINTED && !test_loud()) {
            if (failures == TEST_PRINTED + 1)
                printf("    FAIL more than %d times; V=1 prints all   [%s:%d]\n", (int)TEST_PRINTED,
                       file, line);
            return;
        }
    }
    test_print_section();
    printf("    %s ", ok ? "ok  " : "FAIL");
    va_start(arguments, format);
    vprintf(format, arguments);
    va_end(arguments);
    if (ok) printf("\n");
    else printf("   [%s:%d: %s]\n", file, line, condition);
}

/* Returns the larger number, or NaN if one of the two is NaN, which fmax would hide. */
static double TEST_UNUSED test_max(double a, double b) { return a >= b || a != a ? a : b; }

/* Returns whether the check that failed last has printed its first failures, and its loop can
   end. */
static int TEST_UNUSED test_enough(void) { return test_failures[test_last_line] >= TEST_PRINTED; }

/* Returns whether this run has case i of that name (unique in the program). */
enum { TEST_SLICES = 7 };
static int TEST_UNUSED test_is_in(long i, long slice) {
    return i % TEST_SLICES == slice % TEST_SLICES;
}
static int TEST_UNUSED test_in_slice(const char *name, long i) {
    const char *slice = getenv("SLICE"), *list = getenv("TEST_LIST");
    int in = !slice || !*slice || test_is_in(i, atol(slice)), seed;
    if (!list || !*list) return in;
    if (in) {
        printf("case %s %ld:", name, i);
        for (seed = 0; seed < TEST_SLICES; seed++)
            if (test_is_in(i, atol(list) + seed)) printf(" %d", seed);
        printf("\n");
    }
    return 0;
}

/* Counts a check that cannot be made here, and prints which and why. */
static void TEST_UNUSED test_skip(const char *what) {
    test_skipped++;
    printf("    skipped: %s\n", what);
}

static int TEST_UNUSED test_done(const char *program) {
    printf("%s: %d passed, %d failed", program, test_passed, test_failed);
    if (test_skipped) printf(", %d skipped", test_skipped);
    printf("\n");
    return test_failed ? 1 : 0;
}

/* Returns whether n bytes are UTF-8. This does not call the library's check, which may be wrong. */
static int TEST_UNUSED test_is_utf8(const char *text, size_t n) {
    static const uint32_t least[] = {0, 0x80, 0x800, 0x10000};
    const uint8_t *p = (const uint8_t *)text, *end = p + n;
    while (p < end) {
        int more = *p < 0x80 ? 0 : *p < 0xE0 ? 1 : *p < 0xF0 ? 2 : 3, i;
        uint32_t c = more ? *p & (0x3Fu >> more) : *p;
        if ((*p >= 0x80 && *p < 0xC0) || *p >= 0xF8 || end - p <= more) return 0;
        for (i = 1; i <= more; i++) {
            if ((p[i] & 0xC0) != 0x80) return 0;
            c = c << 6 | (p[i] & 0x3Fu);
        }
        if (c < least[more] || c > 0x10FFFF || (c >= 0xD800 && c < 0xE000)) return 0;
        p += more + 1;
    }
    return 1;
}

/* Returns the memory pages that only this process uses. Returns 0 where the system does not report
   them, or where the tables of a sanitizer grow. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define TEST_SANITIZED
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) ||                         \
    __has_feature(memory_sanitizer)
#define TEST_SANITIZED
#endif
#endif
static long TEST_UNUSED test_pages(void) {
    long all = 0, shared = 0;
#if defined(__linux__) && !defined(TEST_SANITIZED)
    FILE *stream = fopen("/proc/self/statm", "r");
    if (!stream) return 0;
    if (fscanf(stream, "%*d %ld %ld", &all, &shared) != 2) all = shared = 0;
    fclose(stream);
#endif
    return all - shared;
}

/* ---- golden files: only for tests that include transformer.h ---- */
#ifdef TRANSFORMER_H

/* Returns zeroed memory that lives until the test ends. The list keeps the memory reachable for
   leak checkers. */
static void TEST_UNUSED *test_memory(size_t bytes) {
    static struct block {
        struct block *next;
        double start; /* aligns what follows the struct for everything that a test stores */
    } * blocks;
    struct block *block = (struct block *)calloc(1, sizeof *block + bytes);
    if (!block) {
        printf("no memory for the test\n");
        exit(2);
    }
    block->next = blocks;
    blocks = block;
    return block + 1;
}

/* An allocator that counts calls and fails on request. If all fields are zero it only counts. */
typedef struct test_allocator {
    int calls, live;         /* numbers of calls and of live blocks */
    size_t last, largest;    /* sizes of the requests */
    size_t bytes;            /* the sum of the granted sizes */
    size_t limit;            /* requests for larger blocks fail; 0: no limit */
    int fail_at, persistent; /* call number fail_at and all later calls fail; 0: none */
    int failed;              /* number of failed calls */
} test_allocator;
static void TEST_UNUSED *test_allocate(void *user, size_t bytes) {
    test_allocator *a = (test_allocator *)user;
    a->calls++, a->last = bytes;
    if (bytes > a->largest) a->largest = bytes;
    if ((a->limit && bytes > a->limit) || a->calls == a->fail_at ||
        (a->persistent && a->fail_at && a->calls > a->fail_at)) {
        a->failed++;
        return NULL;
    }
    a->live++, a->bytes += bytes;
    return malloc(bytes);
}
static void TEST_UNUSED test_release(void *user, void *pointer) {
    ((test_allocator *)user)->live--;
    free(pointer);
}
static tfm_allocator TEST_UNUSED test_counting(test_allocator *a) {
    tfm_allocator allocator;
    memset(a, 0, sizeof *a);
    allocator.allocate = test_allocate, allocator.release = test_release, allocator.user = a;
    return allocator;
}

#ifdef TRANSFORMER_NO_STDIO
/* Without the library's file functions, these read files and hand it the bytes. */
static void TEST_UNUSED *test_read(const char *path, size_t *size, tfm_error *err) {
    FILE *stream = fopen(path, "rb");
    void *data = NULL;
    long bytes;
    if (stream && fseek(stream, 0, SEEK_END) == 0 && (bytes = ftell(stream)) >= 0) {
        *size = (size_t)bytes;
        data = test_memory(*size);
        rewind(stream);
        if (fread(data, 1, *size, stream) != *size) data = NULL;
    }
    if (stream) fclose(stream);
    if (!data) snprintf(err->text, sizeof err->text, "%.200s: cannot be read", path);
    return data;
}
static tfm_status TEST_UNUSED tfm_safetensors_open_file(tfm_safetensors **file, const char *path,
                                                        const tfm_allocator *allocator,
                                                        tfm_error *err) {
    size_t size;
    void *data = test_read(path, &size, err);
    return data ? tfm_safetensors_open(file, data, size, allocator, err) : TFM_E_IO;
}
static tfm_status TEST_UNUSED tfm_model_load_file(tfm_model **model, const char *path,
                                                  const tfm_model_options *options,
                                                  tfm_error *err) {
    size_t size;
    void *data = test_read(path, &size, err);
    return data ? tfm_model_load(model, data, size, options, err) : TFM_E_IO;
}
#endif

/* The folder that test_open reads from. */
static const char *test_folder = "tests/data";
static tfm_safetensors TEST_UNUSED *test_open(const char *name) {
    char path[512];
    tfm_error err;
    tfm_safetensors *file = NULL;
    snprintf(path, sizeof path, "%s/%s", test_folder, name);
    if (tfm_safetensors_open_file(&file, path, NULL, &err) != TFM_OK) {
        printf("%s: %s\n", path, err.text);
        exit(2);
    }
    return file;
}

static int64_t TEST_UNUSED test_count(const tfm_tensor *t) {
    int64_t n = 1;
    int i;
    for (i = 0; i < t->rank; i++) n *= t->dims[i];
    return n;
}

/* Returns the tensor of that name as F32, BOOL, or I32 (integers); data is NULL if there is
   none. */
static tfm_tensor TEST_UNUSED test_get(const tfm_safetensors *file, const char *name) {
    int64_t i = tfm_safetensors_find(file, name);
    tfm_tensor t, none;
    tfm_dtype want;
    tfm_error err;
    memset(&none, 0, sizeof none);
    if (i < 0) return none;
    t = tfm_safetensors_tensor(file, i);
    want = t.dtype == TFM_DTYPE_I64 ? TFM_DTYPE_I32 : t.dtype;
    t = tfm_tensor_make(test_memory((size_t)test_count(&t) * 4), want, t.rank, t.dims);
    if (tfm_safetensors_read(file, i, want, t.data, &err) != TFM_OK) {
        printf("%s: %s\n", name, err.text);
        exit(2);
    }
    return t;
}

/* Makes a tensor of the same shape to compute into, full of NaN. */
static tfm_tensor TEST_UNUSED test_like(tfm_tensor t) {
    int64_t i, n = test_count(&t);
    t = tfm_tensor_make(test_memory((size_t)n * sizeof(float)), TFM_DTYPE_F32, t.rank, t.dims);
    for (i = 0; i < n; i++) ((float *)t.data)[i] = (float)NAN;
    return t;
}

/* Returns the largest absolute difference of two contiguous F32 tensors, or infinity if one has
   NaN. */
static double TEST_UNUSED test_difference(const tfm_tensor *a, const tfm_tensor *b) {
    double most = 0;
    int64_t i, n = test_count(a);
    if (n != test_count(b)) return INFINITY;
    for (i = 0; i < n; i++) {
        double d = fabs((double)((float *)a->data)[i] - (double)((float *)b->data)[i]);
        if (!(d <= most)) most = d;
        if (d != d) return INFINITY;
    }
    return most;
}

/* Computes an activation by its formula, in double. Returns NaN, which no test accepts, for an
   unknown one. */
static double TEST_UNUSED test_activation(tfm_activation kind, double x) {
    double cubic = x + 0.044715 * x * x * x;
    if (kind == TFM_ACTIVATION_RELU) return x < 0 ? 0 : x;
    if (kind == TFM_ACTIVATION_GELU) return x / 2 * (1 + erf(x * sqrt(0.5)));
    if (kind == TFM_ACTIVATION_GELU_TANH) return x / 2 * (1 + tanh(sqrt(2 / acos(-1)) * cubic));
    if (kind == TFM_ACTIVATION_SWISH) return x / (1 + exp(-x));
    if (kind == TFM_ACTIVATION_GELU_SIGMOID) return x / (1 + exp(-1.702 * x));
    return (double)NAN;
}

/* Returns whether a message names a function that is neither the call's nor one to call first. */
static int TEST_UNUSED test_names_another(const char *call, const char *text) {
    const char *at = text;
    size_t n;
    for (; (at = strstr(at, "tfm_")) != NULL; at += n) {
        n = strspn(at, "abcdefghijklmnopqrstuvwxyz_");
        if (strncmp(at + n, " has ", 5) == 0) continue;
        if (at - text >= 5 && (!memcmp(at - 5, "call ", 5) || !memcmp(at - 3, "or ", 3))) continue;
        if (strncmp(at, call, n) != 0 || call[n] != '(') return 1;
    }
    return 0;
}

/* Checks that a call succeeds. It is a step: it counts only when it fails. Returns whether it
   did. */
#define CHECK_OK(call, err) test_ok(call, #call, __FILE__, __LINE__, err)
static int TEST_UNUSED test_ok(tfm_status status, const char *call, const char *file, int line,
                               const tfm_error *err) {
    if (status == TFM_OK) return 1;
    test_check(0, call, file, line, "wanted status \"%s\", got \"%s\": %s", tfm_status_text(TFM_OK),
               tfm_status_text(status), err->text);
    return 0;
}

/* Writes up to so many ids as text, for the message of a check. */
static const char TEST_UNUSED *test_ids(char *text, size_t room, const int32_t *ids, int64_t n) {
    size_t at = 0;
    int64_t i;
    snprintf(text, room, "none");
    for (i = 0; i < n && at + 16 < room; i++)
        at += (size_t)snprintf(text + at, room - at, i ? " %d" : "%d", (int)ids[i]);
    return text;
}

/* Checks that a call fails with that status, and that its message contains that text. */
#define CHECK_FAILS(call, expected, says)                                                          \
    do {                                                                                           \
        tfm_status test_status = (call);                                                           \
        CHECK(test_status == (expected) && strstr(err.text, says) != NULL &&                       \
                  !test_names_another(#call, err.text),                                            \
              "%s: %s", tfm_status_text(test_status), err.text);                                   \
    } while (0)

#endif /* TRANSFORMER_H */

#ifdef TRANSFORMER_H
/* The modules' calls with their inputs as arguments. */
static tfm_status TEST_UNUSED test_dot_product(tfm_tensor *context, tfm_tensor *weights,
                                               const tfm_tensor *query, const tfm_tensor *key,
                                               const tfm_tensor *value, double scale,
                                               const tfm_masks *masks, tfm_arena *scratch,
                                               tfm_error *err) {
    tfm_attention_inputs inputs;
    inputs.query = query, inputs.key = key, inputs.value = value, inputs.masks = masks;
    return tfm_scaled_dot_product_attention(context, weights, &inputs, scale, scratch, err);
}
static tfm_status TEST_UNUSED test_multi_head(tfm_tensor *out, tfm_tensor *attention,
                                              const tfm_attention_weights *weights,
                                              const tfm_tensor *query, const tfm_tensor *key,
                                              const tfm_tensor *value, const tfm_masks *masks,
                                              tfm_arena *scratch, tfm_error *err) {
    tfm_attention_inputs inputs;
    inputs.query = query, inputs.key = key, inputs.value = value, inputs.masks = masks;
    return tfm_multi_head_attention(out, attention, weights, &inputs, scratch, err);
}
static tfm_status TEST_UNUSED test_decoder(tfm_tensor *out, tfm_tensor *self, tfm_tensor *cross,
                                           const tfm_decoder_weights *weights, const tfm_tensor *x,
                                           const tfm_tensor *memory, const tfm_masks *self_masks,
                                           const tfm_masks *cross_masks, tfm_arena *scratch,
                                           tfm_error *err) {
    tfm_decoder_inputs inputs;
    inputs.x = x, inputs.memory = memory;
    inputs.self_masks = self_masks, inputs.cross_masks = cross_masks;
    return tfm_decoder(out, self, cross, weights, &inputs, scratch, err);
}
static tfm_status TEST_UNUSED test_decoder_layer(
    tfm_tensor *out, tfm_tensor *self, tfm_tensor *cross, const tfm_decoder_layer_weights *weights,
    const tfm_tensor *x, const tfm_tensor *memory, const tfm_masks *self_masks,
    const tfm_masks *cross_masks, tfm_arena *scratch, tfm_error *err) {
    tfm_decoder_inputs inputs;
    inputs.x = x, inputs.memory = memory;
    inputs.self_masks = self_masks, inputs.cross_masks = cross_masks;
    return tfm_decoder_layer(out, self, cross, weights, &inputs, scratch, err);
}

#ifndef TRANSFORMER_NO_TEXT
/* tfm_session_tokenize with its outputs as arguments. left_out NULL: too many tokens are an
   error. */
static tfm_status TEST_UNUSED session_tokens(tfm_session *session, const tfm_text *text,
                                             tfm_text_form form, int32_t *ids, tfm_span *spans,
                                             int32_t capacity, int32_t *count, int32_t *left_out,
                                             tfm_error *err) {
    tfm_tokens tokens;
    tfm_status status;
    memset(&tokens, 0, sizeof tokens);
    tokens.ids = ids, tokens.spans = spans, tokens.capacity = capacity;
    tokens.truncate = left_out != NULL;
    tokens.n = *count, tokens.left_out = left_out ? *left_out : 0;
    status = tfm_session_tokenize(session, text, form, &tokens, err);
    *count = tokens.n;
    if (left_out) *left_out = tokens.left_out;
    return status;
}
#endif
#endif /* TRANSFORMER_H */

#endif
