/* markup_subtitles.h: a part of markup.h: the reader of subtitles, and the lines of their cues. */
#ifndef MARKUP_SUBTITLES_H
#define MARKUP_SUBTITLES_H

#include "markup_pieces.h"

/* ---- times ----------------------------------------------------------------------------------- */

/* Returns the bytes of the time that begins a text, such as 00:01:02,500, or 0. *seconds is the
   time. */
static size_t markup_time(const char *text, size_t size, double *seconds) {
    size_t i = 0, n, parts = 0;
    double part, share = 1;
    for (*seconds = 0;;) {
        for (n = 0, part = 0; i + n < size && n < 9 && protect_is_digit((unsigned char)text[i + n]);
             n++)
            part = 10 * part + (text[i + n] - '0');
        if (!n) return 0;
        i += n, parts++, *seconds = 60 * *seconds + part;
        if (parts > 3 || i + 1 >= size || !protect_is_digit((unsigned char)text[i + 1]) ||
            !(text[i] == ':' || (parts > 1 && protect_in(".,", (unsigned char)text[i]))))
            break;
        if (text[i] != ':') {
            for (i++; i < size && protect_is_digit((unsigned char)text[i]); i++)
                share /= 10, *seconds += share * (text[i] - '0');
            break;
        }
        i++;
    }
    return parts > 1 ? i : 0;
}

/* Returns the end of the two times or frames that begin a line of MicroDVD, {12}{34}, or of MPL2,
   [12][34], or 0. The second one may be missing. Neither has more than `most` digits. frames [2]
   gets them; -1 for a missing one. */
static size_t markup_frames(const markup_document *m, size_t at, size_t end, size_t most,
                            double *frames) {
    char open = at < end ? m->text[at] : 0, close = open == '{' ? '}' : ']';
    int i;
    if (open != '{' && open != '[') return 0;
    for (i = 0; i < 2; i++) {
        size_t begin = at + 1;
        if (at == end || m->text[at] != open) return 0;
        for (frames[i] = 0, at++; at < end && at - begin < most; at++) {
            if (!protect_is_digit((unsigned char)m->text[at])) break;
            frames[i] = 10 * frames[i] + (m->text[at] - '0');
        }
        if (at == begin) frames[i] = -1;
        if (at == end || m->text[at++] != close || (!i && at == begin + 1)) return 0;
    }
    return at;
}
enum { MARKUP_FRAMES = 11 }; /* digits of a frame */

/* Reads the times of a line that has "-->", or of one with times in brackets, from byte i on.
   Returns whether it has them. *text is where the text of the cue begins if it is in the same line.
   */
static int markup_two_times(const markup_document *m, size_t i, size_t end, size_t *text,
                            double *when) {
    size_t open = i < end && m->text[i] == '[', n;
    i += open;
    n = markup_time(m->text + i, end - i, &when[0]);
    when[1] = when[0];
    if (!n || m->is_vtt) return 0;
    for (i += n; i < end && m->text[i] == ' ';) i++;
    if (!(open && i < end && m->text[i] == ']')) {
        for (n = 0; i + n < end && n < 9 && m->text[i + n] == '-';) n++;
        while (i + n < end && n < 9 && (unsigned char)m->text[i + n] >= 0x80) n++; /* a long dash */
        if (n && i + n < end && m->text[i + n] == '>') n++;
        else n = !open && i < end && m->text[i] == ',';
        if (!n) return 0;
        for (i += n; i < end && m->text[i] == ' ';) i++;
        n = markup_time(m->text + i, end - i, &when[1]);
        if (!n) return 0;
        i += n;
    }
    if (!open) return 1;
    if (i == end || m->text[i] != ']') return 0;
    *text = i + 1;
    return 1;
}

/* Returns whether a line of subtitles has the times of a cue. *text is where the cue's text begins
   in the line: at its end, except in MicroDVD, and in the lines that transcribe --timestamps
   writes, [00:01 --> 00:02] text. when [2] gets the times in seconds, -1 for those that cannot be
   read. */
static int markup_times(const markup_document *m, size_t at, size_t end, size_t *text,
                        double *when) {
    size_t i = at, n;
    *text = end;
    if (m->line_end == '|' && (n = markup_frames(m, at, end, MARKUP_FRAMES, when)) != 0) {
        *text = n;
        if (when[1] < 0) when[1] = when[0];
        when[0] /= m->frame_rate, when[1] /= m->frame_rate;
        return 1;
    }
    while (i < end && markup_is_space(m->text[i])) i++;
    if (m->is_vtt || (i < end && protect_is_digit((unsigned char)m->text[i])))
        for (n = i; n + 3 <= end; n++)
            if (memcmp(m->text + n, "-->", 3) == 0) {
                if (!markup_time(m->text + i, n - i, &when[0])) when[0] = -1;
                for (n += 3; n < end && markup_is_space(m->text[n]);) n++;
                if (!markup_time(m->text + n, end - n, &when[1])) when[1] = -1;
                return 1;
            }
    return markup_two_times(m, i, end, text, when);
}

/* Returns the end of the line at `at`; *next is the next line. A line ends with LF, CR LF or CR,
   and in MicroDVD also with "|". */
static size_t markup_line_end(const markup_document *m, size_t at, size_t *next) {
    while (at < m->size && m->text[at] != '\n' && m->text[at] != '\r' &&
           !(m->line_end == '|' && m->text[at] == '|'))
        at++;
    *next = at + (at < m->size);
    if (at + 1 < m->size && m->text[at] == '\r' && m->text[at + 1] == '\n') ++*next;
    return at;
}

/* Returns whether a line is the number of the cue that follows: digits, or behind a blank line also
   letters and digits, and the next line with text has times. */
static int markup_is_number(const markup_document *m, size_t at, size_t end, size_t next,
                            int is_behind_blank) {
    size_t text, digits = 0, i;
    double when[2];
    for (i = at; i < end && protect_is_word((unsigned char)m->text[i]); i++)
        digits += protect_is_digit((unsigned char)m->text[i]) != 0;
    if (i < end || !digits || (digits < end - at && !is_behind_blank)) return 0;
    for (at = next; at < m->size; at = next) {
        end = markup_line_end(m, at, &next);
        if (!markup_is_blank(m->text, at, end)) return markup_times(m, at, end, &text, when);
    }
    return 0;
}

/* ---- lines of cues --------------------------------------------------------------------------- */

/* A reader of the lines of cues, and the line that it read last. */
typedef struct markup_cue_line {
    size_t next; /* where it goes on */
    size_t cue;  /* where the text of the line's cue begins, and its first line */
    size_t first;
    size_t n_cues;    /* cues so far, also those without text */
    size_t from, end; /* the line, without spaces around */
    size_t following; /* the line behind it */
    double when[2];   /* begin and end of the cue in seconds; -1: not known */
    int in_cue, is_first, was_blank;
    int is_beside;                                     /* the line has times, too */
    size_t begins[MARKUP_FIELDS], ends[MARKUP_FIELDS]; /* in ASS: the bytes of the fields */
    int in_events;
} markup_cue_line;

