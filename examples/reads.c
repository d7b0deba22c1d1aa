/* SPDX-License-Identifier: Apache-2.0
 *
 * A web shop's user writes a comment and reads it back, at whichever replica is far enough; then the same user comes
 * from another device, which knows nothing but the cookie.
 *
 *     cc reads.c $(pkg-config --cflags --libs weir-session libpq) -o reads
 *     ./reads "host=db1 dbname=shop" "host=db2 dbname=shop" "host=db3 dbname=shop"
 *
 * Which of the servers is the primary is found out. What is not to be lost sight of between two requests is the token:
 * in a cookie, a header, a link. */
#include <stdio.h>
#include <string.h>

#include <libpq-fe.h>
#include <weir/session.h>

/* One value, or why not. */
static void say(const char *who, const char *server, PGconn *conn, const char *query)
{
    PGresult *result = PQexec(conn, query);
    printf("%s at %s: %s\n", who, server,
           PQresultStatus(result) == PGRES_TUPLES_OK && PQntuples(result) > 0 ? PQgetvalue(result, 0, 0)
           : PQresultStatus(result) == PGRES_COMMAND_OK                       ? PQcmdStatus(result)
                                                                              : PQresultErrorMessage(result));
    PQclear(result);
}

static int failed(struct weir_session *session, int error)
{
    struct weir_fault fault;
    weir_session_fault(session, &fault);
    printf("%s (%s %s)\n", weir_error_text(error), fault.field, fault.text);
    return error;
}

/* The laptop: writes, reads, and leaves a cookie. */
static int write_and_read(struct weir_session *session, char *cookie, size_t *ret_size)
{
    PGconn *conn;
    struct weir_read read;
    int error = weir_session_write(session, &conn);
    if (error != 0)
        return failed(session, error);
    say("laptop", "the primary", conn, "CREATE TABLE IF NOT EXISTS comments (id bigserial PRIMARY KEY, body text)");
    say("laptop", "the primary", conn, "INSERT INTO comments (body) VALUES ('first!') RETURNING 'wrote ' || body");
    error = weir_session_read(session, &read);
    if (error != 0)
        return failed(session, error);
    say("laptop", read.server, read.conn, "SELECT 'sees ' || body FROM comments ORDER BY id DESC LIMIT 1");
    error = weir_session_token(session, cookie, ret_size);
    return error ? failed(session, error) : 0;
}

/* The phone: the same user, another session; it may be another process on another machine. */
static int read_elsewhere(struct weir_session *session, const char *cookie, size_t size)
{
    struct weir_read read;
    int error = weir_session_join(session, cookie, size);
    if (error == 0)
        error = weir_session_read(session, &read);
    if (error == WEIR_ECUTOFF) {
        printf("a failover has lost what you saw: showing what there is\n");
        error = weir_session_accept(session);
        if (error == 0)
            error = weir_session_read(session, &read);
    }
    if (error != 0)
        return failed(session, error);
    say("phone", read.server, read.conn, "SELECT 'sees ' || body FROM comments ORDER BY id DESC LIMIT 1");
    return 0;
}

int main(int argc, char **argv)
{
    struct weir_replicas_server servers[8];
    char names[8][24], cookie[WEIR_SESSION_TOKEN_MAX];
    const struct weir_session_key key = { .id = 1, .key = "sixteen bytes or more, and secret", .key_size = 33 };
    struct weir_replicas_options options = { .servers = servers, .keys = &key, .key_count = 1 };
    const struct weir_session_options user = { .id = "ada", .id_size = 3, .wait_ms = 5000 };
    struct weir_replicas *replicas;
    struct weir_session *laptop = NULL, *phone = NULL;
    struct weir_fault fault;
    size_t size;

    for (int i = 1; i < argc && options.server_count < 8; i++, options.server_count++) {
        snprintf(names[options.server_count], sizeof names[0], "server %d", i);
        servers[options.server_count] = (struct weir_replicas_server){ names[options.server_count], argv[i] };
    }
    if (weir_replicas_open(&options, &replicas, &fault) != 0) {
        printf("%s %s\n", fault.field, fault.text);
        return 1;
    }
    int error = weir_session_open(replicas, &user, &laptop);
    if (error == 0)
        error = weir_session_open(replicas, &user, &phone);
    if (error == 0)
        error = write_and_read(laptop, cookie, &size);
    if (error == 0)
        error = read_elsewhere(phone, cookie, size);
    weir_session_close(laptop);
    weir_session_close(phone);
    weir_replicas_close(replicas);
    return error ? 1 : 0;
}
