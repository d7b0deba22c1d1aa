/* SPDX-License-Identifier: Apache-2.0
 *
 * `sharing: batched`, a node's side, with the ledger beside it. */
#include "share_attack.h"

#include "batched_key.h"

static struct world world;

static const struct weir_limit_spec bucket = {
    .algorithm = WEIR_TOKEN_BUCKET, .count = 10, .period_ns = SECOND, .burst = 100
};

/* ---- one machine by hand ---- */

static void batched__decides_here_up_to_the_slack_those_under_way_included(void **state)
{
    (void)state;
    struct weir_share_effects effects;
    begin_with(&hourly, 1);
    for (int i = 0; i < 10; i++) {
        assert_true(take(1, SECOND + 2 * MS, &effects));
        assert_int_equal(effects.send, i == 4); /* half of the slack: it settles early */
    }
    assert_false(take(1, SECOND + 2 * MS, &effects)); /* 5 under way, 5 more: the slack is used */
    assert_int_equal(effects.say, WEIR_SHARE_WAIT);
    effects = hear(0, 6, SECOND + 3 * MS);
    assert_false(effects.send); /* who waited comes first, and goes into the next ask */
    assert_int_equal(key.unsettled, 5);
    assert_true(take(1, SECOND + 3 * MS, &effects));
}

/* An interval longer than the engine holds what it grants: what was spent of that is told before the hold ends. */
static void batched__what_was_granted_is_settled_before_its_hold_ends(void **state)
{
    (void)state;
    begin_with(&hourly, 1);
    options.interval_ns = 60 * SECOND;
    step(WEIR_SHARE_TICK, 0, 2 * SECOND);
    hear(0, 1, 2 * SECOND + MS);
    assert_true(step(WEIR_SHARE_RESERVE, 20, 3 * SECOND).send); /* beyond the slack */
    hear(20, 21, 3 * SECOND + MS);
    struct weir_share_effects effects = step(WEIR_SHARE_RESERVE, 20, 3 * SECOND + 2 * MS);
    assert_int_equal(effects.say, WEIR_SHARE_YES);
    effects = step(WEIR_SHARE_COMMIT, 20, 3 * SECOND + 2 * MS);
    assert_int_equal(effects.wake_ns, key.heard_ns + (key.deadline_ns - key.heard_ns) / 2);
    effects = step(WEIR_SHARE_TICK, 0, effects.wake_ns);
    assert_true(effects.send);
    assert_int_equal(effects.ask.spent - effects.ask.known, 20);
    assert_int_equal(effects.ask.hold, 0);
}

/* Nor is it told under the next stint where nobody could tell it in time: the engine has charged it. */
static void batched__what_was_granted_is_charged_once_when_its_hold_ends(void **state)
{
    (void)state;
    begin_with(&hourly, 1);
    step(WEIR_SHARE_TICK, 0, 2 * SECOND);
    hear(0, 1, 2 * SECOND + MS);
    step(WEIR_SHARE_RESERVE, 20, 3 * SECOND);
    hear(20, 21, 3 * SECOND + MS);
    step(WEIR_SHARE_RESERVE, 20, 3 * SECOND + 2 * MS);
    step(WEIR_SHARE_COMMIT, 20, 3 * SECOND + 2 * MS);
    assert_true(step(WEIR_SHARE_TICK, 0, 3 * SECOND + 200 * MS).send); /* lost, and so are those after it */
    const uint64_t stint = key.stint, deadline_ns = key.deadline_ns;
    for (uint64_t now_ns = 3 * SECOND + 220 * MS; now_ns < deadline_ns; now_ns += 50 * MS)
        step(WEIR_SHARE_TICK, 0, now_ns);
    step(WEIR_SHARE_TICK, 0, deadline_ns);
    assert_int_equal(key.stint, stint + 1);
    assert_int_equal(key.spent - key.known, 0);
}

