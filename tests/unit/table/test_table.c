/* SPDX-License-Identifier: Apache-2.0
 *
 * The table by itself: what it promises to those who hold its slots. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "random.h"
#include "table/internal.h"

#define NOW UINT64_C(1000000000000)
#define SECOND UINT64_C(1000000000)
#define NARROW 20u /* limit numbers of the tests */
#define WIDE 21u

struct seen_leaving {
    uint64_t count, evicted;
};

static void forgotten(void *context, uint32_t limit, uint64_t a, uint64_t b, bool evicted)
{
    struct seen_leaving *seen = context;
    (void)limit;
    (void)a;
    (void)b;
    __atomic_fetch_add(&seen->count, 1, __ATOMIC_RELAXED);
    __atomic_fetch_add(&seen->evicted, evicted, __ATOMIC_RELAXED);
}

static void open_table(struct weir_table *table, size_t bytes, struct seen_leaving *seen)
{
    *seen = (struct seen_leaving){ 0 };
    assert_int_equal(weir_table_init(table, bytes, SECOND, NOW, forgotten, seen), 0);
    table->kinds[WIDE] = (struct weir_kind){ .wide = true };
}

/* Puts a key in, or finds it, and leaves it `until_ns` from fresh. */
static enum weir_hold put(struct weir_table *table, uint64_t hash, uint32_t limit, enum weir_absent absent,
                          uint64_t until_ns, uint64_t value)
{
    struct weir_held held;
    uint64_t wait_ns;
    enum weir_hold result = weir_table_hold(table, hash, limit, absent, NOW, &held, &wait_ns);
    if (result == WEIR_HOLD_OK) {
        held.a = value;
        held.b = ~value;
        weir_table_release(&held, limit, NOW + until_ns);
    }
    return result;
}

/* A swap with what was seen fails once the slot belongs to somebody else, even in the same place with the same
 * state. */
static void a_slot_reused_between_find_and_swap_is_not_swapped(void **state)
{
    struct weir_table table;
    struct seen_leaving seen;
    struct weir_pair pair = { 0, 0 };
    struct weir_held held;
    uint64_t wait_ns, mine = UINT64_C(0x123456789abcd000) & WEIR_TAG_KEY_MASK;
    (void)state;
    open_table(&table, 64 << 10, &seen);
    assert_int_equal(put(&table, mine, NARROW, WEIR_ABSENT_INSERT, 5, 0), WEIR_HOLD_OK);
    struct weir_slot *slot = weir_table_find(&table, mine, &pair);
    assert_non_null(slot);

    /* Meanwhile: the key is forgotten, and another with the same lines and the same state comes to its slot. */
    assert_int_equal(weir_table_hold(&table, mine, NARROW, WEIR_ABSENT_LEAVE, NOW, &held, &wait_ns), WEIR_HOLD_OK);
    weir_table_drop(&table, &held);
    uint64_t other = mine ^ UINT64_C(1) << 61;
    assert_int_equal(put(&table, other, NARROW, WEIR_ABSENT_INSERT, 5, 0), WEIR_HOLD_OK);
    struct weir_pair theirs = { 0, 0 };
    assert_ptr_equal(weir_table_find(&table, other, &theirs), slot);
    assert_int_equal(theirs.word, pair.word);

    assert_false(weir_slot_swap(slot, pair, weir_pair_with(pair, NARROW, NOW + 10)));
    assert_true(weir_slot_swap(slot, theirs, weir_pair_with(theirs, NARROW, NOW + 10)));
    weir_table_check(&table);
    weir_table_deinit(&table);
}

