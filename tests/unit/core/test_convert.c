/* SPDX-License-Identifier: Apache-2.0
 *
 * The ends of what a changed limit carries over, and of what a counter holds; and what an attempt leaves of a key
 * whose clock jumped. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "core/limit/algorithm.h"
#include "core/limit/limit.h"
#include "core/limit/ticks.h"

#define NOW UINT64_C(1000000000000)
#define SECOND UINT64_C(1000000000)

static struct weir_limit limit_of(enum weir_algorithm algorithm, uint64_t count, uint64_t period_ns)
{
    const struct weir_limit_spec spec = { .algorithm = algorithm, .count = count, .period_ns = period_ns };
    struct weir_limit limit;
    assert_int_equal(weir_limit_init(&limit, &spec, 0, NULL), 0);
    return limit;
}

/* A clock that jumped forward and came back left a permit that ends in a thousand seconds. */
static void permits_of_a_clock_that_came_back_end_with_a_lease(void **state)
{
    const struct weir_limit from = limit_of(WEIR_CONCURRENCY, 2, 10 * SECOND);
    const struct weir_limit to = limit_of(WEIR_CONCURRENCY, 3, 10 * SECOND);
    const struct weir_event late = { .now_ns = NOW + 1000 * SECOND, .cost = 1, .permit = 7 }, event = { .now_ns = NOW };
    uint64_t words[8];
    struct weir_state key = weir_state_fresh(&from, NOW);
    (void)state;
    key.log = (struct weir_log){ .times = words, .room = 8 };
    weir_algorithm_concurrency.add(&from, &key, &late, 1);
    weir_limit_convert(&from, &to, WEIR_ON_CHANGE_KEEP, &key, &event);
    assert_int_equal(key.log.used, 2);
    assert_int_equal(words[0], NOW + 10 * SECOND);
}

/* What another algorithm left used may be more than there is room for, beside permits or without. */
static void more_than_all_permits_are_all_permits(void **state)
{
    const struct weir_limit limit = limit_of(WEIR_CONCURRENCY, 2, 10 * SECOND);
    const struct weir_event event = { .now_ns = NOW };
    (void)state;
    for (uint64_t before = 0; before <= 3; before += 3) {
        uint64_t *words = calloc(WEIR_LOG_MAX, sizeof *words);
        assert_non_null(words);
        struct weir_state key = weir_state_fresh(&limit, NOW);
        key.log = (struct weir_log){ .times = words, .room = WEIR_LOG_MAX };
        weir_algorithm_concurrency.add(&limit, &key, &event, before);
        weir_algorithm_concurrency.add(&limit, &key, &event, WEIR_PERMITS_MAX + 5);
        assert_int_equal(weir_algorithm_concurrency.used(&limit, &key, &event), WEIR_PERMITS_MAX);
        assert_int_equal(key.log.used, WEIR_LOG_MAX);
        free(words);
    }
}

static void a_debt_counts_until_its_end_and_not_then(void **state)
{
    (void)state;
    for (uint64_t late = 0; late <= 1; late++) {
        struct weir_limit from = limit_of(WEIR_FIXED_WINDOW, 10, SECOND);
        struct weir_limit to = limit_of(WEIR_FIXED_WINDOW, 5, SECOND);
        from.debt_units = 500;
        from.debt_until_ns = NOW;
        weir_limit_follow(&to, &from, NOW - 1 + late);
        assert_int_equal(to.debt_units, late ? 10 : 500);
    }
}

