/* Sources that are not ids: embeddings instead of looked-up ones, and a memory instead of the
   encoder's, must give the same bits, also with a model file that lacks both. Also tests
   projections, wide memories, batches, threads and refused sources. */
#include "transformer.h"
#include "tiny.h"

enum { ROWS = 5, WIDTH = 9, D = 20, V = 13, IN = 31, WIDE = 27, CAP = 12 };

static int32_t ids[ROWS * WIDTH], lengths[ROWS] = {9, 3, 1, 7, 5};
static const int32_t start_ids[ROWS * 3] = {1, 5, 2, 1, 7, 3, 1, 1, 9, 1, 12, 4, 1, 3, 3};
static tiny shape; /* settings of the current model */

/* Removes the tensors whose names begin with this prefix. */
static void drop(st_writer *w, const char *prefix) {
    size_t i, n = 0;
    for (i = 0; i < w->n_entries; i++)
        if (strncmp(w->entries[i].name, prefix, strlen(prefix)) == 0) free(w->entries[i].name);
        else w->entries[n++] = w->entries[i];
    w->n_entries = n;
}

static tfm_tensor named(const st_writer *w, const char *name) {
    size_t i;
    for (i = 0; i < w->n_entries; i++)
        if (strcmp(w->entries[i].name, name) == 0) return w->entries[i].tensor;
    printf("no tensor %s\n", name);
    exit(2);
}

static tfm_tensor vectors(int64_t rows, int64_t width, int64_t columns, unsigned seed) {
    tfm_tensor t = test_like(tfm_tensor_3d(NULL, TFM_DTYPE_F32, rows, width, columns));
    int64_t i;
    for (i = 0; i < rows * width * columns; i++)
        ((float *)t.data)[i] = (float)tiny_random(&seed) / 8388608.0f - 1.0f;
    return t;
}

/* Behind the lengths there is NaN, which would show in every sum. */
static void poison(const tfm_tensor *t) {
    int64_t b, i, columns = t->dims[2], width = t->dims[1];
    for (b = 0; b < t->dims[0]; b++)
        for (i = lengths[b] * columns; i < width * columns; i++)
            ((float *)t->data)[b * width * columns + i] = (float)NAN;
}

static id_matrix batch_of(const int32_t *some_ids, const tfm_tensor *embeddings,
                          const tfm_tensor *memory) {
    id_matrix b = tiny_batch(some_ids, lengths, ROWS, WIDTH);
    b.embeddings = embeddings, b.memory = memory;
    return b;
}

/* Collects everything that a source leads to: the memory, logits, scores, and the results of a beam
   of
   3. */
typedef struct outcome {
    float memory[(int)ROWS * WIDTH * WIDE], logits[(int)ROWS * 3 * V];
    double scores[ROWS * 4], best[ROWS];
    int32_t found[(int)ROWS * CAP], n[ROWS];
} outcome;

static tfm_session *session_of(const tfm_model *m, int threads, tfm_dtype cache) {
    tfm_session_options o;
    tfm_session *s = NULL;
    memset(&o, 0, sizeof o);
    o.max_batch = ROWS, o.max_source = WIDTH, o.max_target = CAP, o.max_beam = 3;
    o.threads = threads, o.cache = cache;
    must(tfm_session_create(&s, m, &o, &err));
    return s;
}

static int reuses; /* 1: forward and decode take the session's last source */

