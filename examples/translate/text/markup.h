/* markup.h: translates documents with tags, sentence by sentence, and places the tags by alignment.

       markup_document m = {0};
       if (markup_read(&m, MARKUP_HTML, text, size))
           for (i = 0; i < m.n_sentences; i++) ... translate m.sentences[i].text [.size]
       markup_begin(&m);
       for (i = 0; i < m.n_sentences; i++) markup_put(&m, &translation, &out);   in their order
       markup_end(&m, &out);
       markup_free(&m);

   or call markup_translate with a function that translates all sentences. For any document and any
   translation:
    - every tag is written once, with the same bytes except in attributes that are translated, and a
      well-formed document stays well-formed;
    - all text outside the sentences is copied;
    - a sentence that could not be translated is copied;
    - time is linear in the size of the document.

   A tag inside a sentence follows its words. An element covers the run of translated words with the
   most words aligned to its own and the fewest others. An empty element or a placeholder that is
   written beside a word without a space, such as the number of a note, stays beside the word that
   this one is aligned to. Others are placed where they cross the fewest alignments. Neighbouring
   elements may change places, but elements never cross. Block tags end sentences and never move. A
   tag without a partner is malformed and does the same. The attributes alt, aria-label, placeholder
   and title, and the content of <meta> that describes the page or names it in shared links
   (markup_meta), are translated, too; their sentences come before the paragraph that contains the
   tag. The lang of the html element becomes m.lang. An element that says another language than
   m.source and than the root element is copied, and so are <lang> of WebVTT and classes of SAMI.
   Code and elements with translate="no" are copied, and so are entities that are not in the table
   below. Other entities are read as letters; they are written as UTF-8, except & < >.

   If an element has three links or more and nothing else, as a menu has, each link is a text of its
   own. A "|", a bullet or a middle dot between two spaces ends a text.

   Markdown is read and written by markdown.h. A paragraph of several lines is wrapped again, at the
   document's width, and a word that would begin a block is never put at the begin of a line.

   Wrapped text is read by wrapped.h.

   Subtitles are SubRip, WebVTT, ASS, SSA, MicroDVD ({12}{34}one|two), MPL2 ([12][34]), SBV, LRC,
   and the lines of transcribe --timestamps. TTML is read as XML and SAMI as HTML, and their <br>
   divides lines. Numbers, times and styles are copied. A sentence over several lines or cues is
   translated whole and divided between words, in the proportion that its lines have in the source.
   A cue goes on with the sentence of the cue before if less than a second is between them and
   something says so: a small letter, or a comma, an open bracket or a word that no sentence ends
   with (markup_goes_on). A sentence begins at a line that begins with a dash, a bracket, a note or
   another speaker (<v Anna>). It also begins behind a line in brackets or notes, at a cue with
   another place ({\an8}), and after six lines without an end. If the translation of a cue is longer
   than its text, its lines are divided again (m.cue_width, m.cue_lines). Pairs of overrides of ASS,
   {\i1} {\i0}, are elements. */
#ifndef MARKUP_H
#define MARKUP_H

#include "markdown.h"
#include "markup_subtitles.h"
#include "wrapped.h"

/* Frees all memory; m can be used again. */
static void markup_free(markup_document *m) {
    text_buffer_free(&m->plain), text_buffer_free(&m->woven), free(m->places);
    free(m->items), free(m->sentences), free(m->words), free(m->nodes);
    free(m->sources), free(m->aligned);
    free(m->blocks), free(m->breaks), markdown_free(m->md), text_buffer_free(&m->labels);
    text_buffer_free(&m->values), free(m->made);
    text_buffer_free(&m->pieces), text_buffer_free(&m->cuts), text_buffer_free(&m->ends);
    text_buffer_free(&m->cleaned), text_buffer_free(&m->cues);
    memset(m, 0, sizeof *m);
}

/* ---- sentences ------------------------------------------------------------------------------- */

/* Returns whether items from .. to - 1 are all tags inside text (OPEN, CLOSE, POINT), so a sentence
   may be extended over them. */
static int markup_near(const markup_document *m, size_t from, size_t to) {
    for (; from < to; from++)
        if (m->items[from].kind >= MARKUP_COPY) return 0;
    return 1;
}

/* Returns the character that byte i of the plain text is in. */
static uint32_t markup_character(const markup_document *m, size_t i) {
    uint32_t c = (unsigned char)m->plain.data[i];
    if (c < 0x80) return c;
    while (i > 0 && ((unsigned char)m->plain.data[i] & 0xC0) == 0x80) i--;
    (void)tfm_character_next(m->plain.data + i, m->plain.size - i, &c);
    return c;
}

static int markup_is_word_byte(const markup_document *m, size_t i) {
    return markup_is_word(markup_character(m, i));
}

static int markup_is_quote(uint32_t c) {
    return c == '"' || c == 0xAB || c == 0xBB || (c >= 0x2018 && c <= 0x201F) || c == 0x2039 ||
           c == 0x203A;
}

/* Returns whether the character before a position of a text opens something: a bracket, or a quote
   at the begin of a word. */
static int markup_is_opened(const char *text, size_t at) {
    uint32_t c = protect_before(text, at), before;
    if (!markup_is_quote(c)) return protect_in("([{", c);
    for (at--; at > 0 && ((unsigned char)text[at] & 0xC0) == 0x80;) at--;
    before = protect_before(text, at);
    return !at || character_is_space(before) || protect_in("([{-/", before);
}

/* Returns whether the character at a position of a text closes something: a stop, a bracket, or a
   quote at the end of a word. */
static int markup_is_closed(const char *text, size_t size, size_t at) {
    uint32_t c, next;
    size_t n = at < size ? tfm_character_next(text + at, size - at, &c) : 0;
    if (!n || !markup_is_quote(c)) return n && protect_in(",.;:!?)]}", c);
    if (at + n == size) return 1;
    (void)tfm_character_next(text + at + n, size - at - n, &next);
    return character_is_space(next) || markup_is_mark(next);
}

/* Sets a sentence's items: those inside the sentence, those at its ends that have a partner inside
   with at most a space between, and placeholders and notes beside its first or last word. first is
   the first item after the previous sentence. */
static void markup_take(markup_document *m, markup_sentence *s, size_t first) {
    size_t end = s->begin + s->size, i, inner_first, inner_last, before = s->begin, behind = end;
    size_t place, place_end;
    const size_t from = first;
    if (before && m->plain.data[before - 1] == ' ') before--;
    if (m->plain.data[behind] == ' ') behind++;
    for (; first < m->n_items && m->items[first].at <= s->begin; first++)
        if (m->items[first].kind == MARKUP_BLOCK)
            s->quote = (char)(m->form == MARKUP_HTML || m->items[first].begin == m->items[first].end
                                  ? m->items[first].c
                                  : 0);
    s->first = s->last = (markup_at)first;
    while (s->last < m->n_items && m->items[s->last].at < end) s->last++;
    while (s->first > from && m->items[s->first - 1].kind == MARKUP_COPY &&
           m->items[s->first - 1].at == s->begin && m->items[s->first - 1].begin >= m->at &&
           !m->items[s->first - 1].space_behind)
        s->first--; /* {name}s Hund */
    while (s->first > from && markup_is_syllable(m, &m->items[s->first - 1]) &&
           m->items[s->first - 1].at == s->begin && m->items[s->first - 1].begin >= m->at)
        s->first--;
    inner_first = s->first;
    place = markup_place_of(m, s->begin, &place_end);
    (void)markup_place_of(m, end - 1, &place_end);
    s->from = (markup_at)place, s->to = (markup_at)place_end;
    if (s->first < s->last && m->items[s->first].begin < s->from)
        s->from = m->items[s->first].begin;
    for (; s->last > from && s->last < m->n_items && markup_is_word_byte(m, end - 1); s->last++) {
        const markup_item *item = &m->items[s->last]; /* the note of the last word */
        if (item->at != end || item->space_before || item->begin != s->to ||
            (item->kind != MARKUP_COPY && item->kind != MARKUP_POINT))
            break;
        s->to = item->end;
    }
    for (; s->last > from && s->last < m->n_items && m->items[s->last].at == end &&
           markup_is_syllable(m, &m->items[s->last]);
         s->last++)
        s->to = m->items[s->last].end;
    inner_last = s->last;
    for (i = inner_first; i < inner_last; i++) {
        size_t match = m->items[i].match;
        if (m->items[i].kind == MARKUP_CLOSE && match < s->first && m->items[match].at >= before &&
            m->items[match].begin >= m->at && markup_near(m, match, s->first))
            s->first = (markup_at)match, s->from = m->items[match].begin;
        if (m->items[i].kind == MARKUP_OPEN && match >= s->last && m->items[match].at <= behind &&
            markup_near(m, s->last, match))
            s->last = (markup_at)match + 1, s->to = m->items[match].end;
    }
    if (!s->quote) m->at = s->to;
}

/* Returns whether brackets are around a whole sentence, as subtitles have them around a sound. They
   stay, because models drop them. */
static int markup_is_bracketed(const markup_sentence *s) {
    const char close = s->text[0] == '(' ? ')' : s->text[0] == '[' ? ']' : 0;
    size_t i;
    if (s->size < 3 || !close || s->text[s->size - 1] != close) return 0;
    for (i = 1; i + 1 < s->size; i++)
        if (protect_in("()[]", (unsigned char)s->text[i])) return 0;
    return s->text[1] != ' ' && s->text[s->size - 2] != ' ';
}

/* Finds the next sentence of the plain text; with m->whole the next paragraph, which ends at a
   blank line. */
static int markup_next_sentence(markup_document *m, around_reader *r, tfm_text *sentence) {
    const tfm_text plain = tfm_text_make(m->plain.data, m->plain.size);
    tfm_text next;
    size_t from, lines = 0, *at = &r->at;
    int is_there;
    if (m->surrounds && !m->whole) {
        around_piece p;
        is_there = around_next(r, &p);
        if (is_there) *sentence = tfm_text_make(p.text, p.is_copied ? 0 : p.size);
        m->n_divided += is_there && p.is_divided;
        return is_there;
    }
    is_there = tfm_sentence_next(plain, at, sentence);
    while (is_there && m->whole && lines < 2) {
        size_t end = from = *at;
        if (!tfm_sentence_next(plain, &from, &next)) break;
        for (lines = 0; plain.data + end < next.data; end++) lines += plain.data[end] == '\n';
        if (lines < 2)
            sentence->size = (size_t)(next.data + next.size - sentence->data), *at = from;
    }
    return is_there;
}

/* Reads a document, which must stay in memory, and finds its sentences. Returns 0 if there is no
   memory. */
