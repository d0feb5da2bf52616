/* The echo oracle: documents go through examples/translate/text/markup.h with an echo in place of a
   model, and must come back the same.

   test_echo                    the documents in this file and the repository's own
   test_echo FOLDER or FILE ... every HTML, Markdown, subtitle and text file in them (make echo
   FOLDER=...);
                                prints by format how many come back the same, and the others' names
   test_echo --sentences N FILE a document's sentences, each in a line, for time_documents.py; N is
   the markup_form

   Four echoes: the identity must give the bytes of the source; CAPITALS changes ASCII letters into
   capitals and nothing else; DOUBLED has each word twice; REVERSED has the words backwards. With
   the last two, every character must be there as often as it should be. The alignment is always
   right. What may differ: soft hyphens and the readings of <ruby> leave, and wrapped text is
   wrapped again. */
#define _POSIX_C_SOURCE 200809L /* opendir */
#include "test.h"

/* The memory that markup.h has: each block begins with its size. A block that grows counts once. */
static size_t held, most_held;

static void *hold(void *block, size_t size) {
    size_t *at = block ? (size_t *)block - 2 : NULL, before = at ? *at : 0;
    at = (size_t *)realloc(at, size + 2 * sizeof *at);
    if (!at) return NULL;
    held = held - before + size;
    if (held > most_held) most_held = held;
    return *at = size, at + 2;
}

static void *hold_zeros(size_t n, size_t size) {
    void *block = hold(NULL, n * size);
    return block ? memset(block, 0, n * size) : NULL;
}

static void let_go(void *block) {
    if (!block) return;
    held -= ((size_t *)block)[-2];
    free((size_t *)block - 2);
}

#define malloc(size) hold(NULL, size)
#define calloc hold_zeros
#define realloc hold
#define free let_go
#include "examples/translate/text/markup.h"
#undef malloc
#undef calloc
#undef realloc
#undef free
#include <dirent.h>
#include <sys/stat.h>

enum { IDENTITY, CAPITALS, DOUBLED, REVERSED, ECHOES };
static const char *const echo_names[] = {"identity", "capitals", "doubled", "reversed"};

typedef struct echo {
    int how;
    size_t seen[256]; /* how often the sentences have each byte */
    size_t n_looks, n_sentences;
    text_buffer text, tokens;
} echo;

/* Returns the end of the token at byte `at` of a sentence: letters and digits, or one sign. */
static size_t token_end(const markup_sentence *s, size_t at) {
    size_t end = at;
    while (end < s->size &&
           ((unsigned char)s->text[end] >= 0x80 || protect_is_word((unsigned char)s->text[end])))
        end++;
    return end > at ? end : at + 1;
}

/* Sets e->text and e->tokens to the echo of a sentence. A word between spaces is a token, except in
   the first two echoes, whose tokens are as small as a model's. */
static void echo_sentence(echo *e, const markup_sentence *s, markup_translation *t) {
    size_t at, end, from, n = 0, i, k;
    e->text.size = e->tokens.size = 0;
    text_buffer_append(&e->text, "", 0), text_buffer_append(&e->tokens, "", 0);
    for (at = 0; at < s->size; at++) e->seen[(unsigned char)s->text[at]]++;
    for (at = e->how == REVERSED ? s->size : 0; e->how == REVERSED ? at > 0 : at < s->size;) {
        markup_token token;
        if (e->how == REVERSED) {
            for (end = at; end > 0 && s->text[end - 1] == ' ';) end--;
            for (from = end; from > 0 && s->text[from - 1] != ' ';) from--;
            at = from;
        } else {
            for (from = at; from < s->size && s->text[from] == ' ';) from++;
            for (end = from; e->how > CAPITALS && end < s->size && s->text[end] != ' ';) end++;
            if (e->how <= CAPITALS && from < s->size) end = token_end(s, from);
            at = end;
        }
        if (from == end) continue;
        for (k = 0; k < (e->how == DOUBLED ? 2u : 1u); k++) {
            if (n++ && (e->how > CAPITALS || s->text[from - 1] == ' '))
                text_buffer_append(&e->text, " ", 1);
            for (i = from; i < end; i++) {
                char c = s->text[i];
                if (e->how == CAPITALS && c >= 'a' && c <= 'z') c = (char)(c - 32);
                text_buffer_append(&e->text, &c, 1);
            }
            token.end = e->text.size, token.source_begin = from, token.source_end = end;
            text_buffer_append(&e->tokens, (const char *)&token, sizeof token);
        }
    }
    t->text = e->text.data, t->size = e->text.size, t->n = n;
    t->tokens = (const markup_token *)(const void *)e->tokens.data;
}

