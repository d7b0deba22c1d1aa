/* SPDX-License-Identifier: Apache-2.0
 *
 * The circuit breaker. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "core/breaker/breaker.h"
#include "phases.h"
#include "random.h"

#define MS UINT64_C(1000000)
#define HALF (UINT64_C(1) << 63) /* a random number in the middle: no spread */

static const struct weir_breaker_options options = {
    .failures_max = 5,
    .window_min = 20,
    .window_ns = 1000 * MS,
    .wait_min_ns = 100 * MS,
    .wait_max_ns = 5000 * MS,
    .probes = 3,
    .ramp_ns = 500 * MS,
};
static struct weir_breaker breaker;
static uint64_t now_ns;

static void begin(void)
{
    now_ns = 1000 * MS;
    weir_breaker_init(&breaker, now_ns);
}

static bool allow(uint64_t random)
{
    uint64_t generation;
    return weir_breaker_allow(&breaker, &options, now_ns, random, &generation);
}

/* Asks, and is told so. */
static bool ask(bool success)
{
    uint64_t generation;
    if (!weir_breaker_allow(&breaker, &options, now_ns, 0, &generation))
        return false;
    weir_breaker_told(&breaker, &options, now_ns, HALF, generation, success);
    return true;
}

static void open_it(void)
{
    for (int i = 0; i < 5; i++)
        assert_true(ask(false));
    assert_int_equal(breaker.state, WEIR_BREAKER_OPEN);
}

/* Waits until a probe may go. */
static void wait_half_open(void)
{
    now_ns = breaker.until_ns;
}

static void breaker__opens_after_failures_in_a_row(void **state)
{
    (void)state;
    begin();
    for (int i = 0; i < 4; i++)
        ask(false);
    ask(true);
    for (int i = 0; i < 4; i++)
        ask(false);
    assert_int_equal(breaker.state, WEIR_BREAKER_CLOSED);
    ask(false);
    assert_int_equal(breaker.state, WEIR_BREAKER_OPEN);
    assert_false(allow(0));
}

static void breaker__opens_when_half_of_a_window_fails(void **state)
{
    (void)state;
    begin();
    for (int i = 0; i < 19; i++)
        ask(i % 2 == 0);
    assert_int_equal(breaker.state, WEIR_BREAKER_CLOSED);
    ask(false);
    assert_int_equal(breaker.state, WEIR_BREAKER_OPEN);

    begin(); /* the same failures, spread over more than a window */
    for (int i = 0; i < 200; i++) {
        ask(i % 2 == 0);
        now_ns += 100 * MS;
    }
    assert_int_equal(breaker.state, WEIR_BREAKER_CLOSED);
}

static void breaker__waits_twice_as_long_each_time_up_to_a_bound(void **state)
{
    (void)state;
    begin();
    open_it();
    uint64_t expected = 100 * MS;
    for (int i = 0; i < 10; i++) {
        assert_int_equal(breaker.until_ns - now_ns, expected);
        wait_half_open();
        assert_true(ask(false));
        expected = expected * 2 < 5000 * MS ? expected * 2 : 5000 * MS;
    }
}

static void breaker__waits_are_spread_by_a_quarter_each_way(void **state)
{
    (void)state;
    struct test_random random = { test_random_seed() };
    uint64_t least = UINT64_MAX, most = 0;
    for (int i = 0; i < 1000; i++) {
        begin();
        for (int j = 0; j < 5; j++)
            weir_breaker_told(&breaker, &options, now_ns, test_random_u64(&random), 0, false);
        uint64_t wait_ns = breaker.until_ns - now_ns;
        least = wait_ns < least ? wait_ns : least;
        most = wait_ns > most ? wait_ns : most;
    }
    assert_true(least >= 75 * MS && least < 80 * MS);
    assert_true(most <= 125 * MS && most > 120 * MS);
}

static void breaker__half_open_lets_one_probe_at_a_time_through(void **state)
{
    (void)state;
    begin();
    open_it();
    wait_half_open();
    assert_true(allow(0));
    assert_int_equal(breaker.state, WEIR_BREAKER_HALF_OPEN);
    assert_false(allow(0));
    weir_breaker_told(&breaker, &options, now_ns, HALF, breaker.generation, true);
    assert_true(allow(0));
    assert_false(allow(0));
}

