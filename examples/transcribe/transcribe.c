/* transcribe: from speech to text, subtitles or JSON, with a Whisper model of tools/convert.py.
   --help lists the options; README.md beside this file shows how to get a model. */
#if !defined(_POSIX_C_SOURCE) && defined(__unix__) /* macOS hides less without it */
#define _POSIX_C_SOURCE 200809L
#endif
#ifndef TFM__IMPLEMENTED
#define TRANSFORMER_IMPLEMENTATION
#endif
#include "../../tools/common/part_file.h"
#include "transformer.h"
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <time.h>
#include "../../tools/common/messages.h"
#include "../../tools/common/options.h"
#include "../../tools/common/progress.h"
#include "../../tools/common/utf8_files.h"
#include "../translate/interrupts.h"

#ifdef _WIN32
#include <io.h>
#define isatty _isatty
enum { is_windows = 1 };
#else
#include <unistd.h>
enum { is_windows = 0 };
#endif
enum { WAIT = 100, STALL = 10 * WAIT, LONG_STALL = 100 * WAIT }; /* milliseconds */
#define ENGLISH_LOG_PROB -0.7 /* the mean of a window; lower may be another language */

static void fail(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format), output_complain("transcribe", format, arguments),
        va_end(arguments);
    if (interrupts_word) fputs(interrupts_word, stderr);
    exit(1);
}
#define cue_fail(text) fail("%s", text)

#include "transcriber.h"
#include "cues.h"
#include "transcript.h"
#include "stream.h"
#include "live.h"
#include "live_text.h"
#include "ffmpeg.h"
#include "command.h"

/* A part of the sound, with a session of its own. */
typedef struct job {
    int number;
    transcriber h;
    tfm_error err;
    pthread_t thread;
    int64_t heard; /* frames of 10 ms */
} job;

static double began, loaded, first_text; /* seconds; first_text 0: there is none yet */
static job jobs[CUE_LANES];
static int n_jobs = 1;
static tfm_model *model;
static tfm_safetensors *file;
static track_source source;
static part_file made; /* of --output */
/* Both are guarded by the lock. all: frames of the sound, 0 where they are not known. */
static struct {
    pthread_mutex_t lock;
    progress shown;
    int64_t all;
    int is_survey; /* no thread runs yet */
} waiting = {PTHREAD_MUTEX_INITIALIZER, {0, 0, 0, 0, 0}, 0, 0};

