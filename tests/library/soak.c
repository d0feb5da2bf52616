/* soak.c: random work for a long time in one process: soak SECONDS MODEL[:LINES] ... Four threads
   each pick one of four sessions. They decode, translate or score with it, cancel midway, send
   requests that are refused, or make the session anew on another model. A sentence must give the
   same bits under a setting each time, whatever ran in between, and memory must not grow. */
#define _POSIX_C_SOURCE 200809L
#include "transformer.h"
#include "rows.h"
#include "test.h"

#include <pthread.h>
#include <time.h>
#include <unistd.h>

enum { THREADS = 4, MODELS = 8, SENTENCES = 48, SETTINGS = 96 };
enum { BATCH = 6, SOURCE = 20, TARGET = 40, BEAM = 4, VOCABULARY = 8192 };
enum { TEXT = SETTINGS, SCORE, KINDS }; /* settings for a sentence besides decode options */

typedef struct subject {
    const char *name;
    tfm_model *model;
    const tfm_config *config;
    int32_t ids[SENTENCES][SOURCE], lengths[SENTENCES];
    char texts[SENTENCES][200];
    int n_texts;                      /* lines of the file; the other sentences are random ids */
    uint64_t first[SENTENCES][KINDS]; /* hash of the first result; 0: no result yet */
} subject;

typedef struct seat { /* a session and the memory that holds it */
    pthread_mutex_t mutex;
    tfm_session *session;
    subject *on; /* the model of the session */
    void *memory;
    size_t size;
    int taken;
} seat;

typedef struct setting {
    tfm_decode_options options;
    by_row with;
    int32_t shortlist[VOCABULARY], forbidden[3], sequence[2], prefix[BATCH * 3], lengths[BATCH];
    int32_t prompt[BATCH * 3], prompt_lengths[BATCH];
    uint64_t seeds[BATCH];
    id_matrix prefixes, prompts;
    tfm_ids suppressed;
} setting;

static subject subjects[MODELS];
static seat seats[THREADS];
static int n_subjects;
/* guards the counters below, and the hashes in first */
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static long sentences, again, differ, cancelled, refused, made, faults, over;

/* splitmix64 */
static uint64_t draw(uint64_t *state) {
    uint64_t z = *state += 0x9E3779B97F4A7C15u;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
}
static int32_t below(uint64_t *state, int32_t n) { return (int32_t)(draw(state) % (uint64_t)n); }

/* FNV-1a */
static void mix(uint64_t *hash, const void *data, size_t size) {
    const unsigned char *at = (const unsigned char *)data;
    while (size--) *hash = (*hash ^ *at++) * 0x100000001B3u;
}

static void count(long *counter) {
    pthread_mutex_lock(&mutex);
    ++*counter;
    pthread_mutex_unlock(&mutex);
}

static int ended(void) {
    int yes;
    pthread_mutex_lock(&mutex);
    yes = over || faults || differ > 20;
    pthread_mutex_unlock(&mutex);
    return yes;
}

static void must(tfm_status status, const tfm_error *err) {
    if (status == TFM_OK) return;
    count(&faults);
    printf("FAIL %s: %s\n", tfm_status_text(status), err->text);
}

static void compare(subject *m, int sentence, int kind, uint64_t hash) {
    uint64_t *first = &m->first[sentence][kind];
    pthread_mutex_lock(&mutex);
    sentences++;
    if (!*first) *first = hash | 1;
    else again++;
    if (*first != (hash | 1)) {
        differ++;
        printf("FAIL %s, sentence %d, setting %d: other bits\n", m->name, sentence, kind);
    }
    pthread_mutex_unlock(&mutex);
}

/* Returns any target token except the end token; with a shortlist, one from it. */
static int32_t token(const subject *m, const setting *s, uint64_t *state) {
    const int32_t *list = s->options.shortlist;
    for (;;) {
        int32_t id = list ? list[below(state, s->options.n_shortlist)]
                          : below(state, m->config->tgt_vocab_size);
        if (id != m->config->end) return id;
    }
}

