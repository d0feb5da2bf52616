/* markup.h: translates documents with tags, sentence by sentence, and places the tags by alignment.

       markup m = {0};
       if (markup_read(&m, MARKUP_HTML, text, size))
           for (i = 0; i < m.n_sentences; i++) ... translate m.sentences[i].text [.size]
       markup_begin(&m);
       for (i = 0; i < m.n_sentences; i++) markup_put(&m, &translation, &out);   in their order
       markup_end(&m, &out);
       markup_free(&m);

   or call markup_translate with a function that translates all sentences. For any document and any
   translation:
    - every tag is written once, with the same bytes, and a well-formed document stays well-formed;
    - all text outside the sentences is copied;
    - a sentence that could not be translated is copied;
    - time is linear in the size of the document.

   A tag inside a sentence follows its words. An element covers the run of translated words with the
   most words aligned to its own and the fewest others. An empty element is placed where it crosses
   the fewest alignments. Neighbouring elements may change places, but elements never cross. Block
   tags end sentences and never move. A tag without a partner is malformed and does the same. Code
   and elements with translate="no" are copied, and so are entities that are not in the table below.
   Other entities are read as letters; they are written as UTF-8, except & < >.

   Markdown is read and written by markdown.h. A paragraph of several lines is wrapped again, at the
   document's width, and a word that would begin a block is never put at the begin of a line.

   Wrapped text is read by wrapped.h.

   Subtitles: a sentence over several lines or cues is translated whole and divided between words,
   in the proportion that its lines have in the source. Numbers and times are copied. A sentence
   begins at a line that begins with a dash, a bracket or a note, and after six lines without an
   end. */
#ifndef MARKUP_H
#define MARKUP_H

#include "protect.h"

typedef enum markup_form {
    MARKUP_HTML,     /* HTML or XML */
    MARKUP_SRT,      /* subtitles: SubRip or WebVTT */
    MARKUP_MARKDOWN, /* CommonMark, with tables */
    MARKUP_WRAPPED   /* plain text in wrapped lines */
} markup_form;

/* A token of a translation: its end in the translation, and the bytes of the source sentence that
   it is aligned to. Both are 0 if it is not aligned. */
typedef struct markup_token {
    size_t end, source_begin, source_end;
} markup_token;

typedef struct markup_translation {
    const char *text; /* NULL: the sentence is copied */
    size_t size, n;
    const markup_token *tokens; /* [n], ends ascending */
} markup_translation;

typedef enum markup_kind {
    MARKUP_OPEN,  /* an opening tag with a partner */
    MARKUP_CLOSE, /* a closing tag with a partner */
    MARKUP_POINT, /* a tag without content, or a comment */
    MARKUP_COPY,  /* a piece of a sentence that is copied */
    MARKUP_CUT,   /* divides a sentence into parts that keep their order */
    MARKUP_BLOCK  /* ends a sentence and never moves */
} markup_kind;

typedef struct markup_item {
    markup_kind kind;
    size_t begin, end;              /* its bytes in the document */
    size_t at;                      /* its position in the plain text */
    size_t match;                   /* for OPEN and CLOSE: the partner's index */
    int space_before, space_behind; /* whether the document has a space there */
    int is_line;                    /* for CUT: it is between two lines or cues */
    char c;                         /* for Markdown: its delimiter */
    size_t label, n_label; /* for [text] links: the text, which is the label, in the document */
} markup_item;

typedef struct markup_sentence {
    const char *text; /* the sentence in the plain text */
    size_t size;
    size_t begin;       /* its position in the plain text */
    size_t first, last; /* its items are first to last - 1 */
    size_t from, to;    /* its bytes in the document, with its items */
} markup_sentence;

typedef struct markup_place {
    size_t begin, end; /* the bytes of the document that a byte of the plain text comes from */
} markup_place;

/* A block of a document in lines (Markdown, wrapped text): a paragraph, a heading, a table's
   cell. */
typedef struct markup_block {
    size_t line;       /* begin of its first line in the document */
    size_t begin, end; /* its text in the document */
    markup_form form;
    int is_folded; /* it may be wrapped again */
    int is_line;   /* it begins a line's text, so its first characters could be syntax */
    int is_cell;   /* it is a cell of a table */
    /* The bytes before the text of its second line, if they are known; else 0. */
    size_t next_line, next_text;
} markup_block;

/* The bytes between two lines of a block: from the end of one line to the text of the next. */
typedef struct markup_break {
    size_t begin, end;
} markup_break;

/* A word of a translation: a piece that no tag may divide. */
typedef struct markup_word {
    size_t begin, end; /* its bytes, without spaces around it */
    size_t token, n;   /* its first token, and how many it has */
    size_t owner;      /* the innermost node that covers the word */
    size_t inner;      /* the innermost node that covers the gap before the word */
    int is_punctuation;
} markup_word;

/* An item and its place in a translation. A part of the sentence between two cuts is also a node;
   it has no item. */
typedef struct markup_node {
    size_t item, close; /* indices of items; close: an element's closing tag */
    size_t parent, index;
    size_t low, high; /* it covers the words low to high - 1 */
} markup_node;

typedef struct markup {
    markup_form form;
    const char *text; /* the document; the caller owns it */
    size_t size;
    buffer plain;  /* its text without tags */
    buffer places; /* a markup_place for each byte of plain */
    markup_item *items;
    markup_sentence *sentences;
    markup_word *words;
    markup_node *nodes;
    markup_block *blocks;
    markup_break *breaks;
    struct markdown *md;
    size_t n_items, room_items, n_sentences, room_sentences, room_words, room_nodes;
    size_t n_blocks, room_blocks, n_breaks, room_breaks;
    /* options, set before markup_read */
    int protects; /* copy all that protect.h protects; 0: only placeholders */
    size_t wrap;  /* width of wrapped lines; 0: the document's */
    /* writing */
    size_t next;         /* the next sentence */
    size_t at;           /* the document is written up to this byte */
    size_t width;        /* width of wrapped lines; 0: lines are not wrapped */
    const char *newline; /* what ends the document's first line */
    size_t block;        /* the current block */
    size_t hard;         /* item of its next hard break */
    size_t first_hard;   /* item of its first hard break */
    int in_block;        /* the current block is begun */
    int is_made;         /* a sentence of the current block was translated */
    buffer woven;        /* the current block's new text, not wrapped yet */
    int owes;            /* a space must be written before the next letter */
    int has_brackets;    /* brackets mean something in the current sentence */
    int broken;          /* memory was too small */
} markup;

enum { MARKUP_NONE = -1, MARKUP_NAME = 24, MARKUP_DEEP = 64 };

static void markdown_free(struct markdown *d);

/* Frees all memory; m can be used again. */
static void markup_free(markup *m) {
    buffer_free(&m->plain), buffer_free(&m->places), buffer_free(&m->woven);
    free(m->items), free(m->sentences), free(m->words), free(m->nodes);
    free(m->blocks), free(m->breaks), markdown_free(m->md);
    memset(m, 0, sizeof *m);
}

/* Makes room at *at for n elements of `size` bytes. Returns 0, and sets m->broken, if there is no
   memory. */
static int markup_reserve(markup *m, void **at, size_t *room, size_t n, size_t size) {
    void *grown;
    if (n <= *room) return 1;
    grown = realloc(*at, (2 * n + 16) * size);
    if (grown) *at = grown, *room = 2 * n + 16;
    else m->broken = 1;
    return grown != NULL;
}

/* Returns m->places as an array: a place for each byte of the plain text. */
static const markup_place *markup_places(const markup *m) {
    return (const markup_place *)(const void *)m->places.data;
}

/* ---- plain text ------------------------------------------------------------------------------ */

/* The entities of U+00A0 to U+00FF, in order. */
static const char markup_latin[] =
    "nbsp iexcl cent pound curren yen brvbar sect uml copy ordf laquo not shy reg macr deg plusmn "
    "sup2 sup3 acute micro para middot cedil sup1 ordm raquo frac14 frac12 frac34 iquest Agrave "
    "Aacute Acirc Atilde Auml Aring AElig Ccedil Egrave Eacute Ecirc Euml Igrave Iacute Icirc Iuml "
    "ETH Ntilde Ograve Oacute Ocirc Otilde Ouml times Oslash Ugrave Uacute Ucirc Uuml Yacute THORN "
    "szlig agrave aacute acirc atilde auml aring aelig ccedil egrave eacute ecirc euml igrave "
    "iacute icirc iuml eth ntilde ograve oacute ocirc otilde ouml divide oslash ugrave uacute "
    "ucirc uuml yacute thorn yuml ";
