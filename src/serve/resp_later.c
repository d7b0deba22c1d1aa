/* SPDX-License-Identifier: Apache-2.0
 *
 * Answers that come later: checks of limits that nodes share, or lock commands, are under way together, up to
 * WEIR_RESP_LATER_MAX of one connection, and are answered in the order in which they came. Called by the commands
 * (resp_check.c, resp_cell.c, resp_throttle.c, resp_locks.c) and by resp.c. */
#include <stdlib.h>

#include "serve/hold.h"
#include "serve/locks.h"
#include "serve/loop.h"
#include "serve/resp_call.h"
#include "serve/shared.h"

struct weir_resp_later {
    struct weir_resp_later *next;
    struct weir_conn *conn;
    struct weir_transaction *pending; /* one of these two; both NULL: `bytes` is the answer */
    struct weir_lock_ask *lock;
    bool acquires, waits; /* the lock; and maybe for other clients */
    bool ready;
    struct weir_hold_waiter *waiter; /* the answer is held from its turn here on; NULL */
    size_t size;
    uint8_t bytes[];
};

static void append(const struct weir_resp_call *call, struct weir_resp_later *later)
{
    struct weir_resp_session *session = call->session;
    if (session->later_last)
        session->later_last->next = later;
    else
        session->later_first = later;
    session->later_last = later;
    session->later_count++;
    weir_conn_ask_begin(call->conn);
}

static struct weir_resp_later *add(const struct weir_resp_call *call, size_t size)
{
    struct weir_resp_later *later = malloc(sizeof(*later) + size);
    if (!later)
        return NULL;
    *later = (struct weir_resp_later){ .conn = call->conn, .size = size };
    append(call, later);
    return later;
}

static void on_done(struct weir_transaction *pending, void *context)
{
    struct weir_resp_later *later = context;
    (void)pending;
    later->ready = true;
    weir_resp_later_flush(later->conn);
}

void weir_resp_later_transaction(const struct weir_resp_call *call, struct weir_transaction *pending)
{
    struct weir_resp_later *later = add(call, 0);
    if (!later) {
        weir_transaction_abandon(pending);
        weir_conn_abort(call->conn); /* memory is out */
        return;
    }
    later->pending = pending;
    weir_transaction_then(pending, on_done, later);
}

static void on_lock(struct weir_lock_ask *ask, void *context)
{
    struct weir_resp_later *later = context;
    (void)ask;
    later->ready = true;
    weir_resp_later_flush(later->conn);
}

static void write_lock(const struct weir_resp_call *call, struct weir_lock_ask *ask)
{
    weir_resp_reply_lock(call, ask);
    weir_lock_ask_end(ask);
}

int weir_resp_later_lock(const struct weir_resp_call *call, const struct weir_lock_wish *wish)
{
    struct weir_lock_ask *ask = NULL;
    struct weir_resp_later *later = malloc(sizeof(*later));
    int error = later ? weir_lock_ask_create(call->conn->loop, wish, on_lock, later, &ask) : WEIR_ENOMEM;
    if (error) {
        free(later);
        return error;
    }
    if (weir_lock_ask_decided_at_once(ask) && call->session->later_count == 0) {
        write_lock(call, ask);
        free(later);
        return 0;
    }
    *later = (struct weir_resp_later){ .conn = call->conn,
                                       .lock = ask,
                                       .acquires = wish->verb == WEIR_LOCK_ACQUIRE,
                                       .waits = weir_lock_ask_waits(ask),
                                       .ready = weir_lock_ask_decided_at_once(ask) };
    append(call, later);
    call->session->later_locks++;
    call->session->later_acquires += later->acquires;
    if (later->waits)
        weir_conn_wait_begin(call->conn);
    return 0;
}

bool weir_resp_later_takes_lock(const struct weir_resp_call *call, bool acquires)
{
    const struct weir_resp_session *session = call->session;
    if (session->later_locks < session->later_count || session->later_count >= WEIR_RESP_LATER_MAX)
        return session->later_count == 0;
    if (!acquires || call->conn->waits == 0)
        return acquires || session->later_acquires == 0;
    const struct weir_slice name = weir_lock_ask_op(session->later_last->lock)->name;
    return name.size == call->args[1].size && memcmp(name.data, call->args[1].data, name.size) == 0;
}

void weir_resp_later_written(const struct weir_resp_call *call, size_t pending_before, struct weir_hold_waiter *waiter)
{
    struct weir_conn *conn = call->conn;
    size_t size = weir_conn_pending(conn) - pending_before;
    struct weir_resp_later *later = add(call, size);
    if (!later) {
        weir_hold_drop(waiter);
        weir_conn_abort(conn);
        return;
    }
    if (size > 0)
        memcpy(later->bytes, conn->out.data + conn->out.size - size, size);
    conn->out.size -= size;
    later->waiter = waiter;
    later->ready = true;
}

static void write_verdict(const struct weir_resp_call *call, struct weir_transaction *pending)
{
    struct weir_outcome *outcome = &call->work->outcome;
    uint64_t units[WEIR_CHARGES_MAX];
    if (pending->attached) {
        weir_resp_reply_cell(call, pending);
        weir_transaction_end(pending);
        return;
    }
    int error = weir_shared_outcome(pending, outcome);
    for (size_t i = 0; i < pending->count; i++)
        units[i] = pending->parts[i].refunded;
    if (error)
        weir_resp_reply_fault(call, error, NULL);
    else if (pending->verb == WEIR_TRANSACTION_REFUND)
        weir_resp_reply_refunds(call, &outcome->match, units);
    else
        weir_resp_reply_outcome(call, outcome);
    weir_transaction_end(pending);
}

static struct weir_resp_later *take_first(struct weir_resp_session *session)
{
    struct weir_resp_later *later = session->later_first;
    session->later_first = later->next;
    if (!later->next)
        session->later_last = NULL;
    session->later_count--;
    session->later_locks -= later->lock != NULL;
    session->later_acquires -= later->acquires;
    if (later->waits)
        weir_conn_wait_end(later->conn);
    return later;
}

void weir_resp_later_flush(struct weir_conn *conn)
{
    struct weir_resp_session *session = weir_conn_state(conn);
    if (!session->later_first || !session->later_first->ready)
        return;
    const struct weir_time time = weir_time_read();
    const struct weir_resp_call call = {
        .conn = conn, .session = session, .work = weir_conn_loop_state(conn), .time = &time
    };
    while (!conn->held && session->later_first && session->later_first->ready) {
        struct weir_resp_later *later = take_first(session);
        size_t pending = weir_conn_pending(conn);
        if (later->pending)
            write_verdict(&call, later->pending);
        else if (later->lock)
            write_lock(&call, later->lock);
        else
            weir_conn_write(conn, later->bytes, later->size);
        if (later->waiter)
            weir_hold_begin(later->waiter, conn, pending);
        weir_conn_ask_end(conn);
        free(later);
    }
}

void weir_resp_later_drop(struct weir_conn *conn)
{
    struct weir_resp_session *session = weir_conn_state(conn);
    while (session->later_first) {
        struct weir_resp_later *later = take_first(session);
        if (later->pending && later->ready)
            weir_transaction_end(later->pending);
        else if (later->pending)
            weir_transaction_abandon(later->pending);
        else if (later->lock)
            weir_lock_ask_abandon(later->lock);
        weir_hold_drop(later->waiter);
        free(later);
    }
}