static int markup_read(markup_document *m, markup_form form, const char *text, size_t size) {
    size_t n, first = 0, i, k, clean = 0;
    around_reader reader;
    const markup_at *cleaned;
    tfm_text sentence;
    void *grown;
    uint32_t c;
    m->form = form, m->text = text ? text : "", m->size = size;
    m->n_items = m->n_sentences = m->next = m->at = m->n_langs = 0, m->broken = 0;
    m->n_divided = 0;
    m->is_ttml = m->is_sami = m->is_vtt = m->is_ass = 0;
    m->cleaned.size = m->labels.size = m->cues.size = 0;
    m->n_cues = m->n_skipped = m->n_unread = m->n_inner = 0;
    m->n_foreign = m->n_page = m->n_classes = 0, m->in_foreign = 0;
    m->plain.size = m->n_places = 0, m->n_blocks = m->n_breaks = m->width = 0;
    if (size >= (markup_at)-1) m->broken = 1; /* positions have 32 bits */
    else if (form == MARKUP_HTML) markup_scan_html(m, 0, size);
    else if (form == MARKUP_SRT) markup_scan_srt(m);
    else if (form == MARKUP_MARKDOWN) markdown_scan(m);
    else wrapped_scan(m);
    if (!m->broken) markup_measure(m);
    m->broken |= m->plain.broken;
    memset(&reader, 0, sizeof reader);
    reader.text = m->plain.data, reader.size = m->plain.size;
    reader.flags = form == MARKUP_SRT ? AROUND_CUES : 0;
    while (!m->broken && m->plain.size && markup_next_sentence(m, &reader, &sentence)) {
        markup_sentence *s;
        int left = 0;
        for (i = 0; i < sentence.size && !left; i += k) {
            k = tfm_character_next(sentence.data + i, sentence.size - i, &c);
            left = character_case(c) || (c >= 0x250 && !(c >= 0x2000 && c < 0x2E80) &&
                                         !(c >= 0x3000 && c < 0x3005) && c < 0xFF00);
        }
        if (!left) continue; /* there are no letters to translate */
        grown = m->sentences;
        (void)markup_reserve(m, &grown, &m->room_sentences, m->n_sentences + 1, sizeof *s);
        m->sentences = (markup_sentence *)grown;
        if (m->broken) break;
        s = &m->sentences[m->n_sentences++];
        s->text = sentence.data, s->size = (markup_at)sentence.size;
        while (s->size > 2 && protect_in(":;,.", (unsigned char)s->text[0]) && s->text[1] == ' ')
            s->text += 2, s->size -= 2;                      /* {name}: Der Hund */
        if (markup_is_bracketed(s)) s->text++, s->size -= 2; /* [Tür schlägt zu] */
        s->begin = (markup_at)(s->text - m->plain.data);
    }
    for (i = 0; i < m->n_sentences && !m->broken; i++) {
        markup_sentence *s = &m->sentences[i];
        s->quote = (char)(i ? s[-1].quote : 0); /* until an item says otherwise */
        s->is_cleaned = 0;
        cleaned = (const markup_at *)(const void *)m->cleaned.data;
        for (n = m->cleaned.size / sizeof *cleaned; clean < n && cleaned[clean] < s->begin;)
            clean++;
        for (; clean < n && cleaned[clean] <= s->begin + s->size; clean++) s->is_cleaned = 1;
        markup_take(m, s, first);
        first = s->last;
    }
    m->at = 0;
    return !m->broken;
}

/* Returns what is wrong with subtitles that no reader takes, or NULL. */
static inline const char *markup_no_times(const markup_document *m) {
    return m->form != MARKUP_SRT || m->n_cues || m->size <= markup_blank_end(m, 0) ? NULL
           : m->is_ass
               ? "the subtitles have no line of text, such as Dialogue: 0,0:01:02.00,0:01:04.50,..."
               : "the subtitles have no line with times, such as 00:01:02,000 --> 00:01:04,500";
}

/* ---- words of a translation ------------------------------------------------------------------ */

/* Returns whether a tag may be placed at a position of a translation: where a protected span may
   be, after an opening bracket or quote, before a closing quote, before a dot without a word after
   it, and between marks, except inside a row of dots or dashes. In Markdown, where marks have a
   meaning, only the places of spans count. */
static int markup_is_gap(const markup_document *m, const char *text, size_t size, size_t at) {
    uint32_t before, after;
    if (protect_is_gap(text, size, at)) return 1;
    if (m->form == MARKUP_MARKDOWN || ((unsigned char)text[at] & 0xC0) == 0x80) return 0;
    before = protect_before(text, at);
    (void)tfm_character_next(text + at, size - at, &after);
    return markup_is_opened(text, at) ||
           (markup_is_quote(after) && markup_is_closed(text, size, at)) ||
           (after == '.' && !protect_is_word((unsigned char)text[at + 1])) ||
           (markup_is_mark(before) && markup_is_mark(after) &&
            (before != after || !protect_in(".-", after)));
}

/* Returns the bytes of a character that two texts of `size` bytes begin with, in either case; 0 if
   they begin with different ones. */
static size_t markup_alike(const char *a, const char *b, size_t size) {
    uint32_t x, y;
    size_t n;
    if ((unsigned char)*a < 0x80)
        return protect_lower((unsigned char)*a) == protect_lower((unsigned char)*b);
    n = tfm_character_next(a, size, &x);
    return n == tfm_character_next(b, size, &y) && protect_lower(x) == protect_lower(y) ? n : 0;
}

/* Returns whether two texts of the same size differ at most in their letters' case. */
static int markup_all_alike(const char *a, const char *b, size_t size) {
    size_t i, n;
    for (i = 0; i < size; i += n)
        if (!(n = markup_alike(a + i, b + i, size - i))) return 0;
    return 1;
}

/* Returns the first item of a sentence behind a byte of the plain text; s->last if there is
   none. */
static size_t markup_item_behind(const markup_document *m, const markup_sentence *s, size_t at) {
    size_t low = s->first, high = s->last, middle;
    while (low < high) {
        middle = low + (high - low) / 2;
        if (m->items[middle].at <= at) low = middle + 1;
        else high = middle;
    }
    return low;
}

/* Returns the bytes of the full stop at the end of a translation if the source has none: models end
   a heading, a cell or a button as a sentence. The stop of an abbreviation stays: 5 a.m. */
static size_t markup_added_stop(const markup_translation *t, const markup_sentence *s) {
    const size_t n = t->size && t->text[t->size - 1] == '.'                             ? 1
                     : t->size > 3 && !memcmp(t->text + t->size - 3, "\xE3\x80\x82", 3) ? 3
                                                                                        : 0;
    size_t i, stops = 0;
    if (!n || t->size == n || !markup_is_letter(protect_before(s->text, s->size)) ||
        !markup_is_letter(protect_before(t->text, t->size - n)))
        return 0;
    for (i = t->size - n; i > 0 && !character_is_space((unsigned char)t->text[i - 1]);)
        if (t->text[--i] == '.') return 0;
    if (n == 1) {
        for (i = 0; i < t->size; i++) stops += t->text[i] == '.';
        for (i = 0; i < s->size && stops; i++) stops -= s->text[i] == '.';
    } else stops = 1;
    return stops ? n : 0;
}

/* Returns whether an item is the last word of its sentence with the comma before it:
   protect_joint. */
static int markup_is_joint(const markup_document *m, const markup_item *item) {
    const char *text = m->text + item->begin;
    return item->kind == MARKUP_COPY && item->end - item->begin > 3 &&
           (protect_starts(text, 3, "\xEF\xBC\x8C") || protect_starts(text, 3, "\xEF\xBC\x9A") ||
            (protect_in(",:;", (unsigned char)text[0]) && text[1] == ' '));
}

/* Sets m->pieces to the tokens of a translation. A token with the same letters as its source is
   divided where the source has items: un<u>der</u>line. Two such tokens without a space between
   them, also in the source, may be divided where the source has an item between them. Returns the
   translation with these tokens. */
static markup_translation markup_refine(markup_document *m, const markup_translation *t,
                                        const markup_sentence *s) {
    enum { MOST = 1024 };
    markup_translation fine = *t;
    markup_token piece;
    size_t i, k, from = 0, begin, end, low, n, last_end = 0;
    int is_alike, was_alike = 0;
    m->pieces.size = m->cuts.size = m->piece = 0, m->found = 0;
    text_buffer_append(&m->pieces, "", 0), text_buffer_append(&m->cuts, "", 0);
    for (i = 0; i < t->n; from = t->tokens[i++].end, was_alike = is_alike, last_end = end) {
        piece = t->tokens[i], begin = piece.source_begin, end = piece.source_end;
        if (end > s->size) end = s->size;
        for (; begin < end && s->text[begin] == ' ';) begin++;
        for (; begin < end && s->text[end - 1] == ' ';) end--;
        for (k = from; k < piece.end && piece.end <= t->size && t->text[k] == ' ';) k++;
        low = markup_item_behind(m, s, s->begin + begin);
        is_alike = begin < end && piece.end <= t->size && k <= piece.end &&
                   piece.end - k == end - begin &&
                   markup_all_alike(t->text + k, s->text + begin, end - begin);
        if (was_alike && is_alike && k == from && last_end == begin && low > s->first &&
            m->items[low - 1].at == s->begin + begin && m->cuts.size)
            m->cuts.data[m->cuts.size - 1] = '1';
        for (n = 0; is_alike && n < MOST && low < s->last && m->items[low].at < s->begin + end;
             n++) {
            markup_token part;
            size_t at = m->items[low].at - s->begin;
            part.end = k + (at - begin), part.source_begin = piece.source_begin,
            part.source_end = at;
            text_buffer_append(&m->pieces, (const char *)&part, sizeof part);
            text_buffer_append(&m->cuts, "1", 1);
            piece.source_begin = at;
            while (low < s->last && m->items[low].at == s->begin + at) low++;
        }
        if (i + 1 == t->n && s->last > s->first && markup_is_joint(m, &m->items[s->last - 1]) &&
            piece.end == t->size && t->size > from + 1 &&
            protect_in(".!?", (unsigned char)t->text[t->size - 1])) { /* before the last stop */
            piece.end--;
            text_buffer_append(&m->pieces, (const char *)&piece, sizeof piece);
            text_buffer_append(&m->cuts, "1", 1);
            piece.end++;
        }
        text_buffer_append(&m->pieces, (const char *)&piece, sizeof piece);
        text_buffer_append(&m->cuts, "0", 1);
    }
    m->broken |= m->pieces.broken || m->cuts.broken;
    fine.n = m->pieces.size / sizeof piece;
    fine.size -= markup_added_stop(t, s);
    for (i = m->broken ? 0 : fine.n; i > 0 && fine.size < t->size; i--) {
        markup_token *each = (markup_token *)(void *)m->pieces.data + i - 1;
        if (each->end <= fine.size) break;
        each->end = fine.size;
    }
    fine.tokens = (const markup_token *)(const void *)m->pieces.data;
    return fine;
}

/* Returns how many letters of a sentence's first word an element has that begins with it and ends
   inside it, as a large first letter does: <span>D</span>er. Returns 0 if there is no such element.
   *begin and *end are its bytes in the sentence. */
static size_t markup_initial(const markup_document *m, const markup_sentence *s, size_t *begin,
                             size_t *end) {
    enum { MOST = 2 };
    size_t i, at = 0, letters;
    uint32_t c;
    for (i = s->first; i < s->last && m->form == MARKUP_HTML; i++) {
        const markup_item *item = &m->items[i];
        if (item->at < s->begin || item->kind == MARKUP_CLOSE) continue;
        for (; s->begin + at < item->at; at += tfm_character_next(s->text + at, s->size - at, &c))
            if (markup_is_word_byte(m, s->begin + at)) return 0;
        if (item->kind != MARKUP_OPEN || item->match >= s->last) continue;
        *begin = at, *end = m->items[item->match].at - s->begin;
        if (*end >= s->size || !markup_is_word_byte(m, s->begin + *end)) continue;
        for (letters = 0; at < *end && letters <= MOST; letters += markup_is_word(c) != 0) {
            at += tfm_character_next(s->text + at, s->size - at, &c);
            if (protect_is_digit(c) || (letters && !markup_is_word(c))) letters = MOST;
        }
        return letters <= MOST && markup_is_word(c) ? letters : 0;
    }
    return 0;
}

/* Divides the pieces of a translation behind as many first letters as the large ones of the source,
   and before them if signs are in front of the element in the source. No other piece is aligned to
   them. */
