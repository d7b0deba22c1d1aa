/* SPDX-License-Identifier: Apache-2.0
 *
 * A query string is taken apart at each '&', its values are percent-decoded, and each name may stand once. Called by
 * offenders.c, and by serve/http_rules.c. */
#include "wire/query.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/fault_format.h"
#include "wire/text.h"

static int refuse_unknown(const struct weir_query_field *fields, size_t count, struct weir_fault *ret_fault)
{
    char names[120] = "";
    for (size_t i = 0, at = 0; i < count && at < sizeof(names); i++)
        at += (size_t)snprintf(names + at, sizeof(names) - at, "%s%s", i > 0 ? ", " : "", fields[i].name);
    return weir_fault_format(ret_fault, WEIR_EINVAL, "query", "has a parameter that is not known; there are %s",
                             count > 0 ? names : "none");
}

static int read_value(struct weir_query_field *field, struct weir_slice encoded, struct weir_fault *ret_fault)
{
    struct weir_text text = weir_text_init(field->value, field->room - 1);
    if (field->given)
        return weir_fault_format(ret_fault, WEIR_EDUP, field->name, "stands twice");
    if (!weir_text_percent(&text, encoded, true) || text.overflow || memchr(field->value, '\0', text.size))
        return weir_fault_format(ret_fault, WEIR_EINVAL, field->name,
                                 "is not percent-encoded, has a NUL, or is longer than %zu bytes", field->room - 1);
    field->value[text.size] = '\0';
    field->given = true;
    return 0;
}

static int read_part(struct weir_slice part, struct weir_query_field *fields, size_t count,
                     struct weir_fault *ret_fault)
{
    const uint8_t *equals = part.size > 0 ? memchr(part.data, '=', part.size) : NULL;
    const size_t name_size = equals ? (size_t)(equals - (const uint8_t *)part.data) : part.size;
    const struct weir_slice value = { equals ? equals + 1 : part.data, equals ? part.size - name_size - 1 : 0 };
    for (size_t i = 0; i < count; i++)
        if (strlen(fields[i].name) == name_size && memcmp(fields[i].name, part.data, name_size) == 0)
            return read_value(&fields[i], value, ret_fault);
    return refuse_unknown(fields, count, ret_fault);
}

int weir_query_read(struct weir_slice query, struct weir_query_field *fields, size_t count,
                    struct weir_fault *ret_fault)
{
    int error = 0;
    for (size_t i = 0; i < count; i++)
        fields[i].given = false;
    while (query.size > 0 && !error) {
        const uint8_t *start = query.data, *ampersand = memchr(start, '&', query.size);
        struct weir_slice part = { start, ampersand ? (size_t)(ampersand - start) : query.size };
        error = read_part(part, fields, count, ret_fault);
        size_t taken = part.size + (ampersand != NULL);
        query = (struct weir_slice){ start + taken, query.size - taken };
    }
    return error;
}

int weir_query_number(const struct weir_query_field *field, uint64_t min, uint64_t max, uint64_t *ret_number,
                      struct weir_fault *ret_fault)
{
    uint64_t number = 0;
    size_t digits = strspn(field->value, "0123456789");
    for (size_t i = 0; i < digits && digits <= 18; i++)
        number = 10 * number + (uint64_t)(field->value[i] - '0');
    if (digits < 1 || digits > 18 || field->value[digits] || number < min || number > max)
        return weir_fault_format(ret_fault, WEIR_ERANGE, field->name, "must be %" PRIu64 " to %" PRIu64, min, max);
    *ret_number = number;
    return 0;
}
