/* track.h: the samples around the present window of a sound, however long the sound is. Needs sound.h,
   speech.h and interrupts.h before it, and a function track_fail(text) that ends the program.

       track t;
       const char *why = track_open(&t, "speech.wav");
       while ((n = track_frames(&t, at, SPEECH_FRAMES)) > 0) {
           ... frames at to at + n - 1 begin at t.x + at * SPEECH_HOP - t.first
           at += n;     the track forgets what is before at
       }
       track_close(&t); */
#ifndef TRACK_H
#define TRACK_H

enum { TRACK_LEAD = SPEECH_SPAN / 2 };

/* Samples around the present window. Sample p of the sound is number p + TRACK_LEAD here, because TRACK_LEAD
   samples that mirror the beginning stand before it. */
typedef struct track {
    sound in;
    FILE *file;
    float *x;
    int64_t first, n, capacity; /* number of x[0]; samples in x */
    int64_t total;              /* samples of the sound; -1 until its end is known */
} track;

/* Opens a WAV file, or raw samples from standard input if path is "-". Returns NULL, or what is
   wrong; then too, close the track. */
static const char *track_open(track *t, const char *path) {
    memset(t, 0, sizeof *t);
    t->total = -1;
    t->file = strcmp(path, "-") == 0 ? stdin : fopen(path, "rb");
    if (!t->file) return "cannot be opened";
    t->n = TRACK_LEAD, t->capacity = 16 * SOUND_CHUNK;
    t->x = (float *)calloc((size_t)t->capacity, sizeof *t->x);
    if (!t->x) return "no memory for the sound";
    return sound_open(&t->in, t->file, t->file == stdin ? SOUND_RAW : SOUND_WAV);
}

static void track_close(track *t) {
    sound_close(&t->in);
    if (t->file && t->file != stdin) fclose(t->file);
    free(t->x);
}

/* Reads until sample number end, or all; forgets samples before number begin. After the last sample
   come 10 ms of silence, and then TRACK_LEAD samples that mirror these. */
static void track_fill(track *t, int64_t begin, int64_t end) {
    int64_t drop = begin - t->first, i;
    if (drop > t->n) drop = t->n;
    if (drop > 0) {
        memmove(t->x, t->x + drop, (size_t)(t->n - drop) * sizeof *t->x);
        t->first += drop, t->n -= drop;
    }
    while (t->total < 0 && t->first + t->n < end) {
        int32_t got, more = (int)SOUND_CHUNK + (int)SPEECH_HOP + (int)TRACK_LEAD;
        if (t->n + more > t->capacity) {
            t->capacity = 2 * (t->n + more);
            t->x = (float *)realloc(t->x, (size_t)t->capacity * sizeof *t->x);
            if (!t->x) track_fail("no memory for the sound");
        }
        got = sound_read(&t->in, t->x + t->n, SOUND_CHUNK);
        t->n += got;
        if (!got || stopped()) {
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
}

/* Reads the frames from frame at on, at most n, and returns how many there are. */
static int64_t track_frames(track *t, int64_t at, int64_t n) {
    track_fill(t, at * SPEECH_HOP, (at + n - 1) * SPEECH_HOP + SPEECH_SPAN);
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
