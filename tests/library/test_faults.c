/* Lack of memory and of files: makes each allocation and each call of stdio fail, once and from
   then on, in every function that allocates or reads. After each fault the status and message must
   name it, outputs must be unchanged, and nothing may leak. Then the same objects must work and
   give the same tokens, texts and scores, bit for bit. Functions that do not allocate run with an
   allocator that always fails.

   These tests are rows E1 (memory), E2 and C14 (reading), E3 (outputs) and E4 (paths) of the table
   in test_hostile.c. */
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TRANSFORMER_IMPLEMENTATION
#include "transformer.h"
#include "tiny.h"

#define SPACE "\xe2\x96\x81"

static test_calls *const files = &test_hooks.files;

/* ---- an allocator that fails ---- */

static test_allocator memory = {0, 0, 0, 0, 0, (size_t)1 << 30, 0, 0, 0};
static const tfm_allocator allocator = {test_allocate, test_release, &memory};
static void fail_after(int n, int persistent) {
    memory.fail_at = n ? memory.calls + n : 0;
    memory.persistent = persistent;
}

static int injected, survived, read_faults;

/* ---- models of each kind ---- */

typedef struct kind {
    const char *name, *config, *src, *tgt; /* vocabularies, or NULL */
    const char *spm;                       /* its name in sentencepiece.safetensors, or NULL */
    const char *text, *target;
    int vs, vt;
    tfm_dtype dtype;
    int odd;    /* the file's bytes are at an odd address */
    int packed; /* the file has in_proj instead of query, key and value */
    tfm_weight_type weights;
    int in_place;
    int gemma; /* 1: like T5Gemma, 2: like T5Gemma 2 */
} kind;

#define SPM ", \"src_text\": \"sentencepiece\", \"tgt_text\": \"sentencepiece\""
#define IDS ", \"start\": 1, \"end\": 2, \"src_unk\": 3, \"tgt_unk\": 3, \"suppressed\": [0]"
#define WORDS "<pad>\n<s>\n</s>\n<unk>\nhello\nworld\na\nb\nc\nd\ne\n"
#define LETTERS "<pad>\n<s>\n</s>\n<unk>\n" SPACE "\n\xe5\xad\xa6\t\xe5\xad\xb8\na\nb\nc\nd\ne\n"
#define PIECES                                                                                     \
    "<pad>\n<s>\n</s>\n<unk>\n" SPACE "hel\nlo\n" SPACE "wor\nld\n.\n" SPACE "\nx" SPACE "y\n'"    \
    "\nz\n"
