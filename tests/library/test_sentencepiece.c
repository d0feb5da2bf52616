/* SentencePiece: compares ids and texts with the package on small models of each kind (made by
   make_sentencepiece.py), and tests how model files use them and which files are refused.
   compare_sentencepiece.py compares large models and many scripts. */
#define TRANSFORMER_IMPLEMENTATION
#include "transformer.h"
#include "spm_file.h"
#include "tiny.h"

static const char both[] = ", \"src_text\": \"sentencepiece\", \"tgt_text\": \"sentencepiece\"";

/* ---- models ---- */

typedef struct spm_file {
    const void *src, *tgt; /* SentencePiece models, or NULL */
    size_t src_size, tgt_size;
    const char *src_words, *tgt_words; /* vocabularies, or NULL */
    int vs, vt;                        /* rows of the embeddings */
    const char *config;
    const tfm_allocator *allocator;
    int is_packed;
} spm_file;

static tfm_model *load(spm_file f) {
    tiny t = tiny_default();
    tfm_model_options o = tiny_options();
    tfm_model *model = NULL;
    st_writer w;
    size_t size;
    void *data;
    memset(&o, 0, sizeof o);
    o.allocator = f.allocator;
    t.config = f.config, t.src = f.src_words, t.tgt = f.tgt_words, t.vs = f.vs, t.vt = f.vt;
    tiny_write(&w, t);
    if (f.src)
        st_add(&w, "src_sentencepiece",
               tfm_tensor_1d((void *)f.src, TFM_DTYPE_U8, (int64_t)f.src_size));
    if (f.tgt)
        st_add(&w, "tgt_sentencepiece",
               tfm_tensor_1d((void *)f.tgt, TFM_DTYPE_U8, (int64_t)f.tgt_size));
    if (f.is_packed) tiny_pack(&w, &t, 1);
    data = tiny_bytes(&w, &size);
    err.text[0] = 0;
    err.status = tfm_model_load(&model, data, size, &o, &err);
    return model;
}

/* Writes a model file in which pieces are ids on both sides. */
static spm_file plain_file(const void *bytes, size_t size, int pieces) {
    spm_file f;
    memset(&f, 0, sizeof f);
    f.src = bytes, f.src_size = size, f.vs = f.vt = pieces, f.config = both;
    return f;
}

/* ---- golden data ---- */

static int32_t end_of(const tfm_tensor *ends, int64_t i) {
    return i < 0 ? 0 : ((int32_t *)ends->data)[i];
}

/* Calls tfm_model_tokenize with exactly the scratch that it asks for. */
static tfm_status tokenize(const tfm_model *m, const char *text, size_t size, int32_t *ids,
                           int32_t capacity, int32_t *count) {
    tfm_arena arena = tfm_arena_measuring();
    tfm_status status = tfm_model_tokenize(m, tfm_text_make(text, size), TFM_TEXT_FORM_TEXT, ids,
                                           capacity, count, &arena, &err);
    void *memory;
    if (status != TFM_OK) return status;
    memory = malloc(arena.peak + 1);
    if (!memory) exit(2);
    arena = tfm_arena_make(memory, arena.peak);
    status = tfm_model_tokenize(m, tfm_text_make(text, size), TFM_TEXT_FORM_TEXT, ids, capacity,
                                count, &arena, &err);
    if (arena.used) printf("scratch not given back\n"), exit(2);
    free(memory);
    return status;
}

/* Returns whether the ids decode to that text, in a buffer of exactly its size, and fails a check
   if not. */
static int decodes(const tfm_model *m, const int32_t *ids, int32_t n, const char *text,
                   size_t size) {
    char *out = (char *)malloc(size + 1);
    size_t got = 0;
    tfm_status status;
    int same;
    if (!out) exit(2);
    status = tfm_model_detokenize(m, ids, n, TFM_TEXT_FORM_TEXT, out, size + 1, &got, &err);
    same = status == TFM_OK && got == size && memcmp(out, text, size) == 0 && out[size] == 0;
    if (!same) {
        char some[600];
        CHECK(same, "ids %s: wanted text '%.*s', got status \"%s\"%s%s, text '%.*s' of %d bytes",
              test_ids(some, sizeof some, ids, n), (int)size, text, tfm_status_text(status),
              status == TFM_OK ? "" : ": ", status == TFM_OK ? "" : err.text,
              status == TFM_OK ? (int)(got < size ? got : size) : 0, out,
              status == TFM_OK ? (int)got : 0);
    }
    free(out);
    return same;
}

static void golden(void) {
    static const char *const cases[] = {
        "unigram",        "bpe",        "unigram_bytes",  "bpe_bytes",     "unigram_bare",
        "bpe_bare",       "bpe_unused", "unigram_spaces", "bpe_symbols",   "unigram_symbols",
        "unigram_suffix", "bpe_suffix", "unigram_back",   "unigram_unused"};
    tfm_safetensors *file = test_open("sentencepiece.safetensors");
    tfm_tensor lines = test_get(file, "lines"), line_ends = test_get(file, "line_ends");
    size_t i;
    SECTION("ids and texts are those of the package");
    for (i = 0; i < sizeof cases / sizeof *cases; i++) {
        static const char *const names[] = {"model", "ids",           "id_ends",    "decoded",
                                            "mixed", "mixed_decoded", "mixed_ends", "decoded_ends"};
        tfm_tensor t[8];
        tfm_model *m;
        int32_t got[512], count, wrong = 0, all = 0, k;
        int64_t line, n_lines = test_count(&line_ends);
        char name[64];
        for (k = 0; k < 8; k++) {
            snprintf(name, sizeof name, "%s.%s", cases[i], names[k]);
            t[k] = test_get(file, name);
        }
        m = load(
            plain_file(t[0].data, (size_t)t[0].dims[0], strstr(cases[i], "bytes") ? 420 : 260));
        if (!m) {
            CHECK(m != NULL, "%s: wanted a model, got \"%s\"", cases[i], err.text);
            continue;
        }
        for (line = 0; line < n_lines; line++) {
            const char *text = (const char *)lines.data + end_of(&line_ends, line - 1);
            int32_t begin = end_of(&t[2], line - 1), n = end_of(&t[2], line) - begin;
            int32_t *ids = (int32_t *)t[1].data + begin, at = end_of(&t[7], line - 1);
            tfm_status status =
                tokenize(m, text, (size_t)(end_of(&line_ends, line) - end_of(&line_ends, line - 1)),
                         got, 512, &count);
            int ok = status == TFM_OK && count == n && memcmp(got, ids, (size_t)n * 4) == 0;
            all += n;
            if (!ok) {
                char wanted_ids[600], got_ids[600];
                CHECK(ok, "%s, line %d: wanted ids %s; got status \"%s\", ids %s", cases[i],
                      (int)line, test_ids(wanted_ids, sizeof wanted_ids, ids, n),
                      tfm_status_text(status),
                      test_ids(got_ids, sizeof got_ids, got, status == TFM_OK ? count : 0));
            }
            ok &= decodes(m, ids, n, (char *)t[3].data + at, (size_t)(end_of(&t[7], line) - at));
            wrong += !ok;
            if (!ok && test_enough()) break;
        }
        CHECK(wrong == 0, "%s: %d lines, %d ids", cases[i], (int)n_lines, (int)all);
        for (wrong = 0, line = 0; line < t[4].dims[0]; line++) {
            int32_t at = end_of(&t[6], line - 1), n = (int32_t)t[4].dims[1];
            wrong += !decodes(m, (int32_t *)t[4].data + line * n, n, (char *)t[5].data + at,
                              (size_t)(end_of(&t[6], line) - at));
            if (wrong && test_enough()) break;
        }
        CHECK(wrong == 0, "  %d rows of ids that no text gives", (int)line);
        tfm_model_free(m);
    }
    tfm_safetensors_free(file);
}

