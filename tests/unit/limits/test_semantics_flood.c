/* SPDX-License-Identifier: Apache-2.0
 *
 * semantics.md, "Memory": an offender outlives a flood whose keys are closer to fresh than it is, under every algorithm
 * and wherever its secret puts it (docs/table.md). WEIR_TEST_EFFORT=soak tries more secrets. */
#include <stdlib.h>

#include "fixture.h"
#include "random.h"

#define MEMORY ((size_t)128 << 10)
#define SLOTS_MAX (MEMORY / 16)
#define OFFENDER UINT64_MAX

struct setting {
    const char *name;
    struct weir_limit_spec spec;
};

/* Ten an hour, of every kind. T0 lies 17 minutes into the windows of an hour and of a day. */
static const struct setting settings[] = {
    { "token_bucket", { .algorithm = WEIR_TOKEN_BUCKET, .count = 10, .period_ns = HOUR } },
    { "leaky_bucket", { .algorithm = WEIR_LEAKY_BUCKET, .count = 10, .period_ns = HOUR } },
    { "fixed_window", { .algorithm = WEIR_FIXED_WINDOW, .count = 10, .period_ns = HOUR } },
    { "fixed_window by the day",
      { .algorithm = WEIR_FIXED_WINDOW, .count = 240, .period_ns = DAY, .calendar = WEIR_CALENDAR_DAY } },
    { "fixed_window from the first hit",
      { .algorithm = WEIR_FIXED_WINDOW, .count = 10, .period_ns = HOUR, .align = WEIR_ALIGN_FIRST } },
    { "sliding_log", { .algorithm = WEIR_SLIDING_LOG, .count = 10, .period_ns = HOUR } },
    { "sliding_counter", { .algorithm = WEIR_SLIDING_COUNTER, .count = 10, .period_ns = HOUR } },
};
#define SETTINGS (sizeof settings / sizeof settings[0])

static uint64_t secrets_count(void)
{
    return test_effort(4, 12, 200);
}

static struct fixture small_table(uint64_t secret, const struct weir_limit_spec *specs, size_t count)
{
    uint8_t bytes[16] = { 0 };
    memcpy(bytes, &secret, sizeof secret);
    struct weir_limiter_options options = { .memory_max = MEMORY, .secret = bytes };
    return fixture_create_with(&options, specs, count);
}

static struct weir_verdict ask_number(const struct fixture *f, size_t limit, uint64_t number, uint64_t cost,
                                      uint64_t now_ns)
{
    struct weir_charge charge = { .limit = f->ids[limit], .cost = cost };
    struct weir_slice value = { &number, sizeof(number) };
    struct weir_verdict verdict;
    struct weir_time time = at(now_ns);
    assert_int_equal(weir_limiter_key(f->limiter, f->ids[limit], &value, 1, &charge.key), 0);
    assert_int_equal(weir_limiter_decide_many(f->limiter, &charge, 1, &time, 0, &verdict), 0);
    return verdict;
}

/* Twice as many as there could be room for, one unit each. */
static void flood(const struct fixture *f, size_t limit, uint64_t now_ns)
{
    for (uint64_t i = 0; i < 2 * SLOTS_MAX; i++)
        assert_true(ask_number(f, limit, i, 1, now_ns).admitted);
}

static uint64_t evicted(const struct fixture *f)
{
    struct weir_limiter_stats stats;
    weir_limiter_stats(f->limiter, &stats);
    return stats.evicted;
}

/* The offender came first and has used up its limit; later, by a tenth of the hour and by half of it, come others of
 * the same limit that use a unit each. */
static void flood__of_the_same_limit_does_not_free_an_offender(void **state)
{
    (void)state;
    const uint64_t waits_ns[] = { 1, HOUR / 10, HOUR / 2 };
    for (size_t s = 0; s < SETTINGS; s++) {
        uint64_t freed = 0, tries = 0;
        for (uint64_t secret = 0; secret < secrets_count(); secret++) {
            struct fixture f = small_table(secret, &settings[s].spec, 1);
            uint64_t now_ns = T0 + waits_ns[secret % 3], count = settings[s].spec.count;
            assert_true(ask_number(&f, 0, OFFENDER, count, T0).admitted);
            uint64_t remaining = ask_number(&f, 0, OFFENDER, 0, now_ns).remaining; /* buckets refill */
            flood(&f, 0, now_ns);
            assert_true(evicted(&f) > 0);
            tries++;
            freed += ask_number(&f, 0, OFFENDER, 0, now_ns).remaining != remaining;
            fixture_destroy(&f);
        }
        if (freed > 0)
            fail_msg("%s: the offender was forgotten under %llu of %llu secrets", settings[s].name,
                     (unsigned long long)freed, (unsigned long long)tries);
    }
}

/* Under any limit of the hour, the flood under any that is closer to fresh: ten times as fast, or a day's window of
 * which 10 minutes are left. */
