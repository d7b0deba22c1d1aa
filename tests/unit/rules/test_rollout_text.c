/* SPDX-License-Identifier: Apache-2.0
 *
 * A step of a rollout as a text: where the line goes, that all else stays byte by byte, what cannot be rolled out, and
 * random sets in all the ways in which people write them. */
#include "rules/rollout_text.h"

#include "random.h"
#include "rules/rollout.h"
#include "rules_fixture.h"

static struct weir_config_faults faults;

static struct weir_config *file_of(const char *more)
{
    char text[400];
    (void)snprintf(text, sizeof(text), "rules: { store: \"sqlite:/tmp/rules.db\" }\n%s", more);
    return config_parsed(text);
}

/* The text of the step, to be freed; NULL: `faults`. */
static char *step(const char *base, const char *target, uint32_t share)
{
    struct weir_config *file = file_of("");
    char *text = NULL;
    size_t size = 0;
    int error = weir_rollout_text(file, fixture_slice(base), fixture_slice(target), share, &text, &size, &faults);
    assert_int_equal(!error, text != NULL);
    if (text)
        assert_int_equal(strlen(text), size);
    weir_config_destroy(file);
    return text;
}

static void expect(const char *base, const char *target, uint32_t share, const char *made)
{
    char *text = step(base, target, share);
    if (!text)
        fail_msg("%s\n  is refused: %u:%u: %s", base, faults.list[0].mark.line, faults.list[0].mark.column,
                 faults.list[0].text);
    assert_string_equal(text, made);
    free(text);
}

static void test_the_line_goes_before_the_rate_and_all_else_stays(void **state)
{
    (void)state;
    expect("# ours\nlimits:\n  - name: a   # ä\n    key: [u]\n    rate: 1/s  # slow\n    burst: 5\n",
           "limits: [ { name: a, key: [u], rate: 2/s, burst: 9 } ]", 100,
           "# ours\nlimits:\n  - name: a   # ä\n    key: [u]\n    rollout: { percent: 10, rate: 2/s, burst: 9 }\n"
           "    rate: 1/s  # slow\n    burst: 5\n");
    expect("limits:\n- rate: 1/s\n  name: a\n  key: [u]", "limits: [ { name: a, key: [u], rate: 2/s } ]", 5,
           "limits:\n- rollout: { percent: 0.5, rate: 2/s }\n  rate: 1/s\n  name: a\n  key: [u]");
}

static void test_a_name_of_many_bytes_before_it(void **state)
{
    (void)state;
    expect("limits: [ { match: { r: \"äöü\U0001f600\" }, name: a, key: [u], rate: 1/s }, { name: b, rate: 3/s } ]\n",
           "limits: [ { name: b, rate: 3/s },\n{ name: a, key: [u], rate: 1/s, mode: shadow, match: { r: "
           "\"äöü\U0001f600\" } } ]",
           125,
           "limits: [ { match: { r: \"äöü\U0001f600\" }, name: a, key: [u], rollout: { percent: 12.5, mode: shadow }, "
           "rate: 1/s "
           "}, { name: b, rate: 3/s } ]\n");
}

