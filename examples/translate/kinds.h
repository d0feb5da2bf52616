/* kinds.h: what kind of document a file is, from its name and from its first bytes. const
   kind_entry *kind = kind_of_start(bytes, n); NULL: text without a sign of its kind if (!kind) kind
   = kind_of_name(path); NULL: lines if (kind->advice) ... kind->advice says what to use instead
   KIND_OTHER is no text. KIND_STRUCTURED is text in which a reader of lines would translate names
   and marks, too. KIND_TABLE is a table with tabs between its columns. */
#ifndef KINDS_H
#define KINDS_H

#include <stddef.h>
#include <string.h>

typedef enum kind_form {
    KIND_LINES,
    KIND_HTML,
    KIND_MARKDOWN,
    KIND_SRT,
    KIND_WRAPPED,
    KIND_OTHER,
    KIND_STRUCTURED,
    KIND_TABLE
} kind_form;

typedef struct kind_entry {
    kind_form form;
    const char *name; /* for messages */
    const char *ends; /* endings of file names, with a space before and after each */
    const char
        *start; /* the first bytes, or "" if they say nothing; "?" is any byte; in subtitles "0"
                           is any digit, "1" any number; in what has a structure " " is any number
                           of spaces. "<" and a name: the first element of XML or HTML */
    const char *advice; /* NULL, or what to use instead */
} kind_entry;

#define KIND_PYTHON "translate it with: python -m transformer_h MODEL FILE -o OUT"
#define KIND_SPEECH "transcribe MODEL FILE writes what is said"
#define KIND_UNPACK "unpack it first"
#define KIND_OCR "read its text first, with a program such as tesseract"
#define KIND_TEXTS "take its texts out first, or give --format lines"
#define KIND_PANDOC "make Markdown first: pandoc FILE -o FILE.md"
#define KIND_FFMPEG "make SubRip first: ffmpeg -i FILE film.srt"
#define KIND_BINARY "only text can be translated"
#define KIND_CALIBRE "make a book in epub first: ebook-convert FILE book.epub"

