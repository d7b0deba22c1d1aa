/* SPDX-License-Identifier: Apache-2.0
 *
 * Levels of a limit: what a file may say of them; that no request meets one by itself; what they are when an exception
 * says so; and that a key whose level changes at random never gets more than a bucket with the largest rate and the
 * largest burst would give it. */
#include "random.h"
#include "rules/changes.h"
#include "rules_fixture.h"

#define SECOND UINT64_C(1000000000)

/* ---- in a file ---- */

static const char rules_text[] =
    "limits:\n"
    "  - name: api\n"
    "    key: [user]\n"
    "    rate: 10/s\n"
    "    burst: 5\n"
    "    rollout: { percent: 100, burst: 6 }\n"
    "    levels:\n"
    "      plus: { rate: 30/s, burst: 90 }\n"
    "      low: { rate: 2/s }\n"
    "      shy: { mode: shadow }\n"
    "      none: { mode: off }\n"
    "    overrides: [ { user: bob, burst: 7 } ]\n"
    "  - { name: idle, key: [user], rate: 3/s, mode: off, levels: { on: { mode: enforce } } }\n"
    "  - { name: all, rate: 1/s }\n";

static void test_each_is_the_limit_with_its_settings(void **state)
{
    (void)state;
    struct fixture f = fixture_make(rules_text);
    struct weir_mark mark;
    assert_int_equal(weir_rules_levels(f.rules, 0), 4);
    assert_int_equal(weir_rules_levels(f.rules, 1), 1);
    assert_int_equal(weir_rules_levels(f.rules, 2), 0);
    assert_int_equal(weir_rules_overrides(f.rules, 0), 6);
    const struct weir_rule *plus = weir_rules_level(f.rules, 0, "plus");
    assert_ptr_equal(plus, weir_rules_level_at(f.rules, 0, 0, &mark));
    assert_int_equal(mark.line, 8);
    assert_string_equal(plus->level, "plus");
    assert_string_equal(plus->name, "api");
    assert_int_equal(plus->whole.count, 30);
    assert_int_equal(plus->whole.burst, 90);
    assert_int_equal(weir_rules_level(f.rules, 0, "low")->whole.burst, 5); /* what it does not name is the limit's */
    assert_int_equal(weir_rules_level(f.rules, 0, "shy")->whole.mode, WEIR_MODE_SHADOW);
    assert_int_equal(weir_rules_level(f.rules, 1, "on")->whole.mode, WEIR_MODE_ENFORCE);
    assert_null(weir_rules_level(f.rules, 1, "plus"));
    assert_null(weir_rules_limit(f.rules, 0)->level);
    assert_null(weir_rules_rollout(f.rules, 0)->level);
    assert_null(weir_rules_rollout(f.rules, 1));
    fixture_free(&f);
}

static void test_no_request_meets_one_by_itself(void **state)
{
    (void)state;
    struct fixture f = fixture_make(rules_text);
    struct weir_explanation explanation;
    struct weir_fault fault;
    fixture_expect(&f, REQUEST("user", "ada"), "api(rollout) all");
    fixture_expect(&f, REQUEST("user", "bob"), "api(user=bob) all");
    fixture_expect(&f, NO_ATTRIBUTES, "all");
    struct fixture_request request = REQUEST("user", "bob");
    assert_int_equal(weir_rules_explain(f.rules, 0, request.attributes, request.count, &explanation, &fault), 0);
    assert_int_equal(explanation.rule->whole.burst, 7);
    fixture_free(&f);
}

