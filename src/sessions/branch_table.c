/* SPDX-License-Identifier: Apache-2.0
 *
 * A look takes up to three steps. CHECK tells whether the table may be used at all; READ returns the rows that are
 * proven ours; a primary whose run is in none of them writes its row and reads again. The statements name the schema of
 * each function and operator, so that no search_path puts another in its place. Called by poller.c. What the rows mean
 * is in core/session/branches.c. */
#include "sessions/branch_table.h"

#include <inttypes.h>
#include <libpq-fe.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "weir/error.h"

#define QUOTED_MAX (2 * (WEIR_BRANCH_NAME_MAX + 2) + 2)
#define TEXT_MAX 4096
#define EQUAL "OPERATOR(pg_catalog.=)"
#define UNEQUAL "OPERATOR(pg_catalog.<>)"
#define STARTED                                                                                                        \
    "(extract(epoch FROM pg_catalog.pg_postmaster_start_time()) OPERATOR(pg_catalog.*) 1000000::numeric)::bigint"
#define TRUSTED(owner)                                                                                                 \
    "EXISTS (SELECT FROM pg_catalog.pg_roles WHERE oid " EQUAL " " owner " AND (rolsuper OR rolname " EQUAL            \
    " current_user))"
#define GRANTED                                                                                                        \
    "EXISTS (SELECT FROM pg_catalog.aclexplode(c.relacl) AS a WHERE a.privilege_type " EQUAL " 'TRIGGER'::text"        \
    " AND a.grantee " UNEQUAL " c.relowner AND NOT EXISTS (SELECT FROM pg_catalog.pg_roles AS me WHERE me.oid " EQUAL  \
    " a.grantee AND me.rolname " EQUAL " current_user))"

/* One text: why the table is not used, or nothing. Whoever could come between this and the next statement is refused
 * here: the owners, and whom they let make triggers. %s: the rights, the schema, the table. */
#define CHECK                                                                                                          \
    "SELECT CASE WHEN c.oid IS NULL THEN 'is missing'"                                                                 \
    " WHEN c.relkind " UNEQUAL " 'r' OR c.relpersistence " UNEQUAL " 'p' OR c.relrowsecurity OR c.relispartition"      \
    " OR EXISTS (SELECT FROM pg_catalog.pg_rewrite AS r WHERE r.ev_class " EQUAL " c.oid)"                             \
    " OR EXISTS (SELECT FROM pg_catalog.pg_inherits AS i WHERE i.inhparent " EQUAL " c.oid)"                           \
    " THEN 'must be a plain table: logged, without rules, policies, children'"                                         \
    " WHEN NOT " TRUSTED("c.relowner") " OR NOT " TRUSTED(                                                             \
        "s.nspowner") " THEN 'and its schema must belong to this role or a superuser'"                                 \
                      " WHEN EXISTS (SELECT FROM pg_catalog.pg_trigger AS t WHERE t.tgrelid " EQUAL                    \
                      " c.oid) OR " GRANTED " THEN 'has triggers, or lets others make some'"                           \
                      " WHEN NOT (pg_catalog.has_schema_privilege(s.oid, 'USAGE') AND %s) THEN 'is not granted to "    \
                      "this role'"                                                                                     \
                      " ELSE '' END FROM (SELECT) AS one"                                                              \
                      " LEFT JOIN pg_catalog.pg_namespace AS s ON s.nspname " EQUAL " '%.*s'::name"                    \
                      " LEFT JOIN pg_catalog.pg_class AS c ON c.relnamespace " EQUAL " s.oid AND c.relname " EQUAL     \
                      " '%s'::name"
#define MAY(right) "pg_catalog.has_table_privilege(c.oid, '" right "')"

/* Flushed at once, and not waiting for standbys. */
#define CAREFULLY "SET LOCAL lock_timeout = '100ms'; SET LOCAL synchronous_commit = local; "

/* A row that weir wrote, by its form: what is under it may be kept. */
#define OURS "b.xmin " EQUAL " b.written AND pg_catalog.array_ndims(b.runs) " EQUAL " 1"

/* A pooler may have put another server there since: nothing then. %s, timeline, started, timeline: */
#define WRITE                                                                                                          \
    "INSERT INTO %s AS b (timeline, runs, written)"                                                                    \
    " SELECT %" PRIu32 "::bigint, ARRAY[" STARTED "], pg_catalog.pg_current_xact_id()::pg_catalog.xid"                 \
    " WHERE " STARTED " " EQUAL " %" PRIu64 "::bigint"                                                                 \
    " AND pg_catalog.left(pg_catalog.pg_walfile_name(pg_catalog.pg_current_wal_insert_lsn()), 8) " EQUAL               \
    " '%08" PRIX32 "'::text"                                                                                           \
    " ON CONFLICT (timeline) DO UPDATE SET runs = CASE WHEN " OURS                                                     \
    " THEN (pg_catalog.array_cat(excluded.runs, b.runs))[1:%d] ELSE excluded.runs END, written = excluded.written"     \
    " WHERE (" OURS " AND excluded.runs[1] " EQUAL " ANY (b.runs)) IS NOT TRUE; "
#define TRIM "DELETE FROM %s WHERE timeline OPERATOR(pg_catalog.<=) %" PRId64 "::bigint; "
/* %s, timeline, started, histories. A row of timeline 1, which has one branch, proves nothing. b.timeline is the
 * number; what is selected is a text of that name, and "9" is above "12". */
