/* SPDX-License-Identifier: Apache-2.0
 *
 * Two processes, a phone and a laptop, and users who have both. In each round of a user one of the two writes, hands
 * the other what the session has seen, and the other reads: never an older value than was written or read before, and
 * hardly ever at the primary. The token goes through a socket between the two, signed with a key that both have.
 *
 *     phone_laptop --primary CONNINFO --replica CONNINFO ... [--rounds 10000] [--users 50] [--lanes 25] [--forget]
 *
 * Users are dealt to lanes, a pair of threads each, whose waits overlap. --forget: the reader ignores the token, to see
 * that older values are found then. The table is phone_laptop (name, value), with a row per user, 1 to --users.
 * Prints one line of JSON; the exit code is 0, 1 (an older value), or 2 (it could not be done). */
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <libpq-fe.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "weir/session.h"

#define SERVERS_MAX 8
#define LANES_MAX 64
#define USERS_MAX 1000
#define WAIT_MS 20000

struct plan {
    struct weir_replicas_server servers[SERVERS_MAX];
    unsigned server_count;
    unsigned rounds, users, lanes;
    bool forget;
    int sockets[2][LANES_MAX]; /* of the phone, of the laptop */
};

struct totals {
    uint64_t reads, older, leader, failed;
    double waited_ms;
    char fault[200];
};

/* What one device tells the other about one round. */
struct message {
    uint64_t value;
    uint32_t user;
    uint32_t token_size; /* 0: it failed */
    char token[WEIR_SESSION_TOKEN_MAX];
};

struct lane {
    const struct plan *plan;
    struct weir_replicas *replicas;
    unsigned number;
    unsigned device; /* 0: the phone, 1: the laptop */
    struct weir_session *sessions[USERS_MAX];
    uint64_t newest[USERS_MAX]; /* that this user has written or read, at either */
    struct totals totals;
    pthread_t thread;
};

static void fail(struct lane *lane, const char *what, const char *why)
{
    lane->totals.failed++;
    (void)snprintf(lane->totals.fault, sizeof(lane->totals.fault), "%.60s: %.120s", what, why);
}

static void fail_session(struct lane *lane, struct weir_session *session, const char *what, int error)
{
    struct weir_fault fault = { .text = "" };
    char text[256];
    weir_session_fault(session, &fault);
    (void)snprintf(text, sizeof(text), "%s %s", weir_error_name(error), fault.text);
    fail(lane, what, text);
}

/* The one number that it answers; 0 is not one. */
static uint64_t number_ask(struct lane *lane, PGconn *conn, bool writes, uint32_t user)
{
    char statement[160];
    (void)snprintf(statement, sizeof(statement), "%s WHERE name = %u%s",
                   writes ? "UPDATE phone_laptop SET value = value + 1" : "SELECT value FROM phone_laptop", user + 1,
                   writes ? " RETURNING value" : "");
    PGresult *result = PQexec(conn, statement);
    uint64_t value = 0;
    if (PQresultStatus(result) == PGRES_TUPLES_OK && PQntuples(result) == 1)
        value = strtoull(PQgetvalue(result, 0, 0), NULL, 10);
    else
        fail(lane, statement, PQerrorMessage(conn));
    PQclear(result);
    return value;
}

static bool token_take(struct lane *lane, struct weir_session *session, struct message *message)
{
    size_t size = 0;
    int error = weir_session_token(session, message->token, &size);
    if (!error)
        error = weir_session_rest(session); /* many users, few connections */
    if (error)
        fail_session(lane, session, "token", error);
    else
        message->token_size = (uint32_t)size;
    return !error;
}

static void write_one(struct lane *lane, uint32_t user, struct message *message)
{
    struct weir_session *session = lane->sessions[user];
    PGconn *conn = NULL;
    int error = weir_session_write(session, &conn);
    if (error) {
        fail_session(lane, session, "write", error);
        return;
    }
    message->value = number_ask(lane, conn, true, user);
    if (message->value > 0 && token_take(lane, session, message))
        lane->newest[user] = message->value;
}

static void read_one(struct lane *lane, uint32_t user, struct message *message)
{
    struct weir_session *session = lane->sessions[user];
    struct weir_read read;
    int error = weir_session_read(session, &read);
    if (error) {
        fail_session(lane, session, "read", error);
        return;
    }
    uint64_t value = number_ask(lane, read.conn, false, user);
    lane->totals.reads++;
    lane->totals.leader += read.leader;
    lane->totals.waited_ms += read.waited_ms;
    lane->totals.older += value < lane->newest[user];
    if (value > lane->newest[user])
        lane->newest[user] = value;
    message->value = value;
    (void)token_take(lane, session, message);
}

