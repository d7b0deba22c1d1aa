/* SPDX-License-Identifier: Apache-2.0
 *
 * The order in which a configuration is made: read the text, say which node this is, print or count the warnings, put
 * the flags over the file, choose the locks (serve_locks.c), refuse addresses that anybody can reach. What a reload
 * cannot change is compared by one hash for each key in the table fixed_keys. Called by serve.c; rules.c only asks
 * whether an address is exposed. */
#include "cli/serve_config.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/plural.h"
#include "base/regular.h"
#include "base/siphash.h"
#include "cli/serve_envoy.h"
#include "cli/serve_listens.h"
#include "cli/serve_locks.h"
#include "cli/serve_rules.h"
#include "cli/serve_sessions.h"
#include "cli/serve_warn.h"
#include "rules/arena.h"
#include "rules/yaml_node.h"

/* ---- loading ---- */

#define NO_LIMITS "unmatched: admit\n" /* under those of --ratelimit-config */

static void say_fault(const struct weir_serve_flags *flags, const struct weir_config_fault *fault,
                      struct weir_serve_said *ret_said)
{
    const char *file = flags->config_file ? flags->config_file : "weir: the example limits";
    weir_config_fault_format(fault, file, ret_said->text, sizeof(ret_said->text));
}

static bool is_exposed(const struct weir_address *address, const struct weir_config *config)
{
    return address->kind == WEIR_ADDRESS_TCP && !address->loopback && config->auth_required != WEIR_AUTH_NEVER &&
           config->tokens_count == 0;
}

bool weir_serve_exposed(const struct weir_config *config, struct weir_serve_said *ret_said)
{
    const struct {
        const char *name;
        const struct weir_address *address;
    } all[] = {
        { "resp", &config->resp }, { "http", &config->http }, { "admin", &config->admin }, { "grpc", &config->grpc }
    };
    char list[480] = "";
    for (size_t i = 0, at = 0; i < sizeof(all) / sizeof(all[0]); i++)
        if (is_exposed(all[i].address, config))
            at += (size_t)snprintf(list + at, sizeof(list) - at, "%s%s%s on %s", at > 0 ? ", " : "", all[i].name,
                                   at > 0 ? "" : " would listen", all[i].address->host);
    if (!list[0])
        return false;
    (void)snprintf(ret_said->text, sizeof(ret_said->text),
                   "%s for anybody, so weir serve does not start: configure auth tokens, or say --insecure if that is "
                   "meant",
                   list);
    return true;
}

static void put_flags(const struct weir_serve_flags *flags, struct weir_config *config)
{
    if (flags->resp_given)
        config->resp = flags->resp;
    if (flags->http_given)
        config->http = flags->http;
    if (flags->grpc_given)
        config->grpc = flags->grpc;
    if (flags->systemd)
        weir_cli_listens_put(flags->systemd, config);
    if (flags->insecure)
        config->auth_required = WEIR_AUTH_NEVER;
}

static int read_text(const struct weir_serve_flags *flags, const struct weir_config *again, bool starts,
                     struct weir_config **ret_config, struct weir_config_fault *ret_fault)
{
    if (again)
        return weir_config_again(again, ret_config, ret_fault);
    const char *why = flags->config_file && !starts ? weir_regular_fault(flags->config_file) : NULL;
    if (why)
        return weir_config_fail(ret_fault, WEIR_EIO, (struct weir_mark){ 0, 0 }, "cannot be read: %s", why);
    if (!flags->config_file && flags->ratelimit_config)
        return weir_config_parse(NO_LIMITS, sizeof(NO_LIMITS) - 1, ret_config, ret_fault);
    return flags->config_file ? weir_config_load(flags->config_file, ret_config, ret_fault)
                              : weir_config_example(ret_config, ret_fault);
}

