/* quantize.c: writes a model file with its matrices in another type.

       cc -O2 -I. -DTRANSFORMER_IMPLEMENTATION tools/quantize.c -o quantize -lm
       quantize IN.safetensors OUT.safetensors int8|bf16|f16|f32

   The same happens in memory where tfm_model_options ask for a type: a file that has it is smaller
   and loads without the work. */

#include "output.h"
#include "transformer.h"
#include "write_safetensors.h"
#include <float.h>

static const char usage[] =
    "usage: quantize IN.safetensors OUT.safetensors int8|bf16|f16|f32\n"
    "\n"
    "Writes the model IN to OUT with its matrices in another type; biases, norms and learned\n"
    "positions become F32, texts and metadata stay as they are. Reads F32, F16, BF16 and int8.\n"
    "\n"
    "  int8  w = q * scale[row]: symmetric, one scale per output channel, absmax / 127\n"
    "  bf16  bfloat16: the upper halves of floats\n"
    "  f16   half precision; a number beyond 65504 is a fault\n"
    "  f32   single precision, as other programs may want it\n"
    "\n"
    "Prints what was written, and the largest error, relative to the absmax of its row.\n"
    "OUT is the old file or the whole new one, never a piece of it, also after Ctrl-C; it must be\n"
    "a regular file or a new name, no symbolic link.\n"
    "\n"
    "Exit status: 0 done, 1 a fault in a file, 2 a fault in the command line.\n";

/* What was made of the tensors of one type in the file. */
typedef struct account {
    int64_t tensors, before, after;
    double error;
} account;

typedef struct job {
    tfm_safetensors *in;
    tfm_dtype want;
    st_writer out;
    void **made; /* data that the writer points to: at most two pieces a tensor */
    int64_t n_made;
    float *scratch; /* a matrix on its way from one type to another */
    int64_t room;
    account matrices[TFM_DTYPE_COUNT], others;
    int64_t before, after;
} job;

static int fail(const char *subject, const char *cause) {
    return output_fail("quantize", subject, cause);
}

/* Memory for n elements of so many bytes that lives until the file is written. */
static void *take(job *j, int64_t n, size_t size) {
    void *memory = NULL;
    if ((uint64_t)n <= SIZE_MAX / 2 / size) memory = malloc(n ? (size_t)n * size : 1);
    if (memory) j->made[j->n_made++] = memory;
    return memory;
}

static float *need_scratch(job *j, int64_t n) {
    if (n <= j->room) return j->scratch;
    free(j->scratch);
    j->room = 0;
    j->scratch = (uint64_t)n <= SIZE_MAX / 8 ? (float *)malloc((size_t)n * sizeof(float)) : NULL;
    if (j->scratch) j->room = n;
    return j->scratch;
}

static int64_t count_of(const tfm_tensor *t) {
    int64_t n = 1;
    int d;
    for (d = 0; d < t->rank; d++) n *= t->dims[d]; /* fits: the file holds them */
    return n;
}

/* ---- from the file to floats ---- */

/* Tensor i as floats into out; of I8, by the scales that stand beside it. */
static int read_floats(const job *j, int64_t i, float *out, tfm_error *err) {
    tfm_tensor t = tfm_safetensors_tensor(j->in, i), scales;
    const char *name = tfm_safetensors_name(j->in, i);
    char beside[512];
    int64_t at, row, k, rows = t.rank ? t.dims[0] : 1, width = rows ? count_of(&t) / rows : 0;
    if (t.dtype != TFM_I8)
        return tfm_safetensors_read(j->in, i, TFM_F32, out, err) == TFM_OK || fail(name, err->text);
    at = -1;
    if (snprintf(beside, sizeof beside, "%s_scale", name) < (int)sizeof beside)
        at = tfm_safetensors_find(j->in, beside);
    if (at < 0) return fail(name, "is I8 and has no scales beside it");
    scales = tfm_safetensors_tensor(j->in, at);
    if (t.rank != 2 || scales.dtype != TFM_F32 || scales.rank != 1 || scales.dims[0] != rows)
        return fail(name, "its scales are not one F32 for each row");
    for (row = 0; row < rows; row++) {
        const signed char *x = (const signed char *)t.data + row * width;
        float scale;
        memcpy(&scale, (const char *)scales.data + row * 4, sizeof scale); /* at any address */
        for (k = 0; k < width; k++) out[row * width + k] = (float)x[k] * scale;
    }
    return 1;
}

/* ---- from floats to the file ---- */

