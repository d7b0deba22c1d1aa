/* SPDX-License-Identifier: Apache-2.0
 *
 * A query string is taken apart at each '&', its values are percent-decoded, and each parameter may stand once. A key
 * is an array of its values: any bytes, which JSON shows as text. Called by serve/http_top.c. */
#include "wire/offenders.h"

#include <stdio.h>

#include "base/fault_format.h"

#define VALUE_MAX (3 * WEIR_LIMIT_NAME_MAX)
#define NAME_SHOWN 40

/* ---- the question ---- */

enum parameter { BY = 1, N = 2, LIMIT = 4 };

static bool is(struct weir_slice slice, const char *word)
{
    return slice.size == strlen(word) && memcmp(slice.data, word, slice.size) == 0;
}

static int read_by(struct weir_slice value, struct weir_offenders_ask *ask, struct weir_fault *fault)
{
    ask->early = is(value, "early");
    if (ask->early || is(value, "refused"))
        return 0;
    return weir_fault_format(fault, WEIR_EINVAL, "by", "must be refused or early");
}

static int read_rows(struct weir_slice value, struct weir_offenders_ask *ask, struct weir_fault *fault)
{
    size_t rows = 0;
    bool legal = value.size >= 1 && value.size <= 3;
    for (size_t i = 0; legal && i < value.size; i++) {
        uint8_t digit = ((const uint8_t *)value.data)[i];
        legal = digit >= '0' && digit <= '9';
        rows = 10 * rows + (digit - '0');
    }
    if (!legal || rows < 1 || rows > WEIR_OFFENDERS_ROWS_MAX)
        return weir_fault_format(fault, WEIR_ERANGE, "n", "must be 1 to %d", WEIR_OFFENDERS_ROWS_MAX);
    ask->rows = rows;
    return 0;
}

static int read_limit(struct weir_slice value, struct weir_offenders_ask *ask, struct weir_fault *fault)
{
    if (value.size < 1 || value.size > WEIR_LIMIT_NAME_MAX || memchr(value.data, '\0', value.size))
        return weir_fault_format(fault, WEIR_EINVAL, "limit", "must be the name of a limit, 1 to %d bytes",
                                 WEIR_LIMIT_NAME_MAX);
    memcpy(ask->limit, value.data, value.size);
    ask->limit[value.size] = '\0';
    ask->limit_size = value.size;
    return 0;
}

static int read_parameter(struct weir_slice part, unsigned *known, struct weir_offenders_ask *ask,
                          struct weir_fault *fault)
{
    static const struct {
        const char *name;
        enum parameter parameter;
        int (*read)(struct weir_slice value, struct weir_offenders_ask *ask, struct weir_fault *fault);
    } parameters[] = { { "by", BY, read_by }, { "n", N, read_rows }, { "limit", LIMIT, read_limit } };
    uint8_t decoded[VALUE_MAX];
    struct weir_text text = weir_text_init(decoded, sizeof(decoded));
    const uint8_t *equals = part.size > 0 ? memchr(part.data, '=', part.size) : NULL;
    const struct weir_slice name = { part.data, equals ? (size_t)(equals - (const uint8_t *)part.data) : part.size };
    for (size_t i = 0; i < sizeof(parameters) / sizeof(parameters[0]); i++) {
        if (!is(name, parameters[i].name))
            continue;
        if (*known & parameters[i].parameter)
            return weir_fault_format(fault, WEIR_EDUP, parameters[i].name, "stands twice");
        *known |= parameters[i].parameter;
        const struct weir_slice value = { equals ? equals + 1 : NULL, equals ? part.size - name.size - 1 : 0 };
        if (!weir_text_percent(&text, value, true) || text.overflow)
            return weir_fault_format(fault, WEIR_EINVAL, parameters[i].name, "is not percent-encoded, or too long");
        return parameters[i].read((struct weir_slice){ decoded, text.size }, ask, fault);
    }
    return weir_fault_format(fault, WEIR_EINVAL, "query", "has a parameter that is not known; there are by, n, limit");
}

