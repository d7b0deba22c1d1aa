/* SPDX-License-Identifier: Apache-2.0
 *
 * The moves of a waiter (core/lease/waiter.h), all of them, against a list. Its queue is in test_waiting.c. */
#include "core/lease/waiter.h"

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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(waiter__moves_only_as_the_list_says),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
