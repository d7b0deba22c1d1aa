/* SPDX-License-Identifier: Apache-2.0
 *
 * core/share/gossip_key: one key of one node, whose clock the test moves; what is heard is made by hand. */
#include "core/share/gossip_parts.h"
#include "gossip_net.h"

static struct net the_net; /* too large for a stack */

static const struct weir_limit_spec by_second = { .count = 3600, .period_ns = HOUR };

/* Two nodes that know of each other, and from now on say nothing. */
static struct net *begin(const struct weir_limit_spec *spec, uint64_t slack)
{
    struct net *net = net_begin(&the_net, 1, 2, spec, slack);
    net_pass(net, SECOND);
    for (uint32_t i = 0; i < 2; i++)
        net->node[i].say_ns = UINT64_MAX;
    net_pass(net, SECOND);
    return net;
}

static bool idle(struct net *net)
{
    const struct weir_event event = net_event(net, 0, 0);
    bool acked;
    return weir_gossip_idle(&net->node[0].gossip, net_key(net, 0, 0), &event, &acked);
}

/* Until all that was admitted here has refilled, by the limit and by the slack, which has this node's share of it. */
static void gossip_key__is_forgotten_when_its_limit_and_its_slack_are_whole(void **state)
{
    (void)state;
    struct net *net = begin(&by_second, 10);
    assert_true(net_ask(net, 0, 0, 5, true));
    net->now_ns += 5 * SECOND;
    assert_int_equal(net_used(net, 0, 0), 0);
    assert_false(idle(net));
    net->now_ns += 5 * SECOND - 1;
    assert_false(idle(net));
    net->now_ns++;
    assert_true(idle(net));

    net = begin(&by_second, 10);
    assert_true(net_ask(net, 0, 0, 5, true));
    net_say(net, 0, 1);
    net_pass(net, 50 * MS);
    net_say(net, 1, 0); /* all know of it: the slack is whole at once */
    net_pass(net, 50 * MS);
    assert_int_equal(weir_gossip_unacked(&net->node[0].gossip, net_key(net, 0, 0)), 0);
    assert_false(idle(net));
    net->now_ns += 5 * SECOND;
    assert_true(idle(net));
}

/* Of a key that is forgotten before all others have its news, they have to be told. */
static void gossip_key__knows_whether_all_others_have_its_news(void **state)
{
    (void)state;
    struct net *net = begin(&by_second, 10);
    for (uint32_t i = 0; i < 2; i++) {
        struct weir_gossip *node = &net->node[i].gossip;
        assert_true(net_ask(net, i, 0, 1, true));
        const uint64_t change = net_key(net, i, 0)->change;
        const struct weir_event event = net_event(net, i, 0);
        for (uint32_t late = 0; late < 2; late++) {
            bool acked = late;
            node->peers[1 - i].acked = change - late;
            weir_gossip_idle(node, net_key(net, i, 0), &event, &acked);
            assert_int_equal(acked, !late);
        }
    }
}

/* Another start of its name was heard of: this one admits nothing more. */
static void gossip_key__of_a_node_that_is_superseded_has_nothing_left(void **state)
{
    (void)state;
    struct net *net = begin(&by_second, 10);
    struct weir_gossip *node = &net->node[0].gossip;
    const struct weir_event event = net_event(net, 0, 1);
    struct weir_verdict verdict;
    node->superseded = true;
    for (unsigned charges = 0; charges < 2; charges++) {
        assert_int_equal(weir_gossip_reserve(node, net_key(net, 0, 0), &event, !charges, &verdict), WEIR_SHARE_NO);
        assert_false(verdict.admitted);
        assert_int_equal(verdict.remaining, 0);
        assert_int_equal(verdict.retry_after_ns, SECOND);
        assert_int_equal(verdict.next_after_ns, SECOND);
        assert_int_equal(node->refused.superseded, charges);
    }
    const struct weir_event look = net_event(net, 0, 0); /* nothing is asked for, and nothing refused */
    assert_int_equal(weir_gossip_reserve(node, net_key(net, 0, 0), &look, false, &verdict), WEIR_SHARE_YES);
    assert_true(verdict.admitted);
    assert_int_equal(node->refused.superseded, 1);
}

