/* whisper.h: Whisper's decoding rules: prompt, times, forbidden tokens, fallback to temperatures,
   language and silence. Needs transformer.h before it, and the model file of tools/convert.py.

   The window is encoded once, by tfm_session_encode. Each attempt reads the session's last source,
   or another encoder's output [1500, D] if memory is not NULL. The functions give the texts that
   faster-whisper gives (make test-whisper). */
#ifndef WHISPER_H
#define WHISPER_H

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "compression.h"

enum { WHISPER_TOKENS = 448, WHISPER_BEGIN = 8, WHISPER_TEMPERATURES = 12 };
enum { WHISPER_TEXT = COMPRESSION_TEXT };

/* Returns the largest of n numbers. Eight maxima at once need no wait for each other. */
static float whisper_largest(const float *y, int32_t n) {
    float top[8];
    int32_t i, k;
    for (k = 0; k < 8; k++) top[k] = -INFINITY;
    for (i = 0; i + 8 <= n; i += 8)
        for (k = 0; k < 8; k++) top[k] = y[i + k] > top[k] ? y[i + k] : top[k];
    for (; i < n; i++) top[0] = y[i] > top[0] ? y[i] : top[0];
    for (k = 1; k < 8; k++) top[0] = top[k] > top[0] ? top[k] : top[0];
    return top[0];
}

#include "own_words.h"

typedef struct whisper_options {
    int32_t beam, best_of; /* at temperature 0; samples at others */
    double temperatures[WHISPER_TEMPERATURES];
    int32_t n_temperatures;
    /* An attempt fails above this compression ratio, or below this mean log-probability. */
    double compression, log_prob, no_speech; /* INFINITY, -INFINITY, INFINITY: no limit */
    int32_t without_times, is_translation;
    int (*is_stopped)(void *user); /* nonzero: a search ends early; NULL: never */
    void *user;
} whisper_options;

/* What was heard in a window. */
typedef struct whisper_text {
    int32_t ids[WHISPER_TOKENS], n;
    double log_prob, compression, temperature;
    double no_speech; /* the probability that nobody speaks; below 0: not computed */
} whisper_text;

typedef struct whisper {
    const tfm_model *model;
    tfm_session *session;
    whisper_options options;
    own_words own; /* words that are more probable; n_words 0: none */
    int with_own;  /* the search uses them */
    int32_t start, end, transcribe, translate, previous, no_speech, no_times, first_time, V;
    int32_t begin[WHISPER_BEGIN], n_begin; /* ids that no text begins with */
    int32_t n_given;                       /* tokens of the text that the prompt has (live.h) */
    int32_t language;                      /* id; 0: not known yet, or a model of English alone */
    double language_prob;
    char *text;       /* [WHISPER_TEXT]: scratch */
    uint16_t *chains; /* [COMPRESSION_CHAINS]: scratch */
    int is_probe;
    double probed; /* no-speech probability of the last probe */
} whisper;

static int whisper_is_stopped(const whisper *w) {
    return w->options.is_stopped && w->options.is_stopped(w->options.user);
}

/* Prepares to spell what a model without Whisper's tokens has decoded. */
static tfm_status whisper_load_text(whisper *w, const tfm_model *model, tfm_error *err) {
    w->model = model, w->end = w->V = tfm_model_config(model)->tgt_vocab_size;
    w->text = (char *)malloc(WHISPER_TEXT);
    w->chains = (uint16_t *)malloc(COMPRESSION_CHAINS * sizeof *w->chains);
    if (w->text && w->chains) return TFM_OK;
    snprintf(err->text, sizeof err->text, "no memory for the text");
    return err->status = TFM_E_MEMORY;
}

/* Reads the ids that the model file names. */
static tfm_status whisper_load(whisper *w, const tfm_safetensors *file, const tfm_model *model,
                               tfm_error *err) {
    const struct {
        const char *key;
        int32_t *id;
    } keys[] = {{"extra.transcribe", &w->transcribe},  {"extra.translate", &w->translate},
                {"extra.previous", &w->previous},      {"extra.no_speech", &w->no_speech},
                {"extra.no_timestamps", &w->no_times}, {"extra.first_time", &w->first_time}};
    const tfm_config *c = tfm_model_config(model);
    const char *begin = tfm_safetensors_metadata(file, "extra.begin_suppressed");
    tfm_status status;
    size_t k;
    w->start = c->start, w->end = c->end, w->V = c->tgt_vocab_size;
    for (k = 0; k < sizeof keys / sizeof *keys; k++) {
        const char *text = tfm_safetensors_metadata(file, keys[k].key);
        long id = text ? strtol(text, NULL, 10) : -1;
        if (id < 0 || id >= w->V || c->start < 0 || c->end < 0) {
            snprintf(err->text, sizeof err->text,
                     "metadata '%s' is missing or no id: this is no "
                     "Whisper model that tools/convert.py has written",
                     keys[k].key);
            return err->status = TFM_E_CONFIG;
        }
        *keys[k].id = (int32_t)id;
    }
    while (begin && *begin && w->n_begin < WHISPER_BEGIN) {
        char *next;
        long id = strtol(begin, &next, 10);
        if (next == begin) break;
        if (id >= 0 && id < w->V) w->begin[w->n_begin++] = (int32_t)id;
        begin = next + (*next == ',');
    }
    status = whisper_load_text(w, model, err);
    w->end = c->end;
    return status;
}

