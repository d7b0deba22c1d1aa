/* SPDX-License-Identifier: Apache-2.0
 *
 * What the script leaves to core: a value written under other parameters, units held by nodes, a node's ask. The script
 * answered with the values; core computes, and encode sends what is to be written in their place. */
#pragma once

#include "limits/redis/layout.h"
#include "limits/redis/script.h"

static inline struct weir_remote_op *weir_script_op_of(const struct weir_script_call *call, size_t i)
{
    return &call->request->ops[call->ops[i].index];
}

/* A limit that is off is not there. Its keys can still be given back to and forgotten. */
static inline bool weir_script_is_off(const struct weir_script_call *call, size_t i)
{
    enum weir_remote_verb verb = call->request->verb;
    return (verb == WEIR_REMOTE_DECIDE || verb == WEIR_REMOTE_PEEK) &&
           weir_script_op_of(call, i)->limit->spec.mode == WEIR_MODE_OFF;
}

/* The event of an op at now_ns, its calendar window included. */
struct weir_event weir_script_event(const struct weir_remote_op *op, uint64_t now_ns);

/* The verdict of a limit that is off: as if it were not there. */
void weir_script_judge_off(const struct weir_remote_op *op, struct weir_verdict *ret_verdict);

/* Together, of the ops of one call: whether all admit; whether one of them never would. Reads ops[].judged. */
bool weir_script_all(const struct weir_script_call *call, bool *ret_never);

/* A refused attempt that is charged all the same. */
bool weir_script_drains(const struct weir_remote_op *op, bool all, bool never);

/* Takes the values of a reply "A". 0: nothing is to be written, the ops are filled. WEIR_EAGAIN: call's ops say what is
 * to be written, or another window was all that was missing. WEIR_ECORRUPT, WEIR_ENOMEM. */
int weir_script_core(struct weir_script_call *call, struct layout_reader *reply);

/* Forgets what was to be written. */
void weir_script_core_forget(struct weir_script_call *call);
