/* SPDX-License-Identifier: Apache-2.0 */
#include "serve/timer.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "base/assert.h"

#define TIMERS_PER_TURN 256 /* the rest comes in the next turn, so that many at once do not starve the sockets */

static void place(struct weir_timers *timers, struct weir_timer *timer, size_t at)
{
    timers->heap[at] = timer;
    timer->place = at;
}

static void sift_up(struct weir_timers *timers, struct weir_timer *timer, size_t at)
{
    while (at > 1 && timers->heap[at / 2]->due_ns > timer->due_ns) {
        place(timers, timers->heap[at / 2], at);
        at /= 2;
    }
    place(timers, timer, at);
}

static void sift_down(struct weir_timers *timers, struct weir_timer *timer, size_t at)
{
    for (;;) {
        size_t child = 2 * at;
        if (child > timers->count)
            break;
        if (child < timers->count && timers->heap[child + 1]->due_ns < timers->heap[child]->due_ns)
            child++;
        if (timers->heap[child]->due_ns >= timer->due_ns)
            break;
        place(timers, timers->heap[child], at);
        at = child;
    }
    place(timers, timer, at);
}

/* The timerfd follows the first of the heap. A time that has passed fires at once; all zeros would disarm it. */
static void arm(struct weir_timers *timers)
{
    uint64_t due = timers->count > 0 ? timers->heap[1]->due_ns : 0;
    if (timers->count > 0 && due == 0)
        due = 1;
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
    for (size_t i = 0; i < TIMERS_PER_TURN && timers->count > 0; i++) {
        struct weir_timer *timer = timers->heap[1];
        if (timer->due_ns > time.now_ns)
            break;
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
    free(timers->heap);
    *timers = (struct weir_timers){ .fd = -1 };
}

static int make_room(struct weir_timers *timers)
{
    if (timers->count + 1 < timers->capacity)
        return 0;
    size_t capacity = timers->capacity ? timers->capacity * 2 : 64;
    struct weir_timer **heap = realloc(timers->heap, capacity * sizeof(*heap));
    if (!heap)
        return WEIR_ENOMEM;
    timers->heap = heap;
    timers->capacity = capacity;
    return 0;
}

int weir_timer_start(struct weir_timers *timers, struct weir_timer *timer, uint64_t due_ns)
{
    weir_assert(timer->on_due);
    if (timer->place == 0 && make_room(timers))
        return WEIR_ENOMEM;
    weir_timer_stop(timers, timer);
    timer->due_ns = due_ns;
    timers->count++;
    sift_up(timers, timer, timers->count);
    if (timer->place == 1)
        arm(timers);
    return 0;
}

void weir_timer_stop(struct weir_timers *timers, struct weir_timer *timer)
{
    if (timer->place == 0)
        return;
    weir_assert(timers->heap[timer->place] == timer);
    size_t at = timer->place;
    struct weir_timer *last = timers->heap[timers->count--];
    timer->place = 0;
    if (last == timer)
        return;
    if (at > 1 && timers->heap[at / 2]->due_ns > last->due_ns)
        sift_up(timers, last, at);
    else
        sift_down(timers, last, at);
}
