/* SPDX-License-Identifier: Apache-2.0
 *
 * The world of locks from inside: what locks.c (network, faults, the loop), locks_weir.c (the lock manager),
 * locks_store.c, locks_client.c (and the replicas), locks_visitor.c, and the checks locks_check.c and locks_waits.c
 * share. Nobody else includes it. */
#pragma once

#include "core/lease/deadline.h"
#include "core/lease/holders.h"
#include "core/lease/incarnation.h"
#include "core/lease/quorum.h"
#include "locks/manager_inside.h"
#include "sim/locks.h"
#include "sim/queue.h"
#include "sim/random.h"

#define LOCKS_SECOND UINT64_C(1000000000)
#define LOCKS_MS (LOCKS_SECOND / 1000)
#define LOCKS_CLIENTS_MAX 5
#define LOCKS_REPLICAS_MAX 5
#define LOCKS_GRANTS_MAX 4096
#define LOCKS_SNAPSHOTS 4
#define LOCKS_NAMES 3 /* of locks; the clients with a resource take the first, visitors take all */
#define LOCKS_WEIRS_MAX 3
#define LOCKS_VISITORS_MAX 8
#define LOCKS_NOBODY UINT32_MAX

/* ---- messages ---- */

enum locks_verb { LOCKS_ACQUIRE, LOCKS_RENEW, LOCKS_RELEASE, LOCKS_INSTALL, LOCKS_READ, LOCKS_WRITE };

struct locks_message {
    enum locks_verb verb;
    bool answer;
    uint32_t client, replica; /* replica: the weir, of what goes to one */
    uint64_t holder, wait_ns; /* to the weir */
    uint32_t turn;            /* the client's, when it asked: an answer to an earlier turn is stale */
    uint64_t sent_ns;         /* on the client's clock */
    struct weir_token token;  /* granted, or carried */
    struct weir_version version;
    uint64_t value, lease_ns;
    uint64_t stopped_ns; /* sent so much later */
    int result;          /* of the answer: 0 or an error */
};

/* What happens at a weir. */
enum locks_step { LOCKS_TURN, LOCKS_DECIDE, LOCKS_END, LOCKS_LEAVE };
#define LOCKS_LOOK_NS (LOCKS_SECOND / 10)

/* ---- who there is ---- */

struct locks_clock {
    uint64_t base_ns;
    int64_t rate; /* faster by so many 2^-20 */
};

enum locks_phase { LOCKS_IDLE, LOCKS_ASKING, LOCKS_INSTALLING, LOCKS_READING, LOCKS_WRITING_BACK, LOCKS_READY };

struct locks_client {
    struct locks_clock clock;
    enum locks_phase phase;
    uint32_t turn, weir;
    uint64_t session; /* an owner of its own each: a release that is late must not free a later grant */
    uint64_t paused_until_ns, patience_ns;
    struct weir_deadline deadline;
    struct weir_token token;
    size_t grant; /* in check.grants */
    struct weir_round round;
    struct weir_version best; /* of what was read */
    uint64_t value, sequence;
    uint32_t writes_left;
    bool heedless;
    bool hasty; /* it does not wait for the lock */
    bool late;  /* the write under way was begun after a later install was done */
};

/* ---- the store ---- */

struct locks_lock {
    struct weir_lease_holder out[1];
    struct weir_holders holders; /* its `out` is set anew wherever it was copied to */
    uint64_t holder;             /* of the last grant */
    uint64_t ttl_ns;             /* the longest that it asked for */
    uint32_t request;            /* that it was granted for */
    struct weir_token token;
};

struct locks_state {
    uint64_t incarnation, number, position, timeline;
    struct weir_token last; /* the newest grant */
    struct locks_lock locks[LOCKS_NAMES];
};

/* Embedded in one weir (as sqlite), or shared by all of them (as postgres and etcd). */
struct locks_store {
    bool shared, dirty; /* dirty: a release is not durable yet */
    bool fails_unknown; /* while it is down */
    struct locks_clock clock;
    uint64_t wall_step_s, stalled_until_ns, down_until_ns;
    struct locks_state memory, durable;
    struct locks_state snapshots[LOCKS_SNAPSHOTS]; /* newest first: what a failover may fall back to */
    uint32_t snapshots_count;
};

/* What a manager asked the store for. It outlives the manager, and the deadline: the store may decide it late. */
struct locks_asked {
    struct weir_lock_op op;
    uint32_t request;
    uint32_t name;
    uint64_t owner;
};

