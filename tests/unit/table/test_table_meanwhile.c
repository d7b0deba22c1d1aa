/* SPDX-License-Identifier: Apache-2.0
 *
 * What goes through the whole table, and what happens to the table meanwhile. */
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "table/internal.h"

#define NOW UINT64_C(1000000000000)
#define SECOND UINT64_C(1000000000)
#define NARROW 20u
#define WIDE 21u

enum { LINE = 1000, PASSED_TO = 500, RESIDENTS = 8 };

static struct weir_table table;

static void forgotten(void *context, uint32_t limit, uint64_t a, uint64_t b, bool evicted)
{
    (void)context, (void)limit, (void)a, (void)b, (void)evicted;
}

static int begin(void **state)
{
    (void)state;
    return weir_table_init(&table, 64 << 10, SECOND, NOW, forgotten, NULL);
}

static int end(void **state)
{
    (void)state;
    weir_table_check(&table);
    weir_table_deinit(&table);
    return 0;
}

static void put(uint64_t hash, uint64_t fresh_ns)
{
    struct weir_held held;
    uint64_t wait_ns;
    assert_int_equal(weir_table_hold(&table, hash, NARROW, WEIR_ABSENT_INSERT_FREE, NOW, &held, &wait_ns),
                     WEIR_HOLD_OK);
    assert_true(held.newcomer);
    weir_table_release(&held, NARROW, fresh_ns);
}

static struct weir_held *drop_next;
static uint64_t unlock_next = UINT64_MAX, put_next;

/* Another thread's turn: who held an entry drops it, who held a shard lets it go, and has put an entry there. */
int sched_yield(void)
{
    if (drop_next)
        weir_table_drop(&table, drop_next);
    if (unlock_next != UINT64_MAX)
        weir_shard_unlock(&table, unlock_next);
    const uint64_t hash = put_next;
    drop_next = NULL;
    unlock_next = UINT64_MAX;
    put_next = 0;
    if (hash)
        put(hash, NOW + SECOND);
    return 0;
}

/* ---- a reading ---- */

static uint64_t newcomers[2], residents[RESIDENTS], shown[64];
static unsigned shown_count;
static bool comes_meanwhile;

/* Both lines of two newcomers, who have them in common, are full of such as may move to a line that the reading has
 * passed by then. */
static void fill_the_lines(void)
{
    unsigned found = 0, count = 0;
    uint64_t lines[2] = { LINE, 0 };
    for (uint64_t k = 1; found < 2; k++) {
        const uint64_t hash = (uint64_t)LINE << 4 | k << 20, second = weir_table_home(&table, hash, true, table.count);
        if (second <= LINE || (found == 1 && second != lines[1]))
            continue;
        lines[1] = second;
        newcomers[found++] = hash;
    }
    for (uint64_t k = 1 << 20; count < RESIDENTS; k++) {
        const uint64_t hash = lines[count / 4] << 4 | k << 20;
        if (weir_table_home(&table, hash, true, table.count) >= PASSED_TO)
            continue;
        put(hash, NOW + SECOND);
        residents[count++] = hash;
    }
}

static bool show(void *context, uint64_t hash, const struct weir_held *seen)
{
    (void)context, (void)seen;
    assert_true(shown_count < sizeof shown / sizeof shown[0]);
    shown[shown_count++] = hash;
    if (comes_meanwhile && hash == residents[0]) {
        comes_meanwhile = false;
        for (unsigned i = 0; i < 2; i++)
            put(newcomers[i], NOW + SECOND);
    }
    return true;
}

static bool was_shown(uint64_t hash)
{
    bool found = false;
    for (unsigned i = 0; i < shown_count; i++)
        found |= shown[i] == hash;
    return found;
}

/* The reading is at the first of a line when two newcomers come, for whom the first and the second go. */
static void who_leaves_the_line_that_is_being_read_is_shown(void **state)
{
    (void)state;
    struct weir_pair pair = WEIR_PAIR_EMPTY;
    uint64_t cursor = 0;
    shown_count = 0;
    fill_the_lines();
    comes_meanwhile = true;
    while (weir_table_read(&table, &cursor, 1, show, NULL)) {
    }
    const struct weir_slot *moved = weir_table_find(&table, residents[1], &pair);
    assert_true(moved < table.lines[PASSED_TO].slot); /* else it says nothing */
    for (unsigned i = 0; i < RESIDENTS; i++)
        assert_true(was_shown(residents[i]));
}

/* Between lines that it has read, both, one may move as he will: he was shown. */
static void who_moves_behind_a_reading_is_not_noted(void **state)
{
    (void)state;
    uint64_t cursor = 0;
    struct weir_held held;
    uint64_t wait_ns;
    shown_count = 0;
    comes_meanwhile = false;
    fill_the_lines();
    while (cursor < table.count)
        assert_true(weir_table_read(&table, &cursor, 1, show, NULL));
    assert_int_equal(weir_table_hold(&table, newcomers[0], NARROW, WEIR_ABSENT_INSERT_FREE, NOW, &held, &wait_ns),
                     WEIR_HOLD_OK);
    weir_table_release(&held, NARROW, NOW + SECOND);
    assert_int_equal(table.passed_head, 0);
    while (weir_table_read(&table, &cursor, 1, show, NULL)) {
    }
    assert_int_equal(shown_count, RESIDENTS);
}

