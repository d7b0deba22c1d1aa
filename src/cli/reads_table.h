/* SPDX-License-Identifier: Apache-2.0
 *
 * The servers of a check, looked at before it begins, and the one table that it makes and drops. */
#pragma once

#include <signal.h>

#include "cli/reads.h"

struct weir_reads_table {
    const struct weir_reads_plan *plan;
    char name[160]; /* with its schema, quoted */
    char oid[16];   /* a replica that is behind may show the one of an earlier check */
};

/* Are they one primary and its replicas, each once? Says on standard error what is wrong; 0 or an exit code. */
int weir_reads_servers_check(const struct weir_reads_plan *plan, int *ret_version);

/* Makes the table, with a row per session and strategy and one for the clock, and waits until each replica shows it. 0
 * or an exit code: then it is gone again. One of `signals`, which are blocked, ends the wait. */
int weir_reads_table_make(const struct weir_reads_plan *plan, const sigset_t *signals,
                          struct weir_reads_table *ret_table);

/* 0 or an exit code: then it says that the table is left. */
int weir_reads_table_drop(const struct weir_reads_table *table);

/* The row of one session of one strategy; row 0 is the clock of strategy lamport. */
static inline unsigned weir_reads_row(const struct weir_reads_plan *plan, enum weir_reads_mode mode, unsigned session)
{
    return (unsigned)mode * plan->sessions + session;
}