static const struct markup_entity {
    const char *name;
    uint32_t c;
} markup_entities[] = {
    {"amp", '&'},       {"lt", '<'},        {"gt", '>'},        {"quot", '"'},
    {"apos", '\''},     {"hellip", 0x2026}, {"ndash", 0x2013},  {"mdash", 0x2014},
    {"lsquo", 0x2018},  {"rsquo", 0x2019},  {"sbquo", 0x201A},  {"ldquo", 0x201C},
    {"rdquo", 0x201D},  {"bdquo", 0x201E},  {"bull", 0x2022},   {"euro", 0x20AC},
    {"trade", 0x2122},  {"OElig", 0x152},   {"oelig", 0x153},   {"Scaron", 0x160},
    {"scaron", 0x161},  {"Yuml", 0x178},    {"thinsp", 0x2009}, {"ensp", 0x2002},
    {"emsp", 0x2003},   {"lsaquo", 0x2039}, {"rsaquo", 0x203A}, {"permil", 0x2030},
    {"dagger", 0x2020}, {"minus", 0x2212},  {"rarr", 0x2192},   {"larr", 0x2190},
    {"le", 0x2264},     {"ge", 0x2265},     {"ne", 0x2260}};

/* Returns the bytes of the entity that begins at text, which is "&", or 0. *c is its character, or
   0 if it is not in the tables. */
static size_t markup_entity_at(const char *text, size_t size, uint32_t *c) {
    const char *name = text + 1, *at, *end;
    size_t n = 0, i;
    *c = 0;
    if (size > 2 && *name == '#') {
        int base = name[1] == 'x' || name[1] == 'X' ? 16 : 10;
        for (n = base == 16 ? 3 : 2; n < size && n < 10; n++) {
            int digit = protect_is_digit((unsigned char)text[n]) ? text[n] - '0'
                        : base == 16 && protect_in("abcdef", (unsigned char)text[n] | 32u)
                            ? (text[n] | 32) - 'a' + 10
                            : 99;
            if (digit >= base) break;
            *c = *c * (uint32_t)base + (uint32_t)digit;
        }
        if (n < (base == 16 ? 4u : 3u) || n >= size || text[n] != ';') return 0;
        if (*c < ' ' || (*c >= 0x7F && *c < 0xA0) || (*c >= 0xD800 && *c < 0xE000) || *c > 0x10FFFF)
            *c = 0;
        return n + 1;
    }
    while (n + 1 < size && n < 32 && protect_is_word((unsigned char)name[n])) n++;
    if (!n || n + 1 >= size || name[n] != ';' || !protect_is_letter((unsigned char)*name)) return 0;
    for (i = 0; i < sizeof markup_entities / sizeof *markup_entities; i++)
        if (strlen(markup_entities[i].name) == n && memcmp(markup_entities[i].name, name, n) == 0)
            *c = markup_entities[i].c;
    for (at = markup_latin, i = 0xA0; *at && !*c; at = end + 1, i++) {
        end = strchr(at, ' ');
        if ((size_t)(end - at) == n && memcmp(at, name, n) == 0) *c = (uint32_t)i;
    }
    return n + 2;
}

static int markup_is_space(char c) { return c && strchr(" \t\n\r\f", c) != NULL; }

/* Returns whether a space at the end of the plain text would be one too many. */
static int markup_after_space(const markup *m) {
    return !m->plain.size || markup_is_space(m->plain.data[m->plain.size - 1]);
}

/* Appends bytes to the plain text, which come from bytes begin to end of the document. */
static void markup_plain(markup *m, const char *bytes, size_t n, size_t begin, size_t end) {
    markup_place place;
    place.begin = begin, place.end = end;
    buffer_append(&m->plain, bytes, n);
    for (; n > 0; n--) buffer_append(&m->places, (const char *)&place, sizeof place);
}

/* Adds an item at the end of the plain text. Returns NULL if there is no memory. */
static markup_item *markup_add(markup *m, markup_kind kind, size_t begin, size_t end) {
    void *items = m->items;
    markup_item *item;
    int grown = markup_reserve(m, &items, &m->room_items, m->n_items + 1, sizeof *m->items);
    m->items = (markup_item *)items;
    if (!grown) return NULL;
    item = &m->items[m->n_items];
    item->kind = kind;
    item->begin = begin, item->end = end, item->match = m->n_items++;
    item->space_before = markup_after_space(m), item->is_line = 0, item->c = 0, item->n_label = 0;
    item->space_behind = end >= m->size || markup_is_space(m->text[end]);
    if (kind == MARKUP_BLOCK) markup_plain(m, "\n\n", 2, begin, begin);
    item->at = m->plain.size;
    return item;
}

/* Returns the bytes of the protected span at byte `at` of the text from begin to end, or 0. */
static size_t markup_protected(const markup *m, size_t begin, size_t at, size_t end) {
    if (m->protects) return protect_span_at(m->text + begin, end - begin, at - begin);
    if (!protect_in("{%$", (unsigned char)m->text[at]) ||
        protect_is_word(protect_before(m->text + begin, at - begin)))
        return 0;
    return protect_placeholder(m->text + at, end - at);
}

/* Appends text of the document to the plain text. Entities become letters, runs of whitespace
   become one space. */
static void markup_add_text(markup *m, size_t at, size_t end) {
    buffer letter;
    size_t n, k, begin = at;
    uint32_t c;
    memset(&letter, 0, sizeof letter);
    for (; at < end; at += n) {
        n = 1;
        if (markup_is_space(m->text[at])) {
            if (!markup_after_space(m)) markup_plain(m, " ", 1, at, at + 1);
            continue;
        }
        k = m->n_items; /* no space between copied code and a comma */
        if (k && m->items[k - 1].kind == MARKUP_COPY && m->items[k - 1].at == m->plain.size &&
            m->plain.size > 1 && m->plain.data[m->plain.size - 1] == ' ' &&
            protect_in(",.;:!?)]}", (unsigned char)m->text[at])) {
            m->plain.data[--m->plain.size] = 0, m->places.size -= sizeof(markup_place);
            for (; k > 0 && m->items[k - 1].at > m->plain.size; k--)
                m->items[k - 1].at = m->plain.size;
        }
        k = markup_protected(m, begin, at, end);
        if (k) {
            (void)markup_add(m, MARKUP_COPY, at, at + k);
            n = k;
            continue;
        }
        k = m->text[at] == '&' && (m->form == MARKUP_HTML || m->form == MARKUP_MARKDOWN)
                ? markup_entity_at(m->text + at, end - at, &c)
                : 0;
        if (k && !c) {
            (void)markup_add(m, MARKUP_COPY, at, at + k);
        } else if (k) {
            letter.size = 0;
            protect_append_char(&letter, c);
            m->broken |= letter.broken;
            if (!letter.broken) markup_plain(m, letter.data, letter.size, at, at + k);
        } else {
            k = sentence_char(m->text + at, end - at, &c);
            markup_plain(m, m->text + at, k, at, at + k);
        }
        n = k;
    }
    buffer_free(&letter);
}

/* ---- tags: HTML and XML ---------------------------------------------------------------------- */

/* Tags inside sentences, with those of XLIFF. All other tags end sentences. */
static const char markup_inline[] =
    " a abbr acronym b bdi bdo big cite data del dfn em embed font g i img input ins label mark mrk"
    " output pc q ruby s small span strike strong sub time u wbr x bx ex ec sc xliff:g ";
static const char markup_void[] =
    " area base basefont bgsound br col command embed frame hr img input keygen link meta param"
    " source track wbr ";
/* Elements that are copied. Those of markup_raw end only at their closing tag, whatever they
   contain. */
static const char markup_raw[] = " script style textarea xmp ";
static const char markup_copied[] = " bpt code ept it kbd math ph samp sup svg tt ut var ";
static const char markup_copied_blocks[] = " pre template ";

typedef struct markup_tag {
    char name[MARKUP_NAME]; /* in small letters; a longer name is cut off */
    size_t n, begin, end, match;
    int is_open, is_close; /* both 0: <a/>, <br>, <!-- --> */
    int copied;            /* the element is copied */
    int is_opaque;         /* not an element: 1 may be in a sentence (comment), 2 ends it */
} markup_tag;

