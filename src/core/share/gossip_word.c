/* SPDX-License-Identifier: Apache-2.0
 *
 * Words: what a node tells others of one gossiped key, and what it learns of it from them. What may be admitted is
 * gossip_key.c; called by who writes and reads messages (gossip.h). */
#include "core/limit/ticks.h"
#include "core/share/gossip.h"
#include "core/share/gossip_parts.h"

#define LEVEL_NS WEIR_NS_PER_SECOND /* of a node that has synced: ten words of each other node */

void weir_gossip_word(struct weir_gossip *node, struct weir_gossip_key *key, const struct weir_event *event,
                      struct weir_gossip_word *ret_word)
{
    weir_gossip_age(node, key, event);
    *ret_word = (struct weir_gossip_word){
        .id = { key->id[0], key->id[1] },
        .limit = key->limit->id,
        .window = key->window,
        .used = weir_limit_used(&key->limit->limit, &key->state, event),
    };
    if (is_counter(key)) {
        const struct weir_counter_window window = weir_counter_window(&key->limit->limit, &key->state, event);
        ret_word->count = window.count;
        ret_word->end_after_ns = window.end_after_ns;
    }
    for (uint32_t j = 0; j < node->nodes; j++)
        if (key->about[j].entry.epoch > 0)
            ret_word->entries[j] = &key->about[j].entry;
}

/* Merges what is said about a node's admissions into what is known; returns the units that are new. */
static uint64_t learn(struct weir_gossip_entry *known, const struct weir_gossip_entry *said, bool old, bool *changed)
{
    uint64_t base = old ? said->count : weir_min_u64(said->base, said->count);
    if (said->epoch < known->epoch)
        return 0;
    if (said->epoch > known->epoch)
        *known = (struct weir_gossip_entry){ .epoch = said->epoch };
    else if (said->count <= known->count)
        return 0;
    uint64_t from = weir_max_u64(known->count, base);
    weir_assert(from <= said->count);
    *changed = true;
    known->base = weir_max_u64(known->base, base);
    known->count = said->count;
    weir_assert(known->base <= known->count && known->epoch == said->epoch);
    return said->count - from;
}

/* Units that are known here and not to the sender of the word. */
static uint64_t ahead_of_sender(const struct weir_gossip *node, const struct weir_gossip_key *key,
                                const struct weir_gossip_word *word)
{
    uint64_t sum = key->reserved;
    for (uint32_t j = 0; j < node->nodes; j++) {
        const struct weir_gossip_entry *known = &key->about[j].entry, *said = word->entries[j];
        uint64_t told = said && said->epoch == known->epoch ? said->count : 0;
        if (!said || said->epoch <= known->epoch)
            sum = weir_add_sat(sum, weir_sub_sat(known->count, weir_max_u64(told, known->base)));
    }
    return sum;
}

static void hear_ack(struct weir_gossip *node, struct weir_gossip_key *key, uint32_t from,
                     const struct weir_gossip_entry *said)
{
    struct weir_gossip_about *about = &key->about[from];
    weir_assert(from < node->nodes && from != node->self);
    if (about->ack_generation != node->peers[from].generation)
        about->ack = 0;
    about->ack_generation = node->peers[from].generation;
    if (!said || said->epoch != node->epoch)
        return;
    if (said->count > *mine(node, key)) /* another process counts in our name, from the same start */
        node->twins++;
    else
        about->ack = weir_max_u64(about->ack, said->count);
}

/* A loss was charged here of which the sender of a word may not have heard. */
static bool lost_lately(const struct weir_gossip_limit *limit, uint64_t now_ns)
{
    const uint64_t last = limit->losses_count - 1;
    return limit->losses_count > 0 && now_ns - limit->losses[last % WEIR_GOSSIP_LOSSES].at_ns < limit->fill_ns;
}

/* The sender knows how much of what was counted has come back since; what it does not know yet (`ahead`) comes on top.
 * Of a sliding_counter each unit counts in the window in which it came. A window of our own would begin at another
 * time, and nobody can tell which of the sender's units came in it. So the sender's windows go on here. Returns the
 * units to be charged. */
static uint64_t take_over(const struct weir_gossip *node, struct weir_gossip_key *key,
                          const struct weir_gossip_word *word, const struct weir_event *event, uint64_t ahead)
{
    const struct weir_limit *limit = &key->limit->limit;
    const uint64_t before = weir_limit_used(limit, &key->state, event), used = weir_add_sat(word->used, ahead);
    weir_assert(!node->synced);
    if (!is_counter(key) || word->end_after_ns == 0 || word->count > word->used)
        return weir_sub_sat(used, before);
    const struct weir_counter_window window = { word->end_after_ns, weir_add_sat(word->count, ahead) };
    weir_counter_resume(limit, &key->state, event, &window, used);
    key->charged = weir_add_sat(key->charged, used);
    return lost_lately(key->limit, event->now_ns) ? weir_sub_sat(before, used) : 0;
}

/* The sender knows all that is known here, so its bucket bounds what is used as well as ours does: the lower of the two
 * holds. What a node took over when it started is rounded up, and older than the word. With the least of several words
 * it has as much as the others; without, it would get nothing as long as these ask for all that comes back. Where a
 * loss is charged here, the sender may not have heard of it; after a reload it may count by another definition. */
static void level(const struct weir_gossip *node, const struct weir_gossip_key *key, struct weir_state *state,
                  uint64_t used, uint64_t now_ns)
{
    const struct weir_gossip_limit *limit = key->limit;
    if (!is_bucket(key) || key->followed || now_ns - node->synced_ns >= LEVEL_NS || used > limit->limit.capacity ||
        lost_lately(limit, now_ns))
        return;
    const uint64_t now = weir_ticks_at(now_ns, limit->limit.shift), most = used * limit->limit.emission;
    if (weir_ticks_until(state->fresh_at, now) > most)
        state->fresh_at = weir_ticks_add(now, most);
}

bool weir_gossip_hear_word(struct weir_gossip *node, struct weir_gossip_key *key, const struct weir_gossip_head *head,
                           const struct weir_gossip_word *word, const struct weir_event *event)
{
    weir_gossip_age(node, key, event);
    if (key->limit->limit.calendar && word->window > key->window)
        return false;
    bool old = key->limit->limit.calendar && word->window < key->window, changed = false;
    uint64_t ahead = ahead_of_sender(node, key, word), units = 0;
    for (uint32_t j = 0; j < node->nodes; j++) {
        const struct weir_gossip_entry *said = word->entries[j];
        if (!said || said->epoch == 0)
            continue;
        if (j != node->self) {
            units = weir_add_sat(units, learn(&key->about[j].entry, said, old, &changed));
            continue;
        }
        if (said->epoch > node->epoch)
            weir_gossip_met_later(node, said->epoch);
        if (said->epoch < node->epoch)
            units = weir_add_sat(units, learn(&key->former, said, old, &changed));
    }
    if (!node->synced && head->synced && !old)
        units = take_over(node, key, word, event, ahead);
    weir_gossip_charge(key, event, units);
    if (node->synced && head->synced && ahead == 0)
        level(node, key, &key->state, word->used, event->now_ns);
    hear_ack(node, key, head->from, word->entries[node->self]);
    if (head->echo_epoch == node->epoch)
        key->about[head->from].known_ns = weir_max_u64(key->about[head->from].known_ns, head->echo_ns);
    if (changed || key->change == 0)
        weir_gossip_touch(node, key);
    weir_gossip_restore(node, key);
    return true;
}
