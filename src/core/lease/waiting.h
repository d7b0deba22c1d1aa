/* SPDX-License-Identifier: Apache-2.0
 *
 * Those who wait for one lock, in order of arrival. Pure: links live in the waiters, which the host owns.
 *
 * Who leaves (its client went away) is taken out wherever it stands; who has waited long enough is found by `overdue`.
 * An owner that waits already (its client reconnected) keeps the earlier place: `find` first. */
#ifndef WEIR_CORE_LEASE_WAITING_H
#define WEIR_CORE_LEASE_WAITING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct weir_waiter {
    struct weir_waiter *next, *previous;
    uint64_t holder;   /* as in permits.h */
    uint64_t until_ns; /* it waits while now < until_ns */
    bool queued;
};

struct weir_waiting {
    struct weir_waiter *first, *last;
    size_t count;
};

void weir_waiting_add(struct weir_waiting *waiting, struct weir_waiter *waiter);
void weir_waiting_remove(struct weir_waiting *waiting,
                         struct weir_waiter *waiter); /* one that is not queued: nothing */
struct weir_waiter *weir_waiting_find(const struct weir_waiting *waiting, uint64_t holder);

/* One whose time has passed, the first in order; NULL if there is none. */
struct weir_waiter *weir_waiting_overdue(const struct weir_waiting *waiting, uint64_t now_ns);
/* The soonest until_ns of all; UINT64_MAX if nobody waits. */
uint64_t weir_waiting_next_ns(const struct weir_waiting *waiting);

#endif
