/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/resp_write.h"

static uint8_t *put_crlf(uint8_t *at)
{
    at[0] = '\r';
    at[1] = '\n';
    return at + 2;
}

uint8_t *weir_resp_put_number(uint8_t *at, char type, uint64_t value, bool negative)
{
    uint8_t digits[20];
    size_t count = 0;
    do {
        digits[count++] = (uint8_t)('0' + value % 10);
        value /= 10;
    } while (value > 0);

    *at++ = (uint8_t)type;
    if (negative)
        *at++ = '-';
    while (count > 0)
        *at++ = digits[--count];
    return put_crlf(at);
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
