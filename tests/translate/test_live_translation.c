/* Live translation: no word of stable text is taken back, the output does not depend on how the
   bytes come, and input that nobody should write takes a proportionate time. */
#ifndef _WIN32
#define _POSIX_C_SOURCE 200809L /* sigaction */
#endif
#include "transformer.h"
#include "test.h"
#include "examples/translate/interrupts.h"
#include "examples/translate/reader.h"
#include "progress.h"
#include "examples/translate/live_lines.h"

static tfm_model *model;
static tfm_session *session, *session_of_second;
static live_translation l, second;
static int has_second; /* translate uses two models */
static text_buffer output, messages;

static const char *const sentences[] = {
    "Die Nachbarin hat gestern Abend ihren alten Hund im Park gesucht.",
    "Ich glaube nicht, dass der Bus heute noch kommt.",
    "Danke.",
    "Wenn es morgen regnet, bleiben wir zu Hause und spielen Karten.",
    "Kannst du mir bitte sagen, wo der Bahnhof ist? Ich muss um drei dort sein.",
    "Er hat das Buch, das du ihm gegeben hast, in zwei Tagen gelesen.",
    "Am 3. Mai kam Dr. Weber z. B. mit dem Zug aus Berlin. Dann ging er nach Hause.",
    "Das Wetter war so schlecht,  dass niemand   kommen wollte.",
    "Sie fragte: \"Wohnt er noch hier?\" Niemand wusste es genau.",
    "Wir haben die ganze Nacht auf den Arzt gewartet \xF0\x9F\x98\x80 und dann geschlafen.",
    "Meine Schwester arbeitet seit zehn Jahren in einem kleinen Dorf als Lehrerin.",
    "Es ist besser, langsam zu gehen, als auf der Stelle stehen zu bleiben.",
    "",
    "   ",
    "Ohne Punkt am Ende"};

static void complain(const char *message) {
    text_buffer_append(&messages, message, strlen(message));
    text_buffer_append(&messages, "\n", 1);
}

/* Translates a text that comes in pieces of 1 to `longest` bytes; 0: all at once. Returns the lines
   that failed. The output is in `output`. */
static int64_t translate(const char *text, size_t size, size_t longest, live_lines_input input) {
    static char bytes[1 << 16];
    live_lines s;
    live_lines_heard heard;
    uint64_t seed = longest;
    size_t n;
    memset(&s, 0, sizeof s), memset(&heard, 0, sizeof heard);
    output.size = messages.size = 0;
    live_translation_clear(&l), live_translation_clear(&second);
    s.texts.first = &l, s.texts.second = has_second ? &second : NULL;
    live_lines_begin(&s);
    s.out = tmpfile(), s.is_json = 1, s.complain = complain, s.input = input;
    CHECK(s.out != NULL, "");
    if (!s.out) return -1;
    while (size) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        n = longest ? 1 + (size_t)(seed >> 33) % longest : size;
        if (n > size) n = size;
        if (input == LIVE_LINES_JSON) live_lines_json(&s, &heard, text, n);
        else live_lines_text(&s, text, n);
        text += n, size -= n;
    }
    if (s.texts.is_begun) live_pipeline_end(&s.texts);
    rewind(s.out);
    while ((n = fread(bytes, 1, sizeof bytes, s.out)) > 0) text_buffer_append(&output, bytes, n);
    fclose(s.out);
    text_buffer_free(&heard.text), text_buffer_free(&s.line), text_buffer_free(&s.object);
    text_buffer_free(&s.shown);
    return s.failures;
}

/* Reads the string after a name in a line of JSON. Returns what is behind it, or NULL. */
static const char *member(const char *at, const char *name, text_buffer *value) {
    size_t n = strlen(name);
    return at && strncmp(at, name, n) == 0 ? live_lines_read_string(at + n, value) : NULL;
}

/* What the output's lines have, taken together. */
static struct {
    int lines, done, malformed, taken_back, not_a_beginning, unfinished, invalid;
    text_buffer texts; /* of lines that are done */
} seen;

static int is_valid(const text_buffer *b) {
    size_t at, n;
    uint32_t c;
    for (at = 0; at < b->size; at += n) {
        n = tfm_character_next(b->data + at, b->size - at, &c);
        if (n == 1 && c == 0xFFFD) return 0;
    }
    return 1;
}

