/* SPDX-License-Identifier: Apache-2.0
 *
 * One line of the table, one step: what files of table/ promise each other (internal.h), each asked by itself. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "table/internal.h"

#define NOW UINT64_C(1000000000000)
#define SECOND UINT64_C(1000000000)
#define NARROW 20u

static struct weir_table table;
static unsigned told;

static void forgotten(void *context, uint32_t limit, uint64_t a, uint64_t b, bool evicted)
{
    (void)context, (void)limit, (void)a, (void)b, (void)evicted;
    told++;
}

static int begin(void **state)
{
    (void)state;
    told = 0;
    return weir_table_init(&table, 64 << 10, SECOND, NOW, forgotten, NULL);
}

static int end(void **state)
{
    (void)state;
    weir_table_check(&table);
    weir_table_deinit(&table);
    return 0;
}

/* Puts a key in and leaves it a second from fresh. Returns where it stands, and what it shows. */
static struct weir_slot_at put(uint64_t hash, struct weir_pair *ret_seen)
{
    struct weir_held held;
    uint64_t wait_ns;
    assert_int_equal(weir_table_hold(&table, hash, NARROW, WEIR_ABSENT_INSERT, NOW, &held, &wait_ns), WEIR_HOLD_OK);
    weir_table_release(&held, NARROW, NOW + SECOND);
    struct weir_slot *slot = weir_table_find(&table, hash, ret_seen);
    assert_non_null(slot);
    size_t at = (size_t)(slot - table.lines->slot);
    return (struct weir_slot_at){ &table.lines[at / WEIR_LINE_SLOTS], at / WEIR_LINE_SLOTS, at % WEIR_LINE_SLOTS,
                                  false };
}

/* A place is cleared of what was seen there, and of nothing that has come since. */
static void who_was_charged_or_is_held_is_not_cleared(void **state)
{
    (void)state;
    struct weir_pair seen = WEIR_PAIR_EMPTY, now = WEIR_PAIR_EMPTY;
    struct weir_slot_at place = put(1, &seen);
    struct weir_slot *slot = &place.line->slot[place.index];
    const struct weir_pair charged = weir_pair_at(seen, NOW + 2 * SECOND), locked = weir_pair_lock(charged);
    assert_true(weir_slot_swap(slot, seen, charged));
    assert_false(weir_place_clear(&table, place, seen, true, NOW));
    assert_true(weir_slot_swap(slot, charged, locked));
    assert_false(weir_place_clear(&table, place, charged, true, NOW));
    assert_false(weir_place_clear(&table, place, locked, true, NOW));
    assert_int_equal(table.evicted, 0);
    assert_int_equal(told, 0);
    assert_true(weir_slot_swap(slot, locked, charged));
    assert_ptr_equal(weir_table_find(&table, 1, &now), slot);
    assert_true(weir_place_clear(&table, place, charged, true, NOW));
    assert_null(weir_table_find(&table, 1, &now));
    assert_int_equal(table.evicted, 1);
    assert_int_equal(told, 1);
}

/* Holds a key that is put in at its first home. */
static void hold(uint64_t hash, struct weir_held *ret_held)
{
    uint64_t wait_ns;
    assert_int_equal(weir_table_hold(&table, hash, NARROW, WEIR_ABSENT_INSERT_FREE, NOW, ret_held, &wait_ns),
                     WEIR_HOLD_OK);
    assert_true(ret_held->newcomer);
}

/* Where all who stand in a newcomer's homes are held, the table grows by 32 times 16 lines for it, and no more. */
static void nobody_grows_the_table_for_ever(void **state)
{
    (void)state;
    struct weir_held held[2][WEIR_LINE_SLOTS], none;
    uint64_t homes[2], wait_ns = 0;
    const uint64_t newcomer = UINT64_C(0x123456789) << 20 | 6000 << 1, before = UINT64_C(1) << 13;
    weir_table_deinit(&table);
    assert_int_equal(weir_table_init(&table, (2 * before - 1) * sizeof(struct weir_line), SECOND, NOW, forgotten, NULL),
                     0);
    assert_int_equal(table.count, before);
    for (int second = 0; second < 2; second++) {
        homes[second] = weir_table_home(&table, newcomer, second, before);
        assert_true(homes[second] > 512); /* it is not split by that */
        for (uint64_t i = 0; i < WEIR_LINE_SLOTS; i++)
            hold(homes[second] << 1 | (i + 1) << 40, &held[second][i]);
    }
    assert_true(homes[0] != homes[1]);
    assert_int_equal(weir_table_hold(&table, newcomer, NARROW, WEIR_ABSENT_INSERT, NOW, &none, &wait_ns),
                     WEIR_HOLD_FULL);
    assert_int_equal(wait_ns, 1); /* nobody can say how long they are held */
    assert_int_equal(table.count, before + 512);
    for (unsigned i = 0; i < 2 * WEIR_LINE_SLOTS; i++)
        weir_table_release(&held[i / WEIR_LINE_SLOTS][i % WEIR_LINE_SLOTS], NARROW, NOW + SECOND);
}

