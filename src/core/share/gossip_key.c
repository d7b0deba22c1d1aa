/* SPDX-License-Identifier: Apache-2.0
 *
 * One gossiped key: what may be admitted here. What nodes tell each other of it is gossip_word.c. The letters G, H, V,
 * W are those of gossip.h. */
#include <string.h>

#include "core/limit/ticks.h"
#include "core/share/gossip.h"
#include "core/share/gossip_parts.h"

/* `units` of the key were admitted, here or elsewhere. */
void weir_gossip_charge(struct weir_gossip_key *key, const struct weir_event *event, uint64_t units)
{
    add(key, &key->state, event, units);
    key->charged = weir_add_sat(key->charged, units);
}

/* ---- ageing ---- */

/* How far the bucket is from fresh, `ns` later; `unheard` of them were a node's time beyond W. */
static uint64_t later(const struct weir_gossip *node, const struct weir_gossip_key *key, uint64_t ahead, uint64_t ns,
                      uint64_t unheard_ns)
{
    if (ahead == 0)
        return 0;
    weir_assert(ahead <= WEIR_TICKS_DEBT_MAX);
    int32_t shift = key->limit->limit.shift;
    uint64_t slower = weir_ticks_of(unheard_ns / node->nodes, shift, WEIR_TICKS_DEBT_MAX);
    uint64_t gone = shift >= 0 ? weir_ticks_of(ns, shift, WEIR_TICKS_DEBT_MAX * 2) : ns >> -shift;
    return weir_min_u64(weir_sub_sat(ahead + slower, gone), WEIR_TICKS_DEBT_MAX);
}

static void age_bucket(const struct weir_gossip *node, struct weir_gossip_key *key, uint64_t now_ns)
{
    const struct weir_gossip_limit *limit = key->limit;
    int32_t shift = limit->limit.shift;
    uint64_t at_ns = key->at_ns, unheard_ns = key->unheard_ns;
    uint64_t ahead = weir_ticks_until(key->state.fresh_at, weir_ticks_at(at_ns, shift));
    if (limit->losses_count - key->losses > WEIR_GOSSIP_LOSSES) {
        ahead = weir_max_u64(ahead, limit->limit.span);
        key->losses = limit->losses_count - WEIR_GOSSIP_LOSSES;
    }
    for (; key->losses < limit->losses_count; key->losses++) {
        const struct weir_gossip_loss *loss = &limit->losses[key->losses % WEIR_GOSSIP_LOSSES];
        if (loss->at_ns > at_ns) {
            ahead = later(node, key, ahead, loss->at_ns - at_ns, weir_sub_sat(loss->unheard_ns, unheard_ns));
            at_ns = loss->at_ns;
            unheard_ns = weir_max_u64(unheard_ns, loss->unheard_ns);
        }
        uint64_t lost_ns = weir_min_u64(loss->at_ns - loss->from_ns, limit->written_ns);
        ahead = weir_min_u64(ahead + share_ticks(node, key, lost_ns), WEIR_TICKS_DEBT_MAX);
        key->charged = weir_add_sat(key->charged, share_units(node, key, lost_ns));
    }
    weir_assert(key->losses == limit->losses_count);
    weir_assert(at_ns <= now_ns);
    uint64_t sum_ns = weir_gossip_unheard(node, limit, now_ns), part_ns = weir_sub_sat(sum_ns, unheard_ns);
    ahead = later(node, key, ahead, now_ns - at_ns, part_ns);
    key->unheard_ns = sum_ns - part_ns % node->nodes; /* what was too little to count stays for the next time */
    key->state.fresh_at = weir_ticks_add(weir_ticks_at(now_ns, shift), ahead);
}

/* When the window that the event falls into began here, at the earliest. Real calendar windows are up to a twelfth
 * longer than the period, and clocks differ. */
