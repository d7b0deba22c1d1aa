/* SPDX-License-Identifier: Apache-2.0
 *
 * All patterns with a `*` that limits have for one attribute, asked at once: which of them match this value?
 *
 * They are grouped by the text before the first `*`, inside that by the text after the last. In a sorted list of texts,
 * those that are prefixes of a value are all on the chain "longest other text that is a prefix of me" of the value's
 * predecessor: one binary search, then a walk. So the cost grows with the logarithm of the number of patterns and with
 * how many of them are prefixes of one another. Patterns with more than one `*` that have both texts in common are
 * tried one by one: at most WEIR_GLOBS_INNER_MAX of them.
 *
 * Thread rule: any number of readers once made. Nothing is allocated by match. */
#pragma once

#include "rules/arena.h"
#include "weir/limiter.h"

#define WEIR_GLOBS_INNER_MAX 64

/* A text, and which of the next finer level belong to it. */
struct weir_globs_group {
    struct weir_slice text;
    uint32_t first;
    uint32_t count;
    int32_t parent; /* the longest other text of this list that this one begins (a suffix: ends) with; -1: none */
};

struct weir_glob {
    struct weir_slice pattern;
    uint32_t id;
    bool inner; /* more than one `*`: prefix and suffix do not decide alone */
};

struct weir_globs {
    struct weir_globs_group *prefixes; /* sorted; each owns a range of suffixes */
    struct weir_globs_group *suffixes; /* sorted from the end, prefix by prefix; each owns a range of globs */
    struct weir_glob *globs;
    size_t prefixes_count;
};

/* What a match has found so far. */
struct weir_globs_found {
    uint32_t *ids;
    size_t count;
    size_t capacity;
    size_t steps;
};

/* Sorts `globs`, which it keeps, as the patterns in them. WEIR_ELIMIT: more than WEIR_GLOBS_INNER_MAX of one kind, and
 * *ret_excess is one of them. WEIR_ENOMEM. */
int weir_globs_init(struct weir_globs *ret_globs, struct weir_arena *arena, struct weir_glob *globs, size_t count,
                    uint32_t *ret_excess);

/* Adds the ids of all patterns that match. WEIR_ELIMIT when there is no room for one. */
int weir_globs_match(const struct weir_globs *globs, struct weir_slice value, struct weir_globs_found *found);
