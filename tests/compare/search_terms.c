/* search_terms MODEL BEAM < LINES: translates with terms by constrained search, which
   tests/translate/terms.py compares with translate --terms. A line is a source and its targets,
   with a TAB before each. edit_logits forbids the end token until all targets are in the
   translation. It adds FIRST to the logit of a missing target's first token, and NEXT to that of
   the token after a part of a target. */
#include "transformer.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 32, TERMS = 8, FORMS = 2, FIRST = 4, NEXT = 8 };

/* The targets of a sentence as written, and with a capital, which only the first word may have. */
typedef struct target {
    int32_t ids[FORMS][MOST], n[FORMS];
} target;

typedef struct search {
    target targets[TERMS];
    int n;
    int32_t end;
} search;

static int is_in(const int32_t *ids, int32_t n, const int32_t *part, int32_t size) {
    int32_t i;
    for (i = 0; size && i + size <= n; i++)
        if (memcmp(ids + i, part, (size_t)size * sizeof *ids) == 0) return 1;
    return 0;
}

static void edit(void *user, int32_t row, const int32_t *ids, int32_t n, float *logits) {
    const search *s = (const search *)user;
    int k, form, missing = 0;
    (void)row;
    for (k = 0; k < s->n; k++) {
        const target *t = &s->targets[k];
        if (is_in(ids, n, t->ids[0], t->n[0]) || is_in(ids, n, t->ids[1], t->n[1])) continue;
        missing = 1;
        for (form = 0; form < FORMS; form++) {
            int32_t begun = t->n[form] - 1;
            while (begun > 0 && (begun > n || memcmp(ids + n - begun, t->ids[form],
                                                     (size_t)begun * sizeof *ids) != 0))
                begun--;
            if (begun > 0) logits[t->ids[form][begun]] += (float)NEXT;
            else if (t->n[form] && (form == 1) == (n == 0)) logits[t->ids[form][0]] += (float)FIRST;
        }
    }
    if (missing) logits[s->end] = -INFINITY;
}

/* Writes the forms of a word as ids. Returns 0 if a target has more than MOST tokens. */
static int read_target(const tfm_model *model, const char *word, target *t) {
    static unsigned char memory[1 << 20];
    char text[512];
    int form;
    tfm_error err;
    memset(t, 0, sizeof *t);
    for (form = 0; form < FORMS; form++) {
        tfm_arena scratch = tfm_arena_make(memory, sizeof memory);
        size_t size = strlen(word);
        if (size >= sizeof text) return 0;
        memcpy(text, word, size + 1);
        if (form == 1 && text[0] >= 'a' && text[0] <= 'z') text[0] = (char)(text[0] - 'a' + 'A');
        if (tfm_model_tokenize_target(model, tfm_text_make(text, size), TFM_TEXT_FORM_TEXT,
                                      t->ids[form], MOST, &t->n[form], &scratch, &err) != TFM_OK)
            return fprintf(stderr, "%s: %s\n", word, err.text), 0;
    }
    return 1;
}

int main(int argc, char **argv) {
    static char line[1 << 14], out[1 << 15];
    static search s;
    tfm_model *model = NULL;
    tfm_session *session = NULL;
    tfm_session_options limits;
    tfm_decode_options options;
    tfm_error err;
    memset(&limits, 0, sizeof limits), memset(&options, 0, sizeof options);
    if (argc < 3) return fprintf(stderr, "search_terms MODEL BEAM\n"), 2;
    limits.max_beam = options.beam = atoi(argv[2]);
    limits.max_source = 256, limits.max_target = 100;
    if (tfm_model_load_file(&model, argv[1], NULL, &err) != TFM_OK ||
        tfm_session_create(&session, model, &limits, &err) != TFM_OK)
        return fprintf(stderr, "%s\n", err.text), 2;
    s.end = tfm_model_config(model)->end;
    options.edit_logits = edit, options.edit_user = &s;
    while (fgets(line, sizeof line, stdin)) {
        tfm_text source, translation;
        tfm_request request = tfm_request_text("", 0);
        const char *word;
        line[strcspn(line, "\n")] = 0;
        source.data = strtok(line, "\t"), s.n = 0;
        if (!source.data) return fprintf(stderr, "a line has no source\n"), 2;
        source.size = strlen(source.data);
        for (; (word = strtok(NULL, "\t")) != NULL; s.n++)
            if (s.n == TERMS || !read_target(model, word, &s.targets[s.n]))
                return fprintf(stderr, "too many terms, or too long: %s\n", word), 2;
        request.text = source;
        if (tfm_translate_batch(session, &request, 1, &options, &translation, out, sizeof out,
                                &err) != TFM_OK)
            return fprintf(stderr, "%s\n", err.text), 2;
        printf("%s\n", translation.data);
    }
    tfm_session_free(session);
    tfm_model_free(model);
    return 0;
}
