/* SPDX-License-Identifier: Apache-2.0
 *
 * Requests under way. Each is split into groups, one for each cluster slot that its keys lie in (without a cluster:
 * one), and each group is one call of the script. A DECIDE of several groups is all or nothing by its request id: what
 * a group charged while another refused or failed is given back (roll_back.h).
 *
 * A group waits here until the server's in-flight window (core/breaker/flight.h) has room, and is not sent at all if it
 * could only be answered after its deadline. */
#pragma once

#include "limits/redis/server.h"

/* One request under way. */
struct weir_redis_work {
    struct weir_redis_engine *engine;
    struct weir_remote_request *request;
    struct weir_redis_work *next, *prev; /* of those under way, by deadline; or of the finished */
    struct weir_redis_group *groups;
    unsigned groups_count, outstanding; /* groups, and those without an answer */
};

/* One slot's part of a request. */
struct weir_redis_group {
    struct weir_redis_call call; /* first */
    struct weir_redis_engine *engine;
    struct weir_redis_work *work;     /* NULL: the request is done, or this gives back */
    struct weir_redis_group *next;    /* of the work; of the engine's give-backs that wait */
    struct weir_redis_server *server; /* where it was sent to last */
    uint64_t generation;              /* of the server's breaker */
    uint64_t asked_ns;                /* the server was to be sent it then */
    uint64_t sent_ns;                 /* counted in the server's window since then; 0 = not */
    bool told;                        /* the breaker knows what became of it */
    bool pending;                     /* sent to a server or about to be, and not yet answered */
    uint16_t slot;
    unsigned hops; /* redirects, scripts that were missing */
    int status;
    bool gives_back;
    uint64_t retry_ns, end_ns;      /* of a give-back */
    struct weir_script_call script; /* last: with room for as many ops as it has */
};

static inline size_t weir_redis_group_size(size_t ops)
{
    return offsetof(struct weir_redis_group, script.ops) + ops * sizeof(struct weir_script_op);
}

/* Who is asked for a slot; NULL: nobody, as before the first map. */
struct weir_redis_server *weir_redis_server_of(struct weir_redis_engine *engine, uint16_t slot);

int weir_redis_submit(struct weir_remote *remote, struct weir_remote_request *request);

/* Tells the finished, those of this moment: done may submit more. */
void weir_redis_tell_finished(struct weir_redis_engine *engine);

void weir_redis_on_deadline(uv_timer_t *timer);
void weir_redis_requests_end(struct weir_redis_engine *engine); /* all are finished, answered or not */

/* Sends a group to the server of its slot. False: there is none that may be asked. */
bool weir_redis_group_send(struct weir_redis_group *group);
void weir_redis_group_free(struct weir_redis_group *group);
/* A missing script, a redirect: true, it is on its way again. */
bool weir_redis_group_again(struct weir_redis_group *group, const redisReply *reply);
void weir_redis_group_told(struct weir_redis_group *group, bool success);
