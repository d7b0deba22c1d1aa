/* SPDX-License-Identifier: Apache-2.0
 *
 * An arena: many small allocations that live and die together. Thread rule: one user at a time. */
#pragma once

#include <stddef.h>

struct weir_arena;

/* NULL when there is no memory. */
struct weir_arena *weir_arena_create(void);

/* Wipes before it frees: configurations hold secrets. NULL is allowed. */
void weir_arena_destroy(struct weir_arena *arena);

/* Zeroed, aligned for anything; NULL when there is no memory or count * size overflows. */
void *weir_arena_alloc(struct weir_arena *arena, size_t count, size_t size);

/* A copy of `size` bytes with a terminating NUL after them. */
char *weir_arena_copy(struct weir_arena *arena, const void *data, size_t size);

/* printf into the arena. */
char *weir_arena_print(struct weir_arena *arena, const char *format, ...) __attribute__((format(printf, 2, 3)));
