/* SPDX-License-Identifier: Apache-2.0
 *
 * A question and an answer of Envoy's rate limit service, envoy.service.ratelimit.v3 (data-plane-api of 2026-01),
 * however they are written: envoy_proto.h as protobuf, envoy_json.h as JSON.
 *
 * What it decides: whether a question is one. A domain and at least one descriptor, each with an entry, all texts UTF-8
 * and no key empty, as that service wants it. Stricter is: no entry is called `domain`, for that is an attribute
 * already, and an override has one of the units that there are.
 *
 * Thread rule: plain values. */
#pragma once

#include "weir/limiter.h"

#define WEIR_ENVOY_DESCRIPTORS_MAX 64 /* of one question */
#define WEIR_ENVOY_ENTRIES_MAX 63     /* of one descriptor: with the domain, as many as a request has attributes */
#define WEIR_ENVOY_ALL_MAX 512        /* entries of all descriptors */

/* The numbers are the service's. */
enum weir_envoy_unit {
    WEIR_ENVOY_UNIT_UNKNOWN,
    WEIR_ENVOY_SECOND,
    WEIR_ENVOY_MINUTE,
    WEIR_ENVOY_HOUR,
    WEIR_ENVOY_DAY,
    WEIR_ENVOY_MONTH,
    WEIR_ENVOY_YEAR,
    WEIR_ENVOY_WEEK,
    WEIR_ENVOY_UNITS
};

enum weir_envoy_code { WEIR_ENVOY_CODE_UNKNOWN, WEIR_ENVOY_OK, WEIR_ENVOY_OVER_LIMIT, WEIR_ENVOY_CODES };

const char *weir_envoy_unit_name(enum weir_envoy_unit unit); /* "MINUTE" */
const char *weir_envoy_code_name(enum weir_envoy_code code); /* "OVER_LIMIT" */
uint64_t weir_envoy_unit_ns(enum weir_envoy_unit unit);      /* 0 of UNKNOWN; a month has 30 days, a year 365 */

/* ---- the question ---- */

struct weir_envoy_entry {
    struct weir_slice key, value;
};

struct weir_envoy_descriptor {
    size_t first, count; /* of the question's entries */
    bool has_hits;       /* its own, which win over the question's; 0 only looks */
    uint64_t hits;
    bool negative; /* they are given back */
    bool has_limit;
    uint32_t limit_requests;
    uint32_t limit_unit; /* enum weir_envoy_unit, or any number */
};

/* Where the slices point is up to who reads it. */
struct weir_envoy_request {
    struct weir_slice domain;
    uint32_t hits; /* 0 is 1 */
    size_t count;
    struct weir_envoy_descriptor descriptors[WEIR_ENVOY_DESCRIPTORS_MAX];
    size_t entries_count;
    struct weir_envoy_entry entries[WEIR_ENVOY_ALL_MAX];
};

/* Units of a descriptor: never more than WEIR_COST_MAX, which is more than any limit admits. */
uint64_t weir_envoy_hits(const struct weir_envoy_request *request, size_t descriptor);

/* Room for one more, or NULL and the fault: WEIR_ELIMIT. Entries belong to the last descriptor. For readers. */
struct weir_envoy_descriptor *weir_envoy_add(struct weir_envoy_request *request, struct weir_fault *fault);
struct weir_envoy_entry *weir_envoy_add_entry(struct weir_envoy_request *request, struct weir_fault *fault);

/* Of a question that was read. WEIR_EINVAL with the fault. */
int weir_envoy_check(const struct weir_envoy_request *request, struct weir_fault *ret_fault);

/* ---- the answer ---- */

/* Of one descriptor. */
struct weir_envoy_status {
    enum weir_envoy_code code;
    const char *name; /* of the limit that decides; NULL: none applies */
    uint32_t requests_per_unit;
    enum weir_envoy_unit unit;
    uint32_t remaining;
    bool has_reset;
    uint64_t reset_ns;
};

#define WEIR_ENVOY_HEADERS_MAX 16

struct weir_envoy_header {
    struct weir_slice name, value;
};

struct weir_envoy_answer {
    enum weir_envoy_code code;
    size_t count;
    struct weir_envoy_status statuses[WEIR_ENVOY_DESCRIPTORS_MAX];
    size_t headers_count;
    struct weir_envoy_header headers[WEIR_ENVOY_HEADERS_MAX];
};

/* Header fields as weir_ratelimit_fields writes them, each with its CRLF, as headers of the answer, which point into
 * `text`. */
void weir_envoy_take_headers(struct weir_envoy_answer *answer, struct weir_slice text);

/* The unit in which so many of a period's requests are told; UNKNOWN: there is none, and the capacity is told. */
enum weir_envoy_unit weir_envoy_unit_of(uint64_t period_ns);
