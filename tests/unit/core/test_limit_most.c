/* SPDX-License-Identifier: Apache-2.0
 *
 * The most that a limit allows in a time, against what greedy and random callers get of the limit itself. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "core/limit/limit.h"
#include "random.h"

#define STEPS 600
#define LOG 64

struct caller {
    struct weir_limit limit;
    struct weir_state state;
    uint64_t times[LOG];
    uint64_t at_ns[STEPS], units[STEPS]; /* admitted */
};

static void begin(struct caller *caller, const struct weir_limit_spec *spec, uint64_t now_ns)
{
    assert_int_equal(weir_limit_init(&caller->limit, spec, 0, NULL), 0);
    caller->state = weir_state_fresh(&caller->limit, now_ns);
    caller->state.log = (struct weir_log){ .times = caller->times, .room = LOG };
}

/* Windows of a calendar that has no time zone. */
static uint64_t ask(struct caller *caller, uint64_t now_ns, uint64_t cost)
{
    struct weir_event event = { .now_ns = now_ns, .cost = cost };
    struct weir_verdict verdict;
    if (caller->limit.calendar)
        event.window = (struct weir_window){ .id = now_ns / caller->limit.period_ns,
                                             .end_after_ns = caller->limit.period_ns -
                                                             now_ns % caller->limit.period_ns };
    if (!weir_limit_judge(&caller->limit, &caller->state, &event, &verdict))
        return 0;
    weir_limit_charge(&caller->limit, &caller->state, &event, &verdict);
    return cost;
}

/* The most that came through within any `duration_ns`, both ends included. */
static uint64_t most_seen(const struct caller *caller, uint64_t duration_ns)
{
    uint64_t most = 0, within = 0;
    for (size_t first = 0, last = 0; last < STEPS; last++) {
        within += caller->units[last];
        for (; caller->at_ns[last] - caller->at_ns[first] > duration_ns; first++)
            within -= caller->units[first];
        most = within > most ? within : most;
    }
    return most;
}

static const struct weir_limit_spec specs[] = {
    { .algorithm = WEIR_TOKEN_BUCKET, .count = 10, .period_ns = 60, .burst = 25 },
    { .algorithm = WEIR_TOKEN_BUCKET, .count = 7, .period_ns = 1000 },
    { .algorithm = WEIR_LEAKY_BUCKET, .count = 3, .period_ns = 77, .burst = 4 },
    { .algorithm = WEIR_FIXED_WINDOW, .count = 10, .period_ns = 60 },
    { .algorithm = WEIR_FIXED_WINDOW, .count = 10, .period_ns = 60, .align = WEIR_ALIGN_FIRST },
    { .algorithm = WEIR_SLIDING_LOG, .count = 10, .period_ns = 60 },
    { .algorithm = WEIR_SLIDING_COUNTER, .count = 10, .period_ns = 60 },
};

static void nobody_gets_more(void **state)
{
    (void)state;
    struct test_random random = { test_random_seed() };
    for (int round = 0; round < 4000; round++) {
        struct weir_limit_spec spec = specs[test_random_below(&random, sizeof(specs) / sizeof(specs[0]))];
        struct caller caller;
        uint64_t now_ns = 1000000 + test_random_below(&random, 1000);
        const uint64_t step_max_ns = 1 + test_random_below(&random, 2 * spec.period_ns);
        begin(&caller, &spec, now_ns);
        for (size_t i = 0; i < STEPS; i++) {
            now_ns += test_random_below(&random, 3) ? 0 : test_random_below(&random, step_max_ns);
            caller.at_ns[i] = now_ns;
            caller.units[i] = ask(&caller, now_ns, 1 + test_random_below(&random, 4));
        }
        for (int i = 0; i < 20; i++) {
            const uint64_t duration_ns = test_random_below(&random, 5 * spec.period_ns);
            assert_true(most_seen(&caller, duration_ns) <= weir_limit_most(&spec, duration_ns));
        }
    }
}

/* Who asks at every instant reaches what a bucket allows, and of windows all but n of it; the weighted count gives him
 * less, and others more. */
static void it_is_no_larger_than_it_must_be(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(specs) / sizeof(specs[0]); i++) {
        const struct weir_limit_spec *spec = &specs[i];
        const bool bucket = spec->algorithm <= WEIR_LEAKY_BUCKET;
        uint64_t got = 0;
        struct caller caller;
        if (spec->algorithm == WEIR_SLIDING_COUNTER)
            continue;
        begin(&caller, spec, 1000050);
        for (uint64_t now_ns = 1000050; now_ns <= 1000050 + 300; now_ns++) {
            while (ask(&caller, now_ns, 1))
                got++;
        }
        assert_true(got + (bucket ? 0 : spec->count) >= weir_limit_most(spec, 300));
    }
}

static void what_has_no_rate_has_no_bound(void **state)
{
    (void)state;
    struct weir_limit_spec spec = { .algorithm = WEIR_CONCURRENCY, .count = 1, .period_ns = WEIR_LEASE_MIN_NS };
    assert_true(weir_limit_most(&spec, 1) == WEIR_NEVER);
    spec = (struct weir_limit_spec){ .algorithm = WEIR_TOKEN_BUCKET, .period_ns = 1 };
    assert_int_equal(weir_limit_most(&spec, UINT64_MAX), 0); /* a rate of 0 */
    spec = (struct weir_limit_spec){ .algorithm = WEIR_FIXED_WINDOW, .count = 1000000, .period_ns = 1000000 };
    assert_true(weir_limit_most(&spec, UINT64_MAX) == UINT64_MAX);
    /* A month may have 28 days: two borders lie within 30 days. */
    spec.period_ns = 30 * 86400 * WEIR_NS_PER_SECOND;
    spec.calendar = WEIR_CALENDAR_MONTH;
    assert_int_equal(weir_limit_most(&spec, spec.period_ns - 1), 3000000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nobody_gets_more),
        cmocka_unit_test(it_is_no_larger_than_it_must_be),
        cmocka_unit_test(what_has_no_rate_has_no_bound),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
