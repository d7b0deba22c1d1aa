/* SPDX-License-Identifier: Apache-2.0
 *
 * semantics.md, "Reconfiguration" (docs/semantics-tests.md). */
#include <stdlib.h>

#include "fixture.h"
#include "random.h"

/* Key "k" of a limit with capacity 10 that used some, under a new capacity: what remains at once. */
static uint64_t remaining_after(enum weir_algorithm algorithm, enum weir_on_change on_change, uint64_t used,
                                uint64_t new_count)
{
    struct fixture f = one_limit(algorithm, 10, HOUR, 0);
    struct weir_limit_spec spec = limit_of(algorithm, new_count, HOUR, 0);
    spec.on_change = on_change;
    ask(&f, used, T0);
    fixture_define(&f, &spec, 1, T0);
    uint64_t remaining = peek(&f, 0, T0).remaining;
    fixture_destroy(&f);
    return remaining;
}

static void reconfiguration__an_unchanged_limit_keeps_its_id(void **state)
{
    (void)state;
    struct weir_limit_spec specs[2] = { limit_of(WEIR_TOKEN_BUCKET, 10, HOUR, 0),
                                        limit_of(WEIR_TOKEN_BUCKET, 20, HOUR, 0) };
    struct fixture f = fixture_create(specs, 2);
    weir_limit_id first = f.ids[0], second = f.ids[1];
    specs[1].count = 30;
    fixture_define(&f, specs, 2, T0);
    assert_int_equal(f.ids[0], first);
    assert_true(f.ids[1] != second);
    fixture_destroy(&f);
}

/* Ids of the set before stay valid until the next one; older ones are refused. */
static void reconfiguration__an_id_is_good_for_one_reload(void **state)
{
    (void)state;
    struct weir_limit_spec spec = limit_of(WEIR_TOKEN_BUCKET, 10, HOUR, 0);
    struct fixture f = fixture_create(&spec, 1);
    struct weir_charge charge = charge_of(&f, 0, "k", 1);
    struct weir_time time = at(T0);
    struct weir_verdict verdict;
    spec.count = 20;
    fixture_define(&f, &spec, 1, T0);
    assert_int_equal(weir_limiter_decide_many(f.limiter, &charge, 1, &time, 0, &verdict), 0);
    spec.count = 30;
    fixture_define(&f, &spec, 1, T0);
    assert_int_equal(weir_limiter_decide_many(f.limiter, &charge, 1, &time, 0, &verdict), WEIR_ESTALE);
    fixture_destroy(&f);
}

/* Whatever is asked by it, of one that was replaced twice and of one that never was. */
static void reconfiguration__an_id_that_is_not_good_is_refused_by_every_call(void **state)
{
    (void)state;
    struct weir_limit_spec spec = limit_of(WEIR_TOKEN_BUCKET, 10, HOUR, 0);
    struct fixture f = fixture_create(&spec, 1);
    const struct weir_slice value = { "k", 1 };
    struct weir_charge charges[2] = { charge_of(&f, 0, "k", 1), charge_of(&f, 0, "l", 1) };
    for (spec.count = 20; spec.count <= 30; spec.count += 10)
        fixture_define(&f, &spec, 1, T0);
    (void)ask(&f, 4, T0);
    const struct {
        weir_limit_id id;
        int error;
    } cases[] = {
        { charges[0].limit, WEIR_ESTALE },
        { f.ids[0], 0 },
        { f.ids[0] + 1, WEIR_ESTALE },                   /* of which nobody knows */
        { f.ids[0] + (UINT64_C(1) << 16), WEIR_ENOENT }, /* a set to come */
        { 0, WEIR_ENOENT },
        { 1, WEIR_ENOENT },
        { UINT64_C(1) << 16 | 1, WEIR_ENOENT }, /* of a bucket without a definition */
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct weir_verdict verdicts[2];
        struct weir_decision decision;
        struct weir_limit_stats stats;
        struct weir_key key;
        const struct weir_time time = at(T0);
        uint64_t units;
        bool found;
        charges[0].limit = charges[1].limit = cases[i].id;
        for (size_t count = 1; count <= 2; count++) {
            assert_int_equal(weir_limiter_decide(f.limiter, charges, count, &time, 0, &decision, verdicts),
                             cases[i].error);
            assert_int_equal(weir_limiter_decide_many(f.limiter, charges, count, &time, 0, verdicts), cases[i].error);
        }
        assert_int_equal(weir_limiter_admit(f.limiter, charges, &time), cases[i].error == 0);
        assert_int_equal(weir_limiter_key(f.limiter, cases[i].id, &value, 1, &key), cases[i].error);
        assert_int_equal(weir_limiter_limit_stats(f.limiter, cases[i].id, &stats), cases[i].error);
        assert_int_equal(weir_limiter_refund(f.limiter, charges, 1, &time, &units), cases[i].error);
        assert_int_equal(weir_limiter_refund_last(f.limiter, charges, 1, &time, &units), cases[i].error);
        assert_int_equal(weir_limiter_forget(f.limiter, charges, &found), cases[i].error);
    }
    fixture_destroy(&f);
}

