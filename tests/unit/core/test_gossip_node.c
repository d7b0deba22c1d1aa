/* SPDX-License-Identifier: Apache-2.0
 *
 * core/share/gossip: a node and what it makes of the messages that come, made by hand; and more of its keys. */
#include "core/share/gossip_parts.h"
#include "gossip_net.h"

static struct net the_net; /* too large for a stack */

static const struct weir_limit_spec by_second = { .count = 3600, .period_ns = HOUR };

/* Nodes that know of each other, and from now on say nothing. */
static struct net *begin_by(const struct weir_limit_spec *spec, uint32_t nodes)
{
    struct net *net = net_begin(&the_net, 1, nodes, spec, 10);
    net_pass(net, SECOND);
    for (uint32_t i = 0; i < nodes; i++)
        net->node[i].say_ns = UINT64_MAX;
    net_pass(net, SECOND);
    return net;
}

static struct net *begin_of(uint32_t nodes)
{
    return begin_by(&by_second, nodes);
}

/* Messages may overtake each other: each counts once, if no 64 later ones have come. */
static void gossip__a_message_that_was_overtaken_counts_once(void **state)
{
    (void)state;
    struct net *net = begin_of(2);
    struct weir_gossip *node = &net->node[0].gossip;
    const uint64_t seq = node->peers[1].seq;
    static const struct {
        uint64_t ahead;
        enum weir_gossip_heard heard;
    } cases[] = {
        { 2, WEIR_GOSSIP_NEW },      { 1, WEIR_GOSSIP_NEW },        { 1, WEIR_GOSSIP_REPLAYED },
        { 2, WEIR_GOSSIP_REPLAYED }, { 66, WEIR_GOSSIP_NEW },       { 65, WEIR_GOSSIP_NEW },
        { 2, WEIR_GOSSIP_REPLAYED }, { 3, WEIR_GOSSIP_NEW },        { 200, WEIR_GOSSIP_NEW },
        { 137, WEIR_GOSSIP_NEW },    { 136, WEIR_GOSSIP_REPLAYED }, { 137, WEIR_GOSSIP_REPLAYED },
        { 199, WEIR_GOSSIP_NEW },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const struct weir_gossip_head head = {
            .nodes = 2, .from = 1, .epoch = node->peers[1].epoch, .seq = seq + cases[i].ahead
        };
        assert_int_equal(weir_gossip_hear(node, &head, net_clock(net, 0)), cases[i].heard);
    }
}

/* It has nothing of our log, though it has not heard of us yet and says nothing about that. */
static void gossip__a_new_start_is_told_everything_again(void **state)
{
    (void)state;
    struct net *net = begin_of(2);
    struct weir_gossip *node = &net->node[0].gossip;
    const struct weir_gossip_peer *peer = &node->peers[1];
    assert_true(net_ask(net, 0, 0, 5, true));
    for (uint32_t from = 0; from < 4; from++) {
        net_say(net, from % 2, 1 - from % 2);
        net_pass(net, 50 * MS);
    }
    assert_true(peer->acked == node->change && !peer->news);
    const struct weir_gossip_head head = { .nodes = 2, .from = 1, .epoch = peer->epoch + 1, .seq = 1 };
    assert_int_equal(weir_gossip_hear(node, &head, net_clock(net, 0)), WEIR_GOSSIP_NEW);
    assert_int_equal(peer->acked, 0);
    assert_false(peer->met);
    assert_ptr_equal(peer->news, net_key(net, 0, 0));
}

/* A key that not all others have heard of leaves a gap in the log, and only that. */
static void gossip__forgetting_what_all_have_heard_leaves_no_gap(void **state)
{
    (void)state;
    struct net *net = begin_of(3);
    struct weir_gossip *node = &net->node[1].gossip;
    for (size_t k = 0; k < 2; k++)
        assert_true(net_ask(net, 1, k, 5, true));
    const uint64_t change = node->change;
    for (uint32_t j = 0; j < 3; j++)
        node->peers[j].acked = j == 1 ? 0 : change - (j == 2); /* of the second key one has not heard */
    weir_gossip_forget(node, net_key(net, 1, 0));
    assert_int_equal(node->cut, 0);
    weir_gossip_forget(node, net_key(net, 1, 1));
    assert_int_equal(node->cut, change);
}

