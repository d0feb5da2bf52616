/* markup_pieces.h: what the readers of documents share: a document's plain text with the place of each byte,
   its tags, blocks and line breaks; entities, and the readers of HTML and subtitles. markup.h,
   markdown.h and wrapped.h include it. */
#ifndef MARKUP_PIECES_H
#define MARKUP_PIECES_H

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
    char
        c; /* for Markdown: its delimiter; for BLOCK before an attribute's value: its quote or a space */
    size_t label, n_label; /* for [text] links: the text, which is the label, in the document */
} markup_item;

typedef struct markup_sentence {
    const char *text; /* the sentence in the plain text */
    size_t size;
    size_t begin;       /* its position in the plain text */
    size_t first, last; /* its items are first to last - 1 */
    size_t from, to;    /* its bytes in the document, with its items */
    char quote; /* 0, or it is in an attribute's value: the quote around the value, or a space */
} markup_sentence;

/* The translation of a sentence in an attribute's value, which replaces bytes from to to - 1 wherever
   the tag is written. */
typedef struct markup_value {
    size_t from, to;
    size_t at, size; /* in the buffer values */
} markup_value;

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

typedef struct markup_document {
    markup_form form;
    const char *text; /* the document; the caller owns it */
    size_t size;
    text_buffer plain;       /* its text without tags */
    size_t word_at, stop_at; /* the next byte of a word, and of another sign, for markup_cover */
    text_buffer places;      /* a markup_place for each byte of plain */
    markup_item *items;
    markup_sentence *sentences;
    markup_word *words;
    markup_node *nodes;
    markup_block *blocks;
    markup_break *breaks;
    markup_value *made;
    struct markdown_parser *md;
    size_t n_items, room_items, n_sentences, room_sentences, room_words, room_nodes;
    size_t n_blocks, room_blocks, n_breaks, room_breaks, n_made, room_made;
    /* options, set before markup_read */
    int protects; /* copy all that protect.h protects; 0: only placeholders */
    int whole;    /* the model reads whole texts: a paragraph counts as one sentence */
    size_t wrap;  /* width of wrapped lines; 0: the document's */
    const char
        *lang; /* for lang and xml:lang of the html element, if it is a code; NULL: they stay */
    markup_value langs[2]; /* where lang and xml:lang of the html element are */
    size_t n_langs;
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
    text_buffer values;  /* translations in attributes, which are not written yet */
    text_buffer woven;   /* the current block's new text, not wrapped yet */
    int owes;            /* a space must be written before the next letter */
    int has_brackets;    /* brackets mean something in the current sentence */
    int broken;          /* memory was too small */
} markup_document;

enum { MARKUP_NONE = -1, MARKUP_NAME = 24, MARKUP_DEEP = 64 };

/* Makes room at *at for n elements of `size` bytes. Returns 0, and sets m->broken, if there is no
   memory. */
static int markup_reserve(markup_document *m, void **at, size_t *room, size_t n, size_t size) {
    void *grown;
    if (n <= *room) return 1;
    grown = realloc(*at, (2 * n + 16) * size);
    if (grown) *at = grown, *room = 2 * n + 16;
    else m->broken = 1;
    return grown != NULL;
}

/* Returns m->places as an array: a place for each byte of the plain text. */
static const markup_place *markup_places(const markup_document *m) {
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
static int markup_after_space(const markup_document *m) {
    return !m->plain.size || markup_is_space(m->plain.data[m->plain.size - 1]);
}

/* Appends bytes to the plain text, which come from bytes begin to end of the document. */
static void markup_plain(markup_document *m, const char *bytes, size_t n, size_t begin,
                         size_t end) {
    markup_place place;
    place.begin = begin, place.end = end;
    text_buffer_append(&m->plain, bytes, n);
    for (; n > 0; n--) text_buffer_append(&m->places, (const char *)&place, sizeof place);
}

/* Adds an item at the end of the plain text. Returns NULL if there is no memory. */
static markup_item *markup_add(markup_document *m, markup_kind kind, size_t begin, size_t end) {
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
static size_t markup_protected(const markup_document *m, size_t begin, size_t at, size_t end) {
    if (m->protects) return protect_span_at(m->text + begin, end - begin, at - begin);
    if (!protect_in("{%$", (unsigned char)m->text[at]) ||
        protect_is_word(protect_before(m->text + begin, at - begin)))
        return 0;
    return protect_placeholder(m->text + at, end - at);
}

/* Appends text of the document to the plain text. Entities become letters, runs of whitespace
   become one space. */
static void markup_add_text(markup_document *m, size_t at, size_t end) {
    text_buffer letter;
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
            k = tfm_character_next(m->text + at, end - at, &c);
            markup_plain(m, m->text + at, k, at, at + k);
        }
        n = k;
    }
    text_buffer_free(&letter);
}

