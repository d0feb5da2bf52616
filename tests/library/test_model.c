/* Whole models: golden cases from model file to logits, decode steps against the teacher-forced
   pass, batches against single sentences bit for bit, memory, limits, states. */
#include "transformer.h"
#include "tiny.h"

static tfm_result result_of(tfm_session *s, int32_t row) {
    tfm_result r;
    memset(&r, 0, sizeof r);
    must(tfm_result_get(s, row, 0, &r, &err));
    return r;
}

static void compare(const char *what, const tfm_tensor *got, const tfm_tensor *expected,
                    double limit) {
    double d = test_difference(got, expected);
    CHECK(d <= limit, "%-52s largest difference %.2g", what, d);
}

/* ---- golden models ---- */

typedef struct golden {
    tfm_safetensors *file;
    tfm_model *model;
    tfm_session *session;
    tfm_tensor src, tgt;
    id_matrix src_batch, tgt_batch;
} golden;

static golden golden_open(const char *name, const char *tgt) {
    golden g;
    char path[512];
    g.file = test_open(name);
    snprintf(path, sizeof path, "%s/models/%s", test_folder, name);
    must(tfm_model_load_file(&g.model, path, NULL, &err));
    g.src = test_get(g.file, "input.src"), g.tgt = test_get(g.file, tgt);
    g.src_batch =
        tiny_batch((int32_t *)g.src.data, NULL, (int32_t)g.src.dims[0], (int32_t)g.src.dims[1]);
    g.tgt_batch =
        tiny_batch((int32_t *)g.tgt.data, NULL, (int32_t)g.tgt.dims[0], (int32_t)g.tgt.dims[1]);
    g.session = tiny_session(g.model, g.src_batch.rows, g.src_batch.width, g.tgt_batch.width);
    return g;
}
static void golden_close(golden *g) {
    tfm_session_free(g->session);
    tfm_model_free(g->model);
    tfm_safetensors_free(g->file);
}

static void seed0(const char *name) {
    golden g = golden_open(name, "input.trg");
    tfm_tensor logits = test_get(g.file, "expect.logits"), got = test_like(logits), memory;
    tfm_tensor causal = test_get(g.file, "expect.logits_causal"), expected;
    tfm_forward_options o;
    memset(&o, 0, sizeof o);
    must(forward_rows(g.session, &g.src_batch, &g.tgt_batch, NULL, &got, &err));
    SECTION(name);
    if (causal.data) compare("logits, causal", &got, &causal, 1e-4);
    o.not_causal = 1;
    must(forward_rows(g.session, &g.src_batch, &g.tgt_batch, &o, &got, &err));
    compare("logits with pad masks only, none causal", &got, &logits, 1e-4);
    memory = tfm_session_encoder_output(g.session), expected = test_get(g.file, "expect.memory");
    compare("memory", &memory, &expected, 1e-5);
    golden_close(&g);
}

static void seed3(const char *name) {
    golden g = golden_open(name, "input.tgt");
    tfm_tensor logits = test_get(g.file, "expect.logits"), got = test_like(logits), memory;
    tfm_tensor expected = test_get(g.file, "expect.memory");
    tfm_tensor enc = test_get(g.file, "expect.enc_self_attn");
    tfm_tensor dec = test_get(g.file, "expect.dec_self_attn");
    tfm_tensor cross = test_get(g.file, "expect.dec_enc_attn");
    tfm_forward_options o;
    memset(&o, 0, sizeof o);
    o.encoder_attention = test_like(enc), o.decoder_attention = test_like(dec);
    o.cross_attention = test_like(cross);
    must(forward_rows(g.session, &g.src_batch, &g.tgt_batch, &o, &got, &err));
    memory = tfm_session_encoder_output(g.session);
    SECTION(name);
    compare("logits", &got, &logits, 1e-4);
    compare("memory", &memory, &expected, 1e-5);
    compare("attention of every encoder layer", &o.encoder_attention, &enc, 1e-5);
    compare("attention of every decoder layer", &o.decoder_attention, &dec, 1e-5);
    compare("attention to the memory", &o.cross_attention, &cross, 1e-5);
    golden_close(&g);
}

/* Keys and values in F16 must take the bytes that the manual says. The encoder does not use the
   cache. */
static void cache_f16(void) {
    static const char *const names[] = {"seed0_small.safetensors", "seed0_wide.safetensors",
                                        "seed3_toy.safetensors", "seed3_dv.safetensors"};
    size_t i;
    SECTION("a cache in F16");
    for (i = 0; i < sizeof names / sizeof *names; i++) {
        golden g = golden_open(names[i], i < 2 ? "input.trg" : "input.tgt");
        tfm_tensor logits =
            test_like(test_get(g.file, i < 2 ? "expect.logits_causal" : "expect.logits"));
        tfm_tensor got = test_like(logits), memory, expected;
        tfm_session_options o;
        tfm_session *s;
        double d;
        memset(&o, 0, sizeof o);
        o.max_batch = g.src_batch.rows, o.max_source = g.src_batch.width;
        o.max_target = g.tgt_batch.width, o.cache = TFM_DTYPE_F16;
        must(tfm_session_create(&s, g.model, &o, &err));
        must(forward_rows(g.session, &g.src_batch, &g.tgt_batch, NULL, &logits, &err));
        must(forward_rows(s, &g.src_batch, &g.tgt_batch, NULL, &got, &err));
        memory = tfm_session_encoder_output(s), expected = tfm_session_encoder_output(g.session);
        d = test_difference(&got, &logits);
        CHECK(d > 0 && d < 1e-3, "%-26s logits at most %.2g from those of F32", names[i], d);
        CHECK(memcmp(memory.data, expected.data, (size_t)test_count(&memory) * 4) == 0,
              "the encoder's output is unchanged");
        tfm_session_free(s);
        o.cache = TFM_DTYPE_F32, o.encoder_attention = TFM_DTYPE_BF16;
        must(tfm_session_create(&s, g.model, &o, &err));
        must(forward_rows(s, &g.src_batch, &g.tgt_batch, NULL, &got, &err));
        d = test_difference(&got, &logits);
        CHECK(d < 0.02, "%-26s by an encoder's attention in BF16, where CPUs have it: %.2g off",
              names[i], d);
        tfm_session_free(s);
        golden_close(&g);
    }
}

