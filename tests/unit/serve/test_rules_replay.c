/* SPDX-License-Identifier: Apache-2.0
 *
 * Requests at random times, decided by a limiter as a server does, and kept for the replay: the rules in force refuse
 * in it what they refused, but for what the time within a second is worth; other numbers refuse what a limiter with
 * those refuses. And it ends when nobody waits for it. */
#include "serve/rules_replay.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "random.h"
#include "weir/limiter.h"

#define SECONDS 900
#define LOOPS 3
#define KEYS 40
#define FILE_TEXT "rules: { store: \"sqlite:/nowhere\" }\n"
#define IN_FORCE "limits:\n  - { name: api, key: [user], rate: 30/10s, burst: 12 }\n"
#define OTHER "limits:\n  - { name: api, key: [user], rate: 15/10s, burst: 40 }\n"

struct world {
    struct weir_past *past;
    struct weir_metrics *metrics;
    struct weir_config *config;
    struct weir_limiter *limiters[2]; /* of the two texts */
    weir_limit_id ids[2];
    uint64_t asked, refused[2], now_ns;
};

static const struct weir_limit_spec specs[] = {
    { .algorithm = WEIR_TOKEN_BUCKET, .count = 30, .period_ns = 10 * WEIR_NS_PER_SECOND, .burst = 12 },
    { .algorithm = WEIR_TOKEN_BUCKET, .count = 15, .period_ns = 10 * WEIR_NS_PER_SECOND, .burst = 40 },
};

static bool admits(struct world *world, size_t which, uint64_t hash, uint64_t now_ns)
{
    const struct weir_charge charge = { .limit = world->ids[which], .key = { hash, 0 }, .cost = 1 };
    const struct weir_time time = { now_ns, now_ns };
    struct weir_decision decision;
    struct weir_verdict verdict;
    assert_int_equal(weir_limiter_decide(world->limiters[which], &charge, 1, &time, 0, &decision, &verdict), 0);
    world->refused[which] += !verdict.admitted;
    return verdict.admitted;
}

static void begin(struct world *world)
{
    struct weir_config_fault faults;
    struct weir_fault fault;
    *world = (struct world){ .now_ns = 1000 * WEIR_NS_PER_SECOND };
    const struct weir_time now = { world->now_ns, world->now_ns };
    assert_int_equal(weir_config_parse(FILE_TEXT, strlen(FILE_TEXT), &world->config, &faults), 0);
    assert_int_equal(weir_metrics_create(LOOPS, &world->metrics), 0);
    assert_int_equal(weir_past_create(LOOPS, world->now_ns, &world->past), 0);
    for (size_t i = 0; i < 2; i++) {
        const struct weir_limiter_options options = { .memory_max = 16 << 20 };
        const struct weir_limit_def def = { .name = "api", .spec = specs[i] };
        assert_int_equal(weir_limiter_create(&options, &world->limiters[i], &fault), 0);
        assert_int_equal(weir_limiter_define(world->limiters[i], &def, 1, &now, &world->ids[i], &fault), 0);
    }
}

static void end(struct world *world)
{
    for (size_t i = 0; i < 2; i++)
        weir_limiter_destroy(world->limiters[i]);
    weir_past_destroy(world->past);
    weir_metrics_destroy(world->metrics);
    weir_config_destroy(world->config);
}

/* Some keys are busy for a while, and quiet then: buckets fill and run dry. */
static void run(struct world *world, struct test_random *random, uint64_t seconds)
{
    const uint64_t until_ns = world->now_ns + seconds * WEIR_NS_PER_SECOND;
    const uint32_t slot = weir_metrics_slot(world->metrics, "api");
    while (world->now_ns < until_ns) {
        world->now_ns += test_random_below(random, 2 * WEIR_NS_PER_SECOND / 120);
        const uint64_t busy = world->now_ns / (20 * WEIR_NS_PER_SECOND) * 7;
        const uint64_t key = test_random_below(random, 4) ? (busy + test_random_below(random, 12)) % KEYS
                                                          : test_random_below(random, KEYS);
        const struct weir_past_event event = { .hash = (key + 1) * UINT64_C(0x9e3779b97f4a7c15),
                                               .slot = slot,
                                               .refused = !admits(world, 0, (key + 1) << 40, world->now_ns),
                                               .cost = 1 };
        (void)admits(world, 1, (key + 1) << 40, world->now_ns);
        weir_past_note(world->past, test_random_below(random, LOOPS), &event, world->now_ns);
        world->asked++;
    }
    world->now_ns = until_ns + 2 * WEIR_NS_PER_SECOND; /* the last second is over */
}

static json_t *replay(const struct world *world, const char *text, const atomic_bool *stop)
{
    struct weir_config_faults faults;
    const struct weir_replay_of of = { .past = world->past,
                                       .metrics = world->metrics,
                                       .config = world->config,
                                       .in_force = { IN_FORCE, strlen(IN_FORCE) },
                                       .text = { text, strlen(text) },
                                       .stop = stop,
                                       .now = { world->now_ns, world->now_ns + 1700000000 * WEIR_NS_PER_SECOND } };
    json_t *json = NULL;
    assert_int_equal(weir_rules_replay(&of, &json, &faults), 0);
    assert_non_null(json);
    return json;
}

