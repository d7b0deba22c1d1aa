/* SPDX-License-Identifier: Apache-2.0
 *
 * A rollout: which keys are among its share, and always will be; what it gives them; and that from step to step, and
 * back, no key gets more than a bucket with the larger rate and the larger burst would give it, and none is starved. */
#include "rules/rollout.h"

#include "random.h"
#include "rules_fixture.h"

#define SECOND UINT64_C(1000000000)

/* ---- the share ---- */

static void test_a_share_is_a_percentage_with_one_decimal(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int error;
        uint32_t share;
        const char *shown;
    } cases[] = {
        { "0.1", 0, 1, "0.1" },
        { "1", 0, 10, "1" },
        { "10.0", 0, 100, "10" },
        { "12.5", 0, 125, "12.5" },
        { "99.9", 0, 999, "99.9" },
        { "100", 0, 1000, "100" },
        { "100.0", 0, 1000, "100" },
        { "0", WEIR_ERANGE, 0, "" },
        { "0.0", WEIR_ERANGE, 0, "" },
        { "100.1", WEIR_ERANGE, 0, "" },
        { "101", WEIR_ERANGE, 0, "" },
        { "18446744073709551616", WEIR_ERANGE, 0, "" },
        { "1844674407370955162", WEIR_ERANGE, 0, "" },
        { "", WEIR_EINVAL, 0, "" },
        { ".", WEIR_EINVAL, 0, "" },
        { ".5", WEIR_EINVAL, 0, "" },
        { "5.", WEIR_EINVAL, 0, "" },
        { "5.25", WEIR_EINVAL, 0, "" },
        { "-1", WEIR_EINVAL, 0, "" },
        { "10%", WEIR_EINVAL, 0, "" },
        { " 10", WEIR_EINVAL, 0, "" },
        { "1e1", WEIR_EINVAL, 0, "" },
        { "1.x", WEIR_EINVAL, 0, "" },
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char shown[WEIR_ROLLOUT_SIZE];
        uint32_t share = 7;
        assert_int_equal(weir_rollout_parse(cases[i].text, strlen(cases[i].text), &share), cases[i].error);
        assert_int_equal(share, cases[i].error ? 7 : cases[i].share);
        weir_rollout_format(share, shown, sizeof(shown));
        if (!cases[i].error)
            assert_string_equal(shown, cases[i].shown);
    }
    uint32_t share = 0;
    assert_int_equal(weir_rollout_parse("1\0", 2, &share), WEIR_EINVAL); /* a NUL is no digit */
}

static const uint8_t zeros[16] = { 0 };
static const uint8_t counted[16] = { 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15 };

/* Beyond which share a key is in. */
static uint32_t place_of(const uint8_t secret[16], const char *limit, const struct weir_slice *values, size_t count)
{
    uint32_t place = 0;
    while (place < WEIR_ROLLOUT_ALL - 1 && !weir_rollout_has(secret, limit, values, count, place + 1))
        place++;
    return place;
}

/* These numbers were computed by another program. They must stay: nodes of any two versions have to agree. */
static void test_the_places_of_keys_never_change(void **state)
{
    (void)state;
    static const uint32_t users[2][6] = { { 772, 473, 444, 187, 244, 21 }, { 812, 306, 23, 668, 67, 281 } };
    const struct weir_slice absent = { NULL, WEIR_VALUE_ABSENT }, empty = { "", 0 };
    for (int i = 0; i < 6; i++) {
        char user[16];
        (void)snprintf(user, sizeof(user), "user-%d", i);
        const struct weir_slice value = fixture_slice(user);
        assert_int_equal(place_of(counted, "api-per-user", &value, 1), users[0][i]);
        assert_int_equal(place_of(zeros, "api-per-user", &value, 1), users[1][i]);
    }
    assert_int_equal(place_of(counted, "api", (const struct weir_slice[]){ empty, absent }, 2), 502);
    assert_int_equal(place_of(counted, "api", (const struct weir_slice[]){ absent, empty }, 2), 336);
    assert_int_equal(place_of(counted, "api", (const struct weir_slice[]){ { "a", 1 }, { "bc", 2 } }, 2), 170);
    assert_int_equal(place_of(counted, "api", (const struct weir_slice[]){ { "ab", 2 }, { "c", 1 } }, 2), 346);
}

