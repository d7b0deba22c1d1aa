/* SPDX-License-Identifier: Apache-2.0
 *
 * One key of a share host: which machine it is (leased or batched), by which terms, and one step of it. Called by
 * share_host.c. */
#include "base/units.h"
#include "limits/share_keys.h"

#define LOST_SPARE_NS WEIR_NS_PER_SECOND    /* the remote says so before the machine has to guess */
#define REFUSED_NS (50 * WEIR_NS_PER_MS)    /* leased: as core/share/leased.h suggests */
#define MEMORY_NS (60 * WEIR_NS_PER_SECOND) /* batched: how long the engine remembers a stint */

/* The host's sums follow what a step changed in one key. */
static void step_leased(struct weir_share_key *key, struct weir_share_host_stats *stats,
                        const struct weir_share_event *event, uint64_t now_ns, struct weir_share_effects *effects)
{
    struct weir_leased *machine = &key->as.leased.machine;
    uint64_t pocket = machine->pocket, reserved = machine->reserved, forfeited = machine->forfeited;
    weir_leased_step(machine, &key->as.leased.options, event, now_ns, effects);
    stats->held += machine->pocket + machine->reserved - pocket - reserved;
    stats->forfeited += machine->forfeited - forfeited;
}

static void step_batched(struct weir_share_key *key, struct weir_share_host_stats *stats,
                         const struct weir_share_event *event, uint64_t now_ns, struct weir_share_effects *effects)
{
    struct weir_batched *machine = &key->as.batched.machine;
    uint64_t held = machine->pocket + machine->reserved, unsettled = machine->unsettled;
    weir_batched_step(machine, &key->as.batched.options, event, now_ns, effects);
    stats->held += machine->pocket + machine->reserved - held;
    stats->unsettled += machine->unsettled - unsettled;
}

void weir_share_key_step(struct weir_share_key *key, struct weir_share_host_stats *stats,
                         const struct weir_share_event *event, uint64_t now_ns, struct weir_share_effects *ret_effects)
{
    if (key->leased)
        step_leased(key, stats, event, now_ns, ret_effects);
    else
        step_batched(key, stats, event, now_ns, ret_effects);
}

/* On a copy, so that nothing changes. */
void weir_share_key_look(const struct weir_share_key *key, uint64_t units, uint64_t now_ns,
                         struct weir_share_effects *effects)
{
    const struct weir_share_event event = { .kind = WEIR_SHARE_RESERVE, .units = units };
    if (key->leased) {
        struct weir_leased copy = key->as.leased.machine;
        weir_leased_step(&copy, &key->as.leased.options, &event, now_ns, effects);
    } else {
        struct weir_batched copy = key->as.batched.machine;
        weir_batched_step(&copy, &key->as.batched.options, &event, now_ns, effects);
    }
}

bool weir_share_key_follows(const struct weir_share_key *key, const struct weir_share_terms *terms)
{
    return key->limit == terms->limit && key->deadline_ns == terms->deadline_ns &&
           (key->leased ? key->as.leased.options.ttl_ns == terms->chunk_ttl_ns
                        : key->as.batched.options.slack == terms->slack &&
                              key->as.batched.options.interval_ns == terms->interval_ns);
}

void weir_share_key_follow(struct weir_share_key *key, const struct weir_share_terms *terms)
{
    const struct weir_remote_limit *before = key->limit;
    key->limit = weir_remote_limit_hold(terms->limit);
    if (!key->leased && before && before != key->limit)
        weir_batched_follow(&key->as.batched.machine);
    weir_remote_limit_drop(before);
    key->deadline_ns = terms->deadline_ns;
    if (key->leased)
        key->as.leased.options = (struct weir_leased_options){ .capacity = key->limit->limit.capacity,
                                                               .ttl_ns = terms->chunk_ttl_ns,
                                                               .lost_ns = terms->deadline_ns + LOST_SPARE_NS,
                                                               .refused_ns = REFUSED_NS };
    else
        key->as.batched.options = (struct weir_batched_options){
            .limit = key->limit->limit,
            .slack = terms->slack,
            .interval_ns = terms->interval_ns,
            .ttl_ns = MEMORY_NS,
            .lost_ns = terms->deadline_ns + LOST_SPARE_NS,
        };
}