/* A batch with more positions than a group holds needs several passes. Each row must have the bits
   that it has alone. */
static void groups(void) {
    enum { ROWS = 90, S = 13, T = 17 };
    tiny t = tiny_default();
    tfm_model *model = tiny_model(t);
    tfm_session *all = tiny_session(model, ROWS, S, T), *one = tiny_session(model, 1, S, T);
    int32_t *src = (int32_t *)test_memory(ROWS * S * 4),
            *tgt = (int32_t *)test_memory(ROWS * T * 4);
    tfm_tensor logits = test_like(tfm_tensor_3d(NULL, TFM_DTYPE_F32, ROWS, T, t.vt)), row_logits;
    tfm_tensor single = test_like(tfm_tensor_3d(NULL, TFM_DTYPE_F32, 1, T, t.vt));
    int64_t dims[5];
    tfm_forward_options o, single_o;
    id_matrix s = tiny_batch(src, NULL, ROWS, S), y = tiny_batch(tgt, NULL, ROWS, T);
    unsigned seed = 7;
    int i, same = 1;
    for (i = 0; i < ROWS * S; i++) src[i] = (int32_t)(tiny_random(&seed) % (unsigned)t.vs);
    for (i = 0; i < ROWS * T; i++) tgt[i] = (int32_t)(tiny_random(&seed) % (unsigned)t.vt);
    memset(&o, 0, sizeof o);
    memset(&single_o, 0, sizeof single_o);
    dims[0] = 2, dims[1] = ROWS, dims[2] = t.heads, dims[3] = T, dims[4] = S;
    o.cross_attention = test_like(tfm_tensor_make(NULL, TFM_DTYPE_F32, 5, dims));
    dims[1] = 1;
    single_o.cross_attention = test_like(tfm_tensor_make(NULL, TFM_DTYPE_F32, 5, dims));
    must(forward_rows(all, &s, &y, &o, &logits, &err));
    for (i = 0; i < ROWS; i++) {
        tfm_tensor *c = &o.cross_attention, *d = &single_o.cross_attention;
        size_t layer = (size_t)d->strides[0] * sizeof(float);
        s = tiny_batch(src + i * S, NULL, 1, S), y = tiny_batch(tgt + i * T, NULL, 1, T);
        must(forward_rows(one, &s, &y, &single_o, &single, &err));
        row_logits = logits;
        row_logits.data = (float *)logits.data + i * logits.strides[0];
        same &= memcmp(row_logits.data, single.data, T * (size_t)t.vt * sizeof(float)) == 0;
        same &= memcmp((float *)c->data + i * c->strides[1], d->data, layer) == 0;
        same &= memcmp((float *)c->data + c->strides[0] + i * c->strides[1],
                       (float *)d->data + d->strides[0], layer) == 0;
    }
    SECTION("groups of rows");
    CHECK(same, "90 rows in groups: each has the bits that it has alone, attention too");
    tfm_session_free(all), tfm_session_free(one), tfm_model_free(model);
}

/* ---- steps against the teacher-forced pass ---- */

/* Decodes src greedily in one batch, then runs the forward pass over the start token and the
   output. The logits of each step must be equal. Returns the largest difference. */
static double steps_against_forward(const tfm_model *model, const id_matrix *src, int32_t cap) {
    const tfm_config *c = tfm_model_config(model);
    tfm_session *s = tiny_session(model, src->rows, src->width, cap),
                *f = tiny_session(model, src->rows, src->width, cap);
    int64_t V = c->tgt_vocab_size, width = cap;
    float *steps = (float *)test_memory((size_t)(src->rows * width * V) * sizeof(float));
    int32_t *tgt = (int32_t *)test_memory((size_t)(src->rows * cap) * 4), running = 1, row, i, t;
    int32_t *lengths = (int32_t *)test_memory((size_t)src->rows * 4);
    tfm_tensor logits = test_like(tfm_tensor_3d(NULL, TFM_DTYPE_F32, src->rows, cap, V));
    tfm_decode_options o;
    tfm_result r;
    id_matrix tgt_batch;
    double most = 0;
    memset(&o, 0, sizeof o);
    o.max_length = cap;
    must(start_rows(s, src, NULL, &o, &err));
    for (t = 0; running; t++) {
        must(tfm_session_step(s, &running, &err));
        for (row = 0; row < src->rows; row++)
            if (tfm_result_logits(s, row, 0)) {
                memcpy(steps + (row * width + t) * V, tfm_result_logits(s, row, 0),
                       (size_t)V * sizeof(float));
                lengths[row] = t + 1;
            }
    }
    for (row = 0; row < src->rows; row++) {
        r = result_of(s, row);
        for (i = 0; i < cap; i++)
            tgt[row * cap + i] = i == 0 ? c->start : i <= r.length ? r.ids[i - 1] : 0;
    }
    tgt_batch = tiny_batch(tgt, lengths, src->rows, cap);
    must(forward_rows(f, src, &tgt_batch, NULL, &logits, &err));
    for (row = 0; row < src->rows; row++)
        for (i = 0; i < lengths[row] * V; i++)
            most = test_max(most, fabs((double)steps[row * width * V + i] -
                                       (double)((float *)logits.data)[row * width * V + i]));
    tfm_session_free(s), tfm_session_free(f);
    return most;
}

