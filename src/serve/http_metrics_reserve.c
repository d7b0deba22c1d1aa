/* SPDX-License-Identifier: Apache-2.0
 *
 * Of GET /metrics, reservations: how many are open, how they end, and by limit their units and how good the estimates
 * are. Called by http_metrics.c. */
#include "serve/http_metrics.h"
#include "serve/loop.h"
#include "serve/reserve.h"

static const struct weir_label no_label = { 0 };

static void write_ends(struct weir_prometheus *out, const struct weir_reserve_ends *ends)
{
    const struct {
        const char *end;
        uint64_t count;
    } rows[] = {
        { "reserved", ends->reserved }, { "refused", ends->refused },     { "full", ends->full },
        { "settled", ends->settled },   { "cancelled", ends->cancelled }, { "released", ends->released },
        { "kept", ends->kept },         { "late", ends->late },           { "unknown", ends->unknown },
    };
    weir_prometheus_metric(
        out, "weir_reservations_total", "counter",
        "Reservations by what happened: reserved, refused or full; settled, cancelled; ended by their "
        "ttl: released or kept; late: settled after that; unknown: an id that is not ours.");
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        weir_prometheus_sample(out, "weir_reservations_total", (struct weir_label){ "event", rows[i].end }, no_label,
                               rows[i].count);
}

static void write_units(struct weir_prometheus *out, const struct weir_loop *loop)
{
    struct weir_reserve_limit_view view;
    weir_prometheus_metric(out, "weir_reserved_units", "gauge", "Units of open reservations, by limit.");
    for (size_t i = 0; i < weir_rules_count(loop->setup->rules); i++) {
        const struct weir_rule *rule = weir_rules_limit(loop->setup->rules, i);
        const struct weir_label limit = { "limit", rule->name };
        if (weir_reservations_limit_view(loop->common->reservations, weir_loop_slot(loop, rule->index), 0, &view))
            weir_prometheus_sample(out, "weir_reserved_units", limit, no_label, view.book.outstanding);
    }
    weir_prometheus_metric(out, "weir_reserved_units_total", "counter",
                           "Units by limit: reserved; given_back when they were settled or had ended; under_estimated: "
                           "charged beyond; uncharged: beyond what a key may owe.");
    for (size_t i = 0; i < weir_rules_count(loop->setup->rules); i++) {
        const struct weir_rule *rule = weir_rules_limit(loop->setup->rules, i);
        const struct weir_label limit = { "limit", rule->name };
        if (!weir_reservations_limit_view(loop->common->reservations, weir_loop_slot(loop, rule->index), 0, &view))
            continue;
        const char *name = "weir_reserved_units_total";
        weir_prometheus_sample(out, name, limit, (struct weir_label){ "what", "reserved" }, view.book.reserved);
        weir_prometheus_sample(out, name, limit, (struct weir_label){ "what", "given_back" }, view.book.back);
        weir_prometheus_sample(out, name, limit, (struct weir_label){ "what", "under_estimated" }, view.book.more);
        weir_prometheus_sample(out, name, limit, (struct weir_label){ "what", "uncharged" }, view.uncharged);
    }
}

static void write_estimates(struct weir_prometheus *out, const struct weir_loop *loop)
{
    struct weir_reserve_limit_view view;
    weir_prometheus_metric(
        out, "weir_reserve_ratio_total", "counter",
        "Reservations that were settled in time with at most so many times what was reserved, by limit.");
    for (size_t i = 0; i < weir_rules_count(loop->setup->rules); i++) {
        const struct weir_rule *rule = weir_rules_limit(loop->setup->rules, i);
        const struct weir_label limit = { "limit", rule->name };
        if (!weir_reservations_limit_view(loop->common->reservations, weir_loop_slot(loop, rule->index), 0, &view))
            continue;
        for (unsigned j = 0; j <= WEIR_RESERVE_RATIOS; j++)
            weir_prometheus_sample(out, "weir_reserve_ratio_total", limit,
                                   (struct weir_label){ "le", weir_reserve_ratios[j] }, view.ratios[j]);
    }
    weir_prometheus_metric(out, "weir_reserve_estimate", "gauge",
                           "What amount: auto would reserve of a limit by what was settled; 0 while little is known.");
    for (size_t i = 0; i < weir_rules_count(loop->setup->rules); i++) {
        const struct weir_rule *rule = weir_rules_limit(loop->setup->rules, i);
        const uint32_t slot = weir_loop_slot(loop, rule->index);
        if (rule->reserve.estimate > 0 &&
            weir_reservations_limit_view(loop->common->reservations, slot, rule->reserve.estimate, &view))
            weir_prometheus_sample(out, "weir_reserve_estimate", (struct weir_label){ "limit", rule->name }, no_label,
                                   view.estimate);
    }
}

void weir_http_metrics_reserve(struct weir_prometheus *out, const struct weir_loop *loop)
{
    struct weir_reserve_view view;
    weir_reservations_view(loop->common->reservations, &view);
    weir_prometheus_metric(out, "weir_reservations_open", "gauge", "Reservations that are open.");
    weir_prometheus_sample(out, "weir_reservations_open", no_label, no_label, view.open);
    weir_prometheus_metric(out, "weir_reservations_remembered", "gauge",
                           "Reservations that have ended, and are remembered.");
    weir_prometheus_sample(out, "weir_reservations_remembered", no_label, no_label, view.remembered);
    write_ends(out, &view.ends);
    write_units(out, loop);
    write_estimates(out, loop);
}
