/* SPDX-License-Identifier: Apache-2.0
 *
 * A heap of moments: which is the next? Its members and its memory are the caller's. Thread rule: one thread. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct weir_due {
    uint64_t at_ns;
    size_t place; /* 1 and more: in the heap; 0: not there */
};

struct weir_due_heap {
    struct weir_due **members; /* from 1: room for max + 1 */
    size_t count, max;
};

/* Sets the moment; a member that is not there is added. There must be room. */
void weir_due_set(struct weir_due_heap *heap, struct weir_due *due, uint64_t at_ns);
void weir_due_remove(struct weir_due_heap *heap, struct weir_due *due); /* one that is not there: nothing */
struct weir_due *weir_due_first(const struct weir_due_heap *heap);      /* NULL: empty */
uint64_t weir_due_next_ns(const struct weir_due_heap *heap);            /* UINT64_MAX: empty */
