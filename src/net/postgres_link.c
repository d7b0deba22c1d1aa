/* SPDX-License-Identifier: Apache-2.0
 *
 * The connection: libpq's calls that do not block, with poll() between them. If a host is silent for half of the time
 * that is left, the next one is tried, and comes first from then on. A query of which the last byte was not sent was
 * not done; after that a broken connection, a FATAL or a WARNING leaves it unknown. Called by the postgres lock engine
 * and sessions/users_postgres.c; sessions read on sessions/link.c's connections. */
#include "net/postgres_link.h"

#include <errno.h>
#include <libpq-fe.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/checked.h"
#include "base/timing.h"
#include "net/postgres_ask.h"
#include "weir/error.h"

static void fault_set(struct weir_pg_link *link, const char *text)
{
    weir_ask_line(link->fault, sizeof link->fault, text, link->password);
}

/* ---- the conninfo ---- */

static size_t list_count(const char *list)
{
    size_t count = 1;
    for (const char *at = list; list && (at = strchr(at, ',')); at++)
        count++;
    return count;
}

static bool keep(const PQconninfoOption *options, const char *keyword, char **ret_value)
{
    for (const PQconninfoOption *option = options; option->keyword; option++) {
        if (strcmp(option->keyword, keyword) != 0 || !option->val)
            continue;
        *ret_value = strdup(option->val);
        return *ret_value != NULL;
    }
    return true;
}

int weir_pg_link_init(struct weir_pg_link *link, const char *conninfo)
{
    char *message = NULL; /* may quote the conninfo: not for showing */
    *link = (struct weir_pg_link){ 0 };
    PQconninfoOption *options = PQconninfoParse(conninfo, &message);
    if (message)
        PQfreemem(message);
    if (!options)
        return WEIR_EINVAL;
    link->conninfo = strdup(conninfo);
    bool kept = link->conninfo && keep(options, "host", &link->host) && keep(options, "hostaddr", &link->hostaddr) &&
                keep(options, "port", &link->port) && keep(options, "password", &link->password);
    PQconninfoFree(options);
    if (!kept) {
        weir_pg_link_deinit(link);
        return WEIR_ENOMEM;
    }
    link->hosts = list_count(link->hostaddr ? link->hostaddr : link->host);
    return 0;
}

void weir_pg_link_deinit(struct weir_pg_link *link)
{
    weir_pg_link_drop(link);
    free(link->conninfo);
    free(link->host);
    free(link->hostaddr);
    free(link->port);
    free(link->password);
    *link = (struct weir_pg_link){ 0 };
}

/* "a,b,c" beginning with its second: "b,c,a". NULL stays NULL, and so does a list that does not name each host. */
static char *rotated(const struct weir_pg_link *link, const char *list)
{
    if (!list || link->hosts < 2 || list_count(list) != link->hosts)
        return NULL;
    const char *at = list;
    for (size_t i = 0; i < link->first; i++)
        at = strchr(at, ',') + 1;
    size_t size = strlen(list);
    char *turned = malloc(size + 2);
    if (turned)
        (void)snprintf(turned, size + 2, "%s%s%.*s", at, at > list ? "," : "", (int)(at > list ? at - list - 1 : 0),
                       list);
    return turned;
}

/* ---- connecting ---- */

void weir_pg_link_drop(struct weir_pg_link *link)
{
    PQfinish(link->conn); /* never blocks: the connection does not */
    link->conn = NULL;
}

static PGconn *connect_start(const struct weir_pg_link *link)
{
    char *host = rotated(link, link->host), *hostaddr = rotated(link, link->hostaddr);
    char *port = rotated(link, link->port);
    /* What comes before dbname (the conninfo) is a default, what comes after it wins. NULL is not there. */
    const char *const keywords[] = { "fallback_application_name",
                                     "tcp_user_timeout",
                                     "keepalives_idle",
                                     "dbname",
                                     "host",
                                     "hostaddr",
                                     "port",
                                     "target_session_attrs",
                                     NULL };
    const char *const values[] = { "weir", "10000",  "10", link->conninfo,
                                   host,   hostaddr, port, link->any ? "any" : "read-write",
                                   NULL };
    PGconn *conn = PQconnectStartParams(keywords, values, 1);
    free(host);
    free(hostaddr);
    free(port);
    return conn;
}

