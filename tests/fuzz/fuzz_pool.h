/* fuzz_pool.h: for targets that call private functions, which take a pool. */
#ifndef FUZZ_POOL_H
#define FUZZ_POOL_H

#include "fuzz.h"

/* A pool of memory by malloc that counts. */
static tfm__pool TEST_UNUSED fuzz_pool(void) {
    tfm__pool pool;
    memset(&pool, 0, sizeof pool);
    pool.allocator = *fuzz_counting();
    return pool;
}

#endif
