/* SPDX-License-Identifier: Apache-2.0
 *
 * Timers of one loop, due at a nanosecond: a heap under one timerfd, because libuv's timers count milliseconds
 * and a held request must not go early. One loop's thread only. */
#pragma once

#include <stdint.h>
#include <uv.h>

#include "limits/timer.h"

struct weir_timers {
    uv_poll_t poll;
    int fd;
    struct weir_due_heap due;
};

int weir_timers_init(struct weir_timers *timers, uv_loop_t *loop);
void weir_timers_stop(struct weir_timers *timers);   /* before the loop ends: closes the poll handle */
void weir_timers_deinit(struct weir_timers *timers); /* after the loop has closed it */

/* Starts or moves a timer. WEIR_ENOMEM changes nothing. */
int weir_timer_start(struct weir_timers *timers, struct weir_timer *timer, uint64_t due_ns);
void weir_timer_stop(struct weir_timers *timers, struct weir_timer *timer); /* one that does not wait is fine */
