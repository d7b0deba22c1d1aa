/* SPDX-License-Identifier: Apache-2.0
 *
 * The order in which a configuration is read: YAML to a tree (yaml_node.c), all sections but the limits, the limits,
 * which need the engine and the nodes, what overlaps (overlaps.c), warnings (warnings.c). The table of sections and the
 * defaults are here; each section is decoded in a file of its own. The tree has an arena that is freed at the end.
 * Called by cli/serve_config.c and ruleset.c. */
#include "rules/config.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/siphash.h"
#include "limits/revisions.h"
#include "rules/decode.h"
#include "rules/limit_decode.h"
#include "rules/locks_decode.h"
#include "rules/overlaps.h"
#include "rules/replaces.h"
#include "rules/section_decode.h"
#include "rules/sessions_decode.h"
#include "rules/sharing_decode.h"
#include "rules/warnings.h"
#include "rules/yaml_text.h"

#define SECOND WEIR_NS_PER_SECOND
#define REVISION_MAX UINT64_C(999999999999999) /* what headers and JSON can tell */

/* Read last, by limits_decode: limits need the engine and the nodes, wherever those stand. */
static int later_read(struct weir_decode *decode, const struct weir_yaml_node *value, const struct weir_field *field,
                      void *target)
{
    (void)target;
    return weir_decode_kind(decode, value, WEIR_YAML_LIST, field->name);
}

bool weir_config_is_shared(const struct weir_config *config, const struct weir_config_limit *limit)
{
    return limit->sharing == WEIR_SHARING_EXACT ? config->redis.servers_count > 0
                                                : limit->sharing != WEIR_SHARING_SPLIT;
}

/* Nodes can learn of other definitions of it: the engine, or gossip, tells them. */
static int text_keep(struct weir_decode *decode, const struct weir_yaml_node *node, struct weir_config_limit *limit)
{
    limit->owned = weir_config_is_shared(decode->config, limit);
    if (limit->owned && weir_yaml_text(decode->arena, node, &limit->text))
        return weir_decode_nomem(decode);
    limit->owned = limit->owned && limit->text.size <= WEIR_REVISION_TEXT_MAX;
    return 0;
}

bool weir_config_meets_all(const struct weir_config_limit *limit)
{
    return limit->match_count == 0 && limit->spec.mode != WEIR_MODE_OFF &&
           (limit->key_count == 0 || limit->missing == WEIR_MISSING_SHARE);
}

static int limits_decode(struct weir_decode *decode, const struct weir_yaml_node *value)
{
    struct weir_config *config = decode->config;
    int first = 0;
    config->limits = weir_arena_alloc(decode->arena, value->count, sizeof(*config->limits));
    if (value->count && !config->limits)
        return weir_decode_nomem(decode);
    size_t definitions = 0;
    size_t always = 0; /* limits that every request meets */
    for (const struct weir_yaml_node *item = value->first; item; item = item->next) {
        struct weir_config_limit *limit = &config->limits[config->limits_count];
        int error = weir_limit_decode(decode, item, limit);
        if (!error)
            error = text_keep(decode, item, limit);
        if (!weir_decode_goes_on(decode, error, &first))
            return first;
        if (error)
            continue;
        config->limits_count++;
        definitions += 1 + limit->overrides_count;
        always += weir_config_meets_all(limit);
        if (always > WEIR_CHARGES_MAX)
            return weir_config_fail(decode->fault, WEIR_ELIMIT, item->mark, "more than %d limits match every request",
                                    WEIR_CHARGES_MAX);
        if (definitions > WEIR_LIMITS_MAX)
            return weir_config_fail(decode->fault, WEIR_ELIMIT, item->mark, "more than %d limits and overrides",
                                    WEIR_LIMITS_MAX);
    }
    return first;
}

static const char *const unmatched_words[] = { "admit", "refuse", NULL };

