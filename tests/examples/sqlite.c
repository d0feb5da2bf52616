/* sqlite: DATABASE EXTENSION, then MODEL SQL twice: opens two connections at once, each in a
   thread, and prints the first value or the error of each. It ends them in unfriendly ways on
   purpose. The extension is loaded twice, the second time over a loaded model, and one connection
   closes before its last statement is finalized. */
#include <pthread.h>
#include <sqlite3.h>
#include <stdio.h>

typedef struct work {
    const char *database, *extension, *model, *sql;
    char result[512];
} work;

static int one(sqlite3 *db, const char *sql, const char *value, char *result, sqlite3_stmt **last) {
    int status = sqlite3_prepare_v2(db, sql, -1, last, NULL);
    if (status == SQLITE_OK && value) sqlite3_bind_text(*last, 1, value, -1, SQLITE_STATIC);
    if (status == SQLITE_OK) status = sqlite3_step(*last);
    if (status != SQLITE_ROW && status != SQLITE_DONE)
        snprintf(result, 512, "%s", sqlite3_errmsg(db));
    else
        snprintf(result, 512, "%s",
                 status == SQLITE_ROW ? (const char *)sqlite3_column_text(*last, 0) : "");
    return status == SQLITE_ROW || status == SQLITE_DONE;
}

static void *connection(void *context) {
    work *w = (work *)context;
    sqlite3 *db = NULL;
    sqlite3_stmt *last = NULL;
    char *message = NULL;
    int i, good = sqlite3_open(w->database, &db) == SQLITE_OK;
    sqlite3_enable_load_extension(db, 1);
    for (i = 0; good && i < 2; i++) {
        if (sqlite3_load_extension(db, w->extension, NULL, &message) != SQLITE_OK) {
            snprintf(w->result, sizeof w->result, "%s", message);
            sqlite3_free(message), good = 0;
        }
        good = good && one(db, "SELECT translate_model(?)", w->model, w->result, &last);
        sqlite3_finalize(last), last = NULL;
    }
    if (good) one(db, w->sql, NULL, w->result, &last);
    sqlite3_close_v2(db);
    sqlite3_finalize(last);
    return NULL;
}

int main(int argc, char **argv) {
    work w[2];
    pthread_t threads[2];
    int i;
    if (argc != 7) return 2;
    for (i = 0; i < 2; i++) {
        w[i].database = argv[1], w[i].extension = argv[2];
        w[i].model = argv[3 + 2 * i], w[i].sql = argv[4 + 2 * i];
        if (pthread_create(&threads[i], NULL, connection, &w[i])) return 1;
    }
    for (i = 0; i < 2; i++) pthread_join(threads[i], NULL);
    printf("%s\n%s\n", w[0].result, w[1].result);
    return 0;
}
