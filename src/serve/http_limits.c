/* SPDX-License-Identifier: Apache-2.0
 *
 * GET /v1/limits: which limits are in force on this node, from where, since when and by whom, and how the last reload
 * ended. /readyz?verbose says the same in a few words (http_ready.c). */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/assert.h"
#include "base/checked.h"
#include "observe/hour.h"
#include "rules/level_name.h"
#include "rules/limit_decode.h"
#include "rules/sharing_decode.h"
#include "serve/bound.h"
#include "serve/follower.h"
#include "serve/http_call.h"
#include "serve/loop.h"
#include "wire/limits.h"
#include "wire/query.h"

#define RATE_MAX 64

/* The version by which all loops decide: one that this loop has already may still be unknown to another. */
static uint64_t decided_by(const struct weir_follower_view *view, const struct weir_setup *setup)
{
    return view->in_force > 0 ? view->in_force : setup->origin.rules.number;
}

struct weir_limits weir_http_in_force(struct weir_common *common, const struct weir_setup *setup, char *said,
                                      size_t size)
{
    struct weir_reloads *reloads = &common->reloads;
    struct weir_limits limits = {
        .node = setup->config->nodes_count ? setup->config->node_name : NULL,
        .source = setup->origin.source,
        .by = setup->origin.by,
        .checksum = setup->config->checksum,
        .since_wall_ns = setup->origin.wall_ns,
        .unmatched = setup->config->unmatched == WEIR_UNMATCHED_REFUSE ? "refuse" : "admit",
        .count = weir_rules_count(setup->rules),
    };
    if (common->follower) {
        struct weir_follower_view view;
        weir_follower_view(common->follower, &view);
        limits.store = view.store;
        limits.version = decided_by(&view, setup);
        limits.newest = view.newest;
        limits.others = view.others;
        limits.delay_known = view.delay_known;
        limits.delay_ms = weir_div_ceil(view.delay_ns, WEIR_NS_PER_SECOND / 1000);
    }
    pthread_mutex_lock(&reloads->lock);
    limits.reloads_done = reloads->done;
    limits.reloads_failed = reloads->failed;
    limits.last_failed = reloads->last_failed;
    limits.last_wall_ns = reloads->last_wall_ns;
    (void)snprintf(said, size, "%s", reloads->last_said);
    pthread_mutex_unlock(&reloads->lock);
    limits.last_said = said;
    return limits;
}

static uint64_t fallbacks_of(const struct weir_loop *loop, const struct weir_rule *rule)
{
    uint64_t counts[WEIR_FALLBACK_POLICIES], total = 0;
    weir_metrics_fallbacks(loop->common->metrics, weir_loop_slot(loop, rule->index), counts);
    for (size_t i = WEIR_FALLBACK_NONE + 1; i < WEIR_FALLBACK_POLICIES; i++)
        total += counts[i];
    return total;
}

/* What a limit is told by, and room for it. */
struct told {
    char rate[RATE_MAX], rollout_rate[RATE_MAX], level_rates[WEIR_LEVELS_MAX][RATE_MAX];
    struct weir_limits_level levels[WEIR_LEVELS_MAX];
    struct weir_limits_condition match[WEIR_MATCH_MAX];
};

static void add_levels(const struct weir_loop *loop, size_t index, struct told *told, struct weir_limits_limit *limit)
{
    limit->levels = told->levels;
    limit->levels_count = weir_rules_levels(loop->setup->rules, index);
    for (size_t i = 0; i < limit->levels_count; i++) {
        const struct weir_rule *rule = weir_rules_level_at(loop->setup->rules, index, i, NULL);
        weir_rate_format(&rule->whole, told->level_rates[i], RATE_MAX);
        told->levels[i] = (struct weir_limits_level){ rule->level, weir_mode_words[rule->whole.mode],
                                                      told->level_rates[i], weir_limit_capacity(&rule->whole) };
    }
}

static void add_rollout(const struct weir_loop *loop, size_t index, struct told *told, struct weir_limits_limit *limit)
{
    const struct weir_rule *rule = weir_rules_rollout(loop->setup->rules, index);
    if (!rule)
        return;
    weir_rate_format(&rule->whole, told->rollout_rate, RATE_MAX);
    limit->rollout = rule->rollout;
    limit->rollout_mode = weir_mode_words[rule->whole.mode];
    limit->rollout_rate = told->rollout_rate;
    limit->rollout_capacity = weir_limit_capacity(&rule->whole);
}

/* Lists and what must not be are for people to read (pattern): whoever makes a request from them would go wrong. */
static void add_terms(const struct weir_rule *rule, const struct weir_config_limit *config, struct told *told,
                      struct weir_limits_limit *limit)
{
    static const char *const windows[] = { [WEIR_ALIGN_CALENDAR] = "calendar", [WEIR_ALIGN_FIRST] = "first" };
    const struct weir_limit_spec *spec = &rule->whole;
    for (size_t i = 0; i < config->match_count; i++) {
        const struct weir_condition *condition = &config->match[i];
        const struct weir_slice untold = { 0 };
        told->match[i] = (struct weir_limits_condition){ condition->attribute,
                                                         condition->terms ? untold : condition->pattern };
    }
    limit->key = config->key;
    limit->key_count = config->key_count;
    limit->match = told->match;
    limit->match_count = config->match_count;
    limit->count = spec->count;
    limit->period_ns = spec->period_ns;
    limit->cost = config->cost;
    limit->cost_attribute = config->cost_attribute;
    limit->window = spec->algorithm == WEIR_FIXED_WINDOW ? windows[spec->align] : NULL;
    limit->attempts = spec->count_mode == WEIR_COUNT_ATTEMPTS;
    limit->holds = config->throttle == WEIR_THROTTLE_HOLD;
}

