/* SPDX-License-Identifier: Apache-2.0
 *
 * Timers go in the order of their times, none early, none that was stopped. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "random.h"
#include "serve/timer.h"

#define TIMERS 500

struct waiter {
    struct weir_timer timer;
    bool wanted;
    bool gone;
};

static struct waiter waiters[TIMERS];
static uint64_t last_due_ns;

static void on_due(struct weir_timer *timer, const struct weir_time *time)
{
    struct waiter *waiter = (struct waiter *)timer;
    assert_true(waiter->wanted);
    assert_false(waiter->gone);
    assert_true(timer->due.at_ns <= time->now_ns);
    assert_true(timer->due.at_ns >= last_due_ns);
    assert_int_equal(timer->due.place, 0);
    last_due_ns = timer->due.at_ns;
    waiter->gone = true;
}

/* Starts, moves and stops at random; every time is in the past or within 50 ms. */
static void shuffle(struct weir_timers *timers, struct test_random *random, uint64_t now_ns)
{
    for (int i = 0; i < 20 * TIMERS; i++) {
        struct waiter *waiter = &waiters[test_random_below(random, TIMERS)];
        waiter->timer.on_due = on_due;
        waiter->wanted = test_random_below(random, 3) != 0;
        if (waiter->wanted)
            assert_int_equal(weir_timer_start(timers, &waiter->timer, now_ns + test_random_below(random, 50000000)), 0);
        else
            weir_timer_stop(timers, &waiter->timer);
    }
}

static void in_order_and_not_early(void **state)
{
    (void)state;
    struct test_random random = { test_random_seed() };
    struct weir_timers timers;
    uv_loop_t loop;
    assert_int_equal(uv_loop_init(&loop), 0);
    assert_int_equal(weir_timers_init(&timers, &loop), 0);

    size_t wanted = 0;
    shuffle(&timers, &random, weir_time_read().now_ns);
    for (size_t i = 0; i < TIMERS; i++)
        wanted += waiters[i].wanted;
    assert_int_equal(timers.due.count, wanted);
    while (timers.due.count > 0)
        uv_run(&loop, UV_RUN_ONCE);
    for (size_t i = 0; i < TIMERS; i++)
        assert_int_equal(waiters[i].gone, waiters[i].wanted);

    weir_timers_stop(&timers);
    uv_run(&loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&loop), 0);
    weir_timers_deinit(&timers);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(in_order_and_not_early) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
