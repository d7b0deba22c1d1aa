/* SPDX-License-Identifier: Apache-2.0
 *
 * The limits are sorted three times: by name, by name without case, by match and key. Limits that overlap then stand
 * side by side, and only neighbours are compared. The overrides of a limit are sorted by the text of their conditions.
 * Called by config.c when all limits are decoded; what is odd about one limit alone is found in warnings.c. */
#include "rules/overlaps.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/checked.h"
#include "rules/pattern.h"

static const struct weir_config_limit *limit_at(const void *slot)
{
    return *(const struct weir_config_limit *const *)slot;
}

static int by_place(const struct weir_config_limit *a, const struct weir_config_limit *b)
{
    return (a > b) - (a < b); /* both in the one array of the configuration */
}

static int by_name(const void *a, const void *b)
{
    int order = strcmp(limit_at(a)->name, limit_at(b)->name);
    return order ? order : by_place(limit_at(a), limit_at(b));
}

static int by_name_folded(const void *a, const void *b)
{
    int order = strcasecmp(limit_at(a)->name, limit_at(b)->name);
    return order ? order : by_place(limit_at(a), limit_at(b));
}

static int requests_compare(const struct weir_config_limit *a, const struct weir_config_limit *b)
{
    if (a->match_count != b->match_count)
        return a->match_count < b->match_count ? -1 : 1;
    if (a->key_count != b->key_count)
        return a->key_count < b->key_count ? -1 : 1;
    int order = 0;
    for (size_t i = 0; i < a->match_count && !order; i++) {
        order = strcmp(a->match[i].attribute, b->match[i].attribute);
        if (!order)
            order = weir_slice_compare(a->match[i].pattern, b->match[i].pattern);
        if (!order)
            order = (a->match[i].terms != NULL) - (b->match[i].terms != NULL);
    }
    for (size_t i = 0; i < a->key_count && !order; i++)
        order = strcmp(a->key[i], b->key[i]);
    return order;
}

static int by_requests(const void *a, const void *b)
{
    int order = requests_compare(limit_at(a), limit_at(b));
    return order ? order : by_place(limit_at(a), limit_at(b));
}

/* Both charge every request the same and nothing makes an exception. */
static bool alike(const struct weir_config_limit *a, const struct weir_config_limit *b)
{
    const char *cost_a = a->cost_attribute ? a->cost_attribute : "";
    const char *cost_b = b->cost_attribute ? b->cost_attribute : "";
    return requests_compare(a, b) == 0 && a->cost == b->cost && strcmp(cost_a, cost_b) == 0 &&
           a->spec.algorithm == b->spec.algorithm && a->spec.count_mode == b->spec.count_mode &&
           a->spec.mode == WEIR_MODE_ENFORCE && b->spec.mode == WEIR_MODE_ENFORCE && a->overrides_count == 0 &&
           b->overrides_count == 0 && a->ipv6_prefix == b->ipv6_prefix && a->missing == b->missing;
}

/* Whatever `strict` admits, `loose` admits too. */
static bool covers(const struct weir_limit_spec *strict, const struct weir_limit_spec *loose)
{
    if (strict->algorithm == WEIR_TOKEN_BUCKET || strict->algorithm == WEIR_LEAKY_BUCKET)
        return weir_limit_capacity(strict) <= weir_limit_capacity(loose) &&
               (weir_u128)strict->count * loose->period_ns <= (weir_u128)loose->count * strict->period_ns;
    const char *zone_strict = strict->tz ? strict->tz : "UTC";
    const char *zone_loose = loose->tz ? loose->tz : "UTC";
    return strict->count <= loose->count && strict->period_ns == loose->period_ns && strict->align == loose->align &&
           strict->calendar == loose->calendar && strict->calendar_count == loose->calendar_count &&
           strict->spread_ns == loose->spread_ns && strcmp(zone_strict, zone_loose) == 0;
}

