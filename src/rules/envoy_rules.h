/* SPDX-License-Identifier: Apache-2.0
 *
 * The configuration files of envoyproxy/ratelimit as limits of weir: one text, which `weir serve --ratelimit-config`
 * serves and `weir rules import ratelimit` prints.
 *
 * What it decides: whether a file is one of that service's, key by key, and whether weir counts as it says; what weir
 * cannot do exactly is refused with its place. What it does not: which limits a request meets (rules/rules.h).
 *
 * Each descriptor with a rate_limit becomes one limit. Its `match` names the domain, the keys of the entries in their
 * order as the attribute `descriptor`, and of each entry the value, or which values its siblings take before it.
 *
 * Bounds: WEIR_ENVOY_FILES_MAX files; each and the text WEIR_CONFIG_BYTES_MAX; what rules/yaml_node.h and the limits
 * bound. Thread rule: plain values. */
#pragma once

#include "rules/config.h"

#define WEIR_ENVOY_FILES_MAX 1000
#define WEIR_ENVOY_DESCRIPTOR "descriptor" /* the attribute: "tenant,path" */

/* What is wrong, with FILE:LINE:COLUMN where it has a place. */
struct weir_envoy_rules_fault {
    char text[600];
};

/* Where the limit in a line of the text comes from. */
struct weir_envoy_rules_origin {
    const char *file;
    struct weir_mark mark;
};

struct weir_envoy_rules {
    struct weir_slice text; /* `limits:`, each in a line of its own; a NUL follows it */
    size_t limits_count;
    size_t files_count;
    unsigned first_line; /* that of the first limit */
    struct weir_envoy_rules_origin *origins;
    struct weir_arena *arena; /* owns all of it */
};

/* One file, for who has it in memory. */
struct weir_envoy_rules_file {
    const char *name;
    const char *text;
    size_t size;
};

/* `attempts`: what is refused counts too, as that service counts it. Errors: as weir_config_parse. */
int weir_envoy_rules_make(const struct weir_envoy_rules_file *files, size_t count, bool attempts,
                          struct weir_envoy_rules **ret_rules, struct weir_envoy_rules_fault *ret_fault);

/* The same of all files in `folder`, by name. Those whose names begin with a dot are not looked at; anything else that
 * is no regular file *.yaml or *.yml is refused. WEIR_EIO: it cannot be read. */
int weir_envoy_rules_load(const char *folder, bool attempts, struct weir_envoy_rules **ret_rules,
                          struct weir_envoy_rules_fault *ret_fault);
void weir_envoy_rules_destroy(struct weir_envoy_rules *rules); /* NULL is allowed */

/* What was found wrong with a line of the text, told of the file that it comes from. */
void weir_envoy_rules_place(const struct weir_envoy_rules *rules, const struct weir_config_fault *fault,
                            struct weir_envoy_rules_fault *ret_fault);

/* Another number when a file in the folder is another one, came, went or was written to; 0: it cannot be read. */
uint64_t weir_envoy_rules_mark(const char *folder);
