/* write_safetensors.h: writes safetensors files, for the tools and the tests. The program must
   contain the implementation of transformer.h, which has the names of the types.

       st_writer w;
       const char *fault;
       st_init(&w);
       st_add(&w, "logits", logits);
       st_add_metadata(&w, "transformer.config", "{\"n_heads\": 8}");
       fault = st_write_file(&w, path);    NULL, or the error: "out.safetensors: ..."
       st_free(&w);

   Names and texts are copied. Data of tensors is not copied, so it must stay until the file is
   written. The write reports the first failed st_add too, so only the write needs a check. Strings
   must be UTF-8. Files are little-endian on every machine.

   The data section begins at a multiple of 64 bytes. Tensors whose number of bytes is a multiple of
   64 are first, so all of them (most matrices) are aligned to 64 bytes. The other tensors follow,
   those with larger elements first, so each is aligned to its elements. Otherwise the order is that
   of the calls.

   The last part of this header converts floats to other types, as tools/quantize writes them. */

#ifndef WRITE_SAFETENSORS_H
#define WRITE_SAFETENSORS_H

#include "transformer.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef OUTPUT_H
#define ST_STOPPED output_stopped
#else
#define ST_STOPPED() 0
#endif

enum {
    ST_ALIGN = 64,            /* alignment of the data section in the file */
    ST_MAX_HEADER = 100000000 /* readers reject longer headers */
};

typedef struct st_entry {
    char *name;
    tfm_tensor tensor;
    int64_t bytes;
    int64_t begin; /* position in the file, known once the header is written */
} st_entry;

typedef struct st_pair {
    char *key, *value;
} st_pair;

typedef struct st_writer {
    st_entry *entries; /* in the order of the file */
    st_pair *pairs;
    size_t n_entries, n_pairs;
    char fault[512]; /* the first error; "": none */
} st_writer;

/* The destination of bytes: a file, or memory that grows. */
typedef struct st_sink {
    FILE *file; /* NULL: memory */
    char *data;
    size_t size, room;
    int failed; /* nothing is written after a failure */
} st_sink;

/* Returns the bytes of a tensor without gaps, or -1 for bad dimensions or more than INT64_MAX
   bits. */
static inline int64_t st_bytes(const tfm_tensor *t) {
    int64_t bits = tfm_dtype_bits(t->dtype);
    int i, empty = 0;
    if (t->rank < 0 || t->rank > TFM_MAX_RANK || !bits) return -1;
    for (i = 0; i < t->rank; i++) {
        if (t->dims[i] < 0) return -1;
        if (t->dims[i] == 0) empty = 1;
    }
    for (i = 0; i < t->rank && !empty; i++) {
        if (bits > INT64_MAX / t->dims[i]) return -1;
        bits *= t->dims[i];
    }
    return empty ? 0 : bits % 8 ? -1 : bits / 8;
}

static inline void st_init(st_writer *w) { memset(w, 0, sizeof *w); }

static inline void st_free(st_writer *w) {
    size_t i;
    for (i = 0; i < w->n_entries; i++) free(w->entries[i].name);
    for (i = 0; i < w->n_pairs; i++) free(w->pairs[i].key), free(w->pairs[i].value);
    free(w->entries);
    free(w->pairs);
    st_init(w);
}

/* Stores the first error as "subject: what", and returns it. */
static inline const char *st_fail(st_writer *w, const char *subject, const char *what) {
    if (!w->fault[0]) snprintf(w->fault, sizeof w->fault, "%.400s: %.100s", subject, what);
    return w->fault;
}

static inline char *st_copy(const char *text) {
    size_t size = strlen(text) + 1;
    char *copy = (char *)malloc(size);
    if (copy) memcpy(copy, text, size);
    return copy;
}

/* Makes room for one more item in an array of n items. Returns 0 if there is no memory. */
static inline int st_grow(void **items, size_t n, size_t item_size) {
    void *larger;
    if (n >= SIZE_MAX / item_size - 1) return 0;
    larger = realloc(*items, (n + 1) * item_size);
    if (larger) *items = larger;
    return larger != NULL;
}

/* Returns 1 if a is before b in the file. Tensors whose bytes are a multiple of 64 are first, so
   the next address is a multiple of 64 again. Among the others, larger elements are first: a tensor
   then begins at a multiple of its element size. */
static inline int st_is_before(const st_entry *a, const st_entry *b) {
    int a_whole = a->bytes % ST_ALIGN == 0, b_whole = b->bytes % ST_ALIGN == 0;
    if (a_whole || b_whole) return a_whole && !b_whole;
    return tfm_dtype_bits(a->tensor.dtype) > tfm_dtype_bits(b->tensor.dtype);
}

