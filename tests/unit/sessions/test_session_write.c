/* SPDX-License-Identifier: Apache-2.0
 *
 * Where one session writes: at the primary, if it is the one that its poller knows, and its log goes on from what the
 * session has seen. */
#include <time.h>

#include "session_stand.h"

/* A connection that says another thing than the poller is taken once the poller says the same. */
static void write__goes_to_a_primary_that_its_poller_knows_as_it_is(void **state)
{
    (void)state;
    for (unsigned other = 0; other < 5; other++) {
        struct pg_conn *conn;
        begin(1);
        fork_off();
        stand(0, primary(1, 5, 400));
        open_at(WEIR_SESSION_TRACKED, WEIR_BEHIND_OTHER, (struct weir_place){ 0 });
        struct weir_shown *now = &world.servers[0].now;
        now->timeline += other == 0;
        now->branch = now->timeline == 2 ? 20 : 0;
        now->run += other == 1;
        now->system += other == 2;
        now->started += other == 3;
        world.servers[0].polled = *now;
        world.servers[0].late = other < 4 ? 2 : 0;
        assert_int_equal(weir_session_write(session, &conn), 0);
        assert_int_equal(world.waits, other < 4 ? 3 : 0);
        if (other == 4)
            assert_int_equal(world.servers[0].asked, 1);
        assert_int_equal(world.servers[0].taken, 1);
        assert_true(world.told > 0);
        end();
    }
}

/* One that was promoted between two questions is the primary that its poller knows. */
static void write__goes_to_one_that_was_promoted_just_now(void **state)
{
    struct pg_conn *conn;
    (void)state;
    begin(1);
    stand(0, primary(1, 5, 400));
    world.servers[0].now = standby(1, 400);
    world.servers[0].turns = 1;
    open_at(WEIR_SESSION_TRACKED, WEIR_BEHIND_OTHER, (struct weir_place){ 0 });
    assert_int_equal(weir_session_write(session, &conn), 0);
    assert_int_equal(world.servers[0].asked, 2);
    assert_int_equal(world.waits, 0);
    end();
}

/* What it wrote at the primary of before is asked there first; at the same one nothing is. */
static void write__at_another_primary_goes_on_from_what_it_wrote(void **state)
{
    struct pg_conn *conn;
    (void)state;
    begin(2);
    stand(0, primary(1, 5, 104));
    stand(1, standby(1, 104));
    open_at(WEIR_SESSION_TRACKED, WEIR_BEHIND_OTHER, (struct weir_place){ 0 });
    for (int times = 0; times < 2; times++) {
        assert_int_equal(weir_session_write(session, &conn), 0);
        assert_int_equal(conn->server, 0);
        assert_int_equal(world.servers[0].asked, 1);
    }
    fork_off();
    stand(1, primary(2, 7, 112));
    assert_int_equal(weir_session_write(session, &conn), 0);
    assert_int_equal(conn->server, 1);
    assert_int_equal(world.servers[0].asked, 2);
    assert_int_equal(session->token.count, 1);
    assert_int_equal(session->token.places[0].position, 104);
    end();
}

/* One whose connection breaks as it is asked whether it is the primary is asked over another one. */
static void write__asks_again_where_the_connection_breaks(void **state)
{
    (void)state;
    for (unsigned last = 1; last <= 2; last++) {
        struct pg_conn *conn;
        begin(1);
        stand(0, primary(1, 5, 400));
        world.servers[0].now.run = world.servers[0].polled.run = 6;
        world.servers[0].last = last;
        open_at(WEIR_SESSION_TRACKED, WEIR_BEHIND_OTHER, (struct weir_place){ 0 });
        assert_int_equal(weir_session_write(session, &conn), 0);
        assert_int_equal(world.servers[0].taken, 2);
        assert_int_equal(world.servers[0].dropped, 1);
        end();
    }
}

/* That all connections are lent, or that one is in use, is said at once. */
static void write__says_what_its_connection_says(void **state)
{
    struct pg_conn *conn;
    (void)state;
    begin(1);
    stand(0, primary(1, 5, 400));
    world.servers[0].refuses = WEIR_ELIMIT;
    open_at(WEIR_SESSION_TRACKED, WEIR_BEHIND_OTHER, (struct weir_place){ 0 });
    assert_int_equal(weir_session_write(session, &conn), WEIR_ELIMIT);
    assert_int_equal(world.servers[0].tried, 1);
    world.servers[0].refuses = 0;
    assert_int_equal(weir_session_write(session, &conn), 0);
    world.servers[0].busy = true;
    assert_int_equal(weir_session_write(session, &conn), WEIR_EBUSY);
    expect_refused(WEIR_EBUSY, "a", "a transaction is open");
    world.servers[0].busy = false;
    expect_read("a", true, 0);
    end();
}

