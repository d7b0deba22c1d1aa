/* SPDX-License-Identifier: Apache-2.0
 *
 * Between the two files that decide: decide.c, which tries one step, and decide_long.c, which goes the long way. Any
 * thread. */
#pragma once

#include "limits/one_step.h"
#include "weir/reserve.h"

/* One charge. Its limit's id may be good no more: WEIR_STEP_STALE. */
enum weir_step weir_decide_the_long_way(struct weir_limiter *limiter, const struct weir_charge *charge,
                                        const struct weir_time *time, unsigned flags, struct weir_verdict *v);

/* What a reserve wants to be noted, of part number `part`. */
struct weir_reserving {
    uint64_t end_ns;
    uint32_t part;
    struct weir_reserved *reserved[WEIR_CHARGES_MAX]; /* of charge i; NULL: it is not of the amount */
};

/* weir_limiter_decide, however many they are. `reserving`: NULL, or what was admitted is noted. */
int weir_decide_several(struct weir_limiter *limiter, const struct weir_charge *charges, size_t count,
                        const struct weir_time *time, unsigned flags, const struct weir_reserving *reserving,
                        struct weir_decision *ret_decision, struct weir_verdict *ret_verdicts);

/* WEIR_ERANGE: a cost; WEIR_ENOENT, WEIR_ESTALE: a limit. */
int weir_decide_check(const struct weir_limiter *limiter, const struct weir_charge *charges, size_t count);

/* The caller's time, or ours; and the table within reach of it. */
static inline struct weir_time weir_decide_time(struct weir_limiter *limiter, const struct weir_time *time)
{
    const struct weir_time now = time ? *time : weir_limiter_time(limiter);
    if (!weir_table_in_reach(&limiter->table, now.now_ns))
        weir_limiter_reach(limiter, now.now_ns);
    return now;
}
