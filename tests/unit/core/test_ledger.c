/* SPDX-License-Identifier: Apache-2.0
 *
 * The engine's side of a shared key. */
#include "share_attack.h"

static struct world world;

static const struct weir_limit_spec bucket = {
    .algorithm = WEIR_TOKEN_BUCKET, .count = 10, .period_ns = SECOND, .burst = 20
};
static const struct weir_limit_spec windows = { .algorithm = WEIR_FIXED_WINDOW, .count = 30, .period_ns = 5 * SECOND };
static const struct weir_limit_spec rolling = { .algorithm = WEIR_SLIDING_LOG, .count = 20, .period_ns = SECOND };

static void begin(const struct weir_limit_spec *spec)
{
    world_init(&world, 1, spec, true);
}

/* Under stint 7 unless said otherwise, held for a second. */
static struct weir_share_answer ask_as(uint64_t stint, uint64_t seq, uint64_t spent, uint64_t hold, uint64_t want)
{
    struct weir_share_ask ask = {
        .stint = stint, .seq = seq, .spent = spent, .hold = hold, .want = want, .ttl_ns = SECOND
    };
    return world_ask(&world, &ask);
}

static struct weir_share_answer ask(uint64_t seq, uint64_t spent, uint64_t hold, uint64_t want)
{
    return ask_as(7, seq, spent, hold, want);
}

static uint64_t remaining(void)
{
    struct weir_verdict verdict;
    world_decide(&world, 0, &verdict);
    return verdict.remaining;
}

/* ---- decisions ---- */

static void assert_same(const struct weir_verdict *a, const struct weir_verdict *b)
{
    assert_int_equal(a->admitted, b->admitted);
    assert_int_equal(a->capacity, b->capacity);
    assert_int_equal(a->remaining, b->remaining);
    assert_int_equal(a->retry_after_ns, b->retry_after_ns);
    assert_int_equal(a->reset_after_ns, b->reset_after_ns);
    assert_int_equal(a->next_after_ns, b->next_after_ns);
    assert_int_equal(a->delay_ns, b->delay_ns);
}

static void ledger__without_holds_decides_exactly_as_the_limit_does(void **state)
{
    (void)state;
    uint64_t seed = test_random_seed();
    for (uint64_t run = 0; run < 100; run++) {
        begin(&world_specs[run % WORLD_SPECS]);
        world.random.state = seed + run;
        uint64_t times[128];
        struct weir_state alone = weir_state_fresh(&world.limit, world.now_ns);
        alone.log = (struct weir_log){ .times = times, .room = 128 };
        for (int i = 0; i < 500; i++) {
            uint64_t dice = test_random_below(&world.random, 100);
            world.now_ns += test_random_below(&world.random, world.spec.period_ns / 8);
            world.now_ns -= dice == 0 ? 100 * SECOND : dice < 5 ? 3 * MS : 0;
            world.now_ns += dice == 1 ? 100 * SECOND : 0;
            struct weir_event event = world_event(&world, test_random_below(&world.random, 6));
            struct weir_verdict expected, verdict;
            weir_limit_settle(&world.limit, &alone, &event);
            if (weir_limit_judge(&world.limit, &alone, &event, &expected))
                weir_limit_charge(&world.limit, &alone, &event, &expected);
            world_decide(&world, event.cost, &verdict);
            assert_same(&verdict, &expected);
        }
    }
}

static void ledger__what_is_held_counts_as_used(void **state)
{
    (void)state;
    const struct weir_limit_spec *specs[] = { &bucket, &windows, &rolling };
    for (size_t i = 0; i < 3; i++) {
        begin(specs[i]);
        uint64_t capacity = world.limit.capacity;
        assert_int_equal(ask(1, 0, 0, 15).granted, 15);
        assert_int_equal(weir_ledger_held(&world.ledger), 15);
        assert_int_equal(remaining(), capacity - 15);
        struct weir_verdict verdict;
        assert_false(world_decide(&world, capacity - 14, &verdict));
        assert_true(verdict.retry_after_ns > 0 && verdict.retry_after_ns != WEIR_NEVER);
        assert_true(verdict.next_after_ns > 0 && verdict.reset_after_ns > 0);
        assert_true(world_decide(&world, capacity - 15, &verdict));
        assert_int_equal(verdict.remaining, 0);
    }
}

static void ledger__never_stays_never_whatever_is_held(void **state)
{
    (void)state;
    begin(&bucket);
    ask(1, 0, 0, 15);
    struct weir_verdict verdict;
    assert_false(world_decide(&world, 21, &verdict));
    assert_true(verdict.retry_after_ns == WEIR_NEVER);
}