uint64_t weir_gossip_window_start(const struct weir_gossip_key *key, const struct weir_event *event)
{
    const struct weir_limit *limit = &key->limit->limit;
    uint64_t now_ns = event->now_ns, period_ns = limit->period_ns;
    weir_assert(!is_bucket(key));
    if (limit->calendar)
        return weir_sub_sat(weir_add_sat(now_ns, event->window.end_after_ns), period_ns + period_ns / 12 + 1);
    return weir_sub_sat(now_ns + weir_counter_window(limit, &key->state, event).end_after_ns,
                        weir_ticks_wait_ns(limit->span, 0, limit->shift));
}

static void age_window(const struct weir_gossip *node, struct weir_gossip_key *key, const struct weir_event *event)
{
    const struct weir_gossip_limit *limit = key->limit;
    int32_t shift = limit->limit.shift;
    uint64_t now = weir_ticks_at(event->now_ns, shift), at = weir_ticks_at(key->at_ns, shift);
    uint64_t ahead = weir_ticks_until(key->state.fresh_at, at);
    if (weir_ticks_of(event->now_ns - key->at_ns, shift, WEIR_TICKS_DEBT_MAX) >= ahead) { /* or it would wrap */
        key->state.fresh_at = now;
        if (!limit->limit.calendar)
            key->state.count = key->state.previous = 0;
    }
    if (limit->limit.calendar && event->window.id > key->window) {
        key->window = event->window.id;
        for (uint32_t j = 0; j < node->nodes; j++)
            key->about[j].entry.base = key->about[j].entry.count;
    }
    uint64_t start_ns = weir_gossip_window_start(key, event);
    uint64_t missed = limit->losses_count - key->losses;
    if (missed > WEIR_GOSSIP_LOSSES) {
        add(key, &key->state, event, limit->limit.capacity);
        key->losses = limit->losses_count - WEIR_GOSSIP_LOSSES;
    }
    for (; key->losses < limit->losses_count; key->losses++) {
        const struct weir_gossip_loss *loss = &limit->losses[key->losses % WEIR_GOSSIP_LOSSES];
        uint64_t lost_ns = weir_sub_sat(loss->at_ns, weir_max_u64(loss->from_ns, start_ns));
        add(key, &key->state, event, share_units(node, key, lost_ns));
    }
}

/* Brings everything of the key that changes with time up to now. */
void weir_gossip_age(const struct weir_gossip *node, struct weir_gossip_key *key, const struct weir_event *event)
{
    uint64_t now_ns = event->now_ns;
    weir_assert(now_ns >= key->at_ns);
    weir_u128 back = (weir_u128)key->limit->count * (now_ns - key->at_ns), least = key->reserved * unit(node, key);
    key->spent = key->spent > back + least ? key->spent - back : least;
    weir_assert(key->spent >= least); /* what is reserved does not come back by waiting */
    if (is_bucket(key))
        age_bucket(node, key, now_ns);
    else
        age_window(node, key, event);
    key->at_ns = now_ns;
    struct weir_gossip_entry *own = &key->about[node->self].entry;
    own->epoch = node->epoch;
    if (!key->limit->limit.calendar && now_ns - key->mark_ns >= key->limit->fill_ns) {
        own->base = key->mark_count;
        key->mark_count = own->count;
        key->mark_ns = now_ns;
    }
}

void weir_gossip_key_init(struct weir_gossip *node, struct weir_gossip_key *key, const uint64_t id[2],
                          struct weir_gossip_limit *limit, struct weir_gossip_about *about, uint64_t now_ns)
{
    memset(about, 0, node->nodes * sizeof *about);
    about[node->self].entry = (struct weir_gossip_entry){ node->epoch, node->floor, node->floor };
    *key = (struct weir_gossip_key){
        .id = { id[0], id[1] },
        .limit = limit,
        .state = weir_state_fresh(&limit->limit, now_ns),
        .born = node->floor,
        .mark_count = node->floor,
        .mark_ns = now_ns,
        .at_ns = now_ns,
        .unheard_ns = weir_gossip_unheard(node, limit, now_ns),
        .losses = limit->losses_count,
        .about = about,
    };
    /* Losses of the last fill time count for it, too. */
    for (uint64_t k = 0; k < WEIR_GOSSIP_LOSSES && key->losses > 0; k++, key->losses--)
        if (now_ns - limit->losses[(key->losses - 1) % WEIR_GOSSIP_LOSSES].at_ns >= limit->fill_ns)
            break;
    if (key->losses < limit->losses_count && is_bucket(key)) {
        const struct weir_gossip_loss *first = &limit->losses[key->losses % WEIR_GOSSIP_LOSSES];
        key->at_ns = first->at_ns;
        key->unheard_ns = first->unheard_ns;
        key->state = weir_state_fresh(&limit->limit, first->at_ns);
    }
}

