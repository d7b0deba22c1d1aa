/* SPDX-License-Identifier: Apache-2.0
 *
 * For each limit that nodes share through an engine or by gossip, the newest definition is asked for
 * (limits/revisions.h). If it is not the file's, it is decoded as limits of the file are (limit_decode.c) and takes the
 * limit's place. Which definition is the newest is decided in core/share/revision.c and kept in limits/revisions.c.
 * Called by cli/serve.c at each reload; serve/own_limits.c asks which limits these are, serve/server.c whether all are
 * the newest. */
#include "rules/revise.h"

#include <stdlib.h>
#include <string.h>

#include "rules/limit_decode.h"

static struct weir_revision_own own_of(const struct weir_config *config, const struct weir_config_limit *limit)
{
    return (struct weir_revision_own){ limit->name, limit->text, config->revision };
}

size_t weir_config_owned(const struct weir_config *config, struct weir_revision_own *ret_own)
{
    size_t count = 0;
    for (size_t i = 0; i < config->limits_count; i++) {
        if (config->limits[i].owned)
            ret_own[count++] = own_of(config, &config->limits[i]);
    }
    return count;
}

bool weir_revise_name_of(const char *text, size_t size, char ret_name[WEIR_LIMIT_NAME_MAX + 1])
{
    struct weir_config_fault fault = { 0 };
    struct weir_yaml_node *root = NULL;
    struct weir_arena *tree = weir_arena_create();
    bool found = tree && weir_yaml_parse(text, size, tree, &root, &fault) == 0 && root && root->kind == WEIR_YAML_MAP;
    const struct weir_yaml_node *name = found ? weir_yaml_find(root, "name") : NULL;
    found = name && name->value->kind == WEIR_YAML_SCALAR && name->value->text.size <= WEIR_LIMIT_NAME_MAX;
    if (found) {
        memcpy(ret_name, name->value->text.data, name->value->text.size);
        ret_name[name->value->text.size] = '\0';
    }
    weir_arena_destroy(tree);
    return found;
}

/* As the file's limits are read. */
static int decode_text(struct weir_config *config, const struct weir_revision_found *found,
                       struct weir_config_limit *ret_limit)
{
    struct weir_config_fault fault = { 0 };
    struct weir_decode decode = { .config = config, .arena = config->arena, .fault = &fault, .fault_last = &fault };
    struct weir_yaml_node *root = NULL;
    struct weir_arena *tree = weir_arena_create();
    int error = tree ? weir_yaml_parse(found->text, found->size, tree, &root, &fault) : WEIR_ENOMEM;
    if (!error)
        error = weir_limit_decode(&decode, root, ret_limit);
    weir_arena_destroy(tree);
    return error;
}

/* The bounds of a file hold for what it becomes, too. */
static bool has_room(const struct weir_config *config, const struct weir_config_limit *instead, size_t index)
{
    size_t definitions = 0, always = 0;
    for (size_t i = 0; i < config->limits_count; i++) {
        const struct weir_config_limit *limit = i == index ? instead : &config->limits[i];
        definitions += 1 + limit->overrides_count;
        always += weir_config_meets_all(limit);
    }
    return definitions <= WEIR_LIMITS_MAX && always <= WEIR_CHARGES_MAX;
}

static int revise_limit(struct weir_config *config, size_t index, const struct weir_revision_found *found)
{
    struct weir_config_limit *limit = &config->limits[index], other;
    limit->revision = (uint32_t)found->number;
    limit->revision_passed = (uint32_t)found->passed;
    limit->revision_node = weir_arena_copy(config->arena, found->node, strlen(found->node));
    if (!limit->revision_node)
        return WEIR_ENOMEM;
    if (!found->text)
        return 0;
    int error = decode_text(config, found, &other);
    if (error == WEIR_ENOMEM)
        return error;
    limit->undecidable = error || strcmp(other.name, limit->name) != 0 || !has_room(config, &other, index);
    if (limit->undecidable)
        return 0;
    other.mark = other.mark_rate = other.mark_burst = other.mark_tz = limit->mark; /* all that the file has of it */
    other.text = limit->text;
    other.owned = other.replaced = true;
    other.revision = limit->revision;
    other.revision_passed = limit->revision_passed;
    other.revision_node = limit->revision_node;
    *limit = other;
    return 0;
}

int weir_config_revise(struct weir_config *config, struct weir_revisions *revisions, uint64_t wall_ns)
{
    int error = 0;
    for (size_t i = 0; i < config->limits_count && !error; i++) {
        struct weir_revision_found found;
        if (!config->limits[i].owned)
            continue;
        const struct weir_revision_own own = own_of(config, &config->limits[i]);
        error = weir_revisions_find(revisions, &own, wall_ns, &found);
        if (error)
            break;
        error = revise_limit(config, i, &found);
        free(found.text);
    }
    return error;
}

bool weir_config_is_newest(const struct weir_config *config, struct weir_revisions *revisions, uint64_t wall_ns)
{
    bool newest = true;
    for (size_t i = 0; i < config->limits_count && newest; i++) {
        struct weir_revision_found found;
        if (!config->limits[i].owned)
            continue;
        const struct weir_revision_own own = own_of(config, &config->limits[i]);
        if (weir_revisions_find(revisions, &own, wall_ns, &found))
            return false;
        newest = found.number == config->limits[i].revision;
        free(found.text);
    }
    return newest;
}