/* However little it is that changes: a window of two weeks is another one than that of a week. */
static void reconfiguration__so_many_weeks_are_another_limit(void **state)
{
    (void)state;
    struct weir_limit_spec spec = limit_of(WEIR_FIXED_WINDOW, 5, 14 * DAY, 0);
    spec.calendar = WEIR_CALENDAR_WEEK;
    spec.calendar_count = 1;
    struct fixture f = fixture_create(&spec, 1);
    const weir_limit_id before = f.ids[0];
    spec.calendar_count = 2;
    fixture_define(&f, &spec, 1, T0);
    assert_true(f.ids[0] != before);
    const uint64_t monday = 4 * DAY + (ask(&f, 1, 4 * DAY).reset_after_ns <= 7 * DAY ? 7 * DAY : 0);
    assert_int_equal(ask_at(&f, "l", 1, at(monday), 0).reset_after_ns, 14 * DAY);
    fixture_destroy(&f);
}

static void reconfiguration__a_decision_converts_an_old_slot_first(void **state)
{
    (void)state;
    for (int algorithm = 0; algorithm <= WEIR_SLIDING_COUNTER; algorithm++) {
        struct fixture f = one_limit((enum weir_algorithm)algorithm, 10, HOUR, 0);
        struct weir_limit_spec spec = limit_of((enum weir_algorithm)algorithm, 7, HOUR, 0);
        ask(&f, 5, T0);
        fixture_define(&f, &spec, 1, T0);
        struct weir_verdict v = ask(&f, 1, T0);
        assert_int_equal(v.capacity, 7);
        assert_int_equal(v.remaining, 1);
        fixture_destroy(&f);
    }
}

static void reconfiguration__a_background_walk_converts_the_rest(void **state)
{
    (void)state;
    enum { KEYS = 3000 };
    struct fixture f = one_limit(WEIR_TOKEN_BUCKET, 10, HOUR, 0);
    struct weir_limit_spec spec = limit_of(WEIR_TOKEN_BUCKET, 8, HOUR, 0);
    struct weir_time time = at(T0);
    char key[16];
    for (int i = 0; i < KEYS; i++) {
        snprintf(key, sizeof(key), "%d", i);
        ask_at(&f, key, 4, time, 0);
    }
    fixture_define(&f, &spec, 1, T0);
    for (int i = 0; weir_limiter_maintain(f.limiter, &time, 64); i++) {
        assert_true(i < 1000000);
    }
    struct weir_limiter_stats stats;
    weir_limiter_stats(f.limiter, &stats);
    assert_int_equal(stats.converted, KEYS);
    for (int i = 0; i < KEYS; i++) {
        snprintf(key, sizeof(key), "%d", i);
        assert_int_equal(ask_at(&f, key, 0, time, 0).remaining, 4);
    }
    weir_limiter_stats(f.limiter, &stats);
    assert_int_equal(stats.converted, KEYS); /* not once more */
    fixture_destroy(&f);
}