/* ---- tags: HTML and XML ---------------------------------------------------------------------- */

/* Tags inside sentences, with those of XLIFF. All other tags end sentences. */
static const char markup_inline[] =
    " a abbr acronym b bdi bdo big cite data del dfn em embed font g i img input ins label mark mrk"
    " output pc q ruby s small span strike strong sub time u wbr x bx ex ec sc xliff:g ";
static const char markup_void[] =
    " area base basefont bgsound br col command embed frame hr img input keygen link meta param"
    " source track wbr ";
/* Attributes with text for readers. */
static const char markup_texts[] = " alt aria-label placeholder title ";
/* Elements that are copied. Those of markup_raw end only at their closing tag, whatever they
   contain. */
static const char markup_raw[] = " script style textarea xmp ";
static const char markup_copied[] = " bpt code ept it kbd math ph samp sup svg tt ut var ";
static const char markup_copied_blocks[] = " pre template ";

typedef struct markup_tag {
    char name[MARKUP_NAME]; /* in small letters; a longer name is cut off */
    size_t n, begin, end, match;
    size_t attributes;     /* where its attributes begin; 0: it has none */
    int is_open, is_close; /* both 0: <a/>, <br>, <!-- --> */
    int copied;            /* the element is copied: 1 by an attribute, 2 by its name, 3 by both */
    int is_description;    /* it has name="description" */
    int is_opaque;         /* not an element: 1 may be in a sentence (comment), 2 ends it */
} markup_tag;

typedef struct markup_attribute {
    char name[MARKUP_NAME]; /* in small letters; a longer name is cut off */
    size_t n, value, end;
    char quote; /* around the value; a space if there is none */
} markup_attribute;

static char markup_small(char c) { return (char)(c >= 'A' && c <= 'Z' ? c + 32 : c); }

/* Returns whether bytes of the document are a word in small letters, in either case. */
static int markup_is(const markup_document *m, size_t begin, size_t end, const char *word) {
    while (begin < end && *word && markup_small(m->text[begin]) == *word) begin++, word++;
    return begin == end && !*word;
}

/* Reads the next attribute with a value of a tag, from *at on. Returns 0 at the tag's end, which is
   *at, or at the end of the document. A quote counts as one only after "=". */
static int markup_next_attribute(const markup_document *m, size_t *from, markup_attribute *a) {
    const char *text = m->text;
    size_t at = *from;
    while (at < m->size && text[at] != '>') {
        if (markup_is_space(text[at]) || text[at] == '/') {
            at++;
            continue;
        }
        for (a->n = 0; at < m->size && (!a->n || !strchr("=>/", text[at]) || !text[at]) &&
                       !markup_is_space(text[at]);
             at++) {
            if (a->n < MARKUP_NAME - 1) a->name[a->n] = markup_small(text[at]);
            a->n++;
        }
        a->name[a->n < MARKUP_NAME ? a->n : MARKUP_NAME - 1] = 0;
        while (at < m->size && markup_is_space(text[at])) at++;
        if (at >= m->size || text[at] != '=') continue;
        for (at++; at < m->size && markup_is_space(text[at]);) at++;
        a->quote = at < m->size && (text[at] == '"' || text[at] == '\'') ? text[at] : ' ';
        a->value = at += a->quote != ' ';
        while (at < m->size && (a->quote != ' ' ? text[at] != a->quote
                                                : text[at] != '>' && !markup_is_space(text[at])))
            at++;
        a->end = at;
        *from = at + (a->quote != ' ' && at < m->size);
        return 1;
    }
    *from = at;
    return 0;
}

/* Reads the tag that begins at `begin` with "<" and a name. Returns its end, or 0 if the document
   ends before. */
