/* Threads: tests that any number of threads and a host's parallel-for give the same bits, and that
   sessions start, stop, sleep and run side by side, in threads and processes. Built with
   -fsanitize=thread this is the race test. */
#define TRANSFORMER_IMPLEMENTATION
#include "transformer.h"
#include "tiny.h"

/* The host's threads use the header's own wrappers of the system's threads. */
#ifdef TFM__THREADS
#define HOST_THREADS 8
#if defined(__unix__)
#include <sys/wait.h>
#include <unistd.h>
#define HOST_FORKS 3
#endif
#endif

enum { ROWS = 6, WIDTH = 40, TARGET = 24, VOCABULARY = 700 };
#ifdef TEST_SANITIZED /* a run takes seconds */
enum { TIMES = 1, MORE = 3 };
#else
enum { TIMES = 3, MORE = 1 };
#endif
enum { HOST_RUNS = TEST_SLICES };

/* The model is wide enough to make the library share products and attention. */
static tfm_model *wide_model(unsigned ssru, int t5, int gemma) {
    tiny t = tiny_default();
    t.d = 96, t.heads = 6, t.key = 16, t.value = 16, t.ff = 256, t.encoder = 2, t.decoder = 2;
    t.vs = 50, t.vt = VOCABULARY, t.packed = 1, t.ssru = ssru, t.t5 = t5;
    t.config = t5 ? ", \"start\": 1, \"end\": 2, \"src_pad\": 0, \"layer_norm\": \"rms\""
                  : ", \"start\": 1, \"end\": 2, \"src_pad\": 0";
    tiny_like_gemma(&t, gemma);
    if (gemma) t.config = tiny_gemma_configs[gemma], t.kv_heads = 2;
    return tiny_model(t);
}

static tfm_dtype cache = TFM_DTYPE_F32;

static tfm_session *make_session(const tfm_model *model, int32_t threads,
                                 const tfm_parallel *parallel) {
    tfm_session_options o;
    tfm_session *session = NULL;
    memset(&o, 0, sizeof o);
    o.max_batch = ROWS, o.max_source = WIDTH, o.max_target = TARGET, o.max_beam = 3;
    o.attention = 1, o.threads = threads, o.parallel = parallel, o.cache = cache;
    if (cache == TFM_DTYPE_F16) o.encoder_attention = TFM_DTYPE_BF16;
    must(tfm_session_create(&session, model, &o, &err));
    return session;
}

static int32_t ids[ROWS * WIDTH];
static const int32_t lengths[ROWS] = {WIDTH, 1, 17, 33, 5, 28};

/* Collects everything that one run gives, as bytes. */
typedef struct outcome {
    double scores[ROWS * 11];
    float logits[ROWS * 10 * VOCABULARY];
    struct {
        int32_t ids[TARGET], length;
        double score;
        float attention[TARGET * WIDTH];
    } rows[ROWS * 3];
} outcome;

static void run(tfm_session *s, outcome *out) {
    id_matrix src = tiny_batch(ids, lengths, ROWS, WIDTH), tgt = tiny_batch(ids, NULL, ROWS, 10);
    tfm_tensor logits = tfm_tensor_3d(out->logits, TFM_DTYPE_F32, ROWS, 10, VOCABULARY);
    tfm_decode_options o;
    int32_t row, k;
    memset(out, 0, sizeof *out);
    memset(&o, 0, sizeof o);
    must(forward_rows(s, &src, &tgt, NULL, &logits, &err));
    must(score_rows(s, &src, &tgt, 0, out->scores, &err));
    o.beam = o.n_best = 3, o.length_penalty = 1, o.min_length = 6;
    must(decode_rows(s, &src, NULL, &o, &err));
    for (row = 0; row < ROWS; row++)
        for (k = 0; k < tfm_result_count(s, row); k++) {
            tfm_result r;
            tfm_tensor attention;
            memset(&r, 0, sizeof r);
            must(tfm_result_get(s, row, k, &r, &err));
            attention = tfm_tensor_2d(out->rows[row * 3 + k].attention, TFM_DTYPE_F32, r.length,
                                      lengths[row]);
            must(tfm_result_attention(s, row, k, &attention, &err));
            memcpy(out->rows[row * 3 + k].ids, r.ids, (size_t)r.length * 4);
            out->rows[row * 3 + k].length = r.length, out->rows[row * 3 + k].score = r.score;
        }
}

