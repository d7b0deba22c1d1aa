/* SPDX-License-Identifier: Apache-2.0
 *
 * The promises of semantics.md in exact rationals: the second reference of the model test. It is told what was admitted
 * and says whether it may have been, and told what was refused and says whether it had to be.
 *
 * Buckets: the time until full as a whole number of 1/n ns (never above) and, with each unit taking 1.001 times as
 * long,
 * of 1/(1000 n) ns (at most 0.1 % below). Windows: a list of hits, counted anew each time. 128 bits suffice: times stay
 * below 2^60 ns, n below 2^46, 1001 below 2^10; costs below 2^40 and periods below 2^59. */
#pragma once

#include "reference.h"

struct exact_hit {
    uint64_t at_ns;
    uint64_t units;
};

struct exact {
    struct weir_limit_spec spec;
    uint64_t capacity;
    uint64_t tick_ns;  /* the length of a tick: how late a refusal may end beside the 0.1 % */
    wide tight;        /* buckets: when full, in 1/n ns, as the promise has it */
    wide loose;        /* in 1/(1000 n) ns, a little slower than the core may be */
    uint64_t start_ns; /* fixed windows: of the newest */
    uint64_t newest_ns;
    struct exact_hit *hits; /* windows: oldest first */
    size_t used;
    size_t room;
};

/* `hits` stays the caller's. */
void exact_init(struct exact *e, const struct weir_limit_spec *spec, uint64_t tick_ns, struct exact_hit *hits,
                size_t room);

/* What the promise still allows at a time, and what it allows at the least. Never falls while time goes on. */
uint64_t exact_most(const struct exact *e, uint64_t now_ns, const struct reference_window *window);
uint64_t exact_least(const struct exact *e, uint64_t now_ns, const struct reference_window *window);

void exact_charge(struct exact *e, uint64_t now_ns, const struct reference_window *window, uint64_t units);
/* A refused attempt: at most down to empty. `units` are the whole ones that were taken. */
void exact_drain(struct exact *e, uint64_t now_ns, const struct reference_window *window, uint64_t cost,
                 uint64_t units);
void exact_refund(struct exact *e, uint64_t now_ns, uint64_t units);

/* As if `units`, and nothing else, were taken now: after a clock came back. */
void exact_restart(struct exact *e, uint64_t now_ns, const struct reference_window *window, uint64_t units);

/* Another limit: `used` units of the old one are `units` of the new one. */
void exact_reload(struct exact *e, const struct weir_limit_spec *spec, uint64_t tick_ns, uint64_t now_ns,
                  const struct reference_window *window, uint64_t used, uint64_t units);