static void run(tfm_session *s, const id_matrix *src, outcome *out) {
    const id_matrix *same = reuses ? NULL : src;
    id_matrix tgt = tiny_batch(start_ids, NULL, src->rows, 3);
    tfm_tensor logits = tfm_tensor_3d(out->logits, TFM_DTYPE_F32, src->rows, 3, V), memory;
    tfm_decode_options o;
    int32_t row, l;
    memset(&o, 0, sizeof o);
    o.beam = 3, o.max_length = CAP, o.length_penalty = 0.7;
    must(encode_rows(s, src, &err));
    memory = tfm_session_encoder_output(s);
    for (row = 0; row < src->rows; row++)
        for (l = 0; l < src->lengths[row]; l++)
            memcpy(out->memory + (row * WIDTH + l) * WIDE,
                   (float *)memory.data + (row * memory.dims[1] + l) * memory.dims[2],
                   (size_t)memory.dims[2] * sizeof(float));
    must(forward_rows(s, same, &tgt, NULL, &logits, &err));
    must(score_rows(s, src, &tgt, 0, out->scores, &err));
    must(decode_rows(s, same, NULL, &o, &err));
    if (reuses)
        must(decode_rows(s, same, NULL, &o, &err)); /* the search has not changed the source */
    for (row = 0; row < src->rows; row++) {
        tfm_result r;
        must(tfm_result_get(s, row, 0, &r, &err));
        memcpy(out->found + row * CAP, r.ids, (size_t)r.length * sizeof *r.ids);
        out->best[row] = r.score, out->n[row] = r.length;
    }
}

static int is_same(const outcome *a, const outcome *b) { return memcmp(a, b, sizeof *a) == 0; }

static outcome outcome_once(const tfm_model *m, const id_matrix *src) {
    static outcome out;
    tfm_session *s = session_of(m, 1, TFM_DTYPE_F32);
    memset(&out, 0, sizeof out);
    run(s, src, &out);
    tfm_session_free(s);
    return out;
}

/* Returns the outcome of a source, unless the session's last source leads to another one. */
static outcome outcome_of(const tfm_model *m, const id_matrix *src) {
    outcome first = outcome_once(m, src), again;
    reuses = 1, again = outcome_once(m, src), reuses = 0;
    CHECK(is_same(&first, &again), "  src NULL has the bits of the last source");
    return first;
}

/* ---- instead of what the model has ---- */

static void instead(const char *name, const char *config, double scale) {
    tfm_tensor embeddings = vectors(ROWS, WIDTH, D, 3), memory, table, swapped;
    id_matrix plain = batch_of(ids, NULL, NULL), src;
    outcome expected, got;
    tfm_model *m;
    st_writer w;
    int32_t i, k;
    SECTION(name);
    shape = tiny_default();
    shape.config = config, shape.more_norms = 1;
    tiny_write(&w, shape);
    table = named(&w, "src_embedding.weight");
    for (i = 0; i < ROWS * WIDTH; i++)
        for (k = 0; k < D; k++)
            ((float *)embeddings.data)[i * D + k] = ((float *)table.data)[ids[i] * D + k] *
                                                    (float)scale;
    poison(&embeddings);
    m = tiny_load(&w, NULL);
    expected = outcome_of(m, &plain);
    memory = test_like(embeddings);
    for (i = 0; i < ROWS * WIDTH; i++)
        memcpy((float *)memory.data + i * D, expected.memory + i * WIDE, D * sizeof(float));
    poison(&memory);
    src = batch_of(NULL, &embeddings, NULL), got = outcome_of(m, &src);
    CHECK(is_same(&expected, &got), "embeddings have the bits of ids");
    src = batch_of(ids, &embeddings, NULL), got = outcome_of(m, &src);
    CHECK(is_same(&expected, &got), "  and with the ids next to them");
    src = batch_of(NULL, NULL, &memory), got = outcome_of(m, &src);
    CHECK(is_same(&expected, &got), "a memory has the bits of the encoder's");
    swapped = test_like(tfm_tensor_3d(NULL, TFM_DTYPE_F32, WIDTH, ROWS, D));
    swapped = tfm_tensor_swap(swapped, 0, 1);
    for (i = 0; i < ROWS * WIDTH; i++)
        memcpy((float *)swapped.data + i / WIDTH * swapped.strides[0] +
                   i % WIDTH * swapped.strides[1],
               (float *)embeddings.data + i * D, D * sizeof(float));
    src = batch_of(NULL, &swapped, NULL), got = outcome_of(m, &src);
    CHECK(is_same(&expected, &got), "embeddings [width, rows, D], as a view");
    tfm_model_free(m);

    tiny_write(&w, shape), drop(&w, "src_embedding.weight");
    m = tiny_load(&w, NULL);
    src = batch_of(NULL, &embeddings, NULL), got = outcome_of(m, &src);
    CHECK(is_same(&expected, &got) && tfm_model_config(m)->src_vocab_size == 0 &&
              tfm_model_config(m)->d_input == D,
          "the same with a file without src_embedding");
    tfm_model_free(m);

    tiny_write(&w, shape), drop(&w, "src_"), drop(&w, "encoder.");
    m = tiny_load(&w, NULL);
    src = batch_of(NULL, NULL, &memory), got = outcome_of(m, &src);
    CHECK(is_same(&expected, &got) && tfm_model_config(m)->n_encoder_layers == 0 &&
              tfm_model_config(m)->d_input == 0 && tfm_model_config(m)->d_memory == D,
          "  and with a file without an encoder");
    tfm_model_free(m);
}

