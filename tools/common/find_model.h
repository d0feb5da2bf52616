/* find_model.h: finds a model file by a name such as de-en or whisper-base.

       char *path = find_model("de-en"), *second = NULL;
       if (!path && find_pair("de-fr", &path, &second)) ... de-en and en-fr, one behind the other
       if (!path && find_is_name("de-en")) ... find_message says how to get it

   A name is looked up as a file, and then with the ending .safetensors in these folders: those of
   the environment variable TRANSFORMER_MODELS, the user's own folder, into which `transformer-model
   get` writes, and beside the program. A name with a slash is only a file. */
#ifndef FIND_MODEL_H
#define FIND_MODEL_H

#include "utf8_files.h"
#include <stdlib.h>
#include <string.h>
#if defined(__APPLE__)
#include <mach-o/dyld.h>
#include <stdint.h>
#elif !defined(_WIN32) && !defined(__wasm__)
#include <unistd.h>
#endif

#define FIND_ENDING ".safetensors"
#ifdef _WIN32
#define FIND_SEPARATOR ';'
#define FIND_USER_VARIABLE "LOCALAPPDATA"
#define FIND_USER_FOLDER "transformer-h/models"
#elif defined(__APPLE__)
#define FIND_SEPARATOR ':'
#define FIND_USER_VARIABLE "HOME"
#define FIND_USER_FOLDER "Library/Application Support/transformer-h/models"
#else
#define FIND_SEPARATOR ':'
#define FIND_USER_VARIABLE "HOME"
#define FIND_USER_FOLDER ".local/share/transformer-h/models"
#endif

/* Returns a copy of the concatenated texts, the second of n bytes. NULL if there is no memory. */
static char *find_join(const char *first, const char *second, size_t n, const char *third) {
    const size_t size = strlen(first), all = size + n + strlen(third) + 1;
    char *made = (char *)malloc(all);
    if (!made) return NULL;
    memcpy(made, first, size), memcpy(made + size, second, n);
    memcpy(made + size + n, third, strlen(third) + 1);
    return made;
}

/* Returns a copy of an environment variable, or NULL if it is empty. */
static char *find_variable(const char *name) {
#ifdef _WIN32
    wchar_t *wide = utf8_widen(name);
    const wchar_t *value = wide ? _wgetenv(wide) : NULL;
    const int size =
        value && *value ? WideCharToMultiByte(CP_UTF8, 0, value, -1, NULL, 0, NULL, NULL) : 0;
    char *made = size > 0 ? (char *)malloc((size_t)size) : NULL;
    if (made) WideCharToMultiByte(CP_UTF8, 0, value, -1, made, size, NULL, NULL);
    free(wide);
    return made;
#else
    const char *value = getenv(name);
    return value && *value ? find_join(value, "", 0, "") : NULL;
#endif
}

/* Returns the folder of this program with a slash at its end, or NULL if it is not known. */
static char *find_program(void) {
    enum { MOST = 4096 };
    char *path = (char *)calloc(MOST, 1), *slash;
    int known = 0;
    if (!path) return NULL;
#ifdef _WIN32
    {
        static wchar_t wide[MOST];
        const DWORD n = GetModuleFileNameW(NULL, wide, MOST);
        known = n > 0 && n < MOST &&
                WideCharToMultiByte(CP_UTF8, 0, wide, -1, path, MOST, NULL, NULL) > 0;
    }
    for (slash = path; *slash; slash++)
        if (*slash == '\\') *slash = '/';
#elif defined(__APPLE__)
    {
        uint32_t size = MOST;
        known = _NSGetExecutablePath(path, &size) == 0;
    }
#elif !defined(__wasm__)
    known = readlink("/proc/self/exe", path, MOST - 1) > 0;
#endif
    slash = known ? strrchr(path, '/') : NULL;
    if (slash) slash[1] = 0;
    else free(path), path = NULL;
    return path;
}

/* Returns a copy of the user's own folder of models, or NULL if it is not known. */
static char *find_user_folder(void) {
    char *home, *made;
#if !defined(_WIN32) && !defined(__APPLE__)
    home = find_variable("XDG_DATA_HOME");
    made = home && *home == '/' ? find_join(home, "/", 1, "transformer-h/models") : NULL;
    free(home);
    if (made) return made;
#endif
    home = find_variable(FIND_USER_VARIABLE);
    made = home ? find_join(home, "/", 1, FIND_USER_FOLDER) : NULL;
    free(home);
    return made;
}

/* Returns folder number i of those in which models are looked for, a copy that the caller frees, or
   NULL for one that is not known. *is_last is set behind the last one. */
