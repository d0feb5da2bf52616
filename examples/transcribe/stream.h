/* stream.h: reads sound from a pipe while it comes, in a thread of its own. To copy into your
   program. Needs sound.h before it.

       static stream s;
       const char *why = stream_open(&s, stdin);
       while (!why && (n = stream_take(&s, samples, capacity, 100)) >= 0) ... n samples; 0: none in
       100 ms if (!why) why = s.why;               not NULL: the sound could not be read

   The sound is a WAV file, or raw samples of 16 bits, mono, 16 kHz: its first bytes tell. If the
   program is slower than the pipe, STREAM_ROOM samples wait here and the others in the pipe, so
   memory does not grow. The thread ends with the sound. A program may end while the thread still
   waits for the pipe. */
#ifndef STREAM_H
#define STREAM_H

#include <errno.h>
#include <pthread.h>
#include <time.h>

enum { STREAM_ROOM = 4 * SOUND_RATE, STREAM_PIECE = 320 };

typedef struct stream {
    FILE *file;
    float samples[STREAM_ROOM]; /* a ring: sample i is at i % STREAM_ROOM */
    int64_t n_read, n_taken;
    int ended;
    int cut;         /* bytes behind the last whole sample, which are not heard */
    const char *why; /* why the sound cannot be read, or NULL */
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
} stream;

static void *stream_read(void *context) {
    stream *s = (stream *)context;
    float piece[STREAM_PIECE];
    int32_t got, i;
    sound in;
    const char *why = sound_open(&in, s->file, SOUND_ANY);
    while (!why && (got = sound_read(&in, piece, STREAM_PIECE)) > 0) {
        pthread_mutex_lock(&s->lock);
        while (s->n_read + got - s->n_taken > STREAM_ROOM) pthread_cond_wait(&s->changed, &s->lock);
        for (i = 0; i < got; i++) s->samples[s->n_read++ % STREAM_ROOM] = piece[i];
        pthread_cond_broadcast(&s->changed);
        pthread_mutex_unlock(&s->lock);
    }
    if (!why && ferror(s->file)) why = "the sound cannot be read to its end";
    pthread_mutex_lock(&s->lock);
    s->ended = 1, s->cut = why ? 0 : in.cut, s->why = why;
    pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->lock);
    if (!why) sound_close(&in);
    return NULL;
}

/* Begins to read. Returns NULL, or what is wrong. The caller keeps the file. */
static const char *stream_open(stream *s, FILE *file) {
    memset(s, 0, sizeof *s);
    s->file = file;
    pthread_mutex_init(&s->lock, NULL), pthread_cond_init(&s->changed, NULL);
    if (pthread_create(&s->thread, NULL, stream_read, s) != 0) return "a thread cannot be started";
    pthread_detach(s->thread);
    return NULL;
}

/* Takes at most n samples, and waits for the first one for at most some milliseconds. Returns how
   many there were, or -1 at the end of the sound. */
static int32_t stream_take(stream *s, float *out, int32_t n, int milliseconds) {
    struct timespec until;
    int32_t i, late = 0;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += milliseconds * 1000000L;
    until.tv_sec += until.tv_nsec / 1000000000L, until.tv_nsec %= 1000000000L;
    pthread_mutex_lock(&s->lock);
    while (s->n_read == s->n_taken && !s->ended && !late)
        late = pthread_cond_timedwait(&s->changed, &s->lock, &until) == ETIMEDOUT;
    if (n > s->n_read - s->n_taken) n = (int32_t)(s->n_read - s->n_taken);
    for (i = 0; i < n; i++) out[i] = s->samples[s->n_taken++ % STREAM_ROOM];
    if (!n && s->ended) n = -1;
    pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->lock);
    return n;
}

#endif