/* What was the primary and is none is not written to, however long its poller takes it for one. */
static void write__goes_to_no_primary_that_says_it_is_none(void **state)
{
    struct pg_conn *conn;
    struct weir_fault fault;
    (void)state;
    begin(2);
    stand(0, primary(1, 5, 400));
    stand(1, standby(1, 400));
    world.servers[0].now = standby(1, 400);
    open_at(WEIR_SESSION_TRACKED, WEIR_BEHIND_OTHER, (struct weir_place){ 0 });
    uint64_t begun_ns = world.now_ns;
    assert_int_equal(weir_session_write(session, &conn), WEIR_EDOWN);
    weir_session_fault(session, &fault);
    assert_string_equal(fault.field, "");
    assert_string_equal(fault.text, "no primary answers");
    assert_true(world.now_ns - begun_ns >= 20 * MS);
    end();
}

/* As long as it may wait. */
static void write__waits_for_a_primary(void **state)
{
    struct pg_conn *conn;
    struct weir_fault fault;
    (void)state;
    for (unsigned late = 0; late < 9; late += 4) { /* 9 waits take longer */
        begin(1);
        world.servers[0].polled = world.servers[0].now = primary(1, 5, 400);
        world.servers[0].late = late;
        open_at(WEIR_SESSION_TRACKED, WEIR_BEHIND_ERROR, (struct weir_place){ 0 });
        assert_int_equal(weir_session_write(session, &conn), late < 8 ? 0 : WEIR_EDOWN);
        weir_session_fault(session, &fault);
        assert_string_equal(fault.text, late < 8 ? "" : "no primary answers");
        assert_int_equal(world.waits, late < 8 ? late + 1 : 7);
        end();
    }
}

/* Strategies that keep no track write whatever the primary lost; one that is tracked does not go on from there. */
static void write__is_checked_where_the_session_is_tracked(void **state)
{
    static const enum weir_session_strategy all[] = { WEIR_SESSION_TRACKED, WEIR_SESSION_STICKY, WEIR_SESSION_WINDOW };
    (void)state;
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        struct pg_conn *conn;
        struct weir_fault fault;
        begin(1);
        fork_off();
        stand(0, primary(2, 5, 400));
        open_at(all[i], WEIR_BEHIND_OTHER, (struct weir_place){ .timeline = 1, .position = 200 });
        assert_int_equal(weir_session_write(session, &conn), i ? 0 : WEIR_ECUTOFF);
        weir_session_fault(session, &fault);
        assert_string_equal(fault.text, i ? "" : "what this session has seen was cut off there");
        end();
    }
}

/* The time of the wall is written into the token. A window is open for so long. */
static void write__is_read_at_the_primary_for_the_window(void **state)
{
    struct pg_conn *conn;
    (void)state;
    begin(2);
    stand(0, primary(1, 5, 400));
    stand(1, standby(1, 400));
    open_at(WEIR_SESSION_WINDOW, WEIR_BEHIND_LEADER, (struct weir_place){ 0 });
    expect_read("b", false, 0);
    session->window_ns = 3600 * 1000 * MS;
    uint64_t begun_s = (uint64_t)time(NULL);
    assert_int_equal(weir_session_write(session, &conn), 0);
    expect_read("a", true, 0);
    uint64_t wrote_s = session->token.wrote_ns / (1000 * MS);
    assert_true(wrote_s >= begun_s && wrote_s <= (uint64_t)time(NULL));
    session->token.wrote_ns -= session->window_ns;
    expect_read("b", false, 0);
    end();
}

static void write__says_that_none_answers_where_its_connections_fail(void **state)
{
    struct pg_conn *conn;
    (void)state;
    begin(1);
    stand(0, primary(1, 5, 400));
    world.servers[0].refuses = WEIR_EDOWN;
    open_at(WEIR_SESSION_TRACKED, WEIR_BEHIND_ERROR, (struct weir_place){ 0 });
    assert_int_equal(weir_session_write(session, &conn), WEIR_EDOWN);
    assert_true(world.servers[0].tried > 1); /* again, when its poller has heard from it */
    world.servers[0].refuses = 0;
    assert_int_equal(weir_session_write(session, &conn), 0);
    world.servers[0].breaks++; /* and again where the connection that it kept is broken */
    assert_int_equal(weir_session_write(session, &conn), 0);
    assert_int_equal(weir_session_rest(session), 0);
    world.servers[0].refuses = WEIR_EDOWN;
    unsigned tried = world.servers[0].tried;
    assert_int_equal(weir_session_accept(session), WEIR_EDOWN);
    assert_true(world.servers[0].tried > tried + 1);
    end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(write__goes_to_one_that_was_promoted_just_now),
        cmocka_unit_test(write__says_what_its_connection_says),
        cmocka_unit_test(write__at_another_primary_goes_on_from_what_it_wrote),
        cmocka_unit_test(write__asks_again_where_the_connection_breaks),
        cmocka_unit_test(write__goes_to_a_primary_that_its_poller_knows_as_it_is),
        cmocka_unit_test(write__goes_to_no_primary_that_says_it_is_none),
        cmocka_unit_test(write__waits_for_a_primary),
        cmocka_unit_test(write__says_that_none_answers_where_its_connections_fail),
        cmocka_unit_test(write__is_checked_where_the_session_is_tracked),
        cmocka_unit_test(write__is_read_at_the_primary_for_the_window),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
