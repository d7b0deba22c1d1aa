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
    assert_true(read.leader && read.waited_ms > 0 && read.waited_ms * 1000000 < (double)(world.now_ns - begun_ns + 1));
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

/* Whether one follows yet is told by the history alone, however far the leader was when it was asked. */
static void read__is_of_a_standby_at_the_fork_that_the_leader_was_asked_before(void **state)
{
    (void)state;
    begin(2);
    fork_off();
    stand(0, primary(2, 5, 88));
    stand(1, standby(1, 104));
    open_at(WEIR_SESSION_STICKY, WEIR_BEHIND_LEADER, (struct weir_place){ 0 });
    expect_read("b", false, 0);
    end();
}

/* That it waited once, before it read at the leader, is no reason to go back there without a wait. */
static void read__waits_anew_when_it_has_left_the_leader(void **state)
{
    struct weir_read read;
    (void)state;
    begin(3);
    stand(0, primary(1, 5, 400));
    stand(1, standby(1, 80));
    stand(2, standby(1, 80));
    open_at(WEIR_SESSION_TRACKED, WEIR_BEHIND_LEADER, (struct weir_place){ .timeline = 1, .position = 200 });
    session->reads_do_not_move = true;
    assert_int_equal(weir_session_read(session, &read), 0);
    assert_true(read.leader && read.waited_ms > 0);
    stand(1, standby(1, 200));
    expect_read("b", false, 0);
    world.servers[1].polled = (struct weir_shown){ 0 }; /* it is not to be had any more */
    poll(1);
    assert_int_equal(weir_session_read(session, &read), 0);
    assert_true(read.leader && read.waited_ms > 0);
    end();
}

/* It has waited for the replicas to show what it had seen by then, and no more than that. */
static void read__at_the_leader_waits_anew_for_what_it_has_seen_since(void **state)
{
    struct weir_place more = { .system = SYSTEM, .timeline = 1, .position = 208 };
    struct weir_read read;
    (void)state;
    begin(2);
    stand(0, primary(1, 5, 400));
    stand(1, standby(1, 80));
    open_at(WEIR_SESSION_TRACKED, WEIR_BEHIND_LEADER, (struct weir_place){ .timeline = 1, .position = 200 });
    session->reads_do_not_move = true;
    assert_int_equal(weir_session_read(session, &read), 0);
    expect_read("a", true, 0);
    assert_int_equal(weir_session_add(session, &world.snapshot.known, NULL, &more), 0);
    assert_int_equal(weir_session_read(session, &read), 0);
    assert_true(read.leader && read.waited_ms > 0);
    end();
}

/* ---- the check ---- */

