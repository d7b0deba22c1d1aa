/* SPDX-License-Identifier: Apache-2.0
 *
 * One file: YAML to a tree (yaml_node.c), each mapping by a table of its keys (decode.c), then what siblings do to each
 * other. That service joins key and value with an underscore and looks the whole up; where weir, which compares the two
 * by themselves, would choose another descriptor than it, the file is refused. Called by envoy_rules.c. */
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "rules/decode.h"
#include "rules/envoy_rules_tree.h"
#include "rules/literal.h"
#include "rules/pattern.h"

#define EMPTY "the file is empty"
#define KEY_MAX (WEIR_ATTRIBUTE_NAME_MAX - 3) /* and "#16" behind it, where it stands more than once */

const struct weir_envoy_unit_words weir_envoy_units[] = {
    { "second", "s" },     { "minute", "min" },    { "hour", "hour" },     { "day", "day" },
    { "week", "168hour" }, { "month", "720hour" }, { "year", "8760hour" }, { NULL, NULL },
};

/* `key:` with nothing behind it is no key, in that service. */
static bool is_null(const struct weir_yaml_node *node)
{
    static const char *const words[] = { "", "~", "null", "Null", "NULL" };
    for (size_t i = 0; node->kind == WEIR_YAML_SCALAR && node->plain && i < WEIR_COUNT_OF(words); i++)
        if (strcmp(node->text.data, words[i]) == 0)
            return true;
    return false;
}

/* Of key, value and domain. */
static int text_read(struct weir_decode *decode, const struct weir_yaml_node *value, const struct weir_field *field,
                     void *target)
{
    struct weir_envoy_text *text = target;
    struct weir_block block;
    *text = (struct weir_envoy_text){ { "", 0 }, value->mark };
    if (is_null(value))
        return 0;
    int error = weir_decode_kind(decode, value, WEIR_YAML_SCALAR, field->name);
    if (error)
        return error;
    const struct weir_slice own = value->text;
    if (own.size > field->max)
        return weir_config_fail(decode->fault, WEIR_ERANGE, value->mark, "%s must be at most %u bytes long",
                                field->name, (unsigned)field->max);
    if (memchr(own.data, '\0', own.size))
        return weir_config_fail(decode->fault, WEIR_EPROTO, value->mark, "%s must not contain a NUL", field->name);
    const enum weir_block_text kind = weir_block_parse(own, &block);
    if (kind != WEIR_BLOCK_NONE && kind != WEIR_BLOCK_SHORT)
        return weir_config_fail(decode->fault, WEIR_EINVAL, value->mark,
                                "%s \"%.64s\" is a block of addresses for weir, and a text like any other for "
                                "envoyproxy/ratelimit: weir cannot compare with it",
                                field->name, (const char *)own.data);
    text->text.data = weir_arena_copy(decode->arena, own.data, own.size);
    text->text.size = own.size;
    return text->text.data ? 0 : weir_decode_nomem(decode);
}

static int key_read(struct weir_decode *decode, const struct weir_yaml_node *value, const struct weir_field *field,
                    void *target)
{
    const struct weir_envoy_text *text = target;
    int error = text_read(decode, value, field, target);
    const char *key = text->text.data;
    if (error)
        return error;
    if (text->text.size == 0)
        return weir_config_fail(decode->fault, WEIR_EINVAL, value->mark, "%s must not be empty", field->name);
    if (strpbrk(key, "*,"))
        return weir_config_fail(decode->fault, WEIR_EINVAL, value->mark,
                                "%s \"%.64s\" must not have a * or a comma: weir compares it as it is", field->name,
                                key);
    if (strcmp(key, "domain") == 0 || strcmp(key, WEIR_ENVOY_DESCRIPTOR) == 0)
        return weir_config_fail(decode->fault, WEIR_EINVAL, value->mark,
                                "no entry may be called \"%s\", which is an attribute that weir sets itself", key);
    return 0;
}

