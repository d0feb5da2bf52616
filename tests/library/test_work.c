/* Work on texts, counted in steps (TFM__COUNT_TEXT), not in seconds: for every tokenizer, for
   decoding ids, and for reading vocabularies and pieces, with the worst known files and texts. Work
   must grow in proportion to the text, at worst times the longest piece. */
#define TRANSFORMER_IMPLEMENTATION
#include "transformer.h"
#include "tiny.h"
#include "spm_file.h"

#define SMALL 4000
#define LARGE (4 * SMALL)
static char text[LARGE + 1];
static int32_t ids[4 * LARGE], n_ids;

/* Fills the text with copies of part. */
static void fill(const char *part) {
    size_t n = strlen(part), i;
    for (i = 0; i < LARGE; i++) text[i] = part[i % n];
}

/* Copies a text with its final 0, and returns its length. */
static size_t put(char *to, const char *from) {
    size_t n = strlen(from);
    memcpy(to, from, n + 1);
    return n;
}

static void *scratch_memory(size_t bytes) {
    static void *memory;
    static size_t room;
    if (bytes > room) memory = test_memory(room = bytes);
    return memory;
}

/* Counts the steps that turn the first n bytes into ids. */
static double cut(const tfm_model *m, int target, tfm_text_form form, size_t n) {
    tfm_arena arena = tfm_arena_measuring();
    int pass;
    for (pass = 0; pass < 2; pass++) {
        test_hooks.text_steps = 0;
        must((target ? tfm_model_tokenize_target : tfm_model_tokenize)(
            m, tfm_text_make(text, n), form, ids, 4 * LARGE, &n_ids, &arena, &err));
        if (!pass) arena = tfm_arena_make(scratch_memory(arena.peak), arena.peak);
    }
    return (double)test_hooks.text_steps;
}

static double written(const tfm_model *m, int32_t n, tfm_text_form form) {
    static char out[64 * LARGE];
    size_t size;
    test_hooks.text_steps = 0;
    must(tfm_model_detokenize(m, ids, n, form, out, sizeof out, &size, &err));
    return (double)test_hooks.text_steps;
}

/* Four times the size may take at most five times the work (four, plus what a heap or a bisection
   adds), and no byte may take more than most steps. */
static void grows(const char *what, double small, double large, double most) {
    CHECK(small > 0 && large <= 5 * small && large <= most * LARGE,
          "%s: %.1f and %.1f steps a byte, at most %.0f", what, small / SMALL, large / LARGE, most);
}
static void cuts(const char *what, const tfm_model *m, int target, double most) {
    double small = cut(m, target, TFM_TEXT_FORM_TEXT, SMALL);
    grows(what, small, cut(m, target, TFM_TEXT_FORM_TEXT, LARGE), most);
}

/* Makes a model with these vocabularies, a line each. */
static tfm_model *words_model(const char *src, const char *tgt, const char *config) {
    static char whole[65536];
    tiny t = tiny_default();
    const char *at;
    snprintf(whole, sizeof whole, ", \"start\": 1, \"end\": 2, \"src_unk\": 3, \"tgt_unk\": 3%s",
             config);
    t.src = src, t.tgt = tgt, t.config = whole, t.vs = t.vt = 0;
    t.d = 4, t.key = t.value = 2, t.ff = 4, t.encoder = t.decoder = 1;
    for (at = src; *at; at++) t.vs += *at == '\n';
    for (at = tgt; *at; at++) t.vt += *at == '\n';
    return tiny_model(t);
}

#define IDS "<pad>\n<s>\n</s>\n<unk>\n"
#define LETTERS IDS "a\nb\nc\n" SPACE "\n"

static void words(void) {
    char *many = (char *)test_memory(1 << 20);
    tfm_model *m;
    size_t at;
    int i;
    SECTION("words and characters");
    m = words_model(LETTERS, LETTERS, "");
    fill("a b  "), cuts("words", m, 0, 60), cuts("words of the target", m, 1, 60);
    fill(" "), cuts("spaces", m, 0, 60);
    fill("a"), cuts("one word", m, 0, 60);
    fill(">>aa"), cuts("no label", m, 0, 60);
    tfm_model_free(m);
    m = words_model(LETTERS, LETTERS,
                    ", \"src_text\": \"characters\", \"tgt_text\": \"characters\"");
    fill("ab  "), cuts("characters", m, 0, 60), cuts("characters of the target", m, 1, 60);
    tfm_model_free(m);
    /* spellings that begin like the word, up to its end */
    at = put(many, IDS);
    for (i = 1; i <= 16; i++) {
        memset(many + at, 'a', (size_t)(LARGE + i)), at += (size_t)(LARGE + i);
        many[at++] = '\n';
    }
    many[at] = 0;
    m = words_model(many, LETTERS, "");
    fill("a"), cuts("one word, and 16 longer ones", m, 0, 60);
    fill("aa "), cuts("words, and 16 long ones", m, 0, 60);
    tfm_model_free(m);
}

