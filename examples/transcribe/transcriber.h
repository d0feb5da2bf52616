/* transcriber.h: from a sound to segments of text, window by window. To copy into your program,
   with the headers that it includes. Needs transformer.h before it.

       transcriber h;
       transcriber_options o;
       track_source sound = {"speech.wav", NULL, NULL, 0};
       transcriber_defaults(&o);
       status = transcriber_load(&h, model, file, 1, o.decoding.beam, 0, &err);  file: the model's
       if (status == TFM_OK) status = transcriber_begin(&h, &o, &sound, &err);
       while (status == TFM_OK && !h.ended) {
           status = transcriber_next(&h, &err);
           for (k = 0; status == TFM_OK && k < h.n; k++)
               if ((status = transcriber_spell(&h, k, &err)) == TFM_OK)
                   printf("%.2f %s\n", h.segments[k].begin, words_trim(h.w.text));
       }
       transcriber_free(&h);

   A transcriber serves one thread. It can hear one sound after the other. */
#ifndef TRANSCRIBER_H
#define TRANSCRIBER_H

#include "sound.h"
#include "speech.h"
#include "vad.h"
#include "voice.h"
#include "track.h"
#include "whisper.h"
#include "words.h"
#include "guard.h"
#include "moonshine.h"
#include "canary.h"

enum { TRANSCRIBER_SILENCE = 300 }; /* frames of 10 ms */
enum { TRANSCRIBER_LIVE = 0, TRANSCRIBER_DRAFT = 8 };

/* "transcribe --help" explains these options. */
typedef struct transcriber_options {
    /* Here compression 0, log_prob 0 and no_speech 1 mean no limit. */
    whisper_options decoding;
    const char *language; /* a code, or "auto" */
    const char *to;       /* the language of the text, as a code; NULL: the one that is spoken */
    const char *prompt;   /* text as if heard before the sound */
    tfm_text own_words;   /* lines (own_words.h); data NULL: none */
    voice_options voice;  /* for models that have a voice detector */
    double silence;       /* dB, for the others; 0: everything is heard, without guard.h */
    int with_words, no_previous;
    int no_punctuation; /* of Canary and Cohere */
} transcriber_options;

typedef struct transcriber {
    whisper w; /* w.text has what transcriber_spell has spelled */
    speech s;
    int is_int8; /* the weights are int8 */
    moonshine m; /* of Moonshine: then s has threads alone, and w the session and the text */
    canary c;    /* of Canary and Cohere: then s makes the spectrum, and w is as for Moonshine */
    vad net;
    track t;
    transcriber_options o;
    track_source source;
    int64_t from, to; /* frames of the sound, or of its parts with speech, that are heard */
    double duration;  /* seconds of the whole sound, of which transcriber_survey has read all */
    float *spoken;    /* [n_spoken]: probabilities of speech that transcriber_survey has found */
    int64_t n_spoken;
    float loudest; /* value of the whole sound; -INFINITY: each window has its own */
    int64_t seek;  /* the frame that is heard next */
    int ended;
    /* The last window: where it began, what was heard, its segments and words. */
    int64_t began;
    whisper_text heard;
    whisper_segment *segments; /* [n]; none is empty */
    int32_t n;
    words *found;
    int32_t made_up; /* segments that are left out because nobody said them */
    /* From window to window */
    int32_t history[2 * WHISPER_TOKENS], n_history;
    double last_end;
    float *mel, *embeddings; /* scratch */
    guard g;
} transcriber;

/* Fills in the defaults of transcribe. */
static void transcriber_defaults(transcriber_options *o) {
    static const double temperatures[] = {0, 0.2, 0.4, 0.6, 0.8, 1};
    memset(o, 0, sizeof *o);
    o->language = "auto", o->prompt = "", o->silence = -60;
    o->voice.threshold = 0.5, o->voice.silence = 2000, o->voice.pad = 400;
    o->decoding.beam = o->decoding.best_of = 5;
    o->decoding.compression = 2.4, o->decoding.log_prob = -1, o->decoding.no_speech = 0.6;
    memcpy(o->decoding.temperatures, temperatures, sizeof temperatures);
    o->decoding.n_temperatures = sizeof temperatures / sizeof *temperatures;
}

