/* SPDX-License-Identifier: Apache-2.0
 *
 * What was once wrong in the limiter, each found by attacking it: one test a finding. */
#include <stdlib.h>

#include "fixture.h"
#include "limits/memory.h"

/* It used to read the process's clock and move the whole table to it. */
static void forgetting_a_key_asks_no_clock(void **state)
{
    struct weir_limit_spec spec = limit_of(WEIR_TOKEN_BUCKET, 10, HOUR, 0);
    struct fixture f = fixture_create(&spec, 1);
    uint64_t far = UINT64_C(1790000000) * SECOND; /* the caller's clock: any origin */
    (void)state;
    assert_int_equal(admitted_of(&f, 11, far), 10);
    struct weir_charge other = charge_of(&f, 0, "other", 0);
    bool found = true;
    assert_int_equal(weir_limiter_forget(f.limiter, &other, &found), 0);
    assert_false(found);
    assert_false(ask(&f, 1, far + 1).admitted);
    fixture_destroy(&f);
}

/* A first look at several limits saw the key empty as of ever later nows. */
static void a_clock_jump_heals_under_several_limits_too(void **state)
{
    struct weir_limit_spec specs[2] = { limit_of(WEIR_TOKEN_BUCKET, 10, SECOND, 0),
                                        limit_of(WEIR_TOKEN_BUCKET, 10, SECOND, 0) };
    struct fixture f = fixture_create(specs, 2);
    struct weir_verdict verdicts[2];
    (void)state;
    assert_true(ask_all(&f, "k", 1, T0 + DAY, 0, verdicts).admitted);
    assert_false(ask_all(&f, "k", 1, T0, 0, verdicts).admitted);
    assert_true(ask_all(&f, "k", 1, T0 + SECOND / 10, 0, verdicts).admitted);
    fixture_destroy(&f);
}

/* What the refused attempt itself was charged was left out of the wait. */
static void the_wait_counts_attempts_that_were_charged(void **state)
{
    struct weir_limit_spec specs[2] = { limit_of(WEIR_TOKEN_BUCKET, 10, 1000 * SECOND, 0),
                                        limit_of(WEIR_TOKEN_BUCKET, 10, 10 * SECOND, 0) };
    specs[0].count_mode = WEIR_COUNT_ATTEMPTS;
    struct fixture f = fixture_create(specs, 2);
    struct weir_verdict verdicts[2];
    (void)state;
    assert_true(ask_all(&f, "k", 4, T0, 0, verdicts).admitted);
    /* The second holds 6, the first too: both would admit 6, but 7 is refused, and drains the first. */
    struct weir_decision refused = ask_all(&f, "k", 7, T0, 0, verdicts);
    assert_false(refused.admitted);
    assert_int_equal(refused.retry_after_ns, 700 * SECOND);
    assert_false(ask_all(&f, "k", 7, T0 + 700 * SECOND - 1, WEIR_PEEK, verdicts).admitted);
    assert_true(ask_all(&f, "k", 7, T0 + 700 * SECOND, WEIR_PEEK, verdicts).admitted);
    fixture_destroy(&f);
}

/* Rings of logs long dead were never given back where newcomers must not evict. */
static void dead_logs_give_their_rings_to_newcomers(void **state)
{
    struct weir_limiter_options options = { .memory_max = WEIR_MEMORY_MIN };
    struct weir_limit_spec spec = limit_of(WEIR_SLIDING_LOG, 8, SECOND, 0);
    spec.on_full = WEIR_ON_FULL_REFUSE;
    struct fixture f = fixture_create_with(&options, &spec, 1);
    struct weir_verdict verdict = { .admitted = true };
    char key[16];
    unsigned held = 0;
    (void)state;
    for (; verdict.admitted && held < 10000; held++) {
        snprintf(key, sizeof key, "a%u", held);
        verdict = ask_at(&f, key, 1, at(T0), 0);
    }
    assert_true(verdict.full && verdict.retry_after_ns > 0);
    uint64_t later = T0 + verdict.retry_after_ns;
    for (unsigned i = 0; i < 50; i++) {
        snprintf(key, sizeof key, "b%u", i);
        assert_true(ask_at(&f, key, 1, at(later), WEIR_PEEK).admitted);
        assert_true(ask_at(&f, key, 1, at(later), 0).admitted);
    }
    struct weir_limiter_stats stats;
    weir_limiter_stats(f.limiter, &stats);
    assert_int_equal(stats.evicted, 0); /* dead is not evicted */
    fixture_destroy(&f);
}

