/* SPDX-License-Identifier: Apache-2.0
 *
 * `sharing: leased`, a node's side. */
#include "share_attack.h"

#include "leased_key.h"

static void leased__what_is_held_is_spent_without_asking(void **state)
{
    (void)state;
    begin_with(10);
    for (int i = 0; i < 5; i++) {
        struct weir_share_effects effects = step(WEIR_SHARE_RESERVE, 1, SECOND + 2 * MS);
        assert_int_equal(effects.say, WEIR_SHARE_YES);
        assert_int_equal(effects.verdict.remaining, 100 - 10 + 10 - 1 - i);
        assert_false(effects.send);
        step(WEIR_SHARE_COMMIT, 1, SECOND + 2 * MS);
    }
    assert_int_equal(key.spent, 5);
    assert_int_equal(key.pocket, 5);
}

static void leased__an_answer_of_a_stint_that_is_over_gives_nothing(void **state)
{
    (void)state;
    for (int stale = 0; stale < 2; stale++) {
        weir_leased_init(&key, UINT64_C(1) << WEIR_SHARE_STINT_BITS);
        assert_int_equal(step(WEIR_SHARE_RESERVE, 1, SECOND).say, WEIR_SHARE_WAIT);
        struct weir_share_answer answer = { .stint = key.stint + !stale,
                                            .seq = key.seq,
                                            .granted = 10,
                                            .hold_ns = 2 * SECOND,
                                            .capacity = 100,
                                            .stale = stale };
        struct weir_share_event event = { .kind = WEIR_SHARE_HEARD, .seq = key.seq, .answer = &answer };
        struct weir_share_effects effects;
        weir_leased_step(&key, &options, &event, SECOND + MS, &effects);
        assert_int_equal(step(WEIR_SHARE_RESERVE, 1, SECOND + 2 * MS).say, WEIR_SHARE_WAIT);
    }
}

static void leased__the_next_ask_tells_what_the_last_could_not(void **state)
{
    (void)state;
    begin_with(10);
    step(WEIR_SHARE_RESERVE, 2, SECOND + 2 * MS);
    step(WEIR_SHARE_COMMIT, 1, SECOND + 2 * MS);
    assert_true(step(WEIR_SHARE_TICK, 0, 1700 * MS).send);
    step(WEIR_SHARE_COMMIT, 1, 1701 * MS);
    hear(key.seq, 0, 2 * SECOND, 10, 1702 * MS);
    struct weir_share_effects effects = step(WEIR_SHARE_TICK, 0, 2400 * MS);
    assert_int_equal(effects.ask.known, 1);
    assert_int_equal(effects.ask.spent, 2);
    assert_int_equal(effects.ask.window, 77); /* that the engine told */
}

/* All was spent and said, so the end of the last hold ends nothing: the ask under way is answered to the same stint. */
static void leased__what_is_granted_while_an_old_hold_ends_is_kept(void **state)
{
    (void)state;
    weir_leased_init(&key, UINT64_C(1) << WEIR_SHARE_STINT_BITS);
    step(WEIR_SHARE_RESERVE, 1, SECOND);
    hear(1, 1, 2 * SECOND, 100, SECOND + MS); /* nothing remains: no chunk in advance */
    assert_int_equal(step(WEIR_SHARE_RESERVE, 1, SECOND + 2 * MS).say, WEIR_SHARE_YES);
    step(WEIR_SHARE_COMMIT, 1, SECOND + 2 * MS);
    assert_true(step(WEIR_SHARE_TICK, 0, 1700 * MS).send);
    hear(key.seq, 0, 2 * SECOND, 100, 1701 * MS); /* held until 3.5 s, less the margin */
    struct weir_share_effects effects = step(WEIR_SHARE_RESERVE, 1, 3495 * MS);
    assert_int_equal(effects.say, WEIR_SHARE_WAIT);
    assert_true(effects.send);
    step(WEIR_SHARE_TICK, 0, 3502 * MS);
    assert_true(key.stint == effects.ask.stint);
    hear(key.seq, 1, 2 * SECOND, 100, 3505 * MS);
    assert_int_equal(step(WEIR_SHARE_RESERVE, 1, 3505 * MS).say, WEIR_SHARE_YES);
}

