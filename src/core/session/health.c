/* SPDX-License-Identifier: Apache-2.0
 *
 * Two halves. An answer updates its server, what is known of the histories (timeline.h) and where the primary was
 * (lag.h). A phase is not stored: each question computes it from what all servers said last. Called by
 * sessions/servers.c and servers_publish.c, and by sim/sessions_weir.c; a server's branch is found in
 * health_branch.c. */
#include "core/session/health.h"

#include "base/assert.h"
#include "base/checked.h"

const char *weir_health_phase_name(enum weir_health_phase phase)
{
    static const char *const names[WEIR_HEALTH_PHASES] = {
        [WEIR_HEALTH_UNHEARD] = "unheard", [WEIR_HEALTH_DOWN] = "down",         [WEIR_HEALTH_STRANGER] = "stranger",
        [WEIR_HEALTH_FORMER] = "former",   [WEIR_HEALTH_TIMELESS] = "timeless", [WEIR_HEALTH_BRANCHLESS] = "branchless",
        [WEIR_HEALTH_STRAY] = "stray",     [WEIR_HEALTH_FROZEN] = "frozen",     [WEIR_HEALTH_USABLE] = "usable",
    };
    weir_assert((unsigned)phase < WEIR_HEALTH_PHASES);
    return names[phase];
}

void weir_health_add(struct weir_health *health, struct weir_health_server *server)
{
    weir_assert(health->count < WEIR_ROUTE_SERVERS_MAX);
    health->servers[health->count++] = server;
}

void weir_health_remove(struct weir_health *health, const struct weir_health_server *server)
{
    unsigned at = 0;
    while (at < health->count && health->servers[at] != server)
        at++;
    weir_assert(at < health->count);
    health->count--;
    for (; at < health->count; at++)
        health->servers[at] = health->servers[at + 1];
}

/* ---- judging ---- */

static bool is_later_timeline(const struct weir_health *health, uint32_t timeline)
{
    for (unsigned i = 0; i < health->count; i++) {
        const struct weir_shown *shown = &health->servers[i]->last.shown;
        if (shown->system == health->system && shown->timeline > timeline)
            return true;
    }
    return false;
}

struct weir_health_server *weir_health_primary(const struct weir_health *health)
{
    struct weir_health_server *found = NULL;
    for (unsigned i = 0; i < health->count; i++) {
        struct weir_health_server *server = health->servers[i];
        const struct weir_shown *shown = &server->last.shown;
        if (!shown->primary || shown->system != health->system || is_later_timeline(health, shown->timeline))
            continue;
        if (found && found->up && server->up &&
            (found->last.shown.run != shown->run || found->last.shown.started != shown->started))
            return NULL;
        if (!found || (server->up && !found->up))
            found = server;
    }
    return found;
}

bool weir_health_is_former(const struct weir_health *health, const struct weir_health_server *server)
{
    const struct weir_shown *shown = &server->last.shown;
    const struct weir_health_server *primary = weir_health_primary(health);
    if (!shown->primary || shown->system != health->system)
        return false;
    bool replaced = !server->up && primary && primary->up &&
                    (primary->last.shown.run != shown->run || primary->last.shown.started != shown->started);
    return replaced || is_later_timeline(health, shown->timeline);
}

