/* SPDX-License-Identifier: Apache-2.0
 *
 * `sharing: batched`, a node's side: one ask after the other, what each is for, and what ends it. */
#include "batched_key.h"

/* Those who come while an ask is under way are in the next one: what they want, and no less than the first of them. */
static void batched__the_next_ask_is_for_those_who_waited(void **state)
{
    (void)state;
    begin_with(&hourly, 1);
    assert_true(step(WEIR_SHARE_RESERVE, 30, SECOND + 2 * MS).send);
    step(WEIR_SHARE_RESERVE, 20, SECOND + 2 * MS);
    step(WEIR_SHARE_RESERVE, 35, SECOND + 2 * MS);
    hear(30, 31, SECOND + 3 * MS);
    assert_int_equal(step(WEIR_SHARE_RESERVE, 30, SECOND + 3 * MS).say, WEIR_SHARE_YES);
    struct weir_share_effects effects = step(WEIR_SHARE_RESERVE, 20, SECOND + 3 * MS);
    assert_true(effects.send);
    assert_int_equal(effects.ask.want, 25); /* of 55 one has come who fetched 30 */
    assert_int_equal(effects.ask.least, 20);
    hear(0, 50, SECOND + 4 * MS); /* the engine holds the rest for others: so many there are not, fewer there may be */
    assert_int_equal(step(WEIR_SHARE_RESERVE, 20, SECOND + 4 * MS).say, WEIR_SHARE_NO);
    effects = step(WEIR_SHARE_RESERVE, 19, SECOND + 4 * MS);
    assert_int_equal(effects.say, WEIR_SHARE_WAIT);
    assert_true(effects.send);
    hear(3, 60, SECOND + 5 * MS); /* a part of it: that is all there is */
    assert_int_equal(step(WEIR_SHARE_RESERVE, 3, SECOND + 5 * MS).say, WEIR_SHARE_YES);
    assert_int_equal(step(WEIR_SHARE_RESERVE, 12, SECOND + 5 * MS).say, WEIR_SHARE_NO);
}

/* That an ask of before got lost says nothing of the one under way. */
static void batched__only_the_ask_under_way_can_be_lost(void **state)
{
    (void)state;
    begin_with(&hourly, 1);
    assert_true(step(WEIR_SHARE_RESERVE, 30, SECOND + 2 * MS).send);
    struct weir_share_event event = { .kind = WEIR_SHARE_UNANSWERED, .seq = key.seq - 1 };
    struct weir_share_effects effects;
    weir_batched_step(&key, &options, &event, SECOND + 3 * MS, &effects);
    assert_int_equal(key.sent_ns, SECOND + 2 * MS);
    event.seq = key.seq;
    weir_batched_step(&key, &options, &event, SECOND + 3 * MS, &effects);
    assert_int_equal(key.sent_ns, 0);
    assert_int_equal(effects.wake_ns, SECOND + 3 * MS + options.interval_ns);
}

/* The engine did nothing, for it had heard a later ask of the stint: this one is as good as lost, and known to be. */
static void batched__a_stale_answer_is_a_loss(void **state)
{
    (void)state;
    for (int other_stint = 0; other_stint < 2; other_stint++) {
        begin_with(&hourly, 1);
        assert_true(step(WEIR_SHARE_RESERVE, 30, SECOND + 2 * MS).send);
        struct weir_share_answer answer = {
            .stint = key.stint - (unsigned)other_stint, .seq = key.seq, .granted = 30, .stale = !other_stint
        };
        struct weir_share_event event = { .kind = WEIR_SHARE_HEARD, .seq = key.seq, .answer = &answer };
        struct weir_share_effects effects;
        weir_batched_step(&key, &options, &event, SECOND + 3 * MS, &effects);
        assert_int_equal(key.sent_ns, 0);
        assert_int_equal(key.pocket, 0);
        assert_int_equal(effects.wake_ns, SECOND + 3 * MS + options.interval_ns);
    }
}

