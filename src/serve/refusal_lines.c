/* SPDX-License-Identifier: Apache-2.0
 *
 * A line says which limit, the key (its text only where `top: { keys: text }` allows it), cost, retry_after_ms and how
 * many were left out: as members of their own in JSON, as words in text. */
#include "serve/refusal_lines.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/assert.h"
#include "base/checked.h"
#include "observe/last.h"
#include "serve/decide.h"

#define KEY_MAX (6 * WEIR_TOP_TEXT_MAX + 8 * WEIR_KEY_VALUES_MAX + 8)
#define FIELDS_MAX (KEY_MAX + 6 * 128 + 200)

struct place {
    uint64_t second; /* of the lines, by CLOCK_MONOTONIC */
    uint64_t left_out;
    uint32_t lines; /* in that second */
};

struct weir_refusal_lines {
    uint64_t second; /* of the last line, of whatever limit */
    uint32_t lines;
    struct place places[WEIR_METRICS_LIMITS_MAX];
};

int weir_refusal_lines_create(struct weir_refusal_lines **ret_lines)
{
    *ret_lines = calloc(1, sizeof(**ret_lines));
    return *ret_lines ? 0 : WEIR_ENOMEM;
}

void weir_refusal_lines_destroy(struct weir_refusal_lines *lines)
{
    free(lines);
}

/* Whether one more may go; what a loop hands over late counts for the newest second. */
static bool take_line(struct weir_refusal_lines *lines, struct place *place, uint32_t rate, uint64_t second)
{
    if (second > place->second) {
        place->second = second;
        place->lines = 0;
    }
    if (second > lines->second) {
        lines->second = second;
        lines->lines = 0;
    }
    if (place->lines >= rate || lines->lines >= WEIR_REFUSAL_LINES_MAX)
        return false;
    place->lines++;
    lines->lines++;
    return true;
}

static void write_key(struct weir_text *text, const struct weir_top_label *label)
{
    weir_text_lit(text, "[");
    for (size_t i = 0; i < label->count; i++) {
        const struct weir_slice value = weir_top_label_value(label, i);
        weir_text_str(text, i > 0 ? "," : "");
        if (value.size == WEIR_VALUE_ABSENT)
            weir_text_lit(text, "null");
        else
            weir_text_json(text, value.data, value.size);
    }
    weir_text_lit(text, "]");
}

static bool write_line(const struct weir_common *common, struct weir_logger *logger, const struct weir_time *time,
                       const struct weir_refusal *refusal, const char *key)
{
    char fields[FIELDS_MAX], message[FIELDS_MAX], hash[24], retry[24] = "null", cut[] = ",\"cut\":true";
    const char *limit = weir_metrics_name(common->metrics, refusal->slot);
    const uint64_t ago_ns = weir_sub_sat(time->now_ns, refusal->now_ns);
    (void)snprintf(hash, sizeof(hash), "%016" PRIx64, weir_top_shown(common->top, refusal->hash));
    if (refusal->retry_after_ns != WEIR_NEVER)
        (void)snprintf(retry, sizeof(retry), "%" PRId64, weir_told_ms(refusal->retry_after_ns));
    if (!refusal->label.known || !refusal->label.cut)
        cut[0] = '\0';
    (void)snprintf(fields, sizeof(fields),
                   "\"limit\":\"%s\",\"key\":%s%s,\"hash\":\"%s\",\"cost\":%" PRIu64
                   ",\"retry_after_ms\":%s,\"left_out\":%" PRIu64 "%s",
                   limit, key, cut, hash, refusal->cost, retry, refusal->left_out,
                   refusal->banned ? ",\"banned\":true" : "");
    (void)snprintf(message, sizeof(message),
                   "limit %s, key %s, hash %s, cost %" PRIu64 ", retry_after_ms %s, left out %" PRIu64 "%s", limit, key,
                   hash, refusal->cost, retry, refusal->left_out, refusal->banned ? ", banned" : "");
    return weir_logger_write_fields(logger, weir_sub_sat(time->wall_ns, ago_ns), WEIR_LOG_INFO, "refused",
                                    logger->format == WEIR_LOG_JSON ? "a request was refused" : message, fields);
}

static void show(struct weir_last *last, const struct weir_time *time, const struct weir_refusal *refusal)
{
    const uint64_t ago_ns = weir_sub_sat(time->now_ns, refusal->now_ns);
    const struct weir_last_refusal shown = { .wall_ns = weir_sub_sat(time->wall_ns, ago_ns), .refusal = *refusal };
    if (last)
        weir_last_put(last, &shown);
}

static void tell(struct weir_refusal_lines *lines, const struct weir_common *common, const struct weir_setup *setup,
                 struct weir_logger *logger, const struct weir_time *time, struct weir_refusal *refusal)
{
    struct place *place = &lines->places[refusal->slot];
    char key[KEY_MAX] = "null";
    /* A reload may have said that keys are not told any more. */
    refusal->label.known = refusal->label.known && setup->config->top_keys == WEIR_TOP_TEXT;
    show(common->last, time, refusal);
    if (setup->config->log_refusals == 0)
        return;
    refusal->left_out += place->left_out;
    if (refusal->label.known) {
        struct weir_text text = weir_text_init(key, sizeof(key) - 1);
        write_key(&text, &refusal->label);
        weir_assert(!text.overflow);
        key[text.size] = '\0';
    }
    if (take_line(lines, place, setup->config->log_refusals, refusal->now_ns / WEIR_NS_PER_SECOND) &&
        write_line(common, logger, time, refusal, key))
        place->left_out = 0;
    else
        place->left_out = refusal->left_out + 1;
}

void weir_refusal_lines_write(struct weir_refusal_lines *lines, const struct weir_common *common,
                              const struct weir_setup *setup, struct weir_logger *logger)
{
    const struct weir_time time = weir_time_read();
    for (size_t i = 0; i < common->loop_count; i++) {
        struct weir_refusals *refusals = atomic_load_explicit(&common->loops[i].refusals, memory_order_acquire);
        struct weir_refusal refusal;
        /* Not without end, while its loop refuses on. */
        for (size_t taken = 0; refusals && taken < WEIR_REFUSALS_ROOM && weir_refusals_take(refusals, &refusal);
             taken++)
            tell(lines, common, setup, logger, &time, &refusal);
    }
}