/* A standby that has gone on where the primary's history left its timeline, or is on none of that history. */
static bool is_cut_off(const struct weir_health *health, const struct weir_shown *shown,
                       const struct weir_shown *primary)
{
    const struct weir_known *known = &health->known;
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
static bool is_frozen(const struct weir_health *health, const struct weir_health_server *server)
{
    uint64_t freeze_ns = health->freeze_ns, at_ns = server->last.begun_ns;
    uint64_t since_ns = weir_lag_beyond_since(&health->lag, server->last.shown.position);
    return since_ns && weir_sub_sat(at_ns, since_ns) >= freeze_ns && weir_sub_sat(at_ns, server->moved_ns) >= freeze_ns;
}

bool weir_health_stands(const struct weir_health *health, const struct weir_health_server *server)
{
    return server->last.begun_ns && !server->last.shown.primary && server->up && is_frozen(health, server);
}

/* What is seen at one that is timeless could never be compared with anything. */
static enum weir_health_phase standby_phase(const struct weir_health *health, const struct weir_health_server *server)
{
    const struct weir_shown *shown = &server->last.shown;
    const struct weir_health_server *primary = weir_health_primary(health);
    if (!shown->timeline)
        return WEIR_HEALTH_TIMELESS;
    if (shown->timeline > 1 && !shown->branch)
        return WEIR_HEALTH_BRANCHLESS;
    if (primary && is_cut_off(health, shown, &primary->last.shown))
        return WEIR_HEALTH_STRAY;
    return weir_health_stands(health, server) ? WEIR_HEALTH_FROZEN : WEIR_HEALTH_USABLE;
}

enum weir_health_phase weir_health_phase(const struct weir_health *health, const struct weir_health_server *server)
{
    const struct weir_shown *shown = &server->last.shown;
    if (!server->up)
        return server->last.begun_ns ? WEIR_HEALTH_DOWN : WEIR_HEALTH_UNHEARD;
    if (shown->system != health->system)
        return WEIR_HEALTH_STRANGER;
    if (!shown->primary)
        return standby_phase(health, server);
    return weir_health_is_former(health, server) ? WEIR_HEALTH_FORMER : WEIR_HEALTH_USABLE;
}

void weir_health_show(const struct weir_health *health, const struct weir_health_server *server,
                      struct weir_route_server *ret_server)
{
    const struct weir_health_reply *last = &server->last;
    enum weir_health_phase phase = weir_health_phase(health, server);
    bool standby = last->begun_ns && !last->shown.primary;
    *ret_server = (struct weir_route_server){
        .id = server->id,
        .shown = last->shown,
        .asked_ns = last->begun_ns,
        .lag_ns = standby ? weir_lag_of(&health->lag, last->shown.position, last->begun_ns) : 0,
        .replayed_ns = last->replayed_ns,
        .clock = last->clock,
        .settled_ns = server->settled_ns,
        .usable = phase == WEIR_HEALTH_USABLE,
        .frozen = phase == WEIR_HEALTH_FROZEN,
    };
    if (!last->begun_ns || last->shown.system != health->system)
        ret_server->lag_ns = UINT64_MAX;
}

/* ---- hearing ---- */

/* All have to say it before another system is believed in: a stranger under the address of one of them is none of it,
 * whoever else is down. */
static void learn_system(struct weir_health *health, const struct weir_health_server *server, uint64_t system)
{
    if (health->system == system)
        return;
    for (unsigned i = 0; health->system && i < health->count; i++)
        if (health->servers[i] != server && health->servers[i]->last.shown.system == health->system)
            return;
    health->system = system;
    health->known = (struct weir_known){ .changes = health->known.changes };
    health->lag.count = 0;
}

/* What the primary has flushed can be replayed. Where that ends with a page and more was written, the record there may
 * not be whole: then the primary has not moved for us. */
static void learn_primary(struct weir_health *health, const struct weir_health_reply *reply)
{
    const struct weir_shown *shown = &reply->shown;
    weir_known_run(&health->known, shown->system, shown->timeline, shown->branch, shown->run, shown->flushed);
    weir_known_primary(&health->known, shown->system, shown->timeline, shown->run, shown->started);
    if (shown->flushed >= shown->position || shown->flushed % reply->page_size != 0)
        weir_lag_add(&health->lag, weir_min_u64(shown->flushed, shown->position), reply->begun_ns);
}

/* Of one run on one timeline: what was settled before says nothing of another. */
static void learn_settled(struct weir_health_server *server, const struct weir_health_reply *reply)
{
    const struct weir_shown *shown = &reply->shown, *before = &server->last.shown;
    if (!shown->primary || shown->run != before->run || shown->timeline != before->timeline ||
        shown->system != before->system)
        server->settled_ns = 0;
    server->settled_ns = weir_max_u64(server->settled_ns, reply->settled_ns);
}

void weir_health_hear(struct weir_health *health, struct weir_health_server *server, struct weir_health_reply *reply)
{
    const struct weir_shown *before = &server->last.shown;
    weir_assert(reply->begun_ns && reply->page_size);
    bool moved = !server->last.begun_ns || before->position != reply->shown.position ||
                 before->primary != reply->shown.primary || before->system != reply->shown.system;
    if (moved)
        server->moved_ns = reply->begun_ns;
    learn_system(health, server, reply->shown.system);
    weir_health_place(health, server, reply);
    learn_settled(server, reply);
    server->last = *reply;
    server->up = true;
    if (server == weir_health_primary(health))
        learn_primary(health, reply);
}

void weir_health_miss(struct weir_health_server *server)
{
    server->up = false;
}

bool weir_health_tell(struct weir_health *health, const struct weir_shown *shown, bool *ret_ask)
{
    const struct weir_known *known = &health->known;
    bool ours = false;
    *ret_ask = false;
    if (!shown->primary || !shown->run || shown->system != health->system)
        return false;
    /* A primary's start names the branch that it writes. */
    uint32_t branch = weir_branch_of(shown->system, shown->timeline, shown->started);
    for (unsigned i = 0; i < known->run_count; i++)
        ours = ours || (known->runs[i].timeline == shown->timeline && known->runs[i].run == shown->run &&
                        weir_known_is_same(known, shown->timeline, known->runs[i].branch, branch));
    if (ours)
        weir_known_run(&health->known, shown->system, shown->timeline, branch, shown->run, shown->flushed);
    *ret_ask = !ours;
    return ours;
}
