/* SPDX-License-Identifier: Apache-2.0
 *
 * What gossip hosts keep of each key: under which definition it counts, whom they forget first, whose word they take.
 * Two or three hosts whose datagrams arrive at once, on a clock of the test's. */
#include <stdlib.h>

#include "fixture.h"
#include "limits/gossip_inside.h"

#define NODES 3
#define MAIL 4096

struct mail {
    uint32_t from, to;
    size_t size;
    uint8_t bytes[WEIR_GOSSIP_DATAGRAM_MAX];
};

struct net {
    struct weir_gossip_host *hosts[NODES];
    struct place {
        struct net *net;
        uint32_t node;
    } place[NODES];
    bool cut[NODES][NODES]; /* from, to */
    struct mail *mail;
    size_t mail_count, keys_max;
    uint64_t now_ns;
    bool revised;
};

static const uint8_t secret[16] = "sixteen bytes :)";
static const char *const names[NODES] = { "a", "b", "c" };

static void on_send(void *context, uint32_t node, const void *datagram, size_t size)
{
    struct place *place = context;
    struct net *net = place->net;
    if (net->cut[place->node][node])
        return;
    assert_true(net->mail_count < MAIL);
    struct mail *mail = &net->mail[net->mail_count++];
    *mail = (struct mail){ .from = place->node, .to = node, .size = size };
    memcpy(mail->bytes, datagram, size);
}

static const struct weir_remote_limit *shared_limit(uint64_t count, uint64_t period_ns, uint64_t variant)
{
    const struct weir_limit_spec spec = { .count = count, .period_ns = period_ns };
    const struct weir_remote_limit *limit = NULL;
    assert_int_equal(weir_remote_limit_create("shared", variant, 0, &spec, &limit, NULL), 0);
    return limit;
}

static void net_init(struct net *net, uint32_t nodes)
{
    net->now_ns = T0;
    net->mail = calloc(MAIL, sizeof *net->mail);
    for (uint32_t i = 0; i < nodes; i++) {
        net->place[i] = (struct place){ net, i };
        struct weir_gossip_host_options options = { .secret = secret,
                                                    .nodes = nodes,
                                                    .node = i,
                                                    .names = names,
                                                    .keys_max = net->keys_max,
                                                    .revised = net->revised && i == 1,
                                                    .now_ns = T0,
                                                    .epoch = i + 1,
                                                    .send = on_send,
                                                    .context = &net->place[i] };
        assert_int_equal(weir_gossip_host_create(&options, &net->hosts[i], NULL), 0);
    }
}

static void net_deinit(struct net *net)
{
    for (uint32_t i = 0; i < NODES; i++)
        weir_gossip_host_destroy(net->hosts[i]);
    free(net->mail);
}

/* At each of them. */
static void reload(struct net *net, const struct weir_remote_limit *first, const struct weir_remote_limit *second)
{
    const struct weir_remote_limit *limits[] = { first, second };
    const uint64_t slacks[] = { 10, 10 };
    struct weir_time time = at(net->now_ns);
    for (uint32_t i = 0; i < NODES; i++)
        if (net->hosts[i])
            weir_gossip_host_limits(net->hosts[i], limits, slacks, (size_t)(first != NULL) + (second != NULL), &time);
}

static void pass(struct net *net, uint64_t ns)
{
    for (uint64_t end_ns = net->now_ns + ns; net->now_ns < end_ns; net->now_ns += 10 * MS) {
        struct weir_time time = at(net->now_ns);
        for (uint32_t i = 0; i < NODES; i++)
            if (net->hosts[i])
                weir_gossip_host_turn(net->hosts[i], &time);
        for (size_t m = 0; m < net->mail_count; m++)
            weir_gossip_host_heard(net->hosts[net->mail[m].to], net->mail[m].bytes, net->mail[m].size, &time);
        net->mail_count = 0;
    }
}

static struct weir_remote_key key_of(unsigned number)
{
    struct weir_remote_key key;
    struct weir_slice value = { &number, sizeof number };
    assert_int_equal(weir_remote_key_init(secret, "shared", &value, 1, &key), 0);
    return key;
}

static unsigned take(struct net *net, uint32_t node, const struct weir_remote_limit *limit, unsigned number,
                     unsigned times, uint64_t now_ns)
{
    struct weir_remote_key key = key_of(number);
    struct weir_time time = at(now_ns);
    unsigned admitted = 0;
    for (unsigned n = 0; n < times; n++) {
        enum weir_share_say say;
        struct weir_verdict verdict;
        assert_int_equal(weir_gossip_host_reserve(net->hosts[node], limit, 10, &key, 1, false, &time, &say, &verdict),
                         0);
        if (say != WEIR_SHARE_YES)
            continue;
        weir_gossip_host_commit(net->hosts[node], &key, 1, &time);
        admitted++;
    }
    return admitted;
}