/* What the other device says: its token, and what the user has seen there. */
static bool hear(struct lane *lane, uint32_t user, bool joins)
{
    struct message message;
    ssize_t got = recv(lane->plan->sockets[lane->device][lane->number], &message, sizeof(message), 0);
    if (got != (ssize_t)sizeof(message) || message.user != user) {
        fail(lane, "the other device", got < 0 ? strerror(errno) : "is gone");
        return false;
    }
    if (message.token_size == 0)
        return true;
    int error = joins ? weir_session_join(lane->sessions[user], message.token, message.token_size) : 0;
    if (error)
        fail_session(lane, lane->sessions[user], "join", error);
    if (message.value > lane->newest[user])
        lane->newest[user] = message.value;
    return true;
}

static bool tell(struct lane *lane, const struct message *message)
{
    ssize_t sent = send(lane->plan->sockets[lane->device][lane->number], message, sizeof(*message), MSG_NOSIGNAL);
    if (sent != (ssize_t)sizeof(*message))
        fail(lane, "the other device", strerror(errno));
    return sent == (ssize_t)sizeof(*message);
}

/* One round: who writes tells, who reads tells back; users take turns, and so do the devices. */
static bool round_do(struct lane *lane, unsigned round)
{
    const struct plan *plan = lane->plan;
    unsigned users = (plan->users - lane->number + plan->lanes - 1) / plan->lanes; /* of this lane */
    uint32_t user = lane->number + plan->lanes * (round % users);
    bool writes = (round / users + lane->device) % 2 == 0;
    struct message message = { .user = user };
    if (writes) {
        write_one(lane, user, &message);
        return tell(lane, &message) && hear(lane, user, !plan->forget);
    }
    if (!hear(lane, user, !plan->forget))
        return false;
    read_one(lane, user, &message);
    return tell(lane, &message);
}

static void *lane_run(void *context)
{
    struct lane *lane = context;
    const struct plan *plan = lane->plan;
    unsigned rounds = (plan->rounds - lane->number + plan->lanes - 1) / plan->lanes;
    for (unsigned user = lane->number; user < plan->users; user += plan->lanes) {
        char id[32];
        (void)snprintf(id, sizeof(id), "user %u", user);
        const struct weir_session_options options = {
            .id = id, .id_size = strlen(id), .behind = WEIR_BEHIND_LEADER, .wait_ms = WAIT_MS
        };
        if (weir_session_open(lane->replicas, &options, &lane->sessions[user]) != 0) {
            fail(lane, "open", "no memory");
            return NULL;
        }
    }
    for (unsigned round = 0; round < rounds && round_do(lane, round); round++) {
    }
    for (unsigned user = lane->number; user < plan->users; user += plan->lanes)
        weir_session_close(lane->sessions[user]);
    return NULL;
}

static void totals_add(struct totals *totals, const struct totals *more)
{
    totals->reads += more->reads;
    totals->older += more->older;
    totals->leader += more->leader;
    totals->failed += more->failed;
    totals->waited_ms += more->waited_ms;
    if (more->fault[0])
        memcpy(totals->fault, more->fault, sizeof(totals->fault));
}

/* One process. */
static struct totals device_run(const struct plan *plan, unsigned device)
{
    struct totals totals = { .reads = 0 };
    struct weir_fault fault = { .text = "" };
    const struct weir_session_key key = { .id = 1, .key = "phone and laptop know it", .key_size = 24 };
    const struct weir_replicas_options options = { .servers = plan->servers,
                                                   .server_count = plan->server_count,
                                                   .connections_max = plan->users,
                                                   .timeout_ms = WAIT_MS,
                                                   .keys = &key,
                                                   .key_count = 1 };
    struct weir_replicas *replicas = NULL;
    struct lane *lanes = calloc(plan->lanes, sizeof(lanes[0]));
    if (!lanes || weir_replicas_open(&options, &replicas, &fault) != 0) {
        totals.failed = 1;
        (void)snprintf(totals.fault, sizeof(totals.fault), "open: %s %s", fault.field, fault.text);
        free(lanes);
        return totals;
    }
    unsigned begun = 0;
    for (; begun < plan->lanes; begun++) {
        struct lane *lane = &lanes[begun];
        *lane = (struct lane){ .plan = plan, .replicas = replicas, .number = begun, .device = device };
        if (pthread_create(&lane->thread, NULL, lane_run, lane) != 0)
            break;
    }
    for (unsigned i = 0; i < begun; i++) {
        (void)pthread_join(lanes[i].thread, NULL);
        totals_add(&totals, &lanes[i].totals);
    }
    totals.failed += plan->lanes - begun;
    weir_replicas_close(replicas);
    free(lanes);
    return totals;
}

