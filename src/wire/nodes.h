/* SPDX-License-Identifier: Apache-2.0
 *
 * What operators see of sharing and of locks: this node, the engine elsewhere with its breakers, what gossip says of
 * the other nodes, the store of the locks, and counters. One value, filled by the server, written here as the JSON of
 * GET /v1/nodes (docs/http.md) and by
 * observe/sharing.h as metrics: the two never disagree about what there is.
 *
 * Thread rule: plain values. */
#pragma once

#include "core/breaker/breaker.h"
#include "wire/text.h"

/* X(member, type, help), type as in Prometheus. A counter only grows; a gauge is of now. Loops are added up. */
#define WEIR_NODES_ENGINE_LIST(X)                                                                                      \
    X(asked, "counter", "Requests to the engine.")                                                                     \
    X(answered, "counter", "Requests that the engine answered in time.")                                               \
    X(refused, "counter", "Requests that the engine did not run: nothing was charged.")                                \
    X(unknown, "counter", "Requests sent and not answered in time: they may have been charged.")                       \
    X(shed, "counter", "Requests not sent to the engine, which could not have answered them in time.")                 \
    X(losses, "counter", "Losses of state: each may admit one capacity more per key.")                                 \
    X(evicted, "counter", "Keys that servers of the engine evicted: each is a loss as well.")                          \
    X(warnings, "gauge", "Servers of the engine that should be looked after: rights, evictions.")                      \
    X(corrupt, "counter", "Values under our keys that are not ours.")                                                  \
    X(given_back, "counter", "Reservations given back because another server refused.")                                \
    X(given_back_lost, "counter", "Reservations that could not be given back: they decay.")                            \
    X(reconnects, "counter", "Connections made again.")                                                                \
    X(scripts_loaded, "counter", "Times the script was loaded into a server.")                                         \
    X(redirects, "counter", "Answers that named another server of a cluster.")                                         \
    X(primary_changes, "counter", "Times the sentinels named another primary, which was followed.")

#define WEIR_NODES_SHARING_LIST(X)                                                                                     \
    X(keys, "gauge", "Leased and batched keys that this node keeps.")                                                  \
    X(evicted, "counter", "Leased and batched keys that had to leave for others, settled on their way out.")           \
    X(refused_full, "counter", "Requests refused because every leased or batched key was busy.")                       \
    X(asks, "counter", "Asks of leased and batched keys to the engine.")                                               \
    X(answers, "counter", "Asks that were answered.")                                                                  \
    X(lost, "counter", "Asks that were not answered in time.")                                                         \
    X(stale, "counter", "Asks that the engine had heard a later one of.")                                              \
    X(held, "gauge", "Leased units taken in advance and not yet spent.")                                               \
    X(forfeited, "counter", "Leased units charged and not spent, at most.")                                            \
    X(unsettled, "gauge", "Batched units that the engine has not confirmed.")                                          \
    X(untold, "counter", "Batched units of keys that left, which the engine did not confirm in time.")                 \
    X(waiting, "gauge", "Requests that wait for the engine.")

/* As JSON only: weir_fallback_total has them by limit. */
#define WEIR_NODES_FALLBACK_LIST(X)                                                                                    \
    X(fallback_local, "counter", "Verdicts by this node's share because the engine failed (on_failure: local).")       \
    X(fallback_open, "counter", "Admitted because the engine failed (on_failure: open).")                              \
    X(fallback_closed, "counter", "Refused because the engine failed (on_failure: closed).")