/* ---- asks ---- */

static void ledger__grants_what_fits_or_nothing_below_least(void **state)
{
    (void)state;
    begin(&bucket);
    assert_int_equal(ask_as(1, 1, 0, 0, 15).granted, 15);
    struct weir_share_ask wants = { .stint = 2, .seq = 1, .want = 10, .least = 6, .ttl_ns = SECOND };
    struct weir_share_answer answer = world_ask(&world, &wants);
    assert_int_equal(answer.granted, 0);
    assert_true(answer.retry_after_ns > 0);
    wants.seq = 2;
    wants.least = 5;
    assert_int_equal(world_ask(&world, &wants).granted, 5);
    assert_int_equal(remaining(), 0);
}

static void ledger__a_repeated_ask_is_answered_again_and_charged_once(void **state)
{
    (void)state;
    begin(&bucket);
    ask(1, 0, 0, 10);
    struct weir_share_answer first = ask(2, 4, 6, 3), again = ask(2, 4, 6, 3);
    assert_int_equal(first.granted, 3);
    assert_memory_equal(&first, &again, sizeof first);
    assert_int_equal(remaining(), 20 - 4 - 9);
}

static void ledger__a_late_ask_is_stale_and_does_nothing(void **state)
{
    (void)state;
    begin(&bucket);
    ask(1, 0, 0, 10);
    ask(3, 4, 6, 0);
    uint64_t before = remaining();
    assert_true(ask(2, 2, 8, 5).stale);
    assert_int_equal(remaining(), before);
}

static void ledger__only_the_holders_own_word_returns_units(void **state)
{
    (void)state;
    begin(&bucket);
    ask(1, 0, 0, 10);
    ask_as(8, 1, 0, 10, 0); /* claims to hold what it was never given */
    assert_int_equal(weir_ledger_held(&world.ledger), 10);
    ask(2, 0, 4, 0);
    assert_int_equal(remaining(), 20 - 4);
    ask(3, 0, 9, 0); /* and what came back is gone */
    assert_int_equal(weir_ledger_held(&world.ledger), 4);
}

static void ledger__spent_is_always_charged_below_zero_if_need_be(void **state)
{
    (void)state;
    begin(&bucket);
    assert_int_equal(ask(1, 65, 0, 1).used, 65);
    world.now_ns += 4400 * MS; /* 44 units refill; a debt is no clock that jumped */
    assert_int_equal(remaining(), 0);
    world.now_ns += 200 * MS;
    assert_int_equal(remaining(), 1);
}

static void ledger__an_expired_hold_is_forfeited_as_of_its_deadline(void **state)
{
    (void)state;
    begin(&bucket);
    assert_int_equal(ask(1, 0, 0, 20).granted, 20);
    world.now_ns += SECOND - 1;
    assert_int_equal(remaining(), 0); /* nothing refills while it is held */
    world.now_ns += 1 + SECOND / 2;
    assert_int_equal(remaining(), 5); /* spent at 1 s, as it were */
    assert_int_equal(weir_ledger_held(&world.ledger), 0);

    begin(&rolling);
    ask(1, 0, 0, 20);
    world.now_ns += 2 * SECOND - 1; /* it occupies capacity for one more period */
    assert_int_equal(remaining(), 0);
    world.now_ns += 1;
    assert_int_equal(remaining(), 20);
}

static void ledger__a_chunk_ends_with_its_window(void **state)
{
    (void)state;
    begin(&windows);
    world.now_ns += 4700 * MS;
    struct weir_share_answer answer = ask(1, 0, 0, 10);
    assert_int_equal(answer.hold_ns, 300 * MS);
    world.now_ns += 300 * MS;
    assert_int_equal(remaining(), 30);

    struct weir_limit_spec first = windows;
    first.align = WEIR_ALIGN_FIRST;
    begin(&first);
    ask(1, 0, 0, 10); /* the first hit */
    world.now_ns += 4500 * MS;
    assert_int_equal(ask(2, 10, 0, 1).hold_ns, 500 * MS);
}