static size_t markup_read_tag(const markup_document *m, size_t begin, markup_tag *tag) {
    const char *text = m->text;
    markup_attribute a;
    size_t at = begin + 1, i;
    tag->begin = begin, tag->n = 0;
    tag->is_close = text[at] == '/', tag->is_opaque = tag->copied = tag->is_description = 0;
    for (at += (size_t)tag->is_close; at < m->size && !markup_is_space(text[at]); at++) {
        if (text[at] == '>' || (text[at] == '/' && at + 1 < m->size && text[at + 1] == '>')) break;
        if (tag->n + 1 >= MARKUP_NAME) continue;
        tag->name[tag->n++] = markup_small(text[at]);
    }
    tag->name[tag->n] = 0;
    tag->attributes = at;
    while (markup_next_attribute(m, &at, &a)) {
        if (strcmp(a.name, "translate") == 0 && markup_is(m, a.value, a.end, "no"))
            tag->copied |= 1;
        if (strcmp(a.name, "name") == 0)
            tag->is_description |= markup_is(m, a.value, a.end, "description");
        if (strcmp(a.name, "class") == 0)
            for (i = a.value; i + 11 <= a.end; i++)
                tag->copied |= memcmp(text + i, "notranslate", 11) == 0;
    }
    if (at >= m->size) return 0;
    tag->end = at + 1;
    tag->is_open = !tag->is_close && text[at - 1] != '/' &&
                   !characters_list_has(markup_void, tag->name, tag->n);
    if (tag->is_open && (characters_list_has(markup_raw, tag->name, tag->n) ||
                         characters_list_has(markup_copied, tag->name, tag->n) ||
                         characters_list_has(markup_copied_blocks, tag->name, tag->n)))
        tag->copied |= 2;
    return tag->end;
}

/* Finds a text at or after `at`; `what` is in small letters and matches either case. Returns the
   document's end if there is none. */
static size_t markup_find(const markup_document *m, size_t at, const char *what) {
    size_t n = strlen(what), i;
    for (; at + n <= m->size; at++) {
        for (i = 0; i < n; i++)
            if (markup_small(m->text[at + i]) != what[i]) break;
        if (i == n) return at;
    }
    return m->size;
}

/* Reads the tag, comment, CDATA section or declaration at a "<" and returns its end; 0 if the "<"
   is only a character. One without an end reaches to the end of the document. */
static size_t markup_tag_at(const markup_document *m, size_t at, markup_tag *tag) {
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
    tag->is_opaque = 2, tag->is_open = tag->is_close = 0, tag->attributes = 0;
    return tag->end = m->size;
}

/* Returns all tags from a byte on; match is the partner's index, or the tag's own. A partner is
   searched only MARKUP_DEEP levels up: without this limit time would be quadratic. */