/* A log that had no room to be made empty was drained: which first makes it empty. */
static void a_jumped_log_without_room_stays_as_it_is_when_attempts_count(void **state)
{
    struct weir_limiter_options options = { .memory_max = WEIR_MEMORY_MIN };
    struct weir_limit_spec spec = limit_of(WEIR_SLIDING_LOG, 9, HOUR, 0); /* one more than the smallest ring */
    spec.on_full = WEIR_ON_FULL_REFUSE;
    spec.count_mode = WEIR_COUNT_ATTEMPTS;
    struct fixture f = fixture_create_with(&options, &spec, 1);
    struct weir_verdict verdict = ask(&f, 1, T0 + DAY);
    char key[16];
    (void)state;
    for (unsigned i = 0; verdict.admitted; i++) {
        snprintf(key, sizeof key, "a%u", i);
        verdict = ask_at(&f, key, 1, at(T0), 0);
    }
    assert_true(verdict.full);
    for (int i = 0; i < 2; i++) {
        verdict = ask(&f, 1, T0 + 1);
        assert_false(verdict.admitted);
        assert_int_equal(verdict.retry_after_ns, HOUR);
    }
    fixture_destroy(&f);
}

/* Deciding by the old number converted the slot back, and took what was left. */
static void an_old_number_decides_by_its_successor(void **state)
{
    struct weir_limit_spec small = limit_of(WEIR_TOKEN_BUCKET, 10, HOUR, 0);
    struct weir_limit_spec large = limit_of(WEIR_TOKEN_BUCKET, 20, HOUR, 0);
    struct fixture f = fixture_create(&small, 1);
    (void)state;
    assert_int_equal(ask(&f, 1, T0).remaining, 9);
    struct fixture old = f;
    fixture_define(&f, &large, 1, T0);
    assert_int_equal(ask(&f, 1, T0).remaining, 8);
    assert_int_equal(ask(&old, 1, T0).remaining, 7);
    assert_int_equal(ask(&old, 1, T0).capacity, 20);
    assert_int_equal(ask(&f, 1, T0).remaining, 5);
    fixture_destroy(&f);
}

/* A peek did not ask whether a newcomer would find a place. */
static void a_peek_refuses_where_a_full_table_would(void **state)
{
    struct weir_limiter_options options = { .memory_max = WEIR_MEMORY_MIN };
    struct weir_limit_spec spec = limit_of(WEIR_TOKEN_BUCKET, 1, HOUR, 0);
    spec.on_full = WEIR_ON_FULL_REFUSE;
    struct fixture f = fixture_create_with(&options, &spec, 1);
    unsigned full = 0;
    (void)state;
    for (unsigned i = 0; i < 6000; i++) {
        char key[16];
        snprintf(key, sizeof key, "%u", i);
        struct weir_verdict peeked = ask_at(&f, key, 1, at(T0), WEIR_PEEK), charged = ask_at(&f, key, 1, at(T0), 0);
        assert_int_equal(peeked.admitted, charged.admitted);
        if (charged.full)
            assert_same_verdict(&peeked, &charged);
        assert_int_equal(charged.capacity, 1);
        full += charged.full;
    }
    assert_true(full > 1000);
    fixture_destroy(&f);
}