static float float_of_half(uint16_t bits) {
    int exponent = bits >> 10 & 31, fraction = bits & 1023;
    float size = exponent ? ldexpf((float)(1024 + fraction), exponent - 25)
                          : ldexpf((float)fraction, -24);
    return bits & 0x8000 ? -size : size;
}
static float float_of_bf16(uint16_t bits) {
    uint32_t wide = (uint32_t)bits << 16;
    float x;
    memcpy(&x, &wide, sizeof x);
    return x;
}

/* The value of element k as it was written. */
static float written(tfm_dtype type, const void *data, int64_t k, float scale) {
    if (type == TFM_I8) return (float)((const int8_t *)data)[k] * scale;
    if (type == TFM_F16) return float_of_half(((const uint16_t *)data)[k]);
    if (type == TFM_BF16) return float_of_bf16(((const uint16_t *)data)[k]);
    return ((const float *)data)[k];
}

/* The largest difference in a row, relative to its largest number; what is not finite is as it was. */
static double error_of(tfm_dtype type, const void *out, int64_t at, const float *row, int64_t n,
                       float scale) {
    double most = 0, off = 0;
    int64_t k;
    for (k = 0; k < n; k++) {
        double size = fabs((double)row[k]);
        double difference = fabs((double)row[k] - (double)written(type, out, at + k, scale));
        if (size <= FLT_MAX && size > most) most = size;
        if (difference <= FLT_MAX && difference > off) off = difference;
    }
    return most > 0 ? off / most : 0;
}

/* A matrix in the type that is wanted, and its scales. */
static int add_matrix(job *j, int64_t i, const char *name, tfm_error *err) {
    tfm_tensor t = tfm_safetensors_tensor(j->in, i);
    int64_t rows = t.dims[0], width = t.dims[1], row;
    size_t size = (size_t)st_bits(j->want) / 8;
    account *sum = &j->matrices[t.dtype];
    int is_kept = t.dtype == TFM_I8 && j->want == TFM_I8; /* bit by bit, and its scales too */
    void *data = is_kept ? t.data : take(j, rows * width, size);
    float *floats = j->want == TFM_F32 ? (float *)data : need_scratch(j, rows * width + 1);
    float *scales = NULL, scale = 1;
    char beside[512];
    sum->tensors++;
    sum->before += st_bytes(&t);
    sum->after += rows * width * (int64_t)size;
    if (j->want == TFM_I8 && !is_kept) scales = (float *)take(j, rows, sizeof *scales);
    if (!floats || !data || (j->want == TFM_I8 && !is_kept && !scales))
        return fail(name, "no memory");
    if (!read_floats(j, i, floats, err)) return 0;
    for (row = 0; row < rows && !is_kept; row++) {
        const float *x = floats + row * width;
        double error;
        if (!st_row(j->want, (char *)data + (size_t)(row * width) * size, x, width, &scale))
            return fail(name, j->want == TFM_I8 ? "has a number that is not finite"
                                                : "has a number beyond the range of the type");
        if (scales) scales[row] = scale;
        error = error_of(j->want, data, row * width, x, width, scale);
        if (error > sum->error) sum->error = error;
    }
    st_add(&j->out, name, tfm_tensor_2d(data, j->want, rows, width));
    if (!scales) return 1;
    if (snprintf(beside, sizeof beside, "%s_scale", name) >= (int)sizeof beside)
        return fail(name, "its name is too long");
    if (tfm_safetensors_find(j->in, beside) >= 0 && t.dtype != TFM_I8)
        return fail(beside, "belongs to no I8");
    st_add(&j->out, beside, tfm_tensor_1d(scales, TFM_F32, rows));
    j->others.tensors++;
    j->others.after += 4 * rows;
    return 1;
}

/* Whether tensor i is the scales of an I8 matrix, which become something else with it. */
static int is_read_with_matrix(const job *j, const char *name) {
    char of[512];
    size_t n = strlen(name);
    int64_t i;
    tfm_tensor t;
    if (j->want == TFM_I8 || !st_is_scale(name) || n >= sizeof of) return 0;
    memcpy(of, name, n - 6);
    of[n - 6] = 0;
    i = tfm_safetensors_find(j->in, of);
    if (i < 0) return 0;
    t = tfm_safetensors_tensor(j->in, i);
    return t.dtype == TFM_I8 && st_is_matrix(of, &t);
}