/* Translates a document by an echo. */
static void echo_document(echo *e, int how, markup_form form, const char *text, size_t size,
                          text_buffer *out) {
    markup_document m;
    size_t i;
    memset(&m, 0, sizeof m), memset(e->seen, 0, sizeof e->seen);
    m.rewrites = 1;                      /* also sentences that did not change */
    m.cue_width = m.cue_lines = 1 << 20; /* the lines of cues stay */
    e->how = how, out->size = 0;
    text_buffer_append(out, "", 0);
    if (!markup_read(&m, form, text, size)) abort();
    markup_begin(&m);
    for (i = 0; i < m.n_sentences; i++) {
        markup_translation t;
        echo_sentence(e, &m.sentences[i], &t);
        if (!markup_put(&m, &t, out)) abort();
    }
    if (!markup_end(&m, out)) abort();
    e->n_looks = m.n_looks, e->n_sentences = m.n_sentences;
    markup_free(&m);
}

/* Appends a piece and a suffix `times` times. */
static void repeat(text_buffer *doc, const char *piece, size_t times) {
    size_t n = strlen(piece);
    while (times-- > 0) text_buffer_append(doc, piece, n);
}

/* A sentence of very many elements: the work to place each may not grow with their number. */
static void long_sentences(void) {
    static const char *const pieces[][2] = {
        {"<b>w</b> ", ""},          {"w <img> ", ""},         {"w {x} ", ""},
        {"w<sup>1</sup> ", ""},     {"<b>w ", "</b>"},        {"<b>", "w</b> "},
        {"w <a href=x></a>w ", ""}, {"<b>w</b><i>, </i>", ""}};
    enum { MANY = 6000 };
    echo e;
    text_buffer doc, out;
    size_t i;
    int how;
    memset(&e, 0, sizeof e), memset(&doc, 0, sizeof doc), memset(&out, 0, sizeof out);
    for (i = 0; i < sizeof pieces / sizeof *pieces; i++) {
        if (!test_in_slice("long", (long)i)) continue;
        doc.size = 0;
        repeat(&doc, "<p>", 1), repeat(&doc, pieces[i][0], MANY);
        repeat(&doc, pieces[i][1], MANY), repeat(&doc, "</p>", 1);
        for (how = 0; how < REVERSED + 1; how++) {
            echo_document(&e, how, MARKUP_HTML, doc.data, doc.size, &out);
            CHECK(e.n_sentences == 1, "\"%s\": one sentence", pieces[i][0]);
            CHECK(e.n_looks < 4 * MARKUP_NEAR * (size_t)MANY,
                  "%s: %.0f words looked at, an element", echo_names[how],
                  (double)e.n_looks / (int)MANY);
            CHECK(how || pieces[i][1][0] ||
                      (out.size == doc.size && !memcmp(out.data, doc.data, doc.size)),
                  "and an identity changes nothing");
        }
    }
    text_buffer_free(&e.text), text_buffer_free(&e.tokens);
    text_buffer_free(&doc), text_buffer_free(&out);
}

