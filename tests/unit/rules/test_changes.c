/* SPDX-License-Identifier: Apache-2.0
 *
 * What a reload says of the limits: each kind of change in its words, within the text's bound, and since when each
 * limit has been as it is. */
#include "rules/changes.h"

#include "rules_fixture.h"

#define NODES "cluster: { nodes: [ a, b ] }\n"
#define ENGINE                                                                                                         \
    "cluster_secret: 000102030405060708090a0b0c0d0e0f\n"                                                               \
    "engine: { redis: { servers: [ 127.0.0.1:6379 ] } }\n"
#define BEFORE_NS 1000
#define NOW_NS 2000

static void expect(const char *before, const char *now, size_t count, const char *text, const char *alone)
{
    struct weir_config *old = config_parsed(before), *new = config_parsed(now);
    struct weir_changes changes;
    assert_int_equal(weir_config_changes(old, BEFORE_NS, new, NOW_NS, &changes), 0);
    assert_string_equal(changes.text, text);
    assert_string_equal(changes.alone, alone);
    assert_int_equal(changes.count, count);
    weir_config_destroy(old);
    weir_config_destroy(new);
}

static void of_one(const char *before, const char *now, const char *text)
{
    char old[512], new[512];
    (void)snprintf(old, sizeof(old), "limits: [ { name: x, key: [u], %s } ]\n", before);
    (void)snprintf(new, sizeof(new), "limits: [ { name: x, key: [u], %s } ]\n", now);
    expect(old, new, text[0] ? 1 : 0, text, "");
    expect(old, old, 0, "", "");
}

static void test_each_change_has_its_words(void **state)
{
    (void)state;
    of_one("rate: 5/s", "\"rate\":   5/s # the same\n", "");
    of_one("rate: 100/min", "rate: 200/min", "x 100/min -> 200/min");
    of_one("rate: 100/min", "rate: 100/min, burst: 7", "x 100/min -> 100/min burst 7");
    of_one("rate: 9/s, mode: shadow", "rate: 9/s, mode: off", "x 9/s in shadow -> 9/s off");
    of_one("rate: 9/min, algorithm: sliding_log", "rate: 9/min", "x sliding_log 9/min -> token_bucket 9/min");
    of_one("rate: 2, algorithm: concurrency", "rate: 3, algorithm: concurrency", "x 2 at once -> 3 at once");
    of_one("rate: 2, algorithm: concurrency", "rate: 2, algorithm: concurrency, lease: 9s", "x (other settings)");
    of_one("rate: 9/s", "rate: 9/s, overrides: [ { u: a, rate: 8/s } ]", "x (overrides)");
    of_one("rate: 9/s, overrides: [ { u: a, rate: 8/s } ]", "rate: 7/s, overrides: [ { u: a, mode: off } ]",
           "x 9/s -> 7/s (overrides)");
    of_one("rate: 9/s, overrides: [ { u: a, mode: off } ]", "rate: 9/s, overrides: [ { u: b, mode: off } ]",
           "x (overrides)");
#define ROLLOUT(percent) "rate: 9/s, rollout: { percent: " percent ", rate: 8/s, burst: 7 }"
    of_one("rate: 9/s", ROLLOUT("10"), "x 8/s burst 7 for 10 % of its keys");
    of_one(ROLLOUT("10"), ROLLOUT("12.5"), "x 8/s burst 7 for 10 % -> 12.5 % of its keys");
    of_one(ROLLOUT("50"), "rate: 8/s, burst: 7", "x 9/s -> 8/s burst 7 (the rollout to 50 % of its keys ended)");
    of_one(ROLLOUT("50"), "rate: 9/s", "x (the rollout to 50 % of its keys ended)");
    of_one("rate: 9/s, rollout: { percent: 5, mode: shadow }", "rate: 9/s, rollout: { percent: 5, mode: off }",
           "x 9/s off for 5 % -> 5 % of its keys");
    of_one("rate: 9/s, overrides: [ { u: a, mode: off } ]", "rate: 9/s, rollout: { percent: 5, burst: 1 }",
           "x 9/s burst 1 for 5 % of its keys (overrides)");
}