/* What YAML 1.1 calls true and false. */
static int switch_read(struct weir_decode *decode, const struct weir_yaml_node *value, const struct weir_field *field,
                       void *target)
{
    static const char *const words[] = { "false", "true", "no", "yes", "off", "on", "n", "y" };
    bool *on = target;
    *on = false;
    if (is_null(value))
        return 0;
    for (size_t i = 0; value->kind == WEIR_YAML_SCALAR && value->plain && i < WEIR_COUNT_OF(words); i++) {
        if (strcasecmp(value->text.data, words[i]) == 0) {
            *on = i % 2 == 1;
            return 0;
        }
    }
    return weir_config_fail(decode->fault, WEIR_EPROTO, value->mark, "%s must be true or false", field->name);
}

/* A switch that may be off. */
static int off_read(struct weir_decode *decode, const struct weir_yaml_node *value, const struct weir_field *field,
                    const char *why)
{
    bool on = false;
    int error = switch_read(decode, value, field, &on);
    if (!error && on)
        error = weir_config_fail(decode->fault, WEIR_EINVAL, value->mark, "%s: true is not what weir can do: %s",
                                 field->name, why);
    return error;
}

static int quota_read(struct weir_decode *decode, const struct weir_yaml_node *value, const struct weir_field *field,
                      void *target)
{
    (void)target;
    return off_read(decode, value, field, "a descriptor that is over its limit refuses the request");
}

static int metric_read(struct weir_decode *decode, const struct weir_yaml_node *value, const struct weir_field *field,
                       void *target)
{
    (void)target;
    return off_read(decode, value, field,
                    "no metric has the value of a request, of which there may be any number; weir top and GET /v1/top "
                    "tell which keys are refused");
}

static int metadata_read(struct weir_decode *decode, const struct weir_yaml_node *value, const struct weir_field *field,
                         void *target)
{
    (void)target;
    if (is_null(value) || (value->kind == WEIR_YAML_MAP && value->count == 0))
        return 0;
    return weir_config_fail(decode->fault, WEIR_EINVAL, value->mark, "%s is not what weir can do: it sends no %s",
                            field->name, "dynamic_metadata");
}

/* ---- rate_limit ---- */

static int unit_read(struct weir_decode *decode, const struct weir_yaml_node *value, const struct weir_field *field,
                     void *target)
{
    unsigned *unit = target;
    if (is_null(value))
        return 0;
    for (unsigned i = 0; value->kind == WEIR_YAML_SCALAR && weir_envoy_units[i].name; i++) {
        if (strcasecmp(value->text.data, weir_envoy_units[i].name) == 0) {
            *unit = i + 1;
            return 0;
        }
    }
    return weir_config_fail(decode->fault, WEIR_EINVAL, value->mark,
                            "%s must be second, minute, hour, day, week, month or year", field->name);
}

/* Of a limit: any text, compared with those in `replaces` and with nothing else. */
static int name_read(struct weir_decode *decode, const struct weir_yaml_node *value, const struct weir_field *field,
                     void *target)
{
    struct weir_envoy_text *text = target;
    *text = (struct weir_envoy_text){ { "", 0 }, value->mark };
    if (is_null(value))
        return 0;
    int error = weir_decode_kind(decode, value, WEIR_YAML_SCALAR, field->name);
    if (error)
        return error;
    text->text = (struct weir_slice){ weir_arena_copy(decode->arena, value->text.data, value->text.size),
                                      value->text.size };
    return text->text.data ? 0 : weir_decode_nomem(decode);
}

struct limit {
    unsigned unit; /* 0: none */
    uint64_t requests;
    bool unlimited;
    struct weir_envoy_text name;
    struct weir_envoy_text *replaces;
    size_t replaces_count;
};

static int replaces_read(struct weir_decode *decode, const struct weir_yaml_node *value, const struct weir_field *field,
                         void *target)
{
    static const struct weir_field fields[] = { { "name", name_read, 0, true, 0, 0, NULL } };
    struct limit *limit = target;
    if (is_null(value))
        return 0;
    int error = weir_decode_list(decode, value, field->name, 0, WEIR_REPLACES_MAX, sizeof(*limit->replaces),
                                 &limit->replaces);
    for (const struct weir_yaml_node *item = value->first; item && !error; item = item->next) {
        struct weir_envoy_text *one = &limit->replaces[limit->replaces_count++];
        error = weir_decode_map(decode, item, "what is replaced", fields, WEIR_COUNT_OF(fields), one);
        if (!error && one->text.size == 0)
            error = weir_config_fail(decode->fault, WEIR_EINVAL, item->mark, "name must not be empty");
    }
    return error;
}

