/* SPDX-License-Identifier: Apache-2.0
 *
 * Anchors are made here: read, judged, published. Called by whoever finds the anchor too old (clock.h), under the mutex
 * that all hold who publish one. */
#include "limits/clock.h"

#include <stdio.h>
#include <string.h>
#if defined(__x86_64__)
#include <cpuid.h>
#include <sys/prctl.h>
#endif

#include "base/assert.h"
#include "base/checked.h"
#include "base/timing.h"

#define REACH_NS (100 * WEIR_NS_PER_MS)
#define LATE 4                         /* times that: how long the old anchor does while another thread renews it */
#define FIRST_NS (20 * WEIR_NS_PER_MS) /* between the two readings of a first rate */
#define TICKS_APART 4000               /* a reading is uncertain by that much: about a microsecond */
#define TRIES 3                        /* to get one that is not */
#define STRIKES 3                      /* times wrong while in use; then it is used no more */
#define CHECK_NS WEIR_NS_PER_SECOND    /* how often the kernel is asked */
#define BEHIND_MAX_NS WEIR_NS_PER_MS   /* more is told by weir_clock_check */
#define SLOWER_BY(rate) ((rate) >> 9)  /* see clock.h */

/* The clock showed `ns` after the counter's `before` and before its `ticks`. */
struct reading {
    uint64_t before, ns, ticks;
    bool narrow;
};

/* ---- the machine ---- */

static uint64_t machine_ticks(void *context)
{
    (void)context;
    return weir_clock_ticks();
}

static uint64_t machine_now(void *context)
{
    (void)context;
    return weir_timing_now(CLOCK_MONOTONIC);
}

static uint64_t machine_coarse(void *context)
{
    (void)context;
    return weir_timing_now(CLOCK_MONOTONIC_COARSE);
}

#if defined(__x86_64__)
/* It counts at one speed, in sleep states too, and may be read here. */
static bool counts_evenly(void)
{
    unsigned a, b, c, d = 0, mode = PR_TSC_ENABLE;
    bool even = __get_cpuid(0x80000007, &a, &b, &c, &d) && (d & 1u << 8);
    return even && (prctl(PR_GET_TSC, &mode, 0, 0, 0) != 0 || mode == PR_TSC_ENABLE);
}

/* The kernel watches the counter, of all processors, and names another clock when it found it wanting. */
static bool machine_trusted(void *context)
{
    (void)context;
    char name[8] = "";
    FILE *file = fopen("/sys/devices/system/clocksource/clocksource0/current_clocksource", "re");
    bool read = file && fgets(name, sizeof name, file);
    if (file)
        (void)fclose(file);
    return read && strcmp(name, "tsc\n") == 0 && counts_evenly();
}
#else
static bool machine_trusted(void *context)
{
    (void)context;
    return false;
}
#endif

struct weir_clock_source weir_clock_machine(enum weir_clock_kind kind)
{
    return (struct weir_clock_source){ .ticks = machine_ticks,
                                       .now_ns = kind == WEIR_CLOCK_COARSE ? machine_coarse : machine_now,
                                       .trusted = machine_trusted };
}

/* ---- anchors ---- */

static uint64_t now_ns(struct weir_clock *clock)
{
    return clock->source.now_ns(clock->source.context);
}

static uint64_t ticks_now(struct weir_clock *clock)
{
    return clock->source.ticks(clock->source.context);
}

static uint64_t not_below_floor(struct weir_clock *clock, uint64_t ns)
{
    return weir_max_u64(ns, __atomic_load_n(&clock->floor_ns, __ATOMIC_RELAXED));
}

static void publish(struct weir_clock *clock, const struct reading *at, uint64_t rate)
{
    const uint64_t sequence = __atomic_load_n(&clock->sequence, __ATOMIC_RELAXED);
    weir_assert((sequence & 1) == 0);
    __atomic_store_n(&clock->sequence, sequence + 1, __ATOMIC_RELAXED);
    __atomic_store_n(&clock->at_ticks, at->ticks, __ATOMIC_RELEASE);
    __atomic_store_n(&clock->at_ns, at->ns, __ATOMIC_RELEASE);
    __atomic_store_n(&clock->rate, rate - SLOWER_BY(rate), __ATOMIC_RELEASE);
    __atomic_store_n(&clock->reach, rate > 0 ? (REACH_NS << 32) / rate : 0, __ATOMIC_RELEASE);
    __atomic_store_n(&clock->sequence, sequence + 2, __ATOMIC_SEQ_CST);
}

static struct reading read_both(struct weir_clock *clock)
{
    struct reading reading = { 0 };
    for (unsigned i = 0; i < TRIES && !reading.narrow; i++) {
        reading.before = ticks_now(clock);
        reading.ns = now_ns(clock);
        reading.ticks = ticks_now(clock);
        reading.narrow = reading.ticks - reading.before <= TICKS_APART;
    }
    return reading;
}

static void note(struct weir_clock *clock, const struct reading *reading, uint64_t rate)
{
    clock->seen = reading->narrow;
    clock->seen_ticks = reading->ticks;
    clock->seen_ns = reading->ns;
    clock->seen_rate = rate;
}

/* Without an anchor: measuring begins anew with this reading. */
static void restart(struct weir_clock *clock, const struct reading *from)
{
    const struct reading none = { 0 };
    publish(clock, &none, 0);
    note(clock, from, 0);
}

