/* An SQLite extension: SELECT translate_model(path [, 'split' or 'whole']), translate(text),
   translate_score(text, target).
   cc -O2 -shared -fPIC -I. examples/sqlite/translate.c -o translate.so -lm */
#define TRANSFORMER_STATIC /* another extension may contain another version of the library */
#define TRANSFORMER_IMPLEMENTATION
#include "transformer.h"

#include "../translate/text/texts.h"
#include <sqlite3ext.h>
SQLITE_EXTENSION_INIT1
enum {
    OPEN = SQLITE_UTF8 | SQLITE_DIRECTONLY, /* indexes may use PURE: all then load one model */
    PURE = SQLITE_UTF8 | SQLITE_DETERMINISTIC | SQLITE_INNOCUOUS
};
typedef struct host { /* state of a connection; SQLite runs its functions one at a time */
    int functions;    /* number of functions that use it; the last one frees it */
    tfm_model *model;
    texts_translator *texts;
    tfm_error err;
} host;
static void let_go(void *user) {
    host *h = user;
    if (!--h->functions) texts_free(h->texts), tfm_model_free(h->model), sqlite3_free(h);
}
static void load(sqlite3_context *sql, int n, sqlite3_value **path) {
    host *h = sqlite3_user_data(sql);
    const char *how = n == 2 ? (const char *)sqlite3_value_text(path[1]) : NULL;
    texts_options o;
    int k = how ? TFM_SENTENCES_COUNT - 1 : 0; /* 0: as the model file says */
    while (k && strcmp(how, tfm_sentences_name((tfm_sentences)k))) k--;
    memset(&o, 0, sizeof o), o.of.sentences = (tfm_sentences)k;
    if (n == 2 && !k)
        sqlite3_result_error(sql, "the second argument must be 'split' or 'whole'", -1);
    else if (h->texts) sqlite3_result_error(sql, "this connection has a model", -1);
    else if (tfm_model_load_file(&h->model, (const char *)sqlite3_value_text(path[0]), NULL,
                                 &h->err) ||
             texts_create(&h->texts, h->model, &o, &h->err)) {
        tfm_model_free(h->model), h->model = NULL;
        sqlite3_result_error(sql, h->err.text, -1);
    }
}
static int give_back(void *sql, const texts_result *r) {
    if (r->of.status) sqlite3_result_error(sql, r->of.message, -1);
    else sqlite3_result_text(sql, r->of.text.data, (int)r->of.text.size, SQLITE_TRANSIENT);
    return 0;
}
static void run(sqlite3_context *sql, int n, sqlite3_value **values) { /* n 2: score */
    host *h = sqlite3_user_data(sql);
    tfm_request source;
    tfm_text in[2];
    double score;
    int i;
    for (i = 0; i < n; in[i].size = (size_t)sqlite3_value_bytes(values[i]), i++)
        if (!(in[i].data = (const char *)sqlite3_value_text(values[i]))) return;
    source = tfm_request_text(in->data, in->size);
    if (!h->texts) sqlite3_result_error(sql, "no translate_model(path) yet", -1);
    else if (n == 1 ? texts_run(h->texts, &source, 1, give_back, sql, &h->err)
                    : texts_score(h->texts, &source, in[1], &score, &h->err))
        sqlite3_result_error(sql, h->err.text, -1);
    else if (n == 2) sqlite3_result_double(sql, score);
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
