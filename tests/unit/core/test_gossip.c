/* SPDX-License-Identifier: Apache-2.0
 *
 * core/share/gossip: the bound, on a network that does what networks do; then each rule by itself. */
#include "gossip_net.h"

#include <string.h>

static struct net the_net; /* too large for a stack */

static struct net *net_init(uint64_t seed, uint32_t nodes, const struct weir_limit_spec *spec, uint64_t slack)
{
    return net_begin(&the_net, seed, nodes, spec, slack);
}

static void part_at_random(struct net *net)
{
    bool heal = test_random_below(&net->random, 2) == 0;
    for (uint32_t i = 0; i < net->nodes; i++)
        for (uint32_t j = 0; j < net->nodes; j++)
            net->parted[i][j] = !heal && test_random_below(&net->random, 2) == 0;
}

static void forget_at_random(struct net *net, uint32_t i)
{
    struct net_node *node = &net->node[i];
    for (size_t k = 0; k < net->keys; k++) {
        struct weir_event event = net_event(net, i, 0);
        bool acked;
        if (!node->known[k] || !weir_gossip_idle(&node->gossip, &node->keys[k], &event, &acked))
            continue;
        weir_gossip_forget(&node->gossip, &node->keys[k]);
        node->known[k] = false;
    }
}

static void play(struct net *net, unsigned steps, bool crash)
{
    uint64_t busy = 1 + test_random_below(&net->random, 3);
    for (unsigned step = 0; step < steps; step++) {
        uint32_t i = (uint32_t)test_random_below(&net->random, net->nodes);
        uint64_t dice = test_random_below(&net->random, 100);
        size_t k = (size_t)test_random_below(&net->random, net->keys);
        if (dice < 2)
            part_at_random(net);
        else if (dice < 4)
            forget_at_random(net, i);
        else if (dice == 4 && crash) {
            net->crashes++;
            net_start(net, i);
        } else if (dice < 8)
            net_commit(net, i);
        else if (dice < 60) /* a burst */
            for (uint64_t n = test_random_below(&net->random, 20 * busy); n > 0; n--)
                net_ask(net, i, k, 1 + test_random_below(&net->random, 2), test_random_below(&net->random, 4) > 0);
        net_pass(net, test_random_below(&net->random, 10) == 0 ? test_random_below(&net->random, 3 * SECOND)
                                                               : test_random_below(&net->random, 200 * MS));
        if (test_random_below(&net->random, 100) == 0)
            busy = 1 + test_random_below(&net->random, 3);
    }
}

static void set_weather(struct net *net)
{
    net->loss = test_random_below(&net->random, 2) ? test_random_below(&net->random, 60) : 0;
    net->twice = test_random_below(&net->random, 2) ? test_random_below(&net->random, 60) : 0;
    net->latency_ns = test_random_below(&net->random, 2) ? 500 * MS : 5 * MS;
    net->words_max = 1 + test_random_below(&net->random, NET_KEYS);
}

static unsigned runs(void)
{
    const char *asked = getenv("WEIR_RUNS");
    return asked ? (unsigned)strtoul(asked, NULL, 0) : 40;
}

/* Admitted in any [s,t] <= b + n*(t-s)/p + (N-1+crashes)*slack, and b more for each loss of all state. */
static void test_bound_of_a_bucket(void **state)
{
    (void)state;
    uint64_t seed = test_random_seed();
    double closest = 0;
    for (unsigned run = 0; run < runs(); run++) {
        struct test_random random = { seed + run };
        struct weir_limit_spec spec = { .count = 1 + test_random_below(&random, 100),
                                        .period_ns = SECOND * (1 + test_random_below(&random, 10)),
                                        .burst = 1 + test_random_below(&random, 200) };
        uint32_t nodes = 2 + (uint32_t)test_random_below(&random, NET_NODES - 1);
        struct net *net = net_init(seed + run, nodes, &spec, 1 + test_random_below(&random, 30));
        net->now_ns += SECOND * (test_random_below(&random, 2) ? 10000 : 0);
        set_weather(net);
        net_pass(net, SECOND);
        play(net, 300, run % 2);
        for (size_t k = 0; k < net->keys; k++) {
            weir_u128 excess = net_excess(net, k);
            weir_u128 over = (weir_u128)(nodes - 1 + net->crashes) * net->slack * spec.period_ns;
            weir_u128 capacity = (weir_u128)spec.burst * spec.period_ns * (1 + net->losses);
            if (excess > capacity) {
                double part = (double)(excess - capacity) / (double)over;
                closest = part > closest ? part : closest;
            }
            if (excess > capacity + over)
                fail_msg("run %u: %g units over the bound (slack %llu, %u nodes, %llu crashes)", run,
                         (double)(excess - capacity - over) / (double)spec.period_ns, (unsigned long long)net->slack,
                         nodes, (unsigned long long)net->crashes);
        }
    }
    printf("closest approach: %.0f %% of the overshoot allowed\n", 100 * closest);
}