static char *find_folder(int i, int *is_last) {
    static const char *const beside[] = {"", "models", "../share/transformer-h/models",
                                         "../examples/models"};
    char *list = find_variable("TRANSFORMER_MODELS"), *made = NULL;
    const char *at = list ? list : "";
    *is_last = 0;
    for (; *at; i--) {
        const char *end = strchr(at, FIND_SEPARATOR);
        const size_t n = end ? (size_t)(end - at) : strlen(at);
        if (!i) {
            made = find_join("", at, n, "");
            free(list);
            return made;
        }
        at += n + (end != NULL);
    }
    free(list);
    if (i == 0) return find_user_folder();
    if (i <= (int)(sizeof beside / sizeof *beside)) {
        char *program = find_program();
        if (program) made = find_join(program, beside[i - 1], strlen(beside[i - 1]), "");
        free(program);
        return made;
    }
    *is_last = 1;
    return NULL;
}

static int find_is_file(const char *path) {
    FILE *file = utf8_open(path, "rb");
    const int is_file = file && fgetc(file) != EOF; /* a folder opens, but cannot be read */
    if (file) fclose(file);
    return is_file;
}

/* Returns the path of the model with this name of n bytes, a copy that the caller frees, or
   NULL. */
static char *find_named(const char *name, size_t n) {
    const size_t ending = strlen(FIND_ENDING);
    char *file = find_join("", name, n, "");
    int i, is_last = 0;
    if (!file || find_is_file(file)) return file;
    if (strpbrk(file, "/\\")) is_last = 1;
    if (n < ending || strcmp(file + n - ending, FIND_ENDING) != 0)
        free(file), file = find_join("", name, n, FIND_ENDING);
    for (i = 0; file && !is_last; i++) {
        char *folder = find_folder(i, &is_last), *path = NULL;
        if (folder && *folder && folder[strlen(folder) - 1] == '/')
            path = find_join(folder, file, strlen(file), "");
        else if (folder && *folder) path = find_join(folder, "/", 1, file);
        free(folder);
        if (path && find_is_file(path)) {
            free(file);
            return path;
        }
        free(path);
    }
    free(file);
    return NULL;
}
static inline char *find_model(const char *name) { return find_named(name, strlen(name)); }

/* Returns the bytes of a language's code that begins a text (de, zh_hant), or 0. */
static size_t find_code(const char *text) {
    static const char letters[] = "abcdefghijklmnopqrstuvwxyz";
    const size_t n = strspn(text, letters);
    if (n < 2 || n > 3) return 0;
    return text[n] == '_' ? n + 1 + strspn(text + n + 1, letters) : n;
}

/* Returns the bytes of the source language in the name of a pair, such as de-en, or 0. */
static size_t find_pair_begin(const char *name) {
    const size_t n = find_code(name), m = n && name[n] == '-' ? find_code(name + n + 1) : 0;
    return m && !name[n + 1 + m] ? n : 0;
}

/* Finds the two models through which a pair of languages is translated: de-en and en-fr for de-fr.
   Returns 0 if one is missing, or if the name is none of a pair. The caller frees both paths. */
static inline int find_pair(const char *name, char **first, char **second) {
    const size_t n = find_pair_begin(name);
    char *names[2] = {NULL, NULL};
    *first = *second = NULL;
    if (n)
        names[0] = find_join("", name, n, "-en"), names[1] = find_join("en", name + n, 0, name + n);
    if (names[0] && names[1]) *first = find_model(names[0]), *second = find_model(names[1]);
    free(names[0]), free(names[1]);
    if (*first && *second) return 1;
    free(*first), free(*second);
    *first = *second = NULL;
    return 0;
}

/* Returns whether a text is the name of a model, and not that of a file. */
static inline int find_is_name(const char *name) {
    const size_t n = strlen(name), ending = strlen(FIND_ENDING);
    return !strpbrk(name, "/\\") && (n < ending || strcmp(name + n - ending, FIND_ENDING) != 0);
}

/* Writes why there is no model of this name, and what to do. */
static inline void find_message(const char *name, char *out, size_t size) {
    const int is_known = find_pair_begin(name) || strncmp(name, "whisper-", 8) == 0;
    char *folder = find_user_folder();
    snprintf(out, size, "%.200s: no such file, and no model of that name in %.400s%s%.200s", name,
             folder ? folder : "TRANSFORMER_MODELS",
             is_known ? "; this gets it: transformer-model get " : " or beside the program",
             is_known ? name : "");
    free(folder);
}

#endif
