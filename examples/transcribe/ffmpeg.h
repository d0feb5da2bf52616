/* ffmpeg.h: reads a sound file that is no WAV file (MP3, FLAC, Opus, M4A, a film ...) through the
   program ffmpeg, if it is installed. ffmpeg is run without a shell, gets no network, and writes a
   WAV file to a pipe.

       void *data;
       size_t size;
       switch (ffmpeg_read("talk.m4a", &data, &size)) {
       case FFMPEG_READ: ... data [size] is a WAV file in memory, which the caller frees
       case FFMPEG_MISSING: ... there is no ffmpeg, or the system is none of POSIX
       case FFMPEG_FAILED: ... ffmpeg has written to standard error what is wrong
       case FFMPEG_LONG: ... the sound takes over FFMPEG_MOST bytes, which is nine hours

   Define _POSIX_C_SOURCE 200809L before the first include. With FFMPEG_OFF no program is run. */
#ifndef FFMPEG_H
#define FFMPEG_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#if (defined(__unix__) || defined(__APPLE__)) && !defined(FFMPEG_OFF)
#include <errno.h>
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>
#define FFMPEG_POSIX
#endif

typedef enum ffmpeg_answer {
    FFMPEG_READ,
    FFMPEG_MISSING,
    FFMPEG_FAILED,
    FFMPEG_LONG
} ffmpeg_answer;
enum { FFMPEG_NONE = 127 };     /* exit status of a process that finds no ffmpeg */
enum { FFMPEG_MOST = 1 << 30 }; /* a small file may say that it lasts for years */

#ifdef FFMPEG_POSIX
/* Becomes ffmpeg, which writes to a file descriptor. */
static void ffmpeg_become(const char *path, int out) {
    const size_t size = strlen(path) + 6;
    char *input = (char *)malloc(size);
    const int nothing = open("/dev/null", O_RDWR);
    if (!input || nothing < 0 || dup2(nothing, 0) < 0 || dup2(out, 1) < 0) _exit(1);
    /* "file:" because a name such as http://x or concat:a would be no file for ffmpeg */
    (void)snprintf(input, size, "file:%s", path);
    (void)execlp("ffmpeg", "ffmpeg", "-nostdin", "-v", "error", "-protocol_whitelist", "file,pipe",
                 "-i", input, "-vn", "-sn", "-dn", "-ac", "1", "-ar", "16000", "-f", "wav", "-",
                 (char *)NULL);
    _exit(errno == ENOENT ? (int)FFMPEG_NONE : 1);
}

/* Reads all that a pipe has, up to FFMPEG_MOST bytes. Returns 0 if there is no memory. */
static int ffmpeg_take(int from, char **data, size_t *size) {
    size_t room = 0;
    long n = 1;
    for (*data = NULL, *size = 0; n && *size < FFMPEG_MOST; *size += (size_t)n) {
        if (*size == room) {
            char *larger;
            room = 2 * room + (1 << 20);
            if (room > FFMPEG_MOST) room = FFMPEG_MOST;
            larger = (char *)realloc(*data, room);
            if (!larger) return 0;
            *data = larger;
        }
        do n = (long)read(from, *data + *size, room - *size);
        while (n < 0 && errno == EINTR);
        if (n < 0) return 0;
    }
    return 1;
}

static inline ffmpeg_answer ffmpeg_read(const char *path, void **data, size_t *size) {
    int ends[2], status = 1, taken;
    char *bytes = NULL;
    pid_t child;
    *data = NULL, *size = 0;
    if (pipe(ends) != 0) return FFMPEG_FAILED;
    child = fork();
    if (child == 0) {
        (void)close(ends[0]);
        ffmpeg_become(path, ends[1]);
    }
    (void)close(ends[1]);
    taken = child > 0 && ffmpeg_take(ends[0], &bytes, size);
    (void)close(ends[0]); /* ends an ffmpeg that would write more */
    while (child > 0 && waitpid(child, &status, 0) < 0 && errno == EINTR) continue;
    if (taken && *size >= FFMPEG_MOST) {
        free(bytes), *size = 0;
        return FFMPEG_LONG;
    }
    if (taken && WIFEXITED(status) && WEXITSTATUS(status) == 0) {
        *data = bytes;
        return FFMPEG_READ;
    }
    free(bytes);
    return WIFEXITED(status) && WEXITSTATUS(status) == FFMPEG_NONE ? FFMPEG_MISSING : FFMPEG_FAILED;
}
#else
static inline ffmpeg_answer ffmpeg_read(const char *path, void **data, size_t *size) {
    (void)path, *data = NULL, *size = 0;
    return FFMPEG_MISSING;
}
#endif

#endif