/* Adds a tensor, which may have any strides. */
static inline void st_add(st_writer *w, const char *name, tfm_tensor tensor) {
    st_entry entry;
    void *items = w->entries;
    size_t i;
    if (w->fault[0]) return;
    entry.tensor = tensor;
    entry.bytes = st_bytes(&tensor);
    for (i = 0; i < w->n_entries; i++)
        if (strcmp(w->entries[i].name, name) == 0) {
            st_fail(w, name, "a second tensor of that name");
            return;
        }
    if (strcmp(name, "__metadata__") == 0) {
        st_fail(w, name, "no name for a tensor");
    } else if (entry.bytes < 0 ||
               (entry.bytes > 0 && (!tensor.data || tfm_dtype_bits(tensor.dtype) < 8))) {
        st_fail(w, name, "no data, a size out of range, or elements that share bytes");
    } else if ((entry.name = st_copy(name)) == NULL || !st_grow(&items, i, sizeof entry)) {
        free(entry.name);
        st_fail(w, name, "no memory");
    } else {
        w->entries = (st_entry *)items;
        for (; i > 0 && st_is_before(&entry, &w->entries[i - 1]); i--)
            w->entries[i] = w->entries[i - 1];
        w->entries[i] = entry;
        w->n_entries++;
    }
}

static inline void st_add_metadata(st_writer *w, const char *key, const char *value) {
    st_pair pair;
    void *items = w->pairs;
    size_t i;
    if (w->fault[0]) return;
    for (i = 0; i < w->n_pairs; i++)
        if (strcmp(w->pairs[i].key, key) == 0) {
            st_fail(w, key, "a second metadata value of that key");
            return;
        }
    pair.key = st_copy(key), pair.value = st_copy(value);
    if (!pair.key || !pair.value || !st_grow(&items, i, sizeof pair)) {
        free(pair.key), free(pair.value);
        st_fail(w, key, "no memory");
        return;
    }
    w->pairs = (st_pair *)items;
    w->pairs[w->n_pairs++] = pair;
}

/* Makes room for n more bytes in memory. */
static inline void st_reserve(st_sink *s, size_t n) {
    size_t room;
    char *larger;
    if (s->failed || s->room - s->size >= n) return;
    room = s->size < SIZE_MAX / 4 && n < SIZE_MAX / 4 ? s->size + s->size / 2 + n : 0;
    larger = room ? (char *)realloc(s->data, room) : NULL;
    if (!larger) {
        s->failed = 1;
        return;
    }
    s->data = larger;
    s->room = room;
}

/* Writes in pieces of 1 MB, and stops between pieces after a signal. */
static inline void st_put_stream(st_sink *s, const char *bytes, size_t n) {
    while (n && !s->failed) {
        size_t piece = n < 1 << 20 ? n : 1 << 20;
        s->failed = fwrite(bytes, 1, piece, s->file) != piece || ST_STOPPED();
        bytes += piece, n -= piece;
    }
}

static inline void st_put(st_sink *s, const void *bytes, size_t n) {
    if (s->file) {
        st_put_stream(s, (const char *)bytes, n);
        return;
    }
    st_reserve(s, n);
    if (s->failed) return;
    memcpy(s->data + s->size, bytes, n);
    s->size += n;
}

static inline void st_put_text(st_sink *s, const char *text) { st_put(s, text, strlen(text)); }

static inline void st_put_number(st_sink *s, int64_t n) {
    char digits[32];
    snprintf(digits, sizeof digits, "%lld", (long long)n);
    st_put_text(s, digits);
}

/* Writes text as a JSON string. */
static inline void st_put_string(st_sink *s, const char *text) {
    char escape[8];
    st_put_text(s, "\"");
    for (; *text; text++) {
        if ((unsigned char)*text < 0x20) {
            snprintf(escape, sizeof escape, "\\u%04x", (unsigned)*text & 0x1f);
            st_put_text(s, escape);
        } else {
            if (*text == '"' || *text == '\\') st_put_text(s, "\\");
            st_put(s, text, 1);
        }
    }
    st_put_text(s, "\"");
}