/* Makes some tokens likelier and forbids one, by the tokens so far. */
static void edit_logits(void *user, int32_t row, const int32_t *ids, int32_t n, float *logits) {
    const subject *m = (const subject *)user;
    uint64_t state = (uint64_t)(n ? ids[n - 1] : 0) * 64 + (uint64_t)n;
    int32_t i, V = m->config->tgt_vocab_size, id;
    (void)row;
    for (i = 0; i < 8; i++) logits[below(&state, V)] += 1;
    id = below(&state, V);
    if (id != m->config->end) logits[id] = -INFINITY;
}

/* Makes setting number k of a model for these sentences. The same k always gives the same
   setting. */
static void make_setting(setting *s, const subject *m, int k, const int *which, int32_t rows) {
    uint64_t state = (uint64_t)(m - subjects) * 1000 + (uint64_t)k, own;
    tfm_decode_options *o = &s->options;
    int32_t i, n, V = m->config->tgt_vocab_size;
    memset(o, 0, sizeof *o), memset(&s->with, 0, sizeof s->with);
    o->max_length = below(&state, 3) ? 0 : 6 + below(&state, TARGET - 5);
    o->min_length = below(&state, 4) ? 0 : below(&state, 6);
    if (k % 4 == 1) {
        o->beam = 2 + below(&state, BEAM - 1), o->n_best = 1 + below(&state, o->beam);
        o->length_penalty = 0.25 * below(&state, 6), o->coverage_penalty = 0.1 * below(&state, 3);
        o->patience = below(&state, 3),
        o->stop = below(&state, 2) ? TFM_STOP_EARLY_NEVER : TFM_STOP_CTRANSLATE2;
    } else if (k % 4 == 2) {
        o->samples = 1 + below(&state, BEAM), o->temperature = 0.5 * below(&state, 4);
        o->top_k = below(&state, 20), o->top_p = 0.25 * below(&state, 4), s->with.seeds = s->seeds;
    } else if (k % 4 == 3) o->alternatives = 1 + below(&state, BEAM);
    if (below(&state, 3) == 0) {
        for (i = 0, n = 0; i < V; i++)
            if (i == m->config->end || i == m->config->forced || draw(&state) & 1)
                s->shortlist[n++] = i;
        o->shortlist = s->shortlist, o->n_shortlist = n;
    }
    for (i = 0, n = below(&state, 4); i < n; i++) s->forbidden[i] = token(m, s, &state);
    o->suppressed = s->forbidden, o->n_suppressed = n;
    for (i = 0; i < 2; i++) s->sequence[i] = token(m, s, &state);
    s->suppressed = tfm_ids_make(s->sequence, 2);
    if (below(&state, 3) == 0)
        o->suppressed_sequences = &s->suppressed, o->n_suppressed_sequences = 1;
    o->no_unknown = below(&state, 2), o->no_repeat_ngram = below(&state, 4);
    o->repetition_penalty = below(&state, 3) ? 0 : 1.25;
    o->attention_layer = below(&state, m->config->n_decoder_layers + 1);
    o->attention_head = below(&state, m->config->n_heads + 1);
    s->prefixes.ids = s->prefix, s->prefixes.lengths = s->lengths;
    s->prefixes.rows = rows, s->prefixes.width = 3;
    if (below(&state, 3) == 0) s->with.prefix = &s->prefixes;
    if (s->with.prefix && k % 4 < 2 && below(&state, 2)) o->prefix_bias = 0.5;
    s->prompts.ids = s->prompt, s->prompts.lengths = s->prompt_lengths;
    s->prompts.rows = rows, s->prompts.width = 3;
    if (below(&state, 3) == 0) s->with.prompt = &s->prompts;
    if (below(&state, 3) == 0) o->edit_logits = edit_logits, o->edit_user = (void *)m;
    for (i = 0; i < rows; i++) {
        own = state ^ (uint64_t)which[i] * 7919u;
        s->seeds[i] = draw(&own), s->lengths[i] = below(&own, 4);
        s->prompt_lengths[i] = 1 + below(&own, 3);
        for (n = 0; n < 3; n++) s->prompt[i * 3 + n] = token(m, s, &own);
        for (n = 0; n < 3; n++) s->prefix[i * 3 + n] = token(m, s, &own);
    }
}

