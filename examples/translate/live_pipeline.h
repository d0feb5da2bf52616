/* live_pipeline.h: translates text after text while they come, with one model or with two in a row.
   To copy into your program.

       live_pipeline t = {0};
       t.first = &translation, t.show = show;         show(user, is_done) is called behind each run
       while (size) {                                 text: the end of a line ends a text
           n = live_pipeline_line(&t, bytes, size);
           bytes += n, size -= n;
       }
       live_pipeline_wait(&t, start);                    speech: a pause ends a text
       live_pipeline_guess(&t, words, size);             words that may still change
       live_pipeline_hear(&t, words, size, end);         stable words
       live_pipeline_end(&t);                            the end of the text

   show gets what there is by live_pipeline_shown, or as a line of JSON by live_pipeline_object.

   With a second model, the stable text of the first one is the source of the second one, and its
   guess is the second one's guess. So what the second one says is stable cannot change, either. */
#ifndef LIVE_PIPELINE_H
#define LIVE_PIPELINE_H

#include "live_translation.h"

enum { LIVE_PIPELINE_EACH = 4000 }; /* bytes of a text up to which each word has a run and a line */
/* Seconds without speech that end a text: the pause that ends an utterance of transcribe --live. */
static const double LIVE_PIPELINE_PAUSE = 0.6;

typedef enum live_pipeline_pace {
    LIVE_PIPELINE_STOP = -1, /* read no more */
    LIVE_PIPELINE_EACH_WORD, /* a run reads one word */
    LIVE_PIPELINE_ALL_WORDS  /* a run reads all words that have come, because the program is late */
} live_pipeline_pace;

typedef struct live_pipeline {
    live_translation *first, *second; /* second may be NULL */
    void *user;
    void (*show)(void *user, int is_done); /* called behind each run; is_done: the text has ended */
    void (*fail)(void *user, const tfm_error *err); /* a run has failed */
    live_pipeline_pace (*pace)(void *user);         /* called before each run; may be NULL */
    int is_speech; /* 1: words come whole, and all that have come are read together */
    /* What follows is this header's own. */
    int is_begun;  /* the text has a source */
    size_t passed; /* bytes of the first one's stable text that the second one has got */
    size_t last;   /* bytes of the text when the last line of JSON was made */
    double end;    /* seconds: where the last stable words ended, if has_end is 1 */
    int has_end;
} live_pipeline;

/* Returns what has the translation: its text, and how much of it is stable. */
static inline const live_translation *live_pipeline_shown(const live_pipeline *t) {
    return t->second ? t->second : t->first;
}

/* ---- lines of JSON --------------------------------------------------------------------------- */

/* Appends text as a part of a string of JSON. */
static inline void live_pipeline_string(text_buffer *b, const char *text, size_t size) {
    size_t i;
    for (i = 0; i < size; i++) {
        unsigned char c = (unsigned char)text[i];
        if (c == '"' || c == '\\') text_buffer_append(b, "\\", 1);
        if (c < 32) { /* no printf: a program in a page would carry it for this alone */
            text_buffer_append(b, c < 16 ? "\\u000" : "\\u001", 5);
            text_buffer_append(b, &"0123456789abcdef"[c % 16], 1);
        } else text_buffer_append(b, text + i, 1);
    }
}

/* Appends a line of JSON to b, if one is due: each line has the whole text, so a long text gets
   fewer lines. Otherwise the output would grow with the square of the text. */
static inline void live_pipeline_object(live_pipeline *t, int is_done, text_buffer *b) {
    const live_translation *l = t->first, *shown = live_pipeline_shown(t);
    const char *guess = l->guess.data;
    size_t n_guess = l->guess.size;
    if (!is_done && l->source.size >= LIVE_PIPELINE_EACH &&
        l->source.size - t->last <= l->source.size / 64)
        return;
    if (!is_done && !l->read && !n_guess) return;
    for (; !l->read && n_guess && *guess == ' '; guess++) n_guess--;
    text_buffer_append(b, "{\"source\": \"", 12);
    live_pipeline_string(b, l->source.data, is_done ? l->source.size : l->read);
    live_pipeline_string(b, guess, n_guess);
    text_buffer_append(b, "\", \"stable_text\": \"", 19);
    live_pipeline_string(b, shown->text.data, shown->stable);
    text_buffer_append(b, "\", \"text\": \"", 12);
    live_pipeline_string(b, shown->text.data, shown->text.size);
    if (is_done) text_buffer_append(b, "\", \"done\": true}\n", 17);
    else text_buffer_append(b, "\", \"done\": false}\n", 18);
    t->last = l->source.size;
}

/* ---- runs ------------------------------------------------------------------------------------ */

static inline void live_pipeline_failed(live_pipeline *t, const tfm_error *err) {
    if (t->fail) t->fail(t->user, err);
}

