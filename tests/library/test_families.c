/* The families of Hugging Face: runs the model files that tools/convert.py made of small random
   models, and compares them with what transformers computed (tests/make/make_families.py writes
   both). */
#include "transformer.h"
#include "tiny.h"

/* Returns the largest difference in the first lengths[b] positions of each row b. */
static double difference_inside(const tfm_tensor *a, const tfm_tensor *b, const int32_t *lengths) {
    const float *x = (const float *)a->data, *y = (const float *)b->data;
    int64_t row, i, L = a->dims[1], D = a->dims[2];
    double most = 0;
    for (row = 0; row < a->dims[0]; row++)
        for (i = 0; i < lengths[row] * D; i++) {
            double d = fabs((double)x[row * L * D + i] - (double)y[row * L * D + i]);
            if (!(d <= most)) most = d;
        }
    return most;
}

/* Decodes src to at most as many tokens as the golden ids have columns. Returns 1 if the ids are
   equal. */
static int decode(tfm_session *s, const id_matrix *src, const int32_t *ids, const float *scores,
                  int32_t cap, double *most) {
    tfm_decode_options o;
    int32_t running = 1, row, i;
    int same = 1;
    memset(&o, 0, sizeof o);
    o.max_length = cap;
    must(start_rows(s, src, NULL, &o, &err));
    while (running) must(tfm_session_step(s, &running, &err));
    for (row = 0; row < src->rows; row++) {
        tfm_result r;
        must(tfm_result_get(s, row, 0, &r, &err));
        for (i = 0; i < cap; i++) same &= ids[row * cap + i] == (i < r.length ? r.ids[i] : -1);
        *most = test_max(*most, fabs(r.score - (double)scores[row]));
    }
    return same;
}

static void family(const char *name) {
    char path[128];
    tfm_safetensors *file;
    tfm_model *model;
    tfm_session *session;
    tfm_tensor src, lengths, tgt, memory, logits, greedy, scores, got, got_memory;
    id_matrix src_batch, tgt_batch;
    int32_t rows, width, cap, row;
    double most = 0, alone = 0;
    int same = 1;
    snprintf(path, sizeof path, "families/%s.safetensors", name);
    file = test_open(path);
    snprintf(path, sizeof path, "tests/data/models/%s.safetensors", name);
    must(tfm_model_load_file(&model, path, NULL, &err));
    src = test_get(file, "input.src"), lengths = test_get(file, "input.src_lengths");
    tgt = test_get(file, "input.tgt"), memory = test_get(file, "expect.memory");
    logits = test_get(file, "expect.logits"), greedy = test_get(file, "expect.greedy");
    scores = test_get(file, "expect.scores");
    rows = (int32_t)src.dims[0], width = (int32_t)src.dims[1], cap = (int32_t)greedy.dims[1];
    src_batch = tiny_batch((int32_t *)src.data, (int32_t *)lengths.data, rows, width);
    tgt_batch = tiny_batch((int32_t *)tgt.data, NULL, rows, (int32_t)tgt.dims[1]);
    session =
        tiny_session(model, rows, width, cap > (int32_t)tgt.dims[1] ? cap : (int32_t)tgt.dims[1]);
    got = test_like(logits);

    SECTION(name);
    must(forward_rows(session, &src_batch, &tgt_batch, NULL, &got, &err));
    got_memory = tfm_session_encoder_output(session);
    CHECK(difference_inside(&got_memory, &memory, (int32_t *)lengths.data) <= 2e-5,
          "memory                     largest difference %.2g",
          difference_inside(&got_memory, &memory, (int32_t *)lengths.data));
    CHECK(test_difference(&got, &logits) <= 1e-4,
          "logits                     largest difference %.2g", test_difference(&got, &logits));
    src_batch.lengths = NULL; /* Pad ids alone must show where a source ends. */
    must(forward_rows(session, &src_batch, &tgt_batch, NULL, &got, &err));
    CHECK(test_difference(&got, &logits) <= 1e-4, "the same with pad ids alone               %.2g",
          test_difference(&got, &logits));
    src_batch.lengths = (int32_t *)lengths.data;
    same = decode(session, &src_batch, (int32_t *)greedy.data, (float *)scores.data, cap, &most);
    CHECK(same, "greedy ids in a batch");
    CHECK(most <= 1e-4, "  and scores               largest difference %.2g", most);
    for (row = 0, same = 1; row < rows; row++) {
        id_matrix one =
            tiny_batch((int32_t *)src.data + row * width, (int32_t *)lengths.data + row, 1, width);
        same &= decode(session, &one, (int32_t *)greedy.data + row * cap,
                       (float *)scores.data + row, cap, &alone);
    }
    CHECK(same, "greedy ids of each sentence alone");
    CHECK(fabs(most - alone) <= 1e-6, "  and the same scores");
    tfm_session_free(session), tfm_model_free(model), tfm_safetensors_free(file);
}

int main(void) {
    family("marian");
    family("bart");
    family("mbart");
    family("m2m_100");
    family("pegasus");
    family("ssru");
    family("fsmt");
    family("blenderbot");
    family("blenderbot-small");
    family("t5");
    family("mt5");
    family("umt5");
    family("t5gemma");
    family("t5gemma2");
    return test_done("test_families");
}
