/* input.h: reads lines of input a window at a time, and sorts each window by length.

       input_stream in = {0};
       in.from.file = stdin, in.most = 1000000;
       while (more) {
           more = input_read(&in, &window, 1000);
           ... window.sorted has window.n lines
       }

   A window ends when its lines are many, when they take much memory (one limit for many blank lines
   and few long ones), or when the input pauses, because whoever writes the input may be waiting for
   the answer. */
#ifndef INPUT_H
#define INPUT_H

#include "text/languages.h"
#include "text/paragraph.h"
#include "reader.h"

/* Bytes of a window, and of a line's buffer, whose memory is kept for the next window. */
enum { INPUT_WINDOW = 1 << 22, INPUT_OUT = 1 << 12 };

/* A line has two sides: its source, and its line in the file of --prefix, --drafts or --score. */
enum { INPUT_SOURCE, INPUT_TARGET, INPUT_SIDES };

/* One line of input, or one sentence of a line, with its output and state. */
typedef struct input_item {
    int64_t number;             /* from 1 */
    int32_t sentence;           /* from 1 in each line; 0: the line is not split */
    size_t at[INPUT_SIDES];     /* where its texts begin in the window's text */
    tfm_text text[INPUT_SIDES]; /* valid once the window is read: its text may move before */
    size_t ids[INPUT_SIDES];    /* where its tokens begin in the worker's ids, in bytes */
    int32_t n[INPUT_SIDES];     /* number of its tokens */
    tfm_text around[2];         /* with --column: the row's text before and after the column */
    tfm_text between;           /* the whitespace before the sentence, if it is not the first */
    tfm_text kept[2];           /* text in front of the sentence and behind it that is kept */
    size_t at_kept[2];          /* where they begin in the window's text */
    size_t at_row, n_row;       /* where the row begins in the window's text, and its bytes */
    size_t at_column, n_column; /* the same of its column */
    size_t at_between;          /* where `between` begins in the window's text */
    int32_t columns;            /* number of the row's columns if there are too few, else 0 */
    text_buffer out;            /* the output, without the last newline */
    text_buffer middle;         /* with two models: the first model's output */
    double score;               /* of a sentence, with --scores */
    text_buffer scores;         /* the same of its tokens */
    protect_text safe;          /* with --protect: the spans that are copied */
    around_sentence inner;      /* what is taken out of the sentence */
    text_buffer said;           /* messages for standard error */
    text_buffer tokens;   /* for a document's sentence: a markup_token for each target token */
    text_buffer aligned;  /* with two models: the same of the first model's output */
    const char *encoding; /* encoding_of_line of a source that is not UTF-8 */
    int cut;              /* the line was too long, and its text was dropped */
    int faulty;           /* the line cannot be translated */
    int failed;           /* the line counts for the exit status */
    int done;             /* out is complete */
    int copied;           /* there is nothing to translate: the line is its own translation */
    int is_divided;       /* the first part of a sentence that was too long */
    int is_data;          /* no text of any language: it is copied */
    int is_unknown;       /* it has tokens that the model does not know */
    tfm_text whole;       /* the source before anything was taken out of it */
    languages_look look;  /* whether it seems to be of the translation's language */
    int is_left;          /* it stays as it is, because it is not of the model's language */
} input_item;

/* Lines that are read and sorted together. */
typedef struct input_window {
    text_buffer text[INPUT_SIDES];
    input_item *lines, **sorted;
    size_t n, room, job_lines;
    int64_t taken; /* bytes of the input up to the window's end */
} input_window;

typedef struct input_stream input_stream;
struct input_stream {
    reader_stream from;   /* the input */
    reader_stream beside; /* the file of --prefix, --drafts or --score, if its file is not NULL */
    size_t most;          /* longest line, in bytes; the text of a longer one is dropped */
    int document;         /* lines are paragraphs, which are split into sentences, even into one */
    int splits;           /* lines of several sentences are split */
    int surrounds;        /* what is around sentences is kept: around.h */
    int flags;            /* of around_reader */
    int labels;           /* a line may begin with >>code<<, which its other sentences get, too */
    int64_t unsplit;      /* the first line of several sentences that is not split; -1: not asked */
    int32_t column;       /* column of a table that is translated, from 1; 0: the whole line */
    int unsorted;         /* do not sort windows */
    int64_t n;            /* lines so far */
    const char *uneven;   /* "more" or "fewer": the lines of `beside` than of `from` */
    int fault;            /* errno of the error that ended the input, or 0 */
    /* Appends a line and returns 1, or returns 0 at the end. NULL: lines are read from `from`. */
    int (*next)(input_stream *in, text_buffer *text, int *cut);
};