/* Reads and writes documents that consist of one piece, again and again, and checks that the memory
   for them is at most so many times their size. A piece that has a sentence or an item for each
   three bytes may need more than 20. */
static void memory(void) {
    static const struct {
        markup_form form;
        const char *piece;
        size_t times; /* memory divided by the document's size, at most */
    } pieces[] = {{MARKUP_HTML, "<b>1</b>", 20},
                  {MARKUP_HTML, "<p><a>ab</a></p>", 20},
                  {MARKUP_HTML, "<b>", 20},
                  {MARKUP_HTML, "<br>", 20},
                  {MARKUP_HTML, "<li><a href=\"/a\">12</a></li>", 20},
                  {MARKUP_HTML, "<b>a</b> ", 20},
                  {MARKUP_HTML, "<td>1", 20},
                  {MARKUP_HTML, "<td>a", 20},
                  {MARKUP_HTML, "<p>a", 20},
                  {MARKUP_HTML, "{x}", 20},
                  {MARKUP_HTML, "&amp;", 20},
                  {MARKUP_HTML, "<!---->", 20},
                  {MARKUP_HTML, "<a title=b>", 20},
                  {MARKUP_HTML, "<p>Der Hund bellt.</p>\n", 10},
                  {MARKUP_MARKDOWN, "*1* ", 20},
                  {MARKUP_MARKDOWN, "*a* ", 20},
                  {MARKUP_MARKDOWN, "[1](x)", 20},
                  {MARKUP_MARKDOWN, "[a](x) ", 20},
                  {MARKUP_MARKDOWN, "**a** ", 20},
                  {MARKUP_MARKDOWN, "~~a~~ ", 20},
                  {MARKUP_MARKDOWN, "`1`", 20},
                  {MARKUP_MARKDOWN, "[", 25},
                  {MARKUP_MARKDOWN, "<b>1</b>", 20},
                  {MARKUP_MARKDOWN, "\\*", 20},
                  {MARKUP_MARKDOWN, "a\n", 20},
                  {MARKUP_MARKDOWN, "> a\n", 20},
                  {MARKUP_MARKDOWN, "- [ ] ab\n", 20},
                  {MARKUP_MARKDOWN, "Der Hund bellt.\n\n", 10},
                  {MARKUP_MARKDOWN, "*1*", 45},
                  {MARKUP_MARKDOWN, "a\n\n", 45},
                  {MARKUP_MARKDOWN, "* a\n", 45},
                  {MARKUP_MARKDOWN, "[*1* ", 45},
                  {MARKUP_SRT, "1\n00:00:00,000 --> 00:00:01,000\na\n\n", 10},
                  {MARKUP_SRT, "0:01,0:02\nab\n", 20},
                  {MARKUP_SRT, "<i>", 20},
                  {MARKUP_SRT, "a\n", 45},
                  {MARKUP_WRAPPED, "a b\n", 20},
                  {MARKUP_WRAPPED, "Der Hund bellt.\n\n", 10},
                  {MARKUP_WRAPPED, "- a\n", 45},
                  {MARKUP_WRAPPED, "a\n\n", 45}};
    enum { SIZE = 1 << 18, LONG = 4096 };
    echo e;
    text_buffer doc, out;
    size_t i, k;
    memset(&e, 0, sizeof e), memset(&doc, 0, sizeof doc), memset(&out, 0, sizeof out);
    for (i = 0; i < sizeof pieces / sizeof *pieces; i++) {
        markup_document m;
        int ok;
        if (!test_in_slice("memory", (long)i)) continue;
        doc.size = 0;
        if (pieces[i].form == MARKUP_SRT) repeat(&doc, "1\n00:00:00,000 --> 00:00:01,000\n", 1);
        repeat(&doc, pieces[i].piece, SIZE / strlen(pieces[i].piece));
        memset(&m, 0, sizeof m), text_buffer_clear(&out, 0);
        most_held = held = 0;
        ok = markup_read(&m, pieces[i].form, doc.data, doc.size);
        for (markup_begin(&m), k = 0; ok && k < m.n_sentences; k++) {
            markup_translation t; /* no model reads a sentence that is very long */
            memset(&t, 0, sizeof t);
            if (m.sentences[k].size < LONG) echo_sentence(&e, &m.sentences[k], &t);
            ok = markup_put(&m, &t, &out);
            text_buffer_clear(&out, 0);
        }
        CHECK(ok && markup_end(&m, &out), "%.20s is read and written", pieces[i].piece);
        CHECK(most_held <= pieces[i].times * doc.size, "  in %.1f times its size (%d)",
              (double)most_held / (double)doc.size, (int)pieces[i].times);
        markup_free(&m);
    }
    text_buffer_free(&e.text), text_buffer_free(&e.tokens);
    text_buffer_free(&doc), text_buffer_free(&out);
}