static const kind kinds[] = {
    {"ids alone", IDS, NULL, NULL, NULL, NULL, NULL, 11, 13, TFM_DTYPE_F32, 0, 0,
     TFM_WEIGHT_TYPE_AS_STORED, 0, 0},
    {"words to words", IDS, WORDS, WORDS, NULL, "hello a world", "b c", 11, 11, TFM_DTYPE_F32, 0, 0,
     TFM_WEIGHT_TYPE_AS_STORED, 0, 0},
    {"characters to pieces", IDS ", \"src_text\": \"characters\", \"tgt_text\": \"pieces\"",
     LETTERS, PIECES, NULL, "\xe5\xad\xb8 ab", "hello world", 11, 13, TFM_DTYPE_F32, 0, 0,
     TFM_WEIGHT_TYPE_AS_STORED, 0, 0},
    {"F16 weights", IDS, WORDS, WORDS, NULL, "hello a world", "b c", 11, 11, TFM_DTYPE_F16, 0, 0,
     TFM_WEIGHT_TYPE_AS_STORED, 0, 0},
    {"an odd address", IDS, WORDS, WORDS, NULL, "hello a world", "b c", 11, 11, TFM_DTYPE_F32, 1, 0,
     TFM_WEIGHT_TYPE_AS_STORED, 0, 0},
    {"unigram", IDS SPM, NULL, NULL, "unigram.model", "the end", "a b", 260, 260, TFM_DTYPE_F32, 0,
     0, TFM_WEIGHT_TYPE_AS_STORED, 0, 0},
    {"BPE", IDS SPM, NULL, NULL, "bpe.model", "the end", "a b", 260, 260, TFM_DTYPE_F32, 0, 0,
     TFM_WEIGHT_TYPE_AS_STORED, 0, 0},
    {"unigram with bytes", IDS SPM, NULL, NULL, "unigram_bytes.model", "the \xf0\x9f\x91\x8d", "a",
     420, 420, TFM_DTYPE_F32, 0, 0, TFM_WEIGHT_TYPE_AS_STORED, 0, 0},
    {"BPE with symbols and languages",
     IDS SPM ", \"languages\": {\"fra\": 5, \"deu\": 6}, \"src_language\": \"target\"", NULL, NULL,
     "bpe_symbols.model", ">>deu<< the end", "a b", 260, 260, TFM_DTYPE_F32, 0, 0,
     TFM_WEIGHT_TYPE_AS_STORED, 0, 0},
    {"BPE with unused pieces", IDS SPM, NULL, NULL, "bpe_unused.model", "the end", "a b", 260, 260,
     TFM_DTYPE_F32, 0, 0, TFM_WEIGHT_TYPE_AS_STORED, 0, 0},
    {"byte-level BPE", IDS ", \"src_text\": \"byte_bpe\", \"tgt_text\": \"byte_bpe\"", WORDS "ab\n",
     NULL, NULL, "ab hello caba", "ab", 12, 12, TFM_DTYPE_F32, 0, 0, TFM_WEIGHT_TYPE_AS_STORED, 0,
     0},
    {"packed, to bytes", IDS, NULL, NULL, NULL, NULL, NULL, 11, 13, TFM_DTYPE_F32, 0, 1,
     TFM_WEIGHT_TYPE_I8, 0, 0},
    {"F16 to F32 in rows", IDS, WORDS, WORDS, NULL, "hello a world", "b c", 11, 11, TFM_DTYPE_F16,
     0, 0, TFM_WEIGHT_TYPE_F32, 1, 0},
    {"like T5Gemma", IDS ", " TINY_GEMMA_1, WORDS, WORDS, NULL, "hello a world", "b c", 11, 11,
     TFM_DTYPE_F32, 0, 0, TFM_WEIGHT_TYPE_AS_STORED, 0, 1},
    {"like T5Gemma 2, to bytes", IDS ", " TINY_GEMMA_2, WORDS, WORDS, NULL, "hello a world", "b c",
     11, 11, TFM_DTYPE_F32, 0, 0, TFM_WEIGHT_TYPE_I8, 0, 2},
};
enum { N_KINDS = sizeof kinds / sizeof *kinds };

static int panels; /* 1: the files are packed as they are; 2: packed as int8 */

static void *bytes_of(const kind *k, size_t *size) {
    tiny t = tiny_default();
    st_writer w;
    char *bytes;
    t.config = k->config, t.src = k->src, t.tgt = k->tgt, t.vs = k->vs, t.vt = k->vt;
    t.dtype = k->dtype, t.packed = k->packed, t.ssru = panels == 2 ? 1 : k->odd ? 2 : 0;
    t.t5 = 2 * (panels == 1);
    if (k->gemma) t.ssru = 0, tiny_like_gemma(&t, k->gemma);
    tiny_write(&w, t);
    if (panels == 2) tiny_quantize(&w, 0);
    if (panels) tiny_pack(&w, &t, 1);
    if (k->spm) {
        tfm_safetensors *file = test_open("sentencepiece.safetensors");
        st_add(&w, "src_sentencepiece", test_get(file, k->spm));
        tfm_safetensors_free(file);
    }
    if (strstr(k->config, "byte_bpe")) {
        static const unsigned char merges[] = {6, 0, 0, 0, 7, 0, 0, 0, 11},
                                   added[] = {4, 0, 0, 0, 3};
        static unsigned char table[12], tokens[8];
        memcpy(table, merges, sizeof merges), memcpy(tokens, added, sizeof added);
        st_add(&w, "src_merges", tfm_tensor_2d(table, TFM_DTYPE_U32, 1, 3));
        st_add(&w, "src_added", tfm_tensor_2d(tokens, TFM_DTYPE_U32, 1, 2));
    }
    bytes = (char *)tiny_bytes(&w, size);
    if (k->odd) {
        char *moved = (char *)test_memory(*size + 1) + 1;
        memcpy(moved, bytes, *size);
        bytes = moved;
    }
    return bytes;
}

