/* Byte-level BPE: compares ids, spans and texts with the package tokenizers on small tokenizers
   (made by make_byte_bpe.py), and tests how model files use them and which files are refused.
   compare_byte_bpe.py compares large vocabularies and many scripts. */
#define TRANSFORMER_IMPLEMENTATION
#include "transformer.h"
#include "tiny.h"

#define BOTH ", \"src_text\": \"byte_bpe\", \"tgt_text\": \"byte_bpe\", \"start\": 0, \"end\": 2"
#define PREFIX BOTH ", \"prefix_space\": \"add\""

static tfm_safetensors *file;

static tfm_tensor get(const char *which, const char *part) {
    char name[64];
    snprintf(name, sizeof name, "%s.%s", which, part);
    return test_get(file, name);
}

static int64_t lines_in(tfm_tensor text) {
    int64_t i, n = 0;
    for (i = 0; i < text.dims[0]; i++) n += ((const char *)text.data)[i] == '\n';
    return n;
}

/* Fills the writer with a model that has these tensors for the source. Tensors without data are
   left out. */
static st_writer begin(const char *config, tfm_tensor vocabulary, tfm_tensor merges,
                       tfm_tensor added) {
    st_writer w;
    tiny t = tiny_default();
    t.config = config, t.d = 4, t.key = t.value = 2, t.ff = 4, t.encoder = t.decoder = 1;
    t.vs = t.vt = lines_in(vocabulary);
    tiny_write(&w, t);
    if (vocabulary.data) st_add(&w, "src_vocabulary", vocabulary);
    if (merges.data) st_add(&w, "src_merges", merges);
    if (added.data) st_add(&w, "src_added", added);
    return w;
}

static tfm_status load(st_writer w, tfm_model **model) {
    size_t size;
    void *data = tiny_bytes(&w, &size);
    return tfm_model_load(model, data, size, NULL, &err);
}

static tfm_model *golden_model(const char *which, const char *config) {
    tfm_model *m = NULL;
    must(load(begin(config, get(which, "vocabulary"), get(which, "merges"), get(which, "added")),
              &m));
    return m;
}

static int32_t end_of(const tfm_tensor *ends, int64_t i) {
    return i < 0 ? 0 : ((int32_t *)ends->data)[i];
}

/* Returns whether the ids decode to that text, in a buffer of exactly its size. */
static int decodes(const tfm_model *m, const int32_t *ids, int32_t n, const tfm_tensor *texts,
                   const tfm_tensor *ends, int64_t i) {
    const char *text = (const char *)texts->data + end_of(ends, i - 1);
    size_t size = (size_t)(end_of(ends, i) - end_of(ends, i - 1)), got = 0;
    char *out = (char *)malloc(size + 1);
    int same;
    if (!out) exit(2);
    must(tfm_model_detokenize(m, ids, n, TFM_TEXT_FORM_TEXT, out, size + 1, &got, &err));
    same = got == size && memcmp(out, text, size) == 0;
    free(out);
    return same;
}

