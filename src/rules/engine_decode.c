/* SPDX-License-Identifier: Apache-2.0
 *
 * The section `engine:`, called by config.c through the table of sections: Redis servers, cluster or sentinels,
 * passwords, TLS. When all keys are read, redis_check refuses those that contradict each other. Connections are made in
 * limits/redis; `locks:`, which has engines of its own, is read by locks_decode.c. */
#include <limits.h>
#include <string.h>

#include "rules/secret_decode.h"
#include "rules/section_decode.h"

#define SECOND WEIR_NS_PER_SECOND
#define OF(member) offsetof(struct weir_config_redis, member)
#define PREFIX_MAX 32
#define NAME_MAX_BYTES 512

static bool is_same(const struct weir_address *a, const struct weir_address *b)
{
    return a->kind == b->kind && a->port == b->port && strcmp(a->host, b->host) == 0 && strcmp(a->path, b->path) == 0;
}

static int server_read(struct weir_decode *decode, const struct weir_yaml_node *value, struct weir_config_redis *redis)
{
    struct weir_fault fault;
    struct weir_address *address = &redis->servers[redis->servers_count];
    int error = weir_decode_kind(decode, value, WEIR_YAML_SCALAR, "a server");
    if (error)
        return error;
    error = weir_address_parse_server(value->text.data, address, &fault);
    if (error)
        return weir_config_fail(decode->fault, error, value->mark, "server \"%.60s\": %s",
                                (const char *)value->text.data, fault.text);
    for (size_t i = 0; i < redis->servers_count; i++)
        if (is_same(&redis->servers[i], address))
            return weir_config_fail(decode->fault, WEIR_EEXIST, value->mark, "server \"%.60s\" stands twice in servers",
                                    (const char *)value->text.data);
    redis->servers_count++;
    return 0;
}

static int servers_read(struct weir_decode *decode, const struct weir_yaml_node *value, const struct weir_field *field,
                        void *target)
{
    struct weir_config_redis *redis = target;
    int error = weir_decode_kind_shown(decode, value, WEIR_YAML_LIST, field->name, "[\"HOST:6379\"]");
    if (!error)
        error = weir_decode_list(decode, value, field->name, 1, WEIR_SERVERS_MAX, sizeof(*redis->servers),
                                 &redis->servers);
    for (const struct weir_yaml_node *item = value->first; item && !error; item = item->next)
        error = server_read(decode, item, redis);
    return error;
}

