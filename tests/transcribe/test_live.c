/* Tests examples/transcribe/live.h with a puppet (tests/fuzz/fuzz_whisper.h): a model that writes
   given tokens, whatever it hears. What is stable must be these tokens, each once and in order,
   however the sound comes. Also runs the kept inputs of tests/fuzz/live.c. */
#define _POSIX_C_SOURCE 200809L
#include "tests/fuzz/live.c"
#include "tests/kept_inputs.h"

enum { SECOND = 16000, ROOM = 8192 };
static float noise[8 * SECOND];
static char whole[ROOM], lines[ROOM]; /* the stable texts; all texts with their times */
static double last_end;
static int64_t runs, steps;
static void *bytes; /* the puppet's file */

/* Loads a puppet of tokens [n]. The first of them stands for the prompt's "no times". */
static void load(transcriber *h, tfm_model **model, const uint8_t *tokens, int n, int flags) {
    uint8_t input[64];
    const uint8_t *data = input;
    tfm_safetensors *file = NULL;
    size_t size = 0;
    free(bytes), bytes = NULL; /* of the puppet before, which is freed */
    input[0] = (uint8_t)flags, input[1] = 0, input[2] = (uint8_t)n;
    memcpy(input + 3, tokens, (size_t)n), input[3 + n] = 0;
    if (!fuzz_whisper(&data, input + 4 + n, &bytes, &size) ||
        tfm_model_load(model, bytes, size, NULL, &err) != TFM_OK ||
        tfm_safetensors_open(&file, bytes, size, NULL, &err) != TFM_OK ||
        transcriber_load(h, *model, file, 1, TRANSCRIBER_LIVE, 0, &err) != TFM_OK)
        printf("%s\n", err.text), exit(2);
    tfm_safetensors_free(file); /* the model reads from bytes until the next one */
}

static transcriber_options plain(void) {
    transcriber_options o;
    transcriber_defaults(&o);
    o.decoding.compression = o.decoding.log_prob = 0;
    return o;
}

/* Short windows, because the puppet's are at most 1 s. */
static live_options small(void) {
    live_options o;
    live_defaults(&o);
    o.step = 0.05, o.guard = 0.05, o.pause = 0.2, o.lead = 0.05, o.shortest = 0.1, o.gap = 0.1;
    o.room = 0.1, o.longest = 0.8, o.kept = 0.4, o.history = 0; /* it would move the tokens */
    return o;
}

static void take(live *l) {
    while (live_is_due(l)) {
        size_t n = strlen(lines);
        if (live_hear(l, &err) != TFM_OK) printf("%s\n", err.text), exit(2);
        if (n < ROOM && (l->stable[0] || l->is_changed))
            snprintf(lines + n, ROOM - n, "%s %.3f %.3f | %s %.3f %.3f\n", l->stable,
                     l->stable_begin, l->stable_end, l->tentative, l->tentative_begin,
                     l->tentative_end);
        if (!l->stable[0]) continue;
        CHECK(l->stable_begin >= last_end && l->stable_end >= l->stable_begin &&
                  l->stable_end <= (double)l->fed / (int)SECOND,
              "\"%s\" from %g to %g after %g of %g s", l->stable, l->stable_begin, l->stable_end,
              last_end, (double)l->fed / (int)SECOND);
        last_end = l->stable_end;
        if (strlen(whole) + strlen(l->stable) < ROOM) strcat(whole, l->stable);
    }
}

/* Hears n samples in pieces, and collects what is stable. */
static void hear(transcriber *h, const live_options *o, const float *x, int64_t n, int64_t piece) {
    static live l;
    transcriber_options settings = plain();
    int64_t i;
    whole[0] = lines[0] = 0, last_end = 0;
    must(live_begin(&l, h, &settings, o, &err));
    for (i = 0; i < n; i += piece) {
        must(live_feed(&l, x + i, n - i < piece ? n - i : piece, &err));
        take(&l);
    }
    must(live_finish(&l, &err));
    take(&l);
    CHECK(!live_is_due(&l), "nothing is due after the end");
    CHECK(l.capacity < 20 * SECOND, "%d samples kept", (int)l.capacity);
    runs = l.runs, steps = l.steps;
    live_free(&l);
}