#define READ                                                                                                           \
    "SELECT timeline::text, pg_catalog.array_to_string(runs, ' ') FROM %s AS b"                                        \
    " WHERE xmin " EQUAL " written AND timeline OPERATOR(pg_catalog.>) 1::bigint"                                      \
    " AND timeline OPERATOR(pg_catalog.<=) %" PRIu32 "::bigint AND " STARTED " " EQUAL " %" PRIu64                     \
    "::bigint ORDER BY b.timeline USING OPERATOR(pg_catalog.>) LIMIT %d"

static int refuse(const char *why, char ret_fault[WEIR_ASK_TEXT_SIZE])
{
    (void)snprintf(ret_fault, WEIR_ASK_TEXT_SIZE, "branch_table %.*s", WEIR_ASK_TEXT_SIZE - 16, why);
    return WEIR_EAGAIN;
}

static int ask(struct pg_conn *conn, const char *text, int columns, uint64_t deadline_ns, PGresult **ret_result,
               char ret_fault[WEIR_ASK_TEXT_SIZE])
{
    PGresult *result;
    int error = weir_ask(conn, text, deadline_ns, &result);
    if (error)
        return error == WEIR_EIO ? error : refuse("could not be asked", ret_fault);
    if (PQresultStatus(result) == PGRES_TUPLES_OK && PQnfields(result) == columns) {
        *ret_result = result;
        return 0;
    }
    const char *message = PQresultErrorField(result, PG_DIAG_MESSAGE_PRIMARY);
    error = refuse(message ? message : "gives an answer that is none of ours", ret_fault);
    PQclear(result);
    return error;
}

static int check(struct pg_conn *conn, const char *table, bool primary, uint64_t deadline_ns,
                 char ret_fault[WEIR_ASK_TEXT_SIZE])
{
    char text[TEXT_MAX];
    PGresult *result;
    const char *dot = strchr(table, '.');
    (void)snprintf(text, sizeof text, CHECK,
                   primary ? MAY("SELECT") " AND " MAY("INSERT") " AND " MAY("UPDATE") " AND " MAY("DELETE")
                           : MAY("SELECT"),
                   (int)(dot - table), table, dot + 1);
    int error = ask(conn, text, 1, deadline_ns, &result, ret_fault);
    if (error)
        return error;
    const char *why = PQntuples(result) == 1 ? PQgetvalue(result, 0, 0) : "cannot be looked at";
    error = why[0] ? refuse(why, ret_fault) : 0;
    PQclear(result);
    return error;
}

static size_t put_write(char *text, const char *quoted, const struct weir_shown *shown)
{
    int size = snprintf(text, TEXT_MAX, WRITE, quoted, shown->timeline, shown->started, shown->timeline,
                        WEIR_BRANCH_RUNS_MAX);
    return (size_t)size + (size_t)snprintf(text + size, TEXT_MAX - (size_t)size, TRIM, quoted,
                                           (int64_t)shown->timeline - WEIR_BRANCH_TABLE_ROWS_MAX);
}

static int read_rows(const PGresult *result, struct weir_branches *branches)
{
    int error = 0;
    for (int i = 0; !error && i < PQntuples(result); i++)
        error = weir_branches_add(branches, strtoull(PQgetvalue(result, i, 0), NULL, 10), PQgetvalue(result, i, 1),
                                  (size_t)PQgetlength(result, i, 1));
    return error;
}

/* WEIR_EPROTO: there is a row that is none of ours. */
static int run(struct pg_conn *conn, const char *quoted, const struct weir_shown *shown, bool writes,
               uint64_t deadline_ns, struct weir_branches *ret_branches, char ret_fault[WEIR_ASK_TEXT_SIZE])
{
    char text[TEXT_MAX] = CAREFULLY;
    struct weir_branches branches = { 0 };
    PGresult *result;
    size_t size = strlen(text);
    if (writes)
        size += put_write(text + size, quoted, shown);
    (void)snprintf(text + size, sizeof text - size, READ, quoted, shown->timeline, shown->started, WEIR_HISTORIES_MAX);
    int error = ask(conn, text, 2, deadline_ns, &result, ret_fault);
    if (error)
        return error;
    error = read_rows(result, &branches);
    PQclear(result);
    *ret_branches = branches;
    return error;
}

int weir_branch_table_look(struct pg_conn *conn, const char *table, const struct weir_shown *shown,
                           uint64_t deadline_ns, struct weir_branches *ret_branches, char ret_fault[WEIR_ASK_TEXT_SIZE])
{
    char quoted[QUOTED_MAX];
    struct weir_branches branches;
    weir_assert(table);
    size_t schema = strcspn(table, ".");
    (void)snprintf(quoted, sizeof quoted, "\"%.*s\".\"%s\"", (int)schema, table, table + schema + 1);
    int error = check(conn, table, shown->primary, deadline_ns, ret_fault);
    if (!error)
        error = run(conn, quoted, shown, false, deadline_ns, &branches, ret_fault);
    /* A row that is none of ours may be this timeline's, which is written over. */
    bool writes = shown->primary && shown->timeline > 1;
    bool misses = error == WEIR_EPROTO || (!error && !weir_branches_has(&branches, shown->timeline, shown->started));
    if (writes && misses)
        error = run(conn, quoted, shown, true, deadline_ns, &branches, ret_fault);
    if (error)
        return error == WEIR_EPROTO ? refuse("has a row that is none of ours", ret_fault) : error;
    if (writes && !weir_branches_has(&branches, shown->timeline, shown->started))
        return refuse("did not take the row of this run", ret_fault);
    *ret_branches = branches;
    return 0;
}
