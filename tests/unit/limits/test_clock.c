/* SPDX-License-Identifier: Apache-2.0
 *
 * The limiter's own clock (limits/clock.h) over a counter and a clock of the test's: what it tells is behind the clock
 * by less than a millisecond, or at it, and never goes back, whatever the counter does. */
#include <pthread.h>
#include <time.h>

#include "base/checked.h"
#include "base/timing.h"
#include "fixture.h"
#include "limits/clock.h"
#include "limits/memory.h"
#include "random.h"

#define US UINT64_C(1000)
#define REACH (100 * MS)

/* A machine. Both of its clocks go on while they are read. */
static struct machine {
    uint64_t now_ns;
    uint64_t ticks;
    uint64_t hz_m;      /* ticks in 1,000 ns */
    uint64_t remainder; /* of a tick */
    uint64_t read_ns;   /* how long a reading takes */
    unsigned asked;     /* the clock */
    bool trusted;
} machine;

static struct weir_clock the_clock;
static uint64_t told_ns;

static void pass(uint64_t ns)
{
    weir_u128 parts = (weir_u128)ns * machine.hz_m + machine.remainder;
    machine.now_ns += ns;
    machine.ticks += (uint64_t)(parts / 1000);
    machine.remainder = (uint64_t)(parts % 1000);
}

static uint64_t read_ticks(void *context)
{
    (void)context;
    pass(5);
    return machine.ticks;
}

static uint64_t read_clock(void *context)
{
    (void)context;
    machine.asked++;
    pass(machine.read_ns / 2);
    uint64_t now_ns = machine.now_ns;
    pass(machine.read_ns / 2);
    return now_ns;
}

static bool is_trusted(void *context)
{
    (void)context;
    return machine.trusted;
}

static const struct weir_clock_source source = { .ticks = read_ticks, .now_ns = read_clock, .trusted = is_trusted };

static void begin(void)
{
    machine =
        (struct machine){ .now_ns = T0, .ticks = UINT64_C(1) << 40, .hz_m = 2900, .read_ns = 20, .trusted = true };
    told_ns = 0;
    assert_true(weir_clock_init(&the_clock, WEIR_CLOCK_AUTO, &source));
}

/* Never back. */
static uint64_t tell(void)
{
    uint64_t ns = weir_clock_at(&the_clock, read_ticks(NULL));
    assert_true(ns >= told_ns);
    told_ns = ns;
    return ns;
}

/* Nor ahead, and not far behind. */
static void tell_truly(void)
{
    uint64_t ns = tell();
    assert_true(ns <= machine.now_ns);
    assert_true(machine.now_ns - ns < MS);
}

/* Until it goes by the counter. */
static void settle(void)
{
    for (int i = 0; i < 100 && the_clock.reach == 0; i++) {
        pass(MS);
        tell_truly();
    }
    assert_true(the_clock.reach > 0);
}

static void clock__costs_a_reading_of_the_clock_every_100_ms(void **state)
{
    (void)state;
    begin();
    settle();
    machine.asked = 0;
    for (int i = 0; i < 100000; i++) {
        pass(10 * US);
        tell_truly();
    }
    assert_in_range(machine.asked, 8, 10);
    weir_clock_deinit(&the_clock);
}

/* The kernel slews its clock by 500 parts in a million either way, and decisions come as they like. */
static void clock__is_less_than_a_millisecond_behind_and_never_ahead(void **state)
{
    (void)state;
    struct test_random dice = { test_random_seed() };
    for (int run = 0; run < 200; run++) {
        begin();
        uint64_t base = 1000 + test_random_below(&dice, 4000), longest = MS << test_random_below(&dice, 10);
        machine.hz_m = base;
        for (int i = 0; i < 2000; i++) {
            if (test_random_below(&dice, 20) == 0)
                machine.hz_m = base - base / 2000 + test_random_below(&dice, base / 1000 + 1);
            pass(test_random_below(&dice, test_random_below(&dice, 5) ? 10 * US : longest));
            tell_truly();
            if (test_random_below(&dice, 50) == 0)
                weir_clock_check(&the_clock);
        }
        assert_true(the_clock.counted);
        assert_int_equal(the_clock.strikes, 0);
        weir_clock_deinit(&the_clock);
    }
}

