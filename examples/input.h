/* input.h: lines of input, a window at a time, sorted by length.

       input in = {0};
       in.from.file = stdin, in.most = 1000000;
       while (more) {
           more = input_read(&in, &window, 1000);
           ... window.sorted has window.n lines
       }

   A window ends before its memory does, whatever its lines are like: many that are blank, or few
   that are long; and where whoever writes the lines has paused, so that they are answered. What a
   line is beside its text is the program's. */
#ifndef INPUT_H
#define INPUT_H

#include "protect.h"
#include "reader.h"
#include "sentences.h"

enum { INPUT_WINDOW = 1 << 22, INPUT_OUT = 1 << 12 }; /* bytes that are kept for the next one */

/* A line has two sides: its source, and what --prefix or --score has beside it. */
enum { SOURCE, TARGET, SIDES };

/* One line of input, or one sentence of a line, and what became of it. */
typedef struct line {
    int64_t number;       /* from 1 */
    int32_t sentence;     /* from 1 in each line; 0 without --document */
    size_t at[SIDES];     /* where its texts begin in those of the window */
    tfm_text text[SIDES]; /* once the window is read */
    size_t ids[SIDES];    /* where its tokens begin in the worker's */
    int32_t n[SIDES];
    tfm_text around[2];   /* what stands before and after its text, of a table's row */
    size_t at_row, n_row; /* where that row is, and its bytes */
    int32_t columns;      /* that it has, where it has too few; else 0 */
    buffer out;           /* without the last newline */
    buffer between;       /* what the first of two models made of it */
    protect_text safe;    /* what is not to be translated */
    buffer said;          /* messages */
    buffer tokens;        /* of a sentence of a document: markup_token each */
    int cut;              /* too long to be kept */
    int faulty;           /* it cannot be translated */
    int failed;           /* counts for the exit status */
    int done;             /* out is what is to be written */
    int copied;           /* it has nothing to translate, and is its own translation */
} line;

/* Lines that are sorted together. */
typedef struct window {
    buffer text[SIDES];
    line *lines, **sorted;
    size_t n, room, job_lines;
    int64_t taken; /* bytes of the input up to its end */
} window;

typedef struct input input;
struct input {
    reader from, beside; /* beside: its file is NULL, or has a line for each */
    size_t most;         /* bytes of a line; a longer one is cut */
    int document;        /* lines are paragraphs: each sentence is a line */
    int32_t column;      /* from 1: of a table, TABs between; 0: lines are not */
    int unsorted;        /* windows stay in the order of the input */
    int64_t n;           /* lines so far */
    const char *uneven;  /* how the file beside the input differs from it */
    int fault;           /* errno of what ended it */
    /* where lines come from instead, one appended and 1, or 0; NULL: from is read */
    int (*next)(input *in, buffer *text, int *cut);
};

/* The next line of the window, with the memory of an earlier one; NULL: there is none. */
static line *input_add(window *w, int64_t number, int32_t sentence) {
    line *l;
    int side;
    if (w->n == w->room) {
        size_t room = 2 * w->room + 16;
        l = (line *)realloc(w->lines, room * sizeof *l);
        if (!l) return NULL;
        memset(l + w->room, 0, (room - w->room) * sizeof *l);
        w->lines = l;
        w->room = room;
    }
    l = &w->lines[w->n++];
    l->number = number;
    l->sentence = sentence;
    for (side = 0; side < SIDES; side++) {
        l->at[side] = w->text[side].size;
        l->text[side].size = 0;
        l->n[side] = 0;
    }
    buffer_clear(&l->out, INPUT_OUT);
    buffer_clear(&l->between, INPUT_OUT);
    buffer_clear(&l->said, INPUT_OUT);
    buffer_clear(&l->tokens, INPUT_OUT);
    l->cut = l->faulty = l->failed = l->done = l->copied = 0;
    l->at_row = l->at[SOURCE], l->n_row = 0, l->columns = 0;
    return l;
}

/* The sentences of a paragraph, which the window's text has from there on. 0: no memory. */
static int input_add_sentences(window *w, int64_t number, size_t begin) {
    size_t at = 0, length, size = w->text[SOURCE].size - begin;
    const char *sentence, *text = size ? w->text[SOURCE].data + begin : "";
    int32_t n = 0;
    while (next_sentence(text, size, &at, &sentence, &length)) {
        line *l = input_add(w, number, ++n);
        if (!l) return 0;
        l->at[SOURCE] = begin + (size_t)(sentence - text);
        l->text[SOURCE].size = length;
    }
    return n > 0 || input_add(w, number, 1) != NULL; /* a blank paragraph is a line, too */
}

