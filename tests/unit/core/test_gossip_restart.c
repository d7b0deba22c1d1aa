/* SPDX-License-Identifier: Apache-2.0
 *
 * core/share/gossip: nodes that start again, in turn, under full demand, with a clock that was wrong, or twice. */
#include "core/share/gossip_parts.h"
#include "gossip_net.h"

static struct net the_net; /* too large for a stack */

static const struct weir_limit_spec daily = { .count = 30000, .period_ns = 24 * HOUR };
static const struct weir_limit_spec specs[] = {
    { .count = 30000, .period_ns = 24 * HOUR },
    { .algorithm = WEIR_FIXED_WINDOW, .count = 30000, .period_ns = HOUR },
    { .algorithm = WEIR_SLIDING_COUNTER, .count = 30000, .period_ns = HOUR },
};

static struct net *begin(const struct weir_limit_spec *spec)
{
    struct net *net = net_begin(&the_net, 1, 3, spec, 100);
    net_pass(net, SECOND);
    return net;
}

/* Node after node, each asked at once: none of them is left with nothing. */
static void test_a_rolling_restart_blocks_nobody(void **state)
{
    (void)state;
    struct net *net = begin(&daily);
    net_take(net, 0, 0, 1000);
    for (unsigned round = 0; round < 4; round++) {
        for (uint32_t i = 0; i < 3; i++) {
            net_start(net, i);
            assert_false(net_ask(net, i, 0, 1, true));
            net_pass(net, SECOND);
        }
    }
    for (uint32_t i = 0; i < 3; i++) {
        assert_true(net_remaining(net, i, 0) > 26000);
        assert_true(net_ask(net, i, 0, 1, true));
    }
}

static void restart(struct net *net, uint32_t i, uint64_t epoch)
{
    net->starts = epoch - 1;
    net_start(net, i);
    net_pass(net, SECOND);
}

/* Under demand that takes all that comes back there is no time to make up for what was charged too much. So a node that
 * starts again has as much as the others, each time. */
static void test_a_restart_under_full_demand_takes_over_what_is_used(void **state)
{
    (void)state;
    const struct weir_limit_spec full = { .count = 300, .period_ns = 60 * SECOND };
    struct net *net = net_begin(&the_net, 1, 3, &full, 10);
    unsigned last = 0;
    net_pass(net, SECOND);
    for (unsigned tick = 0; tick < 4000; tick++, net_pass(net, test_random_below(&net->random, 200) * MS)) {
        if (tick == 950 || tick == 1250 || tick == 1900 || tick == 2200)
            net_start(net, 2);
        if (tick == 2200) /* both, so that neither is the first to hear of it from one that knows */
            net_start(net, 1);
        if (tick % 50 == 49)
            assert_in_range(net_used(net, 2, 0), net_used(net, 0, 0) - 4, net_used(net, 0, 0) + 4);
        for (uint32_t i = 0; i < 3; i++) { /* each is the first in turn */
            const uint32_t node = (tick + i) % 3;
            if (net_ask(net, node, 0, 1, true) && node == 2)
                last = tick;
        }
        assert_true(tick < 2000 || tick - last < 1300);
    }
}

/* Its clock was far ahead at one start, and is right again at the next: it is the later one all the same, and knows
 * what that start admitted, also where only the words of others that started since tell of it. */
static void test_a_clock_that_was_ahead_at_a_start_is_outrun(void **state)
{
    (void)state;
    const uint64_t far = 1000000;
    for (size_t n = 0; n < 2 * sizeof specs / sizeof specs[0]; n++) {
        struct net *net = begin(&specs[n / 2]);
        restart(net, 2, far);
        net_take(net, 2, 0, 1000);
        if (n % 2) {
            net_part(net, 2, true); /* until who starts knows that epoch by words alone */
            restart(net, 0, 10);
            restart(net, 1, 11);
            net->node[2].gossip.synced = false;
        }
        net->starts = 11;
        net_start(net, 2);
        net_part(net, 2, false);
        net_pass(net, SECOND);
        const struct weir_gossip *node = &net->node[2].gossip;
        assert_true(node->synced && !node->superseded && node->epoch == far + 1);
        assert_int_equal(node->twins, 0);
        assert_in_range(net_remaining(net, 2, 0), 27000, 29100);
        net_take(net, 2, 0, 1000);
        assert_in_range(net_remaining(net, 0, 0), 26000, 28200);
        net_take(net, 0, 0, 100);
    }
}

