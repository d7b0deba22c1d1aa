/* SPDX-License-Identifier: Apache-2.0
 *
 * Each thread has an array of its own for what it did. Strategy plain reads at a replica drawn at random, over
 * connections of its own (reads_link.c); the others open a session of weir/session.h for each read or write and give it
 * the token of the one before. Requests are drawn from a generator that is seeded with the session's number, so all
 * strategies get the same ones. Called by reads_run.c, which judges the result with reads_count.c. */
#include "cli/reads_work.h"

#include <libpq-fe.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#include "base/checked.h"
#include "cli/reads_link.h"
#include "net/postgres_ask.h"
#include "weir/session.h"

#define ANSWER_NS UINT64_C(1000000000) /* to a read or a write, as an application would have it */
#define AVOID_NS UINT64_C(1000000000)  /* a replica that failed a plain read */
#define KEY_SIZE 32

struct worker {
    struct weir_reads_work *work;
    struct weir_reads_op *ops; /* of ops_max */
    size_t count;
    enum weir_reads_mode mode;
    unsigned session; /* from 1 */
    uint64_t random;
    char token[WEIR_SESSION_TOKEN_MAX]; /* the cookie */
    size_t token_size;
    PGconn *conns[WEIR_READS_SERVERS_MAX]; /* plain: its own */
    uint64_t avoid_ns[WEIR_READS_SERVERS_MAX];
    char fault[WEIR_READS_TEXT_SIZE];
    pthread_t thread;
    bool running;
};

struct weir_reads_work {
    const struct weir_reads_table *table;
    const struct weir_reads_plan *plan;
    struct weir_replicas *replicas;
    struct weir_reads_op *ops;
    size_t ops_max; /* of one worker */
    uint64_t begin_ns, end_ns;
    _Atomic uint64_t done;
    atomic_bool stop;
    unsigned worker_count;
    struct worker workers[]; /* by mode, then by session */
};

/* ---- what is asked ---- */

static uint64_t random_next(struct worker *worker)
{
    uint64_t x = worker->random; /* xorshift64* */
    x ^= x >> 12;
    x ^= x << 25;
    x ^= x >> 27;
    worker->random = x;
    return x * UINT64_C(0x2545F4914F6CDD1D);
}

static unsigned random_below(struct worker *worker, unsigned bound)
{
    return (unsigned)((random_next(worker) >> 32) * bound >> 32);
}

static int value_ask(const struct worker *worker, PGconn *conn, const struct weir_reads_op *op, uint64_t *ret_version,
                     char ret_text[WEIR_READS_VALUE_SIZE])
{
    const char *table = worker->work->table->name;
    unsigned row = weir_reads_row(worker->work->plan, worker->mode, op->key);
    char statement[512];
    if (!op->write)
        (void)snprintf(statement, sizeof(statement), "SELECT value FROM %s WHERE key = %u", table, row);
    else if (worker->mode == WEIR_READS_LAMPORT)
        (void)snprintf(statement, sizeof(statement),
                       "WITH clock AS (UPDATE %s SET value = value + 1 WHERE key = 0) UPDATE %s SET value = value + 1 "
                       "WHERE key = %u RETURNING value",
                       table, table, row);
    else
        (void)snprintf(statement, sizeof(statement), "UPDATE %s SET value = value + 1 WHERE key = %u RETURNING value",
                       table, row);
    int error = weir_reads_ask(conn, statement, ANSWER_NS, ret_text);
    if (!error && ret_text[0] == '\0') {
        (void)snprintf(ret_text, WEIR_READS_VALUE_SIZE, "the row is gone");
        error = WEIR_EPROTO;
    }
    if (!error)
        *ret_version = strtoull(ret_text, NULL, 10);
    return error;
}

static void fault_keep(struct worker *worker, const char *server, const char *text)
{
    (void)snprintf(worker->fault, sizeof(worker->fault), "%.60s: %.160s", server, text);
}

/* ---- plainly ---- */

static PGconn *plain_conn(struct worker *worker, unsigned server)
{
    char text[WEIR_READS_VALUE_SIZE];
    if (!worker->conns[server] &&
        weir_reads_connect(worker->work->plan->conninfos[server], ANSWER_NS, &worker->conns[server], text) != 0) {
        fault_keep(worker, worker->work->plan->names[server], text);
        worker->conns[server] = NULL;
        worker->avoid_ns[server] = weir_ask_now_ns() + AVOID_NS;
    }
    return worker->conns[server];
}

