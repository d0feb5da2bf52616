/* An SQLite extension: SELECT translate_model(path [, 'split' or 'whole']), translate(text),
   translate_score(text, target).
   cc -O2 -shared -fPIC -I. examples/sqlite/translate.c -o translate.so -lm */
#define TRANSFORMER_STATIC /* another extension may contain another version of the library */
#define TRANSFORMER_IMPLEMENTATION
#include "transformer.h"
#include <sqlite3ext.h>
SQLITE_EXTENSION_INIT1 /* clang-format off */
enum { OPEN = SQLITE_UTF8 | SQLITE_DIRECTONLY, /* indexes may use PURE: all then load one model */
       PURE = SQLITE_UTF8 | SQLITE_DETERMINISTIC | SQLITE_INNOCUOUS };
typedef struct host { /* state of a connection; SQLite runs its functions one at a time */
    int functions;    /* number of functions that use it; the last one frees it */
    tfm_model *model; tfm_session *session;
    tfm_session_options limits;
    tfm_error err;
    int32_t tgt[1040];                  /* the default limit of a session */
    double scores[1041], memory[32768]; /* enough for one text */
} host;
static void let_go(void *user) {
    host *h = user;
    if (!--h->functions) tfm_session_free(h->session), tfm_model_free(h->model), sqlite3_free(h);
}
static void load(sqlite3_context *sql, int n, sqlite3_value **path) {
    host *h = sqlite3_user_data(sql);
    const char *how = n == 2 ? (const char *)sqlite3_value_text(path[1]) : NULL;
    int loaded, k = how ? TFM_SENTENCES_COUNT - 1 : 0; /* 0: as the model file says */
    while (k && strcmp(how, tfm_sentences_name((tfm_sentences)k))) k--;
    loaded = n == 1 + !!k && !h->model && !tfm_model_load_file(
        &h->model, (const char *)sqlite3_value_text(path[0]), NULL, &h->err);
    h->limits.decoding = tfm_model_decoding(h->model), h->limits.sentences = (tfm_sentences)k;
    if (n == 2 && !k)
        sqlite3_result_error(sql, "the second argument must be 'split' or 'whole'", -1);
    else if (!loaded || tfm_session_create(&h->session, h->model, &h->limits, &h->err))
        sqlite3_result_error(sql, h->session ? "this connection has a model" : h->err.text, -1);
}
static void run(sqlite3_context *sql, int n, sqlite3_value **values) { /* n 2: score */
    host *h = sqlite3_user_data(sql);
    tfm_request source; tfm_ids target = {0};
    tfm_arena scratch = tfm_arena_make(h->memory, sizeof h->memory);
    tfm_text in[2];
    for (memset(in, 0, sizeof in); n--; in[n].size = (size_t)sqlite3_value_bytes(values[n]))
        if (!(in[n].data = (const char *)sqlite3_value_text(values[n]))) return;
    if (!in[1].data &&
        !tfm_translate(h->session, in[0].data, (char *)h->memory, sizeof h->memory, &h->err))
        sqlite3_result_text(sql, (char *)h->memory, -1, SQLITE_TRANSIENT);
    else if (in[1].data &&
             !tfm_model_tokenize_target(h->model, in[1], TFM_TEXT_FORM_TEXT, h->tgt, 1040,
                                        &target.n, &scratch, &h->err) &&
             (source = tfm_request_text(in->data, in->size), target.data = h->tgt,
              !tfm_session_score(h->session, &source, 1, &target, 0, h->scores, &h->err))) {
        for (n = 1; n <= target.n; n++) h->scores[0] += h->scores[n];
        sqlite3_result_double(sql, h->scores[0]);
    } else sqlite3_result_error(sql, h->session ? h->err.text : "no translate_model(path) yet", -1);
}
int sqlite3_translate_init(sqlite3 *db, char **message, const sqlite3_api_routines *api) {
    SQLITE_EXTENSION_INIT2(api)
    host *h = sqlite3_malloc(sizeof *h);
    if (!h) return SQLITE_NOMEM;
    /* SQLite calls let_go even on failure */
    (void)message, memset(h, 0, sizeof *h), h->functions = 4;
    return sqlite3_create_function_v2(db, "translate_model", 1, OPEN, h, load, 0, 0, let_go) |
           sqlite3_create_function_v2(db, "translate_model", 2, OPEN, h, load, 0, 0, let_go) |
           sqlite3_create_function_v2(db, "translate", 1, PURE, h, run, 0, 0, let_go) |
           sqlite3_create_function_v2(db, "translate_score", 2, PURE, h, run, 0, 0, let_go);
}