/* Items stay beside their words, and elements on theirs, if the words change places. */
static void between(void) {
    static const char *const rows[][2] = {
        {"<p>one two <img> three four five</p>", "<p>five four three <img> two one</p>"},
        {"<p>one {x} two three four five</p>", "<p>five four three two {x} one</p>"},
        {"<p>one two three four <code>x()</code> five</p>",
         "<p>five <code>x()</code> four three two one</p>"},
        /* "cargo" begins like "command", which has a space before it */
        {"<p>run the <b>cargo doc --open</b> command now</p>",
         "<p>now command <b>doc --open cargo</b> the run</p>"},
        /* two elements have a word of the translation together, but no link is in a link */
        {"<p>see <i>the bark</i><u><i>s</i></u><i> in all</i> that book</p>",
         "<p>book that<i> all in</i> <i>bark<u><i>s</i></u> the</i> see</p>"},
        {"<p>see <a href=b>the bark</a><a href=c>s</a><i> in all</i> that book</p>",
         "<p><a href=c>book</a> that<i> all in</i> <a href=b>barks the</a> see</p>"}};
    echo e;
    text_buffer out;
    size_t i;
    memset(&e, 0, sizeof e), memset(&out, 0, sizeof out);
    for (i = 0; i < sizeof rows / sizeof *rows; i++) {
        echo_document(&e, REVERSED, MARKUP_HTML, rows[i][0], strlen(rows[i][0]), &out);
        text_buffer_append(&out, "", 1);
        CHECK(strcmp(out.data, rows[i][1]) == 0, "%s -> %s", rows[i][0], out.data);
    }
    text_buffer_free(&e.text), text_buffer_free(&e.tokens), text_buffer_free(&out);
}

/* Appends a document without what may differ: soft hyphens, and <rt> and <rp> with their
   content. */
static void normalize(markup_form form, const char *text, size_t size, text_buffer *out) {
    size_t i, from = 0;
    out->size = 0;
    text_buffer_append(out, "", 0);
    for (i = 0; i < size; i++) {
        size_t n = protect_starts(text + i, size - i, "\xC2\xAD") ? 2
                   : protect_starts(text + i, size - i, "&shy;")  ? 5
                   : protect_starts(text + i, size - i, "&#173;") ? 6
                                                                  : 0;
        if (form != MARKUP_WRAPPED && (protect_starts(text + i, size - i, "<rt>") ||
                                       protect_starts(text + i, size - i, "<rp>"))) {
            const char *end = strstr(text + i, text[i + 2] == 't' ? "</rt>" : "</rp>");
            if (end) n = (size_t)(end + 5 - text) - i;
        }
        if (!n) continue;
        text_buffer_append(out, text + from, i - from), from = i + n, i += n - 1;
    }
    text_buffer_append(out, text + from, size - from);
}

static char small(char c) { return c >= 'A' && c <= 'Z' ? (char)(c + 32) : c; }

/* Returns the position of the first difference between a document's echo and what it should be;
   (size_t)-1 if there is none. */
