/* live.h: text while somebody speaks. To copy into your program, with transcriber.h, which it needs
   before it.

       live l;
       live_options o;
       live_defaults(&o);
       status = transcriber_load(&h, model, file, 1, TRANSCRIBER_LIVE, 0, &err);
       if (status == TFM_OK) status = live_begin(&l, &h, &settings, &o, &err);
       while (status == TFM_OK && there is sound) {
           status = live_feed(&l, samples, n, &err);             any number of samples, 16 kHz
           if (live_is_behind(&l, now, waited, n)) continue;     for a microphone
           while (status == TFM_OK && live_is_due(&l))
               if ((status = live_hear(&l, &err)) == TFM_OK)
                   ... append l.stable to the text; show l.tentative behind it until the next run
       }
       status = live_finish(&l, &err);                           and then as above, until nothing is
                                                                 due
       live_free(&l);

   The voice detector finds where somebody speaks. There a window grows. Every o.step of new sound,
   the window is encoded and decoded again. What is stable is never taken back: it is part of the
   prompt of later runs, and the text that followed it is their draft (chapter 3 of the manual), so
   decoding the same words again takes few steps. A pause of o.pause makes all of the window stable
   and ends it. When a window is longer than o.longest, live_shorten cuts its beginning off behind a
   stable word, so that about o.kept of it stay.

   The texts do not depend on the pieces in which samples are fed. If the program is slower than the
   source, live_is_behind says so, and sound that waits is heard in one run.

   Rules say which words of a run are stable:
   - LIVE_ALIGN (AlignAtt, Papi et al. 2023): words whose tokens attend to sound that is more than
     o.guard before the end of the sound. o.doubt times minus the logarithm of the token's
     probability is added to o.guard, so tokens that the decoder is not sure of wait longer, and the
     first token of a window twice as long.
   - LIVE_AGREE (LocalAgreement, Liu et al. 2020): words that two runs in succession have.
   LIVE_BOTH, the default, asks for both.
   To save time the encoder sees o.room behind the sound. If a token whose -log(probability) is
   above o.look would become stable, the window is heard again, and from then on as Whisper was
   trained: 30 s in all, until a text has become stable. With o.look 0 only a small model does so
   (LIVE_SMALL, int8): it hears 30 s in less than o.step on one core. A larger one would fall behind
   the sound. */
#ifndef LIVE_H
#define LIVE_H

typedef enum live_rule { LIVE_ALIGN, LIVE_AGREE, LIVE_BOTH } live_rule;
enum {
    LIVE_SURE = 150,  /* positions (3 s) from which the language is detected for good */
    LIVE_BACK = 25,   /* positions that a token may attend to before the last one's */
    LIVE_SMALL = 384, /* the width of tiny */
    /* The most of o.history: the prompt has it before the stable tokens of a window, and room for
       16 new ones must be left. */
    LIVE_HISTORY = WHISPER_TOKENS / 2 - 32
};
#define LIVE_BEHIND 0.1  /* seconds; a program that is further behind its source hears less often */
#define LIVE_DOUBT 3.0   /* the largest -log(probability) that o.doubt counts */
#define LIVE_FIRST 2     /* times o.doubt for the first token of a window */
#define LIVE_LOOK 0.3    /* o.look of a small model */
#define LIVE_WAITING 4.0 /* seconds of sound that wait at most until then */

/* live_begin refuses values that cannot work, and names them. */
typedef struct live_options {
    live_rule rule;
    double step, guard, pause, lead; /* seconds; lead: heard before speech begins */
    double doubt;                    /* seconds, for a token of probability 1/e */
    double look; /* -log(probability) of tokens that are heard with 30 s before they are stable */
    double shortest, gap; /* seconds: of the first run's window; a longer pause ends it */
    double room;          /* seconds of silence behind the sound that the encoder sees */
    double longest, kept; /* seconds of a window, and after its beginning was cut off */
    int32_t history;      /* tokens before the window that the decoder reads */
    int without_drafts;   /* for measurements */
} live_options;

