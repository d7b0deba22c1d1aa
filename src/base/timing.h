/* SPDX-License-Identifier: Apache-2.0
 *
 * Clocks in ns, and waiting at a condition until a moment of CLOCK_MONOTONIC. In a header of its own, for core/ needs
 * base/ and has no clock and no threads. */
#pragma once

#include <pthread.h>
#include <stdint.h>
#include <time.h>

#include "base/units.h"

static inline uint64_t weir_timing_now(clockid_t clock)
{
    struct timespec now;
    (void)clock_gettime(clock, &now);
    return (uint64_t)now.tv_sec * 1000 * WEIR_NS_PER_MS + (uint64_t)now.tv_nsec;
}

/* A condition for weir_timing_wait. 0, or an error number. */
static inline int weir_timing_cond_init(pthread_cond_t *cond)
{
    pthread_condattr_t monotonic;
    int error = pthread_condattr_init(&monotonic);
    if (error)
        return error;
    (void)pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    error = pthread_cond_init(cond, &monotonic);
    (void)pthread_condattr_destroy(&monotonic);
    return error;
}

/* As pthread_cond_timedwait: 0, ETIMEDOUT at until_ns. */
static inline int weir_timing_wait(pthread_cond_t *cond, pthread_mutex_t *mutex, uint64_t until_ns)
{
    const struct timespec until = { .tv_sec = (time_t)(until_ns / (1000 * WEIR_NS_PER_MS)),
                                    .tv_nsec = (long)(until_ns % (1000 * WEIR_NS_PER_MS)) };
    return pthread_cond_timedwait(cond, mutex, &until);
}