static void ledger__an_old_window_is_never_charged_to_a_new_one(void **state)
{
    (void)state;
    begin(&windows);
    struct weir_share_ask told = { .stint = 7, .seq = 1, .want = 10, .ttl_ns = SECOND };
    struct weir_share_answer answer = world_ask(&world, &told);
    world.now_ns += 5 * SECOND;
    told = (struct weir_share_ask){ .stint = 7, .seq = 2, .spent = 10, .ttl_ns = SECOND, .window = answer.window };
    answer = world_ask(&world, &told);
    assert_int_equal(answer.used, 0);
    told.seq = 3;
    told.spent = 12;
    told.window = answer.window;
    assert_int_equal(world_ask(&world, &told).used, 2);
}

/* What was spent in a window that was given back, and of whose end the node has not heard. */
static void ledger__a_window_that_was_given_back_is_charged_to_the_next(void **state)
{
    (void)state;
    struct weir_limit_spec first = windows;
    first.align = WEIR_ALIGN_FIRST;
    begin(&first);
    struct weir_share_ask told = { .stint = 7, .seq = 1, .want = 1, .ttl_ns = SECOND };
    told.window = world_ask(&world, &told).window;
    told.want = 0;
    told.seq = 2;
    assert_int_equal(world_ask(&world, &told).window, 0); /* given back: none is open */
    world.now_ns += SECOND;
    assert_int_equal(ask_as(8, 1, 0, 0, 1).used, 1); /* another, until 6 s */
    told.seq = 3;
    told.spent = 4;
    assert_int_equal(world_ask(&world, &told).used, 5);
    world.now_ns += 4500 * MS; /* the first one's time is over, and lay in the other's */
    told.seq = 4;
    told.known = 4;
    told.spent = 6;
    assert_int_equal(world_ask(&world, &told).used, 7);
    world.now_ns += SECOND; /* the other is over too */
    ask_as(8, 2, 0, 0, 1);
    told.seq = 5;
    told.spent = 8;
    assert_int_equal(world_ask(&world, &told).used, 1);
}

static void ledger__a_window_that_was_given_back_begins_again_with_what_was_spent(void **state)
{
    (void)state;
    struct weir_limit_spec first = windows;
    first.align = WEIR_ALIGN_FIRST;
    begin(&first);
    struct weir_share_ask told = { .stint = 7, .seq = 1, .want = 1, .ttl_ns = SECOND };
    told.window = world_ask(&world, &told).window;
    told.want = 0;
    told.seq = 2;
    world_ask(&world, &told);
    world.now_ns += 5 * SECOND - 1;
    told.seq = 3;
    told.spent = 4;
    assert_int_equal(world_ask(&world, &told).used, 4);
    world.now_ns += 5 * SECOND; /* that one is over, and so is the first */
    told.seq = 4;
    told.spent = 6;
    assert_int_equal(world_ask(&world, &told).used, 0);
}

static void ledger__an_engine_that_lost_a_stint_charges_what_was_not_confirmed(void **state)
{
    (void)state;
    begin(&bucket);
    struct weir_share_ask told = { .stint = 9, .seq = 77, .spent = 1000005, .known = 1000000, .ttl_ns = SECOND };
    assert_int_equal(world_ask(&world, &told).used, 5);
}

/* A copy that comes after its stint was forgotten makes it anew, with less charged than was confirmed. */
static void ledger__makes_room_for_all_that_an_ask_owes(void **state)
{
    (void)state;
    static const struct weir_limit_spec log = { .algorithm = WEIR_SLIDING_LOG, .count = 50, .period_ns = SECOND };
    begin(&log);
    struct weir_share_ask late = { .stint = 9, .seq = 1, .spent = 1, .ttl_ns = SECOND };
    world_ask(&world, &late);
    struct weir_share_ask told = { .stint = 9, .seq = 2, .spent = 40, .known = 38, .ttl_ns = SECOND };
    assert_int_equal(weir_ledger_owed(&world.ledger, &told), 39);
    assert_int_equal(world_ask(&world, &told).used, 40);
    told.stint = 10;
    assert_int_equal(weir_ledger_owed(&world.ledger, &told), 2);
}

/* A forfeit is charged as of its deadline, when entries were in the log that have left it by now. */
static void ledger__makes_room_for_what_was_in_the_log_at_a_deadline(void **state)
{
    (void)state;
    begin(&rolling);
    ask_as(1, 1, 8, 0, 0); /* the ring is full until 1 s */
    world.now_ns += SECOND / 2;
    struct weir_share_ask brief = { .stint = 2, .seq = 1, .want = 8, .ttl_ns = SECOND / 4 };
    assert_int_equal(world_ask(&world, &brief).granted, 8); /* forfeited at 0.75 s, when the first eight are there */
    world.now_ns += SECOND;
    struct weir_event event = world_event(&world, 0);
    assert_int_equal(weir_ledger_room(&world.limit, &world.ledger, &event, 0), 16);
    assert_int_equal(remaining(), 20 - 8);
    assert_int_equal(weir_ledger_held(&world.ledger), 0);
}

