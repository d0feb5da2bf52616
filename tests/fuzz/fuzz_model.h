/* fuzz_model.h: a small valid model, changed as bytes say: three of them are a change. */
#ifndef FUZZ_MODEL_H
#define FUZZ_MODEL_H

#include "fuzz.h"

static const char *const fuzz_fields[] = {"d_model",         "d_ff",
                                          "d_key",           "n_encoder_layers",
                                          "src_vocab_size",  "position_offset",
                                          "position_base",   "embedding_scale",
                                          "attention_scale", "layer_norm_eps",
                                          "src_pad",         "tgt_pad",
                                          "src_unk",         "tgt_unk",
                                          "src_start",       "src_end",
                                          "start",           "end",
                                          "forced"};
static const char *const fuzz_choices[] = {
    "\"norm\": \"pre\"",
    "\"layer_norm\": \"deviation\"",
    "\"activation\": \"gelu\"",
    "\"positions\": \"learned\"",
    "\"positions\": \"none\"",
    "\"positions\": \"sinusoidal_halves\"",
    "\"position_divisor\": \"d/2-1\"",
    "\"position_precision\": \"double\"",
    "\"pad_position\": \"zero\"",
    "\"embedding_scale\": \"sqrt_d\"",
    "\"start_embedding\": \"zero\"",
    "\"suppressed\": [2, 5]",
    "\"src_text\": \"characters\"",
    "\"tgt_text\": \"pieces\"",
    "\"src_text\": \"sentencepiece\"",
    "\"languages\": {\"fra\": 5}, \"src_language\": \"target\"",
    "\"languages\": {\"deu\": 6}, \"tgt_language\": \"forced\""};
#define FUZZ_COUNT(array) ((int)(sizeof array / sizeof *array))

/* Writes the changed model: 0 where there is none. */
static int TEST_UNUSED fuzz_changed(const uint8_t *data, size_t size, void **bytes, size_t *n) {
    static const float numbers[] = {0, NAN, INFINITY, -INFINITY, 3e38f, 1e-42f, -1, 1e6f};
    static float same[8][4096];
    static st_writer base;
    st_writer w;
    char config[2048];
    size_t at, i;
    int ok, used = snprintf(config, sizeof config, "{\"n_heads\": %d", size ? data[0] % 4 : 2);
    if (!base.n_entries) {
        tiny t = tiny_default();
        t.d = 4, t.key = t.value = 2, t.ff = 4, t.encoder = 2, t.decoder = 1, t.vt = 11;
        t.src = t.tgt = FUZZ_WORDS, t.src_positions = t.tgt_positions = 30;
        tiny_write(&base, t);
        for (i = 0; i < 8 * 4096; i++) same[i / 4096][i % 4096] = numbers[i / 4096];
    }
    st_init(&w);
    for (i = 0; i < base.n_entries; i++) st_add(&w, base.entries[i].name, base.entries[i].tensor);
    for (at = 1; at + 3 <= size && at < 40; at += 3) {
        int value = data[at + 2], kind = data[at] % 10;
        st_entry *e = w.n_entries ? &w.entries[data[at + 1] % w.n_entries] : NULL;
        tfm_tensor t;
        if (kind < 2 || !e) { /* the config */
            const char *field = fuzz_fields[data[at + 1] % FUZZ_COUNT(fuzz_fields)];
            if (kind == 0) used += snprintf(config + used, 100, ", \"%s\": %d", field, value);
            else
                used += snprintf(config + used, 100, ", %s",
                                 fuzz_choices[data[at + 1] % FUZZ_COUNT(fuzz_choices)]);
            continue;
        }
        t = e->tensor;
        if (kind == 2 && t.rank) t.dims[0] = value % 16;
        else if (kind == 3 && t.rank > 1) t.dims[1] = value % 16;
        else if (kind == 4) t.dtype = (tfm_dtype)(value % TFM_DTYPE_COUNT);
        else if (kind == 5) free(e->name), *e = w.entries[--w.n_entries];
        else if (kind == 6) t.rank = value % (TFM_MAX_RANK + 1);
        else if (kind == 7) t.data = same[value % 8];
        else if (kind == 8) t = w.entries[(size_t)value % w.n_entries].tensor;
        else e->name[(size_t)value % strlen(e->name)] ^= 1;
        if (kind == 5 || kind == 9) continue;
        if (kind < 7) { /* contiguous again, of data that are long enough */
            void *from = same[6];
            for (i = (size_t)base.entries[0].tensor.rank; (int)i < t.rank; i++)
                if (t.dims[i] < 1 || t.dims[i] > 16) t.dims[i] = 1;
            t = tfm_tensor_make(from, t.dtype, t.rank, t.dims);
        }
        if (st_bytes(&t) < 0 || st_bytes(&t) > 4 * 4096 || st_bits(t.dtype) < 8) continue;
        if (kind == 7 && st_bytes(&t) > (int64_t)sizeof same[0]) continue;
        e->tensor = t, e->bytes = st_bytes(&t);
    }
    snprintf(config + used, 100, "}");
    st_add_metadata(&w, "transformer.config", config);
    ok = st_write_memory(&w, bytes, n) == NULL;
    st_free(&w);
    return ok;
}

/* How to search, by the last byte. */
static tfm_decode_options TEST_UNUSED fuzz_options(const uint8_t *data, size_t size) {
    int last = size ? data[size - 1] : 0;
    tfm_decode_options o;
    memset(&o, 0, sizeof o);
    o.max_length = 10;
    if (last % 4 == 1) o.beam = 1 + (last >> 2) % 4, o.n_best = 1, o.length_penalty = last / 100.0;
    if (last % 4 == 2) o.samples = 1 + (last >> 2) % 4, o.top_p = 0.9, o.top_k = (last >> 5) * 2;
    if (last % 4 == 3) o.alternatives = 1 + (last >> 2) % 4;
    if (last & 16) o.no_repeat_ngram = 2, o.repetition_penalty = 1.5;
    if (last & 32 && last % 4 < 2) o.coverage_penalty = 0.5;
    if (last & 64) o.stop = TFM_STOP_SURE, o.min_length = 3;
    return o;
}

/* Every hypothesis has ids in range, and has ended. */
static void TEST_UNUSED fuzz_results(tfm_session *s, const tfm_model *model) {
    tfm_result r;
    int32_t rank, i;
    for (rank = 0; rank < tfm_result_count(s, 0); rank++) {
        need(tfm_get_result(s, 0, rank, &r, &err) == TFM_OK);
        need(r.finish != TFM_RUNNING && r.length <= 10);
        for (i = 0; i < r.length; i++)
            need(r.ids[i] >= 0 && r.ids[i] < tfm_model_config(model)->tgt_vocab_size);
    }
}
#endif
