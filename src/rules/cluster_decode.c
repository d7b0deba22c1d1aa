/* SPDX-License-Identifier: Apache-2.0
 *
 * The section `cluster:`, called by config.c through the table of sections. Nodes are sorted by name, so that every
 * node gives each the same number. weir_config_be of config.h is here too: it looks for a node's name among them, for
 * `node:` of the file and for the flag --node (cli/serve_config.c, ruleset.c). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rules/section_decode.h"

#define NODE_NAME_MAX 64

/* Names go into datagrams, labels and JSON. */
static int name_read(struct weir_decode *decode, const struct weir_yaml_node *value, const struct weir_field *field,
                     void *target)
{
    static const char legal[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-.";
    struct weir_field name = { .name = field->name, .max = NODE_NAME_MAX };
    int error = weir_decode_text(decode, value, &name, target);
    if (!error && strspn(value->text.data, legal) != value->text.size)
        error = weir_config_fail(decode->fault, WEIR_EINVAL, value->mark,
                                 "%s \"%.64s\" must be made of letters, digits and _ - .", field->name,
                                 (const char *)value->text.data);
    return error;
}

static int gossip_read(struct weir_decode *decode, const struct weir_yaml_node *value, const struct weir_field *field,
                       void *target)
{
    struct weir_address *address = target;
    int error = weir_decode_address(decode, value, field, address);
    bool datagrams = address->kind == WEIR_ADDRESS_OFF || (address->kind == WEIR_ADDRESS_TCP && address->port > 0);
    if (!error && !datagrams)
        error = weir_config_fail(decode->fault, WEIR_EINVAL, value->mark,
                                 "gossip \"%.60s\" must be IP:PORT (UDP, port 1 to 65535) or off",
                                 (const char *)value->text.data);
    return error;
}

static const struct weir_field node_fields[] = {
    { "name", name_read, offsetof(struct weir_config_node, name), true, 0, 0, NULL },
    { "gossip", gossip_read, offsetof(struct weir_config_node, gossip), false, 0, 0, NULL },
};

static bool same_gossip(const struct weir_address *a, const struct weir_address *b)
{
    return a->kind == WEIR_ADDRESS_TCP && b->kind == WEIR_ADDRESS_TCP && a->port == b->port &&
           strcmp(a->host, b->host) == 0;
}

/* A plain name, or a mapping. */
static int node_read(struct weir_decode *decode, const struct weir_yaml_node *item, struct weir_config *config)
{
    struct weir_config_node node = { .gossip = { .kind = WEIR_ADDRESS_OFF } };
    int error = item->kind == WEIR_YAML_SCALAR
                    ? name_read(decode, item, &(struct weir_field){ .name = "a node's name" }, &node.name)
                    : weir_decode_map(decode, item, "a node", node_fields, WEIR_COUNT_OF(node_fields), &node);
    if (error)
        return error;
    for (size_t i = 0; i < config->nodes_count; i++) {
        const struct weir_config_node *other = &config->nodes[i];
        if (strcmp(other->name, node.name) == 0)
            return weir_config_fail(decode->fault, WEIR_EEXIST, item->mark, "node \"%s\" stands twice in nodes",
                                    node.name);
        if (same_gossip(&other->gossip, &node.gossip))
            return weir_config_fail(decode->fault, WEIR_EEXIST, item->mark,
                                    "node \"%s\" has the gossip address of node \"%s\"", node.name, other->name);
    }
    config->nodes[config->nodes_count++] = node;
    return 0;
}

static int by_name(const void *a, const void *b)
{
    const struct weir_config_node *left = a;
    const struct weir_config_node *right = b;
    return strcmp(left->name, right->name);
}

static int nodes_read(struct weir_decode *decode, const struct weir_yaml_node *value, const struct weir_field *field,
                      void *target)
{
    struct weir_config *config = target;
    int error = weir_decode_list(decode, value, field->name, 1, WEIR_NODES_MAX, sizeof(*config->nodes), &config->nodes);
    for (const struct weir_yaml_node *item = value->first; item && !error; item = item->next)
        error = node_read(decode, item, config);
    if (!error)
        qsort(config->nodes, config->nodes_count, sizeof(*config->nodes), by_name);
    return error;
}

int weir_cluster_decode(struct weir_decode *decode, const struct weir_yaml_node *value, const struct weir_field *field,
                        void *target)
{
    static const struct weir_field fields[] = {
        { "node", name_read, offsetof(struct weir_config, node_name), false, 0, 0, NULL },
        { "nodes", nodes_read, 0, true, 0, 0, NULL },
    };
    struct weir_config *config = target;
    config->mark_cluster = value->mark;
    int error = weir_decode_map(decode, value, field->name, fields, WEIR_COUNT_OF(fields), target);
    if (error || !config->node_name)
        return error;
    error = weir_config_be(config, config->node_name, decode->fault);
    if (error)
        decode->fault->mark = weir_yaml_find(value, "node")->value->mark;
    return error;
}

/* "a, b, c", cut to fit. */
static void names_join(const struct weir_config *config, char *buffer, size_t size)
{
    size_t used = 0;
    buffer[0] = '\0';
    for (size_t i = 0; i < config->nodes_count && used < size; i++)
        used += (size_t)snprintf(buffer + used, size - used, "%s%s", i ? ", " : "", config->nodes[i].name);
}

static bool is_node(const struct weir_config *config, const char *name)
{
    bool is = config->nodes_count == 0; /* then nodes are called as their machines, and nobody knows all of them */
    for (size_t i = 0; i < config->nodes_count && !is; i++)
        is = strcmp(config->nodes[i].name, name) == 0;
    return is;
}

int weir_rule_nodes_decode(struct weir_decode *decode, const struct weir_yaml_node *value,
                           const struct weir_field *field, void *target)
{
    struct weir_config *config = target;
    char names[200];
    config->mark_rule_nodes = value->mark;
    int error = weir_decode_list(decode, value, field->name, 1, WEIR_NODES_MAX, sizeof(*config->rule_nodes),
                                 &config->rule_nodes);
    for (const struct weir_yaml_node *item = value->first; item && !error; item = item->next) {
        const char **name = &config->rule_nodes[config->rule_nodes_count];
        error = name_read(decode, item, &(struct weir_field){ .name = "a node's name" }, name);
        for (size_t i = 0; !error && i < config->rule_nodes_count; i++)
            if (strcmp(config->rule_nodes[i], *name) == 0)
                error = weir_config_fail(decode->fault, WEIR_EEXIST, item->mark, "node \"%s\" stands twice in nodes",
                                         *name);
        if (!error && !is_node(config, *name)) {
            names_join(config, names, sizeof(names));
            error = weir_config_fail(decode->fault, WEIR_ENOENT, item->mark, "node \"%s\" must be one of %s", *name,
                                     names);
        }
        config->rule_nodes_count += !error;
    }
    return error;
}

int weir_config_be(struct weir_config *config, const char *name, struct weir_config_fault *ret_fault)
{
    char names[200];
    names_join(config, names, sizeof(names));
    if (!name && (config->node_name || config->nodes_count == 0))
        return 0;
    if (!name)
        return weir_config_fail(ret_fault, WEIR_EINVAL, config->mark_cluster,
                                "nobody says which node this is: must be one of %s (--node NAME, or node: here)",
                                names);
    if (config->nodes_count == 0)
        return weir_config_fail(ret_fault, WEIR_ENOENT, (struct weir_mark){ 0, 0 },
                                "node \"%.64s\" is not in it: there is no cluster: { nodes: [ ... ] }", name);
    for (size_t i = 0; i < config->nodes_count; i++)
        if (strcmp(config->nodes[i].name, name) == 0) {
            config->node = i;
            config->node_name = config->nodes[i].name;
            return 0;
        }
    return weir_config_fail(ret_fault, WEIR_ENOENT, config->mark_cluster, "node \"%.64s\" must be one of %s", name,
                            names);
}

uint32_t weir_config_nodes(const struct weir_config *config)
{
    return config->nodes_count > 1 ? (uint32_t)config->nodes_count : 1;
}