/* Of a window: when more is to be had, and when all of it. */
static void batched__tells_when_the_window_empties(void **state)
{
    (void)state;
    begin_with(&hourly, 50);
    struct weir_share_effects effects = step(WEIR_SHARE_RESERVE, 1, SECOND + 2 * MS);
    assert_int_equal(effects.say, WEIR_SHARE_YES);
    assert_int_equal(effects.verdict.next_after_ns, SECOND - MS);
    assert_int_equal(effects.verdict.reset_after_ns, SECOND - MS);
    step(WEIR_SHARE_RESERVE, 45, SECOND + 2 * MS);
    hear(0, 52, SECOND + 3 * MS); /* the next are to be had in 30 ms */
    effects = step(WEIR_SHARE_RESERVE, 45, SECOND + 4 * MS);
    assert_int_equal(effects.say, WEIR_SHARE_NO);
    assert_int_equal(effects.verdict.retry_after_ns, 29 * MS);
    assert_int_equal(effects.verdict.next_after_ns, 29 * MS);
    assert_int_equal(effects.verdict.reset_after_ns, SECOND - MS);
}

static void batched__tells_nothing_to_wait_for_when_it_is_full(void **state)
{
    (void)state;
    begin_with(&bucket, 1);
    struct weir_share_effects effects = step(WEIR_SHARE_RESERVE, 0, 20 * SECOND);
    assert_int_equal(effects.verdict.remaining, 100);
    assert_int_equal(effects.verdict.next_after_ns, 0);
    assert_int_equal(effects.verdict.reset_after_ns, 0);
}

static void batched__what_was_granted_and_is_cancelled_is_granted_still(void **state)
{
    (void)state;
    begin_with(&hourly, 1);
    struct weir_share_effects effects = step(WEIR_SHARE_RESERVE, 30, SECOND + 2 * MS);
    assert_int_equal(effects.ask.least, 30);
    hear(30, 31, SECOND + 3 * MS);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(step(WEIR_SHARE_RESERVE, 30, SECOND + 3 * MS).say, WEIR_SHARE_YES);
        step(WEIR_SHARE_CANCEL, 30, SECOND + 3 * MS);
        assert_int_equal(key.reserved, 0);
    }
    assert_int_equal(key.pocket + key.ahead, 30);
}

static void batched__settles_every_interval(void **state)
{
    (void)state;
    struct weir_share_effects effects;
    begin_with(&hourly, 1);
    uint64_t due_ns = SECOND + 101 * MS;
    assert_true(take(1, SECOND + 50 * MS, &effects));
    assert_int_equal(effects.wake_ns, due_ns);
    effects = step(WEIR_SHARE_TICK, 0, due_ns);
    assert_true(effects.send);
    assert_int_equal(effects.ask.spent, 2);
    assert_int_equal(effects.ask.want, 0);
    assert_int_equal(effects.ask.window, 77);                    /* in which they were spent, as the engine told it */
    assert_int_equal(effects.wake_ns, due_ns + options.lost_ns); /* or nobody would notice that no answer comes */
    effects = hear(0, 2, due_ns + MS);
    assert_true(effects.idle);
    assert_int_equal(effects.wake_ns, 0);
}

static void batched__what_does_not_fit_the_slack_is_the_engines(void **state)
{
    (void)state;
    struct weir_share_effects effects;
    begin_with(&hourly, 1);
    effects = step(WEIR_SHARE_RESERVE, 30, SECOND + 2 * MS);
    assert_int_equal(effects.say, WEIR_SHARE_WAIT);
    assert_true(effects.send);
    assert_int_equal(effects.ask.want, 30);
    hear(30, 31, SECOND + 3 * MS);
    assert_true(take(30, SECOND + 3 * MS, &effects));
    assert_int_equal(key.unsettled, 0); /* held by the engine until it is told */
    assert_int_equal(key.spent, 31);
}

