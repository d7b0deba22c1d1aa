/* SPDX-License-Identifier: Apache-2.0
 *
 * Users in threads, each with its own row, while replicas come and go: each user writes, and reads in sessions that
 * have nothing but its token. A read that shows less than was written or read ends the program.
 *
 *     session_threads THREADS ROUNDS PRIMARY_CONNINFO REPLICA_CONNINFO …
 *
 * "ok READS LEADER_READS" in the end. */
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <libpq-fe.h>

#include "weir/session.h"

#define THREADS_MAX 16

struct user {
    struct weir_replicas *replicas;
    pthread_t thread;
    unsigned number;
    unsigned rounds;
    uint64_t reads, leader_reads;
};

static atomic_uint running;

static void stop(const char *what, const char *why)
{
    printf("%s: %s\n", what, why);
    exit(1);
}

static void check(struct weir_session *session, int error, const char *what)
{
    struct weir_fault fault;
    if (error == 0)
        return;
    weir_session_fault(session, &fault);
    printf("%s: %s (%s %s)\n", what, weir_error_name(error), fault.field, fault.text);
    exit(1);
}

static void read_back(struct user *user, struct weir_session *session, uint64_t written)
{
    char text[64];
    struct weir_read read;
    (void)snprintf(text, sizeof text, "SELECT v FROM threads WHERE k = %u", user->number);
    check(session, weir_session_read(session, &read), "read");
    PGresult *result = PQexec(read.conn, text);
    if (PQresultStatus(result) != PGRES_TUPLES_OK)
        stop("read", PQresultErrorMessage(result));
    uint64_t seen = PQntuples(result) == 1 ? strtoull(PQgetvalue(result, 0, 0), NULL, 10) : 0;
    PQclear(result);
    user->reads++;
    user->leader_reads += read.leader;
    if (seen < written) {
        printf("user %u at %s: %" PRIu64 " < %" PRIu64 "\n", user->number, read.server, seen, written);
        exit(1);
    }
}

static void *work(void *context)
{
    struct user *user = context;
    char token[WEIR_SESSION_TOKEN_MAX], id[16], text[128];
    size_t size = 0;
    (void)snprintf(id, sizeof id, "user%u", user->number);
    const struct weir_session_options options = { .id = id, .id_size = strlen(id), .wait_ms = 20000 };
    for (unsigned round = 1; round <= user->rounds; round++) {
        struct weir_session *session;
        PGconn *conn;
        check(NULL, weir_session_open(user->replicas, &options, &session), "open");
        if (size > 0)
            check(session, weir_session_join(session, token, size), "join");
        read_back(user, session, round - 1);
        check(session, weir_session_write(session, &conn), "write");
        (void)snprintf(text, sizeof text,
                       "INSERT INTO threads VALUES (%u, %u) ON CONFLICT (k) DO UPDATE SET v = excluded.v", user->number,
                       round);
        PGresult *result = PQexec(conn, text);
        if (PQresultStatus(result) != PGRES_COMMAND_OK)
            stop("write", PQresultErrorMessage(result));
        PQclear(result);
        if (round % 3 == 0)
            read_back(user, session, round);
        check(session, weir_session_token(session, token, &size), "token");
        weir_session_close(session);
    }
    atomic_fetch_sub(&running, 1);
    return NULL;
}

/* One after the other leaves and comes back; one stays. */
static void come_and_go(struct weir_replicas *replicas, const struct weir_replicas_server *servers, unsigned count)
{
    for (unsigned i = 0; atomic_load(&running) > 0; i++) {
        const struct weir_replicas_server *server = &servers[1 + i % (count - 1)];
        int error = weir_replicas_remove(replicas, server->name);
        nanosleep(&(struct timespec){ .tv_nsec = 20000000 }, NULL);
        if (error == 0)
            error = weir_replicas_add(replicas, server, NULL);
        if (error != 0)
            stop("come and go", weir_error_name(error));
        nanosleep(&(struct timespec){ .tv_nsec = 60000000 }, NULL);
    }
}

int main(int argc, char **argv)
{
    static const char *const names[] = { "primary", "one", "two", "three", "four", "five", "six", "seven" };
    static struct user users[THREADS_MAX];
    struct weir_replicas_server servers[8];
    struct weir_replicas *replicas;
    struct weir_fault fault;
    unsigned count = 0, threads = argc > 4 ? (unsigned)atoi(argv[1]) : 0;
    uint64_t reads = 0, leader_reads = 0;
    if (threads < 1 || threads > THREADS_MAX)
        stop("arguments", "THREADS ROUNDS PRIMARY REPLICA …");
    for (int i = 3; i < argc && count < 8; i++, count++)
        servers[count] = (struct weir_replicas_server){ names[count], argv[i] };
    const struct weir_replicas_options options = {
        .servers = servers, .server_count = count, .connections_max = 8, .timeout_ms = 20000
    };
    if (weir_replicas_open(&options, &replicas, &fault) != 0)
        stop(fault.field, fault.text);
    atomic_store(&running, threads);
    for (unsigned i = 0; i < threads; i++) {
        users[i] = (struct user){ .replicas = replicas, .number = i, .rounds = (unsigned)atoi(argv[2]) };
        if (pthread_create(&users[i].thread, NULL, work, &users[i]) != 0)
            stop("threads", "cannot be started");
    }
    come_and_go(replicas, servers, count);
    for (unsigned i = 0; i < threads; i++) {
        pthread_join(users[i].thread, NULL);
        reads += users[i].reads;
        leader_reads += users[i].leader_reads;
    }
    weir_replicas_close(replicas);
    printf("ok %" PRIu64 " %" PRIu64 "\n", reads, leader_reads);
    return 0;
}
