/* SPDX-License-Identifier: Apache-2.0
 *
 * The health of servers as a state machine: what an answer, or none, makes of each. */
#include "core/session/health.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#define SYSTEM 77
#define MS UINT64_C(1000000)
#define FREEZE (400 * MS)

enum { A, B, C, SERVERS };

static struct weir_health health;
static struct weir_health_server servers[SERVERS];
static uint64_t now_ns;

static int begin(void **state)
{
    (void)state;
    memset(servers, 0, sizeof servers);
    memset(&health, 0, sizeof health);
    health.freeze_ns = FREEZE;
    now_ns = 1000 * MS;
    for (unsigned i = 0; i < SERVERS; i++) {
        servers[i].id = 10 + i;
        weir_health_add(&health, &servers[i]);
    }
    return 0;
}

static void hear(unsigned index, struct weir_shown shown)
{
    struct weir_health_reply reply = { .shown = shown, .begun_ns = now_ns += MS, .page_size = 8192 };
    reply.shown.system = shown.system ? shown.system : SYSTEM;
    reply.with_history = shown.primary && shown.timeline == 2;
    if (reply.with_history)
        reply.history = (struct weir_history){ .timeline = 2, .count = 1, .ancestors = { { 1, 104, 0 } } };
    weir_health_hear(&health, &servers[index], &reply);
}

static struct weir_shown primary(uint32_t timeline, uint64_t position)
{
    return (struct weir_shown){ .timeline = timeline,
                                .position = position,
                                .flushed = position,
                                .run = timeline,
                                .started = timeline,
                                .primary = true };
}

static struct weir_shown standby(uint32_t timeline, uint64_t position)
{
    return (struct weir_shown){
        .timeline = timeline, .position = position, .received = position, .started = 9, .streams = true
    };
}

static void expect(unsigned index, enum weir_health_phase phase)
{
    struct weir_route_server shown;
    assert_string_equal(weir_health_phase_name(weir_health_phase(&health, &servers[index])),
                        weir_health_phase_name(phase));
    weir_health_show(&health, &servers[index], &shown);
    assert_int_equal(shown.usable, phase == WEIR_HEALTH_USABLE);
    assert_int_equal(shown.frozen, phase == WEIR_HEALTH_FROZEN);
}

static void health__follows_what_the_servers_answer(void **state)
{
    (void)state;
    for (unsigned i = 0; i < SERVERS; i++)
        expect(i, WEIR_HEALTH_UNHEARD);
    weir_health_miss(&servers[C]);
    expect(C, WEIR_HEALTH_UNHEARD);
    hear(A, primary(1, 104));
    hear(B, standby(1, 104));
    expect(A, WEIR_HEALTH_USABLE);
    expect(B, WEIR_HEALTH_USABLE);
    hear(B, standby(0, 104));
    expect(B, WEIR_HEALTH_TIMELESS);
    hear(C, (struct weir_shown){ .system = SYSTEM + 1, .timeline = 7, .position = 8, .run = 1, .primary = true });
    expect(C, WEIR_HEALTH_STRANGER);
    expect(A, WEIR_HEALTH_USABLE);
    weir_health_miss(&servers[A]);
    expect(A, WEIR_HEALTH_DOWN);
}

/* Two addresses of one server, of which one is out: nothing has taken its place. */
static void health__a_server_that_is_reached_elsewhere_is_not_replaced(void **state)
{
    (void)state;
    hear(A, primary(1, 104));
    hear(B, primary(1, 104));
    weir_health_miss(&servers[A]);
    expect(A, WEIR_HEALTH_DOWN);
    assert_false(weir_health_is_former(&health, &servers[A]));
    struct weir_shown next = primary(1, 112);
    next.started = 2; /* restarted */
    hear(B, next);
    assert_true(weir_health_is_former(&health, &servers[A]));
}

static void health__of_a_failover(void **state)
{
    (void)state;
    hear(A, primary(1, 120));
    hear(C, standby(1, 112));
    hear(B, primary(2, 160));
    expect(A, WEIR_HEALTH_FORMER);
    expect(C, WEIR_HEALTH_STRAY); /* it has what was cut off at 104 */
    assert_ptr_equal(weir_health_primary(&health), &servers[B]);
    struct weir_shown follower = standby(2, 160);
    follower.streams = false;
    hear(C, follower);
    expect(C, WEIR_HEALTH_BRANCHLESS);
    follower.streams = true;
    hear(C, follower);
    expect(C, WEIR_HEALTH_USABLE);
    weir_health_miss(&servers[B]);
    expect(A, WEIR_HEALTH_FORMER); /* it does not come back because the other is away */
    follower.started++;            /* and whom one that begins anew follows now nobody can tell */
    hear(C, follower);
    expect(C, WEIR_HEALTH_BRANCHLESS);
    weir_health_remove(&health, &servers[B]);
    weir_health_remove(&health, &servers[C]);
    expect(A, WEIR_HEALTH_USABLE);
}

