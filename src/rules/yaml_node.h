/* SPDX-License-Identifier: Apache-2.0
 *
 * YAML as a tree with places: scalars, lists and mappings, and nothing else. Anchors, aliases, tags, keys that are not
 * scalars, duplicate keys and a second document are errors.
 *
 * Bounds: WEIR_CONFIG_BYTES_MAX of text, WEIR_YAML_DEPTH_MAX levels, WEIR_YAML_KEYS_MAX keys in one mapping,
 * WEIR_YAML_NODES_MAX nodes. Thread rule: plain values. */
#pragma once

#include "rules/arena.h"
#include "rules/config.h"

#define WEIR_YAML_DEPTH_MAX 12
#define WEIR_YAML_KEYS_MAX 64
#define WEIR_YAML_NODES_MAX 1000000

enum weir_yaml_kind {
    WEIR_YAML_SCALAR,
    WEIR_YAML_LIST,
    WEIR_YAML_MAP,
};

struct weir_yaml_node {
    enum weir_yaml_kind kind;
    bool plain; /* a scalar without quotes */
    struct weir_mark mark;
    struct weir_slice text;       /* of a scalar; a NUL follows it */
    size_t count;                 /* children of a list or mapping */
    struct weir_yaml_node *first; /* its first child; in a mapping the children are the keys */
    struct weir_yaml_node *next;  /* the next child of the same parent */
    struct weir_yaml_node *value; /* of a key in a mapping */
};

/* WEIR_EPROTO, WEIR_ELIMIT or WEIR_ENOMEM and the fault. The tree lives in `arena`. */
int weir_yaml_parse(const char *text, size_t size, struct weir_arena *arena, struct weir_yaml_node **ret_root,
                    struct weir_config_fault *ret_fault);

/* The key node `name` of a mapping, or NULL. */
const struct weir_yaml_node *weir_yaml_find(const struct weir_yaml_node *map, const char *name);

/* "text", "a list" or "a mapping". */
const char *weir_yaml_kind_name(enum weir_yaml_kind kind);

/* Sets the fault (NULL is allowed) and returns `error`. */
__attribute__((format(printf, 4, 5))) int weir_config_fail(struct weir_config_fault *fault, int error,
                                                           struct weir_mark mark, const char *format, ...);
