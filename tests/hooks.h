/* hooks.h: what the tests change in the library that they are linked with (tested.c). All zeros:
   nothing is counted and nothing fails. Both the library and the tests that call its private
   functions are compiled with this file. */
#ifndef HOOKS_H
#define HOOKS_H
#include <stddef.h>
#include <stdint.h>

#if !defined(_WIN32) && !defined(__wasm__)
#define TRANSFORMER_MMAP
#endif

#ifdef __cplusplus
extern "C" {
#endif
/* Calls that fail: call number fail_at, or with persistent all calls from it on. Calls are counted
   while fail_at is not 0 or count is set. live: what they made and nothing has ended. */
typedef struct test_calls {
    int count, calls, fail_at, persistent, live;
} test_calls;

typedef struct test_hooks_state {
    int count;           /* whether the next two are counted; a race if several threads count */
    int64_t products;    /* multiplications and additions of products */
    uint64_t text_steps; /* bytes, comparisons and moves of work on texts */
    int64_t slow_page;   /* nanoseconds from which on a page fault is slow; 0: as in programs */
    test_calls threads;  /* mutexes, conditions and threads of POSIX */
    test_calls files;    /* fopen, fread, fseek, ftell and fclose */
    long file_grows;     /* what ftell adds, as if the file changed while it is read */
    int no_stat;         /* fstat fails */
    void *(*allocate)(size_t bytes); /* in the place of malloc */
} test_hooks_state;
extern test_hooks_state test_hooks;
#ifdef __cplusplus
}
#endif

#define TFM__COUNT(operations) ((void)(test_hooks.count && (test_hooks.products += (operations))))
#define TFM__COUNT_TEXT(steps)                                                                     \
    ((void)(test_hooks.count && (test_hooks.text_steps += (uint64_t)(steps))))
#define TFM__SLOW_PAGE (test_hooks.slow_page ? test_hooks.slow_page : 2000000)

#endif
