/* SPDX-License-Identifier: Apache-2.0
 *
 * The checks of one limit go in this order: what its mode needs (engine, nodes, secret), what the mode can promise with
 * the algorithm, keys that belong to other modes, the share of each node. Called by limit_decode.c when the limit is
 * complete, and by config.c once for the sections. The shares are computed in core/share/split.c; compile.c puts them
 * into the rules. */
#include "rules/sharing_decode.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/plural.h"
#include "core/share/gossip.h"
#include "core/share/split.h"
#include "rules/limit_decode.h"

#define DEADLINE_LONG_NS WEIR_NS_PER_SECOND

const char *const weir_sharing_words[] = { "exact", "leased", "batched", "split", "gossip", NULL };
const char *const weir_on_failure_words[] = { "local", "open", "closed", NULL };

/* What the checks look at. */
struct sharing {
    struct weir_decode *decode;
    const struct weir_yaml_node *node;
    const struct weir_config_limit *limit;
    bool engine; /* there is one */
    bool at;     /* this limit is decided there, or by what was taken there */
    bool ahead;  /* nodes decide on their own, ahead of what the others know: leased, batched, gossip */
    uint32_t nodes;
};

static struct weir_mark mark_of(const struct sharing *sharing, const char *name)
{
    const struct weir_yaml_node *key = weir_yaml_find(sharing->node, name);
    return key ? key->value->mark : sharing->node->mark;
}

static int refuse(const struct sharing *sharing, const char *key, const char *why)
{
    return weir_config_fail(sharing->decode->fault, WEIR_EINVAL, mark_of(sharing, key), "sharing: %s %s",
                            weir_sharing_words[sharing->limit->sharing], why);
}

static int needs_check(const struct sharing *sharing)
{
    const struct weir_config *config = sharing->decode->config;
    bool leased = sharing->limit->sharing == WEIR_SHARING_LEASED || sharing->limit->sharing == WEIR_SHARING_BATCHED;
    if (leased && !sharing->engine)
        return refuse(sharing, "sharing", "needs an engine that nodes share: engine: { redis: { servers: [ ... ] } }");
    if (sharing->limit->sharing != WEIR_SHARING_GOSSIP)
        return 0;
    if (config->nodes_count > WEIR_GOSSIP_NODES_MAX)
        return weir_config_fail(sharing->decode->fault, WEIR_ELIMIT, mark_of(sharing, "sharing"),
                                "sharing: gossip is for at most %d nodes", WEIR_GOSSIP_NODES_MAX);
    if (config->nodes_count == 0)
        return refuse(sharing, "sharing", "needs the nodes that talk: cluster: { nodes: [ { name, gossip }, ... ] }");
    if (!config->cluster_secret_set)
        return refuse(sharing, "sharing", "needs cluster_secret, by which nodes know each other's datagrams");
    for (size_t i = 0; i < config->nodes_count; i++)
        if (config->nodes[i].gossip.kind == WEIR_ADDRESS_OFF)
            return weir_config_fail(sharing->decode->fault, WEIR_EINVAL, mark_of(sharing, "sharing"),
                                    "sharing: gossip needs a gossip address of every node: node \"%s\" has none",
                                    config->nodes[i].name);
    return 0;
}

