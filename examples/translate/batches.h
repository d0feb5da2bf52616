/* batches.h: how many sentences are translated together, and the memory of the sessions that
   translate them.

       size_t limit = batches_limit(tfm_model_config(model), 64);
       batches_memory kept = {0};
       options.allocator = batches_allocator(&kept, limit);
       options.max_batch = batches_rows(model, &options, 64, limit);
       tfm_session_create(&session, model, &options, &err);
       ...
       tfm_session_free(session);
       batches_memory_free(&kept);

   Include transformer.h before this header. */
#ifndef BATCHES_H
#define BATCHES_H

#include <stdlib.h>
#include <string.h>

/* The memory of one session. It stays when the session is freed, and the next session gets it,
   which spares the system's work for new pages. It would not go back to the system in any case:
   malloc keeps freed blocks of this size, and a new session between two others would not fit into
   them. */
typedef struct batches_memory {
    void *block;
    size_t size, limit; /* a block that is larger than the limit is kept only for its like */
    tfm_allocator allocator;
} batches_memory;

static void *batches_allocate(void *user, size_t bytes) {
    batches_memory *m = (batches_memory *)user;
    int is_kept = bytes <= m->size && (m->size <= m->limit || bytes > m->size / 2);
    if (!is_kept) {
        free(m->block);
        m->block = malloc(bytes);
        m->size = m->block ? bytes : 0;
    }
    return m->block;
}
static void batches_release(void *user, void *block) { (void)user, (void)block; }

/* Returns the allocator that gives this memory to one session at a time. */
static const tfm_allocator *batches_allocator(batches_memory *m, size_t limit) {
    m->limit = limit;
    m->allocator.allocate = batches_allocate, m->allocator.release = batches_release;
    m->allocator.user = m;
    return &m->allocator;
}

/* Frees the memory. Its session is freed already. */
static void batches_memory_free(batches_memory *m) {
    free(m->block);
    memset(m, 0, sizeof *m);
}

/* Returns how many bytes the session of a batch of up to `most` sentences may take, if it has
   several. Each step of a batch reads the decoder's weights once, and the keys and values of all
   its sentences. So many sentences are faster than few only as long as the weights are the larger
   part, and only if they come from memory. About 8 million weights fit into the cache of a CPU. Who
   asks for more than 64 sentences gets the memory of 64 for each 64. */
static size_t batches_limit(const tfm_config *c, int32_t most) {
    const double least = 16e6, cached = 8e6, per_weight = 8;
    double d = c->d_model;
    double n = d * ((double)c->src_vocab_size + c->tgt_vocab_size) / 2 +
               c->n_encoder_layers * d * (4 * d + 2 * (double)c->d_ff) +
               c->n_decoder_layers * d * (8 * d + 2 * (double)c->d_ff_decoder);
    double bytes = (least + (n > cached ? per_weight * (n - cached) : 0)) *
                   (most > 64 ? most / 64 : 1);
    return bytes < (double)(SIZE_MAX / 2) ? (size_t)bytes : SIZE_MAX / 2;
}

/* Returns how many sentences a session with these options may have, at most `most`: fewer if they
   are so long that it would take more than limit bytes, but at least 1. */
static int32_t batches_rows(const tfm_model *model, const tfm_session_options *options,
                            int32_t most, size_t limit) {
    tfm_session_options o = *options;
    int32_t rows = most;
    while (rows > 1) {
        size_t bytes = 0;
        double fewer = rows / 2;
        o.max_batch = rows;
        if (tfm_session_bytes(model, &o, &bytes, NULL) == TFM_OK) {
            if (bytes <= limit) break;
            fewer = (double)rows * (double)limit / (double)bytes; /* part of it does not shrink */
        }
        rows = fewer < 1 ? 1 : fewer < rows - 1 ? (int32_t)fewer : rows - 1;
    }
    return rows;
}

/* Returns a length to which sessions are made: at least `length`, and at most half as much more. A
   session of such a length serves many batches; with exact lengths nearly every batch would need a
   new one. */
static int32_t batches_round(int32_t length) {
    int32_t rounded = 16;
    while (rounded < length && rounded <= INT32_MAX / 2)
        rounded = rounded + rounded / 2 < length ? 2 * rounded : rounded + rounded / 2;
    return rounded < length ? length : rounded;
}

#endif
