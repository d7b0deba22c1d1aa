/* SPDX-License-Identifier: Apache-2.0
 *
 * limits/gossip_host: real datagrams between hosts of one process, on a clock of the test's. */
#include "gossip_host_net.h"
#include "limits/gossip_inside.h"

/* What one admits, the others count. */
static void test_nodes_share_a_limit(void **state)
{
    (void)state;
    struct net *net = net_create("300/3600s", 10);
    start_all(net);
    pass(net, 3 * SECOND);
    assert_string_equal(state_of(net, 0, 1), "alive");
    assert_string_equal(state_of(net, 0, 0), "self");
    unsigned total = 0;
    for (unsigned round = 0; round < 200; round++) {
        total += take(net, round % NODES, 1, 5);
        pass(net, 300 * MS);
    }
    assert_true(total >= 290 && total <= 300 + 2 * 10 + 6); /* and 60 s of refill are 5 */
    assert_int_equal(take(net, 0, 1, 1) + take(net, 1, 1, 1) + take(net, 2, 1, 1) <= 3, 1);
    for (uint32_t i = 0; i < NODES; i++) {
        struct weir_gossip_stats stats = stats_of(net, i);
        assert_true(stats.received > 100 && stats.forged + stats.malformed + stats.foreign + stats.replayed == 0);
    }
    net_destroy(net);
}

/* Cut off, a node admits its slack, and then its share; it is dead to the others, and still counts. */
static void test_cut_off_a_node_admits_its_share(void **state)
{
    (void)state;
    struct net *net = net_create("3600/3600s", 10);
    start_all(net);
    pass(net, 3 * SECOND);
    net->cut[2] = true;
    pass(net, 10 * SECOND);
    assert_string_equal(state_of(net, 0, 2), "dead");
    assert_string_equal(state_of(net, 2, 0), "dead");
    assert_int_equal(take(net, 2, 1, 100), 10);
    pass(net, 30 * SECOND);
    assert_int_equal(take(net, 2, 1, 100), 10); /* 30 s of a third of 1 per second */
    assert_true(take(net, 0, 1, 100) <= 10);
    net->cut[2] = false;
    pass(net, 3 * SECOND);
    assert_string_equal(state_of(net, 0, 2), "alive");
    assert_int_equal(stats_of(net, 2).unacked, 0);
    assert_int_equal(take(net, 2, 1, 100), 10);
    net_destroy(net);
}

/* Of a limit in which nothing else was changed. */
static void test_a_reload_brings_another_slack(void **state)
{
    (void)state;
    struct net *net = net_create("3600/3600s", 10);
    start_all(net);
    pass(net, 3 * SECOND);
    memset(net->cut, true, sizeof net->cut);
    assert_int_equal(take(net, 0, 1, 100), 10);
    net->slack = 40;
    reload(net, 0);
    assert_int_equal(take(net, 0, 1, 100), 30);
    net_destroy(net);
}

/* A forged datagram, one heard before, one for another cluster size and one of another process of our name: each is
 * counted and changes nothing. */
static void test_bad_datagrams_are_counted(void **state)
{
    (void)state;
    struct net *net = net_create("300/3600s", 10);
    start_all(net);
    pass(net, 2 * SECOND);
    take(net, 0, 1, 1);
    net->now_ns += 100 * MS;
    struct weir_time time = now(net);
    weir_gossip_host_turn(net->hosts[0], &time);
    struct mail mail = net->mail[0];
    assert_true(net->mail_count > 0);
    deliver(net);
    struct weir_gossip_stats before = stats_of(net, mail.to);
    weir_gossip_host_heard(net->hosts[mail.to], mail.bytes, mail.size, &time);
    assert_int_equal(stats_of(net, mail.to).replayed, before.replayed + 1);
    assert_int_equal(stats_of(net, mail.to).foreign, before.foreign);
    uint32_t third = 3 - mail.to; /* sent on to another node: it is not to it */
    weir_gossip_host_heard(net->hosts[third], mail.bytes, mail.size, &time);
    assert_int_equal(stats_of(net, third).foreign, 1);
    mail.bytes[40] ^= 1;
    weir_gossip_host_heard(net->hosts[mail.to], mail.bytes, mail.size, &time);
    assert_int_equal(stats_of(net, mail.to).forged, 1);
    weir_gossip_host_heard(net->hosts[mail.to], "x", 1, &time);
    assert_int_equal(stats_of(net, mail.to).forged, 2);
    start(net, NODES, 1, 2); /* somebody who believes that there are two nodes */
    pass(net, 2 * SECOND);
    assert_true(stats_of(net, 0).foreign > 0);
    net_destroy(net);
}

