/* SPDX-License-Identifier: Apache-2.0
 *
 * Users in memory: what is found, what was forgotten, and what never goes back. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "sessions/users_floor.h"
#include "users_world.h"

#define MS UINT64_C(1000000)

static struct weir_users *opened(struct world *world, uint64_t users_max)
{
    struct weir_users *users = NULL;
    struct weir_users_options options = {
        .users_max = users_max, .timeout_ns = 50 * MS, .newest = world_newest, .context = world
    };
    world_init(world);
    assert_int_equal(weir_users_open(&options, &users, NULL), 0);
    return users;
}

static struct weir_session_token at(uint32_t timeline, uint64_t position)
{
    struct weir_session_token token = { .count = 1 };
    token.places[0] = (struct weir_place){ .system = WORLD_SYSTEM, .position = position, .timeline = timeline };
    return token;
}

static uint64_t position_of(struct weir_users *users, const char *user)
{
    struct weir_session_token token;
    assert_int_equal(weir_users_get(users, user, strlen(user), NULL, &token), 0);
    assert_int_equal(token.count, 1);
    return token.places[0].position;
}

static void users__nobody_has_seen_nothing_while_the_primary_is_silent(void **state)
{
    struct world world;
    struct weir_users *users = opened(&world, 10);
    struct weir_session_token token = { .count = 99 }, seen = at(1, 500);
    (void)state;
    world.down = true;
    assert_int_equal(weir_users_get(users, "ada", 3, NULL, &token), WEIR_EDOWN);
    assert_int_equal(weir_users_add(users, "ada", 3, NULL, &seen, &token), WEIR_EDOWN);
    assert_int_equal(weir_users_accept(users, "ada", 3, &seen, &seen), WEIR_EDOWN);
    assert_int_equal(token.count, 99);
    assert_true(world.questions > 1);
    world.down = false;
    assert_int_equal(position_of(users, "ada"), 1000);
    weir_users_close(users);
}

static int nothing(void *context, uint64_t deadline_ns, struct weir_session_token *ret_token, uint64_t *ret_changes)
{
    (void)context, (void)deadline_ns, (void)ret_changes;
    *ret_token = (struct weir_session_token){ 0 };
    return 0;
}

static void users__an_empty_answer_of_the_primary_is_none(void **state)
{
    struct weir_users_options options = { .timeout_ns = 20 * MS, .newest = nothing };
    struct weir_users *users;
    struct weir_session_token token;
    (void)state;
    assert_int_equal(weir_users_open(&options, &users, NULL), 0);
    assert_int_equal(weir_users_get(users, "ada", 3, NULL, &token), WEIR_EDOWN);
    weir_users_close(users);
}

static void users__a_stranger_has_the_floor_and_a_primary_must_settle_it(void **state)
{
    struct world world;
    struct weir_users *users = opened(&world, 10);
    struct weir_session_token token;
    (void)state;
    assert_int_equal(weir_users_get(users, "ada", 3, NULL, &token), 0);
    assert_int_equal(token.places[0].position, 1000);
    assert_true(token.places[0].standby);
    /* Nothing was forgotten since: it need not be asked again, and answers while the primary is down. */
    world.position = 2000;
    world.down = true;
    assert_int_equal(position_of(users, "bob"), 1000);
    assert_int_equal(world.questions, 1);
    weir_users_close(users);
}

/* What the old one showed last may be cut off: who was never heard of did not see it. */
static void users__a_stranger_is_told_of_no_loss_after_a_failover(void **state)
{
    struct world world;
    struct weir_users *users = opened(&world, 10);
    struct weir_session_token token, seen = at(2, 600);
    struct weir_known before, later;
    (void)state;
    weir_known_primary(&world.known, WORLD_SYSTEM, 1, 5, 1);
    before = world_known(&world);
    assert_int_equal(weir_users_get(users, "ada", 3, &before, &token), 0);
    world_fail_over(&world, 500);
    weir_known_primary(&world.known, WORLD_SYSTEM, 2, 6, 2);
    later = world_known(&world);
    assert_int_equal(weir_users_get(users, "ada", 3, &later, &token), 0);
    assert_int_equal(token.count, 1);
    assert_int_equal(token.places[0].timeline, 2);
    assert_int_equal(token.places[0].position, 508);
    assert_int_equal(weir_users_add(users, "bob", 3, &later, &seen, &token), 0);
    assert_int_equal(token.count, 1);
    assert_int_equal(world.questions, 2); /* once for each primary, also where somebody still knows the old one only */
    assert_int_equal(weir_users_get(users, "cyd", 3, &before, &token), 0);
    assert_int_equal(world.questions, 2);
    weir_known_primary(&world.known, WORLD_SYSTEM, 2, 1, 2); /* it crashed, with its clock set back */
    later = world_known(&world);
    assert_int_equal(weir_users_get(users, "dan", 3, &later, &token), 0);
    assert_int_equal(world.questions, 3);
    weir_known_primary(&world.known, WORLD_SYSTEM, 2, 1, 1); /* a copy of it took over, and the same number */
    world.position = 400;
    later = world_known(&world);
    weir_known_primary(&later, WORLD_SYSTEM, 2, 1, 1);
    assert_int_equal(weir_users_get(users, "eve", 3, &later, &token), 0);
    assert_int_equal(token.places[0].position, 400);
    assert_int_equal(world.questions, 4);
    weir_users_close(users);
}