static void steps(void) {
    static const char *const configs[] = {
        ", \"start\": 1, \"end\": 2",
        ", \"start\": 1, \"end\": 2, \"norm\": \"pre\", \"activation\": \"gelu\", \"layer_norm\": "
        "\"deviation\"",
        ", \"start\": 1, \"end\": 2, \"positions\": \"sinusoidal_halves\", \"position_offset\": 2, "
        "\"position_divisor\": \"d/2-1\", \"pad_position\": \"zero\", \"src_pad\": 0, "
        "\"embedding_scale\": "
        "\"sqrt_d\"",
        ", \"start\": 1, \"end\": 2, \"positions\": \"none\", \"activation\": \"swish\", "
        "\"attention_scale\": 0.3",
        ", \"start\": 1, \"end\": 2, \"positions\": \"learned\", \"activation\": \"gelu_tanh\"",
    };
    golden g = golden_open("seed3_dv.safetensors", "input.tgt");
    int32_t ids[5 * 9];
    static const int32_t lengths[] = {9, 1, 4, 7, 2};
    id_matrix src = tiny_batch(ids, lengths, 5, 9);
    unsigned seed = 3;
    size_t i;
    double d = steps_against_forward(g.model, &g.src_batch, 30);
    SECTION("steps against the teacher-forced pass");
    CHECK(d <= 1e-5, "seed3_dv                                             largest difference %.2g",
          d);
    golden_close(&g);
    for (i = 0; i < 45; i++) ids[i] = 1 + (int32_t)(tiny_random(&seed) % 10);
    for (i = 0; i < sizeof configs / sizeof *configs; i++) {
        tiny t = tiny_default();
        tfm_model *model;
        t.config = configs[i];
        t.src_positions = strstr(t.config, "learned") ? 40 : 0;
        t.seed = (unsigned)i + 5;
        for (t.ssru = 0; t.ssru < 4; t.ssru++) {
            t.t5 = (int)(i + t.ssru) % 3;
            model = tiny_model(t);
            d = steps_against_forward(model, &src, 25);
            CHECK(t.ssru ? d == 0 : d <= 1e-5,
                  "config %d, SSRUs %u                                    largest difference %.2g",
                  (int)i, t.ssru, d);
            tfm_model_free(model);
        }
    }
}

/* ---- bits ---- */

typedef struct outcome {
    int32_t ids[64], length;
    tfm_finish finish;
    double score;
    float logits[64]; /* ids of the first step */
} outcome;

/* V: the size of the model's target vocabulary. */
static void decode(tfm_session *s, int64_t V, const id_matrix *src, outcome *out) {
    int32_t running = 1, row, first = 1;
    tfm_result r;
    must(start_rows(s, src, NULL, NULL, &err));
    for (; running; first = 0) {
        must(tfm_session_step(s, &running, &err));
        for (row = 0; first && row < src->rows; row++)
            memcpy(out[row].logits, tfm_result_logits(s, row, 0), (size_t)V * sizeof(float));
    }
    for (row = 0; row < src->rows; row++) {
        r = result_of(s, row);
        memcpy(out[row].ids, r.ids, (size_t)r.length * 4);
        out[row].length = r.length, out[row].finish = r.finish, out[row].score = r.score;
    }
}

