/* forward.c: runs encoder and decoder of a model on given ids, to compare the results with PyTorch.

       cc -O2 -I. -DTRANSFORMER_IMPLEMENTATION tools/model/forward.c -o forward -lm
       forward MODEL IN.safetensors OUT.safetensors [--attention] [--not-causal]
       forward MODEL IN.safetensors OUT.safetensors --texts

   The usage text below defines the tensors of both files. */

#include "output.h"
#include "options.h"
#include "transformer.h"
#include "write_safetensors.h"
#include <stdarg.h>
#include <time.h>

enum { MOST_REPEATS = 1000, MOST_TEXT = 1 << 24 };

static const char usage[] =
    "usage: forward MODEL IN.safetensors OUT.safetensors [--attention] [--not-causal]\n"
    "               [--repeat N] [--texts] [--help]\n"
    "\n"
    "Runs the encoder of MODEL on the source ids in IN, and its decoder on the target ids in IN\n"
    "(teacher-forced), and writes the results to OUT.\n"
    "\n"
    "  IN   src [B, S], tgt [B, T]           I64 or I32\n"
    "       src_lengths [B], tgt_lengths [B]   optional: ids after a row's length are padding\n"
    "  OUT  memory [B, S, D], logits [B, T, V]\n"
    "\n"
    "  --attention   also writes encoder_attention [N, B, H, S, S], decoder_attention\n"
    "                [N, B, H, T, T] and cross_attention [N, B, H, T, S]. A model with SSRU\n"
    "                layers has no decoder_attention.\n"
    "  --not-causal  lets a target position see later positions too\n"
    "  --repeat N    makes the pass N times, 1 to 1000 (default 1). If N is above 1, prints the\n"
    "                median of the CPU times in milliseconds\n"
    "  --texts       compares text alone. IN has texts [n] U8, which are source texts, each with "
    "a\n"
    "                NUL after it, and tgt [B, T] (tgt_lengths). OUT has ids [n, S], with -1 "
    "after\n"
    "                the ids of a text, and texts [n] U8, the texts of tgt in the same form\n"
    "\n"
    "OUT is replaced as a whole or not at all. It must be a regular file or a new name, not a\n"
    "symbolic link.\n"
    "\n"
    "Exit status: 0 done, 1 an error in a file, 2 an error in the command line.\n";

/* The rows of two tensors: ids and, if the file has them, the number of ids of each row. */
typedef struct id_rows {
    tfm_tensor all, lengths;
    tfm_ids *ids;        /* [rows] */
    int32_t rows, width; /* width: of the longest row */
} id_rows;

/* One run: the command line, and everything that release frees at the end. */
typedef struct task {
    const char *model_path, *in_path, *out_path;
    int want_attention, not_causal, repeat, texts;
    tfm_model *model;
    tfm_session *session;
    tfm_safetensors *in;
    id_rows src, tgt;
    tfm_request *requests;
    tfm_tensor logits;
    tfm_forward_options forward;
} task;

/* Prints the error message of the program, and returns 0. */
static int fail(const char *file, const char *cause) { return output_fail("forward", file, cause); }

/* Allocates a row-major tensor, which release frees. */
static int make_tensor(const char *file, tfm_tensor *tensor, tfm_dtype dtype, int rank,
                       const int64_t *dims) {
    tfm_tensor t = tfm_tensor_make(NULL, dtype, rank, dims);
    int64_t bytes = st_bytes(&t);
    if (bytes >= 0 && (uint64_t)bytes <= SIZE_MAX / 2) t.data = malloc(bytes ? (size_t)bytes : 1);
    if (!t.data) return fail(file, "not enough memory for its batch");
    *tensor = t;
    return 1;
}

/* Reads a tensor of integers. If the file lacks it, tensor->data stays NULL. */
static int read_integers(const task *t, const char *name, int rank, tfm_tensor *tensor) {
    int64_t i = tfm_safetensors_find(t->in, name);
    tfm_tensor stored;
    tfm_error err;
    char cause[128];
    int d;
    if (i < 0) return 1;
    stored = tfm_safetensors_tensor(t->in, i);
    for (d = 0; d < stored.rank; d++)
        if (stored.dims[d] < 1 || stored.dims[d] > INT32_MAX) break;
    if (stored.rank != rank || d < rank) {
        snprintf(cause, sizeof cause, "tensor '%s' has rank %d or an empty row, expected rank %d",
                 name, stored.rank, rank);
        return fail(t->in_path, cause);
    }
    if (!make_tensor(t->in_path, tensor, TFM_DTYPE_I32, rank, stored.dims)) return 0;
    return tfm_safetensors_read(t->in, i, TFM_DTYPE_I32, tensor->data, &err) == TFM_OK ||
           fail(t->in_path, err.text);
}

