/* SPDX-License-Identifier: Apache-2.0
 *
 * What the tests of reservations share: one limit that reserves, one key "k", the test's own clock. */
#pragma once

#include "fixture.h"
#include "weir/reserve.h"

#define TTL (30 * SECOND)

static inline struct weir_limit_spec reserving(enum weir_algorithm algorithm, uint64_t count, uint64_t period_ns)
{
    struct weir_limit_spec spec = limit_of(algorithm, count, period_ns, 0);
    spec.reserves = 1;
    return spec;
}

static inline struct fixture one_reserving(enum weir_algorithm algorithm, uint64_t count, uint64_t period_ns)
{
    const struct weir_limit_spec spec = reserving(algorithm, count, period_ns);
    return fixture_create(&spec, 1);
}

static inline int try_reserve(const struct fixture *f, const char *key, const struct weir_reserve_options *options,
                              uint64_t now_ns, struct weir_reservation *ret, bool *ret_admitted,
                              struct weir_fault *fault)
{
    const struct weir_charge charge = charge_of(f, 0, key, options->amount);
    const struct weir_time time = at(now_ns);
    struct weir_decision decision = { 0 };
    struct weir_verdict verdict;
    int error = weir_limiter_reserve(f->limiter, &charge, 1, 1, options, &time, ret, &decision, &verdict, fault);
    *ret_admitted = decision.admitted;
    return error;
}

static inline bool reserve_of(const struct fixture *f, const char *key, uint64_t amount, bool keep, uint64_t now_ns,
                              struct weir_reservation *ret)
{
    const struct weir_reserve_options options = { .amount = amount, .ttl_ns = TTL, .keep = keep };
    bool admitted;
    assert_int_equal(try_reserve(f, key, &options, now_ns, ret, &admitted, NULL), 0);
    return admitted;
}

static inline struct weir_settled settle(const struct fixture *f, struct weir_reservation *r, uint64_t actual,
                                         uint64_t now_ns)
{
    const struct weir_time time = at(now_ns);
    struct weir_settled settled;
    assert_int_equal(weir_limiter_settle(f->limiter, r, actual, &time, &settled), 0);
    return settled;
}

static inline bool extend(const struct fixture *f, struct weir_reservation *r, uint64_t more, uint64_t now_ns)
{
    const struct weir_time time = at(now_ns);
    struct weir_decision decision;
    struct weir_verdict verdicts[WEIR_RESERVE_LIMITS_MAX];
    assert_int_equal(weir_limiter_extend(f->limiter, r, more, TTL, &time, &decision, verdicts), 0);
    return decision.admitted;
}

static inline uint64_t left(const struct fixture *f, uint64_t now_ns)
{
    return peek(f, 0, now_ns).remaining;
}
