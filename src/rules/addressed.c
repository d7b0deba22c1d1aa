/* SPDX-License-Identifier: Apache-2.0
 *
 * Which nodes a set of rules is for. The text alone is looked at, since a node that follows a store must know before it
 * loads a version whether to. Called by serve/follower.c, and by editor.c before a version is stored. */
#include "rules/addressed.h"

#include <stdlib.h>
#include <string.h>

#include "rules/yaml_node.h"

#define KEY "nodes"

int weir_rule_text_is_for(struct weir_slice text, const char *node, bool *ret_is)
{
    struct weir_yaml_node *root = NULL;
    /* The usual case, without reading 16 MiB of YAML. Behind a backslash any letter may be written. */
    if (!memmem(text.data, text.size, KEY, sizeof(KEY) - 1) && !memchr(text.data, '\\', text.size)) {
        *ret_is = true;
        return 0;
    }
    struct weir_arena *tree = weir_arena_create();
    int error = tree ? weir_yaml_parse(text.data, text.size, tree, &root, NULL) : WEIR_ENOMEM;
    const struct weir_yaml_node *key = !error && root && root->kind == WEIR_YAML_MAP ? weir_yaml_find(root, KEY) : NULL;
    bool is = !key || key->value->kind != WEIR_YAML_LIST;
    for (const struct weir_yaml_node *item = is ? NULL : key->value->first; item && !is; item = item->next)
        is = item->kind == WEIR_YAML_SCALAR && item->text.size == strlen(node) &&
             memcmp(item->text.data, node, item->text.size) == 0;
    weir_arena_destroy(tree);
    if (error == WEIR_ENOMEM)
        return error;
    *ret_is = is;
    return 0;
}

static int by_name(const void *a, const void *b)
{
    const struct weir_config_limit *const *one = a, *const *other = b;
    return strcmp((*one)->name, (*other)->name);
}

/* Those that nodes share, by name; ended by NULL. */
static const struct weir_config_limit **shared(const struct weir_config *config)
{
    const struct weir_config_limit **list = calloc(config->limits_count + 1, sizeof(list[0]));
    size_t count = 0;
    for (size_t i = 0; list && i < config->limits_count; i++)
        if (weir_config_is_shared(config, &config->limits[i]))
            list[count++] = &config->limits[i];
    if (list)
        qsort(list, count, sizeof(list[0]), by_name);
    return list;
}

int weir_rule_nodes_check(const struct weir_config *before, const struct weir_config *now,
                          struct weir_config_fault *ret_fault)
{
    const struct weir_config_limit **old = NULL, **new = NULL;
    if (now->rule_nodes_count == 0)
        return 0;
    old = shared(before);
    new = shared(now);
    size_t i = 0;
    while (old && new &&old[i] && new[i] && strcmp(old[i]->name, new[i]->name) == 0 &&
           old[i]->definition == new[i]->definition)
        i++;
    int error = old && new ? 0 : WEIR_ENOMEM;
    if (!error && (old[i] || new[i])) {
        const struct weir_config_limit *limit = !new[i] || (old[i] && strcmp(old[i]->name, new[i]->name) < 0) ? old[i]
                                                                                                              : new[i];
        error = weir_config_fail(ret_fault, WEIR_EINVAL, now->mark_rule_nodes,
                                 "nodes: limit \"%.100s\" would change, and the nodes share it, so that all decide it "
                                 "by one definition: change it without nodes",
                                 limit->name);
    }
    free(old);
    free(new);
    return error;
}
