/* SPDX-License-Identifier: Apache-2.0
 *
 * Hosts of leased and batched keys: how many asks are under way at once, when the host is woken, and its bounds. */
#include "share_host_world.h"

#define GONE_MAX 4096

static int reserve(struct world *w, const char *value, uint64_t units)
{
    struct weir_remote_key key = key_of(value);
    struct weir_verdict verdict;
    enum weir_share_say say;
    return weir_share_host_reserve(w->hosts[0].host, &w->terms, &key, units, false, w->remote.now_ns, &say, &verdict);
}

static struct weir_share_host_stats stats_of(struct world *w)
{
    struct weir_share_host_stats stats;
    weir_share_host_stats(w->hosts[0].host, &stats);
    return stats;
}

/* The most that are under way at once until `for_ns` from now. */
static size_t most_under_way(struct world *w, uint64_t for_ns)
{
    const uint64_t until_ns = w->remote.now_ns + for_ns;
    size_t most = w->remote.flights_count;
    while (world_step(w, until_ns))
        most = w->remote.flights_count > most ? w->remote.flights_count : most;
    return most;
}

/* Each of `count` keys has a unit that the engine has not heard of. */
static void spend(struct world *w, int count)
{
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < count; i++) {
            char name[16];
            snprintf(name, sizeof(name), "%d", i);
            assert_int_equal(ask(w, 0, name, 1), round ? WEIR_SHARE_YES : WEIR_SHARE_WAIT);
        }
        if (round == 0)
            world_run(w, SECOND);
    }
}

/* All of them speak at once, though one ask has failed and all answers were slow. */
static void a_host_begins_with_room_for_many(void **state)
{
    (void)state;
    struct world w;
    world_init(&w, 1, 0, 1000, false, 1);
    w.remote.down = true;
    assert_int_equal(reserve(&w, "none", 1), WEIR_EDOWN);
    w.remote.down = false;
    w.remote.delay_ns = 9 * MS;
    spend(&w, 20);
    assert_int_equal(most_under_way(&w, SECOND), 20);
    world_deinit(&w);
}

/* A prompt answer, which leaves three quarters of the time, brings one more: twice as many in each round. */
static void prompt_answers_bring_more_asks_and_slow_ones_fewer(void **state)
{
    (void)state;
    for (uint64_t late_ns = 0; late_ns < 2; late_ns++) {
        struct world w;
        world_init(&w, 1, 0, 1000, false, 1);
        spend(&w, 60);
        w.remote.down = true;
        world_run(&w, SECOND);
        assert_int_equal(stats_of(&w).unsettled, 60);
        w.remote.down = false;
        w.remote.delay_ns = 2500 * 1000 + late_ns; /* each way; of 20 ms */
        while (w.remote.flights_count == 0)
            (void)world_step(&w, WEIR_NEVER);
        for (size_t most = 1; most <= 8; most *= 2) {
            assert_int_equal(w.remote.flights_count, late_ns ? 1 : most);
            w.remote.delay_ns = most == 8 ? 9 * MS : w.remote.delay_ns;
            world_run(&w, 2 * (2500 * 1000 + late_ns));
        }
        if (!late_ns)
            assert_int_equal(w.remote.flights_count, 16);
        world_run(&w, 18 * MS);
        assert_int_equal(most_under_way(&w, 10 * MS), 1);
        world_deinit(&w);
    }
}

/* ---- when it is woken ---- */

/* The engine could not be asked, so no answer will come: the key speaks again by itself. */
static void who_could_not_ask_is_woken_to_ask_again(void **state)
{
    (void)state;
    struct world w;
    world_init(&w, 1, 0, 1000, true, 1);
    w.remote.down = true;
    assert_int_equal(reserve(&w, "ada", 1), WEIR_EDOWN);
    w.remote.down = false;
    world_run(&w, 2 * SECOND);
    assert_true(w.remote.asks > 0);
    world_deinit(&w);
}

/* Once for all that is due at one time, and for what is due later not at all. */
static void a_host_asks_to_be_woken_once(void **state)
{
    (void)state;
    struct world w;
    world_init(&w, 1, 0, 1000, false, 1);
    spend(&w, 1);
    const size_t wakes = w.hosts[0].wakes;
    for (int i = 0; i < 2; i++)
        assert_int_equal(ask(&w, 0, "0", 1), WEIR_SHARE_YES);
    assert_int_equal(w.hosts[0].wakes, wakes);
    world_deinit(&w);
}

/* ---- what is counted, and bounds ---- */

/* The engine did nothing, as others changed the key meanwhile: it holds nothing by that ask. */
static void by_a_busy_answer_nothing_is_held(void **state)
{
    (void)state;
    struct world w;
    world_init(&w, 1, 0, 1000, true, 1);
    w.remote.busy_asks = 1;
    assert_int_equal(ask(&w, 0, "ada", 7), WEIR_SHARE_WAIT);
    world_run(&w, 5 * MS);
    assert_int_equal(w.remote.busy_asks, 0);
    w.remote.down = true;
    world_run(&w, 20 * SECOND);
    assert_int_equal(stats_of(&w).forfeited, 0);
    w.remote.down = false;
    world_deinit(&w);
}

static struct weir_share_host_stats stats_closed;

static void on_closed_look(void *context)
{
    struct host *host = context;
    weir_share_host_stats(host->host, &stats_closed);
    on_closed(context);
}