/* As at the start: who asked the first question did not know of a primary yet. The answer was of the one there is. */
static void users__a_primary_learned_with_the_answer_is_not_asked_again(void **state)
{
    struct world world;
    struct weir_users *users = opened(&world, 10);
    struct weir_session_token token;
    (void)state;
    weir_known_primary(&world.known, WORLD_SYSTEM, 1, 5, 1);
    assert_int_equal(weir_users_get(users, "ada", 3, NULL, &token), 0);
    world.down = true;
    assert_int_equal(weir_users_get(users, "bob", 3, &world.known, &token), 0);
    assert_int_equal(weir_users_add(users, "cyd", 3, &world.known, &token, NULL), 0);
    weir_users_close(users);
}

static void users__a_late_message_lowers_nothing(void **state)
{
    struct world world;
    struct weir_users *users = opened(&world, 10);
    struct weir_session_token late = at(1, 1200), newer = at(1, 1400), token;
    (void)state;
    newer.wrote_ns = 7;
    assert_int_equal(weir_users_add(users, "ada", 3, NULL, &newer, &token), 0);
    assert_int_equal(weir_users_add(users, "ada", 3, NULL, &late, &token), 0);
    assert_int_equal(token.places[0].position, 1400);
    assert_int_equal(token.wrote_ns, 7);
    assert_int_equal(position_of(users, "ada"), 1400);
    assert_int_equal(position_of(users, "bob"), 1000);
    weir_users_close(users);
}

static void users__who_is_evicted_goes_into_the_floor(void **state)
{
    struct world world;
    struct weir_users *users = opened(&world, 2);
    struct weir_session_token ada = at(1, 1400), bob = at(1, 1200);
    struct weir_users_stats stats;
    (void)state;
    assert_int_equal(weir_users_add(users, "ada", 3, NULL, &ada, NULL), 0);
    assert_int_equal(weir_users_add(users, "bob", 3, NULL, &bob, NULL), 0);
    assert_int_equal(position_of(users, "ada"), 1400); /* heard of later than bob */
    assert_int_equal(weir_users_add(users, "cyd", 3, NULL, &bob, NULL), 0);
    assert_int_equal(position_of(users, "ada"), 1400);
    assert_int_equal(position_of(users, "eve"), 1200); /* bob's */
    assert_int_equal(weir_users_add(users, "dan", 3, NULL, &bob, NULL), 0);
    assert_int_equal(weir_users_add(users, "fay", 3, NULL, &bob, NULL), 0);
    assert_int_equal(position_of(users, "ada"), 1400);
    assert_int_equal(position_of(users, "eve"), 1400); /* ada's */
    weir_users_stats(users, &stats);
    assert_int_equal(stats.evicted, 3);
    assert_int_equal(stats.users, 2);
    weir_users_close(users);
}

static void users__a_loss_is_told_to_the_evicted_too(void **state)
{
    struct world world;
    struct weir_users *users = opened(&world, 1);
    struct weir_session_token ada = at(1, 1400), bob, token;
    struct weir_shown shown = { .system = WORLD_SYSTEM, .primary = true, .run = 1, .settled = true };
    (void)state;
    assert_int_equal(weir_users_add(users, "ada", 3, NULL, &ada, NULL), 0);
    world.position = 1400;
    world_fail_over(&world, 200);
    bob = at(2, 1300);
    shown.timeline = 2;
    shown.position = shown.flushed = 1500;
    assert_int_equal(weir_users_add(users, "bob", 3, &world.known, &bob, NULL), 0);
    assert_int_equal(weir_users_get(users, "ada", 3, &world.known, &token), 0);
    assert_int_equal(weir_session_token_compare(&token, &shown, &world.known), WEIR_PLACE_LOST);

    /* Accepted: told no more. */
    struct weir_session_token before = token;
    assert_int_equal(weir_session_token_accept(&token, &shown, &world.known), 1);
    assert_int_equal(weir_users_accept(users, "ada", 3, &before, &token), 0);
    assert_int_equal(weir_users_get(users, "ada", 3, &world.known, &token), 0);
    assert_int_equal(weir_session_token_compare(&token, &shown, &world.known), WEIR_PLACE_OK);
    weir_users_close(users);
}

