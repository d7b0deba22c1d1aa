/* SPDX-License-Identifier: Apache-2.0
 *
 * Hosts the gossiped keys of one process, for all its loops: a bounded table of their state (core/share/gossip.h) and
 * the datagrams that go and come. Decisions never wait.
 *
 * Thread rule: any thread, one lock for all. `send` is called from within turn and heard, under the lock: it may not
 * call back.
 * Bounds: keys_max keys (a newcomer takes the place of one that is fresh; where none is found it is refused with
 * WEIR_ELIMIT); bytes_per_s of datagrams, in turn to each node, keys with half their slack used first when not all fit.
 * News that cannot be taken here (a limit that is not defined here, no place for the key) holds up the log of
 * its sender, which then counts as stale, never as fresh. */
#pragma once

#include "core/share/share.h"
#include "limits/remote.h"

struct weir_gossip_host;

struct weir_gossip_host_options {
    const uint8_t *secret; /* 16 bytes: authenticates datagrams */
    uint32_t nodes, node;  /* N, and which one this is */
    const char *const *names;
    uint64_t interval_ns; /* 0 = 100 ms */
    uint64_t bytes_per_s; /* 0 = 1 MiB/s */
    size_t keys_max;      /* 0 = 100,000 */
    uint64_t now_ns;      /* monotonic */
    uint64_t epoch;       /* of this start: grows from start to start (wall ns) */
    bool revised;         /* limits have revisions: until that of a limit is known here, what others say of its keys is
                             in units of a definition that may be another, and waits */
    void (*send)(void *context, uint32_t node, const void *datagram, size_t size);
    void *context;
};

int weir_gossip_host_create(const struct weir_gossip_host_options *options, struct weir_gossip_host **ret_host,
                            struct weir_fault *ret_fault);
void weir_gossip_host_destroy(struct weir_gossip_host *host);

/* YES: set aside until commit or cancel. Never WAIT. A limit of before the newest reload is decided by what it has
 * become. Errors: WEIR_ELIMIT, WEIR_ENOMEM, WEIR_EINVAL (sliding_log). */
int weir_gossip_host_reserve(struct weir_gossip_host *host, const struct weir_remote_limit *limit, uint64_t slack,
                             const struct weir_remote_key *key, uint64_t units, bool peek, const struct weir_time *time,
                             enum weir_share_say *ret_say, struct weir_verdict *ret_verdict);
void weir_gossip_host_commit(struct weir_gossip_host *host, const struct weir_remote_key *key, uint64_t units,
                             const struct weir_time *time);
void weir_gossip_host_cancel(struct weir_gossip_host *host, const struct weir_remote_key *key, uint64_t units,
                             const struct weir_time *time);

/* A reload: the limits and overrides as they are now, before anybody asks by them. Datagrams name them by a hash of
 * limit and override; keys of what is there no more go on under the limit of that name. */
void weir_gossip_host_limits(struct weir_gossip_host *host, const struct weir_remote_limit *const *limits,
                             const uint64_t *slacks, size_t count, const struct weir_time *time);

/* A datagram came. Forged, replayed, foreign or broken ones are counted and change nothing. */
void weir_gossip_host_heard(struct weir_gossip_host *host, const void *datagram, size_t size,
                            const struct weir_time *time);
/* Sends what is due; returns when to call it again. */
uint64_t weir_gossip_host_turn(struct weir_gossip_host *host, const struct weir_time *time);

struct weir_gossip_member {
    const char *name;
    const char *state; /* "self", "alive", "suspect", "dead", "unknown" */
    uint64_t epoch;
    uint64_t heard_after_ns; /* since its last good datagram; WEIR_NEVER */
};
struct weir_gossip_stats {
    uint64_t keys, evicted, refused_full;
    uint64_t sent, bytes_sent, received, forged, replayed, foreign, malformed,
        twins;        /* twins: another node of our name */
    uint64_t unacked; /* units that not all nodes know */
    uint64_t synced;  /* 1: it knows what the others know; 0: keys are taken as empty when this node started */
    uint64_t refused_unsynced, refused_unheard, refused_slack, refused_superseded; /* as struct weir_gossip_refusals */
};
size_t weir_gossip_host_members(struct weir_gossip_host *host, const struct weir_time *time,
                                struct weir_gossip_member *ret_members, size_t room);
void weir_gossip_host_stats(struct weir_gossip_host *host, struct weir_gossip_stats *ret_stats);
bool weir_gossip_host_synced(struct weir_gossip_host *host);
/* How often, within the last time in which the limit fills, another node started again or forgot what it had not told;
 * WEIR_GOSSIP_LOSSES: so often, or more. */
size_t weir_gossip_host_losses(struct weir_gossip_host *host, const struct weir_remote_limit *limit, uint64_t now_ns);
/* When the key's window began, by this node's clock, of a limit that has windows and of a key that was asked for. */
uint64_t weir_gossip_host_window_start(struct weir_gossip_host *host, const struct weir_remote_key *key,
                                       const struct weir_time *time);