/* Reads a file from memory of exactly its size, and uses the result. */
static tfm_status read_file(const void *bytes, size_t size) {
    static const char text[] = "  the <0x41> \xc3\xa9\x65\xcc\x81 \xef\xbc\xa1 ab xabcab \xf0\x9f"
                               "\x91\x8d\xe7\x8c\xab" SPACE " ing<sep> Z\xc3\xbcrich.  ";
    unsigned char *copy = (unsigned char *)malloc(size + 1);
    tfm__sentencepiece *p = (tfm__sentencepiece *)calloc(1, sizeof *p);
    tfm__text_reader r;
    tfm__pool pool, temporary;
    tfm_status status;
    if (!copy || !p) exit(2);
    memcpy(copy, bytes, size);
    (void)tfm__choose_allocator(&pool.allocator, NULL, NULL);
    pool.blocks = NULL, temporary = pool;
    memset(&r, 0, sizeof r);
    r.name = "src_sentencepiece", r.pool = &pool, r.temporary = &temporary, r.err = &err;
    err.text[0] = 0;
    status = tfm__spm_read(&r, p, copy, (int64_t)size);
    if (status == TFM_OK) status = tfm__spm_build(p, &pool, &err);
    if (status == TFM_OK) {
        static char scratch[1 << 20], out[1 << 20];
        tfm_arena arena = tfm_arena_make(scratch, sizeof scratch);
        tfm_text source = tfm_text_make(text, sizeof text - 1);
        tfm__side side;
        tfm__token_cursor cursor;
        tfm__token token;
        memset(&side, 0, sizeof side);
        side.tokenizer = &tfm__tokenizers[TFM_TEXT_KIND_SENTENCEPIECE], side.unk_piece = p->unk;
        tfm__spm_attach(&side, p);
        if (tfm__cursor_begin(&cursor, NULL, &side, TFM_TEXT_FORM_TEXT, &source, NULL, &arena,
                              &err) == TFM_OK) {
            int64_t n = 0, i;
            int32_t *ids = (int32_t *)malloc((cursor.text.size + 1) * 4);
            int32_t *same = (int32_t *)malloc((size_t)p->vocabulary.n * 4);
            size_t bytes_out, again;
            tfm__target_ids target = {NULL, 0, TFM_TEXT_FORM_TEXT, 0};
            if (!ids || !same) exit(2);
            for (i = 0; i < p->vocabulary.n; i++) same[i] = (int32_t)i;
            while (tfm__cursor_next(&cursor, &token)) ids[n++] = token.id;
            for (i = 0; i < n; i++)
                if (ids[i] < 0 || ids[i] >= p->vocabulary.n)
                    printf("an id out of range\n"), exit(2);
            side.vocabulary = p->vocabulary, side.pieces = same;
            target.ids = ids, target.n = (int32_t)n;
            bytes_out = tfm__join(&side, &target, NULL);
            again = bytes_out < sizeof out ? tfm__join(&side, &target, out) : bytes_out;
            if (again != bytes_out) printf("two sizes of one text\n"), exit(2);
            if (again < sizeof out && tfm__utf8_fault(out, again) >= 0)
                printf("a text that is not UTF-8\n"), exit(2);
            free(ids), free(same);
        }
    } else if (!err.text[0]) {
        printf("no message\n"), exit(2);
    }
    tfm__pool_free(pool), tfm__pool_free(temporary);
    free(copy), free(p);
    return status;
}

#define REFUSED(says)                                                                              \
    do {                                                                                           \
        tfm_status got = read_file(built, n_built);                                                \
        CHECK(got != TFM_OK && strstr(err.text, says), "%s", err.text);                            \
    } while (0)
#define ACCEPTED(what) CHECK(read_file(built, n_built) == TFM_OK, "accepted: %s %s", what, err.text)

static void wire(void) {
    static const struct {
        const char *bytes;
        size_t size;
        const char *says; /* NULL: the file must be accepted */
    } rows[] = {
#define ROW(bytes, says) {bytes, sizeof bytes - 1, says}
        ROW("", NULL),
        ROW("\x50\x07\x59"
            "12345678\x62\x02hi\x6d"
            "1234",
            NULL),
        ROW("\x50\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", NULL),        /* -1 */
        ROW("\x50\x80\x80\x80\x80\x80\x80\x80\x80\x80\x00", NULL),        /* 0 in ten bytes */
        ROW("\x50\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02", "malformed"), /* 65 bits */
        ROW("\x50\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x00", "malformed"),
        ROW("\x50", "malformed"),
        ROW("\x50\x80", "malformed"),
        ROW("\x00\x01", "malformed"),                     /* field 0 */
        ROW("\x56", "malformed"),                         /* wire type 6 */
        ROW("\x57", "malformed"),                         /* wire type 7 */
        ROW("\x80\x80\x80\x80\x80\x01\x01", "malformed"), /* a tag over 32 bits */
        ROW("\x59"
            "1234567",
            "malformed"),
        ROW("\x5d"
            "123",
            "malformed"),
        ROW("\x52\x03hi", "malformed"),
        ROW("\x52\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", "malformed"),
        ROW("\x52\xff\xff\xff\xff\xff\xff\xff\xff\x7f", "malformed"),
        ROW("\x53", "malformed"),     /* a group without an end */
        ROW("\x54", "malformed"),     /* an end without a group */
        ROW("\x53\x54", "malformed"), /* a group: no SentencePiece model has one */
        ROW("\x0d"
            "1234",
            "field 1: wrong wire type"),
        ROW("\x10\x01", "field 2: wrong wire type"),
        ROW("\x0b\x0c", "malformed"),
        ROW("\x0a\x00", "piece 8: it is empty"),
        ROW("\x0a\x05\x0a\x01q\x0a\x01", "malformed field of a piece"),
        ROW("\x0a\x06\x0a\x01q\x0a\x01r", "piece 8: duplicate piece"),
        ROW("\x0a\x05\x0a\x01q\x10\x01", "piece 8: score has the wrong wire type"),
        ROW("\x0a\x05\x0a\x01q\x1a\x00", "piece 8: type has the wrong wire type"),
        ROW("\x0a\x05\x0a\x01q\x18\x00", "piece 8: its type is unknown"),
        ROW("\x0a\x05\x0a\x01q\x18\x07", "piece 8: its type is unknown"),
        ROW("\x0a\x05\x0a\x01q\x18\x06", "piece 8: a byte that is not <0x00> to <0xFF>"),
        ROW("\x0a\x03\x0a\x01q", NULL),
        ROW("\x0a\x03\x0a\x01\xff", "piece 8: not UTF-8"),
        ROW("\x0a\x04\x0a\x02q\x00", "piece 8: it has a NUL"),
        ROW("\x0a\x03\x0a\x01\x61", "are the same"),
        ROW("\x0a\x08\x0a\x01q\x15\x00\x00\xc0\x7f", "piece 8: its score is not finite"),
        ROW("\x0a\x08\x0a\x01q\x15\x00\x00\x80\xff", "piece 8: its score is not finite"),
        ROW("\x0a\x05\x0a\x01q\x18\x02", "piece 8: a second one of type unknown"),
        ROW("\x12\x00\x12\x00", "trainer_spec: duplicate field"),
        ROW("\x1a\x00\x1a\x00", "normalizer_spec: duplicate field"),
        ROW("\x12\x02\x18\x03", "trainer_spec: model_type is word"),
        ROW("\x12\x02\x18\x04", "trainer_spec: model_type is char"),
        ROW("\x12\x02\x18\x63", "trainer_spec: model_type is unknown"),
        ROW("\x12\x02\x18\x02", NULL), /* bpe */
        ROW("\x12\x04\x18\x02\x18\x02", "trainer_spec: duplicate model_type"),
        ROW("\x12\x01\x18", "malformed field of trainer_spec"),
        ROW("\x12\x04\xe2\x02\x01\xff", "trainer_spec: unk_surface is not UTF-8"),
        ROW("\x12\x03\x98\x02\x01",
            "the piece of byte 0 is missing"), /* byte_fallback without byte pieces */
        ROW("\x1a\x03\x18\x01\x20", "malformed field of normalizer_spec"),
        ROW("\x1a\x05\x12\x03"
            "123",
            "normalizer_spec: precompiled_charsmap: its size"),
        ROW("\x2a\x08\x12\x06"
            "123456",
            "denormalizer_spec: add_dummy_prefix is true"),
    };
    char name[8];
    size_t i, begin;
    SECTION("the bytes of a file");
    for (i = 0; i < sizeof rows / sizeof *rows; i++) {
        begin_file();
        put_bytes(rows[i].bytes, rows[i].size);
        if (rows[i].says) REFUSED(rows[i].says);
        else ACCEPTED("a row");
    }
    n_built = 0;
    REFUSED("pieces: missing");
    put_piece("a", 0, 1);
    REFUSED("pieces: the unknown piece is missing");
    n_built = 0, put_piece("<unk>", 0, 2);
    REFUSED("normal pieces are missing");
    begin_file();
    begin = n_built;
    {
        static char large[8000];
        memset(large, 'x', sizeof large);
        put_piece_of(large, 7999, -1, 1);
        ACCEPTED("a piece of 7999 bytes");
        n_built = begin;
        put_piece_of(large, 8000, -1, 1);
        REFUSED("piece 8: it has over 7999 bytes");
    }
    begin_file();
    put_piece("<0x41>", 0, 6);
    REFUSED("piece 8: a byte, and byte_fallback is false");
    begin_file();
    put_piece_of("\0", 1, 0, 1);
    REFUSED("piece 8: it has a NUL");
    begin_file();
    put_trainer(35, 1), put_piece_of("\0\0", 2, 0, 1);
    REFUSED("piece 8: it has a NUL");
    for (i = 0; i < 4; i++) {
        static const char *const bad[] = {"<0x-1>", "<0xZZ>", "<0xa0>", "<0x041>"};
        begin_file();
        put_trainer(35, 1), put_piece(bad[i], 0, 6);
        REFUSED("piece 8: a byte that is not <0x00> to <0xFF>");
    }
    begin_file();
    put_trainer(35, 1);
    for (i = 0; i < 255; i++)
        snprintf(name, sizeof name, "<0x%02X>", (unsigned)i), put_piece(name, 0, 6);
    REFUSED("the piece of byte 255 is missing");
    put_piece("<0xFF>", 0, 6);
    ACCEPTED("all bytes");
    put_piece_of("\0", 1, 0, 1);
    ACCEPTED("a NUL as a piece, with bytes");
}

