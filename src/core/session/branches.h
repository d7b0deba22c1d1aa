/* SPDX-License-Identifier: Apache-2.0
 *
 * What the branch table says: for each timeline that was begun by a promotion, which runs of the postmaster have
 * written on it. Pure.
 *
 * The row of a timeline is written by its primary, and the log carries it to all that follow. So a server that shows
 * the row is on that branch, or comes from it, and all the runs in the row are one branch; a run that is in no row of
 * its timeline wrote another branch. Nobody has to have seen the new starts in between. A token goes on naming the run
 * (timeline.h): who does not know the table reads it all the same.
 *
 * Bounded: of the newest WEIR_HISTORIES_MAX timelines, the newest WEIR_BRANCH_RUNS_MAX runs. */
#pragma once

#include "core/session/timeline.h"

#define WEIR_BRANCH_RUNS_MAX 16
#define WEIR_BRANCH_NAME_MAX 63 /* bytes of a schema's or a table's name */

struct weir_branch_row {
    uint32_t timeline;
    unsigned count;
    uint64_t runs[WEIR_BRANCH_RUNS_MAX]; /* when each postmaster was started (weir_shown.started); the newest first */
};

struct weir_branches {
    unsigned count;
    struct weir_branch_row rows[WEIR_HISTORIES_MAX];
};

#define WEIR_BRANCH_NAME_RULE "must be schema.table: letters, digits, underscores, no digit first, each up to 63 bytes"

/* "schema.table": letters, digits and underscores, no digit first, both names up to WEIR_BRANCH_NAME_MAX bytes. */
bool weir_branches_is_name(const char *text, size_t size);

/* Adds the row of a timeline: numbers with one blank between them. What is beyond the bound is left out. WEIR_EPROTO:
 * not such a text, no number, or timeline 0 or 1, which has no branches. */
int weir_branches_add(struct weir_branches *branches, uint64_t timeline, const char *runs, size_t size);

/* NULL: there is none. */
const struct weir_branch_row *weir_branches_find(const struct weir_branches *branches, uint32_t timeline);

/* Is this run among those of its timeline? */
bool weir_branches_has(const struct weir_branches *branches, uint32_t timeline, uint64_t run);

/* The number of the timeline's branch, by its newest run; 0: there is no row. */
uint32_t weir_branches_number(const struct weir_branches *branches, uint64_t system, uint32_t timeline);

/* What a server of the known system on `branch` of the timeline shows goes into what is known: runs that are the same,
 * and which branches its ancestors are. */
void weir_branches_learn(const struct weir_branches *branches, uint32_t timeline, uint32_t branch,
                         struct weir_known *known);
