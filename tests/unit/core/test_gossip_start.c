/* SPDX-License-Identifier: Apache-2.0
 *
 * core/share/gossip: what a node that starts admits before it knows what the others know, what it admits after, and why
 * it refuses; and what the start of another costs. */
#include "gossip_net.h"

static struct net the_net; /* too large for a stack */

static const struct weir_limit_spec daily = { .count = 30000, .period_ns = 24 * HOUR };
static const struct weir_limit_spec specs[] = {
    { .count = 30000, .period_ns = 24 * HOUR },
    { .algorithm = WEIR_FIXED_WINDOW, .count = 30000, .period_ns = HOUR },
    { .algorithm = WEIR_SLIDING_COUNTER, .count = 30000, .period_ns = HOUR },
};
#define KINDS (sizeof specs / sizeof specs[0])

static struct net *begin(const struct weir_limit_spec *spec)
{
    struct net *net = net_begin(&the_net, 1, 3, spec, 100);
    net_pass(net, SECOND);
    return net;
}

/* A start with requests before anything was heard: afterwards the key has what the others say, not less. */
static void test_fear_gives_way_to_what_is_learned(void **state)
{
    (void)state;
    for (size_t n = 0; n < KINDS; n++) {
        struct net *net = begin(&specs[n]);
        net_take(net, 0, 0, 1000);
        net_take(net, 2, 0, 500);
        net_start(net, 2);
        assert_false(net_ask(net, 2, 0, 1, true)); /* in the dark: as if it were empty */
        assert_false(net_ask(net, 2, 1, 1, true)); /* nor does it know that nobody asked for this one */
        net_pass(net, SECOND);
        assert_true(net->node[2].gossip.synced);
        assert_in_range(net_remaining(net, 2, 0), 28000, 28600);
        assert_in_range(net_remaining(net, 2, 1), 29400, 30000);
        assert_true(net_ask(net, 2, 0, 1, true));
    }
}

/* Cut off for a minute of the hour: the others' shares of it may be gone, in a window as in a bucket. */
static void test_who_is_cut_off_fears_the_others_shares(void **state)
{
    (void)state;
    for (size_t n = 1; n < KINDS; n++) {
        struct net *net = begin(&specs[n]);
        net_take(net, 0, 0, 10);
        for (uint32_t i = 1; i < 3; i++)
            net->parted[0][i] = net->parted[i][0] = true;
        net_pass(net, 60 * SECOND);
        assert_in_range(net_remaining(net, 0, 0), 29640, 29680); /* 30000 less 10, and two thirds of 500 */
        assert_in_range(net_remaining(net, 1, 0), 29810, 29850); /* who is cut off from one: one third */
    }
}

/* Of each kind of window to each other kind, while the start of another node is not charged yet: what was used stays
 * used, and what the other may have admitted untold is charged once, whatever windows the limit has then. */
static void test_a_reload_charges_starts_by_the_limit_that_is_left(void **state)
{
    (void)state;
    static struct weir_gossip_limit next;
    for (size_t n = 0; n < KINDS * KINDS; n++) {
        const struct weir_limit_spec *to = &specs[n % KINDS];
        struct net *net = begin(&specs[n / KINDS]);
        struct weir_gossip *node = &net->node[0].gossip;
        net_take(net, 0, 0, 1000);
        net->words_max = 0; /* nobody speaks of the key from now on */
        net_start(net, 2);
        net_pass(net, SECOND);
        struct weir_gossip_key *key = net_key(net, 0, 0);
        assert_true(key->losses < key->limit->losses_count);
        assert_int_equal(weir_gossip_limit_init(&next, 2, to, 100, NULL), 0);
        weir_gossip_limit_add(node, &next);
        const struct weir_event before = net_event(net, 0, 0);
        net->spec = *to;
        const struct weir_event event = net_event(net, 0, 0);
        weir_gossip_key_follow(node, key, &next, &before, &event);
        const uint64_t used = weir_limit_used(&next.limit, &key->state, &event);
        assert_in_range(used, n / KINDS == 0 ? 600 : 1000, 1100); /* a bucket refills */
        net->spec = specs[n / KINDS];
    }
}

