/* Tests examples/transcribe/listen.h with the random model of tests/data/transcribe: the memory has
   the same bits for pieces of 1 to 16,000 samples as for the whole sound, is as long as
   listen_positions says, comes as soon as the windows allow, and the state does not grow. Files
   that lack something are refused by name, and files with changed bytes, also of Moonshine, give a
   text or a message. With live.h each utterance gets the text that it has as a file of its own,
   after the tokens that became stable while it was spoken. */
#include "transformer.h"
#include "test.h"
#if defined(__GNUC__)
#pragma GCC diagnostic ignored "-Wunused-function" /* of the headers */
#endif
#define SPEECH_SECONDS 8
#include "../../examples/transcribe/transcriber.h"
#include "../../examples/transcribe/live.h"

#define MODEL "tests/data/transcribe/moonshine-streaming.safetensors"
enum { SAMPLES = 40123, ROOM = 40000 };

static float samples[SAMPLES], whole[ROOM], parts[ROOM];
static listen_weights w;

/* Computes the memory of n samples in pieces. Returns the rows. piece 0: of random sizes. */
static int64_t compute(float *memory, int64_t n, int64_t piece, int64_t *late) {
    listen l;
    listen_sink to = {NULL, 0, 0, 0};
    tfm_error err;
    int64_t i, k, soonest = 0, longest = 0;
    unsigned seed = 5;
    to.at = memory, to.width = w.width, to.room = ROOM / w.width;
    CHECK(listen_begin(&l, &w, &err) == TFM_OK, "");
    for (i = 0; i < n; i += k) {
        seed = seed * 1103515245u + 12345u;
        k = piece ? piece : 1 + (int64_t)(seed >> 16) % 1000;
        if (k > n - i) k = n - i;
        CHECK(listen_feed(&l, samples + i, k, listen_keep, &to, &err) == TFM_OK, "");
        soonest = (i + k) / w.frame / 4 -
                  to.n; /* rows that the sound has begun, less those that are there */
        if (soonest > longest) longest = soonest;
        CHECK(l.x[0].n <= w.layers[0].left + w.layers[0].right + LISTEN_ROWS, "");
    }
    CHECK(listen_finish(&l, listen_keep, &to, &err) == TFM_OK, "");
    listen_end(&l);
    if (late) *late = longest;
    return to.n;
}

static void test_pieces(void) {
    static const int64_t pieces[] = {1, 2, 79, 80, 81, 160, 999, 4096, 16000, 0};
    int64_t rows = compute(whole, SAMPLES, SAMPLES, NULL), n, late, ahead = 0;
    size_t k;
    int32_t i;
    SECTION("pieces");
    for (i = 0; i < w.n_layers; i++) ahead += w.layers[i].right - 1;
    CHECK(rows == listen_positions(&w, SAMPLES), "as many rows as listen_positions says");
    for (k = 0; k < sizeof pieces / sizeof *pieces; k++) {
        memset(parts, 0, sizeof parts);
        n = compute(parts, SAMPLES, pieces[k], &late);
        CHECK(n == rows && !memcmp(parts, whole, (size_t)(rows * w.width) * sizeof *parts),
              "pieces of %d samples: the same bits", (int)pieces[k]);
        if (pieces[k] == 1)
            CHECK(late <= ahead + 1, "a row comes when its windows are complete: %d late, %d ahead",
                  (int)late, (int)ahead);
    }
    for (n = 0; n < 2000; n += 37) {
        rows = compute(parts, n, 1, NULL);
        if (rows != listen_positions(&w, n)) break;
    }
    CHECK(n >= 2000, "%d samples give %d rows, not %d", (int)n, (int)rows,
          (int)listen_positions(&w, n));
}

/* A file whose name of a tensor or key is spoilt is refused by that name. */
static void test_spoilt(void) {
    static const char *const names[] = {"extra.listen.frames.weight",
                                        "extra.listen.log_k",
                                        "extra.listen.conv2.bias",
                                        "extra.listen.layers.0.self_attn.q_proj.weight",
                                        "extra.listen.layers.0.norm2.weight",
                                        "extra.listen.norm.weight",
                                        "extra.listen.positions.weight",
                                        "extra.listen.windows",
                                        "extra.listen.heads",
                                        "extra.listen.activation"};
    FILE *f = fopen(MODEL, "rb");
    static char bytes[1 << 18], changed[1 << 18];
    size_t n = f ? fread(bytes, 1, sizeof bytes, f) : 0, k, i;
    if (f) fclose(f);
    SECTION("files that lack something");
    for (k = 0; k < sizeof names / sizeof *names; k++) {
        tfm_safetensors *file = NULL;
        tfm_error err;
        size_t length = strlen(names[k]);
        listen_weights other;
        memcpy(changed, bytes, n), err.text[0] = 0;
        for (i = 0; i + length + 2 < n; i++)
            if (changed[i] == '"' && !memcmp(changed + i + 1, names[k], length) &&
                changed[i + 1 + length] == '"')
                changed[i + length] = '_';
        CHECK(tfm_safetensors_open(&file, changed, n, NULL, &err) == TFM_OK, "");
        CHECK(listen_load(&other, file, &err) != TFM_OK && strstr(err.text, names[k]),
              "%s is missing: %s", names[k], err.text);
        tfm_safetensors_free(file);
    }
}

