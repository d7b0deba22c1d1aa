/* SPDX-License-Identifier: Apache-2.0
 *
 * Makes a new snapshot from a poller's reply, all under the servers' lock. The reply goes to core/session/health.c;
 * what that then says of each server is written, with a text for people, into a room that nobody reads. That room
 * becomes the current one, and those who wait for news are woken. Called by poller_thread.c with each reply and each
 * failure, and by servers.c when a server comes or goes or a session tells something new. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "sessions/servers_inside.h"

#define SECOND_NS UINT64_C(1000000000)

void weir_conninfo_release(struct weir_conninfo *conninfo)
{
    if (conninfo && --conninfo->references == 0)
        free(conninfo);
}

/* ---- for people ---- */

/* Why it is not usable; NULL: it is. */
static const char *unusable(const struct weir_poller *poller, enum weir_health_phase phase)
{
    static const char *const why[WEIR_HEALTH_PHASES] = {
        [WEIR_HEALTH_STRANGER] = "another system: its identifier differs from the others'",
        [WEIR_HEALTH_FORMER] = "another has taken over: there is a higher timeline",
        [WEIR_HEALTH_TIMELESS] = "its timeline cannot be told: the role needs pg_read_all_stats or REPLICATION",
        [WEIR_HEALTH_BRANCHLESS] =
            "it is not known which promotion its timeline comes from: it was not seen to follow the primary",
        [WEIR_HEALTH_STRAY] = "it has gone on where the primary's history left its timeline",
        [WEIR_HEALTH_FROZEN] = "it stands still, and the primary has moved",
    };
    if (phase == WEIR_HEALTH_UNHEARD || phase == WEIR_HEALTH_DOWN)
        return poller->remark.fault[0] ? poller->remark.fault : "has not answered yet";
    return why[phase];
}

/* ---- publishing ---- */

static void fill(const struct weir_servers *servers, const struct weir_poller *poller, struct weir_route_server *server,
                 struct weir_server_state *state)
{
    const struct weir_health_reply *last = &poller->health.last;
    const struct weir_remark *remark = &poller->remark;
    const char *why = unusable(poller, weir_health_phase(&servers->health, &poller->health));
    weir_health_show(&servers->health, &poller->health, server);
    server->load = (uint32_t)weir_min_u64(poller->load, UINT32_MAX);
    *state = (struct weir_server_state){
        .conninfo = poller->conninfo->text,
        .generation = remark->generation,
        .begun_ns = last->begun_ns,
        .page_size = last->page_size,
        .segment_size = remark->segment_size,
        .unasked = !last->begun_ns && !remark->fault[0],
        .frozen = weir_health_stands(&servers->health, &poller->health),
        .former = weir_health_is_former(&servers->health, &poller->health),
    };
    memcpy(state->name, poller->name, sizeof state->name);
    (void)snprintf(state->fault, sizeof state->fault, "%s",
                   why             ? why
                   : remark->alone ? remark->fault
                                   : remark->table_fault);
}

static struct weir_room *free_room(struct weir_servers *servers)
{
    struct weir_room *current = atomic_load(&servers->current);
    for (struct weir_room *room = servers->rooms; room; room = room->next)
        if (room != current && atomic_load(&room->readers) == 0)
            return room;
    struct weir_room *room = calloc(1, sizeof *room);
    if (room) {
        room->next = servers->rooms;
        servers->rooms = room;
    }
    return room;
}

/* Without memory the old one stays: it says nothing that was not true. */
void weir_servers_publish(struct weir_servers *servers)
{
    struct weir_room *room = free_room(servers);
    if (!room)
        return;
    struct weir_snapshot *snapshot = &room->snapshot;
    for (unsigned i = 0; i < snapshot->count; i++)
        weir_conninfo_release(room->conninfos[i]);
    snapshot->number = ++servers->number;
    snapshot->taken_ns = weir_ask_now_ns();
    snapshot->known = servers->health.known;
    snapshot->count = servers->count;
    for (unsigned i = 0; i < servers->count; i++) {
        room->conninfos[i] = servers->pollers[i]->conninfo;
        room->conninfos[i]->references++;
        fill(servers, servers->pollers[i], &snapshot->servers[i], &snapshot->states[i]);
    }
    atomic_store(&servers->current, room);
    pthread_cond_broadcast(&servers->news);
}

/* ---- storing ---- */

static void count_load(struct weir_servers *servers, struct weir_poller *poller)
{
    uint64_t now_ns = weir_ask_now_ns(), past_ns = weir_sub_sat(now_ns, poller->counted_ns);
    if (past_ns < SECOND_NS)
        return;
    uint64_t reads = atomic_load_explicit(&servers->read_counters[poller->counter].reads, memory_order_relaxed);
    poller->load = weir_mul_div(reads - poller->counted, SECOND_NS, past_ns);
    poller->counted = reads;
    poller->counted_ns = now_ns;
}

void weir_servers_store(struct weir_servers *servers, struct weir_poller *poller, struct weir_poll_result *answer)
{
    weir_health_hear(&servers->health, &poller->health, &answer->reply);
    poller->remark = answer->remark;
    count_load(servers, poller);
    weir_servers_publish(servers);
}

void weir_servers_fail(struct weir_servers *servers, struct weir_poller *poller, const char *fault)
{
    weir_health_miss(&poller->health);
    (void)snprintf(poller->remark.fault, sizeof poller->remark.fault, "%s", fault);
    weir_servers_publish(servers);
}
