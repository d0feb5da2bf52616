/* transcribe: from speech to text, subtitles or JSON, with a Whisper model of tools/convert.py.
   --help lists the options; README.md beside this file shows how to get a model. */
#if !defined(_POSIX_C_SOURCE) && (defined(__unix__) || defined(__APPLE__))
#define _POSIX_C_SOURCE 200809L
#endif
#ifndef TFM__IMPLEMENTED
#define TRANSFORMER_IMPLEMENTATION
#endif
#include "transformer.h"
#include <ctype.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <time.h>
#include "../../tools/common/options.h"
#include "../translate/interrupts.h"

static void fail(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    fputs("transcribe: ", stderr), vfprintf(stderr, format, arguments), fputc('\n', stderr);
    va_end(arguments);
    exit(1);
}
#define track_fail(text) fail("%s", text)
#define cue_fail(text) fail("%s", text)

#include "sound.h"
#include "speech.h"
#include "track.h"
#include "whisper.h"
#include "words.h"
#include "cues.h"

/* Returns seconds since some moment. */
static double seconds(void) {
    struct timespec t = {0, 0};
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

enum { QUIET_STEP = 10, LEAST_SILENCE = 300 }; /* frames of 10 ms */

static const char *model_path, *sound_path, *language = "auto", *task = "transcribe",
                                            *form = "text";
static const char *weights = "stored", *initial = "", *temperatures = "0,0.2,0.4,0.6,0.8,1";
static int with_words, with_times, without_times, no_previous, progress, fast;
static int32_t beam = 5, best_of = 5, threads = 1, n_workers = 1;
static double compression = 2.4, log_prob = -1, no_speech = 0.6, silence = -60;
static double began, loaded, first_text; /* seconds; first_text 0: there is none yet */

static option table[] = {
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
    {"--language", "CODE", OPTION_PATH, &language, 0, 0, 0,
     "en, de ...; auto (default): the model detects it"},
    {"--task", "TASK", OPTION_PATH, &task, 0, 0, 0,
     "transcribe (default), or translate: into English"},
    {"--format", "FORM", OPTION_PATH, &form, 0, 0, 0,
     "text (default), srt, vtt or json (a line for each segment)"},
    {"--timestamps", NULL, OPTION_FLAG, &with_times, 0, 0, 0,
     "text: each line begins with its times"},
    {"--words", NULL, OPTION_FLAG, &with_words, 0, 0, 0, "the time of each word"},
    {"--no-times", NULL, OPTION_FLAG, &without_times, 0, 0, 0,
     "the model writes no times: one segment for each window"},
    {"--beam", "N", OPTION_INTEGER, &beam, 1, 64, 0,
     "hypotheses of the search at temperature 0 (default 5; 1: greedy)"},
    {"--temperature", "LIST", OPTION_PATH, &temperatures, 0, 0, 0,
     "attempts until one passes the next two limits\n(default 0,0.2,0.4,0.6,0.8,1)"},
    {"--compression", "R", OPTION_NUMBER, &compression, 0, 1e9, 0,
     "a more repetitive text fails (default 2.4; 0: no limit)"},
    {"--log-prob", "P", OPTION_NUMBER, &log_prob, -1e9, 0, 0,
     "a text with a lower mean log-probability fails\n(default -1; 0: no limit)"},
    {"--no-speech", "P", OPTION_NUMBER, &no_speech, 0, 1, 0,
     "a failed window is skipped if the model's probability\nthat nobody speaks is larger (default "
     "0.6; 1: never)"},
    {"--best-of", "N", OPTION_INTEGER, &best_of, 1, 64, 0,
     "samples at temperatures above 0 (default 5)"},
    {"--no-previous", NULL, OPTION_FLAG, &no_previous, 0, 0, 0,
     "windows do not see the text of the window before"},
    {"--prompt", "TEXT", OPTION_PATH, &initial, 0, 0, 0,
     "text as if heard before the sound: names, style"},
    {"--silence", "DB", OPTION_NUMBER, &silence, -120, 0, 0,
     "stretches of 3 s below this level are not heard\n(default -60; 0: everything is heard)"},
    {"--weights", "TYPE", OPTION_PATH, &weights, 0, 0, 0,
     "stored (default), f32, f16, bf16 or int8"},
    {"--fast", NULL, OPTION_FLAG, &fast, 0, 0, 0,
     "encoder attention in BF16 and a KV cache in F16"},
    {"--threads", "N", OPTION_INTEGER, &threads, 1, 64, 0,
     "threads that share the work on a window (default 1)"},
    {"--workers", "N", OPTION_INTEGER, &n_workers, 1, CUE_LANES, 0,
     "parts of the file that are heard at once; needs\n--no-previous and a WAV file (default 1)"},
    {"--progress", NULL, OPTION_FLAG, &progress, 0, 0, 0,
     "seconds heard so far, and at the end how long it took,\non standard error"},
    {"--help", NULL, OPTION_STOP, NULL, 0, 0, 0, "this text"}};

/* A part of the sound, with a session of its own. */
typedef struct job {
    int64_t from, to; /* frames */
    int number;
    whisper w;
    speech s;
    float loudest; /* of the whole file; -INFINITY: each window has its own */
    tfm_error err;
    pthread_t thread;
} job;

static job jobs[CUE_LANES];
static int n_jobs = 1;

static void write_segment(job *j, const whisper_segment *s, const whisper_text *heard,
                          const words *found, int64_t seek, cue_line *out) {
    const char *text = words_trim(j->w.text);
    const tfm_config *c = tfm_model_config(j->w.model);
    int32_t k;
    if (with_words && (cue_output.form == CUE_TEXT || cue_output.form == CUE_SRT)) {
        for (k = s->first_word; k < s->first_word + s->n_words; k++)
            if (found->at[k].text[0])
                cue_add(j->number, found->at[k].begin, found->at[k].end,
                        words_trim(found->at[k].text));
        return;
    }
    out->n = 0, out->at[0] = 0;
    if (cue_output.form == CUE_VTT && with_words) {
        for (k = s->first_word; k < s->first_word + s->n_words; k++) {
            int64_t ms = (int64_t)(found->at[k].begin * 1000 + 0.5);
            if (found->at[k].text[0])
                cue_append(out, "<%02d:%02d:%02d.%03d><c>%s</c>", (int)(ms / 3600000),
                           (int)(ms / 60000 % 60), (int)(ms / 1000 % 60), (int)(ms % 1000),
                           found->at[k].text);
        }
        text = out->at;
    }
    if (cue_output.form == CUE_JSON) {
        cue_append(out, "{\"start\": %.2f, \"end\": %.2f, \"text\": ", s->begin, s->end);
        cue_append_json(out, text);
        for (k = 0; k < c->n_languages; k++)
            if (c->languages[k].id == j->w.language)
                cue_append(out, ", \"language\": \"%s\"", c->languages[k].code);
        cue_append(out,
                   ", \"seek\": %d, \"temperature\": %.4g, \"avg_logprob\": %.5f, "
                   "\"compression_ratio\": %.3f",
                   (int)seek, heard->temperature, heard->log_prob, heard->compression);
        if (heard->no_speech >= 0) cue_append(out, ", \"no_speech_prob\": %.5f", heard->no_speech);
        cue_append(out, ", \"tokens\": [");
        for (k = 0; k < s->n; k++)
            cue_append(out, k ? ", %d" : "%d", (int)heard->ids[s->first + k]);
        cue_append(out, "]");
        if (with_words) cue_append(out, ", \"words\": [");
        for (k = 0; with_words && k < s->n_words; k++) {
            const word *one = &found->at[s->first_word + k];
            if (!one->text[0]) continue;
            cue_append(out, "%s{\"word\": ", out->at[out->n - 1] == '[' ? "" : ", ");
            cue_append_json(out, one->text);
            cue_append(out, ", \"start\": %.2f, \"end\": %.2f, \"probability\": %.4f}", one->begin,
                       one->end, one->prob);
        }
        cue_append(out, with_words ? "]}" : "}");
        text = out->at;
    }
    cue_add(j->number, s->begin, s->end, text);
}

/* ---- windows ---- */

static void open_sound(track *t) {
    const char *why = track_open(t, sound_path);
    if (why) fail("%s: %s", sound_path, why);
}

static void check(job *j, tfm_status status) {
    if (status != TFM_OK) fail("%s", j->err.text[0] ? j->err.text : tfm_status_text(status));
}

/* Hears the job's part of the sound. */
static void *hear(void *context) {
    job *j = (job *)context;
    whisper *w = &j->w;
    track t;
    int64_t seek = j->from, D = j->s.width, M = j->s.mels, i, size;
    int32_t history[2 * WHISPER_TOKENS], n_history = 0, k, n, m;
    double last_end = 0, usual, floor = pow(10, silence / 10);
    float *mel = (float *)malloc((size_t)(SPEECH_FRAMES * M) * sizeof(float));
    float *embeddings = (float *)malloc((size_t)(SPEECH_POSITIONS * D) * sizeof(float));
    whisper_segment *segments = (whisper_segment *)malloc(WHISPER_TOKENS * sizeof *segments);
    words *found = (words *)calloc(1, sizeof *found);
    cue_line *out = (cue_line *)malloc(sizeof *out);
    if (!mel || !embeddings || !segments || !found || !out) fail("no memory");
    open_sound(&t);
    if (*initial) {
        size_t length = strlen(initial) + 2;
        char *text = (char *)malloc(length), *scratch = (char *)malloc(64 * length + 1024);
        tfm_arena arena = tfm_arena_make(scratch, 64 * length + 1024);
        if (!text || !scratch) fail("no memory");
        snprintf(text, length, " %s", words_trim(initial));
        check(j, tfm_tokenize_target(w->model, text, strlen(text), TFM_FORM_TEXT, history,
                                     WHISPER_TOKENS, &n_history, &arena, &j->err));
        free(text), free(scratch);
    }
    while (seek < j->to && !stopped() && (size = track_frames(&t, seek, SPEECH_FRAMES)) > 0) {
        whisper_text heard;
        int64_t moved;
        int ends;
        float loudest = j->loudest;
        tfm_tensor input = tfm_tensor_3d(embeddings, TFM_F32, 1, SPEECH_POSITIONS, D);
        tfm_batch src = {NULL, NULL, 1, SPEECH_POSITIONS, NULL, NULL};
        if (size > j->to - seek) size = j->to - seek;
        for (i = 0; silence < 0 && i < size && track_power(&t, seek + i) < floor;) i++;
        if (i >= LEAST_SILENCE) { /* to shortly before something is heard */
            seek += i < size ? i - 20 : size;
            continue;
        }
        check(j,
              speech_mel(&j->s, t.x + seek * SPEECH_HOP - t.first, size, mel, &loudest, &j->err));
        speech_scale(mel, size * M, loudest);
        memset(mel + size * M, 0, (size_t)((SPEECH_FRAMES - size) * M) * sizeof *mel);
        check(j, speech_convolve(&j->s, mel, embeddings, &j->err));
        src.embeddings = &input;
        check(j, tfm_encode(w->session, &src, &j->err));
        check(j, whisper_hear(w, NULL, history, n_history, &heard, &j->err));
        if (stopped()) break;
        if (j->number == 0 && first_text == 0) first_text = seconds();
        if (whisper_is_silent(w, &heard)) {
            seek += size;
            continue;
        }
        moved = whisper_cut(w, &heard, seek, size, segments, &n, &ends);
        found->n = 0;
        if (with_words) {
            int32_t plain[WHISPER_TOKENS];
            for (k = m = 0; k < segments[n - 1].first + segments[n - 1].n; k++)
                if (heard.ids[k] < w->end) plain[m++] = heard.ids[k];
            check(j, words_find(w, NULL, plain, m, (int32_t)(size / 2), found, &usual, &j->err));
            last_end = words_place(found, segments, n, w, &heard, seek, usual, last_end);
            if (!ends && found->n && last_end > (double)seek * 0.01)
                moved = (int64_t)(last_end * 100 + 0.5) - seek;
        }
        for (k = 0; k < n; k++) {
            whisper_segment *s = &segments[k];
            check(j, whisper_spell(w, heard.ids + s->first, s->n, &j->err));
            if (s->begin == s->end || !*words_trim(w->text)) continue;
            write_segment(j, s, &heard, found, seek, out);
            for (i = s->first; i < s->first + s->n; i++) history[n_history++] = heard.ids[i];
            if (n_history >= WHISPER_TOKENS) {
                memmove(history, history + n_history - WHISPER_TOKENS / 2,
                        WHISPER_TOKENS / 2 * sizeof *history);
                n_history = WHISPER_TOKENS / 2;
            }
        }
        if (no_previous || heard.temperature > 0.5) n_history = 0;
        seek += moved > 0 ? moved : size;
        if (progress) fprintf(stderr, "\r%.1f s ", (double)seek * 0.01);
    }
    cue_add(j->number, 0, 0, NULL);
    track_close(&t);
    free(mel), free(embeddings), free(segments), free(found), free(out);
    return NULL;
}

/* ---- the whole file ---- */

/* Finds the loudest value of the file, and where quiet places divide it into n parts. */
static void survey(job *j, int n) {
    int64_t M = j->s.mels, at = 0, total, size, i, k, n_powers = 0, capacity = 0;
    float *mel = (float *)malloc((size_t)(SPEECH_FRAMES * M) * sizeof(float)), *powers = NULL;
    track t;
    if (!mel) fail("no memory");
    open_sound(&t);
    while ((size = track_frames(&t, at, SPEECH_FRAMES)) > 0 || at == 0) {
        if (size < SPEECH_FRAMES) size++; /* of the silence after the end */
        check(j,
              speech_mel(&j->s, t.x + at * SPEECH_HOP - t.first, size, mel, &j->loudest, &j->err));
        for (i = 0; n > 1 && i < size - QUIET_STEP; i += QUIET_STEP) {
            double sum = 0;
            for (k = 0; k < QUIET_STEP; k++) sum += track_power(&t, at + i + k);
            if (n_powers == capacity) {
                capacity = 2 * capacity + 1024;
                powers = (float *)realloc(powers, (size_t)capacity * sizeof *powers);
                if (!powers) fail("no memory");
            }
            powers[n_powers++] = (float)sum;
        }
        at += size;
        if (size < SPEECH_FRAMES || stopped()) break;
    }
    total = t.total >= 0 ? t.total / SPEECH_HOP : at;
    for (k = 0; k < n; k++) { /* the quietest tenth of a second, at most 15 s from an equal share */
        int64_t middle = n_powers * k / n, best = middle;
        for (i = middle - 150; k > 0 && i <= middle + 150; i++)
            if (i > 0 && i < n_powers && powers[i] < powers[best]) best = i;
        jobs[k].from = k ? best * QUIET_STEP : 0, jobs[k].to = total;
        if (k && jobs[k].from < jobs[k - 1].from) jobs[k].from = jobs[k - 1].from;
        if (k) jobs[k - 1].to = jobs[k].from;
    }
    free(mel), free(powers);
    track_close(&t);
}

static void read_temperatures(whisper_options *o) {
    const char *text = temperatures;
    char *end;
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
    int i;
    for (i = 0; values[i]; i++)
        if (strcmp(value, values[i]) == 0) return i;
    fail("%s: '%s' is unknown (--help has the values)", name, value);
    return 0;
}

int main(int argc, char **argv) {
    static const char *const tasks[] = {"transcribe", "translate", NULL};
    static const char *const forms[] = {"text", "srt", "vtt", "json", NULL};
    static const char *const types[] = {"stored", "f32", "f16", "bf16", "int8", NULL};
    tfm_model_options how;
    tfm_session_options limits;
    whisper_options options;
    tfm_error err;
    tfm_model *model = NULL;
    tfm_safetensors *file = NULL;
    const tfm_config *c;
    int32_t id = 0;
    int k;
    memset(&how, 0, sizeof how), memset(&limits, 0, sizeof limits),
        memset(&options, 0, sizeof options);
    began = seconds();
    if (options_read(table, sizeof table / sizeof *table, argc, argv, fail)) {
        options_print(table, sizeof table / sizeof *table, stdout);
        return 0;
    }
    if (!sound_path) fail("give a model and a sound (--help shows how)");
    options.is_translation = choose("--task", task, tasks) == 1;
    cue_output.form = (cue_form)choose("--format", form, forms);
    cue_output.with_times = with_times;
    how.weights = (tfm_weight_type)choose("--weights", weights, types);
    read_temperatures(&options);
    options.beam = beam, options.best_of = best_of, options.without_times = without_times;
    options.compression = compression > 0 ? compression : INFINITY;
    options.log_prob = log_prob < 0 ? log_prob : -INFINITY;
    options.no_speech = no_speech < 1 ? no_speech : INFINITY;
    options.is_stopped = stopped;
    if (n_workers > 1 && (!no_previous || strcmp(sound_path, "-") == 0))
        fail("--workers needs --no-previous and a file: a window then does not wait for the one "
             "before");
    n_jobs = cue_output.n_lanes = n_workers;

    if (tfm_safetensors_open_file(&file, model_path, NULL, &err) != TFM_OK) fail("%s", err.text);
    if (tfm_model_load_file(&model, model_path, &how, &err) != TFM_OK) fail("%s", err.text);
    c = tfm_model_config(model);
    if (strcmp(language, "auto") != 0 && c->n_languages &&
        tfm_language_find(model, language, &id, &err) != TFM_OK)
        fail("--language: %s", err.text);
    if (!c->n_languages &&
        ((strcmp(language, "auto") && strcmp(language, "en")) || options.is_translation))
        fail("%s hears English alone", model_path);
    limits.max_source = SPEECH_POSITIONS, limits.max_target = WHISPER_TOKENS,
    limits.threads = threads;
    limits.max_beam = beam > best_of ? beam : best_of;
    if (fast) limits.encoder_attention = TFM_BF16, limits.cache = TFM_F16;
    for (k = 0; k < n_jobs; k++) {
        job *j = &jobs[k];
        j->number = k, j->to = INT64_MAX / SPEECH_HOP / 2, j->loudest = -INFINITY;
        j->w.options = options, j->w.language = id;
        if (speech_load(&j->s, file, &j->err) != TFM_OK ||
            whisper_load(&j->w, file, model, &j->err) != TFM_OK ||
            tfm_session_create(&j->w.session, model, &limits, &j->err) != TFM_OK)
            fail("%s: %s", model_path, j->err.text);
        if (j->s.width != c->d_input || c->max_source_positions < SPEECH_POSITIONS ||
            c->max_target_positions < WHISPER_TOKENS)
            fail("%s: the convolutions do not fit to the encoder: it has %d columns and %d "
                 "positions",
                 model_path, (int)c->d_input, (int)c->max_source_positions);
    }
    tfm_safetensors_free(file);
    loaded = seconds();
    hold_interrupts(1);
    if (cue_output.form == CUE_VTT) fputs("WEBVTT\n\n", stdout);
    if (strcmp(sound_path, "-") != 0) survey(&jobs[0], n_jobs);
    for (k = 1; k < n_jobs; k++) {
        jobs[k].loudest = jobs[0].loudest;
        if (pthread_create(&jobs[k].thread, NULL, hear, &jobs[k]) != 0)
            fail("a thread cannot be started");
    }
    hear(&jobs[0]);
    for (k = 1; k < n_jobs; k++) pthread_join(jobs[k].thread, NULL);
    if (progress)
        fprintf(stderr, "\nloaded in %.3f s; first text %.3f s later; all in %.3f s\n",
                loaded - began, first_text > 0 ? first_text - loaded : 0, seconds() - loaded);
    for (k = 0; k < n_jobs; k++) {
        tfm_session_free(jobs[k].w.session), speech_free(&jobs[k].s), free(jobs[k].w.text);
    }
    tfm_model_free(model);
    hold_interrupts(0);
    if (stopped()) end_by_signal();
    return 0;
}
