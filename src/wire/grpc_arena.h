/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory for one message that protobuf-c reads: taken from one block from its beginning, never more, and given back as
 * a whole when the next one is read. So a message of many empty parts, which take more memory than bytes, is refused.
 *
 * Thread rule: one thread at a time. */
#pragma once

#include <protobuf-c/protobuf-c.h>
#include <stdbool.h>

struct weir_grpc_arena {
    ProtobufCAllocator allocator; /* for protobuf-c */
    uint8_t *block;
    size_t size, used;
    bool full; /* something found no room */
};

/* `block` is aligned as malloc aligns. The arena must not be copied. */
void weir_grpc_arena_init(struct weir_grpc_arena *arena, void *block, size_t size);
