/* SPDX-License-Identifier: Apache-2.0
 *
 * What is made of the pollers' answers: who is usable and why not, who the primary is, what is known, and the snapshots
 * that readers see. The answers are stored as a poller's thread would store them. */
#include "poller_world.h"

#define FREEZE (5 * SECOND)

static struct weir_servers servers;

static int begin(void **state)
{
    (void)state;
    world.now_ns = 1000 * SECOND;
    servers = (struct weir_servers){ .options = { .timeout_ns = SECOND, .poll_ns = SECOND },
                                     .health = { .freeze_ns = FREEZE } };
    pthread_mutex_init(&servers.lock, NULL);
    pthread_cond_init(&servers.wake, NULL);
    pthread_cond_init(&servers.news, NULL);
    return 0;
}

/* So many that have not answered: "a", "b" and so on. */
static void have(unsigned count)
{
    for (; servers.count < count; servers.count++) {
        struct weir_poller *poller = calloc(1, sizeof *poller);
        struct weir_conninfo *conninfo = calloc(1, sizeof *conninfo + 8);
        assert_true(poller && conninfo);
        conninfo->references = 1;
        poller->servers = &servers;
        poller->conninfo = conninfo;
        poller->health.id = 100 + servers.count;
        poller->counter = servers.count;
        poller->name[0] = (char)('a' + servers.count);
        poller->counted_ns = world.now_ns;
        atomic_store(&servers.read_counters[poller->counter].id, poller->health.id);
        servers.pollers[servers.count] = poller;
        weir_health_add(&servers.health, &poller->health);
    }
    weir_servers_publish(&servers);
}

static unsigned rooms(void)
{
    unsigned count = 0;
    for (struct weir_room *room = servers.rooms; room; room = room->next)
        count++;
    return count;
}

static int end(void **state)
{
    (void)state;
    for (struct weir_room *room = servers.rooms, *next; room; room = next) {
        for (unsigned i = 0; i < room->snapshot.count; i++)
            weir_conninfo_release(room->conninfos[i]);
        next = room->next;
        free(room);
    }
    bool kept = false;
    for (unsigned i = 0; i < servers.count; i++) {
        kept = kept || servers.pollers[i]->conninfo->references > 1; /* by nobody */
        weir_conninfo_release(servers.pollers[i]->conninfo);
        free(servers.pollers[i]);
    }
    return kept;
}

static void answer_with(unsigned index, struct weir_shown shown, struct weir_health_reply reply)
{
    reply.shown = shown;
    reply.begun_ns = ++world.now_ns;
    reply.page_size = 8192;
    weir_servers_store(&servers, servers.pollers[index], &(struct weir_poll_result){ .reply = reply });
}

static void answer(unsigned index, struct weir_shown shown)
{
    answer_with(index, shown, (struct weir_health_reply){ 0 });
}

/* With the history of its timeline: it left 1 at 104. */
static void answer_forked(unsigned index, struct weir_shown shown)
{
    struct weir_health_reply with = {
        .with_history = true, .history = { .timeline = shown.timeline, .count = 1, .ancestors = { { 1, 104, 0 } } }
    };
    answer_with(index, shown, with);
}

static const struct weir_snapshot *seen(void)
{
    return &atomic_load(&servers.current)->snapshot;
}

static void expect_usable(unsigned index)
{
    assert_true(seen()->servers[index].usable);
    assert_false(seen()->servers[index].frozen);
    assert_string_equal(seen()->states[index].fault, "");
}

static void expect_unusable(unsigned index, const char *why)
{
    assert_false(seen()->servers[index].usable);
    assert_non_null(strstr(seen()->states[index].fault, why));
}

/* ---- who is usable ---- */

