/* SPDX-License-Identifier: Apache-2.0
 *
 * Sends the statements of shown_text.c with net/postgres_ask.c. They are prepared; where they go missing again and
 * again, they are sent as plain text. After a read less is asked: a primary keeps its role, timeline and run for as
 * long as the connection lives. A standby may not; it is asked for everything where the short answer is not enough.
 * Called by poller.c, pool.c, link.c and link_query.c. weir_shown_settle is in settle.c. */
#include "sessions/shown.h"

#include <libpq-fe.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "net/postgres_ask.h"
#include "sessions/shown_text.h"
#include "weir/error.h"

#define VERSION_MIN 150000
#define MISSING_MAX 3
#define FIRST_COLUMNS (WEIR_SHOWN_FIXED + 2)

/* ---- asking ---- */

static bool has_state(const PGresult *result, const char *state)
{
    const char *said = PQresultErrorField(result, PG_DIAG_SQLSTATE);
    return said && strncmp(said, state, strlen(state)) == 0;
}

/* One row of so many columns without NULLs, or why not. */
static int row_of(const PGresult *result, int count, const char **ret_columns)
{
    if (PQresultStatus(result) != PGRES_TUPLES_OK) /* 42: what is asked is not there, or not allowed */
        return has_state(result, "42") ? WEIR_EPROTO : WEIR_EAGAIN;
    if (PQntuples(result) != 1 || PQnfields(result) != count)
        return WEIR_EPROTO;
    for (int i = 0; i < count; i++) {
        if (PQgetisnull(result, 0, i))
            return WEIR_EPROTO;
        ret_columns[i] = PQgetvalue(result, 0, i);
    }
    return 0;
}

/* A statement of that name that is there already is ours: the name carries its version. */
static int prepare(struct pg_conn *conn, const struct weir_shown_statement *statement, uint64_t deadline_ns)
{
    PGresult *result;
    int error = weir_ask_prepare(conn, statement->name, statement->text, deadline_ns, &result);
    if (error)
        return error;
    if (PQresultStatus(result) != PGRES_COMMAND_OK && !has_state(result, "42P05"))
        error = has_state(result, "42") ? WEIR_EPROTO : WEIR_EAGAIN;
    PQclear(result);
    return error;
}

/* Prepared, which halves what it costs the server. Where it is missing, prepared first; where it goes missing again and
 * again (a pooler hands out connections in turn), as plain text. */
static int run(struct pg_conn *conn, const struct weir_shown_statement *statement, struct weir_shown_fixed *fixed,
               uint64_t deadline_ns, PGresult **ret_result)
{
    if (fixed->missing <= MISSING_MAX) {
        PGresult *result;
        int error = weir_ask_prepared(conn, statement->name, deadline_ns, &result);
        if (error)
            return error;
        if (!has_state(result, "26000")) { /* invalid_sql_statement_name */
            *ret_result = result;
            return 0;
        }
        PQclear(result);
        fixed->missing++;
        error = prepare(conn, statement, deadline_ns);
        if (error)
            return error;
    }
    return weir_ask(conn, statement->text, deadline_ns, ret_result);
}

/* A pooler names processes that do not exist. In statement mode it has no transactions, and ends the connection at a
 * BEGIN: each statement may run at another server there. */
static int allows_transactions(struct pg_conn *conn, const char *backend, uint64_t deadline_ns)
{
    PGresult *result;
    if (strtol(backend, NULL, 10) == PQbackendPID(conn))
        return 0;
    int error = weir_ask(conn, "BEGIN", deadline_ns, &result);
    if (error == WEIR_EIO && weir_ask_now_ns() < deadline_ns)
        return WEIR_EINVAL;
    if (error)
        return error;
    bool begun = PQresultStatus(result) == PGRES_COMMAND_OK;
    PQclear(result);
    if (!begun)
        return WEIR_EINVAL;
    return weir_ask_commit(conn, deadline_ns);
}

const char *weir_shown_why_not(int error)
{
    switch (error) {
    case WEIR_EPROTO:
        return "it is no PostgreSQL of 15 or later, or hides its functions";
    case WEIR_EAGAIN:
        return "it began anew, and does not show all yet that it has replayed";
    case WEIR_EINVAL:
        return "a pooler in statement mode is between, where no check holds until the read";
    default:
        return "it does not answer the first question";
    }
}

