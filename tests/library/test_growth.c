/* A file controls several counts, and work must grow with their sum, not with their product. Each
   case below makes a model file with n of two things at once and a text of n characters that needs
   both, and takes the seconds of the CPU to load it and to turn the text into ids: four times n may
   take at most eight times as long. (test_work grows one count at a time, in steps.) */
#define TRANSFORMER_IMPLEMENTATION
#include "transformer.h"
#include "tiny.h"
#include "spm_file.h"
#include <time.h>

enum { MOST = 64000 }; /* the largest n */
static char vocabulary[64 * MOST], config[65000], text[16 * MOST];
static int32_t ids[16 * MOST];

/* What a case makes: a model file, in w, and a text of text_size bytes. */
static st_writer w;
static size_t text_size;

#define SPECIAL "<pad>\n<s>\n</s>\n<unk>\n"
#define TEXT_CONFIG ", \"start\": 1, \"end\": 2, \"src_unk\": 3, \"tgt_unk\": 3"

/* Writes a model whose source vocabulary has these lines, and whose members of the config are those
   of TEXT_CONFIG and these. */
static void begin_model(const char *lines, int64_t n_lines, const char *members) {
    tiny t = tiny_default();
    snprintf(config, sizeof config, TEXT_CONFIG "%s", members);
    t.config = config, t.src = lines, t.tgt = SPECIAL, t.vs = n_lines, t.vt = 4;
    t.d = 4, t.key = t.value = 2, t.ff = 4, t.encoder = t.decoder = 1;
    tiny_write(&w, t);
}

/* n words that begin alike, and the longest of them again and again. */
static void words_and_text(int n) {
    char *at = vocabulary + sprintf(vocabulary, SPECIAL);
    int i;
    for (i = 0; i < n; i++) at += sprintf(at, "aaaaaaaaaaaaaaaaaaaa%d\n", i);
    begin_model(vocabulary, n + 4, "");
    for (i = 0, text_size = 0; i < n / 4; i++)
        text_size += (size_t)sprintf(text + text_size, "aaaaaaaaaaaaaaaaaaaa%d ", n + i);
}

/* As many languages as a file may have, and n words; the text has n labels that are none. */
static void languages_and_words(int n) {
    static char members[60000];
    char *at = members +
               sprintf(members, ", \"src_language\": \"source\", \"languages\": {\"x\": 0");
    int i;
    for (i = 0; i < 4000 && i < n; i++) at += sprintf(at, ",\"%x\":1", i);
    (void)sprintf(at, "}");
    at = vocabulary + sprintf(vocabulary, SPECIAL);
    for (i = 0; i < n; i++) at += sprintf(at, ">>%d<<\n", i);
    begin_model(vocabulary, n + 4, members);
    for (i = 0, text_size = 0; i < n; i++)
        text_size += (size_t)sprintf(text + text_size, ">>%x<<", i);
}

/* Byte-level BPE with n merges, of two letters or of three, and n added tokens that begin alike;
   the text nearly has them. */
static void merges_and_added_tokens(int n) {
    enum { LETTERS = 26, PAIRS = LETTERS * LETTERS, FIRST = 4 }; /* FIRST: the id of the letter a */
    static unsigned char merges[12 * MOST], added[8 * MOST];
    char *at = vocabulary + sprintf(vocabulary, SPECIAL);
    int i, k;
    for (i = 0; i < LETTERS; i++) at += sprintf(at, "%c\n", 'a' + i);
    for (i = 0; i < n; i++) {
        int pair = i < PAIRS ? i : (i - PAIRS) / LETTERS, last = (i - PAIRS) % LETTERS;
        unsigned row[3];
        row[0] = (unsigned)(FIRST + (i < PAIRS ? i / LETTERS : LETTERS + pair));
        row[1] = (unsigned)(FIRST + (i < PAIRS ? i % LETTERS : last));
        row[2] = (unsigned)(FIRST + LETTERS + i);
        at += sprintf(at, "%c%c", 'a' + pair / LETTERS, 'a' + pair % LETTERS);
        at += i < PAIRS ? sprintf(at, "\n") : sprintf(at, "%c\n", 'a' + last);
        for (k = 0; k < 12; k++) merges[12 * i + k] = (unsigned char)(row[k / 4] >> 8 * (k % 4));
    }
    for (i = 0; i < n; i++) {
        unsigned id = (unsigned)(FIRST + LETTERS + n + i);
        at += sprintf(at, "<aaaaaaaa%d>\n", i);
        for (k = 0; k < 4; k++) added[8 * i + k] = (unsigned char)(id >> 8 * k);
    }
    begin_model(vocabulary, FIRST + LETTERS + 2 * n,
                ", \"src_text\": \"byte_bpe\", \"prefix_space\": \"add\"");
    st_add(&w, "src_merges", tfm_tensor_2d(merges, TFM_DTYPE_U32, n, 3));
    st_add(&w, "src_added", tfm_tensor_2d(added, TFM_DTYPE_U32, n, 2));
    for (i = 0, text_size = 0; i < n / 4; i++)
        text_size += (size_t)sprintf(text + text_size, "<aaaaaaaa%d", n + i);
}

