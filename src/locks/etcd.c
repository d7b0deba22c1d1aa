/* SPDX-License-Identifier: Apache-2.0
 *
 * The etcd engine: batches, the incarnation, the witness. Never etcd's own v3lock service, whose answer says nothing of
 * the lease that it hangs on (docs/locks-etcd.md). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/fault.h"
#include "locks/etcd_inside.h"
#include "locks/witness.h"

#define PASSES_MAX 3 /* of a batch, when the store changed under it */
#define RAISE_TRIES_MAX 5
#define POLL_NS UINT64_C(100000000)

static struct weir_etcd *etcd_of(struct weir_lock_engine *engine)
{
    return (struct weir_etcd *)engine; /* its first member */
}

/* ---- what is known of the store ---- */

static uint64_t unsigned_of(const json_t *object, const char *name)
{
    const char *text = json_string_value(json_object_get(object, name));
    return text ? strtoull(text, NULL, 10) : (uint64_t)weir_etcd_integer(object, name);
}

static struct weir_witness seen_in(const struct weir_etcd *etcd, const json_t *answer)
{
    const json_t *header = json_object_get(answer, "header");
    return (struct weir_witness){ .system = unsigned_of(header, "cluster_id"),
                                  .position = (uint64_t)weir_etcd_integer(header, "revision"),
                                  .incarnation = etcd->witness.incarnation };
}

void weir_etcd_see(struct weir_etcd *etcd, const json_t *answer)
{
    struct weir_witness now = seen_in(etcd, answer);
    /* Against what was known before this batch: answers of one batch may come in another order than they were made. */
    if (weir_witness_differs(&etcd->witness, &now)) {
        etcd->raise = etcd->went_back = true;
        etcd->before = UINT64_MAX; /* what others raised before that counts no more */
    }
    etcd->position = weir_max_u64(etcd->position, now.position);
}

static void fail(struct weir_etcd *etcd, const char *what)
{
    pthread_mutex_lock(&etcd->mutex);
    snprintf(etcd->shown.fault, sizeof etcd->shown.fault, "%s", what);
    pthread_mutex_unlock(&etcd->mutex);
}

/* ---- the incarnation ---- */

/* One call while no other is under way. NULL: it failed. */
static json_t *ask(struct weir_etcd *etcd, json_t *body)
{
    struct weir_etcd_call call = { 0 };
    weir_etcd_http_start(etcd->http, &call, "/v3/kv/txn", body, etcd->deadline_ns);
    while (call.busy)
        weir_etcd_http_next(etcd->http);
    if (call.status != 0)
        fail(etcd, weir_etcd_http_fault(etcd->http));
    return call.status == 0 ? call.answer : NULL;
}

static json_t *put_incarnation(const struct weir_etcd *etcd, const json_t *found, uint64_t incarnation)
{
    json_t *compare = weir_etcd_compare(weir_etcd_incarnation_key(etcd), "MOD", "mod_revision",
                                        json_sprintf("%lld", (long long)weir_etcd_integer(found, "mod_revision")));
    return json_pack("{s:[o],s:[{s:{s:o,s:o}}]}", "compare", compare, "success", "request_put", "key",
                     weir_etcd_incarnation_key(etcd), "value", weir_etcd_number(incarnation));
}

uint64_t weir_etcd_stored(const json_t *found)
{
    char text[24] = { 0 };
    size_t size = found ? weir_etcd_bytes_get(json_object_get(found, "value"), text, sizeof text - 1) : SIZE_MAX;
    return size == SIZE_MAX ? 0 : strtoull(text, NULL, 10);
}

/* False: nothing may be granted without it. */
static bool witness_save(struct weir_etcd *etcd, struct weir_witness now, uint64_t incarnation)
{
    now.incarnation = incarnation;
    if (weir_witness_save(etcd->witness_path, &now) != 0) {
        fail(etcd, "the witness file cannot be written: nothing is granted without it");
        return false;
    }
    etcd->witness = now;
    etcd->position = now.position;
    etcd->before = UINT64_MAX;
    etcd->pace.due_ns = 0;
    return true;
}