/* Any replica that did not just fail; the primary, if all did. */
static unsigned plain_choose(struct worker *worker)
{
    unsigned replicas = worker->work->plan->server_count - 1, first = random_below(worker, replicas);
    uint64_t now_ns = weir_ask_now_ns();
    for (unsigned i = 0; i < replicas; i++) {
        unsigned server = 1 + (first + i) % replicas;
        if (worker->avoid_ns[server] <= now_ns)
            return server;
    }
    return 0;
}

static void plain_do(struct worker *worker, struct weir_reads_op *op)
{
    unsigned server = op->write ? 0 : plain_choose(worker);
    char text[WEIR_READS_VALUE_SIZE];
    PGconn *conn = plain_conn(worker, server);
    int error = conn ? value_ask(worker, conn, op, &op->version, text) : WEIR_EDOWN;
    op->server = (uint8_t)server;
    if (!error) {
        op->outcome = WEIR_READS_DONE;
    } else if (conn) {
        fault_keep(worker, worker->work->plan->names[server], text);
        PQfinish(conn);
        worker->conns[server] = NULL;
        worker->avoid_ns[server] = weir_ask_now_ns() + AVOID_NS;
    }
}

/* ---- by a strategy ---- */

static enum weir_session_strategy strategy_of(enum weir_reads_mode mode)
{
    switch (mode) {
    case WEIR_READS_STICKY:
        return WEIR_SESSION_STICKY;
    case WEIR_READS_WINDOW:
        return WEIR_SESSION_WINDOW;
    case WEIR_READS_PHYSICAL:
        return WEIR_SESSION_PHYSICAL;
    case WEIR_READS_LAMPORT:
        return WEIR_SESSION_LAMPORT;
    default:
        return WEIR_SESSION_TRACKED;
    }
}

static int session_open(struct worker *worker, struct weir_session **ret_session)
{
    const struct weir_reads_plan *plan = worker->work->plan;
    char id[32];
    (void)snprintf(id, sizeof(id), "session %u", worker->session);
    const struct weir_session_options options = { .id = id,
                                                  .id_size = strlen(id),
                                                  .strategy = strategy_of(worker->mode),
                                                  .behind = WEIR_BEHIND_LEADER,
                                                  .wait_ms = plan->wait_ms,
                                                  .window_ms = plan->window_ms };
    int error = weir_session_open(worker->work->replicas, &options, ret_session);
    if (!error && worker->token_size > 0)
        error = weir_session_join(*ret_session, worker->token, worker->token_size);
    return error;
}

static unsigned server_index(const struct weir_reads_plan *plan, const char *name)
{
    for (unsigned i = 0; i < plan->server_count; i++) {
        if (strcmp(plan->names[i], name) == 0)
            return i;
    }
    return 0;
}

/* The connection that the session is told to use. */
static int session_conn(struct worker *worker, struct weir_session *session, struct weir_reads_op *op,
                        PGconn **ret_conn)
{
    struct weir_read read;
    if (op->write)
        return weir_session_write(session, ret_conn); /* op->server stays 0: the plan's primary, or its successor */
    int error = weir_session_read(session, &read);
    if (error)
        return error;
    op->server = (uint8_t)server_index(worker->work->plan, read.server);
    op->waited_us = read.waited_ms > 0 ? (uint32_t)weir_min_u64((uint64_t)(read.waited_ms * 1000) + 1, UINT32_MAX) : 0;
    op->stale = read.stale;
    *ret_conn = read.conn;
    return 0;
}

/* What was read counts as seen only if its token came too: without it the answer would be an error. */
static void session_do(struct worker *worker, struct weir_reads_op *op)
{
    struct weir_session *session = NULL;
    struct weir_fault fault = { .text = "" };
    char text[WEIR_READS_VALUE_SIZE] = "", token[WEIR_SESSION_TOKEN_MAX];
    size_t token_size = 0;
    PGconn *conn = NULL;
    int error = session_open(worker, &session);
    if (!error)
        error = session_conn(worker, session, op, &conn);
    if (!error)
        error = value_ask(worker, conn, op, &op->version, text);
    if (error == WEIR_ECUTOFF && weir_session_accept(session) == 0 &&
        weir_session_token(session, token, &token_size) == 0)
        op->outcome = WEIR_READS_LOST;
    else if (!error && (error = weir_session_token(session, token, &token_size)) == 0)
        op->outcome = WEIR_READS_DONE;
    if (error && session)
        weir_session_fault(session, &fault);
    if (error)
        fault_keep(worker, fault.field[0] ? fault.field : weir_error_name(error),
                   text[0]         ? text
                   : fault.text[0] ? fault.text
                                   : weir_error_text(error));
    weir_session_close(session);
    if (token_size > 0 && op->outcome != WEIR_READS_FAILED) {
        memcpy(worker->token, token, token_size);
        worker->token_size = token_size;
    }
}