static bool sockets_make(struct plan *plan)
{
    for (unsigned i = 0; i < plan->lanes; i++) {
        int ends[2];
        if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0)
            return false;
        plan->sockets[0][i] = ends[0];
        plan->sockets[1][i] = ends[1];
    }
    return true;
}

/* A device that ends is heard by the other: its ends are open in no other process. */
static void sockets_close(const struct plan *plan, unsigned device)
{
    for (unsigned i = 0; i < plan->lanes; i++)
        close(plan->sockets[device][i]);
}

static bool flags_read(int argc, char **argv, struct plan *plan)
{
    static const struct option options[] = {
        { "primary", required_argument, NULL, 's' },
        { "replica", required_argument, NULL, 's' },
        { "rounds", required_argument, NULL, 'r' },
        { "users", required_argument, NULL, 'u' },
        { "lanes", required_argument, NULL, 'l' },
        { "forget", no_argument, NULL, 'f' },
        { NULL, 0, NULL, 0 },
    };
    static const char *const names[SERVERS_MAX] = { "a", "b", "c", "d", "e", "f", "g", "h" };
    for (int option; (option = getopt_long(argc, argv, "", options, NULL)) != -1;) {
        if (option == 's' && plan->server_count < SERVERS_MAX) {
            plan->servers[plan->server_count] = (struct weir_replicas_server){ .name = names[plan->server_count],
                                                                               .conninfo = optarg };
            plan->server_count++;
        } else if (option == 'r') {
            plan->rounds = (unsigned)strtoul(optarg, NULL, 10);
        } else if (option == 'u') {
            plan->users = (unsigned)strtoul(optarg, NULL, 10);
        } else if (option == 'l') {
            plan->lanes = (unsigned)strtoul(optarg, NULL, 10);
        } else if (option == 'f') {
            plan->forget = true;
        } else {
            return false;
        }
    }
    return optind == argc && plan->server_count > 1 && plan->lanes > 0 && plan->lanes <= LANES_MAX &&
           plan->users >= plan->lanes && plan->users <= USERS_MAX && plan->rounds >= plan->lanes;
}

static int report(const struct totals *totals, double seconds)
{
    double reads = totals->reads > 0 ? (double)totals->reads : 1;
    printf("{\"reads\": %" PRIu64 ", \"older\": %" PRIu64 ", \"at_primary\": %" PRIu64
           ", \"at_primary_percent\": %.2f, \"failed\": %" PRIu64
           ", \"mean_wait_ms\": %.1f, \"seconds\": %.1f, \"fault\": \"",
           totals->reads, totals->older, totals->leader, 100 * (double)totals->leader / reads, totals->failed,
           totals->waited_ms / reads, seconds);
    for (const char *at = totals->fault; *at; at++)
        putchar(*at < ' ' || *at == '"' || *at == '\\' ? ' ' : *at);
    puts("\"}");
    return totals->failed > 0 ? 2 : totals->older > 0 ? 1 : 0;
}

int main(int argc, char **argv)
{
    struct plan plan = { .rounds = 10000, .users = 50, .lanes = 25 };
    struct timespec begin, end;
    int results[2];
    if (!flags_read(argc, argv, &plan)) {
        fputs("usage: phone_laptop --primary CONNINFO --replica CONNINFO ... [--rounds N] [--users N] [--lanes N] "
              "[--forget]\n",
              stderr);
        return 2;
    }
    if (!sockets_make(&plan) || pipe(results) != 0) {
        perror("phone_laptop");
        return 2;
    }
    (void)clock_gettime(CLOCK_MONOTONIC, &begin);
    pid_t laptop = fork(); /* before there is any thread or connection */
    sockets_close(&plan, laptop == 0 ? 0 : 1);
    struct totals own = { .failed = 1, .fault = "fork" }, others = { .failed = 1, .fault = "the laptop died" };
    if (laptop >= 0)
        own = device_run(&plan, laptop == 0);
    sockets_close(&plan, laptop == 0);
    if (laptop == 0)
        _exit(write(results[1], &own, sizeof(own)) != sizeof(own));
    close(results[1]);
    if (laptop > 0 && read(results[0], &others, sizeof(others)) != sizeof(others))
        others = (struct totals){ .failed = 1, .fault = "the laptop died" };
    if (laptop > 0)
        (void)waitpid(laptop, NULL, 0);
    (void)clock_gettime(CLOCK_MONOTONIC, &end);
    totals_add(&own, &others);
    return report(&own, (double)(end.tv_sec - begin.tv_sec) + (double)(end.tv_nsec - begin.tv_nsec) / 1e9);
}