typedef struct live {
    transcriber *h;
    live_options o;
    float *x; /* [n]: sample number first and those that follow */
    int64_t first, n, capacity, fed;
    int64_t scanned; /* where the voice detector is */
    vad_state state;
    voice parts;                          /* its rules for where somebody speaks */
    int is_open, is_over, is_kept, ended; /* kept: the window after a pause */
    tfm_status fault;                     /* of the voice detector */
    tfm_error why;
    int64_t start, end, ran; /* samples: of the window; where the last run ended */
    int64_t spoke;           /* where somebody began to speak after the last pause */
    int64_t said;            /* no stable text begins before it */
    int64_t quiet;           /* where the pause that ends the text began */
    int64_t n_mel;
    int32_t positions, with_sound; /* of the encoder's output */
    /* Of Moonshine streaming: its encoder, what it gave, and the samples that it has read. */
    listen ear;
    listen_sink memory;
    int64_t heard;
    int is_listening;
    /* Tokens of the window: stable ones, and those that the last run heard after them. */
    int32_t given[WHISPER_TOKENS], n_given, draft[WHISPER_TOKENS], n_draft;
    int32_t given_end[WHISPER_TOKENS]; /* position where a word ends; -1 within it */
    float doubts[WHISPER_TOKENS + 1];  /* minus logarithms of the last run's probabilities */
    int is_unsure;                     /* of the language */
    int is_wide;                       /* the encoder sees 30 s until a text becomes stable */
    int is_stalled;                    /* set it if no sound comes: then what is there is heard */
    int is_late, is_paced;             /* behind the source; the source has made the program wait */
    double source;                     /* the clock's time when sample 0 was there */
    int is_settled; /* the last run heard nothing after the stable tokens but the end */
    int32_t history[2 * WHISPER_TOKENS], n_history;
    words *found;
    float *attention;
    /* Results of live_hear: texts, and seconds of the sound */
    char *stable, *tentative;
    double stable_begin, stable_end, tentative_begin, tentative_end;
    int is_end;                  /* a pause follows the stable text */
    int is_changed;              /* the tentative text is another, or another place's */
    int64_t runs, steps, tokens; /* counts for measurements; tokens: that runs decoded */
} live;

static int64_t live_samples(double seconds) { return (int64_t)(seconds * (int)SOUND_RATE); }

static int live_is_full(const live *l) {
    return l->is_open && l->end - l->start >= live_samples(l->o.longest);
}

#include "live_listen.h"
#include "live_window.h"

static void live_defaults(live_options *o) {
    memset(o, 0, sizeof *o);
    o->rule = LIVE_BOTH, o->step = 0.15, o->guard = 0.15, o->doubt = 0.8, o->pause = 0.6,
    o->lead = 0.3;
    o->shortest = 1, o->gap = 1.5, o->longest = 16, o->kept = 8, o->room = 8, o->history = 32;
}

/* Refuses options with which a run would never be due, or would be due again and again without new
   sound. */
static tfm_status live_check(const live_options *o, int listens, tfm_error *err) {
    const struct {
        const char *name;
        double value, least, most;
    } all[] = {{"rule", (double)o->rule, LIVE_ALIGN, LIVE_BOTH},
               {"step", o->step, 0.001, 3600},
               {"guard", o->guard, 0, SPEECH_SECONDS},
               {"pause", o->pause, 0, 3600},
               {"lead", o->lead, 0, 30},
               {"doubt", o->doubt, 0, 1e9},
               {"look", o->look, 0, HUGE_VAL},
               {"shortest", o->shortest, 0, 3600},
               {"gap", o->gap, 0, 3600},
               {"room", o->room, 0, 3600},
               {"longest", o->longest, 0.1, SPEECH_SECONDS},
               {"kept", o->kept, 0, 3600},
               {"history", (double)o->history, 0, LIVE_HISTORY}};
    size_t i;
    err->status = TFM_E_ARGUMENT;
    for (i = 0; i < sizeof all / sizeof *all; i++) {
        if (all[i].value >= all[i].least && all[i].value <= all[i].most) continue; /* NaN: no */
        snprintf(err->text, sizeof err->text, "live text: %s is %g and must be from %g to %g",
                 all[i].name, all[i].value, all[i].least, all[i].most);
        return err->status;
    }
    /* A window of Moonshine is an utterance, which is not cut. */
    if (listens || o->kept < o->longest) return err->status = TFM_OK;
    snprintf(err->text, sizeof err->text,
             "live text: kept is %g and must be less than longest, which is %g: else a full window "
             "stays full",
             o->kept, o->longest);
    return err->status;
}

