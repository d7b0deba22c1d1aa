/* SPDX-License-Identifier: Apache-2.0
 *
 * A primary and replicas that lag by so much each, in virtual time, for questions about reads: one row that is counted
 * up. What a read may see is chosen by core/session/route.h, as the library and the service choose; everything is known
 * of every server at once, and no failover happens. The log's positions are 8 a commit. */
#pragma once

#include "base/assert.h"
#include "core/session/route.h"
#include "weir/limit.h"

#define LAB_MS (WEIR_NS_PER_SECOND / 1000)
#define LAB_SERVERS 3 /* the primary, and two replicas */
#define LAB_COMMITS_MAX 4096
#define LAB_SYSTEM 77

struct lab_world {
    uint64_t now_ns;
    uint64_t lag_ns[LAB_SERVERS];
    bool down[LAB_SERVERS];
    uint64_t commits_ns[LAB_COMMITS_MAX];
    uint64_t commits;
    struct weir_known known;
};

static inline void lab_world_commit(struct lab_world *world)
{
    weir_assert(world->commits < LAB_COMMITS_MAX);
    world->commits_ns[world->commits++] = world->now_ns;
}

/* The value of the row at the server now: how many commits it shows. A commit of so long ago as it lags is shown. */
static inline uint64_t lab_world_value(const struct lab_world *world, uint32_t server)
{
    uint64_t shown = world->commits;
    while (shown > 0 && world->commits_ns[shown - 1] + world->lag_ns[server] > world->now_ns)
        shown--;
    return shown;
}

static inline struct weir_shown lab_world_shown(const struct lab_world *world, uint32_t server)
{
    uint64_t position = 8 * (1 + lab_world_value(world, server));
    return (struct weir_shown){ .system = LAB_SYSTEM,
                                .position = position,
                                .received = position,
                                .flushed = server == 0 ? position : 0,
                                .run = server == 0,
                                .timeline = 1,
                                .primary = server == 0,
                                .settled = server == 0,
                                .streams = server != 0 };
}

/* Where a read goes now, as weir_route_choose says; `wait`: not yet. */
static inline struct weir_route lab_world_route(struct lab_world *world, const struct weir_session_token *token,
                                                uint64_t session, enum weir_session_strategy strategy,
                                                uint64_t wait_left_ns)
{
    struct weir_route_server servers[LAB_SERVERS];
    weir_known_run(&world->known, LAB_SYSTEM, 1, 0, 1, 8 * (1 + world->commits));
    for (uint32_t i = 0; i < LAB_SERVERS; i++)
        servers[i] = (struct weir_route_server){ .id = i + 1,
                                                 .shown = lab_world_shown(world, i),
                                                 .asked_ns = world->now_ns,
                                                 .lag_ns = world->lag_ns[i],
                                                 .replayed_ns = world->now_ns - world->lag_ns[i],
                                                 .settled_ns = i == 0 ? world->now_ns : 0,
                                                 .usable = !world->down[i] };
    const struct weir_route_request request = { .token = token,
                                                .known = &world->known,
                                                .servers = servers,
                                                .server_count = LAB_SERVERS,
                                                .session = session,
                                                .stay = WEIR_ROUTE_NONE,
                                                .came_ns = world->now_ns - 1,
                                                .wall_ns = world->now_ns,
                                                .wait_left_ns = wait_left_ns,
                                                .strategy = strategy,
                                                .behind = WEIR_BEHIND_LEADER };
    return weir_route_choose(&request);
}

static inline void lab_world_saw(const struct lab_world *world, uint32_t server, struct weir_session_token *token)
{
    struct weir_shown shown = lab_world_shown(world, server);
    struct weir_place place;
    int error = weir_place_seen(&shown, &place);
    weir_assert(error == 0);
    error = weir_session_token_add(token, &place, &world->known);
    weir_assert(error == 0);
}
