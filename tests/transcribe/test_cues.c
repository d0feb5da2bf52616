/* Tests examples/transcribe/cues.h: texts of every kind in each form of output, read again by rules
   that are those of the readers of the form (JSON's grammar, WebVTT's standard, pysubs2's and
   ffmpeg's way to find times in SRT). */
#define _POSIX_C_SOURCE 200809L
#include "test.h"
#include <unistd.h>

static void cue_fail(const char *text) {
    printf("%s\n", text);
    exit(2);
}
#include "../../examples/transcribe/cues.h"

static const char *written(cue_form form, const char *text) {
    static cue_line line;
    cue_output.form = form;
    cue_clear(&line), cue_append_text(&line, text);
    return line.at;
}

static void test_forms(void) {
    static const struct {
        const char *text, *json, *vtt, *srt, *plain;
    } cases[] = {
        {"plain", "\"plain\"", "plain", "plain", "plain"},
        {"", "\"\"", "", "", ""},
        {"a \"b\" \\c", "\"a \\\"b\\\" \\\\c\"", "a \"b\" \\c", "a \"b\" \\c", "a \"b\" \\c"},
        {"AT&T <b>x</b>", "\"AT&T <b>x</b>\"", "AT&amp;T &lt;b&gt;x&lt;/b&gt;", "AT&T <b>x</b>",
         "AT&T <b>x</b>"},
        {"a --> b", "\"a --> b\"", "a --&gt; b", "a -> b", "a --> b"},
        {"---->-->", "\"---->-->\"", "----&gt;--&gt;", "->->", "---->-->"},
        {"-- >", "\"-- >\"", "-- &gt;", "-- >", "-- >"},
        {"00:00:01,000 --> 00:00:02,000 x", "\"00:00:01,000 --> 00:00:02,000 x\"",
         "00:00:01,000 --&gt; 00:00:02,000 x", "00:00:01,000 ->\n00:00:02,000 x",
         "00:00:01,000 --> 00:00:02,000 x"},
        {"1:2:3.4 5:6:7,8901", "\"1:2:3.4 5:6:7,8901\"", "1:2:3.4 5:6:7,8901",
         "1:2:3.4\n5:6:7,8901", "1:2:3.4 5:6:7,8901"},
        {"at 12:30 and 1:2:3", "\"at 12:30 and 1:2:3\"", "at 12:30 and 1:2:3", "at 12:30 and 1:2:3",
         "at 12:30 and 1:2:3"},
        {"a\n\nb\r\tc", "\"a\\u000a\\u000ab\\u000d\\u0009c\"", "a  b  c", "a  b  c", "a  b  c"},
        {"\x1b[31m\x7f\xc2\x9b"
         "2J",
         "\"\\u001b[31m\\u007f\\u009b2J\"", " [31m  2J", " [31m  2J", " [31m  2J"},
        {"a\xe2\x80\xa8"
         "b\xe2\x80\xa9",
         "\"a\\u2028b\\u2029\"", "a b ", "a b ", "a b "},
        {"\xe5\xad\xa6 \xf0\x9f\x91\x8d", "\"\xe5\xad\xa6 \xf0\x9f\x91\x8d\"",
         "\xe5\xad\xa6 \xf0\x9f\x91\x8d", "\xe5\xad\xa6 \xf0\x9f\x91\x8d",
         "\xe5\xad\xa6 \xf0\x9f\x91\x8d"},
        {"\x80\xe5", "\"\\ufffd\\ufffd\"", "  ", "  ", "  "},
    };
    size_t i;
    for (i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *got = written(CUE_JSON, cases[i].text);
        CHECK(strcmp(got, cases[i].json) == 0, "json: %s", got);
        got = written(CUE_VTT, cases[i].text);
        CHECK(strcmp(got, cases[i].vtt) == 0, "vtt: %s", got);
        got = written(CUE_SRT, cases[i].text);
        CHECK(strcmp(got, cases[i].srt) == 0, "srt: %s", got);
        got = written(CUE_TEXT, cases[i].text);
        CHECK(strcmp(got, cases[i].plain) == 0, "text: %s", got);
    }
}