static void test_what_is_wrong_is_told_at_its_place(void **state)
{
    (void)state;
    static const struct {
        const char *levels, *text;
    } cases[] = {
        { "{ plus: { rat: 5/s } }", "did you mean \"rate\"" },
        { "{ plus: {} }", "a level must have rate, burst or mode" },
        { "{ plus: 5/s }", "write { rate: 1000/min, burst: 200 }" },
        { "[ plus ]", "write { plus: { rate: 1000/min } }" },
        { "{ \"a b\": { burst: 1 } }", "must be named by 1 to 32 letters" },
        { "{ aaaaaaaaabbbbbbbbbbccccccccccdddd: { burst: 1 } }", "must be named by 1 to 32 letters" },
        { "{ plus: { burst: 0 } }", "burst" },
        { "{ plus: { percent: 5, burst: 1 } }", "unknown key \"percent\" in a level" },
        { "{ a: {burst: 1}, b: {burst: 1}, c: {burst: 1}, d: {burst: 1}, e: {burst: 1}, f: {burst: 1}, g: {burst: 1}, "
          "h: {burst: 1}, i: {burst: 1}, j: {burst: 1}, k: {burst: 1}, l: {burst: 1}, m: {burst: 1}, n: {burst: 1}, "
          "o: {burst: 1}, p: {burst: 1}, q: {burst: 1} }",
          "levels must be at most 16" },
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char text[800];
        struct weir_config *config = NULL;
        struct weir_config_fault fault;
        (void)snprintf(text, sizeof(text), "limits:\n  - { name: api, key: [user], rate: 1/s,\n      levels: %s }\n",
                       cases[i].levels);
        assert_int_not_equal(weir_config_parse(text, strlen(text), &config, &fault), 0);
        assert_int_equal(fault.mark.line, 3);
        if (!strstr(fault.text, cases[i].text))
            fail_msg("%s\n  gives %s", text, fault.text);
    }
}

static size_t warnings_of(const char *text, const char *part)
{
    struct weir_config *config = config_parsed(text);
    size_t count = 0;
    for (size_t i = 0; i < config->warnings_count; i++)
        count += strstr(config->warnings[i].text, part) != NULL;
    weir_config_destroy(config);
    return count;
}

static void test_warnings(void **state)
{
    (void)state;
    assert_int_equal(warnings_of(rules_text, "a burst of 90, more than one second"), 1);
    assert_int_equal(warnings_of(rules_text, "can never match"), 0); /* an exception may turn it on */
    assert_int_equal(warnings_of("limits: [ { name: a, key: [u], rate: 3/s, mode: off, levels: { x: { burst: 2 } } } ]",
                                 "can never match"),
                     1);
    assert_int_equal(
        warnings_of("limits: [ { name: a, key: [u], rate: 3/s, levels: { x: { mode: off } } } ]", "can never match"),
        0);
    assert_int_equal(
        warnings_of("limits: [ { name: a, key: [rate], rate: 3/s, levels: { x: { burst: 1 } } } ]", "is shadowed"), 0);
}

static void expect_change(const char *was_text, const char *is_text, const char *expected)
{
    struct weir_config *was = config_parsed(was_text), *is = config_parsed(is_text);
    struct weir_changes changes;
    assert_int_equal(weir_config_changes(was, 1, is, 2, &changes), 0);
    assert_string_equal(changes.text, expected);
    weir_config_destroy(was);
    weir_config_destroy(is);
}

#define LIMIT(rest) "limits: [ { name: a, key: [u], rate: 3/s, " rest " } ]"

static void test_a_change_of_them_is_told(void **state)
{
    (void)state;
    expect_change(LIMIT("levels: { x: { burst: 1 } }"), LIMIT("levels: { x: { burst: 2 } }"), "a (levels)");
    expect_change(LIMIT("burst: 3"), LIMIT("burst: 3, levels: { x: { burst: 2 } }"), "a (levels)");
    expect_change(LIMIT("levels: { x: { burst: 1 }, y: { burst: 2 } }"),
                  LIMIT("levels: { y: { burst: 2 }, x: { burst: 1 } }, overrides: [ { u: b, burst: 1 } ]"),
                  "a (overrides)");
    expect_change(LIMIT("levels: { x: { burst: 1 } }"),
                  LIMIT("levels: { y: { burst: 1 } }, overrides: [ { u: b, burst: 1 } ]"), "a (overrides, levels)");
}

/* ---- chosen by an exception ---- */

