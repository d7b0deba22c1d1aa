/* SPDX-License-Identifier: Apache-2.0
 *
 * Loops look at weir_common.handing when they are woken. Called by takeover.c. */
#include "serve/takeover_loops.h"

void weir_takeover_step(struct weir_common *common, enum weir_handing handing)
{
    atomic_store(&common->handing, handing);
    for (size_t i = 0; i < common->loop_count; i++)
        uv_async_send(&common->loops[i].wake);
}

bool weir_takeover_all_seen(const struct weir_common *common)
{
    bool seen = true;
    for (size_t i = 0; i < common->loop_count; i++)
        seen = seen && atomic_load(&common->loops[i].handing_seen) == atomic_load(&common->handing);
    return seen;
}

bool weir_takeover_all_still(struct weir_common *common)
{
    const unsigned handing = atomic_load(&common->handing);
    bool still = true;
    for (size_t i = 0; i < common->loop_count; i++) {
        struct weir_loop *loop = &common->loops[i];
        if (atomic_load(&loop->handing_seen) == handing && atomic_load(&loop->still))
            continue;
        still = false;
        uv_async_send(&loop->wake);
    }
    return still;
}
