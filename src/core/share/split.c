/* SPDX-License-Identifier: Apache-2.0
 *
 * Divides, and gives the first `units % nodes` nodes one more. Called when rules are compiled (rules/compile.c,
 * sharing_decode.c), for CL.THROTTLE (serve/cell.c), and by limits/transaction_part.c, which divides a node's slack
 * among its event loops. */
#include "core/share/split.h"

#include "base/assert.h"

uint64_t weir_split_units(uint64_t units, uint32_t nodes, uint32_t index)
{
    weir_assert(nodes > 0 && index < nodes);
    return units / nodes + (index < units % nodes);
}

struct weir_limit_spec weir_split_spec(const struct weir_limit_spec *spec, uint32_t nodes, uint32_t index)
{
    struct weir_limit_spec share = *spec;
    share.count = weir_split_units(spec->count, nodes, index);
    share.burst = weir_split_units(spec->burst, nodes, index);
    if (spec->burst && !share.burst) /* a burst of 0 would mean "as many as count" */
        share.count = 0;
    weir_assert(share.count <= spec->count && share.burst <= spec->burst);
    return share;
}

uint64_t weir_split_slack(uint64_t count, uint32_t nodes)
{
    uint64_t slack = count / (10 * (uint64_t)nodes);
    weir_assert(slack <= count);
    return slack ? slack : 1;
}