/* Also where a walk for something else is under way: it begins anew, or it would leave out where it has been. */
static void reconfiguration__a_walk_under_way_begins_anew(void **state)
{
    (void)state;
    enum { KEYS = 3000 };
    struct fixture f = one_limit(WEIR_TOKEN_BUCKET, 10, 100 * DAY, 0);
    struct weir_limit_spec spec = limit_of(WEIR_TOKEN_BUCKET, 8, 100 * DAY, 0);
    struct weir_limiter_stats stats;
    struct weir_time time = at(T0 + 400 * DAY);
    assert_false(weir_limiter_maintain(f.limiter, &time, 1));
    for (int i = 0; i < KEYS; i++) {
        char key[16];
        snprintf(key, sizeof(key), "%d", i);
        ask_at(&f, key, 4, time, 0);
    }
    time.now_ns += 15 * HOUR; /* the base of time is old */
    for (int i = 0; i < 20; i++)
        assert_true(weir_limiter_maintain(f.limiter, &time, 8));
    fixture_define(&f, &spec, 1, time.now_ns);
    while (weir_limiter_maintain(f.limiter, &time, 64)) {
    }
    weir_limiter_stats(f.limiter, &stats);
    assert_int_equal(stats.converted, KEYS);
    fixture_destroy(&f);
}

/* What has not changed has no keys to convert. */
static void reconfiguration__after_a_reload_that_changes_nothing_nothing_is_due(void **state)
{
    (void)state;
    struct weir_limit_spec spec = limit_of(WEIR_TOKEN_BUCKET, 10, HOUR, 0);
    struct weir_time time = at(T0);
    struct fixture f = fixture_create(&spec, 1);
    ask(&f, 4, T0);
    assert_false(weir_limiter_maintain(f.limiter, &time, 1));
    fixture_define(&f, &spec, 1, T0);
    assert_false(weir_limiter_maintain(f.limiter, &time, 1));
    spec.count = 11;
    fixture_define(&f, &spec, 1, T0);
    assert_true(weir_limiter_maintain(f.limiter, &time, 1));
    fixture_destroy(&f);
}

/* Whether a decision comes first or the walk. What an override let a key use beyond the limit is a debt. */
static void reconfiguration__keys_of_a_removed_override_go_on_under_the_limit(void **state)
{
    (void)state;
    for (int walks = 0; walks < 3; walks++) {
        struct weir_limit_def defs[2] = {
            { .name = "api", .spec = limit_of(WEIR_TOKEN_BUCKET, 10, HOUR, 0) },
            { .name = "api", .variant = "ada", .spec = limit_of(WEIR_TOKEN_BUCKET, 20, HOUR, 0) },
        };
        const uint64_t used = walks == 1 ? 13 : 7;
        struct fixture f = one_limit(WEIR_TOKEN_BUCKET, 10, HOUR, 0);
        struct weir_time time = at(T0);
        struct weir_verdict verdict;
        assert_int_equal(weir_limiter_define(f.limiter, defs, 2, &time, f.ids, NULL), 0);
        struct weir_charge charge = charge_of(&f, 1, "k", used);
        assert_int_equal(weir_limiter_decide_many(f.limiter, &charge, 1, &time, 0, &verdict), 0);
        assert_int_equal(weir_limiter_define(f.limiter, defs, 1, &time, f.ids, NULL), 0);
        charge.cost = 1; /* by the id of the override, which is good until the next reload */
        assert_int_equal(weir_limiter_decide_many(f.limiter, &charge, 1, &time, WEIR_PEEK, &verdict), 0);
        assert_int_equal(verdict.capacity, 10);
        while (walks > 0 && weir_limiter_maintain(f.limiter, &time, 4096)) {
        }
        assert_int_equal(peek(&f, 1, T0).remaining, used == 7 ? 3 : 0);
        assert_int_equal(peek(&f, 1, T0).retry_after_ns, used == 7 ? 0 : 4 * HOUR / 10);
        fixture_destroy(&f);
    }
}

