/* SPDX-License-Identifier: Apache-2.0
 *
 * The values of the key are found once more, as for people (rules/key.c), and hashed with the names of the attributes:
 * that is how a ban is stored. Called by decide.c, after the match. */
#include "serve/banned.h"

#include <string.h>

#include "rules/banned_keys.h"
#include "serve/refused.h"

/* The values of one charge's key as a ban has them. False: an attribute is absent, and such keys are not banned. */
static bool hash_of(const struct weir_loop *loop, const struct weir_question *question, const struct weir_rule *rule,
                    uint64_t *ret_hash)
{
    struct weir_siphash_state state;
    struct weir_rules_key key;
    const struct weir_rules *rules = loop->setup->rules;
    weir_rules_key(rules, rule, question->attributes, question->count, &key);
    weir_banned_keys_hash_start(loop->common->banned, rule->name, &state);
    for (size_t i = 0; i < key.count; i++) {
        const char *name = weir_rules_key_name(rules, rule, i);
        if (key.values[i].size == WEIR_VALUE_ABSENT)
            return false;
        weir_banned_keys_hash_add(&state, (struct weir_slice){ name, strlen(name) });
        weir_banned_keys_hash_add(&state, key.values[i]);
    }
    *ret_hash = weir_banned_keys_hash_end(&state);
    return true;
}

/* The charge that is banned for longest; the count of charges: none is. */
static size_t find(const struct weir_loop *loop, const struct weir_question *question, uint64_t wall_ns,
                   const struct weir_match *match, uint64_t *ret_left_ns)
{
    size_t found = match->count;
    for (size_t i = 0; i < match->count; i++) {
        uint64_t hash, left_ns;
        if (match->charges[i].cost == 0 || match->rules[i]->limit.spec.mode == WEIR_MODE_SHADOW ||
            !hash_of(loop, question, match->rules[i], &hash) ||
            !weir_banned_keys_find(loop->common->banned, hash, wall_ns, &left_ns))
            continue;
        if (found < match->count && left_ns <= *ret_left_ns)
            continue;
        found = i;
        *ret_left_ns = left_ns;
    }
    return found;
}

bool weir_banned(struct weir_loop *loop, const struct weir_question *question, const struct weir_time *time,
                 struct weir_outcome *outcome)
{
    struct weir_match *match = &outcome->match;
    uint64_t left_ns = 0;
    if (!loop->common->banned || !weir_banned_keys_any(loop->common->banned))
        return false;
    const size_t found = find(loop, question, time->wall_ns, match, &left_ns);
    if (found == match->count)
        return false;
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
    return true;
}
