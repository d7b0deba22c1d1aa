/* SPDX-License-Identifier: Apache-2.0
 *
 * weir_settling_look and weir_shown_settle of shown.h. The first look lists who may have a commit in the log that
 * nobody sees yet; each later look strikes off those that are no longer listed. Transactions that begin after the first
 * look do not count, so writers that never pause do not prolong it. Called by poller.c, for one look in a round, and by
 * session_read.c, which waits for the end. */
#include <libpq-fe.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/checked.h"
#include "net/postgres_ask.h"
#include "sessions/shown.h"
#include "weir/error.h"

#define PAUSE_MIN_NS UINT64_C(200000)
#define PAUSE_MAX_NS UINT64_C(5000000)
#define GRACE_NS UINT64_C(100000000) /* of the question under way at the deadline: cut off, the connection were lost */

/* Who may have a commit in the log that nobody sees yet? A row each, of a kind and a name that stays the same until it
 * is over:
 *   r  this is no primary
 *   x  a transaction with a number, unless its backend waits for its client inside it: that state is left before the
 *      commit begins, and not come back to before it is visible
 *   p  a prepared transaction: somebody may be at COMMIT PREPARED, which is listed until it is visible
 *   b  a statement that runs and may be that. Asked only where there are prepared ones. Not a sender of the log, which
 *      runs one statement for ever, nor those of the server's own processes that never commit anything.
 * Roles that may not see other roles' states are told of the numbers all the same. */
static const char question[] =
    "SELECT 'r', '' WHERE pg_catalog.pg_is_in_recovery()"
    " UNION ALL SELECT 'x', backend_xid::pg_catalog.text FROM pg_catalog.pg_stat_get_activity(NULL)"
    " WHERE backend_xid IS NOT NULL AND pid <> pg_catalog.pg_backend_pid()"
    " AND coalesce(state, '') NOT IN ('idle in transaction', 'idle in transaction (aborted)')"
    " UNION ALL SELECT 'p', transaction::pg_catalog.text FROM pg_catalog.pg_prepared_xact()"
    " UNION ALL SELECT 'b', pg_catalog.concat_ws(' ', pid, query_start) FROM pg_catalog.pg_stat_get_activity(NULL)"
    " WHERE EXISTS (SELECT FROM pg_catalog.pg_prepared_xact()) AND pid <> pg_catalog.pg_backend_pid()"
    " AND coalesce(state, '') NOT IN ('idle', 'idle in transaction', 'idle in transaction (aborted)')"
    " AND pid NOT IN (SELECT pid FROM pg_catalog.pg_stat_get_wal_senders() WHERE state IN"
    " ('streaming', 'catchup', 'backup'))"
    " AND coalesce(backend_type, '') NOT IN ('archiver', 'autovacuum launcher', 'autovacuum worker',"
    " 'background writer', 'checkpointer', 'logical replication launcher', 'parallel worker', 'startup',"
    " 'walreceiver', 'walwriter')";

static bool listed(const PGresult *result, const char *kind, const char *name)
{
    for (int i = 0; i < PQntuples(result); i++)
        if (strcmp(PQgetvalue(result, i, 0), kind) == 0 && strcmp(PQgetvalue(result, i, 1), name) == 0)
            return true;
    return false;
}

static void strike_off(struct weir_settling *left, const PGresult *now)
{
    for (int i = 0; i < PQntuples(left->first); i++)
        if (!left->gone[i] && !listed(now, PQgetvalue(left->first, i, 0), PQgetvalue(left->first, i, 1)))
            left->gone[i] = true;
}

static bool any_left(const struct weir_settling *left, char kind)
{
    for (int i = 0; i < PQntuples(left->first); i++)
        if (!left->gone[i] && PQgetvalue(left->first, i, 0)[0] == kind)
            return true;
    return false;
}

/* A prepared transaction can only become visible by a statement that runs. */
static bool settled(const struct weir_settling *left)
{
    return !any_left(left, 'r') && !any_left(left, 'x') && !(any_left(left, 'p') && any_left(left, 'b'));
}

static int rows(struct pg_conn *conn, uint64_t deadline_ns, PGresult **ret_result)
{
    PGresult *result;
    int error = weir_ask(conn, question, weir_add_sat(deadline_ns, GRACE_NS), &result);
    if (error)
        return error;
    if (PQresultStatus(result) != PGRES_TUPLES_OK || PQnfields(result) != 2) {
        PQclear(result);
        return WEIR_EAGAIN;
    }
    *ret_result = result;
    return 0;
}

void weir_settling_end(struct weir_settling *settling)
{
    free(settling->gone);
    PQclear(settling->first);
    *settling = (struct weir_settling){ 0 };
}

static int begin(struct weir_settling *settling, struct pg_conn *conn, uint64_t deadline_ns)
{
    struct weir_settling begun = { .begun_ns = weir_ask_now_ns() };
    int error = rows(conn, deadline_ns, &begun.first);
    if (error)
        return error;
    begun.gone = calloc((size_t)PQntuples(begun.first) + 1, sizeof *begun.gone);
    if (!begun.gone) {
        PQclear(begun.first);
        return WEIR_ENOMEM;
    }
    *settling = begun;
    return 0;
}

int weir_settling_look(struct weir_settling *settling, struct pg_conn *conn, uint64_t deadline_ns, bool *ret_settled)
{
    int error = 0;
    if (!settling->gone) {
        error = begin(settling, conn, deadline_ns);
    } else {
        PGresult *now;
        error = rows(conn, deadline_ns, &now);
        if (!error) {
            strike_off(settling, now);
            PQclear(now);
        }
    }
    if (!error)
        *ret_settled = settled(settling);
    return error;
}

int weir_shown_settle(struct pg_conn *conn, uint64_t deadline_ns)
{
    struct weir_settling settling = { 0 };
    uint64_t pause_ns = PAUSE_MIN_NS;
    bool done = false;
    int error = weir_settling_look(&settling, conn, deadline_ns, &done);
    while (!error && !done) {
        if (any_left(&settling, 'r') || weir_add_sat(weir_ask_now_ns(), pause_ns) >= deadline_ns) {
            error = WEIR_EAGAIN;
            break;
        }
        struct timespec pause = { .tv_nsec = (long)pause_ns };
        nanosleep(&pause, NULL);
        pause_ns = weir_min_u64(2 * pause_ns, PAUSE_MAX_NS);
        error = weir_settling_look(&settling, conn, deadline_ns, &done);
    }
    weir_settling_end(&settling);
    return error;
}