static void golden(void) {
    static const char *const cases[] = {"plain", "prefix"};
    static char memory[1 << 16];
    tfm_tensor lines = test_get(file, "lines"), ends = test_get(file, "line_ends");
    int c;
    SECTION("ids, spans and texts are those of the package tokenizers");
    for (c = 0; c < 2; c++) {
        tfm_tensor ids = get(cases[c], "ids"), id_ends = get(cases[c], "id_ends");
        tfm_tensor spans = get(cases[c], "spans"), decoded = get(cases[c], "decoded");
        tfm_tensor decoded_ends = get(cases[c], "decoded_ends"), grown = get(cases[c], "grown");
        tfm_tensor grown_ends = get(cases[c], "grown_ends");
        tfm_model *m = golden_model(cases[c], c ? PREFIX : BOTH);
        tfm_session *s = tiny_session(m, 1, 512, 8);
        int64_t line, n_lines = test_count(&ends), k;
        int wrong = 0, wrong_spans = 0, all = 0;
        int32_t got[512], count, n = 0;
        for (line = 0; line < n_lines; line++) {
            const char *at = (const char *)lines.data + end_of(&ends, line - 1);
            tfm_text text;
            const int32_t *wanted = (int32_t *)ids.data + end_of(&id_ends, line - 1);
            const int32_t *span = (int32_t *)spans.data + 2 * end_of(&id_ends, line - 1);
            tfm_arena arena = tfm_arena_make(memory, sizeof memory);
            tfm_span parts[512];
            int ok;
            text.data = at, text.size = (size_t)(end_of(&ends, line) - end_of(&ends, line - 1));
            n = end_of(&id_ends, line) - end_of(&id_ends, line - 1);
            must(tfm_model_tokenize(m, tfm_text_make(at, text.size), TFM_TEXT_FORM_TEXT, got, 512,
                                    &count, &arena, &err));
            ok = count == n && memcmp(got, wanted, (size_t)n * 4) == 0;
            ok &= decodes(m, wanted, n, &decoded, &decoded_ends, line);
            must(session_tokens(s, &text, TFM_TEXT_FORM_TEXT, got, parts, 512, &count, NULL, &err));
            for (k = 0; !c && k < n && count == n; k++)
                wrong_spans += (int32_t)parts[k].begin != span[2 * k] ||
                               (int32_t)parts[k].end != span[2 * k + 1];
            if (!ok) printf("    line %d of %s\n", (int)line, cases[c]);
            wrong += !ok, all += n;
        }
        CHECK(wrong == 0 && wrong_spans == 0, "%s: %d lines, %d ids", cases[c], (int)n_lines, all);
        for (wrong = 0, k = 0; k <= n; k++) /* prefixes of the last line's ids */
            wrong += !decodes(m, (int32_t *)ids.data + end_of(&id_ends, n_lines - 2), (int32_t)k,
                              &grown, &grown_ends, k);
        CHECK(wrong == 0, "  %d prefixes of a line's ids, with partial characters", n + 1);
        tfm_session_free(s), tfm_model_free(m);
    }
}

static void classes(void) {
    tfm_tensor runs = test_get(file, "classes");
    tfm_model *m = golden_model("plain", BOTH);
    int64_t i = -1, n = runs.dims[0];
    uint32_t c;
    int wrong = 0, kind, bytes;
    char text[4];
    SECTION("classes of characters");
    for (c = 0; c < 0x110000; c++) {
        const uint32_t *run = (const uint32_t *)runs.data;
        size_t size = (size_t)(tfm__utf8_put(text, c) - text);
        while (i + 1 < n && run[i + 1] >> 2 <= c) i++;
        if (c >= 0xD800 && c < 0xE000) continue;
        kind = tfm__class_at(m->source.bpe, text, size, 0, &bytes);
        wrong += (kind == TFM__CLASS_SPACE ? 3 : kind) != (int)(run[i] & 3) || bytes != (int)size;
    }
    CHECK(wrong == 0, "every character has the class that tokenizers gives it");
    tfm_model_free(m);
}

static tfm_tensor lines_of(const char *text) {
    return tfm_tensor_1d((void *)text, TFM_DTYPE_U8, (int64_t)strlen(text));
}
static tfm_tensor rows_of(const uint32_t *rows, int64_t n, int64_t columns) {
    return tfm_tensor_2d((void *)rows, TFM_DTYPE_U32, n, columns);
}

#define SMALL "<s>\n<pad>\n</s>\n<unk>\na\nb\nab\nabb\nba\n<x>\n" /* 4 a, 5 b, 6 ab, 7 abb, 8 ba */