/* Returns whether a line begins with a word, in either case. The word is in small letters. */
static int markup_line_begins(const markup_document *m, size_t at, size_t end, const char *word) {
    size_t n = strlen(word);
    return end - at >= n && markup_is(m, at, at + n, word);
}

/* Sets the order of the fields in lines of ASS by its line Format: Layer, Start, ... */
static void markup_read_format(markup_document *m, size_t at, size_t end) {
    static const char *const names[] = {"start", "end", "style", "name", "text"};
    size_t stop, k, i;
    for (m->n_fields = 0, at += 7; at < end; at = stop + 1, m->n_fields++) {
        for (stop = at; stop < end && m->text[stop] != ',';) stop++;
        for (; at < stop && markup_is_space(m->text[at]);) at++;
        for (k = stop; k > at && markup_is_space(m->text[k - 1]);) k--;
        for (i = 0; i < MARKUP_FIELDS; i++)
            if (markup_is(m, at, k, names[i]) ||
                (i == MARKUP_SPEAKER && markup_is(m, at, k, "actor")))
                m->fields[i] = m->n_fields;
    }
}

/* Reads a line of ASS or SSA. Returns whether it is an event with text, which is at
   l->begins[MARKUP_TEXT]. The last field has the rest of the line, with its commas. */
static int markup_read_event(markup_document *m, size_t at, size_t end, markup_cue_line *l) {
    size_t i, k, stop;
    int has_text = 0;
    if (at < end && m->text[at] == '[') {
        l->in_events = markup_line_begins(m, at, end, "[events]");
        return 0;
    }
    if (l->in_events && markup_line_begins(m, at, end, "format:")) markup_read_format(m, at, end);
    if (!l->in_events || !markup_line_begins(m, at, end, "dialogue:")) return 0;
    for (at += 9; at < end && m->text[at] == ' ';) at++;
    for (k = 0; k < MARKUP_FIELDS; k++) l->begins[k] = l->ends[k] = end;
    for (i = 0; i < m->n_fields; i++, at = stop + 1) {
        for (stop = at; stop < end && (m->text[stop] != ',' || i + 1 == m->n_fields);) stop++;
        for (k = 0; k < MARKUP_FIELDS; k++)
            if (m->fields[k] == i)
                l->begins[k] = at, l->ends[k] = stop, has_text |= k == MARKUP_TEXT;
        if (stop == end) break;
    }
    for (k = MARKUP_START; k <= MARKUP_END; k++) {
        at = l->begins[k];
        while (at < l->ends[k] && m->text[at] == ' ') at++;
        if (!markup_time(m->text + at, l->ends[k] - at, &l->when[k])) l->when[k] = -1;
    }
    return has_text;
}

/* Begins to read lines of cues. With in_cue the text begins inside a cue. */
static void markup_begin_lines(const markup_document *m, int in_cue, markup_cue_line *l) {
    memset(l, 0, sizeof *l);
    l->was_blank = 1, l->when[0] = l->when[1] = -1;
    l->in_cue = l->is_first = l->in_events = in_cue;
    if (!in_cue && protect_starts(m->text, m->size, "\xEF\xBB\xBF")) l->next = 3;
}

/* Reads the next line of a cue as ffmpeg and pysubs2 do, without its spaces. The text of a cue of
   SubRip is all up to the next cue's number or times, blank lines too. In WebVTT a cue ends at an
   empty line, and notes, styles and regions are outside. Returns 0 if there is none. */
static int markup_next_line(markup_document *m, markup_cue_line *l) {
    size_t at, end, text, next;
    double when[2];
    int blank, is_begun = l->in_cue && l->is_first && !l->next;
    for (l->is_first = is_begun; l->next < m->size; is_begun = 0) {
        at = l->next, end = markup_line_end(m, at, &next), l->next = l->following = next;
        blank = l->was_blank, l->was_blank = markup_is_blank(m->text, at, end);
        l->is_beside = 0;
        if (m->is_ass && !is_begun) {
            if (!markup_read_event(m, at, end, l)) continue;
            at = l->begins[MARKUP_TEXT], end = l->ends[MARKUP_TEXT];
            l->is_first = l->in_cue = 1, l->cue = at, l->n_cues++;
        } else if (!is_begun && markup_times(m, at, end, &text, when)) {
            memcpy(l->when, when, sizeof when);
            l->in_cue = l->is_first = 1, l->cue = text < end ? text : next, l->n_cues++;
            l->is_beside = text < end && m->line_end != '|';
            at = text;
        } else if (m->line_end == '|' && !is_begun &&
                   markup_frames(m, at, end, m->size, when)) { /* a frame of so many digits */
            l->in_cue = 0;
            if (!m->n_unread++) m->unread = at;
        } else if (m->is_vtt && at == end) l->in_cue = 0;
        while (end > at && markup_is_space(m->text[end - 1])) end--;
        for (l->from = at; l->from < end && markup_is_space(m->text[l->from]);) l->from++;
        l->end = end;
        if (l->from == end || !l->in_cue ||
            (!m->is_vtt && !m->is_ass && markup_is_number(m, l->from, end, next, blank)))
            continue;
        if (l->is_first) l->first = l->from;
        return 1;
    }
    return 0;
}

/* Finds out which format of subtitles a document has. */
static void markup_find_form(markup_document *m) {
    static const size_t usual[] = {1, 2, 3, 4, 9}; /* Layer, Start, End, Style, Name, ... */
    size_t at = protect_starts(m->text, m->size, "\xEF\xBB\xBF") ? 3 : 0, end, next, text;
    double frames[2];
    m->line_end = '\n', m->frame_rate = 10, m->n_fields = 10;
    memcpy(m->fields, usual, sizeof usual);
    m->is_vtt = protect_starts(m->text + at, m->size - at, "WEBVTT");
    for (at = markup_blank_end(m, at); at < m->size && m->text[at] == ';';)
        (void)markup_line_end(m, at, &next), at = markup_blank_end(m, next);
    end = markup_line_end(m, at, &next);
    m->is_ass = markup_line_begins(m, at, end, "[script info]") ||
                markup_line_begins(m, at, end, "[v4") || markup_line_begins(m, at, end, "[events]");
    text = m->is_vtt ? 0 : markup_frames(m, at, end, m->size, frames);
    if (!text) return;
    m->line_end = '|';
    if (m->text[at] == '[') return; /* MPL2 has tenths of a second */
    m->frame_rate = 0;
    for (; text < end && protect_is_digit((unsigned char)m->text[text]) && m->frame_rate < 1000;
         text++)
        m->frame_rate = 10 * m->frame_rate + (m->text[text] - '0');
    if (!(m->frame_rate >= 1 && m->frame_rate <= 1000)) m->frame_rate = 24;
}

/* ---- tags in lines --------------------------------------------------------------------------- */

/* What an override of ASS does: it changes letters until another one of the same name, it is for
   the whole cue, it is the time of a syllable, or it begins or ends a drawing. */