static tfm_status transcriber_fail(tfm_error *err, tfm_status status, const char *what,
                                   const char *why) {
    snprintf(err->text, sizeof err->text, "%s%s", what, why);
    return err->status = status;
}

static void transcriber_free(transcriber *h) {
    track_close(&h->t);
    speech_free(&h->s), vad_free(&h->net), guard_free(&h->g), moonshine_free(&h->m);
    canary_free(&h->c);
    tfm_session_free(h->w.session);
    own_words_free(&h->w.own);
    free(h->w.text), free(h->w.chains), free(h->spoken), free(h->mel), free(h->embeddings),
        free(h->segments), free(h->found);
    memset(h, 0, sizeof *h);
}

/* Returns whether the model is Whisper: it has windows of a fixed size, times and a history. */
static int transcriber_is_whisper(const transcriber *h) {
    return !h->m.kind && !canary_is_there(&h->c);
}

/* Returns how many frames are heard at once, at most. */
static int64_t transcriber_window(const transcriber *h) {
    return canary_is_there(&h->c) ? h->c.f.frames : (int)SPEECH_FRAMES;
}

/* Loads from the model file what hears. beam is the most hypotheses and samples of any sound, or
   TRANSCRIBER_LIVE: greedy search with attention and drafts, for live.h. The KV
   cache is F16 if the file's weights are int8, because a step then reads half as much and F16
   rounds much less than int8. fast makes it F16 always, and the encoder's attention BF16. On
   failure there is nothing to free. */
static tfm_status transcriber_load(transcriber *h, const tfm_model *model,
                                   const tfm_safetensors *file, int32_t threads, int32_t beam,
                                   int fast, tfm_error *err) {
    const tfm_config *c = tfm_model_config(model);
    int64_t i = tfm_safetensors_find(file, "decoder.layers.0.linear1.weight");
    tfm_session_options limits;
    tfm_status status;
    memset(h, 0, sizeof *h), memset(&limits, 0, sizeof limits);
    limits.max_source = SPEECH_POSITIONS, limits.max_target = WHISPER_TOKENS;
    limits.max_beam = beam, limits.threads = threads;
    if (beam == TRANSCRIBER_LIVE) limits.max_draft = TRANSCRIBER_DRAFT;
    if (beam == TRANSCRIBER_LIVE) limits.attention = moonshine_find(file) == MOONSHINE_NONE;
    if (fast) limits.encoder_attention = TFM_DTYPE_BF16;
    h->is_int8 = i >= 0 && tfm_safetensors_tensor(file, i).dtype == TFM_DTYPE_I8;
    if (fast || h->is_int8) limits.cache = TFM_DTYPE_F16;
    if (c->src_vocab_size)
        return transcriber_fail(err, TFM_E_CONFIG,
                                "a model of texts: use translate (this is not a "
                                "Whisper model from tools/convert.py)",
                                "");
    err->text[0] = 0;
    if (beam == TRANSCRIBER_LIVE &&
        (conformer_is_in(file) || moonshine_find(file) == MOONSHINE_WHOLE))
        return transcriber_fail(
            err, TFM_E_ARGUMENT,
            conformer_is_in(file) ? "the model is Canary or Cohere Transcribe"
                                  : "the model is Moonshine",
            ", which hears whole utterances: live text needs Moonshine streaming or Whisper");
    status = vad_load(&h->net, file, err);
    if (status == TFM_OK && conformer_is_in(file)) {
        status = canary_load(&h->c, &h->s, file, model, &limits, err);
        if (status == TFM_OK) status = whisper_load_text(&h->w, model, err);
    } else if (status == TFM_OK && moonshine_find(file) != MOONSHINE_NONE) {
        status = moonshine_load(&h->m, file, model, &limits, err);
        if (status == TFM_OK) status = whisper_load_text(&h->w, model, err);
    } else if (status == TFM_OK) {
        status = speech_load(&h->s, file, err);
        if (status == TFM_OK) status = whisper_load(&h->w, file, model, err);
    }
    if (status == TFM_OK && transcriber_is_whisper(h) &&
        (h->s.width != c->d_input || c->max_source_positions < SPEECH_POSITIONS ||
         c->max_target_positions < WHISPER_TOKENS))
        status =
            transcriber_fail(err, TFM_E_TENSOR, "the convolutions do not fit to the encoder", "");
    if (status == TFM_OK) status = tfm_session_create(&h->w.session, model, &limits, err);
    if (status == TFM_OK) {
        h->mel = (float *)malloc((size_t)(SPEECH_FRAMES * h->s.mels + 1) * sizeof(float));
        h->embeddings =
            (float *)malloc((size_t)(SPEECH_POSITIONS * h->s.width + 1) * sizeof(float));
        h->segments = (whisper_segment *)malloc(WHISPER_TOKENS * sizeof *h->segments);
        h->found = (words *)calloc(1, sizeof *h->found);
        if (!h->mel || !h->embeddings || !h->segments || !h->found)
            status = transcriber_fail(err, TFM_E_MEMORY, "no memory for a window", "");
    }
    if (status != TFM_OK) transcriber_free(h);
    return status;
}

