/* SPDX-License-Identifier: Apache-2.0
 *
 * A loop over values with a count of those that are still to come, to which each array adds its own: nothing is
 * recursive. An answer that is not whole is read from the front next time. Called by client/link.c, which talks to a
 * weir; replies of Redis are read in net/redis_reply.c. */
#include "wire/resp_answer.h"

#include <stdbool.h>
#include <string.h>

#define BULK_MAX (INT64_C(512) << 20) /* Redis's own bound */

struct input {
    const uint8_t *data;
    size_t size;
    size_t at;
};

/* The rest of the line at the cursor, which moves behind it. */
static int line_read(struct input *input, struct weir_slice *ret_line)
{
    const uint8_t *start = input->data + input->at;
    const uint8_t *end = memchr(start, '\r', input->size - input->at);
    if (!end || (size_t)(end - input->data) + 1 == input->size)
        return WEIR_EAGAIN;
    if (end[1] != '\n')
        return WEIR_EPROTO;
    *ret_line = (struct weir_slice){ start, (size_t)(end - start) };
    input->at += ret_line->size + 2;
    return 0;
}

static int integer_read(struct weir_slice line, int64_t *ret_value)
{
    const char *text = line.data;
    bool negative = line.size > 0 && text[0] == '-';
    int64_t value = 0;
    if (line.size == (negative ? 1U : 0U))
        return WEIR_EPROTO;
    for (size_t i = negative; i < line.size; i++) {
        int digit = text[i] - '0';
        if (digit < 0 || digit > 9 || __builtin_mul_overflow(value, 10, &value) ||
            __builtin_add_overflow(value, negative ? -digit : digit, &value))
            return WEIR_EPROTO;
    }
    *ret_value = value;
    return 0;
}

static int bulk_read(struct input *input, struct weir_resp_value *value)
{
    if (value->integer < 0 || value->integer > BULK_MAX)
        return WEIR_EPROTO;
    size_t size = (size_t)value->integer;
    if (input->size - input->at < size + 2)
        return WEIR_EAGAIN;
    if (memcmp(input->data + input->at + size, "\r\n", 2) != 0)
        return WEIR_EPROTO;
    value->text = (struct weir_slice){ input->data + input->at, size };
    value->integer = 0;
    input->at += size + 2;
    return 0;
}

static int value_read(struct input *input, struct weir_resp_value *ret_value)
{
    if (input->at == input->size)
        return WEIR_EAGAIN;
    struct weir_resp_value value = { .type = (enum weir_resp_type)input->data[input->at++] };
    struct weir_slice line = { 0 };
    int error = memchr("+-:$*", (int)value.type, 5) ? line_read(input, &line) : WEIR_EPROTO;
    if (error)
        return error;
    bool sized = value.type == WEIR_RESP_BULK || value.type == WEIR_RESP_ARRAY;
    if (value.type == WEIR_RESP_SIMPLE || value.type == WEIR_RESP_ERROR)
        value.text = line;
    else
        error = integer_read(line, &value.integer);
    if (!error && sized && value.integer == -1)
        value = (struct weir_resp_value){ .type = WEIR_RESP_NULL };
    else if (!error && value.type == WEIR_RESP_BULK)
        error = bulk_read(input, &value);
    else if (!error && value.type == WEIR_RESP_ARRAY && value.integer < 0)
        error = WEIR_EPROTO;
    if (!error)
        *ret_value = value;
    return error;
}

int weir_resp_answer_parse(const uint8_t *data, size_t size, struct weir_resp_value *values, size_t values_max,
                           size_t *ret_count, size_t *ret_size)
{
    struct input input = { data, size, 0 };
    uint64_t left = 1; /* values still to come; each array adds its own */
    size_t count = 0;
    for (; left > 0; left--) {
        if (left > values_max - count)
            return WEIR_ELIMIT;
        int error = value_read(&input, &values[count]);
        if (error)
            return error;
        left += values[count].type == WEIR_RESP_ARRAY ? (uint64_t)values[count].integer : 0;
        count++;
    }
    *ret_count = count;
    *ret_size = input.at;
    return 0;
}
