/* Tests examples/transcribe/own_words.h: what words of a list add to logits, beside the definition
   computed from the list itself, and lists that are long, broken or empty. */
#define _POSIX_C_SOURCE 200809L
#include "transformer.h"
#include <stdio.h>
#include <time.h>
#include "tests/test.h"
#include "tests/tiny.h"
#if defined(__GNUC__)
#pragma GCC diagnostic ignored "-Wshadow" /* the headers have arguments that are named err */
#pragma GCC diagnostic ignored "-Wunused-function"
#endif
#include <math.h>
#include "examples/transcribe/speech.h"
#include "examples/transcribe/whisper.h"

enum { V = 24, END = 16, SINK = 20, WORDS = 12, LONGEST = 4 };
static int32_t list[WORDS][LONGEST], sizes[WORDS];

/* Returns whether n of ids from position at on are the first tokens of word k. */
static int begins(int k, const int32_t *ids, int32_t n) {
    return n <= sizes[k] && memcmp(list[k], ids, (size_t)n * sizeof *ids) == 0;
}

/* The definition: a word begins behind a space anywhere (root 0), or behind a mark (root 1, words
   with an odd number). held tokens at the end of ids belong to a word that has not ended. */
static int held_of(const own_words *o, const int32_t *ids, int32_t n, int *root) {
    int32_t i, k, at = 0, held = 0;
    for (i = 0; i < n; i++) {
        int goes_on = 0;
        for (k = 0; k < WORDS && held; k++)
            goes_on |= k % 2 == *root && begins(k, ids + at, held + 1);
        if (goes_on) {
            held++;
            continue;
        }
        for (held = 0, *root = 0; *root < 2 && !held; *root += !held) {
            if (*root && i && ids[i - 1] < END && (o->kinds[ids[i - 1]] & OWN_WORDS_ENDS)) break;
            for (k = 0; k < WORDS; k++)
                if (k % 2 == *root && begins(k, ids + i, 1)) held = 1;
        }
        at = i;
    }
    return held;
}

static void expected(const own_words *o, const int32_t *ids, int32_t n, double *delta) {
    int root = 0, held = held_of(o, ids, n, &root), is_word = 0, goes[V] = {0}, first[2][V] = {{0}};
    int32_t i, k;
    for (k = 0; k < WORDS; k++) {
        first[k % 2][list[k][0]] = 1;
        if (!held || k % 2 != root || !begins(k, ids + n - held, held)) continue;
        if (sizes[k] == held) is_word = 1;
        else goes[list[k][held]] = 1;
    }
    for (i = 0; i < V; i++) {
        int leaves = held && !goes[i] &&
                     (!is_word || (i < END && (o->kinds[i] & OWN_WORDS_BEGINS)));
        int is_free = !n || ids[n - 1] >= END || !(o->kinds[ids[n - 1]] & OWN_WORDS_ENDS);
        delta[i] = (double)o->bonus *
                   (goes[i] + first[0][i] + (is_free && first[1][i]) - (leaves ? held : 0));
    }
}

static double log_sum(const float *y) {
    double sum = 0;
    int32_t i;
    for (i = 0; i < V; i++) sum += exp((double)y[i]);
    return log(sum);
}