/* What it said before it knew all was not all there is. */
static void test_a_node_that_has_synced_is_heard_once_more_from_the_beginning(void **state)
{
    (void)state;
    struct net *net = begin(&daily);
    net_start(net, 2);
    struct weir_gossip *node = &net->node[2].gossip;
    struct weir_gossip_head head = { .nodes = 3, .from = 1, .to = 2, .epoch = 100, .seq = 1, .until = 5 }, said;
    assert_int_equal(weir_gossip_hear(node, &head, net_clock(net, 2)), WEIR_GOSSIP_NEW);
    weir_gossip_hear_end(node, &head, true, net_clock(net, 2));
    weir_gossip_say(node, 1, 0, net_clock(net, 2), &said);
    assert_int_equal(said.have, 5);
    head.seq = 2;
    head.synced = true;
    assert_int_equal(weir_gossip_hear(node, &head, net_clock(net, 2)), WEIR_GOSSIP_NEW);
    weir_gossip_say(node, 1, 0, net_clock(net, 2), &said);
    assert_int_equal(said.have, 0);
}

/* A time of the clock that an earlier start had: it may lie ahead of all that this one has seen. */
static void test_an_echo_of_an_earlier_start_tells_no_time(void **state)
{
    (void)state;
    struct net *net = begin(&daily);
    struct weir_gossip *node = &net->node[2].gossip;
    struct weir_gossip_key *key = net_key(net, 2, 0);
    const struct weir_event event = net_event(net, 2, 0);
    struct weir_gossip_head head = { .nodes = 3, .from = 1, .to = 2, .echo_epoch = node->epoch - 1 };
    const struct weir_gossip_word word = { .id = { 1, 0 }, .limit = 1 };
    head.echo_ns = event.now_ns + HOUR;
    assert_true(weir_gossip_hear_word(node, key, &head, &word, &event));
    assert_int_equal(key->about[1].known_ns, 0);
}

/* Two processes that always learn of each other before the others answer: each goes one further, once. */
static void test_twins_do_not_outrun_each_other_for_ever(void **state)
{
    (void)state;
    struct net *net = begin(&daily);
    net_start(net, 2);
    struct weir_gossip *node = &net->node[2].gossip;
    struct weir_gossip_peer *peer = &node->peers[1];
    struct weir_gossip_head head = { .nodes = 3, .from = 1, .to = 2, .epoch = 100, .seq = 1 };
    head.echo_epoch = node->epoch;
    head.have = 1;
    weir_gossip_touch(node, net_key(net, 2, 0));
    weir_gossip_hear(node, &head, net_clock(net, 2));
    assert_true(peer->met && peer->acked == 1 && !peer->news);
    const uint64_t generation = peer->generation;
    head.seq = 2;
    head.echo_epoch = node->epoch + 5;
    weir_gossip_hear(node, &head, net_clock(net, 2));
    assert_true(!node->superseded && node->epoch == head.echo_epoch + 1);
    assert_true(!peer->met && peer->acked == 0 && peer->news); /* they have heard nothing of this start */
    assert_true(peer->generation > generation);
    head.seq = 3;
    head.echo_epoch = node->epoch + 5;
    weir_gossip_hear(node, &head, net_clock(net, 2));
    assert_true(node->superseded && node->twins == 1);
    assert_int_equal(node->epoch, head.echo_epoch - 5);
    net_start(net, 2);
    const uint64_t epoch = node->epoch;
    head.seq = 4;
    head.echo_epoch = UINT64_MAX; /* there is nothing beyond */
    weir_gossip_hear(node, &head, net_clock(net, 2));
    assert_true(node->superseded && node->epoch == epoch);
}

/* What node 1 has as used once node 0 has told it that so much is. */
static uint64_t used_if_told(struct net *net, uint64_t told, bool synced, const struct weir_gossip_entry *of_node_1)
{
    const struct weir_event event = net_event(net, 1, 0), event_0 = net_event(net, 0, 0);
    const struct weir_gossip_head head = { .nodes = 3, .from = 0, .to = 1, .synced = synced };
    struct weir_gossip_word word;
    weir_gossip_word(&net->node[0].gossip, net_key(net, 0, 0), &event_0, &word);
    word.used = told;
    if (of_node_1)
        word.entries[1] = of_node_1;
    assert_true(weir_gossip_hear_word(&net->node[1].gossip, net_key(net, 1, 0), &head, &word, &event));
    return net_used(net, 1, 0);
}

