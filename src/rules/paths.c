/* SPDX-License-Identifier: Apache-2.0
 *
 * Nodes are an array, and all edges of the tree are in one hash table, found by node and condition. Both double when
 * they need room, and nothing is ever removed. Called by compile.c, which makes the paths and links the entries to
 * their nodes, and by match.c, which walks the paths. */
#include "rules/paths.h"

#include <stdlib.h>
#include <string.h>

#include "weir/error.h"

#define ROOM_MIN 64

int weir_paths_init(struct weir_paths *paths)
{
    struct weir_paths_edge *edges = calloc(ROOM_MIN, sizeof(*edges));
    struct weir_paths_node *nodes = calloc(ROOM_MIN, sizeof(*nodes));
    *paths = (struct weir_paths){ edges, ROOM_MIN, nodes, ROOM_MIN, WEIR_PATHS_ROOT + 1 };
    if (edges && nodes)
        return 0;
    weir_paths_deinit(paths);
    return WEIR_ENOMEM;
}

void weir_paths_deinit(struct weir_paths *paths)
{
    free(paths->edges);
    free(paths->nodes);
    *paths = (struct weir_paths){ 0 };
}

/* Both numbers are ours, not a caller's, so the hash needs no secret. */
static size_t place_of(uint32_t node, uint32_t condition, size_t room)
{
    uint64_t mixed = ((uint64_t)node << 32 | condition) * UINT64_C(0x9e3779b97f4a7c15);
    return (size_t)(mixed ^ mixed >> 32) & (room - 1);
}

static void edge_put(struct weir_paths_edge *edges, size_t room, struct weir_paths_edge edge)
{
    size_t at = place_of(edge.node, edge.condition, room);
    while (edges[at].child)
        at = (at + 1) & (room - 1);
    edges[at] = edge;
}

uint32_t weir_paths_step(const struct weir_paths *paths, uint32_t node, uint32_t condition)
{
    size_t mask = paths->edges_room - 1;
    for (size_t at = place_of(node, condition, paths->edges_room); paths->edges[at].child; at = (at + 1) & mask)
        if (paths->edges[at].node == node && paths->edges[at].condition == condition)
            return paths->edges[at].child;
    return 0;
}

static int edges_double(struct weir_paths *paths)
{
    size_t room = paths->edges_room * 2;
    struct weir_paths_edge *edges = calloc(room, sizeof(*edges));
    if (!edges)
        return WEIR_ENOMEM;
    for (size_t i = 0; i < paths->edges_room; i++)
        if (paths->edges[i].child)
            edge_put(edges, room, paths->edges[i]);
    free(paths->edges);
    paths->edges = edges;
    paths->edges_room = room;
    return 0;
}

static int nodes_double(struct weir_paths *paths)
{
    size_t room = paths->nodes_room * 2;
    struct weir_paths_node *nodes = reallocarray(paths->nodes, room, sizeof(*nodes));
    if (!nodes)
        return WEIR_ENOMEM;
    memset(nodes + paths->nodes_room, 0, paths->nodes_room * sizeof(*nodes));
    paths->nodes = nodes;
    paths->nodes_room = room;
    return 0;
}

int weir_paths_grow(struct weir_paths *paths, uint32_t node, uint32_t condition, uint32_t *ret_child)
{
    uint32_t child = weir_paths_step(paths, node, condition);
    if (!child) {
        /* Each node but the root has one edge, so the count of nodes stands for both. */
        if (paths->nodes_count * 2 > paths->edges_room && edges_double(paths) != 0)
            return WEIR_ENOMEM;
        if (paths->nodes_count == paths->nodes_room && nodes_double(paths) != 0)
            return WEIR_ENOMEM;
        child = (uint32_t)paths->nodes_count++;
        edge_put(paths->edges, paths->edges_room, (struct weir_paths_edge){ node, condition, child });
        paths->nodes[node].children++;
    }
    *ret_child = child;
    return 0;
}
