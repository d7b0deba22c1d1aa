/* SPDX-License-Identifier: Apache-2.0
 *
 * GET /v1/top: whom the limits refuse most, as refused.c has counted it; of the other loops, as they last showed it. */
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/checked.h"
#include "serve/http_call.h"
#include "serve/loop.h"
#include "wire/offenders.h"

static const char *const keys_words[] = { "hash", "text", "off" };

/* Where the limit of that name is counted. False: none in force has it. */
static bool find_slot(const struct weir_loop *loop, const char *name, uint32_t *ret_slot)
{
    const size_t count = weir_rules_count(loop->setup->rules);
    if (strcmp(name, "CL.THROTTLE") == 0) {
        *ret_slot = WEIR_METRICS_THROTTLE;
        return true;
    }
    for (size_t i = 0; i < count; i++) {
        if (strcmp(weir_rules_limit(loop->setup->rules, i)->name, name) != 0)
            continue;
        *ret_slot = weir_loop_slot(loop, (uint32_t)i);
        return true;
    }
    return false;
}

static struct weir_offenders_row row_of(const struct weir_loop *loop, const struct weir_top_row *row, bool texts)
{
    struct weir_offenders_row shown = {
        .limit = weir_metrics_name(loop->common->metrics, row->label.slot),
        .hash = row->shown_hash,
        .count = row->count,
        .error = row->error,
        .known = texts && row->label.known,
        .cut = row->label.cut,
        .values_count = row->label.count,
    };
    for (size_t i = 0; shown.known && i < row->label.count; i++)
        shown.values[i] = weir_top_label_value(&row->label, i);
    return shown;
}

static void reply(struct weir_http_call *call, const struct weir_offenders *offenders, const struct weir_top_read *read)
{
    const struct weir_loop *loop = call->conn->loop;
    const bool texts = loop->setup->config->top_keys == WEIR_TOP_TEXT;
    size_t room = weir_offenders_head_max(offenders) + 2;
    for (size_t i = 0; i < read->count; i++) {
        const struct weir_offenders_row row = row_of(loop, &read->rows[i], texts);
        room += weir_offenders_row_max(&row);
    }
    uint8_t *body = malloc(room);
    if (!body) {
        weir_http_reply_problem(call, 503, "", "out of memory");
        return;
    }
    struct weir_text text = weir_text_init(body, room);
    weir_offenders_head(&text, offenders);
    for (size_t i = 0; i < read->count; i++) {
        const struct weir_offenders_row row = row_of(loop, &read->rows[i], texts);
        weir_offenders_row(&text, &row, i == 0);
    }
    weir_offenders_end(&text);
    weir_assert(!text.overflow);
    weir_http_reply_long(call, WEIR_HTTP_JSON, "", body, text.size);
}

static void answer(struct weir_http_call *call, const struct weir_offenders_ask *ask, uint32_t slot)
{
    struct weir_loop *loop = call->conn->loop;
    struct weir_top *top = loop->common->top;
    const struct weir_config *config = loop->setup->config;
    const struct weir_time now = weir_time_read();
    const enum weir_top_by by = ask->early ? WEIR_TOP_EARLY : WEIR_TOP_REFUSED;
    struct weir_offenders offenders = { .node = config->nodes_count ? config->node_name : NULL,
                                        .by = weir_top_by_name(by),
                                        .keys = keys_words[top ? config->top_keys : WEIR_TOP_OFF],
                                        .one_in = 1 };
    struct weir_top_read *read = calloc(1, sizeof(*read));
    bool counts = top && config->top_keys != WEIR_TOP_OFF;
    if (counts)
        (void)weir_top_show(top, loop->number, now.now_ns);
    if (!read || (counts && weir_top_read(top, by, slot, now.now_ns, ask->rows, read))) {
        weir_http_reply_problem(call, 503, "", "out of memory");
        free(read);
        return;
    }
    if (counts) {
        offenders.since_wall_ns = weir_sub_sat(now.wall_ns, weir_sub_sat(now.now_ns, read->since_ns));
        offenders.total = read->total;
        offenders.unlisted_max = read->unlisted_max;
        offenders.one_in = read->one_in;
    }
    reply(call, &offenders, read);
    free(read);
}

void weir_http_top(struct weir_http_call *call)
{
    struct weir_offenders_ask ask;
    struct weir_fault fault;
    uint32_t slot = WEIR_TOP_ANY;
    int error = weir_offenders_read(call->request->query, &ask, &fault);
    if (error)
        weir_http_reply_fault(call, error, &fault);
    else if (ask.limit_size > 0 && !find_slot(call->conn->loop, ask.limit, &slot))
        weir_http_reply_problem(call, 400, "", "limit: no limit in force has that name; GET /v1/limits lists them");
    else
        answer(call, &ask, slot);
}
