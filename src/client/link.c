/* SPDX-License-Identifier: Apache-2.0
 *
 * Implements struct weir_locks of weir/lock.h: the server's address, the HELLO that begins each connection, and the
 * idle connections under a mutex. A call takes an idle connection or opens one, sends its command and reads one reply.
 * After an error the connection is closed, so that a late reply is not taken for that of the next command. What is
 * asked, and how often, is in ask.c; connect and disconnect are called by programs, such as cli/lock.c. */
#include "client/link.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/fault_format.h"
#include "base/reserved.h"
#include "client/clock.h"
#include "client/dial.h"
#include "wire/resp_write.h"

#define TOKEN_MAX 512 /* bytes, as the server's */

struct weir_locks {
    struct weir_dial_address address;
    uint64_t timeout_ns;
    uint8_t hello[128 + TOKEN_MAX];
    size_t hello_size;
    pthread_mutex_t mutex; /* of what follows */
    int idle[WEIR_LINK_IDLE_MAX];
    size_t idle_count;
    struct weir_fault fault;
};

uint64_t weir_locks_timeout_ns(const struct weir_locks *locks)
{
    return locks->timeout_ns;
}

void weir_locks_fail(struct weir_locks *locks, const struct weir_fault *fault)
{
    (void)pthread_mutex_lock(&locks->mutex);
    locks->fault = *fault;
    (void)pthread_mutex_unlock(&locks->mutex);
}

void weir_locks_fault(struct weir_locks *locks, struct weir_fault *ret_fault)
{
    (void)pthread_mutex_lock(&locks->mutex);
    *ret_fault = locks->fault;
    (void)pthread_mutex_unlock(&locks->mutex);
}

/* ---- one question on one link ---- */

static bool wait_for(int fd, short events, uint64_t deadline_ns)
{
    for (;;) {
        struct pollfd waiting = { .fd = fd, .events = events };
        int ready = poll(&waiting, 1, weir_clock_poll_ms(deadline_ns));
        if (ready > 0)
            return true;
        if (ready == 0 && weir_clock_now_ns() < deadline_ns)
            continue; /* a wait of more ms than poll takes */
        if (ready == 0)
            errno = ETIMEDOUT;
        if (ready == 0 || errno != EINTR)
            return false;
    }
}

static int send_all(int fd, const uint8_t *data, size_t size, uint64_t deadline_ns, struct weir_fault *ret_fault)
{
    for (size_t sent = 0; sent < size;) {
        ssize_t step = send(fd, data + sent, size - sent, MSG_NOSIGNAL);
        if (step > 0)
            sent += (size_t)step;
        else if ((errno != EAGAIN && errno != EINTR) || !wait_for(fd, POLLOUT, deadline_ns))
            /* The server never runs a command whose last byte it has not seen. */
            return weir_fault_format(ret_fault, WEIR_EDOWN, "server", "%s", strerror(errno));
    }
    return 0;
}

static int answer_read(int fd, uint64_t deadline_ns, struct weir_link_answer *answer, struct weir_fault *ret_fault)
{
    size_t have = 0;
    size_t used = 0;
    int error = WEIR_EAGAIN;
    while (error == WEIR_EAGAIN && have < sizeof(answer->data)) {
        ssize_t step = recv(fd, answer->data + have, sizeof(answer->data) - have, 0);
        if (step == 0)
            return weir_fault_format(ret_fault, WEIR_EUNKNOWN, "server", "closed the connection before it answered");
        if (step < 0 && errno != EAGAIN && errno != EINTR)
            return weir_fault_format(ret_fault, WEIR_EUNKNOWN, "server", "%s", strerror(errno));
        if (step < 0 && !wait_for(fd, POLLIN, deadline_ns))
            return weir_fault_format(ret_fault, WEIR_EUNKNOWN, "server", "no answer in time");
        have += step > 0 ? (size_t)step : 0;
        error = weir_resp_answer_parse(answer->data, have, answer->values, WEIR_LINK_VALUES_MAX, &answer->count, &used);
    }
    if (error || used != have)
        return weir_fault_format(ret_fault, WEIR_EUNKNOWN, "server", "what answers there does not speak RESP");
    return 0;
}

static int ask(int fd, const uint8_t *command, size_t size, uint64_t deadline_ns, struct weir_link_answer *ret_answer,
               struct weir_fault *ret_fault)
{
    ret_answer->sent_ns = weir_clock_now_ns();
    int error = send_all(fd, command, size, deadline_ns, ret_fault);
    return error ? error : answer_read(fd, deadline_ns, ret_answer, ret_fault);
}

/* ---- links ---- */

static bool text_is(const struct weir_resp_value *value, const char *text)
{
    return value->type == WEIR_RESP_BULK && value->text.size == strlen(text) &&
           memcmp(value->text.data, text, value->text.size) == 0;
}

/* HELLO's answer names the server, as the value of "server". */
static int hello_check(const struct weir_link_answer *answer, struct weir_fault *ret_fault)
{
    const struct weir_resp_value *first = &answer->values[0];
    if (first->type == WEIR_RESP_ERROR)
        return weir_fault_format(ret_fault, WEIR_EDOWN, "server", "%.*s", (int)first->text.size,
                                 (const char *)first->text.data);
    for (size_t i = 0; i + 1 < answer->count; i++) {
        if (text_is(&answer->values[i], "server") && text_is(&answer->values[i + 1], "weir"))
            return 0;
    }
    return weir_fault_format(ret_fault, WEIR_EDOWN, "server", "what answers there is not weir");
}