/* Gives the history the tokens of a text that counts as heard before the sound. */
static tfm_status transcriber_prompt(transcriber *h, const char *prompt, tfm_error *err) {
    size_t length = strlen(prompt) + 2;
    char *text = (char *)malloc(length);
    tfm_status status = TFM_E_MEMORY;
    if (text) {
        snprintf(text, length, " %s", words_trim(prompt));
        status = tfm_model_tokenize_target(h->w.model, tfm_text_make(text, strlen(text)),
                                           TFM_TEXT_FORM_TEXT, h->history, WHISPER_TOKENS,
                                           &h->n_history, NULL, err);
    } else {
        transcriber_fail(err, status, "no memory for the prompt", "");
    }
    free(text);
    return status;
}

/* Opens the source again, without what its voice detector leaves out. */
static tfm_status transcriber_open(const transcriber *h, track *t, tfm_error *err) {
    char name[160];
    const whisper_options *w = &h->o.decoding;
    const char *why = track_open(t, &h->source, w->is_stopped, w->user);
    voice_begin(&t->parts, &h->net, &h->o.voice, NULL, 0);
    if (!why) return TFM_OK;
    track_close(t);
    snprintf(name, sizeof name, "%.150s%s", h->source.path ? h->source.path : "",
             h->source.path ? ": " : "");
    return transcriber_fail(err, TFM_E_IO, name, why);
}

/* Refuses options that Moonshine has nothing for, and some of them Canary and Cohere. */
static tfm_status transcriber_check_whole(const transcriber *h, int is_auto, tfm_error *err) {
    const transcriber_options *o = &h->o;
    int is_moonshine = h->m.kind != MOONSHINE_NONE;
    const char *option = is_moonshine && o->decoding.is_translation ? "task translate"
                         : is_moonshine && !is_auto                 ? "language"
                         : is_moonshine && o->to                    ? "to"
                         : is_moonshine && o->no_punctuation        ? "no_punctuation"
                         : *o->prompt                               ? "prompt"
                         : o->own_words.data                        ? "own words"
                         : o->with_words                            ? "words"
                         : o->decoding.without_times                ? "no_times"
                                                                    : NULL;
    if (!option) return TFM_OK;
    snprintf(err->text, sizeof err->text,
             "the model is %s, without prompt and times of words. Leave out '%s', or use a Whisper "
             "model",
             is_moonshine ? "Moonshine: it writes the text of its own language alone"
                          : "Canary or Cohere Transcribe: it writes a text",
             option);
    return err->status = TFM_E_ARGUMENT;
}

