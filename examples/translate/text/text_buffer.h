/* text_buffer.h: a text buffer that grows.

       text_buffer b = {0};
       text_buffer_format(&b, "%d", n);
       if (b.broken) ... memory was too small, and some text is missing
       text_buffer_free(&b);

   The text always ends with a NUL byte that is not counted in size. */
#ifndef TEXT_BUFFER_H
#define TEXT_BUFFER_H

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct text_buffer {
    char *data;
    size_t size, room;
    int broken; /* memory was too small for some text, which was not appended */
} text_buffer;

/* Makes room for `more` bytes and a NUL. Returns 0, and sets broken, if there is no memory. */
static inline int text_buffer_reserve(text_buffer *b, size_t more) {
    size_t room = b->size + more + 1 > b->room ? 2 * b->room + more + 128 : b->room;
    char *grown = room > b->room ? (char *)realloc(b->data, room) : b->data;
    if (grown) b->data = grown, b->room = room;
    else b->broken = 1;
    return grown != NULL;
}

/* Appends size bytes of text. */
static inline void text_buffer_append(text_buffer *b, const char *text, size_t size) {
    if (!text_buffer_reserve(b, size)) return;
    if (size) memcpy(b->data + b->size, text, size);
    b->data[b->size += size] = 0;
}

/* Appends formatted text, like vprintf; at most 399 bytes. */
static inline void text_buffer_vformat(text_buffer *b, const char *format, va_list arguments) {
    char text[400]; /* the longest double with four decimals has 315 characters */
    int size = vsnprintf(text, sizeof text, format, arguments);
    text_buffer_append(b, text, size < (int)sizeof text ? (size_t)size : sizeof text - 1);
}
/* Appends formatted text, like printf; at most 399 bytes. */
static inline void text_buffer_format(text_buffer *b, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    text_buffer_vformat(b, format, arguments);
    va_end(arguments);
}

/* Replaces each line break in text, and with `fields` each TAB, by a space. Output that is one
   line, or one field, must not contain them. Returns the new size, which may be smaller. */
static inline size_t text_buffer_flatten(char *text, size_t size, int fields) {
    static const char *const breaks[] = {"\n",       "\r",           "\v",           "\f",
                                         "\xC2\x85", "\xE2\x80\xA8", "\xE2\x80\xA9", "\t"};
    size_t at = 0, to = 0, n = 0, i, most = fields ? 8 : 7;
    while (at < size) {
        for (i = 0; i < most; i++) {
            n = strlen(breaks[i]);
            if (size - at >= n && memcmp(text + at, breaks[i], n) == 0) break;
        }
        if (i < most) text[to++] = ' ', at += n;
        else text[to++] = text[at++];
    }
    return to;
}

/* Frees the memory; the buffer is empty and can be used again. */
static inline void text_buffer_free(text_buffer *b) {
    free(b->data);
    memset(b, 0, sizeof *b);
}

/* Empties the buffer, and frees its memory if it has more than `most` bytes. */
static inline void text_buffer_clear(text_buffer *b, size_t most) {
    if (b->room > most) text_buffer_free(b);
    b->size = 0;
    b->broken = 0;
}

#endif