static void health__of_one_that_stands_still(void **state)
{
    (void)state;
    hear(A, primary(1, 104));
    hear(B, standby(1, 104));
    now_ns += FREEZE;
    hear(B, standby(1, 104));
    expect(B, WEIR_HEALTH_USABLE); /* so does its primary */
    hear(A, primary(1, 208));
    now_ns += FREEZE;
    hear(B, standby(1, 104));
    expect(B, WEIR_HEALTH_FROZEN);
    assert_true(weir_health_stands(&health, &servers[B]));
    hear(B, standby(1, 112));
    expect(B, WEIR_HEALTH_USABLE);
}

/* A primary does not stand still: it was left behind by another. */
static void health__a_primary_that_was_left_does_not_stand(void **state)
{
    (void)state;
    hear(A, primary(1, 104));
    hear(B, primary(2, 160));
    now_ns += 2 * FREEZE;
    hear(C, standby(2, 120));
    now_ns += 2 * FREEZE;
    hear(A, primary(1, 104));
    hear(C, standby(2, 120));
    assert_false(weir_health_stands(&health, &servers[A]));
    assert_true(weir_health_stands(&health, &servers[C]));
    weir_health_miss(&servers[C]);
    assert_false(weir_health_stands(&health, &servers[C]));
}

/* One that could not tell its timeline for a while is where it was, though its primary is gone by then. */
static void a_standby_that_was_timeless__is_on_its_branch_again(void **state)
{
    (void)state;
    hear(B, primary(2, 160));
    hear(A, standby(2, 160));
    hear(A, standby(0, 160));
    expect(A, WEIR_HEALTH_TIMELESS);
    weir_health_miss(&servers[B]);
    hear(A, standby(2, 160));
    assert_int_equal(servers[A].last.shown.branch, weir_branch_of(SYSTEM, 2, 2));
}

static void health__knows_who_leads(void **state)
{
    (void)state;
    struct weir_shown shown = primary(1, 104);
    shown.run = 5;
    shown.started = 6;
    hear(A, shown);
    assert_int_equal(health.known.leading.timeline, 1);
    assert_int_equal(health.known.leading.run, 5);
    assert_int_equal(health.known.leading.started, 6);
}

static void a_connection__tells_of_runs_that_are_known(void **state)
{
    (void)state;
    bool ask = true;
    struct weir_shown shown = primary(1, 104);
    shown.system = SYSTEM + 1;
    hear(A, primary(1, 104));
    assert_false(weir_health_tell(&health, &shown, &ask));
    assert_false(ask);
    shown.system = SYSTEM;
    shown.flushed = 160;
    assert_true(weir_health_tell(&health, &shown, &ask));
    assert_int_equal(health.known.runs[0].flushed, 160);
    assert_false(ask);
    shown.run = 5; /* it may be over by now: the pollers see for themselves */
    assert_false(weir_health_tell(&health, &shown, &ask));
    assert_true(ask);
    assert_int_equal(health.known.run_count, 1);
    shown.run = 1;
    health.known.run_count = 0; /* what stands behind the known ones is none of them */
    assert_false(weir_health_tell(&health, &shown, &ask));
}

/* Of a timeline that is the first there is but one. */
static void a_branch__is_none_on_the_first_timeline(void **state)
{
    (void)state;
    struct weir_shown shown = primary(1, 104);
    shown.started = 77;
    assert_int_equal(weir_health_branch(&servers[A], &shown), 0);
    shown.timeline = 0;
    assert_int_equal(weir_health_branch(&servers[A], &shown), 0);
    shown.timeline = 2;
    assert_int_equal(weir_health_branch(&servers[A], &shown), weir_branch_of(shown.system, 2, 77));
}

