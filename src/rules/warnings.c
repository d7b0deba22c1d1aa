/* SPDX-License-Identifier: Apache-2.0
 *
 * Most functions look for one thing in one limit and add a warning with its place; none changes the limit. The names of
 * attributes are left to attribute_warnings.c. What limits do to each other is found in overlaps.c, how nodes share
 * them in sharing_decode.c. Called by config.c as its last step, if there was no error. */
#include "rules/warnings.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/checked.h"
#include "rules/attribute_warnings.h"
#include "rules/condition.h"
#include "rules/envoy_rules.h"
#include "rules/pattern.h"
#include "rules/rollout.h"
#include "table/logs.h"

#define FAST_PER_SECOND 10

/* A burst of more than one second of the rate, on limits faster than 10/s: the first second admits more than twice what
 * the rate says, which on a slow limit is what a burst is for. A leaky bucket never lets its burst pass at once. */
static int burst_check(struct weir_decode *decode, struct weir_mark mark, const char *name,
                       const struct weir_limit_spec *spec)
{
    bool bucket = spec->algorithm == WEIR_TOKEN_BUCKET;
    weir_u128 per_second = (weir_u128)spec->count * WEIR_NS_PER_SECOND; /* times period_ns */
    uint64_t burst = weir_limit_capacity(spec);
    if (!bucket || per_second <= (weir_u128)FAST_PER_SECOND * spec->period_ns ||
        (weir_u128)burst * spec->period_ns <= per_second)
        return 0;
    return weir_decode_warn(decode, mark,
                            "limit \"%s\" has a burst of %" PRIu64 ", more than one second of its rate (%" PRIu64
                            "): that many pass at once",
                            name, burst, weir_mul_div(spec->count, WEIR_NS_PER_SECOND, spec->period_ns));
}

/* Waiters whose time is over before their turn leave room in the bucket that nobody ever uses. */
static int hold_check(struct weir_decode *decode, const struct weir_config_limit *limit)
{
    const struct weir_limit_spec *spec = &limit->spec;
    if (limit->throttle != WEIR_THROTTLE_HOLD || spec->count == 0 || spec->burst == 0)
        return 0;                                  /* a burst that was not said was not meant */
    uint64_t capacity = weir_limit_capacity(spec); /* the first goes at once, the last waits for all others */
    uint64_t waits_ns = weir_mul_div(capacity - 1, spec->period_ns, spec->count);
    uint64_t fits = weir_mul_div(limit->hold_timeout_ns, spec->count, spec->period_ns);
    if (waits_ns > limit->hold_timeout_ns)
        return weir_decode_warn(decode, limit->mark_hold,
                                "limit \"%s\" never uses its burst of %" PRIu64 ": after %" PRIu64
                                " the wait is above hold_timeout",
                                limit->name, capacity, weir_min_u64(fits, capacity - 1) + 1);
    if (capacity - 1 > limit->hold_max)
        return weir_decode_warn(decode, limit->mark_hold,
                                "limit \"%s\" never uses its burst of %" PRIu64 ": hold_max lets %u wait, of all keys",
                                limit->name, capacity, limit->hold_max);
    return 0;
}

/* How many limits share what permits may take. */
static size_t concurrency_limits(const struct weir_config *config)
{
    size_t count = 0;
    for (size_t i = 0; i < config->limits_count; i++)
        count += config->limits[i].spec.algorithm == WEIR_CONCURRENCY;
    return count;
}

/* One key's times, or permits, that never find room: the limit is lower than it says. */
static int log_check(struct weir_decode *decode, const struct weir_config_limit *limit)
{
    const struct weir_config *config = decode->config;
    const struct weir_limit_spec *spec = &limit->spec;
    bool permits = spec->algorithm == WEIR_CONCURRENCY;
    bool here = limit->sharing == WEIR_SHARING_SPLIT ||
                (limit->sharing == WEIR_SHARING_EXACT && config->redis.servers_count == 0);
    uint64_t count = limit->sharing == WEIR_SHARING_SPLIT ? weir_div_ceil(spec->count, weir_config_nodes(config))
                                                          : spec->count;
    uint32_t longest = 0;
    if ((spec->algorithm != WEIR_SLIDING_LOG && !permits) || !here)
        return 0;
    size_t bytes = config->log_memory_max ? config->log_memory_max : config->memory_max / 8;
    if (weir_logs_longest(bytes, permits ? concurrency_limits(config) : 0, &longest) != 0)
        return weir_decode_nomem(decode);
    uint64_t room = permits ? longest / 2 : longest; /* a permit takes two words */
    if (count <= room)
        return 0;
    return weir_decode_warn(decode, limit->mark_rate,
                            "limit \"%s\" never admits %" PRIu64 ": table.log_memory has room for %" PRIu64
                            " of one key",
                            limit->name, count, room);
}