/* Hears a second with a file of which some bytes of the header are changed. */
static void hear_changed(const char *path, int mutants) {
    static char bytes[1 << 18], changed[1 << 18];
    FILE *f = fopen(path, "rb");
    size_t n = f ? fread(bytes, 1, sizeof bytes, f) : 0,
           header = 8 + (unsigned char)bytes[0] + 256u * (unsigned char)bytes[1];
    unsigned dice = 11;
    int i, k, heard = 0, refused = 0;
    if (f) fclose(f);
    for (i = 0; i < mutants; i++) {
        static transcriber h;
        static whisper_text text;
        tfm_safetensors *file = NULL;
        tfm_model *m = NULL;
        tfm_error err;
        memcpy(changed, bytes, n), err.text[0] = 0;
        for (k = 0; k < 1 + i % 3; k++) {
            size_t at;
            do { /* a digit, so that most files remain JSON */
                dice = dice * 1103515245u + 12345u, at = 8 + (dice >> 8) % (header - 8);
            } while (i % 4 && (changed[at] < '0' || changed[at] > '9'));
            dice = dice * 1103515245u + 12345u;
            changed[at] = i % 4 ? (char)('0' + (dice >> 8) % 10) : (char)(dice >> 8);
        }
        if (tfm_safetensors_open(&file, changed, n, NULL, &err) == TFM_OK &&
            tfm_model_load(&m, changed, n, NULL, &err) == TFM_OK &&
            transcriber_load(&h, m, file, 1, 2, 0, &err) == TFM_OK) {
            h.w.options.beam = 2;
            if (h.m.kind && moonshine_hear(&h.m, &h.s, &h.w, samples, 16000, &text, &err) == TFM_OK)
                heard++;
            transcriber_free(&h);
        } else if (err.text[0]) refused++;
        tfm_model_free(m), tfm_safetensors_free(file);
    }
    CHECK(heard > 0 && refused > mutants / 2, "%s: %d heard, %d refused of %d", path, heard,
          refused, mutants);
}

/* Writes what an utterance of n samples has as a file of its own, behind given tokens, as live
   text. */
static void hear_alone(transcriber *h, float *x, int64_t n, const int32_t *given, int32_t n_given,
                       char *text) {
    int32_t prompt[WHISPER_TOKENS], ids[2 * WHISPER_TOKENS], running = 1;
    tfm_decode_options o;
    tfm_request request;
    tfm_tensor rows;
    tfm_result r;
    tfm_error err;
    memset(&o, 0, sizeof o), memset(&request, 0, sizeof request), memset(&r, 0, sizeof r);
    CHECK(listen_whole(&h->m.listen, x, n, h->m.memory, &rows, &err) == TFM_OK, "");
    prompt[0] = tfm_model_config(h->w.model)->start;
    memcpy(prompt + 1, given, (size_t)n_given * sizeof *given);
    memcpy(ids, given, (size_t)n_given * sizeof *given);
    request.memory = &rows, request.prompt = tfm_ids_make(prompt, n_given + 1);
    o.max_length = (int32_t)((double)n * h->m.tokens_a_second / (int)SOUND_RATE) - 1 - n_given;
    if (o.max_length < 1) o.max_length = 1;
    CHECK(tfm_session_start(h->w.session, &request, 1, &o, &err) == TFM_OK, "%s", err.text);
    while (running && tfm_session_step(h->w.session, &running, &err) == TFM_OK) {
    }
    CHECK(tfm_result_get(h->w.session, 0, 0, &r, &err) == TFM_OK, "");
    memcpy(ids + n_given, r.ids, (size_t)r.length * sizeof *ids);
    CHECK(whisper_spell(&h->w, ids, n_given + r.length, &err) == TFM_OK, "");
    sprintf(text, "%s%s", h->w.text[0] ? " " : "", h->w.text);
}

