/* SPDX-License-Identifier: Apache-2.0
 *
 * The successor waits for the predecessor, one message after the other: it has nothing else to do yet. A connection's
 * bytes come behind it, in pieces. Called by cli/serve_takeover.c and, once it decides, by server.c. */
#include "serve/takeover_join.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fault_format.h"
#include "serve/takeover_channel.h"
#include "weir/version.h"

/* For how long the predecessor may say nothing. It ends a take-over sooner by itself. */
#define ANSWER_MS 30000
/* No connection has more: that of a command or a body, and a RESP transaction. */
#define BYTES_MAX ((size_t)64 << 20)

struct weir_takeover_join {
    int fd, socket_fd, counters_fd, lock_fd;
    struct weir_takeover_welcome welcome;
    struct weir_handed_listener *listeners[WEIR_LISTENERS_MAX];
    struct weir_takeover_taken *first, *last; /* connections */
    size_t connections;
    struct weir_common *common; /* they go to, once it decides */
    size_t next_loop;
    uv_poll_t *poll;
    struct weir_takeover_message message;
};

/* ---- messages ---- */

static int odd(struct weir_fault *ret_fault)
{
    return weir_fault_format(ret_fault, WEIR_EPROTO, "take-over", "the weir there says what nobody says");
}

/* The next one; a refusal is an error. */
static int hear(struct weir_takeover_join *join, struct weir_fault *ret_fault)
{
    struct weir_takeover_message *message = &join->message;
    int error = weir_takeover_receive(join->fd, ANSWER_MS, message);
    if (error == WEIR_EPROTO)
        return odd(ret_fault);
    if (error == WEIR_ELIMIT)
        return weir_fault_format(ret_fault, error, "take-over",
                                 "this process may have too few descriptors for the connections there (ulimit -n)");
    if (error)
        return weir_fault_format(ret_fault, WEIR_EIO, "take-over", "the weir there %s",
                                 error == WEIR_EAGAIN ? "does not answer" : "has ended or given up");
    if (message->kind != WEIR_TAKEOVER_REFUSED)
        return 0;
    weir_takeover_drop(message);
    return weir_fault_format(ret_fault, WEIR_EHELD, "take-over", "the weir there does not hand over: %.*s",
                             (int)strnlen((const char *)message->body, message->size < 120 ? message->size : 120),
                             (const char *)message->body);
}

static int say(struct weir_takeover_join *join, enum weir_takeover_kind kind, const void *body, size_t size,
               struct weir_fault *ret_fault)
{
    if (weir_takeover_send(join->fd, kind, body, size, NULL, 0) == 0)
        return 0;
    /* Perhaps it has said why. */
    int error = hear(join, ret_fault);
    if (error)
        return error;
    weir_takeover_drop(&join->message);
    return odd(ret_fault);
}

/* ---- listeners ---- */

static struct weir_handed_listener *listener_of(struct weir_takeover_join *join,
                                                const struct weir_takeover_listener *told)
{
    struct weir_handed_listener *listener;
    if (told->number >= WEIR_LISTENERS_MAX)
        return NULL;
    listener = join->listeners[told->number];
    if (listener)
        return listener;
    listener = calloc(1, sizeof(*listener));
    if (!listener)
        return NULL;
    (void)snprintf(listener->protocol, sizeof(listener->protocol), "%.*s", (int)sizeof(told->protocol) - 1,
                   told->protocol);
    (void)snprintf(listener->configured, sizeof(listener->configured), "%.*s", WEIR_LISTEN_NAME_MAX - 1,
                   told->configured);
    (void)snprintf(listener->listening.name, sizeof(listener->listening.name), "%.*s", WEIR_LISTEN_NAME_MAX - 1,
                   told->bound);
    listener->shared = told->shared;
    listener->passed = told->passed;
    listener->listening.file = told->file;
    listener->listening.device = told->device;
    listener->listening.inode = told->inode;
    listener->listening.made_s = told->made_s;
    listener->listening.made_ns = told->made_ns;
    join->listeners[told->number] = listener;
    return listener;
}

static int take_listener(struct weir_takeover_join *join)
{
    struct weir_takeover_message *message = &join->message;
    struct weir_takeover_listener told;
    if (!weir_takeover_body(message, &told, sizeof(told)))
        return WEIR_EPROTO;
    struct weir_handed_listener *listener = listener_of(join, &told);
    if (!listener || message->fds_count > WEIR_HANDED_FDS_MAX - listener->count)
        return WEIR_EPROTO;
    for (size_t i = 0; i < message->fds_count; i++) {
        listener->fds[listener->count++] = message->fds[i];
        message->fds[i] = -1;
    }
    return 0;
}

static void drop_listeners(struct weir_takeover_join *join)
{
    for (size_t i = 0; i < WEIR_LISTENERS_MAX; i++) {
        for (size_t k = 0; join->listeners[i] && k < join->listeners[i]->count; k++)
            close(join->listeners[i]->fds[k]);
        free(join->listeners[i]);
        join->listeners[i] = NULL;
    }
}

