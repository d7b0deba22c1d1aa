/* SPDX-License-Identifier: Apache-2.0
 *
 * bench_cas: the floor of a hot key. GCRA with nothing around it: one word, one compare-and-swap loop, inlined. */
#include "measure.h"

#include <stdatomic.h>

#define CHUNK 4096
#define EMISSION_NS 1

struct hot {
    _Alignas(128) _Atomic uint64_t allow; /* the theoretical arrival time of a key that always has room */
    _Alignas(128) _Atomic uint64_t deny;  /* of one that is used up for years */
};

static inline bool decide(_Atomic uint64_t *tat, uint64_t now_ns, uint64_t capacity_ns)
{
    uint64_t old = atomic_load_explicit(tat, memory_order_relaxed);
    for (;;) {
        uint64_t next = (old > now_ns ? old : now_ns) + EMISSION_NS;
        if (next > now_ns + capacity_ns) {
            return false;
        }
        if (atomic_compare_exchange_weak_explicit(tat, &old, next, memory_order_relaxed, memory_order_relaxed)) {
            return true;
        }
    }
}

static uint64_t given_clock(void *context, uint64_t *state)
{
    struct hot *hot = context;
    uint64_t now_ns = measure_now_ns();
    for (int i = 0; i < CHUNK; i++) {
        *state += decide(&hot->allow, now_ns, UINT64_C(1) << 60);
        __asm__ volatile("" : : : "memory");
    }
    return CHUNK;
}

static uint64_t own_clock(void *context, uint64_t *state)
{
    struct hot *hot = context;
    for (int i = 0; i < CHUNK; i++) {
        *state += decide(&hot->allow, measure_now_ns(), UINT64_C(1) << 60);
    }
    return CHUNK;
}

static uint64_t deny(void *context, uint64_t *state)
{
    struct hot *hot = context;
    for (int i = 0; i < CHUNK; i++) {
        *state += decide(&hot->deny, measure_now_ns(), 1000);
    }
    return CHUNK;
}

static uint64_t clock_only(void *context, uint64_t *state)
{
    (void)context;
    for (int i = 0; i < CHUNK; i++) {
        *state += measure_now_ns();
    }
    measure_keep(*state);
    return CHUNK;
}

int main(void)
{
    static const struct measure_case cases[] = {
        { "given-1", measure_take, given_clock, 1 }, { "given-2", measure_take, given_clock, 2 },
        { "own-1", measure_take, own_clock, 1 },     { "own-2", measure_take, own_clock, 2 },
        { "deny-1", measure_take, deny, 1 },         { "deny-2", measure_take, deny, 2 },
        { "clock", measure_take, clock_only, 1 },
    };
    struct hot hot = { .deny = UINT64_MAX / 2 };
    return measure_serve(cases, sizeof cases / sizeof cases[0], &hot);
}
