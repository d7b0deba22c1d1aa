/* SPDX-License-Identifier: Apache-2.0
 *
 * What one poller asks of its server, how often, and what it makes of the answers. */
#include "poller_world.h"

static struct weir_servers servers;
static struct weir_poller *poller;
static struct weir_known known;
static struct weir_poll_result answer;
static char fault[WEIR_ASK_TEXT_SIZE];
static struct fake *const fake = &world.servers[0];

static int begin(void **state)
{
    (void)state;
    memset(world.servers, 0, sizeof world.servers);
    world.now_ns = 1000 * SECOND;
    servers = (struct weir_servers){ .options = { .timeout_ns = SECOND } };
    known = (struct weir_known){ .system = SYSTEM };
    poller = calloc(1, sizeof *poller);
    struct weir_conninfo *conninfo = calloc(1, sizeof *conninfo + 8);
    if (!poller || !conninfo)
        return -1;
    strcpy(conninfo->text, "host=0");
    poller->servers = &servers;
    poller->conninfo = conninfo;
    fake->shown = primary(1, 5, 400);
    fake->number = "17";
    return 0;
}

static int end(void **state)
{
    (void)state;
    weir_poller_drop(poller);
    free(poller->conninfo);
    free(poller);
    return world.open; /* none is left */
}

#define TURN (MS / 1000) /* from one round to the next */

static int ask(bool waited)
{
    world.now_ns += TURN;
    return weir_poller_ask(poller, &known, waited, &answer, fault);
}

static void pass(uint64_t ns)
{
    world.now_ns += ns;
}

/* ---- connections ---- */

static void poller__keeps_its_connection_and_makes_one_that_was_ended_again(void **state)
{
    (void)state;
    assert_int_equal(ask(false), 0);
    assert_int_equal(ask(false), 0);
    assert_int_equal(fake->connects, 1);
    assert_true(answer.reply.begun_ns == world.now_ns && answer.reply.page_size == 8192 &&
                answer.remark.segment_size == 1 << 24);
    assert_int_equal(answer.reply.replayed_ns, 17000);
    poller->generation = 4;
    fake->error = WEIR_EIO;
    assert_int_equal(ask(false), 0);
    assert_int_equal(fake->connects, 2);
    assert_int_equal(poller->generation, 0); /* a new one is to be drawn */
    fake->breaks = true;
    assert_int_equal(ask(false), WEIR_EIO);
    assert_non_null(strstr(fault, "does not answer"));
    assert_int_equal(fake->connects, 3); /* a new one that breaks is enough */
    assert_null(poller->conn);
    assert_int_equal(ask(false), WEIR_EIO);
    assert_int_equal(fake->connects, 4);
    fake->down = true;
    assert_int_equal(ask(false), WEIR_EIO);
    assert_string_equal(fault, "refused");
}

static void poller__who_refuses_a_question_keeps_its_connection(void **state)
{
    (void)state;
    assert_int_equal(ask(false), 0);
    fake->error = WEIR_EAGAIN;
    assert_int_equal(ask(false), WEIR_EAGAIN);
    assert_non_null(strstr(fault, "refused"));
    assert_int_equal(ask(false), 0);
    assert_int_equal(fake->connects, 1);
}

static void poller__tells_why_a_server_will_not_do(void **state)
{
    (void)state;
    fake->fixed_error = WEIR_EPROTO;
    assert_int_equal(ask(false), WEIR_EPROTO);
    assert_string_equal(fault, weir_shown_why_not(WEIR_EPROTO));
    assert_int_equal(world.open, 0);
    fake->fixed_error = 0;
    assert_int_equal(ask(false), 0);
}

/* ---- the replication protocol ---- */

static void poller__asks_by_replication_for_a_timeline_that_the_server_does_not_tell(void **state)
{
    (void)state;
    fake->shown = standby(1, 400);
    fake->timeline = "6";
    assert_int_equal(ask(false), 0);
    assert_int_equal(fake->timelines, 0);
    assert_int_equal(answer.reply.shown.timeline, 1);
    fake->shown.timeline = 0;
    assert_int_equal(ask(false), 0);
    assert_int_equal(ask(false), 0);
    assert_int_equal(answer.reply.shown.timeline, 6);
    assert_false(answer.remark.alone);
    assert_int_equal(fake->senders, 1);
    assert_int_equal(fake->timelines, 2);
    fake->timeline = NULL;
    assert_int_equal(ask(false), 0);
    assert_int_equal(answer.reply.shown.timeline, 0);
    assert_true(answer.remark.alone);
    assert_non_null(strstr(answer.remark.fault, "replication"));
}