static size_t difference(const echo *e, markup_form form, const text_buffer *in,
                         const text_buffer *out) {
    size_t n[2][256], i;
    int has_quotes = 0, is_start = 1;
    if (e->how <= CAPITALS) {
        for (i = 0; i < in->size && i < out->size; i++)
            if (e->how == IDENTITY ? in->data[i] != out->data[i]
                                   : small(in->data[i]) != small(out->data[i]))
                return i;
        return in->size == out->size ? (size_t)-1 : i;
    }
    memset(n, 0, sizeof n);
    for (i = 0; i < in->size; i++) n[0][(unsigned char)small(in->data[i])]++;
    for (i = 0; i < out->size; i++) n[1][(unsigned char)small(out->data[i])]++;
    for (i = 0; form == MARKUP_WRAPPED && i < in->size; i++) {
        has_quotes |= is_start && in->data[i] == '>';
        is_start = in->data[i] == '\n' || (is_start && strchr(" \t", in->data[i]));
    }
    for (i = 0; i < 256; i++) {
        int is_letter = protect_is_word((uint32_t)i) || i >= 0x80;
        if (small((char)i) != (char)i || i <= ' ' || (form == MARKUP_WRAPPED && i == '-')) continue;
        if (i == '>' && has_quotes) continue; /* as many as quoted lines */
        if (form == MARKUP_MARKDOWN && strchr("\\*_|>", (int)i))
            continue;                                  /* escapes, prefixes of lines */
        if (e->how == DOUBLED && !is_letter) continue; /* "&" may become "&amp;" */
        if (e->how == DOUBLED && i >= 0x80 && memchr(in->data, '&', in->size))
            continue; /* &nbsp; */
        if (e->how == DOUBLED) n[0][i] += e->seen[i] + (i >= 'a' && i <= 'z' ? e->seen[i - 32] : 0);
        if (n[1][i] < n[0][i]) return i; /* &amp; has more letters than & */
        if (form == MARKUP_MARKDOWN)
            continue; /* a link whose text was its label also gets the label */
        if (n[1][i] > n[0][i] && !(e->how == DOUBLED && memchr(in->data, '&', in->size))) return i;
    }
    return (size_t)-1;
}

typedef struct table_row {
    size_t files, same[ECHOES];
} table_row;
static table_row rows[4];
static const char *const forms[] = {"HTML", "subtitles", "Markdown", "wrapped text"};

/* Prints the begin of a text in one line. */
static void show(const char *what, const char *text, size_t size) {
    size_t i;
    printf("   %s ", what);
    for (i = 0; i < size && i < 90; i++) {
        if (text[i] == '\n' || text[i] == '\r') fputs(text[i] == '\n' ? "\\n" : "\\r", stdout);
        else putchar(text[i]);
    }
    puts("");
}

/* Runs all echoes over a document. Returns how many came back as they should. */
static int check_document(const char *name, markup_form form, const char *text, size_t size,
                          int is_loud) {
    echo e;
    text_buffer in, out, made;
    int how, good = 0;
    memset(&e, 0, sizeof e), memset(&in, 0, sizeof in), memset(&out, 0, sizeof out);
    memset(&made, 0, sizeof made);
    rows[form].files++;
    for (how = 0; how < ECHOES; how++) {
        size_t at;
        echo_document(&e, how, form, text, size, &made);
        normalize(form, text, size, &in), normalize(form, made.data, made.size, &out);
        at = difference(&e, form, &in, &out);
        rows[form].same[how] += at == (size_t)-1;
        good += at == (size_t)-1;
        if (at == (size_t)-1 || !is_loud) continue;
        if (how > CAPITALS)
            printf("%s: %s: byte %d is not there as often as before\n", name, echo_names[how],
                   (int)at);
        else {
            size_t from = at > 40 ? at - 40 : 0;
            printf("%s: %s: at byte %d\n", name, echo_names[how], (int)at);
            show("was", in.data + from, in.size - from),
                show("is ", out.data + from, out.size - from);
        }
    }
    text_buffer_free(&e.text), text_buffer_free(&e.tokens);
    text_buffer_free(&in), text_buffer_free(&out), text_buffer_free(&made);
    return good;
}

