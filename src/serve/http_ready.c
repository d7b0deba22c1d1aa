/* SPDX-License-Identifier: Apache-2.0
 *
 * GET /readyz: whether this node should be asked, and which part of it is missing. 503 only while it drains: without an
 * engine, without other nodes or without the store of the locks it answers what it can. Called by http.c. */
#include <string.h>

#include "locks/manager.h"
#include "serve/gossip.h"
#include "serve/http_call.h"
#include "serve/locks.h"
#include "serve/loop.h"
#include "serve/sessions.h"
#include "wire/limits.h"

#define READY_MAX 1024

static bool engine_whole(const struct weir_common *common)
{
    for (size_t i = 0; i < common->loop_count; i++)
        if (weir_sharer_alone(&common->loops[i].sharer))
            return false;
    return true;
}

/* As it was when it was asked last. One that has never been asked is not known to be out. */
static bool locks_out(struct weir_lock_service *locks)
{
    struct weir_lock_manager_state state;
    if (!locks)
        return false;
    weir_lock_service_state(locks, &state);
    return !state.engine.up && (state.engine.failures > 0 || state.engine.fault[0]);
}

/* A line for each part that is missing. Without its engine a node decides by on_failure; without the store of the locks
 * it limits: it is ready, and says so. */
static void add_readiness(struct weir_text *text, const struct weir_loop *loop, bool draining)
{
    struct weir_common *common = loop->common;
    if (draining) {
        weir_text_lit(text, "draining\n");
        return;
    }
    if (!engine_whole(common))
        weir_text_lit(text, "ready, without the engine or a part of it: on_failure decides\n");
    else if (!weir_gossip_server_synced(common->gossip, loop->setup->rules))
        weir_text_lit(text, "ready, without the other nodes: gossiped keys count as empty when this node started\n");
    if (locks_out(common->locks))
        weir_text_lit(text, "ready, without the store of the locks: nobody gets or renews one\n");
    if (common->sessions && !weir_session_service_led(common->sessions))
        weir_text_lit(text, "ready, without a primary of the sessions: no writes, and hardly any reads\n");
    if (text->size == 0)
        weir_text_lit(text, "ready\n");
}

/* A node that is not heard still counts: gossiped limits admit less without it. */
static void add_gossip(struct weir_text *text, struct weir_gossip_host *host)
{
    struct weir_gossip_member members[WEIR_NODES_MAX];
    const struct weir_time now = weir_time_read();
    size_t count = host ? weir_gossip_host_members(host, &now, members, WEIR_NODES_MAX) : 0, others = 0, heard = 0;
    for (size_t i = 0; i < count; i++) {
        others += strcmp(members[i].state, "self") != 0;
        heard += strcmp(members[i].state, "alive") == 0;
    }
    if (heard == others)
        return;
    weir_text_lit(text, "gossip hears ");
    weir_text_u64(text, heard);
    weir_text_lit(text, " of ");
    weir_text_u64(text, others);
    weir_text_lit(text, " other nodes; GET /v1/nodes says which\n");
}

/* Whoever may connect may ask, so it names no file: GET /v1/limits does, to those with a right. */
static void add_configuration(struct weir_text *text, const struct weir_limits *limits)
{
    weir_text_u64(text, limits->count);
    weir_text_str(text, limits->count == 1 ? " limit, in force since " : " limits, in force since ");
    weir_text_utc(text, limits->since_wall_ns);
    weir_text_lit(text, " by ");
    weir_text_str(text, limits->by);
    weir_text_lit(text, "\n");
    if (limits->last_failed) {
        weir_text_lit(text, "the last reload failed, at ");
        weir_text_utc(text, limits->last_wall_ns);
        weir_text_lit(text, "; GET /v1/limits says why\n");
    }
}

void weir_http_readyz(struct weir_http_call *call)
{
    struct weir_loop *loop = call->conn->loop;
    bool draining = loop->draining || atomic_load(&loop->common->draining);
    bool verbose = call->request->query.size == 7 && memcmp(call->request->query.data, "verbose", 7) == 0;
    char said[sizeof(loop->common->reloads.last_said)];
    char body[READY_MAX];
    struct weir_text text = weir_text_init(body, sizeof(body));
    add_readiness(&text, loop, draining);
    if (verbose) {
        const struct weir_limits limits = weir_http_in_force(loop->common, loop->setup, said, sizeof(said));
        add_configuration(&text, &limits);
        if (weir_gossip_is_used(loop->setup->rules))
            add_gossip(&text, loop->common->gossip);
    }
    weir_http_reply_body(call, draining ? 503 : 200, WEIR_HTTP_PLAIN, "", &text);
}
