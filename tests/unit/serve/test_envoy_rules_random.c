/* SPDX-License-Identifier: Apache-2.0
 *
 * envoyproxy/ratelimit's files as limits of weir against a model of that service, on random files and questions: which
 * descriptor decides, in which counter, in which window, and with what left. */
#include "envoy_rules_model.h"

static struct test_random rng;
static struct model model;

#define QUESTIONS 250

static void entries_make(struct fixture_entry *entries, size_t *ret_count)
{
    *ret_count = 1 + test_random_below(&rng, 5);
    int list = model.first;
    for (size_t i = 0; i < *ret_count; i++) {
        model_key(&rng, entries[i].key);
        model_value(&rng, entries[i].value, false);
        /* Half of them go a way that there is, as far as it goes. */
        int at = list;
        for (uint64_t skip = test_random_below(&rng, 5); at >= 0 && skip > 0 && model.nodes[at].next >= 0; skip--)
            at = model.nodes[at].next;
        if (at >= 0 && test_random_below(&rng, 8)) {
            strcpy(entries[i].key, model.nodes[at].key);
            if (model.nodes[at].value[0] && !strchr(model.nodes[at].value, '*') && test_random_below(&rng, 4))
                strcpy(entries[i].value, model.nodes[at].value);
        }
        if (test_random_below(&rng, 20) == 0)
            entries[i].value[0] = '\0';
        bool pattern;
        int found = list >= 0 ? model_step(&model, list, &entries[i], &pattern) : -1;
        list = found >= 0 ? model.nodes[found].first : -1;
        if (list < 0 && test_random_below(&rng, 4))
            *ret_count = i + 1;
    }
}

/* The window of `unit` ends in time for some questions. */
static uint64_t step_seconds(void)
{
    static const uint64_t steps[] = { 0, 0, 0, 0, 1, 30, 60, 1800, 40000, 86400, 300000, 900000, 9000000 };
    return steps[test_random_below(&rng, sizeof(steps) / sizeof(steps[0]))];
}

static void compare(const struct served *served, struct weir_time *time, size_t *met)
{
    struct fixture_entry entries[FIXTURE_ENTRIES_MAX];
    static struct weir_match match;
    struct weir_decision decision;
    struct weir_verdict verdict;
    char name[200];
    size_t count;
    uint64_t left = 0;
    entries_make(entries, &count);
    const int number = model_find(&model, entries, count, name);
    const struct model_node *node = number < 0 ? NULL : &model.nodes[number];
    /* More hits than the limit has are never admitted here, and so not counted. */
    const uint64_t hits = node && !node->unlimited && node->requests > 0 ? 1 + test_random_below(&rng, node->requests)
                                                                         : 1;
    ask(served, "d", entries, count, hits, &match);
    assert_int_equal(match.met, node != NULL);
    assert_int_equal(match.count, node && !node->unlimited);
    *met += match.count;
    if (!node || node->unlimited)
        return;
    const struct weir_envoy_rules_origin *origin = &served->from->origins[match.rules[0]->index];
    assert_int_equal(origin->mark.line, node->line);
    assert_int_equal(weir_limiter_decide(served->limiter, match.charges, 1, time, 0, &decision, &verdict), 0);
    const bool passes = model_hit(&model, number, name, hits, time->wall_ns / WEIR_NS_PER_SECOND, &left);
    assert_int_equal(verdict.admitted, passes);
    assert_int_equal(verdict.shadow && !passes, node->shadow && !passes);
    if (passes)
        assert_int_equal(verdict.remaining, left);
}

static void as_the_model(void **state)
{
    (void)state;
    size_t met = 0;
    const uint64_t sets = test_effort(30, 150, 3000);
    for (uint64_t set = 0; set < sets; set++) {
        model_make(&model, &rng);
        struct served served = serve(model.text, true);
        struct weir_time time = { 1000 * WEIR_NS_PER_SECOND, UINT64_C(1700000000) * WEIR_NS_PER_SECOND };
        for (int i = 0; i < QUESTIONS; i++) {
            const uint64_t seconds = step_seconds();
            time.now_ns += seconds * WEIR_NS_PER_SECOND;
            time.wall_ns += seconds * WEIR_NS_PER_SECOND;
            compare(&served, &time, &met);
        }
        end(&served);
    }
    assert_true(met > sets * QUESTIONS / 10);
}

int main(void)
{
    rng.state = test_random_seed();
    const struct CMUnitTest tests[] = { cmocka_unit_test(as_the_model) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