/* Random lists, random logits, random tokens before. */
static void test_edit(void) {
    unsigned seed = (unsigned)time(NULL), begun = seed;
    int round, wrong = 0, kept = 0, exact = 0;
    SECTION("own_words_edit and the definition");
    for (round = 0; round < 2000; round++) {
        own_words o;
        int32_t ids[8], n = (int32_t)(tiny_random(&seed) % 9), i, k;
        float y[V], before[V];
        double delta[V], old, sum = 0;
        int root = 0;
        memset(&o, 0, sizeof o);
        o.bonus = 3, o.end = END, o.V = V, o.kinds = (unsigned char *)malloc(END);
        if (!o.kinds || !own_words_grow(&o)) exit(2);
        for (i = 0; i < END; i++) o.kinds[i] = (unsigned char)(tiny_random(&seed) % 4);
        for (k = 0; k < WORDS; k++) {
            sizes[k] = 1 + (int32_t)(tiny_random(&seed) % LONGEST);
            for (i = 0; i < sizes[k]; i++) list[k][i] = (int32_t)(tiny_random(&seed) % 5);
            if (!own_words_add(&o, k % 2, list[k], sizes[k])) exit(2);
        }
        for (i = 0; i < n; i++)
            ids[i] = (int32_t)(tiny_random(&seed) % 20 ? tiny_random(&seed) % 6 : 18);
        for (i = 0; i < V; i++) before[i] = y[i] = (float)(tiny_random(&seed) % 1000) / 200;
        own_words_edit(&o, ids, n, SINK, y);
        expected(&o, ids, n, delta);
        for (i = 0; i < V; i++)
            if (i != SINK) wrong += !(fabs((double)y[i] - before[i] - delta[i]) < 1e-4);
        /* The sink keeps the sum if the words took more than they gave. */
        old = log_sum(before);
        for (i = 0; i < V; i++)
            if (i != SINK) sum += exp((double)before[i] + delta[i]);
        if (held_of(&o, ids, n, &root) && log(sum) < old)
            exact++, kept += fabs(log_sum(y) - old) < 1e-3;
        own_words_free(&o);
    }
    CHECK(wrong == 0, "%d logits differ (seed %u)", wrong, begun);
    CHECK(exact > 50 && kept == exact, "%d of %d sums stay (seed %u)", kept, exact, begun);
}

/* A word that ends gets the bonus of all its tokens; a word that is left gets none. */
static void test_paths(void) {
    static const int32_t word[] = {1, 2, 3};
    own_words o;
    float y[V];
    double whole = 0, left = 0, base;
    int32_t i, k;
    SECTION("whole words and words that are left");
    memset(&o, 0, sizeof o);
    o.bonus = 3, o.end = END, o.V = V, o.kinds = (unsigned char *)calloc(END, 1);
    if (!o.kinds || !own_words_grow(&o) || !own_words_add(&o, 0, word, 3)) exit(2);
    for (k = 0; k < 4; k++) {
        for (i = 0; i < V; i++) y[i] = i == 9 ? 0 : -12.0f; /* the word is improbable */
        base = log_sum(y);
        own_words_edit(&o, word, k, SINK, y);
        whole += y[k < 3 ? word[k] : 9] - log_sum(y) - ((k < 3 ? -12 : 0) - base);
        if (k < 2) left += y[k < 1 ? word[0] : 9] - log_sum(y) - ((k < 1 ? -12 : 0) - base);
    }
    CHECK(fabs(whole - 9) < 0.01, "three tokens got %.4f, wanted 9", whole);
    CHECK(fabs(left) < 0.01,
          "a token that begins a word and the next one, which leaves it, got %.4f", left);
    own_words_free(&o);
}

static own_words got;
static const tfm_model *model;
static tfm_status read_list(const char *text, size_t size) {
    err.text[0] = 0;
    return own_words_set(&got, model, tfm_model_config(model)->end, tfm_text_make(text, size),
                         &err);
}

/* Returns the CPU seconds for a list of lines that begin alike and leave each other late. */
static double seconds_of(int lines, int size) {
    static char text[2 * 20000 * 101];
    clock_t before;
    int i, k;
    char *at = text;
    for (i = 0; i < lines; i++) {
        for (k = 0; k < size - 6; k++) *at++ = (char)('a' + (i >> k % 5 & 1));
        at += sprintf(at, "%05d\n", i);
    }
    before = clock();
    must(read_list(text, (size_t)(at - text)));
    return (double)(clock() - before) / CLOCKS_PER_SEC;
}

