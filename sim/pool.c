/* SPDX-License-Identifier: Apache-2.0
 *
 * One list of slots for each power of two from 64 bytes on. A slot is reused, and given back to malloc only when the
 * run ends. Called by world.c, which sends messages, and by run.c, which delivers them. */
#include "sim/pool.h"

#include <stdlib.h>
#include <string.h>

#include "base/assert.h"

static uint32_t class_of(uint32_t size)
{
    uint32_t class = 0;
    while (UINT32_C(64) << class < size)
        class ++;
    weir_assert(class < WEIR_SIM_POOL_CLASSES);
    return class;
}

uint32_t weir_sim_pool_put(struct weir_sim_pool *pool, const void *data, uint32_t size)
{
    uint32_t class = class_of(size), slot;
    if (pool->classes[class].free_count > 0) {
        slot = pool->classes[class].free[--pool->classes[class].free_count];
    } else {
        slot = pool->classes[class].count++;
        size_t count = pool->classes[class].count;
        pool->classes[class].slots = realloc(pool->classes[class].slots, count * sizeof(uint8_t *));
        pool->classes[class].free = realloc(pool->classes[class].free, count * sizeof(uint32_t));
        weir_assert(pool->classes[class].slots && pool->classes[class].free);
        pool->classes[class].slots[slot] = malloc((size_t)64 << class);
        weir_assert(pool->classes[class].slots[slot]);
    }
    memcpy(pool->classes[class].slots[slot], data, size);
    return slot;
}

const uint8_t *weir_sim_pool_get(const struct weir_sim_pool *pool, uint32_t slot, uint32_t size)
{
    return pool->classes[class_of(size)].slots[slot];
}

void weir_sim_pool_free(struct weir_sim_pool *pool, uint32_t slot, uint32_t size)
{
    uint32_t class = class_of(size);
    pool->classes[class].free[pool->classes[class].free_count++] = slot;
}

void weir_sim_pool_deinit(struct weir_sim_pool *pool)
{
    for (uint32_t class = 0; class < WEIR_SIM_POOL_CLASSES; class ++) {
        for (uint32_t i = 0; i < pool->classes[class].count; i++)
            free(pool->classes[class].slots[i]);
        free(pool->classes[class].slots);
        free(pool->classes[class].free);
    }
}
