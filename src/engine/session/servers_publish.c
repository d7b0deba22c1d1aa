/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "engine/session/servers_inside.h"

#define SECOND_NS UINT64_C(1000000000)

void weir_conninfo_release(struct weir_conninfo *conninfo)
{
    if (conninfo && --conninfo->references == 0)
        free(conninfo);
}

/* ---- judging ---- */

static bool later_timeline(const struct weir_servers *servers, uint32_t timeline)
{
    for (unsigned i = 0; i < servers->count; i++) {
        const struct weir_shown *shown = &servers->pollers[i]->last.shown;
        if (shown->system == servers->system && shown->timeline > timeline)
            return true;
    }
    return false;
}

/* As weir_route_leader, but by what each said last, be it down now: a primary that was left behind does not become the
 * true one because the other does not answer for a moment. NULL: none, or two that contradict each other. */
struct weir_poller *weir_servers_primary(const struct weir_servers *servers)
{
    struct weir_poller *found = NULL;
    for (unsigned i = 0; i < servers->count; i++) {
        struct weir_poller *poller = servers->pollers[i];
        const struct weir_shown *shown = &poller->last.shown;
        if (!shown->primary || shown->system != servers->system || later_timeline(servers, shown->timeline))
            continue;
        if (found && found->up && poller->up &&
            (found->last.shown.run != shown->run || found->last.shown.started != shown->started))
            return NULL;
        if (!found || (poller->up && !found->up))
            found = poller;
    }
    return found;
}

/* It said last that it is the primary, and another is: on a higher timeline, or on one of the same number, while this
 * one is down. */
static bool former(const struct weir_servers *servers, const struct weir_poller *poller,
                   const struct weir_poller *primary)
{
    const struct weir_shown *shown = &poller->last.shown;
    if (!shown->primary || shown->system != servers->system)
        return false;
    bool replaced = !poller->up && primary && primary->up &&
                    (primary->last.shown.run != shown->run || primary->last.shown.started != shown->started);
    return replaced || later_timeline(servers, shown->timeline);
}

/* A standby that has gone on where the primary's history left its timeline, or is on none of that history. */
static bool cut_off(const struct weir_servers *servers, const struct weir_shown *shown,
                    const struct weir_shown *primary)
{
    const struct weir_known *known = &servers->known;
    const struct weir_history *history = weir_known_find(known, primary->timeline, primary->branch);
    if (shown->timeline == primary->timeline)
        return !weir_known_is_same(known, shown->timeline, shown->branch, primary->branch);
    if (!shown->timeline || shown->timeline >= primary->timeline || !history || history->cut)
        return false;
    uint64_t end = UINT64_MAX; /* ends may fall: what a later ancestor left is left for good */
    for (unsigned i = history->count; i-- > 0;) {
        end = weir_min_u64(end, history->ancestors[i].end);
        uint32_t branch = history->ancestors[i].branch;
        if (history->ancestors[i].timeline == shown->timeline)
            return shown->position > end ||
                   (branch && !weir_known_is_same(known, shown->timeline, shown->branch, branch));
    }
    return true;
}

/* At the time it was asked the primary had been elsewhere for so long, and it had not moved for so long. */
static bool frozen(const struct weir_servers *servers, const struct weir_poller *poller)
{
    uint64_t freeze_ns = servers->options.freeze_ns, at_ns = poller->last.begun_ns;
    uint64_t since_ns = weir_lag_beyond_since(&servers->lag, poller->last.shown.position);
    return since_ns && weir_sub_sat(at_ns, since_ns) >= freeze_ns && weir_sub_sat(at_ns, poller->moved_ns) >= freeze_ns;
}

/* Why it is not usable even if it moves; NULL: it is. */
static const char *unusable(const struct weir_servers *servers, const struct weir_poller *poller,
                            const struct weir_poller *primary)
{
    const struct weir_shown *shown = &poller->last.shown;
    if (!poller->up)
        return poller->last.fault[0] ? poller->last.fault : "has not answered yet";
    if (shown->system != servers->system)
        return "another system: its identifier differs from the others'";
    if (shown->primary)
        return later_timeline(servers, shown->timeline) ? "another has taken over: there is a higher timeline" : NULL;
    if (!shown->timeline) /* what is seen there could never be compared with anything */
        return "its timeline cannot be told: the role needs pg_read_all_stats or REPLICATION";
    if (shown->timeline > 1 && !shown->branch)
        return "it is not known which promotion its timeline comes from: it was not seen to follow the primary";
    if (primary && cut_off(servers, shown, &primary->last.shown))
        return "it has gone on where the primary's history left its timeline";
    return NULL;
}

/* ---- publishing ---- */

