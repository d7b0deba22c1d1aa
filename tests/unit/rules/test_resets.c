/* SPDX-License-Identifier: Apache-2.0
 *
 * Keys that were reset: where they are counted, on this node and on all; and that a key which is reset at random never
 * gets more than a fresh counter for each reset. */
#include "random.h"
#include "rules_fixture.h"

#define SECOND UINT64_C(1000000000)

static const char rules_text[] =
    "cluster: { nodes: [ a ] }\n"
    "cluster_secret: 000102030405060708090a0b0c0d0e0f\n"
    "engine: { redis: { servers: [ \"127.0.0.1:1\" ] } }\n"
    "limits:\n"
    "  - { name: api, key: [user], rate: 10/hour, sharing: split, levels: { plus: { rate: 30/hour, burst: 30 } } }\n"
    "  - { name: all, key: [user], rate: 10/hour, sharing: exact, on_failure: closed }\n"
    "  - { name: spread, key: [user, ip], algorithm: fixed_window, spread: 20min, rate: 10/hour, sharing: split }\n";

static struct weir_match match_of(const struct fixture *f, const char *user)
{
    struct weir_match match;
    const struct fixture_request request = REQUEST("user", user, "ip", "192.0.2.1");
    assert_int_equal(fixture_match(f, &request, 1, &match), 0);
    assert_int_equal(match.count, 3);
    return match;
}

static void test_another_counter_is_charged(void **state)
{
    (void)state;
    struct fixture f = fixture_make(rules_text);
    const struct weir_match before = match_of(&f, "ada");
    struct weir_match match = before, other = before, again = before;
    assert_true(before.rules[1]->limit.remote && !before.rules[0]->limit.remote);
    assert_true(before.charges[2].key.phase != 0);
    for (size_t i = 0; i < 3; i++) {
        weir_match_reset(&match, i, 77);
        weir_match_reset(&other, i, 78);
        weir_match_reset(&again, i, 77);
    }
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(match.charges[i].limit, before.charges[i].limit);
        assert_int_equal(match.charges[i].cost, before.charges[i].cost);
        if (i == 1)
            continue;
        assert_int_not_equal(match.charges[i].key.hash, before.charges[i].key.hash);
        assert_int_not_equal(match.charges[i].key.hash, other.charges[i].key.hash);
        assert_int_equal(match.charges[i].key.hash, again.charges[i].key.hash);
        assert_int_equal(match.charges[i].key.phase, before.charges[i].key.phase); /* windows begin when they did */
    }
    const struct weir_remote_key *key = &match.remote_keys[1], *former = &before.remote_keys[1];
    assert_int_not_equal(match.charges[0].key.hash, match.charges[2].key.hash); /* it is still of its key */
    assert_memory_equal(key, &again.remote_keys[1], sizeof *key);
    for (int i = 0; i < 2; i++) {
        assert_int_not_equal(key->id[i], former->id[i]);
        assert_int_not_equal(key->id[i], other.remote_keys[1].id[i]);
        assert_int_not_equal(key->id[i], key->id[!i]);
    }
    assert_int_equal(key->tag, former->tag); /* it lies on the same server */
    assert_int_equal(key->phase, former->phase);
    weir_match_reset(&match, 1, 78); /* it is of the key as it is counted without resets: nobody resets twice */
    assert_memory_not_equal(&match.remote_keys[1], &other.remote_keys[1], sizeof *key);
    fixture_free(&f);
}

