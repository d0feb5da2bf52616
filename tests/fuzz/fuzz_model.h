/* fuzz_model.h: a small valid model, changed as the input's bytes say. The first byte chooses the
   number of heads, the kind, whether the file is packed, and whether there is a lexicon. The last
   byte chooses the search. Between them each three bytes are one change: what, where, how. */
#ifndef FUZZ_MODEL_H
#define FUZZ_MODEL_H

#include "fuzz_file.h"

static const char *const fuzz_fields[] = {"start",           "end",
                                          "src_unk",         "tgt_unk",
                                          "d_model",         "d_ff",
                                          "d_key",           "n_encoder_layers",
                                          "src_vocab_size",  "position_offset",
                                          "position_base",   "embedding_scale",
                                          "attention_scale", "layer_norm_eps",
                                          "src_pad",         "tgt_pad",
                                          "src_start",       "src_end",
                                          "forced"};
static const char *const fuzz_defaults[] = {"1", "2", "3",
                                            "3"}; /* dimensions of the first tensor */
static const char *const fuzz_choices[] = {
    "\"norm\": \"pre\"",
    "\"layer_norm\": \"deviation\"",
    "\"activation\": \"gelu\"",
    "\"activation\": \"gelu_tanh\"",
    "\"activation\": \"swish\"",
    "\"activation\": \"gelu_sigmoid\"",
    "\"positions\": \"none\"",
    "\"positions\": \"sinusoidal_halves\"",
    "\"positions\": \"sinusoidal_per_index\"",
    "\"position_divisor\": \"d/2-1\"",
    "\"position_precision\": \"double\"",
    "\"pad_position\": \"zero\"",
    "\"embedding_scale\": \"sqrt_d\"",
    "\"start_embedding\": \"zero\"",
    "\"suppressed\": [2, 5]",
    "\"src_text\": \"characters\"",
    "\"tgt_text\": \"pieces\"",
    "\"tgt_text\": \"characters\"",
    "\"languages\": {\"fra\": 5, \"deu\": 6}, \"src_language\": \"source\"",
    "\"languages\": {\"fra\": 5, \"deu\": 6}, \"src_language\": \"target\"",
    "\"languages\": {\"fra\": 5, \"deu\": 6}, \"tgt_language\": \"forced\"",
    "\"languages\": {\"fra\": 5}, \"src_language\": \"source\", \"tgt_language\": \"forced\"",
    "\"layer_norm\": \"rms\"",
    "\"relative_max_distance\": 3"};
static const tfm_dtype fuzz_types[] = {TFM_DTYPE_I8, TFM_DTYPE_F16, TFM_DTYPE_BF16, TFM_DTYPE_F32};

/* Data for tensors: the same number everywhere */
static float fuzz_same[8][1024];

/* Makes the pieces <unk>, a, b, hello, U+2581 and U+2581 a, as unigram and as BPE. */
static const char fuzz_unigram[] = "\x0a\x09\x0a\x05<unk>\x18\x02"
                                   "\x0a\x03\x0a\x01"
                                   "a\x0a\x03\x0a\x01"
                                   "b\x0a\x07\x0a\x05hello\x0a\x05\x0a\x03\xe2\x96\x81"
                                   "\x0a\x06\x0a\x04\xe2\x96\x81"
                                   "a\x12\x02\x18\x02";
enum { FUZZ_BPE = sizeof fuzz_unigram - 1, FUZZ_UNIGRAM = FUZZ_BPE - 4 };

/* A lexicon for 11 tokens on either side: lists of zero to four ids, with one id twice. */
static const uint32_t fuzz_offsets[] = {0, 0, 0, 1, 2, 4, 8, 8, 11, 12, 13, 14};
static const uint32_t fuzz_lists[] = {2, 3, 4, 9, 5, 6, 5, 10, 7, 8, 2, 1, 4, 10};