/* Of those that must leave a line one is held: the line is not split, and nobody else in it is held for that. */
static void a_line_is_split_whole_or_not_at_all(void **state)
{
    (void)state;
    enum { KEYS = 4, STAYS = 1, HELD = 2 };
    struct weir_held held[KEYS];
    struct weir_pair pair = WEIR_PAIR_EMPTY;
    const uint64_t before = UINT64_C(1) << 10;
    weir_table_deinit(&table);
    assert_int_equal(weir_table_init(&table, (before + 8) * sizeof(struct weir_line), SECOND, NOW, forgotten, NULL), 0);
    assert_int_equal(table.count, before);
    for (uint64_t i = 0; i < KEYS; i++) {
        hold((i == STAYS ? 0 : before << 4) | (i + 1) << 40, &held[i]);
        assert_ptr_equal(held[i].slot, &table.lines[0].slot[i]);
        if (i != HELD)
            weir_table_release(&held[i], NARROW, NOW + SECOND);
    }
    assert_int_equal(weir_table_grow(&table, 1, NOW), 0);
    for (unsigned i = 0; i < KEYS; i++)
        assert_int_equal(weir_pair_locked(weir_slot_load(&table.lines[0].slot[i])), i == HELD);
    weir_table_release(&held[HELD], NARROW, NOW + SECOND);
    assert_int_equal(weir_table_grow(&table, 1, NOW), 1);
    for (uint64_t i = 0; i < KEYS; i++)
        assert_ptr_equal(weir_table_find(&table, (i == STAYS ? 0 : before << 4) | (i + 1) << 40, &pair),
                         &table.lines[i == STAYS ? 0 : before].slot[i]);
}

/* Where only such stand as are never evicted a newcomer is told how long the first of them stays. */
static void who_is_kept_stays_until_it_is_dead(void **state)
{
    (void)state;
    static const struct {
        int64_t until_ns;
        uint64_t wait_ns;
    } cases[] = { { 5, SECOND + 6 }, { 0, SECOND + 1 }, { -1, SECOND + 1 }, { -(int64_t)SECOND, SECOND + 1 } };
    const struct weir_kind kind = { .wide = true, .notified = true, .kept = true };
    const uint64_t newcomer = UINT64_C(0x123456789) << 20;
    uint64_t cursor = 0;
    weir_table_set_kind(&table, NARROW, kind, 10);
    assert_int_equal(table.count, table.lines_max);
    weir_table_walk(&table, &cursor, 0, NOW, NULL, NULL, NULL); /* nobody moves during a walk */
    for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++) {
        struct weir_held held;
        uint64_t wait_ns = 0;
        for (uint64_t i = 0; i < 4; i++) {
            const uint64_t hash = weir_table_home(&table, newcomer, i / 2, table.count) << 4 | (i + 1) << 40;
            assert_int_equal(weir_table_hold(&table, hash, NARROW, WEIR_ABSENT_INSERT, NOW, &held, &wait_ns),
                             WEIR_HOLD_OK);
            weir_table_release(&held, NARROW, NOW + (uint64_t)cases[c].until_ns);
        }
        assert_int_equal(weir_table_hold(&table, newcomer, NARROW, WEIR_ABSENT_INSERT, NOW, &held, &wait_ns),
                         WEIR_HOLD_FULL);
        assert_int_equal(wait_ns, cases[c].wait_ns);
    }
    assert_int_equal(table.evicted, 0);
    assert_int_equal(told, 0);
}

/* More addresses than there are. */
static void a_table_that_cannot_be_had_is_none(void **state)
{
    (void)state;
    struct weir_table huge;
    assert_int_equal(weir_table_init(&huge, (size_t)1 << 60, SECOND, NOW, forgotten, NULL), WEIR_ENOMEM);
    assert_null(huge.lines);
    assert_null(huge.kinds);
    weir_table_deinit(&huge);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(who_was_charged_or_is_held_is_not_cleared, begin, end),
        cmocka_unit_test_setup_teardown(nobody_grows_the_table_for_ever, begin, end),
        cmocka_unit_test_setup_teardown(a_line_is_split_whole_or_not_at_all, begin, end),
        cmocka_unit_test_setup_teardown(who_is_kept_stays_until_it_is_dead, begin, end),
        cmocka_unit_test(a_table_that_cannot_be_had_is_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
