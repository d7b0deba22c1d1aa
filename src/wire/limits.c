/* SPDX-License-Identifier: Apache-2.0
 *
 * The body is written in parts: head, one limit after the other, end. Head and limits have each a function that bounds
 * their length. Called by serve/http_limits.c; cli/in_force.c, which reads such a body, takes the spelling of the
 * checksum from here. */
#include "wire/limits.h"

#include <stdio.h>

#include "base/checked.h"
#include "wire/check.h"

void weir_limits_checksum(uint64_t checksum, char ret_text[WEIR_LIMITS_CHECKSUM_SIZE])
{
    (void)snprintf(ret_text, WEIR_LIMITS_CHECKSUM_SIZE, "%016llx", (unsigned long long)checksum);
}

void weir_limits_head(struct weir_text *text, const struct weir_limits *limits)
{
    char checksum[WEIR_LIMITS_CHECKSUM_SIZE];
    weir_limits_checksum(limits->checksum, checksum);
    weir_text_member(text, "{\"node\":", limits->node);
    weir_text_member(text, ",\"source\":", limits->source);
    weir_text_member(text, ",\"checksum\":", checksum);
    weir_text_member_utc(text, ",\"since\":", limits->since_wall_ns);
    weir_text_member(text, ",\"by\":", limits->by);
    if (limits->store) {
        weir_text_member(text, ",\"rules\":{\"store\":", limits->store);
        weir_text_member_u64(text, ",\"version\":", limits->version);
        weir_text_member_u64(text, ",\"newest\":", limits->newest);
        if (limits->others > 0)
            weir_text_member_u64(text, ",\"for_others\":", limits->others);
        if (limits->delay_known)
            weir_text_member_u64(text, ",\"delay_ms\":", limits->delay_ms);
        weir_text_str(text, limits->delay_known ? "}" : ",\"delay_ms\":null}");
    }
    weir_text_member_u64(text, ",\"reloads\":{\"done\":", limits->reloads_done);
    weir_text_member_u64(text, ",\"failed\":", limits->reloads_failed);
    weir_text_str(text, limits->last_failed ? ",\"last_failed\":true" : ",\"last_failed\":false");
    weir_text_member_utc(text, ",\"last\":", limits->last_wall_ns);
    weir_text_member(text, ",\"said\":", limits->last_wall_ns ? limits->last_said : NULL);
    weir_text_member(text, "},\"unmatched\":", limits->unmatched);
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
    weir_text_member_u64(text, ",\"rollout\":{\"percent\":", limit->rollout / 10);
    if (limit->rollout % 10)
        weir_text_member_u64(text, ".", limit->rollout % 10);
    weir_text_member(text, ",\"mode\":", limit->rollout_mode);
    weir_text_member(text, ",\"rate\":", limit->rollout_rate);
    weir_text_member_u64(text, ",\"capacity\":", limit->rollout_capacity);
    weir_text_lit(text, "}");
}

