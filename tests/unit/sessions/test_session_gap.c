/* SPDX-License-Identifier: Apache-2.0
 *
 * What one session does where a connection broke, and what it says where it cannot go on. */
#include "session_stand.h"

/* It reads at `server`, and the connection breaks before it said how far that was. */
static unsigned read_and_break(void)
{
    struct weir_read read;
    assert_int_equal(weir_session_read(session, &read), 0);
    unsigned at = (unsigned)(read.server[0] - 'a');
    world.servers[at].breaks++;
    return at;
}

/* Gives all back: what was seen has to be known before. */
static int rest(struct weir_fault *ret_fault)
{
    int error = weir_session_rest(session);
    weir_session_fault(session, ret_fault);
    return error;
}

/* ---- a gap at the primary ---- */

/* All that was seen was in its log by then. It is the same log where it is the same primary, in the same run. */
static void gap__at_a_primary_is_filled_by_the_same_primary_only(void **state)
{
    static const struct {
        uint64_t system, run;
        uint32_t timeline, branch;
        int error;
    } cases[] = {
        { SYSTEM, 5, 2, 20, 0 },
        { SYSTEM, 6, 2, 20, WEIR_ECUTOFF },     /* it crashed */
        { SYSTEM, 5, 2, 21, WEIR_ECUTOFF },     /* another's promotion to the same number */
        { SYSTEM + 1, 5, 2, 20, WEIR_ECUTOFF }, /* another cluster */
        { SYSTEM, 5, 3, 30, WEIR_ECUTOFF },     /* a standby of it was promoted */
        { SYSTEM, 5, 1, 0, WEIR_EBEHIND },      /* one that was left behind: the true one may come back */
        { 0, 0, 0, 0, WEIR_EBEHIND },           /* none */
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct weir_fault fault;
        begin(2);
        fork_off();
        stand(0, primary(2, 5, 400));
        open_at(WEIR_SESSION_TRACKED, WEIR_BEHIND_OTHER, (struct weir_place){ 0 });
        assert_int_equal(read_and_break(), 0);
        world.servers[1].mute = true; /* what it says is no matter */
        struct weir_shown shown = primary(cases[i].timeline, cases[i].run, 480);
        shown.system = cases[i].system;
        shown.branch = cases[i].branch;
        shown.flushed = 400;
        stand(0, shown); /* at the very time at which the gap is found, which is not after it */
        uint64_t begun_ns = world.now_ns;
        assert_int_equal(rest(&fault), cases[i].error == WEIR_EBEHIND ? WEIR_EUNKNOWN : cases[i].error);
        if (cases[i].error == 0) {
            assert_int_equal(session->token.count, 1);
            assert_int_equal(session->token.places[0].position, 480);
            assert_int_equal(session->token.places[0].run, 5);
            assert_false(session->token.places[0].standby);
            assert_int_equal(world.servers[0].polls, 1);
        } else {
            assert_string_equal(fault.field, "");
            assert_non_null(strstr(fault.text, cases[i].error == WEIR_ECUTOFF ? "not the same any more"
                                                                              : "no primary can be asked"));
            assert_true((world.now_ns - begun_ns >= 20 * MS) == (cases[i].error == WEIR_EBEHIND));
            assert_int_equal(rest(&fault), i < 5 ? WEIR_ECUTOFF : WEIR_EUNKNOWN); /* it stays so */
        }
        assert_int_equal(session->gaps[WEIR_PINNED_LEADER].open, cases[i].error != 0);
        end();
    }
}

/* It was taken for the primary, and says now that it is none: one that was started again as a standby. Who holds the
 * log now is waited for. */
