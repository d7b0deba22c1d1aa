/* SPDX-License-Identifier: Apache-2.0
 *
 * Who holds what until when: what decides the locks of the embedded engine. At most n permits of one name are out at
 * once; each has a holder, a number and an end. A lock is n = 1. Whoever crashes gives its permit back by letting the
 * lease end.
 *
 * Pure: state, what happened and the time go in; the state moves forward or is left; no clock, no memory of its own.
 * The same lines decide locks over SQLite (locks/sqlite.c) and in the simulator. The permits of concurrency limits are
 * decided elsewhere, in slots of a table (core/limit/concurrency.c), which a test holds against these with n > 1.
 *
 *     weir_permits_take     granted (a new number, or the same one for a holder that asks again), or held
 *     weir_permits_renew    a longer lease for one who holds it still; the number stays. Never after its end.
 *     weir_permits_release  back at once
 *
 * Time must not go back; a `now` before the newest seen is taken as the newest. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* One that is out. In order of their ends, soonest first. */
struct weir_permit {
    uint64_t holder; /* a number that the host gives to a holder: equal numbers are the same one; never 0 */
    uint64_t number; /* of the grant */
    uint64_t end_ns; /* it is out while now < end_ns */
};

struct weir_permits {
    struct weir_permit *out; /* room for `max`, the caller's memory */
    size_t count;
    size_t max;       /* n */
    uint64_t seen_ns; /* the newest time seen */
};

enum weir_permits_answer {
    WEIR_PERMITS_GRANTED, /* a new number */
    WEIR_PERMITS_KEPT,    /* the holder has one already: the same number; its lease never became shorter */
    WEIR_PERMITS_HELD,    /* n are out */
};

/* `next_number` > 0 is the number that a new grant gets; the caller counts it up on GRANTED. ret_permit: the one
 * granted or kept; on HELD the one that ends soonest (max 0: zeros). */
enum weir_permits_answer weir_permits_take(struct weir_permits *permits, uint64_t holder, uint64_t next_number,
                                           uint64_t ttl_ns, uint64_t now_ns, struct weir_permit *ret_permit);

/* False: this holder has none (any more): lost. A renewal never makes the lease end sooner. */
bool weir_permits_renew(struct weir_permits *permits, uint64_t holder, uint64_t ttl_ns, uint64_t now_ns,
                        struct weir_permit *ret_permit);

/* False: this holder had none. */
bool weir_permits_release(struct weir_permits *permits, uint64_t holder, uint64_t now_ns);

/* Forgets those whose lease has ended; returns how many are out now. */
size_t weir_permits_expire(struct weir_permits *permits, uint64_t now_ns);

/* After expire: the holder's permit, or NULL. */
const struct weir_permit *weir_permits_of(const struct weir_permits *permits, uint64_t holder);