static void test_the_next_step_changes_the_line_and_it_goes(void **state)
{
    (void)state;
    static const char at_10[] = "limits:\n  - name: a\n    rollout: { percent: 10, rate: 2/s } # good so far\n"
                                "    rate: 1/s\n    key: [u]\n  - name: b\n    rate: 5/s\n    key: [u]\n";
    static const char goal[] = "limits: [ { name: a, key: [u], rate: 2/s }, { name: b, key: [u], rate: 6/s } ]\n";
    expect(at_10, goal, 500,
           "limits:\n  - name: a\n    rollout: { percent: 50, rate: 2/s } # good so far\n"
           "    rate: 1/s\n    key: [u]\n  - name: b\n    rollout: { percent: 50, rate: 6/s }\n    rate: 5/s\n    key: "
           "[u]\n");
    expect(at_10, goal, WEIR_ROLLOUT_ALL, goal);
    expect(at_10, "limits: [ { name: a, key: [u], rate: 1/s }, { name: b, key: [u], rate: 5/s } ]\n", 500,
           "limits:\n  - name: a\n    # good so far\n    rate: 1/s\n    key: [u]\n"
           "  - name: b\n    rate: 5/s\n    key: [u]\n");
    expect("limits: [ { name: a, key: [u], rollout: { percent: 1, rate: 2/s }, rate: 1/s } ]",
           "limits: [ { name: a, key: [u], rate: 1/s } ]", 500, "limits: [ { name: a, key: [u], rate: 1/s } ]");
    expect("limits: [ { name: a, key: [u], rate: 1/s, \"rollout\" : { percent: 1, rate: 2/s } } ]",
           "limits: [ { name: a, key: [u], rate: 1/s, burst: 3 } ]", 999,
           "limits: [ { name: a, key: [u], rate: 1/s, rollout: { percent: 99.9, burst: 3 } } ]");
    expect("limits: [ { name: a, key: [u], rate: 1/s } ]", "limits: [ { key: [ u ], name: a, rate: 1/s } ] # same", 10,
           "limits: [ { name: a, key: [u], rate: 1/s } ]");
}

static void test_what_a_line_says(void **state)
{
    (void)state;
    static const struct {
        const char *base, *target, *line;
    } cases[] = {
        { "rate: 1/s", "rate: 60/min", "rate: 60/min" }, /* as it is written, though it comes to much the same */
        { "rate: 1/s, burst: 5", "rate: 1/s", "burst: 1" },
        { "rate: 1/s, burst: 5", "rate: 7/s", "rate: 7/s, burst: 7" },
        { "rate: 1/s, burst: 5", "rate: 7/s, burst: 5", "rate: 7/s" },
        { "rate: 1/s", "rate: 0/s", "rate: 0/s" },
        { "rate: 1/s, burst: 5", "rate: 0/s", "rate: 0/s" },
        { "rate: 1/s, mode: shadow", "rate: 1/s", "mode: enforce" },
        { "rate: 1/s, mode: off", "rate: 2/s, burst: 3, mode: shadow", "rate: 2/s, burst: 3, mode: shadow" },
        { "rate: 5, algorithm: concurrency", "rate: 6, algorithm: concurrency", "rate: 6" },
        { "rate: 1/day, algorithm: fixed_window", "rate: 1/24hour, algorithm: fixed_window", "rate: 1/24hour" },
        { "rate: 1/day, algorithm: sliding_log", "rate: 9/month, algorithm: sliding_log", "rate: 9/month" },
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char base[300], target[300], made[300];
        (void)snprintf(base, sizeof(base), "limits: [ { name: a, key: [u], %s } ]", cases[i].base);
        (void)snprintf(target, sizeof(target), "limits: [ { name: a, key: [u], %s } ]", cases[i].target);
        (void)snprintf(made, sizeof(made), "limits: [ { name: a, key: [u], rollout: { percent: 10, %s }, %s } ]",
                       cases[i].line, cases[i].base);
        expect(base, target, 100, made);
    }
}