/* Makes a vocabulary of powers of a, each twice as long as the one before, from length first on;
   the longest come first. */
static void pieces(void) {
    enum { HUGE_PIECE = 200000 };
    char *many = (char *)test_memory(1 << 20);
    tfm_model *m;
    double small, large;
    size_t at = put(many, LETTERS), n;
    SECTION("pieces without SentencePiece");
    for (n = 2; n <= 256; n *= 2) {
        memset(many + at, 'a', n), at += n;
        many[at++] = '\n';
    }
    many[at] = 0;
    m = words_model(LETTERS, many, ", \"tgt_text\": \"pieces\"");
    fill("a"), cuts("powers of a", m, 1, 60);
    fill("abca bc "), cuts("a text", m, 1, 400);
    fill("z"), cuts("an unknown word", m, 1, 60);
    for (n = 0; n < LARGE; n++) text[n] = n % 256 == 255 ? 'b' : 'a';
    cuts("255 of 256 letters of a piece", m, 1, 60);
    fill("aaaz"), cuts("letters and unknown ones", m, 1, 60);
    tfm_model_free(m);
    at = put(many, LETTERS);
    memset(many + at, 'a', HUGE_PIECE), at += HUGE_PIECE;
    many[at++] = '\n', many[at] = 0;
    m = words_model(LETTERS, many, ", \"tgt_text\": \"pieces\"");
    fill("a");
    small = cut(m, 1, TFM_TEXT_FORM_TEXT, 500), large = cut(m, 1, TFM_TEXT_FORM_TEXT, 2000);
    CHECK(small <= 8 * 500. * 500 && large <= 8 * 2000. * 2000,
          "a piece of 200,000 letters and texts of 500 and 2000: %.1f, %.1f steps a byte and byte",
          small / 500 / 500, large / 2000 / 2000);
    tfm_model_free(m);
}

static tfm_model *spm_model(int n_pieces, const char *config) {
    static char whole[512];
    st_writer w;
    tiny t = tiny_default();
    snprintf(whole, sizeof whole,
             ", \"start\": 1, \"end\": 2, \"src_text\": \"sentencepiece\", \"tgt_text\": "
             "\"sentencepiece\"%s",
             config);
    t.config = whole, t.vs = t.vt = n_pieces;
    t.d = 4, t.key = t.value = 2, t.ff = 4, t.encoder = t.decoder = 1;
    tiny_write(&w, t);
    st_add(&w, "src_sentencepiece", tfm_tensor_1d(built, TFM_DTYPE_U8, (int64_t)n_built));
    return tiny_load(&w, NULL);
}

/* Adds begin_file's eight pieces, and powers of a up to 128 letters, for a type of model. */
static int put_powers(unsigned type, float score) {
    static char letters[128];
    int n = 8, k;
    memset(letters, 'a', sizeof letters);
    for (k = 2; k <= 128; k *= 2, n++) put_piece_of(letters, (size_t)k, score * (float)n, type);
    return n;
}