/* A text of two words, and then the end, in one window. */
static void test_words(void) {
    static const uint8_t tokens[] = {9, 0, 4, 0, 2, FUZZ_TEXTS, FUZZ_TEXTS, FUZZ_TEXTS};
    static const int64_t pieces[] = {1, 160, 1000, SECOND};
    static transcriber h;
    tfm_model *model = NULL;
    static char first[ROOM];
    live_options o = small();
    int64_t with;
    int rule, i;
    load(&h, &model, tokens, sizeof tokens, 0);
    for (rule = LIVE_ALIGN; rule <= LIVE_BOTH; rule++)
        for (i = 0; i < 4; i++) {
            o.rule = (live_rule)rule;
            hear(&h, &o, noise, SECOND * 7 / 10, pieces[i]);
            CHECK(!strcmp(whole, " a world a."), "rule %d, pieces of %d: got \"%s\"", rule,
                  (int)pieces[i], whole);
            if (!i) memcpy(first, lines, ROOM);
            CHECK(!strcmp(first, lines), "rule %d, pieces of %d: got %s, wanted %s", rule,
                  (int)pieces[i], lines, first);
        }
    o.rule = LIVE_AGREE;
    hear(&h, &o, noise, SECOND * 7 / 10, 160), with = steps;
    o.without_drafts = 1;
    hear(&h, &o, noise, SECOND * 7 / 10, 160);
    CHECK(!strcmp(whole, " a world a."), "without drafts: got \"%s\"", whole);
    CHECK(with < steps, "%d steps with drafts, %d without", (int)with, (int)steps);
    o.rule = LIVE_ALIGN, o.without_drafts = 0, o.doubt = 0;
    hear(&h, &o, noise, SECOND * 7 / 10, 160);
    CHECK(!strstr(lines, " a world a. 0.000 0.700 |"), "no doubt: got %s", lines);
    o.doubt = 1e6; /* the puppet is a little less than sure */
    hear(&h, &o, noise, SECOND * 7 / 10, 160);
    CHECK(strstr(lines, " a world a. 0.000 0.700 |"), "doubt: nothing before the end: got %s",
          lines);
    o.doubt = 0, o.look = 1e6;
    hear(&h, &o, noise, SECOND * 7 / 10, 160), with = runs;
    o.look = 1e-9;
    hear(&h, &o, noise, SECOND * 7 / 10, 160);
    CHECK(runs > with && !strcmp(whole, " a world a."), "%d runs, %d with a second look: \"%s\"",
          (int)with, (int)runs, whole);
    hear(&h, &o, noise, 0, 1);
    CHECK(!whole[0] && runs == 0, "no sound: \"%s\" in %d runs", whole, (int)runs);
    hear(&h, &o, noise, 100, 1);
    hear(&h, &o, noise + 4 * SECOND, 3 * SECOND, 500);
    CHECK(!whole[0] && runs == 0, "silence: \"%s\" in %d runs", whole, (int)runs);
    transcriber_free(&h), tfm_model_free(model);
}

/* A sound of some windows: the texts of each window, and memory that stays as it is. */
static void test_long(void) {
    static const uint8_t tokens[] = {9, 4, FUZZ_TEXTS, FUZZ_TEXTS, FUZZ_TEXTS};
    static transcriber h;
    tfm_model *model = NULL;
    live_options o = small();
    size_t n;
    load(&h, &model, tokens, sizeof tokens, FUZZ_MULTILINGUAL);
    hear(&h, &o, noise, 8 * SECOND, 300);
    for (n = 0; !strncmp(whole + n, " world", 6); n += 6) {
    }
    CHECK(n >= 12 && !whole[n], "got \"%s\"", whole);
    transcriber_free(&h), tfm_model_free(model);
}

/* A program that is slower than its source: sound waits, and is heard in one run. After a file,
   which never makes a program wait, or from a slow source, every step is heard. */