/* What fits into the capacity is no debt, and a clock that came back is told from it as before. */
static void what_is_owed_beyond_the_capacity_lies_ahead(void **state)
{
    (void)state;
    static const struct {
        enum weir_algorithm algorithm;
        uint64_t units, more; /* emissions further ahead */
    } cases[] = { { WEIR_TOKEN_BUCKET, 0, 0 },  { WEIR_TOKEN_BUCKET, 9, 0 },   { WEIR_TOKEN_BUCKET, 10, 0 },
                  { WEIR_TOKEN_BUCKET, 11, 1 }, { WEIR_LEAKY_BUCKET, 25, 15 }, { WEIR_FIXED_WINDOW, 2 * SECOND, 0 } };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct weir_limit limit = limit_of(cases[i].algorithm, 10, SECOND);
        const uint64_t before = limit.ahead_max;
        weir_limit_owes(&limit, cases[i].units);
        assert_int_equal(limit.ahead_max - before, cases[i].more * limit.emission);
    }
}

/* Of permits what is out is out; of what was no permit the usual holds. */
static void what_becomes_a_permit_is_carried_like_anything_else(void **state)
{
    (void)state;
    const struct weir_limit from = limit_of(WEIR_FIXED_WINDOW, 10, 3600 * SECOND),
                            to = limit_of(WEIR_CONCURRENCY, 20, SECOND);
    const struct weir_event event = { .now_ns = NOW, .cost = 4 };
    struct weir_state key = weir_state_fresh(&from, NOW);
    weir_algorithm_fixed.add(&from, &key, &(struct weir_event){ .now_ns = NOW, .window = { 0, 1 } }, 4);
    struct weir_limit plain = from;
    plain.calendar = false;
    key.fresh_at = weir_ticks_at(NOW + SECOND, 0);
    assert_int_equal(weir_limit_carried(&plain, &to, WEIR_ON_CHANGE_LEVEL, &key, &event), 4);
    assert_int_equal(weir_limit_carried(&plain, &to, WEIR_ON_CHANGE_KEEP, &key, &event), 14);
    assert_int_equal(weir_limit_carried(&plain, &to, WEIR_ON_CHANGE_PROPORTIONAL, &key, &event), 8);
}

/* In the same windows a share that is smaller is given back. */
static void a_smaller_share_is_fewer_units(void **state)
{
    (void)state;
    const struct weir_limit_spec spec = {
        .algorithm = WEIR_FIXED_WINDOW, .count = 10, .period_ns = SECOND, .align = WEIR_ALIGN_FIRST
    };
    struct weir_limit_spec half = spec;
    struct weir_limit from, to;
    half.count = 5;
    assert_int_equal(weir_limit_init(&from, &spec, 0, NULL), 0);
    assert_int_equal(weir_limit_init(&to, &half, 0, NULL), 0);
    const struct weir_event event = { .now_ns = NOW, .cost = 4 };
    struct weir_state key = weir_state_fresh(&from, NOW);
    weir_algorithm_fixed.add(&from, &key, &event, 4);
    weir_limit_convert(&from, &to, WEIR_ON_CHANGE_PROPORTIONAL, &key, &event);
    assert_int_equal(key.count, 2);
}

/* A log of all that is carried; of permits what the permits need; else none. */
static void what_is_carried_needs_room_where_it_goes(void **state)
{
    (void)state;
    const struct weir_event event = { .now_ns = NOW };
    uint64_t words[64];
    struct weir_state key = { .log = { .times = words, .room = 64, .used = 20 } };
    const struct weir_limit log = limit_of(WEIR_SLIDING_LOG, 100, SECOND);
    const struct weir_limit permits = limit_of(WEIR_CONCURRENCY, 100, SECOND);
    const struct weir_limit bucket = limit_of(WEIR_TOKEN_BUCKET, 100, SECOND);
    for (uint64_t i = 0; i < 64; i++)
        words[i] = NOW + SECOND + i;
    assert_int_equal(weir_limit_room_carried(&log, &key, &event, 10), 32);
    assert_int_equal(weir_limit_room_carried(&log, &key, &event, 40), 64);
    assert_int_equal(weir_limit_room_carried(&bucket, &key, &event, 40), 0);
    key.log.used = 0;
    assert_int_equal(weir_limit_room_carried(&permits, &key, &event, 40), 128);
}

