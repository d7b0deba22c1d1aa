/* SPDX-License-Identifier: Apache-2.0
 *
 * Reading a server's answer in RESP2: the client's half of resp.h. No copy, no allocation, no I/O.
 *
 * An answer is read into a flat list, as it is written: an array, then its elements. Bounds are the caller's: the bytes
 * it hands over and the values it has room for. Texts point into `data`. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "weir/error.h"
#include "weir/limiter.h"

enum weir_resp_type {
    WEIR_RESP_SIMPLE = '+',
    WEIR_RESP_ERROR = '-',
    WEIR_RESP_INTEGER = ':',
    WEIR_RESP_BULK = '$',
    WEIR_RESP_ARRAY = '*',
    WEIR_RESP_NULL = '_', /* a bulk or an array of length -1 */
};

struct weir_resp_value {
    enum weir_resp_type type;
    int64_t integer;        /* INTEGER; ARRAY: how many elements follow */
    struct weir_slice text; /* SIMPLE, ERROR, BULK */
};

/* The first answer in `data`. WEIR_EAGAIN (not whole yet: call again with the same bytes and more), WEIR_EPROTO (no
 * RESP2), WEIR_ELIMIT (more than `values_max` values). */
int weir_resp_answer_parse(const uint8_t *data, size_t size, struct weir_resp_value *values, size_t values_max,
                           size_t *ret_count, size_t *ret_size);
