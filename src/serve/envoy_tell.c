/* SPDX-License-Identifier: Apache-2.0
 *
 * What was decided, in Envoy's words: of each descriptor the limit that decides, and for all of them the header fields
 * that HTTP clients get from weir (wire/ratelimit.h). Called by envoy.c. */
#include "base/assert.h"
#include "base/checked.h"
#include "serve/envoy_inside.h"

static bool is_of(const struct weir_envoy_ask *ask, size_t descriptor, size_t part)
{
    return ask->each[descriptor].parts >> part & 1;
}

static bool refuses(const struct weir_envoy_part *part)
{
    return !part->verdict.admitted && !part->verdict.shadow;
}

bool weir_envoy_refused_one(const struct weir_envoy_ask *ask, size_t descriptor)
{
    for (size_t i = 0; i < ask->parts_count; i++)
        if (is_of(ask, descriptor, i) && refuses(&ask->parts[i]))
            return true;
    return ask->each[descriptor].over;
}

bool weir_envoy_refused_any(const struct weir_envoy_ask *ask)
{
    for (size_t i = 0; i < ask->count; i++)
        if (weir_envoy_refused_one(ask, i))
            return true;
    return false;
}

/* Of two limits, the one that says more: a refusal before none, of refusals the longest, of others the one with the
 * least left; one in shadow last. */
static bool decides(const struct weir_envoy_part *one, const struct weir_envoy_part *other)
{
    if (refuses(one) != refuses(other))
        return refuses(one);
    if (one->verdict.shadow != other->verdict.shadow)
        return !one->verdict.shadow;
    return refuses(one) ? one->verdict.retry_after_ns > other->verdict.retry_after_ns
                        : one->verdict.remaining < other->verdict.remaining;
}

static void tell_limit(struct weir_envoy_status *status, const struct weir_envoy_part *part)
{
    const struct weir_verdict *verdict = &part->verdict;
    const bool rate = part->spec->algorithm != WEIR_CONCURRENCY;
    status->name = part->name;
    status->unit = rate ? weir_envoy_unit_of(part->spec->period_ns) : WEIR_ENVOY_UNIT_UNKNOWN;
    const uint64_t requests = status->unit != WEIR_ENVOY_UNIT_UNKNOWN ? part->spec->count : verdict->capacity;
    status->requests_per_unit = (uint32_t)weir_min_u64(requests, UINT32_MAX);
    status->remaining = verdict->admitted ? (uint32_t)weir_min_u64(verdict->remaining, UINT32_MAX) : 0;
    const uint64_t wait_ns = weir_max_u64(verdict->reset_after_ns, verdict->retry_after_ns);
    status->has_reset = verdict->retry_after_ns != WEIR_NEVER;
    status->reset_ns = status->has_reset ? wait_ns : 0;
}

static void tell_one(const struct weir_envoy_ask *ask, size_t descriptor, struct weir_envoy_status *status)
{
    const struct weir_envoy_part *told = NULL;
    for (size_t i = 0; i < ask->parts_count; i++)
        if (is_of(ask, descriptor, i) && (!told || decides(&ask->parts[i], told)))
            told = &ask->parts[i];
    *status = (struct weir_envoy_status){ .code = weir_envoy_refused_one(ask, descriptor) ? WEIR_ENVOY_OVER_LIMIT
                                                                                          : WEIR_ENVOY_OK };
    if (told)
        tell_limit(status, told);
    else if (ask->each[descriptor].met)
        status->remaining = UINT32_MAX; /* its limits are off: unlimited */
}

/* The fields of limits that say something to a client; of as many as there is room for. */
static void tell_fields(const struct weir_envoy_ask *ask, struct weir_envoy_work *work)
{
    const struct weir_config *config = ask->loop->setup->config;
    const struct weir_ratelimit_options options = { config->headers_ratelimit, config->headers_x_ratelimit };
    struct weir_decision decision = { .admitted = !weir_envoy_refused_any(ask), .deciding = ask->parts_count };
    const struct weir_answer answer = { .decision = &decision, .limits = work->told, .count = ask->parts_count };
    for (size_t i = 0; i < ask->parts_count; i++) {
        const struct weir_envoy_part *part = &ask->parts[i];
        work->told[i] = (struct weir_told){
            .name = part->name, .level = part->level, .spec = part->spec, .verdict = &part->verdict
        };
        if (!part->verdict.shadow &&
            (decision.deciding == ask->parts_count || decides(part, &ask->parts[decision.deciding])))
            decision.deciding = i;
        if (refuses(part))
            decision.retry_after_ns = weir_max_u64(decision.retry_after_ns, part->verdict.retry_after_ns);
    }
    if (!decision.admitted && decision.retry_after_ns == 0)
        decision.retry_after_ns = WEIR_NEVER; /* it meets no limit */
    struct weir_text text = weir_text_init(work->fields, sizeof(work->fields));
    if (ask->parts_count > 0 && weir_ratelimit_fields_max(&answer) <= sizeof(work->fields))
        weir_ratelimit_fields(&text, &answer, &options);
    weir_assert(!text.overflow);
    weir_envoy_take_headers(&work->answer, (struct weir_slice){ work->fields, text.size });
}

void weir_envoy_tell(const struct weir_envoy_ask *ask, struct weir_envoy_work *work)
{
    struct weir_envoy_answer *answer = &work->answer;
    answer->code = weir_envoy_refused_any(ask) ? WEIR_ENVOY_OVER_LIMIT : WEIR_ENVOY_OK;
    answer->count = ask->count;
    for (size_t i = 0; i < ask->count; i++)
        tell_one(ask, i, &answer->statuses[i]);
    tell_fields(ask, work);
}