/* What a refusal says holds until the engine says otherwise, or for as long as it said. */
static void batched__a_refusal_ends_with_a_grant_or_its_time(void **state)
{
    (void)state;
    struct weir_share_effects effects;
    for (int granted = 0; granted < 2; granted++) {
        begin_with(&hourly, 1);
        step(WEIR_SHARE_RESERVE, 30, SECOND + 2 * MS);
        hear(0, 40, SECOND + 3 * MS);
        assert_int_equal(step(WEIR_SHARE_RESERVE, 30, SECOND + 3 * MS).say, WEIR_SHARE_NO);
        for (int i = 0; i < 5; i++)
            assert_true(take(1, SECOND + 4 * MS, &effects));
        assert_true(effects.send); /* it settles, and asks for nothing */
        assert_int_equal(effects.ask.want, 0);
        assert_false(effects.idle);
        hear(0, 45, SECOND + 5 * MS);
        assert_int_equal(step(WEIR_SHARE_RESERVE, 30, SECOND + 5 * MS).say, WEIR_SHARE_NO);
        if (granted) {
            step(WEIR_SHARE_RESERVE, 20, SECOND + 6 * MS);
            hear(20, 65, SECOND + 7 * MS);
            assert_true(take(20, SECOND + 7 * MS, &effects));
        }
        assert_int_equal(step(WEIR_SHARE_RESERVE, 30, SECOND + (granted ? 7 : 33) * MS).say, WEIR_SHARE_WAIT);
    }
}

/* A part of what was asked for is all that the engine had; what fits the slack is not for it to refuse. */
static void batched__what_fits_here_is_not_refused_by_the_engine(void **state)
{
    (void)state;
    struct weir_share_effects effects;
    begin_with(&hourly, 1);
    step(WEIR_SHARE_RESERVE, 30, SECOND + 2 * MS);
    hear(5, 50, SECOND + 3 * MS);
    assert_true(take(5, SECOND + 3 * MS, &effects));
    assert_int_equal(step(WEIR_SHARE_RESERVE, 11, SECOND + 4 * MS).say, WEIR_SHARE_NO);
    assert_int_equal(step(WEIR_SHARE_RESERVE, 10, SECOND + 4 * MS).say, WEIR_SHARE_YES);
}

static void batched__what_was_granted_remains(void **state)
{
    (void)state;
    struct weir_share_effects effects;
    begin_with(&hourly, 1);
    step(WEIR_SHARE_RESERVE, 30, SECOND + 2 * MS);
    hear(30, 31, SECOND + 3 * MS);
    effects = step(WEIR_SHARE_RESERVE, 10, SECOND + 3 * MS);
    assert_int_equal(effects.verdict.remaining, 100 - 31 + 20);
    weir_batched_init(&key, UINT64_C(1) << WEIR_SHARE_STINT_BITS);
    effects = step(WEIR_SHARE_RESERVE, 101, SECOND + 4 * MS); /* nothing is known */
    assert_int_equal(effects.say, WEIR_SHARE_NO);
    assert_int_equal(effects.verdict.remaining, 0);
}

/* The smallest slack: a key that has nothing to tell does not speak. */
static void batched__who_has_nothing_to_tell_is_silent(void **state)
{
    (void)state;
    begin_with(&hourly, 1);
    options.slack = 1;
    step(WEIR_SHARE_TICK, 0, 2 * SECOND);
    hear(0, 1, 2 * SECOND + MS);
    struct weir_share_effects effects = step(WEIR_SHARE_TICK, 0, 3 * SECOND);
    assert_false(effects.send);
    assert_true(effects.idle);
}

/* Also while an ask is under way, and when its deadline has passed. */
static void batched__what_is_cancelled_is_set_aside_no_more(void **state)
{
    (void)state;
    begin_with(&hourly, 1);
    step(WEIR_SHARE_RESERVE, 3, SECOND + 2 * MS);
    step(WEIR_SHARE_RESERVE, 30, SECOND + 2 * MS);
    assert_int_equal(key.ahead, 3);
    step(WEIR_SHARE_CANCEL, 3, SECOND + 3 * MS);
    assert_int_equal(key.ahead, 0);
    hear(30, 31, SECOND + 4 * MS);
    step(WEIR_SHARE_RESERVE, 30, SECOND + 4 * MS);
    step(WEIR_SHARE_TICK, 0, 100 * SECOND);
    assert_int_equal(key.dead, 30);
    step(WEIR_SHARE_CANCEL, 10, 100 * SECOND);
    assert_int_equal(key.dead, 20);
    assert_int_equal(step(WEIR_SHARE_COMMIT, 5, 100 * SECOND).say, WEIR_SHARE_NO);
    assert_int_equal(key.dead, 15);
}

/* Though nothing is held or owed yet: the answer may bring something. */
static void batched__who_has_asked_is_not_idle(void **state)
{
    (void)state;
    begin_with(&hourly, 1);
    weir_batched_init(&key, UINT64_C(1) << WEIR_SHARE_STINT_BITS);
    struct weir_share_effects effects = step(WEIR_SHARE_RESERVE, 1, 2 * SECOND);
    assert_int_equal(effects.say, WEIR_SHARE_WAIT);
    assert_true(effects.send);
    assert_false(effects.idle);
}