static double whisper_softmax(const float *y, int32_t first, int32_t end, int32_t id) {
    float top = whisper_largest(y + first, end - first);
    double sum = 0;
    int32_t i;
    for (i = first; i < end; i++) sum += exp((double)y[i] - top);
    return exp((double)y[id] - top) / sum;
}

/* Sees the logits after the start token: whether somebody speaks, and in which language. */
static void whisper_probe_logits(whisper *w, const float *y) {
    const tfm_config *c = tfm_model_config(w->model);
    int32_t i, best = -1;
    double sum = 0;
    w->probed = whisper_softmax(y, 0, w->V, w->no_speech);
    if (w->language || !c->n_languages) return;
    for (i = 0; i < c->n_languages; i++)
        if (best < 0 || y[c->languages[i].id] > y[best]) best = c->languages[i].id;
    for (i = 0; i < c->n_languages; i++) sum += exp((double)y[c->languages[i].id] - y[best]);
    w->language = best, w->language_prob = 1 / sum;
}

static void whisper_forbid(float *y, int32_t first, int32_t end) {
    for (; first < end; first++) y[first] = -INFINITY;
}

/* Forbids what may not follow ids. Times come in pairs: one ends a segment, the next begins one. */
static void whisper_edit(void *user, int32_t row, const int32_t *ids, int32_t n, float *y) {
    whisper *w = (whisper *)user;
    const tfm_config *c = tfm_model_config(w->model);
    int32_t T = w->first_time, i, is_time, is_pair;
    float text, top;
    double sum = 0;
    (void)row;
    if (w->is_probe) {
        whisper_probe_logits(w, y);
        return;
    }
    for (i = 0; i < c->n_suppressed; i++) y[c->suppressed[i]] = -INFINITY;
    for (i = 0; n + w->n_given == 0 && i < w->n_begin; i++) y[w->begin[i]] = -INFINITY;
    if (w->options.without_times) {
        whisper_forbid(y, T, w->V);
        if (w->with_own) own_words_edit(&w->own, ids, n, w->start, y);
        return;
    }
    y[w->no_times] = -INFINITY;
    if (n == 0) { /* the first token is a time from 0 to 1 s */
        whisper_forbid(y, 0, T);
        if (w->V > T + 51) whisper_forbid(y, T + 51, w->V);
        return;
    }
    is_time = ids[n - 1] >= T, is_pair = is_time && (n < 2 || ids[n - 2] >= T);
    if (is_pair) whisper_forbid(y, T, w->V);
    else if (is_time) whisper_forbid(y, 0, w->end);
    for (i = n - 1; i >= 0 && ids[i] < T; i--) {
    }
    if (i >= 0) whisper_forbid(y, T, is_time && !is_pair ? ids[i] : ids[i] + 1);
    /* A time is due if times together are more probable than each token of text. Together they are
       at least as probable as the best one, and at most as probable as if all were like it. */
    text = whisper_largest(y, T), top = whisper_largest(y + T, w->V - T);
    if (top > -INFINITY && top <= text && top + log((double)(w->V - T)) > text)
        for (i = T; i < w->V; i++) sum += exp((double)y[i] - top);
    if (top > text || (sum > 0 && top + log(sum) > text)) whisper_forbid(y, 0, T);
    else if (w->with_own) own_words_edit(&w->own, ids, n, w->start, y);
}

/* Writes the text of ids, without times and other special tokens, into w->text. A byte 0 becomes a
   space, so that nothing after it is lost. */
