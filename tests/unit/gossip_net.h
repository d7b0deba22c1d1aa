/* SPDX-License-Identifier: Apache-2.0
 *
 * A few gossiping nodes over a network that loses, repeats, reorders and parts them, for tests; everything by a seed.
 * One limit, a few keys. What was admitted is kept as a list, against which the bound is counted. */
#pragma once

#include <string.h>

#include "core/share/gossip.h"
#include "fixture.h"
#include "random.h"

#define NET_NODES 5
#define NET_KEYS 2
#define NET_MAIL 4096
#define NET_ADMITTED 40000

struct net_word {
    struct weir_gossip_word word;
    struct weir_gossip_entry entries[NET_NODES];
    size_t key;
};

struct net_mail {
    uint64_t at_ns; /* 0: free */
    struct weir_gossip_head head;
    struct net_word words[NET_KEYS];
    size_t count;
};

struct net_node {
    struct weir_gossip gossip;
    struct weir_gossip_peer peers[NET_NODES];
    struct weir_gossip_limit limit;
    struct weir_gossip_key keys[NET_KEYS];
    struct weir_gossip_about about[NET_KEYS][NET_NODES];
    bool known[NET_KEYS];
    uint64_t reserved[NET_KEYS];
    uint64_t say_ns;
    uint64_t ahead_ns; /* its clock is so far ahead of the test's */
};

struct net_admitted {
    uint64_t at_ns, units;
};

struct net {
    struct test_random random;
    uint32_t nodes;
    size_t keys;
    struct weir_limit_spec spec;
    uint64_t slack;
    uint64_t now_ns, interval_ns, latency_ns;
    uint64_t loss, twice;              /* of 100 */
    bool parted[NET_NODES][NET_NODES]; /* from, to */
    uint64_t words_max;                /* of a message */
    struct net_node node[NET_NODES];
    struct net_mail mail[NET_MAIL];
    size_t mail_used; /* behind them none ever was under way: a mail is large, to look at each took most of the time */
    struct net_admitted admitted[NET_KEYS][NET_ADMITTED];
    size_t admitted_count[NET_KEYS];
    uint64_t starts, crashes, refused;
    uint64_t losses; /* times when the last node that was in the know started again: all state was lost */
};

static inline uint64_t net_clock(const struct net *net, uint32_t i)
{
    return net->now_ns + net->node[i].ahead_ns;
}

static inline struct weir_event net_event(const struct net *net, uint32_t i, uint64_t cost)
{
    struct weir_event event = { .now_ns = net_clock(net, i), .cost = cost };
    if (net->spec.algorithm == WEIR_FIXED_WINDOW && net->spec.align == WEIR_ALIGN_CALENDAR) {
        event.window.id = net->now_ns / net->spec.period_ns + 1;
        event.window.end_after_ns = net->spec.period_ns - net->now_ns % net->spec.period_ns;
    }
    return event;
}

static inline void net_start(struct net *net, uint32_t i)
{
    struct net_node *node = &net->node[i];
    struct weir_fault fault;
    uint64_t ahead_ns = node->ahead_ns;
    bool lost = node->gossip.synced;
    for (uint32_t j = 0; j < net->nodes; j++)
        lost = lost && (j == i || !net->node[j].gossip.synced);
    net->losses += lost;
    memset(node, 0, sizeof *node);
    node->ahead_ns = ahead_ns ? ahead_ns : test_random_below(&net->random, 100 * SECOND) + SECOND;
    weir_gossip_init(&node->gossip, net->nodes, i, ++net->starts, node->peers, net_clock(net, i));
    assert_int_equal(weir_gossip_limit_init(&node->limit, 1, &net->spec, net->slack, &fault), 0);
    weir_gossip_limit_add(&node->gossip, &node->limit);
    node->say_ns = net->now_ns + test_random_below(&net->random, net->interval_ns);
}

/* All of them, started together. */
static inline struct net *net_begin(struct net *net, uint64_t seed, uint32_t nodes, const struct weir_limit_spec *spec,
                                    uint64_t slack)
{
    memset(net, 0, sizeof *net);
    net->random.state = seed;
    net->nodes = nodes;
    net->keys = NET_KEYS;
    net->spec = *spec;
    net->slack = slack;
    net->now_ns = T0;
    net->interval_ns = 100 * MS;
    net->latency_ns = 10 * MS;
    net->words_max = NET_KEYS;
    for (uint32_t i = 0; i < nodes; i++)
        net_start(net, i);
    return net;
}