static void follow(struct weir_gossip *node, struct weir_gossip_key *key, struct weir_gossip_limit *limit,
                   enum weir_on_change on_change, const struct weir_event *before, const struct weir_event *event)
{
    struct weir_gossip_limit *from = key->limit;
    weir_assert(from != limit && before->now_ns == event->now_ns);
    weir_gossip_age(node, key, before);
    weir_limit_convert(&from->limit, &limit->limit, on_change, &key->state, event);
    weir_u128 old = unit(node, key), units = key->spent / old + (key->spent % old != 0);
    key->limit = limit;
    key->followed = true;
    key->spent = units * unit(node, key);
    key->unheard_ns = weir_gossip_unheard(node, limit, event->now_ns);
    key->losses = limit->losses_count;
    if (limit->limit.calendar)
        key->window = event->window.id;
}

void weir_gossip_key_follow(struct weir_gossip *node, struct weir_gossip_key *key, struct weir_gossip_limit *limit,
                            const struct weir_event *before, const struct weir_event *event)
{
    follow(node, key, limit, WEIR_ON_CHANGE_KEEP, before, event);
}

void weir_gossip_key_level(struct weir_gossip *node, struct weir_gossip_key *key, struct weir_gossip_limit *limit,
                           const struct weir_event *before, const struct weir_event *event)
{
    follow(node, key, limit, WEIR_ON_CHANGE_LEVEL, before, event);
}

/* ---- H and V ---- */

uint64_t weir_gossip_unacked(const struct weir_gossip *node, const struct weir_gossip_key *key)
{
    uint64_t least = *mine(node, key);
    for (uint32_t j = 0; j < node->nodes; j++) {
        const struct weir_gossip_about *about = &key->about[j];
        if (j != node->self)
            least = weir_min_u64(least, about->ack_generation == node->peers[j].generation ? about->ack : 0);
    }
    weir_assert(key->born <= *mine(node, key) && least <= *mine(node, key));
    return *mine(node, key) - weir_max_u64(least, key->born) + key->reserved;
}

/* Restores H by what is acknowledged. */
void weir_gossip_restore(struct weir_gossip *node, struct weir_gossip_key *key)
{
    weir_u128 unacked = weir_gossip_unacked(node, key) * unit(node, key);
    if (unacked < key->spent)
        key->spent = unacked;
    weir_gossip_heat(node, key, key->spent * 2 >= key->limit->slack * unit(node, key) && key->spent > 0);
}

/* The time, summed over the others, in which they may have admitted what is not known here. */
static uint64_t behind_ns(const struct weir_gossip *node, const struct weir_gossip_key *key,
                          const struct weir_event *event)
{
    bool bucket = is_bucket(key);
    uint64_t now_ns = event->now_ns, sum_ns = 0;
    uint64_t start_ns = bucket ? weir_sub_sat(now_ns, key->limit->written_ns) : weir_gossip_window_start(key, event);
    for (uint32_t j = 0; j < node->nodes; j++) {
        const struct weir_gossip_peer *peer = &node->peers[j];
        if (j == node->self)
            continue;
        uint64_t known_ns = weir_max_u64(peer->known ? peer->known_ns : 0, key->about[j].known_ns);
        sum_ns += bucket && known_ns == 0 ? key->limit->written_ns
                                          : weir_sub_sat(now_ns, weir_max_u64(known_ns, start_ns));
    }
    return sum_ns;
}

