/* SPDX-License-Identifier: Apache-2.0
 *
 * What is legal and yet hardly meant is said, at its place; what is meant is not complained about. */
#include "rules_fixture.h"

static struct weir_config *parse(const char *text)
{
    struct weir_config *config = NULL;
    struct weir_config_fault fault;
    if (weir_config_parse(text, strlen(text), &config, &fault) != 0)
        fail_msg("%s\n  gives %u:%u: %s", text, fault.mark.line, fault.mark.column, fault.text);
    return config;
}

static void expect_none(const char *text)
{
    struct weir_config *config = parse(text);
    if (config->warnings_count)
        fail_msg("%s\n  gives %s", text, config->warnings[0].text);
    weir_config_destroy(config);
}

static void expect_one(const char *text, unsigned line, unsigned column, const char *part)
{
    struct weir_config *config = parse(text);
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
    expect_one("limits: [{ name: a, rate: 11/s, algorithm: leaky_bucket, burst: 12 }]", 1, 65, "a burst of 12");
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
    expect_none("limits: [{ name: a, rate: 1/s, key: [u], mode: off, overrides: [{ u: x, mode: shadow }] }]");
    expect_none("limits: [{ name: a, rate: 1/s, key: [u], overrides: [{ u: x, mode: off }] }]");
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
    struct weir_config *config = parse(text);
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
        cmocka_unit_test(test_shadowed_names),
        cmocka_unit_test(test_limits_that_never_decide),
        cmocka_unit_test(test_a_time_zone_without_effect),
        cmocka_unit_test(test_warnings_are_bounded_and_in_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