/* It stands where it stood or further, and its history says what it said: the same branch under a new number. */
static void a_primary_that_begins_anew__is_on_its_branch(void **state)
{
    static const struct {
        uint64_t position, end;
        unsigned ancestors; /* 0: it tells no history this time */
        bool same;
        uint32_t parent; /* which timeline it says that it left */
    } rows[] = {
        { 200, 104, 1, true, 1 },  { 240, 104, 1, true, 1 },
        { 200, 0, 0, true, 1 },    { 199, 104, 1, false, 1 }, /* it has lost what was flushed */
        { 200, 112, 1, false, 1 }, /* it left its ancestor elsewhere: another was put in its place */
        { 200, 104, 2, false, 1 }, { 200, 104, 1, false, 7 },
    };
    const uint32_t before = weir_branch_of(SYSTEM, 2, 2), after = weir_branch_of(SYSTEM, 2, 5);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        begin(state);
        hear(A, primary(2, 200));
        assert_int_equal(servers[A].last.shown.branch, before);
        struct weir_health_reply reply = { .shown = primary(2, rows[i].position),
                                           .begun_ns = now_ns += MS,
                                           .page_size = 8192 };
        reply.shown.system = SYSTEM;
        reply.shown.started = 5;
        reply.with_history = rows[i].ancestors > 0;
        reply.history = (struct weir_history){ .timeline = 2,
                                               .count = rows[i].ancestors,
                                               .ancestors = { { rows[i].parent, rows[i].end, 0 }, { 7, 160, 0 } } };
        weir_health_hear(&health, &servers[A], &reply);
        assert_int_equal(servers[A].last.shown.branch, after);
        assert_int_equal(weir_known_is_same(&health.known, 2, after, before), rows[i].same);
    }
}

static void a_history_that_was_not_told__is_not_known(void **state)
{
    (void)state;
    struct weir_health_reply reply = { .shown = primary(2, 200), .begun_ns = now_ns += MS, .page_size = 8192 };
    reply.shown.system = SYSTEM;
    weir_health_hear(&health, &servers[A], &reply);
    assert_int_equal(health.known.history_count, 0);
}

/* A row of the branch table tells a run, and the run stays told though the table is not looked at again. */
static void a_run_that_the_table_told__stays_told(void **state)
{
    (void)state;
    struct weir_health_reply reply = { .shown = primary(2, 200), .page_size = 8192, .looked = true };
    reply.shown.system = SYSTEM;
    assert_int_equal(weir_branches_add(&reply.branches, 2, "2", 1), 0);
    for (uint64_t started = 2; started <= 3; started++)
        for (int again = 0; again < 2; again++) {
            reply.begun_ns = now_ns += MS;
            reply.shown.started = started;
            weir_health_hear(&health, &servers[A], &reply);
            assert_int_equal(servers[A].last.shown.told, started == 2);
            reply.looked = false;
            reply.branches = (struct weir_branches){ 0 };
        }
}

static struct weir_health_reply reply_of(struct weir_shown shown)
{
    struct weir_health_reply reply = { .shown = shown, .begun_ns = now_ns += MS, .page_size = 8192 };
    reply.shown.system = SYSTEM;
    return reply;
}

/* Its own row says on which branch a standby is, whatever it was on and whatever the primary is on. */
static void a_standbys_row__is_its_branch(void **state)
{
    (void)state;
    hear(A, primary(2, 200));
    hear(B, standby(2, 200));
    assert_int_equal(servers[B].last.shown.branch, weir_branch_of(SYSTEM, 2, 2));
    struct weir_health_reply reply = reply_of(standby(2, 200));
    reply.looked = true;
    assert_int_equal(weir_branches_add(&reply.branches, 2, "7", 1), 0);
    weir_health_hear(&health, &servers[B], &reply);
    assert_int_equal(servers[B].last.shown.branch, weir_branch_of(SYSTEM, 2, 7));
}

/* The primary has its row. Who follows it and could look has not replayed that yet; who could not is on its branch. */
static void a_standby_without_a_row__is_on_the_primarys_branch_unless_it_could_look(void **state)
{
    for (int looked = 0; looked < 2; looked++) {
        begin(state);
        struct weir_health_reply reply = reply_of(primary(2, 200));
        reply.looked = true;
        assert_int_equal(weir_branches_add(&reply.branches, 2, "2", 1), 0);
        weir_health_hear(&health, &servers[B], &reply);
        assert_true(servers[B].last.shown.told);
        reply = reply_of(standby(2, 200));
        reply.looked = looked;
        weir_health_hear(&health, &servers[A], &reply);
        assert_int_equal(servers[A].last.shown.branch, looked ? 0 : weir_branch_of(SYSTEM, 2, 2));
    }
}

/* The history names the ancestors and the table their branches, whichever of the two is read first. */
static void a_table__is_learned_before_the_history_or_after_it(void **state)
{
    for (int history_first = 0; history_first < 2; history_first++) {
        begin(state);
        for (int i = 0; i < 2; i++) {
            struct weir_health_reply reply = reply_of(primary(3, 200));
            reply.with_history = history_first == !i;
            reply.looked = !reply.with_history;
            reply.history =
                (struct weir_history){ .timeline = 3, .count = 2, .ancestors = { { 1, 104, 0 }, { 2, 160, 0 } } };
            if (reply.looked || i == 1) /* the table was read, and is told on */
                assert_int_equal(weir_branches_add(&reply.branches, 2, "7 8", 3), 0);
            weir_health_hear(&health, &servers[A], &reply);
        }
        assert_true(weir_known_is_same(&health.known, 2, weir_branch_of(SYSTEM, 2, 7), weir_branch_of(SYSTEM, 2, 8)));
        for (int again = 0; again < 2; again++) {
            assert_int_equal(health.known.histories[0].ancestors[1].branch, weir_branch_of(SYSTEM, 2, 7));
            struct weir_health_reply reply = reply_of(primary(3, 200));
            reply.with_history = true; /* told once more, it takes nothing back */
            reply.history =
                (struct weir_history){ .timeline = 3, .count = 2, .ancestors = { { 1, 104, 0 }, { 2, 160, 0 } } };
            weir_health_hear(&health, &servers[A], &reply);
        }
    }
}