/* ---- everything that a session and its model do, hashed into one number ---- */

static uint64_t seen;
static void see(const void *data, size_t n) {
    const unsigned char *p = (const unsigned char *)data;
    while (n--) seen = (seen ^ *p++) * 1099511628211u;
}
static void see_results(tfm_session *s) {
    tfm_result r;
    int32_t i;
    for (i = 0; i < tfm_result_count(s, 0); i++) {
        must(tfm_result_get(s, 0, i, &r, &err));
        see(r.ids, (size_t)r.length * 4), see(&r.score, sizeof r.score);
    }
}
static void see_text(const tfm_model *m, tfm_session *s, const kind *k) {
    static char room[1 << 16], out[4096];
    tfm_arena arena = tfm_arena_make(room, sizeof room);
    int32_t ids[64], n = 0, calls = memory.calls;
    size_t size = 0;
    /* Without scratch, kinds of text that need it ask the allocator, which fails. */
    ids[0] = 77;
    if (tfm_model_tokenize(m, tfm_text_make(k->text, strlen(k->text)), TFM_TEXT_FORM_TEXT, ids, 64,
                           &n, NULL, &err) != TFM_OK)
        CHECK(err.status == TFM_E_MEMORY && ids[0] == 77 && n == 0 && memory.calls == calls + 1,
              "a text without scratch: %s", err.text);
    memory.calls = calls;
    must(tfm_model_tokenize(m, tfm_text_make(k->text, strlen(k->text)), TFM_TEXT_FORM_TEXT, ids, 64,
                            &n, &arena, &err));
    see(ids, (size_t)n * 4);
    must(tfm_model_tokenize_target(m, tfm_text_make(k->target, strlen(k->target)),
                                   TFM_TEXT_FORM_TEXT, ids, 64, &n, &arena, &err));
    see(ids, (size_t)n * 4);
    must(tfm_model_detokenize(m, ids, n, TFM_TEXT_FORM_TEXT, out, sizeof out, &size, &err));
    see(out, size);
    if (tfm_model_config(m)->n_languages) must(tfm_languages_set(s, NULL, "fra", &err));
    must(tfm_translate(s, k->text, out, sizeof out, &err));
    see(out, strlen(out));
    must(tfm_result_text(s, 0, 0, TFM_TEXT_FORM_TOKENS, out, sizeof out, &size, &err));
    see(out, size);
}

