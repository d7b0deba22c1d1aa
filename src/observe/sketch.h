/* SPDX-License-Identifier: Apache-2.0
 *
 * Which of any number of keys come most often, in memory that does not grow with them: Space-Saving, with the
 * stream-summary that makes each event O(1). Source: Metwally, Agrawal and El Abbadi, "Efficient Computation of
 * Frequent and Top-k Elements in Data Streams", 2005.
 *
 * What it decides: which `room` keys are counted. A key that is not among them takes the place of the one with the
 * least count, and inherits that count as what it may have had before: its `error`. Of N events, so, whatever their
 * order:
 *
 *   - a counted key came at most `count` and at least `count - error` times, and no error is above N / room;
 *   - a key that came more than N / room times is counted;
 *   - a key that is not counted came at most weir_sketch_floor() times.
 *
 * What it does not: what a key is called. Places are numbered from 0 to room - 1, and the caller keeps what it wants to
 * know of each. Keys are told apart by their hashes alone: two with one 64-bit hash are one.
 *
 * Thread rule: one thread at a time. Nothing is allocated. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define WEIR_SKETCH_ROOM_MAX ((uint32_t)1 << 20)
#define WEIR_SKETCH_WEIGHT_MAX 256

struct weir_sketch;

struct weir_sketch_key {
    uint64_t hash;
    uint64_t count, error;
};

/* The memory that it takes, aligned to 64 bytes. 1 to WEIR_SKETCH_ROOM_MAX. */
size_t weir_sketch_bytes(uint32_t room);

/* In `memory` of that size; it ends with the memory. */
struct weir_sketch *weir_sketch_init(void *memory, uint32_t room);

void weir_sketch_clear(struct weir_sketch *sketch);

/* An event that counts as `weight`, 1 to WEIR_SKETCH_WEIGHT_MAX; so many steps it may take. The place of its key;
 * *ret_fresh: the key was not counted until now, and what stood at this place, if
 * anything did, is gone. */
uint32_t weir_sketch_add(struct weir_sketch *sketch, uint64_t hash, uint32_t weight, bool *ret_fresh);

uint32_t weir_sketch_used(const struct weir_sketch *sketch); /* places 0 to this - 1 are taken */
struct weir_sketch_key weir_sketch_key(const struct weir_sketch *sketch, uint32_t place);
uint64_t weir_sketch_floor(const struct weir_sketch *sketch); /* the least count; 0 while there is room */
uint64_t weir_sketch_total(const struct weir_sketch *sketch); /* events */