/* Reads the tag that begins at `begin` with "<" and a name. Returns its end, or 0 if the document
   ends before. A quote counts as one only after "=". */
static size_t markup_read_tag(const markup *m, size_t begin, markup_tag *tag) {
    const char *text = m->text;
    size_t at = begin + 1, name, n, value, end;
    tag->begin = begin, tag->n = 0;
    tag->is_close = text[at] == '/', tag->is_opaque = tag->copied = 0;
    for (at += (size_t)tag->is_close; at < m->size && !markup_is_space(text[at]); at++) {
        if (text[at] == '>' || (text[at] == '/' && at + 1 < m->size && text[at + 1] == '>')) break;
        if (tag->n + 1 >= MARKUP_NAME) continue;
        tag->name[tag->n++] = (char)(text[at] >= 'A' && text[at] <= 'Z' ? text[at] + 32 : text[at]);
    }
    tag->name[tag->n] = 0;
    while (at < m->size && text[at] != '>') {
        char quote;
        if (markup_is_space(text[at]) || text[at] == '/') {
            at++;
            continue;
        }
        for (name = at; at < m->size && (at == name || !strchr("=>/", text[at]) || !text[at]) &&
                        !markup_is_space(text[at]);)
            at++;
        for (n = at - name; at < m->size && markup_is_space(text[at]);) at++;
        if (at >= m->size || text[at] != '=') continue;
        for (at++; at < m->size && markup_is_space(text[at]);) at++;
        quote = at < m->size && (text[at] == '"' || text[at] == '\'') ? text[at] : 0;
        at += quote != 0;
        for (value = at; at < m->size && (quote ? text[at] != quote
                                                : text[at] != '>' && !markup_is_space(text[at]));)
            at++;
        end = at;
        if (n == 9 && memcmp(text + name, "translate", 9) == 0)
            tag->copied |= end - value == 2 && memcmp(text + value, "no", 2) == 0;
        if (n == 5 && memcmp(text + name, "class", 5) == 0)
            for (; value + 11 <= end; value++)
                tag->copied |= memcmp(text + value, "notranslate", 11) == 0;
        at += quote && at < m->size;
    }
    if (at >= m->size) return 0;
    tag->end = at + 1;
    tag->is_open = !tag->is_close && text[at - 1] != '/' &&
                   !sentence_in_table(markup_void, tag->name, tag->n);
    if (tag->is_open && (sentence_in_table(markup_raw, tag->name, tag->n) ||
                         sentence_in_table(markup_copied, tag->name, tag->n) ||
                         sentence_in_table(markup_copied_blocks, tag->name, tag->n)))
        tag->copied = 1;
    return tag->end;
}

/* Finds a text at or after `at`; `what` is in small letters and matches either case. Returns the
   document's end if there is none. */
static size_t markup_find(const markup *m, size_t at, const char *what) {
    size_t n = strlen(what), i;
    for (; at + n <= m->size; at++) {
        for (i = 0; i < n; i++)
            if ((m->text[at + i] >= 'A' && m->text[at + i] <= 'Z' ? m->text[at + i] + 32
                                                                  : m->text[at + i]) != what[i])
                break;
        if (i == n) return at;
    }
    return m->size;
}

/* Reads the tag, comment, CDATA section or declaration at a "<" and returns its end; 0 if the "<"
   is only a character. One without an end reaches to the end of the document. */
static size_t markup_tag_at(const markup *m, size_t at, markup_tag *tag) {
    static const char *const odd[][2] = {
        {"<!--", "-->"}, {"<![CDATA[", "]]>"}, {"<!", ">"}, {"<?", ">"}};
    const char *text = m->text + at;
    size_t left = m->size - at, i, end;
    memset(tag, 0, sizeof *tag);
    if (left < 2) return 0;
    for (i = 0; i < 4; i++)
        if (protect_starts(text, left, odd[i][0])) {
            end = markup_find(m, at + strlen(odd[i][0]), odd[i][1]) + strlen(odd[i][1]);
            tag->begin = at, tag->is_opaque = i == 0 || i == 3 ? 1 : 2;
            tag->end = end < m->size ? end : m->size;
            return tag->end;
        }
    if (!protect_is_letter((unsigned char)text[text[1] == '/' && left > 2 ? 2 : 1])) return 0;
    if (markup_read_tag(m, at, tag)) return tag->end;
    tag->is_opaque = 2, tag->is_open = tag->is_close = 0;
    return tag->end = m->size;
}

/* Returns all tags from a byte on; match is the partner's index, or the tag's own. A partner is
   searched only MARKUP_DEEP levels up: without this limit time would be quadratic. */
static markup_tag *markup_tags(markup *m, size_t at, size_t *n_tags) {
    markup_tag *tags = NULL, *tag;
    size_t room = 0, n = 0, *open = NULL, room_open = 0, n_open = 0, k;
    void *grown;
    const char *next;
    int ok = 1;
    while (ok && at < m->size &&
           (next = (const char *)memchr(m->text + at, '<', m->size - at)) != NULL) {
        at = (size_t)(next - m->text);
        grown = tags, ok = markup_reserve(m, &grown, &room, n + 1, sizeof *tags);
        tags = (markup_tag *)grown;
        if (!ok) break;
        tag = &tags[n];
        if (!markup_tag_at(m, at, tag)) {
            at++;
            continue;
        }
        tag->match = n, at = tag->end;
        if (tag->is_open && sentence_in_table(markup_raw, tag->name, tag->n)) {
            char close[MARKUP_NAME + 2] = "</";
            markup_tag last;
            memcpy(close + 2, tag->name, tag->n + 1);
            k = markup_find(m, at, close);
            tag->end = k < m->size && markup_read_tag(m, k, &last) ? last.end : m->size;
            tag->is_opaque = 2, tag->is_open = 0, at = tag->end;
        }
        if (tag->is_open) {
            grown = open, ok = markup_reserve(m, &grown, &room_open, n_open + 1, sizeof *open);
            open = (size_t *)grown;
            if (ok) open[n_open++] = n;
        } else if (tag->is_close) {
            for (k = n_open; k > 0 && n_open - k < MARKUP_DEEP; k--)
                if (strcmp(tags[open[k - 1]].name, tag->name) == 0) {
                    tag->match = open[k - 1], tags[open[k - 1]].match = n, n_open = k - 1;
                    break;
                }
        }
        n++;
    }
    free(open);
    *n_tags = n;
    return tags;
}

/* Joins the items of an element without text, from item `first` on, to one. Returns 0 if the
   element has text. */
static int markup_join(markup *m, size_t first, size_t end) {
    markup_item *item = &m->items[first];
    size_t i;
    if (item->at != m->plain.size) return 0;
    item->kind = MARKUP_POINT;
    for (i = first + 1; i < m->n_items; i++)
        if (m->items[i].kind == MARKUP_COPY) item->kind = MARKUP_COPY;
    item->match = first, item->end = end;
    item->space_behind = end >= m->size || markup_is_space(m->text[end]);
    m->n_items = first + 1;
    return 1;
}

/* Reads bytes at to end of the document as HTML or XML: adds their items and plain text. */
static void markup_scan_html(markup *m, size_t at, size_t end) {
    size_t n, i, last, size = m->size;
    markup_tag *tags;
    m->size = end;
    tags = markup_tags(m, at, &n);
    for (i = 0; i < n && !m->broken; i = last + 1) {
        const markup_tag *tag = &tags[i];
        int is_inline = sentence_in_table(markup_inline, tag->name, tag->n);
        int is_matched = tag->match != i;
        markup_kind kind = MARKUP_BLOCK;
        markup_item *item;
        last = i;
        markup_add_text(m, at, tag->begin);
        if (tag->is_open && tag->copied && is_matched) {
            last = tag->match;
            if (is_inline || sentence_in_table(markup_copied, tag->name, tag->n))
                kind = MARKUP_COPY;
        } else if (tag->is_opaque == 1 || (is_inline && !tag->is_open && !tag->is_close))
            kind = MARKUP_POINT;
        else if (is_inline && is_matched) kind = tag->is_open ? MARKUP_OPEN : MARKUP_CLOSE;
        at = tags[last].end;
        if (kind == MARKUP_CLOSE && markup_join(m, tags[tag->match].n, at)) continue;
        item = markup_add(m, kind, tag->begin, at);
        if (!item) break;
        tags[i].n = m->n_items - 1; /* from here on n is the tag's item, which its partner needs */
        if (kind == MARKUP_CLOSE)
            item->match = tags[tag->match].n, m->items[item->match].match = m->n_items - 1;
    }
    if (!m->broken) markup_add_text(m, at, m->size);
    m->size = size;
    free(tags);
}

