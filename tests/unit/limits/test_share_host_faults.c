/* SPDX-License-Identifier: Apache-2.0
 *
 * Hosts of leased and batched keys: engines that are slow or out of reach, and reloads in the middle of a request. */
#include "share_host_world.h"

static int reserve(struct world *w, const char *value, enum weir_share_say *ret_say)
{
    struct weir_remote_key key = key_of(value);
    struct weir_verdict verdict;
    return weir_share_host_reserve(w->hosts[0].host, &w->terms, &key, 1, false, w->remote.now_ns, ret_say, &verdict);
}

static void commit(struct world *w, const char *value)
{
    struct weir_remote_key key = key_of(value);
    assert_true(weir_share_host_commit(w->hosts[0].host, &key, 1, w->remote.now_ns));
}

/* What the engine granted is here, and one unit of it is spent. */
static void warm_up(struct world *w, const char *value)
{
    assert_int_equal(ask(w, 0, value, 1), WEIR_SHARE_WAIT);
    world_run(w, 5 * MS);
    assert_int_equal(ask(w, 0, value, 1), WEIR_SHARE_YES);
    world_run(w, 5 * MS);
}

static struct weir_share_host_stats stats_of(struct world *w)
{
    struct weir_share_host_stats stats;
    weir_share_host_stats(w->hosts[0].host, &stats);
    return stats;
}

/* One node, which asks about 60 keys and was answered. */
static void world_with_warm_keys(struct world *w, char names[60][8])
{
    world_init(w, 1, 0, 1000, false, 1);
    for (int i = 0; i < 60; i++) {
        snprintf(names[i], sizeof(names[i]), "%d", i);
        warm_up(w, names[i]);
    }
    world_run(w, SECOND);
    for (int i = 0; i < 60; i++)
        assert_int_equal(ask(w, 0, names[i], 1), WEIR_SHARE_YES);
}

/* After an outage asks go out one by one for as long as each takes most of the time that it has. */
static void slow_answers_bring_no_more_asks(void **state)
{
    (void)state;
    struct world w;
    char names[60][8];
    world_with_warm_keys(&w, names);
    w.remote.down = true;
    world_run(&w, SECOND);
    w.remote.down = false;
    w.remote.delay_ns = 9 * MS; /* of 20 both ways */
    while (stats_of(&w).unsettled > 0) {
        assert_true(w.remote.now_ns < T0 + 10 * SECOND);
        assert_true(w.remote.flights_count <= 1);
        world_run(&w, MS);
    }
    w.remote.delay_ns = MS;
    world_deinit(&w);
}

/* A key that could not be given back at a reload is, soon after the engine can be asked again. */
static void what_a_reload_could_not_send_home_goes_later(void **state)
{
    (void)state;
    struct world w;
    world_init(&w, 1, 0, 1000, true, 1);
    w.terms.chunk_ttl_ns = MINUTE;
    warm_up(&w, "ada");
    world_run(&w, 3 * SECOND); /* nothing is due for long */
    assert_true(weir_ledger_held(ledger_of(&w, "ada")) > 0);
    w.remote.down = true;
    assert_int_equal(weir_share_host_retire(w.hosts[0].host, NULL, 0), 0);
    world_run(&w, 100 * MS);
    w.remote.down = false;
    world_run(&w, 2 * SECOND);
    assert_int_equal(weir_ledger_held(ledger_of(&w, "ada")), 0);
    assert_int_equal(stats_of(&w).held, 0);
    world_deinit(&w);
}

/* A reload makes asks shorter while a long one is under way: the key takes it for lost, and asks again when it has
 * ended. */
static void an_ask_may_be_longer_than_a_reload_allows(void **state)
{
    (void)state;
    struct world w;
    enum weir_share_say say;
    world_init(&w, 1, 0, 1000, true, 1);
    w.remote.lost = 1000;
    w.terms.deadline_ns = 2500 * MS;
    assert_int_equal(ask(&w, 0, "ada", 1), WEIR_SHARE_WAIT);
    w.terms.deadline_ns = 20 * MS;
    assert_int_equal(ask(&w, 0, "ada", 1), WEIR_SHARE_WAIT);
    w.remote.lost = 0;
    world_run(&w, 2400 * MS);
    assert_int_equal(w.remote.asks, 1); /* never two at once */
    world_run(&w, 200 * MS);
    assert_int_equal(reserve(&w, "ada", &say), 0);
    assert_int_equal(say, WEIR_SHARE_WAIT);
    world_run(&w, 5 * MS);
    assert_int_equal(ask(&w, 0, "ada", 1), WEIR_SHARE_YES);
    world_deinit(&w);
}

