/* SPDX-License-Identifier: Apache-2.0
 *
 * limits/gossip_host: what it sends and to whom, which limits it keeps, and what it refuses. Linked with --wrap, so
 * that memory can run out. */
#include "gossip_host_net.h"
#include "limits/gossip_inside.h"

#define NEVER (-1L)

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);

static long granted = NEVER; /* allocations until the memory is used up */

static bool denied(void)
{
    if (granted > 0)
        granted--;
    return granted == 0;
}

void *__wrap_malloc(size_t size)
{
    return denied() ? NULL : __real_malloc(size);
}

void *__wrap_calloc(size_t count, size_t size)
{
    return denied() ? NULL : __real_calloc(count, size);
}

/* ---- sending ---- */

/* What changed at once is told at once, as far as the bytes allow: many datagrams in one turn. */
static void test_news_that_fill_many_datagrams_go_in_one_turn(void **state)
{
    (void)state;
    struct net *net = net_create("60/60s", 10);
    start_all(net);
    pass(net, 2 * SECOND);
    for (unsigned k = 0; k < 1000; k++)
        assert_int_equal(take(net, 0, k, 1), 1);
    pass(net, 110 * MS);
    assert_int_equal(stats_of(net, 1).keys, 1000);
    assert_int_equal(stats_of(net, 2).keys, 1000);
    net_destroy(net);
}

/* With more to tell than may be sent, all that may be is sent, and no more. */
static void test_bytes_are_what_is_allowed(void **state)
{
    (void)state;
    struct net *net = net_create("6000/60s", 10);
    net->bytes_per_s = 20000;
    start_all(net);
    pass(net, 2 * SECOND);
    uint64_t before = stats_of(net, 0).bytes_sent;
    for (unsigned round = 0; round < 50; round++) {
        for (unsigned k = 0; k < 200; k++)
            take(net, 0, k, 1);
        pass(net, 100 * MS);
    }
    assert_in_range(stats_of(net, 0).bytes_sent - before, 80000, 100000 + 2 * 2000 + WEIR_GOSSIP_DATAGRAM_MAX);
    net_destroy(net);
}

/* Two that do not hear each other are alive to each other while a third hears both. */
static void test_a_third_node_tells_who_is_alive(void **state)
{
    (void)state;
    struct net *net = net_create("300/3600s", 10);
    start_all(net);
    pass(net, 2 * SECOND);
    net->apart = true;
    for (unsigned round = 0; round < 200; round++) {
        pass(net, 100 * MS);
        assert_string_equal(state_of(net, 0, 1), "alive");
        assert_string_equal(state_of(net, 1, 0), "alive");
    }
    net->cut[2] = true;
    pass(net, 10 * SECOND);
    assert_string_equal(state_of(net, 0, 1), "dead");
    net_destroy(net);
}

/* So where one of them hears the other: who asked the third is told by it, and only that. */
static void test_who_asked_a_third_node_is_the_one_to_be_told(void **state)
{
    (void)state;
    struct net *net = net_create("300/3600s", 10);
    start_all(net);
    pass(net, 2 * SECOND);
    net->deaf = true;
    for (unsigned round = 0; round < 200; round++) {
        pass(net, 100 * MS);
        assert_string_equal(state_of(net, 0, 1), "alive");
    }
    net_destroy(net);
}

/* A message of one node to another, with a probe and no words. */
static void tell(struct net *net, uint32_t from, uint32_t to, const struct weir_gossip_probe *probe)
{
    struct weir_gossip_writer writer;
    struct weir_gossip_head head;
    struct weir_time time = now(net);
    struct weir_gossip *gossip = &net->hosts[from]->gossip;
    weir_gossip_say(gossip, to, gossip->peers[to].acked, net->now_ns, &head);
    weir_gossip_write_start(&writer);
    weir_gossip_write_end(&writer, &head, probe, secret);
    weir_gossip_host_heard(net->hosts[to], writer.bytes, writer.size, &time);
}

static struct weir_gossip_probe probe_of(const struct mail *mail)
{
    struct weir_gossip_reader reader;
    struct weir_gossip_head head;
    struct weir_gossip_probe probe;
    assert_int_equal(weir_gossip_read(&reader, mail->bytes, mail->size, secret, &head, &probe), 0);
    return probe;
}

