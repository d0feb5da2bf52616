/* fuzz_live.h: hears live sound with a changed model. What is written must be UTF-8, its times must
   go forward within the sound, and a run must not be due again without new sound. */
#ifndef FUZZ_LIVE_H
#define FUZZ_LIVE_H

#include "fuzz_whisper.h"
#if defined(__GNUC__)
#pragma GCC diagnostic ignored "-Wunused-function" /* of the headers */
#endif
#include "examples/transcribe/transcriber.h"
#include "examples/transcribe/live.h"

enum { FUZZ_LIVE_ROOM = 1 << 16 };

/* Converts a WAV file of fuzz_wave, as if its rate were 16 kHz. Returns the number of samples. */
static int64_t fuzz_samples(const uint8_t *wave, size_t size, float *x) {
    int64_t k, n = (int64_t)(size / 2);
    if (n > FUZZ_LIVE_ROOM) n = FUZZ_LIVE_ROOM;
    for (k = 0; k < n; k++)
        x[k] = (float)(wave[2 * k] + 256 * (wave[2 * k + 1] ^ 128) - 32768) / 32768;
    return n;
}

/* Hears n samples in pieces. */
static void fuzz_live(transcriber *h, const transcriber_options *settings, const live_options *o,
                      const float *x, int64_t n, int64_t piece) {
    static live l;
    tfm_status status;
    int64_t i;
    double said = 0;
    /* A run has a frame of the detector that no run before it had, ends a part, or cuts a full
       window. */
    int64_t runs = 0, most = 4 + 4 * n / 320;
    err.text[0] = 0;
    status = live_begin(&l, h, settings, o, &err);
    for (i = 0; i <= n && status == TFM_OK; i += piece) {
        status = i < n ? live_feed(&l, x + i, n - i < piece ? n - i : piece, &err)
                       : live_finish(&l, &err);
        while (status == TFM_OK && live_is_due(&l)) {
            need(runs++ < most);
            if ((status = live_hear(&l, &err)) != TFM_OK) break;
            need(test_is_utf8(l.stable, strlen(l.stable)) &&
                 test_is_utf8(l.tentative, strlen(l.tentative)));
            need(l.tentative_end >= l.tentative_begin);
            if (!l.stable[0]) continue;
            need(l.stable_begin >= said && l.stable_end >= l.stable_begin);
            said = l.stable_end;
        }
        if (i < n && i + piece > n) i = n - piece;
    }
    need(status == TFM_OK || err.text[0]);
    live_free(&l);
}

#endif
