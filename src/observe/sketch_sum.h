/* SPDX-License-Identifier: Apache-2.0
 *
 * Several sketches (observe/sketch.h) as one: those of the threads, and of the windows of time. Source: Agarwal,
 * Cormode, Huang, Phillips, Wei and Yi, "Mergeable Summaries", 2012.
 *
 * What it decides: the counts and errors that hold for all their events together. A key that one sketch does not count
 * may have come there as often as that sketch's floor, so that is added to its count and to its error. All that
 * sketch.h promises holds for the sum, with N and room of the sketches' own sum N_i / room_i.
 *
 * Keys are ranked by what is certain, `count - error`. By `count` a key that one thread has seen would outrank one that
 * came more often to all of them, for what others might have had of it.
 *
 * Thread rule: plain values. Nothing is allocated. */
#pragma once

#include "observe/sketch.h"

struct weir_sketch_summed {
    struct weir_sketch_key key;
    uint64_t floors; /* of the sketches that count it */
    const void *of;  /* the caller's, of the first sketch that counts it */
};

struct weir_sketch_sum {
    struct weir_sketch_summed *table;
    size_t mask;
    size_t count, room;
    uint64_t floor; /* a key that is not here came at most so often */
    uint64_t total;
};

/* Zeroed memory for so many keys of all sketches together. */
size_t weir_sketch_sum_bytes(size_t keys);
void weir_sketch_sum_init(struct weir_sketch_sum *sum, void *memory, size_t keys);

/* A sketch that is told of, and then each of its keys. */
void weir_sketch_sum_begin(struct weir_sketch_sum *sum, uint64_t floor, uint64_t total);
void weir_sketch_sum_add(struct weir_sketch_sum *sum, const struct weir_sketch_key *key, uint64_t floor,
                         const void *of);

/* The first of all keys, best first: how many there are, at most `room`. */
size_t weir_sketch_sum_top(const struct weir_sketch_sum *sum, struct weir_sketch_summed *ret_top, size_t room);