/* ---- widths of their own ---- */

static double difference(const float *a, const float *b, int64_t n) {
    double most = 0;
    for (; n > 0; n--, a++, b++)
        if (!(fabs((double)*a - (double)*b) <= most)) most = fabs((double)*a - (double)*b);
    return most;
}

static void widths(void) {
    tfm_tensor x = vectors(ROWS, WIDTH, IN, 4), projected = vectors(ROWS, WIDTH, D, 5), weight,
               bias;
    tfm_tensor memory = vectors(ROWS, WIDTH, D, 6), wide = vectors(ROWS, WIDTH, WIDE, 7);
    id_matrix src = batch_of(NULL, &x, NULL);
    outcome expected, got;
    tfm_model *m;
    st_writer w;
    int32_t i, k, j;
    SECTION("widths of their own");
    shape = tiny_default();
    shape.input = IN;
    tiny_write(&w, shape);
    weight = named(&w, "src_projection.weight"), bias = named(&w, "src_projection.bias");
    for (i = 0; i < ROWS * WIDTH; i++)
        for (k = 0; k < D; k++) {
            double sum = (double)((float *)bias.data)[k];
            for (j = 0; j < IN; j++)
                sum += (double)((float *)x.data)[i * IN + j] *
                       (double)((float *)weight.data)[k * IN + j];
            ((float *)projected.data)[i * D + k] = (float)sum;
        }
    m = tiny_load(&w, NULL);
    CHECK(tfm_model_config(m)->d_input == IN, "d_input");
    got = outcome_of(m, &src);
    tfm_model_free(m);
    tiny_write(&w, shape), drop(&w, "src_projection");
    m = tiny_load(&w, NULL);
    src = batch_of(NULL, &projected, NULL), expected = outcome_of(m, &src);
    CHECK(difference(got.logits, expected.logits, (int64_t)ROWS * 3 * V) <= 1e-5,
          "src_projection against a plain loop: %.2g",
          difference(got.logits, expected.logits, (int64_t)ROWS * 3 * V));
    tfm_model_free(m);
    /* Some columns of a wide memory are zero, so the model equals one with a narrow memory. */
    shape = tiny_default();
    shape.memory = WIDE;
    tiny_write(&w, shape), drop(&w, "src_"), drop(&w, "encoder.");
    m = tiny_load(&w, NULL);
    CHECK(tfm_model_config(m)->d_memory == WIDE, "d_memory");
    for (i = 0; i < ROWS * WIDTH; i++)
        for (k = 0; k < WIDE; k++)
            ((float *)wide.data)[i * WIDE + k] = k < D ? ((float *)memory.data)[i * D + k] : 0;
    poison(&wide);
    src = batch_of(NULL, NULL, &wide), got = outcome_of(m, &src);
    tfm_model_free(m);
    tiny_write(&w, shape), drop(&w, "src_"), drop(&w, "encoder.");
    for (i = 0; i < (int32_t)w.n_entries; i++) {
        tfm_tensor *t = &w.entries[i].tensor;
        if (t->rank != 2 || t->dims[1] != WIDE) continue;
        for (k = 0; k < t->dims[0]; k++)
            memmove((float *)t->data + k * D, (float *)t->data + k * WIDE, D * sizeof(float));
        *t = tfm_tensor_2d(t->data, TFM_DTYPE_F32, t->dims[0], D);
        w.entries[i].bytes = st_bytes(t);
    }
    m = tiny_load(&w, NULL);
    src = batch_of(NULL, NULL, &memory), expected = outcome_of(m, &src);
    CHECK(difference(got.logits, expected.logits, (int64_t)ROWS * 3 * V) <= 1e-5,
          "a wide memory against a narrow one: %.2g",
          difference(got.logits, expected.logits, (int64_t)ROWS * 3 * V));
    tfm_model_free(m);
}