static void test_small_shares_are_in_larger_ones_and_as_large_as_they_say(void **state)
{
    (void)state;
    enum { KEYS = 20000 };
    static const uint32_t shares[] = { 1, 100, 500, 999, WEIR_ROLLOUT_ALL };
    size_t counts[5] = { 0 };
    for (int i = 0; i < KEYS; i++) {
        char user[16];
        (void)snprintf(user, sizeof(user), "%d", i);
        const struct weir_slice value = fixture_slice(user);
        bool before = false;
        for (size_t j = 0; j < 5; j++) {
            const bool has = weir_rollout_has(counted, "x", &value, 1, shares[j]);
            assert_true(has || !before);
            before = has;
            counts[j] += has;
        }
    }
    for (size_t j = 0; j < 5; j++) /* four standard deviations, at most 283 of 20,000; nothing here is random */
        assert_in_range(counts[j] + 283, (size_t)KEYS * shares[j] / WEIR_ROLLOUT_ALL,
                        (size_t)KEYS * shares[j] / WEIR_ROLLOUT_ALL + 566);
    assert_int_equal(counts[4], KEYS);
}

/* ---- in a set of rules ---- */

#define SECRET "cluster_secret: 000102030405060708090a0b0c0d0e0f\n"

/* user-5 is in 3 %, user-3 in 20 %, user-4 in 25 %. */
static void test_its_keys_have_its_settings_unless_an_override_names_them(void **state)
{
    (void)state;
    struct fixture f = fixture_make(SECRET
                                    "limits:\n"
                                    "  - name: api-per-user\n"
                                    "    key: [user]\n"
                                    "    rate: 10/s\n"
                                    "    burst: 5\n"
                                    "    rollout: { percent: 20, rate: 30/s, mode: shadow }\n"
                                    "    overrides: [ { user: \"*-1\", burst: 7 }, { user: user-5, rate: 9/s } ]\n"
                                    "  - { name: all, key: [user], rate: 1/s, rollout: { percent: 100, burst: 2 },\n"
                                    "      overrides: [ { user: \"*\", mode: off } ] }\n");
    fixture_expect(&f, REQUEST("user", "user-0"), "api-per-user");
    fixture_expect(&f, REQUEST("user", "user-3"), "api-per-user(rollout)");
    fixture_expect(&f, REQUEST("user", "user-4"), "api-per-user");
    fixture_expect(&f, REQUEST("user", "user-5"), "api-per-user(user=user-5)");
    fixture_expect(&f, REQUEST("user", "user-1"), "api-per-user(user=*-1)");
    fixture_expect(&f, REQUEST("user", "any"), "api-per-user"); /* `all` is off, even by a pattern that fits all */
    fixture_expect(&f, NO_ATTRIBUTES, "");
    const struct weir_rule *rollout = weir_rules_rollout(f.rules, 0);
    assert_int_equal(rollout->rollout, 200);
    assert_int_equal(rollout->whole.count, 30);
    assert_int_equal(rollout->whole.burst, 5);
    assert_int_equal(rollout->whole.mode, WEIR_MODE_SHADOW);
    assert_int_equal(weir_rules_overrides(f.rules, 0), 3);
    struct weir_mark mark;
    assert_ptr_equal(weir_rules_override(f.rules, 0, 2, &mark), rollout);
    assert_int_equal(mark.line, 7);
    fixture_free(&f);
}