static void markup_divide_initial(markup_document *m, const markup_sentence *s,
                                  markup_translation *t) {
    size_t begin, end, letters = markup_initial(m, s, &begin, &end), i, k, from = 0, at = 0,
                       ends[2];
    text_buffer pieces, cuts;
    uint32_t c = 0;
    if (!letters) return;
    memset(&pieces, 0, sizeof pieces), memset(&cuts, 0, sizeof cuts);
    for (ends[0] = 0; at < t->size; at = ends[0] += k) {
        k = tfm_character_next(t->text + at, t->size - at, &c);
        if (markup_is_word(c)) break;
    }
    if (!begin) ends[0] = 0; /* all signs are inside the element */
    for (ends[1] = at; at < t->size; ends[1] = at) {
        k = tfm_character_next(t->text + at, t->size - at, &c);
        if (!(c >= 0x300 && c < 0x370) && (!markup_is_word(c) || !letters--)) break; /* accents */
        at += k;
    }
    for (i = 0; i < t->n; i++) {
        const markup_token *token = &t->tokens[i];
        for (k = 0; k < 3; k++) {
            markup_token part = *token;
            char is_cut = m->cuts.data[i];
            if (k < 2 && part.end > ends[k]) part.end = ends[k];
            if (k < 2 && part.end == ends[k]) is_cut = '1';
            if (part.end <= from) continue;
            if (k < 2) part.source_begin = k ? begin : 0, part.source_end = k ? end : begin;
            else if (part.source_begin < end) part.source_begin = end;
            if (part.source_begin >= part.source_end) part.source_begin = part.source_end = 0;
            text_buffer_append(&pieces, (const char *)&part, sizeof part);
            text_buffer_append(&cuts, &is_cut, 1);
            from = part.end;
        }
    }
    m->broken |= pieces.broken || cuts.broken;
    text_buffer_free(&m->pieces), text_buffer_free(&m->cuts);
    m->pieces = pieces, m->cuts = cuts;
    t->tokens = (const markup_token *)(const void *)m->pieces.data;
    t->n = m->pieces.size / sizeof *t->tokens;
}

/* Divides a translation into words, at the gaps where a tag may be placed. Returns how many. */
static size_t markup_words(markup_document *m, const markup_translation *t) {
    size_t i, n = 0, token = 0, from = 0, to;
    uint32_t c;
    void *grown = m->words;
    (void)markup_reserve(m, &grown, &m->room_words, t->n + 2, sizeof *m->words);
    m->words = (markup_word *)grown;
    if (m->broken) return 0;
    for (i = 0; i < t->n; i++) {
        markup_word *w = &m->words[n];
        to = i + 1 < t->n && t->tokens[i].end < t->size ? t->tokens[i].end : t->size;
        if (to < from ||
            (to < t->size && m->cuts.data[i] == '0' && !markup_is_gap(m, t->text, t->size, to)))
            continue;
        for (w->begin = from; w->begin < to && t->text[w->begin] == ' ';) w->begin++;
        for (w->end = to; w->end > w->begin && t->text[w->end - 1] == ' ';) w->end--;
        if (w->begin == w->end && i + 1 < t->n) continue;
        w->token = token, w->n = i + 1 - token, w->owner = w->inner = 0, w->is_punctuation = 1;
        for (to = w->begin; to < w->end && w->is_punctuation;) {
            to += tfm_character_next(t->text + to, t->size - to, &c);
            w->is_punctuation = !markup_is_word(c);
        }
        from = w->end, token = i + 1;
        n += w->begin < w->end;
    }
    if (!n && t->size) { /* without alignment the translation is one word */
        memset(m->words, 0, sizeof *m->words);
        m->words[n++].end = t->size;
    }
    m->words[n].begin = m->words[n].end = t->size, m->words[n].inner = 0, m->words[n].token = t->n;
    return n;
}

/* Returns whether a word of a translation is aligned to any of bytes begin to end - 1 of the
   sentence. */
static int markup_is_aligned(const markup_translation *t, const markup_word *w, size_t begin,
                             size_t end) {
    size_t k;
    for (k = w->token; k < w->token + w->n; k++)
        if (t->tokens[k].source_begin < end && t->tokens[k].source_end > begin) return 1;
    return 0;
}

/* Compares two tokens for qsort: by source, then by word. */
static int markup_by_source(const void *a, const void *b) {
    const markup_source_token *x = (const markup_source_token *)a,
                              *y = (const markup_source_token *)b;
    if (x->begin != y->begin) return x->begin < y->begin ? -1 : 1;
    return x->word < y->word ? -1 : x->word > y->word;
}

/* Returns a position of a token's source as a markup_at, which may be smaller. */
static markup_at markup_most(size_t at) {
    return at < (markup_at)-1 ? (markup_at)at : (markup_at)-1;
}

/* Sets m->sources to the tokens of a translation's words, sorted by their sources. With this index
   the words of an element are found without a look at all words of the sentence. */
static void markup_index(markup_document *m, const markup_translation *t, size_t n_words) {
    size_t i, k, n = 0;
    markup_at reach = 0;
    void *sources = m->sources, *aligned = m->aligned;
    (void)markup_reserve(m, &sources, &m->room_sources, t->n + 1, sizeof *m->sources);
    m->sources = (markup_source_token *)sources, m->n_sources = 0;
    (void)markup_reserve(m, &aligned, &m->room_aligned, t->n + 1, sizeof *m->aligned);
    m->aligned = (size_t *)aligned;
    if (m->broken) return;
    for (i = 0; i < n_words; i++)
        for (k = m->words[i].token; k < m->words[i].token + m->words[i].n; k++)
            if (t->tokens[k].source_end) {
                m->sources[n].begin = markup_most(t->tokens[k].source_begin);
                m->sources[n].reach = markup_most(t->tokens[k].source_end);
                m->sources[n++].word = (markup_at)i;
            }
    if (n) qsort(m->sources, n, sizeof *m->sources, markup_by_source);
    for (i = 0; i < n; i++) {
        if (reach < m->sources[i].reach) reach = m->sources[i].reach;
        m->sources[i].reach = reach;
    }
    m->n_sources = n;
}

/* Returns how many tokens of the index have a source that begins before a byte. */
static size_t markup_sources_before(const markup_document *m, size_t at) {
    return m->n_sources ? markup_before(&m->sources->begin, sizeof *m->sources, m->n_sources, at)
                        : 0;
}

/* Sets m->aligned to the words, in order, that are aligned to any of bytes begin to end - 1 of the
   sentence, and perhaps some others. Returns how many. */
static size_t markup_find_aligned(markup_document *m, size_t begin, size_t end) {
    size_t i = markup_sources_before(m, end), k, n = 0;
    for (; i > 0 && m->sources[i - 1].reach > begin; i--) m->aligned[n++] = m->sources[i - 1].word;
    m->n_looks += n;
    if (n > 1) qsort(m->aligned, n, sizeof *m->aligned, markup_by_number);
    for (i = k = 0; i < n; i++)
        if (!k || m->aligned[k - 1] != m->aligned[i]) m->aligned[k++] = m->aligned[i];
    return k;
}

/* Finds the word that an item without words is written beside in the document, without a space
   between them, as the number of a note is, or m² behind a number. Sets *begin and *end to the
   word's bytes in the sentence. Returns 1 if the item is behind the word, 2 if it is before the
   word, and 0 if it is beside no word. */
static int markup_beside_word(const markup_document *m, const markup_sentence *s, size_t i,
                              size_t *begin, size_t *end) {
    const markup_item *item = &m->items[i];
    const char *plain = m->plain.data;
    size_t at = item->at, last = s->begin + s->size, first = i, behind = i;
    int left, right;
    if ((item->kind != MARKUP_COPY && item->kind != MARKUP_POINT) || at < s->begin || at > last)
        return 0;
    while (first > 0 && i - first < MARKUP_DEEP && m->items[first - 1].at == at &&
           m->items[first - 1].end == m->items[first].begin)
        first--;
    while (behind + 1 < m->n_items && behind - i < MARKUP_DEEP && m->items[behind + 1].at == at &&
           m->items[behind + 1].begin == m->items[behind].end)
        behind++;
    left = at > s->begin && plain[at - 1] != ' ' && !m->items[first].space_before &&
           !markup_is_opened(plain, at);
    right = at < last && plain[at] != ' ' && !m->items[behind].space_behind &&
            (item->kind == MARKUP_COPY || behind == i) && !markup_is_closed(plain, last, at);
    if (left && right && !markup_is_word_byte(m, at - 1) && markup_is_word_byte(m, at)) left = 0;
    if (item->kind == MARKUP_COPY && at > s->begin + 1 && item->space_before &&
        protect_unit(m->text, m->size, item->begin) > 0)
        left = 1, at -= plain[at - 1] == ' ';
    if (!left && !right) return 0;
    *begin = at - (size_t)left, *end = *begin + 1;
    if (markup_is_word_byte(m, *begin)) {
        while (left && *begin > s->begin && *begin + MARKUP_DEEP > at &&
               markup_is_word_byte(m, *begin - 1))
            --*begin;
        while (!left && *end < last && *end < at + MARKUP_DEEP && markup_is_word_byte(m, *end))
            ++*end;
    }
    *begin -= s->begin, *end -= s->begin;
    return left ? 1 : 2;
}

/* Returns whether an item is an element that has no-break spaces and nothing else. */
static int markup_is_hollow(const markup_document *m, const markup_item *item) {
    size_t at = item->at, end = m->items[item->match].at, n = at;
    uint32_t c;
    if (item->kind != MARKUP_OPEN || at >= end || end > at + MARKUP_NEAR) return 0;
    for (; n < end; n += tfm_character_next(m->plain.data + n, end - n, &c)) {
        c = markup_character(m, n);
        if (c != 0xA0 && c != 0x202F && !markup_is_space((char)m->plain.data[n])) return 0;
    }
    return !markup_is_blank(m->plain.data, at, end);
}

/* Finds the words around an item that has a space on both sides: around [4] gets the begin and end
   of the word before it and of the word behind it, in the sentence. Returns whether there are
   both. */
static int markup_between_words(const markup_document *m, const markup_sentence *s, size_t i,
                                size_t *around) {
    const markup_item *item = &m->items[i];
    const char *text = s->text;
    size_t at = item->at > s->begin ? item->at - s->begin : 0, begin = at, end = at;
    if (at > s->size ||
        (item->kind != MARKUP_COPY && item->kind != MARKUP_POINT && !markup_is_hollow(m, item)))
        return 0;
    while (begin > 0 && at - begin < MARKUP_DEEP && text[begin - 1] == ' ') begin--;
    around[0] = around[1] = begin;
    while (around[0] > 0 && begin - around[0] < MARKUP_DEEP && text[around[0] - 1] != ' ')
        around[0]--;
    while (end < s->size && end - at < MARKUP_DEEP && text[end] == ' ') end++;
    around[2] = around[3] = end;
    while (around[3] < s->size && around[3] - end < MARKUP_DEEP && text[around[3]] != ' ')
        around[3]++;
    return around[0] < around[1] && around[2] < around[3];
}

/* Returns 2 if the words beside a gap are aligned to the two words of markup_between_words, in
   either order, 1 if one of them is aligned to one of the two, and 0 otherwise. */
static int markup_between(const markup_translation *t, const markup_word *left,
                          const markup_word *right, const size_t *around) {
    int left_before = left && markup_is_aligned(t, left, around[0], around[1]);
    int left_behind = left && markup_is_aligned(t, left, around[2], around[3]);
    int right_before = right && markup_is_aligned(t, right, around[0], around[1]);
    int right_behind = right && markup_is_aligned(t, right, around[2], around[3]);
    if ((left_before && right_behind) || (left_behind && right_before)) return 2;
    return left_before || left_behind || right_before || right_behind;
}