static void users__accept_replaces_only_what_it_was_shown(void **state)
{
    struct world world;
    struct weir_users *users = opened(&world, 10);
    struct weir_session_token ada = at(1, 1400), after = at(1, 1200), other = at(1, 1600);
    (void)state;
    assert_int_equal(weir_users_add(users, "ada", 3, NULL, &ada, NULL), 0);
    ada.places[0].standby = true; /* of the floor that it was merged with */
    assert_int_equal(weir_users_accept(users, "ada", 3, &other, &after), WEIR_EBUSY);
    assert_int_equal(position_of(users, "ada"), 1400);
    assert_int_equal(weir_users_accept(users, "ada", 3, &ada, &after), 0);
    assert_int_equal(position_of(users, "ada"), 1200);
    weir_users_close(users);
}

/* Nine lost histories do not fit: a newer floor takes their place. */
static void users__what_cannot_be_kept_raises_the_floor(void **state)
{
    struct world world;
    struct weir_users *users = opened(&world, 1);
    struct weir_session_token token;
    (void)state;
    for (uint32_t i = 1; i <= 12; i++) {
        struct weir_session_token seen = at(100 * i, 500); /* of timelines that nobody knows */
        char name[16];
        int size = snprintf(name, sizeof name, "u%u", (unsigned)i);
        world.position = 1000 + i;
        assert_int_equal(weir_users_add(users, name, (size_t)size, NULL, &seen, NULL), 0);
    }
    assert_int_equal(world.questions, 2);
    assert_int_equal(weir_users_get(users, "stranger", 8, NULL, &token), 0);
    assert_in_range(token.places[0].position, 1008, 1012);
    weir_users_close(users);
}

/* Else each stranger would hand it on to the next, for ever. */
static void users__strangers_do_not_carry_a_loss_on(void **state)
{
    struct world world;
    struct weir_users *users = NULL;
    struct weir_session_token lost = at(1, 1400), token;
    (void)state;
    world_init(&world);
    struct weir_users_options options = {
        .users_max = 3, .ttl_ns = 1000 * MS, .timeout_ns = 50 * MS, .newest = world_newest, .context = &world
    };
    assert_int_equal(weir_users_open(&options, &users, NULL), 0);
    world.position = 1400;
    assert_int_equal(weir_users_add(users, "ada", 3, NULL, &lost, NULL), 0);
    world_fail_over(&world, 200);
    uint64_t begun_ns = weir_users_now_ns();
    for (unsigned i = 0, clean = 0; clean < 100; i++) {
        struct weir_session_token seen = at(2, world.position += 8), stored;
        assert_int_equal(weir_users_add(users, &i, sizeof i, &world.known, &seen, &stored), 0);
        assert_int_equal(weir_users_get(users, &i, sizeof i, &world.known, &token), 0);
        assert_int_equal(token.count, stored.count);
        assert_true(world_contains(&token, &seen.places[0], &world.known));
        if (i >= 3 && weir_users_now_ns() - begun_ns < 1000 * MS)
            assert_true(world_contains(&token, &lost.places[0], &world.known));
        clean = token.count == 1 && i >= 3 ? clean + 1 : 0;
        assert_true(weir_users_now_ns() - begun_ns < 20000 * MS);
        usleep(1000);
    }
    weir_users_close(users);
}

static void users__memory_is_bounded_in_users_and_bytes(void **state)
{
    struct world world;
    struct weir_users *users = opened(&world, 100000);
    struct weir_session_token seen = at(1, 1400);
    struct weir_users_stats stats;
    (void)state;
    for (unsigned i = 0; i < 130000; i++)
        assert_int_equal(weir_users_add(users, &i, sizeof i, NULL, &seen, NULL), 0);
    weir_users_stats(users, &stats);
    assert_in_range(stats.users, 95000, 100000);
    assert_int_equal(stats.users + stats.evicted, 130000);
    assert_in_range(stats.bytes / 100000, 88, 104);
    weir_users_close(users);
}

