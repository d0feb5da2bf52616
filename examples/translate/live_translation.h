/* live_translation.h: translates a text while it comes. To copy into your program.

       live_translation l;
       live_translation_limits(model, &limits);
       status = tfm_session_create(&session, model, &limits, &err);
       live_translation_begin(&l, model, session, tfm_model_decoding(model));
       while (status == TFM_OK && bytes of the text come) {
           live_translation_feed(&l, bytes, n);           any number of bytes
           while (status == TFM_OK && live_translation_is_due(&l)) {
               status = live_translation_run(&l, &err);   reads one more word
               ... the first l.stable bytes of l.text never change; the bytes after them are a guess
           }
       }
       status = live_translation_finish(&l, &err);        all of l.text is stable
       live_translation_clear(&l);                        the next text begins
       live_translation_free(&l);

   Each word of the source is a run: the model translates the sentence so far, with the stable text
   as prefix and the last run's translation as draft (chapter 3 of the manual). So most steps verify
   several tokens, and stable text cannot change.

   A token becomes stable if it probably stays when more words come. live_translation_weights
   estimates that probability from what a run knows without more work: how sure the model is of the
   token, whether the last run had the token at the same place, how sure the model was then, how
   near the token is to the end of the translation (a model gives half a sentence an end too), and
   whether a comma or a stop has come. The first token whose probability is below
   live_translation.sure ends the stable text. So does the last word that no other word follows yet.

   A sentence ends where tfm_sentence_next finds an end that the words after it confirm. It is then
   translated once more as a whole, behind its stable text. A sentence without an end is divided at
   LIVE_TRANSLATION_BYTES bytes or LIVE_TRANSLATION_WORDS words. */
#ifndef LIVE_TRANSLATION_H
#define LIVE_TRANSLATION_H

#include "text/characters.h"
#include "text/text_buffer.h"
#include "transformer.h"
#include <math.h>

enum {
    LIVE_TRANSLATION_BYTES = 400,  /* of a sentence without an end, at most */
    LIVE_TRANSLATION_WORDS = 60,   /* of such a sentence, at most */
    LIVE_TRANSLATION_WORD = 100,   /* bytes of a word, at most: a longer one is divided */
    LIVE_TRANSLATION_SOURCE = 512, /* tokens of a session's source and target that are enough for */
    LIVE_TRANSLATION_TARGET = 768, /* this header, unless the model has fewer positions */
    LIVE_TRANSLATION_DRAFT = 8     /* for tfm_session_options.max_draft */
};

/* The tokens of a sentence's translation, and how unsure the model is of each: the negative
   logarithm of its probability. */
typedef struct live_translation_tokens {
    int32_t n, is_ended; /* ended: by an end token */
    int32_t ids[LIVE_TRANSLATION_TARGET];
    double doubts[LIVE_TRANSLATION_TARGET + 1];
} live_translation_tokens;

typedef struct live_translation {
    /* Change these behind live_translation_begin. */
    double sure;   /* tokens that stay with this probability are stable; higher: later and better */
    double shown;  /* a guess ends where its tokens have less than the probability exp(-shown) */
    int reads_all; /* 1: a run reads all words that have come, for a program that is late */
    int is_whole_words; /* 1: what live_translation_feed gets ends with a word */
    /* The results. source is valid UTF-8, and the first `read` bytes of it are translated, and then
       guess. The first `stable` bytes of text are stable. */
    text_buffer source, guess, text;
    size_t read, stable;
    int64_t runs, steps; /* counts for measurements */
    /* What follows is this header's own. */
    tfm_session *session;
    const tfm_model *model;
    tfm_decode_options decoding;
    int32_t n_forced;    /* tokens that the model forces at the beginning of a target: 0 or 1 */
    int32_t most_stable; /* tokens of a sentence that is not divided */
    int is_ended;        /* the source has ended */
    int is_spaced;       /* white space stood in front of the sentence */
    int is_guess_new;    /* no run has read the guess */
    char part[4];        /* the first bytes of a character that has not come whole */
    size_t n_part;       /* how many they are */
    size_t begin, base;  /* where the sentence begins in source, and its translation in text */
    int32_t words;       /* of the sentence that were read */
    int32_t n_stable;    /* stable tokens of the sentence's translation */
    live_translation_tokens last, now; /* of the last run that decided what is stable; of this run*/
    int32_t draft[LIVE_TRANSLATION_TARGET], n_draft;
    text_buffer spelled, tried; /* texts of tokens */
} live_translation;