/* A host's parallel-for that runs the parts backwards and counts them. */
static void backwards(void *user, tfm_task task, void *context, int32_t parts) {
    int32_t part;
    *(int64_t *)user += parts;
    for (part = parts - 1; part >= 0; part--) task(context, part);
}

static void same_bits(const tfm_model *model, int kind) {
    static outcome one, many;
    static const int32_t numbers[] = {2, 3, 4, 5, 6, 7};
    tfm_session *s = make_session(model, 1, NULL);
    tfm_parallel host;
    int64_t parts = 0;
    size_t i;
    int again, same;
    SECTION("the same bits for any number of threads");
    run(s, &one);
    CHECK(one.rows[0].length > 5 && one.scores[0] < 0, "");
    tfm_session_free(s);
    for (i = 0; i < sizeof numbers / sizeof *numbers; i += MORE) {
        if (!test_in_slice("numbers", kind * 6 + (long)i)) continue;
        s = make_session(model, numbers[i], NULL);
        for (again = 0, same = 1; again < TIMES; again++) {
            run(s, &many);
            same &= memcmp(&one, &many, sizeof one) == 0;
        }
        tfm_session_free(s);
        CHECK(same, "%d threads, every time", (int)numbers[i]);
    }
    host.run = backwards, host.user = &parts;
    s = make_session(model, 4, &host);
    run(s, &many);
    tfm_session_free(s);
    CHECK(memcmp(&one, &many, sizeof one) == 0 && parts > 1000,
          "a host's parallel-for that goes backwards, %ld parts", (long)parts);
}

static void lives(const tfm_model *model) {
    tfm_session *s[4];
    tfm_session_options o;
    tfm_session *none = NULL;
    tfm_parallel host;
    static outcome a, b;
    int i, same = 1;
    SECTION("starting, sleeping, stopping");
    for (i = 0; i < 50; i++) tfm_session_free(make_session(model, 4, NULL));
    CHECK(1, "50 sessions that never worked");
    for (i = 0; i < 4; i++) s[i] = make_session(model, 1 + i, NULL);
    run(s[0], &a);
    for (i = 1; i < 4; i++) {
        run(s[i], &b); /* while the other sessions' threads sleep */
        same &= memcmp(&a, &b, sizeof a) == 0;
    }
    for (i = 0; i < 4; i++) tfm_session_free(s[i]);
    CHECK(same, "four sessions, one after the other, ended while idle");
    memset(&o, 0, sizeof o);
    o.threads = 65;
    CHECK_FAILS(tfm_session_create(&none, model, &o, &err), TFM_E_ARGUMENT, "threads is 65");
    memset(&host, 0, sizeof host);
    o.threads = 2, o.parallel = &host;
    CHECK_FAILS(tfm_session_create(&none, model, &o, &err), TFM_E_ARGUMENT, "parallel has no run");
    CHECK(none == NULL, "outputs untouched");
}

#ifdef HOST_FORKS
/* Forks before the first thread starts, because fork copies only the calling thread of a
   process. */
