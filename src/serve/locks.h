/* SPDX-License-Identifier: Apache-2.0
 *
 * Between the loops and the manager of locks (locks/manager.h): a loop asks, the manager's thread answers, and the
 * answer comes back to the loop that asked, through its inbox.
 *
 * An ask belongs to a connection. If that goes before it has its answer, the ask leaves the queue, and a grant that
 * comes all the same is given back, by the rule of weir_lock_manager_take_back.
 *
 * Thread rule: an ask is of one loop's thread; the service and its state are of any. */
#pragma once

#include "locks/engine.h"

struct weir_loop;
struct weir_lock_manager_state;
struct weir_lock_service;
struct weir_lock_ask;

struct weir_lock_service_options {
    struct weir_lock_engine *engine;
    size_t loops;
    size_t waiters_max;  /* 0 = the manager's default */
    uint64_t timeout_ns; /* 0 = the manager's default */
};

/* Takes over the engine, also on failure. WEIR_ENOMEM, WEIR_EIO. */
int weir_lock_service_create(const struct weir_lock_service_options *options, struct weir_lock_service **ret_service);
void weir_lock_service_destroy(struct weir_lock_service *service); /* after the loops have ended; NULL is allowed */
void weir_lock_service_state(struct weir_lock_service *service, struct weir_lock_manager_state *ret_state);

/* Leaves the store to another process: while nobody asks, and no loop takes a request. The engine is destroyed. */
void weir_lock_service_suspend(struct weir_lock_service *service);
/* The other one did not take it: goes on with the engine, taken over also on failure. WEIR_ENOMEM, WEIR_EIO. */
int weir_lock_service_go_on(struct weir_lock_service *service, struct weir_lock_engine *engine);

/* ---- of a loop; where there are no locks (common->locks is NULL), nothing ---- */

int weir_lock_inbox_open(struct weir_loop *loop);      /* WEIR_EIO */
void weir_lock_inbox_drain(struct weir_loop *loop);    /* who waits is answered, and nobody waits any more */
bool weir_lock_inbox_is_empty(struct weir_loop *loop); /* nobody asks */
void weir_lock_inbox_go_on(struct weir_loop *loop);    /* who asks may wait again */
void weir_lock_inbox_close(struct weir_loop *loop);    /* it has no connections any more */

/* ---- one ask ---- */

struct weir_lock_wish {
    enum weir_lock_verb verb;
    struct weir_slice name, owner; /* copied; their sizes were checked */
    uint64_t ttl_ns, wait_ns;
    uint64_t seen;
    bool has_reset; /* the caller has the right `reset`: `seen` may be more than a day above the clock */
};

/* `on_answer` is called once, on the loop's thread, never from within a call of the caller's; not at all where
 * weir_lock_ask_decided_at_once says yes. WEIR_ENOENT: there are no locks here; WEIR_ELIMIT: too many ask or wait;
 * WEIR_ERANGE: `seen` is more than a day above the clock, and the caller lacks the right `reset`; WEIR_ENOMEM. */
int weir_lock_ask_create(struct weir_loop *loop, const struct weir_lock_wish *wish,
                         void (*on_answer)(struct weir_lock_ask *ask, void *context), void *context,
                         struct weir_lock_ask **ret_ask);

/* Right after it was created: what needs no store is decided at once. */
bool weir_lock_ask_decided_at_once(const struct weir_lock_ask *ask);
/* Whether it is one that may have to wait for others. */
bool weir_lock_ask_waits(const struct weir_lock_ask *ask);
/* Once decided: what. Before, its name and owner. */
const struct weir_lock_op *weir_lock_ask_op(const struct weir_lock_ask *ask);
size_t weir_lock_ask_waiters(const struct weir_lock_ask *ask); /* SHOW */

/* One of these ends it: its answer has been written, or its connection goes first (before `on_answer` or after). */
void weir_lock_ask_end(struct weir_lock_ask *ask);
void weir_lock_ask_abandon(struct weir_lock_ask *ask);

/* ---- for those who answer ---- */

/* A lease is told in whole ms, never longer than it is; what remains of another's is never told shorter. */
static inline uint64_t weir_lease_told_ms(uint64_t lease_ns)
{
    return lease_ns / 1000000;
}

static inline uint64_t weir_remaining_told_ms(uint64_t remaining_ns)
{
    return remaining_ns / 1000000 + (remaining_ns % 1000000 != 0);
}

#define WEIR_LOCKS_ABSENT                                                                                              \
    "there are no locks here: configure locks: { engine: sqlite, path: FILE }, or start with --locks FILE"
#define WEIR_LOCKS_DOWN "the store of the locks cannot be asked: nothing was done"
#define WEIR_LOCKS_FULL "too many ask or wait for locks: try again"
#define WEIR_LOCKS_UNANSWERED "the store of the locks did not answer in time"
#define WEIR_LOCKS_SEEN_FAR "is more than a day above the clock: that needs the right reset"
#define WEIR_LOCKS_SEEN_MADE_UP "is above 2^61: no incarnation of these locks"
#define WEIR_LOCKS_UNKNOWN "unknown: the store did not answer; it may have been granted. Ask again with the same owner"
