/* SPDX-License-Identifier: Apache-2.0
 *
 * Shared limits, compiled and matched: what the limiter keeps, what an engine elsewhere keeps, which share is this
 * node's, and under which key. */
#include "core/share/split.h"
#include "random.h"
#include "rules_fixture.h"

#define ENGINE "engine: { redis: { servers: [ 127.0.0.1:6379 ] } }\n"
#define NODES(node)                                                                                                    \
    "cluster: { node: " node ", nodes: [ { name: a, gossip: 127.0.0.1:7001 }, { name: b, gossip: 127.0.0.1:7002 }, "   \
    "{ name: c, gossip: 127.0.0.1:7003 } ] }\n"
#define SECRET "cluster_secret: 000102030405060708090a0b0c0d0e0f\n"
#define FIVE                                                                                                           \
    "limits:\n"                                                                                                        \
    "  - { name: e, key: [u], rate: 1000/min, deadline: 30ms, on_failure: closed }\n"                                  \
    "  - { name: l, key: [u], rate: 1000/min, sharing: leased, chunk_ttl: 3s, on_failure: open }\n"                    \
    "  - { name: b, key: [u], rate: 1000/min, sharing: batched, interval: 50ms }\n"                                    \
    "  - { name: s, key: [u], rate: 1000/min, burst: 10, sharing: split }\n"                                           \
    "  - { name: g, key: [u], rate: 1000/min, sharing: gossip, slack: 9 }\n"

enum { EXACT, LEASED, BATCHED, SPLIT, GOSSIP, MODES };

static const struct weir_rule *rule(const struct fixture *fixture, size_t index)
{
    return weir_rules_limit(fixture->rules, index);
}

static void test_what_each_mode_becomes(void **state)
{
    (void)state;
    struct fixture f = fixture_make(FIVE ENGINE SECRET NODES("b"));
    for (size_t i = 0; i < MODES; i++) {
        assert_int_equal(rule(&f, i)->limit.sharing, i);
        assert_int_equal(rule(&f, i)->whole.count, 1000);
        assert_int_equal(rule(&f, i)->limit.share.count, 333); /* the remainder goes to node a */
        if (i == SPLIT) {
            assert_int_not_equal(rule(&f, i)->id, 0);
            assert_null(rule(&f, i)->limit.remote);
            assert_int_equal(rule(&f, i)->limit.spec.count, 333);
            assert_int_equal(rule(&f, i)->limit.spec.burst, 3);
        } else {
            assert_int_equal(rule(&f, i)->id, 0);
            assert_string_equal(rule(&f, i)->limit.remote->name, rule(&f, i)->name);
            assert_int_equal(rule(&f, i)->limit.remote->spec.count, 1000);
            assert_int_equal(rule(&f, i)->limit.spec.count, 1000);
        }
    }
    assert_int_equal(rule(&f, EXACT)->limit.deadline_ns, 30000000);
    assert_int_equal(rule(&f, EXACT)->limit.on_failure, WEIR_ON_FAILURE_CLOSED);
    assert_int_equal(rule(&f, LEASED)->limit.chunk_ttl_ns, 3000000000);
    assert_int_equal(rule(&f, LEASED)->limit.on_failure, WEIR_ON_FAILURE_OPEN);
    assert_int_equal(rule(&f, BATCHED)->limit.interval_ns, 50000000);
    assert_int_equal(rule(&f, BATCHED)->limit.slack, 33); /* 1000 / (10 * 3) */
    assert_int_equal(rule(&f, GOSSIP)->limit.slack, 9);
    assert_int_equal(rule(&f, LEASED)->limit.slack, 0);
    fixture_free(&f);
}

/* sharing: exact without an engine is as it always was. */
static void test_exact_without_an_engine_stays_in_memory(void **state)
{
    (void)state;
    struct fixture f = fixture_make("limits: [{ name: e, key: [u], rate: 9/min }]\n" NODES("a"));
    struct weir_match match;
    struct fixture_request request = REQUEST("u", "x");
    assert_int_not_equal(rule(&f, 0)->id, 0);
    assert_null(rule(&f, 0)->limit.remote);
    assert_int_equal(rule(&f, 0)->limit.spec.count, 9);
    assert_int_equal(fixture_match(&f, &request, 1, &match), 0);
    assert_int_equal(match.count, 1);
    assert_int_equal(match.remote_count, 0);
    assert_int_equal(match.charges[0].limit, rule(&f, 0)->id);
    fixture_free(&f);
}

