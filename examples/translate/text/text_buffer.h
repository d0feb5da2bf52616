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

/* What text_buffer_flatten replaces beside line breaks. */
enum { TEXT_BUFFER_FLATTEN_TABS = 1, TEXT_BUFFER_FLATTEN_CONTROLS = 2 };

/* Replaces each line break in text by a space, and with marks also each TAB or each other control
   character. Output that is one line, or one field, must not contain the first two; a terminal
   would obey the others. Returns the new size, which may be smaller. */
static inline size_t text_buffer_flatten(char *text, size_t size, int marks) {
    size_t at = 0, to = 0;
    while (at < size) {
        unsigned char c = (unsigned char)text[at];
        size_t more = size - at, n = 0;
        if ((c >= '\n' && c <= '\r') || (c == '\t' && marks & TEXT_BUFFER_FLATTEN_TABS)) n = 1;
        else if ((c < 32 || c == 127) && c != '\t' && marks & TEXT_BUFFER_FLATTEN_CONTROLS) n = 1;
        else if (c == 0xC2 && more > 1 && (unsigned char)text[at + 1] < 0xA0)
            n = text[at + 1] == '\x85' || marks & TEXT_BUFFER_FLATTEN_CONTROLS ? 2 : 0;
        else if (c == 0xE2 && more > 2)
            n = memcmp(text + at, "\xE2\x80\xA8", 3) == 0 ||
                        memcmp(text + at, "\xE2\x80\xA9", 3) == 0
                    ? 3
                    : 0;
        if (n) text[to++] = ' ', at += n;
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
