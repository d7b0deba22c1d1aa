/* SPDX-License-Identifier: Apache-2.0
 *
 * The lists of wire/nodes.h name the metrics: one macro writes each member, with _total behind a counter's name. What
 * has labels (breakers, members of gossip, the locks' store) is written one by one. Called by serve/http_metrics.c for
 * GET /metrics. */
#include "observe/sharing.h"

static const struct weir_label no_label = { 0 };

static void one(struct weir_prometheus *out, const char *name, const char *type, const char *help, uint64_t value)
{
    weir_prometheus_metric(out, name, type, help);
    weir_prometheus_sample(out, name, no_label, no_label, value);
}

/* weir_PREFIX_MEMBER, and _total where it is a counter. */
#define ENDING_IS_TOTAL(type) ((type)[0] == 'c')
#define METRIC(prefix, member, type, help)                                                                             \
    one(out, ENDING_IS_TOTAL(type) ? "weir_" prefix "_" #member "_total" : "weir_" prefix "_" #member, type, help,     \
        list->member);
#define ENGINE_METRIC(member, type, help) METRIC("engine", member, type, help)
#define SHARING_METRIC(member, type, help) METRIC("sharing", member, type, help)
#define LOCKS_METRIC(member, type, help) METRIC("locks", member, type, help)
#define GOSSIP_METRIC(member, type, help) METRIC("gossip", member, type, help)

static void write_breakers(struct weir_prometheus *out, const struct weir_nodes_engine *engine)
{
    weir_prometheus_metric(out, "weir_engine_breaker_loops", "gauge",
                           "Loops whose breaker for a server is in this state; open: the server is not asked.");
    for (size_t i = 0; i < engine->servers_count; i++)
        for (unsigned state = WEIR_BREAKER_CLOSED; state <= WEIR_BREAKER_HALF_OPEN; state++)
            weir_prometheus_sample(out, "weir_engine_breaker_loops",
                                   (struct weir_label){ "server", engine->servers[i].address },
                                   (struct weir_label){ "state", weir_breaker_name((enum weir_breaker_state)state) },
                                   engine->servers[i].breakers[state]);
    weir_prometheus_metric(out, "weir_engine_breaker_since_seconds", "gauge",
                           "How long the worst of a server's breakers has been in its state.");
    for (size_t i = 0; i < engine->servers_count; i++)
        weir_prometheus_seconds(out, "weir_engine_breaker_since_seconds",
                                (struct weir_label){ "server", engine->servers[i].address },
                                engine->servers[i].since_ns);
}

static void write_engine(struct weir_prometheus *out, const struct weir_nodes_engine *list)
{
    one(out, "weir_engine_ready", "gauge", "1 if the engine has answered and may be asked.", list->ready);
    write_breakers(out, list);
    WEIR_NODES_ENGINE_LIST(ENGINE_METRIC)
}

static void write_gossip(struct weir_prometheus *out, const struct weir_nodes_gossip *list)
{
    weir_prometheus_metric(out, "weir_gossip_member", "gauge", "1 for the state that this node sees another one in.");
    for (size_t i = 0; i < list->members_count; i++)
        weir_prometheus_sample(out, "weir_gossip_member", (struct weir_label){ "node", list->members[i].name },
                               (struct weir_label){ "state", list->members[i].state }, 1);
    WEIR_NODES_GOSSIP_LIST(GOSSIP_METRIC)
}

static void write_locks(struct weir_prometheus *out, const struct weir_nodes_locks *list)
{
    weir_prometheus_metric(out, "weir_locks_up", "gauge", "1 if the store of the locks answers.");
    weir_prometheus_sample(out, "weir_locks_up", (struct weir_label){ "engine", list->name }, no_label, list->up);
    if (list->held != UINT64_MAX)
        one(out, "weir_locks_held", "gauge", "Locks held now; of more than 1,024, at most so many.", list->held);
    WEIR_NODES_LOCKS_LIST(LOCKS_METRIC)
}

void weir_sharing_metrics(struct weir_prometheus *out, const struct weir_nodes *nodes)
{
    const struct weir_nodes_sharing *list = &nodes->sharing;
    one(out, "weir_nodes", "gauge", "Nodes in the configuration, this one included.", nodes->count);
    if (nodes->engine)
        write_engine(out, nodes->engine);
    if (nodes->gossip)
        write_gossip(out, nodes->gossip);
    if (nodes->locks)
        write_locks(out, nodes->locks);
    WEIR_NODES_SHARING_LIST(SHARING_METRIC)
}
