/* SPDX-License-Identifier: Apache-2.0
 *
 * `sharing: leased`, a node's side: how much it asks for, and what goes back. */
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
    step(WEIR_SHARE_LOST, 0, 2 * SECOND + 3 * MS);
    assert_int_equal(key.doubt, effects.ask.want);
    assert_int_equal(key.forfeited, 0);
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
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
