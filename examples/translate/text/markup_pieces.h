/* markup_pieces.h: what the readers of documents share: a document's plain text with the place of
   each byte, its tags, blocks and line breaks; entities, and the reader of HTML. markup.h,
   markdown.h, wrapped.h and markup_subtitles.h include it. */
#ifndef MARKUP_PIECES_H
#define MARKUP_PIECES_H

#include "around.h"

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

/* A byte of a document or of its plain text, or an index of what is found there. A document has
   many of them, so they have four bytes, and a document has less than 4 GB. */
typedef uint32_t markup_at;

enum { MARKUP_BLANKS = 0x7FFF, MARKUP_ISOLATE = 1 };
typedef struct markup_item {
    unsigned kind : 4;         /* a markup_kind */
    unsigned space_before : 1; /* whether the document has a space before it, and behind it */
    unsigned space_behind : 1;
    unsigned is_line : 1;  /* for CUT: it is between two lines or cues */
    unsigned is_blank : 1; /* for POINT: an element with only a space, which it replaces */
    /* For Markdown its delimiter; MARKUP_ISOLATE for U+2066 to U+2068; for BLOCK before an
       attribute's value the quote around the value, or a space. */
    unsigned c : 8;
    unsigned has_label : 1; /* for [text] links: the text is the label (markup_label_of) */
    /* Bytes of spaces behind it that the plain text does not have; MARKUP_BLANKS stands for all
       spaces that the document has there. */
    unsigned n_blank : 15;
    markup_at begin, end; /* its bytes in the document */
    markup_at at;         /* its position in the plain text */
    markup_at match;      /* for OPEN and CLOSE: the partner's index */
} markup_item;

/* The label of an item: its bytes in the document. */
typedef struct markup_label {
    markup_at item, begin, n;
} markup_label;

typedef struct markup_sentence {
    const char *text; /* the sentence in the plain text */
    markup_at size;
    markup_at begin;       /* its position in the plain text */
    markup_at first, last; /* its items are first to last - 1 */
    markup_at from, to;    /* its bytes in the document, with its items */
    char quote; /* 0, or it is in an attribute's value: the quote around the value, or a space */
    char is_cleaned; /* its source has soft hyphens or readings, which the plain text has not */
} markup_sentence;

/* The translation of a sentence in an attribute's value, which replaces bytes from to to - 1
   wherever the tag is written. */
typedef struct markup_value {
    size_t from, to;
    size_t at, size; /* in the buffer values */
} markup_value;

/* Where a run of the plain text, from byte `at` to the next run, comes from in the document: each
   byte from a byte of its own, from `begin` on. Of two places with the same `at`, as the letter of
   an entity has them, the first is where the run begins in the document, and the second where the
   run ends. */
typedef struct markup_place {
    markup_at at, begin;
} markup_place;

/* A block of a document in lines (Markdown, wrapped text): a paragraph, a heading, a table's
   cell. */
typedef struct markup_block {
    markup_at line;       /* begin of its first line in the document */
    markup_at begin, end; /* its text in the document */
    /* The bytes before the text of its second line, if they are known; else 0. */
    markup_at next_line, next_text;
    unsigned form : 3;      /* a markup_form */
    unsigned is_folded : 1; /* it may be wrapped again */
    unsigned is_line : 1;   /* it begins a line's text, so its first characters could be syntax */
    unsigned is_cell : 1;   /* it is a cell of a table */
    unsigned quote : 8;     /* 0, or what ends it in its line: " or ] */
} markup_block;

/* The bytes between two lines of a block: from the end of one line to the text of the next. */
typedef struct markup_break {
    markup_at begin, end;
} markup_break;

/* A word of a translation: a piece that no tag may divide. */
typedef struct markup_word {
    size_t begin, end; /* its bytes, without spaces around it */
    size_t token, n;   /* its first token, and how many it has */
    size_t owner;      /* the innermost node that covers the word */
    size_t inner;      /* the innermost node that covers the gap before the word */
    int is_punctuation;
} markup_word;

/* A token of a translation and the word that has it, in the order of the tokens' sources. */
typedef struct markup_source_token {
    markup_at begin; /* its source's first byte */
    markup_at reach; /* the furthest end of a source up to here */
    markup_at word;
} markup_source_token;

/* An item and its place in a translation. A part of the sentence between two cuts is also a node;
   it has no item. */
typedef struct markup_node {
    size_t item, close; /* indices of items; close: an element's closing tag */
    size_t parent, index;
    size_t outer;     /* its parent in the source */
    size_t low, high; /* it covers the words low to high - 1 */
} markup_node;

/* A class of SAMI: its name in the document, and whether its texts are in another language. */
typedef struct markup_class {
    markup_at begin, n;
    int is_other;
} markup_class;

enum { MARKUP_LANGS = 8, MARKUP_CLASSES = 16 };

/* The fields of a line of ASS that a reader needs. */
enum { MARKUP_START, MARKUP_END, MARKUP_STYLE, MARKUP_SPEAKER, MARKUP_TEXT, MARKUP_FIELDS };

typedef struct markup_document {
    markup_form form;
    const char *text; /* the document; the caller owns it */
    size_t size;
    text_buffer plain;       /* its text without tags */
    size_t word_at, stop_at; /* the next byte of a word, and of another sign, for markup_cover */
    markup_place *places;    /* where plain comes from */
    markup_item *items;
    markup_sentence *sentences;
    markup_word *words;
    markup_source_token *sources; /* the current translation's tokens: markup_index */
    size_t *aligned;              /* the words that markup_find_aligned found */
    markup_node *nodes;
    markup_block *blocks;
    markup_break *breaks;
    markup_value *made;
    text_buffer labels; /* a markup_label for each item that has one, in their order */
    struct markdown_parser *md;
    size_t n_places, room_places, n_items, room_items, n_sentences, room_sentences, room_words,
        room_nodes;
    size_t n_sources, room_sources, room_aligned;
    size_t words_end; /* bytes of the current sentence up to the end of its last word */
    size_t n_looks;   /* for tests: how many words were looked at to place items */
    size_t n_parts;   /* nodes of the parts of the current sentence, and of what divides them */
    size_t n_blocks, room_blocks, n_breaks, room_breaks, n_made, room_made;
    /* options, set before markup_read */
    int protects;        /* copy all that protect.h protects; 0: only placeholders and symbols */
    int whole;           /* the model reads whole texts: a paragraph counts as one sentence */
    int surrounds;       /* what is around sentences is no part of them: around.h */
    const char *source;  /* the language of what is translated; NULL: unknown */
    int all_languages;   /* text that is said to be in another language is translated, too */
    size_t page, n_page; /* the bytes of the root element's lang */
    markup_class classes[MARKUP_CLASSES]; /* of SAMI: those of the document's <style> */
    size_t n_classes;
    size_t n_foreign, foreign; /* texts that are said to be in another language, the first */
    int rewrites;              /* for tests: write also a sentence that did not change */
    size_t wrap;               /* width of wrapped lines; 0: the document's */
    const char
        *lang; /* for lang and xml:lang of the html element, if it is a code; NULL: they stay */
    markup_value
        langs[MARKUP_LANGS]; /* where the document says its language; `at` is the sign between
                                         the parts of its code */
    size_t n_langs;
    /* writing */
    size_t next;         /* the next sentence */
    size_t at;           /* the document is written up to this byte */
    size_t width;        /* width of wrapped lines; 0: lines are not wrapped */
    const char *newline; /* what ends the document's first line */
    size_t block;        /* the current block */
    size_t hard;         /* item of its next hard break */
    size_t first_hard;   /* item of its first hard break */
    size_t link;         /* the next item that may be a link's end */
    size_t first_link;   /* the first such item of the current block */
    int in_block;        /* the current block is begun */
    int is_made;         /* a sentence of the current block was translated */
    text_buffer pieces;  /* markup_tokens: the current translation's, divided at items */
    text_buffer cuts;    /* for each of pieces whether an item divides it from the next */
    size_t piece, found; /* the piece that is written, and how far its source was searched */
    int spells;          /* 2: characters are written as the source writes them; 1: only
                            those with escapes and entities; 0: none */
    text_buffer ends;    /* two size_t for each break of the current block: its bytes */
    text_buffer values;  /* translations in attributes, which are not written yet */
    text_buffer woven;   /* the current block's new text, not wrapped yet */
    size_t begun;        /* where the output of the current sentence begins */
    int has_spaces;   /* spaces belong between words: the script of the translation has them, or the
                       source's has none */
    int opened;       /* an opening tag was written last */
    int spaced;       /* the space before the sentence's last tag is not written yet */
    int owes;         /* what is written before the next letter: 1: the end of a line, 2: a space */
    size_t n_full;    /* links that were written as [text][label] in the current block */
    int has_brackets; /* brackets mean something in the current sentence */
    size_t n_left,
        left;         /* sentences that stay in the source's language, and where the first begins */
    size_t n_divided; /* sentences that were divided because they were too long */
    size_t n_skipped, skipped; /* parts that are not read, and where the first begins */
    int is_vtt;                /* the subtitles are WebVTT */
    int in_foreign;            /* a <lang> of WebVTT in another language has no end yet */
    int is_ass;                /* they are ASS or SSA */
    int is_ttml;               /* the document is TTML: subtitles in XML */
    int is_sami;               /* the document is SAMI: subtitles in HTML */
    char line_end;             /* of subtitles: '|' in MicroDVD and MPL2, else '\n' */
    double frame_rate;         /* of subtitles with numbers of frames */
    size_t fields[MARKUP_FIELDS], n_fields; /* of ASS: where the fields are in a line */
    size_t n_cues;                          /* of subtitles */
    text_buffer cues;         /* a markup_at for each cue with text: where its text begins */
    size_t cue;               /* the next cue of these */
    size_t fitted;            /* subtitles are written up to this byte; woven has what follows */
    int cue_width, cue_lines; /* options: what a cue may have; 0: the usual limits */
    size_t n_inner, inner;    /* documents in attributes and drawings with text, which are copied */
    size_t n_unread, unread;  /* lines with a frame that no reader takes, the first of them */
    size_t n_syllables, syllables; /* times of syllables that were dropped */
    size_t n_wide, wide;           /* cues that do not fit into the limits */
    text_buffer
        cleaned; /* a markup_at for each soft hyphen and reading: the byte of plain behind it */
    int broken;  /* memory was too small */
} markup_document;

