/* SPDX-License-Identifier: Apache-2.0
 *
 * The quick ways to a slot: each finds what is there, wherever it is, as the slow one does. That none of them was of
 * use no decision would show: it would only take longer. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "random.h"
#include "table/internal.h"

#define NOW UINT64_C(1000000000000)
#define SECOND UINT64_C(1000000000)
#define KEYS 110000
#define LIMIT 0x1234u /* of which both halves of a slot have a part */
#define OTHER 0x2234u

static void forgotten(void *context, uint32_t limit, uint64_t a, uint64_t b, bool evicted)
{
    (void)context;
    (void)limit;
    (void)a;
    (void)b;
    (void)evicted;
}

static void put(struct weir_table *table, uint64_t hash, uint64_t until)
{
    struct weir_held held;
    uint64_t wait_ns;
    assert_int_equal(weir_table_hold(table, hash, LIMIT, WEIR_ABSENT_INSERT_FREE, NOW, &held, &wait_ns), WEIR_HOLD_OK);
    weir_table_release(&held, LIMIT, NOW + until);
}

static void expect_seen(struct weir_pair seen, struct weir_pair want)
{
    assert_int_equal(seen.tag, want.tag);
    assert_int_equal(seen.word, want.word);
}

/* Whether it is at its second home. */
static bool find_each_way(const struct weir_table *table, uint64_t hash)
{
    struct weir_pair want, seen;
    struct weir_slot *slot = weir_table_find(table, hash, &want);
    assert_non_null(slot);
    assert_ptr_equal(weir_table_find_of(table, hash, LIMIT, &seen), slot);
    expect_seen(seen, want);

    struct weir_look look = weir_table_send(table, hash, LIMIT);
    const struct weir_slot *first = look.slot;
    weir_table_look(table, hash, &look);
    assert_int_equal(look.tag, want.tag);
    assert_true(want.tag & WEIR_TAG_SECOND ? look.slot - slot <= 0 && slot - look.slot < WEIR_LINE_SLOTS
                                           : look.slot == slot && slot - first < WEIR_LINE_SLOTS);
    assert_ptr_equal(weir_table_see(look, &seen), slot);
    expect_seen(seen, want);

    assert_null(weir_table_find_of(table, hash, OTHER, &seen));
    look = weir_table_send(table, hash, OTHER);
    weir_table_look(table, hash, &look);
    assert_null(weir_table_see(look, &seen));
    return want.tag & WEIR_TAG_SECOND;
}

static void every_way_finds_what_is_there(void **state)
{
    (void)state;
    struct test_random random = { test_random_seed() };
    static uint64_t hashes[KEYS];
    struct weir_table table;
    assert_int_equal(weir_table_init(&table, 40000 * sizeof(struct weir_line), SECOND, NOW, forgotten, NULL), 0);
    const uint64_t begun = table.count;
    size_t second = 0, put_now = 0, doubled = 0;
    while (put_now < KEYS) {
        const uint64_t mask = table.mask;
        hashes[put_now] = test_random_u64(&random);
        put(&table, hashes[put_now], 1 + test_random_below(&random, SECOND));
        put_now++;
        assert_int_equal(table.mask, weir_table_mask_of(table.count));
        const bool all = put_now == KEYS || table.mask != mask;
        doubled += table.mask != mask;
        for (size_t i = all ? 0 : put_now - 1; i < put_now; i++)
            second += find_each_way(&table, hashes[i]);
    }
    assert_true(table.count > begun);
    assert_true(doubled > 0);
    assert_true(second > 100);
    weir_table_deinit(&table);
}

static void what_is_held_shows_that(void **state)
{
    (void)state;
    struct weir_table table;
    struct weir_pair seen;
    struct weir_held held;
    uint64_t wait_ns;
    const uint64_t hash = UINT64_C(0x0123456789abcdef);
    assert_int_equal(weir_table_init(&table, 1 << 20, SECOND, NOW, forgotten, NULL), 0);
    put(&table, hash, SECOND);
    assert_int_equal(weir_table_hold(&table, hash, LIMIT, WEIR_ABSENT_LEAVE, NOW, &held, &wait_ns), WEIR_HOLD_OK);
    assert_ptr_equal(weir_table_find_of(&table, hash, LIMIT, &seen), held.slot);
    assert_true(weir_pair_locked(seen));
    assert_false(weir_slot_shows(held.slot, held.pair));
    weir_table_release(&held, LIMIT, NOW);
    assert_ptr_equal(weir_table_find_of(&table, hash, LIMIT, &seen), held.slot);
    assert_false(weir_pair_locked(seen));
    assert_true(weir_slot_shows(held.slot, seen));
    assert_false(weir_slot_shows(held.slot, (struct weir_pair){ seen.tag, seen.word ^ 1 }));
    assert_false(weir_slot_shows(held.slot, (struct weir_pair){ seen.tag ^ WEIR_TAG_SECOND, seen.word }));
    weir_table_deinit(&table);
}

static void slots_compare_within_the_reach(void **state)
{
    (void)state;
    struct weir_table table;
    const uint64_t now = UINT64_C(1) << 60;
    assert_int_equal(weir_table_init(&table, 1 << 20, SECOND, now, forgotten, NULL), 0);
    assert_true(weir_table_in_reach(&table, now));
    assert_true(weir_table_in_reach(&table, now - WEIR_TABLE_BACK_NS));
    assert_false(weir_table_in_reach(&table, now - WEIR_TABLE_BACK_NS - 1));
    assert_true(weir_table_in_reach(&table, now + WEIR_TABLE_AHEAD_NS - 1));
    assert_false(weir_table_in_reach(&table, now + WEIR_TABLE_AHEAD_NS));
    assert_false(weir_table_in_reach(&table, 0));
    assert_false(weir_table_in_reach(&table, UINT64_MAX));
    weir_table_deinit(&table);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(every_way_finds_what_is_there),
                                        cmocka_unit_test(what_is_held_shows_that),
                                        cmocka_unit_test(slots_compare_within_the_reach) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