static void live_free(live *l) {
    voice_end(&l->parts);
    live_listen_end(l);
    free(l->x), free(l->found), free(l->attention), free(l->stable), free(l->tentative);
    memset(l, 0, sizeof *l);
}

static tfm_status live_begin(live *l, transcriber *h, const transcriber_options *settings,
                             const live_options *o, tfm_error *err) {
    voice_options rules = settings->voice;
    tfm_status status;
    memset(l, 0, sizeof *l);
    l->h = h, l->o = *o;
    status = live_check(o, live_listens(l), err);
    if (status == TFM_OK) status = transcriber_set(h, settings, err);
    if (status != TFM_OK) return status;
    h->w.options.beam = 1, h->w.options.without_times = 1;
    if (!(l->o.look > 0))
        l->o.look = h->is_int8 && (int)h->s.width <= LIVE_SMALL ? LIVE_LOOK : HUGE_VAL;
    if (live_listens(l) && (status = live_listen_fit(l, err)) != TFM_OK) return status;
    l->is_unsure = !h->w.language && tfm_model_config(h->w.model)->n_languages;
    memcpy(l->history, h->history, sizeof l->history), l->n_history = h->n_history;
    if (!(rules.threshold > 0)) rules.threshold = 0.5;
    rules.silence = o->pause * 1000, rules.pad = o->lead * 1000;
    voice_begin(&l->parts, &h->net, &rules, NULL, 0);
    l->n = l->capacity = TRACK_LEAD, l->first = -TRACK_LEAD;
    l->x = (float *)calloc((size_t)l->n, sizeof *l->x);
    l->found = (words *)malloc(sizeof *l->found);
    l->attention =
        (float *)malloc((size_t)((int)WHISPER_TOKENS * (int)SPEECH_POSITIONS) * sizeof(float));
    l->stable = (char *)calloc(1, WHISPER_TEXT), l->tentative = (char *)calloc(1, WHISPER_TEXT);
    if (l->x && l->found && l->attention && l->stable && l->tentative) return TFM_OK;
    live_free(l);
    return transcriber_fail(err, TFM_E_MEMORY, "no memory for live sound", "");
}

/* Appends samples. Sound before the window is forgotten. */
static tfm_status live_feed(live *l, const float *samples, int64_t n, tfm_error *err) {
    int64_t lead = (int64_t)(l->o.lead * (int)SOUND_RATE) + (int)VAD_FRAME + (int)TRACK_LEAD;
    int64_t drop = (l->is_open || l->is_kept ? l->start - TRACK_LEAD : l->scanned - lead) -
                   l->first;
    if (drop > l->n) drop = l->n;
    if (drop > 0) {
        memmove(l->x, l->x + drop, (size_t)(l->n - drop) * sizeof *l->x);
        l->first += drop, l->n -= drop;
    }
    if (l->n + n > l->capacity) {
        float *larger = (float *)realloc(l->x, (size_t)(2 * (l->n + n)) * sizeof *l->x);
        if (!larger) return transcriber_fail(err, TFM_E_MEMORY, "no memory for live sound", "");
        l->x = larger, l->capacity = 2 * (l->n + n);
    }
    memcpy(l->x + l->n, samples, (size_t)n * sizeof *l->x);
    l->n += n, l->fed += l->ended ? 0 : n;
    return TFM_OK;
}

/* Says that no more sound comes. */
static tfm_status live_finish(live *l, tfm_error *err) {
    static const float silence[(int)VAD_FRAME + (int)TRACK_LEAD] = {0};
    l->ended = 1;
    return live_feed(l, silence, (int)VAD_FRAME + (int)TRACK_LEAD, err);
}

/* Tells, after n samples were fed, whether the source has more that should be fed first. now:
   seconds of any clock; waited: seconds for which the program waited for these samples. A source
   that made it wait is as fast as speech. A program that is behind such a source hears all that has
   come in one run. A program that hears files need not call this. */