/* Hears the samples live in pieces: the texts of all runs, and how many utterances there were. */
static int hear_live(transcriber *h, const live_options *how, int64_t n, int64_t piece, char *lines,
                     int *early) {
    static live l;
    static char text[WHISPER_TEXT], alone[WHISPER_TEXT];
    transcriber_options settings;
    tfm_error err;
    int64_t i, largest = 0;
    int utterances = 0;
    transcriber_defaults(&settings);
    lines[0] = text[0] = 0, *early = 0;
    CHECK(live_begin(&l, h, &settings, how, &err) == TFM_OK, "%s", err.text);
    for (i = 0; i <= n; i += piece) {
        if (i < n)
            CHECK(live_feed(&l, samples + i, n - i < piece ? n - i : piece, &err) == TFM_OK, "");
        if (i + piece > n) CHECK(live_finish(&l, &err) == TFM_OK, "");
        while (live_is_due(&l)) {
            int is_last = l.is_over || live_is_full(&l);
            int64_t start = l.start, end = l.end;
            int32_t given[WHISPER_TOKENS], n_given = l.n_given;
            memcpy(given, l.given, sizeof given);
            if (live_hear(&l, &err) != TFM_OK) printf("%s\n", err.text), exit(2);
            sprintf(lines + strlen(lines), "%s %.3f %.3f|%s\n", l.stable, l.stable_begin,
                    l.stable_end, l.tentative);
            CHECK(l.stable_begin <= l.stable_end && l.stable_end <= (double)l.fed / (int)SOUND_RATE,
                  "times");
            *early += !is_last && l.stable[0];
            strcat(text, l.stable);
            if (l.n + l.ear.x[0].n > largest) largest = l.n + l.ear.x[0].n;
            if (!is_last) continue;
            hear_alone(h, samples + start, end - start, given, n_given, alone);
            CHECK(!strcmp(text, alone),
                  "utterance from %d to %d, %d tokens were stable: got '%s', "
                  "wanted '%s'",
                  (int)start, (int)end, (int)n_given, text, alone);
            text[0] = 0, utterances++;
        }
    }
    CHECK(largest < 3 * (int)SOUND_RATE, "%d samples and rows were kept", (int)largest);
    live_free(&l);
    return utterances;
}

static void test_live(void) {
    static const int64_t pieces[] = {160, 1000, 16000};
    static char lines[1 << 16], first[1 << 16];
    static transcriber h;
    tfm_safetensors *file = NULL;
    tfm_model *m = NULL;
    tfm_error err;
    live_options how;
    int64_t i;
    int k, early = 0, utterances = 0;
    SECTION("live");
    CHECK(tfm_safetensors_open_file(&file, MODEL, NULL, &err) == TFM_OK &&
              tfm_model_load_file(&m, MODEL, NULL, &err) == TFM_OK &&
              transcriber_load(&h, m, file, 1, TRANSCRIBER_LIVE, 0, &err) == TFM_OK,
          "%s", err.text);
    h.m.tokens_a_second = 50;                       /* texts of more words */
    for (i = 11000; i < 16500; i++) samples[i] = 0; /* two pauses */
    for (i = 24000; i < 30000; i++) samples[i] = 0;
    live_defaults(&how);
    how.step = 0.05, how.pause = 0.2, how.lead = 0.05, how.shortest = 0.1, how.longest = 0.6;
    for (k = 0; k < 3; k++) {
        utterances = hear_live(&h, &how, SAMPLES, pieces[k], lines, &early);
        if (!k) strcpy(first, lines);
        CHECK(!strcmp(first, lines), "pieces of %d samples: the same texts", (int)pieces[k]);
    }
    CHECK(utterances >= 4 && early > 0, "%d utterances, %d texts were stable before their end",
          utterances, early);
    how.without_drafts = 1, hear_live(&h, &how, SAMPLES, 160, lines, &early);
    CHECK(!strcmp(first, lines), "without drafts: the same texts");
    how.step = 9;
    CHECK(hear_live(&h, &how, SAMPLES, 160, lines, &early) == utterances && !early,
          "one run an utterance: the text of a file");
    transcriber_free(&h), tfm_model_free(m), tfm_safetensors_free(file);
}

int main(void) {
    tfm_safetensors *file = NULL;
    tfm_error err;
    unsigned seed = 3;
    int i;
    for (i = 0; i < SAMPLES; i++) {
        seed = seed * 1103515245u + 12345u;
        samples[i] = (float)((double)(seed >> 8) / 8388608.0 - 1) * (float)fabs(sin(i / 3000.0));
    }
    if (tfm_safetensors_open_file(&file, MODEL, NULL, &err) != TFM_OK ||
        listen_load(&w, file, &err) != TFM_OK) {
        fprintf(stderr, "%s\n", err.text);
        return 1;
    }
    tfm_safetensors_free(file);
    test_pieces();
    test_spoilt();
    test_live();
    SECTION("changed files");
    hear_changed(MODEL, 400);
    hear_changed("tests/data/transcribe/moonshine.safetensors", 400);
    listen_free(&w);
    return test_done("test_listen");
}
