/* command.h: the options of transcribe. Needs a function fail(format, ...) before it. */
#ifndef COMMAND_H
#define COMMAND_H

#include "find_model.h"

static transcriber_options asked;
static const char *model_path, *output_path, *words_path, *task = "transcribe", *form = "text",
                                                          *weights = "stored";
static const char *temperatures;
static char model_file[4096]; /* where model_path was found */
static option_rest sounds;
static int with_times, with_progress, fast, only_parts, is_live;
static int32_t threads = 1, n_workers = 1;

static option_entry table[] = {
    {"Writes what is spoken in a sound file.\n\n"
     "  transcribe MODEL SOUND ... [options]\n\n"
     "MODEL is a Whisper, Moonshine, Canary or Cohere Transcribe model of tools/convert.py, a file "
     "or\n"
     "a name such as\n"
     "whisper-base: whisper-base.safetensors in a folder of $TRANSFORMER_MODELS, where\n"
     "`transformer-model get whisper-base` writes, or beside the program. SOUND is a WAV file, or "
     "- for\n"
     "standard input: a WAV file, or raw samples of 16 bits, mono, 16 kHz (arecord -f S16_LE\n"
     "-r 16000 | transcribe MODEL -). Each window of up to 30 s is written as soon as it has been\n"
     "heard. Ctrl-C keeps what was written; with --output it is in FILE.part, and FILE stays as "
     "it\n"
     "was.\n"
     "Other sound files and films are read through the program ffmpeg, if it is installed. The "
     "texts\n"
     "of several sounds need --output FOLDER, where NAME.txt, NAME.srt, NAME.vtt or NAME.json is\n"
     "written.\n",
     NULL, OPTION_TEXT, NULL, 0, 0, 0, NULL},
    {"model", NULL, OPTION_OPERAND, &model_path, 0, 0, 0, NULL},
    {"sounds", NULL, OPTION_REST, &sounds, 0, 0, 0, NULL},
    {"-o, --output", "FILE", OPTION_PATH, &output_path, 0, 0, 0,
     "writes there, not to standard output; a folder gets a file\nfor each sound"},
    {"--language", "CODE", OPTION_PATH, &asked.language, 0, 0, 0,
     "en, de ...; auto (default): the model detects it (Canary and\nCohere do not)"},
    {"--to", "CODE", OPTION_PATH, &asked.to, 0, 0, 0,
     "the language of the text (default: the one that is spoken):\nany that Canary knows; Whisper "
     "writes en alone"},
    {"--task", "TASK", OPTION_PATH, &task, 0, 0, 0,
     "transcribe (default), or translate: as --to en"},
    {"--format", "FORM", OPTION_PATH, &form, 0, 0, 0,
     "text (default), srt, vtt or json (a line for each segment)"},
    {"--timestamps", NULL, OPTION_FLAG, &with_times, 0, 0, 0,
     "text: each line begins with its times"},
    {"--words", NULL, OPTION_FLAG, &asked.with_words, 0, 0, 0,
     "the time of each word; as text, a line for each word"},
    {"--no-times", NULL, OPTION_FLAG, &asked.decoding.without_times, 0, 0, 0,
     "the model writes no times: one segment for each window"},
    {"--no-punctuation", NULL, OPTION_FLAG, &asked.no_punctuation, 0, 0, 0,
     "Canary, Cohere: a text of small letters without punctuation"},
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
    {"--words-file", "FILE", OPTION_PATH, &words_path, 0, 0, 0,
     "words and names, one a line, that the model is to prefer to\nothers that sound like them"},
    {"--vad", "P", OPTION_NUMBER, &asked.voice.threshold, 0, 1, 0,
     "parts that the model's voice detector finds are heard: its\nprobability that somebody speaks "
     "is larger (default 0.5; 0:\neverything is heard)"},
    {"--vad-silence", "MS", OPTION_NUMBER, &asked.voice.silence, 0, 1e6, 0,
     "a shorter pause does not end a part (default 2000)"},
    {"--vad-pad", "MS", OPTION_NUMBER, &asked.voice.pad, 0, 1e6, 0,
     "is heard before and behind each part (default 400)"},
    {"--vad-only", NULL, OPTION_FLAG, &only_parts, 0, 0, 0,
     "writes where somebody speaks, in seconds, and no text"},
    {"--live", NULL, OPTION_FLAG, &is_live, 0, 0, 0,
     "writes while somebody speaks: words as soon as they are\nstable, from a pipe with a WAV file "
     "or "
     "raw samples; as JSON\nalso words that may still change (greedy search)"},
    {"--silence", "DB", OPTION_NUMBER, &asked.silence, -120, 0, 0,
     "without voice detector: stretches of 3 s below this level\nare not heard, and texts that the "
     "model would write for\nsilence, too, are left out (default -60; 0: neither; --no-speech "
     "1:\nall "
     "texts are kept)"},
    {"--weights", "TYPE", OPTION_PATH, &weights, 0, 0, 0,
     "stored (default), f32, f16, bf16 or int8"},
    {"--fast", NULL, OPTION_FLAG, &fast, 0, 0, 0,
     "encoder attention in BF16 and a KV cache in F16, as int8\nmodel files always have it"},
    {"--threads", "N", OPTION_INTEGER, &threads, 1, 64, 0,
     "threads that share the work on a window (default 1)"},
    {"--workers", "N", OPTION_INTEGER, &n_workers, 1, CUE_LANES, 0,
     "parts of the file that are heard at once; needs\n--no-previous and a WAV file (default 1)"},
    {"--progress", NULL, OPTION_FLAG, &with_progress, 0, 0, 0,
     "progress on standard error, and at the end how long it took;\non a terminal progress is the "
     "default if the texts go elsewhere"},
    {"--version", NULL, OPTION_STOP, NULL, 0, 0, 0, "print the version number"},
    {"--help", NULL, OPTION_STOP, NULL, 0, 0, 0, "this text"}};

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

