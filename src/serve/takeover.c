/* SPDX-License-Identifier: Apache-2.0
 *
 * One state after the other, each with a time by which it must be over. A message of the successor, or a tick while a
 * successor is there, moves it on. What fails before GO is told to the successor and undone (go_on). After GO there is
 * one question: is the successor still there? If it is and says nothing, it is killed, so that the kernel can answer.
 * Called by server.c. What is sent of loops and connections: takeover_send.c, loop_hand.c, conn_hand.c. */
#include "serve/takeover.h"

#include <inttypes.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/phase.h"
#include "base/plural.h"
#include "serve/locks.h"
#include "serve/saver.h"
#include "serve/takeover_channel.h"
#include "serve/takeover_loops.h"
#include "serve/takeover_send.h"
#include "weir/version.h"

#define TICK_MS 2

enum state {
    NOBODY,    /* has come */
    GREETED,   /* somebody has; HELLO is to come */
    PREPARING, /* it reads its configuration; READY is to come */
    PARTING,   /* connections with TLS are drained */
    FREEZING,  /* requests under way are answered */
    HANDING,   /* connections go */
    TAKING,    /* it puts together what it got; TAKEN is to come */
    GOING,     /* GO was said; DECIDING is to come, or its end */
    GONE,      /* it decides */
    STATES
};

#define MAY(to) WEIR_PHASE(to)

static const struct weir_phase states[STATES] = {
    [NOBODY] = { "nobody", MAY(GREETED) },
    [GREETED] = { "greeted", MAY(NOBODY) | MAY(PREPARING) },
    [PREPARING] = { "preparing", MAY(NOBODY) | MAY(PARTING) },
    [PARTING] = { "parting", MAY(NOBODY) | MAY(FREEZING) },
    [FREEZING] = { "freezing", MAY(NOBODY) | MAY(HANDING) },
    [HANDING] = { "handing", MAY(NOBODY) | MAY(TAKING) },
    [TAKING] = { "taking", MAY(NOBODY) | MAY(GOING) },
    [GOING] = { "going", MAY(NOBODY) | MAY(GONE) },
    [GONE] = { "gone", 0 },
};

/* By when each must be over, in s, and what is said if it is not. Of GREETED on. */
static const struct {
    unsigned longest_s;
    const char *why;
} bounds[STATES] = {
    [GREETED] = { 5, "the successor said nothing for 5 s" },
    [PREPARING] = { 60, "the successor was not ready after 60 s" },
    [PARTING] = { 5, "" }, /* who is not done by then is frozen as it is */
    [FREEZING] = { 5, "what is under way was not answered within 5 s" },
    [HANDING] = { 10, "the successor did not take the connections within 10 s" },
    [TAKING] = { 20, "the successor had not put all together after 20 s" },
    [GOING] = { 2, "" }, /* killed */
};

struct weir_takeover {
    struct weir_takeover_options options;
    uv_poll_t listen_poll, *channel; /* a channel's handle outlives it until its callback */
    uv_timer_t tick;
    int listen_fd, fd, pid_fd;
    int32_t pid;
    enum state state;
    uint64_t since_ns, frozen_ns;
    bool asked;      /* HELLO has come */
    bool owns;       /* the socket's file */
    bool locks_lost; /* the store could not be opened again yet */
    uint64_t reopen_ns;
    struct weir_takeover_hello hello; /* of the successor */
    struct weir_takeover_message message;
};

__attribute__((format(printf, 4, 5))) static void say(struct weir_takeover *takeover, enum weir_log_level level,
                                                      const char *event, const char *format, ...)
{
    char message[512];
    va_list list;
    va_start(list, format);
    (void)vsnprintf(message, sizeof(message), format, list);
    va_end(list);
    weir_logger_write(takeover->options.logger, weir_time_read().wall_ns, level, event, message);
}

static void move(struct weir_takeover *takeover, enum state to)
{
    weir_phase_check(states, takeover->state, to);
    takeover->state = to;
    takeover->since_ns = uv_hrtime();
}

/* ---- the end of one ---- */

static void on_channel_closed(uv_handle_t *handle)
{
    free(handle);
}

static void forget_successor(struct weir_takeover *takeover)
{
    struct weir_common *common = takeover->options.common;
    if (takeover->fd >= 0)
        (void)shutdown(takeover->fd, SHUT_RDWR); /* a loop that sends on it stops */
    pthread_mutex_lock(&common->handing_lock);
    common->handing_fd = -1;
    pthread_mutex_unlock(&common->handing_lock);
    if (takeover->channel) {
        uv_close((uv_handle_t *)takeover->channel, on_channel_closed);
        takeover->channel = NULL;
    }
    if (takeover->fd >= 0)
        close(takeover->fd);
    if (takeover->pid_fd >= 0)
        close(takeover->pid_fd);
    takeover->fd = takeover->pid_fd = -1;
}

