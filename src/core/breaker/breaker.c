/* SPDX-License-Identifier: Apache-2.0
 *
 * Each move goes through enter(), which checks it by the table of phases and clears the counts. `generation` counts
 * openings: what is told of an ask from before the last opening is ignored. Called by limits/redis/server.c, which has
 * a breaker for each server, and by sim/exact_host.c. */
#include "core/breaker/breaker.h"

#include "base/checked.h"
#include "weir/limit.h"

const struct weir_phase weir_breaker_phases[WEIR_BREAKER_STATES] = {
    [WEIR_BREAKER_CLOSED] = { "closed", WEIR_PHASE(WEIR_BREAKER_OPEN) },
    [WEIR_BREAKER_OPEN] = { "open", WEIR_PHASE(WEIR_BREAKER_HALF_OPEN) }, /* a probe comes before it closes */
    [WEIR_BREAKER_HALF_OPEN] = { "half_open", WEIR_PHASE(WEIR_BREAKER_OPEN) | WEIR_PHASE(WEIR_BREAKER_CLOSED) },
};

const struct weir_breaker_options weir_breaker_defaults = {
    .failures_max = 5,
    .window_min = 20,
    .window_ns = WEIR_NS_PER_SECOND,
    .wait_min_ns = WEIR_NS_PER_SECOND / 10,
    .wait_max_ns = 5 * WEIR_NS_PER_SECOND,
    .probes = 3,
    .ramp_ns = WEIR_NS_PER_SECOND / 2,
};

static void enter(struct weir_breaker *breaker, enum weir_breaker_state state, uint64_t now_ns)
{
    weir_phase_check(weir_breaker_phases, breaker->state, state);
    breaker->state = state;
    breaker->since_ns = now_ns;
    breaker->failures = breaker->window_asked = breaker->window_failed = 0;
    breaker->window_start_ns = now_ns;
    breaker->probe_out = false;
    breaker->probes_good = 0;
}

void weir_breaker_init(struct weir_breaker *breaker, uint64_t now_ns)
{
    *breaker = (struct weir_breaker){ .state = WEIR_BREAKER_CLOSED, .since_ns = now_ns, .window_start_ns = now_ns };
}

/* wait +-25 %. */
static uint64_t spread(uint64_t wait_ns, uint64_t random)
{
    uint64_t width_ns = wait_ns / 2;
    weir_assert(width_ns <= wait_ns - wait_ns / 4);
    return wait_ns - wait_ns / 4 + (uint64_t)((weir_u128)random * width_ns >> 64);
}

static void open_breaker(struct weir_breaker *breaker, const struct weir_breaker_options *options, uint64_t now_ns,
                         uint64_t random)
{
    weir_assert(options->wait_min_ns > 0 && options->wait_min_ns <= options->wait_max_ns);
    bool again = breaker->wait_ns > 0;
    breaker->wait_ns = again ? weir_min_u64(weir_mul_sat(breaker->wait_ns, 2), options->wait_max_ns)
                             : options->wait_min_ns;
    enter(breaker, WEIR_BREAKER_OPEN, now_ns);
    breaker->until_ns = weir_add_sat(now_ns, spread(breaker->wait_ns, random));
    weir_assert(breaker->wait_ns <= options->wait_max_ns && breaker->until_ns >= now_ns);
    breaker->generation++;
}

/* After an opening the share that is let through grows over the ramp, from a tenth on. */
static bool ramp_allows(const struct weir_breaker *breaker, const struct weir_breaker_options *options, uint64_t now_ns,
                        uint64_t random)
{
    if (breaker->generation == 0 || options->ramp_ns == 0)
        return true;
    uint64_t since_ns = weir_sub_sat(now_ns, breaker->closed_ns);
    if (since_ns >= options->ramp_ns)
        return true;
    uint64_t share_ns = weir_max_u64(since_ns, options->ramp_ns / 10);
    weir_assert(share_ns <= options->ramp_ns);
    return (uint64_t)((weir_u128)random * options->ramp_ns >> 64) < share_ns;
}

