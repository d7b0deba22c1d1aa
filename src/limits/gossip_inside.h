/* SPDX-License-Identifier: Apache-2.0
 *
 * What the parts of the gossip host share: gossip_host.c (keys and decisions) and gossip_talk.c (datagrams). All under
 * the host's lock. */
#pragma once

#include <pthread.h>

#include "base/siphash.h"
#include "core/share/gossip.h"
#include "core/share/membership.h"
#include "limits/gossip_host.h"
#include "limits/wall.h"
#include "wire/gossip.h"

/* A limit, or an override of it, as it is or was. */
struct weir_gossip_hosted_limit {
    struct weir_gossip_limit gossip;
    const struct weir_remote_limit *remote; /* held */
    size_t keys;
    uint64_t name;                         /* a hash */
    bool kept;                             /* by the newest reload */
    struct weir_gossip_hosted_limit *heir; /* if not: what it has become; NULL: nothing */
    struct weir_gossip_hosted_limit *next;
};

struct weir_gossip_hosted_key {
    struct weir_gossip_key key; /* first: the core's pointers are ours */
    struct weir_gossip_hosted_limit *limit;
    uint64_t phase;
    bool asked;   /* for, here, since the newest reload: it is known which override applies */
    size_t index; /* in host->keys */
    struct weir_gossip_hosted_key *next;
    struct weir_gossip_about about[]; /* one per node */
};

struct weir_gossip_host {
    pthread_mutex_t mutex;
    struct weir_gossip gossip;
    struct weir_gossip_peer peers[WEIR_GOSSIP_NODES_MAX];
    struct weir_membership members;
    char names[WEIR_GOSSIP_NODES_MAX][65];
    uint8_t secret[WEIR_GOSSIP_SECRET_SIZE];
    struct weir_sip_key hash;
    struct weir_wall wall;
    bool revised;
    uint64_t now_ns; /* the newest seen: decisions of different threads may come a little out of order */

    struct weir_gossip_hosted_limit *limits; /* newest first */
    struct weir_gossip_hosted_key **keys;    /* all, for the hand that looks for fresh ones */
    struct weir_gossip_hosted_key **buckets;
    size_t keys_count, keys_max, hand, buckets_mask;

    uint64_t interval_ns, bytes_per_s, next_ns;
    int64_t budget;
    uint64_t budget_ns;
    uint32_t first; /* who is talked to first, in turn */
    struct weir_gossip_writer writer;
    void (*send)(void *context, uint32_t node, const void *datagram, size_t size);
    void *context;
    struct weir_gossip_stats stats;
};

/* The event of a decision about the key, now. */
struct weir_event weir_gossip_host_event(struct weir_gossip_host *host, const struct weir_gossip_hosted_limit *limit,
                                         uint64_t phase, uint64_t cost, const struct weir_time *time);

/* The key goes on under this limit. */
void weir_gossip_host_follow(struct weir_gossip_host *host, struct weir_gossip_hosted_key *hosted,
                             struct weir_gossip_hosted_limit *limit, const struct weir_time *time);
struct weir_gossip_hosted_key *weir_gossip_host_find(const struct weir_gossip_host *host, const uint64_t id[2]);
/* A newcomer. WEIR_ELIMIT, WEIR_ENOMEM. */
int weir_gossip_host_add(struct weir_gossip_host *host, struct weir_gossip_hosted_limit *limit, const uint64_t id[2],
                         uint64_t phase, const struct weir_time *time, struct weir_gossip_hosted_key **ret_key);