/* Returns the ids of a text by the file in `built`, with a vocabulary that has "bb" as an added
   token with these flags. */
static const char *added_ids(uint32_t flags, const char *text) {
    static const char words[] = "<unk>\n<s>\n</s>\na\nb\nab\n" SPACE "\n" SPACE "a\nbb\n";
    static char out[128];
    uint32_t row[2];
    tiny t = tiny_default();
    tfm_model *m = NULL;
    st_writer w;
    size_t size, n = 0;
    void *data;
    int32_t ids[16], count = 0, i;
    row[0] = 8, row[1] = flags;
    t.config = ", \"src_text\": \"sentencepiece\", \"src_unk\": 0", t.src = words, t.vs = t.vt = 9;
    tiny_write(&w, t);
    st_add(&w, "src_sentencepiece", tfm_tensor_1d(built, TFM_DTYPE_U8, (int64_t)n_built));
    st_add(&w, "src_added", tfm_tensor_2d(row, TFM_DTYPE_U32, 1, 2));
    data = tiny_bytes(&w, &size);
    must(tfm_model_load(&m, data, size, NULL, &err));
    must(tokenize(m, text, strlen(text), ids, 16, &count));
    for (i = 0, out[0] = 0; i < count; i++)
        n += (size_t)snprintf(out + n, sizeof out - n, "%s%d", i ? " " : "", (int)ids[i]);
    tfm_model_free(m);
    return out;
}

/* Where the file's rules turn a into b, a normalized token "bb" must be found in "aa" too. */
static void added_tokens(void) {
    static const struct {
        uint32_t flags;
        const char *text, *ids;
    } rows[] = {{0, "bb", "8"},        {0, "aa", "6 4 4"},    {16, "aa", "8"},
                {16, "ab", "8"},       {24, "aa", "8"},       {24, "aab", "6 4 4 4"},
                {24, "b aa", "6 4 8"}, {24, "baa", "6 4 4 4"}};
    size_t i;
    for (i = 0; i < sizeof rows / sizeof *rows; i++) {
        const char *ids = added_ids(rows[i].flags, rows[i].text);
        CHECK(strcmp(ids, rows[i].ids) == 0, "added token of flags %u in '%s': %s",
              (unsigned)rows[i].flags, rows[i].text, ids);
    }
}

static void charsmaps(void) {
    /* root's children at 0 ^ c; 'a' is 97, its children at 97 ^ 128 ^ c: value at 225 */
    static const unit_row good[] = {{0, 0}, {97, 97 | 1 << 8 | 128u << 10}, {225, 0x80000000u}};
    /* 'b' is its own child, so the trie is a cycle */
    static const unit_row ring[] = {{0, 0}, {98, 98 | 98u << 10}};
    static char large[4000];
    unit_row bad[3];
    tfm_model *m;
    int32_t ids[64], count, i;
    SECTION("normalization rules");
    begin_file(), put_charsmap(good, 3, "b", 2);
    ACCEPTED("a becomes b");
    m = load(plain_file(built, n_built, 8));
    CHECK(m && tokenize(m, "aab", 3, ids, 64, &count) == TFM_OK && count == 4 && ids[0] == 6 &&
              ids[1] == 4 && ids[2] == 4 && ids[3] == 4,
          "aab is " SPACE " b b b: %s", m ? "" : err.text);
    tfm_model_free(m);
    added_tokens();
    begin_file(), put_charsmap(good, 3, "", 1);
    for (i = 0; i < 3; i++) {
        static const char *const texts[] = {"abb", "bba", "aabbaa"};
        CHECK(strcmp(added_ids(24, texts[i]), "8") == 0,
              "the rules drop a, so '%s' is an added token: %s", texts[i], added_ids(24, texts[i]));
    }
    begin_file(), put_charsmap(ring, 2, "", 1);
    ACCEPTED("a trie with a cycle");
    m = load(plain_file(built, n_built, 8));
    {
        int32_t n = 0, *many = (int32_t *)test_memory(4 * 200002);
        char *text = (char *)test_memory(200000);
        memset(text, 'b', 200000);
        (void)tokenize(m, text, 200000, many, 200002, &n);
        CHECK(n == 200001, "a cycle and 200,000 letters: %d ids", (int)n);
    }
    tfm_model_free(m);
    memcpy(bad, good, sizeof bad);
    bad[1].value = 97 | 1 << 8 | 256u << 10;
    begin_file(), put_charsmap(bad, 3, "b", 2);
    REFUSED("its trie points outside");
    bad[1].value = 97 | 1 << 8 | 0x1FFFFFu << 10 | 1 << 9;
    begin_file(), put_charsmap(bad, 3, "b", 2);
    REFUSED("its trie points outside");
    memcpy(bad, good, sizeof bad), bad[0].value = 0x80000000u;
    begin_file(), put_charsmap(bad, 3, "b", 2);
    REFUSED("its trie points outside");
    memcpy(bad, good, sizeof bad), bad[2].value = 0x80000002u;
    begin_file(), put_charsmap(bad, 3, "b", 2);
    REFUSED("its trie points outside its strings");
    bad[2].value = 0xFFFFFFFFu;
    begin_file(), put_charsmap(bad, 3, "b", 2);
    REFUSED("its trie points outside its strings");
    bad[2].value = 0x80000001u;
    begin_file(), put_charsmap(bad, 3, "\xc3\xa9", 3);
    REFUSED("its trie points outside its strings");
    begin_file(), put_charsmap(good, 3, "b", 1);
    REFUSED("its last string has no end");
    begin_file(), put_charsmap(good, 3, "\xff", 2);
    REFUSED("its strings are not UTF-8");
    memset(large, 'x', 1025);
    begin_file(), put_charsmap(good, 3, large, 1026);
    REFUSED("a string has over 1024 bytes");
    begin_file(), put_charsmap(good, 3, "", 0);
    REFUSED("its size does not fit its trie");
}

/* Tests every length and every byte of whole files. */
static void damaged(void) {
    static const char *const names[] = {"unigram_symbols.model", "bpe_bytes.model",
                                        "bpe_unused.model"};
    tfm_safetensors *file = test_open("sentencepiece.safetensors");
    unsigned seed = 1;
    int i, k, good = 0, bad = 0;
    SECTION("damaged files");
    for (i = 0; i < 3; i++) {
        tfm_tensor t = test_get(file, names[i]);
        unsigned char *bytes = (unsigned char *)t.data;
        int64_t n = t.dims[0], at;
        for (at = 0; at < n; at++)
            if (read_file(bytes, (size_t)at) == TFM_OK) good++;
            else bad++;
        CHECK(bad > 0, "%s cut at each of %d bytes: %d refused, %d of use", names[i], (int)n, bad,
              good);
        for (good = bad = 0, at = 0; at < n; at++) {
            unsigned char was = bytes[at];
            bytes[at] = (unsigned char)(was ^ 1u << (tiny_random(&seed) & 7));
            if (read_file(bytes, (size_t)n) == TFM_OK) good++;
            else bad++;
            bytes[at] = was;
        }
        CHECK(bad > 0, "  a bit of each byte flipped: %d refused, %d usable", bad, good);
        for (good = bad = 0, at = 0; at < 500; at++) {
            unsigned char *copy = (unsigned char *)malloc((size_t)n);
            if (!copy) exit(2);
            memcpy(copy, bytes, (size_t)n);
            for (k = 0; k < 8; k++)
                copy[tiny_random(&seed) % (unsigned)n] = (unsigned char)tiny_random(&seed);
            if (read_file(copy, (size_t)n) == TFM_OK) good++;
            else bad++;
            free(copy);
        }
        CHECK(bad > 0, "  eight random bytes: %d refused, %d usable", bad, good);
        good = bad = 0;
    }
    tfm_safetensors_free(file);
}

