/* SPDX-License-Identifier: Apache-2.0 */
#include "core/lease/waiting.h"

#include "base/assert.h"

void weir_waiting_add(struct weir_waiting *waiting, struct weir_waiter *waiter)
{
    weir_assert(!waiter->queued);
    weir_assert((waiting->first == NULL) == (waiting->count == 0));
    weir_assert(!waiting->last || !waiting->last->next);
    waiter->queued = true;
    waiter->next = NULL;
    waiter->previous = waiting->last;
    *(waiting->last ? &waiting->last->next : &waiting->first) = waiter;
    waiting->last = waiter;
    waiting->count++;
}

void weir_waiting_remove(struct weir_waiting *waiting, struct weir_waiter *waiter)
{
    if (!waiter->queued)
        return;
    weir_assert(waiting->count > 0);
    weir_assert(waiter->previous ? waiter->previous->next == waiter : waiting->first == waiter);
    weir_assert(waiter->next ? waiter->next->previous == waiter : waiting->last == waiter);
    *(waiter->previous ? &waiter->previous->next : &waiting->first) = waiter->next;
    *(waiter->next ? &waiter->next->previous : &waiting->last) = waiter->previous;
    waiter->next = waiter->previous = NULL;
    waiter->queued = false;
    waiting->count--;
}

struct weir_waiter *weir_waiting_find(const struct weir_waiting *waiting, uint64_t holder)
{
    struct weir_waiter *waiter = waiting->first;
    while (waiter && waiter->holder != holder)
        waiter = waiter->next;
    return waiter;
}

struct weir_waiter *weir_waiting_overdue(const struct weir_waiting *waiting, uint64_t now_ns)
{
    struct weir_waiter *waiter = waiting->first;
    while (waiter && waiter->until_ns > now_ns)
        waiter = waiter->next;
    return waiter;
}

uint64_t weir_waiting_next_ns(const struct weir_waiting *waiting)
{
    uint64_t next_ns = UINT64_MAX;
    for (const struct weir_waiter *waiter = waiting->first; waiter; waiter = waiter->next)
        next_ns = waiter->until_ns < next_ns ? waiter->until_ns : next_ns;
    return next_ns;
}
