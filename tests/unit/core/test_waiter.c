/* SPDX-License-Identifier: Apache-2.0
 *
 * The moves of a waiter (core/lease/waiter.h), all of them, against a list; and a queue that is broken (waiting.h).
 * What a queue decides is in test_waiting.c. */
#include "core/lease/waiting.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "phases.h"

static void waiter__moves_only_as_the_list_says(void **state)
{
    (void)state;
    static const char may[] = " come>asked come>new come>answered come>done asked>come asked>put-off asked>answered"
                              " put-off>come new>new-asked new>waiting new>put-off new>answered new-asked>new"
                              " waiting>new waiting>waiting-asked waiting>overdue waiting>answered"
                              " waiting-asked>waiting waiting-asked>overdue overdue>waiting"
                              " answered>returning answered>done returning>answered done>returning ";
    assert_moves(weir_waiter_phases, WEIR_WAITER_PHASES, may);
}

static void waiting__a_list_that_is_cut_is_seen(void **state)
{
    (void)state;
    struct weir_waiting queue = { 0 };
    struct weir_waiter three[3] = { 0 };
    for (int i = 0; i < 3; i++)
        (void)weir_waiting_join(&queue, &three[i], NULL, 0);
    assert_null(weir_waiting_fault(&queue));
    queue.told = true;
    assert_string_equal(weir_waiting_fault(&queue), "of those who wait, some are forgotten");
    queue.told = false;
    three[1].next = NULL;
    assert_string_equal(weir_waiting_fault(&queue), "the list of those who wait is broken");
}

/* "For ever" is said of one who is asked: who may never be asked for may be in the last but one nanosecond. */
static void waiting__is_asked_again_before_the_end_of_time(void **state)
{
    (void)state;
    struct weir_waiting queue = { 0 };
    struct weir_waiter two[2] = { { .later_ns = UINT64_MAX }, { .later_ns = UINT64_MAX } };
    (void)weir_waiting_join(&queue, &two[0], NULL, 0);
    assert_null(weir_waiting_ask(&queue, 5));
    assert_true(queue.ask_ns == UINT64_MAX - 1);
    two[1].later_ns = 7;
    (void)weir_waiting_join(&queue, &two[1], NULL, 0);
    assert_null(weir_waiting_ask(&queue, 5));
    assert_int_equal(queue.ask_ns, 7);
    assert_ptr_equal(weir_waiting_ask(&queue, 7), &two[1]);
}

enum fault { NOBODY, BACK_LINK, PHASE, TOO_MANY, TOO_FEW, NOT_LAST, NEW, IDLE, ONE_ASKED, FAULTS };

/* Three wait, of whom the last has just come; then one thing is wrong. */
static void waiting__each_fault_is_seen(void **state)
{
    (void)state;
    static const char *const broken = "the list of those who wait is broken";
    static const char *const lost = "of those who wait, some are forgotten";
    for (enum fault wrong = NOBODY; wrong < FAULTS; wrong++) {
        struct weir_waiting queue = { 0 };
        struct weir_waiter three[3] = { 0 };
        for (int i = 0; i < 3; i++)
            (void)weir_waiting_join(&queue, &three[i], NULL, 0);
        for (int i = 0; i < 2; i++)
            weir_waiting_begin(&queue, &three[i]);
        if (wrong == BACK_LINK)
            three[2].previous = &three[0];
        if (wrong == PHASE)
            three[1].phase = WEIR_WAITER_PUT_OFF;
        queue.count = wrong == TOO_MANY ? 2 : wrong == TOO_FEW ? 4 : 3;
        if (wrong == NOT_LAST)
            queue.last = &three[1];
        queue.new_count += wrong == NEW;
        queue.told = wrong >= IDLE;
        if (wrong == ONE_ASKED)
            queue.asked = &three[0];
        const char *fault = weir_waiting_fault(&queue);
        if (wrong == NOBODY || wrong == ONE_ASKED)
            assert_null(fault);
        else
            assert_string_equal(fault, wrong == NEW || wrong == IDLE ? lost : broken);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(waiter__moves_only_as_the_list_says),
        cmocka_unit_test(waiting__a_list_that_is_cut_is_seen),
        cmocka_unit_test(waiting__each_fault_is_seen),
        cmocka_unit_test(waiting__is_asked_again_before_the_end_of_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