/* Reads a file. Returns 0 if it cannot be read or is no text. */
static int read_file(const char *path, text_buffer *text) {
    FILE *file = fopen(path, "rb");
    char bytes[1 << 14];
    size_t n;
    text->size = 0;
    text_buffer_append(text, "", 0);
    if (!file) return 0;
    while ((n = fread(bytes, 1, sizeof bytes, file)) > 0) text_buffer_append(text, bytes, n);
    fclose(file);
    return !text->broken;
}

/* Runs all echoes over a file, or over the files of a folder. */
static void walk(const char *path) {
    static text_buffer text;
    struct stat about;
    const char *name = strrchr(path, '.');
    if (lstat(path, &about) != 0) return;
    if (S_ISDIR(about.st_mode)) {
        DIR *folder = opendir(path);
        struct dirent *one;
        while (folder && (one = readdir(folder)) != NULL) {
            text_buffer inner;
            if (strcmp(one->d_name, ".") == 0 || strcmp(one->d_name, "..") == 0) continue;
            memset(&inner, 0, sizeof inner);
            text_buffer_append(&inner, path, strlen(path)), text_buffer_append(&inner, "/", 1);
            text_buffer_append(&inner, one->d_name, strlen(one->d_name));
            walk(inner.data);
            text_buffer_free(&inner);
        }
        if (folder) closedir(folder);
        return;
    }
    if (S_ISREG(about.st_mode) && name && about.st_size < (1 << 22)) {
        static const char *const ends[] = {" .html .htm .xhtml ", " .srt .vtt .sbv ",
                                           " .md .markdown ", " .txt "};
        int form;
        for (form = 0; form < 4; form++)
            if (characters_list_has(ends[form], name, strlen(name))) break;
        if (form < 4 && read_file(path, &text))
            (void)check_document(path, (markup_form)form, text.data, text.size, 1);
    }
}

static void print_table(void) {
    int form, how;
    for (form = 0; form < 4; form++) {
        printf("%-13s %6d files", forms[form], (int)rows[form].files);
        for (how = 0; how < ECHOES; how++)
            printf(", %s %d", echo_names[how], (int)rows[form].same[how]);
        puts("");
    }
}

/* The repository's own documents. */
static void own_documents(void) {
    static const char *const paths[] = {"README.md", "examples", "tests/README.md",
                                        "tests/data/documents"};
    size_t i;
    int form, how;
    memset(rows, 0, sizeof rows);
    for (i = 0; i < sizeof paths / sizeof *paths; i++) walk(paths[i]);
    for (form = 0; form < 4; form++)
        for (how = 0; how < ECHOES; how++)
            CHECK(rows[form].same[how] == rows[form].files, "%s: %s: %d of %d", forms[form],
                  echo_names[how], (int)rows[form].same[how], (int)rows[form].files);
    CHECK(rows[MARKUP_MARKDOWN].files > 8, "%d in Markdown", (int)rows[MARKUP_MARKDOWN].files);
}

static unsigned draw(unsigned *state, unsigned below) {
    *state = *state * 1664525u + 1013904223u;
    return (*state >> 8) % below;
}

/* Appends some of the pieces of a table, which ends with NULL. */
static void pick(text_buffer *doc, unsigned *state, const char *const *pieces, unsigned most) {
    unsigned n = 1 + draw(state, most), count = 0;
    while (pieces[count]) count++;
    while (n-- > 0) {
        const char *piece = pieces[draw(state, count)];
        text_buffer_append(doc, piece, strlen(piece));
    }
}