struct weir_config *weir_serve_config_load(const struct weir_serve_flags *flags, struct weir_serve_rules *rules,
                                           struct weir_serve_envoy *envoy, enum weir_reload what,
                                           const struct weir_config *in_force, struct weir_serve_said *ret_said)
{
    const bool starts = what == WEIR_RELOAD_NONE, anew = starts || what == WEIR_RELOAD_FILE;
    struct weir_config *config = NULL;
    struct weir_config_fault fault = { 0 };
    ret_said->text[0] = '\0';
    int error = read_text(flags, anew ? NULL : in_force, starts, &config, &fault);
    if (!error && ((what != WEIR_RELOAD_REVISIONS && !weir_serve_rules_put(rules, &config, flags->node, ret_said)) ||
                   !weir_serve_envoy_put(envoy, flags, what != WEIR_RELOAD_REVISIONS, &config, ret_said))) {
        weir_config_destroy(config);
        return NULL;
    }
    /* A file for all nodes is fine as it is; a node that starts must know which one it is. */
    if (!error && (flags->node || !flags->check_file))
        error = weir_config_be(config, flags->node, &fault);
    if (error) {
        say_fault(flags, &fault, ret_said);
        weir_config_destroy(config);
        return NULL;
    }
    size_t warnings = config->warnings_count + config->warnings_dropped;
    if (config->envoy_folder && starts)
        weir_serve_envoy_warn(envoy, config);
    else if (flags->config_file && starts)
        weir_serve_warn_config(config, flags->config_file, flags->check_file != NULL);
    else if (warnings > 0)
        (void)snprintf(ret_said->text, sizeof(ret_said->text), "%zu warning%s (weir rules check shows %s)", warnings,
                       weir_s(warnings), warnings == 1 ? "it" : "them");
    put_flags(flags, config);
    struct weir_serve_said why;
    bool refused = weir_cli_locks_choose(config, flags->locks, !flags->config_file, ret_said->text,
                                         sizeof(ret_said->text)) != 0;
    if (!refused && weir_serve_exposed(config, &why)) {
        (void)snprintf(ret_said->text, sizeof(ret_said->text), "weir: %.590s", why.text);
        refused = true;
    }
    if (refused) {
        weir_config_destroy(config);
        return NULL;
    }
    return config;
}

/* The file's path as others on this machine find it, as long as the configuration; NULL: the built-in example. */
static const char *source_of(const struct weir_serve_flags *flags, const struct weir_config *config)
{
    char folder[PATH_MAX];
    const char *file = config->envoy_folder ? config->envoy_folder : flags->config_file;
    if (!file || file[0] == '/' || !getcwd(folder, sizeof(folder)))
        return file;
    const char *path = weir_arena_print(config->arena, "%s/%s", folder, file);
    return path ? path : file;
}

struct weir_setup *weir_serve_setup_make(const struct weir_serve_flags *flags, const struct weir_serve_rules *rules,
                                         const struct weir_serve_envoy *envoy, struct weir_limiter *limiter,
                                         const struct weir_setup *before, struct weir_config *config, const char *by,
                                         struct weir_serve_said *ret_said)
{
    struct weir_setup *setup = NULL;
    struct weir_config_fault fault = { 0 };
    if (!config)
        return NULL;
    if (weir_setup_create(config, limiter, before, &setup, &fault)) {
        if (config->envoy_folder && fault.mark.line > 0)
            weir_serve_envoy_say(envoy, &fault, ret_said);
        else if (config->stored.size > 0 && fault.mark.line > 0) /* only limits have a place */
            weir_serve_rules_say(rules, &fault, ret_said);
        else
            say_fault(flags, &fault, ret_said);
        weir_config_destroy(config);
        return NULL;
    }
    setup->origin = (struct weir_setup_origin){ .source = source_of(flags, setup->config), .by = by };
    return setup;
}

/* ---- what a reload does not take ---- */

static void add_text(struct weir_siphash_state *state, const char *text)
{
    weir_siphash_add(state, text ? text : "", text ? strlen(text) + 1 : 1);
}

static void add_address(struct weir_siphash_state *state, const struct weir_address *address)
{
    weir_siphash_add(state, &address->kind, sizeof(address->kind));
    add_text(state, address->host);
    add_text(state, address->path);
    weir_siphash_add(state, &address->port, sizeof(address->port));
}

static void add_resp(struct weir_siphash_state *state, const struct weir_config *config)
{
    add_address(state, &config->resp);
}

static void add_http(struct weir_siphash_state *state, const struct weir_config *config)
{
    add_address(state, &config->http);
}

static void add_admin(struct weir_siphash_state *state, const struct weir_config *config)
{
    add_address(state, &config->admin);
}

static void add_grpc(struct weir_siphash_state *state, const struct weir_config *config)
{
    add_address(state, &config->grpc);
}

static void add_memory(struct weir_siphash_state *state, const struct weir_config *config)
{
    weir_siphash_add(state, &config->memory_max, sizeof(config->memory_max));
}

static void add_log_memory(struct weir_siphash_state *state, const struct weir_config *config)
{
    weir_siphash_add(state, &config->log_memory_max, sizeof(config->log_memory_max));
}

static void add_skew(struct weir_siphash_state *state, const struct weir_config *config)
{
    weir_siphash_add(state, &config->skew_max_ns, sizeof(config->skew_max_ns));
}

static void add_snapshot(struct weir_siphash_state *state, const struct weir_config *config)
{
    add_text(state, config->snapshot_path);
}

static void add_snapshot_every(struct weir_siphash_state *state, const struct weir_config *config)
{
    weir_siphash_add(state, &config->snapshot_every_ns, sizeof(config->snapshot_every_ns));
}

