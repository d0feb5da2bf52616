/* paragraph.h: takes a text apart into the sentences that a model translates and what stands around
   them (around.h), and makes the translated text of them.

       paragraph p = {0};
       p.flags = ...;
       if (!paragraph_read(&p, text, size)) ... no memory
       for (i = 0; i < p.n; i++) {
           tfm_text source = paragraph_source(&p, i);
           if (source.size) ... translate it
               paragraph_put(&p, i, translation, size, 0, NULL, NULL, NULL);
       }
       paragraph_join(&p, &out);
       paragraph_free(&p);

   A part without paragraph_put stays as it is. The text must stay in memory until paragraph_join.

   A program that translates by two models, or whose sentences are those of a document, does it in
   two steps. paragraph_read with PARAGRAPH_DIVIDED finds the sentences of a text, and for each
   model paragraph_read_one takes a sentence apart. */
#ifndef PARAGRAPH_H
#define PARAGRAPH_H

#include "around.h"

/* A sentence of a text, with what is around it. These are slices of the text. */
typedef struct paragraph_part {
    tfm_text between;      /* whitespace between the part before and this one */
    tfm_text kept[2];      /* text in front of the sentence and behind it that stays */
    tfm_text sentence;     /* the sentence; empty: there is nothing but kept text */
    text_buffer labelled;  /* the sentence with the text's >>code<< before it, if it needs one */
    around_sentence inner; /* what is taken out of the sentence */
    tfm_text source;       /* what the model gets; empty: there is nothing to translate */
    int is_divided;        /* the first part of a sentence that was too long for a model */
    int is_copied;         /* a word that is too long, or data */
    int is_translated;     /* paragraph_put was called: `made` is the translation */
    text_buffer made;
} paragraph_part;

/* What paragraph_read does with a text. */
enum {
    PARAGRAPH_ALL,     /* keeps what is around sentences, and takes out what is in them */
    PARAGRAPH_DIVIDED, /* keeps what is around sentences */
    PARAGRAPH_PLAIN    /* finds sentences as tfm_sentence_next does, and nothing else */
};

typedef struct paragraph {
    int flags;            /* of around_reader */
    int mode;             /* PARAGRAPH_ALL ... */
    int labels;           /* the text may begin with >>code<<, which each sentence gets */
    const char *language; /* of the translation, or NULL: decides about quotation marks */
    around_counter count; /* tokens of a word, for sentences in capitals; NULL: no words change */
    void *user;           /* of count */
    tfm_text text;        /* the text that was read */
    paragraph_part *parts;
    size_t n, room;
} paragraph;

/* Returns the bytes of ">>code<<" at the begin of a text, with whitespace before it, or 0. */
static inline size_t paragraph_label(const char *text, size_t size) {
    size_t i = 0;
    while (i < size && text[i] == ' ') i++;
    if (size - i < 5 || memcmp(text + i, ">>", 2) != 0) return 0;
    for (i += 2; i + 1 < size && (unsigned char)text[i] > ' '; i++)
        if (memcmp(text + i, "<<", 2) == 0) return i + 2;
    return 0;
}

/* Adds a part, with the buffers of an earlier text's part. Returns NULL if there is no memory. */
static inline paragraph_part *paragraph_add(paragraph *p) {
    enum { MOST = 1 << 12 }; /* bytes of a buffer that are kept for the next text */
    paragraph_part *part;
    if (p->n == p->room) {
        const size_t room = 2 * p->room + 4;
        part = (paragraph_part *)realloc(p->parts, room * sizeof *part);
        if (!part) return NULL;
        memset(part + p->room, 0, (room - p->room) * sizeof *part);
        p->parts = part, p->room = room;
    }
    part = &p->parts[p->n++];
    part->between.size = part->kept[0].size = part->kept[1].size = part->sentence.size = 0;
    part->source.size = 0, part->is_divided = part->is_copied = part->is_translated = 0;
    text_buffer_clear(&part->labelled, MOST), text_buffer_clear(&part->made, MOST);
    return part;
}

/* Sets what the model gets for a part. Returns 0 if there is no memory. */
static inline int paragraph_take(paragraph *p, paragraph_part *part, tfm_text label) {
    tfm_text text = part->sentence;
    if (p->mode == PARAGRAPH_ALL ? !around_has_letter(text.data, text.size) : !text.size) return 1;
    if (label.size) {
        text_buffer_append(&part->labelled, label.data, label.size);
        text_buffer_append(&part->labelled, text.data, text.size);
        if (part->labelled.broken) return 0;
        text = tfm_text_make(part->labelled.data, part->labelled.size);
    }
    part->source = text;
    if (p->mode != PARAGRAPH_ALL) return 1;
    if (!around_take(&part->inner, text.data, text.size)) return part->source.size = 0, 1;
    if (p->count) around_capitalize(&part->inner, p->count, p->user);
    part->source = tfm_text_make(part->inner.clean.data, part->inner.clean.size);
    return !part->inner.clean.broken;
}

/* Reads the next piece of a text, as its mode asks for it. */
static int paragraph_next(const paragraph *p, around_reader *r, around_piece *piece) {
    tfm_text sentence;
    if (p->mode != PARAGRAPH_PLAIN) return around_next(r, piece);
    memset(piece, 0, sizeof *piece);
    if (!tfm_sentence_next(tfm_text_make(r->text, r->size), &r->at, &sentence)) return 0;
    piece->text = sentence.data, piece->size = sentence.size;
    return 1;
}

