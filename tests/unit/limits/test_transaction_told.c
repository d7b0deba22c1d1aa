/* SPDX-License-Identifier: Apache-2.0
 *
 * limits/transaction: what is told and counted of requests that change nothing, or whose engine does not answer. */
#include "transaction_told.h"

static void test_a_forget_that_the_engine_did_not_hear_is_told(void **state)
{
    (void)state;
    struct world *w = world(WEIR_ON_FAILURE_CLOSED);
    assert_int_equal(ask(w, WEIR_TRANSACTION_FORGET, EXACT, 0).error, 0);
    w->remote.down = true;
    assert_int_equal(ask(w, WEIR_TRANSACTION_FORGET, EXACT, 0).error, WEIR_EDOWN);
    world_deinit(w);
}

/* Nothing can have been charged by it. */
static void test_a_look_whose_answer_is_lost_is_no_unknown_charge(void **state)
{
    (void)state;
    struct world *w = world(WEIR_ON_FAILURE_CLOSED);
    w->remote.lost = 1000;
    assert_false(ask(w, WEIR_TRANSACTION_PEEK, EXACT, 1).unknown);
    assert_true(ask(w, WEIR_TRANSACTION_DECIDE, EXACT, 1).unknown);
    world_deinit(w);
}

/* The engine keeps it by a definition that is not understood here. */
static void test_what_cannot_be_decided_here_needs_no_engine(void **state)
{
    (void)state;
    struct world *w = world(WEIR_ON_FAILURE_OPEN);
    w->limits[EXACT].undecidable = true;
    const struct told told = ask(w, WEIR_TRANSACTION_DECIDE, EXACT, 1);
    assert_true(told.admitted && told.fell_back); /* nor asked for: on_failure says so */
    (void)ask(w, WEIR_TRANSACTION_REFUND, EXACT, 1);
    assert_int_equal(w->remote.asks, 0);
    world_deinit(w);
}

/* What can never pass is no attempt, whatever else refuses after it. */
static void test_a_refusal_for_good_stays_one(void **state)
{
    (void)state;
    struct world *w = world(WEIR_ON_FAILURE_CLOSED);
    struct weir_transaction *transaction = begin(w, WEIR_TRANSACTION_DECIDE);
    add(w, transaction, GOSSIPED, 1, 10);
    assert_null(run(w, transaction));
    transaction = begin(w, WEIR_TRANSACTION_DECIDE);
    add(w, transaction, GOSSIPED, 0, 11);
    add(w, transaction, GOSSIPED, 1, 1);
    add(w, transaction, ATTEMPTS, 0, 1);
    assert_null(run(w, transaction));
    assert_int_equal(transaction->parts[0].verdict.retry_after_ns, WEIR_NEVER);
    assert_true(transaction->parts[1].verdict.retry_after_ns < WEIR_NEVER);
    assert_int_equal(world_used(w, ATTEMPTS, 0), 0);
    world_deinit(w);
}

/* on_failure: open takes a limit's bound away by what it lets through: not by what was only looked at. */
static void test_a_look_lets_nothing_through(void **state)
{
    (void)state;
    struct world *w = world(WEIR_ON_FAILURE_OPEN);
    const struct weir_limit_spec *spec = &w->limits[EXACT].spec;
    w->remote.down = true;
    (void)ask(w, WEIR_TRANSACTION_PEEK, EXACT, 1);
    assert_int_equal(weir_fallback_overshoot(w->of.fallback, EXACT, spec, w->remote.now_ns), 0);
    (void)ask(w, WEIR_TRANSACTION_DECIDE, EXACT, 1);
    assert_int_equal(weir_fallback_overshoot(w->of.fallback, EXACT, spec, w->remote.now_ns), WEIR_NEVER);
    world_deinit(w);
}

/* Where its units are, though its host decides. */
static void test_what_a_host_has_settled_is_given_back_at_the_engine(void **state)
{
    (void)state;
    struct world *w = world(WEIR_ON_FAILURE_CLOSED);
    assert_true(ask(w, WEIR_TRANSACTION_DECIDE, LEASED, 1).admitted);
    world_close(w);
    assert_int_equal(world_used(w, LEASED, 0), 1);
    (void)ask(w, WEIR_TRANSACTION_REFUND, LEASED, 1);
    assert_int_equal(world_used(w, LEASED, 0), 0);
    world_deinit(w);
}

