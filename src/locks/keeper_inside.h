/* SPDX-License-Identifier: Apache-2.0
 *
 * Inside the keeper. It works in turns: take what was submitted, put a batch together, let the engine decide it,
 * answer. All of this is the keeper's thread's alone, but for what the mutex guards.
 *
 * Every ACQUIRE joins the queue of its name, where core/lease/waiting.h decides who is asked and who waits. */
#ifndef WEIR_LOCKS_KEEPER_INSIDE_H
#define WEIR_LOCKS_KEEPER_INSIDE_H

#include <pthread.h>

#include "base/siphash.h"
#include "locks/keeper.h"

struct weir_keeper_queue {
    struct weir_hash_node node; /* first */
    struct weir_waiting waiting;
    struct weir_due due; /* waiting.ask_ns, unless its first is in this batch */
    size_t name_size;
    char name[];
};

#define WEIR_KEEPER_BUCKETS 4096 /* two names in one: the quick one of them takes the long way now and then */

/* A list of requests by own.next. */
struct weir_keeper_list {
    struct weir_keeper_request *first, *last;
};

enum weir_keeper_role {
    WEIR_KEEPER_PLAIN, /* as submitted: RENEW, RELEASE, SHOW, RAISE */
    WEIR_KEEPER_FIRST, /* the ACQUIRE of the first of a queue */
    WEIR_KEEPER_PROBE, /* an ACQUIRE, asked as RENEW: does its owner hold the lock already? */
    WEIR_KEEPER_BACK,  /* an ACQUIRE that was granted to nobody: RELEASE */
};

struct weir_keeper {
    struct weir_lock_engine *engine;
    size_t waiters_max, pending_max;
    uint64_t timeout_ns;
    pthread_t thread;
    bool still; /* all but the thread was made */

    pthread_mutex_t mutex;
    pthread_cond_t wake;
    struct weir_keeper_list submitted; /* mutex */
    struct weir_keeper_request *left;  /* mutex; by own.next_left */
    size_t pending;                    /* mutex: submitted, not decided */
    size_t coming;                     /* mutex: ACQUIREs among `submitted` */
    bool stopping;                     /* mutex */
    bool resting;                      /* mutex: the engine's idle is not about to be called */
    bool stirred;                      /* mutex: a quick answer may have left it something to do */
    struct weir_keeper_state state;    /* mutex: as of the last round, and quick answers since */
    struct weir_hash claims; /* mutex: ACQUIREs until they are answered, and grants after a wait until they are told */
    uint64_t orders;         /* mutex: of requests for a lease since the start */
    uint32_t under_way[WEIR_KEEPER_BUCKETS]; /* mutex: submitted and not finished, by name */

    struct weir_keeper_list gathered; /* ACQUIREs held back for company; then backlog */
    size_t gathered_count;
    uint64_t gather_until_ns;
    size_t companions;  /* ACQUIREs of the last round that had any, and those that came meanwhile */
    uint64_t commit_ns; /* how long the engine took for it */

    struct weir_keeper_list backlog; /* taken, not looked at yet */
    struct weir_keeper_list again;   /* to be asked before all others; busy */
    struct weir_keeper_list put_off; /* until put_off_ns: the raise that they need waits for the clock */
    size_t put_off_asks;             /* of them: those who ask for it */
    uint64_t put_off_ns;
    struct weir_keeper_list finished; /* to be answered at the end of the round */
    struct weir_hash queues, owners;  /* by name; waiting requests by name and owner */
    struct weir_sip_key key;
    struct weir_due_heap queues_due, waits_due;
    struct weir_keeper_state counts; /* the thread's own, but for the answers (mutex); copied to `state` */
    size_t decided;                  /* in this round: no longer pending */
    bool stop;                       /* stopping, as the thread knows it */
    uint64_t now_ns;                 /* CLOCK_MONOTONIC, of this round */
    uint64_t idle_ns;                /* when to call the engine's idle; UINT64_MAX: not */

