/* SPDX-License-Identifier: Apache-2.0
 *
 * A slow model of the table: a list of the keys that were put in, each with what it was left with. Who leaves must be
 * dead, or have been evicted, and `forgotten` must have been told; everybody else is found again as it was. For one
 * file of a program. */
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "random.h"
#include "table/internal.h"

__extension__ typedef __int128 wide_int;

#define NOW UINT64_C(1000000000000)
#define SECOND UINT64_C(1000000000)
#define SKEW (2 * SECOND)
#define ROUNDING_NS 2 /* a share of a time is rounded */

enum { KEYS = 700, LIMITS = 8 };

/* Numbers that differ in their low bits, in their high ones, or in both. */
static const struct {
    uint32_t limit;
    uint64_t capacity;
    struct weir_kind kind;
} limits[LIMITS] = {
    { 1, 100, { .shift = 0 } },
    { 17, 1, { .shift = WEIR_TICKS_SHIFT_MAX } },
    { 18, 5, { .shift = WEIR_TICKS_SHIFT_MIN } },
    { 0x8001, 100, { .shift = 3, .wide = true, .units = WEIR_UNITS_B } },
    { 0x8002, 60, { .shift = -2, .wide = true, .notified = true, .units = WEIR_UNITS_A_AND_B } },
    { 0xfffe, 7, { .shift = 0, .wide = true, .notified = true, .units = WEIR_UNITS_B_LOW } },
    { 0xffff, 1, { .shift = 1, .wide = true, .notified = true, .units = WEIR_UNITS_B } },
    { 2, 9, { .shift = 4, .wide = true, .notified = true, .kept = true } },
};

struct key {
    uint64_t hash, a, b;
    wide_int fresh; /* in ticks since time began */
    unsigned of;    /* limits[] */
    bool present, held;
    unsigned met; /* by a walk */
    bool throughout;
};

static struct {
    struct weir_table table;
    struct test_random random;
    struct key keys[KEYS];
    struct weir_held held[KEYS];
    uint64_t now_ns;
    struct {
        uint32_t limit;
        uint64_t a, b;
        bool evicted, found;
    } told[KEYS];
    unsigned told_count;
    uint64_t inserted, evicted, forgotten_ns;
    unsigned kept_percent;                          /* of newcomers: the last of limits[] */
    unsigned full, full_of_kept, cheapest, widened; /* how often what is rare was met */
} world;

static inline uint64_t below(uint64_t bound)
{
    return test_random_below(&world.random, bound);
}

/* ---- the model ---- */

static inline const struct weir_kind *kind_of(const struct key *key)
{
    return &limits[key->of].kind;
}

static inline wide_int ticks_of(uint64_t ns, int shift)
{
    return shift >= 0 ? (wide_int)ns << shift : (wide_int)(ns >> -shift);
}

static inline int64_t until_ns(const struct key *key)
{
    int shift = kind_of(key)->shift;
    wide_int ahead = key->fresh - ticks_of(world.now_ns, shift);
    return (int64_t)(shift >= 0 ? ahead >> shift : ahead * ((wide_int)1 << -shift));
}

static inline bool is_dead(const struct key *key)
{
    return until_ns(key) < -(int64_t)SKEW;
}

static inline int64_t forgiven_ns(const struct key *key)
{
    uint64_t capacity = limits[key->of].capacity, units = 0;
    int64_t until = until_ns(key);
    switch (kind_of(key)->units) {
    case WEIR_UNITS_B:
        units = key->b;
        break;
    case WEIR_UNITS_A_AND_B:
        units = key->a + key->b;
        break;
    case WEIR_UNITS_B_LOW:
        units = (uint32_t)key->b;
        break;
    default:
        units = capacity;
    }
    return until <= 0 || capacity <= 1 || units >= capacity ? until : (int64_t)((wide_int)until * units / capacity);
}

static inline void on_forgotten(void *context, uint32_t limit, uint64_t a, uint64_t b, bool evicted)
{
    (void)context;
    assert_true(world.told_count < KEYS);
    world.told[world.told_count].limit = limit;
    world.told[world.told_count].a = a;
    world.told[world.told_count].b = b;
    world.told[world.told_count].found = false;
    world.told[world.told_count++].evicted = evicted;
}

/* Was it told that this key went? */
static inline bool was_told(const struct key *key, bool evicted)
{
    for (unsigned i = 0; i < world.told_count; i++) {
        if (world.told[i].found || world.told[i].limit != limits[key->of].limit || world.told[i].evicted != evicted ||
            world.told[i].a != key->a || world.told[i].b != key->b)
            continue;
        world.told[i].found = true;
        return true;
    }
    return false;
}

static inline bool stands_in(const struct key *key, uint64_t line)
{
    const struct weir_slot *slot = world.table.lines[line].slot;
    for (unsigned i = 0; i < WEIR_LINE_SLOTS; i++) {
        struct weir_pair pair = weir_slot_load(&slot[i]);
        if (weir_tag_is_entry(pair.tag) &&
            ((weir_table_hash_of(&world.table, pair, line) ^ key->hash) >> 12) << 14 == 0)
            return true;
    }
    return false;
}

static inline void check_found(const struct key *key, struct weir_slot *slot, struct weir_pair pair)
{
    uint64_t a, b;
    int64_t dead_after = until_ns(key) + (int64_t)SKEW;
    assert_non_null(slot);
    assert_int_equal(weir_pair_limit(pair), limits[key->of].limit);
    assert_int_equal(weir_pair_fresh_at(pair), (uint64_t)key->fresh & WEIR_TICKS_MASK);
    assert_int_equal(weir_pair_locked(pair), key->held);
    assert_int_equal(weir_table_dead_after_ns(&world.table, pair, world.now_ns), dead_after < 0 ? 0 : dead_after + 1);
    if (!kind_of(key)->wide || key->held)
        return;
    weir_continuation_get(slot, &a, &b);
    assert_int_equal(a, key->a);
    assert_int_equal(b, key->b);
}

/* All that is there and gone by now. What went was dead, or it is *ret_victims, which were evicted: at most two. */
static inline unsigned sweep(const struct key *ret_victims[2])
{
    uint64_t entries = 0, slots = 0;
    unsigned victims = 0;
    bool forgot = false;
    for (unsigned i = 0; i < KEYS; i++) {
        struct key *key = &world.keys[i];
        struct weir_pair pair;
        struct weir_slot *slot = weir_table_find(&world.table, key->hash, &pair);
        assert_true(key->present || !slot);
        if (!key->present)
            continue;
        if (slot) {
            check_found(key, slot, pair);
            entries++;
            slots += kind_of(key)->wide ? 2 : 1;
            continue;
        }
        assert_false(key->held);
        key->present = false;
        if (is_dead(key)) {
            assert_int_equal(was_told(key, false), kind_of(key)->notified);
            forgot = true;
            continue;
        }
        assert_true(was_told(key, true) && !kind_of(key)->kept);
        assert_true(ret_victims && victims < 2);
        ret_victims[victims++] = key;
        world.evicted++;
    }
    for (unsigned i = 0; i < world.told_count; i++)
        assert_true(world.told[i].found);
    world.told_count = 0;
    if (forgot && world.now_ns > world.forgotten_ns)
        world.forgotten_ns = world.now_ns;
    assert_int_equal(world.table.forgotten_ns, world.forgotten_ns);
    assert_int_equal(world.table.entries, entries);
    assert_int_equal(world.table.slots_used, slots);
    assert_int_equal(world.table.evicted, world.evicted);
    assert_int_equal(world.table.inserted, world.inserted);
    return victims;
}