/* What a mode cannot keep is refused rather than kept by half. */
static int promises_check(const struct sharing *sharing)
{
    const struct weir_limit_spec *spec = &sharing->limit->spec;
    if (spec->algorithm == WEIR_CONCURRENCY && (sharing->at || sharing->ahead))
        return refuse(
            sharing, "algorithm",
            sharing->at && !sharing->ahead
                ? "at an engine does not keep the permits of a concurrency limit, which each process keeps in "
                  "its own memory: must be sharing: split"
                : "does not keep the permits of a concurrency limit, which each process keeps in its own "
                  "memory: must be sharing: split, or exact without an engine");
    if (sharing->ahead && spec->algorithm == WEIR_LEAKY_BUCKET)
        return refuse(sharing, "sharing",
                      "cannot keep the turns of a leaky_bucket, which only one queue knows: must be exact or split");
    if (sharing->at && spec->algorithm == WEIR_LEAKY_BUCKET && sharing->limit->throttle == WEIR_THROTTLE_HOLD)
        return refuse(sharing, "throttle",
                      "at an engine cannot hold answers, since the next in line may be at another node: must be "
                      "throttle: delay, or sharing: split");
    if (sharing->limit->sharing == WEIR_SHARING_GOSSIP && spec->algorithm == WEIR_SLIDING_LOG)
        return refuse(sharing, "sharing", "does not carry the times of a sliding_log: must be one of the other four");
    if (sharing->limit->sharing == WEIR_SHARING_GOSSIP && spec->algorithm == WEIR_FIXED_WINDOW &&
        spec->align == WEIR_ALIGN_FIRST)
        return refuse(sharing, "align",
                      "does not carry when a window began, and each node would fill its own: must be align: calendar, "
                      "where spread lets the windows of keys begin at different times");
    if (sharing->ahead && spec->count_mode == WEIR_COUNT_ATTEMPTS)
        return refuse(sharing, "count",
                      "cannot charge refused attempts, which only the node that refused knows of: must be exact or "
                      "split for count: attempts");
    return 0;
}

static int keys_check(const struct sharing *sharing)
{
    enum weir_sharing mode = sharing->limit->sharing;
    bool slack = mode == WEIR_SHARING_BATCHED || mode == WEIR_SHARING_GOSSIP;
    bool here = !sharing->at && mode != WEIR_SHARING_GOSSIP;
    const struct weir_key_need needs[] = {
        { "slack", slack, "sharing: batched or gossip" },
        { "interval", mode == WEIR_SHARING_BATCHED, "sharing: batched" },
        { "chunk_ttl", mode == WEIR_SHARING_LEASED, "sharing: leased" },
        { "on_failure", sharing->at, "limits that need an engine: exact, leased or batched" },
        { "deadline", sharing->at, "limits that need an engine: exact, leased or batched" },
        { "on_full", here, "limits in this process's table: exact without an engine, or split" },
    };
    return weir_keys_need(sharing->decode, sharing->node, needs, WEIR_COUNT_OF(needs));
}

/* Each node's share must be a limit itself. Shares differ only where a remainder ends. */
static int share_check(const struct sharing *sharing, const struct weir_limit_spec *spec, struct weir_mark mark)
{
    const struct weir_config *config = sharing->decode->config;
    uint32_t nodes = sharing->nodes;
    const uint32_t differ[] = { 0, (uint32_t)(spec->count % nodes), (uint32_t)(spec->burst % nodes), nodes - 1 };
    bool split = sharing->limit->sharing == WEIR_SHARING_SPLIT;
    for (size_t i = 0; i < sizeof(differ) / sizeof(differ[0]); i++) {
        struct weir_limit_spec share = weir_split_spec(spec, nodes, differ[i]);
        struct weir_fault fault = { "", "" };
        int error = weir_limit_check(&share, &fault);
        if (error)
            return weir_config_fail(sharing->decode->fault, error, mark,
                                    "node \"%s\" cannot keep its share, %" PRIu64 " of %" PRIu64 "%s: %s %s",
                                    config->nodes[differ[i]].name, share.count, spec->count,
                                    split ? "" : ", which on_failure: local decides by", fault.field, fault.text);
    }
    return 0;
}

