/* markdown.h: finds the text in a Markdown document, and writes translations as Markdown. A part
   of markup.h.

   The blocks of CommonMark, tables, front matter, footnotes and alerts are found line by line; then
   the inlines of each block. Code, addresses, images and HTML tags without content are copied. The
   alternative texts of images and the titles of links are texts of their own.
   Emphasis and links are elements. Text in HTML blocks is read as HTML. Characters of a translation
   that Markdown could read as syntax are escaped. Each translated sentence is read again; if its
   markers would have another meaning among the new words, the source is copied instead. Time is
   linear. */
#ifndef MARKDOWN_H
#define MARKDOWN_H

#include "markup_pieces.h"

enum { MARKDOWN_TICKS = 80, MARKDOWN_ADDRESS_DEEP = 32, MARKDOWN_LABEL = 999 };

/* A row of equal delimiters (* _ ~), without those that are already in pairs. */
typedef struct markdown_run {
    markup_at begin, n, length, prev, next; /* n: 0 if it is no longer in the list */
    char c;
    char opens, closes;
} markdown_run;

typedef struct markdown_bracket {
    markup_at at, run, mark; /* its position, and the numbers of runs and marks before it */
    char is_image, is_off;
} markdown_bracket;

typedef struct markdown_mark {
    unsigned kind : 4;    /* a markup_kind */
    unsigned c : 8;       /* its kind: ` * _ ~ [ <, or a newline */
    markup_at begin, end; /* its bytes in the flat text */
    markup_at pair;       /* number that an opening and its closing mark share */
    markup_at label, n_label;
    markup_at item;
} markdown_mark;

/* A part of the flat text, from byte `at` to the next part, whose bytes follow each other in the
   document, too, from byte `begin` on. */
typedef struct markdown_part {
    markup_at at, begin;
} markdown_part;

enum { MARKDOWN_BOTTOMS = 30, MARKDOWN_FEW = 256 };

typedef struct markdown_parser {
    markup_document *m;
    text_buffer flat;   /* a block's text without the prefixes of its lines (quotes, indentation) */
    text_buffer map;    /* markdown_parts: where flat comes from */
    text_buffer labels; /* hashes (uint64_t), sorted, of the labels that are defined */
    markdown_run *runs;
    markdown_bracket *brackets;
    markdown_mark *marks;
    size_t *open;
    size_t n_runs, room_runs, n_brackets, room_brackets, n_marks, room_marks, room_open;
    markup_at n_pairs;
    size_t part;     /* the part of the map that was used last */
    size_t at;       /* the marks of the flat text are read up to this byte */
    size_t last_run; /* the last run in the list */
    size_t paired;   /* the runs before this one have their partners, if they have one */
    /* For each kind of run the first one that may be the partner of another. */
    size_t bottom[MARKDOWN_BOTTOMS];
    size_t tags[MARKUP_DEEP], n_tags; /* the HTML tags that are open */
    int crosses;                      /* a tag has another name than the last open one */
    int none[4];                      /* an HTML comment or the like has no end */
    size_t ticks[MARKDOWN_TICKS + 1]; /* ticks[n]: where the last row of n backticks begins */
    int ticks_known;
} markdown_parser;

/* Frees d and all its memory; d may be NULL. */
static void markdown_free(markdown_parser *d) {
    if (!d) return;
    text_buffer_free(&d->flat), text_buffer_free(&d->map), text_buffer_free(&d->labels);
    free(d->runs), free(d->brackets), free(d->marks), free(d->open), free(d);
}

/* Returns whether a character is ASCII punctuation, which a backslash can escape in Markdown. */
static int markdown_is_mark(char c) {
    return (c >= '!' && c <= '/') || (c >= ':' && c <= '@') || (c >= '[' && c <= '`') ||
           (c >= '{' && c <= '~');
}

/* Returns whether CommonMark counts a character beside delimiters as punctuation. */
static int markdown_is_punctuation(uint32_t c) {
    if (c < 0x80) return markdown_is_mark((char)c);
    return (c > 0xA0 && c < 0xC0 && c != 0xAA && c != 0xB2 && c != 0xB3 && c != 0xB5 && c != 0xB9 &&
            c != 0xBA && !(c >= 0xBC && c <= 0xBE)) ||
           c == 0xD7 || c == 0xF7 || (c >= 0x2010 && c <= 0x205E && !character_is_space(c)) ||
           (c >= 0x20A0 && c <= 0x20C0) || (c >= 0x2190 && c <= 0x245F) ||
           (c >= 0x2500 && c <= 0x2775) || (c >= 0x2794 && c <= 0x2BFF) ||
           (c >= 0x3001 && c <= 0x3003) || (c >= 0x3008 && c <= 0x3020) || c == 0x30FB ||
           (c >= 0xFF01 && c <= 0xFF0F) || (c >= 0xFF1A && c <= 0xFF20) ||
           (c >= 0xFF3B && c <= 0xFF40) || (c >= 0xFF5B && c <= 0xFF65) ||
           (c >= 0x1F000 && c <= 0x1FAFF);
}

/* Returns the position in the document of a byte of the flat text. */
static size_t markdown_place(markdown_parser *d, size_t at) {
    const markdown_part *parts = (const markdown_part *)(const void *)d->map.data;
    size_t low = 0, high = d->map.size / sizeof *parts, middle;
    if (d->part < high && parts[d->part].at <= at) low = d->part;
    if (low + 1 < high && parts[low + 1].at > at) high = low + 1; /* mostly it is the same part */
    while (low + 1 < high) {
        middle = low + (high - low) / 2;
        if (parts[middle].at <= at) low = middle;
        else high = middle;
    }
    d->part = low;
    return parts[low].begin + (at - parts[low].at);
}

/* Appends bytes to the flat text, which come from byte `begin` of the document on. */
static void markdown_add_flat(markdown_parser *d, const char *bytes, size_t n, size_t begin) {
    const markdown_part *last = (const markdown_part *)(const void *)d->map.data;
    markdown_part part;
    part.at = (markup_at)d->flat.size, part.begin = (markup_at)begin;
    text_buffer_append(&d->flat, bytes, n);
    if (d->map.size) last += d->map.size / sizeof part - 1;
    if (!d->map.size || last->begin + (part.at - last->at) != begin)
        text_buffer_append(&d->map, (const char *)&part, sizeof part);
}

/* Sets d->flat and d->map to a block's text from begin to end. A break becomes "\n", a hard break
   "\r". A hard break by a backslash becomes "\\\n", because to delimiters beside it the backslash
   is punctuation. */
static void markdown_flatten(markdown_parser *d, const char *text, size_t begin, size_t end,
                             int has_breaks) {
    size_t next = has_breaks ? markup_break_at(d->m, begin) : 0, at = begin, i, from, stop;
    size_t hard = d->m->first_hard;
    d->flat.size = d->map.size = d->part = 0;
    text_buffer_append(&d->flat, "", 0);
    while (at < end) {
        const markup_break *b = has_breaks && next < d->m->n_breaks ? &d->m->breaks[next] : NULL;
        int stands = b && b->begin < end;
        stop = stands ? b->begin : end;
        for (i = from = at; i < stop; i++) {
            if (text[i] != '\r') continue;
            markdown_add_flat(d, text + from, i - from, from);
            from = i + 1;
            while (!has_breaks && hard < d->m->n_items && d->m->items[hard].c != '\n') hard++;
            if (!has_breaks && hard < d->m->n_items &&
                d->m->text[d->m->items[hard++].begin] == '\\') {
                markdown_add_flat(d, "\\", 1, i);
                markdown_add_flat(d, "\n", 1, i);
            } else markdown_add_flat(d, has_breaks ? " " : "\r", 1, i);
        }
        markdown_add_flat(d, text + from, stop - from, from);
        if (!stands) break;
        markdown_add_flat(d, text[stop] == ' ' && text[stop + 1] == ' ' ? "\r" : "\n", 1, stop);
        at = b->end, next++;
    }
    d->m->broken |= d->flat.broken || d->map.broken;
}

/* Returns the position in the document where the flat text up to `end` ends. */
static size_t markdown_end(markdown_parser *d, size_t end) {
    size_t last = markdown_place(d, end - 1);
    char c = d->flat.data[end - 1];
    return c == '\n' || c == '\r' ? d->m->breaks[markup_break_at(d->m, last)].end : last + 1;
}

/* ---- labels, addresses, tags ----------------------------------------------------------------- */

/* Returns a label's hash. Case and the kind and amount of whitespace do not matter, as in
   CommonMark. */
static uint64_t markdown_hash(const char *text, size_t size) {
    uint64_t hash = 0xCBF29CE484222325u;
    size_t i, n;
    uint32_t c;
    int space = 0, any = 0;
    for (i = 0; i < size; i += n) {
        n = tfm_character_next(text + i, size - i, &c);
        if (markup_is_space((char)(c < 0x80 ? c : 'x'))) {
            space = any;
            continue;
        }
        if (space) hash = (hash ^ ' ') * 0x100000001B3u;
        hash = (hash ^ protect_lower(c)) * 0x100000001B3u, space = 0, any = 1;
    }
    return any ? hash : 0;
}

