/* SPDX-License-Identifier: Apache-2.0
 *
 * The numbers come from the compiled rule (struct weir_rule, filled by rules/compile.c); here they become a sentence,
 * or members of a JSON object. explain.c asks for the limit or override that applies, rules.c for each limit with the
 * largest bound among its overrides. How far failures have raised the bound at a running server is found in
 * serve/bound.c. */
#include "cli/limit_text.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/plural.h"
#include "rules/limit_decode.h"
#include "rules/sharing_decode.h"

#define MS_NS (WEIR_NS_PER_SECOND / 1000)

/* Text put together, cut to fit. */
struct line {
    char *buffer;
    size_t size, used;
};

__attribute__((format(printf, 2, 3))) static void add(struct line *line, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    int more = vsnprintf(line->buffer + line->used, line->size - line->used, format, list);
    va_end(list);
    if (more > 0)
        line->used = line->used + (size_t)more < line->size ? line->used + (size_t)more : line->size - 1;
}

/* Of a configured time, which is in whole ms. */
static void add_time(struct line *line, uint64_t ns)
{
    char text[WEIR_DURATION_SIZE];
    weir_duration_format(ns / MS_NS, text, sizeof(text));
    add(line, "%s", text);
}

/* Whose share is shown: of this node, or where nobody said which one this is, of the first. */
static const char *node_of(const struct weir_config *config)
{
    return config->nodes_count ? config->nodes[config->node].name : NULL;
}

static void add_share(struct line *line, const struct weir_rule *rule, const struct weir_config *config)
{
    char rate[64];
    weir_rate_format(&rule->limit.share, rate, sizeof(rate));
    if (rule->terms.nodes > 1)
        add(line, "the share of node %s, ", node_of(config));
    add(line, "%s capacity %" PRIu64, rate, rule->terms.share);
}

static void add_local(struct line *line, const struct weir_rule *rule, const struct weir_config *config)
{
    char rate[64];
    weir_rate_format(&rule->limit.share, rate, sizeof(rate));
    if (rule->terms.nodes > 1)
        add(line, "each node decides by its share (node %s: ", node_of(config));
    else
        add(line, "this node decides by itself (");
    add(line,
        "%s capacity %" PRIu64
        "), from empty if it has just started. Each outage adds to the overshoot at most %" PRIu64
        "%s, and what comes back meanwhile",
        rate, rule->terms.share, weir_limit_capacity(&rule->whole), config->nodes_count ? "" : " a process");
}

static void add_failure(struct line *line, const struct weir_rule *rule, const struct weir_config *config)
{
    add(line, "; if the engine does not answer within ");
    add_time(line, rule->limit.deadline_ns);
    add(line, ": ");
    if (rule->limit.on_failure == WEIR_ON_FAILURE_OPEN)
        add(line, "admitted, without any bound");
    else if (rule->limit.on_failure == WEIR_ON_FAILURE_CLOSED)
        add(line, "refused");
    else
        add_local(line, rule, config);
}

static void add_slack(struct line *line, const struct weir_told_sharing *terms)
{
    add(line,
        "slack %" PRIu64 ": overshoot at most N*slack = %" PRIu64 ", and %" PRIu64
        " more for each node that crashed while the limit refilled once",
        terms->slack, terms->overshoot_max, terms->slack);
}

void weir_sharing_format(const struct weir_rule *rule, const struct weir_config *config, char *buffer, size_t size)
{
    struct line line = { buffer, size, 0 };
    const struct weir_told_sharing *terms = &rule->terms;
    char rate[64];
    buffer[0] = '\0';
    if (!terms->mode) {
        if (weir_config_nodes(config) > 1)
            add(&line, "exact on each of %" PRIu32 " nodes by itself: they share nothing without an engine",
                weir_config_nodes(config));
        return;
    }
    switch (rule->limit.sharing) {
    case WEIR_SHARING_EXACT:
        add(&line, "exact at the engine: overshoot 0");
        break;
    case WEIR_SHARING_LEASED:
        add(&line, "leased in chunks for ");
        add_time(&line, rule->limit.chunk_ttl_ns);
        add(&line, ": overshoot 0. What one node holds and does not use, the others lack");
        break;
    case WEIR_SHARING_BATCHED:
        add(&line, "batched every ");
        add_time(&line, rule->limit.interval_ns);
        add(&line, " over %" PRIu64 " node%s, ", terms->nodes, weir_s(terms->nodes));
        add_slack(&line, terms);
        break;
    case WEIR_SHARING_SPLIT:
        weir_rate_format(&rule->whole, rate, sizeof(rate));
        add(&line,
            "split: %s over %" PRIu64 " node%s: overshoot 0, and a share more for each node that restarted while %s; ",
            rate, terms->nodes, weir_s(terms->nodes),
            rule->limit.spec.algorithm == WEIR_CONCURRENCY ? "a lease lasts" : "the limit refilled once");
        add_share(&line, rule, config);
        return;
    case WEIR_SHARING_GOSSIP:
        add(&line, "gossiped over %" PRIu64 " node%s, ", terms->nodes, weir_s(terms->nodes));
        add_slack(&line, terms);
        return;
    }
    add_failure(&line, rule, config);
}

static bool at_engine(const struct weir_rule *rule)
{
    return rule->limit.remote && rule->limit.sharing != WEIR_SHARING_GOSSIP;
}

