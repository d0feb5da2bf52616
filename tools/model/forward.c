/* forward.c: runs encoder and decoder of a model on given ids, to compare the results with PyTorch.

       cc -O2 -I. -DTRANSFORMER_IMPLEMENTATION tools/model/forward.c -o forward -lm
       forward MODEL IN.safetensors OUT.safetensors [--attention] [--not-causal]

   The usage text below defines the tensors of both files. */

#include "output.h"
#include "options.h"
#include "transformer.h"
#include "write_safetensors.h"
#include <stdarg.h>
#include <time.h>

enum { MOST_REPEATS = 1000 };

static const char usage[] =
    "usage: forward MODEL IN.safetensors OUT.safetensors [--attention] [--not-causal]\n"
    "               [--repeat N] [--help]\n"
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
    int want_attention, not_causal, repeat;
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
    static const char *const known[] = {"src", "tgt", "src_lengths", "tgt_lengths"};
    char cause[200];
    int64_t i;
    size_t k;
    for (i = 0; i < tfm_safetensors_count(t->in); i++) {
        const char *name = tfm_safetensors_name(t->in, i);
        for (k = 0; k < 4 && strcmp(name, known[k]) != 0;) k++;
        if (k < 4) continue;
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
    if (!check_names(t) || !read_rows(t, "src", &t->src) || !read_rows(t, "tgt", &t->tgt)) return 0;
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
    static int attention, not_causal;
    static option_entry table[] = {
        {"MODEL", NULL, OPTION_OPERAND, &paths[0], 0, 0, 0, NULL},
        {"IN", NULL, OPTION_OPERAND, &paths[1], 0, 0, 0, NULL},
        {"OUT", NULL, OPTION_OPERAND, &paths[2], 0, 0, 0, NULL},
        {"--attention", NULL, OPTION_FLAG, &attention, 0, 0, 0, NULL},
        {"--not-causal", NULL, OPTION_FLAG, &not_causal, 0, 0, 0, NULL},
        {"--repeat", "N", OPTION_INTEGER, &repeat, 1, MOST_REPEATS, 0, NULL},
        {"--help", NULL, OPTION_STOP, NULL, 0, 0, 0, NULL}};
    task t;
    int done;
    memset(&t, 0, sizeof t);
    paths[2] = NULL, attention = not_causal = 0, repeat = 1; /* the fuzzer calls main often */
    argv = utf8_arguments(&argc, argv);
    if (options_read(table, sizeof table / sizeof *table, argc, argv, misuse))
        return fputs(usage, stdout) < 0 || !output_finish("forward");
    if (!paths[2]) misuse("give MODEL, IN.safetensors and OUT.safetensors; see --help");
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
