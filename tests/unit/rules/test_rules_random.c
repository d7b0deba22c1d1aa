/* SPDX-License-Identifier: Apache-2.0
 *
 * The index against plain loops on random rule sets, explain against match, and what a match costs as limits grow. */
#include "random.h"
#include "rules/pattern.h"
#include "rules_fixture.h"
#include "rules_naive.h"

#define SETS 300
#define REQUESTS 60
#define TEXT_MAX 200000

static struct test_random rng;

/* Few names and short values of few letters, so that conditions often hold and patterns often nest. */
static void value_add(char *text, size_t *used, bool pattern)
{
    uint64_t size = test_random_below(&rng, 5);
    for (uint64_t i = 0; i < size; i++)
        text[(*used)++] = pattern && test_random_below(&rng, 3) == 0 ? '*' : "abc"[test_random_below(&rng, 3)];
}

static const char *const addresses[] = { "10.0.0.1", "10.0.1.1",    "::ffff:10.0.0.1", "11.0.0.1", "2001:db8::1",
                                         "::1",      "2001:DB8::2", "10.0.0.1x",       "" };
static const char *const blocks[] = { "10.0.0.0/8", "10.0.0.0/24", "10.0.0.1/32",
                                      "0.0.0.0/0",  "::/0",        "2001:db8::/32",
                                      "10.0.0.1",   "10.*",        "2001:db8::1/128",
                                      "*",          "::1/128",     "" };

/* A value, pattern or block in quotes. */
static void term_add(char *text, size_t *used, char name)
{
    fixture_add(text, used, "\"");
    if (name == 'i')
        fixture_add(text, used, "%s", blocks[test_random_below(&rng, sizeof(blocks) / sizeof(blocks[0]))]);
    else
        value_add(text, used, true);
    fixture_add(text, used, "\"");
}

/* One, or a list of them. */
static void terms_add(char *text, size_t *used, char name)
{
    uint64_t count = test_random_below(&rng, 4);
    if (count == 0) {
        term_add(text, used, name);
        return;
    }
    fixture_add(text, used, "[");
    for (uint64_t i = 0; i < count; i++) {
        term_add(text, used, name);
        fixture_add(text, used, ", ");
    }
    fixture_add(text, used, "]");
}

static void condition_add(char *text, size_t *used, char name, bool excludes)
{
    uint64_t kind = test_random_below(&rng, excludes ? 8 : 6);
    fixture_add(text, used, "%c: ", name);
    if (kind >= 6) {
        fixture_add(text, used, "{ not: ");
        terms_add(text, used, name);
        fixture_add(text, used, "%s", kind == 7 ? ", is: " : "");
        if (kind == 7)
            terms_add(text, used, name);
        fixture_add(text, used, " }");
    } else if (kind >= 4) {
        terms_add(text, used, name);
    } else {
        term_add(text, used, name);
    }
    fixture_add(text, used, ", ");
}

static void conditions_add(char *text, size_t *used, const char *names, uint64_t share, bool excludes)
{
    for (; *names; names++)
        if (test_random_below(&rng, share) == 0)
            condition_add(text, used, *names, excludes);
}

static void overrides_add(char *text, size_t *used, const char *key)
{
    uint64_t count = test_random_below(&rng, 5);
    fixture_add(text, used, "overrides: [");
    for (uint64_t i = 0; i < count && *key; i++) {
        fixture_add(text, used, "{ ");
        conditions_add(text, used, key + 1, 2, false);
        condition_add(text, used, *key, false);
        fixture_add(text, used, "%s }, ", test_random_below(&rng, 3) ? "burst: 2" : "mode: off");
    }
    fixture_add(text, used, "]");
}

static void set_make(char *text)
{
    static const char *const modes[] = { "enforce", "enforce", "enforce", "enforce", "shadow", "off" };
    static const char *const missing[] = { "skip", "share", "share", "skip", "refuse" };
    static const char *const keys[] = { "", "u", "uv", "v", "vw", "uvw", "i", "ui" };
    uint64_t count = 1 + test_random_below(&rng, 40);
    size_t used = 0;
    fixture_add(text, &used, "limits:\n");
    for (uint64_t i = 0; i < count; i++) {
        const char *key = keys[test_random_below(&rng, sizeof(keys) / sizeof(keys[0]))];
        fixture_add(text, &used, "  - { name: l%d, rate: 5/s, match: { ", (int)i);
        conditions_add(text, &used, "iruvw", 3, true);
        fixture_add(text, &used, "}, mode: %s, key: [", modes[test_random_below(&rng, 6)]);
        for (const char *name = key; *name; name++)
            fixture_add(text, &used, "%c, ", *name);
        fixture_add(text, &used, "], ");
        if (*key)
            fixture_add(text, &used, "missing: %s, ", missing[test_random_below(&rng, 5)]);
        overrides_add(text, &used, key);
        fixture_add(text, &used, " }\n");
        assert_true(used < TEXT_MAX - 5000);
    }
}