/* What a standby shows the primary may not show yet: it is read once those that ran have ended. */
static void read__at_a_primary_awaits_the_commits_that_standbys_show(void **state)
{
    const struct weir_place seen = { .timeline = 1, .position = 200, .standby = true },
                            elsewhere = { .system = SYSTEM + 1, .timeline = 1, .position = 200, .standby = true };
    (void)state;
    for (unsigned settles = 0; settles < 2; settles++) {
        begin(2);
        stand(0, primary(1, 5, 400));
        world.servers[0].now.settled = false;
        world.servers[0].settles = settles;
        stand(1, standby(1, 80));
        open_at(WEIR_SESSION_TRACKED, WEIR_BEHIND_OTHER, seen);
        session->token.places[session->token.count++] = elsewhere;
        struct weir_read read;
        if (settles)
            assert_true(weir_session_read(session, &read) == 0 && read.leader);
        else
            expect_refused(WEIR_EBEHIND, "a", "behind");
        assert_true(world.servers[0].settling > 0);
        assert_int_equal(session->token.places[0].standby, !settles);
        assert_true(session->token.places[1].standby); /* of another system this primary proves nothing */
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
    weir_known_run(&world.snapshot.known, SYSTEM, 1, 0, 5, 104);
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

/* A history that is not known yet: its poller is asked, then the primary's, and the connection is judged anew. */
static void read__of_what_nothing_proves_has_the_pollers_learn(void **state)
{
    (void)state;
    for (unsigned by_leader = 0; by_leader < 2; by_leader++) {
        begin(2);
        stand(0, primary(2, 6, 400));
        stand(1, standby(1, 96));
        open_at(WEIR_SESSION_TRACKED, WEIR_BEHIND_LEADER, (struct weir_place){ .timeline = 1, .position = 96 });
        world.servers[1].polled = world.servers[1].now = standby(2, 400); /* it follows since */
        world.servers[!by_leader].teaches = true;
        expect_read("b", false, 0);
        assert_int_equal(world.servers[1].polls, 1);
        assert_int_equal(world.servers[0].polls, by_leader);
        end();
    }
}

/* ---- what it keeps ---- */

/* Nothing is asked for a read where the last one was, as long as nothing is new. */
static void read__again_asks_nobody(void **state)
{
    (void)state;
    begin(2);
    stand(0, primary(1, 5, 400));
    stand(1, standby(1, 80));
    world.servers[1].mute = true;
    world.servers[0].now.settled = false;
    world.servers[0].settles = true;
    open_at(WEIR_SESSION_TRACKED, WEIR_BEHIND_LEADER,
            (struct weir_place){ .timeline = 1, .position = 200, .standby = true });
    struct weir_read read;
    assert_true(weir_session_read(session, &read) == 0 && read.leader);
    unsigned asked = world.servers[0].asked, polls = world.servers[0].polls, settling = world.servers[0].settling;
    for (int i = 0; i < 3; i++)
        expect_read("a", true, 0);
    assert_int_equal(world.servers[0].asked, asked);
    /* What it was awaited for it goes on showing. */
    struct weir_place more = { .system = SYSTEM, .timeline = 1, .position = 208, .standby = true };
    assert_int_equal(weir_session_add(session, &world.snapshot.known, NULL, &more), 0);
    assert_true(weir_session_read(session, &read) == 0 && read.leader);
    assert_int_equal(world.servers[0].settling, settling);
    assert_true(asked > 0 && world.servers[0].polls == polls);
    assert_int_equal(world.servers[0].counted, 5);
    end();
}

/* Its poller has not heard yet how far it is; the connection has shown it. */
static void read__at_a_standby_again_asks_no_poller(void **state)
{
    (void)state;
    begin(2);
    stand(0, primary(1, 5, 400));
    stand(1, standby(1, 80));
    world.servers[1].now = standby(1, 200);
    open_at(WEIR_SESSION_TRACKED, WEIR_BEHIND_LEADER, (struct weir_place){ 0 });
    expect_read("b", false, 0);
    struct weir_place shown = { .system = SYSTEM, .timeline = 1, .position = 200, .standby = true };
    assert_int_equal(weir_session_add(session, &world.snapshot.known, session->at, &shown), 0);
    poll(0); /* something is new */
    expect_read("b", false, 0);
    assert_int_equal(world.servers[1].polls, 0);
    end();
}

/* A write in between is on another connection; the one that read is kept. */
static void read__after_a_write_is_on_the_connection_that_read(void **state)
{
    struct pg_conn *conn;
    (void)state;
    begin(2);
    stand(0, primary(1, 5, 400));
    stand(1, standby(1, 400));
    open_at(WEIR_SESSION_TRACKED, WEIR_BEHIND_LEADER, (struct weir_place){ 0 });
    for (int i = 0; i < 3; i++) {
        expect_read("b", false, 0);
        assert_int_equal(weir_session_write(session, &conn), 0);
    }
    expect_read("b", false, 0);
    assert_int_equal(world.servers[0].taken, 1);
    assert_int_equal(world.servers[1].taken, 1);
    assert_int_equal(weir_session_write(session, &conn), 0);
    world.servers[1].breaks++; /* the one that is kept, while another is in use */
    struct weir_read read;
    assert_int_equal(weir_session_read(session, &read), 0);
    assert_int_equal(weir_link_state(&read.conn->link), WEIR_LINK_IDLE);
    expect_read("b", false, 0);
    world.servers[1].busy = true;
    expect_refused(WEIR_EBUSY, "b", "a transaction is open");
    world.servers[1].busy = false;
    assert_int_equal(weir_session_write(session, &conn), 0);
    /* What it showed has to be asked there, before another is read. */
    struct weir_place more = { .system = SYSTEM, .timeline = 1, .position = 480 };
    assert_int_equal(weir_session_add(session, &world.snapshot.known, NULL, &more), 0);
    stand(0, primary(1, 5, 480));
    world.servers[1].busy = true;
    expect_refused(WEIR_EBUSY, "b", "a transaction is open");
    end();
}

/* Where that connection breaks as it is asked what was written, its primary is asked over another one. */
static void read__after_a_write_that_broke_is_where_all_of_it_shows(void **state)
{
    struct pg_conn *conn;
    (void)state;
    begin(2);
    stand(0, primary(1, 5, 400));
    stand(1, standby(1, 400));
    open_at(WEIR_SESSION_TRACKED, WEIR_BEHIND_LEADER, (struct weir_place){ 0 });
    expect_read("b", false, 0);
    assert_int_equal(weir_session_write(session, &conn), 0);
    world.servers[0].last = world.servers[0].asked + 1;
    expect_read("b", false, 0);
    assert_int_equal(world.servers[0].taken, 2);
    assert_int_equal(session->token.places[0].position, 400);
    end();
}

/* Nor is anything read where what it wrote cannot be kept: it might not be shown there. */
static void read__after_a_write_that_has_no_room_in_the_token_is_refused(void **state)
{
    struct pg_conn *conn;
    (void)state;
    begin(2);
    stand(0, primary(1, 5, 400));
    stand(1, standby(1, 400));
    open_at(WEIR_SESSION_TRACKED, WEIR_BEHIND_LEADER, (struct weir_place){ 0 });
    expect_read("b", false, 0);
    assert_int_equal(weir_session_write(session, &conn), 0);
    for (unsigned i = 0; i < WEIR_SESSION_PLACES_MAX; i++)
        session->token.places[i] = (struct weir_place){ .system = SYSTEM + 1 + i, .timeline = 1, .position = 8 };
    session->token.count = WEIR_SESSION_PLACES_MAX;
    expect_refused(WEIR_ELIMIT, "token", "too many histories");
    end();
}

/* ---- who is shunned ---- */

/* Who could not be reached is not tried again before it was asked anew. */
static void read__tries_each_that_cannot_be_reached_once(void **state)
{
    (void)state;
    begin(4);
    for (unsigned i = 0; i < 4; i++) {
        stand(i, i ? standby(1, 400) : primary(1, 5, 400));
        world.servers[i].refuses = i % 2 ? WEIR_EDOWN : WEIR_EPROTO;
        world.servers[i].mute = true;
    }
    open_at(WEIR_SESSION_TRACKED, WEIR_BEHIND_LEADER, (struct weir_place){ 0 });
    expect_refused(WEIR_EDOWN, "r", "refused");
    for (unsigned i = 0; i < 4; i++)
        assert_int_equal(world.servers[i].tried, 1);
    end();
}

/* What stands first among the servers is left out like any other. */
static void read__is_of_no_zombie_wherever_it_stands(void **state)
{
    (void)state;
    for (unsigned is_primary = 0; is_primary < 2; is_primary++) {
        begin(3);
        fork_off();
        stand(0, is_primary ? primary(1, 4, 112) : standby(1, 112));
        stand(1, primary(2, 5, 400));
        stand(2, standby(2, 400));
        for (unsigned i = 0; i < 9; i++) {
            open_at(i % 2 ? WEIR_SESSION_TRACKED : WEIR_SESSION_STICKY, WEIR_BEHIND_LEADER, (struct weir_place){ 0 });
            session->id = i * UINT64_C(0x123456789abcdef1); /* another goes first */
            expect_read("c", false, 0);
            end();
        }
    }
}

/* ---- clocks ---- */

/* The application's clock has to be as far where it reads as the session's. One that does not tell it is closed. */
static void read__by_lamports_clock_is_where_the_clock_is_far_enough(void **state)
{
    (void)state;
    replicas.clock_query = (char[]){ "SELECT clock" };
    for (unsigned telling = 0; telling < 3; telling++) {
        static const uint64_t clocks[] = { 7, 6, 0 }; /* where it goes first: enough, less, nothing is told */
        struct weir_read read;
        begin(3);
        stand(0, primary(1, 5, 400));
        for (unsigned i = 1; i < 3; i++) {
            stand(i, standby(1, 400));
            world.servers[i].clock = world.snapshot.servers[i].clock = 7;
            world.servers[i].mute = true;
        }
        world.servers[0].clock = 9;
        open_at(WEIR_SESSION_LAMPORT, WEIR_BEHIND_LEADER, (struct weir_place){ 0 });
        assert_int_equal(weir_session_read(session, &read), 0);
        unsigned first = (unsigned)(read.server[0] - 'a');
        end();
        assert_true(first == 1 || first == 2);
        world.servers[first].clock = clocks[telling];
        world.servers[first].taken = 0;
        open_at(WEIR_SESSION_LAMPORT, WEIR_BEHIND_LEADER, (struct weir_place){ 0 });
        session->token.clock = 7;
        session->version++;
        assert_int_equal(weir_session_read(session, &read), 0);
        assert_int_equal(read.server[0] - 'a', telling ? 3 - first : first);
        assert_int_equal(world.servers[first].taken, 1);
        assert_int_equal(world.servers[first].dropped, telling == 2);
        assert_string_equal(session->fault.text, ""); /* what the first said is no matter any more */
        end();
    }
    /* Nowhere: it is said of the last that was asked. */
    static const char *const texts[] = { "its clock is behind", "does not tell its clock" };
    for (unsigned mute = 0; mute < 2; mute++) {
        begin(1);
        stand(0, primary(1, 5, 400));
        world.servers[0].clock = mute ? 0 : 6;
        world.servers[0].mute = true;
        open_at(WEIR_SESSION_LAMPORT, WEIR_BEHIND_LEADER, (struct weir_place){ 0 });
        session->token.clock = 7;
        expect_refused(WEIR_EDOWN, "a", texts[mute]);
        end();
    }
    replicas.clock_query = NULL;
}

/* ---- what it says ---- */

/* The connection is of another system than its poller said: somebody put another cluster there. */
static void read__at_another_cluster_names_it(void **state)
{
    (void)state;
    begin(1);
    stand(0, primary(1, 5, 400));
    world.servers[0].now.system = SYSTEM + 1;
    open_at(WEIR_SESSION_TRACKED, WEIR_BEHIND_OTHER, (struct weir_place){ .timeline = 1, .position = 200 });
    expect_refused(WEIR_EFOREIGN, "a", "is of another system than the token");
    end();
}

/* Names and texts are no formats, and have room or are cut. */
static void say__copies_as_it_is(void **state)
{
    static const char name[] = "a%%b 5% of c", text[] = "100%% of 7% %.1s";
    struct weir_fault fault;
    char longer[400];
    (void)state;
    begin(1);
    open_at(WEIR_SESSION_TRACKED, WEIR_BEHIND_OTHER, (struct weir_place){ 0 });
    assert_int_equal(weir_session_say(session, WEIR_EDOWN, name, text), WEIR_EDOWN);
    weir_session_fault(session, &fault);
    assert_string_equal(fault.field, name);
    assert_string_equal(fault.text, text);
    memset(longer, 'x', sizeof longer);
    longer[sizeof longer - 1] = 0;
    assert_int_equal(weir_session_say(session, 0, longer, longer), 0);
    weir_session_fault(session, &fault);
    assert_int_equal(strlen(fault.field), sizeof fault.field - 1);
    assert_int_equal(strlen(fault.text), sizeof fault.text - 1);
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
        cmocka_unit_test(read__is_of_a_standby_at_the_fork_that_the_leader_was_asked_before),
        cmocka_unit_test(read__waits_anew_when_it_has_left_the_leader),
        cmocka_unit_test(read__at_the_leader_waits_anew_for_what_it_has_seen_since),
        cmocka_unit_test(read__at_a_primary_awaits_the_commits_that_standbys_show),
        cmocka_unit_test(read__of_what_a_crash_took_back_is_lost),
        cmocka_unit_test(read__of_what_one_on_an_old_timeline_lost_goes_elsewhere),
        cmocka_unit_test(read__of_what_nothing_proves_has_the_pollers_learn),
        cmocka_unit_test(read__again_asks_nobody),
        cmocka_unit_test(read__at_a_standby_again_asks_no_poller),
        cmocka_unit_test(read__after_a_write_is_on_the_connection_that_read),
        cmocka_unit_test(read__after_a_write_that_broke_is_where_all_of_it_shows),
        cmocka_unit_test(read__after_a_write_that_has_no_room_in_the_token_is_refused),
        cmocka_unit_test(read__tries_each_that_cannot_be_reached_once),
        cmocka_unit_test(read__is_of_no_zombie_wherever_it_stands),
        cmocka_unit_test(read__by_lamports_clock_is_where_the_clock_is_far_enough),
        cmocka_unit_test(read__at_another_cluster_names_it),
        cmocka_unit_test(say__copies_as_it_is),
        cmocka_unit_test(read__where_nobody_can_be_read_names_one_that_stands_still_first),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