static bool is_off(const struct weir_limit_spec *spec)
{
    return spec->mode == WEIR_MODE_OFF;
}

/* Whether it is for one kind of Envoy's descriptors: these are told `unlimited` where their limit is off. */
static bool is_of_descriptor(const struct weir_config_limit *limit)
{
    for (size_t i = 0; i < limit->match_count; i++)
        if (strcmp(limit->match[i].attribute, WEIR_ENVOY_DESCRIPTOR) == 0)
            return true;
    return false;
}

/* The limit is off, or an override for every key turns it off, and no other override, or level, turns it on. */
static int off_check(struct weir_decode *decode, const struct weir_config_limit *limit)
{
    bool off = is_off(&limit->spec) && !is_of_descriptor(limit);
    for (size_t i = 0; i < limit->overrides_count; i++) {
        const struct weir_config_override *override = &limit->overrides[i];
        bool rollout = limit->rollout > 0 && i + 1 == limit->overrides_count;
        if (override->level && is_off(&override->spec))
            continue; /* of its keys alone */
        bool every = rollout ? limit->rollout == WEIR_ROLLOUT_ALL
                             : limit->missing == WEIR_MISSING_SKIP; /* else there are those who lack it, too */
        if (override->shadowed)
            continue;
        if (!is_off(&override->spec))
            return 0;
        for (size_t j = 0; j < override->conditions_count; j++)
            every = every && !override->conditions[j].terms && weir_pattern_is_any(override->conditions[j].pattern);
        off = off || every;
    }
    if (!off)
        return 0;
    return weir_decode_warn(decode, limit->mark, "limit \"%s\" can never match: its mode is off for every key",
                            limit->name);
}

/* ::ffff:192.0.2.* would be meant for mapped addresses, which are seen in their IPv4 form. */
static int mapped_check(struct weir_decode *decode, struct weir_mark mark, struct weir_slice pattern)
{
    const char *text = pattern.data;
    if (pattern.size < 9 || strncasecmp(text, "::ffff:", 7) != 0 || !strpbrk(text + 7, ".*"))
        return 0;
    return weir_decode_warn(decode, mark,
                            "\"%.64s\" can never match an IPv4 address: ::ffff:192.0.2.1 is seen as 192.0.2.1", text);
}

static int condition_check(struct weir_decode *decode, const struct weir_condition *condition)
{
    int error = condition->terms ? 0 : mapped_check(decode, condition->mark, condition->pattern);
    for (size_t i = 0; condition->terms && i < condition->terms->count && !error; i++)
        error = mapped_check(decode, condition->mark, condition->terms->list[i].text);
    return error;
}

/* Conditions on one attribute that no value satisfies together; and a key that needs what match says is not there. */
static int match_check(struct weir_decode *decode, const struct weir_config_limit *limit)
{
    int error = 0;
    for (size_t i = 0; i < limit->match_count && !error; i++) {
        const struct weir_condition *condition = &limit->match[i];
        const struct weir_condition *next = i + 1 < limit->match_count ? condition + 1 : NULL;
        error = condition_check(decode, condition);
        if (!error && next && strcmp(condition->attribute, next->attribute) == 0 &&
            weir_conditions_conflict(condition, next))
            error = weir_decode_warn(
                decode, condition->mark, "limit \"%s\" can never match: no value of %s is %.64s and %.64s", limit->name,
                condition->attribute, (const char *)condition->pattern.data, (const char *)next->pattern.data);
    }
    for (size_t i = 0; i < limit->key_count && limit->missing == WEIR_MISSING_SKIP && !error; i++)
        for (size_t j = 0; j < limit->match_count && !error; j++) {
            const struct weir_condition there = { .attribute = limit->key[i], .pattern = { "*", 1 } };
            if (strcmp(limit->match[j].attribute, there.attribute) == 0 &&
                weir_conditions_conflict(&limit->match[j], &there))
                error = weir_decode_warn(decode, limit->match[j].mark,
                                         "limit \"%s\" can never match: its key needs %s, which must not be there",
                                         limit->name, there.attribute);
        }
    return error;
}