static struct weir_limits_limit limit_of(const struct weir_loop *loop, size_t index, struct told *told)
{
    const struct weir_rule *rule = weir_rules_limit(loop->setup->rules, index);
    const struct weir_config_limit *config = &loop->setup->config->limits[index];
    bool at_engine = rule->limit.remote && rule->limit.sharing != WEIR_SHARING_GOSSIP;
    weir_rate_format(&rule->whole, told->rate, RATE_MAX);
    struct weir_limits_limit limit = {
        .name = rule->name,
        .algorithm = weir_algorithm_name(rule->whole.algorithm),
        .mode = weir_mode_words[rule->whole.mode],
        .rate = told->rate,
        .missing = weir_missing_words[config->missing],
        .capacity = weir_limit_capacity(&rule->whole),
        .overrides = config->overrides_count - config->levels_count - (config->rollout > 0),
        .since_wall_ns = config->since_wall_ns ? config->since_wall_ns : loop->setup->origin.wall_ns,
        .replaced = config->replaced,
        .undecidable = config->undecidable,
        .sharing = rule->terms.mode ? &rule->terms : NULL,
        .on_failure = at_engine ? weir_on_failure_words[rule->limit.on_failure] : NULL,
        .fallbacks = at_engine ? fallbacks_of(loop, rule) : 0,
        .hour = weir_loop_slot(loop, rule->index) < WEIR_HOUR_LIMITS
                    ? NULL
                    : weir_metrics_name(loop->common->metrics, WEIR_METRICS_OTHER),
    };
    add_terms(rule, config, told, &limit);
    add_levels(loop, index, told, &limit);
    add_rollout(loop, index, told, &limit);
    return limit;
}

/* Of all its keys. Slow where there are many overrides. */
static void add_bound(const struct weir_loop *loop, size_t index, struct weir_limits_limit *limit)
{
    if (!limit->sharing)
        return;
    uint64_t bound = weir_bound_largest(loop, index, weir_time_read().now_ns, &limit->overshoot_override);
    limit->overshoot_added = bound == WEIR_NEVER ? WEIR_NEVER : bound - limit->sharing->overshoot_max;
}

/* ?seen=42: who has seen that version at another node is not told of an older one. False: it has been answered. */
static bool is_current(struct weir_http_call *call)
{
    char digits[24], detail[200];
    struct weir_query_field field = { "seen", digits, sizeof(digits), false };
    struct weir_fault fault = { 0 };
    const struct weir_loop *loop = call->conn->loop;
    struct weir_follower_view view = { 0 };
    uint64_t seen = 0;
    int error = weir_query_read(call->request->query, &field, 1, &fault);
    if (!error && field.given)
        error = weir_query_number(&field, 0, WEIR_RULE_VERSIONS_MAX, &seen, &fault);
    if (error) {
        weir_http_reply_fault(call, error, &fault);
        return false;
    }
    if (loop->common->follower)
        weir_follower_view(loop->common->follower, &view);
    const uint64_t version = decided_by(&view, loop->setup);
    if (seen <= version)
        return true;
    if (seen > weir_max_u64(view.newest, version) && seen <= view.looked) { /* it never will */
        (void)snprintf(detail, sizeof(detail),
                       seen > view.others ? "version %" PRIu64
                                            " is a proposal: nobody decides by it until it is approved, which makes "
                                            "it another version; this node decides by version %" PRIu64
                                          : "version %" PRIu64
                                            " is for other nodes, or a proposal; this node decides by version %" PRIu64,
                       seen, version);
        weir_http_reply_problem(call, 409, "", detail);
        return false;
    }
    (void)snprintf(detail, sizeof(detail), "this node still decides by version %" PRIu64 " of the rules: ask again",
                   version);
    weir_http_reply_problem(call, 503, "Retry-After: 1\r\n", detail);
    return false;
}

void weir_http_limits(struct weir_http_call *call)
{
    struct weir_loop *loop = call->conn->loop;
    if (!is_current(call))
        return;
    char said[sizeof(loop->common->reloads.last_said)];
    struct told told;
    const struct weir_limits limits = weir_http_in_force(loop->common, loop->setup, said, sizeof(said));
    size_t room = weir_limits_head_max(&limits) + 2;
    for (size_t i = 0; i < limits.count; i++) {
        const struct weir_limits_limit limit = limit_of(loop, i, &told);
        room += weir_limits_limit_max(&limit);
    }
    uint8_t *body = malloc(room);
    if (!body) {
        weir_http_reply_problem(call, 503, "", "out of memory");
        return;
    }
    struct weir_text text = weir_text_init(body, room);
    weir_limits_head(&text, &limits);
    for (size_t i = 0; i < limits.count; i++) {
        struct weir_limits_limit limit = limit_of(loop, i, &told);
        add_bound(loop, i, &limit);
        weir_limits_limit(&text, &limit, i == 0);
    }
    weir_limits_end(&text);
    weir_assert(!text.overflow);
    weir_http_reply_long(call, WEIR_HTTP_JSON, "", body, text.size);
}