/* Nobody has told it anything: one peer is silent, the other has just started, too. */
static void test_who_knows_nothing_teaches_nothing(void **state)
{
    (void)state;
    struct net *net = begin(&daily);
    net_start(net, 2);
    struct weir_gossip *node = &net->node[2].gossip;
    struct weir_gossip_head head = { .nodes = 3,
                                     .from = 1,
                                     .to = 2,
                                     .epoch = 100,
                                     .seq = 1,
                                     .complete = true,
                                     .echo_epoch = node->epoch,
                                     .echo_ns = net_clock(net, 2) };
    assert_int_equal(weir_gossip_hear(node, &head, net_clock(net, 2)), WEIR_GOSSIP_NEW);
    weir_gossip_hear_end(node, &head, true, net_clock(net, 2));
    assert_false(node->synced);
    head.seq = 2;
    head.synced = true;
    assert_int_equal(weir_gossip_hear(node, &head, net_clock(net, 2)), WEIR_GOSSIP_NEW);
    weir_gossip_hear_end(node, &head, true, net_clock(net, 2));
    assert_true(node->synced);
}

/* All at once, asked at once: nobody knows anything, which is a loss of state, not a day of nothing. */
static void test_those_that_start_together_are_fresh_though_asked_before(void **state)
{
    (void)state;
    struct net *net = begin(&daily);
    net_take(net, 0, 0, 1000);
    for (uint32_t i = 0; i < 3; i++)
        net_start(net, i);
    for (uint32_t i = 0; i < 3; i++)
        assert_false(net_ask(net, i, 0, 1, true));
    net_pass(net, SECOND);
    for (uint32_t i = 0; i < 3; i++)
        assert_in_range(net_remaining(net, i, 0), 29900, 30000);
}

/* Units admitted in the dark, by what refilled since the start, stay charged when the node has synced. */
static void test_what_was_admitted_in_the_dark_stays_charged(void **state)
{
    (void)state;
    const struct weir_limit_spec quick = { .count = 1000, .period_ns = 100 * SECOND, .burst = 100 };
    struct net *net = begin(&quick);
    for (uint32_t j = 0; j < 2; j++)
        net->parted[j][2] = net->parted[2][j] = true;
    net_start(net, 2);
    unsigned admitted = 0;
    for (unsigned n = 0; n < 1200; n++, net_pass(net, 50 * MS)) /* 60 s, in which a third of 600 units refills */
        admitted += net_ask(net, 2, 0, 1, true);
    assert_in_range(admitted, 1, 200);
    net_pass(net, 200 * MS);
    for (uint32_t j = 0; j < 2; j++)
        net->parted[j][2] = net->parted[2][j] = false;
    struct weir_event event = net_event(net, 2, 0);
    struct weir_gossip_word word;
    weir_gossip_word(&net->node[2].gossip, net_key(net, 2, 0), &event, &word);
    uint64_t before = word.used;
    net_pass(net, 300 * MS);
    assert_true(net->node[2].gossip.synced);
    assert_true(net_remaining(net, 2, 0) <= 100 - before + 3);
}

/* A node in the dark that forgets a key does not forgive what it admitted of it. */
static void test_forgetting_in_the_dark_forgives_nothing(void **state)
{
    (void)state;
    const struct weir_limit_spec quick = { .count = 600, .period_ns = MINUTE, .burst = 600 };
    struct net *net = net_begin(&the_net, 1, 3, &quick, 600);
    net_pass(net, SECOND);
    for (uint32_t j = 0; j < 2; j++)
        net->parted[j][2] = net->parted[2][j] = true;
    net_start(net, 2);
    uint64_t start_ns = net->now_ns, admitted = 0;
    for (unsigned n = 0; n < 2000; n++, net_pass(net, 250 * MS)) {
        struct weir_gossip_key *key = net_key(net, 2, 0);
        struct weir_event event = net_event(net, 2, 0);
        bool acked;
        if (weir_gossip_idle(&net->node[2].gossip, key, &event, &acked)) {
            weir_gossip_forget(&net->node[2].gossip, key);
            net->node[2].known[0] = false;
        }
        while (n % 200 < 10 && net_ask(net, 2, 0, 1, true)) /* bursts, and long pauses between them */
            admitted++;
        /* A third of the rate, of a bucket that began empty, two thirds of which may be the others'. */
        assert_true(admitted == 0 || admitted + 400 <= (net->now_ns - start_ns) / (3 * SECOND / 10) + 1);
    }
    assert_true(admitted > 0);
}

static void expect_refused(struct net *net, uint64_t unsynced, uint64_t unheard, uint64_t slack, uint64_t superseded)
{
    const struct weir_gossip_refusals *refused = &net->node[2].gossip.refused;
    assert_int_equal(refused->unsynced, unsynced);
    assert_int_equal(refused->unheard, unheard);
    assert_int_equal(refused->slack, slack);
    assert_int_equal(refused->superseded, superseded);
}

