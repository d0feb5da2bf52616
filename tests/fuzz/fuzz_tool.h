/* fuzz_tool.h: runs a program of tools/ on changed files within the fuzzer. The program's main is
   renamed, and its output is kept and checked. The files are in a folder of their own, in memory where
   there is /dev/shm. */
#ifndef FUZZ_TOOL_H
#define FUZZ_TOOL_H

#define _XOPEN_SOURCE 700
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
#include "fuzz_model.h"
#include <dirent.h>

static char fuzz_folder[] = "/dev/shm/fuzz-XXXXXX";
static char fuzz_paths[3][sizeof fuzz_folder + 8]; /* two inputs, an output */

static void fuzz_clear(void) {
    int i;
    for (i = 0; i < 3; i++) remove(fuzz_paths[i]);
    rmdir(fuzz_folder);
}

static void fuzz_write(int which, const void *bytes, size_t size) {
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

/* Writes a changed model with a license, or data unchanged: a container of any content. */
static void fuzz_write_model(const uint8_t *data, size_t size) {
    static const char begin[] = "{\"__metadata__\":{";
    static uint8_t file[1 << 18];
    void *bytes = NULL;
    char license[256] = "\"license\":\"";
    size_t n = 0, length, i, at = strlen(license);
    if (!size || data[0] & 128 || !fuzz_changed(data, size, &bytes, &n)) {
        fuzz_write(0, data, size);
        return;
    }
    for (i = size > 16 ? size - 16 : 0; i < size; i++)
        at += (size_t)snprintf(license + at, 8, "\\u%s%02x", i & 1 ? "00" : "20",
                               data[i] ? data[i] : 1u);
    at += (size_t)snprintf(license + at, 8, "\",");
    need(n + at <= sizeof file && memcmp((char *)bytes + 8, begin, sizeof begin - 1) == 0);
    length = ((uint8_t *)bytes)[0] + 256u * ((uint8_t *)bytes)[1] + at;
    memcpy(file, bytes, 8 + sizeof begin - 1);
    file[0] = length & 255, file[1] = (uint8_t)(length >> 8);
    memcpy(file + 8 + sizeof begin - 1, license, at);
    memcpy(file + 8 + sizeof begin - 1 + at, (char *)bytes + 8 + sizeof begin - 1,
           n - 8 - sizeof begin + 1);
    fuzz_write(0, file, n + at);
    free(bytes);
}

/* Runs the program. Its output must be valid UTF-8 without control characters except newlines. A
   failure must print its reason in one line and leave no output file. No other file may be left in any
   case. */
static int fuzz_run(int (*program)(int, char **), const char *const *arguments) {
    char *argv[16], *said = NULL;
    size_t size = 0, i;
    int argc = 0, status, files = 0, lines = 0;
    DIR *folder;
    struct dirent *entry;
    while (arguments[argc]) {
        argv[argc] = (char *)(uintptr_t)arguments[argc];
        argc++;
    }
    argv[argc] = NULL;
    remove(fuzz_paths[2]);
    fuzz_said = open_memstream(&said, &size);
    need(fuzz_said != NULL);
    status = program(argc, argv);
    fclose(fuzz_said);
    fuzz_said = NULL;
    for (i = 0; i < size; i++) {
        lines += said[i] == '\n';
        need(said[i] == '\n' || ((uint8_t)said[i] >= 0x20 && said[i] != 0x7f));
        need((uint8_t)said[i] != 0xc2 || (uint8_t)said[i + 1] >= 0xa0);
    }
    need(tfm__utf8_fault(said, size) < 0 && (status == 0 || status == 1));
    need(status == 0 || lines == 1);
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
