/* SPDX-License-Identifier: Apache-2.0
 *
 * A concurrency limit of core/limit against two references over random streams: a naive list of permits, which must
 * agree in every number, and, where a permit is of one unit, the machine of core/lease, which decides locks.
 *
 *     test_permits [--ops N] [--seed S] */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "core/lease/holders.h"
#include "core/limit/limit.h"
#include "random.h"

#define SECOND WEIR_NS_PER_SECOND
#define OUT_MAX 64
#define EPISODE_OPS 500

struct naive_permit {
    uint64_t number, units, end_ns;
};

struct model {
    struct test_random random;
    struct weir_limit_spec spec;
    struct weir_limit limit;
    struct weir_state state;
    uint64_t words[1024], now_ns, number;
    struct naive_permit out[4096]; /* never forgotten: looked through whole */
    size_t count;
    struct weir_lease_holder lease_out[OUT_MAX];
    struct weir_holders lease;
    bool ones; /* every permit is of one unit, no reload: core/lease goes along */
};

static uint64_t below(struct model *m, uint64_t bound)
{
    return test_random_below(&m->random, bound);
}

static uint64_t naive_used(const struct model *m, uint64_t now_ns)
{
    uint64_t used = 0;
    for (size_t i = 0; i < m->count; i++)
        used += m->out[i].end_ns > now_ns ? m->out[i].units : 0;
    return used;
}

/* By trying every end there is. */
static uint64_t naive_wait(const struct model *m, uint64_t most)
{
    uint64_t wait_ns = naive_used(m, m->now_ns) <= most ? 0 : UINT64_MAX;
    for (size_t i = 0; i < m->count; i++)
        if (m->out[i].end_ns > m->now_ns && naive_used(m, m->out[i].end_ns) <= most &&
            m->out[i].end_ns - m->now_ns < wait_ns)
            wait_ns = m->out[i].end_ns - m->now_ns;
    return wait_ns;
}

static struct naive_permit *naive_find(struct model *m, uint64_t number)
{
    for (size_t i = 0; i < m->count; i++)
        if (m->out[i].number == number && m->out[i].end_ns > m->now_ns)
            return &m->out[i];
    return NULL;
}

static bool differ(const char *what, uint64_t is, uint64_t should)
{
    if (is == should)
        return false;
    printf("%s is %" PRIu64 ", should be %" PRIu64 "\n", what, is, should);
    return true;
}

static bool same_numbers(const struct model *m, const struct weir_verdict *v, uint64_t cost, bool charged)
{
    uint64_t used = naive_used(m, m->now_ns), n = m->spec.count, remaining = used < n ? n - used : 0;
    uint64_t next_ns = used == 0 ? 0 : naive_wait(m, used < n ? used - 1 : n > 0 ? n - 1 : UINT64_MAX);
    bool bad = differ("capacity", v->capacity, n) || differ("remaining", v->remaining, remaining) ||
               differ("reset", v->reset_after_ns, naive_wait(m, 0)) ||
               (n > 0 && differ("next", v->next_after_ns, next_ns));
    if (!bad && !charged && cost > n)
        bad = differ("never", v->retry_after_ns, WEIR_NEVER) || differ("admitted", v->admitted, false);
    else if (!bad && !charged)
        bad = differ("retry", v->retry_after_ns, cost == 0 ? 0 : naive_wait(m, n - cost)) ||
              differ("admitted", v->admitted, cost == 0 || used + cost <= n);
    return !bad;
}

static bool step_charge(struct model *m, const struct weir_event *event)
{
    struct weir_verdict verdict;
    struct weir_event charge = *event;
    charge.cost = m->ones ? 1 : below(m, m->spec.count + 2);
    charge.permit = m->number + 1;
    bool admitted = weir_limit_judge(&m->limit, &m->state, &charge, &verdict);
    if (!same_numbers(m, &verdict, charge.cost, false))
        return false;
    struct weir_lease_holder permit;
    if (m->ones && differ("core/lease", admitted,
                          weir_holders_take(&m->lease, m->number + 1, m->number + 1, m->spec.period_ns, m->now_ns,
                                            &permit) == WEIR_HOLDERS_GRANTED))
        return false;
    if (m->ones && !admitted && verdict.retry_after_ns != WEIR_NEVER &&
        differ("the soonest end of core/lease", permit.end_ns, m->now_ns + verdict.retry_after_ns))
        return false;
    if (!admitted || charge.cost == 0 || below(m, 8) == 0) { /* a peek; core/lease does not have it */
        if (m->ones && admitted)
            weir_holders_release(&m->lease, m->number + 1, m->now_ns);
        return true;
    }
    weir_assert(weir_limit_room(&m->limit, &m->state, &charge, charge.cost) <= m->state.log.room);
    weir_limit_charge(&m->limit, &m->state, &charge, &verdict);
    m->out[m->count++] = (struct naive_permit){ ++m->number, charge.cost, m->now_ns + m->spec.period_ns };
    return same_numbers(m, &verdict, charge.cost, true);
}