enum { MARKUP_NONE = -1, MARKUP_NAME = 24, MARKUP_DEEP = 64, MARKUP_NEAR = 512 };

/* Makes room at *at for n elements of `size` bytes. Returns 0, and sets m->broken, if there is no
   memory. */
static int markup_reserve(markup_document *m, void **at, size_t *room, size_t n, size_t size) {
    void *grown;
    if (n <= *room) return 1;
    n += n / 8 + 16;
    grown = realloc(*at, n * size);
    if (grown) *at = grown, *room = n;
    else m->broken = 1;
    return grown != NULL;
}

/* Returns the byte of the document where a byte of the plain text begins; *end is where it ends. */
static size_t markup_place_of(const markup_document *m, size_t at, size_t *end) {
    const markup_place *places = m->places;
    size_t low = 0, high = m->n_places, middle;
    while (low + 1 < high) {
        middle = low + (high - low) / 2;
        if (places[middle].at <= at) low = middle;
        else high = middle;
    }
    if (low && places[low - 1].at == places[low].at) {
        *end = places[low].begin;
        return places[low - 1].begin;
    }
    *end = places[low].begin + (at - places[low].at) + 1;
    return *end - 1;
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

static int markup_is_space(char c) {
    return c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == '\f';
}

/* Returns whether a character is punctuation. */
static int markup_is_mark(uint32_t c) {
    if (c >= 0x7F) return (c >= 0x2010 && c <= 0x205E) || c == 0xAB || c == 0xBB;
    return c > ' ' && c != '_' && !protect_is_word((unsigned char)c);
}

/* Returns whether a character is of a word: no space and no punctuation. */
static int markup_is_word(uint32_t c) { return c > ' ' && !markup_is_mark(c); }

/* Returns whether a character is a letter or a digit. */
static int markup_is_letter(uint32_t c) {
    return markup_is_word(c) &&
           !character_is(c, TFM_CHARACTER_SPACE | TFM_CHARACTER_OPENING | TFM_CHARACTER_STOP |
                                TFM_CHARACTER_CLOSING | TFM_CHARACTER_COMMA);
}

/* Returns whether bytes begin to end - 1 of a text are whitespace, or none. */
static int markup_is_blank(const char *text, size_t begin, size_t end) {
    while (begin < end && markup_is_space(text[begin])) begin++;
    return begin >= end;
}

/* Returns the end of the whitespace at byte `at` of the document. */
static size_t markup_blank_end(const markup_document *m, size_t at) {
    while (at < m->size && markup_is_space(m->text[at])) at++;
    return at;
}

/* Returns whether a space at the end of the plain text would be one too many. */
static int markup_after_space(const markup_document *m) {
    return !m->plain.size || markup_is_space(m->plain.data[m->plain.size - 1]);
}

/* Appends bytes to the plain text, which come from bytes begin to end - 1 of the document. */
static void markup_plain(markup_document *m, const char *bytes, size_t n, size_t begin,
                         size_t end) {
    size_t at = m->plain.size, count = m->n_places;
    void *places = m->places;
    const markup_place *last;
    int is_run = end - begin == n;
    text_buffer_append(&m->plain, bytes, n);
    if (!markup_reserve(m, &places, &m->room_places, count + 2, sizeof *m->places)) return;
    m->places = (markup_place *)places, last = m->places + count - 1;
    if (is_run && count && !(count > 1 && last[-1].at == last->at) &&
        last->begin + (at - last->at) == begin)
        return;
    m->places[count].at = (markup_at)at, m->places[count++].begin = (markup_at)begin;
    if (!is_run) m->places[count].at = (markup_at)at, m->places[count++].begin = (markup_at)end;
    m->n_places = count;
}

/* Removes the last byte of the plain text. */
static void markup_plain_drop(markup_document *m) {
    m->plain.data[--m->plain.size] = 0;
    while (m->n_places && m->places[m->n_places - 1].at == m->plain.size) m->n_places--;
}

/* Notes that the source has a part here that the plain text has not. */
static void markup_clean(markup_document *m) {
    const markup_at at = (markup_at)m->plain.size;
    text_buffer_append(&m->cleaned, (const char *)&at, sizeof at);
    m->broken |= m->cleaned.broken;
}

/* Returns whether a part of the source that the plain text has not is behind a space at the end of
   the plain text. */
static int markup_is_cleaned(const markup_document *m) {
    const markup_at *cleaned = (const markup_at *)(const void *)m->cleaned.data;
    size_t n = m->cleaned.size / sizeof *cleaned;
    return n && cleaned[n - 1] == m->plain.size && m->plain.size &&
           m->plain.data[m->plain.size - 1] == ' ' &&
           !(m->n_items && m->items[m->n_items - 1].at == m->plain.size);
}

/* Adds an item at the end of the plain text. Blocks of HTML without text between them are one item.
   Returns NULL if there is no memory. */
static markup_item *markup_add(markup_document *m, markup_kind kind, size_t begin, size_t end) {
    void *items = m->items;
    markup_item *item = m->n_items ? m->items + m->n_items - 1 : NULL;
    int grown, is_cleaned = markup_is_cleaned(m); /* <b>a <rt></b> */
    if (item && kind == MARKUP_BLOCK && m->form == MARKUP_HTML && item->kind == MARKUP_BLOCK &&
        !item->c && item->at == m->plain.size)
        return item;
    grown = markup_reserve(m, &items, &m->room_items, m->n_items + 1, sizeof *m->items);
    m->items = (markup_item *)items;
    if (!grown) return NULL;
    item = &m->items[m->n_items];
    memset(item, 0, sizeof *item);
    item->kind = (unsigned)kind & 15u;
    item->begin = (markup_at)begin, item->end = (markup_at)end;
    item->match = (markup_at)m->n_items++;
    item->space_before = !begin || markup_is_space(m->text[begin - 1]) || is_cleaned;
    item->space_behind = end >= m->size || markup_is_space(m->text[end]);
    if (kind == MARKUP_BLOCK) text_buffer_append(&m->plain, "\n\n", 2);
    item->at = (markup_at)m->plain.size;
    return item;
}

/* Notes the label of the last item. */
static void markup_add_label(markup_document *m, size_t begin, size_t end) {
    markup_label label, *last;
    label.item = (markup_at)(m->n_items - 1);
    label.begin = (markup_at)begin, label.n = (markup_at)(end - begin);
    for (; m->labels.size; m->labels.size -= sizeof label) { /* those of items that were joined */
        last = (markup_label *)(void *)m->labels.data + m->labels.size / sizeof label - 1;
        if (last->item < label.item) break;
    }
    text_buffer_append(&m->labels, (const char *)&label, sizeof label);
    m->items[m->n_items - 1].has_label = 1;
    m->broken |= m->labels.broken;
}

/* Returns the bytes of the protected span at byte `at` of the text from begin to end, or 0. */
static size_t markup_protected(const markup_document *m, size_t begin, size_t at, size_t end) {
    unsigned char c = (unsigned char)m->text[at];
    size_t n = 0;
    int is_unit = protect_in("cdfkmnsy&", c) &&
                  protect_unit(m->text + begin, end - begin, at - begin);
    if (c < 0x80 && !m->protects && !is_unit && !protect_in("{%$#@<[-:_", c) && c != '&') return 0;
    if (c == '_' && m->form == MARKUP_MARKDOWN) return 0; /* __Hund__ is an emphasis */
    if (c < 0x80) n = protect_placeholder(m->text + begin, end - begin, at - begin);
    if (!n && m->protects && (c != '&' || m->form == MARKUP_WRAPPED)) /* &uuml; is no code */
        n = protect_span_at(m->text + begin, end - begin, at - begin);
    if (n && m->form != MARKUP_WRAPPED && memchr(m->text + at, '&', n)) { /* dumm&#x2069; */
        const tfm_text span = tfm_text_make(m->text + at, n);
        size_t i;
        for (i = 0; i + 2 < n && memcmp(span.data + i, "://", 3) != 0;) i++;
        if (i + 2 >= n && c != '{' && !protect_starts(span.data, n, "www.")) n = 0;
    }
    return n || (c < 0x80 && !is_unit) ? n
                                       : protect_symbol(m->text + begin, end - begin, at - begin);
}

/* Joins a copied part, bytes begin to end - 1 of the document, to the last item, if that is copied
   too and at most two signs are between them. In <kbd>Ctrl</kbd>+<kbd>C</kbd> a model would read
   "+" as a word. Returns whether it joined them. */
static int markup_extend_copy(markup_document *m, size_t begin, size_t end) {
    markup_item *item = m->n_items ? &m->items[m->n_items - 1] : NULL;
    size_t i;
    if (!item || item->kind != MARKUP_COPY || item->at != m->plain.size || item->n_blank ||
        item->has_label || begin <= item->end || begin > item->end + 2)
        return 0;
    for (i = item->end; i < begin; i++)
        if (!protect_in("+-/:=.", (unsigned char)m->text[i])) return 0;
    item->end = (markup_at)end;
    item->space_behind = end >= m->size || markup_is_space(m->text[end]);
    return 1;
}

/* Returns the bytes of the sign at byte `at` that divides two texts, or 0: "|", a bullet or a
   middle dot with a space on both sides. */
static size_t markup_separator(const markup_document *m, size_t at, size_t end) {
    size_t n = m->text[at] == '|'                                       ? 1
               : protect_starts(m->text + at, end - at, "\xC2\xB7")     ? 2
               : protect_starts(m->text + at, end - at, "\xE2\x80\xA2") ? 3
                                                                        : 0;
    return n && at && markup_is_space(m->text[at - 1]) && at + n < m->size &&
                   markup_is_space(m->text[at + n])
               ? n
               : 0;
}

/* Takes a character that nobody sees out of the text at byte `at`. A mark of the writing direction
   is copied beside its word. Returns the character's bytes, or 0 if there is none. */
static size_t markup_unseen(markup_document *m, size_t begin, size_t at, size_t end) {
    const int is_entity = m->text[at] == '&' && m->form != MARKUP_WRAPPED;
    static const char *const names[] = {"&zwnj;", "&zwj;", "&lrm;", "&rlm;"};
    uint32_t c = 0;
    size_t n = 0, i;
    if (!m->surrounds || (!is_entity && (unsigned char)m->text[at] < 0xC2)) return 0;
    if (is_entity) {
        n = markup_entity_at(m->text + at, end - at, &c);
        for (i = 0; !c && n && i < 4; i++)
            if (protect_starts(m->text + at, n, names[i])) c = 0x200C + (uint32_t)i;
    } else n = tfm_character_next(m->text + at, end - at, &c);
    if (!n || !around_is_unseen(c) ||
        around_belongs(c, protect_before(m->text + begin, at - begin)))
        return 0;
    if (around_is_direction(c)) {
        const int is_last = m->n_items && m->items[m->n_items - 1].c == MARKUP_ISOLATE;
        markup_item *item = markup_add(m, MARKUP_POINT, at, at + n);
        if (item && c >= 0x2066 && c <= 0x2068) item->c = MARKUP_ISOLATE;
        if (item && c == 0x2069 && is_last) { /* the pair is an element */
            item[-1].c = 0, item[-1].kind = MARKUP_OPEN,
            item[-1].match = (markup_at)(m->n_items - 1);
            item->kind = MARKUP_CLOSE, item->match = (markup_at)(m->n_items - 2);
        }
    } else markup_clean(m);
    return n;
}

/* Elements that end a sentence. */
static const char markup_blocks[] =
    " address article aside base basefont bgsound blockquote body br caption center col colgroup"
    " command dd details dialog dir div dl dt fieldset figcaption figure footer form frame frameset"
    " h1 h2 h3 h4 h5 h6 head header hgroup hr html legend li link listing main menu menuitem meta"
    " nav noframes ol optgroup option p param plaintext pre search section select source style"
    " script summary table tbody td template textarea tfoot th thead title tr track ul xmp ";

/* Returns whether a text is HTML with escaped tags, &lt;p&gt;One.&lt;/p&gt;, as feeds and books
   have it. */
static int markup_is_escaped(const markup_document *m, size_t at, size_t end) {
    if (m->form != MARKUP_HTML) return 0;
    while (at < end && markup_is_space(m->text[at])) at++;
    while (end > at && markup_is_space(m->text[end - 1])) end--;
    if (end - at < 20 || !protect_starts(m->text + at, 4, "&lt;") ||
        !protect_is_letter((unsigned char)m->text[at + 4]) ||
        !protect_starts(m->text + end - 4, 4, "&gt;"))
        return 0;
    for (at += 4; at + 5 < end; at++)
        if (m->text[at] == '&' && protect_starts(m->text + at, 5, "&lt;/")) return 1;
    return 0;
}

/* Adds the escaped tag at byte `at` as an item. *open is the item of the last opening tag, or
   n_items. Returns its bytes, or 0 if it is none. */
static size_t markup_add_escaped(markup_document *m, size_t at, size_t end, size_t *open) {
    size_t name = at + 4, n, stop, other;
    int is_close;
    markup_item *item;
    if (!protect_starts(m->text + at, end - at, "&lt;")) return 0;
    is_close = name < end && m->text[name] == '/', name += (size_t)is_close;
    for (n = name; n < end && protect_is_word((unsigned char)m->text[n]);) n++;
    for (stop = n; stop + 4 <= end && !protect_starts(m->text + stop, 4, "&gt;");) stop++;
    if (n == name || stop + 4 > end) return 0;
    stop += 4;
    if (characters_list_has(markup_blocks, m->text + name, n - name)) {
        (void)markup_add(m, MARKUP_BLOCK, at, stop);
        return stop - at;
    }
    item = markup_add(m, MARKUP_CUT, at, stop);
    other = *open, *open = is_close ? (size_t)-1 : m->n_items - 1;
    if (!item || !is_close || other + 2 != m->n_items || m->items[other].at == m->plain.size ||
        memcmp(m->text + m->items[other].begin + 4, m->text + name, n - name) != 0)
        return stop - at;
    item->kind = MARKUP_CLOSE, item->match = (markup_at)other;
    m->items[other].kind = MARKUP_OPEN, m->items[other].match = (markup_at)(m->n_items - 1);
    return stop - at;
}

/* Appends text of the document to the plain text. Entities become letters, runs of whitespace
   become one space. */
static void markup_add_text(markup_document *m, size_t at, size_t end) {
    text_buffer letter;
    size_t n, k, i, begin = at, open = (size_t)-1;
    uint32_t c;
    const int is_escaped = markup_is_escaped(m, at, end);
    memset(&letter, 0, sizeof letter);
    for (; at < end; at += n) {
        n = 1;
        k = m->n_items;
        if (markup_is_space(m->text[at])) {
            if (!markup_after_space(m)) markup_plain(m, " ", 1, at, at + 1);
            else if (k && m->items[k - 1].at == m->plain.size &&
                     m->items[k - 1].kind != MARKUP_BLOCK &&
                     m->items[k - 1].end + m->items[k - 1].n_blank == at &&
                     m->items[k - 1].n_blank < MARKUP_BLANKS)
                m->items[k - 1].n_blank =
                    (m->items[k - 1].n_blank + 1u) &
                    MARKUP_BLANKS; /* the space of "a <b> b" that the plain text has not */
            continue;
        } /* no space between copied code and a comma */
        if (k && m->items[k - 1].kind == MARKUP_COPY && m->items[k - 1].at == m->plain.size &&
            m->items[k - 1].space_before && m->items[k - 1].end == at && m->plain.size > 1 &&
            m->plain.data[m->plain.size - 1] == ' ' &&
            !(k > 1 && m->items[k - 2].is_line && m->items[k - 2].at == m->plain.size) &&
            protect_in(",.;:!?)]}", (unsigned char)m->text[at])) {
            while (k && m->items[k - 1].at == m->plain.size) k--;
            if (m->items[k].kind == MARKUP_COPY) { /* the space of <b>a </b> {x}, is inside */
                markup_plain_drop(m);
                for (; k < m->n_items; k++) m->items[k].at = (markup_at)m->plain.size;
            }
        }
        k = m->form == MARKUP_HTML ? markup_separator(m, at, end) : 0;
        if (k) {
            (void)markup_add(m, MARKUP_BLOCK, at, at + k);
            n = k;
            continue;
        }
        n = is_escaped && m->text[at] == '&' ? markup_add_escaped(m, at, end, &open) : 0;
        if (n) continue;
        k = markup_unseen(m, begin, at, end);
        if (!k) {
            k = markup_protected(m, begin, at, end);
            n = k && m->surrounds ? protect_joint(m->text + begin, end - begin, at - begin, k) : 0;
            if (n && !(m->plain.size > n && m->text[at - n] == m->plain.data[m->plain.size - n] &&
                       (!m->n_items || m->items[m->n_items - 1].at + n <= m->plain.size)))
                n = 0;
            for (i = 0; i < n; i++) markup_plain_drop(m);
            if (k) (void)markup_add(m, MARKUP_COPY, at - n, at + k);
        }
        if (k) {
            n = k;
            continue;
        }
        k = m->text[at] == '&' && m->form != MARKUP_WRAPPED
                ? markup_entity_at(m->text + at, end - at, &c)
                : 0;
        if (protect_starts(m->text + at, end - at, "\xC2\xAD") || (k && c == 0xAD)) {
            if (!k) k = 2; /* soft hyphens: models split the word there */
            markup_clean(m);
        } else if (k && !c) {
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

/* Elements inside a sentence, with those of XLIFF. Elements in neither list are inside a sentence
   in HTML, as its standard says, but those of the last list, and all in XML, only beside text. */
static const char markup_inline[] =
    " a abbr acronym b bdi bdo big cite code data del dfn em embed font g i img input ins kbd label"
    " mark math mrk output pc q rb rp rt rtc ruby s samp small span strike strong sub sup time tt u"
    " var wbr x bx ex ec sc xliff:g ";
static const char markup_beside[] =
    " applet area audio button canvas datalist iframe map meter noscript object picture progress"
    " slot svg video ";
/* The readings of <ruby>, which no translation has. */
static const char markup_readings[] = " rp rt rtc ";
static const char markup_void[] =
    " area base basefont bgsound br col command embed frame hr img input keygen link meta param"
    " source track wbr ";
/* Names of <meta> whose content is text for readers: search engines and shared links show it. */
static const char *const markup_meta[] = {
    "description",   "og:description",      "og:image:alt",      "og:title",
    "twitter:title", "twitter:description", "twitter:image:alt",
};
/* Attributes with text for readers. */
static const char markup_texts[] = " abbr alt aria-label placeholder title ";
/* Elements that are copied. Those of markup_raw end only at their closing tag, whatever they
   contain. */
static const char markup_raw[] = " script style textarea xmp ";
static const char markup_copied[] = " bpt code ept it kbd math ph samp sup svg tt ut var ";
static const char markup_copied_blocks[] = " pre template ";

/* What an element says about the language of its text: nothing, that of the text to translate, or
   another one. */
enum { MARKUP_SAYS_NOTHING, MARKUP_SAYS_OWN, MARKUP_SAYS_OTHER };

typedef struct markup_tag {
    char name[MARKUP_NAME]; /* in small letters; a longer name is cut off */
    size_t n, begin, end;
    size_t attributes;             /* where its attributes begin; 0: it has none */
    signed char is_open, is_close; /* both 0: <a/>, <br>, <!-- --> */
    signed char copied;   /* 1: by an attribute, 2: by its name, 8: by its language; or a sum */
    signed char says;     /* what its attributes say about the language */
    signed char is_texts; /* the value of a button or the content of <meta name="description"> */
    char lang; /* the content of <meta> is a language, with this sign between its parts; or 0 */
    signed char is_opaque; /* not an element: 1 may be in a sentence (comment), 2 ends it */
} markup_tag;

/* What is kept of each tag of a document until its items are made. Its name and its attributes are
   read again where they are needed. */
typedef struct markup_element {
    markup_at begin, end;
    markup_at match;      /* the partner's index, or its own */
    markup_at item;       /* the element around it, or its own index; later its item */
    unsigned is_open : 1; /* as in markup_tag */
    unsigned is_close : 1;
    unsigned copied : 4; /* as in markup_tag; 4: its content */
    unsigned says : 2;
    unsigned has_own : 1;  /* an element in it says that its text is of the language to translate */
    unsigned is_left : 1;  /* the text behind the tag is in another language */
    unsigned was_left : 1; /* and the text before it */
    unsigned is_opaque : 2;
    unsigned has_attributes : 1;
    unsigned is_block : 1; /* its name is in markup_blocks, and so on */
    unsigned is_known : 1;
    unsigned is_beside : 1;
    unsigned is_copy : 1;
    unsigned is_reading : 1;
    unsigned is_ruby : 1;
    unsigned is_raised : 1;  /* <sup> or <ph> */
    unsigned is_lowered : 1; /* <sub> */
    unsigned is_break : 1;   /* <br> */
    unsigned is_inline : 1;  /* it may be in a sentence */
    unsigned has_text : 2;   /* outside the elements in it: 1: only a space, 2: more */
    unsigned n_links : 3;    /* <a> in it, counted up to 3; 4: it has other elements, too */
} markup_element;

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

/* Codes of languages and the code that this header compares in their place. */
static const char markup_codes[] =
    " afr=af amh=am ara=ar arb=ar aze=az azj=az bel=be ben=bn bos=bs bul=bg cat=ca ces=cs chi=zh"
    " cmn=zh cym=cy cze=cs dan=da deu=de dut=nl ell=el eng=en epo=eo est=et eus=eu fas=fa fin=fi"
    " fra=fr fre=fr ger=de gle=ga glg=gl gre=el guj=gu heb=he hin=hi hrv=hr hun=hu hye=hy in=id"
    " ind=id isl=is ita=it iw=he jpn=ja kan=kn kat=ka kaz=kk khm=km kor=ko lao=lo lav=lv lit=lt"
    " lvs=lv mal=ml mar=mr mkd=mk mlt=mt msa=ms mya=my nep=ne nld=nl nno=nn no=nb nob=nb nor=nb"
    " npi=ne pan=pa per=fa pes=fa pol=pl por=pt ron=ro rum=ro rus=ru sin=si slk=sk slo=sk slv=sl"
    " spa=es sqi=sq srp=sr swa=sw swe=sv swh=sw tam=ta tel=te tha=th tur=tr ukr=uk urd=ur vie=vi"
    " zho=zh zsm=ms ";

/* Writes the language of a code without script and country to base, with two letters if it has such
   a code. Returns its size, or 0 for a code that names no language, such as und. */
static size_t markup_base(const char *code, size_t size, char base[4]) {
    char word[7] = " ";
    const char *found;
    size_t n;
    for (n = 0; n < size && n < 4 && protect_is_letter((unsigned char)code[n]); n++)
        if (n < 3) base[n] = word[n + 1] = markup_small(code[n]);
    if (n < 2 || n > 3 || (n < size && !protect_in("-_", (unsigned char)code[n])) ||
        characters_list_has(" mul und ", base, n))
        return 0;
    word[n + 1] = '=';
    found = strstr(markup_codes, word);
    if (found) base[0] = found[n + 2], base[1] = found[n + 3], n = 2;
    return n;
}

/* Returns what the code of a language, bytes from to end - 1 of the document, says of a text. A
   text is to be translated if it is said to be in the language that the model reads, or in that of
   the root element: templates have a root element that names a wrong language. */
static int markup_says(const markup_document *m, size_t from, size_t end) {
    char said[4], own[4];
    size_t n = from < end ? markup_base(m->text + from, end - from, said) : 0, n_own, i;
    int known = 0;
    if (!m->surrounds || m->all_languages || !n) return MARKUP_SAYS_NOTHING;
    for (i = 0; i < 2; i++) {
        n_own = i           ? markup_base(m->text + m->page, m->n_page, own)
                : m->source ? markup_base(m->source, strlen(m->source), own)
                            : 0;
        if (n_own == n && memcmp(own, said, n) == 0) return MARKUP_SAYS_OWN;
        known |= n_own != 0;
    }
    return known ? MARKUP_SAYS_OTHER : MARKUP_SAYS_NOTHING;
}

/* Counts a text, bytes begin to end - 1 of the document, that stays as it is because it is said to
   be in another language. */
static void markup_leave_foreign(markup_document *m, size_t begin, size_t end) {
    size_t at;
    int in_tag = 0;
    for (at = begin; at < end; at++) {
        const unsigned char c = (unsigned char)m->text[at];
        in_tag = in_tag ? c != '>' : c == '<';
        if (in_tag || (c < 0x80 && !protect_is_letter(c))) continue;
        if (!m->n_foreign++) m->foreign = begin;
        return;
    }
}

/* Returns what the class of an element of SAMI says about the language of its text. */
static int markup_class_says(const markup_document *m, size_t begin, size_t end) {
    size_t i, k;
    for (i = 0; i < m->n_classes; i++) {
        const markup_class *one = &m->classes[i];
        if (one->n != end - begin) continue;
        for (k = 0; k < one->n; k++)
            if (markup_small(m->text[one->begin + k]) != markup_small(m->text[begin + k])) break;
        if (k == one->n) return one->is_other ? MARKUP_SAYS_OTHER : MARKUP_SAYS_OWN;
    }
    return MARKUP_SAYS_NOTHING;
}

/* Reads the tag that begins at `begin` with "<" and a name. Returns its end, or 0 if the document
   ends before. */
static size_t markup_read_tag(const markup_document *m, size_t begin, markup_tag *tag) {
    const char *text = m->text;
    markup_attribute a;
    size_t at = begin + 1, i;
    tag->begin = begin, tag->n = 0;
    tag->is_close = text[at] == '/', tag->is_opaque = tag->copied = tag->is_texts = 0,
    tag->lang = 0, tag->says = MARKUP_SAYS_NOTHING;
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
        if ((strcmp(a.name, "lang") == 0 || strcmp(a.name, "xml:lang") == 0) &&
            !characters_list_has(" body html ", tag->name, tag->n))
            tag->says = (signed char)markup_says(m, a.value, a.end);
        if (strcmp(tag->name, "meta") == 0 && a.n < MARKUP_NAME &&
            characters_list_has(" itemprop name property ", a.name, a.n))
            for (i = 0; i < sizeof markup_meta / sizeof *markup_meta; i++)
                tag->is_texts = markup_is(m, a.value, a.end, markup_meta[i]) || tag->is_texts;
        if (strcmp(tag->name, "meta") == 0 && markup_is(m, a.value, a.end, "og:locale"))
            tag->lang = '_';
        if (strcmp(tag->name, "meta") == 0 && strcmp(a.name, "http-equiv") == 0 &&
            markup_is(m, a.value, a.end, "content-language"))
            tag->lang = '-';
        if (strcmp(tag->name, "input") == 0 && strcmp(a.name, "type") == 0)
            tag->is_texts = markup_is(m, a.value, a.end, "submit") ||
                            markup_is(m, a.value, a.end, "button") ||
                            markup_is(m, a.value, a.end, "reset") || tag->is_texts;
        if (m->n_classes && strcmp(a.name, "class") == 0 && strcmp(tag->name, "p") == 0)
            tag->says = (signed char)markup_class_says(m, a.value, a.end);
        if (strcmp(a.name, "class") == 0)
            for (i = a.value; i + 11 <= a.end; i++)
                if (memcmp(text + i, "notranslate", 11) == 0) tag->copied |= 1;
    }
    if (at >= m->size) return 0;
    if (tag->says == MARKUP_SAYS_OTHER) tag->copied |= 8;
    tag->end = at + 1;
    tag->is_open = !tag->is_close && text[at - 1] != '/' &&
                   !characters_list_has(markup_void, tag->name, tag->n);
    if (tag->is_open && (characters_list_has(markup_raw, tag->name, tag->n) ||
                         characters_list_has(markup_copied, tag->name, tag->n) ||
                         characters_list_has(markup_copied_blocks, tag->name, tag->n)))
        tag->copied |= 2;
    return tag->end;
}

static size_t markup_find(const markup_document *m, size_t at, const char *what);

/* Sets m->page and m->n_page to the language that the tag at byte `at` says. */
static void markup_find_page(markup_document *m, size_t at) {
    markup_attribute a;
    while (at < m->size && markup_next_attribute(m, &at, &a))
        if (strcmp(a.name, "lang") == 0 || strcmp(a.name, "xml:lang") == 0)
            m->page = a.value, m->n_page = a.end - a.value;
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
    static const char *const odd[][2] = {{"<!--", "-->"}, {"<![CDATA[", "]]>"}, {"<!", ">"},
                                         {"<?php", "?>"}, {"<?=", "?>"},        {"<?xml", "?>"},
                                         {"<?", ">"},     {"<%", "%>"},         {"<#", ">"},
                                         {"</#", ">"},    {"<@", ">"},          {"</@", ">"}};
    const char *text = m->text + at;
    size_t left = m->size - at, i, end;
    memset(tag, 0, sizeof *tag);
    if (left < 2) return 0;
    for (i = 0; i < sizeof odd / sizeof *odd; i++)
        if (protect_starts(text, left, odd[i][0])) {
            if (i > 7 && (strlen(odd[i][0]) >= left ||
                          !protect_is_letter((unsigned char)text[strlen(odd[i][0])])))
                break;
            end = markup_find(m, at + strlen(odd[i][0]), odd[i][1]) + strlen(odd[i][1]);
            if (i > 6 && end > m->size) break; /* no template */
            tag->begin = at, tag->is_opaque = i == 0 || i > 2 ? 1 : 2;
            tag->end = end < m->size ? end : m->size;
            return tag->end;
        }
    if (!protect_is_letter((unsigned char)text[text[1] == '/' && left > 2 ? 2 : 1])) return 0;
    if (markup_read_tag(m, at, tag)) return tag->end;
    tag->is_opaque = 2, tag->is_open = tag->is_close = 0, tag->attributes = 0;
    return tag->end = m->size;
}

/* Returns whether a link has only a sign, such as the number of a footnote, between its tags. */
static int markup_is_sign(const markup_document *m, size_t begin, size_t end) {
    size_t i;
    int any = 0;
    if (end - begin > 8) return 0;
    for (i = begin; i < end; i++) {
        if ((unsigned char)m->text[i] >= 0x80 || protect_is_letter((unsigned char)m->text[i]))
            return 0;
        any |= !markup_is_space(m->text[i]) && !protect_in(",.;:!?", (unsigned char)m->text[i]);
    }
    return any;
}

/* Returns whether the tag that begins at `begin` has a name. */
static int markup_has_name(const markup_document *m, size_t begin, const char *name) {
    size_t at = begin + 1, n = 0;
    for (; at < m->size && !markup_is_space(m->text[at]); at++) {
        if (m->text[at] == '>' ||
            (m->text[at] == '/' && at + 1 < m->size && m->text[at + 1] == '>'))
            break;
        if (n + 1 < MARKUP_NAME && name[n++] != markup_small(m->text[at])) return 0;
    }
    return !name[n];
}

/* Sets what is kept of a tag. */
static void markup_keep_tag(const markup_tag *tag, size_t index, markup_element *e) {
    memset(e, 0, sizeof *e);
    e->begin = (markup_at)tag->begin, e->end = (markup_at)tag->end;
    e->match = e->item = (markup_at)index;
    e->is_open = tag->is_open != 0, e->is_close = tag->is_close != 0;
    e->says = (unsigned)tag->says & 3u;
    e->copied = (unsigned)tag->copied & 15u, e->is_opaque = (unsigned)tag->is_opaque & 3u;
    e->has_attributes = tag->attributes != 0;
    e->is_block = characters_list_has(markup_blocks, tag->name, tag->n) != 0;
    e->is_known = characters_list_has(markup_inline, tag->name, tag->n) != 0;
    e->is_beside = characters_list_has(markup_beside, tag->name, tag->n) != 0;
    e->is_copy = characters_list_has(markup_copied, tag->name, tag->n) != 0;
    e->is_reading = characters_list_has(markup_readings, tag->name, tag->n) != 0;
    e->is_ruby = characters_list_has(" rb rp rt rtc ruby ", tag->name, tag->n) != 0;
    e->is_raised = strcmp(tag->name, "sup") == 0 || strcmp(tag->name, "ph") == 0;
    e->is_lowered = strcmp(tag->name, "sub") == 0;
    e->is_break = strcmp(tag->name, "br") == 0 || strcmp(tag->name, "tt:br") == 0;
}

/* Returns whether a tag begins a document of TTML: <tt xmlns=...>. In HTML <tt> is code. */
static int markup_is_ttml(const markup_document *m, const markup_tag *tag) {
    size_t i = tag->begin;
    if (strcmp(tag->name, "tt") != 0 && strcmp(tag->name, "tt:tt") != 0) return 0;
    while (i < tag->end && !protect_starts(m->text + i, tag->end - i, "xmlns")) i++;
    return i < tag->end;
}

/* Finds the classes of SAMI whose texts are in another language, in the rules of its <style>, such
   as .DECC {lang: de-DE;}. If none is in the language to translate, all of them are. */
static void markup_find_classes(markup_document *m, size_t at) {
    const size_t size = m->size;
    size_t begin, end, code, name;
    int any = 0;
    m->n_classes = 0;
    at = markup_find(m, at, "<style");
    m->size = markup_find(m, at, "</style");
    for (; m->n_classes < MARKUP_CLASSES && (end = markup_find(m, at, "}")) < m->size;
         at = end + 1) {
        const size_t document_end = m->size;
        markup_class *one = &m->classes[m->n_classes];
        int says;
        m->size = end;
        begin = markup_find(m, at, "{"), code = markup_find(m, begin, "lang:");
        m->size = document_end;
        if (code >= end) continue;
        for (code += 5; code < end && markup_is_space(m->text[code]);) code++;
        for (name = begin; name > at && markup_is_space(m->text[name - 1]);) name--;
        for (begin = name; begin > at && (protect_is_word((unsigned char)m->text[begin - 1]) ||
                                          protect_in("-_", (unsigned char)m->text[begin - 1]));)
            begin--;
        for (at = code; at < end && (protect_is_letter((unsigned char)m->text[at]) ||
                                     protect_in("-_", (unsigned char)m->text[at]));)
            at++;
        says = markup_says(m, code, at);
        if (begin == name || m->text[begin - 1] != '.' || !says) continue;
        one->begin = (markup_at)begin, one->n = (markup_at)(name - begin);
        one->is_other = says == MARKUP_SAYS_OTHER;
        any |= !one->is_other, m->n_classes++;
    }
    if (!any) m->n_classes = 0;
    m->size = size;
}

/* Finds which texts between tags are in another language. An element without a closing tag says it
   of the text up to the next block. An element of another language that has one of the language to
   translate in it is not copied as a whole. */
static void markup_find_foreign(markup_element *tags, size_t n) {
    size_t k, i;
    unsigned inside = 0, loose = 0; /* of elements with and without closing tags */
    for (k = 0; k < n; k++) {
        markup_element *e = &tags[k];
        const int is_pair = e->match != k;
        if (e->is_block && !e->is_break) loose = 0;
        e->was_left = inside & 1u;
        if (e->is_close && is_pair) inside = tags[e->match].was_left;
        else if (e->is_open && e->says && is_pair) inside = e->says == MARKUP_SAYS_OTHER;
        else if (e->is_open && e->says && e->is_block) loose = e->says;
        e->is_left = (loose ? loose == MARKUP_SAYS_OTHER : inside) & 1u;
        if (e->is_open && e->says == MARKUP_SAYS_OWN)
            for (i = k; !tags[i].has_own; i = tags[i].item)
                tags[i].has_own = 1, tags[i].copied &= 7u;
    }
}

/* Looks at the first element: which kind of document it begins, and which language it says. e: what
   is kept of it. Returns whether it is of XML, and not of HTML. */
static int markup_find_kind(markup_document *m, const markup_tag *tag, int is_declared,
                            markup_element *e) {
    int is_xml = !e->is_block && !e->is_known && !e->is_beside;
    m->is_ttml = markup_is_ttml(m, tag), m->is_sami = strcmp(tag->name, "sami") == 0;
    if (m->is_ttml) is_xml = 1, e->copied = 0, e->is_known = e->is_copy = 0;
    if (is_declared) is_xml = strcmp(tag->name, "html") != 0;
    if (is_xml && m->form == MARKUP_HTML && !m->n_page) markup_find_page(m, tag->attributes);
    if (is_xml) e->says = MARKUP_SAYS_NOTHING, e->copied &= 7u;
    if (m->is_sami) markup_find_classes(m, tag->end);
    return is_xml;
}

/* Returns all tags from a byte on. A partner is searched only MARKUP_DEEP levels up: without this
   limit time would be quadratic. */
static markup_element *markup_tags(markup_document *m, size_t at, size_t *n_tags) {
    markup_element *tags = NULL, *e;
    markup_tag tag;
    size_t room = 0, n = 0, room_open = 0, n_open = 0, k, from = at;
    markup_at *open = NULL;
    void *grown;
    const char *next;
    int ok = 1, has_text = 0, is_xml = 0, any = 0, first_is_xml = 0;
    for (k = at; k + 1 < m->size; k++) /* room for all: a growing array takes more memory */
        n += m->text[k] == '<' && (protect_is_letter((unsigned char)m->text[k + 1]) ||
                                   protect_in("/!?%#@", (unsigned char)m->text[k + 1]));
    tags = (markup_element *)malloc((n + 1) * sizeof *tags);
    if (tags) room = n + 1;
    for (n = 0; ok && at < m->size &&
                (next = (const char *)memchr(m->text + at, '<', m->size - at)) != NULL;) {
        at = (size_t)(next - m->text);
        grown = tags, ok = markup_reserve(m, &grown, &room, n + 1, sizeof *tags);
        tags = (markup_element *)grown;
        if (!ok) break;
        if (!markup_tag_at(m, at, &tag)) {
            at++;
            continue;
        }
        e = &tags[n];
        markup_keep_tag(&tag, n, e);
        if (!n) first_is_xml = protect_starts(m->text + at, m->size - at, "<?xml");
        at = tag.end;
        k = markup_blank_end(m, from); /* is there text before the tag? */
        if (k < tag.begin || (from < tag.begin && n && tags[n - 1].is_close && !tag.is_close &&
                              !memchr(m->text + from, '\n', tag.begin - from))) {
            if (n_open) tags[open[n_open - 1]].has_text |= k < tag.begin ? 2u : 1u;
            else has_text = 1;
        }
        if (n_open) e->item = open[n_open - 1];
        if (n_open && !tag.is_close) {
            markup_element *around = &tags[open[n_open - 1]];
            if (strcmp(tag.name, "a") != 0) around->n_links = 4;
            else if (around->n_links < 3) around->n_links = (around->n_links + 1u) & 7u;
        }
        if (!any && !tag.is_opaque)
            any = 1, is_xml = markup_find_kind(m, &tag, n && first_is_xml, e);
        if (tag.is_open && characters_list_has(markup_raw, tag.name, tag.n)) {
            char close[MARKUP_NAME + 2] = "</";
            markup_tag last;
            memcpy(close + 2, tag.name, tag.n + 1);
            k = markup_find(m, at, close);
            at = k < m->size && markup_read_tag(m, k, &last) ? last.end : m->size;
            e->end = (markup_at)at, e->is_opaque = 2, e->is_open = 0;
        }
        from = at;
        if (e->is_open) {
            grown = open, ok = markup_reserve(m, &grown, &room_open, n_open + 1, sizeof *open);
            open = (markup_at *)grown;
            if (ok) open[n_open++] = (markup_at)n;
        } else if (e->is_close) {
            for (k = n_open; k > 0 && n_open - k < MARKUP_DEEP; k--)
                if (markup_has_name(m, tags[open[k - 1]].begin, tag.name)) {
                    e->match = open[k - 1], tags[open[k - 1]].match = (markup_at)n, n_open = k - 1;
                    if (e->match + 1 == n && strcmp(tag.name, "a") == 0 &&
                        markup_is_sign(m, tags[n - 1].end, tag.begin))
                        tags[n - 1].copied |= 4u;
                    break;
                }
        }
        n++;
    }
    if (markup_blank_end(m, from) < m->size) has_text |= !n_open;
    markup_find_foreign(tags, n);
    for (k = 0; k < n; k++) {
        const markup_element *around;
        e = &tags[k], around = e->item < k ? &tags[e->item] : NULL;
        if (e->is_close && e->match < k) e->is_inline = tags[e->match].is_inline;
        else if (is_xml && e->is_break) e->is_inline = 0;
        else if (is_xml ? e->is_known : !e->is_block && !e->is_beside)
            e->is_inline = !e->is_close || e->match != k || !is_xml;
        else if (is_xml || !e->is_block)
            e->is_inline = around ? around->has_text != 0 : has_text != 0;
        else e->is_inline = 0;
        if (e->is_open && around && around->n_links == 3 && around->has_text < 2 &&
            !around->is_inline)
            e->is_inline = 0; /* three links and nothing else: a list, and no sentence */
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
    if (item->at + 1 == m->plain.size && m->plain.data[item->at] == ' ' && !item->space_before)
        item->is_blank = 1, item->at++;
    else if (item->at != m->plain.size) return 0;
    item->kind = MARKUP_POINT;
    for (i = first + 1; i < m->n_items; i++)
        if (m->items[i].kind == MARKUP_COPY) item->kind = MARKUP_COPY;
    item->match = (markup_at)first, item->end = (markup_at)end, item->n_blank = 0;
    item->space_behind = end >= m->size || markup_is_space(m->text[end]);
    m->n_items = first + 1;
    return 1;
}

/* Returns what tag i is in a document. *last is the last tag that belongs to it: if the element is
   copied, its closing tag. */
static markup_kind markup_kind_of(const markup_element *tags, size_t i, size_t *last) {
    const markup_element *e = &tags[i];
    *last = i;
    if (e->is_open && e->copied && e->match != i) {
        *last = e->match;
        return e->is_inline || e->is_copy ? MARKUP_COPY : MARKUP_BLOCK;
    }
    if (e->is_opaque == 1 || (e->is_inline && !e->is_open && !e->is_close)) return MARKUP_POINT;
    if (e->is_inline && e->match != i) return e->is_open ? MARKUP_OPEN : MARKUP_CLOSE;
    return MARKUP_BLOCK;
}

/* Returns whether an attribute has text for readers in this element only. */
static int markup_is_text(const markup_tag *tag, const char *name) {
    if (strcmp(name, "label") == 0)
        return characters_list_has(" optgroup option track ", tag->name, strlen(tag->name));
    return tag->is_texts && strcmp(name, tag->name[0] == 'm' ? "content" : "value") == 0;
}

/* Notes where the document says its language. mark is the sign between the parts of the language's
   code. */
static void markup_add_lang(markup_document *m, size_t begin, size_t end, char mark) {
    markup_value *lang = &m->langs[m->n_langs];
    if (m->n_langs == MARKUP_LANGS) return;
    m->n_langs++, lang->from = begin, lang->to = end, lang->at = (unsigned char)mark;
}

/* Counts a text that is copied because its reader would be another one: a document in an attribute,
   a drawing. */
static void markup_leave_text(markup_document *m, size_t at) {
    if (!m->n_inner++) m->inner = at;
}

/* Adds a text for readers that replaces bytes begin to end - 1 of the document wherever they are
   written. Returns whether there is a text. One without quotes must have no character that needs
   them. */
static int markup_add_value(markup_document *m, size_t begin, size_t end, char quote) {
    size_t i;
    int has_text = 0, is_safe = 1;
    markup_item *item;
    for (i = begin; i < end; i++) {
        unsigned char c = (unsigned char)m->text[i];
        has_text |= c >= 0x80 || protect_is_letter(c);
        is_safe &= quote != ' ' || !protect_in("\"'`=<", c);
    }
    if (!has_text || !is_safe) return 0;
    item = markup_add(m, MARKUP_BLOCK, begin, begin);
    if (item) item->c = (unsigned char)quote, markup_add_text(m, begin, end);
    return item != NULL;
}

/* Adds the text in a tag's attributes to the plain text, each value as a block. Returns whether
   there is any. */
static int markup_add_values(markup_document *m, const markup_element *e) {
    markup_tag whole;
    const markup_tag *tag = &whole;
    size_t at;
    int any = 0;
    markup_attribute a;
    if (!e->has_attributes || e->is_close || e->is_left || m->form == MARKUP_WRAPPED ||
        (e->copied && e->copied != 4 &&
         !(e->copied == 2 && markup_has_name(m, e->begin, "textarea"))))
        return 0;
    (void)markup_tag_at(m, e->begin, &whole);
    at = tag->attributes;
    while (!m->broken && markup_next_attribute(m, &at, &a)) {
        if (m->n_langs < 2 && (strcmp(a.name, "lang") == 0 || strcmp(a.name, "xml:lang") == 0) &&
            (strcmp(tag->name, "html") == 0 || markup_is_ttml(m, tag)))
            markup_add_lang(m, a.value, a.end, '-');
        if (tag->lang && strcmp(a.name, "content") == 0)
            markup_add_lang(m, a.value, a.end, tag->lang);
        if (strcmp(a.name, "srcdoc") == 0 && a.end > a.value) markup_leave_text(m, a.value);
        if (a.n >= MARKUP_NAME ||
            !(characters_list_has(markup_texts, a.name, a.n) || markup_is_text(tag, a.name)))
            continue;
        any |= markup_add_value(m, a.value, a.end, a.quote);
    }
    return any;
}

/* Adds the attributes of the tags from `from` to the next one that is a block, and of the block
   that ends before tag `from`, if it is not NULL. Tags inside a sentence move with its words, so
   the translations of their attributes are needed before the sentence is written. */
static void markup_add_ahead(markup_document *m, const markup_element *block,
                             const markup_element *tags, size_t from, size_t n) {
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

/* Returns the last tag of the reading that tag i begins, or n if it begins none. A reading without
   a closing tag ends before the next part of the <ruby>. */
static size_t markup_reading(const markup_element *tags, size_t i, size_t n) {
    size_t last;
    if (!tags[i].is_open || !tags[i].is_reading) return n;
    if (tags[i].match != i) return tags[i].match;
    for (last = i; last + 1 < n && last < i + MARKUP_DEEP; last++)
        if (tags[last + 1].is_ruby) return last;
    return n;
}

/* Returns whether a character may be in a formula before <sub>: of a word, a bracket or Greek. */
static int markup_is_symbol(uint32_t c) {
    return c < 0x80 ? protect_is_word((unsigned char)c) || protect_in("()[]", c)
                    : c >= 0x370 && c < 0x400;
}

/* Returns the end of the formula whose first <sub> is tag i, as H<sub>2</sub>O or x<sub>i</sub>, or
   0. Models change its letters and digits. *begin gets its first byte, which is not before byte
      `from`,
   and *last its last tag. Two small letters in a row are of a word, which is no part of a
   formula. */
static size_t markup_formula(const markup_document *m, const markup_element *tags, size_t n,
                             size_t i, size_t from, size_t *begin, size_t *last) {
    enum { MOST = 12 };
    size_t at = tags[i].begin, k = 0, small = 0, end = 0;
    uint32_t c;
    if (!tags[i].is_lowered) return 0;
    for (*begin = at; *begin > from && markup_is_symbol(c = protect_before(m->text, *begin)); k++) {
        if (c >= 0x80 && *begin - from < 2) break;
        *begin -= c < 0x80 ? 1 : 2;
        small = c >= 'a' && c <= 'z' ? small + 1 : 0;
        if (small > 1 || k == MOST) return 0;
    }
    while (*begin < at && protect_in("([", (unsigned char)m->text[*begin])) ++*begin;
    if (*begin == at) return 0;
    for (; i + 1 < n && tags[i].begin == at && tags[i].is_lowered && tags[i].is_open &&
           tags[i].match == i + 1;
         i += 2) {
        for (at = tags[i].end;
             at < tags[i + 1].begin && at < tags[i].end + MOST &&
             (protect_is_word((unsigned char)m->text[at]) ||
              protect_in("+-,", (unsigned char)m->text[at]) || (unsigned char)m->text[at] >= 0x80);)
            at++;
        if (at < tags[i + 1].begin || at == tags[i].end) break;
        *last = i + 1;
        for (at = end = tags[*last].end, small = 0;
             small < 2 && at < m->size && protect_is_word((unsigned char)m->text[at]); at++)
            small = m->text[at] >= 'a' && m->text[at] <= 'z' ? small + 1 : 0;
        if (small > 1) break;
        end = at;
    }
    return end;
}

/* Returns whether bytes begin to end - 1 of the document have a text, which is in small letters. */
static int markup_find_within(markup_document *m, size_t begin, size_t end, const char *what) {
    const size_t size = m->size;
    size_t at;
    m->size = end, at = markup_find(m, begin, what), m->size = size;
    return at < end;
}

/* Returns whether what is behind byte `at` begins with the dash of another speaker. */
static int markup_is_speaker(const markup_document *m, size_t at) {
    at = markup_blank_end(m, at);
    return at < m->size &&
           (m->text[at] == '-' || protect_starts(m->text + at, m->size - at, "\xE2\x80\x93"));
}

/* Adds the text between two tags. One in another language is copied. */
static void markup_add_part(markup_document *m, size_t begin, size_t end, int is_left) {
    size_t from = markup_blank_end(m, begin), to = end;
    if (!is_left || from >= end) {
        markup_add_text(m, begin, end);
        return;
    }
    while (markup_is_space(m->text[to - 1])) to--;
    markup_add_text(m, begin, from);
    markup_leave_foreign(m, from, to);
    (void)markup_add(m, MARKUP_COPY, from, to);
    markup_add_text(m, to, end);
}

/* Reads bytes at to end of the document as HTML or XML: adds their items and plain text. */
static void markup_scan_html(markup_document *m, size_t at, size_t end) {
    size_t n, i, last, size = m->size;
    markup_element *tags;
    m->size = end;
    if (m->form == MARKUP_HTML) markup_find_page(m, markup_find(m, 0, "<html") + 5);
    tags = markup_tags(m, at, &n);
    markup_add_ahead(m, NULL, tags, 0, n);
    for (i = 0; i < n && !m->broken; i = last + 1) {
        const markup_element *tag = &tags[i];
        markup_kind kind = markup_kind_of(tags, i, &last);
        markup_item *item;
        size_t reading = markup_reading(tags, i, n);
        size_t begin = tag->begin, formula = 0, k;
        for (k = 1; k < 10 && kind == MARKUP_COPY && at + k <= tag->begin;
             k++) /* 20 m<sup>2</sup> */
            if (protect_unit(m->text + at, tag->begin - at, tag->begin - at - k) == k &&
                tag->is_raised)
                begin = tag->begin - k;
        if (kind == MARKUP_COPY && markup_extend_copy(m, begin, tags[last].end)) {
            at = tags[last].end;
            continue;
        }
        k = kind == MARKUP_OPEN ? markup_formula(m, tags, n, i, at, &formula, &last) : 0;
        markup_add_part(m, at, k ? formula : begin, i && tags[i - 1].is_left);
        if (k) {
            (void)markup_add(m, MARKUP_COPY, formula, k);
            at = k;
            continue;
        }
        if (reading < n) {
            last = reading, at = tags[i].match == i ? tags[last + 1].begin : tags[last].end;
            markup_clean(m);
            continue;
        }
        if ((tag->copied & 8u) && last > i) markup_leave_foreign(m, tag->begin, tags[last].end);
        if (kind == MARKUP_COPY && markup_has_name(m, tag->begin, "svg") &&
            markup_find_within(m, tag->begin, tags[last].end, "<text"))
            markup_leave_text(m, tag->begin);
        at = tags[last].end;
        if ((m->is_ttml || m->is_sami) && tag->is_break &&
            !markup_is_speaker(m, at)) { /* between two lines, as in other subtitles */
            if (!markup_after_space(m)) markup_plain(m, " ", 1, begin, at);
            item = markup_add(m, MARKUP_CUT, begin, at);
            if (item) item->is_line = 1;
            continue;
        }
        if (kind == MARKUP_CLOSE && markup_join(m, tags[tag->match].item, at)) continue;
        item = markup_add(m, kind, begin, at);
        if (!item) break;
        tags[i].item = (markup_at)(m->n_items - 1); /* which its partner needs */
        if (kind == MARKUP_CLOSE)
            item->match = tags[tag->match].item, m->items[item->match].match = tags[i].item;
        if (kind == MARKUP_BLOCK) markup_add_ahead(m, tag, tags, last + 1, n);
    }
    if (!m->broken) markup_add_part(m, at, m->size, n && tags[n - 1].is_left);
    m->size = size;
    free(tags);
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
        b->form = (unsigned)form & 7u, b->line = (markup_at)row;
        b->begin = (markup_at)begin, b->end = (markup_at)end;
    }
    return b;
}

/* Adds a break between two lines of a block. */
static void markup_add_break(markup_document *m, size_t begin, size_t end) {
    void *grown = m->breaks;
    if (!markup_reserve(m, &grown, &m->room_breaks, m->n_breaks + 1, sizeof *m->breaks)) return;
    m->breaks = (markup_break *)grown;
    m->breaks[m->n_breaks].begin = (markup_at)begin;
    m->breaks[m->n_breaks++].end = (markup_at)end;
}

/* Returns how many of n structs begin before a byte. They are in order, and their first member is a
   markup_at begin: first is that of the first one, and size is a struct's. */
static size_t markup_before(const markup_at *first, size_t size, size_t n, size_t at) {
    size_t low = 0, high = n, middle;
    while (low < high) {
        middle = low + (high - low) / 2;
        if (*(const markup_at *)(const void *)((const char *)first + middle * size) < at)
            low = middle + 1;
        else high = middle;
    }
    return low;
}

/* Returns the first break at or after a byte; n_breaks if there is none. */
static size_t markup_break_at(const markup_document *m, size_t at) {
    return m->n_breaks ? markup_before(&m->breaks->begin, sizeof *m->breaks, m->n_breaks, at) : 0;
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
   paragraph of one line is not wrapped if it is wider, or if these lines are short, as in
   verses. */
static void markup_measure(markup_document *m) {
    enum { NARROW = 40 };
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
        if (m->width < NARROW || markup_column(m->text + b->line, b->end - b->line, 0) > m->width)
            b->is_folded = 0;
    }
}

#endif
