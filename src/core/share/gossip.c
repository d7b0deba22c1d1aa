/* SPDX-License-Identifier: Apache-2.0
 *
 * The node: its limits, its peers, the log of keys in the order of their last change, and what messages say as a whole.
 * Keys: gossip_key.c. */
#include "core/share/gossip.h"

#include <string.h>

#include "core/limit/ticks.h"
#include "core/share/gossip_parts.h"

/* NULL: it can be gossiped. Windows that begin with a key's first hit begin at another time on each node: each would
 * fill its own. */
static const struct weir_fault *why_not(const struct weir_limit *limit)
{
    static const struct weir_fault no_permits = { "sharing", "gossip does not carry the permits of concurrency" };
    static const struct weir_fault no_log = { "sharing", "gossip does not carry the times of a sliding_log" };
    static const struct weir_fault no_start = { "sharing", "gossip does not carry when a window began: align: first" };
    if (limit->algorithm == WEIR_CONCURRENCY)
        return &no_permits;
    if (limit->algorithm == WEIR_SLIDING_LOG)
        return &no_log;
    return limit->algorithm == WEIR_FIXED_WINDOW && !limit->calendar ? &no_start : NULL;
}

int weir_gossip_limit_init(struct weir_gossip_limit *limit, uint64_t id, const struct weir_limit_spec *spec,
                           uint64_t slack, struct weir_fault *ret_fault)
{
    struct weir_gossip_limit made = { .id = id, .count = spec->count, .period_ns = spec->period_ns, .slack = slack };
    int error = weir_limit_init(&made.limit, spec, 0, ret_fault);
    if (error)
        return error;
    const struct weir_fault *why = why_not(&made.limit);
    if (why && ret_fault)
        *ret_fault = *why;
    if (why)
        return WEIR_EINVAL;
    weir_assert(made.period_ns > 0 && made.limit.emission > 0);
    made.limit.ahead_max = UINT64_MAX; /* debts are real, and the clock does not go back */
    made.fill_ns = weir_ticks_wait_ns(made.limit.span, 0, made.limit.shift);
    if (spec->algorithm == WEIR_SLIDING_COUNTER)
        made.fill_ns *= 2;
    else if (made.limit.calendar) /* real windows are up to a twelfth longer: a month of 31 days, a day of 25 hours */
        made.fill_ns += made.fill_ns / 12 + 1;
    made.written_ns = made.fill_ns;
    *limit = made;
    return 0;
}

void weir_gossip_init(struct weir_gossip *node, uint32_t nodes, uint32_t self, uint64_t epoch,
                      struct weir_gossip_peer *peers, uint64_t now_ns)
{
    weir_assert(nodes > 0 && nodes <= WEIR_GOSSIP_NODES_MAX && self < nodes && epoch > 0);
    memset(peers, 0, nodes * sizeof *peers);
    for (uint32_t j = 0; j < nodes; j++)
        peers[j].known_since_ns = now_ns;
    *node = (struct weir_gossip){
        .nodes = nodes, .self = self, .epoch = epoch, .started_ns = now_ns, .synced = nodes == 1, .peers = peers
    };
}

void weir_gossip_limit_add(struct weir_gossip *node, struct weir_gossip_limit *limit)
{
    limit->next = node->limits;
    node->limits = limit;
}

void weir_gossip_limit_remove(struct weir_gossip *node, struct weir_gossip_limit *limit)
{
    struct weir_gossip_limit **at = &node->limits;
    while (*at != limit)
        at = &(*at)->next;
    *at = limit->next;
}

/* ---- what is not known ---- */

/* The time in [known_since, now] that peer j was unheard beyond W. */
static uint64_t unheard_piece(const struct weir_gossip_peer *peer, const struct weir_gossip_limit *limit,
                              uint64_t now_ns)
{
    uint64_t from = peer->known_since_ns;
    if (peer->known)
        from = weir_max_u64(from, weir_add_sat(peer->known_ns, limit->written_ns));
    return weir_sub_sat(now_ns, from);
}

uint64_t weir_gossip_unheard(const struct weir_gossip *node, const struct weir_gossip_limit *limit, uint64_t now_ns)
{
    uint64_t sum = limit->unheard_ns;
    for (uint32_t j = 0; j < node->nodes; j++)
        if (j != node->self)
            sum += unheard_piece(&node->peers[j], limit, now_ns);
    return sum;
}

/* All that the peer admitted up to known_ns is known here, or accounted for. */
static void know(struct weir_gossip *node, struct weir_gossip_peer *peer, uint64_t known_ns, uint64_t now_ns)
{
    if (peer->known && known_ns <= peer->known_ns)
        return;
    for (struct weir_gossip_limit *limit = node->limits; limit; limit = limit->next)
        limit->unheard_ns += unheard_piece(peer, limit, now_ns);
    peer->known = true;
    peer->known_ns = known_ns;
    weir_assert(peer->known_since_ns <= now_ns);
    peer->known_since_ns = now_ns;
}