/* Reads the output. */
static void look(void) {
    static text_buffer source, stable, text, before;
    const char *at = output.data, *end;
    text_buffer_free(&seen.texts), memset(&seen, 0, sizeof seen);
    before.size = 0;
    for (; at && at < output.data + output.size; at = end + 1) {
        int is_done;
        end = strchr(at, '\n');
        at = member(at, "{\"source\": ", &source);
        at = member(at, ", \"stable_text\": ", &stable);
        at = member(at, ", \"text\": ", &text);
        seen.lines++;
        if (!at || !end) {
            seen.malformed++;
            return;
        }
        is_done = strncmp(at, ", \"done\": true}\n", 16) == 0;
        seen.malformed += !is_done && strncmp(at, ", \"done\": false}\n", 17) != 0;
        seen.invalid += !is_valid(&source) + !is_valid(&stable) + !is_valid(&text);
        seen.not_a_beginning += stable.size > text.size ||
                                (stable.size && memcmp(text.data, stable.data, stable.size) != 0);
        seen.taken_back += stable.size < before.size ||
                           (before.size && memcmp(stable.data, before.data, before.size) != 0);
        seen.unfinished += is_done && stable.size != text.size;
        seen.done += is_done;
        before.size = 0;
        if (is_done) {
            text_buffer_append(&seen.texts, text.data, text.size);
            text_buffer_append(&seen.texts, "\n", 1);
        } else text_buffer_append(&before, stable.data, stable.size);
    }
}

static void check_output(const char *name, int done) {
    look();
    CHECK(!seen.malformed && !seen.invalid, "%s: %d of %d lines are no JSON, %d no UTF-8", name,
          seen.malformed, seen.lines, seen.invalid);
    CHECK(
        !seen.taken_back && !seen.not_a_beginning && !seen.unfinished,
        "%s: stable text taken back %d times, no beginning of the text %d times, not whole at the "
        "end %d times",
        name, seen.taken_back, seen.not_a_beginning, seen.unfinished);
    CHECK(seen.done == done, "%s: %d texts, not %d", name, seen.done, done);
}

static void append(text_buffer *b, const char *text) { text_buffer_append(b, text, strlen(text)); }

/* Compares the output of random cuttings with that of the whole input. */
static void check_cuttings(const char *name, const text_buffer *text, live_lines_input input,
                           int done) {
    static const size_t longest[] = {1, 12};
    static long number; /* of the cuttings of all texts */
    text_buffer whole;
    size_t i;
    memset(&whole, 0, sizeof whole);
    translate(text->data, text->size, 0, input);
    check_output(name, done);
    text_buffer_append(&whole, output.data, output.size);
    for (i = 0; i < sizeof longest / sizeof *longest; i++) {
        if (!test_in_slice("cuttings", number++)) continue;
        translate(text->data, text->size, longest[i], input);
        CHECK(output.size == whole.size && memcmp(output.data, whole.data, whole.size) == 0,
              "%s: pieces of up to %d bytes give the same output", name, (int)longest[i]);
    }
    text_buffer_free(&whole);
}

static void check_text(void) {
    enum { N = sizeof sentences / sizeof *sentences };
    text_buffer text;
    char expected[1024];
    tfm_error err;
    int i, words = 0, early = 0;
    memset(&text, 0, sizeof text);
    SECTION("text");
    for (i = 0; i < N; i++) append(&text, sentences[i]), append(&text, i + 1 < N ? "\n" : "");
    check_cuttings("lines", &text, LIVE_LINES_TEXT, N);
    CHECK(tfm_translate(session, sentences[2], expected, sizeof expected, &err) == TFM_OK, "");
    CHECK(strstr(seen.texts.data, expected) != NULL,
          "a word alone has the translation that it has without --live: %s", expected);
    text.size = 0;
    append(&text, "Danke.\r\nDer Hund schl\xC3\xA4"
                  "ft. \r\n\r\n");
    check_cuttings("lines of Windows", &text, LIVE_LINES_TEXT, 3);
    CHECK(!strstr(output.data, "\\u000d"), "a carriage return is no part of a line");
    text.size = 0;
    for (i = 0; i < N; i++) append(&text, sentences[i]), append(&text, " ");
    check_cuttings("one line of several sentences", &text, LIVE_LINES_TEXT, 1);
    CHECK(seen.lines > 80, "a line of JSON for each word: %d", seen.lines);
    live_translation_clear(&l), l.is_whole_words = 0;
    for (i = 0; sentences[10][i]; i++) {
        live_translation_feed(&l, sentences[10] + i, 1);
        for (; live_translation_is_due(&l); words++, early += l.stable > 0)
            CHECK(live_translation_run(&l, &err) == TFM_OK, "");
    }
    CHECK(words == 11 && early > 1, "%d words are read, and text is stable behind %d of them",
          words, early);
    text_buffer_free(&text);
}

