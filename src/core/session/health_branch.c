/* SPDX-License-Identifier: Apache-2.0
 *
 * Which of the timelines of one number a server is on (core/session/timeline.h). A primary says when its postmaster was
 * started: that names the branch that it writes. A standby says nothing: it is on the branch of the primary whose
 * timeline it receives, and stays on it until it is started anew or goes to another timeline. Where there is a branch
 * table (core/session/branches.h) its rows say which.
 *
 * A branch goes on over a new start where this poller saw both: the same server's address, the same timeline, never
 * less than was flushed. Of a standby that was promoted, what it was on before is the branch that its history names. */
#include "core/session/health.h"

/* On the one branch of its timeline? */
static bool is_single(const struct weir_shown *shown)
{
    return shown->timeline <= 1;
}

static bool is_as_before(const struct weir_shown *before, const struct weir_shown *now)
{
    return before->system == now->system && before->started == now->started && before->timeline == now->timeline;
}

uint32_t weir_health_branch(const struct weir_health_server *server, const struct weir_shown *shown)
{
    const struct weir_standing *stood = &server->stood;
    if (is_single(shown))
        return 0;
    if (shown->primary)
        return weir_branch_of(shown->system, shown->timeline, shown->started);
    return stood->started == shown->started && stood->timeline == shown->timeline ? stood->branch : 0;
}

/* Does the answer's history, if it has one, say what is known of that branch? */
static bool is_told_alike(const struct weir_health *health, const struct weir_health_reply *reply, uint32_t branch)
{
    const struct weir_history *known = weir_known_find(&health->known, reply->shown.timeline, branch);
    const struct weir_history *told = &reply->history;
    if (!reply->with_history || !known)
        return true;
    for (unsigned i = 0; i < known->count && i < told->count; i++)
        if (known->ancestors[i].timeline != told->ancestors[i].timeline ||
            known->ancestors[i].end != told->ancestors[i].end)
            return false;
    return known->count == told->count;
}

/* The primary began anew: is it the one that this poller saw before? */
static void learn_restart(struct weir_health *health, const struct weir_shown *before,
                          const struct weir_health_reply *reply)
{
    const struct weir_shown *now = &reply->shown;
    if (before->primary && before->branch && before->system == now->system && before->timeline == now->timeline &&
        before->started != now->started && now->position >= before->flushed &&
        is_told_alike(health, reply, before->branch))
        weir_known_same(&health->known, now->timeline, now->branch, before->branch);
}

/* Its own past says which branches the ancestors are. */
static void learn_ancestors(const struct weir_health *health, const struct weir_health_server *server,
                            struct weir_history *history)
{
    const struct weir_standing *was = &server->was;
    const struct weir_history *before = weir_known_find(&health->known, was->timeline, was->branch);
    for (unsigned i = 0; i < history->count; i++) {
        struct weir_ancestor *ancestor = &history->ancestors[i];
        if (ancestor->timeline == was->timeline)
            ancestor->branch = was->branch;
        for (unsigned j = 0; before && j < before->count; j++)
            if (before->ancestors[j].timeline == ancestor->timeline && before->ancestors[j].end == ancestor->end)
                ancestor->branch = before->ancestors[j].branch;
    }
}

/* The history of a branch under another of its numbers, or of the primary that a standby follows, is its own. */
static void learn_history(struct weir_health *health, const struct weir_health_server *server,
                          struct weir_health_reply *reply)
{
    struct weir_history *history = &reply->history;
    history->branch = reply->shown.branch;
    if (!history->branch || weir_known_find(&health->known, history->timeline, history->branch))
        return;
    if (reply->shown.primary && server->was.started == reply->shown.started)
        learn_ancestors(health, server, history);
    weir_known_history(&health->known, reply->shown.system, history);
}

/* Where it stands as a standby, for when it is promoted, and for when it could not tell its timeline for a while, as
 * happens when nothing is received any more and the replication protocol has to be asked. */
static void remember(struct weir_health_server *server, const struct weir_shown *shown)
{
    if (shown->primary || !shown->timeline)
        return;
    server->stood = (struct weir_standing){ shown->started, shown->timeline, shown->branch };
    if (is_single(shown) || shown->branch)
        server->was = server->stood;
}

/* By what the server was seen to do, or what the primary says that it follows. One that could look and has no row has
 * not reached the row of a primary that has one, or never will. */
static uint32_t standby_branch(const struct weir_health *health, const struct weir_health_server *server,
                               const struct weir_health_reply *reply)
{
    const struct weir_shown *shown = &reply->shown;
    const struct weir_health_server *primary = weir_health_primary(health);
    uint32_t branch = weir_branches_number(&reply->branches, shown->system, shown->timeline);
    if (branch || is_single(shown))
        return branch;
    branch = weir_health_branch(server, shown);
    if (branch || !shown->streams || !primary || !primary->up || primary->last.shown.timeline != shown->timeline)
        return branch;
    return reply->looked && primary->last.shown.told ? 0 : primary->last.shown.branch;
}

/* It stays told for its run. */
static bool is_told(const struct weir_health_server *server, const struct weir_health_reply *reply)
{
    const struct weir_shown *shown = &reply->shown, *before = &server->last.shown;
    return weir_branches_has(&reply->branches, shown->timeline, shown->started) ||
           (is_as_before(before, shown) && before->told);
}

void weir_health_place(struct weir_health *health, struct weir_health_server *server, struct weir_health_reply *reply)
{
    struct weir_shown *shown = &reply->shown;
    shown->branch = shown->primary ? weir_health_branch(server, shown) : standby_branch(health, server, reply);
    shown->told = shown->primary && is_told(server, reply);
    if (shown->system != health->system)
        return;
    if (shown->primary)
        learn_restart(health, &server->last.shown, reply);
    if (reply->with_history)
        learn_history(health, server, reply);
    if ((reply->looked || reply->with_history) && shown->branch) /* whichever of the two came last */
        weir_branches_learn(&reply->branches, shown->timeline, shown->branch, &health->known);
    remember(server, shown);
}
