/* output.h: writes files as a whole or not at all.
   Include it before all other headers: it defines macros that make the system's headers declare
   POSIX functions.

       output o;
       const char *fault = output_open(&o, path);
       if (!fault) {
           fwrite(..., o.stream);
           fault = output_close(&o, NULL);    NULL: path is the new file; else path is unchanged
       }

   output_open creates a part file beside path, named path.partPID. output_close renames the part
   file to path. If anything fails, the part file is removed. After SIGINT, SIGTERM or SIGHUP,
   output_close removes the part file and then raises the signal again. A second signal does not
   wait for output_close: the handler removes the part file and ends the program.

   path must be a regular file or a new name. Devices, folders, pipes and symbolic links are
   rejected. A file that is replaced keeps its permissions; a new file gets those that the umask
   allows. */
#ifndef OUTPUT_H
#define OUTPUT_H

#ifdef _WIN32
#include <process.h>
#else
#if !defined(_XOPEN_SOURCE) && !defined(__APPLE__)
#define _XOPEN_SOURCE 700 /* beside -std=c99 */
#endif
#ifndef _FILE_OFFSET_BITS
#define _FILE_OFFSET_BITS 64 /* files of over 2 GB on 32-bit systems */
#endif
#include <fcntl.h>
#include <unistd.h>
#endif
#ifndef __wasi__ /* WASI has neither signals nor processes */
#include <signal.h>
#endif
#include "messages.h"
#include "utf8_files.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>

enum { OUTPUT_SIGNALS = 4, OUTPUT_NAMES = 100, OUTPUT_BUFFER = 1 << 20 };

typedef struct output {
    FILE *stream;
    const char *path;
    char *part;
    char *buffer; /* Linux maps the pages of a file with less work if they were written together */
    char fault[256];
    void (*handlers[OUTPUT_SIGNALS])(int); /* the handlers from before output_open */
} output;

/* Returns 1 if both names are one file. Writing to a file while it is read would destroy it. */
static inline int output_is_same(const char *a, const char *b) {
#ifndef _WIN32
    struct stat x, y;
    if (stat(a, &x) == 0 && stat(b, &y) == 0) return x.st_dev == y.st_dev && x.st_ino == y.st_ino;
#endif
    return strcmp(a, b) == 0;
}

/* Returns NULL if path can be written, else the reason. Sets *mode to the permissions of the file
   that will be replaced, or to -1. */
static inline const char *output_refusal(const char *path, int *mode) {
#ifdef _WIN32
    struct _stat64 about;
    wchar_t *wide = utf8_widen(path);
    int is_there = wide && _wstat64(wide, &about) == 0;
    free(wide);
    *mode = -1;
    if (!is_there) return errno == ENOENT ? NULL : strerror(errno);
    return (about.st_mode & _S_IFMT) == _S_IFREG ? NULL : "is not a regular file";
#else
    struct stat about;
    *mode = -1;
    if (lstat(path, &about) != 0) return errno == ENOENT ? NULL : strerror(errno);
    if (S_ISLNK(about.st_mode)) return "is a symbolic link, name the file itself";
    if (!S_ISREG(about.st_mode)) return "is not a regular file";
    *mode = (int)(about.st_mode & 0777);
    return access(path, W_OK) == 0 ? NULL : strerror(errno);
#endif
}

#ifdef __wasi__
static inline int output_stopped(void) { return 0; }
static inline void output_note(const char *part) { (void)part; }
static inline void output_hold(int is_held) { (void)is_held; }
static inline void output_watch(output *o) { (void)o; }
static inline void output_unwatch(const output *o) { (void)o; }
static inline int output_process(void) { return 0; }
#else
static volatile sig_atomic_t output_signal;    /* the signal that arrived, or 0 */
static const char *volatile output_unfinished; /* name of the part file while it exists */

/* Sets a handler as signal() does, but the handler stays. signal() may remove a handler when it
   runs; a second signal at that moment would end the program without removing the part file. */
static inline void (*output_handle(int number, void (*handler)(int)))(int) {
#ifdef _WIN32
    return signal(number, handler);
#else
    struct sigaction action, before;
    memset(&action, 0, sizeof action);
    action.sa_handler = handler;
    action.sa_flags = SA_RESTART;
    return sigaction(number, &action, &before) == 0 ? before.sa_handler : SIG_ERR;
#endif
}

static inline void output_catch(int number) {
    if (!output_signal) {
        output_signal = number;
#ifdef _WIN32
        signal(number, output_catch); /* Windows removes a handler when it runs */
#endif
        return;
    }
#ifndef _WIN32 /* Windows cannot remove a file that is open */
    if (output_unfinished) unlink(output_unfinished);
#endif
    output_handle(number, SIG_DFL);
    raise(number);
}

/* Returns 1 after a signal. Writers of large tensors ask between pieces, so they stop soon. */
static inline int output_stopped(void) { return output_signal != 0; }

static inline void output_note(const char *part) { output_unfinished = part; }

/* output_hold blocks signals while output_open creates the part file and stores its name. A handler
   that ran in between would not know the name, and the part file would remain. */