/* ---- in a model file ---- */

/* Returns the ids of a text; *n is -1 after an error. */
static const int32_t *ids_of(const tfm_model *m, const char *text, int32_t *n) {
    static int32_t ids[64];
    *n = -1;
    err.text[0] = 0;
    (void)tokenize(m, text, strlen(text), ids, 64, n);
    return ids;
}
#define IDS_ARE(m, line, ...)                                                                      \
    do {                                                                                           \
        static const int32_t expected[] = {__VA_ARGS__};                                           \
        int32_t n;                                                                                 \
        const int32_t *got = ids_of(m, line, &n);                                                  \
        CHECK(n == (int32_t)(sizeof expected / 4) && memcmp(got, expected, sizeof expected) == 0,  \
              "ids of '%s' %s", line, err.text);                                                   \
    } while (0)

static const char *text_of(const tfm_model *m, const int32_t *ids, int32_t n, tfm_text_form form) {
    static char text[256];
    size_t size = 0;
    if (tfm_model_detokenize(m, ids, n, form, text, sizeof text, &size, &err) != TFM_OK)
        return err.text;
    return text;
}

/* Tests ids and texts that only unusual pieces and rules give. */
static void rare(void) {
    /* 'b' behind 'b' in a cycle, with a rule at each; C3 without the rest of its character */
    static const unit_row rules[] = {{0, 0}, {98, 98 | 1 << 8 | 98u << 10}};
    static const unit_row ring[] = {{0, 0}, {98, 98 | 98u << 10}};
    static const unit_row half[] = {{0, 0}, {195, 195 | 1 << 8 | 128u << 10}, {67, 0x80000000u}};
    static const unit_row four[] = {{0, 0}, {240, 240 | 1 << 8 | 128u << 10}, {112, 0x80000000u}};
    char text[2000], many[256];
    static const int32_t letter = 4;
    tfm_model *m;
    spm_file f;
    int32_t *ids = (int32_t *)test_memory(4 * 2000), i, count;
    SECTION("rare pieces and rules");
    memset(text, 'b', sizeof text), text[40] = 0;
    begin_file(), put_charsmap(rules, 2, "a", 2);
    m = load(plain_file(built, n_built, 8));
    CHECK(m != NULL, "%s", err.text);
    IDS_ARE(m, text, 7, 3); /* 32 of them, and 8 */
    tfm_model_free(m);
    begin_file(), put_charsmap(half, 3, "a", 2);
    m = load(plain_file(built, n_built, 8));
    CHECK(m != NULL, "%s", err.text);
    IDS_ARE(m,
            "\xc3\xa9"
            "b",
            7, 0, 4); /* The rest of the character is invalid. */
    tfm_model_free(m);
    for (i = 0; i < 2000; i++) ids[i] = 4;
    begin_file(), put_rules(5, rules, 2, "a", 2);
    m = load(plain_file(built, n_built, 8));
    CHECK(m && strcmp(text_of(m, ids, 40, TFM_TEXT_FORM_TEXT), "aa") == 0,
          "denormalization: '%s' %s", m ? text_of(m, ids, 40, TFM_TEXT_FORM_TEXT) : "", err.text);
    tfm_model_free(m);
    /* A rule replaces the first byte of a character; the remaining bytes are invalid. */
    begin_file(), put_piece("\xc3\xa9", -1, 1), put_piece("\xf0\x9f\x91\x8d", -1, 1);
    put_rules(5, half, 3, "a", 2);
    m = load(plain_file(built, n_built, 10));
    for (i = 0; i < 6; i++) ids[i] = i % 2 ? 4 : 8;
    CHECK(m && decodes(m, ids, 3,
                       "a\xef\xbf\xbd"
                       "ba\xef\xbf\xbd",
                       9),
          "%s", m ? text_of(m, ids, 3, TFM_TEXT_FORM_TEXT) : err.text);
    CHECK(m && strcmp(text_of(m, ids, 1, TFM_TEXT_FORM_TOKENS), "\xc3\xa9") == 0,
          "tokens are unchanged");
    tfm_model_free(m);
    begin_file(), put_piece("\xf0\x9f\x91\x8d", -1, 1);
    put_rules(5, four, 3, "\xe2\x96\x81", 4);
    m = load(plain_file(built, n_built, 9));
    ids[0] = 8, ids[1] = 8, ids[2] = 3;
    CHECK(m && decodes(m, ids, 3,
                       "\xe2\x96\x81\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"
                       "\xe2\x96\x81\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"
                       "a",
                       25),
          "%s", m ? text_of(m, ids, 3, TFM_TEXT_FORM_TEXT) : err.text);
    tfm_model_free(m);
    for (i = 0; i < 2000; i++) ids[i] = 4;
    begin_file(), put_rules(5, ring, 2, "a", 2);
    m = load(plain_file(built, n_built, 8));
    CHECK(m && decodes(m, ids, 1100, (memset(text, 'b', sizeof text), text), 1100),
          "a cycle, denormalized, and 1100 letters");
    tfm_model_free(m);

    begin_file(), put_trainer(3, 2);
    for (i = 1; i <= 70; i++) {
        memset(many, 'z', (size_t)i);
        put_piece_of(many, (size_t)i, 0, 4);
    }
    m = load(plain_file(built, n_built, 78));
    CHECK(m != NULL, "%s", err.text);
    memset(many, 'z', 70), many[70] = 0;
    IDS_ARE(m, many, 6, 71, 13); /* 64 of them, and 6 */
    tfm_model_free(m);

    for (i = 1; i <= 2; i++) { /* unigram, BPE */
        size_t begin;
        n_built = 0;
        put_piece("<unk>", 0, 2), put_piece("a", -1, 1), put_piece("b", -1, 1);
        put_piece(" ", -1, 1), put_piece(" a", -1, 1);
        put_trainer(3, (uint64_t)i);
        begin = n_built;
        put_number(5, 0), wrap(3, begin);
        m = load(plain_file(built, n_built, 5));
        CHECK(m != NULL, "%s", err.text);
        IDS_ARE(m, "a  b", 4, 3, 2); /* Spaces are kept. */
        tfm_model_free(m);
    }
    begin_file(), put_trainer(3, 2), put_piece(SPACE SPACE, -0.5f, 1);
    m = load(plain_file(built, n_built, 9));
    CHECK(m != NULL, "%s", err.text);
    IDS_ARE(m, "ab b", 7, 4, 6, 4); /* Two marks next to each other join nothing else. */
    tfm_model_free(m);

    /* An unused piece is split into the pieces that it was merged from: here into a letter that is
       no piece. */
    begin_file(), put_trainer(3, 2), put_piece("bq", -0.1f, 5);
    m = load(plain_file(built, n_built, 9));
    CHECK(m != NULL, "%s", err.text);
    IDS_ARE(m, "bqb", 6, 4, 0, 4);
    tfm_model_free(m);
    /* The splitting stops at a depth of 100: of b^105 the piece b^4 is left. */
    begin_file(), put_trainer(3, 2);
    for (i = 2; i <= 105; i++) {
        memset(many, 'b', (size_t)i);
        put_piece_of(many, (size_t)i, (float)i, 5);
    }
    m = load(plain_file(built, n_built, 112));
    memset(many, 'b', 105), many[105] = 0;
    count = 0;
    CHECK(m && tokenize(m, many, 105, ids, 2000, &count) == TFM_OK && count == 103 && ids[0] == 6 &&
              ids[1] == 10 && ids[2] == 4 && ids[102] == 4,
          "an unused piece in an unused piece, 104 deep: %d ids %s", (int)count, err.text);
    tfm_model_free(m);

    /* byte pieces, and a vocabulary with some of them */
    begin_file();
    put_trainer(35, 1);
    for (i = 0; i < 256; i++)
        snprintf(many, sizeof many, "<0x%02X>", (unsigned)i), put_piece(many, 0, 6);
    f = plain_file(built, n_built, 7);
    f.src_words = "<pad>\n</s>\n<unk>\n<0xC3>\n<0xA9>\nb\nzz\n";
    f.config = ", \"src_text\": \"sentencepiece\", \"tgt_text\": \"sentencepiece\", "
               "\"src_unk\": 2, \"tgt_unk\": 2, \"start\": 1, \"end\": 1, \"forced\": 2";
    m = load(f);
    CHECK(m != NULL, "%s", err.text);
    IDS_ARE(m, "b\xc3\xa9", 2, 5, 3, 4);
    IDS_ARE(m, "\xc3\xbc", 2, 3, 2);
    if (m) {
        static const int32_t mixed[] = {3, 6, 3, 4, 2, 4, 1, 3}, target[] = {2, 5, 3, 4};
        static char scratch[4096];
        tfm_arena arena = tfm_arena_make(scratch, sizeof scratch);
        /* A run of byte pieces ends where the next token is a word or a token without text. */
        CHECK(strcmp(text_of(m, mixed, 8, TFM_TEXT_FORM_TEXT),
                     "\xef\xbf\xbdzz\xc3\xa9\xef\xbf\xbd\xef\xbf\xbd") == 0,
              "'%s'", text_of(m, mixed, 8, TFM_TEXT_FORM_TEXT));
        CHECK(tfm_model_tokenize_target(m, tfm_text_make("b\xc3\xa9", 3), TFM_TEXT_FORM_TEXT, ids,
                                        9, &count, &arena, &err) == TFM_OK &&
                  count == 4 && memcmp(ids, target, sizeof target) == 0,
              "as a target: %d ids %s", (int)count, err.text);
    }
    tfm_model_free(m);
    /* Languages of the source alone may have ids beyond the target's. */
    begin_file();
    f = plain_file(built, n_built, 12);
    f.vt = 8;
    f.config = ", \"src_text\": \"sentencepiece\", \"tgt_text\": \"sentencepiece\", \"start\": 1, "
               "\"end\": 2, \"src_language\": \"source\", \"languages\": {\"fra\": 11}";
    m = load(f);
    CHECK(m && strcmp(text_of(m, &letter, 1, TFM_TEXT_FORM_TEXT), "b") == 0, "%s", err.text);
    tfm_model_free(m);
}