/* Weights of a logistic regression: what live_translation_estimate multiplies. They were fitted on
   German sentences of which the examples' model saw 1, 2, 3 ... words. */
static const double live_translation_weights[] = {
    5.88,  /* 1 */
    1.12,  /* the doubt */
    -4.1,  /* its square root */
    0.78,  /* 1 if the last run had this token, too */
    -1.69, /* 1 if it is the last token before the end */
    -0.77, /* 1 if it is one of the last two */
    -0.86, /* 1 if it is one of the last four */
    0.38,  /* 1 if the source ends with a comma or a stop */
    -1.14, /* 1 divided by the words of the source */
    1.77,  /* the larger of the doubts of this run and of the last one */
    -4.21  /* its square root */
};

/* Returns the probability that token i of l->now stays. is_same: the last run had the same tokens
   up to it. left: tokens up to the end. */
static inline double live_translation_estimate(const live_translation *l, int32_t i, int is_same,
                                               int32_t left, int is_clause) {
    double doubt = l->now.doubts[i], worst = doubt, sum = 0;
    double x[sizeof live_translation_weights / sizeof *live_translation_weights];
    size_t k;
    if (is_same && l->last.doubts[i] > worst) worst = l->last.doubts[i];
    x[0] = 1, x[1] = doubt, x[2] = sqrt(doubt), x[3] = is_same, x[4] = left <= 1;
    x[5] = left <= 2, x[6] = left <= 4, x[7] = is_clause, x[8] = 1.0 / (l->words ? l->words : 1);
    x[9] = worst, x[10] = sqrt(worst);
    for (k = 0; k < sizeof x / sizeof *x; k++) sum += live_translation_weights[k] * x[k];
    return 1 / (1 + exp(-sum));
}

/* ---- the source ------------------------------------------------------------------------------ */

/* Fills in what a session for this header needs. */
static inline void live_translation_limits(const tfm_model *model, tfm_session_options *o) {
    int32_t most = tfm_model_config(model)->max_positions;
    memset(o, 0, sizeof *o);
    o->max_source = LIVE_TRANSLATION_SOURCE, o->max_target = LIVE_TRANSLATION_TARGET;
    if (most && o->max_source > most) o->max_source = most;
    if (most && o->max_target > most) o->max_target = most;
    o->max_draft = LIVE_TRANSLATION_DRAFT;
}

/* Forgets the text: the next one begins. */
static inline void live_translation_clear(live_translation *l) {
    enum { KEPT = 1 << 16 }; /* bytes of memory that are kept */
    text_buffer_clear(&l->source, KEPT), text_buffer_clear(&l->text, KEPT);
    text_buffer_clear(&l->guess, KEPT);
    l->read = l->stable = l->n_part = l->begin = l->base = 0;
    l->words = l->n_stable = l->n_draft = l->last.n = 0;
    l->is_guess_new = l->is_ended = 0;
    text_buffer_append(&l->source, "", 0), text_buffer_append(&l->text, "", 0);
    text_buffer_append(&l->guess, "", 0); /* their data is not NULL */
}

/* Begins with a session that was created with live_translation_limits. decoding is copied and may
   be NULL; the search is greedy, whatever it says. */