/* Takes the languages of Canary's prompt. The model cannot tell which one is spoken. */
static tfm_status transcriber_set_canary(transcriber *h, int is_auto, tfm_error *err) {
    const tfm_config *c = tfm_model_config(h->w.model);
    const char *from = h->o.language, *to = h->o.to;
    tfm_status status = transcriber_check_whole(h, is_auto, err);
    if (status != TFM_OK) return status;
    if (h->o.decoding.is_translation && to && strcmp(to, "en") != 0)
        return transcriber_fail(err, TFM_E_ARGUMENT,
                                "the task translate is into English, and not into ", to);
    if (h->o.decoding.is_translation) to = "en";
    if (is_auto && c->n_languages == 1) from = c->languages[0].code;
    else if (is_auto)
        return transcriber_fail(err, TFM_E_ARGUMENT,
                                "the model does not detect which language is spoken: name it with "
                                "the option 'language', such as ",
                                c->n_languages ? c->languages[0].code : "en");
    if (!to) to = from;
    if (strcmp(to, from) != 0 && !canary_has(&h->c, CANARY_TARGET))
        return transcriber_fail(err, TFM_E_ARGUMENT,
                                "the model writes the language that it hears, and no ", to);
    h->c.is_plain = h->o.no_punctuation;
    status = tfm_language_find(h->w.model, from, &h->c.source, err);
    if (status == TFM_OK) status = tfm_language_find(h->w.model, to, &h->c.target, err);
    h->w.language = h->c.source;
    return status;
}

/* Takes the options of the next sound, and forgets the last one. What their pointers point to has
   to remain. */
static tfm_status transcriber_set(transcriber *h, const transcriber_options *options,
                                  tfm_error *err) {
    const tfm_config *c = tfm_model_config(h->w.model);
    whisper_options *w = &h->w.options;
    int is_auto = strcmp(options->language, "auto") == 0;
    tfm_status status = TFM_OK;
    err->text[0] = 0;
    track_close(&h->t);
    free(h->spoken), h->spoken = NULL, h->n_spoken = 0;
    h->o = *options, *w = options->decoding;
    if (!(w->compression > 0)) w->compression = INFINITY;
    if (!(w->log_prob < 0)) w->log_prob = -INFINITY;
    if (!(w->no_speech < 1)) w->no_speech = INFINITY;
    h->from = h->seek = h->began = 0, h->to = INT64_MAX / SPEECH_HOP / 2;
    h->loudest = -INFINITY, h->last_end = h->duration = 0;
    h->n = h->n_history = h->w.language = 0, h->ended = 1;
    if (h->m.kind) return transcriber_check_whole(h, is_auto, err);
    if (canary_is_there(&h->c)) return transcriber_set_canary(h, is_auto, err);
    if (options->no_punctuation)
        return transcriber_fail(err, TFM_E_ARGUMENT,
                                "the model is Whisper, which decides by itself about punctuation",
                                "");
    if (options->to && strcmp(options->to, "en") == 0 && strcmp(options->language, "en") != 0)
        w->is_translation = 1;
    else if (options->to && strcmp(options->to, options->language) != 0)
        return transcriber_fail(err, TFM_E_ARGUMENT,
                                "the model is Whisper, which writes the language that it hears, or "
                                "English, and no ",
                                options->to);
    if (c->n_languages && !is_auto)
        status = tfm_language_find(h->w.model, options->language, &h->w.language, err);
    if (!c->n_languages && (w->is_translation || !(is_auto || !strcmp(options->language, "en"))))
        status = transcriber_fail(err, TFM_E_ARGUMENT, "the model hears English alone", "");
    if (status == TFM_OK)
        status = own_words_set(&h->w.own, h->w.model, h->w.end, options->own_words, err);
    if (status == TFM_OK && *options->prompt) status = transcriber_prompt(h, options->prompt, err);
    return status;
}

