/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/session/shown.h"

#include <libpq-fe.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "engine/session/ask.h"
#include "weir/error.h"

#define VERSION_MIN 150000
#define MISSING_MAX 3

/* ---- the statements ----
 *
 * The order of the columns is the order in which they are evaluated, and that matters at a standby. A record that a
 * reader may have seen in flight ends beyond what counts as replayed. It has been replayed by the time at which
 *   - the startup process waits for more, or is paused (IDLE): then what is replayed afterwards includes it;
 *   - or a receiver runs, which means that what is replayed comes from it, and no more was received than is replayed.
 *     Without a receiver the equality of the two says nothing: the log may come from the archive.
 * So: the receiver and IDLE, then received, then replayed. And the receiver once more: a timeline is that of the
 * position only if it was still received after it; where it changed meanwhile the timeline is unknown.
 *
 * At a primary: the insert position before the flushed one, so that "flushed" is said of at least that position.
 * Settled: no transaction has a number from the snapshot's xmin on. That the snapshot lists none is not enough: it does
 * not list those above the last one that ended. age() counts from the next number to be given out.
 *
 * Names and operators say their schema, and no operator is left to be found by types that are only near: numeric *
 * integer is none of pg_catalog's, and would be run from any schema of the path that has one, as the role that asks. */
#define EQUAL "OPERATOR(pg_catalog.=)"
#define IDLE                                                                                                           \
    "CASE WHEN pg_catalog.pg_get_wal_replay_pause_state() " EQUAL " 'paused' THEN 1"                                   \
    " WHEN (pg_catalog.pg_stat_get_wal_receiver()).pid IS NULL AND EXISTS"                                             \
    " (SELECT FROM pg_catalog.pg_stat_get_activity(NULL) WHERE backend_type " EQUAL " 'startup' AND wait_event " EQUAL \
    " ANY (ARRAY['RecoveryWalStream', 'RecoveryRetrieveRetryInterval', 'RecoveryApplyDelay'])) THEN 1 ELSE 0 END"
#define RECEIVER                                                                                                       \
    "coalesce((pg_catalog.pg_stat_get_wal_receiver()).received_tli,"                                                   \
    " OPERATOR(pg_catalog.-) (pg_catalog.pg_stat_get_wal_receiver()).pid, 0)"
#define SNAPSHOT "pg_catalog.pg_current_snapshot()"
#define COLUMNS                                                                                                        \
    "CASE WHEN r THEN 's' ELSE 'p' END,"                                                                               \
    " CASE WHEN r THEN " RECEIVER "::pg_catalog.text"                                                                  \
    " ELSE pg_catalog.left(pg_catalog.pg_walfile_name(pg_catalog.pg_current_wal_insert_lsn()), 8) END,"                \
    " CASE WHEN r THEN (" IDLE ")::pg_catalog.text"                                                                    \
    " ELSE pg_catalog.concat(pg_catalog.pg_snapshot_xmin(" SNAPSHOT "), '+',"                                          \
    " pg_catalog.age(pg_catalog.pg_snapshot_xmin(" SNAPSHOT ")::pg_catalog.xid)) END,"                                 \
    " coalesce(CASE WHEN r THEN pg_catalog.pg_last_wal_receive_lsn() ELSE pg_catalog.pg_current_wal_insert_lsn() END," \
    " '0/0'),"                                                                                                         \
    " coalesce(CASE WHEN r THEN pg_catalog.pg_last_wal_replay_lsn() ELSE pg_catalog.pg_current_wal_flush_lsn() END,"   \
    " '0/0'),"                                                                                                         \
    " coalesce(CASE WHEN r THEN " RECEIVER " ELSE"                                                                     \
    " (extract(epoch FROM pg_catalog.pg_stat_get_bgwriter_stat_reset_time()) OPERATOR(pg_catalog.*) "                  \
    "1000000::numeric)::bigint END, 0)"
#define FROM_ROLE " FROM (SELECT pg_catalog.pg_is_in_recovery() AS r OFFSET 0) AS weir"
#define SIZES                                                                                                          \
    "pg_catalog.current_setting('wal_block_size'),"                                                                    \
    " pg_catalog.pg_size_bytes(pg_catalog.current_setting('wal_segment_size'))"
/* A standby that began anew knows which transactions were running at its checkpoint, not which of those beyond the last
 * one that had ended were in the log before it already: what it replayed of them it hides, until a later one has
 * ended. Its snapshots end where it stopped knowing; the checkpoint says which number was to be given out next. */
#define WHOLE                                                                                                          \
    "NOT pg_catalog.pg_is_in_recovery() OR pg_catalog.pg_snapshot_xmax(pg_catalog.pg_current_snapshot())::text"        \
    "::numeric >= (SELECT pg_catalog.split_part(next_xid, ':', 1)::numeric * 4294967296 +"                             \
    " pg_catalog.split_part(next_xid, ':', 2)::numeric FROM pg_catalog.pg_control_checkpoint())"