/* What the peer admitted since known_ns and did not tell will not be told any more: its share is charged to all keys
 * (gossip_key.c), and it counts as known. */
static void lose(struct weir_gossip *node, struct weir_gossip_peer *peer, uint64_t now_ns)
{
    if (!peer->known)
        return;
    uint64_t from_ns = peer->known_ns;
    know(node, peer, now_ns, now_ns);
    for (struct weir_gossip_limit *limit = node->limits; limit; limit = limit->next)
        limit->losses[limit->losses_count++ % WEIR_GOSSIP_LOSSES] = (struct weir_gossip_loss){
            .from_ns = from_ns, .at_ns = now_ns, .unheard_ns = weir_gossip_unheard(node, limit, now_ns)
        };
}

/* ---- the log ---- */

static void unlink_key(struct weir_gossip *node, struct weir_gossip_key *key)
{
    if (key->change == 0)
        return;
    for (uint32_t j = 0; j < node->nodes; j++)
        if (node->peers[j].news == key)
            node->peers[j].news = key->newer;
    weir_assert(key->older ? key->older->newer == key : node->oldest == key);
    weir_assert(key->newer ? key->newer->older == key : node->newest == key);
    *(key->older ? &key->older->newer : &node->oldest) = key->newer;
    *(key->newer ? &key->newer->older : &node->newest) = key->older;
    key->older = key->newer = NULL;
    key->change = 0;
}

void weir_gossip_touch(struct weir_gossip *node, struct weir_gossip_key *key)
{
    unlink_key(node, key);
    weir_assert(key->change == 0 && !key->older && !key->newer);
    key->change = ++node->change;
    key->older = node->newest;
    *(node->newest ? &node->newest->newer : &node->oldest) = key;
    node->newest = key;
    weir_assert(!key->older || key->older->change < key->change);
    for (uint32_t j = 0; j < node->nodes; j++)
        if (!node->peers[j].news)
            node->peers[j].news = key;
}

void weir_gossip_heat(struct weir_gossip *node, struct weir_gossip_key *key, bool hot)
{
    if (hot == key->is_hot)
        return;
    key->is_hot = hot;
    if (hot) {
        key->hot_before = node->hot_last;
        *(node->hot_last ? &node->hot_last->hot_after : &node->hot) = key;
        node->hot_last = key;
        return;
    }
    weir_assert(key->hot_before ? key->hot_before->hot_after == key : node->hot == key);
    weir_assert(key->hot_after ? key->hot_after->hot_before == key : node->hot_last == key);
    *(key->hot_before ? &key->hot_before->hot_after : &node->hot) = key->hot_after;
    *(key->hot_after ? &key->hot_after->hot_before : &node->hot_last) = key->hot_before;
    key->hot_before = key->hot_after = NULL;
}

void weir_gossip_forget(struct weir_gossip *node, struct weir_gossip_key *key)
{
    for (uint32_t j = 0; j < node->nodes; j++)
        if (j != node->self && key->change > node->peers[j].acked)
            node->cut = weir_max_u64(node->cut, key->change);
    node->floor = weir_max_u64(node->floor, key->about[node->self].entry.count);
    weir_gossip_heat(node, key, false);
    unlink_key(node, key);
    weir_assert(!key->is_hot && key->change == 0);
    weir_assert(node->floor >= key->about[node->self].entry.count); /* no count of ours comes back lower */
}

/* The peer has our log up to `have`. It may say less than before: it wants the rest again. */
static void acked(struct weir_gossip *node, struct weir_gossip_peer *peer, uint64_t have)
{
    if (have < peer->acked)
        peer->news = node->oldest;
    peer->acked = weir_min_u64(have, node->change);
    while (peer->news && peer->news->change <= peer->acked)
        peer->news = peer->news->newer;
    weir_assert(peer->acked <= node->change);
}

/* ---- messages ---- */

struct weir_gossip_key *weir_gossip_news(const struct weir_gossip *node, uint32_t to, uint64_t *ret_since)
{
    weir_assert(to < node->nodes && to != node->self);
    *ret_since = node->peers[to].acked;
    return node->peers[to].news;
}

void weir_gossip_say(struct weir_gossip *node, uint32_t to, uint64_t since, uint64_t now_ns,
                     struct weir_gossip_head *ret_head)
{
    struct weir_gossip_peer *peer = &node->peers[to];
    *ret_head = (struct weir_gossip_head){
        .nodes = node->nodes,
        .from = node->self,
        .to = to,
        .epoch = node->epoch,
        .seq = ++peer->said_seq,
        .sent_ns = now_ns,
        .echo_epoch = peer->epoch,
        .echo_ns = peer->sent_ns,
        .have = peer->have,
        .since = since,
        .until = since,
        .cut = node->cut,
        .synced = node->synced,
    };
}

