/* track.h: the samples around the present window of a sound, however long the sound is. Needs
   sound.h, speech.h and voice.h before it.

       track t;
       track_source source = {"speech.wav", NULL, NULL, 0};
       const char *why = track_open(&t, &source, NULL, NULL);
       voice_begin(&t.parts, &net, &options, NULL, 0);      if only speech is to be heard
       while ((n = track_frames(&t, at, SPEECH_FRAMES)) > 0) {
           ... frames at to at + n - 1 begin at t.x + at * SPEECH_HOP - t.first
           at += n;     the track forgets what is before at
       }
       track_close(&t); */
#ifndef TRACK_H
#define TRACK_H

#include "../../tools/common/utf8_files.h"

enum { TRACK_LEAD = SPEECH_SPAN / 2 };

/* Where a sound is: one of path, raw and data. */
typedef struct track_source {
    const char *path; /* a WAV file; beside data or raw: its name, for messages */
    FILE *raw;        /* an open file, which stays open: raw samples, or WAV */
    const void *data; /* a WAV file in memory */
    size_t size;
} track_source;

/* Samples around the present window. Sample p of the sound is number p + TRACK_LEAD here, because
   TRACK_LEAD samples that mirror the beginning stand before it. */
typedef struct track {
    sound in;
    voice parts; /* what is left out of the sound; zeros: nothing */
    FILE *file;  /* that track_close closes */
    float *x;
    int64_t first, n, capacity;    /* number of x[0]; samples in x */
    int64_t total;                 /* samples of the sound; -1 until its end is known */
    const char *fault;             /* after a failure: what is wrong */
    int (*is_stopped)(void *user); /* nonzero: the sound ends here; NULL: never */
    void *user;
} track;

/* Begins to read a sound. Returns NULL, or what is wrong; then too, close the track. */
static const char *track_open(track *t, const track_source *from, int (*is_stopped)(void *),
                              void *user) {
    const char *why;
    memset(t, 0, sizeof *t);
    t->total = -1, t->is_stopped = is_stopped, t->user = user;
    t->n = TRACK_LEAD, t->capacity = 16 * SOUND_CHUNK;
    t->x = (float *)calloc((size_t)t->capacity, sizeof *t->x);
    if (!t->x) return "no memory for the sound";
    if (from->raw) return sound_open(&t->in, from->raw, SOUND_ANY);
    if (from->data || !from->path)
        return sound_open_memory(&t->in, from->data, from->size, SOUND_WAV);
    t->file = utf8_open(from->path, "rb");
    if (!t->file) return "cannot be opened";
    if (fseek(t->file, 0, SEEK_SET) != 0) return "is a pipe, which can be read once only";
    why = sound_open(&t->in, t->file, SOUND_WAV);
    return why && ferror(t->file) ? "cannot be read" : why;
}

/* Reads the file into memory if it is a pipe, because a sound is read more than once. Then from has
   data, which the caller frees. Returns NULL, or what is wrong. */
static inline const char *track_keep(track_source *from) {
    FILE *file = utf8_open(from->path, "rb");
    const char *why = NULL;
    char *data = NULL, *larger;
    size_t n = 0, room = 65536, got = 1;
    if (!file) return "cannot be opened";
    if (fseek(file, 0, SEEK_SET) != 0)
        while (got && !why) {
            room *= n == room ? 2 : 1;
            larger = (char *)realloc(data, room);
            if (larger) data = larger, n += got = fread(data + n, 1, room - n, file);
            else why = "no memory for the sound";
        }
    if (ferror(file)) why = "cannot be read";
    fclose(file);
    from->data = data, from->size = n;
    return why;
}

static void track_close(track *t) {
    sound_close(&t->in), voice_end(&t->parts);
    if (t->file) fclose(t->file);
    free(t->x);
    memset(t, 0, sizeof *t);
}

/* Reads until sample number end, or all; forgets samples before number begin. After the last sample
   come 10 ms of silence, and then TRACK_LEAD samples that mirror these. Returns 0 after a failure,
   which t->fault names. */
static int track_fill(track *t, int64_t begin, int64_t end) {
    int64_t drop = begin - t->first, i;
    if (drop > t->n) drop = t->n;
    if (drop > 0) {
        memmove(t->x, t->x + drop, (size_t)(t->n - drop) * sizeof *t->x);
        t->first += drop, t->n -= drop;
    }
    while (t->total < 0 && t->first + t->n < end) {
        int32_t got, more = (int)SOUND_CHUNK + (int)SPEECH_HOP + (int)TRACK_LEAD;
        if (t->n + more > t->capacity) {
            float *x = (float *)realloc(t->x, (size_t)(2 * (t->n + more)) * sizeof *t->x);
            if (!x) t->fault = "no memory for the sound";
            if (!x) return 0;
            t->x = x, t->capacity = 2 * (t->n + more);
        }
        got = voice_read(&t->parts, &t->in, t->x + t->n, SOUND_CHUNK);
        t->n += got;
        if (t->parts.fault) t->fault = t->parts.fault;
        if (t->fault) return 0;
        if (!got && t->in.file && ferror(t->in.file)) {
            t->fault = "the sound cannot be read to its end";
            return 0;
        }
        if (!got || (t->is_stopped && t->is_stopped(t->user))) {
            t->total = t->first + t->n - TRACK_LEAD;
            memset(t->x + t->n, 0, ((int)SPEECH_HOP + (int)TRACK_LEAD) * sizeof *t->x);
            t->n += SPEECH_HOP;
            for (i = 0; i < TRACK_LEAD && t->n - 2 - i >= 0; i++)
                t->x[t->n + i] = t->x[t->n - 2 - i];
            t->n += TRACK_LEAD;
        }
        if (!t->first && t->n - got == TRACK_LEAD)
            for (i = 0; i < TRACK_LEAD && TRACK_LEAD + 1 + i < t->n; i++)
                t->x[TRACK_LEAD - 1 - i] = t->x[TRACK_LEAD + 1 + i];
        if (t->first + t->n < begin) t->first += t->n, t->n = 0; /* before a worker's part */
    }
    return 1;
}

/* Reads the frames from frame at on, at most n. Returns how many there are, or -1: see t->fault. */
static int64_t track_frames(track *t, int64_t at, int64_t n) {
    if (!track_fill(t, at * SPEECH_HOP, (at + n - 1) * SPEECH_HOP + SPEECH_SPAN)) return -1;
    if (t->total >= 0 && t->total / SPEECH_HOP - at < n) n = t->total / SPEECH_HOP - at;
    return n > 0 ? n : 0;
}

/* Returns the mean square of the samples of a frame that track_frames has read. */
static double track_power(const track *t, int64_t frame) {
    const float *x = t->x + frame * SPEECH_HOP + TRACK_LEAD - t->first;
    double sum = 0;
    int k;
    for (k = 0; k < SPEECH_HOP; k++) sum += (double)x[k] * x[k];
    return sum / (int)SPEECH_HOP;
}

#endif
