/* cues.h: writes texts with their times, as text, subtitles or JSON, in the order of the
   sound. Several threads may each hear a part of it: the cues of a later part wait until the
   earlier parts are done. Needs a function cue_fail(text) before it, which ends the program.

   A text may be anything that a model has tokens for. cue_append_text writes it so that no reader
   takes a part of it for something else, and no terminal obeys it:

   - JSON has escapes for quotation marks, backslashes, control characters and ends of lines.
   - In the other forms, each control character and end of a line becomes a space.
   - WebVTT has &amp; &lt; &gt;, so a text has no tags and no arrow. pysubs2 takes a line with
     exactly two times for the times of a cue, so cue_add leaves out the first word's time there, or
     begins a new line.
   - SRT has no escapes. A reader may take a line with an arrow for the times of a cue. ffmpeg
     does so if two times stand around the arrow, and pysubs2 if the line has two times, with an
     arrow or without. So --> becomes ->, and what has several times is written in several lines.
     Tags stay as they are. */
#ifndef CUES_H
#define CUES_H

#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "../../tools/common/messages.h"

enum { CUE_LANES = 64 };
typedef enum cue_form { CUE_TEXT, CUE_SRT, CUE_VTT, CUE_JSON } cue_form;

typedef struct cue {
    double begin, end;
    char *text;
} cue;

/* The cues of a part of the sound that are not yet written. */
typedef struct cue_lane {
    cue *cues;
    int32_t n, n_written, capacity;
    int is_done;
} cue_lane;

static struct {
    FILE *file; /* NULL: standard output */
    cue_form form;
    int with_times; /* CUE_TEXT: each line begins with its times */
    cue_lane lanes[CUE_LANES];
    int n_lanes, writing; /* the lane that is written; later ones wait */
    int32_t number;       /* of the last cue, for SRT */
    pthread_mutex_t lock;
} cue_output = {NULL, CUE_TEXT, 0, {{NULL, 0, 0, 0, 0}}, 1, 0, 0, PTHREAD_MUTEX_INITIALIZER};

static FILE *cue_file(void) { return cue_output.file ? cue_output.file : stdout; }

/* Begins the output of a sound. */
static inline void cue_begin(FILE *file, int n_lanes) {
    memset(cue_output.lanes, 0, sizeof cue_output.lanes);
    cue_output.file = file, cue_output.n_lanes = n_lanes;
    cue_output.writing = cue_output.number = 0;
    if (cue_output.form == CUE_VTT) fputs("WEBVTT\n\n", cue_file());
}

/* Writes a time as 00:01:02,345. In the text form, hours are left out as long as there are none. */
static void cue_print_time(double seconds) {
    int64_t ms = (int64_t)(seconds * 1000 + 0.5);
    if (cue_output.form != CUE_TEXT || ms >= 3600000)
        fprintf(cue_file(), "%02d:", (int)(ms / 3600000));
    fprintf(cue_file(), "%02d:%02d%c%03d", (int)(ms / 60000 % 60), (int)(ms / 1000 % 60),
            cue_output.form == CUE_SRT ? ',' : '.', (int)(ms % 1000));
}

static void cue_print(const cue *c) {
    int is_subtitle = cue_output.form == CUE_SRT || cue_output.form == CUE_VTT;
    int is_plain = cue_output.form == CUE_TEXT && cue_output.with_times;
    FILE *f = cue_file();
    if (cue_output.form == CUE_SRT) fprintf(f, "%d\n", (int)++cue_output.number);
    if (is_plain) putc('[', f);
    if (is_plain || is_subtitle) {
        cue_print_time(c->begin);
        fputs(" --> ", f);
        cue_print_time(c->end);
    }
    if (is_plain) fputs("] ", f);
    fprintf(f, is_subtitle ? "\n%s\n\n" : "%s\n", c->text);
}

/* Returns the size of a time of WebVTT such as 01:02.345 at text, or 0. */
static size_t cue_short_time(const char *text) {
    static const char form[] = "00:00.00";
    size_t hours = strspn(text, "0123456789"), i;
    const char *at = hours <= 4 && text[hours] == ':' ? text + hours + 1 : text;
    for (;; at = text) {
        for (i = 0; form[i] == '0' ? at[i] >= '0' && at[i] <= '9' : form[i] && at[i] == form[i];)
            i++;
        if (!form[i]) return (size_t)(at - text) + i + (at[i] >= '0' && at[i] <= '9');
        if (at == text) return 0;
    }
}

/* Changes a text of WebVTT that has two times, which has room for one more byte. A word's time
   before the text is the time of the cue, which no reader needs twice. */
static void cue_part_times(char *text) {
    char *at, *second = NULL;
    int count = 0;
    for (at = text; *at;) {
        size_t n = cue_short_time(at);
        if (n && ++count == 2) second = at;
        at += n ? n : 1;
    }
    if (count != 2) return;
    if (*text == '<') {
        at = strchr(text, '>') + 1;
        memmove(text, at, strlen(at) + 1);
    } else {
        second -= second[-1] == '<';
        memmove(second + 1, second, strlen(second) + 1), *second = '\n';
    }
}

/* Adds a cue to a lane, and writes all cues whose turn it is. text NULL: the lane is done. The text
   is one that cue_append_text has written. */
