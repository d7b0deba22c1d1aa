/* SPDX-License-Identifier: Apache-2.0
 *
 * The engine in the simulator: core/share's ledger of the one key, and the messages between it and nodes. */
#pragma once

#include "core/share/ledger.h"
#include "sim/world.h"

#define WEIR_SIM_LOG_ROOM 4096 /* units that a sliding log may hold, debts included: four times what run.h allows */

struct weir_sim_ask {
    bool decide; /* one exact decision of `cost` for `request`; else `ask` */
    uint32_t request;
    uint64_t cost;
    struct weir_share_ask ask;
};

struct weir_sim_answer {
    bool decide, admitted;
    uint32_t request;
    struct weir_share_answer answer;
};

struct weir_sim_ledger {
    struct weir_ledger ledger;
    struct weir_ledger_stint stints[WEIR_LEDGER_STINTS_MAX];
    uint64_t times[WEIR_SIM_LOG_ROOM];
};

void weir_sim_ledger_start(struct weir_sim *sim, void *state);
/* As the plan has it planted, with the ask's sequence number changed. */
void weir_sim_ledger_ask(struct weir_sim *sim, struct weir_sim_ledger *host, struct weir_share_ask *ask,
                         struct weir_share_answer *ret_answer);
void weir_sim_ledger_message(struct weir_sim *sim, void *state, uint32_t from, const void *data, size_t size);

/* What the ledger remembers of a stint, or NULL. */
const struct weir_ledger_stint *weir_sim_ledger_stint(const struct weir_sim_ledger *ledger, uint64_t stint);
