/* SPDX-License-Identifier: Apache-2.0
 *
 * What is legal and yet hardly meant is said, at its place; what is meant is not complained about. */
#include "rules_fixture.h"

static void expect_none(const char *text)
{
    struct weir_config *config = config_parsed(text);
    if (config->warnings_count)
        fail_msg("%s\n  gives %s", text, config->warnings[0].text);
    weir_config_destroy(config);
}

static void expect_one(const char *text, unsigned line, unsigned column, const char *part)
{
    struct weir_config *config = config_parsed(text);
    if (config->warnings_count != 1 || config->warnings[0].mark.line != line ||
        config->warnings[0].mark.column != column || !strstr(config->warnings[0].text, part))
        fail_msg("%s\n  gives %zu warnings, %u:%u: %s", text, config->warnings_count,
                 config->warnings_count ? config->warnings[0].mark.line : 0,
                 config->warnings_count ? config->warnings[0].mark.column : 0,
                 config->warnings_count ? config->warnings[0].text : "");
    weir_config_destroy(config);
}

static void test_a_burst_of_more_than_a_second_on_a_fast_limit(void **state)
{
    (void)state;
    expect_one("limits: [{ name: a, rate: 100/s, burst: 101 }]", 1, 41, "more than one second of its rate (100)");
    expect_none("limits: [{ name: a, rate: 100/s, burst: 100 }]");
    expect_none("limits: [{ name: a, rate: 100/s }]");
    expect_none("limits: [{ name: a, rate: 10/s, burst: 1000 }]");   /* not faster than 10/s */
    expect_none("limits: [{ name: a, rate: 600/min, burst: 600 }]"); /* neither */
    expect_one("limits: [{ name: a, rate: 601/min }]", 1, 10, "has a burst of 601, more than one second");
    expect_none("limits: [{ name: a, rate: 11/s, algorithm: leaky_bucket, burst: 12 }]"); /* never at once */
    expect_none("limits: [{ name: a, rate: 6000/min, algorithm: fixed_window }]");
    expect_one("limits: [{ name: a, rate: 5/s, key: [u], overrides: [{ u: x, rate: 50/s, burst: 51 }] }]", 1, 54,
               "a burst of 51");
}

static void test_limits_that_can_never_match(void **state)
{
    (void)state;
    expect_one("limits:\n  - { name: a, rate: 1/s, mode: off }", 2, 5, "limit \"a\" can never match: its mode is off");
    expect_one("limits: [{ name: a, rate: 1/s, key: [u], overrides: [{ u: \"*\", mode: off }] }]", 1, 10,
               "can never match");
    expect_none("limits: [{ name: a, rate: 1/s, key: [u], missing: share, overrides: [{ u: \"*\", mode: off }] }]");
    expect_none("limits: [{ name: a, rate: 1/s, key: [u], missing: refuse, overrides: [{ u: \"*\", mode: off }] }]");
    expect_none("limits: [{ name: a, rate: 1/s, key: [u], mode: off, overrides: [{ u: x, mode: shadow }] }]");
    expect_none("limits: [{ name: a, rate: 1/s, key: [u], overrides: [{ u: x, mode: off }] }]");
    expect_none("limits: [{ name: a, rate: 1/s, key: [u], rollout: { percent: 99.9, mode: off } }]");
    expect_one("limits: [{ name: a, rate: 1/s, key: [u], rollout: { percent: 100, mode: off } }]", 1, 10,
               "can never match");
    expect_none("limits: [{ name: a, rate: 1/s, key: [u], mode: off, rollout: { percent: 1, mode: shadow } }]");
    expect_one("limits: [{ name: a, rate: 1/s, match: { ip: \"::ffff:10.0.0.*\" } }]", 1, 41,
               "can never match an IPv4 address");
    expect_one("limits: [{ name: a, rate: 1/s, match: { u: a* }, key: [u], overrides: [{ u: b, mode: off }] }]", 1, 74,
               "this override can never match: limit \"a\" itself asks for u \"a*\"");
    expect_one("limits: [{ name: a, rate: 1/s, match: { u: abc }, key: [u], overrides: [{ u: b*, mode: off }] }]", 1,
               75, "this override can never match");
    expect_none("limits: [{ name: a, rate: 1/s, match: { u: a* }, key: [u], overrides: [{ u: ab, mode: off }] }]");
    expect_none("limits: [{ name: a, rate: 1/s, match: { u: abc }, key: [u], overrides: [{ u: a*, burst: 9 }] }]");
}

