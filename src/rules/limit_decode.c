/* SPDX-License-Identifier: Apache-2.0
 *
 * The table limit_fields has every key of a limit. When the keys are read, keys_check refuses those that do not go with
 * the algorithm, weir_limit_check (core/limit/spec.c) checks the numbers, and override_decode.c and sharing_decode.c do
 * the rest. Called by config.c for each limit of a file, and by revise.c for a definition from another node. */
#include "rules/limit_decode.h"

#include <stdlib.h>
#include <string.h>

#include "limits/zone.h"
#include "rules/replaces.h"
#include "rules/reserve_decode.h"
#include "rules/sharing_decode.h"
#include "rules/yaml_text.h"

#define SECOND WEIR_NS_PER_SECOND
#define HOLD_MAX 1000000
#define COST_MAX UINT64_C(1000000000000)

static const char *const algorithm_words[] = {
    "token_bucket", "leaky_bucket", "fixed_window", "sliding_log", "sliding_counter", "concurrency", NULL
};
static const char *const align_words[] = { "calendar", "first", NULL };
static const char *const count_words[] = { "admitted", "attempts", NULL };
static const char *const on_full_words[] = { "evict", "refuse", NULL };
static const char *const on_change_words[] = { "keep", "proportional", "reset", NULL };
const char *const weir_missing_words[] = { "skip", "share", "refuse", NULL };
static const char *const throttle_words[] = { "delay", "hold", NULL };