static void cue_add(int number, double begin, double end, const char *text) {
    cue_lane *lane = &cue_output.lanes[number];
    if (text && cue_output.form != CUE_JSON) {
        text += strspn(text, " ");
        if (!*text) return; /* a subtitle without text would end early */
    }
    pthread_mutex_lock(&cue_output.lock);
    if (!text) lane->is_done = 1;
    if (text && lane->n == lane->capacity) {
        lane->capacity = 2 * lane->capacity + 16;
        lane->cues = (cue *)realloc(lane->cues, (size_t)lane->capacity * sizeof *lane->cues);
    }
    if (text) {
        cue *c = lane->cues ? &lane->cues[lane->n++] : NULL;
        if (!c || !(c->text = (char *)malloc(strlen(text) + 2))) cue_fail("no memory for the text");
        c->begin = begin > 0 ? begin : 0, c->end = end > c->begin ? end : c->begin;
        memcpy(c->text, text, strlen(text) + 1);
        if (cue_output.form == CUE_VTT) cue_part_times(c->text);
    }
    while (cue_output.writing < cue_output.n_lanes) {
        cue_lane *now = &cue_output.lanes[cue_output.writing];
        for (; now->n_written < now->n; now->n_written++) {
            cue_print(&now->cues[now->n_written]);
            free(now->cues[now->n_written].text);
        }
        now->n = now->n_written = 0;
        if (!now->is_done) break;
        free(now->cues), now->cues = NULL, cue_output.writing++;
    }
    if (fflush(cue_file()) || ferror(cue_file()))
        cue_fail(cue_output.file ? "the output file cannot be written"
                                 : "standard output cannot be written");
    pthread_mutex_unlock(&cue_output.lock);
}

/* A text that grows. Begin with zeros; free(at) ends it. */
typedef struct cue_line {
    char *at;
    size_t n, room;
} cue_line;

/* Makes room for n more bytes and a terminator. */
static void cue_reserve(cue_line *out, size_t n) {
    size_t room = out->room;
    char *larger;
    if (n < room - out->n) return;
    while (n >= room - out->n) room = 2 * room + 1024;
    larger = (char *)realloc(out->at, room);
    if (!larger) cue_fail("no memory for the text");
    out->at = larger, out->room = room;
}

static void cue_clear(cue_line *out) {
    cue_reserve(out, 0);
    out->n = 0, out->at[0] = 0;
}

/* Appends what printf would write. */
static void cue_append(cue_line *out, const char *format, ...) {
    va_list arguments;
    int n;
    cue_reserve(out, 100);
    for (;;) {
        va_start(arguments, format);
        n = vsnprintf(out->at + out->n, out->room - out->n, format, arguments);
        va_end(arguments);
        if (n < 0) cue_fail("a text cannot be written");
        if ((size_t)n < out->room - out->n) break;
        cue_reserve(out, (size_t)n);
    }
    out->n += (size_t)n;
}

/* Appends a number for JSON, which has no infinity and no NaN. */
static inline void cue_append_number(cue_line *out, const char *format, double value) {
    if (value - value == 0) cue_append(out, format, value);
    else cue_append(out, "null");
}

/* Returns the size of a time such as 1:02:03,4 at text, or 0. */
static size_t cue_time(const char *text) {
    static const int most[] = {2, 2, 2, 3};
    const char *at = text;
    int part, n;
    for (part = 0; part < 4; part++) {
        for (n = 0; n < most[part] && *at >= '0' && *at <= '9'; n++) at++;
        if (!n) return 0;
        if (part < 2 && *at++ != ':') return 0;
        if (part == 2 && *at != '.' && *at != ',') return 0;
        at += part == 2;
    }
    return (size_t)(at - text);
}

/* Appends a text in the output's form; JSON with its quotation marks. */
static void cue_append_text(cue_line *out, const char *text) {
    cue_form form = cue_output.form;
    unsigned long c;
    int had_time = 0;
    if (form == CUE_JSON) cue_append(out, "\"");
    while (*text) {
        int n = output_decode(text, &c), is_control;
        size_t time = form == CUE_SRT ? cue_time(text) : 0, dashes = strspn(text, "-");
        is_control = !n || c < 0x20 || (c >= 0x7F && c < 0xA0) || c == 0x2028 || c == 0x2029;
        if (form == CUE_JSON && (is_control || c == '"' || c == '\\')) {
            if (!n) c = 0xFFFD; /* a byte that is not UTF-8 */
            cue_append(out, c == '"' || c == '\\' ? "\\%c" : "\\u%04x", (int)c);
        } else if (is_control) {
            cue_append(out, " ");
        } else if (time) {
            if (had_time) {
                while (out->n && out->at[out->n - 1] == ' ') out->n--;
                cue_append(out, "\n");
            }
            cue_append(out, "%.*s", (int)time, text);
            had_time = 1, n = (int)time;
        } else if (form == CUE_SRT && dashes > 1 && text[dashes] == '>') {
            cue_append(out, "->"), n = (int)dashes + 1;
        } else if (form == CUE_VTT && (c == '&' || c == '<' || c == '>')) {
            cue_append(out, c == '&' ? "&amp;" : c == '<' ? "&lt;" : "&gt;");
        } else {
            cue_append(out, "%.*s", n, text);
        }
        text += n ? n : 1;
    }
    if (form == CUE_JSON) cue_append(out, "\"");
}

#endif
