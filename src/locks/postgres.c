/* SPDX-License-Identifier: Apache-2.0
 *
 * The postgres lock engine: one row per lock, decided by the server's clock in single statements, one transaction per
 * batch. docs/locks-postgres.md says what is promised after which fault. */
#include <libpq-fe.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/checked.h"
#include "base/fault.h"
#include "base/timing.h"
#include "locks/open.h"
#include "locks/postgres_inside.h"

#define POLL_NS UINT64_C(200000000)
#define OPEN_NS UINT64_C(2000000000)   /* to find the server when weir starts; without it weir starts too */
#define REST_MIN_NS UINT64_C(50000000) /* after a failed connection, doubled */
#define REST_MAX_NS UINT64_C(500000000)
#define RAISE_REST_NS UINT64_C(200000000) /* after a raise that failed: what is held has the server for itself */

static bool connected(struct weir_postgres *postgres, uint64_t deadline_ns)
{
    uint64_t now_ns = weir_timing_now(CLOCK_MONOTONIC);
    if (weir_pg_link_alive(&postgres->link))
        return true;
    weir_pg_show_up(postgres, false, false);
    if (now_ns < postgres->rest_until_ns)
        return false;
    postgres->link.fault[0] = '\0';
    if (weir_pg_link_connect(&postgres->link, deadline_ns) && weir_pg_settle(postgres, deadline_ns)) {
        postgres->rest_ns = 0;
        return true;
    }
    weir_pg_link_drop(&postgres->link);
    if (postgres->link.fault[0])
        weir_pg_show_fault(postgres, postgres->link.fault);
    postgres->rest_ns = weir_min_u64(weir_max_u64(2 * postgres->rest_ns, REST_MIN_NS), REST_MAX_NS);
    postgres->rest_until_ns = weir_timing_now(CLOCK_MONOTONIC) + postgres->rest_ns;
    return false;
}

/* The raise that the store itself needs, if it is due. Without it all but new tokens goes on. */
static void raise_needed(struct weir_postgres *postgres, uint64_t deadline_ns)
{
    if (postgres->raised || weir_pace_waits(&postgres->pace) ||
        weir_timing_now(CLOCK_MONOTONIC) < postgres->raise_after_ns)
        return;
    if (!weir_pg_raise(postgres, 0, &postgres->before, deadline_ns) && postgres->pace.due_ns == 0)
        postgres->raise_after_ns = weir_timing_now(CLOCK_MONOTONIC) + RAISE_REST_NS;
}

/* It needs a raise that cannot be made, and for another reason than the clock. */
static bool is_stuck(const struct weir_postgres *postgres)
{
    return !postgres->raised && postgres->pace.due_ns == 0;
}

/* The ground is gone: another node raised the incarnation, which is taken over, and that is all; or the backend or the
 * table is another one (a pooler, a restored dump), which only a new connection can judge. */
static bool regain(struct weir_postgres *postgres, uint64_t deadline_ns)
{
    struct weir_pg_identity now;
    postgres->link.fault[0] = '\0';
    if (!weir_pg_identify_now(postgres, &now, deadline_ns)) {
        weir_pg_show_fault(postgres, postgres->link.fault);
        return false;
    }
    bool same = now.ground.backend == postgres->ground.backend && now.ground.file == postgres->ground.file &&
                now.ground.incarnation > postgres->ground.incarnation;
    if (!same) {
        weir_pg_show_fault(postgres, "the table or the session was replaced under the connection");
        weir_pg_link_drop(&postgres->link);
        return true;
    }
    if (!postgres->raised)
        postgres->ground = now.ground;
    else if (!weir_pg_adopt_incarnation(postgres, &now))
        weir_pg_need_raise(postgres, &now);
    return true;
}

/* ---- a batch ---- */

/* By name, and in their own order for one name: two nodes lock rows in the same order, so that neither waits for the
 * other in a circle, and every op sees those before it. */