/* ---- subtitles ------------------------------------------------------------------------------- */

/* Reads a line of subtitles with its tags: <i>, {\an8}. open [n_open] has the opening tags without
   a partner so far. A pair of tags is an element if it is in one line, has text and has no cut
   inside. All other tags are cuts. */
static void markup_scan_line(markup *m, size_t at, size_t end, size_t *open, size_t *n_open) {
    markup_tag tag, other;
    markup_item *item;
    size_t from = at, i, n, first = m->n_items;
    for (; at < end && !m->broken; at = n) {
        n = at + 1;
        tag.is_open = tag.is_close = tag.is_opaque = 0;
        if (m->text[at] == '{' && n < end && m->text[n] == '\\') {
            const char *close = (const char *)memchr(m->text + at, '}', end - at);
            if (!close) break; /* the tag has no end: the rest of the line is text */
            n = (size_t)(close - m->text) + 1;
        } else {
            size_t size = m->size;
            if (m->text[at] != '<') continue;
            m->size = end; /* a tag must end in its line */
            n = markup_tag_at(m, at, &tag);
            m->size = size;
            if (tag.is_opaque) break;
            if (!n) n = at + 1;
            if (!tag.end) continue;
        }
        markup_add_text(m, from, at);
        from = n;
        item = markup_add(m, tag.is_close || tag.is_open ? MARKUP_CUT : MARKUP_POINT, at, n);
        if (!item) return;
        if (tag.is_open && *n_open < MARKUP_DEEP) open[(*n_open)++] = m->n_items - 1;
        else if (tag.is_open) first = m->n_items;
        if (!tag.is_close) continue;
        i = *n_open ? open[--*n_open] : 0;
        if (i >= first) (void)markup_read_tag(m, m->items[i].begin, &other);
        if (i < first || m->items[i].at == m->plain.size || strcmp(tag.name, other.name) != 0) {
            first = m->n_items; /* this cut does not move, so no element may contain it */
            continue;
        }
        item->kind = MARKUP_CLOSE, item->match = i;
        m->items[i].kind = MARKUP_OPEN, m->items[i].match = m->n_items - 1;
    }
    markup_add_text(m, from, end);
}

/* Reads a document of subtitles. The text of a cue is what follows a line with digits and "-->" up
   to a blank line. */
static void markup_scan_srt(markup *m) {
    enum { MOST_LINES = 6 };
    size_t at, end, next, from, text_end = 0, open[MARKUP_DEEP], n_open = 0;
    int in_cue = 0, lines = 0, any = 0;
    for (at = 0; at < m->size && !m->broken; at = next) {
        const char *newline = (const char *)memchr(m->text + at, '\n', m->size - at);
        int is_time = 0;
        next = newline ? (size_t)(newline - m->text) + 1 : m->size;
        for (end = next; end > at && markup_is_space(m->text[end - 1]);) end--;
        for (from = at; from < end && markup_is_space(m->text[from]);) from++;
        if (from < end && protect_is_digit((unsigned char)m->text[from]))
            for (; at + 3 <= end && !is_time; at++) is_time = memcmp(m->text + at, "-->", 3) == 0;
        if (is_time || from == end || !in_cue) {
            in_cue = is_time || (in_cue && from < end);
            continue;
        }
        if (protect_in("-", (unsigned char)m->text[from]) && from + 1 < end) { /* a speaker's "-" */
            for (from++; from < end && m->text[from] == ' ';) from++;
            any = 0;
        }
        if (m->plain.size && strchr(".?!", m->plain.data[m->plain.size - 1])) lines = 0;
        if (!any || protect_in("([#", (unsigned char)m->text[from]) ||
            protect_starts(m->text + from, end - from, "\xE2\x99\xAA") ||
            protect_starts(m->text + from, end - from, "\xE2\x80\x93") || ++lines > MOST_LINES) {
            (void)markup_add(m, MARKUP_BLOCK, text_end, from);
            lines = 0, n_open = 0;
        } else {
            markup_item *item;
            if (!markup_after_space(m)) markup_plain(m, " ", 1, text_end, from);
            item = markup_add(m, MARKUP_CUT, text_end, from);
            if (item) item->is_line = 1;
        }
        any = 1;
        if (!m->broken) markup_scan_line(m, from, end, open, &n_open);
        text_end = end;
    }
}

/* ---- blocks of lines ------------------------------------------------------------------------- */

/* Adds a block whose first line begins at `row`. Returns NULL if there is no memory. */
static markup_block *markup_add_block(markup *m, markup_form form, size_t row, size_t begin,
                                      size_t end) {
    void *grown = m->blocks;
    markup_block *b = NULL;
    if (markup_reserve(m, &grown, &m->room_blocks, m->n_blocks + 1, sizeof *m->blocks)) {
        m->blocks = (markup_block *)grown;
        b = &m->blocks[m->n_blocks++];
        memset(b, 0, sizeof *b);
        b->form = form, b->line = row, b->begin = begin, b->end = end;
    }
    return b;
}

/* Adds a break between two lines of a block. */
static void markup_add_break(markup *m, size_t begin, size_t end) {
    void *grown = m->breaks;
    if (!markup_reserve(m, &grown, &m->room_breaks, m->n_breaks + 1, sizeof *m->breaks)) return;
    m->breaks = (markup_break *)grown;
    m->breaks[m->n_breaks].begin = begin, m->breaks[m->n_breaks++].end = end;
}

/* Returns the first break at or after a byte; n_breaks if there is none. */
static size_t markup_break_at(const markup *m, size_t at) {
    size_t low = 0, high = m->n_breaks, middle;
    while (low < high) {
        middle = low + (high - low) / 2;
        if (m->breaks[middle].begin < at) low = middle + 1;
        else high = middle;
    }
    return low;
}

/* Returns the columns of a character on a terminal: 0 for combining marks, 2 for East Asian. */
static size_t markup_columns(uint32_t c) {
    static const uint32_t none[][2] = {
        {0x300, 0x36F},   {0x483, 0x489},    {0x591, 0x5BD},   {0x610, 0x61A},   {0x64B, 0x65F},
        {0x6D6, 0x6DC},   {0x900, 0x902},    {0x93C, 0x93C},   {0x941, 0x948},   {0x94D, 0x94D},
        {0xE31, 0xE31},   {0xE34, 0xE3A},    {0xE47, 0xE4E},   {0x1AB0, 0x1AFF}, {0x1DC0, 0x1DFF},
        {0x200B, 0x200F}, {0x20D0, 0x20FF},  {0x302A, 0x302D}, {0x3099, 0x309A}, {0xFE00, 0xFE0F},
        {0xFE20, 0xFE2F}, {0xE0100, 0xE01EF}};
    static const uint32_t two[][2] = {{0x1100, 0x115F},   {0x2E80, 0x303E},   {0x3041, 0x33FF},
                                      {0x3400, 0x4DBF},   {0x4E00, 0xA4CF},   {0xA960, 0xA97F},
                                      {0xAC00, 0xD7A3},   {0xF900, 0xFAFF},   {0xFE30, 0xFE6F},
                                      {0xFF01, 0xFF60},   {0xFFE0, 0xFFE6},   {0x1F300, 0x1F64F},
                                      {0x1F680, 0x1F6FF}, {0x1F900, 0x1F9FF}, {0x20000, 0x3FFFD}};
    size_t i;
    if (c < 0x300) return 1;
    for (i = 0; i < sizeof none / sizeof *none; i++)
        if (c >= none[i][0] && c <= none[i][1]) return 0;
    for (i = 0; i < sizeof two / sizeof *two; i++)
        if (c >= two[i][0] && c <= two[i][1]) return 2;
    return 1;
}

/* Returns the column after a text that begins at `column`. */
static size_t markup_column(const char *text, size_t size, size_t column) {
    size_t i, n;
    uint32_t c;
    for (i = 0; i < size; i += n) {
        n = sentence_char(text + i, size - i, &c);
        column = c == '\n' ? 0 : c == '\t' ? (column / 8 + 1) * 8 : column + markup_columns(c);
    }
    return column;
}

/* Returns the begin of the line that contains a byte. */
static size_t markup_line(const markup *m, size_t at) {
    while (at > 0 && m->text[at - 1] != '\n') at--;
    return at;
}

