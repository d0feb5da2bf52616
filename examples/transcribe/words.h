/* words.h: when each word is spoken. Needs transformer.h, speech.h and whisper.h before it.

   Some heads of the decoder (the model's alignment_heads) attend to the sound of the token that
   they read. The text goes through the decoder once more; for these heads, the attention is
   standardised over the tokens, smoothed by a median over seven positions, and averaged. Dynamic
   time warping then finds the path through tokens and positions with the most attention. A token
   begins where the path reaches it. A position is 20 ms. */
#ifndef WORDS_H
#define WORDS_H

#include <ctype.h>

typedef struct word {
    double begin, end, prob; /* seconds from the beginning of the window */
    int32_t first, n;        /* tokens of the text; a merged word has none */
    char text[256];          /* a longer one is cut between characters */
} word;

typedef struct words {
    word at[WHISPER_TOKENS];
    int32_t n;
} words;

static int words_compare(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Adds head [T, S] of attention to sum [T, n], of which only the first n positions have sound. */
static void words_add_head(const float *head, int32_t T, int32_t S, int32_t n, float *scratch,
                           float *sum) {
    int32_t t, s, k;
    for (t = 0; t < T; t++) {
        double total = 0;
        for (s = 0; s < n; s++) total += head[(int64_t)t * S + s];
        for (s = 0; s < n; s++)
            scratch[(int64_t)t * n + s] = (float)(head[(int64_t)t * S + s] / total);
    }
    for (s = 0; s < n; s++) {
        double mean = 0, square = 0;
        for (t = 0; t < T; t++) mean += (double)scratch[(int64_t)t * n + s] / T;
        for (t = 0; t < T; t++) {
            double d = scratch[(int64_t)t * n + s] - mean;
            square += d * d / T;
        }
        for (t = 0; t < T; t++) {
            float *x = &scratch[(int64_t)t * n + s];
            *x = square > 0 ? (float)((*x - mean) / sqrt(square)) : 0;
        }
    }
    for (t = 0; t < T; t++)
        for (s = 0; s < n; s++) {
            double around[7];
            for (k = -3; k <= 3; k++) { /* reflected at the edges */
                int32_t at = s + k < 0 ? -s - k : s + k;
                if (at >= n) at = 2 * n - 2 - at;
                around[k + 3] = scratch[(int64_t)t * n + (at < 0 ? 0 : at)];
            }
            qsort(around, 7, sizeof *around, words_compare);
            sum[(int64_t)t * n + s] += (float)around[3];
        }
}

/* Finds the path through gain [R, n] with the largest sum that goes on by a row, a column or both.
   begin [R]: the column where the path reaches each row. from [(R + 1) * (n + 1)] and
   cost [2 * (n + 1)] are scratch. */
static void words_warp(const float *gain, int32_t R, int32_t n, int32_t *begin, char *from,
                       float *cost) {
    int32_t r, s;
    int64_t W = n + 1;
    for (s = 0; s <= n; s++) cost[s] = s ? INFINITY : 0, from[s] = 2;
    for (r = 1; r <= R; r++) {
        float *old = cost + (r - 1) % 2 * W, *now = cost + r % 2 * W;
        now[0] = INFINITY, from[r * W] = 1;
        for (s = 1; s <= n; s++) {
            float both = old[s - 1], row = old[s], column = now[s - 1];
            char way = both < row && both < column ? 0 : row < both && row < column ? 1 : 2;
            now[s] = (way == 0   ? both
                      : way == 1 ? row
                                 : column) -
                     gain[(int64_t)(r - 1) * n + s - 1];
            from[r * W + s] = way;
        }
    }
    for (r = R, s = n; r > 0 || s > 0;) {
        char way = r == 0 ? 2 : s == 0 ? 1 : from[r * W + s];
        if (r > 0) begin[r - 1] = s > 0 ? s - 1 : 0;
        if (way != 2) r--;
        if (way != 1) s--;
    }
}

/* Finds the position where each token of text [n] begins, and where the last one ends: begin
   [n + 1]; and each token's probability. positions: those of the window that have sound. */
static tfm_status words_align(whisper *w, const tfm_tensor *memory, const int32_t *text, int32_t n,
                              int32_t positions, int32_t *begin, double *prob, tfm_error *err) {
    const tfm_config *c = tfm_model_config(w->model);
    int32_t ids[WHISPER_TOKENS], n_before = 0, T, i, S = SPEECH_POSITIONS, N = c->n_decoder_layers;
    /* a file without alignment heads: all heads of the upper half of the layers */
    int32_t n_heads = c->n_alignment_heads ? c->n_alignment_heads : (N + 1) / 2 * c->n_heads;
    int64_t first = c->n_alignment_heads ? 0 : (int64_t)(N - (N + 1) / 2) * c->n_heads;
    tfm_request request = tfm_request_ids(NULL, 0);
    tfm_ids target;
    tfm_forward_options o;
    tfm_tensor logits;
    float *attention, *y, *sum, *scratch, *cost;
    char *from;
    tfm_status status = TFM_E_MEMORY;
    ids[n_before++] = w->start;
    if (w->language) {
        ids[n_before++] = w->language;
        ids[n_before++] = w->options.is_translation ? w->translate : w->transcribe;
    }
    ids[n_before++] = w->no_times;
    if (n > WHISPER_TOKENS - n_before - 1) n = WHISPER_TOKENS - n_before - 1;
    memcpy(ids + n_before, text, (size_t)n * sizeof *ids);
    T = n_before + n + 1, ids[T - 1] = w->end;
    request.memory = memory, target = tfm_ids_make(ids, T);
    attention = (float *)malloc((size_t)(first + n_heads) * (size_t)(T * S) * sizeof(float));
    y = (float *)malloc((size_t)T * (size_t)w->V * sizeof(float));
    sum = (float *)calloc((size_t)T * (size_t)positions, sizeof(float));
    scratch = (float *)malloc((size_t)T * (size_t)positions * sizeof(float));
    cost = (float *)malloc(2 * ((size_t)positions + 1) * sizeof(float));
    from = (char *)malloc((size_t)(T + 1) * (size_t)(positions + 1));
    if (attention && y && sum && scratch && cost && from) {
        int64_t dims[5];
        dims[0] = N, dims[1] = 1, dims[2] = c->n_heads, dims[3] = T, dims[4] = S;
        memset(&o, 0, sizeof o);
        o.alignment_heads = c->n_alignment_heads > 0;
        o.cross_attention = o.alignment_heads
                                ? tfm_tensor_4d(attention, TFM_DTYPE_F32, n_heads, 1, T, S)
                                : tfm_tensor_make(attention, TFM_DTYPE_F32, 5, dims);
        logits = tfm_tensor_3d(y, TFM_DTYPE_F32, 1, T, w->V);
        status =
            tfm_session_forward(w->session, memory ? &request : NULL, 1, &target, &o, &logits, err);
    } else {
        snprintf(err->text, sizeof err->text, "no memory for the times of words");
    }
    if (status == TFM_OK) {
        for (i = 0; i < n_heads; i++)
            words_add_head(attention + (first + i) * T * S, T, S, positions, scratch, sum);
        for (i = 0; i < T * positions; i++) sum[i] /= (float)n_heads;
        words_warp(sum + (int64_t)(n_before - 1) * positions, n + 1, positions, begin, from, cost);
        for (i = 0; i < n; i++)
            prob[i] = whisper_softmax(y + (int64_t)(n_before - 1 + i) * w->V, 0, w->end, text[i]);
    }
    free(attention), free(y), free(sum), free(scratch), free(cost), free(from);
    return status;
}

static int words_has(const char *set, const char *text) {
    return *text && strstr(set, text) != NULL;
}

/* Appends more to the text of a word, as much as fits. */
static void words_append(word *w, const char *more) {
    size_t n = strlen(w->text), k = strlen(more), room = sizeof w->text - 1 - n;
    if (k > room)
        for (k = room; k > 0 && ((unsigned char)more[k] & 0xC0) == 0x80;) k--;
    memcpy(w->text + n, more, k);
    w->text[n + k] = 0;
}

/* Returns text without its leading spaces. */
static const char *words_trim(const char *text) { return text + strspn(text, " "); }

/* Cuts the tokens of text [n] into words: a word begins with a space or is a punctuation mark; in
   languages without spaces it is a complete character. */
static tfm_status words_cut(whisper *w, const int32_t *text, int32_t n, words *out,
                            tfm_error *err) {
    static const char *const unspaced[] = {"zh", "ja", "th", "lo", "my", "yue"};
    const tfm_config *c = tfm_model_config(w->model);
    int32_t i, k, first = 0, spaced = 1;
    size_t at = 0, length;
    char *whole;
    tfm_status status = whisper_spell(w, text, n, err);
    for (i = 0; i < c->n_languages; i++)
        for (k = 0; k < 6; k++)
            if (c->languages[i].id == w->language && !strcmp(c->languages[i].code, unspaced[k]))
                spaced = 0;
    out->n = 0;
    length = strlen(w->text);
    whole = (char *)malloc(length + 1);
    if (!whole) return err->status = TFM_E_MEMORY;
    memcpy(whole, w->text, length + 1);
    for (i = 0; i < n && status == TFM_OK; i++) {
        const char *bad;
        int is_mark;
        word *last = out->n ? &out->at[out->n - 1] : NULL;
        status = whisper_spell(w, text + first, i + 1 - first, err);
        bad = strstr(w->text, "\xEF\xBF\xBD");
        /* A character is complete, or is invalid in the whole text too. With clean_up, tokens that
           are spelled one by one can be longer than the whole text: then it has no such place. */
        if (bad && i + 1 < n) {
            size_t place = at + (size_t)(bad - w->text);
            if (place >= length || strncmp(whole + place, "\xEF\xBF\xBD", 3) != 0) continue;
        }
        is_mark = strlen(words_trim(w->text)) == 1 && ispunct((unsigned char)*words_trim(w->text));
        at += strlen(w->text);
        if (last && spaced && w->text[0] != ' ' && !is_mark) {
            words_append(last, w->text);
            last->n += i + 1 - first;
        } else {
            last = &out->at[out->n++];
            memset(last, 0, sizeof *last);
            words_append(last, w->text);
            last->first = first, last->n = i + 1 - first;
        }
        first = i + 1;
    }
    free(whole);
    return status;
}

/* Joins punctuation marks to the words that they belong to. */
static void words_join_marks(words *found) {
    static const char before[] = "\"'\xE2\x80\x9C\xC2\xBF([{-";
    static const char after[] =
        "\"'.\xE3\x80\x82,\xEF\xBC\x8C!\xEF\xBC\x81?\xEF\xBC\x9F:\xEF\xBC\x9A"
        "\xE2\x80\x9D)]}\xE3\x80\x81";
    int32_t i, j;
    for (i = found->n - 2, j = found->n - 1; i >= 0; i--) {
        word *mark = &found->at[i], *next = &found->at[j];
        if (mark->text[0] == ' ' && words_has(before, words_trim(mark->text))) {
            words_append(mark, next->text);
            memcpy(next->text, mark->text, sizeof mark->text);
            next->first = mark->first, next->n += mark->n, mark->n = 0, mark->text[0] = 0;
        } else {
            j = i;
        }
    }
    for (i = 0, j = 1; j < found->n; j++) {
        word *last = &found->at[i], *mark = &found->at[j];
        size_t size = strlen(last->text);
        if ((!size || last->text[size - 1] != ' ') && words_has(after, mark->text)) {
            words_append(last, mark->text);
            last->n += mark->n, mark->n = 0, mark->text[0] = 0;
        } else {
            i = j;
        }
    }
}

/* Finds the words of text [n] and their times. *usual becomes the median duration of a word, at
   most 0.7 s; what is over twice that is shortened at the ends of sentences. */
static tfm_status words_find(whisper *w, const tfm_tensor *memory, const int32_t *text, int32_t n,
                             int32_t positions, words *out, double *usual, tfm_error *err) {
    static const char stops[] = ".\xE3\x80\x82!\xEF\xBC\x81?\xEF\xBC\x9F";
    int32_t begin[WHISPER_TOKENS + 1], i, k, m = 0;
    double prob[WHISPER_TOKENS], spans[WHISPER_TOKENS];
    tfm_status status;
    out->n = 0, *usual = 0;
    if (!n || !positions) return TFM_OK;
    status = words_align(w, memory, text, n, positions, begin, prob, err);
    if (status == TFM_OK) status = words_cut(w, text, n, out, err);
    for (i = 0; i < out->n; i++) {
        word *one = &out->at[i];
        one->begin = begin[one->first] * 0.02, one->end = begin[one->first + one->n] * 0.02;
        for (k = 0; k < one->n; k++) one->prob += prob[one->first + k] / one->n;
        if (one->end > one->begin) spans[m++] = one->end - one->begin;
    }
    if (m) {
        qsort(spans, (size_t)m, sizeof *spans, words_compare);
        *usual = m % 2 ? spans[m / 2] : (spans[m / 2 - 1] + spans[m / 2]) / 2;
        if (*usual > 0.7) *usual = 0.7;
    }
    for (i = 1; i < out->n && m; i++) {
        word *one = &out->at[i];
        if (one->end - one->begin <= 2 * *usual) continue;
        if (words_has(stops, one->text)) one->end = one->begin + 2 * *usual;
        else if (words_has(stops, one[-1].text)) one->begin = one->end - 2 * *usual;
    }
    words_join_marks(out);
    return status;
}

/* Gives the words to their segments, and to the segments the times of their words. The first words
   after a pause, and words that go beyond their segment, are shortened. Returns when the last word
   ends. */
static double words_place(words *found, whisper_segment *s, int32_t n, const whisper *w,
                          const whisper_text *h, int64_t seek, double usual, double last_end) {
    double most = 2 * usual, at = (double)seek * 0.01;
    double said = s[n - 1].end;
    int32_t k, i, next = 0;
    for (k = 0; k < n; k++, s++) {
        int32_t tokens = 0, saved = 0, shown = 0;
        word *a = NULL, *b = NULL, *z = NULL;
        for (i = s->first; i < s->first + s->n; i++) tokens += h->ids[i] < w->end;
        s->first_word = next;
        for (; next < found->n && saved < tokens; next++) {
            word *one = &found->at[next];
            one->begin = round((at + one->begin) * 100) / 100,
            one->end = round((at + one->end) * 100) / 100;
            saved += one->n;
            if (!one->text[0]) continue;
            if (!shown) a = one;
            if (shown == 1) b = one;
            z = one, shown++;
        }
        s->n_words = next - s->first_word;
        if (!a) continue;
        if (a->end - last_end > usual * 4 &&
            (a->end - a->begin > most || (b && b->end - a->begin > most * 2))) {
            if (b && b->end - b->begin > most)
                a->end = b->begin = b->end / 2 > b->end - most ? b->end / 2 : b->end - most;
            a->begin = a->end - most > 0 ? a->end - most : 0;
        }
        if (s->begin < a->end && s->begin - 0.5 > a->begin) {
            a->begin = a->end - usual < s->begin ? a->end - usual : s->begin;
            if (a->begin < 0) a->begin = 0;
        } else s->begin = a->begin;
        if (s->end > z->begin && s->end + 0.5 < z->end)
            z->end = z->begin + usual > s->end ? z->begin + usual : s->end;
        else s->end = z->end;
        last_end = s->end, said = z->end;
    }
    return said;
}

#endif
