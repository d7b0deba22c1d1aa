/* SPDX-License-Identifier: Apache-2.0
 *
 * What a session keeps, step by step: its token's versions, its connections, the gaps that they leave, and whom a call
 * shuns. */
#include "session_stand.h"

static struct weir_call call;

/* A primary and a standby, and a session that is connected to both and has not used them. */
static void begin_call(enum weir_session_strategy strategy, uint32_t timeline)
{
    begin(2);
    fork_off();
    stand(0, primary(timeline, 5, 400));
    stand(1, standby(timeline, 400));
    open_at(strategy, WEIR_BEHIND_LEADER, (struct weir_place){ 0 });
    weir_call_begin(&call, session);
    assert_int_equal(weir_pinned_take(&call, &session->pins[WEIR_PINNED_LEADER], 0), 0);
    assert_int_equal(weir_pinned_take(&call, &session->pins[WEIR_PINNED_REPLICA], 1), 0);
}

static void end_call(void)
{
    weir_call_end(&call);
    end();
}

/* ---- the token ---- */

static void a_token__is_the_same_where_all_of_it_is(void **state)
{
    const struct weir_session_token token = { .count = 2,
                                              .stamp_ns = 3,
                                              .clock = 4,
                                              .places = { { .system = 7, .position = 8 },
                                                          { .system = 8, .position = 8 } } };
    (void)state;
    assert_true(weir_session_token_same(&token, &token));
    for (unsigned changed = 0; changed < 9; changed++) {
        struct weir_session_token other = token;
        struct weir_place *place = &other.places[changed % 2];
        other.count -= changed == 0;
        other.stamp_ns += changed == 1;
        other.clock += changed == 2;
        place->system += changed == 3;
        place->position += changed == 4;
        place->run += changed == 5;
        place->timeline += changed == 6;
        place->branch += changed == 7;
        place->standby = changed == 8;
        assert_false(weir_session_token_same(&token, &other));
        assert_false(weir_session_token_same(&other, &token));
    }
}

/* Only who showed all before shows all with what it has shown itself. */
static void a_gain__is_known_to_who_knew_all_before(void **state)
{
    (void)state;
    begin_call(WEIR_SESSION_TRACKED, 1);
    struct weir_pinned *pinned = &session->pins[WEIR_PINNED_REPLICA];
    uint64_t version = pinned->version = session->version;
    world.now_ns += MS;
    weir_session_gained(session, pinned);
    assert_int_equal(session->version, version + 1);
    assert_int_equal(pinned->version, version + 1);
    assert_int_equal(session->gained_ns, world.now_ns);
    weir_session_gained(session, NULL);
    weir_session_gained(session, pinned);
    assert_int_equal(session->version, version + 3);
    assert_int_equal(pinned->version, version + 1);
    end_call();
}

/* A clock never goes back, and a token is new only by one that is greater. */
static void a_clock__is_taken_where_it_is_greater(void **state)
{
    (void)state;
    replicas.clock_query = (char[]){ "SELECT clock" };
    begin_call(WEIR_SESSION_LAMPORT, 1);
    for (uint64_t clock = 9; clock > 6; clock--) {
        session->pins[WEIR_PINNED_LEADER].used = true;
        world.servers[0].clock = clock;
        uint64_t version = session->version;
        assert_int_equal(weir_pinned_settle(&call, &session->pins[WEIR_PINNED_LEADER]), 0);
        assert_int_equal(session->token.clock, 9);
        assert_int_equal(session->version, version + (clock == 9));
    }
    end_call();
    replicas.clock_query = NULL;
}

/* The time of a write is the latest that was seen, whoever's clock was ahead; a read has none. */
static void a_write__leaves_its_time(void **state)
{
    (void)state;
    for (unsigned wrote = 0; wrote < 2; wrote++) {
        begin_call(WEIR_SESSION_WINDOW, 1);
        struct weir_pinned *pinned = &session->pins[WEIR_PINNED_LEADER];
        for (unsigned again = 0; again < 2; again++) {
            pinned->used = true;
            pinned->wrote = wrote;
            assert_int_equal(weir_pinned_settle(&call, pinned), 0);
            assert_false(pinned->used || pinned->wrote);
            assert_int_equal(session->token.wrote_ns != 0, wrote || again);
            if (!again)
                session->token.wrote_ns = UINT64_MAX;
        }
        assert_true(session->token.wrote_ns == UINT64_MAX);
        end_call();
    }
}