/* A text of any length is whole, and takes memory in proportion. */
static void test_long(void) {
    size_t n = 3000000, i;
    char *text = (char *)malloc(n + 1);
    cue_line line = {NULL, 0, 0};
    if (!text) exit(2);
    memset(text, '"', n), text[n] = 0;
    cue_output.form = CUE_JSON;
    cue_append_text(&line, text);
    for (i = 0; i < n && line.at[1 + 2 * i] == '\\' && line.at[2 + 2 * i] == '"';) i++;
    CHECK(i == n && line.n == 2 * n + 2 && line.at[line.n - 1] == '"', "%d of %d escapes", (int)i,
          (int)n);
    CHECK(line.room <= 2 * line.n + 2048, "%d bytes for %d", (int)line.room, (int)line.n);
    cue_clear(&line), cue_append(&line, "%s", text);
    CHECK(line.n == n, "by printf's way");
    cue_clear(&line), cue_append_number(&line, "%.1f", INFINITY),
        cue_append_number(&line, "%.1f", NAN);
    cue_append_number(&line, "%.1f", -1.5);
    CHECK(strcmp(line.at, "nullnull-1.5") == 0, "numbers: %s", line.at);
    free(line.at), free(text);
}

/* What is printed: times that go back or are below 0, and texts without anything to see. */
static void test_print(void) {
    static const char path[] = "build/test_cues.out";
    static const char wanted[] =
        "1\n00:00:00,000 --> 00:00:00,000\nx\n\n2\n00:00:02,000 --> 00:00:02,000\ny\n\n";
    char got[200] = "";
    FILE *f;
    size_t n;
    int before = dup(1);
    fflush(stdout);
    if (before < 0 || !freopen(path, "wb", stdout)) exit(2);
    cue_output.form = CUE_SRT;
    cue_add(0, -3, -1, "x"), cue_add(0, 1, 2, "   "), cue_add(0, 2, 1, "  y"),
        cue_add(0, 0, 0, NULL);
    fflush(stdout);
    if (dup2(before, 1) != 1) exit(2);
    close(before);
    f = fopen(path, "rb");
    n = f ? fread(got, 1, sizeof got - 1, f) : 0;
    if (f) fclose(f);
    got[n] = 0;
    CHECK(strcmp(got, wanted) == 0, "srt: %s", got);
}

/* Lines of WebVTT with two times, which pysubs2 would take for the times of a cue. */
static void test_times(void) {
    static const struct {
        const char *text, *wanted;
    } cases[] = {
        {"<00:00:01.000><c>a</c>", "<00:00:01.000><c>a</c>"},
        {"<00:00:01.000><c>a</c><00:00:02.000><c> b</c>", "<c>a</c><00:00:02.000><c> b</c>"},
        {"<00:00:01.000><c>a</c><00:00:02.000><c> b</c><00:00:03.000><c> c</c>",
         "<00:00:01.000><c>a</c><00:00:02.000><c> b</c><00:00:03.000><c> c</c>"},
        {"<00:00:01.000><c>at 12:34.56</c>", "<c>at 12:34.56</c>"},
        {"12:34.56 or 1:02:03.456", "12:34.56 or \n1:02:03.456"},
        {"12345:01:02.33:04:05.67", "12345:01:02.33\n:04:05.67"},
        {"12:34.5 or 2:34.567 or 1:2:3.4", "12:34.5 or 2:34.567 or 1:2:3.4"},
        {"12:34.56, 12:34.57, 12:34.58", "12:34.56, 12:34.57, 12:34.58"},
    };
    char text[200];
    size_t i;
    for (i = 0; i < sizeof cases / sizeof *cases; i++) {
        strcpy(text, cases[i].text), cue_part_times(text);
        CHECK(strcmp(text, cases[i].wanted) == 0, "%s: got %s, wanted %s", cases[i].text, text,
              cases[i].wanted);
    }
}

int main(void) {
    test_forms();
    test_times();
    test_long();
    test_print();
    return test_done("test_cues");
}
