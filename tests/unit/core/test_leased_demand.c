/* SPDX-License-Identifier: Apache-2.0
 *
 * `sharing: leased`, a node's side: how much it asks for, what goes back, and what it tells. */
#include "leased_key.h"

static void leased__demand_of_long_ago_is_not_asked_for(void **state)
{
    (void)state;
    begin_with(10);
    step(WEIR_SHARE_RESERVE, 10, SECOND + 2 * MS);
    assert_int_equal(step(WEIR_SHARE_RESERVE, 1, 9 * SECOND).ask.want, 1);
}

/* Ten units in each third of a ttl, one at a time: a chunk is for about as many, however long that has gone on. */
static void leased__steady_demand_is_asked_for_as_it_is(void **state)
{
    (void)state;
    const uint64_t gap_ns = options.ttl_ns / 30;
    begin_with(10);
    uint64_t now_ns = SECOND + 2 * MS, most = 0, asks = 0;
    for (int i = 0; i < 600; i++, now_ns += gap_ns) {
        struct weir_share_effects effects = step(WEIR_SHARE_RESERVE, 1, now_ns);
        if (effects.say == WEIR_SHARE_YES)
            (void)step(WEIR_SHARE_COMMIT, 1, now_ns);
        if (!effects.send)
            continue;
        asks++;
        most = effects.ask.want > most ? effects.ask.want : most;
        hear(key.seq, effects.ask.want, 2 * SECOND, 20, now_ns);
    }
    assert_true(asks > 10);
    assert_in_range(most, 4, 9);
    assert_in_range(key.rate, 8, 11);
}

static void leased__takes_a_quarter_of_what_remains_at_most(void **state)
{
    (void)state;
    begin_with(10);
    key.demand = key.rate = 80;
    struct weir_share_effects effects = step(WEIR_SHARE_RESERVE, 10, SECOND + 2 * MS);
    assert_true(effects.send);
    assert_int_equal(effects.ask.want, 90 / 4);
}

/* However little that is. */
static void leased__what_is_left_goes_back_in_time(void **state)
{
    (void)state;
    for (uint64_t units = 2; units <= 3; units++) {
        begin_with(units);
        struct weir_share_effects effects = step(WEIR_SHARE_RESERVE, units - 1, SECOND + 2 * MS);
        effects = step(WEIR_SHARE_COMMIT, units - 1, SECOND + 2 * MS);
        key.known = key.spent;
        effects = step(WEIR_SHARE_TICK, 0, SECOND + 2 * MS);
        key.sent_ns = 0;
        effects = step(WEIR_SHARE_TICK, 0, SECOND + 3 * MS);
        assert_true(effects.send || effects.wake_ns > 0);
        assert_int_equal(key.pocket, 1);
    }
}

/* One unit now and then keeps a key from being idle, not what a burst left in its pocket: half of that goes back within
 * a ttl, and nearly all within two. */
static void leased__what_a_burst_left_goes_back_though_somebody_asks_now_and_then(void **state)
{
    (void)state;
    const uint64_t gap_ns = options.ttl_ns / 5;
    begin_with(80);
    step(WEIR_SHARE_RESERVE, 40, SECOND + 2 * MS);
    step(WEIR_SHARE_COMMIT, 40, SECOND + 2 * MS);
    uint64_t back = 0;
    for (uint64_t now_ns = SECOND + gap_ns; now_ns <= SECOND + 2 * options.ttl_ns; now_ns += gap_ns) {
        const uint64_t before = key.pocket;
        struct weir_share_effects effects = step(WEIR_SHARE_RESERVE, 1, now_ns);
        assert_int_equal(effects.say, WEIR_SHARE_YES);
        if (effects.send) {
            assert_int_equal(effects.ask.hold, key.pocket + key.reserved);
            assert_int_equal(effects.ask.want, 0);
            back += before - 1 - key.pocket;
            assert_int_equal(key.sent_back, before - 1 - key.pocket);
            hear(key.seq, 0, 2 * SECOND, 41, now_ns);
        }
        assert_int_equal(step(WEIR_SHARE_COMMIT, 1, now_ns).say, WEIR_SHARE_YES);
        if (now_ns > SECOND + options.ttl_ns)
            assert_in_range(key.pocket, 1, 19);
    }
    assert_in_range(key.pocket, 1, 4);
    assert_true(back > 20);
    assert_int_equal(key.forfeited, 0);
}