/* A key that ends with units in its pocket, as it had no time to give them back, holds them no more. */
static void what_ends_holds_nothing(void **state)
{
    (void)state;
    for (int leased = 0; leased < 2; leased++) {
        struct world w;
        world_init(&w, 1, 0, 1000, leased, 1);
        w.terms.slack = 0;
        assert_int_equal(ask(&w, 0, "ada", 10), WEIR_SHARE_WAIT);
        world_run(&w, 5 * MS);
        assert_int_equal(stats_of(&w).held, 10);
        w.remote.down = true;
        assert_int_equal(reserve(&w, "ada", 400), WEIR_EDOWN); /* it waits to ask again */
        assert_int_equal(stats_of(&w).held, 10);
        weir_share_host_close(w.hosts[0].host, 0, on_closed_look, &w.hosts[0]);
        world_run(&w, MS);
        assert_true(w.hosts[0].closed);
        assert_int_equal(stats_closed.held, 0);
        w.remote.down = false;
        world_deinit(&w);
    }
}

/* While as many keys settle as may, none leaves: neither for a newcomer nor for a reload. */
static void no_more_keys_settle_than_may(void **state)
{
    (void)state;
    struct world w;
    char name[16];
    world_init(&w, 1, 2, 1000, true, 1);
    w.remote.down = true;
    for (int i = 0; i < GONE_MAX + 2; i++) {
        snprintf(name, sizeof(name), "%d", i);
        assert_int_equal(reserve(&w, name, 1), WEIR_EDOWN);
    }
    assert_int_equal(stats_of(&w).evicted, GONE_MAX);
    assert_int_equal(reserve(&w, "one more", 1), WEIR_ELIMIT);
    assert_int_equal(stats_of(&w).refused_full, 1);
    assert_int_equal(weir_share_host_retire(w.hosts[0].host, NULL, 0), 0);
    w.terms.leased = false;
    assert_int_equal(reserve(&w, name, 1), WEIR_ELIMIT);
    assert_int_equal(stats_of(&w).keys, 2);
    world_deinit(&w);
}

/* Others are faster, round by round: each answered round gives the next one its whole time, so that nothing that it
 * brings is lost. */
static void an_ask_that_others_outrun_goes_on(void **state)
{
    (void)state;
    struct world w;
    world_init(&w, 1, 0, 100, true, 1);
    w.remote.delay_ns = 9 * MS; /* of 20 both ways */
    w.remote.outrun = 5;
    assert_int_equal(ask(&w, 0, "ada", 3), WEIR_SHARE_WAIT);
    const struct waiting *waiting = wait_for(&w, 0, "ada");
    world_run(&w, 107 * MS);
    assert_false(waiting->told);
    world_run(&w, MS);
    assert_true(waiting->told);
    assert_int_equal(waiting->status, 0);
    assert_int_equal(stats_of(&w).asks, 1);
    assert_int_equal(stats_of(&w).lost, 0);
    assert_int_equal(ask(&w, 0, "ada", 3), WEIR_SHARE_YES);
    world_deinit(&w);
}

/* Not for ever, and not for longer than a part of what it would bring. Whoever waits may ask anew: nothing failed. */
static void an_ask_that_others_outrun_ends(void **state)
{
    (void)state;
    static const struct {
        uint64_t ttl_ns, least_ms, most_ms;
    } cases[] = { { 2 * SECOND, 515, 520 }, { 400 * MS, 115, 120 } };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct world w;
        world_init(&w, 1, 0, 100, true, 1);
        w.terms.chunk_ttl_ns = cases[i].ttl_ns;
        w.remote.delay_ns = 9 * MS;
        w.remote.outrun = UINT64_MAX;
        assert_int_equal(ask(&w, 0, "ada", 3), WEIR_SHARE_WAIT);
        const struct waiting *waiting = wait_for(&w, 0, "ada");
        world_run(&w, cases[i].least_ms * MS);
        assert_false(waiting->told);
        world_run(&w, (cases[i].most_ms - cases[i].least_ms) * MS);
        assert_true(waiting->told);
        assert_int_equal(waiting->status, 0);
        w.remote.outrun = 0;
        world_deinit(&w);
    }
}

/* It answered before, and then it does not: that is silence. */
static void an_ask_whose_next_round_is_not_answered_is_lost(void **state)
{
    (void)state;
    struct world w;
    world_init(&w, 1, 0, 100, true, 1);
    w.remote.delay_ns = 9 * MS;
    w.remote.outrun = 1;
    assert_int_equal(ask(&w, 0, "ada", 3), WEIR_SHARE_WAIT);
    const struct waiting *waiting = wait_for(&w, 0, "ada");
    world_run(&w, 17 * MS);
    w.remote.delay_ns = 100 * MS; /* as of the second round */
    world_run(&w, 20 * MS);
    assert_false(waiting->told);
    world_run(&w, MS);
    assert_true(waiting->told);
    assert_int_equal(waiting->status, WEIR_EUNKNOWN);
    assert_int_equal(stats_of(&w).lost, 1);
    w.remote.delay_ns = MS;
    world_deinit(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_ask_that_others_outrun_goes_on),
        cmocka_unit_test(an_ask_that_others_outrun_ends),
        cmocka_unit_test(an_ask_whose_next_round_is_not_answered_is_lost),
        cmocka_unit_test(a_host_begins_with_room_for_many),
        cmocka_unit_test(prompt_answers_bring_more_asks_and_slow_ones_fewer),
        cmocka_unit_test(who_could_not_ask_is_woken_to_ask_again),
        cmocka_unit_test(a_host_asks_to_be_woken_once),
        cmocka_unit_test(by_a_busy_answer_nothing_is_held),
        cmocka_unit_test(what_ends_holds_nothing),
        cmocka_unit_test(no_more_keys_settle_than_may),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