static int replaces_check(struct weir_decode *decode, const struct limit *limit)
{
    for (size_t i = 0; i < limit->replaces_count; i++)
        if (weir_slice_equal(limit->replaces[i].text, limit->name.text))
            return weir_config_fail(decode->fault, WEIR_EINVAL, limit->replaces[i].mark,
                                    "the limit has this name itself: it cannot replace itself");
    return 0;
}

static int limit_read(struct weir_decode *decode, const struct weir_yaml_node *value, const struct weir_field *field,
                      void *target)
{
#define OF(member) offsetof(struct limit, member)
    static const struct weir_field fields[] = {
        { "unit", unit_read, OF(unit), false, 0, 0, NULL },
        { "requests_per_unit", weir_decode_u64, OF(requests), false, 0, UINT32_MAX, NULL },
        { "unlimited", switch_read, OF(unlimited), false, 0, 0, NULL },
        { "name", name_read, OF(name), false, 0, 0, NULL },
        { "replaces", replaces_read, 0, false, 0, 0, NULL },
    };
#undef OF
    struct weir_envoy_node *node = target;
    struct limit limit = { .name.text = { "", 0 } };
    if (is_null(value))
        return 0;
    int error = weir_decode_map(decode, value, field->name, fields, WEIR_COUNT_OF(fields), &limit);
    if (!error)
        error = replaces_check(decode, &limit);
    if (error)
        return error;
    const struct weir_yaml_node *unit = weir_yaml_find(value, "unit");
    if (limit.unlimited && limit.unit > 0)
        return weir_config_fail(decode->fault, WEIR_EINVAL, unit->value->mark,
                                "unit says nothing where the limit is %s", "unlimited");
    if (!limit.unlimited && limit.unit == 0)
        return weir_config_fail(decode->fault, WEIR_EPROTO, value->mark, "%s lacks the key \"unit\"", field->name);
    if (!limit.unlimited && !weir_yaml_find(value, "requests_per_unit"))
        return weir_config_fail(decode->fault, WEIR_EPROTO, value->mark, "%s lacks the key \"requests_per_unit\"",
                                field->name);
    node->has_limit = true;
    node->unlimited = limit.unlimited;
    node->unit = limit.unlimited ? 0 : limit.unit - 1;
    node->requests = limit.requests;
    node->name = limit.name;
    node->replaces = limit.replaces;
    node->replaces_count = limit.replaces_count;
    return 0;
}

/* ---- descriptors ---- */

/* What siblings have: a hash map of their composite keys, scope by scope. */
struct siblings {
    struct weir_map taken; /* to the line where it stands */
    uint32_t scope;
};

/* Read when the other keys of the mapping are. */
static int later_read(struct weir_decode *decode, const struct weir_yaml_node *value, const struct weir_field *field,
                      void *target)
{
    (void)target;
    return is_null(value) ? 0 : weir_decode_kind(decode, value, WEIR_YAML_LIST, field->name);
}

static int node_read(struct weir_decode *decode, const struct weir_yaml_node *map, struct weir_envoy_node *node)
{
#define OF(member) offsetof(struct weir_envoy_node, member)
    static const struct weir_field fields[] = {
        { "key", key_read, OF(key), true, 0, KEY_MAX, NULL },
        { "value", text_read, OF(value), false, 0, WEIR_PATTERN_MAX, NULL },
        { "rate_limit", limit_read, 0, false, 0, 0, NULL },
        { "descriptors", later_read, 0, false, 0, 0, NULL },
        { "shadow_mode", switch_read, OF(shadow), false, 0, 0, NULL },
        { "quota_mode", quota_read, 0, false, 0, 0, NULL },
        { "detailed_metric", metric_read, 0, false, 0, 0, NULL },
        { "value_to_metric", metric_read, 0, false, 0, 0, NULL },
        { "share_threshold", switch_read, OF(shares), false, 0, 0, NULL },
        { "metadata", metadata_read, 0, false, 0, 0, NULL },
    };
#undef OF
    node->mark = map->mark;
    node->value.text = (struct weir_slice){ "", 0 };
    int error = weir_decode_map(decode, map, "a descriptor", fields, WEIR_COUNT_OF(fields), node);
    if (error)
        return error;
    node->wildcard = strchr(node->value.text.data, '*') != NULL;
    const struct weir_yaml_node *shares = weir_yaml_find(map, "share_threshold");
    if (node->shares && !node->wildcard)
        return weir_config_fail(decode->fault, WEIR_EINVAL, shares->value->mark,
                                "share_threshold is for a value with a *, and this is none");
    return 0;
}

