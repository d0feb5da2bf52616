/* Translates texts as if they came word by word. For each line of FILE, a source and a reference
   with a tab between, prints a line of fields with tabs between: the words of the source, the
   stable words of the translation behind each of them, the translation of the whole source, the
   live translation, the reference, and for each word the CPU time of its run divided by that of
   the whole source. For tests/translate/time_live.py:

       live_translation MODEL FILE [SURE] */
#define _POSIX_C_SOURCE 200809L
#include "transformer.h"
#include <time.h>
#include "examples/translate/live_translation.h"

static double cpu(void) {
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Returns the words of a text, or its characters if its script has no spaces. */
static int count(const char *text, size_t size) {
    size_t at;
    int n = 0, is_inside = 0;
    uint32_t c;
    for (at = 0; at < size;) {
        at += tfm_character_next(text + at, size - at, &c);
        if (character_is_wide(c)) n++, is_inside = 0;
        else if (character_is_space(c)) is_inside = 0;
        else n += !is_inside, is_inside = 1;
    }
    return n;
}

int main(int argc, char **argv) {
    static live_translation l;
    static char line[1 << 16], whole[1 << 16];
    tfm_model *model = NULL;
    tfm_session *session = NULL, *offline = NULL;
    tfm_session_options limits;
    tfm_decode_options greedy;
    tfm_error err;
    FILE *f = argc > 2 ? fopen(argv[2], "rb") : NULL;
    memset(&greedy, 0, sizeof greedy);
    if (!f) return fputs("usage: live_translation MODEL FILE [SURE]\n", stderr), 2;
    if (tfm_model_load_file(&model, argv[1], NULL, &err) != TFM_OK) goto failed;
    live_translation_limits(model, &limits);
    if (tfm_session_create(&session, model, &limits, &err) != TFM_OK) goto failed;
    limits.max_draft = 0;
    if (tfm_session_create(&offline, model, &limits, &err) != TFM_OK) goto failed;
    live_translation_begin(&l, model, session, &greedy);
    if (argc > 3) l.sure = atof(argv[3]);
    while (fgets(line, sizeof line, f)) {
        char *reference = strchr(line, '\t');
        text_buffer stable, times;
        size_t size, at, n, end;
        double began = cpu(), took;
        uint32_t c, before;
        if (!reference) continue;
        *reference++ = 0, size = strlen(line);
        memset(&stable, 0, sizeof stable), memset(&times, 0, sizeof times);
        if (tfm_translate(offline, line, whole, sizeof whole, &err) != TFM_OK) goto failed;
        took = cpu() - began;
        for (at = 0; at < size; at = end) {
            tfm_status status = TFM_OK;
            for (end = at, before = 'a'; end < size; end += n, before = c) {
                n = tfm_character_next(line + end, size - end, &c);
                if (end > at && (character_is_space(before) || character_is_wide(c) ||
                                 character_is_wide(before)))
                    break;
            }
            began = cpu();
            live_translation_feed(&l, line + at, end - at);
            while (status == TFM_OK && end < size && live_translation_is_due(&l))
                status = live_translation_run(&l, &err);
            if (end == size) status = live_translation_finish(&l, &err);
            if (status != TFM_OK) goto failed;
            text_buffer_format(&times, " %.3f", (cpu() - began) / took);
            text_buffer_format(&stable, " %d", count(l.text.data, l.stable));
        }
        printf("%d\t%s\t%s\t%.*s\t%.*s\t%s\n", count(line, size), stable.data, whole,
               (int)l.text.size, l.text.data, (int)strcspn(reference, "\r\n"), reference,
               times.data);
        live_translation_clear(&l);
        text_buffer_free(&stable), text_buffer_free(&times);
    }
    fclose(f);
    return 0;
failed:
    return fprintf(stderr, "%s\n", err.text), 1;
}
