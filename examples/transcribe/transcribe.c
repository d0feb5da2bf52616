/* transcribe: from speech to text, subtitles or JSON, with a Whisper model of tools/convert.py.
   --help lists the options; README.md beside this file shows how to get a model. */
#if !defined(_POSIX_C_SOURCE) && (defined(__unix__) || defined(__APPLE__))
#define _POSIX_C_SOURCE 200809L
#endif
#ifndef TFM__IMPLEMENTED
#define TRANSFORMER_IMPLEMENTATION
#endif
#include "transformer.h"
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <time.h>
#include "../../tools/common/messages.h"
#include "../../tools/common/options.h"
#include "../../tools/common/utf8_files.h"
#include "../translate/interrupts.h"

static void fail(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format), output_complain("transcribe", format, arguments),
        va_end(arguments);
    exit(1);
}
#define cue_fail(text) fail("%s", text)

#include "transcriber.h"
#include "cues.h"

/* Returns seconds since some moment. */
static double seconds(void) {
    struct timespec t = {0, 0};
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static transcriber_options asked;
static const char *model_path, *sound_path, *task = "transcribe", *form = "text",
                                            *weights = "stored";
static const char *temperatures;
static int with_times, progress, fast;
static int32_t threads = 1, n_workers = 1;
static double began, loaded, first_text; /* seconds; first_text 0: there is none yet */

static option_entry table[] = {
    {"Writes what is spoken in a sound file.\n\n"
     "  transcribe MODEL SOUND [options]\n\n"
     "MODEL is a Whisper model of tools/convert.py. SOUND is a WAV file, or - for raw samples "
     "from\n"
     "standard input: 16 bits, mono, 16 kHz (arecord -f S16_LE -r 16000 | transcribe MODEL -). "
     "Each\n"
     "window of up to 30 s is written as soon as it has been heard. Ctrl-C keeps what was "
     "written.\n"
     "Of other sound files, ffmpeg -i IN -ar 16000 -ac 1 OUT.wav makes WAV files.\n",
     NULL, OPTION_TEXT, NULL, 0, 0, 0, NULL},
    {"model", NULL, OPTION_OPERAND, &model_path, 0, 0, 0, NULL},
    {"sound", NULL, OPTION_OPERAND, &sound_path, 0, 0, 0, NULL},
    {"--language", "CODE", OPTION_PATH, &asked.language, 0, 0, 0,
     "en, de ...; auto (default): the model detects it"},
    {"--task", "TASK", OPTION_PATH, &task, 0, 0, 0,
     "transcribe (default), or translate: into English"},
    {"--format", "FORM", OPTION_PATH, &form, 0, 0, 0,
     "text (default), srt, vtt or json (a line for each segment)"},
    {"--timestamps", NULL, OPTION_FLAG, &with_times, 0, 0, 0,
     "text: each line begins with its times"},
    {"--words", NULL, OPTION_FLAG, &asked.with_words, 0, 0, 0, "the time of each word"},
    {"--no-times", NULL, OPTION_FLAG, &asked.decoding.without_times, 0, 0, 0,
     "the model writes no times: one segment for each window"},
    {"--beam", "N", OPTION_INTEGER, &asked.decoding.beam, 1, 64, 0,
     "hypotheses of the search at temperature 0 (default 5; 1: greedy)"},
    {"--temperature", "LIST", OPTION_PATH, &temperatures, 0, 0, 0,
     "attempts until one passes the next two limits\n(default 0,0.2,0.4,0.6,0.8,1)"},
    {"--compression", "R", OPTION_NUMBER, &asked.decoding.compression, 0, 1e9, 0,
     "a more repetitive text fails (default 2.4; 0: no limit)"},
    {"--log-prob", "P", OPTION_NUMBER, &asked.decoding.log_prob, -1e9, 0, 0,
     "a text with a lower mean log-probability fails\n(default -1; 0: no limit)"},
    {"--no-speech", "P", OPTION_NUMBER, &asked.decoding.no_speech, 0, 1, 0,
     "a failed window is skipped if the model's probability\nthat nobody speaks is larger (default "
     "0.6; 1: never)"},
    {"--best-of", "N", OPTION_INTEGER, &asked.decoding.best_of, 1, 64, 0,
     "samples at temperatures above 0 (default 5)"},
    {"--no-previous", NULL, OPTION_FLAG, &asked.no_previous, 0, 0, 0,
     "windows do not see the text of the window before"},
    {"--prompt", "TEXT", OPTION_PATH, &asked.prompt, 0, 0, 0,
     "text as if heard before the sound: names, style"},
    {"--silence", "DB", OPTION_NUMBER, &asked.silence, -120, 0, 0,
     "stretches of 3 s below this level are not heard\n(default -60; 0: everything is heard)"},
    {"--weights", "TYPE", OPTION_PATH, &weights, 0, 0, 0,
     "stored (default), f32, f16, bf16 or int8"},
    {"--fast", NULL, OPTION_FLAG, &fast, 0, 0, 0,
     "encoder attention in BF16 and a KV cache in F16, as int8\nmodel files always have it"},
    {"--threads", "N", OPTION_INTEGER, &threads, 1, 64, 0,
     "threads that share the work on a window (default 1)"},
    {"--workers", "N", OPTION_INTEGER, &n_workers, 1, CUE_LANES, 0,
     "parts of the file that are heard at once; needs\n--no-previous and a WAV file (default 1)"},
    {"--progress", NULL, OPTION_FLAG, &progress, 0, 0, 0,
     "seconds heard so far, and at the end how long it took,\non standard error"},
    {"--help", NULL, OPTION_STOP, NULL, 0, 0, 0, "this text"}};

/* A part of the sound, with a session of its own. */
typedef struct job {
    int number;
    transcriber h;
    tfm_error err;
    pthread_t thread;
} job;

static job jobs[CUE_LANES];
static int n_jobs = 1;
static tfm_model *model;
static tfm_safetensors *file;
static track_source source;

static void check(job *j, tfm_status status) {
    if (status != TFM_OK) fail("%s", j->err.text[0] ? j->err.text : tfm_status_text(status));
}

/* Writes the words from at to end, each as a cue. */
static void write_words(int number, const word *at, const word *end, cue_line *out) {
    for (; at < end; at++) {
        cue_clear(out), cue_append_text(out, words_trim(at->text));
        cue_add(number, at->begin, at->end, out->at);
    }
}

/* Appends the words to the text of a cue of WebVTT, each with the time when it begins. */
static void append_words(cue_line *out, const word *at, const word *end) {
    for (; at < end; at++) {
        int64_t ms = (int64_t)((at->begin > 0 ? at->begin : 0) * 1000 + 0.5);
        if (!at->text[0]) continue;
        cue_append(out, "<%02d:%02d:%02d.%03d><c>", (int)(ms / 3600000), (int)(ms / 60000 % 60),
                   (int)(ms / 1000 % 60), (int)(ms % 1000));
        cue_append_text(out, at->text);
        cue_append(out, "</c>");
    }
}

/* Appends a segment as an object of JSON. at NULL: without the times of words. */
static void append_object(cue_line *out, const transcriber *h, const whisper_segment *s,
                          const char *text, const word *at, const word *end) {
    const whisper_text *heard = &h->heard;
    const char *code = transcriber_language(h);
    int32_t i;
    cue_append(out, "{\"start\": %.2f, \"end\": %.2f, \"text\": ", s->begin, s->end);
    cue_append_text(out, text);
    if (code) cue_append(out, ", \"language\": "), cue_append_text(out, code);
    cue_append(out, ", \"seek\": %d, \"temperature\": %.4g, \"avg_logprob\": ", (int)h->began,
               heard->temperature);
    cue_append_number(out, "%.5f", heard->log_prob);
    cue_append(out, ", \"compression_ratio\": "),
        cue_append_number(out, "%.3f", heard->compression);
    if (heard->no_speech >= 0) cue_append(out, ", \"no_speech_prob\": %.5f", heard->no_speech);
    cue_append(out, ", \"tokens\": [");
    for (i = 0; i < s->n; i++) cue_append(out, i ? ", %d" : "%d", (int)heard->ids[s->first + i]);
    cue_append(out, "]");
    if (at) cue_append(out, ", \"words\": [");
    for (i = 0; at && at < end; at++) {
        if (!at->text[0]) continue;
        cue_append(out, i++ ? ", {\"word\": " : "{\"word\": ");
        cue_append_text(out, at->text);
        cue_append(out, ", \"start\": %.2f, \"end\": %.2f, \"probability\": ", at->begin, at->end);
        cue_append_number(out, "%.4f", at->prob), cue_append(out, "}");
    }
    cue_append(out, at ? "]}" : "}");
}

/* Writes segment k of the last window. */
static void write_segment(job *j, int32_t k, cue_line *out) {
    const whisper_segment *s = &j->h.segments[k];
    const word *at = asked.with_words ? j->h.found->at + s->first_word : NULL;
    const word *end = at ? at + s->n_words : NULL;
    const char *text;
    check(j, transcriber_spell(&j->h, k, &j->err));
    text = words_trim(j->h.w.text), cue_clear(out);
    if (at && (cue_output.form == CUE_TEXT || cue_output.form == CUE_SRT)) {
        write_words(j->number, at, end, out);
        return;
    }
    if (cue_output.form == CUE_JSON) append_object(out, &j->h, s, text, at, end);
    else if (at) append_words(out, at, end);
    else cue_append_text(out, text);
    cue_add(j->number, s->begin, s->end, out->at);
}

typedef struct share {
    tfm_task task;
    void *context;
    int32_t part;
} share;

static void *run_share(void *one) {
    share *s = (share *)one;
    s->task(s->context, s->part);
    return NULL;
}

/* Computes parts of the spectrum and the convolutions, each in a thread that ends afterwards. (The
   session has its own threads, which also have to serve steps of a few milliseconds.) */
static void run_parts(void *user, tfm_task work, void *context, int32_t parts) {
    pthread_t threads_of[64];
    share shares[64];
    int32_t i, n;
    (void)user;
    for (i = 0; i < parts; i++)
        shares[i].task = work, shares[i].context = context, shares[i].part = i;
    for (n = 1; n < parts; n++)
        if (pthread_create(&threads_of[n], NULL, run_share, &shares[n]) != 0) break;
    for (i = n; i < parts; i++) work(context, i); /* without a thread of its own */
    work(context, 0);
    for (i = 1; i < n; i++) pthread_join(threads_of[i], NULL);
}
static const tfm_parallel helpers = {run_parts, NULL};

/* Hears the job's part of the sound. */
static void *hear(void *context) {
    job *j = (job *)context;
    int32_t k;
    cue_line out = {NULL, 0, 0};
    while (!j->h.ended) {
        check(j, transcriber_next(&j->h, &j->err));
        if (j->number == 0 && first_text == 0 && !j->h.ended) first_text = seconds();
        for (k = 0; k < j->h.n; k++) write_segment(j, k, &out);
        if (progress && !j->h.ended) fprintf(stderr, "\r%.1f s ", (double)j->h.seek * 0.01);
    }
    cue_add(j->number, 0, 0, NULL);
    free(out.at);
    return NULL;
}

static int is_stopped(void *user) {
    (void)user;
    return interrupts_stopped();
}

static void read_temperatures(whisper_options *o) {
    const char *text = temperatures;
    char *end;
    if (!text) return;
    o->n_temperatures = 0;
    while (o->n_temperatures < WHISPER_TEMPERATURES) {
        double value = strtod(text, &end);
        if (end == text || !(value >= 0 && value <= 10) || (*end && *end != ',')) break;
        o->temperatures[o->n_temperatures++] = value, text = end + (*end == ',');
        if (!*end) return;
    }
    fail("--temperature takes up to %d numbers from 0 to 10 with commas between them, not '%s'",
         WHISPER_TEMPERATURES, temperatures);
}

static int choose(const char *name, const char *value, const char *const *values) {
    char all[64] = "";
    int i;
    for (i = 0; values[i]; i++) {
        if (strcmp(value, values[i]) == 0) return i;
        snprintf(all + strlen(all), sizeof all - strlen(all), i ? ", %s" : "%s", values[i]);
    }
    fail("%s takes one of %s, not '%s'", name, all, value);
    return 0;
}

int main(int argc, char **argv) {
    static const char *const tasks[] = {"transcribe", "translate", NULL};
    static const char *const forms[] = {"text", "srt", "vtt", "json", NULL};
    static const char *const types[] = {"stored", "f32", "f16", "bf16", "int8", NULL};
    tfm_model_options how;
    tfm_error err;
    transcriber *all[CUE_LANES];
    const char *why;
    int k;
    argv = utf8_arguments(&argc, argv);
    memset(&how, 0, sizeof how);
    transcriber_defaults(&asked);
    began = seconds();
    if (options_read(table, sizeof table / sizeof *table, argc, argv, fail)) {
        options_print(table, sizeof table / sizeof *table, stdout);
        return !output_finish("transcribe");
    }
    if (!sound_path) fail("give a model and a sound (--help shows how)");
    asked.decoding.is_translation = choose("--task", task, tasks) == 1;
    cue_output.form = (cue_form)choose("--format", form, forms);
    cue_output.with_times = with_times;
    how.weights = (tfm_weight_type)choose("--weights", weights, types);
    read_temperatures(&asked.decoding);
    asked.decoding.is_stopped = is_stopped;
    if (strcmp(sound_path, "-") == 0) source.raw = stdin;
    else source.path = sound_path;
    if (source.path && (why = track_keep(&source)) != NULL) fail("%s: %s", sound_path, why);
    if (n_workers > 1 && (!asked.no_previous || source.raw))
        fail("--workers needs --no-previous and a file: a window then does not wait for the one "
             "before");
    n_jobs = cue_output.n_lanes = n_workers;

    if (tfm_safetensors_open_file(&file, model_path, NULL, &err) != TFM_OK) fail("%s", err.text);
    if (tfm_model_load_file(&model, model_path, &how, &err) != TFM_OK) fail("%s", err.text);
    for (k = 0; k < n_jobs; k++) {
        const whisper_options *o = &asked.decoding;
        job *j = &jobs[k];
        j->number = k;
        if (transcriber_load(&j->h, model, file, threads,
                             o->beam > o->best_of ? o->beam : o->best_of, fast, &j->err) != TFM_OK)
            fail("%s: %s", model_path, j->err.text);
        j->h.s.parallel = &helpers, j->h.s.threads = threads;
        check(j, transcriber_begin(&j->h, &asked, &source, &j->err));
    }
    tfm_safetensors_free(file), file = NULL;
    loaded = seconds();
    interrupts_hold(1);
    if (cue_output.form == CUE_VTT) fputs("WEBVTT\n\n", stdout);
    for (k = 0; k < n_jobs; k++) all[k] = &jobs[k].h;
    if (!source.raw) check(&jobs[0], transcriber_survey(all, n_jobs, &jobs[0].err));
    for (k = 1; k < n_jobs; k++)
        if (pthread_create(&jobs[k].thread, NULL, hear, &jobs[k]) != 0)
            fail("a thread cannot be started");
    hear(&jobs[0]);
    for (k = 1; k < n_jobs; k++) pthread_join(jobs[k].thread, NULL);
    if (progress)
        fprintf(stderr, "\nloaded in %.3f s; first text %.3f s later; all in %.3f s\n",
                loaded - began, first_text > 0 ? first_text - loaded : 0, seconds() - loaded);
    for (k = 0; k < n_jobs; k++) transcriber_free(&jobs[k].h);
    tfm_model_free(model), model = NULL;
    free((void *)(uintptr_t)source.data), source.data = NULL;
    interrupts_hold(0);
    if (interrupts_stopped()) interrupts_end();
    return 0;
}