static int by_name(const void *left, const void *right)
{
    const struct weir_lock_op *a = *(struct weir_lock_op *const *)left, *b = *(struct weir_lock_op *const *)right;
    int order = memcmp(a->name.data, b->name.data, a->name.size < b->name.size ? a->name.size : b->name.size);
    if (order != 0)
        return order;
    if (a->name.size != b->name.size)
        return a->name.size < b->name.size ? -1 : 1;
    return (a > b) - (a < b);
}

static bool asks_raise(const struct weir_postgres *postgres, const struct weir_lock_op *op)
{
    return op->status != WEIR_ERANGE &&
           (op->verb == WEIR_LOCK_RAISE || (op->verb == WEIR_LOCK_ACQUIRE && op->seen > postgres->ground.incarnation));
}

static size_t sort(struct weir_postgres *postgres, struct weir_lock_op *ops, size_t count)
{
    size_t sorted = 0;
    for (size_t i = 0; i < count; i++) {
        if (ops[i].status == WEIR_ERANGE || asks_raise(postgres, &ops[i]))
            continue;
        ops[i].status = 0; /* it is in the batch */
        postgres->order[sorted++] = &ops[i];
    }
    qsort(postgres->order, sorted, sizeof(*postgres->order), by_name);
    return sorted;
}

static bool take_answer(void *context, size_t index, const PGresult *result)
{
    struct weir_postgres *postgres = context;
    if (index < WEIR_PG_BATCH_BEFORE)
        return PQntuples(result) == 1;
    struct weir_lock_op *op = postgres->order[index - WEIR_PG_BATCH_BEFORE];
    return weir_pg_answer_read(result, op) &&
           (op->verb != WEIR_LOCK_ACQUIRE || op->said != WEIR_LOCK_FREE || !postgres->raised);
}

/* One attempt. A third of the time is kept for hearing that the server gave up. */
static enum weir_pg_outcome attempt(struct weir_postgres *postgres, size_t count, uint64_t deadline_ns)
{
    bool durable = false;
    for (size_t i = 0; i < count; i++)
        durable = durable || postgres->order[i]->verb == WEIR_LOCK_ACQUIRE ||
                  postgres->order[i]->verb == WEIR_LOCK_RENEW;
    /* Who asks again because a release was not answered: that may be done after its lock was told to be its own. */
    enum weir_pg_tokens tokens = postgres->raised ? WEIR_PG_TOKENS_NEW
                                 : postgres->late ? WEIR_PG_TOKENS_NONE
                                                  : WEIR_PG_TOKENS_KEPT;
    uint64_t left_ms = weir_sub_sat(deadline_ns, weir_timing_now(CLOCK_MONOTONIC)) / 1000000;
    weir_pg_text_clear(&postgres->text);
    weir_pg_batch_write(&postgres->text, &postgres->ground, postgres->order, count, durable,
                        weir_max_u64(left_ms * 2 / 3, 1), tokens);
    if (postgres->text.failed)
        return WEIR_PG_UNSENT;
    return weir_pg_link_run(&postgres->link, postgres->text.data, deadline_ns, take_answer, postgres);
}