/* Returns whether an item beside a word of n bytes is a note, which belongs to the sentence: an
   element without text, a link, or superscript that is no unit's. */
static int markup_is_note(const markup_document *m, const markup_item *item, size_t n) {
    size_t i;
    if (item->kind == MARKUP_POINT) return 1;
    if (m->form != MARKUP_HTML || m->text[item->begin] != '<') return 0;
    for (i = item->begin; i + 2 < item->end; i++)
        if (m->text[i] == '<' && markup_small(m->text[i + 1]) == 'a' &&
            (markup_is_space(m->text[i + 2]) || m->text[i + 2] == '>'))
            return 1;
    return n > 3;
}

/* Returns the gap between words low and high for an item, among the gaps that no child of the
   parent covers. An item beside a word stays beside what the word is aligned to, and an item
   between two spaces stays between what the words around it are aligned to, or beside one of these.
   The best gap crosses the fewest alignments; among equals the one wins that divides the
   translation most nearly in the proportion in which the item divides the sentence. In a long
   translation only the gaps near the word that is aligned to the item's place are compared. */
static size_t markup_gap(markup_document *m, const markup_translation *t, const markup_sentence *s,
                         size_t item, size_t parent, size_t low, size_t high) {
    size_t i, k, at = m->items[item].at, best = low, crossed = 0, least = (size_t)-1;
    size_t last, begin = 0, end = 0;
    double share, off, nearest = 2;
    size_t first = low, last_gap = high, around[4] = {0, 0, 0, 0};
    int side = markup_beside_word(m, s, item, &begin, &end), any = 0, is_beside, is_final;
    int is_between = !side && markup_between_words(m, s, item, around);
    at = at > s->begin ? at - s->begin : 0;
    share = (double)at / (double)s->size;
    last = at < m->words_end ? m->words_end : at; /* the final stop, if at is behind all words */
    is_final = last <= at && at < s->size && high == m->nodes[0].high && high > low + 1 &&
               m->words[high - 1].is_punctuation && m->words[high - 1].inner == parent;
    if (is_final && markup_is_joint(m, &m->items[item])) return high - 1;
    if (is_final && side == 1 && at + 2 > s->size &&
        markup_is_note(m, &m->items[item], end - begin))
        return high - 1; /* a note at the end of a sentence */
    if (high - low > 2 * MARKUP_NEAR && m->n_sources) {
        i = markup_sources_before(m, side ? end : at), i = m->sources[i ? i - 1 : 0].word;
        if (i > first + MARKUP_NEAR) first = i - MARKUP_NEAR;
        if (i + MARKUP_NEAR < last_gap) last_gap = i + MARKUP_NEAR;
    }
    m->n_looks += last_gap >= first ? last_gap - first : 0;
    for (i = first; i <= last_gap; i++) {
        for (k = i > first ? m->words[i - 1].token : 0;
             i > first && k < m->words[i - 1].token + m->words[i - 1].n; k++)
            if (t->tokens[k].source_end) /* a token's middle decides */
                crossed +=
                    t->tokens[k].source_begin + t->tokens[k].source_end > 2 * at ? 1 : (size_t)-1;
        if (i == first) crossed = t->n; /* counts down from here; only differences matter */
        off = (t->size ? (double)m->words[i].begin / (double)t->size : 0) - share;
        if (off < 0) off = -off;
        if (i > low && i < high && m->words[i].inner != parent) continue;
        if (i == m->nodes[0].high && i > low && m->words[i - 1].is_punctuation && last > at)
            continue;
        is_beside = side && (side == 1 ? i > low : i < high) &&
                    markup_is_aligned(t, &m->words[i - (side == 1)], begin, end);
        if (is_between)
            is_beside = markup_between(t, i > low ? &m->words[i - 1] : NULL,
                                       i < high ? &m->words[i] : NULL, around);
        if (is_beside < any) continue;
        if (is_beside == any && (crossed > least || (crossed == least && off >= nearest))) continue;
        least = crossed, nearest = off, best = i, any = is_beside;
    }
    is_final = is_final && is_between && any < 2 && markup_is_closed(s->text, s->size, at) &&
               !memchr(s->text + at, ' ', s->size - at);
    return is_final ? high - 1 : best; /* a number before the final stop */
}

/* Returns the gap for the end of a line, chosen by the line's share of bytes. If there are enough
   words, leaves one for this line and one for each of the `lines` with words that follow. */