static void ledger__without_a_place_a_stint_is_charged_and_granted_nothing(void **state)
{
    (void)state;
    begin(&bucket);
    world.ledger.stints_max = 3;
    for (uint64_t stint = 1; stint <= 3; stint++)
        assert_int_equal(ask_as(stint, 1, 0, 0, 2).granted, 2);
    struct weir_share_answer answer = ask_as(4, 1, 5, 0, 2);
    assert_int_equal(answer.granted, 0);
    assert_int_equal(answer.used, 11);
    ask_as(2, 2, 2, 0, 0); /* holds nothing any more: its place is free */
    assert_int_equal(ask_as(4, 2, 5, 0, 2).granted, 2);
    assert_int_equal(world.ledger.stints_count, 3);
}

static void ledger__stints_are_forgotten_in_time(void **state)
{
    (void)state;
    begin(&bucket);
    ask_as(1, 1, 3, 0, 0);
    ask_as(2, 1, 0, 0, 5);
    world.now_ns += SECOND;
    remaining();
    assert_int_equal(world.ledger.stints_count, 1); /* what was forfeited is remembered a little longer */
    world.now_ns += WEIR_LEDGER_MEMORY_NS;
    remaining();
    assert_int_equal(world.ledger.stints_count, 0);
}

static void ledger__a_clock_that_came_back_mints_nothing_and_ends(void **state)
{
    (void)state;
    begin(&bucket);
    world.now_ns += 1000000 * SECOND;
    ask(1, 20, 0, 0);
    ask_as(8, 1, 0, 0, 20);
    world.now_ns -= 1000000 * SECOND;
    assert_int_equal(remaining(), 0);
    world.now_ns += WEIR_SHARE_TTL_MAX_NS + 2 * SECOND;
    assert_int_equal(remaining(), 20);
}

static void ledger__a_clock_that_came_back_ends_what_is_held(void **state)
{
    (void)state;
    begin(&bucket);
    world.now_ns += 1000000 * SECOND;
    assert_int_equal(ask(1, 0, 0, 10).granted, 10);
    world.now_ns -= 1000000 * SECOND;
    remaining();
    assert_int_equal(weir_ledger_held(&world.ledger), 10);
    world.now_ns += WEIR_SHARE_TTL_MAX_NS;
    remaining();
    assert_int_equal(weir_ledger_held(&world.ledger), 0);
}

/* What was held in the window that the clock left may have been spent there: it does not come back to the one that is
 * open now, which counts as full. */
static void ledger__a_clock_that_came_back_out_of_a_window_gives_nothing_back_to_the_one_before(void **state)
{
    (void)state;
    begin(&windows);
    world.now_ns += 9900 * MS; /* the end of the second one */
    struct weir_share_ask told = { .stint = 7, .seq = 1, .want = 30, .ttl_ns = SECOND };
    struct weir_share_answer answer = world_ask(&world, &told);
    assert_int_equal(answer.granted, 30);
    world.now_ns -= 9500 * MS; /* the first one */
    told = (struct weir_share_ask){ .stint = 7, .seq = 2, .spent = 20, .ttl_ns = SECOND, .window = answer.window };
    assert_int_equal(world_ask(&world, &told).used, 30);
    assert_int_equal(ask_as(8, 1, 0, 0, 30).granted, 0);
    world.now_ns += 5 * SECOND;
    assert_int_equal(remaining(), 30);
}

/* Wall time fell back: the window counts as full, but only what was taken comes back. */
static void ledger__of_a_closed_window_no_more_comes_back_than_was_taken(void **state)
{
    (void)state;
    struct weir_verdict verdict;
    begin(&windows);
    assert_true(world_decide(&world, 3, &verdict));
    struct weir_event event = world_event(&world, 0);
    event.window.closed = true;
    assert_int_equal(weir_limit_refund(&world.limit, &world.ledger.state, &event, 10), 3);
}

static void ledger__a_debt_longer_than_any_log_keeps_its_newest_entries(void **state)
{
    (void)state;
    struct weir_limit_spec longest = { .algorithm = WEIR_SLIDING_LOG, .count = WEIR_LOG_MAX, .period_ns = SECOND };
    begin(&longest);
    ask(1, WEIR_LOG_MAX, 0, 0);
    world.now_ns += SECOND / 2;
    ask(2, WEIR_LOG_MAX + 100, 0, 0);
    world.now_ns += SECOND / 2;
    assert_int_equal(remaining(), WEIR_LOG_MAX - 100);
}

