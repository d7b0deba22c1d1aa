/* SPDX-License-Identifier: Apache-2.0
 *
 * One request to a lock manager, from when it comes until it is answered: its phases, and the moves between them. Pure.
 * The wait queue (waiting.h) moves those that are in it; the host moves the others. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/phase.h"
#include "weir/fence.h"

enum weir_waiter_phase {
    WEIR_WAITER_COME,    /* in no queue, and not asked for */
    WEIR_WAITER_ASKED,   /* in no queue: the store is asked for it, or whether its owner holds the lock */
    WEIR_WAITER_PUT_OFF, /* what it needs is not made before the clock allows it */
    WEIR_WAITER_NEW,     /* in a queue; the store has not answered yet, so nobody knows whether it must wait */
    WEIR_WAITER_NEW_ASKED,
    WEIR_WAITER_WAITING, /* in a queue; its wait ends by itself */
    WEIR_WAITER_WAITING_ASKED,
    WEIR_WAITER_OVERDUE,   /* its wait ended while the store was asked for it */
    WEIR_WAITER_ANSWERED,  /* what it is told is known */
    WEIR_WAITER_RETURNING, /* its client has gone: what it was granted is being given back */
    WEIR_WAITER_DONE,
    WEIR_WAITER_PHASES
};

extern const struct weir_phase weir_waiter_phases[WEIR_WAITER_PHASES];

/* Bytes that somebody else owns. */
struct weir_owner {
    const void *bytes;
    size_t size;
};

struct weir_waiter {
    struct weir_waiter *next, *previous;
    struct weir_owner owner;
    uint64_t until_ns; /* it waits while now < until_ns */
    uint64_t seen;     /* the highest incarnation that it has seen: a lower token is of no use to it */
    uint64_t later_ns; /* in a queue: it is asked for no sooner, for what it needs is not made before; 0: at any time */
    uint64_t learned;  /* of its queue, when it joined */
    struct weir_token behind; /* of the first other seen to hold the lock since it came, or since its owner held it: a
                                 later one is new; zeros: of nobody */
    enum weir_waiter_phase phase;
    bool refuted; /* the store has said that its owner does not hold the lock, since it came or was put off */
    bool gone;    /* its client went away */
};

bool weir_owner_equal(struct weir_owner a, struct weir_owner b);

void weir_waiter_move(struct weir_waiter *waiter, enum weir_waiter_phase to);

/* The store is about to be asked for it; once more: nothing. And: it was asked. */
void weir_waiter_ask(struct weir_waiter *waiter);
void weir_waiter_hear(struct weir_waiter *waiter);

bool weir_waiter_is_asked(const struct weir_waiter *waiter);
bool weir_waiter_is_queued(const struct weir_waiter *waiter);
bool weir_waiter_is_new(const struct weir_waiter *waiter); /* queued, and its wait has not begun */