static const struct weir_gossip_hosted_key *hosted(struct net *net, uint32_t node, unsigned number)
{
    struct weir_remote_key key = key_of(number);
    return weir_gossip_host_find(net->hosts[node], key.id);
}

/* ---- definitions ---- */

/* An override that is taken away: at once its keys are the limit's, also where nobody asks for them or speaks of them,
 * and what was spent under the override does not come back as fast as it did. */
static void keys_of_an_override_that_is_gone_are_the_limits(void **state)
{
    (void)state;
    struct net net = { .now_ns = 0 };
    const struct weir_remote_limit *fast = shared_limit(30, SECOND, 7), *slow = shared_limit(30, DAY, 0);
    net_init(&net, 2);
    reload(&net, fast, slow);
    pass(&net, 2 * SECOND);
    assert_in_range(take(&net, 0, fast, 1, 30, net.now_ns), 10, 30);
    pass(&net, 200 * MS);
    assert_ptr_equal(hosted(&net, 1, 1)->limit->remote, fast);
    memset(net.cut, 1, sizeof net.cut);
    reload(&net, slow, NULL);
    for (uint32_t i = 0; i < 2; i++)
        assert_ptr_equal(hosted(&net, i, 1)->limit->remote, slow);
    net_deinit(&net);
    weir_remote_limit_drop(fast);
    weir_remote_limit_drop(slow);
}

static void a_limit_stays_while_keys_count_by_it(void **state)
{
    (void)state;
    struct net net = { .now_ns = 0 };
    const struct weir_remote_limit *limit = shared_limit(30, DAY, 0);
    net_init(&net, 2);
    reload(&net, limit, NULL);
    pass(&net, 2 * SECOND);
    assert_int_equal(take(&net, 0, limit, 1, 1, net.now_ns), 1);
    reload(&net, NULL, NULL);
    assert_int_equal(limit->holders, 2); /* ours, and that of the host with the key; the other has none */
    assert_ptr_equal(hosted(&net, 0, 1)->limit->remote, limit);
    net_deinit(&net);
    assert_int_equal(limit->holders, 1);
    weir_remote_limit_drop(limit);
}

/* Who asked here before a reload knew what applied then. Since then the word of whoever is asked now counts. */
static void after_a_reload_a_word_says_which_override_applies(void **state)
{
    (void)state;
    struct net net = { .now_ns = 0 };
    const struct weir_remote_limit *limit = shared_limit(30, DAY, 0), *other = shared_limit(60, DAY, 7);
    net_init(&net, 2);
    reload(&net, limit, NULL);
    pass(&net, 2 * SECOND);
    assert_int_equal(take(&net, 1, limit, 1, 1, net.now_ns), 1);
    pass(&net, 200 * MS);
    reload(&net, limit, other);
    assert_int_equal(take(&net, 0, other, 1, 1, net.now_ns), 1);
    pass(&net, 200 * MS);
    assert_ptr_equal(hosted(&net, 1, 1)->limit->remote, other);
    take(&net, 1, limit, 1, 1, net.now_ns); /* whether admitted or not: what followed has no slack */
    take(&net, 0, other, 1, 1, net.now_ns);
    pass(&net, 200 * MS);
    assert_ptr_equal(hosted(&net, 1, 1)->limit->remote, limit); /* it was asked for here */
    net_deinit(&net);
    weir_remote_limit_drop(limit);
    weir_remote_limit_drop(other);
}

/* An exception comes or goes while a window is open, or a reload brings another one: what was used in it stays used,
 * though the two may begin anew at different times. */