/* Refuses options that have no effect on live text. */
static void check_live(void) {
    const struct {
        const char *name;
        int is_given;
    } others[] = {{"--words", asked.with_words},
                  {"--timestamps", with_times},
                  {"--no-times", asked.decoding.without_times},
                  {"--vad-only", only_parts},
                  {"--workers", n_workers > 1},
                  {"--no-previous", asked.no_previous},
                  {"--format srt", cue_output.form == CUE_SRT},
                  {"--format vtt", cue_output.form == CUE_VTT}};
    size_t i;
    for (i = 0; i < sizeof others / sizeof *others; i++)
        if (others[i].is_given)
            fail("--live takes no %s: it writes text, or JSON lines with times", others[i].name);
    if (sounds.n > 1) fail("--live hears one sound, not %d", sounds.n);
}

/* Reads the list of --words-file, up to more than a list may have. It stays in memory until the
   program ends. */
static void read_words(void) {
    size_t size = 0, room = 1 << 16, got;
    char *text = NULL, *larger;
    FILE *f = utf8_open(words_path, "rb");
    if (!f) fail("%s: %s", words_path, strerror(errno));
    do {
        larger = (char *)realloc(text, room *= 2);
        if (!larger) fail("%s: no memory", words_path);
        text = larger;
        size += got = fread(text + size, 1, room - size, f);
    } while (got > 0 && size <= OWN_WORDS_LIST);
    if (ferror(f)) fail("%s: %s", words_path, strerror(errno));
    fclose(f);
    asked.own_words = tfm_text_make(text, size);
}

/* Replaces the name of the model by the path of its file. */
static void take_model(void) {
    char message[1200], *found = find_model(model_path);
    if (!found && find_is_name(model_path)) {
        find_message(model_path, message, sizeof message);
        fail("%s", message);
    }
    if (found) snprintf(model_file, sizeof model_file, "%s", found), model_path = model_file;
    free(found);
}

/* Reads the command line. Returns 0 if there is nothing more to do. */
static int read_options(int argc, char **argv, tfm_weight_type *type) {
    static const char *const tasks[] = {"transcribe", "translate", NULL};
    static const char *const forms[] = {"text", "srt", "vtt", "json", NULL};
    static const char *const types[] = {"stored", "f32", "f16", "bf16", "int8", NULL};
    const option_entry *stop = options_read(table, sizeof table / sizeof *table, argc, argv, fail);
    if (stop) {
        if (strcmp(stop->name, "--version") == 0) printf("transcribe %s\n", tfm_version());
        else options_print(table, sizeof table / sizeof *table, stdout);
        return 0;
    }
    if (!sounds.n) fail("give a model and a sound (--help shows how)");
    take_model();
    asked.decoding.is_translation = choose("--task", task, tasks) == 1;
    cue_output.form = (cue_form)choose("--format", form, forms);
    cue_output.with_times = with_times || asked.with_words;
    *type = (tfm_weight_type)choose("--weights", weights, types);
    read_temperatures(&asked.decoding);
    if (is_live) check_live();
    if (words_path) read_words();
    return 1;
}

#endif