static inline void st_put_header(st_sink *s, const st_writer *w) {
    int64_t begin = 0;
    size_t i;
    int d;
    st_put_text(s, "{");
    for (i = 0; i < w->n_pairs; i++) {
        st_put_text(s, i ? "," : "\"__metadata__\":{");
        st_put_string(s, w->pairs[i].key);
        st_put_text(s, ":");
        st_put_string(s, w->pairs[i].value);
    }
    if (w->n_pairs) st_put_text(s, w->n_entries ? "}," : "}");
    for (i = 0; i < w->n_entries; i++) {
        const st_entry *e = &w->entries[i];
        if (i) st_put_text(s, ",");
        st_put_string(s, e->name);
        st_put_text(s, ":{\"dtype\":\"");
        st_put_text(s, tfm_dtype_name(e->tensor.dtype));
        st_put_text(s, "\",\"shape\":[");
        for (d = 0; d < e->tensor.rank; d++) {
            if (d) st_put_text(s, ",");
            st_put_number(s, e->tensor.dims[d]);
        }
        st_put_text(s, "],\"data_offsets\":[");
        st_put_number(s, begin);
        st_put_text(s, ",");
        st_put_number(s, begin += e->bytes);
        st_put_text(s, "]}");
    }
    st_put_text(s, "}");
    while (!s->failed && (8 + s->size) % ST_ALIGN) st_put_text(s, " ");
}

/* Writes n elements of width bytes, each with its lowest byte first. */
static inline void st_put_elements(st_sink *s, const char *data, size_t n, size_t width) {
    static const unsigned one = 1;
    size_t i, k;
    if (*(const unsigned char *)&one || width < 2) {
        st_put(s, data, n * width);
        return;
    }
    for (i = 0; i < n; i++)
        for (k = width; k > 0; k--) st_put(s, data + i * width + k - 1, 1);
}

/* Writes the elements in row-major order. It writes the longest contiguous stretches at once. */
static inline void st_put_tensor(st_sink *s, const tfm_tensor *t) {
    int64_t index[TFM_MAX_RANK], stretch = 1, at;
    size_t width = (size_t)tfm_dtype_bits(t->dtype) / 8, parts = t->dtype == TFM_DTYPE_C64 ? 2 : 1;
    int outer = t->rank, i;
    while (outer > 0 && (t->dims[outer - 1] == 1 || t->strides[outer - 1] == stretch))
        stretch *= t->dims[--outer];
    memset(index, 0, sizeof index);
    do {
        for (at = 0, i = 0; i < outer; i++) at += index[i] * t->strides[i];
        st_put_elements(s, (const char *)t->data + at * (int64_t)width, (size_t)stretch * parts,
                        width / parts);
        for (i = outer - 1; i >= 0 && ++index[i] == t->dims[i]; i--) index[i] = 0;
    } while (i >= 0 && !s->failed);
}

/* Writes the header. If the destination is memory, allocates room for the whole file at once. */
static inline const char *st_put_head(st_sink *s, st_writer *w, const char *subject) {
    st_sink header;
    unsigned char length[8];
    int64_t data = 0;
    size_t i;
    if (w->fault[0]) return w->fault;
    for (i = 0; i < w->n_entries; i++) {
        if (w->entries[i].bytes > INT64_MAX - 2 * ST_MAX_HEADER - data)
            return st_fail(w, subject, "too many bytes");
        w->entries[i].begin = data;
        data += w->entries[i].bytes;
    }
    memset(&header, 0, sizeof header);
    st_put_header(&header, w);
    if (header.failed || header.size > ST_MAX_HEADER) {
        free(header.data);
        return st_fail(w, subject, "the header is too long, or there is no memory for it");
    }
    for (i = 0; i < w->n_entries; i++)
        w->entries[i].begin += (int64_t)(sizeof length + header.size);
    for (i = 0; i < 8; i++) length[i] = (unsigned char)((uint64_t)header.size >> 8 * i & 0xff);
    if (!s->file && (uint64_t)data > SIZE_MAX / 4) s->failed = 1;
    if (!s->file) st_reserve(s, sizeof length + header.size + (size_t)data);
    st_put(s, length, sizeof length);
    st_put(s, header.data, header.size);
    free(header.data);
    return NULL;
}

static inline const char *st_put_file(st_sink *s, st_writer *w, const char *subject) {
    const char *fault = st_put_head(s, w, subject);
    size_t i;
    for (i = 0; !fault && i < w->n_entries; i++)
        if (w->entries[i].bytes) st_put_tensor(s, &w->entries[i].tensor);
    return fault;
}

#ifdef OUTPUT_H
/* Writes the data of one tensor to its place in the file, after st_put_head. So the tensors of a
   file can be written one by one, in any order, and never need memory together. st_add then only
   needs the shape, and any pointer that is not NULL. */
