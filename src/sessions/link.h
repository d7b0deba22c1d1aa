/* SPDX-License-Identifier: Apache-2.0
 *
 * One connection to one server, and what it said. What a server has shown on a connection it goes on showing there: a
 * restart, which may take it back, breaks the connection. So `shown` is a lower bound for as long as the link lives.
 *
 * Thread rule: one thread at a time. Nothing here waits beyond its deadline (CLOCK_MONOTONIC), except libpq's look-up
 * of a host's name. */
#pragma once

#include "sessions/shown.h"
#include "weir/session.h"

struct weir_link {
    struct pg_conn *conn;
    uint64_t server; /* weir_route_server.id */
    char name[64];
    struct weir_shown_fixed fixed;
    struct weir_shown shown; /* when it was asked last */
    bool asked;
    int backend;       /* that it was made to: reset, it is another connection, of which nothing is known */
    uint32_t timeline; /* the last one that was told and is proven to be of this very server; 0 = none */
    uint32_t branch;   /* which of that number; 0 = not known, or timeline 1 */
    /* The pool's. */
    uint64_t epoch;
    struct weir_link *next;
};

/* WEIR_EDOWN: no connection, and *ret_fault says why. */
int weir_link_connect(const char *conninfo, uint64_t deadline_ns, struct pg_conn **ret_conn,
                      struct weir_fault *ret_fault);

/* Closes it without waiting for the server. NULL is allowed. */
void weir_link_close(struct pg_conn *conn);

enum weir_link_state {
    WEIR_LINK_IDLE,   /* answers can be asked for */
    WEIR_LINK_BUSY,   /* in a transaction, or an answer has not been read */
    WEIR_LINK_BROKEN, /* of no use any more */
};

/* Looks whether the server has hung up, without waiting. */
enum weir_link_state weir_link_state(struct weir_link *link);

/* How far it is, into `shown`: one round trip, and another where the server refused it for a moment. Errors as
 * weir_shown_ask and weir_shown_after. */
int weir_link_ask(struct weir_link *link, uint64_t deadline_ns);
int weir_link_after(struct weir_link *link, uint64_t deadline_ns);

/* The query, prepared if it has a name, and behind it how far the server was after it, in one round trip. Waits as long
 * as the server does. *ret_placed: `shown` is of after the query. WEIR_EIO: the connection broke. */
int weir_link_query(struct weir_link *link, const struct weir_query *query, bool wants_place,
                    struct pg_result **ret_result, bool *ret_placed);

/* The one value of a query, a bigint. WEIR_EIO, WEIR_EBUSY as weir_shown_ask; WEIR_EPROTO: it is no such query. */
int weir_link_number(struct weir_link *link, const char *query, uint64_t deadline_ns, uint64_t *ret_number);