static void gap__is_not_filled_by_who_is_no_primary_any_more(void **state)
{
    struct weir_fault fault;
    (void)state;
    begin(1);
    fork_off();
    stand(0, primary(2, 5, 400));
    open_at(WEIR_SESSION_TRACKED, WEIR_BEHIND_OTHER, (struct weir_place){ 0 });
    assert_int_equal(read_and_break(), 0);
    world.servers[0].mute = true; /* its poller has not seen it yet */
    world.servers[0].polled = standby(2, 480);
    world.servers[0].asked = 0;
    world.servers[0].turns = 1;
    assert_int_equal(rest(&fault), WEIR_EUNKNOWN);
    assert_true(session->gaps[WEIR_PINNED_LEADER].open);
    assert_in_range(world.servers[0].asked, 2, 100);
    world.servers[0].turns = 0;
    world.servers[0].mute = false;
    stand(0, primary(2, 5, 480));
    assert_int_equal(rest(&fault), 0);
    assert_int_equal(session->token.places[0].position, 480);
    end();
}

/* A connection that breaks as it is asked for that says nothing: another one is asked. */
static void gap__is_filled_by_another_connection_where_one_breaks(void **state)
{
    struct weir_fault fault;
    (void)state;
    for (unsigned questions = 1; questions <= 2; questions++) {
        begin(1);
        stand(0, primary(1, 5, 400));
        open_at(WEIR_SESSION_TRACKED, WEIR_BEHIND_OTHER, (struct weir_place){ 0 });
        assert_int_equal(read_and_break(), 0);
        world.servers[0].last = world.servers[0].asked + questions;
        assert_int_equal(rest(&fault), 0);
        assert_int_equal(world.servers[0].taken, 3);
        assert_int_equal(session->token.places[0].position, 400);
        end();
    }
}

/* What was read at a replica is asked there before the session leaves it. If that breaks, it is a gap, too. */
static void gap__at_the_replica_that_it_leaves_is_filled(void **state)
{
    const struct weir_place seen = { .system = SYSTEM, .timeline = 1, .position = 480 };
    struct weir_read read;
    (void)state;
    begin(2);
    stand(0, primary(1, 5, 400));
    stand(1, standby(1, 400));
    open_at(WEIR_SESSION_TRACKED, WEIR_BEHIND_LEADER, (struct weir_place){ 0 });
    expect_read("b", false, 0);
    assert_int_equal(weir_session_add(session, &world.snapshot.known, NULL, &seen), 0);
    stand(0, primary(1, 5, 480));
    world.servers[1].mute = true;
    world.servers[1].last = world.servers[1].asked + 1;
    assert_int_equal(weir_session_read(session, &read), 0);
    assert_true(read.leader);
    assert_false(session->gaps[WEIR_PINNED_REPLICA].open);
    assert_int_equal(world.servers[1].dropped, 1);
    end();
}

/* ---- a gap at a standby ---- */

enum role { SAME, MUTE, FLUSHED, PROMOTED, FOLLOWED, RAISED, UNTOLD, OTHER_BRANCH, GONE };

static void become(unsigned server, enum role role, bool is_primary)
{
    struct weir_shown shown = is_primary ? primary(2, 5, 480) : standby(2, 320);
    shown.flushed = is_primary ? 400 : 0;
    if (role == MUTE) {
        world.servers[server].mute = true;
        return;
    }
    if (role == FLUSHED)
        shown.run = 6;
    if (role == PROMOTED)
        shown = primary(3, 7, 480);
    if (role == FOLLOWED)
        shown = standby(3, 480);
    if (role == RAISED) /* its own end of the recovery, which makes no timeline */
        shown = primary(2, 7, 320);
    if (role == UNTOLD)
        shown.timeline = 0;
    if (role == OTHER_BRANCH)
        shown.branch = 21;
    if (role == GONE)
        shown = (struct weir_shown){ 0 };
    world.servers[server].polled = world.servers[server].now = shown;
}