/* Hashes everything that a row's results say. */
static uint64_t hash_row(tfm_session *session, int32_t row, int32_t source, tfm_error *err) {
    float attention[TARGET * SOURCE];
    int32_t n = tfm_result_count(session, row), rank, finish;
    uint64_t hash = 0xCBF29CE484222325u;
    mix(&hash, &n, sizeof n);
    for (rank = 0; rank < n; rank++) {
        tfm_result r;
        tfm_tensor weights;
        memset(&r, 0, sizeof r);
        must(tfm_result_get(session, row, rank, &r, err), err);
        finish = (int32_t)r.finish;
        mix(&hash, &finish, sizeof finish), mix(&hash, &r.length, sizeof r.length);
        mix(&hash, r.ids, (size_t)r.length * sizeof *r.ids);
        mix(&hash, &r.log_probability, sizeof(double)), mix(&hash, &r.score, sizeof(double));
        if (!r.length) continue;
        weights = tfm_tensor_2d(attention, TFM_DTYPE_F32, r.length, source);
        must(tfm_result_attention(session, row, rank, &weights, err), err);
        mix(&hash, attention, (size_t)(r.length * source) * sizeof *attention);
    }
    return hash;
}

/* Decodes a random batch. A third of the decodes is abandoned after some steps. Some of the others
   are interrupted by a start that is refused, which must change nothing. */
static void decode(seat *at, setting *s, const id_matrix *src, const int *which, int k,
                   uint64_t *state, tfm_error *err) {
    int32_t row, running = 1, steps = 0, last = below(state, 3) ? INT32_MAX : below(state, 12);
    int32_t interrupted = below(state, 4) ? -1 : below(state, 8);
    tfm_decode_options bad;
    make_setting(s, at->on, k, which, src->rows);
    must(start_rows(at->session, src, &s->with, &s->options, err), err);
    for (; running && steps < last; steps++) {
        must(tfm_session_step(at->session, &running, err), err);
        if (steps != interrupted) continue;
        bad = s->options;
        bad.n_suppressed = -1;
        if (start_rows(at->session, src, &s->with, &bad, err) == TFM_E_ARGUMENT) count(&refused);
        else count(&faults);
    }
    for (row = 0; row < src->rows; row++) {
        uint64_t hash = hash_row(at->session, row, src->lengths[row], err);
        if (!running) compare(at->on, which[row], k, hash);
    }
    if (running) count(&cancelled);
}

static void score(seat *at, const id_matrix *src, const int *which, tfm_error *err) {
    int32_t targets[BATCH * SOURCE], i;
    double out[BATCH * (SOURCE + 1)];
    id_matrix tgt = *src;
    for (i = 0; i < src->rows * src->width; i++)
        targets[i] = src->ids[i] % at->on->config->tgt_vocab_size;
    tgt.ids = targets;
    must(score_rows(at->session, src, &tgt, 0, out, err), err);
    for (i = 0; i < src->rows; i++) {
        uint64_t hash = 1;
        mix(&hash, out + i * (src->width + 1), (size_t)(src->lengths[i] + 1) * sizeof *out);
        compare(at->on, which[i], SCORE, hash);
    }
}