/* The first node that a split leaves nothing. */
static int nothing_warn(const struct sharing *sharing, const struct weir_limit_spec *spec, struct weir_mark mark)
{
    const struct weir_config *config = sharing->decode->config;
    uint32_t without = 0;
    uint32_t first = sharing->nodes;
    for (uint32_t i = sharing->nodes; i > 0; i--) {
        struct weir_limit_spec share = weir_split_spec(spec, sharing->nodes, i - 1);
        if (weir_limit_capacity(&share) > 0)
            break;
        without++;
        first = i - 1;
    }
    if (without == 0 || weir_limit_capacity(spec) == 0)
        return 0;
    return weir_decode_warn(sharing->decode, mark,
                            "limit \"%s\" is split over %" PRIu32 " nodes and leaves %" PRIu32
                            " of them nothing, from node \"%s\" on: %s everything",
                            sharing->limit->name, sharing->nodes, without, config->nodes[first].name,
                            without == 1 ? "it refuses" : "they refuse");
}

static int slack_warn(const struct sharing *sharing, const struct weir_limit_spec *spec, struct weir_mark mark)
{
    const struct weir_config_limit *limit = sharing->limit;
    uint64_t capacity = weir_limit_capacity(spec);
    uint64_t slack = limit->slack ? limit->slack : weir_split_slack(spec->count, sharing->nodes);
    uint64_t bound = slack * sharing->nodes; /* at most 10^12 * 256 */
    if (limit->sharing == WEIR_SHARING_GOSSIP && sharing->nodes > 1 && !limit->cost_attribute && limit->cost > slack)
        return weir_decode_warn(sharing->decode, mark,
                                "limit \"%s\" costs %" PRIu64 " unit%s a request and has a slack of %" PRIu64
                                ": none is ever admitted",
                                limit->name, limit->cost, weir_s(limit->cost), slack);
    if (capacity == 0 || bound < capacity)
        return 0;
    return weir_decode_warn(sharing->decode, mark,
                            "limit \"%s\" may overshoot by %" PRIu64 " (%" PRIu32 " node%s, slack %" PRIu64
                            "), no less than its capacity of %" PRIu64,
                            sharing->limit->name, bound, sharing->nodes, weir_s(sharing->nodes), slack, capacity);
}

/* Of the limit, or of an override that has numbers of its own. */
static int spec_check(const struct sharing *sharing, const struct weir_limit_spec *spec, struct weir_mark mark)
{
    const struct weir_config_limit *limit = sharing->limit;
    bool split = limit->sharing == WEIR_SHARING_SPLIT;
    bool local = sharing->at && limit->on_failure == WEIR_ON_FAILURE_LOCAL;
    int error = 0;
    if (spec->mode == WEIR_MODE_OFF)
        return 0;
    if (sharing->nodes > 1 && (split || local))
        error = share_check(sharing, spec, mark);
    if (!error && sharing->nodes > 1 && split)
        error = nothing_warn(sharing, spec, mark);
    if (!error && (limit->sharing == WEIR_SHARING_BATCHED || limit->sharing == WEIR_SHARING_GOSSIP))
        error = slack_warn(sharing, spec, mark);
    return error;
}

static int specs_check(const struct sharing *sharing)
{
    const struct weir_config_limit *limit = sharing->limit;
    const struct weir_limit_spec *spec = &limit->spec;
    int error = spec_check(sharing, spec, limit->slack ? mark_of(sharing, "slack") : limit->mark_rate);
    for (size_t i = 0; i < limit->overrides_count && !error; i++) {
        const struct weir_config_override *override = &limit->overrides[i];
        bool changed = override->spec.count != spec->count || override->spec.burst != spec->burst ||
                       override->spec.period_ns != spec->period_ns || override->spec.mode != spec->mode;
        if (changed)
            error = spec_check(sharing, &override->spec, override->mark);
    }
    return error;
}

