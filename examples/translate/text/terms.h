/* terms.h: makes a translation use the words of a list of terms.

       terms_list list = {0};
       terms_found found = {0};
       if (!terms_read(&list, text, size, message, sizeof message)) ... message names the line
       if (terms_find(&list, sentence, n_bytes, &found)) ... translate the sentence as it is
       terms_put(&list, &found, translation, n_bytes, n_tokens, ends, begins, source_ends, &out);
       terms_found_free(&found), terms_free(&list);

   A line of the list is a source, a TAB and a target. Blank lines are skipped, and so are lines
   that begin with "#". The rules:
    - A source is found only as whole words, letter by letter: an inflected form needs a line of its
      own. A hyphen belongs to a word. Scripts without spaces have no word boundaries.
    - Letters match in either case, and at the beginning of a sentence the target gets a capital.
      "!" before a source keeps the case: the source matches only as it is written, and the target
      is written as it is in the list.
    - At each position the longest source wins, and "!" wins among sources of equal letters.

   The model translates the sentence as it is. Then the target replaces the words of the translation
   that are aligned to the words of the source, without articles and other short words at the ends.
   If the target is already in the translation, it stays where it is. If no word is aligned to the
   source, the target is inserted where protect.h would insert a span. */
#ifndef TERMS_H
#define TERMS_H

#include "protect.h"

enum { TERMS_MOST = 256 }; /* most bytes of a source; bounds the time to find sources */

typedef struct terms_entry {
    const char *key, *source, *target; /* key: the source in small letters */
    size_t n_key, n_source, n_target;
    int is_exact; /* "!" */
    size_t line;
} terms_entry;

typedef struct terms_list {
    terms_entry *entries; /* sorted by key; among equal keys the exact ones first */
    size_t n, room;
    text_buffer text, keys;
} terms_list;

/* A term in a sentence, and its place in the translation. */
typedef struct terms_match {
    const terms_entry *entry;
    size_t begin, end; /* its bytes in the sentence */
    size_t from, to;   /* the bytes of the translation that the target replaces */
    size_t new_to;     /* where the target ends in the new translation */
    int is_placed;
} terms_match;

/* A word of a translation, or a character of a script without spaces. */
typedef struct terms_word {
    size_t begin, end;   /* its bytes */
    size_t token, after; /* its tokens are token to after - 1 */
    int is_taken;        /* a target replaces the word */
} terms_word;

typedef struct terms_found {
    terms_match *matches;
    terms_word *words;
    size_t n, room, n_words, room_words;
    size_t size;                /* of the sentence */
    text_buffer folded, origin; /* the sentence in small letters, and where each byte comes from */
    int broken;                 /* memory was too small */
} terms_found;

/* Frees all memory; t can be used again. */
static inline void terms_free(terms_list *t) {
    text_buffer_free(&t->text), text_buffer_free(&t->keys);
    free(t->entries);
    memset(t, 0, sizeof *t);
}
static inline void terms_found_free(terms_found *f) {
    text_buffer_free(&f->folded), text_buffer_free(&f->origin);
    free(f->matches), free(f->words);
    memset(f, 0, sizeof *f);
}

/* Makes room at *at for n elements of `size` bytes. Returns 0 if there is no memory. */
static int terms_reserve(void **at, size_t *room, size_t n, size_t size) {
    void *grown;
    if (n <= *room) return 1;
    grown = realloc(*at, (2 * n + 16) * size);
    if (grown) *at = grown, *room = 2 * n + 16;
    return grown != NULL;
}

/* ---- characters ----------------------------------------------------------------------------- */

/* Returns whether a character belongs to a word of a script with spaces between words. */
static int terms_is_word(uint32_t c) {
    if (c < 0x80) return protect_is_word(c) || c == '_';
    if (c < 0xC0) return c == 0xAA || c == 0xB5 || c == 0xBA;
    return c != 0xD7 && c != 0xF7 && c != 0xFFFD && !(c >= 0x2000 && c < 0x2C00) &&
           !character_is_wide(c) && !character_is_space(c) && c < 0x1F000;
}

/* Returns whether a word continues over position `at`: it has letters on both sides, or a letter
   and a hyphen behind which there is another letter. */