/* Narrow and wide keys, many times the first size: each is found again with its own value, and none was evicted. */
static void every_key_survives_growth(void **state)
{
    enum { KEYS = 300000 };
    struct weir_table table;
    struct seen_leaving seen;
    struct test_random random = { test_random_seed() };
    uint64_t *hashes = malloc(KEYS * sizeof *hashes);
    (void)state;
    open_table(&table, (size_t)16 << 20, &seen);
    uint64_t lines_before = table.count;
    for (uint64_t i = 0; i < KEYS; i++) {
        hashes[i] = test_random_u64(&random);
        assert_int_equal(put(&table, hashes[i], i % 5 == 0 ? WIDE : NARROW, WEIR_ABSENT_INSERT_FREE, 100 + i, i),
                         WEIR_HOLD_OK);
    }
    assert_true(table.count > 4 * lines_before);
    assert_int_equal(seen.evicted, 0);
    for (uint64_t i = 0; i < KEYS; i++) {
        struct weir_held held;
        uint64_t wait_ns;
        assert_int_equal(weir_table_hold(&table, hashes[i], NARROW, WEIR_ABSENT_LEAVE, NOW, &held, &wait_ns),
                         WEIR_HOLD_OK);
        assert_int_equal(weir_pair_fresh_at(held.pair), NOW + 100 + i);
        assert_int_equal(held.wide, i % 5 == 0);
        if (held.wide) {
            assert_int_equal(held.a, i);
            assert_int_equal(held.b, ~i);
        }
        weir_table_release(&held, weir_pair_limit(held.pair), weir_pair_fresh_at(held.pair));
    }
    assert_int_equal(table.entries, KEYS);
    assert_int_equal(table.slots_used, KEYS + KEYS / 5);
    free(hashes);
    weir_table_check(&table);
    weir_table_deinit(&table);
}

/* Room is made for newcomers by moving others to their second home, but nobody who is held. */
static void who_is_held_stays_where_it_is(void **state)
{
    enum { HELD = 32 };
    struct weir_table table;
    struct seen_leaving seen;
    struct test_random random = { test_random_seed() };
    struct weir_held held[HELD];
    uint64_t hashes[HELD], wait_ns;
    (void)state;
    open_table(&table, 64 << 10, &seen);
    for (unsigned i = 0; i < HELD; i++) {
        hashes[i] = test_random_u64(&random);
        assert_int_equal(put(&table, hashes[i], NARROW, WEIR_ABSENT_INSERT, 900 * SECOND, 0), WEIR_HOLD_OK);
    }
    while (table.count < table.lines_max) /* and no line is split any more */
        assert_int_equal(put(&table, test_random_u64(&random), NARROW, WEIR_ABSENT_INSERT_FREE, 900 * SECOND, 0),
                         WEIR_HOLD_OK);
    for (unsigned i = 0; i < HELD; i++)
        assert_int_equal(weir_table_hold(&table, hashes[i], NARROW, WEIR_ABSENT_LEAVE, NOW, &held[i], &wait_ns),
                         WEIR_HOLD_OK);
    while (put(&table, test_random_u64(&random), NARROW, WEIR_ABSENT_INSERT_FREE, 900 * SECOND, 0) == WEIR_HOLD_OK)
        for (unsigned i = 0; i < HELD; i++)
            assert_true(weir_pair_locked(weir_slot_load(held[i].slot)));
    for (unsigned i = 0; i < HELD; i++)
        weir_table_release(&held[i], NARROW, NOW + 900 * SECOND);
    assert_int_equal(seen.count, 0);
    weir_table_check(&table);
    weir_table_deinit(&table);
}

