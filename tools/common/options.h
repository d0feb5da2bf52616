/* options.h: reads a command line, checks its values and prints --help, all from one table.

       static int32_t count;
       static option table[] = {
           {"file", NULL, OPTION_OPERAND, &path, 0, 0, 0, NULL},
           {"--count", "N", OPTION_INTEGER, &count, 1, 100, 0, "how many (default 1)"},
           {"--help", NULL, OPTION_STOP, NULL, 0, 0, 0, "this text"}};
       const option *stop = options_read(table, 3, argc, argv, fail);
       if (stop) options_print(table, 3, stdout), exit(0);

   A variable whose option is not given keeps its value. If an option is given twice, the last one
   counts. A value follows "=" or is the next argument. -h is the same as --help. After "--" all
   arguments are operands. */
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

typedef struct option {
    const char *name, *value; /* as --help shows them */
    option_kind kind;
    void *to;
    double least, most; /* the range of integers and numbers */
    unsigned marks;     /* OPTION_GIVEN (bit 0), and bits that the program defines */
    const char *help;   /* may have several lines; NULL: --help does not show the option */
} option;

/* Prints the text of --help to f. */
static void options_print(const option *table, size_t n, FILE *f) {
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

/* Stores an option's value. text is NULL if the command line ends before the value. */
static void option_set(const option *o, const char *text, void (*fail)(const char *, ...)) {
    const char *shown = text ? text : "";
    char *end = NULL;
    double value = 0;
    if (o->kind == OPTION_PATH) {
        if (!text) fail("%s takes %s", o->name, o->value);
        *(const char **)o->to = text;
    } else if (o->kind == OPTION_SEED) {
        errno = 0;
        if (*shown >= '0' && *shown <= '9') *(uint64_t *)o->to = strtoull(text, &end, 10);
        if (!end || *end || errno)
            fail("%s takes an integer of up to 64 bits, not '%s'", o->name, shown);
    } else {
        if (o->kind == OPTION_INTEGER) value = (double)strtol(shown, &end, 10);
        else value = strtod(shown, &end);
        if (end == shown || *end || !(value >= o->least && value <= o->most))
            fail("%s takes a number from %.7g to %.7g, not '%s'", o->name, o->least, o->most,
                 shown);
        if (o->kind == OPTION_INTEGER) *(int32_t *)o->to = (int32_t)value;
        else *(double *)o->to = value;
    }
}

/* Returns the index of the option named by an argument (its part before "="), or of the next
   operand that is not yet given. Returns n if there is none. */
static size_t option_find(const option *table, size_t n, const char *argument, int is_option) {
    size_t k, size = strcspn(argument, "=");
    if (strcmp(argument, "-h") == 0) argument = "--help", size = 6;
    for (k = 0; k < n; k++) {
        const option *o = &table[k];
        if (is_option ? o->name[0] == '-' && strlen(o->name) == size &&
                            strncmp(o->name, argument, size) == 0
                      : o->kind == OPTION_REST ||
                            (o->kind == OPTION_OPERAND && !(o->marks & OPTION_GIVEN)))
            return k;
    }
    return n;
}

/* Reads all arguments and returns NULL, or stops at an OPTION_STOP and returns it. On an error
   calls fail, which formats its arguments like printf and must end the program. */
static const option *options_read(option *table, size_t n, int argc, char **argv,
                                  void (*fail)(const char *format, ...)) {
    size_t k;
    int i, n_rest = 0, options = 1;
    for (k = 0; k < n; k++) table[k].marks &= ~(unsigned)OPTION_GIVEN;
    for (i = 1; i < argc; i++) {
        int is_option = options && argv[i][0] == '-' && argv[i][1];
        const char *equals = is_option ? strchr(argv[i], '=') : NULL;
        if (options && strcmp(argv[i], "--") == 0) {
            options = 0;
            continue;
        }
        k = option_find(table, n, argv[i], is_option);
        if (k == n && is_option) fail("unknown option '%s' (--help lists them)", argv[i]);
        if (k == n) fail("unexpected argument '%s'", argv[i]);
        if (equals && table[k].kind == OPTION_FLAG && table[k].value &&
            strcmp(equals + 1, table[k].value) != 0)
            fail("%s takes '%s' or no value, not '%s'", table[k].name, table[k].value, equals + 1);
        if (equals && !table[k].value)
            fail("%s takes no value, not '%s'", table[k].name, equals + 1);
        if (table[k].kind == OPTION_STOP) return &table[k];
        if (table[k].kind == OPTION_OPERAND) {
            *(const char **)table[k].to = argv[i];
        } else if (table[k].kind == OPTION_REST) { /* moved to argv's front */
            option_rest *rest = (option_rest *)table[k].to;
            if (!n_rest) rest->at = argv + 1;
            argv[++n_rest] = argv[i];
            rest->n = n_rest;
        } else if (table[k].kind == OPTION_FLAG) {
            *(int *)table[k].to = equals ? 2 : 1;
        } else {
            if (!equals) i++;
            option_set(&table[k], equals ? equals + 1 : i < argc ? argv[i] : NULL, fail);
        }
        table[k].marks |= OPTION_GIVEN;
    }
    return NULL;
}

#endif
