/* SPDX-License-Identifier: Apache-2.0
 *
 * Inside the manager. It works in turns: take what was submitted, put a batch together (what the engine decides at
 * once), let the engine decide it, answer. All of this is the manager's thread's alone, but for what the mutex guards.
 *
 * An ACQUIRE joins the queue of its name, where core/lease/waiting.h decides who is asked for and who waits. Beside a
 * queue go only two: one whose owner may hold the lock already, which is asked as a renewal; and one that does not
 * wait, where it is known who holds the lock. */
#pragma once

#include <pthread.h>

#include "base/container.h"
#include "base/siphash.h"
#include "locks/manager.h"

struct weir_lock_manager_queue {
    struct weir_hash_node node; /* first */
    struct weir_waiting waiting;
    struct weir_due due; /* waiting.ask_ns, unless its first is in this batch */
    size_t name_size;
    char name[];
};

#define WEIR_LOCK_MANAGER_BUCKETS 4096 /* two names in one: the quick one of them takes the long way now and then */

/* A list of requests by own.next. */
struct weir_lock_manager_list {
    struct weir_lock_manager_request *first, *last;
};

enum weir_lock_manager_role {
    WEIR_LOCK_MANAGER_PLAIN, /* as submitted: RENEW, RELEASE, SHOW, RAISE */
    WEIR_LOCK_MANAGER_FIRST, /* the ACQUIRE of the first of a queue */
    WEIR_LOCK_MANAGER_PROBE, /* an ACQUIRE, asked as RENEW: does its owner hold the lock already? */
    WEIR_LOCK_MANAGER_BACK,  /* an ACQUIRE that was granted to nobody: RELEASE */
};

struct weir_lock_manager {
    struct weir_lock_engine *engine;
    size_t waiters_max, pending_max;
    uint64_t timeout_ns;
    pthread_t thread;
    bool made; /* all but the thread was made */

    pthread_mutex_t mutex;
    pthread_cond_t wake;
    struct weir_lock_manager_list submitted; /* mutex */
    struct weir_lock_manager_request *left;  /* mutex; by own.next_left */
    size_t pending;                          /* mutex: submitted, not decided */
    size_t coming;                           /* mutex: ACQUIREs among `submitted` */
    bool stopping;                           /* mutex */
    bool resting;                            /* mutex: the engine's idle is not about to be called */
    bool stirred;                            /* mutex: a quick answer may have left it something to do */
    struct weir_lock_manager_state state;    /* mutex: as of the last turn, and quick answers since */
    struct weir_hash claims; /* mutex: ACQUIREs until they are answered, and grants after a wait until they are told */
    uint64_t orders;         /* mutex: of requests for a lease since the start */
    uint32_t under_way[WEIR_LOCK_MANAGER_BUCKETS]; /* mutex: submitted and not finished, by name */

    struct weir_lock_manager_list gathered; /* ACQUIREs held back for company; then backlog */
    size_t gathered_count;
    uint64_t gather_until_ns;
    size_t companions;  /* ACQUIREs of the last turn that had any, and those that came meanwhile */
    uint64_t commit_ns; /* how long the engine took for it */

    struct weir_lock_manager_list backlog; /* taken, not looked at yet */
    struct weir_lock_manager_list urgent;  /* goes before all others: probes, and grants to be given back */
    struct weir_lock_manager_list put_off; /* until put_off_ns: the raise that they need waits for the clock */
    size_t put_off_asks;                   /* of them: those who ask for it */
    uint64_t put_off_ns;
    struct weir_lock_manager_list finished; /* to be answered at the end of the turn */
    struct weir_hash queues, owners;        /* by name; waiting requests by name and owner */
    struct weir_sip_key key;
    struct weir_due_heap queues_due, waits_due;
    struct weir_lock_manager_state counts; /* the thread's own, but for the answers (mutex); copied to `state` */
    size_t decided;                        /* in this turn: no longer pending */
    bool stop;                             /* stopping, as the thread knows it */
    uint64_t now_ns;                       /* CLOCK_MONOTONIC, of this turn */
    uint64_t took_ns;                      /* the batch that is being heard: decided so long ago at most */
    uint64_t idle_ns;                      /* when to call the engine's idle; UINT64_MAX: not */