static void check_bytes(void) {
    static char bytes[3000];
    text_buffer text;
    size_t i;
    uint32_t seed = 7;
    memset(&text, 0, sizeof text);
    SECTION("bytes");
    for (i = 0; i < sizeof bytes; i++) {
        seed = seed * 1664525 + 1013904223;
        bytes[i] = (char)(seed >> 24);
        if (bytes[i] == '\n' || seed >> 8 & 1) bytes[i] = ' ';
    }
    text_buffer_append(&text, bytes, 200);
    append(&text, "\n\xF0\x9F\n\xE2\x82\nHaus \xC3");
    check_cuttings("random bytes", &text, LIVE_LINES_TEXT, 4);
    text.size = 0;
    for (i = 0; i < 150; i++) append(&text, "ab");
    for (i = 0; i < 20; i++) append(&text, "\xE7\x81\xAB");
    check_cuttings("words without an end", &text, LIVE_LINES_TEXT, 1);
    text_buffer_free(&text);
}

/* Lines of transcribe --live --format json. */
static const char heard_lines[] =
    "{\"text\": \" Die Nachbarin\", \"stable\": true, \"start\": 0.30, \"end\": 1.20}\n"
    "{\"text\": \" ist\", \"stable\": false, \"start\": 1.20, \"end\": 1.50}\n"
    "{\"text\": \" isst gern\", \"stable\": false, \"start\": 1.20, \"end\": 1.90}\n"
    "{\"text\": \" isst gerne \\u00c4pfel. Ihr\", \"stable\": true, \"start\": 1.2, \"end\": "
    "2}\n"
    "\n"
    "{\"text\": \" Hund\", \"stable\": false, \"start\": 2.00, \"end\": 2.40}\n"
    "{\"text\": \" Hund schl\\u00e4ft\", \"stable\": true, \"start\": 2.00, \"end\": 2.60}\n"
    "{\"text\": \" Danke \\ud83d\\ude00\", \"stable\": true, \"start\": 3.20, \"end\": 3.60}\n";

static void check_transcribed(void) {
    static const char *const wrong[] = {"{",
                                        "{}",
                                        "[1]",
                                        "{\"text\": 1, \"stable\": true}",
                                        "{\"text\": \"a",
                                        "{\"text\": \"\\x\"}",
                                        "{\"text\": \"\\u12g4\"}",
                                        "{\"text\": \"a\"} b",
                                        "{\"text\": \"a\", \"b\": {\"c\": 1}}",
                                        "Hallo"};
    text_buffer text, one;
    size_t i;
    memset(&text, 0, sizeof text), memset(&one, 0, sizeof one);
    SECTION("lines of transcribe");
    append(&text, heard_lines);
    check_cuttings("fragments", &text, LIVE_LINES_JSON, 3);
    CHECK(strstr(output.data, "\"source\": \"Die Nachbarin isst gern\", ") != NULL,
          "a guess of the recognizer is a part of the source");
    CHECK(strstr(output.data, "\"source\": \"Die Nachbarin isst gerne \xC3\x84pfel.\", ") != NULL &&
              strstr(output.data, "\"source\": \"Ihr Hund schl\xC3\xA4"
                                  "ft\", ") != NULL &&
              strstr(output.data, "\"source\": \"Danke \xF0\x9F\x98\x80\", ") != NULL,
          "the end of a sentence and a pause end a text");
    for (i = 0; i < sizeof wrong / sizeof *wrong; i++) append(&one, wrong[i]), append(&one, "\n");
    CHECK(translate(one.data, one.size, 0, LIVE_LINES_JSON) == (int64_t)i && !output.size,
          "each of %d wrong lines is named, and nothing is translated: %s", (int)i, messages.data);
    text_buffer_free(&text), text_buffer_free(&one);
}

static void show_nothing(void *user, int is_done) { (void)user, (void)is_done; }