/* An outage ends when the engine answers. In the next one, a moment later, shares begin empty. */
static void test_two_outages_are_not_one(void **state)
{
    (void)state;
    struct world *w = world(WEIR_ON_FAILURE_LOCAL);
    w->remote.down = true;
    assert_true(ask_key(w, WEIR_TRANSACTION_DECIDE, EXACT, 0, 1).admitted);
    w->remote.down = false;
    assert_false(ask_key(w, WEIR_TRANSACTION_DECIDE, EXACT, 0, 1).fell_back);
    world_run(w, 10 * SECOND);
    w->remote.down = true;
    assert_false(ask_key(w, WEIR_TRANSACTION_DECIDE, EXACT, 1, 1).admitted);
    world_deinit(w);
}

/* Its time is over when the host's wait is: the rest is answered at once, and nobody is asked any more. */
static void test_nothing_is_asked_of_the_engine_when_the_time_is_over(void **state)
{
    (void)state;
    struct world *w = world(WEIR_ON_FAILURE_OPEN);
    struct told told = { .error = -1 };
    w->remote.lost = 1000;
    struct weir_transaction *transaction = begin(w, WEIR_TRANSACTION_DECIDE);
    add(w, transaction, LEASED, 0, 1);
    add(w, transaction, EXACT, 0, 1);
    weir_transaction_then(run(w, transaction), on_done, &told);
    world_run(w, 20 * MS);
    assert_true(told.error == 0 && told.admitted && told.fell_back);
    assert_false(told.unknown); /* as what was asked, and not answered, would be */
    world_deinit(w);
}

/* Units ahead of the engine: together the loops have no more of them than the node. */
static void test_a_loop_has_its_part_of_the_slack(void **state)
{
    (void)state;
    static const uint64_t parts[] = { 3, 2 };
    for (uint32_t loop = 0; loop < 2; loop++) {
        struct world *w = world(WEIR_ON_FAILURE_CLOSED);
        uint64_t ahead = 0;
        w->of.loops = 2;
        w->of.loop = loop;
        assert_true(ask(w, WEIR_TRANSACTION_DECIDE, BATCHED, 1).admitted); /* all that is known is the engine's */
        w->remote.lost = 1000;
        for (unsigned i = 0; i < 8; i++) {
            struct weir_transaction *transaction = begin(w, WEIR_TRANSACTION_DECIDE), *pending;
            add(w, transaction, BATCHED, 0, 1);
            pending = run(w, transaction);
            ahead += !pending && weir_transaction_decision(transaction).admitted;
            if (pending)
                weir_transaction_abandon(pending);
        }
        assert_int_equal(ahead, parts[loop]);
        world_deinit(w);
    }
}

static void test_a_shadow_that_comes_too_late_refuses_nobody(void **state)
{
    (void)state;
    struct world *w = world(WEIR_ON_FAILURE_CLOSED);
    struct told told = { .error = -1 };
    w->limits[LEASED].chunk_ttl_ns = 30 * MS;
    w->limits[LEASED].spec.mode = WEIR_MODE_SHADOW;
    w->limits[EXACT].deadline_ns = w->limits[LEASED].deadline_ns = 200 * MS;
    struct weir_transaction *transaction = begin(w, WEIR_TRANSACTION_DECIDE);
    add(w, transaction, LEASED, 0, 1);
    add(w, transaction, HERE, 0, 1);
    add(w, transaction, EXACT, 0, 1);
    weir_transaction_then(run(w, transaction), on_done, &told);
    world_run(w, MS + MS / 2); /* the chunk is on its way */
    w->remote.delay_ns = 40 * MS;
    world_run(w, 120 * MS);
    assert_true(told.error == 0 && told.admitted && !told.verdict.admitted && told.verdict.shadow);
    assert_int_equal(told.verdict.retry_after_ns, MS);
    assert_int_equal(world_used(w, HERE, 0), 1);
    world_deinit(w);
}

/* Cost 0 is always admitted, also where others are faster at the key all the time. */
static void test_a_cost_of_0_is_admitted_at_a_busy_key(void **state)
{
    (void)state;
    for (uint64_t cost = 0; cost <= 1; cost++) {
        struct world *w = world(WEIR_ON_FAILURE_CLOSED);
        w->remote.busy = 1000;
        w->remote.delay_ns = 10 * MS; /* there and back: the deadline */
        const struct told told = ask(w, WEIR_TRANSACTION_DECIDE, EXACT, cost);
        assert_false(told.fell_back);
        assert_int_equal(told.admitted, cost == 0);
        assert_int_equal(told.verdict.retry_after_ns > 0, cost > 0);
        world_deinit(w);
    }
}