enum { MARKUP_STYLED = 1, MARKUP_WHOLE, MARKUP_SYLLABLE, MARKUP_DRAWING };
static const struct {
    const char *name; /* a name that another one begins with is behind it */
    int does;
} markup_overrides[] = {
    {"fscx", 1}, {"fscy", 1},  {"fsp", 1},   {"fs", 1},   {"fn", 1},    {"fe", 1},    {"frx", 1},
    {"fry", 1},  {"frz", 1},   {"fr", 1},    {"fax", 1},  {"fay", 1},   {"fade", 2},  {"fad", 2},
    {"bord", 1}, {"xbord", 1}, {"ybord", 1}, {"shad", 1}, {"xshad", 1}, {"yshad", 1}, {"blur", 1},
    {"be", 1},   {"alpha", 1}, {"1a", 1},    {"2a", 1},   {"3a", 1},    {"4a", 1},    {"an", 2},
    {"a", 2},    {"1c", 1},    {"2c", 1},    {"3c", 1},   {"4c", 1},    {"clip", 2},  {"iclip", 2},
    {"c", 1},    {"pos", 2},   {"pbo", 2},   {"move", 2}, {"org", 2},   {"kf", 3},    {"ko", 3},
    {"kt", 3},   {"k", 3},     {"K", 3},     {"t", 2},    {"p", 4},     {"q", 2},     {"r", 1},
    {"b", 1},    {"i", 1},     {"u", 1},     {"s", 1}};

/* Returns the bytes of the override at a backslash in a block that ends at byte `end`, and what it
   does, or 0 for one that is not known. */
static size_t markup_override(const markup_document *m, size_t at, size_t end, size_t *value,
                              int *does) {
    size_t i, n = at + 1;
    int depth = 0;
    for (*does = 0, i = 0; i < sizeof markup_overrides / sizeof *markup_overrides && !*does; i++)
        if (protect_starts(m->text + at + 1, end - at - 1, markup_overrides[i].name))
            *does = markup_overrides[i].does, n += strlen(markup_overrides[i].name);
    for (*value = n; n < end && (depth > 0 || m->text[n] != '\\'); n++)
        depth += (m->text[n] == '(') - (m->text[n] == ')');
    return n - at;
}

/* Reads a block of overrides, {\i1\b1}. tag->name gets the names of those that change letters, one
   behind the other; is_open says that each has a value, is_close that none has, or 0. Returns what
   MARKUP_SYLLABLE or MARKUP_DRAWING it is, if it is one. */
static int markup_read_overrides(const markup_document *m, size_t begin, size_t end,
                                 markup_tag *tag) {
    size_t at = begin + 1, n, value, stop = end - 1, k;
    int does, found = 0, only = 1;
    memset(tag, 0, sizeof *tag);
    tag->begin = begin, tag->end = end, tag->is_open = tag->is_close = 1;
    for (; at < stop; at += n) {
        n = 1;
        if (m->text[at] != '\\') continue;
        n = markup_override(m, at, stop, &value, &does);
        only &= does == MARKUP_SYLLABLE;
        if (does == MARKUP_DRAWING && value < at + n)
            found = m->text[value] == '0' ? 0 : MARKUP_DRAWING;
        if (does != MARKUP_STYLED) continue;
        if (value == at + n || (value + 1 == at + n && m->text[value] == '0')) tag->is_open = 0;
        else tag->is_close = 0;
        for (k = at + 1; k < value && tag->n + 1 < MARKUP_NAME; k++)
            tag->name[tag->n++] = m->text[k];
    }
    if (!tag->n) tag->is_open = tag->is_close = 0;
    return found == 0 && only && at > begin + 1 && m->text[begin + 1] == '\\' ? MARKUP_SYLLABLE
                                                                              : found;
}

/* Returns the end of the block {...} at byte `at`, or 0. A drawing goes on to the block that ends
   it. */
static size_t markup_block_end(const markup_document *m, size_t at, size_t end, markup_tag *tag,
                               int *is_syllable) {
    const char *close = (const char *)memchr(m->text + at, '}', end - at);
    size_t n, from;
    int does;
    *is_syllable = 0;
    if (!close) return 0;
    n = (size_t)(close - m->text) + 1;
    if (m->line_end == '|') return n;
    does = markup_read_overrides(m, at, n, tag);
    *is_syllable = does == MARKUP_SYLLABLE;
    while (does == MARKUP_DRAWING) {
        tag->is_open = tag->is_close = 0;
        for (from = n; from < end && m->text[from] != '{';) from++;
        close = from < end ? (const char *)memchr(m->text + from, '}', end - from) : NULL;
        if (!close) return end;
        n = (size_t)(close - m->text) + 1;
        for (; from + 1 < n && !(m->text[from] == '\\' && m->text[from + 1] == 'p' &&
                                 protect_is_digit((unsigned char)m->text[from + 2]));)
            from++;
        if (from + 1 < n) does = m->text[from + 2] == '0' ? 0 : MARKUP_DRAWING;
    }
    return n;
}

/* Appends a block of overrides without the times of syllables. Returns how many these are. */
static size_t markup_put_overrides(const markup_document *m, size_t begin, size_t end,
                                   text_buffer *out) {
    size_t at = begin, n, value, dropped = 0;
    int does;
    for (; at < end; at += n) {
        n = 1, does = 0;
        if (m->text[at] == '\\') n = markup_override(m, at, end - 1, &value, &does);
        if (does != MARKUP_SYLLABLE) text_buffer_append(out, m->text + at, n);
        dropped += does == MARKUP_SYLLABLE;
    }
    return dropped;
}

/* Adds the tag of a line of subtitles, bytes begin to end - 1, as an item. open [n_open] has the
   opening tags without a partner so far, and *first is the first item that may be one. Returns 0 if
   there is no memory. */
static int markup_add_tag(markup_document *m, markup_tag *tag, size_t begin, size_t end,
                          size_t *open, size_t *n_open, size_t *first) {
    const int is_line = m->text[begin] == '\\', is_block = m->text[begin] == '{';
    markup_tag other;
    markup_item *item;
    size_t i;
    item = markup_add(m, tag->is_close || tag->is_open || is_line ? MARKUP_CUT : MARKUP_POINT,
                      begin, end);
    if (!item) return 0;
    item->is_line = is_line != 0;
    if (tag->is_open == 1 && *n_open < MARKUP_DEEP) open[(*n_open)++] = m->n_items - 1;
    else if (tag->is_open) *first = m->n_items;
    if (!tag->is_close) return 1;
    i = *n_open ? open[--*n_open] : 0;
    if (i >= *first && is_block)
        (void)markup_read_overrides(m, m->items[i].begin, m->items[i].end, &other);
    else if (i >= *first) (void)markup_read_tag(m, m->items[i].begin, &other);
    if (i >= *first && strchr(other.name, '.')) *strchr(other.name, '.') = 0; /* <c.class> */
    if (i < *first || m->items[i].at == m->plain.size ||
        (m->text[m->items[i].begin] == '{') != is_block ||
        (strcmp(tag->name, other.name) != 0 && !(is_block && strcmp(tag->name, "r") == 0))) {
        *first = m->n_items; /* this cut does not move, so no element may contain it */
        return 1;
    }
    item->kind = MARKUP_CLOSE, item->match = (markup_at)i;
    m->items[i].kind = MARKUP_OPEN, m->items[i].match = (markup_at)(m->n_items - 1);
    return 1;
}

