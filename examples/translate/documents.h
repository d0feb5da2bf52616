/* documents.h: the document formats of translate: --html, --markdown, --wrapped and --srt.

   The whole document is read first, because its end may close what its beginning opened. Its
   sentences then go through windows as if they were lines of input. Each sentence is written,
   together with the part of the document before it, as soon as all earlier ones are written.
   Include transformer.h, command.h and input.h before this header. */
#ifndef DOCUMENTS_H
#define DOCUMENTS_H

#include "input.h"
#include "text/markup.h"

typedef struct document {
    text_buffer text, out;
    markup_document m;
    size_t taken; /* sentences that document_next has returned */
} document;

static document page;

/* Appends the next sentence to text. Returns 0 if there is none. Sets *cut, and appends nothing, if
   the sentence is longer than a line may be. */
static int document_next(input_stream *in, text_buffer *text, int *cut) {
    const markup_sentence *s;
    if (page.taken == page.m.n_sentences) return 0; /* perhaps without an array */
    s = page.m.sentences + page.taken++;
    if (s->size > in->most) *cut = 1;
    else text_buffer_append(text, s->text, s->size);
    if (text->broken) in->fault = ENOMEM;
    return !text->broken;
}

/* Reads the whole input and finds its sentences, or with `whole` its paragraphs; `in` will take its
   lines from them. source and lang: the languages of the text and of the translation, or NULL. */
static void document_open(input_stream *in, int whole, const char *source, const char *lang) {
    reader_stream *r = &in->from;
    size_t n;
    memset(&page, 0, sizeof page);
    while (r->begin < r->end || reader_fill(r) || (!r->fault && reader_open(r))) {
        text_buffer_append(&page.text, r->data + r->begin, r->end - r->begin);
        r->taken += (int64_t)(r->end - r->begin), r->begin = r->end;
    }
    for (n = 0; n < page.text.size && page.text.data[n] != '\n';) n++;
    r->encoding = encoding_of_start(page.text.data, n);
    if (!r->encoding && page.text.size) {
        r->encoding = encoding_of_line(page.text.data, page.text.size);
        if (r->encoding && !*r->encoding)
            r->encoding = NULL; /* messages about sentences say more */
    }
    if (r->encoding) r->fault = EILSEQ, page.text.size = 0;
    if ((opt.markdown || opt.wrapped) && page.text.size &&
        !memchr(page.text.data, '\n', page.text.size)) /* lines may end with CR alone */
        for (n = 0; n < page.text.size; n++)
            if (page.text.data[n] == '\r') page.text.data[n] = '\n';
    in->fault = r->fault, in->next = document_next;
    page.m.protects = opt.protect || (in->surrounds && !opt.no_protect), page.m.whole = whole,
    page.m.surrounds = in->surrounds, page.m.wrap = (size_t)opt.width;
    page.m.lang = lang, page.m.source = source, page.m.all_languages = opt.all_languages;
    page.m.cue_width = opt.cue_width, page.m.cue_lines = opt.cue_lines;
    if (opt.lang && !markup_is_language(opt.lang))
        fail("--lang %s: no code, such as en or zh-Hans", opt.lang);
    if (page.text.broken || !markup_read(&page.m,
                                         opt.srt        ? MARKUP_SRT
                                         : opt.markdown ? MARKUP_MARKDOWN
                                         : opt.wrapped  ? MARKUP_WRAPPED
                                                        : MARKUP_HTML,
                                         page.text.data, page.text.size))
        fail("the document does not fit into memory");
    if (markup_no_times(&page.m)) {
        fprintf(stderr, "translate: %s\n", markup_no_times(&page.m));
        exit(EXIT_LINES);
    }
    markup_begin(&page.m);
}

/* Writes and empties the output buffer; ends the program if memory was too small for it. */
static void document_write(FILE *out) {
    if (page.out.broken || page.m.broken) fail_writing(ENOMEM);
    if (page.out.size) fwrite(page.out.data, 1, page.out.size, out); /* it may have no memory yet */
    text_buffer_clear(&page.out, INPUT_OUT);
}

/* Writes the document up to the end of the next sentence, which is line l. Copies the source of a
   sentence that could not be translated. */
static void document_line(const input_item *l, FILE *out) {
    markup_translation made;
    made.text = l->faulty || !l->out.size ? NULL : l->out.data;
    made.size = l->out.size, made.n = l->tokens.size / sizeof(markup_token);
    made.tokens = (const markup_token *)(const void *)l->tokens.data;
    (void)markup_put(&page.m, &made, &page.out);
    document_write(out);
}

/* Writes the rest of the document and frees all memory. */
static void document_close(FILE *out) {
    const char *line;
    (void)markup_end(&page.m, &page.out);
    document_write(out);
    markup_left(&page.m, &page.out);
    for (line = page.out.data; page.out.size && *line; line = strchr(line, '\n') + 1)
        fprintf(stderr, "translate: %.*s\n", (int)strcspn(line, "\n"), line);
    markup_free(&page.m), text_buffer_free(&page.text), text_buffer_free(&page.out);
}

#endif