/* Compares two numbers for qsort. */
static int markup_by_number(const void *a, const void *b) {
    size_t x = *(const size_t *)a, y = *(const size_t *)b;
    return x < y ? -1 : x > y;
}

/* Sets m->width to the width that 49 of 50 lines in paragraphs of several lines do not exceed. A
   paragraph of one line that is wider is not wrapped. */
static void markup_measure(markup *m) {
    size_t i, k = 0, n = 0, *widths;
    widths = (size_t *)malloc((2 * m->n_breaks + 1) * sizeof *widths);
    if (!widths) m->broken = 1;
    for (i = 0; widths && i < m->n_blocks; i++) {
        const markup_block *b = &m->blocks[i];
        for (; k < m->n_breaks && m->breaks[k].begin < b->end; k++) {
            size_t row = markup_line(m, m->breaks[k].begin);
            if (m->breaks[k].begin < b->begin || !b->is_folded) continue;
            widths[n++] = markup_column(m->text + row, m->breaks[k].begin - row, 0);
            if (k + 1 < m->n_breaks && m->breaks[k + 1].begin < b->end) continue;
            row = markup_line(m, b->end); /* the block's last line */
            widths[n++] = markup_column(m->text + row, b->end - row, 0);
        }
    }
    if (n) qsort(widths, n, sizeof *widths, markup_by_number), m->width = widths[n - 1 - n / 50];
    free(widths);
    if (m->wrap) m->width = m->wrap;
    for (i = 0; i < m->n_blocks && !m->wrap; i++) {
        markup_block *b = &m->blocks[i];
        k = markup_break_at(m, b->begin);
        if (!b->is_folded || (k < m->n_breaks && m->breaks[k].begin < b->end)) continue;
        if (markup_column(m->text + b->line, b->end - b->line, 0) > m->width) b->is_folded = 0;
    }
}

#include "markdown.h"
#include "wrapped.h"

/* ---- sentences ------------------------------------------------------------------------------- */

/* Returns whether items from .. to - 1 are all tags inside text (OPEN, CLOSE, POINT), so a sentence
   may be extended over them. */
static int markup_near(const markup *m, size_t from, size_t to) {
    for (; from < to; from++)
        if (m->items[from].kind >= MARKUP_COPY) return 0;
    return 1;
}

/* Sets a sentence's items: those inside the sentence, and those at its ends that have a partner
   inside with at most a space between. first is the first item after the previous sentence. */
static void markup_take(markup *m, markup_sentence *s, size_t first) {
    size_t end = s->begin + s->size, i, inner_first, inner_last, before = s->begin, behind = end;
    const markup_place *places = markup_places(m);
    if (before && m->plain.data[before - 1] == ' ') before--;
    if (m->plain.data[behind] == ' ') behind++;
    while (first < m->n_items && m->items[first].at <= s->begin) first++;
    for (s->first = s->last = first; s->last < m->n_items && m->items[s->last].at < end;) s->last++;
    inner_first = s->first, inner_last = s->last;
    s->from = places[s->begin].begin, s->to = places[end - 1].end;
    for (i = inner_first; i < inner_last; i++) {
        size_t match = m->items[i].match;
        if (m->items[i].kind == MARKUP_CLOSE && match < s->first && m->items[match].at >= before &&
            m->items[match].begin >= m->at && markup_near(m, match, s->first))
            s->first = match, s->from = m->items[match].begin;
        if (m->items[i].kind == MARKUP_OPEN && match >= s->last && m->items[match].at <= behind &&
            markup_near(m, s->last, match))
            s->last = match + 1, s->to = m->items[match].end;
    }
    m->at = s->to;
}

/* Reads a document, which must stay in memory, and finds its sentences. Returns 0 if there is no
   memory. */
static int markup_read(markup *m, markup_form form, const char *text, size_t size) {
    size_t at = 0, n, first = 0, i, k;
    const char *sentence;
    void *grown;
    uint32_t c;
    m->form = form, m->text = text, m->size = size;
    m->n_items = m->n_sentences = m->next = m->at = 0, m->broken = 0;
    m->plain.size = m->places.size = 0, m->n_blocks = m->n_breaks = m->width = 0;
    if (form == MARKUP_HTML) markup_scan_html(m, 0, size);
    else if (form == MARKUP_SRT) markup_scan_srt(m);
    else if (form == MARKUP_MARKDOWN) markup_scan_markdown(m);
    else markup_scan_wrapped(m);
    if (!m->broken) markup_measure(m);
    m->broken |= m->plain.broken || m->places.broken;
    while (!m->broken && m->plain.size &&
           next_sentence(m->plain.data, m->plain.size, &at, &sentence, &n)) {
        markup_sentence *s;
        int left = 0;
        for (i = 0; i < n && !left; i += k) {
            k = sentence_char(sentence + i, n - i, &c);
            left = sentence_case(c) || (c >= 0x250 && !(c >= 0x2000 && c < 0x2E80) &&
                                        !(c >= 0x3000 && c < 0x3005) && c < 0xFF00);
        }
        if (!left) continue; /* there are no letters to translate */
        grown = m->sentences;
        (void)markup_reserve(m, &grown, &m->room_sentences, m->n_sentences + 1, sizeof *s);
        m->sentences = (markup_sentence *)grown;
        if (m->broken) break;
        s = &m->sentences[m->n_sentences++];
        s->text = sentence, s->size = n, s->begin = (size_t)(sentence - m->plain.data);
    }
    for (i = 0; i < m->n_sentences && !m->broken; i++) {
        markup_sentence *s = &m->sentences[i];
        markup_take(m, s, first);
        first = s->last;
    }
    m->at = 0;
    return !m->broken;
}

/* ---- words of a translation ------------------------------------------------------------------ */

/* Returns whether a character is punctuation. */
static int markup_is_mark(uint32_t c) {
    if (c >= 0x7F) return (c >= 0x2010 && c <= 0x205E) || c == 0xAB || c == 0xBB;
    return c > ' ' && c != '_' && !protect_is_word((unsigned char)c);
}

/* Returns whether a tag may be placed at a position of a translation: where a protected span may
   be, after an opening bracket, before a dot without a word after it, and between marks, except
   inside a row of dots or dashes. In Markdown, where marks have a meaning, only the places of spans
   count. */
static int markup_is_gap(const markup *m, const char *text, size_t size, size_t at) {
    uint32_t before, after;
    if (protect_is_gap(text, size, at)) return 1;
    if (m->form == MARKUP_MARKDOWN || ((unsigned char)text[at] & 0xC0) == 0x80) return 0;
    before = protect_before(text, at);
    (void)sentence_char(text + at, size - at, &after);
    return protect_in("([{", before) ||
           (after == '.' && !protect_is_word((unsigned char)text[at + 1])) ||
           (markup_is_mark(before) && markup_is_mark(after) &&
            (before != after || !protect_in(".-", after)));
}

/* Divides a translation into words, at the gaps where a tag may be placed. Returns how many. */
static size_t markup_words(markup *m, const markup_translation *t) {
    size_t i, n = 0, token = 0, from = 0, to;
    void *grown = m->words;
    (void)markup_reserve(m, &grown, &m->room_words, t->n + 2, sizeof *m->words);
    m->words = (markup_word *)grown;
    if (m->broken) return 0;
    for (i = 0; i < t->n; i++) {
        markup_word *w = &m->words[n];
        to = i + 1 < t->n && t->tokens[i].end < t->size ? t->tokens[i].end : t->size;
        if (to < from || (to < t->size && !markup_is_gap(m, t->text, t->size, to))) continue;
        for (w->begin = from; w->begin < to && t->text[w->begin] == ' ';) w->begin++;
        for (w->end = to; w->end > w->begin && t->text[w->end - 1] == ' ';) w->end--;
        if (w->begin == w->end && i + 1 < t->n) continue;
        w->token = token, w->n = i + 1 - token, w->owner = w->inner = 0, w->is_punctuation = 1;
        for (to = w->begin; to < w->end; to++)
            if ((unsigned char)t->text[to] >= 0x80 || protect_is_word((unsigned char)t->text[to]))
                w->is_punctuation = 0;
        from = w->end, token = i + 1;
        n += w->begin < w->end;
    }
    if (!n && t->size) { /* without alignment the translation is one word */
        memset(m->words, 0, sizeof *m->words);
        m->words[n++].end = t->size;
    }
    m->words[n].begin = m->words[n].end = t->size, m->words[n].inner = 0;
    return n;
}

