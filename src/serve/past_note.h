/* SPDX-License-Identifier: Apache-2.0
 *
 * What one limit said of a request goes into the sample of the last hour (observe/past.h). Called by decide.c and
 * shared.c, on the loop's thread. */
#pragma once

#include "observe/past.h"
#include "serve/loop.h"

/* `admitted`: the request was, by all of its limits. One that another limit refused was not charged to this one: it is
 * left out. */
static inline void weir_past_of_limit(const struct weir_loop *loop, const struct weir_rule *rule, uint32_t slot,
                                      uint64_t hash, const struct weir_charge *charge,
                                      const struct weir_verdict *verdict, bool admitted, uint64_t now_ns)
{
    if (!loop->common->past || charge->cost == 0 || (!admitted && verdict->admitted))
        return;
    const struct weir_past_event event = { .hash = hash,
                                           .slot = slot,
                                           .one_counter = rule->one_counter,
                                           .varied = rule->variant[0] != '\0' || rule->level || rule->rollout > 0,
                                           .refused = !verdict->admitted,
                                           .cost = charge->cost };
    weir_past_note(loop->common->past, loop->number, &event, now_ns);
}