static void batched__a_slack_of_nothing_leaves_every_decision_to_the_engine(void **state)
{
    (void)state;
    begin_with(&hourly, 1);
    options.slack = 0;
    assert_int_equal(step(WEIR_SHARE_RESERVE, 1, SECOND + 2 * MS).say, WEIR_SHARE_WAIT);
    hear(0, 100, SECOND + 3 * MS);
    assert_int_equal(step(WEIR_SHARE_RESERVE, 1, SECOND + 3 * MS).say, WEIR_SHARE_NO);
    /* There are some, but another came first. */
    assert_int_equal(step(WEIR_SHARE_RESERVE, 1, SECOND + 200 * MS).say, WEIR_SHARE_WAIT);
    hear(0, 50, SECOND + 201 * MS);
    assert_int_equal(step(WEIR_SHARE_RESERVE, 1, SECOND + 201 * MS).say, WEIR_SHARE_NO);
}

static void batched__what_was_heard_of_another_limit_admits_and_refuses_nobody(void **state)
{
    (void)state;
    for (uint64_t used = 1; used <= 100; used += 99) {
        begin_with(&hourly, used);
        weir_batched_follow(&key);
        assert_int_equal(step(WEIR_SHARE_RESERVE, 1, SECOND + 2 * MS).say, WEIR_SHARE_WAIT);
    }
}

static void batched__who_is_admitted_is_told_of_no_wait(void **state)
{
    (void)state;
    begin_with(&hourly, 50);
    struct weir_share_effects effects = step(WEIR_SHARE_RESERVE, 1, SECOND + 2 * MS);
    assert_true(effects.verdict.admitted);
    assert_int_equal(effects.verdict.remaining, 49);
    assert_int_equal(effects.verdict.retry_after_ns, 0);
    assert_true(effects.verdict.reset_after_ns > 0);
}

static void batched__refuses_only_by_what_it_heard_within_the_interval(void **state)
{
    (void)state;
    begin_with(&hourly, 100);
    struct weir_share_effects effects = step(WEIR_SHARE_RESERVE, 1, SECOND + 100 * MS);
    assert_int_equal(effects.say, WEIR_SHARE_NO);
    assert_int_equal(effects.verdict.remaining, 0);
    step(WEIR_SHARE_TICK, 0, SECOND + 101 * MS);
    hear(0, 100, SECOND + 102 * MS);
    assert_int_equal(step(WEIR_SHARE_RESERVE, 1, SECOND + 202 * MS).say, WEIR_SHARE_WAIT);
}

static void batched__a_word_that_nothing_is_left_holds_until_the_engine_said_there_may_be_more(void **state)
{
    (void)state;
    begin_with(&hourly, 1);
    assert_int_equal(step(WEIR_SHARE_RESERVE, 50, SECOND + 2 * MS).say, WEIR_SHARE_WAIT);
    hear(0, 100, SECOND + 3 * MS); /* retry_after: 30 ms; the interval is 100 ms */
    assert_int_equal(step(WEIR_SHARE_RESERVE, 1, SECOND + 33 * MS - 1).say, WEIR_SHARE_NO);
    struct weir_share_effects effects = step(WEIR_SHARE_RESERVE, 1, SECOND + 33 * MS);
    assert_int_equal(effects.say, WEIR_SHARE_WAIT);
    assert_true(effects.send);
    effects = step(WEIR_SHARE_RESERVE, 1, SECOND + 33 * MS); /* one ask speaks for all */
    assert_int_equal(effects.say, WEIR_SHARE_WAIT);
    assert_false(effects.send);
}