/* "key_value", as that service joins them: NULL without memory. */
static const char *composite(struct weir_arena *arena, const struct weir_envoy_node *node, struct weir_slice value)
{
    const char *key = node->key.text.data, *text = value.data;
    return value.size == 0 ? key : weir_arena_print(arena, "%s_%.*s", key, (int)value.size, text);
}

static int taken_check(struct weir_decode *decode, struct siblings *siblings, const struct weir_envoy_node *node)
{
    char canonical[WEIR_LITERAL_TEXT_MAX];
    const struct weir_slice forms[] = { node->value.text, weir_literal_canonical(node->value.text, 128, canonical) };
    const char *texts[2];
    for (size_t i = 0; i < 2; i++) {
        texts[i] = composite(decode->arena, node, forms[i]);
        if (!texts[i])
            return weir_decode_nomem(decode);
        const struct weir_slice text = { texts[i], strlen(texts[i]) };
        const uint32_t line = weir_map_find(&siblings->taken, siblings->scope, text);
        if (line > 0)
            return weir_config_fail(decode->fault, WEIR_EINVAL, node->mark,
                                    "a descriptor \"%.64s\" stands already at line %u", texts[i], line);
    }
    for (size_t i = 0; i < (strcmp(texts[0], texts[1]) == 0 ? 1 : 2); i++)
        if (weir_map_insert(&siblings->taken, siblings->scope, (struct weir_slice){ texts[i], strlen(texts[i]) },
                            node->mark.line))
            return weir_decode_nomem(decode);
    return 0;
}

static bool starts_with(const char *text, const char *start)
{
    return strncmp(text, start, strlen(start)) == 0;
}

/* "user: *" is "user_*" there, and takes what "user_id" is asked about. */
static int wildcard_check(struct weir_decode *decode, const struct weir_envoy_node *first,
                          const struct weir_envoy_node *wildcard)
{
    const struct weir_slice prefix = weir_pattern_prefix(wildcard->value.text);
    const char *joined = composite(decode->arena, wildcard, prefix.size > 0 ? prefix : (struct weir_slice){ "", 0 });
    const char *whole = prefix.size > 0 ? joined : weir_arena_print(decode->arena, "%s_", joined);
    if (!joined || !whole)
        return weir_decode_nomem(decode);
    for (const struct weir_envoy_node *other = first; other; other = other->next) {
        const char *key = other->key.text.data;
        const size_t size = wildcard->key.text.size;
        if (!starts_with(key, wildcard->key.text.data) || key[size] != '_' ||
            (other->value.text.size > 0 && !other->wildcard))
            continue;
        const char *their = weir_arena_print(decode->arena, "%s_", key);
        if (!their)
            return weir_decode_nomem(decode);
        if (starts_with(their, whole) || starts_with(whole, their))
            return weir_config_fail(decode->fault, WEIR_EINVAL, wildcard->value.mark,
                                    "envoyproxy/ratelimit takes this for entries called \"%.40s\" too (line %u), since "
                                    "it joins key and value by an underscore, and weir does not: rename one of them",
                                    key, other->mark.line);
    }
    return 0;
}

