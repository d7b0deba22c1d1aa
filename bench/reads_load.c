/* SPDX-License-Identifier: Apache-2.0
 *
 * Select-only load through sessions, and without: reads of one row by its key, prepared, on one connection a thread.
 *
 *     bench_reads_load THREADS NAME CONNINFO …
 *
 * Asked by lines: "plain MS", "lazy MS", "token MS", "query MS"; answered by the number of reads. plain: libpq alone,
 * on connections to the same servers that the sessions read from. lazy: weir_session_read before each read. token: and
 * weir_session_token after it. query: weir_session_query, and weir_session_token after it. Connections and prepared
 * statements stay from one sample to the next. */
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <libpq-fe.h>
#include <weir/session.h>

#include "measure.h"

#define ROWS 10000
#define SERVERS_MAX 8
#define STATEMENT "bench_read"

enum mode { PLAIN, LAZY, TOKEN, QUERY };

struct load {
    struct weir_replicas_server servers[SERVERS_MAX];
    unsigned server_count;
    struct weir_replicas *replicas;
    pthread_barrier_t barrier;
    enum mode mode;
    uint64_t end_ns;
};

struct worker {
    struct load *load;
    pthread_t thread;
    struct weir_session *session;
    PGconn *plain;
    PGconn *prepared; /* the session's connection that knows the statement */
    uint64_t random;
    uint64_t reads;
};

static void stop(const char *what, const char *why)
{
    fprintf(stderr, "reads_load: %s: %s\n", what, why);
    exit(1);
}

static void prepare(PGconn *conn)
{
    PGresult *result = PQprepare(conn, STATEMENT, "SELECT v FROM accounts WHERE k = $1", 1, NULL);
    const char *state = PQresultErrorField(result, PG_DIAG_SQLSTATE);
    if (PQresultStatus(result) != PGRES_COMMAND_OK && !(state && strcmp(state, "42P05") == 0)) /* it is there already */
        stop("prepare", PQerrorMessage(conn));
    PQclear(result);
}

static void read_row(struct worker *worker, PGconn *conn)
{
    char key[16];
    const char *values[] = { key };
    worker->random++;
    (void)snprintf(key, sizeof key, "%" PRIu64, measure_below(measure_mix(worker->random), ROWS));
    PGresult *result = PQexecPrepared(conn, STATEMENT, 1, values, NULL, NULL, 0);
    if (PQresultStatus(result) != PGRES_TUPLES_OK || PQntuples(result) != 1)
        stop("read", PQerrorMessage(conn));
    PQclear(result);
    worker->reads++;
}

static void read_by_session(struct worker *worker, bool export)
{
    char token[WEIR_SESSION_TOKEN_MAX];
    struct weir_read read;
    size_t size;
    int error = weir_session_read(worker->session, &read);
    if (error == 0 && read.conn != worker->prepared) {
        prepare(read.conn);
        worker->prepared = read.conn;
    }
    if (error == 0)
        read_row(worker, read.conn);
    if (error == 0 && export)
        error = weir_session_token(worker->session, token, &size);
    if (error != 0)
        stop("session", weir_error_name(error));
}

static void read_by_query(struct worker *worker)
{
    char token[WEIR_SESSION_TOKEN_MAX], key[16];
    const char *values[] = { key };
    const struct weir_query query = {
        .text = "SELECT v FROM accounts WHERE k = $1", .name = STATEMENT, .param_count = 1, .values = values
    };
    PGresult *result = NULL;
    size_t size;
    worker->random++;
    (void)snprintf(key, sizeof key, "%" PRIu64, measure_below(measure_mix(worker->random), ROWS));
    int error = weir_session_query(worker->session, &query, &result, NULL);
    if (error == 0 && (PQresultStatus(result) != PGRES_TUPLES_OK || PQntuples(result) != 1))
        stop("query", PQresultErrorMessage(result));
    PQclear(result);
    if (error == 0)
        error = weir_session_token(worker->session, token, &size);
    if (error != 0)
        stop("session", weir_error_name(error));
    worker->reads++;
}