static void sentencepiece(void) {
    /* 'b' is its own child, so the trie is a cycle: with a rule at each node, and with none */
    static const unit_row rules[] = {{0, 0}, {98, 98 | 1 << 8 | 98u << 10}};
    static const unit_row ring[] = {{0, 0}, {98, 98 | 98u << 10}};
    static char large[1024], out[64];
    tfm_model *m;
    size_t i;
    double most;
    int bpe, n, k;
    SECTION("SentencePiece");
    memset(large, 'c', sizeof large - 1);
    for (bpe = 0; bpe < 2; bpe++) {
        snprintf(out, sizeof out, "%s:", bpe ? "BPE" : "unigram");
        SECTION(out);
        begin_file(), put_trainer(3, (uint64_t)bpe + 1);
        m = spm_model(put_powers(1, bpe ? 1.0f : -1.0f), "");
        fill("a"), cuts("powers of a", m, 0, 600), cuts("as a target", m, 1, 600);
        fill("ab  "), cuts("a text", m, 0, 200);
        fill(" "), cuts("spaces", m, 0, 60);
        fill("z"), cuts("unknown letters", m, 0, 60);
        for (i = 0; i < LARGE; i++) text[i] = i % 128 == 127 ? 'b' : 'a';
        cuts("127 of 128 letters of a piece", m, 0, 600);
        tfm_model_free(m);
        begin_file(), put_trainer(3, (uint64_t)bpe + 1);
        m = spm_model(put_powers(1, bpe ? -1.0f : 1e30f), "");
        fill("a"), cuts("scores that are taken down, or merges from the left", m, 0, 600);
        tfm_model_free(m);
        begin_file(), put_trainer(3, (uint64_t)bpe + 1);
        m = spm_model(put_powers(4, 0), "");
        fill("aab"), cuts("user-defined ones", m, 0, 600);
        tfm_model_free(m);
        begin_file(), put_trainer(3, (uint64_t)bpe + 1);
        m = spm_model(put_powers(5, 1), "");
        fill("a"), cuts("unused pieces, which are split", m, 0, 900);
        tfm_model_free(m);
        begin_file(), put_trainer(3, (uint64_t)bpe + 1);
        put_charsmap(ring, 2, "", 1);
        m = spm_model(8, "");
        fill("b"), cuts("rules in a cycle", m, 0, 3000);
        tfm_model_free(m);
        begin_file(), put_trainer(3, (uint64_t)bpe + 1);
        put_charsmap(rules, 2, "", 1);
        m = spm_model(8, "");
        fill("b"), cuts("rules that remove 32 bytes", m, 0, 60);
        tfm_model_free(m);
        begin_file(), put_trainer(3, (uint64_t)bpe + 1);
        put_charsmap(rules, 2, large, sizeof large);
        m = spm_model(8, "");
        fill("b"), cuts("rules that turn 32 bytes into 1023", m, 0, 60 * 32);
        tfm_model_free(m);
    }
    /* pieces of 7999 bytes, the longest allowed: the text repeats a piece without its last
       letter */
    begin_file();
    for (n = 8, k = 1000; k < 8000; k += 1000, n++) {
        memset(text, 'a', LARGE);
        put_piece_of(text, (size_t)k + 999, -1, 1);
    }
    m = spm_model(n, "");
    fill("a"), most = cut(m, 0, TFM_TEXT_FORM_TEXT, LARGE);
    CHECK(most <= 2. * 7999 * LARGE, "unigram, and pieces of up to 7999 letters: %.1f steps a byte",
          most / LARGE);
    tfm_model_free(m);
}

/* Tests ids to text. */
static void writing(void) {
    static const unit_row ring[] = {{0, 0}, {98, 98 | 98u << 10}};
    static char config[65536];
    tfm_model *m, *many;
    double small;
    size_t at;
    int i;
    SECTION("ids to text");
    m = words_model(LETTERS, LETTERS, "");
    for (i = 0; i < LARGE; i++) ids[i] = 4 + i % 3;
    small = written(m, SMALL, TFM_TEXT_FORM_TEXT);
    grows("words", small, written(m, LARGE, TFM_TEXT_FORM_TEXT), 60);
    small = written(m, SMALL, TFM_TEXT_FORM_TOKENS);
    grows("tokens", small, written(m, LARGE, TFM_TEXT_FORM_TOKENS), 60);
    at = (size_t)sprintf(config, ", \"tgt_language\": \"forced\", \"languages\": {\"a\": 6");
    for (i = 0; i < 2000; i++)
        at += (size_t)snprintf(config + at, sizeof config - at, ", \"l%d\": 6", i);
    (void)snprintf(config + at, sizeof config - at, "}");
    many = words_model(LETTERS, LETTERS, config);
    small = written(m, LARGE, TFM_TEXT_FORM_TEXT);
    CHECK(written(many, LARGE, TFM_TEXT_FORM_TEXT) <= small,
          "2001 languages add no work to a token");
    tfm_model_free(m), tfm_model_free(many);
    begin_file(), put_rules(5, ring, 2, "a", 2);
    m = spm_model(8, "");
    for (i = 0; i < LARGE; i++) ids[i] = 4;
    small = written(m, SMALL, TFM_TEXT_FORM_TEXT);
    grows("rules in a cycle", small, written(m, LARGE, TFM_TEXT_FORM_TEXT), 7000);
    for (i = 0; i < LARGE; i++) ids[i] = i < 1000 ? 4 : 1; /* b, and then tokens without text */
    small = written(m, SMALL, TFM_TEXT_FORM_TEXT);
    grows("  and control pieces behind them", small, written(m, LARGE, TFM_TEXT_FORM_TEXT), 7000);
    tfm_model_free(m);
}