/* Lists that are made to take long. */
static void test_hostile(void) {
    static char text[OWN_WORDS_LIST + 1];
    double one, two;
    own_words o;
    float y[V];
    int32_t i;
    SECTION("hostile lists");
    CHECK_FAILS(read_list("one\nt\0wo\n", 10), TFM_E_UTF8, "own words, line 2: a NUL character");
    CHECK_FAILS(read_list("\xED\xA0\x80\n", 4), TFM_E_UTF8, "own words, line 1: not UTF-8");
    memset(text, '\n', sizeof text);
    CHECK_FAILS(read_list(text, sizeof text), TFM_E_TOO_LONG, "own words: the list is over 16 MB");
    CHECK_FAILS(read_list(text, sizeof text - 1), TFM_E_ARGUMENT, "own words: the list is empty");
    one = seconds_of(10000, 100), two = seconds_of(20000, 100);
    CHECK(got.n_words == 20000 && two < 4 * one + 0.2, "20,000 lines: %.3f s, 10,000: %.3f s", two,
          one);
    /* All tokens begin a word: as many logits change as there are, once each. */
    memset(&o, 0, sizeof o);
    o.bonus = 3, o.end = END, o.V = V, o.kinds = (unsigned char *)calloc(END, 1);
    if (!o.kinds || !own_words_grow(&o)) exit(2);
    for (i = 0; i < 100000; i++) {
        int32_t word[3];
        word[0] = i % V, word[1] = i / V % V, word[2] = i / V / V % V;
        if (!own_words_add(&o, OWN_WORDS_SPACE, word, 3)) exit(2);
    }
    CHECK(o.n == 2 + V + V * V + V * V * V, "words that are there have no effect: %d nodes", o.n);
    for (i = 0; i < V; i++) y[i] = 0;
    own_words_edit(&o, NULL, 0, SINK, y);
    for (i = 0; i < V && fabsf(y[i] - 3) < 1e-6f; i++) {
    }
    CHECK(i == V, "each token has the bonus once");
    own_words_free(&o);
}

static void test_lists(void) {
    static const char plain[] = "Zelenko\nvan der Berg\n",
                      other[] = "\xEF\xBB\xBF\r\n  Zelenko\t\r\n\r\nvan der Berg\nZelenko";
    static char large[2200000];
    tfm_model *loaded = NULL;
    size_t used = 0;
    int32_t n, i;
    SECTION("lists");
    must(tfm_model_load_file(&loaded, "tests/data/transcribe/whisper.safetensors", NULL, &err));
    model = loaded;
    must(read_list(plain, sizeof plain - 1)), n = got.n;
    CHECK(got.n_words == 2 && n > 4, "%d words, %d nodes", got.n_words, n);
    must(read_list(other, sizeof other - 1));
    CHECK(got.n == n, "byte order mark, CRLF, blank lines, a word twice: %d nodes, wanted %d",
          got.n, n);
    CHECK_FAILS(read_list("", 0), TFM_E_ARGUMENT, "own words: the list is empty");
    CHECK_FAILS(read_list(" \r\n\n", 4), TFM_E_ARGUMENT, "own words: the list is empty");
    CHECK_FAILS(read_list("a\n\xFF\xFE"
                          "b\n",
                          6),
                TFM_E_UTF8, "own words, line 2: not UTF-8");
    memset(large, 'x', 300);
    CHECK_FAILS(read_list(large, 201), TFM_E_TOO_LONG, "own words, line 1: over 200 bytes");
    must(read_list(large, 200));
    CHECK(got.n_words == 1, "a line of 200 bytes");
    must(own_words_set(&got, model, 0, tfm_text_make(NULL, 0), &err));
    CHECK(got.n_words == 0 && !got.nodes, "no list");
    for (i = 0; i < 100000; i++)
        used += (size_t)sprintf(large + used, "name%d of the list\n", (int)i);
    must(read_list(large, used));
    CHECK(got.n_words == 100000 && got.room < 4000000, "100,000 lines: %d words, room for %d nodes",
          got.n_words, got.room);
    test_hostile();
    own_words_free(&got), tfm_model_free(loaded);
}

int main(void) {
    test_edit();
    test_paths();
    test_lists();
    return test_done("test_own_words");
}