/* Whatever on_failure says: no wait is told of what is above the capacity, and one of what is not. */
static void test_what_can_never_pass_waits_for_no_engine(void **state)
{
    (void)state;
    for (int on_failure = WEIR_ON_FAILURE_LOCAL; on_failure <= WEIR_ON_FAILURE_CLOSED; on_failure++) {
        struct world *w = world((enum weir_on_failure)on_failure);
        w->remote.down = true;
        struct told told = ask(w, WEIR_TRANSACTION_DECIDE, EXACT, 11);
        assert_false(told.admitted);
        assert_int_equal(told.verdict.retry_after_ns, WEIR_NEVER);
        told = ask(w, WEIR_TRANSACTION_DECIDE, EXACT, 10);
        if (on_failure != WEIR_ON_FAILURE_OPEN)
            assert_in_range(told.verdict.retry_after_ns, 1, WEIR_TRANSACTION_RETRY_NS);
        world_deinit(w);
    }
}

/* A shadow charges nothing when it would refuse: then there is nothing to give back when another limit does. */
static void test_what_a_shadow_did_not_charge_is_not_given_back(void **state)
{
    (void)state;
    struct world *w = world(WEIR_ON_FAILURE_CLOSED);
    const struct weir_time time = world_now(w);
    weir_limit_id ids[2];
    w->limits[HERE].spec.mode = WEIR_MODE_SHADOW;
    const struct weir_limit_def defs[] = { { names[HERE], "", w->limits[HERE].spec },
                                           { names[ATTEMPTS], "", w->limits[ATTEMPTS].spec } };
    assert_int_equal(weir_limiter_define(w->limiter, defs, 2, &time, ids, NULL), 0);
    w->here[0][0].limit = ids[0];
    assert_true(ask(w, WEIR_TRANSACTION_DECIDE, HERE, 10).verdict.admitted);
    assert_true(ask(w, WEIR_TRANSACTION_DECIDE, EXACT, 10).admitted);
    struct told told = { .error = -1 };
    struct weir_transaction *transaction = begin(w, WEIR_TRANSACTION_DECIDE);
    add(w, transaction, HERE, 0, 1);
    add(w, transaction, EXACT, 0, 1);
    weir_transaction_then(run(w, transaction), on_done, &told);
    world_run(w, SECOND);
    assert_true(told.error == 0 && !told.admitted);
    assert_int_equal(world_used(w, HERE, 0), 10);
    world_deinit(w);
}

/* How often this process's limit has refused, as its statistics tell. */
static uint64_t refused_here(struct world *w)
{
    struct weir_limit_stats stats;
    assert_int_equal(weir_limiter_limit_stats(w->limiter, w->here[0][0].limit, &stats), 0);
    return stats.refused;
}

static void test_what_is_only_looked_at_has_refused_nobody(void **state)
{
    (void)state;
    struct world *w = world(WEIR_ON_FAILURE_CLOSED);
    assert_true(ask(w, WEIR_TRANSACTION_DECIDE, HERE, 10).admitted);
    assert_false(ask(w, WEIR_TRANSACTION_PEEK, HERE, 1).admitted);
    struct weir_transaction *transaction = begin(w, WEIR_TRANSACTION_DECIDE);
    add(w, transaction, GOSSIPED, 0, 11);
    add(w, transaction, HERE, 0, 1);
    assert_null(run(w, transaction));
    assert_false(transaction->parts[1].verdict.admitted);
    assert_int_equal(refused_here(w), 0);
    assert_false(ask(w, WEIR_TRANSACTION_DECIDE, HERE, 1).admitted);
    assert_int_equal(refused_here(w), 1);
    world_deinit(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_forget_that_the_engine_did_not_hear_is_told),
        cmocka_unit_test(test_a_look_whose_answer_is_lost_is_no_unknown_charge),
        cmocka_unit_test(test_what_cannot_be_decided_here_needs_no_engine),
        cmocka_unit_test(test_a_refusal_for_good_stays_one),
        cmocka_unit_test(test_a_look_lets_nothing_through),
        cmocka_unit_test(test_what_a_host_has_settled_is_given_back_at_the_engine),
        cmocka_unit_test(test_two_outages_are_not_one),
        cmocka_unit_test(test_nothing_is_asked_of_the_engine_when_the_time_is_over),
        cmocka_unit_test(test_a_loop_has_its_part_of_the_slack),
        cmocka_unit_test(test_a_shadow_that_comes_too_late_refuses_nobody),
        cmocka_unit_test(test_a_cost_of_0_is_admitted_at_a_busy_key),
        cmocka_unit_test(test_what_can_never_pass_waits_for_no_engine),
        cmocka_unit_test(test_what_a_shadow_did_not_charge_is_not_given_back),
        cmocka_unit_test(test_what_is_only_looked_at_has_refused_nobody),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
