/* guard.h: tells a text that somebody said from a text that the model made up. Needs transformer.h,
   speech.h and whisper.h before it.

       guard g;                                                      all zeros
       status = guard_learn(&g, &w, &s, mel, embeddings, &err);     once, before a window is encoded
       ... encode the window and decode its text
       status = guard_compare(&g, &w, ids, n, &err);
       if (guard_is_made_up(&g, &w, ids, first, n)) ... leave out these tokens
       guard_free(&g);

   Whisper also writes texts for noise, music and silence. Such a text does not depend on the sound:
   each of its tokens is about as probable if the model hears silence. A spoken text is much more
   probable with its sound. So the text is scored twice, with the sound of its window and with 30 s
   of silence. The difference of the log-probabilities is the gain of a token. The gain of a text is
   small if it is below a limit, or below the text's -log-probability with its sound: then more
   remains unexplained than the sound explains. A segment was made up if its gain is small, and so
   is that of its whole window, or the segment is improbable with its sound, too. (Words that
   somebody repeats have a small gain as well, but they are probable, and the rest of their window
   has a large gain.) A loop fills its window with tokens of a small gain. README.md has the
   numbers. */
#ifndef GUARD_H
#define GUARD_H

/* A spoken segment gains at least this much log-probability for each token, and in all. */
#define GUARD_MEAN 1.3
#define GUARD_SUM 2.0
#define GUARD_LOG_PROB -0.7 /* for each token: a segment below it is improbable */

typedef struct guard {
    float
        *silence; /* the encoder's output for silence [SPEECH_POSITIONS, D]; NULL: not known yet */
    double gain[WHISPER_TOKENS], log_prob[WHISPER_TOKENS]; /* of the window's tokens; 0 for times */
    int is_made_up;                                        /* the whole window has a small gain */
} guard;

static void guard_free(guard *g) { free(g->silence), g->silence = NULL; }

/* Encodes silence. The session's last source is silence then. mel [SPEECH_FRAMES, mels] and
   embeddings [SPEECH_POSITIONS, D] are scratch. */
static tfm_status guard_learn(guard *g, whisper *w, speech *s, float *mel, float *embeddings,
                              tfm_error *err) {
    tfm_tensor input = tfm_tensor_2d(embeddings, TFM_DTYPE_F32, SPEECH_POSITIONS, s->width), out;
    tfm_request request = tfm_request_ids(NULL, 0);
    tfm_status status;
    int64_t i;
    for (i = 0; i < SPEECH_FRAMES * s->mels; i++)
        mel[i] = -10; /* the logarithm of the least power */
    status = speech_convolve(s, mel, SPEECH_FRAMES, SPEECH_FRAMES, -10, embeddings, err);
    request.embeddings = &input;
    if (status == TFM_OK) status = tfm_session_encode(w->session, &request, 1, err);
    if (status != TFM_OK) return status;
    out = tfm_session_encoder_output(w->session);
    g->silence = (float *)malloc((size_t)(out.dims[1] * out.dims[2]) * sizeof *g->silence);
    if (!g->silence) {
        snprintf(err->text, sizeof err->text, "no memory for the sound of silence");
        return err->status = TFM_E_MEMORY;
    }
    memcpy(g->silence, out.data, (size_t)(out.dims[1] * out.dims[2]) * sizeof *g->silence);
    return TFM_OK;
}

/* Returns whether the sound explains tokens first to first + n - 1 of ids hardly better than
   silence. */
static int guard_is_small(const guard *g, const whisper *w, const int32_t *ids, int32_t first,
                          int32_t n) {
    double gain = 0, log_prob = 0;
    int32_t i, m = 0;
    for (i = first; i < first + n; i++)
        if (ids[i] < w->end) gain += g->gain[i], log_prob += g->log_prob[i], m++;
    return gain < GUARD_SUM || gain < GUARD_MEAN * m || gain < -log_prob;
}

/* Computes by how much the session's last source, a window, makes each token of ids [n] more
   probable than silence does. The session's last source is silence then. */
static tfm_status guard_compare(guard *g, whisper *w, const int32_t *ids, int32_t n,
                                tfm_error *err) {
    const tfm_config *c = tfm_model_config(w->model);
    tfm_tensor silence =
        tfm_tensor_2d(g->silence, TFM_DTYPE_F32, SPEECH_POSITIONS, (int64_t)c->d_memory);
    tfm_request request = tfm_request_ids(NULL, 0);
    int32_t text[WHISPER_TOKENS], n_before = 0, m, i;
    double with[WHISPER_TOKENS], without[WHISPER_TOKENS];
    tfm_ids target;
    tfm_status status;
    if (w->language) {
        text[n_before++] = w->language;
        text[n_before++] = w->options.is_translation ? w->translate : w->transcribe;
    }
    text[n_before++] = w->no_times;
    for (i = 0, m = n_before; i < n && m < WHISPER_TOKENS - 1; i++)
        if (ids[i] < w->end) text[m++] = ids[i];
    target = tfm_ids_make(text, m), request.memory = &silence;
    status = tfm_session_score(w->session, NULL, 1, &target, n_before, with, err);
    if (status == TFM_OK)
        status = tfm_session_score(w->session, &request, 1, &target, n_before, without, err);
    for (i = 0, m = n_before; i < n && status == TFM_OK; i++) {
        int is_scored = ids[i] < w->end && m < WHISPER_TOKENS - 1;
        g->gain[i] = is_scored ? with[m] - without[m] : 0;
        g->log_prob[i] = is_scored ? with[m] : 0;
        m += is_scored;
    }
    g->is_made_up = guard_is_small(g, w, ids, 0, n);
    return status;
}

/* Returns whether the window's tokens first to first + n - 1 of ids are a text that nobody said. */
static int guard_is_made_up(const guard *g, const whisper *w, const int32_t *ids, int32_t first,
                            int32_t n) {
    double sum = 0;
    int32_t i, m = 0;
    for (i = first; i < first + n; i++)
        if (ids[i] < w->end) sum += g->log_prob[i], m++;
    return guard_is_small(g, w, ids, first, n) && (g->is_made_up || sum < GUARD_LOG_PROB * m);
}

#endif