static void on_notice(void *context, const PGresult *result)
{
    struct weir_pg_link *link = context;
    const char *severity = PQresultErrorField(result, PG_DIAG_SEVERITY_NONLOCALIZED);
    if (!severity || strcmp(severity, "WARNING") != 0)
        return;
    link->warned = true;
    const char *message = PQresultErrorField(result, PG_DIAG_MESSAGE_PRIMARY);
    fault_set(link, message ? message : "a warning without a text");
}

enum attempt { ATTEMPT_OK, ATTEMPT_FAILED, ATTEMPT_SILENT };

static enum attempt attempt(struct weir_pg_link *link, uint64_t deadline_ns)
{
    link->conn = connect_start(link);
    if (!link->conn)
        return ATTEMPT_FAILED;
    PQsetNoticeReceiver(link->conn, on_notice, link);
    PostgresPollingStatusType next = PQstatus(link->conn) == CONNECTION_BAD ? PGRES_POLLING_FAILED
                                                                            : PGRES_POLLING_WRITING;
    while (next == PGRES_POLLING_READING || next == PGRES_POLLING_WRITING) {
        if (!weir_ask_wait(link->conn, next == PGRES_POLLING_READING ? POLLIN : POLLOUT, deadline_ns)) {
            fault_set(link, "the server does not answer a new connection in time");
            return ATTEMPT_SILENT;
        }
        next = PQconnectPoll(link->conn);
    }
    if (next == PGRES_POLLING_OK && PQsetnonblocking(link->conn, 1) == 0)
        return ATTEMPT_OK;
    fault_set(link, PQerrorMessage(link->conn));
    return ATTEMPT_FAILED;
}

bool weir_pg_link_connect(struct weir_pg_link *link, uint64_t deadline_ns)
{
    weir_assert(!link->conn);
    fault_set(link, "no connection could be begun");
    /* libpq goes on to the next host when one refuses, never when one is silent: that is for us to do. */
    for (size_t i = 0; i < link->hosts; i++) {
        uint64_t now_ns = weir_timing_now(CLOCK_MONOTONIC), left_ns = weir_sub_sat(deadline_ns, now_ns);
        enum attempt made = attempt(link, i + 1 < link->hosts ? now_ns + left_ns / 2 : deadline_ns);
        if (made == ATTEMPT_OK) {
            link->fault[0] = '\0';
            return true;
        }
        weir_pg_link_drop(link);
        if (made == ATTEMPT_FAILED)
            return false;
        link->first = (link->first + 1) % link->hosts;
    }
    return false;
}

bool weir_pg_link_alive(struct weir_pg_link *link)
{
    /* What a server says before it goes (FATAL), then the end of the stream: a few reads. */
    for (int i = 0; link->conn && i < 4 && weir_ask_wait(link->conn, POLLIN, 0); i++) {
        if (!PQconsumeInput(link->conn)) {
            fault_set(link, PQerrorMessage(link->conn));
            weir_pg_link_drop(link);
            break;
        }
        (void)PQisBusy(link->conn); /* takes notice of what came */
    }
    return link->conn && PQstatus(link->conn) == CONNECTION_OK;
}

/* ---- asking ---- */

struct answers {
    weir_pg_result_fn *take;
    void *context;
    size_t count;
    bool refused; /* by an ERROR: rolled back */
    bool broken;  /* the connection is of no use any more */
};