/* A second process of one name: both are told by their peers' words, the older one stops admitting. */
static void test_the_older_of_two_twins_stops(void **state)
{
    (void)state;
    struct net *net = net_create("300/3600s", 10);
    start_all(net);
    pass(net, 2 * SECOND);
    assert_int_equal(take(net, 1, 1, 1), 1);
    start(net, NODES, 1, NODES); /* what is sent to b comes to the older one */
    pass(net, 5 * SECOND);
    assert_in_range(stats_of(net, 1).twins, 1, 1000);
    assert_int_equal(take(net, 1, 1, 5), 0);
    assert_int_equal(stats_of(net, 1).refused_superseded, 5);
    net_destroy(net);
}

/* A node that starts again, cut off, is not given a fresh limit; in touch, it learns what is used. */
static void test_a_restart_is_no_fresh_allowance(void **state)
{
    (void)state;
    struct net *net = net_create("3600/3600s", 100);
    start_all(net);
    pass(net, 2 * SECOND);
    for (unsigned round = 0; round < 40; round++) {
        take(net, round % NODES, 1, 100);
        pass(net, 300 * MS);
    }
    weir_gossip_host_destroy(net->hosts[2]);
    start(net, 2, 2, NODES);
    net->cut[2] = true;
    pass(net, 10 * SECOND);
    assert_true(take(net, 2, 2, 100) <= 10); /* a key that nobody has asked for: empty as of its start */
    net->cut[2] = false;
    pass(net, 3 * SECOND);
    assert_true(take(net, 2, 1, 100) <= 16); /* what has refilled, at most */
    assert_true(take(net, 2, 3, 50) == 50);  /* synced: a new key is fresh */
    net_destroy(net);
}

/* What a node hears of a key that nobody asked it for, it counts by the override that the sender knows to apply, also
 * when that is slower than the limit: else it would have forgotten it all when it is asked. */
static void test_a_word_is_counted_under_its_override(void **state)
{
    (void)state;
    struct net *net = net_create("30/1s", 10);
    struct weir_limit_spec slow = spec_of("30/86400s");
    assert_int_equal(weir_remote_limit_init(&net->other, "shared", &slow, NULL), 0);
    net->other.variant = 1;
    net->with_other = true;
    start_all(net);
    pass(net, 2 * SECOND);
    unsigned total = 0;
    for (uint32_t i = 0; i < NODES; i++)
        for (unsigned round = 0; round < 10; round++) {
            total += take_of(net, &net->other, i, 1, 30);
            pass(net, SECOND);
        }
    assert_in_range(total, 30, 30 + 2 * 10);
    net_destroy(net);
}

/* The same for a limit that a reload made slower, and for an override that it took away. */
static void test_keys_that_are_only_heard_of_follow_a_reload(void **state)
{
    (void)state;
    for (uint64_t variant = 0; variant < 2; variant++) {
        struct net *net = net_create("30/1s", 10);
        net->limit.variant = variant;
        start_all(net);
        pass(net, 2 * SECOND);
        assert_int_equal(take(net, 0, 1, 1), 1);
        pass(net, 2 * SECOND);
        struct weir_limit_spec slow = spec_of("30/86400s");
        assert_int_equal(weir_remote_limit_init(&net->other, "shared", &slow, NULL), 0);
        net->with_limit = false;
        net->with_other = true;
        for (uint32_t i = 0; i < NODES; i++)
            reload(net, i);
        unsigned total = 0;
        for (uint32_t i = 0; i < NODES; i++)
            for (unsigned round = 0; round < 10; round++) {
                total += take_of(net, &net->other, i, 1, 30);
                pass(net, SECOND);
            }
        assert_in_range(total, 29, 30 + 2 * 10);
        net_destroy(net);
    }
}

/* What c hears from the others while it starts with nothing to be told; `synced`: from those who know all there is. */
static void keep_first(struct net *net, bool synced, struct mail kept[NODES])
{
    for (size_t m = 0; m < net->mail_count; m++) {
        struct mail *mail = &net->mail[m];
        struct weir_gossip_reader reader;
        struct weir_gossip_head head;
        struct weir_gossip_probe probe;
        assert_int_equal(weir_gossip_read(&reader, mail->bytes, mail->size, secret, &head, &probe), 0);
        if (mail->to == 2 && head.complete && head.until == 0 && head.synced == synced)
            kept[mail->from] = *mail;
    }
}

