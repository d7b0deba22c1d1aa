/* SPDX-License-Identifier: Apache-2.0
 *
 * Merging: never lowers, and does not depend on the order. Over random histories (session_world.h). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "session_world.h"
#include "weir/error.h"

enum { WORLDS = 400, STEPS = 160, SEEN = 8 };

/* What was seen so far, by anybody. */
struct readers {
    struct world_seen seen[SEEN];
    unsigned count;
    unsigned merged, apart, ok;
};

static bool equal_places(const struct weir_place *a, const struct weir_place *b)
{
    return a->system == b->system && a->position == b->position && a->run == b->run && a->timeline == b->timeline &&
           a->standby == b->standby;
}

static bool is_ok(const struct weir_place *place, const struct weir_shown *shown, const struct world *world)
{
    return weir_place_compare(place, shown, &world->known) == WEIR_PLACE_OK;
}

/* A merged place may be proven by a history that the earlier part's server alone does not need, and has not told. */
static bool may_be_ok(const struct weir_place *place, const struct weir_shown *shown, const struct world *world)
{
    return is_ok(place, shown, world) || weir_place_compare(place, shown, &world->known) == WEIR_PLACE_UNPROVEN;
}

static bool token_ok(const struct weir_session_token *token, const struct weir_shown *shown, const struct world *world)
{
    return weir_session_token_compare(token, shown, &world->known) == WEIR_PLACE_OK;
}

static bool token_may_be_ok(const struct weir_session_token *token, const struct weir_shown *shown,
                            const struct world *world)
{
    return token_ok(token, shown, world) ||
           weir_session_token_compare(token, shown, &world->known) == WEIR_PLACE_UNPROVEN;
}

static const struct world_seen *pick(struct world *world, const struct readers *readers)
{
    return &readers->seen[world_below(world, readers->count)];
}

/* Runs a random world, and `body` whenever something was read. */
static void run_worlds(void (*body)(struct world *world, struct readers *readers))
{
    uint64_t seed = test_random_seed();
    static struct world world;
    struct readers readers = { .count = 0 };
    for (unsigned run = 0; run < WORLDS; run++) {
        readers.count = 0;
        world_begin(&world, seed + run);
        for (unsigned step = 0; step < STEPS; step++) {
            world_step(&world);
            if (world_chance(&world, 30))
                world_learn(&world, &world.known, &world.servers[world_below(&world, WORLD_SERVERS)]);
            if (!world_chance(&world, 15))
                continue;
            unsigned at = readers.count < SEEN ? readers.count++ : world_below(&world, SEEN);
            readers.seen[at] = world_read(&world, &world.servers[world_below(&world, WORLD_SERVERS)]);
            body(&world, &readers);
        }
    }
    printf("merged %u, apart %u, ok %u\n", readers.merged, readers.apart, readers.ok);
    assert_true(readers.ok > 1000);
}

/* Where the merged place is OK both parts are, and on a standby the other way round. */
static void check_pair(struct world *world, struct readers *readers)
{
    const struct weir_place *a = &pick(world, readers)->place, *b = &pick(world, readers)->place;
    struct weir_place one = *a, other = *a;
    int error = weir_place_merge(a, b, &world->known, &one);
    assert_int_equal(weir_place_merge(b, a, &world->known, &other), error);
    assert_true(equal_places(&one, &other));
    if (error != 0) {
        assert_int_equal(error, WEIR_EAGAIN);
        readers->apart++;
        return;
    }
    readers->merged++;
    for (unsigned i = 0; i < WORLD_SERVERS; i++) {
        struct weir_shown shown = world_shown(world, &world->servers[i]);
        bool parts = is_ok(a, &shown, world) && is_ok(b, &shown, world), whole = is_ok(&one, &shown, world);
        readers->ok += whole;
        if (whole && (!may_be_ok(a, &shown, world) || !may_be_ok(b, &shown, world)))
            fail_msg("it lowers: %u %llx run %llu, %u %llx run %llu", a->timeline, (unsigned long long)a->position,
                     (unsigned long long)a->run, b->timeline, (unsigned long long)b->position,
                     (unsigned long long)b->run);
        assert_true(whole || !parts || shown.primary);
    }
}