/* ---- comparison with transformers (tests/make/make_vectors.py) ---- */

/* model: a file's path; empty: the model of that family */
static void family(const char *name, const char *model) {
    char path[128];
    tfm_safetensors *file;
    tfm_tensor x, n, tgt, memory, expected, greedy, logits, got;
    id_matrix src, targets;
    tfm_decode_options o;
    tfm_session *s;
    tfm_model *m;
    int32_t rows, width, cap, row, i, same = 1;
    double most = 0;
    snprintf(path, sizeof path, "families/%s.safetensors", name);
    if (!*model) file = test_open(path);
    else must(tfm_safetensors_open_file(&file, name, NULL, &err));
    snprintf(path, sizeof path, "tests/data/models/%s.safetensors", name);
    must(tfm_model_load_file(&m, *model ? model : path, NULL, &err));
    x = test_get(file, "input.vectors"), n = test_get(file, "input.lengths");
    tgt = test_get(file, "input.tgt"), memory = test_get(file, "expect.memory");
    expected = test_get(file, "expect.logits"), greedy = test_get(file, "expect.greedy");
    rows = (int32_t)x.dims[0], width = (int32_t)x.dims[1], cap = (int32_t)greedy.dims[1];
    src = tiny_batch(NULL, (int32_t *)n.data, rows, width);
    targets = tiny_batch((int32_t *)tgt.data, NULL, rows, (int32_t)tgt.dims[1]);
    if (tfm_model_config(m)->d_input) src.embeddings = &x;
    else src.memory = &x;
    s = tiny_session(m, rows, width, cap);
    logits = test_like(expected);
    must(forward_rows(s, &src, &targets, NULL, &logits, &err));
    got = tfm_session_encoder_output(s);
    for (row = 0; row < rows; row++)
        most = test_max(most, difference((float *)got.data + row * got.strides[0],
                                         (float *)memory.data + row * memory.strides[0],
                                         ((int32_t *)n.data)[row] * got.dims[2]));
    CHECK(most <= 2e-5, "%s: memory, largest difference %.2g", name, most);
    CHECK(test_difference(&logits, &expected) <= 1e-4, "  logits, largest difference %.2g",
          test_difference(&logits, &expected));
    memset(&o, 0, sizeof o);
    o.max_length = cap;
    must(decode_rows(s, &src, NULL, &o, &err));
    for (row = 0; row < rows; row++) {
        tfm_result r;
        must(tfm_result_get(s, row, 0, &r, &err));
        for (i = 0; i < cap; i++)
            same &= ((int32_t *)greedy.data)[row * cap + i] == (i < r.length ? r.ids[i] : -1);
    }
    CHECK(same, "  greedy ids");
    tfm_session_free(s), tfm_model_free(m), tfm_safetensors_free(file);
}

/* ---- the same bits in any batch ---- */

