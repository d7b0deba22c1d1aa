/* SPDX-License-Identifier: Apache-2.0
 *
 * Each function looks at one configuration, changes nothing, and returns a constant sentence; limits whose mode is off
 * do not count. Called by serve.c, explain.c and rules.c, which print the sentences. Warnings, which have a place in
 * the file, are made in rules/warnings.c and the files that it names. */
#include "cli/notes.h"

const char *weir_note_unasked(const struct weir_config *config)
{
    bool listens = config->resp.kind != WEIR_ADDRESS_OFF || config->http.kind != WEIR_ADDRESS_OFF ||
                   config->grpc.kind != WEIR_ADDRESS_OFF;
    if (config->tokens_count == 0 || config->auth_required != WEIR_AUTH_AUTO || !listens || !config->resp.loopback ||
        !config->http.loopback || !config->admin.loopback ||
        !config->grpc.loopback) /* what is off counts as loopback */
        return NULL;
    return "nobody is asked for a token: all listeners are on loopback (auth: { required: always } asks there too)";
}

const char *weir_note_admin(const struct weir_config *config)
{
    bool may = false;
    for (size_t i = 0; i < config->tokens_count && !may; i++)
        may = (config->tokens[i].rights & WEIR_RIGHT_ADMIN) != 0;
    if (config->admin.kind == WEIR_ADDRESS_OFF)
        return NULL;
    if (config->rules.store.size == 0)
        return "nobody can change rules at listen: { admin }: they stand in this file (rules: { store } keeps them "
               "where "
               "they can be changed)";
    return may ? NULL
               : "nobody can change rules at listen: { admin }: no token has the right admin (auth: { tokens: [ { "
                 "rights: [admin] } ] })";
}

/* A limit that is shared through the engine, where each node's part of it counts. */
static bool has_part(const struct weir_config *config, bool (*counts)(const struct weir_config_limit *limit))
{
    bool found = false;
    for (size_t i = 0; i < config->limits_count && !found; i++)
        found = config->limits[i].spec.mode != WEIR_MODE_OFF && counts(&config->limits[i]);
    return found;
}

static bool falls_back(const struct weir_config_limit *limit)
{
    bool at_engine = limit->sharing != WEIR_SHARING_SPLIT && limit->sharing != WEIR_SHARING_GOSSIP;
    return at_engine && limit->on_failure == WEIR_ON_FAILURE_LOCAL;
}

static bool is_ahead(const struct weir_config_limit *limit)
{
    return limit->sharing == WEIR_SHARING_BATCHED;
}

static bool is_exact(const struct weir_config_limit *limit)
{
    return limit->sharing == WEIR_SHARING_EXACT;
}

const char *weir_note_uncounted(const struct weir_config *config)
{
    const struct weir_config_throttle *throttle = &config->cl_throttle;
    if (config->redis.servers_count == 0 || config->nodes_count > 0)
        return NULL;
    if (has_part(config, falls_back) ||
        (throttle->engine == WEIR_THROTTLE_REDIS && throttle->on_failure == WEIR_ON_FAILURE_LOCAL))
        return "there is no cluster:, so this process takes itself for the only one at the engine: if there are "
               "several, each outage adds the whole of a limit with on_failure: local for each of them (name them: "
               "cluster: { nodes: [a, b] })";
    if (has_part(config, is_ahead))
        return "there is no cluster:, so this process takes itself for the only one at the engine: if there are "
               "several, a batched limit overshoots by its slack for each of them (name them: cluster: { nodes: [a, "
               "b] })";
    return NULL;
}

const char *weir_note_alone(const struct weir_config *config)
{
    if (config->redis.servers_count > 0 || config->nodes_count > 0 || !has_part(config, is_exact))
        return NULL;
    return "limits are counted in this process alone: each further weir with this file admits as much again "
           "(docs/sharing.md)";
}