/* The end of wall time: a wait of 0, and a fall that went unnoticed. */
static void wall_time_at_its_end_is_judged_too(void **state)
{
    struct weir_limit_spec spec = limit_of(WEIR_FIXED_WINDOW, 2, HOUR, 0);
    struct fixture f = fixture_create(&spec, 1);
    (void)state;
    struct weir_time end = { T0, UINT64_MAX }, fallen = { T0 + 1, T0 };
    assert_true(ask_at(&f, "k", 2, end, 0).admitted);
    assert_true(ask_at(&f, "k", 1, end, 0).retry_after_ns > 0);
    assert_false(ask_at(&f, "k", 1, fallen, 0).admitted);
    assert_false(ask_at(&f, "fresh", 1, fallen, 0).admitted);
    fixture_destroy(&f);
}

/* A rebase in the middle of a walk was undone at the walk's end. */
static void a_walk_that_time_overtook_begins_again(void **state)
{
    struct weir_limit_spec spec = limit_of(WEIR_TOKEN_BUCKET, 1000000000, SECOND, 1000000000000);
    struct weir_limit_spec changed = limit_of(WEIR_TOKEN_BUCKET, 1000000000, SECOND, 999999999999);
    struct fixture f = fixture_create(&spec, 1);
    (void)state;
    assert_true(ask(&f, 1, T0).admitted);
    fixture_define(&f, &changed, 1, T0);
    struct weir_time time = at(T0);
    assert_true(weir_limiter_maintain(f.limiter, &time, 1));
    time = at(T0 + 82 * HOUR);
    assert_true(ask(&f, 999999999999, time.now_ns).admitted);
    while (weir_limiter_maintain(f.limiter, &time, 4096)) {
    }
    assert_int_equal(ask(&f, 1000, time.now_ns + 1).remaining, 1);
    fixture_destroy(&f);
}

/* What was searched in vain is not searched again for a while: that is all lines, not the first of them. */
static void a_dead_log_far_away_is_found_at_once(void **state)
{
    const struct weir_limiter_options options = { .memory_max = (size_t)1 << 20, .log_memory_max = 4096 };
    struct weir_limit_spec specs[2] = { limit_of(WEIR_SLIDING_LOG, 8, SECOND, 0),
                                        limit_of(WEIR_TOKEN_BUCKET, 10, HOUR, 0) };
    specs[0].on_full = WEIR_ON_FULL_REFUSE;
    struct fixture f = fixture_create_with(&options, specs, 2);
    struct weir_limiter_stats stats;
    struct weir_verdict verdicts[2];
    struct weir_time time = at(T0);
    unsigned logs = 0, tries = 0;
    (void)state;
    for (unsigned i = 0; i < 20000; i++) { /* many lines of other keys */
        char key[16];
        snprintf(key, sizeof key, "b%u", i);
        struct weir_charge charge = charge_of(&f, 1, key, 1);
        assert_int_equal(weir_limiter_decide_many(f.limiter, &charge, 1, &time, 0, verdicts), 0);
    }
    for (bool admitted = true; admitted; logs++) {
        char key[16];
        snprintf(key, sizeof key, "a%u", logs);
        admitted = ask_at(&f, key, 1, time, 0).admitted;
    }
    assert_in_range(logs, 10, 100);
    weir_limiter_stats(f.limiter, &stats);
    const unsigned enough = (unsigned)(stats.slots / 256); /* of several slots a line, and 256 lines a try */
    assert_in_range(enough, 20, 1000);
    time = at(T0 + MINUTE); /* all of them are dead */
    for (unsigned i = 0; i < 10; i++, tries = 0) {
        char key[16];
        snprintf(key, sizeof key, "c%u", i);
        while (!ask_at(&f, key, 1, time, 0).admitted && tries < enough)
            tries++;
        assert_true(tries < enough);
    }
    fixture_destroy(&f);
}

