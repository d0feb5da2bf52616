/* Hears a WAV file as if it were spoken now, on a clock of its own: sound comes at the speed of
   speech, and a run takes the CPU time that it takes, or run seconds. Prints each stable text with
   the moment when it is there, and at the end counts. With run, the texts are the same each time.
   For tests/transcribe/time_live.py:

       live MODEL SOUND.wav [OPTION=NUMBER ...] */
#define _POSIX_C_SOURCE 200809L
#include "transformer.h"
#if defined(__GNUC__)
#pragma GCC diagnostic ignored "-Wunused-function" /* of the headers */
#endif
#include <time.h>
#include "examples/transcribe/transcriber.h"
#include "examples/transcribe/live.h"

static double cpu(void) {
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

int main(int argc, char **argv) {
    static float samples[SOUND_CHUNK];
    static transcriber h;
    static live l;
    transcriber_options settings;
    live_options o;
    tfm_model *model = NULL;
    tfm_safetensors *file = NULL;
    tfm_error err;
    sound in;
    float *all = NULL;
    int64_t n = 0, fed = 0, more, runs;
    int32_t got;
    double now = 0, waited = 0, begin, used = 0;
    int done = 0, k;
    double rule = LIVE_BOTH, history = 32, without = 0, trace = 0, run = 0, spent;
    static const char *const names[] = {
        "rule=",    "history=", "without_drafts=", "trace=",    "run=", "step=",
        "guard=",   "pause=",   "lead=",           "shortest=", "gap=", "room=",
        "longest=", "kept=",    "doubt=",          "look="};
    double *const numbers[] = {&rule,      &history, &without, &trace,      &run,   &o.step,
                               &o.guard,   &o.pause, &o.lead,  &o.shortest, &o.gap, &o.room,
                               &o.longest, &o.kept,  &o.doubt, &o.look};
    size_t i;
    FILE *f = argc > 2 ? fopen(argv[2], "rb") : NULL;
    err.text[0] = 0;
    transcriber_defaults(&settings), live_defaults(&o);
    for (k = 3; k < argc; k++) {
        const char *value = strchr(argv[k], '=');
        for (i = 0; value && i < sizeof names / sizeof *names; i++)
            if (strncmp(names[i], argv[k], (size_t)(value - argv[k])) == 0)
                *numbers[i] = atof(value + 1);
    }
    o.rule = (live_rule)(int)rule, o.history = (int32_t)history, o.without_drafts = without > 0;
    if (!f || sound_open(&in, f, SOUND_WAV) ||
        tfm_safetensors_open_file(&file, argv[1], NULL, &err) != TFM_OK ||
        tfm_model_load_file(&model, argv[1], NULL, &err) != TFM_OK ||
        transcriber_load(&h, model, file, 1, TRANSCRIBER_LIVE, 0, &err) != TFM_OK ||
        live_begin(&l, &h, &settings, &o, &err) != TFM_OK) {
        fprintf(stderr, "live: no sound, or no model: %s\n", err.text);
        return 1;
    }
    while ((got = sound_read(&in, samples, SOUND_CHUNK)) > 0) {
        all = (float *)realloc(all, (size_t)(n + got) * sizeof *all);
        if (!all) return 1;
        memcpy(all + n, samples, (size_t)got * sizeof *all), n += got;
    }
    while (!done) {
        int due;
        begin = cpu(), runs = l.runs;
        more = (int64_t)(now * 16000) < n ? (int64_t)(now * 16000) - fed : n - fed;
        if (more > 0 && live_feed(&l, all + fed, more, &err) != TFM_OK) return 1;
        if (more > 0) fed += more;
        if (fed == n && !l.ended) (void)live_finish(&l, &err);
        (void)live_is_behind(&l, now, waited, more > 0 ? more : 0);
        due = live_is_due(&l);
        if (due && live_hear(&l, &err) != TFM_OK) return printf("%s\n", err.text), 1;
        spent = cpu() - begin, used += spent;
        now += run > 0 ? run * (double)(l.runs - runs) : spent;
        if (due && l.stable[0])
            printf("%.3f\t%.2f\t%.2f\t%s\n", now, l.stable_begin, l.stable_end, l.stable);
        if (due && trace > 0)
            printf("# %.3f\t%.2f\t%.2f\t[%.2f %.2f]\t%s\n", now, l.tentative_begin, l.tentative_end,
                   (double)l.start / 16000, (double)l.end / 16000, l.tentative);
        done = !due && l.ended;
        waited = due ? 0 : 0.01, now += waited;
    }
    printf("sound %.3f cpu %.3f runs %d steps %d tokens %d\n", (double)n / 16000, used, (int)l.runs,
           (int)l.steps, (int)l.tokens);
    live_free(&l), transcriber_free(&h), tfm_model_free(model), tfm_safetensors_free(file);
    free(all), sound_close(&in), fclose(f);
    return 0;
}