/* What lies behind the permits in their array is none of theirs. */
static void permits_move_no_more_than_they_have(void **state)
{
    (void)state;
    enum { ROOM = 16, ALL = 64 };
    const struct weir_limit limit = limit_of(WEIR_CONCURRENCY, 8, 10 * SECOND);
    for (uint64_t goes = 1; goes <= 4; goes++) {
        uint64_t words[ALL];
        struct weir_state key = weir_state_fresh(&limit, NOW);
        key.log = (struct weir_log){ .times = words, .room = ROOM };
        for (uint64_t i = 0; i < ALL; i++)
            words[i] = 1000 + i;
        for (uint64_t i = 1; i <= 4; i++) {
            const struct weir_event event = { .now_ns = NOW + i, .cost = 1, .permit = i };
            weir_algorithm_concurrency.add(&limit, &key, &event, 1);
        }
        const struct weir_event later = { .now_ns = NOW + 5 };
        assert_int_equal(weir_limit_release(&limit, &key, &later, goes), 1);
        assert_int_equal(weir_limit_renew(&limit, &key, &later, goes == 1 ? 2 : 1), 10 * SECOND);
        for (uint64_t i = 8; i < ALL; i++)
            assert_int_equal(words[i], 1000 + i);
    }
}

static void a_counter_holds_63_bits(void **state)
{
    const struct weir_limit limit = limit_of(WEIR_SLIDING_COUNTER, 10, SECOND);
    const struct weir_event event = { .now_ns = NOW };
    struct weir_state key = weir_state_fresh(&limit, NOW);
    (void)state;
    weir_algorithm_counter.add(&limit, &key, &event, UINT64_MAX);
    assert_int_equal(key.count, UINT64_C(1) << 62);
}

/* An attempt that is refused by a key from the future leaves it empty as of now, and no fuller: later it refills. */
static void an_attempt_ends_what_a_clock_that_jumped_left(void **state)
{
    static const enum weir_algorithm algorithms[] = { WEIR_TOKEN_BUCKET, WEIR_SLIDING_COUNTER, WEIR_SLIDING_LOG };
    (void)state;
    for (size_t i = 0; i < sizeof algorithms / sizeof algorithms[0]; i++) {
        const struct weir_limit limit = limit_of(algorithms[i], 10, 10 * SECOND);
        const struct weir_event event = { .now_ns = NOW, .cost = 1 };
        const struct weir_event later = { .now_ns = NOW + 21 * SECOND, .cost = 1 };
        uint64_t words[32];
        struct weir_verdict verdict = { .capacity = 10 };
        struct weir_state key = weir_state_fresh(&limit, NOW + 1000 * SECOND);
        key.log = (struct weir_log){ .times = words, .room = 32 };
        assert_true(weir_limit_jumped(&limit, &key, NOW));
        weir_limit_drain(&limit, &key, &event, &verdict);
        assert_false(weir_limit_jumped(&limit, &key, NOW));
        assert_int_equal(weir_limit_used(&limit, &key, &event), 10);
        assert_in_range(verdict.reset_after_ns, 10 * SECOND, 20 * SECOND);
        assert_int_equal(weir_limit_used(&limit, &key, &later), 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(permits_of_a_clock_that_came_back_end_with_a_lease),
        cmocka_unit_test(more_than_all_permits_are_all_permits),
        cmocka_unit_test(a_debt_counts_until_its_end_and_not_then),
        cmocka_unit_test(what_is_owed_beyond_the_capacity_lies_ahead),
        cmocka_unit_test(what_becomes_a_permit_is_carried_like_anything_else),
        cmocka_unit_test(a_smaller_share_is_fewer_units),
        cmocka_unit_test(what_is_carried_needs_room_where_it_goes),
        cmocka_unit_test(permits_move_no_more_than_they_have),
        cmocka_unit_test(a_counter_holds_63_bits),
        cmocka_unit_test(an_attempt_ends_what_a_clock_that_jumped_left),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
