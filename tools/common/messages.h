/* messages.h: prints text from untrusted files, and the messages of a program.

   Names and metadata of a file may be untrusted. These functions print control characters as
   visible escapes, because a terminal would otherwise obey them. */
#ifndef MESSAGES_H
#define MESSAGES_H

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* Decodes the UTF-8 character at text into *c. Returns its number of bytes, or 0 if it is
   invalid. */
static inline int output_decode(const char *text, unsigned long *c) {
    static const unsigned long least[] = {0, 0, 0x80, 0x800, 0x10000};
    const unsigned char *b = (const unsigned char *)text;
    int n = b[0] < 0x80                  ? 1
            : b[0] < 0xC0 || b[0] > 0xF4 ? 0
            : b[0] < 0xE0                ? 2
                                         : 3 + (b[0] > 0xEF),
        i;
    *c = n < 2 ? b[0] : b[0] & (0x7Fu >> n);
    for (i = 1; i < n; i++) {
        if ((b[i] & 0xC0) != 0x80) return 0; /* also stops at the terminator */
        *c = *c << 6 | (b[i] & 0x3F);
    }
    return *c < least[n] || *c > 0x10FFFF || (*c >= 0xD800 && *c < 0xE000) ? 0 : n;
}

/* Returns 1 for C0 and C1 control characters, and for characters that end a line or change the
   direction of text. */
static inline int output_is_control(unsigned long c) {
    return c < 0x20 || (c >= 0x7F && c < 0xA0) || (c >= 0x2028 && c <= 0x202E) ||
           (c >= 0x2066 && c <= 0x2069);
}

/* Writes text, with escapes such as \x1b for a control byte and \u009b for a control character,
   then spaces up to a width in characters. */
static inline void output_text(FILE *stream, const char *text, int width) {
    unsigned long c;
    while (*text) {
        int n = output_decode(text, &c);
        if (n && !output_is_control(c)) fwrite(text, 1, (size_t)n, stream), width--;
        else if (n > 1) width -= fprintf(stream, "\\u%04lx", c);
        else width -= fprintf(stream, "\\x%02x", (unsigned)(unsigned char)*text);
        text += n ? n : 1;
    }
    while (width-- > 0) putc(' ', stream);
}

/* Prints "program: subject: cause" to standard error and returns 0. subject is NULL if cause names
   it. */
static inline int output_fail(const char *program, const char *subject, const char *cause) {
    fprintf(stderr, "%s: ", program);
    if (subject) output_text(stderr, subject, 0), fputs(": ", stderr);
    output_text(stderr, cause, 0);
    putc('\n', stderr);
    return 0;
}

/* Prints "program: message" to standard error, with what printf would write as the message. */
static inline void output_complain(const char *program, const char *format, va_list arguments) {
    char text[2048];
    vsnprintf(text, sizeof text, format, arguments);
    output_fail(program, NULL, text);
}

/* Writes what standard output still holds. Returns 1, or 0 after a message if that fails, or if an
   earlier write failed. A program calls this before it ends, also after --help. */
static inline int output_finish(const char *program) {
    if (fflush(stdout) == 0 && !ferror(stdout)) return 1;
    return output_fail(program, NULL, "standard output cannot be written");
}

#endif
