/* characters.h: what the headers of this folder ask about characters, in the words of
   transformer.h, and whether a list has a word. */
#ifndef CHARACTERS_H
#define CHARACTERS_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "transformer.h"

/* Returns whether a character is of one of the kinds (bits of tfm_character_kind). */
static inline int character_is(uint32_t c, int32_t kinds) {
    return (tfm_character_kinds(c) & kinds) != 0;
}

static inline int character_is_space(uint32_t c) { return character_is(c, TFM_CHARACTER_SPACE); }

/* Returns whether a character is of a script without spaces between words, or wide punctuation. */
static inline int character_is_wide(uint32_t c) { return character_is(c, TFM_CHARACTER_WIDE); }

/* Returns -1 for lower case, 1 for upper case, 0 for neither; for Latin, Greek, Cyrillic,
   Armenian. */
static inline int character_case(uint32_t c) {
    int32_t kinds = tfm_character_kinds(c);
    return kinds & TFM_CHARACTER_LOWER ? -1 : (kinds & TFM_CHARACTER_UPPER) != 0;
}

/* Returns whether a list of words with a space before and after each has a word. */
static inline int characters_list_has(const char *list, const char *word, size_t size) {
    const char *at = list;
    if (!size || memchr(word, 0, size)) return 0;
    while ((at = strchr(at + 1, *word)) != NULL)
        if (at[-1] == ' ' && strncmp(at, word, size) == 0 && at[size] == ' ') return 1;
    return 0;
}

#endif