static void breaker__a_probe_that_is_never_told_has_failed(void **state)
{
    (void)state;
    begin();
    open_it();
    wait_half_open();
    uint64_t lost, first_ns;
    assert_true(weir_breaker_allow(&breaker, &options, now_ns, HALF, &lost));
    first_ns = now_ns;
    now_ns = first_ns + options.wait_max_ns - 1;
    assert_false(allow(HALF));
    assert_int_equal(breaker.state, WEIR_BREAKER_HALF_OPEN);
    now_ns = first_ns + options.wait_max_ns;
    assert_false(allow(HALF));
    assert_int_equal(breaker.state, WEIR_BREAKER_OPEN);
    assert_int_equal(breaker.until_ns - now_ns, 200 * MS); /* the second wait in a row */
    wait_half_open();
    assert_true(allow(HALF));
    weir_breaker_told(&breaker, &options, now_ns, HALF, lost, true); /* too late */
    assert_false(allow(HALF));
    now_ns += options.wait_max_ns - 1; /* its own time, not the first one's */
    weir_breaker_told(&breaker, &options, now_ns, HALF, breaker.generation, true);
    assert_true(ask(true) && ask(true));
    assert_int_equal(breaker.state, WEIR_BREAKER_CLOSED);
}

static void breaker__a_probe_that_was_not_sent_says_nothing(void **state)
{
    (void)state;
    begin();
    open_it();
    wait_half_open();
    assert_true(allow(0));
    weir_breaker_unsent(&breaker, breaker.generation - 1); /* an older one */
    assert_false(allow(0));
    weir_breaker_unsent(&breaker, breaker.generation);
    assert_int_equal(breaker.state, WEIR_BREAKER_HALF_OPEN);
    assert_int_equal(breaker.probes_good, 0);
    assert_true(allow(0));
}

static void breaker__closes_after_probes_in_a_row(void **state)
{
    (void)state;
    begin();
    open_it();
    wait_half_open();
    assert_true(ask(true) && ask(true));
    assert_int_equal(breaker.state, WEIR_BREAKER_HALF_OPEN);
    assert_true(ask(true));
    assert_int_equal(breaker.state, WEIR_BREAKER_CLOSED);
}

static void breaker__what_waited_does_not_come_at_once(void **state)
{
    (void)state;
    begin();
    open_it();
    wait_half_open();
    for (int i = 0; i < 3; i++)
        ask(true);
    struct test_random random = { test_random_seed() };
    uint64_t through[6] = { 0 };
    for (int step = 0; step < 6; step++, now_ns += 100 * MS) {
        for (int i = 0; i < 1000; i++)
            through[step] += allow(test_random_u64(&random));
    }
    assert_in_range(through[0], 50, 150); /* a tenth */
    assert_in_range(through[1], 130, 270);
    assert_in_range(through[3], 530, 670);
    assert_int_equal(through[5], 1000);
}

static void breaker__an_answer_to_an_older_ask_says_nothing(void **state)
{
    (void)state;
    begin();
    uint64_t old;
    assert_true(weir_breaker_allow(&breaker, &options, now_ns, 0, &old));
    open_it();
    wait_half_open();
    assert_true(allow(0));
    weir_breaker_told(&breaker, &options, now_ns, HALF, old, false);
    weir_breaker_told(&breaker, &options, now_ns, HALF, old, true);
    assert_int_equal(breaker.state, WEIR_BREAKER_HALF_OPEN);
    assert_int_equal(breaker.probes_good, 0);
    assert_false(allow(0)); /* the probe is still out */
}

static void breaker__after_it_held_the_next_opening_is_a_first_one(void **state)
{
    (void)state;
    begin();
    open_it();
    wait_half_open();
    ask(false);
    wait_half_open();
    for (int i = 0; i < 3; i++)
        ask(true);
    now_ns += 2000 * MS;
    ask(true);
    open_it();
    assert_int_equal(breaker.until_ns - now_ns, 100 * MS);
}

/* A window of it, for half of one may fail yet. */
static void breaker__that_closed_a_moment_ago_has_not_held(void **state)
{
    (void)state;
    begin();
    open_it();
    wait_half_open();
    ask(false);
    assert_int_equal(breaker.until_ns - now_ns, 200 * MS);
    wait_half_open();
    for (int i = 0; i < 3; i++)
        ask(true);
    now_ns += 800 * MS;
    ask(true);
    open_it();
    assert_int_equal(breaker.until_ns - now_ns, 400 * MS);
}

static void breaker__states_have_names(void **state)
{
    (void)state;
    assert_string_equal(weir_breaker_name(WEIR_BREAKER_CLOSED), "closed");
    assert_string_equal(weir_breaker_name(WEIR_BREAKER_OPEN), "open");
    assert_string_equal(weir_breaker_name(WEIR_BREAKER_HALF_OPEN), "half_open");
}

static void breaker__moves_only_as_the_list_says(void **state)
{
    (void)state;
    static const char may[] = " closed>open open>half_open half_open>open half_open>closed ";
    assert_moves(weir_breaker_phases, WEIR_BREAKER_STATES, may);
}