/* G as it would be if the key had been empty when this node started: what holds while it does not know what went on
 * before. Once it does, G holds, as if nobody had asked in between. A bucket that was empty then is short, in ticks, of
 *     span + charged * emission - the ticks since the start
 * now, and never of less than G is. */
static struct weir_state since_empty(const struct weir_gossip *node, const struct weir_gossip_key *key,
                                     const struct weir_event *event)
{
    const struct weir_gossip_limit *limit = key->limit;
    struct weir_state state = key->state;
    uint64_t since_ns = event->now_ns - node->started_ns;
    if (is_bucket(key)) {
        const uint64_t now = weir_ticks_at(event->now_ns, limit->limit.shift);
        weir_u128 ahead = (weir_u128)key->charged * limit->limit.emission + limit->limit.span;
        uint64_t slower_ns = weir_gossip_unheard(node, limit, event->now_ns) / node->nodes; /* as G ages */
        weir_u128 gone = weir_ticks_of(weir_sub_sat(since_ns, slower_ns), limit->limit.shift, WEIR_TICKS_DEBT_MAX);
        ahead = ahead > gone ? ahead - gone : 0;
        ahead = ahead < WEIR_TICKS_DEBT_MAX ? ahead : WEIR_TICKS_DEBT_MAX;
        state.fresh_at = weir_ticks_add(now, weir_max_u64(weir_ticks_until(state.fresh_at, now), (uint64_t)ahead));
    } else if (since_ns < limit->fill_ns &&
               !(limit->limit.calendar && weir_gossip_window_start(key, event) >= node->started_ns)) {
        add(key, &state, event, limit->limit.capacity);
    }
    return state;
}

/* G, or what is assumed instead. */
static struct weir_state known(const struct weir_gossip *node, const struct weir_gossip_key *key,
                               const struct weir_event *event)
{
    return node->synced ? key->state : since_empty(node, key, event);
}

/* known() with V added. */
static struct weir_state feared(const struct weir_gossip *node, struct weir_gossip_key *key,
                                const struct weir_event *event)
{
    struct weir_state state = known(node, key, event);
    uint64_t ns = behind_ns(node, key, event);
    if (is_bucket(key))
        state.fresh_at = weir_ticks_add(state.fresh_at, share_ticks(node, key, ns));
    else
        add(key, &state, event, share_units(node, key, ns));
    return state;
}

/* ---- decisions ---- */

static bool has_room(const struct weir_gossip_key *key, struct weir_state state, const struct weir_event *event)
{
    struct weir_verdict verdict;
    return weir_limit_judge(&key->limit->limit, &state, event, &verdict);
}

/* G, with what is assumed beside it, says no. What is assumed ends as soon as others are heard, whatever refills. */
static void refuse_by_fear(struct weir_gossip *node, const struct weir_gossip_key *key, const struct weir_event *event,
                           bool peek, struct weir_verdict *v)
{
    if (!has_room(key, key->state, event))
        return;
    bool unsynced = !has_room(key, known(node, key, event), event);
    if (!node->synced && v->retry_after_ns != WEIR_NEVER)
        v->retry_after_ns = weir_min_u64(v->retry_after_ns, WEIR_NS_PER_SECOND);
    if (!peek)
        *(unsynced ? &node->refused.unsynced : &node->refused.unheard) += 1;
}

/* H says no: what then? */
static void refuse_by_slack(const struct weir_gossip *node, const struct weir_gossip_key *key, uint64_t cost,
                            struct weir_verdict *v)
{
    weir_u128 one = unit(node, key), slack = key->limit->slack * one, left = slack - key->spent;
    v->admitted = false;
    if (key->spent > slack)
        left = 0;
    v->remaining = weir_min_u64(v->remaining, (uint64_t)(left / one));
    weir_assert(key->limit->count > 0 && key->spent + cost * one > slack);
    weir_u128 missing = key->spent + cost * one - slack;
    weir_u128 wait = missing / key->limit->count + (missing % key->limit->count != 0);
    uint64_t wait_ns = (uint64_t)(wait < UINT64_MAX ? wait : UINT64_MAX - 1);
    v->retry_after_ns = weir_max_u64(v->retry_after_ns, wait_ns);
    v->reset_after_ns = weir_max_u64(v->reset_after_ns, wait_ns);
    v->next_after_ns = weir_max_u64(v->next_after_ns, 1);
}