static void servers__say_why_one_is_not_usable(void **state)
{
    (void)state;
    have(3);
    struct weir_shown foreign = standby(1, 400), mute = standby(0, 400);
    foreign.system = SYSTEM + 1;
    for (unsigned i = 0; i < 3; i++)
        expect_unusable(i, "has not answered yet");
    assert_true(seen()->servers[1].lag_ns == UINT64_MAX);
    answer(0, primary(1, 5, 400));
    answer(1, standby(1, 400));
    expect_usable(0);
    expect_usable(1);
    assert_int_equal(seen()->servers[1].lag_ns, 0);
    foreign.timeline = 9;
    answer(1, foreign);
    expect_unusable(1, "another system");
    expect_usable(0);
    assert_true(seen()->servers[1].lag_ns == UINT64_MAX);
    answer(1, mute);
    expect_unusable(1, "timeline cannot be told");
    answer_forked(2, primary(2, 6, 400));
    expect_usable(2);
    expect_unusable(0, "another has taken over");
    struct weir_shown lone = standby(2, 400);
    lone.streams = false;
    answer(1, lone);
    expect_unusable(1, "which promotion");
    weir_servers_fail(&servers, servers.pollers[2], "refused");
    expect_unusable(2, "refused");
    expect_unusable(0, "another has taken over"); /* that it is down for a moment changes nothing */
    assert_int_equal(seen()->servers[2].shown.position, 400);
    answer_forked(2, primary(2, 6, 400));
    expect_usable(2);
    answer(1, standby(2, 400)); /* it receives from that primary */
    expect_usable(1);
}

/* A role that was said last is that of another once somebody took over, and the own one until then. */
static void servers__tell_a_primary_from_a_former_one(void **state)
{
    (void)state;
    have(3);
    struct weir_shown stranger = primary(9, 6, 400);
    stranger.system = SYSTEM + 1;
    answer(0, primary(1, 5, 400));
    answer(1, standby(1, 400));
    answer(2, stranger);
    weir_servers_fail(&servers, servers.pollers[0], "refused");
    assert_false(seen()->states[0].former || seen()->states[1].former || seen()->states[2].former);
    answer_forked(1, primary(2, 6, 400));
    assert_true(seen()->states[0].former);
    answer(0, primary(1, 5, 408)); /* it runs on */
    assert_true(seen()->states[0].former);
    assert_false(seen()->states[1].former);
    answer(2, primary(2, 7, 400)); /* of the same number: nobody can say which is the true one */
    assert_false(seen()->states[1].former || seen()->states[2].former);
    weir_servers_fail(&servers, servers.pollers[1], "refused");
    assert_true(seen()->states[1].former);
    assert_false(seen()->states[2].former);
    weir_servers_fail(&servers, servers.pollers[2], "refused");
    assert_false(seen()->states[2].former);
    answer(0, standby(2, 400));
    assert_false(seen()->states[0].former);
}

static void servers__leave_out_who_went_on_where_the_primary_left_its_timeline(void **state)
{
    (void)state;
    have(2);
    answer(1, standby(1, 112));
    answer(0, primary(2, 6, 400)); /* nobody knows yet where it left */
    expect_usable(1);
    answer_forked(0, primary(2, 6, 400));
    expect_unusable(1, "has gone on");
    answer(1, standby(1, 104));
    expect_usable(1);
    struct weir_health_reply cut = {
        .with_history = true, .history = { .timeline = 5, .cut = true, .count = 1, .ancestors = { { 4, 400, 0 } } }
    };
    answer_with(0, primary(5, 7, 800), cut); /* older ancestors are not known */
    expect_usable(1);
}

