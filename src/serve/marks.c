/* SPDX-License-Identifier: Apache-2.0
 *
 * A mark is a hash of what a person would want to know of at once: states and names, not what is counted all the time.
 * Called by server.c, each time that it looks at what deserves a line. */
#include "serve/marks.h"

#include <string.h>

#include "base/siphash.h"
#include "observe/last.h"
#include "serve/follower.h"
#include "serve/nodes.h"
#include "serve/sessions.h"

#define MARK_BITS 53 /* a whole number in every reader of JSON */

static void add_text(struct weir_siphash_state *hash, const char *text)
{
    weir_siphash_add(hash, text ? text : "", text ? strlen(text) + 1 : 1);
}

static void add_number(struct weir_siphash_state *hash, uint64_t number)
{
    weir_siphash_add(hash, &number, sizeof(number));
}

static struct weir_siphash_state begin(void)
{
    static const struct weir_sip_key fixed = { 0, 0 }; /* the texts are our own */
    struct weir_siphash_state hash;
    weir_siphash_start(&hash, &fixed);
    return hash;
}

static void put(_Atomic uint64_t *mark, struct weir_siphash_state *hash)
{
    atomic_store_explicit(mark, weir_siphash_end(hash) >> (64 - MARK_BITS), memory_order_relaxed);
}

/* What is in force, and how the last reload went. */
static void mark_limits(struct weir_common *common, const struct weir_setup *setup)
{
    struct weir_siphash_state hash = begin();
    struct weir_follower_view view = { 0 };
    pthread_mutex_lock(&common->reloads.lock);
    add_number(&hash, common->reloads.done);
    add_number(&hash, common->reloads.failed);
    pthread_mutex_unlock(&common->reloads.lock);
    add_number(&hash, setup->origin.wall_ns);
    if (common->follower)
        weir_follower_view(common->follower, &view);
    add_number(&hash, view.in_force);
    add_number(&hash, view.newest);
    put(&common->marks.limits, &hash);
}

static void add_engine(struct weir_siphash_state *hash, const struct weir_nodes_engine *engine)
{
    add_number(hash, engine->ready);
    for (size_t i = 0; i < engine->servers_count; i++) {
        const struct weir_nodes_server *server = &engine->servers[i];
        add_text(hash, server->address);
        add_text(hash, server->state);
        add_text(hash, server->role);
        add_text(hash, server->warning);
        add_number(hash, weir_nodes_breaker(server));
    }
}

static void mark_nodes(struct weir_common *common, const struct weir_setup *setup)
{
    struct weir_siphash_state hash = begin();
    struct weir_nodes_view *view = NULL;
    if (weir_nodes_view_create(common, setup->config, &view))
        return; /* memory is out: the next look comes soon */
    const struct weir_nodes *nodes = weir_nodes_view_of(view);
    if (nodes->engine)
        add_engine(&hash, nodes->engine);
    for (size_t i = 0; nodes->gossip && i < nodes->gossip->members_count; i++) {
        add_text(&hash, nodes->gossip->members[i].name);
        add_text(&hash, nodes->gossip->members[i].state);
    }
    if (nodes->locks) {
        add_number(&hash, nodes->locks->up);
        add_text(&hash, nodes->locks->fault);
        add_number(&hash, nodes->locks->held);
        add_number(&hash, nodes->locks->waiters);
    }
    put(&common->marks.nodes, &hash);
    weir_nodes_view_destroy(view);
}

/* Of GET /v1/state. */
static void mark_state(struct weir_common *common)
{
    struct weir_siphash_state hash = begin();
    struct weir_sessions_view view = { .servers_count = 0 };
    add_number(&hash, common->last ? weir_last_number(common->last) : 0);
    if (common->sessions)
        weir_session_service_view(common->sessions, &view);
    for (size_t i = 0; i < view.servers_count; i++) {
        add_text(&hash, view.servers[i].role);
        add_text(&hash, view.servers[i].fault);
        add_number(&hash, view.servers[i].usable);
    }
    put(&common->marks.state, &hash);
}

void weir_marks_look(struct weir_common *common, const struct weir_setup *setup)
{
    if (atomic_load_explicit(&common->live_streams, memory_order_relaxed) == 0)
        return;
    mark_limits(common, setup);
    mark_nodes(common, setup);
    mark_state(common);
}