static int terms_is_inside(const char *text, size_t size, size_t at) {
    uint32_t left, right;
    if (!at || at >= size) return 0;
    left = protect_before(text, at);
    (void)tfm_character_next(text + at, size - at, &right);
    if (left == '-' && at > 1) left = protect_before(text, at - 1);
    else if (right == '-' && at + 1 < size)
        (void)tfm_character_next(text + at + 1, size - at - 1, &right);
    return terms_is_word(left) && terms_is_word(right);
}

/* Appends text in small letters, with one space for a run of whitespace. Appends to origin, unless
   it is NULL, the position of each byte's character in the text. */
static void terms_fold(const char *text, size_t size, text_buffer *out, text_buffer *origin) {
    size_t i, n, from = out->size;
    uint32_t c;
    int was_space = 0;
    for (i = 0; i < size; i += n) {
        n = tfm_character_next(text + i, size - i, &c);
        if (!character_is_space(c)) {
            if (character_case(c) > 0) protect_append_char(out, protect_lower(c));
            else text_buffer_append(out, text + i, n);
        } else if (!was_space) text_buffer_append(out, " ", 1);
        was_space = character_is_space(c);
        for (; origin && from < out->size; from++)
            text_buffer_append(origin, (const char *)&i, sizeof i);
    }
}

/* ---- the list ------------------------------------------------------------------------------- */

/* Returns the first position from `at` on that has no whitespace. */
static size_t terms_skip(const char *text, size_t size, size_t at) {
    uint32_t c;
    size_t n = 0;
    for (; at < size; at += n) {
        n = tfm_character_next(text + at, size - at, &c);
        if (!character_is_space(c)) break;
    }
    return at;
}

/* Moves *begin and *end to leave out whitespace at both ends. */
static void terms_trim(const char *text, size_t *begin, size_t *end) {
    *begin = terms_skip(text, *end, *begin);
    while (*end > *begin && character_is_space(protect_before(text, *end)))
        for (--*end; *end > *begin && ((unsigned char)text[*end] & 0xC0) == 0x80;) --*end;
}

/* Compares two texts: negative, 0 or positive. */
static int terms_order(const char *a, size_t n_a, const char *b, size_t n_b) {
    int order = memcmp(a, b, n_a < n_b ? n_a : n_b);
    return order ? order : n_a < n_b ? -1 : n_a > n_b;
}

/* Compares entries for qsort: by key, exact ones first and by source, then by line. */
static int terms_by_key(const void *a, const void *b) {
    const terms_entry *x = (const terms_entry *)a, *y = (const terms_entry *)b;
    int order = terms_order(x->key, x->n_key, y->key, y->n_key);
    if (!order) order = y->is_exact - x->is_exact;
    if (!order && x->is_exact) order = terms_order(x->source, x->n_source, y->source, y->n_source);
    return order ? order : x->line < y->line ? -1 : x->line > y->line;
}

/* Adds a line of the list, which has no whitespace at its ends. Returns what is wrong with it, or
   NULL. */
static const char *terms_add(terms_list *t, const char *text, size_t size, size_t number) {
    const char *tab = (const char *)memchr(text, '\t', size);
    size_t begin = 0, end = tab ? (size_t)(tab - text) : size, from = tab ? end + 1 : size;
    void *entries = t->entries;
    terms_entry *e;
    int is_exact = text[0] == '!', grown;
    if (!tab) return "there is no TAB between source and target";
    if (memchr(tab + 1, '\t', size - from)) return "there is more than one TAB";
    begin += (size_t)is_exact;
    terms_trim(text, &begin, &end), terms_trim(text, &from, &size);
    if (begin == end) return "the source is empty";
    if (from == size) return "the target is empty";
    if (end - begin > TERMS_MOST) return "the source has more than 256 bytes";
    if (!protect_is_plain(text + begin, end - begin) || !protect_is_plain(text + from, size - from))
        return "there is a control character, or text that is not UTF-8";
    grown = terms_reserve(&entries, &t->room, t->n + 1, sizeof *e);
    t->entries = (terms_entry *)entries;
    if (!grown) return "too little memory";
    e = &t->entries[t->n++];
    e->source = text + begin, e->n_source = end - begin;
    e->target = text + from, e->n_target = size - from;
    e->is_exact = is_exact, e->line = number;
    e->n_key = t->keys.size;
    terms_fold(e->source, e->n_source, &t->keys, NULL);
    e->n_key = t->keys.size - e->n_key;
    return t->keys.broken ? "too little memory" : NULL;
}

/* Reads a list, which it copies. Returns 0, and writes to message what is wrong in which line, if
   the list cannot be used; t is then empty. */
