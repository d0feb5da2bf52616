/* quantize.c: writes a model file with its matrices in another type, and packs them if asked.

       cc -O2 -I. tools/model/quantize.c -o quantize -lm
       quantize IN.safetensors OUT.safetensors int8|bf16|f16|f32 [--bits 7] [--packed]
                [--sentences WORD] [--source-language CODE] [--target-language CODE]

   tfm_model_options can convert matrices when a model is loaded. A converted file is smaller and
   loads faster, because that work is done already. The program maps the input if the system can,
   and converts one tensor at a time. So it needs memory for the largest tensor, not for the whole
   model.

   The program contains the implementation of transformer.h, because the library's table tfm__types
   says how panels are laid out. */

#include "output.h"
#include "options.h"
#if !defined(_WIN32) && !defined(__wasi__)
#define TRANSFORMER_MMAP
#endif
#ifndef TRANSFORMER_IMPLEMENTATION
#define TRANSFORMER_IMPLEMENTATION
#endif
#include "transformer.h"
#include "write_safetensors.h"
#include <float.h>
#include <stdarg.h>
#ifdef TRANSFORMER_MMAP
#include <sys/mman.h>
#endif

static const char usage[] =
    "usage: quantize IN.safetensors OUT.safetensors int8|bf16|f16|f32 [--bits 7] [--packed]\n"
    "                [--sentences split|whole] [--source-language CODE] [--target-language CODE]\n"
    "\n"
    "Writes the model IN to OUT with its matrices in another type. Biases, norms and learned\n"
    "positions become F32. Texts, metadata and tensors extra.* do not change. IN may have F32,\n"
    "F16, BF16 and int8.\n"
    "\n"
    "  int8  w = q * scale[row]: one scale per row, which is its largest absolute value / 127\n"
    "  bf16  bfloat16: the upper half of a float\n"
    "  f16   half precision; a number beyond 65504 is an error\n"
    "  f32   single precision, for programs that read no other type\n"
    "\n"
    "  --bits 7  int8 with q from -63 to 63, and the largest absolute value / 63 as the scale. "
    "CPUs\n"
    "            with AVX2 and without VNNI multiply such matrices faster, but rounding errors "
    "are\n"
    "            twice as large. Rows of IN that are so already, and embeddings that are only\n"
    "            looked up, do not change. Default: 8\n"
    "  --packed  stores matrices in the order in which the library reads them when it multiplies\n"
    "            (see tools/convert/README.md). translate --map uses such a file without a copy,\n"
    "            and processes share its pages. Default: rows, as in IN\n"
    "  --sentences split|whole\n"
    "            states in OUT what the model reads at a time: a sentence, so texts are split, or "
    "a\n"
    "            whole text. Files of versions before 0.7.0 do not say it. Default: as in IN\n"
    "  --source-language CODE, --target-language CODE\n"
    "            states the languages of a model of one pair, such as de and en. Default: as in "
    "IN\n"
    "\n"
    "Prints what was written, and the largest error, as a fraction of the largest absolute value\n"
    "of its row.\n"
    "OUT is replaced as a whole or not at all, also after Ctrl-C. OUT must be a regular file or a\n"
    "new name, not a symbolic link.\n"
    "\n"
    "Exit status: 0 done, 1 an error in a file, 2 an error in the command line.\n";

/* The tensors of one type: how many, their bytes before and after, and the largest error. */
typedef struct account {
    int64_t tensors, before, after;
    double error;
} account;

enum { PIECES = 12 }; /* the most allocations that one tensor needs */

typedef struct job {
    tfm_safetensors *in;
    unsigned char *mapping; /* the mapped input, size bytes; NULL: the input was read instead */
    size_t size;
    int file;
    tfm_dtype want;
    int packed, seven;     /* seven: --bits 7 */
    const char *stated[3]; /* values of stated_fields; NULL: as in IN */
    tfm_model *model;      /* with --packed: the loaded model */
    int64_t query, value;  /* rows of in_proj for queries (and as many for keys), and for values */
    st_writer out;
    st_sink sink;       /* without a file: the first pass, which only collects names and shapes */
    void *made[PIECES]; /* allocations for the current tensor */
    int n_made;
    account matrices[TFM_DTYPE_COUNT], others;
    int64_t before, after;
} job;