static void hear_error(struct weir_pg_link *link, struct answers *answers, const PGresult *result)
{
    const char *severity = PQresultErrorField(result, PG_DIAG_SEVERITY_NONLOCALIZED);
    const char *state = PQresultErrorField(result, PG_DIAG_SQLSTATE);
    const char *message = PQresultErrorField(result, PG_DIAG_MESSAGE_PRIMARY);
    fault_set(link, message ? message : PQresultErrorMessage(result));
    /* FATAL and PANIC end the session and may come after a commit; libpq's own errors have no severity. */
    if (!severity || !state || strcmp(severity, "ERROR") != 0) {
        answers->broken = true;
        return;
    }
    answers->refused = true;
    (void)snprintf(link->state, sizeof link->state, "%s", state);
}

/* Of a COPY, which nobody asked for, libpq has one more result for ever. */
static bool is_copy(ExecStatusType status)
{
    return status == PGRES_COPY_IN || status == PGRES_COPY_OUT || status == PGRES_COPY_BOTH;
}

/* Takes what has come. True: the query has come to its end, or the connection is of no use any more. */
static bool hear(struct weir_pg_link *link, struct answers *answers)
{
    while (!PQisBusy(link->conn)) {
        PGresult *result = PQgetResult(link->conn);
        if (!result)
            return true;
        ExecStatusType status = PQresultStatus(result);
        if (status == PGRES_COMMAND_OK || status == PGRES_TUPLES_OK) {
            if (answers->take && !answers->take(answers->context, answers->count, result)) {
                fault_set(link, "an answer that is none of ours");
                answers->broken = true;
            }
            answers->count++;
        } else {
            hear_error(link, answers, result);
        }
        PQclear(result);
        if (answers->broken && (is_copy(status) || PQstatus(link->conn) == CONNECTION_BAD))
            return true;
    }
    return false;
}

static enum weir_pg_outcome dropped(struct weir_pg_link *link, enum weir_pg_outcome outcome)
{
    weir_pg_link_drop(link);
    return outcome;
}

static enum weir_pg_outcome judge(struct weir_pg_link *link, const struct answers *answers)
{
    if (answers->broken || PQstatus(link->conn) != CONNECTION_OK || PQtransactionStatus(link->conn) != PQTRANS_IDLE)
        return dropped(link, WEIR_PG_UNKNOWN);
    if (answers->refused)
        return WEIR_PG_REFUSED;
    /* "The transaction has already committed locally, but might not have been replicated": reported as a success. */
    if (link->warned)
        return dropped(link, WEIR_PG_UNKNOWN);
    return WEIR_PG_DONE;
}

enum weir_pg_outcome weir_pg_link_run(struct weir_pg_link *link, const char *text, uint64_t deadline_ns,
                                      weir_pg_result_fn *take, void *context)
{
    struct answers answers = { .take = take, .context = context };
    bool sending = true;
    link->warned = false;
    link->state[0] = '\0';
    if (!PQsendQuery(link->conn, text)) {
        fault_set(link, PQerrorMessage(link->conn));
        return dropped(link, WEIR_PG_UNSENT);
    }
    for (;;) {
        int left = sending ? PQflush(link->conn) : 0;
        if (left < 0) {
            fault_set(link, PQerrorMessage(link->conn));
            return dropped(link, WEIR_PG_UNSENT);
        }
        sending = left > 0;
        if (hear(link, &answers))
            return judge(link, &answers);
        if (!weir_ask_wait(link->conn, sending ? POLLIN | POLLOUT : POLLIN, deadline_ns)) {
            /* A query of which the last byte is missing is never begun. */
            fault_set(link, "the server did not answer in time");
            return dropped(link, sending ? WEIR_PG_UNSENT : WEIR_PG_UNKNOWN);
        }
        if (!PQconsumeInput(link->conn)) {
            fault_set(link, PQerrorMessage(link->conn));
            return dropped(link, sending ? WEIR_PG_UNSENT : WEIR_PG_UNKNOWN);
        }
    }
}