/* What one outage adds to the bound, besides what comes back meanwhile; null: no bound. */
static json_t *outage_json(const struct weir_rule *rule)
{
    if (rule->limit.on_failure == WEIR_ON_FAILURE_OPEN)
        return json_null();
    return json_integer(
        rule->limit.on_failure == WEIR_ON_FAILURE_CLOSED ? 0 : (json_int_t)weir_limit_capacity(&rule->whole));
}

json_t *weir_sharing_json(const struct weir_rule *rule, const struct weir_config *config)
{
    const struct weir_told_sharing *terms = &rule->terms;
    uint32_t nodes = weir_config_nodes(config);
    char rate[64];
    weir_rate_format(&rule->limit.share, rate, sizeof(rate));
    json_t *object = json_pack("{s:s,s:I,s:s?,s:I}", "mode", weir_sharing_words[rule->limit.sharing], "nodes",
                               (json_int_t)nodes, "node", node_of(config), "slack", (json_int_t)rule->limit.slack);
    if (terms->shares)
        (void)json_object_set_new(
            object, "share",
            json_pack("{s:s,s:I}", "rate", rate, "capacity", (json_int_t)weir_limit_capacity(&rule->limit.share)));
    bool bounded = terms->mode || nodes == 1;
    (void)json_object_set_new(object, "overshoot_max",
                              bounded ? json_integer((json_int_t)terms->overshoot_max) : json_null());
    if (rule->limit.sharing == WEIR_SHARING_BATCHED)
        (void)json_object_set_new(object, "interval_ms", json_integer((json_int_t)(rule->limit.interval_ns / MS_NS)));
    if (rule->limit.sharing == WEIR_SHARING_LEASED)
        (void)json_object_set_new(object, "chunk_ttl_ms", json_integer((json_int_t)(rule->limit.chunk_ttl_ns / MS_NS)));
    if (at_engine(rule)) {
        (void)json_object_set_new(object, "on_failure", json_string(weir_on_failure_words[rule->limit.on_failure]));
        (void)json_object_set_new(object, "outage_adds_max", outage_json(rule));
        (void)json_object_set_new(object, "deadline_ms", json_integer((json_int_t)(rule->limit.deadline_ns / MS_NS)));
    }
    return object;
}

/* ---- with overrides ---- */

static uint64_t overshoot_of(const struct weir_rule *rule)
{
    return rule->terms.overshoot_max;
}

static uint64_t outage_of(const struct weir_rule *rule)
{
    return at_engine(rule) && rule->limit.on_failure == WEIR_ON_FAILURE_LOCAL ? weir_limit_capacity(&rule->whole) : 0;
}

/* The override with the largest number, and its line; 0 if none is above the limit's own. */
static uint32_t largest_line(const struct weir_rules *rules, size_t index,
                             uint64_t (*units_of)(const struct weir_rule *rule), uint64_t *ret_units)
{
    uint32_t line = 0;
    *ret_units = units_of(weir_rules_limit(rules, index));
    for (size_t i = 0; i < weir_rules_overrides(rules, index); i++) {
        struct weir_mark mark;
        const struct weir_rule *override = weir_rules_override(rules, index, i, &mark);
        uint64_t units = override->whole.mode == WEIR_MODE_OFF ? 0 : units_of(override);
        if (units > *ret_units) {
            *ret_units = units;
            line = mark.line;
        }
    }
    return line;
}

void weir_limit_format(const struct weir_rules *rules, size_t index, const struct weir_config *config, char *buffer,
                       size_t size)
{
    uint64_t overshoot, outage;
    uint32_t overshoot_line = largest_line(rules, index, overshoot_of, &overshoot);
    uint32_t outage_line = largest_line(rules, index, outage_of, &outage);
    weir_sharing_format(weir_rules_limit(rules, index), config, buffer, size);
    struct line line = { buffer, size, strlen(buffer) };
    if (overshoot_line || outage_line)
        add(&line, "; by overrides more: ");
    if (overshoot_line)
        add(&line, "overshoot at most %" PRIu64 " (line %u)", overshoot, overshoot_line);
    if (outage_line)
        add(&line, "%seach outage adds at most %" PRIu64 " (line %u)", overshoot_line ? ", " : "", outage, outage_line);
}

static void largest_set(json_t *object, const char *member, uint64_t units, const char *member_line, uint32_t line)
{
    if (line == 0)
        return;
    (void)json_object_set_new(object, member, json_integer((json_int_t)units));
    (void)json_object_set_new(object, member_line, json_integer((json_int_t)line));
}

json_t *weir_limit_json(const struct weir_rules *rules, size_t index, const struct weir_config *config)
{
    uint64_t overshoot, outage;
    uint32_t overshoot_line = largest_line(rules, index, overshoot_of, &overshoot);
    uint32_t outage_line = largest_line(rules, index, outage_of, &outage);
    json_t *object = weir_sharing_json(weir_rules_limit(rules, index), config);
    largest_set(object, "overshoot_max", overshoot, "overshoot_override_line", overshoot_line);
    largest_set(object, "outage_adds_max", outage, "outage_override_line", outage_line);
    return object;
}

json_t *weir_rollout_json(const struct weir_rule *rule)
{
    char rate[64];
    weir_rate_format(&rule->whole, rate, sizeof(rate));
    json_t *percent = rule->rollout % 10 ? json_real(rule->rollout / 10.0)
                                         : json_integer((json_int_t)(rule->rollout / 10));
    return json_pack("{s:o,s:s,s:s,s:I}", "percent", percent, "mode", weir_mode_words[rule->whole.mode], "rate", rate,
                     "capacity", (json_int_t)weir_limit_capacity(&rule->whole));
}