static int read_rows(const task *t, const char *name, id_rows *to) {
    char lengths_name[32], cause[128];
    int32_t row;
    snprintf(lengths_name, sizeof lengths_name, "%s_lengths", name);
    if (!read_integers(t, name, 2, &to->all) || !read_integers(t, lengths_name, 1, &to->lengths))
        return 0;
    if (!to->all.data) {
        snprintf(cause, sizeof cause, "tensor '%s' is missing", name);
        return fail(t->in_path, cause);
    }
    if (to->lengths.data && to->lengths.dims[0] != to->all.dims[0]) {
        snprintf(cause, sizeof cause, "tensor '%s' has %lld entries for %lld rows", lengths_name,
                 (long long)to->lengths.dims[0], (long long)to->all.dims[0]);
        return fail(t->in_path, cause);
    }
    to->rows = (int32_t)to->all.dims[0];
    to->ids = (tfm_ids *)malloc((size_t)to->rows * sizeof *to->ids);
    if (!to->ids) return fail(NULL, "no memory");
    for (row = 0; row < to->rows; row++) {
        int32_t width = (int32_t)to->all.dims[1], n = width;
        if (to->lengths.data) n = ((const int32_t *)to->lengths.data)[row];
        if (n < 1 || n > width) {
            snprintf(cause, sizeof cause, "%s: row %d has length %d, expected 1 to %d", name,
                     (int)row, (int)n, (int)width);
            return fail(t->in_path, cause);
        }
        to->ids[row] = tfm_ids_make((const int32_t *)to->all.data + (int64_t)row * width, n);
        if (n > to->width) to->width = n;
    }
    return 1;
}

/* Rejects tensors with other names. A misspelt name, such as src_length, would otherwise silently
   have no effect. */
static int check_names(const task *t) {
    static const char *const known[] = {"src", "tgt", "src_lengths", "tgt_lengths", "texts"};
    char cause[200];
    int64_t i;
    size_t k;
    for (i = 0; i < tfm_safetensors_count(t->in); i++) {
        const char *name = tfm_safetensors_name(t->in, i);
        for (k = 0; k < 5 && strcmp(name, known[k]) != 0;) k++;
        if (k < 5 && (k < 4 || t->texts)) continue;
        snprintf(cause, sizeof cause,
                 "tensor '%.80s' is none of src, tgt, src_lengths, tgt_lengths", name);
        return fail(t->in_path, cause);
    }
    return 1;
}

static int make_attention(const task *t, tfm_tensor *tensor, int32_t layers, int32_t batch,
                          int32_t queries, int32_t keys) {
    int64_t dims[5];
    dims[0] = layers, dims[1] = batch, dims[2] = tfm_model_config(t->model)->n_heads;
    dims[3] = queries, dims[4] = keys;
    return !t->want_attention || make_tensor(t->in_path, tensor, TFM_DTYPE_F32, 5, dims);
}

static int make_outputs(task *t) {
    const tfm_config *c = tfm_model_config(t->model);
    tfm_forward_options *f = &t->forward;
    int64_t dims[3];
    int32_t B = t->tgt.rows, S = t->src.width, T = t->tgt.width;
    dims[0] = B, dims[1] = T, dims[2] = c->tgt_vocab_size;
    return make_tensor(t->in_path, &t->logits, TFM_DTYPE_F32, 3, dims) &&
           make_attention(t, &f->encoder_attention, c->n_encoder_layers, B, S, S) &&
           (c->n_ssru_layers ||
            make_attention(t, &f->decoder_attention, c->n_decoder_layers, B, T, T)) &&
           make_attention(t, &f->cross_attention, c->n_decoder_layers, B, T, S);
}

static int write_outputs(const task *t) {
    st_writer w;
    const char *fault;
    st_init(&w);
    st_add(&w, "memory", tfm_session_encoder_output(t->session));
    st_add(&w, "logits", t->logits);
    if (t->want_attention) {
        st_add(&w, "encoder_attention", t->forward.encoder_attention);
        if (t->forward.decoder_attention.data)
            st_add(&w, "decoder_attention", t->forward.decoder_attention);
        st_add(&w, "cross_attention", t->forward.cross_attention);
    }
    fault = st_write_file(&w, t->out_path);
    if (fault) fail(NULL, fault);
    st_free(&w);
    return !fault;
}

