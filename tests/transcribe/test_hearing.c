/* Runs the kept inputs of tests/fuzz/whisper.c: changed Whisper files and sounds, through all of hearing.h. Behind each
   block of memory that the headers of transcribe allocate is a page that nobody can read, so reading past an end
   ends the test without a sanitizer too. */
#define _POSIX_C_SOURCE 200809L
#include "tests/fuzz/fuzz_whisper.h"
#include <dirent.h>
#include <fcntl.h>
#include <unistd.h>
#if defined(__unix__) || defined(__APPLE__)
#include <sys/mman.h>

enum { GUARD = 1 << 17, BLOCKS = 64 };
static struct {
    char *at, *given;
    size_t size;
} blocks[BLOCKS];

static void *guarded(size_t n) {
    size_t size = (n + 4095) / 4096 * 4096;
    int i, none = open("/dev/zero", O_RDWR);
    char *at;
    for (i = 0; i < BLOCKS && blocks[i].at; i++) {
    }
    at = i < BLOCKS ? (char *)mmap(NULL, size + GUARD, PROT_READ | PROT_WRITE, MAP_PRIVATE, none, 0)
                    : (char *)MAP_FAILED;
    close(none);
    if (at == (char *)MAP_FAILED || mprotect(at + size, GUARD, PROT_NONE) != 0) return malloc(n);
    blocks[i].at = at, blocks[i].size = size + GUARD;
    return blocks[i].given = at + (size - n) / 16 * 16;
}
static void release(void *p) {
    int i;
    for (i = 0; i < BLOCKS; i++)
        if (p && blocks[i].given == p) {
            munmap(blocks[i].at, blocks[i].size);
            memset(&blocks[i], 0, sizeof blocks[i]);
            return;
        }
    free(p);
}
#define malloc guarded
#define free release
#endif
#include "tests/fuzz/whisper.c"
#undef malloc
#undef free

int main(void) {
    static const char folder[] = "tests/fuzz/corpus/whisper";
    static unsigned char bytes[4096];
    DIR *all = opendir(folder);
    struct dirent *entry;
    while (all && (entry = readdir(all)) != NULL) {
        char path[300];
        FILE *f;
        size_t n;
        if (entry->d_name[0] == '.') continue;
        snprintf(path, sizeof path, "%s/%.200s", folder, entry->d_name);
        f = fopen(path, "rb");
        n = f ? fread(bytes, 1, sizeof bytes, f) : 0;
        if (f) fclose(f);
        CHECK(n > 0 && LLVMFuzzerTestOneInput(bytes, n) == 0, "%s", entry->d_name);
    }
    CHECK(all != NULL, "%s", folder);
    if (all) closedir(all);
    return test_done("test_hearing");
}
