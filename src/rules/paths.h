/* SPDX-License-Identifier: Apache-2.0
 *
 * Sets of conditions as paths in one tree: the conditions of a limit, in ascending order, lead from the root to the
 * node where the limit is. A request walks only the paths whose every step it satisfies, so what it costs depends on
 * what the request satisfies and not on how many limits there are.
 *
 * Thread rule: any number of readers once filled. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#define WEIR_PATHS_ROOT 1U

struct weir_paths_edge {
    uint32_t node;
    uint32_t condition;
    uint32_t child; /* 0: the slot is empty */
};

struct weir_paths_node {
    uint32_t entry;    /* the first of those that are here, by weir_paths' user; 0: none */
    uint32_t children; /* how many */
};

struct weir_paths {
    struct weir_paths_edge *edges; /* open addressing */
    size_t edges_room;             /* a power of two, at least twice the edges */
    struct weir_paths_node *nodes; /* 0 is none, 1 the root */
    size_t nodes_room;
    size_t nodes_count;
};

int weir_paths_init(struct weir_paths *paths);    /* WEIR_ENOMEM */
void weir_paths_deinit(struct weir_paths *paths); /* zeroed is fine */

/* The child of `node` behind `condition`, made if it is not there. WEIR_ENOMEM. */
int weir_paths_grow(struct weir_paths *paths, uint32_t node, uint32_t condition, uint32_t *ret_child);

/* 0 if there is none. */
uint32_t weir_paths_step(const struct weir_paths *paths, uint32_t node, uint32_t condition);
