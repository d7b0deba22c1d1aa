/* SPDX-License-Identifier: Apache-2.0
 *
 * GET /v1/limits: which limits are in force on this node, from where, since when and by whom, and how the last reload
 * ended. And /readyz, which says the same in a few words. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "locks/manager.h"
#include "rules/limit_decode.h"
#include "rules/sharing_decode.h"
#include "serve/bound.h"
#include "serve/gossip.h"
#include "serve/http_call.h"
#include "serve/locks.h"
#include "serve/loop.h"
#include "serve/sessions.h"
#include "wire/limits.h"

#define RATE_MAX 64
#define READY_MAX 1024

/* The text that it points to is in `said`. */
static struct weir_limits in_force(struct weir_shared *shared, const struct weir_setup *setup, char *said, size_t size)
{
    struct weir_reloads *reloads = &shared->reloads;
    struct weir_limits limits = {
        .node = setup->config->nodes_count ? setup->config->node_name : NULL,
        .source = setup->origin.source,
        .by = setup->origin.by,
        .checksum = setup->config->checksum,
        .since_wall_ns = setup->origin.wall_ns,
        .unmatched = setup->config->unmatched == WEIR_UNMATCHED_REFUSE ? "refuse" : "admit",
        .count = weir_rules_count(setup->rules),
    };
    pthread_mutex_lock(&reloads->lock);
    limits.reloads_done = reloads->done;
    limits.reloads_failed = reloads->failed;
    limits.last_failed = reloads->last_failed;
    limits.last_wall_ns = reloads->last_wall_ns;
    (void)snprintf(said, size, "%s", reloads->last_said);
    pthread_mutex_unlock(&reloads->lock);
    limits.last_said = said;
    return limits;
}

static uint64_t fallbacks_of(const struct weir_loop *loop, const struct weir_rule *rule)
{
    uint64_t counts[WEIR_FALLBACK_POLICIES], total = 0;
    weir_metrics_fallbacks(loop->shared->metrics, weir_loop_slot(loop, rule->index), counts);
    for (size_t i = WEIR_FALLBACK_NONE + 1; i < WEIR_FALLBACK_POLICIES; i++)
        total += counts[i];
    return total;
}

/* `rate` is room for its text. */
static struct weir_limits_limit limit_of(const struct weir_loop *loop, size_t index, char rate[RATE_MAX])
{
    const struct weir_rule *rule = weir_rules_limit(loop->setup->rules, index);
    const struct weir_config_limit *config = &loop->setup->config->limits[index];
    bool at_engine = rule->limit.remote && rule->limit.sharing != WEIR_SHARING_GOSSIP;
    weir_rate_format(&rule->whole, rate, RATE_MAX);
    return (struct weir_limits_limit){
        .name = rule->name,
        .algorithm = weir_algorithm_name(rule->whole.algorithm),
        .mode = weir_mode_words[rule->whole.mode],
        .rate = rate,
        .missing = weir_missing_words[config->missing],
        .capacity = weir_limit_capacity(&rule->whole),
        .overrides = config->overrides_count,
        .since_wall_ns = config->since_wall_ns ? config->since_wall_ns : loop->setup->origin.wall_ns,
        .replaced = config->replaced,
        .undecidable = config->undecidable,
        .sharing = rule->terms.mode ? &rule->terms : NULL,
        .on_failure = at_engine ? weir_on_failure_words[rule->limit.on_failure] : NULL,
        .fallbacks = at_engine ? fallbacks_of(loop, rule) : 0,
    };
}

/* Of all its keys. Slow where there are many overrides. */
static void add_bound(const struct weir_loop *loop, size_t index, struct weir_limits_limit *limit)
{
    if (!limit->sharing)
        return;
    uint64_t bound = weir_bound_largest(loop, index, weir_time_read().now_ns, &limit->overshoot_override);
    limit->overshoot_added = bound == WEIR_NEVER ? WEIR_NEVER : bound - limit->sharing->overshoot_max;
}

void weir_http_limits(struct weir_http_call *call)
{
    struct weir_loop *loop = call->conn->loop;
    char said[sizeof(loop->shared->reloads.last_said)];
    char rate[RATE_MAX];
    const struct weir_limits limits = in_force(loop->shared, loop->setup, said, sizeof(said));
    size_t room = weir_limits_head_max(&limits) + 2;
    for (size_t i = 0; i < limits.count; i++) {
        const struct weir_limits_limit limit = limit_of(loop, i, rate);
        room += weir_limits_limit_max(&limit);
    }
    uint8_t *body = malloc(room);
    if (!body) {
        weir_http_reply_problem(call, 503, "", "out of memory");
        return;
    }
    struct weir_text text = weir_text_init(body, room);
    weir_limits_head(&text, &limits);
    for (size_t i = 0; i < limits.count; i++) {
        struct weir_limits_limit limit = limit_of(loop, i, rate);
        add_bound(loop, i, &limit);
        weir_limits_limit(&text, &limit, i == 0);
    }
    weir_limits_end(&text);
    weir_assert(!text.overflow);
    weir_http_reply_long(call, WEIR_HTTP_JSON, body, text.size);
}

/* ---- readiness ---- */

static bool engine_whole(const struct weir_shared *shared)
{
    for (size_t i = 0; i < shared->loop_count; i++)
        if (weir_sharer_alone(&shared->loops[i].sharer))
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
    struct weir_shared *shared = loop->shared;
    if (draining) {
        weir_text_lit(text, "draining\n");
        return;
    }
    if (!engine_whole(shared))
        weir_text_lit(text, "ready, without the engine or a part of it: on_failure decides\n");
    else if (!weir_gossip_server_synced(shared->gossip, loop->setup->rules))
        weir_text_lit(text, "ready, without the other nodes: gossiped keys count as empty when this node started\n");
    if (locks_out(shared->locks))
        weir_text_lit(text, "ready, without the store of the locks: nobody gets or renews one\n");
    if (shared->sessions && !weir_session_service_led(shared->sessions))
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
    bool draining = loop->draining || atomic_load(&loop->shared->draining);
    bool verbose = call->request->query.size == 7 && memcmp(call->request->query.data, "verbose", 7) == 0;
    char said[sizeof(loop->shared->reloads.last_said)];
    char body[READY_MAX];
    struct weir_text text = weir_text_init(body, sizeof(body));
    add_readiness(&text, loop, draining);
    if (verbose) {
        const struct weir_limits limits = in_force(loop->shared, loop->setup, said, sizeof(said));
        add_configuration(&text, &limits);
        if (weir_gossip_is_used(loop->setup->rules))
            add_gossip(&text, loop->shared->gossip);
    }
    weir_http_reply_body(call, draining ? 503 : 200, WEIR_HTTP_PLAIN, "", &text);
}