static int list_read(struct weir_decode *decode, const struct weir_yaml_node *map, struct siblings *siblings,
                     unsigned depth, struct weir_envoy_node **ret_first)
{
    const struct weir_yaml_node *list = weir_yaml_find(map, "descriptors");
    struct weir_envoy_node **at = ret_first;
    int error = 0;
    if (!list || is_null(list->value))
        return 0;
    if (depth == WEIR_ENVOY_DEPTH_MAX)
        return weir_config_fail(decode->fault, WEIR_ELIMIT, list->mark, "descriptors are nested deeper than %d levels",
                                WEIR_ENVOY_DEPTH_MAX);
    siblings->scope++;
    for (const struct weir_yaml_node *item = list->value->first; item && !error; item = item->next, at = &(*at)->next) {
        *at = weir_arena_alloc(decode->arena, 1, sizeof(**at));
        if (!*at)
            return weir_decode_nomem(decode);
        error = node_read(decode, item, *at);
        if (!error)
            error = taken_check(decode, siblings, *at);
        if (error)
            return error;
    }
    for (const struct weir_envoy_node *node = *ret_first; node && !error; node = node->next)
        if (node->wildcard)
            error = wildcard_check(decode, *ret_first, node);
    struct weir_envoy_node *node = *ret_first;
    for (const struct weir_yaml_node *item = list->value->first; item && !error; item = item->next, node = node->next)
        error = list_read(decode, item, siblings, depth + 1, &node->first);
    return error;
}

static int domain_read(struct weir_decode *decode, const struct weir_yaml_node *value, const struct weir_field *field,
                       void *target)
{
    const struct weir_envoy_text *text = target;
    int error = text_read(decode, value, field, target);
    if (!error && text->text.size == 0)
        error = weir_config_fail(decode->fault, WEIR_EINVAL, value->mark, "%s must not be empty", field->name);
    if (!error && strchr(text->text.data, '*'))
        error = weir_config_fail(decode->fault, WEIR_EINVAL, value->mark,
                                 "%s \"%.64s\" must not have a *: for envoyproxy/ratelimit that is a letter like any "
                                 "other, and for weir it stands for any text",
                                 field->name, (const char *)text->text.data);
    return error;
}

static int file_decode(struct weir_decode *decode, const struct weir_yaml_node *root, struct weir_envoy_domain *domain)
{
    static const struct weir_field fields[] = {
        { "domain", domain_read, offsetof(struct weir_envoy_domain, name), true, 0, WEIR_PATTERN_MAX, NULL },
        { "descriptors", later_read, 0, false, 0, 0, NULL },
    };
    static const struct weir_sip_key fixed = { 0, 0 }; /* a file's author is no attacker of his own file */
    struct siblings siblings = { .scope = 0 };
    int error = weir_decode_map(decode, root, "a file of envoyproxy/ratelimit", fields, WEIR_COUNT_OF(fields), domain);
    if (!error && weir_map_init(&siblings.taken, &fixed))
        error = weir_decode_nomem(decode);
    if (!error)
        error = list_read(decode, root, &siblings, 0, &domain->first);
    weir_map_deinit(&siblings.taken);
    return error;
}

int weir_envoy_rules_read(const struct weir_envoy_rules_file *file, struct weir_arena *arena,
                          struct weir_envoy_domain **ret_domain, struct weir_config_fault *ret_fault)
{
    struct weir_yaml_node *root = NULL;
    struct weir_decode decode = { .arena = arena, .fault = ret_fault, .fault_last = ret_fault };
    struct weir_arena *tree = weir_arena_create();
    struct weir_envoy_domain *domain = weir_arena_alloc(arena, 1, sizeof(*domain));
    ret_fault->text[0] = '\0';
    int error = tree && domain ? weir_yaml_parse(file->text, file->size, tree, &root, ret_fault)
                               : weir_decode_nomem(&decode);
    if (error == WEIR_EPROTO && strncmp(ret_fault->text, EMPTY, sizeof(EMPTY) - 1) == 0)
        error = weir_config_fail(ret_fault, error, ret_fault->mark, EMPTY ": it must be a mapping with domain:");
    if (!error) {
        domain->file = file->name;
        error = file_decode(&decode, root, domain);
    }
    weir_arena_destroy(tree);
    if (!error)
        *ret_domain = domain;
    return error;
}