static void test_conditions_that_exclude_each_other(void **state)
{
    (void)state;
    expect_one("limits: [{ name: a, rate: 1/s, match: { u: { is: [x, y], not: [\"x*\", y] } } }]", 1, 41,
               "limit \"a\" can never match: no value of u is [x, y] and not [x*, y]");
    expect_one("limits: [{ name: a, rate: 1/s, match: { ip: { is: 10.1.0.0/16, not: 10.0.0.0/8 } } }]", 1, 41,
               "no value of ip is 10.1.0.0/16 and not 10.0.0.0/8");
    expect_one("limits: [{ name: a, rate: 1/s, match: { u: { is: x, not: \"*\" } } }]", 1, 41, "can never match");
    expect_none("limits: [{ name: a, rate: 1/s, match: { ip: { is: 10.0.0.0/8, not: 10.1.0.0/16 } } }]");
    expect_none("limits: [{ name: a, rate: 1/s, match: { u: { is: [x, y], not: x } } }]");
    expect_none("limits: [{ name: a, rate: 1/s, match: { u: { is: \"/a/*\", not: \"*.png\" } } }]");
    expect_one("limits: [{ name: a, rate: 1/s, match: { u: { not: \"*\" } }, key: [u] }]", 1, 41,
               "limit \"a\" can never match: its key needs u, which must not be there");
    expect_none("limits: [{ name: a, rate: 1/s, match: { u: { not: \"*\" } }, key: [u], missing: share }]");
    expect_one("limits: [{ name: a, rate: 1/s, match: { ip: 10.0.0.0/8 }, key: [ip],\n"
               "  overrides: [{ ip: [192.0.2.1, 11.0.0.0/8], mode: off }] }]",
               2, 17, "this override can never match: limit \"a\" itself asks for ip \"10.0.0.0/8\"");
    expect_none("limits: [{ name: a, rate: 1/s, match: { ip: 10.0.0.0/8 }, key: [ip],\n"
                "  overrides: [{ ip: [192.0.2.1, 10.9.0.0/16], mode: off }] }]");
    expect_one("limits: [{ name: a, rate: 1/s, match: { r: \"/a/*\" }, key: [r],\n"
               "  overrides: [{ r: \"/b*\", mode: off }] }]",
               2, 17, "this override can never match");
    expect_one("limits: [{ name: a, rate: 1/s, match: { ip: 10.0.0/8 } }]", 1, 45,
               "\"10.0.0/8\" is compared as text: a block of addresses is written whole");
    expect_one("limits: [{ name: a, rate: 1/s, match: { ip: [x, \"::ffff:10.0.0.*\"] } }]", 1, 41, "can never match");
}

static void test_a_burst_that_nobody_waits_for(void **state)
{
    (void)state;
#define HOLD "limits: [{ name: a, rate: 10/s, algorithm: leaky_bucket, throttle: hold, burst: "
    expect_one(HOLD "102 }]", 1, 68,
               "limit \"a\" never uses its burst of 102: after 101 the wait is above hold_timeout");
    expect_none(HOLD "101 }]"); /* the last one waits 10 s, which is hold_timeout */
    expect_one(HOLD "12, hold_timeout: 1s }]", 1, 68, "after 11 the wait");
    expect_one(HOLD "12, hold_max: 10 }]", 1, 68, "hold_max lets 10 wait, of all keys");
    expect_none(HOLD "11, hold_max: 10 }]");
    expect_none("limits: [{ name: a, rate: 100/min, algorithm: leaky_bucket, throttle: hold }]");
    expect_none("limits: [{ name: a, rate: 1/hour, algorithm: leaky_bucket, burst: 1000 }]"); /* told its delay */
}