/* What is set aside may be committed at any time: neither the limit's time nor the slack's lets the key go. */
static void gossip_key__is_kept_while_units_are_set_aside(void **state)
{
    (void)state;
    struct net *net = begin(&by_second, 10);
    const struct weir_event event = net_event(net, 0, 5);
    struct weir_verdict verdict;
    assert_int_equal(weir_gossip_reserve(&net->node[0].gossip, net_key(net, 0, 0), &event, false, &verdict),
                     WEIR_SHARE_YES);
    net->now_ns += HOUR;
    assert_int_equal(net_used(net, 0, 0), 0);
    assert_false(idle(net));
    const struct weir_event later = net_event(net, 0, 5);
    weir_gossip_cancel(&net->node[0].gossip, net_key(net, 0, 0), &later);
    assert_true(idle(net));
}

/* A reload changes how fast the slack refills from then on, not what had come back before. */
static void gossip_key__a_reload_takes_back_no_slack_that_had_refilled(void **state)
{
    (void)state;
    static struct weir_gossip_limit next;
    const struct weir_limit_spec by_hour = { .count = 24, .period_ns = DAY, .burst = 3600 };
    struct net *net = begin(&by_second, 5);
    struct weir_gossip *node = &net->node[0].gossip;
    assert_true(net_ask(net, 0, 0, 5, true));
    net->now_ns += 4 * SECOND; /* two units of the slack, as half of the limit is this node's */
    assert_int_equal(weir_gossip_limit_init(&next, 2, &by_hour, 5, NULL), 0);
    weir_gossip_limit_add(node, &next);
    const struct weir_event event = net_event(net, 0, 0);
    weir_gossip_key_follow(node, net_key(net, 0, 0), &next, &event, &event);
    assert_true(net_ask(net, 0, 0, 2, true));
    assert_false(net_ask(net, 0, 0, 1, true));
}

/* By the limit that is left, what is unheard and lost up to now is reckoned already; the new one begins there. */
static void gossip_key__a_reload_reckons_nothing_twice(void **state)
{
    (void)state;
    static struct weir_gossip_limit next;
    const struct weir_limit_spec longer = { .count = 100, .period_ns = 100 * SECOND };
    const struct weir_limit_spec shorter = { .count = 60, .period_ns = 60 * SECOND };
    struct net *net = begin(&longer, 50);
    struct weir_gossip *node = &net->node[0].gossip;
    struct weir_gossip_limit *limit = &net->node[0].limit;
    net->now_ns += 90 * SECOND; /* the other is unheard for longer than the new limit takes to fill */
    assert_true(net_ask(net, 0, 0, 20, true));
    limit->losses[limit->losses_count++] = (struct weir_gossip_loss){ net_clock(net, 0), net_clock(net, 0), 0 };
    assert_int_equal(weir_gossip_limit_init(&next, 2, &shorter, 50, NULL), 0);
    weir_gossip_limit_add(node, &next);
    assert_true(weir_gossip_unheard(node, &next, net_clock(net, 0)) > 20 * SECOND);
    const struct weir_event event = net_event(net, 0, 0);
    weir_gossip_key_follow(node, net_key(net, 0, 0), &next, &event, &event);
    assert_int_equal(net_used(net, 0, 0), 20);
}

/* Of windows that are numbered anew, what is heard next is of the one that is open now. */
static void gossip_key__a_reload_to_other_windows_hears_of_them(void **state)
{
    (void)state;
    static struct weir_gossip_limit next[2];
    struct weir_limit_spec spec = { .algorithm = WEIR_FIXED_WINDOW, .count = 100, .period_ns = 10 * SECOND };
    struct net *net = begin(&spec, 50);
    assert_true(net_ask(net, 0, 0, 1, true) && net_ask(net, 1, 0, 1, true));
    const struct weir_event before = net_event(net, 0, 0), before_1 = net_event(net, 1, 0);
    net->spec.period_ns = HOUR;
    spec = net->spec;
    const struct weir_event event = net_event(net, 0, 0), event_1 = net_event(net, 1, 0);
    assert_true(event.window.id < before.window.id);
    for (uint32_t i = 0; i < 2; i++) {
        assert_int_equal(weir_gossip_limit_init(&next[i], 2, &spec, 50, NULL), 0);
        weir_gossip_limit_add(&net->node[i].gossip, &next[i]);
    }
    weir_gossip_key_follow(&net->node[0].gossip, net_key(net, 0, 0), &next[0], &before, &event);
    weir_gossip_key_follow(&net->node[1].gossip, net_key(net, 1, 0), &next[1], &before_1, &event_1);
    assert_int_equal(net_key(net, 0, 0)->window, event.window.id);
    assert_true(net_ask(net, 1, 0, 7, true));
    net_say(net, 1, 0);
    net_pass(net, 50 * MS);
    assert_int_equal(net_used(net, 0, 0), 1 + 7 + 1);
}