static void batches(int t5) {
    enum { N = 32, S = 12 };
    static const int sizes[] = {2, 7, 32};
    tiny t = tiny_default();
    tfm_model *model;
    tfm_session *one, *many;
    int32_t ids[N][S], lengths[N], order[N], batch_ids[N * S], batch_lengths[N];
    static outcome alone[N], together[N];
    unsigned seed = 99;
    size_t z;
    st_writer w;
    int i, j, b, pad, ended = 0, differ = 0;
    t.config = t5 ? ", \"start\": 1, \"end\": 2, \"src_pad\": 0, \"norm\": \"pre\", "
                    "\"layer_norm\": \"rms\", \"positions\": \"none\", "
                    "\"relative_max_distance\": 11"
                  : ", \"start\": 1, \"end\": 2, \"src_pad\": 0, \"norm\": \"pre\"";
    t.t5 = t5;
    tiny_write(&w, t);
    tiny_raise(&w, 2,
               t5 == 1   ? 0.45f
               : t5 == 2 ? 0.1f
                         : 0.6f); /* makes the end token come sometimes */
    model = tiny_load(&w, NULL);
    one = tiny_session(model, 1, S, 40), many = tiny_session(model, N, S, 40);
    SECTION("a sentence has the same bits alone and in any batch");
    for (i = 0; i < N; i++) {
        id_matrix src;
        lengths[i] = 1 + (int32_t)(tiny_random(&seed) % S), order[i] = i;
        for (j = 0; j < S; j++) ids[i][j] = 1 + (int32_t)(tiny_random(&seed) % 10);
        src = tiny_batch(ids[i], NULL, 1, lengths[i]);
        decode(one, t.vt, &src, &alone[i]);
        ended += alone[i].finish == TFM_FINISH_ENDED;
        differ |= alone[i].length != alone[0].length;
    }
    CHECK(ended > 0 && ended < N && differ,
          "%d of 32 sentences end by themselves, at various lengths", ended);
    for (z = 0; z < 3; z++)
        for (pad = 0; pad < 2; pad++) { /* pads by length, and by the pad id */
            int same = 1;
            for (i = N - 1; i > 0; i--) {
                int32_t swap = order[i];
                j = (int)(tiny_random(&seed) % (unsigned)(i + 1));
                order[i] = order[j], order[j] = swap;
            }
            for (b = 0; b < N; b += sizes[z]) {
                int rows = N - b < sizes[z] ? N - b : sizes[z], width = 0;
                id_matrix src;
                for (i = 0; i < rows; i++)
                    if (lengths[order[b + i]] > width) width = lengths[order[b + i]];
                for (i = 0; i < rows; i++) {
                    batch_lengths[i] = lengths[order[b + i]];
                    for (j = 0; j < width; j++)
                        batch_ids[i * width + j] = j < batch_lengths[i] ? ids[order[b + i]][j]
                                                   : pad                ? 0
                                                                        : -7;
                }
                src = tiny_batch(batch_ids, pad ? NULL : batch_lengths, rows, width);
                decode(many, t.vt, &src, together);
                for (i = 0; i < rows; i++) {
                    const outcome *x = &together[i], *y = &alone[order[b + i]];
                    same &= x->length == y->length && x->finish == y->finish;
                    same &= memcmp(x->ids, y->ids, (size_t)y->length * 4) == 0;
                    same &= memcmp(&x->score, &y->score, sizeof x->score) == 0;
                    same &= memcmp(x->logits, y->logits, (size_t)t.vt * sizeof(float)) == 0;
                }
            }
            CHECK(same, "batches of %d, shuffled, pads by %s", sizes[z], pad ? "id" : "length");
        }
    tfm_session_free(one), tfm_session_free(many), tfm_model_free(model);
}

/* ---- memory ---- */

static void memory(void) {
    tiny t = tiny_default();
    st_writer w;
    tfm_model *model;
    tfm_session *s;
    tfm_session_options o;
    tfm_model_options mo = tiny_options();
    tfm_allocator model_allocator, session_allocator;
    test_allocator model_counter, session_counter;
    static const int32_t ids[] = {3, 4, 5, 6, 7, 8};
    id_matrix src = tiny_batch(ids, NULL, 2, 3);
    tfm_tensor logits = test_like(tfm_tensor_3d(NULL, TFM_DTYPE_F32, 2, 3, t.vt));
    size_t bytes = 0, halved = 0;
    int32_t running = 1, calls, batch;
    int exact = 1;
    SECTION("memory");
    model_allocator = test_counting(&model_counter),
    session_allocator = test_counting(&session_counter);
    memset(&mo, 0, sizeof mo);
    mo.allocator = &model_allocator;
    tiny_write(&w, t);
    model = tiny_load(&w, &mo);
    CHECK(model_counter.calls > 0, "the model's allocator is used (%d calls)", model_counter.calls);
    for (batch = 1; batch < 700; batch = batch * 2 + 1) {
        memset(&o, 0, sizeof o);
        o.max_batch = batch, o.max_source = 5, o.max_target = 9 - batch % 3,
        o.allocator = &session_allocator, o.cache = batch % 4 == 1 ? TFM_DTYPE_F16 : TFM_DTYPE_F32;
        must(tfm_session_bytes(model, &o, &bytes, &err));
        calls = session_counter.calls;
        must(tfm_session_create(&s, model, &o, &err));
        exact &= session_counter.calls == calls + 1 && session_counter.last == bytes;
        tfm_session_free(s);
    }
    CHECK(exact, "tfm_session_bytes is the size of the one allocation, for 9 batch sizes");
    o.max_batch = 16, o.max_source = 4, o.max_target = 8, o.max_beam = 2, o.cache = TFM_DTYPE_F32;
    must(tfm_session_bytes(model, &o, &bytes, &err));
    o.cache = TFM_DTYPE_F16;
    must(tfm_session_bytes(model, &o, &halved, &err));
    calls = (int32_t)(t.decoder * t.heads * (t.key + t.value)) * 16 * (4 + 2 * 8);
    CHECK(halved == bytes - 2 * (size_t)calls,
          "F16 takes %d bytes less, 2 for each element of a cache", (int)(bytes - halved));
    o.max_beam = 0;
    must(tfm_session_create(&s, model, &o, &err));
    calls = session_counter.calls;
    must(encode_rows(s, &src, &err));
    must(forward_rows(s, &src, &src, NULL, &logits, &err));
    must(start_rows(s, &src, NULL, NULL, &err));
    while (running) must(tfm_session_step(s, &running, &err));
    CHECK(session_counter.calls == calls, "no allocation after the session is made");
    tfm_session_free(s), tfm_model_free(model);
    CHECK(session_counter.live == 0 && model_counter.live == 0, "all memory is released");

    o.max_batch = 2000000000, o.max_source = 1000000000, o.max_target = 1000000000,
    o.allocator = NULL;
    model = tiny_model(t);
    CHECK_FAILS(tfm_session_bytes(model, &o, &bytes, &err), TFM_E_OVERFLOW,
                sizeof(size_t) > 4 ? "overflow" : "more than");
    session_allocator.allocate = NULL;
    o.max_batch = 1, o.max_source = 5, o.max_target = 5, o.allocator = &session_allocator;
    CHECK_FAILS(tfm_session_create(&s, model, &o, &err), TFM_E_ARGUMENT, "allocate and release");
    tfm_model_free(model);
    tfm_model_free(NULL), tfm_session_free(NULL), tfm_safetensors_free(NULL);
}