static int prefix_read(struct weir_decode *decode, const struct weir_yaml_node *value, const struct weir_field *field,
                       void *target)
{
    static const char legal[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-.:";
    int error = weir_decode_text(decode, value, field, target);
    if (!error && strspn(value->text.data, legal) != value->text.size)
        error = weir_config_fail(
            decode->fault, WEIR_EINVAL, value->mark,
            "prefix \"%.40s\" must be made of letters, digits and _ - . :", (const char *)value->text.data);
    return error;
}

/* `tls: true`, or a mapping, which means it too. */
static int tls_read(struct weir_decode *decode, const struct weir_yaml_node *value, const struct weir_field *field,
                    void *target)
{
    static const struct weir_field fields[] = {
        { "ca_file", weir_decode_text, OF(tls_ca_file), false, 1, PATH_MAX, NULL },
        { "name", weir_decode_text, OF(tls_name), false, 1, 253, NULL },
    };
    struct weir_config_redis *redis = target;
    if (value->kind != WEIR_YAML_MAP)
        return weir_decode_switch(decode, value, field, &redis->tls);
    redis->tls = true;
    return weir_decode_map(decode, value, "tls of the engine", fields, WEIR_COUNT_OF(fields), target);
}

static const struct weir_field redis_fields[] = {
    { "servers", servers_read, 0, true, 0, 0, NULL },
    { "cluster", weir_decode_switch, OF(cluster), false, 0, 0, NULL },
    { "sentinel", weir_decode_text, OF(sentinel), false, 1, NAME_MAX_BYTES, NULL },
    { "username", weir_decode_text, OF(username), false, 1, NAME_MAX_BYTES, NULL },
    { "password", weir_password_decode, OF(password), false, 0, 0, NULL },
    { "password_file", weir_password_file_decode, OF(password), false, 0, 0, NULL },
    { "sentinel_password", weir_password_decode, OF(sentinel_password), false, 0, 0, NULL },
    { "sentinel_password_file", weir_password_file_decode, OF(sentinel_password), false, 0, 0, NULL },
    { "prefix", prefix_read, OF(prefix), false, 1, PREFIX_MAX, NULL },
    { "tls", tls_read, 0, false, 0, 0, NULL },
    { "connect_timeout", weir_decode_duration, OF(connect_timeout_ns), false, SECOND / 100, 60 * SECOND, NULL },
};

static int refuse(struct weir_decode *decode, const struct weir_yaml_node *map, const char *name, const char *why)
{
    const struct weir_yaml_node *key = weir_yaml_find(map, name);
    return weir_config_fail(decode->fault, WEIR_EINVAL, key->mark, "%s", why);
}

/* Which keys contradict each other. */
static int redis_check(struct weir_decode *decode, const struct weir_yaml_node *map,
                       const struct weir_config_redis *redis)
{
    bool sockets = false;
    for (size_t i = 0; i < redis->servers_count; i++)
        sockets = sockets || redis->servers[i].kind == WEIR_ADDRESS_UNIX;
    if (redis->cluster && redis->sentinel)
        return refuse(decode, map, "sentinel", "sentinel and cluster: true exclude each other");
    if (!redis->cluster && !redis->sentinel && redis->servers_count > 1)
        return refuse(decode, map, "servers", "several servers are only for cluster: true or sentinel: NAME");
    if (sockets && (redis->cluster || redis->sentinel))
        return refuse(decode, map, "servers", "a Unix socket is only for a single server");
    if (sockets && redis->tls)
        return refuse(decode, map, "tls", "tls is not for a Unix socket");
    if (weir_yaml_find(map, "password") && weir_yaml_find(map, "password_file"))
        return refuse(decode, map, "password_file", "password and password_file exclude each other");
    if (weir_yaml_find(map, "sentinel_password") && weir_yaml_find(map, "sentinel_password_file"))
        return refuse(decode, map, "sentinel_password_file",
                      "sentinel_password and sentinel_password_file exclude each other");
    if (redis->username && redis->password.size == 0)
        return refuse(decode, map, "username", "username needs password or password_file");
    if (redis->sentinel_password.size && !redis->sentinel)
        return refuse(decode, map,
                      weir_yaml_find(map, "sentinel_password") ? "sentinel_password" : "sentinel_password_file",
                      "a password of the sentinels needs sentinel: NAME");
    return 0;
}

static int redis_read(struct weir_decode *decode, const struct weir_yaml_node *value, const struct weir_field *field,
                      void *target)
{
    struct weir_config_redis *redis = target;
    *redis = (struct weir_config_redis){ .prefix = "weir", .connect_timeout_ns = SECOND };
    int error = weir_decode_kind_shown(decode, value, WEIR_YAML_MAP, field->name, "{ servers: [\"HOST:6379\"] }");
    if (!error)
        error = weir_decode_map(decode, value, field->name, redis_fields, WEIR_COUNT_OF(redis_fields), target);
    return error ? error : redis_check(decode, value, redis);
}

int weir_engine_decode(struct weir_decode *decode, const struct weir_yaml_node *value, const struct weir_field *field,
                       void *target)
{
    static const struct weir_field fields[] = {
        { "redis", redis_read, offsetof(struct weir_config, redis), true, 0, 0, NULL },
    };
    struct weir_config *config = target;
    config->mark_engine = value->mark;
    int error = weir_decode_kind_shown(decode, value, WEIR_YAML_MAP, field->name,
                                       "{ redis: { servers: [\"HOST:6379\"] } }");
    return error ? error : weir_decode_map(decode, value, field->name, fields, WEIR_COUNT_OF(fields), target);
}
