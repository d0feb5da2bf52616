/* options.h: reads a command line, checks its values and prints --help, all from one table.

       static int32_t count;
       static option table[] = {
           {"file", NULL, OPTION_OPERAND, &path, 0, 0, 0, NULL},
           {"--count", "N", OPTION_INTEGER, &count, 1, 100, 0, "how many (default 1)"},
           {"--help", NULL, OPTION_STOP, NULL, 0, 0, 0, "this text"}};
       const option *stop = options_read(table, 3, argc, argv, fail);
       if (stop) options_print(table, 3, stdout), exit(0);

   A variable whose option is not given keeps its value. If an option is given twice, the last one
   counts. A value follows "=" or is the next argument. An option named "-j, --threads" also has a
   letter, and -j4 is the same as -j 4. -h is the same as --help. After "--" all arguments are
   operands. For an unknown option, the message names the option with the most similar name. */
#ifndef OPTIONS_H
#define OPTIONS_H

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The kind of an option, which decides what option.to points to. */
typedef enum option_kind {
    OPTION_FLAG,    /* int: set to 1; to 2 by --name=value, if the option has a value */
    OPTION_INTEGER, /* int32_t */
    OPTION_NUMBER,  /* double */
    OPTION_SEED,    /* uint64_t */
    OPTION_PATH,    /* const char * */
    OPTION_OPERAND, /* const char *: an argument that is not an option */
    OPTION_REST,    /* option_rest: all operands after those of OPTION_OPERAND */
    OPTION_STOP,    /* nothing: options_read stops and returns this option */
    OPTION_TEXT     /* nothing: the name is a text that --help prints between the options */
} option_kind;

typedef struct option_rest {
    char **at;
    int n;
} option_rest;

enum { OPTION_GIVEN = 1, OPTION_COLUMN = 26 };

typedef struct option_entry {
    const char *name, *value; /* as --help shows them */
    option_kind kind;
    void *to;
    double least, most; /* the range of integers and numbers */
    unsigned marks;     /* OPTION_GIVEN (bit 0), and bits that the program defines */
    const char *help;   /* may have several lines; NULL: --help does not show the option */
} option_entry;

/* Prints the text of --help to f. */
static inline void options_print(const option_entry *table, size_t n, FILE *f) {
    const char *c;
    int width;
    for (; n > 0; n--, table++) {
        if (table->kind == OPTION_TEXT) fprintf(f, "%s\n", table->name);
        if (!table->help) continue;
        width = fprintf(f, table->kind == OPTION_FLAG && table->value ? "  %s[=%s]" : "  %s %s",
                        table->name, table->value ? table->value : "");
        fprintf(f, "%*s", OPTION_COLUMN > width ? OPTION_COLUMN - width : 1, "");
        for (c = table->help; *c; c++)
            if (*c == '\n') fprintf(f, "\n%*s", OPTION_COLUMN, "");
            else putc(*c, f);
        putc('\n', f);
    }
}

/* Returns an option's name without its letter. */
static const char *option_name(const option_entry *o) {
    const char *comma = o->kind == OPTION_TEXT ? NULL : strstr(o->name, ", ");
    return comma ? comma + 2 : o->name;
}

/* Stores an option's value. text is NULL if the command line ends before the value. */
static void option_set(const option_entry *o, const char *text, void (*fail)(const char *, ...)) {
    const char *shown = text ? text : "", *name = option_name(o);
    char *end = NULL;
    double value = 0;
    if (o->kind == OPTION_PATH) {
        if (!text) fail("%s takes %s", name, o->value);
        *(const char **)o->to = text;
    } else if (o->kind == OPTION_SEED) {
        errno = 0;
        if (*shown >= '0' && *shown <= '9') *(uint64_t *)o->to = strtoull(text, &end, 10);
        if (!end || *end || errno)
            fail("%s takes an integer of up to 64 bits, not '%s'", name, shown);
    } else {
        if (o->kind == OPTION_INTEGER) value = (double)strtol(shown, &end, 10);
        else value = strtod(shown, &end);
        if (end == shown || *end || !(value >= o->least && value <= o->most))
            fail("%s takes a number from %.7g to %.7g, not '%s'", name, o->least, o->most, shown);
        if (o->kind == OPTION_INTEGER) *(int32_t *)o->to = (int32_t)value;
        else *(double *)o->to = value;
    }
}

/* Returns the index of the option whose name is the first `size` bytes of an argument, or of the
   next operand that is not yet given. Returns n if there is none. */
