/* SPDX-License-Identifier: Apache-2.0
 *
 * The inside of struct weir_rules: what rules.c compiles, and match.c and explain.c read. Attributes, conditions and
 * entries are numbered from 1; 0 is none. */
#pragma once

#include "rules/arena.h"
#include "rules/block.h"
#include "rules/globs.h"
#include "rules/map.h"
#include "rules/paths.h"
#include "rules/rules.h"

/* Of one limit or override: its own and, of an override, its limit's too. */
#define WEIR_CONDITIONS_MAX (WEIR_MATCH_MAX + WEIR_KEY_VALUES_MAX)

/* An attribute that some limit looks at. */
struct weir_compiled_attribute {
    const char *name;
    uint32_t any; /* the condition that it is there; 0: nobody asks just that */
    struct weir_globs globs;
    struct weir_blocks blocks;
    bool has_sets; /* some condition on it is a list or a `not` */
    uint8_t nots_count;
    uint32_t *nots; /* the conditions that are */
};

/* A list that a term is in. */
struct weir_compiled_member {
    const struct weir_compiled_member *next;
    uint32_t condition; /* that the list is */
};

/* A pattern, value or block, which is a condition by itself, as a part of lists and of `not`s. */
struct weir_compiled_term {
    const struct weir_compiled_member *lists;
    uint64_t nots; /* which of the attribute's do not hold with it */
    bool alone;    /* some limit asks for just it */
};

/* A condition as it was written, for explain. */
struct weir_compiled_condition {
    uint32_t attribute;
    struct weir_slice pattern;
    const struct weir_condition_values *terms;
};

/* A `not` of an entry that goes by the whole of a descriptor. It is on no path, but looked at when all else holds: of
 * these there may be any number, and no other request pays for them. */
struct weir_compiled_filter {
    uint32_t attribute;
    const struct weir_condition_values *terms;
};

/* A limit (first of its entries) or an override. */
struct weir_compiled_entry {
    struct weir_rule rule;
    struct weir_mark mark;
    uint64_t rank; /* of several entries of one limit that match, the one with the highest applies */
    uint32_t next; /* the next entry at the same node of the paths */
    uint32_t conditions_count;
    struct weir_compiled_condition *conditions; /* of the limit: its match; of an override: its own only */
    uint32_t filters_count;
    struct weir_compiled_filter *filters; /* of an override its limit's, too */
};

struct weir_compiled_limit {
    uint32_t first_entry;
    uint32_t entries_count;
    uint32_t first_level; /* of the entries; they are on no path, for no request asks for one */
    uint32_t levels_count;
    uint32_t key[WEIR_KEY_VALUES_MAX]; /* attributes */
    uint32_t key_count;
    enum weir_missing missing;
    uint32_t cost_attribute; /* 0: `cost` */
    uint64_t cost;
    unsigned ipv6_prefix;
    uint32_t *replaces; /* limits, by index */
    uint32_t replaces_count;
};

struct weir_rules {
    struct weir_limiter *limiter;
    struct weir_arena *arena; /* owns what has no deinit */
    struct weir_map names;    /* attribute name to number; scope 0 */
    struct weir_map exacts;   /* (attribute, value) to condition */
    struct weir_paths paths;
    struct weir_compiled_attribute *attributes;
    struct weir_compiled_term *terms; /* by condition; NULL: no condition is a list or a `not` */
    uint32_t *absent_hold;            /* attributes that have a `not`, ascending; then 0 */
    struct weir_compiled_entry *entries;
    struct weir_compiled_limit *limits;
    bool replaces;      /* some limit does */
    uint8_t secret[16]; /* cluster_secret: keys elsewhere are hashed with it */
    size_t attributes_count;
    size_t entries_count;
    size_t limits_count;
};

/* ---- match.c ---- */

/* Takes charge number `at` out. */
void weir_match_remove(struct weir_match *match, size_t at);
