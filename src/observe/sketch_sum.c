/* SPDX-License-Identifier: Apache-2.0
 *
 * An open table by hash, half full at most. The floors of the sketches that do not count a key are what is left of all
 * floors. The best are kept sorted while the table is walked once. Called by top.c. */
#include "observe/sketch_sum.h"

#include <string.h>

#include "base/assert.h"

static size_t places_of(size_t keys)
{
    size_t places = 2;
    while (places < 2 * keys)
        places *= 2;
    return places;
}

size_t weir_sketch_sum_bytes(size_t keys)
{
    return places_of(keys) * sizeof(struct weir_sketch_summed);
}

void weir_sketch_sum_init(struct weir_sketch_sum *sum, void *memory, size_t keys)
{
    *sum = (struct weir_sketch_sum){ .table = memory, .mask = places_of(keys) - 1, .room = keys };
}

void weir_sketch_sum_begin(struct weir_sketch_sum *sum, uint64_t floor, uint64_t total)
{
    sum->floor += floor;
    sum->total += total;
}

void weir_sketch_sum_add(struct weir_sketch_sum *sum, const struct weir_sketch_key *key, uint64_t floor, const void *of)
{
    size_t at = key->hash & sum->mask;
    while (sum->table[at].key.count > 0 && sum->table[at].key.hash != key->hash)
        at = (at + 1) & sum->mask;
    struct weir_sketch_summed *summed = &sum->table[at];
    if (summed->key.count == 0) {
        weir_assert(key->count > 0 && sum->count < sum->room);
        sum->count++;
        summed->key.hash = key->hash;
        summed->of = of;
    }
    summed->key.count += key->count;
    summed->key.error += key->error;
    summed->floors += floor;
}

static uint64_t certain(const struct weir_sketch_key *key)
{
    return key->count - key->error;
}

/* Of two that are as certain, the one that may have come more often; then any, but always the same. */
static bool is_before(const struct weir_sketch_key *one, const struct weir_sketch_key *other)
{
    if (certain(one) != certain(other))
        return certain(one) > certain(other);
    return one->error != other->error ? one->error > other->error : one->hash < other->hash;
}

/* Where it belongs among `count` that are sorted. */
static size_t place_of(const struct weir_sketch_summed *top, size_t count, const struct weir_sketch_key *key)
{
    size_t low = 0, high = count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (is_before(&top[middle].key, key))
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

size_t weir_sketch_sum_top(const struct weir_sketch_sum *sum, struct weir_sketch_summed *ret_top, size_t room)
{
    size_t count = 0;
    for (size_t i = 0; i <= sum->mask && room > 0; i++) {
        struct weir_sketch_summed summed = sum->table[i];
        if (summed.key.count == 0)
            continue;
        uint64_t unheard = sum->floor - summed.floors;
        summed.key.count += unheard;
        summed.key.error += unheard;
        if (count == room && !is_before(&summed.key, &ret_top[count - 1].key))
            continue;
        size_t at = place_of(ret_top, count, &summed.key);
        count += count < room;
        memmove(&ret_top[at + 1], &ret_top[at], (count - 1 - at) * sizeof(ret_top[0]));
        ret_top[at] = summed;
    }
    return count;
}