/* Per window <= n + (N-1+crashes)*slack, and n more for each loss of all state. */
static void test_bound_of_a_window(void **state)
{
    (void)state;
    uint64_t seed = test_random_seed();
    double closest = 0;
    for (unsigned run = 0; run < runs(); run++) {
        struct test_random random = { seed + run };
        struct weir_limit_spec spec = { .algorithm = WEIR_FIXED_WINDOW,
                                        .count = 1 + test_random_below(&random, 300),
                                        .period_ns = SECOND * (1 + test_random_below(&random, 20)) };
        uint32_t nodes = 2 + (uint32_t)test_random_below(&random, NET_NODES - 1);
        struct net *net = net_init(seed + run, nodes, &spec, 1 + test_random_below(&random, 30));
        set_weather(net);
        net_pass(net, SECOND);
        play(net, 300, run % 2);
        for (size_t k = 0; k < net->keys; k++) {
            uint64_t most = net_window_most(net, k), over = (nodes - 1 + net->crashes) * net->slack;
            uint64_t count = spec.count * (1 + net->losses);
            if (most > count) {
                double part = (double)(most - count) / (double)over;
                closest = part > closest ? part : closest;
            }
            if (most > count + over)
                fail_msg("run %u: %llu in a window of %llu, slack %llu, %u nodes, %llu crashes", run,
                         (unsigned long long)most, (unsigned long long)count, (unsigned long long)net->slack, nodes,
                         (unsigned long long)net->crashes);
        }
    }
    printf("closest approach: %.0f %% of the overshoot allowed\n", 100 * closest);
}

/* ---- each rule by itself ---- */

static const struct weir_limit_spec slow = { .count = 1000, .period_ns = HOUR };

static uint64_t used(struct net *net, uint32_t i, size_t k)
{
    struct weir_event event = net_event(net, i, 0);
    struct weir_gossip_word word;
    weir_gossip_word(&net->node[i].gossip, net_key(net, i, k), &event, &word);
    return word.used;
}

static void take(struct net *net, uint32_t i, size_t k, unsigned units)
{
    while (units-- > 0)
        assert_true(net_ask(net, i, k, 1, true));
}

/* Counts are merged: messages late, repeated or out of order add nothing and take nothing away. */
static void test_repeated_and_late_messages_add_nothing(void **state)
{
    (void)state;
    struct net *net = net_init(1, 2, &slow, 50);
    net_pass(net, SECOND);
    net->loss = 100;
    struct net_mail old[8];
    size_t count = 0;
    for (unsigned n = 0; n < 8; n++) {
        take(net, 0, 0, 3);
        net->loss = 0;
        net_say(net, 0, 1);
        for (size_t m = 0; m < NET_MAIL; m++)
            if (net->mail[m].at_ns > 0 && net->mail[m].head.from == 0 && count < 8) {
                old[count] = net->mail[m];
                for (uint32_t j = 0; j < 2 && old[count].count > 0; j++)
                    if (old[count].words[0].word.entries[j])
                        old[count].words[0].word.entries[j] = &old[count].words[0].entries[j];
                net->mail[m].at_ns = 0;
                count++;
            }
    }
    assert_int_equal(count, 8);
    static struct net_mail letter;
    for (size_t n = 0; n < 3 * count; n++) { /* the newest first, and all of them three times */
        letter = old[count - 1 - n % count];
        letter.head.seq += 1000 * (n / count); /* as if they were not recognised */
        for (size_t w = 0; w < letter.count; w++)
            for (uint32_t j = 0; j < 2; j++)
                if (letter.words[w].word.entries[j])
                    letter.words[w].word.entries[j] = &letter.words[w].entries[j];
        net_hear(net, &letter);
        assert_int_equal(used(net, 1, 0), 24);
    }
}

/* A higher epoch starts a new count, all of which is charged; the earlier one's units stay charged. */
static void test_a_restarted_node_counts_from_the_start(void **state)
{
    (void)state;
    struct net *net = net_init(2, 2, &slow, 50);
    net_pass(net, SECOND);
    take(net, 1, 0, 20);
    net_pass(net, SECOND);
    assert_int_equal(used(net, 0, 0), 20);
    net_start(net, 1);
    net_pass(net, SECOND);
    assert_true(net->node[1].gossip.synced);
    assert_in_range(used(net, 1, 0), 20, 21); /* it has learned what it admitted before */
    uint64_t before = used(net, 0, 0);
    take(net, 1, 0, 7);
    net_pass(net, SECOND);
    assert_int_equal(used(net, 0, 0), before + 7);
}