/* Copies the text of WebVTT's <lang en> that is in another language, from its tag at byte `at` on.
   `text` is where its text begins. Returns where it ends in its line; m->in_foreign says whether it
   goes on in the cue's next line. */
static size_t markup_copy_lang(markup_document *m, size_t at, size_t text, size_t end) {
    static const char close[] = "</lang>";
    const size_t size = m->size;
    size_t to;
    m->size = end, to = markup_find(m, text, close), m->size = size;
    m->in_foreign = to == end;
    if (to < end) to += strlen(close);
    markup_leave_foreign(m, at, to);
    (void)markup_add(m, MARKUP_COPY, at, to);
    return to;
}

/* Returns whether a tag is WebVTT's <lang en> with another language than that of the text to
   translate. */
static int markup_is_foreign_lang(const markup_document *m, const markup_tag *tag) {
    size_t from = tag->attributes, end = tag->end;
    if (!m->is_vtt || tag->is_open != 1 ||
        !(strcmp(tag->name, "lang") == 0 || protect_starts(tag->name, tag->n, "lang.")))
        return 0;
    while (from < end && markup_is_space(m->text[from])) from++;
    while (end > from && (markup_is_space(m->text[end - 1]) || m->text[end - 1] == '>')) end--;
    return markup_says(m, from, end) == MARKUP_SAYS_OTHER;
}

/* Reads a line of subtitles with its tags: <i>, {\an8}, <00:01.500>. open [n_open] has the opening
   tags without a partner so far. A pair of tags is an element if it is in one line, has text and
   has no cut inside. All other tags are cuts. */
static void markup_scan_line(markup_document *m, size_t at, size_t end, size_t *open,
                             size_t *n_open) {
    markup_tag tag;
    size_t from = at, n, first = m->n_items;
    double seconds;
    if (m->in_foreign) from = at = markup_copy_lang(m, at, at, end);
    for (; at < end && !m->broken; at = n) {
        int is_syllable = 0;
        n = at + 1;
        tag.is_open = tag.is_close = tag.is_opaque = 0;
        if (m->is_ass && m->text[at] == '\\' && n < end && m->text[n] == '{') {
            n++; /* a brace that is text */
            continue;
        }
        if (m->text[at] == '{' && n < end &&
            (m->text[n] == '\\' || m->line_end == '|' || m->is_ass)) {
            n = markup_block_end(m, at, end, &tag, &is_syllable);
            if (!n) break; /* the tag has no end: the rest of the line is text */
        } else if (m->text[at] == '\\' && n < end && protect_in("Nnh", (unsigned char)m->text[n]) &&
                   !m->is_vtt) {
            n++; /* the end of a line, or a space, as in ASS */
        } else if (m->text[at] != '<' || m->is_ass) continue;
        else if (n < end && protect_is_digit((unsigned char)m->text[n])) {
            n += markup_time(m->text + n, end - n, &seconds);
            if (n == at + 1 || n >= end || m->text[n] != '>') {
                n = at + 1;
                continue;
            }
            n++, tag.is_open = 2; /* the time of the words behind it */
        } else {
            size_t size = m->size;
            m->size = end; /* a tag must end in its line */
            n = markup_tag_at(m, at, &tag);
            m->size = size;
            if (tag.is_opaque) break;
            if (!n) n = at + 1;
            if (!tag.end) continue;
        }
        markup_add_text(m, from, at);
        from = n;
        if (tag.is_open == 1 && markup_is_foreign_lang(m, &tag)) {
            from = n = markup_copy_lang(m, at, n, end);
            continue;
        }
        if (tag.is_open == 1 && m->is_vtt && strcmp(tag.name, "rt") == 0) {
            size_t size = m->size;
            m->size = end, from = markup_find(m, n, "</rt>") + 5, m->size = size;
            if (from <= end) markup_clean(m), n = from;
            else from = n;
            if (n == from && from > tag.end) continue;
        }
        if (is_syllable) {
            markup_item *item = markup_add(m, MARKUP_POINT, at, n);
            if (item) item->c = 'k';
            continue;
        }
        if (m->text[at] == '\\' && !markup_after_space(m)) markup_plain(m, " ", 1, at, n);
        if (!markup_add_tag(m, &tag, at, n, open, n_open, &first)) return;
    }
    markup_add_text(m, from, end);
}

/* Returns whether an item is the time of a syllable that is sung, {\k20}. Translations have other
   syllables, so the item is dropped. */
static int markup_is_syllable(const markup_document *m, const markup_item *item) {
    return m->form == MARKUP_SRT && item->kind == MARKUP_POINT && item->c == 'k';
}

/* ---- sentences over several lines and cues --------------------------------------------------- */

/* Words that no sentence ends with: articles, conjunctions and prepositions. A word that another of
   these languages ends sentences with is left out, as "an" of English, which German has behind its
   verbs. */
static const char markup_unfinished[] =
    /* German and Dutch */
    " der dem des ein eine einen einem einer eines kein keine keinen keinem keiner seine seinen"
    " seinem seiner meine meinen meinem meiner deine deinen deinem deiner ihre ihren ihrem ihrer"
    " unsere unseren unserem und oder weil dass da\xC3\x9F ob wenn sondern f\xC3\xBCr im zum zur"
    " vom beim ins ans wegen ohne zwischen gegen sehr jede jeden jedem jeder dieser diesen diesem"
    " dieses het een maar van voor met naar"
    /* English */
    " and or but because the a my your our their its from with into than very every"
    /* French, Spanish, Italian, Portuguese */
    " le les une et ou mais \xC3\xA0 au aux chez que dans pour est mes ses leur el los las un una y"
    " del al con por para porque il gli i di per ma che nel della dei uma do dos em com mas e o"
    " de la"
    /* Polish, Czech, Swedish, Danish, Turkish, Hungarian */
    " w z oraz ale \xC5\xBC"
    "e dla v ve \xC5\xBE"
    "e och att ett og ile bir az \xC3\xA9s egy"
    /* Russian, Ukrainian, Greek */
    " \xD0\xB8 \xD0\xB2 \xD0\xBD\xD0\xB0 \xD1\x81 \xD0\xBA \xD0\xBE \xD1\x83 \xD0\xB7\xD0\xB0"
    " \xD0\xB8\xD0\xB7 \xD0\xBE\xD1\x82 \xD0\xB4\xD0\xBE \xD0\xBF\xD0\xBE \xD0\xB4\xD0\xBB\xD1\x8F"
    " \xD0\xBD\xD0\xBE \xD0\xB0 \xD1\x87\xD1\x82\xD0\xBE \xD0\xB5\xD1\x81\xD0\xBB\xD0\xB8"
    " \xD0\xB8\xD0\xBB\xD0\xB8 \xD0\xBD\xD0\xB5 \xD1\x96 \xD1\x82\xD0\xB0 \xD0\xB7"
    " \xCE\xBA\xCE\xB1\xCE\xB9 \xCE\xBF \xCE\xB7 \xCF\x84\xCE\xBF \xCF\x84\xCE\xB7\xCE\xBD"
    " \xCF\x84\xCE\xBF\xCE\xBD \xCF\x84\xCE\xBF\xCF\x85 \xCF\x84\xCE\xB7\xCF\x82 ";

