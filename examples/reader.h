/* reader.h: lines of files, one file after the other, and whether the next line has come already.

       reader r = {0};
       r.file = stdin;
       while (reader_line(&r, &text, most, &cut))
           if (!reader_ready(&r)) ... whoever writes has paused
       if (r.fault) ... strerror(r.fault)

   Where there is no poll, the next line always seems to have come. Define _POSIX_C_SOURCE 200809L
   before the first include. */
#ifndef READER_H
#define READER_H

#include "buffer.h"
#include <errno.h>
#include <stdint.h>
#if defined(__unix__) || defined(__APPLE__)
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>
#define READER_POSIX
#endif

enum { READER_ROOM = 1 << 16, READER_PAUSE = 20 }; /* bytes; milliseconds without any */

typedef struct reader {
    FILE *file;   /* NULL: the first of paths */
    char **paths; /* what comes after it; "-" is standard input */
    int n_paths;
    const char *name; /* of the file at hand; NULL: standard input */
    int ended, fault; /* fault: errno of what ended it */
    int64_t taken;    /* bytes of lines so far */
    size_t begin, end;
    char data[READER_ROOM];
} reader;

/* The next of the files. */
static int reader_open(reader *r) {
    if (!r->n_paths) return 0;
    if (r->file && r->file != stdin) fclose(r->file);
    r->name = strcmp(*r->paths, "-") == 0 ? NULL : *r->paths;
    r->file = r->name ? fopen(r->name, "rb") : stdin;
    r->ended = !r->file;
    if (!r->file) r->fault = errno;
    r->paths++, r->n_paths--;
    return r->file != NULL;
}

/* Reads some bytes, behind those at hand; 0: the file has ended, or fault says why not. */
static int reader_fill(reader *r) {
    long n = 0;
    if (!r->file || r->ended) return 0;
    memmove(r->data, r->data + r->begin, r->end - r->begin);
    r->end -= r->begin, r->begin = 0;
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

/* Appends one line without its newline; 0 at the end of the last file, or a fault. A last line
   without newline counts. A line of more than most bytes, or more than memory holds, is left out
   and *cut. */
static int reader_line(reader *r, buffer *b, size_t most, int *cut) {
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
        fits = fits && n <= most - (b->size - begin) && buffer_reserve(b, n);
        if (fits && n) memcpy(b->data + b->size, r->data + r->begin, n), b->size += n;
        n += newline != NULL;
        r->begin += n, r->taken += (int64_t)n;
        any = 1;
    }
    if (!fits) *cut = 1, b->size = begin;
    return any;
}

/* Whether reader_line has something to say without waiting longer than a pause. */
static int reader_ready(reader *r) {
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

/* The bytes of all files, or 0 where not all are regular files, or unknown. */
static int64_t reader_size(const reader *r) {
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

/* Whether one of them is that file. */
static int reader_reads(const reader *r, const char *path) {
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

static void reader_close(reader *r) {
    if (r->file && r->file != stdin) fclose(r->file);
    r->file = NULL;
}

#endif
