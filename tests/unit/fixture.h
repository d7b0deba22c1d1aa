/* SPDX-License-Identifier: Apache-2.0
 *
 * What the tests of the limiter share: a limiter with one or several limits, asked with the test's own clock. */
#pragma once

#include <malloc.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "weir/limiter.h"

#define MS UINT64_C(1000000)
#define SECOND WEIR_NS_PER_SECOND
#define MINUTE (60 * SECOND)
#define HOUR (3600 * SECOND)
#define DAY (86400 * SECOND)
#define T0 (1000 * SECOND) /* when most tests begin */
#define FIXTURE_LIMITS_MAX 16

struct fixture {
    struct weir_limiter *limiter;
    weir_limit_id ids[FIXTURE_LIMITS_MAX];
    size_t count;
};

static inline struct weir_time at(uint64_t now_ns)
{
    return (struct weir_time){ .now_ns = now_ns, .wall_ns = now_ns };
}

/* The limits are named "0", "1", ... */
static inline int fixture_try_define(struct fixture *f, const struct weir_limit_spec *specs, size_t count,
                                     uint64_t now_ns, struct weir_fault *ret_fault)
{
    static const char *const names[FIXTURE_LIMITS_MAX] = { "0", "1", "2",  "3",  "4",  "5",  "6",  "7",
                                                           "8", "9", "10", "11", "12", "13", "14", "15" };
    struct weir_limit_def defs[FIXTURE_LIMITS_MAX];
    assert_true(count <= FIXTURE_LIMITS_MAX);
    for (size_t i = 0; i < count; i++) {
        defs[i] = (struct weir_limit_def){ .name = names[i], .spec = specs[i] };
    }
    struct weir_time time = at(now_ns);
    f->count = count;
    return weir_limiter_define(f->limiter, defs, count, &time, f->ids, ret_fault);
}

static inline void fixture_define(struct fixture *f, const struct weir_limit_spec *specs, size_t count, uint64_t now_ns)
{
    struct weir_fault fault;
    if (fixture_try_define(f, specs, count, now_ns, &fault) != 0) {
        fail_msg("define: %s %s", fault.field, fault.text);
    }
}

static inline struct fixture fixture_create_with(const struct weir_limiter_options *options,
                                                 const struct weir_limit_spec *specs, size_t count)
{
    struct fixture f = { 0 };
    struct weir_fault fault;
    if (weir_limiter_create(options, &f.limiter, &fault) != 0) {
        fail_msg("create: %s %s", fault.field, fault.text);
    }
    fixture_define(&f, specs, count, T0);
    return f;
}

/* A limiter of 4 MB. A test creates hundreds: what one freed is kept for the next, not faulted in page by page. */
static inline struct fixture fixture_create(const struct weir_limit_spec *specs, size_t count)
{
#ifdef __GLIBC__
    (void)mallopt(M_TRIM_THRESHOLD, 64 << 20);
    (void)mallopt(M_TOP_PAD, 4 << 20);
#endif
    struct weir_limiter_options options = { .memory_max = (size_t)4 << 20 };
    return fixture_create_with(&options, specs, count);
}

static inline void fixture_destroy(struct fixture *f)
{
    weir_limiter_destroy(f->limiter);
}

static inline struct weir_charge charge_of(const struct fixture *f, size_t limit, const char *key, uint64_t cost)
{
    struct weir_charge charge = { .limit = f->ids[limit], .cost = cost };
    struct weir_slice value = { key, strlen(key) };
    assert_int_equal(weir_limiter_key(f->limiter, f->ids[limit], &value, 1, &charge.key), 0);
    return charge;
}

/* Key "k" under limit 0, at a time on both clocks. */
static inline struct weir_verdict ask_at(const struct fixture *f, const char *key, uint64_t cost, struct weir_time time,
                                         unsigned flags)
{
    struct weir_charge charge = charge_of(f, 0, key, cost);
    struct weir_decision decision;
    struct weir_verdict verdict;
    memset(&verdict, 0xaa, sizeof verdict); /* all of it is told */
    assert_int_equal(weir_limiter_decide(f->limiter, &charge, 1, &time, flags, &decision, &verdict), 0);
    return verdict;
}

static inline struct weir_verdict ask(const struct fixture *f, uint64_t cost, uint64_t now_ns)
{
    return ask_at(f, "k", cost, at(now_ns), 0);
}

static inline struct weir_verdict peek(const struct fixture *f, uint64_t cost, uint64_t now_ns)
{
    return ask_at(f, "k", cost, at(now_ns), WEIR_PEEK);
}

/* How many of `tries` requests of cost 1 are admitted at once. */
static inline uint64_t admitted_of(const struct fixture *f, uint64_t tries, uint64_t now_ns)
{
    uint64_t admitted = 0;
    for (uint64_t i = 0; i < tries; i++) {
        admitted += ask(f, 1, now_ns).admitted;
    }
    return admitted;
}

/* All limits together, the same key and cost under each. */
static inline struct weir_decision ask_all(const struct fixture *f, const char *key, uint64_t cost, uint64_t now_ns,
                                           unsigned flags, struct weir_verdict *ret_verdicts)
{
    struct weir_charge charges[FIXTURE_LIMITS_MAX];
    struct weir_decision decision;
    struct weir_time time = at(now_ns);
    for (size_t i = 0; i < f->count; i++) {
        charges[i] = charge_of(f, i, key, cost);
    }
    memset(ret_verdicts, 0xaa, f->count * sizeof *ret_verdicts); /* all of them are told */
    assert_int_equal(weir_limiter_decide(f->limiter, charges, f->count, &time, flags, &decision, ret_verdicts), 0);
    return decision;
}

/* Two verdicts that say the same. */
static inline void assert_same_verdict(const struct weir_verdict *a, const struct weir_verdict *b)
{
    assert_int_equal(a->admitted, b->admitted);
    assert_int_equal(a->capacity, b->capacity);
    assert_int_equal(a->remaining, b->remaining);
    assert_int_equal(a->retry_after_ns, b->retry_after_ns);
    assert_int_equal(a->reset_after_ns, b->reset_after_ns);
    assert_int_equal(a->next_after_ns, b->next_after_ns);
    assert_int_equal(a->delay_ns, b->delay_ns);
}

/* n per period, burst b (buckets; 0 = n). */
static inline struct weir_limit_spec limit_of(enum weir_algorithm algorithm, uint64_t count, uint64_t period_ns,
                                              uint64_t burst)
{
    return (struct weir_limit_spec){ .algorithm = algorithm, .count = count, .period_ns = period_ns, .burst = burst };
}

static inline struct fixture one_limit(enum weir_algorithm algorithm, uint64_t count, uint64_t period_ns,
                                       uint64_t burst)
{
    struct weir_limit_spec spec = limit_of(algorithm, count, period_ns, burst);
    return fixture_create(&spec, 1);
}

/* A window from the key's first hit. */
static inline struct fixture first_window(uint64_t count, uint64_t period_ns)
{
    struct weir_limit_spec spec = limit_of(WEIR_FIXED_WINDOW, count, period_ns, 0);
    spec.align = WEIR_ALIGN_FIRST;
    return fixture_create(&spec, 1);
}

static inline struct fixture calendar_window(uint64_t count, uint64_t period_ns, enum weir_calendar calendar,
                                             const char *tz)
{
    struct weir_limit_spec spec = limit_of(WEIR_FIXED_WINDOW, count, period_ns, 0);
    spec.calendar = calendar;
    spec.tz = tz;
    return fixture_create(&spec, 1);
}
