/* SPDX-License-Identifier: Apache-2.0
 *
 * Checks a limit as it was written (struct weir_limit_spec) and compiles it (struct weir_limit): a bucket's tick and
 * emission, or a window's length in ticks. What passes the check fits into ticks (ticks.h). Called where limits are
 * defined, by rules/limit_decode.c, limits/record.c, limits/remote.c and others. Reading YAML is rules/. */
#include <string.h>

#include "base/fault.h"
#include "base/reserved.h"
#include "core/limit/limit.h"
#include "core/limit/ticks.h"

static bool is_bucket(enum weir_algorithm algorithm)
{
    return algorithm == WEIR_TOKEN_BUCKET || algorithm == WEIR_LEAKY_BUCKET;
}

static bool on_calendar(const struct weir_limit_spec *spec)
{
    return spec->algorithm == WEIR_FIXED_WINDOW && spec->align == WEIR_ALIGN_CALENDAR;
}

/* A field that means nothing to an algorithm must be left at its default, so that a slip is seen. */
static int check_enums(const struct weir_limit_spec *s, struct weir_fault *f)
{
    if ((unsigned)s->algorithm > WEIR_CONCURRENCY)
        return weir_fault_set(f, WEIR_EINVAL, "algorithm", "must be one of enum weir_algorithm");
    if ((unsigned)s->align > WEIR_ALIGN_FIRST || (s->align != WEIR_ALIGN_CALENDAR && s->algorithm != WEIR_FIXED_WINDOW))
        return weir_fault_set(f, WEIR_EINVAL, "align", "must be calendar or first, and only for fixed_window");
    if ((unsigned)s->calendar > WEIR_CALENDAR_YEAR || (s->calendar != WEIR_CALENDAR_FIXED && !on_calendar(s)))
        return weir_fault_set(f, WEIR_EINVAL, "calendar", "is only for fixed_window aligned to the calendar");
    if ((unsigned)s->count_mode > WEIR_COUNT_ATTEMPTS)
        return weir_fault_set(f, WEIR_EINVAL, "count_mode", "must be admitted or attempts");
    if ((unsigned)s->mode > WEIR_MODE_OFF)
        return weir_fault_set(f, WEIR_EINVAL, "mode", "must be enforce, shadow or off");
    if ((unsigned)s->on_full > WEIR_ON_FULL_REFUSE)
        return weir_fault_set(f, WEIR_EINVAL, "on_full", "must be evict or refuse");
    if ((unsigned)s->on_change > WEIR_ON_CHANGE_RESET)
        return weir_fault_set(f, WEIR_EINVAL, "on_change", "must be keep, proportional or reset");
    return 0;
}

static int check_window(const struct weir_limit_spec *s, struct weir_fault *f)
{
    if (s->period_ns > WEIR_FILL_MAX_NS)
        return weir_fault_set(f, WEIR_ERANGE, "period", "must be 1 ns to 3650 days for a window");
    if (s->algorithm == WEIR_SLIDING_LOG && s->count > WEIR_LOG_MAX)
        return weir_fault_set(f, WEIR_ERANGE, "count", "must be 0 to 65536 for sliding_log");
    if (s->burst != 0)
        return weir_fault_set(f, WEIR_EINVAL, "burst", "is only for token_bucket and leaky_bucket");
    if (s->spread_ns > 0 && (!on_calendar(s) || s->spread_ns > s->period_ns / 2))
        return weir_fault_set(f, WEIR_ERANGE, "spread", "must be 0 to half the period, and only for calendar windows");
    if (s->calendar_count > 3650)
        return weir_fault_set(f, WEIR_ERANGE, "calendar_count", "must be 1 to 3650");
    return 0;
}

static int check_permits(const struct weir_limit_spec *s, struct weir_fault *f)
{
    if (s->count > WEIR_PERMITS_MAX)
        return weir_fault_set(f, WEIR_ERANGE, "count", "must be 0 to 32768 for concurrency");
    if (s->period_ns < WEIR_LEASE_MIN_NS || s->period_ns > WEIR_EMISSION_MAX_NS)
        return weir_fault_set(f, WEIR_ERANGE, "lease", "must be 1 s to 366 days");
    if (s->burst != 0)
        return weir_fault_set(f, WEIR_EINVAL, "burst", "is only for token_bucket and leaky_bucket");
    if (s->spread_ns > 0 || s->calendar_count > 0)
        return weir_fault_set(f, WEIR_EINVAL, "spread", "is only for calendar windows");
    if (s->count_mode != WEIR_COUNT_ADMITTED)
        return weir_fault_set(f, WEIR_EINVAL, "count_mode",
                              "must be admitted for concurrency: a refused request holds nothing");
    if (s->on_change == WEIR_ON_CHANGE_PROPORTIONAL)
        return weir_fault_set(f, WEIR_EINVAL, "on_change",
                              "must be keep or reset for concurrency: permits that are out stay out");
    return 0;
}

