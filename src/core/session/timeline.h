/* SPDX-License-Identifier: Apache-2.0
 *
 * The histories of a replicated database: which timeline came from which, and where it left it. Pure.
 *
 * A promotion begins a new timeline at a position; what the old timeline wrote beyond that position is cut off. A
 * timeline's history is the chain of its ancestors, each with the position at which it ended. What is known of one
 * system is a set of such chains, and of the latest runs of its primaries: a primary that crashes stays on its timeline
 * and loses what it had written and not yet flushed, so that its positions are given out twice. A run is the time
 * between two crashes.
 *
 * A timeline's number is no identity: PostgreSQL picks the highest one that its archive or its upstream has told it of,
 * plus one, so two standbys of which neither followed the other may both take 2. What one of them wrote is a branch. It
 * is told apart by a number of its own: that of the run of the postmaster that wrote it. Timeline 1 is one branch, 0. A
 * postmaster that is started anew has another number; who saw both, at one server, on one timeline, knows that they are
 * the same (weir_known_same). Where two numbers differ and nobody saw that they are the same, nothing is proven.
 *
 * Bounded: the newest WEIR_HISTORIES_MAX timelines, WEIR_ANCESTORS_MAX ancestors of each, WEIR_RUNS_MAX runs. What was
 * pushed out is not known, and what is not known is never taken for OK.
 * Source: PostgreSQL, "Timelines" (25.3.5) and the replication protocol's TIMELINE_HISTORY (55.4). */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define WEIR_HISTORIES_MAX 8
#define WEIR_ANCESTORS_MAX 64
#define WEIR_RUNS_MAX 8
#define WEIR_SAME_MAX 128

struct weir_ancestor {
    uint32_t timeline;
    uint64_t end;    /* what it wrote up to here, and up to each end that follows, belongs to the history; no more */
    uint32_t branch; /* which of that number; 0: timeline 1, or nobody saw it */
};

struct weir_history {
    uint32_t timeline;
    uint32_t branch;                                    /* which of that number */
    unsigned count;                                     /* of ancestors */
    bool cut;                                           /* older ancestors than these there are, unknown ones */
    struct weir_ancestor ancestors[WEIR_ANCESTORS_MAX]; /* oldest first; timelines ascend */
};

/* Reads what TIMELINE_HISTORY answers: lines of "timeline <blank> position <blank> reason", comments from '#'.
 * WEIR_EPROTO: not such a text, or its timelines do not ascend, or reach `timeline`, or `timeline` is 0. A text of size
 * 0 is the history of a timeline without ancestors. Positions may fall: a standby that is promoted on the way to its
 * newest timeline names that one as its parent, although it never reached it. Nothing beyond such an end is part of the
 * history, whichever ancestor wrote it. Of more than WEIR_ANCESTORS_MAX the newest are kept. Branches are not in it. */
int weir_history_parse(uint32_t timeline, const char *text, size_t size, struct weir_history *ret_history);

struct weir_run {
    uint32_t timeline;
    uint32_t branch;  /* of that number: copies of one server tell the same run */
    uint64_t run;     /* never 0 */
    uint64_t flushed; /* the primary was seen to have flushed so much in this run */
};

/* What is known of one system. All zero: nothing. */
struct weir_known {
    uint64_t system; /* whose; 0 = nobody's yet. To other systems' places all below is unknown */
    unsigned history_count;
    struct weir_history histories[WEIR_HISTORIES_MAX]; /* timelines, then branches ascend */
    unsigned run_count;
    struct weir_run runs[WEIR_RUNS_MAX]; /* timelines, then runs, then branches ascend */
    unsigned same_count;
    struct weir_same {
        uint32_t timeline, branch, first; /* the branch is the one that was known as `first` */
    } same[WEIR_SAME_MAX];                /* oldest first */
    struct weir_leading {
        uint32_t timeline;
        uint64_t run, started;
    } leading;        /* the primary that was known last */
    uint64_t changes; /* how often it was another than before */
};

/* The first to be told of gives `known` its system; what belongs to another system is ignored, for both functions. Both
 * commute while no bound is reached: the order in which one hears of things does not matter. A history that differs
 * from the known one of its branch replaces it. */
void weir_known_history(struct weir_known *known, uint64_t system, const struct weir_history *history);

/* A primary was seen in this run. Raises `flushed`, adds a run, forgets the oldest. A run is the time of its beginning
 * by one server's clock: later ones are greater. */
void weir_known_run(struct weir_known *known, uint64_t system, uint32_t timeline, uint32_t branch, uint64_t run,
                    uint64_t flushed);

/* The primary is this one now. Another start, run or timeline than before is a change: by then what the last one showed
 * may be cut off. Copies of one server tell the same run, so that two promoted to one timeline differ in their start
 * only. Does not commute. */
void weir_known_primary(struct weir_known *known, uint64_t system, uint32_t timeline, uint64_t run, uint64_t started);

/* Somebody saw that `branch` of the timeline goes on what `before` of the same timeline wrote: one server under one
 * address that was started anew; or both are in the branch table. The oldest of WEIR_SAME_MAX is forgotten. */
void weir_known_same(struct weir_known *known, uint32_t timeline, uint32_t branch, uint32_t before);

/* Are these two of the timeline one branch, as far as is known? Whatever they are on timeline 1. */
bool weir_known_is_same(const struct weir_known *known, uint32_t timeline, uint32_t a, uint32_t b);

/* Of the branch, under any of its numbers. NULL where it is not known, or `known` is NULL. Timeline 1 has no ancestors:
 * it is always known. */
const struct weir_history *weir_known_find(const struct weir_known *known, uint32_t timeline, uint32_t branch);

/* The number of a branch, from the time at which the postmaster was started that wrote it. Never 0, but on timeline 1.
 * */
uint32_t weir_branch_of(uint64_t system, uint32_t timeline, uint64_t started);
