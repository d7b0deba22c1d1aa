/* SPDX-License-Identifier: Apache-2.0
 *
 * Fencing at a resource of N replicas: how many must answer. Pure.
 *
 * Install on F, read R, write W, with F + W > N (a write of an older holder meets a replica that the newer one has
 * fenced) and R + W > N (a read meets the last acknowledged write). Each read carries the token and raises the mark at
 * the replica that it reads, as each write does: else an older holder's write is completed at replicas that were read
 * before it came and that the install did not reach, though both sums hold (proofs/quorum.pml, PLAIN_READ). A replica
 * refuses (WEIR_EFENCED) what carries a token below its mark. Values are ordered by (token, sequence); the new holder
 * writes back what it read under its own token before its first write, else an older holder's unacknowledged value can
 * come back later. Source: docs/semantics-tests.md, "Locks"; Attiya, Bar-Noy and Dolev, "Sharing memory robustly in
 * message-passing systems", 1995; BookKeeper's ledger recovery. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "weir/fence.h"

#define WEIR_QUORUM_REPLICAS_MAX 64

struct weir_quorum {
    unsigned replicas; /* N, 1 to WEIR_QUORUM_REPLICAS_MAX */
    unsigned install;  /* F */
    unsigned read;     /* R */
    unsigned write;    /* W; each 1 to N */
};

/* WEIR_ERANGE: a number out of 1 to N; WEIR_EINVAL: F + W <= N or R + W <= N. The fault says which. */
int weir_quorum_check(const struct weir_quorum *quorum, struct weir_fault *ret_fault);

/* The version of a value at one replica. */
struct weir_version {
    struct weir_token token; /* of the holder that wrote it */
    uint64_t sequence;       /* counts that holder's writes from 1 */
};
int weir_version_compare(struct weir_version a, struct weir_version b);

/* One round over the replicas: count answers, stop when enough said yes or too many did not. A replica counts once. */
struct weir_round {
    uint64_t yes, no; /* bits by replica; `no`: fenced or failed */
    unsigned need;
    unsigned replicas;
    bool fenced; /* at least one said so: the holder has been replaced */
};
enum weir_round_state {
    WEIR_ROUND_OPEN,
    WEIR_ROUND_DONE,    /* `need` said yes */
    WEIR_ROUND_FENCED,  /* cannot be done any more, and somebody was fenced */
    WEIR_ROUND_UNKNOWN, /* cannot be done any more for want of answers: neither done nor undone */
};
void weir_round_begin(struct weir_round *round, const struct weir_quorum *quorum, unsigned need);
enum weir_round_state weir_round_hear(struct weir_round *round, unsigned replica,
                                      int result);                    /* 0, WEIR_EFENCED, other */
enum weir_round_state weir_round_end(const struct weir_round *round); /* who has not answered will not */

/* What the new holder does, in this order; each step is a round. */
enum weir_takeover {
    WEIR_TAKEOVER_INSTALL,    /* F */
    WEIR_TAKEOVER_READ,       /* R, with the token: keep the value of the highest version */
    WEIR_TAKEOVER_WRITE_BACK, /* W: that value as {own token, 1} */
    WEIR_TAKEOVER_READY,      /* W for each write: {own token, 2, 3, …} */
};
unsigned weir_takeover_need(const struct weir_quorum *quorum, enum weir_takeover step);