/* No walk in between: define itself does the rest, so that no slot is ever two generations behind. */
static void reconfiguration__no_slot_is_more_than_one_generation_behind(void **state)
{
    (void)state;
    struct fixture f = one_limit(WEIR_TOKEN_BUCKET, 10, HOUR, 0);
    ask(&f, 4, T0);
    for (uint64_t count = 11; count < 60; count++) {
        struct weir_limit_spec spec = limit_of(WEIR_TOKEN_BUCKET, count, HOUR, 0);
        fixture_define(&f, &spec, 1, T0);
    }
    assert_int_equal(peek(&f, 0, T0).capacity, 59);
    assert_int_equal(peek(&f, 0, T0).remaining, 6);
    fixture_destroy(&f);
}

static void reconfiguration__keep_leaves_what_the_new_limit_has_beyond_what_is_used(void **state)
{
    (void)state;
    for (int algorithm = 0; algorithm <= WEIR_SLIDING_COUNTER; algorithm++) {
        assert_int_equal(remaining_after((enum weir_algorithm)algorithm, WEIR_ON_CHANGE_KEEP, 3, 5), 2);
        assert_int_equal(remaining_after((enum weir_algorithm)algorithm, WEIR_ON_CHANGE_KEEP, 8, 5), 0);
        assert_int_equal(remaining_after((enum weir_algorithm)algorithm, WEIR_ON_CHANGE_KEEP, 10, 1), 0);
    }
}

static void reconfiguration__a_raise_is_felt_through_refill(void **state)
{
    (void)state;
    for (int algorithm = 0; algorithm <= WEIR_SLIDING_COUNTER; algorithm++) {
        for (uint64_t used = 1; used <= 10; used += 3) {
            assert_int_equal(remaining_after((enum weir_algorithm)algorithm, WEIR_ON_CHANGE_KEEP, used, 20), 10 - used);
        }
    }
    struct fixture f = one_limit(WEIR_TOKEN_BUCKET, 10, SECOND, 0);
    struct weir_limit_spec spec = limit_of(WEIR_TOKEN_BUCKET, 20, SECOND, 0);
    ask(&f, 10, T0);
    fixture_define(&f, &spec, 1, T0);
    struct weir_time time = at(T0);
    while (weir_limiter_maintain(f.limiter, &time, 4096)) {
    }
    assert_int_equal(peek(&f, 0, T0 + 500 * MS).remaining, 10);
    assert_int_equal(peek(&f, 0, T0 + SECOND).remaining, 20);
    fixture_destroy(&f);
}

static void reconfiguration__proportional_leaves_the_same_share(void **state)
{
    (void)state;
    for (int algorithm = 0; algorithm <= WEIR_SLIDING_COUNTER; algorithm++) {
        assert_int_equal(remaining_after((enum weir_algorithm)algorithm, WEIR_ON_CHANGE_PROPORTIONAL, 4, 20), 12);
        assert_int_equal(remaining_after((enum weir_algorithm)algorithm, WEIR_ON_CHANGE_PROPORTIONAL, 4, 5), 3);
        assert_int_equal(remaining_after((enum weir_algorithm)algorithm, WEIR_ON_CHANGE_PROPORTIONAL, 10, 20), 0);
    }
}

static void reconfiguration__reset_starts_fresh(void **state)
{
    (void)state;
    for (int algorithm = 0; algorithm <= WEIR_SLIDING_COUNTER; algorithm++) {
        assert_int_equal(remaining_after((enum weir_algorithm)algorithm, WEIR_ON_CHANGE_RESET, 10, 5), 5);
    }
}

