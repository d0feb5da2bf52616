/* wrapped.h: finds the paragraphs in wrapped text (mail, manual pages, books). A part of
   markup.h.

   Two lines belong to one paragraph if the second line's first word would not have fit into the
   first line, and if both have the same quotes (>) and indentation. Items of lists, blank lines,
   rows of tables and lines that are shorter than necessary (verse, headings, addresses) are not
   joined. The hyphen between two halves of a word is removed if the document has the joined word
   elsewhere. The head and the signature of a mail are copied. */
#ifndef WRAPPED_H
#define WRAPPED_H

#include "markup_pieces.h"

typedef struct wrapped_line {
    markup_at begin, text, end, quotes, column, width;
    markup_at content, content_column; /* position and column after a list's marker */
    char is_item, is_table, is_kept;
} wrapped_line;

/* Returns the bytes of the list marker that begins a text, with the spaces after it, or 0. */
static size_t wrapped_marker(const char *text, size_t size) {
    size_t n = 0, open = size && *text == '(';
    if (protect_starts(text, size, "\xE2\x80\xA2") || protect_starts(text, size, "\xE2\x80\x93"))
        n = 3;
    else if (size && protect_in("-*+o", (unsigned char)*text)) n = 1;
    else {
        for (n = open; n < size && n < 4 + open && protect_is_digit((unsigned char)text[n]);) n++;
        if (n == open && n < size && protect_is_letter((unsigned char)text[n])) n++;
        if (n == open || n >= size ||
            (text[n] != ')' &&
             (open || text[n] != '.' || !protect_is_digit((unsigned char)text[0]))))
            return 0;
        n++;
    }
    if (n >= size || text[n] != ' ') return 0;
    while (n < size && text[n] == ' ') n++;
    return n;
}

/* Reads the line from `at` to `end` into *l. */
static void wrapped_read(const markup_document *m, size_t at, size_t end, wrapped_line *l) {
    size_t i;
    memset(l, 0, sizeof *l);
    while (end > at && markup_is_space(m->text[end - 1])) end--;
    l->begin = (markup_at)at, l->end = (markup_at)end;
    for (i = at; i < end && protect_in(" \t>", (unsigned char)m->text[i]); i++)
        l->quotes += m->text[i] == '>';
    l->text = (markup_at)i;
    l->column = (markup_at)markup_column(m->text + at, i - at, 0);
    l->width = (markup_at)markup_column(m->text + i, end - i, l->column);
    i = wrapped_marker(m->text + i, end - i);
    l->is_item = i > 0;
    l->content = l->text + (markup_at)i, l->content_column = l->column + (markup_at)i;
    for (i = l->content; i + 3 < end && l->is_table < 2;
         i++) /* three spaces may be justified text */
        if (memcmp(m->text + i, "   ", 3) == 0 || m->text[i] == '\t')
            l->is_table = m->text[i] == '\t' || m->text[i + 3] == ' ' ? 2 : 1;
}

/* Returns the hash of the word that begins a text; *n is its bytes. */
static uint64_t wrapped_word(const char *text, size_t size, size_t *n) {
    for (*n = 0; *n < size &&
                 (protect_is_letter((unsigned char)text[*n]) || (unsigned char)text[*n] >= 0x80);)
        ++*n;
    return markdown_hash(text, *n);
}

/* Returns whether the document has a word. The first call collects the hashes of all words and
   sorts them; without a hyphen in the document there is no call. */
static int wrapped_knows(markup_document *m, text_buffer *words, uint64_t hash) {
    size_t i, n;
    if (!words->size) {
        for (i = 0; i < m->size; i += n + (n == 0)) {
            uint64_t word = wrapped_word(m->text + i, m->size - i, &n);
            if (n) text_buffer_append(words, (const char *)&word, sizeof word);
        }
        if (words->size && !words->broken)
            qsort(words->data, words->size / sizeof hash, sizeof hash, markdown_by_hash);
    }
    m->broken |= words->broken;
    return !m->broken && words->size &&
           bsearch(&hash, words->data, words->size / sizeof hash, sizeof hash, markdown_by_hash) !=
               NULL;
}

/* Returns how many bytes of a hyphen at the end of a line are dropped before the next line is
   joined; -1 if the lines are joined by a space. */
