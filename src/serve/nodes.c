/* SPDX-License-Identifier: Apache-2.0
 *
 * Fills one struct weir_nodes from the counters and pictures of all loops (sharer.c), the gossip host and the
 * manager of locks. Counters of the loops are added up; of what every loop sees alike, such as losses of the
 * engine's state, the largest counts. Called by http_nodes.c, http_metrics.c and watch_look.c; wire/nodes.c writes
 * it as JSON. */
#include "serve/nodes.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/checked.h"
#include "limits/gossip_host.h"
#include "locks/manager.h"
#include "serve/locks.h"

struct weir_nodes_view {
    struct weir_nodes nodes;
    struct weir_nodes_engine engine;
    struct weir_nodes_server servers[WEIR_SHARER_SERVERS_MAX];
    struct weir_remote_server texts[WEIR_SHARER_SERVERS_MAX]; /* what `servers` points to */
    char last_error[sizeof(((struct weir_remote_stats *)0)->last_error)];
    uint64_t last_error_ns;
    struct weir_nodes_gossip gossip;
    struct weir_gossip_member seen[WEIR_NODES_MAX];
    struct weir_nodes_member members[WEIR_NODES_MAX];
    struct weir_nodes_locks locks;
    struct weir_lock_manager_state manager; /* what `locks` points to */
    struct weir_sharer_picture picture;     /* of the loop being added */
};

static uint64_t since(uint64_t now_ns, uint64_t then_ns)
{
    return weir_sub_sat(now_ns, then_ns);
}

/* Loops see the same servers, most of the time. */
static void add_server(struct weir_nodes_view *view, const struct weir_remote_server *seen, uint64_t now_ns)
{
    size_t i = 0;
    while (i < view->engine.servers_count && strcmp(view->texts[i].address, seen->address) != 0)
        i++;
    if (i == WEIR_SHARER_SERVERS_MAX)
        return;
    struct weir_nodes_server *server = &view->servers[i];
    if (i == view->engine.servers_count) {
        view->engine.servers_count++;
        view->texts[i] = *seen;
        *server = (struct weir_nodes_server){ .address = view->texts[i].address,
                                              .role = view->texts[i].role,
                                              .state = view->texts[i].state };
    }
    if (seen->warning[0] && !server->warning) {
        memcpy(view->texts[i].warning, seen->warning, sizeof(seen->warning));
        server->warning = view->texts[i].warning;
        view->engine.warnings++;
    }
    enum weir_breaker_state worst = weir_nodes_breaker(server);
    bool first = server->breakers[0] + server->breakers[1] + server->breakers[2] == 0;
    server->breakers[seen->breaker]++;
    if (first || weir_nodes_breaker(server) != worst)
        server->since_ns = since(now_ns, seen->breaker_since_ns);
    else if (seen->breaker == worst)
        server->since_ns = weir_max_u64(server->since_ns, since(now_ns, seen->breaker_since_ns));
}

static void add_remote(struct weir_nodes_view *view, const struct weir_remote_stats *stats)
{
    struct weir_nodes_engine *engine = &view->engine;
    engine->asked += stats->asked;
    engine->answered += stats->answered;
    engine->refused += stats->refused;
    engine->unknown += stats->unknown;
    engine->shed += stats->shed;
    engine->losses = weir_max_u64(engine->losses, stats->losses); /* each loop sees the same ones */
    engine->evicted = weir_max_u64(engine->evicted, stats->evicted);
    engine->corrupt += stats->corrupt;
    engine->given_back += stats->given_back;
    engine->given_back_lost += stats->given_back_lost;
    engine->reconnects += stats->reconnects;
    engine->scripts_loaded += stats->scripts_loaded;
    engine->redirects += stats->redirects;
    engine->primary_changes = weir_max_u64(engine->primary_changes, stats->primary_changes); /* as losses */
    if (stats->last_error[0] && stats->last_error_ns >= view->last_error_ns) {
        snprintf(view->last_error, sizeof(view->last_error), "%s", stats->last_error);
        view->last_error_ns = stats->last_error_ns;
        engine->last_error = view->last_error;
    }
}

static void add_host(struct weir_nodes_sharing *sum, const struct weir_share_host_stats *stats)
{
    sum->keys += stats->keys;
    sum->evicted += stats->evicted;
    sum->refused_full += stats->refused_full;
    sum->asks += stats->asks;
    sum->answers += stats->answers;
    sum->lost += stats->lost;
    sum->stale += stats->stale;
    sum->held += stats->held;
    sum->forfeited += stats->forfeited;
    sum->unsettled += stats->unsettled;
    sum->untold += stats->untold;
    sum->waiting += stats->waiting;
}

