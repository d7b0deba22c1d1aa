/* SPDX-License-Identifier: Apache-2.0
 *
 * Nodes that tell each other definitions by datagrams, in a time of the test's own. Linked with
 * --wrap=weir_gossip_mac. For one file of a program. */
#pragma once

#include "limits/revision_talk.h"

#include <malloc.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <setjmp.h>

#include <cmocka.h>

#include "base/bytes.h"
#include "wire/gossip.h"

#define NODES 3
#define WALL_NS (UINT64_C(1700000000) * WEIR_NS_PER_SECOND)
#define ON_ITS_WAY 4096

struct datagram {
    uint32_t to;
    size_t size;
    uint8_t bytes[WEIR_REVISION_TALK_MAX];
};

struct net {
    struct weir_revisions *revisions[NODES];
    struct weir_revision_talk *talks[NODES];
    struct datagram *sent;
    size_t first, count;
    uint64_t now_ns;
    unsigned lost_percent, seed;
    bool cut[NODES];
    bool has_engine;
};

static const uint8_t secret[16] = { 1, 2, 3 };

bool __real_weir_gossip_mac(const uint8_t *key, const void *bytes, size_t size, uint8_t *ret_mac);
bool __wrap_weir_gossip_mac(const uint8_t *key, const void *bytes, size_t size, uint8_t *ret_mac);

static bool mac_fails; /* for want of memory */

bool __wrap_weir_gossip_mac(const uint8_t *key, const void *bytes, size_t size, uint8_t *ret_mac)
{
    return !mac_fails && __real_weir_gossip_mac(key, bytes, size, ret_mac);
}

static void on_send(void *context, uint32_t node, const void *bytes, size_t size)
{
    struct net *net = context;
    assert_true(size <= WEIR_REVISION_TALK_MAX && net->count < ON_ITS_WAY);
    assert_false(mac_fails); /* it cannot be signed */
    if ((unsigned)rand_r(&net->seed) % 100 < net->lost_percent)
        return;
    struct datagram *datagram = &net->sent[net->count++];
    datagram->to = node;
    datagram->size = size;
    memcpy(datagram->bytes, bytes, size);
}

static struct weir_time now_of(const struct net *net)
{
    return (struct weir_time){ net->now_ns, WALL_NS + net->now_ns };
}

static void own(struct net *net, uint32_t node, const char *text, size_t size)
{
    const struct weir_revision_own limit = { "x", { text, size }, 0 };
    assert_int_equal(weir_revisions_own(net->revisions[node], &limit, 1, now_of(net).wall_ns), 0);
}

static void start(struct net *net, uint32_t node, const char *text)
{
    char name[2] = { (char)('a' + node), '\0' };
    weir_revision_talk_destroy(net->talks[node]);
    weir_revisions_destroy(net->revisions[node]);
    assert_int_equal(weir_revisions_create(secret, name, &net->revisions[node]), 0);
    own(net, node, text, strlen(text));
    const struct weir_revision_talk_options options = {
        .revisions = net->revisions[node],
        .secret = secret,
        .nodes = NODES,
        .node = node,
        .may_be_alone = !net->has_engine,
        .now_ns = net->now_ns,
        .send = on_send,
        .context = net,
    };
    assert_int_equal(weir_revision_talk_create(&options, &net->talks[node]), 0);
}

static void net_start(struct net *net, const char *text)
{
    *net = (struct net){ .now_ns = WEIR_NS_PER_SECOND, .seed = 20261122 };
    net->sent = calloc(ON_ITS_WAY, sizeof(net->sent[0]));
    for (uint32_t node = 0; node < NODES; node++)
        start(net, node, text);
}

static void net_stop(struct net *net)
{
    for (uint32_t node = 0; node < NODES; node++) {
        weir_revision_talk_destroy(net->talks[node]);
        weir_revisions_destroy(net->revisions[node]);
    }
    free(net->sent);
}

static void run(struct net *net, uint64_t duration_ns)
{
    for (uint64_t end_ns = net->now_ns + duration_ns; net->now_ns < end_ns; net->now_ns += WEIR_NS_PER_SECOND / 100) {
        const struct weir_time time = now_of(net);
        for (uint32_t node = 0; node < NODES; node++)
            (void)weir_revision_talk_turn(net->talks[node], &time);
        for (net->first = 0; net->first < net->count; net->first++) {
            struct datagram datagram = net->sent[net->first];
            if (!net->cut[datagram.to] && !net->cut[datagram.bytes[5]])
                assert_true(weir_revision_talk_heard(net->talks[datagram.to], datagram.bytes, datagram.size, &time));
        }
        net->count = 0;
    }
}

/* The definition by which this node decides, whose file says `file`. */
static struct weir_revision_found found(struct net *net, uint32_t node, const char *file)
{
    struct weir_revision_found it;
    const struct weir_revision_own limit = { "x", { file, strlen(file) }, 0 };
    assert_int_equal(weir_revisions_find(net->revisions[node], &limit, now_of(net).wall_ns, &it), 0);
    return it;
}

static void decides_by(struct net *net, uint32_t node, const char *file, const char *text)
{
    struct weir_revision_found it = found(net, node, file);
    assert_true(strcmp(it.text ? it.text : file, text) == 0);
    free(it.text);
}
