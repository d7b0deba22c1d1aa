/* SPDX-License-Identifier: Apache-2.0
 *
 * core/share/gossip: a sliding_counter's windows go on where a node starts again, and what must hold is counted from
 * the list of what was admitted. What is told of a window of the calendar counts in that one alone. */
#include "core/share/gossip_parts.h"
#include "gossip_net.h"

#define PERIOD_NS (60 * SECOND)
#define LIMIT 300

static struct net the_net; /* too large for a stack */

static const struct weir_limit_spec spec = {
    .algorithm = WEIR_SLIDING_COUNTER,
    .count = LIMIT,
    .period_ns = PERIOD_NS,
};

static struct weir_gossip_key *key_of(struct net *net, uint32_t i)
{
    return net_key(net, i, 0);
}

/* When the window of the node began, by the net's clock. */
static uint64_t window_start(struct net *net, uint32_t i)
{
    const struct weir_event event = net_event(net, i, 0);
    return weir_gossip_window_start(key_of(net, i), &event) - net->node[i].ahead_ns;
}

static uint64_t admitted_since(const struct net *net, uint64_t since_ns)
{
    uint64_t units = 0;
    for (size_t a = 0; a < net->admitted_count[0]; a++)
        units += net->admitted[0][a].at_ns >= since_ns ? net->admitted[0][a].units : 0;
    return units;
}

static uint64_t count_in_window(struct net *net, uint32_t i)
{
    const struct weir_event event = net_event(net, i, 0);
    return weir_counter_window(&net->node[i].limit.limit, &key_of(net, i)->state, &event).count;
}

/* The nodes' windows begin at any time to each other. Whenever one starts again, all that was admitted in the window in
 * which it goes on counts there, and as much is used as the others say. */
static void test_a_restart_keeps_the_windows_of_who_tells_of_them(void **state)
{
    (void)state;
    const uint64_t seed = test_random_seed();
    for (uint64_t round = 0; round < 40; round++) {
        struct net *net = net_begin(&the_net, seed + round, 3, &spec, 30);
        net_pass(net, SECOND);
        for (unsigned step = 0; step < 40; step++) {
            const uint32_t node = (uint32_t)test_random_below(&net->random, 3);
            for (uint64_t units = test_random_below(&net->random, 30); units > 0; units--)
                (void)net_ask(net, node, 0, 1, true);
            net_pass(net, test_random_below(&net->random, 8 * SECOND) + SECOND);
            if (test_random_below(&net->random, 6) > 0)
                continue;
            const uint32_t again = (uint32_t)test_random_below(&net->random, 3), other = (again + 1) % 3;
            net_start(net, again);
            net_pass(net, SECOND);
            assert_true(net->node[again].gossip.synced);
            assert_true(count_in_window(net, again) >= admitted_since(net, window_start(net, again)));
            assert_true(net_used(net, again, 0) <= LIMIT);
            if (net_used(net, other, 0) == 0)
                continue;
            const uint64_t third = net_used(net, (again + 2) % 3, 0), used = net_used(net, other, 0);
            assert_in_range(net_used(net, again, 0), weir_sub_sat(weir_min_u64(third, used), 4),
                            weir_max_u64(third, used) + 4);
        }
    }
}

/* Five sixths of the limit are asked for in each window, and all nodes start again in each. */
static void test_restarts_in_each_window_starve_nobody(void **state)
{
    (void)state;
    struct net *net = net_begin(&the_net, 1, 3, &spec, 30);
    net_pass(net, SECOND);
    for (unsigned window = 0; window < 12; window++) {
        unsigned got = 0;
        for (unsigned k = 0; k < 25; k++) {
            for (unsigned u = 0; u < 10; u++)
                got += net_ask(net, k % 3, 0, 1, true);
            net_pass(net, 2 * SECOND);
        }
        for (uint32_t i = 0; i < 3; i++) {
            net_start(net, i);
            net_pass(net, 2 * SECOND);
        }
        net_pass(net, 4 * SECOND);
        assert_in_range(got, 240, 250);
    }
}

/* Of the window before nothing is told but by what is used. */
static void test_of_a_window_that_is_over_no_count_is_told(void **state)
{
    (void)state;
    struct net *net = net_begin(&the_net, 1, 2, &spec, 30);
    net_pass(net, SECOND);
    for (unsigned n = 0; n < 20; n++)
        assert_true(net_ask(net, 0, 0, 1, true));
    net_pass(net, window_start(net, 0) + PERIOD_NS + PERIOD_NS / 2 - net->now_ns);
    struct weir_gossip_word word;
    const struct weir_event event = net_event(net, 0, 0);
    weir_gossip_word(&net->node[0].gossip, key_of(net, 0), &event, &word);
    assert_int_equal(word.count, 0);
    assert_in_range(word.used, 9, 10);
    assert_in_range(word.end_after_ns, PERIOD_NS / 2 - SECOND, PERIOD_NS / 2);
}

