/* SPDX-License-Identifier: Apache-2.0
 *
 * One line of the table, one step: what files of table/ promise each other (internal.h), each asked by itself. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include <cmocka.h>

#include "table/internal.h"

#define NOW UINT64_C(1000000000000)
#define SECOND UINT64_C(1000000000)
#define NARROW 20u

static struct weir_table table;
static unsigned told;
static void (*on_forgotten)(void); /* while the table is at it */

static void forgotten(void *context, uint32_t limit, uint64_t a, uint64_t b, bool evicted)
{
    (void)context, (void)limit, (void)a, (void)b, (void)evicted;
    told++;
    if (on_forgotten)
        on_forgotten();
}

static int begin(void **state)
{
    (void)state;
    told = 0;
    on_forgotten = NULL;
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

struct shown {
    unsigned count, full_at;
};

static bool show_until_full(void *context, uint64_t hash, const struct weir_held *held)
{
    struct shown *shown = context;
    (void)hash, (void)held;
    return ++shown->count != shown->full_at;
}

/* Where a line's first entry leaves no more room its others are shown, and no line after it. */
static void a_reading_ends_with_the_line_that_filled_it(void **state)
{
    (void)state;
    for (unsigned full_at = 1; full_at <= 4; full_at++) {
        uint64_t cursor = 0;
        struct shown shown = { .full_at = full_at };
        for (uint64_t i = 0; full_at == 1 && i < 4; i++) {
            struct weir_held held;
            hold(i / 2 << 4 | (i + 1) << 40, &held);
            weir_table_release(&held, NARROW, NOW + SECOND);
        }
        assert_true(weir_table_read(&table, &cursor, SIZE_MAX, show_until_full, &shown));
        assert_int_equal(cursor, (full_at + 1) / 2);
        assert_int_equal(shown.count, 2 * cursor);
        weir_table_read_end(&table, &cursor);
    }
    struct shown shown = { 0 };
    uint64_t cursor = 0;
    while (weir_table_read(&table, &cursor, 100, show_until_full, &shown)) {
    }
    assert_int_equal(shown.count, 4);
    assert_int_equal(cursor, 0); /* it has ended, and the next begins */
    assert_int_equal(table.read_to, 0);
}

/* ---- what changes while a step is under way ---- */

static uint64_t newcomers_line;

static void hold_the_neighbour(void)
{
    struct weir_slot *slot = &table.lines[newcomers_line].slot[1];
    if (told == 1)
        assert_true(weir_slot_swap(slot, weir_slot_load(slot), weir_pair_lock(weir_slot_load(slot))));
}

/* Of two who must go for a wide newcomer the second is held by then: another place is found. */
static void who_is_held_meanwhile_stays(void **state)
{
    (void)state;
    const uint64_t newcomer = UINT64_C(0x123456789) << 20;
    uint64_t cursor = 0, wait_ns;
    struct weir_held held;
    weir_table_set_kind(&table, NARROW + 1, (struct weir_kind){ .wide = true }, 10);
    weir_table_walk(&table, &cursor, 0, NOW, NULL, NULL, NULL); /* nobody moves during a walk */
    for (uint64_t i = 0; i < 8; i++) {
        hold(weir_table_home(&table, newcomer, i / 4, table.count) << 4 | (i + 1) << 40, &held);
        weir_table_release(&held, NARROW, NOW + SECOND);
    }
    newcomers_line = weir_table_home(&table, newcomer, false, table.count);
    on_forgotten = hold_the_neighbour;
    assert_int_equal(weir_table_hold(&table, newcomer, NARROW + 1, WEIR_ABSENT_INSERT, NOW, &held, &wait_ns),
                     WEIR_HOLD_OK);
    struct weir_slot *neighbour = &table.lines[newcomers_line].slot[1];
    assert_ptr_not_equal(held.slot, neighbour - 1);
    assert_true(weir_pair_locked(weir_slot_load(neighbour)));
    assert_true(weir_slot_swap(neighbour, weir_slot_load(neighbour), weir_pair_unlock(weir_slot_load(neighbour))));
    assert_int_equal(told, 3);
    weir_table_release(&held, NARROW + 1, NOW + SECOND);
}

static void see_the_marks(void)
{
    assert_int_equal(table.growing, 1);
    assert_int_equal(table.walking, 1);
}

/* Nothing grows or moves while times are brought to another base. */
static void a_rebase_is_alone(void **state)
{
    (void)state;
    struct weir_held held;
    weir_table_set_kind(&table, NARROW + 1, (struct weir_kind){ .wide = true, .notified = true }, 10);
    uint64_t wait_ns;
    assert_int_equal(weir_table_hold(&table, 1, NARROW + 1, WEIR_ABSENT_INSERT, NOW, &held, &wait_ns), WEIR_HOLD_OK);
    weir_table_release(&held, NARROW + 1, NOW);
    on_forgotten = see_the_marks;
    weir_table_rebase(&table, NOW + 3600 * SECOND);
    assert_int_equal(told, 1);
    assert_int_equal(table.growing, 0);
    assert_int_equal(table.walking, 0);
}

static struct weir_slot *charged_meanwhile;

/* Between the look at an entry and the hold on it somebody charges it, once. */
static bool want_and_charge(void *context, uint32_t limit)
{
    unsigned *asked = context;
    if (++*asked == 1)
        assert_true(weir_slot_swap(charged_meanwhile, weir_slot_load(charged_meanwhile),
                                   weir_pair_at(weir_slot_load(charged_meanwhile), NOW + 2 * SECOND)));
    return limit == NARROW;
}

static void see_charged(void *context, struct weir_held *held)
{
    (void)context;
    told++;
    assert_true(weir_pair_locked(weir_slot_load(held->slot)));
    assert_int_equal(weir_pair_fresh_at(held->pair), NOW + 2 * SECOND);
    weir_table_release(held, NARROW, NOW + 2 * SECOND);
}

static void a_walk_shows_an_entry_as_it_is(void **state)
{
    (void)state;
    uint64_t cursor = 0;
    unsigned asked = 0;
    struct weir_held held;
    hold(1, &held);
    charged_meanwhile = held.slot;
    weir_table_release(&held, NARROW, NOW + SECOND);
    assert_false(weir_table_walk(&table, &cursor, SIZE_MAX, NOW, want_and_charge, see_charged, &asked));
    assert_int_equal(asked, 2);
    assert_int_equal(told, 1);
}

/* ---- who goes through all waits for who holds ---- */

enum pass { READ, WALK, REBASE, PASSES };

static bool begun;      /* atomic: the pass is at the first entry, and comes to the second next */
static uint64_t met_at; /* what the second showed */

static void meet(struct weir_pair pair)
{
    if (__atomic_exchange_n(&begun, true, __ATOMIC_RELEASE))
        met_at = weir_pair_fresh_at(pair);
}

static void meet_dead(void)
{
    meet(WEIR_PAIR_EMPTY);
}

static bool read_both(void *context, uint64_t hash, const struct weir_held *seen)
{
    (void)context, (void)hash;
    meet(seen->pair);
    return true;
}

static bool want_all(void *context, uint32_t limit)
{
    (void)context, (void)limit;
    return true;
}

static void walk_both(void *context, struct weir_held *held)
{
    (void)context;
    meet(held->pair);
    weir_table_release(held, weir_pair_limit(held->pair), weir_pair_fresh_at(held->pair));
}

static void *pass(void *which)
{
    uint64_t cursor = 0;
    switch (*(const enum pass *)which) {
    case READ:
        while (weir_table_read(&table, &cursor, SIZE_MAX, read_both, NULL)) {
        }
        break;
    case WALK:
        (void)weir_table_walk(&table, &cursor, SIZE_MAX, NOW, want_all, walk_both, NULL);
        break;
    default:
        weir_table_rebase(&table, NOW + 3 * SECOND);
    }
    return NULL;
}

/* The first of two in a line is wide and, for a rebase, dead; the second is held, and charged before it is let go. */
static void what_is_held_is_waited_for(void **state)
{
    static const struct timespec a_while = { .tv_nsec = 20000000 };
    for (enum pass which = READ; which < PASSES; which++) {
        struct weir_held first, second;
        uint64_t wait_ns;
        pthread_t thread;
        if (which > READ) {
            end(state);
            begin(state);
        }
        begun = false;
        met_at = 0;
        weir_table_set_kind(&table, NARROW + 1, (struct weir_kind){ .wide = true, .notified = true }, 10);
        assert_int_equal(weir_table_hold(&table, 1, NARROW + 1, WEIR_ABSENT_INSERT, NOW, &first, &wait_ns),
                         WEIR_HOLD_OK);
        weir_table_release(&first, NARROW + 1, NOW + (which == REBASE ? 0 : SECOND));
        hold(UINT64_C(1) << 40, &second);
        weir_table_release(&second, NARROW, NOW + 5 * SECOND);
        assert_int_equal(weir_table_hold(&table, UINT64_C(1) << 40, NARROW, WEIR_ABSENT_LEAVE, NOW, &second, &wait_ns),
                         WEIR_HOLD_OK);
        assert_true(second.slot > first.slot);
        on_forgotten = meet_dead;
        assert_int_equal(pthread_create(&thread, NULL, pass, &which), 0);
        while (!__atomic_load_n(&begun, __ATOMIC_ACQUIRE))
            sched_yield();
        (void)nanosleep(&a_while, NULL); /* time to go wrong */
        assert_true(weir_pair_locked(weir_slot_load(second.slot)));
        weir_table_release(&second, NARROW, NOW + 9 * SECOND);
        assert_int_equal(pthread_join(thread, NULL), 0);
        if (which == REBASE)
            met_at = weir_pair_fresh_at(weir_slot_load(second.slot));
        assert_int_equal(met_at, NOW + 9 * SECOND);
        on_forgotten = NULL;
    }
}

/* Of a line that is split who is dead goes, and stays behind no more than the others. */
static void a_split_forgets_who_is_dead(void **state)
{
    (void)state;
    const uint64_t before = UINT64_C(1) << 10;
    struct weir_held held;
    struct weir_pair pair;
    weir_table_deinit(&table);
    assert_int_equal(weir_table_init(&table, (before + 8) * sizeof(struct weir_line), SECOND, NOW, forgotten, NULL), 0);
    for (uint64_t i = 0; i < 3; i++) {
        hold(before << 4 | (i + 1) << 40, &held);
        weir_table_release(&held, NARROW, i == 1 ? NOW - 2 * SECOND : NOW);
    }
    assert_int_equal(weir_table_grow(&table, 1, NOW), 1);
    for (uint64_t i = 0; i < 3; i++)
        assert_ptr_equal(weir_table_find(&table, before << 4 | (i + 1) << 40, &pair),
                         i == 1 ? NULL : &table.lines[before].slot[i]);
    assert_int_equal(table.entries, 2);
    assert_int_equal(table.forgotten_ns, NOW);
}

static uint64_t shown_hashes[16];

static bool note_hash(void *context, uint64_t hash, const struct weir_held *seen)
{
    (void)seen;
    shown_hashes[(*(unsigned *)context)++] = hash;
    return true;
}

/* A newcomer needs the place of one whose other home the reading has passed: that one is shown all the same. */
static void who_moves_past_a_reading_is_shown(void **state)
{
    (void)state;
    enum { A = 1000, RESIDENTS = 8 };
    const uint64_t newcomer = (uint64_t)A << 4 | UINT64_C(77) << 40;
    uint64_t cursor = 0, lines[2] = { A, weir_table_home(&table, newcomer, true, table.count) };
    uint64_t residents[RESIDENTS];
    unsigned shown = 0, count = 0;
    struct weir_held held;
    assert_true(lines[1] != A);
    for (uint64_t k = 100; count < RESIDENTS; k++) {
        const uint64_t hash = lines[count / 4] << 4 | k << 40;
        if (weir_table_home(&table, hash, true, table.count) >= 500)
            continue;
        hold(hash, &held);
        weir_table_release(&held, NARROW, NOW + SECOND);
        residents[count++] = hash;
    }
    while (cursor < 500 || (lines[1] < A && cursor <= lines[1]))
        assert_true(weir_table_read(&table, &cursor, 1, note_hash, &shown));
    assert_true(cursor <= A);
    hold(newcomer, &held);
    weir_table_release(&held, NARROW, NOW + SECOND);
    assert_int_equal(table.passed_head, 1);
    assert_true(weir_table_read(&table, &cursor, 1, note_hash, &shown));
    assert_int_equal(table.passed_tail, 1); /* at once: there is not room for many */
    while (weir_table_read(&table, &cursor, 1, note_hash, &shown)) {
    }
    for (unsigned i = 0; i < RESIDENTS; i++) {
        bool found = false;
        for (unsigned k = 0; k < shown; k++)
            found |= shown_hashes[k] == residents[i];
        assert_true(found);
    }
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
        cmocka_unit_test_setup_teardown(a_reading_ends_with_the_line_that_filled_it, begin, end),
        cmocka_unit_test_setup_teardown(who_is_held_meanwhile_stays, begin, end),
        cmocka_unit_test_setup_teardown(a_rebase_is_alone, begin, end),
        cmocka_unit_test_setup_teardown(a_walk_shows_an_entry_as_it_is, begin, end),
        cmocka_unit_test_setup_teardown(what_is_held_is_waited_for, begin, end),
        cmocka_unit_test_setup_teardown(a_split_forgets_who_is_dead, begin, end),
        cmocka_unit_test_setup_teardown(who_moves_past_a_reading_is_shown, begin, end),
        cmocka_unit_test(a_table_that_cannot_be_had_is_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
