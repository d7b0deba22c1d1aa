/* SPDX-License-Identifier: Apache-2.0
 *
 * The manager: the thread that owns a lock engine. It gathers what the loops submit into batches, keeps those who wait
 * in order of arrival per name (core/lease/waiting.h), asks again for the first of them when a lease ends or is
 * released, and lets nobody who does not wait pass those who do.
 *
 * An acquire or raise that needs the incarnation raised, while that would outrun the clock, is put off and asked again
 * when it is due: nobody else waits for it, and others may pass it. After `timeout_ns` it is answered WEIR_EDOWN; one
 * that waits in a queue by then keeps its place there, and waits on for as long as it wanted to.
 * Of those who ask for a raise themselves (`seen`, RAISE) at most a batch is put off; one more is answered so at once.
 *
 * Thread rule: all but create and destroy from any thread, also from within `done`. Requests of one name are decided in
 * the order in which they were submitted, unless they wait. `done` is called on the manager's thread, once per request
 * (but see weir_lock_manager_take_back), soon and without locks held: hand it over to your own thread there.
 *
 * A wait survives an engine that is down for a moment: it asks again. If a wait ends while the engine cannot say, the
 * answer is WEIR_EDOWN, or WEIR_EUNKNOWN if this request itself may have been granted.
 *
 * Bounds: `waiters_max` requests wait, `pending_max` are submitted and not decided; one more is answered WEIR_ELIMIT.
 * */
#pragma once

#include "base/due.h"
#include "core/lease/waiting.h"
#include "locks/engine.h"
#include "locks/hash.h"

struct weir_lock_manager;
struct weir_lock_manager_queue;

/* What the manager keeps in a request; zeroed by submit. */
struct weir_lock_manager_own {
    struct weir_waiter waiter; /* its phase, and its place in the queue of its name: the manager's thread's */
    struct weir_hash_node by_owner;
    struct weir_due due; /* when its wait ends */
    struct weir_lock_manager_queue *queue;
    struct weir_lock_manager_request *next, *next_left;
    bool left, finished;         /* under the manager's mutex: the client went away; done is about to be called */
    bool decided;                /* no longer pending */
    struct weir_hash_node claim; /* mutex: by name and owner */
    bool claims;                 /* mutex: it is among the manager's claims */
    uint32_t relied_on;          /* mutex: so many of its owner's later requests for the lock may have it */
    uint64_t order;              /* mutex: of those who ask for a lease */
    bool unknown;                /* the engine once could not say whether it was granted: that may yet come to pass */
    uint16_t bucket;             /* of its name in the manager's under_way */
    uint64_t put_off_until_ns;   /* it is asked again no later; 0: it was not put off yet */
};

struct weir_lock_manager_options {
    size_t waiters_max;  /* 0 = 65,536 */
    size_t pending_max;  /* 0 = 65,536 */
    uint64_t timeout_ns; /* for one batch of the engine; 0 = 2 s */
};

/* One request. The caller owns it and leaves it alone from submit until done. */
struct weir_lock_manager_request {
    struct weir_lock_op op;
    uint64_t wait_ns; /* ACQUIRE: how long it may wait */
    void (*done)(struct weir_lock_manager_request *request);
    void *context;
    size_t waiters; /* SHOW, afterwards: how many wait for it here */
    bool waited;    /* ACQUIRE, afterwards: another held it meanwhile, so a grant is new, not its owner's from before */
    struct weir_lock_manager_own own;
};

/* Takes over the engine, also on failure. WEIR_ENOMEM, WEIR_EIO (no thread). */
int weir_lock_manager_create(struct weir_lock_engine *engine, const struct weir_lock_manager_options *options,
                             struct weir_lock_manager **ret_manager);

/* WEIR_ELIMIT: not taken, done will not be called. */
int weir_lock_manager_submit(struct weir_lock_manager *manager, struct weir_lock_manager_request *request);

/* Answers at once, here, what needs no store: a release, a look, a renewal of the same length or a shorter one, a
 * refusal of one who does not wait. So none of them waits for a batch that is being made durable. True: the request
 * is answered, and `done` will not be called. False: nothing was done, because the store is needed, or because
 * something asked of this name before has no answer yet: submit it. */
bool weir_lock_manager_quick(struct weir_lock_manager *manager, struct weir_lock_manager_request *request);

/* The client went away: done comes soon, whatever it says (HELD where it waited). What it was granted is given back
 * first, by the rule of weir_lock_manager_take_back. May be called while done is about to be called. */
void weir_lock_manager_client_gone(struct weir_lock_manager *manager, struct weir_lock_manager_request *request);

/* After `done`, one of these two ends the request. */

/* The client has its answer. */
void weir_lock_manager_told(struct weir_lock_manager *manager, struct weir_lock_manager_request *request);

/* The client went away before it had its answer. True: what it was granted is given back, and `done` is called once
 * more; do not call this after that. So it is if it `waited`; a grant without a wait may be the lease that its owner
 * has from before. And unless the same owner has asked for the lock since, by ACQUIRE or RENEW, and was not refused:
 * then that one counts on it. */
bool weir_lock_manager_take_back(struct weir_lock_manager *manager, struct weir_lock_manager_request *request);

struct weir_lock_manager_state {
    struct weir_lock_engine_state engine;
    size_t waiting;
    uint64_t granted, held, lost, unknown, released; /* answers since the start */
    uint64_t forgone;                                /* grants after a wait whose client had gone: given back */
    uint64_t locks;                                  /* held now, as far as the engine can tell */
    bool locks_known;
};
void weir_lock_manager_state(struct weir_lock_manager *manager, struct weir_lock_manager_state *ret_state);

/* Every request is done first (those who wait as HELD); then the engine is destroyed. NULL is allowed. */
void weir_lock_manager_destroy(struct weir_lock_manager *manager);
