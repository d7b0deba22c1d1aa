/* SPDX-License-Identifier: Apache-2.0
 *
 * Which limits a request meets, under which key, at which cost, and which override of them. */
#include "rules_fixture.h"

static const char basic[] = "limits:\n"
                            "  - { name: all, rate: 1000/s }\n"
                            "  - { name: api, match: { route: /api/* }, key: [user], rate: 100/min, burst: 20 }\n"
                            "  - { name: exact, match: { route: /api/x, method: GET }, rate: 1/s }\n"
                            "  - { name: suffix, match: { route: \"*.png\" }, rate: 1/s }\n"
                            "  - { name: both, match: { route: \"/a*a\" }, rate: 1/s }\n"
                            "  - { name: inner, match: { route: \"/t/*/x/*\" }, rate: 1/s }\n"
                            "  - { name: empty, match: { route: \"\" }, rate: 1/s }\n"
                            "  - { name: any, match: { tenant: \"*\" }, rate: 1/s }\n";

static void test_conditions_and_wildcards(void **state)
{
    (void)state;
    struct fixture f = fixture_make(basic);
    fixture_expect(&f, NO_ATTRIBUTES, "all");
    fixture_expect(&f, REQUEST("route", "/api/x"), "all");
    fixture_expect(&f, REQUEST("route", "/api/x", "user", "ada"), "all api");
    fixture_expect(&f, REQUEST("user", "ada", "method", "GET", "route", "/api/x"), "all api exact");
    fixture_expect(&f, REQUEST("route", "/api/x", "user", "ada", "method", "POST"), "all api");
    fixture_expect(&f, REQUEST("route", "/api/", "user", ""), "all api");
    fixture_expect(&f, REQUEST("route", "/api", "user", "ada"), "all");
    fixture_expect(&f, REQUEST("route", "/b/logo.png"), "all suffix");
    fixture_expect(&f, REQUEST("route", ".png"), "all suffix");
    fixture_expect(&f, REQUEST("route", "/aa"), "all both");
    fixture_expect(&f, REQUEST("route", "/a"), "all"); /* prefix and suffix do not overlap */
    fixture_expect(&f, REQUEST("route", "/aba"), "all both");
    fixture_expect(&f, REQUEST("route", "/t/1/x/"), "all inner");
    fixture_expect(&f, REQUEST("route", "/t//x/y/z"), "all inner");
    fixture_expect(&f, REQUEST("route", "/t/1/y/2"), "all");
    fixture_expect(&f, REQUEST("route", ""), "all empty");
    fixture_expect(&f, REQUEST("tenant", ""), "all any");
    fixture_expect(&f, REQUEST("Tenant", "a", "other", "b"), "all"); /* names are bytes */
    fixture_free(&f);
}

static void test_binary_values_are_legal(void **state)
{
    (void)state;
    struct fixture f = fixture_make("limits: [{ name: a, match: { u: \"x\\0*\" }, key: [u], rate: 1/s }]");
    struct weir_attribute attribute = { { "u", 1 }, { "x\0\xff\xfe", 4 } };
    struct weir_match match;
    assert_int_equal(weir_rules_match(f.rules, &attribute, 1, 1, &match, NULL), 0);
    assert_int_equal(match.count, 1);
    attribute.value = (struct weir_slice){ NULL, 0 };
    assert_int_equal(weir_rules_match(f.rules, &attribute, 1, 1, &match, NULL), 0);
    assert_int_equal(match.count, 0);
    attribute.value = (struct weir_slice){ "x", 1 };
    assert_int_equal(weir_rules_match(f.rules, &attribute, 1, 1, &match, NULL), 0);
    assert_int_equal(match.count, 0);
    fixture_free(&f);
}

/* The server uses one for all its requests: what a request that could wait left there is not the next one's. */
static void test_a_match_that_was_used_before_leaves_nothing(void **state)
{
    (void)state;
    struct fixture f = fixture_make("limits: [{ name: a, key: [u], rate: 1/s, algorithm: leaky_bucket }]");
    struct weir_attribute attribute = { { "u", 1 }, { "x", 1 } };
    struct weir_match match;
    memset(&match, 0xff, sizeof match);
    assert_int_equal(weir_rules_match(f.rules, &attribute, 1, 1, &match, NULL), 0);
    assert_int_equal(match.count, 1);
    assert_true(match.met && !match.refused_by);
    assert_int_equal(match.lacks_count, 0);
    assert_int_equal(match.remote_count, 0);
    assert_int_equal(match.charges[0].cost, 1);
    assert_int_equal(match.charges[0].delay_max_ns, 0);
    fixture_free(&f);
}

