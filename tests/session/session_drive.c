/* SPDX-License-Identifier: Apache-2.0
 *
 * Sessions on command, for tests of another language: one command a line from stdin, one answer a line to stdout.
 *
 *     session_drive [key=TEXT] [poll=MS] [freeze=MS] [timeout=MS] [max=N] [clock=QUERY] [branch_table=NAME]
 *                   server NAME CONNINFO …
 *
 *     open S ID STRATEGY BEHIND WAIT_MS     numbers of the enums; S is 0 to 63
 *     read S SQL      ok SERVER leader|replica fresh|stale WAITED_MS VALUE
 *     query S SQL     the same, by weir_session_query, prepared
 *     write S SQL     ok VALUE
 *     again S SQL     on the connection that was handed out last: ok VALUE
 *     reset S         PQreset, which no program should call
 *     token S         ok TOKEN           join S TOKEN    rest S    accept S    close S
 *     add NAME CONNINFO                  remove NAME
 *     forge TOKEN     ok TOKEN of the highest position there is; where tokens are not signed
 *     trips           ok NAME COUNT …    round trips on all connections since they were handed out first
 *
 * An error: its name, and what the session says of it. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <libpq-fe.h>

#include "core/session/token.h"
#include "weir/session.h"

#define SESSIONS 64
#define TRACES 256

/* Of one connection: libpq writes down each message. */
struct trace {
    PGconn *conn;
    int backend;
    char server[64];
    FILE *stream;
    char *text;
    size_t size;
};

struct drive {
    struct weir_replicas *replicas;
    struct weir_session *sessions[SESSIONS];
    PGconn *last[SESSIONS];
    struct trace traces[TRACES];
    unsigned trace_count;
};

static void trace(struct drive *drive, PGconn *conn, const char *server)
{
    for (unsigned i = 0; i < drive->trace_count; i++)
        if (drive->traces[i].conn == conn && drive->traces[i].backend == PQbackendPID(conn))
            return;
    if (drive->trace_count == TRACES)
        abort();
    struct trace *trace = &drive->traces[drive->trace_count++];
    trace->conn = conn;
    trace->backend = PQbackendPID(conn);
    (void)snprintf(trace->server, sizeof trace->server, "%s", server);
    trace->stream = open_memstream(&trace->text, &trace->size);
    PQtrace(conn, trace->stream);
    PQsetTraceFlags(conn, PQTRACE_SUPPRESS_TIMESTAMPS);
}

static unsigned trips_of(struct trace *trace)
{
    unsigned count = 0;
    (void)fflush(trace->stream);
    for (const char *at = trace->text; at && (at = strstr(at, "ReadyForQuery")); at++)
        count++;
    return count;
}

static void say_trips(struct drive *drive)
{
    printf("ok");
    for (unsigned i = 0; i < drive->trace_count; i++)
        printf(" %s %u", drive->traces[i].server, trips_of(&drive->traces[i]));
    printf("\n");
}

static void say_error(const struct weir_session *session, int error)
{
    struct weir_fault fault = { 0 };
    if (session)
        weir_session_fault(session, &fault);
    printf("%s %s: %s\n", weir_error_name(error), fault.field, fault.text);
}

/* The first value, on one line. */
static void say_value(PGresult *result)
{
    ExecStatusType status = PQresultStatus(result);
    char text[256];
    (void)snprintf(text, sizeof text, "%s",
                   status == PGRES_TUPLES_OK && PQntuples(result) > 0 ? PQgetvalue(result, 0, 0)
                   : status == PGRES_TUPLES_OK                        ? "nothing"
                   : status == PGRES_COMMAND_OK                       ? PQcmdStatus(result)
                                                                      : PQresultErrorMessage(result));
    text[strcspn(text, "\n")] = '\0';
    printf("%s\n", text);
    PQclear(result);
}

static void say_result(PGconn *conn, const char *query)
{
    say_value(PQexec(conn, query));
}

static void do_read(struct drive *drive, unsigned s, const char *text, bool by_query)
{
    struct weir_read read;
    PGresult *result = NULL;
    const struct weir_query query = { .text = text, .name = text };
    int error = by_query ? weir_session_query(drive->sessions[s], &query, &result, &read)
                         : weir_session_read(drive->sessions[s], &read);
    if (error != 0) {
        say_error(drive->sessions[s], error);
        return;
    }
    trace(drive, read.conn, read.server);
    drive->last[s] = read.conn;
    printf("ok %s %s %s %" PRIu64 " ", read.server, read.leader ? "leader" : "replica", read.stale ? "stale" : "fresh",
           (uint64_t)read.waited_ms);
    say_value(by_query ? result : PQexec(read.conn, text));
}

static void do_write(struct drive *drive, unsigned s, const char *query)
{
    int error = weir_session_write(drive->sessions[s], &drive->last[s]);
    if (error != 0) {
        say_error(drive->sessions[s], error);
        return;
    }
    trace(drive, drive->last[s], "primary");
    printf("ok ");
    say_result(drive->last[s], query);
}

static void do_token(const struct drive *drive, unsigned s)
{
    char token[WEIR_SESSION_TOKEN_MAX];
    size_t size;
    int error = weir_session_token(drive->sessions[s], token, &size);
    if (error != 0)
        say_error(drive->sessions[s], error);
    else
        printf("ok %.*s\n", (int)size, token);
}

