/* SPDX-License-Identifier: Apache-2.0
 *
 * The values of the key are found once more, as for people (rules/key.c), and hashed with the names of the attributes:
 * that is how an exception is stored. Called by decide.c and by resp_check.c, after the match. */
#include "serve/excepted.h"

#include <string.h>

#include "base/checked.h"
#include "rules/exception.h"
#include "serve/refused.h"

/* Of the key of the request under the limit of `rule`, as exceptions have it. False: an attribute is absent, and such
 * keys have none but resets. */
static bool hash_of(const struct weir_loop *loop, const struct weir_question *question, const struct weir_rule *rule,
                    uint64_t *ret_hash)
{
    struct weir_siphash_state state;
    struct weir_rules_key key;
    char absent[WEIR_EXCEPTION_ABSENT_MAX];
    bool whole = true;
    const struct weir_rules *rules = loop->setup->rules;
    weir_rules_key(rules, rule, question->attributes, question->count, &key);
    weir_excepted_keys_hash_start(loop->common->excepted, rule->name, &state);
    for (size_t i = 0; i < key.count; i++) {
        const char *text = weir_rules_key_name(rules, rule, i);
        struct weir_slice name = { text, strlen(text) }, value = key.values[i];
        if (value.size == WEIR_VALUE_ABSENT) {
            whole = false;
            value = weir_exception_absent(name, absent);
            name.size = 0;
        }
        weir_excepted_keys_hash_add(&state, name);
        weir_excepted_keys_hash_add(&state, value);
    }
    *ret_hash = weir_excepted_keys_hash_end(&state);
    return whole;
}

/* A key that was reset counts where it counts since. Permits are given back, and not reset: a limit may have become one
 * of them after the reset. */
static void count_anew(const struct weir_loop *loop, struct weir_match *match, size_t at, uint64_t hash)
{
    const uint64_t mark = weir_excepted_keys_mark(loop->common->excepted, hash);
    if (mark > 0 && match->rules[at]->limit.spec.algorithm != WEIR_CONCURRENCY)
        weir_match_reset(match, at, mark);
}

/* NULL: the limit has no such level (any more), and the exception does nothing. */
static const struct weir_rule *level_of(struct weir_loop *loop, const struct weir_rule *rule, const char *name)
{
    const struct weir_rule *level = weir_rules_level(loop->setup->rules, rule->index, name);
    if (!level)
        weir_count(&loop->counters.levels_unknown, 1);
    return level;
}

/* A limit that is off for the key, but for its level. */
static int turn_on(struct weir_loop *loop, const struct weir_question *question, uint64_t wall_ns,
                   const struct weir_rule *off, struct weir_match *match, struct weir_fault *ret_fault)
{
    struct weir_excepted excepted;
    uint64_t hash;
    const struct weir_rule *level = hash_of(loop, question, off, &hash) &&
                                            weir_excepted_keys_find(loop->common->excepted, hash, wall_ns, &excepted) &&
                                            excepted.level
                                        ? level_of(loop, off, excepted.level)
                                        : NULL;
    int error = level ? weir_match_level_on(loop->setup->rules, question->attributes, question->count, question->cost,
                                            level, match, ret_fault)
                      : 0;
    for (size_t i = 0; level && !error && i < match->count; i++)
        if (match->rules[i] == level)
            count_anew(loop, match, i, hash);
    return error;
}

int weir_excepted_match(struct weir_loop *loop, const struct weir_question *question, uint64_t wall_ns,
                        struct weir_match *match, size_t *ret_banned, uint64_t *ret_left_ns,
                        struct weir_fault *ret_fault)
{
    size_t banned = SIZE_MAX;
    int error = 0;
    *ret_left_ns = 0;
    for (size_t i = 0; i < match->count;) {
        const struct weir_rule *rule = match->rules[i], *level;
        struct weir_excepted excepted;
        uint64_t hash;
        const bool whole = hash_of(loop, question, rule, &hash);
        count_anew(loop, match, i, hash);
        if (!whole || !weir_excepted_keys_find(loop->common->excepted, hash, wall_ns, &excepted)) {
            i++;
        } else if (excepted.level) {
            level = level_of(loop, rule, excepted.level);
            i += !level || weir_match_level(match, i, level);
        } else {
            const bool refuses = match->charges[i].cost > 0 && rule->limit.spec.mode != WEIR_MODE_SHADOW;
            if (refuses && (banned == SIZE_MAX || excepted.left_ns > *ret_left_ns)) {
                banned = i;
                *ret_left_ns = excepted.left_ns;
            }
            i++;
        }
    }
    /* Who is banned is charged nothing. */
    for (size_t i = 0; i < match->offs_count && banned == SIZE_MAX && !error; i++)
        error = turn_on(loop, question, wall_ns, match->offs[i], match, ret_fault);
    *ret_banned = weir_min_u64(banned, match->count);
    return error;
}

int weir_excepted_decide(struct weir_loop *loop, const struct weir_question *question, const struct weir_time *time,
                         struct weir_outcome *outcome, bool *ret_banned, struct weir_fault *ret_fault)
{
    struct weir_match *match = &outcome->match;
    uint64_t left_ns = 0;
    size_t found = 0;
    int error = weir_excepted_match(loop, question, time->wall_ns, match, &found, &left_ns, ret_fault);
    *ret_banned = !error && found < match->count;
    if (!*ret_banned)
        return error;
    const struct weir_rule *rule = match->rules[found];
    const uint32_t slot = weir_loop_slot(loop, rule->index);
    match->rules[0] = rule;
    match->charges[0] = match->charges[found];
    match->remote_keys[0] = match->remote_keys[found];
    match->count = 1;
    match->remote_count = 0;
    outcome->slots[0] = slot;
    outcome->fallbacks[0] = WEIR_FALLBACK_NONE;
    outcome->banned = true;
    outcome->verdicts[0] = (struct weir_verdict){ .capacity = weir_limit_capacity(&rule->limit.spec),
                                                  .retry_after_ns = left_ns,
                                                  .reset_after_ns = left_ns == WEIR_NEVER ? 0 : left_ns,
                                                  .next_after_ns = left_ns == WEIR_NEVER ? 0 : left_ns };
    outcome->decision = (struct weir_decision){ .admitted = false, .deciding = 0, .retry_after_ns = left_ns };
    if (!question->peek) {
        weir_metrics_decided(loop->common->metrics, loop->number, slot, WEIR_METRICS_BANNED, 1);
        weir_refused_outcome(loop, question, outcome, time->now_ns);
    }
    return 0;
}