/* What comes from an older build, or makes no sense, is taken over as units that come now: none is lost. */
static void test_a_word_without_a_window_counts_as_now(void **state)
{
    (void)state;
    const struct {
        uint64_t count, end_after_ns, used, least;
    } cases[] = {
        { 0, 0, 100, 100 },           { 101, SECOND, 100, 100 }, { UINT64_MAX, UINT64_MAX, UINT64_C(1) << 62, LIMIT },
        { 10, UINT64_MAX, 100, 100 }, { 10, 1, 100, 100 },       { 100, SECOND, 100, 100 },
    };
    for (size_t n = 0; n < sizeof cases / sizeof cases[0]; n++) {
        struct net *net = net_begin(&the_net, 1, 2, &spec, 30);
        struct net_node *node = &net->node[0];
        const struct weir_event event = net_event(net, 0, 0);
        const struct weir_gossip_head head = { .nodes = 2, .from = 1, .to = 0, .epoch = 9, .seq = 1, .synced = true };
        const struct weir_gossip_entry entry = { .epoch = 9, .count = 5 };
        const struct weir_gossip_word word = {
            .id = { 1 },
            .limit = 1,
            .count = cases[n].count,
            .end_after_ns = cases[n].end_after_ns,
            .used = cases[n].used,
            .entries = { NULL, &entry },
        };
        assert_int_equal(weir_gossip_hear(&node->gossip, &head, event.now_ns), WEIR_GOSSIP_NEW);
        assert_true(weir_gossip_hear_word(&node->gossip, key_of(net, 0), &head, &word, &event));
        assert_in_range(weir_limit_used(&node->limit.limit, &key_of(net, 0)->state, &event), cases[n].least,
                        cases[n].used);
    }
}

/* Node 0 of three, which has just started, hears that node 2 admitted so much. */
static void hear_of_third(struct net *net, uint64_t units)
{
    struct net_node *node = &net->node[0];
    const struct weir_event event = net_event(net, 0, 0);
    const struct weir_gossip_head head = { .nodes = 3, .from = 2, .to = 0, .epoch = 8, .seq = 1 };
    const struct weir_gossip_entry entry = { .epoch = 8, .count = units };
    const struct weir_gossip_word word = { .id = { 1 }, .limit = 1, .entries = { NULL, NULL, &entry } };
    assert_int_equal(weir_gossip_hear(&node->gossip, &head, event.now_ns), WEIR_GOSSIP_NEW);
    assert_true(weir_gossip_hear_word(&node->gossip, key_of(net, 0), &head, &word, &event));
    assert_int_equal(net_used(net, 0, 0), units);
}

/* And then node 1, which knows all: of itself 5 units, of node 2's start `third_start` `third`; 40 are used, 30 in its
 * window. */
static void hear_of_all(struct net *net, uint64_t third_start, uint64_t third)
{
    struct net_node *node = &net->node[0];
    const struct weir_event event = net_event(net, 0, 0);
    const struct weir_gossip_head head = { .nodes = 3, .from = 1, .to = 0, .epoch = 9, .seq = 1, .synced = true };
    const struct weir_gossip_entry own = { .epoch = 9, .count = 5 }, other = { .epoch = third_start, .count = third };
    const struct weir_gossip_word word = {
        .id = { 1 },
        .limit = 1,
        .count = 30,
        .end_after_ns = PERIOD_NS / 2,
        .used = 40,
        .entries = { NULL, &own, &other },
    };
    assert_int_equal(weir_gossip_hear(&node->gossip, &head, event.now_ns), WEIR_GOSSIP_NEW);
    assert_true(weir_gossip_hear_word(&node->gossip, key_of(net, 0), &head, &word, &event));
}

static struct net *begin_with_third(uint64_t units)
{
    struct net *net = net_begin(&the_net, 1, 3, &spec, 30);
    hear_of_third(net, units);
    return net;
}

/* What the teller does not know yet came in the window that goes on, and on top of what it says. */
static void test_what_the_teller_does_not_know_comes_on_top(void **state)
{
    (void)state;
    struct net *net = begin_with_third(20);
    hear_of_all(net, 8, 12);
    assert_int_equal(count_in_window(net, 0), 30 + 8);
    assert_int_equal(net_used(net, 0, 0), 40 + 8);
    assert_int_equal(key_of(net, 0)->charged, 20 + 40 + 8);
}

/* Who knows a later start of a node knows what the one before it did. */
static void test_what_a_former_start_admitted_does_not_come_on_top(void **state)
{
    (void)state;
    struct net *net = begin_with_third(20);
    hear_of_all(net, 9, 3);
    assert_int_equal(count_in_window(net, 0), 30);
    assert_int_equal(net_used(net, 0, 0), 40);
}

