/* decode: decodes the requests on standard input. tests/tools/test_search.py compares its output
   with other engines.

       build/decode MODEL < requests

   A request is one line of key=value pairs with one space between them. The keys are the fields of
   tfm_decode_options, and src: ids with commas between them, sentences with semicolons between
   them. Models without source ids take vectors instead of src: the vectors of one sentence in the
   same form (embeddings or the memory). prefix, prompt and sequences use the same form. defaults=1
   begins with the options in the model file. For each hypothesis decode prints one line: sentence,
   rank, score, log-probability, finish, number of ids, and the ids. With attention=1 the next line
   holds its attention. With score=1 decode prints the log-probabilities of the targets tgt instead,
   from token offset on. */
#include "transformer.h"
#include "rows.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROOM = 1 << 16 };

typedef struct rows {
    int32_t ids[ROOM], lengths[1024];
    id_matrix batch;
} rows;

static rows src, tgt, prefix, prompt, sequences;
static tfm_ids lists[1024];
static int32_t forbidden[ROOM], ends[ROOM], first[1024];
static uint64_t seeds[1024];
static float numbers[ROOM];
static tfm_tensor vectors;

static void fail(const char *what) {
    fprintf(stderr, "decode: %s\n", what);
    exit(2);
}

/* Parses "1,2,3;4,5" as two rows. */
static id_matrix *read_rows(rows *r, const char *text) {
    int32_t width = 0, n, row = 0;
    const char *at;
    for (at = text, n = 1; *at;
         at++) { /* The number of ids in a row is its number of commas plus one. */
        if (*at == ',') n++;
        if (*at == ';') n = 1;
        if (n > width) width = n;
    }
    for (at = text;; at++) {
        for (n = 0; *at && *at != ';'; at += *at == ',') {
            char *end;
            if ((row + 1) * width > ROOM || row >= 1024) fail("too many ids");
            r->ids[row * width + n++] = (int32_t)strtol(at, &end, 10);
            at = end;
        }
        r->lengths[row++] = n;
        if (!*at) break;
    }
    r->batch.ids = r->ids, r->batch.lengths = r->lengths;
    r->batch.rows = row, r->batch.width = width;
    return &r->batch;
}

static int32_t read_ids(int32_t *ids, const char *text) {
    int32_t n = 0;
    char *end;
    for (; *text; text = *end == ',' ? end + 1 : end) ids[n++] = (int32_t)strtol(text, &end, 10);
    return n;
}

/* Parses "0.5,1;0.25,3" as one sentence of two vectors. */
static void read_vectors(const char *text) {
    int32_t n = 0, width = 1;
    char *end;
    for (; *text; text = *end ? end + 1 : end) {
        if (n == ROOM) fail("too many numbers");
        numbers[n++] = strtof(text, &end);
        if (end == text) fail("vectors: expected a number");
        width += *end == ';';
    }
    vectors = tfm_tensor_3d(numbers, TFM_DTYPE_F32, 1, width, n / width);
    src.lengths[0] = src.batch.width = width, src.batch.rows = 1;
    src.batch.ids = NULL, src.batch.lengths = src.lengths;
}

static int32_t offset; /* options of scoring */
static by_row with;