static int greet(struct weir_takeover_join *join, struct weir_fault *ret_fault)
{
    struct weir_takeover_message *message = &join->message;
    struct weir_takeover_hello hello = { .protocol = WEIR_TAKEOVER_PROTOCOL, .pid = getpid() };
    (void)snprintf(hello.version, sizeof(hello.version), "%s", WEIR_VERSION);
    int error = say(join, WEIR_TAKEOVER_HELLO, &hello, sizeof(hello), ret_fault);
    if (!error)
        error = hear(join, ret_fault);
    if (error)
        return error;
    if (message->kind != WEIR_TAKEOVER_WELCOME || message->fds_count != 1 ||
        !weir_takeover_body(message, &join->welcome, sizeof(join->welcome)))
        return odd(ret_fault);
    join->socket_fd = message->fds[0];
    message->fds[0] = -1;
    join->welcome.hello.version[sizeof(join->welcome.hello.version) - 1] = '\0';
    for (;;) {
        error = hear(join, ret_fault);
        if (error || message->kind == WEIR_TAKEOVER_LISTENED)
            return error;
        if (message->kind != WEIR_TAKEOVER_LISTENER || take_listener(join))
            return odd(ret_fault);
    }
}

int weir_takeover_join_create(const char *path, struct weir_takeover_join **ret_join, struct weir_fault *ret_fault)
{
    struct weir_takeover_join *join = calloc(1, sizeof(*join));
    if (!join)
        return weir_fault_format(ret_fault, WEIR_ENOMEM, "take-over", "out of memory");
    join->fd = join->socket_fd = join->counters_fd = join->lock_fd = -1;
    (void)weir_listen_room(1); /* descriptors for all that comes */
    int error = weir_takeover_connect(path, &join->fd, ret_fault);
    if (!error)
        error = greet(join, ret_fault);
    if (error) {
        weir_takeover_join_destroy(join);
        return error;
    }
    *ret_join = join;
    return 0;
}

/* ---- counters and connections ---- */

static int take_conn(struct weir_takeover_join *join)
{
    struct weir_takeover_message *message = &join->message;
    struct weir_takeover_conn told;
    if (message->fds_count != 1 || !weir_takeover_body(message, &told, sizeof(told)) ||
        (size_t)told.state_size + told.input_size > BYTES_MAX)
        return WEIR_EPROTO;
    struct weir_takeover_taken *taken = calloc(1, sizeof(*taken) + told.state_size + told.input_size);
    if (!taken)
        return WEIR_ENOMEM;
    taken->told = told;
    taken->told.protocol[sizeof(told.protocol) - 1] = '\0';
    taken->fd = message->fds[0];
    message->fds[0] = -1;
    if (join->last)
        join->last->next = taken;
    else
        join->first = taken;
    join->last = taken;
    join->connections++;
    return 0;
}

static size_t missing(const struct weir_takeover_taken *taken)
{
    return taken ? taken->told.state_size + taken->told.input_size - taken->got : 0;
}

static int take_bytes(struct weir_takeover_join *join)
{
    const struct weir_takeover_message *message = &join->message;
    struct weir_takeover_taken *taken = join->last;
    if (message->size > missing(taken))
        return WEIR_EPROTO;
    memcpy(taken->bytes + taken->got, message->body, message->size);
    taken->got += message->size;
    return 0;
}

/* A connection, or bytes of the one before. */
static int take(struct weir_takeover_join *join)
{
    int error = WEIR_EPROTO;
    if (join->message.kind == WEIR_TAKEOVER_CONN && missing(join->last) == 0)
        error = take_conn(join);
    else if (join->message.kind == WEIR_TAKEOVER_BYTES)
        error = take_bytes(join);
    weir_takeover_drop(&join->message);
    return error;
}

static int take_state(struct weir_takeover_join *join)
{
    struct weir_takeover_message *message = &join->message;
    if (message->kind != WEIR_TAKEOVER_STATE || message->fds_count < 1 || message->fds_count > 2)
        return WEIR_EPROTO;
    join->counters_fd = message->fds[0];
    message->fds[0] = -1;
    if (message->fds_count > 1) {
        join->lock_fd = message->fds[1];
        message->fds[1] = -1;
    }
    return 0;
}

int weir_takeover_join_ready(struct weir_takeover_join *join, struct weir_fault *ret_fault)
{
    struct weir_takeover_end end;
    int error = say(join, WEIR_TAKEOVER_READY, NULL, 0, ret_fault);
    if (!error)
        error = hear(join, ret_fault);
    if (error)
        return error;
    if (take_state(join))
        return odd(ret_fault);
    for (;;) {
        error = hear(join, ret_fault);
        if (error)
            return error;
        if (join->message.kind == WEIR_TAKEOVER_END)
            break;
        error = take(join);
        if (error)
            return error == WEIR_ENOMEM ? weir_fault_format(ret_fault, error, "take-over", "out of memory")
                                        : odd(ret_fault);
    }
    bool whole = weir_takeover_body(&join->message, &end, sizeof(end)) && end.connections == join->connections &&
                 missing(join->last) == 0;
    return whole ? 0 : odd(ret_fault);
}