/* ---- SSRUs ---- */

static void ssrus(void) {
    static const int32_t ids[] = {3, 4, 5, 6, 7, 8};
    tiny t = tiny_default();
    id_matrix src = tiny_batch(ids, NULL, 2, 3);
    tfm_model *model;
    tfm_session *s;
    tfm_session_options o;
    tfm_forward_options f;
    tfm_tensor logits = test_like(tfm_tensor_3d(NULL, TFM_DTYPE_F32, 2, 3, t.vt));
    tfm_tensor again = test_like(logits), padded = test_like(logits);
    int32_t cut[] = {3, 4, 5, 6, 7, -9}, lengths[] = {3, 2};
    int64_t dims[5] = {2, 2, 2, 3, 3};
    size_t bytes[4];
    int i;
    SECTION("decoder layers that are SSRUs");
    t.key = 10, t.value = 6;
    memset(&o, 0, sizeof o);
    o.max_batch = 16, o.max_source = 4, o.max_target = 8, o.max_beam = 2;
    for (i = 0; i < 4; i++) {
        t.ssru = (unsigned)i, o.cache = i == 2 ? TFM_DTYPE_F16 : TFM_DTYPE_F32;
        model = tiny_model(t);
        must(tfm_session_bytes(model, &o, &bytes[i], &err));
        CHECK(tfm_model_config(model)->n_ssru_layers == i - i / 2, "");
        tfm_model_free(model);
    }
    /* 32 hypotheses of 8 positions: 20 + 12 floats of keys and values, or 20 floats of a state */
    CHECK(bytes[0] - bytes[1] == 32 * 4 * (8 * 32 - 20) && bytes[1] - bytes[3] == 32 * 4 * 236,
          "a layer takes %d bytes less", (int)(bytes[0] - bytes[1]));
    /* F16 halves the other layer's cache, and the keys and values of 64 source positions in both
       layers. */
    CHECK(bytes[1] - bytes[2] == 2 * 32 * (32 * 8 + 2 * 64), "a state is always F32");

    t.ssru = 2; /* the second layer */
    model = tiny_model(t), s = tiny_session(model, 2, 3, 3);
    memset(&f, 0, sizeof f);
    f.decoder_attention = test_like(tfm_tensor_make(NULL, TFM_DTYPE_F32, 5, dims));
    CHECK_FAILS(forward_rows(s, &src, &src, &f, &logits, &err), TFM_E_ARGUMENT,
                "decoder_attention: decoder.layers.1 is an SSRU");
    f.decoder_attention.data = NULL, f.not_causal = 1;
    CHECK_FAILS(forward_rows(s, &src, &src, &f, &logits, &err), TFM_E_ARGUMENT,
                "not_causal: decoder.layers.1 is an SSRU");
    CHECK(tfm_session_encoder_output(s).data == NULL && isnan(*(float *)logits.data),
          "a refused call does nothing");
    f.not_causal = 0, f.cross_attention = test_like(tfm_tensor_make(NULL, TFM_DTYPE_F32, 5, dims));
    must(forward_rows(s, &src, &src, &f, &logits, &err));
    for (i = 0; i < 2 * 2 * 2 * 3; i++) {
        const float *p = (const float *)f.cross_attention.data + 3 * i;
        if (!(fabs((double)p[0] + (double)p[1] + (double)p[2] - 1) < 1e-6)) break;
    }
    CHECK(i == 24, "weights of the cross-attention add up to 1 in both layers");
    must(forward_rows(s, &src, &src, NULL, &again, &err));
    CHECK(test_difference(&again, &logits) == 0, "asking for attention changes nothing");
    src = tiny_batch(ids, NULL, 2, 3);
    {
        id_matrix tgt = tiny_batch(cut, lengths, 2, 3);
        must(forward_rows(s, &src, &tgt, NULL, &padded, &err));
    }
    CHECK(memcmp(padded.data, logits.data, (size_t)(5 * t.vt) * sizeof(float)) == 0,
          "pads behind a target change nothing before them");
    tfm_session_free(s), tfm_model_free(model);
}

