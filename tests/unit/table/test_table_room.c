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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(who_was_charged_or_is_held_is_not_cleared, begin, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
