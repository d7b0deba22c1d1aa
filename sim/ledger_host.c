/* SPDX-License-Identifier: Apache-2.0
 *
 * Has the engine's functions for the modes exact, leased and batched (exact.c, node_host.c). Each message is one ask or
 * one exact decision, and is answered at once. The planted mistake with sequence numbers is made here. The engine as a
 * Redis that runs the script is script_double.c. */
#include "sim/ledger_host.h"

#include <string.h>

#include "base/assert.h"

void weir_sim_ledger_start(struct weir_sim *sim, void *state)
{
    struct weir_sim_ledger *host = state;
    host->ledger.state = weir_state_fresh(weir_sim_limit(sim), weir_sim_now(sim, WEIR_SIM_ENGINE));
    host->ledger.state.log = (struct weir_log){ host->times, WEIR_SIM_LOG_ROOM, 0, 0 };
    host->ledger.stints = host->stints;
    host->ledger.stints_max = WEIR_LEDGER_STINTS_MAX;
}

const struct weir_ledger_stint *weir_sim_ledger_stint(const struct weir_sim_ledger *ledger, uint64_t stint)
{
    for (uint32_t i = 0; i < ledger->ledger.stints_count; i++) {
        if (ledger->stints[i].stint == stint)
            return &ledger->stints[i];
    }
    return NULL;
}

void weir_sim_ledger_ask(struct weir_sim *sim, struct weir_sim_ledger *host, struct weir_share_ask *ask,
                         struct weir_share_answer *ret_answer)
{
    const struct weir_limit *limit = weir_sim_limit(sim);
    struct weir_event event = weir_sim_event_now(sim, WEIR_SIM_ENGINE, 0);
    const struct weir_ledger_stint *known = weir_sim_ledger_stint(host, ask->stint);
    if (weir_sim_plan_of(sim)->plant == WEIR_SIM_PLANT_SEQUENCE && known && ask->seq <= known->seq)
        ask->seq = known->seq + 1;
    uint64_t owed = weir_ledger_owed(&host->ledger, ask);
    weir_assert(weir_ledger_room(limit, &host->ledger, &event, owed) <= WEIR_SIM_LOG_ROOM);
    weir_ledger_ask(limit, &host->ledger, &event, ask, ret_answer);
}

void weir_sim_ledger_message(struct weir_sim *sim, void *state, uint32_t from, const void *data, size_t size)
{
    struct weir_sim_ledger *host = state;
    const struct weir_limit *limit = weir_sim_limit(sim);
    struct weir_sim_ask ask;
    weir_assert(size == sizeof ask);
    memcpy(&ask, data, sizeof ask);
    struct weir_sim_answer answer = { .decide = ask.decide, .request = ask.request };
    if (ask.decide) {
        struct weir_verdict verdict;
        struct weir_event event = weir_sim_event_now(sim, WEIR_SIM_ENGINE, ask.cost);
        weir_assert(weir_ledger_room(limit, &host->ledger, &event, ask.cost) <= WEIR_SIM_LOG_ROOM);
        answer.admitted = weir_ledger_decide(limit, &host->ledger, &event, false, &verdict);
        if (answer.admitted)
            weir_sim_admitted(sim, ask.cost);
    } else {
        weir_sim_ledger_ask(sim, host, &ask.ask, &answer.answer);
    }
    weir_sim_send(sim, WEIR_SIM_ENGINE, from, &answer, sizeof answer);
}