static void leased__above_the_capacity_is_never_and_the_engine_is_not_asked(void **state)
{
    (void)state;
    weir_leased_init(&key, 1);
    struct weir_share_effects effects = step(WEIR_SHARE_RESERVE, 101, SECOND);
    assert_int_equal(effects.say, WEIR_SHARE_NO);
    assert_true(effects.verdict.retry_after_ns == WEIR_NEVER);
    assert_false(effects.send);
    begin_with(10);
    effects = step(WEIR_SHARE_RESERVE, 101, SECOND + 2 * MS);
    assert_int_equal(effects.verdict.remaining, 100);
    assert_int_equal(effects.verdict.next_after_ns, 0); /* more than all there will never be */
}

static void leased__one_ask_is_under_way_and_what_waits_goes_into_the_next(void **state)
{
    (void)state;
    weir_leased_init(&key, 1);
    struct weir_share_effects effects = step(WEIR_SHARE_RESERVE, 2, SECOND);
    assert_true(effects.send);
    assert_int_equal(effects.ask.want, 2);
    assert_int_equal(effects.ask.least, 2);
    for (int i = 0; i < 5; i++) {
        effects = step(WEIR_SHARE_RESERVE, 3, SECOND + 1);
        assert_int_equal(effects.say, WEIR_SHARE_WAIT);
        assert_false(effects.send);
    }
    assert_int_equal(key.waiting, 15);
    assert_false(hear(1, 2, 2 * SECOND, 2, SECOND + MS).send); /* those who wait come first */
    effects = step(WEIR_SHARE_RESERVE, 3, SECOND + MS);
    assert_true(effects.send);
    assert_int_equal(effects.ask.least, 1); /* two of three are here */
    assert_true(effects.ask.want >= 15);
}

static void leased__a_cost_may_be_met_from_pocket_and_engine_together(void **state)
{
    (void)state;
    weir_leased_init(&key, 1);
    step(WEIR_SHARE_RESERVE, 1, SECOND);
    hear(1, 3, 2 * SECOND, 3, SECOND + MS);
    assert_int_equal(step(WEIR_SHARE_RESERVE, 1, SECOND + MS).say, WEIR_SHARE_YES);
    struct weir_share_effects effects = step(WEIR_SHARE_RESERVE, 9, SECOND + 2 * MS);
    assert_int_equal(effects.say, WEIR_SHARE_WAIT);
    assert_true(effects.send && effects.ask.hold >= 2);
    assert_int_equal(effects.ask.least, 9 - 2);
}

static void leased__all_who_wait_are_asked_for_when_little_is_left(void **state)
{
    (void)state;
    weir_leased_init(&key, 1);
    step(WEIR_SHARE_RESERVE, 1, SECOND);
    for (int i = 0; i < 50; i++)
        step(WEIR_SHARE_RESERVE, 1, SECOND + 1);
    hear(1, 1, 2 * SECOND, 99, SECOND + MS); /* no chunk in advance any more */
    assert_int_equal(step(WEIR_SHARE_RESERVE, 1, SECOND + MS).say, WEIR_SHARE_YES);
    struct weir_share_effects effects = step(WEIR_SHARE_RESERVE, 1, SECOND + MS);
    assert_true(effects.send);
    assert_int_equal(effects.ask.want, 49);
    assert_int_equal(effects.ask.least, 1);
}

static void leased__a_chunk_is_spent_only_before_its_deadline(void **state)
{
    (void)state;
    begin_with(10);
    uint64_t deadline_ns = SECOND + 2 * SECOND - SECOND / 5; /* sent + hold - a tenth of it */
    step(WEIR_SHARE_RESERVE, 4, deadline_ns - 1);
    assert_int_equal(key.pocket, 6);
    struct weir_share_effects effects = step(WEIR_SHARE_RESERVE, 1, deadline_ns);
    assert_int_equal(effects.say, WEIR_SHARE_WAIT);
    assert_int_equal(key.pocket, 0);
}