static int add_tensor(job *j, int64_t i, tfm_error *err) {
    tfm_tensor t = tfm_safetensors_tensor(j->in, i);
    const char *name = tfm_safetensors_name(j->in, i);
    int is_float = t.dtype == TFM_F32 || t.dtype == TFM_F16 || t.dtype == TFM_BF16;
    j->before += st_bytes(&t);
    if (is_read_with_matrix(j, name)) {
        j->others.before += st_bytes(&t);
        return 1;
    }
    if (st_is_matrix(name, &t) && (is_float || t.dtype == TFM_I8))
        return add_matrix(j, i, name, err);
    j->others.tensors++;
    j->others.before += st_bytes(&t);
    if (is_float) {
        float *floats = (float *)take(j, count_of(&t), sizeof *floats);
        if (!floats) return fail(name, "no memory");
        if (!read_floats(j, i, floats, err)) return 0;
        t = tfm_tensor_make(floats, TFM_F32, t.rank, t.dims);
    }
    j->others.after += st_bytes(&t);
    st_add(&j->out, name, t);
    return 1;
}

/* ---- the file ---- */

static void print_account(const char *what, const account *a, tfm_dtype want) {
    if (!a->tensors) return;
    printf("%-14s %5lld tensors %12lld -> %12lld bytes", what, (long long)a->tensors,
           (long long)a->before, (long long)a->after);
    if (want < TFM_DTYPE_COUNT) printf("   largest error %.2g of its row's largest", a->error);
    printf("\n");
}

static void print_report(const job *j, const char *path) {
    char what[64];
    int64_t after = j->others.after;
    int type;
    for (type = 0; type < TFM_DTYPE_COUNT; type++) {
        snprintf(what, sizeof what, "%s to %s", tfm_dtype_name((tfm_dtype)type),
                 tfm_dtype_name(j->want));
        print_account(what, &j->matrices[type], j->want);
        after += j->matrices[type].after;
    }
    print_account("others", &j->others, TFM_DTYPE_COUNT); /* new scales among them */
    printf("%s: %lld tensors, %lld -> %lld bytes, %.2f of what it was\n", path,
           (long long)j->out.n_entries, (long long)j->before, (long long)after,
           j->before ? (double)after / (double)j->before : 1.0);
}

static int quantize(job *j, const char *from, const char *to) {
    tfm_error err;
    const char *fault;
    const char *key;
    int64_t i, n;
    int mode;
    st_init(&j->out);
    fault = output_refusal(to, &mode); /* before the work */
    if (fault) return fail(to, fault);
    if (tfm_safetensors_open_file(&j->in, from, NULL, &err) != TFM_OK)
        return fail(err.status == TFM_E_IO ? NULL : from, err.text); /* TFM_E_IO names the file */
    n = tfm_safetensors_count(j->in);
    j->made = (void **)calloc((size_t)n + 1, 3 * sizeof *j->made);
    if (!j->made) return fail(from, "no memory");
    for (i = 0; (key = tfm_safetensors_metadata_key(j->in, i)) != NULL; i++)
        st_add_metadata(&j->out, key, tfm_safetensors_metadata(j->in, key));
    for (i = 0; i < n; i++)
        if (!add_tensor(j, i, &err)) return 0;
    fault = st_write_file(&j->out, to);
    if (fault) return fail(NULL, fault);
    print_report(j, to);
    return 1;
}

int main(int argc, char **argv) {
    static const char *const names[] = {"int8", "bf16", "f16", "f32"};
    static const tfm_dtype types[] = {TFM_I8, TFM_BF16, TFM_F16, TFM_F32};
    job j;
    int64_t k;
    int i, ok, type = -1;
    for (i = 1; i < argc; i++)
        if (strcmp(argv[i], "--help") == 0) return fputs(usage, stdout) < 0 || fflush(stdout) != 0;
    for (i = 0; argc == 4 && i < 4; i++)
        if (strcmp(argv[3], names[i]) == 0) type = i;
    if (type < 0) {
        fputs("quantize: IN, OUT and one of int8, bf16, f16, f32 are needed; see --help\n", stderr);
        return 2;
    }
    if (output_is_same(argv[1], argv[2])) {
        fail(argv[2], "is the file to be read");
        return 2;
    }
    memset(&j, 0, sizeof j);
    j.want = types[type];
    ok = quantize(&j, argv[1], argv[2]);
    st_free(&j.out);
    for (k = 0; k < j.n_made; k++) free(j.made[k]);
    free(j.made);
    free(j.scratch);
    tfm_safetensors_free(j.in);
    if (ok && (fflush(stdout) != 0 || ferror(stdout))) ok = fail("standard output", "write error");
    return !ok;
}