static struct net *net_in_touch(void)
{
    struct net *net = net_create("60/60s", 10);
    start_all(net);
    pass(net, 2 * SECOND);
    net->now_ns += SECOND;
    for (unsigned k = 0; k < 1000; k++) /* news that fill many datagrams */
        assert_int_equal(take(net, 2, k, 10), 10);
    return net;
}

/* A probe is answered at once, by one datagram, whatever else there is to tell. */
static void test_a_probe_is_answered_by_one_datagram(void **state)
{
    (void)state;
    static const struct weir_gossip_probe ping = { true, WEIR_GOSSIP_NOBODY, WEIR_GOSSIP_NOBODY };
    static const struct weir_gossip_probe ask = { false, 1, WEIR_GOSSIP_NOBODY };
    static const struct weir_gossip_probe ask_self = { false, 2, WEIR_GOSSIP_NOBODY };
    static const struct weir_gossip_probe none = { false, WEIR_GOSSIP_NOBODY, WEIR_GOSSIP_NOBODY };
    struct net *net = net_in_touch();
    tell(net, 0, 2, &none);
    tell(net, 0, 2, &ask_self);
    assert_int_equal(net->mail_count, 0);
    tell(net, 0, 2, &ping);
    assert_int_equal(net->mail_count, 1);
    assert_int_equal(net->mail[0].to, 0);
    assert_false(probe_of(&net->mail[0]).ping);
    tell(net, 0, 2, &ask); /* the one asked for is pinged ... */
    assert_int_equal(net->mail_count, 2);
    assert_int_equal(net->mail[1].to, 1);
    assert_true(probe_of(&net->mail[1]).ping);
    assert_int_equal(probe_of(&net->mail[1]).ask, WEIR_GOSSIP_NOBODY);
    tell(net, 1, 2, &none); /* ... and who asked is told when it answers */
    assert_int_equal(net->mail_count, 3);
    assert_int_equal(net->mail[2].to, 0);
    assert_int_equal(probe_of(&net->mail[2]).told, 1);
    net_destroy(net);
}

/* Not beyond what may be sent. */
static void test_probes_are_not_answered_beyond_the_bytes_allowed(void **state)
{
    (void)state;
    static const struct weir_gossip_probe all = { true, 1, WEIR_GOSSIP_NOBODY };
    static const struct weir_gossip_probe none = { false, WEIR_GOSSIP_NOBODY, WEIR_GOSSIP_NOBODY };
    struct net *net = net_in_touch();
    weir_membership_asked(&net->hosts[2]->members, 0, 1, net->now_ns);
    net->hosts[2]->budget = -((int64_t)1 << 40);
    tell(net, 0, 2, &all);
    tell(net, 1, 2, &none);
    assert_int_equal(net->mail_count, 0);
    net_destroy(net);
}

/* What comes between two turns is heard when it comes. */
static void test_a_message_is_heard_when_it_comes(void **state)
{
    (void)state;
    static const struct weir_gossip_probe none = { false, WEIR_GOSSIP_NOBODY, WEIR_GOSSIP_NOBODY };
    struct net *net = net_in_touch();
    net->now_ns += 5 * SECOND;
    tell(net, 0, 1, &none);
    assert_int_equal(net->hosts[1]->peers[0].heard_ns, net->now_ns);
    net_destroy(net);
}

/* Of a process of its own name a node takes nothing, and answers it nothing. */
static void test_a_twin_is_counted_and_not_heard(void **state)
{
    (void)state;
    struct net *net = net_create("60/60s", 10);
    start_all(net);
    pass(net, 2 * SECOND);
    start(net, NODES, 0, NODES);
    struct weir_gossip_writer writer;
    struct weir_gossip_head head;
    const struct weir_gossip_probe ping = { true, 1, WEIR_GOSSIP_NOBODY };
    struct weir_time time = now(net);
    weir_gossip_say(&net->hosts[NODES]->gossip, 1, 0, net->now_ns, &head);
    weir_gossip_write_start(&writer);
    weir_gossip_write_end(&writer, &head, &ping, secret);
    const struct weir_gossip_stats before = stats_of(net, 0);
    weir_gossip_host_heard(net->hosts[0], writer.bytes, writer.size, &time);
    assert_int_equal(stats_of(net, 0).twins, before.twins + 1);
    assert_int_equal(net->mail_count, 0);
    net_destroy(net);
}