/* The keys of a match are those that every node makes: of the limit's name, the values and the cluster's secret. */
static void test_a_match_has_the_keys_of_what_is_elsewhere(void **state)
{
    (void)state;
    struct fixture f = fixture_make(FIVE ENGINE SECRET NODES("b"));
    struct fixture_request request = REQUEST("u", "x");
    const struct weir_slice value = { "x", 1 };
    struct weir_match match;
    assert_int_equal(fixture_match(&f, &request, 7, &match), 0);
    assert_int_equal(match.count, MODES);
    assert_int_equal(match.remote_count, MODES - 1);
    for (size_t i = 0; i < MODES; i++) {
        struct weir_remote_key key;
        assert_int_equal(match.charges[i].cost, 7);
        if (i == SPLIT) {
            assert_int_equal(match.charges[i].limit, rule(&f, i)->id);
            continue;
        }
        assert_int_equal(match.charges[i].limit, 0);
        assert_int_equal(weir_remote_key_init(f.config->cluster_secret, rule(&f, i)->name, &value, 1, &key), 0);
        assert_memory_equal(&match.remote_keys[i], &key, sizeof(key));
    }
    assert_int_equal(match.remote_keys[EXACT].tag, match.remote_keys[LEASED].tag); /* one tenant lies on one server */
    fixture_free(&f);
    f = fixture_make(FIVE ENGINE "cluster_secret: 100102030405060708090a0b0c0d0e0f\n" NODES("b"));
    struct weir_match other;
    assert_int_equal(fixture_match(&f, &request, 7, &other), 0);
    assert_memory_not_equal(&match.remote_keys[EXACT], &other.remote_keys[EXACT], sizeof(other.remote_keys[EXACT]));
    fixture_free(&f);
}

/* Settings of its own, the limit's counter: the key is of the limit's name. */
static void test_an_override_shares_the_counter_and_has_its_own_share(void **state)
{
    (void)state;
    struct fixture f = fixture_make(
        "limits:\n"
        "  - { name: e, key: [u], rate: 60/min, overrides: [ { u: x, rate: 9/min }, { u: y, mode: off } ] }\n"
        "  - { name: b, key: [u], rate: 60/min, sharing: batched, overrides: [ { u: x, rate: 90/min } ] }\n"
        "  - { name: s, key: [u], rate: 60/min, sharing: split, overrides: [ { u: x, rate: 10/min } ] }\n" ENGINE SECRET
            NODES("a"));
    struct fixture_request x = REQUEST("u", "x"), y = REQUEST("u", "y");
    const struct weir_slice value = { "x", 1 };
    struct weir_remote_key key;
    struct weir_match match;
    assert_int_equal(fixture_match(&f, &x, 1, &match), 0);
    assert_int_equal(match.count, 3);
    assert_int_equal(match.rules[0]->limit.remote->spec.count, 9);
    assert_string_equal(match.rules[0]->limit.remote->name, "e");
    assert_int_equal(match.rules[0]->limit.share.count, 3);
    assert_int_equal(weir_remote_key_init(f.config->cluster_secret, "e", &value, 1, &key), 0);
    assert_memory_equal(&match.remote_keys[0], &key, sizeof(key));
    assert_int_equal(match.rules[1]->limit.slack, 3);
    assert_int_equal(rule(&f, 1)->limit.slack, 2);
    assert_int_equal(match.rules[2]->limit.spec.count, 4); /* 10 over 3: 4, 3, 3 */
    assert_int_equal(match.rules[2]->whole.count, 10);
    assert_int_equal(fixture_match(&f, &y, 1, &match), 0);
    assert_int_equal(match.count, 2); /* off for y */
    assert_string_equal(match.rules[0]->name, "b");
    fixture_free(&f);
}

/* Whoever asks what keys say of revisions asks each limit, and not its overrides, of which there are many. */
static void test_what_the_keys_of_an_override_say_is_known_of_the_limit(void **state)
{
    (void)state;
    struct fixture f = fixture_make(
        "limits:\n"
        "  - { name: a, key: [u], rate: 60/min, overrides: [ { u: x, rate: 9/min } ] }\n"
        "  - { name: e, key: [u], rate: 60/min, overrides: [ { u: x, rate: 9/min } ] }\n" ENGINE SECRET);
    struct fixture_request x = REQUEST("u", "x");
    struct weir_match match;
    assert_int_equal(fixture_match(&f, &x, 1, &match), 0);
    const struct weir_remote_limit *override = weir_remote_limit_hold(match.rules[1]->limit.remote);
    assert_int_equal(override->spec.count, 9);
    weir_remote_limit_meet(override, 7);
    weir_remote_limit_meet(rule(&f, 1)->limit.remote, 5);
    assert_int_equal(weir_remote_limit_met(rule(&f, 1)->limit.remote), 7);
    assert_int_equal(weir_remote_limit_met(rule(&f, 0)->limit.remote), 0);
    weir_remote_limit_meet(override, WEIR_REVISION_MAX); /* nobody passes that: it must not hide what is passed */
    assert_int_equal(weir_remote_limit_met(rule(&f, 1)->limit.remote), 7);
    weir_remote_limit_meet(rule(&f, 0)->limit.remote, WEIR_REVISION_MAX);
    assert_int_equal(weir_remote_limit_met(rule(&f, 0)->limit.remote), WEIR_REVISION_MAX);
    weir_remote_limit_meet(rule(&f, 0)->limit.remote, 6);
    assert_int_equal(weir_remote_limit_met(rule(&f, 0)->limit.remote), 6);
    fixture_free(&f); /* a key that is leased outlives the rules */
    weir_remote_limit_meet(override, 8);
    weir_remote_limit_drop(override);
}

