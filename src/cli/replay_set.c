/* SPDX-License-Identifier: Apache-2.0
 *
 * Decides as `weir serve` does (serve/decide.c): the same match, the same limiter with the same memory, by the log's
 * time. What differs is said: limits that nodes share are kept here as one counter, exactly; waiters of throttle: hold
 * are not counted against hold_max; and permits are given back when the log says that the request had ended. Called by
 * replay_run.c. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "cli/plain.h"
#include "cli/replay.h"
#include "cli/replay_permits.h"

#define MAINTAIN_NS (60 * WEIR_NS_PER_SECOND) /* of the log */
#define MAINTAIN_LINES 4096

/* ---- loading ---- */

static void faults_print(const char *file, const struct weir_config_faults *faults)
{
    char text[1024], plain[WEIR_PLAIN_SIZE(sizeof(text))];
    for (size_t i = 0; i < faults->count; i++) {
        weir_config_fault_format(&faults->list[i], file, text, sizeof(text));
        fprintf(stderr, "%s\n", weir_plain(text, plain, sizeof(plain)));
    }
}

/* The number of the attribute among the names, for the set too; false: there is no room. */
static bool name_add(struct weir_replay_set *set, struct weir_replay_names *names, const char *name)
{
    size_t i = 0;
    while (i < names->count && strcmp(names->list[i], name) != 0)
        i++;
    if (i == WEIR_ACCESS_WANTED_MAX) {
        weir_plain_line(stderr, "weir: %s: the limits look at more than %d attributes", set->file,
                        WEIR_ACCESS_WANTED_MAX);
        return false;
    }
    names->list[i] = name;
    names->count += i == names->count;
    for (size_t j = 0; j < set->attributes_count; j++)
        if (set->attributes[j] == i)
            return true;
    set->attributes[set->attributes_count++] = (uint8_t)i;
    return true;
}

static bool names_add(struct weir_replay_set *set, struct weir_replay_names *names)
{
    bool good = true;
    for (size_t i = 0; i < set->config->limits_count && good; i++) {
        const struct weir_config_limit *limit = &set->config->limits[i];
        for (size_t j = 0; j < limit->match_count && good; j++)
            good = name_add(set, names, limit->match[j].attribute);
        for (size_t j = 0; j < limit->key_count && good; j++)
            good = name_add(set, names, limit->key[j]);
        if (limit->cost_attribute && good)
            good = name_add(set, names, limit->cost_attribute);
    }
    return good;
}

bool weir_replay_set_load(struct weir_replay_set *set, const char *file, const char *node,
                          struct weir_replay_names *names)
{
    struct weir_config_faults faults;
    *set = (struct weir_replay_set){ .file = file };
    int error = weir_config_load_telling(file, &set->config, &faults);
    if (!error && node) {
        faults.count = 1;
        error = weir_config_be(set->config, node, &faults.list[0]);
    }
    if (error)
        faults_print(file, &faults);
    return !error && names_add(set, names);
}

bool weir_replay_set_parse(struct weir_replay_set *set, const char *name, struct weir_slice text,
                           struct weir_replay_names *names)
{
    struct weir_config_faults faults;
    *set = (struct weir_replay_set){ .file = name };
    faults.count = 1;
    if (weir_config_parse(text.data, text.size, &set->config, &faults.list[0]) != 0) {
        faults_print(name, &faults);
        return false;
    }
    return names_add(set, names);
}

/* ---- compiling ---- */

static void limit_off(struct weir_config_limit *limit)
{
    limit->spec.mode = WEIR_MODE_OFF;
    for (size_t i = 0; i < limit->overrides_count; i++)
        limit->overrides[i].spec.mode = WEIR_MODE_OFF;
}

/* As one process alone would keep them. */
static void config_alone(struct weir_replay_set *set, bool durations)
{
    struct weir_config *config = set->config;
    bool engine = config->redis.servers_count > 0;
    for (size_t i = 0; i < config->limits_count; i++) {
        struct weir_config_limit *limit = &config->limits[i];
        set->shared = set->shared || engine || limit->sharing != WEIR_SHARING_EXACT;
        set->held = set->held || limit->throttle == WEIR_THROTTLE_HOLD;
        limit->sharing = WEIR_SHARING_EXACT;
        limit->owned = false;
        if (limit->spec.algorithm == WEIR_CONCURRENCY && !durations) {
            set->concurrency_skipped = true;
            limit_off(limit);
        }
    }
    config->redis.servers_count = 0;
    config->nodes_count = 0;
}