/* What is spent at a steady pace stays: no unit travels to and fro. */
static void leased__what_is_needed_stays(void **state)
{
    (void)state;
    begin_with(20);
    for (uint64_t now_ns = SECOND + 2 * MS; now_ns < 3 * SECOND; now_ns += options.ttl_ns / 30) {
        struct weir_share_effects effects = step(WEIR_SHARE_RESERVE, 1, now_ns);
        if (effects.say == WEIR_SHARE_YES)
            step(WEIR_SHARE_COMMIT, 1, now_ns);
        if (!effects.send)
            continue;
        assert_int_equal(key.sent_back, 0);
        hear(key.seq, effects.ask.want, 2 * SECOND, 20, now_ns);
    }
}

/* What an idle key gave back has come back: the ask after it is in doubt for itself alone. */
static void leased__what_came_back_is_in_doubt_no_more(void **state)
{
    (void)state;
    begin_with(10);
    struct weir_share_effects effects = step(WEIR_SHARE_TICK, 0, 2 * SECOND);
    assert_true(effects.send && effects.ask.hold == 0);
    hear(key.seq, 0, 2 * SECOND, 0, 2 * SECOND + MS);
    effects = step(WEIR_SHARE_RESERVE, 1, 2 * SECOND + 2 * MS);
    assert_true(effects.send);
    step(WEIR_SHARE_UNANSWERED, 0, 2 * SECOND + 3 * MS);
    assert_int_equal(key.doubt, effects.ask.want);
    assert_int_equal(key.forfeited, 0);
}

/* However long nobody asked: what is asked for from then on counts. */
static void leased__demand_counts_again_after_a_long_rest(void **state)
{
    (void)state;
    const uint64_t interval_ns = options.ttl_ns / 3, late_ns = SECOND + 10000 * options.ttl_ns;
    begin_with(10);
    step(WEIR_SHARE_RESERVE, 20, late_ns);
    step(WEIR_SHARE_TICK, 0, late_ns + interval_ns);
    assert_int_equal(key.rate, 10);
    assert_int_equal(key.demand, 0);
}

/* What it gives back the engine holds until its deadline; what it only tells of, for as long as the ask says. */
static void leased__a_return_that_is_lost_is_in_doubt_until_the_deadline(void **state)
{
    (void)state;
    for (uint64_t left = 0; left < 2; left++) {
        begin_with(10);
        step(WEIR_SHARE_RESERVE, 10 - left, SECOND + 2 * MS);
        key.sent_ns = 0;
        step(WEIR_SHARE_COMMIT, 10 - left, SECOND + 2 * MS);
        key.sent_ns = 0;
        const uint64_t now_ns = 2 * SECOND, deadline_ns = key.deadline_ns;
        assert_true(deadline_ns > now_ns && deadline_ns < now_ns + options.ttl_ns / 2);
        key.retry_ns = 0;
        assert_true(step(WEIR_SHARE_LEAVE, 0, now_ns).send);
        assert_int_equal(key.sent_back, left);
        assert_int_equal(key.sent_until_ns, left ? deadline_ns : now_ns + options.ttl_ns / 10 * 9);
    }
}

/* A node that was about to leave and is asked again stays. */
static void leased__who_is_asked_again_does_not_leave(void **state)
{
    (void)state;
    begin_with(10);
    assert_true(step(WEIR_SHARE_LEAVE, 0, SECOND + 2 * MS).send);
    assert_true(hear(key.seq, 0, 2 * SECOND, 0, SECOND + 3 * MS).idle);
    assert_true(step(WEIR_SHARE_RESERVE, 2, SECOND + 4 * MS).send);
    assert_false(hear(key.seq, 8, 2 * SECOND, 8, SECOND + 5 * MS).send);
    assert_int_equal(step(WEIR_SHARE_RESERVE, 2, SECOND + 6 * MS).say, WEIR_SHARE_YES);
    assert_false(step(WEIR_SHARE_TICK, 0, SECOND + 7 * MS).send);
    assert_int_equal(key.pocket, 6);
}

static void leased__what_is_cancelled_may_be_spent(void **state)
{
    (void)state;
    begin_with(10);
    step(WEIR_SHARE_RESERVE, 4, SECOND + 2 * MS);
    assert_int_equal(key.pocket, 6);
    step(WEIR_SHARE_CANCEL, 3, SECOND + 2 * MS);
    assert_int_equal(key.pocket, 9);
    assert_int_equal(key.reserved, 1);
    step(WEIR_SHARE_TICK, 0, 3 * SECOND); /* its deadline: of what is cancelled now nothing comes back */
    assert_int_equal(key.dead, 1);
    step(WEIR_SHARE_CANCEL, 1, 3 * SECOND);
    assert_int_equal(key.dead, 0);
    assert_int_equal(key.pocket, 0);
}

