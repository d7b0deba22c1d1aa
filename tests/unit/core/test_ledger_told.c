/* SPDX-License-Identifier: Apache-2.0
 *
 * The engine's side of a shared key: what a verdict tells while others hold units, and what an ask of nothing does. */
#include "core/limit/ticks.h"
#include "share_attack.h"

static struct world world;

static const struct weir_limit_spec bucket = {
    .algorithm = WEIR_TOKEN_BUCKET, .count = 10, .period_ns = SECOND, .burst = 20
};
static const struct weir_limit_spec first = {
    .algorithm = WEIR_FIXED_WINDOW, .count = 30, .period_ns = 5 * SECOND, .align = WEIR_ALIGN_FIRST
};
static const struct weir_limit_spec aligned = { .algorithm = WEIR_FIXED_WINDOW, .count = 30, .period_ns = 5 * SECOND };

static struct weir_share_answer ask(uint64_t seq, uint64_t spent, uint64_t hold, uint64_t want)
{
    struct weir_share_ask ask = { .stint = 7, .seq = seq, .spent = spent, .hold = hold, .want = want };
    ask.ttl_ns = SECOND;
    return world_ask(&world, &ask);
}

/* The first ask of another stint. */
static struct weir_share_answer ask_as(uint64_t stint, uint64_t want)
{
    struct weir_share_ask ask = { .stint = stint, .seq = 1, .want = want, .ttl_ns = SECOND };
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

/* What refilled between an ask and its copy is not granted by the copy: who asked knows of the first answer. */
static void ledger__an_ask_that_comes_again_later_is_answered_as_before(void **state)
{
    (void)state;
    world_init(&world, 1, &bucket, true);
    assert_int_equal(ask(1, 15, 0, 12).granted, 5);
    world.now_ns += SECOND / 2;
    assert_int_equal(ask(1, 15, 0, 12).granted, 5);
    assert_int_equal(peek(0).remaining, 5);
    assert_int_equal(ask(2, 15, 5, 12).granted, 5);
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

/* A log of which all lies at now admits nothing for a period, however much it is: a debt adds no entries. */
static void ledger__of_a_log_that_a_clock_left_a_debt_is_no_more(void **state)
{
    (void)state;
    static const struct weir_limit_spec log = { .algorithm = WEIR_SLIDING_LOG, .count = 20, .period_ns = SECOND };
    uint64_t times[64];
    const struct weir_event event = { .now_ns = 1000 * SECOND };
    world_init(&world, 1, &log, false);
    struct weir_ledger ledger = { .state = weir_state_fresh(&world.limit, event.now_ns + 360000 * SECOND), .debt = 5 };
    ledger.state.log = (struct weir_log){ .times = times, .room = 64 };
    assert_true(weir_ledger_settle(&world.limit, &ledger, &event));
    assert_int_equal(ledger.state.log.used, 20);
}

/* By a number, never 0, that is the same for all nodes and all versions of weir. */
static void ledger__names_the_window_that_is_open(void **state)
{
    (void)state;
    world_init(&world, 1, &aligned, true);
    assert_int_equal(ask(1, 0, 0, 1).window, world_event(&world, 0).window.id + 1);
    world_init(&world, 1, &first, false);
    assert_int_equal(ask(1, 0, 0, 0).window, 0);
    assert_int_equal(ask(2, 0, 0, 1).window, weir_ticks_at(world.now_ns + 5 * SECOND, world.limit.shift) + 1);
    world_init(&world, 1, &bucket, false);
    assert_int_equal(ask(1, 0, 0, 1).window, 0);
}

/* What lies behind the stints that there are is none of them, whatever it says. */
static void ledger__has_no_more_stints_than_it_counts(void **state)
{
    (void)state;
    static const struct weir_ledger_stint other = {
        .stint = 9, .seq = 5, .spent = 3, .held = 4, .granted = 4, .until_ns = UINT64_MAX
    };
    world_init(&world, 1, &bucket, false);
    ask(1, 0, 0, 2);
    struct weir_ledger_stint *behind = &world.ledger.stints[world.ledger.stints_count];
    for (uint64_t until_s = 0; until_s < 2; until_s++) {
        *behind = other;
        behind->until_ns = until_s ? UINT64_MAX : 1;
        const struct weir_ledger_stint before = *behind;
        const struct weir_share_ask of_it = { .stint = 9, .seq = 6, .spent = 5 };
        assert_int_equal(weir_ledger_held(&world.ledger), 2);
        assert_int_equal(weir_ledger_owed(&world.ledger, &of_it), 5);
        assert_int_equal(peek(0).remaining, 18);
        assert_int_equal(peek(20).retry_after_ns, SECOND);
        assert_true(peek(20).reset_after_ns <= SECOND);
        ask(2 + until_s, 0, 2, 0);
        assert_memory_equal(behind, &before, sizeof before);
    }
    behind->until_ns = 1;
    world.now_ns += 3 * SECOND; /* what is held is charged when its hold ends, whatever lies behind it */
    assert_int_equal(peek(0).remaining, 20);
    assert_int_equal(weir_ledger_held(&world.ledger), 0);
}

/* A limit that had windows before it was reloaded, or others: what was spent in them is none of its own. */
static void ledger__what_was_spent_in_no_window_of_its_own_is_not_charged(void **state)
{
    (void)state;
    const struct weir_limit_spec *const specs[] = { &bucket, &aligned };
    for (size_t i = 0; i < 2; i++) {
        world_init(&world, 1, specs[i], i == 0);
        struct weir_share_ask tells = { .stint = 7, .seq = 1, .spent = 3, .ttl_ns = SECOND };
        tells.window = weir_ticks_at(world.now_ns + SECOND, world.limit.shift) + 1;
        world_ask(&world, &tells);
        assert_int_equal(peek(0).remaining, world.limit.capacity);
    }
}

/* One unit is held as any number of them is. */
static void ledger__the_hold_of_a_unit_ends(void **state)
{
    (void)state;
    world_init(&world, 1, &bucket, true);
    ask(1, 0, 0, 1);
    assert_int_equal(peek(20).retry_after_ns, SECOND);
    assert_int_equal(peek(20).reset_after_ns, SECOND);
}

/* The wait is for what refills, if that is enough; for a hold to end, if not. */
static void ledger__waits_for_the_refill_or_for_a_hold_to_end(void **state)
{
    (void)state;
    world_init(&world, 1, &bucket, true);
    ask(1, 0, 0, 15);
    ask(2, 3, 12, 0); /* 3 spent, 12 held of 20 */
    assert_int_equal(peek(8).retry_after_ns, 3 * SECOND / 10);
    assert_int_equal(peek(6).retry_after_ns, SECOND / 10);
    assert_int_equal(peek(6).next_after_ns, SECOND / 10);
    assert_int_equal(peek(9).retry_after_ns, SECOND); /* as long as it is held */
    assert_int_equal(peek(21).retry_after_ns, WEIR_NEVER);
}

/* What is held counts from the first unit on, and who takes all that is left beside it is admitted. */
static void ledger__of_what_is_held_a_unit_counts(void **state)
{
    (void)state;
    world_init(&world, 1, &bucket, true);
    ask(1, 0, 0, 1);
    assert_int_equal(peek(0).remaining, 19);
    struct weir_event event = world_event(&world, 19);
    struct weir_verdict verdict;
    assert_true(weir_ledger_decide(&world.limit, &world.ledger, &event, false, &verdict));
    assert_true(verdict.admitted);
    assert_int_equal(verdict.remaining, 0);
    assert_int_equal(verdict.retry_after_ns, 0);
}

/* In a queue its turn is told beside what is held, too. */
static void ledger__tells_a_delay_beside_what_is_held(void **state)
{
    (void)state;
    static const struct weir_limit_spec queue = {
        .algorithm = WEIR_LEAKY_BUCKET, .count = 10, .period_ns = SECOND, .burst = 20
    };
    world_init(&world, 1, &queue, true);
    ask(1, 0, 0, 5);
    struct weir_event event = world_event(&world, 4);
    struct weir_verdict verdict;
    assert_true(weir_ledger_decide(&world.limit, &world.ledger, &event, false, &verdict));
    event.cost = 1;
    assert_true(weir_ledger_decide(&world.limit, &world.ledger, &event, false, &verdict));
    assert_int_equal(verdict.delay_ns, 4 * SECOND / 10);
}

/* To a node that is granted nothing: when as much as it needs at least may be there. */
static void ledger__tells_a_node_when_the_least_is_there(void **state)
{
    (void)state;
    for (uint64_t least = 0; least <= 10; least += 5) {
        world_init(&world, 1, &bucket, true);
        ask(1, 20, 0, 0);
        struct weir_share_ask wants = { .stint = 8, .seq = 1, .want = 15, .least = least, .ttl_ns = SECOND };
        struct weir_share_answer answer = world_ask(&world, &wants);
        assert_int_equal(answer.granted, 0);
        assert_int_equal(answer.retry_after_ns, (least ? least : 1) * SECOND / 10);
    }
}

/* A debt is what is over the limit since it was within it last. */
static void ledger__a_debt_begins_anew_once_it_was_paid(void **state)
{
    (void)state;
    world_init(&world, 1, &bucket, true);
    struct weir_share_ask tells = { .stint = 7, .seq = 1, .spent = 30, .ttl_ns = 60 * SECOND };
    world_ask(&world, &tells);
    assert_int_equal(world.ledger.debt, 10);
    for (uint64_t more = 1; more <= 2; more++) { /* each time what was over has come back */
        world.now_ns += more * SECOND;
        tells.seq++;
        tells.spent += 1;
        world_ask(&world, &tells);
        assert_int_equal(world.ledger.debt, more == 1 ? 1 : 0);
    }
}

/* Of a window on the calendar a node may know, though nothing of it is used, until it ends. */
static void ledger__a_window_on_the_calendar_is_told_though_nothing_is_used(void **state)
{
    (void)state;
    static const struct weir_limit_spec calendar = { .algorithm = WEIR_FIXED_WINDOW,
                                                     .count = 30,
                                                     .period_ns = 5 * SECOND };
    world_init(&world, 1, &calendar, true);
    const uint64_t left_ns = world_event(&world, 0).window.end_after_ns;
    struct weir_share_answer answer = ask(1, 0, 0, 0);
    assert_int_equal(answer.hold_ns, left_ns < SECOND ? left_ns : SECOND);
    answer = ask(2, 0, 0, 5);
    ask(3, 0, 0, 0); /* all of it comes back */
    assert_int_equal(peek(0).remaining, 30);
    struct weir_share_ask tells = { .stint = 7, .seq = 4, .spent = 3, .window = answer.window, .ttl_ns = SECOND };
    world_ask(&world, &tells); /* and was spent in it all the same, ahead of the engine */
    assert_int_equal(peek(0).remaining, 27);
}

/* What is held is charged as of its deadline, before what came since: that is no clock that came back. */
static void ledger__makes_room_as_of_a_deadline_long_past(void **state)
{
    (void)state;
    const struct weir_limit_spec rolling = { .algorithm = WEIR_SLIDING_LOG, .count = 20, .period_ns = SECOND };
    world_init(&world, 1, &rolling, false);
    assert_int_equal(ask(1, 20, 0, 0).granted, 0);
    assert_int_equal(ask(2, 20, 0, 0).stale, false);
    struct weir_ledger_stint *stint = &world.ledger.stints[0];
    stint->held = 1;
    stint->until_ns = world.now_ns - 100 * SECOND;
    const struct weir_event event = world_event(&world, 1);
    assert_int_equal(weir_ledger_room(&world.limit, &world.ledger, &event, 1), 32);
}

/* What was spent in a window that a clock ahead of this one began is charged to none of now; in the next, it is. */
static void ledger__a_window_far_ahead_is_over(void **state)
{
    (void)state;
    for (int far = 0; far < 2; far++) {
        world_init(&world, 1, &first, false);
        const uint64_t end_ns = world.now_ns + (far ? 1000 : 4) * SECOND;
        struct weir_share_ask told = { .stint = 7, .seq = 1, .spent = 5, .ttl_ns = SECOND };
        told.window = weir_ticks_at(end_ns, world.limit.shift) + 1;
        world_ask(&world, &told);
        assert_int_equal(peek(0).remaining, far ? 30 : 25);
    }
}

/* However long the node would have it: it would believe the answer, and spend what the engine has charged as lost. */
static void ledger__holds_for_no_longer_than_a_minute(void **state)
{
    (void)state;
    world_init(&world, 1, &bucket, true);
    struct weir_share_ask longest = { .stint = 7, .seq = 1, .want = 5, .ttl_ns = UINT64_MAX };
    assert_int_equal(world_ask(&world, &longest).hold_ns, WEIR_SHARE_TTL_MAX_NS);
}

/* Not for the last one: who asks then is admitted, if the first one was all that was missing. */
static void ledger__the_first_hold_that_ends_is_waited_for(void **state)
{
    (void)state;
    world_init(&world, 1, &bucket, true);
    assert_int_equal(ask(1, 0, 0, 10).granted, 10);
    struct weir_share_ask longer = { .stint = 8, .seq = 1, .want = 8, .ttl_ns = 30 * SECOND };
    assert_int_equal(world_ask(&world, &longer).granted, 8);
    assert_int_equal(peek(5).retry_after_ns, SECOND);
}

/* Where there is no place for one more, the one goes that would be forgotten first. What the others told is known
 * still: told once more, it is not charged again. */
static void ledger__who_makes_place_is_who_would_be_forgotten_first(void **state)
{
    (void)state;
    world_init(&world, 1, &bucket, true);
    world.ledger.stints_max = 2;
    ask(1, 0, 0, 0);
    world.now_ns += MS;
    struct weir_share_ask later = { .stint = 8, .seq = 1, .spent = 5, .ttl_ns = SECOND };
    world_ask(&world, &later);
    ask_as(9, 0);
    world_ask(&world, &later);
    assert_int_equal(peek(0).remaining, 15);
}

/* A node that says that more is known here than it spent is charged for all that it spends from then on. */
static void ledger__nothing_is_known_of_what_was_not_spent(void **state)
{
    (void)state;
    world_init(&world, 1, &bucket, true);
    struct weir_share_ask told = { .stint = 9, .seq = 1, .spent = 2, .known = 10, .ttl_ns = SECOND };
    assert_int_equal(world_ask(&world, &told).used, 0);
    told = (struct weir_share_ask){ .stint = 9, .seq = 2, .spent = 8, .known = 2, .ttl_ns = SECOND };
    assert_int_equal(world_ask(&world, &told).used, 6);
}

/* Wall time stepped forward, the engine's clock did not: the node goes on with what it holds. */
static void ledger__a_window_that_the_calendar_ends_early_leaves_its_holds_to_the_next(void **state)
{
    (void)state;
    struct weir_verdict verdict;
    world_init(&world, 1, &aligned, true);
    assert_int_equal(ask(1, 0, 0, 10).granted, 10);
    struct weir_event event = world_event(&world, 0);
    event.window.id++;
    weir_ledger_expire(&world.limit, &world.ledger, &event);
    weir_ledger_expire(&world.limit, &world.ledger, &event);
    assert_int_equal(weir_ledger_held(&world.ledger), 10);
    (void)weir_limit_judge(&world.limit, &world.ledger.state, &event, &verdict);
    assert_int_equal(verdict.remaining, 20);
}

/* What was granted in a window is spent in it once, though the clock comes by that window twice. */
static void ledger__a_clock_that_came_back_out_of_a_window_mints_no_holds_in_it(void **state)
{
    (void)state;
    world_init(&world, 1, &aligned, true);
    world.now_ns += SECOND;
    struct weir_share_ask held = { .stint = 7, .seq = 1, .want = 10, .ttl_ns = 60 * SECOND };
    struct weir_share_answer answer = world_ask(&world, &held);
    assert_int_equal(answer.granted, 10);
    world.now_ns -= 2 * SECOND;
    assert_int_equal(peek(0).remaining, 0);
    world.now_ns += SECOND + SECOND / 2;
    assert_int_equal(ask_as(8, 30).granted, 20);
    struct weir_share_ask told = { .stint = 7, .seq = 2, .spent = 10, .ttl_ns = SECOND, .window = answer.window };
    assert_int_equal(world_ask(&world, &told).used, 30);
    assert_int_equal(ask_as(9, 1).granted, 0);
    world.now_ns += 5 * SECOND;
    assert_int_equal(peek(0).remaining, 30);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ledger__who_is_admitted_beside_what_is_held_does_not_wait),
        cmocka_unit_test(ledger__an_ask_that_comes_again_later_is_answered_as_before),
        cmocka_unit_test(ledger__an_ask_of_nothing_opens_no_window),
        cmocka_unit_test(ledger__says_whether_a_clock_had_come_back),
        cmocka_unit_test(ledger__of_a_log_that_a_clock_left_a_debt_is_no_more),
        cmocka_unit_test(ledger__names_the_window_that_is_open),
        cmocka_unit_test(ledger__has_no_more_stints_than_it_counts),
        cmocka_unit_test(ledger__what_was_spent_in_no_window_of_its_own_is_not_charged),
        cmocka_unit_test(ledger__the_hold_of_a_unit_ends),
        cmocka_unit_test(ledger__waits_for_the_refill_or_for_a_hold_to_end),
        cmocka_unit_test(ledger__of_what_is_held_a_unit_counts),
        cmocka_unit_test(ledger__tells_a_delay_beside_what_is_held),
        cmocka_unit_test(ledger__tells_a_node_when_the_least_is_there),
        cmocka_unit_test(ledger__a_debt_begins_anew_once_it_was_paid),
        cmocka_unit_test(ledger__a_window_on_the_calendar_is_told_though_nothing_is_used),
        cmocka_unit_test(ledger__makes_room_as_of_a_deadline_long_past),
        cmocka_unit_test(ledger__a_window_far_ahead_is_over),
        cmocka_unit_test(ledger__a_window_that_the_calendar_ends_early_leaves_its_holds_to_the_next),
        cmocka_unit_test(ledger__a_clock_that_came_back_out_of_a_window_mints_no_holds_in_it),
        cmocka_unit_test(ledger__holds_for_no_longer_than_a_minute),
        cmocka_unit_test(ledger__the_first_hold_that_ends_is_waited_for),
        cmocka_unit_test(ledger__who_makes_place_is_who_would_be_forgotten_first),
        cmocka_unit_test(ledger__nothing_is_known_of_what_was_not_spent),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