/* Adds a line to the window, with the buffers of an earlier window's line. Returns NULL if there is
   no memory. */
static input_item *input_add(input_window *w, int64_t number, int32_t sentence) {
    input_item *l;
    int side;
    if (w->n == w->room) {
        size_t room = 2 * w->room + 16;
        l = (input_item *)realloc(w->lines, room * sizeof *l);
        if (!l) return NULL;
        memset(l + w->room, 0, (room - w->room) * sizeof *l);
        w->lines = l;
        w->room = room;
    }
    l = &w->lines[w->n++];
    l->number = number;
    l->sentence = sentence;
    for (side = 0; side < INPUT_SIDES; side++) {
        l->at[side] = w->text[side].size;
        l->text[side].size = 0;
        l->n[side] = 0;
    }
    text_buffer_clear(&l->out, INPUT_OUT);
    text_buffer_clear(&l->middle, INPUT_OUT);
    text_buffer_clear(&l->scores, INPUT_OUT);
    text_buffer_clear(&l->said, INPUT_OUT);
    text_buffer_clear(&l->aligned, INPUT_OUT);
    text_buffer_clear(&l->tokens, INPUT_OUT);
    l->encoding = NULL;
    l->cut = l->faulty = l->failed = l->done = l->copied = 0;
    l->is_divided = l->is_data = l->is_unknown = l->is_left = 0;
    l->kept[0].size = l->kept[1].size = l->at_kept[0] = l->at_kept[1] = 0;
    l->at_row = l->at_column = l->at_between = l->at[INPUT_SOURCE];
    l->n_row = l->n_column = l->between.size = 0, l->columns = 0, l->score = 0;
    return l;
}

/* Returns the number of sentences of a text, but not more than `most`. */
static int32_t input_sentences(tfm_text text, int32_t most) {
    tfm_text sentence;
    size_t at = 0;
    int32_t n = 0;
    while (n < most && tfm_sentence_next(text, &at, &sentence)) n++;
    return n;
}

/* Returns one side of a line, while its window is read. */
static tfm_text input_text(const input_window *w, const input_item *l, int side) {
    const char *data = w->text[side].data;
    return tfm_text_make(data ? data + l->at[side] : "", l->text[side].size);
}

/* Sets a line's source to a piece of the line's text, which begins at byte `at` of the window's
   text. With n_label the source becomes a copy that begins with the label, the first n_label bytes
   of the text. Returns 0 if there is no memory. */
static int input_take_piece(input_window *w, input_item *l, size_t at, const around_piece *p,
                            size_t offset, size_t n_label) {
    text_buffer *b = &w->text[INPUT_SOURCE];
    l->at[INPUT_SOURCE] = at + offset;
    l->text[INPUT_SOURCE].size = p->size;
    l->at_kept[0] = at + offset - p->before, l->kept[0].size = p->before;
    l->at_kept[1] = at + offset + p->size, l->kept[1].size = p->after;
    l->is_divided = p->is_divided, l->is_data = p->is_copied || !p->size;
    if (!n_label) return 1;
    l->at[INPUT_SOURCE] = b->size;
    if (!text_buffer_reserve(b, n_label + p->size)) return 0;
    text_buffer_append(b, b->data + at, n_label);
    text_buffer_append(b, b->data + at + offset, p->size);
    l->text[INPUT_SOURCE].size += n_label;
    return 1;
}

/* Reads the next piece of a line: a sentence, with what is around it if the stream asks for
   that. */
static int input_next_piece(const input_stream *in, around_reader *r, around_piece *p) {
    const tfm_text text = tfm_text_make(r->text, r->size);
    tfm_text sentence;
    if (in->surrounds) return around_next(r, p);
    memset(p, 0, sizeof *p);
    if (!tfm_sentence_next(text, &r->at, &sentence)) return 0;
    p->text = sentence.data, p->size = sentence.size;
    return 1;
}

/* Returns the number of pieces of a text, but not more than `most`; *kept is set if the first one
   has something around it, also whitespace around letters, or is to be copied. */
static int32_t input_pieces(const input_stream *in, tfm_text text, int32_t most, int *kept) {
    around_reader r;
    around_piece p;
    int32_t n = 0;
    memset(&r, 0, sizeof r), *kept = 0;
    r.text = text.data, r.size = text.size, r.flags = in->flags;
    while (n < most && input_next_piece(in, &r, &p)) {
        if (!n)
            *kept = p.before || p.after || p.is_copied ||
                    (in->surrounds && p.size < text.size && around_has_letter(p.text, p.size));
        n++;
    }
    return n;
}