/* Begins to hear a sound. Its texts stay with the caller until the last window. */
static tfm_status transcriber_begin(transcriber *h, const transcriber_options *options,
                                    const track_source *source, tfm_error *err) {
    tfm_status status = transcriber_set(h, options, err);
    h->source = *source;
    if (status == TFM_OK) status = transcriber_open(h, &h->t, err);
    h->ended = status != TFM_OK;
    return status;
}

/* Returns the code of the language that is heard, or NULL for a model without languages. */
static const char *transcriber_language(const transcriber *h) {
    const tfm_config *c = tfm_model_config(h->w.model);
    int32_t k;
    for (k = 0; k < c->n_languages; k++)
        if (c->languages[k].id == h->w.language) return c->languages[k].code;
    return NULL;
}

/* Spells segment k into h->w.text. */
static tfm_status transcriber_spell(transcriber *h, int32_t k, tfm_error *err) {
    const whisper_segment *s = &h->segments[k];
    return whisper_spell(&h->w, h->heard.ids + s->first, s->n, err);
}

/* Encodes the window of size frames at h->seek. */
static tfm_status transcriber_encode(transcriber *h, int64_t size, tfm_error *err) {
    float loudest = h->loudest;
    tfm_tensor input =
        tfm_tensor_2d(h->embeddings, TFM_DTYPE_F32, SPEECH_POSITIONS, (int64_t)h->s.width);
    tfm_request request = tfm_request_ids(NULL, 0);
    tfm_status status =
        speech_mel(&h->s, h->t.x + h->seek * SPEECH_HOP - h->t.first, size, h->mel, &loudest, err);
    if (status == TFM_OK)
        status = speech_convolve(&h->s, h->mel, size, SPEECH_FRAMES, loudest, h->embeddings, err);
    request.embeddings = &input;
    return status == TFM_OK ? tfm_session_encode(h->w.session, &request, 1, err) : status;
}

#include "place.h"

#include "window.h"

/* Hears the next window: h->n segments, which may be 0. At the end of the sound, or if is_stopped
   says so, there are none and h->ended becomes 1. */
static tfm_status transcriber_next(transcriber *h, tfm_error *err) {
    double floor = pow(10, h->o.silence / 10);
    int64_t size, i;
    tfm_status status;
    err->text[0] = 0, h->n = 0;
    while (!h->ended && h->seek < h->to && !whisper_is_stopped(&h->w) &&
           (size = track_frames(&h->t, h->seek, transcriber_window(h))) != 0) {
        if (size < 0) return transcriber_fail(err, TFM_E_IO, h->t.fault, "");
        if (size > h->to - h->seek) size = h->to - h->seek;
        for (i = 0; h->o.silence < 0 && !h->t.parts.net && i < size &&
                    track_power(&h->t, h->seek + i) < floor;)
            i++;
        if (i >= TRANSCRIBER_SILENCE) { /* to shortly before something is heard */
            h->seek += i < size ? i - 20 : size;
            continue;
        }
        h->began = h->seek, status = TFM_OK;
        if (!transcriber_is_whisper(h)) return transcriber_utter(h, size, err);
        if (!h->g.silence && transcriber_is_guarded(h))
            status = guard_learn(&h->g, &h->w, &h->s, h->mel, h->embeddings, err);
        if (status == TFM_OK) status = transcriber_encode(h, size, err);
        if (status == TFM_OK)
            status = whisper_hear(&h->w, NULL, h->history, h->n_history, &h->heard, err);
        if (status != TFM_OK || whisper_is_stopped(&h->w)) {
            h->ended = 1;
            return status;
        }
        if (!whisper_is_silent(&h->w, &h->heard)) return transcriber_cut(h, size, err);
        h->seek += size;
        return TFM_OK;
    }
    h->ended = 1;
    return TFM_OK;
}

#include "survey.h"
#endif