static void poller__tries_to_have_replication_once_a_second(void **state)
{
    (void)state;
    fake->shown = standby(0, 400);
    fake->timeline = "6";
    fake->sender_down = true;
    for (int i = 0; i < 5; i++) {
        assert_int_equal(ask(false), 0);
        assert_true(answer.remark.alone);
        assert_string_equal(answer.remark.fault, "no replication");
    }
    assert_int_equal(fake->senders, 1);
    fake->sender_down = false;
    pass(SECOND - 5 * TURN);
    assert_int_equal(ask(false), 0);
    assert_int_equal(answer.reply.shown.timeline, 6);
    fake->sender_breaks = true;
    assert_int_equal(ask(false), 0);
    assert_true(answer.remark.alone && answer.reply.shown.timeline == 0);
    assert_non_null(strstr(answer.remark.fault, "broke"));
    fake->sender_breaks = false;
    pass(SECOND);
    assert_int_equal(ask(false), 0);
    assert_int_equal(answer.reply.shown.timeline, 6);
    assert_int_equal(fake->senders, 3);
}

static void poller__asks_for_a_history_until_it_is_known(void **state)
{
    (void)state;
    fake->shown = primary(2, 5, 400);
    assert_int_equal(ask(false), 0); /* refused */
    assert_true(answer.remark.alone && !answer.reply.with_history);
    fake->history = "1\t0/68\tno reason\n";
    assert_int_equal(ask(false), 0);
    assert_true(answer.remark.alone && !answer.reply.with_history);
    assert_int_equal(fake->histories, 1);
    pass(SECOND);
    for (unsigned i = 2; i < 4; i++) {
        assert_int_equal(ask(false), 0);
        assert_true(answer.reply.with_history && !answer.remark.alone);
        assert_int_equal(fake->histories, i);
    }
    assert_int_equal(answer.reply.history.ancestors[0].end, 104);
    answer.reply.history.branch = weir_health_branch(&poller->health, &answer.reply.shown);
    weir_known_history(&known, SYSTEM, &answer.reply.history);
    assert_int_equal(ask(false), 0);
    assert_false(answer.reply.with_history);
    assert_int_equal(fake->histories, 3);
}

/* ---- who waits ---- */

/* What a read tidied up is flushed in a quarter of a minute: where somebody waits, sooner. */
static void poller__makes_a_primary_flush_for_those_who_wait(void **state)
{
    (void)state;
    fake->shown.flushed = 392;
    assert_int_equal(ask(true), 0); /* it may be under way */
    pass(10 * MS - 3 * TURN);
    assert_int_equal(ask(true), 0);
    assert_int_equal(ask(false), 0);
    assert_int_equal(fake->nudges, 0);
    assert_int_equal(ask(true), 0); /* 10 ms */
    assert_int_equal(fake->nudges, 1);
    pass(100 * MS - 2 * TURN);
    assert_int_equal(ask(true), 0);
    assert_int_equal(fake->nudges, 1);
    assert_int_equal(ask(true), 0);
    assert_int_equal(fake->nudges, 2);
    pass(SECOND);
    assert_int_equal(ask(false), 0); /* nobody waits */
    assert_int_equal(fake->nudges, 2);
    fake->shown.flushed = 400; /* now it is */
    assert_int_equal(ask(true), 0);
    fake->shown.flushed = 392;
    assert_int_equal(ask(true), 0); /* another one, which may be under way */
    assert_int_equal(fake->nudges, 2);
    fake->shown = standby(1, 400);
    pass(SECOND);
    assert_int_equal(ask(true), 0);
    assert_int_equal(fake->nudges, 2);
}

static void poller__looks_who_runs_for_those_who_wait(void **state)
{
    (void)state;
    assert_int_equal(ask(true), 0); /* nobody runs, by the numbers */
    assert_int_equal(answer.reply.settled_ns, answer.reply.begun_ns);
    assert_int_equal(fake->looks, 0);
    fake->shown.settled = false;
    assert_int_equal(ask(false), 0);
    assert_int_equal(answer.reply.settled_ns, 0);
    assert_int_equal(fake->looks, 0);
    assert_int_equal(ask(true), 0);
    uint64_t begun_ns = answer.reply.begun_ns;
    assert_int_equal(answer.reply.settled_ns, 0);
    fake->settles = true;
    fake->settling_error = WEIR_EAGAIN;
    pass(MS);
    assert_int_equal(ask(true), 0); /* those of the first look are gone: all that ran then */
    assert_int_equal(answer.reply.settled_ns, begun_ns);
    assert_int_equal(ask(true), 0); /* and begins anew */
    assert_int_equal(answer.reply.settled_ns, answer.reply.begun_ns);
    fake->settles = false;
    assert_int_equal(ask(true), 0);
    fake->shown = standby(1, 400);
    assert_int_equal(ask(true), 0);
    assert_int_equal(poller->settling.begun_ns, 0);
    fake->shown = primary(1, 5, 400);
    fake->shown.settled = false;
    fake->settling_error = WEIR_EIO;
    assert_int_equal(ask(true), WEIR_EIO);
}