static void *work(void *context)
{
    struct worker *worker = context;
    struct load *load = worker->load;
    for (;;) {
        pthread_barrier_wait(&load->barrier);
        for (worker->reads = 0; measure_now_ns() < load->end_ns;)
            if (load->mode == PLAIN)
                read_row(worker, worker->plain);
            else if (load->mode == QUERY)
                read_by_query(worker);
            else
                read_by_session(worker, load->mode == TOKEN);
        pthread_barrier_wait(&load->barrier);
    }
    return NULL;
}

/* A session at a replica, and a connection of its own to the same one. */
static void open_worker(struct worker *worker, struct load *load, unsigned number)
{
    char id[16];
    struct weir_read read = { 0 };
    (void)snprintf(id, sizeof id, "user%u", number);
    const struct weir_session_options options = { .id = id, .id_size = strlen(id), .wait_ms = 10000 };
    *worker = (struct worker){ .load = load, .random = (uint64_t)number << 40 };
    if (weir_session_open(load->replicas, &options, &worker->session) != 0)
        stop("session", "cannot be opened");
    while (weir_session_read(worker->session, &read) != 0 || read.leader)
        nanosleep(&(struct timespec){ .tv_nsec = 10000000 }, NULL); /* the replicas are not known yet */
    const char *conninfo = NULL;
    for (unsigned i = 0; i < load->server_count; i++)
        if (strcmp(load->servers[i].name, read.server) == 0)
            conninfo = load->servers[i].conninfo;
    worker->plain = PQconnectdb(conninfo);
    if (PQstatus(worker->plain) != CONNECTION_OK)
        stop("connect", PQerrorMessage(worker->plain));
    prepare(worker->plain);
    fprintf(stderr, "reads_load: %s reads at %s\n", id, read.server);
}

int main(int argc, char **argv)
{
    static struct load load;
    static struct worker workers[MEASURE_THREADS_MAX];
    char word[16];
    unsigned milliseconds, threads = argc > 1 ? (unsigned)atoi(argv[1]) : 0;
    struct weir_fault fault;
    for (int i = 2; i + 1 < argc && load.server_count < SERVERS_MAX; i += 2)
        load.servers[load.server_count++] = (struct weir_replicas_server){ argv[i], argv[i + 1] };
    if (threads < 1 || threads > MEASURE_THREADS_MAX)
        stop("threads", "1 to 8");
    const struct weir_session_key key = { .id = 1, .key = "a key of sixteen bytes or more", .key_size = 30 };
    const struct weir_replicas_options options = {
        .servers = load.servers, .server_count = load.server_count, .keys = &key, .key_count = 1
    };
    if (weir_replicas_open(&options, &load.replicas, &fault) != 0)
        stop(fault.field, fault.text);
    pthread_barrier_init(&load.barrier, NULL, threads + 1);
    for (unsigned i = 0; i < threads; i++)
        open_worker(&workers[i], &load, i);
    for (unsigned i = 0; i < threads; i++)
        if (pthread_create(&workers[i].thread, NULL, work, &workers[i]) != 0)
            stop("threads", "cannot be started");
    while (scanf("%15s %u", word, &milliseconds) == 2) {
        uint64_t reads = 0;
        load.mode = strcmp(word, "plain") == 0   ? PLAIN
                    : strcmp(word, "lazy") == 0  ? LAZY
                    : strcmp(word, "query") == 0 ? QUERY
                                                 : TOKEN;
        load.end_ns = measure_now_ns() + milliseconds * UINT64_C(1000000);
        pthread_barrier_wait(&load.barrier);
        pthread_barrier_wait(&load.barrier);
        for (unsigned i = 0; i < threads; i++)
            reads += workers[i].reads;
        printf("%" PRIu64 "\n", reads);
        (void)fflush(stdout);
    }
    return 0; /* the threads wait for the next sample, and end with the program */
}
