/* SPDX-License-Identifier: Apache-2.0
 *
 * What a PostgreSQL server shows, asked on one connection: the statements and their answers. The pollers, the check
 * before a read, and the place after it all come through here.
 *
 * The check is a statement of its own: it ends before the reading snapshot exists, so that the snapshot shows at least
 * what the check saw. Inside the reading snapshot (one transaction of repeatable read) it would see a position that the
 * snapshot may not.
 *
 * A primary shows a commit to others only after its backend has left the list of the running, which is after the commit
 * is in the log and perhaps already at a standby (with synchronous replication: until the standby has confirmed). So a
 * place that was seen at a standby is provably shown by the primary only once every transaction that was running at
 * some moment after that is gone, or idle in transaction and therefore not committing: `settled`. */
#pragma once

#include "core/session/place.h"

struct pg_conn; /* libpq's PGconn: its header lies outside the usual path */
struct pg_result;

/* What never changes while a connection lives; and what is known of the connection itself. */
struct weir_shown_fixed {
    uint64_t system;
    uint64_t page_size;
    uint64_t segment_size;
    uint64_t started; /* when its postmaster was, in microseconds by the server's clock */
    int version;      /* 150004 */
    unsigned missing; /* how often a prepared statement was gone (DISCARD ALL, a pooler): after a few, none is used */
};

/* Blocks up to deadline_ns (CLOCK_MONOTONIC) like all here. WEIR_EIO: the connection is broken (or too late: it is of
 * no use any more); WEIR_EBUSY: a transaction is open on it; WEIR_EAGAIN: refused this time, by a conflict with what is
 * replayed, say: the connection is good; WEIR_EPROTO: not a PostgreSQL of 15 or later (in earlier ones the statistics,
 * of which the run is one, are read from a file and late). weir_shown_fixed says WEIR_EAGAIN too of a standby that
 * began anew and hides some of what it has replayed; a connection that was let pass stays good. It says WEIR_EINVAL
 * where a pooler in statement mode is between, and the connection is broken then. */
int weir_shown_fixed(struct pg_conn *conn, uint64_t deadline_ns, struct weir_shown_fixed *ret_fixed);

/* Why weir_shown_fixed failed, for people. */
const char *weir_shown_why_not(int error);

/* How far the server is now, in one statement and one round trip. At a standby `received` is `position` where
 * nothing was in flight when it was asked, greater where something may have been, 0 where that is not known. */
int weir_shown_ask(struct pg_conn *conn, struct weir_shown_fixed *fixed, uint64_t deadline_ns, struct weir_shown *ret);

/* After a read, the cheapest: what weir_place_seen needs. *shown, of an earlier answer on this connection, is brought
 * up to date; what cannot have changed meanwhile is not asked again, and `settled` is false. */
int weir_shown_after(struct pg_conn *conn, struct weir_shown_fixed *fixed, uint64_t deadline_ns,
                     struct weir_shown *shown);

/* The same in a pipeline, behind the read and with it: one round trip for both. send: WEIR_EAGAIN: not on this
 * connection (its prepared statements go missing), nothing was sent; WEIR_EIO. take: of its result; WEIR_EAGAIN: it
 * does not tell, ask weir_shown_after. */
int weir_shown_after_send(struct pg_conn *conn, const struct weir_shown_fixed *fixed, const struct weir_shown *shown);
int weir_shown_after_take(const struct pg_result *result, const struct weir_shown_fixed *fixed,
                          struct weir_shown *shown);

/* At a primary: asks again until all that were running when this call began are gone or idle. 0: settled; WEIR_EAGAIN:
 * not by the deadline (the question under way then has 100 ms more), or it is no primary. While there are prepared
 * transactions, until every statement that was running then has ended too: it may be a COMMIT PREPARED. */
int weir_shown_settle(struct pg_conn *conn, uint64_t deadline_ns);

/* The same in looks, for who has other things to do between them. The first look begins it. All looks are at one
 * server that stays a primary; end it where that may have changed. *ret_settled: all that were running at begun_ns are
 * gone, or were seen idle. Errors as above: the next look goes on. */
struct weir_settling {
    uint64_t begun_ns;       /* before the first look */
    struct pg_result *first; /* its rows: who may be committing */
    bool *gone;              /* of each of them: a later look did not list it; NULL: not begun */
};
int weir_settling_look(struct weir_settling *settling, struct pg_conn *conn, uint64_t deadline_ns, bool *ret_settled);
void weir_settling_end(struct weir_settling *settling);

/* For callers that have a connection of their own (the service's clients): one statement of text that answers one row
 * with one text, and what it said. The text is plain and may be written in any client. */
#define WEIR_SHOWN_TEXT_MAX 256
const char *weir_shown_statement(void);
int weir_shown_parse(const char *text, size_t size, struct weir_shown *ret);
