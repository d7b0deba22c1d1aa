/* SPDX-License-Identifier: Apache-2.0
 *
 * Each field that lists limits is written by one walk over those that are not in shadow. Waits are rounded up to whole
 * seconds; Retry-After is at least 1. Called by serve/http_reply.c and http_check.c, and by check.c for a problem's
 * members. */
#include "wire/ratelimit.h"

#include "base/checked.h"

static uint64_t seconds_up(uint64_t ns)
{
    return weir_div_ceil(ns, WEIR_NS_PER_SECOND);
}

static void integer(struct weir_text *text, uint64_t value)
{
    weir_text_u64(text, weir_min_u64(value, WEIR_SF_INTEGER_MAX));
}

static bool refuses(const struct weir_told *told)
{
    return !told->verdict->admitted && !told->verdict->shadow;
}

/* q, and w: the time in which the quota is used up at the limit's own rate, at least a second (it must be positive). */
static void policy(struct weir_text *text, const struct weir_told *told)
{
    weir_text_sf_string(text, told->name);
    weir_text_lit(text, ";q=");
    integer(text, told->verdict->capacity);
    if (told->spec->algorithm == WEIR_CONCURRENCY)
        weir_text_lit(text, ";qu=\"concurrent-requests\"");
    if (told->spec->count == 0 || told->spec->algorithm == WEIR_CONCURRENCY)
        return;
    uint64_t window_ns = weir_mul_div_ceil(told->verdict->capacity, told->spec->period_ns, told->spec->count);
    weir_text_lit(text, ";w=");
    integer(text, weir_max_u64(seconds_up(window_ns), 1));
}

/* r, and t: the seconds in which no more than r can be used. */
static void quota(struct weir_text *text, const struct weir_told *told)
{
    weir_text_sf_string(text, told->name);
    weir_text_lit(text, ";r=");
    integer(text, told->verdict->remaining);
    if (told->verdict->next_after_ns == 0)
        return;
    weir_text_lit(text, ";t=");
    integer(text, seconds_up(told->verdict->next_after_ns));
}

static void list(struct weir_text *text, const char *field, const struct weir_answer *answer,
                 void (*item)(struct weir_text *, const struct weir_told *))
{
    const char *before = field;
    for (size_t i = 0; i < answer->count; i++) {
        if (answer->limits[i].verdict->shadow)
            continue;
        weir_text_str(text, before);
        item(text, &answer->limits[i]);
        before = ", ";
    }
    if (before != field)
        weir_text_lit(text, "\r\n");
}

static void legacy(struct weir_text *text, const struct weir_verdict *verdict)
{
    weir_text_lit(text, "X-RateLimit-Limit: ");
    weir_text_u64(text, verdict->capacity);
    weir_text_lit(text, "\r\nX-RateLimit-Remaining: ");
    weir_text_u64(text, verdict->remaining);
    weir_text_lit(text, "\r\nX-RateLimit-Reset: ");
    weir_text_u64(text, seconds_up(verdict->reset_after_ns));
    weir_text_lit(text, "\r\n");
}

void weir_ratelimit_fields(struct weir_text *text, const struct weir_answer *answer,
                           const struct weir_ratelimit_options *options)
{
    if (options->standard) {
        list(text, "RateLimit-Policy: ", answer, policy);
        list(text, "RateLimit: ", answer, quota);
    }
    if (options->legacy && answer->decision->deciding < answer->count)
        legacy(text, answer->limits[answer->decision->deciding].verdict);
    uint64_t retry_after_s = weir_ratelimit_retry_after_s(answer);
    if (retry_after_s) {
        weir_text_lit(text, "Retry-After: ");
        weir_text_u64(text, retry_after_s);
        weir_text_lit(text, "\r\n");
    }
    if (answer->count == 0)
        weir_text_lit(text, "Weir-Limits: none\r\n");
    if (answer->missing) {
        weir_text_lit(text, "Weir-Missing: ");
        weir_text_sf_string(text, answer->missing);
        weir_text_lit(text, "\r\n");
    }
    if (answer->banned)
        weir_text_lit(text, "Weir-Banned: ?1\r\n");
    if (answer->permit.size) {
        weir_text_lit(text, "Weir-Permit: ");
        weir_text_slice(text, answer->permit);
        weir_text_lit(text, "\r\nWeir-Lease: ");
        weir_text_u64(text, answer->lease_ns / WEIR_NS_PER_SECOND);
        weir_text_lit(text, "\r\n");
    }
}