static bool probe_is_lost(const struct weir_breaker *breaker, const struct weir_breaker_options *options,
                          uint64_t now_ns)
{
    return breaker->probe_out && now_ns >= weir_add_sat(breaker->probe_ns, options->wait_max_ns);
}

bool weir_breaker_allow(struct weir_breaker *breaker, const struct weir_breaker_options *options, uint64_t now_ns,
                        uint64_t random, uint64_t *ret_generation)
{
    bool allowed = false;
    if (breaker->state == WEIR_BREAKER_HALF_OPEN && probe_is_lost(breaker, options, now_ns))
        open_breaker(breaker, options, now_ns, random);
    if (breaker->state == WEIR_BREAKER_OPEN && now_ns >= breaker->until_ns)
        enter(breaker, WEIR_BREAKER_HALF_OPEN, now_ns);
    switch (breaker->state) {
    case WEIR_BREAKER_CLOSED:
        allowed = ramp_allows(breaker, options, now_ns, random);
        break;
    case WEIR_BREAKER_OPEN:
        break;
    case WEIR_BREAKER_HALF_OPEN: /* one at a time */
        allowed = !breaker->probe_out;
        if (allowed)
            breaker->probe_ns = now_ns;
        breaker->probe_out = true;
        break;
    }
    weir_assert(breaker->state != WEIR_BREAKER_HALF_OPEN || breaker->probe_out);
    if (allowed)
        *ret_generation = breaker->generation;
    return allowed;
}

static void told_closed(struct weir_breaker *breaker, const struct weir_breaker_options *options, uint64_t now_ns,
                        uint64_t random, bool success)
{
    if (now_ns >= weir_add_sat(breaker->window_start_ns, options->window_ns)) {
        breaker->window_start_ns = now_ns;
        breaker->window_asked = breaker->window_failed = 0;
    }
    breaker->failures = success ? 0 : breaker->failures + 1;
    breaker->window_asked++;
    breaker->window_failed += !success;
    weir_assert(breaker->window_failed <= breaker->window_asked);
    bool half = breaker->window_asked >= options->window_min &&
                breaker->window_failed >= breaker->window_asked - breaker->window_failed;
    if (breaker->failures >= options->failures_max || (half && breaker->window_failed > 0))
        open_breaker(breaker, options, now_ns, random);
    else if (now_ns >= weir_add_sat(breaker->closed_ns, weir_max_u64(options->ramp_ns, options->window_ns)))
        breaker->wait_ns = 0; /* it has held: the next opening is a first one */
}

static void told_half_open(struct weir_breaker *breaker, const struct weir_breaker_options *options, uint64_t now_ns,
                           uint64_t random, bool success)
{
    weir_assert(breaker->generation > 0); /* it has been open */
    weir_assert(breaker->probes_good < options->probes);
    breaker->probe_out = false;
    if (!success) {
        open_breaker(breaker, options, now_ns, random);
    } else if (++breaker->probes_good >= options->probes) {
        enter(breaker, WEIR_BREAKER_CLOSED, now_ns);
        breaker->closed_ns = now_ns;
    }
}

void weir_breaker_told(struct weir_breaker *breaker, const struct weir_breaker_options *options, uint64_t now_ns,
                       uint64_t random, uint64_t generation, bool success)
{
    if (generation != breaker->generation)
        return;
    if (breaker->state == WEIR_BREAKER_CLOSED)
        told_closed(breaker, options, now_ns, random, success);
    else if (breaker->state == WEIR_BREAKER_HALF_OPEN)
        told_half_open(breaker, options, now_ns, random, success);
}

void weir_breaker_unsent(struct weir_breaker *breaker, uint64_t generation)
{
    if (generation == breaker->generation && breaker->state == WEIR_BREAKER_HALF_OPEN)
        breaker->probe_out = false;
}

const char *weir_breaker_name(enum weir_breaker_state state)
{
    weir_assert((unsigned)state < WEIR_BREAKER_STATES);
    return weir_breaker_phases[state].name;
}
