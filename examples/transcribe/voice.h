/* voice.h: passes on the parts of a sound in which somebody speaks, and leaves out what is between
   them. Needs sound.h, speech.h and vad.h before it.

       voice v;
       voice_begin(&v, &net, &options, NULL, 0);        threshold 0: all is passed on
       while ((n = voice_read(&v, &in, out, capacity)) > 0) ... n samples
       seconds = voice_time_in(&v, voice_part_of(&v, at, 0), at);     when moment at was
       voice_end(&v);

   A part begins with a frame whose probability reaches the threshold. It ends where a pause begins:
   frames below the threshold - 0.15, until the pause has lasted options.silence. options.pad is
   added on both sides. These are the rules of faster-whisper's vad_filter. Memory grows by a few
   bytes for each part only: samples wait here at most as long as a pause and a pad. */
#ifndef VOICE_H
#define VOICE_H

#include <math.h>

typedef struct voice_options {
    double threshold;    /* of the probability; 0: no detector */
    double silence, pad; /* milliseconds */
} voice_options;

/* Samples begin to end - 1 of the sound; the first of them is number at of those passed on. */
typedef struct voice_part {
    int64_t begin, end, at;
} voice_part;

typedef struct voice {
    const vad *net; /* NULL: all is passed on */
    vad_state state;
    double threshold, lower;
    int64_t silence, pad;    /* samples */
    float *held;             /* [n]: samples from number first on */
    int64_t first, n, seen;  /* seen: samples that the network has heard */
    int64_t speaks, pauses;  /* where the part and its pause began; -1: there is none */
    int64_t stopped;         /* where the last part ended, without its pad */
    voice_part *parts;       /* the last one's end is VOICE_OPEN while it goes on */
    int32_t n_parts, now;    /* now: the part that is passed on */
    float *known;            /* [n_known]: probabilities of the first frames */
    int64_t n_known;         /* from a voice that has read the same sound, or kept for others */
    int is_recording, ended; /* recording: known grows */
    const char *fault;       /* after a failure: what is wrong */
} voice;

#define VOICE_OPEN INT64_MAX
enum { VOICE_ROOM = 256 }; /* parts and probabilities have room for a multiple of this */

/* Begins. known [n_known]: what voice_read has recorded of the same sound, which the caller
   keeps. */
static void voice_begin(voice *v, const vad *net, const voice_options *o, float *known,
                        int64_t n_known) {
    memset(v, 0, sizeof *v);
    v->net = net && net->is_there && o->threshold > 0 ? net : NULL;
    v->threshold = o->threshold, v->lower = fmax(o->threshold - 0.15, 0.01);
    v->silence = (int64_t)(o->silence * 16), v->pad = (int64_t)(o->pad * 16);
    v->speaks = v->pauses = -1, v->known = known, v->n_known = n_known;
}

/* Frees all but the probabilities, which stay with the caller. */
static void voice_end(voice *v) {
    free(v->held), free(v->parts);
    memset(v, 0, sizeof *v);
}

/* Returns a list [n] of elements with room for more, or NULL. */
static void *voice_grow(void *list, int64_t n, int64_t more, size_t size) {
    int64_t room = (n + VOICE_ROOM - 1) / VOICE_ROOM * VOICE_ROOM;
    if (list && n + more <= room) return list;
    room = n + more + (n + more < 4096 ? 0 : n / 2);
    return realloc(list, (size_t)((room + VOICE_ROOM - 1) / VOICE_ROOM * VOICE_ROOM) * size);
}

static void voice_open_part(voice *v, int64_t at) {
    voice_part *last = v->n_parts ? &v->parts[v->n_parts - 1] : NULL, *part;
    voice_part *larger = (voice_part *)voice_grow(v->parts, v->n_parts, 1, sizeof *larger);
    int64_t gap = at - v->stopped, before = v->pad;
    if (!larger) v->fault = "no memory for the parts of the sound";
    if (!larger) return;
    part = &larger[v->n_parts++], v->parts = larger;
    if (last) last = part - 1;
    if (last && gap < 2 * v->pad) before = gap / 2, last->end = v->stopped + gap / 2;
    part->begin = at > before ? at - before : 0, part->end = VOICE_OPEN;
    part->at = last ? last->at + last->end - last->begin : 0;
}

/* Moves on by a frame that begins at sample number at. */
static void voice_step(voice *v, int64_t at, float probability) {
    if (probability >= v->threshold) v->pauses = -1;
    if (probability >= v->threshold && v->speaks < 0) {
        voice_open_part(v, at);
        v->speaks = at;
    } else if (probability < v->lower && v->speaks >= 0) {
        if (v->pauses < 0) v->pauses = at;
        if (at - v->pauses < v->silence) return;
        v->stopped = v->pauses, v->parts[v->n_parts - 1].end = v->pauses + v->pad;
        v->speaks = v->pauses = -1;
    }
}