static void batched__is_held_units_no_longer_than_it_needs_to_fetch_them(void **state)
{
    (void)state;
    struct weir_share_effects effects;
    begin_with(&hourly, 1);
    effects = step(WEIR_SHARE_RESERVE, 30, SECOND + 2 * MS);
    assert_int_equal(effects.ask.ttl_ns, WEIR_BATCHED_HOLD_NS);
    hear(30, 31, SECOND + 3 * MS);
    assert_true(take(20, SECOND + 3 * MS, &effects));
    step(WEIR_SHARE_RESERVE, 10, SECOND + 4 * MS); /* set aside, not yet spent */
    effects = step(WEIR_SHARE_TICK, 0, SECOND + 110 * MS);
    assert_true(effects.send);
    assert_int_equal(effects.ask.hold, 10);
    assert_int_equal(effects.ask.ttl_ns, WEIR_BATCHED_HOLD_NS);
    hear(0, 31, SECOND + 111 * MS);
    step(WEIR_SHARE_COMMIT, 10, SECOND + 112 * MS);
    effects = step(WEIR_SHARE_TICK, 0, SECOND + 220 * MS);
    assert_int_equal(effects.ask.hold, 0);
    assert_int_equal(effects.ask.ttl_ns, 60 * SECOND);
}

/* What was granted and is not spent when it settles goes back. */
static void batched__what_is_left_goes_back_with_the_next_ask(void **state)
{
    (void)state;
    struct weir_share_effects effects;
    begin_with(&hourly, 1);
    step(WEIR_SHARE_RESERVE, 30, SECOND + 2 * MS);
    hear(30, 31, SECOND + 3 * MS);
    assert_true(take(20, SECOND + 3 * MS, &effects) && key.pocket == 10);
    effects = step(WEIR_SHARE_TICK, 0, SECOND + 110 * MS);
    assert_true(effects.send && effects.ask.hold == 0 && key.pocket == 0);
}

static void batched__a_bucket_refills_here_too(void **state)
{
    (void)state;
    struct weir_share_effects effects;
    begin_with(&bucket, 100);
    effects = step(WEIR_SHARE_RESERVE, 1, SECOND + 100 * MS);
    assert_int_equal(effects.say, WEIR_SHARE_NO);
    assert_int_equal(effects.verdict.retry_after_ns, MS);
    assert_true(take(1, SECOND + 101 * MS, &effects));
}

static void batched__after_a_loss_units_stay_unsettled_and_are_told_again(void **state)
{
    (void)state;
    struct weir_share_effects effects;
    begin_with(&hourly, 1);
    for (int i = 0; i < 8; i++)
        take(1, SECOND + 2 * MS, &effects);
    effects = step(WEIR_SHARE_UNANSWERED, 0, SECOND + 3 * MS);
    assert_int_equal(key.unsettled, 8);
    assert_false(effects.send);
    effects = step(WEIR_SHARE_TICK, 0, effects.wake_ns);
    assert_true(effects.send);
    assert_int_equal(effects.ask.spent, 9);
    assert_int_equal(effects.ask.known, 0);
}

static void batched__after_its_deadline_tells_again_what_was_not_confirmed(void **state)
{
    (void)state;
    begin_with(&hourly, 1);
    step(WEIR_SHARE_RESERVE, 30, SECOND + 2 * MS);
    step(WEIR_SHARE_RESERVE, 2, SECOND + 2 * MS);
    hear(30, 31, SECOND + 3 * MS);
    step(WEIR_SHARE_COMMIT, 2, SECOND + 3 * MS);
    step(WEIR_SHARE_RESERVE, 30, SECOND + 3 * MS);
    uint64_t old = key.stint;
    for (uint64_t now_ns = 2 * SECOND; now_ns < 60 * SECOND; now_ns += SECOND)
        step(WEIR_SHARE_UNANSWERED, 0, now_ns);
    step(WEIR_SHARE_RESERVE, 20, 60 * SECOND); /* the 30 set aside are forfeited: the engine charges them */
    assert_int_equal(key.stint, old + 1);
    assert_int_equal(key.spent, 2);
    assert_int_equal(key.known, 0);
    step(WEIR_SHARE_COMMIT, 30, 60 * SECOND);
    assert_int_equal(key.spent, 2);
}

