/* SPDX-License-Identifier: Apache-2.0
 *
 * A node that has one limit, and what stands at the engine. For one file of a program. */
#pragma once

#include "core/share/revision.h"

#define NOW_S 1000

/* What stands at the engine, and a node that looks at it. */
static inline void visit(struct weir_revision *engine, struct weir_revised *node, uint64_t now_s)
{
    (void)weir_revised_hear(node, engine->number > 0 ? engine : NULL);
    (void)weir_revised_settle(node, now_s);
    if (weir_revision_newer(&node->newest, engine)) {
        *engine = node->newest;
        node->wanted = false;
    }
}

static inline struct weir_revised started(uint64_t checksum, uint64_t given)
{
    struct weir_revised node = { .own = 0 };
    weir_revised_own(&node, checksum, given, false);
    return node;
}

static inline struct weir_revised joined(struct weir_revision *engine, uint64_t checksum)
{
    struct weir_revised node = started(checksum, 0);
    visit(engine, &node, NOW_S);
    return node;
}
