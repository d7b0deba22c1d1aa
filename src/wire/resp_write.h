/* SPDX-License-Identifier: Apache-2.0
 *
 * Writing RESP. Each function writes at `at`, where the caller has made room for as many bytes as the function's
 * comment says, and returns the place behind what it wrote. RESP2 and RESP3 differ in maps and nulls only. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define WEIR_RESP_HEADER_MAX 24 /* ":-9223372036854775808\r\n", and any array, map or bulk header; a null */

uint8_t *weir_resp_put_number(uint8_t *at, char type, uint64_t value, bool negative); /* WEIR_RESP_HEADER_MAX */

/* WEIR_RESP_HEADER_MAX. Most numbers of a verdict have one digit. */
static inline uint8_t *weir_resp_put_integer(uint8_t *at, int64_t value)
{
    if (value >= 0 && value <= 9) {
        const uint8_t text[4] = { ':', (uint8_t)('0' + value), '\r', '\n' };
        memcpy(at, text, sizeof(text));
        return at + sizeof(text);
    }
    return weir_resp_put_number(at, ':', value < 0 ? 0 - (uint64_t)value : (uint64_t)value, value < 0);
}

uint8_t *weir_resp_put_array(uint8_t *at, size_t count);           /* WEIR_RESP_HEADER_MAX; `count` elements follow */
uint8_t *weir_resp_put_map(uint8_t *at, size_t pairs, bool resp3); /* WEIR_RESP_HEADER_MAX; 2 * `pairs` follow */
uint8_t *weir_resp_put_null(uint8_t *at, bool resp3);              /* WEIR_RESP_HEADER_MAX */
uint8_t *weir_resp_put_bulk(uint8_t *at, const void *data, size_t size); /* WEIR_RESP_HEADER_MAX + size + 2 */

/* size + 3. Bytes that would end the line are written as blanks, so no text can forge a second answer. */
uint8_t *weir_resp_put_simple(uint8_t *at, const char *text, size_t size);
uint8_t *weir_resp_put_error(uint8_t *at, const char *text, size_t size); /* text begins with "ERR " or the like */
