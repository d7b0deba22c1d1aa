/* SPDX-License-Identifier: Apache-2.0
 *
 * Bytes in a row that grow to a bound. A loop keeps a few pieces warm: a connection takes one when it has bytes to
 * keep and gives it back when it has none, so that ten thousand idle connections own no buffer at all and a busy loop
 * works in the same cached pieces. The bound over all connections together is in conn.c. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define WEIR_PIECE_SIZE ((size_t)16 << 10)
#define WEIR_PIECES_KEPT 64 /* spare pieces that a loop keeps; more are freed */

struct weir_piece_pool {
    uint8_t *pieces[WEIR_PIECES_KEPT];
    size_t count;
};

struct weir_buffer {
    uint8_t *data; /* NULL when there are no bytes to keep */
    size_t size;
    size_t capacity;
};

void weir_piece_pool_deinit(struct weir_piece_pool *pool);

/* Room for `size` more bytes at data + size; false when that would pass `size_max` or memory is out (nothing
 * changes). */
bool weir_buffer_reserve(struct weir_buffer *buffer, struct weir_piece_pool *pool, size_t size, size_t size_max);

/* Drops `size` bytes from the front; an empty buffer gives its memory back. */
void weir_buffer_consume(struct weir_buffer *buffer, struct weir_piece_pool *pool, size_t size);

void weir_buffer_release(struct weir_buffer *buffer, struct weir_piece_pool *pool);
