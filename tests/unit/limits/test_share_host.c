/* SPDX-License-Identifier: Apache-2.0
 *
 * Hosts of leased and batched keys over an engine whose network loses, delays and repeats. */
#include "share_host_world.h"

/* ---- one host ---- */

static void a_cold_key_waits_once_and_then_decides_here(void **state)
{
    (void)state;
    struct world w;
    world_init(&w, 1, 0, 1000, true, 1);
    assert_int_equal(ask(&w, 0, "ada", 1), WEIR_SHARE_WAIT);
    struct waiting *waiting = wait_for(&w, 0, "ada");
    world_run(&w, 5 * MS);
    assert_true(waiting->told);
    assert_int_equal(waiting->status, 0);
    assert_int_equal(ask(&w, 0, "ada", 1), WEIR_SHARE_YES);
    assert_in_range(w.remote.asks, 1, 2); /* the second renews */
    world_deinit(&w);
}

static void a_silent_engine_is_told_of_by_the_deadline(void **state)
{
    (void)state;
    struct world w;
    world_init(&w, 1, 0, 1000, true, 1);
    w.remote.lost = 1000;
    assert_int_equal(ask(&w, 0, "ada", 1), WEIR_SHARE_WAIT);
    struct waiting *waiting = wait_for(&w, 0, "ada");
    world_run(&w, 19 * MS);
    assert_false(waiting->told);
    world_run(&w, 1 * MS);
    assert_true(waiting->told);
    assert_int_equal(waiting->status, WEIR_EUNKNOWN);
    world_deinit(&w);
}

static void an_engine_that_cannot_be_asked_is_told_of_at_once(void **state)
{
    (void)state;
    struct world w;
    struct weir_remote_key key = key_of("ada");
    enum weir_share_say say;
    struct weir_verdict verdict;
    world_init(&w, 1, 0, 1000, true, 1);
    w.remote.down = true;
    for (int i = 0; i < 3; i++)
        assert_int_equal(
            weir_share_host_reserve(w.hosts[0].host, &w.terms, &key, 1, false, w.remote.now_ns, &say, &verdict),
            WEIR_EDOWN);
    w.remote.down = false;
    world_run(&w, 3 * SECOND);
    assert_int_equal(ask(&w, 0, "ada", 1), WEIR_SHARE_WAIT);
    world_run(&w, 5 * MS);
    assert_int_equal(ask(&w, 0, "ada", 1), WEIR_SHARE_YES);
    world_deinit(&w);
}

static void a_peek_changes_nothing(void **state)
{
    (void)state;
    struct world w;
    struct weir_remote_key key = key_of("ada");
    struct weir_share_host_stats stats;
    enum weir_share_say say;
    struct weir_verdict verdict;
    world_init(&w, 1, 0, 10, true, 1);
    assert_int_equal(weir_share_host_reserve(w.hosts[0].host, &w.terms, &key, 1, true, T0, &say, &verdict), 0);
    assert_int_equal(say, WEIR_SHARE_WAIT);
    weir_share_host_stats(w.hosts[0].host, &stats);
    assert_int_equal(stats.keys, 0);
    assert_int_equal(w.remote.asks, 0);
    ask(&w, 0, "ada", 1);
    world_run(&w, 5 * MS);
    uint64_t asks = w.remote.asks;
    for (int i = 0; i < 100; i++) {
        assert_int_equal(
            weir_share_host_reserve(w.hosts[0].host, &w.terms, &key, 1, true, w.remote.now_ns, &say, &verdict), 0);
        assert_int_equal(say, WEIR_SHARE_YES);
    }
    assert_int_equal(w.remote.asks, asks);
    world_deinit(&w);
}

static void who_leaves_is_not_called(void **state)
{
    (void)state;
    struct world w;
    world_init(&w, 1, 0, 10, true, 1);
    ask(&w, 0, "ada", 1);
    struct waiting *first = wait_for(&w, 0, "ada"), *second = wait_for(&w, 0, "ada"), *third = wait_for(&w, 0, "ada");
    weir_share_waiter_leave(&second->waiter);
    weir_share_waiter_leave(&second->waiter);
    world_run(&w, 5 * MS);
    assert_true(first->told && third->told);
    assert_false(second->told);
    world_deinit(&w);
}