/* Of a row, which is the line's source so far, the column alone. */
static void input_take_column(const window *w, line *l, int32_t column) {
    const char *text = w->text[SOURCE].data;
    size_t at = l->at_row, end = at + l->text[SOURCE].size, next;
    int32_t i;
    l->n_row = end - at;
    for (i = 1;; i++) {
        for (next = at; next < end && text[next] != '\t';) next++;
        if (i == column || next == end) break;
        at = next + 1;
    }
    if (i < column) l->columns = i, at = next;
    l->at[SOURCE] = at;
    l->text[SOURCE].size = next - at;
}

/* A line whose texts the window has from there on. 0: no memory. */
static int input_add_texts(window *w, const input *in, const size_t *begin, int cut) {
    line *l = input_add(w, in->n, in->document);
    int side;
    if (!l) return 0;
    l->cut = cut;
    for (side = 0; side < SIDES; side++) {
        l->at[side] = begin[side];
        l->text[side].size = w->text[side].size - begin[side];
    }
    l->at_row = begin[SOURCE];
    if (in->column) input_take_column(w, l, in->column);
    return 1;
}

/* Reads a line and the one beside it into the window, or a paragraph's sentences; 0 at the end, or
   where one file has fewer lines than the other. */
static int input_line(input *in, window *w) {
    size_t begin[SIDES];
    int side, cut = 0, more, added;
    for (side = 0; side < SIDES; side++) begin[side] = w->text[side].size;
    more = in->next ? in->next(in, &w->text[SOURCE], &cut)
                    : reader_line(&in->from, &w->text[SOURCE], in->most, &cut);
    if (!more && in->from.fault) return 0;
    if (in->beside.file && reader_line(&in->beside, &w->text[TARGET], in->most, &cut) != more) {
        in->uneven = more ? "fewer" : "more";
        return 0;
    }
    if (!more) return 0;
    in->n++;
    if (in->document && !cut) added = input_add_sentences(w, in->n, begin[SOURCE]);
    else added = input_add_texts(w, in, begin, cut);
    if (!added) in->fault = ENOMEM;
    return added;
}

/* By bytes: their tokens are not counted yet. The longest first, so that the last batches, which
   not every thread has one of, are short. */
static int input_by_size(const void *a, const void *b) {
    const line *x = *(line *const *)a, *y = *(line *const *)b;
    if (x->text[SOURCE].size != y->text[SOURCE].size)
        return x->text[SOURCE].size < y->text[SOURCE].size ? 1 : -1;
    return x < y ? -1 : x > y;
}

/* Lines know where their texts are, now that these stay there. */
static int input_sort(const input *in, window *w) {
    size_t i;
    int side;
    free(w->sorted);
    w->sorted = (line **)malloc((w->n + 1) * sizeof *w->sorted);
    if (!w->sorted) return 0;
    for (i = 0; i < w->n; i++) {
        line *l = w->sorted[i] = &w->lines[i];
        for (side = 0; side < SIDES; side++)
            l->text[side].data = w->text[side].data ? w->text[side].data + l->at[side] : "";
        l->around[0].data = w->text[SOURCE].data ? w->text[SOURCE].data + l->at_row : "";
        l->around[1].data = l->text[SOURCE].data + l->text[SOURCE].size;
        l->around[0].size = l->around[1].size = 0;
        if (!in->column) continue;
        l->around[0].size = l->at[SOURCE] - l->at_row;
        l->around[1].size = l->n_row - l->around[0].size - l->text[SOURCE].size;
    }
    if (!in->unsorted) qsort(w->sorted, w->n, sizeof *w->sorted, input_by_size);
    return 1;
}

/* Reads a window of most lines, or as many as its memory is for; 0: the input has ended. */
static int input_read(input *in, window *w, size_t most) {
    int side, more = 1;
    for (w->n = 0, side = 0; side < SIDES; side++) buffer_clear(&w->text[side], INPUT_WINDOW);
    while (more && w->n < most &&
           w->n * sizeof *w->lines + w->text[SOURCE].size + w->text[TARGET].size < INPUT_WINDOW &&
           (w->n == 0 || in->next || reader_ready(&in->from)))
        more = input_line(in, w);
    w->taken = in->from.taken;
    if (in->from.fault) in->fault = in->from.fault;
    if (input_sort(in, w)) return more;
    w->n = 0;
    in->fault = ENOMEM;
    return 0;
}

static void window_free(window *w) {
    size_t i;
    for (i = 0; i < w->room; i++) {
        buffer_free(&w->lines[i].out);
        buffer_free(&w->lines[i].between);
        protect_free(&w->lines[i].safe);
        buffer_free(&w->lines[i].said);
        buffer_free(&w->lines[i].tokens);
    }
    for (i = 0; i < SIDES; i++) buffer_free(&w->text[i]);
    free(w->lines);
    free(w->sorted);
}

#endif