static int fail(const char *subject, const char *cause) {
    return output_fail("quantize", subject, cause);
}

/* Allocates n elements of size bytes, which let_go frees once the current tensor is written. */
static void *take(job *j, int64_t n, size_t size) {
    void *memory = NULL;
    if ((uint64_t)n <= SIZE_MAX / 2 / size) memory = malloc(n ? (size_t)n * size : 1);
    if (memory) j->made[j->n_made++] = memory;
    return memory;
}

/* Adds a tensor to the output: its name and shape in the first pass, its data in the second. */
static void put(job *j, const char *name, tfm_tensor t) {
    if (j->sink.file) {
        st_put_at(&j->sink, &j->out, name, &t);
    } else {
        t.data = j;
        st_add(&j->out, name, t);
    }
}

/* Frees the allocations for tensor i, and the pages of the mapping that hold it. Without the latter
   the whole input would stay in memory until the end. */
static void let_go(job *j, int64_t i) {
#ifdef TRANSFORMER_MMAP
    tfm_tensor t = tfm_safetensors_tensor(j->in, i);
    size_t page = (size_t)sysconf(_SC_PAGESIZE), begin, end;
    if (j->mapping && j->sink.file) {
        begin = (size_t)((unsigned char *)t.data - j->mapping), end = begin + (size_t)st_bytes(&t);
        begin = (begin + page - 1) / page * page, end = end / page * page;
        if (begin < end && t.rank == 2) /* maps these pages anew, which drops the old ones */
            (void)mmap(j->mapping + begin, end - begin, PROT_READ, MAP_PRIVATE | MAP_FIXED, j->file,
                       (off_t)begin);
    }
#else
    (void)i;
#endif
    while (j->n_made) free(j->made[--j->n_made]);
}

/* ---- from the file to floats ---- */

/* Reads the scales of tensor i, an I8 matrix. On an error returns 0 and leaves *scales
   unchanged. */
static int read_scales(job *j, int64_t i, const char *name, float **scales, tfm_error *err) {
    tfm_tensor t = tfm_safetensors_tensor(j->in, i), beside;
    char whole[512];
    int64_t at = -1;
    if (snprintf(whole, sizeof whole, "%s_scale", name) < (int)sizeof whole)
        at = tfm_safetensors_find(j->in, whole);
    if (at < 0) return fail(name, "is I8, but the file has no tensor with its scales, NAME_scale");
    beside = tfm_safetensors_tensor(j->in, at);
    if (beside.dtype != TFM_DTYPE_F32 || beside.rank != 1 || beside.dims[0] != t.dims[0])
        return fail(name, "its scales are not one F32 per row");
    if (!(*scales = (float *)take(j, t.dims[0], sizeof **scales))) return fail(name, "no memory");
    return tfm_safetensors_read(j->in, at, TFM_DTYPE_F32, *scales, err) == TFM_OK ||
           fail(whole, err->text);
}