static void a_key_that_must_go_gives_its_units_back(void **state)
{
    (void)state;
    struct world w;
    struct weir_share_host_stats stats;
    world_init(&w, 1, 2, 1000, true, 1);
    const char *const names[] = { "ada", "bob", "cyd" };
    for (size_t i = 0; i < 3; i++) {
        ask(&w, 0, names[i], 1);
        world_run(&w, 5 * MS);
        assert_int_equal(ask(&w, 0, names[i], 1), WEIR_SHARE_YES);
    }
    world_run(&w, 5 * MS);
    weir_share_host_stats(w.hosts[0].host, &stats);
    assert_int_equal(stats.keys, 2);
    assert_int_equal(stats.evicted, 1);
    assert_int_equal(weir_ledger_held(ledger_of(&w, "ada")), 0);
    assert_int_equal(used(&w, "ada"), 1);
    world_deinit(&w);
}

/* Its settlement is under way still, and overtaken: a machine made anew could spend the slack once more. */
static void a_key_that_comes_back_unsettled_goes_on(void **state)
{
    (void)state;
    struct world w;
    world_init(&w, 1, 1, 1000, false, 1);
    assert_int_equal(ask(&w, 0, "a", 1), WEIR_SHARE_WAIT);
    world_run(&w, 10 * MS);
    w.remote.delay_ns = 9 * MS;
    assert_int_equal(ask(&w, 0, "a", 5), WEIR_SHARE_YES);
    assert_int_equal(ask(&w, 0, "b", 1), WEIR_SHARE_WAIT); /* which takes its place */
    w.remote.delay_ns = MS / 10;
    world_run(&w, MS);
    assert_int_equal(ask(&w, 0, "a", 5), WEIR_SHARE_WAIT);
    world_run(&w, MS);
    assert_int_equal(ask(&w, 0, "a", 5), WEIR_SHARE_WAIT);
    world_run(&w, 2 * SECOND);
    assert_int_equal(ask(&w, 0, "a", 5), WEIR_SHARE_YES);
    world_deinit(&w);
}

static void a_newcomer_is_refused_while_all_are_busy(void **state)
{
    (void)state;
    struct world w;
    struct weir_remote_key key = key_of("bob");
    enum weir_share_say say;
    struct weir_verdict verdict;
    world_init(&w, 1, 1, 1000, true, 1);
    ask(&w, 0, "ada", 1);
    struct waiting *waiting = wait_for(&w, 0, "ada");
    assert_int_equal(
        weir_share_host_reserve(w.hosts[0].host, &w.terms, &key, 1, false, w.remote.now_ns, &say, &verdict),
        WEIR_ELIMIT);
    struct weir_share_host_stats stats;
    weir_share_host_stats(w.hosts[0].host, &stats);
    assert_int_equal(stats.refused_full, 1);
    world_run(&w, 5 * MS);
    assert_true(waiting->told);
    assert_int_equal(
        weir_share_host_reserve(w.hosts[0].host, &w.terms, &key, 1, false, w.remote.now_ns, &say, &verdict), 0);
    world_run(&w, 5 * MS);
    world_deinit(&w);
}

static void a_reload_sends_keys_of_limits_that_are_no_more_home(void **state)
{
    (void)state;
    struct world w;
    struct weir_share_host_stats stats;
    const char *kept[] = { "api", "zebra" };
    world_init(&w, 1, 0, 1000, true, 1);
    ask(&w, 0, "ada", 1);
    world_run(&w, 5 * MS);
    assert_int_equal(ask(&w, 0, "ada", 1), WEIR_SHARE_YES);
    assert_int_equal(weir_share_host_retire(w.hosts[0].host, kept, 2), 0);
    world_run(&w, 5 * MS);
    weir_share_host_stats(w.hosts[0].host, &stats);
    assert_int_equal(stats.keys, 1);
    assert_int_equal(weir_share_host_retire(w.hosts[0].host, kept + 1, 1), 0);
    world_run(&w, 5 * MS);
    weir_share_host_stats(w.hosts[0].host, &stats);
    assert_int_equal(stats.keys, 0);
    assert_int_equal(stats.held, 0);
    assert_int_equal(weir_ledger_held(ledger_of(&w, "ada")), 0);
    world_deinit(&w);
}