/* ---- limits ---- */

static int reserve_of(struct net *net, const struct weir_remote_limit *limit, uint32_t i, unsigned number, bool peek,
                      struct weir_verdict *ret_verdict)
{
    struct weir_remote_key key = key_of(number);
    struct weir_time time = now(net);
    enum weir_share_say say;
    return weir_gossip_host_reserve(net->hosts[i], limit, net->slack, &key, 1, peek, &time, &say, ret_verdict);
}

/* A limit that a reload took away is let go of, at once or when its last key has gone. */
static void test_a_limit_that_is_no_more_is_let_go(void **state)
{
    (void)state;
    struct net *net = net_create("60/60s", 10);
    const struct weir_limit_spec spec = spec_of("60/60s");
    const struct weir_remote_limit *gone[2];
    const uint64_t slacks[] = { 10, 10 };
    net->keys_max = 1;
    start(net, 0, 0, 1);
    struct weir_time time = now(net);
    for (size_t i = 0; i < 2; i++)
        assert_int_equal(weir_remote_limit_create(i ? "idle" : "busy", 0, 0, &spec, &gone[i], NULL), 0);
    weir_gossip_host_limits(net->hosts[0], gone, slacks, 2, &time);
    assert_int_equal(take_of(net, gone[0], 0, 1, 1), 1);
    reload(net, 0);
    assert_int_equal(gone[0]->holders, 2);
    assert_int_equal(gone[1]->holders, 1);
    pass(net, 60 * SECOND);
    assert_int_equal(take(net, 0, 2, 1), 1); /* in the place of the key */
    reload(net, 0);
    assert_int_equal(gone[0]->holders, 1);
    net_destroy(net);
    for (size_t i = 0; i < 2; i++)
        weir_remote_limit_drop(gone[i]);
}

/* And when its keys have gone on under another one. */
static void test_a_limit_whose_keys_follow_another_is_let_go(void **state)
{
    (void)state;
    struct net *net = net_create("60/60s", 10);
    const struct weir_limit_spec more = spec_of("90/60s");
    const struct weir_remote_limit *other;
    const uint64_t slack = 10;
    assert_int_equal(weir_remote_limit_create("shared", 0, 0, &more, &other, NULL), 0);
    start(net, 0, 0, 1);
    assert_int_equal(take(net, 0, 1, 1), 1);
    struct weir_time time = now(net);
    weir_gossip_host_limits(net->hosts[0], &other, &slack, 1, &time);
    assert_int_equal(other->holders, 2);
    assert_null(net->hosts[0]->limits->next);
    reload(net, 0);
    assert_int_equal(other->holders, 1);
    net_destroy(net);
    weir_remote_limit_drop(other);
}

/* A key under an override that a reload changed goes on under that override, not under the limit of its name. */
static void test_a_key_follows_its_override_through_a_reload(void **state)
{
    (void)state;
    struct net *net = net_create("30/1s", 100);
    struct weir_remote_limit changed;
    struct weir_verdict verdict;
    struct weir_limit_spec slow = spec_of("1000/86400s"), slower = spec_of("500/86400s");
    const struct weir_remote_limit *limits[] = { &net->limit, &changed };
    const uint64_t slacks[] = { 100, 100 };
    assert_int_equal(weir_remote_limit_init(&net->other, "shared", &slow, NULL), 0);
    assert_int_equal(weir_remote_limit_init(&changed, "shared", &slower, NULL), 0);
    net->other.variant = changed.variant = 1;
    net->with_other = true;
    start_all(net);
    pass(net, 2 * SECOND);
    assert_int_equal(take_of(net, &net->other, 0, 1, 100), 100);
    pass(net, 2 * SECOND);
    struct weir_time time = now(net);
    for (uint32_t i = 0; i < NODES; i++)
        weir_gossip_host_limits(net->hosts[i], limits, slacks, 2, &time);
    pass(net, 5 * SECOND);
    assert_int_equal(reserve_of(net, &changed, 1, 1, true, &verdict), 0);
    assert_int_equal(verdict.capacity, 500);
    assert_in_range(verdict.remaining, 390, 400);
    net_destroy(net);
    weir_remote_limit_deinit(&changed);
}