static inline void live_translation_begin(live_translation *l, const tfm_model *model,
                                          tfm_session *session,
                                          const tfm_decode_options *decoding) {
    const tfm_config *c = tfm_model_config(model);
    tfm_session_options limits;
    live_translation_limits(model, &limits);
    memset(l, 0, sizeof *l);
    l->model = model, l->session = session, l->sure = 0.92, l->shown = 3;
    if (decoding) l->decoding = *decoding;
    l->decoding.beam = l->decoding.n_best = l->decoding.samples = l->decoding.alternatives = 0;
    l->decoding.coverage_penalty = l->decoding.prefix_bias = 0, l->decoding.min_length = 0;
    l->decoding.lexical_shortlist = l->decoding.keep_end = l->decoding.skip_errors = 0;
    l->decoding.truncate = limits.max_source;
    l->n_forced = c->forced >= 0 || c->tgt_language_forced;
    l->most_stable = limits.max_target * 3 / 4;
    live_translation_clear(l);
}

static inline void live_translation_free(live_translation *l) {
    text_buffer_free(&l->source), text_buffer_free(&l->text), text_buffer_free(&l->guess);
    text_buffer_free(&l->spelled), text_buffer_free(&l->tried);
}

/* Returns the bytes of the character that a byte begins, or 1 if none can begin there. */
static inline size_t live_translation_needs(unsigned char c) {
    return c >= 0xC2 && c < 0xE0 ? 2 : c >= 0xE0 && c < 0xF0 ? 3 : c >= 0xF0 && c < 0xF5 ? 4 : 1;
}

/* Appends text, with U+FFFD for each byte that is no UTF-8. Returns how many bytes at its end are
   the beginning of a character; they are not appended. */
static inline size_t live_translation_append(text_buffer *b, const char *text, size_t size) {
    size_t at = 0, n, k;
    uint32_t c;
    while (at < size) {
        n = live_translation_needs((unsigned char)text[at]);
        for (k = 1; k < n && at + k < size && ((unsigned char)text[at + k] & 0xC0) == 0x80;) k++;
        if (at + k == size && k < n) return k;
        n = tfm_character_next(text + at, size - at, &c);
        if (n == 1 && c == 0xFFFD) text_buffer_append(b, "\xEF\xBF\xBD", 3);
        else text_buffer_append(b, text + at, n);
        at += n;
    }
    return 0;
}

/* Appends bytes to the source. A character may be cut in two between two calls. */
static inline void live_translation_feed(live_translation *l, const char *bytes, size_t size) {
    char first[8];
    size_t n;
    while (l->n_part && size) { /* no more than three times */
        memcpy(first, l->part, l->n_part), first[l->n_part] = *bytes++, size--;
        n = l->n_part + 1;
        l->n_part = live_translation_append(&l->source, first, n);
        memmove(l->part, first + n - l->n_part, l->n_part);
    }
    n = live_translation_append(&l->source, bytes, size);
    if (n) memcpy(l->part, bytes + size - n, n), l->n_part = n;
}

/* Sets the text that may follow the source, in place of the last such text. It changes only the
   part of l->text behind l->stable. Of a long text only the first LIVE_TRANSLATION_BYTES count. */
static inline void live_translation_guess(live_translation *l, const char *text, size_t size) {
    l->guess.size = 0;
    if (size > LIVE_TRANSLATION_BYTES) size = LIVE_TRANSLATION_BYTES;
    (void)live_translation_append(&l->guess, text, size);
    l->is_guess_new = 1;
}

/* Returns where the word at or after byte `at` of the source ends, or 0 if no word has come whole.
   A character of a script without spaces is a word. */
static inline size_t live_translation_word(const live_translation *l, size_t at) {
    const char *text = l->source.data;
    size_t begin, n, size = l->source.size;
    uint32_t c = 0;
    for (; at < size; at += n) {
        n = tfm_character_next(text + at, size - at, &c);
        if (!character_is_space(c)) break;
    }
    if (at >= size) return 0;
    if (character_is_wide(c)) return at + n;
    for (begin = at; at < size && at - begin < LIVE_TRANSLATION_WORD; at += n) {
        n = tfm_character_next(text + at, size - at, &c);
        if (character_is(c, TFM_CHARACTER_SPACE | TFM_CHARACTER_WIDE)) return at;
    }
    return at < size || l->is_ended || l->is_whole_words ? at : 0;
}

