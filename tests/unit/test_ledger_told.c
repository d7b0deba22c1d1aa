/* SPDX-License-Identifier: Apache-2.0
 *
 * The engine's side of a shared key: what a verdict tells while others hold units, and what an ask of nothing does. */
#include "share_attack.h"

static struct world world;

static const struct weir_limit_spec bucket = {
    .algorithm = WEIR_TOKEN_BUCKET, .count = 10, .period_ns = SECOND, .burst = 20
};
static const struct weir_limit_spec first = {
    .algorithm = WEIR_FIXED_WINDOW, .count = 30, .period_ns = 5 * SECOND, .align = WEIR_ALIGN_FIRST
};

static struct weir_share_answer ask(uint64_t seq, uint64_t spent, uint64_t hold, uint64_t want)
{
    struct weir_share_ask ask = { .stint = 7, .seq = seq, .spent = spent, .hold = hold, .want = want };
    ask.ttl_ns = SECOND;
    return world_ask(&world, &ask);
}

static struct weir_verdict peek(uint64_t cost)
{
    struct weir_event event = world_event(&world, cost);
    struct weir_verdict verdict;
    weir_ledger_decide(&world.limit, &world.ledger, &event, true, &verdict);
    return verdict;
}

static void ledger__who_is_admitted_beside_what_is_held_does_not_wait(void **state)
{
    (void)state;
    world_init(&world, 1, &bucket, true);
    assert_int_equal(ask(1, 0, 0, 15).granted, 15);
    struct weir_verdict verdict = peek(5);
    assert_true(verdict.admitted && verdict.retry_after_ns == 0 && verdict.remaining == 5);
    assert_in_range(verdict.next_after_ns, 1, SECOND);
    assert_in_range(verdict.reset_after_ns, SECOND, 3 * SECOND);
    verdict = peek(6); /* held until a second has passed, if it is not given back */
    assert_true(!verdict.admitted && verdict.remaining == 5);
    assert_in_range(verdict.retry_after_ns, 1, SECOND);
    verdict = peek(0);
    assert_true(verdict.admitted && verdict.retry_after_ns == 0);
}

/* A window that opens with its first unit does not open with none. */
static void ledger__an_ask_of_nothing_opens_no_window(void **state)
{
    (void)state;
    world_init(&world, 1, &first, false);
    ask(1, 0, 0, 0);
    world.now_ns += SECOND;
    ask(2, 0, 0, 0);
    assert_int_equal(peek(0).reset_after_ns, 0);
    world.now_ns += SECOND;
    ask(3, 1, 0, 0);
    assert_int_equal(peek(0).reset_after_ns, 5 * SECOND);
}

/* Whoever stores the value has to know whether it has changed. */
static void ledger__says_whether_a_clock_had_come_back(void **state)
{
    (void)state;
    world_init(&world, 1, &bucket, false);
    const struct weir_event event = { .now_ns = 1000 * SECOND };
    struct weir_ledger ledger = { .state = weir_state_fresh(&world.limit, event.now_ns + 360000 * SECOND) };
    assert_true(weir_ledger_settle(&world.limit, &ledger, &event));
    assert_int_equal(weir_limit_used(&world.limit, &ledger.state, &event), 20);
    assert_false(weir_ledger_settle(&world.limit, &ledger, &event));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ledger__who_is_admitted_beside_what_is_held_does_not_wait),
        cmocka_unit_test(ledger__an_ask_of_nothing_opens_no_window),
        cmocka_unit_test(ledger__says_whether_a_clock_had_come_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