/* It knows all, and how much of it has come back since: what was counted here before goes. But after a loss of which it
 * may not have heard. */
static void test_what_was_counted_before_goes_unless_something_was_lost(void **state)
{
    (void)state;
    struct net *net = begin_with_third(100);
    hear_of_all(net, 8, 100);
    assert_int_equal(net_used(net, 0, 0), 40);
    net = begin_with_third(100);
    struct weir_gossip_limit *limit = &net->node[0].limit;
    limit->losses[0].at_ns = net_clock(net, 0);
    limit->losses_count = key_of(net, 0)->losses = 1;
    hear_of_all(net, 8, 100);
    assert_int_equal(net_used(net, 0, 0), 100);
}

/* Node 0 is in `window` and hears what node 1, which was in `of`, says of itself. Returns whether it could be taken. */
static bool hear_of_window(struct net *net, uint64_t window, uint64_t of, const struct weir_gossip_entry *said,
                           bool synced)
{
    struct net_node *node = &net->node[0];
    const struct weir_event event = { .now_ns = net_clock(net, 0),
                                      .window = { .id = window, .end_after_ns = PERIOD_NS } };
    const struct weir_gossip_head head = {
        .nodes = 2, .from = 1, .to = 0, .epoch = 9, .seq = node->peers[1].seq + 1, .synced = synced
    };
    const struct weir_gossip_word word = {
        .id = { 1 }, .limit = 1, .window = of, .used = said->count, .entries = { NULL, said }
    };
    assert_int_equal(weir_gossip_hear(&node->gossip, &head, event.now_ns), WEIR_GOSSIP_NEW);
    return weir_gossip_hear_word(&node->gossip, key_of(net, 0), &head, &word, &event);
}

static void assert_used_in_window(struct net *net, uint64_t window, uint64_t used)
{
    const struct weir_event event = { .now_ns = net_clock(net, 0),
                                      .window = { .id = window, .end_after_ns = PERIOD_NS } };
    assert_int_equal(weir_limit_used(&net->node[0].limit.limit, &key_of(net, 0)->state, &event), used);
}

/* However late it comes, and whoever tells it. */
/* In ticks that are finer than nanoseconds, too. */
static void test_a_fast_bucket_refills(void **state)
{
    (void)state;
    static const struct weir_limit_spec fast = { .count = 10000000, .period_ns = SECOND, .burst = 1000 };
    struct net *net = net_begin(&the_net, 1, 1, &fast, 1000);
    assert_true(net->node[0].limit.limit.shift > 0);
    assert_true(net_ask(net, 0, 0, 100, true));
    net->now_ns += 5000; /* 50 are back */
    assert_int_equal(net_used(net, 0, 0), 50);
}

static void test_a_window_of_the_calendar_is_charged_its_own_units(void **state)
{
    (void)state;
    const struct weir_limit_spec minutes = { .algorithm = WEIR_FIXED_WINDOW, .count = LIMIT, .period_ns = PERIOD_NS };
    struct net *net = net_begin(&the_net, 1, 2, &minutes, 30);
    assert_true(hear_of_window(net, 70, 70, &(struct weir_gossip_entry){ 9, 5, 0 }, false));
    assert_used_in_window(net, 70, 5);
    assert_false(hear_of_window(net, 70, 71, &(struct weir_gossip_entry){ 9, 6, 5 }, false)); /* not yet begun here */
    assert_used_in_window(net, 70, 5);
    assert_true(hear_of_window(net, 71, 70, &(struct weir_gossip_entry){ 9, 8, 0 }, false));
    assert_used_in_window(net, 71, 0);
    assert_true(
        hear_of_window(net, 71, 70, &(struct weir_gossip_entry){ 9, 9, 0 }, true)); /* it knows all of that one */
    assert_used_in_window(net, 71, 0);
    assert_true(hear_of_window(net, 71, 71, &(struct weir_gossip_entry){ 9, 11, 9 }, false));
    assert_used_in_window(net, 71, 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_restart_keeps_the_windows_of_who_tells_of_them),
        cmocka_unit_test(test_restarts_in_each_window_starve_nobody),
        cmocka_unit_test(test_of_a_window_that_is_over_no_count_is_told),
        cmocka_unit_test(test_a_word_without_a_window_counts_as_now),
        cmocka_unit_test(test_what_the_teller_does_not_know_comes_on_top),
        cmocka_unit_test(test_what_a_former_start_admitted_does_not_come_on_top),
        cmocka_unit_test(test_what_was_counted_before_goes_unless_something_was_lost),
        cmocka_unit_test(test_a_fast_bucket_refills),
        cmocka_unit_test(test_a_window_of_the_calendar_is_charged_its_own_units),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