/* Returns whether the word at the end of a text is one of markup_unfinished. */
static int markup_ends_unfinished(const char *text, size_t size) {
    enum { LONGEST = 24 };
    char word[2 * LONGEST];
    size_t begin = size, i, n = 0, k;
    uint32_t c;
    text_buffer letter;
    while (begin > 0 && size - begin < LONGEST && (unsigned char)text[begin - 1] > ' ') begin--;
    if (begin == size || size - begin == LONGEST) return 0;
    memset(&letter, 0, sizeof letter);
    for (i = begin; i < size; i += k) {
        k = tfm_character_next(text + i, size - i, &c);
        letter.size = 0, protect_append_char(&letter, protect_lower(c));
        if (letter.broken || n + letter.size > sizeof word) break;
        memcpy(word + n, letter.data, letter.size), n += letter.size;
    }
    text_buffer_free(&letter);
    return i == size && characters_list_has(markup_unfinished, word, n);
}

/* Returns the bytes of the dots that end a text, "..." or an ellipsis, or 0. */
static size_t markup_dots_before(const char *text, size_t size) {
    size_t n = 0;
    for (;;) {
        if (n < size && text[size - 1 - n] == '.') n++;
        else if (n + 3 <= size && memcmp(text + size - 3 - n, "\xE2\x80\xA6", 3) == 0) n += 3;
        else return n > 1 ? n : 0;
    }
}

/* Returns the bytes of the dots that begin a text, or 0. */
static size_t markup_dots_at(const char *text, size_t size) {
    size_t n = 0;
    for (;;) {
        if (n < size && text[n] == '.') n++;
        else if (protect_starts(text + n, size - n, "\xE2\x80\xA6")) n += 3;
        else return n > 1 ? n : 0;
    }
}

/* Returns the first letter or digit of a line, behind tags, dots and opening marks. */
static uint32_t markup_first_letter(const markup_document *m, size_t at, size_t end) {
    uint32_t c = 0;
    size_t n;
    for (; at < end; at += n) {
        n = tfm_character_next(m->text + at, end - at, &c);
        if (c == '<' || c == '{')
            for (; n < end - at && m->text[at + n - 1] != (c == '<' ? '>' : '}');) n++;
        else if (c != ' ' && c != '.' && c != 0x2026 && !character_is(c, TFM_CHARACTER_OPENING))
            return c;
    }
    return 0;
}

/* Returns whether two lines of subtitles have the same text without tags and spaces. */
static int markup_repeats(const markup_document *m, size_t at, size_t end, size_t other,
                          size_t other_end) {
    for (;;) {
        size_t *side[2], ends[2], i;
        side[0] = &at, side[1] = &other, ends[0] = end, ends[1] = other_end;
        for (i = 0; i < 2; i++)
            while (*side[i] < ends[i] &&
                   (m->text[*side[i]] == '<' || markup_is_space(m->text[*side[i]]))) {
                if (m->text[*side[i]] == '<')
                    while (*side[i] < ends[i] && m->text[*side[i]] != '>') ++*side[i];
                if (*side[i] < ends[i]) ++*side[i];
            }
        if (at == end || other == other_end) return at == end && other == other_end;
        if (m->text[at++] != m->text[other++]) return 0;
    }
}

/* Returns whether a line of subtitles is the only one of its cue and has no letters, as 1984 or, in
   MicroDVD, the number of frames per second. */
static int markup_is_alone(const markup_document *m, const markup_cue_line *l) {
    size_t text, stop, from = l->from, next = l->following;
    double when[2];
    for (; from < l->end; from++)
        if ((unsigned char)m->text[from] >= 0x80 ||
            protect_is_letter((unsigned char)m->text[from]) ||
            protect_in("<{\\", (unsigned char)m->text[from]))
            return 0;
    if (next >= m->size || m->is_ass) return 1;
    stop = markup_line_end(m, next, &from);
    return markup_is_blank(m->text, next, stop) || markup_times(m, next, stop, &text, when) ||
           (!m->is_vtt && markup_is_number(m, next, stop, from, 0));
}

/* Returns whether the fields of ASS in two lines are other ones. */
static int markup_is_other_field(const markup_document *m, const markup_cue_line *a,
                                 const markup_cue_line *b, int field) {
    size_t n = a->ends[field] - a->begins[field];
    return n != b->ends[field] - b->begins[field] ||
           memcmp(m->text + a->begins[field], m->text + b->begins[field], n) != 0;
}

/* Returns whether the cue that line l begins has another speaker than the one that `last` is in, <v
   Anna>, or another place, {\an8}, and does not go on with a small letter. */
static int markup_is_other(const markup_document *m, const markup_cue_line *last,
                           const markup_cue_line *l) {
    size_t begins[2], sizes[2], i;
    int places[2];
    if (m->is_ass && (markup_is_other_field(m, last, l, MARKUP_STYLE) ||
                      markup_is_other_field(m, last, l, MARKUP_SPEAKER)))
        return 1;
    begins[0] = last->first, begins[1] = l->from;
    for (i = 0; i < 2; i++) {
        const char *text = m->text + begins[i];
        size_t left = m->size - begins[i];
        sizes[i] = m->is_vtt && protect_starts(text, left, "<v") && left > 2 &&
                           protect_in(" .>", (unsigned char)text[2])
                       ? protect_until(text, left, ">")
                       : 0;
        places[i] = !m->is_vtt && protect_starts(text, left, "{\\an");
    }
    if (sizes[0] != sizes[1] ||
        (sizes[0] && memcmp(m->text + begins[0], m->text + begins[1], sizes[0]) != 0))
        return 1;
    return places[0] != places[1] && character_case(markup_first_letter(m, l->from, l->end)) >= 0;
}

/* Returns whether the cues of a document end with stops often enough that a cue without one is
   unfinished. In the captions of a machine and in songs it is not. */