static void start_and_keep(struct net *net, bool synced, struct mail kept[NODES])
{
    for (unsigned turn = 0; turn < 200; turn++, net->now_ns += 10 * MS) {
        struct weir_time time = now(net);
        for (uint32_t i = 0; i < NODES; i++)
            weir_gossip_host_turn(net->hosts[i], &time);
        keep_first(net, synced, kept);
        deliver(net);
    }
}

static unsigned take_for_long(struct net *net, uint32_t i, unsigned rounds)
{
    unsigned total = 0;
    for (unsigned round = 0; round < rounds; round++) {
        total += take(net, i, 1, 10);
        pass(net, 300 * MS);
    }
    return total;
}

/* Datagrams captured when a node started are sent to it again at a later start, ahead of all others. They are from
 * before it, so they do not say what there is to know now: what its earlier starts admitted stays charged. */
static void test_old_datagrams_do_not_tell_a_new_start(void **state)
{
    (void)state;
    for (int synced = 0; synced < 2; synced++) {
        struct net *net = net_create("1000/86400s", 10);
        struct mail kept[NODES] = { { 0 } };
        start_all(net);
        start_and_keep(net, synced, kept);
        weir_gossip_host_destroy(net->hosts[2]);
        start(net, 2, 2, NODES);
        start_and_keep(net, synced, kept);
        unsigned total = take_for_long(net, 2, 60);
        assert_int_equal(total, 600);
        for (unsigned crashes = 0; crashes < 2; crashes++) {
            weir_gossip_host_destroy(net->hosts[2]);
            start(net, 2, 2, NODES);
            for (uint32_t from = 0; from < 2; from++) {
                struct weir_time time = now(net);
                assert_true(kept[from].size > 0);
                weir_gossip_host_heard(net->hosts[2], kept[from].bytes, kept[from].size, &time);
            }
            pass(net, 3 * SECOND);
            total += take_for_long(net, 2, 1 + crashes * 150);
        }
        assert_in_range(total, 900, 1000 + (2 + 3) * 10);
        net_destroy(net);
    }
}

/* Of each limit by its own time to fill. */
static void test_losses_are_told_by_limit(void **state)
{
    (void)state;
    struct net *net = net_create("60/1s", 10);
    struct weir_limit_spec slow = spec_of("60/3600s");
    assert_int_equal(weir_remote_limit_init(&net->other, "slow", &slow, NULL), 0);
    net->with_other = true;
    start_all(net);
    pass(net, 2 * SECOND);
    weir_gossip_host_destroy(net->hosts[2]);
    start(net, 2, 2, NODES);
    pass(net, 500 * MS);
    assert_int_equal(weir_gossip_host_losses(net->hosts[0], &net->limit, net->now_ns), 1);
    pass(net, 5 * SECOND);
    assert_int_equal(weir_gossip_host_losses(net->hosts[0], &net->limit, net->now_ns), 0);
    assert_int_equal(weir_gossip_host_losses(net->hosts[0], &net->other, net->now_ns), 1);
    net_destroy(net);
}

/* No more than keys_max; a place is made by a fresh key only. Bytes stay within what is allowed. */
static void test_memory_and_bandwidth_are_bounded(void **state)
{
    (void)state;
    struct net *net = net_create("60/60s", 10);
    net->keys_max = 50;
    net->bytes_per_s = 20000;
    start_all(net);
    pass(net, 2 * SECOND);
    for (unsigned k = 0; k < 50; k++)
        assert_int_equal(take(net, 0, k, 1), 1);
    struct weir_remote_key key = key_of(1000);
    struct weir_time time = now(net);
    enum weir_share_say say;
    struct weir_verdict verdict;
    for (int peek = 1; peek >= 0; peek--) { /* which says what the charge will */
        assert_int_equal(
            weir_gossip_host_reserve(net->hosts[0], &net->limit, net->slack, &key, 1, peek, &time, &say, &verdict), 0);
        assert_int_equal(say, WEIR_SHARE_NO);
        assert_true(!verdict.admitted && verdict.full && verdict.retry_after_ns > 0);
        assert_int_equal(verdict.capacity, 60);
    }
    assert_int_equal(stats_of(net, 0).refused_full, 1);
    assert_true(stats_of(net, 0).synced);
    weir_gossip_host_commit(net->hosts[0], &key, 0, &time); /* nothing was set aside, and there is no such key */
    weir_gossip_host_cancel(net->hosts[0], &key, 0, &time);
    uint64_t bytes = stats_of(net, 0).bytes_sent;
    pass(net, 10 * SECOND);
    assert_true(stats_of(net, 0).bytes_sent - bytes <= 10 * 20000 + 4096);
    assert_int_equal(stats_of(net, 0).unacked, 0);
    time = now(net);
    assert_int_equal(
        weir_gossip_host_reserve(net->hosts[0], &net->limit, net->slack, &key, 1, true, &time, &say, &verdict), 0);
    assert_int_equal(say, WEIR_SHARE_YES);
    assert_int_equal(take(net, 0, 1000, 1), 1);
    struct weir_gossip_stats stats = stats_of(net, 0);
    assert_true(stats.keys == 50 && stats.evicted == 1);
    net_destroy(net);
}