/* A gap in another's log costs its share once, however often it is told. */
static void gossip__a_gap_is_charged_once(void **state)
{
    (void)state;
    struct net *net = begin_of(2);
    struct weir_gossip *node = &net->node[0].gossip;
    struct weir_gossip_peer *peer = &node->peers[1];
    struct weir_gossip_head head = {
        .nodes = 2, .from = 1, .epoch = peer->epoch, .seq = peer->seq, .cut = peer->have + 5
    };
    for (unsigned n = 0; n < 3; n++) {
        head.seq++;
        assert_int_equal(weir_gossip_hear(node, &head, net_clock(net, 0)), WEIR_GOSSIP_NEW);
        assert_int_equal(net->node[0].limit.losses_count, 1);
        assert_int_equal(peer->known_ns, net_clock(net, 0)); /* up to now it is accounted for */
    }
    head.seq++;
    head.cut++;
    assert_int_equal(weir_gossip_hear(node, &head, net_clock(net, 0)), WEIR_GOSSIP_NEW);
    assert_int_equal(net->node[0].limit.losses_count, 2);
}

/* Those that start together begin once each has heard that all others have heard of its start, not before. */
static void gossip__starts_together_with_all_the_others_or_not(void **state)
{
    (void)state;
    struct net *net = net_begin(&the_net, 1, 3, &by_second, 10);
    struct weir_gossip *node = &net->node[1].gossip;
    for (uint32_t from = 0; from < 3; from += 2) {
        const struct weir_gossip_head head = {
            .nodes = 3, .from = from, .to = 1, .epoch = 7, .seq = 1, .echo_epoch = node->epoch, .complete = true
        };
        assert_false(node->synced);
        assert_int_equal(weir_gossip_hear(node, &head, net_clock(net, 1)), WEIR_GOSSIP_NEW);
        weir_gossip_hear_end(node, &head, true, net_clock(net, 1));
    }
    assert_true(node->synced);
}

/* A counter's window begins at a multiple of its span, in coarse ticks too. */
static void gossip_key__a_long_window_began_at_a_tick(void **state)
{
    (void)state;
    const struct weir_limit_spec decade = { .algorithm = WEIR_SLIDING_COUNTER, .count = 10, .period_ns = 3650 * DAY };
    struct net *net = begin_by(&decade, 2);
    const struct weir_gossip_key *key = net_key(net, 0, 0);
    const struct weir_limit *limit = &key->limit->limit;
    assert_true(limit->shift < 0);
    const uint64_t span_ns = limit->span << -limit->shift;
    for (uint64_t late_ns = 0; late_ns < 16; late_ns++) {
        const struct weir_event event = { .now_ns = 3 * span_ns + late_ns };
        assert_int_equal(weir_gossip_window_start(key, &event), 3 * span_ns);
    }
}

/* What may have been used before a start is none of a window that has begun since: at the earliest 13 s before its end,
 * for it may be a twelfth longer than its period. */
static void gossip_key__of_a_window_that_began_after_the_start_nothing_is_assumed(void **state)
{
    (void)state;
    const struct weir_limit_spec spec = { .algorithm = WEIR_FIXED_WINDOW, .count = 1200, .period_ns = 12 * SECOND };
    for (int later = 0; later < 2; later++) {
        struct net *net = net_begin(&the_net, 1, 2, &spec, 5000);
        net->now_ns += 10 * SECOND;
        const struct weir_event peek = { .now_ns = net_clock(net, 0),
                                         .cost = 1,
                                         .window = { .id = 7, .end_after_ns = 3 * SECOND + (uint64_t)later } };
        struct weir_verdict verdict;
        weir_gossip_reserve(&net->node[0].gossip, net_key(net, 0, 0), &peek, true, &verdict);
        assert_int_equal(verdict.remaining > 0, later);
    }
}

