/* SPDX-License-Identifier: Apache-2.0
 *
 * A message inside another one stands behind its length, which is known when it has been written: it is written
 * without, and then moved by the few bytes that the length takes. The two around all spans are moved once, by
 * weir_otlp_end. What no longer fits sets `full`, and weir_otlp_add takes it back. Called by observe/trace.c. */
#include "wire/otlp.h"

#include <string.h>

#include "base/assert.h"

/* ---- protobuf ---- */

enum { VARINT = 0, FIXED64 = 1, BYTES = 2, FIXED32 = 5 }; /* wire types */
#define VARINT_MAX 10
#define ENDING_MAX (2 * VARINT_MAX) /* what weir_otlp_end writes */

static void put(struct weir_otlp *otlp, const void *data, size_t size)
{
    otlp->full = otlp->full || size > otlp->room - otlp->size;
    if (otlp->full)
        return;
    memcpy(otlp->data + otlp->size, data, size);
    otlp->size += size;
}

static size_t varint(uint64_t value, uint8_t ret_bytes[VARINT_MAX])
{
    size_t size = 0;
    for (; value >= 0x80; value >>= 7)
        ret_bytes[size++] = (uint8_t)(value | 0x80);
    ret_bytes[size++] = (uint8_t)value;
    return size;
}

static void put_varint(struct weir_otlp *otlp, uint64_t value)
{
    uint8_t bytes[VARINT_MAX];
    put(otlp, bytes, varint(value, bytes));
}

static void put_tag(struct weir_otlp *otlp, unsigned field, unsigned type)
{
    put_varint(otlp, field << 3 | type);
}

static void put_number(struct weir_otlp *otlp, unsigned field, uint64_t value)
{
    put_tag(otlp, field, VARINT);
    put_varint(otlp, value);
}

static void put_fixed(struct weir_otlp *otlp, unsigned field, unsigned type, uint64_t value)
{
    uint8_t bytes[8];
    for (size_t i = 0; i < sizeof(bytes); i++)
        bytes[i] = (uint8_t)(value >> 8 * i);
    put_tag(otlp, field, type);
    put(otlp, bytes, type == FIXED64 ? 8 : 4);
}

static void put_bytes(struct weir_otlp *otlp, unsigned field, const void *data, size_t size)
{
    put_tag(otlp, field, BYTES);
    put_varint(otlp, size);
    put(otlp, data, size);
}

static void put_text(struct weir_otlp *otlp, unsigned field, const char *text)
{
    put_bytes(otlp, field, text, strlen(text));
}

/* A message: open it, write what it holds, close it. */
static size_t open_message(struct weir_otlp *otlp, unsigned field)
{
    put_tag(otlp, field, BYTES);
    return otlp->size;
}

static void close_message(struct weir_otlp *otlp, size_t at)
{
    uint8_t bytes[VARINT_MAX];
    size_t size = otlp->size - at, length = varint(size, bytes);
    otlp->full = otlp->full || length > otlp->room - otlp->size;
    if (otlp->full)
        return;
    memmove(otlp->data + at + length, otlp->data + at, size);
    memcpy(otlp->data + at, bytes, length);
    otlp->size += length;
}

/* ---- the messages: field numbers as in opentelemetry-proto ---- */

/* KeyValue { key = 1; AnyValue value = 2 { string_value = 1; bool_value = 2; int_value = 3 } } */
static void put_attributes(struct weir_otlp *otlp, unsigned field, const struct weir_otlp_attribute *attributes,
                           size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const struct weir_otlp_attribute *attribute = &attributes[i];
        if (attribute->kind == WEIR_OTLP_NONE)
            continue;
        size_t at = open_message(otlp, field);
        put_text(otlp, 1, attribute->name);
        size_t value_at = open_message(otlp, 2);
        if (attribute->kind == WEIR_OTLP_TEXT)
            put_text(otlp, 1, attribute->text);
        else
            put_number(otlp, attribute->kind == WEIR_OTLP_TRUTH ? 2 : 3, (uint64_t)attribute->number);
        close_message(otlp, value_at);
        close_message(otlp, at);
    }
}

bool weir_otlp_begin(struct weir_otlp *otlp, void *data, size_t room, const struct weir_otlp_attribute *resource,
                     size_t count, const char *scope, const char *version)
{
    *otlp = (struct weir_otlp){ .data = data, .room = room > ENDING_MAX ? room - ENDING_MAX : 0 };
    otlp->resource_at = open_message(otlp, 1); /* ExportTraceServiceRequest.resource_spans */
    size_t at = open_message(otlp, 1);         /* ResourceSpans.resource */
    put_attributes(otlp, 1, resource, count);
    close_message(otlp, at);
    otlp->scope_at = open_message(otlp, 2); /* ResourceSpans.scope_spans */
    at = open_message(otlp, 1);             /* ScopeSpans.scope */
    put_text(otlp, 1, scope);
    put_text(otlp, 2, version);
    close_message(otlp, at);
    return !otlp->full;
}