/* Compares two hashes for qsort and bsearch. */
static int markdown_by_hash(const void *a, const void *b) {
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

/* Returns whether the document defines a label. */
static int markdown_is_label(const markdown_parser *d, const char *text, size_t size) {
    uint64_t hash = size <= MARKDOWN_LABEL ? markdown_hash(text, size) : 0;
    return hash && d->labels.size &&
           bsearch(&hash, d->labels.data, d->labels.size / sizeof hash, sizeof hash,
                   markdown_by_hash) != NULL;
}

/* Returns the end of the label that begins with "[" at `at`, or 0. */
static size_t markdown_label(const char *text, size_t size, size_t at) {
    size_t begin = ++at;
    for (; at < size && at - begin <= MARKDOWN_LABEL; at++) {
        if (text[at] == ']') return at + 1;
        if (text[at] == '[') return 0;
        if (text[at] == '\\' && at + 1 < size && markdown_is_mark(text[at + 1])) at++;
    }
    return 0;
}

/* Returns the end of the whitespace at `at`. */
static size_t markdown_skip_space(const char *text, size_t size, size_t at) {
    while (at < size && markup_is_space(text[at])) at++;
    return at;
}

/* Returns the end of the link address that begins at `at`, or 0. */
static size_t markdown_address(const char *text, size_t size, size_t at) {
    size_t begin = at, deep = 0;
    int angle = at < size && text[at] == '<';
    for (at += (size_t)angle; at < size; at++) {
        char c = text[at];
        if (c == '\\' && at + 1 < size && markdown_is_mark(text[at + 1])) at++;
        else if (angle && (c == '<' || c == '\n' || c == '\r')) return 0;
        else if (angle && c == '>') return at + 1;
        else if (angle) continue;
        else if ((unsigned char)c <= ' ' || c == 0x7F) break;
        else if (c == '(' && ++deep > MARKDOWN_ADDRESS_DEEP) return 0;
        else if (c == ')' && !deep--) break;
    }
    return angle || at == begin || (deep && !(at < size && text[at] == ')')) ? 0 : at;
}

/* Returns the end of the link title that begins at `at`, with its quotes, or 0. */
static size_t markdown_title(const char *text, size_t size, size_t at) {
    char close;
    if (at >= size || !protect_in("\"'(", (unsigned char)text[at])) return 0;
    close = text[at] == '(' ? ')' : text[at];
    for (at++; at < size; at++) {
        if (text[at] == '\\' && at + 1 < size) at++;
        else if (text[at] == close) return at + 1;
        else if (text[at] == '(' && close == ')') return 0;
    }
    return 0;
}

/* Returns the end of the link target (address "title") that begins at `at`, or 0. */
static size_t markdown_target(const char *text, size_t size, size_t at) {
    size_t end, space;
    at = markdown_skip_space(text, size, at + 1);
    if (at < size && text[at] == ')') return at + 1;
    end = markdown_address(text, size, at);
    if (!end) return 0;
    space = markdown_skip_space(text, size, end);
    if (space > end) {
        end = markdown_title(text, size, space);
        space = markdown_skip_space(text, size, end ? end : space);
    }
    return space < size && text[space] == ')' ? space + 1 : 0;
}

/* Returns the end of the definition [label]: address "title" that begins at `at`, with its line, or
   0. */
static size_t markdown_definition(const char *text, size_t size, size_t at, size_t *n_label) {
    size_t end = markdown_label(text, size, at), title, row;
    if (!end || end >= size || text[end] != ':') return 0;
    *n_label = end - at - 2;
    at = markdown_skip_space(text, size, end + 1);
    end = markdown_address(text, size, at);
    if (!end) return 0;
    for (row = end; row < size && (text[row] == ' ' || text[row] == '\t');) row++;
    at = markdown_skip_space(text, size, end);
    title = at > end ? markdown_title(text, size, at) : 0;
    for (; title && title < size && (text[title] == ' ' || text[title] == '\t');) title++;
    if (title && (title == size || text[title] == '\n' || text[title] == '\r')) row = title;
    if (row < size && text[row] != '\n' && text[row] != '\r') return 0;
    return row < size ? row + 1 : row;
}

/* Returns the end of the HTML tag that begins at `at`, by CommonMark's rules, or 0. */
static size_t markdown_tag(const char *text, size_t size, size_t at) {
    int is_close = ++at < size && text[at] == '/';
    at += (size_t)is_close;
    if (at >= size || !protect_is_letter((unsigned char)text[at])) return 0;
    while (at < size && (protect_is_word((unsigned char)text[at]) || text[at] == '-')) at++;
    for (;;) {
        size_t space = markdown_skip_space(text, size, at);
        if (space >= size) return 0;
        if (text[space] == '>') return space + 1;
        if (!is_close && text[space] == '/')
            return space + 1 < size && text[space + 1] == '>' ? space + 2 : 0;
        if (is_close || space == at ||
            !(protect_is_letter((unsigned char)text[space]) ||
              protect_in("_:", (unsigned char)text[space])))
            return 0;
        for (at = space; at < size && (protect_is_word((unsigned char)text[at]) ||
                                       protect_in("_.:-", (unsigned char)text[at]));)
            at++;
        space = markdown_skip_space(text, size, at);
        if (space >= size || text[space] != '=') continue;
        at = markdown_skip_space(text, size, space + 1);
        if (at >= size) return 0;
        if (text[at] == '{') { /* of JSX */
            size_t n = protect_brackets(text + at, size - at);
            if (!n) return 0;
            at += n;
        } else if (text[at] == '"' || text[at] == '\'') {
            const char *end = (const char *)memchr(text + at + 1, text[at], size - at - 1);
            if (!end) return 0;
            at = (size_t)(end - text) + 1;
        } else {
            for (space = at; at < size && !markup_is_space(text[at]) &&
                             !protect_in("\"'=<>`", (unsigned char)text[at]);)
                at++;
            if (at == space) return 0;
        }
    }
}

/* Returns the end of the autolink <https://...> or <a@b.c> that begins at `at`, or 0. */
static size_t markdown_autolink(const char *text, size_t size, size_t at) {
    size_t i = at + 1, name, kind = 0;
    for (name = i;
         i < size && i - name <= 32 &&
         (protect_is_word((unsigned char)text[i]) || protect_in("+.-", (unsigned char)text[i]));)
        i++;
    if (i < size && text[i] == ':' && i - name >= 2 && protect_is_letter((unsigned char)text[name]))
        kind = 1;
    for (; i < size && (unsigned char)text[i] > ' ' && text[i] != '<' && text[i] != '>'; i++) {
        if (kind != 1 && text[i] == '@') kind += 2;
        if (kind != 1 && text[i] != '@' && !protect_is_word((unsigned char)text[i]) &&
            !((unsigned char)text[i] < 0x80 &&
              strchr(kind ? ".-" : ".!#$%&'*+/=?^_`{|}~-", text[i])))
            return 0;
    }
    return (kind == 1 || kind == 2) && i < size && text[i] == '>' && i > at + 2 ? i + 1 : 0;
}

/* ---- inlines --------------------------------------------------------------------------------- */

static markdown_mark *markdown_add(markdown_parser *d, markup_kind kind, char c, size_t begin,
                                   size_t end) {
    void *grown = d->marks;
    markdown_mark *mark;
    if (markup_reserve(d->m, &grown, &d->room_marks, d->n_marks + 1, sizeof *d->marks)) {
        d->marks = (markdown_mark *)grown;
        mark = &d->marks[d->n_marks++];
        memset(mark, 0, sizeof *mark);
        mark->kind = (unsigned)kind & 15u, mark->c = (unsigned char)c;
        mark->begin = (markup_at)begin, mark->end = (markup_at)end;
        return mark;
    }
    return NULL;
}

/* Adds the two marks of an element. */
static void markdown_add_pair(markdown_parser *d, char c, size_t begin, size_t end, size_t close,
                              size_t close_end) {
    markdown_mark *mark = markdown_add(d, MARKUP_OPEN, c, begin, end);
    if (mark) mark->pair = ++d->n_pairs;
    mark = markdown_add(d, MARKUP_CLOSE, c, close, close_end);
    if (mark) mark->pair = d->n_pairs;
}

/* Removes run i from the list of runs. */
static void markdown_unlink(markdown_parser *d, size_t i) {
    markdown_run *r = &d->runs[i];
    r->n = 0;
    d->runs[r->prev].next = r->next;
    if (r->next) d->runs[r->next].prev = r->prev;
    else d->last_run = r->prev;
}

/* Adds the row of delimiters at `at`. The characters beside it decide whether it may open or close
   an element. Returns its end. */
static size_t markdown_add_run(markdown_parser *d, size_t at) {
    const char *text = d->flat.data;
    size_t size = d->flat.size, end = at;
    uint32_t before = protect_before(text, at), after = ' ';
    int space[2], mark[2], left, right;
    void *grown = d->runs;
    markdown_run *r;
    while (end < size && text[end] == text[at]) end++;
    if (end < size) (void)tfm_character_next(text + end, size - end, &after);
    if (!protect_in("*_", (unsigned char)text[at]) && end - at != 2) return end;
    space[0] = character_is_space(before), space[1] = character_is_space(after);
    mark[0] = markdown_is_punctuation(before), mark[1] = markdown_is_punctuation(after);
    left = !space[1] && (!mark[1] || space[0] || mark[0]);
    right = !space[0] && (!mark[0] || space[1] || mark[1]);
    if (!left && !right) return end;
    if (!markup_reserve(d->m, &grown, &d->room_runs, d->n_runs + 1, sizeof *d->runs)) return end;
    d->runs = (markdown_run *)grown;
    r = &d->runs[d->n_runs];
    r->begin = (markup_at)at, r->n = r->length = (markup_at)(end - at), r->c = text[at];
    r->opens = left && (text[at] != '_' || !right || mark[0]);
    r->closes = right && (text[at] != '_' || !left || mark[1]);
    r->prev = (markup_at)d->last_run, r->next = 0;
    d->runs[d->last_run].next = (markup_at)d->n_runs;
    d->last_run = d->n_runs++;
    return end;
}

/* Pairs the runs from `from` on with others of the list from `first` on, by CommonMark's rules. */
static void markdown_pair(markdown_parser *d, size_t first, size_t from, size_t *bottom) {
    size_t i, k;
    for (i = from; i < d->n_runs; i++) {
        markdown_run *r = &d->runs[i], *o;
        markup_at n;
        size_t c = r->c == '*' ? 0 : r->c == '_' ? 1 : r->c == '~' ? 2 : r->c == '=' ? 3 : 4;
        size_t *least = &bottom[6 * c + (r->opens ? 3u : 0u) + r->length % 3];
        while (r->n && r->closes) {
            for (k = r->prev, o = NULL; k >= *least && k >= first && k; k = d->runs[k].prev) {
                o = &d->runs[k];
                if (o->c == r->c && o->opens &&
                    (!protect_in("*_", (unsigned char)r->c) || !(o->closes || r->opens) ||
                     (o->length + r->length) % 3 || (o->length % 3 == 0 && r->length % 3 == 0)))
                    break;
                o = NULL;
            }
            if (!o) {
                *least = i;
                if (!r->opens) markdown_unlink(d, i);
                break;
            }
            n = 2;
            if (o->n < n || r->n < n) n = 1;
            markdown_add_pair(d, o->c, o->begin + o->n - n, o->begin + o->n, r->begin,
                              r->begin + n);
            while (r->prev != k) markdown_unlink(d, r->prev);
            o->n -= n, r->n -= n, r->begin += n;
            if (!o->n) markdown_unlink(d, k);
            if (!r->n) markdown_unlink(d, i);
        }
    }
}

/* Removes the runs from `first` on from the list. */
static void markdown_drop_runs(markdown_parser *d, size_t first) {
    while (d->last_run >= first && d->last_run) markdown_unlink(d, d->last_run);
}

/* Reads a "]": adds the marks of the link or image that it ends, if there is one. Returns the
   end. */
static size_t markdown_close(markdown_parser *d, size_t at) {
    const char *text = d->flat.data;
    size_t size = d->flat.size, end = 0, label = 0, n_label = 0, i, bottom[MARKDOWN_BOTTOMS];
    int is_full = 0; /* a label follows: [text][label] */
    markdown_bracket *b = d->n_brackets ? &d->brackets[--d->n_brackets] : NULL;
    markdown_mark *mark;
    if (!b || b->is_off) return at + 1;
    i = b->at + 1 + (size_t)b->is_image;
    if (at + 1 < size && text[at + 1] == '(') end = markdown_target(text, size, at + 1);
    if (!end && at + 1 < size && text[at + 1] == '[') {
        end = markdown_label(text, size, at + 1), is_full = end > at + 3;
        if (is_full && !markdown_is_label(d, text + at + 2, end - at - 3)) end = 0;
        else if (is_full) label = at + 2, n_label = end - at - 3;
        else if (end && !markdown_is_label(d, text + i, at - i)) end = 0;
        else if (end) label = i, n_label = at - i;
    }
    if (!end && !is_full && markdown_label(text, size, i - 1) == at + 1 &&
        markdown_is_label(d, text + i, at - i))
        end = at + 1, label = i, n_label = at - i;
    if (!end) return at + 1;
    if (b->is_image) {
        markdown_drop_runs(d, b->run);
        d->n_marks = b->mark;
        (void)markdown_add(d, MARKUP_COPY, '!', b->at, end);
        return end;
    }
    for (i = 0; i < MARKDOWN_BOTTOMS; i++) bottom[i] = b->run;
    markdown_pair(d, b->run, b->run, bottom);
    markdown_drop_runs(d, b->run);
    markdown_add_pair(d, '[', b->at, b->at + 1, at, end);
    mark = d->n_marks ? &d->marks[d->n_marks - 1] : NULL;
    if (mark && label) mark->label = (markup_at)label, mark->n_label = (markup_at)n_label;
    for (i = d->n_brackets; i > 0; i--) { /* a link cannot contain a link */
        if (d->brackets[i - 1].is_image) continue;
        if (d->brackets[i - 1].is_off) break;
        d->brackets[i - 1].is_off = 1;
    }
    return end;
}

/* Returns the end of the code that begins with n backticks at `at`, or 0 if they are text. */
static size_t markdown_code(markdown_parser *d, size_t at, size_t n) {
    const char *text = d->flat.data;
    size_t i, k;
    if (n > MARKDOWN_TICKS) return 0;
    if (!d->ticks_known) { /* without ticks the search would take quadratic time */
        memset(d->ticks, 0, sizeof d->ticks);
        for (i = 0; i < d->flat.size; i += k + (k == 0)) {
            for (k = 0; i + k < d->flat.size && text[i + k] == '`';) k++;
            if (k && k <= MARKDOWN_TICKS) d->ticks[k] = i;
        }
        d->ticks_known = 1;
    }
    if (d->ticks[n] <= at) return 0;
    for (i = at + n; i < d->flat.size; i += k + (k == 0)) {
        for (k = 0; i + k < d->flat.size && text[i + k] == '`';) k++;
        if (k == n) return i + k;
    }
    return 0;
}

/* Returns the bytes of a formula that begins at `at`, or 0: $a^2$, $$a$$, \\(a\\), \\[a\\]. A "$"
   opens before a character and closes behind one, but not before a digit, or it is money. */
static size_t markdown_formula(const markdown_parser *d, size_t at) {
    enum { MOST = 400 };
    const char *text = d->flat.data + at;
    size_t size = d->flat.size - at, i, n = 1;
    char close;
    int any = 0, letters = 0, most = 0; /* of a word that is no command */
    if (size > MOST) size = MOST;
    if (size < 3) return 0;
    if (*text == '\\') {
        if (text[1] != '(' && text[1] != '[') return 0;
        close = text[1] == '(' ? ')' : ']';
        for (i = 2; i + 1 < size; i++) {
            if (text[i] == '\\' && text[i + 1] == close)
                return any || (close == ')' && i > 2 && most < 3) ? i + 2 : 0;
            letters = protect_is_letter((unsigned char)text[i]) || (unsigned char)text[i] >= 0x80
                          ? letters + 1
                          : 0;
            if (letters > most) most = letters;
            any |= protect_in("^_=+", (unsigned char)text[i]) ||
                   (text[i] == '\\' && protect_is_letter((unsigned char)text[i + 1]));
        }
        return 0;
    }
    if (at && (protect_is_word((unsigned char)text[-1]) || text[-1] == '$')) return 0;
    n += text[1] == '$';
    if (n == 1 && (unsigned char)text[1] <= ' ') return 0;
    for (i = n; i + n <= size; i++) {
        if (text[i] == '\\' && i + 1 < size) i++;
        else if (text[i] == '$' && i > n && (n == 1 || text[i + 1] == '$')) {
            if (n == 2) return i + 2;
            if ((unsigned char)text[i - 1] > ' ' &&
                !(i + 1 < size && protect_is_word((unsigned char)text[i + 1])))
                return i + 1;
            return 0;
        }
    }
    return 0;
}

/* Returns the bytes of what begins at `at` and is copied in GitHub's Markdown and in that of
   documentation generators, or 0: formulas, :smile:, @name, #12, x^2^, H~2~O, [[page]],
   [@source]. */
static size_t markdown_extra(const markdown_parser *d, size_t at) {
    const char *text = d->flat.data + at;
    size_t size = d->flat.size - at, n = 1;
    uint32_t before;
    if (*text == '$' || *text == '\\') return markdown_formula(d, at);
    if (*text == '[') {
        const char *close = size > 4 && text[1] == '['   ? "]]"
                            : size > 3 && text[1] == '@' ? "]"
                                                         : NULL;
        n = close ? protect_until(text, size < 200 ? size : 200, close) : 0;
        if (n && n < size && protect_in("([", (unsigned char)text[n])) return 0; /* a link */
        return n && !memchr(text, '\n', n) && !memchr(text + 2, '[', n - 2) ? n : 0;
    }
    before = at ? (unsigned char)text[-1] : ' ';
    if (*text == '^' || *text == '~') { /* no spaces inside */
        while (n < size && n < 30 && (unsigned char)text[n] > ' ' && text[n] != *text) n++;
        return n > 1 && n < size && text[n] == *text && before != (unsigned char)*text &&
                       !(n + 1 < size && text[n + 1] == *text)
                   ? n + 1
                   : 0;
    }
    if (protect_is_word(before) || before >= 0x80 || before == '/' || before == '&') return 0;
    if (*text == ':') {
        while (
            n < size && n < 40 &&
            (protect_is_word((unsigned char)text[n]) || protect_in("_+-", (unsigned char)text[n])))
            n++;
        return n > 2 && n < size && text[n] == ':' && !protect_is_digit((unsigned char)text[1]) &&
                       !(n + 1 < size && protect_is_word((unsigned char)text[n + 1]))
                   ? n + 1
                   : 0;
    }
    if (*text == '#') {
        while (n < size && n < 12 && protect_is_digit((unsigned char)text[n])) n++;
        return n > 1 && !(n < size && protect_is_word((unsigned char)text[n])) ? n : 0;
    }
    if (*text == '+') { /* ++ctrl+alt+del++ */
        for (n = 2; n < size && n < 60 &&
                    (text[n] == '+' ? text[n + 1] != '+'
                                    : protect_is_word((unsigned char)text[n]) || text[n] == '-');)
            n++;
        return n > 3 && n + 1 < size && text[1] == '+' && text[n] == '+' && text[n + 1] == '+' &&
                       memchr(text + 2, '+', n - 2)
                   ? n + 2
                   : 0;
    }
    if (*text == '@' && size > 1 && text[1] == '[') { /* @[youtube](id) */
        n = protect_until(text, size < 200 ? size : 200, "](");
        n = n && !memchr(text, '\n', n) ? n + protect_until(text + n, size - n, ")") : 0;
        return n && text[n - 1] == ')' && !memchr(text, '\n', n) ? n : 0;
    }
    if (*text == '@' && size > 1 && protect_is_letter((unsigned char)text[1])) {
        while (n < size && n < 60 &&
               (protect_is_word((unsigned char)text[n]) ||
                (protect_in("-_/.", (unsigned char)text[n]) && n + 1 < size &&
                 protect_is_word((unsigned char)text[n + 1]))))
            n++;
        return n;
    }
    return 0;
}

/* Returns the bytes of the bare address or placeholder that begins at `at` and is copied, or 0. */
static size_t markdown_bare(const markdown_parser *d, size_t at) {
    const char *text = d->flat.data + at;
    size_t size = d->flat.size - at, n, i, deep = 0;
    int is_address;
    if (!protect_in("hfwm{%$#@:", (unsigned char)*text)) return 0;
    n = protect_placeholder(d->flat.data, d->flat.size, at);
    if (n || !protect_in("hfwm", (unsigned char)*text) ||
        protect_is_word(protect_before(d->flat.data, at)))
        return n;
    is_address = protect_starts(text, size, "http://") || protect_starts(text, size, "https://") ||
                 protect_starts(text, size, "ftp://") || protect_starts(text, size, "www.") ||
                 protect_starts(text, size, "mailto:");
    for (i = 0; is_address && i < size && (unsigned char)text[i] > ' ' &&
                !protect_in("[]\\`<>*|\"", (unsigned char)text[i]);
         i++) {
        if (text[i] == '(') deep++;
        if (text[i] == ')' && !deep--) break;
    }
    while (i > 0 && protect_in(".,:;!?'~_", (unsigned char)text[i - 1])) i--;
    return i > 5 ? i : 0;
}

/* Compares two marks by position for qsort. */
static int markdown_by_place(const void *a, const void *b) {
    size_t x = ((const markdown_mark *)a)->begin, y = ((const markdown_mark *)b)->begin;
    return x < y ? -1 : x > y;
}

/* Reads the tag at a mark, as markup.h does for HTML. */
static void markdown_read_tag(markdown_parser *d, const markdown_mark *mark, markup_tag *tag) {
    markup_document *m = d->m;
    size_t size = m->size;
    memset(tag, 0, sizeof *tag);
    m->size = markdown_end(d, mark->end); /* the tag must end in the mark */
    if (!markup_read_tag(m, markdown_place(d, mark->begin), tag)) tag->is_open = tag->is_close = 0;
    m->size = size;
}

/* Notes an HTML tag, so that the marks of an element are read together. */
static void markdown_note_tag(markdown_parser *d, const markdown_mark *mark) {
    markup_tag tag, open;
    markdown_mark other = *mark;
    markdown_read_tag(d, mark, &tag);
    if (tag.is_open && d->n_tags < MARKUP_DEEP) d->tags[d->n_tags++] = mark->begin;
    else if (tag.is_open) d->crosses = 1;
    if (!tag.is_close || !d->n_tags) return;
    other.begin = (markup_at)d->tags[d->n_tags - 1];
    markdown_read_tag(d, &other, &open);
    if (strcmp(open.name, tag.name) == 0) d->n_tags--;
    else d->crosses = 1;
}

/* Pairs the runs that have not been paired, outside brackets, whose text could be a link's. */
static void markdown_settle(markdown_parser *d) {
    size_t i;
    if (d->n_brackets) return;
    markdown_pair(d, 1, d->paired, d->bottom);
    d->paired = d->n_runs;
    if (d->last_run) return;
    d->n_runs = d->paired = 1; /* all have their partners: the memory is used again */
    for (i = 0; i < MARKDOWN_BOTTOMS; i++) d->bottom[i] = 1;
}

/* Prepares to read the marks of the flat text. */
static void markdown_start(markdown_parser *d) {
    void *grown = d->runs;
    d->n_marks = d->n_brackets = d->at = d->n_tags = 0, d->n_pairs = 0;
    d->ticks_known = d->crosses = 0;
    memset(d->none, 0, sizeof d->none);
    if (!markup_reserve(d->m, &grown, &d->room_runs, 1, sizeof *d->runs)) return;
    d->runs = (markdown_run *)grown;
    memset(d->runs, 0, sizeof *d->runs); /* the list's head */
    d->n_runs = d->paired = 1, d->last_run = 0;
    markdown_settle(d);
}

/* Adds what begins with "<": a placeholder, an address in angle brackets, an HTML tag, a comment or
   the like. Returns the position behind it. */
static size_t markdown_add_angle(markdown_parser *d, size_t at, int has_tags) {
    static const char *const odd[][2] = {
        {"<!--", "-->"}, {"<![CDATA[", "]]>"}, {"<?", "?>"}, {"<!", ">"}};
    const char *text = d->flat.data;
    size_t size = d->flat.size, n = protect_placeholder(text, size, at), end, i;
    end = n ? at + n : markdown_autolink(text, size, at);
    if (end) {
        (void)markdown_add(d, MARKUP_COPY, '`', at, end);
        return end;
    }
    end = markdown_tag(text, size, at);
    if (end) {
        if (markdown_add(d, MARKUP_POINT, '<', at, end) && has_tags)
            markdown_note_tag(d, &d->marks[d->n_marks - 1]);
        return end;
    }
    for (i = 0; i < 4; i++) {
        if (!protect_starts(text + at, size - at, odd[i][0]) || d->none[i] ||
            (i == 3 && (at + 2 >= size || !protect_is_letter((unsigned char)text[at + 2]))))
            continue;
        end = at + strlen(odd[i][0]) - (i == 0 ? 2 : 0); /* the comment may be "<!-->" */
        while (end < size && !protect_starts(text + end, size - end, odd[i][1])) end++;
        if (end < size) {
            end += strlen(odd[i][1]);
            (void)markdown_add(d, MARKUP_BLOCK, '<', at, end);
            return end;
        }
        d->none[i] = 1;
    }
    return at + 1;
}

/* Adds a footnote's label, such as "[^note]", that is not a link. Returns the position behind it,
   or 0. */
static size_t markdown_add_footnote(markdown_parser *d, size_t at) {
    const char *text = d->flat.data;
    size_t size = d->flat.size, i = at + 1;
    if (at + 2 >= size || text[at + 1] != '^') return 0;
    while (i < size && i - at < 100 && text[i] != ']' && (unsigned char)text[i] > ' ') i++;
    if (i <= at + 2 || i >= size || text[i] != ']' || (i + 1 < size && text[i + 1] == '('))
        return 0;
    (void)markdown_add(d, MARKUP_COPY, '`', at, i + 1);
    return i + 1;
}

/* Notes an open bracket. */
static void markdown_open_bracket(markdown_parser *d, size_t at) {
    void *grown = d->brackets;
    markdown_bracket *one;
    if (!markup_reserve(d->m, &grown, &d->room_brackets, d->n_brackets + 1, sizeof *d->brackets))
        return;
    d->brackets = (markdown_bracket *)grown;
    one = &d->brackets[d->n_brackets++];
    one->at = (markup_at)at, one->run = (markup_at)d->n_runs, one->mark = (markup_at)d->n_marks;
    one->is_image = d->flat.data[at] == '!', one->is_off = 0;
}

/* Reads what is at a position of the flat text. Returns the position behind it. */
static size_t markdown_inline(markdown_parser *d, size_t at, int has_tags) {
    const char *text = d->flat.data;
    size_t size = d->flat.size, end = at + 1, i;
    i = protect_in("$\\[^~:#@+", (unsigned char)text[at]) ? markdown_extra(d, at) : 0;
    if (i) {
        (void)markdown_add(d, MARKUP_COPY, '`', at, at + i);
        return at + i;
    }
    switch (text[at]) {
    case '\\':
        if (end < size && text[end] == '\n') (void)markdown_add(d, MARKUP_BLOCK, '\n', at, ++end);
        else if (end < size && markdown_is_mark(text[end])) end++;
        return end;
    case '\r': (void)markdown_add(d, MARKUP_BLOCK, '\n', at, end); return end;
    case '`':
        while (end < size && text[end] == '`') end++;
        i = markdown_code(d, at, end - at);
        if (i) (void)markdown_add(d, MARKUP_COPY, '`', at, end = i);
        return end;
    case '<': return markdown_add_angle(d, at, has_tags);
    case '*':
    case '_':
    case '=':
    case '+':
    case '~':
        end = markdown_add_run(d, at);
        markdown_settle(d);
        return end;
    case '!':
        if (end >= size || text[end] != '[') return end;
        markdown_open_bracket(d, at);
        return end + 1;
    case '[':
        i = markdown_add_footnote(d, at);
        if (i) return i;
        markdown_open_bracket(d, at);
        return end;
    case ']':
        end = markdown_close(d, at);
        markdown_settle(d);
        return end;
    default:
        i = markdown_bare(d, at);
        if (i) (void)markdown_add(d, MARKUP_COPY, '`', at, end = at + i);
        return end;
    }
}

/* Finds the next marks of the flat text, and sorts them by position: some hundred, and more until
   no element, bracket or HTML tag is open. All of them would take much memory. Returns 0 at the
   end. */
static int markdown_inlines(markdown_parser *d, int has_tags) {
    size_t size = d->flat.size, at = d->at;
    d->n_marks = 0;
    if (at >= size || d->m->broken) return 0;
    while (at < size && !d->m->broken) {
        if (d->n_marks >= MARKDOWN_FEW && !d->last_run && !d->n_brackets && !d->n_tags &&
            !d->crosses)
            break;
        at = markdown_inline(d, at, has_tags);
    }
    d->at = at;
    if (at >= size && !d->m->broken) {
        d->n_brackets = 0;
        markdown_settle(d);
        markdown_drop_runs(d, 1);
    }
    if (!d->m->broken && d->n_marks)
        qsort(d->marks, d->n_marks, sizeof *d->marks, markdown_by_place);
    return 1;
}

/* ---- items ----------------------------------------------------------------------------------- */

/* Returns whether a tag among words may be in a sentence. */
static int markdown_is_inline(const markup_tag *tag) {
    return !characters_list_has(markup_blocks, tag->name, tag->n);
}

/* Pairs the HTML tags among the marks: sets their kind to OPEN or CLOSE. An element that is copied
   becomes one mark. */
static void markdown_match(markdown_parser *d) {
    size_t i, k, n = 0, to = 0;
    void *grown = d->open;
    if (!markup_reserve(d->m, &grown, &d->room_open, d->n_marks + 1, sizeof *d->open)) return;
    d->open = (size_t *)grown;
    for (i = 0; i < d->n_marks; i++) {
        markdown_mark *mark = &d->marks[to], *other;
        markup_tag tag, open;
        *mark = d->marks[i];
        to++;
        if (mark->c != '<') {
            if (mark->kind == MARKUP_OPEN) d->open[n++] = to - 1;
            if (mark->kind == MARKUP_CLOSE) { /* tags that the element crosses get no partner */
                while (n && d->marks[d->open[n - 1]].pair != mark->pair) n--;
                n -= n > 0;
            }
            continue;
        }
        if (mark->kind != MARKUP_POINT) continue;
        markdown_read_tag(d, mark, &tag);
        if (!tag.is_open && !tag.is_close && markdown_is_inline(&tag)) continue;
        mark->kind = MARKUP_BLOCK; /* unless a partner is found below */
        if (tag.is_open) d->open[n++] = to - 1;
        if (!tag.is_close) continue;
        for (k = n; k > 0 && n - k < MARKUP_DEEP && d->marks[d->open[k - 1]].c == '<'; k--) {
            other = &d->marks[d->open[k - 1]];
            markdown_read_tag(d, other, &open);
            if (strcmp(open.name, tag.name) != 0) continue;
            n = k - 1;
            for (k = (size_t)(other - d->marks); open.copied && k < to; k++)
                open.copied = d->marks[k].c != '\n'; /* a copy cannot contain a hard break */
            if (open.copied) {
                other->kind = markdown_is_inline(&tag) ||
                                      characters_list_has(markup_copied, tag.name, tag.n)
                                  ? MARKUP_COPY
                                  : MARKUP_BLOCK;
                other->end = mark->end, to = (size_t)(other - d->marks) + 1;
            } else if (markdown_is_inline(&tag)) {
                other->kind = MARKUP_OPEN, mark->kind = MARKUP_CLOSE;
                other->pair = mark->pair = ++d->n_pairs;
            }
            break;
        }
    }
    d->n_marks = to;
}

/* Appends a part of the flat text to the plain text. Escapes become letters, breaks become
   spaces. */
static void markdown_add_text(markdown_parser *d, size_t at, size_t end) {
    markup_document *m = d->m;
    const char *text = d->flat.data;
    size_t from = at, place;
    for (; at <= end; at++) {
        int is_break = at < end && text[at] == '\n';
        int is_escape = at + 1 < end && text[at] == '\\' && markdown_is_mark(text[at + 1]);
        if (at < end && !is_break && !is_escape) continue;
        if (at > from)
            place = markdown_place(d, from),
            markup_add_text(m, place, markdown_place(d, at - 1) + 1);
        if (is_break || is_escape) place = markdown_place(d, at);
        else continue;
        if (is_break && !markup_after_space(m)) markup_plain(m, " ", 1, place, place + 1);
        else if (is_break && m->n_items && m->items[m->n_items - 1].at == m->plain.size &&
                 m->items[m->n_items - 1].end == place)
            m->items[m->n_items - 1].n_blank = 1;
        if (is_escape) markup_plain(m, text + at + 1, 1, place, place + 2), at++;
        from = at + 1;
    }
}

/* Adds the items of the marks that were read last, and the plain text from byte `at` on. Returns
   the byte up to which the flat text is added. */
static size_t markdown_add_items(markdown_parser *d, size_t at) {
    markup_document *m = d->m;
    size_t i, n = 0;
    markdown_match(d);
    for (i = 0; i < d->n_marks && !m->broken; i++) {
        markdown_mark *mark = &d->marks[i], *other = NULL;
        markup_item *item;
        size_t begin = markdown_place(d, mark->begin), end = markdown_end(d, mark->end);
        if (mark->kind == MARKUP_COPY && at < mark->begin && markup_extend_copy(m, begin, end)) {
            at = mark->end;
            continue;
        }
        markdown_add_text(d, at, mark->begin);
        at = mark->end;
        if (mark->kind == MARKUP_CLOSE) {
            while (n && d->marks[d->open[n - 1]].pair != mark->pair) n--;
            if (!n) continue;
            other = &d->marks[d->open[--n]];
            if (markup_join(m, other->item, end)) continue;
        }
        if (mark->kind == MARKUP_COPY && mark->c == '<') {
            markup_tag tag;
            if (markup_tag_at(m, begin, &tag) && (tag.copied & 8))
                markup_leave_foreign(m, begin, end);
        }
        item = markup_add(m, (markup_kind)mark->kind, begin, end);
        if (!item) break;
        item->c = mark->c;
        if (mark->n_label)
            markup_add_label(m, markdown_place(d, mark->label),
                             markdown_end(d, mark->label + mark->n_label));
        if (mark->kind == MARKUP_OPEN) mark->item = (markup_at)(m->n_items - 1), d->open[n++] = i;
        if (other)
            item->match = other->item, m->items[other->item].match = (markup_at)(m->n_items - 1);
    }
    return at;
}

/* Finds the texts for readers in a mark of the flat text: the alternative text of an image, and the
   title of an image or a link. begins and ends get them, and quotes what ends each. Returns how
   many there are. Texts with marks are left out. */
static size_t markdown_values(const char *text, size_t size, const markdown_mark *mark,
                              size_t *begins, size_t *ends, char *quotes) {
    size_t n = 0, at = mark->begin, i, k;
    if (mark->kind == MARKUP_COPY && mark->c == '!') {
        for (i = at += 2; i < mark->end && !protect_in("[]\\`<&*_$\n\r", (unsigned char)text[i]);)
            i++;
        if (i + 2 >= mark->end || text[i] != ']' || !protect_in("([", (unsigned char)text[i + 1]) ||
            text[i + 2] == ']')
            return 0;
        begins[n] = at, ends[n] = i, quotes[n] = ']', n += i > at;
        at = i;
    } else if (mark->kind != MARKUP_CLOSE || mark->c != '[') return 0;
    if (at + 1 >= mark->end || text[at + 1] != '(') return n;
    i = markdown_address(text, size, markdown_skip_space(text, size, at + 2));
    i = i ? markdown_skip_space(text, size, i) : mark->end;
    k = i < mark->end ? markdown_title(text, size, i) : 0;
    if (k < i + 3 || k > mark->end) return n;
    begins[n] = i + 1, ends[n] = k - 1, quotes[n] = text[k - 1];
    for (i++; i + 1 < k && !protect_in("\\`<&\n\r", (unsigned char)text[i]);) i++;
    return n + (i + 1 == k);
}

/* Adds the texts for readers in the marks of a block, and in the attributes of its tags, each as a
   block of the plain text before that of the block. */
static void markdown_add_values(markdown_parser *d, const markup_block *block) {
    markup_document *m = d->m;
    size_t begins[2], ends[2], i, k, n;
    char quotes[2];
    int any = 0;
    for (i = 0; i + 1 < d->flat.size; i++) /* has the block such marks at all? */
        any |= (d->flat.data[i] == ']' && d->flat.data[i + 1] == '(') || d->flat.data[i] == '<' ||
               (d->flat.data[i] == '!' && d->flat.data[i + 1] == '[');
    if (!any) return;
    for (any = 0, markdown_start(d); markdown_inlines(d, 1);)
        for (i = 0; i < d->n_marks && !m->broken; i++) {
            const markdown_mark *mark = &d->marks[i];
            size_t place = markdown_place(d, mark->begin);
            if (mark->c == '<' && mark->kind == MARKUP_POINT &&
                markdown_end(d, mark->end) - place == mark->end - mark->begin) {
                markup_tag tag;
                markup_element e;
                if (!markup_tag_at(m, place, &tag)) continue;
                markup_keep_tag(&tag, 0, &e);
                any |= markup_add_values(m, &e);
                continue;
            }
            n = markdown_values(d->flat.data, d->flat.size, mark, begins, ends, quotes);
            for (k = 0; k < n; k++) {
                const size_t begin = markdown_place(d, begins[k]);
                if (markdown_place(d, ends[k]) - begin != ends[k] - begins[k]) continue;
                any |= markup_add_value(m, begin, begin + (ends[k] - begins[k]), quotes[k]);
            }
        }
    if (any && !m->broken) (void)markup_add(m, MARKUP_BLOCK, block->begin, block->begin);
}

/* Returns a hash of a mark as markdown_shape needs it, without the texts that are translated. */
static uint64_t markdown_mark_hash(const markdown_parser *d, const markdown_mark *mark) {
    const char *text = d->flat.data;
    size_t begins[2], ends[2], n, i, from = mark->begin, end = mark->end;
    char quotes[2];
    uint64_t hash = 0;
    n = markdown_values(text, d->flat.size, mark, begins, ends, quotes);
    for (i = 0; i < n; i++) {
        hash = (hash ^ markdown_hash(text + from, begins[i] - from)) * 0x100000001B3u;
        from = ends[i];
    }
    if (mark->c == '<' && mark->kind != MARKUP_COPY) /* attributes may be translated */
        for (end = from; end < mark->end && !markup_is_space(text[end]);) end++;
    return n ? (hash ^ markdown_hash(text + from, end - from)) * 0x100000001B3u
             : markdown_hash(text + from, end - from);
}

/* Reads a block: adds its items and its plain text. */
static void markdown_scan_text(markdown_parser *d, const markup_block *block) {
    size_t at = 0;
    markdown_flatten(d, d->m->text, block->begin, block->end, 1);
    if (!d->m->broken) markdown_add_values(d, block);
    if (d->m->broken) return;
    for (markdown_start(d); markdown_inlines(d, 1);) at = markdown_add_items(d, at);
    if (!d->m->broken) markdown_add_text(d, at, d->flat.size);
}

/* ---- text as Markdown ------------------------------------------------------------------------ */

/* Appends bytes at to end - 1 of a translation, of which bytes from to to - 1 are written, and
   escapes what Markdown could read as syntax. Writes "\n" for a space where a line may end. */
static void markdown_encode(const markup_document *m, const char *text, size_t at, size_t end,
                            size_t from, size_t to, text_buffer *out) {
    const markup_block *b = &m->blocks[m->block];
    uint32_t c;
    size_t i, k;
    for (i = at; i < end; i++) {
        char before = i > from ? text[i - 1] : 0, after = i + 1 < to ? text[i + 1] : 0;
        unsigned char next = (unsigned char)after;
        int escaped = 0;
        switch (text[i]) {
        case '`': escaped = 1; break;
        case '\\': escaped = !after || markdown_is_mark(after); break;
        case '*': escaped = before != ' ' || after != ' '; break;
        case '_':
            escaped = (before != ' ' || after != ' ') &&
                      !((protect_is_word((unsigned char)before) || (unsigned char)before >= 0x80) &&
                        (protect_is_word(next) || next >= 0x80));
            break;
        case '~': escaped = before != ' '; break;
        case '=':
        case '+': escaped = after == text[i]; break;
        case '$': escaped = (unsigned char)after > ' '; break;
        case '[': escaped = m->has_brackets || after == '^'; break;
        case ']':
            escaped = m->has_brackets || b->quote == ']' || !after || protect_in("([:", next);
            break;
        case '"': /* of a title in quotes */
            if (b->quote != '"') break;
            text_buffer_append(out, "&quot;", 6);
            continue;
        case '<': escaped = !after || protect_is_letter(next) || protect_in("/!?", next); break;
        case '&': escaped = markup_entity_at(text + i, to - i, &c) != 0; break;
        case '|': escaped = b->is_cell; break;
        case '{': escaped = protect_placeholder(text, to, i) > 0; break;
        case '#': /* Markdown drops #s at the end of a heading */
            for (k = i; k < to && protect_in("# ", (unsigned char)text[k]);) k++;
            escaped = k == to && (!out->size || markup_is_space(out->data[out->size - 1]));
            for (k = b->begin; k > b->line && protect_in(" \t", (unsigned char)m->text[k - 1]);)
                k--;
            escaped &= k > b->line && m->text[k - 1] == '#';
            break;
        default: break;
        }
        if (escaped) text_buffer_append(out, "\\", 1);
        if (text[i] == ' ' && before == '\\') text_buffer_append(out, " ", 1); /* no hard break */
        else text_buffer_append(out, text[i] == ' ' || text[i] == '\r' ? "\n" : text + i, 1);
    }
}

/* Returns whether a line is one that documentation generators read and that stays as it is:
   :::note, {{< x >}}, [TOC], \\newpage, (label)=, --8<-- "x", *[HTML]: x, /// x, <<< x. */
static int markdown_is_kept(const char *text, size_t size) {
    size_t n;
    char c = *text;
    while (size && markup_is_space(text[size - 1])) size--;
    if (size < 2) return 0;
    if (protect_starts(text, size, ":::") || protect_starts(text, size, "///") ||
        protect_starts(text, size, "--8<--") || protect_starts(text, size, "<<< ") ||
        protect_starts(text, size, "@import ") || protect_starts(text, size, "@include ") ||
        protect_starts(text, size, "%% "))
        return 1;
    if (protect_starts(text, size, "*[")) {
        n = markdown_label(text, size, 1);
        return n && n < size && text[n] == ':';
    }
    if (c == '{') { /* not a value, {name} or {{ name }}, which is text of a paragraph */
        for (n = 1; n < size && protect_in("{ ", (unsigned char)text[n]);) n++;
        return !protect_is_word((unsigned char)text[n]) && text[n] != '_' &&
               protect_placeholder(text, size, 0) == size;
    }
    if (c == '(') return text[size - 1] == '=' && text[size - 2] == ')' && !memchr(text, ' ', size);
    if (c == '[') {
        n = protect_starts(text, size, "[[") ? protect_until(text, size, "]]") : 0;
        return n == size ||
               (size == 5 && (memcmp(text, "[TOC]", 5) == 0 || memcmp(text, "[toc]", 5) == 0));
    }
    if (c == '\\') {
        n = 1 + protect_name(text + 1, size - 1);
        return n > 3 && (n == size || (text[n] == '{' && text[size - 1] == '}'));
    }
    return 0;
}

/* Returns whether a directive of MyST, ```{note}, contains text, and not code. *is_titled says
   whether the text in its line is text, too. */
static int markdown_is_directive(const char *text, size_t size, int *is_titled) {
    static const char titled[] =
        " admonition attention card caution danger definition dropdown epigraph error example "
        "exercise grid-item-card hint important lemma margin note proof remark seealso sidebar "
        "solution tab-item theorem tip todo topic warning ";
    static const char others[] = " deprecated figure grid tab-set versionadded versionchanged "
                                 "versionremoved ";
    size_t n = 1;
    *is_titled = 0;
    if (!size || *text != '{') return 0;
    while (n < size && text[n] != '}' && (unsigned char)text[n] > ' ') n++;
    if (n == size || text[n] != '}') return 0;
    *is_titled = characters_list_has(titled, text + 1, n - 1);
    return *is_titled || characters_list_has(others, text + 1, n - 1);
}

/* Finds the title in the line of an admonition or a tab: !!! note "x", === "x", :::note[x], ::: tip
   x, /// note | x, ```{note} x. Returns its first byte; 0 if there is none. *end is its end, and
   *quote what ends it, or 0. */
static size_t markdown_title_at(const char *text, size_t size, size_t *end, char *quote) {
    size_t at = 0, n;
    const char *found;
    int is_titled = 1;
    *quote = 0;
    while (size && markup_is_space(text[size - 1])) size--;
    *end = size;
    if (protect_in("!?=", (unsigned char)*text)) {
        found = (const char *)memchr(text, '"', size);
        if (!found || text[size - 1] != '"') return 0;
        at = (size_t)(found - text) + 1, *quote = '"', *end = size - 1;
        return at < *end ? at : 0;
    }
    while (at < size && text[at] == *text) at++;
    while (at < size && text[at] == ' ') at++;
    if (at < size && text[at] == '{') {
        if (!markdown_is_directive(text + at, size - at, &is_titled) || !is_titled) return 0;
        while (text[at] != '}') at++;
        at++;
    } else {
        n = at;
        while (at < size && (protect_is_word((unsigned char)text[at]) || text[at] == '-')) at++;
        if (at == n) return 0;
        if (at < size && text[at] == '[') {
            n = markdown_label(text, size, at);
            *quote = ']', *end = n - 1;
            return n > at + 2 ? at + 1 : 0;
        }
    }
    if (at < size && text[at] != ' ') return 0;
    while (at < size && text[at] == ' ') at++;
    if (*text == '/') {
        if (at >= size || text[at] != '|') return 0;
        for (at++; at < size && text[at] == ' ';) at++;
    }
    return at < size && !protect_in("{:|", (unsigned char)text[at]) && text[size - 1] != ':' ? at
                                                                                             : 0;
}

/* Returns whether a line begins a block that is indented by four columns: !!! note, ??? note, ===
   "Tab". */
static int markdown_is_marker(const char *text, size_t size) {
    if (size < 5 || text[3] == text[0]) return 0;
    if (protect_starts(text, size, "=== "))
        return text[4] == '"' || text[4] == '!' || text[4] == '+';
    if (!protect_starts(text, size, "!!!") && !protect_starts(text, size, "???")) return 0;
    text += 3, size -= 3;
    if (*text == '+') text++, size--;
    while (size && *text == ' ') text++, size--;
    return size && (protect_is_letter((unsigned char)*text) || *text == '"');
}

/* What ends the code between two tags of Hugo ({{< highlight >}}) or Liquid ({% raw %}). */
static const char *const markdown_code_tags[] = {
    "/highlight", "/mermaid", "/math", "/katex", "/code", "endhighlight", "endraw", "endmermaid"};

/* Returns whether the lines of markdown_kept_lines end in a line. */
static int markdown_kept_ends(char kind, const char *text, size_t size) {
    const char *what = kind == '$'   ? "$$"
                       : kind == ']' ? "\\]"
                       : kind < ' '  ? markdown_code_tags[kind - 1]
                                     : "\\end{";
    size_t i, n = strlen(what);
    if (kind == ' ') return markdown_skip_space(text, size, 0) == size;
    for (i = 0; i + n <= size; i++)
        if (memcmp(text + i, what, n) == 0) return 1;
    return 0;
}

/* Returns what ends the lines that a line begins and that stay as they are: '$' for a formula, ']'
   and 'e' for those of LaTeX, ' ' for the imports of MDX, which a blank line ends; 0 if there are
   none. *is_done says whether they end in the line. */
static char markdown_kept_lines(const char *text, size_t size, int in_text, int *is_done) {
    static const char *const exports[] = {"export const ", "export default ", "export function ",
                                          "export let ",   "export {",        "export * "};
    size_t i, n;
    *is_done = 0;
    if (protect_starts(text, size, "$$")) {
        for (i = 2; i + 1 < size; i++) *is_done |= text[i] == '$' && text[i + 1] == '$';
        for (i = 2; *is_done && i < size && !(text[size - 1] == '$' || text[size - 1] == '}'); i++)
            return 0;
        return '$';
    }
    if (size == 2 && memcmp(text, "\\[", 2) == 0) return ']';
    if (protect_starts(text, size, "{{") || protect_starts(text, size, "{%")) {
        for (i = 2; i < size && protect_in("<%- ", (unsigned char)text[i]);) i++;
        for (n = 0; n < sizeof markdown_code_tags / sizeof *markdown_code_tags; n++) {
            const char *close = markdown_code_tags[n], *name = close + (*close == '/' ? 1 : 3);
            size_t k = strlen(name);
            if ((*close == '/') != (text[1] == '{') || !protect_starts(text + i, size - i, name) ||
                (i + k < size && protect_is_word((unsigned char)text[i + k])))
                continue;
            *is_done = markdown_kept_ends((char)(1 + n), text, size);
            return (char)(1 + n);
        }
    }
    if (protect_starts(text, size, "\\begin{")) {
        for (i = 6; i + 5 < size; i++) *is_done |= memcmp(text + i, "\\end{", 5) == 0;
        return 'e';
    }
    if (in_text) return 0;
    if (protect_starts(text, size, "import "))
        for (i = 6; i < size; i++)
            if (text[i] == '"' || text[i] == '\'')
                return (i == 7 || (i > 6 && memcmp(text + i - 6, " from ", 6) == 0)) &&
                               (text[size - 1] == text[i] || text[size - 1] == ';')
                           ? ' '
                           : 0;
    for (i = 0; i < sizeof exports / sizeof *exports; i++)
        if (protect_starts(text, size, exports[i])) return ' ';
    return 0;
}

/* Returns 0 if a line that begins with this text is plain text. If it would begin a block, returns
   1 plus the position where a backslash prevents that. */
static size_t markdown_hazard(const char *text, size_t size) {
    size_t n = 0, i = 1;
    char c = size ? text[0] : 0, next = size > 1 ? text[1] : ' ';
    int ends = markup_is_space(next);
    if (c == '*' || c == '_') { /* "** **" in a line of its own would be a thematic break */
        while (n < size && text[n] == c) n++;
        ends = n == size || markup_is_space(text[n]), n = 0;
    }
    while (n < size && n < 10 && protect_is_digit((unsigned char)text[n])) n++;
    if (n && n < 10 && n < size && (text[n] == '.' || text[n] == ')') &&
        (n + 1 == size || markup_is_space(text[n + 1])))
        return n + 1;
    while (i < size && i < 7 && text[i] == c) i++;
    if (c == '#') return i < 7 && (i == size || markup_is_space(text[i]));
    if (c == '=') return 1;
    if (c == '-') return ends || next == '-' || next == '|' || next == ':';
    if (c == ':') return next == ':' || next == '-' || next == '|' || markup_is_space(next);
    if (c == '~') return i > 2;
    if (c == '!' || c == '?' || c == '/') return i > 2 && markdown_is_marker(text, size);
    return c == '>' || c == '|' || (protect_in("+*_", (unsigned char)c) && ends);
}

/* Returns a hash of how the flat text is read. Texts have the same hash if they have the same marks
   inside the same elements; the order does not matter. *stars gets the bytes of * in its marks,
   and *full the number of links [text][label]. */
static uint64_t markdown_shape(markdown_parser *d, size_t *stars, size_t *full) {
    uint64_t hash, sum = 0;
    size_t i, n = 0;
    *stars = *full = 0;
    for (markdown_start(d); markdown_inlines(d, 0);) {
        void *grown = d->open;
        if (!markup_reserve(d->m, &grown, &d->room_open, n + d->n_marks, sizeof *d->open)) return 0;
        d->open = (size_t *)grown;
        for (i = 0; i < d->n_marks; i++) {
            const markdown_mark *mark = &d->marks[i];
            const size_t size = mark->end - mark->begin;
            if (mark->kind != MARKUP_COPY && mark->c == '*') *stars += size;
            *full += mark->n_label && mark->label > mark->begin;
            hash = mark->c == '\n' ? 1
                   : mark->n_label ? markdown_hash(d->flat.data + mark->label, mark->n_label)
                   : mark->c == '*' || mark->c == '_' ? size
                                                      : markdown_mark_hash(d, mark);
            hash = (hash ^ (uint64_t)mark->kind << 8) * 0x100000001B3u;
            if (n) hash = (hash ^ d->open[n - 1]) * 0x9E3779B97F4A7C15u;
            if (mark->kind == MARKUP_OPEN) d->open[n++] = (size_t)(hash >> 8);
            n -= mark->kind == MARKUP_CLOSE && n > 0;
            sum += hash ^ hash >> 29;
        }
    }
    return sum;
}

/* Returns whether m->woven from byte `from` on has the same marks as bytes begin to end of the
   document, of which item `first` is the first one. markdown_shape takes * and _ as the same,
   because markdown_choose may write an element with either. So the * are also counted: the new text
   must be read with as many as the source, plus those of elements that were written with * in place
   of _, minus those that were written with _. Otherwise a literal * of a new word was read as a
   mark. `full` is how many links [text][label] were written, and the new text must be read with as
   many. Otherwise a literal ] of a new word ended the text of a link, and its label was read as a
   link [label]. */
static int markdown_is_same(markup_document *m, size_t first, size_t begin, size_t end, size_t from,
                            size_t full) {
    uint64_t shape;
    size_t i, stars, stars_now, full_now;
    markdown_flatten(m->md, m->text, begin, end, 1);
    shape = markdown_shape(m->md, &stars, &full_now);
    for (i = first; i < m->n_items && m->items[i].begin < end; i++) {
        const markup_item *item = &m->items[i];
        if (item->kind == MARKUP_COPY) continue;
        if (item->c == '*') stars += item->end - item->begin;
        if (m->text[item->begin] == '*') stars -= item->end - item->begin;
    }
    markdown_flatten(m->md, m->woven.data, from, m->woven.size, 0);
    return shape == markdown_shape(m->md, &stars_now, &full_now) && stars == stars_now &&
           full == full_now;
}

/* Chooses the delimiter of an element that is about to be written. It must differ from a delimiter
   beside it, and CommonMark must accept it beside the new words. Sets is_line of the closing item
   if a space is needed after it. */
static void markdown_choose(markup_document *m, const markup_translation *t,
                            const markup_node *node, text_buffer *out) {
    markup_item *item = &m->items[node->item], *close = &m->items[node->close];
    size_t end = m->words[node->high > node->low ? node->high - 1 : node->high].end;
    uint32_t left = protect_before(out->data ? out->data : "", out->size), first, right = ' ', last;
    int letter[2], n = (int)(item->end - item->begin);
    close->is_line = 0;
    if (node->high == node->low) return;
    (void)tfm_character_next(t->text + m->words[node->low].begin,
                             t->size - m->words[node->low].begin, &first);
    last = protect_before(t->text, end);
    if (end < t->size) (void)tfm_character_next(t->text + end, t->size - end, &right);
    letter[0] = !character_is_space(left) && !markdown_is_punctuation(left);
    letter[1] = !character_is_space(right) && !markdown_is_punctuation(right);
    if (item->c == '[') {
        if (left == '!' && (out->size < 2 || out->data[out->size - 2] != '\\'))
            out->data[out->size - 1] = '\\', text_buffer_append(out, "!", 1);
        return;
    }
    if (!protect_in("*_~", (unsigned char)item->c)) return;
    if (item->c == '_' && (letter[0] || letter[1])) item->c = '*';
    if (left == (uint32_t)item->c && !(out->size > 1 && out->data[out->size - 2] == '\\') &&
        !(item->c == '*' && n == 2 && item > m->items && item[-1].end == item->begin &&
          item[-1].kind == MARKUP_OPEN && item[-1].end - item[-1].begin == 1) &&
        !(m->spells == 2 && item->begin && m->text[item->begin - 1] == m->text[item->begin] &&
          m->text[item->begin] == (char)item->c)) /* ***a* b** is written as the source has it */
        item->c = item->c == '_' ? '*' : letter[1] ? item->c : '_';
    close->c = item->c;
    if (letter[0] && markdown_is_punctuation(first)) text_buffer_append(out, "\n", 1);
    close->is_line = letter[1] && markdown_is_punctuation(last);
}

/* ---- blocks ---------------------------------------------------------------------------------- */

typedef enum {
    MARKDOWN_NOTHING,
    MARKDOWN_TEXT,
    MARKDOWN_FENCE,
    MARKDOWN_HTML,
    MARKDOWN_INDENTED,
    MARKDOWN_TABLE
} markdown_leaf;

/* A line, and the position and column up to which it is read. */
typedef struct markdown_line {
    size_t begin, at, end, column;
} markdown_line;

typedef struct markdown_blocks {
    markdown_parser *d;
    size_t widths[MARKUP_DEEP]; /* open containers: 0 for a quote, else columns of a list's item */
    size_t n;                   /* number of open containers */
    markdown_leaf leaf;
    size_t notes[MARKUP_DEEP], inside[MARKUP_DEEP]; /* open directives with text: the lengths of
                                                       their fences, and containers around them */
    size_t n_notes;
    int head;          /* 1: a directive's options may follow; 2: inside those between "---" */
    char fence;        /* the code fence's character */
    size_t n_fence;    /* the code fence's length */
    int html;          /* CommonMark's kind of HTML block, 1 to 7; 8: one that is copied */
    size_t begin, end; /* the text or HTML so far */
} markdown_blocks;

static void markdown_add_block(markdown_parser *d, markup_form form, size_t row, size_t begin,
                               size_t end, int is_folded, int is_cell) {
    markup_block *b = begin < end ? markup_add_block(d->m, form, row, begin, end) : NULL;
    if (b) b->is_folded = is_folded != 0, b->is_cell = is_cell != 0;
}

/* Ends the open paragraph or HTML block and adds its blocks. With is_heading the paragraph is the
   text of a heading. */
static void markdown_flush(markdown_blocks *b, int is_heading) {
    markdown_parser *d = b->d;
    markdown_leaf leaf = b->leaf;
    size_t at = 0, end, n_label, begin = b->begin, stop;
    b->leaf = MARKDOWN_NOTHING;
    if (leaf == MARKDOWN_HTML) {
        for (at = 0; at < b->n && b->widths[at];) at++;
        if (at == b->n && b->html < 8)
            markdown_add_block(d, MARKUP_HTML, b->begin, b->begin, b->end, 0, 0);
        else if (at < b->n && b->html == 6 && !d->m->n_skipped++) d->m->skipped = b->begin;
    }
    if (leaf != MARKDOWN_TEXT || b->begin >= b->end) return;
    if (d->m->text[b->begin] == '[') {
        markdown_flatten(d, d->m->text, b->begin, b->end, 1);
        if (d->m->broken) return;
        while ((end = d->flat.data[at] == '[' &&
                              !protect_starts(d->flat.data + at, d->flat.size - at, "[^")
                          ? markdown_definition(d->flat.data, d->flat.size, at, &n_label)
                          : 0) != 0) {
            uint64_t hash = markdown_hash(d->flat.data + at + 1, n_label);
            if (!hash) break;
            text_buffer_append(&d->labels, (const char *)&hash, sizeof hash);
            at = end;
            if (at >= d->flat.size) return;
        }
        begin = markdown_place(d, at);
        if (d->flat.data[at] == '[' && at + 1 < d->flat.size) {
            stop = markdown_label(d->flat.data, d->flat.size, at);
            if (d->flat.data[at + 1] == '^' && stop && stop < d->flat.size &&
                d->flat.data[stop] == ':')
                at = markdown_skip_space(d->flat.data, d->flat.size, stop + 1); /* a footnote */
            else if (protect_in(" xX", (unsigned char)d->flat.data[at + 1]) && stop == at + 3 &&
                     stop < d->flat.size && d->flat.data[stop] == ' ')
                at = stop + 1; /* a check box */
            else if (d->flat.data[at + 1] == '!' && stop && stop < d->flat.size &&
                     markup_is_space(d->flat.data[stop]))
                at = stop + 1; /* an alert */
            if (at >= d->flat.size) return;
            begin = markdown_place(d, at);
        }
    }
    n_label = d->m->n_blocks;
    markdown_add_block(d, MARKUP_MARKDOWN, markup_line(d->m, begin), begin, b->end, !is_heading, 0);
    if (d->m->n_blocks > n_label) d->m->blocks[n_label].is_line = 1;
}

/* Returns the columns of whitespace at the line's position; *at is the position after it. */
static size_t markdown_indent(const markup_document *m, const markdown_line *l, size_t *at) {
    size_t column = l->column;
    for (*at = l->at; *at < l->end && (m->text[*at] == ' ' || m->text[*at] == '\t'); ++*at)
        column = m->text[*at] == '\t' ? (column / 4 + 1) * 4 : column + 1;
    return column - l->column;
}

/* Skips columns of whitespace. A tab that is wider is skipped only in part. */
static void markdown_advance(const markup_document *m, markdown_line *l, size_t columns) {
    size_t to = l->column + columns;
    while (l->column < to && l->at < l->end) {
        size_t next = m->text[l->at] == '\t' ? (l->column / 4 + 1) * 4 : l->column + 1;
        if (next <= to) l->at++;
        l->column = next <= to ? next : to;
    }
}

/* Returns the kind of HTML block, 1 to 7 in CommonMark, that a line begins, or 0. */
static int markdown_html_kind(const char *text, size_t size, int in_text) {
    static const char blocks[] =
        " address article aside base basefont blockquote body caption center col colgroup dd"
        " details dialog dir div dl dt fieldset figcaption figure footer form frame frameset h1 h2"
        " h3 h4 h5 h6 head header hr html iframe legend li link main menu menuitem nav noframes ol"
        " optgroup option p param search section summary table tbody td tfoot th thead title tr"
        " track ul ";
    static const char raw[] = " pre script style textarea ";
    char name[16];
    size_t n = 0, at = 1, end;
    if (size < 2) return 0;
    if (protect_starts(text, size, "<!--")) return 2;
    if (protect_starts(text, size, "<?")) return 3;
    if (protect_starts(text, size, "<![CDATA[")) return 5;
    if (text[1] == '!') return size > 2 && protect_is_letter((unsigned char)text[2]) ? 4 : 0;
    at += text[1] == '/';
    while (at < size && n + 1 < sizeof name && protect_is_word((unsigned char)text[at]))
        name[n++] = (char)(text[at] >= 'A' && text[at] <= 'Z' ? text[at] + 32 : text[at]), at++;
    name[n] = 0;
    if (text[1] != '/' && (at == size || markup_is_space(text[at]) || text[at] == '>') &&
        characters_list_has(raw, name, n))
        return 1;
    if ((at == size || markup_is_space(text[at]) || text[at] == '>' ||
         (text[at] == '/' && at + 1 < size && text[at + 1] == '>')) &&
        characters_list_has(blocks, name, n))
        return 6;
    if (in_text || characters_list_has(raw, name, n)) return 0;
    end = markdown_tag(text, size, 0);
    return end && markdown_skip_space(text, size, end) == size ? 7 : 0;
}

/* Returns whether an HTML block ends in a line. */
static int markdown_html_ends(const markup_document *m, int kind, size_t at, size_t end) {
    static const char *const ends[] = {"", "", "-->", "?>", ">", "]]>"};
    static const char *const raw[] = {"</script>", "</pre>", "</style>", "</textarea>"};
    markup_document part = *m;
    size_t i;
    part.size = end;
    if (kind >= 2 && kind <= 5) return markup_find(&part, at, ends[kind]) < end;
    for (i = 0; kind == 1 && i < 4; i++)
        if (markup_find(&part, at, raw[i]) < end) return 1;
    return 0;
}

/* Returns whether a line is a thematic break: three or more of one character, with any spaces. */
static int markdown_is_rule(const char *text, size_t size) {
    size_t i, n = 0;
    for (i = 0; i < size; i++) {
        if (text[i] == text[0]) n++;
        else if (!markup_is_space(text[i])) return 0;
    }
    return n >= 3 && protect_in("*-_", (unsigned char)text[0]);
}

/* Returns the bytes of the list marker that begins a text, or 0. */
static size_t markdown_marker(const char *text, size_t size) {
    size_t n = 0;
    while (n < size && n < 10 && protect_is_digit((unsigned char)text[n])) n++;
    if (n == 10 || n == size) return 0;
    if (n ? text[n] != '.' && text[n] != ')' : !protect_in("-+*:", (unsigned char)text[n]))
        return 0;
    if (text[n] == ':' && n + 1 == size) return 0; /* of a definition */
    return n + 1 == size || markup_is_space(text[n + 1]) ? n + 1 : 0;
}

/* Returns the number of cells in a table's row, and adds them as blocks if d is not NULL. */
static size_t markdown_row(markdown_parser *d, const char *text, size_t row, size_t at,
                           size_t end) {
    size_t n = 0, from, to, next, first = at;
    while (end > at && markup_is_space(text[end - 1])) end--;
    if (at < end && text[at] == '|') at++;
    for (; at < end; at = next + 1, n++) {
        for (next = at; next < end && text[next] != '|'; next++) next += text[next] == '\\';
        if (next > end) next = end;
        for (from = at, to = next; from < to && markup_is_space(text[from]);) from++;
        while (to > from && markup_is_space(text[to - 1])) to--;
        if (!d) continue;
        markdown_add_block(d, MARKUP_MARKDOWN, row, from, to, 0, 1);
        if (from == first && d->m->n_blocks) d->m->blocks[d->m->n_blocks - 1].is_line = from < to;
    }
    return n;
}

/* Returns whether a line is a table's delimiter row: | :--- | ---: |. */
static int markdown_is_delimiter(const char *text, size_t at, size_t end) {
    size_t i, dashes = 0, bars = 0;
    for (i = at; i < end; i++) {
        if (!protect_in(" \t|:-", (unsigned char)text[i])) return 0;
        dashes += text[i] == '-', bars += text[i] == '|' || text[i] == ':';
    }
    return dashes && bars;
}

/* Adds the title of an admonition, whose line has text from `at` to `end`. */
static void markdown_add_title(markdown_blocks *b, size_t row, size_t at, size_t end) {
    markup_document *m = b->d->m;
    char quote;
    size_t n = m->n_blocks, from = markdown_title_at(m->text + at, end - at, &end, &quote);
    if (!from) return;
    markdown_add_block(b->d, MARKUP_MARKDOWN, row, at + from, at + end, 0, 0);
    if (m->n_blocks > n) m->blocks[n].quote = (unsigned char)quote;
}

/* The functions markdown_begin_... look whether a block of their kind begins at `at` in a line,
   inside of `matched` containers. They return 0 if none does; else they begin it, and the line is
   done. */
static int markdown_begin_heading(markdown_blocks *b, const markdown_line *l, size_t at,
                                  size_t matched) {
    const char *text = b->d->m->text;
    size_t end = l->end, size = end - at, i = 0, n;
    while (i < size && text[at + i] == '#') i++;
    if (i == 0 || i > 6 || (i < size && !markup_is_space(text[at + i]))) return 0;
    markdown_flush(b, 0);
    b->n = matched;
    while (i < size && markup_is_space(text[at + i])) i++;
    while (end > at + i && markup_is_space(text[end - 1])) end--;
    for (n = end; n > at + i && text[n - 1] == '#'; n--) {
    }
    if (n < end && (n == at + i || markup_is_space(text[n - 1]))) end = n;
    while (end > at + i && markup_is_space(text[end - 1])) end--;
    markdown_add_block(b->d, MARKUP_MARKDOWN, l->begin, at + i, end, 0, 0);
    return 1;
}

/* Lines that stay as they are, such as formulas and directives */
static int markdown_begin_kept(markdown_blocks *b, const markdown_line *l, size_t at,
                               size_t matched, int in_text) {
    const char *text = b->d->m->text;
    size_t size = l->end - at;
    int is_done;
    char fence = markdown_kept_lines(text + at, size, in_text, &is_done);
    if (fence) {
        markdown_flush(b, 0);
        b->n = matched;
        if (!is_done) b->leaf = MARKDOWN_FENCE, b->fence = fence;
        return 1;
    }
    if (!markdown_is_kept(text + at, size)) return 0;
    markdown_flush(b, 0);
    b->n = matched, b->head = protect_starts(text + at, size, ":::{");
    if (protect_in(":/", (unsigned char)text[at])) markdown_add_title(b, l->begin, at, l->end);
    return 1;
}

static int markdown_begin_fence(markdown_blocks *b, const markdown_line *l, size_t at,
                                size_t matched) {
    const char *text = b->d->m->text;
    size_t size = l->end - at, i = 0;
    int is_done;
    while (i < size && text[at + i] == text[at]) i++;
    if (i < 3 ||
        (text[at] != '~' && (text[at] != '`' || memchr(text + at + i, '`', size - i) != NULL)))
        return 0;
    markdown_flush(b, 0);
    b->n = matched;
    while (b->n_notes && b->inside[b->n_notes - 1] > matched) b->n_notes--;
    if (b->n_notes && i >= b->notes[b->n_notes - 1] &&
        markdown_skip_space(text + at, size, i) == size)
        b->n_notes--; /* the directive's end */
    else if (b->n_notes < MARKUP_DEEP && markdown_is_directive(text + at + i, size - i, &is_done)) {
        b->notes[b->n_notes] = i, b->inside[b->n_notes++] = matched, b->head = 1;
        markdown_add_title(b, l->begin, at, l->end);
    } else b->leaf = MARKDOWN_FENCE, b->fence = text[at], b->n_fence = i;
    return 1;
}

static int markdown_begin_html(markdown_blocks *b, const markdown_line *l, size_t at,
                               size_t matched) {
    markup_document *m = b->d->m;
    markup_tag tag;
    int kind = m->text[at] != '<'
                   ? 0
                   : markdown_html_kind(m->text + at, l->end - at, b->leaf == MARKDOWN_TEXT);
    if (!kind) return 0;
    markdown_flush(b, 0);
    b->n = matched, b->leaf = MARKDOWN_HTML, b->html = kind;
    b->begin = b->end = l->end;
    if (kind < 7) b->begin = at; /* kind 7: the first line is a tag, and stays alone */
    else if (markup_read_tag(m, at, &tag) && tag.copied) b->html = 8;
    if (markdown_html_ends(m, b->html, at, l->end)) markdown_flush(b, 0);
    return 1;
}

/* Enters the container behind a marker of n bytes that begins a list's item. */
static void markdown_enter_item(markdown_blocks *b, markdown_line *l, size_t indent, size_t n,
                                size_t matched) {
    markup_document *m = b->d->m;
    size_t at, padding;
    markdown_flush(b, 0);
    markdown_advance(m, l, indent), l->at += n, l->column += n;
    padding = markdown_indent(m, l, &at);
    if (at == l->end || padding > 4) padding = 1;
    markdown_advance(m, l, at == l->end ? 0 : padding);
    b->widths[matched] = indent + n + padding;
    b->n = matched + 1, b->leaf = MARKDOWN_NOTHING;
}

/* Opens the containers and the block that a line begins. Returns 1 if the rest of the line is still
   to be read, as text or as a line inside a container; 0 if the line is done. */
static int markdown_begin(markdown_blocks *b, markdown_line *l, size_t *also) {
    markup_document *m = b->d->m;
    const char *text = m->text;
    size_t at, indent, size, n, i, matched = *also;
    int in_text = b->leaf == MARKDOWN_TEXT && matched == b->n;
    for (;; *also = matched) {
        indent = markdown_indent(m, l, &at), size = l->end - at;
        if (!size) return 1;
        if (indent >= 4) {
            if (b->leaf == MARKDOWN_TEXT) return 1; /* also a lazy line */
            b->n = matched, b->leaf = MARKDOWN_INDENTED;
            return 0;
        }
        if (text[at] == '>' && matched < MARKUP_DEEP) {
            markdown_flush(b, 0);
            markdown_advance(m, l, indent), l->at++, l->column++;
            if (markdown_indent(m, l, &at)) markdown_advance(m, l, 1);
            b->widths[matched++] = 0, b->n = matched, b->leaf = MARKDOWN_NOTHING, in_text = 0;
            continue;
        }
        if (markdown_begin_heading(b, l, at, matched) ||
            markdown_begin_kept(b, l, at, matched, in_text))
            return 0;
        i = !in_text && matched < MARKUP_DEEP && protect_starts(text + at, size, "[^")
                ? markdown_label(text + at, size, 0)
                : 0;
        if (i && i < size && text[at + i] == ':') { /* a footnote's other paragraphs are indented */
            markdown_flush(b, 0);
            b->widths[matched++] = indent + 4, b->n = matched, b->leaf = MARKDOWN_NOTHING;
            *also = matched;
            return 1;
        }
        if (matched < MARKUP_DEEP && markdown_is_marker(text + at, size)) {
            markdown_flush(b, 0);
            markdown_add_title(b, l->begin, at, l->end);
            b->widths[matched++] = indent + 4, b->n = matched;
            return 0;
        }
        if (markdown_begin_fence(b, l, at, matched)) return 0;
        for (i = 0; i < size && text[at + i] == text[at]; i++) {
        }
        if (in_text && (text[at] == '=' || text[at] == '-') &&
            markdown_skip_space(text + at, size, i) == size) {
            size_t before = m->n_blocks;
            markdown_flush(b, 1);
            if (m->n_blocks > before || text[at] == '-') return 0;
            b->leaf = MARKDOWN_NOTHING; /* the paragraph was only definitions */
            return 1;
        }
        if (markdown_begin_html(b, l, at, matched)) return 0;
        if (markdown_is_rule(text + at, size)) {
            markdown_flush(b, 0);
            b->n = matched, b->leaf = MARKDOWN_NOTHING;
            return 0;
        }
        n = markdown_marker(text + at, size);
        if (!n || matched == MARKUP_DEEP ||
            (in_text && (markdown_skip_space(text + at, size, n) == size ||
                         (n > 1 && !(n == 2 && text[at] == '1')))))
            return 1;
        markdown_enter_item(b, l, indent, n, matched++);
        in_text = 0;
    }
}

/* Makes the last line of the text before a table's head, if the line from `at` to `end` says so and
   has as many cells. Returns whether it does. */
static int markdown_begin_table(markdown_blocks *b, size_t at, size_t end) {
    markup_document *m = b->d->m;
    size_t last = b->begin, row_end = b->end;
    if (!markdown_is_delimiter(m->text, at, end)) return 0;
    if (m->n_breaks && m->breaks[m->n_breaks - 1].begin >= b->begin)
        last = m->breaks[m->n_breaks - 1].end;
    if (markdown_row(NULL, m->text, 0, last, b->end) != markdown_row(NULL, m->text, 0, at, end))
        return 0;
    b->end = last > b->begin ? m->breaks[m->n_breaks - 1].begin : b->begin;
    if (last > b->begin) m->n_breaks--;
    markdown_flush(b, 0);
    (void)markdown_row(b->d, m->text, markup_line(m, last), last, row_end);
    b->leaf = MARKDOWN_TABLE;
    return 1;
}

/* Reads a line of the document. */
static void markdown_scan_line(markdown_blocks *b, size_t begin, size_t end) {
    markup_document *m = b->d->m;
    const char *text = m->text;
    markdown_line l;
    size_t matched, at, indent, n;
    l.begin = l.at = begin, l.end = end, l.column = 0;
    for (matched = 0; matched < b->n; matched++) {
        indent = markdown_indent(m, &l, &at);
        if (!b->widths[matched]) {
            if (indent > 3 || at == end || text[at] != '>') break;
            markdown_advance(m, &l, indent), l.at++, l.column++;
            if (markdown_indent(m, &l, &at)) markdown_advance(m, &l, 1);
        } else if (at < end) {
            if (indent < b->widths[matched]) break;
            markdown_advance(m, &l, b->widths[matched]);
        }
    }
    indent = markdown_indent(m, &l, &at);
    if (b->head) {
        int is_rule = end - at > 2 && memcmp(text + at, "---", 3) == 0;
        n = at < end && text[at] == ':' ? 1 + protect_name(text + at + 1, end - at - 1) : 0;
        while (n && at + n < end && text[at + n] == '-') /* :tab-width: */
            n += 1 + protect_name(text + at + n + 1, end - at - n - 1);
        b->head = b->head == 2 ? 2 - 2 * is_rule
                  : is_rule    ? 2
                               : n > 1 && at + n < end && text[at + n] == ':';
        if (b->head || is_rule) return;
    }
    if (matched == b->n && b->leaf == MARKDOWN_FENCE &&
        !protect_in("~`", (unsigned char)b->fence)) {
        if (markdown_kept_ends(b->fence, text + at, end - at)) b->leaf = MARKDOWN_NOTHING;
        return;
    }
    if (matched == b->n && b->leaf == MARKDOWN_FENCE) {
        for (n = 0; at + n < end && text[at + n] == b->fence;) n++;
        if (indent < 4 && n >= b->n_fence && markdown_skip_space(text, end, at + n) == end)
            b->leaf = MARKDOWN_NOTHING;
        return;
    }
    if (matched == b->n && b->leaf == MARKDOWN_HTML && (at < end || b->html < 6)) {
        b->end = end;
        if (markdown_html_ends(m, b->html, l.at, end)) markdown_flush(b, 0);
        return;
    }
    if (b->leaf == MARKDOWN_HTML || (matched < b->n && b->leaf != MARKDOWN_TEXT))
        markdown_flush(b, 0);
    if (at == end) { /* blank */
        if (b->leaf != MARKDOWN_INDENTED) markdown_flush(b, 0);
        b->n = matched;
        return;
    }
    if (b->leaf == MARKDOWN_INDENTED) b->leaf = MARKDOWN_NOTHING;
    if (b->leaf == MARKDOWN_TEXT && matched == b->n && indent < 4 &&
        markdown_begin_table(b, at, end))
        return;
    if (!markdown_begin(b, &l, &matched)) return;
    (void)markdown_indent(m, &l, &at);
    if (at == end) return;
    while (end > at && markup_is_space(text[end - 1])) end--;
    if (b->leaf == MARKDOWN_TABLE) {
        (void)markdown_row(b->d, text, begin, at, end);
        return;
    }
    if (b->leaf == MARKDOWN_TEXT) { /* the paragraph goes on, also by a lazy line */
        markup_add_break(m, b->end, at);
        b->end = end;
        return;
    }
    b->n = matched, b->leaf = MARKDOWN_TEXT, b->begin = at, b->end = end;
}

/* Returns the bytes of the front matter. */
static size_t markdown_front(const markup_document *m) {
    size_t at, end;
    const char *text = m->text, *newline;
    if (protect_starts(text, m->size, "\xEF\xBB\xBF")) {
        markup_document rest = *m;
        rest.text += 3, rest.size -= 3;
        return 3 + markdown_front(&rest);
    }
    if (m->size < 8 || (memcmp(text, "---", 3) != 0 && memcmp(text, "+++", 3) != 0)) return 0;
    for (at = 3; at < m->size && (text[at] == ' ' || text[at] == '\r');) at++;
    if (at >= m->size || text[at] != '\n' || markup_is_space(text[at + 1])) return 0;
    for (at++; at < m->size; at = end + 1) {
        newline = (const char *)memchr(text + at, '\n', m->size - at);
        end = newline ? (size_t)(newline - text) : m->size;
        if (end - at < 3 || end - at > 5) continue;
        if ((memcmp(text + at, text, 3) == 0 || memcmp(text + at, "...", 3) == 0) &&
            markdown_skip_space(text, end, at + 3) == end)
            return end < m->size ? end + 1 : end;
    }
    return 0;
}

/* Reads a Markdown document: adds its blocks, items and plain text. */
static void markdown_scan(markup_document *m) {
    markdown_parser *d = m->md ? m->md : (markdown_parser *)calloc(1, sizeof *d);
    markdown_blocks b;
    size_t at, end, next, i;
    m->md = d;
    if (!d) m->broken = 1;
    if (m->broken) return;
    memset(&b, 0, sizeof b);
    d->m = m, b.d = d, d->labels.size = 0;
    for (at = markdown_front(m); at < m->size && !m->broken; at = next) {
        const char *newline = (const char *)memchr(m->text + at, '\n', m->size - at);
        next = newline ? (size_t)(newline - m->text) + 1 : m->size;
        end = next - (newline != NULL);
        if (end > at && m->text[end - 1] == '\r') end--;
        markdown_scan_line(&b, at, end);
    }
    markdown_flush(&b, 0);
    m->broken |= d->labels.broken;
    if (m->broken) return;
    if (d->labels.size)
        qsort(d->labels.data, d->labels.size / sizeof(uint64_t), sizeof(uint64_t),
              markdown_by_hash);
    for (i = 0; i < m->n_blocks && !m->broken; i++) {
        (void)markup_add(m, MARKUP_BLOCK, m->blocks[i].begin, m->blocks[i].begin);
        if (m->broken) return;
        if (m->blocks[i].form == MARKUP_HTML)
            markup_scan_html(m, m->blocks[i].begin, m->blocks[i].end);
        else markdown_scan_text(d, &m->blocks[i]);
    }
}

#endif
