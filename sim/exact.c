/* SPDX-License-Identifier: Apache-2.0
 *
 * exact: one decision of the ledger per request. A request that is not answered in time is refused (on_failure:
 * closed); what was charged for it decays. */
#include <string.h>

#include "base/assert.h"
#include "sim/ledger_host.h"
#include "sim/modes.h"

static void give_up_later(struct weir_sim *sim, uint32_t node)
{
    uint64_t next_ns = weir_sim_give_up(sim, node, weir_sim_plan_of(sim)->deadline_ns);
    weir_sim_wake(sim, node, next_ns > 0 ? weir_sim_now(sim, node) + next_ns : 0);
}

static enum weir_sim_say request(struct weir_sim *sim, uint32_t node, void *state,
                                 const struct weir_sim_request *request)
{
    (void)state;
    struct weir_sim_ask ask = { .decide = true, .request = request->id, .cost = request->cost };
    weir_sim_send(sim, node, WEIR_SIM_ENGINE, &ask, sizeof ask);
    weir_sim_wake_by(sim, node, weir_sim_now(sim, node) + weir_sim_plan_of(sim)->deadline_ns);
    return WEIR_SIM_WAIT;
}

static void message(struct weir_sim *sim, uint32_t node, void *state, uint32_t from, const void *data, size_t size)
{
    (void)state, (void)from;
    struct weir_sim_answer answer;
    weir_assert(size == sizeof answer);
    memcpy(&answer, data, sizeof answer);
    weir_sim_answer(sim, node, answer.request, answer.admitted);
}

static void timer(struct weir_sim *sim, uint32_t node, void *state)
{
    (void)state;
    give_up_later(sim, node);
}

const struct weir_sim_mode weir_sim_exact = {
    .name = "exact",
    .engine_size = sizeof(struct weir_sim_ledger),
    .request = request,
    .message = message,
    .timer = timer,
    .engine_start = weir_sim_ledger_start,
    .engine_message = weir_sim_ledger_message,
    .engine_decides = true,
    .calm_ppm = weir_sim_nine_tenths,
};
