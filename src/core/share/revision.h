/* SPDX-License-Identifier: Apache-2.0
 *
 * Which of several definitions of one limit is the newest, where nodes of different rule sets share it. Pure: no clock,
 * no memory, no I/O. docs/reload.md has the argument.
 *
 * A revision is a definition that became the newest one at some time, under a number that grows. Nodes tell each other
 * the revisions they know, through the engine or by gossip; the greatest number wins everywhere, so order, loss and
 * repetition of what is told do not matter.
 *
 * When does what a node's own file says become the newest? If `revision:` in the file is above the newest's; never if
 * it is below. If they are equal (or nobody gives one): when a reload of that node changed it or brought it, or when
 * nobody has had it before. A start with a file that others have left behind changes nothing.
 *
 * Thread rule: plain values. Bounds: WEIR_SUPERSEDED_MAX definitions are remembered; one from before counts as never
 * seen. Numbers end at WEIR_REVISION_MAX; nothing becomes newer than that. No clock gives the last million of them, so
 * that a change made in 2109 is not the last one. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define WEIR_SUPERSEDED_MAX 16
#define WEIR_REVISION_NONE UINT32_MAX      /* of a definition that has none, where former ones may have had */
#define WEIR_REVISION_MAX (UINT32_MAX - 1) /* stored values have 32 bits for it */
#define WEIR_REVISION_CLOCK_MAX (WEIR_REVISION_MAX - (UINT32_C(1) << 20)) /* no clock gives more */
#define WEIR_REVISION_FIRST 1                                             /* of a limit that never changed */
#define WEIR_REVISION_LOOKS 10 /* of a node at the engine, until a number that only keys say counts as nobody's */

struct weir_revision {
    uint64_t number;   /* 0: there is none */
    uint64_t given;    /* `revision:` of the file it is from; 0: none */
    uint64_t checksum; /* of the definition */
    size_t superseded_count;
    uint64_t superseded[WEIR_SUPERSEDED_MAX]; /* checksums of those before it, newest first, and marks (revision.c) of
                                                 numbers that were passed, at most one for each */
};

/* What a node knows of one limit. All zero at first. */
struct weir_revised {
    struct weir_revision newest;
    uint64_t own, own_given; /* what its own file says */
    bool owned;              /* that is set */
    bool heard;              /* it knows what the others knew when it came */
    bool wanted;             /* a reload changed or brought `own`: it is to become the newest. Whoever sees that it has
                                been told to the others ends that */
    uint64_t met;            /* a number above the newest's, which a key at the engine says; 0: none */
    uint64_t beyond;         /* the highest number that a key said which is left to reloads; 0: none */
    uint32_t met_looks;      /* so often the engine has known of no such number since */
};

/* Whether `a` is newer than `b`: by number; by checksum where two nodes gave one number to two definitions. */
bool weir_revision_newer(const struct weir_revision *a, const struct weir_revision *b);

/* The number that it had before it passed what keys said (weir_revised_passes); 0: it is as it was made. */
uint64_t weir_revision_passed(const struct weir_revision *revision);

/* The node's file says this, after a start or a reload. */
void weir_revised_own(struct weir_revised *revised, uint64_t checksum, uint64_t given, bool is_reload);

/* Others say that this is the newest; NULL: they know of none. True: the newest is another one now. */
bool weir_revised_hear(struct weir_revised *revised, const struct weir_revision *told);

/* Makes what the own file says the newest, if it is due: true. Before the node has heard what the others know nothing
 * is due. What a start says where nobody knew of any is number 1, which everything that somebody still knows outweighs.
 * Else numbers are no less than now_s, seconds since 1970, so that of nodes that cannot hear each other the later one
 * wins. */
bool weir_revised_settle(struct weir_revised *revised, uint64_t now_s);

/* A key at the engine was written under this number. True: it is so high that it is not passed, and this is new. */
bool weir_revised_met(struct weir_revised *revised, uint64_t number);

/* The engine knows the newest of this node, and none after it. True: what keys say has been nobody's for
 * WEIR_REVISION_LOOKS looks (whoever made it has gone, and the engine has forgotten it); else they would keep to it for
 * as long as they are in use. The newest has a number above theirs now, and is to be told. Should whoever made it be
 * there after all, and only late, its reload becomes the newest again, also where this wrote over it. */
bool weir_revised_passes(struct weir_revised *revised, uint64_t now_s);