/* Whatever fails here, nothing has been asked of the locks. */
static int link_open(struct weir_locks *locks, uint64_t deadline_ns, struct weir_link_answer *scratch, int *ret_fd,
                     struct weir_fault *ret_fault)
{
    int fd = -1;
    int error = weir_dial(&locks->address, deadline_ns, &fd, ret_fault);
    if (error)
        return error;
    error = ask(fd, locks->hello, locks->hello_size, deadline_ns, scratch, ret_fault);
    if (!error)
        error = hello_check(scratch, ret_fault);
    if (error) {
        (void)close(fd);
        return WEIR_EDOWN;
    }
    *ret_fd = fd;
    return 0;
}

/* An idle link that the server has not closed meanwhile, or -1. */
static int link_take(struct weir_locks *locks)
{
    int fd = -1;
    (void)pthread_mutex_lock(&locks->mutex);
    while (fd < 0 && locks->idle_count > 0) {
        char byte;
        fd = locks->idle[--locks->idle_count];
        if (recv(fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) >= 0 || errno != EAGAIN) {
            (void)close(fd); /* ended, or it says what nobody asked */
            fd = -1;
        }
    }
    (void)pthread_mutex_unlock(&locks->mutex);
    return fd;
}

static void link_keep(struct weir_locks *locks, int fd)
{
    (void)pthread_mutex_lock(&locks->mutex);
    bool room = locks->idle_count < WEIR_LINK_IDLE_MAX;
    if (room)
        locks->idle[locks->idle_count++] = fd;
    (void)pthread_mutex_unlock(&locks->mutex);
    if (!room)
        (void)close(fd);
}

int weir_locks_call(struct weir_locks *locks, const uint8_t *command, size_t size, uint64_t deadline_ns,
                    struct weir_link_answer *ret_answer)
{
    struct weir_fault fault = { 0 };
    int fd = link_take(locks);
    int error = fd >= 0 ? 0 : link_open(locks, deadline_ns, ret_answer, &fd, &fault);
    if (!error) {
        error = ask(fd, command, size, deadline_ns, ret_answer, &fault);
        if (error)
            (void)close(fd); /* a late answer must not be taken for the next one's */
        else
            link_keep(locks, fd);
    }
    if (error)
        weir_locks_fail(locks, &fault);
    return error;
}

/* ---- all of them ---- */

static void hello_make(struct weir_locks *locks, const char *token)
{
    uint8_t *at = weir_resp_put_array(locks->hello, token ? 5 : 2);
    at = weir_resp_put_bulk(at, "HELLO", 5);
    at = weir_resp_put_bulk(at, "2", 1);
    if (token) {
        at = weir_resp_put_bulk(at, "AUTH", 4);
        at = weir_resp_put_bulk(at, "default", 7);
        at = weir_resp_put_bulk(at, token, strlen(token));
    }
    locks->hello_size = (size_t)(at - locks->hello);
    weir_assert(locks->hello_size <= sizeof(locks->hello));
}

int weir_locks_connect(const struct weir_locks_options *options, struct weir_locks **ret_locks,
                       struct weir_fault *ret_fault)
{
    struct weir_link_answer answer;
    struct weir_dial_address address;
    if (weir_reserved_used(options->reserved, sizeof options->reserved))
        return weir_fault_format(ret_fault, WEIR_EINVAL, "reserved", WEIR_RESERVED_TEXT);
    int error = weir_dial_parse(options->address ? options->address : "127.0.0.1:6380", &address, ret_fault);
    if (error)
        return error;
    if (options->token && (!*options->token || strlen(options->token) > TOKEN_MAX))
        return weir_fault_format(ret_fault, WEIR_EINVAL, "token", "must be 1 to %d bytes", TOKEN_MAX);
    struct weir_locks *locks = calloc(1, sizeof(*locks));
    if (!locks || pthread_mutex_init(&locks->mutex, NULL) != 0) {
        free(locks);
        return weir_fault_format(ret_fault, WEIR_ENOMEM, "", "out of memory");
    }
    locks->address = address;
    locks->timeout_ns = (options->timeout_ms ? options->timeout_ms : 5000) * WEIR_NS_PER_MS;
    hello_make(locks, options->token);
    int fd = -1;
    error = link_open(locks, weir_clock_now_ns() + locks->timeout_ns, &answer, &fd, ret_fault);
    if (error) {
        weir_locks_disconnect(locks);
        return WEIR_EIO;
    }
    link_keep(locks, fd);
    *ret_locks = locks;
    return 0;
}

void weir_locks_disconnect(struct weir_locks *locks)
{
    if (!locks)
        return;
    while (locks->idle_count > 0)
        (void)close(locks->idle[--locks->idle_count]);
    (void)pthread_mutex_destroy(&locks->mutex);
    explicit_bzero(locks->hello, sizeof(locks->hello));
    free(locks);
}
