/* SPDX-License-Identifier: Apache-2.0
 *
 * By protobuf-c, in memory of the caller's. Called by serve/grpc_envoy.c through the table of grpc_library.c. */
#include "wire/envoy_proto.h"

#include <string.h>

#include "base/checked.h"
#include "base/fault_format.h"
#include "wire/grpc_arena.h"
#include "wire/grpc_messages.pb-c.h"

typedef Envoy__Service__Ratelimit__V3__RateLimitRequest question;
typedef Envoy__Service__Ratelimit__V3__RateLimitResponse response;
typedef Envoy__Extensions__Common__Ratelimit__V3__RateLimitDescriptor descriptor;

static struct weir_slice slice_of(ProtobufCBinaryData bytes)
{
    return (struct weir_slice){ bytes.len > 0 ? (const void *)bytes.data : "", bytes.len };
}

static ProtobufCBinaryData bytes_of(struct weir_slice slice)
{
    return (ProtobufCBinaryData){ .len = slice.size, .data = (uint8_t *)(uintptr_t)slice.data };
}

static int take_descriptor(const descriptor *from, struct weir_envoy_request *request, struct weir_fault *fault)
{
    struct weir_envoy_descriptor *one = weir_envoy_add(request, fault);
    if (!one)
        return WEIR_ELIMIT;
    one->has_hits = from->hits_addend != NULL;
    one->hits = from->hits_addend ? from->hits_addend->value : 0;
    one->negative = from->is_negative_hits;
    one->has_limit = from->limit != NULL;
    one->limit_requests = from->limit ? from->limit->requests_per_unit : 0;
    one->limit_unit = from->limit ? (uint32_t)from->limit->unit : 0;
    for (size_t i = 0; i < from->n_entries; i++) {
        struct weir_envoy_entry *entry = weir_envoy_add_entry(request, fault);
        if (!entry)
            return WEIR_ELIMIT;
        entry->key = slice_of(from->entries[i]->key);
        entry->value = slice_of(from->entries[i]->value);
    }
    return 0;
}

int weir_envoy_read(const uint8_t *data, size_t size, void *block, struct weir_envoy_request *ret_request,
                    struct weir_fault *ret_fault)
{
    struct weir_grpc_arena arena;
    weir_grpc_arena_init(&arena, block, WEIR_ENVOY_BLOCK_SIZE);
    const question *read = envoy__service__ratelimit__v3__rate_limit_request__unpack(&arena.allocator, size, data);
    if (!read && arena.full)
        return weir_fault_format(ret_fault, WEIR_ELIMIT, "RateLimitRequest", "has too many parts");
    if (!read)
        return weir_fault_format(ret_fault, WEIR_EPROTO, "RateLimitRequest", "cannot be read");
    ret_request->domain = slice_of(read->domain);
    ret_request->hits = read->hits_addend;
    ret_request->count = ret_request->entries_count = 0;
    int error = 0;
    for (size_t i = 0; i < read->n_descriptors && !error; i++)
        error = take_descriptor(read->descriptors[i], ret_request, ret_fault);
    return error ? error : weir_envoy_check(ret_request, ret_fault);
}

/* ---- the answer ---- */

/* One status and what hangs on it. */
struct told {
    Envoy__Service__Ratelimit__V3__RateLimitResponse__DescriptorStatus status;
    Envoy__Service__Ratelimit__V3__RateLimitResponse__RateLimit limit;
    Google__Protobuf__Duration reset;
};

static void tell(struct told *told, const struct weir_envoy_status *status)
{
    envoy__service__ratelimit__v3__rate_limit_response__descriptor_status__init(&told->status);
    told->status.code = (Envoy__Service__Ratelimit__V3__RateLimitResponse__Code)status->code;
    told->status.limit_remaining = status->remaining;
    if (status->name) {
        envoy__service__ratelimit__v3__rate_limit_response__rate_limit__init(&told->limit);
        told->limit.name = bytes_of((struct weir_slice){ status->name, strlen(status->name) });
        told->limit.requests_per_unit = status->requests_per_unit;
        told->limit.unit = (Envoy__Service__Ratelimit__V3__RateLimitResponse__RateLimit__Unit)status->unit;
        told->status.current_limit = &told->limit;
    }
    if (status->has_reset) {
        google__protobuf__duration__init(&told->reset);
        told->reset.seconds = (int64_t)(status->reset_ns / WEIR_NS_PER_SECOND);
        told->reset.nanos = (int32_t)(status->reset_ns % WEIR_NS_PER_SECOND);
        told->status.duration_until_reset = &told->reset;
    }
}

size_t weir_envoy_write(const struct weir_envoy_answer *answer, uint8_t *buffer)
{
    struct told told[WEIR_ENVOY_DESCRIPTORS_MAX];
    Envoy__Service__Ratelimit__V3__RateLimitResponse__DescriptorStatus *statuses[WEIR_ENVOY_DESCRIPTORS_MAX];
    Envoy__Config__Core__V3__HeaderValue headers[WEIR_ENVOY_HEADERS_MAX], *header_list[WEIR_ENVOY_HEADERS_MAX];
    response whole = ENVOY__SERVICE__RATELIMIT__V3__RATE_LIMIT_RESPONSE__INIT;
    for (size_t i = 0; i < answer->count; i++) {
        tell(&told[i], &answer->statuses[i]);
        statuses[i] = &told[i].status;
    }
    for (size_t i = 0; i < answer->headers_count; i++) {
        envoy__config__core__v3__header_value__init(&headers[i]);
        headers[i].key = bytes_of(answer->headers[i].name);
        headers[i].value = bytes_of(answer->headers[i].value);
        header_list[i] = &headers[i];
    }
    whole.overall_code = (Envoy__Service__Ratelimit__V3__RateLimitResponse__Code)answer->code;
    whole.n_statuses = answer->count;
    whole.statuses = statuses;
    whole.n_response_headers_to_add = answer->headers_count;
    whole.response_headers_to_add = header_list;
    return buffer ? envoy__service__ratelimit__v3__rate_limit_response__pack(&whole, buffer)
                  : envoy__service__ratelimit__v3__rate_limit_response__get_packed_size(&whole);
}