/* Returns the gap between words low and high for an item at plain byte `at`, among the gaps that no
   child of the parent covers. The best gap crosses the fewest alignments; among equals the one wins
   that divides the translation most nearly in the proportion in which `at` divides the sentence. */
static size_t markup_gap(const markup *m, const markup_translation *t, const markup_sentence *s,
                         size_t at, size_t parent, size_t low, size_t high) {
    size_t i, k, best = low, crossed = 0, least = (size_t)-1;
    double share, off, nearest = 2;
    at = at > s->begin ? at - s->begin : 0;
    share = (double)at / (double)s->size;
    for (i = low; i <= high; i++) {
        for (k = i > low ? m->words[i - 1].token : 0;
             i > low && k < m->words[i - 1].token + m->words[i - 1].n; k++)
            if (t->tokens[k].source_end) /* a token's middle decides */
                crossed +=
                    t->tokens[k].source_begin + t->tokens[k].source_end > 2 * at ? 1 : (size_t)-1;
        if (i == low) crossed = t->n; /* counts down from here; only differences matter */
        off = (t->size ? (double)m->words[i].begin / (double)t->size : 0) - share;
        if (off < 0) off = -off;
        if (i > low && i < high && m->words[i].inner != parent) continue;
        if (crossed > least || (crossed == least && off >= nearest)) continue;
        least = crossed, nearest = off, best = i;
    }
    return best;
}

/* Returns the gap for the end of a line, chosen by the line's share of bytes. If there are enough
   words, leaves one for this line and one for each of the `lines` that follow. */
static size_t markup_share(const markup *m, const markup_translation *t, const markup_sentence *s,
                           size_t at, size_t lines, size_t low, size_t high) {
    double share = (double)(at - s->begin) / (double)s->size, off, nearest = 2;
    size_t i, best = low;
    if (high - low > lines + 1) low++, high -= lines + 1;
    for (i = low; i <= high; i++) {
        if (i < high && i > low && m->words[i].is_punctuation) continue;
        off = (double)(i ? m->words[i - 1].end : 0) / (double)t->size - share;
        if (off < 0) off = -off;
        if (off < nearest) nearest = off, best = i;
    }
    return best;
}

/* Sets node->low and node->high to the run of words that an element of plain bytes begin to end
   covers best: the run with the highest sum of 2 for each word aligned to the element and -1 for
   each other word. Only words that no other child of the parent covers are considered. Returns 0 if
   no run has a positive sum. */
static int markup_cover(markup *m, const markup_translation *t, const markup_sentence *s,
                        markup_node *node, size_t begin, size_t end) {
    size_t i, k, low = m->nodes[node->parent].low, high = m->nodes[node->parent].high, from = low;
    long sum = 0, best = 0;
    int has_words = 0, has_stop = 0;
    for (i = begin; i < end; i++)
        if ((unsigned char)m->plain.data[i] >= 0x80 ||
            protect_is_word((unsigned char)m->plain.data[i]))
            has_words = 1;
        else has_stop |= m->plain.data[i] != ' ';
    begin = begin > s->begin ? begin - s->begin : 0, end = end > s->begin ? end - s->begin : 0;
    for (i = low; i < high; i++) {
        const markup_word *w = &m->words[i];
        int own = 0;
        if (w->owner != node->parent) {
            sum = 0, from = i + 1;
            continue;
        }
        for (k = w->token; k < w->token + w->n && !own; k++)
            own = t->tokens[k].source_begin < end && t->tokens[k].source_end > begin;
        sum += own ? (w->is_punctuation && has_words ? has_stop : 2) : -1;
        if (sum > best) best = sum, node->low = from, node->high = i + 1;
        if (sum <= 0) sum = 0, from = i + 1;
    }
    return best > 0;
}

/* ---- tags into a translation ----------------------------------------------------------------- */

/* Compares two nodes for qsort: by parent, then by place. */
static int markup_by_place(const void *a, const void *b) {
    const markup_node *x = (const markup_node *)a, *y = (const markup_node *)b;
    if (x->parent != y->parent) return x->parent < y->parent ? -1 : 1;
    if (x->low != y->low) return x->low < y->low ? -1 : 1;
    if (x->high != y->high) return x->high < y->high ? -1 : 1;
    return x->index < y->index ? -1 : x->index > y->index;
}

static markup_node *markup_add_node(markup *m, size_t *n, size_t item, size_t parent, size_t low,
                                    size_t high) {
    markup_node *node = &m->nodes[*n];
    node->item = node->close = item, node->parent = parent, node->index = (*n)++;
    node->low = low, node->high = high;
    return node;
}

/* Places all items of a sentence in its translation and returns the number of nodes. A node comes
   after its parent. Node 0 is the whole sentence; its children are the parts and the cuts. */
static size_t markup_place_items(markup *m, const markup_translation *t, const markup_sentence *s,
                                 size_t n_words) {
    size_t i, k, n = 0, parent, lines = 0, room = 2 * (s->last - s->first) + 4;
    const size_t none = (size_t)MARKUP_NONE;
    void *grown = m->nodes;
    (void)markup_reserve(m, &grown, &m->room_nodes, room, sizeof *m->nodes);
    m->nodes = (markup_node *)grown;
    if (m->broken) return 0;
    for (i = s->first; i < s->last; i++) lines += m->items[i].is_line != 0;
    (void)markup_add_node(m, &n, none, 0, 0, n_words);
    (void)markup_add_node(m, &n, none, 0, 0, n_words);
    for (i = s->first, parent = 1; i < s->last; i++) { /* first the parts, which keep their order */
        const markup_item *item = &m->items[i], *beside;
        if (item->kind == MARKUP_POINT || item->kind == MARKUP_COPY ||
            (item->kind != MARKUP_CUT && item->match >= s->first && item->match < s->last &&
             (item->match != i || item->kind > MARKUP_CLOSE))) /* a tag without its partner cuts */
            continue;
        lines -= item->is_line != 0;
        beside = item; /* a tag beside the end of a line stays beside it */
        if (!item->is_line && i + 1 < s->last && item[1].is_line && item[1].at <= item->at + 1)
            beside = item + 1;
        if (beside->is_line)
            k = markup_share(m, t, s, beside->at, lines - (beside != item), m->nodes[parent].low,
                             n_words);
        else if (i > s->first && item[-1].kind == MARKUP_CUT && item[-1].at == item->at)
            k = m->nodes[parent].low;
        else k = markup_gap(m, t, s, item->at, 0, m->nodes[parent].low, n_words);
        m->nodes[parent].high = k;
        (void)markup_add_node(m, &n, i, 0, k, k);
        parent = n;
        (void)markup_add_node(m, &n, none, 0, k, n_words);
    }
    for (i = 1; i < n; i++) {
        if (m->nodes[i].item != none) continue;
        for (k = m->nodes[i].low; k < m->nodes[i].high; k++)
            m->words[k].owner = m->words[k].inner = i;
    }
    for (i = s->first, parent = 1; i < s->last; i++) {
        const markup_item *item = &m->items[i];
        int is_pair = item->match >= s->first && item->match < s->last && item->match != i &&
                      item->kind != MARKUP_CUT;
        markup_node *node;
        if (item->kind == MARKUP_CLOSE && is_pair) {
            parent = m->nodes[parent].parent;
            continue;
        }
        if (item->kind == MARKUP_CUT || (item->kind <= MARKUP_CLOSE && !is_pair)) {
            parent += 2;
            continue;
        }
        node = markup_add_node(m, &n, i, parent, 0, 0);
        if (item->kind == MARKUP_OPEN) node->close = item->match;
        if (item->kind != MARKUP_OPEN ||
            !markup_cover(m, t, s, node, item->at, m->items[item->match].at))
            node->low = node->high =
                markup_gap(m, t, s, item->at, parent, m->nodes[parent].low, m->nodes[parent].high);
        if (item->kind == MARKUP_OPEN && item->c && node->low == node->high) { /* "****" is text */
            if (node->low < m->nodes[parent].high && m->words[node->low].owner == parent)
                node->high++;
            else if (node->low > m->nodes[parent].low && m->words[node->low - 1].owner == parent)
                node->low--;
        }
        for (k = node->low; k < node->high; k++) {
            m->words[k].owner = node->index;
            if (k > node->low) m->words[k].inner = node->index;
        }
        if (item->kind == MARKUP_OPEN) parent = node->index;
    }
    return n;
}