static void test_overrides_exact_beats_named_beats_wildcard(void **state)
{
    (void)state;
    struct fixture f = fixture_make("limits:\n"
                                    "  - name: l\n"
                                    "    key: [tenant, user]\n"
                                    "    rate: 10/s\n"
                                    "    burst: 5\n"
                                    "    overrides:\n"
                                    "      - { tenant: a*, rate: 1/s }\n"
                                    "      - { tenant: ab*, rate: 2/s }\n"
                                    "      - { tenant: abc, rate: 3/s }\n"
                                    "      - { user: eve, rate: 4/s }\n"
                                    "      - { tenant: abc, user: eve, burst: 9 }\n"
                                    "      - { tenant: abc, user: e*, burst: 8 }\n"
                                    "      - { tenant: off, mode: off }\n");
    fixture_expect(&f, REQUEST("tenant", "x", "user", "y"), "l");
    fixture_expect(&f, REQUEST("tenant", "ax", "user", "y"), "l(tenant=a*)");
    fixture_expect(&f, REQUEST("tenant", "abx", "user", "y"), "l(tenant=ab*)");
    fixture_expect(&f, REQUEST("tenant", "abc", "user", "y"), "l(tenant=abc)");
    fixture_expect(&f, REQUEST("tenant", "abc", "user", "eva"), "l(tenant=abc,user=e*)");
    fixture_expect(&f, REQUEST("tenant", "abc", "user", "eve"), "l(tenant=abc,user=eve)");
    fixture_expect(&f, REQUEST("tenant", "abx", "user", "eve"), "l(user=eve)"); /* named beats wildcard */
    fixture_expect(&f, REQUEST("tenant", "off", "user", "y"), "");
    fixture_expect(&f, REQUEST("tenant", "off", "user", "eve"), "l(user=eve)"); /* as exact: the earlier in the file */
    fixture_expect(&f, REQUEST("tenant", "abc"), "");
    fixture_free(&f);
}

static void test_an_override_changes_what_it_names_and_shares_the_counter(void **state)
{
    (void)state;
    struct fixture f = fixture_make("limits: [{ name: l, key: [u], rate: 10/min, burst: 5, mode: off,\n"
                                    "  overrides: [{ u: x, mode: enforce }, { u: y, rate: 20/min, mode: shadow }] }]");
    struct weir_match x, y;
    struct fixture_request request = REQUEST("u", "x");
    assert_int_equal(fixture_match(&f, &request, 1, &x), 0);
    request = REQUEST("u", "y");
    assert_int_equal(fixture_match(&f, &request, 1, &y), 0);
    fixture_expect(&f, REQUEST("u", "z"), ""); /* off but for those two */
    assert_int_equal(x.rules[0]->limit.spec.mode, WEIR_MODE_ENFORCE);
    assert_int_equal(x.rules[0]->limit.spec.count, 10);
    assert_int_equal(y.rules[0]->limit.spec.mode, WEIR_MODE_SHADOW);
    assert_int_equal(y.rules[0]->limit.spec.count, 20);
    assert_int_equal(y.rules[0]->limit.spec.burst, 5);
    assert_int_equal(x.rules[0]->index, y.rules[0]->index);
    assert_ptr_not_equal(x.rules[0], y.rules[0]);
    assert_int_not_equal(x.charges[0].limit, y.charges[0].limit);
    fixture_free(&f);
}

static uint64_t key_hash(const struct fixture *fixture, struct fixture_request request)
{
    struct weir_match match;
    assert_int_equal(fixture_match(fixture, &request, 1, &match), 0);
    assert_int_equal(match.count, 1);
    return match.charges[0].key.hash;
}

static void test_keys_are_tuples(void **state)
{
    (void)state;
    struct fixture f = fixture_make("limits: [{ name: l, key: [a, b], rate: 1/s }]");
    uint64_t hash = key_hash(&f, REQUEST("a", "x", "b", "yz"));
    assert_int_equal(hash, key_hash(&f, REQUEST("b", "yz", "c", "other", "a", "x")));
    assert_int_not_equal(hash, key_hash(&f, REQUEST("a", "xy", "b", "z")));
    assert_int_not_equal(hash, key_hash(&f, REQUEST("a", "yz", "b", "x")));
    assert_int_not_equal(key_hash(&f, REQUEST("a", "", "b", "")), key_hash(&f, REQUEST("a", "", "b", "x")));
    fixture_free(&f);
}

