/* SPDX-License-Identifier: Apache-2.0
 *
 * The statistics of envoyproxy/ratelimit, of each limit: how many hits it was asked for, how many it charged, and of
 * these those that came near it, and how many were over it. As many as there are limits, whatever values come; all
 * overrides are one. Called by envoy.c when a question is decided. */
#include "base/checked.h"
#include "serve/envoy_inside.h"

/* Those of `hits`, the last that were charged, that are above four fifths of the limit. */
static uint64_t near(const struct weir_verdict *verdict, uint64_t hits)
{
    const uint64_t used = weir_sub_sat(verdict->capacity, verdict->remaining);
    const uint64_t from = verdict->capacity / 5 * 4 + verdict->capacity % 5 * 4 / 5;
    return weir_min_u64(hits, weir_sub_sat(used, from));
}

static void count_one(const struct weir_envoy_ask *ask, const struct weir_envoy_part *part, uint64_t hits, bool charged)
{
    struct weir_metrics *metrics = ask->loop->common->metrics;
    const size_t loop = ask->loop->number;
    const struct weir_verdict *verdict = &part->verdict;
    weir_metrics_hit(metrics, loop, part->slot, WEIR_HITS_TOTAL, hits);
    if (!verdict->admitted) {
        weir_metrics_hit(metrics, loop, part->slot, WEIR_HITS_OVER, hits);
        weir_metrics_hit(metrics, loop, part->slot, WEIR_HITS_SHADOW, verdict->shadow ? hits : 0);
    } else if (charged) {
        weir_metrics_hit(metrics, loop, part->slot, WEIR_HITS_WITHIN, hits);
        weir_metrics_hit(metrics, loop, part->slot, WEIR_HITS_NEAR, near(verdict, hits));
    }
}

void weir_envoy_hits_count(const struct weir_envoy_ask *ask)
{
    const bool all = ask->loop->setup->config->envoy_count_all;
    const bool refused = weir_envoy_refused_any(ask);
    for (size_t i = 0; i < ask->count; i++) {
        const struct weir_envoy_each *each = &ask->each[i];
        const bool charged = all ? !weir_envoy_refused_one(ask, i) : !refused;
        for (size_t part = 0; each->hits > 0 && part < ask->parts_count; part++)
            if (each->parts >> part & 1)
                count_one(ask, &ask->parts[part], each->hits, charged);
    }
}
