/* SPDX-License-Identifier: Apache-2.0
 *
 * The branch table (core/session/branches.h), in PostgreSQL: deploy/reads/branches.sql makes it. A primary's run is
 * written into it by whoever polls that primary, once for each run; all weirs may do so at once. It is read at
 * standbys and primaries alike.
 *
 * The table is used only where nobody can make it run something as this role: an ordinary table without triggers, rules
 * and policies, that belongs, as its schema does, to this role or a superuser. A row that a dump, a copy or somebody's
 * INSERT brought is none: a row of ours names the transaction that wrote it, and PostgreSQL says which did. */
#pragma once

#include "core/session/branches.h"
#include "core/session/place.h"
#include "net/postgres_ask.h"

#define WEIR_BRANCH_TABLE_ROWS_MAX 64 /* timelines that the table keeps */

/* What the server that showed `shown` on this connection has in its table, `table` being a name of
 * weir_branches_is_name. A primary's own run is written first, above timeline 1. 0; WEIR_EAGAIN: it cannot be had, and
 * ret_fault says why, the connection is good; WEIR_EIO: it is not. Who holds a lock on the table is awaited for
 * 100 ms. */
int weir_branch_table_look(struct pg_conn *conn, const char *table, const struct weir_shown *shown,
                           uint64_t deadline_ns, struct weir_branches *ret_branches,
                           char ret_fault[WEIR_ASK_TEXT_SIZE]);
