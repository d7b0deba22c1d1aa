/* SPDX-License-Identifier: Apache-2.0
 *
 * gossip: hosts core/share/gossip.h, one node and its one key, as the server's host does: every interval, its news to
 * each other node. */
#include "core/share/gossip.h"

#include <string.h>

#include "base/assert.h"
#include "sim/modes.h"

struct node {
    struct weir_gossip gossip;
    struct weir_gossip_limit limits[2], *limit; /* as it is, and before a reload */
    struct weir_gossip_key key;
    bool known;         /* the key is there */
    uint64_t window_ns; /* sliding_counter: its begin */
    struct weir_gossip_peer peers[WEIR_SIM_NODES_MAX];
    struct weir_gossip_about about[WEIR_SIM_NODES_MAX];
};

struct letter {
    struct weir_gossip_head head;
    bool word;
    uint64_t phase, window, used; /* as in struct weir_gossip_word, with what stands in their places */
    struct weir_gossip_entry entries[WEIR_SIM_NODES_MAX]; /* as many as there are nodes are sent */
};

static const uint64_t key_id[2] = { 1, 1 };

static void start(struct weir_sim *sim, uint32_t node, void *state)
{
    struct node *self = state;
    const struct weir_sim_plan *plan = weir_sim_plan_of(sim);
    struct weir_fault fault;
    uint64_t now_ns = weir_sim_now(sim, node), epoch = weir_sim_number(sim);
    if (plan->plant == WEIR_SIM_PLANT_EPOCH)
        epoch = node + 1;
    weir_gossip_init(&self->gossip, plan->nodes, node, epoch, self->peers, now_ns);
    self->limit = &self->limits[0];
    int error = weir_gossip_limit_init(self->limit, 1, weir_sim_spec(sim, node), plan->slack, &fault);
    weir_assert(error == 0);
    weir_gossip_limit_add(&self->gossip, self->limit);
    weir_sim_wake(sim, node, now_ns + 1 + weir_sim_random_below(weir_sim_draw(sim), plan->interval_ns));
}

static void reload(struct weir_sim *sim, uint32_t node, void *state)
{
    struct node *self = state;
    struct weir_gossip_limit *before = self->limit;
    struct weir_event event = weir_sim_event_now(sim, node, 0);
    struct weir_fault fault;
    self->limit = &self->limits[before == &self->limits[0]];
    int error = weir_gossip_limit_init(self->limit, 1, weir_sim_spec(sim, node), weir_sim_plan_of(sim)->slack, &fault);
    weir_assert(error == 0);
    weir_gossip_limit_add(&self->gossip, self->limit);
    if (self->known)
        weir_gossip_key_follow(&self->gossip, &self->key, self->limit, &event, &event); /* windows stay */
    weir_gossip_limit_remove(&self->gossip, before);
}

static struct weir_gossip_key *key_of(struct weir_sim *sim, uint32_t node, struct node *self)
{
    if (!self->known)
        weir_gossip_key_init(&self->gossip, &self->key, key_id, self->limit, self->about, weir_sim_now(sim, node));
    self->known = true;
    return &self->key;
}

static void say(struct weir_sim *sim, uint32_t node, struct node *self, uint32_t to)
{
    uint32_t nodes = weir_sim_plan_of(sim)->nodes;
    struct letter letter; /* 1.6 KB that need no zeroes */
    uint64_t since;
    letter.word = false;
    letter.phase = letter.window = letter.used = 0;
    struct weir_gossip_key *key = weir_gossip_news(&self->gossip, to, &since);
    weir_gossip_say(&self->gossip, to, since, weir_sim_now(sim, node), &letter.head);
    if (key) {
        struct weir_event event = weir_sim_event_now(sim, node, 0);
        struct weir_gossip_word word;
        weir_gossip_word(&self->gossip, key, &event, &word);
        letter.word = true;
        letter.phase = word.phase;
        letter.window = word.window;
        letter.used = word.used;
        for (uint32_t i = 0; i < nodes; i++)
            letter.entries[i] = word.entries[i] ? *word.entries[i] : (struct weir_gossip_entry){ 0 };
    }
    weir_gossip_say_end(&self->gossip, &letter.head, NULL);
    size_t size = offsetof(struct letter, entries) + (key ? nodes * sizeof letter.entries[0] : 0);
    weir_sim_send(sim, node, to, &letter, size);
}

static void timer(struct weir_sim *sim, uint32_t node, void *state)
{
    struct node *self = state;
    for (uint32_t to = 0; to < weir_sim_plan_of(sim)->nodes; to++) {
        if (to != node)
            say(sim, node, self, to);
    }
    weir_sim_wake(sim, node, weir_sim_now(sim, node) + weir_sim_plan_of(sim)->interval_ns);
}

