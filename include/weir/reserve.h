/* SPDX-License-Identifier: Apache-2.0
 *
 * Reservations: for work whose cost is known only afterwards (tokens of a language model, bytes, rows).
 *
 *     reserve an estimate ▶ work ▶ settle what it took
 *
 * What it decides: a reserve is one decision over all limits of a request, all or none, charged at once. A settle gives
 * back what was not used, as far as time has not given it back already, or charges what was used beyond, whatever is
 * left. So what is charged never exceeds a limit's own promise but by what was reserved too low, and the answers tell
 * that. What it does not: who asks for how much, and when a reservation that nobody settles is to end. The caller keeps
 * the tickets (struct weir_reservation) and calls weir_limiter_expire; `weir serve` does both (docs/reservations.md).
 *
 * Some charges of a request are of the amount (tokens a minute), others are not (requests a minute). Only the former
 * are settled, and their limits must say that they are (weir_limit_spec.reserves). A concurrency limit gives a permit,
 * which goes back when the reservation ends; its lease must be as long as the ttl.
 *
 * What is given back, by algorithm:
 *     token_bucket      at most b less its highest level since the key's oldest open reservation: refill that ran over
 *                       is lost
 *     leaky_bucket      what is at the end of the queue: nothing once somebody queued after it
 *     fixed_window, sliding_counter, sliding_log    what was charged in the window, or stands in the log, while it does
 * Nothing where the key was forgotten (evicted too: a full table knows no difference), reset, or is of another
 * algorithm by now. A change of the limit (keep, proportional) converts it as it converts the key.
 *
 * What is charged beyond brings a key below zero, down to 15 capacities in debt (or as far as a bucket's time goes, 10
 * years or more); a log cannot be in debt, and is full at most. What could not be charged is told: `uncharged`. A clock
 * that jumped ahead and came back is noticed that much later with such a limit: a key may be as far ahead.
 *
 * Thread rule: as weir/limiter.h; one reservation is handed to one call at a time.
 *
 * Memory: beside the tickets, which are the caller's, one mark of 56 bytes for each key that has open reservations, at
 * most weir_limiter_options.reserved_keys_max of them. When all are taken a mark whose reservations are past their end
 * gives way (and if these are settled all the same nothing is given back); without one a reserve is refused as `full`.
 * So reservations that are never settled take no more than that. */
#ifndef WEIR_RESERVE_H
#define WEIR_RESERVE_H

#include "weir/limiter.h"

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#pragma GCC visibility push(default)
#endif

#define WEIR_RESERVE_AMOUNT_MAX ((uint64_t)INT64_MAX)
#define WEIR_RESERVE_TTL_MAX_NS (86400 * WEIR_NS_PER_SECOND)
#define WEIR_RESERVE_LIMITS_MAX 8  /* limits of one reservation that are charged the amount */
#define WEIR_RESERVE_PERMITS_MAX 8 /* and those that gave a permit */
#define WEIR_RESERVE_PARTS_MAX 8   /* the reserve and up to seven times extended */
#define WEIR_RESERVED_KEYS_DEFAULT ((uint64_t)65536)

struct weir_reserve_options {
    uint64_t amount;                  /* 1 to WEIR_RESERVE_AMOUNT_MAX */
    uint64_t ttl_ns;                  /* 1 to WEIR_RESERVE_TTL_MAX_NS */
    uint64_t keep;                    /* 1: when the ttl ends all of it stays charged; 0: it is given back */
    uint64_t reserved[WEIR_RESERVED]; /* 0 */
};

/* What was charged at a time, and under one limit. Opaque. */
struct weir_reserved_part {
    uint64_t units;
    uint64_t at;
    uint64_t scale;
};

struct weir_reserved {
    weir_limit_id limit;
    struct weir_key key;
    uint64_t epoch;
    struct weir_reserved_part parts[WEIR_RESERVE_PARTS_MAX];
};

