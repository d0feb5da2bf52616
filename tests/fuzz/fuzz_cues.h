/* fuzz_cues.h: reads what cues.h has written, as strict readers do. */
#ifndef FUZZ_CUES_H
#define FUZZ_CUES_H

#include <regex.h>

/* Returns what follows a JSON value, or NULL. */
static const char *fuzz_json(const char *p) {
    static const char *const words[] = {"null", "true", "false"};
    const char *begin;
    size_t i;
    int n;
    while (*p == ' ') p++;
    if (*p == '{' || *p == '[') {
        char end = *p == '{' ? '}' : ']';
        for (p++, n = 0;; n++) {
            while (*p == ' ') p++;
            if (*p == end && !n) return p + 1;
            if (end == '}') {
                if (*p != '"' || !(p = fuzz_json(p)) || *p++ != ':') return NULL;
            }
            if (!(p = fuzz_json(p))) return NULL;
            while (*p == ' ') p++;
            if (*p == end) return p + 1;
            if (*p++ != ',') return NULL;
        }
    }
    if (*p == '"') {
        for (p++; *p != '"'; p++) {
            if ((unsigned char)*p < 32) return NULL;
            if (*p != '\\') continue;
            if (!strchr("\"\\u", *++p)) return NULL;
            if (*p == 'u' && strspn(p + 1, "0123456789abcdef") < 4) return NULL;
        }
        return p + 1;
    }
    for (i = 0; i < 3; i++)
        if (strncmp(p, words[i], strlen(words[i])) == 0) return p + strlen(words[i]);
    begin = p += *p == '-';
    while ((*p >= '0' && *p <= '9') || (p > begin && strchr(".e+-", *p) && *p)) p++;
    return p > begin ? p : NULL;
}

/* Counts the times in a line, as pysubs2 finds them. */
static int fuzz_times(const char *line, size_t n) {
    size_t i;
    int count = 0, a, b, c, d, used;
    for (i = 0; i < n; i++) {
        char part[32], stop, after;
        size_t k = n - i < 31 ? n - i : 31;
        memcpy(part, line + i, k), part[k] = 0;
        if (part[0] < '0' || part[0] > '9') continue;
        used = 0;
        if (sscanf(part, "%2d:%2d:%2d%c%3d%n", &a, &b, &c, &stop, &d, &used) < 5 || !used) continue;
        after = stop;
        if ((after != ',' && after != '.') || strspn(part, "0123456789:.,") < (size_t)used)
            continue;
        count++, i += (size_t)used - 1;
    }
    return count;
}

/* Counts the times in a line of WebVTT, as pysubs2 finds them. */
static int fuzz_short_times(const char *line, size_t n) {
    static regex_t times;
    static int is_made;
    char *copy = (char *)malloc(n + 1), *at = copy;
    regmatch_t found;
    int count = 0;
    if (!copy) abort();
    if (!is_made)
        need(!regcomp(&times, "([0-9]{0,4}:)?[0-9]{2}:[0-9]{2}[.][0-9]{2,3}", REG_EXTENDED));
    is_made = 1;
    memcpy(copy, line, n), copy[n] = 0;
    memset(&found, 0, sizeof found);
    for (; !regexec(&times, at, 1, &found, 0); at += found.rm_eo) count++;
    return free(copy), count;
}

/* Checks lines of some form: objects of JSON, or the blocks of subtitles. */
static void fuzz_check_cues(int form, const char *said, size_t size) {
    const char *end = said + size, *line = said, *next;
    int at = form == CUE_VTT ? -2 : 0, number = 0;
    for (; line < end; line = next + 1) {
        size_t n;
        next = (const char *)memchr(line, '\n', (size_t)(end - line));
        need(next != NULL);
        n = (size_t)(next - line);
        if (form == CUE_JSON) need(fuzz_json(line) == next);
        if (form == CUE_JSON || form == CUE_TEXT) continue;
        if (at == -2) need(n == 6 && memcmp(line, "WEBVTT", 6) == 0), at++;
        else if (at == -1) need(n == 0), at = form == CUE_SRT ? 0 : 1;
        else if (at == 0 && form == CUE_SRT)
            need(atoi(line) == ++number && n == strspn(line, "0123456789")), at++;
        else if (at == 0 || at == 1)
            need(fuzz_times(line, n) == 2 && n == 29 && memcmp(line + 12, " --> ", 5) == 0), at = 2;
        else if (at == 2) need(n > strspn(line, " ")), at = 3;
        else if (n == 0) at = form == CUE_SRT ? 0 : 1;
        if (at != 3) continue;
        need(form == CUE_VTT ? fuzz_short_times(line, n) != 2 : fuzz_times(line, n) < 2);
        for (; line + 2 < next; line++) need(memcmp(line, "-->", 3) != 0);
    }
    need(form == CUE_JSON || form == CUE_TEXT || at < 2);
}
#endif