/* Reads a row of a matrix as floats. scales: those of an I8 matrix, else NULL. */
static void read_row(const tfm_tensor *t, const float *scales, int64_t row, float *out) {
    int64_t width = t->dims[1], k;
    const unsigned char *x = (const unsigned char *)t->data +
                             row * width * tfm_dtype_bits(t->dtype) / 8;
    if (t->dtype != TFM_DTYPE_I8) tfm__widen(out, x, t->dtype, width);
    else
        for (k = 0; k < width; k++) out[k] = (float)((const signed char *)x)[k] * scales[row];
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

/* Returns element k as a reader of the output will compute it. */
static float written(tfm_dtype type, const void *data, int64_t k, float scale) {
    if (type == TFM_DTYPE_I8) return (float)((const int8_t *)data)[k] * scale;
    if (type == TFM_DTYPE_F16) return float_of_half(((const uint16_t *)data)[k]);
    if (type == TFM_DTYPE_BF16) return float_of_bf16(((const uint16_t *)data)[k]);
    return ((const float *)data)[k];
}

/* Returns the largest difference in a row, relative to its largest number. Numbers that are not
   finite do not change, so they do not count. */
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

/* Adds the tensor NAME_BESIDE. */
static int add_beside(job *j, const char *name, const char *beside, tfm_tensor t) {
    char whole[512];
    if (snprintf(whole, sizeof whole, "%s_%s", name, beside) >= (int)sizeof whole)
        return fail(name, "this name is too long");
    put(j, whole, t);
    j->others.tensors++;
    j->others.after += st_bytes(&t);
    return 1;
}

/* Adds the panels of a matrix, and for I8 its scales and sums. data NULL: only their shapes. */
static int add_panels(job *j, const char *name, const void *data, const float *scales, int64_t rows,
                      int64_t width, int64_t *after) {
    int64_t k_group = tfm__types[tfm__type_of_dtype(j->want)].k_group;
    int64_t padded = st_padded_rows(rows), i;
    tfm_tensor t = st_panels(NULL, j->want, rows, width, k_group),
               sums = st_sums(NULL, rows, width);
    float *out = NULL;
    if (data) {
        if (!(t.data = take(j, st_bytes(&t), 1))) return fail(name, "no memory");
        st_pack(&t, data, rows, width);
    }
    put(j, name, t);
    *after += st_bytes(&t);
    if (j->want != TFM_DTYPE_I8) return 1;
    if (data) {
        out = (float *)take(j, padded, sizeof *out), sums.data = take(j, st_bytes(&sums), 1);
        if (!out || !sums.data) return fail(name, "no memory");
        for (i = 0; i < padded; i++) out[i] = i < rows ? scales[i] : 0.0f;
        st_sum(&sums, (const int8_t *)data, rows, width);
    }
    return add_beside(j, name, "scale", tfm_tensor_1d(out, TFM_DTYPE_F32, padded)) &&
           add_beside(j, name, "sums", sums);
}

/* Writes the name of part 0, 1 or 2 of an in_proj tensor, such as NAME.q_proj.weight for
   NAME.in_proj_weight. Returns 0 if the name is too long. */
static int name_part(char *out, size_t size, const char *name, int part) {
    static const char *const parts[] = {"q_proj.", "k_proj.", "v_proj."};
    const char *in = strstr(name, "in_proj_");
    return snprintf(out, size, "%.*s%s%s", (int)(in - name), name, parts[part],
                    in + strlen("in_proj_")) < (int)size;
}

/* Adds a packed matrix. An in_proj becomes three matrices, for query, key and value, because the
   library multiplies with each of them alone. data NULL: only their shapes. */
static int add_packed(job *j, const char *name, const char *data, const float *scales, int64_t rows,
                      int64_t width, int64_t *after) {
    char part[512];
    int64_t at = 0, n;
    int i;
    if (!strstr(name, "in_proj_weight"))
        return add_panels(j, name, data, scales, rows, width, after);
    for (i = 0; i < 3; i++, at += n) {
        n = i < 2 ? j->query : j->value;
        if (!name_part(part, sizeof part, name, i)) return fail(name, "this name is too long");
        if (!add_panels(j, part, data ? data + at * width * tfm_dtype_bits(j->want) / 8 : NULL,
                        scales ? scales + at : NULL, n, width, after))
            return 0;
    }
    return 1;
}

/* Returns 1 if the library multiplies with a matrix, so packing helps. It multiplies with an
   embedding only if the model has no generator: with the target embedding, or with the source
   embedding if both sides share one. */
static int is_multiplied(const job *j, const char *name) {
    if (!strstr(name, "_embedding.weight")) return 1;
    return tfm_safetensors_find(j->in, "generator.weight") < 0 &&
           (name[0] == 't' || tfm_safetensors_find(j->in, "tgt_embedding.weight") < 0);
}

/* Returns 1 if --bits 7 narrows the matrix. */
static int is_narrowed(const job *j, const char *name) {
    return j->seven && is_multiplied(j, name);
}

/* Returns 1 if all of n int8 are from -63 to 63. */
static int fits_7_bits(const signed char *q, int64_t n) {
    int64_t k;
    for (k = 0; k < n; k++)
        if (q[k] > 63 || q[k] < -63) return 0;
    return 1;
}

/* Converts the rows of matrix t to the wanted type. scales: for I8, those of the input or
   output. */
static int convert(job *j, const char *name, const tfm_tensor *t, void *data, float *scales) {
    int64_t width = t->dims[1], row;
    size_t size = (size_t)tfm_dtype_bits(j->want) / 8;
    float *floats = (float *)take(j, width, sizeof *floats), scale = 1;
    account *sum = &j->matrices[t->dtype];
    if (!floats) return fail(name, "no memory");
    for (row = 0; row < t->dims[0]; row++) {
        const signed char *from = (const signed char *)t->data + row * width;
        char *to = (char *)data + (size_t)(row * width) * size;
        double error;
        int fits = 1;
        if (t->dtype == TFM_DTYPE_I8 && j->want == TFM_DTYPE_I8 && fits_7_bits(from, width)) {
            memcpy(to, from, (size_t)width); /* only --bits 7 converts I8 to I8 */
            continue;
        }
        read_row(t, scales, row, floats);
        if (j->want != TFM_DTYPE_I8) fits = st_row(j->want, to, floats, width, &scale);
        else scale = st_i8_row((int8_t *)to, floats, width, is_narrowed(j, name) ? 63 : 127);
        if (!fits || scale < 0)
            return fail(name, j->want == TFM_DTYPE_I8
                                  ? "has a number that is not finite"
                                  : "has a number beyond the range of the type");
        if (j->want == TFM_DTYPE_I8) scales[row] = scale;
        error = error_of(j->want, data, row * width, floats, width, scale);
        if (error > sum->error) sum->error = error;
    }
    return 1;
}

/* Adds a matrix in the wanted type, and its scales. */
static int add_matrix(job *j, int64_t i, const char *name, tfm_error *err) {
    tfm_tensor t = tfm_safetensors_tensor(j->in, i);
    int64_t rows = t.dims[0], width = t.dims[1];
    account *sum = &j->matrices[t.dtype];
    int is_kept = t.dtype == TFM_DTYPE_I8 && j->want == TFM_DTYPE_I8 &&
                  !is_narrowed(j, name); /* I8 stays I8: copied, not converted */
    int has_scales = j->want == TFM_DTYPE_I8 &&
                     (j->packed || !is_kept); /* else add_tensor copies them */
    void *data = NULL;
    float *scales = NULL;
    char beside[512];
    sum->tensors++;
    sum->before += st_bytes(&t);
    if (snprintf(beside, sizeof beside, "%s_scale", name) >= (int)sizeof beside)
        return fail(name, "this name is too long");
    if (has_scales && tfm_safetensors_find(j->in, beside) >= 0 && t.dtype != TFM_DTYPE_I8)
        return fail(beside, "is the name of scales, but the matrix is not I8");
    if (j->sink.file) {
        if (t.dtype == TFM_DTYPE_I8 && !read_scales(j, i, name, &scales, err)) return 0;
        if (!scales && !(scales = (float *)take(j, rows, sizeof *scales)))
            return fail(name, "no memory");
        data = is_kept ? t.data : take(j, rows * width, (size_t)tfm_dtype_bits(j->want) / 8);
        if (!data) return fail(name, "no memory");
        if (!is_kept && !convert(j, name, &t, data, scales)) return 0;
    }
    if (j->packed && is_multiplied(j, name))
        return add_packed(j, name, (const char *)data, scales, rows, width, &sum->after);
    put(j, name, tfm_tensor_2d(data, j->want, rows, width));
    sum->after += rows * width * tfm_dtype_bits(j->want) / 8;
    return !has_scales || add_beside(j, name, "scale", tfm_tensor_1d(scales, TFM_DTYPE_F32, rows));
}

/* Returns 1 for the scales of an I8 matrix that add_matrix reads. They must not be copied. */
static int is_read_with_matrix(const job *j, const char *name) {
    char of[512];
    size_t n = strlen(name);
    int64_t i;
    tfm_tensor t;
    if (!st_is_scale(name) || n >= sizeof of) return 0;
    memcpy(of, name, n - 6);
    of[n - 6] = 0;
    if (j->want == TFM_DTYPE_I8 && !j->packed && !is_narrowed(j, of)) return 0;
    i = tfm_safetensors_find(j->in, of);
    if (i < 0) return 0;
    t = tfm_safetensors_tensor(j->in, i);
    return t.dtype == TFM_DTYPE_I8 && st_is_matrix(of, &t);
}

/* Adds in_proj_bias in three parts, as add_packed does with its matrix. */
static int add_bias(job *j, const char *name, const tfm_tensor *t) {
    char part[512];
    float *data = (float *)t->data;
    int i;
    for (i = 0; i < 3; i++) {
        int64_t n = i < 2 ? j->query : j->value;
        if (!name_part(part, sizeof part, name, i)) return fail(name, "this name is too long");
        put(j, part, tfm_tensor_1d(data, TFM_DTYPE_F32, n));
        data = data ? data + n : NULL;
    }
    j->others.after += st_bytes(t);
    return 1;
}

static int add_tensor(job *j, int64_t i, tfm_error *err) {
    tfm_tensor t = tfm_safetensors_tensor(j->in, i);
    const char *name = tfm_safetensors_name(j->in, i);
    int is_float = t.dtype == TFM_DTYPE_F32 || t.dtype == TFM_DTYPE_F16 ||
                   t.dtype == TFM_DTYPE_BF16;
    j->before += st_bytes(&t);
    if (is_read_with_matrix(j, name)) {
        j->others.before += st_bytes(&t);
        return 1;
    }
    if (st_is_matrix(name, &t) && (is_float || t.dtype == TFM_DTYPE_I8))
        return add_matrix(j, i, name, err);
    j->others.tensors++;
    j->others.before += st_bytes(&t);
    if (is_float ||
        tfm_dtype_bits(t.dtype) > 8) { /* the writer needs the byte order of this machine */
        tfm_dtype type = is_float && !st_is_extra(name) ? TFM_DTYPE_F32 : t.dtype;
        void *numbers = NULL;
        t = tfm_tensor_make(NULL, type, t.rank, t.dims);
        if (j->sink.file) {
            if (!(numbers = take(j, st_bytes(&t), 1))) return fail(name, "no memory");
            if (tfm_safetensors_read(j->in, i, type, numbers, err) != TFM_OK)
                return fail(name, err->text);
            t.data = numbers;
        }
    }
    if (j->packed && is_float && strstr(name, "in_proj_bias")) return add_bias(j, name, &t);
    j->others.after += st_bytes(&t);
    put(j, name, t);
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
    print_account("others", &j->others, TFM_DTYPE_COUNT); /* includes new scales */
    printf("%s: %lld tensors, %lld -> %lld bytes, %.2f of what it was\n", path,
           (long long)j->out.n_entries, (long long)j->before, (long long)after,
           j->before ? (double)after / (double)j->before : 1.0);
}

/* Returns the config of a packed file, in memory that the caller frees. It states all sizes,
   because a reader cannot see them in the shapes of panels. */
static char *pack_config(const char *text, const tfm_config *c) {
    const struct {
        const char *name;
        int32_t size;
    } fields[] = {{"packed", TFM__PACKED_LAYOUT},
                  {"d_model", c->d_model},
                  {"d_ff", c->d_ff},
                  {"d_ff_decoder", c->d_ff_decoder},
                  {"d_key", c->d_key},
                  {"d_value", c->d_value},
                  {"src_vocab_size", c->src_vocab_size},
                  {"tgt_vocab_size", c->tgt_vocab_size},
                  {"d_input", c->d_input},
                  {"d_memory", c->d_memory},
                  {"n_kv_heads", c->n_kv_heads},
                  {"n_kv_heads_decoder", c->n_kv_heads_decoder}};
    size_t n = (size_t)(strrchr(text, '}') - text), room = strlen(text) + 400, i;
    char *out = (char *)malloc(room), *key = (char *)malloc(room);
    if (out && key) {
        memcpy(out, text, n);
        for (i = 0; i < sizeof fields / sizeof *fields; i++) {
            /* leaves out a size that has its default value; older versions do not know the last
               keys */
            int is_there = strcmp(fields[i].name, "d_ff_decoder") == 0 ? c->d_ff_decoder == c->d_ff
                           : strncmp(fields[i].name, "d_input", 7) == 0
                               ? c->d_input == c->d_model || !c->d_input
                               : strncmp(fields[i].name, "d_memory", 8) == 0 &&
                                     c->d_memory == c->d_model;
            is_there |= strncmp(fields[i].name, "n_kv", 4) == 0 && fields[i].size == c->n_heads;
            tfm__json json = {text, text, text + strlen(text)};
            while (tfm__json_member(&json, key) && tfm__json_value(&json, 0) >= 0)
                is_there |= strcmp(key, fields[i].name) == 0;
            if (!is_there)
                n += (size_t)snprintf(out + n, room - n, ", \"%s\": %d", fields[i].name,
                                      (int)fields[i].size);
        }
        snprintf(out + n, room - n, "}");
    } else {
        free(out);
        out = NULL;
    }
    free(key);
    return out;
}

/* Returns whether a word may be the code of a language: 1 to 31 letters, digits, - and _. */
static int is_code(const char *word) {
    const size_t n = strlen(word);
    size_t i;
    for (i = 0; i < n; i++)
        if (!strchr("-_0123456789", word[i]) && !(word[i] >= 'a' && word[i] <= 'z') &&
            !(word[i] >= 'A' && word[i] <= 'Z'))
            return 0;
    return n && n < 32;
}

/* Fields of the config that options state. */
static const char *const stated_fields[] = {"sentences", "source_language", "target_language"};

/* Returns the config with the field as word, in memory that the caller frees; NULL without
   memory. */
static char *state_word(const char *text, const char *field, const char *word) {
    size_t size = strlen(text), room = size + strlen(word) + 64;
    char *key = (char *)malloc(room), *out = (char *)malloc(room);
    tfm__json json = {text, text, text + size};
    const char *end = strrchr(text, '}'), *from = end, *to = end;
    int is_empty = 1, is_there = 0;
    while (key && out && !is_there && tfm__json_member(&json, key)) {
        is_empty = 0, is_there = strcmp(key, field) == 0;
        if (is_there) from = json.at;
        if (tfm__json_value(&json, 0) < 0) break;
        if (is_there) to = json.at;
    }
    if (key && out && is_there)
        snprintf(out, room, "%.*s\"%s\"%s", (int)(from - text), text, word, to);
    else if (key && out)
        snprintf(out, room, "%.*s%s\"%s\": \"%s\"%s", (int)(from - text), text,
                 is_empty ? "" : ", ", field, word, to);
    if (!key) free(out), out = NULL;
    free(key);
    return out;
}

/* Compares pointers to spellings by their places in the text of a vocabulary. */
static int by_place(const void *a, const void *b) {
    const char *x = (*(const tfm__spelling *const *)a)->text;
    const char *y = (*(const tfm__spelling *const *)b)->text;
    return x < y ? -1 : x > y;
}

/* The order of a vocabulary's spellings, NAME_sorted. is_text: the spellings are those of a text
   and are sorted already, so their places are found again. */
static int add_order(job *j, const char *name, const tfm__vocabulary *v, int is_text) {
    int32_t *order = (int32_t *)take(j, v->n_spellings, sizeof *order);
    const tfm__spelling **placed = (const tfm__spelling **)take(j, v->n_spellings, sizeof *placed);
    int64_t i;
    if (!order || !placed) return fail(name, "no memory");
    for (i = 0; i < v->n_spellings; i++) placed[i] = tfm__sorted(v, i);
    for (i = 0; i < v->n_spellings; i++) order[i] = (int32_t)(placed[i] - v->spellings);
    if (is_text) {
        qsort(placed, (size_t)v->n_spellings, sizeof *placed, by_place);
        for (i = 0; i < v->n_spellings; i++) order[placed[i] - v->spellings] = (int32_t)i;
    }
    return add_beside(j, name, "sorted", tfm_tensor_1d(order, TFM_DTYPE_I32, v->n_spellings));
}

/* What loading makes of the texts of a side, "src" or "tgt", where the file has them. */
static int add_tables(job *j, const tfm__side *side) {
    char name[64];
    snprintf(name, sizeof name, "%s_vocabulary", side->name);
    if (tfm_safetensors_find(j->in, name) >= 0 && !add_order(j, name, &side->vocabulary, 1))
        return 0;
    snprintf(name, sizeof name, "%s_sentencepiece", side->name);
    if (tfm_safetensors_find(j->in, name) < 0 || !side->spm) return 1;
    return add_order(j, name, &side->spm->vocabulary, 0);
}

/* Loads the model, for what packing needs to know of it. Fails if IN is not a model. */
static int prepare_packed(job *j, const char *from, char **config) {
    const char *text = tfm_safetensors_metadata(j->in, "transformer.config");
    tfm_model_options options;
    tfm_model *model;
    tfm_error err;
    memset(&options, 0, sizeof options);
    options.in_place = 1, options.map = j->mapping != NULL;
    if (tfm_model_load_file(&model, from, &options, &err) != TFM_OK) return fail(NULL, err.text);
    j->query = (int64_t)model->config.n_heads * model->config.d_key;
    j->value = (int64_t)model->config.n_heads * model->config.d_value;
    *config = pack_config(text, &model->config);
    j->model = model;
    return *config || fail(from, "no memory");
}

/* Returns 1 if the file is packed: only panels have four dimensions. */
static int is_packed(const tfm_safetensors *in) {
    int64_t i;
    for (i = 0; i < tfm_safetensors_count(in); i++)
        if (tfm_safetensors_tensor(in, i).rank == 4) return 1;
    return 0;
}

/* Opens the input, mapped if possible. */
static int open_input(job *j, const char *from) {
    tfm_error err;
    tfm_status status;
#ifdef TRANSFORMER_MMAP
    struct stat about;
    void *data = MAP_FAILED;
    j->file = open(from, O_RDONLY);
    if (j->file >= 0 && fstat(j->file, &about) == 0 && S_ISREG(about.st_mode) &&
        about.st_size > 0 && (uint64_t)about.st_size <= SIZE_MAX / 2)
        data = mmap(NULL, j->size = (size_t)about.st_size, PROT_READ, MAP_PRIVATE, j->file, 0);
    if (data != MAP_FAILED) {
        j->mapping = (unsigned char *)data;
        status = tfm_safetensors_open(&j->in, data, j->size, NULL, &err);
        return status == TFM_OK || fail(from, err.text);
    }
#endif
    status = tfm_safetensors_open_file(&j->in, from, NULL, &err);
    return status == TFM_OK || fail(NULL, err.text);
}

/* Adds all tensors: their names and shapes in the first pass, their data in the second, when the
   header is written. */
static int add_all(job *j) {
    tfm_error err;
    int64_t i, n = tfm_safetensors_count(j->in);
    int good = 1;
    memset(j->matrices, 0, sizeof j->matrices), memset(&j->others, 0, sizeof j->others);
    j->before = 0;
    for (i = 0; i < n && good && !j->sink.failed; i++) good = add_tensor(j, i, &err), let_go(j, i);
    good = good &&
           (!j->packed || (add_tables(j, &j->model->source) && add_tables(j, &j->model->target)));
    while (j->n_made) free(j->made[--j->n_made]);
    return good;
}

static int quantize(job *j, const char *from, const char *to) {
    const char *fault;
    const char *key;
    char *config = NULL;
    output o;
    int64_t i;
    int mode, good;
    st_init(&j->out);
    fault = output_refusal(to, &mode); /* finds an error in OUT before the long work */
    if (fault) return fail(to, fault);
    if (!open_input(j, from)) return 0;
    if (is_packed(j->in)) return fail(from, "is packed; quantize the file that it was made from");
    if (j->packed && !prepare_packed(j, from, &config)) return 0;
    for (i = 0; i < 3; i++) {
        const char *text = config ? config : tfm_safetensors_metadata(j->in, "transformer.config");
        char *stated = NULL;
        if (!j->stated[i]) continue;
        if (text && strchr(text, '}')) stated = state_word(text, stated_fields[i], j->stated[i]);
        free(config);
        if (!text) return fail(from, "has no config: it is not a model file");
        if (!stated) return fail(from, "no memory, or its config is not JSON");
        config = stated;
    }
    for (i = 0; (key = tfm_safetensors_metadata_key(j->in, i)) != NULL; i++)
        st_add_metadata(&j->out, key,
                        config && strcmp(key, "transformer.config") == 0
                            ? config
                            : tfm_safetensors_metadata(j->in, key));
    free(config);
    if (!add_all(j)) return 0;
    if (j->out.fault[0]) return fail(NULL, j->out.fault);
    fault = output_open(&o, to);
    if (fault) return fail(to, fault);
    j->sink.file = o.stream;
    errno = 0;
    fault = st_put_head(&j->sink, &j->out, to);
    good = fault ? fail(NULL, fault) : add_all(j);
    if (!good) fault = "";
    else if (j->sink.failed) fault = errno ? strerror(errno) : "write error";
    fault = output_close(&o, fault);
    if (fault) return good ? fail(to, fault) : 0;
    print_report(j, to);
    return 1;
}

/* Ends the program with a message about the command line. */
static void misuse(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format), output_complain("quantize", format, arguments), va_end(arguments);
    exit(2);
}