/* Names go into headers (RFC 9651 strings), metrics and RESP: what is plain in all of them. */
static int name_read(struct weir_decode *decode, const struct weir_yaml_node *value, const struct weir_field *field,
                     void *target)
{
    static const char legal[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._:/@-";
    int error = weir_decode_text(decode, value, field, target);
    if (!error && strspn(value->text.data, legal) != value->text.size)
        error = weir_config_fail(decode->fault, WEIR_EINVAL, value->mark,
                                 "name \"%.40s\" must be made of letters, digits and . _ : / @ -",
                                 (const char *)value->text.data);
    return error;
}

static int key_read(struct weir_decode *decode, const struct weir_yaml_node *value, const struct weir_field *field,
                    void *target)
{
    struct weir_config_limit *limit = target;
    if (value->kind == WEIR_YAML_SCALAR && value->text.size)
        return weir_config_fail(decode->fault, WEIR_EPROTO, value->mark, "key must be a list, not text: write [%.64s]",
                                (const char *)value->text.data);
    int error = weir_decode_kind(decode, value, WEIR_YAML_LIST, field->name);
    if (error)
        return error;
    if (value->count > WEIR_KEY_VALUES_MAX)
        return weir_config_fail(decode->fault, WEIR_ELIMIT, value->mark, "key must have at most %d attributes",
                                WEIR_KEY_VALUES_MAX);
    for (const struct weir_yaml_node *item = value->first; item; item = item->next) {
        const char *attribute;
        error = weir_attribute_decode(decode, item, &attribute);
        if (error)
            return error;
        for (size_t i = 0; i < limit->key_count; i++)
            if (strcmp(limit->key[i], attribute) == 0)
                return weir_config_fail(decode->fault, WEIR_EPROTO, item->mark, "\"%s\" stands twice in key",
                                        attribute);
        limit->key[limit->key_count++] = attribute;
    }
    return 0;
}

static int cost_read(struct weir_decode *decode, const struct weir_yaml_node *value, const struct weir_field *field,
                     void *target)
{
    struct weir_config_limit *limit = target;
    const char *text = value->text.data;
    if (value->kind != WEIR_YAML_SCALAR)
        return weir_config_fail(decode->fault, WEIR_EPROTO, value->mark,
                                "%s must be a whole number or the name of an attribute, not %s", field->name,
                                weir_yaml_kind_name(value->kind));
    bool number = strchr("+-.0123456789", *text) != NULL; /* the empty text too: not a name either */
    if (!number)
        return weir_attribute_decode(decode, value, &limit->cost_attribute);
    struct weir_field units = { .name = "cost", .min = 1, .max = COST_MAX };
    return weir_decode_u64(decode, value, &units, &limit->cost);
}

static int zone_read(struct weir_decode *decode, const struct weir_yaml_node *value, const struct weir_field *field,
                     void *target)
{
    struct weir_zone *zone = NULL;
    int error = weir_decode_text(decode, value, field, target);
    if (error)
        return error;
    error = weir_zone_create(value->text.data, &zone);
    weir_zone_destroy(zone);
    if (error)
        return weir_config_fail(decode->fault, error, value->mark,
                                "tz \"%.64s\" is not a time zone that this machine has: must be an IANA name such as "
                                "Europe/Berlin (package tzdata)",
                                (const char *)value->text.data);
    return 0;
}

/* These three are read last, by weir_limit_decode: they need the finished limit. */
static int overrides_read(struct weir_decode *decode, const struct weir_yaml_node *value,
                          const struct weir_field *field, void *target)
{
    (void)target;
    return weir_decode_kind(decode, value, WEIR_YAML_LIST, field->name);
}

static int levels_read(struct weir_decode *decode, const struct weir_yaml_node *value, const struct weir_field *field,
                       void *target)
{
    (void)target;
    (void)field;
    return weir_decode_kind_shown(decode, value, WEIR_YAML_MAP, "levels", "{ plus: { rate: 1000/min } }");
}

static int rollout_read(struct weir_decode *decode, const struct weir_yaml_node *value, const struct weir_field *field,
                        void *target)
{
    (void)target;
    (void)field;
    return weir_decode_kind_shown(decode, value, WEIR_YAML_MAP, "rollout", "{ percent: 10, rate: 200/min }");
}

#define OF(member) offsetof(struct weir_config_limit, member)

static const struct weir_field limit_fields[] = {
    { "name", name_read, OF(name), true, 1, WEIR_LIMIT_NAME_MAX, NULL },
    { "match", weir_match_decode, 0, false, 0, 0, NULL },
    { "key", key_read, 0, false, 0, 0, NULL },
    { "missing", weir_decode_word, OF(missing), false, 0, 0, weir_missing_words },
    { "rate", weir_rate_decode, OF(spec), true, 0, 0, NULL },
    { "burst", weir_decode_u64, OF(spec.burst), false, 1, WEIR_BURST_MAX, NULL },
    { "algorithm", weir_decode_word, OF(spec.algorithm), false, 0, 0, algorithm_words },
    { "align", weir_decode_word, OF(spec.align), false, 0, 0, align_words },
    { "tz", zone_read, OF(spec.tz), false, 1, WEIR_ZONE_NAME_MAX, NULL },
    { "spread", weir_decode_duration, OF(spec.spread_ns), false, 0, WEIR_FILL_MAX_NS, NULL },
    { "throttle", weir_decode_word, OF(throttle), false, 0, 0, throttle_words },
    { "hold_max", weir_decode_u32, OF(hold_max), false, 1, HOLD_MAX, NULL },
    { "hold_timeout", weir_decode_duration, OF(hold_timeout_ns), false, SECOND / 1000, 3600 * SECOND, NULL },
    { "count", weir_decode_word, OF(spec.count_mode), false, 0, 0, count_words },
    { "mode", weir_decode_word, OF(spec.mode), false, 0, 0, weir_mode_words },
    { "cost", cost_read, 0, false, 0, 0, NULL },
    { "overrides", overrides_read, 0, false, 0, 0, NULL },
    { "levels", levels_read, 0, false, 0, 0, NULL },
    { "rollout", rollout_read, 0, false, 0, 0, NULL },
    { "on_full", weir_decode_word, OF(spec.on_full), false, 0, 0, on_full_words },
    { "on_change", weir_decode_word, OF(spec.on_change), false, 0, 0, on_change_words },
    { "replaces", weir_replaces_decode, 0, false, 0, 0, NULL },
    { "ipv6_prefix", weir_decode_u32, OF(ipv6_prefix), false, 1, 128, NULL },
    { "sharing", weir_decode_word, OF(sharing), false, 0, 0, weir_sharing_words },
    { "slack", weir_decode_u64, OF(slack), false, 1, WEIR_BURST_MAX, NULL },
    { "interval", weir_decode_duration, OF(interval_ns), false, SECOND / 1000, 60 * SECOND, NULL },
    { "chunk_ttl", weir_decode_duration, OF(chunk_ttl_ns), false, SECOND / 10, 3600 * SECOND, NULL },
    { "on_failure", weir_decode_word, OF(on_failure), false, 0, 0, weir_on_failure_words },
    { "deadline", weir_decode_duration, OF(deadline_ns), false, SECOND / 1000, 10 * SECOND, NULL },
    { "reserve_max", weir_reserve_share_decode, OF(reserve.max_share), false, 0, 0, NULL },
    { "reserve_ttl_max", weir_decode_duration, OF(reserve.ttl_max_ns), false, SECOND, 86400 * SECOND, NULL },
    { "on_expiry", weir_reserve_expiry_decode, OF(reserve.on_expiry), false, 0, 0, NULL },
    { "estimate", weir_reserve_estimate_decode, OF(reserve.estimate), false, 0, 0, NULL },
    { "estimate_first", weir_decode_u64, OF(reserve.estimate_first), false, 1, WEIR_BURST_MAX, NULL },
    { "lease", weir_decode_duration, OF(lease_ns), false, WEIR_LEASE_MIN_NS, WEIR_EMISSION_MAX_NS, NULL },
};

/* Which keys make sense only with which settings. */
static int keys_check(struct weir_decode *decode, const struct weir_yaml_node *node,
                      const struct weir_config_limit *limit)
{
    bool window = limit->spec.algorithm == WEIR_FIXED_WINDOW;
    bool calendar = window && limit->spec.align == WEIR_ALIGN_CALENDAR;
    bool leaky = limit->spec.algorithm == WEIR_LEAKY_BUCKET;
    bool hold = leaky && limit->throttle == WEIR_THROTTLE_HOLD;
    const struct weir_key_need needs[] = {
        { "missing", limit->key_count > 0, "limits that have a key" },
        { "rollout", limit->key_count > 0, "limits that have a key: one counter has no share of keys" },
        { "align", window, "algorithm: fixed_window" },
        { "tz", calendar, "algorithm: fixed_window with align: calendar" },
        { "spread", calendar, "algorithm: fixed_window with align: calendar" },
        { "throttle", leaky, "algorithm: leaky_bucket" },
        { "lease", limit->spec.algorithm == WEIR_CONCURRENCY, "algorithm: concurrency" },
        { "hold_max", hold, "algorithm: leaky_bucket with throttle: hold" },
        { "hold_timeout", hold, "algorithm: leaky_bucket with throttle: hold" },
    };
    return weir_keys_need(decode, node, needs, WEIR_COUNT_OF(needs));
}

static struct weir_mark key_mark(const struct weir_yaml_node *node, const char *name)
{
    const struct weir_yaml_node *key = weir_yaml_find(node, name);
    return key ? key->value->mark : node->mark;
}

int weir_limit_decode(struct weir_decode *decode, const struct weir_yaml_node *node,
                      struct weir_config_limit *ret_limit)
{
    struct weir_config_limit limit = {
        .mark = node->mark,
        .definition = weir_yaml_hash(node),
        .cost = 1,
        .ipv6_prefix = 64,
        .hold_max = 1000,
        .hold_timeout_ns = 10 * SECOND,
        .lease_ns = 30 * SECOND,
        .interval_ns = SECOND / 10,
        .chunk_ttl_ns = 2 * SECOND,
        .deadline_ns = SECOND / 50,
        .reserve.ttl_max_ns = 600 * SECOND,
    };
    int error = weir_decode_map(decode, node, "a limit", limit_fields, WEIR_COUNT_OF(limit_fields), &limit);
    if (!error)
        error = keys_check(decode, node, &limit);
    if (!error)
        error = weir_reserve_check(decode, node, &limit);
    if (error)
        return error;
    limit.mark_rate = key_mark(node, "rate");
    limit.mark_burst = key_mark(node, "burst");
    limit.mark_tz = key_mark(node, "tz");
    limit.mark_key = key_mark(node, "key");
    limit.mark_cost = key_mark(node, "cost");
    limit.mark_hold = key_mark(node, "throttle");
    error = weir_spec_decode_finish(decode, node, limit.lease_ns, &limit.spec);
    if (error)
        return error;
    const struct weir_yaml_node *overrides = weir_yaml_find(node, "overrides");
    if (overrides && !weir_decode_goes_on(decode, weir_overrides_decode(decode, overrides->value, &limit), &error))
        return error;
    const struct weir_yaml_node *levels = weir_yaml_find(node, "levels");
    if (levels && !weir_decode_goes_on(decode, weir_levels_decode(decode, levels->value, &limit), &error))
        return error;
    const struct weir_yaml_node *rollout = weir_yaml_find(node, "rollout");
    if (rollout && !weir_decode_goes_on(decode, weir_rollout_decode(decode, rollout->value, &limit), &error))
        return error;
    if (!decode->partial && !weir_decode_goes_on(decode, weir_sharing_check(decode, node, &limit), &error))
        return error;
    if (!error)
        *ret_limit = limit;
    return error;
}