static inline struct weir_gossip_key *net_key(struct net *net, uint32_t i, size_t k)
{
    struct net_node *node = &net->node[i];
    if (!node->known[k]) {
        uint64_t id[2] = { k + 1, 0 };
        node->known[k] = true;
        weir_gossip_key_init(&node->gossip, &node->keys[k], id, &node->limit, node->about[k], net_clock(net, i));
    }
    return &node->keys[k];
}

/* Asks for `cost` at node i; what it admits is committed at once, later or never. */
static inline bool net_ask(struct net *net, uint32_t i, size_t k, uint64_t cost, bool at_once)
{
    struct net_node *node = &net->node[i];
    struct weir_event event = net_event(net, i, cost);
    struct weir_gossip_key *key = net_key(net, i, k);
    struct weir_verdict verdict, peeked;
    enum weir_share_say peek = weir_gossip_reserve(&node->gossip, key, &event, true, &peeked);
    enum weir_share_say say = weir_gossip_reserve(&node->gossip, key, &event, false, &verdict);
    assert_int_equal(peek, say);
    assert_true(verdict.remaining <= verdict.capacity);
    assert_int_equal(verdict.admitted, say == WEIR_SHARE_YES);
    if (say == WEIR_SHARE_NO) {
        assert_true(verdict.retry_after_ns > 0);
        net->refused++;
        return false;
    }
    assert_int_equal(say, WEIR_SHARE_YES);
    if (!at_once && test_random_below(&net->random, 4) == 0) {
        weir_gossip_cancel(&node->gossip, key, &event);
        return false;
    }
    assert_true(net->admitted_count[k] < NET_ADMITTED);
    net->admitted[k][net->admitted_count[k]++] = (struct net_admitted){ net->now_ns, cost };
    if (at_once)
        weir_gossip_commit(&node->gossip, key, &event);
    else
        node->reserved[k] += cost;
    return true;
}

static inline void net_commit(struct net *net, uint32_t i)
{
    struct net_node *node = &net->node[i];
    for (size_t k = 0; k < net->keys; k++) {
        struct weir_event event = net_event(net, i, node->reserved[k]);
        if (node->reserved[k] > 0)
            weir_gossip_commit(&node->gossip, net_key(net, i, k), &event);
        node->reserved[k] = 0;
    }
}

static inline void net_post(struct net *net, const struct net_mail *mail)
{
    if (net->parted[mail->head.from][mail->head.to] || test_random_below(&net->random, 100) < net->loss)
        return;
    uint64_t copies = 1 + (test_random_below(&net->random, 100) < net->twice);
    for (size_t m = 0; m < NET_MAIL && copies > 0; m++) {
        if (net->mail[m].at_ns > 0)
            continue;
        net->mail[m] = *mail;
        net->mail_used = m < net->mail_used ? net->mail_used : m + 1;
        net->mail[m].at_ns = net->now_ns + 1 + test_random_below(&net->random, net->latency_ns);
        for (size_t w = 0; w < mail->count; w++)
            for (uint32_t j = 0; j < net->nodes; j++)
                if (net->mail[m].words[w].word.entries[j])
                    net->mail[m].words[w].word.entries[j] = &net->mail[m].words[w].entries[j];
        copies--;
    }
}

static inline void net_say(struct net *net, uint32_t i, uint32_t to)
{
    struct net_node *node = &net->node[i];
    struct net_mail mail = { .count = 0 };
    uint64_t since;
    struct weir_gossip_key *key = weir_gossip_news(&node->gossip, to, &since);
    weir_gossip_say(&node->gossip, to, since, net_clock(net, i), &mail.head);
    for (; key && mail.count < net->words_max; key = key->newer) {
        struct weir_event event = net_event(net, i, 0);
        struct net_word *word = &mail.words[mail.count++];
        word->key = (size_t)(key - node->keys);
        weir_gossip_word(&node->gossip, key, &event, &word->word);
        for (uint32_t j = 0; j < net->nodes; j++)
            if (word->word.entries[j])
                word->entries[j] = *word->word.entries[j];
    }
    weir_gossip_say_end(&node->gossip, &mail.head, key);
    net_post(net, &mail);
}

