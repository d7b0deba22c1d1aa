/* SPDX-License-Identifier: Apache-2.0
 *
 * One UDP socket for two protocols: a datagram goes to the talk of revisions (limits/revision_talk.c) first and, if it
 * is not of that kind, to the gossip host (limits/gossip_host.c). One timer runs at the earlier of the times that the
 * two ask for. Created, told of reloads and closed by server.c. The bytes of a gossip datagram are in wire/gossip.c. */
#include "serve/gossip.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/checked.h"
#include "weir/limiter.h"
#include "wire/gossip.h"

struct weir_gossip_server {
    struct weir_gossip_host *host;
    struct weir_revision_talk *talk;
    uv_udp_t socket;
    uv_timer_t timer;
    bool closed;
    struct sockaddr_storage peers[WEIR_GOSSIP_NODES_MAX];
    char datagram[WEIR_GOSSIP_DATAGRAM_MAX + 1]; /* one more: what is too long shows */
};

static int sockaddr_of(const struct weir_address *address, struct sockaddr_storage *ret_address)
{
    if (uv_ip4_addr(address->host, address->port, (struct sockaddr_in *)ret_address) == 0 ||
        uv_ip6_addr(address->host, address->port, (struct sockaddr_in6 *)ret_address) == 0)
        return 0;
    return WEIR_EINVAL;
}

/* What cannot be sent at once is lost, as on the way. */
static void on_send(void *context, uint32_t node, const void *datagram, size_t size)
{
    struct weir_gossip_server *gossip = context;
    uv_buf_t bytes = uv_buf_init((char *)(uintptr_t)datagram, (unsigned)size);
    (void)uv_udp_try_send(&gossip->socket, &bytes, 1, (const struct sockaddr *)&gossip->peers[node]);
}

static void on_room(uv_handle_t *handle, size_t wanted, uv_buf_t *ret_room)
{
    (void)wanted;
    struct weir_gossip_server *gossip = handle->data;
    *ret_room = uv_buf_init(gossip->datagram, sizeof gossip->datagram);
}

static void on_datagram(uv_udp_t *socket, ssize_t size, const uv_buf_t *bytes, const struct sockaddr *from,
                        unsigned flags)
{
    (void)flags; /* UV_UDP_PARTIAL: it is too long, and its size says so */
    struct weir_gossip_server *gossip = socket->data;
    struct weir_time time = weir_time_read();
    if (size >= 0 && from && !weir_revision_talk_heard(gossip->talk, bytes->base, (size_t)size, &time))
        weir_gossip_host_heard(gossip->host, bytes->base, (size_t)size, &time);
}

static void on_turn(uv_timer_t *timer)
{
    struct weir_gossip_server *gossip = timer->data;
    struct weir_time time = weir_time_read();
    uint64_t next_ns = weir_gossip_host_turn(gossip->host, &time);
    next_ns = weir_min_u64(next_ns, weir_revision_talk_turn(gossip->talk, &time));
    uint64_t ms = weir_div_ceil(weir_sub_sat(next_ns, time.now_ns), WEIR_NS_PER_SECOND / 1000);
    uv_timer_start(timer, on_turn, weir_max_u64(ms, 1), 0);
}

/* ---- life ---- */

bool weir_gossip_is_used(const struct weir_rules *rules)
{
    for (size_t i = 0; i < weir_rules_count(rules); i++)
        if (weir_rules_limit(rules, i)->limit.sharing == WEIR_SHARING_GOSSIP)
            return true;
    return false;
}

/* Without a gossiped limit too, where it could be: a reload may bring one. */
static bool takes_part(const struct weir_config *config, const struct weir_rules *rules)
{
    bool could = config->nodes_count > 0 && config->nodes_count <= WEIR_GOSSIP_NODES_MAX && config->cluster_secret_set;
    for (size_t j = 0; could && j < config->nodes_count; j++)
        could = config->nodes[j].gossip.kind == WEIR_ADDRESS_TCP;
    return could || weir_gossip_is_used(rules);
}

static int open_talk(struct weir_gossip_server *gossip, const struct weir_config *config,
                     struct weir_revisions *revisions)
{
    const struct weir_revision_talk_options options = {
        .revisions = revisions,
        .secret = config->cluster_secret,
        .nodes = (uint32_t)config->nodes_count,
        .node = (uint32_t)config->node,
        .may_be_alone = config->redis.servers_count == 0,
        .now_ns = weir_time_read().now_ns,
        .send = on_send,
        .context = gossip,
    };
    return weir_revision_talk_create(&options, &gossip->talk);
}