/* ---- numbers ---- */

static void poller__reads_clocks_where_there_is_a_query(void **state)
{
    static const struct {
        const char *said;
        uint64_t clock;
    } cases[] = { { "42", 42 }, { "0", 0 }, { "-3", 0 }, { NULL, 0 }, { "18446744073709551615", UINT64_MAX } };
    (void)state;
    fake->clock = "41";
    assert_int_equal(ask(false), 0);
    assert_int_equal(fake->clocks, 0);
    servers.options.clock_query = "clock";
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        fake->clock = cases[i].said;
        assert_int_equal(ask(false), 0);
        assert_true(answer.reply.clock == cases[i].clock);
    }
    fake->number = "-1";
    assert_int_equal(ask(false), 0);
    assert_int_equal(answer.reply.replayed_ns, 0);
}

/* ---- the branch table ---- */

static void expect_tables(unsigned count)
{
    unsigned before = fake->tables;
    assert_int_equal(ask(false), 0);
    assert_int_equal(fake->tables - before, count);
}

static void poller__looks_into_the_branch_table_as_often_as_its_rows_may_change(void **state)
{
    (void)state;
    fake->history = "";
    expect_tables(0); /* there is none */
    servers.options.branch_table = "weir.branches";
    expect_tables(1); /* on timeline 1: whether it will do */
    expect_tables(0);
    pass(10 * SECOND);
    expect_tables(1);
    fake->shown = standby(1, 400);
    pass(10 * SECOND);
    expect_tables(0);
    fake->shown = standby(2, 400);
    expect_tables(1); /* its row has not been replayed: each time */
    expect_tables(1);
    assert_true(answer.reply.looked);
    weir_branches_add(&fake->branches, 2, "3", 1);
    expect_tables(1);
    pass(10 * SECOND);
    expect_tables(0); /* it stays */
    assert_true(!answer.reply.looked && weir_branches_has(&answer.reply.branches, 2, 3));
    fake->shown = primary(2, 5, 400);
    expect_tables(1);
    expect_tables(0);
    pass(10 * SECOND);
    expect_tables(1);
    fake->shown.started = 6; /* begun anew */
    expect_tables(1);
}

static void poller__looks_into_a_table_that_cannot_be_had_each_second(void **state)
{
    (void)state;
    fake->history = "";
    fake->shown = primary(2, 5, 400);
    fake->table_error = WEIR_EAGAIN;
    servers.options.branch_table = "weir.branches";
    expect_tables(1);
    expect_tables(0);
    assert_string_equal(answer.remark.table_fault, "no table");
    pass(SECOND);
    expect_tables(1);
    fake->table_error = 0;
    pass(SECOND);
    expect_tables(1);
    assert_string_equal(answer.remark.table_fault, "");
    fake->table_error = WEIR_EIO; /* it broke the connection: the next one is asked for the rest */
    fake->shown.started = 9;
    assert_int_equal(ask(false), 0);
    assert_int_equal(fake->connects, 2);
    assert_string_equal(answer.remark.table_fault, "no table");
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, begin, end)
    const struct CMUnitTest tests[] = {
        CASE(poller__keeps_its_connection_and_makes_one_that_was_ended_again),
        CASE(poller__who_refuses_a_question_keeps_its_connection),
        CASE(poller__tells_why_a_server_will_not_do),
        CASE(poller__asks_by_replication_for_a_timeline_that_the_server_does_not_tell),
        CASE(poller__tries_to_have_replication_once_a_second),
        CASE(poller__asks_for_a_history_until_it_is_known),
        CASE(poller__makes_a_primary_flush_for_those_who_wait),
        CASE(poller__looks_who_runs_for_those_who_wait),
        CASE(poller__reads_clocks_where_there_is_a_query),
        CASE(poller__looks_into_the_branch_table_as_often_as_its_rows_may_change),
        CASE(poller__looks_into_a_table_that_cannot_be_had_each_second),
    };
#undef CASE
    return cmocka_run_group_tests_name("poller", tests, NULL, NULL);
}