/* With clean_up, a longer hypothesis has a longer text, and its tokens need no more work each. */
static void cleaned(void) {
    static const char tokens[] = "<pad>\n<s>\n</s>\n<unk>\n\xe2\x96\x81\n'\nx\n.\ns\nn't\n";
    tfm_model *m =
        words_model(tokens, tokens, ", \"tgt_text\": \"pieces\", \"clean_up\": \"spaces\"");
    static char texts[2][4 * SMALL];
    size_t size[2] = {0, 0};
    double small;
    int32_t i;
    int same = 1;
    for (i = 0; i < LARGE; i++) ids[i] = 4 + (int32_t)((uint32_t)i * 2654435761u >> 16) % 6;
    for (i = 1; i < SMALL && same; i++) {
        tfm__target_ids target = {ids, i, TFM_TEXT_FORM_TEXT, 1};
        size[i % 2] = tfm__join(&m->target, &target, texts[i % 2]);
        same = size[i % 2] >= size[!(i % 2)] && !memcmp(texts[0], texts[1], size[!(i % 2)]);
    }
    CHECK(same && i == SMALL, "%d tokens: the text changed what it had", (int)i);
    small = written(m, SMALL, TFM_TEXT_FORM_TEXT);
    grows("clean_up", small, written(m, LARGE, TFM_TEXT_FORM_TEXT), 300);
    tfm_model_free(m);
}

/* Counts the steps of loading n lines or pieces that share a beginning of so many letters. */
static double loaded(int n, int letters, int spm) {
    char *lines = (char *)test_memory((size_t)n * (size_t)(letters + 16) + 64), *at = lines;
    tfm_model *m;
    int i;
    memcpy(at, IDS, sizeof IDS - 1), at += sizeof IDS - 1;
    begin_file();
    for (i = 0; i < n; i++) {
        char *begin = at;
        memset(at, 'x', (size_t)letters), at += letters;
        at += sprintf(at, "%d", i * 7919 % n);
        if (spm) put_piece_of(begin, (size_t)(at - begin), -1, 1);
        *at++ = '\n';
    }
    *at = 0;
    test_hooks.text_steps = 0;
    m = spm ? spm_model(n + 8, "") : words_model(lines, LETTERS, "");
    tfm_model_free(m);
    return (double)test_hooks.text_steps;
}
static void loading(void) {
    int spm;
    for (spm = 0; spm < 2; spm++) {
        double small = loaded(100, 200, spm), more = loaded(400, 200, spm);
        double longer = loaded(100, 800, spm);
        SECTION(spm ? "reading pieces" : "reading vocabularies");
        CHECK(small > 0 && more <= 6 * small && longer <= 5 * small,
              "%.0f steps; 4 times as many lines: %.0f; 4 times as long: %.0f", small, more,
              longer);
    }
}

/* Makes a model of byte-level BPE from these lines and from powers of a up to 128 letters, with
   merges of all pairs that give one. flags are those of the token <x> in line 4. */
