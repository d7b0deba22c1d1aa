/* SPDX-License-Identifier: Apache-2.0
 *
 * The small interface behind which each lock engine stands: sqlite (embedded), postgres, etcd. Synchronous and in
 * batches: `apply` decides all ops it is handed, makes them durable together, and returns. One thread calls it (the
 * manager's, manager.h), so that while one batch is being made durable the next one gathers: group commit by itself.
 * Only `quick` may be called from others, at any time between opening and destroy.
 *
 * Every engine: tokens of a name strictly increase (docs/semantics-tests.md, "Locks"); a grant is durable before apply
 * returns; an op of which it cannot say whether it was done is WEIR_EUNKNOWN, never granted nor denied; one that was
 * certainly not done is WEIR_EDOWN. A renewal is accepted only while the lease has not ended, by the engine's own
 * clock. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "weir/fence.h"
#include "weir/limiter.h"
#include "weir/lock.h"

#define WEIR_LOCK_BATCH_MAX 1024

enum weir_lock_verb {
    WEIR_LOCK_ACQUIRE, /* never waits here: waiting is the manager's. The same owner again keeps its token, and its
                          lease never becomes shorter */
    WEIR_LOCK_RENEW,
    WEIR_LOCK_RELEASE, /* need not be durable */
    WEIR_LOCK_SHOW,
    WEIR_LOCK_RAISE, /* the incarnation, above `seen`: an operator restored the store. No name, no owner. */
};

enum weir_lock_said {
    WEIR_LOCK_GRANTED, /* yes. ACQUIRE, RENEW: held by the owner, see token and lease_ns. RELEASE: it was held, and is
                          free now. SHOW: held by `holder`. RAISE: done, see token.incarnation */
    WEIR_LOCK_HELD,    /* ACQUIRE: by another, for lease_ns more if it does not renew; token and holder are its */
    WEIR_LOCK_FREE,    /* RENEW, RELEASE: not held by this owner (any more): lost. SHOW: by nobody */
};

struct weir_lock_op {
    enum weir_lock_verb verb;
    struct weir_slice name, owner; /* 1 to WEIR_LOCK_NAME_MAX, _OWNER_MAX bytes: checked by whoever submits */
    uint64_t ttl_ns;               /* ACQUIRE, RENEW */
    uint64_t seen; /* ACQUIRE, RAISE: the highest incarnation seen at a resource; 0 = none. An ACQUIRE with one above
                      the engine's raises it first; the holder with one above its token's gets a new number, because
                      it can write nothing under the old one */
    /* afterwards */
    int status;      /* 0, and `said` is valid; WEIR_EDOWN; WEIR_EUNKNOWN; WEIR_ERANGE (`seen`) */
    uint64_t due_ns; /* CLOCK_MONOTONIC; not 0, with WEIR_EDOWN: it asks for a raise, or for a new token while the store
                        needs one, which would outrun the clock and is not made before. It alone is not done: no batch
                        waits for a raise, and whatever gives out no new token is answered meanwhile */
    enum weir_lock_said said;
    struct weir_token token;
    uint64_t lease_ns; /* as the store gave it, from when it decided */
    char holder[WEIR_LOCK_OWNER_MAX];
    size_t holder_size;
};

static inline bool weir_lock_slice_same(struct weir_slice a, struct weir_slice b)
{
    return a.size == b.size && memcmp(a.data, b.data, a.size) == 0;
}

/* What an engine shows of itself: /metrics, GET /v1/nodes, `weir lock show`. */
struct weir_lock_engine_state {
    const char *name; /* "sqlite", … */
    bool up;
    uint64_t incarnation;
    uint64_t raised;   /* times since the start, the start's own included */
    uint64_t batches;  /* made durable */
    uint64_t failures; /* batches that ended in WEIR_EDOWN or WEIR_EUNKNOWN */
    char fault[160];   /* for people; without secrets. Of the last failure until a batch is done again; or what is to be
                          known of a store that works */
};

struct weir_lock_engine {
    const struct weir_lock_engine_ops *ops;
};

struct weir_lock_engine_ops {
    /* Decides ops[0 … count), at most WEIR_LOCK_BATCH_MAX, in their order. Blocks at most until the deadline
     * (CLOCK_MONOTONIC) and a little: whatever is not known by then is EUNKNOWN or EDOWN. */
    void (*apply)(struct weir_lock_engine *engine, struct weir_lock_op *ops, size_t count, uint64_t deadline_ns);
    void (*state)(struct weir_lock_engine *engine, struct weir_lock_engine_state *ret_state);
    void (*destroy)(struct weir_lock_engine *engine);
    /* Optional: the manager has had nothing to do for a second. What was put off is done now. */
    void (*idle)(struct weir_lock_engine *engine);
    /* Optional: decides one op from memory, if that needs no store and waits for nothing, not even for the batch that
     * is being made durable. False: ask apply; nothing was done. Never RAISE. */
    bool (*quick)(struct weir_lock_engine *engine, struct weir_lock_op *op);
    /* Optional: how many locks are held now, whoever asks, without waiting. False: it cannot be told now. */
    bool (*held)(struct weir_lock_engine *engine, uint64_t *ret_held);
    /* Others may change the store too: a wait looks again so often. 0: nobody else does. */
    uint64_t poll_ns;
};
