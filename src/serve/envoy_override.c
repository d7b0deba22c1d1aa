/* SPDX-License-Identifier: Apache-2.0
 *
 * `limit` of a descriptor: a token bucket of its own, of so many requests in its unit, for these entries under this
 * domain, in this process's memory. A limit of the rules is then not asked, as Envoy has it. It is looked at before the
 * others are decided and charged after them: another thread may take its last unit in between, and then it refuses
 * though the others were charged. Called by envoy.c. */
#include "base/bytes.h"
#include "base/checked.h"
#include "base/fault_format.h"
#include "serve/envoy_inside.h"

#define PER_SECOND_MAX UINT64_C(1000000000) /* of any limit: more than that is as much */
#define NAME "(override)"                   /* no limit of a file can be called so */

/* The domain and the entries, each behind its length, and before them what no caller can name: a key of CL.THROTTLE is
 * never one of these. */
static int make_key(const struct weir_envoy_ask *ask, const struct weir_envoy_request *request, size_t descriptor,
                    struct weir_key *ret_key, struct weir_fault *fault)
{
    const struct weir_envoy_descriptor *one = &request->descriptors[descriptor];
    const struct weir_guesses *guesses = &ask->loop->common->guesses;
    uint8_t bytes[WEIR_KEY_BYTES_MAX];
    struct weir_text text = weir_text_init(bytes, sizeof(bytes));
    weir_text_bytes(&text, guesses->secret, sizeof(guesses->secret));
    weir_text_lit(&text, "envoy");
    for (size_t i = 0; i < 2 * one->count + 1; i++) {
        uint8_t size[4];
        const struct weir_envoy_entry *entry = &request->entries[one->first + (i > 0 ? (i - 1) / 2 : 0)];
        const struct weir_slice part = i == 0 ? request->domain : i % 2 ? entry->key : entry->value;
        weir_big_put(size, part.size, sizeof(size));
        weir_text_bytes(&text, size, sizeof(size));
        weir_text_slice(&text, part);
    }
    if (text.overflow)
        return weir_fault_format(fault, WEIR_ERANGE, "descriptors", "with a limit of their own must be short: %d bytes",
                                 WEIR_KEY_BYTES_MAX);
    return weir_limiter_bucket_key(ask->loop->limiter, (struct weir_slice){ bytes, text.size }, ret_key);
}

/* Nothing may be requested: there is no bucket of that. */
static const struct weir_verdict never = { .retry_after_ns = WEIR_NEVER };

static struct weir_verdict decide(const struct weir_envoy_ask *ask, const struct weir_envoy_each *each, unsigned flags,
                                  const struct weir_time *time)
{
    struct weir_verdict verdict;
    if (each->spec.count == 0 || weir_limiter_bucket_decide(ask->loop->limiter, &each->bucket, &each->key,
                                                            weir_max_u64(each->cost, 1), time, flags, &verdict))
        return never;
    return verdict;
}

static int look(struct weir_envoy_ask *ask, const struct weir_envoy_request *request, size_t i,
                const struct weir_time *time, struct weir_fault *fault)
{
    const struct weir_envoy_descriptor *one = &request->descriptors[i];
    struct weir_envoy_each *each = &ask->each[i];
    each->overrides = each->met = true;
    each->cost = one->negative ? 0 : weir_envoy_hits(request, i);
    each->spec = (struct weir_limit_spec){ .algorithm = WEIR_TOKEN_BUCKET,
                                           .count = one->limit_requests,
                                           .period_ns = weir_envoy_unit_ns((enum weir_envoy_unit)one->limit_unit) };
    int error = make_key(ask, request, i, &each->key, fault);
    struct weir_limit_spec most = each->spec;
    most.count = weir_min_u64(most.count, PER_SECOND_MAX * (most.period_ns / WEIR_NS_PER_SECOND));
    if (!error && one->limit_requests > 0)
        error = weir_bucket_init(&each->bucket, &most, fault);
    if (error)
        return error;
    if (ask->parts_count == WEIR_CHARGES_MAX)
        return weir_fault_format(fault, WEIR_ELIMIT, "descriptors", "meet more than %d limits", WEIR_CHARGES_MAX);
    each->parts = UINT64_C(1) << ask->parts_count;
    ask->parts[ask->parts_count++] = (struct weir_envoy_part){ .name = NAME,
                                                               .slot = weir_metrics_slot(ask->loop->common->metrics,
                                                                                         NAME),
                                                               .verdict = decide(ask, each, WEIR_PEEK, time) };
    return 0;
}

int weir_envoy_overrides_look(struct weir_envoy_ask *ask, const struct weir_envoy_work *work,
                              const struct weir_time *time, struct weir_fault *ret_fault)
{
    int error = 0;
    for (size_t i = 0; i < work->request.count && !error; i++)
        if (work->request.descriptors[i].has_limit)
            error = look(ask, &work->request, i, time, ret_fault);
    return error;
}

static struct weir_envoy_part *part_of(struct weir_envoy_ask *ask, const struct weir_envoy_each *each)
{
    return &ask->parts[__builtin_ctzll(each->parts)];
}

void weir_envoy_overrides_charge(struct weir_envoy_ask *ask, const struct weir_time *time)
{
    struct weir_metrics *metrics = ask->loop->common->metrics;
    const bool all = ask->loop->setup->config->envoy_count_all;
    const bool refused = weir_envoy_refused_any(ask);
    for (size_t i = 0; i < ask->count; i++) {
        const struct weir_envoy_each *each = &ask->each[i];
        if (!each->overrides)
            continue;
        struct weir_envoy_part *part = part_of(ask, each);
        part->spec = &each->spec;
        if (each->cost == 0)
            continue; /* it only looks */
        if (all || !refused)
            part->verdict = decide(ask, each, 0, time);
        weir_metrics_decided(metrics, ask->loop->number, part->slot, weir_metrics_verdict_of(&part->verdict), 1);
    }
}
