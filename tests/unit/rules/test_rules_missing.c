/* SPDX-License-Identifier: Apache-2.0
 *
 * `missing`: what a limit does with a request that its match fits and that lacks an attribute of its key. */
#include "rules_fixture.h"

static const char set[] =
    "limits:\n"
    "  - { name: skips, match: { route: /api/* }, key: [user], rate: 5/s }\n"
    "  - { name: shares, match: { route: /api/* }, key: [tenant], missing: share, rate: 5/s }\n"
    "  - { name: refuses, match: { route: /admin/* }, key: [user], missing: refuse, rate: 5/s }\n";

/* "NAME lack NAME lack", of the limits for which something is missing. */
static void expect_lacks(const struct weir_match *match, const char *expected)
{
    char text[500] = "";
    size_t used = 0;
    for (size_t i = 0; i < match->lacks_count; i++)
        used += (size_t)snprintf(text + used, sizeof(text) - used, "%s%s %d", i ? " " : "",
                                 match->lacking[i].rule->name, (int)match->lacking[i].lack);
    assert_string_equal(text, expected);
}

static struct weir_match match_of(const struct fixture *f, struct fixture_request request, uint64_t cost)
{
    struct weir_match match;
    assert_int_equal(fixture_match(f, &request, cost, &match), 0);
    return match;
}

static void test_skip_is_seen(void **state)
{
    (void)state;
    struct fixture f = fixture_make(set);
    struct weir_match match = match_of(&f, REQUEST("route", "/api/x", "tenant", "t"), 1);
    assert_int_equal(match.count, 1);
    assert_true(match.met);
    expect_lacks(&match, "skips 0");
    match = match_of(&f, REQUEST("route", "/api/x", "tenant", "t", "user", ""), 1); /* an empty value is a value */
    assert_int_equal(match.count, 2);
    expect_lacks(&match, "");
    match = match_of(&f, REQUEST("route", "/elsewhere"), 1);
    assert_false(match.met);
    expect_lacks(&match, "");
    fixture_free(&f);
}

static uint64_t hash_of(const struct fixture *f, struct fixture_request request)
{
    struct weir_match match = match_of(f, request, 1);
    assert_int_equal(match.count, 1);
    return match.charges[0].key.hash;
}

static void test_all_who_lack_it_share_one_counter(void **state)
{
    (void)state;
    struct fixture f = fixture_make("limits: [{ name: l, key: [a, b], missing: share, rate: 1/s }]");
    uint64_t none = hash_of(&f, NO_ATTRIBUTES);
    assert_int_equal(none, hash_of(&f, REQUEST("other", "x")));
    assert_int_not_equal(none, hash_of(&f, REQUEST("a", "", "b", "")));
    uint64_t lacks_b = hash_of(&f, REQUEST("a", "x"));
    assert_int_equal(lacks_b, hash_of(&f, REQUEST("a", "x", "B", "y")));
    assert_int_not_equal(lacks_b, hash_of(&f, REQUEST("a", "x", "b", "")));
    assert_int_not_equal(lacks_b, hash_of(&f, REQUEST("a", "y")));
    assert_int_not_equal(lacks_b, hash_of(&f, REQUEST("b", "x")));
    assert_int_not_equal(lacks_b, none);
    fixture_free(&f);
    f = fixture_make("limits: [{ name: l, key: [a], missing: share, rate: 1/s, overrides: [{ a: \"*\", burst: 9 }] }]");
    assert_int_not_equal(hash_of(&f, NO_ATTRIBUTES), hash_of(&f, REQUEST("a", "")));
    assert_int_not_equal(hash_of(&f, NO_ATTRIBUTES), hash_of(&f, REQUEST("a", "\xff\xff\xff\xff")));
    fixture_expect(&f, REQUEST("a", "x"), "l(a=*)");
    fixture_expect(&f, NO_ATTRIBUTES, "l"); /* the override asks for the attribute */
    struct weir_match match = match_of(&f, NO_ATTRIBUTES, 1);
    expect_lacks(&match, "l 1");
    fixture_free(&f);
}

/* Nodes agree on the counter of those who lack it, and it is no value's. */
static void test_nodes_share_the_same_counter(void **state)
{
    (void)state;
    struct fixture f = fixture_make("engine: { redis: { servers: [127.0.0.1:1] } }\n"
                                    "limits: [{ name: l, key: [a], missing: share, rate: 1/s }]");
    struct weir_match lacks = match_of(&f, NO_ATTRIBUTES, 1), empty = match_of(&f, REQUEST("a", ""), 1);
    struct weir_slice absent = { NULL, WEIR_VALUE_ABSENT };
    struct weir_remote_key key;
    assert_int_equal(weir_remote_key_init(f.config->cluster_secret, "l", &absent, 1, &key), 0);
    assert_memory_equal(&lacks.remote_keys[0], &key, sizeof(key));
    assert_int_not_equal(lacks.remote_keys[0].id[0], empty.remote_keys[0].id[0]);
    fixture_free(&f);
}