static void level_list(struct weir_text *text, const struct weir_limits_limit *limit)
{
    for (size_t i = 0; i < limit->levels_count; i++) {
        const struct weir_limits_level *level = &limit->levels[i];
        weir_text_member(text, i == 0 ? ",\"levels\":[{\"level\":" : ",{\"level\":", level->name);
        weir_text_member(text, ",\"mode\":", level->mode);
        weir_text_member(text, ",\"rate\":", level->rate);
        weir_text_member_u64(text, ",\"capacity\":", level->capacity);
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

/* Whom it counts, and its numbers as numbers: for programs that compute with them. */
static void terms(struct weir_text *text, const struct weir_limits_limit *limit)
{
    weir_text_lit(text, ",\"key\":[");
    for (size_t i = 0; i < limit->key_count; i++)
        weir_text_member(text, i == 0 ? "" : ",", limit->key[i]);
    weir_text_lit(text, "],\"match\":{");
    for (size_t i = 0; i < limit->match_count; i++) {
        const struct weir_limits_condition *condition = &limit->match[i];
        weir_text_member(text, i == 0 ? "" : ",", condition->attribute);
        weir_text_lit(text, ":");
        if (condition->pattern.data)
            weir_text_json(text, condition->pattern.data, condition->pattern.size);
        else
            weir_text_lit(text, "null");
    }
    weir_text_member_u64(text, "},\"count\":", limit->count);
    weir_text_member_u64(text, ",\"period_ms\":", weir_div_ceil(limit->period_ns, 1000000));
    if (limit->cost_attribute)
        weir_text_member(text, ",\"cost\":", limit->cost_attribute);
    else
        weir_text_member_u64(text, ",\"cost\":", limit->cost);
    if (limit->window)
        weir_text_member(text, ",\"window\":", limit->window);
    if (limit->attempts)
        weir_text_lit(text, ",\"counts\":\"attempts\"");
    if (limit->holds)
        weir_text_lit(text, ",\"throttle\":\"hold\"");
}

static size_t terms_max(const struct weir_limits_limit *limit)
{
    size_t max = 180 + (limit->cost_attribute ? weir_text_json_max(limit->cost_attribute) : 0);
    for (size_t i = 0; i < limit->key_count; i++)
        max += 1 + weir_text_json_max(limit->key[i]);
    for (size_t i = 0; i < limit->match_count; i++)
        max += 8 + weir_text_json_max(limit->match[i].attribute) + 6 * limit->match[i].pattern.size;
    return max;
}

void weir_limits_limit(struct weir_text *text, const struct weir_limits_limit *limit, bool first)
{
    weir_text_member(text, first ? "{\"limit\":" : ",{\"limit\":", limit->name);
    weir_text_member(text, ",\"algorithm\":", limit->algorithm);
    weir_text_member(text, ",\"mode\":", limit->mode);
    weir_text_member(text, ",\"rate\":", limit->rate);
    weir_text_member_u64(text, ",\"capacity\":", limit->capacity);
    weir_text_member(text, ",\"missing\":", limit->missing);
    terms(text, limit);
    weir_text_member_u64(text, ",\"overrides\":", limit->overrides);
    level_list(text, limit);
    if (limit->rollout > 0)
        rollout(text, limit);
    weir_text_member_utc(text, ",\"since\":", limit->since_wall_ns);
    if (limit->replaced)
        weir_text_lit(text, ",\"replaced\":true");
    if (limit->undecidable)
        weir_text_lit(text, ",\"undecidable\":true");
    if (limit->sharing)
        weir_told_sharing(text, limit->sharing, limit->overshoot_added);
    if (limit->sharing && limit->overshoot_override)
        weir_text_lit(text, ",\"overshoot_of\":\"override\"");
    if (limit->on_failure) {
        weir_text_member(text, ",\"on_failure\":", limit->on_failure);
        weir_text_member_u64(text, ",\"fallbacks\":", limit->fallbacks);
    }
    if (limit->hour)
        weir_text_member(text, ",\"hour\":", limit->hour);
    weir_text_lit(text, "}");
}

size_t weir_limits_limit_max(const struct weir_limits_limit *limit)
{
    return 360 + weir_text_json_max(limit->name) + weir_text_json_max(limit->algorithm) +
           weir_text_json_max(limit->mode) + weir_text_json_max(limit->rate) + weir_text_json_max(limit->missing) +
           weir_text_json_max(limit->on_failure) + (limit->sharing ? weir_told_sharing_max(limit->sharing) : 0) +
           (limit->rollout ? 100 + weir_text_json_max(limit->rollout_mode) + weir_text_json_max(limit->rollout_rate)
                           : 0) +
           (limit->hour ? 8 + weir_text_json_max(limit->hour) : 0) + level_list_max(limit) + terms_max(limit);
}

void weir_limits_end(struct weir_text *text)
{
    weir_text_lit(text, "]}");
}