static void a_key_goes_on_under_a_limit_of_another_window(void **state)
{
    (void)state;
    for (int n = 0; n < 4; n++) {
        const bool days_first = n % 2 != 0, reloads = n / 2 != 0;
        const uint64_t variant = reloads ? 0 : 7;
        struct net net = { .now_ns = 0 };
        const struct weir_remote_limit *limits[2];
        for (size_t i = 0; i < 2; i++) {
            const struct weir_limit_spec spec = { .algorithm = WEIR_FIXED_WINDOW,
                                                  .count = 10,
                                                  .period_ns = i == 0 ? DAY : 7 * DAY,
                                                  .calendar = i == 0 ? WEIR_CALENDAR_DAY : WEIR_CALENDAR_WEEK };
            assert_int_equal(weir_remote_limit_create("shared", i * variant, 0, &spec, &limits[i], NULL), 0);
        }
        const struct weir_remote_limit *first = limits[!days_first], *then = limits[days_first];
        net_init(&net, 1);
        net.now_ns += 12 * DAY; /* a Tuesday: the days and the weeks have other numbers */
        reload(&net, first, reloads ? NULL : then);
        assert_int_equal(take(&net, 0, first, 1, 6, net.now_ns), 6);
        if (reloads)
            reload(&net, then, NULL);
        assert_int_equal(take(&net, 0, then, 1, 1, net.now_ns), 1);
        assert_ptr_equal(hosted(&net, 0, 1)->limit->remote, then);
        net.now_ns += SECOND;
        assert_int_equal(take(&net, 0, then, 1, 20, net.now_ns), 3);
        net.now_ns += DAY;
        assert_int_equal(take(&net, 0, then, 1, 20, net.now_ns), days_first ? 0 : 10);
        net_deinit(&net);
        weir_remote_limit_drop(limits[0]);
        weir_remote_limit_drop(limits[1]);
    }
}

/* Who does not know yet which definition is the newest counts nothing in the units of its own. */
static void a_word_is_not_counted_before_the_newest_definition_is_known(void **state)
{
    (void)state;
    struct net net = { .revised = true };
    const struct weir_remote_limit *limit = shared_limit(30, DAY, 0);
    net_init(&net, 2);
    reload(&net, limit, NULL);
    net.hosts[0]->gossip.synced = true;
    net.hosts[1]->gossip.synced = false;
    assert_int_equal(take(&net, 0, limit, 1, 1, net.now_ns), 1);
    pass(&net, 2 * SECOND);
    assert_null(hosted(&net, 1, 1));
    assert_false(weir_gossip_host_synced(net.hosts[1]));
    net_deinit(&net);
    weir_remote_limit_drop(limit);
}

/* Between a reload and the loop's move to it the host knows more than who asks. Nothing is used up by that, and which
 * override applies is known to those alone who have heard. */
static void who_has_not_heard_of_a_reload_does_not_carry_a_key_back(void **state)
{
    (void)state;
    struct net net = { .now_ns = 0 };
    const struct weir_remote_limit *before = shared_limit(10, DAY, 0), *raised = shared_limit(20, DAY, 0);
    const struct weir_remote_limit *other = shared_limit(30, DAY, 7);
    net_init(&net, 1);
    reload(&net, before, NULL);
    assert_int_equal(take(&net, 0, before, 1, 1, net.now_ns), 1);
    reload(&net, raised, other);
    assert_int_equal(take(&net, 0, before, 1, 1, net.now_ns), 1);
    assert_ptr_equal(hosted(&net, 0, 1)->limit->remote, raised);
    assert_false(hosted(&net, 0, 1)->asked);
    assert_int_equal(take(&net, 0, raised, 1, 20, net.now_ns), 8);

    assert_int_equal(take(&net, 0, other, 2, 1, net.now_ns), 1);
    assert_int_equal(take(&net, 0, before, 2, 1, net.now_ns), 1);
    assert_ptr_equal(hosted(&net, 0, 2)->limit->remote, other);
    assert_true(hosted(&net, 0, 2)->asked);

    assert_int_equal(take(&net, 0, before, 3, 30, net.now_ns), 20); /* a newcomer */
    assert_ptr_equal(hosted(&net, 0, 3)->limit->remote, raised);
    net_deinit(&net);
    weir_remote_limit_drop(before);
    weir_remote_limit_drop(raised);
    weir_remote_limit_drop(other);
}

/* ---- keys ---- */

static void a_key_whose_news_all_have_goes_first(void **state)
{
    (void)state;
    struct net net = { .keys_max = 2 };
    const struct weir_remote_limit *limit = shared_limit(30, SECOND, 0);
    net_init(&net, 2);
    reload(&net, limit, NULL);
    pass(&net, 2 * SECOND);
    assert_int_equal(take(&net, 0, limit, 1, 1, net.now_ns), 1);
    pass(&net, 500 * MS);
    memset(net.cut, 1, sizeof net.cut);
    assert_int_equal(take(&net, 0, limit, 2, 1, net.now_ns), 1);
    net.now_ns += 2 * SECOND; /* both are fresh */
    take(&net, 0, limit, 3, 1, net.now_ns);
    assert_null(hosted(&net, 0, 1));
    assert_non_null(hosted(&net, 0, 2));
    assert_non_null(hosted(&net, 0, 3));
    net_deinit(&net);
    weir_remote_limit_drop(limit);
}