/* From every algorithm to every other, what was used stays used. */
static void reconfiguration__another_algorithm_keeps_what_is_used(void **state)
{
    (void)state;
    for (int i = 0; i < 25; i++) {
        struct fixture f = one_limit((enum weir_algorithm)(i / 5), 10, HOUR, 0);
        struct weir_limit_spec spec = limit_of((enum weir_algorithm)(i % 5), 8, HOUR, 0);
        ask(&f, 5, T0);
        fixture_define(&f, &spec, 1, T0);
        assert_int_equal(peek(&f, 0, T0).remaining, 3);
        assert_int_equal(admitted_of(&f, 9, T0), 3);
        fixture_destroy(&f);
    }
}

/* Back and forth at random, asking for all there is: never more than the setting that is larger in rate and burst. */
static void reconfiguration__alternating_never_grants_more_than_the_larger(void **state)
{
    (void)state;
    struct test_random random = { test_random_seed() };
    int rounds = (int)test_effort(6, 40, 400);
    for (int round = 0; round < rounds; round++) {
        enum weir_algorithm algorithm = round % 2 ? WEIR_TOKEN_BUCKET : WEIR_LEAKY_BUCKET;
        struct weir_limit_spec large = limit_of(algorithm, 10, SECOND, 10);
        struct weir_limit_spec small = limit_of(algorithm, 1 + test_random_below(&random, 10), SECOND,
                                                1 + test_random_below(&random, 10));
        large.on_change = small.on_change = WEIR_ON_CHANGE_KEEP;
        struct fixture f = fixture_create(&large, 1);
        uint64_t now = T0, admitted = 0;
        for (int step = 0; step < 500; step++) {
            fixture_define(&f, test_random_below(&random, 2) ? &small : &large, 1, now);
            admitted += admitted_of(&f, 11, now);
            assert_true(admitted * 100 * MS <= 10 * 100 * MS + (now - T0));
            now += test_random_below(&random, 300 * MS);
        }
        fixture_destroy(&f);
    }
}

/* A set with one bad limit changes nothing. */
/* A key that used 100 by `from` and is decided by the first of `to`, which has 10 per hour: 91 have to come back. */
static void expect_debt(const struct weir_limit_def *from, size_t from_count, size_t used_by,
                        const struct weir_limit_def *to, size_t to_count)
{
    const struct weir_limiter_options options = { .memory_max = (size_t)4 << 20 };
    const struct weir_time time = at(T0);
    struct fixture f = { 0 };
    assert_int_equal(weir_limiter_create(&options, &f.limiter, NULL), 0);
    assert_int_equal(weir_limiter_define(f.limiter, from, from_count, &time, f.ids, NULL), 0);
    struct weir_charge charge = charge_of(&f, used_by, "k", 100);
    assert_true(weir_limiter_admit(f.limiter, &charge, &time));
    if (to)
        assert_int_equal(weir_limiter_define(f.limiter, to, to_count, &time, f.ids, NULL), 0);
    assert_int_equal(peek(&f, 1, T0).retry_after_ns, (100 - 9) * 6 * MINUTE);
    fixture_destroy(&f);
}

/* Far ahead, and for no clock's sake: what an override or a level allowed is owed by the limit. */
static void reconfiguration__what_an_override_or_a_level_allowed_is_owed(void **state)
{
    (void)state;
    const struct weir_limit_spec ten = limit_of(WEIR_TOKEN_BUCKET, 10, HOUR, 0),
                                 five = limit_of(WEIR_TOKEN_BUCKET, 5, HOUR, 0),
                                 hundred = limit_of(WEIR_TOKEN_BUCKET, 100, HOUR, 0);
    const struct weir_limit_def override[] = { { "api", "", ten }, { "api", "ada", hundred } };
    const struct weir_limit_def levels[] = { { "api", "", ten },
                                             { "api", "level:a", hundred },
                                             { "api", "level:b", five } };
    expect_debt(override, 2, 1, override, 1);
    expect_debt(levels, 3, 1, NULL, 0);
}