/* A key that was forgotten and is heard of again: of its counts, what was admitted a fill time ago is past. */
static void gossip_key__counts_of_long_ago_are_no_news(void **state)
{
    (void)state;
    const struct weir_limit_spec spec = { .count = 100, .period_ns = 100 * SECOND };
    struct net *net = begin(&spec, 50);
    const uint64_t began_ns = net->now_ns;
    assert_true(net_ask(net, 0, 0, 40, true));
    for (unsigned fills = 0; fills < 2; fills++) {
        net_say(net, 0, 1);
        net_pass(net, 50 * MS);
        assert_int_equal(net_used(net, 1, 0), fills ? 0 : 40);
        net->now_ns = began_ns + (fills + 1) * 100 * SECOND;
        assert_int_equal(net_used(net, 0, 0), 0);
    }
    weir_gossip_forget(&net->node[1].gossip, net_key(net, 1, 0));
    net->node[1].known[0] = false;
    net_used(net, 0, 0);
    assert_true(net_ask(net, 0, 0, 3, true));
    net_say(net, 0, 1);
    net_pass(net, 50 * MS);
    assert_int_equal(net_used(net, 1, 0), 3);
}

static void lose(struct net *net, uint64_t from_ns, uint64_t at_ns)
{
    struct weir_gossip_limit *limit = &net->node[0].limit;
    limit->losses[limit->losses_count++ % WEIR_GOSSIP_LOSSES] = (struct weir_gossip_loss){
        .from_ns = from_ns, .at_ns = at_ns, .unheard_ns = weir_gossip_unheard(&net->node[0].gossip, limit, at_ns)
    };
}

/* Each of several starts of another node costs what it may have admitted itself. */
static void gossip_key__each_loss_costs_its_own_time(void **state)
{
    (void)state;
    for (int window = 0; window < 2; window++) {
        const struct weir_limit_spec spec = { .algorithm = window ? WEIR_SLIDING_COUNTER : WEIR_TOKEN_BUCKET,
                                              .count = 120,
                                              .period_ns = 120 * SECOND };
        struct net *net = begin(&spec, 10);
        net->now_ns += 120 * SECOND - net_clock(net, 0) % (120 * SECOND) + 60 * SECOND; /* amid a window */
        const uint64_t now_ns = net_clock(net, 0);
        for (unsigned k = 0; k < WEIR_GOSSIP_LOSSES + 4; k++) { /* that cost nothing */
            assert_int_equal(net_used(net, 0, 0), 0);
            lose(net, now_ns, now_ns);
        }
        assert_int_equal(net_used(net, 0, 0), 0);
        for (unsigned k = 0; k < 3; k++)
            lose(net, now_ns - (k == 2 ? 20 * SECOND : 0), now_ns);
        assert_int_equal(net_used(net, 0, 0), 10);
    }
}

/* The time before a start of another that nobody heard it for makes a key refill slower once, not after it again. */
static void gossip_key__what_was_unheard_before_a_loss_counts_before_it(void **state)
{
    (void)state;
    const struct weir_limit_spec spec = { .count = 10, .period_ns = 10 * SECOND };
    struct net *net = begin(&spec, 10);
    struct weir_gossip *node = &net->node[0].gossip;
    assert_int_equal(net_used(net, 0, 0), 0);
    net->now_ns += 30 * SECOND;
    const struct weir_gossip_head head = { .nodes = 2, .from = 1, .epoch = node->peers[1].epoch + 1, .seq = 1 };
    assert_int_equal(weir_gossip_hear(node, &head, net_clock(net, 0)), WEIR_GOSSIP_NEW);
    assert_in_range(weir_gossip_unheard(node, &net->node[0].limit, net_clock(net, 0)), 18 * SECOND, 22 * SECOND);
    assert_int_equal(net_used(net, 0, 0), 5); /* its half of the last ten seconds */
}

