/* SPDX-License-Identifier: Apache-2.0
 *
 * A key is an array of its values: any bytes, which JSON shows as text. Called by serve/http_top.c. */
#include "wire/offenders.h"

#include <stdio.h>

#include "base/fault_format.h"
#include "wire/query.h"

/* ---- the question ---- */

int weir_offenders_read(struct weir_slice query, struct weir_offenders_ask *ret_ask, struct weir_fault *ret_fault)
{
    enum { BY, N, LIMIT, FIELDS };
    struct weir_offenders_ask ask = { .rows = WEIR_OFFENDERS_ROWS };
    char by[16], n[16];
    struct weir_query_field fields[FIELDS] = {
        [BY] = { .name = "by", .value = by, .room = sizeof(by) },
        [N] = { .name = "n", .value = n, .room = sizeof(n) },
        [LIMIT] = { .name = "limit", .value = ask.limit, .room = sizeof(ask.limit) },
    };
    uint64_t rows = ask.rows;
    *ret_fault = (struct weir_fault){ 0 };
    int error = weir_query_read(query, fields, FIELDS, ret_fault);
    ask.early = !error && fields[BY].given && strcmp(by, "early") == 0;
    if (!error && fields[BY].given && !ask.early && strcmp(by, "refused") != 0)
        error = weir_fault_format(ret_fault, WEIR_EINVAL, "by", "must be refused or early");
    if (!error && fields[N].given)
        error = weir_query_number(&fields[N], 1, WEIR_OFFENDERS_ROWS_MAX, &rows, ret_fault);
    if (!error && fields[LIMIT].given && !ask.limit[0])
        error = weir_fault_format(ret_fault, WEIR_EINVAL, "limit", "must be the name of a limit, 1 to %d bytes",
                                  WEIR_LIMIT_NAME_MAX);
    ask.rows = (size_t)rows;
    ask.limit_size = fields[LIMIT].given && !error ? strlen(ask.limit) : 0;
    if (!error)
        *ret_ask = ask;
    return error;
}

/* ---- the answer ---- */

void weir_offenders_head(struct weir_text *text, const struct weir_offenders *offenders)
{
    weir_text_member(text, "{\"node\":", offenders->node);
    weir_text_member(text, ",\"by\":", offenders->by);
    weir_text_member(text, ",\"keys\":", offenders->keys);
    weir_text_member_utc(text, ",\"since\":", offenders->since_wall_ns);
    weir_text_member_u64(text, ",\"total\":", offenders->total);
    weir_text_member_u64(text, ",\"unlisted_max\":", offenders->unlisted_max);
    weir_text_member_u64(text, ",\"one_in\":", offenders->one_in);
    weir_text_lit(text, ",\"top\":[");
}

size_t weir_offenders_head_max(const struct weir_offenders *offenders)
{
    return 256 + weir_text_json_max(offenders->node) + weir_text_json_max(offenders->by) +
           weir_text_json_max(offenders->keys);
}

void weir_offenders_row(struct weir_text *text, const struct weir_offenders_row *row, bool first)
{
    char hash[17];
    (void)snprintf(hash, sizeof(hash), "%016llx", (unsigned long long)row->hash);
    weir_text_str(text, first ? "{\"limit\":" : ",{\"limit\":");
    weir_text_json_or_null(text, row->limit);
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
    weir_text_member(text, ",\"hash\":", hash);
    weir_text_member_u64(text, ",\"count\":", row->count);
    weir_text_member_u64(text, ",\"error\":", row->error);
    weir_text_lit(text, "}");
}

size_t weir_offenders_row_max(const struct weir_offenders_row *row)
{
    size_t max = 192 + weir_text_json_max(row->limit);
    for (size_t i = 0; row->known && i < row->values_count; i++)
        max += 8 + (row->values[i].size == WEIR_VALUE_ABSENT ? 0 : 6 * row->values[i].size);
    return max;
}

void weir_offenders_end(struct weir_text *text)
{
    weir_text_lit(text, "]}");
}