/* A loop that has not heard of a reload still asks by what was before it. What is heard goes by what is now. */
static void test_a_word_is_counted_by_the_newest_definition(void **state)
{
    (void)state;
    struct net *net = net_create("30/3600s", 100);
    const struct weir_limit_spec more = spec_of("50/3600s");
    struct weir_verdict verdict;
    assert_int_equal(weir_remote_limit_init(&net->other, "shared", &more, NULL), 0);
    start_all(net);
    pass(net, 2 * SECOND);
    net->with_limit = false;
    net->with_other = true;
    for (uint32_t i = 0; i < NODES; i++)
        reload(net, i);
    assert_int_equal(reserve_of(net, &net->limit, 1, 1, true, &verdict), 0);
    assert_int_equal(take_of(net, &net->other, 0, 2, 1), 1);
    pass(net, SECOND);
    const struct weir_remote_key key = key_of(2);
    assert_ptr_equal(weir_gossip_host_find(net->hosts[1], key.id)->limit->remote, &net->other);
    net_destroy(net);
}

/* ---- refusals ---- */

static void test_a_cluster_of_no_size_is_refused_with_its_reason(void **state)
{
    (void)state;
    static const uint32_t bad[][2] = { { 0, 0 }, { WEIR_GOSSIP_NODES_MAX + 1, 0 }, { 3, 3 } };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        const struct weir_gossip_host_options options = { .secret = secret, .nodes = bad[i][0], .node = bad[i][1] };
        struct weir_gossip_host *host = NULL;
        struct weir_fault fault;
        assert_int_equal(weir_gossip_host_create(&options, &host, &fault), WEIR_ERANGE);
        assert_null(host);
        assert_string_equal(fault.field, "nodes");
        assert_string_equal(fault.text, "must be 1 to 64 where a limit is gossiped");
        assert_int_equal(weir_gossip_host_create(&options, &host, NULL), WEIR_ERANGE);
    }
}

static void test_a_log_is_not_gossiped(void **state)
{
    (void)state;
    struct net *net = net_create("60/60s", 10);
    struct weir_verdict verdict;
    struct weir_limit_spec log = spec_of("60/60s");
    log.algorithm = WEIR_SLIDING_LOG;
    assert_int_equal(weir_remote_limit_init(&net->other, "log", &log, NULL), 0);
    start_all(net);
    assert_int_equal(reserve_of(net, &net->other, 0, 1, false, &verdict), WEIR_EINVAL);
    assert_int_equal(stats_of(net, 0).keys, 0);
    net_destroy(net);
}

/* No memory for the limit, then none for the key: nothing is admitted, nothing has changed. */
static void test_memory_that_runs_out_refuses(void **state)
{
    (void)state;
    struct net *net = net_create("60/60s", 10);
    struct weir_verdict verdict;
    net->with_limit = false;
    start(net, 0, 0, 1);
    for (long tries = 1; tries <= 2; tries++) {
        granted = tries;
        int error = reserve_of(net, &net->limit, 0, 1, false, &verdict);
        granted = NEVER;
        assert_int_equal(error, WEIR_ENOMEM);
        assert_int_equal(stats_of(net, 0).keys, 0);
    }
    assert_int_equal(take(net, 0, 1, 1), 1);
    assert_int_equal(stats_of(net, 0).keys, 1);
    net_destroy(net);
}

/* A key that there was no memory for when it was told is told again. */
static void test_what_could_not_be_taken_is_told_again(void **state)
{
    (void)state;
    struct net *net = net_create("60/60s", 10);
    start_all(net);
    pass(net, 2 * SECOND);
    assert_int_equal(take(net, 0, 1, 1), 1);
    granted = 1;
    pass(net, 300 * MS);
    granted = NEVER;
    assert_int_equal(stats_of(net, 1).keys, 0);
    pass(net, 300 * MS);
    assert_int_equal(stats_of(net, 1).keys, 1);
    net_destroy(net);
}