static int open_host(struct weir_gossip_server *gossip, const struct weir_config *config, struct weir_fault *ret_fault)
{
    const char *names[WEIR_GOSSIP_NODES_MAX];
    struct weir_time time = weir_time_read();
    for (size_t j = 0; j < config->nodes_count && j < WEIR_GOSSIP_NODES_MAX; j++) {
        names[j] = config->nodes[j].name;
        if (config->nodes[j].gossip.kind != WEIR_ADDRESS_TCP ||
            sockaddr_of(&config->nodes[j].gossip, &gossip->peers[j])) {
            snprintf(ret_fault->field, sizeof ret_fault->field, "gossip");
            snprintf(ret_fault->text, sizeof ret_fault->text, "of node \"%.64s\" must be IP:PORT", names[j]);
            return WEIR_EINVAL;
        }
    }
    const struct weir_gossip_host_options options = {
        .secret = config->cluster_secret,
        .nodes = (uint32_t)config->nodes_count,
        .node = (uint32_t)config->node,
        .names = names,
        .now_ns = time.now_ns,
        .epoch = time.wall_ns,
        .revised = true,
        .send = on_send,
        .context = gossip,
    };
    return weir_gossip_host_create(&options, &gossip->host, ret_fault);
}

static int open_socket(struct weir_gossip_server *gossip, const struct weir_config *config, uv_loop_t *loop,
                       struct weir_fault *ret_fault)
{
    if (uv_udp_init(loop, &gossip->socket))
        return WEIR_ENOMEM;
    uv_timer_init(loop, &gossip->timer);
    gossip->socket.data = gossip->timer.data = gossip;
    int error = uv_udp_bind(&gossip->socket, (const struct sockaddr *)&gossip->peers[config->node], 0);
    if (!error)
        error = uv_udp_recv_start(&gossip->socket, on_room, on_datagram);
    if (!error) {
        uv_timer_start(&gossip->timer, on_turn, 0, 0);
        return 0;
    }
    const struct weir_address *address = &config->nodes[config->node].gossip;
    snprintf(ret_fault->field, sizeof ret_fault->field, "gossip");
    snprintf(ret_fault->text, sizeof ret_fault->text, "cannot bind %.64s:%u (UDP): %s", address->host, address->port,
             uv_strerror(error));
    weir_gossip_server_close(gossip);
    uv_run(loop, UV_RUN_NOWAIT); /* so that the memory may go */
    return WEIR_EIO;
}

int weir_gossip_server_create(const struct weir_config *config, const struct weir_rules *rules,
                              struct weir_revisions *revisions, uv_loop_t *loop, struct weir_gossip_server **ret_gossip,
                              struct weir_fault *ret_fault)
{
    if (!takes_part(config, rules)) {
        *ret_gossip = NULL;
        return 0;
    }
    struct weir_gossip_server *gossip = calloc(1, sizeof *gossip);
    if (!gossip)
        return WEIR_ENOMEM;
    int error = open_host(gossip, config, ret_fault);
    if (!error)
        error = open_talk(gossip, config, revisions);
    if (!error)
        error = open_socket(gossip, config, loop, ret_fault);
    if (error) {
        weir_revision_talk_destroy(gossip->talk);
        weir_gossip_host_destroy(gossip->host);
        free(gossip);
        return error;
    }
    weir_gossip_server_limits(gossip, rules);
    *ret_gossip = gossip;
    return 0;
}

struct weir_gossip_host *weir_gossip_server_host(struct weir_gossip_server *gossip)
{
    return gossip ? gossip->host : NULL;
}

bool weir_gossip_server_synced(struct weir_gossip_host *host, const struct weir_rules *rules)
{
    return !host || !weir_gossip_is_used(rules) || weir_gossip_host_synced(host);
}

void weir_gossip_server_limits(struct weir_gossip_server *gossip, const struct weir_rules *rules)
{
    if (!gossip)
        return;
    size_t count = weir_rules_variants(rules), kept = 0;
    struct weir_time time = weir_time_read();
    const struct weir_remote_limit **limits = calloc(count + 1, sizeof *limits);
    uint64_t *slacks = calloc(count + 1, sizeof *slacks);
    for (size_t i = 0; limits && slacks && i < count; i++) {
        const struct weir_rule *rule = weir_rules_variant(rules, i);
        if (rule->limit.sharing != WEIR_SHARING_GOSSIP || !rule->limit.remote)
            continue;
        limits[kept] = rule->limit.remote;
        slacks[kept++] = rule->limit.slack;
    }
    /* Without memory the former ones decide until the next reload, and limits that are new are met when asked for. */
    if (limits && slacks)
        weir_gossip_host_limits(gossip->host, limits, slacks, kept, &time);
    free(limits);
    free(slacks);
}

void weir_gossip_server_close(struct weir_gossip_server *gossip)
{
    if (!gossip || gossip->closed)
        return;
    gossip->closed = true;
    uv_close((uv_handle_t *)&gossip->socket, NULL);
    uv_close((uv_handle_t *)&gossip->timer, NULL);
}

void weir_gossip_server_destroy(struct weir_gossip_server *gossip)
{
    if (!gossip)
        return;
    weir_assert(gossip->closed);
    weir_revision_talk_destroy(gossip->talk);
    weir_gossip_host_destroy(gossip->host);
    free(gossip);
}