static int markup_has_stops(markup_document *m) {
    size_t cues = 0, stops = 0, end, unread = m->n_unread;
    markup_cue_line l;
    int is_stop = 0;
    uint32_t c;
    markup_begin_lines(m, 0, &l);
    while (markup_next_line(m, &l)) {
        if (l.is_first) stops += is_stop != 0, cues++;
        for (end = l.end, is_stop = 0; end > l.from && !is_stop;) {
            c = protect_before(m->text, end);
            is_stop = character_is(c, TFM_CHARACTER_STOP);
            if (m->text[end - 1] == '>' || m->text[end - 1] == '}')
                while (end > l.from && !protect_in("<{", (unsigned char)m->text[end - 1])) end--;
            else if (!character_is(c, TFM_CHARACTER_CLOSING) && c != '"' && c != '\'') break;
            for (end -= end > l.from; end > l.from && ((unsigned char)m->text[end] & 0xC0) == 0x80;)
                end--;
        }
    }
    m->n_unread = unread;
    return 4 * (stops + (is_stop != 0)) > cues;
}

/* What markup_scan_srt knows about the lines so far. */
typedef struct markup_cues {
    markup_cue_line last;             /* the line before */
    size_t dots;                      /* bytes of the dots at its end that are not read yet */
    size_t open[MARKUP_DEEP], n_open; /* tags without a partner */
    size_t brackets_at;               /* the plain text was searched for brackets up to here */
    int depth;                        /* open brackets */
    int any;                          /* there is a text that may go on */
    int has_stops;
    int lines; /* of the current sentence */
} markup_cues;

/* Counts the open brackets at the end of the plain text. */
static int markup_open_brackets(const markup_document *m, markup_cues *s) {
    uint32_t c;
    size_t n;
    for (; s->brackets_at < m->plain.size; s->brackets_at += n) {
        n = tfm_character_next(m->plain.data + s->brackets_at, m->plain.size - s->brackets_at, &c);
        if (protect_in("([{", c) || c == 0xFF08 || c == 0x300C || c == 0x300E || c == 0x3010 ||
            c == 0x300A)
            s->depth++;
        else if (protect_in(")]}", c) || c == 0xFF09 || c == 0x300D || c == 0x300F || c == 0x3011 ||
                 c == 0x300B)
            s->depth -= s->depth > 0;
    }
    return s->depth;
}

/* Returns whether the stop that ends the plain text is that of an abbreviation, such as Prof. */
static int markup_ends_abbreviated(const markup_document *m) {
    enum { CLOSE = 48 }; /* windows.h has a macro NEAR */
    char text[CLOSE + 4];
    const char *plain = m->plain.data;
    size_t end = m->plain.size, begin = end, at = 0;
    tfm_text sentence;
    while (begin > 0 && end - begin < CLOSE && plain[begin - 1] != '\n') begin--;
    while (begin < end && ((unsigned char)plain[begin] & 0xC0) == 0x80) begin++;
    if (end - begin < 2 || plain[end - 1] != '.' ||
        !markup_is_letter(protect_before(plain, end - 1)))
        return 0;
    memcpy(text, plain + begin, end - begin), memcpy(text + (end - begin), " Xy", 3);
    while (tfm_sentence_next(tfm_text_make(text, end - begin + 3), &at, &sentence))
        if (sentence.data + sentence.size == text + (end - begin)) return 0;
    return 1;
}

/* Returns whether the sentence of the cue before goes on in the cue that line l begins. Less than a
   second is between them, and a small letter, dots on both sides, a comma, an open bracket or a
   word that cannot end a sentence says so. A capital goes on only at once, and only in a document
   where sentences have stops: in German it may be a noun. */
static int markup_goes_on(const markup_document *m, markup_cues *s, const markup_cue_line *l) {
    const double gap = l->when[0] - s->last.when[1], pause = 0.9995, at_once = 0.15;
    uint32_t c = markup_first_letter(m, l->from, l->end), before;
    size_t dots = markup_dots_at(m->text + l->from, l->end - l->from), end = m->plain.size;
    if (l->when[0] < 0 || s->last.when[0] < 0 || l->when[0] <= s->last.when[0] || gap >= pause)
        return 0;
    if (character_case(c) < 0 || (s->dots && dots)) return 1;
    if (s->dots || !end) return 0;
    while (end > 0 && markup_is_space(m->plain.data[end - 1])) end--;
    before = protect_before(m->plain.data, end);
    if (markup_open_brackets(m, s) || markup_ends_abbreviated(m) ||
        (character_is(before, TFM_CHARACTER_COMMA) && before != ':' && before != '%' &&
         before != 0xFF1A) ||
        markup_ends_unfinished(m->plain.data, end))
        return 1;
    return s->has_stops && gap < at_once && character_case(c) > 0 && markup_is_letter(before);
}

/* Divides the plain text between the line before and line l, by a block, or by a cut if the
   sentence goes on. Dots on both sides of a cut are no words of the sentence. */
static void markup_join_lines(markup_document *m, markup_cues *s, markup_cue_line *l, int goes_on) {
    const size_t end = s->last.end;
    size_t dots = l->is_first ? markup_dots_at(m->text + l->from, l->end - l->from) : 0;
    markup_item *item;
    if (s->dots && !(goes_on && l->is_first)) markup_add_text(m, end - s->dots, end);
    else if (s->dots) (void)markup_add(m, MARKUP_CUT, end - s->dots, end);
    s->dots = 0;
    if (l->from + dots == l->end) dots = 0;
    if (!goes_on) {
        (void)markup_add(m, MARKUP_BLOCK, s->last.following ? end : 0, l->from);
        s->lines = 0, s->n_open = 0, s->depth = 0, s->brackets_at = m->plain.size;
    } else {
        if (!markup_after_space(m) && /* Chinese and Japanese have no space there */
            !(character_is_wide(protect_before(m->plain.data, m->plain.size)) &&
              character_is_wide(markup_first_letter(m, l->from, l->end))))
            markup_plain(m, " ", 1, end, l->from);
        item = markup_add(m, MARKUP_CUT, end, l->from);
        if (item) item->is_line = 1;
        if (dots) (void)markup_add(m, MARKUP_CUT, l->from, l->from + dots);
    }
    l->from += dots;
}

/* Notes the language of WebVTT, which is in a line of its head: Language: de. */
static void markup_find_lang(markup_document *m) {
    size_t at = 0, end, next;
    for (; m->is_vtt && at < m->size && (end = markup_line_end(m, at, &next)) > at; at = next) {
        if (!markup_line_begins(m, at, end, "language:")) continue;
        for (at += 9; at < end && markup_is_space(m->text[at]);) at++;
        markup_add_lang(m, at, end, '-');
    }
}