static void read_option(tfm_decode_options *o, int *scoring, const char *key, const char *value) {
    double number = strtod(value, NULL);
    int32_t whole = (int32_t)number, i, n;
#define INT(name)                                                                                  \
    if (strcmp(key, #name) == 0) {                                                                 \
        o->name = whole;                                                                           \
        return;                                                                                    \
    }
#define NUMBER(name)                                                                               \
    if (strcmp(key, #name) == 0) {                                                                 \
        o->name = number;                                                                          \
        return;                                                                                    \
    }
    if (strcmp(key, "defaults") == 0) return;
    /* clang-format 14 would indent these macros anew each time. */
    /* clang-format off */
    INT(max_length) INT(no_source_ngram) INT(min_length) INT(beam) INT(n_best) INT(samples)
    INT(top_k) INT(alternatives) INT(no_unknown) INT(no_repeat_ngram) INT(attention_layer)
    INT(attention_head) INT(keep_end) INT(truncate) INT(force_end)
    NUMBER(min_alternative_prob) NUMBER(length_penalty) NUMBER(coverage_penalty)
    NUMBER(patience) NUMBER(temperature) NUMBER(top_p) NUMBER(prefix_bias)
    NUMBER(repetition_penalty)
    if (strcmp(key, "stop") == 0) o->stop = (tfm_stop)whole;
    /* clang-format on */
    else if (strcmp(key, "repetition") == 0) o->repetition = (tfm_repetition)whole;
    else if (strcmp(key, "seed") == 0) {
        for (i = 0; i < (int32_t)(sizeof seeds / sizeof *seeds); i++) seeds[i] = (uint64_t)number;
        with.seeds = seeds;
    }
    else if (strcmp(key, "seeds") == 0) {
        n = read_ids(first, value);
        for (i = 0; i < n; i++) seeds[i] = (uint64_t)first[i];
        with.seeds = seeds;
    }
    else if (strcmp(key, "src") == 0) read_rows(&src, value);
    else if (strcmp(key, "vectors") == 0) read_vectors(value);
    else if (strcmp(key, "tgt") == 0) read_rows(&tgt, value);
    else if (strcmp(key, "prefix") == 0) with.prefix = read_rows(&prefix, value);
    else if (strcmp(key, "prompt") == 0) with.prompt = read_rows(&prompt, value);
    else if (strcmp(key, "sequences") == 0) suppress_rows(o, read_rows(&sequences, value), lists);
    else if (strcmp(key, "forbidden") == 0) o->n_suppressed = read_ids(forbidden, value),
                                            o->suppressed = forbidden;
    else if (strcmp(key, "ends") == 0) o->n_end_ids = read_ids(ends, value), o->end_ids = ends;
    else if (strcmp(key, "first") == 0) read_ids(first, value), with.first = first;
    else if (strcmp(key, "score") == 0) *scoring = whole;
    else if (strcmp(key, "offset") == 0) offset = whole;
    else if (strcmp(key, "attention") != 0) fail(key); }

static void print_hypothesis(tfm_session *session, int32_t row, int32_t rank, int attention) {
    tfm_error err;
    tfm_result r;
    int32_t i, S = src.lengths[row];
    static float weights[1 << 20];
    tfm_tensor out;
    if (tfm_result_get(session, row, rank, &r, &err) != TFM_OK) fail(err.text);
    printf("%d %d %.17g %.17g %d %d", (int)row, (int)rank, r.score, r.log_probability,
           (int)r.finish, (int)r.length);
    for (i = 0; i < r.length; i++) printf(" %d", (int)r.ids[i]);
    printf("\n");
    if (!attention) return;
    out = tfm_tensor_2d(weights, TFM_DTYPE_F32, r.length, S);
    if (tfm_result_attention(session, row, rank, &out, &err) != TFM_OK) fail(err.text);
    for (i = 0; i < r.length * S; i++) printf("%.9g ", (double)weights[i]);
    printf("\n");
}

int main(int argc, char **argv) {
    static char line[1 << 20];
    tfm_model *model = NULL;
    tfm_error err;
    if (argc != 2) fail("usage: decode MODEL < requests");
    if (tfm_model_load_file(&model, argv[1], NULL, &err) != TFM_OK) fail(err.text);
    while (fgets(line, sizeof line, stdin)) {
        tfm_decode_options o;
        tfm_session_options limits;
        tfm_session *session = NULL;
        int scoring = 0, attention = strstr(line, "attention=1") != NULL;
        int32_t row, rank;
        char *word;
        memset(&o, 0, sizeof o), memset(&with, 0, sizeof with);
        if (strstr(line, "defaults=1")) o = *tfm_model_decoding(model);
        memset(&limits, 0, sizeof limits);
        for (word = strtok(line, " \n"); word; word = strtok(NULL, " \n")) {
            char *equals = strchr(word, '=');
            if (!equals) fail(word);
            *equals = 0;
            read_option(&o, &scoring, word, equals + 1);
        }
        if (!src.batch.ids) {
            int alone = tfm_model_config(model)->n_encoder_layers == 0;
            src.batch.memory = alone ? &vectors : NULL;
            src.batch.embeddings = alone ? NULL : &vectors;
        }
        limits.max_batch = src.batch.rows, limits.max_source = src.batch.width;
        limits.max_target = o.max_length + (with.prompt ? with.prompt->width : 0);
        if (scoring && limits.max_target < tgt.batch.width + 1)
            limits.max_target = tgt.batch.width + 1;
        limits.max_beam = (o.alternatives ? o.alternatives : 1) * (o.beam ? o.beam : 1);
        if (limits.max_beam < o.samples) limits.max_beam = o.samples;
        if (limits.max_beam < o.n_best) limits.max_beam = o.n_best;
        limits.attention = attention || o.coverage_penalty > 0;
        if (tfm_session_create(&session, model, &limits, &err) != TFM_OK) fail(err.text);
        if (scoring) {
            static double scores[ROOM];
            if (score_rows(session, &src.batch, &tgt.batch, offset, scores, &err) != TFM_OK)
                fail(err.text);
            for (row = 0; row < tgt.batch.rows; row++) {
                for (rank = 0; rank <= tgt.lengths[row]; rank++)
                    printf("%.17g ", scores[row * (tgt.batch.width + 1) + rank]);
                printf("\n");
            }
        } else {
            if (decode_rows(session, &src.batch, &with, &o, &err) != TFM_OK) fail(err.text);
            for (row = 0; row < src.batch.rows; row++)
                for (rank = 0; rank < tfm_result_count(session, row); rank++)
                    print_hypothesis(session, row, rank, attention);
        }
        printf("\n");
        fflush(stdout);
        tfm_session_free(session);
    }
    tfm_model_free(model);
    return 0;
}
