/* SPDX-License-Identifier: Apache-2.0
 *
 * Who holds a lock until when: what decides the locks of the embedded engine. A lock has one holder. These lines decide
 * for n holders of one name, so that a test can hold them against the permits of a concurrency limit. Each holder has a
 * number and an end. Whoever crashes holds no longer once its lease has ended.
 *
 * Pure: state, what happened and the time go in; the state moves forward or is left; no clock, no memory of its own.
 * Used over SQLite (locks/sqlite.c) and in the simulator. The permits themselves are decided elsewhere, in slots of a
 * table (core/limit/concurrency.c).
 *
 *     weir_holders_take     granted (a new number, or the same one for a holder that asks again), or held
 *     weir_holders_renew    a longer lease for one who holds it still; the number stays. Never after its end.
 *     weir_holders_release  back at once
 *
 * Time must not go back; a `now` before the newest seen is taken as the newest. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* One of them. In the order of their ends, soonest first. */
struct weir_lease_holder {
    uint64_t id;     /* a number that the host gives to a holder: equal numbers are the same one; never 0 */
    uint64_t number; /* of the grant */
    uint64_t end_ns; /* it holds while now < end_ns */
};

struct weir_holders {
    struct weir_lease_holder *out; /* those that hold; room for `max`, the caller's memory */
    size_t count;
    size_t max;       /* n */
    uint64_t seen_ns; /* the newest time seen */
};

enum weir_holders_answer {
    WEIR_HOLDERS_GRANTED, /* a new number */
    WEIR_HOLDERS_KEPT,    /* the holder has one already: the same number; its lease never became shorter */
    WEIR_HOLDERS_HELD,    /* by n others */
};

/* `next_number` > 0 is the number that a new grant gets; the caller counts it up on GRANTED. ret_holder: the one
 * granted or kept; on HELD the one that ends soonest (max 0: zeros). */
enum weir_holders_answer weir_holders_take(struct weir_holders *holders, uint64_t id, uint64_t next_number,
                                           uint64_t ttl_ns, uint64_t now_ns, struct weir_lease_holder *ret_holder);

/* False: this holder has none (any more): lost. A renewal never makes the lease end sooner. */
bool weir_holders_renew(struct weir_holders *holders, uint64_t id, uint64_t ttl_ns, uint64_t now_ns,
                        struct weir_lease_holder *ret_holder);

/* False: this holder had none. */
bool weir_holders_release(struct weir_holders *holders, uint64_t id, uint64_t now_ns);

/* Forgets those whose lease has ended; returns how many hold now. */
size_t weir_holders_expire(struct weir_holders *holders, uint64_t now_ns);

/* After expire: the holder, or NULL. */
const struct weir_lease_holder *weir_holders_of(const struct weir_holders *holders, uint64_t id);