static void files(void) {
    static const int32_t all[] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9};
    /* ids:                      0       1      2     3   4  5           6        7        8   9 */
    static const char words[] = "<pad>\n</s>\n<unk>\nb\na\n" SPACE "a\nz" SPACE "y\n" SPACE
                                "\n.\nx\n";
    spm_file f;
    tfm_model *m;
    int32_t ids[4] = {-1, -1, -1, -1}, count = 77;
    char scratch[4096];
    tfm_arena arena = tfm_arena_make(scratch, sizeof scratch), small;
    unsigned char bpe[512];
    size_t n_bpe;
    SECTION("pieces as ids");
    begin_file(), put_trainer(3, 2);
    memcpy(bpe, built, n_bpe = n_built);
    begin_file();
    f = plain_file(built, n_built, 10);
    f.config = ", \"src_text\": \"sentencepiece\", \"tgt_text\": \"sentencepiece\", "
               "\"src_start\": 1, \"src_end\": 2, \"start\": 1, \"end\": 4";
    m = load(f);
    if (!m) printf("%s\n", err.text), exit(2);
    IDS_ARE(m, "a bab", 1, 7, 6, 4, 5, 2);
    IDS_ARE(m, "bqqa", 1, 6, 4, 0, 3, 2);
    CHECK(tokenize(m, "  ", 2, ids, 4, &count) == TFM_OK && count == 0, "a blank text has no ids");
    count = 77;
    small = tfm_arena_make(scratch, 64);
    CHECK_FAILS(tfm_model_tokenize(m, tfm_text_make("a ab", 4), TFM_TEXT_FORM_TEXT, ids, 4, &count,
                                   &small, &err),
                TFM_E_ARENA, "scratch arena has");
    CHECK_FAILS(tfm_model_tokenize(m, tfm_text_make("a ab", 4), TFM_TEXT_FORM_TEXT, ids, 4, &count,
                                   &arena, &err),
                TFM_E_TOO_LONG, "text has 5 tokens, there is room for 4");
    CHECK_FAILS(tfm_model_tokenize(m, tfm_text_make("a\xff", 2), TFM_TEXT_FORM_TEXT, ids, 4, &count,
                                   &arena, &err),
                TFM_E_UTF8, "text is not UTF-8 at byte 1");
    CHECK(ids[0] == -1 && count == 77, "outputs untouched");
    CHECK(tfm_model_tokenize(m, tfm_text_make(SPACE "a </s>", 9), TFM_TEXT_FORM_TOKENS, ids, 4,
                             &count, NULL, &err) == TFM_OK &&
              count == 4 && ids[1] == 7 && ids[2] == 2,
          "tokens between spaces %s", err.text);
    CHECK(strcmp(text_of(m, all, 10, TFM_TEXT_FORM_TEXT), " \xe2\x81\x87 aab  a") == 0,
          "control, start and end give no text: '%s'", text_of(m, all, 10, TFM_TEXT_FORM_TEXT));
    CHECK(strcmp(text_of(m, all, 10, TFM_TEXT_FORM_TOKENS),
                 "<unk> <s> </s> a b ab " SPACE " " SPACE "a") == 0,
          "as tokens: '%s'", text_of(m, all, 10, TFM_TEXT_FORM_TOKENS));
    tfm_model_free(m);

    SECTION("pieces and vocabularies");
    f.src_words = words;
    f.config = ", \"src_text\": \"sentencepiece\", \"tgt_text\": \"sentencepiece\", "
               "\"src_unk\": 2, \"src_end\": 1, \"end\": 1, \"tgt_pad\": 0";
    m = load(f);
    if (!m) printf("%s\n", err.text), exit(2);
    IDS_ARE(m, "a b", 5, 7, 3, 1);
    IDS_ARE(m, "bab", 7, 3, 2, 1);    /* 'ab' is no token */
    IDS_ARE(m, "aqra", 5, 2, 4, 1);   /* x.x is one unknown run and not a token */
    IDS_ARE(m, "bx.x", 7, 3, 2, 1);   /* x.x is one unknown run, and no token */
    IDS_ARE(m, "bxb", 7, 3, 9, 3, 1); /* x is unknown to the pieces, but is a token */
    CHECK(strcmp(text_of(m, all, 10, TFM_TEXT_FORM_TEXT), " \xe2\x81\x87 ba az y .x") == 0,
          "tokens that are no pieces are plain: '%s'", text_of(m, all, 10, TFM_TEXT_FORM_TEXT));
    tfm_model_free(m);
    f.config = both;
    m = load(f);
    CHECK_FAILS(tokenize(m, "bab", 3, ids, 4, &count), TFM_E_TOKEN,
                "\"ab\" at byte 1 is not in src_vocabulary");
    tfm_model_free(m);
    f.tgt = bpe, f.tgt_size = n_bpe, f.tgt_words = words;
    f.config = ", \"src_text\": \"sentencepiece\", \"tgt_text\": \"words\"";
    CHECK(!load(f) && strstr(err.text, "'tgt_text' is words, but tensor 'tgt_sentencepiece'"), "%s",
          err.text);
    f.tgt = NULL;
    m = load(f);
    CHECK(m && strcmp(text_of(m, all + 3, 2, TFM_TEXT_FORM_TEXT), "b a") == 0,
          "SentencePiece to words");
    tfm_model_free(m);
    f.src = NULL, f.tgt = bpe, f.tgt_words = NULL;
    f.config = ", \"tgt_text\": \"sentencepiece\"";
    m = load(f);
    CHECK(m && strcmp(text_of(m, all + 5, 3, TFM_TEXT_FORM_TEXT), "ab  a") == 0,
          "words to SentencePiece %s", err.text);
    tfm_model_free(m);

    SECTION("faults of the model file");
    f.tgt = NULL;
    CHECK(!load(f) && strstr(err.text, "'tgt_sentencepiece' is missing"), "%s", err.text);
    f = plain_file(built, n_built, 7);
    CHECK(!load(f) && strstr(err.text, "src_sentencepiece has 8 pieces, its embedding 7 rows"),
          "%s", err.text);
    f.vs = 8;
    CHECK(!load(f) && strstr(err.text, "tgt_sentencepiece has 8 pieces, its embedding 7 rows"),
          "%s", err.text);
    f.vt = 8, f.config = ", \"src_text\": \"sentencepiece\"";
    CHECK(!load(f) && strstr(err.text, "'tgt_vocabulary' is missing"), "%s", err.text);
    f.config = "";
    CHECK(!load(f) && strstr(err.text, "'src_text' is words, but tensor"), "%s", err.text);
    f.config = ", \"src_text\": \"pieces\"";
    CHECK(!load(f) && strstr(err.text, "'src_text' is pieces, which only tgt_text"), "%s",
          err.text);
    f.config = both, f.src_size--;
    CHECK(!load(f) && strstr(err.text, "src_sentencepiece, byte"), "%s", err.text);
    f.src = NULL;
    CHECK(!load(f) && strstr(err.text, "'src_sentencepiece' is missing"), "%s", err.text);
}

