/* SPDX-License-Identifier: Apache-2.0
 *
 * Nodes that tell each other definitions by datagrams, in a time of the test's own: lost, repeated, late, forged. */
#include "revision_net.h"

static void a_reload_reaches_all_within_a_second(void **state)
{
    (void)state;
    struct net net;
    net_start(&net, "old");
    run(&net, 3 * WEIR_NS_PER_SECOND);
    own(&net, 0, "new", 3);
    run(&net, WEIR_NS_PER_SECOND);
    decides_by(&net, 0, "new", "new");
    decides_by(&net, 1, "old", "new");
    decides_by(&net, 2, "old", "new");
    start(&net, 2, "old"); /* in the middle, with the old file */
    struct weir_revision_found it = found(&net, 2, "old");
    assert_int_equal(it.number, 0);
    run(&net, WEIR_NS_PER_SECOND);
    decides_by(&net, 2, "old", "new");
    run(&net, 5 * WEIR_NS_PER_SECOND);
    decides_by(&net, 1, "old", "new");
    own(&net, 0, "old", 3); /* back */
    run(&net, WEIR_NS_PER_SECOND);
    decides_by(&net, 1, "old", "old");
    decides_by(&net, 2, "old", "old");
    net_stop(&net);
}

static void a_start_behind_a_cut_does_not_win_when_it_heals(void **state)
{
    (void)state;
    struct net net;
    net_start(&net, "old");
    run(&net, 3 * WEIR_NS_PER_SECOND);
    own(&net, 0, "new", 3);
    run(&net, WEIR_NS_PER_SECOND);
    net.cut[2] = true;
    start(&net, 2, "old");
    run(&net, 10 * WEIR_NS_PER_SECOND);
    decides_by(&net, 2, "old", "old");
    net.cut[2] = false;
    run(&net, WEIR_NS_PER_SECOND);
    for (uint32_t node = 1; node < NODES; node++)
        decides_by(&net, node, "old", "new");
    net_stop(&net);
}

/* Where an engine may tell more, silence says nothing. */
static void who_has_an_engine_is_not_alone(void **state)
{
    (void)state;
    struct net net;
    net_start(&net, "old");
    net.has_engine = true;
    for (uint32_t node = 0; node < NODES; node++)
        start(&net, node, "old");
    run(&net, 10 * WEIR_NS_PER_SECOND);
    assert_int_equal(found(&net, 0, "old").number, 0);
    net_stop(&net);
}

static void a_limit_that_a_reload_brings_back_is_the_newest(void **state)
{
    (void)state;
    struct net net;
    net_start(&net, "old");
    run(&net, 3 * WEIR_NS_PER_SECOND);
    assert_int_equal(weir_revisions_own(net.revisions[0], NULL, 0, now_of(&net).wall_ns), 0);
    own(&net, 1, "new", 3);
    run(&net, WEIR_NS_PER_SECOND);
    own(&net, 0, "old", 3);
    run(&net, WEIR_NS_PER_SECOND);
    decides_by(&net, 1, "new", "old");
    decides_by(&net, 2, "old", "old");
    net_stop(&net);
}

/* One that has just started, too, says that it knows of nothing: the third may know more, and is waited for. */
static void who_hears_one_of_two_is_not_alone(void **state)
{
    (void)state;
    struct net net;
    net_start(&net, "old");
    run(&net, 3 * WEIR_NS_PER_SECOND);
    own(&net, 1, "new", 3);
    run(&net, WEIR_NS_PER_SECOND);
    net.cut[1] = true;
    start(&net, 0, "old");
    start(&net, 2, "old");
    run(&net, WEIR_NS_PER_SECOND / 2);
    assert_int_equal(found(&net, 0, "old").number, 0);
    net.cut[1] = false;
    run(&net, WEIR_NS_PER_SECOND);
    decides_by(&net, 0, "old", "new");
    decides_by(&net, 2, "old", "new");
    net_stop(&net);
}

#define MANY (2 * (size_t)WEIR_REVISION_TALK_SAID + 3)

static void own_many(struct net *net, uint32_t node, const char *text)
{
    static char names[MANY][16];
    static struct weir_revision_own limits[MANY];
    for (size_t i = 0; i < MANY; i++) {
        (void)snprintf(names[i], sizeof(names[i]), "l%zu", i);
        limits[i] = (struct weir_revision_own){ names[i], { text, strlen(text) }, 0 };
    }
    assert_int_equal(weir_revisions_own(net->revisions[node], limits, MANY, now_of(net).wall_ns), 0);
}