/* Returns whether live_translation_run has something to read. */
static inline int live_translation_is_due(const live_translation *l) {
    return l->is_guess_new || live_translation_word(l, l->read) > 0;
}

/* ---- the translation ------------------------------------------------------------------------- */

static inline tfm_status live_translation_no_memory(tfm_error *err) {
    if (err) strcpy(err->text, "too little memory"), err->status = TFM_E_MEMORY;
    return TFM_E_MEMORY;
}

/* Spells tokens, on one line. */
static inline tfm_status live_translation_spell(const live_translation *l, const int32_t *ids,
                                                int32_t n, text_buffer *out, tfm_error *err) {
    size_t size = 0;
    tfm_status status =
        tfm_model_detokenize(l->model, ids, n, TFM_TEXT_FORM_TEXT, NULL, 0, &size, err);
    out->size = 0;
    if (status != TFM_OK) return status;
    if (!text_buffer_reserve(out, size)) return live_translation_no_memory(err);
    status =
        tfm_model_detokenize(l->model, ids, n, TFM_TEXT_FORM_TEXT, out->data, size + 1, &size, err);
    if (status == TFM_OK)
        out->size = text_buffer_flatten(out->data, size, TEXT_BUFFER_FLATTEN_CONTROLS);
    return status;
}

/* Translates source [size], the sentence so far or a guess of it, into l->now, with the stable
   tokens as its beginning. is_whole: the sentence has ended. */
static inline tfm_status live_translation_decode(live_translation *l, const char *source,
                                                 size_t size, int is_whole, tfm_error *err) {
    tfm_request request = tfm_request_text(source, size);
    tfm_result r;
    int32_t running = 1, i;
    tfm_status status;
    request.prefix = tfm_ids_make(l->last.ids + l->n_forced, l->n_stable - l->n_forced);
    if (l->n_stable <= l->n_forced) request.prefix = tfm_ids_make(NULL, 0);
    request.draft = tfm_ids_make(l->draft, l->n_draft);
    status = tfm_session_start(l->session, &request, 1, &l->decoding, err);
    memset(&r, 0, sizeof r);
    while (status == TFM_OK && running) {
        status = tfm_session_step(l->session, &running, err);
        l->steps++;
        if (status == TFM_OK && running && !is_whole) {
            status = tfm_result_get(l->session, 0, 0, &r, err);
            if (status == TFM_OK && -r.log_probability > l->shown)
                status = tfm_session_stop(l->session, 0, err), running = 0;
        }
    }
    l->runs++;
    if (status == TFM_OK) status = tfm_result_get(l->session, 0, 0, &r, err);
    if (status == TFM_OK)
        status = tfm_result_log_probabilities(l->session, 0, 0, l->now.doubts, err);
    if (status != TFM_OK) return status;
    l->now.n = r.length < LIVE_TRANSLATION_TARGET ? r.length : LIVE_TRANSLATION_TARGET;
    l->now.is_ended = r.finish == TFM_FINISH_ENDED;
    if (l->now.n) memcpy(l->now.ids, r.ids, (size_t)l->now.n * sizeof *r.ids);
    for (i = 0; i < l->now.n; i++) l->now.doubts[i] = l->now.doubts[i] < 0 ? -l->now.doubts[i] : 0;
    memcpy(l->draft, l->now.ids, (size_t)l->now.n * sizeof *l->draft), l->n_draft = l->now.n;
    return TFM_OK;
}