    struct weir_lock_op ops[WEIR_LOCK_BATCH_MAX];
    struct weir_keeper_request *asked[WEIR_LOCK_BATCH_MAX];
    enum weir_keeper_role roles[WEIR_LOCK_BATCH_MAX];
    size_t count;
};

void weir_keeper_push(struct weir_keeper_list *list, struct weir_keeper_request *request);
struct weir_keeper_request *weir_keeper_pop(struct weir_keeper_list *list);

/* ---- keeper.c: all but the thread; whoever has it takes the turns himself ---- */

int weir_keeper_create_still(struct weir_lock_engine *engine, const struct weir_keeper_options *options,
                             struct weir_keeper **ret_keeper); /* as weir_keeper_create */
void weir_keeper_destroy_still(struct weir_keeper *keeper);    /* nothing is answered */

/* ---- keeper_turn.c: one turn; no clock, no engine's apply ---- */

/* With the mutex held: somebody wants it to begin a turn now. Else the next is due then; UINT64_MAX: not yet. */
bool weir_keeper_called(const struct weir_keeper *keeper);
uint64_t weir_keeper_due_ns(struct weir_keeper *keeper, uint64_t now_ns);

/* Takes what came and puts the batch together, ops[0 … count); false: the end. Then the engine decides it, if there is
 * anything in it; then `end` takes the answers, and calls `done` of those that are answered. */
bool weir_keeper_begin(struct weir_keeper *keeper, uint64_t now_ns);
void weir_keeper_end(struct weir_keeper *keeper, uint64_t now_ns);
void weir_keeper_count(struct weir_keeper_state *counts, const struct weir_lock_op *op); /* one more answer */

/* ---- keeper_queue.c ---- */

struct weir_keeper_request *weir_keeper_request_of(struct weir_waiter *waiter);
struct weir_keeper_queue *weir_keeper_queue_find(const struct weir_keeper *keeper, struct weir_slice name);
struct weir_keeper_queue *weir_keeper_queue_add(struct weir_keeper *keeper, struct weir_slice name); /* NULL: memory */

enum weir_waiting_fate weir_keeper_queue_join(struct weir_keeper *keeper, struct weir_keeper_queue *queue,
                                              struct weir_keeper_request *request);
/* Out of its queue and the heap, if it is in one; an empty queue is freed. */
void weir_keeper_queue_leave(struct weir_keeper *keeper, struct weir_keeper_request *request,
                             enum weir_waiter_phase to);
/* After its waiting has changed. */
void weir_keeper_queue_sync(struct weir_keeper *keeper, struct weir_keeper_queue *queue);

/* One who waits in this queue for `owner`; NULL: nobody. */
struct weir_keeper_request *weir_keeper_queue_owner(const struct weir_keeper *keeper,
                                                    const struct weir_keeper_queue *queue, struct weir_slice owner);

/* Writes what is known of the holder as the answer HELD, or WEIR_EDOWN. */
void weir_keeper_queue_say(const struct weir_keeper *keeper, const struct weir_keeper_queue *queue,
                           struct weir_lock_op *op);

/* ---- keeper_round.c ---- */

void weir_keeper_gather(struct weir_keeper *keeper); /* puts the batch together */
void weir_keeper_settle(struct weir_keeper *keeper); /* takes the engine's answers */
void weir_keeper_overdue(struct weir_keeper *keeper);
void weir_keeper_gone(struct weir_keeper *keeper, struct weir_keeper_request *request);

/* ---- keeper_claim.c ---- */

void weir_keeper_claim(struct weir_keeper *keeper, struct weir_keeper_request *request); /* it has come */
void weir_keeper_unclaim(struct weir_keeper *keeper, struct weir_keeper_request *request);
void weir_keeper_decided(struct weir_keeper *keeper,
                         struct weir_keeper_request *request);       /* what it is told is known */
bool weir_keeper_forgoes(const struct weir_keeper_request *request); /* if its client has gone, it is given back */
void weir_keeper_forget(struct weir_keeper *keeper, struct weir_keeper_request *request); /* its client has gone */

#endif