/* Reads a document of subtitles. */
static void markup_scan_srt(markup_document *m) {
    enum { MOST_LINES = 6 };
    markup_cue_line l;
    markup_cues s;
    memset(&s, 0, sizeof s);
    markup_find_form(m);
    markup_find_lang(m);
    s.has_stops = markup_has_stops(m);
    markup_begin_lines(m, 0, &l);
    while (!m->broken && markup_next_line(m, &l)) {
        int is_alone, is_closed, goes_on;
        if (l.is_first) {
            const markup_at cue = (markup_at)l.cue;
            text_buffer_append(&m->cues, (const char *)&cue, sizeof cue),
                m->broken |= m->cues.broken;
            m->in_foreign = 0;
        }
        is_alone = l.is_first && markup_is_alone(m, &l);
        is_closed = is_alone ||
                    (protect_in("([", (unsigned char)m->text[l.from]) &&
                     protect_in(")]", (unsigned char)m->text[l.end - 1])) ||
                    (l.end > l.from + 3 && protect_starts(m->text + l.end - 3, 3, "\xE2\x99\xAA"));
        if (is_alone || l.is_beside) s.any = 0; /* each line with times is a paragraph */
        if (s.any && l.is_first)
            s.any = !markup_is_other(m, &s.last, &l) && markup_goes_on(m, &s, &l);
        if (m->line_end == '|' && m->text[l.from] == '/' && l.from + 1 < l.end)
            l.from++;                                                                /* italics */
        if (protect_in("-", (unsigned char)m->text[l.from]) && l.from + 1 < l.end) { /* a speaker */
            for (l.from++; l.from < l.end && m->text[l.from] == ' ';) l.from++;
            s.any = 0;
        }
        if (m->plain.size && strchr(".?!", m->plain.data[m->plain.size - 1])) s.lines = 0;
        goes_on = s.any && !protect_in("([#", (unsigned char)m->text[l.from]) &&
                  !protect_starts(m->text + l.from, l.end - l.from, "\xE2\x99\xAA") &&
                  !protect_starts(m->text + l.from, l.end - l.from, "\xE2\x80\x93") &&
                  ++s.lines <= MOST_LINES &&
                  !markup_repeats(m, l.from, l.end, s.last.from, s.last.end);
        markup_join_lines(m, &s, &l, goes_on);
        s.any = !is_closed; /* a song or a sound is no part of a sentence */
        s.dots = s.any ? markup_dots_before(m->text + l.from, l.end - l.from) : 0;
        if (s.dots == l.end - l.from) s.dots = 0;
        if (!m->broken) markup_scan_line(m, l.from, l.end - s.dots, s.open, &s.n_open);
        s.last = l;
    }
    m->n_cues = l.n_cues;
    if (s.dots && !m->broken) markup_add_text(m, s.last.end - s.dots, s.last.end);
}

/* ---- the lines of a translated cue ----------------------------------------------------------- */

/* The text of a cue: its bytes, and what a viewer sees of them. */
typedef struct markup_cue_text {
    size_t begin, end;
    size_t lines, widest, total; /* in characters; total is without the ends of lines */
    size_t wide;                 /* of the characters: those of Chinese, Japanese, Korean */
    size_t break_at, break_end;  /* the bytes of its first end of a line */
    int is_fixed;                /* its lines cannot be joined: several speakers, songs, italics */
} markup_cue_text;

/* Returns the bytes of the piece of a cue's text at byte `at`. *c is its character, '\n' for the
   end of a line with the spaces around, or 0 for a tag. */
static size_t markup_cue_piece(const markup_document *m, size_t at, size_t end, uint32_t *c) {
    const char *text = m->text + at, *close;
    size_t left = end - at, n;
    *c = 0;
    if ((*text == '<' && !m->is_ass && left > 1 &&
         (protect_is_word((unsigned char)text[1]) || text[1] == '/')) ||
        (*text == '{' && left > 1 && (text[1] == '\\' || m->is_ass || m->line_end == '|'))) {
        close = (const char *)memchr(text, *text == '<' ? '>' : '}', left);
        if (close) return (size_t)(close - text) + 1;
    }
    if (*text == '\\' && left > 1 && protect_in("Nnh", (unsigned char)text[1]) && !m->is_vtt) {
        *c = text[1] == 'h' ? ' ' : '\n';
        return 2;
    }
    for (n = 0; n < left && (markup_is_space(text[n]) || (m->line_end == '|' && text[n] == '|'));)
        n++;
    if (n) {
        *c = memchr(text, '\n', n) || memchr(text, '\r', n) || memchr(text, '|', n) ? '\n' : ' ';
        return n;
    }
    n = *text == '&' && m->is_vtt ? markup_entity_at(text, left, c) : 0;
    if (n && !*c) *c = 'x';
    return n ? n : tfm_character_next(text, left, c);
}

/* Measures the text of a cue. */
static void markup_measure_cue(const markup_document *m, markup_cue_text *t) {
    size_t at, n, width = 0;
    uint32_t c;
    t->lines = 1, t->widest = t->total = t->wide = 0, t->break_at = t->break_end = 0;
    t->is_fixed = m->text[t->begin] == '/' && m->line_end == '|';
    for (at = t->begin; at < t->end; at += n) {
        n = markup_cue_piece(m, at, t->end, &c);
        if (c == '\n') {
            if (!t->break_end) t->break_at = at, t->break_end = at + n;
            t->lines++, width = 0;
            t->is_fixed |= at + n < t->end && protect_in("-/#([", (unsigned char)m->text[at + n]);
            t->is_fixed |= protect_starts(m->text + at + n, t->end - at - n, "\xE2\x80\x93") ||
                           protect_starts(m->text + at + n, t->end - at - n, "\xE2\x99\xAA");
        } else if (c && markup_columns(c)) {
            width++, t->total++, t->wide += markup_columns(c) == 2;
            if (width > t->widest) t->widest = width;
        }
    }
}

/* Reads the next cue with text. *is_ahead says whether l has its first line. Returns 0 if there is
   none. */
static int markup_next_cue(markup_document *m, markup_cue_line *l, int *is_ahead,
                           markup_cue_text *t) {
    int any = 0, is_fixed = 0;
    for (;; *is_ahead = 0) {
        if (!*is_ahead && !markup_next_line(m, l)) break;
        *is_ahead = any && l->is_first;
        if (*is_ahead) break;
        if (!any) t->begin = l->from, any = 1;
        t->end = l->end, is_fixed |= l->is_beside;
    }
    if (any) markup_measure_cue(m, t), t->is_fixed |= is_fixed;
    return any;
}

/* A place in the text of a cue where a line may end. */
typedef struct markup_cue_break {
    size_t at, end;        /* its bytes, which the end of the line replaces */
    size_t column;         /* characters before it */
    size_t gap;            /* characters of itself */
    size_t cost;           /* the smaller, the better */
    int is_line, is_taken; /* a line ends there now; a line will end there */
} markup_cue_break;

enum { MARKUP_CLAUSE = 0, MARKUP_BEFORE = 3, MARKUP_PLAIN = 6, MARKUP_INSIDE = 18 };

/* Returns the bytes of the word that begins at byte `at`. */
static size_t markup_cue_word(const markup_document *m, size_t at, size_t end) {
    size_t n = 0;
    while (at + n < end && (unsigned char)m->text[at + n] > ' ') n++;
    return n;
}

/* Finds the places where the lines of a cue may end: best behind a stop or a comma, then before a
   word that begins a clause, not behind such a word. Returns the number of characters of the text
   in one line. */
