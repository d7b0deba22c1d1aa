/* SPDX-License-Identifier: Apache-2.0
 *
 * The query and the question for the place go to the server in one pipeline of libpq. On a primary a sync stands
 * between them, so that the query's transaction has ended when the place is told. A prepared statement that the
 * connection does not know is prepared, and the query is sent once more. Called by session_query.c. */
#include <libpq-fe.h>
#include <string.h>

#include "net/postgres_ask.h"
#include "sessions/link.h"

static bool send_query(PGconn *conn, const struct weir_query *query)
{
    if (query->name)
        return PQsendQueryPrepared(conn, query->name, query->param_count, query->values, query->lengths, query->formats,
                                   query->result_format);
    return PQsendQueryParams(conn, query->text, query->param_count, query->types, query->values, query->lengths,
                             query->formats, query->result_format);
}

/* A primary commits at the sync: what it says before that would not be after the read, if that wrote after all. */
static bool send_all(struct weir_link *link, const struct weir_query *query, bool *wants_place)
{
    PGconn *conn = link->conn;
    if (!PQenterPipelineMode(conn) || !send_query(conn, query))
        return false;
    if (*wants_place && link->shown.primary && !PQpipelineSync(conn))
        return false;
    if (*wants_place) {
        int error = weir_shown_after_send(conn, &link->fixed, &link->shown);
        if (error == WEIR_EIO)
            return false;
        *wants_place = error == 0;
    }
    return PQpipelineSync(conn);
}

/* Up to the last sync. The first result is the query's, the second the place's. False: the connection broke. */
static bool take_all(PGconn *conn, unsigned syncs, PGresult *results[2])
{
    unsigned count = 0;
    while (syncs > 0) {
        PGresult *result = PQgetResult(conn);
        if (!result) { /* the end of one statement's results */
            if (PQstatus(conn) != CONNECTION_OK)
                return false;
            continue;
        }
        if (weir_ask_is_copy(result)) {
            PQclear(result);
            return false;
        }
        if (PQresultStatus(result) == PGRES_PIPELINE_SYNC) {
            syncs--;
            PQclear(result);
        } else if (count < 2) {
            results[count++] = result;
        } else {
            PQclear(result);
        }
        if (PQstatus(conn) != CONNECTION_OK)
            return false;
    }
    return PQexitPipelineMode(conn) && count > 0;
}

static bool is_unknown_statement(const PGresult *result)
{
    const char *state = PQresultErrorField(result, PG_DIAG_SQLSTATE);
    return state && strcmp(state, "26000") == 0; /* invalid_sql_statement_name */
}

static int query_once(struct weir_link *link, const struct weir_query *query, bool wants_place, PGresult *results[2])
{
    bool two_syncs = wants_place && link->shown.primary;
    results[0] = results[1] = NULL;
    if (send_all(link, query, &wants_place) && take_all(link->conn, two_syncs ? 2 : 1, results))
        return 0;
    PQclear(results[0]);
    PQclear(results[1]);
    return WEIR_EIO;
}

int weir_link_query(struct weir_link *link, const struct weir_query *query, bool wants_place,
                    struct pg_result **ret_result, bool *ret_placed)
{
    PGresult *results[2];
    int error = query_once(link, query, wants_place, results);
    if (error == 0 && query->name && is_unknown_statement(results[0])) {
        PQclear(results[0]);
        PQclear(results[1]);
        PGresult *prepared = PQprepare(link->conn, query->name, query->text, query->param_count, query->types);
        if (PQresultStatus(prepared) != PGRES_COMMAND_OK) {
            *ret_result = prepared;
            *ret_placed = false;
            return PQstatus(link->conn) == CONNECTION_OK ? 0 : (PQclear(prepared), WEIR_EIO);
        }
        PQclear(prepared);
        error = query_once(link, query, wants_place, results);
    }
    if (error != 0)
        return error;
    *ret_placed = results[1] && weir_shown_after_take(results[1], &link->fixed, &link->shown) == 0;
    PQclear(results[1]);
    *ret_result = results[0];
    return 0;
}
