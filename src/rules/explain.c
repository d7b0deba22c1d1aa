/* SPDX-License-Identifier: Apache-2.0
 *
 * Implements weir_rules_explain of rules.h. It checks the conditions of one limit one by one (condition.c), and the
 * first that does not hold is the reason; if all hold, it looks for the override that applies. It reads the same
 * entries as match.c, but neither the paths nor the look-ups by value. Called by cli/explain.c. */
#include "base/fault_format.h"
#include "rules/compiled.h"
#include "rules/condition.h"
#include "rules/request.h"

static bool condition_holds(const struct weir_rules *rules, const struct weir_request *request,
                            const struct weir_compiled_condition *condition, struct weir_explanation *explanation)
{
    const struct weir_request_value *value = weir_request_find(request, condition->attribute);
    if (weir_condition_holds(condition->pattern, condition->terms, value ? &value->value : NULL))
        return true;
    explanation->reason = value ? WEIR_REASON_MISMATCH : WEIR_REASON_MISSING;
    explanation->attribute = rules->attributes[condition->attribute].name;
    explanation->pattern = condition->pattern;
    return false;
}

static bool entry_holds(const struct weir_rules *rules, const struct weir_request *request,
                        const struct weir_compiled_entry *entry, struct weir_explanation *explanation)
{
    for (uint32_t i = 0; i < entry->conditions_count; i++)
        if (!condition_holds(rules, request, &entry->conditions[i], explanation))
            return false;
    return true;
}

/* The limit's match fits, and `entry` of it applies. */
static void key_explain(const struct weir_rules *rules, const struct weir_request *request,
                        const struct weir_compiled_entry *entry, struct weir_explanation *explanation)
{
    const struct weir_compiled_limit *limit = &rules->limits[entry->rule.index];
    uint32_t lack = weir_request_lack(request, limit);
    bool shadow = entry->rule.limit.spec.mode == WEIR_MODE_SHADOW;
    if (entry->rule.limit.spec.mode == WEIR_MODE_OFF) {
        explanation->reason = WEIR_REASON_OFF;
    } else if (lack) {
        explanation->attribute = rules->attributes[lack].name;
        if (limit->missing == WEIR_MISSING_REFUSE)
            explanation->reason = shadow ? WEIR_REASON_MISSING : WEIR_REASON_REFUSES;
    }
}

/* The override that applies, or the limit itself. */
static const struct weir_compiled_entry *entry_pick(const struct weir_rules *rules, const struct weir_request *request,
                                                    const struct weir_compiled_limit *limit)
{
    struct weir_explanation ignored;
    const struct weir_compiled_entry *best = &rules->entries[limit->first_entry];
    for (uint32_t i = 1; i < limit->entries_count; i++) {
        const struct weir_compiled_entry *entry = &rules->entries[limit->first_entry + i];
        if (!entry->rule.level && entry->rank > best->rank && entry_holds(rules, request, entry, &ignored) &&
            weir_request_is_for(request, rules, entry))
            best = entry;
    }
    return best;
}

int weir_rules_explain(const struct weir_rules *rules, size_t index, const struct weir_attribute *attributes,
                       size_t count, struct weir_explanation *ret_explanation, struct weir_fault *ret_fault)
{
    struct weir_request request;
    if (index >= rules->limits_count)
        return weir_fault_format(ret_fault, WEIR_ENOENT, "index", "must be below %zu", rules->limits_count);
    int error = weir_request_init(&request, rules, attributes, count, ret_fault);
    if (error)
        return error;
    const struct weir_compiled_limit *limit = &rules->limits[index];
    const struct weir_compiled_entry *entry = &rules->entries[limit->first_entry];
    struct weir_explanation explanation = { .reason = WEIR_REASON_APPLIES, .attribute = "" };
    uint32_t lack = weir_request_lack(&request, limit);
    if (!entry_holds(rules, &request, entry, &explanation)) {
        /* it says why */
    } else if (lack && limit->missing == WEIR_MISSING_SKIP) {
        explanation.reason = WEIR_REASON_MISSING;
        explanation.attribute = rules->attributes[lack].name;
    } else {
        entry = entry_pick(rules, &request, limit);
        key_explain(rules, &request, entry, &explanation);
    }
    explanation.rule = &entry->rule;
    explanation.mark = entry->mark;
    *ret_explanation = explanation;
    return 0;
}
