/* SPDX-License-Identifier: Apache-2.0
 *
 * One op of the etcd engine as a sequence of calls. Each step is begun by ask_…, and its answer leads to the next.
 *
 * A lock is a key under a lease: PREFIX "lock/" NAME = "INCARNATION:OWNER". Its number is the revision that created it,
 * which no other key shares and which no later key of the name is below. It goes when its lease ends.
 *
 * What was not answered: a call that only reads, makes or keeps a lease, changes no lock, so the op is certainly not
 * done; a transaction or a revocation may have been. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "locks/etcd_inside.h"

static void ask(struct weir_etcd *etcd, struct weir_etcd_op *op, enum weir_etcd_step step, const char *path,
                json_t *body)
{
    op->step = step;
    op->call.context = op;
    weir_etcd_http_start(etcd->http, &op->call, path, body, etcd->deadline_ns);
    if (!op->call.busy) /* nothing was sent */
        weir_etcd_op_heard(etcd, op);
}

static void end(struct weir_etcd_op *op, int status)
{
    op->op->status = status;
    op->step = WEIR_ETCD_DONE;
}

static void say(struct weir_etcd_op *op, enum weir_lock_said said, uint64_t lease_ns)
{
    op->op->said = said;
    op->op->token = op->token;
    op->op->lease_ns = lease_ns;
    end(op, 0);
}

/* ---- asking ---- */

static void ask_look(struct weir_etcd *etcd, struct weir_etcd_op *op, enum weir_etcd_step step)
{
    ask(etcd, op, step, "/v3/kv/txn",
        json_pack("{s:[o,o]}", "success", weir_etcd_range(weir_etcd_lock_key(etcd, op->op->name)),
                  weir_etcd_range(weir_etcd_incarnation_key(etcd))));
}

/* Whole seconds, rounded up: what etcd knows. It may give more than was asked for. */
static void ask_lease(struct weir_etcd *etcd, struct weir_etcd_op *op)
{
    int64_t ttl_s = (int64_t)weir_div_ceil(op->op->ttl_ns, WEIR_NS_PER_SECOND);
    ask(etcd, op, WEIR_ETCD_LEASE, "/v3/lease/grant", json_pack("{s:I}", "TTL", (json_int_t)ttl_s));
}

static void ask_by_lease(struct weir_etcd *etcd, struct weir_etcd_op *op, enum weir_etcd_step step, const char *path,
                         int64_t lease)
{
    ask(etcd, op, step, path, json_pack("{s:I}", "ID", (json_int_t)lease));
}

static json_t *put(const struct weir_etcd *etcd, const struct weir_etcd_op *op, const char *value, size_t size)
{
    return json_pack("{s:{s:o,s:o,s:I}}", "request_put", "key", weir_etcd_lock_key(etcd, op->op->name), "value",
                     weir_etcd_bytes(value, size), "lease", (json_int_t)op->new_lease);
}

/* Only if nobody has it, and the incarnation is the one that the token will carry. */
static void ask_put(struct weir_etcd *etcd, struct weir_etcd_op *op)
{
    char value[WEIR_ETCD_VALUE_MAX];
    op->token.incarnation = etcd->witness.incarnation; /* another op's answer may move it before ours comes */
    int head = snprintf(value, sizeof value, "%llu:", (unsigned long long)op->token.incarnation);
    memcpy(value + head, op->op->owner.data, op->op->owner.size);
    ask(etcd, op, WEIR_ETCD_PUT, "/v3/kv/txn",
        json_pack(
            "{s:[o,o],s:[o]}", "compare",
            weir_etcd_compare(weir_etcd_lock_key(etcd, op->op->name), "CREATE", "create_revision", json_string("0")),
            weir_etcd_compare(weir_etcd_incarnation_key(etcd), "VALUE", "value",
                              weir_etcd_number(op->token.incarnation)),
            "success", put(etcd, op, value, (size_t)head + op->op->owner.size)));
}

/* The same value under the new lease, if nothing has changed: it stays the same grant. */
static void ask_move(struct weir_etcd *etcd, struct weir_etcd_op *op)
{
    ask(etcd, op, WEIR_ETCD_MOVE, "/v3/kv/txn",
        json_pack("{s:[o],s:[o]}", "compare",
                  weir_etcd_compare(weir_etcd_lock_key(etcd, op->op->name), "MOD", "mod_revision",
                                    json_sprintf("%lld", (long long)op->mod_revision)),
                  "success", put(etcd, op, op->value, op->value_size)));
}

/* ---- what was read ---- */

