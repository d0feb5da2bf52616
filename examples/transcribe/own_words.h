/* own_words.h: makes the words of a list more probable, such as names that the model spells
   otherwise. whisper.h includes it.

       status = own_words_set(&o, model, end, list, &err);     o: zeros at first; list: lines of
                                                               UTF-8
       ... whisper_edit calls own_words_edit before each token
       own_words_free(&o);

   The tokens of all words form a trie. A token gets a bonus on its logit if it begins a word, or
   goes on with the word that the last tokens began. The bonus is taken back from all tokens that
   leave a word before its end, or that go on with letters behind its end. So a hypothesis keeps the
   bonus of whole words alone. At a temperature over 0 the decoder draws samples and compares no
   hypotheses. A sample that had begun a word would repeat its tokens, so samples are drawn without
   the words. */
#ifndef OWN_WORDS_H
#define OWN_WORDS_H

#define OWN_WORDS_BONUS 4.0                        /* of log-probability for each token */
enum { OWN_WORDS_LONGEST = 200 };                  /* bytes of a line */
enum { OWN_WORDS_LIST = 16000000 };                /* bytes of a list */
enum { OWN_WORDS_BEGINS = 1, OWN_WORDS_ENDS = 2 }; /* a token's text begins, ends with a letter */
/* The trie's roots: words behind a space, and words behind a mark such as a hyphen. */
enum { OWN_WORDS_SPACE = 0, OWN_WORDS_MARK = 1 };

/* A node of the trie. 0: none. */
typedef struct own_node {
    int32_t parent, token, first, next; /* the first child, and the next child of the parent */
    int is_word;
} own_node;

typedef struct own_words {
    float bonus;
    own_node *nodes;      /* [n] */
    int32_t *slots;       /* [n_slots], a power of 2: nodes by parent and token, 0: free */
    unsigned char *kinds; /* [end]: of each token, OWN_WORDS_BEGINS and OWN_WORDS_ENDS */
    int32_t n, room, n_slots, end, V, n_words; /* ids from end on are no text */
    char *list;                                /* [size]: what was read */
    size_t size;
} own_words;

static void own_words_free(own_words *o) {
    free(o->nodes), free(o->slots), free(o->kinds), free(o->list);
    memset(o, 0, sizeof *o);
}

/* line 0: the list as a whole. */
static tfm_status own_words_fail(tfm_error *err, tfm_status status, int line, const char *what) {
    if (line) snprintf(err->text, sizeof err->text, "own words, line %d: %s", line, what);
    else snprintf(err->text, sizeof err->text, "own words: %s", what);
    return err->status = status;
}

static int32_t *own_words_slot(const own_words *o, int32_t parent, int32_t token) {
    uint32_t at = (uint32_t)parent * 0x9E3779B1u ^ (uint32_t)token * 0x85EBCA6Bu;
    at ^= at >> 15;
    for (;; at++) {
        int32_t *slot = &o->slots[at & (uint32_t)(o->n_slots - 1)];
        if (!*slot || (o->nodes[*slot].parent == parent && o->nodes[*slot].token == token))
            return slot;
    }
}

/* Returns the child of a node for a token. 0: none. */
static int32_t own_words_child(const own_words *o, int32_t node, int32_t token) {
    return *own_words_slot(o, node, token);
}

/* Doubles the room for nodes. Returns 0 without memory. */
static int own_words_grow(own_words *o) {
    int32_t room = o->room ? 2 * o->room : 1024, i;
    own_node *nodes = (own_node *)realloc(o->nodes, (size_t)room * sizeof *nodes);
    if (nodes) o->nodes = nodes;
    free(o->slots), o->slots = (int32_t *)calloc((size_t)room * 2, sizeof *o->slots);
    if (!nodes || !o->slots) return 0;
    if (!o->n) memset(nodes, 0, 2 * sizeof *nodes), o->n = 2;
    o->room = room, o->n_slots = 2 * room;
    for (i = 2; i < o->n; i++) *own_words_slot(o, nodes[i].parent, nodes[i].token) = i;
    return 1;
}