/* In the order in which they are tried. */
static const kind_entry kind_table[] = {
    {KIND_SRT, "WebVTT subtitles", " .vtt ", "WEBVTT", NULL},
    {KIND_SRT, "subtitles", " .srt .sbv .lrc ", "0\n00:00:00,000 -->", NULL},
    {KIND_SRT, "subtitles", " ", "0\r\n00:00:00,000 -->", NULL},
    {KIND_SRT, "subtitles", " ", "[00:00.000 -->", NULL},
    {KIND_SRT, "subtitles", " ", "[00:00:00.000 -->", NULL},
    {KIND_SRT, "ASS subtitles", " .ass .ssa ", "[Script Info]", NULL},
    {KIND_SRT, "MicroDVD subtitles", " .sub ", "{1}{1}", NULL},
    {KIND_SRT, "MPL2 subtitles", " .mpl .mpl2 ", "[1][1]", NULL},
    {KIND_STRUCTURED, "an XLIFF file", " .xlf .xliff .mxliff .sdlxliff ", "<xliff", KIND_PYTHON},
    {KIND_STRUCTURED, "a TMX file", " .tmx ", "<tmx", KIND_PYTHON},
    {KIND_STRUCTURED, "a translation file of Qt", " ", "<ts", KIND_PYTHON},
    {KIND_STRUCTURED, "a file of Android's strings", " ", "<resources", KIND_PYTHON},
    {KIND_STRUCTURED, "a file of .NET's resources", " .resx .resw ", "<root> <resheader",
     KIND_PYTHON},
    {KIND_STRUCTURED, "a file of .NET's resources", " ", "<root> <xsd:schema", KIND_PYTHON},
    {KIND_STRUCTURED, "a file of Apple's strings", " .strings .xcstrings ", "{ \"sourceLanguage\"",
     KIND_PYTHON},
    {KIND_STRUCTURED, "a gettext file", " .po .pot ", "msgid \"", KIND_PYTHON},
    {KIND_STRUCTURED, "a gettext file", " ", "msgctxt \"", KIND_PYTHON},
    {KIND_STRUCTURED, "an ARB file", " .arb ", "{ \"@@locale\"", KIND_PYTHON},
    {KIND_STRUCTURED, "a FictionBook", " .fb2 ", "<fictionbook", KIND_CALIBRE},
    {KIND_STRUCTURED, "a drawing (SVG)", " .svg ", "<svg",
     "translate its texts in a drawing program, such as Inkscape"},
    {KIND_STRUCTURED, "a property list", " .plist .stringsdict ", "<plist", KIND_TEXTS},
    {KIND_HTML, "HTML", " .html .htm .shtml ", "<!doctype html", NULL},
    {KIND_HTML, "TTML subtitles", " .ttml .dfxp ", "<tt", NULL},
    {KIND_HTML, "SAMI subtitles", " .smi .sami ", "<sami", NULL},
    {KIND_HTML, "HTML", " .xhtml .xht ", "<html", NULL},
    {KIND_HTML, "XML", " .xml ", "<?xml", NULL},
    {KIND_MARKDOWN, "Markdown", " .md .markdown .mkd .mdown .mdx .qmd .rmd ", "", NULL},
    {KIND_OTHER, "a PDF file", " .pdf ", "%PDF-",
     "take its text out first: pdftotext -layout FILE"},
    {KIND_OTHER, "an Office document or a book", " .docx .pptx .odt .odp .epub ", "", KIND_PYTHON},
    {KIND_OTHER, "a spreadsheet", " .xlsx .xls .ods ", "",
     "save it as text with tabs, and give --column N"},
    {KIND_OTHER, "an old or an encrypted Office document", " .doc .ppt ",
     "\xD0\xCF\x11\xE0\xA1\xB1\x1A\xE1", "save it as docx, pptx or odt without a password first"},
    {KIND_OTHER, "an RTF document", " .rtf ", "{\\rtf", "save it as docx or odt first"},
    {KIND_OTHER, "a zip archive, as Office documents and books are", " .zip ", "PK\3\4",
     KIND_PYTHON},
    {KIND_OTHER, "a WAV file", " .wav ", "RIFF????WAVE", KIND_SPEECH},
    {KIND_OTHER, "sound", " .mp3 ", "ID3", KIND_SPEECH},
    {KIND_OTHER, "sound", " .flac ", "fLaC", KIND_SPEECH},
    {KIND_OTHER, "sound", " .ogg .opus ", "OggS", KIND_SPEECH},
    {KIND_OTHER, "sound or a film", " .mp4 .m4a .mov ", "????ftyp", KIND_SPEECH},
    {KIND_OTHER, "a film", " .mkv .webm ", "\x1A\x45\xDF\xA3", KIND_SPEECH},
    {KIND_OTHER, "a gzip archive", " .gz .tgz ", "\x1F\x8B", KIND_UNPACK},
    {KIND_OTHER, "an xz archive", " .xz ",
     "\xFD"
     "7zXZ",
     KIND_UNPACK},
    {KIND_OTHER, "a bzip2 archive", " .bz2 ", "BZh?1AY&SY", KIND_UNPACK},
    {KIND_OTHER, "a Zstandard archive", " .zst ", "\x28\xB5\x2F\xFD", KIND_UNPACK},
    {KIND_OTHER, "a 7z archive", " .7z ", "7z\xBC\xAF\x27\x1C", KIND_UNPACK},
    {KIND_OTHER, "a picture", " .png ", "\x89PNG\r\n", KIND_OCR},
    {KIND_OTHER, "a picture", " .jpg .jpeg ", "\xFF\xD8\xFF", KIND_OCR},
    {KIND_OTHER, "a picture", " .gif ", "GIF8?a", KIND_OCR},
    {KIND_OTHER, "a picture", " .tif .tiff ", "II*", KIND_OCR},
    {KIND_OTHER, "a picture", " .webp ", "RIFF????WEBP", KIND_OCR},
    {KIND_OTHER, "subtitles that are pictures", " .idx .sup ", "??\1\xBA", KIND_OCR},
    {KIND_OTHER, "subtitles that are pictures", " ", "# VobSub", KIND_OCR},
    {KIND_OTHER, "subtitles of another kind", " .stl .scc .mks ", "Scenarist_SCC", KIND_FFMPEG},
    {KIND_OTHER, "a document of Apple's office programs", " .pages .key .numbers ", "",
     "save it as docx or pptx first"},
    {KIND_OTHER, "a book of a Kindle", " .mobi .azw .azw3 ", "", KIND_CALIBRE},
    {KIND_OTHER, "a compiled gettext file", " .mo ", "\xDE\x12\x04\x95",
     "make a .po file first: msgunfmt FILE > FILE.po"},
    {KIND_OTHER, "a program", " .exe .dll .so .o ",
     "\x7F"
     "ELF",
     KIND_BINARY},
    {KIND_OTHER, "a program", " ", "MZ\x90", KIND_BINARY},
    {KIND_OTHER, "a program", " .dylib ", "\xCF\xFA\xED\xFE", KIND_BINARY},
    {KIND_OTHER, "a program", " .class ", "\xCA\xFE\xBA\xBE", KIND_BINARY},
    {KIND_OTHER, "a database", " .sqlite .sqlite3 .db ", "SQLite format 3", KIND_BINARY},
    {KIND_STRUCTURED, "an Office document in one file", " .fodt .fodp .fods ", "<office:document",
     "save it as odt or odp first"},
    {KIND_TABLE, "a table with tabs", " .tsv .tab ", "",
     "give --column N, which translates one column, or --format lines"},
    {KIND_STRUCTURED, "a table", " .csv ", "",
     "save it with tabs between the columns, and give --column N"},
    {KIND_STRUCTURED, "JSON", " .json .jsonl .ndjson .json5 .geojson .ipynb ", "{ \"", KIND_TEXTS},
    {KIND_STRUCTURED, "JSON", " ", "[ { \"", KIND_TEXTS},
    {KIND_STRUCTURED, "JSON", " ", "[ \"", KIND_TEXTS},
    {KIND_STRUCTURED, "YAML", " .yaml .yml ", "%YAML", KIND_TEXTS},
    {KIND_STRUCTURED, "TOML", " .toml ", "", KIND_TEXTS},
    {KIND_STRUCTURED, "a file of settings", " .ini .cfg .conf .properties .env .ftl .reg .desktop ",
     "[Desktop Entry]", KIND_TEXTS},
    {KIND_STRUCTURED, "TeX", " .tex .ltx .latex .bib .sty .cls ", "\\documentclass", KIND_PANDOC},
    {KIND_STRUCTURED, "a document with marks of another kind",
     " .rst .adoc .asciidoc .org .textile .wiki .mediawiki .typ .t2t ", "", KIND_PANDOC},
    {KIND_STRUCTURED, "a mail with its head", " .eml .mbox .emlx ",
     "Return-Path:", "save its text as .txt, and give --wrapped"},
    {KIND_STRUCTURED, "a mail with its head", " ", "Received: from",
     "save its text as .txt, and give --wrapped"},
    {KIND_STRUCTURED, "a page in an archive", " .mht .mhtml ", "", "save it as HTML first"},
    {KIND_STRUCTURED, "a calendar", " .ics ", "BEGIN:VCALENDAR", KIND_TEXTS},
    {KIND_STRUCTURED, "addresses", " .vcf ", "BEGIN:VCARD", KIND_TEXTS},
    {KIND_STRUCTURED, "a list of changes", " .diff .patch ", "diff --git ", KIND_TEXTS},
    /* Endings that are also codes of languages, as in corpus.cs or corpus.pl, are not here. */
    {KIND_STRUCTURED, "the source of a program",
     " .c .h .cc .cpp .cxx .hpp .hh .java .kt .kts .swift .m .mm .py .pyi .rb .php .js .mjs .cjs "
     ".jsx .ts"
     " .tsx .vue .svelte .go .rs .zig .scala .groovy .lua .jl .f90 .pas .vb .sh .bash .zsh .fish "
     ".ps1 .bat"
     " .cmd .sql .css .scss .less .sass .dart .ex .exs .erl .hs .clj .lisp .vim .asm .cmake .gradle"
     " .proto .graphql .nim .awk .r .jsonnet .tf ",
     "#!", KIND_TEXTS}};