/* 0, WEIR_EDOWN or WEIR_EUNKNOWN, for all of them alike: they are one transaction. */
static int decide(struct weir_postgres *postgres, size_t count, uint64_t deadline_ns)
{
    for (int i = 0; i < WEIR_PG_TRIES_MAX && connected(postgres, deadline_ns); i++) {
        raise_needed(postgres, deadline_ns);
        if (!postgres->link.conn)
            continue;
        enum weir_pg_outcome outcome = attempt(postgres, count, deadline_ns);
        if (outcome == WEIR_PG_DONE) {
            if (!is_stuck(postgres))
                weir_pg_show_done(postgres);
            return 0;
        }
        const char *state = postgres->link.state;
        bool ground_gone = outcome == WEIR_PG_REFUSED && strcmp(state, WEIR_PG_GROUND_GONE) == 0;
        if (!ground_gone) /* another node began: the way of things, and "division by zero" tells nobody that */
            weir_pg_show_fault(postgres, postgres->link.fault);
        postgres->late |= outcome == WEIR_PG_UNKNOWN;
        if (outcome == WEIR_PG_UNKNOWN)
            return WEIR_EUNKNOWN;
        if (outcome == WEIR_PG_UNSENT)
            return WEIR_EDOWN;
        if (ground_gone) {
            if (!regain(postgres, deadline_ns))
                return WEIR_EDOWN;
        } else if (strcmp(state, "40P01") != 0 && strcmp(state, "40001") != 0) {
            /* A statement that timed out will do so no more or again; all else (read only, a table that is gone, no
             * rights) is looked at anew by a new connection. */
            if (strcmp(state, "57014") != 0)
                weir_pg_link_drop(&postgres->link);
            return WEIR_EDOWN;
        }
    }
    return WEIR_EDOWN;
}

/* ---- raising by request ---- */

/* Once for all that ask: to above the highest of them. While it is not due they are put off, and the others go on under
 * the incarnation that is. False: it failed. */
static bool raise_asked(struct weir_postgres *postgres, struct weir_lock_op *ops, size_t count, uint64_t deadline_ns)
{
    bool asked = false;
    uint64_t seen = 0, before = UINT64_MAX; /* whoever asks is not served by what others raised earlier */
    for (size_t i = 0; i < count; i++) {
        if (!asks_raise(postgres, &ops[i]))
            continue;
        asked = true;
        seen = weir_max_u64(seen, ops[i].seen);
    }
    if (!asked || (!weir_pace_waits(&postgres->pace) && weir_pg_raise(postgres, seen, &before, deadline_ns)))
        return true;
    for (size_t i = 0; i < count; i++)
        ops[i].due_ns = asks_raise(postgres, &ops[i]) ? postgres->pace.due_ns : 0;
    return postgres->pace.due_ns > 0;
}

static void begin(const struct weir_postgres *postgres, struct weir_lock_op *ops, size_t count)
{
    uint64_t known = weir_max_u64(postgres->witness.incarnation, postgres->ground.incarnation);
    for (size_t i = 0; i < count; i++) {
        bool sees = ops[i].verb == WEIR_LOCK_ACQUIRE || ops[i].verb == WEIR_LOCK_RAISE;
        ops[i].due_ns = 0;
        ops[i].status = sees && !weir_incarnation_leaves_room(known, ops[i].seen) ? WEIR_ERANGE : WEIR_EDOWN;
    }
}

static void end(struct weir_postgres *postgres, struct weir_lock_op *ops, size_t count, int status, bool raised)
{
    for (size_t i = 0; i < count; i++) {
        bool done = ops[i].status == 0;
        if (done)
            ops[i].status = status;
        if (done && status == 0 && ops[i].verb == WEIR_LOCK_ACQUIRE && ops[i].said == WEIR_LOCK_FREE) {
            ops[i].status = WEIR_EDOWN; /* it would be given a new token */
            ops[i].due_ns = postgres->pace.due_ns;
        }
        if (ops[i].verb != WEIR_LOCK_RAISE || ops[i].status == WEIR_ERANGE || ops[i].due_ns > 0)
            continue;
        ops[i].status = raised ? 0 : WEIR_EUNKNOWN; /* before the batch, whatever became of that */
        ops[i].said = WEIR_LOCK_GRANTED;
        ops[i].token = (struct weir_token){ postgres->ground.incarnation, 0 };
        ops[i].lease_ns = 0;
        ops[i].holder_size = 0;
    }
}