/* Back, or forward by more than an anchor is used for: a machine that slept, or was moved. */
static void clock__is_right_at_once_after_a_jump_of_the_counter(void **state)
{
    (void)state;
    const int64_t jumps_ms[] = { -3600000, -1000, -150, 500, 1000, 3600000 };
    for (size_t i = 0; i < sizeof jumps_ms / sizeof *jumps_ms; i++) {
        begin();
        for (int often = 0; often < 10; often++) {
            settle();
            machine.ticks += (uint64_t)(jumps_ms[i] * 2900000);
            tell_truly();
            pass(MS);
            tell_truly();
        }
        assert_true(the_clock.counted);
        weir_clock_deinit(&the_clock);
    }
}

/* Nobody can see that before the anchor is renewed. It is ahead by no more than it jumped, stands still until the clock
 * has caught up, and the third time the counter is used no more. */
static void clock__does_not_go_back_after_it_was_ahead(void **state)
{
    (void)state;
    begin();
    for (unsigned often = 1; often <= 3; often++) {
        settle();
        assert_true(the_clock.counted);
        machine.ticks += 50 * 2900000;
        uint64_t most_ns = 0;
        for (int i = 0; i < 1000; i++) {
            pass(MS);
            uint64_t ns = tell();
            most_ns = weir_max_u64(most_ns, ns > machine.now_ns ? ns - machine.now_ns : 0);
        }
        assert_in_range(most_ns, 40 * MS, 51 * MS);
        tell_truly();
        assert_int_equal(the_clock.strikes, often);
    }
    assert_false(the_clock.counted);
    for (int i = 0; i < 1000; i++) {
        pass(MS);
        tell_truly();
    }
    weir_clock_deinit(&the_clock);
}

/* Nor does a rate that was measured over a sleep, in which the counter ran on, or began anew. */
static void clock__is_right_if_the_machine_sleeps_before_it_is_used(void **state)
{
    (void)state;
    for (int back = 0; back < 2; back++)
        for (unsigned after_ms = 0; after_ms < 50; after_ms++) {
            begin();
            for (unsigned i = 0; i < 400; i++) {
                if (i == after_ms)
                    machine.ticks = back ? 1000 : machine.ticks + UINT64_C(3600000) * 2900000;
                pass(MS);
                tell_truly();
            }
            assert_true(the_clock.reach > 0);
            assert_int_equal(the_clock.strikes, 0);
            weir_clock_deinit(&the_clock);
        }
}

/* By less than the anchor is old, which nobody can see either: it goes back with the counter, which none does that the
 * kernel goes by, and is right once the anchor is renewed. */
static void clock__goes_back_with_the_counter_and_no_further(void **state)
{
    (void)state;
    begin();
    settle();
    pass(80 * MS);
    tell_truly();
    machine.ticks -= 50 * 2900000;
    uint64_t ns = weir_clock_at(&the_clock, read_ticks(NULL));
    assert_true(ns <= machine.now_ns && machine.now_ns - ns < 51 * MS);
    told_ns = ns;
    pass(REACH);
    tell_truly();
    assert_int_equal(the_clock.strikes, 1);
    weir_clock_deinit(&the_clock);
}

static void clock__measures_anew_when_the_counter_changes_its_speed(void **state)
{
    (void)state;
    for (int faster = 0; faster < 2; faster++) {
        begin();
        settle();
        machine.hz_m = faster ? 5800 : 1450;
        for (int i = 0; i < 400; i++) {
            pass(MS);
            uint64_t ns = tell(), apart = ns > machine.now_ns ? ns - machine.now_ns : machine.now_ns - ns;
            assert_true(apart <= 101 * MS);
        }
        settle();
        for (int i = 0; i < 400; i++) {
            pass(MS);
            tell_truly();
        }
        assert_int_equal(the_clock.strikes, 1);
        weir_clock_deinit(&the_clock);
    }
}

/* weir_limiter_maintain looks. */
static void clock__is_right_after_a_look_at_a_counter_that_stands_still(void **state)
{
    (void)state;
    begin();
    settle();
    machine.hz_m = 0;
    pass(HOUR);
    assert_true(machine.now_ns - tell() > HOUR - SECOND);
    weir_clock_check(&the_clock);
    for (int i = 0; i < 1000; i++) {
        pass(MS);
        tell_truly();
    }
    machine.hz_m = 2900;
    settle();
    weir_clock_deinit(&the_clock);
}