/* ---- sessions ---- */

static void sessions(void) {
    static const char *const lines[] = {"ab ab b", "", "  \t ", "bbb aaa q", "a"};
    test_allocator c;
    tfm_allocator a;
    tfm_model *m;
    tfm_session *s;
    tfm_session_options o;
    tfm_text in[5], out[5];
    spm_file f;
    size_t bytes = 0;
    char buffer[4096], single[1024], *large;
    int i, n, kind, words, same, calls, clean = 1;
    memset(&o, 0, sizeof o);
    memset(&c, 0, sizeof c);
    a.allocate = test_allocate, a.release = test_release, a.user = &c;
    o.max_batch = 5, o.max_source = 16, o.max_target = 12;
    for (kind = 1; kind <= 2; kind++) {
        SECTION(kind == 1 ? "sessions, unigram" : "sessions, bpe");
        begin_file(), put_trainer(3, (uint64_t)kind);
        f = plain_file(built, n_built, 8);
        f.config = ", \"src_text\": \"sentencepiece\", \"tgt_text\": \"sentencepiece\", "
                   "\"start\": 1, \"end\": 2, \"src_end\": 2";
        f.allocator = &a;
        m = load(f);
        if (!m || tfm_session_bytes(m, &o, &bytes, &err) != TFM_OK)
            printf("%s\n", err.text), exit(2);
        c.bytes = 0, calls = c.calls;
        if (tfm_session_create(&s, m, &o, &err) != TFM_OK) printf("%s\n", err.text), exit(2);
        CHECK(c.bytes == bytes && c.calls == calls + 1, "one allocation of %d bytes", (int)bytes);
        calls = c.calls;
        for (i = 0; i < 5; i++) in[i].data = lines[i], in[i].size = strlen(lines[i]);
        CHECK(translate_texts(s, in, NULL, out, 5, NULL, buffer, sizeof buffer, &err) == TFM_OK,
              "%s", err.text);
        for (i = 0, same = 1; i < 5; i++) {
            same &= tfm_translate(s, lines[i], single, sizeof single, &err) == TFM_OK &&
                    strcmp(single, out[i].data) == 0 && strlen(single) == out[i].size;
        }
        CHECK(same && out[1].size == 0 && out[2].size == 0, "a batch and each line alone agree");
        CHECK_FAILS(tfm_translate(s, "aabaabaabaabaabaabaabaab", single, sizeof single, &err),
                    TFM_E_TOO_LONG, "tokens, there is room for 16");
        large = (char *)test_memory(2001);
        memset(large, 'q', 2000); /* one unknown piece */
        CHECK_FAILS(tfm_translate(s, large, single, sizeof single, &err), TFM_E_TOO_LONG,
                    "text has 2003 bytes after normalization, the session takes 1024 (64 for each");
        large[1021] = 0;
        CHECK(tfm_translate(s, large, single, sizeof single, &err) == TFM_OK, "1024 bytes %s",
              err.text);
        memset(large, ' ', 1021);
        CHECK(tfm_translate(s, large, single, sizeof single, &err) == TFM_OK && !*single,
              "spaces take no room");
        CHECK(c.calls == calls, "no allocation after the session is made");
        tfm_session_free(s);
        tfm_model_free(m);
        CHECK(c.live == 0, "all is freed");
        for (words = 0; words < 2; words++) {
            if (words) f.src_words = "<unk>\n<s>\n</s>\na\nb\nc\nd\ne\n";
            for (n = 1, m = NULL; !m; n++) {
                c.calls = 0, c.fail_at = n;
                m = load(f);
                clean &= m ? 1 : err.status == TFM_E_MEMORY && c.live == 0;
            }
            tfm_model_free(m);
            CHECK(clean && n > 20, "loading%s with each of %d allocations failing",
                  words ? " with a vocabulary" : "", n - 2);
        }
        c.fail_at = 0;
    }
}

/* ---- languages ---- */

/* A target's text is tokenized like a source's text, and also needs scratch. */
static void targets(void) {
    tfm_model *m;
    spm_file f;
    tfm_arena scratch = tfm_arena_make(test_memory(1 << 16), 1 << 16);
    int32_t ids[32], pairs[32], n = 0, i;
    SECTION("texts of targets");
    begin_file(), put_trainer(3, 1);
    f = plain_file(built, n_built, 8);
    f.config = ", \"src_text\": \"sentencepiece\", \"tgt_text\": \"sentencepiece\", "
               "\"start\": 1, \"end\": 2, \"src_end\": 2, \"src_unk\": 0, \"tgt_unk\": 0";
    m = load(f);
    if (!m) printf("%s\n", err.text), exit(2);
    must(tfm_model_tokenize_target(m, tfm_text_make("ab a", 4), TFM_TEXT_FORM_TEXT, ids, 32, &i,
                                   &scratch, &err));
    must(tfm_model_tokenize(m, tfm_text_make("ab a", 4), TFM_TEXT_FORM_TEXT, pairs, 32, &n,
                            &scratch, &err));
    CHECK(n == i + 1 && memcmp(ids, pairs, (size_t)i * 4) == 0,
          "target text is tokenized like source text, without the end");
    /* without scratch */
    must(tfm_model_tokenize_target(m, tfm_text_make("ab a", 4), TFM_TEXT_FORM_TEXT, NULL, 0, &n,
                                   NULL, &err));
    must(tfm_model_tokenize_target(m, tfm_text_make("ab a", 4), TFM_TEXT_FORM_TEXT, pairs, n, &n,
                                   NULL, &err));
    CHECK(n == i && memcmp(ids, pairs, (size_t)i * 4) == 0,
          "counted and tokenized with memory of the model's allocator");
    tfm_model_free(m);
}