int weir_shown_fixed(struct pg_conn *conn, uint64_t deadline_ns, struct weir_shown_fixed *ret_fixed)
{
    struct weir_shown_fixed fixed = { .version = PQserverVersion(conn) };
    const char *columns[FIRST_COLUMNS];
    PGresult *result;
    int error = weir_ask_idle(conn);
    if (error)
        return error;
    if (fixed.version < VERSION_MIN)
        return WEIR_EPROTO;
    error = weir_ask(conn, weir_shown_first, deadline_ns, &result);
    if (error)
        return error;
    error = row_of(result, FIRST_COLUMNS, columns);
    if (!error)
        error = columns[WEIR_SHOWN_FIXED][0] == 't' ? weir_shown_read_fixed(columns, &fixed) : WEIR_EAGAIN;
    if (!error)
        error = allows_transactions(conn, columns[WEIR_SHOWN_FIXED + 1], deadline_ns);
    PQclear(result);
    if (!error)
        error = prepare(conn, &weir_shown_full, deadline_ns);
    if (!error)
        error = prepare(conn, &weir_shown_brief_primary, deadline_ns);
    if (!error)
        error = prepare(conn, &weir_shown_brief_standby, deadline_ns);
    if (!error)
        *ret_fixed = fixed;
    return error;
}

int weir_shown_ask(struct pg_conn *conn, struct weir_shown_fixed *fixed, uint64_t deadline_ns, struct weir_shown *ret)
{
    const char *columns[WEIR_SHOWN_COLUMNS];
    PGresult *result;
    int error = run(conn, &weir_shown_full, fixed, deadline_ns, &result);
    if (error)
        return error;
    error = row_of(result, WEIR_SHOWN_COLUMNS, columns);
    if (!error)
        error = weir_shown_read(columns, fixed, ret);
    PQclear(result);
    return error;
}

/* ---- after a read ---- */

/* A primary stays one, on its timeline and in its run, for as long as a connection lives: each of them ends with its
 * processes. */
static int take_primary(const PGresult *result, const struct weir_shown_fixed *fixed, struct weir_shown *shown)
{
    const char *columns[2];
    uint64_t insert, flushed;
    int error = row_of(result, 2, columns);
    if (error)
        return error;
    if (!weir_shown_read_position(columns[0], &insert) || !weir_shown_read_position(columns[1], &flushed))
        return WEIR_EPROTO;
    shown->position = weir_position_normal(insert, fixed->page_size, fixed->segment_size);
    shown->flushed = flushed;
    shown->settled = false;
    return 0;
}

/* A standby may have been promoted, or follow another timeline, and keeps its connections. *ret_whole: false where it
 * takes all the columns to tell. */
static int take_standby(const PGresult *result, const struct weir_shown_fixed *fixed, struct weir_shown *shown,
                        bool *ret_whole)
{
    const char *columns[4];
    int error = row_of(result, 4, columns);
    if (error)
        return error;
    *ret_whole = strcmp(columns[0], "0") != 0 && strcmp(columns[3], "0") != 0;
    const char *const all[WEIR_SHOWN_COLUMNS] = { "s", columns[0], "0", columns[1], columns[2], columns[3] };
    const struct weir_shown before = *shown;
    error = *ret_whole ? weir_shown_read(all, fixed, shown) : 0;
    if (!error && *ret_whole && shown->timeline == before.timeline)
        shown->branch = before.branch;
    return error;
}

int weir_shown_after(struct pg_conn *conn, struct weir_shown_fixed *fixed, uint64_t deadline_ns,
                     struct weir_shown *shown)
{
    PGresult *result;
    bool whole = true;
    weir_assert(shown->system == fixed->system);
    int error = run(conn, shown->primary ? &weir_shown_brief_primary : &weir_shown_brief_standby, fixed, deadline_ns,
                    &result);
    if (error)
        return error;
    error = shown->primary ? take_primary(result, fixed, shown) : take_standby(result, fixed, shown, &whole);
    PQclear(result);
    return error || whole ? error : weir_shown_ask(conn, fixed, deadline_ns, shown);
}

int weir_shown_after_send(struct pg_conn *conn, const struct weir_shown_fixed *fixed, const struct weir_shown *shown)
{
    const struct weir_shown_statement *statement = shown->primary ? &weir_shown_brief_primary
                                                                  : &weir_shown_brief_standby;
    weir_assert(PQpipelineStatus(conn) == PQ_PIPELINE_ON);
    if (fixed->missing > 0)
        return WEIR_EAGAIN;
    return PQsendQueryPrepared(conn, statement->name, 0, NULL, NULL, NULL, 0) ? 0 : WEIR_EIO;
}

int weir_shown_after_take(const struct pg_result *result, const struct weir_shown_fixed *fixed,
                          struct weir_shown *shown)
{
    bool whole = true;
    int error = shown->primary ? take_primary(result, fixed, shown) : take_standby(result, fixed, shown, &whole);
    return error || !whole ? WEIR_EAGAIN : 0;
}