static int limit_warn(const struct sharing *sharing)
{
    const struct weir_config_limit *limit = sharing->limit;
    char deadline[WEIR_DURATION_SIZE];
    int error = 0;
    if (limit->sharing == WEIR_SHARING_SPLIT && sharing->nodes == 1)
        error = weir_decode_warn(sharing->decode, mark_of(sharing, "sharing"),
                                 "limit \"%s\" is split over one node: cluster: { nodes: [ ... ] } names no others",
                                 limit->name);
    if (!error && limit->sharing == WEIR_SHARING_GOSSIP && limit->spec.on_change != WEIR_ON_CHANGE_KEEP)
        error = weir_decode_warn(sharing->decode, mark_of(sharing, "on_change"),
                                 "after a change of limit \"%s\" what was used stays used: with sharing: gossip it "
                                 "always does (on_change: keep)",
                                 limit->name);
    weir_duration_format(limit->deadline_ns / 1000000, deadline, sizeof(deadline));
    if (!error && sharing->at && limit->deadline_ns > DEADLINE_LONG_NS)
        error = weir_decode_warn(sharing->decode, mark_of(sharing, "deadline"),
                                 "while the engine does not answer, requests of limit \"%s\" wait for %s", limit->name,
                                 deadline);
    return error;
}

int weir_sharing_check(struct weir_decode *decode, const struct weir_yaml_node *node,
                       const struct weir_config_limit *limit)
{
    enum weir_sharing mode = limit->sharing;
    struct sharing sharing = { .decode = decode, .node = node, .limit = limit };
    bool leased = mode == WEIR_SHARING_LEASED || mode == WEIR_SHARING_BATCHED;
    sharing.engine = decode->config->redis.servers_count > 0;
    sharing.at = sharing.engine && (mode == WEIR_SHARING_EXACT || leased);
    sharing.ahead = leased || mode == WEIR_SHARING_GOSSIP;
    sharing.nodes = weir_config_nodes(decode->config);
    int error = needs_check(&sharing);
    if (!error)
        error = promises_check(&sharing);
    if (!error)
        error = keys_check(&sharing);
    if (!error)
        error = specs_check(&sharing);
    return error ? error : limit_warn(&sharing);
}

/* ---- the sections ---- */

static int password_warn(struct weir_decode *decode)
{
    const struct weir_config_redis *redis = &decode->config->redis;
    if (redis->tls || (redis->password.size == 0 && redis->sentinel_password.size == 0))
        return 0;
    for (size_t i = 0; i < redis->servers_count; i++)
        if (!redis->servers[i].loopback)
            return weir_decode_warn(decode, decode->config->mark_engine,
                                    "the password goes to server %s:%u as plain text: there is no tls",
                                    redis->servers[i].host, redis->servers[i].port);
    return 0;
}

static bool has_mode(const struct weir_config *config, const bool modes[5])
{
    for (size_t i = 0; i < config->limits_count; i++)
        if (modes[config->limits[i].sharing] && config->limits[i].spec.mode != WEIR_MODE_OFF)
            return true;
    return false;
}

int weir_sharing_warn(struct weir_decode *decode)
{
    static const bool at_engine[] = { [WEIR_SHARING_EXACT] = true,
                                      [WEIR_SHARING_LEASED] = true,
                                      [WEIR_SHARING_BATCHED] = true,
                                      [WEIR_SHARING_GOSSIP] = false };
    static const bool exact[] = { [WEIR_SHARING_EXACT] = true, [WEIR_SHARING_GOSSIP] = false };
    const struct weir_config *config = decode->config;
    bool engine = config->redis.servers_count > 0;
    int error = engine ? password_warn(decode) : 0;
    if (!error && engine && !config->cluster_secret_set)
        error = weir_decode_warn(decode, config->mark_engine,
                                 "keys in the engine are hashed without a secret, so that callers may find values that "
                                 "share a counter: set cluster_secret, the same on every node");
    if (!error && engine && config->limits_count && !has_mode(config, at_engine) &&
        config->cl_throttle.engine == WEIR_THROTTLE_MEMORY)
        error = weir_decode_warn(decode, config->mark_engine, "no limit uses the engine");
    if (!error && !engine && config->nodes_count > 1 && has_mode(config, exact))
        error = weir_decode_warn(decode, config->mark_cluster,
                                 "there is no engine: each of the %zu nodes keeps limits with sharing: exact on its "
                                 "own, so together they admit %zu times as much",
                                 config->nodes_count, config->nodes_count);
    return error;
}
