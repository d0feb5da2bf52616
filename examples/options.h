/* options.h: a program's options as one table, which reads the command line, checks the values and
   prints --help.

       static int32_t count;
       static option table[] = {
           {"file", NULL, OPTION_OPERAND, &path, 0, 0, 0, NULL},
           {"--count", "N", OPTION_INTEGER, &count, 1, 100, 0, "how many (default 1)"},
           {"--help", NULL, OPTION_STOP, NULL, 0, 0, 0, "this text"}};
       const option *stop = options_read(table, 3, argc, argv, fail);
       if (stop) options_print(table, 3, stdout), exit(0);

   What is not given keeps its value; of an option that is given twice the last one counts. A value
   may follow "=" or come next, -h is --help, and after -- there are no options. */
#ifndef OPTIONS_H
#define OPTIONS_H

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What `to` points to. */
typedef enum option_kind {
    OPTION_FLAG,    /* int, set to 1; to 2 by "=" and the value, where there is one */
    OPTION_INTEGER, /* int32_t */
    OPTION_NUMBER,  /* double */
    OPTION_SEED,    /* uint64_t */
    OPTION_PATH,    /* const char * */
    OPTION_OPERAND, /* const char *: an argument that is no option; the name is for messages */
    OPTION_REST,    /* option_rest: those that come after */
    OPTION_STOP,    /* nothing: options_read returns at it */
    OPTION_TEXT     /* nothing: the name is text between the options of --help */
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
    double least, most; /* of integers and numbers */
    unsigned marks;     /* OPTION_GIVEN, and bits of the program's own */
    const char *help;   /* may have several lines; NULL: --help leaves it out */
} option;

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

/* text NULL: the command line has ended. */
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

/* The option of that name, up to its "=", or the operand whose turn it is; n: there is none. */
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

/* Reads all arguments, or up to an OPTION_STOP, which it returns. fail says what is wrong, as
   printf does, and ends the program. */
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
        if (k == n) fail("'%s' is one too many", argv[i]);
        if (equals && table[k].kind == OPTION_FLAG && table[k].value &&
            strcmp(equals + 1, table[k].value) != 0)
            fail("%s takes '%s' or no value, not '%s'", table[k].name, table[k].value, equals + 1);
        if (equals && !table[k].value)
            fail("%s takes no value, not '%s'", table[k].name, equals + 1);
        if (table[k].kind == OPTION_STOP) return &table[k];
        if (table[k].kind == OPTION_OPERAND) {
            *(const char **)table[k].to = argv[i];
        } else if (table[k].kind == OPTION_REST) { /* gathered where others were read */
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
