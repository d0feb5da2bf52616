/* utf8_files.h: arguments and file names in UTF-8, also on Windows, where main and fopen use the
   system's code page.

       int main(int argc, char **argv) {
           FILE *file;
           argv = utf8_arguments(&argc, argv);
           file = utf8_open(argv[1], "rb");

   On Windows, utf8_arguments also makes the standard streams binary: without it, a byte 0x1A would
   end the input, and line ends would change. On other systems argv and fopen need no help. */
#ifndef UTF8_FILES_H
#define UTF8_FILES_H

#include <stdio.h>
#ifdef _WIN32
#ifndef WIN32_LEAN_AND_MEAN
#define WIN32_LEAN_AND_MEAN
#endif
#ifndef NOMINMAX
#define NOMINMAX
#endif
#include <windows.h>
#include <shellapi.h>
#include <errno.h>
#include <fcntl.h>
#include <io.h>
#include <stdlib.h>
#include <wchar.h>
#ifdef _MSC_VER
#pragma comment(lib, "shell32")
#endif

/* Returns a copy of a text in UTF-16, which the caller frees. Returns NULL and sets errno if the
   text is not UTF-8 or if there is no memory. */
static inline wchar_t *utf8_widen(const char *text) {
    int n = MultiByteToWideChar(CP_UTF8, MB_ERR_INVALID_CHARS, text, -1, NULL, 0);
    wchar_t *wide = n > 0 ? (wchar_t *)malloc((size_t)n * sizeof *wide) : NULL;
    if (wide) MultiByteToWideChar(CP_UTF8, MB_ERR_INVALID_CHARS, text, -1, wide, n);
    else errno = n > 0 ? ENOMEM : EINVAL;
    return wide;
}

static inline FILE *utf8_open(const char *path, const char *mode) {
    wchar_t *wide = utf8_widen(path), *wide_mode = wide ? utf8_widen(mode) : NULL;
    FILE *file = wide_mode ? _wfopen(wide, wide_mode) : NULL;
    free(wide), free(wide_mode);
    return file;
}

/* Returns the program's arguments in UTF-8, which stay in memory, or argv if there is no memory. */
static inline char **utf8_arguments(int *argc, char **argv) {
    int i, n = 0, size = 1;
    wchar_t **wide = CommandLineToArgvW(GetCommandLineW(), &n);
    char **list = wide ? (char **)calloc((size_t)n + 1, sizeof *list) : NULL;
    for (i = 0; i < 3; i++) (void)_setmode(i, _O_BINARY);
    for (i = 0; list && size && i < n; i++) {
        size = WideCharToMultiByte(CP_UTF8, 0, wide[i], -1, NULL, 0, NULL, NULL);
        list[i] = size > 0 ? (char *)malloc((size_t)size) : NULL;
        if (!list[i]) size = 0;
        else WideCharToMultiByte(CP_UTF8, 0, wide[i], -1, list[i], size, NULL, NULL);
    }
    if (wide) LocalFree(wide);
    if (!list || !size) return argv;
    *argc = n;
    return list;
}
#else
static inline FILE *utf8_open(const char *path, const char *mode) { return fopen(path, mode); }
static inline char **utf8_arguments(int *argc, char **argv) {
    (void)argc;
    return argv;
}
#endif

#endif
