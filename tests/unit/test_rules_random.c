/* SPDX-License-Identifier: Apache-2.0
 *
 * The index against plain loops on random rule sets, explain against match, and what a match costs as limits grow. */
#include "random.h"
#include "rules/pattern.h"
#include "rules_fixture.h"
#include "rules_naive.h"

#define SETS 300
#define REQUESTS 60
#define TEXT_MAX 60000

static struct test_random rng;

/* Few names and short values of few letters, so that conditions often hold and patterns often nest. */
static void value_add(char *text, size_t *used, bool pattern)
{
    uint64_t size = test_random_below(&rng, 5);
    for (uint64_t i = 0; i < size; i++)
        text[(*used)++] = pattern && test_random_below(&rng, 3) == 0 ? '*' : "abc"[test_random_below(&rng, 3)];
}

static void conditions_add(char *text, size_t *used, const char *names, uint64_t share)
{
    for (; *names; names++) {
        if (test_random_below(&rng, share) != 0)
            continue;
        fixture_add(text, used, "%c: \"", *names);
        value_add(text, used, true);
        fixture_add(text, used, "\", ");
    }
}

static void overrides_add(char *text, size_t *used, const char *key)
{
    uint64_t count = test_random_below(&rng, 5);
    fixture_add(text, used, "overrides: [");
    for (uint64_t i = 0; i < count && *key; i++) {
        fixture_add(text, used, "{ ");
        conditions_add(text, used, key + 1, 2);
        fixture_add(text, used, "%c: \"", *key);
        value_add(text, used, true);
        fixture_add(text, used, "\", %s }, ", test_random_below(&rng, 3) ? "burst: 2" : "mode: off");
    }
    fixture_add(text, used, "]");
}

static void set_make(char *text)
{
    static const char *const keys[] = { "", "u", "uv", "v", "vw", "uvw" };
    uint64_t count = 1 + test_random_below(&rng, 40);
    size_t used = 0;
    fixture_add(text, &used, "limits:\n");
    for (uint64_t i = 0; i < count; i++) {
        const char *key = keys[test_random_below(&rng, sizeof(keys) / sizeof(keys[0]))];
        fixture_add(text, &used, "  - { name: l%d, rate: 5/s, match: { ", (int)i);
        conditions_add(text, &used, "ruvw", 2);
        fixture_add(text, &used, "}, mode: %s, key: [", test_random_below(&rng, 6) ? "enforce" : "off");
        for (const char *name = key; *name; name++)
            fixture_add(text, &used, "%c, ", *name);
        fixture_add(text, &used, "], ");
        overrides_add(text, &used, key);
        fixture_add(text, &used, " }\n");
        assert_true(used < TEXT_MAX - 2000);
    }
}

static void request_make(struct fixture_request *request, char *text)
{
    size_t used = 0;
    request->count = 0;
    for (const char *name = "xruvw"; *name; name++) {
        if (test_random_below(&rng, 4) == 0)
            continue;
        size_t start = used;
        value_add(text, &used, false);
        request->attributes[request->count++] = (struct weir_attribute){ { name, 1 }, { text + start, used - start } };
    }
}

/* What the index says of limit `index` must be what plain loops say; and explain must agree. Returns whether it
 * applies. */
static bool limit_agrees(const struct fixture *f, const struct fixture_request *request, const struct weir_match *match,
                         size_t index, size_t position)
{
    const struct weir_config_limit *limit = &f->config->limits[index];
    const struct weir_config_override *override = naive_override(limit, request->attributes, request->count);
    const struct weir_limit_spec *spec = override ? &override->spec : &limit->spec;
    bool holds = naive_limit_holds(limit, request->attributes, request->count);
    bool applies = holds && spec->mode != WEIR_MODE_OFF;
    bool matched = position < match->count && match->rules[position]->index == index;
    struct weir_explanation explanation;
    struct weir_fault fault;
    assert_int_equal(weir_rules_explain(f->rules, index, request->attributes, request->count, &explanation, &fault), 0);
    if (applies != matched)
        fail_msg("limit %s: match says %d, plain loops say %d", limit->name, matched, applies);
    assert_int_equal(explanation.reason == WEIR_REASON_APPLIES, applies);
    assert_int_equal(explanation.reason == WEIR_REASON_OFF, holds && !applies);
    if (applies) {
        assert_string_equal(match->rules[position]->variant, override ? override->variant : "");
        assert_ptr_equal(explanation.rule, match->rules[position]);
    }
    return applies;
}

