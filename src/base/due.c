/* SPDX-License-Identifier: Apache-2.0
 *
 * A binary heap in an array that begins at 1. Each member knows its place in it, so that its moment can be changed or
 * removed without a search. Called by the event loop's timers (serve/timer.c), by the lock manager
 * (locks/manager*.c) and by the keys of shared limits (limits/share_keys.c). */
#include "base/due.h"

#include "base/assert.h"

static void put(struct weir_due_heap *heap, struct weir_due *due, size_t place)
{
    heap->members[place] = due;
    due->place = place;
}

static void rise(struct weir_due_heap *heap, struct weir_due *due)
{
    size_t place = due->place;
    for (; place > 1 && heap->members[place / 2]->at_ns > due->at_ns; place /= 2)
        put(heap, heap->members[place / 2], place);
    put(heap, due, place);
}

static void sink(struct weir_due_heap *heap, struct weir_due *due)
{
    size_t place = due->place;
    for (size_t child; (child = 2 * place) <= heap->count; place = child) {
        if (child < heap->count && heap->members[child + 1]->at_ns < heap->members[child]->at_ns)
            child++;
        if (heap->members[child]->at_ns >= due->at_ns)
            break;
        put(heap, heap->members[child], place);
    }
    put(heap, due, place);
}

void weir_due_set(struct weir_due_heap *heap, struct weir_due *due, uint64_t at_ns)
{
    due->at_ns = at_ns;
    if (due->place == 0) {
        weir_assert(heap->count < heap->max);
        put(heap, due, ++heap->count);
    }
    rise(heap, due);
    sink(heap, due);
}

void weir_due_remove(struct weir_due_heap *heap, struct weir_due *due)
{
    size_t place = due->place;
    if (place == 0)
        return;
    struct weir_due *last = heap->members[heap->count--];
    due->place = 0;
    if (last == due)
        return;
    put(heap, last, place);
    rise(heap, last);
    sink(heap, last);
}

struct weir_due *weir_due_first(const struct weir_due_heap *heap)
{
    return heap->count > 0 ? heap->members[1] : NULL;
}

uint64_t weir_due_next_ns(const struct weir_due_heap *heap)
{
    return heap->count > 0 ? heap->members[1]->at_ns : UINT64_MAX;
}
