/* SPDX-License-Identifier: Apache-2.0
 *
 * The world of locks from inside: what locks.c (network, faults, the loop), locks_service.c, locks_client.c (and the
 * replicas) and locks_check.c share. Nobody else includes it. */
#ifndef WEIR_SIM_LOCKS_INSIDE_H
#define WEIR_SIM_LOCKS_INSIDE_H

#include "core/lease/deadline.h"
#include "core/lease/incarnation.h"
#include "core/lease/permits.h"
#include "core/lease/quorum.h"
#include "sim/locks.h"
#include "sim/queue.h"
#include "sim/random.h"

#define LOCKS_SECOND UINT64_C(1000000000)
#define LOCKS_CLIENTS_MAX 5
#define LOCKS_REPLICAS_MAX 5
#define LOCKS_GRANTS_MAX 256
#define LOCKS_SNAPSHOTS 4

/* ---- messages ---- */

enum locks_verb { LOCKS_ACQUIRE, LOCKS_RENEW, LOCKS_RELEASE, LOCKS_INSTALL, LOCKS_READ, LOCKS_WRITE };

struct locks_message {
    enum locks_verb verb;
    bool answer;
    uint32_t client, replica;
    uint64_t holder;         /* to the service */
    uint32_t turn;           /* the client's, when it asked: an answer to an earlier turn is stale */
    uint64_t sent_ns;        /* on the client's clock */
    struct weir_token token; /* granted, or carried */
    struct weir_version version;
    uint64_t value, lease_ns;
    uint64_t stopped_ns; /* sent so much later */
    int result;          /* of the answer: 0 or an error */
};

/* ---- who there is ---- */

struct locks_clock {
    uint64_t base_ns;
    int64_t rate; /* faster by so many 2^-20 */
};

enum locks_phase { LOCKS_IDLE, LOCKS_ASKING, LOCKS_INSTALLING, LOCKS_READING, LOCKS_WRITING_BACK, LOCKS_READY };

struct locks_client {
    struct locks_clock clock;
    enum locks_phase phase;
    uint32_t turn;
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
    bool late; /* the write under way was begun after a later install was done */
};

/* What is durable. */
struct locks_store {
    uint64_t incarnation, number, position, timeline;
    uint64_t holder; /* of the last grant; releases are not written */
    struct weir_token token;
};

struct locks_service {
    struct locks_clock clock;
    bool up;
    uint32_t life;
    uint64_t wall_step_s;
    struct locks_store store, memory;              /* they differ only with WEIR_SIM_LOCKS_NOT_DURABLE */
    struct locks_store snapshots[LOCKS_SNAPSHOTS]; /* newest first: what a failover may fall back to */
    uint32_t snapshots_count;
    struct weir_witness witness; /* outside the store */
    struct weir_permit out[1];
    struct weir_permits permits;
    uint64_t last_holder; /* for WEIR_SIM_LOCKS_RENEW_LATE */
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

struct locks {
    enum weir_sim_locks_plant plant;
    struct weir_sim_random random;
    struct weir_sim_queue queue;
    struct locks_message *messages;
    uint32_t *free;
    uint32_t room, free_count;
    bool restarting;
    uint64_t now_ns, ttl_ns;
    struct weir_quorum quorum;
    uint32_t clients_count;
    struct locks_client clients[LOCKS_CLIENTS_MAX];
    struct locks_replica replicas[LOCKS_REPLICAS_MAX];
    struct locks_service service;
    struct locks_check check;
    struct weir_sim_locks_result *result;
};

/* locks.c */
uint64_t locks_clock_ns(const struct locks *locks, const struct locks_clock *clock);
void locks_send(struct locks *locks, const struct locks_message *message);
void locks_wake(struct locks *locks, uint32_t client, uint64_t delay_ns);
void locks_wake_to_renew(struct locks *locks, uint32_t client, uint64_t delay_ns);

/* locks_service.c */
void locks_service_start(struct locks *locks);
void locks_service_hear(struct locks *locks, const struct locks_message *message);
void locks_service_fail_over(struct locks *locks);

/* locks_client.c */
void locks_client_wake(struct locks *locks, uint32_t client); /* its time has come, or its patience ended */
void locks_client_renew(struct locks *locks, uint32_t client);
void locks_client_hear(struct locks *locks, const struct locks_message *message);
void locks_replica_hear(struct locks *locks, const struct locks_message *message);

/* locks_check.c */
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

#endif