static int wrapped_hyphen(markup_document *m, text_buffer *words, size_t begin, size_t end,
                          size_t next, size_t next_end) {
    const char *text = m->text;
    size_t from, n[2], wide = 1;
    text_buffer word;
    uint32_t c, after;
    uint64_t hash;
    if (end >= begin + 2 && memcmp(text + end - 2, "\xC2\xAD", 2) == 0) return 2;
    if (end >= begin + 3 && memcmp(text + end - 3, "\xE2\x80\x90", 3) == 0) wide = 3;
    else if (end < begin + 2 || text[end - 1] != '-') { /* there is no hyphen */
        c = protect_before(text + begin, end - begin);
        (void)tfm_character_next(text + next, next_end - next, &after);
        return character_is_wide(c) && character_is_wide(after) ? 0 : -1;
    }
    (void)tfm_character_next(text + next, next_end - next, &after);
    if (character_case(protect_before(text + begin, end - wide - begin)) == 0 ||
        character_case(after) >= 0)
        return -1;
    for (from = end - wide; from > begin && (protect_is_letter((unsigned char)text[from - 1]) ||
                                             (unsigned char)text[from - 1] >= 0x80);)
        from--;
    (void)wrapped_word(text + next, next_end - next, &n[1]);
    if (characters_list_has(" und oder and or bis to et ou y o e i en of och ", text + next, n[1]))
        return -1;
    memset(&word, 0, sizeof word);
    text_buffer_append(&word, text + from, end - wide - from),
        text_buffer_append(&word, text + next, n[1]);
    hash = word.broken ? 0 : wrapped_word(word.data, word.size, &n[0]);
    m->broken |= word.broken;
    text_buffer_free(&word);
    return hash && wrapped_knows(m, words, hash) ? (int)wide : 0;
}

/* Reads a block: joins its lines and adds its plain text. */
static void wrapped_scan_text(markup_document *m, text_buffer *words, const markup_block *b) {
    size_t i = markup_break_at(m, b->begin), at = b->begin;
    (void)markup_add(m, MARKUP_BLOCK, at, at);
    for (; i < m->n_breaks && m->breaks[i].begin < b->end && !m->broken; i++) {
        size_t end = m->breaks[i].begin, next = m->breaks[i].end;
        int dropped = wrapped_hyphen(m, words, at, end, next, b->end);
        markup_add_text(m, at, end - (size_t)(dropped > 0 ? dropped : 0));
        if (dropped < 0 && !markup_after_space(m)) markup_plain(m, " ", 1, end, end + 1);
        at = next;
    }
    if (!m->broken) markup_add_text(m, at, b->end);
}

/* Returns the number that 19 of 20 numbers do not exceed. */
static size_t wrapped_most(size_t *n, size_t count) {
    if (count) qsort(n, count, sizeof *n, markup_by_number);
    return count ? n[count - 1 - count / 20] : 0;
}

/* The lines of a document. */
typedef struct wrapped_lines {
    wrapped_line *line;
    size_t n, room;
    size_t width; /* of a full line */
    size_t run;   /* the line behind those for which limit was computed */
    size_t limit; /* a line with as many columns, or more, may go on in the next line */
} wrapped_lines;

/* What a line belongs to, which is copied */
enum { WRAPPED_KEPT_NOT, WRAPPED_KEPT_HEAD, WRAPPED_KEPT_SIGNATURE };

/* Returns whether the document's first line begins the head of a mail, such as "From: ". */
static int wrapped_is_head(const markup_document *m, const wrapped_line *l) {
    size_t i = l->text;
    while (i < l->end && (protect_is_letter((unsigned char)m->text[i]) || m->text[i] == '-')) i++;
    return i > l->text && i + 1 < l->end && m->text[i] == ':' && m->text[i + 1] == ' ' &&
           markup_find(m, 0, "\nsubject: ") < m->size;
}

/* Reads all lines. */
static void wrapped_read_lines(markup_document *m, wrapped_lines *all) {
    int kept = WRAPPED_KEPT_NOT;
    size_t at, end;
    for (at = 0; at < m->size && !m->broken; all->n++, at = end + 1) {
        const char *newline = (const char *)memchr(m->text + at, '\n', m->size - at);
        void *grown = all->line;
        wrapped_line *l;
        end = newline ? (size_t)(newline - m->text) : m->size;
        if (!markup_reserve(m, &grown, &all->room, all->n + 1, sizeof *all->line)) break;
        all->line = (wrapped_line *)grown;
        l = &all->line[all->n];
        wrapped_read(m, at, end, l);
        if (all->n == 0 && wrapped_is_head(m, l)) kept = WRAPPED_KEPT_HEAD;
        if (l->text == l->end && kept == WRAPPED_KEPT_HEAD) kept = WRAPPED_KEPT_NOT;
        if (l->end - l->text == 2 && memcmp(m->text + l->text, "--", 2) == 0)
            kept = WRAPPED_KEPT_SIGNATURE;
        if (kept == WRAPPED_KEPT_SIGNATURE && all->n && l->quotes != l[-1].quotes)
            kept = WRAPPED_KEPT_NOT;
        l->is_kept = kept != WRAPPED_KEPT_NOT;
    }
    if (m->broken) all->n = 0;
}

