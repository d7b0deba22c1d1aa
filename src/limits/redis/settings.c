/* SPDX-License-Identifier: Apache-2.0
 *
 * Checks and copies the options of weir_redis_create, and fills in defaults for the connect timeout and the breaker.
 * The fault names the first option that is wrong. Called by redis.c. The configuration file is read in
 * src/rules/engine_decode.c, the CA file in net/redis_tls.c. */
#include <string.h>

#include "base/fault.h"
#include "limits/redis/engine.h"

#define CONNECT_TIMEOUT_NS WEIR_NS_PER_SECOND
#define PREFIX_CHARACTERS "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-.:"

/* Copies a text that may be absent into `size_max` bytes and a NUL; false: it is too long. */
static bool copy(char *to, size_t size_max, const char *from)
{
    size_t size = from ? strlen(from) : 0;
    if (size > size_max)
        return false;
    memcpy(to, from ? from : "", size);
    to[size] = '\0';
    return true;
}

static int take_servers(struct weir_redis_settings *settings, const struct weir_redis_options *options,
                        struct weir_fault *ret_fault)
{
    if (options->servers_count < 1 || options->servers_count > WEIR_REDIS_SEEDS_MAX ||
        (options->topology == WEIR_REDIS_SINGLE && options->servers_count > 1))
        return weir_fault_set(ret_fault, WEIR_ERANGE, "servers", "must be 1 to 64 (one, without Sentinel and Cluster)");
    for (size_t i = 0; i < options->servers_count; i++) {
        const struct weir_redis_address *server = &options->servers[i];
        struct weir_redis_seed *seed = &settings->seeds[i];
        if (!copy(seed->host, sizeof seed->host - 1, server->path ? "" : server->host) ||
            !copy(seed->path, sizeof seed->path - 1, server->path))
            return weir_fault_set(ret_fault, WEIR_ERANGE, "servers", "a host is at most 127 bytes, a path 107");
        if (!seed->path[0] && (!seed->host[0] || server->port == 0))
            return weir_fault_set(ret_fault, WEIR_EINVAL, "servers", "must have a host and a port, or a path");
        seed->port = server->path ? 0 : server->port;
    }
    settings->seeds_count = options->servers_count;
    return 0;
}

static int take_secrets(struct weir_redis_settings *settings, const struct weir_redis_options *options,
                        struct weir_fault *ret_fault)
{
    if (options->password.size > WEIR_REDIS_SECRET_MAX || options->sentinel_password.size > WEIR_REDIS_SECRET_MAX)
        return weir_fault_set(ret_fault, WEIR_ERANGE, "password", "must be at most 512 bytes");
    if (!copy(settings->username, sizeof settings->username - 1, options->username))
        return weir_fault_set(ret_fault, WEIR_ERANGE, "username", "must be at most 512 bytes");
    settings->password_size = options->password.size;
    settings->sentinel_password_size = options->sentinel_password.size;
    if (options->password.size > 0)
        memcpy(settings->password, options->password.data, options->password.size);
    if (options->sentinel_password.size > 0)
        memcpy(settings->sentinel_password, options->sentinel_password.data, options->sentinel_password.size);
    return 0;
}

int weir_redis_settings_init(struct weir_redis_settings *settings, const struct weir_redis_options *options,
                             struct weir_fault *ret_fault)
{
    *settings = (struct weir_redis_settings){
        .topology = options->topology,
        .connect_timeout_ns = options->connect_timeout_ns ? options->connect_timeout_ns : CONNECT_TIMEOUT_NS,
        .breaker = options->breaker.failures_max ? options->breaker : weir_breaker_defaults,
        .test_clock = options->test_clock,
    };
    int error = take_servers(settings, options, ret_fault);
    if (!error)
        error = take_secrets(settings, options, ret_fault);
    if (error)
        return error;
    if (!copy(settings->sentinel_name, sizeof settings->sentinel_name - 1, options->sentinel_name) ||
        (options->topology == WEIR_REDIS_SENTINEL && !settings->sentinel_name[0]))
        return weir_fault_set(ret_fault, WEIR_EINVAL, "sentinel_name", "must be 1 to 512 bytes");
    if (!copy(settings->prefix, sizeof settings->prefix - 1, options->prefix ? options->prefix : "weir") ||
        !settings->prefix[0] || settings->prefix[strspn(settings->prefix, PREFIX_CHARACTERS)])
        return weir_fault_set(ret_fault, WEIR_EINVAL, "prefix", "must be 1 to 32 of A-Z a-z 0-9 _ - . :");
    if (!copy(settings->tls_name, sizeof settings->tls_name - 1, options->tls_name))
        return weir_fault_set(ret_fault, WEIR_ERANGE, "tls_name", "must be at most 127 bytes");
    if (options->seed == 0)
        return weir_fault_set(ret_fault, WEIR_EINVAL, "seed", "must not be 0");
    return 0;
}