/* In a full table a newcomer takes the place of the one closest to fresh of those in its lines. */
static void the_one_closest_to_fresh_goes(void **state)
{
    struct weir_table table;
    struct seen_leaving seen;
    struct test_random random = { test_random_seed() };
    (void)state;
    open_table(&table, 64 << 10, &seen);
    uint64_t offender = test_random_u64(&random);
    assert_int_equal(put(&table, offender, NARROW, WEIR_ABSENT_INSERT, 1000 * SECOND, 0), WEIR_HOLD_OK);
    for (int i = 0; i < 200000; i++)
        assert_int_equal(put(&table, test_random_u64(&random), NARROW, WEIR_ABSENT_INSERT, 900 * SECOND, 0),
                         WEIR_HOLD_OK);
    struct weir_pair pair = { 0, 0 };
    assert_non_null(weir_table_find(&table, offender, &pair));
    assert_true(seen.evicted > 190000 && seen.evicted == table.evicted);
    assert_true(table.count <= table.lines_max);
    /* refuse: nobody goes, the newcomer is told how long until somebody may */
    struct weir_held held;
    uint64_t wait_ns = 0, evicted = table.evicted;
    enum weir_hold result = WEIR_HOLD_OK;
    for (int i = 0; i < 100 && result == WEIR_HOLD_OK; i++) {
        result = weir_table_hold(&table, test_random_u64(&random), NARROW, WEIR_ABSENT_INSERT_FREE, NOW, &held,
                                 &wait_ns);
        if (result == WEIR_HOLD_OK)
            weir_table_release(&held, NARROW, NOW + 900 * SECOND);
    }
    assert_int_equal(result, WEIR_HOLD_FULL);
    assert_int_equal(wait_ns, 901 * SECOND + 1);
    assert_int_equal(table.evicted, evicted);
    weir_table_check(&table);
    weir_table_deinit(&table);
}

/* Fresh for more than skew_max: reused without a word. At skew_max: still live. */
static void a_slot_is_free_once_fresh_for_skew_max(void **state)
{
    struct weir_table table;
    struct seen_leaving seen;
    struct test_random random = { test_random_seed() };
    (void)state;
    for (int late = 0; late <= 1; late++) {
        open_table(&table, 64 << 10, &seen);
        table.lines_max = table.count;
        for (uint64_t i = 0; i < 20 * table.count; i++) {
            struct weir_held held;
            uint64_t wait_ns, now = NOW + (i < 10 * table.count ? 0 : SECOND + (uint64_t)late);
            assert_int_equal(
                weir_table_hold(&table, test_random_u64(&random), NARROW, WEIR_ABSENT_INSERT, now, &held, &wait_ns),
                WEIR_HOLD_OK);
            /* The first half is fresh at NOW; the second half comes when that was skew_max ago, or 1 ns more. */
            weir_table_release(&held, NARROW, i < 10 * table.count ? NOW : NOW + 3600 * SECOND);
            if (i == 10 * table.count - 1)
                seen.evicted = 0;
            if (i == 11 * table.count && late)
                assert_int_equal(seen.evicted, 0);
        }
        if (!late)
            assert_true(seen.evicted > 0);
        weir_table_check(&table);
        weir_table_deinit(&table);
    }
}

static void what_a_slot_waits_for_and_takes(void **state)
{
    struct weir_table table;
    struct seen_leaving seen;
    struct weir_held held;
    uint64_t wait_ns;
    (void)state;
    open_table(&table, 64 << 10, &seen);
    assert_int_equal(put(&table, 1, NARROW, WEIR_ABSENT_INSERT, 5, 0), WEIR_HOLD_OK);
    assert_int_equal(table.slots_used, 1);
    assert_int_equal(weir_table_hold(&table, 1, NARROW, WEIR_ABSENT_LEAVE, NOW, &held, &wait_ns), WEIR_HOLD_OK);
    assert_int_equal(weir_table_dead_after_ns(&table, held.pair, NOW), 5 + SECOND + 1); /* fresh for skew_max */
    assert_int_equal(weir_table_dead_after_ns(&table, held.pair, NOW + 5 + SECOND), 1);
    assert_int_equal(weir_table_dead_after_ns(&table, held.pair, NOW + 5 + SECOND + 1), 0);
    assert_true(weir_table_widen(&table, &held, NOW));
    assert_int_equal(table.slots_used, 2);
    struct weir_pair pair = { 0, 0 };
    assert_non_null(weir_table_find(&table, 1, &pair)); /* while it is held: or another would make it anew */
    assert_true(weir_pair_locked(pair));
    weir_table_release(&held, WIDE, NOW + 5);
    assert_int_equal(table.entries, 1);
    weir_table_check(&table);
    weir_table_deinit(&table);
}