enum weir_share_say weir_gossip_reserve(struct weir_gossip *node, struct weir_gossip_key *key,
                                        const struct weir_event *event, bool peek, struct weir_verdict *ret_verdict)
{
    const struct weir_limit *limit = &key->limit->limit;
    uint64_t cost = event->cost;
    weir_gossip_age(node, key, event);
    struct weir_state with_v = feared(node, key, event);
    bool yes = weir_limit_judge(limit, &with_v, event, ret_verdict);
    if (cost == 0)
        return WEIR_SHARE_YES;
    if (!yes)
        refuse_by_fear(node, key, event, peek, ret_verdict);
    if (yes && node->superseded) {
        node->refused.superseded += !peek;
        ret_verdict->admitted = yes = false;
        ret_verdict->remaining = 0;
        ret_verdict->retry_after_ns = ret_verdict->next_after_ns = WEIR_NS_PER_SECOND;
    }
    weir_u128 one = unit(node, key);
    if (yes && node->nodes > 1 && key->spent + cost * one > key->limit->slack * one) {
        refuse_by_slack(node, key, cost, ret_verdict);
        node->refused.slack += !peek;
        yes = false;
    }
    if (node->nodes > 1 && cost > key->limit->slack) /* H never holds so much: whatever else says no, no wait helps */
        ret_verdict->retry_after_ns = WEIR_NEVER;
    if (!yes || peek)
        return yes ? WEIR_SHARE_YES : WEIR_SHARE_NO;
    weir_limit_charge(limit, &with_v, event, ret_verdict); /* for its numbers */
    weir_gossip_charge(key, event, cost);
    key->reserved += cost;
    key->spent += cost * one;
    weir_assert(key->reserved >= cost && key->spent >= key->reserved * one);
    weir_assert(node->nodes == 1 || key->spent <= key->limit->slack * one);
    return WEIR_SHARE_YES;
}

void weir_gossip_commit(struct weir_gossip *node, struct weir_gossip_key *key, const struct weir_event *event)
{
    weir_assert(event->cost <= key->reserved);
    if (event->cost == 0)
        return;
    weir_gossip_age(node, key, event);
    key->reserved -= event->cost;
    *mine(node, key) += event->cost;
    weir_assert(*mine(node, key) >= event->cost);
    weir_gossip_touch(node, key);
    weir_gossip_restore(node, key);
}

void weir_gossip_cancel(struct weir_gossip *node, struct weir_gossip_key *key, const struct weir_event *event)
{
    weir_assert(event->cost <= key->reserved);
    weir_gossip_age(node, key, event);
    key->reserved -= event->cost;
    weir_u128 back = event->cost * unit(node, key);
    key->spent = key->spent > back ? key->spent - back : 0;
    weir_limit_refund(&key->limit->limit, &key->state, event, event->cost);
    key->charged -= weir_min_u64(key->charged, event->cost);
}

bool weir_gossip_idle(struct weir_gossip *node, struct weir_gossip_key *key, const struct weir_event *event,
                      bool *ret_acked)
{
    weir_gossip_age(node, key, event);
    *ret_acked = true;
    for (uint32_t j = 0; j < node->nodes; j++)
        *ret_acked &= j == node->self || key->change <= node->peers[j].acked;
    const struct weir_state state = key->charged > 0 ? known(node, key, event) : key->state;
    /* What is set aside is missing from H. */
    return key->spent == 0 && weir_limit_used(&key->limit->limit, &state, event) == 0;
}