static void test_what_cannot_be_rolled_out_is_told_with_its_place(void **state)
{
    (void)state;
    static const struct {
        const char *base, *target;
        unsigned line;
        const char *text;
    } cases[] = {
        { "[ { name: a, key: [u], rate: 1/s } ]", "[]", 0,
          "limit \"a\" is gone, which is there now; a rollout changes" },
        { "[]", "\n- { name: a, key: [u], rate: 1/s }", 2, "limit \"a\" is not there now" },
        { "[ { name: a, key: [u], rate: 1/s } ]", "\n- { name: a, key: [v], rate: 1/s }", 2,
          "has another \"key\" than now" },
        { "[ { name: a, key: [u], rate: 1/s } ]", "\n- { name: a, key: [u], rate: 1/s, match: { r: x } }", 2,
          "has another \"match\" than now" },
        { "[ { name: a, key: [u], rate: 1/s, cost: 2 } ]", "\n- { name: a, key: [u], rate: 1/s }", 2,
          "has another \"cost\" than now" },
        { "[ { name: a, rate: 1/s } ]", "\n- { name: a, rate: 2/s }", 2, "has no key, and one counter has no share" },
        { "[ { name: a, key: [u], rate: 1/s } ]",
          "\n- { name: a, key: [u], rate: 1/s, rollout: { percent: 1, burst: 9 } }", 2, "has a rollout itself" },
        { "[]", "[]\nunmatched: refuse", 0, "\"unmatched\" is another than now" },
        { "[]", "\n- { name: a, rate: 1 }", 2, "must be COUNT/PERIOD" },
        { "[ { name: a, rate: 1 } ]", "[]", 0, "the rules as they are now are not understood here: line 1: rate" },
        { "\n- name: a\n  ? rate\n  : 1/s\n  key: [u]\n", "[ { name: a, key: [u], rate: 2/s } ]", 0,
          "written in a way that a program cannot put a rollout into" },
        { "\n- name: a\n  rate: 1/s\n  key: [u]\n  rollout:\n    percent: 5\n    burst: 7\n",
          "[ { name: a, key: [u], rate: 2/s } ]", 0, "written in a way that a program cannot put a rollout into" },
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char base[300], target[300];
        (void)snprintf(base, sizeof(base), "limits: %s\n", cases[i].base);
        (void)snprintf(target, sizeof(target), "limits: %s\n", cases[i].target);
        if (step(base, target, 100))
            fail_msg("%s is rolled out", target);
        assert_int_equal(faults.count, 1);
        assert_int_equal(faults.list[0].mark.line, cases[i].line);
        if (!strstr(faults.list[0].text, cases[i].text))
            fail_msg("\"%s\" is not in \"%s\"", cases[i].text, faults.list[0].text);
    }
    char *all = step("limits: [ { name: a, rate: 1/s } ]", "limits: [ { name: a, rate: 2/s }, { name: b, rate: 1/s } ]",
                     WEIR_ROLLOUT_ALL); /* not even for all keys: what comes whole is applied */
    assert_null(all);
    assert_int_equal(faults.count, 2);
}

static bool same_base(const char *one, const char *other)
{
    struct weir_config *file = file_of("");
    bool same = weir_rollout_same_base(file, fixture_slice(one), fixture_slice(other));
    weir_config_destroy(file);
    return same;
}

static void test_nothing_but_rollouts_is_the_same_base(void **state)
{
    (void)state;
    static const char a[] = "limits: [ { name: a, key: [u], rate: 1/s } ]";
    assert_true(
        same_base(a, "# more\nlimits:\n- key: [u]\n  name: a\n  rate: 1/s\n  rollout: { percent: 1, burst: 2 }"));
    assert_false(same_base(a, "limits: [ { name: a, key: [u], rate: 2/s } ]"));
    assert_false(same_base(a, "limits: [ { name: a, key: [u], rate: 1/s, burst: 1 } ]"));
    assert_false(same_base(a, "limits: [ { name: a, key: [u], rate: 1/s, mode: off } ]"));
    assert_false(same_base(a, "limits: []"));
    assert_false(same_base(a, "limits: [ { name: b, key: [u], rate: 1/s } ]"));
    assert_false(same_base(a, "unmatched: refuse\nlimits: [ { name: a, key: [u], rate: 1/s } ]"));
    assert_false(same_base(a, "limits: ["));
    assert_false(same_base(a, "nodes: [a]\nlimits: [ { name: a, key: [u], rate: 1/s } ]"));
    assert_true(same_base("nodes: [a, b]\nlimits: []", "limits: []\nnodes: [b, a]"));
}

