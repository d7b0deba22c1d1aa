/* SPDX-License-Identifier: Apache-2.0
 *
 * By jansson (json.h). Each object has a table of its members. Called by serve/http_envoy.c. */
#include "wire/envoy_json.h"

#include "wire/json.h"

struct reader {
    struct weir_envoy_request *request;
    struct weir_envoy_descriptor *descriptor; /* the last one */
    struct weir_envoy_entry *entry;
    struct weir_fault *fault;
};

struct member {
    const char *name, *other; /* camelCase and snake_case */
    int (*read)(struct reader *reader, const char *name, json_t *value);
};

static int wrong(const struct reader *reader, const char *name, const char *what)
{
    return weir_json_fail(reader->fault, WEIR_EPROTO, name, "must be %s", what);
}

static int read_object(struct reader *reader, const char *name, json_t *object, const struct member *members)
{
    if (!json_is_object(object))
        return wrong(reader, name, "an object");
    for (void *at = json_object_iter(object); at; at = json_object_iter_next(object, at)) {
        const char *key = json_object_iter_key(at);
        const struct member *member = members;
        while (member->name && strcmp(member->name, key) != 0 && strcmp(member->other, key) != 0)
            member++;
        if (!member->name)
            return weir_json_fail(reader->fault, WEIR_EPROTO, key, "unknown member of %s", name);
        json_t *value = json_object_iter_value(at);
        int error = json_is_null(value) ? 0 : member->read(reader, key, value); /* null: it is absent */
        if (error)
            return error;
    }
    return 0;
}

static int read_list(struct reader *reader, const char *name, json_t *list,
                     int (*read)(struct reader *reader, const char *name, json_t *value))
{
    int error = json_is_array(list) ? 0 : wrong(reader, name, "a list");
    for (size_t i = 0; !error && i < json_array_size(list); i++)
        error = read(reader, name, json_array_get(list, i));
    return error;
}

static int read_text(const struct reader *reader, const char *name, const json_t *value, struct weir_slice *ret_text)
{
    if (!json_is_string(value))
        return wrong(reader, name, "a string");
    *ret_text = (struct weir_slice){ json_string_value(value), json_string_length(value) };
    return 0;
}

/* A number of 64 bits is a string in JSON, and any may be one. */
static int read_number(const struct reader *reader, const char *name, const json_t *value, uint64_t max,
                       uint64_t *ret_number)
{
    uint64_t number = 0;
    if (json_is_string(value)) {
        const char *text = json_string_value(value), *end = text;
        for (; *end >= '0' && *end <= '9' && end - text < 20; end++) {
            if (number > (UINT64_MAX - (uint64_t)(*end - '0')) / 10)
                return wrong(reader, name, "a smaller number");
            number = number * 10 + (uint64_t)(*end - '0');
        }
        if (end == text || (size_t)(end - text) != json_string_length(value))
            return wrong(reader, name, "a number");
    } else if (json_is_integer(value) && json_integer_value(value) >= 0) {
        number = (uint64_t)json_integer_value(value);
    } else {
        return wrong(reader, name, "a number, 0 or more");
    }
    if (number > max)
        return wrong(reader, name, "a smaller number");
    *ret_number = number;
    return 0;
}

static int read_u32(const struct reader *reader, const char *name, const json_t *value, uint32_t *ret_number)
{
    uint64_t number = 0;
    int error = read_number(reader, name, value, UINT32_MAX, &number);
    *ret_number = (uint32_t)number;
    return error;
}

/* ---- members ---- */

static int entry_key(struct reader *reader, const char *name, json_t *value)
{
    return read_text(reader, name, value, &reader->entry->key);
}

static int entry_value(struct reader *reader, const char *name, json_t *value)
{
    return read_text(reader, name, value, &reader->entry->value);
}

static int read_entry(struct reader *reader, const char *name, json_t *value)
{
    static const struct member members[] = { { "key", "key", entry_key }, { "value", "value", entry_value }, { 0 } };
    reader->entry = weir_envoy_add_entry(reader->request, reader->fault);
    if (!reader->entry)
        return WEIR_ELIMIT;
    *reader->entry = (struct weir_envoy_entry){ { "", 0 }, { "", 0 } };
    return read_object(reader, name, value, members);
}

static int descriptor_entries(struct reader *reader, const char *name, json_t *value)
{
    return read_list(reader, name, value, read_entry);
}

static int limit_requests(struct reader *reader, const char *name, json_t *value)
{
    return read_u32(reader, name, value, &reader->descriptor->limit_requests);
}

static int limit_unit(struct reader *reader, const char *name, json_t *value)
{
    const char *text = json_string_value(value);
    if (!text)
        return read_u32(reader, name, value, &reader->descriptor->limit_unit);
    for (unsigned i = 0; i < WEIR_ENVOY_UNITS; i++) {
        if (strcmp(text, weir_envoy_unit_name((enum weir_envoy_unit)i)) == 0) {
            reader->descriptor->limit_unit = i;
            return 0;
        }
    }
    return wrong(reader, name, "SECOND, MINUTE, HOUR, DAY, WEEK, MONTH or YEAR");
}

static int descriptor_limit(struct reader *reader, const char *name, json_t *value)
{
    static const struct member members[] = { { "requestsPerUnit", "requests_per_unit", limit_requests },
                                             { "unit", "unit", limit_unit },
                                             { 0 } };
    reader->descriptor->has_limit = true;
    return read_object(reader, name, value, members);
}

static int descriptor_hits(struct reader *reader, const char *name, json_t *value)
{
    reader->descriptor->has_hits = true;
    return read_number(reader, name, value, UINT64_MAX, &reader->descriptor->hits);
}