/* The process was stopped: both went on. */
static void clock__is_right_at_once_after_an_hour_without_a_decision(void **state)
{
    (void)state;
    begin();
    settle();
    pass(HOUR);
    tell_truly();
    assert_true(the_clock.reach > 0);
    assert_int_equal(the_clock.strikes, 0);
    weir_clock_deinit(&the_clock);
}

static void clock__asks_the_kernel_again_whether_it_goes_by_the_counter(void **state)
{
    (void)state;
    begin();
    settle();
    machine.trusted = false;
    weir_clock_check(&the_clock);
    pass(SECOND);
    weir_clock_check(&the_clock);
    assert_false(the_clock.counted);
    machine.hz_m = 9000;
    for (int i = 0; i < 1000; i++) {
        pass(MS);
        tell_truly();
    }
    weir_clock_deinit(&the_clock);
}

/* Readings that take long make no anchor. */
static void clock__is_told_by_the_clock_where_reading_takes_long(void **state)
{
    (void)state;
    begin();
    machine.read_ns = 2 * US;
    for (int i = 0; i < 1000; i++) {
        pass(MS);
        tell_truly();
    }
    assert_int_equal(the_clock.reach, 0);
    machine.read_ns = 20;
    settle();
    machine.read_ns = 2 * US;
    for (int i = 0; i < 1000; i++) {
        pass(MS);
        tell_truly();
    }
    weir_clock_deinit(&the_clock);
}

/* While another thread renews the anchor the old one does, for four times as long; then it is waited for. */
static void clock__goes_by_the_old_anchor_while_it_is_renewed(void **state)
{
    (void)state;
    begin();
    settle();
    tell_truly();
    pthread_mutex_lock(&the_clock.mutex);
    machine.asked = 0;
    for (uint64_t since = MS; since < 4 * REACH - 20 * MS; since += MS) {
        pass(MS);
        tell_truly();
    }
    assert_int_equal(machine.asked, 0);
    pthread_mutex_unlock(&the_clock.mutex);
    pass(10 * US);
    tell_truly();
    assert_true(machine.asked > 0);
    weir_clock_deinit(&the_clock);
}

static void clock__is_the_one_that_was_asked_for(void **state)
{
    (void)state;
    begin();
    weir_clock_deinit(&the_clock);
    machine.trusted = false;
    assert_false(weir_clock_init(&the_clock, WEIR_CLOCK_TSC, &source));
    weir_clock_deinit(&the_clock);
    machine.trusted = true;
    const enum weir_clock_kind by_clock[] = { WEIR_CLOCK_MONOTONIC, WEIR_CLOCK_COARSE };
    for (size_t i = 0; i < 2; i++) {
        assert_true(weir_clock_init(&the_clock, by_clock[i], &source));
        for (machine.asked = 0; machine.asked < 100;) {
            unsigned asked = machine.asked;
            pass(MS);
            tell_truly();
            assert_int_equal(machine.asked, asked + 1);
        }
        weir_clock_deinit(&the_clock);
    }
    uint64_t before_ns = weir_timing_now(CLOCK_MONOTONIC_COARSE);
    const struct weir_clock_source coarse = weir_clock_machine(WEIR_CLOCK_COARSE);
    uint64_t ns = coarse.now_ns(NULL);
    assert_in_range(ns, before_ns, weir_timing_now(CLOCK_MONOTONIC_COARSE));
}

static void limiter__has_the_clock_of_its_options(void **state)
{
    (void)state;
    struct weir_fault fault;
    struct weir_limiter *limiter = NULL;
    struct weir_limiter_options options = { .memory_max = WEIR_MEMORY_MIN, .clock = 4 };
    assert_int_equal(weir_limiter_create(&options, &limiter, &fault), WEIR_EINVAL);
    assert_string_equal(fault.field, "clock");
    const struct weir_clock_source real = weir_clock_machine(WEIR_CLOCK_AUTO);
    const bool trusted = real.trusted(NULL);
    options.clock = WEIR_CLOCK_TSC;
    assert_int_equal(weir_limiter_create(&options, &limiter, &fault), trusted ? 0 : WEIR_EINVAL);
    if (trusted)
        weir_limiter_destroy(limiter);
    else
        assert_string_equal(fault.field, "clock");
    const uint64_t skews[] = { 0, MS, MS - 1, 1 };
    for (size_t i = 0; i < 5; i++) { /* where clocks may hardly disagree there is only one; at last not at all */
        options = (struct weir_limiter_options){ .memory_max = WEIR_MEMORY_MIN, .skew_none = i == 4 };
        options.skew_max_ns = i < 4 ? skews[i] : 0;
        assert_int_equal(weir_limiter_create(&options, &limiter, &fault), 0);
        assert_int_equal(limiter->clock.counted, trusted && i < 2);
        weir_limiter_destroy(limiter);
    }
}