/* Nor whether a log that is there would find room to grow. */
static void a_peek_refuses_where_a_log_cannot_grow(void **state)
{
    const struct weir_limiter_options options = { .memory_max = (size_t)1 << 20, .log_memory_max = 4096 };
    struct weir_limit_spec spec = limit_of(WEIR_SLIDING_LOG, 40, HOUR, 0);
    spec.on_full = WEIR_ON_FULL_REFUSE;
    struct fixture f = fixture_create_with(&options, &spec, 1);
    unsigned full = 0;
    (void)state;
    for (unsigned i = 0; i < 41 * 20; i++) {
        char key[16];
        snprintf(key, sizeof key, "%u", i % 20);
        struct weir_verdict peeked = ask_at(&f, key, 1, at(T0), WEIR_PEEK), charged = ask_at(&f, key, 1, at(T0), 0);
        assert_int_equal(peeked.admitted, charged.admitted);
        assert_int_equal(peeked.full, charged.full);
        assert_int_equal(charged.capacity, 40);
        full += charged.full;
    }
    assert_true(full > 20);
    fixture_destroy(&f);
}

/* Far from every time before: a key of then is fresh, to whatever asks first. */
static void a_time_far_away_is_the_tables_for_every_call(void **state)
{
    enum { DECIDE, PEEK, REFUND, REFUND_LAST, DEFINE, MAINTAIN, CALLS };
    (void)state;
    for (int call = 0; call < CALLS; call++)
        for (uint64_t hours = 20; hours < 400; hours += 13) {
            struct fixture f = one_limit(WEIR_TOKEN_BUCKET, 1000000000, SECOND, 1000000000);
            struct weir_charge charge = charge_of(&f, 0, "k", 0);
            const struct weir_time time = at(T0 + hours * HOUR);
            struct weir_verdict verdict = ask(&f, 5, T0);
            uint64_t units = 0;
            if (call == DECIDE || call == PEEK) {
                const unsigned flags = call == PEEK ? WEIR_PEEK : 0;
                assert_int_equal(weir_limiter_decide_many(f.limiter, &charge, 1, &time, flags, &verdict), 0);
            } else if (call == REFUND) {
                assert_int_equal(weir_limiter_refund(f.limiter, &charge, 5, &time, &units), 0);
            } else if (call == REFUND_LAST) {
                assert_int_equal(weir_limiter_refund_last(f.limiter, &charge, verdict.ticket, &time, &units), 0);
            } else if (call == DEFINE) {
                const struct weir_limit_spec spec = limit_of(WEIR_TOKEN_BUCKET, 1000000000, SECOND, 999999999);
                fixture_define(&f, &spec, 1, time.now_ns);
            } else {
                while (weir_limiter_maintain(f.limiter, &time, 4096)) {
                }
            }
            if (call != REFUND_LAST)
                assert_int_equal(units, 0);
            verdict = peek(&f, 0, time.now_ns + 2);
            if (verdict.remaining != verdict.capacity || verdict.reset_after_ns != 0)
                fail_msg("call %d after %d hours: %llu %llu", call, (int)hours, (unsigned long long)verdict.remaining,
                         (unsigned long long)verdict.reset_after_ns);
            fixture_destroy(&f);
        }
}

/* Or after some 65,000 reloads there would be no number left. */
static void the_numbers_of_a_set_that_was_replaced_twice_are_free(void **state)
{
    enum { LIMITS = 3 };
    struct weir_limit_spec specs[LIMITS];
    struct fixture f = { 0 };
    weir_limit_id first[LIMITS];
    (void)state;
    for (uint64_t set = 0; set < 3; set++) {
        for (size_t i = 0; i < LIMITS; i++)
            specs[i] = limit_of(WEIR_TOKEN_BUCKET, 10 + set, HOUR, 0);
        if (set == 0)
            f = fixture_create(specs, LIMITS);
        else
            fixture_define(&f, specs, LIMITS, T0);
        if (set == 0)
            memcpy(first, f.ids, sizeof first);
        for (size_t i = 0; i < LIMITS; i++)
            assert_int_equal(weir_record_at(f.limiter, weir_id_number(first[i])) == NULL, set == 2);
    }
    fixture_destroy(&f);
}