static void test_explain_agrees_with_match(void **state)
{
    (void)state;
    struct fixture f = fixture_make(
        "limits: [ { name: a, key: [ip, u], missing: share, rate: 1/s, ipv6_prefix: 48,\n"
        "  overrides: [ { u: \"7*\", burst: 9 } ], rollout: { percent: 33.3, burst: 3 } } ]");
    size_t among = 0;
    for (int i = 0; i < 3000; i++) {
        char ip[64], user[16];
        struct weir_match match;
        struct weir_explanation explanation;
        struct weir_fault fault;
        (void)snprintf(ip, sizeof(ip), "2001:db8:%x::%x", i / 2, i); /* two of each /48 */
        (void)snprintf(user, sizeof(user), "%d", i / 2);
        struct fixture_request request = REQUEST("ip", ip, "u", user);
        request.count -= (size_t)(i / 2 % 3 == 0); /* these lack u */
        assert_int_equal(fixture_match(&f, &request, 1, &match), 0);
        assert_int_equal(weir_rules_explain(f.rules, 0, request.attributes, request.count, &explanation, &fault), 0);
        assert_ptr_equal(match.rules[0], explanation.rule);
        among += match.rules[0]->rollout > 0;
        if (i % 2 == 1) /* its neighbour has the same counter, so the same place */
            (void)snprintf(ip, sizeof(ip), "2001:db8:%x::%x", i / 2, i - 1);
        assert_int_equal(fixture_match(&f, &request, 1, &match), 0);
        assert_ptr_equal(match.rules[0], explanation.rule);
    }
    assert_in_range(among, 800, 1000); /* a third of 8/9 of them, and of those that lack u */
    fixture_free(&f);
}

static void test_a_key_keeps_its_counter_when_it_comes_and_goes(void **state)
{
    (void)state;
    struct fixture f = fixture_make(SECRET "limits: [ { name: api-per-user, key: [user], rate: 10/day } ]");
    struct fixture_request request = REQUEST("user", "user-5");
    struct weir_match match;
    struct weir_decision decision;
    struct weir_verdict verdict;
    static const char *const texts[] = {
        SECRET "limits: [ { name: api-per-user, key: [user], rate: 10/day, rollout: { percent: 3, rate: 20/day } } ]",
        SECRET "limits: [ { name: api-per-user, key: [user], rate: 10/day, rollout: { percent: 50, rate: 20/day } } ]",
        SECRET "limits: [ { name: api-per-user, key: [user], rate: 20/day } ]",
    };
    assert_int_equal(fixture_match(&f, &request, 4, &match), 0);
    assert_int_equal(weir_limiter_decide(f.limiter, match.charges, 1, NULL, 0, &decision, &verdict), 0);
    assert_int_equal(verdict.remaining, 6);
    weir_limit_id before = 0;
    for (size_t i = 0; i < 3; i++) {
        struct weir_config *config = config_parsed(texts[i]);
        struct weir_rules *rules = NULL;
        assert_int_equal(weir_rules_create(f.limiter, config, &rules, NULL), 0);
        weir_rules_destroy(f.rules);
        weir_config_destroy(f.config);
        f.config = config;
        f.rules = rules;
        assert_int_equal(fixture_match(&f, &request, 1, &match), 0);
        assert_int_equal(weir_limiter_decide(f.limiter, match.charges, 1, NULL, 0, &decision, &verdict), 0);
        assert_int_equal(verdict.capacity, 20);
        assert_int_equal(verdict.remaining, 5 - i); /* no more than before, and nothing else is lost */
        if (i == 1)                                 /* a larger share changes nothing for who is in already */
            assert_int_equal(match.charges[0].limit, before);
        before = match.charges[0].limit;
    }
    fixture_free(&f);
}

/* ---- neither more than the larger, nor starved ---- */

#define KEYS 12

struct run {
    struct test_random rng;
    struct weir_limiter *limiter;
    struct weir_limit_spec base, target;
    weir_limit_id ids[2];
    uint64_t now_ns;
    /* Of each key what a bucket with the larger rate and the larger burst has left, in units times the period. */
    uint64_t left[KEYS];
    uint64_t rate, burst, slowest; /* the larger ones; the smaller rate */
};

static void define(struct run *run, uint32_t share)
{
    const struct weir_limit_spec *own = share == WEIR_ROLLOUT_ALL ? &run->target : &run->base;
    const struct weir_limit_def defs[] = { { "x", "", *own }, { "x", WEIR_ROLLOUT_VARIANT, run->target } };
    const size_t count = share > 0 && share < WEIR_ROLLOUT_ALL ? 2 : 1;
    const struct weir_time time = { run->now_ns, run->now_ns };
    assert_int_equal(weir_limiter_define(run->limiter, defs, count, &time, run->ids, NULL), 0);
    run->ids[1] = count == 2 ? run->ids[1] : run->ids[0];
}

