/* SPDX-License-Identifier: Apache-2.0
 *
 * A list of chunks of 64 KiB. An allocation is cut from the newest chunk, and zeroed; what does not fit there gets a
 * new chunk, a larger one if need be. Nothing is freed before weir_arena_destroy. Each configuration (config.c) and
 * each compiled set of rules (rules.c) has an arena, and each YAML tree one while it is read. */
#include "rules/arena.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHUNK_BYTES ((size_t)64 << 10)

struct chunk {
    struct chunk *next;
    size_t used;
    size_t size;
    _Alignas(max_align_t) unsigned char bytes[];
};

struct weir_arena {
    struct chunk *chunks; /* the first is the one being filled */
};

struct weir_arena *weir_arena_create(void)
{
    return calloc(1, sizeof(struct weir_arena));
}

void weir_arena_destroy(struct weir_arena *arena)
{
    if (!arena)
        return;
    for (struct chunk *chunk = arena->chunks; chunk;) {
        struct chunk *next = chunk->next;
        explicit_bzero(chunk->bytes, chunk->used);
        free(chunk);
        chunk = next;
    }
    free(arena);
}

static struct chunk *chunk_add(struct weir_arena *arena, size_t size)
{
    size_t room = size > CHUNK_BYTES ? size : CHUNK_BYTES;
    /* A large one comes from the system as zeroes that take no memory before they are used. */
    struct chunk *chunk = room > CHUNK_BYTES ? calloc(1, sizeof(*chunk) + room) : malloc(sizeof(*chunk) + room);
    if (!chunk)
        return NULL;
    chunk->size = room;
    chunk->used = 0;
    chunk->next = arena->chunks;
    arena->chunks = chunk;
    return chunk;
}

void *weir_arena_alloc(struct weir_arena *arena, size_t count, size_t size)
{
    size_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes) || bytes > SIZE_MAX / 2)
        return NULL;
    size_t step = _Alignof(max_align_t);
    bytes = (bytes + step - 1) / step * step;
    struct chunk *chunk = arena->chunks;
    if (!chunk || chunk->size - chunk->used < bytes)
        chunk = chunk_add(arena, bytes);
    if (!chunk)
        return NULL;
    void *place = chunk->bytes + chunk->used;
    chunk->used += bytes;
    return chunk->size > CHUNK_BYTES ? place : memset(place, 0, bytes);
}

char *weir_arena_copy(struct weir_arena *arena, const void *data, size_t size)
{
    char *copy = size < SIZE_MAX ? weir_arena_alloc(arena, size + 1, 1) : NULL;
    if (copy && size)
        memcpy(copy, data, size);
    return copy;
}

char *weir_arena_print(struct weir_arena *arena, const char *format, ...)
{
    char text[1024];
    va_list list;
    va_start(list, format);
    int size = vsnprintf(text, sizeof(text), format, list);
    va_end(list);
    if (size < 0)
        return NULL;
    return weir_arena_copy(arena, text, (size_t)size < sizeof(text) ? (size_t)size : sizeof(text) - 1);
}