/* On timeline 2 of another promotion; and on one that the primary's history does not name. */
static void servers__leave_out_who_is_of_another_promotion(void **state)
{
    struct weir_health_reply third = {
        .with_history = true, .history = { .timeline = 3, .count = 2, .ancestors = { { 1, 104, 0 }, { 2, 300, 0 } } }
    };
    (void)state;
    have(3);
    answer(0, primary(2, 5, 200));
    answer(1, standby(2, 200));
    expect_usable(1);
    answer(0, primary(2, 6, 100)); /* less than the first had flushed: another's */
    expect_unusable(1, "has gone on");
    answer(2, standby(2, 100)); /* it follows the second, which is promoted in its turn */
    expect_usable(2);
    answer(0, standby(2, 100));
    struct weir_shown promoted = primary(3, 3, 400); /* the same start as when it was a standby */
    answer_with(0, promoted, third);
    expect_usable(2);
    expect_unusable(1, "has gone on");
    third.history.timeline = 4;
    third.history.count = 1;
    answer_with(0, primary(4, 7, 400), third); /* a history that does not name timeline 2 at all */
    expect_unusable(2, "has gone on");
}

/* Ends may fall: what a later ancestor left is left for good. */
static void servers__leave_out_who_is_beyond_the_least_end(void **state)
{
    struct weir_health_reply with = {
        .with_history = true, .history = { .timeline = 3, .count = 2, .ancestors = { { 1, 104, 0 }, { 2, 56, 0 } } }
    };
    (void)state;
    have(2);
    answer(1, standby(1, 64));
    answer_with(0, primary(3, 7, 400), with);
    expect_unusable(1, "has gone on");
    answer(1, standby(1, 56));
    expect_usable(1);
}

/* ---- who stands still ---- */

static void servers__call_frozen_who_stands_while_the_primary_moves(void **state)
{
    (void)state;
    have(2);
    answer(0, primary(1, 5, 400));
    answer(1, standby(1, 400));
    world.now_ns += 2 * FREEZE;
    answer(0, primary(1, 5, 400));
    answer(1, standby(1, 400));
    expect_usable(1); /* nobody moves */
    answer(0, primary(1, 5, 480));
    uint64_t moved_ns = world.now_ns;
    world.now_ns = moved_ns + FREEZE - 2;
    answer(1, standby(1, 400));
    expect_usable(1);
    assert_true(seen()->servers[1].lag_ns > 0);
    answer(1, standby(1, 400)); /* for so long */
    assert_true(seen()->servers[1].frozen && !seen()->servers[1].usable);
    assert_non_null(strstr(seen()->states[1].fault, "stands still"));
    assert_true(seen()->states[1].frozen);
    weir_servers_fail(&servers, servers.pollers[1], "refused");
    assert_false(seen()->states[1].frozen || seen()->servers[1].frozen);
    expect_unusable(1, "refused");
    answer(1, standby(1, 408)); /* it moves, and is behind all the same */
    expect_usable(1);
    world.now_ns += FREEZE - 2;
    answer(1, standby(1, 408));
    expect_usable(1);
    answer(1, standby(1, 408)); /* for so long again */
    assert_true(seen()->servers[1].frozen);
    answer_forked(0, primary(2, 6, 480));
    assert_true(seen()->states[1].frozen);
    assert_false(seen()->servers[1].frozen); /* who went on elsewhere is not even good for a stale read */
    expect_unusable(1, "has gone on");
    answer(1, standby(2, 480));
    expect_usable(1);
    assert_int_equal(seen()->servers[1].lag_ns, 0);
}

/* At a page's end the record may not be whole: the primary has not moved for those who replay. */
static void servers__do_not_count_what_ends_with_a_page_as_written(void **state)
{
    (void)state;
    have(2);
    struct weir_shown page = primary(1, 5, 9000);
    answer(0, primary(1, 5, 8000));
    answer(1, standby(1, 8000));
    page.flushed = 8192;
    answer(0, page);
    answer(1, standby(1, 8000));
    assert_int_equal(seen()->servers[1].lag_ns, 0);
    page.flushed = 8200; /* beyond that nothing was flushed */
    answer(0, page);
    answer(1, standby(1, 8000));
    assert_true(seen()->servers[1].lag_ns > 0);
    answer(1, standby(1, 8200));
    assert_int_equal(seen()->servers[1].lag_ns, 0);
    page.position = page.flushed = 2 * 8192; /* all that was written */
    answer(0, page);
    answer(1, standby(1, 8200));
    assert_true(seen()->servers[1].lag_ns > 0);
}

