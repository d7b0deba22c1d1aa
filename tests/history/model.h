/* SPDX-License-Identifier: Apache-2.0
 *
 * What one lock, or one value behind its fence, may do: sequential specifications. A model is handed a state and an
 * operation and says whether the operation, taking effect now, may give that result, and the state after it.
 *
 *   mutex      owner-aware: only the owner releases and renews; who holds it may not acquire it again
 *   reentrant  the same, but the owner may acquire again, and keeps its token; one release frees it: weir does not
 *              count
 *   fenced     reentrant, and the tokens of new grants strictly increase
 *   register   behind a fence: install raises the mark, a write needs the mark's own token, a read sees the last write,
 *              and no write was made `from` a value that is not there any more (a lost update)
 *
 * A lease ends by itself: not before its earliest end, and not after its latest where one is given. Each operation
 * takes effect at the earliest instant that those before it leave; that leaves most to those after it. */
#pragma once

#include "history.h"

/* Words only: compared and hashed as bytes. */
struct model_state {
    uint64_t now_ns;              /* the last operation took effect here at the earliest */
    uint64_t holder;              /* 0: free; MODEL_ANYBODY: an older store came back */
    uint64_t incarnation, number; /* lock: of the last grant. register: the mark */
    uint64_t open;                /* the last grant's token is not known; it is at least that */
    uint64_t end_min_ns;          /* of the lease */
    uint64_t end_max_ns;          /* 0: nothing is said */
    uint64_t lease_max_ns;
    uint64_t previous; /* who had it last, if nobody has had it since */
    uint64_t value;    /* of the register */
};
#define MODEL_ANYBODY UINT64_MAX
#define MODEL_VARIANTS 2

struct model {
    const char *name;
    unsigned verbs; /* that it is about, by bits */
    bool reentrant, fenced;
    /* In one of MODEL_VARIANTS ways (what nobody recorded may or may not have happened before). An unknown operation:
     * as it would take effect; that it never did is the caller's business. */
    bool (*step)(const struct model *model, const struct model_state *state, const struct history_op *op,
                 unsigned variant, struct model_state *ret_next);
};

const struct model *model_find(const char *name); /* NULL: there is none */