/* No more can be added: the connection is as good as it was. */
static void a_token_that_is_full__loses_no_connection(void **state)
{
    (void)state;
    begin_call(WEIR_SESSION_TRACKED, 1);
    struct weir_pinned *pinned = &session->pins[WEIR_PINNED_LEADER];
    for (unsigned i = 0; i < WEIR_SESSION_PLACES_MAX; i++)
        session->token.places[i] = (struct weir_place){ .system = 100 + i, .timeline = 1, .position = 8 };
    session->token.count = WEIR_SESSION_PLACES_MAX;
    pinned->used = true;
    assert_int_equal(weir_pinned_settle(&call, pinned), WEIR_ELIMIT);
    assert_true(pinned->link && pinned->used);
    assert_false(session->gaps[WEIR_PINNED_LEADER].open);
    pinned->used = false;
    end_call();
}

/* ---- taking ---- */

/* One that is new is asked where places are kept; one that is there is taken as it is, unless it is in use. */
static void a_connection__is_asked_when_it_is_taken(void **state)
{
    (void)state;
    replicas.clock_query = (char[]){ "SELECT clock" };
    for (unsigned tracked = 0; tracked < 2; tracked++) {
        begin_call(tracked ? WEIR_SESSION_TRACKED : WEIR_SESSION_LAMPORT, 1);
        struct weir_pinned *pinned = &session->pins[WEIR_PINNED_REPLICA];
        assert_int_equal(world.servers[1].asked, tracked);
        assert_int_equal(weir_pinned_take(&call, pinned, 1), 0);
        world.servers[1].busy = true;
        assert_int_equal(weir_pinned_take(&call, pinned, 1), WEIR_EBUSY);
        assert_int_equal(world.servers[1].asked, tracked);
        assert_int_equal(world.servers[1].taken, 1);
        end_call();
    }
    replicas.clock_query = NULL;
}

/* ---- losing and leaving ---- */

/* A gap is of what a session that is tracked may have seen. */
static void a_loss__is_a_gap_where_something_may_have_been_seen(void **state)
{
    (void)state;
    for (unsigned bits = 0; bits < 4; bits++) {
        begin_call(bits & 1 ? WEIR_SESSION_TRACKED : WEIR_SESSION_STICKY, 1);
        struct weir_pinned *pinned = session->handed = &session->pins[WEIR_PINNED_REPLICA];
        pinned->used = bits & 2;
        weir_pinned_lose(session, pinned);
        assert_int_equal(session->gaps[WEIR_PINNED_REPLICA].open, bits == 3);
        assert_true(!pinned->link && !pinned->used && !session->handed);
        assert_int_equal(world.servers[1].dropped, 1);
        end_call();
    }
}

/* Of two gaps of which one place may not be beyond both not even the timeline is known. */
static void a_second_gap__is_filled_with_the_first_if_it_is_alike(void **state)
{
    (void)state;
    for (unsigned is_primary = 0; is_primary < 2; is_primary++)
        for (unsigned other = 0; other < 5; other++) {
            begin_call(WEIR_SESSION_TRACKED, 2);
            unsigned which = is_primary ? WEIR_PINNED_LEADER : WEIR_PINNED_REPLICA;
            struct weir_pinned *pinned = &session->pins[which];
            struct weir_gap *gap = &session->gaps[which];
            *gap = (struct weir_gap){ .open = true, .timeline = 2, .branch = 20, .run = is_primary ? 5 : 0 };
            gap->timeline += other == 1;
            gap->branch += other == 2;
            gap->run += other == 3;
            gap->open = other != 4;
            gap->branch += other == 4; /* of one that was filled nothing is left */
            pinned->link->shown.run = 5;
            pinned->used = true;
            weir_pinned_lose(session, pinned);
            assert_int_equal(gap->timeline, other == 0 || other == 4 ? 2 : 0);
            assert_int_equal(gap->branch, 20);
            assert_int_equal(gap->run, is_primary ? 5 : 0);
            assert_int_equal(gap->server, is_primary ? 100 : 101);
            end_call();
        }
}

static void a_connection_that_is_given_back__is_not_read_at(void **state)
{
    (void)state;
    for (unsigned other = 0; other < 2; other++) {
        begin_call(WEIR_SESSION_TRACKED, 1);
        struct weir_pinned *there = &session->pins[WEIR_PINNED_REPLICA];
        session->at = session->handed = there;
        weir_pinned_leave(session, &session->pins[other ? WEIR_PINNED_LEADER : WEIR_PINNED_REPLICA]);
        assert_ptr_equal(session->at, other ? there : NULL);
        assert_ptr_equal(session->handed, other ? there : NULL);
        assert_int_equal(weir_session_back(session), 0);
        assert_null(session->handed);
        end_call();
    }
}

