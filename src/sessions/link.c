/* SPDX-License-Identifier: Apache-2.0
 *
 * Connections are opened with net/postgres_ask.c and lent as libpq makes them: blocking. weir_link_state reads what
 * lies on the socket, without waiting, and so sees that the server has hung up. weir_link_close first shuts down a
 * connection that is not idle, because libpq might wait to send its goodbye. Called by pool.c, session_pinned.c and
 * session_read.c. An application's own query is sent in link_query.c. */
#include "sessions/link.h"

#include <errno.h>
#include <libpq-fe.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "net/postgres_ask.h"

#define ATTEMPTS 3 /* a conflict with what is replayed cancels a statement once */

int weir_link_connect(const char *conninfo, uint64_t deadline_ns, PGconn **ret_conn, struct weir_fault *ret_fault)
{
    char text[WEIR_ASK_TEXT_SIZE] = "";
    PGconn *conn;
    int error = weir_ask_connect(conninfo, NULL, deadline_ns, &conn, text);
    /* Whoever it is lent to gets it as PQconnectdb makes it: blocking. */
    if (error == 0 && PQsetnonblocking(conn, 0) == 0) {
        *ret_conn = conn;
        return 0;
    }
    if (error == 0)
        weir_link_close(conn);
    (void)snprintf(ret_fault->text, sizeof ret_fault->text, "%s", text);
    return error == WEIR_ENOMEM ? WEIR_ENOMEM : WEIR_EDOWN;
}

void weir_link_close(PGconn *conn)
{
    if (!conn)
        return;
    /* libpq says goodbye, and would wait for room to say it if something lies unsent: on a socket that is shut it does
     * not. */
    if (PQsocket(conn) >= 0 && weir_ask_idle(conn) != 0)
        (void)shutdown(PQsocket(conn), SHUT_RDWR);
    PQfinish(conn);
}

static bool readable(const PGconn *conn)
{
    struct pollfd socket = { .fd = PQsocket(conn), .events = POLLIN };
    return socket.fd >= 0 && poll(&socket, 1, 0) > 0;
}

enum weir_link_state weir_link_state(struct weir_link *link)
{
    int idle = weir_ask_idle(link->conn);
    if (PQbackendPID(link->conn) != link->backend)
        return WEIR_LINK_BROKEN;
    if (idle != 0)
        return idle == WEIR_EBUSY ? WEIR_LINK_BUSY : WEIR_LINK_BROKEN;
    /* What a server says before it goes (FATAL), then the end of the stream: a few reads. */
    for (int i = 0; i < 4 && readable(link->conn); i++) {
        if (!PQconsumeInput(link->conn))
            return WEIR_LINK_BROKEN;
        (void)PQisBusy(link->conn); /* takes notice of what came */
    }
    return PQstatus(link->conn) == CONNECTION_OK ? WEIR_LINK_IDLE : WEIR_LINK_BROKEN;
}

int weir_link_ask(struct weir_link *link, uint64_t deadline_ns)
{
    int error = WEIR_EAGAIN;
    for (int i = 0; error == WEIR_EAGAIN && i < ATTEMPTS; i++)
        error = weir_shown_ask(link->conn, &link->fixed, deadline_ns, &link->shown);
    link->asked = link->asked || error == 0;
    return error;
}

int weir_link_after(struct weir_link *link, uint64_t deadline_ns)
{
    int error = WEIR_EAGAIN;
    for (int i = 0; error == WEIR_EAGAIN && i < ATTEMPTS; i++)
        error = weir_shown_after(link->conn, &link->fixed, deadline_ns, &link->shown);
    return error;
}

static int number_of(const PGresult *result, uint64_t *ret_number)
{
    if (PQresultStatus(result) != PGRES_TUPLES_OK || PQntuples(result) != 1 || PQnfields(result) != 1 ||
        PQgetisnull(result, 0, 0))
        return WEIR_EPROTO;
    char *end;
    const char *text = PQgetvalue(result, 0, 0);
    errno = 0;
    unsigned long long number = strtoull(text, &end, 10);
    if (errno != 0 || end == text || *end || text[0] == '-')
        return WEIR_EPROTO;
    *ret_number = number;
    return 0;
}

int weir_link_number(struct weir_link *link, const char *query, uint64_t deadline_ns, uint64_t *ret_number)
{
    PGresult *result;
    int error = weir_ask(link->conn, query, deadline_ns, &result);
    if (error != 0)
        return error;
    error = number_of(result, ret_number);
    PQclear(result);
    return error;
}