/* ---- who is the primary ---- */

static void servers__follow_no_one_of_two_primaries(void **state)
{
    (void)state;
    have(2);
    for (unsigned first = 0; first < 2; first++) {
        answer(first, primary(1, 5, 400));
        answer(1 - first, standby(1, 400));
        assert_ptr_equal(weir_health_primary(&servers.health), &servers.pollers[first]->health);
        answer(1 - first, primary(1, 6, 400)); /* another run */
        assert_null(weir_health_primary(&servers.health));
        struct weir_shown copy = primary(1, 5, 400); /* another start */
        copy.started = 8;
        answer(1 - first, copy);
        assert_null(weir_health_primary(&servers.health));
        weir_servers_fail(&servers, servers.pollers[first], "refused");
        assert_ptr_equal(weir_health_primary(&servers.health), &servers.pollers[1 - first]->health);
        answer(first, primary(1, 5, 400));
        weir_servers_fail(&servers, servers.pollers[1 - first], "refused");
        assert_ptr_equal(weir_health_primary(&servers.health), &servers.pollers[first]->health);
        answer(1 - first, primary(1, 5, 400)); /* one server under two names */
        assert_ptr_equal(weir_health_primary(&servers.health), &servers.pollers[0]->health);
    }
}

/* A stranger under one address changes nothing; under all of them it is another system. */
static void servers__believe_in_another_system_once_all_are_of_it(void **state)
{
    (void)state;
    have(2);
    struct weir_shown other = primary(1, 9, 4000), follows = standby(1, 2000);
    other.system = follows.system = SYSTEM + 1;
    answer(0, primary(1, 5, 400));
    answer(1, standby(1, 400));
    uint64_t changes = seen()->known.changes;
    weir_servers_fail(&servers, servers.pollers[1], "refused");
    answer(0, other);
    expect_unusable(0, "another system");
    assert_int_equal(servers.health.system, SYSTEM);
    assert_int_equal(seen()->known.run_count, 1);
    answer(1, follows);
    expect_usable(1);
    answer(0, other);
    expect_usable(0);
    assert_int_equal(servers.health.system, SYSTEM + 1);
    assert_int_equal(seen()->known.run_count, 1);
    assert_int_equal(seen()->known.runs[0].run, 9);
    assert_true(seen()->known.changes > changes); /* what was shown before may be cut off */
    answer(1, follows);
    assert_true(seen()->servers[1].lag_ns == UINT64_MAX); /* of the other system nothing is known so far back */
}

static void servers__keep_what_was_settled_for_its_run(void **state)
{
    struct weir_shown shown = primary(1, 5, 400);
    (void)state;
    have(1);
    answer_with(0, shown, (struct weir_health_reply){ .settled_ns = 70 });
    answer_with(0, shown, (struct weir_health_reply){ .settled_ns = 0 });
    assert_int_equal(seen()->servers[0].settled_ns, 70);
    answer_with(0, shown, (struct weir_health_reply){ .settled_ns = 90 });
    assert_int_equal(seen()->servers[0].settled_ns, 90);
    shown.run = 6;
    answer(0, shown);
    assert_int_equal(seen()->servers[0].settled_ns, 0);
    answer_with(0, shown, (struct weir_health_reply){ .settled_ns = 100 });
    shown.timeline = 2;
    answer(0, shown);
    assert_int_equal(seen()->servers[0].settled_ns, 0);
}

/* ---- snapshots ---- */