/* Appends a part of a translation, escaped as the document's format needs. In blocks it writes "\n"
   for a space where a line may end. */
static void markup_encode(const markup *m, const char *text, size_t from, size_t to, buffer *out) {
    markup_form form = m->n_blocks ? m->blocks[m->block].form : m->form;
    size_t i;
    if (form == MARKUP_MARKDOWN) {
        markdown_encode(m, text, from, to, out);
        return;
    }
    for (i = from; form == MARKUP_WRAPPED && i < to; i++)
        buffer_append(out, text[i] == ' ' || text[i] == '\r' ? "\n" : text + i, 1);
    if (form == MARKUP_WRAPPED) from = to;
    for (i = from; form == MARKUP_HTML && i < to; i++) {
        if (text[i] != '&' && text[i] != '<' && text[i] != '>') continue;
        buffer_append(out, text + from, i - from), from = i + 1;
        if (text[i] == '&') buffer_append(out, "&amp;", 5);
        else buffer_append(out, text[i] == '<' ? "&lt;" : "&gt;", 4);
    }
    buffer_append(out, text + from, to - from);
}

/* Appends a part of the document, with spaces for the ends of lines. */
static void markup_copy_part(const markup *m, size_t begin, size_t end, buffer *out) {
    size_t i = markup_break_at(m, begin);
    for (; i < m->n_breaks && m->breaks[i].begin < end; i++) {
        size_t stop = m->breaks[i].begin;
        while (m->text[stop] == ' ' || m->text[stop] == '\t') stop++; /* spaces of code */
        buffer_append(out, m->text + begin, stop - begin), buffer_append(out, " ", 1);
        begin = m->breaks[i].end;
    }
    if (begin < end) buffer_append(out, m->text + begin, end - begin);
}

/* Replaces \r by a space in what was appended since `from`. In a block of lines \r means a hard
   break, so a \r of the document's text would be read as one. */
static void markup_no_breaks(const markup *m, size_t from, buffer *out) {
    if (!m->n_blocks || m->blocks[m->block].form == MARKUP_HTML) return;
    for (; from < out->size; from++)
        if (out->data[from] == '\r') out->data[from] = ' ';
}

/* Appends an item as it is in the document; a link whose text was its label gets the label. */
static void markup_copy(const markup *m, const markup_item *item, buffer *out) {
    size_t i, n = item->n_label, from = out->size;
    if (item->kind <= MARKUP_CLOSE && protect_in("*_", (unsigned char)item->c)) {
        for (i = item->begin; i < item->end; i++) buffer_append(out, &item->c, 1);
        return;
    }
    for (i = 0; i < n && n < out->size; i++) { /* has the link's text changed? */
        char c = out->data[out->size - n + i];
        if ((c == '\n' ? ' ' : c) != m->text[item->label + i]) break;
    }
    if (n && !(i == n && out->data[out->size - n - 1] == '[')) {
        buffer_append(out, "][", 2);
        markup_copy_part(m, item->label, item->label + n, out);
        buffer_append(out, "]", 1);
    } else markup_copy_part(m, item->begin, item->end, out);
    markup_no_breaks(m, from, out);
}

/* Appends the translation from *from up to `to`, and moves *from there. */
static void markup_text_to(markup *m, const markup_translation *t, size_t *from, size_t to,
                           buffer *out) {
    if (to <= *from) return;
    if (m->owes && !markup_is_space(t->text[*from])) buffer_append(out, "\n", 1);
    m->owes = 0;
    markup_encode(m, t->text, *from, to, out);
    *from = to;
}

/* Writes a node's tag before its words. */
static void markup_enter(markup *m, const markup_translation *t, const markup_node *node,
                         size_t *from, buffer *out) {
    markup_item *item = m->items;
    int is_begin;
    size_t begin = m->words[node->low].begin, end = node->low ? m->words[node->low - 1].end : 0;
    if (node->item == (size_t)MARKUP_NONE) return;
    item += node->item;
    is_begin = item->kind == MARKUP_OPEN ||
               (item->kind != MARKUP_CLOSE && !item->is_line && item->space_before);
    markup_text_to(m, t, from, is_begin ? begin : end, out);
    if (item->is_line && *from < begin) *from = begin; /* the end of the line replaces the space */
    if (item->kind == MARKUP_COPY && item->space_before && *from &&
        !markup_is_space(t->text[*from - 1]) && sentence_space_after(t->text, t->size))
        buffer_append(out, " ", 1);
    if (item->kind == MARKUP_OPEN && node->close != node->item && item->c)
        markdown_choose(m, t, node, out);
    markup_copy(m, item, out);
    if (item->kind == MARKUP_COPY && *from < t->size &&
        (item->space_behind ||
         (item->end < m->size && protect_in(".,;:!?)", (unsigned char)m->text[item->end]))) &&
        !protect_in(" ,.;:!?)]}", (unsigned char)t->text[*from]) &&
        sentence_space_after(t->text, t->size))
        buffer_append(out, " ", 1);
}
static void markup_leave(markup *m, const markup_translation *t, const markup_node *node,
                         size_t *from, buffer *out) {
    if (node->high > node->low) markup_text_to(m, t, from, m->words[node->high - 1].end, out);
    if (node->close == node->item) return;
    markup_copy(m, &m->items[node->close], out);
    m->owes |= m->items[node->close].is_line;
}

/* Appends a translation with its tags. Sorts the nodes by parent, so that siblings are
   neighbours. */
static void markup_weave(markup *m, const markup_translation *t, size_t n, buffer *out) {
    size_t i, from = 0, depth = 0;
    size_t *first = (size_t *)malloc(3 * n * sizeof *first), *stack = first + n, *next = stack + n;
    if (!first) {
        m->broken = 1;
        return;
    }
    m->nodes[0].parent = n; /* the root is sorted to the end */
    qsort(m->nodes, n, sizeof *m->nodes, markup_by_place);
    for (i = n; i-- > 0;) first[i] = n;
    for (i = n - 1; i-- > 0;) first[m->nodes[i].parent] = i;
    stack[0] = n - 1, next[0] = first[0];
    for (;;) {
        size_t parent = m->nodes[stack[depth]].index;
        i = next[depth];
        if (i < n - 1 && m->nodes[i].parent == parent) {
            next[depth]++;
            markup_enter(m, t, &m->nodes[i], &from, out);
            stack[++depth] = i, next[depth] = first[m->nodes[i].index];
        } else {
            markup_leave(m, t, &m->nodes[stack[depth]], &from, out);
            if (!depth--) break;
        }
    }
    markup_text_to(m, t, &from, t->size, out);
    free(first);
}

/* ---- the document ---------------------------------------------------------------------------- */

/* Prepares to write the document from its beginning. */
static void markup_begin(markup *m) {
    const char *first = m->size ? (const char *)memchr(m->text, '\n', m->size) : NULL;
    m->next = m->at = m->block = m->hard = 0, m->in_block = 0;
    m->newline = first && first > m->text && first[-1] == '\r' ? "\r\n" : "\n";
}

/* Appends the current block's source up to byte `to` to m->woven: "\n" is a space where a line may
   end, "\r" is a hard break. */
static void markup_keep(markup *m, size_t to) {
    size_t i = markup_break_at(m, m->at), from;
    while (m->at < to) {
        int is_break = i < m->n_breaks && m->breaks[i].end <= to;
        size_t end = is_break ? m->breaks[i].begin : to, item = m->hard;
        while (item < m->n_items && (m->items[item].c != '\n' || m->items[item].end <= m->at))
            item++;
        m->hard = item;
        if (is_break && item < m->n_items && m->items[item].end == m->breaks[i].end)
            end = m->items[item].begin;
        else item = m->n_items;
        while (is_break && item == m->n_items && m->blocks[m->block].form == MARKUP_MARKDOWN &&
               (m->text[end] == ' ' || m->text[end] == '\t'))
            end++; /* the break would drop code's space */
        from = m->woven.size;
        if (end > m->at) buffer_append(&m->woven, m->text + m->at, end - m->at);
        markup_no_breaks(m, from, &m->woven);
        if (is_break) buffer_append(&m->woven, item < m->n_items ? "\r" : "\n", 1);
        m->at = is_break ? m->breaks[i++].end : to;
    }
}