static void refused(void) {
    static const uint32_t good[] = {4, 5, 6, 6, 5, 7}, one[] = {9, 5};
    static const struct {
        uint32_t merges[6], added[4];
        int64_t n, n_added;
        tfm_status status;
        const char *says;
    } rows[] = {
        {{4, 5, 6, 6, 5, 10}, {0}, 2, 0, TFM_E_TENSOR, "src_merges, row 1: token 10, the vocab"},
        {{4, 4000000000u, 6}, {0}, 1, 0, TFM_E_TENSOR, "row 0: token 4000000000"},
        {{4, 5, 6, 4, 5, 6}, {0}, 2, 0, TFM_E_TENSOR, "src_merges: rows 0 and 1 merge the same"},
        {{4, 5, 8}, {0}, 1, 0, TFM_E_TENSOR, "row 0: the third token is not spelled"},
        {{4, 5, 7}, {0}, 1, 0, TFM_E_TENSOR, "row 0: the third token is not spelled"},
        {{4, 7, 6}, {0}, 1, 0, TFM_E_TENSOR, "row 0: the third token is not spelled"},
        {{4, 5, 6}, {10, 0}, 1, 1, TFM_E_TENSOR, "src_added, row 0 is 10, 0"},
        {{4, 5, 6}, {9, 32}, 1, 1, TFM_E_TENSOR, "src_added, row 0 is 9, 32"},
        {{4, 5, 6}, {9, 1, 9, 1}, 1, 2, TFM_E_TENSOR, "src_added, row 1 is 9, 1"}};
    static const char *const configs[] = {", \"src_text\": \"byte_bpe\"",
                                          ", \"tgt_text\": \"byte_bpe\"", "", BOTH};
    tfm_tensor none, merges = rows_of(good, 2, 3), added = rows_of(one, 1, 2);
    tfm_model *m = NULL;
    st_writer w;
    size_t i;
    SECTION("refused files");
    memset(&none, 0, sizeof none);
    for (i = 0; i < sizeof rows / sizeof *rows; i++) {
        tfm_tensor more = rows[i].n_added ? rows_of(rows[i].added, rows[i].n_added, 2) : none;
        CHECK_FAILS(
            load(begin(BOTH, lines_of(SMALL), rows_of(rows[i].merges, rows[i].n, 3), more), &m),
            rows[i].status, rows[i].says);
    }
    CHECK_FAILS(load(begin(BOTH, lines_of(SMALL), none, none), &m), TFM_E_TENSOR,
                "tensor 'src_merges' is missing");
    CHECK_FAILS(load(begin(BOTH, lines_of(SMALL), rows_of(good, 3, 2), none), &m), TFM_E_TENSOR,
                "expected [n, 3]");
    CHECK_FAILS(load(begin(BOTH, lines_of(SMALL), merges, rows_of(good, 1, 3)), &m), TFM_E_TENSOR,
                "src_added is [1, 3], expected [n, 2]");
    CHECK_FAILS(
        load(begin(BOTH, lines_of(SMALL), tfm_tensor_1d(merges.data, TFM_DTYPE_U8, 24), none), &m),
        TFM_E_TENSOR, "expected U32 of rank 2");
    CHECK_FAILS(load(begin(configs[2], lines_of(SMALL), merges, none), &m), TFM_E_CONFIG,
                "'src_text' is words, but tensor 'src_merges' is there");
    CHECK_FAILS(load(begin(configs[2], lines_of(SMALL), none, added), &m), TFM_E_CONFIG,
                "tensor 'src_added' is there");
    w = begin(configs[1], lines_of(SMALL), none, none);
    CHECK_FAILS(load(w, &m), TFM_E_TENSOR, "tensor 'tgt_vocabulary' is missing");
    w = begin(BOTH, lines_of(SMALL), merges, none);
    st_add(&w, "tgt_vocabulary", lines_of(SMALL));
    CHECK_FAILS(load(w, &m), TFM_E_TENSOR, "tensor 'tgt_merges' is missing");
    w = begin(BOTH, lines_of(SMALL), merges, none);
    st_add(&w, "tgt_merges", merges);
    CHECK_FAILS(load(w, &m), TFM_E_TENSOR, "tensor 'tgt_vocabulary' is missing");
    w = begin(BOTH ", \"prefix_space\": \"yes\"", lines_of(SMALL), merges, none);
    CHECK_FAILS(load(w, &m), TFM_E_CONFIG, "prefix_space");
}

/* Returns the ids of a text, as "4 5". Each error has its own text. */
static const char *ids_of(const tfm_model *m, int target, const char *text) {
    static char out[512], memory[1 << 14];
    tfm_arena arena = tfm_arena_make(memory, sizeof memory);
    int32_t ids[64], count = 0, i;
    size_t n = 0;
    tfm_status status = (target ? tfm_model_tokenize_target : tfm_model_tokenize)(
        m, tfm_text_make(text, strlen(text)), TFM_TEXT_FORM_TEXT, ids, 64, &count, &arena, &err);
    if (status != TFM_OK) return err.text;
    out[0] = 0;
    for (i = 0; i < count; i++)
        n += (size_t)snprintf(out + n, sizeof out - n, "%s%d", i ? " " : "", (int)ids[i]);
    return out;
}