static bool step_permit(struct model *m, const struct weir_event *event, bool renew)
{
    uint64_t number = below(m, 20) == 0 ? m->number + below(m, 3) + 1 : m->number - below(m, 2 * m->spec.count + 2);
    struct naive_permit *permit = naive_find(m, number);
    struct weir_lease_holder ours;
    uint64_t end_ns = m->now_ns + m->spec.period_ns;
    if (number == 0 || number > m->number + 100)
        return true;
    if (renew) {
        if (permit && permit->end_ns < end_ns)
            permit->end_ns = end_ns;
        uint64_t left_ns = permit ? permit->end_ns - m->now_ns : 0;
        return !differ("renewal", weir_limit_renew(&m->limit, &m->state, event, number), left_ns) &&
               !differ("lease", weir_limit_lease_ns(&m->limit, &m->state, event, number), left_ns) &&
               (!m->ones ||
                !differ("core/lease renews", weir_holders_renew(&m->lease, number, m->spec.period_ns, m->now_ns, &ours),
                        permit != NULL));
    }
    uint64_t units = permit ? permit->units : 0;
    if (permit)
        permit->end_ns = 0;
    return !differ("release", weir_limit_release(&m->limit, &m->state, event, number), units) &&
           (!m->ones || !differ("core/lease releases", weir_holders_release(&m->lease, number, m->now_ns), units));
}

static struct weir_limit_spec draw(struct model *m)
{
    return (struct weir_limit_spec){ .algorithm = WEIR_CONCURRENCY,
                                     .count = below(m, 12),
                                     .period_ns = SECOND + below(m, 4) * SECOND / 2 };
}

static void step_reload(struct model *m, const struct weir_event *event)
{
    struct weir_limit from = m->limit;
    m->spec = draw(m);
    int error = weir_limit_init(&m->limit, &m->spec, SECOND, NULL);
    weir_assert(error == 0);
    weir_limit_follow(&m->limit, &from, m->now_ns);
    weir_limit_convert(&from, &m->limit, WEIR_ON_CHANGE_KEEP, &m->state, event);
}

static void start(struct model *m, uint64_t seed)
{
    *m = (struct model){ .random = { seed }, .now_ns = 1000 * SECOND };
    m->ones = below(m, 2);
    m->spec = draw(m);
    int error = weir_limit_init(&m->limit, &m->spec, SECOND, NULL);
    weir_assert(error == 0);
    m->state = weir_state_fresh(&m->limit, m->now_ns);
    m->state.log = (struct weir_log){ .times = m->words, .room = 1024 };
    m->lease = (struct weir_holders){ .out = m->lease_out, .max = m->spec.count };
}

static bool step(struct model *m)
{
    uint64_t dice = below(m, 100);
    /* Often just before or at an end. */
    if (dice < 30 && m->count > 0 && m->out[m->count - 1].end_ns > m->now_ns + 1 && below(m, 4) == 0)
        m->now_ns = m->out[m->count - 1].end_ns - below(m, 2);
    else
        m->now_ns += below(m, 3) == 0 ? below(m, SECOND) : below(m, 3);
    struct weir_event event = { .now_ns = m->now_ns };
    weir_assert(!weir_limit_jumped(&m->limit, &m->state, m->now_ns));
    if (dice < 60)
        return step_charge(m, &event);
    if (dice < 97 || m->ones)
        return step_permit(m, &event, dice < 75);
    step_reload(m, &event);
    return true;
}

int main(int argc, char **argv)
{
    uint64_t seed = 0, ops = 200000, done = 0;
    bool seeded = false;
    for (int i = 1; i + 1 < argc; i += 2) {
        seeded = seeded || strcmp(argv[i], "--seed") == 0;
        *(strcmp(argv[i], "--seed") == 0 ? &seed : &ops) = strtoull(argv[i + 1], NULL, 0);
    }
    seed = seeded ? seed : test_random_seed();
    static struct model model;
    for (; done < ops; seed++) {
        start(&model, seed);
        for (int i = 0; i < EPISODE_OPS && done < ops; i++, done++)
            if (!step(&model)) {
                printf("at operation %d; again with --seed %" PRIu64 " --ops %d\n", i, seed, i + 1);
                return 1;
            }
    }
    printf("concurrency: %" PRIu64 " operations, no difference\n", done);
    return 0;
}
