/* SPDX-License-Identifier: Apache-2.0
 *
 * One function reads from a cursor up to what is no digit, the other takes all bytes of a given size. There is no sign,
 * no space and no other base, and an overflow is found at the digit that causes it. Called by units.c, address.c,
 * block.c and the decoders of the configuration, by match.c for costs, and by verbs in src/cli. */
#include "rules/number.h"

int weir_number_scan(const char **cursor, uint64_t *ret_value)
{
    const char *at = *cursor;
    if (*at < '0' || *at > '9')
        return WEIR_EINVAL;
    uint64_t value = 0;
    for (; *at >= '0' && *at <= '9'; at++)
        if (__builtin_mul_overflow(value, (uint64_t)10, &value) ||
            __builtin_add_overflow(value, (uint64_t)(*at - '0'), &value))
            return WEIR_ERANGE;
    *cursor = at;
    *ret_value = value;
    return 0;
}

int weir_number_parse(const char *text, size_t size, uint64_t *ret_value)
{
    if (size == 0)
        return WEIR_EINVAL;
    uint64_t value = 0;
    for (size_t i = 0; i < size; i++)
        if (text[i] < '0' || text[i] > '9')
            return WEIR_EINVAL;
    for (size_t i = 0; i < size; i++)
        if (__builtin_mul_overflow(value, (uint64_t)10, &value) ||
            __builtin_add_overflow(value, (uint64_t)(text[i] - '0'), &value))
            return WEIR_ERANGE;
    *ret_value = value;
    return 0;
}
