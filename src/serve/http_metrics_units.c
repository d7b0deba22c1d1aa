/* SPDX-License-Identifier: Apache-2.0
 *
 * Of GET /metrics, the calls of gRPC by status, the hits of Envoy's questions, and what alerts compare: the units that
 * were admitted under a limit with the most that it allows, and the refusals of one key with all. Never a key. Called
 * by http_metrics.c. */
#include "serve/http_metrics.h"

#include <stdlib.h>

#include "serve/loop.h"

#define TOP_ROWS 16

static const struct weir_label no_label = { 0 };

/* Limits of which it can be told from outside whether they admit too much: one counter, which has no overrides then. */
static bool is_watched(const struct weir_loop *loop, size_t index)
{
    const struct weir_rule *rule = weir_rules_limit(loop->setup->rules, index);
    return rule->one_counter && rule->whole.mode == WEIR_MODE_ENFORCE && rule->hour_units != WEIR_NEVER &&
           rule->throttle != WEIR_THROTTLE_HOLD;
}

static void write_units_of(struct weir_prometheus *out, const struct weir_loop *loop, enum weir_units units,
                           const char *name, const char *help)
{
    weir_prometheus_metric(out, name, "counter", help);
    for (size_t i = 0; i < weir_rules_count(loop->setup->rules); i++) {
        const struct weir_rule *rule = weir_rules_limit(loop->setup->rules, i);
        uint64_t counts[WEIR_UNITS];
        if (!is_watched(loop, i))
            continue;
        weir_metrics_units_of(loop->common->metrics, weir_loop_slot(loop, rule->index), counts);
        weir_prometheus_sample(out, name, (struct weir_label){ "limit", rule->name }, no_label, counts[units]);
    }
}

void weir_http_metrics_grpc(struct weir_prometheus *out, const struct weir_common *common)
{
    if (!common->grpc)
        return;
    weir_prometheus_metric(out, "weir_grpc_answers_total", "counter", "gRPC calls answered, by status.");
    for (unsigned i = 0; i < WEIR_GRPC_STATUSES; i++) {
        const uint64_t count = weir_loops_counted(common, offsetof(struct weir_counters, grpc_answers) +
                                                              i * sizeof(_Atomic uint64_t));
        if (count > 0 || i == WEIR_GRPC_OK)
            weir_prometheus_sample(out, "weir_grpc_answers_total",
                                   (struct weir_label){ "status", weir_grpc_status_name((enum weir_grpc_status)i) },
                                   no_label, count);
    }
}

void weir_http_metrics_hits(struct weir_prometheus *out, const struct weir_loop *loop)
{
    struct weir_metrics *metrics = loop->common->metrics;
    bool begun = false;
    const uint32_t slots = (uint32_t)weir_metrics_slots(metrics);
    for (uint32_t slot = 0; slot < slots; slot++) {
        uint64_t counts[WEIR_HITS];
        weir_metrics_hits_of(metrics, slot, counts);
        if (counts[WEIR_HITS_TOTAL] == 0)
            continue;
        if (!begun)
            weir_prometheus_metric(out, "weir_envoy_hits_total", "counter",
                                   "Hits that Envoy asked of each limit, by the statistics of envoyproxy/ratelimit.");
        begun = true;
        for (unsigned i = 0; i < WEIR_HITS; i++)
            weir_prometheus_sample(out, "weir_envoy_hits_total",
                                   (struct weir_label){ "limit", weir_metrics_name(metrics, slot) },
                                   (struct weir_label){ "statistic", weir_hits_name((enum weir_hits)i) }, counts[i]);
    }
}

void weir_http_metrics_units(struct weir_prometheus *out, const struct weir_loop *loop)
{
    write_units_of(out, loop, WEIR_UNITS_ADMITTED, "weir_admitted_units_total",
                   "Units admitted under a limit that has one counter for all requests.");
    write_units_of(out, loop, WEIR_UNITS_RETURNED, "weir_returned_units_total",
                   "Units of such a limit that were asked back: at most so many were given back.");
    weir_prometheus_metric(out, "weir_limit_hour_units", "gauge",
                           "The most units that such a limit allows in one hour, to this node or to all nodes.");
    for (size_t i = 0; i < weir_rules_count(loop->setup->rules); i++) {
        const struct weir_rule *rule = weir_rules_limit(loop->setup->rules, i);
        if (is_watched(loop, i))
            weir_prometheus_sample(out, "weir_limit_hour_units", (struct weir_label){ "limit", rule->name },
                                   (struct weir_label){ "to", rule->terms.mode ? "nodes" : "node" }, rule->hour_units);
    }
}

static bool has_one_counter(const struct weir_loop *loop, uint32_t slot)
{
    for (size_t i = 0; i < weir_rules_count(loop->setup->rules); i++) {
        const struct weir_rule *rule = weir_rules_limit(loop->setup->rules, i);
        if (rule->one_counter && weir_loop_slot(loop, rule->index) == slot)
            return true;
    }
    return false;
}

/* Whether one key makes up most of what is refused. The key itself is not told: see GET /v1/top. Nor is one that is the
 * only one of its limit: more than TOP_ROWS of those hide the others. */
void weir_http_metrics_top(struct weir_prometheus *out, const struct weir_loop *loop)
{
    struct weir_top *top = loop->common->top;
    const uint64_t now_ns = uv_hrtime();
    if (!top || weir_top_keys(top, loop->number) == WEIR_TOP_OFF)
        return;
    struct weir_top_read *read = calloc(1, sizeof(*read));
    (void)weir_top_show(top, loop->number, now_ns);
    if (read && weir_top_read(top, WEIR_TOP_REFUSED, WEIR_TOP_ANY, now_ns, TOP_ROWS, read) == 0) {
        size_t first = 0;
        while (first < read->count && has_one_counter(loop, read->rows[first].label.slot))
            first++;
        weir_prometheus_metric(out, "weir_top_refused", "gauge",
                               "Refusals in the time that GET /v1/top tells of, one to two hours.");
        weir_prometheus_sample(out, "weir_top_refused", no_label, no_label, read->total);
        weir_prometheus_metric(out, "weir_top_refused_first", "gauge",
                               "Of them those of the key refused most, at least, and its limit, which has other keys.");
        if (first < read->count)
            weir_prometheus_sample(
                out, "weir_top_refused_first",
                (struct weir_label){ "limit", weir_metrics_name(loop->common->metrics, read->rows[first].label.slot) },
                no_label, read->rows[first].count - read->rows[first].error);
    }
    free(read);
}