static void test_addresses_have_one_form(void **state)
{
    (void)state;
    struct fixture f = fixture_make("limits: [{ name: l, key: [ip], rate: 1/s }]");
    uint64_t four = key_hash(&f, REQUEST("ip", "192.0.2.1"));
    assert_int_equal(four, key_hash(&f, REQUEST("ip", "::ffff:192.0.2.1")));
    assert_int_equal(four, key_hash(&f, REQUEST("ip", "::FFFF:c000:201")));
    assert_int_not_equal(four, key_hash(&f, REQUEST("ip", "192.0.2.2")));
    uint64_t six = key_hash(&f, REQUEST("ip", "2001:db8::1"));
    assert_int_equal(six, key_hash(&f, REQUEST("ip", "2001:DB8:0:0:1::")));
    assert_int_equal(six, key_hash(&f, REQUEST("ip", "2001:db8:0:0:ffff:ffff:ffff:ffff")));
    assert_int_not_equal(six, key_hash(&f, REQUEST("ip", "2001:db8:0:1::1")));
    assert_int_not_equal(key_hash(&f, REQUEST("ip", "fe80::1%eth0")), key_hash(&f, REQUEST("ip", "fe80::2%eth0")));
    fixture_free(&f);
    f = fixture_make("limits: [{ name: l, key: [ip], rate: 1/s, ipv6_prefix: 128 }]");
    assert_int_not_equal(key_hash(&f, REQUEST("ip", "2001:db8::1")), key_hash(&f, REQUEST("ip", "2001:db8::2")));
    assert_int_equal(key_hash(&f, REQUEST("ip", "2001:db8::1")), key_hash(&f, REQUEST("ip", "2001:DB8:0::1")));
    fixture_free(&f);
    f = fixture_make("limits: [{ name: l, key: [ip], rate: 1/s, ipv6_prefix: 61 }]");
    assert_int_equal(key_hash(&f, REQUEST("ip", "2001:db8:0:7::1")), key_hash(&f, REQUEST("ip", "2001:db8::2")));
    assert_int_not_equal(key_hash(&f, REQUEST("ip", "2001:db8:0:8::1")), key_hash(&f, REQUEST("ip", "2001:db8::2")));
    fixture_free(&f);
    f = fixture_make("limits: [{ name: l, match: { ip: \"2001:DB8::0:1\" }, rate: 1/s },\n"
                     "         { name: m, match: { ip: 192.0.2.* }, rate: 1/s }]");
    fixture_expect(&f, REQUEST("ip", "2001:db8:0::1"), "l");
    fixture_expect(&f, REQUEST("ip", "::ffff:192.0.2.9"), "m");
    fixture_free(&f);
}

static uint64_t cost_of(const struct fixture *fixture, struct fixture_request request, uint64_t cost)
{
    struct weir_match match;
    assert_int_equal(fixture_match(fixture, &request, cost, &match), 0);
    assert_int_equal(match.count, 1);
    return match.charges[0].cost;
}

static void test_costs(void **state)
{
    (void)state;
    struct weir_match match;
    struct fixture f = fixture_make("limits: [{ name: l, rate: 100/s, cost: 3 }]");
    assert_int_equal(cost_of(&f, NO_ATTRIBUTES, 1), 3);
    assert_int_equal(cost_of(&f, NO_ATTRIBUTES, 0), 0);
    assert_int_equal(cost_of(&f, NO_ATTRIBUTES, INT64_MAX / 3), INT64_MAX / 3 * 3);
    struct fixture_request request = NO_ATTRIBUTES;
    assert_int_equal(fixture_match(&f, &request, UINT64_MAX, &match), WEIR_ERANGE);
    assert_int_equal(fixture_match(&f, &request, INT64_MAX / 2, &match), WEIR_ERANGE);
    assert_int_equal(match.count, 0);
    fixture_free(&f);
    f = fixture_make("limits: [{ name: l, rate: 100/s, cost: bytes }]");
    assert_int_equal(cost_of(&f, REQUEST("bytes", "512"), 1), 512);
    assert_int_equal(cost_of(&f, REQUEST("bytes", "0"), 1), 0);
    assert_int_equal(cost_of(&f, REQUEST("bytes", "5"), 2), 10);
    assert_int_equal(cost_of(&f, REQUEST("bytes", "9223372036854775807"), 1), INT64_MAX);
    const char *const bad[] = { "", "-1", "1.5", "x", " 1", "9223372036854775808", "18446744073709551616" };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        request = REQUEST("bytes", bad[i]);
        assert_int_equal(fixture_match(&f, &request, 1, &match), i < 5 ? WEIR_EINVAL : WEIR_ERANGE);
    }
    struct weir_fault fault;
    assert_int_equal(weir_rules_match(f.rules, NULL, 0, 1, &match, &fault), WEIR_EINVAL);
    assert_string_equal(fault.field, "bytes");
    assert_non_null(strstr(fault.text, "limit \"l\" takes its cost from it"));
    fixture_free(&f);
}