static void apply(struct weir_lock_engine *engine, struct weir_lock_op *ops, size_t count, uint64_t deadline_ns)
{
    struct weir_postgres *postgres = (struct weir_postgres *)engine;
    weir_assert(count <= WEIR_LOCK_BATCH_MAX);
    begin(postgres, ops, count);
    int status = WEIR_EDOWN;
    size_t sorted = 0;
    if (connected(postgres, deadline_ns)) {
        bool raised = raise_asked(postgres, ops, count, deadline_ns);
        sorted = sort(postgres, ops, count);
        status = sorted > 0 ? decide(postgres, sorted, deadline_ns) : raised ? 0 : WEIR_EDOWN;
        end(postgres, ops, count, status, raised);
    }
    pthread_mutex_lock(&postgres->mutex);
    /* A raise that was asked for and failed is its caller's alone: the others may be well. */
    postgres->shown.up = postgres->link.conn != NULL && !is_stuck(postgres) && (status == 0 || sorted == 0);
    postgres->shown.batches += status == 0;
    postgres->shown.failures += status != 0 || is_stuck(postgres);
    pthread_mutex_unlock(&postgres->mutex);
}

static void state(struct weir_lock_engine *engine, struct weir_lock_engine_state *ret_state)
{
    struct weir_postgres *postgres = (struct weir_postgres *)engine;
    pthread_mutex_lock(&postgres->mutex);
    *ret_state = postgres->shown;
    pthread_mutex_unlock(&postgres->mutex);
}

static void destroy(struct weir_lock_engine *engine)
{
    struct weir_postgres *postgres = (struct weir_postgres *)engine;
    if (!postgres)
        return;
    weir_pg_link_deinit(&postgres->link);
    pthread_mutex_destroy(&postgres->mutex);
    free(postgres->text.data);
    free(postgres->table);
    free(postgres->witness_path);
    free(postgres);
}

static const struct weir_lock_engine_ops postgres_ops = {
    .apply = apply, .state = state, .destroy = destroy, .poll_ns = POLL_NS
};

/* ---- opening ---- */

static int fill(struct weir_postgres *postgres, const struct weir_lock_postgres_options *options, const char *table,
                struct weir_fault *ret_fault)
{
    postgres->table = strdup(table);
    postgres->witness_path = strdup(options->witness);
    if (!postgres->table || !postgres->witness_path)
        return WEIR_ENOMEM;
    int error = weir_witness_load(options->witness, &postgres->witness);
    postgres->witnessed = error == 0;
    if (error != 0 && error != WEIR_ENOENT)
        return weir_fault_set(ret_fault, error, "witness", "cannot be read, or is no witness file");
    error = weir_pg_link_init(&postgres->link, options->conninfo);
    if (error == WEIR_EINVAL)
        return weir_fault_set(ret_fault, error, "conninfo", "must be as libpq takes it: \"host=… dbname=…\" or a URI");
    return error;
}

int weir_lock_postgres_open(const struct weir_lock_postgres_options *options, struct weir_lock_engine **ret_engine,
                            struct weir_fault *ret_fault)
{
    const char *table = options->table ? options->table : "weir_locks";
    if (!options->conninfo)
        return weir_fault_set(ret_fault, WEIR_EINVAL, "conninfo", "is required");
    if (!options->witness)
        return weir_fault_set(ret_fault, WEIR_EINVAL, "witness", "is required: a file outside the database");
    if (!weir_pg_table_valid(table))
        return weir_fault_set(ret_fault, WEIR_EINVAL, "table",
                              "must be NAME or SCHEMA.NAME of a-z, 0-9 and _, each at most 50 bytes");
    struct weir_postgres *postgres = calloc(1, sizeof(*postgres));
    if (!postgres)
        return WEIR_ENOMEM;
    postgres->engine.ops = &postgres_ops;
    postgres->shown.name = "postgres";
    pthread_mutex_init(&postgres->mutex, NULL);
    int error = fill(postgres, options, table, ret_fault);
    if (error) {
        destroy(&postgres->engine);
        return error;
    }
    const uint64_t deadline_ns = weir_timing_now(CLOCK_MONOTONIC) + OPEN_NS;
    if (connected(postgres, deadline_ns))
        raise_needed(postgres, deadline_ns);
    *ret_engine = &postgres->engine;
    return 0;
}