/* Where so many moved past a reading that there is no room to note one more, he stays where he is. */
static void nobody_is_noted_in_the_place_of_another(void **state)
{
    (void)state;
    struct weir_held held;
    uint64_t cursor = 0, wait_ns;
    shown_count = 0;
    comes_meanwhile = false;
    fill_the_lines();
    while (cursor < PASSED_TO)
        assert_true(weir_table_read(&table, &cursor, 1, show, NULL));
    for (; table.passed_head < WEIR_TABLE_PASSED - 1; table.passed_head++)
        table.passed[table.passed_head] = UINT64_C(5) << 40 | WEIR_PASSED_NOTED;
    for (unsigned i = 0; i < 2; i++) { /* the first finds the last place, the second none */
        assert_int_equal(weir_table_hold(&table, newcomers[i], NARROW, WEIR_ABSENT_INSERT, NOW, &held, &wait_ns),
                         WEIR_HOLD_OK);
        weir_table_release(&held, NARROW, NOW + SECOND);
        assert_int_equal(table.passed_head, WEIR_TABLE_PASSED);
    }
    assert_true(table.passed[0] == (UINT64_C(5) << 40 | WEIR_PASSED_NOTED));
    assert_int_equal(table.evicted, 1);
    while (weir_table_read(&table, &cursor, 1, show, NULL)) {
    }
}

/* ---- a walk ---- */

/* The clock goes out of the table's reach while a walk is under way: still nobody moves to where that has been. */
static void a_rebase_does_not_end_a_walk(void **state)
{
    (void)state;
    uint64_t cursor = 0;
    assert_true(weir_table_walk(&table, &cursor, 1, NOW, NULL, NULL, NULL));
    weir_table_rebase(&table, NOW + 100 * 3600 * SECOND);
    assert_int_equal(table.walking, 1);
    while (weir_table_walk(&table, &cursor, 100, NOW + 100 * 3600 * SECOND, NULL, NULL, NULL)) {
    }
    assert_int_equal(table.walking, 0);
    weir_table_rebase(&table, NOW);
    assert_int_equal(table.walking, 0);
}

/* Who moves an entry holds a shard: whichever it is, he is done before anything is counted anew. */
static void a_rebase_awaits_who_moves_an_entry(void **state)
{
    (void)state;
    const uint64_t shards = UINT64_C(1) << table.shard_bits;
    for (uint64_t shard = 0; shard < shards; shard++) {
        weir_shard_lock(&table, shard);
        unlock_next = shard;
        weir_table_rebase(&table, NOW + shard * SECOND);
        assert_true(unlock_next == UINT64_MAX);
    }
}

/* ---- one entry ---- */

/* Who waits for an entry that is dropped meanwhile, and comes for no new one, gets none. */
static void who_waits_for_an_entry_that_goes_gets_none(void **state)
{
    (void)state;
    struct weir_held held, second;
    uint64_t wait_ns;
    assert_int_equal(weir_table_hold(&table, 7, NARROW, WEIR_ABSENT_INSERT, NOW, &held, &wait_ns), WEIR_HOLD_OK);
    drop_next = &held;
    assert_int_equal(weir_table_hold(&table, 7, 0, WEIR_ABSENT_LEAVE, NOW, &second, &wait_ns), WEIR_HOLD_ABSENT);
    assert_null(drop_next);
    assert_int_equal(table.entries, 0);
}

/* An entry that becomes narrow and wide again under one hold has nothing of what it had. */
static void what_is_widened_begins_empty(void **state)
{
    (void)state;
    struct weir_held held;
    uint64_t wait_ns;
    weir_table_set_kind(&table, WIDE, (struct weir_kind){ .wide = true }, 10);
    assert_int_equal(weir_table_hold(&table, 7, WIDE, WEIR_ABSENT_INSERT, NOW, &held, &wait_ns), WEIR_HOLD_OK);
    held.a = 3;
    held.b = 4;
    weir_table_narrow(&table, &held);
    assert_true(weir_table_widen(&table, &held, NOW));
    assert_int_equal(held.a, 0);
    assert_int_equal(held.b, 0);
    weir_table_release(&held, WIDE, NOW + SECOND);
}

/* Two come with the same hash, which nobody had: the second gets what the first has put there. */
static void who_comes_second_gets_what_the_first_has_put_there(void **state)
{
    (void)state;
    const uint64_t hash = (uint64_t)LINE << 4 | UINT64_C(77) << 40;
    struct weir_held held;
    uint64_t wait_ns;
    uint64_t first = weir_table_shard_of(&table, hash), second = weir_table_shard_of(&table, weir_table_second(hash));
    unlock_next = first < second ? first : second; /* the one that is taken first: else nobody could put it there */
    weir_shard_lock(&table, unlock_next);
    put_next = hash;
    assert_int_equal(weir_table_hold(&table, hash, NARROW, WEIR_ABSENT_INSERT, NOW, &held, &wait_ns), WEIR_HOLD_OK);
    assert_true(put_next == 0 && !held.newcomer);
    assert_int_equal(table.entries, 1);
    weir_table_release(&held, NARROW, NOW + SECOND);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(who_leaves_the_line_that_is_being_read_is_shown, begin, end),
        cmocka_unit_test_setup_teardown(who_moves_behind_a_reading_is_not_noted, begin, end),
        cmocka_unit_test_setup_teardown(nobody_is_noted_in_the_place_of_another, begin, end),
        cmocka_unit_test_setup_teardown(a_rebase_does_not_end_a_walk, begin, end),
        cmocka_unit_test_setup_teardown(a_rebase_awaits_who_moves_an_entry, begin, end),
        cmocka_unit_test_setup_teardown(who_waits_for_an_entry_that_goes_gets_none, begin, end),
        cmocka_unit_test_setup_teardown(who_comes_second_gets_what_the_first_has_put_there, begin, end),
        cmocka_unit_test_setup_teardown(what_is_widened_begins_empty, begin, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