/* A node that starts takes over what earlier starts of others admitted, which nobody counts by name any more. */
static void test_two_restarts_forget_nothing(void **state)
{
    (void)state;
    struct net *net = net_init(3, 3, &slow, 50);
    net_pass(net, SECOND);
    take(net, 0, 0, 40);
    net_pass(net, SECOND);
    net_start(net, 0);
    net_pass(net, SECOND);
    net_start(net, 2);
    net_pass(net, SECOND);
    assert_true(net->node[2].gossip.synced);
    assert_true(used(net, 2, 0) >= 40);
}

/* Cut off since it started, a node takes every key as empty as of then. */
static void test_an_unsynced_node_starts_empty(void **state)
{
    (void)state;
    struct net *net = net_init(4, 3, &slow, 50);
    net_pass(net, SECOND);
    assert_true(net->node[2].gossip.synced); /* all started together */
    net->parted[0][2] = net->parted[1][2] = true;
    net_start(net, 2);
    net_pass(net, SECOND);
    assert_false(net_ask(net, 2, 0, 1, true));
    net_pass(net, 100 * SECOND);
    unsigned admitted = 0;
    while (net_ask(net, 2, 1, 1, true))
        admitted++;
    assert_true(admitted <= 28); /* 101 s of 1000 per hour */
}

/* What a node admitted and did not tell before it started again is charged as its share. */
static void test_what_a_crash_loses_is_charged(void **state)
{
    (void)state;
    const struct weir_limit_spec spec = { .count = 3600, .period_ns = HOUR };
    struct net *net = net_init(5, 2, &spec, 5);
    net_pass(net, SECOND);
    take(net, 0, 0, 1);
    net->parted[0][1] = net->parted[1][0] = true;
    net_pass(net, 200 * SECOND);
    uint64_t before = used(net, 0, 0);
    assert_int_equal(before, 0);
    net_start(net, 1);
    net->parted[0][1] = net->parted[1][0] = false;
    net_pass(net, SECOND);
    assert_in_range(used(net, 0, 0), 99, 101); /* 200 s of a half of 1 per second, less what refilled since */
}

/* A partition that outlasts its window charges nothing to the next one. */
static void test_an_old_window_is_not_charged_to_a_new_one(void **state)
{
    (void)state;
    const struct weir_limit_spec spec = { .algorithm = WEIR_FIXED_WINDOW, .count = 100, .period_ns = 10 * SECOND };
    struct net *net = net_init(6, 2, &spec, 30);
    net_pass(net, SECOND);
    net->parted[0][1] = net->parted[1][0] = true;
    take(net, 0, 0, 30);
    net_pass(net, 10 * SECOND);
    net->parted[0][1] = net->parted[1][0] = false;
    net_pass(net, SECOND);
    assert_int_equal(used(net, 1, 0), 0);
    take(net, 0, 0, 20);
    net_pass(net, SECOND);
    assert_int_equal(used(net, 1, 0), 20);
}

/* Units not acknowledged by all others never pass the slack but by the share; acknowledged ones make room. */
static void test_unacknowledged_units_are_bounded(void **state)
{
    (void)state;
    struct net *net = net_init(7, 3, &slow, 10);
    net_pass(net, SECOND);
    net->parted[0][2] = net->parted[1][2] = true; /* one of two does not hear of it, nor through the other */
    unsigned admitted = 0;
    for (unsigned n = 0; n < 100; n++, net_pass(net, 20 * MS))
        admitted += net_ask(net, 0, 0, 1, true);
    assert_int_equal(admitted, 10);
    assert_int_equal(weir_gossip_unacked(&net->node[0].gossip, &net->node[0].keys[0]), 10);
    net->parted[1][2] = false; /* through the other is enough */
    net_pass(net, SECOND);
    assert_int_equal(weir_gossip_unacked(&net->node[0].gossip, &net->node[0].keys[0]), 0);
    assert_true(net_ask(net, 0, 0, 10, true));
    assert_true(net_ask(net, 1, 1, 3, false)); /* set aside: it may be committed at any time */
    assert_int_equal(weir_gossip_unacked(&net->node[1].gossip, &net->node[1].keys[1]), 3);
}

