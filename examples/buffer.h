/* buffer.h: text that grows, and one line made of it.

       buffer b = {0};
       buffer_format(&b, "%d", n);
       if (b.broken) ... there was no memory for all of it
       buffer_free(&b);

   What is appended is terminated. */
#ifndef BUFFER_H
#define BUFFER_H

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct buffer {
    char *data;
    size_t size, room;
    int broken; /* something was not appended */
} buffer;

/* Room for more bytes and a terminator: 0 where there is no memory for them. */
static inline int buffer_reserve(buffer *b, size_t more) {
    size_t room = b->size + more + 1 > b->room ? 2 * b->room + more + 128 : b->room;
    char *grown = room > b->room ? (char *)realloc(b->data, room) : b->data;
    if (grown) b->data = grown, b->room = room;
    else b->broken = 1;
    return grown != NULL;
}

static inline void buffer_append(buffer *b, const char *text, size_t size) {
    if (!buffer_reserve(b, size)) return;
    if (size) memcpy(b->data + b->size, text, size);
    b->data[b->size += size] = 0;
}

/* As printf; at most 399 bytes. */
static inline void buffer_vformat(buffer *b, const char *format, va_list arguments) {
    char text[400]; /* a double of any size with four decimals */
    int size = vsnprintf(text, sizeof text, format, arguments);
    buffer_append(b, text, size < (int)sizeof text ? (size_t)size : sizeof text - 1);
}
static inline void buffer_format(buffer *b, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    buffer_vformat(b, format, arguments);
    va_end(arguments);
}

/* A line of output is one line: what breaks lines becomes a space, and so does TAB in a field. */
static inline size_t buffer_flatten(char *text, size_t size, int fields) {
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

static inline void buffer_free(buffer *b) {
    free(b->data);
    memset(b, 0, sizeof *b);
}

/* Empties it, and gives memory back beyond most bytes. */
static inline void buffer_clear(buffer *b, size_t most) {
    if (b->room > most) buffer_free(b);
    b->size = 0;
    b->broken = 0;
}

#endif