/* Idle for longer than what it counts: nothing of that is left. */
static void gossip_key__a_counter_forgets_windows_that_are_past(void **state)
{
    (void)state;
    const struct weir_limit_spec spec = { .algorithm = WEIR_SLIDING_COUNTER, .count = 100, .period_ns = 10 * SECOND };
    struct net *net = begin(&spec, 50);
    assert_true(net_ask(net, 0, 0, 40, true));
    net->now_ns += 30 * SECOND;
    assert_int_equal(net_used(net, 0, 0), 0);
    assert_int_equal(net_key(net, 0, 0)->state.count, 0);
    assert_true(net_ask(net, 0, 0, 3, true));
    assert_int_equal(net_used(net, 0, 0), 3);
}

/* To the nanosecond: not before, and no later than it must be. */
static void gossip_key__the_wait_for_slack_is_as_long_as_it_takes(void **state)
{
    (void)state;
    static const uint64_t counts[] = { 7, 10 };
    for (size_t i = 0; i < 2; i++) {
        const struct weir_limit_spec spec = { .count = counts[i], .period_ns = 10 * SECOND, .burst = 1000 };
        struct net *net = begin(&spec, 5);
        assert_true(net_ask(net, 0, 0, 5, true));
        const struct weir_event event = net_event(net, 0, 1);
        struct weir_verdict verdict;
        weir_gossip_reserve(&net->node[0].gossip, net_key(net, 0, 0), &event, true, &verdict);
        assert_int_equal(verdict.retry_after_ns,
                         (20 * SECOND + counts[i] - 1) / counts[i]); /* half of it is its share */
        net->now_ns += verdict.retry_after_ns - 1;
        assert_false(net_ask(net, 0, 0, 1, true));
        net->now_ns++;
        assert_true(net_ask(net, 0, 0, 1, true));
    }
}

/* ---- what others say ---- */

/* A word of node 1 to node 0, in which the entry of node 0 is `own`. */
static void hear_word(struct net *net, bool synced, uint64_t used, const struct weir_gossip_entry *own)
{
    struct net_node *node = &net->node[0];
    const struct weir_gossip_head head = { .nodes = 2, .from = 1, .epoch = 1, .synced = synced };
    const struct weir_gossip_word word = { .id = { 1, 0 }, .limit = 1, .used = used, .entries = { own } };
    const struct weir_event event = net_event(net, 0, 0);
    assert_true(weir_gossip_hear_word(&node->gossip, net_key(net, 0, 0), &head, &word, &event));
}

/* What an earlier start of this node admitted, as others remember it: charged once, and told on once. */
static void gossip_key__what_a_former_start_admitted_is_charged_once(void **state)
{
    (void)state;
    struct net *net = begin(&by_second, 10);
    net_start(net, 0);
    net->node[0].say_ns = UINT64_MAX;
    struct weir_gossip_entry former = { .epoch = net->node[0].gossip.epoch - 1, .count = 30, .base = 10 };
    hear_word(net, false, 0, &former);
    assert_int_equal(net_used(net, 0, 0), 20);
    const uint64_t change = net_key(net, 0, 0)->change;
    hear_word(net, false, 0, &former);
    assert_int_equal(net_used(net, 0, 0), 20);
    assert_int_equal(net_key(net, 0, 0)->change, change);
    former.count = 33;
    hear_word(net, false, 0, &former);
    assert_int_equal(net_used(net, 0, 0), 23);
    assert_true(net_key(net, 0, 0)->change > change);
    former.epoch++; /* of this start, which has admitted nothing */
    hear_word(net, false, 0, &former);
    assert_int_equal(net_used(net, 0, 0), 23);
}

/* One that knows says how much is used; what it does not know of comes on top. */
static void gossip_key__what_is_set_aside_here_is_used_beside_what_is_told(void **state)
{
    (void)state;
    struct net *net = begin(&by_second, 10);
    net_start(net, 0);
    net->node[0].say_ns = UINT64_MAX;
    net_key(net, 0, 0);
    net->now_ns += 4000 * SECOND;
    const struct weir_event event = net_event(net, 0, 3);
    struct weir_verdict verdict;
    assert_int_equal(weir_gossip_reserve(&net->node[0].gossip, net_key(net, 0, 0), &event, false, &verdict),
                     WEIR_SHARE_YES);
    assert_int_equal(net_used(net, 0, 0), 3);
    hear_word(net, true, 20, NULL);
    assert_int_equal(net_used(net, 0, 0), 23);
}

static void gossip_key__nothing_that_is_committed_is_no_news(void **state)
{
    (void)state;
    struct net *net = begin(&by_second, 10);
    const struct weir_event event = net_event(net, 0, 0);
    weir_gossip_commit(&net->node[0].gossip, net_key(net, 0, 0), &event);
    assert_int_equal(net_key(net, 0, 0)->change, 0);
}

