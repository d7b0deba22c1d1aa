/* SPDX-License-Identifier: Apache-2.0
 *
 * Implements weir_overrides_decode of limit_decode.h. An override begins as a copy of its limit's spec, in which rate,
 * burst and mode are replaced; every other key must be an attribute of the limit's key. Its conditions are made into a
 * name, the variant, which does not depend on their order in the file. Called by limit_decode.c. */
#include <endian.h>
#include <stdio.h>
#include <string.h>

#include "base/siphash.h"
#include "rules/limit_decode.h"
#include "rules/pattern.h"

#define VARIANT_TEXT_MAX 100 /* of WEIR_LIMIT_NAME_MAX: longer ones end in a hash of the whole */

static const struct weir_field setting_fields[] = {
    { "rate", weir_rate_decode, offsetof(struct weir_limit_spec, count), false, 0, 0, NULL },
    { "burst", weir_decode_u64, offsetof(struct weir_limit_spec, burst), false, 1, WEIR_BURST_MAX, NULL },
    { "mode", weir_decode_word, offsetof(struct weir_limit_spec, mode), false, 0, 0, weir_mode_words },
};

static bool key_has(const struct weir_config_limit *limit, const struct weir_yaml_node *name)
{
    for (size_t i = 0; i < limit->key_count; i++)
        if (strlen(limit->key[i]) == name->text.size && memcmp(limit->key[i], name->text.data, name->text.size) == 0)
            return true;
    return false;
}

/* A mapping, of what the limit's key has to begin with. */
static int override_kind(struct weir_decode *decode, const struct weir_yaml_node *node,
                         const struct weir_config_limit *limit, const char *what, const char *settings)
{
    char shown[160];
    (void)snprintf(shown, sizeof(shown), "{ %.100s: VALUE%s }", limit->key_count ? limit->key[0] : "ATTRIBUTE",
                   settings);
    return weir_decode_kind_shown(decode, node, WEIR_YAML_MAP, what, shown);
}

static int stranger_fail(struct weir_decode *decode, const struct weir_yaml_node *key,
                         const struct weir_config_limit *limit)
{
    char attributes[160] = "";
    size_t used = 0;
    for (size_t i = 0; i < limit->key_count && used < sizeof(attributes); i++)
        used += (size_t)snprintf(attributes + used, sizeof(attributes) - used, "%s%s", i ? ", " : "", limit->key[i]);
    return weir_config_fail(
        decode->fault, WEIR_EPROTO, key->mark,
        "\"%.64s\" is neither rate, burst, mode nor an attribute of limit \"%s\", whose key is [%s]",
        (const char *)key->text.data, limit->name, attributes);
}

static int condition_add(struct weir_decode *decode, const struct weir_yaml_node *key,
                         const struct weir_config_limit *limit, struct weir_config_override *override)
{
    if (!key_has(limit, key))
        return stranger_fail(decode, key, limit);
    for (size_t i = 0; i < override->conditions_count; i++)
        if (strcmp(override->conditions[i].attribute, key->text.data) == 0)
            return weir_config_fail(decode->fault, WEIR_EPROTO, key->mark, "\"%.64s\" stands twice in the override",
                                    (const char *)key->text.data);
    int error = weir_condition_decode(decode, key, &override->conditions[override->conditions_count]);
    override->conditions_count += !error;
    return error;
}

/* `key: { mode: x }`: the long form, for attributes that are called like a setting. */
static int conditions_add(struct weir_decode *decode, const struct weir_yaml_node *map,
                          const struct weir_config_limit *limit, struct weir_config_override *override)
{
    int error = override_kind(decode, map, limit, "the key of an override", "");
    for (const struct weir_yaml_node *key = map->first; key && !error; key = key->next)
        error = condition_add(decode, key, limit, override);
    return error;
}

static int setting_read(struct weir_decode *decode, const struct weir_yaml_node *key, struct weir_limit_spec *spec,
                        bool *ret_is_setting)
{
    *ret_is_setting = false;
    for (size_t i = 0; i < sizeof(setting_fields) / sizeof(setting_fields[0]); i++) {
        const struct weir_field *field = &setting_fields[i];
        if (strcmp(field->name, key->text.data) != 0)
            continue;
        *ret_is_setting = true;
        /* A rate sets several members: it is given the whole spec. */
        void *target = field->read == weir_rate_decode ? (void *)spec : (char *)spec + field->offset;
        return field->read(decode, key->value, field, target);
    }
    return 0;
}

