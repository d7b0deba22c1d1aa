/* SPDX-License-Identifier: Apache-2.0
 *
 * What the world promises its modes. */
#include "sim/world.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "sim/run.h"

#define MS (WEIR_NS_PER_SECOND / 1000)

static enum weir_sim_say refuse(struct weir_sim *sim, uint32_t node, void *state,
                                const struct weir_sim_request *request)
{
    (void)sim, (void)node, (void)state, (void)request;
    return WEIR_SIM_NO;
}

struct waker {
    uint64_t due_ns, timers;
};

/* A host that waits for something that is far, and then for something that comes sooner, again and again. */
static void wake_again(struct weir_sim *sim, uint32_t node, void *state)
{
    struct waker *self = state;
    uint64_t now_ns = weir_sim_now(sim, node);
    assert_true(now_ns >= self->due_ns); /* none comes early, and none twice */
    self->due_ns = now_ns + MS;
    self->timers++;
    weir_sim_wake(sim, node, now_ns + 1000 * MS);
    weir_sim_wake(sim, node, self->due_ns);
}

static const struct weir_sim_mode waker = {
    .name = "waker", .node_size = sizeof(struct waker), .start = wake_again, .timer = wake_again, .request = refuse
};

static void a_timer_that_is_set_anew_replaces_the_one_before(void **state)
{
    (void)state;
    static struct weir_sim_result result;
    struct weir_sim_plan plan;
    struct weir_fault fault;
    weir_sim_plan_init(&plan, &waker);
    plan.nodes = 1;
    assert_int_equal(weir_sim_run(&plan, NULL, &result, &fault), 0);
    assert_in_range(result.events, plan.duration_ns / MS - 100, 2 * plan.duration_ns / MS + 100);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_timer_that_is_set_anew_replaces_the_one_before),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