/* Works with an allocator that always fails, and asserts that nobody calls it. */
static uint64_t use(const tfm_model *m, tfm_session *s, const kind *k) {
    static const uint64_t seed = 7;
    by_row with;
    static const int32_t ids[] = {3, 4, 5, 6};
    static float logits[4 * 512], attention[64 * 16], numbers[4 * 32];
    const tfm_config *c = tfm_model_config(m);
    tfm_tensor vectors =
        tfm_tensor_3d(numbers, TFM_DTYPE_F32, 1, 4, c->d_input ? c->d_input : c->d_memory);
    id_matrix src = tiny_batch(ids, NULL, 1, 4), tgt = tiny_batch(ids + 1, NULL, 1, 3);
    tfm_tensor t = tfm_tensor_3d(logits, TFM_DTYPE_F32, 1, 3, k->vt), w;
    tfm_decode_options o;
    tfm_result r;
    double scores[4];
    int calls = memory.calls, i;
    seen = 14695981039346656037u;
    for (i = 0; i < 4 * 32; i++) numbers[i] = (float)(i % 7) - 3.0f;
    if (!c->src_vocab_size) src.ids = NULL;
    if (!c->src_vocab_size && c->d_input) src.embeddings = &vectors;
    else if (!c->src_vocab_size) src.memory = &vectors;
    fail_after(1, 1);
    must(encode_rows(s, &src, &err));
    see(tfm_session_encoder_output(s).data, (size_t)c->d_memory * 4 * sizeof(float));
    must(forward_rows(s, &src, &tgt, NULL, &t, &err));
    see(logits, (size_t)(3 * k->vt) * sizeof(float));
    memset(&o, 0, sizeof o);
    o.max_length = 12;
    must(decode_rows(s, &src, NULL, &o, &err)), see_results(s);
    must(tfm_result_get(s, 0, 0, &r, &err));
    w = tfm_tensor_2d(attention, TFM_DTYPE_F32, r.length, 4);
    must(tfm_result_attention(s, 0, 0, &w, &err));
    see(attention, (size_t)r.length * 4 * sizeof(float));
    o.beam = 3, o.n_best = 2, o.length_penalty = 1;
    must(decode_rows(s, &src, NULL, &o, &err)), see_results(s);
    memset(&o, 0, sizeof o), memset(&with, 0, sizeof with);
    o.max_length = 12, o.samples = 3, with.seeds = &seed, o.top_p = 0.9;
    must(decode_rows(s, &src, &with, &o, &err)), see_results(s);
    memset(&o, 0, sizeof o);
    o.max_length = 12, o.alternatives = 3;
    must(decode_rows(s, &src, NULL, &o, &err)), see_results(s);
    must(score_rows(s, &src, &tgt, 0, scores, &err)), see(scores, sizeof scores);
    if (k->text) see_text(m, s, k);
    if (memory.calls != calls) printf("a session asked for memory\n"), exit(2);
    fail_after(0, 0);
    return seen;
}

/* ---- each allocation fails ---- */

typedef struct objects {
    tfm_safetensors *file;
    tfm_model *model;
    tfm_session *session;
} objects;
typedef enum call { OPEN, LOAD, OPEN_FILE, LOAD_FILE, CREATE, N_CALLS } call;
static const char *const call_names[] = {"tfm_safetensors_open", "tfm_model_load",
                                         "tfm_safetensors_open_file", "tfm_model_load_file",
                                         "tfm_session_create"};

static const char *path;
static tfm_weight_type weights; /* the type of the loaded weights */
static int in_place;
static tfm_status do_call(call which, objects *o, const void *data, size_t size) {
    tfm_model_options mo = tiny_options();
    tfm_session_options so;
    memset(&mo, 0, sizeof mo), memset(&so, 0, sizeof so);
    mo.allocator = &allocator, mo.weights = weights, mo.in_place = in_place;
    so.max_source = 32, so.max_beam = 3, so.attention = 1;
    switch (which) {
    case OPEN: return tfm_safetensors_open(&o->file, data, size, &allocator, &err);
    case LOAD: return tfm_model_load(&o->model, data, size, &mo, &err);
    case OPEN_FILE: return tfm_safetensors_open_file(&o->file, path, &allocator, &err);
    case LOAD_FILE: return tfm_model_load_file(&o->model, path, &mo, &err);
    default:
        /* The Whisper model has positions for 9 source vectors only. */
        if (tfm_model_config(o->model)->max_source_positions == 9) so.max_source = 9;
        return tfm_session_create(&o->session, o->model, &so, &err);
    }
}
/* Frees what the call made. */
static void undo(call which, objects *o) {
    if (which == CREATE) tfm_session_free(o->session), o->session = NULL;
    else if (which == LOAD || which == LOAD_FILE) tfm_model_free(o->model), o->model = NULL;
    else tfm_safetensors_free(o->file), o->file = NULL;
}

/* Uses a model completely: makes a session, works with it and frees it. */
static uint64_t outcome(objects *o, const kind *k) {
    uint64_t number;
    must(do_call(CREATE, o, NULL, 0));
    number = use(o->model, o->session, k);
    undo(CREATE, o);
    return number;
}

