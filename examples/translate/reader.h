/* reader.h: reads lines from a list of files, and detects when the input pauses.

       reader_stream r = {0};
       r.file = stdin;
       while (reader_line(&r, &text, most, &cut))
           if (!reader_ready(&r)) ... the input has paused
       if (r.fault) ... strerror(r.fault)

   On systems without poll, reader_ready always returns 1. Define _POSIX_C_SOURCE 200809L before the
   first include. */
#ifndef READER_H
#define READER_H

#include "encoding.h"
#include "text/text_buffer.h"
#include "utf8_files.h"
#include <errno.h>
#include <stdint.h>
#if defined(__unix__) || defined(__APPLE__)
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>
#define READER_POSIX
#endif

enum { READER_ROOM = 1 << 16 }; /* bytes of the input buffer */
enum { READER_PAUSE = 20 };     /* milliseconds without input that count as a pause */

typedef struct reader_stream {
    const char *text; /* the rest of a text that is read in place of files; NULL: there is none */
    FILE *file;       /* the current file; NULL: start with the first of paths */
    char **paths;     /* the files that follow; "-" is standard input */
    int n_paths;
    const char *name;     /* of the current file; NULL: standard input */
    int ended;            /* the current file has no more bytes */
    int begun;            /* a line of the current file was read */
    const char *encoding; /* of a file that is not UTF-8 but UTF-16 or UTF-32; ends reading */
    int fault;            /* errno of the error that ended reading, or 0 */
    int64_t taken;        /* bytes of all lines so far */
    size_t begin, end;
    char data[READER_ROOM];
} reader_stream;

/* Opens the next file. Returns 0 if there is none, or if it cannot be opened (then fault is
   set). */
static int reader_open(reader_stream *r) {
    if (!r->n_paths) return 0;
    if (r->file && r->file != stdin) fclose(r->file);
    r->name = strcmp(*r->paths, "-") == 0 ? NULL : *r->paths;
    r->file = r->name ? utf8_open(r->name, "rb") : stdin;
    r->ended = !r->file, r->begun = 0;
    if (!r->file) r->fault = errno;
    r->paths++, r->n_paths--;
    return r->file != NULL;
}

/* Reads more bytes of the current file into the buffer. Returns 0 at its end or after an error
   (then fault is set). */
static int reader_fill(reader_stream *r) {
    long n = 0;
    if ((!r->file && !r->text) || r->ended) return 0;
    memmove(r->data, r->data + r->begin, r->end - r->begin);
    r->end -= r->begin, r->begin = 0;
    if (r->text) {
        while (r->end < READER_ROOM && *r->text) r->data[r->end++] = *r->text++, n++;
        return n > 0;
    }
#ifdef READER_POSIX
    if (fileno(r->file) >= 0) {
        do n = (long)read(fileno(r->file), r->data + r->end, READER_ROOM - r->end);
        while (n < 0 && errno == EINTR);
    } else
#endif
    {
        int c = getc(r->file);
        if (c != EOF) r->data[r->end] = (char)c, n = 1;
        else if (ferror(r->file)) n = -1;
    }
    if (n < 0) r->fault = errno;
    r->ended = n <= 0;
    if (n > 0) r->end += (size_t)n;
    return n > 0;
}

/* Appends one line to b, without its newline. Returns 0 at the end of the last file, or after an
   error. A last line without a newline counts as a line. If a line has more than `most` bytes, or
   if memory is too small for it, sets *cut and appends nothing. If the first line of a file is
   UTF-16 or UTF-32, sets encoding and fault, and returns 0. */
static int reader_line(reader_stream *r, text_buffer *b, size_t most, int *cut) {
    size_t begin = b->size, n;
    const char *newline = NULL;
    int fits = 1, any = 0;
    while (!newline) {
        if (r->begin == r->end && !reader_fill(r)) {
            if (any || r->fault || !reader_open(r)) break;
            continue;
        }
        newline = (const char *)memchr(r->data + r->begin, '\n', r->end - r->begin);
        n = (newline ? (size_t)(newline - r->data) : r->end) - r->begin;
        fits = fits && n <= most - (b->size - begin) && text_buffer_reserve(b, n);
        if (fits && n) memcpy(b->data + b->size, r->data + r->begin, n), b->size += n;
        n += newline != NULL;
        r->begin += n, r->taken += (int64_t)n;
        any = 1;
    }
    if (!r->begun && any && fits) r->encoding = encoding_of_start(b->data + begin, b->size - begin);
    r->begun = 1;
    if (r->encoding) any = 0, r->fault = EILSEQ;
    if (!fits || r->encoding) b->size = begin;
    if (!fits) *cut = 1;
    return any;
}

/* Returns whether reader_line can return within READER_PAUSE milliseconds. */
static int reader_ready(reader_stream *r) {
#ifdef READER_POSIX
    struct pollfd poll_in;
    int n;
    while (!memchr(r->data + r->begin, '\n', r->end - r->begin)) {
        if (!r->file || fileno(r->file) < 0 || r->end - r->begin == READER_ROOM) return 1;
        poll_in.fd = fileno(r->file), poll_in.events = POLLIN;
        do n = poll(&poll_in, 1, READER_PAUSE);
        while (n < 0 && errno == EINTR);
        if (n == 0) return 0;
        if (!reader_fill(r)) return 1;
    }
#else
    (void)r;
#endif
    return 1;
}

/* Returns the total size of the files in bytes; 0 if it is not known or a file is not regular. */
static int64_t reader_size(const reader_stream *r) {
    int64_t size = 0;
#ifdef READER_POSIX
    struct stat about;
    int i;
    if (r->file && (fstat(fileno(r->file), &about) != 0 || !S_ISREG(about.st_mode))) return 0;
    if (r->file) size = (int64_t)about.st_size;
    for (i = 0; i < r->n_paths; i++) {
        if (stat(r->paths[i], &about) != 0 || !S_ISREG(about.st_mode)) return 0;
        size += (int64_t)about.st_size;
    }
#else
    (void)r;
#endif
    return size;
}

/* Returns whether the file at `path` is one of the reader's files. */
static int reader_reads(const reader_stream *r, const char *path) {
    int i, same = 0;
#ifdef READER_POSIX
    struct stat about, other;
    if (stat(path, &other) != 0 || !S_ISREG(other.st_mode)) return 0;
    for (i = 0; i <= r->n_paths; i++)
        same |= (i < r->n_paths ? stat(r->paths[i], &about) == 0
                                : r->file && fstat(fileno(r->file), &about) == 0) &&
                about.st_dev == other.st_dev && about.st_ino == other.st_ino;
#else
    for (i = 0; i < r->n_paths; i++) same |= strcmp(r->paths[i], path) == 0;
#endif
    return same;
}

/* Closes the current file, unless it is standard input. */
static void reader_close(reader_stream *r) {
    if (r->file && r->file != stdin) fclose(r->file);
    r->file = NULL;
}

#endif