static int descriptor_negative(struct reader *reader, const char *name, json_t *value)
{
    reader->descriptor->negative = json_is_true(value);
    return json_is_boolean(value) ? 0 : wrong(reader, name, "true or false");
}

static int read_descriptor(struct reader *reader, const char *name, json_t *value)
{
    static const struct member members[] = { { "entries", "entries", descriptor_entries },
                                             { "limit", "limit", descriptor_limit },
                                             { "hitsAddend", "hits_addend", descriptor_hits },
                                             { "isNegativeHits", "is_negative_hits", descriptor_negative },
                                             { 0 } };
    reader->descriptor = weir_envoy_add(reader->request, reader->fault);
    return reader->descriptor ? read_object(reader, name, value, members) : WEIR_ELIMIT;
}

static int question_domain(struct reader *reader, const char *name, json_t *value)
{
    return read_text(reader, name, value, &reader->request->domain);
}

static int question_descriptors(struct reader *reader, const char *name, json_t *value)
{
    return read_list(reader, name, value, read_descriptor);
}

static int question_hits(struct reader *reader, const char *name, json_t *value)
{
    return read_u32(reader, name, value, &reader->request->hits);
}

int weir_envoy_json_read(const void *data, size_t size, void **ret_json, struct weir_envoy_request *ret_request,
                         struct weir_fault *ret_fault)
{
    static const struct member members[] = { { "domain", "domain", question_domain },
                                             { "descriptors", "descriptors", question_descriptors },
                                             { "hitsAddend", "hits_addend", question_hits },
                                             { 0 } };
    struct reader reader = { .request = ret_request, .fault = ret_fault };
    int error = 0;
    json_t *json = weir_json_parse(data, size, &error, ret_fault);
    if (!json)
        return error;
    ret_request->domain = (struct weir_slice){ "", 0 };
    ret_request->hits = 0;
    ret_request->count = ret_request->entries_count = 0;
    error = read_object(&reader, "body", json, members);
    if (!error)
        error = weir_envoy_check(ret_request, ret_fault);
    if (error)
        json_decref(json);
    else
        *ret_json = json;
    return error;
}

void weir_envoy_json_free(void *json)
{
    json_decref(json);
}

/* ---- the answer ---- */

/* "1.500s", with as many digits as say something: none, or nine. */
static void write_duration(struct weir_text *text, uint64_t ns)
{
    uint64_t part = ns % WEIR_NS_PER_SECOND;
    weir_text_lit(text, "\"");
    weir_text_u64(text, ns / WEIR_NS_PER_SECOND);
    if (part > 0) {
        char digits[10] = ".000000000";
        for (size_t i = sizeof(digits); i-- > 1; part /= 10)
            digits[i] = (char)('0' + part % 10);
        weir_text_bytes(text, digits, sizeof(digits));
    }
    weir_text_lit(text, "s\"");
}

/* What is 0, or absent, is left out, as protobuf has it. */
static void write_status(struct weir_text *text, const struct weir_envoy_status *status)
{
    weir_text_lit(text, "{\"code\":\"");
    weir_text_str(text, weir_envoy_code_name(status->code));
    weir_text_lit(text, "\"");
    if (status->name) {
        weir_text_member(text, ",\"currentLimit\":{\"name\":", status->name);
        if (status->requests_per_unit > 0)
            weir_text_member_u64(text, ",\"requestsPerUnit\":", status->requests_per_unit);
        if (status->unit != WEIR_ENVOY_UNIT_UNKNOWN)
            weir_text_member(text, ",\"unit\":", weir_envoy_unit_name(status->unit));
        weir_text_lit(text, "}");
    }
    if (status->remaining > 0)
        weir_text_member_u64(text, ",\"limitRemaining\":", status->remaining);
    if (status->has_reset) {
        weir_text_lit(text, ",\"durationUntilReset\":");
        write_duration(text, status->reset_ns);
    }
    weir_text_lit(text, "}");
}

static void write_headers(struct weir_text *text, const struct weir_envoy_answer *answer)
{
    weir_text_lit(text, ",\"responseHeadersToAdd\":[");
    for (size_t i = 0; i < answer->headers_count; i++) {
        weir_text_str(text, i > 0 ? ",{\"key\":" : "{\"key\":");
        weir_text_json(text, answer->headers[i].name.data, answer->headers[i].name.size);
        weir_text_lit(text, ",\"value\":");
        weir_text_json(text, answer->headers[i].value.data, answer->headers[i].value.size);
        weir_text_lit(text, "}");
    }
    weir_text_lit(text, "]");
}

void weir_envoy_json_write(struct weir_text *text, const struct weir_envoy_answer *answer)
{
    weir_text_member(text, "{\"overallCode\":", weir_envoy_code_name(answer->code));
    weir_text_lit(text, ",\"statuses\":[");
    for (size_t i = 0; i < answer->count; i++) {
        if (i > 0)
            weir_text_lit(text, ",");
        write_status(text, &answer->statuses[i]);
    }
    weir_text_lit(text, "]");
    if (answer->headers_count > 0)
        write_headers(text, answer);
    weir_text_lit(text, "}");
}

size_t weir_envoy_json_max(const struct weir_envoy_answer *answer)
{
    size_t max = 128;
    for (size_t i = 0; i < answer->count; i++)
        max += 256 + weir_text_json_max(answer->statuses[i].name);
    for (size_t i = 0; i < answer->headers_count; i++)
        max += 32 + 6 * (answer->headers[i].name.size + answer->headers[i].value.size) + 4;
    return max;
}