/* Counts the allocations of a call, then makes each one fail, once and from then on, and checks
   that the call fails cleanly. */
static int each_allocation(call which, const kind *k, objects *o, const void *data, size_t size,
                           uint64_t expected, int *good) {
    static char sentinel;
    int persistent, n = 0;
    for (persistent = 0; persistent < 2; persistent++) {
        for (n = 1;; n++) {
            objects before;
            int live = memory.live, fired = memory.failed, fine;
            if (which == CREATE) o->session = (tfm_session *)(void *)&sentinel;
            else if (which == OPEN || which == OPEN_FILE)
                o->file = (tfm_safetensors *)(void *)&sentinel;
            else o->model = (tfm_model *)(void *)&sentinel;
            before = *o;
            memset(&err, 0, sizeof err);
            fail_after(n, persistent);
            if (do_call(which, o, data, size) == TFM_OK) break;
            fail_after(0, 0);
            fine = memory.failed > fired && err.status == TFM_E_MEMORY &&
                   strncmp(err.text, "no memory for ", 14) == 0 && memory.live == live &&
                   memcmp(&before, o, sizeof before) == 0 && files->live == 0;
            /* The same objects work afterwards. */
            fine &= do_call(which, o, data, size) == TFM_OK;
            if (which == LOAD || which == LOAD_FILE) fine &= outcome(o, k) == expected;
            if (which == CREATE) fine &= use(o->model, o->session, k) == expected;
            undo(which, o);
            fine &= memory.live == live;
            injected++, survived += fine;
            *good &= fine;
        }
        fail_after(0, 0);
        undo(which, o);
    }
    return n - 1;
}

static void no_memory(void) {
    /* packed files: at an odd address, with SentencePiece, in int8 */
    static const int also[][2] = {{4, 1}, {5, 1}, {4, 2}};
    int i, k;
    SECTION("each allocation fails, once and from then on");
    for (k = 0; k < N_KINDS + 3; k++) {
        objects o;
        uint64_t expected;
        int good = 1, open, load, create;
        size_t size;
        void *data;
        if (!test_in_slice("memory", k)) continue;
        i = k < N_KINDS ? k : also[k - N_KINDS][0];
        panels = k < N_KINDS ? 0 : also[k - N_KINDS][1];
        data = bytes_of(&kinds[i], &size);
        memset(&o, 0, sizeof o);
        weights = kinds[i].weights, in_place = kinds[i].in_place;
        must(do_call(LOAD, &o, data, size));
        expected = outcome(&o, &kinds[i]);
        create = each_allocation(CREATE, &kinds[i], &o, data, size, expected, &good);
        undo(LOAD, &o);
        open = each_allocation(OPEN, &kinds[i], &o, data, size, expected, &good);
        load = each_allocation(LOAD, &kinds[i], &o, data, size, expected, &good);
        CHECK(good && load > open && open > 3 && create == 1 && memory.live == 0,
              "%s%s: open %d, load %d, session %d allocations; all else none", kinds[i].name,
              panels ? ", packed" : "", open, load, create);
    }
    weights = TFM_WEIGHT_TYPE_AS_STORED, in_place = 0, panels = 0;
}

static void no_memory_for_files(void) {
    static const char *const paths[] = {
        "tests/data/models/marian.safetensors",  "tests/data/models/m2m_100.safetensors",
        "tests/data/models/ssru.safetensors",    "tests/data/models/umt5.safetensors",
        "tests/data/models/whisper.safetensors", "tests/data/models/trocr.safetensors"};
    int i;
    for (i = 0; i < 6; i++) {
        kind k = kinds[0];
        objects o;
        uint64_t expected;
        int good = 1, open, load;
        if (!test_in_slice("files", i)) continue;
        memset(&o, 0, sizeof o);
        path = paths[i];
        must(do_call(LOAD_FILE, &o, NULL, 0));
        k.vt = tfm_model_config(o.model)->tgt_vocab_size;
        expected = outcome(&o, &k);
        undo(LOAD_FILE, &o);
        open = each_allocation(OPEN_FILE, &k, &o, NULL, 0, expected, &good);
        load = each_allocation(LOAD_FILE, &k, &o, NULL, 0, expected, &good);
        CHECK(good && load > open && memory.live == 0 && files->live == 0,
              "%s: open %d, load %d allocations", path, open, load);
    }
}