static void languages(void) {
    static const char unk[] = " \xe2\x81\x87 ";
    char out[1024], first[1024];
    tfm_model *m;
    tfm_session *s;
    id_matrix batch;
    tfm_result r;
    spm_file f;
    int32_t ids[16], id = -1, running = 1;
    static const int32_t wanted[] = {8, 7, 4, 2}, source[] = {7, 2};
    SECTION("languages before the source");
    begin_file();
    f = plain_file(built, n_built, 12);
    f.config = ", \"src_text\": \"sentencepiece\", \"tgt_text\": \"sentencepiece\", \"start\": 1, "
               "\"end\": 2, \"src_end\": 2, \"src_language\": \"target\", \"languages\": "
               "{\"fra\": 8, \"deu\": 9, \"frr\": 10, \"zho_Hant\": 11}";
    m = load(f);
    if (!m) printf("%s\n", err.text), exit(2);
    IDS_ARE(m, "ab", 7, 4, 2);
    IDS_ARE(m, ">>fra<<ab", 8, 7, 4, 2);
    IDS_ARE(m, "  >>zho_Hant<<  ab", 11, 7, 4, 2);
    IDS_ARE(m, ">> fra<<", 6, 0, 6, 0, 3, 0, 2);
    CHECK(tokenize(m, ">>deu<<  ", 9, ids, 16, &id) == TFM_OK && id == 0, "a code alone is blank");
    CHECK_FAILS(tokenize(m, ">>fre<< ab", 10, ids, 16, &id), TFM_E_TOKEN,
                "no language 'fre'; near it: fra frr deu");
    CHECK_FAILS(tokenize(m, ">><<ab", 6, ids, 16, &id), TFM_E_TOKEN, "no language ''");
    s = tiny_session(m, 2, 8, 12);
    CHECK_FAILS(tfm_translate(s, "ab", out, sizeof out, &err), TFM_E_STATE,
                "call tfm_languages_set first");
    CHECK(tfm_translate(s, " ", out, sizeof out, &err) == TFM_OK && !*out,
          "blank text stays blank");
    CHECK(tfm_translate(s, ">>fra<<ab", first, sizeof first, &err) == TFM_OK, "%s", err.text);
    CHECK_FAILS(tfm_languages_set(s, NULL, "frankish and more than thirty-one bytes", &err),
                TFM_E_TOKEN, "near it");
    CHECK_FAILS(tfm_languages_set(s, NULL, NULL, &err), TFM_E_ARGUMENT, "target: the model needs");
    CHECK(tfm_languages_set(s, NULL, "fra", &err) == TFM_OK, "%s", err.text);
    CHECK(tfm_translate(s, "ab", out, sizeof out, &err) == TFM_OK && strcmp(out, first) == 0,
          "by the call and by the text: '%s'", out);
    CHECK(s->src.lengths[0] == 4 && memcmp(s->src.ids, wanted, sizeof wanted) == 0,
          "its token comes first");
    CHECK(tfm_translate(s, ">>deu<<ab", out, sizeof out, &err) == TFM_OK && s->src.ids[0] == 9,
          "a text's own language has priority over the session's");
    CHECK(tfm_language_find(m, "frr", &id, &err) == TFM_OK && id == 10, "tfm_language_find");
    tfm_session_free(s), tfm_model_free(m);

    SECTION("languages on both sides");
    f.config = ", \"src_text\": \"sentencepiece\", \"tgt_text\": \"sentencepiece\", \"start\": 1, "
               "\"end\": 2, \"src_end\": 2, \"src_language\": \"source\", \"tgt_language\": "
               "\"forced\", \"languages\": {\"fra\": 8, \"deu\": 5}";
    m = load(f);
    if (!m) printf("%s\n", err.text), exit(2);
    CHECK(strcmp(text_of(m, wanted, 4, TFM_TEXT_FORM_TEXT), "ab") == 0 &&
              strcmp(text_of(m, ids, 0, TFM_TEXT_FORM_TEXT), "") == 0,
          "language tokens give no text");
    s = tiny_session(m, 1, 8, 12);
    CHECK_FAILS(tfm_translate(s, "a", out, sizeof out, &err), TFM_E_STATE, "tfm_languages_set");
    CHECK_FAILS(tfm_languages_set(s, NULL, "fra", &err), TFM_E_ARGUMENT, "source: the model needs");
    CHECK_FAILS(tfm_languages_set(s, "fra", NULL, &err), TFM_E_ARGUMENT, "target: the model needs");
    CHECK(tfm_languages_set(s, "fra", "deu", &err) == TFM_OK &&
              tfm_translate(s, "a", out, sizeof out, &err) == TFM_OK && s->src.ids[0] == 8,
          "the source's token %s", err.text);
    CHECK(tfm_result_get(s, 0, 0, &r, &err) == TFM_OK && r.length > 0 && r.ids[0] == 5,
          "the target's token");
    CHECK(strncmp(out, "ab", 2) != 0 || r.ids[1] == 5, "is not in the text: '%s' %s", out, unk);
    batch = tiny_batch(source, NULL, 1, 2);
    CHECK(start_rows(s, &batch, NULL, NULL, &err) == TFM_OK &&
              tfm_session_step(s, &running, &err) == TFM_OK &&
              tfm_result_get(s, 0, 0, &r, &err) == TFM_OK && r.ids[0] == 5,
          "tfm_session_start forces it too");
    tfm_session_free(s), tfm_model_free(m);

    SECTION("faults of languages");
    f.config = ", \"src_language\": \"source\"";
    f.src = NULL;
    CHECK(!load(f) && strstr(err.text, "'languages' is missing"), "%s", err.text);
    f.config = ", \"languages\": [1]";
    CHECK(!load(f) && strstr(err.text, "'languages' is not an object"), "%s", err.text);
    f.config = ", \"languages\": {\"a\": \"b\"}";
    CHECK(!load(f) && strstr(err.text, "'languages' has no id for a"), "%s", err.text);
    f.config = ", \"languages\": {\"a\": 1, \"a\": 2}";
    CHECK(!load(f) && strstr(err.text, "'languages' has the duplicate code a"), "%s", err.text);
    f.config = ", \"languages\": {\"\": 1}";
    CHECK(!load(f) && strstr(err.text, "has a code that is empty"), "%s", err.text);
    f.config = ", \"languages\": {\"12345678901234567890123456789012\": 1}";
    CHECK(!load(f) && strstr(err.text, "over 31 bytes"), "%s", err.text);
    f.config = ", \"src_language\": \"target\", \"languages\": {\"a\": 12}";
    CHECK(!load(f) && strstr(err.text, "'languages' has 12 for a"), "%s", err.text);

    SECTION("the languages of a pair");
    f.config = ", \"source_language\": \"pt_BR\", \"target_language\": \"zh\"";
    m = load(f);
    CHECK(m && strcmp(tfm_model_config(m)->source_language, "pt_BR") == 0 &&
              strcmp(tfm_model_config(m)->target_language, "zh") == 0,
          "%s", err.text);
    tfm_model_free(m);
    f.config = "";
    m = load(f);
    CHECK(m && !tfm_model_config(m)->source_language && !tfm_model_config(m)->target_language,
          "they are unknown without a word");
    tfm_model_free(m);
    f.config = ", \"source_language\": \"\"";
    CHECK(!load(f) && strstr(err.text, "'source_language' is not the code of a language"), "%s",
          err.text);
    f.config = ", \"target_language\": 5";
    CHECK(!load(f) && strstr(err.text, "'target_language' is not the code of a language"), "%s",
          err.text);
    f.config = ", \"target_language\": \"12345678901234567890123456789012\"";
    CHECK(!load(f) && strstr(err.text, "at most 31 bytes"), "%s", err.text);
}

/* ---- large texts, large models ---- */

static void large(void) {
    int32_t *ids = (int32_t *)test_memory(4 * 3000010), count = 0, i, kind;
    char *text = (char *)test_memory(3000001);
    unsigned seed = 5;
    SECTION("large texts");
    for (kind = 1; kind <= 2; kind++) {
        tfm_model *m;
        begin_file(), put_trainer(3, (uint64_t)kind);
        m = load(plain_file(built, n_built, 8));
        if (!m) printf("%s\n", err.text), exit(2);
        memset(text, ' ', 1000000);
        CHECK(tokenize(m, text, 1000000, ids, 1, &count) == TFM_OK && count == 0,
              "a million spaces give no ids");
        memset(text, 'b', 1000000);
        CHECK(tokenize(m, text, 1000000, ids, 3000000, &count) == TFM_OK && count == 1000001,
              "a million letters without a space");
        for (i = 0; i < 1000000; i++) text[i] = "ab q"[tiny_random(&seed) & 3];
        count = 0;
        (void)tokenize(m, text, 1000000, ids, 3000000, &count);
        CHECK(count > 300000, "a million letters and spaces: %d ids", (int)count);
        tfm_model_free(m);
    }
    SECTION("large models");
    for (kind = 0; kind < 3; kind++) { /* the trie's size for many pieces of few bytes */
        static const char *const names[] = {"two bytes", "many children", "long chains"};
        test_allocator c;
        tfm_allocator a;
        tfm_model *m;
        spm_file f;
        int n = 8;
        memset(&c, 0, sizeof c);
        a.allocate = test_allocate, a.release = test_release, a.user = &c;
        begin_file();
        for (i = 0; i < 9000; i++, n++) {
            char piece[64];
            int k = kind == 0 ? i / 80 + 14 : kind == 1 ? i % 100 * 90 + i / 100 + 160 : i + 160;
            int size =
                (int)(tfm__utf8_put(piece, (uint32_t)(kind == 0 ? i % 80 + 0x100 : k)) - piece);
            size += (int)(tfm__utf8_put(piece + size, (uint32_t)(kind == 0 ? k + 0x20 : k + 77)) -
                          piece - size);
            if (kind == 2) memset(piece + size, 'c', 40), size += 40;
            put_piece_of(piece, (size_t)size, -1, 1);
        }
        f = plain_file(built, n_built, n);
        f.allocator = &a;
        m = load(f);
        CHECK(m && c.bytes < n_built * 100, "%s: %d kB of pieces take %d kB %s", names[kind],
              (int)(n_built / 1000), (int)(c.bytes / 1000), err.text);
        tfm_model_free(m);
    }
}

