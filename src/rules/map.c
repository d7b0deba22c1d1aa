/* SPDX-License-Identifier: Apache-2.0
 *
 * Open addressing with linear probing. The table doubles before it is more than half full and nothing is ever removed,
 * so a search ends at the first empty slot. The scope is mixed into the key of the hash. Filled by compile.c and
 * compile_conditions.c; request.c finds attributes in it and match.c exact values. */
#include "rules/map.h"

#include <stdlib.h>

#include "base/assert.h"
#include "rules/pattern.h"

#define SLOTS_MIN 16

static uint64_t hash_of(const struct weir_map *map, uint32_t scope, struct weir_slice bytes)
{
    struct weir_sip_key key = { map->key.k0 ^ scope, map->key.k1 };
    return weir_siphash(&key, bytes.data, bytes.size);
}

int weir_map_init(struct weir_map *map, const struct weir_sip_key *key)
{
    struct weir_map_slot *slots = calloc(SLOTS_MIN, sizeof(*slots));
    if (!slots)
        return WEIR_ENOMEM;
    *map = (struct weir_map){ .key = *key, .slots = slots, .slots_count = SLOTS_MIN };
    return 0;
}

void weir_map_deinit(struct weir_map *map)
{
    free(map->slots);
    map->slots = NULL;
}

static void slot_put(struct weir_map_slot *slots, size_t count, const struct weir_map_slot *slot)
{
    size_t at = slot->hash & (count - 1);
    while (slots[at].value)
        at = (at + 1) & (count - 1);
    slots[at] = *slot;
}

static int grow(struct weir_map *map)
{
    size_t count = map->slots_count * 2;
    struct weir_map_slot *slots = calloc(count, sizeof(*slots));
    if (!slots)
        return WEIR_ENOMEM;
    for (size_t i = 0; i < map->slots_count; i++)
        if (map->slots[i].value)
            slot_put(slots, count, &map->slots[i]);
    free(map->slots);
    map->slots = slots;
    map->slots_count = count;
    return 0;
}

int weir_map_insert(struct weir_map *map, uint32_t scope, struct weir_slice bytes, uint32_t value)
{
    weir_assert(value != 0);
    if ((map->count + 1) * 2 > map->slots_count && grow(map) != 0)
        return WEIR_ENOMEM;
    struct weir_map_slot slot = { hash_of(map, scope, bytes), bytes, scope, value };
    slot_put(map->slots, map->slots_count, &slot);
    map->count++;
    return 0;
}

uint32_t weir_map_find(const struct weir_map *map, uint32_t scope, struct weir_slice bytes)
{
    uint64_t hash = hash_of(map, scope, bytes);
    for (size_t at = hash & (map->slots_count - 1); map->slots[at].value; at = (at + 1) & (map->slots_count - 1)) {
        const struct weir_map_slot *slot = &map->slots[at];
        if (slot->hash == hash && slot->scope == scope && weir_slice_equal(slot->bytes, bytes))
            return slot->value;
    }
    return 0;
}
