/* SPDX-License-Identifier: Apache-2.0
 *
 * What users owe the floor: losses that they are shown for two generations, and not a user more or a day longer. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "sessions/users_floor.h"
#include "users_world.h"

#define MS UINT64_C(1000000)
#define HOUR_NS (3600000 * MS)

static struct world world;

static struct weir_session_token at(uint32_t timeline, uint64_t position)
{
    struct weir_session_token token = { .count = 1 };
    token.places[0] = (struct weir_place){ .system = WORLD_SYSTEM, .position = position, .timeline = timeline };
    return token;
}

/* A failover has cut off what lies behind 1200. */
static struct weir_users_options begin(void)
{
    world_init(&world);
    world.position = 1400;
    world_fail_over(&world, 200);
    return (struct weir_users_options){
        .users_max = 1, .ttl_ns = HOUR_NS, .timeout_ns = 50 * MS, .newest = world_newest, .context = &world
    };
}

static void turn(struct weir_users_floor *floor)
{
    const uint32_t before = floor->generation;
    floor->turned_ns = weir_users_now_ns() - floor->ttl_ns;
    floor->tended_ns = 0;
    weir_users_floor_tend(floor, 0, UINT64_MAX);
    assert_int_equal(floor->generation, before + 1);
}

static bool owes(struct weir_users_floor *floor, uint32_t since, const struct weir_session_token *lost)
{
    struct weir_session_token token = at(2, world.position);
    weir_users_floor_owe(floor, since, &world.known, &token);
    return world_contains(&token, &lost->places[0], &world.known);
}

static void owed__for_two_generations(void **state)
{
    (void)state;
    const struct weir_users_options options = begin();
    struct weir_users_floor floor;
    struct weir_session_token lost = at(1, 1400), later = at(1, 1360), token;
    uint32_t since = 0;
    assert_int_equal(weir_users_floor_init(&floor, &options), 0);
    weir_users_floor_keep(&floor, &lost, &world.known);
    assert_int_equal(weir_users_floor_get(&floor, 0, UINT64_MAX, &world.known, &token), 0);
    assert_int_equal(weir_users_floor_take(&floor, &world.known, &token, &since), 0);
    assert_false(world_contains(&token, &lost.places[0], &world.known)); /* it is owed, not stored */
    assert_int_equal(since, floor.generation);
    assert_true(owes(&floor, since, &lost));
    turn(&floor);
    weir_users_floor_keep(&floor, &later, &world.known); /* of who was evicted since: no matter to who came before */
    assert_true(owes(&floor, since, &lost));
    turn(&floor);
    assert_false(owes(&floor, since, &lost));
    assert_false(owes(&floor, since, &later));
    assert_true(owes(&floor, since + 1, &later));
    turn(&floor);
    assert_false(owes(&floor, since + 1, &later));
    assert_false(owes(&floor, 0, &later));
    weir_users_floor_deinit(&floor);
}

/* Who is stored owes what another lost who was evicted before, until it accepts that. */
static void owed__until_it_is_accepted(void **state)
{
    (void)state;
    const struct weir_users_options options = begin();
    struct weir_users *users = NULL;
    struct weir_session_token lost = at(1, 1400), seen = at(2, world.position), token;
    struct weir_shown shown = { .system = WORLD_SYSTEM,
                                .primary = true,
                                .run = 1,
                                .settled = true,
                                .timeline = 2,
                                .position = 1500,
                                .flushed = 1500 };
    assert_int_equal(weir_users_open(&options, &users, NULL), 0);
    assert_int_equal(weir_users_add(users, "ada", 3, &world.known, &lost, NULL), 0);
    assert_int_equal(weir_users_add(users, "bob", 3, &world.known, &seen, NULL), 0); /* ada goes for bob, */
    assert_int_equal(weir_users_add(users, "cyd", 3, &world.known, &seen, NULL), 0); /* and cyd comes after that */
    assert_int_equal(weir_users_get(users, "cyd", 3, &world.known, &token), 0);
    assert_int_equal(weir_session_token_compare(&token, &shown, &world.known), WEIR_PLACE_LOST);
    const struct weir_session_token before = token;
    assert_int_equal(weir_session_token_accept(&token, &shown, &world.known), 1);
    assert_int_equal(weir_users_accept(users, "cyd", 3, &before, &token), 0);
    assert_int_equal(weir_users_get(users, "cyd", 3, &world.known, &token), 0);
    assert_int_equal(weir_session_token_compare(&token, &shown, &world.known), WEIR_PLACE_OK);
    weir_users_close(users);
}

/* Each is of a history that nobody knows, and takes the place of the one before. When they do not fit into the floor
 * any more the primary is asked anew, and who comes then owes nothing: nor what the one before in its place did. */
static void owed__not_for_who_had_the_place_before(void **state)
{
    (void)state;
    const struct weir_users_options options = begin();
    struct weir_users *users = NULL;
    unsigned owing = 0, anew = 0;
    assert_int_equal(weir_users_open(&options, &users, NULL), 0);
    for (uint32_t i = 1; i <= 24; i++) {
        struct weir_session_token seen = at(100 * i, 500), token;
        const unsigned before = world.questions;
        assert_int_equal(weir_users_add(users, &i, sizeof i, &world.known, &seen, NULL), 0);
        const bool asked = i > 1 && world.questions > before;
        assert_int_equal(weir_users_get(users, &i, sizeof i, &world.known, &token), 0);
        assert_true(world_contains(&token, &seen.places[0], &world.known));
        if (asked)
            assert_int_equal(token.count, 2); /* its own, and what the primary shows */
        anew += asked;
        owing += token.count > 2;
    }
    assert_true(owing > 0 && anew > 0);
    weir_users_close(users);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(owed__for_two_generations),
        cmocka_unit_test(owed__until_it_is_accepted),
        cmocka_unit_test(owed__not_for_who_had_the_place_before),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