/* A limit is shared in another way from a reload on: who is in the middle of the old one finishes first. */
static void another_way_of_sharing_begins_when_the_old_one_is_settled(void **state)
{
    (void)state;
    for (int leased = 0; leased < 2; leased++) {
        struct world w;
        enum weir_share_say say;
        world_init(&w, 1, 0, 1000, leased, 1);
        warm_up(&w, "ada");
        assert_int_equal(reserve(&w, "ada", &say), 0);
        assert_int_equal(say, WEIR_SHARE_YES);
        w.terms.leased = !leased;
        assert_int_equal(reserve(&w, "ada", &say), WEIR_ELIMIT);
        commit(&w, "ada");
        world_run(&w, 5 * MS);
        assert_int_equal(stats_of(&w).keys, 0);
        assert_int_equal(weir_ledger_held(ledger_of(&w, "ada")), 0);
        assert_int_equal(used(&w, "ada"), 2);
        warm_up(&w, "ada");
        world_deinit(&w);
    }
}

/* Nor does the old one go while somebody waits for its answer; nobody being there, it goes at once. */
static void another_way_of_sharing_waits_for_who_waits(void **state)
{
    (void)state;
    struct world w;
    enum weir_share_say say;
    world_init(&w, 1, 0, 1000, true, 1);
    assert_int_equal(ask(&w, 0, "ada", 1), WEIR_SHARE_WAIT);
    struct waiting *waiting = wait_for(&w, 0, "ada");
    w.terms.leased = false;
    assert_int_equal(reserve(&w, "ada", &say), WEIR_ELIMIT);
    world_run(&w, 5 * MS);
    assert_true(waiting->told);
    warm_up(&w, "ada");
    w.terms.leased = true;
    assert_int_equal(reserve(&w, "ada", &say), 0);
    assert_int_equal(say, WEIR_SHARE_WAIT);
    world_run(&w, 5 * MS);
    assert_int_equal(stats_of(&w).keys, 1);
    world_deinit(&w);
}

/* Who is in the middle of a request is passed over, though it was used longest ago. */
static void a_newcomer_takes_the_place_of_one_that_is_not_busy(void **state)
{
    (void)state;
    struct world w;
    enum weir_share_say say;
    world_init(&w, 1, 2, 1000, true, 1);
    warm_up(&w, "ada");
    assert_int_equal(reserve(&w, "ada", &say), 0);
    assert_int_equal(say, WEIR_SHARE_YES);
    warm_up(&w, "bob");
    warm_up(&w, "cyd");
    assert_int_equal(weir_ledger_held(ledger_of(&w, "bob")), 0);
    assert_int_equal(stats_of(&w).evicted, 1);
    commit(&w, "ada");
    world_deinit(&w);
}

/* A key that left, of which the engine never said whether it granted what was asked for. */
static void what_is_in_doubt_at_the_end_is_forfeited(void **state)
{
    (void)state;
    struct world w;
    world_init(&w, 1, 0, 1000, true, 1);
    w.terms.chunk_ttl_ns = 60 * SECOND; /* longer than a key that left tries to settle */
    w.remote.lost = 1000;
    assert_int_equal(ask(&w, 0, "a", 1), WEIR_SHARE_WAIT);
    world_run(&w, 100 * MS);
    assert_int_equal(stats_of(&w).forfeited, 0);
    assert_int_equal(weir_share_host_retire(w.hosts[0].host, NULL, 0), 0);
    world_run(&w, 15 * SECOND);
    assert_true(stats_of(&w).forfeited >= 1);
    world_deinit(&w);
}

/* Three units that the engine has not heard of, of a key that a reload takes away while the engine is out. */
static void leave_during_an_outage(struct world *w, uint64_t out_ns)
{
    world_init(w, 1, 0, 1000, false, 1);
    w->terms.slack = 20;
    w->terms.interval_ns = MINUTE;
    warm_up(w, "ada");
    for (int i = 0; i < 3; i++)
        assert_int_equal(ask(w, 0, "ada", 1), WEIR_SHARE_YES);
    assert_int_equal(stats_of(w).unsettled, 3);
    w->remote.down = true;
    assert_int_equal(weir_share_host_retire(w->hosts[0].host, NULL, 0), 0);
    world_run(w, out_ns);
    w->remote.down = false;
    world_run(w, 2 * SECOND);
    assert_int_equal(stats_of(w).unsettled, 0);
}

