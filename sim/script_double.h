/* SPDX-License-Identifier: Apache-2.0
 *
 * A Redis that runs weir's script, as nodes see it: the values under its keys, which expire, the definitions of limits
 * beside them, and what the script answers to the bytes of a call (limits/redis/layout.h). Here core decides in the
 * script's place; tests/redis puts a Redis with the script itself there, under the same plans, and compares the two. Of
 * the script's verbs it knows those that requests and nodes' asks need. State is plain bytes. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/share/ledger.h"
#include "limits/redis/layout.h"
#include "sim/run.h"

#define WEIR_SIM_SCRIPT_KEYS 12
#define WEIR_SIM_SCRIPT_OPS 2 /* of a call */
#define WEIR_SIM_SCRIPT_NOTES WEIR_SIM_SCRIPT_KEYS
#define WEIR_SIM_SCRIPT_NOTE_MAX 1024
/* Of a log: twice the runs of the largest that is drawn, by a reload too. */
#define WEIR_SIM_SCRIPT_VALUE_MAX                                                                                      \
    (LAYOUT_VALUE + LAYOUT_STINT * WEIR_LEDGER_STINTS_MAX + LAYOUT_RUN * 3 * (size_t)WEIR_SIM_LOG_MAX)
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
    bool careless; /* planted: what was computed is written though another was faster */
};

/* EVALSHA at the server's time, of the keys that end in these numbers, with the argument. */
struct weir_sim_script_call {
    uint64_t now_ns;
    const uint32_t *keys;
    uint32_t count;
    const uint8_t *argument;
    size_t size;
};

/* Its reply, of WEIR_SIM_SCRIPT_REPLY_MAX bytes. */
struct weir_sim_script_reply {
    uint8_t *bytes;
    size_t size;
    uint64_t charged[WEIR_SIM_SCRIPT_KEYS]; /* units by key, of what was charged now */
};

/* ret_reply->bytes is the caller's. */
void weir_sim_script_run(struct weir_sim_script *script, const struct weir_sim_script_call *call,
                         struct weir_sim_script_reply *ret_reply);

/* What stands in the double's place, if a plan names it: a server with the script itself. It keeps `script` as the
 * server's state is, and takes what it finds there for the server's state: a failover changes it. Returns what is
 * wrong, or NULL. */
struct weir_sim_script_server {
    const char *(*run)(struct weir_sim_script_server *server, struct weir_sim_script *script,
                       const struct weir_sim_script_call *call, struct weir_sim_script_reply *ret_reply);
};

/* By what 40 letters the double's answers name a value; the script's name is its SHA1. */
void weir_sim_script_name(const struct weir_sim_script_value *value, uint8_t ret_name[LAYOUT_SEEN]);

/* What core makes of the states in an answer D, limit by limit. Of a log's nothing: its entries are not in it. */
void weir_sim_script_judge(const struct weir_sim_script_call *call, const struct weir_sim_script_reply *reply,
                           struct weir_verdict ret_verdicts[WEIR_SIM_SCRIPT_OPS]);

/* Whether two values say the same at this time. The script moves the entries of a log only now and then. */
bool weir_sim_script_alike(const struct weir_sim_script_value *a, const struct weir_sim_script_value *b,
                           uint64_t now_ns);

/* Whether the value was written under this definition. */
bool weir_sim_script_is_of(const struct weir_sim_script_value *value, const struct weir_limit_spec *spec);

/* Units of it that nodes hold. */
uint64_t weir_sim_script_held(const struct weir_sim_script_value *value);

/* By which definition the value was written; 0: nothing is used of it. */
uint32_t weir_sim_script_revision(const struct weir_sim_script_value *value, uint64_t now_ns);

/* What stands under the name; made empty if there is none, NULL without room. */
struct weir_sim_script_note *weir_sim_script_note_of(struct weir_sim_script *script, const uint64_t id[2]);