/* What was read there was in the primary's log if the standby stayed on its timeline until then. */
static void gap__at_a_standby_is_filled_where_it_is_proven_that_it_stayed(void **state)
{
    static const struct {
        enum role leader, itself, other;
        int error;
    } cases[] = {
        { SAME, SAME, SAME, 0 },
        { SAME, SAME, MUTE, 0 }, /* it says so itself */
        { SAME, MUTE, SAME, 0 }, /* or it followed none of the others */
        { SAME, MUTE, MUTE, WEIR_ECUTOFF },
        { MUTE, MUTE, SAME, WEIR_ECUTOFF },
        { SAME, UNTOLD, MUTE, WEIR_ECUTOFF },
        { SAME, RAISED, MUTE, WEIR_ECUTOFF }, /* it wrote on its own */
        { SAME, PROMOTED, SAME, WEIR_ECUTOFF },
        { PROMOTED, SAME, SAME, WEIR_ECUTOFF },
        { FLUSHED, SAME, SAME, 0 }, /* a standby is sent what is flushed */
        { OTHER_BRANCH, SAME, SAME, WEIR_ECUTOFF },
        { GONE, SAME, SAME, WEIR_EBEHIND },
        { GONE, SAME, FOLLOWED, WEIR_ECUTOFF }, /* nobody has to be waited for */
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct weir_fault fault;
        begin(3);
        fork_off();
        stand(0, primary(2, 5, 400));
        stand(1, standby(2, 320));
        stand(2, standby(2, 320));
        open_at(WEIR_SESSION_TRACKED, WEIR_BEHIND_LEADER, (struct weir_place){ 0 });
        unsigned at = read_and_break();
        assert_true(at == 1 || at == 2);
        become(0, cases[i].leader, true);
        become(at, cases[i].itself, false);
        become(3 - at, cases[i].other, false);
        uint64_t begun_ns = world.now_ns;
        assert_int_equal(rest(&fault), cases[i].error == WEIR_EBEHIND ? WEIR_EUNKNOWN : cases[i].error);
        assert_int_equal(session->gaps[WEIR_PINNED_REPLICA].open, cases[i].error != 0);
        assert_true(cases[i].leader != GONE || (world.now_ns - begun_ns >= 20 * MS) == (cases[i].other == SAME));
        for (unsigned j = 0; j < 3; j++) /* who has answered is not asked once more */
            assert_true(world.servers[j].mute ? world.servers[j].polls > 0 : world.servers[j].polls == 1);
        if (cases[i].error == 0) {
            assert_int_equal(session->token.count, 1);
            assert_int_equal(session->token.places[0].position, 480);
            assert_int_equal(session->token.places[0].run, 0);
            assert_true(session->token.places[0].standby);
        } else {
            assert_non_null(strstr(fault.text, cases[i].error == WEIR_ECUTOFF ? "not the same any more"
                                                                              : "no primary can be asked"));
        }
        end();
    }
}

/* One that is down is not asked: that takes a timeout. */
static void gap__is_filled_without_those_that_are_down(void **state)
{
    struct weir_fault fault;
    (void)state;
    begin(4);
    stand(0, primary(1, 5, 400));
    stand(1, standby(1, 320));
    open_at(WEIR_SESSION_TRACKED, WEIR_BEHIND_LEADER, (struct weir_place){ 0 });
    assert_int_equal(read_and_break(), 1);
    assert_int_equal(rest(&fault), 0);
    assert_int_equal(world.servers[2].polls + world.servers[3].polls, 0);
    assert_int_equal(session->token.places[0].position, 400);
    end();
}

/* A standby that could not even tell its timeline: whoever is primary by now, nobody can say what was seen. */
static void gap__at_a_standby_that_did_not_tell_its_timeline_is_never_filled(void **state)
{
    struct weir_fault fault;
    (void)state;
    begin(2);
    stand(0, primary(1, 5, 400));
    stand(1, standby(0, 400));
    open_at(WEIR_SESSION_TRACKED, WEIR_BEHIND_LEADER, (struct weir_place){ 0 });
    assert_int_equal(read_and_break(), 1);
    become(0, GONE, true);
    assert_int_equal(rest(&fault), WEIR_ECUTOFF);
    assert_int_equal(world.waits, 0);
    end();
}

/* ---- where it stays ---- */