/* The anchor was used and wrong. What it told at most is not gone below. */
static void strike(struct weir_clock *clock, const struct reading *from)
{
    const uint64_t at_ticks = clock->at_ticks, at_ns = clock->at_ns, rate = clock->rate;
    restart(clock, from);
    (void)now_ns(clock); /* and what was read before is done */
    uint64_t told_ns = at_ns + (uint64_t)((weir_u128)(ticks_now(clock) - at_ticks) * rate >> 32);
    if (told_ns > from->ns && told_ns - from->ns <= LATE * REACH_NS)
        __atomic_store_n(&clock->floor_ns, not_below_floor(clock, told_ns), __ATOMIC_RELAXED);
    if (++clock->strikes == STRIKES)
        __atomic_store_n(&clock->counted, false, __ATOMIC_RELEASE);
}

/* 2^32 ns a tick, between the reading that was seen and this one; 0: not to be told. */
static uint64_t rate_until(const struct weir_clock *clock, const struct reading *reading)
{
    const uint64_t ticks = reading->ticks - clock->seen_ticks, ns = reading->ns - clock->seen_ns;
    if (!clock->seen || ticks == 0 || ticks >> 62 != 0 || reading->ns < clock->seen_ns)
        return 0;
    const weir_u128 rate = ((weir_u128)ns << 32) / ticks;
    return rate >> 40 == 0 ? (uint64_t)rate : 0; /* a tick of 256 ns and more is no clock */
}

/* Two rates that no kernel makes of one clock: the time told by one may have been ahead of the other. */
static bool differ(uint64_t a, uint64_t b)
{
    return (a > b ? a - b : b - a) > SLOWER_BY(a);
}

/* The first anchor takes two rates that agree, each over FIRST_NS: the machine may have slept in one of them. */
static void measure(struct weir_clock *clock, const struct reading *reading, bool in_use)
{
    const bool anchored = clock->reach > 0;
    const uint64_t rate = rate_until(clock, reading);
    if (!anchored && rate > 0 && reading->ns - clock->seen_ns < FIRST_NS)
        return;
    const bool good = rate > 0 && !differ(rate, clock->seen_rate);
    if (anchored && !good && in_use) {
        strike(clock, reading);
    } else if (anchored && !good) {
        restart(clock, reading);
    } else if (!good || reading->ns >= clock->floor_ns) {
        if (good)
            publish(clock, reading, rate);
        note(clock, reading, rate);
    }
}

static uint64_t renew(struct weir_clock *clock)
{
    uint64_t by_anchor;
    if (weir_clock_told(clock, ticks_now(clock), 1, &by_anchor)) /* another thread did it meanwhile */
        return by_anchor;
    const struct reading reading = read_both(clock);
    const bool in_use = weir_clock_told(clock, reading.before, LATE, &by_anchor);
    if (!clock->counted)
        return not_below_floor(clock, reading.ns);
    if (!reading.narrow) /* the old one does, or the clock itself */
        return in_use ? by_anchor : not_below_floor(clock, reading.ns);
    measure(clock, &reading, in_use);
    return not_below_floor(clock, reading.ns);
}

uint64_t weir_clock_renew(struct weir_clock *clock)
{
    uint64_t ns;
    if (!__atomic_load_n(&clock->counted, __ATOMIC_ACQUIRE))
        return not_below_floor(clock, now_ns(clock));
    if (pthread_mutex_trylock(&clock->mutex) != 0) {
        if (weir_clock_told(clock, ticks_now(clock), LATE, &ns))
            return ns;
        pthread_mutex_lock(&clock->mutex);
    }
    ns = renew(clock);
    pthread_mutex_unlock(&clock->mutex);
    return ns;
}

/* ---- outside of decisions ---- */

/* Whether the anchor tells a time that the clock does not show. */
static bool wrong(struct weir_clock *clock, const struct reading *reading)
{
    uint64_t least_ns, most_ns;
    return reading->narrow && weir_clock_told(clock, reading->before, LATE, &least_ns) &&
           weir_clock_told(clock, reading->ticks, LATE, &most_ns) &&
           (least_ns > reading->ns || weir_sub_sat(reading->ns, most_ns) > BEHIND_MAX_NS);
}

static void check(struct weir_clock *clock)
{
    const struct reading reading = read_both(clock);
    bool trusted = true;
    if (weir_sub_sat(reading.ns, clock->checked_ns) >= CHECK_NS) {
        clock->checked_ns = reading.ns;
        trusted = clock->source.trusted(clock->source.context);
    }
    if (!trusted)
        clock->strikes = STRIKES - 1;
    if (!trusted || wrong(clock, &reading))
        strike(clock, &reading);
}

void weir_clock_check(struct weir_clock *clock)
{
    if (!__atomic_load_n(&clock->counted, __ATOMIC_ACQUIRE) || __atomic_load_n(&clock->reach, __ATOMIC_RELAXED) == 0 ||
        pthread_mutex_trylock(&clock->mutex) != 0)
        return;
    check(clock);
    pthread_mutex_unlock(&clock->mutex);
}

bool weir_clock_init(struct weir_clock *clock, enum weir_clock_kind kind, const struct weir_clock_source *source)
{
    *clock = (struct weir_clock){ .source = *source };
    pthread_mutex_init(&clock->mutex, NULL);
    if (kind == WEIR_CLOCK_AUTO || kind == WEIR_CLOCK_TSC)
        clock->counted = source->trusted(source->context);
    return clock->counted || kind != WEIR_CLOCK_TSC;
}

void weir_clock_deinit(struct weir_clock *clock)
{
    pthread_mutex_destroy(&clock->mutex);
}