static int check_bucket(const struct weir_limit_spec *s, struct weir_fault *f)
{
    uint64_t burst = s->burst ? s->burst : s->count;
    if (s->spread_ns > 0 || s->calendar_count > 0)
        return weir_fault_set(f, WEIR_EINVAL, "spread", "is only for calendar windows");
    if (burst > WEIR_BURST_MAX)
        return weir_fault_set(f, WEIR_ERANGE, "burst",
                              "must be 1 to 1000000000000 (the default is the count of the rate)");
    if (s->count > 0 && (weir_u128)burst * s->period_ns > (weir_u128)s->count * WEIR_FILL_MAX_NS)
        return weir_fault_set(f, WEIR_ERANGE, "burst",
                              "burst * period / count, the time to fill, must be at most 3650 days");
    return 0;
}

int weir_limit_check(const struct weir_limit_spec *spec, struct weir_fault *ret_fault)
{
    int error = check_enums(spec, ret_fault);
    if (error)
        return error;
    if (weir_reserved_used(spec->reserved, sizeof spec->reserved))
        return weir_fault_set(ret_fault, WEIR_EINVAL, "reserved", WEIR_RESERVED_TEXT);
    if (spec->reserves > (spec->algorithm != WEIR_CONCURRENCY))
        return weir_fault_set(ret_fault, WEIR_EINVAL, "reserves", "must be 0 or 1, and 0 for concurrency");
    if (spec->period_ns == 0)
        return weir_fault_set(ret_fault, WEIR_ERANGE, "period", "must be more than 0");
    if (spec->algorithm == WEIR_CONCURRENCY) {
        error = check_permits(spec, ret_fault);
        if (!error && ret_fault)
            memset(ret_fault, 0, sizeof *ret_fault);
        return error;
    }
    /* n <= p in ns is n/p <= 10^9 per second. */
    if (spec->count > spec->period_ns)
        return weir_fault_set(ret_fault, WEIR_ERANGE, "rate", "must be at most 1000000000 per second");
    if (spec->count > 0 && spec->period_ns / spec->count >= WEIR_EMISSION_MAX_NS &&
        (weir_u128)spec->count * WEIR_EMISSION_MAX_NS < spec->period_ns)
        return weir_fault_set(ret_fault, WEIR_ERANGE, "rate", "must be at least 1 per 366 days (0 blocks)");
    error = is_bucket(spec->algorithm) ? check_bucket(spec, ret_fault) : check_window(spec, ret_fault);
    if (!error && ret_fault)
        memset(ret_fault, 0, sizeof *ret_fault);
    return error;
}

uint64_t weir_limit_capacity(const struct weir_limit_spec *spec)
{
    return spec->count > 0 && spec->burst > 0 ? spec->burst : spec->count;
}

uint64_t weir_limit_most(const struct weir_limit_spec *spec, uint64_t duration_ns)
{
    /* Calendar windows may be shorter: a month has 28 days for 30, a day 23 hours for 24. */
    uint64_t shortest_ns = spec->calendar == WEIR_CALENDAR_FIXED ? spec->period_ns : weir_div_ceil(spec->period_ns, 2);
    weir_assert(spec->period_ns > 0);
    switch (spec->algorithm) {
    case WEIR_TOKEN_BUCKET:
    case WEIR_LEAKY_BUCKET:
        return weir_add_sat(weir_limit_capacity(spec), weir_mul_div(spec->count, duration_ns, spec->period_ns));
    case WEIR_SLIDING_LOG:
        return weir_mul_sat(spec->count, duration_ns / spec->period_ns + 1);
    case WEIR_FIXED_WINDOW:
    case WEIR_SLIDING_COUNTER: /* at most n in each of its aligned windows, too */
        return weir_mul_sat(spec->count, duration_ns / shortest_ns + 2);
    case WEIR_CONCURRENCY:
        break;
    }
    return WEIR_NEVER;
}

const char *weir_algorithm_name(enum weir_algorithm algorithm)
{
    static const char *const names[] = { "token_bucket", "leaky_bucket",    "fixed_window",
                                         "sliding_log",  "sliding_counter", "concurrency" };
    return (unsigned)algorithm < sizeof names / sizeof names[0] ? names[algorithm] : NULL;
}

/* Picks the tick: the coarsest of at most 1 ns with which one unit takes at least 1000 ticks, so that rounding up costs
 * at most 0.1 %; coarser than 1 ns only for a capacity that takes more than 2.2 years to fill. */