/* Makes the last line of a window its first sentence, and adds a line for each other sentence. Its
   line of the file beside the input is split, too, if it has as many sentences; it is a draft. A
   line of one sentence stays as it is, with all its whitespace, unless it is a paragraph of a
   document or input_pieces finds something around the sentence. Returns 0 if there is no memory. */
static int input_split(const input_stream *in, input_window *w) {
    input_item line = w->lines[w->n - 1], *l = &w->lines[w->n - 1];
    tfm_text text = input_text(w, l, INPUT_SOURCE), beside = input_text(w, l, INPUT_TARGET), part;
    size_t at_beside = 0, end = 0, begin,
           n_label = in->labels ? paragraph_label(text.data, text.size) : 0;
    int kept, is_even = 0;
    int32_t n = input_pieces(in, text, in->document ? 1 : 2, &kept), k;
    const size_t at = line.at[INPUT_SOURCE];
    around_reader r;
    around_piece p;
    if (!n && in->document) l->text[INPUT_SOURCE].size = 0;
    if (n < (in->document || kept ? 1 : 2)) return 1;
    if (beside.size) {
        n = input_sentences(text, INT32_MAX);
        is_even = input_sentences(beside, n) == n && input_sentences(beside, INT32_MAX) == n;
    }
    memset(&r, 0, sizeof r);
    r.size = text.size, r.flags = in->flags;
    for (k = 1;; k++) {
        r.text = input_text(w, &line, INPUT_SOURCE).data; /* it may have moved */
        if (!input_next_piece(in, &r, &p)) break;
        if (k > 1 && (l = input_add(w, line.number, k)) == NULL) return 0;
        l->sentence = in->flags & AROUND_ONE ? 0 : k;
        l->at_row = line.at_row, l->n_row = line.n_row;
        l->at_column = line.at_column, l->n_column = line.n_column;
        begin = (size_t)(p.text - r.text);
        if (k == 1 && p.before) p.before = begin; /* with the whitespace that indents the label */
        l->at_between = at + end, l->between.size = k > 1 ? begin - p.before - end : 0;
        end = begin + p.size + p.after;
        if (!input_take_piece(w, l, at, &p, begin, k > 1 ? n_label : 0)) return 0;
        l->text[INPUT_TARGET].size = 0;
        if (!is_even || !tfm_sentence_next(beside, &at_beside, &part)) continue;
        l->at[INPUT_TARGET] = line.at[INPUT_TARGET] + (size_t)(part.data - beside.data);
        l->text[INPUT_TARGET].size = part.size;
    }
    return 1;
}

/* Reduces a line's source from the whole row to one column. Sets l->columns if the row has
   fewer. */
static void input_take_column(const input_window *w, input_item *l, int32_t column) {
    const char *text = w->text[INPUT_SOURCE].data;
    size_t at = l->at_row, end = at + l->text[INPUT_SOURCE].size, next;
    int32_t i;
    l->n_row = end - at;
    for (i = 1;; i++) {
        for (next = at; next < end && text[next] != '\t';) next++;
        if (i == column || next == end) break;
        at = next + 1;
    }
    if (i < column) l->columns = i, at = next;
    l->at[INPUT_SOURCE] = l->at_column = at;
    l->text[INPUT_SOURCE].size = l->n_column = next - at;
}

/* Adds a line, which is the window's text from begin[side] on. Returns 0 if there is no memory. */
static int input_add_texts(input_window *w, const input_stream *in, const size_t *begin, int cut) {
    input_item *l = input_add(w, in->n, in->document);
    int side;
    if (!l) return 0;
    l->cut = cut;
    for (side = 0; side < INPUT_SIDES; side++) {
        l->at[side] = begin[side];
        l->text[side].size = w->text[side].size - begin[side];
    }
    l->at_row = begin[INPUT_SOURCE];
    if (in->column) input_take_column(w, l, in->column);
    return 1;
}

/* Reads a line, and its line of the file beside the input, into the window, split into sentences if
   in->splits or in->document say so. Returns 0 at the end, after a fault, and where one of the two
   files has fewer lines than the other. */
