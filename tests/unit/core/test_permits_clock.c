/* SPDX-License-Identifier: Apache-2.0
 *
 * core/limit: permits under a clock that went ahead and came back, and what a reload does with them and with debts. */
#include "core/limit/limit.h"
#include "core/limit/ticks.h"
#include "fixture.h"

#define LEASE (10 * SECOND)
#define PERMITS 3

struct permits {
    struct weir_limit limit;
    struct weir_state state;
    uint64_t words[64];
};

static struct weir_limit compiled(enum weir_algorithm algorithm, uint64_t count, uint64_t period_ns)
{
    struct weir_limit_spec spec = { .algorithm = algorithm, .count = count, .period_ns = period_ns };
    struct weir_limit limit;
    assert_int_equal(weir_limit_init(&limit, &spec, 0, NULL), 0);
    return limit;
}

/* All are out, as of a clock that shows `now_ns`. */
static void take_all(struct permits *p, uint64_t now_ns)
{
    struct weir_verdict verdict;
    p->limit = compiled(WEIR_CONCURRENCY, PERMITS, LEASE);
    p->state = weir_state_fresh(&p->limit, now_ns);
    p->state.log = (struct weir_log){ .times = p->words, .room = 64 };
    for (uint64_t i = 1; i <= PERMITS; i++) {
        struct weir_event event = { .now_ns = now_ns, .cost = 1, .permit = i };
        assert_true(weir_limit_judge(&p->limit, &p->state, &event, &verdict));
        weir_limit_charge(&p->limit, &p->state, &event, &verdict);
    }
}

static void permits_end_within_a_lease_though_the_clock_came_back(void **state)
{
    (void)state;
    struct permits p;
    take_all(&p, T0 + HOUR);
    struct weir_event event = { .now_ns = T0, .cost = 1 };
    struct weir_verdict verdict;
    assert_false(weir_limit_judge(&p.limit, &p.state, &event, &verdict));
    assert_int_equal(verdict.retry_after_ns, LEASE); /* as if it were settled */
    p.words[2 * PERMITS] = UINT64_MAX;               /* behind them nothing is theirs */
    weir_limit_settle(&p.limit, &p.state, &event);
    assert_true(p.words[2 * PERMITS] == UINT64_MAX);
    assert_int_equal(weir_limit_lease_ns(&p.limit, &p.state, &event, 1), LEASE);
    assert_int_equal(weir_limit_used(&p.limit, &p.state, &event), PERMITS);
    /* and no longer than that the key keeps its place */
    assert_int_equal(p.state.fresh_at, weir_ticks_at(T0 + LEASE, p.limit.shift));
    event.now_ns = T0 + LEASE;
    assert_int_equal(weir_limit_used(&p.limit, &p.state, &event), 0);
}

static void what_is_out_is_carried_to_more_or_fewer_permits_as_it_is(void **state)
{
    (void)state;
    struct permits p;
    take_all(&p, T0);
    struct weir_event event = { .now_ns = T0 + SECOND };
    const struct weir_limit more = compiled(WEIR_CONCURRENCY, 10, LEASE), fewer = compiled(WEIR_CONCURRENCY, 1, LEASE);
    assert_int_equal(weir_limit_carried(&p.limit, &more, WEIR_ON_CHANGE_KEEP, &p.state, &event), PERMITS);
    assert_int_equal(weir_limit_carried(&p.limit, &fewer, WEIR_ON_CHANGE_KEEP, &p.state, &event), PERMITS);
}

/* A limit that follows several before it: the longest of their debts is waited for, whichever comes last. */
static void a_reload_keeps_the_debts_of_the_one_before(void **state)
{
    (void)state;
    const struct weir_limit large = compiled(WEIR_TOKEN_BUCKET, 1000, SECOND),
                            small = compiled(WEIR_TOKEN_BUCKET, 20, SECOND);
    struct weir_limit now = compiled(WEIR_TOKEN_BUCKET, 10, SECOND);
    weir_limit_follow(&now, &large, T0);
    assert_int_equal(now.debt_until_ns, T0 + 100 * SECOND);
    assert_int_equal(now.debt_units, 1000);
    weir_limit_follow(&now, &small, T0 + SECOND);
    assert_int_equal(now.debt_until_ns, T0 + 100 * SECOND);
    assert_int_equal(now.debt_units, 1000);
}

/* A permit that a limit before the last one gave ends when its holder was told, and no later for a reload. */
static void permits_of_before_end_when_they_would(void **state)
{
    (void)state;
    const struct weir_limit longest = compiled(WEIR_CONCURRENCY, 10, 100 * SECOND);
    struct weir_limit shorter = compiled(WEIR_CONCURRENCY, 5, 10 * SECOND), last = shorter;
    weir_limit_follow(&shorter, &longest, T0);
    assert_int_equal(shorter.debt_until_ns, T0 + 100 * SECOND);
    weir_limit_follow(&last, &shorter, T0 + 30 * SECOND);
    assert_int_equal(last.debt_until_ns, T0 + 100 * SECOND);
    assert_int_equal(last.debt_units, 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(permits_end_within_a_lease_though_the_clock_came_back),
        cmocka_unit_test(what_is_out_is_carried_to_more_or_fewer_permits_as_it_is),
        cmocka_unit_test(a_reload_keeps_the_debts_of_the_one_before),
        cmocka_unit_test(permits_of_before_end_when_they_would),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