/* Nothing is new: who was not to be had is not tried again. */
static void read__at_the_leader_tries_no_replica_without_news(void **state)
{
    struct weir_read read;
    (void)state;
    begin(2);
    stand(0, primary(1, 5, 400));
    stand(1, standby(1, 400));
    world.servers[1].refuses = WEIR_EDOWN;
    world.servers[1].mute = true;
    open_at(WEIR_SESSION_TRACKED, WEIR_BEHIND_LEADER, (struct weir_place){ 0 });
    assert_true(weir_session_read(session, &read) == 0 && read.leader);
    const unsigned tried = world.servers[1].tried;
    for (int times = 0; times < 3; times++)
        expect_read("a", true, 0);
    assert_int_equal(world.servers[1].tried, tried);
    poll(0);
    expect_read("a", true, 0);
    assert_int_equal(world.servers[1].tried, tried + 1);
    end();
}

/* What its poller said may be older than the token: it is asked, but not for long, before the session leaves. */
static void read__at_a_replica_has_it_asked_before_it_leaves(void **state)
{
    (void)state;
    for (unsigned is_mute = 0; is_mute < 2; is_mute++) {
        begin(2);
        stand(0, primary(1, 5, 400));
        stand(1, standby(1, 400));
        open_at(WEIR_SESSION_TRACKED, WEIR_BEHIND_LEADER, (struct weir_place){ 0 });
        expect_read("b", false, 0);
        struct weir_place seen = { .system = SYSTEM, .timeline = 1, .position = 480 };
        assert_int_equal(weir_session_add(session, &world.snapshot.known, NULL, &seen), 0);
        stand(0, primary(1, 5, 480));
        world.servers[1].polled = world.servers[1].now = standby(1, 480);
        world.servers[1].mute = is_mute;
        if (is_mute) {
            struct weir_read read;
            assert_int_equal(weir_session_read(session, &read), 0);
            assert_true(read.leader && world.waits > 0);
        } else {
            expect_read("b", false, 0);
            assert_int_equal(world.waits, 0);
        }
        assert_true(is_mute ? world.servers[1].polls > 0 : world.servers[1].polls == 1);
        assert_int_equal(world.patience_ns, 20 * MS);
        end();
    }
}

/* A standby that is behind has nothing to settle: only a primary is asked whether commits that ran have ended. */
static void read__at_a_standby_that_is_behind_settles_nothing(void **state)
{
    struct weir_read read;
    (void)state;
    begin(2);
    stand(0, primary(1, 5, 400));
    stand(1, standby(1, 400));
    world.servers[1].now = standby(1, 80); /* its poller said more of it */
    world.servers[1].settles = true;
    world.servers[1].mute = true;
    open_at(WEIR_SESSION_TRACKED, WEIR_BEHIND_LEADER, (struct weir_place){ .timeline = 1, .position = 200 });
    assert_true(weir_session_read(session, &read) == 0 && read.leader);
    assert_true(world.servers[1].asked > 0);
    assert_int_equal(world.servers[1].settling, 0);
    end();
}

/* Where the connection breaks as it is asked whether it shows what was seen since, the next is asked. */
static void read__at_a_replica_that_breaks_as_it_is_checked_goes_elsewhere(void **state)
{
    const struct weir_place seen = { .system = SYSTEM, .timeline = 1, .position = 480 };
    struct weir_read read;
    (void)state;
    begin(2);
    stand(0, primary(1, 5, 480));
    stand(1, standby(1, 400));
    open_at(WEIR_SESSION_TRACKED, WEIR_BEHIND_LEADER, (struct weir_place){ 0 });
    session->reads_do_not_move = true;
    expect_read("b", false, 0);
    assert_int_equal(weir_session_add(session, &world.snapshot.known, NULL, &seen), 0);
    stand(1, standby(1, 480));
    world.servers[1].mute = true;
    world.servers[1].last = world.servers[1].asked + 1;
    assert_int_equal(weir_session_read(session, &read), 0);
    assert_string_equal(read.server, "a");
    assert_int_equal(world.servers[1].dropped, 1);
    end();
}

