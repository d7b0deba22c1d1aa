/* SPDX-License-Identifier: Apache-2.0
 *
 * gossip as a server runs it: limits/gossip_host.h, with its table of keys, its datagrams and their authentication, its
 * budget of bytes and its membership, over a network that fails. Other keys are beside the one that is checked. */
#include "limits/gossip_host.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "core/share/gossip.h"
#include "sim/modes.h"

#define KEYS 3 /* the first is checked */
#define BYTES_PER_S (UINT64_C(16) << 20)
#define BESIDE_PPM 30000 /* of requests come with one of each other key */
#define PEEK_PPM 30000

struct node {
    struct weir_gossip_host *host;
    const struct weir_remote_limit *limit;
    struct weir_sim *sim;
    uint32_t number;
    uint64_t window_ns; /* sliding_counter: its begin */
};

/* Of one run in four there is a place too few in the table. */
static bool is_crowded(const struct weir_sim_plan *plan)
{
    return plan->seed % 4 == 0;
}

static struct weir_time time_of(const struct weir_sim *sim, uint32_t node)
{
    return (struct weir_time){ .now_ns = weir_sim_now(sim, node), .wall_ns = weir_sim_wall(sim, node) };
}

static void send_datagram(void *context, uint32_t to, const void *datagram, size_t size)
{
    const struct node *self = context;
    weir_sim_send(self->sim, self->number, to, datagram, size);
}

static const struct weir_remote_limit *limit_of(const struct weir_sim *sim, uint32_t node)
{
    const struct weir_remote_limit *limit;
    struct weir_fault fault;
    int error = weir_remote_limit_create("api", 0, WEIR_REVISION_FIRST, weir_sim_spec(sim, node), &limit, &fault);
    weir_assert(error == 0);
    return limit;
}

static void take_limit(struct weir_sim *sim, struct node *self)
{
    const struct weir_remote_limit *before = self->limit;
    const struct weir_time time = time_of(sim, self->number);
    uint64_t slack = weir_sim_plan_of(sim)->slack;
    self->limit = limit_of(sim, self->number);
    weir_gossip_host_limits(self->host, &self->limit, &slack, 1, &time);
    weir_remote_limit_drop(before);
}

static void start(struct weir_sim *sim, uint32_t node, void *state)
{
    struct node *self = state;
    const struct weir_sim_plan *plan = weir_sim_plan_of(sim);
    char names[WEIR_SIM_NODES_MAX][16];
    const char *pointers[WEIR_SIM_NODES_MAX];
    static const uint8_t secret[16] = "weir simulated";
    for (uint32_t i = 0; i < plan->nodes; i++) {
        (void)snprintf(names[i], sizeof names[i], "n%" PRIu32, i);
        pointers[i] = names[i];
    }
    *self = (struct node){ .sim = sim, .number = node };
    uint64_t epoch = weir_sim_number(sim), now_ns = weir_sim_now(sim, node);
    const struct weir_gossip_host_options options = {
        .secret = secret,
        .nodes = plan->nodes,
        .node = node,
        .names = pointers,
        .interval_ns = plan->interval_ns,
        .bytes_per_s = BYTES_PER_S,
        .keys_max = is_crowded(plan) ? KEYS - 1 : KEYS,
        .now_ns = now_ns,
        .epoch = plan->plant == WEIR_SIM_PLANT_EPOCH ? node + 1 : epoch,
        .send = send_datagram,
        .context = self,
    };
    struct weir_fault fault;
    int error = weir_gossip_host_create(&options, &self->host, &fault);
    weir_assert(error == 0);
    take_limit(sim, self);
    weir_sim_wake(sim, node, now_ns + 1 + weir_sim_random_below(weir_sim_draw(sim), plan->interval_ns));
}

static void stop(struct weir_sim *sim, uint32_t node, void *state)
{
    struct node *self = state;
    (void)sim, (void)node;
    weir_gossip_host_destroy(self->host);
    weir_remote_limit_drop(self->limit);
}

static void reload(struct weir_sim *sim, uint32_t node, void *state)
{
    (void)node;
    take_limit(sim, state);
}

static struct weir_remote_key key_of(uint32_t number)
{
    return (struct weir_remote_key){ .id = { 1, number + 1 } };
}

static bool reserve(struct weir_sim *sim, struct node *self, uint32_t number, uint64_t units, bool peek)
{
    const struct weir_remote_key key = key_of(number);
    const struct weir_time time = time_of(sim, self->number);
    enum weir_share_say say = WEIR_SHARE_NO;
    struct weir_verdict verdict;
    int error = weir_gossip_host_reserve(self->host, self->limit, weir_sim_plan_of(sim)->slack, &key, units, peek,
                                         &time, &say, &verdict);
    return error == 0 && say == WEIR_SHARE_YES;
}

