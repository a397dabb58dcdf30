/* The pages of one side. Each lies between guard bytes; a free one holds a pattern of its own, which nobody may change;
 * one of a room holds what follows from room, generation, layer and place. */
#ifndef PROCESS_POOL_H
#define PROCESS_POOL_H

#include "common.h"

enum { LAYERS = 2, PAGES = 192, PAGE_BYTES = 8192, GUARD_BYTES = 64 };

/* What a page of a room holds: the pages of one room differ in their place. */
typedef struct cargo {
    uint64_t room_id, generation;
} cargo;

typedef struct pool {
    unsigned char *memory;
    uint64_t uses[PAGES]; /* makes each pattern of a page another one */
    uint32_t free[PAGES];
    uint32_t free_count;
    dice dice;
} pool;

/* Memory of the engine, registered with it; every page is free. */
void pool_open(pool *it, kvf_engine *engine, uint64_t seed);

/* Takes pages from all over the pool, which must still hold their patterns. */
void pool_take(pool *it, uint32_t *pages, uint32_t count);
/* Gives them back, with new patterns. They must be quiesced. */
void pool_give(pool *it, const uint32_t *pages, uint32_t count);

void pool_load(pool *it, const uint32_t *pages, uint32_t count, cargo what);
/* The pages hold exactly that. */
void pool_expect(pool *it, const uint32_t *pages, uint32_t count, cargo what);

/* All patterns of free pages and all guard bytes are as they were written. */
void pool_check(pool *it);

#endif
