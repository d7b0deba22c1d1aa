/* SPDX-License-Identifier: Apache-2.0
 *
 * What operators see of sharing and locks, put together from all loops: for GET /v1/nodes and for /metrics. */
#pragma once

#include "serve/loop.h"
#include "wire/nodes.h"

/* The value and what it points to. */
struct weir_nodes_view;

/* WEIR_ENOMEM. From any thread. What loops tell of their engine is a picture, up to 100 ms old: a loop that wants its
 * own as it is now draws it first (weir_sharer_draw). */
int weir_nodes_view_create(const struct weir_common *common, const struct weir_config *config,
                           struct weir_nodes_view **ret_view);
const struct weir_nodes *weir_nodes_view_of(const struct weir_nodes_view *view);
void weir_nodes_view_destroy(struct weir_nodes_view *view); /* NULL is allowed */