static void byte_bpe_file(st_writer *w, const char *lines, uint32_t flags) {
    static char vocabulary[16384];
    static unsigned char merges[12 * 9000], added[8] = {4};
    tiny t = tiny_default();
    size_t n = (size_t)sprintf(vocabulary, IDS "<x>\n%s", lines);
    uint32_t first = 0, i, k, rows = 0;
    for (i = 0; i < n; i++) first += vocabulary[i] == '\n';
    for (i = 1; i <= 128; i++, vocabulary[n++] = '\n') memset(vocabulary + n, 'a', i), n += i;
    for (i = 1; i < 128; i++)
        for (k = 1; i + k <= 128; k++, rows++) {
            merges[12 * rows] = (unsigned char)(first + i - 1); /* little-endian */
            merges[12 * rows + 4] = (unsigned char)(first + k - 1);
            merges[12 * rows + 8] = (unsigned char)(first + i + k - 1);
        }
    added[4] = (unsigned char)flags;
    t.config = ", \"start\": 1, \"end\": 2, \"src_unk\": 3, \"tgt_unk\": 3, \"src_text\": "
               "\"byte_bpe\", \"tgt_text\": \"byte_bpe\", \"prefix_space\": \"add\"";
    t.vs = t.vt = first + 128, t.d = 4, t.key = t.value = 2, t.ff = 4, t.encoder = t.decoder = 1;
    tiny_write(w, t);
    st_add(w, "src_vocabulary", tfm_tensor_1d(vocabulary, TFM_DTYPE_U8, (int64_t)n));
    st_add(w, "src_merges", tfm_tensor_2d(merges, TFM_DTYPE_U32, rows, 3));
    st_add(w, "src_added", tfm_tensor_2d(added, TFM_DTYPE_U32, 1, 2));
}

static void byte_bpe(void) {
    static const char *const texts[] = {"a",    "ab",   " ",   "'",     "a ",      "\xc3\xa9",
                                        "'s'l", " a1!", "<x>", "  <x>", " \t<x> ", "<<x"};
    tfm_model *m;
    st_writer w;
    size_t i, size;
    void *data;
    double small;
    SECTION("byte-level BPE");
    for (i = 0; i < 2 * (sizeof texts / sizeof *texts); i++) {
        byte_bpe_file(&w, "b\n", i & 1 ? 3 : 0);
        data = tiny_bytes(&w, &size);
        test_hooks.text_steps = 0;
        must(tfm_model_load(&m, data, size, NULL, &err));
        if (!i)
            CHECK((double)test_hooks.text_steps < 40. * (double)size,
                  "8128 merges: %.1f steps a byte of the file",
                  (double)test_hooks.text_steps / (double)size);
        fill(texts[i / 2]);
        cuts(texts[i / 2], m, 0, 100);
        (void)cut(m, 0, TFM_TEXT_FORM_TEXT, SMALL), small = written(m, n_ids, TFM_TEXT_FORM_TEXT);
        (void)cut(m, 0, TFM_TEXT_FORM_TEXT, LARGE);
        grows("  and back", small, written(m, n_ids, TFM_TEXT_FORM_TEXT), 60);
        tfm_model_free(m);
    }
}

static int compare_numbers(const void *a, const void *b) {
    unsigned x = *(const unsigned *)a, y = *(const unsigned *)b;
    test_hooks.text_steps++;
    return x < y ? -1 : x > y;
}
static int compare_for_qsort(const void *a, const void *b) {
    return compare_numbers(*(void *const *)a, *(void *const *)b);
}

/* The sort must give the order of libc's qsort with few comparisons, because texts are slow to
   compare. */
static void sorting(void) {
    enum { MOST = 5000 };
    static unsigned numbers[MOST];
    static void *items[MOST], *expected[MOST];
    unsigned seed = 1;
    int order, n, i, same = 1, log2 = 0;
    double most = 0;
    SECTION("sorting");
    for (order = 0; order < 4; order++) /* random, few different ones, ascending, descending */
        for (n = 0, log2 = 0; n <= MOST; n = n < 40 ? n + 1 : 5 * n / 2) {
            while (1 << log2 < n) log2++;
            for (i = 0; i < n; i++) {
                numbers[i] = order == 0   ? tiny_random(&seed)
                             : order == 1 ? tiny_random(&seed) % 5
                                          : (unsigned)(order == 2 ? i : n - i);
                items[i] = expected[i] = numbers + i;
            }
            qsort(expected, (size_t)n, sizeof *expected, compare_for_qsort);
            test_hooks.text_steps = 0;
            tfm__sort(items, n, compare_numbers);
            if (n > 40)
                most = (double)test_hooks.text_steps / n - log2 > most
                           ? (double)test_hooks.text_steps / n - log2
                           : most;
            for (i = 0; i < n; i++)
                same = same && *(unsigned *)items[i] == *(unsigned *)expected[i];
        }
    CHECK(same, "the order of qsort");
    CHECK(most < 3, "at most %.2f more than log2 n comparisons an item", most);
}

int main(void) {
    test_hooks.count = 1;
    sorting();
    words();
    pieces();
    sentencepiece();
    byte_bpe();
    writing();
    cleaned();
    loading();
    return test_done("test_work");
}