/* What it asks for next it tells of no window: it has spent nothing under its new stint yet. */
static void leased__a_new_stint_is_of_no_window(void **state)
{
    (void)state;
    begin_with(10);
    step(WEIR_SHARE_TICK, 0, 3 * SECOND);
    assert_int_equal(key.stint, (UINT64_C(1) << WEIR_SHARE_STINT_BITS) + 1);
    for (uint64_t n = 0; n < 3; n++)
        step(WEIR_SHARE_TICK, 0, 4 * SECOND + n);
    assert_int_equal(key.stint, (UINT64_C(1) << WEIR_SHARE_STINT_BITS) + 1);
    struct weir_share_effects effects = step(WEIR_SHARE_RESERVE, 1, 5 * SECOND);
    assert_true(effects.send);
    assert_int_equal(effects.ask.window, 0);
}

/* By an answer to an ask for nothing, nothing is known of what was refused. */
static void leased__a_refusal_outlasts_what_goes_back(void **state)
{
    (void)state;
    begin_with(10);
    assert_true(step(WEIR_SHARE_RESERVE, 20, SECOND + 2 * MS).send);
    hear(key.seq, 0, 2 * SECOND, 90, SECOND + 3 * MS);
    assert_int_equal(step(WEIR_SHARE_RESERVE, 20, SECOND + 4 * MS).say, WEIR_SHARE_NO);
    assert_true(step(WEIR_SHARE_LEAVE, 0, SECOND + 5 * MS).send);
    assert_int_equal(key.sent_want, 0);
    hear(key.seq, 0, 2 * SECOND, 90, SECOND + 6 * MS);
    assert_int_equal(step(WEIR_SHARE_RESERVE, 20, SECOND + 7 * MS).say, WEIR_SHARE_NO);
}

/* The engine did nothing for it, so it holds nothing by it. */
static void leased__by_a_stale_answer_nothing_is_held(void **state)
{
    (void)state;
    begin_with(10);
    assert_true(step(WEIR_SHARE_RESERVE, 20, SECOND + 2 * MS).send);
    const struct weir_share_answer answer = { .stint = key.stint, .seq = key.seq, .stale = true };
    const struct weir_share_event event = { .kind = WEIR_SHARE_HEARD, .seq = key.seq, .answer = &answer };
    struct weir_share_effects effects;
    weir_leased_step(&key, &options, &event, SECOND + 3 * MS, &effects);
    assert_int_equal(key.sent_ns, 0);
    assert_int_equal(key.doubt, 0);
}

/* That an ask of before got lost says nothing of the one under way, or of none. */
static void leased__only_the_ask_under_way_can_be_lost(void **state)
{
    (void)state;
    begin_with(10);
    struct weir_share_event event = { .kind = WEIR_SHARE_UNANSWERED, .seq = key.seq, .undone = true };
    struct weir_share_effects effects;
    weir_leased_step(&key, &options, &event, SECOND + 2 * MS, &effects);
    assert_int_equal(key.retry_ns, 0);
    assert_true(step(WEIR_SHARE_RESERVE, 20, SECOND + 3 * MS).send);
    const uint64_t want = key.sent_want;
    weir_leased_step(&key, &options, &event, SECOND + 4 * MS, &effects);
    assert_int_equal(key.sent_ns, SECOND + 3 * MS);
    assert_int_equal(key.sent_want, want);
}

/* Those who waited for an ask that was lost have been told so: the next is for who comes then. */
static void leased__who_waited_for_what_was_lost_is_not_asked_for(void **state)
{
    (void)state;
    weir_leased_init(&key, UINT64_C(1) << WEIR_SHARE_STINT_BITS);
    step(WEIR_SHARE_RESERVE, 1, SECOND);
    hear(key.seq, 1, 2 * SECOND, 100, SECOND + MS); /* nothing more remains, of which a chunk could be a part */
    step(WEIR_SHARE_RESERVE, 1, SECOND + MS);
    step(WEIR_SHARE_COMMIT, 1, SECOND + MS);
    assert_int_equal(step(WEIR_SHARE_RESERVE, 30, SECOND + 2 * MS).ask.want, 30);
    step(WEIR_SHARE_RESERVE, 20, SECOND + 3 * MS);
    step(WEIR_SHARE_UNANSWERED, 0, SECOND + 4 * MS);
    const struct weir_share_effects effects = step(WEIR_SHARE_RESERVE, 5, SECOND + 5 * MS);
    assert_true(effects.send);
    assert_int_equal(effects.ask.want, 5);
    assert_int_equal(effects.ask.least, 5);
}

/* Who holds nothing and has told all has nothing to renew. */
static void leased__who_was_granted_nothing_does_not_ask_again_unasked(void **state)
{
    (void)state;
    weir_leased_init(&key, UINT64_C(1) << WEIR_SHARE_STINT_BITS);
    step(WEIR_SHARE_RESERVE, 1, SECOND);
    hear(key.seq, 0, 2 * SECOND, 100, SECOND + MS);
    assert_in_range(key.renew_ns, SECOND, SECOND + 700 * MS);
    assert_false(step(WEIR_SHARE_TICK, 0, SECOND + 700 * MS).send);
}