/* Whoever reserved before the reload commits after it. */
static void a_reload_waits_for_reservations(void **state)
{
    (void)state;
    struct world w;
    struct weir_remote_key key = key_of("ada");
    enum weir_share_say say;
    struct weir_verdict verdict;
    world_init(&w, 1, 0, 1000, true, 1);
    ask(&w, 0, "ada", 1);
    world_run(&w, 5 * MS);
    assert_int_equal(
        weir_share_host_reserve(w.hosts[0].host, &w.terms, &key, 7, false, w.remote.now_ns, &say, &verdict), 0);
    if (say == WEIR_SHARE_WAIT) {
        world_run(&w, 5 * MS);
        assert_int_equal(
            weir_share_host_reserve(w.hosts[0].host, &w.terms, &key, 7, false, w.remote.now_ns, &say, &verdict), 0);
    }
    assert_int_equal(say, WEIR_SHARE_YES);
    assert_int_equal(weir_share_host_retire(w.hosts[0].host, NULL, 0), 0);
    weir_share_host_commit(w.hosts[0].host, &key, 7, w.remote.now_ns);
    world_run(&w, 5 * MS);
    assert_int_equal(weir_ledger_held(ledger_of(&w, "ada")), 0);
    assert_int_equal(used(&w, "ada"), 7);
    world_deinit(&w);
}

/* One that a reload took away and that is asked for again before it could go. */
static void a_key_that_is_wanted_again_stays(void **state)
{
    (void)state;
    struct world w;
    struct weir_remote_key key = key_of("ada");
    enum weir_share_say say;
    struct weir_verdict verdict;
    struct weir_share_host_stats stats;
    world_init(&w, 1, 0, 1000, true, 1);
    struct weir_share_host *host = w.hosts[0].host;
    for (int i = 0; i < 20; i++) { /* until there is enough for both */
        ask(&w, 0, "ada", 1);
        world_run(&w, 5 * MS);
    }
    assert_int_equal(weir_share_host_reserve(host, &w.terms, &key, 1, false, w.remote.now_ns, &say, &verdict), 0);
    assert_int_equal(say, WEIR_SHARE_YES);
    assert_int_equal(weir_share_host_retire(host, NULL, 0), 0);
    assert_int_equal(ask(&w, 0, "ada", 1), WEIR_SHARE_YES);
    weir_share_host_commit(host, &key, 1, w.remote.now_ns);
    world_run(&w, 5 * MS);
    weir_share_host_stats(host, &stats);
    assert_int_equal(stats.keys, 1);
    world_deinit(&w);
}

/* Its answer comes to a key that has nothing to settle: it ends there and then. */
static void a_reload_waits_for_an_answer(void **state)
{
    (void)state;
    struct world w;
    struct weir_share_host_stats stats;
    world_init(&w, 2, 0, 1, true, 1);
    while (ask(&w, 0, "ada", 1) != WEIR_SHARE_YES)
        world_run(&w, 5 * MS);
    world_run(&w, 5 * MS);
    assert_int_equal(ask(&w, 1, "ada", 1), WEIR_SHARE_WAIT);
    struct waiting *waiting = wait_for(&w, 1, "ada");
    assert_int_equal(weir_share_host_retire(w.hosts[1].host, NULL, 0), 0);
    assert_false(waiting->told);
    world_run(&w, 5 * MS);
    assert_true(waiting->told);
    weir_share_host_stats(w.hosts[1].host, &stats);
    assert_int_equal(stats.keys, 0);
    world_deinit(&w);
}

/* An ask is answered by the limit that it was made under, whatever the key follows meanwhile. */
static void an_ask_holds_its_limit_through_a_reload(void **state)
{
    (void)state;
    struct world w;
    world_init(&w, 1, 0, 1000, true, 1);
    const struct weir_remote_limit *before = w.limit;
    assert_int_equal(ask(&w, 0, "ada", 1), WEIR_SHARE_WAIT);
    w.limit = w.terms.limit = limit_of("api", 2000, MINUTE);
    assert_int_equal(ask(&w, 0, "ada", 1), WEIR_SHARE_WAIT);
    assert_int_equal(before->holders, 2); /* ours and the ask's */
    world_run(&w, SECOND);
    assert_int_equal(before->holders, 1);
    weir_remote_limit_drop(before);
    world_deinit(&w);
}

static void closing_settles_what_is_owed(void **state)
{
    (void)state;
    for (int leased = 0; leased < 2; leased++) {
        struct world w;
        world_init(&w, 1, 0, 1000, leased, 1);
        ask(&w, 0, "ada", 1);
        world_run(&w, 200 * MS);
        for (int i = 0; i < 4; i++)
            while (ask(&w, 0, "ada", 1) != WEIR_SHARE_YES)
                world_run(&w, 5 * MS);
        weir_share_host_close(w.hosts[0].host, SECOND, on_closed, &w.hosts[0]);
        assert_false(w.hosts[0].closed);
        uint64_t before_ns = w.remote.now_ns;
        while (!w.hosts[0].closed)
            assert_true(world_step(&w, before_ns + SECOND));
        assert_true(w.remote.now_ns - before_ns < 10 * MS);
        assert_int_equal(weir_ledger_held(ledger_of(&w, "ada")), 0);
        assert_true(used(&w, "ada") >= 3); /* one unit refills in 60 ms */
        world_deinit(&w);
    }
}

