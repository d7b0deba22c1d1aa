/* SPDX-License-Identifier: Apache-2.0
 *
 * Gossip hosts of one process and the datagrams between them, on a clock of the test's, for their tests. */
#pragma once

#include <stdlib.h>
#include <string.h>

#include "fixture.h"
#include "limits/gossip_host.h"
#include "wire/gossip.h"

#define NODES 3
#define MAIL 20000

struct mail {
    uint32_t from, to;
    size_t size;
    uint8_t bytes[WEIR_GOSSIP_DATAGRAM_MAX];
};

struct net {
    struct weir_gossip_host *hosts[NODES + 1]; /* and a twin, or whom a test likes */
    struct place {
        struct net *net;
        uint32_t node;
    } place[NODES + 1];
    bool cut[NODES + 1]; /* sends nothing, hears nothing */
    bool apart;          /* a and b do not hear each other */
    bool deaf;           /* a does not hear b, who hears a */
    struct mail *mail;
    size_t mail_count;
    uint64_t now_ns, epoch, keys_max, bytes_per_s;
    struct weir_remote_limit limit, other; /* an override, or what a reload makes of the limit */
    bool with_limit, with_other;
    uint64_t slack;
};

static const uint8_t secret[16] = "sixteen bytes :)";
static const char *const names[NODES] = { "a", "b", "c" };

static inline void on_send(void *context, uint32_t node, const void *datagram, size_t size)
{
    struct place *place = context;
    struct net *net = place->net;
    if (net->cut[place->node] || (net->apart && place->node + node == 1))
        return;
    if (net->deaf && place->node == 1 && node == 0)
        return;
    assert_true(net->mail_count < MAIL);
    struct mail *mail = &net->mail[net->mail_count++];
    mail->from = place->node;
    mail->to = node;
    mail->size = size;
    memcpy(mail->bytes, datagram, size);
}

static inline struct weir_time now(const struct net *net)
{
    return (struct weir_time){ .now_ns = net->now_ns, .wall_ns = net->now_ns };
}

static inline void reload(struct net *net, uint32_t slot)
{
    const struct weir_remote_limit *limits[2];
    const uint64_t slacks[] = { net->slack, net->slack };
    struct weir_time time = now(net);
    size_t count = 0;
    if (net->with_limit)
        limits[count++] = &net->limit;
    if (net->with_other)
        limits[count++] = &net->other;
    weir_gossip_host_limits(net->hosts[slot], limits, slacks, count, &time);
}

static inline void start(struct net *net, uint32_t slot, uint32_t node, uint32_t nodes)
{
    net->place[slot] = (struct place){ net, slot };
    struct weir_gossip_host_options options = { .secret = secret,
                                                .nodes = nodes,
                                                .node = node,
                                                .names = names,
                                                .keys_max = net->keys_max,
                                                .bytes_per_s = net->bytes_per_s,
                                                .now_ns = net->now_ns,
                                                .epoch = ++net->epoch,
                                                .send = on_send,
                                                .context = &net->place[slot] };
    assert_int_equal(weir_gossip_host_create(&options, &net->hosts[slot], NULL), 0);
    reload(net, slot);
}

static inline struct weir_limit_spec spec_of(const char *rate)
{
    struct weir_limit_spec spec = { .count = 0 };
    unsigned count, period;
    assert_int_equal(sscanf(rate, "%u/%us", &count, &period), 2);
    spec.count = count;
    spec.period_ns = period * SECOND;
    return spec;
}

static inline struct net *net_create(const char *rate, uint64_t slack)
{
    struct net *net = calloc(1, sizeof *net);
    struct weir_limit_spec spec = spec_of(rate);
    net->mail = calloc(MAIL, sizeof *net->mail);
    net->now_ns = T0;
    net->slack = slack;
    net->with_limit = true;
    assert_int_equal(weir_remote_limit_init(&net->limit, "shared", &spec, NULL), 0);
    return net;
}

static inline void start_all(struct net *net)
{
    for (uint32_t i = 0; i < NODES; i++)
        start(net, i, i, NODES);
}

static inline void net_destroy(struct net *net)
{
    for (uint32_t i = 0; i <= NODES; i++)
        weir_gossip_host_destroy(net->hosts[i]);
    weir_remote_limit_deinit(&net->limit);
    weir_remote_limit_deinit(&net->other);
    free(net->mail);
    free(net);
}

/* Everything under way arrives, and what it brings about. */
static inline void deliver(struct net *net)
{
    struct weir_time time = now(net);
    for (size_t m = 0; m < net->mail_count; m++) {
        struct mail *mail = &net->mail[m];
        if (net->hosts[mail->to] && !net->cut[mail->to])
            weir_gossip_host_heard(net->hosts[mail->to], mail->bytes, mail->size, &time);
    }
    net->mail_count = 0;
}

static inline void pass(struct net *net, uint64_t ns)
{
    for (uint64_t end_ns = net->now_ns + ns; net->now_ns < end_ns; net->now_ns += 10 * MS) {
        struct weir_time time = now(net);
        for (uint32_t i = 0; i <= NODES; i++)
            if (net->hosts[i])
                weir_gossip_host_turn(net->hosts[i], &time);
        deliver(net);
    }
}

static inline struct weir_remote_key key_of(unsigned number)
{
    struct weir_remote_key key;
    struct weir_slice value = { &number, sizeof number };
    assert_int_equal(weir_remote_key_init(secret, "shared", &value, 1, &key), 0);
    return key;
}

/* Asks `times` times for one unit; how often it was admitted. */
static inline unsigned take_of(struct net *net, const struct weir_remote_limit *limit, uint32_t i, unsigned number,
                               unsigned times)
{
    unsigned admitted = 0;
    struct weir_remote_key key = key_of(number);
    struct weir_time time = now(net);
    for (unsigned n = 0; n < times; n++) {
        enum weir_share_say say;
        struct weir_verdict verdict;
        assert_int_equal(
            weir_gossip_host_reserve(net->hosts[i], limit, net->slack, &key, 1, false, &time, &say, &verdict), 0);
        if (say != WEIR_SHARE_YES)
            continue;
        weir_gossip_host_commit(net->hosts[i], &key, 1, &time);
        admitted++;
    }
    return admitted;
}

static inline unsigned take(struct net *net, uint32_t i, unsigned number, unsigned times)
{
    return take_of(net, &net->limit, i, number, times);
}

static inline struct weir_gossip_stats stats_of(struct net *net, uint32_t i)
{
    struct weir_gossip_stats stats;
    weir_gossip_host_stats(net->hosts[i], &stats);
    return stats;
}

static inline const char *state_of(struct net *net, uint32_t i, uint32_t of)
{
    struct weir_gossip_member members[NODES];
    struct weir_time time = now(net);
    assert_int_equal(weir_gossip_host_members(net->hosts[i], &time, members, NODES), NODES);
    return members[of].state;
}