static int by_time(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static int run_passes(task *t) {
    double seconds[MOST_REPEATS];
    tfm_error err;
    int i;
    for (i = 0; i < t->repeat; i++) {
        clock_t start = clock();
        if (tfm_session_forward(t->session, t->requests, t->src.rows, t->tgt.ids, &t->forward,
                                &t->logits, &err) != TFM_OK)
            return fail(t->in_path, err.text);
        seconds[i] = (double)(clock() - start) / CLOCKS_PER_SEC;
    }
    qsort(seconds, (size_t)t->repeat, sizeof *seconds, by_time);
    if (t->repeat > 1)
        printf("median of %d passes: %.1f ms\n", t->repeat, 1e3 * seconds[t->repeat / 2]);
    return 1;
}

/* Turns a text into ids, in memory that the caller frees. Returns NULL after a message. */
static int32_t *ids_of(const task *t, tfm_text text, int32_t *n) {
    int32_t capacity = 20 * (int32_t)text.size + 64; /* normalization makes texts longer */
    tfm_arena scratch = tfm_arena_measuring();
    int32_t *ids = (int32_t *)malloc((size_t)capacity * sizeof *ids);
    void *memory = NULL;
    tfm_error err;
    tfm_status status = TFM_OK;
    if (ids)
        status = tfm_model_tokenize(t->model, text, TFM_TEXT_FORM_TEXT, ids, capacity, n, &scratch,
                                    &err);
    if (ids && status == TFM_OK && (memory = malloc(scratch.peak + 1)) != NULL) {
        scratch = tfm_arena_make(memory, scratch.peak);
        status = tfm_model_tokenize(t->model, text, TFM_TEXT_FORM_TEXT, ids, capacity, n, &scratch,
                                    &err);
    }
    free(memory);
    if (memory && status == TFM_OK) return ids;
    free(ids);
    fail(status == TFM_OK ? NULL : t->in_path, status == TFM_OK ? "no memory" : err.text);
    return NULL;
}

/* The ids of the source texts, one row each. */
static int read_texts(const task *t, tfm_tensor *out) {
    int64_t at = tfm_safetensors_find(t->in, "texts"), dims[2] = {0, 1};
    tfm_tensor texts;
    const char *data, *end;
    int32_t *ids, n, row = 0, pass;
    if (at < 0) return fail(t->in_path, "tensor 'texts' is missing");
    texts = tfm_safetensors_tensor(t->in, at);
    data = (const char *)texts.data;
    if (texts.dtype != TFM_DTYPE_U8 || texts.rank != 1 || texts.dims[0] > MOST_TEXT ||
        (texts.dims[0] && data[texts.dims[0] - 1]))
        return fail(t->in_path,
                    "tensor 'texts' is not [n] U8 with a NUL after each text, 16 MB at most");
    for (pass = 0; pass < 2; pass++) {
        for (data = (const char *)texts.data, end = data + texts.dims[0], row = 0; data < end;
             data += strlen(data) + 1, row++) {
            ids = ids_of(t, tfm_text_make(data, strlen(data)), &n);
            if (!ids) return 0;
            if (!pass && n > dims[1]) dims[1] = n;
            if (pass) memcpy((int32_t *)out->data + row * dims[1], ids, (size_t)n * sizeof *ids);
            free(ids);
        }
        if (!pass) {
            dims[0] = row;
            if (!make_tensor(t->in_path, out, TFM_DTYPE_I32, 2, dims)) return 0;
            memset(out->data, 0xFF, (size_t)(dims[0] * dims[1]) * sizeof *ids);
        }
    }
    return 1;
}

/* The texts of the target ids, each with a NUL after it. */
static int write_texts(task *t, tfm_tensor *out) {
    tfm_error err;
    size_t size, total = 0;
    int64_t n;
    int32_t i, pass;
    for (pass = 0; pass < 2; pass++) {
        for (i = 0, total = pass ? 0 : total; i < t->tgt.rows; i++, total += size + 1) {
            char *to = pass ? (char *)out->data + total : NULL;
            size = 0;
            if (tfm_model_detokenize(
                    t->model, t->tgt.ids[i].data, t->tgt.ids[i].n, TFM_TEXT_FORM_TEXT, to,
                    pass ? (size_t)out->dims[0] - total : 0, &size, &err) != TFM_OK)
                return fail(t->in_path, err.text);
        }
        n = (int64_t)total;
        if (!pass && !make_tensor(t->in_path, out, TFM_DTYPE_U8, 1, &n)) return 0;
    }
    return 1;
}

/* Compares text: --texts. */
static int run_texts(task *t) {
    tfm_tensor ids, texts;
    st_writer w;
    const char *fault = NULL;
    int done;
    memset(&ids, 0, sizeof ids), memset(&texts, 0, sizeof texts);
    done = read_rows(t, "tgt", &t->tgt) && read_texts(t, &ids) && write_texts(t, &texts);
    if (done) {
        st_init(&w), st_add(&w, "ids", ids), st_add(&w, "texts", texts);
        fault = st_write_file(&w, t->out_path);
        if (fault) done = fail(NULL, fault);
        st_free(&w);
    }
    free(ids.data), free(texts.data);
    return done;
}

static int run(task *t) {
    tfm_session_options limits;
    tfm_error err;
    int mode, i;
    const char *fault = output_refusal(t->out_path, &mode); /* finds an error in OUT early */
    if (fault) return fail(t->out_path, fault);
    if (tfm_model_load_file(&t->model, t->model_path, NULL, &err) != TFM_OK)
        return fail(NULL, err.text);
    if (tfm_safetensors_open_file(&t->in, t->in_path, NULL, &err) != TFM_OK)
        return fail(NULL, err.text);
    if (!check_names(t)) return 0;
    if (t->texts) return run_texts(t);
    if (!read_rows(t, "src", &t->src) || !read_rows(t, "tgt", &t->tgt)) return 0;
    if (t->src.rows != t->tgt.rows)
        return fail(t->in_path, "tensors 'src' and 'tgt' have different numbers of rows");
    t->requests = (tfm_request *)malloc((size_t)t->src.rows * sizeof *t->requests);
    if (!t->requests) return fail(NULL, "no memory");
    for (i = 0; i < t->src.rows; i++)
        t->requests[i] = tfm_request_ids(t->src.ids[i].data, t->src.ids[i].n);
    memset(&limits, 0, sizeof limits);
    limits.max_batch = t->src.rows;
    limits.max_source = t->src.width, limits.max_target = t->tgt.width;
    t->forward.not_causal = t->not_causal;
    /* the model is valid, so an error from here on means that IN does not fit it */
    if (tfm_session_create(&t->session, t->model, &limits, &err) != TFM_OK)
        return fail(t->in_path, err.text);
    return make_outputs(t) && run_passes(t) && write_outputs(t);
}

static void release(task *t) {
    free(t->src.all.data), free(t->src.lengths.data), free(t->src.ids);
    free(t->tgt.all.data), free(t->tgt.lengths.data), free(t->tgt.ids);
    free(t->requests);
    free(t->logits.data);
    free(t->forward.encoder_attention.data);
    free(t->forward.decoder_attention.data);
    free(t->forward.cross_attention.data);
    tfm_safetensors_free(t->in);
    tfm_session_free(t->session);
    tfm_model_free(t->model);
}

/* Ends the program with a message about the command line. */
static void misuse(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format), output_complain("forward", format, arguments), va_end(arguments);
    exit(2);
}

