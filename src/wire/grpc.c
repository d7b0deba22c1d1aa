/* SPDX-License-Identifier: Apache-2.0
 *
 * Used by h2.c and its parts, and by serve/grpc.c for the names of status codes. */
#include "wire/grpc.h"

#include "base/assert.h"
#include "base/bytes.h"
#include "base/checked.h"

#define TIMEOUT_DIGITS_MAX 8

const char *weir_grpc_status_name(enum weir_grpc_status status)
{
    static const char *const names[WEIR_GRPC_STATUSES] = {
#define WEIR_GRPC_STATUS_NAME(name, text) [WEIR_GRPC_##name] = (text),
        WEIR_GRPC_STATUS_LIST(WEIR_GRPC_STATUS_NAME)
#undef WEIR_GRPC_STATUS_NAME
    };
    weir_assert(status < WEIR_GRPC_STATUSES);
    return names[status];
}

static uint64_t unit_ns(char unit)
{
    switch (unit) {
    case 'H':
        return 3600 * WEIR_NS_PER_SECOND;
    case 'M':
        return 60 * WEIR_NS_PER_SECOND;
    case 'S':
        return WEIR_NS_PER_SECOND;
    case 'm':
        return 1000000;
    case 'u':
        return 1000;
    case 'n':
        return 1;
    default:
        return 0;
    }
}

bool weir_grpc_timeout_parse(struct weir_slice text, uint64_t *ret_ns)
{
    const char *at = text.data;
    uint64_t value = 0;
    if (text.size < 2 || text.size > TIMEOUT_DIGITS_MAX + 1)
        return false;
    for (size_t i = 0; i + 1 < text.size; i++) {
        if (at[i] < '0' || at[i] > '9')
            return false;
        value = value * 10 + (uint64_t)(at[i] - '0');
    }
    const uint64_t unit = unit_ns(at[text.size - 1]);
    if (unit == 0)
        return false;
    *ret_ns = value * unit; /* 99,999,999 hours are 3.6e20 ns, more than there is room for */
    if (value > 0 && *ret_ns / value != unit)
        *ret_ns = WEIR_NEVER;
    return true;
}

void weir_grpc_message(struct weir_text *text, const char *message)
{
    static const char hex[] = "0123456789ABCDEF";
    for (const uint8_t *at = (const uint8_t *)message; *at; at++) {
        const char encoded[3] = { '%', hex[*at >> 4], hex[*at & 15] };
        if (*at >= 0x20 && *at <= 0x7e && *at != '%')
            weir_text_bytes(text, at, 1);
        else
            weir_text_bytes(text, encoded, sizeof(encoded));
    }
}

struct weir_grpc_head weir_grpc_head_get(const uint8_t bytes[WEIR_GRPC_HEAD_SIZE])
{
    return (struct weir_grpc_head){ .flags = bytes[0], .size = (uint32_t)weir_big_get(bytes + 1, 4) };
}

void weir_grpc_head_put(uint8_t bytes[WEIR_GRPC_HEAD_SIZE], size_t size)
{
    weir_assert(size <= UINT32_MAX);
    bytes[0] = 0;
    weir_big_put(bytes + 1, size, 4);
}

bool weir_grpc_is_content(struct weir_slice content_type)
{
    static const char own[] = "application/grpc";
    const size_t size = sizeof(own) - 1;
    if (content_type.size < size || memcmp(content_type.data, own, size) != 0)
        return false;
    const char next = content_type.size > size ? ((const char *)content_type.data)[size] : ';';
    return next == ';' || next == '+';
}
