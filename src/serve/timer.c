/* SPDX-License-Identifier: Apache-2.0
 *
 * The timerfd is armed, with an absolute time, for the first timer of the heap (base/due.c). Stopping that timer
 * leaves it armed: it may fire once with nothing due. Called by shared.c, hold_wait.c and sharer.c; timeouts of
 * connections are not here but in conn.c. */
#include "serve/timer.h"

#include <stdlib.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/checked.h"

#define TIMERS_PER_TURN 256 /* the rest comes in the next turn, so that many at once do not starve the sockets */

/* The timerfd follows the first of the heap. A time that has passed fires at once; all zeros would disarm it. */
static void arm(struct weir_timers *timers)
{
    uint64_t due = timers->due.count > 0 ? weir_max_u64(weir_due_next_ns(&timers->due), 1) : 0;
    struct itimerspec spec = { .it_value = { .tv_sec = (time_t)(due / WEIR_NS_PER_SECOND),
                                             .tv_nsec = (long)(due % WEIR_NS_PER_SECOND) } };
    int done = timerfd_settime(timers->fd, TFD_TIMER_ABSTIME, &spec, NULL);
    weir_assert(done == 0);
}

static void on_due(uv_poll_t *poll, int status, int events)
{
    (void)status;
    (void)events;
    struct weir_timers *timers = poll->data;
    uint64_t expirations;
    ssize_t got = read(timers->fd, &expirations, sizeof(expirations));
    (void)got; /* EAGAIN when the first timer was stopped meanwhile: nothing is due then */

    struct weir_time time = weir_time_read();
    for (size_t i = 0; i < TIMERS_PER_TURN && weir_due_next_ns(&timers->due) <= time.now_ns; i++) {
        struct weir_timer *timer = (struct weir_timer *)weir_due_first(&timers->due);
        weir_timer_stop(timers, timer);
        timer->on_due(timer, &time);
    }
    arm(timers);
}

int weir_timers_init(struct weir_timers *timers, uv_loop_t *loop)
{
    *timers = (struct weir_timers){ .fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC) };
    if (timers->fd < 0)
        return WEIR_EIO;
    if (uv_poll_init(loop, &timers->poll, timers->fd)) {
        close(timers->fd);
        return WEIR_EIO;
    }
    timers->poll.data = timers;
    return uv_poll_start(&timers->poll, UV_READABLE, on_due) ? WEIR_EIO : 0;
}

void weir_timers_stop(struct weir_timers *timers)
{
    if (!uv_is_closing((uv_handle_t *)&timers->poll))
        uv_close((uv_handle_t *)&timers->poll, NULL);
}

void weir_timers_deinit(struct weir_timers *timers)
{
    close(timers->fd);
    free(timers->due.members);
    *timers = (struct weir_timers){ .fd = -1 };
}

static int make_room(struct weir_timers *timers)
{
    if (timers->due.count < timers->due.max)
        return 0;
    size_t room = timers->due.max ? 2 * (timers->due.max + 1) : 64;
    struct weir_due **members = realloc(timers->due.members, room * sizeof(struct weir_due *));
    if (!members)
        return WEIR_ENOMEM;
    timers->due.members = members;
    timers->due.max = room - 1;
    return 0;
}

int weir_timer_start(struct weir_timers *timers, struct weir_timer *timer, uint64_t due_ns)
{
    weir_assert(timer->on_due);
    if (timer->due.place == 0 && make_room(timers))
        return WEIR_ENOMEM;
    weir_due_set(&timers->due, &timer->due, due_ns);
    if (timer->due.place == 1)
        arm(timers);
    return 0;
}

void weir_timer_stop(struct weir_timers *timers, struct weir_timer *timer)
{
    weir_due_remove(&timers->due, &timer->due);
}