/* A key that is new has its part in the losses of the last fill time, an hour here, and in none before. */
static void gossip_key__of_losses_those_of_the_last_fill_time_count(void **state)
{
    (void)state;
    struct net *net = begin_of(2);
    struct net_node *node = &net->node[0];
    const uint64_t now_ns = 10 * HOUR, id[2] = { 9, 9 };
    assert_int_equal(node->limit.fill_ns, HOUR);
    node->limit.losses_count = 3;
    node->limit.losses[0].at_ns = now_ns - HOUR - 1;
    for (uint64_t late = 0; late < 2; late++) {
        node->limit.losses[1].at_ns = now_ns - HOUR + late;
        node->limit.losses[2].at_ns = now_ns - 1;
        weir_gossip_key_init(&node->gossip, &node->keys[0], id, &node->limit, node->about[0], now_ns);
        assert_int_equal(node->keys[0].losses, 2 - late);
        assert_int_equal(node->keys[0].at_ns, node->limit.losses[2 - late].at_ns);
    }
}

static void gossip__a_limit_that_is_none_is_refused(void **state)
{
    (void)state;
    static const struct weir_limit_spec none = { .count = 10, .period_ns = 0 };
    struct weir_gossip_limit limit;
    struct weir_fault fault = { "", "" };
    assert_int_not_equal(weir_gossip_limit_init(&limit, 1, &none, 1, &fault), 0);
    assert_string_not_equal(fault.text, "");
}

/* In memory that held something else. */
static void gossip__nothing_is_known_of_anybody_at_the_start(void **state)
{
    (void)state;
    struct weir_gossip node;
    struct weir_gossip_peer peers[3],
        none[3] = { { .known_since_ns = 7 }, { .known_since_ns = 7 }, { .known_since_ns = 7 } };
    memset(peers, 0xff, sizeof peers);
    weir_gossip_init(&node, 3, 1, 5, peers, 7);
    for (int j = 0; j < 3; j++) {
        assert_int_equal(peers[j].known_since_ns, none[j].known_since_ns);
        assert_true(peers[j].epoch == 0 && peers[j].acked == 0 && peers[j].have == 0 && !peers[j].news);
        assert_false(peers[j].known || peers[j].synced || peers[j].met);
    }
}

/* Of five places for peers three are taken: nobody writes to the others. */
static void gossip__knows_of_as_many_nodes_as_there_are(void **state)
{
    (void)state;
    static const struct weir_gossip_peer none;
    static const struct weir_gossip_about nothing;
    struct net *net = begin_of(3);
    for (uint32_t i = 0; i < 3; i++)
        net->node[i].say_ns = net->now_ns;
    for (unsigned n = 0; n < 30; n++, net_pass(net, 100 * MS))
        (void)net_ask(net, n % 3, n % 2, 1, n % 5 != 0);
    net_start(net, 2);
    net_pass(net, SECOND);
    weir_gossip_met_later(&net->node[2].gossip, net->node[2].gossip.epoch + 1);
    net->node[0].peers[3].news = net_key(net, 0, 0);
    weir_gossip_forget(&net->node[0].gossip, net_key(net, 0, 0));
    assert_ptr_equal(net->node[0].peers[3].news, net_key(net, 0, 0));
    net->node[0].peers[3].news = NULL;
    for (uint32_t i = 0; i < 3; i++)
        for (uint32_t j = 3; j < NET_NODES; j++) {
            assert_memory_equal(&net->node[i].peers[j], &none, sizeof none);
            for (size_t k = 0; k < NET_KEYS; k++)
                assert_memory_equal(&net->node[i].about[k][j], &nothing, sizeof nothing);
        }
}

/* Of 64 nodes each has a 64th of the refill. */
static void gossip_key__waits_for_its_share_of_the_slack(void **state)
{
    (void)state;
    static const struct weir_limit_spec daily = {
        .algorithm = WEIR_TOKEN_BUCKET, .count = 1, .period_ns = DAY, .burst = 3650
    };
    static struct weir_gossip_peer peers[64];
    static struct weir_gossip_about about[64];
    struct weir_gossip node;
    struct weir_gossip_limit limit;
    struct weir_gossip_key key;
    const uint64_t id[2] = { 1, 0 };
    weir_gossip_init(&node, 64, 0, 1, peers, T0);
    assert_int_equal(weir_gossip_limit_init(&limit, 1, &daily, 1000, NULL), 0);
    weir_gossip_limit_add(&node, &limit);
    node.synced = true;
    weir_gossip_key_init(&node, &key, id, &limit, about, T0);
    const struct weir_event some = { .now_ns = T0, .cost = 800 };
    struct weir_verdict verdict;
    assert_int_equal(weir_gossip_reserve(&node, &key, &some, false, &verdict), WEIR_SHARE_YES);
    assert_int_equal(weir_gossip_reserve(&node, &key, &some, true, &verdict), WEIR_SHARE_NO);
    assert_true(verdict.retry_after_ns == 64 * 600 * DAY);
    assert_int_equal(verdict.remaining, 200);
    struct weir_gossip_word word;
    weir_gossip_word(&node, &key, &some, &word);
    assert_ptr_equal(word.entries[0], &about[0].entry);
    assert_null(word.entries[1]); /* of whom nothing is known */
}

