/* SPDX-License-Identifier: Apache-2.0
 *
 * The names of a span's attributes are those of docs/traces.md. Called by tracer.c. */
#include "observe/trace.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/checked.h"

#define ATTRIBUTES_MAX 24

struct attributes {
    size_t count;
    struct weir_otlp_attribute list[ATTRIBUTES_MAX];
};

static void add(struct attributes *attributes, struct weir_otlp_attribute attribute)
{
    weir_assert(attributes->count < ATTRIBUTES_MAX);
    attributes->list[attributes->count++] = attribute;
}

static void add_text(struct attributes *attributes, const char *name, const char *text)
{
    add(attributes, (struct weir_otlp_attribute){ .name = name, .kind = WEIR_OTLP_TEXT, .text = text });
}

/* More than an int64 holds is told as the most that it does. */
static void add_number(struct attributes *attributes, const char *name, uint64_t number)
{
    add(attributes, (struct weir_otlp_attribute){
                        .name = name, .kind = WEIR_OTLP_INTEGER, .number = (int64_t)weir_min_u64(number, INT64_MAX) });
}

static void add_truth(struct attributes *attributes, const char *name)
{
    add(attributes, (struct weir_otlp_attribute){ .name = name, .kind = WEIR_OTLP_TRUTH, .number = 1 });
}

/* Whole ms, rounded up, as everywhere else; of WEIR_NEVER -1. */
static void add_ms(struct attributes *attributes, const char *name, uint64_t ns)
{
    int64_t ms = ns == WEIR_NEVER ? -1 : (int64_t)weir_div_ceil(ns, 1000000);
    add(attributes, (struct weir_otlp_attribute){ .name = name, .kind = WEIR_OTLP_INTEGER, .number = ms });
}

static void add_limit(struct attributes *attributes, const struct weir_trace *trace)
{
    add_text(attributes, "weir.limit", trace->limit);
    add_text(attributes, "weir.algorithm", weir_algorithm_name(trace->algorithm));
    add_number(attributes, "weir.capacity", trace->capacity);
    add_number(attributes, "weir.remaining", trace->remaining);
    add_number(attributes, "weir.cost", trace->cost);
    if (trace->verdict != WEIR_METRICS_ADMITTED)
        add_ms(attributes, "weir.retry_after_ms", trace->retry_after_ns);
    if (trace->wait_ns > 0)
        add_ms(attributes, "weir.wait_ms", trace->wait_ns);
}

static void add_sharing(struct attributes *attributes, const struct weir_trace *trace)
{
    add_number(attributes, "weir.engine_round_trips", trace->round_trips);
    if (trace->fallback)
        add_text(attributes, "weir.fallback", weir_fallback_policy_name(trace->fallback));
    if (trace->has_breaker)
        add_text(attributes, "weir.breaker", weir_breaker_name(trace->breaker));
}

bool weir_trace_encode(const struct weir_trace *trace, struct weir_otlp *otlp)
{
    static const struct {
        const char *name, *route;
    } calls[] = { [WEIR_TRACE_CHECK] = { "check", "/v1/check" }, [WEIR_TRACE_AUTH] = { "auth", "/v1/auth" } };
    struct attributes attributes = { 0 };
    char checksum[17];
    (void)snprintf(checksum, sizeof(checksum), "%016" PRIx64, trace->rules_checksum);
    add_text(&attributes, "weir.verdict", weir_metrics_verdict_name(trace->verdict));
    add_number(&attributes, "weir.limits", trace->limits);
    if (trace->unmatched)
        add_truth(&attributes, "weir.unmatched");
    if (trace->limit[0])
        add_limit(&attributes, trace);
    if (trace->shadow_refused > 0)
        add_number(&attributes, "weir.shadow_refused", trace->shadow_refused);
    if (trace->shared)
        add_sharing(&attributes, trace);
    if (trace->peek)
        add_truth(&attributes, "weir.peek");
    if (trace->rules_version > 0)
        add_number(&attributes, "weir.rules_version", trace->rules_version);
    add_text(&attributes, "weir.rules_checksum", checksum);
    add_text(&attributes, "http.route", calls[trace->call].route);
    add_number(&attributes, "http.response.status_code", (uint64_t)trace->status);
    const struct weir_otlp_span span = {
        .trace_id = trace->parent.trace_id,
        .span_id = trace->span_id,
        .parent_id = trace->has_parent ? trace->parent.parent_id : NULL,
        .flags = trace->parent.flags,
        .failed = trace->status >= 500,
        .name = calls[trace->call].name,
        .start_wall_ns = trace->start_wall_ns,
        .end_wall_ns = weir_add_sat(trace->start_wall_ns, trace->took_ns),
        .attributes = attributes.list,
        .count = attributes.count,
    };
    return weir_otlp_add(otlp, &span);
}
