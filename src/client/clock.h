/* SPDX-License-Identifier: Apache-2.0
 *
 * The holder's clock: monotonic, and counting while the machine sleeps, where the system has such a one. */
#pragma once

#include <limits.h>
#include <stdint.h>
#include <time.h>

#include "base/assert.h"
#include "base/units.h"

static inline uint64_t weir_clock_now_ns(void)
{
#ifdef CLOCK_BOOTTIME
    const clockid_t clock = CLOCK_BOOTTIME;
#else
    const clockid_t clock = CLOCK_MONOTONIC;
#endif
    struct timespec now;
    int failed = clock_gettime(clock, &now);
    weir_assert(failed == 0);
    return (uint64_t)now.tv_sec * 1000 * WEIR_NS_PER_MS + (uint64_t)now.tv_nsec;
}

/* What poll takes: ms until `deadline_ns`, rounded up; 0 when it has passed. */
static inline int weir_clock_poll_ms(uint64_t deadline_ns)
{
    uint64_t now_ns = weir_clock_now_ns();
    uint64_t left_ms = deadline_ns > now_ns ? (deadline_ns - now_ns - 1) / WEIR_NS_PER_MS + 1 : 0;
    return left_ms > INT_MAX ? INT_MAX : (int)left_ms;
}