/* What lies under the key; false: it is not ours. */
static bool read_lock(struct weir_etcd_op *op, const json_t *found)
{
    op->there = found != NULL;
    if (!found)
        return true;
    op->value_size = weir_etcd_bytes_get(json_object_get(found, "value"), op->value, sizeof op->value);
    const char *colon = op->value_size == SIZE_MAX ? NULL : memchr(op->value, ':', op->value_size);
    op->token.number = (uint64_t)weir_etcd_integer(found, "create_revision");
    op->lease = weir_etcd_integer(found, "lease");
    op->mod_revision = weir_etcd_integer(found, "mod_revision");
    if (!colon || colon == op->value || op->lease == 0)
        return false;
    op->token.incarnation = strtoull(op->value, NULL, 10);
    op->op->holder_size = op->value_size - (size_t)(colon + 1 - op->value);
    if (op->op->holder_size > sizeof op->op->holder)
        return false;
    memcpy(op->op->holder, colon + 1, op->op->holder_size);
    return true;
}

static bool is_owners(const struct weir_etcd_op *op)
{
    return op->there && op->op->holder_size == op->op->owner.size &&
           memcmp(op->op->holder, op->op->owner.data, op->op->owner.size) == 0;
}

static uint64_t seconds(const json_t *answer)
{
    int64_t ttl_s = weir_etcd_integer(answer, "TTL");
    return ttl_s > 0 ? weir_mul_sat((uint64_t)ttl_s, WEIR_NS_PER_SECOND) : 0;
}

/* The incarnation under which the store stands: raised by another node, or by us; lower: it has gone back. One that
 * nobody of us raised it to is not taken over. */
static void adopt(struct weir_etcd *etcd, const json_t *found)
{
    if (etcd->raise) /* which decides by it */
        return;
    uint64_t stored = weir_etcd_stored(found);
    if (stored < etcd->witness.incarnation || stored >= WEIR_INCARNATION_MAX)
        etcd->raise = true;
    else
        etcd->witness.incarnation = stored;
}

/* It would be given a new token: when the raise is due, or in the next pass. */
static void await_raise(const struct weir_etcd *etcd, struct weir_etcd_op *op)
{
    op->op->due_ns = etcd->pace.due_ns;
    op->again = etcd->pace.due_ns == 0;
    end(op, WEIR_EDOWN);
}

static void heard_look(struct weir_etcd *etcd, struct weir_etcd_op *op)
{
    weir_etcd_see(etcd, op->call.answer);
    adopt(etcd, weir_etcd_found(op->call.answer, 1));
    if (!read_lock(op, weir_etcd_found(op->call.answer, 0))) {
        end(op, WEIR_EDOWN);
        return;
    }
    bool owners = is_owners(op), acquire = op->op->verb == WEIR_LOCK_ACQUIRE;
    if (etcd->raise && acquire && (!op->there || (owners && op->op->seen > op->token.incarnation)))
        await_raise(etcd, op);
    else if (op->op->verb == WEIR_LOCK_SHOW || (acquire && op->there && !owners)) {
        if (op->there)
            ask_by_lease(etcd, op, WEIR_ETCD_REMAINS, "/v3/lease/timetolive", op->lease);
        else
            say(op, WEIR_LOCK_FREE, 0);
    } else if (acquire && !op->there)
        ask_lease(etcd, op);
    else if (!owners)
        say(op, WEIR_LOCK_FREE, 0);
    else if (acquire && op->op->seen > op->token.incarnation) {
        op->again = true; /* its token is of no use any more: given up, and asked for anew */
        ask_by_lease(etcd, op, WEIR_ETCD_UNDO, "/v3/lease/revoke", op->lease);
    } else if (op->op->verb == WEIR_LOCK_RELEASE)
        ask_by_lease(etcd, op, WEIR_ETCD_REVOKE, "/v3/lease/revoke", op->lease);
    else
        ask_by_lease(etcd, op, WEIR_ETCD_KEEP, "/v3/lease/keepalive", op->lease);
}

static void heard_lease(struct weir_etcd *etcd, struct weir_etcd_op *op)
{
    op->new_lease = weir_etcd_integer(op->call.answer, "ID");
    op->granted_ns = seconds(op->call.answer);
    if (op->new_lease == 0 || op->granted_ns == 0)
        end(op, WEIR_EDOWN);
    else if (op->there)
        ask_move(etcd, op);
    else
        ask_put(etcd, op);
}

static void heard_put(struct weir_etcd *etcd, struct weir_etcd_op *op)
{
    weir_etcd_see(etcd, op->call.answer);
    /* Another was first, or has raised the incarnation; or the token may lie below others: nobody hears of it. */
    if (!json_is_true(json_object_get(op->call.answer, "succeeded")) || etcd->went_back) {
        op->again = true;
        ask_by_lease(etcd, op, WEIR_ETCD_UNDO, "/v3/lease/revoke", op->new_lease);
        return;
    }
    op->token.number = (uint64_t)weir_etcd_integer(json_object_get(op->call.answer, "header"), "revision");
    say(op, WEIR_LOCK_GRANTED, op->granted_ns);
}