/* A tenth of the hold is the margin, a nanosecond at least. */
static void leased__is_not_held_to_the_last(void **state)
{
    (void)state;
    static const uint64_t holds[][2] = { { 5, 4 }, { 19, 18 }, { 20, 18 }, { SECOND, SECOND - SECOND / 10 } };
    for (size_t i = 0; i < sizeof holds / sizeof holds[0]; i++) {
        weir_leased_init(&key, UINT64_C(1) << WEIR_SHARE_STINT_BITS);
        step(WEIR_SHARE_RESERVE, 1, SECOND);
        hear(key.seq, 1, holds[i][0], 1, SECOND + 1);
        assert_int_equal(key.deadline_ns, SECOND + holds[i][1]);
        assert_int_equal(key.renew_ns, SECOND + holds[i][1] / 3);
    }
}

/* Who is refused is told when more may be had, and who is admitted when the next unit is back. */
static void leased__tells_when_the_next_unit_is_to_be_had(void **state)
{
    (void)state;
    begin_with(10);
    struct weir_share_effects effects = step(WEIR_SHARE_RESERVE, 1, SECOND + 11 * MS);
    assert_int_equal(effects.verdict.next_after_ns, 20 * MS); /* the engine said 30 ms, 10 ms ago */
    assert_int_equal(effects.verdict.reset_after_ns, SECOND - 10 * MS);
    assert_int_equal(effects.verdict.retry_after_ns, 0);
}

/* From the first request on, whatever the clock shows by then, and anew after a long rest. */
static void leased__demand_is_counted_by_whole_intervals(void **state)
{
    (void)state;
    const uint64_t interval_ns = options.ttl_ns / 3;
    begin_with(40);
    step(WEIR_SHARE_RESERVE, 19, SECOND + 2 * MS);
    step(WEIR_SHARE_TICK, 0, SECOND + interval_ns - 1);
    assert_int_equal(key.demand, 20);
    step(WEIR_SHARE_TICK, 0, SECOND + interval_ns);
    assert_int_equal(key.demand, 0);
    assert_int_equal(key.rate, 10);
    const uint64_t late_ns = SECOND + 1000 * options.ttl_ns;
    step(WEIR_SHARE_RESERVE, 20, late_ns);
    step(WEIR_SHARE_TICK, 0, late_ns + interval_ns - 1);
    assert_int_equal(key.demand, 20);
}

/* What came too late is in doubt, and is asked about at once, though the clock has only begun. */
static void leased__wakes_for_what_came_too_late(void **state)
{
    (void)state;
    weir_leased_init(&key, UINT64_C(1) << WEIR_SHARE_STINT_BITS);
    assert_int_equal(step(WEIR_SHARE_RESERVE, 1, 1).say, WEIR_SHARE_WAIT);
    assert_int_equal(hear(1, 1, 1, 1, 1).wake_ns, 1);
    assert_int_equal(key.doubt, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(leased__demand_of_long_ago_is_not_asked_for),
        cmocka_unit_test(leased__steady_demand_is_asked_for_as_it_is),
        cmocka_unit_test(leased__takes_a_quarter_of_what_remains_at_most),
        cmocka_unit_test(leased__what_is_left_goes_back_in_time),
        cmocka_unit_test(leased__what_a_burst_left_goes_back_though_somebody_asks_now_and_then),
        cmocka_unit_test(leased__what_is_needed_stays),
        cmocka_unit_test(leased__what_came_back_is_in_doubt_no_more),
        cmocka_unit_test(leased__demand_counts_again_after_a_long_rest),
        cmocka_unit_test(leased__a_return_that_is_lost_is_in_doubt_until_the_deadline),
        cmocka_unit_test(leased__who_is_asked_again_does_not_leave),
        cmocka_unit_test(leased__what_is_cancelled_may_be_spent),
        cmocka_unit_test(leased__a_new_stint_is_of_no_window),
        cmocka_unit_test(leased__a_refusal_outlasts_what_goes_back),
        cmocka_unit_test(leased__by_a_stale_answer_nothing_is_held),
        cmocka_unit_test(leased__only_the_ask_under_way_can_be_lost),
        cmocka_unit_test(leased__who_waited_for_what_was_lost_is_not_asked_for),
        cmocka_unit_test(leased__who_was_granted_nothing_does_not_ask_again_unasked),
        cmocka_unit_test(leased__is_not_held_to_the_last),
        cmocka_unit_test(leased__tells_when_the_next_unit_is_to_be_had),
        cmocka_unit_test(leased__demand_is_counted_by_whole_intervals),
        cmocka_unit_test(leased__wakes_for_what_came_too_late),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