/* Why a request is refused though the limit has room, once for each request; peeks and full limits do not count. */
static void test_refusals_are_counted_by_their_reason(void **state)
{
    (void)state;
    struct net *net = begin(&daily);
    net_start(net, 2);
    struct weir_event event = net_event(net, 2, 1);
    struct weir_verdict verdict;
    struct weir_gossip_key *key = net_key(net, 2, 0);
    assert_int_equal(weir_gossip_reserve(&net->node[2].gossip, key, &event, false, &verdict), WEIR_SHARE_NO);
    assert_in_range(verdict.retry_after_ns, 1, SECOND); /* the others may be heard any moment */
    expect_refused(net, 1, 0, 0, 0);
    net_pass(net, SECOND);
    for (uint32_t j = 0; j < 2; j++)
        net->parted[j][2] = net->parted[2][j] = true;
    net_ask(net, 2, 0, 100, true);
    net_ask(net, 2, 0, 1, true);
    expect_refused(net, 1, 0, 1, 0);
    net_pass(net, 20 * HOUR); /* two thirds of 25,000 units may be gone */
    net_ask(net, 2, 0, 100, true);
    net_ask(net, 2, 1, 15000, true);
    expect_refused(net, 1, 1, 1, 0);
    net->node[2].gossip.superseded = true;
    net_ask(net, 2, 1, 1, true);
    expect_refused(net, 1, 1, 1, 1);
    net->node[2].gossip.superseded = false;
    assert_false(net_ask(net, 2, 1, 30001, true)); /* never */
    expect_refused(net, 1, 1, 1, 1);
}

/* ---- another starts ---- */

/* Of a request that is refused. */
static uint64_t retry_ns(struct net *net, uint32_t i, size_t k, uint64_t cost)
{
    struct weir_event event = net_event(net, i, cost);
    struct weir_verdict verdict;
    enum weir_share_say say = weir_gossip_reserve(&net->node[i].gossip, net_key(net, i, k), &event, false, &verdict);
    assert_int_equal(say, WEIR_SHARE_NO);
    return verdict.retry_after_ns;
}

/* In the dark the others may be heard any moment, whichever of the two fears refuses. */
static void test_in_the_dark_every_wait_is_short(void **state)
{
    (void)state;
    const uint64_t costs[] = { 1, 2, 50 };
    struct net *net = begin(&daily);
    net_part(net, 2, true);
    net_start(net, 2);
    for (int i = 0; i < 20; i++, net_pass(net, SECOND))
        for (size_t c = 0; c < 3; c++)
            assert_in_range(retry_ns(net, 2, 0, costs[c]), 1, SECOND);
}

/* Whatever else refuses it now: no wait helps. */
static void test_what_costs_more_than_the_slack_never_passes(void **state)
{
    (void)state;
    const struct weir_limit_spec spec = { .count = 20, .period_ns = HOUR };
    struct net *net = net_begin(&the_net, 1, 2, &spec, 10);
    net_pass(net, SECOND);
    assert_int_equal(retry_ns(net, 0, 0, 11), WEIR_NEVER);
    net->node[0].gossip.superseded = true;
    assert_int_equal(retry_ns(net, 0, 0, 11), WEIR_NEVER);
    assert_int_equal(retry_ns(net, 0, 0, 10), SECOND);
    net->node[0].gossip.superseded = false;
    for (int i = 0; i < 2; i++, net_pass(net, SECOND))
        assert_true(net_ask(net, 0, 0, 10, true)); /* it is used up */
    assert_int_equal(retry_ns(net, 0, 0, 11), WEIR_NEVER);
    assert_in_range(retry_ns(net, 0, 0, 10), 1, HOUR);
    net->parted[0][1] = net->parted[1][0] = true;
    net_pass(net, HOUR); /* what the other may have admitted is feared */
    assert_int_equal(retry_ns(net, 0, 1, 11), WEIR_NEVER);
    net_start(net, 1); /* which knows nothing */
    assert_int_equal(retry_ns(net, 1, 0, 11), WEIR_NEVER);
    assert_in_range(retry_ns(net, 1, 0, 10), 1, SECOND);

    net = net_begin(&the_net, 1, 1, &spec, 10); /* nobody else is to know */
    assert_true(net_ask(net, 0, 0, 11, true));
    assert_in_range(retry_ns(net, 0, 0, 11), 1, HOUR);
}

/* Cut off for ten minutes of the hour, then started again: what it may have admitted of the window is charged. */
static void test_a_crash_costs_a_share_of_the_window(void **state)
{
    (void)state;
    for (size_t n = 1; n < KINDS; n++) {
        struct net *net = begin(&specs[n]);
        net_take(net, 0, 0, 10);
        net_pass(net, SECOND);
        net_part(net, 1, true);
        net_pass(net, 600 * SECOND);
        assert_int_equal(net_used(net, 0, 0), 10);
        net_start(net, 1);
        net_part(net, 1, false);
        net_pass(net, SECOND);
        assert_in_range(net_used(net, 0, 0), 10 + 1665, 10 + 1675); /* a third of 30000 an hour */
    }
}

