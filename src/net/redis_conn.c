/* SPDX-License-Identifier: Apache-2.0
 *
 * Replies come in the order of the commands, so each reply is the oldest call's. Calls are written only while less
 * than 64 KiB wait for the socket; one that is not written can be taken back. When the connection closes, the count of
 * bytes that the socket took tells which calls the server cannot have had whole. Called by limits/redis/server.c and
 * request.c; the socket is in redis_link.c, the parser in redis_reply.c. */
#include "net/redis_conn.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "weir/error.h"

/* ---- output ---- */

static bool reserve(struct weir_redis_output *output, size_t size)
{
    if (output->begin > 0 && output->begin == output->end)
        output->begin = output->end = 0;
    if (output->capacity - output->end >= size)
        return true;
    if (output->begin > 0) {
        memmove(output->data, output->data + output->begin, output->end - output->begin);
        output->end -= output->begin;
        output->begin = 0;
    }
    size_t capacity = output->capacity ? output->capacity : WEIR_REDIS_STAGED_MAX;
    while (capacity - output->end < size) {
        if (capacity > SIZE_MAX / 2)
            return false;
        capacity *= 2;
    }
    if (capacity == output->capacity)
        return true;
    char *data = realloc(output->data, capacity);
    if (!data)
        return false;
    output->data = data;
    output->capacity = capacity;
    return true;
}

static void append(struct weir_redis_output *output, const void *data, size_t size)
{
    memcpy(output->data + output->end, data, size);
    output->end += size;
}

static void append_number(struct weir_redis_output *output, char kind, size_t number)
{
    char text[32];
    int size = snprintf(text, sizeof text, "%c%zu\r\n", kind, number);
    append(output, text, (size_t)size);
}

bool weir_redis_output_command(struct weir_redis_output *output, int argc, const char *const *argv, const size_t *sizes)
{
    size_t room = 32;
    for (int i = 0; i < argc; i++) {
        if (sizes[i] > SIZE_MAX / 2 - room - 32)
            return false;
        room += sizes[i] + 32;
    }
    if (!reserve(output, room))
        return false;
    append_number(output, '*', (size_t)argc);
    for (int i = 0; i < argc; i++) {
        append_number(output, '$', sizes[i]);
        append(output, argv[i], sizes[i]);
        append(output, "\r\n", 2);
    }
    return true;
}

bool weir_redis_output_bytes(struct weir_redis_output *output, const void *data, size_t size)
{
    if (!reserve(output, size))
        return false;
    append(output, data, size);
    return true;
}

bool weir_redis_output_words(struct weir_redis_output *output, int argc, const char *const *argv)
{
    size_t sizes[8];
    weir_assert(argc > 0 && argc <= 8);
    for (int i = 0; i < argc; i++)
        sizes[i] = strlen(argv[i]);
    return weir_redis_output_command(output, argc, argv, sizes);
}

/* ---- queues ---- */

/* Before `next`; NULL: at the end. */
static void push(struct weir_redis_queue *queue, struct weir_redis_call *call, struct weir_redis_call *next)
{
    weir_assert(!call->queue);
    call->queue = queue;
    queue->count++;
    call->next = next;
    call->prev = next ? next->prev : queue->last;
    *(call->prev ? &call->prev->next : &queue->first) = call;
    *(next ? &next->prev : &queue->last) = call;
}

static void take(struct weir_redis_call *call)
{
    struct weir_redis_queue *queue = call->queue;
    queue->count--;
    *(call->prev ? &call->prev->next : &queue->first) = call->next;
    *(call->next ? &call->next->prev : &queue->last) = call->prev;
    call->queue = NULL;
    call->next = call->prev = NULL;
}

void weir_redis_conn_urgent(struct weir_redis_conn *conn, struct weir_redis_call *call)
{
    push(&conn->urgent, call, NULL);
}

void weir_redis_conn_wait(struct weir_redis_conn *conn, struct weir_redis_call *call)
{
    push(&conn->waiting, call, NULL);
}

void weir_redis_conn_wait_first(struct weir_redis_conn *conn, struct weir_redis_call *call)
{
    push(&conn->waiting, call, conn->waiting.first);
}

bool weir_redis_conn_cancel(struct weir_redis_conn *conn, struct weir_redis_call *call)
{
    if (call->queue != &conn->urgent && call->queue != &conn->waiting)
        return false;
    take(call);
    return true;
}

/* ---- writing ---- */

void weir_redis_conn_write(struct weir_redis_conn *conn, struct weir_redis_call *call)
{
    weir_assert(!call->queue);
    size_t before = conn->output.end - conn->output.begin;
    if (!call->write(call, &conn->output)) {
        call->answered(call, NULL, false);
        return;
    }
    conn->written += conn->output.end - conn->output.begin - before;
    call->end = conn->written;
    push(&conn->sent, call, NULL);
}

