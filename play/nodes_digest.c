/* SPDX-License-Identifier: Apache-2.0
 *
 * Whether two runs are the same, in one number: the sums, each node's, each admission, and what the checker found at
 * each. Called by nodes.c, and by tests/play on a run of a scenario's file. */
#include "play/nodes.h"

static uint64_t mixed(uint64_t digest, uint64_t value)
{
    uint64_t z = (digest ^ value) * UINT64_C(0xff51afd7ed558ccd);
    return (z ^ z >> 33) * UINT64_C(0xc4ceb9fe1a85ec53) + 1;
}

uint64_t play_digest_of(const struct weir_sim_plan *plan, const struct weir_sim_result *result,
                        const struct weir_sim_trace *trace)
{
    const uint64_t sums[] = { result->decisions, result->admitted,      result->refused,     result->units,
                              result->messages,  result->lost,          result->duplicated,  result->to_engine,
                              result->events,    result->peak,          result->bound,       result->near_ppm,
                              result->limit_all, result->wait_total_ns, result->wait_max_ns, (uint64_t)result->broken };
    uint64_t digest = 0;
    for (size_t i = 0; i < sizeof sums / sizeof sums[0]; i++)
        digest = mixed(digest, sums[i]);
    for (uint32_t i = 0; i < plan->nodes; i++) {
        const struct weir_sim_node_result *node = &result->nodes[i];
        digest = mixed(mixed(mixed(digest, node->admitted), node->refused), node->dropped);
    }
    for (size_t i = 0; i < trace->count; i++)
        digest = mixed(mixed(mixed(digest, trace->marks[i].at_ns), trace->marks[i].node), trace->marks[i].units);
    for (size_t i = 0; i < trace->overs_count; i++)
        digest = mixed(mixed(mixed(digest, trace->overs[i].at_ns), trace->overs[i].over), trace->overs[i].bound);
    return digest;
}