static void check(job *j, tfm_status status) {
    const char *text = j->err.text[0] ? j->err.text : tfm_status_text(status);
    int is_list = strncmp(text, "own words", 9) == 0;
    if (status != TFM_OK) fail("%s%s%s", is_list ? words_path : "", is_list ? ": " : "", text);
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

/* Says once that a window may not be English, if the model knows no other language: its first
   attempt failed, or its text is improbable. (Clear English has -0.2 to -0.5, German and French -1
   and less.) */
static void warn_of_language(const job *j) {
    static int warned;
    const whisper_text *heard = &j->h.heard;
    if (j->number || tfm_model_config(model)->n_languages || warned ||
        !transcriber_is_whisper(&j->h))
        return;
    if (!j->h.n && !j->h.made_up) return;
    if (heard->temperature == 0 && heard->log_prob > ENGLISH_LOG_PROB) return;
    warned = 1;
    fputs("transcribe: the model knows English only, and this does not sound like English: use a "
          "model of "
          "several languages, such as whisper-base\n",
          stderr);
}

/* Shows how much of the sound was heard. j: a job that has just heard up to its h.seek, or NULL. */
static void show_progress(job *j) {
    char text[100];
    int64_t heard = 0;
    int k;
    pthread_mutex_lock(&waiting.lock);
    if (j) j->heard = j->h.seek - j->h.from;
    if (progress_is_due(&waiting.shown)) {
        for (k = 0; k < n_jobs; k++) heard += jobs[k].heard;
        if (waiting.is_survey) snprintf(text, sizeof text, "reading the sound");
        else
            snprintf(text, sizeof text, "%.1f s heard, %.1f times as fast as speech",
                     (double)heard * 0.01, (double)heard * 0.01 / progress_seconds(&waiting.shown));
        progress_show(&waiting.shown, waiting.all ? (double)heard / (double)waiting.all : 0, text);
    }
    pthread_mutex_unlock(&waiting.lock);
}

/* The decoder calls this function before each token. */
static int is_stopped(void *user) {
    (void)user;
    show_progress(NULL);
    return interrupts_stopped();
}

/* Hears the job's part of the sound. */
static void *hear(void *context) {
    job *j = (job *)context;
    int32_t k;
    cue_line out = {NULL, 0, 0};
    while (!j->h.ended) {
        check(j, transcriber_next(&j->h, &j->err));
        if (j->number == 0 && first_text == 0 && !j->h.ended) first_text = progress_now();
        for (k = 0; k < j->h.n; k++) check(j, transcript_write(j->number, &j->h, k, &out, &j->err));
        warn_of_language(j);
        show_progress(j);
    }
    cue_add(j->number, 0, 0, NULL);
    free(out.at);
    return NULL;
}

static void load_model(tfm_weight_type type) {
    const whisper_options *o = &asked.decoding;
    tfm_model_options how;
    tfm_error err;
    int k;
    memset(&how, 0, sizeof how);
    how.weights = type;
    if (tfm_safetensors_open_file(&file, model_path, NULL, &err) != TFM_OK) fail("%s", err.text);
    if (tfm_model_load_file(&model, model_path, &how, &err) != TFM_OK) fail("%s", err.text);
    for (k = 0; k < n_jobs; k++) {
        job *j = &jobs[k];
        j->number = k;
        if (transcriber_load(&j->h, model, file, threads,
                             is_live                ? (int)TRANSCRIBER_LIVE
                             : o->beam > o->best_of ? o->beam
                                                    : o->best_of,
                             fast, &j->err) != TFM_OK)
            fail("%s: %s", model_path, j->err.text);
        j->h.s.parallel = &helpers, j->h.s.threads = threads;
    }
    tfm_safetensors_free(file), file = NULL;
    if (only_parts && (!jobs[0].h.net.is_there || !(asked.voice.threshold > 0)))
        fail("%s: --vad-only needs a model with a voice detector, and --vad above 0", model_path);
    loaded = progress_now();
}

/* Returns the part of a path behind its folders. */
static const char *base_name(const char *path) {
    const char *name = path;
    for (; *path; path++)
        if (*path == '/' || (is_windows && *path == '\\')) name = path + 1;
    return name;
}

/* Returns the size of a name without its extension. */
static int stem_size(const char *name) {
    const char *dot = strrchr(name, '.');
    return (int)(dot && dot != name ? dot - name : (ptrdiff_t)strlen(name));
}

/* Says once what the user should know about the model. */
static void warn_of_model(void) {
    static int warned;
    if (!jobs[0].h.net.is_there && asked.voice.threshold > 0 && asked.silence < 0 && !warned++)
        fputs("transcribe: the model has no voice detector, so silence is found by its level alone "
              "(tools/convert.py --vad adds one; --vad 0: no such line)\n",
              stderr);
}

/* Lets ffmpeg read a file that is no WAV file. */
static void take_other_sound(const char *path) {
    FILE *from = utf8_open(path, "rb");
    sound s;
    const char *why = from ? sound_open(&s, from, SOUND_WAV) : NULL;
    void *data;
    if (from && !why) sound_close(&s);
    if (from && ferror(from)) why = NULL; /* such as a folder: track_open says so */
    if (from) fclose(from);
    if (!why || !strstr(why, SOUND_CONVERT)) return;
    switch (ffmpeg_read(path, &data, &source.size)) {
    case FFMPEG_READ: source.data = data; return;
    case FFMPEG_FAILED: fail("%s: %s; ffmpeg cannot read it, either", path, why); return;
    case FFMPEG_LONG:
        fail("%s: over nine hours; a WAV file need not be in memory" SOUND_CONVERT, path);
        return;
    case FFMPEG_MISSING: fail("%s: %s; where ffmpeg is installed, transcribe reads it", path, why);
    }
}

/* Opens the source of a sound. */
static void open_sound(const char *path) {
    const char *why = NULL;
    memset(&source, 0, sizeof source);
    source.path = path;
    if (strcmp(path, "-") == 0) source.raw = stdin;
    else if ((why = track_keep(&source)) != NULL) fail("%s: %s", path, why);
    else if (!source.data) take_other_sound(path);
    if (n_workers > 1 && (!asked.no_previous || source.raw))
        fail("--workers needs --no-previous and a file: a window then does not wait for the one "
             "before");
}

/* Opens the output of a sound, in a folder by the sound's name. NULL: standard output. */
static FILE *open_output(const char *sound_path) {
    static const char *const ends[] = {"txt", "srt", "vtt", "json"};
    static char said[4400];
    char *path;
    const char *name = base_name(sound_path), *other;
    struct stat found;
    size_t room;
    FILE *f;
    int k;
    if (!output_path) return NULL;
    room = strlen(output_path) + strlen(sound_path) + 16;
    path = (char *)malloc(room);
    if (!path) fail("no memory for the name of the output");
    if (strcmp(name, "-") == 0) name = "sound";
    if (stat(output_path, &found) == 0 && (found.st_mode & S_IFMT) == S_IFDIR)
        snprintf(path, room, "%s/%.*s.%s", output_path, stem_size(name), name,
                 ends[cue_output.form]);
    else if (sounds.n > 1) fail("%s: several sounds need a folder as --output", output_path);
    else snprintf(path, room, "%s", output_path);
    for (k = 0; k < sounds.n; k++) {
        if (output_is_same(path, sounds.at[k])) fail("%s is input and --output", path);
        if (sounds.at[k] == sound_path) continue;
        other = base_name(sounds.at[k]);
        if (stem_size(other) == stem_size(name) && !strncmp(other, name, (size_t)stem_size(name)))
            fail("%s and %s would both be written to %s", sounds.at[k], sound_path, path);
    }
    if (output_is_same(path, model_path)) fail("%s is input and --output", path);
    f = is_live ? utf8_open(path, "wb") : part_file_open(&made, path);
    if (!f) fail("%s: %s", path, strerror(errno));
    made.path = path;
    if (!made.part) return f;
    snprintf(said, sizeof said, "%stranscribe: what was heard is in %.4096s\n",
             isatty(2) ? "\n" : "", made.part);
    interrupts_word = said;
    return f;
}

/* Makes an output file whole; after an interrupt, what was heard stays under its other name. */
static void close_output(FILE *out) {
    char *path = (char *)(uintptr_t)made.path;
    if (!out) return;
    if (is_live || interrupts_stopped() ? fclose(out) : part_file_close(&made))
        fail("%s: cannot be written", output_path);
    if (interrupts_stopped()) return;
    interrupts_word = NULL;
    free(path);
}

/* Begins to show progress. */
static void begin_waiting(FILE *out) {
    int on_terminal = isatty(2), k;
    waiting.all = 0;
    for (k = 0; k < n_jobs; k++) jobs[k].heard = 0;
    progress_begin(&waiting.shown, on_terminal,
                   with_progress || (on_terminal && (out || !isatty(1))));
}

/* Reads a sound that is a file once before it is heard, and finds out how long it is. */
static void survey(transcriber **all) {
    int k;
    waiting.is_survey = 1;
    check(&jobs[0], transcriber_survey(all, n_jobs, &jobs[0].err));
    for (k = 0; k < n_jobs; k++) waiting.all += jobs[k].h.to - jobs[k].h.from;
    waiting.is_survey = 0, waiting.shown.began = progress_now();
}

/* Replaces the progress by a summary. */
static void end_waiting(void) {
    char text[100];
    int64_t heard = 0;
    int k;
    if (!(waiting.shown.shown > 0) || interrupts_stopped()) return;
    for (k = 0; k < n_jobs; k++) heard += jobs[k].heard;
    snprintf(text, sizeof text, "%.1f s heard in %.1f seconds", (double)heard * 0.01,
             progress_seconds(&waiting.shown));
    progress_end(&waiting.shown, text);
}

/* Hears a sound and writes its text. */
static void transcribe(const char *path) {
    transcriber *all[CUE_LANES];
    FILE *out;
    int k;
    open_sound(path);
    for (k = 0; k < n_jobs; k++) {
        check(&jobs[k], transcriber_begin(&jobs[k].h, &asked, &source, &jobs[k].err));
        all[k] = &jobs[k].h;
    }
    warn_of_model();
    interrupts_hold(1);
    out = open_output(path);
    cue_begin(out, n_jobs);
    if (only_parts) {
        transcript_write_parts(&jobs[0].h);
    } else {
        begin_waiting(out);
        if (!source.raw) survey(all);
        for (k = 1; k < n_jobs; k++)
            if (pthread_create(&jobs[k].thread, NULL, hear, &jobs[k]) != 0)
                fail("a thread cannot be started");
        hear(&jobs[0]);
        for (k = 1; k < n_jobs; k++) pthread_join(jobs[k].thread, NULL);
        end_waiting();
    }
    close_output(out);
    cue_output.file = NULL;
    free((void *)(uintptr_t)source.data), source.data = NULL;
    interrupts_hold(0);
    if (interrupts_stopped()) interrupts_end();
}

/* Writes the text of a sound while it comes. Ctrl-C and the end of the sound make the rest
   stable. */
static void transcribe_live(const char *path) {
    static stream in;
    static live l;
    static float samples[SOUND_CHUNK];
    static live_text text;
    FILE *from = strcmp(path, "-") == 0 ? stdin : utf8_open(path, "rb"), *out = open_output(path);
    const char *why;
    int32_t n = 0, more, all, quiet = 0;
    double then;
    live_options how;
    job *j = &jobs[0];
    live_defaults(&how);
    asked.decoding.is_stopped = NULL; /* what is left is heard after Ctrl-C, too */
    check(j, live_begin(&l, &j->h, &asked, &how, &j->err));
    warn_of_model();
    if (!from) fail("%s: cannot be opened", path);
    text.file = cue_output.file = out ? out : stdout, text.is_terminal = !out && isatty(1);
    interrupts_hold(1);
    if ((why = stream_open(&in, from)) != NULL) fail("%s", why);
    while (n >= 0 && !interrupts_stopped()) {
        then = progress_now(), all = 0;
        n = stream_take(&in, samples, SOUND_CHUNK, WAIT), then = progress_now() - then;
        for (more = n; more > 0; more = stream_take(&in, samples, SOUND_CHUNK, 0)) {
            check(j, live_feed(&l, samples, more, &j->err));
            if ((all += more) >= STREAM_ROOM) break; /* a pipe that is faster than speech */
        }
        if (more < 0) n = more;
        quiet = n ? 0 : quiet + WAIT, l.is_stalled = quiet >= STALL;
        if (quiet == LONG_STALL)
            fprintf(stderr, "transcribe: no sound has come for %d s; still waiting\n",
                    (int)LONG_STALL / 1000);
        if (n < 0 && in.why) fail("%s: %s", path, in.why);
        if (n < 0 && in.cut)
            fputs("transcribe: the sound ends within a sample, which is not heard\n", stderr);
        if (n < 0 || interrupts_stopped()) check(j, live_finish(&l, &j->err));
        else if (live_is_behind(&l, progress_now(), then, all)) continue;
        while (live_is_due(&l)) {
            check(j, live_hear(&l, &j->err));
            if (first_text == 0 && l.stable[0]) first_text = progress_now();
            live_text_write(&text, &l);
        }
    }
    if (!l.ended) check(j, live_finish(&l, &j->err));
    while (live_is_due(&l)) check(j, live_hear(&l, &j->err)), live_text_write(&text, &l);
    live_text_end(&text), live_free(&l);
    close_output(out);
    interrupts_hold(0);
    if (interrupts_stopped()) interrupts_end();
}

int main(int argc, char **argv) {
    tfm_weight_type type;
    int k;
    argv = utf8_arguments(&argc, argv);
    transcriber_defaults(&asked);
    began = progress_now();
    if (!read_options(argc, argv, &type)) return !output_finish("transcribe");
    asked.decoding.is_stopped = is_stopped;
    n_jobs = n_workers;
    if (sounds.n > 1 && !output_path)
        fail("%d sounds: say with --output in which folder their texts are written", sounds.n);
    load_model(type);
    for (k = 0; k < sounds.n; k++)
        if (is_live) transcribe_live(sounds.at[k]);
        else transcribe(sounds.at[k]);
    if (with_progress)
        fprintf(stderr, "\nloaded in %.3f s; first text %.3f s later; all in %.3f s\n",
                loaded - began, first_text > 0 ? first_text - loaded : 0, progress_now() - loaded);
    for (k = 0; k < n_jobs; k++) transcriber_free(&jobs[k].h);
    tfm_model_free(model), model = NULL;
    return 0;
}