size_t weir_ratelimit_fields_max(const struct weir_answer *answer)
{
    size_t max = 384 + answer->permit.size; /* the names of the fields, X-RateLimit-*, Retry-After, the permit */
    max += answer->missing ? 3 * strlen(answer->missing) : 0;
    for (size_t i = 0; i < answer->count; i++)
        max += 2 * (3 * strlen(answer->limits[i].name) + 64);
    return max;
}

uint64_t weir_ratelimit_retry_after_s(const struct weir_answer *answer)
{
    const struct weir_decision *decision = answer->decision;
    if (decision->admitted || decision->retry_after_ns == WEIR_NEVER)
        return 0;
    uint64_t ns = decision->retry_after_ns;
    for (size_t i = 0; i < answer->count; i++) {
        if (refuses(&answer->limits[i]))
            ns = weir_max_u64(ns, answer->limits[i].verdict->next_after_ns);
    }
    return weir_max_u64(seconds_up(ns), 1);
}

bool weir_ratelimit_failed(const struct weir_answer *answer)
{
    size_t deciding = answer->decision->deciding;
    return !answer->decision->admitted && deciding < answer->count && answer->limits[deciding].fallback &&
           strcmp(answer->limits[deciding].fallback, "closed") == 0;
}

bool weir_ratelimit_barred(const struct weir_answer *answer)
{
    return !answer->decision->admitted && (answer->count == 0 || answer->missing ||
                                           (answer->banned && answer->decision->retry_after_ns == WEIR_NEVER));
}

/* Without the name of the limit's key, and whose it is: that is the operator's. */
static void banned_detail(struct weir_text *text)
{
    weir_text_lit(text, "\"this key is banned\",\"banned\":true");
}

static void barred_problem(struct weir_text *text, const struct weir_answer *answer)
{
    weir_text_lit(text, "\"type\":\"about:blank\",\"title\":\"Too Many Requests\",\"status\":429,\"detail\":");
    if (answer->banned) {
        banned_detail(text);
    } else if (answer->missing) {
        weir_text_lit(text, "\"the request lacks an attribute that its limit counts by\",\"missing\":");
        weir_text_json(text, answer->missing, strlen(answer->missing));
    } else {
        weir_text_lit(text, "\"no limit matches this request, and unmatched requests are refused\"");
        return;
    }
    weir_text_lit(text, ",\"violated-policies\":[");
    weir_text_json(text, answer->limits[0].name, strlen(answer->limits[0].name));
    weir_text_lit(text, "]");
}

static void never_detail(struct weir_text *text, const struct weir_answer *answer)
{
    if (answer->decision->retry_after_ns == WEIR_NEVER)
        weir_text_lit(text,
                      ",\"detail\":\"the request costs more than a limit can ever admit at once: no wait helps\"");
}

void weir_ratelimit_problem(struct weir_text *text, const struct weir_answer *answer)
{
    if (weir_ratelimit_barred(answer) || answer->banned) {
        barred_problem(text, answer);
        return;
    }
    if (weir_ratelimit_failed(answer)) {
        weir_text_lit(text, "\"type\":\"https://iana.org/assignments/http-problem-types#temporary-reduced-capacity\","
                            "\"title\":\"The limits cannot be decided now\",\"status\":503");
        never_detail(text, answer);
        return;
    }
    weir_text_lit(text, "\"type\":\"https://iana.org/assignments/http-problem-types#quota-exceeded\","
                        "\"title\":\"Too many requests\",\"status\":429");
    never_detail(text, answer);
    weir_text_lit(text, ",\"violated-policies\":[");
    const char *before = "";
    for (size_t i = 0; i < answer->count; i++) {
        if (!refuses(&answer->limits[i]))
            continue;
        weir_text_str(text, before);
        weir_text_json(text, answer->limits[i].name, strlen(answer->limits[i].name));
        before = ",";
    }
    weir_text_lit(text, "]");
}
