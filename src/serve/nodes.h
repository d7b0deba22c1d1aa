/* SPDX-License-Identifier: Apache-2.0
 *
 * What operators see of sharing and locks, put together from all loops: for GET /v1/nodes and for /metrics. */
#ifndef WEIR_SERVE_NODES_H
#define WEIR_SERVE_NODES_H

#include "serve/loop.h"
#include "wire/nodes.h"

/* The value and what it points to. */
struct weir_nodes_view;

/* WEIR_ENOMEM. From any loop's thread, for the setup of `loop`. */
int weir_nodes_view_create(struct weir_loop *loop, struct weir_nodes_view **ret_view);
const struct weir_nodes *weir_nodes_view_of(const struct weir_nodes_view *view);
void weir_nodes_view_destroy(struct weir_nodes_view *view); /* NULL is allowed */

#endif