static const struct weir_field config_fields[] = {
    { "listen", weir_listen_decode, 0, false, 0, 0, NULL },
    { "table", weir_table_decode, 0, false, 0, 0, NULL },
    { "threads", weir_decode_u32, offsetof(struct weir_config, threads), false, 1, 256, NULL },
    { "tls", weir_tls_decode, 0, false, 0, 0, NULL },
    { "auth", weir_auth_decode, 0, false, 0, 0, NULL },
    { "server", weir_server_decode, offsetof(struct weir_config, server), false, 0, 0, NULL },
    { "log", weir_log_decode, 0, false, 0, 0, NULL },
    { "headers", weir_headers_decode, 0, false, 0, 0, NULL },
    { "top", weir_top_decode, 0, false, 0, 0, NULL },
    { "cluster_secret", weir_cluster_secret_decode, 0, false, 0, 0, NULL },
    { "engine", weir_engine_decode, 0, false, 0, 0, NULL },
    { "cl_throttle", weir_throttle_decode, offsetof(struct weir_config, cl_throttle), false, 0, 0, NULL },
    { "cluster", weir_cluster_decode, 0, false, 0, 0, NULL },
    { "locks", weir_locks_decode, 0, false, 0, 0, NULL },
    { "sessions", weir_sessions_decode, 0, false, 0, 0, NULL },
    { "rules", weir_rules_decode, 0, false, 0, 0, NULL },
    { "traces", weir_traces_decode, 0, false, 0, 0, NULL },
    { "envoy", weir_envoy_decode, 0, false, 0, 0, NULL },
    { "revision", weir_decode_u64, offsetof(struct weir_config, revision), false, 1, REVISION_MAX, NULL },
    { "limits", later_read, 0, false, 0, 0, NULL },
    { "unmatched", weir_decode_word, offsetof(struct weir_config, unmatched), false, 0, 0, unmatched_words },
};

/* What a set of rules in a store has. */
static const struct weir_field stored_fields[] = {
    { "limits", later_read, 0, true, 0, 0, NULL },
    { "unmatched", weir_decode_word, offsetof(struct weir_config, unmatched), false, 0, 0, unmatched_words },
    { "nodes", weir_rule_nodes_decode, 0, false, 0, 0, NULL },
};

static int defaults_set(struct weir_config *config)
{
    config->rules.timeout_ns = 2 * SECOND;
    config->traces = (struct weir_config_traces){ .service = "weir", .timeout_ns = 2 * SECOND };
    config->memory_max = WEIR_MEMORY_DEFAULT;
    config->skew_max_ns = WEIR_SKEW_DEFAULT_NS;
    config->snapshot_every_ns = 10 * WEIR_NS_PER_SECOND;
    config->log_level = WEIR_LOG_INFO;
    config->cl_throttle.deadline_ns = SECOND / 50;
    config->headers_ratelimit = true;
    config->headers_x_ratelimit = true;
    config->locks = (struct weir_config_locks){ .waiters_max = 65536, .timeout_ns = 2 * SECOND };
    config->sessions = (struct weir_config_sessions){
        .users_max = 1000000,
        .ttl_ns = 86400 * SECOND,
        .poll_ns = SECOND / 20,
        .freeze_ns = SECOND,
        .timeout_ns = SECOND,
        .window_ns = SECOND,
        .waiters_max = 4096,
    };
    config->server = (struct weir_config_server){
        .connections_max = 10000,
        .pipeline_max = 1024,
        .headers_max = 100,
        .header_bytes_max = 16 << 10,
        .body_bytes_max = 64 << 10,
        .command_bytes_max = 64 << 10,
        .buffer_bytes_max = 256 << 20,
        .hold_bytes_max = 64 << 20,
        .output_bytes_max = 1 << 20,
        .idle_timeout_ns = 300 * SECOND,
        .request_timeout_ns = 10 * SECOND,
        .drain_timeout_ns = 10 * SECOND,
    };
    int error = weir_address_parse("127.0.0.1:6380", &config->resp, NULL);
    if (!error)
        error = weir_address_parse("127.0.0.1:8080", &config->http, NULL);
    if (!error)
        error = weir_address_parse("off", &config->grpc, NULL);
    return error ? error : weir_address_parse("off", &config->admin, NULL);
}

/* One of them is the source, never both. */
static int file_has_rules(struct weir_decode *decode, const struct weir_yaml_node *root)
{
    const struct weir_yaml_node *limits = weir_yaml_find(root, "limits");
    if (decode->config->envoy_folder && decode->config->rules.store.size > 0)
        return weir_config_fail(decode->fault, WEIR_EINVAL, weir_yaml_find(root, "envoy")->mark,
                                "envoy.ratelimit_config names files, and rules a store: the limits are in one of them");
    if (limits && decode->config->envoy_folder)
        return weir_config_fail(decode->fault, WEIR_EINVAL, limits->mark,
                                "limits stands in the files that envoy.ratelimit_config names, not in this one");
    for (size_t i = 0; decode->config->rules.store.size > 0 && i < WEIR_COUNT_OF(stored_fields); i++) {
        const struct weir_yaml_node *key = weir_yaml_find(root, stored_fields[i].name);
        if (key)
            return weir_config_fail(decode->fault, WEIR_EINVAL, key->mark,
                                    "%s stands in the store that rules names, not in this file", stored_fields[i].name);
    }
    return 0;
}

