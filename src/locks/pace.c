/* SPDX-License-Identifier: Apache-2.0
 *
 * When a raise has to wait, the time at which it is due is set once, on the monotonic clock, so that a wall clock that
 * is set back does not delay it further. How long it waits is decided in core/lease/incarnation.c. Called by the lock
 * engines, which make the raise: sqlite_raise.c, postgres.c, postgres_run.c and etcd.c. */
#include "locks/pace.h"

#include <time.h>

#include "core/lease/incarnation.h"
#include "weir/limit.h"

static uint64_t now_ns(clockid_t clock)
{
    struct timespec now;
    (void)clock_gettime(clock, &now);
    return now.tv_sec < 0 ? 0 : (uint64_t)now.tv_sec * WEIR_NS_PER_SECOND + (uint64_t)now.tv_nsec;
}

uint64_t weir_pace_clock_s(void)
{
    return now_ns(CLOCK_REALTIME) / WEIR_NS_PER_SECOND;
}

bool weir_pace_may(struct weir_pace *pace, uint64_t raised, uint64_t clock_s)
{
    uint64_t wait_ns = weir_incarnation_wait_ns(raised, clock_s, now_ns(CLOCK_REALTIME));
    uint64_t begin_ns = now_ns(CLOCK_MONOTONIC);
    bool may = wait_ns == 0 || (pace->due_ns != 0 && begin_ns >= pace->due_ns);
    if (may)
        pace->due_ns = 0; /* whatever becomes of it */
    else if (pace->due_ns == 0)
        pace->due_ns = begin_ns + wait_ns;
    return may;
}

bool weir_pace_waits(const struct weir_pace *pace)
{
    return pace->due_ns > now_ns(CLOCK_MONOTONIC);
}
