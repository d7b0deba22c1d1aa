/* SPDX-License-Identifier: Apache-2.0
 *
 * Verdicts over random histories, against the sets of records that were seen and are shown (session_world.h). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "session_world.h"

enum { WORLDS = 600, STEPS = 160, SEEN = 8 };

static const char *name_of(enum weir_place_verdict verdict)
{
    return weir_place_verdict_name(verdict);
}

static bool refuses(enum weir_place_verdict verdict)
{
    return verdict == WEIR_PLACE_LOST || verdict == WEIR_PLACE_DIVERGED;
}

struct counts {
    unsigned of[6], strict_run, strict_half, slow_run, slow_half, slow_settle, slow_unknown;
};

/* All that there is to know. NULL: more timelines than are kept. */
static const struct weir_known *all_known(const struct world *world, struct weir_known *known)
{
    *known = world->known;
    for (uint32_t timeline = 1; timeline <= world->newest; timeline++)
        weir_known_history(known, 7, &world->histories[timeline]);
    for (unsigned i = 0; i < WORLD_SERVERS; i++)
        if (world->servers[i].primary)
            weir_known_run(known, 7, world->servers[i].timeline, 0, world->servers[i].run,
                           world_end(world, &world->servers[i], world->servers[i].flushed));
    return world->newest <= WEIR_HISTORIES_MAX + 1 ? known : NULL;
}

/* OK: all that was seen is there. LOST, DIVERGED: it never will be, but where knowledge was missing. */
static void expect_right(struct world *world, const struct world_seen *seen, const struct world_server *server,
                         const struct weir_shown *shown, enum weir_place_verdict verdict, struct counts *counts)
{
    struct world_set visible = world_visible(server);
    counts->of[verdict]++;
    if (verdict == WEIR_PLACE_OK && !set_within(&seen->saw, &visible))
        fail_msg(
            "OK, and something that was seen is not shown: timeline %u position %llx run %llu standby %d at %u %llx",
            seen->place.timeline, (unsigned long long)seen->place.position, (unsigned long long)seen->place.run,
            seen->place.standby, shown->timeline, (unsigned long long)shown->position);
    if (!refuses(verdict) || !world_may_ever(world, server, shown->timeline, &seen->implied))
        return;
    struct weir_place flushed = seen->place, whole = seen->place;
    flushed.run = 0;
    whole.position &= ~WEIR_POSITION_NEXT;
    if (seen->place.run != 0 && !refuses(weir_place_compare(&flushed, shown, &world->known)))
        counts->strict_run++;
    else if (seen->place.position & WEIR_POSITION_NEXT && !refuses(weir_place_compare(&whole, shown, &world->known)))
        counts->strict_half++;
    else
        fail_msg("%s, and it may be shown: timeline %u position %llx run %llu standby %d at %u %llx", name_of(verdict),
                 seen->place.timeline, (unsigned long long)seen->place.position, (unsigned long long)seen->place.run,
                 seen->place.standby, shown->timeline, (unsigned long long)shown->position);
}

/* Whoever knows all says OK where all is shown, but where the place itself says less than was seen. */
static void expect_ready(struct world *world, const struct world_seen *seen, const struct world_server *server,
                         const struct weir_shown *shown, struct counts *counts)
{
    struct weir_known full;
    const struct weir_known *known = all_known(world, &full);
    struct world_set all = set_of(server, server->primary ? server->count : server->replayed);
    if (!set_within(&seen->implied, &all))
        return;
    enum weir_place_verdict verdict = weir_place_compare(&seen->place, shown, known ? known : &full);
    if (verdict == WEIR_PLACE_OK)
        return;
    if (!known)
        counts->slow_unknown++;
    else if (seen->place.run != 0)
        counts->slow_run++;
    else if (shown->primary && !shown->settled && (seen->place.standby || seen->place.timeline > shown->timeline))
        counts->slow_settle++;
    else if (seen->place.position & WEIR_POSITION_NEXT)
        counts->slow_half++;
    else
        fail_msg("%s, and all is shown: timeline %u position %llx standby %d at %u %llx", name_of(verdict),
                 seen->place.timeline, (unsigned long long)seen->place.position, seen->place.standby, shown->timeline,
                 (unsigned long long)shown->position);
}

static void compare_all(struct world *world, const struct world_seen *seen, unsigned count, struct counts *counts)
{
    for (unsigned i = 0; i < WORLD_SERVERS; i++) {
        struct weir_shown shown = world_shown(world, &world->servers[i]);
        for (unsigned j = 0; j < count; j++) {
            enum weir_place_verdict verdict = weir_place_compare(&seen[j].place, &shown, &world->known);
            expect_right(world, &seen[j], &world->servers[i], &shown, verdict, counts);
            expect_ready(world, &seen[j], &world->servers[i], &shown, counts);
        }
    }
}

static void history__verdicts_are_never_wrong(void **state)
{
    uint64_t seed = test_random_seed();
    struct counts counts = { { 0 }, 0, 0, 0, 0, 0, 0 };
    static struct world world;
    (void)state;
    for (unsigned run = 0; run < WORLDS; run++) {
        struct world_seen seen[SEEN];
        unsigned count = 0;
        world_begin(&world, seed + run);
        for (unsigned step = 0; step < STEPS; step++) {
            world_step(&world);
            if (world_chance(&world, 30))
                world_learn(&world, &world.known, &world.servers[world_below(&world, WORLD_SERVERS)]);
            if (world_chance(&world, 10)) {
                unsigned at = count < SEEN ? count++ : world_below(&world, SEEN);
                seen[at] = world_read(&world, &world.servers[world_below(&world, WORLD_SERVERS)]);
                assert_true(set_within(&seen[at].saw, &seen[at].implied));
            }
            if (step % 4 == 0)
                compare_all(&world, seen, count, &counts);
        }
    }
    printf("ok %u behind %u lost %u diverged %u unproven %u; stricter than need be: run %u half %u; not yet: run %u "
           "half %u settled %u forgotten %u\n",
           counts.of[WEIR_PLACE_OK], counts.of[WEIR_PLACE_BEHIND], counts.of[WEIR_PLACE_LOST],
           counts.of[WEIR_PLACE_DIVERGED], counts.of[WEIR_PLACE_UNPROVEN], counts.strict_run, counts.strict_half,
           counts.slow_run, counts.slow_half, counts.slow_settle, counts.slow_unknown);
    for (unsigned i = 0; i < 6; i++)
        assert_true(i == WEIR_PLACE_FOREIGN || counts.of[i] > 1000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(history__verdicts_are_never_wrong),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
