/* live_lines.h: translates lines while they come, and writes each word of the translation as soon
   as it is stable.

       live_lines lines = {0};
       lines.texts.first = &translation, lines.in = &stream, lines.out = stdout;
       failures = live_lines_run(&lines);

   The input is text, of which a line's end ends a text. Or it is the JSON lines of
   `transcribe --live --format json`: then the end of a sentence in stable text, or a pause, ends a
   text. The first byte of the input decides, unless the user did.

   The output is flushed after each word, so a slow reader makes the program wait, and it reads no
   further. Ctrl-C ends the text that is being translated, writes it, and ends the program.

   Include transformer.h, interrupts.h, reader.h and progress.h before this header. */
#ifndef LIVE_LINES_H
#define LIVE_LINES_H

#include "live_pipeline.h"

typedef enum live_lines_input { LIVE_LINES_ANY, LIVE_LINES_TEXT, LIVE_LINES_JSON } live_lines_input;
enum {
    LIVE_LINES_OBJECT = 1 << 20, /* bytes of a JSON line, at most */
    LIVE_LINES_COLUMNS = 79,     /* of a terminal */
    LIVE_LINES_WAIT = 200        /* milliseconds between two looks for Ctrl-C */
};
/* In seconds: a program that translates words which came so long ago is late, and reads the others
   together. */
static const double LIVE_LINES_LATE = 1;

typedef struct live_lines {
    live_pipeline texts; /* its members first and second */
    reader_stream *in;
    FILE *out;
    live_lines_input input;
    int is_json, is_terminal;              /* how to write */
    int fault;                             /* set: errno, if the output cannot be written */
    void (*complain)(const char *message); /* called when a line cannot be translated or read */
    /* What follows is this header's own. */
    text_buffer line, object, shown; /* of the input as JSON; of the output; of a terminal */
    size_t written;                  /* bytes of the text's stable text that were written */
    int is_long;                     /* the JSON line is too long, and is left out */
    int64_t number, failures;        /* lines that were read; those that failed */
    double came;                     /* when the last bytes came, by progress_now */
    int has_waited;                  /* the program has waited for the text */
} live_lines;

/* ---- the output ------------------------------------------------------------------------------ */

/* Returns how many bytes of text fit into some columns, and how many columns they take. */
static size_t live_lines_fit(const char *text, size_t size, int columns, int *taken) {
    size_t at = 0, n;
    uint32_t c;
    for (*taken = 0; at < size; at += n) {
        int width;
        n = tfm_character_next(text + at, size - at, &c);
        width = character_is_wide(c) ? 2 : 1;
        if (*taken + width > columns) break;
        *taken += width;
    }
    return at;
}

/* Writes new stable text to a terminal, and the guess in grey behind it. s->shown is the stable
   text of the terminal's last line, which is written again in place. */
static void live_lines_show(live_lines *s, const live_translation *l) {
    const char *text = l->text.data + s->written;
    size_t size = l->stable - s->written, n;
    int used = 0, more = 0;
    fputs("\r\033[K", s->out);
    while (size) { /* a word, or a character of a script without spaces */
        uint32_t c;
        for (n = tfm_character_next(text, size, &c);
             n < size && text[n] != ' ' && !character_is_wide(c);)
            n += tfm_character_next(text + n, size - n, &c);
        (void)live_lines_fit(s->shown.data, s->shown.size, 1 << 20, &used);
        (void)live_lines_fit(text, n, 1 << 20, &more);
        if (s->shown.size && used + more > LIVE_LINES_COLUMNS) {
            fprintf(s->out, "%.*s\n", (int)s->shown.size, s->shown.data), s->shown.size = 0;
            if (*text == ' ') text++, size--, n--;
        }
        text_buffer_append(&s->shown, text, n);
        text += n, size -= n;
    }
    (void)live_lines_fit(s->shown.data, s->shown.size, 1 << 20, &used);
    if (s->shown.size) fwrite(s->shown.data, 1, s->shown.size, s->out);
    text = l->text.data + l->stable, size = l->text.size - l->stable;
    n = live_lines_fit(text, size, LIVE_LINES_COLUMNS - used, &more);
    if (n) fprintf(s->out, "\033[90m%.*s\033[0m", (int)n, text);
}

/* Writes what a run has given. */
static void live_lines_write(void *user, int is_done) {
    live_lines *s = (live_lines *)user;
    const live_translation *l = live_pipeline_shown(&s->texts);
    if (s->is_json) {
        s->object.size = 0;
        live_pipeline_object(&s->texts, is_done, &s->object);
        if (s->object.size) fwrite(s->object.data, 1, s->object.size, s->out);
    } else if (s->is_terminal) {
        live_lines_show(s, l);
        if (is_done) putc('\n', s->out), s->shown.size = 0;
    } else {
        fwrite(l->text.data + s->written, 1, l->stable - s->written, s->out);
        if (is_done) putc('\n', s->out);
    }
    s->written = is_done ? 0 : l->stable;
    if ((fflush(s->out) || ferror(s->out)) && !s->fault) s->fault = errno ? errno : EIO;
}

