/* SPDX-License-Identifier: Apache-2.0
 *
 * Bytes of messages under way: slots of a few sizes, each with its list of free ones. */
#pragma once

#include <stdint.h>

#define WEIR_SIM_POOL_CLASSES 11 /* 64 bytes to 64 KiB */

struct weir_sim_pool {
    struct {
        uint8_t **slots;
        uint32_t *free;
        uint32_t count, free_count;
    } classes[WEIR_SIM_POOL_CLASSES];
};

/* A slot with a copy of `data`. */
uint32_t weir_sim_pool_put(struct weir_sim_pool *pool, const void *data, uint32_t size);
/* The bytes stay until weir_sim_pool_free. */
const uint8_t *weir_sim_pool_get(const struct weir_sim_pool *pool, uint32_t slot, uint32_t size);
void weir_sim_pool_free(struct weir_sim_pool *pool, uint32_t slot, uint32_t size);
void weir_sim_pool_deinit(struct weir_sim_pool *pool);