/* `stored`: the set of rules from the store; NULL: they stand in the file, or are not asked for. */
static int tree_decode(struct weir_decode *decode, const struct weir_yaml_node *root,
                       const struct weir_yaml_node *stored)
{
    int first = defaults_set(decode->config);
    if (!first)
        first = weir_decode_kind_shown(decode, root, WEIR_YAML_MAP, "the configuration", "limits: [ ... ]");
    int error = first ? first
                      : weir_decode_map(decode, root, "the configuration", config_fields,
                                        sizeof(config_fields) / sizeof(config_fields[0]), decode->config);
    const struct weir_yaml_node *throttle = error ? NULL : weir_yaml_find(root, "cl_throttle");
    if (throttle)
        error = weir_throttle_check(decode, throttle->value);
    if (!error && root->kind == WEIR_YAML_MAP)
        error = file_has_rules(decode, root);
    if (!error && stored)
        error = weir_decode_kind_shown(decode, stored, WEIR_YAML_MAP, "a set of rules", "limits: [ ... ]");
    if (!error && stored)
        error = weir_decode_map(decode, stored, "a set of rules", stored_fields, WEIR_COUNT_OF(stored_fields),
                                decode->config);
    if (!weir_decode_goes_on(decode, error, &first))
        return first;
    decode->partial = first != 0;
    const struct weir_yaml_node *place = stored ? stored : root;
    const struct weir_yaml_node *limits = place->kind == WEIR_YAML_MAP ? weir_yaml_find(place, "limits") : NULL;
    if (limits && limits->value->kind == WEIR_YAML_LIST &&
        !weir_decode_goes_on(decode, limits_decode(decode, limits->value), &first))
        return first;
    if (!first)
        first = weir_sharing_warn(decode);
    if (!weir_decode_goes_on(decode, weir_replaces_check(decode), &first))
        return first;
    if (!weir_decode_goes_on(decode, weir_overlaps_find(decode), &first) || first)
        return first;
    return weir_warnings_find(decode);
}

static int by_place(const void *a, const void *b)
{
    const struct weir_mark *left = &((const struct weir_config_fault *)a)->mark;
    const struct weir_mark *right = &((const struct weir_config_fault *)b)->mark;
    if (left->line != right->line)
        return left->line < right->line ? -1 : 1;
    return (left->column > right->column) - (left->column < right->column);
}

/* What is read: a file, and the set of rules from its store (data NULL: none). */
struct reading {
    const char *text;
    size_t size;
    const char *directory;
    struct weir_slice stored;
    const struct weir_secret_read *secrets; /* those of the configuration of which this one has the text */
};

static int keep_texts(struct weir_decode *decode, const struct reading *reading)
{
    struct weir_config *config = decode->config;
    const char *source = weir_arena_copy(decode->arena, reading->text, reading->size);
    const char *where = reading->directory
                            ? weir_arena_copy(decode->arena, reading->directory, strlen(reading->directory))
                            : NULL;
    const char *stored = reading->stored.data
                             ? weir_arena_copy(decode->arena, reading->stored.data, reading->stored.size)
                             : NULL;
    if (!source || (reading->directory && !where) || (reading->stored.data && !stored))
        return weir_decode_nomem(decode);
    config->source = (struct weir_slice){ source, reading->size };
    config->directory = where;
    config->stored = (struct weir_slice){ stored, reading->stored.size };
    config->checksum = weir_siphash_joined(&(struct weir_sip_key){ 0 }, source, reading->size, stored ? stored : "",
                                           reading->stored.size);
    return 0;
}

static int parse(const struct reading *reading, struct weir_config **ret_config, struct weir_config_fault *list,
                 size_t room, size_t *ret_count)
{
    struct weir_yaml_node *root = NULL, *stored = NULL;
    struct weir_arena *tree = weir_arena_create();
    struct weir_arena *arena = weir_arena_create();
    struct weir_config *config = arena ? weir_arena_alloc(arena, 1, sizeof(*config)) : NULL;
    struct weir_decode decode = {
        .config = config,
        .arena = arena,
        .fault = list,
        .fault_last = list + room - 1,
        .directory = reading->directory,
        .secrets = reading->secrets,
    };
    list->text[0] = '\0';
    int error = tree && config ? 0 : weir_decode_nomem(&decode);
    if (!error)
        error = weir_yaml_parse(reading->text, reading->size, tree, &root, decode.fault);
    if (!error && reading->stored.data)
        error = weir_yaml_parse(reading->stored.data, reading->stored.size, tree, &stored, decode.fault);
    if (!error)
        error = tree_decode(&decode, root, stored);
    weir_arena_destroy(tree);
    if (!error)
        error = keep_texts(&decode, reading);
    if (error) {
        weir_arena_destroy(arena);
        *ret_count = (size_t)(decode.fault - list) + (decode.fault->text[0] != '\0');
        qsort(list, *ret_count, sizeof(*list), by_place);
        return error;
    }
    config->arena = arena;
    *ret_config = config;
    return 0;
}

