/* SPDX-License-Identifier: Apache-2.0
 *
 * What every measuring program shares: a clock, a cheap random sequence, timed threads, and the conversation with
 * bench/run.py, which asks for one sample after the other so that rivals take turns on the same machine. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#define MEASURE_THREADS_MAX 8

static inline uint64_t measure_clock_ns(clockid_t clock)
{
    struct timespec now;
    clock_gettime(clock, &now);
    return (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
}

static inline uint64_t measure_now_ns(void)
{
    return measure_clock_ns(CLOCK_MONOTONIC);
}

/* A bijection of 64 bits: counting through it visits every value once, in no order a prefetcher could guess. */
static inline uint64_t measure_mix(uint64_t value)
{
    value ^= value >> 30;
    value *= UINT64_C(0xbf58476d1ce4e5b9);
    value ^= value >> 27;
    value *= UINT64_C(0x94d049bb133111eb);
    return value ^ value >> 31;
}

__extension__ typedef unsigned __int128 measure_wide;

/* A number below `bound` from 64 random bits, without a division. */
static inline uint64_t measure_below(uint64_t random, uint64_t bound)
{
    return (uint64_t)(((measure_wide)random * bound) >> 64);
}

/* Makes the compiler believe that somebody reads `value`. */
static inline void measure_keep(uint64_t value)
{
    __asm__ volatile("" : : "r"(value) : "memory");
}

/* Does a few thousand operations and returns how many. `state` is this thread's own word, seeded at random. */
typedef uint64_t measure_chunk(void *context, uint64_t *state);

/* Runs `chunk` on `threads` threads at once for about `sample_ns`; returns wall time divided by the operations of all
 * threads, in ns. */
double measure_threads(measure_chunk *chunk, void *context, unsigned threads, uint64_t sample_ns);

/* One thing that can be sampled: `name` is what run.py calls it, `take` returns the figure. */
struct measure_case {
    const char *name;
    double (*take)(void *context, const struct measure_case *self, uint64_t sample_ns);
    measure_chunk *chunk;
    unsigned threads;
};

/* measure_threads on the case's own chunk. */
double measure_take(void *context, const struct measure_case *self, uint64_t sample_ns);

/* Says "ready", then answers each line "NAME SAMPLE_MS" on standard input with its figure on a line of its own, until
 * the input ends. Returns an exit code. */
int measure_serve(const struct measure_case *cases, size_t count, void *context);

/* Memory that this process really takes now. */
uint64_t measure_resident_bytes(void);

/* The n-th word of the command line as a number from `min` to `max`, or an exit with a message. */
uint64_t measure_argument(int argc, char **argv, int n, uint64_t min, uint64_t max, const char *name);