static void test_logs_that_find_no_room(void **state)
{
    (void)state;
#define SMALL "table: { memory: 1MiB }\nlimits: [{ name: a, algorithm: "
    expect_one(SMALL "sliding_log, rate: 20000/min }]", 2, 51,
               "limit \"a\" never admits 20000: table.log_memory has room for 4096 of one key");
    expect_none(SMALL "sliding_log, rate: 4096/min }]");
    expect_one(SMALL "concurrency, rate: 2049 }]", 2, 51, "has room for 2048 of one key");
    expect_none(SMALL "concurrency, rate: 2048 }]");
    /* Two leave room to each other. */
    expect_one(SMALL "concurrency, rate: 2048 }, { name: b, key: [k], algorithm: concurrency, rate: 5 }]", 2, 51,
               "has room for 1024 of one key");
    expect_none(SMALL "concurrency, rate: 1024 }, { name: b, key: [k], algorithm: concurrency, rate: 5 }]");
    expect_none("limits: [{ name: a, algorithm: sliding_log, rate: 65536/min }]");
    expect_none(
        "table: { memory: 4MiB, log_memory: 2MiB }\nlimits: [{ name: a, algorithm: sliding_log, rate: 65536/min }]");
}

/* The number that is told is the one that is so. */
static void test_what_a_small_log_memory_admits(void **state)
{
    (void)state;
    struct fixture f = fixture_make(SMALL "sliding_log, rate: 20000/min }]"); /* its limiter has 1 MiB */
    struct weir_match match;
    struct fixture_request request = NO_ATTRIBUTES;
    struct weir_decision decision = { .admitted = true };
    struct weir_verdict verdict;
    struct weir_time now = { .now_ns = WEIR_NS_PER_SECOND, .wall_ns = WEIR_NS_PER_SECOND };
    size_t admitted = 0;
    assert_int_equal(fixture_match(&f, &request, 1, &match), 0);
    for (int i = 0; i < 20000; i++) {
        assert_int_equal(weir_limiter_decide(f.limiter, match.charges, 1, &now, 0, &decision, &verdict), 0);
        admitted += decision.admitted;
    }
    assert_int_equal(admitted, 4096);
    fixture_free(&f);
}

#define AUTH "listen: { http: { forwarded: nginx } }\n"

static void test_attributes_that_nobody_sends(void **state)
{
    (void)state;
    expect_one(AUTH "limits: [{ name: a, rate: 1/s, match: { path: /x } }]", 2, 41,
               "attribute \"path\" comes from no proxy by itself: /v1/auth calls it \"route\"");
    expect_one(AUTH "limits: [{ name: a, rate: 1/s, key: [Client-IP] }]", 2, 37, "/v1/auth calls it \"ip\"");
    expect_one(AUTH "limits: [{ name: a, rate: 1/s, match: { Route: /x } }]", 2, 41, "calls it \"route\"");
    expect_one(AUTH "limits: [{ name: a, rate: 1/s, cost: cost }]", 2, 38, "\"cost\" never comes over /v1/auth");
    expect_one(AUTH "limits: [{ name: a, rate: 1/s, key: [userId] }]", 2, 37, "never comes from a field X-Weir-userId");
    expect_none(AUTH
                "limits: [{ name: a, rate: 1/s, key: [ip, user-id, authorization], match: { route: /x, method: y } }]");
    expect_one(AUTH "limits: [{ name: a, rate: 1/s, match: { route: api/* } }]", 2, 41,
               "limit \"a\" never matches over /v1/auth: each route there begins with \"/\"");
    expect_one(AUTH "limits: [{ name: a, rate: 1/s, match: { route: [api, v1/*] } }]", 2, 41, "never matches");
    expect_none(AUTH "limits: [{ name: a, rate: 1/s, match: { route: [api, /x] } }]");
    expect_none(AUTH "limits: [{ name: a, rate: 1/s, match: { route: '*.png' } }]");
    expect_none(AUTH "limits: [{ name: a, rate: 1/s, match: { route: { not: api } } }]");
    expect_none("limits: [{ name: a, rate: 1/s, match: { route: api/* } }]");
    expect_none(
        "limits: [{ name: a, rate: 1/s, key: [userId], match: { path: /x } }]"); /* callers say what they like */
    expect_one("limits: [{ name: a, rate: 1/s, key: [user_id] }, { name: b, rate: 2/s, key: [User-Id] }]", 1, 37,
               "attribute \"user_id\" is another one than \"User-Id\" at line 1: names are compared byte by byte");
    expect_none("limits: [{ name: a, rate: 1/s, key: [user] }, { name: b, rate: 9/s, match: { user: x } }]");
    expect_one("unmatched: refuse\nlimits: []", 1, 1, "every request is refused");
}