static void translate(seat *at, const int *which, int32_t rows, tfm_error *err) {
    tfm_text in[BATCH], out[BATCH];
    char buffer[BATCH * 1024];
    int32_t i;
    for (i = 0; i < rows; i++) {
        in[i].data = at->on->texts[which[i] % at->on->n_texts];
        in[i].size = strlen(in[i].data);
    }
    must(translate_texts(at->session, in, NULL, out, rows, NULL, buffer, sizeof buffer, err), err);
    for (i = 0; i < rows; i++) {
        uint64_t hash = 2;
        mix(&hash, out[i].data, out[i].size);
        compare(at->on, which[i] % at->on->n_texts, TEXT, hash);
    }
}

/* Seats are blocks of memory for one session at a time. Each new session finds the bytes of the
   last one there. */
static void *allocate(void *user, size_t bytes) {
    seat *at = (seat *)user;
    if (at->taken++ || bytes > at->size) return NULL;
    return at->memory;
}
static void release(void *user, void *pointer) {
    seat *at = (seat *)user;
    at->taken--;
    memset(pointer, 0xA5, at->size);
}

static tfm_session_options limits(const tfm_allocator *allocator, int32_t threads,
                                  const subject *m) {
    tfm_session_options o;
    memset(&o, 0, sizeof o);
    o.max_batch = BATCH, o.max_source = SOURCE, o.max_target = TARGET, o.max_beam = BEAM;
    o.attention = 1, o.threads = threads, o.max_shortlist = m->config->tgt_vocab_size;
    o.allocator = allocator;
    return o;
}

static void renew(seat *at, subject *m, int32_t threads) {
    tfm_allocator allocator;
    tfm_session_options o;
    tfm_error err;
    allocator.allocate = allocate, allocator.release = release, allocator.user = at;
    o = limits(&allocator, threads, m);
    tfm_session_free(at->session);
    at->session = NULL, at->on = m;
    must(tfm_session_create(&at->session, m->model, &o, &err), &err);
    count(&made);
}

static void *work(void *context) {
    uint64_t state = *(uint64_t *)context;
    setting *s = (setting *)malloc(sizeof *s);
    while (s && !ended()) {
        int32_t ids[BATCH * SOURCE], lengths[BATCH], i, task = below(&state, 8);
        int which[BATCH];
        id_matrix src;
        tfm_error err;
        seat *at = &seats[below(&state, THREADS)];
        if (pthread_mutex_trylock(&at->mutex)) continue;
        if (below(&state, 200) == 0)
            renew(at, &subjects[below(&state, n_subjects)], 1 + below(&state, 2));
        memset(&src, 0, sizeof src);
        src.ids = ids, src.lengths = lengths, src.width = SOURCE;
        src.rows = 1 + below(&state, BATCH);
        memset(ids, 0, sizeof ids);
        for (i = 0; i < src.rows; i++) {
            which[i] = below(&state, SENTENCES);
            lengths[i] = at->on->lengths[which[i]];
            memcpy(ids + i * SOURCE, at->on->ids[which[i]], sizeof *ids * SOURCE);
        }
        if (task == 0) score(at, &src, which, &err);
        else if (task == 1 && at->on->n_texts) translate(at, which, src.rows, &err);
        else decode(at, s, &src, which, below(&state, SETTINGS), &state, &err);
        pthread_mutex_unlock(&at->mutex);
    }
    free(s);
    return NULL;
}