/* A key that is too long is refused elsewhere as here. */
static void test_a_key_that_is_too_long_is_refused(void **state)
{
    (void)state;
    struct fixture f = fixture_make(FIVE ENGINE SECRET NODES("b"));
    char *value = fixture_alloc(WEIR_KEY_BYTES_MAX + 1);
    struct fixture_request request = REQUEST("u", "");
    struct weir_fault fault;
    struct weir_match match;
    memset(value, 'x', WEIR_KEY_BYTES_MAX + 1);
    request.attributes[0].value = (struct weir_slice){ value, WEIR_KEY_BYTES_MAX };
    assert_int_equal(weir_rules_match(f.rules, request.attributes, 1, 1, &match, &fault), 0);
    request.attributes[0].value.size++;
    assert_int_equal(weir_rules_match(f.rules, request.attributes, 1, 1, &match, &fault), WEIR_ERANGE);
    assert_string_equal(fault.field, "key");
    assert_int_equal(match.count + match.remote_count, 0);
    free(value);
    fixture_free(&f);
}

static struct weir_rules *reload(const struct fixture *fixture, const char *text)
{
    struct weir_config *config = NULL;
    struct weir_rules *rules = NULL;
    struct weir_config_fault fault;
    assert_int_equal(weir_config_parse(text, strlen(text), &config, &fault), 0);
    assert_int_equal(weir_rules_create(fixture->limiter, config, &rules, &fault), 0);
    weir_config_destroy(config);
    return rules;
}

/* From memory to an engine and back; what is elsewhere lives as long as somebody holds it. */
static void test_a_reload_moves_a_limit_between_here_and_elsewhere(void **state)
{
    (void)state;
    struct fixture f = fixture_make("limits: [{ name: e, key: [u], rate: 9/min }]\n" NODES("a"));
    struct weir_rules *elsewhere = reload(&f, "limits: [{ name: e, key: [u], rate: 9/min }]\n" ENGINE NODES("a"));
    const struct weir_rule *moved = weir_rules_limit(elsewhere, 0);
    assert_int_equal(moved->id, 0);
    const struct weir_remote_limit *held = weir_remote_limit_hold(moved->limit.remote);
    struct weir_rules *back = reload(&f, "limits: [{ name: e, key: [u], rate: 8/min, sharing: split }]\n" NODES("a"));
    assert_int_equal(held->holders, 2);
    weir_rules_destroy(elsewhere);
    assert_int_equal(held->holders, 1);
    assert_string_equal(held->name, "e");
    assert_int_equal(held->spec.count, 9);
    weir_remote_limit_drop(held);
    assert_int_not_equal(weir_rules_limit(back, 0)->id, 0);
    assert_int_equal(weir_rules_limit(back, 0)->limit.spec.count, 3);
    weir_rules_destroy(back);
    fixture_free(&f);
}

static void test_a_bad_reload_changes_nothing(void **state)
{
    (void)state;
    struct fixture f = fixture_make(FIVE ENGINE SECRET NODES("b"));
    struct weir_config *config = NULL;
    struct weir_config_fault fault;
    weir_limit_id id = rule(&f, SPLIT)->id;
    const char *bad = "limits: [{ name: s, key: [u], rate: 5/min, sharing: leased }]\n" NODES("b");
    struct weir_match match;
    struct fixture_request request = REQUEST("u", "x");
    assert_int_equal(weir_config_parse(bad, strlen(bad), &config, &fault), WEIR_EINVAL);
    assert_int_equal(fixture_match(&f, &request, 1, &match), 0);
    assert_int_equal(match.charges[SPLIT].limit, id);
    struct weir_decision decision;
    struct weir_verdict verdict;
    assert_int_equal(weir_limiter_decide(f.limiter, &match.charges[SPLIT], 1, NULL, 0, &decision, &verdict), 0);
    assert_int_equal(verdict.capacity, 3);
    fixture_free(&f);
}

#define RANDOM_LIMITS 20