static void merge__of_two_places_never_lowers_and_commutes(void **state)
{
    (void)state;
    run_worlds(check_pair);
}

/* Three tokens of up to three places each. What they saw is the union. */
static struct weir_session_token random_token(struct world *world, const struct readers *readers, struct world_set *saw)
{
    struct weir_session_token token = { .wrote_ns = world_below(world, 9), .clock = world_below(world, 9) };
    for (unsigned i = world_below(world, 4); i > 0; i--) {
        const struct world_seen *seen = pick(world, readers);
        assert_int_equal(weir_session_token_add(&token, &seen->place, &world->known), 0);
        for (unsigned j = 0; j < WORLD_RECORDS / 64; j++)
            saw->bits[j] |= seen->saw.bits[j];
    }
    return token;
}

static struct weir_session_token merged(const struct world *world, const struct weir_session_token *a,
                                        const struct weir_session_token *b, bool *full)
{
    struct weir_session_token token = *a;
    int error = weir_session_token_merge(&token, b, &world->known);
    assert_true(error == 0 || error == WEIR_ELIMIT);
    if (error != 0)
        assert_memory_equal(&token, a, sizeof token);
    *full |= error != 0;
    return token;
}

static void check_tokens(struct world *world, struct readers *readers)
{
    struct world_set saw = { { 0 } };
    bool full = false;
    struct weir_session_token a = random_token(world, readers, &saw), b = random_token(world, readers, &saw),
                              c = random_token(world, readers, &saw);
    struct weir_session_token ab = merged(world, &a, &b, &full), bc = merged(world, &b, &c, &full);
    struct weir_session_token left = merged(world, &ab, &c, &full), right = merged(world, &a, &bc, &full);
    struct weir_session_token ba = merged(world, &b, &a, &full), twice = merged(world, &left, &left, &full);
    if (full)
        return;
    assert_int_equal(left.wrote_ns, right.wrote_ns);
    assert_true(left.wrote_ns >= a.wrote_ns && left.wrote_ns >= b.wrote_ns && left.wrote_ns >= c.wrote_ns);
    assert_true(left.clock >= a.clock && left.clock >= b.clock && left.clock >= c.clock);
    assert_int_equal(left.clock, right.clock);
    readers->merged += left.count < a.count + b.count + c.count;
    readers->apart += left.count > 1;
    for (unsigned i = 0; i < WORLD_SERVERS; i++) {
        struct weir_shown shown = world_shown(world, &world->servers[i]);
        struct world_set visible = world_visible(&world->servers[i]);
        bool whole = token_ok(&left, &shown, world);
        bool parts = token_may_be_ok(&a, &shown, world) && token_may_be_ok(&b, &shown, world) &&
                     token_may_be_ok(&c, &shown, world);
        readers->ok += whole;
        assert_true(!whole || parts);
        assert_true(!whole || set_within(&saw, &visible));
        assert_int_equal(token_ok(&twice, &shown, world), whole);
        assert_int_equal(token_ok(&ab, &shown, world), token_ok(&ba, &shown, world));
        shown.settled = shown.primary; /* whether it has to be may depend on the order: a needless wait, at worst */
        assert_int_equal(token_ok(&right, &shown, world), token_ok(&left, &shown, world));
    }
}

static void merge__of_tokens_never_lowers_commutes_associates_and_repeats(void **state)
{
    (void)state;
    run_worlds(check_tokens);
}

#define AT(t, p, r)                                                                                                    \
    {                                                                                                                  \
        .system = 7, .timeline = t, .position = p, .run = r                                                            \
    }