/* Reads the next frame of the sound, and hears it. */
static void voice_hear(voice *v, sound *in) {
    float *x, frame[VAD_FRAME], probability;
    int32_t got = 0, more;
    int64_t number = v->seen / VAD_FRAME;
    tfm_error err;
    x = (float *)voice_grow(v->held, v->n, VAD_FRAME, sizeof *x);
    if (!x) v->fault = "no memory for the sound";
    if (!x) return;
    v->held = x, x += v->n;
    while (got < VAD_FRAME && (more = sound_read(in, x + got, VAD_FRAME - got)) > 0) got += more;
    memcpy(frame, x, (size_t)got * sizeof *frame);
    if (got < VAD_FRAME) { /* faster-whisper clears the end of the last frame, too */
        int32_t end = got < VAD_FRAME - VAD_CONTEXT ? got : VAD_FRAME - VAD_CONTEXT;
        memset(frame + end, 0, (size_t)(VAD_FRAME - end) * sizeof *frame);
    }
    v->n += got;
    if (number < v->n_known) probability = v->known[number];
    else if (vad_frame(v->net, &v->state, frame, &probability, &err) != TFM_OK)
        v->fault = "the voice detector cannot be computed";
    if (number >= v->n_known && v->is_recording) {
        float *larger = (float *)voice_grow(v->known, v->n_known, 1, sizeof *larger);
        if (!larger) v->fault = "no memory for the parts of the sound";
        else v->known = larger, v->known[v->n_known++] = probability;
    }
    if (!v->fault) voice_step(v, v->seen, probability);
    v->seen += got;
    if (got == VAD_FRAME || v->fault) return;
    v->ended = 1;
    if (v->speaks >= v->seen && --v->n_parts > 0) /* it began in the zeros behind the sound */
        v->parts[v->n_parts - 1].end = v->stopped + v->pad;
    if (v->n_parts && v->parts[v->n_parts - 1].end > v->seen)
        v->parts[v->n_parts - 1].end = v->seen;
}

/* Forgets n held samples. */
static void voice_drop(voice *v, int64_t n) {
    if (n > v->n) n = v->n;
    if (n <= 0) return;
    memmove(v->held, v->held + n, (size_t)(v->n - n) * sizeof *v->held);
    v->first += n, v->n -= n;
}

/* Reads at most n samples of the parts. Returns how many there were; 0 is the end, or a fault. */
static int32_t voice_read(voice *v, sound *in, float *out, int32_t n) {
    int32_t done = 0;
    if (!v->net) return sound_read(in, out, n);
    while (done < n && !v->fault) {
        voice_part *p = v->now < v->n_parts ? &v->parts[v->now] : NULL;
        int64_t limit = p ? p->end : 0;
        if (limit == VOICE_OPEN) limit = v->seen; /* of a pause, only the pad is sure */
        if (p && p->end == VOICE_OPEN && v->pauses >= 0 && limit > v->pauses + v->pad)
            limit = v->pauses + v->pad;
        voice_drop(v, (p ? p->begin : v->seen - v->pad) - v->first);
        limit = !p || v->first < p->begin ? 0 : limit - v->first < v->n ? limit - v->first : v->n;
        if (limit > n - done) limit = n - done;
        if (limit > 0) {
            memcpy(out + done, v->held, (size_t)limit * sizeof *out);
            voice_drop(v, limit), done += (int32_t)limit;
        } else if (p && p->end != VOICE_OPEN && v->first >= p->end) v->now++;
        else if (v->ended) break;
        else voice_hear(v, in);
    }
    return v->fault ? 0 : done;
}

/* Returns which part has a moment of what was passed on. An end may be where a part ends. */
static inline int32_t voice_part_of(const voice *v, double seconds, int is_end) {
    int64_t at = (int64_t)(seconds * (int)SOUND_RATE);
    int32_t low = 0, high = v->n_parts; /* parts before low end at or before at */
    while (low < high) {
        int32_t middle = (low + high) / 2;
        const voice_part *p = &v->parts[middle];
        if (p->end != VOICE_OPEN && p->at + p->end - p->begin <= at) low = middle + 1;
        else high = middle;
    }
    if (is_end && low &&
        v->parts[low - 1].at + v->parts[low - 1].end - v->parts[low - 1].begin == at)
        low--;
    return low < v->n_parts ? low : v->n_parts - 1;
}

/* Returns when a moment of what was passed on is in the sound, by the part that it belongs to. */
static inline double voice_time_in(const voice *v, int32_t part, double seconds) {
    const voice_part *p = &v->parts[part];
    return round((seconds + (double)(p->begin - p->at) / (int)SOUND_RATE) * 100) / 100;
}

#endif