static void reconfiguration__a_bad_set_leaves_the_old_one(void **state)
{
    (void)state;
    struct weir_limit_spec spec = limit_of(WEIR_TOKEN_BUCKET, 10, HOUR, 0);
    struct fixture f = fixture_create(&spec, 1);
    struct weir_limit_spec specs[2] = { limit_of(WEIR_TOKEN_BUCKET, 5, HOUR, 0), limit_of(WEIR_TOKEN_BUCKET, 5, 0, 0) };
    struct fixture other = f;
    struct weir_fault fault;
    ask(&f, 4, T0);
    assert_int_equal(fixture_try_define(&other, specs, 2, T0, &fault), WEIR_ERANGE);
    assert_string_equal(fault.field, "1.period");
    assert_int_equal(peek(&f, 0, T0).capacity, 10);
    assert_int_equal(peek(&f, 0, T0).remaining, 6);
    fixture_destroy(&f);
}

/* A key that becomes a log's, and finds no room for it, is refused for that and stays as it is while it may: until the
 * next reload, when it is gone, and counted. */
static void reconfiguration__who_finds_no_room_for_a_log_waits_for_it(void **state)
{
    (void)state;
    enum { KEYS = 200 };
    const struct weir_limiter_options options = { .memory_max = (size_t)4 << 20, .log_memory_max = 4096 };
    for (int again = 0; again < 2; again++) {
        const struct weir_limit_spec was = limit_of(WEIR_TOKEN_BUCKET, 10, 100 * DAY, 0);
        struct weir_limit_spec is = limit_of(WEIR_SLIDING_LOG, 10, HOUR, 0);
        struct fixture f = fixture_create_with(&options, &was, 1);
        struct weir_limiter_stats stats;
        struct weir_limit_stats limit;
        struct weir_time time = at(T0);
        unsigned full = 0;
        int waits = 0;
        char key[16];
        is.on_full = WEIR_ON_FULL_REFUSE;
        for (int i = 0; i < KEYS; i++) {
            snprintf(key, sizeof(key), "%d", i);
            ask_at(&f, key, 4, time, 0);
        }
        fixture_define(&f, &is, 1, T0);
        if (again) {
            while (weir_limiter_maintain(f.limiter, &time, 4096)) {
            }
        }
        for (int i = 0; i < KEYS; i++) {
            snprintf(key, sizeof(key), "%d", i);
            const struct weir_verdict v = ask_at(&f, key, 1, time, 0);
            assert_true(v.admitted ? v.remaining == 5 : v.full && v.retry_after_ns > 0);
            full += v.full;
            waits = v.full ? i : waits;
        }
        weir_limiter_stats(f.limiter, &stats);
        assert_in_range(full, 50, KEYS - 10);
        assert_int_equal(stats.converted, KEYS - full);
        assert_int_equal(stats.evicted, 0);
        assert_int_equal(stats.keys, KEYS);
        assert_int_equal(stats.refused_full, full);
        if (again) {
            is.count = 11;
            fixture_define(&f, &is, 1, T0); /* which ends the set before the last */
            weir_limiter_stats(f.limiter, &stats);
            assert_int_equal(weir_limiter_limit_stats(f.limiter, f.ids[0], &limit), 0);
            assert_int_equal(stats.evicted, full);
            assert_int_equal(stats.keys, KEYS - full);
        } else {
            struct weir_verdict v = { .full = true };
            time.now_ns += 3 * HOUR; /* the logs are dead by now, and found one after the other */
            snprintf(key, sizeof(key), "%d", waits);
            for (int tries = 0; v.full && tries < 1000; tries++, time.now_ns += 20 * MS)
                v = ask_at(&f, key, 1, time, 0);
            assert_true(v.admitted);
            assert_int_equal(v.remaining, 5);
        }
        fixture_destroy(&f);
    }
}

