/* workers.h: a pool of threads for groups of jobs. Groups run in parallel and finish in order.

       workers_open(&w, &task);
       workers_start(&w, 4);                     without threads, workers_give does the jobs itself
       while (fill(workers_take(&w))) workers_give(&w, jobs);
       workers_close(&w);

   A group is a number below WORKERS_GROUPS; the caller keeps the group's data under this number.
   workers_take waits until a group is free. Memory is therefore bounded, however long the input is.
   Any worker may do any job of a group, and jobs of older groups are done first. Groups are
   finished one at a time, in the order in which they were given, while the workers go on with later
   groups.

   The threads are POSIX or Windows threads. There are none with TRANSFORMER_NO_THREADS or on other
   systems. */
#ifndef WORKERS_H
#define WORKERS_H

#include <stddef.h>
#include <string.h>

enum { WORKERS_MOST = 64, WORKERS_GROUPS = 4 };

typedef struct workers_task {
    void (*run)(int worker, int group, int job); /* does a job; worker: 0 to threads - 1 */
    void (*finish)(int group);                   /* called when all jobs of a group are done */
    void (*busy)(int on); /* 1: there are groups; 0: all are finished; may be NULL */
} workers_task;

/* ---- threads and locks of the system ---- */

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

typedef struct workers_pool {
    workers_task task;
    workers_thread threads[WORKERS_MOST];
    workers_mutex mutex;
    workers_condition changed;
    /* all below is guarded by the mutex */
    struct {
        int jobs, next, left;
    } groups[WORKERS_GROUPS];
    size_t given, finished; /* number of groups so far */
    int n;                  /* threads */
    int numbered;           /* threads that have taken a worker number */
    int closed;             /* there will be no more groups */
    int ending;             /* a thread is in task.finish */
} workers_pool;

#if defined(WORKERS_NONE)
static int workers_locks_init(workers_pool *w) { return w != NULL; }
static void workers_locks_destroy(workers_pool *w) { (void)w; }
static void workers_lock(workers_pool *w) { (void)w; }
static void workers_unlock(workers_pool *w) { (void)w; }
static void workers_wait(workers_pool *w) { (void)w; }
static void workers_changed(workers_pool *w) { (void)w; }
static int workers_thread_start(workers_pool *w) { return w == NULL; }
static void workers_thread_join(workers_thread thread) { (void)thread; }
#else
static void workers_main(workers_pool *w);
#if defined(_WIN32)
static int workers_locks_init(workers_pool *w) {
    InitializeSRWLock(&w->mutex);
    InitializeConditionVariable(&w->changed);
    return 1;
}
static void workers_locks_destroy(workers_pool *w) { (void)w; }
static void workers_lock(workers_pool *w) { AcquireSRWLockExclusive(&w->mutex); }
static void workers_unlock(workers_pool *w) { ReleaseSRWLockExclusive(&w->mutex); }
static void workers_wait(workers_pool *w) {
    (void)SleepConditionVariableSRW(&w->changed, &w->mutex, INFINITE, 0);
}
static void workers_changed(workers_pool *w) { WakeAllConditionVariable(&w->changed); }
static DWORD WINAPI workers_begin(void *w) {
    workers_main((workers_pool *)w);
    return 0;
}
static int workers_thread_start(workers_pool *w) {
    w->threads[w->n] = CreateThread(NULL, 0, workers_begin, w, 0, NULL);
    return w->threads[w->n] != NULL;
}
static void workers_thread_join(workers_thread thread) {
    (void)WaitForSingleObject(thread, INFINITE);
    (void)CloseHandle(thread);
}
#else
static int workers_locks_init(workers_pool *w) {
    if (pthread_mutex_init(&w->mutex, NULL) != 0) return 0;
    if (pthread_cond_init(&w->changed, NULL) == 0) return 1;
    pthread_mutex_destroy(&w->mutex);
    return 0;
}
static void workers_locks_destroy(workers_pool *w) {
    pthread_cond_destroy(&w->changed);
    pthread_mutex_destroy(&w->mutex);
}
static void workers_lock(workers_pool *w) { pthread_mutex_lock(&w->mutex); }
static void workers_unlock(workers_pool *w) { pthread_mutex_unlock(&w->mutex); }
static void workers_wait(workers_pool *w) { pthread_cond_wait(&w->changed, &w->mutex); }
static void workers_changed(workers_pool *w) { pthread_cond_broadcast(&w->changed); }
static void *workers_begin(void *w) {
    workers_main((workers_pool *)w);
    return NULL;
}
static int workers_thread_start(workers_pool *w) {
    return pthread_create(&w->threads[w->n], NULL, workers_begin, w) == 0;
}
static void workers_thread_join(workers_thread thread) { pthread_join(thread, NULL); }
#endif
#endif

/* ---- groups and jobs ---- */

/* The functions down to workers_work are called with the mutex held. */

/* Finds the next job of the oldest group that has one. Returns 0 if there is none. */
static int workers_next(workers_pool *w, int *group, int *job) {
    size_t i;
    for (i = w->finished; i != w->given; i++) {
        *group = (int)(i % WORKERS_GROUPS);
        if (w->groups[*group].next == w->groups[*group].jobs) continue;
        *job = w->groups[*group].next++;
        return 1;
    }
    return 0;
}

/* Finishes the oldest groups whose jobs are all done. Does nothing if another thread is finishing
   groups, because they must be finished one at a time. */
static void workers_finish(workers_pool *w) {
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

/* Does jobs until none is left. */
static void workers_work(workers_pool *w, int worker) {
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
static void workers_main(workers_pool *w) {
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

/* Initializes w. Returns 0 if the system cannot create a lock. */
static int workers_open(workers_pool *w, const workers_task *task) {
    memset(w, 0, sizeof *w);
    w->task = *task;
    return workers_locks_init(w);
}

/* Starts threads until there are n, or as many as the system allows. */
static void workers_start(workers_pool *w, int n) {
    while (w->n < n && w->n < WORKERS_MOST && workers_thread_start(w)) w->n++;
}

/* Waits until a group is free and returns its number; the caller fills the group. */
static int workers_take(workers_pool *w) {
    int group;
    workers_lock(w);
    while (w->given - w->finished == WORKERS_GROUPS) workers_wait(w);
    group = (int)(w->given % WORKERS_GROUPS);
    workers_unlock(w);
    return group;
}

/* Hands the group of the last workers_take to the threads. jobs, at least 1, is its number of
   jobs. */
static void workers_give(workers_pool *w, int jobs) {
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

/* Waits until all groups are finished, and ends the threads. */
static void workers_close(workers_pool *w) {
    workers_lock(w);
    w->closed = 1;
    workers_changed(w);
    workers_unlock(w);
    while (w->n > 0) workers_thread_join(w->threads[--w->n]);
    workers_locks_destroy(w);
}

#endif
