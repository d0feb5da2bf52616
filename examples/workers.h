/* workers.h: threads that do the jobs of groups, while the next group is made; groups end in order.

       workers_open(&w, &task);
       workers_start(&w, 4);                     or not at all: then workers_give does the jobs
       while (fill(workers_take(&w))) workers_give(&w, jobs);
       workers_close(&w);

   A group is a place of the caller's for work, with a number below WORKERS_GROUPS: who fills them
   waits until one is free, so input without end takes no memory without end. The jobs of a group
   are done in any order, by any worker; jobs of earlier groups come first. Groups are finished one
   at a time and in the order in which they were given, each while later ones are at work.

   POSIX or Windows threads; none with TRANSFORMER_NO_THREADS, and none on other systems. */
#ifndef WORKERS_H
#define WORKERS_H

#include <stddef.h>
#include <string.h>

enum { WORKERS_MOST = 64, WORKERS_GROUPS = 4 };

typedef struct workers_task {
    void (*run)(int worker, int group, int job); /* worker: 0 to threads - 1 */
    void (*finish)(int group);                   /* in order */
    void (*busy)(int on); /* before the first group, and when all are finished; NULL: nothing */
} workers_task;

/* ---- what is wanted of a system ---- */

#if defined(TRANSFORMER_NO_THREADS) || defined(__wasm__)
#define WORKERS_NONE
#elif defined(_WIN32)
#ifndef WIN32_LEAN_AND_MEAN
#define WIN32_LEAN_AND_MEAN
#endif
#ifndef NOMINMAX
#define NOMINMAX
#endif
#include <windows.h>
typedef HANDLE workers_thread;
typedef SRWLOCK workers_mutex;
typedef CONDITION_VARIABLE workers_condition;
#elif defined(__unix__) || defined(__APPLE__)
#include <pthread.h>
typedef pthread_t workers_thread;
typedef pthread_mutex_t workers_mutex;
typedef pthread_cond_t workers_condition;
#else
#define WORKERS_NONE
#endif
#ifdef WORKERS_NONE
typedef int workers_thread, workers_mutex, workers_condition;
#endif

typedef struct workers {
    workers_task task;
    workers_thread threads[WORKERS_MOST];
    workers_mutex mutex;
    workers_condition changed;
    /* under the mutex */
    struct {
        int jobs, next, left;
    } groups[WORKERS_GROUPS];
    size_t given, finished;          /* groups so far */
    int n, numbered, closed, ending; /* ending: a thread is in task.finish */
} workers;

#if defined(WORKERS_NONE)
static int workers_locks_init(workers *w) { return w != NULL; }
static void workers_locks_destroy(workers *w) { (void)w; }
static void workers_lock(workers *w) { (void)w; }
static void workers_unlock(workers *w) { (void)w; }
static void workers_wait(workers *w) { (void)w; }
static void workers_changed(workers *w) { (void)w; }
static int workers_thread_start(workers *w) { return w == NULL; }
static void workers_thread_join(workers_thread thread) { (void)thread; }
#else
static void workers_main(workers *w);
#if defined(_WIN32)
static int workers_locks_init(workers *w) {
    InitializeSRWLock(&w->mutex);
    InitializeConditionVariable(&w->changed);
    return 1;
}
static void workers_locks_destroy(workers *w) { (void)w; }
static void workers_lock(workers *w) { AcquireSRWLockExclusive(&w->mutex); }
static void workers_unlock(workers *w) { ReleaseSRWLockExclusive(&w->mutex); }
static void workers_wait(workers *w) {
    (void)SleepConditionVariableSRW(&w->changed, &w->mutex, INFINITE, 0);
}
static void workers_changed(workers *w) { WakeAllConditionVariable(&w->changed); }
static DWORD WINAPI workers_begin(void *w) {
    workers_main((workers *)w);
    return 0;
}
static int workers_thread_start(workers *w) {
    w->threads[w->n] = CreateThread(NULL, 0, workers_begin, w, 0, NULL);
    return w->threads[w->n] != NULL;
}
static void workers_thread_join(workers_thread thread) {
    (void)WaitForSingleObject(thread, INFINITE);
    (void)CloseHandle(thread);
}
#else
static int workers_locks_init(workers *w) {
    if (pthread_mutex_init(&w->mutex, NULL) != 0) return 0;
    if (pthread_cond_init(&w->changed, NULL) == 0) return 1;
    pthread_mutex_destroy(&w->mutex);
    return 0;
}
static void workers_locks_destroy(workers *w) {
    pthread_cond_destroy(&w->changed);
    pthread_mutex_destroy(&w->mutex);
}
static void workers_lock(workers *w) { pthread_mutex_lock(&w->mutex); }
static void workers_unlock(workers *w) { pthread_mutex_unlock(&w->mutex); }
static void workers_wait(workers *w) { pthread_cond_wait(&w->changed, &w->mutex); }
static void workers_changed(workers *w) { pthread_cond_broadcast(&w->changed); }
static void *workers_begin(void *w) {
    workers_main((workers *)w);
    return NULL;
}
static int workers_thread_start(workers *w) {
    return pthread_create(&w->threads[w->n], NULL, workers_begin, w) == 0;
}
static void workers_thread_join(workers_thread thread) { pthread_join(thread, NULL); }
#endif
#endif