/* Who started again knows nothing of what it once acknowledged. */
static void test_an_acknowledgement_ends_with_its_epoch(void **state)
{
    (void)state;
    struct net *net = net_init(8, 2, &slow, 10);
    net_pass(net, SECOND);
    take(net, 0, 0, 5);
    net_pass(net, SECOND);
    assert_int_equal(weir_gossip_unacked(&net->node[0].gossip, &net->node[0].keys[0]), 0);
    net->parted[0][1] = true;
    net_start(net, 1);
    net_pass(net, SECOND);
    assert_int_equal(weir_gossip_unacked(&net->node[0].gossip, &net->node[0].keys[0]), 5);
}

static void fall_silent(struct net *net)
{
    for (uint32_t i = 0; i < net->nodes; i++)
        net->node[i].say_ns = UINT64_MAX;
    net_pass(net, SECOND);
}

/* phi is the echoed time, of this node's clock, and moves only when all news have come. */
static void test_known_up_to_the_echo_of_a_complete_message(void **state)
{
    (void)state;
    struct net *net = net_init(9, 2, &slow, 50);
    net_pass(net, SECOND);
    fall_silent(net);
    const struct weir_gossip_peer *peer = &net->node[1].peers[0];
    uint64_t known_ns = peer->known_ns, said_ns = net_clock(net, 1);
    net_say(net, 1, 0);
    net_pass(net, SECOND);
    take(net, 0, 0, 1);
    take(net, 0, 1, 1);
    net->words_max = 1;
    net_say(net, 0, 1);
    net_pass(net, SECOND);
    assert_true(peer->known_ns == known_ns && net->node[1].about[0][0].known_ns == said_ns);
    net_say(net, 1, 0); /* "I have the first of two" */
    net_pass(net, SECOND);
    said_ns = net_clock(net, 1) - SECOND;
    net->words_max = NET_KEYS;
    net_say(net, 0, 1);
    net_pass(net, SECOND);
    assert_true(peer->known_ns == said_ns);
}

/* An answer that is overtaken echoes an older time than the one before it: nothing becomes unknown by it. */
static void test_what_is_known_is_not_unlearned(void **state)
{
    (void)state;
    struct net *net = net_init(9, 2, &slow, 50);
    net_pass(net, SECOND);
    fall_silent(net);
    struct weir_gossip *node = &net->node[0].gossip;
    const struct weir_gossip_peer *peer = &node->peers[1];
    uint64_t now_ns = net_clock(net, 0), known_ns = peer->known_ns;
    struct weir_gossip_head head = { .nodes = 2,
                                     .from = 1,
                                     .epoch = peer->epoch,
                                     .seq = peer->seq + 1,
                                     .synced = true,
                                     .echo_epoch = node->epoch,
                                     .echo_ns = known_ns - MS,
                                     .complete = true,
                                     .since = peer->have,
                                     .until = peer->have };
    assert_int_equal(weir_gossip_hear(node, &head, now_ns), WEIR_GOSSIP_NEW);
    weir_gossip_hear_end(node, &head, true, now_ns);
    assert_true(peer->known_ns == known_ns && peer->heard_ns == now_ns);
}

/* A former start of the peer speaks, whose messages come late: all of it is charged already. */
static void test_who_speaks_of_a_former_start_is_not_heard(void **state)
{
    (void)state;
    struct net *net = net_init(9, 2, &slow, 50);
    net_pass(net, SECOND);
    const struct weir_gossip_peer *peer = &net->node[0].gossip.peers[1];
    struct weir_gossip_head head = { .nodes = 2, .from = 1, .epoch = peer->epoch - 1, .seq = peer->seq + 1 };
    assert_true(head.epoch > 0);
    assert_int_equal(weir_gossip_hear(&net->node[0].gossip, &head, net_clock(net, 0)), WEIR_GOSSIP_REPLAYED);
}

/* A reload is no acknowledgement: who has used its slack up has none after it. */
static void test_a_reload_gives_no_slack_back(void **state)
{
    (void)state;
    static struct weir_gossip_limit next;
    const struct weir_limit_spec faster = { .count = 2000, .period_ns = HOUR };
    struct net *net = net_init(9, 2, &slow, 50);
    net_pass(net, SECOND);
    net->parted[0][1] = net->parted[1][0] = true;
    take(net, 0, 0, 40);
    assert_int_equal(weir_gossip_limit_init(&next, 2, &faster, 50, NULL), 0);
    weir_gossip_limit_add(&net->node[0].gossip, &next);
    const struct weir_event event = net_event(net, 0, 0);
    weir_gossip_key_follow(&net->node[0].gossip, &net->node[0].keys[0], &next, &event, &event);
    weir_gossip_limit_remove(&net->node[0].gossip, &net->node[0].limit);
    assert_true(net->node[0].gossip.limits == &next && !next.next);
    take(net, 0, 0, 10);
    assert_false(net_ask(net, 0, 0, 1, true));
    const struct weir_event one = net_event(net, 0, 1);
    struct weir_verdict verdict;
    weir_gossip_reserve(&net->node[0].gossip, &net->node[0].keys[0], &one, true, &verdict);
    assert_in_range(verdict.retry_after_ns, SECOND, 4 * SECOND); /* one of 2000 per hour, halved between two */
}

