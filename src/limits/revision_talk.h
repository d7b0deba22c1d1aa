/* SPDX-License-Identifier: Apache-2.0
 *
 * How nodes tell each other the newest definitions of limits (limits/revisions.h) where they gossip: no engine is
 * needed. Each node says four times a second to every other one what it has (the next WEIR_REVISION_TALK_SAID limits in
 * turn, so up to 96 within a second); who hears of a newer one asks for its bytes, which come in parts.
 *
 * A lost, repeated or late datagram does no harm: it is said again, and the greatest number wins. Datagrams are signed
 * with the cluster's secret. What nobody told within WEIR_REVISION_ALONE_NS of the start, or until all have said that
 * they know of nothing, is taken for unknown to all.
 *
 * Thread rule: one thread. Bounds: one definition at a time is put together of parts. */
#pragma once

#include "limits/revisions.h"

#define WEIR_REVISION_TALK_MAX 1400 /* bytes of a datagram */
#define WEIR_REVISION_TALK_SAID 24
#define WEIR_REVISION_TALK_NS (WEIR_NS_PER_SECOND / 4)
#define WEIR_REVISION_ALONE_NS (2 * WEIR_NS_PER_SECOND)

struct weir_revision_talk;

struct weir_revision_talk_options {
    struct weir_revisions *revisions; /* outlives the talk */
    const uint8_t *secret;            /* 16 bytes */
    uint32_t nodes, node;             /* N, at most 255, and which one this is */
    bool may_be_alone; /* no engine tells either: without a word from others, what this node's file says counts */
    uint64_t now_ns;   /* monotonic */
    void (*send)(void *context, uint32_t node, const void *datagram, size_t size);
    void *context;
};

/* WEIR_ENOMEM. */
int weir_revision_talk_create(const struct weir_revision_talk_options *options, struct weir_revision_talk **ret_talk);
void weir_revision_talk_destroy(struct weir_revision_talk *talk); /* NULL is allowed */

/* Says what is due; returns when to call it again. */
uint64_t weir_revision_talk_turn(struct weir_revision_talk *talk, const struct weir_time *time);

/* False: it is no datagram of this kind. A forged or broken one is, and changes nothing. */
bool weir_revision_talk_heard(struct weir_revision_talk *talk, const void *datagram, size_t size,
                              const struct weir_time *time);