/* What has come back of the slack by then counts. */
static void gossip_key__is_hot_with_half_of_the_slack_used(void **state)
{
    (void)state;
    for (unsigned late = 0; late < 2; late++) {
        struct net *net = begin(&by_second, 10);
        const struct weir_event event = net_event(net, 0, 2);
        struct weir_verdict verdict;
        assert_true(net_ask(net, 0, 0, 3, true));
        weir_gossip_reserve(&net->node[0].gossip, net_key(net, 0, 0), &event, false, &verdict);
        assert_false(net_key(net, 0, 0)->is_hot);
        net->now_ns += late;
        const struct weir_event later = net_event(net, 0, 2);
        weir_gossip_commit(&net->node[0].gossip, net_key(net, 0, 0), &later);
        assert_int_equal(net_key(net, 0, 0)->is_hot, !late);
        assert_ptr_equal(net->node[0].gossip.hot, late ? NULL : net_key(net, 0, 0));
    }
}

/* A node that has heard of nobody: what it gives back is there again. */
static void gossip_key__what_is_cancelled_in_the_dark_is_there_again(void **state)
{
    (void)state;
    struct net *net = begin(&by_second, 10);
    net_start(net, 0);
    net->node[0].say_ns = UINT64_MAX;
    net_key(net, 0, 0);
    net->now_ns += 4000 * SECOND;
    const uint64_t before = net_remaining(net, 0, 0);
    assert_in_range(before, 10, 1000);
    const struct weir_event event = net_event(net, 0, 5);
    struct weir_verdict verdict;
    assert_int_equal(weir_gossip_reserve(&net->node[0].gossip, net_key(net, 0, 0), &event, false, &verdict),
                     WEIR_SHARE_YES);
    assert_int_equal(net_remaining(net, 0, 0), before - 5);
    weir_gossip_cancel(&net->node[0].gossip, net_key(net, 0, 0), &event);
    assert_int_equal(net_remaining(net, 0, 0), before);
}

/* What an answer tells of a time so long ago that it was written off meanwhile is not written off once more. */
static void gossip_key__a_late_answer_adds_nothing_to_what_was_unheard(void **state)
{
    (void)state;
    const struct weir_limit_spec spec = { .count = 10, .period_ns = SECOND };
    struct net *net = begin(&spec, 5);
    struct weir_gossip *node = &net->node[0].gossip;
    const struct weir_gossip_peer *peer = &node->peers[1];
    const uint64_t began_ns = net_clock(net, 0);
    net->now_ns += 30 * SECOND;
    const uint64_t now_ns = net_clock(net, 0), unheard_ns = weir_gossip_unheard(node, &net->node[0].limit, now_ns);
    assert_in_range(unheard_ns, 29 * SECOND, 31 * SECOND);
    struct weir_gossip_head head = { .nodes = 2,
                                     .from = 1,
                                     .epoch = peer->epoch,
                                     .seq = peer->seq + 1,
                                     .synced = true,
                                     .echo_epoch = node->epoch,
                                     .echo_ns = began_ns + 10 * SECOND,
                                     .complete = true,
                                     .since = peer->have,
                                     .until = peer->have };
    assert_int_equal(weir_gossip_hear(node, &head, now_ns), WEIR_GOSSIP_NEW);
    weir_gossip_hear_end(node, &head, true, now_ns);
    assert_int_equal(peer->known_ns, began_ns + 10 * SECOND);
    assert_int_equal(weir_gossip_unheard(node, &net->node[0].limit, now_ns), unheard_ns);
    assert_int_equal(weir_gossip_unheard(node, &net->node[0].limit, now_ns + SECOND), unheard_ns + SECOND);
}

/* What a node that never heard of the other takes for gone of a window: a unit for each two nanoseconds of it. */
static uint64_t feared(const struct weir_limit_spec *spec, const struct weir_event *event)
{
    struct net *net = net_begin(&the_net, 1, 2, spec, 1);
    struct weir_gossip *node = &net->node[0].gossip;
    const struct weir_event peek = { .now_ns = net_clock(net, 0) + event->now_ns, .window = event->window };
    struct weir_verdict verdict;
    node->synced = true;
    weir_gossip_reserve(node, net_key(net, 0, 0), &peek, true, &verdict);
    return spec->count - verdict.remaining;
}