/* A key that was forgotten and comes back counts above what others may remember of it. */
static void test_a_forgotten_key_does_not_count_from_zero(void **state)
{
    (void)state;
    const struct weir_limit_spec spec = { .count = 60, .period_ns = MINUTE };
    struct net *net = net_init(10, 2, &spec, 10);
    net_pass(net, SECOND);
    take(net, 0, 0, 5);
    net_pass(net, 20 * SECOND);
    forget_at_random(net, 0);
    assert_false(net->node[0].known[0]);
    take(net, 0, 0, 3);
    net_pass(net, 300 * MS);
    assert_int_equal(used(net, 1, 0), 3);
}

/* News forgotten before everybody had them are charged as a share, like those of a crash. */
static void test_forgotten_news_are_charged(void **state)
{
    (void)state;
    const struct weir_limit_spec spec = { .count = 3600, .period_ns = HOUR };
    struct net *net = net_init(11, 2, &spec, 5);
    net_pass(net, SECOND);
    net_key(net, 1, 0);
    net->parted[0][1] = true;
    take(net, 0, 0, 5);
    net_pass(net, 200 * SECOND);
    forget_at_random(net, 0);
    assert_false(net->node[0].known[0]);
    net->parted[0][1] = false;
    net_pass(net, SECOND);
    assert_in_range(used(net, 1, 0), 99, 101);
}

static void test_what_no_word_carries_is_refused(void **state)
{
    (void)state;
    static const struct weir_limit_spec refused[] = {
        { .algorithm = WEIR_SLIDING_LOG, .count = 10, .period_ns = SECOND },
        { .algorithm = WEIR_CONCURRENCY, .count = 10, .period_ns = SECOND },
        { .algorithm = WEIR_FIXED_WINDOW, .count = 10, .period_ns = SECOND, .align = WEIR_ALIGN_FIRST },
    };
    static const char *const words[] = { "times of a sliding_log", "permits of concurrency", "align: first" };
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++) {
        struct weir_gossip_limit limit;
        struct weir_fault fault = { "", "" };
        assert_int_equal(weir_gossip_limit_init(&limit, 1, &refused[i], 1, &fault), WEIR_EINVAL);
        assert_non_null(strstr(fault.text, words[i]));
    }
}

/* What was charged in a window counts in the next one too. */
static void gossip__a_counter_is_unheard_of_for_two_windows(void **state)
{
    (void)state;
    const struct weir_limit_spec spec = { .algorithm = WEIR_SLIDING_COUNTER, .count = 10, .period_ns = SECOND };
    struct weir_gossip_limit limit;
    assert_int_equal(weir_gossip_limit_init(&limit, 1, &spec, 1, NULL), 0);
    assert_true(limit.fill_ns >= 2 * SECOND && limit.written_ns == limit.fill_ns);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gossip__a_counter_is_unheard_of_for_two_windows),
        cmocka_unit_test(test_repeated_and_late_messages_add_nothing),
        cmocka_unit_test(test_a_restarted_node_counts_from_the_start),
        cmocka_unit_test(test_two_restarts_forget_nothing),
        cmocka_unit_test(test_an_unsynced_node_starts_empty),
        cmocka_unit_test(test_what_a_crash_loses_is_charged),
        cmocka_unit_test(test_an_old_window_is_not_charged_to_a_new_one),
        cmocka_unit_test(test_unacknowledged_units_are_bounded),
        cmocka_unit_test(test_an_acknowledgement_ends_with_its_epoch),
        cmocka_unit_test(test_known_up_to_the_echo_of_a_complete_message),
        cmocka_unit_test(test_what_is_known_is_not_unlearned),
        cmocka_unit_test(test_who_speaks_of_a_former_start_is_not_heard),
        cmocka_unit_test(test_a_reload_gives_no_slack_back),
        cmocka_unit_test(test_a_forgotten_key_does_not_count_from_zero),
        cmocka_unit_test(test_forgotten_news_are_charged),
        cmocka_unit_test(test_what_no_word_carries_is_refused),
        cmocka_unit_test(test_bound_of_a_bucket),
        cmocka_unit_test(test_bound_of_a_window),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
