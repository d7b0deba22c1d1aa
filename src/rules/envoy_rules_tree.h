/* SPDX-License-Identifier: Apache-2.0
 *
 * Between envoy_rules_read.c, which makes a tree of a file, and envoy_rules_write.c, which makes limits of all of
 * them. */
#pragma once

#include "rules/envoy_rules.h"
#include "rules/map.h"
#include "rules/yaml_node.h"

#define WEIR_ENVOY_DEPTH_MAX 16 /* entries of a descriptor; YAML allows fewer */

struct weir_envoy_text {
    struct weir_slice text; /* a NUL follows it */
    struct weir_mark mark;
};

/* A descriptor of a file. */
struct weir_envoy_node {
    struct weir_mark mark;
    struct weir_envoy_text key;
    struct weir_envoy_text value; /* of size 0: any */
    bool wildcard;                /* the value has a star */
    bool has_limit, unlimited, shadow, shares;
    unsigned unit; /* of weir_envoy_units */
    uint64_t requests;
    struct weir_envoy_text name; /* of the limit, by which others replace it; of size 0: none */
    struct weir_envoy_text *replaces;
    size_t replaces_count;
    const char *limit_name;               /* what weir calls the limit; for envoy_rules_write.c */
    struct weir_envoy_node *first, *next; /* the descriptors below it, and beside it */
    size_t count;
};

struct weir_envoy_domain {
    const char *file;
    struct weir_envoy_text name;
    struct weir_envoy_node *first;
    struct weir_envoy_domain *next;
};

/* A unit as that service calls it, and how a rate of weir writes it: weeks, months and years are so many seconds there,
 * from 1970 on, and not those of the calendar. */
struct weir_envoy_unit_words {
    const char *name;
    const char *period;
};
extern const struct weir_envoy_unit_words weir_envoy_units[];

/* The tree of one file, in `arena`. `name` is kept. */
int weir_envoy_rules_read(const struct weir_envoy_rules_file *file, struct weir_arena *arena,
                          struct weir_envoy_domain **ret_domain, struct weir_config_fault *ret_fault);

/* The limits of all of them, into `rules`, which has an arena. On failure *ret_file is the file at fault. */
int weir_envoy_rules_write(struct weir_envoy_rules *rules, const struct weir_envoy_domain *domains, bool attempts,
                           const char **ret_file, struct weir_config_fault *ret_fault);