enum raising { RAISING_DONE, RAISING_AGAIN, RAISING_FAILED };

/* Writes what is above the incarnation that was read, if nobody else did meanwhile. */
static enum raising write_raised(struct weir_etcd *etcd, const json_t *found, uint64_t raised)
{
    json_t *written = ask(etcd, put_incarnation(etcd, found, raised));
    if (!written)
        return RAISING_FAILED;
    bool done = json_is_true(json_object_get(written, "succeeded"));
    struct weir_witness now = seen_in(etcd, written);
    json_decref(written);
    if (!done)
        return RAISING_AGAIN;
    if (!witness_save(etcd, now, raised))
        return RAISING_FAILED;
    pthread_mutex_lock(&etcd->mutex);
    etcd->shown.raised++;
    pthread_mutex_unlock(&etcd->mutex);
    return RAISING_DONE;
}

/* A raise waits: from here on the store is not to go back behind what it has now. */
static void wait_on(struct weir_etcd *etcd, struct weir_witness now)
{
    etcd->witness.system = now.system;
    etcd->witness.position = etcd->position = now.position;
}

/* `before` is the lowest incarnation that was read so far: one that another node raised since then serves us, too. */
static enum raising try_raise(struct weir_etcd *etcd, uint64_t floor, uint64_t *before)
{
    enum raising done = RAISING_FAILED;
    json_t *read = ask(etcd, json_pack("{s:[o]}", "success", weir_etcd_range(weir_etcd_incarnation_key(etcd))));
    if (!read)
        return RAISING_FAILED;
    weir_etcd_see(etcd, read);
    const json_t *found = weir_etcd_found(read, 0);
    uint64_t stored = weir_etcd_stored(found), clock_s = weir_pace_clock_s();
    uint64_t raised = weir_incarnation_raise(stored, clock_s, floor);
    if (raised == 0) {
        fail(etcd, stored < WEIR_INCARNATION_MAX ? "the incarnations are used up"
                                                 : "the store has an incarnation that no weir wrote: correct it");
    } else if (stored > *before && stored > floor) {
        done = witness_save(etcd, seen_in(etcd, read), stored) ? RAISING_DONE : RAISING_FAILED;
    } else if (weir_pace_may(&etcd->pace, raised, clock_s)) {
        done = write_raised(etcd, found, raised);
    } else if (etcd->raise) {
        wait_on(etcd, seen_in(etcd, read));
    }
    *before = weir_min_u64(*before, stored);
    json_decref(read);
    return done;
}

/* It never waits for the clock: `pace` says when it is due, 0 after a failure. */
static bool raise_incarnation(struct weir_etcd *etcd, uint64_t seen, uint64_t *before)
{
    enum raising done = RAISING_AGAIN;
    const uint64_t floor = weir_max_u64(seen, etcd->witness.incarnation), due_ns = etcd->pace.due_ns;
    for (int i = 0; i < RAISE_TRIES_MAX && done == RAISING_AGAIN; i++)
        done = try_raise(etcd, floor, before);
    if (done != RAISING_DONE && etcd->pace.due_ns == due_ns) /* it came not so far as to ask the clock */
        etcd->pace.due_ns = 0;
    if (done != RAISING_DONE)
        return false;
    etcd->raise = etcd->went_back = false;
    return true;
}

/* ---- a batch ---- */

/* Ops on one name go one after the other, in their order. */
static void chain(struct weir_etcd_op *ops, size_t count)
{
    for (size_t i = 0; i < count; i++)
        ops[i].waits = false, ops[i].after = NULL;
    for (size_t i = 0; i < count; i++) {
        for (size_t j = i + 1; j < count && ops[i].step != WEIR_ETCD_DONE; j++) {
            if (ops[j].step != WEIR_ETCD_DONE && weir_lock_slice_same(ops[i].op->name, ops[j].op->name)) {
                ops[i].after = &ops[j];
                ops[j].waits = true;
                break;
            }
        }
    }
}

/* Those behind one that is done. */
static void go_on(struct weir_etcd *etcd, struct weir_etcd_op *op)
{
    while (op->step == WEIR_ETCD_DONE && op->after) {
        op = op->after;
        weir_etcd_op_begin(etcd, op);
    }
}