/* However young the clock is. */
static void breaker__that_never_opened_lets_all_through(void **state)
{
    (void)state;
    now_ns = 1;
    weir_breaker_init(&breaker, now_ns);
    assert_true(allow(UINT64_MAX));
}

/* What failed before it opened counts no more once it has closed. */
static void breaker__begins_to_count_anew(void **state)
{
    (void)state;
    begin();
    open_it();
    wait_half_open();
    assert_true(ask(true) && ask(true) && ask(true));
    assert_int_equal(breaker.state, WEIR_BREAKER_CLOSED);
    assert_true(breaker.failures == 0 && breaker.window_asked == 0 && breaker.window_failed == 0);
    assert_int_equal(breaker.window_start_ns, now_ns);
    for (int i = 0; i < 4; i++)
        assert_true(ask(false));
    assert_int_equal(breaker.state, WEIR_BREAKER_CLOSED);
    assert_true(ask(false));
    assert_int_equal(breaker.state, WEIR_BREAKER_OPEN);
}

/* However short the first wait. */
static void breaker__waits_twice_as_long_each_time(void **state)
{
    (void)state;
    struct weir_breaker_options shortest = options;
    uint64_t generation;
    shortest.wait_min_ns = 1;
    begin();
    open_it();
    breaker.wait_ns = 0;
    breaker.state = WEIR_BREAKER_CLOSED;
    for (uint64_t wait_ns = 1; wait_ns < 64; wait_ns *= 2) {
        if (breaker.state == WEIR_BREAKER_CLOSED) {
            for (int i = 0; i < 5; i++)
                weir_breaker_told(&breaker, &shortest, now_ns, HALF, breaker.generation, false);
        } else {
            now_ns = breaker.until_ns;
            assert_true(weir_breaker_allow(&breaker, &shortest, now_ns, HALF, &generation));
            weir_breaker_told(&breaker, &shortest, now_ns, HALF, generation, false);
        }
        assert_int_equal(breaker.wait_ns, wait_ns);
    }
}

/* Good probes of before it opened again say nothing. */
static void breaker__counts_its_probes_anew(void **state)
{
    (void)state;
    begin();
    open_it();
    for (int again = 0; again < 2; again++) {
        wait_half_open();
        for (unsigned good = 1; good < options.probes; good++)
            assert_true(ask(true));
        assert_int_equal(breaker.state, WEIR_BREAKER_HALF_OPEN);
        assert_true(ask(again));
        assert_int_equal(breaker.state, again ? WEIR_BREAKER_CLOSED : WEIR_BREAKER_OPEN);
        assert_int_equal(breaker.probes_good, 0);
    }
}

/* A window that is over is followed by one that counts as the first did. */
static void breaker__half_of_a_later_window_opens_it(void **state)
{
    (void)state;
    begin();
    now_ns += 2 * options.window_ns;
    for (unsigned i = 0; i < options.window_min; i++) {
        assert_int_equal(breaker.state, WEIR_BREAKER_CLOSED);
        assert_true(ask(i % 2));
    }
    assert_int_equal(breaker.state, WEIR_BREAKER_OPEN);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(breaker__half_of_a_later_window_opens_it),
        cmocka_unit_test(breaker__counts_its_probes_anew),
        cmocka_unit_test(breaker__opens_after_failures_in_a_row),
        cmocka_unit_test(breaker__opens_when_half_of_a_window_fails),
        cmocka_unit_test(breaker__waits_twice_as_long_each_time_up_to_a_bound),
        cmocka_unit_test(breaker__waits_are_spread_by_a_quarter_each_way),
        cmocka_unit_test(breaker__half_open_lets_one_probe_at_a_time_through),
        cmocka_unit_test(breaker__a_probe_that_is_never_told_has_failed),
        cmocka_unit_test(breaker__a_probe_that_was_not_sent_says_nothing),
        cmocka_unit_test(breaker__closes_after_probes_in_a_row),
        cmocka_unit_test(breaker__that_never_opened_lets_all_through),
        cmocka_unit_test(breaker__begins_to_count_anew),
        cmocka_unit_test(breaker__waits_twice_as_long_each_time),
        cmocka_unit_test(breaker__what_waited_does_not_come_at_once),
        cmocka_unit_test(breaker__an_answer_to_an_older_ask_says_nothing),
        cmocka_unit_test(breaker__after_it_held_the_next_opening_is_a_first_one),
        cmocka_unit_test(breaker__that_closed_a_moment_ago_has_not_held),
        cmocka_unit_test(breaker__states_have_names),
        cmocka_unit_test(breaker__moves_only_as_the_list_says),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