static size_t markup_share(const markup_document *m, const markup_translation *t,
                           const markup_sentence *s, size_t at, size_t lines, size_t low,
                           size_t high) {
    double share = (double)(at - s->begin) / (double)s->size, off, nearest = 2;
    size_t i, best = low, all = high, first = low;
    if (high - low > lines) best = ++low, high -= lines;
    for (i = low; i <= high && at >= s->begin;
         i++) { /* where the words change sides at the same place */
        const markup_token *left = i ? &t->tokens[m->words[i].token] - 1 : NULL;
        const markup_token *right = i < all ? &t->tokens[m->words[i].token] : NULL;
        off = (double)(i ? m->words[i - 1].end : 0) - share * (double)t->size;
        if (t->n && off > -3 && off < 3 && (!left || left->source_end <= at - s->begin) &&
            (!right || right->source_begin + s->begin >= at))
            return i;
    }
    for (i = low; i <= high; i++) {
        if (i < high && i > first && m->words[i].is_punctuation &&
            s->begin + t->tokens[m->words[i].token].source_begin != at)
            continue;
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
static int markup_cover(markup_document *m, const markup_translation *t, const markup_sentence *s,
                        markup_node *node, size_t begin, size_t end) {
    size_t low = m->nodes[node->parent].low, high = m->nodes[node->parent].high;
    size_t i = low, from = low, n, k;
    long sum = 0, best = 0;
    int has_words, has_stop;
    /* Elements begin in order, so each byte is looked at once, however many elements it is in. */
    while (m->word_at < end && (m->word_at < begin || !markup_is_word_byte(m, m->word_at)))
        m->word_at++;
    while (m->stop_at < end && (m->stop_at < begin || m->plain.data[m->stop_at] == ' ' ||
                                markup_is_word_byte(m, m->stop_at)))
        m->stop_at++;
    has_words = m->word_at < end, has_stop = m->stop_at < end;
    begin = begin > s->begin ? begin - s->begin : 0, end = end > s->begin ? end - s->begin : 0;
    n = markup_find_aligned(m, begin, end);
    for (k = 0; k < n; k++) {
        size_t next = m->aligned[k];
        if (next < low || next >= high) continue;
        if (next - i >= (size_t)sum) sum = 0, i = from = next; /* no run goes on so far */
        for (; i <= next; i++) {
            const markup_word *w = &m->words[i];
            int own;
            m->n_looks++;
            if (w->owner != node->parent) {
                sum = 0, from = i + 1;
                continue;
            }
            own = markup_is_aligned(t, w, begin, end);
            sum += own ? (w->is_punctuation && has_words ? has_stop : 2) : -1;
            if (sum > best) best = sum, node->low = from, node->high = i + 1;
            if (sum <= 0) sum = 0, from = i + 1;
        }
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

static markup_node *markup_add_node(markup_document *m, size_t *n, size_t item, size_t parent,
                                    size_t low, size_t high) {
    markup_node *node = &m->nodes[*n];
    node->item = node->close = item, node->parent = node->outer = parent, node->index = (*n)++;
    node->low = low, node->high = high;
    return node;
}

/* Returns whether an item divides a sentence into parts that keep their order: a CUT, or a tag
   without its partner in the sentence. */
static int markup_divides(const markup_document *m, const markup_sentence *s, size_t i) {
    const markup_item *item = &m->items[i];
    if (item->kind == MARKUP_POINT || item->kind == MARKUP_COPY) return 0;
    return item->kind == MARKUP_CUT || item->match < s->first || item->match >= s->last ||
           (item->match == i && item->kind <= MARKUP_CLOSE);
}

/* Returns whether an item is a tag at the end of a line. */
static int markup_is_beside_line(const markup_document *m, const markup_sentence *s, size_t i) {
    const markup_item *item = &m->items[i];
    return !item->is_line && i + 1 < s->last && item[1].is_line && item[1].at <= item->at + 1;
}

/* Returns whether an item divides the words in the proportion of the source: the end of a line of
   subtitles, a tag beside it, and the time of the words behind it. */
static int markup_divides_by_share(const markup_document *m, const markup_sentence *s, size_t i) {
    const markup_item *item = &m->items[i];
    return item->is_line || markup_is_beside_line(m, s, i) ||
           (m->form == MARKUP_SRT && m->text[item->begin] == '<' &&
            protect_is_digit((unsigned char)m->text[item->begin + 1]));
}

/* Returns whether an element of plain bytes begin to end has all words of what is around it: of its
   parent, or of the part of the sentence. */
static int markup_has_all(const markup_document *m, const markup_sentence *s, size_t parent,
                          size_t begin, size_t end) {
    const size_t none = (size_t)MARKUP_NONE;
    const markup_node *node = &m->nodes[parent];
    size_t from = s->begin, to = s->begin + s->size;
    if (node->item != none) from = m->items[node->item].at, to = m->items[node->close].at;
    else {
        if (parent > 1) from = m->items[m->nodes[parent - 1].item].at;
        if (parent + 1 < m->n_parts) to = m->items[m->nodes[parent + 1].item].at;
    }
    return !markup_is_blank(m->plain.data, begin, end) &&
           markup_is_blank(m->plain.data, from, begin) && markup_is_blank(m->plain.data, end, to);
}

/* Gives a word beside it to an element that has words in the source and none in the translation:
   people do not see an empty element, and "****" is text in Markdown. */
static void markup_fill(markup_document *m, size_t index) {
    markup_node *node = &m->nodes[index];
    const markup_item *item = &m->items[node->item];
    const markup_node *parent = &m->nodes[node->parent];
    size_t i, begin = item->at, end = m->items[node->close].at, at = node->low;
    int is_next, is_before;
    if (item->kind != MARKUP_OPEN || node->low < node->high || markup_is_hollow(m, item)) return;
    if (end > begin + MARKUP_NEAR) end = begin + MARKUP_NEAR; /* else quadratic work */
    while (begin < end && (protect_is_digit((unsigned char)m->plain.data[begin]) ||
                           !markup_is_word_byte(m, begin)))
        begin++;
    if (begin == end && !item->c) return; /* no letters */
    is_next = at < parent->high && m->words[at].owner == parent->index;
    is_before = at > parent->low && m->words[at - 1].owner == parent->index;
    if (is_next && is_before && m->words[at].is_punctuation) is_next = 0;
    if (!is_next && !is_before) return;
    i = is_next ? at : at - 1;
    if (m->words[i].is_punctuation && !item->c) return;
    node->low = i, node->high = i + 1, m->words[i].owner = index;
}

/* Moves an element whose words other elements cover into the one that covers the first of them. In
   <i>Wort</i><b>teil</b> both elements have the same word of a translation. No link is put into a
   link. Returns whether the element has words then. */
static int markup_share_words(markup_document *m, const markup_translation *t,
                              const markup_sentence *s, markup_node *node) {
    const markup_item *item = &m->items[node->item], *other;
    size_t i, n, end = m->items[item->match].at, parent = node->parent, owner;
    if (m->form != MARKUP_HTML || item->at < s->begin || markup_is_hollow(m, item)) return 0;
    n = markup_find_aligned(m, item->at - s->begin, end - s->begin);
    for (i = 0; i < n; i++) {
        const markup_word *w = &m->words[m->aligned[i]];
        owner = w->owner;
        if (owner == parent || m->nodes[owner].parent != parent || w->is_punctuation) continue;
        other = &m->items[m->nodes[owner].item];
        if (other->kind != MARKUP_OPEN ||
            !markup_is_aligned(t, w, item->at - s->begin, end - s->begin) ||
            (markup_has_name(m, item->begin, "a") && markup_has_name(m, other->begin, "a")))
            continue;
        node->parent = owner;
        if (markup_cover(m, t, s, node, item->at, end)) return 1;
        node->parent = parent;
        return 0; /* else quadratic work */
    }
    return 0;
}

/* Places all items of a sentence in its translation and returns the number of nodes. A node comes
   after its parent. Node 0 is the whole sentence; its children are the parts and the cuts. */
static size_t markup_place_items(markup_document *m, const markup_translation *t,
                                 const markup_sentence *s, size_t n_words) {
    size_t i, k, n = 0, parent, lines = 0, last = s->begin, depth = 0,
                 room = 2 * (s->last - s->first) + 4;
    const size_t none = (size_t)MARKUP_NONE;
    void *grown = m->nodes;
    (void)markup_reserve(m, &grown, &m->room_nodes, room, sizeof *m->nodes);
    m->nodes = (markup_node *)grown;
    if (m->broken) return 0;
    for (i = s->first; i < s->last; i++) /* counts the lines with words */
        if (markup_divides(m, s, i)) {
            if (markup_divides_by_share(m, s, i))
                lines += !markup_is_blank(m->plain.data, last, m->items[i].at);
            last = m->items[i].at;
        }
    lines += !markup_is_blank(m->plain.data, last, s->begin + s->size), last = s->begin;
    m->word_at = m->stop_at = s->begin;
    for (m->words_end = s->size;
         m->words_end && !markup_is_word_byte(m, s->begin + m->words_end - 1);)
        m->words_end--;
    (void)markup_add_node(m, &n, none, 0, 0, n_words);
    (void)markup_add_node(m, &n, none, 0, 0, n_words);
    for (i = s->first, parent = 1; i < s->last; i++) { /* first the parts, which keep their order */
        const markup_item *item = &m->items[i];
        int has_words = !markup_is_blank(m->plain.data, last, item->at);
        if (!markup_divides(m, s, i)) continue;
        last = item->at, k = m->nodes[parent].low;
        if (markup_divides_by_share(m, s, i)) { /* a tag beside the end of a line stays beside it */
            lines -= has_words != 0;
            if (has_words)
                k = markup_share(m, t, s, markup_is_beside_line(m, s, i) ? item[1].at : item->at,
                                 lines, k, n_words);
            while (k > m->nodes[parent].low && k + 1 < n_words && m->words[k].is_punctuation &&
                   m->words[k].begin == m->words[k - 1].end &&
                   protect_in(",.;:!?)", (unsigned char)t->text[m->words[k].begin]))
                k++; /* no line begins with a comma */
        } else if (!(i > s->first && item[-1].kind == MARKUP_CUT && item[-1].at == item->at))
            k = markup_gap(m, t, s, i, 0, k, n_words);
        m->nodes[parent].high = k;
        (void)markup_add_node(m, &n, i, 0, k, k);
        parent = n;
        (void)markup_add_node(m, &n, none, 0, k, n_words);
    }
    m->n_parts = n;
    for (i = 1; i < n; i++) {
        if (m->nodes[i].item != none) continue;
        for (k = m->nodes[i].low; k < m->nodes[i].high; k++)
            m->words[k].owner = m->words[k].inner = i;
    }
    for (i = s->first, parent = 1; i < s->last; i++) {
        const markup_item *item = &m->items[i];
        int is_pair = item->match >= s->first && item->match < s->last && item->match != i &&
                      item->kind != MARKUP_CUT;
        int is_deep;
        markup_node *node;
        if (item->kind == MARKUP_CLOSE && is_pair) {
            parent = m->nodes[parent].outer, depth--;
            continue;
        }
        if (item->kind == MARKUP_CUT || (item->kind <= MARKUP_CLOSE && !is_pair)) {
            parent += 2;
            continue;
        }
        if (markup_is_syllable(m, item)) continue;
        node = markup_add_node(m, &n, i, parent, 0, 0);
        if (item->kind == MARKUP_OPEN) node->close = item->match;
        k = m->nodes[parent].high - m->nodes[parent].low;
        is_deep = depth > MARKUP_DEEP && (!k || k > MARKUP_NEAR); /* else quadratic work */
        if (!is_deep && item->kind == MARKUP_OPEN && m->nodes[parent].high > m->nodes[parent].low &&
            m->words[m->nodes[parent].low].owner == parent &&
            markup_has_all(m, s, parent, item->at, m->items[item->match].at))
            node->low = m->nodes[parent].low, node->high = m->nodes[parent].high;
        else if (is_deep || item->kind != MARKUP_OPEN ||
                 !(markup_cover(m, t, s, node, item->at, m->items[item->match].at) ||
                   markup_share_words(m, t, s, node)))
            node->low = node->high =
                markup_gap(m, t, s, i, parent, m->nodes[parent].low, m->nodes[parent].high);
        for (k = node->low; k < node->high; k++) {
            m->words[k].owner = node->index;
            if (k > node->low) m->words[k].inner = node->index;
        }
        if (item->kind == MARKUP_OPEN) parent = node->index, depth++;
    }
    for (i = m->n_parts; i < n; i++) markup_fill(m, i);
    return n;
}

/* Sets *from and *to to the bytes of the document that byte i of a translation comes from, if it is
   a space between two words that have one space between them in the source, too, or if it is a
   character that the token's source also has. Returns 0 otherwise. */
static int markup_origin(markup_document *m, const markup_translation *t, size_t i, size_t n,
                         size_t *from, size_t *to) {
    enum { MOST = 64 };
    const markup_sentence *s = &m->sentences[m->next - 1];
    const markup_token *piece;
    size_t k = m->piece, at, end;
    while (k < t->n && t->tokens[k].end <= i) k++;
    if (k != m->piece) m->piece = k, m->found = 0;
    if (k == t->n) return 0;
    piece = &t->tokens[k];
    if (t->text[i] == ' ') {
        const markup_token *next = i + 1 < piece->end ? piece : piece + 1, *last = piece;
        if (last->end > i + 1 && (k == 0 || t->tokens[k - 1].end == i))
            last = piece - 1; /* " word" is a token */
        if (k == 0 && last < piece) return 0;
        if (next == t->tokens + t->n || last == next) return 0;
        at = last->source_end, end = next->source_begin;
        if (at > s->size || end >= s->size || !last->source_end) return 0;
        while (at > last->source_begin && s->text[at - 1] == ' ') at--;
        while (end < s->size && s->text[end] == ' ') end++;
        if (end != at + 1) return 0;
        *from = markup_place_of(m, s->begin + at, to), *to = markup_blank_end(m, *from);
        return *to > *from;
    }
    at = m->found > piece->source_begin ? m->found : piece->source_begin;
    end = piece->source_end < s->size ? piece->source_end : s->size;
    if (end > at + MOST) end = at + MOST;
    for (; at + n <= end; at++)
        if (memcmp(s->text + at, t->text + i, n) == 0) {
            *from = markup_place_of(m, s->begin + at, to);
            (void)markup_place_of(m, s->begin + at + n - 1, to);
            m->found = at + n;
            return 1;
        }
    return 0;
}

/* Returns whether the translation of the sentence at hand is its source. */
static int markup_is_same(const markup_document *m, const markup_translation *t) {
    const markup_sentence *s = &m->sentences[m->next - 1];
    return t->size == s->size && memcmp(t->text, s->text, s->size) == 0;
}

/* Returns whether a text ends with a backslash that is not escaped. */
static int markup_ends_escape(const text_buffer *out) {
    size_t n = 0;
    while (n < out->size && out->data[out->size - 1 - n] == '\\') n++;
    return (int)(n & 1);
}

/* Appends a part of a translation, escaped as the document's format needs. Characters of the source
   are written as there: &eacute; or é. In blocks of lines it writes "\n" for a space where a line
   may end. */
static void markup_encode(markup_document *m, const markup_translation *t, size_t from, size_t to,
                          text_buffer *out) {
    markup_form form = m->sentences[m->next - 1].quote ? MARKUP_HTML
                       : m->n_blocks                   ? (markup_form)m->blocks[m->block].form
                                                       : m->form;
    const char *text = t->text;
    int in_lines = form == MARKUP_WRAPPED || form == MARKUP_MARKDOWN;
    size_t i, n, begin, end;
    for (i = from; i < to; i += n) {
        unsigned char c = (unsigned char)text[i];
        uint32_t letter;
        int is_raw = 0;
        n = 1;
        if (c >= 0x80) n = tfm_character_next(text + i, to - i, &letter);
        if (protect_is_word(c)) {
            text_buffer_append(out, text + i, 1);
            continue;
        }
        if (m->spells && markup_origin(m, t, i, n, &begin, &end)) {
            if (c == ' ') { /* a line may end in any space of the source that is no two */
                int is_line = in_lines &&
                              (end == begin + 1 || memchr(m->text + begin, '\n', end - begin)) &&
                              !(form == MARKUP_MARKDOWN && markup_ends_escape(out));
                if (is_line ||
                    (m->form == MARKUP_SRT && memchr(m->text + begin, m->line_end, end - begin)) ||
                    m->text[begin] == '<')
                    text_buffer_append(out, is_line ? "\n" : " ", 1);
                else text_buffer_append(out, m->text + begin, end - begin);
                continue;
            }
            if (end - begin != n && m->text[begin] != '\n' && m->text[begin] != '\r') {
                text_buffer_append(out, m->text + begin, end - begin);
                continue;
            }
            /* as raw as in the source, if the same character follows */
            if (m->spells < 2) is_raw = 0;
            else if (form == MARKUP_MARKDOWN)
                is_raw =
                    c != '#' && c != '|' &&
                    (c != ']' || i + 1 == t->size || text[i + 1] != ':' ||
                     (i && memchr(text + 1, '[', i - 1)) || /* the label of a definition has no [ */
                     markup_is_same(m, t)); /* "[x]: y z" is text, "[x]: z" a definition */
            else if (c == '>') is_raw = 1;
            else if (i + 1 == t->size)
                is_raw = end == m->size || m->text[end] == '<' || markup_is_space(m->text[end]);
            else
                is_raw =
                    (end < m->size && markup_small(text[i + 1]) == markup_small(m->text[end])) ||
                    (!protect_is_letter((unsigned char)text[i + 1]) &&
                     !protect_in("/!?#%", (unsigned char)text[i + 1]));
        }
        if (form == MARKUP_MARKDOWN && !is_raw) markdown_encode(m, text, i, i + n, from, to, out);
        else if (in_lines && (c == ' ' || c == '\r')) text_buffer_append(out, "\n", 1);
        else if (m->is_ass && !is_raw && c == '{') text_buffer_append(out, "\\{", 2);
        else if ((form == MARKUP_HTML || m->is_vtt) && !is_raw && protect_in("&<>", c))
            text_buffer_format(out, c == '&' ? "&amp;" : c == '<' ? "&lt;" : "&gt;");
        else text_buffer_append(out, text + i, n);
    }
}

/* Appends a part of the document, with the translations that its attributes have. */
static void markup_source(const markup_document *m, size_t begin, size_t end, text_buffer *out) {
    size_t low = 0, high = m->n_made, middle;
    while (low < high) {
        middle = low + (high - low) / 2;
        if (m->made[middle].from < begin) low = middle + 1;
        else high = middle;
    }
    for (; low < m->n_made && m->made[low].to <= end; low++) {
        const markup_value *v = &m->made[low];
        text_buffer_append(out, m->text + begin, v->from - begin);
        text_buffer_append(out, m->values.data + v->at, v->size);
        begin = v->to;
    }
    text_buffer_append(out, m->text + begin, end - begin);
}

/* Appends a part of the document, with spaces for the ends of lines. */
static void markup_copy_part(const markup_document *m, size_t begin, size_t end, text_buffer *out) {
    size_t i = markup_break_at(m, begin);
    for (; i < m->n_breaks && m->breaks[i].begin < end; i++) {
        size_t stop = m->breaks[i].begin;
        while (m->text[stop] == ' ' || m->text[stop] == '\t') stop++; /* spaces of code */
        text_buffer_append(out, m->text + begin, stop - begin), text_buffer_append(out, " ", 1);
        begin = m->breaks[i].end;
    }
    if (begin < end) markup_source(m, begin, end, out);
}

/* Replaces \r by a space in what was appended since `from`. In a block of lines \r means a hard
   break, so a \r of the document's text would be read as one. */
static void markup_no_breaks(const markup_document *m, size_t from, text_buffer *out) {
    if (!m->n_blocks || m->blocks[m->block].form == MARKUP_HTML) return;
    for (; from < out->size; from++)
        if (out->data[from] == '\r') out->data[from] = ' ';
}

/* Returns the label of an item, or NULL. */
static const markup_label *markup_label_of(const markup_document *m, const markup_item *item) {
    const markup_label *labels = (const markup_label *)(const void *)m->labels.data;
    size_t n = m->labels.size / sizeof *labels, index = (size_t)(item - m->items);
    if (!item->has_label) return NULL;
    return labels + markup_before(&labels->item, sizeof *labels, n, index);
}

/* Appends an item as it is in the document; a link whose text was its label gets the label. */
static void markup_copy(markup_document *m, const markup_item *item, text_buffer *out) {
    const markup_label *name = markup_label_of(m, item);
    const char c = (char)item->c;
    size_t i, k, n = name ? name->n : 0, from = out->size;
    uint32_t unseen;
    if (item->kind <= MARKUP_POINT && m->text[item->begin] == '&' &&
        markup_entity_at(m->text + item->begin, item->end - item->begin, &unseen) &&
        around_is_unseen(unseen)) {
        protect_append_char(out, unseen); /* a mark of the writing direction */
        return;
    }
    if (m->is_ass && m->text[item->begin] == '{' && m->text[item->end - 1] == '}' && !name) {
        n = markup_put_overrides(m, item->begin, item->end, out);
        if (n && !m->n_syllables) m->syllables = item->begin;
        m->n_syllables += n;
        return;
    }
    if (item->kind <= MARKUP_CLOSE && protect_in("*_", (unsigned char)item->c)) {
        for (i = item->begin; i < item->end; i++) text_buffer_append(out, &c, 1);
        return;
    }
    for (i = n, k = out->size; i > 0 && k > 0; i--, k--) { /* has the link's text changed? */
        const char *label = m->text + name->begin;
        if (markup_is_space(out->data[k - 1]) && markup_is_space(label[i - 1])) {
            while (i > 1 && markup_is_space(label[i - 2])) i--;
            while (k > 1 && markup_is_space(out->data[k - 2])) k--;
        } else if (markup_small(out->data[k - 1]) != markup_small(label[i - 1])) break;
    }
    if (n && !(i == 0 && k > 0 && out->data[k - 1] == '[')) {
        m->n_full++;
        text_buffer_append(out, "][", 2);
        markup_copy_part(m, name->begin, name->begin + n, out);
        text_buffer_append(out, "]", 1);
    } else {
        m->n_full += n && item->end - item->begin > 3; /* ][label], and not ][] or ] */
        markup_copy_part(m, item->begin, item->end, out);
    }
    markup_no_breaks(m, from, out);
}

/* Appends the translation from *from up to `to`, and moves *from there. */
static void markup_text_to(markup_document *m, const markup_translation *t, size_t *from, size_t to,
                           text_buffer *out) {
    if (to <= *from) return;
    if (m->owes && !markup_is_space(t->text[*from]) &&
        (m->owes == 1 || (out->size && !markup_is_space(out->data[out->size - 1]))))
        text_buffer_append(out, m->owes == 1 ? "\n" : " ", 1);
    m->owes = m->opened = 0;
    markup_encode(m, t, *from, to, out);
    *from = to;
}

/* Appends a space between two parts of a sentence: in blocks of lines, one where a line may end. */
static void markup_put_space(const markup_document *m, text_buffer *out) {
    int in_lines = m->n_blocks && m->blocks[m->block].form != MARKUP_HTML;
    text_buffer_append(out, in_lines ? "\n" : " ", 1);
}

/* Appends the whitespace of the document before or behind an item, or a space if it has none
   there. */
static void markup_put_blank(const markup_document *m, size_t begin, size_t end, text_buffer *out) {
    if (begin == end || (m->n_blocks && m->blocks[m->block].form != MARKUP_HTML))
        markup_put_space(m, out);
    else text_buffer_append(out, m->text + begin, end - begin);
}

/* Appends the spaces behind an item that the plain text does not have. */
static void markup_put_behind(const markup_document *m, const markup_item *item, text_buffer *out) {
    size_t n = item->n_blank < MARKUP_BLANKS ? item->n_blank
                                             : markup_blank_end(m, item->end) - item->end;
    if (m->n_blocks && m->blocks[m->block].form != MARKUP_HTML && n == 1) markup_put_space(m, out);
    else text_buffer_append(out, m->text + item->end, n);
}

/* Returns whether the end of a line of a cue would make an empty line, where many readers end the
   cue. */
static int markup_is_empty_line(const markup_document *m, const markup_item *item,
                                const text_buffer *out) {
    size_t from = m->sentences[m->next - 1].from, i;
    char last = out->size ? out->data[out->size - 1] : from ? m->text[from - 1] : '\n';
    if ((last != '\n' && last != '\r') || m->text[item->begin] == '\\') return 0;
    for (i = item->begin; i + 3 <= item->end; i++)
        if (memcmp(m->text + i, "-->", 3) == 0) return 0; /* the next cue */
    return 1;
}

/* Writes a node's tag before its words. */
static void markup_enter(markup_document *m, const markup_translation *t, const markup_node *node,
                         size_t *from, text_buffer *out) {
    const markup_sentence *s = &m->sentences[m->next - 1];
    markup_item *item = m->items;
    int is_begin, is_spaced, is_copy;
    size_t begin = m->words[node->low].begin, end = node->low ? m->words[node->low - 1].end : 0, at;
    uint32_t next;
    if (node->item == (size_t)MARKUP_NONE) return;
    item += node->item;
    is_copy = item->kind == MARKUP_COPY;
    is_spaced = item->space_before || (is_copy && item->at <= s->begin);
    if (is_copy && m->surrounds && item->at && m->has_spaces) {
        /* 我在{city} has no spaces, but "in {city}" has. A note behind a stop has none. */
        const uint32_t before = markup_character(m, item->at - 1);
        is_spaced |= character_is_wide(before) &&
                     !character_is(before, TFM_CHARACTER_STOP | TFM_CHARACTER_CLOSING) &&
                     !tfm_space_after(tfm_text_make(s->text, s->size)) &&
                     tfm_space_after(tfm_text_make(t->text, t->size));
    }
    is_begin = item->kind == MARKUP_OPEN    ? item->space_before || m->plain.data[item->at] != ' '
               : item->kind == MARKUP_CLOSE ? item->space_before
                                            : !item->is_line && !item->is_blank && is_spaced;
    markup_text_to(m, t, from, is_begin ? begin : end, out);
    if (item->is_line && out->size > m->begun && out->data[out->size - 1] == ' ') out->size--;
    if ((item->is_line || item->is_blank) && *from < begin)
        *from = begin;                      /* the end of the line replaces the space */
    if (is_copy && !is_spaced && out->size) /* no word is glued to a placeholder */
        is_spaced = !markup_is_word_byte(m, item->at - 1) &&
                    out->data[out->size - 1] != m->text[item->begin - 1] &&
                    markup_is_word(protect_before(out->data, out->size));
    if ((is_copy || item->kind == MARKUP_POINT || item->kind == MARKUP_CUT) && !item->is_line &&
        is_spaced && m->has_spaces && *from && !m->opened &&
        !markup_is_space(out->data[out->size - 1])) {
        for (at = item->begin; at > 0 && markup_is_space(m->text[at - 1]);) at--;
        markup_put_blank(m, at, item->begin, out);
    }
    if (item->kind == MARKUP_OPEN && node->close != node->item && item->c)
        markdown_choose(m, t, node, out);
    if (item->is_line && markup_is_empty_line(m, item, out)) return;
    markup_copy(m, item, out);
    m->opened = item->kind == MARKUP_OPEN;
    if (*from < t->size &&
        !(item->n_blank == 1 && protect_in(",.;:!?)", (unsigned char)t->text[*from]) &&
          !(item->end + 1 < m->size && m->text[item->end + 1] == t->text[*from])))
        markup_put_behind(m, item, out);
    if (item->kind == MARKUP_OPEN && !*from && item->at < s->begin && item->end < m->size &&
        markup_is_space(m->text[item->end])) /* One.<b> Two</b> has its space inside the tag */
        markup_put_blank(m, item->end, markup_blank_end(m, item->end), out);
    if (*from == t->size || !m->has_spaces || markup_is_space(out->data[out->size - 1])) return;
    (void)tfm_character_next(t->text + *from, t->size - *from, &next);
    if ((is_copy || (item->kind == MARKUP_POINT && !item->is_blank)) && item->space_behind &&
        (!protect_in(" ,.;:!?)]}", (unsigned char)t->text[*from]) ||
         (t->text[*from] != ' ' && (at = markup_blank_end(m, item->end)) > item->end &&
          at < m->size && m->text[at] == t->text[*from])))
        markup_put_space(m, out);
    else if (is_copy && !item->space_behind && markup_is_word(next)) {
        size_t last = node->item, after = last + 1;
        for (; after < s->last && m->items[after].kind == MARKUP_CLOSE &&
               m->items[after].at == item->at && m->items[after].begin == m->items[last].end;)
            last = after++;
        if (after < s->last && m->items[after].at == item->at &&
            m->items[after].begin == m->items[last].end)
            return;
        is_spaced = markup_blank_end(m, m->items[last].end) > m->items[last].end;
        if (!is_spaced && markup_alike(t->text + *from, m->plain.data + item->at, t->size - *from))
            return;
        if (last == node->item || m->words[node->low].inner == node->parent)
            markup_put_space(m, out);     /* {name}s Hund */
        else if (!is_spaced) m->owes = 2; /* behind the closing tag */
    }
}
static void markup_leave(markup_document *m, const markup_translation *t, const markup_node *node,
                         size_t *from, text_buffer *out) {
    const markup_sentence *s = &m->sentences[m->next - 1];
    const markup_item *close;
    size_t at;
    if (node->high > node->low) markup_text_to(m, t, from, m->words[node->high - 1].end, out);
    if (node->close == node->item) return;
    close = m->items + node->close;
    if (close->at > s->begin + s->size && *from == t->size) {
        m->spaced = 0;
        for (at = close->begin; at > 0 && markup_is_space(m->text[at - 1]);) at--;
        if (at < close->begin || close->space_before) markup_put_blank(m, at, close->begin, out);
    } else if (close->space_before && node->high > node->low)
        markup_text_to(m, t, from, m->words[node->high].begin, out);
    markup_copy(m, close, out);
    if (*from < t->size && t->text[*from] != ' ') markup_put_behind(m, close, out);
    if (close->is_line) m->owes = 1;
}

/* Appends a translation with its tags. Sorts the nodes by parent, so that siblings are
   neighbours. */
static void markup_weave(markup_document *m, const markup_translation *t, size_t n,
                         text_buffer *out) {
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

/* Adds the text of m->values from byte `at` on, which replaces bytes from to to - 1 of the
   document. */
static void markup_add_made(markup_document *m, size_t from, size_t to, size_t at) {
    void *grown = m->made;
    size_t i = m->n_made;
    (void)markup_reserve(m, &grown, &m->room_made, i + 1, sizeof *m->made);
    m->made = (markup_value *)grown;
    m->broken |= m->values.broken;
    if (m->broken) return;
    for (m->n_made++; i > 0 && m->made[i - 1].from > from; i--) m->made[i] = m->made[i - 1];
    m->made[i].from = from, m->made[i].to = to;
    m->made[i].at = at, m->made[i].size = m->values.size - at;
}

/* Returns whether a text has the form of a language's code in HTML: letters, then letters or digits
   with "-" before them, as in de and zh-Hans. "_", which models have, also counts as "-". */
static int markup_is_language(const char *text) {
    size_t i, n = 0, least = 2; /* letters of the first part; 1 of others */
    for (i = 0; text[i] && i < 36; i++) {
        unsigned char c = (unsigned char)text[i];
        if (protect_in("-_", c)) {
            if (n < least) return 0;
            n = 0, least = 1;
        } else if (++n > 8 || !(protect_is_letter(c) || (least == 1 && protect_is_digit(c))))
            return 0;
    }
    return n >= least && !text[i];
}

/* Prepares to write the document from its beginning. */
static void markup_begin(markup_document *m) {
    const char *first = m->size ? (const char *)memchr(m->text, '\n', m->size) : NULL;
    size_t i;
    m->next = m->at = m->block = m->hard = m->link = m->n_made = m->values.size = 0,
    m->in_block = 0;
    m->n_left = m->n_syllables = m->n_wide = m->cue = m->fitted = m->woven.size = 0;
    m->newline = first && first > m->text && first[-1] == '\r' ? "\r\n" : "\n";
    for (i = 0; m->lang && markup_is_language(m->lang) && i < m->n_langs; i++) {
        size_t at = m->values.size, k;
        text_buffer_append(&m->values, m->lang, strlen(m->lang));
        for (k = at; k < m->values.size; k++)
            if (protect_in("-_", (unsigned char)m->values.data[k]))
                m->values.data[k] = (char)m->langs[i].at;
        markup_add_made(m, m->langs[i].from, m->langs[i].to, at);
    }
}

/* Appends bytes up to `end` of the document's current line to m->woven. A link whose text was its
   label gets the label. */
static void markup_keep_line(markup_document *m, size_t end) {
    const markup_item *item;
    size_t at = m->at;
    for (; m->link < m->n_items && m->items[m->link].begin < end; m->link++) {
        item = &m->items[m->link];
        if (!item->has_label || item->begin < at || item->end > end) continue;
        markup_source(m, at, item->begin, &m->woven);
        markup_copy(m, item, &m->woven);
        at = item->end;
    }
    if (end > at) markup_source(m, at, end, &m->woven);
}

/* Appends the current block's source up to byte `to` to m->woven: "\n" is a space where a line may
   end, "\r" is a hard break. */
static void markup_keep(markup_document *m, size_t to) {
    size_t i = markup_break_at(m, m->at), from, last;
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
        markup_keep_line(m, end);
        markup_no_breaks(m, from, &m->woven);
        if (is_break) {
            last = m->breaks[i].end;
            text_buffer_append(&m->woven, item < m->n_items ? "\r" : "\n", 1);
            text_buffer_append(&m->ends, (const char *)&end, sizeof end);
            text_buffer_append(&m->ends, (const char *)&last, sizeof last);
        }
        m->at = is_break ? m->breaks[i++].end : to;
    }
}

/* Appends what a further line of a block has below byte `at` of the first line's prefix: ">" or a
   tab is kept, a list's marker becomes spaces. In Markdown a tab becomes spaces; a space after ">"
   belongs to it. */
static void markup_prefix(const markup_document *m, const markup_block *b, size_t at,
                          text_buffer *out) {
    char c = m->text[at];
    size_t n = 1, column = 0, i;
    if (c == '>' || (c == '\t' && b->form != MARKUP_MARKDOWN)) {
        text_buffer_append(out, &c, 1);
        return;
    }
    for (i = b->line; c == '\t' && i <= at; i++, column += n)
        n = m->text[i] == '\t' ? 4 - column % 4 : 1;
    if (at > b->line && m->text[at - 1] == '>' && !protect_in("> \t", (unsigned char)c)) n++;
    while (n-- > 0) text_buffer_append(out, " ", 1);
}

/* Writes a block, wrapped in lines of at most m->width columns. */
static void markup_fold(markup_document *m, const markup_block *b, text_buffer *out) {
    const char *text = m->woven.data;
    size_t size = m->woven.size, at, end, i, n = 0, width, hard = m->first_hard, escaped;
    size_t first = markup_column(m->text + b->line, b->begin - b->line, 0), column = first;
    size_t next = b->next_line
                      ? markup_column(m->text + b->next_line, b->next_text - b->next_line, 0)
                      : first;
    int is_first = b->is_line; /* the next word begins a line, where Markdown might see a block */
    size_t begun = out->size;  /* where the first line begins, until it ends */
    for (at = 0; at < size; at = end) {
        char before = text[at];
        uint32_t c, last = 0;
        at += before == '\n' || before == '\r';
        for (end = at; end < size && text[end] != '\n' && text[end] != '\r'; end += i, last = c) {
            i = tfm_character_next(text + end, size - end, &c);
            if (b->form == MARKUP_WRAPPED && character_is_wide(last) && character_is_wide(c) &&
                !character_is(c, TFM_CHARACTER_STOP | TFM_CHARACTER_COMMA | TFM_CHARACTER_CLOSING))
                break; /* a line may end between characters of a script without spaces */
        }
        width = markup_column(text + at, end - at, 0);
        while (before == '\r' && hard < m->n_items && m->items[hard].c != '\n') hard++;
        if (before == '\r' && hard == m->n_items) before = '\n';
        if (before == '\r') {
            n = m->items[hard].end, i = m->items[hard].begin;
            text_buffer_append(out, m->text + i, n - i);
            while (m->text[n - 1] != '\n') n--;
            column = markup_column(m->text + n, m->items[hard].end - n, 0);
            hard++, is_first = 1, begun = (size_t)-1;
        } else if ((before == '\n' || (at && b->form == MARKUP_WRAPPED)) && b->is_folded &&
                   m->width && column > first && end > at &&
                   column + (before == '\n') + width > m->width &&
                   !markdown_hazard(text + at, size - at) &&
                   !markdown_html_kind(text + at, size - at, 1) &&
                   !(b->is_line && begun < out->size && /* a line that is only a tag */
                     markdown_html_kind(out->data + begun, out->size - begun, 0))) {
            text_buffer_append(out, m->newline, strlen(m->newline));
            for (i = b->line; i < b->begin && !b->next_line; i++) markup_prefix(m, b, i, out);
            if (b->next_line)
                text_buffer_append(out, m->text + b->next_line, b->next_text - b->next_line);
            column = next, begun = (size_t)-1;
        } else if (before == '\n') text_buffer_append(out, " ", 1), column++;
        escaped = is_first ? markdown_hazard(text + at, size - at) : 0;
        if (escaped) {
            text_buffer_append(out, text + at, escaped - 1);
            for (i = at + escaped - 1; i < end; i++) { /* "\** a" would close an emphasis */
                text_buffer_append(out, "\\", 1), text_buffer_append(out, text + i, 1);
                if (!protect_in("*_", (unsigned char)text[i]) || text[i + 1] != text[i]) break;
            }
            if (i < end) text_buffer_append(out, text + i + 1, end - i - 1);
        } else text_buffer_append(out, text + at, end - at);
        column += width + (escaped > 0), is_first = 0;
    }
}

/* Writes a block with the lines of the source and returns 1, if its words are those of the source,
   apart from their case. Returns 0 otherwise. */
static int markup_unfold(markup_document *m, const markup_block *b, text_buffer *out) {
    text_buffer made = m->woven;
    size_t at = m->at, hard = m->hard, link = m->link, begun = out->size, i, k, n;
    const size_t *end;
    int same;
    if (m->wrap) return 0;
    memset(&m->woven, 0, sizeof m->woven);
    m->ends.size = 0, m->at = b->begin, m->hard = m->first_hard, m->link = m->first_link;
    markup_keep(m, b->end);
    m->broken |= m->woven.broken || m->ends.broken;
    same = !m->broken;
    end = (const size_t *)(const void *)m->ends.data;
    for (i = k = 0; same && i < m->woven.size && k < made.size; i += n, k += n) {
        const char *c = m->woven.data + i;
        for (n = 0; protect_in(" \t\f", (unsigned char)c[n]);) n++;
        if (n && (c[n] == '\n' || c[n] == '\r')) { /* spaces at the end of a line */
            text_buffer_append(out, c, n), c += n, i += n;
            while (k < made.size && made.data[k] == ' ') k++;
            if (k == made.size) break;
        }
        n = protect_starts(c, m->woven.size - i, "\xC2\xAD") ? 2
            : protect_starts(c, m->woven.size - i, "&shy;")  ? 5
                                                             : 0;
        if (n && memcmp(c, made.data + k, 2) != 0) { /* soft hyphens have left */
            if (c[n] == '\n') text_buffer_append(out, c, n);
            i += n, n = 0;
            continue;
        }
        if (b->form == MARKUP_WRAPPED) { /* lines that were joined without a space */
            n = *c == '\n'                                               ? 0
                : protect_starts(c, m->woven.size - i, "-\n")            ? 1
                : protect_starts(c, m->woven.size - i, "\xE2\x80\x90\n") ? 3
                                                                         : 4;
            if (n < 4 && !markup_is_space(made.data[k]) && made.data[k] != *c) {
                text_buffer_append(out, c, n);
                text_buffer_append(out, m->text + end[0], end[1] - end[0]), end += 2;
                i += n + 1, n = 0;
                continue;
            }
        }
        n = 1;
        if (*c == '\n' || *c == '\r') {
            same = markup_is_space(made.data[k]);
            text_buffer_append(out, m->text + end[0], end[1] - end[0]), end += 2;
        } else if (protect_in(" \t\f", (unsigned char)*c)) {
            size_t spaces = 1; /* of two spaces beside a tag one was written */
            same = markup_is_space(made.data[k]);
            while (protect_in(" \t\f", (unsigned char)c[n])) n++;
            text_buffer_append(out, c, n), i += n - 1;
            while (same && k + spaces < made.size && made.data[k + spaces] == ' ') spaces++;
            k += spaces - 1, n = 1;
        } else {
            size_t left = m->woven.size - i < made.size - k ? m->woven.size - i : made.size - k;
            n = markup_alike(c, made.data + k, left), same = n > 0;
            text_buffer_append(out, made.data + k, n);
        }
    }
    same = same && i == m->woven.size && k == made.size;
    if (!same) out->size = begun;
    text_buffer_free(&m->woven);
    m->woven = made, m->at = at, m->hard = hard, m->link = link;
    return same;
}

/* Completes the current block and writes it. Copies the source of a block without a translation,
   and of one in Markdown that would be read differently. */
static void markup_finish(markup_document *m, text_buffer *out) {
    const markup_block *b = m->in_block ? &m->blocks[m->block] : NULL;
    if (!b) return;
    markup_keep(m, b->end);
    m->in_block = 0;
    if (m->woven.broken) m->broken = 1;
    if (m->broken) return;
    if (!m->is_made) markup_source(m, b->begin, b->end, out);
    else if (b->form == MARKUP_MARKDOWN &&
             !markdown_is_same(m, m->first_link, b->begin, b->end, 0, m->n_full)) {
        if (!m->n_left++) m->left = b->begin;
        markup_source(m, b->begin, b->end, out);
    } else if (b->form == MARKUP_HTML) text_buffer_append(out, m->woven.data, m->woven.size);
    else if (!markup_unfold(m, b, out)) markup_fold(m, b, out);
}

/* Writes the subtitles up to byte `to`, where a cue begins, or the document ends. */
static void markup_flush_cues(markup_document *m, size_t to, text_buffer *out) {
    markup_source(m, m->at, to, &m->woven), m->at = to;
    m->broken |= m->woven.broken;
    if (!m->broken) markup_fit_cues(m, m->fitted, to, &m->woven, out);
    m->fitted = to, m->woven.size = 0;
}

/* Writes the document up to the next sentence; within a block, and in subtitles, appends to
   m->woven. */
static void markup_come(markup_document *m, const markup_sentence *s, text_buffer *out) {
    if (m->n_blocks && s->from >= m->blocks[m->block].end) markup_finish(m, out);
    while (m->block + 1 < m->n_blocks && m->blocks[m->block + 1].begin <= s->from) m->block++;
    if (m->n_blocks && !m->in_block) {
        const markup_block *b = &m->blocks[m->block];
        markup_source(m, m->at, b->begin, out);
        m->at = b->begin, m->woven.size = 0, m->in_block = 1, m->is_made = 0, m->n_full = 0;
        while (m->hard < m->n_items && m->items[m->hard].begin < m->at) m->hard++;
        m->first_hard = m->hard;
        while (m->link < m->n_items && m->items[m->link].begin < m->at) m->link++;
        m->first_link = m->link;
    }
    if (m->n_blocks) markup_keep(m, s->from);
    else if (m->form == MARKUP_SRT) {
        const markup_at *cues = (const markup_at *)(const void *)m->cues.data;
        const size_t n = m->cues.size / sizeof *cues;
        while (m->cue < n && cues[m->cue] <= s->from) m->cue++;
        if (m->cue && cues[m->cue - 1] > m->fitted && cues[m->cue - 1] >= m->at)
            markup_flush_cues(m, cues[m->cue - 1], out);
        markup_source(m, m->at, s->from, &m->woven);
    } else markup_source(m, m->at, s->from, out);
}

/* Keeps a sentence's translation in an attribute, which was appended to m->values from byte `at`
   on. Characters that would end the value become references. */
static void markup_keep_value(markup_document *m, const markup_sentence *s, size_t at) {
    size_t i, from = at;
    text_buffer whole;
    memset(&whole, 0, sizeof whole);
    for (i = at; i < m->values.size; i++) {
        unsigned char c = (unsigned char)m->values.data[i];
        if (s->quote == ' '   ? !protect_in(" \t\n\r\f\"'`=/", c)
            : s->quote == ']' ? !protect_in("[]\\`*_", c) /* in Markdown */
                              : c != (unsigned char)s->quote && !(m->md && c == '\\'))
            continue;
        text_buffer_append(&whole, m->values.data + from, i - from);
        text_buffer_format(&whole, c == '"' ? "&quot;" : "&#%d;", (int)c);
        from = i + 1;
    }
    text_buffer_append(&whole, m->values.data + from, m->values.size - from);
    m->values.size = at;
    text_buffer_append(&m->values, whole.data, whole.size);
    m->broken |= whole.broken;
    text_buffer_free(&whole);
    markup_add_made(m, s->from, s->to, at);
}

/* Returns whether what is written for a sentence depends on the tokens of its translation: it has
   items, or the document writes its characters in another way than the plain text. */
static inline int markup_needs_tokens(const markup_document *m, const markup_sentence *s) {
    size_t i;
    if (m->form != MARKUP_HTML || m->n_blocks || s->first < s->last || s->is_cleaned ||
        s->to - s->from != s->size || memcmp(m->text + s->from, s->text, s->size) != 0)
        return 1;
    for (i = 0; i < s->size; i++)
        if (protect_in("&<>", (unsigned char)s->text[i])) return 1;
    return 0;
}

/* Counts a sentence that stays as it is, because its translation would have other marks. */
static void markup_note(markup_document *m, const markup_sentence *s) {
    if (!m->n_left++) m->left = s->from;
}

/* Returns whether a space belongs before the translation of a sentence, because its source is of a
   script without spaces and stands right behind another sentence or a label. */
static int markup_needs_space(const markup_document *m, const markup_translation *t,
                              const markup_sentence *s, const text_buffer *out) {
    const uint32_t before = s->begin ? protect_before(m->plain.data, s->begin) : ' ';
    return before > ' ' && !s->quote && !(out->size && markup_is_space(out->data[out->size - 1])) &&
           !character_is(before, TFM_CHARACTER_SPACE | TFM_CHARACTER_OPENING) &&
           !tfm_space_after(tfm_text_make(s->text, s->size)) &&
           tfm_space_after(tfm_text_make(t->text, t->size));
}

/* Appends the document up to the end of the next sentence, which is translated by t. A block is
   appended only after its last sentence. Returns 0 if there is no memory. */
static int markup_put(markup_document *m, const markup_translation *t, text_buffer *out) {
    const markup_sentence *s = &m->sentences[m->next++];
    markup_translation fine;
    size_t i, n, nodes = 0, before, full;
    int is_same, is_part = 0;
    text_buffer *to = s->quote                               ? &m->values
                      : m->n_blocks || m->form == MARKUP_SRT ? &m->woven
                                                             : out;
    if (!s->quote) markup_come(m, s, out);
    else if (m->n_made && m->made[m->n_made - 1].to <= m->at) m->n_made = m->values.size = 0;
    if (m->surrounds && t->text && markup_needs_space(m, t, s, to)) text_buffer_append(to, " ", 1);
    before = m->begun = to->size, full = m->n_full;
    m->has_brackets = m->md && m->md->labels.size;
    for (i = s->first; i < s->last; i++) {
        m->has_brackets |= m->items[i].c == '[';
        is_part |= m->items[i].has_label && m->items[i].match < s->first; /* a link's end */
    }
    is_same = !m->rewrites && !s->is_cleaned && t->text && t->size == s->size &&
              memcmp(t->text, s->text, s->size) == 0;
    for (m->spells = 2; t->text && !is_same && !m->broken && !nodes && m->spells >= 0;
         m->spells--) {
        fine = markup_refine(m, t, s);
        if (!m->broken) markup_divide_initial(m, s, &fine);
        n = m->broken ? 0 : markup_words(m, &fine);
        markup_index(m, &fine, n);
        if (n && !m->broken) nodes = markup_place_items(m, &fine, s, n);
        m->owes = m->opened = 0, m->spaced = 1;
        m->has_spaces = tfm_space_after(tfm_text_make(t->text, t->size)) ||
                        !tfm_space_after(tfm_text_make(s->text, s->size));
        if (!nodes || m->broken) break;
        if (s->first && m->items[s->first - 1].kind == MARKUP_COPY &&
            m->items[s->first - 1].end == s->from &&
            !markup_alike(t->text, s->text, s->size < t->size ? s->size : t->size))
            text_buffer_append(to, " ", 1); /* {name}s Hund: no word is glued to a placeholder */
        for (i = nodes; i-- > 1;) { /* the spaces in One.<b> Two</b> stay, wherever the tags go */
            const markup_node *node = &m->nodes[i];
            if (node->item != s->first || m->items[s->first].at >= s->begin || !node->low) continue;
            if (to->size && !markup_is_space(to->data[to->size - 1]))
                text_buffer_append(to, " ", 1);
        }
        markup_weave(m, &fine, nodes, to);
        if (s->first < s->last && m->items[s->last - 1].at > s->begin + s->size &&
            s->to < m->size && !markup_is_space(m->text[s->to]) && m->spaced)
            text_buffer_append(to, " ", 1);
        if (m->n_blocks && !m->woven.broken && !m->broken && !s->quote && !is_part &&
            m->blocks[m->block].form == MARKUP_MARKDOWN &&
            !markdown_is_same(m, s->first, s->from, s->to, before, m->n_full - full))
            nodes = 0, m->woven.size = before, m->n_full = full; /* once more, with backslashes */
    }
    if (t->text && !is_same && !nodes) markup_note(m, s);
    for (i = s->first; nodes && i < s->last; i++)
        if (markup_is_syllable(m, &m->items[i]) && !m->n_syllables++)
            m->syllables = m->items[i].begin;
    if (s->quote) {
        if (nodes) markup_keep_value(m, s, before);
        return !m->broken;
    }
    m->is_made |= nodes > 0, m->at = s->from;
    if (!nodes && m->n_blocks) markup_keep(m, s->to);
    else if (!nodes) markup_source(m, s->from, s->to, to);
    m->at = s->to;
    return !m->broken && !m->woven.broken && !out->broken;
}

/* Appends the rest of the document after its last sentence. Returns 0 if there is no memory. */
static int markup_end(markup_document *m, text_buffer *out) {
    markup_finish(m, out);
    if (m->form == MARKUP_SRT) markup_flush_cues(m, m->size, out);
    else markup_source(m, m->at, m->size, out);
    text_buffer_append(out, "", 0); /* an empty document has an empty text, and not NULL */
    return !m->broken && !out->broken;
}

/* Appends a line for each kind of text that stays in the language of the source, and of other
   things that a user should know, after markup_end. */
static inline void markup_left(const markup_document *m, text_buffer *out) {
    const struct {
        size_t n, at;
        const char *text;
    } notes[] = {
        {m->n_left, m->left,
         "%ld sentences stay as they are, the first in line %ld: their marks would mean something "
         "else in the translation\n"},
        {m->n_foreign, m->foreign,
         "%ld texts stay as they are, the first in line %ld: the file says that they are in "
         "another "
         "language than the model reads (--all-languages translates them)\n"},
        {m->n_skipped, m->skipped,
         "%ld parts in HTML inside quotes stay as they are, the first in line %ld\n"},
        {m->n_inner, m->inner,
         "%ld documents in attributes and drawings with text stay as they are, the first in line "
         "%ld\n"},
        {m->n_unread, m->unread,
         "%ld lines stay as they are, the first in line %ld: their frames have too many digits\n"},
        {m->n_syllables, m->syllables,
         "%ld times of sung syllables are dropped, the first in line %ld: a translation has other "
         "syllables\n"},
        {m->n_wide, m->wide,
         "%ld cues have more text than their lines should have, the first in line %ld\n"}};
    size_t i, k, line;
    for (i = 0; i < sizeof notes / sizeof *notes; i++) {
        for (line = 1, k = 0; notes[i].n && k < notes[i].at; k++) line += m->text[k] == '\n';
        if (notes[i].n) text_buffer_format(out, notes[i].text, (long)notes[i].n, (long)line);
    }
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
                 void *user, text_buffer *out) {
    markup_document m;
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