/* Loads a model and its sentences: lines of a file that are short enough, then random ids. */
static void load(subject *m, char *name) {
    static double memory[4096];
    char *lines = strchr(name, ':'), line[sizeof m->texts[0]];
    FILE *file = NULL;
    uint64_t state = 1;
    tfm_error err;
    int i = 0, k;
    if (lines) *lines++ = 0;
    m->name = name;
    must(tfm_model_load_file(&m->model, name, NULL, &err), &err);
    if (!m->model || (lines && !(file = fopen(lines, "r")))) exit(2);
    m->config = tfm_model_config(m->model);
    while (file && i < SENTENCES && fgets(line, sizeof line, file)) {
        tfm_arena scratch = tfm_arena_make(memory, sizeof memory);
        line[strcspn(line, "\n")] = 0;
        if (tfm_model_tokenize(m->model, tfm_text_make(line, strlen(line)), TFM_TEXT_FORM_TEXT,
                               m->ids[i], SOURCE, &m->lengths[i], &scratch, &err) == TFM_OK)
            strcpy(m->texts[i++], line);
    }
    if (file) fclose(file);
    m->n_texts = i;
    for (; i < SENTENCES; i++) {
        m->lengths[i] = 1 + below(&state, SOURCE);
        for (k = 0; k < m->lengths[i]; k++) do
                m->ids[i][k] = below(&state, m->config->src_vocab_size);
            while (m->ids[i][k] == m->config->src_pad);
    }
}

/* Returns whether the threads have done each kind of work at least once. */
static int all_kinds_done(void) {
    int done;
    pthread_mutex_lock(&mutex);
    done = again > 0 && cancelled > 0 && refused > 0 && made > THREADS;
    pthread_mutex_unlock(&mutex);
    return done;
}

static void report(const char *when, time_t seconds) {
    pthread_mutex_lock(&mutex);
    printf("%s %ld s: %ld sentences, %ld compared with their first, %ld differ; %ld decodes "
           "cancelled, "
           "%ld starts refused, %ld sessions made, %ld faults, %ld pages\n",
           when, (long)seconds, sentences, again, differ, cancelled, refused, made, faults,
           test_pages());
    pthread_mutex_unlock(&mutex);
    fflush(stdout);
}

int main(int argc, char **argv) {
    static uint64_t seeds[THREADS] = {11, 22, 33, 44};
    long length = argc > 1 ? atol(argv[1]) : 10, before = 0, after;
    time_t began = time(NULL), now, told = 0;
    pthread_t threads[THREADS];
    size_t bytes, most = 0;
    tfm_session_options o;
    tfm_error err;
    int i;
    for (i = 2; i < argc && n_subjects < MODELS; i++) {
        load(&subjects[n_subjects], argv[i]);
        o = limits(NULL, 2, &subjects[n_subjects++]);
        must(tfm_session_bytes(subjects[n_subjects - 1].model, &o, &bytes, &err), &err);
        if (bytes > most) most = bytes;
    }
    if (!n_subjects) return 2;
    for (i = 0; i < THREADS; i++) {
        pthread_mutex_init(&seats[i].mutex, NULL);
        seats[i].size = most, seats[i].memory = malloc(most);
        if (!seats[i].memory) return 2;
        memset(seats[i].memory, 0xA5, most);
        renew(&seats[i], &subjects[i % n_subjects], 1);
    }
    for (i = 0; i < THREADS; i++) pthread_create(&threads[i], NULL, work, &seeds[i]);
    /* On a busy machine some work takes longer to happen: wait for it, but not forever. */
    while (((now = time(NULL) - began) < length || (now < 10 * length && !all_kinds_done())) &&
           !ended()) {
        sleep(1);
        if (now / 60 > told) report("after", now), told = now / 60;
        if (!before && now >= length / 10) before = test_pages();
    }
    count(&over);
    for (i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
    after = test_pages();
    report("ended after", time(NULL) - began);
    CHECK(all_kinds_done(), "all kinds of work were done");
    CHECK(differ == 0 && faults == 0, "%ld sentences gave the bits of their first time", again);
    if (before)
        CHECK(after <= before + 64, "%ld pages of memory after a tenth of the time, %ld at the end",
              before, after);
    else test_skip("memory of the sessions: this system does not report it, or a sanitizer runs");
    for (i = 0; i < THREADS; i++) {
        tfm_session_free(seats[i].session);
        CHECK(seats[i].taken == 0, "");
        free(seats[i].memory);
    }
    for (i = 0; i < n_subjects; i++) tfm_model_free(subjects[i].model);
    return test_done("soak");
}