static void reopen_locks(struct weir_takeover *takeover)
{
    struct weir_lock_engine *engine = NULL;
    takeover->reopen_ns = uv_hrtime() + WEIR_NS_PER_SECOND;
    takeover->locks_lost = takeover->options.reopen_locks(takeover->options.context, &engine) != 0 || !engine ||
                           weir_lock_service_go_on(takeover->options.common->locks, engine) != 0;
}

/* As if nobody had come. */
static void go_on(struct weir_takeover *takeover)
{
    const struct weir_common *common = takeover->options.common;
    const enum state was = takeover->state;
    move(takeover, NOBODY);
    forget_successor(takeover);
    if (was >= HANDING) {
        if (common->saver && weir_saver_go_on(common->saver))
            say(takeover, WEIR_LOG_ERROR, "snapshot_failed", "no thread for snapshots");
        if (common->locks)
            reopen_locks(takeover);
    }
    if (was >= PARTING)
        weir_takeover_step(takeover->options.common, WEIR_HANDING_NONE);
    if (!takeover->locks_lost)
        uv_timer_stop(&takeover->tick);
    if (was >= PREPARING)
        takeover->options.ended(takeover->options.context, false, 0, -1);
}

__attribute__((format(printf, 2, 3))) static void fail(struct weir_takeover *takeover, const char *format, ...)
{
    char why[WEIR_TAKEOVER_TEXT_MAX];
    va_list list;
    va_start(list, format);
    (void)vsnprintf(why, sizeof(why), format, list);
    va_end(list);
    (void)weir_takeover_send(takeover->fd, WEIR_TAKEOVER_REFUSED, why, strlen(why) + 1, NULL, 0);
    say(takeover, WEIR_LOG_ERROR, "take_over_failed", "this weir goes on: %s", why);
    go_on(takeover);
}

/* Nobody comes in any more. `removes`: nor finds the file, if it is ours. */
static void stop_listening(struct weir_takeover *takeover, bool removes)
{
    if (takeover->listen_fd < 0)
        return;
    uv_poll_stop(&takeover->listen_poll);
    if (removes && takeover->owns)
        (void)unlink(takeover->options.path);
    close(takeover->listen_fd);
    takeover->listen_fd = -1;
}

/* The successor decides. */
static void gone(struct weir_takeover *takeover)
{
    struct weir_common *common = takeover->options.common;
    size_t handed = 0;
    for (size_t i = 0; i < common->loop_count; i++)
        handed += atomic_load(&common->loops[i].handed);
    move(takeover, GONE);
    say(takeover, WEIR_LOG_INFO, "taken_over",
        "process %d decides, with %zu connection%s of ours; nothing was decided for %" PRIu64 " ms", takeover->pid,
        handed, weir_s(handed), (uv_hrtime() - takeover->frozen_ns) / 1000000);
    weir_opened_leave(takeover->options.opened);
    if (common->saver)
        weir_saver_leave(common->saver);
    uv_timer_stop(&takeover->tick);
    uv_poll_stop(takeover->channel);
    stop_listening(takeover, false);
    takeover->options.ended(takeover->options.context, true, takeover->pid, takeover->pid_fd);
    weir_takeover_step(takeover->options.common, WEIR_HANDING_GONE);
}

/* ---- from state to state ---- */

static void hand_state(struct weir_takeover *takeover)
{
    struct weir_common *common = takeover->options.common;
    struct weir_fault fault = { 0 };
    move(takeover, HANDING); /* from here on it is undone */
    if (common->saver)
        weir_saver_pause(common->saver);
    if (common->locks)
        weir_lock_service_suspend(common->locks);
    if (weir_takeover_send_state(takeover->fd, common, &fault)) {
        fail(takeover, "the counters were not handed over: %s", fault.text);
        return;
    }
    common->handing_fd = takeover->fd;
    weir_takeover_step(takeover->options.common, WEIR_HANDING_HANDS);
}

static void end_handing(struct weir_takeover *takeover)
{
    struct weir_common *common = takeover->options.common;
    struct weir_takeover_end end = { 0 };
    bool failed = false;
    for (size_t i = 0; i < common->loop_count; i++) {
        failed = failed || atomic_load(&common->loops[i].handing_failed);
        end.connections += atomic_load(&common->loops[i].handed);
    }
    if (failed || weir_takeover_send(takeover->fd, WEIR_TAKEOVER_END, &end, sizeof(end), NULL, 0))
        fail(takeover, "the successor did not take the connections");
    else
        move(takeover, TAKING);
}