int weir_offenders_read(struct weir_slice query, struct weir_offenders_ask *ret_ask, struct weir_fault *ret_fault)
{
    struct weir_offenders_ask ask = { .rows = WEIR_OFFENDERS_ROWS };
    unsigned known = 0;
    int error = 0;
    *ret_fault = (struct weir_fault){ 0 };
    while (query.size > 0 && !error) {
        const uint8_t *start = query.data, *ampersand = memchr(start, '&', query.size);
        struct weir_slice part = { start, ampersand ? (size_t)(ampersand - start) : query.size };
        error = read_parameter(part, &known, &ask, ret_fault);
        size_t taken = part.size + (ampersand != NULL);
        query = (struct weir_slice){ start + taken, query.size - taken };
    }
    if (!error)
        *ret_ask = ask;
    return error;
}

/* ---- the answer ---- */

static void string(struct weir_text *text, const char *value)
{
    if (value)
        weir_text_json(text, value, strlen(value));
    else
        weir_text_lit(text, "null");
}

static size_t string_max(const char *value)
{
    return value ? 6 * strlen(value) + 2 : 4;
}

void weir_offenders_head(struct weir_text *text, const struct weir_offenders *offenders)
{
    weir_text_lit(text, "{\"node\":");
    string(text, offenders->node);
    weir_text_lit(text, ",\"by\":");
    string(text, offenders->by);
    weir_text_lit(text, ",\"keys\":");
    string(text, offenders->keys);
    weir_text_lit(text, ",\"since\":");
    if (offenders->since_wall_ns) {
        weir_text_lit(text, "\"");
        weir_text_utc(text, offenders->since_wall_ns);
        weir_text_lit(text, "\"");
    } else {
        weir_text_lit(text, "null");
    }
    weir_text_lit(text, ",\"total\":");
    weir_text_u64(text, offenders->total);
    weir_text_lit(text, ",\"unlisted_max\":");
    weir_text_u64(text, offenders->unlisted_max);
    weir_text_lit(text, ",\"one_in\":");
    weir_text_u64(text, offenders->one_in);
    weir_text_lit(text, ",\"top\":[");
}

size_t weir_offenders_head_max(const struct weir_offenders *offenders)
{
    return 256 + string_max(offenders->node) + string_max(offenders->by) + string_max(offenders->keys);
}

void weir_offenders_row(struct weir_text *text, const struct weir_offenders_row *row, bool first)
{
    char hash[17];
    (void)snprintf(hash, sizeof(hash), "%016llx", (unsigned long long)row->hash);
    weir_text_str(text, first ? "{\"limit\":" : ",{\"limit\":");
    string(text, row->limit);
    weir_text_lit(text, ",\"key\":");
    for (size_t i = 0; row->known && i < row->values_count; i++) {
        weir_text_str(text, i == 0 ? "[" : ",");
        if (row->values[i].size == WEIR_VALUE_ABSENT)
            weir_text_lit(text, "null");
        else
            weir_text_json(text, row->values[i].data, row->values[i].size);
    }
    weir_text_str(text, !row->known ? "null" : row->values_count == 0 ? "[]" : "]");
    weir_text_str(text, row->known && row->cut ? ",\"cut\":true" : ",\"cut\":false");
    weir_text_lit(text, ",\"hash\":");
    string(text, hash);
    weir_text_lit(text, ",\"count\":");
    weir_text_u64(text, row->count);
    weir_text_lit(text, ",\"error\":");
    weir_text_u64(text, row->error);
    weir_text_lit(text, "}");
}

size_t weir_offenders_row_max(const struct weir_offenders_row *row)
{
    size_t max = 192 + string_max(row->limit);
    for (size_t i = 0; row->known && i < row->values_count; i++)
        max += 8 + (row->values[i].size == WEIR_VALUE_ABSENT ? 0 : 6 * row->values[i].size);
    return max;
}

void weir_offenders_end(struct weir_text *text)
{
    weir_text_lit(text, "]}");
}