static bool limits_make(struct weir_replay_set *set)
{
    bool concurrency = false;
    set->limits_count = weir_rules_count(set->rules);
    set->limits = calloc(set->limits_count + 1, sizeof(set->limits[0]));
    for (size_t i = 0; i < set->limits_count && set->limits; i++) {
        const struct weir_rule *rule = weir_rules_limit(set->rules, i);
        set->limits[i].name = rule->name;
        concurrency = concurrency || rule->limit.spec.algorithm == WEIR_CONCURRENCY;
    }
    if (set->limits)
        set->limits[set->limits_count].name = "(unmatched)";
    set->permits = concurrency ? weir_replay_permits_create() : NULL;
    if (set->limits && (set->permits || !concurrency))
        return true;
    fputs("weir: out of memory\n", stderr);
    return false;
}

bool weir_replay_set_begin(struct weir_replay_set *set, bool durations)
{
    struct weir_config_faults faults;
    const struct weir_config *config = set->config;
    struct weir_fault fault = { "", "" };
    const struct weir_limiter_options options = {
        .memory_max = config->memory_max,
        .log_memory_max = config->log_memory_max,
        .skew_max_ns = config->skew_max_ns,
        .skew_none = config->skew_max_ns == 0,
        .clock = WEIR_CLOCK_MONOTONIC,
        .cluster_secret = config->cluster_secret_set ? config->cluster_secret : NULL,
    };
    config_alone(set, durations);
    int error = weir_limiter_create(&options, &set->limiter, &fault);
    if (error) {
        weir_plain_line(stderr, "weir: %s: %s %s", set->file, fault.field,
                        fault.text[0] ? fault.text : weir_error_text(error));
        return false;
    }
    faults.count = 1;
    if (weir_rules_create(set->limiter, config, &set->rules, &faults.list[0]) != 0) {
        faults_print(set->file, &faults);
        return false;
    }
    return limits_make(set);
}

void weir_replay_set_deinit(struct weir_replay_set *set)
{
    free(set->limits);
    weir_replay_permits_destroy(set->permits);
    weir_rules_destroy(set->rules);
    weir_limiter_destroy(set->limiter);
    weir_config_destroy(set->config);
    *set = (struct weir_replay_set){ 0 };
}

/* ---- deciding ---- */

static bool is_shaped(const struct weir_match *match, size_t i)
{
    const struct weir_rule *rule = match->rules[i];
    return rule->throttle == WEIR_THROTTLE_HOLD && rule->limit.spec.algorithm == WEIR_LEAKY_BUCKET &&
           match->charges[i].cost > 0;
}

/* As serve/hold.c: how long an answer may be held, for every hold_timeout and while the leases of its permits last. */
static uint64_t patience_of(const struct weir_match *match)
{
    uint64_t timeout_ns = WEIR_NEVER, lease_ns = WEIR_NEVER;
    for (size_t i = 0; i < match->count; i++) {
        const struct weir_rule *rule = match->rules[i];
        if (rule->limit.spec.mode != WEIR_MODE_ENFORCE)
            continue;
        if (is_shaped(match, i))
            timeout_ns = weir_min_u64(timeout_ns, rule->hold_timeout_ns);
        if (rule->limit.spec.algorithm == WEIR_CONCURRENCY)
            lease_ns = weir_min_u64(lease_ns, rule->limit.spec.period_ns - 1);
    }
    return timeout_ns == WEIR_NEVER ? WEIR_NEVER : weir_min_u64(timeout_ns, lease_ns);
}

/* As if there were always room to wait. */
static void delays_set(struct weir_match *match)
{
    uint64_t patience_ns = patience_of(match);
    for (size_t i = 0; i < match->count; i++) {
        const struct weir_rule *rule = match->rules[i];
        bool enforced = rule->limit.spec.mode == WEIR_MODE_ENFORCE;
        if (is_shaped(match, i))
            match->charges[i].delay_max_ns = enforced ? patience_ns : rule->hold_timeout_ns;
    }
}

static void error_note(struct weir_replay_set *set, const struct weir_fault *fault, int error)
{
    if (set->errors++ == 0)
        (void)snprintf(set->error, sizeof(set->error), "%s%s%s", fault->field, fault->field[0] ? " " : "",
                       fault->text[0] ? fault->text : weir_error_text(error));
    set->match.count = 0;
}