/* ---- a walk meets every entry, whatever moves meanwhile ---- */

struct walked {
    uint64_t met, wanted;
};

static bool want_all(void *context, uint32_t limit)
{
    (void)context;
    return limit == NARROW;
}

static void renumber(void *context, struct weir_held *held)
{
    struct walked *walked = context;
    walked->met++;
    weir_table_release(held, WIDE + 1, weir_pair_fresh_at(held->pair));
}

static void a_walk_meets_every_entry_while_others_come(void **state)
{
    struct weir_table table;
    struct seen_leaving seen;
    struct test_random random = { test_random_seed() };
    struct walked walked = { 0 };
    uint64_t cursor = 0;
    (void)state;
    open_table(&table, (size_t)4 << 20, &seen);
    for (int i = 0; i < 100000; i++)
        assert_int_equal(put(&table, test_random_u64(&random), NARROW, WEIR_ABSENT_INSERT, 900 * SECOND, 0),
                         WEIR_HOLD_OK);
    while (weir_table_walk(&table, &cursor, 7, NOW, want_all, renumber, &walked))
        assert_int_equal(put(&table, test_random_u64(&random), WIDE + 2, WEIR_ABSENT_INSERT, 950 * SECOND, 0),
                         WEIR_HOLD_OK);
    assert_true(walked.met + seen.evicted >= 100000);
    uint64_t met = walked.met;
    cursor = 0;
    while (weir_table_walk(&table, &cursor, SIZE_MAX, NOW, want_all, renumber, &walked)) {
    }
    assert_int_equal(walked.met, met); /* none was left behind */
    weir_table_check(&table);
    weir_table_deinit(&table);
}

/* ---- time that goes far ---- */

static void slots_are_right_however_far_the_clock_goes(void **state)
{
    struct weir_table table;
    struct seen_leaving seen;
    struct weir_pair pair = { 0, 0 };
    (void)state;
    open_table(&table, 64 << 10, &seen);
    table.kinds[NARROW].shift = WEIR_TICKS_SHIFT_MAX; /* a word wraps after 6.5 days */
    const uint64_t day = 86400 * SECOND;
    uint64_t now = NOW;
    for (int i = 0; i < 40; i++, now += day + 12345) {
        struct weir_held held;
        uint64_t wait_ns, hash = (uint64_t)i << 20;
        if (!weir_table_in_reach(&table, now))
            weir_table_rebase(&table, now);
        assert_int_equal(weir_table_hold(&table, hash, NARROW, WEIR_ABSENT_INSERT, now, &held, &wait_ns), WEIR_HOLD_OK);
        assert_true(held.newcomer);
        weir_table_release(&held, NARROW, weir_ticks_at(now + 10 * SECOND, WEIR_TICKS_SHIFT_MAX));
        assert_non_null(weir_table_find(&table, hash, &pair));
        assert_int_equal(weir_ticks_ahead(weir_pair_fresh_at(pair), weir_ticks_at(now, WEIR_TICKS_SHIFT_MAX)),
                         (int64_t)(10 * SECOND << WEIR_TICKS_SHIFT_MAX));
    }
    weir_table_rebase(&table, now); /* all but today's are long fresh */
    assert_true(table.entries <= 1);
    weir_table_rebase(&table, 5); /* and back to the beginning of time */
    assert_true(weir_table_in_reach(&table, 5));
    weir_table_check(&table);
    weir_table_deinit(&table);
}