static void users__arguments_are_checked(void **state)
{
    struct world world;
    struct weir_users *users = NULL;
    struct weir_fault fault;
    struct weir_session_token token = at(1, 1);
    char name[WEIR_SESSION_ID_MAX + 1] = { 0 };
    (void)state;
    struct weir_users_options options = { 0 };
    assert_int_equal(weir_users_open(&options, &users, &fault), WEIR_EINVAL);
    assert_string_equal(fault.field, "newest");
    options.newest = world_newest;
    options.users_max = WEIR_USERS_MAX + UINT64_C(1);
    assert_int_equal(weir_users_open(&options, &users, &fault), WEIR_ERANGE);
    options.users_max = 0;
    options.ttl_ns = 1;
    assert_int_equal(weir_users_open(&options, &users, &fault), WEIR_ERANGE);
    options.ttl_ns = 0;
    options.timeout_ns = UINT64_MAX;
    assert_int_equal(weir_users_open(&options, &users, &fault), WEIR_ERANGE);
    options.timeout_ns = 0;
    options.url = "mysql://root:geheim@here";
    assert_int_equal(weir_users_open(&options, &users, &fault), WEIR_EINVAL);
    assert_null(strstr(fault.text, "geheim"));
    users = opened(&world, 1);
    assert_int_equal(weir_users_get(users, "", 0, NULL, &token), WEIR_ERANGE);
    assert_int_equal(weir_users_add(users, name, sizeof name, NULL, &token, NULL), WEIR_ERANGE);
    assert_int_equal(weir_users_add(users, name, sizeof name - 1, NULL, &token, NULL), 0);
    weir_users_close(users);
    weir_users_close(NULL);
}

/* ---- the floor ---- */

static void floor__a_loss_is_forgotten_after_two_generations_and_nothing_else_is(void **state)
{
    struct world world;
    struct weir_users_floor floor;
    struct weir_session_token lost = at(1, 1400), token;
    world_init(&world);
    world.position = 1400;
    struct weir_users_options options = { .ttl_ns = 30 * MS, .newest = world_newest, .context = &world };
    (void)state;
    assert_int_equal(weir_users_floor_init(&floor, &options), 0);
    world_fail_over(&world, 200);
    weir_users_floor_keep(&floor, &lost, &world.known);
    assert_int_equal(weir_users_floor_get(&floor, 0, UINT64_MAX, &world.known, &token), 0);
    assert_int_equal(token.count, 2);
    uint64_t begun_ns = weir_users_now_ns();
    do {
        floor.tended_ns = 0;
        world.position += 8;
        weir_users_floor_tend(&floor, 0, UINT64_MAX);
        assert_int_equal(weir_users_floor_get(&floor, 0, UINT64_MAX, &world.known, &token), 0);
        if (weir_users_now_ns() - begun_ns < 30 * MS)
            assert_true(world_contains(&token, &lost.places[0], &world.known));
    } while (token.count == 2);
    /* The base that came with the turn is of after it. */
    assert_true(floor.base_ns - begun_ns >= 30 * MS);
    assert_in_range(token.places[0].position, world.position - 8, world.position);
    weir_users_floor_deinit(&floor);
}

static void floor__the_primary_is_down_and_nothing_is_given_up(void **state)
{
    struct world world;
    struct weir_users_floor floor;
    struct weir_session_token lost = at(1, 1400), token;
    world_init(&world);
    world.position = 1400;
    struct weir_users_options options = { .ttl_ns = MS, .newest = world_newest, .context = &world };
    (void)state;
    assert_int_equal(weir_users_floor_init(&floor, &options), 0);
    world_fail_over(&world, 200);
    assert_int_equal(weir_users_floor_get(&floor, 0, UINT64_MAX, &world.known, &token), 0);
    weir_users_floor_keep(&floor, &lost, &world.known);
    world.down = true;
    for (int i = 0; i < 5; i++) {
        uint64_t until_ns = weir_users_now_ns() + 2 * MS;
        while (weir_users_now_ns() < until_ns)
            continue;
        floor.tended_ns = 0;
        weir_users_floor_tend(&floor, 0, UINT64_MAX);
        assert_int_equal(weir_users_floor_get(&floor, 0, UINT64_MAX, &world.known, &token), 0);
        assert_true(world_contains(&token, &lost.places[0], &world.known));
    }
    weir_users_floor_deinit(&floor);
}

/* ---- everything at once ---- */

#define STORM_THREADS 4
#define STORM_USERS 400

struct storm {
    struct world world;
    struct weir_users *users;
    struct seen_list lists[STORM_USERS];
    uint64_t seed;
    unsigned steps;
    _Atomic unsigned wrong, failovers, errors;
};

struct storm_thread {
    struct storm *storm;
    unsigned number;
    pthread_t thread;
};

