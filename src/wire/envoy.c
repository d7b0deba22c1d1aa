/* SPDX-License-Identifier: Apache-2.0
 *
 * What the two ways of writing have in common. Called by envoy_proto.c and serve/envoy.c. */
#include "wire/envoy.h"

#include "base/assert.h"
#include "base/checked.h"
#include "base/fault_format.h"
#include "wire/text.h"

#define DAY_NS (86400 * WEIR_NS_PER_SECOND)

static const struct {
    const char *name;
    uint64_t ns;
} units[WEIR_ENVOY_UNITS] = {
    [WEIR_ENVOY_UNIT_UNKNOWN] = { "UNKNOWN", 0 },
    [WEIR_ENVOY_SECOND] = { "SECOND", WEIR_NS_PER_SECOND },
    [WEIR_ENVOY_MINUTE] = { "MINUTE", 60 * WEIR_NS_PER_SECOND },
    [WEIR_ENVOY_HOUR] = { "HOUR", 3600 * WEIR_NS_PER_SECOND },
    [WEIR_ENVOY_DAY] = { "DAY", DAY_NS },
    [WEIR_ENVOY_MONTH] = { "MONTH", 30 * DAY_NS },
    [WEIR_ENVOY_YEAR] = { "YEAR", 365 * DAY_NS },
    [WEIR_ENVOY_WEEK] = { "WEEK", 7 * DAY_NS },
};

const char *weir_envoy_unit_name(enum weir_envoy_unit unit)
{
    weir_assert(unit < WEIR_ENVOY_UNITS);
    return units[unit].name;
}

uint64_t weir_envoy_unit_ns(enum weir_envoy_unit unit)
{
    weir_assert(unit < WEIR_ENVOY_UNITS);
    return units[unit].ns;
}

enum weir_envoy_unit weir_envoy_unit_of(uint64_t period_ns)
{
    for (unsigned i = WEIR_ENVOY_SECOND; i < WEIR_ENVOY_UNITS; i++)
        if (units[i].ns == period_ns)
            return (enum weir_envoy_unit)i;
    return WEIR_ENVOY_UNIT_UNKNOWN;
}

const char *weir_envoy_code_name(enum weir_envoy_code code)
{
    static const char *const names[WEIR_ENVOY_CODES] = { "UNKNOWN", "OK", "OVER_LIMIT" };
    weir_assert(code < WEIR_ENVOY_CODES);
    return names[code];
}

uint64_t weir_envoy_hits(const struct weir_envoy_request *request, size_t descriptor)
{
    const struct weir_envoy_descriptor *one = &request->descriptors[descriptor];
    const uint64_t hits = one->has_hits ? one->hits : weir_max_u64(request->hits, 1);
    return weir_min_u64(hits, WEIR_COST_MAX);
}

struct weir_envoy_descriptor *weir_envoy_add(struct weir_envoy_request *request, struct weir_fault *fault)
{
    if (request->count == WEIR_ENVOY_DESCRIPTORS_MAX) {
        (void)weir_fault_format(fault, WEIR_ELIMIT, "descriptors", "must be at most %d", WEIR_ENVOY_DESCRIPTORS_MAX);
        return NULL;
    }
    struct weir_envoy_descriptor *one = &request->descriptors[request->count++];
    *one = (struct weir_envoy_descriptor){ .first = request->entries_count };
    return one;
}

struct weir_envoy_entry *weir_envoy_add_entry(struct weir_envoy_request *request, struct weir_fault *fault)
{
    weir_assert(request->count > 0);
    struct weir_envoy_descriptor *one = &request->descriptors[request->count - 1];
    if (one->count == WEIR_ENVOY_ENTRIES_MAX || request->entries_count == WEIR_ENVOY_ALL_MAX) {
        (void)weir_fault_format(fault, WEIR_ELIMIT, "entries", "must be at most %d of a descriptor, and %d of all",
                                WEIR_ENVOY_ENTRIES_MAX, WEIR_ENVOY_ALL_MAX);
        return NULL;
    }
    one->count++;
    return &request->entries[request->entries_count++];
}

static bool is_domain(struct weir_slice key)
{
    static const char name[] = "domain";
    return key.size == sizeof(name) - 1 && memcmp(key.data, name, key.size) == 0;
}

static int check_descriptor(const struct weir_envoy_request *request, const struct weir_envoy_descriptor *one,
                            struct weir_fault *fault)
{
    if (one->count == 0)
        return weir_fault_format(fault, WEIR_EINVAL, "descriptors", "must have an entry each");
    if (one->has_limit && (one->limit_unit == WEIR_ENVOY_UNIT_UNKNOWN || one->limit_unit >= WEIR_ENVOY_UNITS))
        return weir_fault_format(fault, WEIR_EINVAL, "limit.unit",
                                 "must be SECOND, MINUTE, HOUR, DAY, WEEK, MONTH or YEAR");
    for (size_t i = one->first; i < one->first + one->count; i++) {
        const struct weir_envoy_entry *entry = &request->entries[i];
        if (entry->key.size == 0)
            return weir_fault_format(fault, WEIR_EINVAL, "entries.key", "must not be empty");
        if (!weir_text_is_utf8(entry->key.data, entry->key.size) ||
            !weir_text_is_utf8(entry->value.data, entry->value.size))
            return weir_fault_format(fault, WEIR_EINVAL, "entries", "must be UTF-8");
        if (is_domain(entry->key))
            return weir_fault_format(fault, WEIR_EINVAL, "entries.key",
                                     "must not be \"domain\", which is the attribute of the question's domain");
    }
    return 0;
}

int weir_envoy_check(const struct weir_envoy_request *request, struct weir_fault *ret_fault)
{
    if (request->domain.size == 0)
        return weir_fault_format(ret_fault, WEIR_EINVAL, "domain", "must not be empty");
    if (!weir_text_is_utf8(request->domain.data, request->domain.size))
        return weir_fault_format(ret_fault, WEIR_EINVAL, "domain", "must be UTF-8");
    if (request->count == 0)
        return weir_fault_format(ret_fault, WEIR_EINVAL, "descriptors", "must not be empty");
    int error = 0;
    for (size_t i = 0; i < request->count && !error; i++)
        error = check_descriptor(request, &request->descriptors[i], ret_fault);
    return error;
}

void weir_envoy_take_headers(struct weir_envoy_answer *answer, struct weir_slice text)
{
    const char *at = text.data, *const end = at + text.size;
    answer->headers_count = 0;
    while (at < end) {
        const char *line_end = memmem(at, (size_t)(end - at), "\r\n", 2);
        const char *colon = line_end ? memmem(at, (size_t)(line_end - at), ": ", 2) : NULL;
        weir_assert(colon && answer->headers_count < WEIR_ENVOY_HEADERS_MAX);
        answer->headers[answer->headers_count++] =
            (struct weir_envoy_header){ { at, (size_t)(colon - at) }, { colon + 2, (size_t)(line_end - colon) - 2 } };
        at = line_end + 2;
    }
}