static void init_bucket(struct weir_limit *limit, uint64_t count, uint64_t period_ns)
{
    /* A rate of 0 admits nothing. Its emission only says how fast what was used is forgotten, should the limit come
     * back: slowly. */
    if (count == 0) {
        count = 1;
        period_ns = weir_max_u64(weir_min_u64(period_ns, WEIR_EMISSION_MAX_NS), 3600 * WEIR_NS_PER_SECOND);
        limit->shift = WEIR_TICKS_SHIFT_MIN;
    } else {
        while (limit->shift < WEIR_TICKS_SHIFT_MAX && ((weir_u128)period_ns << limit->shift) < (weir_u128)count * 1000)
            limit->shift++;
    }
    for (;; limit->shift--) {
        uint64_t unit = UINT64_C(1) << (limit->shift < 0 ? -limit->shift : 0);
        uint64_t scale = UINT64_C(1) << (limit->shift > 0 ? limit->shift : 0);
        weir_u128 divisor = (weir_u128)count * unit, scaled = (weir_u128)period_ns * scale;
        weir_u128 emission = scaled / divisor + (scaled % divisor != 0);
        /* In ticks of more than 1 ns a charge's time is rounded down: a unit must last that much longer. */
        emission += limit->shift < 0;
        weir_assert(emission <= WEIR_TICKS_SPAN_MAX * 4);
        limit->emission = (uint64_t)emission;
        if (emission * limit->capacity <= WEIR_TICKS_SPAN_MAX)
            break;
        weir_assert(limit->shift > WEIR_TICKS_SHIFT_MIN);
    }
    weir_assert(limit->emission > 0);
    limit->inverse = UINT64_MAX / limit->emission;
    weir_assert(limit->capacity <= WEIR_TICKS_SPAN_MAX / limit->emission);
    limit->span = limit->capacity * limit->emission;
    limit->ahead_max = limit->span;
}

/* Twice the period must fit, for sliding_counter. */
static void init_window(struct weir_limit *limit, uint64_t period_ns)
{
    limit->emission = 1;
    while (weir_ticks_of(period_ns, limit->shift, UINT64_MAX) > WEIR_TICKS_SPAN_MAX)
        limit->shift--;
    /* As for a bucket's unit: a first hit's time is rounded down. */
    limit->span = weir_ticks_of(period_ns, limit->shift, WEIR_TICKS_SPAN_MAX) + (limit->shift < 0);
    weir_assert(limit->span > 0);
    limit->ahead_max = limit->span;
    if (limit->algorithm == WEIR_SLIDING_COUNTER)
        limit->ahead_max *= 2;
    else if (limit->calendar) /* a month has 31 days for 30, a day 25 hours for 24 (weir_limit_zone_falls_back) */
        limit->ahead_max += limit->span / 16 + 1;
}

void weir_limit_zone_falls_back(struct weir_limit *limit, uint64_t back_ns)
{
    uint64_t back = weir_ticks_of(back_ns, limit->shift, WEIR_TICKS_SPAN_MAX);
    weir_assert(limit->calendar);
    limit->ahead_max += weir_sub_sat(back, limit->span / 16);
}

int weir_limit_init(struct weir_limit *limit, const struct weir_limit_spec *spec, uint64_t skew_max_ns,
                    struct weir_fault *ret_fault)
{
    int error = weir_limit_check(spec, ret_fault);
    if (error)
        return error;
    *limit = (struct weir_limit){
        .algorithm = spec->algorithm,
        .capacity = weir_limit_capacity(spec),
        .skew_max_ns = skew_max_ns,
        .period_ns = spec->period_ns,
        .calendar = on_calendar(spec),
        .reserves = spec->reserves != 0,
    };
    if (is_bucket(spec->algorithm))
        init_bucket(limit, spec->count, spec->period_ns);
    else
        init_window(limit, spec->period_ns);
    if (limit->reserves && weir_limit_is_bucket(limit))
        limit->ahead_max = weir_max_u64(limit->ahead_max,
                                        weir_min_u64(weir_mul_sat(limit->span, WEIR_LIMIT_DEBT), WEIR_TICKS_SPAN_MAX));
    limit->ahead_max += weir_ticks_of(skew_max_ns, limit->shift, WEIR_TICKS_SPAN_MAX);
    weir_assert(limit->shift >= WEIR_TICKS_SHIFT_MIN && limit->shift <= WEIR_TICKS_SHIFT_MAX);
    weir_assert(limit->span <= WEIR_TICKS_SPAN_MAX + 1 && limit->ahead_max >= limit->span);
    weir_assert(limit->emission > 0);
    return 0;
}

struct weir_state weir_state_fresh(const struct weir_limit *limit, uint64_t now_ns)
{
    return (struct weir_state){ .fresh_at = weir_ticks_at(now_ns, limit->shift) };
}
