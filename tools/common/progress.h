/* progress.h: says on standard error how far a long job is, from its first second on.

       progress p;
       progress_begin(&p, isatty(2), is_on);
       ... if (progress_is_due(&p)) progress_show(&p, share, "12 lines");
       progress_end(&p, "40 lines in 3 seconds");

   On a terminal one line is rewritten. Elsewhere a line is written every three seconds. The time
   that is left is estimated from the share that is done. One thread calls these functions at a
   time. Include output.h first. */
#ifndef PROGRESS_H
#define PROGRESS_H

#include <stdio.h>
#include <string.h>
#include <time.h>

#define PROGRESS_FIRST 1.0 /* seconds without a line */

typedef struct progress {
    int is_on, in_place; /* in_place: on a terminal */
    double began, shown; /* seconds of progress_now; shown 0: nothing is written */
    int width;           /* characters of the last line */
} progress;

/* Returns seconds since some moment. Not clock(), which WASI does not have. */
static inline double progress_now(void) {
#ifndef _WIN32
    struct timespec t;
    if (clock_gettime(CLOCK_MONOTONIC, &t) == 0) return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
#endif
    return (double)time(NULL);
}

/* is_on: progress is wanted, or standard error is a terminal that shows nothing else. */
static inline void progress_begin(progress *p, int is_terminal, int is_on) {
    memset(p, 0, sizeof *p);
    p->in_place = is_terminal, p->is_on = is_on;
    p->began = progress_now();
}

static inline int progress_is_due(const progress *p) {
    double now;
    if (!p->is_on) return 0;
    now = progress_now();
    if (!p->in_place) return now - (p->shown > 0 ? p->shown : p->began) >= 3;
    return now - p->began >= PROGRESS_FIRST && now - p->shown >= 0.25;
}

/* Returns the seconds since the job began, which are at least a little more than 0. */
static inline double progress_seconds(const progress *p) {
    double seconds = progress_now() - p->began;
    return seconds > 0.001 ? seconds : 0.001;
}

static inline void progress_write(progress *p, const char *line, const char *end) {
    int n = (int)strlen(line);
    fprintf(stderr, "%s%s%*s%s", p->in_place ? "\r" : "", line,
            p->in_place && p->width > n ? p->width - n : 0, "", end);
    p->width = n;
    fflush(stderr);
}

/* Writes what is done, and what is left. share: of the job that is done, from 0 to 1; 0 or more
   than 1: not known. */
static inline void progress_show(progress *p, double share, const char *what) {
    char line[240], left[64] = "";
    if (share > 0 && share <= 1)
        snprintf(left, sizeof left, ", %.0f %%, %.0f seconds left", 100 * share,
                 progress_seconds(p) * (1 - share) / share);
    snprintf(line, sizeof line, "%.160s%s", what, left);
    progress_write(p, line, p->in_place ? "" : "\n");
    p->shown = progress_now();
}

/* Replaces the line by a last one. */
static inline void progress_end(progress *p, const char *line) {
    if (p->is_on) progress_write(p, line, "\n");
    p->is_on = p->width = 0;
}

#endif