/* Adds the tokens of a word to the trie. Returns 0 without memory. */
static int own_words_add(own_words *o, int32_t root, const int32_t *ids, int32_t n) {
    int32_t node = root, i;
    for (i = 0; i < n; i++) {
        int32_t child = own_words_child(o, node, ids[i]);
        if (!child) {
            if (o->n == o->room && !own_words_grow(o)) return 0;
            child = o->n++;
            o->nodes[child].parent = node, o->nodes[child].token = ids[i];
            o->nodes[child].first = o->nodes[child].is_word = 0;
            o->nodes[child].next = o->nodes[node].first, o->nodes[node].first = child;
            *own_words_slot(o, node, ids[i]) = child;
        }
        node = child;
    }
    o->nodes[node].is_word = 1;
    return 1;
}

/* Returns whether a character is a letter or a digit of a script that has spaces between words. c
   is its first byte: those of three bytes and more are mostly Chinese or Japanese. */
static int own_words_is_letter(unsigned char c) {
    return (c >= '0' && c <= '9') || ((c | 32) >= 'a' && (c | 32) <= 'z') ||
           (c >= 0xC3 && c < 0xE0);
}

/* Finds out with what the text of each token begins and ends. */
static tfm_status own_words_classify(own_words *o, const tfm_model *model, tfm_error *err) {
    int32_t id;
    char text[256];
    for (id = 0; id < o->end; id++) {
        size_t size = 0, last;
        tfm_status status =
            tfm_model_detokenize(model, &id, 1, TFM_TEXT_FORM_TEXT, text, sizeof text, &size, err);
        if (status == TFM_E_TOO_SMALL || size == 0) { /* a long one, or a part of a character */
            o->kinds[id] = OWN_WORDS_BEGINS | OWN_WORDS_ENDS;
            continue;
        }
        if (status != TFM_OK) return status;
        for (last = size - 1; last && ((unsigned char)text[last] & 0xC0) == 0x80;) last--;
        o->kinds[id] =
            (unsigned char)((own_words_is_letter((unsigned char)text[0]) ? OWN_WORDS_BEGINS : 0) |
                            (own_words_is_letter((unsigned char)text[last]) ? OWN_WORDS_ENDS : 0));
    }
    err->text[0] = 0;
    return TFM_OK;
}

/* Adds the word in line, with a space before it and without one. */
static tfm_status own_words_line(own_words *o, const tfm_model *model, const char *line,
                                 size_t size, int number, tfm_error *err) {
    char text[OWN_WORDS_LONGEST + 2];
    int32_t ids[OWN_WORDS_LONGEST + 2], n, i, root;
    if (size > OWN_WORDS_LONGEST)
        return own_words_fail(err, TFM_E_TOO_LONG, number,
                              "over 200 bytes; a line has one word or name");
    if (memchr(line, 0, size))
        return own_words_fail(err, TFM_E_UTF8, number, "a NUL character; save the list as UTF-8");
    text[0] = ' ', memcpy(text + 1, line, size);
    for (root = OWN_WORDS_SPACE; root <= OWN_WORDS_MARK; root++) {
        tfm_status status = tfm_model_tokenize_target(
            model, tfm_text_make(text + root, size + 1 - (size_t)root), TFM_TEXT_FORM_TEXT, ids,
            OWN_WORDS_LONGEST + 2, &n, NULL, err);
        if (status == TFM_E_UTF8) return own_words_fail(err, status, number, "not UTF-8");
        if (status != TFM_OK) return status;
        for (i = 0; i < n && ids[i] < o->end;) i++;
        if (n == 0 || i < n)
            return own_words_fail(err, TFM_E_TOKEN, number, "the model has no text tokens for it");
        if (!own_words_add(o, root, ids, n))
            return own_words_fail(err, TFM_E_MEMORY, 0, "no memory");
    }
    o->n_words++;
    return TFM_OK;
}

/* Reads a list: a word or a name on each line. Spaces at both ends, blank lines and words that were
   there before have no effect. Time and memory are in proportion to the list. */