/* ---- the workload ---- */

static void op_do(struct worker *worker, bool write, unsigned key)
{
    struct weir_reads_work *work = worker->work;
    if (worker->count == work->ops_max)
        return;
    struct weir_reads_op *op = &worker->ops[worker->count];
    *op = (struct weir_reads_op){ .begin_ns = weir_ask_now_ns() - work->begin_ns,
                                  .key = key,
                                  .session = (uint16_t)worker->session,
                                  .outcome = WEIR_READS_FAILED,
                                  .write = write };
    if (worker->mode == WEIR_READS_PLAIN)
        plain_do(worker, op);
    else
        session_do(worker, op);
    op->end_ns = weir_ask_now_ns() - work->begin_ns;
    worker->count++;
    atomic_fetch_add_explicit(&work->done, 1, memory_order_relaxed);
}

/* A page of an application: what was written is shown at once; else one's own, or somebody else's. The numbers are
 * drawn in the same order whatever the servers do, so that each strategy has the same requests. */
static void request_do(struct worker *worker)
{
    unsigned sessions = worker->work->plan->sessions;
    bool write = random_below(worker, 100) < worker->work->plan->writes_percent;
    bool own = random_below(worker, 2) == 0;
    unsigned other = 1 + random_below(worker, sessions);
    if (write)
        op_do(worker, true, worker->session);
    op_do(worker, false, write || own ? worker->session : other);
}

static void sleep_until(const struct weir_reads_work *work, uint64_t at_ns)
{
    const struct timespec at = { .tv_sec = (time_t)(at_ns / 1000000000), .tv_nsec = (long)(at_ns % 1000000000) };
    if (!atomic_load_explicit(&work->stop, memory_order_relaxed))
        (void)clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL);
}

static void *work_run(void *context)
{
    struct worker *worker = context;
    struct weir_reads_work *work = worker->work;
    uint64_t period_ns = 1000000000 / work->plan->rate;
    uint64_t next_ns = work->begin_ns + period_ns * random_below(worker, 1024) / 1024;
    while (next_ns < work->end_ns) {
        sleep_until(work, next_ns);
        if (atomic_load_explicit(&work->stop, memory_order_relaxed))
            break;
        request_do(worker);
        /* Half a period to one and a half; what was missed while it waited is not made up for. */
        next_ns += period_ns / 2 + period_ns * random_below(worker, 1024) / 1024;
        next_ns = weir_max_u64(next_ns, weir_ask_now_ns());
    }
    for (unsigned i = 0; i < work->plan->server_count; i++)
        PQfinish(worker->conns[i]);
    return NULL;
}

/* ---- begin and end ---- */

static int replicas_open(struct weir_reads_work *work, char ret_text[WEIR_READS_TEXT_SIZE])
{
    const struct weir_reads_plan *plan = work->plan;
    struct weir_replicas_server servers[WEIR_READS_SERVERS_MAX];
    char clock_query[256];
    uint8_t secret[KEY_SIZE];
    struct weir_fault fault = { .text = "" };
    if (getrandom(secret, sizeof(secret), 0) != sizeof(secret))
        return WEIR_EIO;
    const struct weir_session_key key = { .id = 1, .key = secret, .key_size = sizeof(secret) };
    for (unsigned i = 0; i < plan->server_count; i++)
        servers[i] = (struct weir_replicas_server){ .name = plan->names[i], .conninfo = plan->conninfos[i] };
    (void)snprintf(clock_query, sizeof(clock_query), "SELECT value FROM %s WHERE key = 0", work->table->name);
    const struct weir_replicas_options options = { .servers = servers,
                                                   .server_count = plan->server_count,
                                                   .connections_max = work->worker_count,
                                                   .clock_query = plan->modes[WEIR_READS_LAMPORT] ? clock_query : NULL,
                                                   .keys = &key,
                                                   .key_count = 1 };
    int error = weir_replicas_open(&options, &work->replicas, &fault);
    if (error)
        (void)snprintf(ret_text, WEIR_READS_TEXT_SIZE, "%s %s", fault.field, fault.text);
    return error;
}