static void identity(const char *name, tfm_weight_type type, tfm_dtype cache, int of_memory,
                     int packed) {
    tfm_tensor x = vectors(ROWS, WIDTH, of_memory ? WIDE : IN, 11), one, mixed;
    tfm_model_options options = tiny_options();
    id_matrix src = batch_of(NULL, of_memory ? NULL : &x, of_memory ? &x : NULL);
    static outcome alone[ROWS], together, mixed_up;
    int32_t order[ROWS] = {3, 0, 4, 2, 1}, some[ROWS], row, threads, bad = 0;
    int64_t i;
    tfm_session *s;
    tfm_model *m;
    st_writer w;
    shape = tiny_default();
    if (of_memory) shape.memory = WIDE, shape.vs = 0;
    else shape.input = IN, shape.vs = 0;
    if (packed)
        shape.config = of_memory ? ", \"start\": 1, \"end\": 2, \"d_memory\": 27"
                                 : ", \"start\": 1, \"end\": 2, \"d_input\": 31";
    shape.without = of_memory ? "src_ encoder." : "src_embedding";
    tiny_write(&w, shape);
    if (packed) tiny_pack(&w, &shape, 1);
    options.weights = type;
    m = tiny_load(&w, &options);
    poison(&x);
    mixed = test_like(x);
    for (row = 0; row < ROWS; row++) {
        some[row] = lengths[order[row]];
        memcpy((float *)mixed.data + row * x.strides[0],
               (float *)x.data + order[row] * x.strides[0], (size_t)x.strides[0] * sizeof(float));
    }
    for (threads = 1; threads <= 7; threads += 3) {
        s = session_of(m, threads, cache);
        memset(&together, 0, sizeof together), memset(&mixed_up, 0, sizeof mixed_up);
        memset(alone, 0, sizeof alone);
        run(s, &src, &together);
        for (row = 0; row < ROWS; row++) {
            id_matrix single = tiny_batch(NULL, lengths + row, 1, lengths[row]);
            one = tfm_tensor_3d((float *)x.data + row * x.strides[0], TFM_DTYPE_F32, 1,
                                lengths[row], x.dims[2]);
            single.embeddings = of_memory ? NULL : &one, single.memory = of_memory ? &one : NULL;
            run(s, &single, &alone[row]);
            bad += memcmp(alone[row].memory, together.memory + row * WIDTH * WIDE,
                          sizeof together.memory / ROWS) != 0;
            bad += alone[row].best[0] != together.best[row];
            bad += memcmp(alone[row].found, together.found + row * CAP,
                          sizeof together.found / ROWS) != 0;
        }
        src = batch_of(NULL, of_memory ? NULL : &mixed, of_memory ? &mixed : NULL);
        src.lengths = some;
        run(s, &src, &mixed_up);
        for (row = 0; row < ROWS; row++) bad += mixed_up.best[row] != together.best[order[row]];
        src = batch_of(NULL, of_memory ? NULL : &x, of_memory ? &x : NULL);
        tfm_session_free(s);
    }
    CHECK(!bad, "%s: alone, in batches, in any order, in 1, 4 and 7 threads", name);
    /* Values that are NaN, or too large for a type, must stay in their row. */
    for (row = 0, bad = 0; row < 3; row++)
        for (i = 0; i < lengths[row] * x.dims[2]; i++)
            ((float *)x.data)[row * x.strides[0] + i] = row == 2 ? 3e38f
                                                                 : (float)(row ? INFINITY : NAN);
    s = session_of(m, 1, cache);
    run(s, &src, &mixed_up);
    for (row = 3; row < ROWS; row++)
        bad += memcmp(mixed_up.logits + (int)row * 3 * V, together.logits + (int)row * 3 * V,
                      3 * V * sizeof(float)) != 0 ||
               memcmp(mixed_up.found + row * CAP, together.found + row * CAP,
                      CAP * sizeof *together.found) != 0 ||
               mixed_up.best[row] != together.best[row];
    CHECK(!bad, "  next to rows of NaN, infinity and 3e38");
    tfm_session_free(s), tfm_model_free(m);
}

/* ---- limits, text, errors ---- */