/* A limit of whose key an attribute is missing refuses; the others are not asked. */
static void missing_refuse(struct weir_replay_set *set)
{
    struct weir_match *match = &set->match;
    match->count = 1;
    match->rules[0] = match->refused_by;
    set->verdicts[0] = (struct weir_verdict){ .admitted = false };
    set->decision = (struct weir_decision){ .admitted = false };
}

static void lacks_count(struct weir_replay_set *set)
{
    for (size_t i = 0; i < set->match.lacks_count; i++)
        if (set->match.lacking[i].lack == WEIR_LACK_SHADOWED)
            set->limits[set->match.lacking[i].rule->index].shadow_refused++;
}

static void verdicts_count(struct weir_replay_set *set)
{
    for (size_t i = 0; i < set->match.count; i++) {
        struct weir_replay_limit *limit = &set->limits[set->match.rules[i]->index];
        const struct weir_verdict *verdict = &set->verdicts[i];
        limit->asked++;
        limit->refused += !verdict->admitted && !verdict->shadow;
        limit->shadow_refused += !verdict->admitted && verdict->shadow;
    }
}

static void permits_take(struct weir_replay_set *set, const struct weir_access_line *line, uint64_t now_ns)
{
    for (size_t i = 0; i < set->match.count; i++) {
        if (set->match.rules[i]->limit.spec.algorithm != WEIR_CONCURRENCY || !set->verdicts[i].ticket)
            continue;
        uint64_t end_ns = now_ns + weir_min_u64(line->duration_ns, WEIR_FILL_MAX_NS);
        set->permits_lost += !weir_replay_permit_add(set->permits, &set->match.charges[i].key, set->verdicts[i].ticket,
                                                     end_ns);
    }
}

/* What a server does on the side, by the log's time. First permits end, at times before this one: the limiter must not
 * see its clock go back. */
static void pass_time(struct weir_replay_set *set, const struct weir_time *time)
{
    if (set->permits)
        weir_replay_permits_end(set->permits, set->limiter, time->now_ns);
    if (time->now_ns < set->maintain_ns)
        return;
    set->maintain_ns = time->now_ns + MAINTAIN_NS;
    (void)weir_limiter_maintain(set->limiter, time, MAINTAIN_LINES);
}

static int match(struct weir_replay_set *set, const struct weir_replay_names *names,
                 const struct weir_access_line *line, struct weir_fault *fault)
{
    struct weir_attribute attributes[WEIR_ACCESS_WANTED_MAX];
    size_t count = 0;
    for (size_t i = 0; i < set->attributes_count; i++) {
        size_t number = set->attributes[i];
        const struct weir_slice value = line->values[number];
        if (value.data)
            attributes[count++] = (struct weir_attribute){ { names->list[number], strlen(names->list[number]) },
                                                           value };
    }
    *fault = (struct weir_fault){ 0 };
    return weir_rules_match(set->rules, attributes, count, 1, &set->match, fault);
}

bool weir_replay_set_decide(struct weir_replay_set *set, const struct weir_replay_names *names,
                            const struct weir_access_line *line, uint64_t now_ns)
{
    const struct weir_time time = { now_ns, now_ns };
    struct weir_fault fault;
    pass_time(set, &time);
    int error = match(set, names, line, &fault);
    set->decision = (struct weir_decision){ .admitted = true };
    if (!error && set->match.refused_by) {
        missing_refuse(set);
    } else if (!error && set->match.count > 0) {
        if (set->held)
            delays_set(&set->match);
        error = weir_limiter_decide(set->limiter, set->match.charges, set->match.count, &time, 0, &set->decision,
                                    set->verdicts);
    } else if (!error && !set->match.met) {
        set->unmatched++;
        set->decision.admitted = set->config->unmatched != WEIR_UNMATCHED_REFUSE;
        set->limits[set->limits_count].asked++;
        set->limits[set->limits_count].refused += !set->decision.admitted;
    }
    if (error) {
        set->decision.admitted = true;
        error_note(set, &fault, error);
        return true;
    }
    set->decided++;
    set->refused += !set->decision.admitted;
    lacks_count(set);
    verdicts_count(set);
    if (set->permits && set->decision.admitted)
        permits_take(set, line, now_ns);
    return set->decision.admitted;
}