static inline int terms_read(terms_list *t, const char *text, size_t size, char *message,
                             size_t room) {
    const char *fault = NULL;
    size_t at, begin, end, i, n, number = 0;
    terms_free(t);
    if (protect_starts(text, size, "\xEF\xBB\xBF")) text += 3, size -= 3;
    text_buffer_append(&t->text, text, size);
    if (t->text.broken) fault = "too little memory";
    for (at = 0; at < size && !fault; at = n + 1) {
        const char *stop = (const char *)memchr(t->text.data + at, '\n', size - at);
        n = stop ? (size_t)(stop - t->text.data) : size;
        begin = at, end = n, number++;
        while (end > begin && protect_in(" \r", (unsigned char)t->text.data[end - 1])) end--;
        while (begin < end && t->text.data[begin] == ' ') begin++;
        if (begin == end || t->text.data[begin] == '#') continue;
        fault = terms_add(t, t->text.data + begin, end - begin, number);
    }
    for (i = n = 0; i < t->n; n += t->entries[i++].n_key) t->entries[i].key = t->keys.data + n;
    if (t->n) qsort(t->entries, t->n, sizeof *t->entries, terms_by_key);
    for (i = n = 0; i < t->n && !fault; i++) {
        const terms_entry *a = t->entries + n, *b = t->entries + i;
        if (i && terms_order(a->key, a->n_key, b->key, b->n_key) == 0 &&
            a->is_exact == b->is_exact &&
            (!a->is_exact || terms_order(a->source, a->n_source, b->source, b->n_source) == 0)) {
            if (terms_order(a->target, a->n_target, b->target, b->n_target) == 0) continue;
            snprintf(message, room, "line %lu: the source has another target in line %lu",
                     (unsigned long)b->line, (unsigned long)a->line);
            terms_free(t);
            return 0;
        }
        n += i > 0;
        t->entries[n] = t->entries[i];
    }
    if (t->n) t->n = n + 1;
    if (!fault) return 1;
    snprintf(message, room, "line %lu: %s", (unsigned long)number, fault);
    terms_free(t);
    return 0;
}

/* ---- terms in a sentence -------------------------------------------------------------------- */

/* Returns the first entry from low to high - 1 whose key has at position `at` at least the byte
   `least` (0 to 256). The keys are equal before this position. */
static size_t terms_bound(const terms_list *t, size_t low, size_t high, size_t at, unsigned least) {
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        const terms_entry *e = &t->entries[middle];
        if (e->n_key <= at || (unsigned char)e->key[at] < least) low = middle + 1;
        else high = middle;
    }
    return low;
}

/* Returns whether two texts that are equal in small letters are equal, except for whitespace. */
static int terms_is_same(const char *a, size_t n_a, const char *b, size_t n_b) {
    size_t i = 0, k = 0;
    for (;; i++, k++) {
        i = terms_skip(a, n_a, i), k = terms_skip(b, n_b, k);
        if (i == n_a || k == n_b) return i == n_a && k == n_b;
        if (a[i] != b[k]) return 0;
    }
}

/* Finds the terms in a sentence and returns how many there are. */
static inline size_t terms_find(const terms_list *t, const char *text, size_t size,
                                terms_found *f) {
    size_t i, k, low, high, end, after, n_folded;
    const size_t *origin;
    void *matches;
    f->n = 0, f->size = size, f->broken = 0;
    text_buffer_clear(&f->folded, 1 << 12), text_buffer_clear(&f->origin, 1 << 15);
    if (!t->n) return 0;
    terms_fold(text, size, &f->folded, &f->origin);
    text_buffer_append(&f->origin, (const char *)&size, sizeof size);
    f->broken = f->folded.broken || f->origin.broken;
    if (f->broken) return 0;
    origin = (const size_t *)(const void *)f->origin.data, n_folded = f->folded.size;
    for (i = 0; i < n_folded; i = end) {
        const char *folded = f->folded.data;
        const terms_entry *best = NULL;
        end = i + 1;
        if (((unsigned char)folded[i] & 0xC0) == 0x80 || terms_is_inside(folded, n_folded, i))
            continue;
        for (low = 0, high = t->n, k = 0; low < high && i + k < n_folded; k++) {
            unsigned byte = (unsigned char)folded[i + k];
            low = terms_bound(t, low, high, k, byte);
            high = terms_bound(t, low, high, k, byte + 1);
            after = i + k + 1;
            if (low == high || t->entries[low].n_key != k + 1 ||
                terms_is_inside(folded, n_folded, after))
                continue;
            for (; low < high && t->entries[low].n_key == k + 1; low++)
                if (!t->entries[low].is_exact ||
                    terms_is_same(t->entries[low].source, t->entries[low].n_source,
                                  text + origin[i], origin[after] - origin[i])) {
                    best = &t->entries[low], end = after;
                    break;
                }
            while (low < high && t->entries[low].n_key == k + 1) low++;
        }
        if (!best) continue;
        matches = f->matches;
        f->broken |= !terms_reserve(&matches, &f->room, f->n + 1, sizeof *f->matches);
        f->matches = (terms_match *)matches;
        if (f->broken) return f->n = 0;
        memset(&f->matches[f->n], 0, sizeof *f->matches);
        f->matches[f->n].entry = best;
        f->matches[f->n].begin = origin[i], f->matches[f->n++].end = origin[end];
    }
    return f->n;
}

