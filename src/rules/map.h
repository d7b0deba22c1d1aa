/* SPDX-License-Identifier: Apache-2.0
 *
 * A hash map from (scope, bytes) to a number, filled once and then only read. Hashed with a secret, so that nobody who
 * chooses the bytes of a request can make look-ups slow. Thread rule: any number of readers once filled. */
#pragma once

#include "base/siphash.h"
#include "weir/limiter.h"

struct weir_map_slot {
    uint64_t hash;
    struct weir_slice bytes; /* borrowed */
    uint32_t scope;
    uint32_t value; /* 0: the slot is empty */
};

struct weir_map {
    struct weir_sip_key key;
    struct weir_map_slot *slots;
    size_t slots_count; /* a power of two, at least twice `count` */
    size_t count;
};

int weir_map_init(struct weir_map *map, const struct weir_sip_key *key); /* WEIR_ENOMEM */
void weir_map_deinit(struct weir_map *map);                              /* zeroed is fine */

/* `value` is not 0; the pair is not in the map yet. WEIR_ENOMEM. */
int weir_map_insert(struct weir_map *map, uint32_t scope, struct weir_slice bytes, uint32_t value);

/* 0 if it is not there. */
uint32_t weir_map_find(const struct weir_map *map, uint32_t scope, struct weir_slice bytes);