static void processes(const tfm_model *model) {
    static outcome expected, child;
    tfm_session *s = make_session(model, 1, NULL);
    pid_t pids[HOST_FORKS];
    int i, status, same = 0;
    SECTION("fork after load");
    run(s, &expected);
    fflush(stdout);
    for (i = 0; i < HOST_FORKS; i++) {
        pids[i] = fork();
        if (pids[i] ==
            0) { /* Works on the parent's session, then on a session with threads of its own. */
            int good;
            run(s, &child);
            good = memcmp(&expected, &child, sizeof child) == 0;
            tfm_session_free(s);
            s = make_session(model, 1 + i, NULL);
            run(s, &child);
            good &= memcmp(&expected, &child, sizeof child) == 0;
            tfm_session_free(s);
            _exit(good ? 0 : 1);
        }
    }
    run(s, &child); /* at the same time as the child */
    for (i = 0; i < HOST_FORKS; i++)
        same += pids[i] > 0 && waitpid(pids[i], &status, 0) == pids[i] && status == 0;
    CHECK(same == HOST_FORKS && memcmp(&expected, &child, sizeof child) == 0,
          "%d processes and their parent: the same bits", same);
    tfm_session_free(s);
}
#endif

#ifdef HOST_THREADS
/* A host's thread runs the session that it receives, then makes and ends sessions of its own, with
   1 to 3 threads each. */
typedef struct host {
    const tfm_model *model;
    tfm_session *session;
    const outcome *expected;
    outcome got;
    const int *runs; /* which runs are in the slice */
    int same;        /* number of runs with the bits of one thread */
} host;

static TFM__THREAD_MAIN host_thread(void *context) {
    host *h = (host *)context;
    int again;
    for (again = 0; again < HOST_RUNS; again++) {
        tfm_session *s;
        if (!h->runs[again]) continue;
        s = again < 2 ? h->session : make_session(h->model, 1 + again % 3, NULL);
        run(s, &h->got);
        h->same += memcmp(h->expected, &h->got, sizeof h->got) == 0;
        if (s != h->session) tfm_session_free(s);
    }
    return 0;
}

static void side_by_side(const tfm_model *model, int32_t threads) {
    static outcome expected;
    host *hosts[HOST_THREADS];
    tfm__thread started[HOST_THREADS];
    tfm_session *alone = make_session(model, 1, NULL);
    int runs[HOST_RUNS], n_runs = 0, i, same = 0, n = 0;
    for (i = 0; i < HOST_RUNS; i++)
        n_runs += runs[i] = test_in_slice("runs", threads * HOST_RUNS + i);
    run(alone, &expected);
    tfm_session_free(alone);
    for (i = 0; i < HOST_THREADS; i++) {
        hosts[i] = (host *)test_memory(sizeof **hosts);
        hosts[i]->model = model, hosts[i]->expected = &expected, hosts[i]->runs = runs;
        hosts[i]->session = make_session(model, threads, NULL);
    }
    for (i = 0; i < HOST_THREADS; i++) n += tfm__thread_start(&started[i], host_thread, hosts[i]);
    for (i = 0; i < n; i++) tfm__thread_join(started[i]);
    for (i = 0; i < HOST_THREADS; i++) {
        same += hosts[i]->same;
        tfm_session_free(hosts[i]->session);
    }
    CHECK(n == HOST_THREADS && same == n_runs * HOST_THREADS,
          "%d threads, %d runs in sessions of %d and of 1 to 3: the same bits", n, same,
          (int)threads);
}

/* Waits until all of n threads sleep. */
static void wait_asleep(tfm_session *s, int32_t n) {
    int32_t asleep;
    do {
        tfm__thread_yield();
        tfm__mutex_lock(&s->workers.mutex);
        asleep = s->workers.asleep;
        tfm__mutex_unlock(&s->workers.mutex);
    } while (asleep < n);
}

/* Ends sessions when every thread is known to sleep, and right after work, when perhaps none
   does. */
static void ended_asleep(const tfm_model *model) {
    static outcome out;
    int i, slept = 0;
    for (i = 0; i < 6; i++) {
        tfm_session *s = make_session(model, 4, NULL);
        if (i % 3) run(s, &out);
        if (i < 3) wait_asleep(s, 3), slept++;
        tfm_session_free(s);
    }
    CHECK(slept == 3, "sessions ended while all their threads wait, and while they do not");
}