static void is(const char *got, const char *wanted) { CHECK(strcmp(got, wanted) == 0, "%s", got); }

/* Makes a model whose target has its own merges. */
static tfm_model *with_target(const char *config, tfm_tensor merges, tfm_tensor more) {
    tfm_tensor none;
    tfm_model *m = NULL;
    st_writer w;
    memset(&none, 0, sizeof none);
    w = begin(config, lines_of(SMALL), merges, none);
    st_add(&w, "tgt_vocabulary", lines_of(SMALL));
    st_add(&w, "tgt_merges", more);
    must(load(w, &m));
    return m;
}

static void small(void) {
    static const uint32_t good[] = {4, 5, 6, 6, 5, 7}, other[] = {5, 4, 8}, any[] = {9, 0};
    static const uint32_t flags[] = {9, 7}, word[] = {9, 8}, normalized[] = {9, 24};
    tfm_tensor merges = rows_of(good, 2, 3), more = rows_of(other, 1, 3), none;
    tfm_model *m;
    char text[64];
    int32_t ids[] = {4, 9, 5, 0, 2, 7};
    size_t size;
    SECTION("missing bytes, added tokens, a target with its own merges");
    memset(&none, 0, sizeof none);
    must(load(begin(BOTH ", \"src_unk\": 3", lines_of(SMALL), merges, rows_of(any, 1, 2)), &m));
    is(ids_of(m, 0, "abba"), "7 4");
    is(ids_of(m, 0, "acb\xC3\xA9"), "4 3 5 3 3");
    is(ids_of(m, 0, "a<x>b<x"), "4 9 5 3 3");
    is(ids_of(m, 1, "ab"), "6");
    must(tfm_model_detokenize(m, ids, 6, TFM_TEXT_FORM_TEXT, text, sizeof text, &size, &err));
    is(text, "a<x>babb");
    tfm_model_free(m);
    must(load(begin(PREFIX, lines_of(SMALL), merges, rows_of(flags, 1, 2)), &m));
    is(ids_of(m, 0, "<x> \t <x>"), "9 9");
    is(ids_of(m, 0, "a"),
       "\"a\" at byte 0 is not in src_vocabulary. Change the text, or set src_unk in the "
       "model's config: the id of unknown tokens");
    must(tfm_model_detokenize(m, ids, 6, TFM_TEXT_FORM_TEXT, text, sizeof text, &size, &err));
    is(text, "ababb");
    tfm_model_free(m);
    /* A single_word token has no letter or digit next to it; id 3 is an unknown character. */
    must(load(begin(BOTH ", \"src_unk\": 3", lines_of(SMALL), merges, rows_of(word, 1, 2)), &m));
    is(ids_of(m, 0, "<x>"), "9");
    is(ids_of(m, 0, "a<x>"), "4 3 3 3");
    is(ids_of(m, 0, "<x>b"), "3 3 3 5");
    is(ids_of(m, 0, "\xC3\xA9<x>"), "3 3 3 3 3");
    is(ids_of(m, 0, "?<x>.<x>"), "3 9 3 9");
    tfm_model_free(m);
    must(load(begin(BOTH ", \"src_unk\": 3", lines_of(SMALL), merges, rows_of(normalized, 1, 2)),
              &m));
    is(ids_of(m, 0, "ab<x>"), "6 3 3 3");
    is(ids_of(m, 0, "?<x>?"), "3 9 3");
    tfm_model_free(m);
    m = with_target(BOTH, merges, more);
    is(ids_of(m, 0, "abba"), "7 4");
    is(ids_of(m, 1, "abba"), "4 5 8");
    tfm_model_free(m);
    m = with_target(", \"tgt_text\": \"byte_bpe\"", none, more);
    is(ids_of(m, 0, "a ab"), "4 6");
    is(ids_of(m, 1, "bab"), "8 5");
    tfm_model_free(m);
    must(load(begin(BOTH, lines_of(SMALL), tfm_tensor_2d((void *)good, TFM_DTYPE_U32, 0, 3), none),
              &m));
    is(ids_of(m, 0, "ab"), "4 5");
    tfm_model_free(m);
}

int main(void) {
    file = test_open("byte_bpe.safetensors");
    golden();
    classes();
    refused();
    small();
    tfm_safetensors_free(file);
    return test_done("test_byte_bpe");
}
