/* SPDX-License-Identifier: Apache-2.0
 *
 * What RESP keeps of a connection between two commands, for a successor: who it says it is, and the commands between
 * MULTI and EXEC, or those of EXEC that were not run yet. Called by conn_hand.c. */
#include <stdlib.h>

#include "serve/resp_call.h"

struct handed {
    uint64_t id;
    uint64_t queue_size, queue_count;
    uint64_t exec_size, exec_count, exec_at, exec_left;
    uint8_t resp3, queueing, queue_failed;
    uint8_t spare[5];
    char name[WEIR_RESP_NAME_MAX];
};

_Static_assert(sizeof(struct handed) == 64 + WEIR_RESP_NAME_MAX, "no byte of it is left to chance");

bool weir_resp_hand(struct weir_conn *conn, uint8_t **ret_state, size_t *ret_size)
{
    const struct weir_resp_session *session = weir_conn_state(conn);
    weir_resp_later_flush(conn);
    if (session->later_count > 0)
        return false;
    struct handed handed = { .id = session->id,
                             .queue_size = session->queue.size,
                             .queue_count = session->queue.count,
                             .exec_size = session->exec.size,
                             .exec_count = session->exec.count,
                             .exec_at = session->exec_at,
                             .exec_left = session->exec_left,
                             .resp3 = session->resp3,
                             .queueing = session->queueing,
                             .queue_failed = session->queue_failed };
    memcpy(handed.name, session->name, sizeof(handed.name));
    uint8_t *state = malloc(sizeof(handed) + session->queue.size + session->exec.size);
    if (!state)
        return false;
    memcpy(state, &handed, sizeof(handed));
    if (session->queue.size > 0)
        memcpy(state + sizeof(handed), session->queue.bytes, session->queue.size);
    if (session->exec.size > 0)
        memcpy(state + sizeof(handed) + session->queue.size, session->exec.bytes, session->exec.size);
    *ret_state = state;
    *ret_size = sizeof(handed) + session->queue.size + session->exec.size;
    return true;
}

/* Whether `count` commands begin at `at` and end with the bytes. */
static bool is_queue(const uint8_t *bytes, size_t size, size_t at, size_t count)
{
    for (; count > 0; count--) {
        size_t args, one;
        if (at > size || size - at < sizeof(args))
            return false;
        memcpy(&args, bytes + at, sizeof(args));
        at += sizeof(args);
        if (args == 0 || args > WEIR_RESP_ARGS_MAX)
            return false;
        for (; args > 0; args--) {
            if (size - at < sizeof(one))
                return false;
            memcpy(&one, bytes + at, sizeof(one));
            at += sizeof(one);
            if (one > size - at)
                return false;
            at += one;
        }
    }
    return at == size;
}

static bool put_queue(struct weir_resp_queue *queue, const uint8_t *bytes, size_t size, size_t count)
{
    if (size == 0)
        return true;
    queue->bytes = malloc(size);
    if (!queue->bytes)
        return false;
    memcpy(queue->bytes, bytes, size);
    queue->size = queue->capacity = size;
    queue->count = count;
    return true;
}

int weir_resp_take(struct weir_conn *conn, const uint8_t *state, size_t size)
{
    struct weir_resp_session *session = weir_conn_state(conn);
    struct handed handed;
    if (size < sizeof(handed))
        return WEIR_EPROTO;
    memcpy(&handed, state, sizeof(handed));
    const uint8_t *queue = state + sizeof(handed);
    size -= sizeof(handed);
    if (handed.queue_size > size || handed.exec_size != size - handed.queue_size ||
        handed.queue_count > WEIR_RESP_QUEUE_MAX || handed.exec_left > WEIR_RESP_QUEUE_MAX ||
        handed.queue_size > WEIR_RESP_QUEUE_BYTES_MAX || handed.exec_size > WEIR_RESP_QUEUE_BYTES_MAX ||
        handed.name[WEIR_RESP_NAME_MAX - 1] != '\0' || !is_queue(queue, handed.queue_size, 0, handed.queue_count) ||
        !is_queue(queue + handed.queue_size, handed.exec_size, handed.exec_at, handed.exec_left))
        return WEIR_EPROTO;
    session->id = handed.id;
    session->resp3 = handed.resp3 != 0;
    session->queueing = handed.queueing != 0;
    session->queue_failed = handed.queue_failed != 0;
    memcpy(session->name, handed.name, sizeof(session->name));
    if (!put_queue(&session->queue, queue, handed.queue_size, handed.queue_count) ||
        !put_queue(&session->exec, queue + handed.queue_size, handed.exec_size, handed.exec_count))
        return WEIR_ENOMEM;
    session->exec_at = handed.exec_at;
    session->exec_left = handed.exec_left;
    return 0;
}