static void run(struct weir_etcd *etcd, size_t count)
{
    chain(etcd->ops, count);
    for (size_t i = 0; i < count; i++) {
        if (etcd->ops[i].step != WEIR_ETCD_DONE && !etcd->ops[i].waits) {
            weir_etcd_op_begin(etcd, &etcd->ops[i]);
            go_on(etcd, &etcd->ops[i]);
        }
    }
    for (struct weir_etcd_call *call; (call = weir_etcd_http_next(etcd->http));) {
        struct weir_etcd_op *op = call->context;
        weir_etcd_op_heard(etcd, op);
        go_on(etcd, op);
    }
}

static bool asks_raise(const struct weir_etcd *etcd, const struct weir_lock_op *op)
{
    return op->verb == WEIR_LOCK_RAISE || (op->verb == WEIR_LOCK_ACQUIRE && op->seen > etcd->witness.incarnation);
}

/* Those who ask for a raise, once for all: to above the highest of them. They are not served by what others raised
 * earlier. While it is not due, or where it failed, the others go on under the incarnation that is. */
static void raise_asked(struct weir_etcd *etcd, size_t count, uint64_t seen)
{
    uint64_t before = UINT64_MAX;
    bool raised = !weir_pace_waits(&etcd->pace) && raise_incarnation(etcd, seen, &before);
    for (size_t i = 0; i < count; i++) {
        struct weir_lock_op *op = etcd->ops[i].op;
        if (etcd->ops[i].step == WEIR_ETCD_DONE || (raised ? op->verb != WEIR_LOCK_RAISE : !asks_raise(etcd, op)))
            continue;
        etcd->ops[i].step = WEIR_ETCD_DONE;
        op->due_ns = raised ? 0 : etcd->pace.due_ns;
        op->status = raised ? 0 : WEIR_EDOWN;
        op->said = WEIR_LOCK_GRANTED;
        op->token.incarnation = etcd->witness.incarnation;
    }
}

/* Whatever raises is done before whatever is granted. A raise that the store itself needs and that is not due, or
 * fails, holds up new tokens alone (etcd_op.c). */
static void raise_for(struct weir_etcd *etcd, size_t count)
{
    uint64_t seen = 0;
    bool asked = false;
    for (size_t i = 0; i < count; i++) {
        struct weir_lock_op *op = etcd->ops[i].op;
        if (etcd->ops[i].step == WEIR_ETCD_DONE)
            continue;
        if ((op->verb == WEIR_LOCK_ACQUIRE || op->verb == WEIR_LOCK_RAISE) &&
            !weir_incarnation_leaves_room(etcd->witness.incarnation, op->seen)) {
            op->status = WEIR_ERANGE;
            etcd->ops[i].step = WEIR_ETCD_DONE;
        } else if (asks_raise(etcd, op)) {
            asked = true;
            seen = weir_max_u64(seen, op->seen);
        }
    }
    if (asked)
        raise_asked(etcd, count, seen);
    if (etcd->raise && !weir_pace_waits(&etcd->pace))
        (void)raise_incarnation(etcd, 0, &etcd->before);
}

/* It needs a raise that cannot be made, and for another reason than the clock. */
static bool is_stuck(const struct weir_etcd *etcd)
{
    return etcd->raise && etcd->pace.due_ns == 0;
}

/* Of what was put off alone nobody asked the store. */
static void account(struct weir_etcd *etcd, size_t count)
{
    bool failed = is_stuck(etcd), asked = false;
    for (size_t i = 0; i < count; i++) {
        const struct weir_lock_op *op = etcd->ops[i].op;
        asked |= op->due_ns == 0;
        failed |= op->due_ns == 0 && (op->status == WEIR_EDOWN || op->status == WEIR_EUNKNOWN);
    }
    if (!asked)
        return;
    pthread_mutex_lock(&etcd->mutex);
    etcd->shown.batches += !failed;
    etcd->shown.failures += failed;
    etcd->shown.up = !failed;
    etcd->shown.incarnation = etcd->witness.incarnation;
    if (!failed)
        etcd->shown.fault[0] = '\0';
    else if (weir_etcd_http_fault(etcd->http)[0] != '\0')
        snprintf(etcd->shown.fault, sizeof etcd->shown.fault, "%s", weir_etcd_http_fault(etcd->http));
    pthread_mutex_unlock(&etcd->mutex);
}