static void test_the_index_agrees_with_plain_loops(void **state)
{
    (void)state;
    char *text = fixture_alloc(TEXT_MAX);
    size_t applied = 0, asked = 0;
    rng.state = test_random_seed();
    for (int set = 0; set < SETS; set++) {
        set_make(text);
        struct fixture f = fixture_make(text);
        for (int i = 0; i < REQUESTS; i++) {
            struct fixture_request request;
            struct weir_match match;
            char values[64];
            size_t position = 0;
            request_make(&request, values);
            assert_int_equal(fixture_match(&f, &request, 1, &match), 0);
            for (size_t index = 0; index < f.config->limits_count; index++)
                position += limit_agrees(&f, &request, &match, index, position);
            assert_int_equal(position, match.count);
            applied += match.count;
            asked += f.config->limits_count;
        }
        fixture_free(&f);
    }
    printf("%zu of %zu limits applied\n", applied, asked);
    assert_true(applied > asked / 50 && applied < asked / 2);
    free(text);
}

static void test_patterns_agree_with_recursion(void **state)
{
    (void)state;
    rng.state = test_random_seed();
    for (int i = 0; i < 200000; i++) {
        char pattern[16], value[16];
        size_t pattern_size = test_random_below(&rng, 9);
        size_t value_size = test_random_below(&rng, 12);
        for (size_t j = 0; j < pattern_size; j++)
            pattern[j] = "aab*"[test_random_below(&rng, 4)];
        for (size_t j = 0; j < value_size; j++)
            value[j] = "ab"[test_random_below(&rng, 2)];
        if (weir_pattern_matches((struct weir_slice){ pattern, pattern_size },
                                 (struct weir_slice){ value, value_size }) !=
            naive_glob(pattern, pattern_size, value, value_size))
            fail_msg("\"%.*s\" and \"%.*s\"", (int)pattern_size, pattern, (int)value_size, value);
    }
}

/* `count` limits of the kinds that people have by the thousands, of which one request meets the same few. */
static size_t steps_with(int count)
{
    char *text = fixture_alloc((size_t)count * 128 + 4096);
    size_t used = 0;
    fixture_add(text, &used,
                "limits:\n  - { name: all, rate: 5/s }\n"
                "  - { name: api, match: { route: \"/api/*\" }, key: [user], rate: 5/s,\n"
                "      overrides: [{ user: ada, burst: 2 }");
    for (int i = 0; i < count / 5; i++)
        fixture_add(text, &used, ", { user: u%d, burst: 2 }", i);
    fixture_add(text, &used, "] }\n");
    for (int i = 0; i < count / 5; i++)
        fixture_add(text, &used,
                    "  - { name: tenant%d, match: { tenant: t%d }, key: [user], rate: 5/s }\n"
                    "  - { name: route%d, match: { route: \"/api/r%d/*\" }, rate: 5/s }\n"
                    "  - { name: both%d, match: { tenant: t%d, route: \"*/x%d\" }, rate: 5/s }\n"
                    "  - { name: same%d, match: { method: GET, route: \"/api/x\", tenant: s%d }, rate: 5/s }\n",
                    i, i, i, i, i, i, i, i, i);
    struct fixture f = fixture_make(text);
    struct fixture_request request = REQUEST("tenant", "t1", "user", "ada", "method", "GET", "route", "/api/x", "ip",
                                             "1.2.3.4");
    struct weir_match match;
    assert_int_equal(fixture_match(&f, &request, 1, &match), 0);
    assert_int_equal(match.count, 3); /* all, api, tenant1 */
    printf("%6d limits and overrides: %zu steps\n", count, match.steps);
    size_t steps = match.steps;
    fixture_free(&f);
    free(text);
    return steps;
}

/* A binary search takes log2(n) steps in one list of prefixes and one of suffixes: the only growth there is. */
static void test_the_cost_of_a_match_does_not_grow_with_the_limits(void **state)
{
    (void)state;
    size_t ten = steps_with(10);
    (void)steps_with(100);
    (void)steps_with(1000);
    size_t many = steps_with(10000);
    assert_true(many <= ten + 2 * 10 + 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_index_agrees_with_plain_loops),
        cmocka_unit_test(test_patterns_agree_with_recursion),
        cmocka_unit_test(test_the_cost_of_a_match_does_not_grow_with_the_limits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