/* What is granted too late to be spent is the engine's to charge: what is told next is told under another stint. */
static void batched__an_answer_that_came_too_late_ends_the_stint(void **state)
{
    (void)state;
    begin_with(&hourly, 1);
    assert_true(step(WEIR_SHARE_RESERVE, 30, SECOND + 2 * MS).send);
    step(WEIR_SHARE_LEAVE, 0, SECOND + 2 * MS);
    const uint64_t stint = key.stint;
    const struct weir_share_answer answer = {
        .stint = stint, .seq = key.seq, .granted = 30, .hold_ns = MS, .capacity = 100, .used = 31
    };
    const struct weir_share_event event = { .kind = WEIR_SHARE_HEARD, .seq = key.seq, .answer = &answer };
    struct weir_share_effects effects;
    step(WEIR_SHARE_RESERVE, 1, SECOND + 2 * MS);
    step(WEIR_SHARE_COMMIT, 1, SECOND + 2 * MS);
    step(WEIR_SHARE_LEAVE, 0, SECOND + 2 * MS);
    weir_batched_step(&key, &options, &event, SECOND + 4 * MS, &effects);
    assert_int_equal(key.pocket, 0);
    assert_int_equal(key.stint, stint + 1);
    assert_true(effects.send);
    assert_int_equal(effects.ask.stint, stint + 1);
}

/* By its own, older definition 48 of the hour's 100 are left, and of the bucket's 100 units some come back each 100 ms:
 * the engine goes by a newer one, of which nothing is left. */
static void batched__by_a_newer_definition_the_engine_decides(void **state)
{
    (void)state;
    static const struct weir_limit_spec bucket = {
        .algorithm = WEIR_TOKEN_BUCKET, .count = 10, .period_ns = SECOND, .burst = 100
    };
    const struct weir_limit_spec *const specs[] = { &hourly, &bucket };
    for (size_t i = 0; i < 2; i++) {
        struct weir_share_effects effects;
        begin_with(specs[i], 1);
        assert_true(take(1, SECOND + 2 * MS, &effects));
        assert_true(step(WEIR_SHARE_TICK, 0, SECOND + 102 * MS).send);
        hear_of_newer(0, 52, SECOND + 103 * MS);
        for (uint64_t now_ns = SECOND + 104 * MS; now_ns < 2 * SECOND; now_ns += 40 * MS) {
            effects = step(WEIR_SHARE_RESERVE, 1, now_ns);
            assert_int_equal(effects.say, WEIR_SHARE_WAIT);
            assert_true(effects.send);
            assert_int_equal(effects.ask.want, 1);
            hear_of_newer(0, 52, now_ns + MS);
            effects = step(WEIR_SHARE_RESERVE, 1, now_ns + MS);
            assert_int_equal(effects.say, WEIR_SHARE_NO);
            assert_int_equal(effects.verdict.remaining, 0);
            assert_int_equal(effects.verdict.retry_after_ns, 30 * MS); /* as the engine says */
        }
        assert_int_equal(step(WEIR_SHARE_RESERVE, 2, 3 * SECOND).say, WEIR_SHARE_WAIT);
        hear_of_newer(2, 52, 3 * SECOND + MS);
        assert_true(take(2, 3 * SECOND + MS, &effects)); /* what it grants is spent */
        assert_int_equal(step(WEIR_SHARE_RESERVE, 1, 3 * SECOND + MS).say, WEIR_SHARE_WAIT);
        weir_batched_follow(&key); /* now the node has it, too */
        hear(0, 53, 3 * SECOND + 2 * MS);
        assert_true(take(1, 3 * SECOND + 33 * MS, &effects));
        assert_int_equal(key.unsettled, 1);
    }
}

/* A tenth of the hold is the margin, a nanosecond at least. */
static void batched__is_not_held_to_the_last(void **state)
{
    (void)state;
    static const uint64_t holds[][2] = { { 5, 4 }, { 19, 18 }, { 20, 18 }, { SECOND, SECOND - SECOND / 10 } };
    for (size_t i = 0; i < sizeof holds / sizeof holds[0]; i++) {
        begin_with(&hourly, 1);
        step(WEIR_SHARE_RESERVE, 30, 2 * SECOND);
        const struct weir_share_answer answer = {
            .stint = key.stint, .seq = key.seq, .granted = 30, .hold_ns = holds[i][0], .capacity = 100, .used = 31
        };
        const struct weir_share_event event = { .kind = WEIR_SHARE_HEARD, .seq = key.seq, .answer = &answer };
        struct weir_share_effects effects;
        weir_batched_step(&key, &options, &event, 2 * SECOND + 1, &effects);
        assert_int_equal(key.deadline_ns, 2 * SECOND + holds[i][1]);
        assert_int_equal(key.valid_ns, 2 * SECOND + holds[i][1]);
    }
}

