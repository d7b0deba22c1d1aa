/* SPDX-License-Identifier: Apache-2.0
 *
 * The request is parsed by jansson (json.h), and its slices point into jansson's strings. The answer is written into a
 * buffer whose size weir_check_answer_max bounds. Called by serve/http_check.c and http_reply.c; header fields are
 * ratelimit.c. limits.c takes weir_told_sharing from here. */
#include "wire/check.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/checked.h"
#include "wire/json.h"

static int attribute_value(const json_t *value, const char *name, struct weir_check_attribute *attribute,
                           struct weir_fault *fault)
{
    switch (json_typeof(value)) {
    case JSON_STRING:
        attribute->value = (struct weir_slice){ json_string_value(value), json_string_length(value) };
        return 0;
    case JSON_INTEGER:
        snprintf(attribute->number, sizeof(attribute->number), "%" JSON_INTEGER_FORMAT, json_integer_value(value));
        break;
    case JSON_TRUE:
    case JSON_FALSE:
        snprintf(attribute->number, sizeof(attribute->number), "%s", json_is_true(value) ? "true" : "false");
        break;
    default:
        return weir_json_fail(fault, WEIR_EPROTO, name, "an attribute must be a string, an integer, true or false");
    }
    attribute->value = (struct weir_slice){ attribute->number, strlen(attribute->number) };
    return 0;
}

int weir_check_take_attributes(void *members, struct weir_check_request *request, struct weir_fault *fault)
{
    json_t *object = members;
    if (!json_is_object(object))
        return weir_json_fail(fault, WEIR_EPROTO, "attributes", "must be an object");
    if (json_object_size(object) > WEIR_CHECK_ATTRIBUTES_MAX)
        return weir_json_fail(fault, WEIR_ERANGE, "attributes", "must be at most %d", WEIR_CHECK_ATTRIBUTES_MAX);
    for (void *at = json_object_iter(object); at; at = json_object_iter_next(object, at)) {
        struct weir_check_attribute *attribute = &request->attributes[request->count];
        const char *name = json_object_iter_key(at);
        attribute->name = (struct weir_slice){ name, json_object_iter_key_len(at) };
        int error = attribute_value(json_object_iter_value(at), name, attribute, fault);
        if (error)
            return error;
        request->count++;
    }
    return 0;
}

static int read_cost(const json_t *value, struct weir_check_request *request, struct weir_fault *fault)
{
    if (!json_is_integer(value))
        return weir_json_fail(fault, WEIR_EPROTO, "cost", "must be an integer, 0 to %" PRId64, WEIR_COST_MAX);
    if (json_integer_value(value) < 0)
        return weir_json_fail(fault, WEIR_ERANGE, "cost", "must be 0 to %" PRId64, WEIR_COST_MAX);
    request->cost = (uint64_t)json_integer_value(value);
    return 0;
}

static int read_member(const char *name, json_t *value, struct weir_check_request *request, struct weir_fault *fault)
{
    if (strcmp(name, "attributes") == 0)
        return weir_check_take_attributes(value, request, fault);
    if (strcmp(name, "cost") == 0)
        return read_cost(value, request, fault);
    if (strcmp(name, "peek") != 0)
        return weir_json_fail(fault, WEIR_EPROTO, name, "unknown member; known are attributes, cost and peek");
    if (!json_is_boolean(value))
        return weir_json_fail(fault, WEIR_EPROTO, "peek", "must be true or false");
    request->peek = json_is_true(value);
    return 0;
}

int weir_check_parse(const void *data, size_t size, struct weir_check_request *ret_request,
                     struct weir_fault *ret_fault)
{
    int error = 0;
    json_t *json = weir_json_parse(data, size, &error, ret_fault);
    if (!json)
        return error;
    ret_request->json = json;
    ret_request->count = 0;
    ret_request->cost = 1;
    ret_request->peek = false;
    if (!json_is_object(json))
        error = weir_json_fail(ret_fault, WEIR_EPROTO, "body", "must be an object");
    for (void *at = json_object_iter(json); at && !error; at = json_object_iter_next(json, at))
        error = read_member(json_object_iter_key(at), json_object_iter_value(at), ret_request, ret_fault);
    if (error)
        weir_check_deinit(ret_request);
    return error;
}

void weir_check_deinit(struct weir_check_request *request)
{
    json_decref(request->json);
    request->json = NULL;
}

static void milliseconds(struct weir_text *text, const char *member, uint64_t ns)
{
    weir_text_str(text, member);
    if (ns == WEIR_NEVER)
        weir_text_lit(text, "-1");
    else
        weir_text_u64(text, weir_div_ceil(ns, 1000000));
}

