/* SPDX-License-Identifier: Apache-2.0
 *
 * WEIR.LOCK, WEIR.RELOCK, WEIR.UNLOCK and WEIR.LOCKS: their arguments, and their answers, which come later
 * (resp_later.c). Called by resp.c. */
#include <inttypes.h>

#include "core/lease/incarnation.h"
#include "serve/locks.h"
#include "serve/resp_call.h"
#include "wire/resp_write.h"

#define MS_NS (WEIR_NS_PER_SECOND / 1000)

/* ---- arguments; each returns false when it has answered ---- */

static bool read_bytes(const struct weir_resp_call *call, size_t index, const char *argument, size_t max,
                       struct weir_slice *ret_bytes)
{
    *ret_bytes = call->args[index];
    if (ret_bytes->size >= 1 && ret_bytes->size <= max)
        return true;
    weir_resp_reply_error(call, "ERR %s must be 1 to %zu bytes", argument, max);
    return false;
}

static bool read_number(const struct weir_resp_call *call, size_t index, const char *argument, uint64_t min,
                        uint64_t max, uint64_t *ret_number)
{
    int64_t value;
    if (weir_resp_integer(call->args[index], &value) && value >= 0 && (uint64_t)value >= min &&
        (uint64_t)value <= max) {
        *ret_number = (uint64_t)value;
        return true;
    }
    weir_resp_reply_error(call, "ERR %s must be an integer from %" PRIu64 " to %" PRIu64, argument, min, max);
    return false;
}

static bool read_ttl(const struct weir_resp_call *call, struct weir_lock_wish *wish)
{
    uint64_t ttl_ms;
    if (!read_number(call, 3, "ttl_ms", WEIR_LOCK_TTL_MIN_MS, WEIR_LOCK_TTL_MAX_MS, &ttl_ms))
        return false;
    wish->ttl_ns = ttl_ms * MS_NS;
    return true;
}

/* [WAIT ms] [SEEN incarnation], in any order, each once. */
static bool read_options(const struct weir_resp_call *call, struct weir_lock_wish *wish)
{
    uint64_t wait_ms = 0;
    bool wait = false, seen = false;
    for (size_t i = 4; i < call->count; i += 2) {
        bool is_wait = weir_resp_is(call->args[i], "wait") && !wait;
        bool is_seen = weir_resp_is(call->args[i], "seen") && !seen;
        if (i + 1 == call->count || (!is_wait && !is_seen)) {
            weir_resp_reply_error(call,
                                  "ERR Usage: WEIR.LOCK <name> <owner> <ttl_ms> [WAIT <ms>] [SEEN <incarnation>]");
            return false;
        }
        if (is_wait && !read_number(call, i + 1, "WAIT", 0, WEIR_LOCK_WAIT_MAX_MS, &wait_ms))
            return false;
        if (is_seen && !read_number(call, i + 1, "SEEN", 0, WEIR_INCARNATION_MAX, &wish->seen))
            return false;
        wait = wait || is_wait;
        seen = seen || is_seen;
    }
    wish->wait_ns = call->in_exec ? 0 : wait_ms * MS_NS; /* the others of EXEC's array would wait, too */
    return true;
}

static bool read_wish(const struct weir_resp_call *call, enum weir_lock_verb verb, struct weir_lock_wish *ret_wish)
{
    *ret_wish = (struct weir_lock_wish){ .verb = verb, .has_reset = (call->conn->rights & WEIR_RIGHT_RESET) != 0 };
    if (!read_bytes(call, 1, "name", WEIR_LOCK_NAME_MAX, &ret_wish->name))
        return false;
    if (verb != WEIR_LOCK_SHOW && !read_bytes(call, 2, "owner", WEIR_LOCK_OWNER_MAX, &ret_wish->owner))
        return false;
    if ((verb == WEIR_LOCK_ACQUIRE || verb == WEIR_LOCK_RENEW) && !read_ttl(call, ret_wish))
        return false;
    return verb != WEIR_LOCK_ACQUIRE || read_options(call, ret_wish);
}

/* ---- answers ---- */

static void reply_integers(const struct weir_resp_call *call, const uint64_t *values, size_t count)
{
    uint8_t *start = weir_conn_reserve(call->conn, (count + 1) * WEIR_RESP_HEADER_MAX), *at = start;
    if (!at)
        return;
    at = weir_resp_put_array(at, count);
    for (size_t i = 0; i < count; i++)
        at = weir_resp_put_integer(at, (int64_t)values[i]);
    weir_conn_commit(call->conn, (size_t)(at - start));
}

