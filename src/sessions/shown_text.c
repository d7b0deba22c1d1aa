/* SPDX-License-Identifier: Apache-2.0
 *
 * Two parties run these statements: shown.c, on connections of weir's own, and the clients of the service
 * (serve/sessions_view.c hands them the text, serve/sessions_work.c parses what they send). The parsers therefore trust
 * nothing: what no server says is WEIR_EPROTO. */
#include "sessions/shown_text.h"

#include <stdlib.h>
#include <string.h>

#include "weir/error.h"

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

const struct weir_shown_statement weir_shown_full = { "weir_shown_1", "SELECT " COLUMNS FROM_ROLE };
const struct weir_shown_statement weir_shown_brief_primary = { "weir_shown_1p",
                                                               "SELECT pg_catalog.pg_current_wal_insert_lsn(), "
                                                               "pg_catalog.pg_current_wal_flush_lsn()" };
/* Without IDLE: where that is needed, all is asked. That a receiver runs says that it is a standby: a promotion ends it
 * first. Each column costs the server about as much as a function. */
const struct weir_shown_statement weir_shown_brief_standby = {
    "weir_shown_2s", "SELECT " RECEIVER ", coalesce(pg_catalog.pg_last_wal_receive_lsn(), '0/0'),"
                     " coalesce(pg_catalog.pg_last_wal_replay_lsn(), '0/0'), " RECEIVER
};

const char weir_shown_first[] = "SELECT " SYSTEM ", " SIZES ", " STARTED ", " WHOLE ", pg_catalog.pg_backend_pid()";

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

bool weir_shown_read_position(const char *text, uint64_t *ret_position)
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
        !weir_shown_read_position(columns[3], &insert) || !weir_shown_read_position(columns[4], &shown->flushed) ||
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
        !weir_shown_read_position(columns[3], &received) || !weir_shown_read_position(columns[4], &shown->position))
        return false;
    shown->streams = receiver != 0;
    shown->timeline = hidden || strcmp(columns[1], columns[5]) != 0 ? 0 : (uint32_t)receiver;
    bool nothing_in_flight = idle || (receiver && received <= shown->position);
    shown->received = nothing_in_flight ? shown->position : received > shown->position ? received : 0;
    return true;
}

/* COLUMNS. */
int weir_shown_read(const char *const *columns, const struct weir_shown_fixed *fixed, struct weir_shown *ret)
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
int weir_shown_read_fixed(const char *const *columns, struct weir_shown_fixed *fixed)
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
    const char *words[1 + WEIR_SHOWN_FIXED + WEIR_SHOWN_COLUMNS];
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
        memmove(words + WEIR_SHOWN_FIXED + 1, words + WEIR_SHOWN_FIXED, (count++ - WEIR_SHOWN_FIXED) * sizeof words[0]);
        words[0] = "w2";
        words[WEIR_SHOWN_FIXED] = "0";
    }
    if (count < sizeof words / sizeof words[0] || strcmp(words[0], "w2") != 0 ||
        weir_shown_read_fixed(words + 1, &fixed) != 0)
        return WEIR_EPROTO;
    return weir_shown_read(words + 1 + WEIR_SHOWN_FIXED, &fixed, ret);
}