static void leased__after_its_deadline_a_node_speaks_under_a_new_stint(void **state)
{
    (void)state;
    begin_with(10);
    uint64_t old = key.stint;
    step(WEIR_SHARE_RESERVE, 4, 2 * SECOND);
    step(WEIR_SHARE_UNANSWERED, 0, 2 * SECOND);
    struct weir_share_effects effects = step(WEIR_SHARE_RESERVE, 1, 4 * SECOND);
    assert_int_equal(key.stint, old + 1);
    assert_true(effects.send);
    assert_int_equal(effects.ask.hold, 0);
    /* Set aside before: the engine has charged them then. */
    assert_int_equal(step(WEIR_SHARE_COMMIT, 4, 4 * SECOND).say, WEIR_SHARE_NO);
    assert_int_equal(key.spent, 0);
    assert_int_equal(key.dead, 0);
}

static void leased__a_late_or_repeated_answer_changes_nothing(void **state)
{
    (void)state;
    begin_with(10);
    hear(1, 10, 2 * SECOND, 10, SECOND + 2 * MS);
    assert_int_equal(key.pocket, 10);
    step(WEIR_SHARE_RESERVE, 20, SECOND + 3 * MS);
    uint64_t seq = key.seq;
    step(WEIR_SHARE_UNANSWERED, 0, SECOND + 4 * MS);
    hear(seq, 20, 2 * SECOND, 30, SECOND + 5 * MS);
    assert_int_equal(key.pocket, 10);
}

static void leased__after_a_loss_the_engine_is_told_what_is_held(void **state)
{
    (void)state;
    weir_leased_init(&key, 1);
    step(WEIR_SHARE_RESERVE, 5, SECOND);
    struct weir_share_effects effects = step(WEIR_SHARE_UNANSWERED, 0, SECOND + MS);
    assert_false(effects.idle);
    effects = step(WEIR_SHARE_TICK, 0, effects.wake_ns);
    assert_true(effects.send);
    assert_int_equal(effects.ask.seq, 2);
    assert_int_equal(effects.ask.hold, 0);
}

static void leased__a_refusal_is_kept_for_a_while(void **state)
{
    (void)state;
    weir_leased_init(&key, 1);
    step(WEIR_SHARE_RESERVE, 5, SECOND);
    hear(1, 0, 2 * SECOND, 98, SECOND + MS);
    struct weir_share_effects effects = step(WEIR_SHARE_RESERVE, 5, SECOND + 2 * MS);
    assert_int_equal(effects.say, WEIR_SHARE_NO);
    assert_int_equal(effects.verdict.retry_after_ns, 29 * MS);
    assert_int_equal(effects.verdict.reset_after_ns, SECOND - MS);
    assert_int_equal(effects.verdict.remaining, 2);
    assert_int_equal(step(WEIR_SHARE_RESERVE, 2, SECOND + 2 * MS).say, WEIR_SHARE_WAIT); /* less may fit */
    hear(2, 2, 2 * SECOND, 100, SECOND + 3 * MS);
    assert_int_equal(step(WEIR_SHARE_RESERVE, 5, SECOND + 32 * MS).say, WEIR_SHARE_WAIT);
}

static void leased__gives_back_when_idle_for_half_a_ttl(void **state)
{
    (void)state;
    begin_with(10);
    step(WEIR_SHARE_RESERVE, 1, SECOND + 2 * MS);
    struct weir_share_effects effects = step(WEIR_SHARE_COMMIT, 1, SECOND + 2 * MS);
    for (int i = 0; i < 5 && !(effects.send && effects.ask.want == 0 && effects.ask.hold == 0); i++) {
        uint64_t now_ns = effects.wake_ns;
        assert_true(now_ns > 0 && now_ns <= 2 * SECOND + 2 * MS);
        effects = step(WEIR_SHARE_TICK, 0, now_ns);
        if (effects.send && effects.ask.hold > 0)
            effects = hear(key.seq, 0, 2 * SECOND, 10, now_ns + MS);
    }
    assert_true(effects.send && effects.ask.hold == 0);
    assert_int_equal(effects.ask.spent, 1);
    effects = hear(key.seq, 0, 2 * SECOND, 1, 2 * SECOND + 3 * MS);
    assert_true(effects.idle);
    assert_int_equal(effects.wake_ns, 0);
}

static void leased__a_node_that_leaves_returns_everything(void **state)
{
    (void)state;
    begin_with(10);
    step(WEIR_SHARE_RESERVE, 3, SECOND + 2 * MS);
    step(WEIR_SHARE_COMMIT, 3, SECOND + 2 * MS);
    struct weir_share_effects effects = step(WEIR_SHARE_LEAVE, 0, SECOND + 3 * MS);
    assert_true(effects.send);
    assert_int_equal(effects.ask.spent, 3);
    assert_int_equal(effects.ask.hold, 0);
    assert_int_equal(effects.ask.want, 0);
    assert_true(hear(key.seq, 0, 2 * SECOND, 3, SECOND + 4 * MS).idle);
}

