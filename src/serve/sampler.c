/* SPDX-License-Identifier: Apache-2.0
 *
 * Adds up the counters of the loops for the last hour. Called by server.c; http_hour.c tells what came of it. */
#include "serve/sampler.h"

#include "base/checked.h"
#include "observe/hour.h"

static void add_loop(struct weir_hour_totals *totals, const struct weir_loop *loop, struct weir_metrics_loop *metrics)
{
    const struct weir_counters *counters = &loop->counters;
    totals->requests += weir_counted(&counters->commands) + weir_counted(&counters->requests);
    totals->unmatched += weir_counted(&counters->unmatched_admitted) + weir_counted(&counters->unmatched_refused);
    for (size_t i = WEIR_FALLBACK_NONE + 1; i < WEIR_FALLBACK_POLICIES; i++)
        totals->fallbacks += weir_counted(&counters->fallbacks[i]);
    for (size_t protocol = 0; protocol < WEIR_METRICS_PROTOCOLS; protocol++)
        for (size_t i = 0; i < WEIR_HISTOGRAM_BUCKETS; i++)
            totals->turns[i] += weir_counted(&metrics->turn_ns[protocol].counts[i]);
}

static void add_limits(struct weir_hour_totals *totals, struct weir_metrics *metrics)
{
    const size_t count = weir_metrics_slots(metrics);
    for (size_t slot = 0; slot < count; slot++) {
        struct weir_hour_limit *limit = &totals->limits[slot < WEIR_HOUR_LIMITS ? slot : WEIR_METRICS_OTHER];
        uint64_t counts[WEIR_METRICS_VERDICTS];
        weir_metrics_decisions(metrics, (uint32_t)slot, counts);
        for (size_t i = 0; i < WEIR_METRICS_VERDICTS; i++) {
            totals->verdicts[i] += counts[i];
            *(i == WEIR_METRICS_ADMITTED ? &limit->admitted : &limit->refused) += counts[i];
        }
    }
}

void weir_sampler_look(struct weir_common *common, const struct weir_time *time)
{
    struct weir_hour_totals totals = { 0 };
    struct weir_limiter_stats stats;
    if (!weir_hour_is_due(common->hour, time->now_ns))
        return;
    for (size_t i = 0; i < common->loop_count; i++)
        add_loop(&totals, &common->loops[i], weir_metrics_of_loop(common->metrics, i));
    add_limits(&totals, common->metrics);
    weir_limiter_stats(common->limiter, &stats);
    totals.keys = stats.keys;
    totals.connections = atomic_load_explicit(&common->connections, memory_order_relaxed);
    weir_hour_look(common->hour, &totals, time->now_ns, time->wall_ns);
}
