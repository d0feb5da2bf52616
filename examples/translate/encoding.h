/* encoding.h: guesses the encoding of text that is not UTF-8, for a message to the user.

       const char *name = encoding_of_start(text, size);    the first line of a file
       if (!name) name = encoding_of_line(text, size);      a line that is not UTF-8
       if (name) ... iconv -f name -t UTF-8 */
#ifndef ENCODING_H
#define ENCODING_H

#include <stddef.h>

/* Returns the name of the kind of UTF-16 or UTF-32 that a file is probably written in, from its
   first bytes, or NULL. Both show by a byte order mark or by many zero bytes. */
static const char *encoding_of_start(const char *text, size_t n) {
    const unsigned char *b = (const unsigned char *)text;
    size_t zeros[2] = {0, 0}, i;
    for (i = 0; i < n; i++) zeros[i & 1] += !b[i];
    if (n >= 4 && 8 * (zeros[0] + zeros[1]) > 5 * n) return b[0] ? "UTF-32LE" : "UTF-32BE";
    if (n >= 2 && ((b[0] == 0xFF && b[1] == 0xFE) || (b[0] == 0xFE && b[1] == 0xFF)))
        return "UTF-16";
    if (n >= 4 && 4 * zeros[1] > n && 8 * zeros[0] < n) return "UTF-16LE";
    if (n >= 4 && 4 * zeros[0] > n && 8 * zeros[1] < n) return "UTF-16BE";
    return NULL;
}

/* Returns the encoding of a line that is not UTF-8: "WINDOWS-1252" if most bytes above 0x7F have
   ASCII on both sides, as accented letters have; "" for another encoding; NULL if the line is
   UTF-8 for the most part, or too few bytes to tell. Windows-1252 contains Latin-1. */
static const char *encoding_of_line(const char *text, size_t n) {
    const unsigned char *b = (const unsigned char *)text;
    size_t i, k, more, valid = 0, high = 0, lone = 0, letters = 0;
    for (i = 0; i < n; i++) {
        letters += (b[i] | 32) >= 'a' && (b[i] | 32) <= 'z';
        if (b[i] < 0x80) continue;
        more = b[i] >= 0xF0 ? 3 : b[i] >= 0xE0 ? 2 : b[i] >= 0xC2 ? 1 : 0;
        for (k = 0; k < more && i + k + 1 < n && (b[i + k + 1] & 0xC0) == 0x80; k++) continue;
        if (more && k == more) {
            valid++;
            i += more;
            continue;
        }
        high++;
        lone += b[i] < 0xFE && (i == 0 || b[i - 1] < 0x80) && (i + 1 == n || b[i + 1] < 0x80);
    }
    if (2 * valid >= high) return NULL;
    if (letters && lone && 2 * lone >= high) return "WINDOWS-1252";
    return high >= 4 ? "" : NULL;
}

#endif