/* One that is in use as it is asked for its clock is not closed: the transaction on it is the application's. */
static void read__by_a_clock_leaves_a_connection_that_is_in_use(void **state)
{
    struct weir_read read;
    (void)state;
    replicas.clock_query = (char[]){ "SELECT clock" };
    begin(1);
    stand(0, primary(1, 5, 400));
    world.servers[0].busy = true;
    world.servers[0].clock = 7;
    open_at(WEIR_SESSION_LAMPORT, WEIR_BEHIND_LEADER, (struct weir_place){ 0 });
    assert_int_equal(weir_session_read(session, &read), WEIR_EBUSY);
    assert_int_equal(world.lent, 1);
    world.servers[0].busy = false;
    expect_read("a", true, 0);
    assert_int_equal(world.servers[0].taken, 1);
    end();
    replicas.clock_query = NULL;
}

/* ---- what it says ---- */

static void read__that_nobody_can_serve_says_why(void **state)
{
    static const struct weir_place seen = { .timeline = 1, .position = 200 };
    (void)state;
    begin(1);
    fork_off();
    stand(0, primary(2, 5, 400));
    open_at(WEIR_SESSION_TRACKED, WEIR_BEHIND_OTHER, seen);
    expect_refused(WEIR_ECUTOFF, "", "cut off there");
    end();
    begin(1);
    struct weir_shown foreign = primary(1, 5, 400);
    foreign.system = SYSTEM + 1;
    stand(0, foreign);
    open_at(WEIR_SESSION_TRACKED, WEIR_BEHIND_OTHER, seen);
    expect_refused(WEIR_EFOREIGN, "", "the servers are of another system than the token");
    assert_int_equal(world.waits, 0);
    end();
    begin(2);
    stand(0, standby(1, 80));
    stand(1, standby(1, 80));
    open_at(WEIR_SESSION_TRACKED, WEIR_BEHIND_ERROR, seen);
    expect_refused(WEIR_EBEHIND, "", "no server shows yet what this session has seen");
    end();
}

/* What was seen there is given up with all else: it is not looked for any more. */
static void gap__of_what_was_given_up_is_none(void **state)
{
    struct weir_fault fault;
    (void)state;
    begin(1);
    fork_off();
    stand(0, primary(2, 5, 400));
    open_at(WEIR_SESSION_TRACKED, WEIR_BEHIND_OTHER, (struct weir_place){ 0 });
    assert_int_equal(read_and_break(), 0);
    stand(0, primary(2, 6, 300)); /* it crashed */
    assert_int_equal(rest(&fault), WEIR_ECUTOFF);
    assert_int_equal(weir_session_accept(session), 0);
    assert_int_equal(rest(&fault), 0);
    assert_int_equal(session->token.count, 1);
    assert_int_equal(session->token.places[0].position, 300);
    end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gap__of_what_was_given_up_is_none),
        cmocka_unit_test(gap__at_a_primary_is_filled_by_the_same_primary_only),
        cmocka_unit_test(gap__at_a_standby_is_filled_where_it_is_proven_that_it_stayed),
        cmocka_unit_test(gap__is_not_filled_by_who_is_no_primary_any_more),
        cmocka_unit_test(gap__is_filled_by_another_connection_where_one_breaks),
        cmocka_unit_test(gap__at_the_replica_that_it_leaves_is_filled),
        cmocka_unit_test(gap__is_filled_without_those_that_are_down),
        cmocka_unit_test(gap__at_a_standby_that_did_not_tell_its_timeline_is_never_filled),
        cmocka_unit_test(read__at_the_leader_tries_no_replica_without_news),
        cmocka_unit_test(read__at_a_replica_has_it_asked_before_it_leaves),
        cmocka_unit_test(read__at_a_standby_that_is_behind_settles_nothing),
        cmocka_unit_test(read__at_a_replica_that_breaks_as_it_is_checked_goes_elsewhere),
        cmocka_unit_test(read__by_a_clock_leaves_a_connection_that_is_in_use),
        cmocka_unit_test(read__that_nobody_can_serve_says_why),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