/* Adds "NAME_scale" for NAME: a number for each row, or nearly that many. */
static void TEST_UNUSED fuzz_scale(st_writer *w, const char *weight, int value) {
    st_entry *e = fuzz_entry(w, weight);
    char name[128];
    int64_t rows;
    snprintf(name, sizeof name, "%.100s_scale", weight);
    if (!e || fuzz_entry(w, name) || !e->tensor.rank) return;
    rows = value & 8 ? value >> 4 : e->tensor.dims[0];
    if (rows > FUZZ_COUNT(fuzz_same[0])) return;
    st_add(w, name,
           value & 128 ? tfm_tensor_1d(fuzz_bytes, TFM_DTYPE_F16, rows)
                       : tfm_tensor_1d(fuzz_same[value & 7], TFM_DTYPE_F32, rows));
}

/* Gives all weights of two dimensions one type. I8 gets scales. */
static void TEST_UNUSED fuzz_retype_all(st_writer *w, int value) {
    tfm_dtype type = fuzz_types[value % 4];
    char names[64][64];
    int n = 0, i;
    for (i = 0; i < (int)w->n_entries && i < 64; i++) {
        st_entry *e = &w->entries[i];
        if (e->tensor.rank != 2 || (value & 4 && !strstr(e->name, ".layers."))) continue;
        fuzz_retype(e, type);
        snprintf(names[n++], sizeof names[0], "%s", e->name);
    }
    for (i = 0; i < n && type == TFM_DTYPE_I8; i++)
        if (i != value >> 3) fuzz_scale(w, names[i], 5 + (value & 1));
}

/* Adds the table that a packed file has for its texts: the orders of spellings. */
typedef union {
    struct {
        int32_t words[12], pieces[8];
    } of;
    unsigned char bytes[(12 + 8) * 4];
} fuzz_tables;
static int64_t fuzz_n_words, fuzz_n_pieces;

static fuzz_tables TEST_UNUSED fuzz_tables_make(void) {
    static const char *const fields[] = {FUZZ_IDS, FUZZ_IDS FUZZ_SPM};
    fuzz_tables made;
    int pieces;
    int64_t i;
    memset(&made, 0, sizeof made);
    for (pieces = 0; pieces < 2; pieces++) {
        tiny t = tiny_default();
        st_writer w;
        tfm_model *model;
        const tfm__vocabulary *v;
        t.vt = 11, t.config = fields[pieces];
        if (!pieces) t.src = t.tgt = FUZZ_WORDS;
        tiny_write(&w, t);
        if (pieces)
            st_add(&w, "src_sentencepiece",
                   tfm_tensor_1d((void *)fuzz_unigram, TFM_DTYPE_U8, FUZZ_UNIGRAM));
        model = tiny_load(&w, NULL);
        v = pieces ? &model->source.spm->vocabulary : &model->source.vocabulary;
        need(v->n_spellings <= (pieces ? 8 : 12));
        for (i = 0; i < v->n_spellings; i++)
            (pieces ? made.of.pieces : made.of.words)[i] =
                (int32_t)(tfm__sorted(v, i) - v->spellings);
        *(pieces ? &fuzz_n_pieces : &fuzz_n_words) = v->n_spellings;
        tfm_model_free(model);
    }
    return made;
}

/* Turns the matrices of the base model into panels of floats or int8. */
static void TEST_UNUSED fuzz_pack(st_writer *w, const tiny *t, int is_int8) {
    if (is_int8) tiny_quantize(w, 0);
    tiny_pack(w, t, 1);
}