/* Returns how many tokens of l->now are sure enough to be stable. */
static inline int32_t live_translation_count(const live_translation *l, int is_clause) {
    int32_t i, n = l->now.n;
    int is_same = 1;
    for (i = 0; i < n; i++) {
        is_same = is_same && i < l->last.n && l->last.ids[i] == l->now.ids[i];
        if (i < l->n_stable) continue;
        if (live_translation_estimate(l, i, is_same, l->now.is_ended ? n - i : n, is_clause) <
            l->sure)
            return i;
    }
    return n;
}

/* Returns the largest number of tokens up to n behind which a word of l->spelled ends, and sets
   *size to the bytes that they spell. Without one above n_stable, it returns n_stable. */
static inline tfm_status live_translation_boundary(live_translation *l, int32_t *n, size_t *size,
                                                   tfm_error *err) {
    tfm_status status = TFM_OK;
    uint32_t c;
    for (*size = 0; *n > l->n_stable; --*n) {
        status = live_translation_spell(l, l->now.ids, *n, &l->tried, err);
        *size = l->tried.size;
        if (status != TFM_OK) return status;
        if (*size >= l->spelled.size || !*size) continue;
        if (memcmp(l->tried.data, l->spelled.data, *size) != 0) continue;
        (void)tfm_character_next(l->spelled.data + *size, l->spelled.size - *size, &c);
        if (character_is(c, TFM_CHARACTER_SPACE | TFM_CHARACTER_WIDE)) return status;
    }
    *size = 0;
    return status;
}

/* Replaces what is behind the stable text by the sentence's translation, l->spelled. Its first
   `sure` bytes become stable. */
static inline void live_translation_show(live_translation *l, size_t sure) {
    size_t at = l->stable - l->base, lead = 0;
    tfm_text before = tfm_text_make(l->text.data, l->base);
    if (l->base && l->spelled.size)
        lead = tfm_sentence_space(before, tfm_text_make(" ", l->is_spaced != 0)).size;
    l->text.size = l->stable;
    if (lead && !at) text_buffer_append(&l->text, " ", 1);
    at = at > lead ? at - lead : 0;
    /* A tokenizer may spell the same tokens in another way when others follow. What is stable stays
       all the same, and the rest begins at a whole character. */
    while (at < l->spelled.size && ((unsigned char)l->spelled.data[at] & 0xC0) == 0x80) at++;
    if (at < l->spelled.size)
        text_buffer_append(&l->text, l->spelled.data + at, l->spelled.size - at);
    if (sure && l->base + lead + sure > l->stable) l->stable = l->base + lead + sure;
    if (l->stable > l->text.size) l->stable = l->text.size;
}

/* Returns the end of source [begin, end) without white space. */
static inline size_t live_translation_trim(const live_translation *l, size_t begin, size_t end) {
    size_t at, n, last = begin;
    uint32_t c;
    for (at = begin; at < end; at += n) {
        n = tfm_character_next(l->source.data + at, end - at, &c);
        if (!character_is_space(c)) last = at + n;
    }
    return last;
}

/* Translates the sentence that ends at byte `end` of the source as a whole, and begins the next. */
static inline tfm_status live_translation_close(live_translation *l, size_t end, tfm_error *err) {
    size_t last = live_translation_trim(l, l->begin, end), n;
    tfm_status status = TFM_OK;
    uint32_t c;
    if (last > l->begin) {
        status = live_translation_decode(l, l->source.data + l->begin, last - l->begin, 1, err);
        if (status == TFM_OK)
            status = live_translation_spell(l, l->now.ids, l->now.n, &l->spelled, err);
        if (status == TFM_OK) live_translation_show(l, l->spelled.size);
    }
    l->text.size = status == TFM_OK ? l->text.size : l->stable;
    l->stable = l->base = l->text.size;
    for (; end < l->source.size; end += n) {
        n = tfm_character_next(l->source.data + end, l->source.size - end, &c);
        if (!character_is_space(c)) break;
    }
    l->begin = end, l->is_spaced = end > last;
    if (l->read < end) l->read = end;
    l->words = l->n_stable = l->n_draft = l->last.n = 0;
    return status;
}

