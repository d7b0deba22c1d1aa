/* SPDX-License-Identifier: Apache-2.0
 *
 * limits/transaction: what is told and counted of requests that change nothing, or whose engine does not answer. */
#include "transaction_world.h"

static struct world the_world; /* too large for a stack */

static struct world *world(enum weir_on_failure on_failure)
{
    world_init(&the_world, 1, 10, on_failure);
    return &the_world;
}

static void on_done(struct weir_transaction *transaction, void *context)
{
    *(struct weir_transaction *)context = *transaction;
    weir_transaction_end(transaction);
}

/* One of this cost of the limit's key a, and all the time that it takes; without its parts. */
static struct weir_transaction ask(struct world *w, enum weir_transaction_verb verb, size_t limit, uint64_t cost)
{
    struct weir_transaction told = { 0 }, *transaction = begin(w, verb);
    add(w, transaction, limit, 0, cost);
    struct weir_transaction *pending = run(w, transaction);
    if (!pending)
        return *transaction;
    weir_transaction_then(pending, on_done, &told);
    world_run(w, SECOND);
    assert_int_equal(w->of.under_way, 0);
    return told;
}

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
static void test_what_cannot_be_decided_here_is_not_given_back_here(void **state)
{
    (void)state;
    struct world *w = world(WEIR_ON_FAILURE_OPEN);
    w->limits[EXACT].undecidable = true;
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_forget_that_the_engine_did_not_hear_is_told),
        cmocka_unit_test(test_a_look_whose_answer_is_lost_is_no_unknown_charge),
        cmocka_unit_test(test_what_cannot_be_decided_here_is_not_given_back_here),
        cmocka_unit_test(test_a_refusal_for_good_stays_one),
        cmocka_unit_test(test_a_look_lets_nothing_through),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