/* Writes the changed model. Returns 0 where there is none. */
static int TEST_UNUSED fuzz_changed(const uint8_t *data, size_t size, void **bytes, size_t *n) {
    static const float numbers[] = {0, NAN, INFINITY, -INFINITY, 3e38f, 0.01f, -1, 1e-42f};
    static const int heads[] = {2, 2, 2, 1, 2, 4, 3, 0};
    static char words[2][sizeof FUZZ_WORDS];
    static union {
        uint32_t numbers[2][14];
        unsigned char bytes[2 * 14 * 4];
    } lexicon;
    /* kinds: with self-attention, with an SSRU; gates, relative positions; embeddings or memories
       as sources; packed with floats and with int8 */
    static st_writer bases[7];
    static const struct {
        const char *name;
        int size;
    } sizes[] = {{"d_model", 4},         {"d_ff", 4},           {"d_key", 2}, {"d_value", 2},
                 {"src_vocab_size", 11}, {"tgt_vocab_size", 11}};
    static fuzz_tables right, tables;
    int which = size ? data[0] >> 3 & 31
                     : 0; /* Packed files have neither bit 7 nor a lexicon (bit 4). */
    st_writer w, *base = &bases[which & 16          ? 1 + (which & 3)
                                : (which & 22) == 2 ? 5 + (which & 1)
                                                    : 0];
    int is_packed = base >= bases + 5, is_text = base < bases + 3 || is_packed;
    char config[2048];
    unsigned given = 0, seed = 1;
    size_t at, i;
    int k, ok, used, learned = 0, cut = 0;
    used = snprintf(config, sizeof config, "{\"n_heads\": %d", heads[size ? data[0] % 8 : 0]);
    if (!base->n_entries) {
        tiny t = tiny_default();
        t.d = 4, t.key = t.value = 2, t.ff = 4, t.encoder = 2, t.decoder = 1, t.vt = 11;
        t.src_positions = t.tgt_positions = 30;
        t.ssru = base == bases + 1, t.t5 = base == bases + 2 ? 2 : 0;
        if (!is_text) t.without = base == bases + 3 ? "src_embedding" : "src_ encoder.";
        if (base == bases + 3) t.input = 7;
        if (base == bases + 4) t.memory = 5;
        tiny_write(base, t);
        tiny_raise(base, 2, -4); /* makes the end token unlikely at the first step */
        if (is_packed) fuzz_pack(base, &t, base == bases + 6), right = fuzz_tables_make();
        for (i = 0; i < 8 * 1024; i++) fuzz_same[i / 1024][i % 1024] = numbers[i / 1024];
        for (i = 0; i < sizeof fuzz_bytes; i++) fuzz_bytes[i] = (unsigned char)tiny_random(&seed);
    }
    tables = right;
    for (k = 0; k < 2; k++) memcpy(words[k], FUZZ_WORDS, sizeof words[0]);
    st_init(&w);
    for (i = 0; i < base->n_entries; i++)
        st_add(&w, base->entries[i].name, base->entries[i].tensor);
    if (size && data[0] & 32) {
        memcpy(lexicon.numbers[0], fuzz_offsets, sizeof fuzz_offsets);
        memcpy(lexicon.numbers[1], fuzz_lists, sizeof fuzz_lists);
        st_add(&w, "shortlist.offsets", tfm_tensor_1d(lexicon.numbers[0], TFM_DTYPE_U32, 12));
        st_add(&w, "shortlist.ids", tfm_tensor_1d(lexicon.numbers[1], TFM_DTYPE_U32, 14));
        used += snprintf(config + used, 100, ", \"shortlist_first\": %d", data[0] >> 3 & 3);
    }
    for (at = 1; at + 3 < size && at < 40; at += 3) {
        int value = data[at + 2], kind = data[at] % 16;
        st_entry *e = w.n_entries ? &w.entries[data[at + 1] % w.n_entries] : NULL;
        char name[128];
        tfm_tensor t;
        if (!e) break;
        t = e->tensor;
        snprintf(name, sizeof name, "%.100s", e->name);
        switch (kind) {
        case 0: /* a number of the config; 255: leaves out a number with a default */
            k = data[at + 1] % FUZZ_COUNT(fuzz_fields);
            if (k < FUZZ_COUNT(fuzz_defaults)) given |= 1u << k;
            if (value < 255)
                used += snprintf(config + used, 100, ", \"%s\": %d", fuzz_fields[k], value % 64);
            break;
        case 1:
            used += snprintf(config + used, 120, ", %s",
                             fuzz_choices[data[at + 1] % FUZZ_COUNT(fuzz_choices)]);
            break;
        case 2:
        case 3:
            if (t.rank > kind - 2) t.dims[kind - 2] = value % 16;
            fuzz_put(e, tfm_tensor_make(fuzz_bytes, t.dtype, t.rank, t.dims));
            break;
        case 4: fuzz_retype(e, (tfm_dtype)(value % TFM_DTYPE_COUNT)); break;
        case 5: fuzz_drop(&w, e); break;
        case 6:
            for (k = t.rank, t.rank = value % (TFM_MAX_RANK + 1); k < t.rank; k++) t.dims[k] = 1;
            fuzz_put(e, tfm_tensor_make(fuzz_bytes, t.dtype, t.rank, t.dims));
            break;
        case 7:
            fuzz_put(e, tfm_tensor_make(fuzz_same[value % 8], TFM_DTYPE_F32, t.rank, t.dims));
            break;
        case 8: fuzz_put(e, w.entries[(size_t)value % w.n_entries].tensor); break;
        case 9: e->name[(size_t)value % strlen(e->name)] ^= 1; break;
        case 10: /* I8 gets its scales, mostly. */
            fuzz_retype(e, fuzz_types[value % 4]);
            if (value & 3) break;
            fuzz_scale(&w, name, value >> 2);
            break;
        case 11: fuzz_scale(&w, name, value); break;
        case 12:
            snprintf(name + strlen(name), 10, "_scale");
            fuzz_drop(&w, fuzz_entry(&w, name));
            break;
        case 13: fuzz_retype_all(&w, value); break;
        case 14: cut = 32 | value % 16; break;
        default:
            if (data[0] & 32 && value & 64)
                lexicon.bytes[data[at + 1] % sizeof lexicon] ^= (unsigned char)(1 << value % 7);
            else if (is_packed && value & 128)
                tables.bytes[(data[at + 1] * 16u + (value >> 3 & 15)) % sizeof tables] ^=
                    (unsigned char)(1 << value % 8);
            else words[value & 1][data[at + 1] % (sizeof words[0] - 1)] ^= (char)(1 << value % 7);
        }
    }
    for (k = 0; k < FUZZ_COUNT(fuzz_defaults); k++)
        if (!(given >> k & 1) && (is_text || fuzz_fields[k][0] != 's' || k == 0))
            used += snprintf(config + used, 100, ", \"%s\": %s", fuzz_fields[k], fuzz_defaults[k]);
    for (k = 0; k < FUZZ_COUNT(sizes) && is_packed; k++)
        if (!strstr(config, sizes[k].name))
            used += snprintf(config + used, 100, ", \"%s\": %d", sizes[k].name, sizes[k].size);
    if (is_packed) used += snprintf(config + used, 100, ", \"packed\": 2");
    if (cut) /* SentencePiece on one side or both, of one kind or both, with words or without */
        used += snprintf(config + used, 100, ", \"src_text\": \"sentencepiece\"%s",
                         cut & 1 ? "" : ", \"tgt_text\": \"sentencepiece\"");
    learned = size && data[0] & 64; /* The base model has these tensors. */
    if (learned) used += snprintf(config + used, 100, ", \"positions\": \"learned\"");
    else
        fuzz_drop(&w, fuzz_entry(&w, "src_positions.weight")),
            fuzz_drop(&w, fuzz_entry(&w, "tgt_positions.weight"));
    if (cut)
        st_add(
            &w, "src_sentencepiece",
            tfm_tensor_1d((void *)fuzz_unigram, TFM_DTYPE_U8, cut & 2 ? FUZZ_BPE : FUZZ_UNIGRAM));
    if (cut && (cut & 5) == 4)
        st_add(&w, "tgt_sentencepiece",
               tfm_tensor_1d((void *)fuzz_unigram, TFM_DTYPE_U8, FUZZ_UNIGRAM));
    if (!cut || cut & 9)
        for (k = !is_text; k < 2; k++)
            st_add(&w, k ? "tgt_vocabulary" : "src_vocabulary",
                   tfm_tensor_1d(words[k], TFM_DTYPE_U8, sizeof words[0] - 1));
    for (k = 0; k < 2 && is_packed; k++)
        if (fuzz_entry(&w, k ? "tgt_sentencepiece" : "src_sentencepiece"))
            st_add(&w, k ? "tgt_sentencepiece_sorted" : "src_sentencepiece_sorted",
                   tfm_tensor_1d(tables.of.pieces, TFM_DTYPE_I32, fuzz_n_pieces));
    for (k = 0; k < 2 && is_packed; k++)
        if (fuzz_entry(&w, k ? "tgt_vocabulary" : "src_vocabulary"))
            st_add(&w, k ? "tgt_vocabulary_sorted" : "src_vocabulary_sorted",
                   tfm_tensor_1d(tables.of.words, TFM_DTYPE_I32, fuzz_n_words));
    snprintf(config + used, 100, "}");
    st_add_metadata(&w, "transformer.config", config);
    ok = st_write_memory(&w, bytes, n) == NULL;
    st_free(&w);
    return ok;
}

