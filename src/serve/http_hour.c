/* SPDX-License-Identifier: Apache-2.0
 *
 * GET /v1/hour: the last hour, second by second, as sampler.c has put it together. */
#include "serve/http_hour.h"

#include <stdlib.h>

#include "base/assert.h"
#include "serve/http_call.h"
#include "wire/query.h"

#define ROWS_MAX 600 /* in one reply */
#define NUMBER_MAX 21
#define COLUMNS_MAX 32

/* The columns of a row, in this order; verdicts have the names that they have everywhere. */
#define COLUMNS(X)                                                                                                     \
    X("number", row->number)                                                                                           \
    X("wall_ms", row->wall_ns / 1000000)                                                                               \
    X("span_ms", (row->span_ns + 999999) / 1000000)                                                                    \
    X("requests", row->requests)                                                                                       \
    X("unmatched", row->unmatched)                                                                                     \
    X("fallbacks", row->fallbacks)                                                                                     \
    X("connections", row->connections)                                                                                 \
    X("keys", row->keys)                                                                                               \
    X("p50_ns", row->p50_ns)                                                                                           \
    X("p99_ns", row->p99_ns)                                                                                           \
    X("p999_ns", row->p999_ns)

static void write_columns(struct weir_text *text)
{
    weir_text_lit(text, ",\"columns\":[");
#define COLUMN(name, value) weir_text_lit(text, "\"" name "\",");
    COLUMNS(COLUMN)
#undef COLUMN
    for (unsigned i = 0; i < WEIR_METRICS_VERDICTS; i++) {
        weir_text_str(text, i > 0 ? "," : "");
        weir_text_json_or_null(text, weir_metrics_verdict_name((enum weir_metrics_verdict)i));
    }
    weir_text_lit(text, "]");
}

static void write_row(struct weir_text *text, const struct weir_hour_row *row)
{
    weir_text_lit(text, "[");
#define COLUMN(name, value)                                                                                            \
    weir_text_u64(text, value);                                                                                        \
    weir_text_lit(text, ",");
    COLUMNS(COLUMN)
#undef COLUMN
    for (size_t i = 0; i < WEIR_METRICS_VERDICTS; i++) {
        weir_text_str(text, i > 0 ? "," : "");
        weir_text_u64(text, row->verdicts[i]);
    }
    weir_text_lit(text, "]");
}

static bool is_quiet(const struct weir_hour_row *rows, size_t count, size_t limit)
{
    bool quiet = true;
    for (size_t i = 0; i < count; i++)
        quiet = quiet && rows[i].limits[limit].admitted == 0 && rows[i].limits[limit].refused == 0;
    return quiet;
}

static void write_limit(struct weir_text *text, const struct weir_hour_row *rows, size_t count, size_t limit,
                        const char *name)
{
    weir_text_lit(text, "{\"name\":");
    weir_text_json_or_null(text, name);
    for (size_t part = 0; part < 2; part++) {
        weir_text_str(text, part == 0 ? ",\"admitted\":[" : ",\"refused\":[");
        for (size_t i = 0; i < count; i++) {
            weir_text_str(text, i > 0 ? "," : "");
            weir_text_u64(text, part == 0 ? rows[i].limits[limit].admitted : rows[i].limits[limit].refused);
        }
        weir_text_lit(text, "]");
    }
    weir_text_lit(text, "}");
}

static size_t room_for(struct weir_metrics *metrics, const struct weir_hour_row *rows, size_t count, size_t limits)
{
    size_t room = 2048 + count * (COLUMNS_MAX * NUMBER_MAX);
    for (size_t i = 0; i < limits; i++)
        if (!is_quiet(rows, count, i))
            room += 64 + weir_text_json_max(weir_metrics_name(metrics, (uint32_t)i)) + 2 * count * NUMBER_MAX;
    return room;
}

uint8_t *weir_hour_json(const struct weir_loop *loop, const struct weir_hour_row *rows, size_t count, uint64_t newest,
                        size_t *ret_size)
{
    struct weir_metrics *metrics = loop->common->metrics;
    const size_t slots = weir_metrics_slots(metrics), limits = slots < WEIR_HOUR_LIMITS ? slots : WEIR_HOUR_LIMITS;
    const size_t room = room_for(metrics, rows, count, limits);
    uint8_t *body = malloc(room);
    if (!body)
        return NULL;
    struct weir_text text = weir_text_init(body, room);
    weir_text_lit(&text, "{\"node\":");
    weir_text_json_or_null(&text, loop->setup->config->nodes_count ? loop->setup->config->node_name : NULL);
    weir_text_member_u64(&text, ",\"process\":", weir_hour_process(loop->common->hour));
    weir_text_member_u64(&text, ",\"newest\":", newest);
    write_columns(&text);
    weir_text_lit(&text, ",\"rows\":[");
    for (size_t i = 0; i < count; i++) {
        weir_text_str(&text, i > 0 ? "," : "");
        write_row(&text, &rows[i]);
    }
    weir_text_lit(&text, "],\"limits\":[");
    bool first = true;
    for (size_t i = 0; i < limits; i++) {
        if (is_quiet(rows, count, i))
            continue;
        weir_text_str(&text, first ? "" : ",");
        write_limit(&text, rows, count, i, weir_metrics_name(metrics, (uint32_t)i));
        first = false;
    }
    weir_text_lit(&text, "]}");
    weir_assert(!text.overflow);
    *ret_size = text.size;
    return body;
}

static void reply(struct weir_http_call *call, const struct weir_hour_row *rows, size_t count, uint64_t newest)
{
    size_t size = 0;
    uint8_t *body = weir_hour_json(call->conn->loop, rows, count, newest, &size);
    if (body)
        weir_http_reply_long(call, WEIR_HTTP_JSON, "", body, size);
    else
        weir_http_reply_problem(call, 503, "", "out of memory");
}

void weir_http_hour(struct weir_http_call *call)
{
    char value[24] = "";
    struct weir_query_field after = { .name = "after", .value = value, .room = sizeof(value) };
    struct weir_fault fault = { 0 };
    struct weir_hour *hour = call->conn->loop->common->hour;
    uint64_t number = 0;
    int error = weir_query_read(call->request->query, &after, 1, &fault);
    if (!error && after.given)
        error = weir_query_number(&after, 0, 999999999999999999, &number, &fault);
    struct weir_hour_row *rows = error ? NULL : malloc(ROWS_MAX * sizeof(*rows));
    if (error)
        weir_http_reply_fault(call, error, &fault);
    else if (!rows)
        weir_http_reply_problem(call, 503, "", "out of memory");
    else
        reply(call, rows, weir_hour_read(hour, number, rows, ROWS_MAX), weir_hour_newest(hour));
    free(rows);
}