struct locks_batch {
    uint32_t weir, life;
    unsigned events; /* that are yet to come for it */
    bool unheard;    /* its answer does not come before the deadline */
    size_t count;
    struct locks_asked asked[];
};

/* ---- a weir ---- */

/* One request of a client, or of a visitor. */
struct locks_request {
    struct weir_lock_manager_request request; /* first */
    struct locks *locks;
    struct locks_request *next;
    uint32_t id, weir, name;
    char letter;
    uint64_t owner;
    uint32_t visitor; /* LOCKS_NOBODY: a client's, or nobody waits for the answer */
    bool from_client;
    struct locks_message message; /* of a client */
    uint32_t turn;                /* of a visitor */
    bool left;                    /* the client went away */
    bool superseded;              /* the same owner has asked again since */
    /* for the checks */
    uint64_t place, came_ns, left_ns;
    bool asked, was_held, was_put_off, was_probed, was_unknown, given_back;
};

struct locks_engine {
    struct weir_lock_engine base; /* first */
    struct weir_lock_engine_ops ops;
    struct locks *locks;
    uint32_t weir;
};

struct locks_weir {
    struct locks_engine engine;
    struct weir_lock_manager_options options;
    struct weir_lock_manager *manager; /* NULL: it is down */
    struct locks_clock clock;
    bool busy;   /* a batch is with the store */
    bool doomed; /* to be killed before it hears what the store decided next */
    uint32_t syncing;
    uint32_t life, timer;
    struct locks_request *open;
    struct weir_witness witness; /* outlives the weir; as its clock */
    bool needs_raise;
    uint64_t raise_due_ns;
    uint32_t turns; /* since the last look */
    struct weir_lock_manager_state told;
    uint64_t failed_ns;         /* the last answer of the store that was none */
    uint64_t raising_ns;        /* the store was last seen to need a raise before any new grant of this weir */
    struct locks_request *past; /* answered; kept, so that one that is answered twice is seen */
};

/* Who comes, waits, goes away, comes back, holds too long; no resource stands behind. */
enum locks_mood { LOCKS_AWAY, LOCKS_WAITING, LOCKS_HOLDING };
struct locks_visitor {
    enum locks_mood mood;
    uint32_t turn, timer, weir, name;
    uint64_t session, until_ns;
    uint32_t asked; /* the newest request, + 1 */
};

struct locks_replica {
    struct weir_token mark; /* durable */
    struct weir_version version;
    uint64_t value;
};

/* ---- what happened, for the checks; shares nothing with the code above ---- */

struct locks_grant {
    struct weir_token token;
    uint32_t client;
    uint64_t acknowledged; /* the highest value; 0: none */
    uint64_t shown;        /* + 1; 0: none */
    bool installed, forgotten;
};

struct locks_check {
    struct locks_grant grants[LOCKS_GRANTS_MAX];
    size_t count;
    uint64_t lease_end_ns; /* of the last grant, by the service's clock, at the latest */
    struct weir_token lease_token;
};

/* Of every request that there was, by id. */
enum locks_told { LOCKS_OPEN, LOCKS_ANSWERED, LOCKS_DENIED, LOCKS_FORGOTTEN };
struct locks_record {
    enum locks_told told;
    struct locks_request *request; /* while it is open */
};

struct locks_hold {
    uint64_t holder, begin_ns;
    uint32_t name, request;
    struct weir_token token;
    uint32_t told; /* to a client that was still there, by which weir, + 1 */
};

struct locks_waits {
    struct locks_record *records;
    uint32_t count, room;
    struct locks_hold *holds; /* new grants, in order */
    uint32_t holds_count, holds_room;
    uint64_t changed_ns[LOCKS_NAMES]; /* the store last granted it, or took it back */
    struct weir_token newest[LOCKS_NAMES];
    uint32_t dirty; /* looks since the store had nothing to write */
};

struct locks {
    enum weir_sim_locks_plant plant;
    struct weir_sim_random random;
    struct weir_sim_queue queue;
    struct locks_message *messages;
    uint32_t *free;
    uint32_t room, free_count;
    uint64_t now_ns, ttl_ns, calm_ns; /* no fault happens from calm_ns on */
    struct weir_quorum quorum;
    uint32_t clients_count;
    struct locks_client clients[LOCKS_CLIENTS_MAX];
    struct locks_replica replicas[LOCKS_REPLICAS_MAX];
    uint32_t weirs_count, visitors_count;
    struct locks_weir weirs[LOCKS_WEIRS_MAX];
    struct locks_visitor visitors[LOCKS_VISITORS_MAX];
    struct locks_store store;
    struct locks_batch **batches;
    uint32_t batches_count;
    struct locks_check check;
    struct locks_waits waits;
    struct weir_sim_locks_result *result;
};