/* ---- groups and jobs; all but the last five functions are called with the mutex held ---- */

/* The next job of the oldest group that has one, or 0. */
static int workers_next(workers *w, int *group, int *job) {
    size_t i;
    for (i = w->finished; i != w->given; i++) {
        *group = (int)(i % WORKERS_GROUPS);
        if (w->groups[*group].next == w->groups[*group].jobs) continue;
        *job = w->groups[*group].next++;
        return 1;
    }
    return 0;
}

/* Finishes the oldest groups as long as their jobs are done, unless another thread is at it. */
static void workers_finish(workers *w) {
    while (!w->ending && w->finished != w->given) {
        int group = (int)(w->finished % WORKERS_GROUPS);
        if (w->groups[group].left) return;
        w->ending = 1;
        workers_unlock(w);
        w->task.finish(group);
        workers_lock(w);
        w->ending = 0;
        w->finished++;
        if (w->finished == w->given && w->task.busy) w->task.busy(0);
        workers_changed(w);
    }
}

/* Does jobs until there are none. */
static void workers_work(workers *w, int worker) {
    int group, job;
    while (workers_next(w, &group, &job)) {
        workers_unlock(w);
        w->task.run(worker, group, job);
        workers_lock(w);
        w->groups[group].left--;
        workers_finish(w);
    }
}

#ifndef WORKERS_NONE
static void workers_main(workers *w) {
    int worker;
    workers_lock(w);
    worker = w->numbered++;
    for (;;) {
        workers_work(w, worker);
        if (w->closed) break;
        workers_wait(w);
    }
    workers_unlock(w);
}
#endif

/* 0: the system has no more locks. */
static int workers_open(workers *w, const workers_task *task) {
    memset(w, 0, sizeof *w);
    w->task = *task;
    return workers_locks_init(w);
}

/* From now on so many threads do the jobs, or as many as can be started. */
static void workers_start(workers *w, int n) {
    while (w->n < n && w->n < WORKERS_MOST && workers_thread_start(w)) w->n++;
}

/* A group to be filled. */
static int workers_take(workers *w) {
    int group;
    workers_lock(w);
    while (w->given - w->finished == WORKERS_GROUPS) workers_wait(w);
    group = (int)(w->given % WORKERS_GROUPS);
    workers_unlock(w);
    return group;
}

/* The group that was taken is to be worked on: it has so many jobs, one at least. */
static void workers_give(workers *w, int jobs) {
    int group;
    workers_lock(w);
    group = (int)(w->given % WORKERS_GROUPS);
    w->groups[group].jobs = w->groups[group].left = jobs;
    w->groups[group].next = 0;
    if (w->given == w->finished && w->task.busy) w->task.busy(1);
    w->given++;
    workers_changed(w);
    if (!w->n) workers_work(w, 0);
    workers_unlock(w);
}

/* Waits until all groups are finished. */
static void workers_close(workers *w) {
    workers_lock(w);
    w->closed = 1;
    workers_changed(w);
    workers_unlock(w);
    while (w->n > 0) workers_thread_join(w->threads[--w->n]);
    workers_locks_destroy(w);
}

#endif