static inline void st_put_at(st_sink *s, const st_writer *w, const char *name,
                             const tfm_tensor *t) {
    size_t i = 0;
    while (i < w->n_entries && strcmp(w->entries[i].name, name) != 0) i++;
    if (i == w->n_entries || !w->entries[i].bytes || s->failed) return;
#ifdef _WIN32
    s->failed = _fseeki64(s->file, w->entries[i].begin, SEEK_SET) != 0;
#else
    if (ftello(s->file) != (off_t)w->entries[i].begin) /* a seek would empty the buffer */
        s->failed = fseeko(s->file, (off_t)w->entries[i].begin, SEEK_SET) != 0;
#endif
    if (!s->failed) st_put_tensor(s, t);
}

/* Writes the file with output.h, which must be included first. So path is the old file or the
   complete new one, never a part. Returns NULL, or the error, which belongs to w. */
static inline const char *st_write_file(st_writer *w, const char *path) {
    st_sink s;
    output o;
    const char *fault = output_open(&o, path);
    if (fault) return st_fail(w, path, fault);
    memset(&s, 0, sizeof s);
    s.file = o.stream;
    errno = 0;
    fault = st_put_file(&s, w, path);
    if (!fault && s.failed) fault = errno ? strerror(errno) : "write error";
    fault = output_close(&o, fault);
    return fault ? st_fail(w, path, fault) : NULL;
}
#endif

/* Writes the file to memory, which the caller frees. On failure *data and *size are unchanged. */
static inline const char *st_write_memory(st_writer *w, void **data, size_t *size) {
    st_sink s;
    const char *fault;
    memset(&s, 0, sizeof s);
    fault = st_put_file(&s, w, "memory");
    if (!fault && s.failed) fault = st_fail(w, "memory", "not enough");
    if (fault) {
        free(s.data);
    } else {
        *data = s.data;
        *size = s.size;
    }
    return fault;
}

/* ---- weights of other types ----
   int8: w = q * scale[row], symmetric, one scale per output channel: absmax / 127. A row of zeros
   has scale 0. The scales of NAME are the F32 tensor NAME_scale. All rounding is to nearest, ties
   to even. */

/* Returns 1 for a tensor that is not the model's: a program's own. */
static inline int st_is_extra(const char *name) { return strncmp(name, "extra.", 6) == 0; }

/* Returns 1 for a matrix that may have another type than F32: a weight, but not learned positions
   and nothing of a program's own. */
static inline int st_is_matrix(const char *name, const tfm_tensor *t) {
    size_t n = strlen(name);
    if (t->rank != 2 || strstr(name, "_positions.weight") || st_is_extra(name)) return 0;
    return (n >= 7 && strcmp(name + n - 7, ".weight") == 0) ||
           (n >= 14 && strcmp(name + n - 14, "in_proj_weight") == 0);
}
static inline int st_is_scale(const char *name) {
    size_t n = strlen(name);
    return n >= 6 && strcmp(name + n - 6, "_scale") == 0;
}

