/* SPDX-License-Identifier: Apache-2.0
 *
 * `sharing: leased`: several nodes and the ledger, on a network that works and on one that does not. */
#include "share_attack.h"

static struct world world;

static const struct weir_limit_spec hourly = { .algorithm = WEIR_FIXED_WINDOW,
                                               .count = 100,
                                               .period_ns = 3600 * SECOND };
static const struct weir_limit_spec busy = { .algorithm = WEIR_TOKEN_BUCKET, .count = 1000000, .period_ns = SECOND };

/* ---- nodes and the ledger, on a network that works ---- */

static void leased__admits_the_whole_limit_less_what_is_held(void **state)
{
    (void)state;
    world_init(&world, 1, &hourly, true);
    uint64_t admitted = 0;
    for (int i = 0; i < 2000; i++) {
        for (size_t node = 0; node < 3; node++)
            world_take(&world, node, 1);
        world_run(&world, MS);
    }
    for (size_t i = 0; i < world.spends_count; i++)
        admitted += world.spends[i].units;
    assert_int_equal(admitted, 100);
}

static void leased__unspent_units_move_to_where_demand_is(void **state)
{
    (void)state;
    world_init(&world, 1, &hourly, true);
    for (int i = 0; i < 20; i++) {
        world_take(&world, 0, 1);
        world_run(&world, MS);
    }
    assert_true(world.nodes[0].leased.pocket > 0);
    uint64_t first = world.nodes[0].yes, second = 0;
    for (int i = 0; i < 500; i++) {
        second += world_take(&world, 1, 1);
        world_run(&world, 5 * MS);
    }
    assert_int_equal(first + world.nodes[1].yes, 100);
    assert_true(second > 0);
}

static void leased__a_hot_key_rarely_asks(void **state)
{
    (void)state;
    world_init(&world, 1, &busy, true);
    uint64_t yes = 0;
    for (int i = 0; i < 6000; i++) { /* 20,000 a second for 3 s at one node */
        for (int j = 0; j < 10; j++)
            yes += world_take(&world, 0, 1);
        world_run(&world, MS / 2);
    }
    assert_true(yes > 59000);
    assert_true(world.asks < 60);
    assert_true(world.limit.capacity >= world_peak(&world));
}

static void leased__one_node_does_not_take_all(void **state)
{
    (void)state;
    world_init(&world, 1, &hourly, true);
    for (int i = 0; i < 10; i++) {
        for (int j = 0; j < 3; j++)
            world_take(&world, 0, 1);
        world_run(&world, MS);
    }
    uint64_t left = 100 - world.nodes[0].yes;
    assert_true(world.nodes[0].leased.pocket <= left / 2);
}

/* ---- promises under attack ---- */

/* The peak of one world at random; fails if it is above the limit. */
static uint64_t attack(uint64_t seed, const struct weir_limit_spec *spec)
{
    world_init(&world, seed, spec, true);
    world.nodes_count = 2 + test_random_below(&world.random, WORLD_NODES - 1);
    world.loss = (unsigned)test_random_below(&world.random, 20);
    world.repeat = (unsigned)test_random_below(&world.random, 20);
    world.late = (unsigned)test_random_below(&world.random, 10);
    world_attack(&world, 1500);
    uint64_t peak = world_peak(&world);
    if (peak > world.limit.capacity)
        fail_msg("seed %llu: %s %llu: %llu admitted", (unsigned long long)seed,
                 weir_algorithm_name(world.spec.algorithm), (unsigned long long)world.limit.capacity,
                 (unsigned long long)peak);
    return peak;
}

static void leased__never_overshoots_whatever_the_network_does(void **state)
{
    (void)state;
    uint64_t seed = test_random_seed(), closest = 0;
    for (uint64_t run = 0; run < 300; run++)
        closest += attack(seed + run, &world_specs[run % WORLD_SPECS]) == world.limit.capacity;
    printf("%llu of 300 runs used their limit up\n", (unsigned long long)closest);
    assert_true(closest > 100); /* the attack is one */
}

/* An ask came a while after a deadline, and in between entries had left the log: it was given too little room. */
static void leased__a_forfeit_found_late_has_its_room_in_a_log(void **state)
{
    (void)state;
    attack(50254529, &world_specs[8]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(leased__admits_the_whole_limit_less_what_is_held),
        cmocka_unit_test(leased__unspent_units_move_to_where_demand_is),
        cmocka_unit_test(leased__a_hot_key_rarely_asks),
        cmocka_unit_test(leased__one_node_does_not_take_all),
        cmocka_unit_test(leased__never_overshoots_whatever_the_network_does),
        cmocka_unit_test(leased__a_forfeit_found_late_has_its_room_in_a_log),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
