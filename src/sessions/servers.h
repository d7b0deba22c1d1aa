/* SPDX-License-Identifier: Apache-2.0
 *
 * The servers of one system: one shared poller for each, and what they said last. PostgreSQL, by libpq.
 *
 * A poller asks its server every poll_ms (sooner where somebody waits) on a connection of its own: primary or standby,
 * how far, its timeline, its run, what it has flushed; and on a replication connection which timelines there were.
 * `lag_ns` is how long ago the primary was where the standby is, by this process's clock: no clocks are compared.
 * A server is not usable while it does not answer within timeout_ms; a standby too, while it stands still and its
 * primary does not (freeze_ms).
 *
 * Thread rule: any thread. Readers look at snapshots, which do not change. */
#pragma once

#include "core/session/route.h"

struct weir_servers;

struct weir_servers_options {
    const struct weir_replicas_server *servers;
    unsigned server_count;
    uint64_t poll_ns;
    uint64_t freeze_ns;
    uint64_t timeout_ns;
    const char *clock_query;  /* for strategy lamport: a query whose one value is the server's clock; NULL = none */
    const char *branch_table; /* "schema.table" (sessions/branch_table.h); NULL = none */
};

int weir_servers_open(const struct weir_servers_options *options, struct weir_servers **ret_servers,
                      struct weir_fault *ret_fault);
void weir_servers_close(struct weir_servers *servers);
int weir_servers_add(struct weir_servers *servers, const struct weir_replicas_server *server,
                     struct weir_fault *ret_fault);
int weir_servers_remove(struct weir_servers *servers, const char *name);

/* What a person or a program sees of one server. */
struct weir_server_state {
    char name[64];
    const char *conninfo; /* as long as the snapshot; may hold a password: never shown */
    uint64_t generation;  /* of its poller's connection: another number, another start or address */
    uint64_t begun_ns;    /* CLOCK_MONOTONIC before the last answered question was sent; 0 = never answered */
    uint64_t page_size;   /* of its log */
    uint64_t segment_size;
    bool unasked;    /* new: it has neither answered nor failed to */
    bool frozen;     /* answers, and stands still */
    bool former;     /* it was the primary when it answered last, and another has taken over */
    char fault[256]; /* why it is not usable; empty */
};

struct weir_snapshot {
    uint64_t number; /* each differs */
    uint64_t taken_ns;
    struct weir_known known;
    unsigned count;
    struct weir_route_server servers[WEIR_ROUTE_SERVERS_MAX]; /* what core/session/route chooses from */
    struct weir_server_state states[WEIR_ROUTE_SERVERS_MAX];  /* of the same index */
};

/* The latest. Release it soon; it is never NULL. */
const struct weir_snapshot *weir_servers_look(struct weir_servers *servers);
void weir_servers_release(struct weir_servers *servers, const struct weir_snapshot *snapshot);

/* Of which branch of its timeline is what a connection or a place shows? What the server says that was started then,
 * and is on that timeline. 0: nobody does, or there is one branch only. */
uint32_t weir_snapshot_branch(const struct weir_snapshot *snapshot, const struct weir_shown *shown);

/* A read was handed to server `id` (weir_route_server.id): counted for `load`. */
void weir_servers_count(struct weir_servers *servers, uint64_t id);

/* Waits for a snapshot newer than `number`, until deadline_ns (CLOCK_MONOTONIC), while the pollers ask more often
 * (every 2 ms at most). 0 or WEIR_EAGAIN: none came. */
int weir_servers_wait(struct weir_servers *servers, uint64_t number, uint64_t deadline_ns);

/* Waits for an answer of server `id` to a question that was sent after this call. 0, WEIR_EAGAIN, WEIR_ENOENT. */
int weir_servers_ask(struct weir_servers *servers, uint64_t id, uint64_t deadline_ns);

/* A history or a run that a connection of somebody else's saw. */
void weir_servers_tell(struct weir_servers *servers, const struct weir_shown *shown);