static inline uint32_t st_float_bits(float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

/* Rounds a float to BF16, its upper half. A NaN stays a NaN. */
static inline uint16_t st_bf16(float x) {
    uint32_t bits = st_float_bits(x);
    if ((bits & 0x7FFFFFFF) > 0x7F800000) return (uint16_t)(bits >> 16 | 0x40);
    return (uint16_t)((bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
}

/* Rounds a float to F16. Numbers beyond 65504 become infinite; numbers below 2^-14 are multiples of
   2^-24. */
static inline uint16_t st_f16(float x) {
    uint32_t bits = st_float_bits(x), sign = bits >> 16 & 0x8000, rest = bits & 0x7FFFFFFF;
    uint32_t fraction, half, lost, shift = 13;
    if (rest > 0x7F800000) return (uint16_t)(sign | 0x7E00);
    if (rest >= 0x47800000) return (uint16_t)(sign | 0x7C00);
    if (rest < 0x33000000) return (uint16_t)sign; /* less than half of the smallest number */
    fraction = (rest & 0x7FFFFF) | 0x800000;
    if (rest < 0x38800000) {
        shift = 126 - (rest >> 23);
        half = fraction >> shift;
    } else {
        half = (rest - 0x38000000) >> 13;
    }
    lost = fraction & ((1u << shift) - 1);
    /* a carry may increase the exponent, up to infinity, which is the right result */
    if (lost > 1u << (shift - 1) || (lost == 1u << (shift - 1) && half & 1)) half++;
    return (uint16_t)(sign | half);
}

/* Quantizes a row of n floats to -most .. most, 127 or 63. Returns its scale, or -1 if a number is
   not finite. */
static inline float st_i8_row(int8_t *out, const float *row, int64_t n, float most) {
    float absmax = 0, factor;
    int64_t i;
    for (i = 0; i < n; i++) {
        float size = row[i] < 0 ? -row[i] : row[i];
        if ((st_float_bits(size) & 0x7FFFFFFF) >= 0x7F800000) return -1;
        if (size > absmax) absmax = size;
    }
    factor = absmax > 0 ? most / absmax
                        : 0.0f; /* the library computes this at load, and must get the same bits */
    for (i = 0; i < n; i++) {
        float q = rintf(row[i] * factor);
        /* q is beyond most only if absmax is so small that factor is infinite */
        out[i] = (int8_t)(q >= -most && q <= most ? q : 0);
    }
    return absmax / most;
}

/* Converts a row of n floats to F32, F16, BF16 or I8. For F32, out may be row. Returns 0 if a
   number is too large for the type. */
static inline int st_row(tfm_dtype type, void *out, const float *row, int64_t n, float *scale) {
    int64_t k;
    int fits = 1;
    *scale = 1;
    if (type == TFM_DTYPE_I8) {
        *scale = st_i8_row((int8_t *)out, row, n, 127);
        return *scale >= 0;
    }
    for (k = 0; k < n; k++) {
        int is_finite = (st_float_bits(row[k]) & 0x7FFFFFFF) < 0x7F800000;
        if (type == TFM_DTYPE_F16) {
            uint16_t half = ((uint16_t *)out)[k] = st_f16(row[k]);
            fits &= !is_finite || (half & 0x7C00) != 0x7C00;
        } else if (type == TFM_DTYPE_BF16) {
            uint16_t upper = ((uint16_t *)out)[k] = st_bf16(row[k]);
            fits &= !is_finite || (upper & 0x7F80) != 0x7F80;
        } else {
            ((float *)out)[k] = row[k];
        }
    }
    return fits;
}

/* ---- packed matrices ----
   Chapter 6 of the manual defines the panels of 16 rows. k_group is the number of columns that are
   next to each other in a panel; tfm__types has it for each type. */

enum {
    ST_PANEL = 16,
    ST_PADDING = 64,    /* scales and sums after those of the last panel; kernels may read them */
    ST_BLOCK = 2048,    /* columns that one sum adds up */
    ST_ZERO_POINT = 128 /* factor of the sums: kernels add it to x to make it unsigned */
};

static inline int64_t st_padded_rows(int64_t rows) {
    return (rows + ST_PANEL - 1) / ST_PANEL * ST_PANEL + ST_PADDING;
}

/* Returns the tensor of a matrix's panels. data may be NULL. */
static inline tfm_tensor st_panels(void *data, tfm_dtype type, int64_t rows, int64_t columns,
                                   int64_t k_group) {
    return tfm_tensor_4d(data, type, (rows + ST_PANEL - 1) / ST_PANEL,
                         (columns + k_group - 1) / k_group, ST_PANEL, k_group);
}

/* Packs rows into panels. Element [p, g, r, j] is row 16 p + r, column g k_group + j; it is zero
   beyond the last row or column. */
static inline void st_pack(const tfm_tensor *to, const void *from, int64_t rows, int64_t columns) {
    size_t size = (size_t)tfm_dtype_bits(to->dtype) / 8;
    char *out = (char *)to->data;
    int64_t p, k, r, j;
    for (p = 0; p < to->dims[0]; p++)
        for (k = 0; k < to->dims[1] * to->dims[3]; k += to->dims[3])
            for (r = p * ST_PANEL; r < (p + 1) * ST_PANEL; r++)
                for (j = k; j < k + to->dims[3]; j++, out += size)
                    if (r < rows && j < columns)
                        memcpy(out, (const char *)from + (size_t)(r * columns + j) * size, size);
                    else memset(out, 0, size);
}

/* Returns the tensor [blocks, padded rows] of the sums of int8 rows. */
static inline tfm_tensor st_sums(void *data, int64_t rows, int64_t columns) {
    return tfm_tensor_2d(data, TFM_DTYPE_I32, (columns + ST_BLOCK - 1) / ST_BLOCK,
                         st_padded_rows(rows));
}
static inline void st_sum(const tfm_tensor *to, const int8_t *from, int64_t rows, int64_t columns) {
    int32_t *sums = (int32_t *)to->data;
    int64_t r, k;
    for (k = 0; k < to->dims[0] * to->dims[1]; k++) sums[k] = 0;
    for (r = 0; r < rows; r++)
        for (k = 0; k < columns; k++)
            sums[k / ST_BLOCK * to->dims[1] + r] += ST_ZERO_POINT * from[r * columns + k];
}

#endif
