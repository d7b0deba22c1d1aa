/* SPDX-License-Identifier: Apache-2.0
 *
 * Adds to the bound of calm times what on_failure may have admitted (limits/fallback.c); one capacity for each time the
 * engine lost state or, with gossip, one slack for each crash of another node; and one slack while this process is
 * younger than the limit's time to fill (for a split limit only this, with the share's capacity). Called by
 * http_check.c for a verdict and by http_limits.c for the largest bound of a limit. */
#include "serve/bound.h"

#include "base/checked.h"
#include "core/share/gossip.h"
#include "limits/gossip_host.h"

/* Each loss of the engine's state may have admitted one capacity more; each crash of a node that gossips, one slack. */
static uint64_t lost(const struct weir_loop *loop, const struct weir_rule *rule, uint64_t fill_ns, uint64_t now_ns)
{
    if (rule->limit.sharing == WEIR_SHARING_GOSSIP) {
        struct weir_gossip_host *gossip = loop->common->gossip;
        size_t crashes = gossip ? weir_gossip_host_losses(gossip, rule->limit.remote, now_ns) : 0;
        return crashes == WEIR_GOSSIP_LOSSES ? WEIR_NEVER : crashes * rule->limit.slack;
    }
    size_t losses = weir_sharer_losses(&loop->sharer, fill_ns, now_ns);
    return losses == WEIR_SHARER_LOSSES ? WEIR_NEVER : losses * weir_limit_capacity(&rule->whole);
}

/* A share of this process's own memory: the process before it may have admitted one, and it is forgotten. */
static uint64_t split_added(const struct weir_loop *loop, const struct weir_limit_spec *share, uint64_t now_ns)
{
    uint64_t capacity = weir_limit_capacity(share);
    if (share->count == 0)
        return 0;
    uint64_t fill_ns = weir_mul_div_ceil(capacity, share->period_ns, share->count);
    return weir_sub_sat(now_ns, loop->common->started_ns) < fill_ns ? capacity : 0;
}

uint64_t weir_bound_added(const struct weir_loop *loop, const struct weir_rule *rule, uint32_t slot, uint64_t now_ns)
{
    const struct weir_limit_spec *whole = &rule->whole;
    if (rule->limit.sharing == WEIR_SHARING_SPLIT)
        return split_added(loop, &rule->limit.share, now_ns);
    if (!rule->limit.remote || whole->count == 0)
        return 0;
    uint64_t fill_ns = weir_mul_div_ceil(weir_limit_capacity(whole), whole->period_ns, whole->count);
    uint64_t added = weir_fallback_overshoot(loop->common->fallback, slot, whole, now_ns);
    added = weir_add_sat(added, lost(loop, rule, fill_ns, now_ns));
    if (weir_sub_sat(now_ns, loop->common->started_ns) < fill_ns) /* of what may have been a crash */
        added = weir_add_sat(added, rule->limit.slack);
    return added;
}

static uint64_t whole_bound(const struct weir_loop *loop, const struct weir_rule *rule, uint32_t slot, uint64_t now_ns)
{
    return weir_add_sat(rule->terms.overshoot_max, weir_bound_added(loop, rule, slot, now_ns));
}

uint64_t weir_bound_largest(const struct weir_loop *loop, size_t index, uint64_t now_ns, bool *ret_override)
{
    const struct weir_rules *rules = loop->setup->rules;
    const struct weir_rule *limit = weir_rules_limit(rules, index);
    uint32_t slot = weir_loop_slot(loop, limit->index);
    uint64_t largest = whole_bound(loop, limit, slot, now_ns);
    *ret_override = false;
    for (size_t i = 0; i < weir_rules_overrides(rules, index); i++) {
        const struct weir_rule *override = weir_rules_override(rules, index, i, NULL);
        uint64_t bound = override->whole.mode == WEIR_MODE_OFF ? 0 : whole_bound(loop, override, slot, now_ns);
        if (bound > largest) {
            largest = bound;
            *ret_override = true;
        }
    }
    return largest;
}