static void limiter__looks_at_its_clock_as_it_maintains(void **state)
{
    (void)state;
    struct weir_fault fault;
    struct weir_limiter *limiter = NULL;
    const struct weir_limiter_options options = { .memory_max = WEIR_MEMORY_MIN, .clock = WEIR_CLOCK_MONOTONIC };
    const struct weir_time time = at(T0);
    assert_int_equal(weir_limiter_create(&options, &limiter, &fault), 0);
    begin();
    settle();
    limiter->clock = the_clock;
    machine.hz_m = 0;
    pass(SECOND);
    (void)weir_limiter_maintain(limiter, &time, 1);
    assert_int_equal(limiter->clock.strikes, 1);
    weir_limiter_destroy(limiter);
}

static bool stop, went_wrong;

/* It went back, or is ahead. */
static void *read_on(void *context)
{
    struct weir_clock *clock = context;
    uint64_t before_ns = 0;
    while (!__atomic_load_n(&stop, __ATOMIC_RELAXED)) {
        uint64_t ns = weir_clock_now(clock), now_ns = weir_timing_now(CLOCK_MONOTONIC);
        if (ns < before_ns || ns > now_ns)
            __atomic_store_n(&went_wrong, true, __ATOMIC_RELAXED);
        before_ns = ns;
    }
    return NULL;
}

/* The real machine: on no thread is it ever back, or ahead of the clock that is read behind it. */
static void clock__is_never_ahead_on_any_thread(void **state)
{
    (void)state;
    pthread_t threads[4];
    const struct weir_clock_source real = weir_clock_machine(WEIR_CLOCK_AUTO);
    assert_true(weir_clock_init(&the_clock, WEIR_CLOCK_AUTO, &real));
    __atomic_store_n(&stop, false, __ATOMIC_RELAXED);
    for (size_t i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, read_on, &the_clock), 0);
    for (int i = 0; i < 70; i++) {
        nanosleep(&(struct timespec){ .tv_nsec = 10000000 }, NULL);
        weir_clock_check(&the_clock);
    }
    __atomic_store_n(&stop, true, __ATOMIC_RELAXED);
    for (size_t i = 0; i < 4; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    assert_false(__atomic_load_n(&went_wrong, __ATOMIC_RELAXED));
    weir_clock_deinit(&the_clock);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(clock__costs_a_reading_of_the_clock_every_100_ms),
        cmocka_unit_test(clock__is_less_than_a_millisecond_behind_and_never_ahead),
        cmocka_unit_test(clock__is_right_at_once_after_a_jump_of_the_counter),
        cmocka_unit_test(clock__does_not_go_back_after_it_was_ahead),
        cmocka_unit_test(clock__is_right_if_the_machine_sleeps_before_it_is_used),
        cmocka_unit_test(clock__goes_back_with_the_counter_and_no_further),
        cmocka_unit_test(clock__measures_anew_when_the_counter_changes_its_speed),
        cmocka_unit_test(clock__is_right_after_a_look_at_a_counter_that_stands_still),
        cmocka_unit_test(clock__is_right_at_once_after_an_hour_without_a_decision),
        cmocka_unit_test(clock__asks_the_kernel_again_whether_it_goes_by_the_counter),
        cmocka_unit_test(clock__is_told_by_the_clock_where_reading_takes_long),
        cmocka_unit_test(clock__goes_by_the_old_anchor_while_it_is_renewed),
        cmocka_unit_test(clock__is_the_one_that_was_asked_for),
        cmocka_unit_test(limiter__has_the_clock_of_its_options),
        cmocka_unit_test(limiter__looks_at_its_clock_as_it_maintains),
        cmocka_unit_test(clock__is_never_ahead_on_any_thread),
    };
    return cmocka_run_group_tests_name("clock", tests, NULL, NULL);
}
