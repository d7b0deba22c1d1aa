/* SPDX-License-Identifier: Apache-2.0
 *
 * The whole table, looked at while nobody else uses it: does it keep what the other files promise each other? Tests,
 * fuzzers and debug builds call it. It changes nothing, and stops the program at the first thing that is not so. */
#include "table/internal.h"

/* Lines behind the last one in use that are looked at: an entry that strayed stands right behind it. */
#define BEYOND 64

struct counted {
    uint64_t entries, slots;
};

/* How many slots of a line show the key of `pair`, in the home that it names. */
static unsigned shown_in(const struct weir_line *line, struct weir_pair pair, bool second)
{
    uint64_t key = weir_pair_at_home(pair, second).tag & ~WEIR_TAG_LIMIT_MASK;
    unsigned match = 0;
    for (unsigned i = 0; i < WEIR_LINE_SLOTS; i++) {
        uint64_t tag = weir_slot_tag(&line->slot[i]);
        match += weir_tag_is_entry(tag) && (tag & ~WEIR_TAG_LIMIT_MASK) == key;
    }
    return match;
}

/* It stands where its hash says, and nowhere else. */
static void check_home(const struct weir_table *table, struct weir_pair pair, uint64_t number)
{
    bool second = pair.tag & WEIR_TAG_SECOND;
    uint64_t hash = weir_table_hash_of(table, pair, number);
    uint64_t other = weir_table_home(table, hash, !second, table->count);
    weir_assert(weir_table_home(table, hash, second, table->count) == number);
    weir_assert(shown_in(&table->lines[number], pair, second) == 1);
    weir_assert(shown_in(&table->lines[other], pair, !second) == 0);
}

static void check_entry(const struct weir_table *table, uint64_t number, unsigned index, struct counted *counted)
{
    const struct weir_slot *slot = &table->lines[number].slot[index];
    struct weir_pair pair = weir_slot_load(slot);
    struct weir_kind kind = weir_table_kind(table, pair);
    bool wide = index % 2 == 0 && weir_slot_tag(&slot[1]) & WEIR_TAG_CONTINUATION;
    weir_assert(weir_pair_limit(pair) > 0);
    weir_assert(!weir_pair_locked(pair)); /* whoever held it would never let go */
    weir_assert(wide == kind.wide);
    weir_assert(kind.units <= WEIR_UNITS_B_LOW && kind.shift >= WEIR_TICKS_SHIFT_MIN);
    check_home(table, pair, number);
    counted->entries++;
    counted->slots += wide ? 2 : 1;
}

static void check_line(const struct weir_table *table, uint64_t number, struct counted *counted)
{
    for (unsigned i = 0; i < WEIR_LINE_SLOTS; i++) {
        const struct weir_slot *slot = &table->lines[number].slot[i];
        uint64_t tag = weir_slot_tag(slot);
        if (weir_tag_is_entry(tag)) {
            check_entry(table, number, i, counted);
        } else if (tag & WEIR_TAG_CONTINUATION) {
            weir_assert(i % 2 == 1 && weir_tag_is_entry(weir_slot_tag(&slot[-1])));
        } else {
            weir_assert(slot->word == 0); /* an empty slot is nothing but empty */
        }
    }
}

void weir_table_check(const struct weir_table *table)
{
    struct counted counted = { 0 };
    weir_assert(table->count >= UINT64_C(4) << table->shard_bits && table->count <= table->lines_max);
    weir_assert(table->lines_max * sizeof(struct weir_line) <= table->mapped);
    weir_assert(table->growing == 0);
    for (uint64_t shard = 0; shard <= weir_table_shard_mask(table); shard++)
        weir_assert(table->shard_locks[shard] == 0);
    for (uint64_t n = 0; n < table->count; n++)
        check_line(table, n, &counted);
    for (uint64_t n = table->count; n < table->lines_max && n < table->count + BEYOND; n++)
        for (unsigned i = 0; i < WEIR_LINE_SLOTS; i++)
            weir_assert(weir_slot_tag(&table->lines[n].slot[i]) == 0);
    weir_assert(table->entries == counted.entries);
    weir_assert(table->slots_used == counted.slots);
    weir_assert(table->evicted <= table->inserted && table->entries <= table->inserted - table->evicted);
}