/* SentencePiece: n pieces, of which each second is user-defined, n rules for characters, and a text
   that begins each of them. */
static void pieces_and_rules(int n, unsigned type) {
    static const unit_row rules[] = {{0, 0}, {98, 98 | 98u << 10}}; /* a cycle */
    char piece[64];
    int i;
    begin_file(), put_trainer(3, 1);
    for (i = 0; i < n; i++) {
        int size = sprintf(piece, "aaaaaaaaaaaa%d", i);
        put_piece_of(piece, (size_t)size, -1, i % 2 ? type : 1);
    }
    put_charsmap(rules, 2, "", 1);
    begin_model(NULL, n + 8, ", \"src_text\": \"sentencepiece\"");
    st_add(&w, "src_sentencepiece", tfm_tensor_1d(built, TFM_DTYPE_U8, (int64_t)n_built));
    for (i = 0, text_size = 0; i < n / 4; i++)
        text_size += (size_t)sprintf(text + text_size, "aaaaaaaaaaaa%dbb", n + i);
}
static void normal_pieces(int n) { pieces_and_rules(n, 1); }
static void user_defined_pieces(int n) { pieces_and_rules(n, 4); }

/* n tensors that belong to no model, and n metadata: the file is refused. */
static void tensors_and_metadata(int n) {
    char name[64];
    int i;
    begin_model(SPECIAL, 4, "");
    for (i = 0; i < n / 8; i++) {
        (void)sprintf(name, "encoder.layers.0.linear1.weight%d", i);
        st_add(&w, name, tfm_tensor_1d(vocabulary, TFM_DTYPE_U8, 1));
        (void)sprintf(name, "transformer.note%d", i);
        st_add_metadata(&w, name, "a");
    }
    text_size = 0;
}

/* Returns the seconds of the CPU that loading and tokenizing take: the least of three. */
static double seconds_of(void (*make)(int), int n) {
    double least = 1e9;
    size_t size;
    void *bytes;
    int again;
    make(n);
    bytes = tiny_bytes(&w, &size);
    for (again = 0; again < 3; again++) {
        clock_t begun = clock();
        tfm_model *model = NULL;
        double spent;
        if (tfm_model_load(&model, bytes, size, NULL, &err) == TFM_OK) {
            tfm_arena arena = tfm_arena_measuring();
            int32_t n_ids = 0;
            int pass;
            void *memory = NULL;
            for (pass = 0; pass < 2; pass++) {
                must(tfm_model_tokenize(model, tfm_text_make(text, text_size), TFM_TEXT_FORM_TEXT,
                                        ids, (int32_t)(sizeof ids / sizeof *ids), &n_ids, &arena,
                                        &err));
                if (!pass) arena = tfm_arena_make(memory = malloc(arena.peak + 1), arena.peak);
            }
            free(memory);
            tfm_model_free(model);
        } else if (text_size) {
            must(TFM_E_TENSOR);
        }
        spent = (double)(clock() - begun) / CLOCKS_PER_SEC;
        least = spent < least ? spent : least;
    }
    return least;
}

int main(void) {
    static const struct {
        const char *name;
        void (*make)(int);
        int n;
    } cases[] = {{"words that begin alike, and a text", words_and_text, 8000},
                 {"languages and words that look like labels", languages_and_words, 2000},
                 {"merges and added tokens", merges_and_added_tokens, 4000},
                 {"SentencePiece, pieces and rules", normal_pieces, 4000},
                 {"  of which half are user-defined", user_defined_pieces, 4000},
                 {"tensors and metadata", tensors_and_metadata, 8000}};
    size_t i;
    SECTION("two counts at once");
    for (i = 0; i < sizeof cases / sizeof *cases; i++) {
        double small = seconds_of(cases[i].make, cases[i].n);
        double large = seconds_of(cases[i].make, 4 * cases[i].n);
        CHECK(large <= 8 * small + 0.02, "%s: %.4f s, and %.4f s for four times as many",
              cases[i].name, small, large);
    }
    return test_done("test_growth");
}