static void add_rules(struct weir_siphash_state *state, const struct weir_config *config)
{
    const struct weir_config_rules *rules = &config->rules;
    weir_siphash_add(state, rules->store.data, rules->store.size);
    add_text(state, rules->table);
    add_text(state, rules->kept);
    weir_siphash_add(state, &rules->poll_ns, sizeof(rules->poll_ns));
    weir_siphash_add(state, &rules->timeout_ns, sizeof(rules->timeout_ns));
}

static void add_threads(struct weir_siphash_state *state, const struct weir_config *config)
{
    weir_siphash_add(state, &config->threads, sizeof(config->threads));
}

static void add_secret(struct weir_siphash_state *state, const struct weir_config *config)
{
    weir_siphash_add(state, config->cluster_secret, sizeof(config->cluster_secret));
}

static void add_redis(struct weir_siphash_state *state, const struct weir_config *config)
{
    const struct weir_config_redis *redis = &config->redis;
    const uint8_t flags[] = { redis->cluster, redis->tls };
    for (size_t i = 0; i < redis->servers_count; i++)
        add_address(state, &redis->servers[i]);
    weir_siphash_add(state, flags, sizeof(flags));
    add_text(state, redis->sentinel);
    add_text(state, redis->username);
    add_text(state, redis->prefix);
    add_text(state, redis->tls_ca_file);
    add_text(state, redis->tls_name);
    weir_siphash_add(state, redis->password.data, redis->password.size);
    weir_siphash_add(state, redis->sentinel_password.data, redis->sentinel_password.size);
    weir_siphash_add(state, &redis->connect_timeout_ns, sizeof(redis->connect_timeout_ns));
}

static void add_node(struct weir_siphash_state *state, const struct weir_config *config)
{
    add_text(state, config->node_name);
}

static void add_nodes(struct weir_siphash_state *state, const struct weir_config *config)
{
    for (size_t i = 0; i < config->nodes_count; i++) {
        add_text(state, config->nodes[i].name);
        add_address(state, &config->nodes[i].gossip);
    }
}

static void add_locks(struct weir_siphash_state *state, const struct weir_config *config)
{
    const struct weir_config_locks *locks = &config->locks;
    weir_siphash_add(state, &locks->engine, sizeof(locks->engine));
    add_text(state, locks->path);
    add_text(state, locks->witness);
    weir_siphash_add(state, locks->conninfo.data, locks->conninfo.size);
    add_text(state, locks->table);
    for (size_t i = 0; i < locks->endpoints_count; i++)
        add_text(state, locks->endpoints[i]);
    add_text(state, locks->prefix);
    add_text(state, locks->username);
    weir_siphash_add(state, locks->password.data, locks->password.size);
    add_text(state, locks->ca_file);
    weir_siphash_add(state, &locks->waiters_max, sizeof(locks->waiters_max));
    weir_siphash_add(state, &locks->timeout_ns, sizeof(locks->timeout_ns));
}

static void add_sessions(struct weir_siphash_state *state, const struct weir_config *config)
{
    weir_cli_sessions_add(state, &config->sessions);
}

static const struct {
    const char *key;
    void (*add)(struct weir_siphash_state *state, const struct weir_config *config);
} fixed_keys[] = {
    { "listen.resp", add_resp },    { "listen.http", add_http },        { "listen.admin", add_admin },
    { "listen.grpc", add_grpc },    { "table.memory", add_memory },     { "table.log_memory", add_log_memory },
    { "table.skew_max", add_skew }, { "table.snapshot", add_snapshot }, { "table.snapshot_every", add_snapshot_every },
    { "rules", add_rules },         { "threads", add_threads },         { "cluster_secret", add_secret },
    { "engine.redis", add_redis },  { "cluster.node", add_node },       { "cluster.nodes", add_nodes },
    { "locks", add_locks },         { "sessions", add_sessions },
};
#define FIXED_COUNT (sizeof(fixed_keys) / sizeof(fixed_keys[0]))
_Static_assert(FIXED_COUNT <= WEIR_SERVE_FIXED_MAX, "each key has its hash");

struct weir_serve_fixed weir_serve_fixed_of(const struct weir_config *config)
{
    struct weir_serve_fixed fixed = { { 0 } };
    for (size_t i = 0; i < FIXED_COUNT; i++) {
        struct weir_siphash_state state;
        weir_siphash_start(&state, &(struct weir_sip_key){ 0 });
        fixed_keys[i].add(&state, config);
        fixed.hashes[i] = weir_siphash_end(&state);
    }
    return fixed;
}

void weir_serve_fixed_differ(const struct weir_serve_fixed *one, const struct weir_serve_fixed *other, char *buffer,
                             size_t size)
{
    size_t used = 0;
    buffer[0] = '\0';
    for (size_t i = 0; i < FIXED_COUNT && used < size; i++)
        if (one->hashes[i] != other->hashes[i])
            used += (size_t)snprintf(buffer + used, size - used, "%s%s", used ? ", " : "", fixed_keys[i].key);
}