static void add_loop(struct weir_nodes_view *view, struct weir_loop *loop, uint64_t now_ns)
{
    struct weir_sharer_picture *picture = &view->picture;
    struct weir_nodes_sharing *sharing = &view->nodes.sharing;
    sharing->fallback_local += weir_counted(&loop->counters.fallbacks[WEIR_FALLBACK_LOCAL]);
    sharing->fallback_open += weir_counted(&loop->counters.fallbacks[WEIR_FALLBACK_OPEN]);
    sharing->fallback_closed += weir_counted(&loop->counters.fallbacks[WEIR_FALLBACK_CLOSED]);
    if (!weir_sharer_look(&loop->sharer, picture))
        return;
    view->nodes.engine = &view->engine;
    view->engine.ready = view->engine.ready && picture->ready;
    add_remote(view, &picture->remote);
    add_host(sharing, &picture->host);
    for (size_t i = 0; i < picture->servers_count; i++)
        add_server(view, &picture->servers[i], now_ns);
}

static void add_gossip(struct weir_nodes_view *view, struct weir_gossip_host *host, const struct weir_time *time)
{
    struct weir_gossip_stats stats;
    struct weir_nodes_gossip *gossip = &view->gossip;
    weir_gossip_host_stats(host, &stats);
    *gossip = (struct weir_nodes_gossip){
        .members = view->members,
        .members_count = weir_gossip_host_members(host, time, view->seen, WEIR_NODES_MAX),
        .keys = stats.keys,
        .evicted = stats.evicted,
        .refused_full = stats.refused_full,
        .sent = stats.sent,
        .bytes_sent = stats.bytes_sent,
        .received = stats.received,
        .forged = stats.forged,
        .replayed = stats.replayed,
        .foreign = stats.foreign,
        .malformed = stats.malformed,
        .twins = stats.twins,
        .unacked = stats.unacked,
        .synced = stats.synced,
        .refused_unsynced = stats.refused_unsynced,
        .refused_unheard = stats.refused_unheard,
        .refused_slack = stats.refused_slack,
        .refused_superseded = stats.refused_superseded,
    };
    for (size_t i = 0; i < gossip->members_count; i++)
        view->members[i] = (struct weir_nodes_member){ view->seen[i].name, view->seen[i].state, view->seen[i].epoch,
                                                       view->seen[i].heard_after_ns };
    view->nodes.gossip = gossip;
}

static void add_locks(struct weir_nodes_view *view, struct weir_lock_service *service)
{
    const struct weir_lock_manager_state *manager = &view->manager;
    weir_lock_service_state(service, &view->manager);
    view->locks = (struct weir_nodes_locks){
        .name = manager->engine.name,
        .up = manager->engine.up,
        .fault = manager->engine.fault[0] ? manager->engine.fault : NULL,
        .held = manager->locks_known ? manager->locks : UINT64_MAX,
        .granted = manager->granted,
        .refused = manager->held,
        .lost = manager->lost,
        .unknown = manager->unknown,
        .released = manager->released,
        .forgone = manager->forgone,
        .waiters = manager->waiting,
        .batches = manager->engine.batches,
        .failures = manager->engine.failures,
        .raised = manager->engine.raised,
        .incarnation = manager->engine.incarnation,
    };
    view->nodes.locks = &view->locks;
}

int weir_nodes_view_create(const struct weir_common *common, const struct weir_config *config,
                           struct weir_nodes_view **ret_view)
{
    struct weir_nodes_view *view = calloc(1, sizeof(*view));
    if (!view)
        return WEIR_ENOMEM;
    const struct weir_time time = weir_time_read();
    view->nodes.node = config->nodes_count ? config->node_name : NULL;
    view->nodes.count = weir_max_u64(config->nodes_count, 1);
    view->engine = (struct weir_nodes_engine){ .name = "redis", .ready = true, .servers = view->servers };
    for (size_t i = 0; i < common->loop_count; i++)
        add_loop(view, &common->loops[i], time.now_ns);
    view->engine.last_error_after_ns = since(time.now_ns, view->last_error_ns);
    if (common->gossip)
        add_gossip(view, common->gossip, &time);
    if (common->locks)
        add_locks(view, common->locks);
    *ret_view = view;
    return 0;
}

const struct weir_nodes *weir_nodes_view_of(const struct weir_nodes_view *view)
{
    return &view->nodes;
}

void weir_nodes_view_destroy(struct weir_nodes_view *view)
{
    free(view);
}