static void test_the_charge_goes_by_it(void **state)
{
    (void)state;
    struct fixture f = fixture_make(rules_text);
    struct fixture_request request = REQUEST("user", "bob");
    struct weir_match match;
    struct weir_fault fault;
    assert_int_equal(fixture_match(&f, &request, 2, &match), 0);
    const struct weir_charge before = match.charges[0];
    const struct weir_rule *plus = weir_rules_level(f.rules, 0, "plus"), *on = weir_rules_level(f.rules, 1, "on");
    assert_true(weir_match_level(&match, 0, plus));
    assert_int_equal(match.count, 2);
    assert_ptr_equal(match.rules[0], plus);
    assert_int_equal(match.charges[0].limit, plus->id);
    assert_int_not_equal(match.charges[0].limit, before.limit);
    assert_memory_equal(&match.charges[0].key, &before.key, sizeof before.key); /* the counter is the limit's */
    assert_int_equal(match.charges[0].cost, 2);
    assert_int_equal(match.offs_count, 1);
    assert_ptr_equal(match.offs[0], weir_rules_limit(f.rules, 1));
    assert_int_equal(weir_match_level_on(f.rules, request.attributes, request.count, 2, on, &match, &fault), 0);
    assert_int_equal(match.count, 3);
    assert_ptr_equal(match.rules[1], on); /* in the order of the file */
    assert_int_equal(match.charges[1].cost, 2);
    assert_string_equal(match.rules[2]->name, "all");
    assert_false(weir_match_level(&match, 0, weir_rules_level(f.rules, 0, "none")));
    assert_int_equal(match.count, 2);
    assert_ptr_equal(match.rules[0], on);
    assert_int_equal(match.charges[0].limit, on->id);
    fixture_free(&f);
}

static uint64_t remaining(const struct fixture *f, const struct weir_rule *level, uint64_t cost, uint64_t now_ns)
{
    struct fixture_request request = REQUEST("user", "ada");
    const struct weir_time time = { now_ns, now_ns };
    struct weir_match match;
    struct weir_decision decision;
    struct weir_verdict verdict;
    assert_int_equal(fixture_match(f, &request, cost, &match), 0);
    if (level)
        assert_true(weir_match_level(&match, 0, level));
    assert_int_equal(weir_limiter_decide(f->limiter, match.charges, 1, &time, 0, &decision, &verdict), 0);
    return verdict.remaining;
}

static void what_is_used_stays_used_to_and_fro(const char *text, uint64_t now_ns)
{
    struct fixture f = fixture_make(text);
    struct weir_limiter_stats stats;
    const struct weir_rule *plus = weir_rules_level(f.rules, 0, "plus"), *low = weir_rules_level(f.rules, 0, "low");
    assert_int_equal(remaining(&f, NULL, 10, now_ns), 0);
    assert_int_equal(remaining(&f, plus, 5, now_ns), 15); /* a raise is felt at once */
    for (int i = 0; i < 100; i++) {
        assert_int_equal(remaining(&f, NULL, 0, now_ns), 0);
        assert_int_equal(remaining(&f, low, 0, now_ns), 0);
        assert_int_equal(remaining(&f, plus, 0, now_ns), 15); /* and nothing is lost on the way */
    }
    weir_limiter_stats(f.limiter, &stats);
    assert_int_equal(stats.clock_jumps, 0);
    fixture_free(&f);
}

static void test_what_is_used_stays_used_to_and_fro(void **state)
{
    (void)state;
    static const char *const algorithms[] = { "token_bucket", "fixed_window", "sliding_counter", "sliding_log" };
    static const char *const changes[] = { "keep", "proportional", "reset" }; /* it is no reload */
    for (size_t i = 0; i < 4; i++)
        for (size_t j = 0; j < 3; j++) {
            char text[300];
            (void)snprintf(text, sizeof(text),
                           "limits: [ { name: a, key: [user], algorithm: %s, on_change: %s, rate: 10/hour, levels: { "
                           "plus: { rate: 30/hour }, low: { rate: 4/hour } } } ]",
                           algorithms[i], changes[j]);
            what_is_used_stays_used_to_and_fro(text, 1000 * 3600 * SECOND);
        }
}

/* ---- never more than the largest ---- */

#define KEYS 8

struct run {
    struct test_random rng;
    struct fixture f;
    uint64_t seed, now_ns, rate, burst; /* the largest */
    uint64_t left[KEYS];                /* of each key, what a bucket of these has left, in units times a second */
    size_t level[KEYS];                 /* 0: none */
};