/* A value that the limit's own match refuses. */
static int override_check(struct weir_decode *decode, const struct weir_config_limit *limit,
                          const struct weir_config_override *override)
{
    int error = 0;
    for (size_t i = 0; i < override->conditions_count && !error; i++) {
        const struct weir_condition *condition = &override->conditions[i];
        error = condition_check(decode, condition);
        for (size_t j = 0; j < limit->match_count && !error; j++)
            if (strcmp(limit->match[j].attribute, condition->attribute) == 0 &&
                weir_conditions_conflict(&limit->match[j], condition))
                error = weir_decode_warn(decode, condition->mark,
                                         "this override can never match: limit \"%s\" itself asks for %s \"%.64s\"",
                                         limit->name, condition->attribute, (const char *)limit->match[j].pattern.data);
    }
    return error;
}

/* An attribute of the key that is called like a setting can be given only in the long form. */
static int shadowed_check(struct weir_decode *decode, const struct weir_config_limit *limit)
{
    static const char *const settings[] = { "rate", "burst", "mode", "key" };
    int error = 0;
    const size_t named = limit->overrides_count - limit->levels_count - (limit->rollout > 0);
    for (size_t i = 0; i < limit->key_count && named > 0; i++)
        for (size_t j = 0; j < sizeof(settings) / sizeof(settings[0]) && !error; j++)
            if (strcmp(limit->key[i], settings[j]) == 0)
                error = weir_decode_warn(decode, limit->mark,
                                         "attribute \"%s\" of limit \"%s\" is shadowed by the setting of that name in "
                                         "its overrides: write key: { %s: ... } there",
                                         settings[j], limit->name, settings[j]);
    return error;
}

static int limit_check(struct weir_decode *decode, const struct weir_config_limit *limit)
{
    int error = burst_check(decode, limit->mark_burst, limit->name, &limit->spec);
    if (!error)
        error = off_check(decode, limit);
    if (!error)
        error = shadowed_check(decode, limit);
    if (!error)
        error = match_check(decode, limit);
    if (!error)
        error = hold_check(decode, limit);
    if (!error)
        error = log_check(decode, limit);
    if (!error && limit->spec.tz && strcmp(limit->spec.tz, "UTC") != 0 && limit->spec.calendar == WEIR_CALENDAR_FIXED)
        error = weir_decode_warn(decode, limit->mark_tz,
                                 "tz has no effect on limit \"%s\": only windows of day, week, month and year follow a "
                                 "time zone",
                                 limit->name);
    for (size_t i = 0; i < limit->overrides_count && !error; i++) {
        const struct weir_config_override *override = &limit->overrides[i];
        bool changed = override->spec.count != limit->spec.count || override->spec.burst != limit->spec.burst ||
                       override->spec.period_ns != limit->spec.period_ns;
        if (changed)
            error = burst_check(decode, override->mark, limit->name, &override->spec);
        if (!error)
            error = override_check(decode, limit, override);
    }
    return error;
}

static int by_place(const void *a, const void *b)
{
    const struct weir_config_warning *left = a;
    const struct weir_config_warning *right = b;
    if (left->mark.line != right->mark.line)
        return left->mark.line < right->mark.line ? -1 : 1;
    return (left->mark.column > right->mark.column) - (left->mark.column < right->mark.column);
}

int weir_warnings_find(struct weir_decode *decode)
{
    struct weir_config *config = decode->config;
    int error = 0;
    for (size_t i = 0; i < config->limits_count && !error; i++)
        error = limit_check(decode, &config->limits[i]);
    if (!error)
        error = weir_attributes_check(decode);
    if (!error && config->unmatched == WEIR_UNMATCHED_REFUSE && config->limits_count == 0)
        error = weir_decode_warn(decode, (struct weir_mark){ 1, 1 },
                                 "every request is refused: there are no limits, and unmatched: refuse");
    if (!error && config->warnings_count)
        qsort(config->warnings, config->warnings_count, sizeof(*config->warnings), by_place);
    return error;
}