static inline void net_hear(struct net *net, const struct net_mail *mail)
{
    uint32_t i = mail->head.to;
    struct net_node *node = &net->node[i];
    if (weir_gossip_hear(&node->gossip, &mail->head, net_clock(net, i)) != WEIR_GOSSIP_NEW)
        return;
    bool whole = true;
    for (size_t w = 0; w < mail->count; w++) {
        struct weir_event event = net_event(net, i, 0);
        whole &= weir_gossip_hear_word(&node->gossip, net_key(net, i, mail->words[w].key), &mail->head,
                                       &mail->words[w].word, &event);
    }
    weir_gossip_hear_end(&node->gossip, &mail->head, whole, net_clock(net, i));
}

/* Lets `ns` pass: mail comes, nodes gossip. */
static inline void net_pass(struct net *net, uint64_t ns)
{
    uint64_t end_ns = net->now_ns + ns;
    for (;;) {
        struct net_mail *next = NULL;
        uint64_t at_ns = end_ns;
        uint32_t say = net->nodes;
        for (size_t m = 0; m < net->mail_used; m++)
            if (net->mail[m].at_ns > 0 && net->mail[m].at_ns <= at_ns) {
                next = &net->mail[m];
                at_ns = next->at_ns;
            }
        for (uint32_t i = 0; i < net->nodes; i++)
            if (net->node[i].say_ns < at_ns) {
                say = i;
                at_ns = net->node[i].say_ns;
            }
        net->now_ns = weir_max_u64(net->now_ns, at_ns);
        if (say < net->nodes) {
            for (uint32_t to = 0; to < net->nodes; to++)
                if (to != say)
                    net_say(net, say, to);
            net->node[say].say_ns = net->now_ns + net->interval_ns;
        } else if (next) {
            next->at_ns = 0;
            net_hear(net, next);
        } else {
            return;
        }
    }
}

static inline uint64_t net_remaining(struct net *net, uint32_t i, size_t k)
{
    struct weir_event event = net_event(net, i, 0);
    struct weir_verdict verdict;
    weir_gossip_reserve(&net->node[i].gossip, net_key(net, i, k), &event, true, &verdict);
    return verdict.remaining;
}

/* Units used as the node has it, without fear. */
static inline uint64_t net_used(struct net *net, uint32_t i, size_t k)
{
    struct weir_event event = net_event(net, i, 0);
    struct weir_gossip_word word;
    weir_gossip_word(&net->node[i].gossip, net_key(net, i, k), &event, &word);
    return word.used;
}

static inline void net_take(struct net *net, uint32_t i, size_t k, unsigned units)
{
    for (; units > 0; units -= 10) {
        assert_true(net_ask(net, i, k, 10, true));
        net_pass(net, 250 * MS);
    }
}

static inline void net_part(struct net *net, uint32_t node, bool parted)
{
    for (uint32_t j = 0; j < net->nodes; j++)
        net->parted[j][node] = net->parted[node][j] = parted;
}

/* The most, over every [s,t], of what was admitted of key k less n*(t-s)/p, in units * p. */
static inline weir_u128 net_excess(const struct net *net, size_t k)
{
    weir_u128 most = 0;
    for (size_t s = 0; s < net->admitted_count[k]; s++) {
        weir_u128 sum = 0;
        for (size_t t = s; t < net->admitted_count[k]; t++) {
            sum += (weir_u128)net->admitted[k][t].units * net->spec.period_ns;
            weir_u128 back = (weir_u128)net->spec.count * (net->admitted[k][t].at_ns - net->admitted[k][s].at_ns);
            if (sum > back && sum - back > most)
                most = sum - back;
        }
    }
    return most;
}

/* The most that was admitted in one window of the calendar. */
static inline uint64_t net_window_most(const struct net *net, size_t k)
{
    uint64_t most = 0, sum = 0, window = 0;
    for (size_t s = 0; s < net->admitted_count[k]; s++) {
        if (net->admitted[k][s].at_ns / net->spec.period_ns != window)
            sum = 0;
        window = net->admitted[k][s].at_ns / net->spec.period_ns;
        sum += net->admitted[k][s].units;
        most = weir_max_u64(most, sum);
    }
    return most;
}