static void freeze(struct weir_takeover *takeover)
{
    move(takeover, FREEZING);
    takeover->frozen_ns = uv_hrtime();
    weir_takeover_step(takeover->options.common, WEIR_HANDING_FREEZES);
}

/* First TLS, where there is any. A loop that has not heard yet that the successor before this one has gone does so
 * before. */
static bool has_parted(struct weir_takeover *takeover)
{
    struct weir_common *common = takeover->options.common;
    const bool tls = atomic_load(&common->setup)->tls != NULL;
    const bool begun = atomic_load(&common->handing) == WEIR_HANDING_PARTS;
    if (begun || !weir_takeover_all_seen(common))
        return begun && weir_takeover_all_still(common);
    if (tls)
        weir_takeover_step(takeover->options.common, WEIR_HANDING_PARTS);
    return !tls;
}

/* Of one that has GO, and says nothing or something else, nobody knows what it does before it is gone. */
static void give_up(struct weir_takeover *takeover, const char *why)
{
    if (takeover->state != GOING)
        fail(takeover, "%s", why);
    else if (takeover->pid_fd >= 0)
        (void)syscall(SYS_pidfd_send_signal, takeover->pid_fd, SIGKILL, NULL, 0);
}

/* Now, or as soon as what stands in the way has passed. */
static void prepare(struct weir_takeover *takeover)
{
    char why[WEIR_TAKEOVER_TEXT_MAX];
    enum weir_takeover_may may = takeover->options.may(takeover->options.context, takeover->pid, why, sizeof(why));
    const uint64_t waited_ns = uv_hrtime() - takeover->since_ns;
    if (may == WEIR_TAKEOVER_LATER && waited_ns < bounds[GREETED].longest_s * WEIR_NS_PER_SECOND)
        return;
    if (may != WEIR_TAKEOVER_MAY) {
        fail(takeover, "%s", why);
        return;
    }
    move(takeover, PREPARING);
    say(takeover, WEIR_LOG_INFO, "take_over_begun", "process %d, weir %.60s, prepares to take over", takeover->pid,
        takeover->hello.version);
    if (weir_takeover_send_welcome(takeover->fd, takeover->listen_fd, takeover->options.systemd,
                                   takeover->options.common, takeover->options.opened))
        fail(takeover, "the successor did not take the listeners");
}

static void on_late(struct weir_takeover *takeover)
{
    if (takeover->state == PARTING)
        freeze(takeover);
    else
        give_up(takeover, bounds[takeover->state].why);
}

static void on_tick(uv_timer_t *timer)
{
    struct weir_takeover *takeover = timer->data;
    const uint64_t now_ns = uv_hrtime();
    if (takeover->locks_lost && takeover->state == NOBODY && now_ns >= takeover->reopen_ns)
        reopen_locks(takeover);
    if (takeover->state == NOBODY) {
        if (!takeover->locks_lost)
            uv_timer_stop(timer);
        return;
    }
    if (takeover->state == GREETED && takeover->asked)
        prepare(takeover);
    else if (takeover->state == PARTING && has_parted(takeover))
        freeze(takeover);
    else if (takeover->state == FREEZING && weir_takeover_all_still(takeover->options.common))
        hand_state(takeover);
    else if (takeover->state == HANDING && weir_takeover_all_still(takeover->options.common))
        end_handing(takeover);
    else if (now_ns - takeover->since_ns > bounds[takeover->state].longest_s * WEIR_NS_PER_SECOND)
        on_late(takeover);
}

/* ---- what it says ---- */

static void on_hello(struct weir_takeover *takeover)
{
    struct weir_takeover_hello *hello = &takeover->hello;
    if (!weir_takeover_body(&takeover->message, hello, sizeof(*hello)) || hello->protocol != WEIR_TAKEOVER_PROTOCOL) {
        fail(takeover, "this weir (%s) hands over in another way: protocol %d", WEIR_VERSION, WEIR_TAKEOVER_PROTOCOL);
        return;
    }
    hello->version[sizeof(hello->version) - 1] = '\0';
    takeover->asked = true;
    prepare(takeover);
}

static void on_message(struct weir_takeover *takeover)
{
    const enum weir_takeover_kind kind = takeover->message.kind;
    weir_takeover_drop(&takeover->message); /* a successor has no descriptor for us */
    if (takeover->state == GREETED && kind == WEIR_TAKEOVER_HELLO && !takeover->asked) {
        on_hello(takeover);
    } else if (takeover->state == PREPARING && kind == WEIR_TAKEOVER_READY) {
        move(takeover, PARTING);
    } else if (takeover->state == TAKING && kind == WEIR_TAKEOVER_TAKEN) {
        move(takeover, GOING);
        (void)weir_takeover_send(takeover->fd, WEIR_TAKEOVER_GO, NULL, 0, NULL, 0); /* else its end is heard next */
    } else if (takeover->state == GOING && kind == WEIR_TAKEOVER_DECIDING) {
        gone(takeover);
    } else {
        give_up(takeover, "the successor says what it should not say now");
    }
}