/* Decisions of several threads come a little out of order: the clock of the host does not go back with them. */
static void a_late_decision_is_made_as_of_the_newest_time(void **state)
{
    (void)state;
    struct net net = { .now_ns = 0 };
    const struct weir_remote_limit *limit = shared_limit(30, SECOND, 0);
    net_init(&net, 1);
    reload(&net, limit, NULL);
    pass(&net, 2 * SECOND);
    assert_int_equal(take(&net, 0, limit, 1, 40, net.now_ns), 30);
    assert_int_equal(take(&net, 0, limit, 2, 1, net.now_ns + SECOND), 1);
    assert_in_range(take(&net, 0, limit, 1, 40, net.now_ns + SECOND / 2), 25, 30);
    net_deinit(&net);
    weir_remote_limit_drop(limit);
}

/* ---- whose word is taken ---- */

static void what_others_hear_of_a_node_keeps_it_alive(void **state)
{
    (void)state;
    struct net net = { .now_ns = 0 };
    const struct weir_remote_limit *limit = shared_limit(30, SECOND, 0);
    net_init(&net, NODES);
    reload(&net, limit, NULL);
    pass(&net, 2 * SECOND);
    net.cut[0][2] = net.cut[2][0] = true;
    for (int i = 0; i < 200; i++) {
        pass(&net, 100 * MS);
        assert_int_equal(net.hosts[0]->members.node[2].state, WEIR_MEMBERSHIP_ALIVE);
    }
    net_deinit(&net);
    weir_remote_limit_drop(limit);
}

static void a_word_of_a_node_that_there_is_not_spoils_the_datagram(void **state)
{
    (void)state;
    struct net net = { .now_ns = 0 };
    const struct weir_remote_limit *limit = shared_limit(30, SECOND, 0);
    const struct weir_gossip_probe probe = { false, WEIR_GOSSIP_NOBODY, WEIR_GOSSIP_NOBODY };
    const struct weir_gossip_entry entry = { .epoch = 5, .count = 3 };
    net_init(&net, 2);
    reload(&net, limit, NULL);
    for (uint32_t node = 1; node < 3; node++) { /* 1: of one that there is */
        struct weir_gossip_head head = { .nodes = 2, .from = 1, .to = 0, .epoch = 2, .seq = 10 + node };
        struct weir_gossip_word word = { .id = { 1, node }, .limit = net.hosts[0]->limits->gossip.id };
        struct weir_gossip_writer writer;
        struct weir_gossip_stats stats;
        struct weir_time time = at(net.now_ns);
        word.entries[node] = &entry;
        weir_gossip_write_start(&writer);
        assert_true(weir_gossip_write_word(&writer, &word));
        weir_gossip_write_end(&writer, &head, &probe, secret);
        weir_gossip_host_heard(net.hosts[0], writer.bytes, writer.size, &time);
        weir_gossip_host_stats(net.hosts[0], &stats);
        assert_int_equal(stats.malformed, node == 2);
        assert_int_equal(stats.keys, 1);
    }
    net_deinit(&net);
    weir_remote_limit_drop(limit);
}

/* ---- what is told ---- */

/* Node 0 of two that know each other has news of so many keys, each hot. */
static void news_of(struct net *net, const struct weir_remote_limit *limit, unsigned keys)
{
    net_init(net, 2);
    reload(net, limit, NULL);
    pass(net, 2 * SECOND);
    for (unsigned number = 1; number <= keys; number++)
        assert_int_equal(take(net, 0, limit, number, 6, net->now_ns), 6);
}

/* What follows in further datagrams counts from where the one before ended: if that is lost, so is the stretch. */
static void a_lost_datagram_leaves_a_gap(void **state)
{
    (void)state;
    struct net net = { .now_ns = 0 };
    const struct weir_remote_limit *limit = shared_limit(30, DAY, 0);
    news_of(&net, limit, 200);
    const uint64_t have = net.hosts[1]->gossip.peers[0].have;
    for (int turns = 0; turns < 2; turns++) { /* in the first a probe goes before, with the same news */
        net.now_ns += 200 * MS;
        net.mail_count = 0;
        const struct weir_time time = at(net.now_ns);
        weir_gossip_host_turn(net.hosts[0], &time);
    }
    assert_true(net.mail_count > 2);
    const struct weir_time time = at(net.now_ns);
    for (size_t m = 1; m < net.mail_count; m++)
        weir_gossip_host_heard(net.hosts[1], net.mail[m].bytes, net.mail[m].size, &time);
    assert_int_equal(net.hosts[1]->gossip.peers[0].have, have);
    net_deinit(&net);
    weir_remote_limit_drop(limit);
}