#define SYSTEM "(SELECT system_identifier FROM pg_catalog.pg_control_system())"
#define STARTED                                                                                                        \
    "(extract(epoch FROM pg_catalog.pg_postmaster_start_time()) OPERATOR(pg_catalog.*) 1000000::numeric)::bigint"

struct statement {
    const char *name;
    const char *text;
};

enum { COLUMN_COUNT = 6, FIXED_COUNT = 4, FIRST_COUNT = FIXED_COUNT + 2 };

static const struct statement full = { "weir_shown_1", "SELECT " COLUMNS FROM_ROLE };
static const struct statement brief_primary = { "weir_shown_1p", "SELECT pg_catalog.pg_current_wal_insert_lsn(), "
                                                                 "pg_catalog.pg_current_wal_flush_lsn()" };
/* Without IDLE: where that is needed, all is asked. That a receiver runs says that it is a standby: a promotion ends it
 * first. Each column costs the server about as much as a function. */
static const struct statement brief_standby = { "weir_shown_2s",
                                                "SELECT " RECEIVER
                                                ", coalesce(pg_catalog.pg_last_wal_receive_lsn(), '0/0'),"
                                                " coalesce(pg_catalog.pg_last_wal_replay_lsn(), '0/0'), " RECEIVER };

const char *weir_shown_statement(void)
{
    return "SELECT pg_catalog.concat_ws(' ', 'w2', " SYSTEM ", " SIZES ", " STARTED ", " COLUMNS ")" FROM_ROLE;
}

/* ---- what they answer ---- */

/* Digits only, to the end: what strtoull takes besides is not what a server says. */
static bool number(const char *text, int base, uint64_t max, uint64_t *ret_value)
{
    char *end = NULL;
    if (!strchr("0123456789abcdefABCDEF", text[0]) || !text[0])
        return false;
    uint64_t value = strtoull(text, &end, base);
    if (*end || value > max)
        return false;
    *ret_value = value;
    return true;
}

static bool position(const char *text, uint64_t *ret_position)
{
    return weir_position_parse(text, strlen(text), ret_position) == 0;
}

/* "744+3": from that number on, so many may run. */
static bool read_running(const char *text, struct weir_shown *shown)
{
    char copy[48];
    uint64_t oldest, more;
    const char *plus = strchr(text, '+');
    if (!plus || (size_t)(plus - text) >= sizeof copy)
        return false;
    memcpy(copy, text, (size_t)(plus - text));
    copy[plus - text] = '\0';
    if (!number(copy, 10, INT64_MAX, &oldest) || !number(plus + 1, 10, INT32_MAX, &more))
        return false;
    shown->settled = more == 0;
    return true;
}

static bool read_primary(const char *const *columns, const struct weir_shown_fixed *fixed, struct weir_shown *shown)
{
    uint64_t timeline, insert;
    if (!number(columns[1], 16, UINT32_MAX, &timeline) || !read_running(columns[2], shown) ||
        !position(columns[3], &insert) || !position(columns[4], &shown->flushed) ||
        !number(columns[5], 10, INT64_MAX, &shown->run) || !timeline || !shown->run)
        return false;
    shown->primary = true;
    shown->timeline = (uint32_t)timeline;
    shown->position = weir_position_normal(insert, fixed->page_size, fixed->segment_size);
    return true;
}

static bool read_standby(const char *const *columns, struct weir_shown *shown)
{
    uint64_t receiver, idle, received;
    bool hidden = columns[1][0] == '-'; /* there is a receiver, and its timeline is not for this role to see */
    if (!number(columns[1] + hidden, 10, UINT32_MAX, &receiver) || !number(columns[2], 10, 1, &idle) ||
        !position(columns[3], &received) || !position(columns[4], &shown->position))
        return false;
    shown->streams = receiver != 0;
    shown->timeline = hidden || strcmp(columns[1], columns[5]) != 0 ? 0 : (uint32_t)receiver;
    bool nothing_in_flight = idle || (receiver && received <= shown->position);
    shown->received = nothing_in_flight ? shown->position : received > shown->position ? received : 0;
    return true;
}

/* COLUMNS. */
static int read_columns(const char *const *columns, const struct weir_shown_fixed *fixed, struct weir_shown *ret)
{
    struct weir_shown shown = { .system = fixed->system, .started = fixed->started };
    bool good = strcmp(columns[0], "p") == 0   ? read_primary(columns, fixed, &shown)
                : strcmp(columns[0], "s") == 0 ? read_standby(columns, &shown)
                                               : false;
    if (!good)
        return WEIR_EPROTO;
    *ret = shown;
    return 0;
}