void weir_gossip_say_end(const struct weir_gossip *node, struct weir_gossip_head *head,
                         const struct weir_gossip_key *next)
{
    head->complete = !next;
    if (!next)
        head->until = node->change;
    else if (next->older)
        head->until = weir_max_u64(head->since, next->older->change);
    weir_assert(head->until >= head->since && head->until <= node->change);
}

/* Whether `seq` is new; if so, it is remembered. */
static bool new_seq(struct weir_gossip_peer *peer, uint64_t seq)
{
    if (seq > peer->seq) {
        uint64_t step = seq - peer->seq;
        peer->seq_seen = step < 64 ? peer->seq_seen << step | 1 : 1;
        peer->seq = seq;
        return true;
    }
    weir_assert(seq > 0 && seq <= peer->seq);
    uint64_t back = peer->seq - seq;
    if (back >= 64 || (peer->seq_seen >> back & 1))
        return false;
    peer->seq_seen |= UINT64_C(1) << back;
    return true;
}

/* Another start of the peer: what it admitted before and did not tell is lost, and it knows nothing of ours. */
static void new_epoch(struct weir_gossip *node, struct weir_gossip_peer *peer, uint64_t epoch, uint64_t now_ns)
{
    weir_assert(epoch > peer->epoch); /* a start is never followed by an earlier one */
    lose(node, peer, now_ns);
    peer->epoch = epoch;
    peer->generation++;
    peer->synced = peer->met = false;
    peer->seq = peer->seq_seen = 0;
    peer->have = peer->cut = 0;
    acked(node, peer, 0);
}

/* A process of our name that runs beside us cannot be told from an earlier start of ours whose clock was ahead. A node
 * that has not synced becomes the later of the two, whom the others follow: once, else twins would go on for ever. */
void weir_gossip_met_later(struct weir_gossip *node, uint64_t epoch)
{
    weir_assert(epoch > node->epoch);
    if (node->synced || node->outran || epoch == UINT64_MAX) {
        node->twins++;
        node->superseded = true;
        return;
    }
    node->outran = true;
    node->epoch = epoch + 1;
    for (uint32_t j = 0; j < node->nodes; j++) { /* what they know of us is of another start */
        node->peers[j].generation++;
        node->peers[j].met = false;
        acked(node, &node->peers[j], 0);
    }
}

enum weir_gossip_heard weir_gossip_hear(struct weir_gossip *node, const struct weir_gossip_head *head, uint64_t now_ns)
{
    if (head->nodes != node->nodes || head->from >= node->nodes || head->to >= node->nodes)
        return WEIR_GOSSIP_FOREIGN;
    if (head->from == node->self) {
        if (head->epoch == node->epoch)
            return WEIR_GOSSIP_REPLAYED;
        node->twins++;
        node->superseded |= head->epoch > node->epoch;
        return WEIR_GOSSIP_TWIN;
    }
    if (head->to != node->self)
        return WEIR_GOSSIP_FOREIGN;
    struct weir_gossip_peer *peer = &node->peers[head->from];
    if (head->epoch < peer->epoch || head->epoch == 0 || head->seq == 0)
        return WEIR_GOSSIP_REPLAYED;
    if (head->epoch > peer->epoch)
        new_epoch(node, peer, head->epoch, now_ns);
    if (!new_seq(peer, head->seq))
        return WEIR_GOSSIP_REPLAYED;
    if (head->echo_epoch > node->epoch)
        weir_gossip_met_later(node, head->echo_epoch);
    if (head->seq == peer->seq) { /* the newest says how things stand */
        if (head->synced && !peer->synced && !node->synced)
            peer->have = 0; /* what it said before was not all there is: again, please */
        peer->synced = head->synced;
        peer->met |= head->echo_epoch == node->epoch;
        peer->heard_ns = now_ns;
        peer->sent_ns = head->sent_ns;
        if (head->echo_epoch == node->epoch)
            acked(node, peer, head->have);
    }
    if (head->cut > weir_max_u64(peer->have, peer->cut)) {
        lose(node, peer, now_ns);
        peer->cut = head->cut;
    }
    return WEIR_GOSSIP_NEW;
}

static bool start_together(const struct weir_gossip *node)
{
    for (uint32_t j = 0; j < node->nodes; j++)
        if (j != node->self && (!node->peers[j].met || node->peers[j].synced))
            return false;
    return true;
}

void weir_gossip_hear_end(struct weir_gossip *node, const struct weir_gossip_head *head, bool whole, uint64_t now_ns)
{
    struct weir_gossip_peer *peer = &node->peers[head->from];
    weir_assert(head->from < node->nodes && head->from != node->self);
    if (!whole || head->since > peer->have)
        return;
    peer->have = weir_max_u64(peer->have, head->until);
    if (!head->complete || head->echo_epoch != node->epoch) /* or it may be from before we started */
        return;
    if (head->echo_ns > 0)
        know(node, peer, head->echo_ns, now_ns);
    if (!node->synced && (head->synced || start_together(node))) {
        node->synced = true;
        node->synced_ns = now_ns;
    }
}