static void limits(void) {
    tfm_model *m;
    tfm_session_options o;
    tfm_session *s = NULL;
    size_t narrow, wide;
    SECTION("limits");
    memset(&o, 0, sizeof o);
    shape = tiny_default();
    shape.without = "src_ encoder.", shape.tgt_positions = 10;
    shape.config = ", \"start\": 1, \"end\": 2, \"positions\": \"learned\"";
    m = tiny_model(shape);
    o.max_batch = 2, o.max_source = 600, o.max_target = 10;
    must(tfm_session_bytes(m, &o, &narrow, &err));
    CHECK_FAILS((o.max_target = 11, tfm_session_create(&s, m, &o, &err)), TFM_E_TOO_LONG,
                "max_target 11, but the model has positions for 10");
    CHECK(tfm_model_config(m)->max_source_positions == 0 &&
              tfm_model_config(m)->max_target_positions == 10 &&
              tfm_model_config(m)->max_positions == 10,
          "a memory's positions have no limit, the target's do");
    tfm_model_free(m);
    shape.memory = WIDE, o.max_target = 10;
    m = tiny_model(shape);
    must(tfm_session_bytes(m, &o, &wide, &err));
    CHECK(wide - narrow >= 2 * 600 * 4 * (WIDE - D) && wide - narrow < 2 * 600 * 4 * WIDE,
          "a session has room for a memory as wide as the model's");
    o.max_batch = o.max_source = INT32_MAX;
    CHECK(tfm_session_bytes(m, &o, &wide, &err) != TFM_OK, "%s", err.text);
    o.max_batch = 2, o.max_source = 600;
    tfm_model_free(m);
    shape = tiny_default();
    shape.without = "src_embedding", shape.src_positions = 30, shape.tgt_positions = 10;
    shape.config = ", \"start\": 1, \"end\": 2, \"positions\": \"learned\"";
    m = tiny_model(shape);
    o.max_source = 30;
    must(tfm_session_bytes(m, &o, &wide, &err));
    o.max_source = 31;
    CHECK_FAILS(tfm_session_create(&s, m, &o, &err), TFM_E_TOO_LONG,
                "max_source 31 and max_target 10, but the model has positions for 30");
    tfm_model_free(m);
}

static void refusals(void) {
    tfm_tensor x = vectors(2, 3, D, 1), narrow = vectors(2, 3, D - 1, 1), lacks = x;
    tfm_tensor numbers = tfm_tensor_3d(x.data, TFM_DTYPE_I32, 2, 3, D), logits, attention;
    id_matrix src = tiny_batch(NULL, NULL, 2, 3), tgt = tiny_batch(ids, NULL, 2, 3), bad;
    tfm_decode_options o;
    tfm_forward_options f;
    tfm_model *all, *decoder;
    tfm_session *s, *d;
    lacks.data = NULL;
    SECTION("refused sources");
    shape = tiny_default();
    all = tiny_model(shape);
    shape.without = "src_ encoder.";
    decoder = tiny_model(shape);
    s = tiny_session(all, 2, 3, 5), d = tiny_session(decoder, 2, 3, 5);
    src.embeddings = &x;
    must(encode_rows(s, &src, &err));
    bad = src, bad.embeddings = &narrow;
    CHECK_FAILS(encode_rows(s, &bad, &err), TFM_E_SHAPE,
                "request 0: embeddings is [3, 19], expected [3, 20]");
    bad.embeddings = NULL, bad.memory = &narrow;
    CHECK_FAILS(encode_rows(s, &bad, &err), TFM_E_SHAPE, "request 0: memory is [3, 19]");
    bad = src, bad.embeddings = &numbers;
    CHECK_FAILS(encode_rows(s, &bad, &err), TFM_E_DTYPE, "request 0: embeddings is I32");
    bad = src, bad.embeddings = &lacks;
    CHECK_FAILS(encode_rows(s, &bad, &err), TFM_E_ARGUMENT, "request 0: embeddings has no data");
    bad = src, bad.lengths = start_ids;
    CHECK_FAILS(encode_rows(s, &bad, &err), TFM_E_TOO_LONG, "request 1: src has 5 tokens");
    CHECK_FAILS(encode_rows(d, &src, &err), TFM_E_ARGUMENT, "no encoder: it takes memory");
    bad = tgt;
    CHECK_FAILS(encode_rows(d, &bad, &err), TFM_E_ARGUMENT,
                "no tensor 'src_embedding.weight': it takes memory");
    logits = test_like(tfm_tensor_3d(NULL, TFM_DTYPE_F32, 2, 3, V));
    memset(&o, 0, sizeof o);
    o.no_source_ngram = 2;
    CHECK_FAILS(start_rows(s, &src, NULL, &o, &err), TFM_E_ARGUMENT,
                "no_source_ngram: src has no ids");
    memset(&f, 0, sizeof f);
    attention = test_like(tfm_tensor_4d(NULL, TFM_DTYPE_F32, 2 * 2, 2, 3, 3));
    f.encoder_attention = attention;
    bad = src, bad.memory = &x, bad.embeddings = NULL;
    CHECK_FAILS(forward_rows(s, &bad, &tgt, &f, &logits, &err), TFM_E_ARGUMENT,
                "encoder_attention: a request has memory");
    must(encode_rows(s, &src, &err));
    tfm_session_free(s), tfm_session_free(d), tfm_model_free(all), tfm_model_free(decoder);
}

