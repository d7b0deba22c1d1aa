/* SPDX-License-Identifier: Apache-2.0
 *
 * What a limit and an override of it have in common: a rate, the words of a mode, and what is checked of the two when
 * all keys have been read. Called by limit_decode.c and override_decode.c. */
#include <string.h>

#include "rules/config.h"
#include "rules/limit_decode.h"
#include "rules/number.h"

const char *const weir_mode_words[] = { "enforce", "shadow", "off", NULL };

int weir_rate_decode(struct weir_decode *decode, const struct weir_yaml_node *value, const struct weir_field *field,
                     void *target)
{
    struct weir_fault fault;
    struct weir_limit_spec *spec = target;
    const char *at = value->text.data;
    uint64_t count = 0;
    if (value->kind != WEIR_YAML_SCALAR)
        return weir_config_fail(decode->fault, WEIR_EPROTO, value->mark,
                                "rate must be COUNT/PERIOD, such as 100/min, or for concurrency a COUNT, not %s",
                                weir_yaml_kind_name(value->kind));
    if (weir_number_scan(&at, &count) == 0 && *at == '\0') {
        spec->count = count;
        spec->period_ns = 0;
        return 0;
    }
    int error = weir_rate_parse(value->text.data, target, &fault);
    if (error)
        return weir_config_fail(decode->fault, error, value->mark, "%s %s", field->name, fault.text);
    return 0;
}

int weir_keys_need(struct weir_decode *decode, const struct weir_yaml_node *node, const struct weir_key_need *needs,
                   size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const struct weir_yaml_node *key = weir_yaml_find(node, needs[i].key);
        if (key && !needs[i].fits)
            return weir_config_fail(decode->fault, WEIR_EINVAL, key->mark, "\"%s\" is only for %s", needs[i].key,
                                    needs[i].needs);
    }
    return 0;
}

/* The key that a field of weir_limit_check is written as. */
static const char *key_of_field(const char *field)
{
    static const char *const pairs[][2] = {
        { "burst", "burst" }, { "spread_ns", "spread" },   { "algorithm", "algorithm" }, { "align", "align" },
        { "tz", "tz" },       { "mode", "mode" },          { "spread", "spread" },       { "count_mode", "count" },
        { "lease", "lease" }, { "on_change", "on_change" }
    };
    for (size_t i = 0; i < sizeof(pairs) / sizeof(pairs[0]); i++)
        if (strcmp(pairs[i][0], field) == 0)
            return pairs[i][1];
    return "rate"; /* count, period_ns, calendar, calendar_count */
}

/* A rate has a period; how many at once has none. */
static int period_check(struct weir_decode *decode, const struct weir_yaml_node *node,
                        const struct weir_limit_spec *spec)
{
    const struct weir_yaml_node *rate = weir_yaml_find(node, "rate");
    bool concurrency = spec->algorithm == WEIR_CONCURRENCY;
    if (!rate || (spec->period_ns == 0) == concurrency)
        return 0;
    const char *text = rate->value->text.data;
    if (concurrency)
        return weir_config_fail(decode->fault, WEIR_EINVAL, rate->value->mark,
                                "rate \"%.40s\" must be a COUNT, such as 50: how many at once has no period", text);
    return weir_config_fail(decode->fault, WEIR_EINVAL, rate->value->mark,
                            "rate \"%.40s\" must be COUNT/PERIOD, such as 100/min, 100/90s or 5/250ms", text);
}

int weir_spec_decode_finish(struct weir_decode *decode, const struct weir_yaml_node *node, uint64_t lease_ns,
                            struct weir_limit_spec *spec)
{
    struct weir_fault fault = { "", "" };
    bool bucket = spec->algorithm == WEIR_TOKEN_BUCKET || spec->algorithm == WEIR_LEAKY_BUCKET;
    const struct weir_key_need burst = { "burst", bucket, "token_bucket and leaky_bucket" };
    if (spec->algorithm != WEIR_FIXED_WINDOW || spec->align != WEIR_ALIGN_CALENDAR) {
        spec->calendar = WEIR_CALENDAR_FIXED;
        spec->calendar_count = 0;
    }
    int error = period_check(decode, node, spec);
    if (spec->algorithm == WEIR_CONCURRENCY)
        spec->period_ns = lease_ns;
    if (!error)
        error = weir_keys_need(decode, node, &burst, 1);
    if (!error)
        error = weir_limit_check(spec, &fault);
    if (!error || fault.field[0] == '\0')
        return error;
    const char *name = key_of_field(fault.field);
    const struct weir_yaml_node *key = weir_yaml_find(node, name);
    return weir_config_fail(decode->fault, error, key ? key->value->mark : node->mark, "%s %s", name, fault.text);
}