/* ---- terms in a translation ----------------------------------------------------------------- */

/* Returns the bytes of an apostrophe at position `at`, after a word, and of the one or two letters
   behind it, as in don't and I'll; 0 if there are none, or more, as in l'homme. */
static size_t terms_contraction(const char *text, size_t size, size_t at) {
    size_t n = 0, k, letters = 0;
    uint32_t c = 0;
    if (at < size) n = tfm_character_next(text + at, size - at, &c);
    if (c != '\'' && c != 0x2019) return 0;
    for (; at + n < size; n += k, letters++) {
        k = tfm_character_next(text + at + n, size - at - n, &c);
        if (!terms_is_word(c)) break;
    }
    return letters == 1 || letters == 2 ? n : 0;
}

/* Divides a translation into words. Token i ends at byte ends[i]. A contraction is one word, or a
   target would replace a part of it. The 's of dog's stays behind a target, and is no word. */
static void terms_divide(terms_found *f, const char *text, size_t size, size_t n,
                         const size_t *ends) {
    size_t i, k, next, token = 0;
    uint32_t c;
    void *words;
    for (f->n_words = i = 0; i < size; i = next) {
        terms_word *w;
        next = k = i + tfm_character_next(text + i, size - i, &c);
        if (character_is_wide(c) ? c < 0x3040 || (c >= 0xFF00 && c < 0xFF21) : !terms_is_word(c))
            continue;
        while (!character_is_wide(c) && terms_is_inside(text, size, k))
            k += tfm_character_next(text + k, size - k, &c);
        next = k + (character_is_wide(c) ? 0 : terms_contraction(text, size, k));
        if (next > k && text[next - 1] != 's') k = next;
        words = f->words;
        f->broken |= !terms_reserve(&words, &f->room_words, f->n_words + 1, sizeof *f->words);
        f->words = (terms_word *)words;
        if (f->broken) return;
        w = &f->words[f->n_words++];
        w->begin = i, w->end = k, w->is_taken = 0;
        while (token < n && ends[token] <= i) token++;
        for (w->token = w->after = token;
             w->after < n && (w->after == token || ends[w->after - 1] < k);)
            w->after++;
    }
}

/* Returns whether a word has a token that comes from bytes of a match. */
static int terms_is_own(const terms_word *w, const terms_match *m, const size_t *begins,
                        const size_t *source_ends) {
    size_t i;
    for (i = w->token; i < w->after; i++)
        if (begins[i] < m->end && source_ends[i] > m->begin) return 1;
    return 0;
}

/* Places a match on bytes from to to - 1 of the translation, and takes their words. */
static void terms_place(terms_found *f, terms_match *m, size_t from, size_t to) {
    size_t i;
    m->from = from, m->to = to, m->is_placed = 1;
    for (i = 0; i < f->n_words; i++)
        if (f->words[i].begin < to && f->words[i].end > from) f->words[i].is_taken = 1;
}

/* Returns whether a placed match has one of bytes from to to - 1. A target without letters takes no
   words, but the marks that it is made of. */
static int terms_is_taken(const terms_found *f, size_t from, size_t to) {
    size_t i;
    for (i = 0; i < f->n; i++)
        if (f->matches[i].is_placed && f->matches[i].from < to && f->matches[i].to > from) return 1;
    return 0;
}