static void test_shadowed_names(void **state)
{
    (void)state;
    expect_one("limits: [{ name: api, rate: 1/s }, { name: API, rate: 9/min }]", 1, 36,
               "name \"API\" shadows \"api\" at line 1: they differ only in case");
    expect_one("limits: [{ name: a, rate: 1/s, key: [u], overrides: [{ u: x, burst: 2 }, { u: x, burst: 3 }] }]", 1, 74,
               "is shadowed by the one at line 1");
    expect_one("limits: [{ name: a, rate: 1/s, key: [mode], overrides: [{ key: { mode: x }, burst: 2 }] }]", 1, 10,
               "attribute \"mode\" of limit \"a\" is shadowed by the setting");
    expect_none("limits: [{ name: a, rate: 1/s, key: [mode] }]");
}

static void test_limits_that_never_decide(void **state)
{
    (void)state;
    expect_one("limits: [{ name: a, rate: 5/s, key: [u] }, { name: b, rate: 6/s, key: [u] }]", 1, 44,
               "limit \"b\" never decides: \"a\" at line 1");
    expect_one("limits: [{ name: a, rate: 5/s, match: { x: 1, y: 2 } }, { name: b, rate: 4/s, match: { y: 2, x: 1 } }]",
               1, 10, "limit \"a\" never decides");
    expect_none("limits: [{ name: a, rate: 5/s, burst: 9 }, { name: b, rate: 6/s, burst: 8 }]");
    expect_none("limits: [{ name: a, rate: 5/s, key: [u] }, { name: b, rate: 6/s, key: [v] }]");
    expect_none("limits: [{ name: a, rate: 5/s, key: [u], mode: shadow }, { name: b, rate: 6/s, key: [u] }]");
    expect_none("limits: [{ name: a, rate: 9/min, algorithm: fixed_window },\n"
                "         { name: b, rate: 99/hour, algorithm: fixed_window }]");
    expect_one("limits: [{ name: a, rate: 9/day, algorithm: fixed_window, tz: UTC },\n"
               "         { name: b, rate: 99/day, algorithm: fixed_window }]",
               2, 10, "limit \"b\" never decides");
    expect_none("limits: [{ name: a, rate: 9/day, algorithm: fixed_window, tz: Europe/Berlin },\n"
                "         { name: b, rate: 99/day, algorithm: fixed_window }]");
}

static void test_a_time_zone_without_effect(void **state)
{
    (void)state;
    expect_one("limits: [{ name: a, rate: 1/hour, algorithm: fixed_window, tz: Europe/Berlin }]", 1, 64,
               "tz has no effect on limit \"a\"");
    expect_none("limits: [{ name: a, rate: 1/day, algorithm: fixed_window, tz: Europe/Berlin }]");
}

static void test_warnings_are_bounded_and_in_order(void **state)
{
    (void)state;
    char *text = fixture_alloc(200000);
    size_t used = (size_t)sprintf(text, "limits:\n");
    for (int i = 0; i < WEIR_CONFIG_WARNINGS_MAX + 5; i++)
        used += (size_t)sprintf(text + used, "- { name: l%d, rate: 1/s, mode: off, key: [a%d] }\n", i, i);
    struct weir_config *config = config_parsed(text);
    assert_int_equal(config->warnings_count, WEIR_CONFIG_WARNINGS_MAX);
    assert_int_equal(config->warnings_dropped, 5);
    for (size_t i = 1; i < config->warnings_count; i++)
        assert_true(config->warnings[i - 1].mark.line <= config->warnings[i].mark.line);
    weir_config_destroy(config);
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_burst_of_more_than_a_second_on_a_fast_limit),
        cmocka_unit_test(test_limits_that_can_never_match),
        cmocka_unit_test(test_conditions_that_exclude_each_other),
        cmocka_unit_test(test_a_burst_that_nobody_waits_for),
        cmocka_unit_test(test_logs_that_find_no_room),
        cmocka_unit_test(test_what_a_small_log_memory_admits),
        cmocka_unit_test(test_attributes_that_nobody_sends),
        cmocka_unit_test(test_shadowed_names),
        cmocka_unit_test(test_limits_that_never_decide),
        cmocka_unit_test(test_a_time_zone_without_effect),
        cmocka_unit_test(test_warnings_are_bounded_and_in_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