static const char *const words[] = {"der ",
                                    "Hund ",
                                    "schläft ",
                                    "im Garten. ",
                                    "zählt [0, 5]: ",
                                    "**`code x`** ",
                                    "Wer ",
                                    "bellt? ",
                                    "Ja, ",
                                    "20 m² ",
                                    "© 2024 ",
                                    "Note¹ ",
                                    "{{ name }} ",
                                    "{0} ",
                                    "%s ",
                                    "→ ",
                                    "${ x }, ",
                                    "Wasser\xC2\xAD"
                                    "glas ",
                                    "ein\xC2\xA0Haus ",
                                    "(ja) ",
                                    "%(n)s ",
                                    "{{ a }}s ",
                                    "GOsa²/LDAP ",
                                    "a{x+iy}=x ",
                                    "<{0}> ",
                                    "\xE2\x80\x8B#{ab}# ",
                                    NULL};
static const char *const html_pieces[] = {"<b>gut</b> ",
                                          "<i>so <u>ist</u></i> ",
                                          "<img src=a> ",
                                          "<br>",
                                          "</p>\n<p class='a b'>",
                                          "&amp; ",
                                          "&nbsp;",
                                          "&eacute;t ",
                                          "<code>x y</code> ",
                                          "<x-y>es</x-y> ",
                                          "<ruby>A<rt>a</rt></ruby> ",
                                          "<!-- c --> ",
                                          "\n  ",
                                          "<a href=#n>1</a>, ",
                                          "<b>ja</b><i>nein</i> ",
                                          "Wasser&shy;glas ",
                                          "< ",
                                          "<wbr>",
                                          "<span title='Ein Hund'>da </span>",
                                          "a<sup>2</sup>. ",
                                          "&lt;<x-y>http://a.b</x-y>&gt; ",
                                          "#<b>o.id</b> ",
                                          "(<i>ja</i>), ",
                                          "<code>x y</code>.Auch ",
                                          "<u>*.log</u> ",
                                          "un<u>der</u>line ",
                                          "<ruby>A <rt>a</rt></ruby> ",
                                          "`<x-y a='b' />`) ",
                                          NULL};
static const char *const cue_pieces[] = {
    "<i>gut</i> ", "\n",      "so\\Nda ",   "{\\an8}",     "\n- ",       "& ", "♪ la ♪\n",
    "42\n",        "a -> b ", "<b>so</b> ", "\n\\h\\hda ", "<i>da </i>", NULL};
static const char *const vtt_pieces[] = {"<c.x>gut</c> ",
                                         "<v Anna>Ja. ",
                                         "&amp; ",
                                         "\n- ",
                                         "<00:01.500>",
                                         "&lrm;",
                                         "<i>so</i> ",
                                         "\n",
                                         "<ruby>A <rt>a</rt></ruby> ",
                                         NULL};
static const char *const markdown_pieces[] = {
    "*gut* ",      "**sehr** ", "`code x` ",   "[Link](a_b) ", "![a](b.png) ",    "\n",
    "$a^2$ ",      "a\\*b ",    "snake_case ", "<b>so</b> ",   "&copy; ",         "  \n",
    "http://a.b ", "[^1] ",     ":smile: ",    "==neu== ",     "H~2~O ",          "~~weg~~ ",
    "{.note} ",    "x^2^ ",     "@anna ",      "[[Seite]] ",   " `y` ",           "[Ein Ziel][] ",
    "{A/B c} ",    "a \\ b ",   "'==' ",       "\"\\[\" ",     "***sehr* gut** ", "c \\\\\n",
    "a\tb ",       NULL};
static const char *const wrapped_pieces[] = {"Daten-\nbank ",
                                             "Vor- und ",
                                             "\n> ",
                                             "\n\n  - ",
                                             "Wasser\xC2\xAD\nglas ",
                                             "a  b ",
                                             "debian-\nuser ",
                                             "die-\nser ",
                                             "dieser\n",
                                             "\\ ",
                                             "wenn sie ",
                                             NULL};