static void closing_ends_though_the_engine_does_not_answer(void **state)
{
    (void)state;
    struct world w;
    world_init(&w, 1, 0, 1000, false, 1);
    ask(&w, 0, "ada", 1);
    world_run(&w, 5 * MS);
    ask(&w, 0, "ada", 1);
    w.remote.lost = 1000;
    weir_share_host_close(w.hosts[0].host, 500 * MS, on_closed, &w.hosts[0]);
    world_run(&w, SECOND);
    assert_true(w.hosts[0].closed);
    world_deinit(&w);
}

/* 60 keys, each of which owes and would speak every 100 ms. */
static void an_outage_is_not_spent_asking(void **state)
{
    (void)state;
    struct world w;
    struct weir_share_host_stats stats;
    char names[60][8];
    world_init(&w, 1, 0, 1000, false, 1);
    for (int i = 0; i < 60; i++) {
        snprintf(names[i], sizeof(names[i]), "%d", i);
        ask(&w, 0, names[i], 1);
        world_run(&w, 5 * MS);
        assert_int_equal(ask(&w, 0, names[i], 1), WEIR_SHARE_YES);
    }
    world_run(&w, SECOND);
    for (int i = 0; i < 60; i++)
        assert_int_equal(ask(&w, 0, names[i], 1), WEIR_SHARE_YES);
    w.remote.down = true;
    world_run(&w, SECOND);
    assert_in_range(w.remote.refused, 1, 60);
    w.remote.down = false;
    world_run(&w, SECOND);
    weir_share_host_stats(w.hosts[0].host, &stats);
    assert_int_equal(stats.unsettled, 0);
    world_deinit(&w);
}

static void on_closed_with_the_remote(void *context)
{
    struct host *host = context;
    on_closed(host);
    ledger_remote_close(&host->world->remote);
}

/* As the server does: the remote is closed as soon as the host is, and ends what is under way. */
static void closing_ends_what_is_under_way(void **state)
{
    (void)state;
    for (int asks = 1; asks <= 2; asks++) {
        struct world w;
        world_init(&w, 1, 0, 1000, true, 1);
        w.terms.deadline_ns = SECOND;
        w.remote.lost = 1000;
        ask(&w, 0, "ada", 1);
        if (asks == 2)
            ask(&w, 0, "bob", 1);
        weir_share_host_close(w.hosts[0].host, 500 * MS, on_closed_with_the_remote, &w.hosts[0]);
        world_run(&w, 600 * MS);
        assert_true(w.hosts[0].closed);
        world_deinit(&w);
    }
}

/* ---- several hosts, an attack ---- */

static void attack(struct world *w, const char *value, uint64_t for_ns)
{
    uint64_t until_ns = w->remote.now_ns + for_ns;
    struct test_random *random = &w->remote.random;
    struct weir_remote_key key = key_of(value);
    while (w->remote.now_ns < until_ns) {
        size_t host = test_random_below(random, w->hosts_count);
        enum weir_share_say say;
        struct weir_verdict verdict;
        uint64_t units = 1 + test_random_below(random, 3);
        struct weir_share_host *h = w->hosts[host].host;
        if (weir_share_host_reserve(h, &w->terms, &key, units, false, w->remote.now_ns, &say, &verdict) == 0 &&
            say == WEIR_SHARE_YES) {
            bool commit = test_random_below(random, 8) > 0;
            w->admitted += commit ? units : 0;
            if (commit)
                weir_share_host_commit(h, &key, units, w->remote.now_ns);
            else
                weir_share_host_cancel(h, &key, units, w->remote.now_ns);
        }
        world_run(w, test_random_below(random, 10 * MS));
    }
}