static void storm_add(struct storm *storm, struct test_random *random, uint32_t user)
{
    struct weir_session_token seen = world_see(&storm->world, random), token;
    struct weir_known known = world_known(&storm->world);
    int error = weir_users_add(storm->users, &user, sizeof user, test_random_below(random, 8) ? &known : NULL, &seen,
                               &token);
    if (error == 0) {
        storm->wrong += !world_contains(&token, &seen.places[0], &known);
        seen_add(&storm->lists[user], &seen);
    }
    storm->errors += error != 0;
}

static void storm_get(struct storm *storm, struct test_random *random, uint32_t user)
{
    struct weir_session_token token;
    struct weir_known known = world_known(&storm->world);
    size_t count = seen_count(&storm->lists[user]);
    int error = weir_users_get(storm->users, &user, sizeof user, test_random_below(random, 8) ? &known : NULL, &token);
    known = world_known(&storm->world);
    if (error == 0)
        storm->wrong += (unsigned)seen_missing(&storm->lists[user], count, &token, &known);
    storm->errors += error != 0;
}

static void *storm_run(void *context)
{
    struct storm_thread *self = context;
    struct storm *storm = self->storm;
    struct test_random random = { storm->seed + 1000 * self->number };
    for (unsigned i = 0; i < storm->steps; i++) {
        /* Some come again and again, most are a flood. */
        uint32_t user = (uint32_t)test_random_below(&random, test_random_below(&random, 3) ? STORM_USERS : 8);
        if (test_random_below(&random, 2) == 0)
            storm_add(storm, &random, user);
        else
            storm_get(storm, &random, user);
        if (self->number == 0 && i % (storm->steps / 4) == storm->steps / 8) {
            world_fail_over(&storm->world, test_random_below(&random, 2) ? 8 * test_random_below(&random, 40) : 0);
            storm->failovers++;
        }
    }
    return NULL;
}

static void users__a_storm_forgets_nothing(void **state)
{
    static struct storm storm;
    struct storm_thread threads[STORM_THREADS];
    uint64_t seed = test_random_seed();
    (void)state;
    for (unsigned round = 0; round < 12; round++) {
        struct weir_users_stats stats;
        memset(&storm, 0, sizeof storm);
        for (unsigned i = 0; i < STORM_USERS; i++)
            pthread_mutex_init(&storm.lists[i].lock, NULL);
        storm.users = opened(&storm.world, 1 + 20 * round);
        storm.seed = seed + round;
        storm.steps = 1500;
        for (unsigned i = 0; i < STORM_THREADS; i++) {
            threads[i] = (struct storm_thread){ .storm = &storm, .number = i };
            assert_int_equal(pthread_create(&threads[i].thread, NULL, storm_run, &threads[i]), 0);
        }
        for (unsigned i = 0; i < STORM_THREADS; i++)
            pthread_join(threads[i].thread, NULL);
        weir_users_stats(storm.users, &stats);
        assert_int_equal(storm.wrong, 0);
        assert_int_equal(storm.errors, 0);
        assert_true(stats.evicted > 500 && stats.users <= 1 + 20 * round);
        weir_users_close(storm.users);
        for (unsigned i = 0; i < STORM_USERS; i++)
            free(storm.lists[i].places);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(users__nobody_has_seen_nothing_while_the_primary_is_silent),
        cmocka_unit_test(users__an_empty_answer_of_the_primary_is_none),
        cmocka_unit_test(users__a_stranger_has_the_floor_and_a_primary_must_settle_it),
        cmocka_unit_test(users__a_stranger_is_told_of_no_loss_after_a_failover),
        cmocka_unit_test(users__a_primary_learned_with_the_answer_is_not_asked_again),
        cmocka_unit_test(users__a_late_message_lowers_nothing),
        cmocka_unit_test(users__who_is_evicted_goes_into_the_floor),
        cmocka_unit_test(users__a_loss_is_told_to_the_evicted_too),
        cmocka_unit_test(users__accept_replaces_only_what_it_was_shown),
        cmocka_unit_test(users__what_cannot_be_kept_raises_the_floor),
        cmocka_unit_test(users__strangers_do_not_carry_a_loss_on),
        cmocka_unit_test(users__memory_is_bounded_in_users_and_bytes),
        cmocka_unit_test(users__arguments_are_checked),
        cmocka_unit_test(floor__a_loss_is_forgotten_after_two_generations_and_nothing_else_is),
        cmocka_unit_test(floor__the_primary_is_down_and_nothing_is_given_up),
        cmocka_unit_test(users__a_storm_forgets_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