static void count_part(void *counts, int32_t part) { ((int *)counts)[part]++; }

/* Holds threads in their sleep. The caller must do all parts without waiting for them, and must not
   split work that ends before they could wake. */
static void held_asleep(const tfm_model *model) {
    static outcome one, many;
    tfm_session *s = make_session(model, 1, NULL);
    int counts[9], part, i, same, once = 1, cut, late, woke = 0;
    uint64_t seen;
    run(s, &one);
    tfm_session_free(s);
    s = make_session(model, 4, NULL);
    wait_asleep(s, 3);
    tfm__mutex_lock(&s->workers.mutex); /* the lock that waking needs */
    run(s, &many);
    same = memcmp(&one, &many, sizeof one) == 0;
    for (i = 0; i < 100; i++) {
        memset(counts, 0, sizeof counts);
        tfm__workers_run(&s->workers, count_part, counts, 9);
        for (part = 0; part < 9; part++) once &= counts[part] == 1;
    }
    cut = tfm__team_shares(&s->team, TFM__WORTH_WAKING - 1);
    late = tfm__team_shares(&s->team, TFM__WORTH_WAKING) && !tfm__team_shares(&s->team, 1000);
    CHECK(same && once && s->workers.asleep == 3,
          "all parts done by the caller, each once, while %d threads sleep",
          (int)s->workers.asleep);
    CHECK(!cut && late, "only long work is split for them");
    seen = tfm__atomic_load(&s->workers.seen);
    tfm__mutex_unlock(&s->workers.mutex);
    /* The next work wakes them, and each of their parts is done once. They may sleep again before
       this thread looks, but then they have seen the work. */
    for (i = 0; i < 1000000 && !woke; i++) {
        (void)tfm__team_shares(&s->team, TFM__WORTH_SHARING);
        tfm__thread_yield();
        tfm__mutex_lock(&s->workers.mutex);
        woke = s->workers.asleep < 3 || tfm__atomic_load(&s->workers.seen) != seen;
        tfm__mutex_unlock(&s->workers.mutex);
    }
    for (i = 0; i < 1000; i++) {
        memset(counts, 0, sizeof counts);
        tfm__workers_run(&s->workers, count_part, counts, 9);
        for (part = 0; part < 9; part++) once &= counts[part] == 1;
    }
    wait_asleep(s, 3); /* late threads found no work */
    for (part = 0; part < 9; part++) once &= counts[part] == 1;
    CHECK(woke && once, "when released they wake, and each part is done once");
    tfm_session_free(s);
}
#endif

int main(void) {
    tfm_model *model = wide_model(0, 0, 0), *recurrent = wide_model(3, 0, 0),
              *t5 = wide_model(0, 1, 0), *gemma;
    unsigned seed = 5;
    int i;
    for (i = 0; i < ROWS * WIDTH; i++) ids[i] = 1 + (int32_t)(tiny_random(&seed) % 49);
#ifdef HOST_FORKS
    processes(model);
#endif
    same_bits(model, 0);
    cache = TFM_DTYPE_F16;
    same_bits(model, 1);
    cache = TFM_DTYPE_F32;
    same_bits(recurrent, 2);
    same_bits(t5, 3);
    for (i = 1; i <= 2; i++) {
        gemma = wide_model(0, 0, i);
        cache = i == 1 ? TFM_DTYPE_F32 : TFM_DTYPE_F16;
        same_bits(gemma, 3 + i);
        tfm_model_free(gemma);
    }
    cache = TFM_DTYPE_F32;
    lives(model);
#ifdef HOST_THREADS
    ended_asleep(model);
    held_asleep(model);
    SECTION("sessions on one model, side by side");
    side_by_side(model, 1);
    side_by_side(model, 2);
#endif
    tfm_model_free(model), tfm_model_free(recurrent), tfm_model_free(t5);
    return test_done("test_threads");
}