#define KIND_SERVER 2
#define STATUS_ERROR 2
#define FLAG_HAS_IS_REMOTE 0x100
#define FLAG_IS_REMOTE 0x200

bool weir_otlp_add(struct weir_otlp *otlp, const struct weir_otlp_span *span)
{
    weir_assert(otlp->resource_at > 0 && !otlp->full);
    const size_t before = otlp->size;
    const uint32_t remote = span->parent_id ? FLAG_HAS_IS_REMOTE | FLAG_IS_REMOTE : FLAG_HAS_IS_REMOTE;
    size_t at = open_message(otlp, 2); /* ScopeSpans.spans */
    put_bytes(otlp, 1, span->trace_id, WEIR_TRACE_ID_SIZE);
    put_bytes(otlp, 2, span->span_id, WEIR_SPAN_ID_SIZE);
    if (span->parent_id)
        put_bytes(otlp, 4, span->parent_id, WEIR_SPAN_ID_SIZE);
    put_text(otlp, 5, span->name);
    put_number(otlp, 6, KIND_SERVER);
    put_fixed(otlp, 7, FIXED64, span->start_wall_ns);
    put_fixed(otlp, 8, FIXED64, span->end_wall_ns);
    put_attributes(otlp, 9, span->attributes, span->count);
    if (span->failed) {
        size_t status_at = open_message(otlp, 15);
        put_number(otlp, 3, STATUS_ERROR);
        close_message(otlp, status_at);
    }
    put_fixed(otlp, 16, FIXED32, span->flags | remote);
    close_message(otlp, at);
    if (!otlp->full)
        return true;
    otlp->size = before;
    otlp->full = false;
    return false;
}

size_t weir_otlp_end(struct weir_otlp *otlp)
{
    otlp->room += ENDING_MAX;
    close_message(otlp, otlp->scope_at);
    close_message(otlp, otlp->resource_at);
    weir_assert(!otlp->full);
    otlp->resource_at = 0;
    return otlp->size;
}

/* ---- the answer ---- */

struct reading {
    const uint8_t *at, *end;
};

static bool read_varint(struct reading *reading, uint64_t *ret_value)
{
    uint64_t value = 0;
    for (unsigned shift = 0; shift < 64 && reading->at < reading->end; shift += 7) {
        uint8_t byte = *reading->at++;
        value |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80) {
            *ret_value = value;
            return true;
        }
    }
    return false;
}

static bool skip(struct reading *reading, uint64_t size)
{
    if (size > (uint64_t)(reading->end - reading->at))
        return false;
    reading->at += size;
    return true;
}

/* The next field: its number and type, and its value, which of BYTES is a length and stands before them. */
static bool read_field(struct reading *reading, uint64_t *ret_field, unsigned *ret_type, uint64_t *ret_value)
{
    uint64_t tag;
    *ret_value = 0;
    if (!read_varint(reading, &tag))
        return false;
    *ret_field = tag >> 3;
    *ret_type = tag & 7;
    switch (*ret_type) {
    case VARINT:
    case BYTES:
        return read_varint(reading, ret_value);
    case FIXED64:
        return skip(reading, 8);
    case FIXED32:
        return skip(reading, 4);
    default: /* groups, which nobody writes */
        return false;
    }
}

/* ExportTracePartialSuccess { int64 rejected_spans = 1; string error_message = 2 } */
static bool read_partial(struct reading reading, uint64_t *ret_rejected)
{
    uint64_t field, value;
    unsigned type;
    while (reading.at < reading.end) {
        if (!read_field(&reading, &field, &type, &value) || (type == BYTES && !skip(&reading, value)))
            return false;
        if (field == 1 && type == VARINT)
            *ret_rejected = value <= INT64_MAX ? value : 0;
    }
    return true;
}

bool weir_otlp_answer_read(const void *data, size_t size, uint64_t *ret_rejected)
{
    const uint8_t *bytes = data;
    struct reading reading = { bytes, bytes + size };
    uint64_t field, value, rejected = 0;
    unsigned type;
    while (reading.at < reading.end) {
        if (!read_field(&reading, &field, &type, &value))
            return false;
        const struct reading inside = { reading.at, reading.end };
        if (type == BYTES && !skip(&reading, value))
            return false;
        if (field == 1 && type == BYTES && !read_partial((struct reading){ inside.at, reading.at }, &rejected))
            return false;
    }
    *ret_rejected = rejected;
    return true;
}
