/* part_file.h: output that is whole or absent, and of which an interrupt leaves what was finished.
   Include it before all other headers, as output.h.

       part_file p;
       FILE *f = part_file_open(&p, path);      NULL: errno says why
       ... write to f; after an interrupt or a failure name p.part, if it is not NULL, and end
       if (part_file_close(&p) != 0) ... errno says why

   part_file_open creates PATH.part, in place of one that an earlier run left. part_file_close
   renames it to PATH. Until then a file at PATH stays as it was. Devices, pipes and symbolic links
   are written directly: p.part is NULL. */
#ifndef PART_FILE_H
#define PART_FILE_H

#include "output.h"

typedef struct part_file {
    FILE *stream;
    const char *path;
    char *part; /* NULL: path is written directly */
} part_file;

static inline void part_file_forget(part_file *p) {
    free(p->part);
    memset(p, 0, sizeof *p);
}

static inline FILE *part_file_open(part_file *p, const char *path) {
    size_t size = strlen(path) + sizeof ".part";
    int mode, file, fault;
    const char *refusal;
    memset(p, 0, sizeof *p);
    p->path = path;
    errno = 0;
    refusal = output_refusal(path, &mode);
    fault = errno;
    if (refusal) {
        FILE *direct =
            utf8_open(path, "wb"); /* as a link or a device; a folder has its own errno */
        if (!direct && !errno) errno = fault;
        return p->stream = direct;
    }
    p->part = (char *)malloc(size);
    if (!p->part) return NULL;
    snprintf(p->part, size, "%s.part", path);
    output_remove(p->part);
    file = output_create(p->part, mode);
#ifdef _WIN32
    p->stream = file < 0 ? NULL : _fdopen(file, "wb");
#else
    p->stream = file < 0 ? NULL : fdopen(file, "wb");
#endif
    fault = errno;
    if (!p->stream) part_file_forget(p);
    errno = fault;
    return p->stream;
}

/* Makes the file whole. Returns 0, or -1 with errno; then PATH.part remains. */
static inline int part_file_close(part_file *p) {
    int is_faulty = ferror(p->stream) != 0;
    if (fclose(p->stream) != 0 || is_faulty) return -1;
    p->stream = NULL;
#ifdef _WIN32
    if (p->part && !output_move(p->part, p->path)) return errno = EACCES, -1;
#else
    if (p->part && rename(p->part, p->path) != 0) return -1;
#endif
    part_file_forget(p);
    return 0;
}

#endif