static const char *const block_pieces[] = {"# ",
                                           "- ",
                                           "1. ",
                                           "> ",
                                           "- [x] ",
                                           "[^1]: ",
                                           "::: note\n",
                                           "!!! tip\n    ",
                                           ": ",
                                           "> [!NOTE]\n> ",
                                           "```\nx y\n```\n",
                                           "$$\na b\n$$\n",
                                           "",
                                           "{{< x >}}\n\n",
                                           "{% x %}\n\n",
                                           "<div>\n",
                                           "***\n",
                                           "[ein ziel]: x\n\n",
                                           NULL};

/* Documents at random, from the pieces above. */
static void random_documents(void) {
    enum { ROUNDS = 480, FORMS = 4 };
    text_buffer doc;
    unsigned state = 11, i, k;
    int form, how;
    memset(&doc, 0, sizeof doc);
    memset(rows, 0, sizeof rows);
    for (i = 0; i < ROUNDS; i++) {
        int bad;
        doc.size = 0;
        form = (int)(i % FORMS);
        if (form == MARKUP_SRT && i % 8 > FORMS) text_buffer_format(&doc, "WEBVTT\n\n");
        for (k = 0; k < 4; k++) {
            const char *const *pieces = form == MARKUP_HTML       ? html_pieces
                                        : form == MARKUP_MARKDOWN ? markdown_pieces
                                        : form == MARKUP_WRAPPED  ? wrapped_pieces
                                        : i % 8 > FORMS           ? vtt_pieces
                                                                  : cue_pieces;
            unsigned n = 1 + draw(&state, 6);
            if (form == MARKUP_HTML) text_buffer_format(&doc, "<p>");
            else if (form == MARKUP_SRT)
                text_buffer_format(&doc, "%u\n00:00:%02u,000 --> 00:00:%02u,000\n", k, k, k + 1);
            else if (form == MARKUP_MARKDOWN) pick(&doc, &state, block_pieces, 1);
            while (n-- > 0) pick(&doc, &state, words, 3), pick(&doc, &state, pieces, 1);
            pick(&doc, &state, words, 2);
            text_buffer_format(&doc, form == MARKUP_HTML ? "</p>\n" : "\n\n");
        }
        if (!test_in_slice("random", (long)i)) continue;
        bad = check_document("random", (markup_form)form, doc.data, doc.size, 0) < ECHOES;
        if (bad && getenv("SHOW"))
            puts(doc.data),
                (void)check_document("random", (markup_form)form, doc.data, doc.size, 1);
    }
    for (form = 0; form < FORMS; form++)
        for (how = 0; how < ECHOES; how++)
            CHECK(rows[form].same[how] == rows[form].files, "%s: %s: %d of %d", forms[form],
                  echo_names[how], (int)rows[form].same[how], (int)rows[form].files);
    text_buffer_free(&doc);
}

/* Prints the sentences of a file. */
static int print_sentences(markup_form form, const char *path) {
    static text_buffer text;
    markup_document m;
    size_t i;
    memset(&m, 0, sizeof m);
    if (!read_file(path, &text) || !markup_read(&m, form, text.data, text.size)) return 1;
    for (i = 0; i < m.n_sentences; i++)
        printf("%.*s\n", (int)m.sentences[i].size, m.sentences[i].text);
    markup_free(&m);
    return 0;
}

int main(int argc, char **argv) {
    int i;
    if (argc == 4 && strcmp(argv[1], "--sentences") == 0)
        return print_sentences((markup_form)atoi(argv[2]), argv[3]);
    for (i = 1; i < argc; i++) walk(argv[i]);
    if (argc > 1) print_table();
    if (argc > 1) return 0;
    own_documents();
    random_documents();
    between();
    long_sentences();
    memory();
    return test_done("test_echo");
}