static markup_tag *markup_tags(markup_document *m, size_t at, size_t *n_tags) {
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
        if (tag->is_open && characters_list_has(markup_raw, tag->name, tag->n)) {
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
static int markup_join(markup_document *m, size_t first, size_t end) {
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

/* Returns what tag i is in a document. *last is the last tag that belongs to it: if the element is copied,
   its closing tag. */
static markup_kind markup_kind_of(const markup_tag *tags, size_t i, size_t *last) {
    const markup_tag *tag = &tags[i];
    int is_inline = characters_list_has(markup_inline, tag->name, tag->n);
    int is_matched = tag->match != i;
    *last = i;
    if (tag->is_open && tag->copied && is_matched) {
        *last = tag->match;
        return is_inline || characters_list_has(markup_copied, tag->name, tag->n) ? MARKUP_COPY
                                                                                  : MARKUP_BLOCK;
    }
    if (tag->is_opaque == 1 || (is_inline && !tag->is_open && !tag->is_close)) return MARKUP_POINT;
    if (is_inline && is_matched) return tag->is_open ? MARKUP_OPEN : MARKUP_CLOSE;
    return MARKUP_BLOCK;
}

/* Adds the text in a tag's attributes to the plain text, each value as a block. A value without quotes
   must have no character that needs them. Returns whether there is any. */
static int markup_add_values(markup_document *m, const markup_tag *tag) {
    size_t at = tag->attributes, i;
    int any = 0;
    markup_attribute a;
    int is_field = tag->copied == 2 && strcmp(tag->name, "textarea") == 0;
    if (!at || tag->is_close || m->form != MARKUP_HTML || (tag->copied && !is_field)) return 0;
    while (!m->broken && markup_next_attribute(m, &at, &a)) {
        markup_item *item;
        int has_text = 0, is_safe = 1;
        if (strcmp(tag->name, "html") == 0 && m->n_langs < 2 &&
            (strcmp(a.name, "lang") == 0 || strcmp(a.name, "xml:lang") == 0))
            m->langs[m->n_langs].from = a.value, m->langs[m->n_langs++].to = a.end;
        if (a.n >= MARKUP_NAME || !(characters_list_has(markup_texts, a.name, a.n) ||
                                    (tag->is_description && strcmp(a.name, "content") == 0 &&
                                     strcmp(tag->name, "meta") == 0)))
            continue;
        for (i = a.value; i < a.end; i++) {
            unsigned char c = (unsigned char)m->text[i];
            has_text |= c >= 0x80 || protect_is_letter(c);
            is_safe &= a.quote != ' ' || !protect_in("\"'`=<", c);
        }
        if (!has_text || !is_safe) continue;
        item = markup_add(m, MARKUP_BLOCK, a.value, a.value);
        if (item) item->c = a.quote, any = 1, markup_add_text(m, a.value, a.end);
    }
    return any;
}

/* Adds the attributes of the tags from `from` to the next one that is a block, and of the block that
   ends before tag `from`, if it is not NULL. Tags inside a sentence move with its words, so the
   translations of their attributes are needed before the sentence is written. */
static void markup_add_ahead(markup_document *m, const markup_tag *block, const markup_tag *tags,
                             size_t from, size_t n) {
    size_t i, last, at = block ? block->end : 0;
    markup_kind kind = MARKUP_POINT;
    int any = block ? markup_add_values(m, block) : 0;
    for (i = from; i < n && !m->broken; i = last + 1) {
        kind = markup_kind_of(tags, i, &last);
        if (kind == MARKUP_BLOCK) break;
        if (kind != MARKUP_COPY) any |= markup_add_values(m, &tags[i]);
    }
    if (any && !m->broken) (void)markup_add(m, MARKUP_BLOCK, at, at);
}

/* Reads bytes at to end of the document as HTML or XML: adds their items and plain text. */
static void markup_scan_html(markup_document *m, size_t at, size_t end) {
    size_t n, i, last, size = m->size;
    markup_tag *tags;
    m->size = end;
    tags = markup_tags(m, at, &n);
    markup_add_ahead(m, NULL, tags, 0, n);
    for (i = 0; i < n && !m->broken; i = last + 1) {
        const markup_tag *tag = &tags[i];
        markup_kind kind = markup_kind_of(tags, i, &last);
        markup_item *item;
        markup_add_text(m, at, tag->begin);
        at = tags[last].end;
        if (kind == MARKUP_CLOSE && markup_join(m, tags[tag->match].n, at)) continue;
        item = markup_add(m, kind, tag->begin, at);
        if (!item) break;
        tags[i].n = m->n_items - 1; /* from here on n is the tag's item, which its partner needs */
        if (kind == MARKUP_CLOSE)
            item->match = tags[tag->match].n, m->items[item->match].match = m->n_items - 1;
        if (kind == MARKUP_BLOCK) markup_add_ahead(m, tag, tags, last + 1, n);
    }
    if (!m->broken) markup_add_text(m, at, m->size);
    m->size = size;
    free(tags);
}

/* ---- subtitles ------------------------------------------------------------------------------- */

/* Reads a line of subtitles with its tags: <i>, {\an8}. open [n_open] has the opening tags without
   a partner so far. A pair of tags is an element if it is in one line, has text and has no cut
   inside. All other tags are cuts. */
static void markup_scan_line(markup_document *m, size_t at, size_t end, size_t *open,
                             size_t *n_open) {
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
static void markup_scan_srt(markup_document *m) {
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
static markup_block *markup_add_block(markup_document *m, markup_form form, size_t row,
                                      size_t begin, size_t end) {
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
static void markup_add_break(markup_document *m, size_t begin, size_t end) {
    void *grown = m->breaks;
    if (!markup_reserve(m, &grown, &m->room_breaks, m->n_breaks + 1, sizeof *m->breaks)) return;
    m->breaks = (markup_break *)grown;
    m->breaks[m->n_breaks].begin = begin, m->breaks[m->n_breaks++].end = end;
}

/* Returns the first break at or after a byte; n_breaks if there is none. */
static size_t markup_break_at(const markup_document *m, size_t at) {
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
        n = tfm_character_next(text + i, size - i, &c);
        column = c == '\n' ? 0 : c == '\t' ? (column / 8 + 1) * 8 : column + markup_columns(c);
    }
    return column;
}

/* Returns the begin of the line that contains a byte. */
static size_t markup_line(const markup_document *m, size_t at) {
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
static void markup_measure(markup_document *m) {
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

#endif
