/* SPDX-License-Identifier: Apache-2.0
 *
 * What a replay (serve/rules_replay.h) found, as JSON: limit by limit, with what is not known said. Thread rule: plain
 * values. */
#pragma once

#include "rules/rules.h"
#include "serve/rules_replay.h"

#define WEIR_REPLAY_NONE UINT32_MAX

enum weir_replay_set_of { WEIR_REPLAY_TEXT, WEIR_REPLAY_IN_FORCE, WEIR_REPLAY_SETS };

/* A text as a server would have it. */
struct weir_replay_rules {
    struct weir_config *config;
    struct weir_limiter *limiter;
    struct weir_rules *rules;
    uint32_t *of_slot; /* limits; WEIR_REPLAY_NONE: none has the name of that slot */
    uint32_t *slot_of; /* of each limit; WEIR_REPLAY_NONE: none has its name */
};

/* Of one limit. */
struct weir_replay_tally {
    uint64_t asked, refused, keys;
    uint64_t varied, varied_refused;                            /* of them, of keys with other numbers: not replayed */
    uint64_t would[WEIR_REPLAY_SETS], second[WEIR_REPLAY_SETS]; /* refused; of the second that is under way */
    bool one_counter;
};

struct weir_replay {
    const struct weir_replay_of *of;
    struct weir_replay_rules sets[WEIR_REPLAY_SETS];
    struct weir_past_record *records;
    struct weir_past_span span;
    size_t count, slots;
    struct weir_replay_tally *tallies; /* by slot */
    uint64_t decisions, until_ns;
    bool cut; /* it took too long: the span ends where it was */
};

json_t *weir_rules_replay_tell(const struct weir_replay *replay);
