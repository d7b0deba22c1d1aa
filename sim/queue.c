/* SPDX-License-Identifier: Apache-2.0
 *
 * An entry of the heap holds the time, the order and the index of its event, so that 16 bytes move and not the event.
 * Orders are compared modulo 2^32. Called by world.c, run.c and locks.c; the simulation of sessions has no queue, it
 * goes by ticks (sessions.c). */
#include "sim/queue.h"

#include <stdlib.h>

#include "base/assert.h"

void weir_sim_queue_init(struct weir_sim_queue *queue)
{
    *queue = (struct weir_sim_queue){ .order = 1 };
}

void weir_sim_queue_deinit(struct weir_sim_queue *queue)
{
    free(queue->heap);
    free(queue->events);
    free(queue->free);
    *queue = (struct weir_sim_queue){ 0 };
}

static void grow(struct weir_sim_queue *queue)
{
    uint32_t room = queue->room ? queue->room * 2 : 256;
    queue->heap = realloc(queue->heap, room * sizeof *queue->heap);
    queue->events = realloc(queue->events, room * sizeof *queue->events);
    queue->free = realloc(queue->free, room * sizeof *queue->free);
    weir_assert(queue->heap && queue->events && queue->free);
    for (uint32_t i = room; i > queue->room; i--)
        queue->free[queue->free_count++] = i - 1;
    queue->room = room;
}

static bool is_before(const struct weir_sim_entry *a, const struct weir_sim_entry *b)
{
    return a->at_ns < b->at_ns || (a->at_ns == b->at_ns && (int32_t)(a->order - b->order) < 0);
}

void weir_sim_queue_push(struct weir_sim_queue *queue, uint64_t at_ns, const struct weir_sim_event *event)
{
    if (queue->count == queue->room)
        grow(queue);
    uint32_t slot = queue->free[--queue->free_count];
    queue->events[slot] = *event;
    const struct weir_sim_entry entry = { at_ns, queue->order++, slot };
    uint32_t i = queue->count++;
    for (; i > 0 && is_before(&entry, &queue->heap[(i - 1) / 4]); i = (i - 1) / 4)
        queue->heap[i] = queue->heap[(i - 1) / 4];
    queue->heap[i] = entry;
}

/* The least of the children first, ..., below `end`. */
static uint32_t least_of(const struct weir_sim_entry *heap, uint32_t first, uint32_t end)
{
    uint32_t least = first;
    for (uint32_t i = first + 1; i < end; i++)
        least = is_before(&heap[i], &heap[least]) ? i : least;
    return least;
}

bool weir_sim_queue_pop(struct weir_sim_queue *queue, uint64_t *ret_at_ns, struct weir_sim_event *ret_event)
{
    if (queue->count == 0)
        return false;
    struct weir_sim_entry *heap = queue->heap;
    *ret_at_ns = heap[0].at_ns;
    *ret_event = queue->events[heap[0].event];
    queue->free[queue->free_count++] = heap[0].event;
    struct weir_sim_entry last = heap[--queue->count];
    uint32_t i = 0, count = queue->count;
    for (uint32_t first; (first = 4 * i + 1) < count;) {
        uint32_t child = first + 4 <= count ? least_of(heap, first, first + 4) : least_of(heap, first, count);
        if (!is_before(&heap[child], &last))
            break;
        heap[i] = heap[child];
        i = child;
    }
    heap[i] = last;
    return true;
}