#ifndef TRANSFORMER_NO_TEXT
static void text(void) {
    tfm_tensor x = vectors(1, 3, D, 2);
    id_matrix src = tiny_batch(NULL, NULL, 1, 3);
    tfm_model *m;
    tfm_session *s;
    char out[256];
    size_t size = 0;
    int32_t some[8], n = 0;
    SECTION("vectors in, text out");
    shape = tiny_default();
    shape.without = "src_ encoder.";
    shape.tgt = "p\ns\n.\nd\ne\nf\ng\nh\ni\nj\nk\nl\nm\n";
    m = tiny_model(shape);
    s = tiny_session(m, 1, 3, 12);
    src.memory = &x;
    CHECK(!tfm_model_config(m)->has_text, "has_text needs both sides");
    must(decode_rows(s, &src, NULL, NULL, &err));
    must(tfm_result_text(s, 0, 0, TFM_TEXT_FORM_TEXT, out, sizeof out, &size, &err));
    CHECK(size > 0, "\"%.*s\"", (int)size, out);
    must(tfm_model_tokenize_target(m, tfm_text_make("d e", 3), TFM_TEXT_FORM_TEXT, some, 8, &n,
                                   NULL, &err));
    CHECK(n == 2 && some[0] == 3, "its targets are tokenized");
    CHECK_FAILS(
        tfm_model_tokenize(m, tfm_text_make("d", 1), TFM_TEXT_FORM_TEXT, some, 8, &n, NULL, &err),
        TFM_E_NO_TEXT, "no src_vocabulary");
    CHECK_FAILS(tfm_translate(s, "d", out, sizeof out, &err), TFM_E_NO_TEXT, "no vocabularies");
    tfm_session_free(s), tfm_model_free(m);
}
#endif

/* With two arguments the program compares a case of that file with the model of the other
   (tests/tools/test_vectors.py). */
int main(int argc, char **argv) {
    unsigned seed = 9;
    int32_t i;
    if (argc == 3) {
        family(argv[1], argv[2]);
        return test_done("test_sources");
    }
    for (i = 0; i < ROWS * WIDTH; i++) ids[i] = 1 + (int32_t)(tiny_random(&seed) % 10);
    instead("instead of what the model has", ", \"start\": 1, \"end\": 2", 1);
    instead("  with a scale, pre-norm, without positions",
            ", \"start\": 1, \"end\": 2, \"embedding_scale\": 2.5, \"norm\": \"pre\", "
            "\"positions\": \"none\"",
            2.5);
    widths();
    SECTION("comparison with transformers");
    family("whisper", "");
    family("trocr", "");
    family("donut", "");
    SECTION("the same bits in any batch");
    identity("embeddings, F32", TFM_WEIGHT_TYPE_AS_STORED, TFM_DTYPE_F32, 0, 0);
    identity("memory, F32", TFM_WEIGHT_TYPE_AS_STORED, TFM_DTYPE_F32, 1, 0);
    identity("embeddings, int8, a cache in F16", TFM_WEIGHT_TYPE_I8, TFM_DTYPE_F16, 0, 0);
    identity("memory, int8, a cache in F16", TFM_WEIGHT_TYPE_I8, TFM_DTYPE_F16, 1, 0);
    identity("embeddings, bf16", TFM_WEIGHT_TYPE_BF16, TFM_DTYPE_F32, 0, 0);
    identity("embeddings, packed", TFM_WEIGHT_TYPE_AS_STORED, TFM_DTYPE_F32, 0, 1);
    identity("memory, packed", TFM_WEIGHT_TYPE_AS_STORED, TFM_DTYPE_F32, 1, 1);
    limits();
    refusals();
#ifndef TRANSFORMER_NO_TEXT
    text();
#endif
    return test_done("test_sources");
}