#ifdef _WIN32
static const int output_signals[OUTPUT_SIGNALS] = {SIGINT, SIGTERM, 0, 0};
static inline int output_process(void) { return _getpid(); }
static inline void output_hold(int is_held) { (void)is_held; }
#else
static const int output_signals[OUTPUT_SIGNALS] = {SIGINT, SIGTERM, SIGHUP, SIGXFSZ};
static inline int output_process(void) { return (int)getpid(); }
static inline void output_hold(int is_held) {
    static sigset_t before;
    sigset_t all;
    int i;
    sigemptyset(&all);
    for (i = 0; i < OUTPUT_SIGNALS; i++) sigaddset(&all, output_signals[i]);
    if (is_held) sigprocmask(SIG_BLOCK, &all, &before);
    else sigprocmask(SIG_SETMASK, &before, NULL);
}
#endif

static inline void output_watch(output *o) {
    int i;
    output_signal = 0;
    for (i = 0; i < OUTPUT_SIGNALS && output_signals[i]; i++) {
        /* SIGXFSZ, the last, is ignored: the write that exceeds the limit fails, and that is
           reported */
        o->handlers[i] = output_handle(output_signals[i], i < 3 ? output_catch : SIG_IGN);
        /* a signal that was ignored, as by nohup, stays ignored */
        if (o->handlers[i] == SIG_IGN) output_handle(output_signals[i], SIG_IGN);
    }
}

static inline void output_unwatch(const output *o) {
    int i, number = output_signal;
    for (i = 0; i < OUTPUT_SIGNALS && output_signals[i]; i++)
        if (o->handlers[i] != SIG_ERR) output_handle(output_signals[i], o->handlers[i]);
    output_signal = 0;
    if (number) raise(number);
}
#endif

/* Creates a new file and returns its descriptor, or -1 if the name exists or cannot be created. */
static inline int output_create(const char *name, int mode) {
#ifdef _WIN32
    wchar_t *wide = utf8_widen(name);
    int flags = _O_CREAT | _O_EXCL | _O_WRONLY | _O_BINARY;
    int file = wide ? _wopen(wide, flags, _S_IREAD | _S_IWRITE) : -1;
    free(wide);
    (void)mode;
    if (file < 0 || !_isatty(file)) return file;
    _close(file); /* Windows takes NUL.part for the device NUL */
    errno = EINVAL;
    return -1;
#else
    int file = open(name, O_CREAT | O_EXCL | O_WRONLY | O_NOFOLLOW, mode < 0 ? 0666 : mode);
#ifndef __wasi__
    /* open() removed the permissions that the umask forbids; the replaced file may have had them */
    if (file >= 0 && mode >= 0 && fchmod(file, (mode_t)mode) != 0) {
        close(file);
        remove(name);
        return -1;
    }
#endif
    return file;
#endif
}

#ifdef _WIN32
/* Renames a file, and replaces the one that has the name. Returns 0 if that fails. */
static inline int output_move(const char *from, const char *to) {
    wchar_t *wide_from = utf8_widen(from), *wide_to = utf8_widen(to);
    int ok = wide_from && wide_to && MoveFileExW(wide_from, wide_to, MOVEFILE_REPLACE_EXISTING);
    free(wide_from), free(wide_to);
    return ok;
}

static inline void output_remove(const char *path) {
    wchar_t *wide = utf8_widen(path);
    if (wide) _wremove(wide);
    free(wide);
}
#else
static inline void output_remove(const char *path) { remove(path); }
#endif

static inline const char *output_open(output *o, const char *path) {
    size_t size = strlen(path) + 32;
    const char *fault;
    int mode, file = -1, i;
    memset(o, 0, sizeof *o);
    o->path = path;
    fault = output_refusal(path, &mode);
    if (fault) return fault;
    o->part = (char *)malloc(size);
    if (!o->part) return "no memory";
    output_watch(o);
    output_hold(1);
    for (i = 0; i < OUTPUT_NAMES && file < 0; i++) { /* never overwrites an existing part file */
        snprintf(o->part, size, i ? "%s.part%d-%d" : "%s.part%d", path, output_process(), i);
        file = output_create(o->part, mode);
        if (file < 0 && errno != EEXIST) break;
    }
#ifdef _WIN32
    if (file >= 0) o->stream = _fdopen(file, "wb");
#else
    if (file >= 0) o->stream = fdopen(file, "wb");
#endif
    if (!o->stream) snprintf(o->fault, sizeof o->fault, "%s", strerror(errno));
    else output_note(o->part);
    if (!o->stream && file >= 0) output_remove(o->part);
    output_hold(0);
    if (o->stream) {
        o->buffer = (char *)malloc(OUTPUT_BUFFER);
        if (o->buffer) setvbuf(o->stream, o->buffer, _IOFBF, OUTPUT_BUFFER);
        return NULL;
    }
    free(o->part);
    output_unwatch(o);
    return o->fault;
}

/* Renames the part file to path, or removes it. fault: an error of the caller, or NULL. Returns
   NULL, or the first error. */
static inline const char *output_close(output *o, const char *fault) {
    int is_faulty = ferror(o->stream) != 0;
    if (fclose(o->stream) != 0) is_faulty = 1;
    free(o->buffer);
    if (output_stopped()) fault = "interrupted";
    if (!fault && is_faulty) fault = errno ? strerror(errno) : "write error";
#ifdef _WIN32
    if (!fault && !output_move(o->part, o->path)) fault = "cannot be replaced";
#else
    if (!fault && rename(o->part, o->path) != 0) fault = strerror(errno);
#endif
    if (fault) snprintf(o->fault, sizeof o->fault, "%.255s", fault);
    if (fault) output_remove(o->part);
    output_note(NULL);
    free(o->part);
    output_unwatch(o);
    return fault ? o->fault : NULL;
}

#endif