/* Returns whether a text has a letter or a digit, so that what it is part of is a word. */
static inline int live_translation_has_word(const char *text, size_t size) {
    enum {
        MARKS = TFM_CHARACTER_STOP | TFM_CHARACTER_CLOSING | TFM_CHARACTER_OPENING |
                TFM_CHARACTER_COMMA | TFM_CHARACTER_SPACE
    };
    size_t at;
    uint32_t c;
    for (at = 0; at < size;) {
        at += tfm_character_next(text + at, size - at, &c);
        if ((c >= '0' && c <= '9') || character_case(c)) return 1;
        if (c >= 0x300 && !(c >= 0x2000 && c < 0x2E80) && !character_is(c, MARKS)) return 1;
    }
    return 0;
}

/* Returns where the first sentence of the source from l->begin to `end` ends, if a word follows it;
   otherwise 0. */
static inline size_t live_translation_sentence(const live_translation *l, size_t end) {
    tfm_text text = tfm_text_make(l->source.data + l->begin, end - l->begin), sentence;
    size_t at = 0;
    if (!tfm_sentence_next(text, &at, &sentence)) return 0;
    return live_translation_has_word(text.data + at, text.size - at) ? l->begin + at : 0;
}

/* Closes the sentences that end in the source before `end`, and one that is too long. */
static inline tfm_status live_translation_divide(live_translation *l, size_t end, tfm_error *err) {
    tfm_status status = TFM_OK;
    size_t at;
    while (status == TFM_OK && (at = live_translation_sentence(l, end)) > 0)
        status = live_translation_close(l, at, err);
    if (status == TFM_OK && l->begin < l->read &&
        (end - l->begin > LIVE_TRANSLATION_BYTES || l->words > LIVE_TRANSLATION_WORDS ||
         l->n_stable > l->most_stable))
        status = live_translation_close(l, l->read, err);
    return status;
}

/* Cuts the last word off l->spelled, because its end was not decoded. */
static inline void live_translation_cut(live_translation *l) {
    size_t at, n, end = 0;
    uint32_t c, before = ' ';
    for (at = 0; at < l->spelled.size; at += n, before = c) {
        n = tfm_character_next(l->spelled.data + at, l->spelled.size - at, &c);
        if (character_is_space(c) || character_is_wide(c) || character_is_wide(before)) end = at;
    }
    l->spelled.size = character_is_wide(before) ? at : end;
}

/* Translates the sentence so far, with the guess behind it if is_guess is 1. Only without the guess
   text becomes stable. */
static inline tfm_status live_translation_pass(live_translation *l, int is_guess, tfm_error *err) {
    size_t end = live_translation_trim(l, l->begin, l->read), sure = 0;
    const char *source = l->source.data + l->begin;
    int32_t n = 0;
    uint32_t c = 0;
    tfm_status status;
    if (is_guess) {
        l->tried.size = 0;
        text_buffer_append(&l->tried, source, l->read - l->begin);
        text_buffer_append(&l->tried, l->guess.data, l->guess.size);
        if (l->tried.broken) return live_translation_no_memory(err);
        status = live_translation_decode(l, l->tried.data, l->tried.size, 0, err);
    } else status = live_translation_decode(l, source, end - l->begin, 0, err);
    if (status == TFM_OK)
        status = live_translation_spell(l, l->now.ids, l->now.n, &l->spelled, err);
    if (status == TFM_OK && !is_guess) {
        size_t at = end;
        while (at > l->begin && ((unsigned char)l->source.data[--at] & 0xC0) == 0x80) continue;
        (void)tfm_character_next(l->source.data + at, end - at, &c);
        n = live_translation_count(l, character_is(c, TFM_CHARACTER_STOP | TFM_CHARACTER_COMMA));
        status = live_translation_boundary(l, &n, &sure, err);
    }
    if (status != TFM_OK) return status;
    if (!l->now.is_ended) live_translation_cut(l);
    live_translation_show(l, sure);
    if (is_guess) return status;
    l->n_stable = n;
    memcpy(&l->last, &l->now, sizeof l->last);
    return status;
}

