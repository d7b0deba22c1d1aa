/* SPDX-License-Identifier: Apache-2.0
 *
 * The life of a reservation, against a model that is a list of what happened: random events, and what is charged in the
 * end is what the table at the head of core/limit/reservation.h says. */
#include "core/limit/reservation.h"

#include "fixture.h"
#include "random.h"

#define TTL (60 * SECOND)

static struct weir_reservation_life begun(uint64_t amount, bool keep)
{
    struct weir_reservation_life life;
    weir_reservation_begin(&life, amount, TTL, keep, T0);
    assert_int_equal(life.end_ns, T0 + TTL);
    assert_int_equal(life.charged, amount);
    return life;
}

static void assert_due(struct weir_reservation_due due, uint64_t back, uint64_t more, bool late, bool again)
{
    assert_int_equal(due.back, back);
    assert_int_equal(due.more, more);
    assert_int_equal(due.late, late);
    assert_int_equal(due.again, again);
}

static void settled_in_time_what_was_taken_is_charged(void **state)
{
    (void)state;
    struct weir_reservation_life less = begun(100, false), more = begun(100, true), all = begun(100, false);
    assert_due(weir_reservation_settle(&less, 30, T0 + TTL - 1), 70, 0, false, false);
    assert_int_equal(less.charged, 30);
    assert_due(weir_reservation_settle(&more, 130, T0), 0, 30, false, false);
    assert_due(weir_reservation_settle(&all, 100, T0), 0, 0, false, false);
    assert_due(weir_reservation_settle(&less, 99, T0 + TTL), 0, 0, false, true); /* twice changes nothing */
    assert_int_equal(less.charged, 30);
    assert_false(weir_reservation_is_over(&less, T0 + 2 * TTL)); /* it has ended already */
}

static void cancelled_all_is_given_back(void **state)
{
    (void)state;
    struct weir_reservation_life life = begun(100, true);
    assert_due(weir_reservation_settle(&life, 0, T0), 100, 0, false, false);
    assert_int_equal(life.charged, 0);
}

static void ended_by_its_ttl_it_is_released_or_kept_and_settled_late(void **state)
{
    (void)state;
    struct weir_reservation_life life = begun(100, false), kept = begun(100, true);
    assert_false(weir_reservation_is_over(&life, T0 + TTL - 1));
    assert_true(weir_reservation_is_over(&life, T0 + TTL));
    assert_due(weir_reservation_expire(&life, T0 + TTL), 100, 0, false, false);
    assert_int_equal(life.charged, 0);
    assert_due(weir_reservation_settle(&life, 130, T0 + TTL), 0, 130, true, false);
    assert_int_equal(life.charged, 130);
    assert_due(weir_reservation_expire(&kept, T0 + TTL), 0, 0, false, false);
    assert_due(weir_reservation_settle(&kept, 130, T0 + TTL), 0, 30, true, false);
    kept = begun(100, true);
    (void)weir_reservation_expire(&kept, T0 + TTL);
    assert_due(weir_reservation_settle(&kept, 70, T0 + TTL), 0, 0, true, false);
    assert_int_equal(kept.charged, 100);
}

static void extended_it_holds_more_and_ends_later_at_most_seven_times(void **state)
{
    (void)state;
    struct weir_reservation_life life = begun(1, false);
    for (unsigned i = 1; i < WEIR_RESERVATION_PARTS_MAX; i++) {
        assert_int_equal(weir_reservation_extends(&life, 10, T0 + i), 0);
        weir_reservation_extend(&life, 10, TTL, T0 + i);
    }
    assert_int_equal(life.held, 71);
    assert_int_equal(life.end_ns, T0 + 7 + TTL);
    assert_int_equal(weir_reservation_extends(&life, 10, T0 + 8), WEIR_ELIMIT);
    life = begun(WEIR_RESERVATION_AMOUNT_MAX - 1, false);
    assert_int_equal(weir_reservation_extends(&life, 2, T0), WEIR_ERANGE);
    assert_int_equal(weir_reservation_extends(&life, 1, T0), 0);
    assert_int_equal(weir_reservation_extends(&life, 1, T0 + TTL), WEIR_ELOST);
    (void)weir_reservation_settle(&life, 1, T0);
    assert_int_equal(weir_reservation_extends(&life, 1, T0), WEIR_ELOST);
    weir_reservation_forget(&life);
    assert_int_equal(life.state, WEIR_RESERVATION_NONE);
    assert_int_equal(weir_reservation_extends(&life, 1, T0), WEIR_ELOST);
}

/* ---- against a list of what happened ---- */

struct told {
    uint64_t reserved, actual;
    bool expired, settled, keep;
};

/* The table of the header, word by word. */
static uint64_t charged_by(const struct told *told)
{
    if (!told->settled)
        return told->expired && !told->keep ? 0 : told->reserved;
    if (told->expired && told->keep)
        return told->actual > told->reserved ? told->actual : told->reserved;
    return told->actual;
}

static void one_life(struct test_random *random, struct weir_reservation_book *book, uint64_t *taken)
{
    struct told told = { .reserved = 1 + test_random_below(random, 100), .keep = test_random_below(random, 2) };
    struct weir_reservation_life life;
    uint64_t now = T0;
    weir_reservation_begin(&life, told.reserved, TTL, told.keep, now);
    weir_reservation_book_add(book, told.reserved, true);
    for (unsigned i = 0; i < 12; i++) {
        const uint64_t more = 1 + test_random_below(random, 100), actual = test_random_below(random, 300);
        const bool open = life.state == WEIR_RESERVATION_OPEN;
        struct weir_reservation_due due;
        now += test_random_below(random, TTL / 2);
        if (weir_reservation_is_over(&life, now)) {
            due = weir_reservation_expire(&life, now);
            weir_reservation_book_end(book, told.reserved, true, &due);
            told.expired = true;
        } else if (test_random_below(random, 3) > 0 && weir_reservation_extends(&life, more, now) == 0) {
            weir_reservation_extend(&life, more, TTL, now);
            weir_reservation_book_add(book, more, false);
            told.reserved += more;
        } else if (test_random_below(random, 3) == 0) {
            due = weir_reservation_settle(&life, actual, now);
            weir_reservation_book_end(book, open ? told.reserved : 0, open, &due);
            told.actual = told.settled ? told.actual : actual;
            told.settled = true;
        }
        assert_int_equal(life.charged, charged_by(&told));
    }
    if (life.state != WEIR_RESERVATION_OPEN)
        *taken += life.charged;
}

static void random_lives_charge_what_the_table_says_and_the_book_adds_up(void **state)
{
    (void)state;
    struct test_random random = { test_random_seed() };
    struct weir_reservation_book book = { 0 };
    uint64_t taken = 0;
    for (uint64_t i = test_effort(2000, 50000, 5000000); i > 0; i--)
        one_life(&random, &book, &taken);
    assert_int_equal(book.settled, taken);
    assert_int_equal(book.reserved + book.more, book.outstanding + book.settled + book.back);
    assert_true(book.back > 0 && book.more > 0 && book.open > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(settled_in_time_what_was_taken_is_charged),
        cmocka_unit_test(cancelled_all_is_given_back),
        cmocka_unit_test(ended_by_its_ttl_it_is_released_or_kept_and_settled_late),
        cmocka_unit_test(extended_it_holds_more_and_ends_later_at_most_seven_times),
        cmocka_unit_test(random_lives_charge_what_the_table_says_and_the_book_adds_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