static bool leads_to(const char *text, const char *target)
{
    struct weir_config *file = file_of("");
    bool leads = weir_rollout_leads_to(file, fixture_slice(text), fixture_slice(target));
    weir_config_destroy(file);
    return leads;
}

static void test_a_step_leads_to_what_it_gives(void **state)
{
    (void)state;
    static const char a[] =
        "limits: [ { name: a, key: [u], rate: 1/s, rollout: { percent: 1, rate: 2/s, burst: 3 } } ]";
    assert_true(leads_to(a, "limits: [ { name: a, key: [u], rate: 2/s, burst: 3 } ]"));
    assert_true(
        leads_to("limits: [ { name: a, key: [u], rate: 1/s } ]", "limits: [ { name: a, key: [u], rate: 2/s } ]"));
    assert_false(leads_to(a, "limits: [ { name: a, key: [u], rate: 1/s } ]"));
    assert_false(leads_to(a, "limits: [ { name: a, key: [u], rate: 2/s, burst: 3, mode: shadow } ]"));
    assert_false(leads_to(a, "limits: [ { name: b, key: [u], rate: 2/s, burst: 3 } ]"));
    assert_true(leads_to(a, "limits: ["));
}

/* ---- random ---- */

#define LIMITS_MAX 6

struct numbers {
    unsigned rate, burst, mode; /* burst 0: none */
};

static const char *const modes[] = { "enforce", "shadow", "off" };

static struct numbers numbers_of(struct test_random *rng)
{
    return (struct numbers){ (unsigned)test_random_below(rng, 4), (unsigned)test_random_below(rng, 3),
                             (unsigned)test_random_below(rng, 3) };
}

/* One limit, in one of many ways. The keys stand in any order. */
static void limit_write(struct test_random *rng, char *text, size_t *used, size_t index, int indent,
                        const struct numbers *numbers)
{
    const bool flow = test_random_below(rng, 2) == 0;
    const char *end = test_random_below(rng, 3) == 0 ? "\r\n" : "\n";
    char lines[5][100];
    size_t count = 0;
    (void)snprintf(lines[count++], 100, test_random_below(rng, 2) ? "name: l%zu" : "\"name\": \"l%zu\"", index);
    (void)snprintf(lines[count++], 100, "key: [ %s ]", index % 2 ? "ü" : "'u}'");
    (void)snprintf(lines[count++], 100, test_random_below(rng, 2) ? "rate: %u/min" : "'rate' : %u/min", numbers->rate);
    if (numbers->burst > 0)
        (void)snprintf(lines[count++], 100, "burst: %u", numbers->burst);
    if (numbers->mode > 0 || test_random_below(rng, 2))
        (void)snprintf(lines[count++], 100, "mode: %s", modes[numbers->mode]);
    for (size_t i = count - 1; i > 0; i--) {
        char swap[100];
        size_t j = (size_t)test_random_below(rng, i + 1);
        memcpy(swap, lines[i], 100);
        memcpy(lines[i], lines[j], 100);
        memcpy(lines[j], swap, 100);
    }
    fixture_add(text, used, "%*s- %s", indent, "", flow ? "{ " : "");
    for (size_t i = 0; i < count; i++) {
        fixture_add(text, used, "%s%s", lines[i], flow ? (i + 1 < count ? ", " : " }") : "");
        if (!flow && test_random_below(rng, 3) == 0)
            fixture_add(text, used, " # ä { rate: 1/s }");
        if (i + 1 == count)
            fixture_add(text, used, "%s", end);
        else if (!flow)
            fixture_add(text, used, "%s%*s", end, indent + 2, "");
        else if (test_random_below(rng, 4) == 0)
            fixture_add(text, used, "%s%*s", end, indent + 3, "");
    }
}