/* Finds the width of a full line: 19 of 20 lines that others follow are not wider. */
static void wrapped_find_width(markup_document *m, wrapped_lines *all) {
    size_t *widths = (size_t *)malloc((all->n + 1) * sizeof *widths), i, n = 0;
    const wrapped_line *l = all->line;
    if (!widths) {
        m->broken = 1, all->n = 0;
        return;
    }
    for (i = 0; i + 1 < all->n; i++)
        if (l[i + 1].text < l[i + 1].end && l[i].text < l[i].end && !l[i].is_kept)
            widths[n++] = l[i].width;
    all->width = all->n ? wrapped_most(widths, n) : 0;
    free(widths);
}

/* Computes limit for line i and the others up to a blank one. */
static void wrapped_find_limit(wrapped_lines *all, size_t i) {
    size_t most = 0, run = i;
    const wrapped_line *l = all->line;
    if (i < all->run) return;
    for (; run < all->n && l[run].text < l[run].end && l[run].quotes == l[i].quotes; run++)
        if (l[run].width > most) most = l[run].width;
    if (most > all->width || most < all->width * 6 / 10) most = all->width;
    all->run = run, all->limit = most - most / 12;
}

/* Adds each cell of a table's row as a block. Two spaces or a tab are between cells. */
static void wrapped_add_cells(markup_document *m, const wrapped_line *l) {
    size_t at, k;
    for (at = l->content; at < l->end; at = k) {
        while (at < l->end && (m->text[at] == ' ' || m->text[at] == '\t')) at++;
        for (k = at; k < l->end && m->text[k] != '\t' &&
                     !(k + 1 < l->end && m->text[k] == ' ' && m->text[k + 1] == ' ');)
            k++;
        if (k > at) (void)markup_add_block(m, MARKUP_WRAPPED, l->begin, at, k);
    }
}

/* Returns whether the paragraph of a line goes on in the next line. is_first: the line begins
   it. */
static int wrapped_goes_on(const markup_document *m, const wrapped_lines *all,
                           const wrapped_line *l, int is_first) {
    const wrapped_line *next = l + 1;
    size_t word = 0;
    while (next->text + word < next->end && m->text[next->text + word] != ' ') word++;
    if (next->text == next->end || next->quotes != l->quotes || next->is_item || next->is_kept ||
        next->is_table > (next->width >= all->limit) ||
        l->width + 1 + markup_column(m->text + next->text, word, 0) <= all->limit)
        return 0;
    if (!is_first) return next->column == l->column;
    if (l->is_item) return next->column >= l->column && next->column <= l->content_column + 1;
    return next->column <= l->column + 8;
}

/* Reads a document of wrapped text: adds its blocks and plain text. */
static void wrapped_scan(markup_document *m) {
    wrapped_lines all;
    text_buffer words;
    size_t i, joined;
    memset(&all, 0, sizeof all), memset(&words, 0, sizeof words);
    wrapped_read_lines(m, &all);
    wrapped_find_width(m, &all);
    for (i = 0; i < all.n; i += joined) {
        const wrapped_line *l = &all.line[i];
        markup_block *b;
        joined = 1;
        if (l->text == l->end || l->is_kept) continue;
        wrapped_find_limit(&all, i);
        if (l->is_table > (l->width >= all.limit)) {
            wrapped_add_cells(m, l);
            continue;
        }
        b = markup_add_block(m, MARKUP_WRAPPED, l->begin, l->content, l->end);
        if (!b) break;
        b->is_folded = l->column + 1 < all.width;
        for (; i + joined < all.n && wrapped_goes_on(m, &all, l, joined == 1); joined++) {
            markup_add_break(m, l->end, l[1].text);
            l++;
            b->end = (markup_at)l->end;
            if (joined == 1) b->next_line = (markup_at)l->begin, b->next_text = (markup_at)l->text;
        }
    }
    free(all.line);
    for (i = 0; i < m->n_blocks && !m->broken; i++) wrapped_scan_text(m, &words, &m->blocks[i]);
    text_buffer_free(&words);
}

#endif