/* What happens beside the requests for the key that is checked, and must not be seen in them. */
static void beside(struct weir_sim *sim, struct node *self)
{
    struct weir_sim_random *random = weir_sim_draw(sim);
    if (weir_sim_random_chance(random, PEEK_PPM))
        (void)reserve(sim, self, (uint32_t)weir_sim_random_below(random, KEYS), 1, true);
    if (!weir_sim_random_chance(random, BESIDE_PPM))
        return;
    const struct weir_time time = time_of(sim, self->number);
    for (uint32_t i = 1; i < KEYS; i++) {
        const struct weir_remote_key key = key_of(i);
        if (reserve(sim, self, i, 1, false))
            weir_gossip_host_commit(self->host, &key, 1, &time);
    }
}

/* Requests that were refused for something else than what is used of their key. */
static uint64_t refused_besides(const struct node *self)
{
    struct weir_gossip_stats stats;
    weir_gossip_host_stats(self->host, &stats);
    return stats.refused_unsynced + stats.refused_unheard + stats.refused_slack + stats.refused_superseded +
           stats.refused_full;
}

/* Shares that the node charged for others that had to forget keys before they could tell of them. What a node takes
 * over when it starts again has those that the others charged, too, and nobody knows how many. */
static bool shares_charged(const struct weir_sim *sim, const struct node *self, uint64_t *ret_shares)
{
    *ret_shares = 0;
    if (!is_crowded(weir_sim_plan_of(sim)))
        return true;
    *ret_shares = weir_gossip_host_losses(self->host, self->limit, 0); /* at any time: all that are remembered */
    return *ret_shares < WEIR_GOSSIP_LOSSES && weir_sim_crashes(sim) == 0;
}

/* So little was admitted since the run began that the key has room, whatever was charged besides: for what crashed
 * nodes may have taken along, and for what others forgot. */
static bool has_room(const struct weir_sim *sim, const struct node *self, uint64_t cost)
{
    const struct weir_sim_plan *plan = weir_sim_plan_of(sim);
    uint64_t capacity = weir_limit_capacity(&plan->limit), shares;
    if (plan->changed.period_ns > 0 || !shares_charged(sim, self, &shares))
        return false;
    uint64_t lost = (weir_sim_crashes(sim) + shares) * (capacity / plan->nodes + 1);
    return weir_sim_units(sim) + lost + plan->slack + cost <= capacity;
}

static enum weir_sim_say request(struct weir_sim *sim, uint32_t node, void *state,
                                 const struct weir_sim_request *request)
{
    (void)node;
    beside(sim, state);
    uint64_t besides = refused_besides(state);
    if (reserve(sim, state, 0, request->cost, false))
        return WEIR_SIM_YES;
    if (refused_besides(state) == besides && has_room(sim, state, request->cost))
        weir_sim_wrong(sim, "a key is taken for used up of which hardly anything was");
    return WEIR_SIM_NO;
}

static bool finish(struct weir_sim *sim, uint32_t node, void *state, uint64_t cost, bool admitted)
{
    struct node *self = state;
    const struct weir_remote_key key = key_of(0);
    const struct weir_time time = time_of(sim, node);
    (admitted ? weir_gossip_host_commit : weir_gossip_host_cancel)(self->host, &key, cost, &time);
    return admitted;
}

static void message(struct weir_sim *sim, uint32_t node, void *state, uint32_t from, const void *data, size_t size)
{
    struct node *self = state;
    const struct weir_time time = time_of(sim, node);
    (void)from;
    weir_gossip_host_heard(self->host, data, size, &time);
}

static void timer(struct weir_sim *sim, uint32_t node, void *state)
{
    struct node *self = state;
    const struct weir_time time = time_of(sim, node);
    weir_sim_wake(sim, node, weir_gossip_host_turn(self->host, &time));
}

static uint64_t window_start(struct weir_sim *sim, uint32_t node, void *state)
{
    struct node *self = state;
    const struct weir_remote_key key = key_of(0);
    const struct weir_time time = time_of(sim, node);
    uint64_t start_ns = weir_gossip_host_window_start(self->host, &key, &time);
    /* Where the table has a place too few, a key that comes back has another window. */
    bool moves = !weir_gossip_host_synced(self->host) || is_crowded(weir_sim_plan_of(sim));
    weir_sim_window_begins(sim, &self->window_ns, start_ns, moves);
    return start_ns;
}

static bool knows(const void *state)
{
    const struct node *self = state;
    return weir_gossip_host_synced(self->host);
}

/* Where the table is full of other keys, a newcomer is refused. */
static uint32_t calm_ppm(const struct weir_sim_plan *plan)
{
    return is_crowded(plan) ? 0 : weir_sim_gossip.calm_ppm(plan);
}

const struct weir_sim_mode weir_sim_gossip_host = {
    .name = "gossip-host",
    .node_size = sizeof(struct node),
    .start = start,
    .stop = stop,
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