/* A key that is new here shares in a crash of before, as far as that has not refilled since. */
static void test_a_new_key_shares_in_a_crash(void **state)
{
    (void)state;
    const struct weir_limit_spec spec = { .count = 100, .period_ns = 100 * SECOND };
    struct net *net = begin(&spec);
    net_part(net, 1, true);
    net_pass(net, 30 * SECOND);
    net_start(net, 1);
    net_part(net, 1, false);
    net_pass(net, 8 * SECOND);
    assert_in_range(net_used(net, 0, 0), 2, 3); /* a third of 30, less 8 */
}

/* Meanwhile another is unheard for longer than the limit takes to fill: its part of the refill does not count. */
static void test_a_new_key_refills_without_the_part_of_who_is_unheard(void **state)
{
    (void)state;
    const struct weir_limit_spec spec = { .count = 100, .period_ns = 100 * SECOND };
    struct net *net = begin(&spec);
    net_part(net, 2, true);
    net_pass(net, 50 * SECOND);
    net_part(net, 1, true);
    net_pass(net, 100 * SECOND);
    net_start(net, 1);
    net_part(net, 1, false);
    net_part(net, 2, true);
    net_pass(net, 30 * SECOND);
    assert_in_range(net_used(net, 0, 0), 13, 15); /* a third of 100, less two thirds of 30 */
}

/* Who starts after a long time is charged for what counts still, not for all that was ever admitted. */
static void test_what_was_admitted_long_ago_is_not_charged_again(void **state)
{
    (void)state;
    const struct weir_limit_spec spec = { .count = 100, .period_ns = 10 * SECOND };
    struct net *net = begin(&spec);
    for (unsigned n = 0; n < 300; n++, net_pass(net, SECOND))
        assert_true(net_ask(net, 0, 0, 9, true));
    net_start(net, 2);
    net_pass(net, 30 * SECOND);
    assert_true(net->node[2].gossip.synced);
    assert_in_range(net_remaining(net, 2, 0), 90, 100);
}

/* How much more losses than are remembered cost nobody can tell: all that there is. */
static void start__who_missed_more_losses_than_are_remembered_has_nothing_left(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof specs / sizeof specs[0]; i++) {
        for (unsigned missed = WEIR_GOSSIP_LOSSES; missed <= WEIR_GOSSIP_LOSSES + 1; missed++) {
            struct net *net = begin(&specs[i]);
            struct weir_gossip_limit *limit = &net->node[0].limit;
            net_take(net, 0, 0, 10);
            uint64_t before = net_remaining(net, 0, 0);
            assert_true(before > 0);
            for (unsigned k = 0; k < missed; k++) { /* in no time, so that none costs anything by itself */
                uint64_t at_ns = net_clock(net, 0);
                limit->losses[limit->losses_count++ % WEIR_GOSSIP_LOSSES] = (struct weir_gossip_loss){ at_ns, at_ns,
                                                                                                       0 };
            }
            assert_int_equal(net_remaining(net, 0, 0), missed > WEIR_GOSSIP_LOSSES ? 0 : before);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(start__who_missed_more_losses_than_are_remembered_has_nothing_left),
        cmocka_unit_test(test_fear_gives_way_to_what_is_learned),
        cmocka_unit_test(test_who_is_cut_off_fears_the_others_shares),
        cmocka_unit_test(test_a_reload_charges_starts_by_the_limit_that_is_left),
        cmocka_unit_test(test_who_knows_nothing_teaches_nothing),
        cmocka_unit_test(test_those_that_start_together_are_fresh_though_asked_before),
        cmocka_unit_test(test_what_was_admitted_in_the_dark_stays_charged),
        cmocka_unit_test(test_forgetting_in_the_dark_forgives_nothing),
        cmocka_unit_test(test_refusals_are_counted_by_their_reason),
        cmocka_unit_test(test_in_the_dark_every_wait_is_short),
        cmocka_unit_test(test_what_costs_more_than_the_slack_never_passes),
        cmocka_unit_test(test_a_crash_costs_a_share_of_the_window),
        cmocka_unit_test(test_a_new_key_shares_in_a_crash),
        cmocka_unit_test(test_a_new_key_refills_without_the_part_of_who_is_unheard),
        cmocka_unit_test(test_what_was_admitted_long_ago_is_not_charged_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