static size_t markup_cue_breaks(markup_document *m, const markup_cue_text *t, text_buffer *found) {
    size_t at, n, column = 0, last = 0;
    uint32_t c, before = 0, after;
    markup_cue_break b;
    for (at = t->begin; at < t->end && !found->broken; at += n) {
        n = markup_cue_piece(m, at, t->end, &c);
        if (!c || !markup_columns(c)) continue;
        memset(&b, 0, sizeof b);
        b.at = at, b.end = at, b.column = column, b.is_line = c == '\n';
        if (c == '\n' || c == ' ') {
            b.end = at + n;
            after = markup_first_letter(m, b.end, t->end);
            b.gap = !(before && markup_columns(before) == 2 && after && markup_columns(after) == 2);
        } else if (before && markup_columns(before) == 2 && markup_columns(c) == 2) after = c;
        else after = 0;
        if (after &&
            !character_is(after,
                          TFM_CHARACTER_COMMA | TFM_CHARACTER_STOP | TFM_CHARACTER_CLOSING) &&
            (b.is_line || (markup_is_letter(after) && !protect_is_digit(after) &&
                           !protect_in("-/#([", (unsigned char)m->text[b.end])))) {
            b.cost = character_is(before, TFM_CHARACTER_COMMA | TFM_CHARACTER_STOP) ? MARKUP_CLAUSE
                     : last < at && markup_ends_unfinished(m->text + last, at - last)
                         ? MARKUP_INSIDE
                     : markup_ends_unfinished(m->text + b.end, markup_cue_word(m, b.end, t->end))
                         ? MARKUP_BEFORE
                         : MARKUP_PLAIN;
            text_buffer_append(found, (const char *)&b, sizeof b);
        }
        if (c == '\n' || c == ' ') last = b.end, column += b.gap;
        else before = c, column++;
    }
    return column;
}

/* Chooses where k lines of at most `limit` characters end. Returns 0 if there are no such places.
   */
static int markup_choose_breaks(markup_cue_break *b, size_t n, size_t total, size_t limit,
                                size_t k) {
    size_t i, from = 0, best, left, ideal, off, least;
    for (i = 0; i < n; i++) b[i].is_taken = 0;
    for (; k > 1; k--) {
        ideal = from + (total - from) / k, best = n, least = (size_t)-1;
        for (i = 0; i < n; i++) {
            if (b[i].column <= from || b[i].column - from > limit) continue;
            left = total - b[i].column - b[i].gap;
            if (left > limit * (k - 1)) continue;
            off = b[i].column > ideal ? b[i].column - ideal : ideal - b[i].column;
            if (off + b[i].cost < least) least = off + b[i].cost, best = i;
        }
        if (best == n) return 0;
        b[best].is_taken = 1, from = b[best].column + b[best].gap;
    }
    return total - from <= limit;
}

/* Appends the text of a cue with lines that fit into the limits, or the best ones. Returns whether
   they fit. */
static int markup_divide_cue(markup_document *m, const markup_cue_text *t, const char *line_end,
                             size_t n_line_end, size_t limit, size_t most, text_buffer *out) {
    text_buffer found;
    markup_cue_break *b;
    size_t n, i, k, total, from = t->begin;
    int fits = 0;
    memset(&found, 0, sizeof found);
    text_buffer_append(&found, "", 0);
    total = markup_cue_breaks(m, t, &found);
    b = (markup_cue_break *)(void *)found.data, n = found.size / sizeof *b;
    for (k = 1; k <= most && !fits && !found.broken; k++)
        fits = markup_choose_breaks(b, n, total, limit, k);
    for (k = most; !fits && k > 1 && !found.broken; k--)
        if (markup_choose_breaks(b, n, total, total, k)) break;
    for (i = 0; i < n && !found.broken; i++) {
        if (!b[i].is_taken && !b[i].is_line) continue;
        text_buffer_append(out, m->text + from, b[i].at - from), from = b[i].end;
        if (b[i].is_taken) text_buffer_append(out, line_end, n_line_end);
        else text_buffer_append(out, " ", b[i].gap);
    }
    text_buffer_append(out, m->text + from, t->end - from);
    m->broken |= found.broken;
    text_buffer_free(&found);
    return fits;
}

/* Sets a document that has a part of another one's subtitles, which begins inside a cue or at its
   begin. */
static void markup_view(const markup_document *m, const char *text, size_t size,
                        markup_document *view) {
    memset(view, 0, sizeof *view);
    view->form = m->form, view->text = text, view->size = size;
    view->is_vtt = m->is_vtt, view->is_ass = m->is_ass, view->line_end = m->line_end;
    view->frame_rate = m->frame_rate, view->n_fields = m->n_fields;
    memcpy(view->fields, m->fields, sizeof view->fields);
}

/* Appends the translation of bytes begin to end - 1 of the document. Where the text of a cue is
   longer than in the source, divides it into lines that a viewer can read: two lines of 42
   characters, or of 16 in Chinese, Japanese and Korean. Counts cues that do not fit. */
static void markup_fit_cues(markup_document *m, size_t begin, size_t end, const text_buffer *made,
                            text_buffer *out) {
    enum { LETTERS = 42, WIDE = 16, LINES = 2 };
    const size_t most = (size_t)(m->cue_lines ? m->cue_lines : (int)LINES);
    markup_document source, view;
    markup_cue_line lines[2];
    markup_cue_text old, t;
    int is_ahead[2] = {0, 0};
    size_t from = 0;
    if (!made->size) return;
    markup_view(m, m->text + begin, end - begin, &source);
    markup_view(m, made->data, made->size, &view);
    markup_begin_lines(&source, begin > 0, &lines[0]);
    markup_begin_lines(&view, begin > 0, &lines[1]);
    while (!(source.size == view.size && memcmp(source.text, view.text, view.size) == 0) &&
           markup_next_cue(&source, &lines[0], &is_ahead[0], &old) &&
           markup_next_cue(&view, &lines[1], &is_ahead[1], &t)) {
        const size_t usual = 2 * t.wide > t.total ? (size_t)WIDE : (size_t)LETTERS;
        const size_t limit = m->cue_width ? (size_t)m->cue_width : usual;
        const char *line_end = m->is_ass ? "\\N" : m->line_end == '|' ? "|" : m->newline;
        size_t n_line_end = strlen(line_end);
        int fits = 0;
        if (t.total <= old.total || (t.lines <= most && t.widest <= limit)) continue;
        if (t.break_end) line_end = view.text + t.break_at, n_line_end = t.break_end - t.break_at;
        text_buffer_append(out, view.text + from, t.begin - from);
        if (t.is_fixed) text_buffer_append(out, view.text + t.begin, t.end - t.begin);
        else fits = markup_divide_cue(&view, &t, line_end, n_line_end, limit, most, out);
        from = t.end;
        if (!fits && !m->n_wide++) m->wide = begin + old.begin;
    }
    text_buffer_append(out, view.text + from, view.size - from);
    m->broken |= view.broken || out->broken;
}

#endif