/* Timeline 2 left 1 at 104; run 5 of timeline 1 was seen to have flushed 80. */
static void merge__keeps_apart_what_may_be_lost_alone(void **state)
{
    static const struct {
        struct weir_place a, b, merged; /* timeline 0: kept apart */
    } cases[] = {
        { AT(1, 40, 0), AT(1, 48, 0), AT(1, 48, 0) },
        { AT(1, 48, 0), AT(1, 49, 0), AT(1, 49, 0) },
        { AT(1, 104, 0), AT(2, 112, 0), AT(2, 112, 0) },
        { AT(1, 96, 0), AT(2, 88, 0), AT(2, 96, 0) },
        { AT(1, 112, 0), AT(2, 112, 0), { 0 } },
        { AT(1, 112, 0), AT(2, 104, 0), AT(1, 112, 0) },
        { AT(1, 105, 0), AT(2, 112, 0), { 0 } },
        { AT(1, 88, 6), AT(1, 96, 0), { 0 } },
        { AT(1, 88, 6), AT(1, 88, 0), AT(1, 88, 6) },
        { AT(1, 88, 6), AT(1, 80, 0), AT(1, 88, 6) },
        { AT(1, 88, 6), AT(1, 96, 6), AT(1, 96, 6) },
        { AT(1, 88, 6), AT(1, 96, 7), { 0 } },
        { AT(1, 88, 6), AT(1, 88, 7), { 0 } },
        { AT(1, 88, 6), AT(2, 112, 0), { 0 } },
        { AT(1, 88, 6), AT(2, 80, 0), AT(1, 88, 6) },
        { AT(1, 80, 5), AT(1, 96, 0), AT(1, 96, 0) },
        { AT(1, 80, 5), AT(2, 112, 6), AT(2, 112, 6) },
        { AT(1, 88, 6), AT(2, 112, 6), { 0 } },
        { AT(1, 80, 0), AT(3, 80, 0), { 0 } },
        { AT(3, 80, 0), AT(3, 88, 0), AT(3, 88, 0) },
        { AT(1, 80, 0), { .system = 8, .timeline = 1, .position = 80 }, { 0 } },
    };
    struct weir_known known = { 0 };
    (void)state;
    weir_known_history(&known, 7, &(struct weir_history){ .timeline = 2, .count = 1, .ancestors = { { 1, 104, 0 } } });
    weir_known_run(&known, 7, 1, 0, 5, 80);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct weir_place merged = { 0 }, expected = cases[i].merged;
        int error = weir_place_merge(&cases[i].a, &cases[i].b, &known, &merged);
        expected.standby = merged.timeline == 1 && cases[i].b.timeline == 2;
        if (!equal_places(&merged, &expected) || (error == 0) != (expected.timeline != 0))
            fail_msg("case %zu: %u %llx run %llu", i, merged.timeline, (unsigned long long)merged.position,
                     (unsigned long long)merged.run);
    }
}

static void merge__keeps_the_flag_of_either(void **state)
{
    const struct weir_place standby = { .system = 7, .timeline = 1, .position = 80, .standby = true };
    const struct weir_place later = AT(1, 88, 0), earlier = AT(1, 72, 0);
    struct weir_place merged;
    (void)state;
    assert_int_equal(weir_place_merge(&standby, &later, NULL, &merged), 0);
    assert_true(merged.standby && merged.position == 88);
    assert_int_equal(weir_place_merge(&earlier, &standby, NULL, &merged), 0);
    assert_true(merged.standby && merged.position == 80);
    assert_int_equal(weir_place_merge(&earlier, &later, NULL, &merged), 0);
    assert_false(merged.standby);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(merge__keeps_apart_what_may_be_lost_alone),
        cmocka_unit_test(merge__keeps_the_flag_of_either),
        cmocka_unit_test(merge__of_two_places_never_lowers_and_commutes),
        cmocka_unit_test(merge__of_tokens_never_lowers_commutes_associates_and_repeats),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
