/* SPDX-License-Identifier: Apache-2.0
 *
 * The ways that decide by a copy: of the store's count, or of what the others said. */
#include <assert.h>
#include <string.h>

#include "sim/naive/naive.h"

/* ---- a cache that lags ---- */

#define CACHE_COUNTS_MAX 4096 /* a scenario's limit, and what goes beyond it */

/* heard_ns[k]: when the count k + 1 was heard. It is believed interval_ns later. */
struct cache_node {
    uint64_t known, heard;
    uint64_t heard_ns[CACHE_COUNTS_MAX];
};

struct cache_store {
    uint64_t count;
};

static enum weir_sim_say cache_request(struct weir_sim *sim, uint32_t node, void *state,
                                       const struct weir_sim_request *request)
{
    struct cache_node *cache = state;
    const struct weir_sim_plan *plan = weir_sim_plan_of(sim);
    uint64_t now_ns = weir_sim_now(sim, node);
    while (cache->known < cache->heard && cache->heard_ns[cache->known] + plan->interval_ns <= now_ns)
        cache->known++;
    if (cache->known >= plan->limit.count)
        return WEIR_SIM_NO;
    weir_sim_send(sim, node, WEIR_SIM_ENGINE, &request->cost, sizeof(request->cost));
    return WEIR_SIM_YES;
}

static void cache_engine_message(struct weir_sim *sim, void *state, uint32_t from, const void *data, size_t size)
{
    (void)from, (void)data, (void)size;
    struct cache_store *store = state;
    store->count++;
    for (uint32_t node = 0; node < weir_sim_plan_of(sim)->nodes; node++)
        weir_sim_send(sim, WEIR_SIM_ENGINE, node, &store->count, sizeof(store->count));
}

static void cache_message(struct weir_sim *sim, uint32_t node, void *state, uint32_t from, const void *data,
                          size_t size)
{
    (void)from;
    struct cache_node *cache = state;
    uint64_t count;
    assert(size == sizeof(count));
    memcpy(&count, data, sizeof(count));
    for (; cache->heard < count && cache->heard < CACHE_COUNTS_MAX; cache->heard++)
        cache->heard_ns[cache->heard] = weir_sim_now(sim, node);
}

const struct weir_sim_mode weir_naive_cache = {
    .name = "naive-cache",
    .node_size = sizeof(struct cache_node),
    .engine_size = sizeof(struct cache_store),
    .request = cache_request,
    .message = cache_message,
    .engine_message = cache_engine_message,
};

/* ---- nodes that tell each other ---- */

struct tell_node {
    uint64_t window;
    uint64_t counts[WEIR_SIM_NODES_MAX]; /* in the window, by node, its own included */
};

struct tell_word {
    uint64_t window, count;
};

static void tell_enter(struct tell_node *tell, uint64_t window)
{
    if (window > tell->window)
        *tell = (struct tell_node){ .window = window };
}

static void tell_start(struct weir_sim *sim, uint32_t node, void *state)
{
    (void)state;
    weir_sim_wake(sim, node, weir_sim_now(sim, node) + weir_sim_plan_of(sim)->interval_ns);
}

static enum weir_sim_say tell_request(struct weir_sim *sim, uint32_t node, void *state,
                                      const struct weir_sim_request *request)
{
    (void)request;
    struct tell_node *tell = state;
    const struct weir_sim_plan *plan = weir_sim_plan_of(sim);
    tell_enter(tell, weir_sim_wall(sim, node) / plan->limit.period_ns);
    uint64_t known = 0;
    for (uint32_t i = 0; i < plan->nodes; i++)
        known += tell->counts[i];
    if (known >= plan->limit.count)
        return WEIR_SIM_NO;
    tell->counts[node]++;
    return WEIR_SIM_YES;
}

static void tell_timer(struct weir_sim *sim, uint32_t node, void *state)
{
    const struct tell_node *tell = state;
    struct tell_word word = { tell->window, tell->counts[node] };
    for (uint32_t to = 0; to < weir_sim_plan_of(sim)->nodes; to++) {
        if (to != node)
            weir_sim_send(sim, node, to, &word, sizeof(word));
    }
    tell_start(sim, node, state);
}

static void tell_message(struct weir_sim *sim, uint32_t node, void *state, uint32_t from, const void *data, size_t size)
{
    (void)sim, (void)node;
    struct tell_node *tell = state;
    struct tell_word word;
    assert(size == sizeof(word) && from < WEIR_SIM_NODES_MAX);
    memcpy(&word, data, sizeof(word));
    tell_enter(tell, word.window);
    if (word.window == tell->window && word.count > tell->counts[from])
        tell->counts[from] = word.count;
}

const struct weir_sim_mode weir_naive_tell = {
    .name = "naive-tell",
    .node_size = sizeof(struct tell_node),
    .start = tell_start,
    .request = tell_request,
    .message = tell_message,
    .timer = tell_timer,
    .engineless = true,
};

/* ---- by name ---- */

const struct weir_sim_mode *weir_naive_find(const char *name)
{
    static const struct weir_sim_mode *const all[] = { &weir_naive_cache,       &weir_naive_get_incr,
                                                       &weir_naive_incr_expire, &weir_naive_window,
                                                       &weir_naive_node_clock,  &weir_naive_tell };
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        if (strcmp(all[i]->name, name) == 0)
            return all[i];
    }
    return NULL;
}
