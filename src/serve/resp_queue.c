/* SPDX-License-Identifier: Apache-2.0
 *
 * MULTI, EXEC, DISCARD: commands are kept and run in order. Nothing is rolled back, as in Redis; and as other loops go
 * on deciding meanwhile, what is one step is each command, not all of them. */
#include <stdlib.h>

#include "serve/resp_call.h"

void weir_resp_queue_reset(struct weir_resp_session *session)
{
    free(session->queue.bytes);
    session->queue = (struct weir_resp_queue){ 0 };
    session->queueing = false;
    session->queue_failed = false;
}

void weir_resp_queue_fail(struct weir_resp_session *session)
{
    session->queue_failed = session->queueing;
}

void weir_resp_multi(const struct weir_resp_call *call)
{
    if (call->session->queueing) {
        weir_resp_reply_error(call, "ERR MULTI calls can not be nested");
        return;
    }
    call->session->queueing = true;
    weir_resp_reply_simple(call, "OK");
}

void weir_resp_discard(const struct weir_resp_call *call)
{
    if (!call->session->queueing) {
        weir_resp_reply_error(call, "ERR DISCARD without MULTI");
        return;
    }
    weir_resp_queue_reset(call->session);
    weir_resp_reply_simple(call, "OK");
}

static bool make_room(struct weir_resp_queue *queue, size_t more)
{
    if (queue->count == WEIR_RESP_QUEUE_MAX || more > WEIR_RESP_QUEUE_BYTES_MAX - queue->size)
        return false;
    if (more <= queue->capacity - queue->size)
        return true;
    size_t capacity = queue->capacity ? queue->capacity : 1024;
    while (capacity < queue->size + more)
        capacity *= 2;
    uint8_t *bytes = realloc(queue->bytes, capacity);
    if (!bytes)
        return false;
    queue->bytes = bytes;
    queue->capacity = capacity;
    return true;
}

static void put(struct weir_resp_queue *queue, const void *data, size_t size)
{
    if (size > 0)
        memcpy(queue->bytes + queue->size, data, size);
    queue->size += size;
}

void weir_resp_queue_add(const struct weir_resp_call *call)
{
    struct weir_resp_queue *queue = &call->session->queue;
    size_t size = sizeof(size_t);
    for (size_t i = 0; i < call->count; i++)
        size += sizeof(size_t) + call->args[i].size;
    if (weir_conn_is_crowded(call->conn)) {
        weir_resp_queue_fail(call->session);
        weir_resp_reply_error(call, "ERR no memory for a transaction now: server.buffer_bytes_max");
        return;
    }
    if (!make_room(queue, size)) {
        weir_resp_queue_fail(call->session);
        weir_resp_reply_error(call, "ERR a transaction holds at most %d commands and %zu bytes", WEIR_RESP_QUEUE_MAX,
                              WEIR_RESP_QUEUE_BYTES_MAX);
        return;
    }
    put(queue, &call->count, sizeof(call->count));
    for (size_t i = 0; i < call->count; i++) {
        put(queue, &call->args[i].size, sizeof(call->args[i].size));
        put(queue, call->args[i].data, call->args[i].size);
    }
    queue->count++;
    weir_resp_reply_simple(call, "QUEUED");
}

static size_t take_size(const struct weir_resp_queue *queue, size_t *at)
{
    size_t value;
    memcpy(&value, queue->bytes + *at, sizeof(value));
    *at += sizeof(value);
    return value;
}

/* Runs what is left. The queue has left session->queue, because a command in it may be RESET. */
bool weir_resp_exec_go_on(const struct weir_resp_call *call)
{
    struct weir_resp_session *session = call->session;
    struct weir_slice *args = call->work->command.args;
    struct weir_resp_call inner = *call;
    if (session->exec_left == 0)
        return true;
    inner.args = args;
    inner.in_exec = true;
    while (session->exec_left > 0) {
        size_t at = session->exec_at;
        inner.count = take_size(&session->exec, &at);
        for (size_t k = 0; k < inner.count; k++) {
            args[k].size = take_size(&session->exec, &at);
            args[k].data = session->exec.bytes + at;
            at += args[k].size;
        }
        if (!weir_resp_run(&inner))
            return false;
        session->exec_at = at;
        session->exec_left--;
    }
    weir_resp_batch_flush(&inner);
    weir_resp_exec_drop(session);
    return true;
}

void weir_resp_exec_drop(struct weir_resp_session *session)
{
    free(session->exec.bytes);
    session->exec = (struct weir_resp_queue){ 0 };
    session->exec_at = session->exec_left = 0;
}

void weir_resp_exec(const struct weir_resp_call *call)
{
    struct weir_resp_session *session = call->session;
    if (!session->queueing) {
        weir_resp_reply_error(call, "ERR EXEC without MULTI");
        return;
    }
    if (session->queue_failed) {
        weir_resp_queue_reset(session);
        weir_resp_reply_error(call, "EXECABORT Transaction discarded because of previous errors.");
        return;
    }
    session->exec = session->queue;
    session->exec_left = session->queue.count;
    session->queue = (struct weir_resp_queue){ 0 };
    session->queueing = false;
    weir_resp_reply_array(call, session->exec.count);
    if (!weir_resp_exec_go_on(call))
        return; /* the rest is run when what it waits for is answered */
    weir_resp_exec_drop(session);
}
