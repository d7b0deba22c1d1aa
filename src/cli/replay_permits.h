/* SPDX-License-Identifier: Apache-2.0
 *
 * Permits that are out, by the time at which their requests end: what a server hears from its callers, a log tells by
 * its durations. */
#pragma once

#include "weir/limiter.h"

struct weir_replay_permits;

struct weir_replay_permits *weir_replay_permits_create(void);
void weir_replay_permits_destroy(struct weir_replay_permits *permits); /* NULL is allowed */
/* False: there are too many. The lease will end it. */
bool weir_replay_permit_add(struct weir_replay_permits *permits, const struct weir_key *key, uint64_t permit,
                            uint64_t end_ns);
/* Gives back, at their time, those whose requests have ended by now. */
void weir_replay_permits_end(struct weir_replay_permits *permits, struct weir_limiter *limiter, uint64_t now_ns);