static void fill(const struct weir_servers *servers, const struct weir_poller *poller,
                 const struct weir_poller *primary, struct weir_route_server *server, struct weir_server_state *state)
{
    const struct weir_answer *last = &poller->last;
    const char *why = unusable(servers, poller, primary);
    bool standby = last->begun_ns && !last->shown.primary;
    bool stands = standby && poller->up && frozen(servers, poller);
    *server = (struct weir_route_server){
        .id = poller->id,
        .shown = last->shown,
        .asked_ns = last->begun_ns,
        .lag_ns = standby ? weir_lag_of(&servers->lag, last->shown.position, last->begun_ns) : 0,
        .replayed_ns = last->replayed_ns,
        .clock = last->clock,
        .load = (uint32_t)weir_min_u64(poller->load, UINT32_MAX),
        .usable = !why && !stands,
        .frozen = !why && stands,
    };
    if (!last->begun_ns || last->shown.system != servers->system)
        server->lag_ns = UINT64_MAX;
    *state = (struct weir_server_state){
        .conninfo = poller->conninfo->text,
        .generation = last->generation,
        .begun_ns = last->begun_ns,
        .page_size = last->page_size,
        .segment_size = last->segment_size,
        .settled_ns = poller->settled_ns,
        .frozen = stands,
        .former = former(servers, poller, primary),
    };
    if (server->frozen)
        why = "it stands still, and the primary has moved";
    memcpy(state->name, poller->name, sizeof state->name);
    (void)snprintf(state->fault, sizeof state->fault, "%s", why ? why : last->alone ? last->fault : last->table_fault);
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
    const struct weir_poller *primary = weir_servers_primary(servers);
    for (unsigned i = 0; i < snapshot->count; i++)
        weir_conninfo_release(room->conninfos[i]);
    snapshot->number = ++servers->number;
    snapshot->taken_ns = weir_ask_now_ns();
    snapshot->known = servers->known;
    snapshot->count = servers->count;
    for (unsigned i = 0; i < servers->count; i++) {
        room->conninfos[i] = servers->pollers[i]->conninfo;
        room->conninfos[i]->references++;
        fill(servers, servers->pollers[i], primary, &snapshot->servers[i], &snapshot->states[i]);
    }
    atomic_store(&servers->current, room);
    pthread_cond_broadcast(&servers->news);
}

/* ---- storing ---- */

/* All have to say it before another system is believed in: a stranger under the address of one of them is none of it,
 * whoever else is down. */
static void learn_system(struct weir_servers *servers, const struct weir_poller *poller, uint64_t system)
{
    if (servers->system == system)
        return;
    for (unsigned i = 0; servers->system && i < servers->count; i++)
        if (servers->pollers[i] != poller && servers->pollers[i]->last.shown.system == servers->system)
            return;
    servers->system = system;
    servers->known = (struct weir_known){ .changes = servers->known.changes };
    servers->lag.count = 0;
}

/* What the primary has flushed can be replayed. Where that ends with a page and more was written, the record there may
 * not be whole: then the primary has not moved for us. */
static void learn_primary(struct weir_servers *servers, const struct weir_answer *answer)
{
    const struct weir_shown *shown = &answer->shown;
    weir_known_run(&servers->known, shown->system, shown->timeline, shown->run, shown->flushed);
    weir_known_primary(&servers->known, shown->system, shown->timeline, shown->run, shown->started);
    if (shown->flushed >= shown->position || shown->flushed % answer->page_size != 0)
        weir_lag_add(&servers->lag, weir_min_u64(shown->flushed, shown->position), answer->begun_ns);
}

/* Of one run on one timeline: what was settled before says nothing of another. */
static void learn_settled(struct weir_poller *poller, const struct weir_answer *answer)
{
    const struct weir_shown *shown = &answer->shown, *before = &poller->last.shown;
    if (!shown->primary || shown->run != before->run || shown->timeline != before->timeline ||
        shown->system != before->system)
        poller->settled_ns = 0;
    poller->settled_ns = weir_max_u64(poller->settled_ns, answer->settled_ns);
}

static void count_load(struct weir_servers *servers, struct weir_poller *poller)
{
    uint64_t now_ns = weir_ask_now_ns(), past_ns = weir_sub_sat(now_ns, poller->counted_ns);
    if (past_ns < SECOND_NS)
        return;
    uint64_t reads = atomic_load_explicit(&servers->seats[poller->seat].reads, memory_order_relaxed);
    poller->load = weir_mul_div(reads - poller->counted, SECOND_NS, past_ns);
    poller->counted = reads;
    poller->counted_ns = now_ns;
}

void weir_servers_store(struct weir_servers *servers, struct weir_poller *poller, struct weir_answer *answer)
{
    const struct weir_shown *before = &poller->last.shown;
    bool moved = !poller->last.begun_ns || before->position != answer->shown.position ||
                 before->primary != answer->shown.primary || before->system != answer->shown.system;
    if (moved)
        poller->moved_ns = answer->begun_ns;
    learn_system(servers, poller, answer->shown.system);
    weir_servers_place(servers, poller, answer);
    learn_settled(poller, answer);
    poller->last = *answer;
    poller->up = true;
    if (poller == weir_servers_primary(servers))
        learn_primary(servers, answer);
    count_load(servers, poller);
    weir_servers_publish(servers);
}

void weir_servers_fail(struct weir_servers *servers, struct weir_poller *poller, const char *fault)
{
    poller->up = false;
    (void)snprintf(poller->last.fault, sizeof poller->last.fault, "%s", fault);
    weir_servers_publish(servers);
}