/* Moves waiting calls into the output until it is full enough. */
static void stage(struct weir_redis_conn *conn, void (*batch_end)(void *context))
{
    uint64_t openings = conn->openings;
    struct weir_redis_queue *queues[] = { &conn->urgent, &conn->waiting };
    size_t count = conn->admits ? 2 : 1;
    bool batch = false;
    for (size_t i = 0; i < count; i++) {
        while (queues[i]->first && conn->output.end - conn->output.begin < WEIR_REDIS_STAGED_MAX) {
            struct weir_redis_call *call = queues[i]->first;
            uint64_t before = conn->written;
            if (call->yields && conn->owner.holds(conn->owner.context))
                break;
            take(call);
            weir_redis_conn_write(conn, call);
            if (conn->openings != openings)
                return;
            batch = batch || (i == 1 && conn->written != before);
        }
    }
    if (batch && batch_end)
        batch_end(conn->owner.context);
}

void weir_redis_conn_flush(struct weir_redis_conn *conn, void (*batch_end)(void *context))
{
    uint64_t openings = conn->openings;
    while (conn->open && conn->openings == openings) {
        struct weir_redis_output *output = &conn->output;
        stage(conn, batch_end);
        size_t size = output->end - output->begin;
        if (size == 0 || conn->openings != openings || !conn->open)
            return;
        size_t taken = weir_redis_link_send(conn->link, output->data + output->begin, size);
        output->begin += taken;
        conn->taken += taken;
        if (taken < size)
            return;
    }
}

/* ---- the link's words ---- */

static void on_opened(void *context)
{
    struct weir_redis_conn *conn = context;
    conn->open = true;
    conn->owner.opened(conn->owner.context);
}

static void on_writable(void *context)
{
    (void)context; /* the loop's turn ends with a flush */
}

static void on_broken(void *context, const char *why)
{
    struct weir_redis_conn *conn = context;
    conn->open = false;
    conn->owner.broken(conn->owner.context, why);
}

/* The next reply is the oldest call's. */
static bool answer(struct weir_redis_conn *conn, redisReply *reply)
{
    struct weir_redis_call *call = conn->sent.first;
    if (call) {
        take(call);
        call->answered(call, reply, true);
    }
    freeReplyObject(reply);
    return call != NULL;
}

static void on_heard(void *context, const char *data, size_t size)
{
    struct weir_redis_conn *conn = context;
    uint64_t openings = conn->openings;
    const char *why = NULL;
    if (weir_redis_reader_feed(&conn->reader, data, size))
        why = "no memory for its reply";
    while (!why) {
        redisReply *reply;
        int error = weir_redis_reader_next(&conn->reader, &reply);
        if (error == WEIR_EAGAIN)
            return;
        if (error)
            why = error == WEIR_ELIMIT ? "its reply is too long" : "it does not speak RESP";
        else if (!answer(conn, reply))
            why = "a reply that nobody asked for";
        if (conn->openings != openings || !conn->open)
            return;
    }
    on_broken(conn, why);
}

/* ---- open and close ---- */

int weir_redis_conn_open(struct weir_redis_conn *conn, uv_loop_t *loop, const struct weir_redis_place *place,
                         const struct weir_redis_conn_owner *owner)
{
    weir_assert(!conn->link);
    const struct weir_redis_link_owner link_owner = { on_opened, on_heard, on_writable, on_broken, conn };
    struct weir_redis_reader reader;
    int error = weir_redis_reader_init(&reader);
    if (error)
        return error;
    error = weir_redis_link_open(loop, place, &link_owner, &conn->link);
    if (error) {
        int reason = errno;
        weir_redis_reader_deinit(&reader);
        errno = reason;
        return error;
    }
    conn->reader = reader;
    conn->owner = *owner;
    conn->openings++;
    return 0;
}

static void answer_all(struct weir_redis_conn *conn, struct weir_redis_queue *queue, uint64_t taken)
{
    while (queue->first) {
        struct weir_redis_call *call = queue->first;
        take(call);
        bool sent = queue == &conn->sent && call->end <= taken;
        call->answered(call, NULL, sent);
    }
}

void weir_redis_conn_close(struct weir_redis_conn *conn)
{
    uint64_t taken = conn->taken;
    weir_redis_link_close(conn->link);
    weir_redis_reader_deinit(&conn->reader);
    conn->link = NULL;
    conn->open = conn->admits = false;
    conn->output.begin = conn->output.end = 0;
    conn->written = conn->taken = 0;
    conn->openings++;
    answer_all(conn, &conn->sent, taken);
    answer_all(conn, &conn->urgent, taken);
    answer_all(conn, &conn->waiting, taken);
}

void weir_redis_conn_deinit(struct weir_redis_conn *conn)
{
    weir_assert(!conn->link && weir_redis_conn_idle(conn));
    free(conn->output.data);
    conn->output = (struct weir_redis_output){ 0 };
}

void weir_redis_conn_admit(struct weir_redis_conn *conn)
{
    conn->admits = true;
}

bool weir_redis_conn_idle(const struct weir_redis_conn *conn)
{
    return !conn->urgent.first && !conn->waiting.first && !conn->sent.first;
}

bool weir_redis_conn_stalled(const struct weir_redis_conn *conn, uint64_t now_ns)
{
    return conn->sent.first && conn->sent.first->patience_ns <= now_ns;
}
