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
    struct weir_share_event event = { .kind = WEIR_SHARE_LOST, .seq = key.seq - 1 };
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(batched__the_next_ask_is_for_those_who_waited),
        cmocka_unit_test(batched__only_the_ask_under_way_can_be_lost),
        cmocka_unit_test(batched__a_stale_answer_is_a_loss),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
