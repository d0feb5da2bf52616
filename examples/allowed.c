/* allowed: translates freely, then with the words of a list alone (edit_logits).
   cc -O2 -I. examples/allowed.c -o allowed -lm */
#define TRANSFORMER_IMPLEMENTATION
#include "transformer.h"
#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
enum { BYTES = 1024, TOKENS = 128 };
static const char list[] = " My Our dad mom a the new old car house has got bought to one ";

/* Returns whether the list has all words of a text. Unless it is done, its last word may grow. */
static int is_allowed(const char *text, int done) {
    char word[BYTES + 3] = " ";
    size_t n = 0;
    for (; *text; text += n + !n) {
        for (n = 0; isalpha((unsigned char)text[n]); n++) word[n + 1] = text[n];
        word[n + 1] = text[n] || done ? ' ' : 0, word[n + 2] = 0;
        if (n && !strstr(list, word)) return 0;
    }
    return 1;
}

static void edit_logits(void *user, int32_t request, const int32_t *ids, int32_t n, float *logits) {
    const tfm_model *model = (const tfm_model *)user;
    int32_t next[TOKENS], id;
    size_t size;
    char text[BYTES];
    memcpy(next, ids, (size_t)n * sizeof *ids);
    for (id = 0, (void)request; id < tfm_model_config(model)->tgt_vocab_size; id++) {
        next[n] = id; /* an end token gives no text */
        if (tfm_model_detokenize(model, next, n + 1, TFM_TEXT_FORM_TEXT, text, BYTES, &size,
                                 NULL) ||
            !is_allowed(text, id == tfm_model_config(model)->end))
            logits[id] = -INFINITY; /* the other tokens share its probability */
    }
}

int main(void) {
    tfm_request request = tfm_request_text("Mein Vater kauft ein neues Auto.", 32);
    tfm_text english;
    tfm_error err;
    tfm_model *model = NULL;
    tfm_session *session = NULL;
    static tfm_session_options limits; /* static: all zero */
    static tfm_decode_options options;
    tfm_status status;
    char text[BYTES];
    int round;
    limits.max_target = TOKENS, limits.max_beam = options.beam = 4;
    status = tfm_model_load_file(&model, "examples/models/de-en.safetensors", NULL, &err);
    if (status == TFM_OK) status = tfm_session_create(&session, model, &limits, &err);
    for (round = 0; status == TFM_OK && round < 2; round++) {
        status = tfm_translate_batch(session, &request, 1, &options, &english, text, BYTES, &err);
        puts(status == TFM_OK ? text : err.text);
        options.edit_logits = edit_logits, options.edit_user = model;
    }
    tfm_session_free(session), tfm_model_free(model);
    return status == TFM_OK ? 0 : 1;
}
