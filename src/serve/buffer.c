/* SPDX-License-Identifier: Apache-2.0
 *
 * A buffer takes one piece of the pool. Where that is too small it takes memory from malloc instead, a piece's size
 * doubled as often as needed, up to its bound; only memory of a piece's size goes back to the pool. Called by conn.c
 * for input and by conn_socket.c for output. */
#include "serve/buffer.h"

#include <stdlib.h>
#include <string.h>

#include "base/assert.h"

static uint8_t *pool_take(struct weir_piece_pool *pool)
{
    return pool->count > 0 ? pool->pieces[--pool->count] : malloc(WEIR_PIECE_SIZE);
}

static void pool_give(struct weir_piece_pool *pool, uint8_t *data, size_t capacity)
{
    if (data && capacity == WEIR_PIECE_SIZE && pool->count < WEIR_PIECES_KEPT)
        pool->pieces[pool->count++] = data;
    else
        free(data);
}

void weir_piece_pool_deinit(struct weir_piece_pool *pool)
{
    while (pool->count > 0)
        free(pool->pieces[--pool->count]);
}

/* Out of line: happens once per turn for the first piece, and for requests or answers that outgrow one. */
static bool grow(struct weir_buffer *buffer, struct weir_piece_pool *pool, size_t needed, size_t size_max)
{
    size_t capacity = WEIR_PIECE_SIZE;
    while (capacity < needed)
        capacity *= 2;
    if (capacity > size_max && capacity > WEIR_PIECE_SIZE)
        capacity = size_max;

    uint8_t *data = capacity == WEIR_PIECE_SIZE ? pool_take(pool) : malloc(capacity);
    if (!data)
        return false;
    if (buffer->size > 0)
        memcpy(data, buffer->data, buffer->size);
    pool_give(pool, buffer->data, buffer->capacity);
    buffer->data = data;
    buffer->capacity = capacity;
    return true;
}

bool weir_buffer_reserve(struct weir_buffer *buffer, struct weir_piece_pool *pool, size_t size, size_t size_max)
{
    weir_assert(buffer->size <= buffer->capacity);
    if (size <= buffer->capacity - buffer->size)
        return true;
    if (buffer->size > size_max || size > size_max - buffer->size)
        return false;
    return grow(buffer, pool, buffer->size + size, size_max);
}

void weir_buffer_consume(struct weir_buffer *buffer, struct weir_piece_pool *pool, size_t size)
{
    weir_assert(size <= buffer->size);
    buffer->size -= size;
    if (buffer->size == 0)
        weir_buffer_release(buffer, pool);
    else if (size > 0)
        memmove(buffer->data, buffer->data + size, buffer->size);
}

void weir_buffer_release(struct weir_buffer *buffer, struct weir_piece_pool *pool)
{
    pool_give(pool, buffer->data, buffer->capacity);
    *buffer = (struct weir_buffer){ 0 };
}
