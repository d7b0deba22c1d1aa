/* SPDX-License-Identifier: Apache-2.0
 *
 * The body is written in parts: head, one limit after the other, end. Head and limits have each a function that bounds
 * their length. Called by serve/http_limits.c; cli/in_force.c, which reads such a body, takes the spelling of the
 * checksum from here. */
#include "wire/limits.h"

#include <stdio.h>

#include "wire/check.h"

static void string(struct weir_text *text, const char *member, const char *value)
{
    weir_text_str(text, member);
    weir_text_json_or_null(text, value);
}

static void number(struct weir_text *text, const char *member, uint64_t value)
{
    weir_text_str(text, member);
    weir_text_u64(text, value);
}

static void moment(struct weir_text *text, const char *member, uint64_t wall_ns)
{
    weir_text_str(text, member);
    if (wall_ns == 0) {
        weir_text_lit(text, "null");
        return;
    }
    weir_text_lit(text, "\"");
    weir_text_utc(text, wall_ns);
    weir_text_lit(text, "\"");
}

void weir_limits_checksum(uint64_t checksum, char ret_text[WEIR_LIMITS_CHECKSUM_SIZE])
{
    (void)snprintf(ret_text, WEIR_LIMITS_CHECKSUM_SIZE, "%016llx", (unsigned long long)checksum);
}

void weir_limits_head(struct weir_text *text, const struct weir_limits *limits)
{
    char checksum[WEIR_LIMITS_CHECKSUM_SIZE];
    weir_limits_checksum(limits->checksum, checksum);
    string(text, "{\"node\":", limits->node);
    string(text, ",\"source\":", limits->source);
    string(text, ",\"checksum\":", checksum);
    moment(text, ",\"since\":", limits->since_wall_ns);
    string(text, ",\"by\":", limits->by);
    if (limits->store) {
        string(text, ",\"rules\":{\"store\":", limits->store);
        number(text, ",\"version\":", limits->version);
        number(text, ",\"newest\":", limits->newest);
        if (limits->others > 0)
            number(text, ",\"for_others\":", limits->others);
        if (limits->delay_known)
            number(text, ",\"delay_ms\":", limits->delay_ms);
        weir_text_str(text, limits->delay_known ? "}" : ",\"delay_ms\":null}");
    }
    number(text, ",\"reloads\":{\"done\":", limits->reloads_done);
    number(text, ",\"failed\":", limits->reloads_failed);
    weir_text_str(text, limits->last_failed ? ",\"last_failed\":true" : ",\"last_failed\":false");
    moment(text, ",\"last\":", limits->last_wall_ns);
    string(text, ",\"said\":", limits->last_wall_ns ? limits->last_said : NULL);
    string(text, "},\"unmatched\":", limits->unmatched);
    weir_text_lit(text, ",\"limits\":[");
}

size_t weir_limits_head_max(const struct weir_limits *limits)
{
    return 540 + weir_text_json_max(limits->store) + weir_text_json_max(limits->node) +
           weir_text_json_max(limits->source) + weir_text_json_max(limits->by) + weir_text_json_max(limits->last_said) +
           weir_text_json_max(limits->unmatched);
}

static void rollout(struct weir_text *text, const struct weir_limits_limit *limit)
{
    number(text, ",\"rollout\":{\"percent\":", limit->rollout / 10);
    if (limit->rollout % 10)
        number(text, ".", limit->rollout % 10);
    string(text, ",\"mode\":", limit->rollout_mode);
    string(text, ",\"rate\":", limit->rollout_rate);
    number(text, ",\"capacity\":", limit->rollout_capacity);
    weir_text_lit(text, "}");
}

static void level_list(struct weir_text *text, const struct weir_limits_limit *limit)
{
    for (size_t i = 0; i < limit->levels_count; i++) {
        const struct weir_limits_level *level = &limit->levels[i];
        string(text, i == 0 ? ",\"levels\":[{\"level\":" : ",{\"level\":", level->name);
        string(text, ",\"mode\":", level->mode);
        string(text, ",\"rate\":", level->rate);
        number(text, ",\"capacity\":", level->capacity);
        weir_text_lit(text, "}");
    }
    if (limit->levels_count > 0)
        weir_text_lit(text, "]");
}

static size_t level_list_max(const struct weir_limits_limit *limit)
{
    size_t max = 0;
    for (size_t i = 0; i < limit->levels_count; i++)
        max += 90 + weir_text_json_max(limit->levels[i].name) + weir_text_json_max(limit->levels[i].mode) +
               weir_text_json_max(limit->levels[i].rate);
    return max;
}

void weir_limits_limit(struct weir_text *text, const struct weir_limits_limit *limit, bool first)
{
    string(text, first ? "{\"limit\":" : ",{\"limit\":", limit->name);
    string(text, ",\"algorithm\":", limit->algorithm);
    string(text, ",\"mode\":", limit->mode);
    string(text, ",\"rate\":", limit->rate);
    number(text, ",\"capacity\":", limit->capacity);
    string(text, ",\"missing\":", limit->missing);
    number(text, ",\"overrides\":", limit->overrides);
    level_list(text, limit);
    if (limit->rollout > 0)
        rollout(text, limit);
    moment(text, ",\"since\":", limit->since_wall_ns);
    if (limit->replaced)
        weir_text_lit(text, ",\"replaced\":true");
    if (limit->undecidable)
        weir_text_lit(text, ",\"undecidable\":true");
    if (limit->sharing)
        weir_told_sharing(text, limit->sharing, limit->overshoot_added);
    if (limit->sharing && limit->overshoot_override)
        weir_text_lit(text, ",\"overshoot_of\":\"override\"");
    if (limit->on_failure) {
        string(text, ",\"on_failure\":", limit->on_failure);
        number(text, ",\"fallbacks\":", limit->fallbacks);
    }
    weir_text_lit(text, "}");
}

size_t weir_limits_limit_max(const struct weir_limits_limit *limit)
{
    return 360 + weir_text_json_max(limit->name) + weir_text_json_max(limit->algorithm) +
           weir_text_json_max(limit->mode) + weir_text_json_max(limit->rate) + weir_text_json_max(limit->missing) +
           weir_text_json_max(limit->on_failure) + (limit->sharing ? weir_told_sharing_max(limit->sharing) : 0) +
           (limit->rollout ? 100 + weir_text_json_max(limit->rollout_mode) + weir_text_json_max(limit->rollout_rate)
                           : 0) +
           level_list_max(limit);
}

void weir_limits_end(struct weir_text *text)
{
    weir_text_lit(text, "]}");
}