/* A ticket. The caller may read the first three members, may move and copy it, and owns nothing through it. Only the
 * first `count` of `limits` are ever looked at. */
struct weir_reservation {
    uint64_t held;   /* units reserved, extensions included; 0 once it has ended */
    uint64_t end_ns; /* when its ttl ends, on the clock of the calls' now_ns */
    uint64_t count;  /* limits that were charged the amount */
    uint64_t life[6];
    uint64_t permit;
    uint64_t permits_count;
    struct weir_key permits[WEIR_RESERVE_PERMITS_MAX];
    uint64_t reserved[WEIR_RESERVED]; /* 0 */
    struct weir_reserved limits[WEIR_RESERVE_LIMITS_MAX];
};

/* What became of it. Of several limits each may have given back another number. */
struct weir_settled {
    uint64_t given_back;      /* by the limit that gave back least */
    uint64_t under_estimated; /* used beyond what was reserved; late: beyond what was still charged */
    uint64_t uncharged;       /* of that, at most, what a limit could not charge: its key is in debt as far as can be */
    bool late;                /* it had ended by its ttl */
    bool again;               /* it had been settled before: nothing has changed */
    uint64_t given[WEIR_RESERVE_LIMITS_MAX]; /* by each of the ticket's limits */
    uint64_t reserved[WEIR_RESERVED];        /* 0 */
};

/* Decides `count` charges together, as weir_limiter_decide. Bit i of `amounts`: charge i costs the amount.
 * Admitted, *ret_reservation is the ticket; else it is not changed. Errors: those of weir_limiter_decide; WEIR_ERANGE
 * (an option, a lease shorter than the ttl), WEIR_EINVAL (a charge of the amount that costs something else or whose
 * limit does not say that it reserves), WEIR_ELIMIT (more limits or permits than a ticket has room for). */
WEIR_MUST_CHECK int weir_limiter_reserve(struct weir_limiter *limiter, const struct weir_charge *charges, size_t count,
                                         uint64_t amounts, const struct weir_reserve_options *options,
                                         const struct weir_time *time, struct weir_reservation *ret_reservation,
                                         struct weir_decision *ret_decision, struct weir_verdict *ret_verdicts,
                                         struct weir_fault *ret_fault);

/* `more` for the same limits, all or none, and a new end, ttl_ns from now; its permits are renewed. ret_verdicts has
 * room for the ticket's `count`, in its order. Refused, nothing changes: it ends when it would have.
 * Errors: WEIR_ELOST (it has ended), WEIR_ELIMIT (it has all its parts), WEIR_ERANGE, WEIR_ESTALE (its limits were
 * replaced twice since: settle it, and reserve anew). */
WEIR_MUST_CHECK int weir_limiter_extend(struct weir_limiter *limiter, struct weir_reservation *reservation,
                                        uint64_t more, uint64_t ttl_ns, const struct weir_time *time,
                                        struct weir_decision *ret_decision, struct weir_verdict *ret_verdicts);

/* It took `actual`. To cancel it is to settle 0. One whose ttl has ended is first ended (weir_limiter_expire), then
 * `actual` is charged, or, where it was kept, what that is more than was reserved. To settle twice changes nothing.
 * WEIR_ERANGE: actual is above WEIR_RESERVE_AMOUNT_MAX, and nothing has changed. */
int weir_limiter_settle(struct weir_limiter *limiter, struct weir_reservation *reservation, uint64_t actual,
                        const struct weir_time *time, struct weir_settled *ret_settled);

/* If its ttl has ended and it was not settled: gives all of it back, or keeps it. False: neither; nothing changes. */
bool weir_limiter_expire(struct weir_limiter *limiter, struct weir_reservation *reservation,
                         const struct weir_time *time, struct weir_settled *ret_settled);

#if defined(__GNUC__)
#pragma GCC visibility pop
#endif

#ifdef __cplusplus
}
#endif
#endif