static struct net *lately_synced(void)
{
    static const struct weir_limit_spec spec = { .count = 300, .period_ns = HOUR };
    struct net *net = net_begin(&the_net, 1, 3, &spec, 200);
    net_pass(net, 300 * MS);
    assert_true(net_ask(net, 0, 0, 100, true) && net_ask(net, 1, 0, 10, true));
    net_pass(net, 300 * MS);
    assert_in_range(net_used(net, 1, 0), 109, 110);
    return net;
}

/* Of a node that has synced a moment ago: what it took over is rounded up. */
static void test_the_lower_of_two_buckets_that_know_the_same_holds(void **state)
{
    (void)state;
    struct net *net = lately_synced();
    const uint64_t used = net_used(net, 1, 0);
    struct weir_gossip_entry less = net_key(net, 1, 0)->about[1].entry;
    less.count--;
    assert_int_equal(used_if_told(net, used - 5, false, NULL), used); /* it does not know what was before its start */
    assert_int_equal(used_if_told(net, used - 5, true, &less), used); /* nor all that was admitted here */
    assert_int_equal(used_if_told(net, used + 5, true, NULL), used);
    net->node[1].gossip.synced = false; /* this one is told how much by what it had before */
    assert_int_equal(used_if_told(net, used - 5, true, NULL), used);
    net->node[1].gossip.synced = true;
    assert_int_equal(used_if_told(net, used - 5, true, NULL), used - 5);
    assert_int_equal(used_if_told(net, 0, true, NULL), 0);
}

/* Later it may count by another definition, or not have heard of a loss yet. */
static void test_a_node_that_has_been_there_for_long_keeps_its_own(void **state)
{
    (void)state;
    struct net *net = lately_synced();
    net_pass(net, SECOND);
    uint64_t used = net_used(net, 1, 0);
    assert_int_equal(used_if_told(net, used - 5, true, NULL), used);

    net = lately_synced();
    net_start(net, 2);
    net_pass(net, 300 * MS); /* what it may have admitted is charged, by each node when it hears of the start */
    used = net_used(net, 1, 0);
    assert_int_equal(used_if_told(net, used - 5, true, NULL), used);

    net = lately_synced();
    static struct weir_gossip_limit next;
    const struct weir_event event = net_event(net, 1, 0);
    assert_int_equal(weir_gossip_limit_init(&next, 2, &net->spec, 200, NULL), 0);
    weir_gossip_limit_add(&net->node[1].gossip, &next);
    weir_gossip_key_follow(&net->node[1].gossip, net_key(net, 1, 0), &next, &event, &event);
    used = net_used(net, 1, 0);
    assert_int_equal(used_if_told(net, used - 5, true, NULL), used);
}

/* Of two, one has admitted units that the other knows of; then the other speaks of the key. */
static struct net *begin_acknowledged(const struct weir_limit_spec *spec, unsigned units)
{
    struct net *net = net_begin(&the_net, 1, 2, spec, 10);
    net_pass(net, SECOND);
    assert_true(net_ask(net, 0, 0, units, true));
    net_pass(net, SECOND);
    assert_int_equal(weir_gossip_unacked(&net->node[0].gossip, &net->node[0].keys[0]), 0);
    return net;
}

static void hear_of(struct net *net, const struct weir_gossip_entry *own)
{
    struct net_node *node = &net->node[0];
    struct weir_gossip_head head = { .nodes = 2, .from = 1, .epoch = net->node[1].gossip.epoch };
    struct weir_gossip_word word = { .id = { 1, 0 }, .limit = 1, .entries = { own } };
    struct weir_event event = net_event(net, 0, 0);
    (void)weir_gossip_hear_word(&node->gossip, &node->keys[0], &head, &word, &event);
}

/* Who started again and speaks of a key without its counts has none of them. */
static void test_a_new_start_has_acknowledged_nothing(void **state)
{
    (void)state;
    struct net *net = begin_acknowledged(&daily, 5);
    net->node[0].gossip.peers[1].generation++;
    hear_of(net, NULL);
    assert_int_equal(weir_gossip_unacked(&net->node[0].gossip, &net->node[0].keys[0]), 5);
}