static enum weir_sim_say request(struct weir_sim *sim, uint32_t node, void *state,
                                 const struct weir_sim_request *request)
{
    struct node *self = state;
    struct weir_event event = weir_sim_event_now(sim, node, request->cost);
    struct weir_verdict verdict;
    bool yes = weir_gossip_reserve(&self->gossip, key_of(sim, node, self), &event, false, &verdict) == WEIR_SHARE_YES;
    return yes ? WEIR_SIM_YES : WEIR_SIM_NO;
}

static bool finish(struct weir_sim *sim, uint32_t node, void *state, uint64_t cost, bool admitted)
{
    struct node *self = state;
    struct weir_event event = weir_sim_event_now(sim, node, cost);
    (admitted ? weir_gossip_commit : weir_gossip_cancel)(&self->gossip, key_of(sim, node, self), &event);
    return admitted;
}

/* Planted: what is heard replaces what is known. */
static void overwrite(struct node *self, const struct letter *letter, uint32_t nodes)
{
    for (uint32_t i = 0; i < nodes; i++) {
        if (letter->entries[i].epoch > 0 && letter->entries[i].epoch == self->about[i].entry.epoch)
            self->about[i].entry = letter->entries[i];
    }
}

static void message(struct weir_sim *sim, uint32_t node, void *state, uint32_t from, const void *data, size_t size)
{
    struct node *self = state;
    const struct weir_sim_plan *plan = weir_sim_plan_of(sim);
    struct letter letter;
    weir_assert(size <= sizeof letter);
    memcpy(&letter, data, size);
    uint64_t now_ns = weir_sim_now(sim, node);
    if (plan->plant == WEIR_SIM_PLANT_SEQUENCE)
        letter.head.seq = weir_max_u64(letter.head.seq, self->peers[from].seq + 1);
    if (weir_gossip_hear(&self->gossip, &letter.head, now_ns) != WEIR_GOSSIP_NEW)
        return;
    bool whole = true;
    if (letter.word) {
        struct weir_event event = weir_sim_event_now(sim, node, 0);
        struct weir_gossip_word word;
        struct weir_gossip_key *key = key_of(sim, node, self);
        memcpy(word.id, key_id, sizeof word.id);
        word.limit = self->limit->id;
        word.phase = letter.phase;
        word.window = letter.window;
        word.used = letter.used;
        for (uint32_t i = 0; i < plan->nodes; i++)
            word.entries[i] = letter.entries[i].epoch > 0 ? &letter.entries[i] : NULL;
        if (plan->plant == WEIR_SIM_PLANT_OVERWRITE)
            overwrite(self, &letter, plan->nodes);
        whole = weir_gossip_hear_word(&self->gossip, key, &letter.head, &word, &event);
    }
    weir_gossip_hear_end(&self->gossip, &letter.head, whole, now_ns);
}

static bool knows(const void *state)
{
    const struct node *self = state;
    return self->gossip.synced;
}

static uint64_t window_start(struct weir_sim *sim, uint32_t node, void *state)
{
    struct node *self = state;
    struct weir_event event = weir_sim_event_now(sim, node, 0);
    uint64_t start_ns = weir_gossip_window_start(&self->key, &event);
    weir_sim_window_begins(sim, &self->window_ns, start_ns, !self->gossip.synced);
    return start_ns;
}

/* Where news takes a good part of the time to fill, V, what the others may admit meanwhile, takes as much of the limit:
 * such plans keep the bound and waste the limit. */
static uint32_t calm_ppm(const struct weir_sim_plan *plan)
{
    uint64_t fill_ns = weir_mul_div(plan->limit.period_ns, weir_limit_capacity(&plan->limit), plan->limit.count);
    if (plan->changed.period_ns > 0)
        fill_ns = weir_min_u64(
            fill_ns, weir_mul_div(plan->changed.period_ns, weir_limit_capacity(&plan->changed), plan->changed.count));
    return 2 * plan->interval_ns + 4 * plan->latency_max_ns < fill_ns / 4 ? 500000 : 0;
}

const struct weir_sim_mode weir_sim_gossip = {
    .name = "gossip",
    .node_size = sizeof(struct node),
    .start = start,
    .request = request,
    .finish = finish,
    .message = message,
    .timer = timer,
    .reload = reload,
    .bound = weir_sim_slack_of_others,
    .bound_crash = weir_sim_slack_of_one,
    .knows = knows,
    .window_start = window_start,
    .no_log = true,
    .engineless = true,
    .calm_ppm = calm_ppm,
};