/* Of another system: its history says nothing about this one. */
static void a_strangers_history__is_not_known(void **state)
{
    (void)state;
    hear(A, primary(2, 200));
    assert_int_equal(health.known.history_count, 1);
    const struct weir_known before = health.known;
    struct weir_shown stranger = primary(2, 300);
    stranger.system = SYSTEM + 1;
    hear(B, stranger);
    assert_memory_equal(&health.known, &before, sizeof before);
    expect(B, WEIR_HEALTH_STRANGER);
}

/* Only of the process that stood there as a standby. */
static void a_promoted_standbys_past__says_which_branch_it_left(void **state)
{
    for (uint64_t started = 9; started <= 10; started++) {
        begin(state);
        hear(B, primary(2, 160));
        hear(A, standby(2, 160)); /* started at 9 */
        struct weir_health_reply reply = reply_of(primary(3, 168));
        reply.shown.started = started;
        reply.with_history = true;
        reply.history =
            (struct weir_history){ .timeline = 3, .count = 2, .ancestors = { { 1, 104, 0 }, { 2, 160, 0 } } };
        weir_health_hear(&health, &servers[A], &reply);
        const struct weir_history *learned = weir_known_find(&health.known, 3, weir_branch_of(SYSTEM, 3, started));
        assert_non_null(learned);
        assert_int_equal(learned->ancestors[1].branch, started == 9 ? weir_branch_of(SYSTEM, 2, 2) : 0);
        reply.shown.timeline = reply.history.timeline = 4; /* of which the beginning is cut off */
        reply.history.count = 1;
        reply.history.ancestors[0] = (struct weir_ancestor){ 2, 160, 0 };
        reply.begun_ns = now_ns += MS;
        weir_health_hear(&health, &servers[A], &reply);
        learned = weir_known_find(&health.known, 4, weir_branch_of(SYSTEM, 4, started));
        assert_int_equal(learned->ancestors[0].branch, started == 9 ? weir_branch_of(SYSTEM, 2, 2) : 0);
    }
}

/* Whoever goes, the others stay, in their order. */
static void health__who_is_removed_is_gone_and_nobody_else(void **state)
{
    for (unsigned goes = 0; goes < SERVERS; goes++) {
        begin(state);
        weir_health_remove(&health, &servers[goes]);
        assert_int_equal(health.count, SERVERS - 1);
        for (unsigned i = 0; i < SERVERS - 1; i++)
            assert_ptr_equal(health.servers[i], &servers[i < goes ? i : i + 1]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(health__follows_what_the_servers_answer, begin),
        cmocka_unit_test_setup(health__a_server_that_is_reached_elsewhere_is_not_replaced, begin),
        cmocka_unit_test_setup(health__of_a_failover, begin),
        cmocka_unit_test_setup(health__of_one_that_stands_still, begin),
        cmocka_unit_test_setup(a_branch__is_none_on_the_first_timeline, begin),
        cmocka_unit_test_setup(a_primary_that_begins_anew__is_on_its_branch, begin),
        cmocka_unit_test_setup(a_history_that_was_not_told__is_not_known, begin),
        cmocka_unit_test_setup(a_strangers_history__is_not_known, begin),
        cmocka_unit_test_setup(a_run_that_the_table_told__stays_told, begin),
        cmocka_unit_test_setup(a_standbys_row__is_its_branch, begin),
        cmocka_unit_test(a_standby_without_a_row__is_on_the_primarys_branch_unless_it_could_look),
        cmocka_unit_test(a_table__is_learned_before_the_history_or_after_it),
        cmocka_unit_test_setup(health__a_primary_that_was_left_does_not_stand, begin),
        cmocka_unit_test_setup(a_standby_that_was_timeless__is_on_its_branch_again, begin),
        cmocka_unit_test_setup(health__knows_who_leads, begin),
        cmocka_unit_test_setup(a_connection__tells_of_runs_that_are_known, begin),
        cmocka_unit_test(a_promoted_standbys_past__says_which_branch_it_left),
        cmocka_unit_test(health__who_is_removed_is_gone_and_nobody_else),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
