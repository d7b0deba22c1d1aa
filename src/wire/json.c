/* SPDX-License-Identifier: Apache-2.0
 *
 * Refuses a NUL byte before jansson sees the text, because jansson skips it in places, and turns jansson's errors into
 * faults with line and column. Called by check.c, lock.c and session.c beside this file. JSON is written by text.c;
 * here only what becomes a string of jansson's, which takes nothing but UTF-8. */
#include "wire/json.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "wire/text.h"

#define MEMBER_SHOWN_MAX 31

int weir_json_fail(struct weir_fault *fault, int error, const char *member, const char *format, ...)
{
    if (!fault)
        return error;
    snprintf(fault->field, sizeof(fault->field), "%.*s", MEMBER_SHOWN_MAX, member[0] ? member : "\"\"");
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(fault->text, sizeof(fault->text), format, arguments);
    va_end(arguments);
    return error;
}

int weir_json_integer(const json_t *value, const char *member, uint64_t min, uint64_t max, uint64_t *ret_number,
                      struct weir_fault *fault)
{
    bool integer = json_is_integer(value);
    json_int_t number = integer ? json_integer_value(value) : -1;
    if (number < 0 || (uint64_t)number < min || (uint64_t)number > max)
        return weir_json_fail(fault, integer ? WEIR_ERANGE : WEIR_EPROTO, member,
                              "must be an integer, %" PRIu64 " to %" PRIu64, min, max);
    *ret_number = (uint64_t)number;
    return 0;
}

json_t *weir_json_text(const char *text)
{
    const size_t size = strlen(text), room = 6 * size + 2;
    char *written = malloc(room);
    struct weir_text json = weir_text_init(written, written ? room : 0);
    if (!written)
        return NULL;
    weir_text_json(&json, text, size);
    json_t *string = json_loadb(written, json.size, JSON_DECODE_ANY, NULL);
    free(written);
    return string;
}

static int fail(struct weir_fault *fault, const json_error_t *error)
{
    switch (json_error_code(error)) {
    case json_error_out_of_memory:
        return weir_json_fail(fault, WEIR_ENOMEM, "body", "out of memory");
    case json_error_numeric_overflow:
        return weir_json_fail(fault, WEIR_ERANGE, "body",
                              "line %d, column %d: a number is out of range: integers here are 0 to %lld", error->line,
                              error->column, (long long)INT64_MAX);
    default:
        return weir_json_fail(fault, WEIR_EPROTO, "body", "not JSON: line %d, column %d: %.90s", error->line,
                              error->column, error->text);
    }
}

json_t *weir_json_parse(const void *data, size_t size, int *ret_error, struct weir_fault *ret_fault)
{
    json_error_t error;
    /* jansson skips one that follows a number or a word. */
    if (size && memchr(data, '\0', size)) {
        *ret_error = weir_json_fail(ret_fault, WEIR_EPROTO, "body", "not JSON: there is a NUL byte");
        return NULL;
    }
    json_t *json = json_loadb(data, size, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &error);
    if (!json)
        *ret_error = fail(ret_fault, &error);
    return json;
}