static void ledger__a_debt_that_was_paid_is_none(void **state)
{
    (void)state;
    begin(&bucket);
    ask(1, 30, 0, 0);
    assert_int_equal(world.ledger.debt, 10);
    world.now_ns += 2 * SECOND; /* ten are used still */
    ask_as(8, 1, 1, 0, 0);
    assert_int_equal(world.ledger.debt, 0);
}

/* A key in debt that lies further ahead than span and debt allow becomes empty, not free of what it owes. */
static void ledger__a_clock_that_comes_back_forgives_no_debt(void **state)
{
    (void)state;
    begin(&bucket);
    ask(1, 65, 0, 0);
    assert_int_equal(world.ledger.debt, 45);
    world.now_ns -= 2 * SECOND;
    assert_int_equal(remaining(), 0);
    world.now_ns += 4500 * MS;
    assert_int_equal(remaining(), 0);
    world.now_ns += 100 * MS;
    assert_int_equal(remaining(), 1);

    struct weir_limit_spec counter = { .algorithm = WEIR_SLIDING_COUNTER, .count = 10, .period_ns = SECOND };
    begin(&counter);
    world.now_ns += 10 * SECOND + 500 * MS - world.now_ns % SECOND;
    ask(1, 20, 0, 0);
    world.now_ns -= 600 * MS; /* into the window before */
    assert_int_equal(remaining(), 0);
    world.now_ns += 600 * MS; /* of the one before half counts: all that may be used */
    assert_int_equal(remaining(), 0);
}

static void ledger__makes_no_room_for_what_is_over(void **state)
{
    (void)state;
    begin(&rolling);
    ask_as(1, 1, 20, 0, 0);
    world.now_ns += 20 * SECOND;
    struct weir_event event = world_event(&world, 1);
    assert_int_equal(weir_ledger_room(&world.limit, &world.ledger, &event, 1), 8);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ledger__without_holds_decides_exactly_as_the_limit_does),
        cmocka_unit_test(ledger__what_is_held_counts_as_used),
        cmocka_unit_test(ledger__never_stays_never_whatever_is_held),
        cmocka_unit_test(ledger__grants_what_fits_or_nothing_below_least),
        cmocka_unit_test(ledger__a_repeated_ask_is_answered_again_and_charged_once),
        cmocka_unit_test(ledger__a_late_ask_is_stale_and_does_nothing),
        cmocka_unit_test(ledger__only_the_holders_own_word_returns_units),
        cmocka_unit_test(ledger__spent_is_always_charged_below_zero_if_need_be),
        cmocka_unit_test(ledger__an_expired_hold_is_forfeited_as_of_its_deadline),
        cmocka_unit_test(ledger__a_chunk_ends_with_its_window),
        cmocka_unit_test(ledger__an_old_window_is_never_charged_to_a_new_one),
        cmocka_unit_test(ledger__a_window_that_was_given_back_is_charged_to_the_next),
        cmocka_unit_test(ledger__a_window_that_was_given_back_begins_again_with_what_was_spent),
        cmocka_unit_test(ledger__an_engine_that_lost_a_stint_charges_what_was_not_confirmed),
        cmocka_unit_test(ledger__makes_room_for_all_that_an_ask_owes),
        cmocka_unit_test(ledger__makes_room_for_what_was_in_the_log_at_a_deadline),
        cmocka_unit_test(ledger__without_a_place_a_stint_is_charged_and_granted_nothing),
        cmocka_unit_test(ledger__stints_are_forgotten_in_time),
        cmocka_unit_test(ledger__a_clock_that_came_back_mints_nothing_and_ends),
        cmocka_unit_test(ledger__a_clock_that_came_back_ends_what_is_held),
        cmocka_unit_test(ledger__a_clock_that_came_back_out_of_a_window_gives_nothing_back_to_the_one_before),
        cmocka_unit_test(ledger__of_a_closed_window_no_more_comes_back_than_was_taken),
        cmocka_unit_test(ledger__a_debt_longer_than_any_log_keeps_its_newest_entries),
        cmocka_unit_test(ledger__a_debt_that_was_paid_is_none),
        cmocka_unit_test(ledger__a_clock_that_comes_back_forgives_no_debt),
        cmocka_unit_test(ledger__makes_no_room_for_what_is_over),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