static void reply_lease(const struct weir_resp_call *call, const struct weir_lock_op *op)
{
    const uint64_t granted[] = { 1, op->token.incarnation, op->token.number, weir_lease_told_ms(op->lease_ns) };
    const uint64_t held[] = { 0, weir_remaining_told_ms(op->lease_ns) };
    if (op->said == WEIR_LOCK_GRANTED)
        reply_integers(call, granted, 4);
    else if (op->said == WEIR_LOCK_HELD)
        reply_integers(call, held, 2);
    else
        reply_integers(call, (const uint64_t[]){ 0, 0 }, 2);
}

static void reply_shown(const struct weir_resp_call *call, const struct weir_lock_op *op, size_t waiters)
{
    bool held = op->said == WEIR_LOCK_GRANTED;
    weir_resp_reply_array(call, 5);
    if (held)
        weir_resp_reply_bulk(call, op->holder, op->holder_size);
    else
        weir_resp_reply_null(call);
    weir_resp_reply_integer(call, held ? (int64_t)op->token.incarnation : 0);
    weir_resp_reply_integer(call, held ? (int64_t)op->token.number : 0);
    weir_resp_reply_integer(call, held ? (int64_t)weir_lease_told_ms(op->lease_ns) : 0);
    weir_resp_reply_integer(call, (int64_t)waiters);
}

static void reply_unknown(const struct weir_resp_call *call, enum weir_lock_verb verb)
{
    if (verb == WEIR_LOCK_SHOW)
        weir_resp_reply_error(call, "ERR " WEIR_LOCKS_UNANSWERED);
    else if (verb == WEIR_LOCK_RELEASE)
        weir_resp_reply_integer(call, -2);
    else
        reply_integers(call, (const uint64_t[]){ (uint64_t)-2 }, 1);
}

/* A word of its own for what clients tell apart: nothing was done. */
static void reply_error(const struct weir_resp_call *call, int error)
{
    switch (error) {
    case WEIR_ENOENT:
        weir_resp_reply_error(call, "NOLOCKS " WEIR_LOCKS_ABSENT);
        break;
    case WEIR_EDOWN:
        weir_resp_reply_error(call, "DOWN " WEIR_LOCKS_DOWN);
        break;
    case WEIR_ELIMIT:
        weir_resp_reply_error(call, "LIMIT " WEIR_LOCKS_FULL);
        break;
    case WEIR_ERANGE:
        weir_resp_reply_error(call, "ERR SEEN " WEIR_LOCKS_SEEN_FAR);
        break;
    default:
        weir_resp_reply_fault(call, error, NULL);
    }
}

void weir_resp_reply_lock(const struct weir_resp_call *call, const struct weir_lock_ask *ask)
{
    const struct weir_lock_op *op = weir_lock_ask_op(ask);
    if (op->status == WEIR_EUNKNOWN)
        reply_unknown(call, op->verb);
    else if (op->status == WEIR_ERANGE) /* the engine's word, whatever rights the caller has */
        weir_resp_reply_error(call, "ERR SEEN " WEIR_LOCKS_SEEN_MADE_UP);
    else if (op->status)
        reply_error(call, op->status);
    else if (op->verb == WEIR_LOCK_SHOW)
        reply_shown(call, op, weir_lock_ask_waiters(ask));
    else if (op->verb == WEIR_LOCK_RELEASE)
        weir_resp_reply_integer(call, op->said == WEIR_LOCK_GRANTED);
    else
        reply_lease(call, op);
}

/* ---- commands ---- */

static void ask(const struct weir_resp_call *call, enum weir_lock_verb verb)
{
    struct weir_lock_wish wish;
    size_t pending = weir_conn_pending(call->conn);
    int error = 0;
    if (read_wish(call, verb, &wish)) {
        error = weir_resp_later_lock(call, &wish);
        if (!error)
            return;
        reply_error(call, error);
    }
    if (call->session->later_count > 0)
        weir_resp_later_written(call, pending, NULL);
}

void weir_resp_lock(const struct weir_resp_call *call)
{
    ask(call, WEIR_LOCK_ACQUIRE);
}

void weir_resp_relock(const struct weir_resp_call *call)
{
    ask(call, WEIR_LOCK_RENEW);
}

void weir_resp_unlock(const struct weir_resp_call *call)
{
    ask(call, WEIR_LOCK_RELEASE);
}

void weir_resp_locks(const struct weir_resp_call *call)
{
    ask(call, WEIR_LOCK_SHOW);
}