/* What is cancelled was not admitted. */
static void gossip_key__what_is_cancelled_is_charged_no_more(void **state)
{
    (void)state;
    struct net *net = begin_of(2);
    struct weir_gossip *node = &net->node[0].gossip;
    struct weir_gossip_key *key = net_key(net, 0, 0);
    const struct weir_event five = net_event(net, 0, 5), two = net_event(net, 0, 2);
    struct weir_verdict verdict;
    assert_int_equal(weir_gossip_reserve(node, key, &five, false, &verdict), WEIR_SHARE_YES);
    assert_int_equal(weir_gossip_reserve(node, key, &two, false, &verdict), WEIR_SHARE_YES);
    const uint64_t charged = key->charged;
    weir_gossip_cancel(node, key, &two);
    assert_int_equal(key->charged, charged - 2);
    assert_int_equal(key->reserved, 5);
}

/* Who knows nothing itself asks for all once more when the other has learned what there is, and not before. */
static void gossip__who_has_learned_is_heard_from_the_beginning(void **state)
{
    (void)state;
    struct net *net = net_begin(&the_net, 1, 2, &by_second, 10);
    struct weir_gossip *node = &net->node[0].gossip;
    struct weir_gossip_head head = { .nodes = 2, .from = 1, .epoch = 7, .seq = 1, .until = 5 };
    for (head.seq = 1; head.seq < 4; head.seq++) {
        head.synced = head.seq == 3;
        assert_int_equal(weir_gossip_hear(node, &head, net_clock(net, 0)), WEIR_GOSSIP_NEW);
        assert_int_equal(node->peers[1].have, head.seq == 2 ? 5 : 0);
        weir_gossip_hear_end(node, &head, true, net_clock(net, 0));
        assert_int_equal(node->peers[1].have, 5);
    }
}

/* How long it takes until nothing counts of what was admitted. */
static void gossip__a_limit_fills_in_its_time(void **state)
{
    (void)state;
    static const struct {
        struct weir_limit_spec spec;
        uint64_t fill_ns;
    } cases[] = {
        { { .algorithm = WEIR_TOKEN_BUCKET, .count = 10, .period_ns = SECOND, .burst = 25 }, 2500 * MS },
        { { .algorithm = WEIR_SLIDING_COUNTER, .count = 10, .period_ns = SECOND }, 2 * SECOND },
        { { .algorithm = WEIR_FIXED_WINDOW, .count = 10, .period_ns = 12 * SECOND }, 13 * SECOND + 1 },
        { { .algorithm = WEIR_FIXED_WINDOW, .count = 10, .period_ns = DAY, .calendar = WEIR_CALENDAR_DAY },
          26 * HOUR + 1 },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct weir_gossip_limit limit;
        assert_int_equal(weir_gossip_limit_init(&limit, 1, &cases[i].spec, 1, NULL), 0);
        assert_int_equal(limit.fill_ns, cases[i].fill_ns);
        assert_int_equal(limit.written_ns, cases[i].fill_ns);
    }
}

/* What a message says that was overtaken is older than what is known. */
static void gossip__an_overtaken_message_does_not_say_how_things_stand(void **state)
{
    (void)state;
    struct net *net = begin_of(2);
    struct weir_gossip *node = &net->node[0].gossip;
    const struct weir_gossip_peer *peer = &node->peers[1];
    struct weir_gossip_head head = {
        .nodes = 2, .from = 1, .epoch = peer->epoch, .seq = peer->seq + 2, .sent_ns = 20, .synced = true
    };
    assert_int_equal(weir_gossip_hear(node, &head, net_clock(net, 0)), WEIR_GOSSIP_NEW);
    head.seq--;
    head.sent_ns = 10;
    head.synced = false;
    assert_int_equal(weir_gossip_hear(node, &head, net_clock(net, 0) + 1), WEIR_GOSSIP_NEW);
    assert_int_equal(peer->sent_ns, 20);
    assert_int_equal(peer->heard_ns, net_clock(net, 0));
    assert_true(peer->synced);
}