static void test_refuse_refuses_for_good(void **state)
{
    (void)state;
    struct fixture f = fixture_make(set);
    struct weir_match match = match_of(&f, REQUEST("route", "/admin/x"), 1);
    assert_int_equal(match.count, 0);
    assert_true(match.met);
    assert_non_null(match.refused_by);
    assert_string_equal(match.refused_by->name, "refuses");
    assert_string_equal(match.lacks, "user");
    expect_lacks(&match, "refuses 2");
    match = match_of(&f, REQUEST("route", "/admin/x", "user", ""), 1);
    assert_int_equal(match.count, 1);
    assert_null(match.refused_by);
    match = match_of(&f, REQUEST("route", "/admin/x"), 0); /* what costs nothing is always admitted */
    assert_null(match.refused_by);
    assert_true(match.met);
    expect_lacks(&match, "");
    fixture_free(&f);
}

static void test_one_that_refuses_outranks_those_that_would_charge(void **state)
{
    (void)state;
    struct fixture f = fixture_make("limits:\n"
                                    "  - { name: all, rate: 5/s }\n"
                                    "  - { name: a, key: [x], missing: refuse, rate: 5/s }\n"
                                    "  - { name: b, key: [y], missing: refuse, rate: 5/s }\n"
                                    "  - { name: c, key: [z], missing: refuse, rate: 5/s, cost: bytes }\n");
    struct weir_match match = match_of(&f, REQUEST("z", "1", "bytes", "7"), 1);
    assert_int_equal(match.count, 0);
    assert_string_equal(match.refused_by->name, "a"); /* the first in the file */
    expect_lacks(&match, "a 2 b 2");
    struct fixture_request request = REQUEST("z", "1");
    assert_int_equal(fixture_match(&f, &request, 1, &match), WEIR_EINVAL); /* a cost that is absent stays an error */
    assert_null(match.refused_by);
    assert_int_equal(match.lacks_count, 0);
    fixture_free(&f);
}

static void test_shadow_and_off_refuse_nobody(void **state)
{
    (void)state;
    struct fixture f = fixture_make("limits:\n"
                                    "  - { name: s, key: [x], missing: refuse, rate: 5/s, mode: shadow }\n"
                                    "  - { name: o, key: [x], missing: refuse, rate: 5/s, mode: off }\n"
                                    "  - { name: k, key: [x], rate: 5/s, mode: off }\n"
                                    "  - { name: v, key: [x, y], missing: refuse, rate: 5/s,\n"
                                    "      overrides: [{ y: free, mode: off }] }\n");
    struct weir_match match = match_of(&f, REQUEST("y", "free"), 1);
    assert_null(match.refused_by);
    expect_lacks(&match, "s 3");
    match = match_of(&f, REQUEST("y", "other"), 1);
    assert_string_equal(match.refused_by->name, "v");
    fixture_free(&f);
}

/* Someone thought of a request that meets a limit which is off: it is none of those that no limit is for. */
static void test_a_limit_that_is_off_is_met(void **state)
{
    (void)state;
    struct fixture f = fixture_make(
        "limits: [{ name: l, key: [u], rate: 5/s, overrides: [{ u: monitoring, mode: off }] }]");
    struct weir_match match = match_of(&f, REQUEST("u", "monitoring"), 1);
    assert_int_equal(match.count, 0);
    assert_true(match.met);
    match = match_of(&f, NO_ATTRIBUTES, 1);
    assert_false(match.met);
    fixture_free(&f);
}

static void test_more_than_can_be_told_are_not_told(void **state)
{
    (void)state;
    char text[20000] = "limits:\n";
    size_t used = strlen(text);
    for (int i = 0; i < WEIR_MATCH_LACKS_MAX + 5; i++)
        used += (size_t)snprintf(text + used, sizeof(text) - used, "  - { name: l%d, key: [k%d], rate: 1/s }\n", i, i);
    struct fixture f = fixture_make(text);
    struct weir_match match = match_of(&f, REQUEST("k68", "x"), 1);
    assert_int_equal(match.count, 1);
    assert_int_equal(match.lacks_count, WEIR_MATCH_LACKS_MAX);
    fixture_free(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_skip_is_seen),
        cmocka_unit_test(test_all_who_lack_it_share_one_counter),
        cmocka_unit_test(test_nodes_share_the_same_counter),
        cmocka_unit_test(test_refuse_refuses_for_good),
        cmocka_unit_test(test_one_that_refuses_outranks_those_that_would_charge),
        cmocka_unit_test(test_shadow_and_off_refuse_nobody),
        cmocka_unit_test(test_a_limit_that_is_off_is_met),
        cmocka_unit_test(test_more_than_can_be_told_are_not_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