/* ---- limits and states ---- */

static void limits(void) {
    tiny t = tiny_default();
    tfm_model *model;
    tfm_session *s;
    tfm_session_options o;
    static const int32_t ids[] = {3, 4, 5, 6, 7, 99, 0, 0};
    int32_t zero_length = 0, running = 5;
    id_matrix src = tiny_batch(ids, NULL, 1, 5), bad;
    tfm_tensor logits = test_like(tfm_tensor_3d(NULL, TFM_DTYPE_F32, 1, 5, t.vt));
    tfm_decode_options d;
    tfm_result r;
    SECTION("limits, states and arguments");
    t.config = ", \"start\": 1, \"src_pad\": 0, \"suppressed\": [2, 5, 12], \"forced\": 4";
    model = tiny_model(t);
    s = tiny_session(model, 1, 6, 40);
    CHECK_FAILS(tfm_session_step(s, &running, &err), TFM_E_STATE,
                "call tfm_session_start before tfm_session_step");
    CHECK_FAILS(tfm_result_get(s, 0, 0, &r, &err), TFM_E_STATE,
                "call tfm_session_start or tfm_session_decode first");
    CHECK(tfm_result_logits(s, 0, 0) == NULL && tfm_session_encoder_output(s).data == NULL,
          "there is no hypothesis before the first call");
    must(start_rows(s, &src, NULL, NULL, &err));
    while (running) must(tfm_session_step(s, &running, &err));
    r = result_of(s, 0);
    CHECK(r.finish == TFM_FINISH_HIT_LENGTH && r.length == 2 * 5 + 16,
          "without an end token: stops at 2 x source + 16, and says so");
    CHECK(r.ids[0] == 4, "the forced first token");
    {
        int i, clean = 1;
        for (i = 0; i < r.length; i++) clean &= r.ids[i] != 2 && r.ids[i] != 5 && r.ids[i] != 12;
        CHECK(clean, "suppressed ids do not occur");
    }
    must(tfm_session_step(s, &running, &err));
    CHECK(running == 0, "a step after the end changes nothing");
    CHECK_FAILS(tfm_result_get(s, 1, 0, &r, &err), TFM_E_ARGUMENT, "request is 1, expected 0 to 0");
    memset(&d, 0, sizeof d);
    d.max_length = 3;
    must(start_rows(s, &src, NULL, &d, &err));
    for (running = 1; running;) must(tfm_session_step(s, &running, &err));
    r = result_of(s, 0);
    CHECK(r.finish == TFM_FINISH_HIT_LENGTH && r.length == 3, "max_length 3");
    d.max_length = 41;
    CHECK_FAILS(start_rows(s, &src, NULL, &d, &err), TFM_E_TOO_LONG,
                "max_length is 41, the session's max_target 40");

    bad = tiny_batch(ids, NULL, 1, 6);
    CHECK_FAILS(encode_rows(s, &bad, &err), TFM_E_TOKEN, "ids: position 5: id 99");
    bad = tiny_batch(ids, NULL, 1, 7);
    CHECK_FAILS(encode_rows(s, &bad, &err), TFM_E_TOO_LONG,
                "src has 7 tokens, the session takes 1 to 6");
    bad = tiny_batch(ids, NULL, 2, 3);
    CHECK_FAILS(encode_rows(s, &bad, &err), TFM_E_TOO_LONG, "2 requests, the session");
    bad = tiny_batch(ids, &zero_length, 1, 3);
    CHECK_FAILS(encode_rows(s, &bad, &err), TFM_E_ARGUMENT, "the source is blank");
    bad = tiny_batch(ids + 6, NULL, 1, 2);
    CHECK_FAILS(encode_rows(s, &bad, &err), TFM_E_ARGUMENT, "src is all pads");
    bad = tiny_batch(ids, NULL, 0, 3);
    CHECK_FAILS(encode_rows(s, &bad, &err), TFM_E_ARGUMENT, "0 requests, the session");
    bad = tiny_batch(ids, NULL, 1, 4);
    CHECK_FAILS(forward_rows(s, &src, &bad, NULL, &logits, &err), TFM_E_SHAPE,
                "logits is [1, 5, 13], expected [1, 4, 13]");
    logits.dims[0] = 2;
    CHECK_FAILS(forward_rows(s, &src, &src, NULL, &logits, &err), TFM_E_SHAPE,
                "logits is [2, 5, 13]");
    /* A failed call must leave the decode unchanged. */
    r = result_of(s, 0);
    CHECK(r.length == 3, "results survive failed calls");
    tfm_session_free(s), tfm_model_free(model);

    t.config = ", \"end\": 2";
    model = tiny_model(t);
    s = tiny_session(model, 1, 6, 40);
    CHECK_FAILS(start_rows(s, &src, NULL, NULL, &err), TFM_E_CONFIG, "'start' is missing");
    tfm_session_free(s), tfm_model_free(model);

    t.config = ", \"start\": 1, \"positions\": \"learned\", \"position_offset\": 2";
    t.src_positions = 12;
    model = tiny_model(t);
    CHECK(tfm_model_config(model)->max_positions == 10,
          "12 learned positions from offset 2: 10 tokens");
    memset(&o, 0, sizeof o);
    o.max_source = 11;
    CHECK_FAILS(tfm_session_create(&s, model, &o, &err), TFM_E_TOO_LONG,
                "the model has positions for 10");
    tfm_model_free(model);
}