static int input_line(input_stream *in, input_window *w) {
    size_t begin[INPUT_SIDES];
    int side, cut = 0, more, added;
    for (side = 0; side < INPUT_SIDES; side++) begin[side] = w->text[side].size;
    more = in->next ? in->next(in, &w->text[INPUT_SOURCE], &cut)
                    : reader_line(&in->from, &w->text[INPUT_SOURCE], in->most, &cut);
    if (!more && in->from.fault) return 0;
    if (in->beside.file &&
        reader_line(&in->beside, &w->text[INPUT_TARGET], in->most, &cut) != more) {
        in->uneven = more ? "fewer" : "more";
        return 0;
    }
    if (!more) return 0;
    in->n++;
    added = input_add_texts(w, in, begin, cut);
    if (added && !cut && !in->next && (in->document || in->splits || in->surrounds))
        added = input_split(in, w);
    else if (added && !cut && !in->unsplit &&
             input_sentences(input_text(w, &w->lines[w->n - 1], INPUT_SOURCE), 2) > 1)
        in->unsplit = in->n;
    if (!added) in->fault = ENOMEM;
    return added;
}

/* Compares lines by size for qsort, longest first. The last batches are then short, which matters
   because some threads are idle during the last ones. Size is in bytes, because the tokens are not
   known yet. Equal lines keep the order of the input. */
static int input_by_size(const void *a, const void *b) {
    const input_item *x = *(input_item *const *)a, *y = *(input_item *const *)b;
    if (x->text[INPUT_SOURCE].size != y->text[INPUT_SOURCE].size)
        return x->text[INPUT_SOURCE].size < y->text[INPUT_SOURCE].size ? 1 : -1;
    return x < y ? -1 : x > y;
}

/* Sets the lines' text pointers, now that the window's text no longer moves, and sorts the lines.
   Returns 0 if there is no memory. */
static int input_sort(const input_stream *in, input_window *w) {
    size_t i;
    int side;
    free(w->sorted);
    w->sorted = (input_item **)malloc((w->n + 1) * sizeof *w->sorted);
    if (!w->sorted) return 0;
    for (i = 0; i < w->n; i++) {
        input_item *l = w->sorted[i] = &w->lines[i];
        for (side = 0; side < INPUT_SIDES; side++)
            l->text[side].data = w->text[side].data ? w->text[side].data + l->at[side] : "";
        l->around[0].data = w->text[INPUT_SOURCE].data ? w->text[INPUT_SOURCE].data + l->at_row
                                                       : "";
        l->between.data = l->around[0].data + (l->at_between - l->at_row);
        for (side = 0; side < 2; side++)
            l->kept[side].data =
                w->text[INPUT_SOURCE].data ? w->text[INPUT_SOURCE].data + l->at_kept[side] : "";
        l->around[0].size = l->around[1].size = 0;
        if (!in->column) continue;
        l->around[0].size = l->at_column - l->at_row;
        l->around[1].data = l->around[0].data + l->around[0].size + l->n_column;
        l->around[1].size = l->n_row - l->around[0].size - l->n_column;
    }
    if (!in->unsorted) qsort(w->sorted, w->n, sizeof *w->sorted, input_by_size);
    return 1;
}

/* Reads a window of up to `most` lines, or fewer if they fill INPUT_WINDOW bytes or the input
   pauses. Returns 0 if the input has ended. */
static int input_read(input_stream *in, input_window *w, size_t most) {
    int side, more = 1;
    for (w->n = 0, side = 0; side < INPUT_SIDES; side++)
        text_buffer_clear(&w->text[side], INPUT_WINDOW);
    while (more && w->n < most &&
           w->n * sizeof *w->lines + w->text[INPUT_SOURCE].size + w->text[INPUT_TARGET].size <
               INPUT_WINDOW &&
           (w->n == 0 || in->next || reader_ready(&in->from)))
        more = input_line(in, w);
    w->taken = in->from.taken;
    if (in->from.fault) in->fault = in->from.fault;
    if (input_sort(in, w)) return more;
    w->n = 0;
    in->fault = ENOMEM;
    return 0;
}

/* Frees all memory of a window. */
static void input_window_free(input_window *w) {
    size_t i;
    for (i = 0; i < w->room; i++) {
        text_buffer_free(&w->lines[i].out);
        text_buffer_free(&w->lines[i].middle);
        text_buffer_free(&w->lines[i].scores);
        protect_free(&w->lines[i].safe);
        around_free(&w->lines[i].inner);
        text_buffer_free(&w->lines[i].said);
        text_buffer_free(&w->lines[i].tokens);
        text_buffer_free(&w->lines[i].aligned);
    }
    for (i = 0; i < INPUT_SIDES; i++) text_buffer_free(&w->text[i]);
    free(w->lines);
    free(w->sorted);
}

#endif