static int names_check(struct weir_decode *decode, struct weir_config_limit **sorted, size_t count)
{
    int error = 0;
    qsort(sorted, count, sizeof(*sorted), by_name);
    for (size_t i = 1; i < count; i++) {
        if (strcmp(sorted[i - 1]->name, sorted[i]->name) != 0)
            continue;
        int taken = weir_config_fail(decode->fault, WEIR_EEXIST, sorted[i]->mark,
                                     "the name \"%s\" is taken by the limit at line %u", sorted[i]->name,
                                     sorted[i - 1]->mark.line);
        if (!weir_decode_goes_on(decode, taken, &error))
            break;
    }
    if (error)
        return error;
    qsort(sorted, count, sizeof(*sorted), by_name_folded);
    for (size_t i = 1; i < count && !error; i++)
        if (strcasecmp(sorted[i - 1]->name, sorted[i]->name) == 0)
            error = weir_decode_warn(decode, sorted[i]->mark,
                                     "name \"%s\" shadows \"%s\" at line %u: they differ only in case", sorted[i]->name,
                                     sorted[i - 1]->name, sorted[i - 1]->mark.line);
    return error;
}

static int requests_check(struct weir_decode *decode, struct weir_config_limit **sorted, size_t count)
{
    int error = 0;
    qsort(sorted, count, sizeof(*sorted), by_requests);
    for (size_t i = 1; i < count && !error; i++) {
        const struct weir_config_limit *first = sorted[i - 1];
        const struct weir_config_limit *second = sorted[i];
        if (!alike(first, second))
            continue;
        bool first_strict = covers(&first->spec, &second->spec);
        if (!first_strict && !covers(&second->spec, &first->spec))
            continue;
        const struct weir_config_limit *loose = first_strict ? second : first;
        const struct weir_config_limit *strict = first_strict ? first : second;
        error = weir_decode_warn(decode, loose->mark,
                                 "limit \"%s\" never decides: \"%s\" at line %u has the same match and key and is at "
                                 "least as strict",
                                 loose->name, strict->name, strict->mark.line);
    }
    return error;
}

static int by_variant(const void *a, const void *b)
{
    const struct weir_config_override *left = *(const struct weir_config_override *const *)a;
    const struct weir_config_override *right = *(const struct weir_config_override *const *)b;
    int order = strcmp(left->variant, right->variant);
    return order ? order : (left > right) - (left < right);
}

static int overrides_check(struct weir_decode *decode, struct weir_config_limit *limit)
{
    size_t count = limit->overrides_count;
    if (count < 2)
        return 0;
    struct weir_config_override **sorted = malloc(count * sizeof(struct weir_config_override *));
    if (!sorted)
        return weir_decode_nomem(decode);
    for (size_t i = 0; i < count; i++)
        sorted[i] = &limit->overrides[i];
    qsort(sorted, count, sizeof(*sorted), by_variant);
    int error = 0;
    const struct weir_config_override *first = sorted[0];
    for (size_t i = 1; i < count && !error; i++) {
        if (strcmp(first->variant, sorted[i]->variant) != 0) {
            first = sorted[i];
            continue;
        }
        sorted[i]->shadowed = true;
        error = weir_decode_warn(
            decode, sorted[i]->mark,
            "this override of limit \"%s\" is shadowed by the one at line %u, which is for the same "
            "keys",
            limit->name, first->mark.line);
    }
    free(sorted);
    return error;
}

int weir_overlaps_find(struct weir_decode *decode)
{
    struct weir_config *config = decode->config;
    size_t count = config->limits_count;
    if (count == 0)
        return 0;
    struct weir_config_limit **sorted = malloc(count * sizeof(struct weir_config_limit *));
    if (!sorted)
        return weir_decode_nomem(decode);
    for (size_t i = 0; i < count; i++)
        sorted[i] = &config->limits[i];
    int error = names_check(decode, sorted, count);
    if (!error)
        error = requests_check(decode, sorted, count);
    free(sorted);
    for (size_t i = 0; i < count && !error; i++)
        error = overrides_check(decode, &config->limits[i]);
    return error;
}