/* Returns the bytes of the target at the begin of a text, in any case, or 0. */
static size_t terms_target_at(const terms_entry *e, const char *text, size_t size) {
    size_t i = 0, k = 0;
    uint32_t c, d;
    while (i < size && k < e->n_target) {
        i += tfm_character_next(text + i, size - i, &c);
        k += tfm_character_next(e->target + k, e->n_target - k, &d);
        if (protect_lower(c) != protect_lower(d)) return 0;
    }
    return k == e->n_target ? i : 0;
}

/* Places a match where its target already is in the translation, if no other match is there: where
   the most words are its own, and among equals where it is nearest in proportion. */
static void terms_place_found(terms_found *f, terms_match *m, const char *text, size_t size,
                              const size_t *begins, const size_t *source_ends) {
    double share = (double)m->begin / ((double)f->size + 1), off, nearest = 2;
    size_t at, n, k, own, most = 0, best = size, best_n = 0;
    for (at = 0; at < size; at++) {
        n = terms_target_at(m->entry, text + at, size - at);
        if (!n || terms_is_inside(text, size, at) || terms_is_inside(text, size, at + n)) continue;
        for (k = own = 0; k < f->n_words && f->words[k].begin < at + n; k++) {
            if (f->words[k].end <= at) continue;
            if (f->words[k].is_taken) break;
            own += (size_t)terms_is_own(&f->words[k], m, begins, source_ends);
        }
        if (k < f->n_words && f->words[k].begin < at + n) continue; /* it is taken */
        if (terms_is_taken(f, at, at + n)) continue;
        off = (double)at / (double)size - share;
        if (off < 0) off = -off;
        if (best_n && (own < most || (own == most && off >= nearest))) continue;
        most = own, nearest = off, best = at, best_n = n;
    }
    if (best_n) terms_place(f, m, best, best + best_n);
}

/* Returns how many letters a word has. */
static size_t terms_letters(const char *text, const terms_word *w) {
    size_t i, letters = 0;
    for (i = w->begin; i < w->end; i++) letters += ((unsigned char)text[i] & 0xC0) != 0x80;
    return letters;
}

/* Places a match on the run of words with the highest sum of 2 for each word that is its own, and
   -1 for each other word and for each mark between two words. Words of at most three letters at the
   ends of the run stay in the translation if the run has a longer word, because attention often
   aligns an article to its noun. */
static void terms_place_run(terms_found *f, terms_match *m, const char *text, const size_t *begins,
                            const size_t *source_ends) {
    enum { SHORT = 3 };
    long sum = 0, best = 0;
    size_t i, from = 0, low = 0, high = 0, longest = 0;
    for (i = 0; i < f->n_words; i++) {
        const terms_word *w = &f->words[i];
        if (sum > 0 && terms_skip(text, w->begin, w[-1].end) < w->begin) sum--;
        if (w->is_taken || (sum > 0 && terms_is_taken(f, w[-1].end, w->begin))) sum = 0;
        if (w->is_taken) continue;
        if (sum <= 0) from = i, sum = 0;
        sum += terms_is_own(w, m, begins, source_ends) ? 2 : -1;
        if (sum > best) best = sum, low = from, high = i;
    }
    if (best <= 0) return;
    for (i = low; i <= high; i++) {
        size_t letters = terms_letters(text, &f->words[i]);
        if (letters > longest) longest = letters;
    }
    if (longest > SHORT + 1) longest = SHORT + 1;
    while (terms_letters(text, &f->words[low]) < longest) low++;
    while (terms_letters(text, &f->words[high]) < longest) high--;
    terms_place(f, m, f->words[low].begin, f->words[high].end);
}

/* Places a match between two words, where protect.h would insert a span. */
static void terms_place_gap(terms_found *f, terms_match *m, const char *text, size_t size, size_t n,
                            const size_t *ends, const size_t *begins) {
    size_t i, to = protect_place(f->size, m->begin, text, size, n, ends, begins);
    if (to == size) /* before the stop at the end */
        while (to && protect_in(".!?", (unsigned char)text[to - 1])) to--;
    if (to && to < size && text[to - 1] == ' ') to--;
    for (i = 0; i < f->n; i++) /* last, because a match may end with a space */
        if (f->matches[i].is_placed && f->matches[i].from < to && to < f->matches[i].to)
            to = f->matches[i].to;
    m->from = m->to = to, m->is_placed = 1;
}