static void test_sharing_and_what_nodes_do_not_tell_each_other(void **state)
{
    (void)state;
    expect(NODES ENGINE "limits: [ { name: x, rate: 9/s }, { name: y, rate: 9/s, sharing: split } ]",
           NODES ENGINE "limits: [ { name: y, rate: 8/s, sharing: split }, { name: x, rate: 8/s } ]", 2,
           "y 9/s -> 8/s, x 9/s -> 8/s", "y");
    expect(NODES ENGINE "limits: [ { name: x, rate: 9/s } ]", NODES ENGINE "limits: [ { name: y, rate: 9/s } ]", 2,
           "y came (9/s), x went (9/s)", "y, x");
    expect(NODES ENGINE "limits: [ { name: x, rate: 9/s } ]",
           NODES ENGINE "limits: [ { name: x, rate: 9/s, sharing: split } ]", 1, "x (sharing exact -> split)", "x");
    expect(NODES "limits: [ { name: x, rate: 9/s } ]", NODES "limits: [ { name: x, rate: 8/s } ]", 1, "x 9/s -> 8/s",
           "x");
    expect("limits: []", "limits: []", 0, "", "");
}

/* Names as long as they may be: `count` limits of them. */
static char *long_text(size_t count, const char *rate)
{
    char *text = fixture_alloc(64 + count * 256);
    size_t used = 0;
    fixture_add(text, &used, NODES "limits:\n");
    for (size_t i = 0; i < count; i++)
        fixture_add(text, &used, "  - { name: %0128zu, match: { u: u%zu }, rate: %s }\n", i, i, rate);
    return text;
}

static void test_the_text_is_bounded_and_counts_what_it_leaves_out(void **state)
{
    (void)state;
    for (size_t count = 1; count <= 200; count += count < 15 ? 1 : 45) {
        char *before = long_text(count, "999999999/365day"), *now = long_text(count, "1/s");
        struct weir_config *old = config_parsed(before), *new = config_parsed(now);
        struct weir_changes changes;
        char more[32];
        assert_int_equal(weir_config_changes(old, BEFORE_NS, new, NOW_NS, &changes), 0);
        assert_int_equal(changes.count, count);
        size_t named = 0;
        for (const char *at = changes.text; (at = strstr(at, "->")); at += 2)
            named++;
        assert_in_range(named, 1, count < WEIR_CHANGES_NAMED_MAX ? count : WEIR_CHANGES_NAMED_MAX);
        (void)snprintf(more, sizeof(more), " and %zu more", count - named);
        assert_int_equal(strstr(changes.text, more) != NULL, count > named);
        (void)snprintf(more, sizeof(more), " and %zu more", count - 1);
        assert_int_equal(strstr(changes.alone, more) != NULL, count > 1);
        weir_config_destroy(old);
        weir_config_destroy(new);
        free(before);
        free(now);
    }
}

static void test_a_limit_keeps_since_when_it_is_as_it_is(void **state)
{
    (void)state;
    struct weir_config *first = config_parsed("limits: [ { name: x, rate: 9/s }, { name: y, rate: 8/min } ]");
    struct weir_config *second = config_parsed("limits: [ { name: y, rate: 7/min }, { name: x, rate: 9/s } ]");
    struct weir_config *third = config_parsed("limits: [ { name: x, rate: 9/s }, { name: y, rate: 7/min } ]");
    struct weir_changes changes;
    assert_int_equal(weir_config_changes(first, BEFORE_NS, second, NOW_NS, &changes), 0);
    assert_int_equal(second->limits[0].since_wall_ns, NOW_NS);
    assert_int_equal(second->limits[1].since_wall_ns, BEFORE_NS);
    assert_int_equal(weir_config_changes(second, NOW_NS, third, NOW_NS + 1, &changes), 0);
    assert_int_equal(changes.count, 0);
    assert_int_equal(third->limits[0].since_wall_ns, BEFORE_NS);
    assert_int_equal(third->limits[1].since_wall_ns, NOW_NS);
    weir_config_destroy(first);
    weir_config_destroy(second);
    weir_config_destroy(third);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_change_has_its_words),
        cmocka_unit_test(test_sharing_and_what_nodes_do_not_tell_each_other),
        cmocka_unit_test(test_the_text_is_bounded_and_counts_what_it_leaves_out),
        cmocka_unit_test(test_a_limit_keeps_since_when_it_is_as_it_is),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