enum { KIND_ENTRIES = sizeof kind_table / sizeof *kind_table, KIND_START = 4096 };

static char kind_small(char c) { return (char)(c >= 'A' && c <= 'Z' ? c + 32 : c); }

static int kind_is_space(char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n'; }
static int kind_is_digit(char c) { return c >= '0' && c <= '9'; }

/* Returns where what is behind spaces begins. */
static size_t kind_behind_spaces(const char *bytes, size_t n, size_t at) {
    while (at < n && kind_is_space(bytes[at])) at++;
    return at;
}

/* Returns whether bytes from `at` on begin with a text. */
static int kind_has(const char *bytes, size_t n, size_t at, const char *text) {
    return n - at >= strlen(text) && memcmp(bytes + at, text, strlen(text)) == 0;
}

/* Returns where the first element of XML or HTML begins: behind spaces, <?xml ... ?>, comments and
   <!DOCTYPE ...>. */
static size_t kind_root(const char *bytes, size_t n, size_t at) {
    for (;;) {
        const char *close;
        at = kind_behind_spaces(bytes, n, at);
        close = kind_has(bytes, n, at, "<?")     ? "?>"
                : kind_has(bytes, n, at, "<!--") ? "-->"
                : kind_has(bytes, n, at, "<!")   ? ">"
                                                 : NULL;
        if (!close) return at;
        while (at < n && !kind_has(bytes, n, at, close)) at++;
        at += at < n ? strlen(close) : 0;
    }
}

/* Returns where the text of a file begins whose first lines are comments with "#", as those of
   gettext. */
static size_t kind_behind_comments(const char *bytes, size_t n, size_t at) {
    while (at < n && (bytes[at] == '#' || kind_is_space(bytes[at]))) {
        while (at < n && bytes[at] != '\n') at++;
        at += at < n;
    }
    return at;
}

/* Returns whether bytes begin as a kind's do. They are those behind what may be before. */
static int kind_begins(const kind_entry *kind, const char *bytes, size_t n, size_t at) {
    const char *start = kind->start;
    for (; *start; start++) {
        if (kind->form == KIND_STRUCTURED && *start == ' ') {
            at = *kind->start == '<' ? kind_root(bytes, n, at) : kind_behind_spaces(bytes, n, at);
            continue;
        }
        if (at >= n) return 0;
        if (kind->form == KIND_SRT && *start == '1' && kind_is_digit(bytes[at])) {
            while (at < n && kind_is_digit(bytes[at])) at++;
            continue;
        }
        if (!(bytes[at] == *start || (kind->form == KIND_OTHER && *start == '?') ||
              (*kind->start == '<' && kind_small(bytes[at]) == *start) ||
              (kind->form == KIND_SRT && *start == '0' && kind_is_digit(bytes[at]))))
            return 0;
        at++;
    }
    if (kind->form == KIND_OTHER || (kind->form == KIND_STRUCTURED && *kind->start != '<') ||
        strchr("}]", start[-1]))
        return 1;
    return at == n || kind_is_space(bytes[at]) || bytes[at] == '>';
}

/* Returns the kind that the first bytes of a file say, or NULL. Spaces and a byte order mark may be
   before those of text. */
static const kind_entry *kind_of_start(const char *bytes, size_t n) {
    size_t i, at;
    for (i = 0; i < KIND_ENTRIES; i++) {
        const kind_entry *kind = &kind_table[i];
        if (!*kind->start) continue;
        at = kind->form != KIND_OTHER && n >= 3 && memcmp(bytes, "\xEF\xBB\xBF", 3) == 0 ? 3 : 0;
        if (*kind->start == '<' && !strchr("?!", kind->start[1])) at = kind_root(bytes, n, at);
        else if (*kind->start == '<') at = kind_behind_spaces(bytes, n, at);
        else if (strncmp(kind->start, "msg", 3) == 0) at = kind_behind_comments(bytes, n, at);
        if (kind_begins(kind, bytes, n, at)) return kind;
    }
    return NULL;
}

/* Returns whether many kinds of files begin as this one does, so a name says more. */
static int kind_is_general(const kind_entry *kind) {
    return strcmp(kind->name, "XML") == 0 || strcmp(kind->name, "JSON") == 0;
}

/* Returns the kind that a file's name says by its ending, in either case, or NULL. */
static const kind_entry *kind_of_name(const char *path) {
    const char *dot = strrchr(path, '.'), *at, *end;
    size_t i, k, n;
    if (!dot || strpbrk(dot, "/\\")) return NULL;
    n = strlen(dot);
    for (i = 0; i < KIND_ENTRIES; i++)
        for (at = kind_table[i].ends + 1; *at; at = end + 1) {
            end = strchr(at, ' ');
            for (k = 0; k < n && at + k < end && kind_small(dot[k]) == at[k];) k++;
            if (k == n && at + k == end) return &kind_table[i];
        }
    return NULL;
}

/* Sets *form to the form that a word of --format means. Returns 0 if there is none. */
static int kind_of_word(const char *word, kind_form *form) {
    static const char *const words[] = {"lines html markdown srt wrapped", "text xhtml md vtt",
                                        "txt xml"};
    size_t i, n = strlen(word);
    for (i = 0; i < 3; i++) {
        const char *at = words[i];
        int f;
        for (f = KIND_LINES; f <= KIND_WRAPPED && at; f++) {
            const char *end = strchr(at, ' ');
            size_t size = end ? (size_t)(end - at) : strlen(at);
            if (size == n && memcmp(at, word, n) == 0) {
                *form = (kind_form)f;
                return 1;
            }
            at = end ? end + 1 : NULL;
        }
    }
    return 0;
}

#endif
