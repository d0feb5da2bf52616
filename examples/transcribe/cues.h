/* cues.h: writes texts with their times, as text, subtitles or JSON, in the order of the sound. Several
   threads may each hear a part of it: the cues of a later part wait until the earlier parts are done.
   Needs a function cue_fail(text) before it, which ends the program. */
#ifndef CUES_H
#define CUES_H

#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CUE_LANES = 64, CUE_ROOM = 262144 };
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
    cue_form form;
    int with_times; /* CUE_TEXT: each line begins with its times */
    cue_lane lanes[CUE_LANES];
    int n_lanes, writing; /* the lane that is written; later ones wait */
    int32_t number;       /* of the last cue, for SRT */
    pthread_mutex_t lock;
} cue_output = {CUE_TEXT, 0, {{NULL, 0, 0, 0, 0}}, 1, 0, 0, PTHREAD_MUTEX_INITIALIZER};

/* Writes a time as 00:01:02,345. In the text form, hours are left out as long as there are none. */
static void cue_print_time(double seconds) {
    int64_t ms = (int64_t)(seconds * 1000 + 0.5);
    if (cue_output.form != CUE_TEXT || ms >= 3600000) printf("%02d:", (int)(ms / 3600000));
    printf("%02d:%02d%c%03d", (int)(ms / 60000 % 60), (int)(ms / 1000 % 60),
           cue_output.form == CUE_SRT ? ',' : '.', (int)(ms % 1000));
}

static void cue_print(const cue *c) {
    int is_subtitle = cue_output.form == CUE_SRT || cue_output.form == CUE_VTT;
    int is_plain = cue_output.form == CUE_TEXT && cue_output.with_times;
    if (cue_output.form == CUE_SRT) printf("%d\n", (int)++cue_output.number);
    if (is_plain) putchar('[');
    if (is_plain || is_subtitle) {
        cue_print_time(c->begin);
        fputs(" --> ", stdout);
        cue_print_time(c->end);
    }
    if (is_plain) fputs("] ", stdout);
    printf(is_subtitle ? "\n%s\n\n" : "%s\n", c->text);
}

/* Adds a cue to a lane, and writes all cues whose turn it is. text NULL: the lane is done. */
static void cue_add(int number, double begin, double end, const char *text) {
    cue_lane *lane = &cue_output.lanes[number];
    size_t n;
    pthread_mutex_lock(&cue_output.lock);
    if (!text) lane->is_done = 1;
    if (text && lane->n == lane->capacity) {
        lane->capacity = 2 * lane->capacity + 16;
        lane->cues = (cue *)realloc(lane->cues, (size_t)lane->capacity * sizeof *lane->cues);
    }
    if (text) {
        cue *c = lane->cues ? &lane->cues[lane->n++] : NULL;
        if (!c || !(c->text = (char *)malloc(strlen(text) + 1))) cue_fail("no memory for the text");
        c->begin = begin, c->end = end;
        for (n = 0; text[n]; n++) c->text[n] = (unsigned char)text[n] < 32 ? ' ' : text[n];
        c->text[n] = 0; /* on one line, whatever tokens the model has */
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
    if (fflush(stdout) || ferror(stdout)) cue_fail("standard output cannot be written");
    pthread_mutex_unlock(&cue_output.lock);
}

/* A text that grows; what does not fit is left out. */
typedef struct cue_line {
    char at[CUE_ROOM];
    size_t n;
} cue_line;

/* Appends what printf would write. */
static void cue_append(cue_line *out, const char *format, ...) {
    va_list arguments;
    int n;
    va_start(arguments, format);
    n = vsnprintf(out->at + out->n, sizeof out->at - out->n, format, arguments);
    va_end(arguments);
    if (n > 0 && (size_t)n < sizeof out->at - out->n) out->n += (size_t)n;
}

/* Appends a text in quotation marks, with JSON's escapes. */
static void cue_append_json(cue_line *out, const char *text) {
    cue_append(out, "\"");
    for (; *text; text++)
        cue_append(out,
                   *text == '"' || *text == '\\' ? "\\%c"
                   : (unsigned char)*text < 32   ? "\\u%04x"
                                                 : "%c",
                   *text);
    cue_append(out, "\"");
}

#endif