static void batched__knows_nothing_of_a_window_that_may_have_begun(void **state)
{
    (void)state;
    struct weir_share_effects effects;
    begin_with(&hourly, 1);
    key.valid_ns = 2 * SECOND;
    assert_true(take(1, 2 * SECOND - 1, &effects));
    assert_int_equal(step(WEIR_SHARE_RESERVE, 1, 2 * SECOND).say, WEIR_SHARE_WAIT);
}

/* However long the interval is: it has ten seconds, and then what it owes is forgotten. */
static void batched__a_node_that_leaves_asks_again_each_second(void **state)
{
    (void)state;
    struct weir_share_effects effects;
    uint64_t now_ns = SECOND + 3 * MS;
    begin_with(&hourly, 1);
    options.interval_ns = 60 * SECOND;
    assert_true(take(1, SECOND + 2 * MS, &effects));
    effects = step(WEIR_SHARE_LEAVE, 0, now_ns);
    for (int i = 0; i < 3; i++) {
        assert_true(effects.send);
        effects = step(WEIR_SHARE_UNANSWERED, 0, now_ns + MS);
        assert_false(effects.send);
        assert_int_equal(effects.wake_ns, now_ns + SECOND + MS);
        now_ns = effects.wake_ns;
        effects = step(WEIR_SHARE_TICK, 0, now_ns);
    }
    hear(0, 3, now_ns + MS);
    assert_true(take(1, now_ns + 2 * MS, &effects)); /* it is wanted again */
    assert_true(take(4, now_ns + 2 * MS, &effects));
    assert_true(effects.send);
    effects = step(WEIR_SHARE_UNANSWERED, 0, now_ns + 3 * MS);
    assert_int_equal(effects.wake_ns, now_ns + 3 * MS + 60 * SECOND);
    effects = step(WEIR_SHARE_LEAVE, 0, now_ns + 4 * MS); /* also where an ask was lost before */
    assert_false(effects.send);
    assert_int_equal(effects.wake_ns, now_ns + 4 * MS + SECOND);
}

static void batched__a_node_that_leaves_settles_and_returns_everything(void **state)
{
    (void)state;
    struct weir_share_effects effects;
    begin_with(&hourly, 1);
    take(3, SECOND + 2 * MS, &effects);
    effects = step(WEIR_SHARE_LEAVE, 0, SECOND + 3 * MS);
    assert_true(effects.send);
    assert_int_equal(effects.ask.spent, 4);
    assert_int_equal(effects.ask.hold, 0);
    assert_true(hear(0, 4, SECOND + 4 * MS).idle);
}

/* ---- nodes and the ledger, on a network that works ---- */

static void batched__admits_the_whole_limit(void **state)
{
    (void)state;
    world_init(&world, 1, &hourly, false);
    uint64_t admitted = 0;
    for (int i = 0; i < 2000; i++) {
        for (size_t node = 0; node < 3; node++)
            world_take(&world, node, 1);
        world_run(&world, MS);
    }
    for (size_t i = 0; i < world.spends_count; i++)
        admitted += world.spends[i].units;
    assert_in_range(admitted, 100, 100 + 3 * world.slack);
}

/* ---- promises under attack ---- */

/* By how many units one world at random overshoots; fails if those are too many. ret_bound: how many may be. */
static uint64_t attack(uint64_t seed, const struct weir_limit_spec *spec, uint64_t *ret_bound)
{
    world_init(&world, seed, spec, false);
    world.nodes_count = 2 + test_random_below(&world.random, WORLD_NODES - 1);
    world.slack = test_random_below(&world.random, 6);
    world.loss = (unsigned)test_random_below(&world.random, 20);
    world.repeat = (unsigned)test_random_below(&world.random, 20);
    world.late = (unsigned)test_random_below(&world.random, 10);
    world_attack(&world, 1500);
    uint64_t peak = world_peak(&world), bound = world.nodes_count * world.slack;
    if (peak > world.limit.capacity + bound)
        fail_msg("seed %llu: %s: %llu admitted, at most %llu are promised", (unsigned long long)seed,
                 weir_algorithm_name(world.spec.algorithm), (unsigned long long)peak,
                 (unsigned long long)(world.limit.capacity + bound));
    *ret_bound = bound;
    return weir_sub_sat(peak, world.limit.capacity);
}