static void what_a_key_that_left_never_told_is_counted(void **state)
{
    (void)state;
    struct world w;
    leave_during_an_outage(&w, 12 * SECOND);
    assert_int_equal(stats_of(&w).untold, 3);
    world_deinit(&w);
}

/* Though its interval is longer than it has time. */
static void a_key_that_left_tells_when_the_engine_is_back(void **state)
{
    (void)state;
    struct world w;
    leave_during_an_outage(&w, 5 * SECOND);
    assert_int_equal(stats_of(&w).untold, 0);
    world_deinit(&w);
}

/* Each ask that is not answered halves how many may be under way. */
static void silence_brings_asks_one_by_one(void **state)
{
    (void)state;
    struct world w;
    char names[60][8];
    world_with_warm_keys(&w, names);
    w.remote.lost = 1000;
    world_run(&w, SECOND);
    assert_true(stats_of(&w).lost > 6);
    for (int i = 0; i < 200; i++) {
        assert_true(w.remote.flights_count <= 1);
        world_run(&w, MS);
    }
    w.remote.lost = 0;
    world_deinit(&w);
}

/* Those of one host never meet, and leave room for the machine to count its own. */
static void each_stint_is_another(void **state)
{
    (void)state;
    struct world w;
    char names[60][8];
    uint64_t stints[60];
    world_init(&w, 1, 0, 1000, true, 1);
    w.remote.lost = 1000;
    for (int i = 0; i < 60; i++) {
        snprintf(names[i], sizeof(names[i]), "%d", i);
        assert_int_equal(ask(&w, 0, names[i], 1), WEIR_SHARE_WAIT);
        stints[i] = w.remote.flights[w.remote.flights_count - 1].ops[0].ask.stint;
        assert_int_equal(stints[i] & ((UINT64_C(1) << WEIR_SHARE_STINT_BITS) - 1), 0);
        for (int k = 0; k < i; k++)
            assert_true(stints[k] != stints[i]);
    }
    world_deinit(&w);
}

/* ---- what is counted, and who goes ---- */

static void what_is_asked_and_answered_is_counted(void **state)
{
    (void)state;
    struct world w;
    world_init(&w, 1, 7, 1000, true, 1);
    assert_int_equal(ask(&w, 0, "ada", 1), WEIR_SHARE_WAIT);
    struct waiting *first = wait_for(&w, 0, "ada");
    (void)wait_for(&w, 0, "ada");
    struct weir_share_host_stats stats = stats_of(&w);
    assert_int_equal(stats.keys_max, 7);
    assert_int_equal(stats.keys, 1);
    assert_int_equal(stats.asks, 1);
    assert_int_equal(stats.answers, 0);
    assert_int_equal(stats.waiting, 2);
    weir_share_waiter_leave(&first->waiter);
    assert_int_equal(stats_of(&w).waiting, 1);
    world_run(&w, 5 * MS);
    stats = stats_of(&w);
    assert_int_equal(stats.waiting, 0);
    assert_int_equal(stats.answers, 1);
    assert_int_equal(stats.asks, w.remote.asks);
    assert_int_equal(stats.stale + stats.lost, 0);
    world_deinit(&w);
}

/* The first waiter that is called makes the last one leave. */
static void leave_other(struct weir_share_waiter *waiter, int status)
{
    struct waiting *waiting = (struct waiting *)waiter;
    on_told(waiter, status);
    weir_share_waiter_leave(&waiting[1].waiter);
}

static void a_waiter_may_take_another_with_it(void **state)
{
    (void)state;
    struct world w;
    world_init(&w, 1, 0, 10, true, 1);
    ask(&w, 0, "ada", 1);
    struct waiting *first = wait_for(&w, 0, "ada"), *last = wait_for(&w, 0, "ada");
    assert_ptr_equal(last, first + 1);
    first->waiter.ready = leave_other;
    world_run(&w, 5 * MS);
    assert_true(first->told && !last->told);
    assert_int_equal(stats_of(&w).waiting, 0);
    world_deinit(&w);
}

