/* times.h: clocks, and a function that times repeated runs. Include output.h first: clock_gettime
   needs its POSIX macros. */
#ifndef TIMES_H
#define TIMES_H

#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MOST_REPEATS = 1000, LEAST_REPEATS = 3 };

/* Returns seconds since some moment. */
static double wall_clock(void) {
#ifndef _WIN32
    struct timespec t;
    if (clock_gettime(CLOCK_MONOTONIC, &t) == 0) return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
#endif
    return (double)clock() / CLOCKS_PER_SEC;
}
static inline double cpu_clock(void) { return (double)clock() / CLOCKS_PER_SEC; }

/* How many runs to time. */
typedef struct repeats {
    double (*now)(void);
    int repeat; /* number of runs; 0: as many as fit into seconds, but not fewer than `least` */
    double seconds;
} repeats;

/* The times of runs; sort_times sorts them. */
typedef struct times {
    double seconds[MOST_REPEATS];
    int n;
} times;

static int by_size(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}
static void sort_times(times *t) { qsort(t->seconds, (size_t)t->n, sizeof *t->seconds, by_size); }

/* Returns the number below which a share of n sorted numbers is. */
static double percentile(const double *sorted, int64_t n, double share) {
    return sorted[(int64_t)(share * (double)(n - 1) + 0.5)];
}
static inline double median(const times *t) { return percentile(t->seconds, t->n, 0.5); }

/* Calls run(what) repeatedly and stores its times, sorted, in t. Calls after(what) after each run
   unless after is NULL; its time does not count. Returns 0 as soon as one of them returns 0, else
   1. */
static inline int time_runs(times *t, const repeats *how, int least, int (*run)(void *),
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
