/* canary.h: what Canary and Cohere Transcribe have in the place of Whisper's spectrum, prompt and
   times. Needs transformer.h, speech.h, track.h and whisper.h before it, and the model file of
   tools/convert.py.

   The decoder begins behind a prompt that names the language of the sound, that of the text, and
   whether the text has punctuation. The model file has the prompt as ids, with a word where a
   choice stands: "7,4,16,source,target,punctuation,9,13,15". A file whose prompt has no "target"
   writes the language that it hears.

   The models hear up to 35 s at once (the file says how many). A longer sound is cut at the
   quietest tenth of a second of the last 5 s of that, as transformers does it for Cohere. They
   write no times, so a piece is one segment. */
#ifndef CANARY_H
#define CANARY_H

#include <stdlib.h>
#include <string.h>

#include "fast_conformer.h"

enum { CANARY_PROMPT = 32 };
enum { CANARY_QUIET = 10 }; /* frames */
enum { CANARY_DELTA = 50 }; /* a text has at most so many tokens more than the memory has rows */
enum { CANARY_SOURCE = -1, CANARY_TARGET = -2, CANARY_PUNCTUATION = -3 };

typedef struct canary {
    conformer f;
    int32_t prompt[CANARY_PROMPT], n_prompt; /* ids, or the choices above */
    int32_t with_punctuation, without;       /* ids */
    int32_t search;                          /* frames at the end in which a sound is cut */
    int32_t source, target, is_plain;        /* of the present sound: ids; no punctuation */
} canary;

static int canary_is_there(const canary *c) { return c->f.layers != NULL; }

static void canary_free(canary *c) {
    conformer_free(&c->f);
    memset(c, 0, sizeof *c);
}

static tfm_status canary_load_prompt(canary *c, const tfm_safetensors *file, int32_t V,
                                     tfm_error *err) {
    static const char *const choices[] = {"source", "target", "punctuation"};
    static const char key[] = "extra.conformer.prompt";
    const char *at = tfm_safetensors_metadata(file, key);
    double one = 0;
    tfm_status status;
    if (!at)
        return conformer_fail(err, TFM_E_CONFIG, "metadata 'extra.conformer.prompt'",
                              "is missing: convert the model again, with its tokenizer");
    for (; *at && c->n_prompt < CANARY_PROMPT; at += *at == ',') {
        size_t size = strcspn(at, ",");
        char *next;
        long id = strtol(at, &next, 10);
        int k;
        for (k = 0; k < 3; k++)
            if (size == strlen(choices[k]) && strncmp(at, choices[k], size) == 0) break;
        if (k == 3 && (next != at + size || next == at || id < 0 || id >= V)) break;
        c->prompt[c->n_prompt++] = k < 3 ? -1 - k : (int32_t)id;
        at += size;
    }
    if (*at || !c->n_prompt)
        return conformer_fail(err, TFM_E_CONFIG, "metadata 'extra.conformer.prompt'",
                              "is no list of ids, source, target and punctuation");
    status = conformer_number(file, "extra.conformer.punctuation", 0, V - 1, &one, err);
    c->with_punctuation = (int32_t)one;
    if (status == TFM_OK)
        status = conformer_number(file, "extra.conformer.no_punctuation", 0, V - 1, &one, err);
    c->without = (int32_t)one;
    if (status == TFM_OK)
        status = conformer_number(file, "extra.conformer.search", 0, CONFORMER_SECONDS, &one, err);
    c->search = (int32_t)(one * 100);
    return status;
}

/* Loads what is beside the decoder of a model file, and fits the limits of its session. On failure
   there is nothing to free. */
static tfm_status canary_load(canary *c, speech *s, const tfm_safetensors *file,
                              const tfm_model *model, tfm_session_options *limits, tfm_error *err) {
    const tfm_config *config = tfm_model_config(model);
    int32_t width = config->d_memory ? config->d_memory : config->d_model;
    tfm_status status;
    memset(c, 0, sizeof *c);
    status = conformer_load(&c->f, s, file, err);
    if (status != TFM_OK) return status;
    limits->max_source = (int32_t)conformer_size(&c->f, c->f.frames, c->f.n_maps) + 1;
    if (config->max_target_positions && config->max_target_positions < limits->max_target)
        limits->max_target = config->max_target_positions;
    status = canary_load_prompt(c, file, config->tgt_vocab_size, err);
    if (status == TFM_OK && c->f.width != width)
        status = conformer_fail(err, TFM_E_TENSOR,
                                "extra.conformer:", "the decoder reads rows of another width");
    if (status == TFM_OK && limits->max_target <= c->n_prompt)
        status = conformer_fail(err, TFM_E_CONFIG, "metadata 'extra.conformer.prompt'",
                                "is longer than a text of the decoder");
    if (status != TFM_OK) canary_free(c);
    return status;
}

/* Returns whether the prompt has a place for a choice. */
static int canary_has(const canary *c, int32_t choice) {
    int32_t k;
    for (k = 0; k < c->n_prompt; k++)
        if (c->prompt[k] == choice) return 1;
    return 0;
}

/* Returns how many frames from frame seek on are heard at once, of the size frames that the track
   has read. is_more: the sound goes on behind them. */
static int64_t canary_cut(const canary *c, const track *t, int64_t seek, int64_t size,
                          int is_more) {
    int64_t first = size - c->search, i, k, best;
    double quietest = INFINITY;
    if (!is_more) return size;
    if (first < 0) first = 0;
    best = c->search <= CANARY_QUIET ? (first + size) / 2 : first;
    for (i = first; i + CANARY_QUIET < size; i += CANARY_QUIET) {
        double power = 0;
        for (k = 0; k < CANARY_QUIET; k++) power += track_power(t, seek + i + k);
        if (power < quietest) quietest = power, best = i;
    }
    return best > 0 ? best : size;
}

/* Hears n samples. */
static tfm_status canary_hear(canary *c, speech *s, whisper *w, const float *samples, int64_t n,
                              whisper_text *heard, tfm_error *err) {
    int32_t prompt[CANARY_PROMPT], most = tfm_model_config(w->model)->max_target_positions, k;
    tfm_request request;
    tfm_tensor memory;
    tfm_status status = conformer_encode(&c->f, s, samples, n, &memory, err);
    memset(&request, 0, sizeof request), memset(heard, 0, sizeof *heard);
    heard->no_speech = -1;
    if (status != TFM_OK || memory.dims[0] < 1) return status;
    for (k = 0; k < c->n_prompt; k++)
        prompt[k] = c->prompt[k] == CANARY_SOURCE   ? c->source
                    : c->prompt[k] == CANARY_TARGET ? c->target
                    : c->prompt[k] >= 0             ? c->prompt[k]
                    : c->is_plain                   ? c->without
                                                    : c->with_punctuation;
    if (!most || most > WHISPER_TOKENS) most = WHISPER_TOKENS;
    most -= c->n_prompt;
    if (most > memory.dims[0] + CANARY_DELTA) most = (int32_t)memory.dims[0] + CANARY_DELTA;
    request.memory = &memory, request.prompt = tfm_ids_make(prompt, c->n_prompt);
    return whisper_write(w, &request, most, heard, err);
}

#endif
