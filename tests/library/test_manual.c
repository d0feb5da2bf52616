/* A program that was written from the manual and the declarations alone: a translator, and one
   batch of a session that has a blank text, a text that fails, two languages and a sentence that is
   cancelled. Only the model comes from tiny.h. test_symbols.sh checks that the manual has each
   function that this program calls. */
#include "transformer.h"
#include "tiny.h"

enum { N = 5 };

static tfm_model *model_of_two_languages(void) {
    tiny t = tiny_default();
    t.src = t.tgt = "<pad>\n<s>\n</s>\n<unk>\n<fra>\n<deu>\na\nb\nc\nd\n";
    t.vs = t.vt = 10;
    t.config =
        ", \"start\": 1, \"end\": 2, \"src_unk\": 3, \"src_pad\": 0, \"tgt_language\": \"forced\","
        " \"languages\": {\"fra\": 4, \"deu\": 5}";
    return tiny_model(t);
}

typedef struct results {
    int64_t n;
    tfm_status status[N];
    size_t size[N];
} results;
static int note(void *user, const tfm_translated *t) {
    results *r = (results *)user;
    r->status[t->number] = t->status, r->size[t->number] = t->text.size, r->n++;
    return 0;
}
static results translate(const tfm_model *model, const tfm_request *requests) {
    static tfm_translator_options how; /* zeros */
    tfm_translator *translator = NULL;
    results r;
    memset(&r, 0, sizeof r);
    how.threads = 2;
    must(tfm_translator_create(&translator, model, &how, &err));
    must(tfm_translator_run(translator, requests, N, note, &r, &err));
    tfm_translator_free(translator);
    return r;
}

int main(void) {
    static const char *const texts[N] = {"a b c", "", "a \xff", "a b c", "d c b a"};
    static const char *const languages[N] = {"fra", "fra", "fra", "deu", "fra"};
    static tfm_session_options limits; /* zeros */
    static tfm_decode_options options;
    tfm_model *model = model_of_two_languages();
    tfm_session *session = NULL;
    tfm_request requests[N];
    tfm_result result[N];
    results all;
    tfm_text out[N];
    char buffer[4096];
    int32_t running = 1, steps, i;
    limits.max_batch = N;
    options.skip_errors = 1, options.min_length = 8, options.max_length = 20;
    must(tfm_session_create(&session, model, &limits, &err));
    for (i = 0; i < N; i++) {
        requests[i] = tfm_request_text(texts[i], strlen(texts[i]));
        requests[i].target_language = languages[i];
    }
    all = translate(model, requests);
    must(tfm_session_start(session, requests, N, &options, &err));
    for (steps = 0; running; steps++) {
        must(tfm_session_step(session, &running, &err));
        if (steps == 2)
            must(tfm_session_stop(session, 4, &err)); /* the user cancels one sentence */
    }
    must(tfm_translation_get(session, out, buffer, sizeof buffer, &err));
    for (i = 0; i < N; i++) must(tfm_result_get(session, i, 0, &result[i], &err));
    SECTION("a program written from the manual");
    CHECK(all.n == N && all.status[2] == TFM_E_UTF8 && all.status[4] == TFM_OK && all.size[4] > 0 &&
              !all.size[1] && !all.size[2],
          "a translator: five texts, one of which fails");
    CHECK(result[0].status == TFM_OK && result[0].length >= 8 && out[0].size > 0, "%s",
          out[0].data);
    CHECK(result[1].status == TFM_OK && result[1].finish == TFM_FINISH_BLANK && !out[1].size,
          "a blank text has an empty translation and no error");
    CHECK(result[2].status == TFM_E_UTF8 && !out[2].size && strstr(result[2].message, "at byte 2"),
          "%s", result[2].message);
    CHECK(result[0].ids[0] == 4 && result[3].ids[0] == 5, "two languages");
    CHECK(result[4].finish == TFM_FINISH_STOPPED && result[4].length < 8,
          "cancelled after %d tokens", (int)result[4].length);
    tfm_session_free(session), tfm_model_free(model);
    return test_done("test_manual");
}