/* In order, or with the last one first. A list in block style has one indentation. */
static void set_write(struct test_random *rng, char *text, const struct numbers *numbers, size_t count, bool turned)
{
    size_t used = 0;
    const int indent = (int)test_random_below(rng, 4);
    fixture_add(text, &used, "%slimits:%s\n", test_random_below(rng, 2) ? "# rate: 1/s\n" : "", count ? "" : " []");
    for (size_t i = 0; i < count; i++) {
        const size_t index = turned ? count - 1 - i : i;
        limit_write(rng, text, &used, index, indent, &numbers[index]);
    }
}

/* Each limit has what it had, and its rollout what the target says. */
static void check(const char *made, uint32_t share, const struct numbers *from, const struct numbers *to, size_t count)
{
    struct weir_config *file = file_of(""), *is = NULL;
    assert_int_equal(weir_config_with_rules(file, fixture_slice(made), &is, &faults), 0);
    assert_int_equal(is->limits_count, count);
    for (size_t i = 0; i < count; i++) {
        const struct weir_config_limit *limit = &is->limits[i];
        const struct weir_limit_spec *spec = limit->rollout ? &limit->overrides[0].spec : &limit->spec;
        const uint64_t capacity = to[i].burst > 0 ? to[i].burst : to[i].rate;
        assert_int_equal(limit->spec.count, from[i].rate);
        assert_int_equal(limit->spec.burst, from[i].burst);
        assert_int_equal(limit->spec.mode, from[i].mode);
        assert_true(limit->rollout == 0 || limit->rollout == share);
        assert_int_equal(spec->count, to[i].rate);
        assert_int_equal(weir_limit_capacity(spec), to[i].rate == 0 ? 0 : capacity);
        assert_int_equal(spec->mode, to[i].mode);
    }
    weir_config_destroy(is);
    weir_config_destroy(file);
}

/* Some steps, each from what the one before has made, to other numbers in between. */
static void steps_run(struct test_random *rng)
{
    char base[4000], target[4000];
    struct numbers from[LIMITS_MAX], to[LIMITS_MAX];
    const size_t count = (size_t)test_random_below(rng, LIMITS_MAX + 1);
    for (size_t i = 0; i < count; i++) {
        from[i] = numbers_of(rng);
        to[i] = test_random_below(rng, 3) ? numbers_of(rng) : from[i];
    }
    set_write(rng, base, from, count, false);
    char *made = strdup(base);
    for (int i = 0; i < 3; i++) {
        const uint32_t share = 1 + (uint32_t)test_random_below(rng, WEIR_ROLLOUT_ALL - 1);
        for (size_t j = 0; j < count && i == 1; j++)
            to[j] = test_random_below(rng, 2) ? from[j] : numbers_of(rng);
        set_write(rng, target, to, count, i == 2);
        char *next = step(made, target, share);
        if (!next)
            fail_msg("%s\n to %s\n %u:%u: %s", made, target, faults.list[0].mark.line, faults.list[0].mark.column,
                     faults.list[0].text);
        check(next, share, from, to, count);
        assert_true(same_base(base, next));
        free(made);
        made = next;
    }
    free(made);
}

static void test_random_sets_however_they_are_written(void **state)
{
    (void)state;
    struct test_random rng = { test_random_seed() };
    const uint64_t runs = test_effort(300, 3000, 20000);
    for (uint64_t run = 0; run < runs; run++)
        steps_run(&rng);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_line_goes_before_the_rate_and_all_else_stays),
        cmocka_unit_test(test_a_name_of_many_bytes_before_it),
        cmocka_unit_test(test_the_next_step_changes_the_line_and_it_goes),
        cmocka_unit_test(test_what_a_line_says),
        cmocka_unit_test(test_what_cannot_be_rolled_out_is_told_with_its_place),
        cmocka_unit_test(test_nothing_but_rollouts_is_the_same_base),
        cmocka_unit_test(test_a_step_leads_to_what_it_gives),
        cmocka_unit_test(test_random_sets_however_they_are_written),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