/* Coarse ticks reach further than ns do: what does not fit is as far as can be told. */
static void times_that_are_too_far_to_tell_are_as_far_as_can_be(void **state)
{
    struct weir_table table;
    struct seen_leaving seen;
    (void)state;
    open_table(&table, 64 << 10, &seen);
    table.kinds[NARROW].shift = WEIR_TICKS_SHIFT_MIN;
    const uint64_t now = weir_ticks_at(NOW, WEIR_TICKS_SHIFT_MIN), far = UINT64_C(1) << 57;
    const struct {
        uint64_t fresh_at;
        int64_t until_ns;
    } cases[] = { { now + 3, 3 * 64 },
                  { now - 3, -3 * 64 },
                  { now + far / 4, (int64_t)far / 4 * 64 },
                  { now + far, INT64_MAX / 2 },
                  { now - far, -INT64_MAX / 2 } };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct weir_pair pair = weir_pair_make(1, NARROW, cases[i].fresh_at);
        assert_true(weir_table_until_fresh_ns(&table, pair, NOW) == cases[i].until_ns);
    }
    weir_table_deinit(&table);
}

static void the_smallest_table_is_a_page(void **state)
{
    struct weir_table table;
    struct seen_leaving seen;
    (void)state;
    open_table(&table, 64 * sizeof(struct weir_line), &seen);
    assert_int_equal(table.lines_max, 64);
    weir_table_deinit(&table);
    weir_table_deinit(&table); /* as where it could not be had, and its owner ends */
    assert_null(table.shard_locks);
    assert_int_equal(weir_table_init(&table, 64 * sizeof(struct weir_line) - 1, 0, NOW, forgotten, &seen), WEIR_ERANGE);
}

static void as_many_lines_are_split_as_are_said(void **state)
{
    struct weir_table table;
    struct seen_leaving seen;
    (void)state;
    open_table(&table, 66 << 10, &seen);
    uint64_t count = table.count, left = table.lines_max - count;
    assert_true(left > 3);
    assert_int_equal(weir_table_grow(&table, 3, NOW), 3);
    assert_int_equal(table.count, count + 3);
    assert_int_equal(weir_table_grow(&table, 1000, NOW), left - 3);
    weir_table_check(&table);
    weir_table_deinit(&table);
}

static void a_rebase_forgets_what_is_dead_and_nothing_else(void **state)
{
    struct weir_table table;
    struct seen_leaving seen;
    (void)state;
    open_table(&table, 64 << 10, &seen);
    assert_int_equal(put(&table, UINT64_C(1) << 20, NARROW, WEIR_ABSENT_INSERT, 0, 0), WEIR_HOLD_OK);
    weir_table_rebase(&table, NOW + SECOND); /* fresh for skew_max: it still counts */
    assert_int_equal(table.entries, 1);
    weir_table_rebase(&table, NOW + SECOND + 1);
    assert_int_equal(table.entries, 0);
    weir_table_check(&table);
    weir_table_deinit(&table);
}

static void a_narrowed_entry_takes_one_slot(void **state)
{
    struct weir_table table;
    struct seen_leaving seen;
    struct weir_held held;
    uint64_t wait_ns;
    (void)state;
    open_table(&table, 64 << 10, &seen);
    assert_int_equal(put(&table, 1, WIDE, WEIR_ABSENT_INSERT, 5, 7), WEIR_HOLD_OK);
    assert_int_equal(weir_table_hold(&table, 1, WIDE, WEIR_ABSENT_LEAVE, NOW, &held, &wait_ns), WEIR_HOLD_OK);
    weir_table_narrow(&table, &held);
    assert_int_equal(table.slots_used, 1);
    weir_table_release(&held, NARROW, NOW + 5);
    weir_table_check(&table);
    weir_table_deinit(&table);
}

/* Holds whoever stands in the first slot of a home of `hash`, a second from fresh. */
static uint64_t hold_cheapest(struct weir_table *table, uint64_t hash, bool second, struct weir_held *ret_held)
{
    uint64_t number = weir_table_home(table, hash, second, table->count), wait_ns;
    struct weir_pair pair = weir_slot_load(&table->lines[number].slot[0]);
    uint64_t there = weir_table_hash_of(table, pair, number);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(weir_table_hold(table, there, NARROW, WEIR_ABSENT_LEAVE, NOW, ret_held, &wait_ns),
                         WEIR_HOLD_OK);
        if (i == 0)
            weir_table_release(ret_held, NARROW, NOW + SECOND);
    }
    return there;
}

