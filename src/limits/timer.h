/* SPDX-License-Identifier: Apache-2.0
 *
 * Somebody who is to be called at a nanosecond. Who keeps such timers starts and stops them (serve/timer.h). */
#pragma once

#include "base/due.h"
#include "weir/limiter.h"

/* Zero-initialise; embed it in what is waiting. */
struct weir_timer {
    struct weir_due due;                                                    /* CLOCK_MONOTONIC */
    void (*on_due)(struct weir_timer *timer, const struct weir_time *time); /* it is stopped by then */
};