/* A lease that is kept alive has the length that it was made with. */
static void heard_keep(struct weir_etcd *etcd, struct weir_etcd_op *op)
{
    op->granted_ns = seconds(json_object_get(op->call.answer, "result"));
    if (op->granted_ns == 0) { /* an answer without a ttl: the lease has ended */
        op->there = false;
        if (op->op->verb != WEIR_LOCK_ACQUIRE)
            say(op, WEIR_LOCK_FREE, 0);
        else if (etcd->raise)
            await_raise(etcd, op);
        else
            ask_lease(etcd, op);
    } else if (op->granted_ns < op->op->ttl_ns)
        ask_lease(etcd, op);
    else
        ask_look(etcd, op, WEIR_ETCD_CONFIRM);
}

static void heard_move(struct weir_etcd *etcd, struct weir_etcd_op *op)
{
    weir_etcd_see(etcd, op->call.answer);
    if (json_is_true(json_object_get(op->call.answer, "succeeded"))) {
        op->mod_revision = 0; /* the old lease ends by itself: nothing hangs on it */
        say(op, WEIR_LOCK_GRANTED, op->granted_ns);
    } else {
        op->again = true;
        ask_by_lease(etcd, op, WEIR_ETCD_UNDO, "/v3/lease/revoke", op->new_lease);
    }
}

static void heard_confirm(struct weir_etcd *etcd, struct weir_etcd_op *op)
{
    struct weir_token before = op->token;
    weir_etcd_see(etcd, op->call.answer);
    if (read_lock(op, weir_etcd_found(op->call.answer, 0)) && is_owners(op) &&
        weir_token_compare(op->token, before) == 0)
        say(op, WEIR_LOCK_GRANTED, op->granted_ns);
    else if (op->op->verb == WEIR_LOCK_ACQUIRE) {
        op->again = true;
        end(op, WEIR_EDOWN);
    } else
        say(op, WEIR_LOCK_FREE, 0);
}

static void heard(struct weir_etcd *etcd, struct weir_etcd_op *op)
{
    switch (op->step) {
    case WEIR_ETCD_LOOK:
        heard_look(etcd, op);
        break;
    case WEIR_ETCD_REMAINS: /* at least a moment: etcd counts in seconds, and -1 is a lease just ended */
        say(op, op->op->verb == WEIR_LOCK_SHOW ? WEIR_LOCK_GRANTED : WEIR_LOCK_HELD,
            weir_max_u64(seconds(op->call.answer), WEIR_NS_PER_SECOND / 10));
        break;
    case WEIR_ETCD_LEASE:
        heard_lease(etcd, op);
        break;
    case WEIR_ETCD_PUT:
        heard_put(etcd, op);
        break;
    case WEIR_ETCD_UNDO: /* `again` */
        end(op, WEIR_EDOWN);
        break;
    case WEIR_ETCD_KEEP:
        heard_keep(etcd, op);
        break;
    case WEIR_ETCD_MOVE:
        heard_move(etcd, op);
        break;
    case WEIR_ETCD_CONFIRM:
        heard_confirm(etcd, op);
        break;
    case WEIR_ETCD_REVOKE:
        say(op, WEIR_LOCK_GRANTED, 0);
        break;
    case WEIR_ETCD_DONE:
        break;
    }
}

/* A call that was not answered, or refused. Reading changes nothing, and a lease that nothing hangs on is nobody's. */
static void unheard(struct weir_etcd_op *op)
{
    bool gone = op->call.not_found;
    switch (op->step) {
    case WEIR_ETCD_PUT:
    case WEIR_ETCD_MOVE:
        end(op, op->call.status);
        break;
    case WEIR_ETCD_KEEP: /* perhaps kept alive: the lock may last longer than its holder knows */
    case WEIR_ETCD_REVOKE:
        if (gone && op->op->verb != WEIR_LOCK_ACQUIRE) /* its lease ended first */
            say(op, WEIR_LOCK_FREE, 0);
        else
            end(op, op->call.status);
        op->again = gone;
        break;
    case WEIR_ETCD_UNDO:
    case WEIR_ETCD_CONFIRM: /* it may be there until the lease ends */
        end(op, WEIR_EUNKNOWN);
        break;
    case WEIR_ETCD_LOOK:
    case WEIR_ETCD_REMAINS:
    case WEIR_ETCD_LEASE:
    case WEIR_ETCD_DONE:
        op->again = gone;
        end(op, WEIR_EDOWN);
        break;
    }
}

void weir_etcd_op_heard(struct weir_etcd *etcd, struct weir_etcd_op *op)
{
    if (op->call.status != 0) {
        unheard(op);
        return;
    }
    json_t *answer = op->call.answer;
    heard(etcd, op);
    json_decref(answer);
}

void weir_etcd_op_begin(struct weir_etcd *etcd, struct weir_etcd_op *op)
{
    op->there = op->again = false;
    op->new_lease = 0;
    ask_look(etcd, op, WEIR_ETCD_LOOK);
}