/* What was read there may be what was lost; where that cannot be known, nothing is given back. */
static void an_acceptance__gives_the_replica_back(void **state)
{
    (void)state;
    for (unsigned busy = 0; busy < 2; busy++) {
        begin_call(WEIR_SESSION_TRACKED, 1);
        session->pins[WEIR_PINNED_REPLICA].used = true;
        world.servers[1].busy = busy;
        assert_int_equal(weir_session_accept(session), busy ? WEIR_EBUSY : 0);
        assert_int_equal(session->pins[WEIR_PINNED_REPLICA].link != NULL, busy);
        end_call();
    }
}

/* It is said, and its server is shunned. */
static void a_connection_that_does_not_answer__is_closed(void **state)
{
    (void)state;
    for (unsigned used = 0; used < 2; used++) {
        begin_call(WEIR_SESSION_TRACKED, 1);
        struct weir_pinned *pinned = &session->pins[WEIR_PINNED_REPLICA];
        world.servers[1].breaks++;
        pinned->used = used;
        if (used)
            assert_int_equal(weir_pinned_settle(&call, pinned), WEIR_EUNKNOWN);
        else
            assert_int_equal(weir_pinned_ask(&call, pinned), WEIR_EAGAIN);
        assert_string_equal(session->fault.field, "b");
        assert_string_equal(session->fault.text,
                            used ? "its connection broke before it said how far it was" : "does not answer");
        assert_null(pinned->link);
        assert_int_equal(call.servers[1].usable, used);
        end_call();
    }
}

/* ---- the timeline that a connection does not tell ---- */

/* Its poller's word is good for the same start of a standby; then the connection has to answer once more. */
static void a_timeline__is_told_by_the_poller_of_the_same_server(void **state)
{
    (void)state;
    for (unsigned other = 0; other < 4; other++) {
        begin_call(WEIR_SESSION_TRACKED, 2);
        struct weir_pinned *pinned = &session->pins[WEIR_PINNED_REPLICA];
        world.servers[1].now = standby(0, 400);
        world.servers[1].now.branch = 0;
        world.servers[1].polled.started = other == 1;
        world.servers[1].polled.primary = other == 2;
        world.servers[1].mute = other == 3;
        unsigned asked = world.servers[1].asked;
        assert_int_equal(weir_pinned_ask(&call, pinned), 0);
        assert_int_equal(pinned->link->shown.timeline, other ? 0 : 2);
        assert_int_equal(pinned->link->shown.branch, other ? 0 : 20);
        assert_int_equal(weir_pinned_is_told(pinned), !other);
        assert_int_equal(pinned->link->timeline, 2); /* what it told last */
        assert_int_equal(world.servers[1].asked - asked, other == 3 ? 1 : 2);
        end_call();
    }
}

/* The branch of a standby is what its poller knows, or learns when it is asked; where nobody knows, nothing is told. */
static void a_branch__is_told_by_the_poller(void **state)
{
    (void)state;
    for (unsigned polls = 0; polls < 3; polls++) {
        begin_call(WEIR_SESSION_TRACKED, 2);
        struct weir_pinned *pinned = &session->pins[WEIR_PINNED_REPLICA];
        struct weir_shown unknown = standby(2, 400);
        unknown.started = 3;
        world.servers[1].polled = unknown;
        if (polls == 0)
            poll(1);
        weir_call_look(&call);
        world.servers[1].mute = polls == 2;
        unknown.branch = 0;
        world.servers[1].now = unknown;
        assert_int_equal(weir_pinned_ask(&call, pinned), 0);
        assert_int_equal(world.servers[1].polls, polls != 0);
        assert_int_equal(pinned->link->shown.branch, polls < 2 ? 20 : 0);
        assert_int_equal(weir_pinned_is_told(pinned), polls < 2);
        pinned->used = true;
        assert_int_equal(weir_pinned_settle(&call, pinned), polls < 2 ? 0 : WEIR_EUNKNOWN);
        end_call();
    }
}

/* ---- a call ---- */