static void wait_for(struct run *run, uint64_t ns)
{
    run->now_ns += ns;
    for (int i = 0; i < KEYS; i++) {
        run->left[i] += run->rate * ns;
        if (run->left[i] > run->burst * SECOND)
            run->left[i] = run->burst * SECOND;
    }
}

static void ask(struct run *run, uint32_t share)
{
    const uint64_t key = test_random_below(&run->rng, KEYS);
    const char byte = (char)key;
    const struct weir_slice value = { &byte, 1 };
    const bool among = share > 0 && weir_rollout_has(counted, "x", &value, 1, share);
    struct weir_charge charge = { .limit = run->ids[among], .cost = 1 + test_random_below(&run->rng, 2) };
    const struct weir_time time = { run->now_ns, run->now_ns };
    struct weir_decision decision;
    struct weir_verdict verdict;
    assert_int_equal(weir_limiter_key(run->limiter, charge.limit, &value, 1, &charge.key), 0);
    assert_int_equal(weir_limiter_decide(run->limiter, &charge, 1, &time, 0, &decision, &verdict), 0);
    if (decision.admitted) {
        assert_true(run->left[key] >= charge.cost * SECOND);
        run->left[key] -= charge.cost * SECOND;
    } else if (decision.retry_after_ns != WEIR_NEVER) { /* a thousandth: a rate is at most so much below what it says */
        const uint64_t longest_ns = (run->burst + 2) * SECOND / run->slowest;
        assert_in_range(decision.retry_after_ns, 1, longest_ns + longest_ns / 1000 + 1);
    }
}

static void run_rollout(uint64_t seed)
{
    static const uint32_t steps[] = { 0, 100, 500, WEIR_ROLLOUT_ALL, 0 };
    struct run run = { .rng = { seed }, .now_ns = 1000 * SECOND };
    struct weir_limiter_options options = { .memory_max = WEIR_MEMORY_MIN };
    assert_int_equal(weir_limiter_create(&options, &run.limiter, NULL), 0);
    struct weir_limit_spec *const specs[] = { &run.base, &run.target };
    run.slowest = UINT64_MAX;
    for (int i = 0; i < 2; i++) {
        *specs[i] = (struct weir_limit_spec){ .algorithm = WEIR_TOKEN_BUCKET,
                                              .count = 1 + test_random_below(&run.rng, 50),
                                              .period_ns = SECOND,
                                              .burst = 2 + test_random_below(&run.rng, 40) };
        run.rate = specs[i]->count > run.rate ? specs[i]->count : run.rate;
        run.burst = specs[i]->burst > run.burst ? specs[i]->burst : run.burst;
        run.slowest = specs[i]->count < run.slowest ? specs[i]->count : run.slowest;
    }
    for (int i = 0; i < KEYS; i++)
        run.left[i] = run.burst * SECOND;
    for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
        define(&run, steps[i]);
        for (int j = 0; j < 400; j++) {
            wait_for(&run, test_random_below(&run.rng, SECOND / 100));
            ask(&run, steps[i]);
            if (test_random_below(&run.rng, 100) == 0) {
                const struct weir_time time = { run.now_ns, run.now_ns };
                (void)weir_limiter_maintain(run.limiter, &time, 64);
            }
        }
    }
    weir_limiter_destroy(run.limiter);
}

static void test_no_key_gets_more_than_the_larger_bucket_gives_and_none_is_starved(void **state)
{
    (void)state;
    const uint64_t seed = test_random_seed(), runs = test_effort(50, 500, 5000);
    for (uint64_t i = 0; i < runs; i++)
        run_rollout(seed + i);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_share_is_a_percentage_with_one_decimal),
        cmocka_unit_test(test_the_places_of_keys_never_change),
        cmocka_unit_test(test_small_shares_are_in_larger_ones_and_as_large_as_they_say),
        cmocka_unit_test(test_its_keys_have_its_settings_unless_an_override_names_them),
        cmocka_unit_test(test_explain_agrees_with_match),
        cmocka_unit_test(test_a_key_keeps_its_counter_when_it_comes_and_goes),
        cmocka_unit_test(test_no_key_gets_more_than_the_larger_bucket_gives_and_none_is_starved),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
