/* SPDX-License-Identifier: Apache-2.0
 *
 * One table of fields for each of the sections listen, envoy, table, tls, auth, server, headers, log and top, and the
 * reader of cluster_secret. engine, cluster, cl_throttle, locks and sessions have files of their own, as the tokens of
 * auth do (token_decode.c). Called by config.c, which sets the defaults first, through its table of sections. */
#include "rules/section_decode.h"

#include <limits.h>
#include <string.h>

#include "base/hex.h"
#include "observe/refusals.h"
#include "rules/token_decode.h"
#include "wire/http.h"

#define SECOND WEIR_NS_PER_SECOND
#define OF(member) offsetof(struct weir_config, member)

/* A name that a Host field may hold: what DNS and /etc/hosts know, without a port. */
static int host_decode(struct weir_decode *decode, const struct weir_yaml_node *item, const char **ret_host)
{
    static const char legal[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._";
    int error = weir_decode_kind(decode, item, WEIR_YAML_SCALAR, "a name in hosts");
    const char *text = item->text.data;
    if (error)
        return error;
    if (item->text.size == 0 || item->text.size > WEIR_HOST_NAME_MAX || strspn(text, legal) != item->text.size)
        return weir_config_fail(
            decode->fault, WEIR_EINVAL, item->mark,
            "\"%.40s\" in hosts must be a name of 1 to %d letters, digits and - . _, without a port", text,
            WEIR_HOST_NAME_MAX);
    *ret_host = weir_arena_copy(decode->arena, text, item->text.size);
    return *ret_host ? 0 : weir_decode_nomem(decode);
}

static int hosts_decode(struct weir_decode *decode, const struct weir_yaml_node *value, const struct weir_field *field,
                        void *target)
{
    struct weir_config_http *http = target;
    int error = weir_decode_list(decode, value, field->name, 0, WEIR_HOSTS_MAX, sizeof(*http->hosts), &http->hosts);
    for (const struct weir_yaml_node *item = value->first; item && !error; item = item->next)
        error = host_decode(decode, item, &http->hosts[http->hosts_count++]);
    return error;
}

/* An address, or a mapping with the address among what else is to be said of the listener. */
static int listen_http_decode(struct weir_decode *decode, const struct weir_yaml_node *value,
                              const struct weir_field *field, void *target)
{
    static const char *const sources[] = { "none", "nginx", "traefik", "caddy", "haproxy", NULL };
    static const char *const rules[] = { "normalise", "refuse", NULL };
    static const struct weir_field fields[] = {
        { "address", weir_decode_address, OF(http), false, 0, 0, NULL },
        { "forwarded", weir_decode_word, OF(http_rules.forwarded), false, 0, 0, sources },
        { "path", weir_decode_word, OF(http_rules.path), false, 0, 0, rules },
        { "hosts", hosts_decode, OF(http_rules), false, 0, 0, NULL },
    };
    struct weir_config *config = target;
    if (value->kind != WEIR_YAML_MAP)
        return weir_decode_address(decode, value, field, &config->http);
    return weir_decode_map(decode, value, field->name, fields, WEIR_COUNT_OF(fields), target);
}

int weir_listen_decode(struct weir_decode *decode, const struct weir_yaml_node *value, const struct weir_field *field,
                       void *target)
{
    static const struct weir_field fields[] = {
        { "resp", weir_decode_address, OF(resp), false, 0, 0, NULL },
        { "http", listen_http_decode, 0, false, 0, 0, NULL },
        { "admin", weir_decode_address, OF(admin), false, 0, 0, NULL },
        { "grpc", weir_decode_address, OF(grpc), false, 0, 0, NULL },
    };
    return weir_decode_map(decode, value, field->name, fields, WEIR_COUNT_OF(fields), target);
}

int weir_envoy_decode(struct weir_decode *decode, const struct weir_yaml_node *value, const struct weir_field *field,
                      void *target)
{
    static const struct weir_field fields[] = {
        { "count_all", weir_decode_switch, OF(envoy_count_all), false, 0, 0, NULL },
        { "ratelimit_config", weir_decode_text, OF(envoy_folder), false, 1, PATH_MAX, NULL },
    };
    struct weir_config *config = target;
    int error = weir_decode_map(decode, value, field->name, fields, WEIR_COUNT_OF(fields), target);
    if (!error && config->envoy_folder && config->envoy_folder[0] != '/' && decode->directory) {
        config->envoy_folder = weir_arena_print(decode->arena, "%s%s", decode->directory, config->envoy_folder);
        error = config->envoy_folder ? 0 : weir_decode_nomem(decode);
    }
    return error;
}

int weir_table_decode(struct weir_decode *decode, const struct weir_yaml_node *value, const struct weir_field *field,
                      void *target)
{
    static const struct weir_field fields[] = {
        { "memory", weir_decode_size, OF(memory_max), false, WEIR_MEMORY_MIN, (uint64_t)16 << 40, NULL },
        { "log_memory", weir_decode_size, OF(log_memory_max), false, 4096, (uint64_t)16 << 40, NULL },
        { "skew_max", weir_decode_duration, OF(skew_max_ns), false, SECOND / 1000, 3600 * SECOND, NULL },
        { "snapshot", weir_decode_text, OF(snapshot_path), false, 1, PATH_MAX - 100, NULL },
        { "snapshot_every", weir_decode_duration, OF(snapshot_every_ns), false, SECOND, 3600 * SECOND, NULL },
    };
    struct weir_config *config = target;
    int error = weir_decode_map(decode, value, field->name, fields, WEIR_COUNT_OF(fields), target);
    if (!error && config->log_memory_max > config->memory_max / 2)
        error = weir_config_fail(decode->fault, WEIR_ERANGE, value->mark,
                                 "log_memory must be at most half of memory, which it is a part of");
    const struct weir_yaml_node *every = weir_yaml_find(value, "snapshot_every");
    if (!error && every && !config->snapshot_path)
        error = weir_config_fail(decode->fault, WEIR_EINVAL, every->mark, "snapshot_every needs snapshot: a path");
    return error;
}

int weir_tls_decode(struct weir_decode *decode, const struct weir_yaml_node *value, const struct weir_field *field,
                    void *target)
{
    static const struct weir_field fields[] = {
        { "cert", weir_decode_text, OF(tls_cert_file), true, 1, PATH_MAX, NULL },
        { "key", weir_decode_text, OF(tls_key_file), true, 1, PATH_MAX, NULL },
    };
    return weir_decode_map(decode, value, field->name, fields, WEIR_COUNT_OF(fields), target);
}

int weir_auth_decode(struct weir_decode *decode, const struct weir_yaml_node *value, const struct weir_field *field,
                     void *target)
{
    static const char *const required_words[] = { "auto", "always", "never", NULL };
    static const struct weir_field fields[] = {
        { "required", weir_decode_word, OF(auth_required), false, 0, 0, required_words },
        { "tokens", weir_tokens_decode, 0, false, 0, 0, NULL },
    };
    struct weir_config *config = target;
    int error = weir_decode_kind_shown(decode, value, WEIR_YAML_MAP, field->name,
                                       "{ tokens: [{ name: NAME, secret: SECRET }] }");
    if (!error)
        error = weir_decode_map(decode, value, field->name, fields, WEIR_COUNT_OF(fields), target);
    if (!error && config->auth_required == WEIR_AUTH_ALWAYS && config->tokens_count == 0)
        error = weir_config_fail(decode->fault, WEIR_EINVAL, value->mark,
                                 "required: always without tokens would let nobody in");
    return error;
}

int weir_server_decode(struct weir_decode *decode, const struct weir_yaml_node *value, const struct weir_field *field,
                       void *target)
{
#define AT(member) offsetof(struct weir_config_server, member)
    static const struct weir_field fields[] = {
        { "connections_max", weir_decode_u32, AT(connections_max), false, 1, 1000000, NULL },
        { "pipeline_max", weir_decode_u32, AT(pipeline_max), false, 1, 100000, NULL },
        { "headers_max", weir_decode_u32, AT(headers_max), false, 1, WEIR_HTTP_HEADERS_MAX, NULL },
        { "header_bytes_max", weir_decode_size32, AT(header_bytes_max), false, 256, 1 << 20, NULL },
        { "body_bytes_max", weir_decode_size32, AT(body_bytes_max), false, 64, 16 << 20, NULL },
        { "command_bytes_max", weir_decode_size32, AT(command_bytes_max), false, 256, 16 << 20, NULL },
        { "buffer_bytes_max", weir_decode_size32, AT(buffer_bytes_max), false, 1 << 20, UINT32_MAX, NULL },
        { "hold_bytes_max", weir_decode_size32, AT(hold_bytes_max), false, 65536, UINT32_MAX, NULL },
        { "output_bytes_max", weir_decode_size32, AT(output_bytes_max), false, 4096, 256 << 20, NULL },
        { "idle_timeout", weir_decode_duration, AT(idle_timeout_ns), false, SECOND / 10, 86400 * SECOND, NULL },
        { "request_timeout", weir_decode_duration, AT(request_timeout_ns), false, SECOND / 10, 3600 * SECOND, NULL },
        { "drain_timeout", weir_decode_duration, AT(drain_timeout_ns), false, SECOND / 1000, 3600 * SECOND, NULL },
    };
#undef AT
    return weir_decode_map(decode, value, field->name, fields, WEIR_COUNT_OF(fields), target);
}

int weir_headers_decode(struct weir_decode *decode, const struct weir_yaml_node *value, const struct weir_field *field,
                        void *target)
{
    static const struct weir_field fields[] = {
        { "ratelimit", weir_decode_switch, OF(headers_ratelimit), false, 0, 0, NULL },
        { "x_ratelimit", weir_decode_switch, OF(headers_x_ratelimit), false, 0, 0, NULL },
    };
    return weir_decode_map(decode, value, field->name, fields, WEIR_COUNT_OF(fields), target);
}

int weir_log_decode(struct weir_decode *decode, const struct weir_yaml_node *value, const struct weir_field *field,
                    void *target)
{
    static const char *const format_words[] = { "text", "json", NULL };
    static const char *const level_words[] = { "error", "warn", "info", NULL };
    static const struct weir_field fields[] = {
        { "format", weir_decode_word, OF(log_format), false, 0, 0, format_words },
        { "level", weir_decode_word, OF(log_level), false, 0, 0, level_words },
        { "refusals", weir_decode_u32, OF(log_refusals), false, 0, WEIR_REFUSALS_RATE_MAX, NULL },
    };
    const struct weir_config *config = target;
    int error = weir_decode_map(decode, value, field->name, fields, WEIR_COUNT_OF(fields), target);
    if (!error && config->log_refusals > 0 && config->log_level != WEIR_LOG_INFO)
        error = weir_config_fail(decode->fault, WEIR_EINVAL, weir_yaml_find(value, "refusals")->mark,
                                 "refusals are lines of the level info: leave level away, or refusals");
    return error;
}

int weir_top_decode(struct weir_decode *decode, const struct weir_yaml_node *value, const struct weir_field *field,
                    void *target)
{
    static const char *const keys_words[] = { "hash", "text", "off", NULL };
    static const struct weir_field fields[] = {
        { "keys", weir_decode_word, OF(top_keys), false, 0, 0, keys_words },
    };
    return weir_decode_map(decode, value, field->name, fields, WEIR_COUNT_OF(fields), target);
}

int weir_cluster_secret_decode(struct weir_decode *decode, const struct weir_yaml_node *value,
                               const struct weir_field *field, void *target)
{
    struct weir_config *config = target;
    const char *text = value->text.data;
    uint8_t bytes[sizeof(config->cluster_secret)];
    int error = weir_decode_kind(decode, value, WEIR_YAML_SCALAR, field->name);
    if (error)
        return error;
    bool legal = value->text.size == 2 * sizeof(bytes);
    for (size_t i = 0; legal && i < sizeof(bytes); i++) {
        int high = weir_hex_digit(text[2 * i]);
        int low = weir_hex_digit(text[2 * i + 1]);
        legal = high >= 0 && low >= 0;
        bytes[i] = (uint8_t)(legal ? high * 16 + low : 0);
    }
    if (!legal) /* what was written is a secret: not shown */
        return weir_config_fail(decode->fault, WEIR_EINVAL, value->mark,
                                "cluster_secret must be 32 hexadecimal digits");
    memcpy(config->cluster_secret, bytes, sizeof(bytes));
    config->cluster_secret_set = true;
    return 0;
}
