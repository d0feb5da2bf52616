/* fuzz_program.h: runs a program on changed files within the fuzzer. The program's main is renamed,
   and its output is kept and checked. The files are in a folder of their own, in memory where there
   is /dev/shm. */
#ifndef FUZZ_PROGRAM_H
#define FUZZ_PROGRAM_H

#define _XOPEN_SOURCE 700
#include <setjmp.h>
#include <stdio.h>

static FILE *fuzz_said; /* The program's output goes there while it runs. */
static FILE *fuzz_stream(void) { return fuzz_said ? fuzz_said : stdout; }
#undef stdout
#undef stderr
#define stdout fuzz_stream()
#define stderr fuzz_stream()
#define printf(...) fprintf(stdout, __VA_ARGS__)
#define putchar(c) putc(c, stdout)

#include "output.h"
#include "fuzz.h"
#include <dirent.h>

static char fuzz_folder[] = "/dev/shm/fuzz-XXXXXX";
static char fuzz_paths[3][sizeof fuzz_folder + 8]; /* two inputs, an output */

static void fuzz_clear(void) {
    int i;
    for (i = 0; i < 3; i++) remove(fuzz_paths[i]);
    rmdir(fuzz_folder);
}

static void TEST_UNUSED fuzz_write(int which, const void *bytes, size_t size) {
    static const char *const names[] = {"/model", "/in", "/out"};
    FILE *stream;
    int i;
    if (!fuzz_paths[0][0]) {
        if (access("/dev/shm", W_OK) != 0) memcpy(fuzz_folder, "/tmp/fuz", 8);
        need(mkdtemp(fuzz_folder) != NULL && atexit(fuzz_clear) == 0);
        for (i = 0; i < 3; i++)
            snprintf(fuzz_paths[i], sizeof fuzz_paths[i], "%s%s", fuzz_folder, names[i]);
    }
    stream = fopen(fuzz_paths[which], "wb");
    need(stream && fwrite(bytes, 1, size, stream) == size && fclose(stream) == 0);
}

/* Ends a program that calls exit: #define exit fuzz_exit */
static jmp_buf fuzz_end;
static void TEST_UNUSED fuzz_exit(int status) { longjmp(fuzz_end, status + 1); }

/* Sees all that the program printed; NULL: nothing does. Then a failure may follow other lines. */
static void TEST_UNUSED (*fuzz_look)(const char *said, size_t size, int status);

/* Runs the program. Its output must be valid UTF-8 without control characters except newlines. A
   failure must print its reason in one line and leave no output file. No other file may be left in
   any case. */
static int TEST_UNUSED fuzz_run(int (*program)(int, char **), const char *const *arguments) {
    static char *argv[32], *said;
    static size_t size, i;
    static int argc, status, files, lines;
    DIR *folder;
    struct dirent *entry;
    said = NULL, argc = files = lines = 0;
    while (arguments[argc]) {
        argv[argc] = (char *)(uintptr_t)arguments[argc];
        argc++;
    }
    argv[argc] = NULL;
    remove(fuzz_paths[2]);
    fuzz_said = open_memstream(&said, &size);
    need(fuzz_said != NULL);
    status = setjmp(fuzz_end);
    if (!status) status = program(argc, argv) + 1;
    status--;
    fclose(fuzz_said);
    fuzz_said = NULL;
    for (i = 0; i < size; i++) {
        lines += said[i] == '\n';
        need(said[i] == '\n' || ((uint8_t)said[i] >= 0x20 && said[i] != 0x7f));
        need((uint8_t)said[i] != 0xc2 || (uint8_t)said[i + 1] >= 0xa0);
    }
    need(test_is_utf8(said, size) && (status == 0 || status == 1));
    if (fuzz_look) fuzz_look(said, size, status);
    else need(status == 0 || lines == 1);
    free(said);
    folder = opendir(fuzz_folder);
    while (folder && (entry = readdir(folder)) != NULL)
        if (entry->d_name[0] != '.')
            files += strcmp(entry->d_name, "model") && strcmp(entry->d_name, "in");
    closedir(folder);
    need(files == (access(fuzz_paths[2], F_OK) == 0) && (status == 0 || files == 0));
    return status;
}
#endif
