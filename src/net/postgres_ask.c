/* SPDX-License-Identifier: Apache-2.0
 *
 * A statement is sent by libpq's asynchronous calls; then poll() waits for the connection's socket until the deadline.
 * A connection that blocks is made non-blocking for that time. Called by sessions/shown.c, settle.c, branch_table.c,
 * link.c and poller.c, and by cli/reads_link.c, which have the statements. An application's own query is sent in
 * sessions/link_query.c. */
#include "net/postgres_ask.h"

#include <errno.h>
#include <libpq-fe.h>
#include <poll.h>
#include <string.h>

#include "base/checked.h"
#include "base/timing.h"
#include "weir/error.h"

#define OPTIONS_MAX 16

uint64_t weir_ask_now_ns(void)
{
    return weir_timing_now(CLOCK_MONOTONIC);
}

short weir_ask_wait(const PGconn *conn, short events, uint64_t deadline_ns)
{
    struct pollfd socket = { .fd = PQsocket(conn), .events = events };
    int ready;
    if (socket.fd < 0)
        return POLLERR;
    do {
        uint64_t left_ns = weir_sub_sat(deadline_ns, weir_ask_now_ns());
        ready = poll(&socket, 1, (int)weir_min_u64(weir_div_ceil(left_ns, 1000000), 60000));
    } while ((ready < 0 && errno == EINTR) || (ready == 0 && weir_ask_now_ns() < deadline_ns));
    return ready < 0 ? POLLERR : ready > 0 ? socket.revents : 0;
}

/* ---- connecting ---- */

void weir_ask_line(char *ret_line, size_t room, const char *text, const char *password)
{
    if (password && password[0] && strstr(text, password))
        text = "the server's message is not shown: the password is in it";
    size_t size = strnlen(text, room - 1);
    while (size > 0 && (text[size - 1] == '\n' || text[size - 1] == ' '))
        size--;
    for (size_t i = 0; i < size; i++)
        ret_line[i] = (unsigned char)text[i] < ' ' ? ' ' : text[i];
    ret_line[size] = '\0';
}

static void say(char ret_text[WEIR_ASK_TEXT_SIZE], const char *text, const PGconn *conn)
{
    weir_ask_line(ret_text, WEIR_ASK_TEXT_SIZE, text, conn ? PQpass(conn) : NULL);
}

/* libpq's own prints on standard error, which is the program's: a server that shuts down would be heard there. */
static void notice_ignore(void *context, const PGresult *notice)
{
    (void)context;
    (void)notice;
}

static PGconn *connect_start(const char *conninfo, const char *const *extra)
{
    /* What comes before dbname (the conninfo) is a default, what comes after it wins. */
    const char *keywords[OPTIONS_MAX + 1] = { "fallback_application_name", "tcp_user_timeout", "keepalives_idle",
                                              "dbname" };
    const char *values[OPTIONS_MAX + 1] = { "weir", "10000", "10", conninfo };
    size_t count = 4;
    for (; extra && extra[0] && count < OPTIONS_MAX; extra += 2, count++) {
        keywords[count] = extra[0];
        values[count] = extra[1];
    }
    PGconn *conn = PQconnectStartParams(keywords, values, 1);
    if (conn)
        (void)PQsetNoticeReceiver(conn, notice_ignore, NULL);
    return conn;
}

int weir_ask_connect(const char *conninfo, const char *const *extra, uint64_t deadline_ns, struct pg_conn **ret_conn,
                     char ret_text[WEIR_ASK_TEXT_SIZE])
{
    PGconn *conn = connect_start(conninfo, extra);
    if (!conn) {
        say(ret_text, "no connection could be begun", NULL);
        return WEIR_ENOMEM;
    }
    PostgresPollingStatusType next = PQstatus(conn) == CONNECTION_BAD ? PGRES_POLLING_FAILED : PGRES_POLLING_WRITING;
    while (next == PGRES_POLLING_READING || next == PGRES_POLLING_WRITING) {
        if (!weir_ask_wait(conn, next == PGRES_POLLING_READING ? POLLIN : POLLOUT, deadline_ns)) {
            say(ret_text, "the server does not answer a new connection in time", NULL);
            PQfinish(conn);
            return WEIR_EIO;
        }
        next = PQconnectPoll(conn);
    }
    if (next == PGRES_POLLING_OK && PQsetnonblocking(conn, 1) == 0) {
        *ret_conn = conn;
        return 0;
    }
    say(ret_text, PQerrorMessage(conn), conn);
    PQfinish(conn);
    return WEIR_EIO;
}

