/* SPDX-License-Identifier: Apache-2.0
 *
 * Numbers are written two digits at a time, from a table of pairs. Called by serve/resp_*.c for answers, and by
 * client/link.c and ask.c for commands. Reading is resp.c and resp_answer.c. */
#include "wire/resp_write.h"

static uint8_t *put_crlf(uint8_t *at)
{
    at[0] = '\r';
    at[1] = '\n';
    return at + 2;
}

/* How many digits. The decimal logarithm of 2 is about 1233 / 4096: by the bits they are so many, or one more. */
static unsigned count_digits(uint64_t value)
{
    static const uint64_t powers[20] = { 0,
                                         10,
                                         100,
                                         1000,
                                         10000,
                                         100000,
                                         1000000,
                                         10000000,
                                         100000000,
                                         1000000000,
                                         10000000000,
                                         100000000000,
                                         1000000000000,
                                         10000000000000,
                                         100000000000000,
                                         1000000000000000,
                                         10000000000000000,
                                         100000000000000000,
                                         1000000000000000000,
                                         UINT64_C(10000000000000000000) };
    const unsigned bits = 64 - (unsigned)__builtin_clzll(value | 1), least = bits * 1233 >> 12;
    return least + (value >= powers[least]);
}

/* Two digits at a time, from the back. */
static uint8_t *put_digits(uint8_t *at, uint64_t value)
{
    static const char pairs[] =
        "00010203040506070809101112131415161718192021222324252627282930313233343536373839404142434"
        "44546474849505152535455565758596061626364656667686970717273747576777879808182838485868788"
        "8990919293949596979899";
    uint8_t *const end = at + count_digits(value);
    uint8_t *first = end;
    for (; value >= 100; value /= 100) {
        first -= 2;
        memcpy(first, pairs + 2 * (value % 100), 2);
    }
    if (value >= 10)
        memcpy(first - 2, pairs + 2 * value, 2);
    else
        first[-1] = (uint8_t)('0' + value);
    return end;
}

uint8_t *weir_resp_put_number(uint8_t *at, char type, uint64_t value, bool negative)
{
    *at++ = (uint8_t)type;
    if (negative)
        *at++ = '-';
    return put_crlf(put_digits(at, value));
}

uint8_t *weir_resp_put_array(uint8_t *at, size_t count)
{
    return weir_resp_put_number(at, '*', count, false);
}

uint8_t *weir_resp_put_map(uint8_t *at, size_t pairs, bool resp3)
{
    return resp3 ? weir_resp_put_number(at, '%', pairs, false) : weir_resp_put_number(at, '*', 2 * pairs, false);
}

uint8_t *weir_resp_put_null(uint8_t *at, bool resp3)
{
    const char *text = resp3 ? "_\r\n" : "$-1\r\n";
    size_t size = resp3 ? 3 : 5;
    memcpy(at, text, size);
    return at + size;
}

uint8_t *weir_resp_put_bulk(uint8_t *at, const void *data, size_t size)
{
    at = weir_resp_put_number(at, '$', size, false);
    if (size > 0)
        memcpy(at, data, size);
    return put_crlf(at + size);
}

static uint8_t *put_line(uint8_t *at, uint8_t type, const char *text, size_t size)
{
    *at++ = type;
    for (size_t i = 0; i < size; i++)
        *at++ = (uint8_t)(text[i] == '\r' || text[i] == '\n' ? ' ' : text[i]);
    return put_crlf(at);
}

uint8_t *weir_resp_put_simple(uint8_t *at, const char *text, size_t size)
{
    return put_line(at, '+', text, size);
}

uint8_t *weir_resp_put_error(uint8_t *at, const char *text, size_t size)
{
    return put_line(at, '-', text, size);
}