void weir_told_sharing(struct weir_text *text, const struct weir_told_sharing *sharing, uint64_t overshoot_added)
{
    weir_text_member(text, ",\"sharing\":", sharing->mode);
    weir_text_member_u64(text, ",\"nodes\":", sharing->nodes);
    if (sharing->shares) {
        weir_text_member_u64(text, ",\"share\":", sharing->share);
    }
    weir_text_member_u64(text, ",\"slack\":", sharing->slack);
    weir_text_lit(text, ",\"overshoot_max\":");
    if (overshoot_added == WEIR_NEVER)
        weir_text_lit(text, "null");
    else
        weir_text_u64(text, weir_add_sat(sharing->overshoot_max, overshoot_added));
    if (sharing->revision == 0)
        return;
    weir_text_member_u64(text, ",\"revision\":", sharing->revision);
    weir_text_member(text, ",\"revision_of\":", sharing->revision_node);
}

size_t weir_told_sharing_max(const struct weir_told_sharing *sharing)
{
    size_t node = sharing->revision_node ? strlen(sharing->revision_node) : 0;
    return 6 * (strlen(sharing->mode) + node) + 192;
}

static void answer_limit(struct weir_text *text, const struct weir_told *told)
{
    const struct weir_verdict *verdict = told->verdict;
    weir_text_member(text, "{\"limit\":", told->name);
    if (told->level)
        weir_text_member(text, ",\"level\":", told->level);
    weir_text_member_bool(text, ",\"admitted\":", verdict->admitted);
    weir_text_member_bool(text, ",\"shadow\":", verdict->shadow);
    if (verdict->full)
        weir_text_lit(text, ",\"full\":true");
    weir_text_member_u64(text, ",\"capacity\":", verdict->capacity);
    weir_text_member_u64(text, ",\"remaining\":", verdict->remaining);
    milliseconds(text, ",\"retry_after_ms\":", verdict->retry_after_ns);
    milliseconds(text, ",\"reset_after_ms\":", verdict->reset_after_ns);
    milliseconds(text, ",\"delay_ms\":", verdict->delay_ns);
    if (told->sharing)
        weir_told_sharing(text, told->sharing, told->overshoot_added);
    if (told->fallback) {
        weir_text_member(text, ",\"fallback\":", told->fallback);
    }
    weir_text_lit(text, "}");
}

void weir_check_answer(struct weir_text *text, const struct weir_answer *answer)
{
    const struct weir_decision *decision = answer->decision;
    weir_text_lit(text, "{");
    if (!decision->admitted) {
        weir_ratelimit_problem(text, answer);
        weir_text_lit(text, ",");
    }
    weir_text_member_bool(text, "\"admitted\":", decision->admitted);
    uint64_t reset_after_ns = 0;
    if (decision->deciding < answer->count) {
        const struct weir_told *deciding = &answer->limits[decision->deciding];
        reset_after_ns = deciding->verdict->reset_after_ns;
        weir_text_member(text, ",\"limit\":", deciding->name);
        weir_text_member_u64(text, ",\"remaining\":", deciding->verdict->remaining);
    } else {
        weir_text_lit(text, ",\"limit\":null,\"remaining\":null");
    }
    milliseconds(text, ",\"retry_after_ms\":", decision->admitted ? 0 : decision->retry_after_ns);
    milliseconds(text, ",\"reset_after_ms\":", reset_after_ns);
    milliseconds(text, ",\"delay_ms\":", decision->delay_ns);
    if (answer->permit.size) {
        weir_text_lit(text, ",\"permit\":");
        weir_text_json(text, answer->permit.data, answer->permit.size);
        weir_text_member_u64(text, ",\"lease_ms\":", answer->lease_ns / 1000000);
    }
    weir_text_lit(text, ",\"limits\":[");
    for (size_t i = 0; i < answer->count; i++) {
        if (i)
            weir_text_lit(text, ",");
        answer_limit(text, &answer->limits[i]);
    }
    weir_text_lit(text, "]}");
}

size_t weir_check_answer_max(const struct weir_answer *answer)
{
    size_t max = 672 + 6 * answer->permit.size, longest = 0;
    max += answer->missing ? 6 * strlen(answer->missing) + 16 : 0;
    for (size_t i = 0; i < answer->count; i++) {
        size_t name = strlen(answer->limits[i].name);
        longest = name > longest ? name : longest;
        max += 12 * name + 288; /* in limits and in violated-policies */
        max += answer->limits[i].level ? 12 + 6 * strlen(answer->limits[i].level) : 0;
        max += answer->limits[i].sharing ? weir_told_sharing_max(answer->limits[i].sharing) : 0;
        max += answer->limits[i].fallback ? 6 * strlen(answer->limits[i].fallback) + 16 : 0;
    }
    return max + 6 * longest;
}