/* ---- asking ---- */

int weir_ask_idle(const struct pg_conn *conn)
{
    if (PQstatus(conn) != CONNECTION_OK)
        return WEIR_EIO;
    if (PQpipelineStatus(conn) != PQ_PIPELINE_OFF)
        return WEIR_EBUSY;
    switch (PQtransactionStatus(conn)) {
    case PQTRANS_IDLE:
        return 0;
    case PQTRANS_ACTIVE:
    case PQTRANS_INTRANS:
    case PQTRANS_INERROR:
        return WEIR_EBUSY;
    default:
        return WEIR_EIO;
    }
}

bool weir_ask_is_copy(const struct pg_result *result)
{
    ExecStatusType status = PQresultStatus(result);
    return status == PGRES_COPY_IN || status == PGRES_COPY_OUT || status == PGRES_COPY_BOTH;
}

/* Takes what has come; the last result is kept. True: the query has come to its end; nothing is kept where the
 * connection is of no use any more. */
static bool hear(PGconn *conn, PGresult **kept)
{
    while (!PQisBusy(conn)) {
        PGresult *result = PQgetResult(conn);
        if (!result)
            return true;
        PQclear(*kept);
        *kept = result;
        if (weir_ask_is_copy(result)) {
            PQclear(result);
            *kept = NULL;
            return true;
        }
        if (PQstatus(conn) == CONNECTION_BAD)
            return true;
    }
    return false;
}

/* After something was sent. The connection does not block. */
static int answer(PGconn *conn, uint64_t deadline_ns, PGresult **kept)
{
    bool sending = true;
    for (;;) {
        int left = sending ? PQflush(conn) : 0;
        if (left < 0)
            return WEIR_EIO;
        sending = left > 0;
        if (hear(conn, kept))
            return PQstatus(conn) == CONNECTION_OK && *kept ? 0 : WEIR_EIO;
        if (!weir_ask_wait(conn, sending ? POLLIN | POLLOUT : POLLIN, deadline_ns) || !PQconsumeInput(conn))
            return WEIR_EIO;
    }
}

/* A caller's own connection may be a blocking one. It is made so again only where nothing is left to send: else that
 * would block, and the connection is of no use. */
static int begin(PGconn *conn, bool *ret_blocking)
{
    int error = weir_ask_idle(conn);
    if (error)
        return error;
    *ret_blocking = !PQisnonblocking(conn);
    return *ret_blocking && PQsetnonblocking(conn, 1) != 0 ? WEIR_EIO : 0;
}

static int end(PGconn *conn, bool blocking, int sent, uint64_t deadline_ns, PGresult **ret_result)
{
    PGresult *kept = NULL;
    int error = sent ? answer(conn, deadline_ns, &kept) : WEIR_EIO;
    if (!error && blocking && PQsetnonblocking(conn, 0) != 0)
        error = WEIR_EIO;
    if (error) {
        PQclear(kept);
        return error;
    }
    *ret_result = kept;
    return 0;
}

int weir_ask(struct pg_conn *conn, const char *text, uint64_t deadline_ns, struct pg_result **ret_result)
{
    bool blocking;
    int error = begin(conn, &blocking);
    return error ? error : end(conn, blocking, PQsendQuery(conn, text), deadline_ns, ret_result);
}

int weir_ask_commit(struct pg_conn *conn, uint64_t deadline_ns)
{
    PGresult *result;
    bool blocking = !PQisnonblocking(conn);
    if (blocking && PQsetnonblocking(conn, 1) != 0)
        return WEIR_EIO;
    int error = end(conn, blocking, PQsendQuery(conn, "COMMIT"), deadline_ns, &result);
    if (!error)
        PQclear(result);
    return error;
}

int weir_ask_prepared(struct pg_conn *conn, const char *name, uint64_t deadline_ns, struct pg_result **ret_result)
{
    bool blocking;
    int error = begin(conn, &blocking);
    if (error)
        return error;
    int sent = PQsendQueryPrepared(conn, name, 0, NULL, NULL, NULL, 0);
    return end(conn, blocking, sent, deadline_ns, ret_result);
}

int weir_ask_prepare(struct pg_conn *conn, const char *name, const char *text, uint64_t deadline_ns,
                     struct pg_result **ret_result)
{
    bool blocking;
    int error = begin(conn, &blocking);
    return error ? error : end(conn, blocking, PQsendPrepare(conn, name, text, 0, NULL), deadline_ns, ret_result);
}
