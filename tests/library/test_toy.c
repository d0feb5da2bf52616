/* The translator of three sentences (tests/data/models/toy.safetensors, which "make toy" writes):
   compares every target token by token, alone and in a batch with pads. */
#include "transformer.h"
#include "tiny.h"

/* source vocabulary: P 我 是 学 生 喜 欢 习 男; target: S E P I am a student like learning boy */
static const int32_t sources[3][5] = {{1, 2, 3, 4, 0}, {1, 5, 6, 3, 7}, {1, 2, 8, 4, 0}};
static const int32_t lengths[3] = {4, 5, 4};
static const int32_t targets[3][4] = {{3, 4, 5, 6}, {3, 7, 8, -1}, {3, 4, 5, 9}};
static const int32_t target_lengths[3] = {4, 3, 4};
static const char *const texts[3][2] = {
    {"我是学生", "I am a student"}, {"我喜欢学习", "I like learning"}, {"我是男生", "I am a boy"}};

static void decode(tfm_session *s, const id_matrix *src, int first, const char *what) {
    int32_t running = 1, row;
    tfm_status status = start_rows(s, src, NULL, NULL, &err);
    while (status == TFM_OK && running) status = tfm_session_step(s, &running, &err);
    CHECK(status == TFM_OK, "%s", status == TFM_OK ? "" : err.text);
    for (row = 0; row < src->rows; row++) {
        tfm_result r;
        int i = first + row;
        memset(&r, 0, sizeof r);
        CHECK(tfm_result_get(s, row, 0, &r, &err) == TFM_OK && r.finish == TFM_FINISH_ENDED &&
                  r.length == target_lengths[i] &&
                  memcmp(r.ids, targets[i], (size_t)target_lengths[i] * 4) == 0,
              "%s %s: %s", texts[i][0], what, texts[i][1]);
    }
}

int main(void) {
    tfm_model *model = NULL;
    tfm_session *s;
    id_matrix src;
#ifndef TRANSFORMER_NO_TEXT
    char out[64];
#endif
    int i;
    if (tfm_model_load_file(&model, "tests/data/models/toy.safetensors", NULL, &err) != TFM_OK) {
        printf("%s\n", err.text);
        return 2;
    }
    s = tiny_session(model, 3, 5, 30);
    for (i = 0; i < 3; i++) {
        src = tiny_batch(sources[i], NULL, 1, lengths[i]);
        decode(s, &src, i, "alone");
        src = tiny_batch(sources[i], NULL, 1, 5);
        decode(s, &src, i, "with its pad");
#ifndef TRANSFORMER_NO_TEXT
        CHECK(tfm_translate(s, texts[i][0], out, sizeof out, &err) == TFM_OK &&
                  strcmp(out, texts[i][1]) == 0,
              "%s as text: %s", texts[i][0], out);
#endif
    }
    src = tiny_batch(sources[0], NULL, 3, 5);
    decode(s, &src, 0, "in a batch, pads by id");
    src = tiny_batch(sources[0], lengths, 3, 5);
    decode(s, &src, 0, "in a batch, pads by length");
    tfm_session_free(s);
    tfm_model_free(model);
    return test_done("test_toy");
}