static void make(struct run *run)
{
    const uint64_t burst = 2 + test_random_below(&run->rng, 30), rate = 1 + test_random_below(&run->rng, 40);
    const uint64_t more = 1 + test_random_below(&run->rng, 40);
    char text[300];
    run->rate = more > rate ? more : rate;
    run->burst = burst + test_random_below(&run->rng, 20);
    (void)snprintf(text, sizeof(text),
                   "limits: [ { name: a, key: [u], rate: %llu/s, burst: %llu, levels: { plus: { rate: %llu/s, burst: "
                   "%llu }, low: { rate: 1/s }, brief: { burst: %llu } } } ]",
                   (unsigned long long)rate, (unsigned long long)burst, (unsigned long long)more,
                   (unsigned long long)run->burst, 1 + (unsigned long long)test_random_below(&run->rng, burst));
    run->f = fixture_make(text);
    for (int i = 0; i < KEYS; i++)
        run->left[i] = run->burst * SECOND;
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

static void ask(struct run *run)
{
    const uint64_t key = test_random_below(&run->rng, KEYS), cost = 1 + test_random_below(&run->rng, 2);
    const struct weir_time time = { run->now_ns, run->now_ns };
    const char user[2] = { (char)('a' + key), '\0' };
    struct fixture_request request = REQUEST("u", user);
    struct weir_match match;
    struct weir_decision decision;
    struct weir_verdict verdict;
    if (test_random_below(&run->rng, 4) == 0)
        run->level[key] = test_random_below(&run->rng, 4);
    assert_int_equal(fixture_match(&run->f, &request, cost, &match), 0);
    if (run->level[key])
        assert_true(weir_match_level(&match, 0, weir_rules_level_at(run->f.rules, 0, run->level[key] - 1, NULL)));
    assert_int_equal(weir_limiter_decide(run->f.limiter, match.charges, 1, &time, 0, &decision, &verdict), 0);
    assert_int_equal(verdict.capacity, weir_limit_capacity(&match.rules[0]->limit.spec));
    if (!decision
             .admitted) { /* and none owes more than the largest burst, which comes back at the smallest rate, 1/s */
        if (decision.retry_after_ns != WEIR_NEVER)
            assert_in_range(decision.retry_after_ns, 1, (run->burst + 2) * (SECOND + SECOND / 1000) + 1);
        return;
    }
    if (run->left[key] < cost * SECOND)
        fail_msg("seed %llu: key %s got more than %llu/s with a burst of %llu gives", (unsigned long long)run->seed,
                 user, (unsigned long long)run->rate, (unsigned long long)run->burst);
    run->left[key] -= cost * SECOND;
}

static void run_levels(uint64_t seed)
{
    struct run run = { .rng = { seed }, .seed = seed, .now_ns = 1000 * SECOND };
    make(&run);
    for (int i = 0; i < 3000; i++) {
        wait_for(&run, test_random_below(&run.rng, SECOND / 50));
        ask(&run);
        if (test_random_below(&run.rng, 200) == 0) {
            const struct weir_time time = { run.now_ns, run.now_ns };
            (void)weir_limiter_maintain(run.f.limiter, &time, 64);
        }
    }
    fixture_free(&run.f);
}

static void test_no_key_gets_more_than_the_largest_bucket_gives(void **state)
{
    (void)state;
    const uint64_t seed = test_random_seed(), runs = test_effort(30, 300, 3000);
    for (uint64_t i = 0; i < runs; i++)
        run_levels(seed + i);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_is_the_limit_with_its_settings),
        cmocka_unit_test(test_no_request_meets_one_by_itself),
        cmocka_unit_test(test_what_is_wrong_is_told_at_its_place),
        cmocka_unit_test(test_warnings),
        cmocka_unit_test(test_a_change_of_them_is_told),
        cmocka_unit_test(test_the_charge_goes_by_it),
        cmocka_unit_test(test_what_is_used_stays_used_to_and_fro),
        cmocka_unit_test(test_no_key_gets_more_than_the_largest_bucket_gives),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