static tfm_status own_words_read(own_words *o, const tfm_model *model, tfm_error *err) {
    const char *at = o->list, *stop = o->list + o->size, *next, *end;
    tfm_status status = own_words_classify(o, model, err);
    int line = 0;
    if (o->size >= 3 && memcmp(at, "\xEF\xBB\xBF", 3) == 0) at += 3; /* byte order mark */
    for (; status == TFM_OK && at < stop; at = next) {
        end = (const char *)memchr(at, '\n', (size_t)(stop - at));
        if (!end) end = stop;
        next = end + (end < stop), line++;
        while (at < end && (*at == ' ' || *at == '\t' || *at == '\r')) at++;
        while (at < end && (end[-1] == ' ' || end[-1] == '\t' || end[-1] == '\r')) end--;
        if (at < end) status = own_words_line(o, model, at, (size_t)(end - at), line, err);
    }
    if (status == TFM_OK && !o->n_words)
        status = own_words_fail(err, TFM_E_ARGUMENT, 0,
                                "the list is empty; a line has one word or name");
    return status;
}

/* Makes the words of list the model's own, in place of those before. list.data NULL: none. Ids from
   end on are no text. */
static tfm_status own_words_set(own_words *o, const tfm_model *model, int32_t end, tfm_text list,
                                tfm_error *err) {
    tfm_status status;
    if (o->list && list.data && o->size == list.size && memcmp(o->list, list.data, list.size) == 0)
        return TFM_OK;
    own_words_free(o);
    if (!list.data) return TFM_OK;
    if (list.size > OWN_WORDS_LIST)
        return own_words_fail(err, TFM_E_TOO_LONG, 0, "the list is over 16 MB");
    o->bonus = (float)OWN_WORDS_BONUS, o->size = list.size;
    o->end = end, o->V = tfm_model_config(model)->tgt_vocab_size;
    o->kinds = (unsigned char *)malloc((size_t)end + 1);
    o->list = (char *)malloc(list.size + 1);
    if (!o->kinds || !o->list || !own_words_grow(o)) {
        status = own_words_fail(err, TFM_E_MEMORY, 0, "no memory");
    } else {
        memcpy(o->list, list.data, list.size);
        status = own_words_read(o, model, err);
    }
    if (status != TFM_OK) own_words_free(o);
    return status;
}

/* Returns the logarithm of the sum of exp(y [n]). */
static double own_words_sum(const float *y, int32_t n) {
    float top = whisper_largest(y, n);
    double sum = 0;
    int32_t i;
    for (i = 0; i < n; i++) sum += exp((double)(y[i] - top));
    return top + log(sum);
}

/* Adds what the words are worth to the logits y [V] of the token that follows ids [n]. The search
   suppresses sink, which gets the share of the probability that is taken back: else the softmax
   would give it to the tokens from which it is taken. */
static void own_words_edit(const own_words *o, const int32_t *ids, int32_t n, int32_t sink,
                           float *y) {
    double before = 0, after;
    int32_t node = 0, held = 0, i, k, root;
    const float bonus = o->bonus;
    for (i = 0; i < n; i++) {
        int32_t found = node ? own_words_child(o, node, ids[i]) : 0;
        if (found) held++;
        else {
            held = 1, found = own_words_child(o, OWN_WORDS_SPACE, ids[i]);
            if (!found && (!i || ids[i - 1] >= o->end || !(o->kinds[ids[i - 1]] & OWN_WORDS_ENDS)))
                found = own_words_child(o, OWN_WORDS_MARK, ids[i]);
        }
        node = found;
    }
    if (node) before = own_words_sum(y, o->V);
    for (root = OWN_WORDS_SPACE; root <= OWN_WORDS_MARK; root++) {
        if (root == OWN_WORDS_MARK && n && ids[n - 1] < o->end &&
            (o->kinds[ids[n - 1]] & OWN_WORDS_ENDS))
            break;
        for (k = o->nodes[root].first; k; k = o->nodes[k].next) y[o->nodes[k].token] += bonus;
    }
    if (!node) return;
    for (i = 0; i < o->V; i++)
        if (!o->nodes[node].is_word || (i < o->end && (o->kinds[i] & OWN_WORDS_BEGINS)))
            y[i] -= bonus * (float)held;
    for (k = o->nodes[node].first; k; k = o->nodes[k].next) {
        i = o->nodes[k].token;
        y[i] += bonus;
        if (!o->nodes[node].is_word || (o->kinds[i] & OWN_WORDS_BEGINS))
            y[i] += bonus * (float)held;
    }
    y[sink] = -INFINITY;
    after = own_words_sum(y, o->V);
    if (after < before) y[sink] = (float)(before + log(-expm1(after - before)));
}

#endif