static tfm_status whisper_spell(whisper *w, const int32_t *ids, int32_t n, tfm_error *err) {
    int32_t plain[WHISPER_TOKENS], k, m = 0;
    size_t size = 0, i;
    tfm_status status;
    for (k = 0; k < n; k++)
        if (ids[k] < w->end) plain[m++] = ids[k];
    w->text[0] = 0;
    status = tfm_model_detokenize(w->model, plain, m, TFM_TEXT_FORM_TEXT, w->text, WHISPER_TEXT,
                                  &size, err);
    if (status == TFM_E_TOO_SMALL)
        snprintf(err->text, sizeof err->text,
                 "the model writes over %d bytes in a window of %d s, which no speech has: convert "
                 "the model again",
                 (int)WHISPER_TEXT - 1, (int)SPEECH_SECONDS);
    for (i = 0; status == TFM_OK && i < size; i++)
        if (!w->text[i]) w->text[i] = ' ';
    return status;
}

/* Runs one search over the memory. Results stay in the session. */
static tfm_status whisper_search(whisper *w, const tfm_tensor *memory, const int32_t *prompt,
                                 int32_t n, int32_t max_length, double temperature,
                                 tfm_error *err) {
    tfm_request request;
    tfm_decode_options o;
    int32_t running = 1;
    tfm_status status;
    memset(&o, 0, sizeof o), memset(&request, 0, sizeof request);
    request.memory = memory, request.prompt = tfm_ids_make(prompt, n);
    o.edit_logits = whisper_edit, o.edit_user = w, o.max_length = max_length;
    w->with_own = w->own.n_words && !(temperature > 0); /* not in samples: own_words.h */
    if (w->with_own) o.suppressed = &w->start, o.n_suppressed = 1;
    if (temperature > 0) {
        o.samples = w->options.best_of, o.temperature = temperature;
        request.seed = (uint64_t)(temperature * 1000);
    } else if (!w->is_probe && w->options.beam > 1) {
        o.beam = o.n_best = w->options.beam, o.length_penalty = 1;
    }
    status = memory ? tfm_session_start(w->session, &request, 1, &o, err)
                    : tfm_session_restart(w->session, &request, 1, &o, err);
    while (status == TFM_OK && running && !whisper_is_stopped(w))
        status = tfm_session_step(w->session, &running, err);
    return status;
}

/* Finds out whether somebody speaks in the window, and the language if it is not known yet. */
static tfm_status whisper_probe(whisper *w, const tfm_tensor *memory, const int32_t *prompt,
                                int32_t n, tfm_error *err) {
    tfm_status status;
    w->is_probe = 1;
    status = whisper_search(w, memory, prompt, n, 1, 0, err);
    w->is_probe = 0;
    return status;
}

/* Hears a window, with the tokens of what was heard before. The attempts go on to the next
   temperature until one is neither too repetitive nor too improbable. */
static tfm_status whisper_hear(whisper *w, const tfm_tensor *memory, const int32_t *history,
                               int32_t n_history, whisper_text *heard, tfm_error *err) {
    int32_t prompt[WHISPER_TOKENS], n = 0, n_start, i, k, most, failed = 1;
    whisper_text now, best_all, best_plain;
    tfm_status status = TFM_OK;
    int has_plain = 0;
    double silence = -1, best = 0;
    if (n_history > WHISPER_TOKENS / 2 - 1)
        history += n_history - (WHISPER_TOKENS / 2 - 1), n_history = WHISPER_TOKENS / 2 - 1;
    if (n_history) prompt[n++] = w->previous;
    for (i = 0; i < n_history; i++) prompt[n++] = history[i];
    prompt[n++] = w->start;
    n_start = n;
    memset(heard, 0, sizeof *heard), memset(&best_all, 0, sizeof best_all);
    memset(&best_plain, 0, sizeof best_plain);
    if (!w->language && tfm_model_config(w->model)->n_languages)
        status = whisper_probe(w, memory, prompt + n - 1, 1, err);
    if (w->language) {
        prompt[n++] = w->language;
        prompt[n++] = w->options.is_translation ? w->translate : w->transcribe;
    }
    if (w->options.without_times) prompt[n++] = w->no_times;
    most = WHISPER_TOKENS - n < WHISPER_TOKENS / 2 ? WHISPER_TOKENS - n : WHISPER_TOKENS / 2;
    for (i = 0; i < w->options.n_temperatures && failed && status == TFM_OK; i++) {
        memset(&now, 0, sizeof now);
        now.temperature = w->options.temperatures[i], now.log_prob = -INFINITY, now.no_speech = -1;
        status = whisper_search(w, memory, prompt, n, most, now.temperature, err);
        for (k = 0; status == TFM_OK && k < tfm_result_count(w->session, 0); k++) {
            tfm_result r; /* the best has the largest mean, not counting the end token's place */
            status = tfm_result_get(w->session, 0, k, &r, err);
            if (status != TFM_OK || (k && r.log_probability / (r.length ? r.length : 1) <= best))
                continue;
            best = r.log_probability / (r.length ? r.length : 1);
            now.log_prob = r.log_probability / (r.length + 1);
            now.n = r.length;
            memcpy(now.ids, r.ids, (size_t)r.length * sizeof *r.ids);
        }
        if (status == TFM_OK) status = whisper_spell(w, now.ids, now.n, err);
        if (status != TFM_OK || whisper_is_stopped(w)) break;
        now.compression = compression_ratio(w->text + strspn(w->text, " "), w->chains);
        failed = now.compression > w->options.compression;
        if (!failed && (!has_plain++ || now.log_prob > best_plain.log_prob)) best_plain = now;
        if (i == 0 || now.log_prob > best_all.log_prob) best_all = now;
        if (now.log_prob < w->options.log_prob) {
            failed = 1;
            if (w->options.no_speech < INFINITY) {
                if (silence < 0) status = whisper_probe(w, memory, prompt, n_start, err);
                silence = w->probed;
                if (silence > w->options.no_speech) failed = 0; /* no attempt will be better */
            }
        }
        now.no_speech = silence;
        *heard = now;
    }
    if (failed && status == TFM_OK) {
        double last = heard->temperature; /* of the last attempt */
        *heard = has_plain ? best_plain : best_all;
        heard->temperature = last, heard->no_speech = silence;
    }
    return status;
}

