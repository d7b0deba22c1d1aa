/* SPDX-License-Identifier: Apache-2.0
 *
 * What the tests of concurrency limits share. */
#pragma once

#include "fixture.h"

/* Of key "k" under limit 0: how many units were given back. */
static inline uint64_t give_back(const struct fixture *f, uint64_t permit, uint64_t now_ns)
{
    struct weir_charge charge = charge_of(f, 0, "k", 1);
    struct weir_time time = at(now_ns);
    uint64_t units = 99;
    assert_int_equal(weir_limiter_release(f->limiter, &charge.key, 1, permit, &time, &units), 0);
    return units;
}

/* ... and for how long it is out after a renewal. */
static inline uint64_t renew(const struct fixture *f, uint64_t permit, uint64_t now_ns)
{
    struct weir_charge charge = charge_of(f, 0, "k", 1);
    struct weir_time time = at(now_ns);
    uint64_t lease_ns = 99;
    assert_int_equal(weir_limiter_renew(f->limiter, &charge.key, 1, permit, &time, &lease_ns), 0);
    return lease_ns;
}

/* How many units are out. */
static inline uint64_t out(const struct fixture *f, uint64_t now_ns)
{
    struct weir_verdict verdict = peek(f, 0, now_ns);
    return verdict.capacity - verdict.remaining;
}

/* The charge of a key that is a number. From any thread. */
static inline struct weir_charge numbered(const struct fixture *f, size_t limit, uint64_t number)
{
    struct weir_charge charge = { .limit = f->ids[limit], .cost = 1 };
    struct weir_slice value = { &number, sizeof(number) };
    (void)weir_limiter_key(f->limiter, f->ids[limit], &value, 1, &charge.key);
    return charge;
}
