/* SPDX-License-Identifier: Apache-2.0
 *
 * The ways that ask the store about each request. */
#include <assert.h>
#include <string.h>

#include "sim/naive/naive.h"
#include "sim/naive/store.h"

static void send(struct weir_sim *sim, uint32_t node, enum naive_verb verb, uint32_t request, uint64_t counter)
{
    struct naive_command command = { .verb = verb, .request = request, .counter = counter };
    weir_sim_send(sim, node, WEIR_SIM_ENGINE, &command, sizeof(command));
}

static struct naive_command answer_of(const void *data, size_t size)
{
    struct naive_command command;
    assert(size == sizeof(command));
    memcpy(&command, data, sizeof(command));
    return command;
}

static void store_message(struct weir_sim *sim, void *state, uint32_t from, const void *data, size_t size)
{
    struct naive_command command = answer_of(data, size);
    uint64_t now_ns = weir_sim_now(sim, WEIR_SIM_ENGINE);
    uint64_t period_ns = weir_sim_plan_of(sim)->limit.period_ns;
    if (command.verb == NAIVE_COUNT && command.counter == 0)
        command.counter = now_ns / period_ns;
    weir_naive_store_run(state, &command, period_ns, now_ns);
    weir_sim_send(sim, WEIR_SIM_ENGINE, from, &command, sizeof(command));
}

/* ---- GET, compare, INCR ---- */

static enum weir_sim_say get_incr_request(struct weir_sim *sim, uint32_t node, void *state,
                                          const struct weir_sim_request *request)
{
    (void)state;
    send(sim, node, NAIVE_GET, request->id, 0);
    return WEIR_SIM_WAIT;
}

static void get_incr_message(struct weir_sim *sim, uint32_t node, void *state, uint32_t from, const void *data,
                             size_t size)
{
    (void)state, (void)from;
    struct naive_command answer = answer_of(data, size);
    if (answer.verb != NAIVE_GET)
        return; /* of the INCR: nobody looks at it */
    bool admitted = answer.value < weir_sim_plan_of(sim)->limit.count;
    if (admitted)
        send(sim, node, NAIVE_INCR, answer.request, 0);
    weir_sim_answer(sim, node, answer.request, admitted);
}

const struct weir_sim_mode weir_naive_get_incr = {
    .name = "naive-get-incr",
    .engine_size = sizeof(struct naive_store),
    .request = get_incr_request,
    .message = get_incr_message,
    .engine_message = store_message,
};

/* ---- INCR, then EXPIRE ---- */

static enum weir_sim_say incr_expire_request(struct weir_sim *sim, uint32_t node, void *state,
                                             const struct weir_sim_request *request)
{
    (void)state;
    send(sim, node, NAIVE_INCR, request->id, 0);
    return WEIR_SIM_WAIT;
}

static void incr_expire_message(struct weir_sim *sim, uint32_t node, void *state, uint32_t from, const void *data,
                                size_t size)
{
    (void)state, (void)from;
    struct naive_command answer = answer_of(data, size);
    if (answer.verb == NAIVE_INCR && answer.value == 1)
        send(sim, node, NAIVE_EXPIRE, answer.request, 0);
    else
        weir_sim_answer(sim, node, answer.request,
                        answer.verb == NAIVE_EXPIRE || answer.value <= weir_sim_plan_of(sim)->limit.count);
}

const struct weir_sim_mode weir_naive_incr_expire = {
    .name = "naive-incr-expire",
    .engine_size = sizeof(struct naive_store),
    .request = incr_expire_request,
    .message = incr_expire_message,
    .engine_message = store_message,
};

/* ---- a counter for each window ---- */

static enum weir_sim_say window_request(struct weir_sim *sim, uint32_t node, void *state,
                                        const struct weir_sim_request *request)
{
    (void)state;
    send(sim, node, NAIVE_COUNT, request->id, 0);
    return WEIR_SIM_WAIT;
}

static enum weir_sim_say node_clock_request(struct weir_sim *sim, uint32_t node, void *state,
                                            const struct weir_sim_request *request)
{
    (void)state;
    send(sim, node, NAIVE_COUNT, request->id, weir_sim_wall(sim, node) / weir_sim_plan_of(sim)->limit.period_ns);
    return WEIR_SIM_WAIT;
}

static void window_message(struct weir_sim *sim, uint32_t node, void *state, uint32_t from, const void *data,
                           size_t size)
{
    (void)state, (void)from;
    struct naive_command answer = answer_of(data, size);
    weir_sim_answer(sim, node, answer.request, answer.value <= weir_sim_plan_of(sim)->limit.count);
}

const struct weir_sim_mode weir_naive_window = {
    .name = "naive-window",
    .engine_size = sizeof(struct naive_store),
    .request = window_request,
    .message = window_message,
    .engine_message = store_message,
};

const struct weir_sim_mode weir_naive_node_clock = {
    .name = "naive-node-clock",
    .engine_size = sizeof(struct naive_store),
    .request = node_clock_request,
    .message = window_message,
    .engine_message = store_message,
};