int weir_takeover_join_begin_deciding(struct weir_takeover_join *join, struct weir_fault *ret_fault)
{
    int error = say(join, WEIR_TAKEOVER_TAKEN, NULL, 0, ret_fault);
    if (!error)
        error = hear(join, ret_fault);
    if (error)
        return error;
    if (join->message.kind != WEIR_TAKEOVER_GO)
        return odd(ret_fault);
    /* Whoever said GO decides no more, unless it sees us end. If it has ended itself meanwhile, this process is the one
     * that is left. */
    error = weir_takeover_send(join->fd, WEIR_TAKEOVER_DECIDING, NULL, 0, NULL, 0);
    if (error && weir_takeover_receive(join->fd, 0, &join->message) != WEIR_EIO)
        return odd(ret_fault);
    drop_listeners(join); /* the loops have their own descriptors */
    if (join->lock_fd >= 0)
        close(join->lock_fd); /* so has who writes the file of the lock, if it still is this one */
    join->lock_fd = -1;
    return 0;
}

/* ---- it decides ---- */

void weir_takeover_join_adopt(struct weir_takeover_join *join, struct weir_common *common)
{
    join->common = common;
    for (struct weir_takeover_taken *taken = join->first, *next; taken; taken = next) {
        next = taken->next;
        if (missing(taken) > 0)
            break; /* the last one: the rest of it is on its way */
        join->first = next;
        weir_loop_arrive(&common->loops[join->next_loop++ % common->loop_count], taken);
    }
    if (!join->first)
        join->last = NULL;
}

static void on_closed(uv_handle_t *handle)
{
    free(handle);
}

static void on_more(uv_poll_t *poll, int status, int events)
{
    struct weir_takeover_join *join = poll->data;
    (void)status;
    (void)events;
    for (;;) {
        int error = weir_takeover_receive(join->fd, 0, &join->message);
        if (error == WEIR_EAGAIN)
            return;
        if (error || take(join)) {
            weir_takeover_join_close(join); /* it has ended */
            return;
        }
        weir_takeover_join_adopt(join, join->common);
    }
}

int weir_takeover_join_follow(struct weir_takeover_join *join, struct weir_common *common, uv_loop_t *uv)
{
    join->common = common;
    join->poll = malloc(sizeof(*join->poll));
    if (!join->poll || uv_poll_init(uv, join->poll, join->fd)) {
        free(join->poll);
        join->poll = NULL;
        return WEIR_ENOMEM;
    }
    join->poll->data = join;
    uv_poll_start(join->poll, UV_READABLE, on_more);
    return 0;
}

bool weir_takeover_join_is_open(const struct weir_takeover_join *join)
{
    return join && join->poll;
}

void weir_takeover_join_close(struct weir_takeover_join *join)
{
    if (!join)
        return;
    if (join->poll)
        uv_close((uv_handle_t *)join->poll, on_closed);
    join->poll = NULL;
    if (join->fd >= 0)
        close(join->fd);
    join->fd = -1;
}

/* ---- what it has ---- */

const char *weir_takeover_join_version(const struct weir_takeover_join *join)
{
    return join->welcome.hello.version;
}

int32_t weir_takeover_join_pid(const struct weir_takeover_join *join)
{
    return join->welcome.hello.pid;
}

static int hand_out(int *fd)
{
    const int had = *fd;
    *fd = -1;
    return had;
}

int weir_takeover_join_take_socket(struct weir_takeover_join *join)
{
    return hand_out(&join->socket_fd);
}

int weir_takeover_join_take_counters(struct weir_takeover_join *join)
{
    return hand_out(&join->counters_fd);
}

const struct weir_handed_listener *weir_takeover_join_listener(const struct weir_takeover_join *join, size_t index)
{
    return join->listeners[index];
}

void weir_takeover_join_tell(const struct weir_takeover_join *join, struct weir_systemd *systemd)
{
    (void)weir_systemd_go_on(systemd, join->welcome.notify, join->welcome.notify_size, join->welcome.watchdog_ns);
}

int weir_takeover_join_lock(const struct weir_takeover_join *join)
{
    return join->lock_fd;
}

size_t weir_takeover_join_connections(const struct weir_takeover_join *join)
{
    return join->connections;
}

void weir_takeover_join_destroy(struct weir_takeover_join *join)
{
    if (!join)
        return;
    weir_takeover_join_close(join);
    weir_takeover_drop(&join->message);
    const int fds[] = { join->socket_fd, join->counters_fd, join->lock_fd };
    for (size_t i = 0; i < sizeof(fds) / sizeof(fds[0]); i++)
        if (fds[i] >= 0)
            close(fds[i]);
    drop_listeners(join);
    for (struct weir_takeover_taken *taken = join->first, *next; taken; taken = next) {
        next = taken->next;
        weir_takeover_taken_free(taken);
    }
    free(join);
}