/* Where not all fit, a key with half its slack used is not held up by those that came before it. */
static void test_hot_keys_go_first(void **state)
{
    (void)state;
    struct net *net = net_create("6000/60s", 10);
    net->bytes_per_s = 20000;
    start_all(net);
    pass(net, 2 * SECOND);
    for (unsigned k = 0; k < 2000; k++)
        assert_int_equal(take(net, 0, k, 1), 1);
    assert_int_equal(take(net, 0, 5000, 5), 5);
    pass(net, 500 * MS);
    struct weir_remote_key hot = key_of(5000), last = key_of(1999);
    for (uint32_t i = 1; i < NODES; i++) {
        assert_non_null(weir_gossip_host_find(net->hosts[i], hot.id));
        assert_null(weir_gossip_host_find(net->hosts[i], last.id));
    }
    net_destroy(net);
}

/* What all have heard is not told again. */
static void test_what_is_known_to_all_is_not_told_on(void **state)
{
    (void)state;
    struct net *net = net_create("60/60s", 10);
    start_all(net);
    pass(net, 5 * SECOND);
    uint64_t at = stats_of(net, 0).bytes_sent;
    pass(net, 2 * SECOND);
    uint64_t calm = stats_of(net, 0).bytes_sent - at;
    for (unsigned k = 0; k < 100; k++)
        assert_int_equal(take(net, k % NODES, k, 1), 1);
    pass(net, 2 * SECOND);
    at = stats_of(net, 0).bytes_sent;
    pass(net, 2 * SECOND);
    assert_in_range(stats_of(net, 0).bytes_sent - at, 1, calm + calm / 10);
    net_destroy(net);
}

/* A newcomer learns of more keys than one datagram holds, and then it knows all there is. */
static void test_a_newcomer_learns_from_many_datagrams(void **state)
{
    (void)state;
    struct net *net = net_create("60/60s", 10);
    start_all(net);
    pass(net, 2 * SECOND);
    for (unsigned k = 0; k < 1000; k++)
        assert_int_equal(take(net, 0, k, 1), 1);
    pass(net, SECOND);
    weir_gossip_host_destroy(net->hosts[2]);
    start(net, 2, 2, NODES);
    assert_false(stats_of(net, 2).synced);
    pass(net, 2 * SECOND);
    assert_true(stats_of(net, 2).synced);
    assert_int_equal(stats_of(net, 2).keys, 1000);
    net_destroy(net);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_news_that_fill_many_datagrams_go_in_one_turn),
        cmocka_unit_test(test_bytes_are_what_is_allowed),
        cmocka_unit_test(test_hot_keys_go_first),
        cmocka_unit_test(test_what_is_known_to_all_is_not_told_on),
        cmocka_unit_test(test_a_newcomer_learns_from_many_datagrams),
        cmocka_unit_test(test_a_third_node_tells_who_is_alive),
        cmocka_unit_test(test_who_asked_a_third_node_is_the_one_to_be_told),
        cmocka_unit_test(test_a_probe_is_answered_by_one_datagram),
        cmocka_unit_test(test_probes_are_not_answered_beyond_the_bytes_allowed),
        cmocka_unit_test(test_a_message_is_heard_when_it_comes),
        cmocka_unit_test(test_a_twin_is_counted_and_not_heard),
        cmocka_unit_test(test_a_limit_that_is_no_more_is_let_go),
        cmocka_unit_test(test_a_limit_whose_keys_follow_another_is_let_go),
        cmocka_unit_test(test_a_key_follows_its_override_through_a_reload),
        cmocka_unit_test(test_a_cluster_of_no_size_is_refused_with_its_reason),
        cmocka_unit_test(test_a_log_is_not_gossiped),
        cmocka_unit_test(test_memory_that_runs_out_refuses),
        cmocka_unit_test(test_what_could_not_be_taken_is_told_again),
        cmocka_unit_test(test_a_word_is_counted_by_the_newest_definition),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