/* Returns whether to read no more: after Ctrl-C, and if the output cannot be written. */
static int live_lines_stops(const live_lines *s) { return s->fault || interrupts_stopped(); }

static live_pipeline_pace live_lines_pace(void *user) {
    const live_lines *s = (const live_lines *)user;
    return live_lines_stops(s)                                           ? LIVE_PIPELINE_STOP
           : s->has_waited && progress_now() - s->came > LIVE_LINES_LATE ? LIVE_PIPELINE_ALL_WORDS
                                                                         : LIVE_PIPELINE_EACH_WORD;
}

static void live_lines_complain(live_lines *s, const char *text) {
    char message[400];
    snprintf(message, sizeof message, "line %ld: %s", (long)s->number + 1, text);
    s->complain(message), s->failures++;
}
static void live_lines_failed(void *user, const tfm_error *err) {
    live_lines_complain((live_lines *)user, err->text);
}

/* Sets what s->texts calls. */
static void live_lines_begin(live_lines *s) {
    s->texts.user = s, s->texts.show = live_lines_write, s->texts.fail = live_lines_failed;
    s->texts.pace = live_lines_pace;
}

/* Reads bytes of text. */
static void live_lines_text(live_lines *s, const char *bytes, size_t size) {
    while (size && !live_lines_stops(s)) {
        size_t n = live_pipeline_line(&s->texts, bytes, size);
        s->number += bytes[n - 1] == '\n';
        bytes += n, size -= n;
    }
}

/* ---- lines of transcribe --------------------------------------------------------------------- */

/* What a line of transcribe has. */
typedef struct live_lines_heard {
    text_buffer text;
    int has_text, is_stable;
    double start, end;
} live_lines_heard;

static const char *live_lines_blank(const char *at) { return at + strspn(at, " \t\r"); }

/* Reads four hexadecimal digits; returns -1 if they are none. */
static long live_lines_hex(const char *at) {
    long value = 0;
    int i;
    for (i = 0; i < 4; i++) {
        static const char digits[] = "0123456789abcdef0123456789ABCDEF";
        const char *digit = at[i] ? strchr(digits, at[i]) : NULL;
        if (!digit) return -1;
        value = value * 16 + (long)((digit - digits) % 16);
    }
    return value;
}

/* Appends a character in UTF-8. */
static void live_lines_character(text_buffer *b, long c) {
    char text[4];
    int n = c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4, i;
    for (i = n - 1; i > 0; i--) text[i] = (char)(0x80 | (c & 0x3F)), c >>= 6;
    text[0] = (char)(n == 1 ? c : c | (0xF00 >> n & 0xFF));
    text_buffer_append(b, text, (size_t)n);
}

/* Reads a string of JSON at its quotation mark into b. Returns what is behind it, or NULL. */
static const char *live_lines_read_string(const char *at, text_buffer *b) {
    static const char names[] = "\"\\/bfnrt", values[] = "\"\\/\b\f\n\r\t";
    long c, low;
    b->size = 0;
    for (at++; *at && *at != '"';) {
        size_t n = strcspn(at, "\"\\");
        text_buffer_append(b, at, n), at += n;
        if (*at != '\\') continue;
        at++;
        if (*at == 'u') {
            if ((c = live_lines_hex(at + 1)) < 0) return NULL;
            at += 5;
            if (c >= 0xD800 && c < 0xDC00 && at[0] == '\\' && at[1] == 'u' &&
                (low = live_lines_hex(at + 2)) >= 0xDC00 && low < 0xE000)
                c = 0x10000 + ((c - 0xD800) << 10) + (low - 0xDC00), at += 6;
            if (c >= 0xD800 && c < 0xE000) c = 0xFFFD;
            live_lines_character(b, c);
        } else {
            const char *name = *at ? strchr(names, *at) : NULL;
            if (!name) return NULL;
            text_buffer_append(b, values + (name - names), 1), at++;
        }
    }
    return *at == '"' ? at + 1 : NULL;
}