static void workers_set(struct weir_reads_work *work)
{
    const struct weir_reads_plan *plan = work->plan;
    unsigned count = 0;
    for (int mode = 0; mode < WEIR_READS_MODES; mode++) {
        for (unsigned session = 1; plan->modes[mode] && session <= plan->sessions; session++) {
            work->workers[count] = (struct worker){ .work = work,
                                                    .ops = work->ops + (size_t)count * work->ops_max,
                                                    .mode = (enum weir_reads_mode)mode,
                                                    .session = session,
                                                    .random = UINT64_C(0x9e3779b97f4a7c15) * session };
            count++;
        }
    }
}

int weir_reads_work_begin(const struct weir_reads_table *table, struct weir_reads_work **ret_work,
                          char ret_text[WEIR_READS_TEXT_SIZE])
{
    const struct weir_reads_plan *plan = table->plan;
    unsigned count = weir_reads_mode_count(plan) * plan->sessions;
    struct weir_reads_work *work = calloc(1, sizeof(*work) + count * sizeof(work->workers[0]));
    (void)snprintf(ret_text, WEIR_READS_TEXT_SIZE, "out of memory");
    if (!work)
        return WEIR_ENOMEM;
    work->table = table;
    work->plan = plan;
    work->worker_count = count;
    work->ops_max = (size_t)(plan->duration_ns * plan->rate / 1000000000) * 2 + 16;
    work->ops = calloc(count * work->ops_max, sizeof(work->ops[0]));
    int error = work->ops ? replicas_open(work, ret_text) : WEIR_ENOMEM;
    if (error) {
        weir_reads_work_destroy(work);
        return error;
    }
    workers_set(work);
    work->begin_ns = weir_ask_now_ns();
    work->end_ns = work->begin_ns + plan->duration_ns;
    for (unsigned i = 0; !error && i < count; i++) {
        error = pthread_create(&work->workers[i].thread, NULL, work_run, &work->workers[i]) == 0 ? 0 : WEIR_ENOMEM;
        work->workers[i].running = !error;
    }
    if (error) {
        weir_reads_work_end(work);
        weir_reads_work_destroy(work);
        return error;
    }
    *ret_work = work;
    return 0;
}

uint64_t weir_reads_work_done(const struct weir_reads_work *work)
{
    return atomic_load_explicit(&work->done, memory_order_relaxed);
}

void weir_reads_work_end(struct weir_reads_work *work)
{
    atomic_store(&work->stop, true);
    for (unsigned i = 0; i < work->worker_count; i++) {
        if (work->workers[i].running)
            (void)pthread_join(work->workers[i].thread, NULL);
        work->workers[i].running = false;
    }
    weir_replicas_close(work->replicas);
    work->replicas = NULL;
}

/* ---- after the end ---- */

static const struct worker *first_of(const struct weir_reads_work *work, enum weir_reads_mode mode)
{
    unsigned i = 0;
    while (work->workers[i].mode != mode)
        i++;
    return &work->workers[i];
}

/* Each worker had room of its own: what they did is moved together. */
struct weir_reads_ops weir_reads_work_ops(const struct weir_reads_work *work, enum weir_reads_mode mode)
{
    const struct worker *first = first_of(work, mode);
    struct weir_reads_ops ops = { .ops = first->ops, .count = first->count };
    for (unsigned i = 1; i < work->plan->sessions; i++) {
        memmove(ops.ops + ops.count, first[i].ops, first[i].count * sizeof(ops.ops[0]));
        ops.count += first[i].count;
    }
    return ops;
}

const char *weir_reads_work_fault(const struct weir_reads_work *work, enum weir_reads_mode mode)
{
    const struct worker *first = first_of(work, mode);
    for (unsigned i = 0; i < work->plan->sessions; i++) {
        if (first[i].fault[0])
            return first[i].fault;
    }
    return "";
}

void weir_reads_work_destroy(struct weir_reads_work *work)
{
    if (!work)
        return;
    weir_replicas_close(work->replicas);
    free(work->ops);
    free(work);
}
