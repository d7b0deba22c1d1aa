/* SPDX-License-Identifier: Apache-2.0
 *
 * A Redis that runs weir's script, as nodes see it: the values under its keys, which expire, the definitions of limits
 * beside them, and what the script answers to the bytes of a call (engine/redis/layout.h). tests/redis compares the
 * script itself with core, operation by operation; here core decides in its place. Of the script's verbs it knows those
 * that requests and nodes' asks need. State is plain bytes. */
#ifndef WEIR_SIM_SCRIPT_DOUBLE_H
#define WEIR_SIM_SCRIPT_DOUBLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/share/ledger.h"
#include "engine/redis/layout.h"
#include "sim/run.h"

#define WEIR_SIM_SCRIPT_KEYS 12
#define WEIR_SIM_SCRIPT_OPS 2 /* of a call */
#define WEIR_SIM_SCRIPT_NOTES WEIR_SIM_SCRIPT_KEYS
#define WEIR_SIM_SCRIPT_NOTE_MAX 1024
#define WEIR_SIM_SCRIPT_VALUE_MAX                                                                                      \
    (LAYOUT_VALUE + LAYOUT_STINT * WEIR_LEDGER_STINTS_MAX + LAYOUT_RUN * 2 * (size_t)WEIR_SIM_LOG_MAX)
#define WEIR_SIM_SCRIPT_REPLY_MAX (64 + WEIR_SIM_SCRIPT_OPS * (WEIR_SIM_SCRIPT_VALUE_MAX + 64))

struct weir_sim_script_value {
    uint64_t until_ns; /* it expires then */
    uint32_t size;     /* 0: there is none */
    uint8_t bytes[WEIR_SIM_SCRIPT_VALUE_MAX];
};

struct weir_sim_script_note {
    uint64_t id[2];
    uint32_t size;
    uint8_t bytes[WEIR_SIM_SCRIPT_NOTE_MAX];
};

/* All zero: empty. */
struct weir_sim_script {
    struct weir_sim_script_value values[WEIR_SIM_SCRIPT_KEYS];
    struct weir_sim_script_note notes[WEIR_SIM_SCRIPT_NOTES];
};

/* EVALSHA at the server's time now_ns, of the keys that end in these numbers, with the argument. Returns the reply's
 * size; ret_charged: units by key, of what was charged now. */
size_t weir_sim_script_run(struct weir_sim_script *script, uint64_t now_ns, const uint32_t *keys, uint32_t count,
                           const uint8_t *argument, size_t size, uint8_t *ret_reply,
                           uint64_t ret_charged[WEIR_SIM_SCRIPT_KEYS]);

/* What stands under the name; made empty if there is none, NULL without room. */
struct weir_sim_script_note *weir_sim_script_note_of(struct weir_sim_script *script, const uint64_t id[2]);

#endif