/* Of more limits than there is room for in a datagram all are told, in turn. */
static void of_many_limits_all_are_told(void **state)
{
    (void)state;
    struct net net;
    net_start(&net, "x");
    for (uint32_t node = 0; node < NODES; node++)
        own_many(&net, node, "old");
    run(&net, 5 * WEIR_NS_PER_SECOND);
    own_many(&net, 0, "new");
    run(&net, 5 * WEIR_NS_PER_SECOND);
    for (size_t i = 0; i < MANY; i++) {
        char name[16];
        struct weir_revision_found it;
        (void)snprintf(name, sizeof(name), "l%zu", i);
        const struct weir_revision_own limit = { name, { "old", 3 }, 0 };
        assert_int_equal(weir_revisions_find(net.revisions[1], &limit, now_of(&net).wall_ns, &it), 0);
        assert_non_null(it.text);
        assert_string_equal(it.text, "new");
        free(it.text);
    }
    net_stop(&net);
}

/* After a while it is fetched of another one. */
static void a_long_definition_of_a_node_that_went_is_fetched_elsewhere(void **state)
{
    (void)state;
    static char text[100001];
    memset(text, 'a', sizeof(text) - 1);
    struct net net;
    net_start(&net, "old");
    run(&net, 3 * WEIR_NS_PER_SECOND);
    net.cut[2] = true;
    own(&net, 0, text, strlen(text));
    run(&net, WEIR_NS_PER_SECOND);
    decides_by(&net, 1, "old", text);
    net.cut[2] = false; /* it hears of it, and gets a part of it, of node 0 alone */
    net.cut[1] = true;
    net.lost_percent = 50;
    run(&net, 3 * WEIR_NS_PER_SECOND);
    decides_by(&net, 2, "old", "old");
    net.cut[0] = true;
    net.cut[1] = false;
    net.lost_percent = 0;
    run(&net, 12 * WEIR_NS_PER_SECOND);
    decides_by(&net, 2, "old", text);
    net_stop(&net);
}

static void a_long_definition_comes_in_parts_though_many_are_lost(void **state)
{
    (void)state;
    static char text[100001];
    for (size_t i = 0; i < sizeof(text) - 1; i++)
        text[i] = (char)('a' + i % 23);
    struct net net;
    net_start(&net, "old");
    run(&net, 3 * WEIR_NS_PER_SECOND);
    net.lost_percent = 5;
    own(&net, 0, text, strlen(text));
    run(&net, 60 * WEIR_NS_PER_SECOND);
    decides_by(&net, 1, "old", text);
    decides_by(&net, 2, "old", text);
    net_stop(&net);
}

/* Any bytes, and those of ours with one changed, change nothing and end no process. */
static void forged_datagrams_change_nothing(void **state)
{
    (void)state;
    struct net net;
    net_start(&net, "old");
    run(&net, 3 * WEIR_NS_PER_SECOND);
    own(&net, 0, "new", 3);
    const struct weir_time time = { net.now_ns + WEIR_NS_PER_SECOND, WALL_NS + WEIR_NS_PER_SECOND };
    net.count = 0;
    (void)weir_revision_talk_turn(net.talks[0], &time);
    assert_true(net.count > 0);
    struct datagram one = net.sent[0];
    net.count = 0;
    for (size_t i = 0; i < one.size; i++)
        for (size_t size = i; size <= one.size; size += one.size - i) {
            struct datagram bad = one;
            bad.bytes[i] ^= 0x40;
            (void)weir_revision_talk_heard(net.talks[one.to], bad.bytes, size, &time);
            assert_int_equal(net.count, 0);
        }
    assert_true(weir_revision_talk_heard(net.talks[one.to], one.bytes, one.size, &time));
    assert_int_equal(net.count, 1); /* it wants the rest */
    net_stop(&net);
}

int main(void)
{
#ifdef __GLIBC__
    (void)mallopt(M_PERTURB, 90); /* or what one node has freed is what another is to be told */
#endif
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_reload_reaches_all_within_a_second),
        cmocka_unit_test(a_start_behind_a_cut_does_not_win_when_it_heals),
        cmocka_unit_test(who_has_an_engine_is_not_alone),
        cmocka_unit_test(a_limit_that_a_reload_brings_back_is_the_newest),
        cmocka_unit_test(who_hears_one_of_two_is_not_alone),
        cmocka_unit_test(of_many_limits_all_are_told),
        cmocka_unit_test(a_long_definition_of_a_node_that_went_is_fetched_elsewhere),
        cmocka_unit_test(a_long_definition_comes_in_parts_though_many_are_lost),
        cmocka_unit_test(forged_datagrams_change_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
