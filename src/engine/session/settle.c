/* SPDX-License-Identifier: Apache-2.0 */
#include <libpq-fe.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/checked.h"
#include "engine/session/ask.h"
#include "engine/session/shown.h"
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

/* Those of the first answer that each later one has listed too: rows of it, by kind and name. */
struct left {
    PGresult *first;
    bool *gone; /* of each of its rows */
};

static bool listed(const PGresult *result, const char *kind, const char *name)
{
    for (int i = 0; i < PQntuples(result); i++)
        if (strcmp(PQgetvalue(result, i, 0), kind) == 0 && strcmp(PQgetvalue(result, i, 1), name) == 0)
            return true;
    return false;
}

static void strike_off(struct left *left, const PGresult *now)
{
    for (int i = 0; i < PQntuples(left->first); i++)
        if (!left->gone[i] && !listed(now, PQgetvalue(left->first, i, 0), PQgetvalue(left->first, i, 1)))
            left->gone[i] = true;
}

static bool any_left(const struct left *left, char kind)
{
    for (int i = 0; i < PQntuples(left->first); i++)
        if (!left->gone[i] && PQgetvalue(left->first, i, 0)[0] == kind)
            return true;
    return false;
}

/* A prepared transaction can only become visible by a statement that runs. */
static bool settled(const struct left *left)
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

static int wait_until_settled(struct pg_conn *conn, uint64_t deadline_ns, struct left *left)
{
    uint64_t pause_ns = PAUSE_MIN_NS;
    while (!settled(left)) {
        if (any_left(left, 'r') || weir_add_sat(weir_ask_now_ns(), pause_ns) >= deadline_ns)
            return WEIR_EAGAIN;
        struct timespec pause = { .tv_nsec = (long)pause_ns };
        nanosleep(&pause, NULL);
        pause_ns = weir_min_u64(2 * pause_ns, PAUSE_MAX_NS);
        PGresult *now;
        int error = rows(conn, deadline_ns, &now);
        if (error)
            return error;
        strike_off(left, now);
        PQclear(now);
    }
    return 0;
}

int weir_shown_settle(struct pg_conn *conn, uint64_t deadline_ns)
{
    struct left left = { 0 };
    int error = rows(conn, deadline_ns, &left.first);
    if (error)
        return error;
    left.gone = calloc((size_t)PQntuples(left.first) + 1, sizeof *left.gone);
    error = left.gone ? wait_until_settled(conn, deadline_ns, &left) : WEIR_ENOMEM;
    free(left.gone);
    PQclear(left.first);
    return error;
}
