/* SPDX-License-Identifier: Apache-2.0
 *
 * Who of the configured nodes answers: probing as in SWIM (Das, Gupta and Motivala, "SWIM: scalable weakly-consistent
 * infection-style process group membership protocol", 2002). A node unheard for a while is pinged, then pinged through
 * k others, then suspected, and dead when the suspicion is not refuted in time.
 *
 * For sending and for showing only: a dead node still counts in every bound of gossip, for it may be alive behind a
 * partition and admit its share.
 *
 * Pure; times are of this node's monotonic clock. Any message of a node proves that it lives: pings and their answers
 * ride on whatever is sent. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define WEIR_MEMBERSHIP_MAX 64
#define WEIR_MEMBERSHIP_HELPERS 3 /* k */
#define WEIR_MEMBERSHIP_SENDS 8   /* of one tick */
#define WEIR_MEMBERSHIP_NOBODY UINT32_MAX

enum weir_membership_state {
    WEIR_MEMBERSHIP_UNKNOWN, /* not heard since this node started */
    WEIR_MEMBERSHIP_ALIVE,
    WEIR_MEMBERSHIP_SUSPECT,
    WEIR_MEMBERSHIP_DEAD,
    WEIR_MEMBERSHIP_SELF,
};

struct weir_membership_node {
    enum weir_membership_state state;
    uint64_t heard_ns;  /* directly or through others */
    uint64_t since_ns;  /* when `state` began */
    uint64_t pinged_ns; /* the ping under way, 0 = none */
    bool helped;        /* others were asked */
    uint64_t askers;    /* who wants to be told when it is heard: bit per node */
    uint64_t asked_ns;  /* the last of them */
};

struct weir_membership {
    uint32_t nodes, self;
    uint64_t probe_ns;   /* unheard for so long: ping. 1 s; a ping unanswered for half of it goes through others */
    uint64_t suspect_ns; /* suspected for so long: dead. 5 s */
    uint32_t helper;     /* round robin */
    struct weir_membership_node node[WEIR_MEMBERSHIP_MAX];
};

/* One message to send: an answer is wanted, and/or `ask`: please ping that node, `told`: that node was heard. */
struct weir_membership_send {
    uint32_t to;
    bool ping;
    uint32_t ask, told; /* or WEIR_MEMBERSHIP_NOBODY */
};

void weir_membership_init(struct weir_membership *members, uint32_t nodes, uint32_t self, uint64_t probe_ns,
                          uint64_t suspect_ns, uint64_t now_ns);

/* A message of `node` came. Returns who asked for it (bit per node): tell them. */
uint64_t weir_membership_heard(struct weir_membership *members, uint32_t node, uint64_t now_ns);
/* Somebody says that it heard `node`. */
void weir_membership_told(struct weir_membership *members, uint32_t node, uint64_t now_ns);
/* `asker` wants `node` pinged: ping it, and remember whom to tell. */
void weir_membership_asked(struct weir_membership *members, uint32_t asker, uint32_t node, uint64_t now_ns);

/* What is due; returns how many of ret_sends. Call it at least twice per probe_ns; where all are used, again soon. */
size_t weir_membership_tick(struct weir_membership *members, uint64_t now_ns,
                            struct weir_membership_send ret_sends[WEIR_MEMBERSHIP_SENDS]);

const char *weir_membership_name(enum weir_membership_state state);
