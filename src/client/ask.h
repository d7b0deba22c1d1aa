/* SPDX-License-Identifier: Apache-2.0
 *
 * One question about one lock, asked until it is answered: a lost answer is asked for again with the same owner, which
 * changes nothing that was granted (re-entry keeps the token), until the time is up. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "weir/limiter.h"
#include "weir/lock.h"

struct weir_lock_call {
    const char *verb; /* "WEIR.LOCK", "WEIR.RELOCK", "WEIR.UNLOCK" */
    struct weir_slice name, owner;
    uint64_t ttl_ms;  /* 0: the verb has none */
    uint64_t wait_ns; /* WEIR.LOCK */
    uint64_t seen;    /* WEIR.LOCK; 0 = none */
    uint64_t timeout_ns;
};

struct weir_said {
    bool granted;            /* else held by another, or not held by this owner */
    bool repeated;           /* an answer had been lost before this one */
    struct weir_token token; /* where granted; of WEIR.UNLOCK zeros, as the two below */
    uint64_t sent_ns;        /* of the question that this answers */
    uint64_t lease_ns;
};

/* 0 and what was said; WEIR_EUNKNOWN: it was asked and no answer came, or it said itself that it does not know;
 * WEIR_EDOWN: nothing was asked, or nothing was done; WEIR_ELIMIT, WEIR_ERANGE: the server said so. Takes at most the
 * wait and the timeout. */
int weir_lock_ask(struct weir_locks *locks, const struct weir_lock_call *ask, struct weir_said *ret_said);

/* Who holds a lock, once asked, without asking again. False: nobody does, or it cannot be known by then. */
struct weir_holder {
    size_t owner_size;
    uint8_t owner[WEIR_LOCK_OWNER_MAX];
    uint64_t lease_ms;
};
bool weir_lock_look(struct weir_locks *locks, struct weir_slice name, uint64_t timeout_ns,
                    struct weir_holder *ret_holder);