/* SYSTEM, SIZES and STARTED. */
static int read_fixed(const char *const *columns, struct weir_shown_fixed *fixed)
{
    bool good = number(columns[0], 10, INT64_MAX, &fixed->system) && fixed->system &&
                number(columns[1], 10, UINT64_C(1) << 20, &fixed->page_size) &&
                number(columns[2], 10, UINT64_C(1) << 32, &fixed->segment_size) &&
                number(columns[3], 10, INT64_MAX, &fixed->started) &&
                weir_position_sizes(fixed->page_size, fixed->segment_size);
    return good ? 0 : WEIR_EPROTO;
}

int weir_shown_parse(const char *text, size_t size, struct weir_shown *ret)
{
    char copy[WEIR_SHOWN_TEXT_MAX + 1], *rest = NULL;
    const char *words[1 + FIXED_COUNT + COLUMN_COUNT];
    struct weir_shown_fixed fixed = { 0 };
    size_t count = 0;
    if (size > WEIR_SHOWN_TEXT_MAX || memchr(text, '\0', size))
        return WEIR_EPROTO;
    memcpy(copy, text, size);
    copy[size] = '\0';
    for (char *word = strtok_r(copy, " ", &rest); word; word = strtok_r(NULL, " ", &rest)) {
        if (count == sizeof words / sizeof words[0])
            return WEIR_EPROTO;
        words[count++] = word;
    }
    if (count == sizeof words / sizeof words[0] - 1 && strcmp(words[0], "w1") == 0) { /* of before: without STARTED */
        memmove(words + FIXED_COUNT + 1, words + FIXED_COUNT, (count++ - FIXED_COUNT) * sizeof words[0]);
        words[0] = "w2";
        words[FIXED_COUNT] = "0";
    }
    if (count < sizeof words / sizeof words[0] || strcmp(words[0], "w2") != 0 || read_fixed(words + 1, &fixed) != 0)
        return WEIR_EPROTO;
    return read_columns(words + 1 + FIXED_COUNT, &fixed, ret);
}

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
static int prepare(struct pg_conn *conn, const struct statement *statement, uint64_t deadline_ns)
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
static int run(struct pg_conn *conn, const struct statement *statement, struct weir_shown_fixed *fixed,
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
    const char *columns[FIRST_COUNT];
    PGresult *result;
    int error = weir_ask_idle(conn);
    if (error)
        return error;
    if (fixed.version < VERSION_MIN)
        return WEIR_EPROTO;
    error = weir_ask(conn, "SELECT " SYSTEM ", " SIZES ", " STARTED ", " WHOLE ", pg_catalog.pg_backend_pid()",
                     deadline_ns, &result);
    if (error)
        return error;
    error = row_of(result, FIRST_COUNT, columns);
    if (!error)
        error = columns[FIXED_COUNT][0] == 't' ? read_fixed(columns, &fixed) : WEIR_EAGAIN;
    if (!error)
        error = allows_transactions(conn, columns[FIXED_COUNT + 1], deadline_ns);
    PQclear(result);
    if (!error)
        error = prepare(conn, &full, deadline_ns);
    if (!error)
        error = prepare(conn, &brief_primary, deadline_ns);
    if (!error)
        error = prepare(conn, &brief_standby, deadline_ns);
    if (!error)
        *ret_fixed = fixed;
    return error;
}

int weir_shown_ask(struct pg_conn *conn, struct weir_shown_fixed *fixed, uint64_t deadline_ns, struct weir_shown *ret)
{
    const char *columns[COLUMN_COUNT];
    PGresult *result;
    int error = run(conn, &full, fixed, deadline_ns, &result);
    if (error)
        return error;
    error = row_of(result, COLUMN_COUNT, columns);
    if (!error)
        error = read_columns(columns, fixed, ret);
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
    if (!position(columns[0], &insert) || !position(columns[1], &flushed))
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
    const char *const all[COLUMN_COUNT] = { "s", columns[0], "0", columns[1], columns[2], columns[3] };
    const struct weir_shown before = *shown;
    error = *ret_whole ? read_columns(all, fixed, shown) : 0;
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
    int error = run(conn, shown->primary ? &brief_primary : &brief_standby, fixed, deadline_ns, &result);
    if (error)
        return error;
    error = shown->primary ? take_primary(result, fixed, shown) : take_standby(result, fixed, shown, &whole);
    PQclear(result);
    return error || whole ? error : weir_shown_ask(conn, fixed, deadline_ns, shown);
}

int weir_shown_after_send(struct pg_conn *conn, const struct weir_shown_fixed *fixed, const struct weir_shown *shown)
{
    const struct statement *statement = shown->primary ? &brief_primary : &brief_standby;
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