static uint64_t reset_of(struct net *net, const struct weir_remote_limit *limit, unsigned number)
{
    struct weir_remote_key key = key_of(number);
    struct weir_time time = now(net);
    struct weir_verdict verdict;
    enum weir_share_say say;
    assert_int_equal(weir_gossip_host_reserve(net->hosts[1], limit, net->slack, &key, 0, false, &time, &say, &verdict),
                     0);
    return verdict.reset_after_ns;
}

/* How far from where the key's window ends by its number it ends on node 1. */
static uint64_t window_of(struct net *net, unsigned number, const struct weir_limit_spec *spec)
{
    __extension__ typedef unsigned __int128 u128;
    uint64_t phase_ns = (uint64_t)((u128)key_of(number).phase * spec->spread_ns >> 64); /* of the whole spread */
    return (now(net).wall_ns + reset_of(net, &net->limit, number) - phase_ns) % spec->period_ns;
}

/* With `spread` each key's window begins at a time of its own, and that is the same one on all nodes. */
static void test_windows_that_begin_apart_are_shared(void **state)
{
    (void)state;
    struct net *net = net_create("10/3600s", 10);
    struct weir_limit_spec spec = spec_of("10/3600s");
    spec.algorithm = WEIR_FIXED_WINDOW;
    spec.spread_ns = 1800 * SECOND;
    weir_remote_limit_deinit(&net->limit);
    assert_int_equal(weir_remote_limit_init(&net->limit, "shared", &spec, NULL), 0);
    start_all(net);
    pass(net, 2 * SECOND);
    for (unsigned quarter = 0; quarter < 6; quarter++) {
        for (unsigned k = 20 * quarter; k < 20 * quarter + 20; k++)
            assert_int_equal(take(net, 0, k, 6), 6);
        pass(net, SECOND);
        for (unsigned k = 20 * quarter; k < 20 * quarter + 20; k++)
            assert_in_range(take(net, 1, k, 10), 3, 4);
        assert_int_equal(window_of(net, 20 * quarter, &spec), 0);
        assert_int_equal(stats_of(net, 0).unacked, 0);
        net->now_ns += 890 * SECOND;
        pass(net, 10 * SECOND);
    }
    net_destroy(net);
}

/* A key that was heard of before a reload set windows apart has its own window as soon as it is asked for. */
static void test_a_reload_can_set_windows_apart(void **state)
{
    (void)state;
    struct net *net = net_create("10/3600s", 10);
    struct weir_limit_spec spec = spec_of("10/3600s");
    spec.algorithm = WEIR_FIXED_WINDOW;
    weir_remote_limit_deinit(&net->limit);
    assert_int_equal(weir_remote_limit_init(&net->limit, "shared", &spec, NULL), 0);
    spec.spread_ns = 1800 * SECOND;
    assert_int_equal(weir_remote_limit_init(&net->other, "shared", &spec, NULL), 0);
    start_all(net);
    pass(net, 2 * SECOND);
    for (unsigned k = 0; k < 4; k++)
        assert_int_equal(take(net, 0, k, 1), 1);
    pass(net, SECOND);
    assert_int_equal(stats_of(net, 1).keys, 4);
    assert_int_equal(reset_of(net, &net->limit, 0), reset_of(net, &net->limit, 1));
    net->with_limit = false;
    net->with_other = true;
    reload(net, 1);
    for (unsigned k = 0; k < 4; k++) /* each of them, asked for or not */
        assert_true(weir_gossip_host_find(net->hosts[1], key_of(k).id)->limit->kept);
    uint64_t resets[4];
    for (unsigned k = 0; k < 4; k++) {
        assert_int_equal(take_of(net, &net->other, 1, k, 1), 1);
        const struct weir_remote_key key = key_of(k);
        assert_int_equal(weir_gossip_host_find(net->hosts[1], key.id)->phase, key.phase);
        resets[k] = reset_of(net, &net->other, k);
        for (unsigned j = 0; j < k; j++)
            assert_int_not_equal(resets[j], resets[k]);
    }
    net_destroy(net);
}

