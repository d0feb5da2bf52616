/* Prints the probability that somebody speaks in each frame of a sound: voices MODEL SOUND.wav. For
   tests/transcribe/compare.py. */
#include "transformer.h"
#if defined(__GNUC__)
#pragma GCC diagnostic ignored "-Wunused-function" /* of the headers */
#endif
#include "examples/transcribe/sound.h"
#include "examples/transcribe/speech.h"
#include "examples/transcribe/vad.h"
#include "examples/transcribe/voice.h"

int main(int argc, char **argv) {
    static float samples[SOUND_CHUNK];
    tfm_safetensors *file = NULL;
    tfm_error err;
    voice_options o = {0.5, 2000, 400};
    sound in;
    vad net;
    voice v;
    int64_t i;
    FILE *f = argc == 3 ? fopen(argv[2], "rb") : NULL;
    err.text[0] = 0;
    if (!f || sound_open(&in, f, SOUND_WAV) ||
        tfm_safetensors_open_file(&file, argv[1], NULL, &err) != TFM_OK ||
        vad_load(&net, file, &err) != TFM_OK || !net.is_there) {
        fprintf(stderr, "voices: no sound, or no model with a voice detector: %s\n", err.text);
        return 1;
    }
    voice_begin(&v, &net, &o, NULL, 0), v.is_recording = 1;
    while (voice_read(&v, &in, samples, SOUND_CHUNK) > 0) {
    }
    for (i = 0; i < v.n_known; i++) printf("%.7f\n", v.known[i]);
    free(v.known), voice_end(&v), vad_free(&net), sound_close(&in), fclose(f);
    tfm_safetensors_free(file);
    return 0;
}