/* A source that is refused in the middle of a decode must not change the decode or its pad
   masks. */
static void failed_start(void) {
    static const int32_t ids[] = {3, 0, 5, 6};
    static const int32_t wrong[] = {3, 99};
    tiny t = tiny_default();
    id_matrix src = tiny_batch(ids, NULL, 1, 4), bad = tiny_batch(wrong, NULL, 1, 2);
    tfm_model *model;
    tfm_session *s;
    float *logits = (float *)test_memory((size_t)t.vt * sizeof(float));
    int32_t running, fail;
    t.config = ", \"start\": 1, \"src_pad\": 0";
    model = tiny_model(t);
    s = tiny_session(model, 1, 6, 40);
    for (fail = 0; fail < 2; fail++) {
        must(start_rows(s, &src, NULL, NULL, &err));
        must(tfm_session_step(s, &running, &err));
        if (fail) CHECK_FAILS(start_rows(s, &bad, NULL, NULL, &err), TFM_E_TOKEN, "id 99");
        must(tfm_session_step(s, &running, &err));
        if (!fail) memcpy(logits, tfm_result_logits(s, 0, 0), (size_t)t.vt * sizeof(float));
    }
    CHECK(memcmp(logits, tfm_result_logits(s, 0, 0), (size_t)t.vt * sizeof(float)) == 0,
          "a refused source does not change the running decode");
    tfm_session_free(s), tfm_model_free(model);
}

/* A final norm with only a bias counts as a norm. */
static void bias_only_norm(void) {
    static float bias[20];
    static const int32_t ids[] = {3, 4, 5};
    tiny t = tiny_default();
    id_matrix src = tiny_batch(ids, NULL, 1, 3);
    st_writer w;
    tfm_model *model;
    tfm_session *s;
    tfm_tensor memory_out, expected = test_like(tfm_tensor_3d(NULL, TFM_DTYPE_F32, 1, 3, 20));
    int k;
    for (k = 0; k < 2; k++) {
        tiny_write(&w, t);
        if (k) st_add(&w, "encoder.norm.bias", tfm_tensor_1d(bias, TFM_DTYPE_F32, 20));
        model = tiny_load(&w, NULL);
        s = tiny_session(model, 1, 3, 3);
        must(encode_rows(s, &src, &err));
        memory_out = tfm_session_encoder_output(s);
        if (!k) must(tfm_layer_norm(&expected, &memory_out, NULL, &err));
        else compare("a final norm that has only a bias", &memory_out, &expected, 1e-6);
        tfm_session_free(s), tfm_model_free(model);
    }
}

/* A target that begins with the pad id, as Marian's do: it is masked, or a token like others. */
static void kept_pads(void) {
    static const int32_t ids[] = {3, 4, 5}, to[] = {0, 4, 5};
    id_matrix src = tiny_batch(ids, NULL, 1, 3), tgt = tiny_batch(to, NULL, 1, 3);
    tfm_tensor logits[3];
    tfm_forward_options o;
    int k;
    SECTION("pads that are kept");
    for (k = 0; k < 3; k++) { /* no pad id; keep_pads; without it */
        tiny t = tiny_default();
        tfm_model *model;
        tfm_session *s;
        if (k) t.config = ", \"start\": 0, \"end\": 2, \"tgt_pad\": 0";
        model = tiny_model(t);
        s = tiny_session(model, 1, 3, 3);
        logits[k] = test_like(tfm_tensor_3d(NULL, TFM_DTYPE_F32, 1, 3, t.vt));
        memset(&o, 0, sizeof o);
        o.keep_pads = k == 1;
        must(forward_rows(s, &src, &tgt, &o, &logits[k], &err));
        tfm_session_free(s), tfm_model_free(model);
    }
    CHECK(test_difference(&logits[0], &logits[1]) == 0, "are tokens like others");
    CHECK(test_difference(&logits[0], &logits[2]) > 0, "else they are masked");
}

/* With weights that are NaN or infinite a decode must end, with ids in range. */
static void broken_numbers(void) {
    const float values[] = {NAN, INFINITY, -INFINITY, 3e38f, 1e-42f, 0};
    static const int32_t ids[] = {3, 4, 5};
    size_t v, i;
    int ok = 1;
    for (v = 0; v < 2 * (sizeof values / sizeof *values); v++) {
        tiny t = tiny_default();
        tfm_session_options o;
        id_matrix src = tiny_batch(ids, NULL, 1, 3);
        st_writer w;
        tfm_model *model;
        tfm_session *s;
        tfm_result r;
        int32_t running = 1;
        int64_t k;
        tiny_write(&w, t);
        for (i = 0; i < w.n_entries; i++)
            for (k = 0; k < test_count(&w.entries[i].tensor); k += 3)
                ((float *)w.entries[i].tensor.data)[k] = values[v / 2];
        model = tiny_load(&w, NULL);
        memset(&o, 0, sizeof o);
        o.max_source = 3, o.max_target = 22, o.cache = v % 2 ? TFM_DTYPE_F16 : TFM_DTYPE_F32;
        must(tfm_session_create(&s, model, &o, &err));
        must(start_rows(s, &src, NULL, NULL, &err));
        while (running) must(tfm_session_step(s, &running, &err));
        r = result_of(s, 0);
        for (k = 0; k < r.length; k++) ok &= r.ids[k] >= 0 && r.ids[k] < t.vt;
        ok &= r.finish != TFM_FINISH_RUNNING && r.length <= 22;
        tfm_session_free(s), tfm_model_free(model);
    }
    CHECK(ok, "weights of NaN, infinity, denormals: decoding ends, ids are in range");
}

