/* The library as the tests are linked with it: build/tested/object.h is transformer.h, but its
   private functions have external linkage (private.awk), and the calls below can be made to fail
   (hooks.h). */
#define _DEFAULT_SOURCE /* declares what transformer.h takes from the system for mapped files */
#include "hooks.h"
#include <stdio.h>
#include <stdlib.h>

#if defined(__GNUC__)
#define HOOK static __attribute__((unused))
#else
#define HOOK static
#endif

test_hooks_state test_hooks;

HOOK int fails(test_calls *of) {
    if (!of->fail_at && !of->count) return 0;
    of->calls++;
    return of->calls == of->fail_at || (of->persistent && of->fail_at && of->calls > of->fail_at);
}
/* Counts what a call made, or what another one ended, while these calls are counted. */
HOOK void lives(test_calls *of, int by) {
    if (!of->fail_at && !of->count) return;
    of->live += by;
}

HOOK void *hooked_malloc(size_t bytes) {
    return test_hooks.allocate ? test_hooks.allocate(bytes) : malloc(bytes);
}

HOOK FILE *opened(FILE *f) {
    lives(&test_hooks.files, f != NULL);
    return f;
}
HOOK FILE *hooked_fopen(const char *path, const char *mode) {
    return opened(fails(&test_hooks.files) ? NULL : fopen(path, mode));
}
HOOK int hooked_fclose(FILE *f) {
    lives(&test_hooks.files, -1);
    return fclose(f);
}
HOOK size_t hooked_fread(void *data, size_t size, size_t n, FILE *f) {
    return fread(data, size, fails(&test_hooks.files) ? n / 2 : n, f);
}
HOOK int hooked_fseek(FILE *f, long to, int from) {
    return fails(&test_hooks.files) ? -1 : fseek(f, to, from);
}
#ifdef _WIN32
HOOK FILE *hooked_wfopen(const wchar_t *path, const wchar_t *mode) { /* for names in UTF-8 */
    return opened(fails(&test_hooks.files) ? NULL : _wfopen(path, mode));
}
HOOK long long hooked_ftelli64(FILE *f) {
    return fails(&test_hooks.files) ? -1 : _ftelli64(f) + test_hooks.file_grows;
}
#define _wfopen hooked_wfopen
#define _ftelli64 hooked_ftelli64
#else
HOOK long hooked_ftell(FILE *f) {
    return fails(&test_hooks.files) ? -1 : ftell(f) + test_hooks.file_grows;
}
#define ftell hooked_ftell
#endif

#ifdef TRANSFORMER_MMAP
#include <pthread.h>
#include <sys/stat.h>
HOOK int hooked_fstat(int file, struct stat *about) {
    return test_hooks.no_stat ? -1 : fstat(file, about);
}
HOOK int made(int status) {
    lives(&test_hooks.threads, status == 0);
    return status;
}
HOOK int hooked_mutex_init(pthread_mutex_t *mutex, const pthread_mutexattr_t *a) {
    return made(fails(&test_hooks.threads) ? 1 : pthread_mutex_init(mutex, a));
}
HOOK int hooked_cond_init(pthread_cond_t *wake, const pthread_condattr_t *a) {
    return made(fails(&test_hooks.threads) ? 1 : pthread_cond_init(wake, a));
}
HOOK int hooked_create(pthread_t *thread, const pthread_attr_t *a, void *(*run)(void *),
                       void *context) {
    return made(fails(&test_hooks.threads) ? 1 : pthread_create(thread, a, run, context));
}
HOOK int hooked_mutex_destroy(pthread_mutex_t *mutex) {
    lives(&test_hooks.threads, -1);
    return pthread_mutex_destroy(mutex);
}
HOOK int hooked_cond_destroy(pthread_cond_t *wake) {
    lives(&test_hooks.threads, -1);
    return pthread_cond_destroy(wake);
}
HOOK int hooked_join(pthread_t thread, void **result) {
    lives(&test_hooks.threads, -1);
    return pthread_join(thread, result);
}
#define fstat hooked_fstat
#define pthread_mutex_init hooked_mutex_init
#define pthread_cond_init hooked_cond_init
#define pthread_create hooked_create
#define pthread_mutex_destroy hooked_mutex_destroy
#define pthread_cond_destroy hooked_cond_destroy
#define pthread_join hooked_join
#endif

#define fopen hooked_fopen
#define fclose hooked_fclose
#define fread hooked_fread
#define fseek hooked_fseek
#define malloc hooked_malloc
#define TRANSFORMER_IMPLEMENTATION
#include "build/tested/object.h"
