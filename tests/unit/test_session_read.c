/* SPDX-License-Identifier: Apache-2.0
 *
 * One session over servers that stand where the test put them: where it reads, whom it asks, for how long it waits and
 * what it says. */
#include "session_stand.h"

/* ---- who is read ---- */

/* Whatever the strategy: what was read at one that the others left behind could be read nowhere else. */
static void read__is_of_no_standby_that_the_leader_left_behind(void **state)
{
    static const enum weir_session_strategy all[] = { WEIR_SESSION_TRACKED, WEIR_SESSION_STICKY };
    (void)state;
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        begin(2);
        fork_off();
        stand(0, primary(2, 5, 400));
        stand(1, standby(1, 112)); /* it went on after the fork */
        open_at(all[i], WEIR_BEHIND_LEADER, (struct weir_place){ 0 });
        expect_read("a", true, 0);
        end();
        stand(1, standby(1, 104)); /* it follows yet */
        open_at(all[i], WEIR_BEHIND_LEADER, (struct weir_place){ 0 });
        expect_read("b", false, 0);
        end();
        stand(1, standby(2, 400));
        open_at(all[i], WEIR_BEHIND_LEADER, (struct weir_place){ 0 });
        expect_read("b", false, 0);
        end();
        world.servers[1].polled.branch = 21; /* of another promotion to timeline 2 */
        poll(1);
        open_at(all[i], WEIR_BEHIND_LEADER, (struct weir_place){ 0 });
        expect_read("a", true, 0);
        end();
    }
}

/* A session at the leader has waited for the replicas when it went there. */
static void read__at_the_leader_waits_no_more_and_goes_as_soon_as_a_replica_is_far_enough(void **state)
{
    (void)state;
    begin(2);
    stand(0, primary(1, 5, 400));
    stand(1, standby(1, 80));
    open_at(WEIR_SESSION_TRACKED, WEIR_BEHIND_LEADER, (struct weir_place){ .timeline = 1, .position = 200 });
    uint64_t begun_ns = world.now_ns;
    struct weir_read read;
    assert_int_equal(weir_session_read(session, &read), 0);
    assert_true(read.leader && read.waited_ns > 0 && read.waited_ns <= world.now_ns - begun_ns);
    unsigned waits = world.waits;
    for (int i = 0; i < 3; i++) {
        poll(1);
        expect_read("a", true, 0);
    }
    assert_int_equal(world.waits, waits);
    stand(1, standby(1, 400));
    expect_read("b", false, 0);
    assert_int_equal(world.waits, waits);
    end();
}

/* ---- the check ---- */

/* What a standby shows the primary may not show yet: it is read once those that ran have ended. */
static void read__at_a_primary_awaits_the_commits_that_standbys_show(void **state)
{
    const struct weir_place seen = { .timeline = 1, .position = 200, .standby = true };
    (void)state;
    for (unsigned settles = 0; settles < 2; settles++) {
        begin(2);
        stand(0, primary(1, 5, 400));
        world.servers[0].now.settled = false;
        world.servers[0].settles = settles;
        stand(1, standby(1, 80));
        open_at(WEIR_SESSION_TRACKED, WEIR_BEHIND_OTHER, seen);
        struct weir_read read;
        if (settles)
            assert_true(weir_session_read(session, &read) == 0 && read.leader);
        else
            expect_refused(WEIR_EBEHIND, "a", "behind");
        assert_true(world.servers[0].settling > 0);
        assert_int_equal(session->token.places[0].standby, !settles);
        end();
    }
    begin(1); /* alone, it showed all that was shown */
    stand(0, primary(1, 5, 400));
    world.servers[0].now.settled = false;
    open_at(WEIR_SESSION_TRACKED, WEIR_BEHIND_ERROR, seen);
    expect_read("a", true, 0);
    assert_int_equal(world.servers[0].settling, 0);
    end();
}

/* A crash took it back; the poller has not noticed. The connection says so, and it is named. */
static void read__of_what_a_crash_took_back_is_lost(void **state)
{
    (void)state;
    begin(2);
    stand(0, primary(1, 5, 400));
    stand(1, standby(1, 80));
    world.servers[0].now = primary(1, 6, 120);
    open_at(WEIR_SESSION_TRACKED, WEIR_BEHIND_OTHER, (struct weir_place){ .timeline = 1, .position = 200 });
    expect_refused(WEIR_ECUTOFF, "a", "cut off");
    end();
}

/* The same at one that others have left behind is its own loss. */
static void read__of_what_one_on_an_old_timeline_lost_goes_elsewhere(void **state)
{
    (void)state;
    begin(3);
    fork_off();
    stand(0, primary(2, 6, 400));
    stand(1, standby(2, 400));
    stand(2, standby(2, 400));
    open_at(WEIR_SESSION_TRACKED, WEIR_BEHIND_LEADER, (struct weir_place){ .timeline = 1, .position = 104, .run = 5 });
    weir_known_run(&world.snapshot.known, SYSTEM, 1, 5, 104);
    struct weir_read read;
    assert_int_equal(weir_session_read(session, &read), 0);
    unsigned at = (unsigned)(read.server[0] - 'a');
    end();
    /* The server where this user goes first was rebuilt, and is a primary of timeline 1 that crashed. */
    world.servers[at].now = primary(1, 9, 80);
    open_at(WEIR_SESSION_TRACKED, WEIR_BEHIND_LEADER, (struct weir_place){ .timeline = 1, .position = 104 });
    expect_read(at == 1 ? "c" : "b", false, 0);
    assert_true(world.servers[at].asked > 0);
    end();
}

/* Who stands still is there for a stale read; who is down is there for nobody. */
static void read__where_nobody_can_be_read_names_one_that_stands_still_first(void **state)
{
    static const struct {
        unsigned frozen, down; /* bits of the servers */
        const char *server, *text;
    } cases[] = {
        { 0, 0, "", "no server answers" }, { 0, 7, "a", "refused" },      { 4, 3, "c", "stands still" },
        { 6, 1, "b", "stands still" },     { 1, 6, "a", "stands still" },
    };
    (void)state;
    for (size_t c = 0; c < sizeof(cases) / sizeof(cases[0]); c++) {
        begin(3);
        for (unsigned i = 0; i < 3; i++) {
            bool frozen = cases[c].frozen >> i & 1, down = cases[c].down >> i & 1;
            world.snapshot.servers[i].frozen = frozen;
            strcpy(world.snapshot.states[i].fault, frozen ? "it stands still" : down ? "refused" : "");
        }
        open_at(WEIR_SESSION_TRACKED, WEIR_BEHIND_LEADER, (struct weir_place){ .timeline = 1, .position = 104 });
        expect_refused(WEIR_EDOWN, cases[c].server, cases[c].text);
        end();
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(read__is_of_no_standby_that_the_leader_left_behind),
        cmocka_unit_test(read__at_the_leader_waits_no_more_and_goes_as_soon_as_a_replica_is_far_enough),
        cmocka_unit_test(read__at_a_primary_awaits_the_commits_that_standbys_show),
        cmocka_unit_test(read__of_what_a_crash_took_back_is_lost),
        cmocka_unit_test(read__of_what_one_on_an_old_timeline_lost_goes_elsewhere),
        cmocka_unit_test(read__where_nobody_can_be_read_names_one_that_stands_still_first),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