static void test_bounds_of_one_request(void **state)
{
    (void)state;
    struct fixture f = fixture_make("limits: [{ name: l, key: [u], rate: 1/s }]");
    struct fixture_request request = REQUEST("u", "a", "u", "a");
    struct weir_match match;
    struct weir_fault fault;
    assert_int_equal(weir_rules_match(f.rules, request.attributes, 2, 1, &match, &fault), WEIR_EDUP);
    assert_string_equal(fault.field, "u");
    request = REQUEST("v", "a", "v", "a", "u", "a"); /* nobody looks at v */
    assert_int_equal(fixture_match(&f, &request, 1, &match), 0);
    assert_int_equal(match.count, 1);
    for (request.count = 0; request.count <= WEIR_ATTRIBUTES_MAX; request.count++)
        request.attributes[request.count] = (struct weir_attribute){ { "v", 1 }, { "a", 1 } };
    assert_int_equal(fixture_match(&f, &request, 1, &match), WEIR_ELIMIT);
    request.count = WEIR_ATTRIBUTES_MAX;
    assert_int_equal(fixture_match(&f, &request, 1, &match), 0);
    char *big = calloc(WEIR_KEY_BYTES_MAX + 1, 1);
    assert_non_null(big);
    memset(big, 'x', WEIR_KEY_BYTES_MAX);
    request = REQUEST("u", big);
    assert_int_equal(fixture_match(&f, &request, 1, &match), 0);
    request.attributes[0].value.size++;
    assert_int_equal(fixture_match(&f, &request, 1, &match), WEIR_ERANGE);
    free(big);
    fixture_free(&f);
}

/* WEIR_CHARGES_MAX limits may match one request, not one more; those that are off do not count. */
static void test_too_many_limits_for_one_request(void **state)
{
    (void)state;
    char text[20000] = "limits:\n  - { name: off, rate: 1/s, mode: off }\n";
    size_t used = strlen(text);
    struct weir_match match;
    struct fixture_request request = REQUEST("u", "x");
    for (int i = 0; i < WEIR_CHARGES_MAX; i++)
        used += (size_t)snprintf(text + used, sizeof(text) - used, "  - { name: l%d, key: [u], rate: %d/s }\n", i,
                                 i + 1);
    struct fixture f = fixture_make(text);
    assert_int_equal(fixture_match(&f, &request, 1, &match), 0);
    assert_int_equal(match.count, WEIR_CHARGES_MAX);
    assert_string_equal(match.rules[0]->name, "l0"); /* in the order of the file */
    assert_string_equal(match.rules[WEIR_CHARGES_MAX - 1]->name, "l63");
    fixture_free(&f);
    snprintf(text + used, sizeof(text) - used, "  - { name: one-more, key: [u], rate: 1/s }\n");
    f = fixture_make(text);
    assert_int_equal(fixture_match(&f, &request, 1, &match), WEIR_ELIMIT);
    assert_int_equal(match.count, 0);
    fixture_free(&f);
}

static void test_too_many_inner_patterns_are_refused(void **state)
{
    (void)state;
    char text[20000] = "limits:\n";
    size_t used = strlen(text);
    for (int i = 0; i < 66; i++)
        used += (size_t)snprintf(text + used, sizeof(text) - used,
                                 "  - { name: l%d, match: { r: \"*%d*\" }, rate: 1/s }\n", i, i + 100);
    struct weir_config *config = NULL;
    struct weir_rules *rules = NULL;
    struct weir_limiter *limiter = NULL;
    struct weir_limiter_options options = { .memory_max = (size_t)1 << 20 };
    struct weir_config_fault fault;
    assert_int_equal(weir_limiter_create(&options, &limiter, NULL), 0);
    assert_int_equal(weir_config_parse(text, strlen(text), &config, &fault), 0);
    assert_int_equal(weir_rules_create(limiter, config, &rules, &fault), WEIR_ELIMIT);
    assert_non_null(strstr(fault.text, "more than 64 patterns for \"r\""));
    assert_int_equal(fault.mark.line, 67);
    assert_null(rules);
    weir_config_destroy(config);
    weir_limiter_destroy(limiter);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_conditions_and_wildcards),
        cmocka_unit_test(test_binary_values_are_legal),
        cmocka_unit_test(test_a_match_that_was_used_before_leaves_nothing),
        cmocka_unit_test(test_overrides_exact_beats_named_beats_wildcard),
        cmocka_unit_test(test_an_override_changes_what_it_names_and_shares_the_counter),
        cmocka_unit_test(test_keys_are_tuples),
        cmocka_unit_test(test_addresses_have_one_form),
        cmocka_unit_test(test_costs),
        cmocka_unit_test(test_bounds_of_one_request),
        cmocka_unit_test(test_too_many_limits_for_one_request),
        cmocka_unit_test(test_too_many_inner_patterns_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