/* F16 and BF16 files must give the bits of an F32 file with the same values, unless activations
   become BF16 too. */
static void narrow_types(void) {
    static const tfm_dtype types[] = {TFM_DTYPE_F16, TFM_DTYPE_BF16};
    static const char *const kinds[] = {"no relative positions", "a table for each stack",
                                        "a table for each layer"};
    static const int32_t ids[] = {3, 4, 5, 1, 2, 3};
    int k, same;
    SECTION("element types and alignment");
    for (k = 0; k < 6; k++) {
        const tfm_dtype type = types[k % 2];
        tiny t = tiny_default();
        tfm_tensor a = test_like(tfm_tensor_3d(NULL, TFM_DTYPE_F32, 2, 3, t.vt)), b = test_like(a);
        id_matrix src = tiny_batch(ids, NULL, 2, 3);
        st_writer w;
        tfm_model *model;
        tfm_session *s;
        size_t i;
        int64_t e;
        t.dtype = type;
        t.t5 = k / 2; /* relative positions: none, a table for the stack, a table for each layer */
        model = tiny_model(t);
        s = tiny_session(model, 2, 3, 3);
        must(forward_rows(s, &src, &src, NULL, &a, &err));
        tfm_session_free(s), tfm_model_free(model);
        tiny_write(&w, t); /* The same seed gives the same bits. */
        for (i = 0; i < w.n_entries; i++) {
            tfm_tensor *x = &w.entries[i].tensor, wide = test_like(*x);
            for (e = 0; e < test_count(x); e++) {
                unsigned bits = ((uint16_t *)x->data)[e];
                int fraction = type == TFM_DTYPE_F16 ? 10 : 7,
                    bias = type == TFM_DTYPE_F16 ? 15 : 127;
                int exponent = (int)(bits >> fraction) & (type == TFM_DTYPE_F16 ? 31 : 255);
                double mantissa = (double)(bits & ((1u << fraction) - 1));
                double value =
                    exponent ? ldexp(mantissa + ldexp(1, fraction), exponent - bias - fraction)
                             : ldexp(mantissa, 1 - bias - fraction);
                ((float *)wide.data)[e] = (float)(bits >> 15 ? -value : value);
            }
            w.entries[i].bytes *= 2;
            *x = wide;
        }
        model = tiny_load(&w, NULL);
        s = tiny_session(model, 2, 3, 3);
        must(forward_rows(s, &src, &src, NULL, &b, &err));
        same = memcmp(a.data, b.data, (size_t)test_count(&a) * sizeof(float)) == 0;
        if (type == TFM_DTYPE_BF16 &&
            (strstr(tfm_cpu_string(), "AMX") || strstr(tfm_cpu_string(), "BF16")))
            CHECK(!same && test_difference(&a, &b) < 0.02,
                  "BF16 weights and activations, %s: %.2g off the same values in F32", kinds[k / 2],
                  test_difference(&a, &b));
        else
            CHECK(same, "%s weights, %s: the bits of the same values in F32", tfm_dtype_name(type),
                  kinds[k / 2]);
        tfm_session_free(s), tfm_model_free(model);
    }
    {
        tiny t = tiny_default();
        tfm_tensor a = test_like(tfm_tensor_3d(NULL, TFM_DTYPE_F32, 2, 3, t.vt)), b = test_like(a);
        id_matrix src = tiny_batch(ids, NULL, 2, 3);
        st_writer w;
        size_t size;
        char *bytes, *shifted;
        tfm_model_options in_place = tiny_options();
        tfm_model *model;
        tfm_session *s;
        in_place.in_place = 1;
        tiny_write(&w, t);
        bytes = (char *)tiny_bytes(&w, &size);
        shifted = (char *)test_memory(size + 128);
        shifted += 64 - (size_t)((uintptr_t)shifted % 64);
        same = 1;
        for (k = 0; k < 5; k++) {
            memmove(shifted + k, bytes, size);
            must(tfm_model_load(&model, shifted + k, size, &in_place, &err));
            s = tiny_session(model, 2, 3, 3);
            must(forward_rows(s, &src, &src, NULL, k ? &b : &a, &err));
            if (k) same &= memcmp(a.data, b.data, (size_t)test_count(&a) * sizeof(float)) == 0;
            tfm_session_free(s), tfm_model_free(model);
        }
        CHECK(same, "a file at any address gives the same bits");
    }
}

int main(void) {
    seed0("seed0_small.safetensors");
    seed0("seed0_wide.safetensors");
    seed3("seed3_toy.safetensors");
    seed3("seed3_dv.safetensors");
    cache_f16();
    groups();
    steps();
    batches(0);
    batches(1);
    batches(2);
    memory();
    ssrus();
    limits();
    failed_start();
    bias_only_norm();
    kept_pads();
    broken_numbers();
    narrow_types();
    return test_done("test_model");
}