/* Gives the second model what the first one has made. */
static inline void live_pipeline_pass(live_pipeline *t) {
    const live_translation *l = t->first;
    live_translation *next = t->second;
    const char *guess = l->text.data + l->stable;
    const size_t n = l->text.size - l->stable;
    tfm_error err;
    if (!next) return;
    live_translation_feed(next, l->text.data + t->passed, l->stable - t->passed);
    if (t->passed != l->stable || n != next->guess.size ||
        (n && memcmp(guess, next->guess.data, n) != 0))
        live_translation_guess(next, guess, n);
    t->passed = l->stable;
    next->is_whole_words = next->reads_all = 1;
    while (live_translation_is_due(next))
        if (live_translation_run(next, &err) != TFM_OK) live_pipeline_failed(t, &err);
}

/* Translates all words that have come, and the guess. */
static inline void live_pipeline_translate(live_pipeline *t) {
    live_translation *l = t->first;
    tfm_error err;
    l->is_whole_words = t->is_speech;
    while (live_translation_is_due(l)) {
        live_pipeline_pace pace = t->pace ? t->pace(t->user) : LIVE_PIPELINE_EACH_WORD;
        if (pace == LIVE_PIPELINE_STOP) return;
        l->reads_all = t->is_speech || l->read > LIVE_PIPELINE_EACH ||
                       pace == LIVE_PIPELINE_ALL_WORDS;
        if (live_translation_run(l, &err) != TFM_OK) live_pipeline_failed(t, &err);
        live_pipeline_pass(t);
        t->show(t->user, 0);
    }
}

/* Returns whether the program is to read no more. */
static inline int live_pipeline_stops(live_pipeline *t) {
    return t->pace && t->pace(t->user) == LIVE_PIPELINE_STOP;
}

/* Ends the text. */
static inline void live_pipeline_end(live_pipeline *t) {
    live_translation *l = t->first;
    const size_t size = l->source.size;
    tfm_error err;
    if (size && l->source.data[size - 1] == '\r' && l->begin < size && l->read < size)
        l->source.size--; /* a line of Windows */
    l->is_whole_words = t->is_speech;
    if (live_translation_finish(l, &err) != TFM_OK) live_pipeline_failed(t, &err);
    live_pipeline_pass(t);
    if (t->second && live_translation_finish(t->second, &err) != TFM_OK)
        live_pipeline_failed(t, &err);
    t->show(t->user, 1);
    live_translation_clear(l);
    if (t->second) live_translation_clear(t->second);
    t->passed = t->last = 0, t->is_begun = 0;
}

/* ---- what comes ------------------------------------------------------------------------------ */

/* Reads bytes of text up to the end of a line, which ends the text. Returns how many were read. */
static inline size_t live_pipeline_line(live_pipeline *t, const char *bytes, size_t size) {
    const char *newline = size ? (const char *)memchr(bytes, '\n', size) : NULL;
    size_t n = newline ? (size_t)(newline - bytes) : size;
    t->is_speech = 0;
    live_translation_feed(t->first, bytes, n);
    if (n) t->is_begun = 1;
    live_pipeline_translate(t);
    if (!newline || live_pipeline_stops(t)) return n;
    live_pipeline_end(t);
    return n + 1;
}

/* Sets the words of speech that may still change. They change only the guess of the translation. */
static inline void live_pipeline_guess(live_pipeline *t, const char *text, size_t size) {
    t->is_speech = 1;
    live_translation_guess(t->first, text, size);
    live_pipeline_translate(t);
}

/* Ends the text if words of speech that begin at a time come after a pause. */
static inline void live_pipeline_wait(live_pipeline *t, double start) {
    if (t->is_begun && t->has_end && start - t->end >= LIVE_PIPELINE_PAUSE - 0.005)
        live_pipeline_end(t);
}

/* Reads stable words of speech, which end at a time in seconds. Each of them ends the text if it
   ends a sentence. */
static inline void live_pipeline_hear(live_pipeline *t, const char *text, size_t size, double end) {
    live_translation *l = t->first;
    size_t at = 0, begin, n;
    uint32_t c;
    t->is_speech = 1;
    live_translation_guess(l, "", 0), l->is_guess_new = 0;
    if (size) t->end = end, t->has_end = end >= 0;
    if (!t->is_begun)
        while (at < size && text[at] == ' ') at++;
    while (at < size) {
        begin = at;
        do at += tfm_character_next(text + at, size - at, &c);
        while (at < size && text[at] != ' ' && !character_is_wide(c));
        live_translation_feed(l, text + begin, at - begin), t->is_begun = 1;
        if (!live_translation_is_sentence(l, text + at, size - at)) {
            if (l->source.size - l->read > LIVE_TRANSLATION_WORD) live_pipeline_translate(t);
            continue;
        }
        live_pipeline_end(t);
        for (n = at; n < size && text[n] == ' ';) at = ++n;
    }
    live_pipeline_translate(t);
}

#endif