static void apply(struct weir_lock_engine *engine, struct weir_lock_op *ops, size_t count, uint64_t deadline_ns)
{
    struct weir_etcd *etcd = etcd_of(engine);
    weir_assert(count <= WEIR_LOCK_BATCH_MAX);
    etcd->deadline_ns = deadline_ns;
    for (size_t i = 0; i < count; i++) {
        ops[i].status = WEIR_EDOWN;
        ops[i].due_ns = 0;
        ops[i].holder_size = 0;
        etcd->ops[i] = (struct weir_etcd_op){ .op = &ops[i], .step = WEIR_ETCD_LOOK };
    }
    for (int pass = 0; pass < PASSES_MAX; pass++) {
        size_t left = 0;
        raise_for(etcd, count);
        run(etcd, count);
        for (size_t i = 0; i < count; i++) {
            bool again = etcd->ops[i].again && ops[i].status == WEIR_EDOWN;
            etcd->ops[i].step = again ? WEIR_ETCD_LOOK : WEIR_ETCD_DONE;
            left += again;
        }
        etcd->witness.position = weir_max_u64(etcd->witness.position, etcd->position);
        if (left == 0)
            break;
    }
    account(etcd, count);
}

static void state(struct weir_lock_engine *engine, struct weir_lock_engine_state *ret_state)
{
    struct weir_etcd *etcd = etcd_of(engine);
    pthread_mutex_lock(&etcd->mutex);
    *ret_state = etcd->shown;
    pthread_mutex_unlock(&etcd->mutex);
}

static void destroy(struct weir_lock_engine *engine)
{
    struct weir_etcd *etcd = etcd_of(engine);
    weir_etcd_http_destroy(etcd->http);
    pthread_mutex_destroy(&etcd->mutex);
    free(etcd->witness_path);
    free(etcd);
}

static const struct weir_lock_engine_ops etcd_ops = {
    .apply = apply, .state = state, .destroy = destroy, .poll_ns = POLL_NS
};

static int set_up(struct weir_etcd *etcd, const struct weir_lock_etcd_options *options, struct weir_fault *ret_fault)
{
    const char *prefix = options->prefix ? options->prefix : "weir/locks/";
    if (strlen(prefix) > WEIR_ETCD_PREFIX_MAX)
        return weir_fault_set(ret_fault, WEIR_ERANGE, "prefix", "must be at most 128 bytes");
    if (!options->witness)
        return weir_fault_set(ret_fault, WEIR_EINVAL, "witness", "is required: a file outside the store");
    memcpy(etcd->prefix, prefix, strlen(prefix) + 1);
    etcd->witness_path = strdup(options->witness);
    if (!etcd->witness_path)
        return WEIR_ENOMEM;
    int error = weir_witness_load(options->witness, &etcd->witness);
    if (error != 0 && error != WEIR_ENOENT)
        return weir_fault_set(ret_fault, error, "witness", "cannot be read, or is not a witness of ours");
    return weir_etcd_http_create(options, &etcd->http, ret_fault);
}

int weir_lock_etcd_open(const struct weir_lock_etcd_options *options, struct weir_lock_engine **ret_engine,
                        struct weir_fault *ret_fault)
{
    struct weir_etcd *etcd = calloc(1, sizeof *etcd);
    if (!etcd)
        return WEIR_ENOMEM;
    etcd->engine.ops = &etcd_ops;
    etcd->shown.name = "etcd";
    etcd->raise = true;
    etcd->before = UINT64_MAX;
    pthread_mutex_init(&etcd->mutex, NULL);
    int error = set_up(etcd, options, ret_fault);
    if (error != 0) {
        destroy(&etcd->engine);
        return error;
    }
    *ret_engine = &etcd->engine;
    return 0;
}