static inline int live_is_behind(live *l, double now, double waited, int64_t n) {
    double source = now - (double)l->fed / (int)SOUND_RATE;
    if (2 * waited * (int)SOUND_RATE >= (double)n) l->source = source, l->is_paced = 1;
    if (l->ended || !l->is_paced || source - l->source < LIVE_BEHIND) return 0;
    l->is_late = 1;
    return l->fed - l->scanned < live_samples(LIVE_WAITING);
}

/* Moves the voice detector on by a frame. Without one, sound above options.silence counts as
   speech. */
static tfm_status live_scan(live *l, tfm_error *err) {
    const float *x = l->x + (l->scanned - l->first);
    float probability = 1;
    double power = 0;
    tfm_status status = TFM_OK;
    int i;
    for (i = 0; i < VAD_FRAME; i++) power += (double)x[i] * x[i] / (int)VAD_FRAME;
    if (l->h->net.is_there && l->h->o.voice.threshold > 0)
        status = vad_frame(&l->h->net, &l->state, x, &probability, err);
    else if (l->h->o.silence < 0 && power < pow(10, l->h->o.silence / 10)) probability = 0;
    if (status != TFM_OK) return status;
    voice_step(&l->parts, l->scanned, probability);
    l->scanned += VAD_FRAME;
    return l->parts.fault ? transcriber_fail(err, TFM_E_MEMORY, l->parts.fault, "") : TFM_OK;
}

/* Ends a window: its tokens become the history of the next. */
static void live_close(live *l) {
    live_forget(l, l->n_given);
    l->is_kept = 0;
}

/* Begins a window where somebody begins to speak, or goes on with the last one after a short
   pause. */
static void live_open(live *l) {
    int64_t start = l->parts.parts[0].begin;
    l->is_open = 1;
    if (!l->is_kept || l->said > l->spoke) l->spoke = l->parts.speaks;
    if (l->is_kept) return;
    if (start < l->end) start = l->end;
    if (start < l->first + TRACK_LEAD) start = l->first + TRACK_LEAD;
    l->start = l->ran = start, l->n_mel = l->n_given = l->n_draft = 0;
}

/* Returns whether the samples have come for another frame, and for those that its spectrum
   needs. */
static int live_has_frame(const live *l) {
    return l->scanned + (int)VAD_FRAME + (int)TRACK_LEAD <= l->first + l->n;
}

/* Returns whether the window, as far as the voice detector has heard it, is due for a run. */
static int live_is_ready(const live *l) {
    if (!l->is_open || l->is_over || live_is_full(l)) return l->is_open;
    /* In a pause, a run that heard only the end would hear it again. */
    if (l->parts.pauses >= 0 && l->is_settled && l->ran > l->parts.pauses) return 0;
    return l->end - l->start >= live_samples(l->o.shortest) &&
           l->end - l->ran >= (l->is_stalled ? 1 : live_samples(l->o.step));
}

/* Hears frames with the voice detector until a run is due or the samples end. Returns whether one
   is due. */
static int live_is_due(live *l) {
    while (!l->is_over && live_has_frame(l)) {
        if (l->is_late || l->is_stalled ? live_is_full(l) : live_is_ready(l)) break;
        if ((l->fault = live_scan(l, &l->why)) != TFM_OK) return 1;
        if (!l->is_open && l->parts.n_parts) live_open(l);
        if (!l->is_open && l->is_kept && l->scanned - l->end > live_samples(l->o.gap))
            live_close(l);
        if (!l->is_open) continue;
        l->end = live_reaches(l);
        if (l->parts.speaks >= 0) continue;
        l->is_over = 1, l->quiet = l->parts.stopped;
        l->end = l->parts.parts[l->parts.n_parts - 1].end;
        if (l->end > l->scanned) l->end = l->scanned;
        if (live_listens(l) && l->end < l->heard) l->end = l->heard;
    }
    if (l->is_open && l->ended && !l->is_over && !live_has_frame(l))
        l->is_over = 1, l->end = l->fed < l->scanned ? l->fed : l->scanned,
        l->quiet = l->parts.pauses >= 0 ? l->parts.pauses : l->end;
    if (live_is_ready(l)) return 1;
    l->is_late = 0;
    return 0;
}

