/* SPDX-License-Identifier: Apache-2.0
 *
 * A reload is a new complete set or a fault with nothing changed; keys keep their state. */
#include <pthread.h>
#include <stdatomic.h>

#include "rules_fixture.h"

#define SECOND UINT64_C(1000000000)

static struct weir_rules *create(struct weir_limiter *limiter, const char *text)
{
    struct weir_config *config = config_parsed(text);
    struct weir_rules *rules = NULL;
    struct weir_config_fault fault;
    if (weir_rules_create(limiter, config, &rules, &fault) != 0)
        fail_msg("%u:%u: %s", fault.mark.line, fault.mark.column, fault.text);
    weir_config_destroy(config); /* the set does not need it any more */
    return rules;
}

static struct weir_limiter *limiter_make(void)
{
    struct weir_limiter_options options = { .memory_max = (size_t)1 << 20 };
    struct weir_limiter *limiter = NULL;
    assert_int_equal(weir_limiter_create(&options, &limiter, NULL), 0);
    return limiter;
}

/* The verdict of the first limit that the request meets, at a frozen time. */
static struct weir_verdict decide(struct weir_limiter *limiter, const struct weir_rules *rules,
                                  struct fixture_request request, uint64_t cost)
{
    struct weir_time time = { 1000 * SECOND, 0 };
    struct weir_match match;
    struct weir_decision decision;
    struct weir_verdict verdicts[WEIR_CHARGES_MAX];
    assert_int_equal(weir_rules_match(rules, request.attributes, request.count, cost, &match, NULL), 0);
    assert_true(match.count >= 1);
    assert_int_equal(weir_limiter_decide(limiter, match.charges, match.count, &time, 0, &decision, verdicts), 0);
    return verdicts[0];
}

static void test_a_new_set_takes_over_and_keys_keep_their_state(void **state)
{
    (void)state;
    struct weir_limiter *limiter = limiter_make();
    struct weir_rules *old = create(limiter, "limits: [{ name: a, key: [u], rate: 10/hour }]");
    assert_int_equal(decide(limiter, old, REQUEST("u", "x"), 4).remaining, 6);
    struct weir_rules *new = create(limiter, "limits: [{ name: b, rate: 5/s }, { name: a, key: [u], rate: 8/hour }]");
    assert_int_equal(weir_rules_count(new), 2);
    assert_string_equal(weir_rules_limit(new, 1)->name, "a");
    /* Whoever still holds the old set decides on; the state is one. */
    assert_true(decide(limiter, old, REQUEST("u", "y"), 1).admitted);
    struct weir_match match;
    struct weir_time time = { 1000 * SECOND, 0 };
    struct weir_decision decision;
    struct weir_verdict verdicts[2];
    struct fixture_request request = REQUEST("u", "x");
    assert_int_equal(weir_rules_match(new, request.attributes, 1, 0, &match, NULL), 0);
    assert_int_equal(match.count, 2);
    assert_int_equal(weir_limiter_decide(limiter, match.charges, 2, &time, 0, &decision, verdicts), 0);
    assert_int_equal(verdicts[1].remaining, 4); /* keep: 8 - 4 used */
    weir_rules_destroy(old);
    weir_rules_destroy(new);
    weir_limiter_destroy(limiter);
}

static void test_a_wrong_set_changes_nothing(void **state)
{
    (void)state;
    struct weir_limiter *limiter = limiter_make();
    struct weir_rules *rules = create(limiter, "limits: [{ name: a, key: [u], rate: 10/hour }]");
    assert_int_equal(decide(limiter, rules, REQUEST("u", "x"), 4).remaining, 6);
    char text[20000] = "limits:\n  - { name: a, key: [u], rate: 9/hour }\n";
    size_t used = strlen(text);
    for (int i = 0; i < 70; i++) /* more patterns with inner text than there may be: found while compiling */
        used += (size_t)snprintf(text + used, sizeof(text) - used,
                                 "  - { name: l%d, match: { r: \"*%d*\" }, rate: 1/s }\n", i, i + 100);
    struct weir_config *config = config_parsed(text);
    struct weir_rules *wrong = (void *)&wrong;
    struct weir_config_fault fault;
    for (int i = 0; i < 3; i++)
        assert_int_equal(weir_rules_create(limiter, config, &wrong, &fault), WEIR_ELIMIT);
    assert_ptr_equal(wrong, (void *)&wrong);
    assert_true(fault.mark.line > 60);
    weir_config_destroy(config);
    struct weir_verdict verdict = decide(limiter, rules, REQUEST("u", "x"), 0);
    assert_int_equal(verdict.remaining, 6);
    assert_int_equal(verdict.capacity, 10);
    weir_rules_destroy(rules);
    weir_limiter_destroy(limiter);
}

static void test_an_override_and_its_limit_share_the_counter(void **state)
{
    (void)state;
    struct weir_limiter *limiter = limiter_make();
    struct weir_rules *plain = create(limiter, "limits: [{ name: a, key: [u], rate: 10/hour }]");
    assert_int_equal(decide(limiter, plain, REQUEST("u", "x"), 4).remaining, 6);
    struct weir_rules *with = create(limiter, "limits: [{ name: a, key: [u], rate: 10/hour,\n"
                                              "  overrides: [{ u: x, rate: 20/hour }] }]");
    struct weir_verdict verdict = decide(limiter, with, REQUEST("u", "x"), 0);
    assert_int_equal(verdict.capacity, 20);
    assert_in_range(verdict.remaining, 6, 16); /* at least what was left, at most 20 - 4 used */
    assert_int_equal(decide(limiter, with, REQUEST("u", "y"), 0).capacity, 10);
    weir_rules_destroy(plain);
    weir_rules_destroy(with);
    weir_limiter_destroy(limiter);
}

struct shared {
    const struct weir_rules *rules;
    atomic_int failures;
};

static void *match_many(void *argument)
{
    struct shared *shared = argument;
    for (int i = 0; i < 20000; i++) {
        char user[16];
        struct weir_match match;
        snprintf(user, sizeof(user), "u%d", i % 100);
        struct fixture_request request = REQUEST("route", "/api/x", "user", user);
        int error = weir_rules_match(shared->rules, request.attributes, request.count, 1, &match, NULL);
        bool special = i % 100 == 7;
        if (error || match.count != 1 || (match.rules[0]->variant[0] != '\0') != special)
            atomic_fetch_add(&shared->failures, 1);
    }
    return NULL;
}

static void test_threads_share_a_set(void **state)
{
    (void)state;
    struct weir_limiter *limiter = limiter_make();
    struct weir_rules *rules = create(limiter, "limits: [{ name: a, match: { route: /api/* }, key: [user], rate: 1/s,\n"
                                               "  overrides: [{ user: u7, burst: 2 }] }]");
    struct shared shared = { .rules = rules };
    pthread_t threads[4];
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, match_many, &shared), 0);
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    assert_int_equal(atomic_load(&shared.failures), 0);
    weir_rules_destroy(rules);
    weir_limiter_destroy(limiter);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_new_set_takes_over_and_keys_keep_their_state),
        cmocka_unit_test(test_a_wrong_set_changes_nothing),
        cmocka_unit_test(test_an_override_and_its_limit_share_the_counter),
        cmocka_unit_test(test_threads_share_a_set),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