/* Whoever is hot already keeps its place among the hot ones. */
static void gossip__a_key_becomes_hot_once(void **state)
{
    (void)state;
    struct net *net = begin_of(2);
    struct weir_gossip *node = &net->node[0].gossip;
    struct weir_gossip_key *first = net_key(net, 0, 0), *second = net_key(net, 0, 1);
    weir_gossip_heat(node, first, true);
    weir_gossip_heat(node, second, true);
    weir_gossip_heat(node, first, true);
    assert_ptr_equal(node->hot, first);
    assert_ptr_equal(first->hot_after, second);
    assert_null(second->hot_after);
}

/* ---- keys ---- */

/* What others may have admitted keeps what was used from refilling. It charges nothing, however coarse the ticks. */
static void gossip_key__of_which_nothing_was_used_stays_whole(void **state)
{
    (void)state;
    struct net *net = begin_by(&(struct weir_limit_spec){ .count = 10, .period_ns = 300 * DAY, .burst = 40 }, 2);
    assert_true(net->node[0].limit.limit.shift < 0);
    net->now_ns += 1201 * DAY; /* from here on the other is unheard for longer than it takes to fill */
    for (int i = 0; i < 10; i++, net->now_ns++)
        assert_int_equal(net_used(net, 0, 0), 0);
}

/* However much was admitted elsewhere: it is owed, and no clock that came back. */
static void gossip_key__owes_more_than_fits_its_limit(void **state)
{
    (void)state;
    struct net *net = begin_of(2);
    struct weir_gossip_key *key = net_key(net, 0, 0);
    const struct weir_event event = net_event(net, 0, 0);
    add(key, &key->state, &event, 5 * 3600);
    assert_false(net_ask(net, 0, 0, 1, true));
    net->now_ns += HOUR;
    assert_in_range(net_used(net, 0, 0), 4 * 3600, 4 * 3600 + 2);
    assert_false(net_ask(net, 0, 0, 1, true));
}

/* What a node did not tell before it started again may have been admitted since this one did, too. */
static void gossip_key__a_loss_is_charged_like_what_was_heard(void **state)
{
    (void)state;
    struct net *net = begin_of(2);
    struct weir_gossip_key *key = net_key(net, 0, 0);
    struct weir_gossip_limit *limit = &net->node[0].limit;
    net->now_ns += 10 * SECOND;
    const uint64_t now_ns = net_clock(net, 0);
    limit->losses[limit->losses_count++] = (struct weir_gossip_loss){ now_ns - 8 * SECOND, now_ns, 0 };
    assert_int_equal(net_used(net, 0, 0), 4);
    assert_int_equal(key->charged, 4);
}

/* The limit is whole again, and the slack is not: so long it takes until all is. */
static void gossip_key__is_whole_when_its_slack_is(void **state)
{
    (void)state;
    struct net *net = begin_of(2);
    struct weir_verdict verdict;
    assert_true(net_ask(net, 0, 0, 10, true));
    net->now_ns += 10 * SECOND; /* half of the limit is this node's: five units of the slack */
    const struct weir_event event = net_event(net, 0, 10);
    assert_int_equal(weir_gossip_reserve(&net->node[0].gossip, net_key(net, 0, 0), &event, true, &verdict),
                     WEIR_SHARE_NO);
    assert_int_equal(verdict.reset_after_ns, 10 * SECOND);
}

static const struct weir_limit_spec by_hour = {
    .algorithm = WEIR_FIXED_WINDOW, .count = 3600, .period_ns = HOUR, .align = WEIR_ALIGN_CALENDAR
};