/* Writes the text of a request as it comes: without times, attempts and a probe of silence. For
   models that have none of these. */
static tfm_status whisper_write(whisper *w, const tfm_request *request, int32_t max_length,
                                whisper_text *heard, tfm_error *err) {
    tfm_decode_options o;
    tfm_result r;
    int32_t running = 1;
    tfm_status status;
    memset(&o, 0, sizeof o);
    o.max_length = max_length, o.stop = TFM_STOP_EARLY_FALSE;
    if (w->options.beam > 1) o.beam = o.n_best = w->options.beam, o.length_penalty = 1;
    status = tfm_session_start(w->session, request, 1, &o, err);
    while (status == TFM_OK && running && !whisper_is_stopped(w))
        status = tfm_session_step(w->session, &running, err);
    if (status != TFM_OK || whisper_is_stopped(w)) return status;
    status = tfm_result_get(w->session, 0, 0, &r, err);
    if (status != TFM_OK) return status;
    heard->n = r.length < WHISPER_TOKENS ? r.length : (int)WHISPER_TOKENS;
    heard->log_prob = r.log_probability / (r.length + 1);
    memcpy(heard->ids, r.ids, (size_t)heard->n * sizeof *r.ids);
    status = whisper_spell(w, heard->ids, heard->n, err);
    if (status == TFM_OK)
        heard->compression = compression_ratio(w->text + strspn(w->text, " "), w->chains);
    return status;
}

/* Returns whether nobody speaks: only where the text is improbable too. */
static int whisper_is_silent(const whisper *w, const whisper_text *heard) {
    return heard->no_speech > w->options.no_speech && heard->log_prob <= w->options.log_prob;
}

/* A segment of a window: a slice of its tokens and of its words, and seconds of the sound. */
typedef struct whisper_segment {
    double begin, end;
    int32_t first, n, first_word, n_words;
} whisper_segment;

/* Cuts what was heard at each pair of times into segments. Returns the frames that the window moves
   on: to the last pair, or over the whole window if speech ends within it (*ends). */
static int64_t whisper_cut(const whisper *w, const whisper_text *h, int64_t seek, int64_t size,
                           whisper_segment *out, int32_t *n_out, int *ends) {
    int32_t T = w->first_time, i, first = 0, n = 0;
    double at = (double)seek * 0.01, duration = (double)size * 0.01;
    *ends = h->n >= 2 && h->ids[h->n - 2] < T && h->ids[h->n - 1] >= T;
    for (i = 1; i <= h->n; i++) {
        int is_pair = i < h->n && h->ids[i] >= T && h->ids[i - 1] >= T;
        if (!is_pair && !(i == h->n && n && *ends)) continue;
        memset(&out[n], 0, sizeof *out);
        out[n].begin = at + (h->ids[first] - T) * 0.02,
        out[n].end = at + (h->ids[i - 1] - T) * 0.02;
        out[n].first = first, out[n++].n = i - first;
        first = i;
    }
    *n_out = n;
    if (n) return *ends ? size : (int64_t)(h->ids[first - 1] - T) * 2;
    for (i = h->n - 1; i >= 0 && h->ids[i] < T; i--) {
    }
    if (i >= 0 && h->ids[i] > T) duration = (h->ids[i] - T) * 0.02;
    memset(out, 0, sizeof *out);
    out->begin = at, out->end = at + duration, out->n = h->n, *n_out = 1;
    return size;
}

#endif