/* locks.c */
uint64_t locks_clock_ns(const struct locks *locks, const struct locks_clock *clock);
void locks_send(struct locks *locks, const struct locks_message *message);
void locks_wake(struct locks *locks, uint32_t client, uint64_t delay_ns);
void locks_wake_to_renew(struct locks *locks, uint32_t client, uint64_t delay_ns);

struct locks_clock locks_clock_draw(struct weir_sim_random *random);
void locks_weir_ended(struct locks *locks, uint32_t weir); /* it is down, and comes up again some time */
void *locks_grown(void *memory, size_t size);
void locks_batch_event(struct locks *locks, enum locks_step step, uint32_t weir, uint32_t slot, uint64_t at_ns);
void locks_visitor_event(struct locks *locks, uint32_t visitor, uint64_t delay_ns);

/* locks_store.c */
void locks_store_draw(struct locks *locks);
void locks_store_started(struct locks *locks, uint32_t weir); /* a weir starts */
void locks_store_fail_over(struct locks *locks);
void locks_store_decide(struct locks *locks, struct locks_batch *batch);
void locks_store_synced(struct locks *locks);
bool locks_store_quick(struct weir_lock_engine *engine, struct weir_lock_op *op);
uint32_t locks_name(const struct weir_lock_op *op);
uint64_t locks_owner(const struct weir_lock_op *op);

/* locks_weir.c */
void locks_weir_draw(struct locks *locks, uint32_t weir);
void locks_weir_start(struct locks *locks, uint32_t weir);
void locks_weir_stop(struct locks *locks, uint32_t weir); /* it answers everybody first */
void locks_weir_kill(struct locks *locks, uint32_t weir);
void locks_weir_hear(struct locks *locks, const struct locks_message *message);
void locks_weir_step(struct locks *locks, const struct weir_sim_event *event);
/* A visitor asks. False: it was refused at once. Only verb, wait, ttl and seen of the op count. */
bool locks_weir_visit(struct locks *locks, uint32_t visitor, uint64_t owner,
                      const struct weir_lock_manager_request *wish);
void locks_weir_leave(struct locks *locks, uint32_t request);

/* locks_visitor.c */
void locks_visitor_wake(struct locks *locks, uint32_t visitor);
void locks_visitor_hear(struct locks *locks, const struct locks_request *request);

/* locks_client.c */
void locks_client_wake(struct locks *locks, uint32_t client); /* its time has come, or its patience ended */
void locks_client_renew(struct locks *locks, uint32_t client);
void locks_client_hear(struct locks *locks, const struct locks_message *message);
void locks_replica_hear(struct locks *locks, const struct locks_message *message);

/* locks_waits.c */
void locks_waits_came(struct locks *locks, struct locks_request *request);
void locks_waits_refused(struct locks *locks, struct locks_request *request);
void locks_waits_quick(struct locks *locks, const struct locks_request *request);
void locks_waits_asked(struct locks *locks, const struct locks_weir *weir);        /* a batch was put together */
void locks_waits_decided(struct locks *locks, struct locks_weir *weir);            /* and comes back */
void locks_waits_granted(struct locks *locks, const struct locks_asked *asked);    /* anew, by the store */
bool locks_waits_answered(struct locks *locks, struct locks_request *request);     /* false: twice */
void locks_waits_forget(struct locks *locks, const struct locks_request *request); /* its weir was killed */
void locks_waits_turned(struct locks *locks, const struct locks_weir *weir);
void locks_waits_stopped(struct locks *locks, const struct locks_weir *weir);
void locks_waits_look(struct locks *locks); /* every LOCKS_LOOK_NS */

/* locks_check.c */
void locks_broken(struct locks *locks, const char *what);
void locks_check_granted(struct locks *locks, uint32_t client, struct weir_token token, uint64_t end_ns);
void locks_check_renewed(struct locks *locks, struct weir_token token, uint64_t now_ns, uint64_t end_ns);
void locks_check_leases_begin_anew(struct locks *locks, uint64_t end_ns);
void locks_check_forgotten(struct locks *locks, struct weir_token last);
void locks_check_believes(struct locks *locks, uint32_t client);
size_t locks_check_find(const struct locks *locks, struct weir_token token);
void locks_check_installed(struct locks *locks, size_t grant);
bool locks_check_late(const struct locks *locks, size_t grant);
void locks_check_shown(struct locks *locks, size_t grant, uint64_t value);
void locks_check_acknowledged(struct locks *locks, size_t grant, uint64_t value, bool late);