static void what_is_hot_is_not_told_beyond_the_bytes_allowed(void **state)
{
    (void)state;
    struct net net = { .now_ns = 0 };
    const struct weir_remote_limit *limit = shared_limit(30, DAY, 0);
    news_of(&net, limit, 200);
    net.hosts[0]->bytes_per_s = 100;
    for (int turns = 0; turns < 10; turns++) {
        net.now_ns += 200 * MS;
        net.hosts[0]->budget = 0;
        net.mail_count = 0;
        const struct weir_time time = at(net.now_ns);
        weir_gossip_host_turn(net.hosts[0], &time);
        assert_int_equal(net.mail_count, 1);
    }
    net_deinit(&net);
    weir_remote_limit_drop(limit);
}

/* A node that is suspected may well be there: it is told the news in each turn. */
static void who_is_suspected_is_told_the_news(void **state)
{
    (void)state;
    struct net net = { .now_ns = 0 };
    const struct weir_remote_limit *limit = shared_limit(30, DAY, 0);
    news_of(&net, limit, 1);
    for (int turns = 0; turns < 10; turns++) {
        net.now_ns += 200 * MS;
        net.mail_count = 0;
        net.hosts[0]->members.node[1].state = WEIR_MEMBERSHIP_SUSPECT;
        const struct weir_time time = at(net.now_ns);
        weir_gossip_host_turn(net.hosts[0], &time);
        assert_true(net.mail_count > 0);
    }
    net_deinit(&net);
    weir_remote_limit_drop(limit);
}

/* What is hot is told ahead of its turn: who has heard that has not heard what comes before it. */
static void what_is_hot_promises_nothing_of_the_log(void **state)
{
    (void)state;
    struct net net = { .now_ns = 0 };
    const struct weir_remote_limit *limit = shared_limit(30, DAY, 0);
    news_of(&net, limit, 0);
    for (unsigned number = 1; number <= 200; number++)
        assert_int_equal(take(&net, 0, limit, number, number < 200 ? 1 : 6, net.now_ns), number < 200 ? 1 : 6);
    for (int turns = 0; turns < 2; turns++) { /* in the first a probe goes before, with the same news */
        net.now_ns += 200 * MS;
        net.mail_count = 0;
        const struct weir_time time = at(net.now_ns);
        weir_gossip_host_turn(net.hosts[0], &time);
    }
    const struct weir_time time = at(net.now_ns);
    uint64_t have[3];
    assert_true(net.mail_count > 2);
    for (size_t m = 0; m < net.mail_count; m++) {
        weir_gossip_host_heard(net.hosts[1], net.mail[m].bytes, net.mail[m].size, &time);
        have[m < 2 ? m : 2] = net.hosts[1]->gossip.peers[0].have;
        if (m == 1)
            assert_in_range(net.hosts[1]->keys_count, 10, 199);
    }
    assert_int_equal(have[1], have[0]);
    assert_true(have[2] > have[1]);
    assert_int_equal(net.hosts[1]->keys_count, 200);
    net_deinit(&net);
    weir_remote_limit_drop(limit);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keys_of_an_override_that_is_gone_are_the_limits),
        cmocka_unit_test(a_limit_stays_while_keys_count_by_it),
        cmocka_unit_test(after_a_reload_a_word_says_which_override_applies),
        cmocka_unit_test(a_key_goes_on_under_a_limit_of_another_window),
        cmocka_unit_test(a_word_is_not_counted_before_the_newest_definition_is_known),
        cmocka_unit_test(who_has_not_heard_of_a_reload_does_not_carry_a_key_back),
        cmocka_unit_test(a_key_whose_news_all_have_goes_first),
        cmocka_unit_test(a_late_decision_is_made_as_of_the_newest_time),
        cmocka_unit_test(what_others_hear_of_a_node_keeps_it_alive),
        cmocka_unit_test(a_word_of_a_node_that_there_is_not_spoils_the_datagram),
        cmocka_unit_test(a_lost_datagram_leaves_a_gap),
        cmocka_unit_test(what_is_hot_is_not_told_beyond_the_bytes_allowed),
        cmocka_unit_test(who_is_suspected_is_told_the_news),
        cmocka_unit_test(what_is_hot_promises_nothing_of_the_log),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