/* A window of the calendar may be a twelfth longer than the period; a counter's begins at a multiple of it. */
static void gossip_key__what_others_may_admit_counts_from_the_start_of_the_window(void **state)
{
    (void)state;
    struct weir_limit_spec spec = { .algorithm = WEIR_FIXED_WINDOW, .count = 12 * SECOND, .period_ns = 12 * SECOND };
    struct weir_event event = { .now_ns = 100 * SECOND, .window = { .id = 7, .end_after_ns = 5 * SECOND } };
    assert_int_equal(feared(&spec, &event), 4 * SECOND + 1); /* half of 13 s - 5 s + 1 ns */
    event.window.end_after_ns--;
    assert_int_equal(feared(&spec, &event), 4 * SECOND + 1);
    event.window.end_after_ns = 12 * SECOND;
    assert_int_equal(feared(&spec, &event), SECOND / 2 + 1);
    spec.algorithm = WEIR_SLIDING_COUNTER;
    event.now_ns = 0;
    uint64_t in_window_ns = net_clock(&the_net, 0) % spec.period_ns;
    assert_int_equal(feared(&spec, &event), (in_window_ns + 1) / 2);
}

/* What is left of a window of 13 s, at its end, to a key that is new; `lost`: another node was lost early in it. */
static uint64_t left_late(const struct weir_limit_spec *spec, bool lost)
{
    struct net *net = net_begin(&the_net, 1, 2, spec, 1);
    struct weir_gossip *node = &net->node[0].gossip;
    net->now_ns += 100 * SECOND;
    const uint64_t now_ns = net_clock(net, 0);
    const struct weir_event peek = { .now_ns = now_ns, .window = { .id = 7, .end_after_ns = 200 * MS } };
    struct weir_verdict verdict;
    node->synced = true;
    if (lost)
        lose(net, now_ns - 12700 * MS, now_ns - 12300 * MS);
    weir_gossip_reserve(node, net_key(net, 0, 0), &peek, true, &verdict);
    return verdict.remaining;
}

/* A month has 31 days, and its period 30. */
static void gossip_key__a_loss_counts_until_the_end_of_a_long_window(void **state)
{
    (void)state;
    const struct weir_limit_spec spec = { .algorithm = WEIR_FIXED_WINDOW,
                                          .count = 12 * SECOND,
                                          .period_ns = 12 * SECOND };
    assert_int_equal(left_late(&spec, false) - left_late(&spec, true), 400 * MS / 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gossip_key__is_forgotten_when_its_limit_and_its_slack_are_whole),
        cmocka_unit_test(gossip_key__is_kept_while_units_are_set_aside),
        cmocka_unit_test(gossip_key__knows_whether_all_others_have_its_news),
        cmocka_unit_test(gossip_key__of_a_node_that_is_superseded_has_nothing_left),
        cmocka_unit_test(gossip_key__a_reload_takes_back_no_slack_that_had_refilled),
        cmocka_unit_test(gossip_key__a_reload_reckons_nothing_twice),
        cmocka_unit_test(gossip_key__a_reload_to_other_windows_hears_of_them),
        cmocka_unit_test(gossip_key__counts_of_long_ago_are_no_news),
        cmocka_unit_test(gossip_key__each_loss_costs_its_own_time),
        cmocka_unit_test(gossip_key__what_was_unheard_before_a_loss_counts_before_it),
        cmocka_unit_test(gossip_key__a_counter_forgets_windows_that_are_past),
        cmocka_unit_test(gossip_key__the_wait_for_slack_is_as_long_as_it_takes),
        cmocka_unit_test(gossip_key__what_a_former_start_admitted_is_charged_once),
        cmocka_unit_test(gossip_key__what_is_set_aside_here_is_used_beside_what_is_told),
        cmocka_unit_test(gossip_key__nothing_that_is_committed_is_no_news),
        cmocka_unit_test(gossip_key__is_hot_with_half_of_the_slack_used),
        cmocka_unit_test(gossip_key__what_is_cancelled_in_the_dark_is_there_again),
        cmocka_unit_test(gossip_key__a_late_answer_adds_nothing_to_what_was_unheard),
        cmocka_unit_test(gossip_key__what_others_may_admit_counts_from_the_start_of_the_window),
        cmocka_unit_test(gossip_key__a_loss_counts_until_the_end_of_a_long_window),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
