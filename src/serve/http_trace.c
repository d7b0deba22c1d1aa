/* SPDX-License-Identifier: Apache-2.0
 *
 * Which decisions of /v1/check and /v1/auth there is a span of, and what it tells. Whoever sends traceparent decides
 * that for its trace (the flag `sampled`); of requests without one, one in traces.sample is the first of a trace of its
 * own. Without traces in the configuration a request costs one comparison here. Called by http_check.c;
 * observe/tracer.c sends what is written down. */
#include "observe/tracer.h"
#include "serve/http_call.h"
#include "serve/loop.h"

#include "base/checked.h"

/* The one traceparent of a request; NULL: there is none, or there are several, which says nothing. */
static const struct weir_http_header *find_parent(const struct weir_http_request *request)
{
    const struct weir_http_header *found = NULL;
    for (size_t i = 0; i < request->header_count; i++) {
        if (!weir_http_is(request->headers[i].name, "traceparent"))
            continue;
        if (found)
            return NULL;
        found = &request->headers[i];
    }
    return found;
}

static void put_random(const struct weir_loop *loop, uint8_t *bytes, size_t size)
{
    for (size_t at = 0; at < size; at += sizeof(uint64_t)) {
        uint64_t random = weir_tracer_random(loop->common->tracer, loop->number);
        random += random == 0; /* an id of zeros is none */
        memcpy(bytes + at, &random, sizeof(random));
    }
}

/* True: it is the first of a trace of its own. */
static bool begins_one(const struct weir_loop *loop, uint64_t one_in, struct weir_traceparent *ret_parent)
{
    if (one_in == 0 || (uint64_t)((weir_u128)weir_tracer_random(loop->common->tracer, loop->number) * one_in >> 64) > 0)
        return false;
    *ret_parent = (struct weir_traceparent){ .flags = WEIR_TRACE_SAMPLED };
    put_random(loop, ret_parent->trace_id, sizeof(ret_parent->trace_id));
    return true;
}

void weir_http_trace_begin(struct weir_http_call *call, enum weir_trace_call which, bool peek)
{
    const struct weir_loop *loop = call->conn->loop;
    const struct weir_setup *setup = loop->setup;
    struct weir_http_trace *trace = &call->session->trace;
    trace->wanted = false;
    if (!setup->config->traces.endpoint || !loop->common->tracer)
        return;
    const struct weir_http_header *header = find_parent(call->request);
    trace->has_parent = header && weir_traceparent_read(header->value, &trace->parent);
    trace->wanted = trace->has_parent ? (trace->parent.flags & WEIR_TRACE_SAMPLED) != 0
                                      : begins_one(loop, setup->config->traces.sample_one_in, &trace->parent);
    if (!trace->wanted)
        return;
    trace->call = which;
    trace->peek = peek;
    trace->start_ns = call->time->now_ns;
    trace->start_wall_ns = call->time->wall_ns;
    trace->rules_version = setup->origin.rules.number;
    trace->rules_checksum = setup->config->checksum;
}

/* ---- what came of it ---- */

static enum weir_fallback_policy fallback_of(const struct weir_outcome *outcome)
{
    enum weir_fallback_policy fallback = WEIR_FALLBACK_NONE;
    if (outcome->decision.deciding < outcome->match.count)
        fallback = weir_outcome_fallback(outcome, outcome->decision.deciding);
    for (size_t i = 0; i < outcome->match.count && !fallback; i++)
        fallback = weir_outcome_fallback(outcome, i);
    return fallback;
}

/* As this loop last saw the engine, up to 100 ms ago. Its own thread writes the picture, so it may look. */
static void put_breaker(const struct weir_loop *loop, struct weir_trace *trace)
{
    static const unsigned rank[] = { [WEIR_BREAKER_CLOSED] = 0, [WEIR_BREAKER_HALF_OPEN] = 1, [WEIR_BREAKER_OPEN] = 2 };
    const struct weir_sharer_picture *picture = loop->sharer.picture;
    for (size_t i = 0; picture && i < picture->servers_count; i++) {
        if (!trace->has_breaker || rank[picture->servers[i].breaker] > rank[trace->breaker])
            trace->breaker = picture->servers[i].breaker;
        trace->has_breaker = true;
    }
}

static void put_limit(const struct weir_outcome *outcome, struct weir_trace *trace)
{
    const struct weir_rule *rule = weir_outcome_rule(outcome);
    const struct weir_verdict *verdict = weir_outcome_verdict(outcome);
    (void)snprintf(trace->limit, sizeof(trace->limit), "%s", rule->name);
    trace->algorithm = rule->limit.spec.algorithm;
    trace->cost = outcome->match.charges[outcome->decision.deciding].cost;
    trace->capacity = verdict->capacity;
    trace->remaining = verdict->remaining;
    trace->retry_after_ns = outcome->decision.retry_after_ns;
    if (!outcome->decision.admitted)
        trace->verdict = outcome->banned ? WEIR_METRICS_BANNED : weir_metrics_verdict_of(verdict);
}

void weir_http_trace_end(const struct weir_http_call *call, int status)
{
    struct weir_loop *loop = call->conn->loop;
    const struct weir_outcome *outcome = &call->work->outcome;
    const struct weir_http_trace *begun = &call->session->trace;
    struct weir_trace trace = {
        .parent = begun->parent,
        .has_parent = begun->has_parent,
        .peek = begun->peek,
        .unmatched = outcome->match.count == 0 && !outcome->match.met,
        .shared = outcome->match.remote_count > 0,
        .call = begun->call,
        .verdict = outcome->decision.admitted ? WEIR_METRICS_ADMITTED : WEIR_METRICS_REFUSED,
        .fallback = fallback_of(outcome),
        .status = status,
        .start_wall_ns = begun->start_wall_ns,
        .took_ns = weir_sub_sat(weir_time_read().now_ns, begun->start_ns),
        .limits = (uint32_t)outcome->match.count,
        .round_trips = outcome->round_trips,
        .wait_ns = outcome->wait_ns,
        .rules_version = begun->rules_version,
        .rules_checksum = begun->rules_checksum,
    };
    put_random(loop, trace.span_id, sizeof(trace.span_id));
    if (weir_outcome_rule(outcome))
        put_limit(outcome, &trace);
    for (size_t i = 0; i < outcome->match.count; i++)
        trace.shadow_refused += outcome->verdicts[i].shadow && !outcome->verdicts[i].admitted;
    if (trace.shared)
        put_breaker(loop, &trace);
    weir_tracer_add(loop->common->tracer, loop->number, &trace);
}