/* Edits logits by the tokens so far. */
static void fuzz_edit(void *user, int32_t row, const int32_t *ids, int32_t n, float *logits) {
    int32_t V = tfm_model_config((const tfm_model *)user)->tgt_vocab_size, i;
    need(row == 0 && n >= 0 && n <= 10);
    for (i = 0; i < n; i++) need(ids[i] >= 0 && ids[i] < V);
    for (i = n; i < V; i += 3) logits[i] = i % 2 ? -INFINITY : NAN;
}

/* Chooses search options by the last byte. */
static tfm_decode_options TEST_UNUSED fuzz_options(const uint8_t *data, size_t size, by_row *with) {
    static const int32_t two[] = {4, 5};
    static id_matrix prefix;
    static tfm_ids sequences[2];
    int last = size ? data[size - 1] : 0;
    tfm_decode_options o;
    prefix = tiny_batch(two, NULL, 1, 2);
    memset(&o, 0, sizeof o), memset(with, 0, sizeof *with);
    o.max_length = 10;
    if (last % 4 == 1) o.beam = 1 + (last >> 2) % 4, o.n_best = 1, o.length_penalty = last / 100.0;
    if (last % 4 == 2) o.samples = 1 + (last >> 2) % 4, o.top_p = 0.9, o.top_k = (last >> 5) * 2;
    if (last % 4 == 3) o.alternatives = 1 + (last >> 2) % 4;
    if (last & 16) o.no_repeat_ngram = 2, o.repetition_penalty = 1.5;
    if (last & 32 && last % 4 < 2) o.coverage_penalty = 0.5;
    if (last & 64) o.stop = TFM_STOP_EARLY_NEVER, o.min_length = 3;
    if (last & 128) with->prefix = &prefix, o.no_unknown = 1;
    if (last & 128 && last % 4 == 1) o.prefix_bias = 0.3;
    if (last % 8 == 5) with->prompt = &prefix;
    if (last % 16 > 11) o.edit_logits = fuzz_edit; /* edit_user is the model */
    if ((last & 160) == 160) {
        id_matrix rows = tiny_batch(two, NULL, 2, 1);
        with->prefix = NULL, suppress_rows(&o, &rows, sequences);
    }
    return o;
}

/* Checks that every hypothesis has ids in range and has ended, and writes it. */
static void TEST_UNUSED fuzz_results(tfm_session *s, const tfm_model *model) {
    static char out[1 << 12];
    tfm_result r;
    int32_t rank, i;
    size_t length = 0;
    for (rank = 0; rank < tfm_result_count(s, 0); rank++) {
        need(tfm_result_get(s, 0, rank, &r, &err) == TFM_OK);
        need(r.finish != TFM_FINISH_RUNNING && r.length <= 10);
        for (i = 0; i < r.length; i++)
            need(r.ids[i] >= 0 && r.ids[i] < tfm_model_config(model)->tgt_vocab_size);
        if (tfm_result_text(s, 0, rank, TFM_TEXT_FORM_TEXT, out, sizeof out, &length, &err) ==
            TFM_OK)
            need(out[length] == 0 && test_is_utf8(out, length));
    }
}
#endif