#define WEIR_NODES_GOSSIP_LIST(X)                                                                                      \
    X(keys, "gauge", "Gossiped keys that this node keeps.")                                                            \
    X(evicted, "counter", "Gossiped keys that had to leave for others.")                                               \
    X(refused_full, "counter", "Requests refused because every gossiped key had news to tell.")                        \
    X(sent, "counter", "Datagrams sent.")                                                                              \
    X(bytes_sent, "counter", "Bytes of datagrams sent.")                                                               \
    X(received, "counter", "Datagrams that were good.")                                                                \
    X(forged, "counter", "Datagrams that nobody with our cluster_secret sent.")                                        \
    X(replayed, "counter", "Datagrams seen before.")                                                                   \
    X(foreign, "counter", "Datagrams of nodes that are not in the configuration.")                                     \
    X(malformed, "counter", "Datagrams that make no sense.")                                                           \
    X(twins, "counter", "Datagrams of another node with this node's name.")                                            \
    X(unacked, "gauge", "Units admitted here that not all nodes know of.")                                             \
    X(synced, "gauge", "1: this node knows what the others know. 0: its keys count as empty when it started.")         \
    X(refused_unsynced, "counter", "Requests refused because this node started and is not synced.")                    \
    X(refused_unheard, "counter", "Requests refused for what nodes that are not heard may have admitted.")             \
    X(refused_slack, "counter", "Requests refused because not all nodes know of a slack of units admitted here.")      \
    X(refused_superseded, "counter", "Requests refused because another node of this name started later.")

#define WEIR_NODES_LOCKS_LIST(X)                                                                                       \
    X(granted, "counter", "Acquires granted.")                                                                         \
    X(refused, "counter", "Acquires refused: held by another, after the wait.")                                        \
    X(lost, "counter", "Renewals of what was not held any more.")                                                      \
    X(unknown, "counter", "Answers unknown: the store may have done it or not.")                                       \
    X(released, "counter", "Locks given back.")                                                                        \
    X(forgone, "counter", "Grants whose client had gone: given back.")                                                 \
    X(waiters, "gauge", "Clients that wait for a lock.")                                                               \
    X(batches, "counter", "Batches made durable.")                                                                     \
    X(failures, "counter", "Batches of which the store failed.")                                                       \
    X(raised, "counter", "Times the incarnation was raised, the start included.")                                      \
    X(incarnation, "gauge", "Of the tokens granted now.")

#define WEIR_NODES_MEMBER(member, type, help) uint64_t member;

struct weir_nodes_server {
    const char *address, *role, *state; /* as struct weir_remote_server */
    const char *warning;                /* the same; NULL: none */
    uint32_t breakers[3];               /* loops whose breaker is in this enum weir_breaker_state */
    uint64_t since_ns;                  /* so long the worst of them has been in its state */
};

struct weir_nodes_engine {
    const char *name; /* "redis" */
    bool ready;
    const struct weir_nodes_server *servers;
    size_t servers_count;
    const char *last_error; /* NULL: none so far */
    uint64_t last_error_after_ns;
    WEIR_NODES_ENGINE_LIST(WEIR_NODES_MEMBER)
};

struct weir_nodes_sharing {
    WEIR_NODES_SHARING_LIST(WEIR_NODES_MEMBER)
    WEIR_NODES_FALLBACK_LIST(WEIR_NODES_MEMBER)
};

struct weir_nodes_member {
    const char *name, *state; /* as struct weir_gossip_member */
    uint64_t epoch;
    uint64_t heard_after_ns; /* WEIR_NEVER */
};

struct weir_nodes_gossip {
    const struct weir_nodes_member *members;
    size_t members_count;
    WEIR_NODES_GOSSIP_LIST(WEIR_NODES_MEMBER)
};

struct weir_nodes_locks {
    const char *name; /* "sqlite" */
    bool up;
    const char *fault; /* the last one; NULL: none so far */
    uint64_t held;     /* locks; UINT64_MAX: it cannot be told */
    WEIR_NODES_LOCKS_LIST(WEIR_NODES_MEMBER)
};

struct weir_nodes {
    const char *node;                       /* this one's name; NULL where the configuration names none */
    size_t count;                           /* N, at least 1 */
    const struct weir_nodes_engine *engine; /* NULL: there is none */
    const struct weir_nodes_gossip *gossip; /* NULL: no limit is gossiped */
    const struct weir_nodes_locks *locks;   /* NULL: there are none */
    struct weir_nodes_sharing sharing;
};

/* OPEN before HALF_OPEN before CLOSED, of those that some loop is in. */
enum weir_breaker_state weir_nodes_breaker(const struct weir_nodes_server *server);

/* The body of GET /v1/nodes; at most weir_nodes_json_max bytes. */
void weir_nodes_json(struct weir_text *text, const struct weir_nodes *nodes);
size_t weir_nodes_json_max(const struct weir_nodes *nodes);