/* ---- each call of stdio fails ---- */

static void reading(void) {
    static const call calls[] = {OPEN_FILE, LOAD_FILE};
    static const long more[] = {1, 64, 1L << 30, LONG_MAX / 2};
    static char sentinel;
    objects o;
    int i, persistent, n, good = 1;
    SECTION("each call of stdio fails, once and from then on");
    memset(&o, 0, sizeof o);
    path = "tests/data/models/marian.safetensors";
    for (i = 0; i < 2; i++) {
        for (persistent = 0; persistent < 2; persistent++) {
            for (n = 1;; n++) {
                o.file = (tfm_safetensors *)(void *)&sentinel,
                o.model = (tfm_model *)(void *)&sentinel;
                memset(&err, 0, sizeof err);
                files->calls = 0, files->fail_at = n, files->persistent = persistent;
                if (do_call(calls[i], &o, NULL, 0) == TFM_OK) break;
                files->fail_at = 0;
                good &= err.status == TFM_E_IO && strncmp(err.text, path, strlen(path)) == 0;
                good &= memory.live == 0 && files->live == 0;
                good &= (void *)o.file == (void *)&sentinel && (void *)o.model == (void *)&sentinel;
                must(do_call(calls[i], &o, NULL, 0)), undo(calls[i], &o);
                read_faults++;
            }
            undo(calls[i], &o);
            files->fail_at = 0;
        }
        CHECK(good && n - 1 == 6 && memory.live == 0 && files->live == 0,
              "%s: each of %d calls of stdio", call_names[calls[i]], n - 1);
    }
    SECTION("the file's length changes while it is read");
    for (i = 0; i < 4; i++) {
        test_hooks.file_grows = more[i];
        o.model = NULL;
        CHECK(do_call(LOAD_FILE, &o, NULL, 0) != TFM_OK && !o.model && memory.live == 0 &&
                  files->live == 0 &&
                  (err.status == TFM_E_IO || err.status == TFM_E_MEMORY ||
                   err.status == TFM_E_OVERFLOW),
              "%ld bytes shorter: %s", more[i], err.text);
        read_faults++;
    }
    for (i = 1; i < 4; i++) {
        test_hooks.file_grows = -i * i * 1000;
        CHECK_FAILS(do_call(LOAD_FILE, &o, NULL, 0), TFM_E_FORMAT, "");
        CHECK(!o.model && memory.live == 0 && files->live == 0, "nothing stays allocated");
        read_faults++;
    }
    test_hooks.file_grows = 0;
}

/* ---- arenas and buffers of the caller: every size that is too small ---- */