/* ---- what is shown ---- */

static void test_members_are_shown_as_they_were_heard(void **state)
{
    (void)state;
    struct net *net = net_create("60/60s", 10);
    struct weir_gossip_member members[NODES];
    start(net, 0, 0, NODES);
    start(net, 1, 1, NODES);
    pass(net, 2 * SECOND);
    struct weir_time time = now(net);
    time.now_ns = net->hosts[0]->peers[1].heard_ns + 7 * SECOND;
    assert_int_equal(weir_gossip_host_members(net->hosts[0], &time, members, 2), 2);
    assert_int_equal(weir_gossip_host_members(net->hosts[0], &time, members, NODES), NODES);
    static const char *const states[] = { "self", "alive", "unknown" };
    for (uint32_t j = 0; j < NODES; j++) {
        assert_string_equal(members[j].name, names[j]);
        assert_string_equal(members[j].state, states[j]);
        assert_int_equal(members[j].epoch, j == 2 ? 0 : j + 1);
    }
    assert_int_equal(members[0].heard_after_ns, 0);
    assert_int_equal(members[1].heard_after_ns, 7 * SECOND);
    assert_int_equal(members[2].heard_after_ns, WEIR_NEVER);
    net_destroy(net);
}

static void test_stats_show_what_is_counted(void **state)
{
    (void)state;
    struct net *net = net_create("60/60s", 10);
    start_all(net);
    struct weir_time time = now(net);
    weir_gossip_host_turn(net->hosts[0], &time); /* no bytes are earned yet */
    assert_int_equal(stats_of(net, 0).sent, 0);
    pass(net, 2 * SECOND);
    assert_int_equal(take(net, 0, 1, 3), 3);
    assert_int_equal(take(net, 0, 2, 4), 4);
    assert_int_equal(stats_of(net, 0).unacked, 7);
    assert_int_equal(stats_of(net, 1).unacked, 0);
    uint64_t sent = stats_of(net, 0).sent;
    net->now_ns += 100 * MS;
    time = now(net);
    weir_gossip_host_turn(net->hosts[0], &time);
    assert_true(net->mail_count > 0);
    assert_int_equal(stats_of(net, 0).sent, sent + net->mail_count);
    struct weir_gossip *gossip = &net->hosts[0]->gossip;
    gossip->refused = (struct weir_gossip_refusals){ 11, 12, 13, 14 };
    gossip->twins = 15;
    struct weir_gossip_stats stats = stats_of(net, 0);
    assert_int_equal(stats.refused_unsynced, 11);
    assert_int_equal(stats.refused_unheard, 12);
    assert_int_equal(stats.refused_slack, 13);
    assert_int_equal(stats.refused_superseded, 14);
    assert_int_equal(stats.twins, 15);
    assert_true(stats.synced && weir_gossip_host_synced(net->hosts[0]));
    net_destroy(net);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nodes_share_a_limit),
        cmocka_unit_test(test_cut_off_a_node_admits_its_share),
        cmocka_unit_test(test_a_reload_brings_another_slack),
        cmocka_unit_test(test_bad_datagrams_are_counted),
        cmocka_unit_test(test_the_older_of_two_twins_stops),
        cmocka_unit_test(test_a_word_is_counted_under_its_override),
        cmocka_unit_test(test_keys_that_are_only_heard_of_follow_a_reload),
        cmocka_unit_test(test_old_datagrams_do_not_tell_a_new_start),
        cmocka_unit_test(test_a_restart_is_no_fresh_allowance),
        cmocka_unit_test(test_losses_are_told_by_limit),
        cmocka_unit_test(test_windows_that_begin_apart_are_shared),
        cmocka_unit_test(test_a_reload_can_set_windows_apart),
        cmocka_unit_test(test_memory_and_bandwidth_are_bounded),
        cmocka_unit_test(test_members_are_shown_as_they_were_heard),
        cmocka_unit_test(test_stats_show_what_is_counted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