static void flood__of_other_limits_closer_to_fresh_does_not_free_an_offender(void **state)
{
    (void)state;
    for (size_t s = 0; s < SETTINGS; s++) {
        uint64_t freed = 0, tries = 0;
        for (size_t o = 0; o < SETTINGS; o++) {
            bool by_day = settings[o].spec.calendar == WEIR_CALENDAR_DAY;
            struct weir_limit_spec specs[2] = { settings[s].spec, settings[o].spec };
            uint64_t came_ns = DAY - 10 * MINUTE, now_ns = came_ns + SECOND;
            specs[0].align = WEIR_ALIGN_CALENDAR; /* no window of the hour ends before the day does */
            if (specs[0].algorithm == WEIR_FIXED_WINDOW)
                specs[0].align = WEIR_ALIGN_FIRST, specs[0].calendar = WEIR_CALENDAR_FIXED;
            if (!by_day)
                specs[1].period_ns = 6 * MINUTE;
            for (uint64_t secret = 0; secret < secrets_count() / 4; secret++) {
                struct fixture f = small_table(secret, specs, 2);
                assert_true(ask_number(&f, 0, OFFENDER, specs[0].count, came_ns).admitted);
                flood(&f, 1, now_ns);
                assert_true(evicted(&f) > 0);
                tries++;
                freed += ask_number(&f, 0, OFFENDER, 1, now_ns).admitted;
                fixture_destroy(&f);
            }
        }
        if (freed > 0)
            fail_msg("%s: the offender was forgotten %llu times of %llu", settings[s].name, (unsigned long long)freed,
                     (unsigned long long)tries);
    }
}

/* All kinds at once: an offender of each, a flood of each, interleaved. */
static void flood__of_all_limits_at_once_frees_no_offender_of_any(void **state)
{
    (void)state;
    struct weir_limit_spec specs[SETTINGS];
    for (size_t s = 0; s < SETTINGS; s++)
        specs[s] = settings[s].spec;
    for (uint64_t secret = 0; secret < secrets_count(); secret++) {
        struct fixture f = small_table(secret, specs, SETTINGS);
        for (size_t s = 0; s < SETTINGS; s++)
            assert_true(ask_number(&f, s, OFFENDER, specs[s].count, T0).admitted);
        for (uint64_t i = 0; i < 4 * SLOTS_MAX; i++)
            assert_true(ask_number(&f, i % SETTINGS, i, 1, T0 + 1).admitted);
        for (size_t s = 0; s < SETTINGS; s++)
            if (ask_number(&f, s, OFFENDER, 1, T0 + 1).admitted)
                fail_msg("%s: the offender was forgotten under secret %llu", settings[s].name,
                         (unsigned long long)secret);
        fixture_destroy(&f);
    }
}

/* Of two that become fresh at the same time the one goes that used less, be it ever so little less. */
static void flood__of_keys_that_used_less_frees_nobody_that_used_more(void **state)
{
    (void)state;
    for (size_t s = 0; s < SETTINGS; s++) {
        struct fixture f = small_table(s, &settings[s].spec, 1);
        assert_true(ask_number(&f, 0, OFFENDER, 3, T0).admitted);
        for (uint64_t i = 0; i < 2 * SLOTS_MAX; i++)
            assert_true(ask_number(&f, 0, i, 2, T0).admitted);
        assert_true(evicted(&f) > 0);
        assert_int_equal(ask_number(&f, 0, OFFENDER, 0, T0).remaining, settings[s].spec.count - 3);
        fixture_destroy(&f);
    }
}

/* A sliding counter's units of the window before count too, as of the last charge. */
static void flood__a_counter_remembers_the_window_before(void **state)
{
    (void)state;
    for (uint64_t secret = 0; secret < secrets_count(); secret++) {
        struct weir_limit_spec spec = limit_of(WEIR_SLIDING_COUNTER, 10, HOUR, 0);
        struct fixture f = small_table(secret, &spec, 1);
        uint64_t next_ns = HOUR + 1;
        assert_true(ask_number(&f, 0, OFFENDER, 9, HOUR - 1).admitted);
        assert_true(ask_number(&f, 0, OFFENDER, 1, next_ns).admitted);
        flood(&f, 0, next_ns);
        assert_true(evicted(&f) > 0);
        assert_false(ask_number(&f, 0, OFFENDER, 2, next_ns).admitted);
        fixture_destroy(&f);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(flood__of_the_same_limit_does_not_free_an_offender),
        cmocka_unit_test(flood__of_other_limits_closer_to_fresh_does_not_free_an_offender),
        cmocka_unit_test(flood__of_all_limits_at_once_frees_no_offender_of_any),
        cmocka_unit_test(flood__of_keys_that_used_less_frees_nobody_that_used_more),
        cmocka_unit_test(flood__a_counter_remembers_the_window_before),
    };
    return cmocka_run_group_tests_name("semantics: flood", tests, NULL, NULL);
}
