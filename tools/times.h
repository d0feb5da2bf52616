/* times.h: clocks, and the times of one thing that is done again and again. Include output.h before. */
#ifndef TIMES_H
#define TIMES_H

#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MOST_REPEATS = 1000, LEAST_REPEATS = 3 };

/* In seconds. */
static double wall_clock(void) {
#ifndef _WIN32
    struct timespec t;
    if (clock_gettime(CLOCK_MONOTONIC, &t) == 0) return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
#endif
    return (double)clock() / CLOCKS_PER_SEC;
}
static double cpu_clock(void) { return (double)clock() / CLOCKS_PER_SEC; }

/* How often to do a thing. */
typedef struct repeats {
    double (*now)(void);
    int repeat; /* as often; 0: for so many seconds, and at least as often as the thing wants */
    double seconds;
} repeats;

/* In order once they are sorted. */
typedef struct times {
    double seconds[MOST_REPEATS];
    int n;
} times;

static int by_size(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}
static void sort_times(times *t) { qsort(t->seconds, (size_t)t->n, sizeof *t->seconds, by_size); }

/* Of n sorted numbers: the one that a share of them is below. */
static double percentile(const double *sorted, int64_t n, double share) {
    return sorted[(int64_t)(share * (double)(n - 1) + 0.5)];
}
static double median(const times *t) { return percentile(t->seconds, t->n, 0.5); }

/* Does run again and again, and what comes after it, which is not timed (NULL: nothing): its times,
   sorted. 0 as soon as one of them returns 0. */
static int time_runs(times *t, const repeats *how, int least, int (*run)(void *),
                     int (*after)(void *), void *what) {
    double began = how->now(), start;
    for (t->n = 0; t->n < MOST_REPEATS; t->n++) {
        if (how->repeat ? t->n >= how->repeat : t->n >= least && how->now() - began >= how->seconds)
            break;
        start = how->now();
        if (!run(what)) return 0;
        t->seconds[t->n] = how->now() - start;
        if (after && !after(what)) return 0;
    }
    sort_times(t);
    return 1;
}

#endif