int main(int argc, char **argv) {
    static const char *const names[] = {"int8", "bf16", "f16", "f32"};
    static const tfm_dtype types[] = {TFM_DTYPE_I8, TFM_DTYPE_BF16, TFM_DTYPE_F16, TFM_DTYPE_F32};
    static const char *words[3]; /* IN, OUT, type */
    static int is_packed;
    static int32_t bits;
    static const char *stated[3];
    static option_entry table[] = {
        {"IN", NULL, OPTION_OPERAND, &words[0], 0, 0, 0, NULL},
        {"OUT", NULL, OPTION_OPERAND, &words[1], 0, 0, 0, NULL},
        {"type", NULL, OPTION_OPERAND, &words[2], 0, 0, 0, NULL},
        {"--bits", "N", OPTION_INTEGER, &bits, 7, 8, 0, NULL},
        {"--packed", NULL, OPTION_FLAG, &is_packed, 0, 0, 0, NULL},
        {"--sentences", "WORD", OPTION_PATH, &stated[0], 0, 0, 0, NULL},
        {"--source-language", "CODE", OPTION_PATH, &stated[1], 0, 0, 0, NULL},
        {"--target-language", "CODE", OPTION_PATH, &stated[2], 0, 0, 0, NULL},
        {"--help", NULL, OPTION_STOP, NULL, 0, 0, 0, NULL}};
    job j;
    int i, ok, type = -1;
    memset(&j, 0, sizeof j);
    j.file = -1;
    words[2] = NULL, is_packed = 0, bits = 0;
    memset(stated, 0, sizeof stated); /* the fuzzer calls main more than once */
    argv = utf8_arguments(&argc, argv);
    if (options_read(table, sizeof table / sizeof *table, argc, argv, misuse))
        return fputs(usage, stdout) < 0 || !output_finish("quantize");
    j.packed = is_packed;
    for (i = 0; words[2] && i < 4; i++)
        if (strcmp(words[2], names[i]) == 0) type = i;
    if (type < 0) misuse("give IN, OUT and one of int8, bf16, f16, f32; see --help");
    if (stated[0] && strcmp(stated[0], "split") && strcmp(stated[0], "whole"))
        misuse("--sentences %s: give split or whole", stated[0]);
    for (i = 1; i < 3; i++)
        if (stated[i] && !is_code(stated[i]))
            misuse("--%s-language %s: give a code such as de or pt_BR",
                   i == 1 ? "source" : "target", stated[i]);
    if (bits && types[type] != TFM_DTYPE_I8)
        misuse("--bits is for int8, and the type is %s", names[type]);
    j.seven = bits == 7;
    memcpy(j.stated, stated, sizeof stated);
    if (output_is_same(words[0], words[1])) {
        fail(words[1], "is also the input file");
        return 2;
    }
    j.want = types[type];
    ok = quantize(&j, words[0], words[1]);
    st_free(&j.out);
    tfm_safetensors_free(j.in);
    tfm_model_free(j.model);
#ifdef TRANSFORMER_MMAP
    if (j.mapping) munmap(j.mapping, j.size);
    if (j.file >= 0) close(j.file);
#endif
    if (ok) ok = output_finish("quantize");
    return !ok;
}