/* A window of which more losses came than are remembered is full, and those that are remembered count beside that. */
static void gossip_key__a_window_that_missed_losses_is_full(void **state)
{
    (void)state;
    for (uint64_t more = 0; more < 2; more++) {
        struct net *net = begin_by(&by_hour, 2);
        struct weir_gossip_limit *limit = &net->node[0].limit;
        assert_int_equal(net_used(net, 0, 0), 0);
        net->now_ns += 10 * SECOND;
        const uint64_t now_ns = net_clock(net, 0);
        for (uint32_t n = 0; n < WEIR_GOSSIP_LOSSES; n++)
            limit->losses[n] = (struct weir_gossip_loss){ now_ns - 2 * SECOND, now_ns, 0 }; /* a unit each */
        limit->losses_count += WEIR_GOSSIP_LOSSES + more;
        assert_int_equal(net_used(net, 0, 0), 3600 * more + WEIR_GOSSIP_LOSSES);
    }
}

/* The calendar may say that it goes on, when it should have ended. */
static void gossip_key__a_window_ends_when_the_calendar_says_so(void **state)
{
    (void)state;
    struct net *net = begin_by(&by_hour, 2);
    struct weir_gossip *node = &net->node[0].gossip;
    struct weir_gossip_key *key = net_key(net, 0, 0);
    for (uint64_t n = 0; n < 3; n++) {
        struct weir_gossip_word word;
        const struct weir_event event = { .now_ns = net_clock(net, 0) + 2 * n * SECOND,
                                          .window = { .id = n < 2 ? 5000 : 5001, .end_after_ns = SECOND } };
        weir_gossip_word(node, key, &event, &word);
        assert_int_equal(word.used, n == 1 ? 5 : 0);
        if (n == 0)
            add(key, &key->state, &event, 5);
    }
}

/* However long nobody asks: what is long past is not ahead when the ticks have gone round. */
static void gossip_key__a_counter_of_years_ago_is_fresh(void **state)
{
    (void)state;
    const struct weir_limit_spec counter = { .algorithm = WEIR_SLIDING_COUNTER, .count = 3600, .period_ns = HOUR };
    struct net *net = begin_by(&counter, 2);
    assert_true(net_ask(net, 0, 0, 5, true));
    const struct weir_gossip_key *key = net_key(net, 0, 0);
    for (int years = 0; years < 20; years++, net->now_ns += 365 * DAY) {
        assert_int_equal(net_used(net, 0, 0), years ? 0 : 5);
        const uint64_t at = weir_ticks_at(key->at_ns, key->limit->limit.shift);
        assert_int_equal(weir_ticks_until(key->state.fresh_at, at) > 0, !years);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gossip__a_message_that_was_overtaken_counts_once),
        cmocka_unit_test(gossip__a_new_start_is_told_everything_again),
        cmocka_unit_test(gossip__forgetting_what_all_have_heard_leaves_no_gap),
        cmocka_unit_test(gossip__a_gap_is_charged_once),
        cmocka_unit_test(gossip__starts_together_with_all_the_others_or_not),
        cmocka_unit_test(gossip_key__a_long_window_began_at_a_tick),
        cmocka_unit_test(gossip_key__of_a_window_that_began_after_the_start_nothing_is_assumed),
        cmocka_unit_test(gossip_key__of_losses_those_of_the_last_fill_time_count),
        cmocka_unit_test(gossip__a_limit_that_is_none_is_refused),
        cmocka_unit_test(gossip__a_limit_fills_in_its_time),
        cmocka_unit_test(gossip_key__waits_for_its_share_of_the_slack),
        cmocka_unit_test(gossip_key__what_is_cancelled_is_charged_no_more),
        cmocka_unit_test(gossip__who_has_learned_is_heard_from_the_beginning),
        cmocka_unit_test(gossip__knows_of_as_many_nodes_as_there_are),
        cmocka_unit_test(gossip__nothing_is_known_of_anybody_at_the_start),
        cmocka_unit_test(gossip_key__of_which_nothing_was_used_stays_whole),
        cmocka_unit_test(gossip__an_overtaken_message_does_not_say_how_things_stand),
        cmocka_unit_test(gossip__a_key_becomes_hot_once),
        cmocka_unit_test(gossip_key__owes_more_than_fits_its_limit),
        cmocka_unit_test(gossip_key__a_loss_is_charged_like_what_was_heard),
        cmocka_unit_test(gossip_key__is_whole_when_its_slack_is),
        cmocka_unit_test(gossip_key__a_window_that_missed_losses_is_full),
        cmocka_unit_test(gossip_key__a_window_ends_when_the_calendar_says_so),
        cmocka_unit_test(gossip_key__a_counter_of_years_ago_is_fresh),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