static size_t option_find(const option_entry *table, size_t n, const char *argument, size_t size,
                          int is_option) {
    size_t k;
    if (size == 2 && strncmp(argument, "-h", 2) == 0) argument = "--help", size = 6;
    for (k = 0; k < n; k++) {
        const option_entry *o = &table[k];
        const char *name = option_name(o);
        if (!is_option) {
            if (o->kind == OPTION_REST || (o->kind == OPTION_OPERAND && !(o->marks & OPTION_GIVEN)))
                return k;
        } else if (o->name[0] == '-') {
            if (strlen(name) == size && strncmp(name, argument, size) == 0) return k;
            if (name != o->name && size == 2 && strncmp(o->name, argument, 2) == 0) return k;
        }
    }
    return n;
}

/* Returns how many letters must be inserted, removed or replaced to make b of a, which has n
   letters. Returns 1 if one of the two is the beginning of the other. */
static size_t option_distance(const char *a, size_t n, const char *b) {
    size_t row[64], i, k, size = strlen(b), before, kept;
    if (n >= 64) return n;
    if (n > 2 && size > 2 && strncmp(a, b, n < size ? n : size) == 0) return 1;
    for (i = 0; i <= n; i++) row[i] = i;
    for (k = 0; k < size; k++) {
        before = row[0]++;
        for (i = 0; i < n; i++) {
            kept = row[i + 1];
            if (a[i] != b[k]) {
                if (kept < before) before = kept;
                if (row[i] < before) before = row[i];
                before++;
            }
            row[i + 1] = before;
            before = kept;
        }
    }
    return row[n];
}

/* Returns the name of the option that is most similar to the first `size` bytes of an argument, or
   NULL if none is similar. */
static const char *option_nearest(const option_entry *table, size_t n, const char *argument,
                                  size_t size) {
    const char *nearest = NULL;
    size_t k, distance, best = 3;
    for (; size && *argument == '-'; size--) argument++;
    if (best > (size + 2) / 2) best = (size + 2) / 2;
    for (k = 0; k < n; k++) {
        if (table[k].name[0] != '-') continue;
        distance = option_distance(argument, size, option_name(&table[k]) + 2);
        if (distance < best) best = distance, nearest = option_name(&table[k]);
    }
    return nearest;
}

/* Reads all arguments and returns NULL, or stops at an OPTION_STOP and returns it. On an error
   calls fail, which formats its arguments like printf and must end the program. */
static const option_entry *options_read(option_entry *table, size_t n, int argc, char **argv,
                                        void (*fail)(const char *format, ...)) {
    size_t k, size;
    int i, n_rest = 0, options = 1;
    for (k = 0; k < n; k++) table[k].marks &= ~(unsigned)OPTION_GIVEN;
    for (i = 1; i < argc; i++) {
        char *argument = argv[i];
        int is_option = options && argument[0] == '-' && argument[1];
        int is_letter = is_option && argument[1] != '-'; /* a digit after it begins its value */
        const char *value = NULL, *name;
        if (options && strcmp(argument, "--") == 0) {
            options = 0;
            continue;
        }
        size = is_letter && argument[2] >= '0' && argument[2] <= '9' ? 2 : strcspn(argument, "=");
        if (is_option && argument[size]) value = argument + size + (argument[size] == '=');
        k = option_find(table, n, argument, size, is_option);
        if (k == n && is_option) {
            name = option_nearest(table, n, argument, size);
            if (name)
                fail("unknown option '%s', did you mean %s? (--help lists all)", argument, name);
            fail("unknown option '%s' (--help lists all)", argument);
        }
        if (k == n) fail("unexpected argument '%s'", argument);
        name = option_name(&table[k]);
        if (value && table[k].kind == OPTION_FLAG && table[k].value &&
            strcmp(value, table[k].value) != 0)
            fail("%s takes '%s' or no value, not '%s'", name, table[k].value, value);
        if (value && !table[k].value) fail("%s takes no value, not '%s'", name, value);
        if (table[k].kind == OPTION_STOP) return &table[k];
        if (table[k].kind == OPTION_OPERAND) {
            *(const char **)table[k].to = argument;
        } else if (table[k].kind == OPTION_REST) { /* moved to argv's front */
            option_rest *rest = (option_rest *)table[k].to;
            if (!n_rest) rest->at = argv + 1;
            argv[++n_rest] = argument;
            rest->n = n_rest;
        } else if (table[k].kind == OPTION_FLAG) {
            *(int *)table[k].to = value ? 2 : 1;
        } else {
            if (!value) i++;
            option_set(&table[k], value ? value : i < argc ? argv[i] : NULL, fail);
        }
        table[k].marks |= OPTION_GIVEN;
    }
    return NULL;
}

#endif