/* Two models in a row: the German model reads the English text of itself and mostly copies it. */
static void check_two(void) {
    enum { N = 12 };
    text_buffer text;
    live_pipeline pipeline;
    char between[1024], expected[1024];
    tfm_error err;
    int i, same = 0;
    memset(&text, 0, sizeof text);
    SECTION("two models");
    for (i = 0; i < N; i++) append(&text, sentences[i]), append(&text, "\n");
    translate(text.data, text.size, 0, LIVE_LINES_TEXT), look();
    same = seen.lines;
    has_second = 1;
    check_cuttings("lines", &text, LIVE_LINES_TEXT, N);
    CHECK(seen.lines == same, "the lines are those of one model: %d of %d", seen.lines, same);
    CHECK(tfm_translate(session, sentences[2], between, sizeof between, &err) == TFM_OK &&
              tfm_translate(session, between, expected, sizeof expected, &err) == TFM_OK,
          "");
    append(&seen.texts, ""), text_buffer_append(&seen.texts, "", 1);
    CHECK(strstr(seen.texts.data, expected) != NULL,
          "a word alone has the translation of both models: %s", expected);
    text.size = 0;
    for (i = 0; i < N; i++) append(&text, sentences[i]), append(&text, " ");
    check_cuttings("one line of several sentences", &text, LIVE_LINES_TEXT, 1);
    text.size = 0;
    append(&text, heard_lines);
    check_cuttings("fragments", &text, LIVE_LINES_JSON, 3);
    has_second = 0;
    memset(&pipeline, 0, sizeof pipeline);
    pipeline.first = &l, pipeline.second = &second, pipeline.show = show_nothing;
    live_translation_clear(&l), live_translation_clear(&second);
    live_pipeline_line(&pipeline, sentences[0], 22);
    CHECK(l.stable && l.text.size > l.stable && second.source.size == l.stable &&
              memcmp(second.source.data, l.text.data, l.stable) == 0 &&
              second.guess.size == l.text.size - l.stable &&
              memcmp(second.guess.data, l.text.data + l.stable, second.guess.size) == 0,
          "the second model's source is the first one's stable text, its guess is the guess");
    text_buffer_free(&text);
}

/* The steps of a long input are in proportion to its bytes. */
static void check_long(void) {
    static const struct {
        const char *name, *piece;
        live_lines_input input;
    } all[] = {{"sentences",
                "Der Hund schl\xC3\xA4"
                "ft. ",
                LIVE_LINES_TEXT},
               {"a word", "ab", LIVE_LINES_TEXT}};
    size_t i;
    SECTION("long lines");
    for (i = 0; i < sizeof all / sizeof *all; i++) {
        text_buffer text;
        int64_t steps[2];
        size_t written[2], k;
        memset(&text, 0, sizeof text);
        for (k = 0; k < 2; k++) {
            while (text.size < (k ? 9000u : 4500u)) append(&text, all[i].piece);
            l.steps = 0;
            translate(text.data, text.size, 0, all[i].input);
            steps[k] = l.steps, written[k] = output.size;
        }
        check_output(all[i].name, 1);
        CHECK(steps[1] < 3 * steps[0] && written[1] < 5 * written[0],
              "%s: %ld and %ld steps, %ld and %ld bytes for a line and for one twice as long",
              all[i].name, (long)steps[0], (long)steps[1], (long)written[0], (long)written[1]);
        text_buffer_free(&text);
    }
}

int main(void) {
    tfm_error err;
    tfm_session_options limits;
    /* functions of the headers that this test does not call */
    (void)reader_line, (void)reader_ready, (void)reader_size, (void)reader_reads,
        (void)reader_close;
    (void)encoding_of_line, (void)interrupts_end, (void)live_lines_run;
    if (tfm_model_load_file(&model, "examples/models/de-en.safetensors", NULL, &err) != TFM_OK)
        return fprintf(stderr, "%s\n", err.text), 1;
    live_translation_limits(model, &limits);
    if (tfm_session_create(&session, model, &limits, &err) != TFM_OK)
        return fprintf(stderr, "%s\n", err.text), 1;
    live_translation_begin(&l, model, session, tfm_model_decoding(model));
    if (tfm_session_create(&session_of_second, model, &limits, &err) != TFM_OK)
        return fprintf(stderr, "%s\n", err.text), 1;
    live_translation_begin(&second, model, session_of_second, tfm_model_decoding(model));
    check_text();
    check_bytes();
    check_transcribed();
    check_two();
    check_long();
    live_translation_free(&l), live_translation_free(&second);
    text_buffer_free(&output), text_buffer_free(&messages), text_buffer_free(&seen.texts);
    tfm_session_free(session), tfm_session_free(session_of_second), tfm_model_free(model);
    return test_done("test_live_translation");
}