/* Another process, with the same secret. */
static void test_each_node_counts_at_the_same(void **state)
{
    (void)state;
    struct fixture a = fixture_make(rules_text), b = fixture_make(rules_text);
    struct weir_match here = match_of(&a, "ada"), there = match_of(&b, "ada"), bob = match_of(&b, "bob");
    weir_match_reset(&here, 1, 77);
    weir_match_reset(&there, 1, 77);
    weir_match_reset(&bob, 1, 77);
    assert_memory_equal(&here.remote_keys[1], &there.remote_keys[1], sizeof here.remote_keys[1]);
    assert_int_not_equal(here.remote_keys[1].id[0], bob.remote_keys[1].id[0]);
    assert_int_not_equal(here.remote_keys[1].id[1], bob.remote_keys[1].id[1]);
    /* A build that mixed otherwise could not share with this one. */
    assert_int_equal(here.remote_keys[1].id[0], UINT64_C(0x854cd441101051fb));
    assert_int_equal(here.remote_keys[1].id[1], UINT64_C(0x77fcdb8c4e04afad));
    fixture_free(&b);
    fixture_free(&a);
}

static bool is_admitted(const struct fixture *f, uint64_t mark, bool plus, uint64_t now_ns)
{
    const struct weir_time time = { now_ns, now_ns };
    struct weir_match match = match_of(f, "ada");
    struct weir_decision decision;
    struct weir_verdict verdict;
    if (mark > 0)
        weir_match_reset(&match, 0, mark);
    if (plus)
        assert_true(weir_match_level(&match, 0, weir_rules_level(f->rules, 0, "plus")));
    assert_int_equal(weir_limiter_decide(f->limiter, match.charges, 1, &time, 0, &decision, &verdict), 0);
    return decision.admitted;
}

static uint64_t admitted(const struct fixture *f, uint64_t mark, bool plus, uint64_t now_ns)
{
    uint64_t count = 0;
    while (is_admitted(f, mark, plus, now_ns))
        count++;
    return count;
}

static void test_it_is_fresh_and_the_old_one_is_as_it_was(void **state)
{
    (void)state;
    struct fixture f = fixture_make(rules_text);
    const uint64_t now_ns = 1000 * SECOND;
    assert_int_equal(admitted(&f, 0, false, now_ns), 10);
    assert_int_equal(admitted(&f, 5, false, now_ns), 10);
    assert_int_equal(admitted(&f, 5, true, now_ns), 20); /* a level uses the new counter, too */
    assert_int_equal(admitted(&f, 6, true, now_ns), 30);
    assert_int_equal(admitted(&f, 0, false, now_ns), 0);
    assert_int_equal(admitted(&f, 0, false, now_ns + 360 * SECOND), 1);
    fixture_free(&f);
}

/* Each reset gives at most what a fresh bucket gives from then on; nodes that have not heard of it still use the one
 * before. */
static void test_no_more_than_a_fresh_counter_for_each_reset(void **state)
{
    (void)state;
    struct test_random random = { test_random_seed() };
    struct fixture f = fixture_make(rules_text);
    const uint64_t begin_ns = 1000 * SECOND;
    uint64_t now_ns = begin_ns, marks[30] = { 0 }, since_ns[30] = { begin_ns }, counts[30] = { 0 };
    size_t newest = 0;
    for (int i = 0; i < 3000; i++) {
        now_ns += test_random_below(&random, 60 * SECOND);
        if (newest < 29 && test_random_below(&random, 100) == 0) {
            marks[++newest] = test_random_u64(&random) | 2;
            since_ns[newest] = now_ns;
        }
        const size_t late = newest > 0 && test_random_below(&random, 4) == 0; /* a node that follows later */
        counts[newest - late] += is_admitted(&f, marks[newest - late], false, now_ns);
    }
    for (size_t i = 0; i <= newest; i++)
        assert_true(counts[i] <= 10 + (now_ns - since_ns[i]) / (360 * SECOND));
    assert_true(newest > 3 && counts[1] > 0);
    fixture_free(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_another_counter_is_charged),
        cmocka_unit_test(test_each_node_counts_at_the_same),
        cmocka_unit_test(test_it_is_fresh_and_the_old_one_is_as_it_was),
        cmocka_unit_test(test_no_more_than_a_fresh_counter_for_each_reset),
    };
    return cmocka_run_group_tests_name("resets", tests, NULL, NULL);
}
