/* SPDX-License-Identifier: Apache-2.0
 *
 * The checker: by how much has the limit been passed so far, exactly, from what was admitted alone. It shares no code
 * with core/: integers, O(1) per admission (a log: amortised).
 *
 * token_bucket, leaky_bucket: admitted in [s, t] <= b + n (t - s) / p for every s. The largest excess over all s is
 *     D - b with D := max(0, D - n dt / p) + units; D is kept in units of 1/p.
 * fixed_window, sliding_counter: units per aligned window <= n. Without an engine each node aligns the windows of a
 *     sliding_counter to its own clock, and they begin when they like: then the units since the window of the node that
 *     admits began (weir_sim_check_admit_since).
 * sliding_log: units in every (t - p, t] <= n.
 *
 * What a mode may admit once more per event (a crash, a loss of state) is an allowance. It counts for every [s, t]
 * with s up to `grace` after the event, and for no later one: so an overshoot is excused by what happened in its own
 * time and never by something long ago. */
#pragma once

#include "base/checked.h"
#include "weir/limit.h"

#define WEIR_SIM_WINDOWS 64     /* remembered at once; wall clocks of nodes differ by less */
#define WEIR_SIM_ALLOWANCES 128 /* more share the last one's place */

struct weir_sim_spend {
    uint64_t at_ns, units;
    uint32_t node;
};

struct weir_sim_check {
    struct weir_limit_spec limit;
    uint64_t capacity;
    weir_u128 debt; /* buckets: D * p */
    uint64_t at_ns;
    struct {
        uint64_t id, units;
    } windows[WEIR_SIM_WINDOWS];
    struct weir_sim_spend *spends; /* log, and admit_since: a ring, by time */
    uint32_t spends_room, spends_head, spends_count;
    uint64_t spends_units;
    struct weir_sim_spend allowances[WEIR_SIM_ALLOWANCES]; /* at_ns: the end of its grace */
    uint32_t allowances_count;
};

void weir_sim_check_init(struct weir_sim_check *check, const struct weir_limit_spec *limit);
void weir_sim_check_deinit(struct weir_sim_check *check);

/* `units` were admitted at `at_ns` (never going back), in `window` of the calendar. Returns by how many units the limit
 * is passed now. */
uint64_t weir_sim_check_admit(struct weir_sim_check *check, uint64_t at_ns, uint64_t window, uint64_t units);

/* `spend` was admitted, decided at its time, which may be a little before that of others given already. Returns by how
 * many units the nodes of the mask passed `most` from since_ns to then. */
uint64_t weir_sim_check_admit_since(struct weir_sim_check *check, const struct weir_sim_spend *spend, uint64_t since_ns,
                                    uint64_t nodes, uint64_t most);

/* `units` more, because of something that happened now. */
void weir_sim_check_allow(struct weir_sim_check *check, uint64_t at_ns, uint64_t grace_ns, uint64_t units);
/* What counts now of another check's allowances counts here, too. */
void weir_sim_check_allow_as(struct weir_sim_check *check, const struct weir_sim_check *other);
/* Allowances that count now. */
uint64_t weir_sim_check_allowed(const struct weir_sim_check *check);