static void batched__overshoots_by_at_most_the_slack_of_each_node_and_crash(void **state)
{
    (void)state;
    uint64_t seed = test_random_seed(), over = 0, closest = 0;
    for (uint64_t run = 0; run < 300; run++) {
        uint64_t bound, units = attack(seed + run, &world_specs[run % WORLD_SPECS], &bound);
        over += units > 0;
        closest += units > bound / 2;
    }
    printf("%llu of 300 runs overshot, %llu by more than half of the bound\n", (unsigned long long)over,
           (unsigned long long)closest);
    assert_true(over > 30); /* the attack is one */
}

/* A window from the first hit was given back, and what a node spent in it since was charged to none. */
static void batched__a_window_that_was_given_back_is_charged(void **state)
{
    (void)state;
    uint64_t bound;
    attack(900073561, &world_specs[6], &bound);
    attack(900266205, &world_specs[6], &bound);
}

/* The window has ended by what was said of it, and nobody has said so yet. */
static void batched__the_shortest_wait_is_a_nanosecond(void **state)
{
    (void)state;
    begin_with(&hourly, 100);
    options.interval_ns = 10 * SECOND;
    struct weir_share_effects effects = step(WEIR_SHARE_RESERVE, 1, 2 * SECOND + 5 * MS);
    assert_int_equal(effects.say, WEIR_SHARE_NO);
    assert_int_equal(effects.verdict.retry_after_ns, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(batched__decides_here_up_to_the_slack_those_under_way_included),
        cmocka_unit_test(batched__what_was_granted_is_settled_before_its_hold_ends),
        cmocka_unit_test(batched__what_was_granted_is_charged_once_when_its_hold_ends),
        cmocka_unit_test(batched__tells_when_the_window_empties),
        cmocka_unit_test(batched__tells_nothing_to_wait_for_when_it_is_full),
        cmocka_unit_test(batched__what_was_granted_and_is_cancelled_is_granted_still),
        cmocka_unit_test(batched__settles_every_interval),
        cmocka_unit_test(batched__what_does_not_fit_the_slack_is_the_engines),
        cmocka_unit_test(batched__a_slack_of_nothing_leaves_every_decision_to_the_engine),
        cmocka_unit_test(batched__what_was_heard_of_another_limit_admits_and_refuses_nobody),
        cmocka_unit_test(batched__who_is_admitted_is_told_of_no_wait),
        cmocka_unit_test(batched__refuses_only_by_what_it_heard_within_the_interval),
        cmocka_unit_test(batched__a_word_that_nothing_is_left_holds_until_the_engine_said_there_may_be_more),
        cmocka_unit_test(batched__is_held_units_no_longer_than_it_needs_to_fetch_them),
        cmocka_unit_test(batched__a_bucket_refills_here_too),
        cmocka_unit_test(batched__what_is_left_goes_back_with_the_next_ask),
        cmocka_unit_test(batched__after_a_loss_units_stay_unsettled_and_are_told_again),
        cmocka_unit_test(batched__after_its_deadline_tells_again_what_was_not_confirmed),
        cmocka_unit_test(batched__knows_nothing_of_a_window_that_may_have_begun),
        cmocka_unit_test(batched__a_node_that_leaves_asks_again_each_second),
        cmocka_unit_test(batched__a_node_that_leaves_settles_and_returns_everything),
        cmocka_unit_test(batched__admits_the_whole_limit),
        cmocka_unit_test(batched__overshoots_by_at_most_the_slack_of_each_node_and_crash),
        cmocka_unit_test(batched__a_window_that_was_given_back_is_charged),
        cmocka_unit_test(batched__the_shortest_wait_is_a_nanosecond),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