/* Reads the next word, or with reads_all all words that have come, and translates the sentence so
   far. After a failure the text so far stays, and the next word can be read. */
static inline tfm_status live_translation_run(live_translation *l, tfm_error *err) {
    size_t end = live_translation_word(l, l->read), next;
    tfm_status status = TFM_OK;
    int is_guess = l->guess.size || (l->is_guess_new && !end);
    l->is_guess_new = 0;
    if (l->source.broken || l->guess.broken || l->text.broken)
        return live_translation_no_memory(err);
    if (end) {
        next = l->reads_all ? live_translation_word(l, end) : 0;
        for (l->words++; next && next - l->read < LIVE_TRANSLATION_WORD; l->words++)
            end = next, next = live_translation_word(l, end);
        status = live_translation_divide(l, end, err);
        l->read = end;
        if (!l->words) l->words = 1;
        if (status == TFM_OK) status = live_translation_pass(l, 0, err);
    }
    if (status == TFM_OK && is_guess) status = live_translation_pass(l, 1, err);
    return status == TFM_OK && l->text.broken ? live_translation_no_memory(err) : status;
}

/* Ends the text: reads the rest, drops the guess, and makes all of the translation stable. */
static inline tfm_status live_translation_finish(live_translation *l, tfm_error *err) {
    tfm_status status = TFM_OK;
    size_t end, at;
    if (l->n_part) text_buffer_append(&l->source, "\xEF\xBF\xBD", 3), l->n_part = 0;
    l->guess.size = 0, l->is_guess_new = 0, l->is_ended = 1;
    end = live_translation_trim(l, l->read, l->source.size);
    while (status == TFM_OK && (at = live_translation_word(l, l->read)) > 0 && at < end)
        status = live_translation_run(l, err);
    if (status == TFM_OK) status = live_translation_divide(l, l->source.size, err);
    if (status == TFM_OK) status = live_translation_close(l, l->source.size, err);
    l->text.size = status == TFM_OK ? l->text.size : l->stable;
    l->stable = l->text.size, l->read = l->source.size;
    return status == TFM_OK && l->text.broken ? live_translation_no_memory(err) : status;
}

/* Returns whether the source ends with a sentence. next is what follows it, as far as it is known:
   without a word in it, the source is read as if an English word followed. */
static inline int live_translation_is_sentence(live_translation *l, const char *next, size_t size) {
    enum { ENDS = TFM_CHARACTER_STOP | TFM_CHARACTER_CLOSING | TFM_CHARACTER_OPENING, AHEAD = 80 };
    tfm_text text, sentence;
    size_t at, begin = l->begin, end = live_translation_trim(l, l->read, l->source.size);
    uint32_t c = 0;
    for (at = end; at > begin && ((unsigned char)l->source.data[--at] & 0xC0) == 0x80;) continue;
    if (at < end) (void)tfm_character_next(l->source.data + at, end - at, &c);
    if (!character_is(c, ENDS)) return 0; /* an opening mark may close, too: " */
    if (size > AHEAD) size = AHEAD;
    l->tried.size = 0;
    text_buffer_append(&l->tried, l->source.data + begin, end - begin);
    if (live_translation_has_word(next, size)) text_buffer_append(&l->tried, next, size);
    else text_buffer_append(&l->tried, " The next", 9);
    text = tfm_text_make(l->tried.data, l->tried.size);
    for (at = 0, end -= begin; at < end && tfm_sentence_next(text, &at, &sentence);)
        if ((size_t)(sentence.data + sentence.size - text.data) == end) return 1;
    return 0;
}

#endif