static void reconfiguration__there_are_32000_limits_at_most(void **state)
{
    (void)state;
    const struct weir_limit_spec spec = limit_of(WEIR_TOKEN_BUCKET, 10, HOUR, 0);
    struct fixture f = fixture_create(&spec, 1);
    const struct weir_time time = at(T0);
    struct weir_limit_def *defs = calloc(WEIR_LIMITS_MAX + 1, sizeof *defs);
    weir_limit_id *ids = calloc(WEIR_LIMITS_MAX + 1, sizeof *ids);
    char(*names)[8] = calloc(WEIR_LIMITS_MAX + 1, sizeof *names);
    struct weir_fault fault;
    assert_true(defs && ids && names);
    for (unsigned i = 0; i <= WEIR_LIMITS_MAX; i++) {
        (void)snprintf(names[i], sizeof names[i], "%u", i);
        defs[i] = (struct weir_limit_def){ .name = names[i], .spec = spec };
    }
    assert_int_equal(weir_limiter_define(f.limiter, defs, WEIR_LIMITS_MAX + 1, &time, ids, &fault), WEIR_ELIMIT);
    assert_string_equal(fault.field, "limits.count");
    assert_int_equal(weir_limiter_define(f.limiter, defs, WEIR_LIMITS_MAX + 1, &time, ids, NULL), WEIR_ELIMIT);
    assert_int_equal(weir_limiter_define(f.limiter, defs, WEIR_LIMITS_MAX, &time, ids, &fault), 0);
    assert_int_equal(ids[0], f.ids[0]); /* it is as it was */
    assert_int_equal(weir_limiter_define(f.limiter, defs, WEIR_LIMITS_MAX, &time, ids, &fault), 0);
    free(defs);
    free(ids);
    free(names);
    fixture_destroy(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reconfiguration__an_unchanged_limit_keeps_its_id),
        cmocka_unit_test(reconfiguration__an_id_is_good_for_one_reload),
        cmocka_unit_test(reconfiguration__so_many_weeks_are_another_limit),
        cmocka_unit_test(reconfiguration__an_id_that_is_not_good_is_refused_by_every_call),
        cmocka_unit_test(reconfiguration__a_walk_under_way_begins_anew),
        cmocka_unit_test(reconfiguration__a_decision_converts_an_old_slot_first),
        cmocka_unit_test(reconfiguration__a_background_walk_converts_the_rest),
        cmocka_unit_test(reconfiguration__after_a_reload_that_changes_nothing_nothing_is_due),
        cmocka_unit_test(reconfiguration__keys_of_a_removed_override_go_on_under_the_limit),
        cmocka_unit_test(reconfiguration__no_slot_is_more_than_one_generation_behind),
        cmocka_unit_test(reconfiguration__keep_leaves_what_the_new_limit_has_beyond_what_is_used),
        cmocka_unit_test(reconfiguration__a_raise_is_felt_through_refill),
        cmocka_unit_test(reconfiguration__proportional_leaves_the_same_share),
        cmocka_unit_test(reconfiguration__reset_starts_fresh),
        cmocka_unit_test(reconfiguration__another_algorithm_keeps_what_is_used),
        cmocka_unit_test(reconfiguration__alternating_never_grants_more_than_the_larger),
        cmocka_unit_test(reconfiguration__what_an_override_or_a_level_allowed_is_owed),
        cmocka_unit_test(reconfiguration__a_bad_set_leaves_the_old_one),
        cmocka_unit_test(reconfiguration__who_finds_no_room_for_a_log_waits_for_it),
        cmocka_unit_test(reconfiguration__there_are_32000_limits_at_most),
    };
    return cmocka_run_group_tests_name("semantics: reconfiguration", tests, NULL, NULL);
}
