/* SPDX-License-Identifier: Apache-2.0
 *
 * The playground's code for the page, compiled to WebAssembly: core/ and sim/ as they are, and a thin hand to them.
 * Numbers cross as doubles (whole ones are exact up to 2^53), arrays in memory that the page looks at. Nothing is
 * imported, nothing is decided here. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __wasm__
#define PLAY_EXPORT(name) __attribute__((export_name(#name), visibility("default")))
#else
#define PLAY_EXPORT(name)
#endif

/* ---- algorithms.c: one key under one limit, in each of a few lanes: one for each algorithm, and one more ---- */

#define PLAY_LANES 6
#define PLAY_CHUNK 8192

enum play_said { PLAY_REFUSED, PLAY_ADMITTED, PLAY_DELAYED };

enum play_look {
    PLAY_LOOK_USED,
    PLAY_LOOK_CAPACITY,
    PLAY_LOOK_REMAINING,
    PLAY_LOOK_RETRY_NS, /* of a request that costs 1; infinite: never */
    PLAY_LOOK_DELAY_NS,
    PLAY_LOOK_RESET_NS,
    PLAY_LOOK_NEXT_NS,
    PLAY_LOOK_CURRENT,       /* windows: units in the current one */
    PLAY_LOOK_WINDOW_END_NS, /* until the current one ends */
    PLAY_LOOK_ENTRIES,       /* of the log that have not left it */
    PLAY_LOOK_OLDEST_NS,     /* the age of the oldest of them */
    PLAY_LOOK_BYTES,         /* that the algorithm keeps for the key */
    PLAY_LOOKS
};

/* A fresh key under a limit. 0 or a negative error, and play_fault says what. `align` is enum weir_align of a fixed
 * window: 0 has its windows begin at multiples of the period, 1 at the first request. */
PLAY_EXPORT(play_lane_begin)
int play_lane_begin(uint32_t lane, uint32_t algorithm, double count, double period_ns, double burst, uint32_t align);
/* Decides the first `count` of the chunk, in order. */
PLAY_EXPORT(play_lane_decide) void play_lane_decide(uint32_t lane, uint32_t count);
/* The chunk: times (ns from the start) and costs go in; what was said, how long to wait (refused: until it may come
 * again, infinite: never; delayed: until it goes on) and how much is used afterwards come out. */
PLAY_EXPORT(play_times) double *play_times(void);
PLAY_EXPORT(play_costs) uint32_t *play_costs(void);
PLAY_EXPORT(play_said) uint8_t *play_said(void);
PLAY_EXPORT(play_waits) double *play_waits(void);
PLAY_EXPORT(play_used) uint32_t *play_used(void);

/* The lane's state at a time not before its last event: numbers by enum play_look. */
PLAY_EXPORT(play_lane_look) const double *play_lane_look(uint32_t lane, double at_ns);

/* A copy of the state: how many bytes of play_copy it takes. And back. */
PLAY_EXPORT(play_lane_save) uint32_t play_lane_save(uint32_t lane);
PLAY_EXPORT(play_lane_restore) void play_lane_restore(uint32_t lane);
PLAY_EXPORT(play_copy) uint8_t *play_copy(void);

/* Texts end with 0. */
PLAY_EXPORT(play_fault) const char *play_fault(void);
PLAY_EXPORT(play_version) const char *play_version(void);

/* When the lane's run begins on core's clock: a multiple of the period, so that windows begin at 0. */
uint64_t play_origin_ns(uint64_t period_ns);