static void no_room(void) {
    static char room[1 << 16], out[4096], copy[4096];
    char needs[48];
    int i;
    SECTION("arenas and buffers of every size that is too small");
    for (i = 1; i < N_KINDS; i++) {
        const kind *k = &kinds[i];
        size_t size, at, length = k->text ? strlen(k->text) : 0;
        void *data = bytes_of(k, &size);
        tfm_arena arena = tfm_arena_measuring(), wide = tfm_arena_make(room, sizeof room);
        int32_t ids[64], n = 0, count, m;
        int good = 1, arenas = 0, buffers = 0;
        objects o;
        if (!k->text) continue;
        memset(&o, 0, sizeof o);
        must(do_call(LOAD, &o, data, size)), must(do_call(CREATE, &o, NULL, 0));
        must(tfm_model_tokenize(o.model, tfm_text_make(k->text, length), TFM_TEXT_FORM_TEXT, ids,
                                64, &n, &arena, &err));
        must(tfm_model_tokenize(o.model, tfm_text_make(k->text, length), TFM_TEXT_FORM_TEXT, ids,
                                64, &n, &wide, &err));
        snprintf(needs, sizeof needs, " bytes, %d are needed", (int)arena.peak);
        for (at = 0; at <= arena.peak; at++) {
            tfm_arena some = tfm_arena_make(room, at);
            tfm_status status;
            memset(ids, -1, sizeof ids), count = -1;
            status = tfm_model_tokenize(o.model, tfm_text_make(k->text, length), TFM_TEXT_FORM_TEXT,
                                        ids, 64, &count, &some, &err);
            if (status == TFM_OK) good &= count == n;
            else {
                good &= status == TFM_E_ARENA && count == -1 && ids[0] == -1 && arenas++ >= 0;
                good &= strstr(err.text, needs) != NULL;
            }
            good &= some.used == 0 && (status == TFM_OK || at < arena.peak);
        }
        for (m = 0; m < n; m++) {
            memset(ids, -1, sizeof ids), count = -1;
            good &= tfm_model_tokenize(o.model, tfm_text_make(k->text, length), TFM_TEXT_FORM_TEXT,
                                       ids, m, &count, &wide, &err) == TFM_E_TOO_LONG &&
                    count == -1 && ids[0] == -1;
            buffers++;
        }
        if (tfm_model_config(o.model)->n_languages)
            must(tfm_languages_set(o.session, NULL, "fra", &err));
        must(tfm_translate(o.session, k->text, out, sizeof out, &err));
        length = strlen(out);
        memset(copy, 'x', sizeof copy);
        for (at = 1; at <= length; at += 1 + length / 40) {
            memset(out, 'x', sizeof out);
            good &= tfm_translate(o.session, k->text, out, at, &err) == TFM_E_TOO_SMALL &&
                    memcmp(out, copy, sizeof out) == 0;
            buffers++;
        }
        good &= tfm_translate(o.session, k->text, out, length + 1, &err) == TFM_OK;
        undo(CREATE, &o), undo(LOAD, &o);
        CHECK(good && memory.live == 0, "%s: %d arenas, %d buffers", k->name, arenas, buffers);
    }
}

/* A model file can name no other file: loading opens nothing, whatever the file says. */
static void paths_in_files(void) {
    tiny t = tiny_default();
    st_writer w;
    objects o;
    size_t size;
    void *data;
    SECTION("paths in a model file");
    memset(&o, 0, sizeof o);
    tiny_write(&w, t);
    st_add_metadata(&w, "license", "/etc/passwd");
    st_add_metadata(&w, "source", "file:///etc/passwd");
    st_add_metadata(&w, "revision", "../../../../etc/passwd");
    data = tiny_bytes(&w, &size);
    files->calls = 0;
    must(do_call(LOAD, &o, data, size)), undo(LOAD, &o);
    CHECK(files->calls == 0, "metadata that look like paths open nothing");
    tiny_write(&w, t);
    st_add_metadata(&w, "vocabulary", "../vocabulary.txt");
    data = tiny_bytes(&w, &size);
    CHECK_FAILS(do_call(LOAD, &o, data, size), TFM_E_CONFIG, "'vocabulary' is not part of a model");
    t.config = ", \"vocabulary\": \"/etc/passwd\"";
    tiny_write(&w, t);
    data = tiny_bytes(&w, &size);
    CHECK_FAILS(do_call(LOAD, &o, data, size), TFM_E_CONFIG, "'vocabulary' is not a known field");
    CHECK(files->calls == 0 && memory.live == 0, "a field or key that names a file is refused");
}

int main(void) {
    files->count = 1;
    no_memory();
    no_memory_for_files();
    reading();
    no_room();
    paths_in_files();
    CHECK(injected == survived && (injected > 100 || getenv("TEST_LIST")),
          "%d allocations failed, %d survived; %d reads", injected, survived, read_faults);
    return test_done("test_faults");
}