int weir_config_parse(const char *text, size_t size, struct weir_config **ret_config,
                      struct weir_config_fault *ret_fault)
{
    struct weir_config_fault fault;
    size_t count;
    const struct reading reading = { .text = text, .size = size };
    return parse(&reading, ret_config, ret_fault ? ret_fault : &fault, 1, &count);
}

/* Up to one byte more than is allowed, so that the parser says what is wrong; a FIFO is as good as a file. */
static int file_read(FILE *file, char **ret_text, size_t *ret_size)
{
    size_t room = (size_t)64 << 10;
    size_t size = 0;
    char *text = malloc(room);
    while (text) {
        size += fread(text + size, 1, room - size, file);
        if (size < room || size > WEIR_CONFIG_BYTES_MAX)
            break;
        room = room * 2 > WEIR_CONFIG_BYTES_MAX ? WEIR_CONFIG_BYTES_MAX + 1 : room * 2;
        char *more = realloc(text, room);
        if (!more)
            free(text);
        text = more;
    }
    if (!text)
        return WEIR_ENOMEM;
    if (ferror(file)) {
        free(text);
        return WEIR_EIO;
    }
    *ret_text = text;
    *ret_size = size;
    return 0;
}

static int path_fail(struct weir_config_fault *fault, int error)
{
    const char *text = error == WEIR_EIO ? strerror(errno) : weir_error_text(error);
    return weir_config_fail(fault, error, (struct weir_mark){ 0, 0 }, "cannot be read: %s", text);
}

static int load(const char *path, struct weir_config **ret_config, struct weir_config_fault *list, size_t room,
                size_t *ret_count)
{
    *ret_count = 1;
    char *text = NULL;
    size_t size = 0;
    FILE *file = fopen(path, "rbe");
    if (!file)
        return path_fail(list, WEIR_EIO);
    int error = file_read(file, &text, &size);
    if (error)
        (void)path_fail(list, error);
    (void)fclose(file);
    const char *slash = strrchr(path, '/');
    char *directory = error ? NULL : strndup(path, slash ? (size_t)(slash - path) + 1 : 0);
    if (!error && !directory)
        error = path_fail(list, WEIR_ENOMEM);
    const struct reading reading = { .text = text, .size = size, .directory = directory };
    if (!error)
        error = parse(&reading, ret_config, list, room, ret_count);
    if (text)
        explicit_bzero(text, size);
    free(text);
    free(directory);
    return error;
}

int weir_config_load(const char *path, struct weir_config **ret_config, struct weir_config_fault *ret_fault)
{
    struct weir_config_fault fault;
    size_t count;
    return load(path, ret_config, ret_fault ? ret_fault : &fault, 1, &count);
}

int weir_config_load_telling(const char *path, struct weir_config **ret_config, struct weir_config_faults *ret_faults)
{
    return load(path, ret_config, ret_faults->list, WEIR_CONFIG_FAULTS_MAX, &ret_faults->count);
}

int weir_config_again(const struct weir_config *config, struct weir_config **ret_config,
                      struct weir_config_fault *ret_fault)
{
    struct weir_config_fault fault;
    size_t count;
    const struct reading reading = { config->source.data, config->source.size, config->directory, config->stored,
                                     config->secrets };
    return parse(&reading, ret_config, ret_fault ? ret_fault : &fault, 1, &count);
}

int weir_config_with_rules(const struct weir_config *config, struct weir_slice stored, struct weir_config **ret_config,
                           struct weir_config_faults *ret_faults)
{
    const struct reading reading = { config->source.data, config->source.size, config->directory, stored,
                                     config->secrets };
    return parse(&reading, ret_config, ret_faults->list, WEIR_CONFIG_FAULTS_MAX, &ret_faults->count);
}

int weir_config_example(struct weir_config **ret_config, struct weir_config_fault *ret_fault)
{
    struct weir_slice text = weir_config_example_text();
    return weir_config_parse(text.data, text.size, ret_config, ret_fault);
}

void weir_config_destroy(struct weir_config *config)
{
    if (config)
        weir_arena_destroy(config->arena);
}

void weir_config_fault_format(const struct weir_config_fault *fault, const char *file, char *buffer, size_t size)
{
    if (fault->mark.line == 0)
        (void)snprintf(buffer, size, "%s: %s", file, fault->text);
    else
        (void)snprintf(buffer, size, "%s:%u:%u: %s", file, fault->mark.line, fault->mark.column, fault->text);
}
