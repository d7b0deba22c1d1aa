/* SPDX-License-Identifier: Apache-2.0
 *
 * limits/gossip_host: which of many keys gives its place to a newcomer, and what is told of one key and one limit. */
#include "gossip_host_net.h"
#include "limits/gossip_inside.h"

/* Only so many keys are looked at for one newcomer: the next one's search goes on where this one's ended. */
static void test_a_search_for_a_place_goes_on_where_the_last_one_ended(void **state)
{
    (void)state;
    enum { KEYS = 256, FRESH = 200 };
    struct net *net = net_create("60/60s", 60);
    unsigned refused = 0;
    net->keys_max = KEYS;
    start_all(net);
    pass(net, 2 * SECOND);
    for (unsigned number = 0; number < KEYS; number++)
        assert_int_equal(take(net, 0, number, number < FRESH ? 15 : 1), number < FRESH ? 15 : 1);
    pass(net, 3 * SECOND);
    assert_int_equal(stats_of(net, 0).keys, KEYS);
    for (unsigned number = 0; number < KEYS - FRESH; number++) {
        unsigned tries = 0;
        while (take(net, 0, 1000 + number, 1) == 0)
            assert_true(++tries < KEYS / 64);
        refused += tries;
    }
    assert_true(refused > 0);
    assert_int_equal(stats_of(net, 0).evicted, KEYS - FRESH);
    assert_int_equal(stats_of(net, 0).refused_full, refused);
    for (unsigned number = 0; number < FRESH; number++)
        assert_non_null(weir_gossip_host_find(net->hosts[0], key_of(number).id));
    net_destroy(net);
}

/* A calendar's begins so much earlier as clocks may differ. */
static void test_a_window_is_told_from_where_it_began(void **state)
{
    (void)state;
    static const enum weir_algorithm algorithms[] = { WEIR_FIXED_WINDOW, WEIR_SLIDING_COUNTER };
    for (size_t i = 0; i < 2; i++) {
        struct net *net = net_create("60/60s", 10);
        const struct weir_limit_spec spec = { .algorithm = algorithms[i], .count = 60, .period_ns = 60 * SECOND };
        weir_remote_limit_deinit(&net->limit);
        assert_int_equal(weir_remote_limit_init(&net->limit, "shared", &spec, NULL), 0);
        start_all(net);
        pass(net, 2 * SECOND);
        assert_int_equal(take(net, 0, 1, 3), 3);
        const struct weir_remote_key key = key_of(1);
        const struct weir_time time = now(net);
        const uint64_t start_ns = weir_gossip_host_window_start(net->hosts[0], &key, &time);
        assert_int_equal(start_ns, i == 0 ? 960 * SECOND - 5 * SECOND - 1 : 960 * SECOND);
        net_destroy(net);
    }
}

static void test_a_limit_that_is_not_there_has_lost_nothing(void **state)
{
    (void)state;
    struct net *net = net_create("60/60s", 10);
    start_all(net);
    pass(net, 2 * SECOND);
    assert_int_equal(take(net, 0, 1, 3), 3);
    weir_gossip_host_destroy(net->hosts[1]);
    start(net, 1, 1, NODES);
    pass(net, 2 * SECOND);
    assert_int_equal(weir_gossip_host_losses(net->hosts[0], &net->limit, net->now_ns), 1);
    assert_int_equal(weir_gossip_host_losses(net->hosts[0], &net->other, net->now_ns), 0);
    assert_int_equal(weir_gossip_host_losses(net->hosts[0], &net->limit, net->now_ns + 60 * SECOND), 0);
    net_destroy(net);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_search_for_a_place_goes_on_where_the_last_one_ended),
        cmocka_unit_test(test_a_window_is_told_from_where_it_began),
        cmocka_unit_test(test_a_limit_that_is_not_there_has_lost_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