/* A message of its own that comes back is no twin's; one of another start is. */
static void test_its_own_message_is_no_twins(void **state)
{
    (void)state;
    struct net *net = begin_acknowledged(&daily, 5);
    struct weir_gossip *node = &net->node[0].gossip;
    struct weir_gossip_head head = { .nodes = 2, .from = 0, .to = 1, .epoch = node->epoch, .seq = 1 };
    assert_int_equal(weir_gossip_hear(node, &head, net_clock(net, 0)), WEIR_GOSSIP_REPLAYED);
    assert_int_equal(node->twins, 0);
    head.epoch--;
    assert_int_equal(weir_gossip_hear(node, &head, net_clock(net, 0)), WEIR_GOSSIP_TWIN);
    assert_true(node->twins == 1 && !node->superseded);
    head.epoch += 2;
    assert_int_equal(weir_gossip_hear(node, &head, net_clock(net, 0)), WEIR_GOSSIP_TWIN);
    assert_true(node->twins == 2 && node->superseded);
}

/* What is known already, or was of a former start, charges nothing. */
static void test_old_counts_charge_nothing(void **state)
{
    (void)state;
    struct net *net = begin_acknowledged(&daily, 5);
    assert_true(net_ask(net, 1, 0, 7, true));
    net_pass(net, SECOND);
    struct net_node *node = &net->node[0];
    struct weir_event event = net_event(net, 0, 0);
    uint64_t used = weir_limit_used(&node->limit.limit, &node->keys[0].state, &event);
    const struct weir_gossip_entry *known = &node->about[0][1].entry;
    assert_int_equal(known->count, 7);
    for (uint64_t back = 0; back < 2; back++)
        for (uint64_t count = 6; count <= (back ? 100 : 7); count++) {
            struct weir_gossip_entry said = { .epoch = known->epoch - back, .count = count };
            struct weir_gossip_head head = { .nodes = 2, .from = 1, .epoch = known->epoch };
            struct weir_gossip_word word = { .id = { 1, 0 }, .limit = 1, .entries = { NULL, &said } };
            (void)weir_gossip_hear_word(&node->gossip, &node->keys[0], &head, &word, &event);
            assert_int_equal(weir_limit_used(&node->limit.limit, &node->keys[0].state, &event), used);
        }
}

/* Refused for want of slack: what may still be had is told, and no more. */
static void test_what_the_slack_leaves_is_told(void **state)
{
    (void)state;
    struct net *net = net_begin(&the_net, 1, 2, &daily, 10);
    net_pass(net, SECOND);
    net_part(net, 1, true);
    assert_true(net_ask(net, 0, 0, 8, true));
    struct weir_event event = net_event(net, 0, 5);
    struct weir_verdict verdict;
    assert_int_equal(weir_gossip_reserve(&net->node[0].gossip, &net->node[0].keys[0], &event, true, &verdict),
                     WEIR_SHARE_NO);
    assert_int_equal(verdict.remaining, 2);
    assert_in_range(verdict.next_after_ns, 1 + 1, 3 * SECOND); /* the limit's, of 30000 a day */
}

/* More than was counted here, of this start: another process counts in this node's name. */
static void test_a_count_above_its_own_is_a_twins(void **state)
{
    (void)state;
    struct net *net = begin_acknowledged(&daily, 5);
    for (uint64_t count = 5; count <= 7; count++) {
        hear_of(net, &(struct weir_gossip_entry){ .epoch = net->node[0].gossip.epoch, .count = count });
        assert_int_equal(net->node[0].gossip.twins, count - 5);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_rolling_restart_blocks_nobody),
        cmocka_unit_test(test_a_restart_under_full_demand_takes_over_what_is_used),
        cmocka_unit_test(test_the_lower_of_two_buckets_that_know_the_same_holds),
        cmocka_unit_test(test_a_node_that_has_been_there_for_long_keeps_its_own),
        cmocka_unit_test(test_a_clock_that_was_ahead_at_a_start_is_outrun),
        cmocka_unit_test(test_a_node_that_has_synced_is_heard_once_more_from_the_beginning),
        cmocka_unit_test(test_an_echo_of_an_earlier_start_tells_no_time),
        cmocka_unit_test(test_twins_do_not_outrun_each_other_for_ever),
        cmocka_unit_test(test_a_new_start_has_acknowledged_nothing),
        cmocka_unit_test(test_a_count_above_its_own_is_a_twins),
        cmocka_unit_test(test_its_own_message_is_no_twins),
        cmocka_unit_test(test_old_counts_charge_nothing),
        cmocka_unit_test(test_what_the_slack_leaves_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
