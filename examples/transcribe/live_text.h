/* live_text.h: writes live text. Needs live.h and cues.h before it.

   As JSON, each text is a line: {"text": " and so", "stable": true, "start": 0.66, "end": 1.34}.
   The stable texts one after the other, with nothing between them, are the whole text. A text that
   is not stable replaces the last such text. As text, stable words are written as soon as they are
   stable, and a pause ends the line. A terminal also shows the other words, dim, which the next
   run replaces: the line is kept short enough to be rewritten in place. */
#ifndef LIVE_TEXT_H
#define LIVE_TEXT_H

enum { LIVE_TEXT_COLUMNS = 79 };

typedef struct live_text {
    FILE *file;
    int is_terminal;
    cue_line line; /* of a terminal: its stable text. JSON: an object */
    cue_line shown;
    int is_begun; /* the line has text */
} live_text;

static void live_text_object(live_text *t, const char *text, int is_stable, double begin,
                             double end) {
    cue_clear(&t->line);
    cue_append(&t->line, "{\"text\": "), cue_append_text(&t->line, text);
    cue_append(&t->line, ", \"stable\": %s, \"start\": %.2f, \"end\": %.2f}\n",
               is_stable ? "true" : "false", begin, end);
    fputs(t->line.at, t->file);
}

/* Returns the size of the first characters of text that fit into some columns, and how many columns
   they take. Characters from U+1100 on take two. */
static size_t live_text_fit(const char *text, int columns, int *taken) {
    size_t at = 0;
    unsigned long c;
    for (*taken = 0; text[at];) {
        int n = output_decode(text + at, &c), width = n && c >= 0x1100 ? 2 : 1;
        if (*taken + width > columns) break;
        *taken += width, at += n ? (size_t)n : 1;
    }
    return at;
}

/* Rewrites the line of a terminal. Returns without a line's end. */
static void live_text_show(live_text *t, const char *tentative) {
    int used, more;
    size_t n;
    fprintf(t->file, "\r\033[K%s", t->line.at ? t->line.at : "");
    (void)live_text_fit(t->line.at ? t->line.at : "", 1 << 20, &used);
    cue_clear(&t->shown), cue_append_text(&t->shown, tentative);
    n = live_text_fit(t->shown.at, LIVE_TEXT_COLUMNS - used, &more);
    if (n) fprintf(t->file, "\033[2m%.*s\033[0m", (int)n, t->shown.at);
}

/* Writes stable text in a terminal's line, and begins a new line at a space where it gets too
   long. */
static void live_text_append(live_text *t, const char *text) {
    int used, more;
    cue_clear(&t->shown), cue_append_text(&t->shown, text);
    text = t->shown.at;
    if (!t->line.n) text = words_trim(text), cue_clear(&t->line);
    (void)live_text_fit(t->line.at, 1 << 20, &used), (void)live_text_fit(text, 1 << 20, &more);
    if (t->line.n && used + more > LIVE_TEXT_COLUMNS && *text == ' ') {
        fprintf(t->file, "\r\033[K%s\n", t->line.at);
        text = words_trim(text), cue_clear(&t->line);
    }
    cue_append(&t->line, "%s", text);
}

/* Writes what a run has given. */
static void live_text_write(live_text *t, const live *l) {
    if (cue_output.form == CUE_JSON) {
        if (l->stable[0]) live_text_object(t, l->stable, 1, l->stable_begin, l->stable_end);
        if (l->is_changed)
            live_text_object(t, l->tentative, 0, l->tentative_begin, l->tentative_end);
    } else if (t->is_terminal) {
        if (l->stable[0]) live_text_append(t, l->stable);
        live_text_show(t, l->tentative);
        if (l->is_end && t->line.n) putc('\n', t->file), cue_clear(&t->line);
    } else if (l->stable[0] || l->is_end) {
        cue_clear(&t->line), cue_append_text(&t->line, l->stable);
        fputs(t->is_begun ? t->line.at : words_trim(t->line.at), t->file);
        t->is_begun |= t->line.n > 0;
        if (l->is_end && t->is_begun) putc('\n', t->file), t->is_begun = 0;
    }
    if (fflush(t->file) || ferror(t->file)) cue_fail("the output cannot be written");
}

/* Ends the output. */
static void live_text_end(live_text *t) {
    if (cue_output.form != CUE_JSON && (t->is_terminal ? t->line.n > 0 : t->is_begun))
        putc('\n', t->file);
    if (fflush(t->file) || ferror(t->file)) cue_fail("the output cannot be written");
    free(t->line.at), free(t->shown.at);
    memset(t, 0, sizeof *t);
}

#endif
