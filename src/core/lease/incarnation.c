/* SPDX-License-Identifier: Apache-2.0
 *
 * Comparisons and maxima of numbers that the caller has read: nothing is stored here. Called by the lock engines
 * (locks/sqlite.c, sqlite_raise.c, etcd.c, postgres.c, postgres_run.c, and pace.c for the wait), and by
 * serve/locks.c, which refuses an incarnation that lies too far ahead of the clock. */
#include "core/lease/incarnation.h"

#include "base/checked.h"
#include "weir/limit.h"

#define SEEN_MAX (WEIR_INCARNATION_MAX / 2) /* leaves as much again */

bool weir_witness_differs(const struct weir_witness *known, const struct weir_witness *now)
{
    return now->system != known->system || now->timeline != known->timeline || now->position < known->position ||
           now->incarnation < known->incarnation;
}

uint64_t weir_incarnation_raise(uint64_t stored, uint64_t wall_s, uint64_t seen)
{
    if (stored >= WEIR_INCARNATION_MAX || seen >= WEIR_INCARNATION_MAX)
        return 0;
    /* One above what a resource has seen: in that incarnation a number may lie above all that we would give out. */
    uint64_t raised = weir_max_u64(stored, seen) + 1;
    raised = weir_max_u64(raised, weir_min_u64(wall_s, WEIR_INCARNATION_MAX));
    weir_assert(raised > stored && raised > seen);
    weir_assert(raised <= WEIR_INCARNATION_MAX);
    return raised;
}

uint64_t weir_incarnation_wait_ns(uint64_t raised, uint64_t clock_s, uint64_t wall_ns)
{
    return raised <= clock_s ? 0 : WEIR_NS_PER_SECOND - wall_ns % WEIR_NS_PER_SECOND;
}

bool weir_incarnation_leaves_room(uint64_t own, uint64_t seen)
{
    return seen <= weir_max_u64(own, SEEN_MAX);
}

bool weir_incarnation_within_a_day(uint64_t own, uint64_t wall_s, uint64_t seen)
{
    return seen <= weir_max_u64(own, weir_add_sat(wall_s, WEIR_INCARNATION_AHEAD_MAX_S));
}