/* In the finest ticks and in coarse ones. */
static void batched__reckons_with_what_has_refilled(void **state)
{
    (void)state;
    static const struct weir_limit_spec fast = {
        .algorithm = WEIR_TOKEN_BUCKET, .count = 10000000, .period_ns = SECOND, .burst = 1000
    };
    begin_with(&fast, 500);
    assert_true(options.limit.shift > 0);
    const struct weir_share_effects effects = step(WEIR_SHARE_RESERVE, 1, SECOND + MS + 10000); /* 100 are back */
    assert_int_equal(effects.say, WEIR_SHARE_YES);
    assert_int_equal(effects.verdict.remaining, 1000 - 500 + 100 - 1);
    assert_int_equal(step(WEIR_SHARE_RESERVE, 4, SECOND + MS + 10000).verdict.remaining, 1000 - 500 + 100 - 5);
}

/* What is refused is so for a nanosecond at least. */
static void batched__a_refusal_without_a_wait_ends_at_once(void **state)
{
    (void)state;
    begin_with(&hourly, 1);
    step(WEIR_SHARE_RESERVE, 30, 2 * SECOND);
    const struct weir_share_answer answer = {
        .stint = key.stint, .seq = key.seq, .hold_ns = 60 * SECOND, .capacity = 100, .used = 90
    };
    const struct weir_share_event event = { .kind = WEIR_SHARE_HEARD, .seq = key.seq, .answer = &answer };
    struct weir_share_effects effects;
    weir_batched_step(&key, &options, &event, 2 * SECOND + MS, &effects);
    assert_int_equal(key.refused_until_ns, 2 * SECOND + MS + 1);
}

/* Nobody waits for it any more. */
static void batched__a_repeated_answer_changes_nothing(void **state)
{
    (void)state;
    begin_with(&hourly, 1);
    step(WEIR_SHARE_RESERVE, 30, SECOND + 2 * MS);
    hear(30, 31, SECOND + 3 * MS);
    const struct weir_batched before = key;
    hear(30, 61, SECOND + 4 * MS);
    assert_int_equal(key.pocket, 30);
    assert_memory_equal(&key, &before, sizeof key);
}

/* A single unit that is held has a deadline as any number of them has. */
static void batched__of_what_is_held_a_unit_counts(void **state)
{
    (void)state;
    begin_with(&hourly, 1);
    options.interval_ns = 3600 * SECOND;
    options.lost_ns = 100 * SECOND;
    step(WEIR_SHARE_RESERVE, 30, 2 * SECOND);
    const uint64_t deadline_ns = 2 * SECOND + 54 * SECOND, stint = key.stint; /* a tenth of the hold is the margin */
    assert_int_equal(hear(1, 31, 4 * SECOND).wake_ns, 4 * SECOND + (deadline_ns - 4 * SECOND) / 2);
    assert_int_equal(step(WEIR_SHARE_RESERVE, 1, 5 * SECOND).say, WEIR_SHARE_YES);
    assert_true(step(WEIR_SHARE_TICK, 0, 30 * SECOND).wake_ns == deadline_ns);
    step(WEIR_SHARE_TICK, 0, deadline_ns - 1);
    assert_int_equal(key.stint, stint);
    step(WEIR_SHARE_TICK, 0, deadline_ns);
    assert_int_equal(key.stint, stint + 1);
    assert_int_equal(key.dead, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(batched__the_next_ask_is_for_those_who_waited),
        cmocka_unit_test(batched__only_the_ask_under_way_can_be_lost),
        cmocka_unit_test(batched__a_stale_answer_is_a_loss),
        cmocka_unit_test(batched__a_refusal_ends_with_a_grant_or_its_time),
        cmocka_unit_test(batched__what_fits_here_is_not_refused_by_the_engine),
        cmocka_unit_test(batched__what_was_granted_remains),
        cmocka_unit_test(batched__who_has_nothing_to_tell_is_silent),
        cmocka_unit_test(batched__what_is_cancelled_is_set_aside_no_more),
        cmocka_unit_test(batched__who_has_asked_is_not_idle),
        cmocka_unit_test(batched__an_answer_that_came_too_late_ends_the_stint),
        cmocka_unit_test(batched__is_not_held_to_the_last),
        cmocka_unit_test(batched__reckons_with_what_has_refilled),
        cmocka_unit_test(batched__a_refusal_without_a_wait_ends_at_once),
        cmocka_unit_test(batched__a_repeated_answer_changes_nothing),
        cmocka_unit_test(batched__of_what_is_held_a_unit_counts),
        cmocka_unit_test(batched__by_a_newer_definition_the_engine_decides),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
