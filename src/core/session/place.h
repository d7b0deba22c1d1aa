/* SPDX-License-Identifier: Apache-2.0
 *
 * Places: how far a session has seen, how far a server shows, and the comparison of the two. Pure.
 *
 * Positions are bytes of the log (PostgreSQL: pg_lsn), always those of the end of a record, never of the room for the
 * next one: weir_position_normal takes a page's header off. Ends of records are multiples of 8, which leaves a
 * position's lowest bit for WEIR_POSITION_NEXT: "and the record that follows this one, if there is one". A standby
 * makes a commit visible before it counts it as replayed, so a reader may have seen the record in flight; where a
 * standby has received another position than it counts as replayed, what was seen there is its replay position with
 * that bit.
 *
 * Source: docs/semantics-tests.md, "Sessions"; Terry et al., "Session Guarantees for Weakly Consistent Replicated
 * Data", 1994; docs/reads.md on what of PostgreSQL this rests. */
#pragma once

#include "core/session/timeline.h"

#define WEIR_POSITION_NEXT UINT64_C(1)

/* How far a session has seen, in one system. */
struct weir_place {
    uint64_t system;   /* the cluster's identifier; never 0 */
    uint64_t position; /* everything up to here may have been seen */
    uint64_t run;      /* 0: flushed, no crash takes it back. Else the run of the primary that had not flushed it yet */
    uint32_t timeline; /* never 0 */
    bool standby;      /* seen at a standby, which shows a commit before its primary may: a primary has to be settled */
    uint32_t branch;   /* which of the timelines of that number (timeline.h); 0: timeline 1, or not known */
};

static inline bool weir_place_same(const struct weir_place *a, const struct weir_place *b)
{
    return a->system == b->system && a->position == b->position && a->run == b->run && a->timeline == b->timeline &&
           a->standby == b->standby && a->branch == b->branch;
}

/* How far a server shows, at one moment. */
struct weir_shown {
    uint64_t system;
    uint64_t position; /* a primary: its normal insert position; a standby: replayed to here */
    uint64_t received; /* a standby: received to here; 0 = unknown. May be less than `position` after a restart */
    uint64_t flushed;  /* a primary */
    uint64_t run;      /* a primary; never 0 */
    uint32_t timeline; /* 0: the standby could not tell. May be the timeline that it receives and has yet to reach */
    bool primary;      /* not in recovery */
    bool settled;      /* a primary: no transaction that may be in the log already is still invisible on it */
    uint64_t started;  /* when its postmaster was, by its clock, in microseconds; 0 = not told */
    uint32_t branch;   /* which of the timelines of that number: told by who watches the servers, never by themselves */
    bool streams;      /* a standby: a receiver runs */
    bool told; /* a primary, of which all runs that wrote its branches are known (branches.h): others are of others */
};

enum weir_place_verdict {
    WEIR_PLACE_OK,       /* the server shows at least what was seen */
    WEIR_PLACE_BEHIND,   /* it does not yet, and it may */
    WEIR_PLACE_LOST,     /* a failover or a crash cut off what was seen (or: it cannot be shown that it did not) */
    WEIR_PLACE_DIVERGED, /* the server is a zombie: it went on where the others left its timeline */
    WEIR_PLACE_FOREIGN,  /* another system */
    WEIR_PLACE_UNPROVEN, /* the server's timeline, or a timeline's history, is not known yet: learn it and ask again */
};

/* "ok", "behind", "lost", "diverged", "foreign", "unproven". */
const char *weir_place_verdict_name(enum weir_place_verdict verdict);

/* The worse of two: FOREIGN, LOST, DIVERGED, UNPROVEN, BEHIND, OK. */
enum weir_place_verdict weir_place_worse(enum weir_place_verdict a, enum weir_place_verdict b);

/* May a session that has seen `seen` read at a server that shows `shown`, asked after `seen` was? `known` may be NULL,
 * or of another system: nothing is known then.
 *
 * The first of the known chains' timelines that ended at or beyond it is the one that `seen.position` lies on. It is
 * contained in the server's history if that timeline is in the server's chain, in the same branch, and does not end
 * below it there; where both name the same branch no chain has to be known. Of branches that are not known to be the
 * same nothing is proven: UNPROVEN, or LOST at a primary that is `told`. Then the position decides: OK or BEHIND. (A
 * standby whose stated timeline is the one that it receives is judged rightly too: its position lies before the fork.)
 * If the server's chain leaves that timeline earlier: LOST, unless the server's timeline is the lower one, which makes
 * the server the zombie: DIVERGED, if it is a primary or has passed the fork, else BEHIND. Siblings are judged alike:
 * the higher timeline is the one that is true. Two chains whose common ancestor is beyond what is kept of them have
 * nothing in common.
 *
 * A primary is never behind a session that is honest: where its position is below `seen`, it lost the end of its log:
 * LOST (DIVERGED on a lower timeline). It must be `settled` for a place that was seen at a standby, or on a timeline
 * that left its own (there it was a standby's first): else BEHIND.
 *
 * A place with a run, seen before it was flushed: OK only where the run is known to have flushed it, or the server is
 * the primary in that run. Run over and not known to have flushed it: LOST. Still the present run: BEHIND, ask the
 * primary how far it has flushed. Not known to be over or present: UNPROVEN.
 *
 * A half position (WEIR_POSITION_NEXT) needs a standby strictly beyond it; a primary has the record if there is one. At
 * the very fork it is cut off, which is stricter than need be where no record followed.
 *
 * Never OK where the server does not show all that was seen. LOST and DIVERGED are stricter than the truth in these
 * cases only: a run that is over, half positions at a fork, chains that are cut. */
enum weir_place_verdict weir_place_compare(const struct weir_place *seen, const struct weir_shown *shown,
                                           const struct weir_known *known);

/* What a session has seen that just read (or wrote, at a primary) at a server which, afterwards and on the same
 * connection, shows `shown`. WEIR_EINVAL: a timeline, system, position or (primary) run that is 0, an odd position. */
int weir_place_seen(const struct weir_shown *shown, struct weir_place *ret_place);

/* The end of the last record, from the place where the next one goes: without the header of a page (24 bytes, 40 at a
 * segment's start) that has no record yet. page_size and segment_size: powers of two, of the server's settings, at
 * least 64, the segment not the smaller one: weir_position_sizes. Else the program stops. */
uint64_t weir_position_normal(uint64_t insert, uint64_t page_size, uint64_t segment_size);

bool weir_position_sizes(uint64_t page_size, uint64_t segment_size);

/* "16/B374D848", hexadecimal, two halves of at most 8 digits. WEIR_EPROTO. */
int weir_position_parse(const char *text, size_t size, uint64_t *ret_position);

/* One place, merged: the later of two along a history. WEIR_OK and *ret_merged; WEIR_EAGAIN: neither can be shown to
 * contain the other (cut off by a failover, not flushed by a run that may be over, of two systems, or the history is
 * not known): keep both. Where the merged place is OK both are (or would be, if their histories were known, too). It
 * has `standby` if either has it, or its timeline is the lower one, the later one's run, and the higher timeline if the
 * later one is contained in that and has no run. */
int weir_place_merge(const struct weir_place *a, const struct weir_place *b, const struct weir_known *known,
                     struct weir_place *ret_merged);