static void check_bound(bool leased)
{
    uint64_t seed = test_random_seed();
    for (uint64_t run = 0; run < 30; run++) {
        struct world w;
        const uint64_t count = 200, for_ns = 6 * SECOND;
        world_init(&w, HOSTS_MAX, 0, count, leased, seed + run);
        w.remote.lost = (unsigned)(run % 3) * 50;
        w.remote.repeated = (unsigned)(run % 2) * 100;
        w.remote.jitter_ns = (run % 4) * 8 * MS;
        attack(&w, "ada", for_ns);
        uint64_t bound = count + count * for_ns / MINUTE + 1 + (leased ? 0 : HOSTS_MAX * w.terms.slack);
        if (w.admitted > bound)
            fail_msg("seed %llu: %llu admitted, bound %llu", (unsigned long long)(seed + run),
                     (unsigned long long)w.admitted, (unsigned long long)bound);
        assert_true(w.admitted > count / 4);
        w.remote.lost = w.remote.repeated = 0;
        world_deinit(&w);
    }
}

static void leased_never_overshoots(void **state)
{
    (void)state;
    check_bound(true);
}

/* Under a limit of which nothing comes back meanwhile, so that what is missing stays missing: whatever becomes of asks
 * and answers, all that the engine charged was admitted, or is counted as forfeited. */
static void leased_counts_all_that_it_forfeits(void **state)
{
    (void)state;
    uint64_t seed = test_random_seed(), missing = 0, counted = 0;
    for (uint64_t run = 0; run < 60; run++) {
        struct world w;
        const char *const values[] = { "ada", "bob", "cleo" };
        struct weir_share_host_stats stats;
        world_init(&w, HOSTS_MAX, run % 4 ? 0 : 2, 200, true, seed + run);
        weir_remote_limit_drop(w.limit);
        w.terms.limit = w.limit = limit_of("api", 200, 1000000 * MINUTE);
        w.terms.deadline_ns = run % 2 ? 10 * SECOND : 20 * MS;
        w.remote.lost = (unsigned)(run % 3) * 100;
        w.remote.jitter_ns = run % 5 * SECOND;
        for (int i = 0; i < 12; i++)
            attack(&w, values[i % 3], SECOND);
        w.remote.lost = 0;
        w.remote.jitter_ns = 0;
        world_run(&w, 60 * SECOND);
        uint64_t charged = 0, forfeited = 0;
        for (size_t i = 0; i < 3; i++)
            charged += used(&w, values[i]);
        for (size_t i = 0; i < HOSTS_MAX; i++) {
            weir_share_host_stats(w.hosts[i].host, &stats);
            assert_int_equal(stats.held, 0);
            forfeited += stats.forfeited;
        }
        if (charged < w.admitted || charged - w.admitted > forfeited)
            fail_msg("seed %llu: run %llu, %llu charged, %llu admitted, %llu forfeited",
                     (unsigned long long)(seed + run), (unsigned long long)run, (unsigned long long)charged,
                     (unsigned long long)w.admitted, (unsigned long long)forfeited);
        missing += charged - w.admitted;
        counted += forfeited;
        world_deinit(&w);
    }
    print_message("%llu units missing, %llu counted\n", (unsigned long long)missing, (unsigned long long)counted);
}

static void batched_overshoots_by_at_most_the_slack_of_each(void **state)
{
    (void)state;
    check_bound(false);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_cold_key_waits_once_and_then_decides_here),
        cmocka_unit_test(a_silent_engine_is_told_of_by_the_deadline),
        cmocka_unit_test(an_engine_that_cannot_be_asked_is_told_of_at_once),
        cmocka_unit_test(a_peek_changes_nothing),
        cmocka_unit_test(who_leaves_is_not_called),
        cmocka_unit_test(a_key_that_must_go_gives_its_units_back),
        cmocka_unit_test(a_key_that_comes_back_unsettled_goes_on),
        cmocka_unit_test(a_newcomer_is_refused_while_all_are_busy),
        cmocka_unit_test(a_reload_sends_keys_of_limits_that_are_no_more_home),
        cmocka_unit_test(a_reload_waits_for_reservations),
        cmocka_unit_test(a_key_that_is_wanted_again_stays),
        cmocka_unit_test(a_reload_waits_for_an_answer),
        cmocka_unit_test(an_ask_holds_its_limit_through_a_reload),
        cmocka_unit_test(closing_settles_what_is_owed),
        cmocka_unit_test(closing_ends_though_the_engine_does_not_answer),
        cmocka_unit_test(closing_ends_what_is_under_way),
        cmocka_unit_test(an_outage_is_not_spent_asking),
        cmocka_unit_test(leased_never_overshoots),
        cmocka_unit_test(leased_counts_all_that_it_forfeits),
        cmocka_unit_test(batched_overshoots_by_at_most_the_slack_of_each),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
