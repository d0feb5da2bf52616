/* markup_fake.h: fake translators for tests of markup.h: they return the words of a sentence, each
   aligned to itself, in some order. Include test.h before it. */
#ifndef MARKUP_FAKE_H
#define MARKUP_FAKE_H

#include "examples/translate/text/markup.h"

enum { SAME, BACKWARDS, EVERY_SECOND, CAPITALS, NOTHING, SHUFFLED, GLUED, CHARACTERS, TRANSLATORS };

typedef struct fake {
    int how;
    unsigned state; /* the seed of SHUFFLED */
    text_buffer *texts, *tokens, seen;
    size_t n;
} fake;

static unsigned draw(unsigned *state, unsigned below) {
    *state = *state * 1664525u + 1013904223u;
    return (*state >> 8) % below;
}

/* One word of the source, or half of it, or its characters: a token each. */
static void put_word(fake *f, text_buffer *text, text_buffer *tokens, const char *s, size_t begin,
                     size_t end) {
    markup_token token;
    size_t i, from = begin;
    if (text->size && f->how != GLUED) text_buffer_append(text, " ", 1);
    for (i = begin; i < end; i++) {
        char c = s[i];
        if (f->how == CAPITALS && c >= 'a' && c <= 'z') c = (char)(c - 32);
        text_buffer_append(text, &c, 1);
        if (f->how == CHARACTERS ? i + 1 < end && (s[i + 1] & 0xC0) == 0x80
                                 : i + 1 < end && i - begin != 2 && !strchr(".,!?", s[i + 1]))
            continue;
        token.end = text->size, token.source_begin = from, token.source_end = i + 1, from = i + 1;
        if (f->how == SHUFFLED && !draw(&f->state, 4))
            token.source_begin = draw(&f->state, 90), token.source_end = draw(&f->state, 90);
        text_buffer_append(tokens, (const char *)&token, sizeof token);
    }
}

static int translate(void *user, const markup_sentence *sentences, size_t n,
                     markup_translation *translations) {
    fake *f = (fake *)user;
    size_t i, k, from, words, begin[400], end[400];
    f->texts = (text_buffer *)calloc(2 * n + 1, sizeof *f->texts), f->tokens = f->texts + n,
    f->n = n;
    for (i = 0; i < n; i++) {
        const char *s = sentences[i].text;
        size_t size = sentences[i].size;
        for (words = from = 0; from < size && words < 400; words++) {
            for (begin[words] = from; from < size && s[from] != ' ';) from++;
            end[words] = from;
            while (from < size && s[from] == ' ') from++;
        }
        for (k = 0; k < words; k++) {
            size_t w = f->how == BACKWARDS ? words - 1 - k : k;
            if (f->how == SHUFFLED) w = draw(&f->state, (unsigned)words);
            if (f->how == EVERY_SECOND && k % 2) continue;
            put_word(f, &f->texts[i], &f->tokens[i], s, begin[w], end[w]);
        }
        if (f->how != NOTHING) translations[i].text = f->texts[i].data;
        translations[i].size = f->texts[i].size;
        translations[i].tokens = (const markup_token *)(const void *)f->tokens[i].data;
        translations[i].n = f->tokens[i].size / sizeof(markup_token);
        text_buffer_append(&f->seen, s, size), text_buffer_append(&f->seen, "|", 1);
    }
    return 1;
}

static void fake_free(fake *f) {
    size_t i;
    for (i = 0; i < 2 * f->n; i++) text_buffer_free(&f->texts[i]);
    free(f->texts), text_buffer_free(&f->seen);
    f->texts = f->tokens = NULL, f->n = 0;
}

static const char *run(fake *f, int how, markup_form form, const char *text, size_t size,
                       text_buffer *out) {
    fake_free(f);
    f->how = how;
    out->size = 0;
    text_buffer_append(out, "", 0);
    text_buffer_append(&f->seen, "", 0);
    if (!markup_translate(form, text, size, translate, f, out)) abort();
    return out->data ? out->data : "";
}

#endif