static void test_behind(void) {
    static const uint8_t tokens[] = {9, 0, 4, 0, 2, FUZZ_TEXTS, FUZZ_TEXTS, FUZZ_TEXTS};
    static const struct {
        double wait, run; /* seconds for a piece, and that a run takes */
        int is_late;
    } cases[] = {{0.02, 0, 0}, {0.02, 0.3, 1}, {0, 9, 0}, {0.5, 0.3, 0}};
    static transcriber h;
    static live l;
    tfm_model *model = NULL;
    live_options o = small();
    transcriber_options settings = plain();
    int64_t all = 0;
    int k;
    load(&h, &model, tokens, sizeof tokens, 0);
    o.longest = 1;
    for (k = 0; k < 4; k++) {
        double now = 100, ready = 100, longest = 0; /* ready: when the source has the next piece */
        int i, late = 0;
        whole[0] = lines[0] = 0, last_end = 0;
        must(live_begin(&l, &h, &settings, &o, &err));
        for (i = 0; i < 35; i++) {
            double waited = 0;
            ready += cases[k].wait;
            if (ready > now) waited = ready - now, now = ready;
            must(live_feed(&l, noise + i * 320, 320, &err));
            if (live_is_behind(&l, now, waited, 320)) {
                late++;
                continue;
            }
            while (live_is_due(&l)) {
                if (l.ran > l.start && (double)(l.end - l.ran) / (int)SECOND > longest)
                    longest = (double)(l.end - l.ran) / (int)SECOND;
                must(live_hear(&l, &err));
                now += cases[k].run;
            }
        }
        CHECK((late > 0) == cases[k].is_late && (longest > 0.2) == cases[k].is_late,
              "case %d: behind %d times, %g s in one run", k, late, longest);
        must(live_finish(&l, &err));
        CHECK(!live_is_behind(&l, now + 1000, 0, 0), "case %d: behind after the end", k);
        take(&l);
        CHECK(strlen(l.tentative) == 0, "case %d: tentative \"%s\"", k, l.tentative);
        if (!k) all = l.runs;
        CHECK(cases[k].is_late ? l.runs < all : l.runs == all, "case %d: %d runs of %d", k,
              (int)l.runs, (int)all);
        live_free(&l);
    }
    transcriber_free(&h), tfm_model_free(model);
}

/* A model that writes one word without end: nothing is stable while it speaks. */
static void test_loop(void) {
    static const uint8_t tokens[] = {4};
    static transcriber h;
    tfm_model *model = NULL;
    live_options o = small();
    transcriber_options settings = plain();
    static live l;
    load(&h, &model, tokens, sizeof tokens, 0);
    settings.decoding.compression = 2.4;
    whole[0] = 0, last_end = 0;
    must(live_begin(&l, &h, &settings, &o, &err));
    must(live_feed(&l, noise, SECOND / 2, &err));
    take(&l);
    CHECK(!whole[0] && strlen(l.tentative) > 60, "stable \"%s\", tentative \"%s\"", whole,
          l.tentative);
    must(live_finish(&l, &err));
    take(&l);
    CHECK(!whole[0] && !l.tentative[0], "at the end: stable \"%s\", tentative \"%s\"", whole,
          l.tentative);
    live_free(&l), transcriber_free(&h), tfm_model_free(model);
}

/* Which sound a token attends to, and which tokens are sure. */
static void test_attention(void) {
    static float weights[100];
    static live l;
    static const int32_t ids[] = {7, 8}, at[] = {40, 40};
    weights[2] = 5, weights[20] = 2, weights[90] = 3;
    CHECK(live_attends(weights, 100, 0, 0) == 2, "the largest weight");
    CHECK(live_attends(weights, 100, (int)LIVE_BACK + 2, 0) == 2, "the last one that may count");
    CHECK(live_attends(weights, 100, (int)LIVE_BACK + 3, 0) == 90, "too far back");
    CHECK(live_attends(weights, 100, 60, 1) == 60, "the rest of a word is spoken with it");
    CHECK(live_attends(weights, 100, 99, 0) == 90, "at the end of the window");
    l.o.rule = LIVE_ALIGN, l.o.guard = 0.2, l.o.doubt = 0.5, l.with_sound = 100;
    l.doubts[0] = l.doubts[1] = 1; /* 0.7 s, and for the first token 1.2 s */
    CHECK(live_sure(&l, ids, at, 2) == 0, "the first token waits longer");
    l.n_given = 1;
    CHECK(live_sure(&l, ids, at, 2) == 2, "behind stable tokens");
    l.doubts[1] = 3;
    CHECK(live_sure(&l, ids, at, 2) == 1, "a token that is not sure");
    l.o.rule = LIVE_BOTH;
    CHECK(live_sure(&l, ids, at, 2) == 0, "a token that the last run did not have");
}