/* "Any" says nothing where the attributes of a key are always there. Length-prefixed, so that no two sets of conditions
 * have one text; in the order of the limit's key, so that the order in the file does not matter. */
static int variant_make(struct weir_decode *decode, const struct weir_config_limit *limit,
                        struct weir_config_override *override)
{
    static const struct weir_sip_key fixed = { 0, 0 }; /* the configuration's author is no attacker of his own names */
    struct weir_siphash_state hash;
    char text[VARIANT_TEXT_MAX + 1] = "";
    size_t used = 0;
    weir_siphash_start(&hash, &fixed);
    for (size_t i = 0; i < limit->key_count; i++)
        for (size_t j = 0; j < override->conditions_count; j++) {
            const struct weir_condition *condition = &override->conditions[j];
            bool any = !condition->terms && weir_pattern_is_any(condition->pattern) &&
                       limit->missing == WEIR_MISSING_SKIP;
            if (strcmp(condition->attribute, limit->key[i]) != 0 || any)
                continue;
            const uint64_t sizes[2] = { strlen(condition->attribute), condition->pattern.size };
            const uint64_t hashed[2] = { htole64(sizes[0]), htole64(sizes[1]) }; /* the same on every machine */
            weir_siphash_add(&hash, hashed, sizeof(hashed));
            weir_siphash_add(&hash, condition->attribute, sizes[0]);
            weir_siphash_add(&hash, condition->pattern.data, sizes[1]);
            if (condition->terms)
                weir_siphash_add(&hash, "", 1); /* a list is not the value that is written like it */
            if (used < sizeof(text))
                used += (size_t)snprintf(text + used, sizeof(text) - used, "%s%s=%s", used ? "," : "",
                                         condition->attribute, (const char *)condition->pattern.data);
        }
    override->variant = weir_arena_print(decode->arena, "%s#%016llx", text,
                                         (unsigned long long)weir_siphash_end(&hash));
    return override->variant ? 0 : weir_decode_nomem(decode);
}

static int override_decode(struct weir_decode *decode, const struct weir_yaml_node *node,
                           const struct weir_config_limit *limit, struct weir_config_override *override)
{
    bool settings = false;
    override->mark = node->mark;
    override->spec = limit->spec;
    int error = override_kind(decode, node, limit, "an override", ", rate: 100/min");
    for (const struct weir_yaml_node *key = node->first; key && !error; key = key->next) {
        bool is_setting;
        error = setting_read(decode, key, &override->spec, &is_setting);
        settings = settings || is_setting;
        if (error || is_setting)
            continue;
        bool nested = strcmp(key->text.data, "key") == 0 && key->value->kind == WEIR_YAML_MAP;
        error = nested ? conditions_add(decode, key->value, limit, override)
                       : condition_add(decode, key, limit, override);
    }
    if (error)
        return error;
    if (!settings)
        return weir_config_fail(decode->fault, WEIR_EPROTO, node->mark, "an override must have rate, burst or mode");
    if (override->conditions_count == 0)
        return weir_config_fail(decode->fault, WEIR_EPROTO, node->mark,
                                "an override must have a value for an attribute of the limit's key");
    error = weir_spec_decode_finish(decode, node, limit->lease_ns, &override->spec);
    return error ? error : variant_make(decode, limit, override);
}

int weir_overrides_decode(struct weir_decode *decode, const struct weir_yaml_node *node,
                          struct weir_config_limit *limit)
{
    size_t count = 0;
    int first = 0;
    limit->overrides = weir_arena_alloc(decode->arena, node->count, sizeof(*limit->overrides));
    if (!limit->overrides && node->count)
        return weir_decode_nomem(decode);
    for (const struct weir_yaml_node *item = node->first; item; item = item->next) {
        int error = override_decode(decode, item, limit, &limit->overrides[count++]);
        if (!weir_decode_goes_on(decode, error, &first))
            break;
    }
    limit->overrides_count = count;
    return first;
}
