/* SPDX-License-Identifier: Apache-2.0
 *
 * Used by the files that read messages: envoy_proto.c, grpc_health.c, grpc_reflection.c. */
#include "wire/grpc_arena.h"

#include <stddef.h>

static void *take(void *context, size_t size)
{
    struct weir_grpc_arena *arena = context;
    const size_t aligned = (size + sizeof(max_align_t) - 1) / sizeof(max_align_t) * sizeof(max_align_t);
    if (aligned < size || aligned > arena->size - arena->used) {
        arena->full = true;
        return NULL;
    }
    void *taken = arena->block + arena->used;
    arena->used += aligned;
    return taken;
}

static void give_back(void *context, void *taken)
{
    (void)context, (void)taken; /* all of it at once */
}

void weir_grpc_arena_init(struct weir_grpc_arena *arena, void *block, size_t size)
{
    *arena = (struct weir_grpc_arena){ .allocator = { take, give_back, arena }, .block = block, .size = size };
}