/* Reads a line of transcribe: an object of strings, numbers and words. Returns 0 if it is none. */
static int live_lines_read(const char *at, live_lines_heard *heard) {
    text_buffer name;
    char *end;
    memset(&name, 0, sizeof name);
    heard->has_text = heard->is_stable = 0, heard->start = heard->end = -1;
    at = live_lines_blank(at);
    if (*at != '{') return 0;
    do {
        at = live_lines_blank(at + 1);
        at = *at == '"' ? live_lines_read_string(at, &name) : NULL;
        if (at) at = live_lines_blank(at);
        if (!at || *at != ':' || !name.data) break;
        at = live_lines_blank(at + 1);
        if (*at == '"') {
            int is_text = strcmp(name.data, "text") == 0;
            at = live_lines_read_string(at, is_text ? &heard->text : &name);
            heard->has_text |= is_text;
        } else {
            if (strcmp(name.data, "stable") == 0) heard->is_stable = strncmp(at, "true", 4) == 0;
            if (strcmp(name.data, "start") == 0) heard->start = strtod(at, &end);
            if (strcmp(name.data, "end") == 0) heard->end = strtod(at, &end);
            at += strcspn(at, ",}{[\" \t");
        }
        if (at) at = live_lines_blank(at);
    } while (at && *at == ',');
    text_buffer_free(&name);
    return at && *at == '}' && !*live_lines_blank(at + 1) && heard->has_text && !heard->text.broken;
}

/* Reads a line of transcribe. */
static void live_lines_transcribed(live_lines *s, live_lines_heard *heard) {
    const char *text = s->line.data;
    if (!s->line.size || !*live_lines_blank(text)) return;
    if (strlen(text) != s->line.size || !live_lines_read(text, heard)) {
        live_lines_complain(s, "this is no line of transcribe --live --format json (--input text "
                               "translates the lines as they are)");
        return;
    }
    if (heard->text.size) live_pipeline_wait(&s->texts, heard->start);
    if (heard->is_stable)
        live_pipeline_hear(&s->texts, heard->text.data, heard->text.size, heard->end);
    else live_pipeline_guess(&s->texts, heard->text.data, heard->text.size);
}

/* Reads bytes of lines of transcribe. */
static void live_lines_json(live_lines *s, live_lines_heard *heard, const char *bytes,
                            size_t size) {
    while (size && !live_lines_stops(s)) {
        const char *newline = (const char *)memchr(bytes, '\n', size);
        size_t n = newline ? (size_t)(newline - bytes) : size;
        s->is_long |= s->line.size + n > LIVE_LINES_OBJECT;
        if (!s->is_long) text_buffer_append(&s->line, bytes, n);
        if (newline) {
            if (s->is_long) live_lines_complain(s, "over 1 MB");
            else live_lines_transcribed(s, heard);
            s->line.size = 0, s->is_long = 0, s->number++;
        }
        bytes += n + (newline != NULL), size -= n + (newline != NULL);
    }
}

/* ---- the input ------------------------------------------------------------------------------- */

/* Waits for bytes of the input. Returns 0 at its end, and after Ctrl-C. */
static int live_lines_fill(live_lines *s) {
    reader_stream *r = s->in;
    for (;;) {
        if (live_lines_stops(s)) return 0;
        if (r->begin < r->end) return 1;
        if (!r->file && !reader_open(r)) return 0;
#ifdef READER_POSIX
        {
            struct pollfd poll_in;
            poll_in.fd = fileno(r->file), poll_in.events = POLLIN;
            if (poll_in.fd >= 0 && !r->ended && poll(&poll_in, 1, LIVE_LINES_WAIT) <= 0) {
                s->has_waited = 1;
                continue;
            }
        }
#endif
        if (!reader_fill(r) && (r->fault || !reader_open(r))) return 0;
        s->came = progress_now();
    }
}

/* Translates the input up to its end. Returns how many lines failed. */
static int64_t live_lines_run(live_lines *s) {
    live_translation *l = s->texts.first;
    live_lines_heard heard;
    memset(&heard, 0, sizeof heard);
    live_lines_begin(s);
    while (live_lines_fill(s)) {
        const char *bytes = s->in->data + s->in->begin;
        size_t size = s->in->end - s->in->begin;
        if (s->input == LIVE_LINES_ANY)
            s->input = *bytes == '{' ? LIVE_LINES_JSON : LIVE_LINES_TEXT;
        if (s->input == LIVE_LINES_JSON) live_lines_json(s, &heard, bytes, size);
        else live_lines_text(s, bytes, size);
        s->in->begin = s->in->end;
    }
    if (s->line.size && !s->is_long && !live_lines_stops(s)) live_lines_transcribed(s, &heard);
    if (live_lines_stops(s) && live_translation_is_due(l)) l->source.size = l->read;
    if (s->texts.is_begun && !s->fault) live_pipeline_end(&s->texts);
    text_buffer_free(&heard.text), text_buffer_free(&s->line), text_buffer_free(&s->object);
    text_buffer_free(&s->shown);
    return s->failures;
}

#endif