/* Encodes and decodes the window, which the encoder sees with seconds of silence behind it.
   *is_loop: the text is too repetitive or, where nothing is stable yet, too improbable. */
static tfm_status live_run(live *l, double room, int32_t *ids, int32_t *at, tfm_result *r,
                           int *is_loop, tfm_error *err) {
    whisper *w = &l->h->w;
    tfm_status status;
    *is_loop = 0;
    if (live_listens(l)) return live_listen(l, l->is_over || live_is_full(l), ids, at, r, err);
    status = live_encode(l, room, err);
    if (status == TFM_OK) status = live_decode(l, ids, at, r, err);
    if (status == TFM_OK) status = whisper_spell(w, ids, r->length, err);
    if (status != TFM_OK) return status;
    *is_loop = (!l->n_given && r->log_probability / (r->length + 1) < w->options.log_prob) ||
               compression_ratio(w->text + strspn(w->text, " "), w->chains) >
                   w->options.compression;
    return TFM_OK;
}

/* Hears the window once more, when live_is_due has said so. */
static tfm_status live_hear(live *l, tfm_error *err) {
    whisper *w = &l->h->w;
    int32_t ids[WHISPER_TOKENS], at[WHISPER_TOKENS + 1], n = 0, sure = 0, i;
    int is_full = live_is_full(l), is_loop = 0;
    tfm_result r;
    tfm_status status = l->fault;
    l->stable[0] = 0, l->is_end = l->is_over;
    if (status != TFM_OK) *err = l->why;
    memset(&r, 0, sizeof r), r.finish = TFM_FINISH_ENDED;
    if (status == TFM_OK && l->is_over && l->is_settled && l->ran > l->quiet && !live_listens(l)) {
        r.length = l->n_draft; /* the last run has heard the pause */
        for (i = 0; i < r.length; i++) ids[i] = l->draft[i], at[i] = l->with_sound;
        at[r.length] = l->with_sound;
    } else if (status == TFM_OK) {
        status = live_run(l, l->is_wide ? SPEECH_SECONDS : l->o.room, ids, at, &r, &is_loop, err);
        if (status == TFM_OK && !l->is_wide &&
            (is_loop ? l->is_over || is_full : live_is_doubtful(l, ids, at, r.length)))
            l->is_wide = !is_loop, status = live_run(l, SPEECH_SECONDS, ids, at, &r, &is_loop, err);
    }
    if (status != TFM_OK) return status;
    n = is_loop && l->is_over ? 0 : r.length;
    if (r.finish != TFM_FINISH_ENDED) is_loop = 1;
    sure = live_sure(l, ids, at, n);
    l->found->n = 0;
    if (!live_listens(l)) status = words_cut(w, ids, n, l->found, err);
    if (status != TFM_OK) return status;
    if (l->is_over || (is_full && (live_listens(l) || (!is_loop && !l->n_given))))
        sure = n, l->is_settled = 1;
    else if (live_listens(l))
        sure = live_listen_words(l, ids, n, sure, !is_loop, err), l->is_settled = sure == n;
    else sure = live_words(l, &r, is_loop ? 0 : sure, &l->is_settled);
    if (sure || !n) l->is_wide = 0;
    status = live_give(l, ids, at, sure, err);
    if (status == TFM_OK) status = live_spell(l, ids + sure, n - sure, err);
    if (status != TFM_OK) return status;
    l->is_changed = strcmp(l->tentative, w->text) != 0 || (l->stable[0] && w->text[0]);
    memcpy(l->tentative, w->text, strlen(w->text) + 1);
    l->tentative_begin = live_begins(l),
    l->tentative_end = fmax(l->tentative_begin, live_seconds_of(l, l->end));
    for (i = sure; i < n; i++) l->draft[i - sure] = ids[i];
    l->n_draft = n - sure, l->ran = l->end;
    if (live_listens(l) && (l->is_over || is_full)) live_listen_next(l);
    else if (is_full) live_shorten(l);
    if (l->is_over) l->is_kept = !live_listens(l), l->is_open = l->is_over = l->parts.n_parts = 0;
    return TFM_OK;
}

#endif