/* Takes a text apart. Returns 0 if there is no memory. */
static inline int paragraph_read(paragraph *p, const char *text, size_t size) {
    around_reader r;
    around_piece piece;
    size_t end = 0, n_label = p->labels ? paragraph_label(text, size) : 0;
    memset(&r, 0, sizeof r);
    r.text = text, r.size = size, r.flags = p->flags;
    p->text = tfm_text_make(text, size);
    for (p->n = 0; paragraph_next(p, &r, &piece); end = r.at) {
        const size_t begin = (size_t)(piece.text - text);
        paragraph_part *part = paragraph_add(p);
        if (!part) return 0;
        part->between = tfm_text_make(text + end, begin - piece.before - end);
        part->kept[0] = tfm_text_make(piece.text - piece.before, piece.before);
        part->kept[1] = tfm_text_make(piece.text + piece.size, piece.after);
        part->sentence = tfm_text_make(piece.text, piece.size);
        part->is_divided = piece.is_divided, part->is_copied = piece.is_copied;
        if (!piece.is_copied &&
            !paragraph_take(p, part, tfm_text_make(text, p->n > 1 ? n_label : 0)))
            return 0;
    }
    return 1;
}

/* Takes a sentence apart that is known to be one: nothing is around it. Returns 0 if there is no
   memory. */
static inline int paragraph_read_one(paragraph *p, const char *text, size_t size) {
    paragraph_part *part = (p->n = 0, paragraph_add(p));
    if (!part) return 0;
    part->between = part->kept[0] = part->kept[1] = tfm_text_make(text, 0);
    part->sentence = p->text = tfm_text_make(text, size);
    return paragraph_take(p, part, tfm_text_make(text, 0));
}

/* Returns what the model gets for a part; its size is 0 if there is nothing to translate. */
static inline tfm_text paragraph_source(const paragraph *p, size_t i) { return p->parts[i].source; }

/* Takes the translation of a part: text [size], with its alignment as around_put describes it; n
   may be 0. ends, begins and source_ends become those of what the part has in the text's
   translation, without kept[0], and of the sentence. */
static inline void paragraph_put(paragraph *p, size_t i, const char *text, size_t size, size_t n,
                                 size_t *ends, size_t *begins, size_t *source_ends) {
    paragraph_part *part = &p->parts[i];
    if (p->mode != PARAGRAPH_ALL) text_buffer_append(&part->made, text, size);
    else
        around_put(&part->inner, text, size, n, ends, begins, source_ends, p->language,
                   &part->made);
    part->is_translated = 1;
}

/* Returns whether a space belongs between a label and a translation: only the script of the
   translation has spaces. */
static inline int paragraph_needs_space(tfm_text label, tfm_text source, tfm_text translation) {
    return label.size && (unsigned char)label.data[label.size - 1] > ' ' &&
           !character_is(protect_before(label.data, label.size), TFM_CHARACTER_OPENING) &&
           !tfm_space_after(source) && tfm_space_after(translation);
}

/* Returns whether a text is one part without letters, which stays with the whitespace around it. */
static inline int paragraph_is_kept(const paragraph *p) {
    const paragraph_part *part = p->parts;
    return p->mode == PARAGRAPH_ALL && p->n == 1 && !part->kept[0].size && !part->kept[1].size &&
           !part->is_copied && !around_has_letter(part->sentence.data, part->sentence.size);
}

/* Appends the text made of all parts, with the whitespace that belongs between them. */
static inline void paragraph_join(const paragraph *p, text_buffer *out) {
    static const char *const last[] = {"\xE6\x88\x91", "a"}; /* a letter of either kind of script */
    const size_t begin = out->size;
    size_t i;
    int spaced = 1; /* what tfm_space_after says of all text before */
    if (paragraph_is_kept(p)) {
        text_buffer_append(out, p->text.data, p->text.size);
        return;
    }
    for (i = 0; i < p->n; i++) {
        const paragraph_part *part = &p->parts[i];
        const tfm_text own = part->is_translated ? tfm_text_make(part->made.data, part->made.size)
                                                 : part->sentence;
        const size_t size = part->kept[0].size + own.size + part->kept[1].size;
        if (i && size && out->size > begin) {
            const tfm_text space = tfm_sentence_space(
                tfm_text_make(last[spaced], strlen(last[spaced])), part->between);
            text_buffer_append(out, space.data, space.size);
        } else if (!i && part->kept[0].size) /* the indent of a label */
            text_buffer_append(out, part->between.data, part->between.size);
        text_buffer_append(out, part->kept[0].data, part->kept[0].size);
        if (part->is_translated && paragraph_needs_space(part->kept[0], part->sentence, own))
            text_buffer_append(out, " ", 1);
        text_buffer_append(out, own.data, own.size);
        text_buffer_append(out, part->kept[1].data, part->kept[1].size);
        if (own.size && around_has_letter(own.data, own.size)) spaced = tfm_space_after(own);
        out->broken |= part->made.broken;
    }
}

/* Frees all memory; p can be used again. */
static inline void paragraph_free(paragraph *p) {
    size_t i;
    for (i = 0; i < p->room; i++) {
        around_free(&p->parts[i].inner);
        text_buffer_free(&p->parts[i].labelled), text_buffer_free(&p->parts[i].made);
    }
    free(p->parts);
    p->parts = NULL, p->n = p->room = 0;
}

#endif