struct drawn {
    unsigned mode;
    uint64_t count, burst, slack;
};

static void limits_draw(struct test_random *random, bool engine, struct drawn *drawn, char *text, size_t *used)
{
    static const char *const words[] = { "exact", "leased", "batched", "split", "gossip" };
    fixture_add(text, used, "limits:\n");
    for (int i = 0; i < RANDOM_LIMITS; i++) {
        struct drawn *one = &drawn[i];
        one->mode = (unsigned)test_random_below(random, MODES);
        if (!engine && (one->mode == LEASED || one->mode == BATCHED))
            one->mode = SPLIT;
        one->count = test_random_below(random, 1000);
        one->burst = 1 + test_random_below(random, 100) % (one->count + 1);
        one->slack = test_random_below(random, 20);
        fixture_add(text, used, "  - { name: l%d, key: [u], rate: %d/min, burst: %d, sharing: %s", i, (int)one->count,
                    (int)one->burst, words[one->mode]);
        if (one->slack && (one->mode == BATCHED || one->mode == GOSSIP))
            fixture_add(text, used, ", slack: %d", (int)one->slack);
        fixture_add(text, used, " }\n");
    }
}

static void rule_check(const struct weir_rule *rule, const struct drawn *drawn, bool engine, uint32_t nodes,
                       uint32_t node)
{
    bool slack = drawn->mode == BATCHED || drawn->mode == GOSSIP;
    bool remote = drawn->mode == EXACT ? engine : drawn->mode != SPLIT;
    struct weir_limit_spec share = weir_split_spec(&rule->whole, nodes, node);
    assert_int_equal(rule->limit.sharing, drawn->mode);
    assert_int_equal(rule->whole.count, drawn->count);
    assert_int_equal(rule->limit.share.count, share.count);
    assert_int_equal(rule->limit.share.burst, share.burst);
    assert_int_equal(rule->limit.spec.count, drawn->mode == SPLIT ? share.count : drawn->count);
    assert_int_equal(rule->limit.remote != NULL, remote);
    assert_int_equal(rule->id != 0, !remote);
    assert_int_equal(rule->limit.slack, !slack         ? 0
                                        : drawn->slack ? drawn->slack
                                                       : weir_split_slack(drawn->count, nodes));
    if (remote)
        assert_int_equal(rule->limit.remote->limit.capacity, drawn->count ? drawn->burst : 0);
}

/* Any mix of modes, any number of nodes, whichever of them this is. */
static void test_random_sets(void **state)
{
    (void)state;
    struct test_random random = { test_random_seed() };
    char *text = fixture_alloc(RANDOM_LIMITS * 120 + 64 * 60 + 400);
    for (int run = 0; run < 200; run++) {
        struct drawn drawn[RANDOM_LIMITS];
        bool engine = test_random_below(&random, 2);
        uint32_t nodes = 1 + (uint32_t)test_random_below(&random, 60);
        uint32_t node = (uint32_t)test_random_below(&random, nodes);
        size_t used = 0;
        limits_draw(&random, engine, drawn, text, &used);
        fixture_add(text, &used, "%s%scluster:\n  node: n%02u\n  nodes:\n", SECRET, engine ? ENGINE : "", node);
        for (uint32_t i = nodes; i > 0; i--)
            fixture_add(text, &used, "    - { name: n%02u, gossip: 127.0.0.1:%u }\n", i - 1, i);
        struct fixture f = fixture_make(text);
        for (size_t i = 0; i < RANDOM_LIMITS; i++)
            rule_check(rule(&f, i), &drawn[i], engine, nodes, node);
        struct fixture_request request = REQUEST("u", "x");
        struct weir_match match;
        size_t remote = 0;
        assert_int_equal(fixture_match(&f, &request, 1, &match), 0);
        assert_int_equal(match.count, RANDOM_LIMITS);
        for (size_t i = 0; i < match.count; i++)
            remote += match.rules[i]->limit.remote != NULL;
        assert_int_equal(match.remote_count, remote);
        fixture_free(&f);
    }
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_each_mode_becomes),
        cmocka_unit_test(test_exact_without_an_engine_stays_in_memory),
        cmocka_unit_test(test_a_match_has_the_keys_of_what_is_elsewhere),
        cmocka_unit_test(test_an_override_shares_the_counter_and_has_its_own_share),
        cmocka_unit_test(test_what_the_keys_of_an_override_say_is_known_of_the_limit),
        cmocka_unit_test(test_a_key_that_is_too_long_is_refused),
        cmocka_unit_test(test_a_reload_moves_a_limit_between_here_and_elsewhere),
        cmocka_unit_test(test_a_bad_reload_changes_nothing),
        cmocka_unit_test(test_random_sets),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