static void servers__show_each_reader_what_it_looked_at(void **state)
{
    (void)state;
    have(1);
    answer(0, primary(1, 5, 400));
    const struct weir_snapshot *old = weir_servers_look(&servers);
    uint64_t number = old->number;
    for (uint64_t position = 408; position < 4000; position += 8) {
        answer(0, primary(1, 5, position));
        assert_true(seen()->number > number);
        number = seen()->number;
        const struct weir_snapshot *new = weir_servers_look(&servers);
        assert_int_equal(new->servers[0].shown.position, position);
        weir_servers_release(&servers, new);
    }
    assert_int_equal(old->servers[0].shown.position, 400);
    assert_int_equal(rooms(), 3); /* his, the current one, and the next */
    weir_servers_release(&servers, old);
    answer(0, primary(1, 5, 4000));
    answer(0, primary(1, 5, 4000));
    assert_int_equal(rooms(), 3);
}

static void servers__count_reads_by_the_second(void **state)
{
    (void)state;
    have(2);
    for (unsigned i = 0; i < 40; i++)
        weir_servers_count(&servers, i % 4 == 0 ? 101 : 100);
    world.now_ns += SECOND / 2;
    answer(0, primary(1, 5, 400));
    assert_int_equal(seen()->servers[0].load, 0);
    world.now_ns += SECOND + SECOND / 2;
    answer(0, primary(1, 5, 400));
    answer(1, standby(1, 400));
    assert_in_range(seen()->servers[0].load, 14, 15); /* 30 in two seconds */
    assert_in_range(seen()->servers[1].load, 4, 5);
    for (unsigned i = 0; i < 10; i++)
        weir_servers_count(&servers, 100);
    world.now_ns += SECOND - 2; /* a second since it was counted last */
    answer(0, primary(1, 5, 400));
    assert_int_equal(seen()->servers[0].load, 10);
    world.now_ns += SECOND;
    answer(0, primary(1, 5, 400));
    assert_int_equal(seen()->servers[0].load, 0);
}

/* ---- what connections of others tell ---- */

static void servers__take_a_connections_word_for_a_run_that_is_known(void **state)
{
    struct weir_shown shown = primary(1, 5, 800), foreign = shown, later = primary(1, 6, 800);
    (void)state;
    have(2);
    answer(0, primary(1, 5, 400));
    uint64_t number = seen()->number;
    foreign.system++;
    weir_servers_tell(&servers, &foreign);
    struct weir_shown follows = standby(1, 800);
    weir_servers_tell(&servers, &follows);
    assert_int_equal(seen()->number, number);
    assert_int_equal(seen()->known.runs[0].flushed, 400);
    weir_servers_tell(&servers, &shown);
    assert_true(seen()->number > number);
    assert_int_equal(seen()->known.runs[0].flushed, 800);
    assert_false(servers.pollers[0]->hurry || servers.pollers[1]->hurry);
    number = seen()->number;
    weir_servers_tell(&servers, &later); /* the pollers see for themselves */
    assert_int_equal(seen()->number, number);
    weir_servers_publish(&servers);
    assert_int_equal(seen()->known.run_count, 1);
    assert_true(servers.pollers[0]->hurry && servers.pollers[1]->hurry);
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, begin, end)
    const struct CMUnitTest tests[] = {
        CASE(servers__say_why_one_is_not_usable),
        CASE(servers__tell_a_primary_from_a_former_one),
        CASE(servers__leave_out_who_went_on_where_the_primary_left_its_timeline),
        CASE(servers__leave_out_who_is_of_another_promotion),
        CASE(servers__leave_out_who_is_beyond_the_least_end),
        CASE(servers__call_frozen_who_stands_while_the_primary_moves),
        CASE(servers__do_not_count_what_ends_with_a_page_as_written),
        CASE(servers__follow_no_one_of_two_primaries),
        CASE(servers__believe_in_another_system_once_all_are_of_it),
        CASE(servers__keep_what_was_settled_for_its_run),
        CASE(servers__show_each_reader_what_it_looked_at),
        CASE(servers__count_reads_by_the_second),
        CASE(servers__take_a_connections_word_for_a_run_that_is_known),
    };
#undef CASE
    return cmocka_run_group_tests_name("servers", tests, NULL, NULL);
}