static uint64_t number_of(json_t *json, const char *member)
{
    json_t *row = json_array_get(json_object_get(json, "limits"), 0);
    assert_string_equal(json_string_value(json_object_get(row, "limit")), "api");
    assert_true(json_is_integer(json_object_get(row, member)));
    return (uint64_t)json_integer_value(json_object_get(row, member));
}

static void test_it_refuses_what_a_server_refuses(void **state)
{
    (void)state;
    struct test_random random = { test_random_seed() };
    struct world world;
    begin(&world);
    run(&world, &random, SECONDS);
    json_t *json = replay(&world, OTHER, NULL);
    assert_int_equal(number_of(json, "asked"), world.asked);
    assert_int_equal(number_of(json, "refused"), world.refused[0]);
    assert_int_equal(number_of(json, "keys"), KEYS);
    const uint64_t in_force = number_of(json, "in_force"), text = number_of(json, "text");
    printf("%llu asked; refused %llu, replayed %llu; with the other numbers %llu, replayed %llu\n",
           (unsigned long long)world.asked, (unsigned long long)world.refused[0], (unsigned long long)in_force,
           (unsigned long long)world.refused[1], (unsigned long long)text);
    assert_true(world.refused[0] > world.asked / 10 && world.refused[1] != world.refused[0]);
    /* What is worth a part of a second differs: a hundredth of what was asked, at most. */
    assert_in_range(in_force + world.asked / 100, world.refused[0], world.refused[0] + world.asked / 50);
    assert_in_range(text + world.asked / 100, world.refused[1], world.refused[1] + world.asked / 50);
    json_decref(json);
    json = replay(&world, IN_FORCE, NULL);
    assert_int_equal(number_of(json, "text"), in_force);
    json_decref(json);
    end(&world);
}

/* Ten in each second: a bucket of one that takes twenty a second takes them all. */
static void test_the_requests_of_a_second_are_spread_over_it(void **state)
{
    (void)state;
    struct world world;
    begin(&world);
    const uint32_t slot = weir_metrics_slot(world.metrics, "api");
    for (uint64_t i = 0; i < 600; i++) {
        const struct weir_past_event event = { .hash = 77, .slot = slot, .cost = 1 };
        weir_past_note(world.past, 0, &event, world.now_ns += WEIR_NS_PER_SECOND / 10);
    }
    world.now_ns += 2 * WEIR_NS_PER_SECOND;
    json_t *json = replay(&world, "limits:\n  - { name: api, key: [user], rate: 20/s, burst: 1 }\n", NULL);
    assert_int_equal(number_of(json, "asked"), 600);
    assert_int_equal(number_of(json, "text"), 0);
    json_decref(json);
    json = replay(&world, "limits:\n  - { name: api, key: [user], rate: 1/s, burst: 1 }\n", NULL);
    assert_in_range(number_of(json, "text"), 535, 545);
    json_decref(json);
    end(&world);
}

static void test_it_ends_when_nobody_waits(void **state)
{
    (void)state;
    struct test_random random = { test_random_seed() };
    const atomic_bool stop = true;
    struct world world;
    begin(&world);
    run(&world, &random, SECONDS);
    json_t *json = replay(&world, OTHER, &stop), *sample = json_object_get(json, "sample");
    assert_true(json_is_true(json_object_get(sample, "cut")));
    assert_in_range(json_integer_value(json_object_get(sample, "seconds")), 0, SECONDS / 2);
    assert_true(number_of(json, "asked") < world.asked / 2);
    json_decref(json);
    end(&world);
}

/* A record of a key stands for all of its requests in a second: a look at each so many records would come too late.
 * And of the second in which it ends nothing counts: of none more is refused than was asked. */
static void test_it_ends_within_a_record(void **state)
{
    (void)state;
    const atomic_bool stop = true;
    struct world world;
    begin(&world);
    const uint32_t slot = weir_metrics_slot(world.metrics, "api");
    for (uint64_t i = 0; i < 30000; i++) {
        const struct weir_past_event event = { .hash = 77, .slot = slot, .cost = 1 };
        weir_past_note(world.past, 0, &event, world.now_ns += WEIR_NS_PER_SECOND / 3000);
    }
    world.now_ns += 2 * WEIR_NS_PER_SECOND;
    json_t *json = replay(&world, OTHER, &stop), *sample = json_object_get(json, "sample");
    assert_true(json_is_true(json_object_get(sample, "cut")));
    assert_int_equal(number_of(json, "asked"), json_integer_value(json_object_get(sample, "seconds")) * 3000);
    assert_in_range(number_of(json, "asked"), 0, 4096);
    assert_in_range(number_of(json, "text"), 0, number_of(json, "asked"));
    assert_in_range(number_of(json, "in_force"), 0, number_of(json, "asked"));
    json_decref(json);
    end(&world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_it_refuses_what_a_server_refuses),
        cmocka_unit_test(test_the_requests_of_a_second_are_spread_over_it),
        cmocka_unit_test(test_it_ends_when_nobody_waits),
        cmocka_unit_test(test_it_ends_within_a_record),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