/* What a walk was for is still due when the time moves far away meanwhile. */
static void a_walk_under_way_stays_due_when_the_base_of_time_moves(void **state)
{
    struct fixture f = one_limit(WEIR_TOKEN_BUCKET, 10, 100 * DAY, 0);
    struct weir_time time = at(T0 + 400 * DAY);
    (void)state;
    assert_false(weir_limiter_maintain(f.limiter, &time, 1));
    for (unsigned i = 0; i < 1000; i++) {
        char key[16];
        snprintf(key, sizeof key, "%u", i);
        (void)ask_at(&f, key, 4, time, 0);
    }
    time.now_ns += 15 * HOUR;
    assert_true(weir_limiter_maintain(f.limiter, &time, 1)); /* the base is old */
    time.now_ns += 100 * HOUR;
    (void)ask_at(&f, "k", 1, time, 0); /* and is another one by now */
    assert_true(weir_limiter_maintain(f.limiter, &time, 1));
    while (weir_limiter_maintain(f.limiter, &time, 4096)) {
    }
    assert_false(weir_limiter_maintain(f.limiter, &time, 1));
    fixture_destroy(&f);
}

/* An override has the limits of its own numbers. Where a name has levels, a key may bring more from another one. */
static void a_limit_owes_what_another_level_has(void **state)
{
    (void)state;
    for (int levels = 0; levels < 2; levels++) {
        struct fixture f = one_limit(WEIR_FIXED_WINDOW, 10, HOUR, 0);
        const struct weir_limit_def defs[] = {
            { "a", "", limit_of(WEIR_TOKEN_BUCKET, 10, HOUR, 0) },
            { "a", levels ? "level:b" : "b", limit_of(WEIR_TOKEN_BUCKET, 1000, HOUR, 0) },
            { "c", "", limit_of(WEIR_TOKEN_BUCKET, 10, HOUR, 0) },
        };
        struct weir_limit right;
        weir_limit_id ids[3];
        assert_int_equal(weir_limiter_define(f.limiter, defs, 3, NULL, ids, NULL), 0);
        assert_int_equal(weir_limit_init(&right, &defs[0].spec, f.limiter->skew_max_ns, NULL), 0);
        for (size_t i = 0; i < 3; i += 2) {
            const struct weir_limit *limit = &weir_record_at(f.limiter, weir_id_number(ids[i]))->terms.limit;
            assert_int_equal(memcmp(limit, &right, sizeof right) == 0, !levels || i == 2);
        }
        fixture_destroy(&f);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(forgetting_a_key_asks_no_clock),
        cmocka_unit_test(a_clock_jump_heals_under_several_limits_too),
        cmocka_unit_test(the_wait_counts_attempts_that_were_charged),
        cmocka_unit_test(dead_logs_give_their_rings_to_newcomers),
        cmocka_unit_test(a_jumped_log_without_room_stays_as_it_is_when_attempts_count),
        cmocka_unit_test(an_old_number_decides_by_its_successor),
        cmocka_unit_test(a_peek_refuses_where_a_full_table_would),
        cmocka_unit_test(wall_time_at_its_end_is_judged_too),
        cmocka_unit_test(a_walk_that_time_overtook_begins_again),
        cmocka_unit_test(a_dead_log_far_away_is_found_at_once),
        cmocka_unit_test(a_peek_refuses_where_a_log_cannot_grow),
        cmocka_unit_test(a_time_far_away_is_the_tables_for_every_call),
        cmocka_unit_test(the_numbers_of_a_set_that_was_replaced_twice_are_free),
        cmocka_unit_test(a_walk_under_way_stays_due_when_the_base_of_time_moves),
        cmocka_unit_test(a_limit_owes_what_another_level_has),
    };
    return cmocka_run_group_tests_name("limiter findings", tests, NULL, NULL);
}