/* Options that cannot work are refused by name. Those that are on the edge hear the sound in a
   number of runs that its length bounds. */
static void test_options(void) {
    static const uint8_t tokens[] = {9, 0, 4, 0, 2, FUZZ_TEXTS, FUZZ_TEXTS, FUZZ_TEXTS};
    static transcriber h;
    static live l;
    tfm_model *model = NULL;
    live_options o;
    transcriber_options settings = plain();
    const struct {
        double *number, value;
        const char *message;
    } cases[] = {
        {&o.longest, 0.05, "live text: longest is 0.05 and must be from 0.1 to 1"},
        {&o.longest, 1.5, "live text: longest is 1.5 and must be from 0.1 to 1"},
        {&o.longest, NAN, "live text: longest is nan"},
        {&o.kept, 0.8, "live text: kept is 0.8 and must be less than longest, which is 0.8"},
        {&o.step, 0, "live text: step is 0 and must be from 0.001 to 3600"},
        {&o.pause, -0.1, "live text: pause is -0.1 and must be from 0 to 3600"},
        {&o.lead, INFINITY, "live text: lead is inf and must be from 0 to 30"},
        {&o.room, 1e300, "live text: room is 1e+300 and must be from 0 to 3600"}};
    size_t i;
    SECTION("options");
    load(&h, &model, tokens, sizeof tokens, 0);
    for (i = 0; i < sizeof cases / sizeof *cases; i++) {
        o = small();
        *cases[i].number = cases[i].value;
        CHECK_FAILS(live_begin(&l, &h, &settings, &o, &err), TFM_E_ARGUMENT, cases[i].message);
        live_free(&l);
    }
    o = small(), o.rule = (live_rule)3;
    CHECK_FAILS(live_begin(&l, &h, &settings, &o, &err), TFM_E_ARGUMENT,
                "live text: rule is 3 and must be from 0 to 2");
    o = small(), o.history = (int32_t)LIVE_HISTORY + 1;
    CHECK_FAILS(live_begin(&l, &h, &settings, &o, &err), TFM_E_ARGUMENT,
                "live text: history is 193 and must be from 0 to 192");
    o = small(), o.longest = 0.5, o.kept = 0.499, o.pause = 0.1;
    hear(&h, &o, noise, 4 * SECOND, 300);
    CHECK(runs > 0 && runs < 4 * 2 * 1000 / 50 && strstr(whole, " a world a."),
          "almost all of a window is kept: %d runs, \"%s\"", (int)runs, whole);
    o = small(), o.step = 0.001;
    hear(&h, &o, noise, 4 * SECOND, 300);
    CHECK(runs > 0 && runs < 2 * 4 * SECOND / 512, "a step of 1 ms: %d runs", (int)runs);
    transcriber_free(&h), tfm_model_free(model);
}

int main(void) {
    unsigned seed = 5;
    int i;
    for (i = 0; i < 8 * SECOND; i++) /* with a pause in the middle */
        noise[i] = i >= 4 * SECOND && i < 7 * SECOND ? 0
                                                     : (float)tiny_random(&seed) / 8388608.0f - 1;
    test_attention();
    test_words();
    test_long();
    test_behind();
    test_loop();
    test_options();
    run_kept("tests/fuzz/corpus/live");
    free(bytes);
    return test_done("test_live");
}
