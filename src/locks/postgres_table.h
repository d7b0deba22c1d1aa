/* SPDX-License-Identifier: Apache-2.0
 *
 * Which tables the postgres lock engine uses, and whether it may. For a new connection; on failure link->fault says
 * why, for people. Thread rule: one thread. */
#pragma once

#include "locks/postgres_text.h"
#include "net/postgres_link.h"

#define WEIR_PG_NAMED_MAX 256 /* bytes: a schema of 63, each quoted, and the table */

/* The table with its schema, as SQL: that where the session's search path finds it, else where it would be made. */
bool weir_pg_table_find(struct weir_pg_link *link, struct weir_pg_text *text, const char *table,
                        char ret_named[WEIR_PG_NAMED_MAX], uint64_t deadline_ns);

/* True as long as none of the tables that are there (meta, too) is of somebody who could have code of his run by us. */
bool weir_pg_table_judge(struct weir_pg_link *link, struct weir_pg_text *text, const char *named, uint64_t deadline_ns);
