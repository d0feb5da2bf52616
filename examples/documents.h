/* documents.h: translate --html, --markdown, --wrapped, --srt: a document's sentences as lines, and the document again.

   The input is read whole, as a document may end what its beginning opened; its sentences go
   through windows like lines, and each is written, with what is before it, as soon as all earlier
   ones are. Include transformer.h, command.h and input.h before it. */
#ifndef DOCUMENTS_H
#define DOCUMENTS_H

#include "input.h"
#include "markup.h"

typedef struct document {
    buffer text, out;
    markup m;
    size_t taken; /* sentences */
} document;

static document page;

/* The next sentence, as a line. */
static int document_next(input *in, buffer *text, int *cut) {
    const markup_sentence *s = page.m.sentences + page.taken;
    if (page.taken == page.m.n_sentences) return 0;
    page.taken++;
    if (s->size > in->most) *cut = 1;
    else buffer_append(text, s->text, s->size);
    if (text->broken) in->fault = ENOMEM;
    return !text->broken;
}

/* Reads all of the input. */
static void document_open(input *in) {
    reader *r = &in->from;
    memset(&page, 0, sizeof page);
    while (r->begin < r->end || reader_fill(r) || (!r->fault && reader_open(r))) {
        buffer_append(&page.text, r->data + r->begin, r->end - r->begin);
        r->taken += (int64_t)(r->end - r->begin), r->begin = r->end;
    }
    in->fault = r->fault, in->next = document_next;
    page.m.protects = opt.protect, page.m.wrap = (size_t)opt.width;
    if (page.text.broken || !markup_read(&page.m,
                                         opt.srt        ? MARKUP_SRT
                                         : opt.markdown ? MARKUP_MARKDOWN
                                         : opt.wrapped  ? MARKUP_WRAPPED
                                                        : MARKUP_HTML,
                                         page.text.data, page.text.size))
        fail("the document does not fit into memory");
    markup_begin(&page.m);
}

static void document_write(FILE *out) {
    if (page.out.broken || page.m.broken) fail_writing(ENOMEM);
    fwrite(page.out.data, 1, page.out.size, out);
    buffer_clear(&page.out, INPUT_OUT);
}

/* Writes the document up to the end of a sentence, which a line has translated, if it could be. */
static void document_line(const line *l, FILE *out) {
    markup_translation made;
    made.text = l->faulty || !l->out.size ? NULL : l->out.data;
    made.size = l->out.size, made.n = l->tokens.size / sizeof(markup_token);
    made.tokens = (const markup_token *)(const void *)l->tokens.data;
    (void)markup_put(&page.m, &made, &page.out);
    document_write(out);
}

/* Writes what is left. */
static void document_close(FILE *out) {
    (void)markup_end(&page.m, &page.out);
    document_write(out);
    markup_free(&page.m), buffer_free(&page.text), buffer_free(&page.out);
}

#endif