static void request_make(struct fixture_request *request, char *text)
{
    size_t used = 0;
    request->count = 0;
    for (const char *name = "xruvwi"; *name; name++) {
        if (test_random_below(&rng, 4) == 0)
            continue;
        size_t start = used;
        if (*name == 'i')
            fixture_add(text, &used, "%s",
                        addresses[test_random_below(&rng, sizeof(addresses) / sizeof(addresses[0]))]);
        else
            value_add(text, &used, false);
        request->attributes[request->count++] = (struct weir_attribute){ { name, 1 }, { text + start, used - start } };
    }
}

/* What plain loops say of one limit. */
struct truth {
    const struct weir_config_override *override; /* that applies; NULL for none */
    bool met, charges, refuses;
};

static struct truth truth_of(const struct weir_config_limit *limit, const struct fixture_request *request)
{
    struct truth truth = { naive_override(limit, request->attributes, request->count), false, false, false };
    enum weir_mode mode = truth.override ? truth.override->spec.mode : limit->spec.mode;
    bool lacks = naive_lacks(limit, request->attributes, request->count);
    truth.met = naive_limit_holds(limit, request->attributes, request->count) &&
                !(lacks && limit->missing == WEIR_MISSING_SKIP);
    truth.refuses = truth.met && lacks && limit->missing == WEIR_MISSING_REFUSE && mode == WEIR_MODE_ENFORCE;
    truth.charges = truth.met && mode != WEIR_MODE_OFF && !(lacks && limit->missing == WEIR_MISSING_REFUSE);
    return truth;
}

static enum weir_lack lack_of(const struct weir_match *match, const struct weir_rule *rule)
{
    for (size_t i = 0; i < match->lacks_count; i++)
        if (match->lacking[i].rule->index == rule->index)
            return match->lacking[i].lack;
    return WEIR_LACKS;
}

/* What explain says of limit `index` must be what plain loops say. */
static void explanation_agrees(const struct fixture *f, const struct fixture_request *request, size_t index,
                               const struct truth *truth)
{
    struct weir_explanation explanation;
    struct weir_fault fault;
    assert_int_equal(weir_rules_explain(f->rules, index, request->attributes, request->count, &explanation, &fault), 0);
    assert_int_equal(explanation.reason == WEIR_REASON_APPLIES, truth->charges);
    assert_int_equal(explanation.reason == WEIR_REASON_REFUSES, truth->refuses);
    if (truth->charges)
        assert_string_equal(explanation.rule->variant, truth->override ? truth->override->variant : "");
}

/* So must what the index says of all of them. Returns how many applied. */
static size_t match_agrees(const struct fixture *f, const struct fixture_request *request)
{
    struct weir_match match;
    size_t position = 0, charged = 0;
    bool met = false, refused = false;
    assert_int_equal(fixture_match(f, request, 1, &match), 0);
    for (size_t index = 0; index < f->config->limits_count; index++) {
        struct truth truth = truth_of(&f->config->limits[index], request);
        explanation_agrees(f, request, index, &truth);
        met = met || truth.met;
        if (truth.refuses && !refused)
            assert_int_equal(match.refused_by ? match.refused_by->index : SIZE_MAX, index);
        if (truth.refuses)
            assert_int_equal(lack_of(&match, weir_rules_limit(f->rules, index)), WEIR_LACK_REFUSED);
        refused = refused || truth.refuses;
        charged += truth.charges;
        if (!truth.charges || match.refused_by)
            continue;
        if (position == match.count || match.rules[position]->index != index)
            fail_msg("limit %s: plain loops say that it applies, match does not", f->config->limits[index].name);
        assert_string_equal(match.rules[position++]->variant, truth.override ? truth.override->variant : "");
    }
    assert_int_equal(position, match.count);
    assert_int_equal(met, match.met);
    assert_int_equal(refused, match.refused_by != NULL);
    return charged;
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
            char values[64];
            request_make(&request, values);
            applied += match_agrees(&f, &request);
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
