/* SPDX-License-Identifier: Apache-2.0
 *
 * Why a limit applies to a request, or why not. */
#include "rules_fixture.h"

static struct weir_explanation explain(const struct fixture *f, size_t index, struct fixture_request request)
{
    struct weir_explanation explanation;
    struct weir_fault fault;
    assert_int_equal(weir_rules_explain(f->rules, index, request.attributes, request.count, &explanation, &fault), 0);
    return explanation;
}

static const char set[] = "limits:\n"
                          "  - { name: a, match: { route: /api/*, method: GET }, key: [user], rate: 5/s,\n"
                          "      overrides: [\n"
                          "        { user: ada, burst: 9 },\n"
                          "        { user: off*, mode: off } ] }\n"
                          "  - { name: b, rate: 5/s, mode: off }\n";

static void test_each_reason_is_named(void **state)
{
    (void)state;
    struct fixture f = fixture_make(set);
    struct weir_explanation e = explain(&f, 0, REQUEST("route", "/api/x", "method", "GET", "user", "eve"));
    assert_int_equal(e.reason, WEIR_REASON_APPLIES);
    assert_string_equal(e.rule->variant, "");
    assert_int_equal(e.mark.line, 2);
    assert_int_equal(e.mark.column, 5);
    e = explain(&f, 0, REQUEST("route", "/api/x", "method", "GET"));
    assert_int_equal(e.reason, WEIR_REASON_MISSING);
    assert_string_equal(e.attribute, "user");
    e = explain(&f, 0, REQUEST("method", "GET", "user", "eve"));
    assert_int_equal(e.reason, WEIR_REASON_MISSING);
    assert_string_equal(e.attribute, "route");
    e = explain(&f, 0, REQUEST("route", "/x", "method", "GET", "user", "eve"));
    assert_int_equal(e.reason, WEIR_REASON_MISMATCH);
    assert_string_equal(e.attribute, "route");
    assert_memory_equal(e.pattern.data, "/api/*", e.pattern.size);
    e = explain(&f, 1, NO_ATTRIBUTES);
    assert_int_equal(e.reason, WEIR_REASON_OFF);
    fixture_free(&f);
}

static void test_the_override_that_applies_is_named(void **state)
{
    (void)state;
    struct fixture f = fixture_make(set);
    struct weir_explanation e = explain(&f, 0, REQUEST("route", "/api/x", "method", "GET", "user", "ada"));
    assert_int_equal(e.reason, WEIR_REASON_APPLIES);
    assert_memory_equal(e.rule->variant, "user=ada#", 9);
    assert_int_equal(e.rule->limit.spec.burst, 9);
    assert_int_equal(e.mark.line, 4);
    e = explain(&f, 0, REQUEST("route", "/api/x", "method", "GET", "user", "official"));
    assert_int_equal(e.reason, WEIR_REASON_OFF);
    assert_int_equal(e.mark.line, 5);
    fixture_free(&f);
}

static void test_bad_questions(void **state)
{
    (void)state;
    struct fixture f = fixture_make(set);
    struct weir_explanation e;
    struct weir_fault fault;
    struct fixture_request twice = REQUEST("user", "a", "user", "b");
    assert_int_equal(weir_rules_explain(f.rules, 2, NULL, 0, &e, &fault), WEIR_ENOENT);
    assert_int_equal(weir_rules_explain(f.rules, 0, twice.attributes, twice.count, &e, &fault), WEIR_EDUP);
    fixture_free(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_reason_is_named),
        cmocka_unit_test(test_the_override_that_applies_is_named),
        cmocka_unit_test(test_bad_questions),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