/* Of those that hold something the one that nobody asked for the longest, and first of all one that holds nothing. */
static void who_was_asked_for_lately_or_holds_something_stays(void **state)
{
    (void)state;
    for (int idle = 0; idle < 2; idle++) {
        struct world w;
        world_init(&w, 1, 2, 1000, true, 1);
        assert_int_equal(ask(&w, 0, "ada", 50), WEIR_SHARE_WAIT); /* as many are held then */
        world_run(&w, 5 * MS);
        if (idle) {
            assert_int_equal(ask(&w, 0, "bob", 1001), WEIR_SHARE_NO); /* bob holds nothing */
            world_run(&w, 5 * MS);
        } else {
            assert_int_equal(ask(&w, 0, "bob", 50), WEIR_SHARE_WAIT);
            world_run(&w, 5 * MS);
            assert_int_equal(ask(&w, 0, "ada", 1), WEIR_SHARE_YES);
        }
        assert_int_equal(ask(&w, 0, "cyd", 1), WEIR_SHARE_WAIT);
        assert_int_equal(stats_of(&w).evicted, 1);
        assert_int_equal(ask(&w, 0, "ada", 1), WEIR_SHARE_YES);
        assert_int_equal(stats_of(&w).evicted, 1);
        world_run(&w, 5 * MS);
        world_deinit(&w);
    }
}

static void nothing_to_settle_closes_at_once(void **state)
{
    (void)state;
    for (int keys = 0; keys < 2; keys++) {
        struct world w;
        world_init(&w, 1, 0, 10, true, 1);
        if (keys) {
            assert_int_equal(ask(&w, 0, "ada", 11), WEIR_SHARE_NO); /* a key that never was granted anything */
            assert_int_equal(stats_of(&w).keys, 1);
        }
        weir_share_host_close(w.hosts[0].host, 10 * SECOND, on_closed, &w.hosts[0]);
        world_run(&w, MS);
        assert_true(w.hosts[0].closed);
        world_deinit(&w);
    }
}

/* In whatever order they are named. */
static void a_reload_keeps_each_limit_that_it_names(void **state)
{
    (void)state;
    static const char *const names[] = { "api", "b", "a", "z" };
    struct world w;
    world_init(&w, 1, 0, 1000, true, 1);
    warm_up(&w, "ada");
    assert_int_equal(weir_share_host_retire(w.hosts[0].host, names, 4), 0);
    assert_int_equal(stats_of(&w).keys, 1);
    assert_int_equal(weir_share_host_retire(w.hosts[0].host, names + 1, 3), 0);
    assert_int_equal(stats_of(&w).keys, 0);
    world_deinit(&w);
}

/* By the same secret a test sees the same stints again. */
static void stints_come_from_the_secret(void **state)
{
    (void)state;
    static const uint8_t secrets[2][16] = { "0123456789abcdef", "another sixteen!" };
    uint64_t stints[3];
    for (size_t i = 0; i < 3; i++) {
        struct world w;
        world_init(&w, 1, 0, 1000, true, 1);
        struct weir_share_host_options options = { .remote = &w.remote.remote,
                                                   .wake = on_wake,
                                                   .now_ns = clock_of,
                                                   .secret = secrets[i / 2],
                                                   .context = &w.hosts[0] };
        weir_share_host_close(w.hosts[0].host, 0, on_closed, &w.hosts[0]);
        weir_share_host_turn(w.hosts[0].host, w.remote.now_ns);
        w.hosts[0].closed = false;
        assert_int_equal(weir_share_host_create(&options, &w.hosts[0].host), 0);
        warm_up(&w, "ada");
        assert_int_equal(ledger_of(&w, "ada")->stints_count, 1);
        stints[i] = ledger_of(&w, "ada")->stints[0].stint;
        world_deinit(&w);
    }
    assert_int_equal(stints[0], stints[1]);
    assert_int_not_equal(stints[0], stints[2]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_in_doubt_at_the_end_is_forfeited),
        cmocka_unit_test(what_a_key_that_left_never_told_is_counted),
        cmocka_unit_test(a_key_that_left_tells_when_the_engine_is_back),
        cmocka_unit_test(slow_answers_bring_no_more_asks),
        cmocka_unit_test(silence_brings_asks_one_by_one),
        cmocka_unit_test(each_stint_is_another),
        cmocka_unit_test(what_a_reload_could_not_send_home_goes_later),
        cmocka_unit_test(an_ask_may_be_longer_than_a_reload_allows),
        cmocka_unit_test(another_way_of_sharing_begins_when_the_old_one_is_settled),
        cmocka_unit_test(another_way_of_sharing_waits_for_who_waits),
        cmocka_unit_test(a_newcomer_takes_the_place_of_one_that_is_not_busy),
        cmocka_unit_test(what_is_asked_and_answered_is_counted),
        cmocka_unit_test(a_waiter_may_take_another_with_it),
        cmocka_unit_test(who_was_asked_for_lately_or_holds_something_stays),
        cmocka_unit_test(nothing_to_settle_closes_at_once),
        cmocka_unit_test(a_reload_keeps_each_limit_that_it_names),
        cmocka_unit_test(stints_come_from_the_secret),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