/* In a full table, in either home; but nobody who is held goes, and another does in its place. */
static void the_cheapest_of_both_homes_goes_unless_it_is_held(void **state)
{
    struct test_random random = { test_random_seed() };
    (void)state;
    for (int held = 0; held <= 1; held++) {
        struct weir_table table;
        struct seen_leaving seen;
        open_table(&table, 64 << 10, &seen);
        while (seen.evicted < 5000)
            assert_int_equal(put(&table, test_random_u64(&random), NARROW, WEIR_ABSENT_INSERT, 900 * SECOND, 0),
                             WEIR_HOLD_OK);
        for (int i = 0; i < 100; i++) {
            struct weir_held cheapest;
            struct weir_pair pair;
            uint64_t hash = test_random_u64(&random), there = hold_cheapest(&table, hash, i % 2, &cheapest);
            if (!held)
                weir_table_release(&cheapest, NARROW, NOW + SECOND);
            assert_int_equal(put(&table, hash, NARROW, WEIR_ABSENT_INSERT, 900 * SECOND, 0), WEIR_HOLD_OK);
            assert_int_equal(weir_table_find(&table, there, &pair) != NULL, held);
            if (held)
                weir_table_release(&cheapest, NARROW, NOW + 900 * SECOND);
        }
        weir_table_check(&table);
        weir_table_deinit(&table);
    }
}

static bool show_one(void *context, uint64_t hash, const struct weir_held *held)
{
    (void)hash, (void)held;
    ++*(unsigned *)context;
    return false;
}

/* Where there is room for one at a time, those that moved while all was read wait for the next look at the end. */
static void what_moved_is_read_at_the_end_one_by_one(void **state)
{
    struct weir_table table;
    struct seen_leaving seen;
    struct test_random random = { test_random_seed() };
    uint64_t hashes[3], cursor = 0;
    unsigned shown = 0;
    (void)state;
    open_table(&table, 64 << 10, &seen);
    for (unsigned i = 0; i < 3; i++) {
        hashes[i] = test_random_u64(&random);
        assert_int_equal(put(&table, hashes[i], NARROW, WEIR_ABSENT_INSERT, SECOND, 0), WEIR_HOLD_OK);
    }
    while (cursor < table.count)
        assert_true(weir_table_read(&table, &cursor, 1, show_one, &shown));
    for (; table.passed_head < 3; table.passed_head++)
        table.passed[table.passed_head] = hashes[table.passed_head] | WEIR_PASSED_NOTED;
    while (weir_table_read(&table, &cursor, 1, show_one, &shown)) {
    }
    assert_int_equal(shown, 3 + 3);
    weir_table_deinit(&table);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_slot_reused_between_find_and_swap_is_not_swapped),
        cmocka_unit_test(every_key_survives_growth),
        cmocka_unit_test(who_is_held_stays_where_it_is),
        cmocka_unit_test(the_one_closest_to_fresh_goes),
        cmocka_unit_test(a_slot_is_free_once_fresh_for_skew_max),
        cmocka_unit_test(what_a_slot_waits_for_and_takes),
        cmocka_unit_test(a_walk_meets_every_entry_while_others_come),
        cmocka_unit_test(slots_are_right_however_far_the_clock_goes),
        cmocka_unit_test(times_that_are_too_far_to_tell_are_as_far_as_can_be),
        cmocka_unit_test(the_smallest_table_is_a_page),
        cmocka_unit_test(as_many_lines_are_split_as_are_said),
        cmocka_unit_test(a_rebase_forgets_what_is_dead_and_nothing_else),
        cmocka_unit_test(a_narrowed_entry_takes_one_slot),
        cmocka_unit_test(the_cheapest_of_both_homes_goes_unless_it_is_held),
        cmocka_unit_test(what_moved_is_read_at_the_end_one_by_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