/* ---- what an ask leaves at the engine when its answer is lost, or late ---- */

static void leased__what_a_lost_answer_granted_comes_back_or_is_counted(void **state)
{
    (void)state;
    const uint64_t usable_ns = 2 * SECOND - SECOND / 5;
    for (int late = 0; late <= 1; late++) {
        weir_leased_init(&key, 1);
        step(WEIR_SHARE_RESERVE, 5, SECOND);
        struct weir_share_effects effects = step(WEIR_SHARE_UNANSWERED, 0, SECOND + MS);
        assert_in_range(effects.wake_ns, 1, SECOND + usable_ns - 2);
        effects = step(WEIR_SHARE_TICK, 0, SECOND + usable_ns - 2);
        assert_true(effects.send);
        assert_int_equal(effects.ask.hold, 0);
        hear(key.seq, 0, 2 * SECOND, 0, SECOND + usable_ns - 1 + (uint64_t)late);
        assert_int_equal(key.forfeited, late ? 5 : 0);
        assert_int_equal(key.doubt, 0);
    }
}

static void leased__what_the_engine_has_not_done_is_not_counted(void **state)
{
    (void)state;
    weir_leased_init(&key, 1);
    step(WEIR_SHARE_RESERVE, 5, SECOND);
    struct weir_share_event lost = { .kind = WEIR_SHARE_UNANSWERED, .seq = key.seq, .undone = true };
    struct weir_share_effects effects;
    weir_leased_step(&key, &options, &lost, SECOND + MS, &effects);
    assert_true(step(WEIR_SHARE_TICK, 0, 9 * SECOND).send);
    hear(key.seq, 0, 2 * SECOND, 0, 9 * SECOND + MS);
    assert_int_equal(key.forfeited, 0);
}

static void leased__is_told_again_while_the_engine_still_holds_it(void **state)
{
    (void)state;
    const struct weir_leased_options patient = { .capacity = 100, .ttl_ns = 2 * SECOND, .lost_ns = 11 * SECOND };
    struct weir_share_event event = { .kind = WEIR_SHARE_RESERVE, .units = 5 };
    struct weir_share_effects effects;
    weir_leased_init(&key, 1);
    weir_leased_step(&key, &patient, &event, SECOND, &effects);
    event = (struct weir_share_event){ .kind = WEIR_SHARE_UNANSWERED, .seq = key.seq };
    weir_leased_step(&key, &patient, &event, SECOND + MS, &effects);
    assert_in_range(effects.wake_ns, 1, 2 * SECOND + 2 * MS);
}

/* The engine holds nothing for longer than a minute, whatever the ttl: then it charges what a lost answer granted. */
static void leased__a_long_ttl_is_a_minute_at_the_engine(void **state)
{
    (void)state;
    const struct weir_leased_options slow = { .capacity = 100, .ttl_ns = 300 * SECOND, .lost_ns = 20 * MS };
    const uint64_t ends_ns = SECOND + 54 * SECOND;
    struct weir_share_event event = { .kind = WEIR_SHARE_RESERVE, .units = 5 };
    struct weir_share_effects effects;
    weir_leased_init(&key, 1);
    weir_leased_step(&key, &slow, &event, SECOND, &effects);
    event = (struct weir_share_event){ .kind = WEIR_SHARE_UNANSWERED, .seq = key.seq };
    weir_leased_step(&key, &slow, &event, SECOND + MS, &effects);
    event = (struct weir_share_event){ .kind = WEIR_SHARE_TICK };
    weir_leased_step(&key, &slow, &event, ends_ns - 1, &effects);
    assert_int_equal(key.forfeited, 0);
    weir_leased_step(&key, &slow, &event, ends_ns, &effects);
    assert_int_equal(key.forfeited, 5);
}

