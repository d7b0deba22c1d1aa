/* SPDX-License-Identifier: Apache-2.0
 *
 * Ticks: how a point in time is kept in a slot's word. A tick is 2^-shift ns, with a shift of the limit's own, fine
 * enough that rounding a unit's time up to whole ticks costs at most 0.1 % of the rate. Points in time are kept modulo
 * 2^59, like sequence numbers in TCP (RFC 1982): a point and `now` may be compared while they lie less than 2^58 ticks
 * apart. Whoever keeps states sees to that, by forgetting fresh ones in time. */
#pragma once

#include <stdint.h>

#include "base/checked.h"

#define WEIR_TICKS_BITS 59
#define WEIR_TICKS_MASK ((UINT64_C(1) << WEIR_TICKS_BITS) - 1)
#define WEIR_TICKS_SHIFT_MIN (-6)
#define WEIR_TICKS_SHIFT_MAX 10
/* The longest time a capacity may take to refill. */
#define WEIR_TICKS_SPAN_MAX (UINT64_C(1) << 56)
/* The furthest ahead that a key may lie after its limit was lowered (weir_limit_convert). */
#define WEIR_TICKS_DEBT_MAX (UINT64_C(1) << 57)

/* The tick that `ns` falls into. */
static inline uint64_t weir_ticks_at(uint64_t ns, int32_t shift)
{
    weir_debug_assert(shift >= WEIR_TICKS_SHIFT_MIN && shift <= WEIR_TICKS_SHIFT_MAX);
    return (shift >= 0 ? ns << shift : ns >> -shift) & WEIR_TICKS_MASK;
}

static inline uint64_t weir_ticks_add(uint64_t at, uint64_t ticks)
{
    weir_debug_assert(at <= WEIR_TICKS_MASK);
    return (at + ticks) & WEIR_TICKS_MASK;
}

/* How far `at` lies ahead of `now`; negative if it has passed. Bits above those of ticks do not count. */
static inline int64_t weir_ticks_ahead(uint64_t at, uint64_t now)
{
    return (int64_t)((at - now) << (64 - WEIR_TICKS_BITS)) >> (64 - WEIR_TICKS_BITS);
}

/* The same, 0 if it has passed. */
static inline uint64_t weir_ticks_until(uint64_t at, uint64_t now)
{
    int64_t ahead = weir_ticks_ahead(at, now);
    return ahead > 0 ? (uint64_t)ahead : 0;
}

/* A length of time in ticks, rounded up, at most `max`. */
static inline uint64_t weir_ticks_of(uint64_t ns, int32_t shift, uint64_t max)
{
    weir_debug_assert(shift >= WEIR_TICKS_SHIFT_MIN && shift <= WEIR_TICKS_SHIFT_MAX);
    if (shift < 0)
        return weir_min_u64(weir_div_ceil(ns, UINT64_C(1) << -shift), max);
    return ns > max >> shift ? max : ns << shift;
}

/* Ticks of at most 1 ns in ns, rounded up: rounded down below 0 is rounded up above it. */
static inline __attribute__((always_inline)) uint64_t weir_ticks_fine_ns(uint64_t ticks, int32_t shift)
{
    return UINT64_C(0) - (uint64_t)((int64_t)(UINT64_C(0) - ticks) >> shift);
}

/* The smallest wait after which the clock, now at now_ns, shows `ticks` more. */
static inline __attribute__((always_inline)) uint64_t weir_ticks_wait_ns(uint64_t ticks, uint64_t now_ns, int32_t shift)
{
    weir_debug_assert(ticks <= WEIR_TICKS_MASK);
    if (shift >= 0)
        return weir_ticks_fine_ns(ticks, shift);
    if (ticks == 0)
        return 0;
    return weir_mul_sat(ticks, UINT64_C(1) << -shift) - (now_ns & ((UINT64_C(1) << -shift) - 1));
}
