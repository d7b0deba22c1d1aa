/* SPDX-License-Identifier: Apache-2.0
 *
 * Limits: what a rate limit is, in numbers. Symbols as in the literature: n units per period p, burst b, cost c.
 *
 * Ranges. A rate runs from 1 per 366 days to 10^9 per second; n = 0 blocks every cost >= 1; p = 0 is an error. b runs
 * from 1 to 10^12 (0 means "the same as n"). The time to fill an empty bucket, b*p/n, and the period of a window are at
 * most 10 years (3650 days). sliding_log: n at most 65,536. Anything else is WEIR_ERANGE, and the fault names the
 * field.
 *
 * concurrency is no rate: at most n units are out at once, each under a permit that ends when it is given back or when
 * its lease does. period_ns is the lease, 1 s to 366 days; n is at most 32,768.
 *
 * Thread rule: plain values, no shared state.
 * Sources: GCRA is ITU-T I.371 annex A (virtual scheduling); token and leaky bucket: Turner, "New directions in
 * communications", 1986; sliding window counter: Cloudflare's weighted count of two aligned windows, 2017. */
#ifndef WEIR_LIMIT_H
#define WEIR_LIMIT_H

#include <stdbool.h>
#include <stdint.h>

#include "weir/error.h"

#ifdef __cplusplus
extern "C" {
#endif

#define WEIR_NS_PER_SECOND UINT64_C(1000000000)
#define WEIR_BURST_MAX UINT64_C(1000000000000)                  /* 10^12 */
#define WEIR_RATE_MAX_PER_SECOND UINT64_C(1000000000)           /* 10^9 */
#define WEIR_EMISSION_MAX_NS (366 * 86400 * WEIR_NS_PER_SECOND) /* 1 per 366 days */
#define WEIR_FILL_MAX_NS (3650 * 86400 * WEIR_NS_PER_SECOND)    /* 10 years */
#define WEIR_LOG_MAX UINT64_C(65536)
#define WEIR_PERMITS_MAX (WEIR_LOG_MAX / 2) /* units of a concurrency limit that one key may have out */
#define WEIR_LEASE_MIN_NS WEIR_NS_PER_SECOND
#define WEIR_COST_MAX INT64_MAX

enum weir_algorithm {
    WEIR_TOKEN_BUCKET,    /* holds at most b, refills n per p, starts full; admits bursts, then polices */
    WEIR_LEAKY_BUCKET,    /* a queue of at most b that drains n per p: the verdict carries the delay */
    WEIR_FIXED_WINDOW,    /* at most n per window */
    WEIR_SLIDING_LOG,     /* at most n in every rolling (t - p, t] */
    WEIR_SLIDING_COUNTER, /* floor(previous * overlap) + current at most n; two aligned windows */
    WEIR_CONCURRENCY,     /* at most n out at once, each for a lease of period_ns (weir_limiter_release, _renew) */
};

enum weir_align {
    WEIR_ALIGN_CALENDAR, /* windows start on the calendar of `tz` */
    WEIR_ALIGN_FIRST,    /* a window starts with the key's first hit */
};

/* The unit that a calendar window is aligned to. FIXED: windows of exactly period_ns from 1970-01-01T00:00Z. DAY to
 * YEAR: `calendar_count` real days, weeks (from Monday), months or years in `tz`, daylight saving honoured. */
enum weir_calendar {
    WEIR_CALENDAR_FIXED,
    WEIR_CALENDAR_DAY,
    WEIR_CALENDAR_WEEK,
    WEIR_CALENDAR_MONTH,
    WEIR_CALENDAR_YEAR,
};

enum weir_count {
    WEIR_COUNT_ADMITTED, /* a refused request changes nothing */
    WEIR_COUNT_ATTEMPTS, /* a refused request charges too, at most down to empty; not for concurrency */
};

enum weir_mode {
    WEIR_MODE_ENFORCE,
    WEIR_MODE_SHADOW, /* never refuses, says what it would have done */
    WEIR_MODE_OFF,    /* as if it were not there */
};

enum weir_on_full {
    WEIR_ON_FULL_EVICT,  /* a newcomer takes the place of the resident of whom least would be forgiven */
    WEIR_ON_FULL_REFUSE, /* a newcomer is refused */
};

enum weir_on_change {
    WEIR_ON_CHANGE_KEEP,         /* remaining' = min(remaining, max(0, b' - used)) */
    WEIR_ON_CHANGE_PROPORTIONAL, /* the same share remains; not for concurrency: a permit is out or it is not */
    WEIR_ON_CHANGE_RESET,        /* every key starts fresh: permits that are out have ended */
};

/* One limit. Zero-initialise, then set what differs: a zeroed rest means the defaults named first above. */
struct weir_limit_spec {
    enum weir_algorithm algorithm;
    uint64_t count;              /* n */
    uint64_t period_ns;          /* p; for calendar months 30 days, for years 365 days each; concurrency: the lease */
    uint64_t burst;              /* b, buckets only; 0 = n */
    enum weir_align align;       /* fixed_window */
    enum weir_calendar calendar; /* fixed_window aligned to the calendar */
    uint32_t calendar_count;     /* windows of so many units; 0 = 1 */
    const char *tz;              /* IANA name, NULL = "UTC"; copied by whoever keeps the spec */
    uint64_t spread_ns;          /* fixed_window aligned to the calendar: per-key phase in [0, spread); at most p/2 */
    enum weir_count count_mode;
    enum weir_mode mode;
    enum weir_on_full on_full;
    enum weir_on_change on_change;
    uint64_t reserves;                    /* 1: there may be reservations of it (weir/reserve.h); not for concurrency */
    uint64_t reserved[WEIR_RESERVED - 1]; /* 0 */
};

#define WEIR_NEVER UINT64_MAX
#define WEIR_DELAY_NONE UINT64_MAX /* a longest delay (struct weir_charge): none at all */

/* What one limit says. */
struct weir_verdict {
    bool admitted;           /* this limit alone admits (a limit in shadow: would it have) */
    bool shadow;             /* the limit is in shadow: it did not count in the decision */
    bool full;               /* refused because there was no place for a newcomer; `remaining` is 0 then, and
                                retry_after_ns, reset_after_ns and next_after_ns the wait until there may be one */
    bool late;               /* refused though it fits: it would be delayed for longer than its delay_max_ns */
    uint64_t capacity;       /* what a fresh key can admit at once */
    uint64_t remaining;      /* 0 to capacity, after the charge if there was one */
    uint64_t retry_after_ns; /* 0 if admitted (unless a refused attempt was charged); WEIR_NEVER if cost > capacity;
                                else the smallest wait, > 0 */
    uint64_t reset_after_ns; /* until the state equals a fresh one */
    uint64_t next_after_ns;  /* until `remaining` can grow; 0 if it is the capacity */
    uint64_t delay_ns;       /* leaky_bucket: wait so long before going on; else 0 */
    uint64_t ticket;         /* charged: a bucket's for weir_limiter_refund_last, the number of concurrency's permit for
                                weir_limiter_release and weir_limiter_renew; else 0 */
};

#if defined(__GNUC__) && !defined(WEIR_CORE_BUILD)
#pragma GCC visibility push(default)
#endif

/* 0 when `spec` is a limit that weir can keep exactly; else WEIR_ERANGE or WEIR_EINVAL and the fault. Does not look at
 * `tz` (defining the limit does). */
int weir_limit_check(const struct weir_limit_spec *spec, struct weir_fault *ret_fault);

/* What a fresh key can admit at once: b, or n for windows. */
uint64_t weir_limit_capacity(const struct weir_limit_spec *spec);

/* "token_bucket"; NULL for a number that is no algorithm. */
const char *weir_algorithm_name(enum weir_algorithm algorithm);

#if defined(__GNUC__) && !defined(WEIR_CORE_BUILD)
#pragma GCC visibility pop
#endif

#ifdef __cplusplus
}
#endif
#endif