/* As after a pause of the engine: it has only just granted this. */
static void leased__what_is_granted_too_late_to_spend_is_given_back(void **state)
{
    (void)state;
    weir_leased_init(&key, 1);
    const struct weir_leased_options patient = { .capacity = 100, .ttl_ns = 2 * SECOND, .lost_ns = 11 * SECOND };
    struct weir_share_event event = { .kind = WEIR_SHARE_RESERVE, .units = 5 };
    struct weir_share_effects effects;
    weir_leased_step(&key, &patient, &event, SECOND, &effects);
    struct weir_share_answer answer = { .stint = 1, .seq = 1, .granted = 5, .hold_ns = 2 * SECOND, .capacity = 100 };
    event = (struct weir_share_event){ .kind = WEIR_SHARE_HEARD, .seq = 1, .answer = &answer };
    weir_leased_step(&key, &patient, &event, 4 * SECOND, &effects);
    assert_int_equal(key.pocket, 0);
    event = (struct weir_share_event){ .kind = WEIR_SHARE_TICK };
    weir_leased_step(&key, &patient, &event, effects.wake_ns, &effects);
    assert_true(effects.send);
    assert_int_equal(effects.ask.stint, 1); /* who held it says so */
    assert_int_equal(effects.ask.hold, 0);
    assert_int_equal(key.forfeited, 5); /* for it may be too late */
}

static void leased__a_return_that_is_lost_is_counted(void **state)
{
    (void)state;
    begin_with(10);
    assert_true(step(WEIR_SHARE_LEAVE, 0, SECOND + 2 * MS).send);
    step(WEIR_SHARE_UNANSWERED, 0, SECOND + 3 * MS);
    step(WEIR_SHARE_TICK, 0, 5 * SECOND);
    assert_int_equal(key.forfeited, 10);
}

static void leased__what_is_committed_or_cancelled_too_late_is_counted(void **state)
{
    (void)state;
    for (int cancel = 0; cancel <= 1; cancel++) {
        begin_with(10);
        step(WEIR_SHARE_RESERVE, 4, SECOND + 2 * MS);
        step(WEIR_SHARE_TICK, 0, 4 * SECOND);
        assert_int_equal(key.forfeited, 6);
        step(cancel ? WEIR_SHARE_CANCEL : WEIR_SHARE_COMMIT, 4, 4 * SECOND);
        assert_int_equal(key.forfeited, 10);
    }
}

/* Of a request that does not go on all units are, also those that were taken from what another had set aside since. */
static void leased__a_commit_that_comes_too_late_in_part_is_counted_whole(void **state)
{
    (void)state;
    begin_with(10);
    step(WEIR_SHARE_RESERVE, 3, SECOND + 2 * MS);
    step(WEIR_SHARE_TICK, 0, 4 * SECOND);
    assert_int_equal(key.forfeited, 7);
    assert_int_equal(step(WEIR_SHARE_RESERVE, 2, 4 * SECOND).say, WEIR_SHARE_WAIT);
    hear(key.seq, 2, 2 * SECOND, 5, 4 * SECOND + MS);
    assert_int_equal(step(WEIR_SHARE_RESERVE, 2, 4 * SECOND + MS).say, WEIR_SHARE_YES);
    assert_int_equal(step(WEIR_SHARE_COMMIT, 3, 4 * SECOND + MS).say, WEIR_SHARE_NO);
    assert_int_equal(key.forfeited, 10);
}

/* A node that asks late and hears late; `granted` for the key's ask, and how long it is held. */
static struct weir_share_effects hear_patiently(uint64_t granted, uint64_t hold_ns, uint64_t now_ns)
{
    static const struct weir_leased_options patient = { .capacity = 100, .ttl_ns = 2 * SECOND, .lost_ns = 11 * SECOND };
    struct weir_share_answer answer = {
        .stint = key.stint, .seq = key.seq, .granted = granted, .hold_ns = hold_ns, .capacity = 100
    };
    struct weir_share_event event = { .kind = WEIR_SHARE_HEARD, .seq = key.seq, .answer = &answer };
    struct weir_share_effects effects;
    weir_leased_step(&key, &patient, &event, now_ns, &effects);
    return effects;
}

static void leased__a_return_that_may_have_come_too_late_is_counted(void **state)
{
    (void)state;
    begin_with(10);
    assert_true(step(WEIR_SHARE_LEAVE, 0, SECOND + 2 * MS).send);
    hear_patiently(0, 2 * SECOND, 4 * SECOND);
    assert_int_equal(key.forfeited, 10);
    begin_with(10);
    assert_true(step(WEIR_SHARE_LEAVE, 0, SECOND + 2 * MS).send);
    hear_patiently(0, 2 * SECOND, SECOND + 3 * MS);
    assert_int_equal(key.forfeited, 0);
}

