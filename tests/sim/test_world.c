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

/* A host that counts what comes at the moments at which it is least expected. */
struct counter {
    uint64_t started_ns, timer_ns, doors, ticks;
};

static void counter_start(struct weir_sim *sim, uint32_t node, void *state)
{
    struct counter *self = state;
    self->started_ns = weir_sim_now(sim, node);
    weir_sim_wake(sim, node, self->timer_ns = self->started_ns + MS);
}

static void counter_timer(struct weir_sim *sim, uint32_t node, void *state)
{
    struct counter *self = state;
    weir_sim_wake(sim, node, self->timer_ns = weir_sim_now(sim, node) + MS);
}

static enum weir_sim_say counter_request(struct weir_sim *sim, uint32_t node, void *state,
                                         const struct weir_sim_request *request)
{
    struct counter *self = state;
    uint64_t now_ns = weir_sim_now(sim, node);
    (void)request;
    bool before = now_ns >= self->timer_ns, after = self->timer_ns == now_ns + MS;
    self->doors += now_ns == self->started_ns;
    self->ticks += before ? 1 : after ? 1000000 : 0;
    return WEIR_SIM_NO;
}

static const char *counter_audit(struct weir_sim *sim)
{
    const struct counter *self = weir_sim_state(sim, 0);
    if (self->doors != 1)
        return "nobody stood at the door";
    /* 10 s of 1 ms, half of them busy, half of those before: give or take, 2,500 each; one more was the door's */
    bool before = self->ticks % 1000000 > 2000 && self->ticks % 1000000 < 3000;
    return before && self->ticks / 1000000 > 2000 && self->ticks / 1000000 < 3000 ? NULL : "ticks bring no requests";
}

static const struct weir_sim_mode counter = { .name = "counter",
                                              .node_size = sizeof(struct counter),
                                              .start = counter_start,
                                              .timer = counter_timer,
                                              .request = counter_request,
                                              .audit = counter_audit };

static void requests_come_in_ticks_and_at_the_door(void **state)
{
    (void)state;
    static struct weir_sim_result result;
    struct weir_sim_plan plan;
    struct weir_fault fault;
    weir_sim_plan_init(&plan, &counter);
    plan.nodes = 1;
    plan.door = true;
    plan.tick_ppm = 500000;
    plan.calm_ns = 1;
    assert_int_equal(weir_sim_run(&plan, NULL, &result, &fault), 0);
    assert_string_equal(result.why, "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_timer_that_is_set_anew_replaces_the_one_before),
        cmocka_unit_test(requests_come_in_ticks_and_at_the_door),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