static int do_open(struct drive *drive, unsigned s, char *rest)
{
    char id[64];
    unsigned strategy, behind, wait_ms;
    if (sscanf(rest, "%63s %u %u %u", id, &strategy, &behind, &wait_ms) != 4)
        return WEIR_EINVAL;
    const struct weir_session_options options = { .id = id,
                                                  .id_size = strlen(id),
                                                  .strategy = (enum weir_session_strategy)strategy,
                                                  .behind = (enum weir_session_behind)behind,
                                                  .wait_ms = wait_ms };
    return weir_session_open(drive->replicas, &options, &drive->sessions[s]);
}

static void do_forge(const char *text)
{
    struct weir_session_token token;
    char forged[WEIR_SESSION_TOKEN_MAX];
    size_t size;
    if (weir_session_token_read(text, strlen(text), NULL, &token) != 0 || token.count == 0)
        abort();
    token.places[0].position = UINT64_MAX - 7;
    if (weir_session_token_write(&token, NULL, forged, &size) != 0)
        abort();
    printf("ok %.*s\n", (int)size, forged);
}

static void do_session(struct drive *drive, const char *command, unsigned s, char *rest)
{
    int error = 0;
    if (strcmp(command, "read") == 0 || strcmp(command, "query") == 0) {
        do_read(drive, s, rest, command[0] == 'q');
    } else if (strcmp(command, "write") == 0) {
        do_write(drive, s, rest);
    } else if (strcmp(command, "again") == 0) {
        printf("ok ");
        say_result(drive->last[s], rest);
    } else if (strcmp(command, "token") == 0) {
        do_token(drive, s);
    } else {
        if (strcmp(command, "open") == 0)
            error = do_open(drive, s, rest);
        else if (strcmp(command, "join") == 0)
            error = weir_session_join(drive->sessions[s], rest, strlen(rest));
        else if (strcmp(command, "reset") == 0)
            PQreset(drive->last[s]);
        else if (strcmp(command, "rest") == 0)
            error = weir_session_rest(drive->sessions[s]);
        else if (strcmp(command, "accept") == 0)
            error = weir_session_accept(drive->sessions[s]);
        else if (strcmp(command, "close") == 0)
            weir_session_close(drive->sessions[s]), drive->sessions[s] = NULL;
        else
            error = WEIR_EINVAL;
        if (error != 0)
            say_error(drive->sessions[s], error);
        else
            printf("ok\n");
    }
}

static void do_line(struct drive *drive, char *line)
{
    char *rest = line + strcspn(line, " ");
    struct weir_fault fault = { 0 };
    int error = 0;
    if (*rest)
        *rest++ = '\0';
    if (strcmp(line, "trips") == 0) {
        say_trips(drive);
        return;
    }
    if (strcmp(line, "forge") == 0) {
        do_forge(rest);
        return;
    }
    if (strcmp(line, "add") != 0 && strcmp(line, "remove") != 0) {
        unsigned s = (unsigned)strtoul(rest, &rest, 10);
        do_session(drive, line, s % SESSIONS, *rest ? rest + 1 : rest);
        return;
    }
    char *conninfo = rest + strcspn(rest, " ");
    if (*conninfo)
        *conninfo++ = '\0';
    if (strcmp(line, "add") == 0)
        error = weir_replicas_add(drive->replicas, &(struct weir_replicas_server){ rest, conninfo }, &fault);
    else
        error = weir_replicas_remove(drive->replicas, rest);
    if (error != 0)
        printf("%s %s: %s\n", weir_error_name(error), fault.field, fault.text);
    else
        printf("ok\n");
}

static int configure(int argc, char **argv, struct drive *drive)
{
    struct weir_replicas_server servers[64];
    struct weir_session_key key = { .id = 1 };
    struct weir_replicas_options options = { .servers = servers, .keys = &key };
    struct weir_fault fault;
    for (int i = 1; i < argc; i++) {
        char *value = strchr(argv[i], '=');
        if (strcmp(argv[i], "server") == 0 && i + 2 < argc && options.server_count < 64) {
            servers[options.server_count++] = (struct weir_replicas_server){ argv[i + 1], argv[i + 2] };
            i += 2;
        } else if (value && strncmp(argv[i], "key=", 4) == 0) {
            key.key = value + 1;
            key.key_size = strlen(value + 1);
            options.key_count = 1;
        } else if (value && strncmp(argv[i], "clock=", 6) == 0) {
            options.clock_query = value + 1;
        } else if (value && strncmp(argv[i], "branch_table=", 13) == 0) {
            options.branch_table = value + 1;
        } else if (value) {
            unsigned number = (unsigned)strtoul(value + 1, NULL, 10);
            *(argv[i][0] == 'p'   ? &options.poll_ms
              : argv[i][0] == 'f' ? &options.freeze_ms
              : argv[i][0] == 't' ? &options.timeout_ms
                                  : &options.connections_max) = number;
        }
    }
    int error = weir_replicas_open(&options, &drive->replicas, &fault);
    if (error != 0)
        printf("%s %s: %s\n", weir_error_name(error), fault.field, fault.text);
    return error;
}

int main(int argc, char **argv)
{
    static struct drive drive;
    static char line[8192];
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (configure(argc, argv, &drive) != 0)
        return 1;
    printf("ready\n");
    while (fgets(line, sizeof line, stdin)) {
        line[strcspn(line, "\n")] = '\0';
        do_line(&drive, line);
    }
    for (unsigned i = 0; i < SESSIONS; i++)
        weir_session_close(drive.sessions[i]);
    weir_replicas_close(drive.replicas); /* what it says to the servers last is traced too */
    for (unsigned i = 0; i < drive.trace_count; i++) {
        (void)fclose(drive.traces[i].stream);
        free(drive.traces[i].text);
    }
    return 0;
}
