/* SPDX-License-Identifier: Apache-2.0
 *
 * The inside of the compiler: conditions get their numbers (compile_conditions.c), limits their paths (compile.c). */
#pragma once

#include "rules/compiled.h"

/* A pattern with a `*`, kept until all of its attribute's are known. */
struct weir_glob_item {
    struct weir_glob_item *next;
    struct weir_glob glob;
    struct weir_mark mark;
};

/* A block, likewise. */
struct weir_block_item {
    struct weir_block_item *next;
    struct weir_block block;
    uint32_t id;
};

#define WEIR_SCOPE_SETS 0x80000000U   /* in `patterns`: a list or a `not` on an attribute */
#define WEIR_SCOPE_BLOCKS 0x40000000U /* a block */

struct weir_compiler {
    struct weir_rules *rules;
    const struct weir_config *config;
    struct weir_map patterns;        /* (attribute, pattern) to condition */
    struct weir_glob_item **globs;   /* by attribute */
    struct weir_block_item **blocks; /* by attribute */
    uint32_t conditions_count;
    size_t nots_count;
    struct weir_config_fault *fault;
};

/* One condition on the way to a path. */
struct weir_wanted {
    uint32_t attribute;
    uint32_t condition;
    struct weir_slice pattern;
    const struct weir_condition_values *terms;
    struct weir_mark mark;
};

int weir_compile_nomem(struct weir_compiler *compiler);

/* Makes room for the terms of lists and `not`s, if there are any. Before the first weir_compile_condition. */
int weir_compile_begin(struct weir_compiler *compiler);

/* Numbers the condition, and enters a new one where match will look for it. */
int weir_compile_condition(struct weir_compiler *compiler, struct weir_wanted *wanted);

/* After the last: what is looked up by attribute is put in order. */
int weir_compile_end(struct weir_compiler *compiler);