    struct weir_lock_op ops[WEIR_LOCK_BATCH_MAX];
    struct weir_lock_manager_request *asked[WEIR_LOCK_BATCH_MAX];
    enum weir_lock_manager_role roles[WEIR_LOCK_BATCH_MAX];
    size_t count;
};

void weir_lock_manager_push(struct weir_lock_manager_list *list, struct weir_lock_manager_request *request);
struct weir_lock_manager_request *weir_lock_manager_pop(struct weir_lock_manager_list *list);

/* ---- manager.c: a manager without its thread; whoever has it takes the turns himself ---- */

int weir_lock_manager_create_threadless(struct weir_lock_engine *engine,
                                        const struct weir_lock_manager_options *options,
                                        struct weir_lock_manager **ret_manager); /* as weir_lock_manager_create */
void weir_lock_manager_destroy_threadless(struct weir_lock_manager *manager);    /* nothing is answered */

/* ---- manager_turn.c: one turn; no clock, no engine's apply ---- */

/* With the mutex held: somebody wants it to begin a turn now. Else the next is due then; UINT64_MAX: not yet. */
bool weir_lock_manager_called(const struct weir_lock_manager *manager);
uint64_t weir_lock_manager_due_ns(struct weir_lock_manager *manager, uint64_t now_ns);

/* Takes what came and puts the batch together, ops[0 … count); false: the end. Then the engine decides it, if there is
 * anything in it; then `end` takes the answers, and calls `done` of those that are answered. */
bool weir_lock_manager_begin(struct weir_lock_manager *manager, uint64_t now_ns);
void weir_lock_manager_end(struct weir_lock_manager *manager, uint64_t now_ns);
void weir_lock_manager_count(struct weir_lock_manager_state *counts,
                             const struct weir_lock_op *op); /* one more answer */

/* ---- manager_queue.c ---- */

struct weir_lock_manager_request *weir_lock_manager_request_of(struct weir_waiter *waiter);
struct weir_lock_manager_queue *weir_lock_manager_queue_find(const struct weir_lock_manager *manager,
                                                             struct weir_slice name);
struct weir_lock_manager_queue *weir_lock_manager_queue_add(struct weir_lock_manager *manager,
                                                            struct weir_slice name); /* NULL: memory */

enum weir_waiting_fate weir_lock_manager_queue_join(struct weir_lock_manager *manager,
                                                    struct weir_lock_manager_queue *queue,
                                                    struct weir_lock_manager_request *request);
/* Out of its queue and the heap, if it is in one; an empty queue is freed. */
void weir_lock_manager_queue_leave(struct weir_lock_manager *manager, struct weir_lock_manager_request *request,
                                   enum weir_waiter_phase to);
/* After its waiting has changed. */
void weir_lock_manager_queue_sync(struct weir_lock_manager *manager, struct weir_lock_manager_queue *queue);

/* One who waits in this queue for `owner`; NULL: nobody. */
struct weir_lock_manager_request *weir_lock_manager_queue_owner(const struct weir_lock_manager *manager,
                                                                const struct weir_lock_manager_queue *queue,
                                                                struct weir_slice owner);

/* Writes what is known of the holder as the answer HELD, or WEIR_EDOWN. */
void weir_lock_manager_queue_say(const struct weir_lock_manager *manager, const struct weir_lock_manager_queue *queue,
                                 struct weir_lock_op *op);

/* ---- manager_batch.c ---- */

void weir_lock_manager_gather(struct weir_lock_manager *manager); /* puts the batch together */
void weir_lock_manager_hear(struct weir_lock_manager *manager);   /* takes the engine's answers */
void weir_lock_manager_overdue(struct weir_lock_manager *manager);
void weir_lock_manager_gone(struct weir_lock_manager *manager, struct weir_lock_manager_request *request);

/* ---- manager_claim.c ---- */

void weir_lock_manager_claim(struct weir_lock_manager *manager,
                             struct weir_lock_manager_request *request); /* it has come */
void weir_lock_manager_unclaim(struct weir_lock_manager *manager, struct weir_lock_manager_request *request);
void weir_lock_manager_claim_decided(struct weir_lock_manager *manager,
                                     struct weir_lock_manager_request *request); /* what it is told is known */
bool weir_lock_manager_forgoes(
    const struct weir_lock_manager_request *request); /* if its client has gone, it is given back */
void weir_lock_manager_forget(struct weir_lock_manager *manager,
                              struct weir_lock_manager_request *request); /* its client has gone */
