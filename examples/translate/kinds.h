/* kinds.h: what kind of document a file is, from its name and from its first bytes.

       const kind_entry *kind = kind_of_start(bytes, n);    NULL: text without a sign of its kind
       if (!kind) kind = kind_of_name(path);                NULL: lines
       if (kind->advice) ... no text: kind->advice says what to use instead */
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
    KIND_OTHER
} kind_form;

typedef struct kind_entry {
    kind_form form;
    const char *name;   /* for messages */
    const char *ends;   /* endings of file names, with a space before and after each */
    const char *start;  /* the first bytes, or "" if they say nothing; "?" is any byte, and in
                           subtitles "0" any digit, "1" any number */
    const char *advice; /* NULL, or what to use instead */
} kind_entry;

#define KIND_PYTHON "translate it with: python -m transformer_h MODEL FILE"
#define KIND_SPEECH "transcribe MODEL FILE writes what is said"
#define KIND_UNPACK "unpack it first"
#define KIND_OCR "read its text first, with a program such as tesseract"

/* In the order in which they are tried. */
static const kind_entry kind_table[] = {
    {KIND_SRT, "WebVTT subtitles", " .vtt ", "WEBVTT", NULL},
    {KIND_SRT, "subtitles", " .srt .sbv .lrc ", "0\n00:00:00,000 -->", NULL},
    {KIND_SRT, "subtitles", " ", "0\r\n00:00:00,000 -->", NULL},
    {KIND_SRT, "subtitles", " ", "[00:00.000 -->", NULL},
    {KIND_SRT, "subtitles", " ", "[00:00:00.000 -->", NULL},
    {KIND_SRT, "MicroDVD subtitles", " .sub ", "{1}{1}", NULL},
    {KIND_SRT, "MPL2 subtitles", " .mpl .mpl2 ", "[1][1]", NULL},
    {KIND_HTML, "HTML", " .html .htm .shtml ", "<!doctype html", NULL},
    {KIND_HTML, "TTML subtitles", " .ttml .dfxp ", "<tt", NULL},
    {KIND_HTML, "SAMI subtitles", " .smi .sami ", "<sami", NULL},
    {KIND_HTML, "HTML", " .xhtml .xht ", "<html", NULL},
    {KIND_HTML, "XML", " .xml .xlf .xliff ", "<?xml", NULL},
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
    {KIND_OTHER, "subtitles of another kind", " .ass .ssa ", "[Script Info]",
     "make SubRip first: ffmpeg -i FILE film.srt"}};
enum { KIND_ENTRIES = sizeof kind_table / sizeof *kind_table, KIND_START = 64 };

static char kind_small(char c) { return (char)(c >= 'A' && c <= 'Z' ? c + 32 : c); }

/* Returns the kind that the first bytes of a file say, or NULL. Spaces and a byte order mark may be
   before those of text. */
static const kind_entry *kind_of_start(const char *bytes, size_t n) {
    size_t i, k, at = 0;
    for (i = 0; i < KIND_ENTRIES; i++) {
        const char *start = kind_table[i].start;
        size_t size = strlen(start);
        at = 0;
        if (kind_table[i].form != KIND_OTHER) {
            if (n >= 3 && memcmp(bytes, "\xEF\xBB\xBF", 3) == 0) at = 3;
            while (at < n && kind_table[i].form == KIND_HTML && strchr(" \t\r\n", bytes[at]) &&
                   bytes[at])
                at++;
        }
        for (k = 0; k < size && at + k < n; k++) {
            char c = bytes[at + k];
            if (kind_table[i].form == KIND_SRT && start[k] == '1' && c >= '0' && c <= '9') {
                while (at + k + 1 < n && bytes[at + k + 1] >= '0' && bytes[at + k + 1] <= '9') at++;
                continue;
            }
            if (start[k] != '?' && c != start[k] &&
                !(kind_table[i].form == KIND_HTML && kind_small(c) == start[k]) &&
                !(kind_table[i].form == KIND_SRT && start[k] == '0' && c >= '0' && c <= '9'))
                break;
        }
        if (!size || k < size) continue;
        if (kind_table[i].form == KIND_OTHER || strchr("}]", start[size - 1]) || at + size == n ||
            strchr(" \t\r\n>", bytes[at + size]))
            return &kind_table[i];
    }
    return NULL;
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