/* Who is shunned is there again when it was asked since, but not after the time to wait. */
static void a_call__shuns_until_its_servers_are_asked_anew(void **state)
{
    (void)state;
    begin_call(WEIR_SESSION_TRACKED, 1);
    for (unsigned again = 0; again < 2; again++) {
        world.snapshot.servers[1].frozen = true;
        weir_call_shun(&call, 101);
        assert_int_equal(call.shunned_count, 1);
        assert_false(call.servers[1].usable || call.servers[1].frozen);
        world.snapshot.servers[1].asked_ns = world.now_ns; /* at that very time */
        weir_call_look(&call);
        assert_false(call.servers[1].usable);
        poll(1);
        weir_call_look(&call);
        assert_true(call.servers[1].usable);
    }
    weir_call_shun(&call, 100);
    assert_int_equal(call.shunned_count, 2);
    assert_true(call.servers[1].usable && !call.servers[0].usable);
    world.now_ns = call.until_ns - 1;
    weir_call_look(&call);
    assert_true(call.servers[1].usable);
    world.now_ns = call.until_ns;
    weir_call_look(&call);
    assert_false(call.servers[1].usable);
    call.shunned_count = WEIR_CALL_SHUNNED_MAX;
    for (unsigned i = 0; i < WEIR_CALL_SHUNNED_MAX; i++)
        call.shunned[i].server = 200 + i;
    weir_call_shun(&call, 101);
    assert_int_equal(call.shunned_count, WEIR_CALL_SHUNNED_MAX);
    assert_int_equal(call.shunned[0].server, 101);
    assert_int_equal(call.shunned[1].server, 201);
    end_call();
}

static void a_call__counts_its_waits_and_ends_on_time(void **state)
{
    (void)state;
    begin_call(WEIR_SESSION_TRACKED, 1);
    uint64_t begun_ns = world.now_ns;
    assert_true(weir_call_wait(&call) && weir_call_wait(&call));
    assert_int_equal(call.waited_ns, world.now_ns - begun_ns);
    world.now_ns = call.until_ns;
    assert_false(weir_call_wait(&call));
    assert_int_equal(world.waits, 2);
    weir_call_end(&call);
    (void)weir_session_say(session, 0, "a", "of a call before");
    weir_call_begin(&call, session);
    assert_string_equal(session->fault.text, "");
    assert_int_equal(call.waited_ns, 0);
    end_call();
}

/* One that the leader left behind is there for no stale read either. */
static void a_call__has_no_zombie_that_stands_still(void **state)
{
    (void)state;
    begin_call(WEIR_SESSION_TRACKED, 2);
    world.snapshot.servers[1].shown = standby(1, 112);
    world.snapshot.servers[1].frozen = true;
    weir_call_look(&call);
    assert_false(call.servers[1].usable || call.servers[1].frozen);
    end_call();
}

/* Nothing is wrong where a read is handed out after all: of who could not be reached before nothing is told. */
static void a_read__says_nothing_of_who_could_not_be_reached(void **state)
{
    struct pg_conn *conn;
    struct weir_fault fault;
    (void)state;
    begin(2);
    stand(0, primary(1, 5, 400));
    stand(1, standby(1, 400));
    open_at(WEIR_SESSION_TRACKED, WEIR_BEHIND_LEADER, (struct weir_place){ 0 });
    assert_int_equal(weir_session_write(session, &conn), 0); /* its connection is there when the standby's is refused */
    world.servers[1].refuses = WEIR_EDOWN;
    world.servers[1].mute = true;
    expect_read("a", true, 0);
    assert_int_equal(world.servers[1].tried, 1);
    assert_int_equal(world.servers[0].tried, 1);
    weir_session_fault(session, &fault);
    assert_string_equal(fault.field, "");
    assert_string_equal(fault.text, "");
    end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_token__is_the_same_where_all_of_it_is),
        cmocka_unit_test(a_gain__is_known_to_who_knew_all_before),
        cmocka_unit_test(a_clock__is_taken_where_it_is_greater),
        cmocka_unit_test(a_write__leaves_its_time),
        cmocka_unit_test(a_token_that_is_full__loses_no_connection),
        cmocka_unit_test(a_connection__is_asked_when_it_is_taken),
        cmocka_unit_test(a_loss__is_a_gap_where_something_may_have_been_seen),
        cmocka_unit_test(a_second_gap__is_filled_with_the_first_if_it_is_alike),
        cmocka_unit_test(a_connection_that_is_given_back__is_not_read_at),
        cmocka_unit_test(an_acceptance__gives_the_replica_back),
        cmocka_unit_test(a_connection_that_does_not_answer__is_closed),
        cmocka_unit_test(a_timeline__is_told_by_the_poller_of_the_same_server),
        cmocka_unit_test(a_branch__is_told_by_the_poller),
        cmocka_unit_test(a_call__shuns_until_its_servers_are_asked_anew),
        cmocka_unit_test(a_call__counts_its_waits_and_ends_on_time),
        cmocka_unit_test(a_call__has_no_zombie_that_stands_still),
        cmocka_unit_test(a_read__says_nothing_of_who_could_not_be_reached),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
