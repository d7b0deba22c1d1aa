/* SPDX-License-Identifier: Apache-2.0
 *
 * The limiter's own clock: CLOCK_MONOTONIC, told from the processor's time-stamp counter where the kernel itself goes
 * by that. Reading the counter waits for nothing; clock_gettime waits until everything before it is done, which on a
 * hot key is half of a decision.
 *
 * An anchor says what the clock showed at one reading of the counter, and how many ns a tick lasts. Ticks are counted
 * by a rate that is 1/512 too low: that is more than the kernel changes the clock's speed by (500 parts in a million
 * either way, adjtimex(2)) and the two readings that gave the rate are uncertain by. So the time told is behind the
 * clock or at it, never ahead; behind by some 0.3 ms at most, for an anchor that is older than 100 ms is renewed before
 * the time is told. While one thread renews it the others go on by the old one, up to 400 ms. On one thread the time
 * never goes back: an old anchor has always fallen behind by more than a new one can be uncertain by.
 *
 * Where no anchor can be made (the counter went back, or ran on while the machine slept) the clock itself is read,
 * until 40 ms later a new anchor stands. A counter that changed its speed while an anchor was used may have run ahead:
 * the time then stands still until the clock has caught up, and after three times the counter is used no more. Two
 * things cannot be seen before the anchor is renewed: that the counter jumped forward, or back by less than the anchor
 * is old. A counter that the kernel goes by does neither. One that stands still is seen by weir_clock_check, which
 * weir_limiter_maintain calls.
 *
 * Any thread; nothing is written to tell the time but every 100 ms. */
#pragma once

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "weir/limiter.h"

/* What it reads: the machine, or a test. */
struct weir_clock_source {
    void *context;
    uint64_t (*ticks)(void *context);
    uint64_t (*now_ns)(void *context);
    bool (*trusted)(void *context); /* whether the kernel goes by the counter */
};

struct weir_clock {
    uint64_t sequence; /* atomic: odd while the anchor is replaced */
    uint64_t at_ticks; /* atomic: the anchor; at this tick the clock had just shown at_ns */
    uint64_t at_ns;    /* atomic */
    uint64_t rate;     /* atomic: 2^32 ns a tick, a bit too low */
    uint64_t reach;    /* atomic: ticks in 100 ms; 0: there is no anchor */
    bool counted;      /* atomic: by the counter, as long as it can be trusted; never again after that */
    uint64_t floor_ns; /* atomic: what may have been told when the counter was ahead */
    pthread_mutex_t mutex;
    struct weir_clock_source source;
    /* under the mutex */
    bool seen; /* a reading, from which the rate is measured */
    uint64_t seen_ticks, seen_ns;
    uint64_t seen_rate; /* up to it; 0: of none */
    unsigned strikes;
    uint64_t checked_ns;
};

/* `kind` is AUTO, TSC, MONOTONIC or COARSE. False: it is TSC, and the kernel does not go by the counter. */
bool weir_clock_init(struct weir_clock *clock, enum weir_clock_kind kind, const struct weir_clock_source *source);
void weir_clock_deinit(struct weir_clock *clock);

/* The machine's, for `kind`. */
struct weir_clock_source weir_clock_machine(enum weir_clock_kind kind);

/* Compares what it tells with the clock, and now and then asks again whether the kernel goes by the counter. */
void weir_clock_check(struct weir_clock *clock);

/* The way of weir_clock_at where the anchor does not do. */
uint64_t weir_clock_renew(struct weir_clock *clock);

static inline uint64_t weir_clock_ticks(void)
{
#if defined(__x86_64__)
    return __builtin_ia32_rdtsc();
#else
    return 0;
#endif
}

/* By the anchor, if it is younger than `times` 100 ms. False, too, if the anchor is just being replaced. */
static inline bool weir_clock_told(struct weir_clock *clock, uint64_t ticks, uint64_t times, uint64_t *ret_ns)
{
    const uint64_t sequence = __atomic_load_n(&clock->sequence, __ATOMIC_ACQUIRE);
    const uint64_t passed = ticks - __atomic_load_n(&clock->at_ticks, __ATOMIC_ACQUIRE);
    const uint64_t rate = __atomic_load_n(&clock->rate, __ATOMIC_ACQUIRE);
    const uint64_t at_ns = __atomic_load_n(&clock->at_ns, __ATOMIC_ACQUIRE);
    const uint64_t reach = __atomic_load_n(&clock->reach, __ATOMIC_ACQUIRE);
    *ret_ns = at_ns + (passed * rate >> 32); /* of no meaning, and not used, where more has passed */
    return passed < reach * times && (sequence & 1) == 0 &&
           sequence == __atomic_load_n(&clock->sequence, __ATOMIC_RELAXED);
}

/* ns. `ticks` is what the counter shows. */
static inline uint64_t weir_clock_at(struct weir_clock *clock, uint64_t ticks)
{
    uint64_t ns;
    return __builtin_expect(weir_clock_told(clock, ticks, 1, &ns), 1) ? ns : weir_clock_renew(clock);
}

static inline uint64_t weir_clock_now(struct weir_clock *clock)
{
    return weir_clock_at(clock, weir_clock_ticks());
}