/* Compares matches for qsort, by their place in the translation. */
static int terms_by_place(const void *a, const void *b) {
    const terms_match *x = (const terms_match *)a, *y = (const terms_match *)b;
    if (x->from != y->from) return x->from < y->from ? -1 : 1;
    if (x->to != y->to) return x->to < y->to ? -1 : 1;
    return x->begin < y->begin ? -1 : x->begin > y->begin;
}

/* Returns whether a sentence begins at position `at` of a text: only spaces and opening marks are
   between it and the begin of the text or a stop. */
static int terms_begins_sentence(const char *text, size_t at) {
    uint32_t c;
    while (at > 0) {
        size_t n = 1;
        while (n < 4 && n < at && ((unsigned char)text[at - n] & 0xC0) == 0x80) n++;
        (void)tfm_character_next(text + at - n, n, &c);
        if (character_is(c, TFM_CHARACTER_STOP)) return 1;
        if (!character_is_space(c) && !character_is(c, TFM_CHARACTER_OPENING)) return 0;
        at -= n;
    }
    return 1;
}

/* Appends the target of a placed match to the translation, which begins at byte `start` of out. At
   the beginning of a sentence the target gets a capital, unless the model wrote a small letter
   there. */
static void terms_append(const terms_match *m, const char *text, size_t size, size_t start,
                         text_buffer *out) {
    const char *target = m->entry->target;
    size_t n = 0;
    uint32_t c = 'A', first;
    if (m->from < m->to) (void)tfm_character_next(text + m->from, size - m->from, &c);
    if (!m->entry->is_exact && character_case(c) > 0 &&
        (out->size == start || terms_begins_sentence(out->data + start, out->size - start))) {
        n = tfm_character_next(target, m->entry->n_target, &first);
        if (character_case(first)) protect_append_char(out, protect_upper(first));
        else n = 0;
    }
    text_buffer_append(out, target + n, m->entry->n_target - n);
}

/* Appends a translation with the targets of the terms that terms_find found. Token i of the
   translation, text [size], ends at byte ends[i] and comes from bytes begins[i] to source_ends[i] -
   1 of the sentence. The function changes the three arrays [n] to those of the new translation, so
   that protect.h and markup.h can use them. If memory was too small, f->broken or out->broken is
   set. */
static inline void terms_put(terms_found *f, const char *text, size_t size, size_t n, size_t *ends,
                             size_t *begins, size_t *source_ends, text_buffer *out) {
    size_t i, k, at, token, start = out->size;
    uint32_t c;
    terms_divide(f, text, size, n, ends);
    if (f->broken) return;
    for (i = 0; i < f->n; i++)
        terms_place_found(f, &f->matches[i], text, size, begins, source_ends);
    for (i = 0; i < f->n; i++)
        if (!f->matches[i].is_placed) terms_place_run(f, &f->matches[i], text, begins, source_ends);
    for (i = 0; i < f->n; i++)
        if (!f->matches[i].is_placed)
            terms_place_gap(f, &f->matches[i], text, size, n, ends, begins);
    if (f->n) qsort(f->matches, f->n, sizeof *f->matches, terms_by_place);
    for (i = at = 0; i < f->n; i++) {
        terms_match *m = &f->matches[i];
        int is_inserted = m->from == m->to;
        text_buffer_append(out, text + at, m->from - at);
        at = m->to;
        if (is_inserted && out->size > start &&
            !protect_in(" ([{", (unsigned char)out->data[out->size - 1]) &&
            tfm_space_after(tfm_text_make(out->data + start, out->size - start)))
            text_buffer_append(out, " ", 1);
        terms_append(m, text, size, start, out);
        if (is_inserted && at < size && tfm_character_next(text + at, size - at, &c) &&
            !character_is_space(c) && !character_is_wide(c) && !protect_in(",.;:!?)]}", c))
            text_buffer_append(out, " ", 1);
        m->new_to = out->size - start;
    }
    text_buffer_append(out, text + at, size - at);
    for (token = 0; token < n; token++) {
        const terms_match *m;
        for (k = 0; k < f->n && f->matches[k].from < ends[token];) k++;
        if (!k) continue;
        m = &f->matches[k - 1];
        if (ends[token] <= m->to && m->from < m->to)
            ends[token] = m->new_to, begins[token] = m->begin, source_ends[token] = m->end;
        else ends[token] = m->new_to + (ends[token] - m->to);
    }
}

#endif