/* Appends what a further line of a block has below byte `at` of the first line's prefix: ">" or a
   tab is kept, a list's marker becomes spaces. In Markdown a tab becomes spaces; a space after ">"
   belongs to it. */
static void markup_prefix(const markup *m, const markup_block *b, size_t at, buffer *out) {
    char c = m->text[at];
    size_t n = 1, column = 0, i;
    if (c == '>' || (c == '\t' && b->form != MARKUP_MARKDOWN)) {
        buffer_append(out, &c, 1);
        return;
    }
    for (i = b->line; c == '\t' && i <= at; i++, column += n)
        n = m->text[i] == '\t' ? 4 - column % 4 : 1;
    if (at > b->line && m->text[at - 1] == '>' && !protect_in("> \t", (unsigned char)c)) n++;
    while (n-- > 0) buffer_append(out, " ", 1);
}

/* Writes a block, wrapped in lines of at most m->width columns. */
static void markup_fold(markup *m, const markup_block *b, buffer *out) {
    const char *text = m->woven.data;
    size_t size = m->woven.size, at, end, i, n = 0, width, hard = m->first_hard, escaped;
    size_t first = markup_column(m->text + b->line, b->begin - b->line, 0), column = first;
    size_t next = b->next_line
                      ? markup_column(m->text + b->next_line, b->next_text - b->next_line, 0)
                      : first;
    int is_first = b->is_line; /* the next word begins a line, where Markdown might see a block */
    for (at = 0; at < size; at = end) {
        char before = text[at];
        uint32_t c, last = 0;
        at += before == '\n' || before == '\r';
        for (end = at; end < size && text[end] != '\n' && text[end] != '\r'; end += i, last = c) {
            i = sentence_char(text + end, size - end, &c);
            if (b->form == MARKUP_WRAPPED && sentence_is_wide(last) && sentence_is_wide(c) &&
                !sentence_one_of(text + end, i, sentence_stops) &&
                !sentence_one_of(text + end, i, sentence_no_begin) &&
                !sentence_one_of(text + end, i, sentence_closing))
                break; /* a line may end between characters of a script without spaces */
        }
        width = markup_column(text + at, end - at, 0);
        while (before == '\r' && hard < m->n_items && m->items[hard].c != '\n') hard++;
        if (before == '\r' && hard == m->n_items) before = '\n';
        if (before == '\r') {
            n = m->items[hard].end, i = m->items[hard].begin;
            buffer_append(out, m->text + i, n - i);
            while (m->text[n - 1] != '\n') n--;
            column = markup_column(m->text + n, m->items[hard].end - n, 0);
            hard++, is_first = 1;
        } else if ((before == '\n' || (at && b->form == MARKUP_WRAPPED)) && b->is_folded &&
                   m->width && column > first && end > at &&
                   column + (before == '\n') + width > m->width &&
                   !markdown_hazard(text + at, size - at)) {
            buffer_append(out, m->newline, strlen(m->newline));
            for (i = b->line; i < b->begin && !b->next_line; i++) markup_prefix(m, b, i, out);
            if (b->next_line)
                buffer_append(out, m->text + b->next_line, b->next_text - b->next_line);
            column = next;
        } else if (before == '\n') buffer_append(out, " ", 1), column++;
        escaped = is_first ? markdown_hazard(text + at, size - at) : 0;
        if (escaped) {
            buffer_append(out, text + at, escaped - 1), buffer_append(out, "\\", 1);
            buffer_append(out, text + at + escaped - 1, end - at - escaped + 1);
        } else buffer_append(out, text + at, end - at);
        column += width + (escaped > 0), is_first = 0;
    }
}

/* Completes the current block and writes it. Copies the source of a block without a translation,
   and of one in Markdown that would be read differently. */
static void markup_finish(markup *m, buffer *out) {
    const markup_block *b = m->in_block ? &m->blocks[m->block] : NULL;
    if (!b) return;
    markup_keep(m, b->end);
    m->in_block = 0;
    if (m->woven.broken) m->broken = 1;
    if (m->broken) return;
    if (!m->is_made || (b->form == MARKUP_MARKDOWN && !markdown_is_same(m, b->begin, b->end, 0)))
        buffer_append(out, m->text + b->begin, b->end - b->begin);
    else if (b->form == MARKUP_HTML) buffer_append(out, m->woven.data, m->woven.size);
    else markup_fold(m, b, out);
}

/* Writes the document up to the next sentence; within a block, appends to m->woven. */
static void markup_come(markup *m, const markup_sentence *s, buffer *out) {
    if (m->n_blocks && s->from >= m->blocks[m->block].end) markup_finish(m, out);
    while (m->block + 1 < m->n_blocks && m->blocks[m->block + 1].begin <= s->from) m->block++;
    if (m->n_blocks && !m->in_block) {
        const markup_block *b = &m->blocks[m->block];
        buffer_append(out, m->text + m->at, b->begin - m->at);
        m->at = b->begin, m->woven.size = 0, m->in_block = 1, m->is_made = 0;
        while (m->hard < m->n_items && m->items[m->hard].begin < m->at) m->hard++;
        m->first_hard = m->hard;
    }
    if (m->n_blocks) markup_keep(m, s->from);
    else buffer_append(out, m->text + m->at, s->from - m->at);
}

/* Appends the document up to the end of the next sentence, which is translated by t. A block is
   appended only after its last sentence. Returns 0 if there is no memory. */
static int markup_put(markup *m, const markup_translation *t, buffer *out) {
    const markup_sentence *s = &m->sentences[m->next++];
    size_t i, n = t->text ? markup_words(m, t) : 0, nodes = 0, before;
    buffer *to = m->n_blocks ? &m->woven : out;
    markup_come(m, s, out);
    before = to->size;
    if (n && !m->broken) nodes = markup_place_items(m, t, s, n);
    m->owes = 0, m->has_brackets = m->md && m->md->labels.size;
    for (i = s->first; i < s->last; i++) m->has_brackets |= m->items[i].c == '[';
    if (nodes && !m->broken) {
        size_t begin = s->begin, end = s->begin + s->size;
        if (s->first < s->last && m->items[s->first].at < begin &&
            s->from < m->items[s->first].end && to->size &&
            !markup_is_space(to->data[to->size - 1]))
            buffer_append(to, " ", 1); /* One.<b> Two</b> has its space inside the tag */
        markup_weave(m, t, nodes, to);
        if (s->first < s->last && m->items[s->last - 1].at > end && s->to < m->size &&
            !markup_is_space(m->text[s->to]))
            buffer_append(to, " ", 1);
    }
    if (nodes && m->n_blocks && !m->woven.broken && !m->broken &&
        m->blocks[m->block].form == MARKUP_MARKDOWN && !markdown_is_same(m, s->from, s->to, before))
        nodes = 0, m->woven.size = before;
    m->is_made |= nodes > 0, m->at = s->from;
    if (!nodes && m->n_blocks) markup_keep(m, s->to);
    else if (!nodes) buffer_append(out, m->text + s->from, s->to - s->from);
    m->at = s->to;
    return !m->broken && !m->woven.broken && !out->broken;
}

/* Appends the rest of the document after its last sentence. Returns 0 if there is no memory. */
static int markup_end(markup *m, buffer *out) {
    markup_finish(m, out);
    buffer_append(out, m->text + m->at, m->size - m->at);
    return !m->broken && !out->broken;
}

/* Fills translations [n] for sentences [n]. The function keeps ownership of texts and tokens, which
   must live until markup_translate returns. Returns 0 to stop. */
typedef int (*markup_translator)(void *user, const markup_sentence *sentences, size_t n,
                                 markup_translation *translations);

/* Appends a document's translation to out. Returns 0 if there is no memory or `translate` returned
   0. */
#if defined(__GNUC__)
__attribute__((unused))
#endif
static int
markup_translate(markup_form form, const char *text, size_t size, markup_translator translate,
                 void *user, buffer *out) {
    markup m;
    markup_translation *translations = NULL;
    size_t i;
    int ok;
    memset(&m, 0, sizeof m);
    ok = markup_read(&m, form, text, size);
    if (ok) translations = (markup_translation *)calloc(m.n_sentences + 1, sizeof *translations);
    ok = translations && translate(user, m.sentences, m.n_sentences, translations);
    markup_begin(&m);
    for (i = 0; ok && i < m.n_sentences; i++) ok = markup_put(&m, &translations[i], out);
    ok = ok && markup_end(&m, out);
    free(translations);
    markup_free(&m);
    return ok;
}

#endif