/* The engine may have charged what is set aside with what it granted late: it is told of under another stint. */
static void give_up_late(uint64_t units)
{
    begin_with(10);
    assert_int_equal(step(WEIR_SHARE_RESERVE, units, SECOND + 2 * MS).say, WEIR_SHARE_YES);
    assert_true(step(WEIR_SHARE_RESERVE, 50, SECOND + 10 * MS).send);
    uint64_t stint = key.stint;
    hear_patiently(50, SECOND, 2 * SECOND);
    assert_int_equal(key.stint, stint + 1);
    assert_int_equal(key.reserved, 0);
    assert_int_equal(key.dead, units);
    assert_int_equal(step(WEIR_SHARE_COMMIT, units, 2 * SECOND).say, WEIR_SHARE_NO);
}

static void leased__what_is_set_aside_when_an_answer_is_too_late_is_given_up(void **state)
{
    (void)state;
    give_up_late(4);
    give_up_late(1);
}

static void leased__what_was_spent_when_an_answer_is_too_late_is_told_no_more(void **state)
{
    (void)state;
    begin_with(10);
    assert_true(step(WEIR_SHARE_RESERVE, 50, SECOND + 10 * MS).send);
    step(WEIR_SHARE_RESERVE, 3, SECOND + 20 * MS);
    assert_int_equal(step(WEIR_SHARE_COMMIT, 3, SECOND + 20 * MS).say, WEIR_SHARE_YES);
    const uint64_t stint = key.stint;
    hear_patiently(50, SECOND, 2 * SECOND);
    assert_int_equal(key.stint, stint + 1);
    assert_true(key.pocket == 0 && key.spent == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(leased__what_is_held_is_spent_without_asking),
        cmocka_unit_test(leased__an_answer_of_a_stint_that_is_over_gives_nothing),
        cmocka_unit_test(leased__the_next_ask_tells_what_the_last_could_not),
        cmocka_unit_test(leased__above_the_capacity_is_never_and_the_engine_is_not_asked),
        cmocka_unit_test(leased__one_ask_is_under_way_and_what_waits_goes_into_the_next),
        cmocka_unit_test(leased__a_cost_may_be_met_from_pocket_and_engine_together),
        cmocka_unit_test(leased__all_who_wait_are_asked_for_when_little_is_left),
        cmocka_unit_test(leased__a_chunk_is_spent_only_before_its_deadline),
        cmocka_unit_test(leased__after_its_deadline_a_node_speaks_under_a_new_stint),
        cmocka_unit_test(leased__a_late_or_repeated_answer_changes_nothing),
        cmocka_unit_test(leased__after_a_loss_the_engine_is_told_what_is_held),
        cmocka_unit_test(leased__a_refusal_is_kept_for_a_while),
        cmocka_unit_test(leased__gives_back_when_idle_for_half_a_ttl),
        cmocka_unit_test(leased__a_node_that_leaves_returns_everything),
        cmocka_unit_test(leased__what_a_lost_answer_granted_comes_back_or_is_counted),
        cmocka_unit_test(leased__what_the_engine_has_not_done_is_not_counted),
        cmocka_unit_test(leased__is_told_again_while_the_engine_still_holds_it),
        cmocka_unit_test(leased__a_long_ttl_is_a_minute_at_the_engine),
        cmocka_unit_test(leased__what_is_granted_too_late_to_spend_is_given_back),
        cmocka_unit_test(leased__a_return_that_is_lost_is_counted),
        cmocka_unit_test(leased__what_is_committed_or_cancelled_too_late_is_counted),
        cmocka_unit_test(leased__a_commit_that_comes_too_late_in_part_is_counted_whole),
        cmocka_unit_test(leased__what_is_granted_while_an_old_hold_ends_is_kept),
        cmocka_unit_test(leased__a_return_that_may_have_come_too_late_is_counted),
        cmocka_unit_test(leased__what_is_set_aside_when_an_answer_is_too_late_is_given_up),
        cmocka_unit_test(leased__what_was_spent_when_an_answer_is_too_late_is_told_no_more),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