int main(int argc, char **argv) {
    static const char *paths[3];
    static int32_t repeat;
    static int attention, not_causal, texts;
    static option_entry table[] = {
        {"MODEL", NULL, OPTION_OPERAND, &paths[0], 0, 0, 0, NULL},
        {"IN", NULL, OPTION_OPERAND, &paths[1], 0, 0, 0, NULL},
        {"OUT", NULL, OPTION_OPERAND, &paths[2], 0, 0, 0, NULL},
        {"--attention", NULL, OPTION_FLAG, &attention, 0, 0, 0, NULL},
        {"--not-causal", NULL, OPTION_FLAG, &not_causal, 0, 0, 0, NULL},
        {"--texts", NULL, OPTION_FLAG, &texts, 0, 0, 0, NULL},
        {"--repeat", "N", OPTION_INTEGER, &repeat, 1, MOST_REPEATS, 0, NULL},
        {"--help", NULL, OPTION_STOP, NULL, 0, 0, 0, NULL}};
    task t;
    int done;
    memset(&t, 0, sizeof t);
    paths[2] = NULL, attention = not_causal = texts = 0,
    repeat = 1; /* the fuzzer calls main often */
    argv = utf8_arguments(&argc, argv);
    if (options_read(table, sizeof table / sizeof *table, argc, argv, misuse))
        return fputs(usage, stdout) < 0 || !output_finish("forward");
    if (!paths[2]) misuse("give MODEL, IN.safetensors and OUT.safetensors; see --help");
    t.texts = texts;
    t.want_attention = attention, t.not_causal = not_causal, t.repeat = repeat;
    t.model_path = paths[0], t.in_path = paths[1], t.out_path = paths[2];
    if (output_is_same(paths[0], paths[2]) || output_is_same(paths[1], paths[2])) {
        fail(paths[2], "is also an input file");
        return 2;
    }
    done = run(&t);
    release(&t);
    return !(done && output_finish("forward"));
}