/* Damages large files, if they are there. compare_sentencepiece.py compares their ids. */
static void real_files(void) {
    static const char *const names[] = {"sentencepiece/bergamot_vocab.csen.spm",
                                        "sentencepiece/bergamot_vocab.deen.spm",
                                        "sentencepiece/google_test_model.model",
                                        "sentencepiece/mozilla_tests_vocab.spm",
                                        "sentencepiece/opennmt_sp.model",
                                        "opus-mt-en-mg/source.spm",
                                        "opus-mt-en-mg/target.spm"};
    unsigned seed = 3;
    size_t i;
    SECTION("large files");
    for (i = 0; i < sizeof names / sizeof *names; i++) {
        static unsigned char bytes[1 << 20];
        char path[128];
        FILE *stream;
        size_t n;
        int k, good = 0;
        snprintf(path, sizeof path, "../shared/real/%s", names[i]);
        stream = fopen(path, "rb");
        if (!stream) {
            char what[160];
            snprintf(what, sizeof what, "large files: no %s", path);
            test_skip(what);
            continue;
        }
        n = fread(bytes, 1, sizeof bytes, stream);
        fclose(stream);
        CHECK(read_file(bytes, n) == TFM_OK, "%s %s", names[i], err.text);
        for (k = 0; k < 40; k++) {
            size_t at = (size_t)tiny_random(&seed) % n;
            unsigned char was = bytes[at];
            bytes[at] = (unsigned char)tiny_random(&seed);
            good += read_file(bytes, n) == TFM_OK;
            bytes[at] = was;
        }
        CHECK(good <= 40, "  a byte changed 40 times: %d files are usable", good);
    }
}

/* The span of the text that each piece comes from, as the package reports it (encode(...,
   return_type="offset_mapping", return_bytes=True)). */
static void spans(void) {
    static const char text[] = "  h\xc3\xa9 l\xc5\x82o \xef\xbc\x99x\xf0\x9f\x91\x8d ";
    static const int32_t bytes[][2] = {{2, 3},   {3, 3},   {3, 5},   {5, 6},   {6, 7},   {7, 7},
                                       {7, 9},   {9, 10},  {10, 11}, {11, 11}, {11, 11}, {11, 14},
                                       {14, 15}, {15, 15}, {15, 15}, {15, 15}, {15, 19}};
    tfm_safetensors *file = test_open("sentencepiece.safetensors");
    tfm_tensor t = test_get(file, "unigram_bytes.model");
    tfm_model *m = load(plain_file(t.data, (size_t)t.dims[0], 420));
    tfm_session *s = tiny_session(m, 1, 32, 8);
    tfm_text source = {text, sizeof text - 1};
    tfm_span got[32];
    int32_t ids[32], again[32], count = 0, n = 0, i, same = 1;
    SECTION("spans of pieces");
    must(session_tokens(s, &source, TFM_TEXT_FORM_TEXT, ids, got, 32, &count, NULL, &err));
    must(tokenize(m, source.data, source.size, again, 32, &n));
    CHECK(count == 17 && n == count && memcmp(ids, again, 17 * sizeof *ids) == 0,
          "the ids are those of tfm_model_tokenize");
    for (i = 0; i < 17; i++) {
        same &= (int32_t)got[i].begin == bytes[i][0] && (int32_t)got[i].end == bytes[i][1];
        if (!same) printf("    %d: %d to %d\n", (int)i, (int)got[i].begin, (int)got[i].end), i = 17;
    }
    CHECK(same, "17 spans of bytes");
    source.data = "\xf0\x9f\x91\x8d\xf0\x9f\x91\x8d\xf0\x9f\x91\x8d\xf0\x9f\x91\x8d";
    source.size = 16;
    CHECK_FAILS(session_tokens(s, &source, TFM_TEXT_FORM_TEXT, ids, got, 16, &count, NULL, &err),
                TFM_E_TOO_LONG, "text has 17 tokens, there is room for 16");
    tfm_session_free(s), tfm_safetensors_free(file);
    s = tiny_session(m, 1, 1, 8);
    source.data = "a a a a a a a a a a a a a a a a a a a a a a a a a a a a a a", source.size = 59;
    CHECK_FAILS(session_tokens(s, &source, TFM_TEXT_FORM_TEXT, ids, got, 16, &count, NULL, &err),
                TFM_E_TOO_LONG, "text has 120 bytes after normalization, the session takes 64");
    tfm_session_free(s), tfm_model_free(m);
}

/* ---- tables of packed files ---- */

/* Returns n numbers in a file's byte order: the array itself, or a copy on a big-endian machine. */
static void *in_file(const void *numbers, int64_t n, unsigned char *room) {
    const unsigned one = 1;
    int64_t i;
    int k;
    if (*(const unsigned char *)&one) return (void *)(uintptr_t)numbers;
    for (i = 0; i < n; i++) {
        uint32_t number;
        memcpy(&number, (const char *)numbers + 4 * i, 4);
        for (k = 0; k < 4; k++) room[4 * i + k] = (unsigned char)(number >> 8 * k & 0xFF);
    }
    return room;
}

/* Reads the file in `built` with this order of its pieces. */
static tfm_status read_in_order(const int32_t *order, int64_t n, tfm__sentencepiece *p) {
    static unsigned char room[4 * 300];
    tfm__pool pool, temporary;
    tfm__text_reader r;
    tfm_status status;
    (void)tfm__choose_allocator(&pool.allocator, NULL, NULL);
    pool.blocks = NULL, temporary = pool;
    memset(&r, 0, sizeof r), memset(p, 0, sizeof *p);
    r.name = "tgt_sentencepiece", r.pool = &pool, r.temporary = &temporary, r.err = &err;
    r.order = tfm_tensor_1d(in_file(order, n, room), TFM_DTYPE_I32, n);
    err.text[0] = 0;
    status = tfm__spm_read(&r, p, built, (int64_t)n_built);
    tfm__pool_free(pool), tfm__pool_free(temporary);
    return status;
}

/* An order in a file must be refused unless it is the order of the pieces. */
static void orders(void) {
    int32_t order[] = {2, 1, 0, 3, 5, 4, 6, 7}; /* </s> <s> <unk> a ab b ... */
    tfm__sentencepiece p;
    int i, wrong = 0;
    SECTION("orders of packed files");
    begin_file();
    must(read_in_order(order, 8, &p));
    CHECK_FAILS(read_in_order(order, 7, &p), TFM_E_TENSOR, "tgt_sentencepiece_sorted");
    for (i = 0; i + 1 < 8; i++) {
        int32_t swap = order[i];
        order[i] = order[i + 1], order[i + 1] = swap;
        wrong += read_in_order(order, 8, &p) == TFM_OK || !strstr(err.text, "does not come next");
        swap = order[i], order[i] = order[i + 1], order[i + 1] = swap;
    }
    CHECK(!wrong, "  and 7 orders with two exchanged");
    for (i = 0; i < 8; i++) {
        int32_t kept = order[i];
        order[i] = i % 2 ? 8 : -1;
        wrong += read_in_order(order, 8, &p) == TFM_OK || !strstr(err.text, ", of 8");
        order[i] = kept;
    }
    CHECK(!wrong, "  and 8 with a number that is not one of a piece");
}

/* A packed file gives the bits of a plain one. */
static void packed(void) {
    static const char text[] = "ab aab xb a";
    tfm_tensor logits[2];
    int32_t plain[32], ids[32], n_plain = 0, n = 0;
    int is_packed;
    SECTION("a packed file");
    begin_file();
    for (is_packed = 0; is_packed < 2; is_packed++) {
        spm_file f = plain_file(built, n_built, 8);
        tfm_session *s;
        id_matrix batch;
        tfm_model *m;
        f.is_packed = is_packed;
        m = load(f);
        must(err.status);
        if (!is_packed) must(tokenize(m, text, sizeof text - 1, plain, 32, &n_plain));
        must(tokenize(m, text, sizeof text - 1, ids, 32, &n));
        CHECK(n == n_plain && memcmp(ids, plain, (size_t)n * sizeof *ids) == 0, "%d ids", (int)n);
        logits[is_packed] = test_like(tfm_tensor_3d(NULL, TFM_DTYPE_F32, 1, n, 8));
        batch = tiny_batch(ids, NULL, 1, n);
        s = tiny_session(m, 1, n, n);
        must(forward_rows(s, &batch, &batch, NULL, &logits[is_packed], &err));
        tfm_session_free(s), tfm_model_free(m);
    }
    CHECK(memcmp(logits[0].data, logits[1].data, (size_t)n * 8 * sizeof(float)) == 0,
          "  and the same bits");
}

int main(void) {
    golden();
    wire();
    charsmaps();
    spans();
    damaged();
    rare();
    files();
    sessions();
    targets();
    languages();
    large();
    real_files();
    orders();
    packed();
    return test_done("test_sentencepiece");
}
