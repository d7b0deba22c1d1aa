/* SPDX-License-Identifier: Apache-2.0
 *
 * A circuit breaker: stops asking an engine that does not answer, and finds its way back without a herd.
 *
 * CLOSED: all may ask; `failures_max` failures in a row, or half of at least `window_min` in a window, open it.
 * OPEN: nobody asks until a wait has passed, which doubles from wait_min_ns to wait_max_ns and is spread by a random
 * number of the caller's (+-25 %), so that nodes do not come back together. HALF_OPEN: one probe at a time; `probes`
 * successes in a row close it (and then let through a share that grows over ramp_ns, so that what waited does not come
 * at once); a failure opens it again, and a probe of which nothing is told within wait_max_ns counts as one.
 * Source: Nygard, "Release It!", 2007. Pure: no clock, no memory. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/phase.h"

enum weir_breaker_state {
    WEIR_BREAKER_CLOSED,
    WEIR_BREAKER_OPEN,
    WEIR_BREAKER_HALF_OPEN,
};
#define WEIR_BREAKER_STATES 3

extern const struct weir_phase weir_breaker_phases[WEIR_BREAKER_STATES];

struct weir_breaker_options {
    uint32_t failures_max; /* in a row */
    uint32_t window_min;
    uint64_t window_ns;
    uint64_t wait_min_ns;
    uint64_t wait_max_ns;
    uint32_t probes;
    uint64_t ramp_ns; /* 0 = at once */
};

/* 5; 20 in 1 s; 100 ms to 5 s; 3; 500 ms. */
extern const struct weir_breaker_options weir_breaker_defaults;

struct weir_breaker {
    enum weir_breaker_state state;
    uint32_t failures; /* in a row */
    uint32_t window_asked, window_failed;
    uint64_t window_start_ns;
    uint64_t wait_ns;  /* of this opening */
    uint64_t until_ns; /* OPEN: until then */
    bool probe_out;    /* HALF_OPEN: one is under way, */
    uint64_t probe_ns; /* since then */
    uint32_t probes_good;
    uint64_t closed_ns;  /* when it last closed after having been open; 0 = never */
    uint64_t since_ns;   /* in this state */
    uint64_t generation; /* counts openings: an answer to an ask of an older one says nothing */
};

void weir_breaker_init(struct weir_breaker *breaker, uint64_t now_ns);

/* May one ask be sent now? `random` is uniform (the ramp). When true, tell what became of it with its generation. */
bool weir_breaker_allow(struct weir_breaker *breaker, const struct weir_breaker_options *options, uint64_t now_ns,
                        uint64_t random, uint64_t *ret_generation);
void weir_breaker_told(struct weir_breaker *breaker, const struct weir_breaker_options *options, uint64_t now_ns,
                       uint64_t random, uint64_t generation, bool success);
/* Or, in its place: the ask was not sent, which says nothing about the engine; another may be the probe. */
void weir_breaker_unsent(struct weir_breaker *breaker, uint64_t generation);

const char *weir_breaker_name(enum weir_breaker_state state); /* "closed", "open", "half_open" */