static void on_channel(uv_poll_t *poll, int status, int events)
{
    struct weir_takeover *takeover = poll->data;
    (void)status, (void)events;
    while (takeover->channel == poll && takeover->state != GONE) {
        int error = weir_takeover_receive(takeover->fd, 0, &takeover->message);
        if (error == WEIR_EAGAIN)
            return;
        if (!error) {
            on_message(takeover);
        } else if (error != WEIR_EIO) {
            give_up(takeover, "the successor says what nobody says");
        } else {
            say(takeover, WEIR_LOG_ERROR, "take_over_failed", "this weir goes on: the successor has ended (%s)",
                states[takeover->state].name);
            go_on(takeover);
        }
    }
}

/* ---- somebody comes ---- */

static void refuse(int fd, const char *why)
{
    (void)weir_takeover_send(fd, WEIR_TAKEOVER_REFUSED, why, strlen(why) + 1, NULL, 0);
    close(fd);
}

static bool greet(struct weir_takeover *takeover, int fd)
{
    uv_poll_t *channel = malloc(sizeof(*channel));
    if (!channel || uv_poll_init(takeover->options.uv, channel, fd)) {
        free(channel);
        return false;
    }
    channel->data = takeover;
    takeover->channel = channel;
    takeover->fd = fd;
    takeover->pid_fd = (int)syscall(SYS_pidfd_open, takeover->pid, 0);
    takeover->asked = false;
    move(takeover, GREETED);
    uv_poll_start(channel, UV_READABLE, on_channel);
    uv_timer_start(&takeover->tick, on_tick, TICK_MS, TICK_MS);
    return true;
}

static void on_connect(uv_poll_t *poll, int status, int events)
{
    struct weir_takeover *takeover = poll->data;
    int32_t pid;
    (void)status, (void)events;
    int fd = accept4(takeover->listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd < 0)
        return;
    if (!weir_takeover_is_own(fd, &pid)) {
        refuse(fd, "only the user that this weir runs as, or root, may take it over");
    } else if (takeover->state != NOBODY) {
        refuse(fd, "another process is taking this weir over");
    } else {
        takeover->pid = pid;
        if (!greet(takeover, fd))
            refuse(fd, "out of memory");
    }
}

/* ---- life ---- */

int weir_takeover_create(const struct weir_takeover_options *options, struct weir_takeover **ret_takeover,
                         struct weir_fault *ret_fault)
{
    struct weir_takeover *takeover = calloc(1, sizeof(*takeover));
    int error = takeover ? 0 : WEIR_ENOMEM, listen_fd = options->listen_fd;
    if (!error && listen_fd < 0)
        error = weir_takeover_listen(options->path, &listen_fd, ret_fault);
    if (error) {
        free(takeover);
        return error;
    }
    takeover->options = *options;
    takeover->listen_fd = listen_fd;
    takeover->owns = options->listen_fd < 0;
    takeover->fd = takeover->pid_fd = -1;
    if (uv_poll_init(options->uv, &takeover->listen_poll, listen_fd)) {
        close(listen_fd);
        free(takeover);
        return WEIR_EIO;
    }
    uv_timer_init(options->uv, &takeover->tick);
    takeover->listen_poll.data = takeover->tick.data = takeover;
    uv_poll_start(&takeover->listen_poll, UV_READABLE, on_connect);
    *ret_takeover = takeover;
    return 0;
}

void weir_takeover_own(struct weir_takeover *takeover)
{
    if (takeover)
        takeover->owns = true;
}

bool weir_takeover_is_active(const struct weir_takeover *takeover)
{
    return takeover && takeover->state >= PREPARING;
}

bool weir_takeover_cancel(struct weir_takeover *takeover)
{
    if (takeover && takeover->state != NOBODY && takeover->state < GOING)
        fail(takeover, "this weir ends");
    if (takeover && takeover->state == NOBODY)
        stop_listening(takeover, true); /* who comes now starts as ever, and does not have to wait */
    return !takeover || takeover->state == NOBODY;
}

void weir_takeover_close(struct weir_takeover *takeover)
{
    if (!takeover)
        return;
    forget_successor(takeover);
    stop_listening(takeover, true);
    uv_close((uv_handle_t *)&takeover->listen_poll, NULL);
    uv_close((uv_handle_t *)&takeover->tick, NULL);
}

void weir_takeover_destroy(struct weir_takeover *takeover)
{
    free(takeover);
}
