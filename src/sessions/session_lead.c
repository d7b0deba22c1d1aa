/* SPDX-License-Identifier: Apache-2.0
 *
 * Two jobs that need the true primary. One pins a connection to it: the snapshot names a server, and the connection
 * must show the same timeline, run and start; otherwise that server is shunned until its poller has asked it again. The
 * other fills gaps: what was seen on a connection that broke lies before the present end of the primary's log, if that
 * is provably still the same log. Called by session.c and session_read.c. */
#include "sessions/session_inside.h"

/* ---- the primary ---- */

/* A connection stays with the primary that it was made to, on its timeline and in its run. Another one than the
 * snapshot's: this one was promoted just now, or a server took its place. */
static bool is_as_known(const struct weir_link *link, const struct weir_shown *known)
{
    return link->asked && link->shown.primary && link->shown.timeline == known->timeline &&
           link->shown.run == known->run && link->shown.system == known->system &&
           link->shown.started == known->started;
}

int weir_session_lead(struct weir_call *call)
{
    struct weir_session *session = call->session;
    struct weir_pinned *pinned = &session->pins[WEIR_PINNED_LEADER];
    for (;;) {
        uint32_t index = weir_route_leader(call->servers, call->count);
        if (index == WEIR_ROUTE_NONE) {
            if (weir_call_wait(call))
                continue;
            return weir_session_say(session, WEIR_EDOWN, "", "no primary answers");
        }
        uint64_t server = call->servers[index].id;
        int error = pinned->link && pinned->link->server != server ? weir_pinned_settle(call, pinned) : 0;
        if (error == 0 || error == WEIR_EUNKNOWN)
            error = weir_pinned_take(call, pinned, index);
        if (error == WEIR_EAGAIN)
            continue;
        if (error != 0)
            return error;
        index = weir_call_find(call, server);
        if (index != WEIR_ROUTE_NONE && is_as_known(pinned->link, &call->servers[index].shown))
            return 0;
        error = weir_pinned_ask(call, pinned);
        index = weir_call_find(call, server);
        if (error == 0 && index != WEIR_ROUTE_NONE && is_as_known(pinned->link, &call->servers[index].shown))
            return 0;
        if (error != 0 && error != WEIR_EAGAIN)
            return error;
        weir_call_shun(call, server); /* until its poller has seen what the connection has */
    }
}

/* ---- gaps ---- */

static bool has_answered(const struct weir_call *call, unsigned index, const struct weir_gap *gap)
{
    return call->servers[index].asked_ns > gap->since_ns;
}

static void ask_all(struct weir_call *call, const struct weir_gap *gap)
{
    uint64_t ids[WEIR_ROUTE_SERVERS_MAX];
    unsigned count = 0;
    for (unsigned i = 0; i < call->count; i++)
        if (call->servers[i].usable && !has_answered(call, i, gap))
            ids[count++] = call->servers[i].id;
    for (unsigned i = 0; i < count; i++)
        (void)weir_call_ask(call, ids[i]);
}

/* Did the standby stay on its timeline until the connection broke? It may have been promoted, or have followed another
 * that was, a moment before. If it is still there, it did. If it is gone, and none of the others has been promoted, it
 * followed none of them. (That it was promoted itself, was read from, and went, all between two polls while its primary
 * lived on: that nobody could tell.) */
static bool is_proven(const struct weir_call *call, const struct weir_gap *gap)
{
    uint32_t itself = weir_call_find(call, gap->server);
    if (itself != WEIR_ROUTE_NONE && has_answered(call, itself, gap) && !call->servers[itself].shown.primary &&
        call->servers[itself].shown.timeline == gap->timeline)
        return true;
    for (unsigned i = 0; i < call->count; i++)
        if (i != itself && !has_answered(call, i, gap))
            return false;
    return true;
}

static int cut_off(struct weir_session *session)
{
    return weir_session_say(
        session, WEIR_ECUTOFF, "",
        "a connection broke before it said how far it was, and its primary is not the same any more");
}

/* Everything that was seen was in the log of the primary by now: where it is still the same log, its end is beyond. */
static int fill(struct weir_call *call, struct weir_gap *gap, bool standby)
{
    struct weir_pinned *pinned = &call->session->pins[WEIR_PINNED_LEADER];
    struct weir_place place;
    ask_all(call, gap);
    if (gap->timeline == 0 || weir_route_timeline(call->known, call->servers, call->count) > gap->timeline)
        return cut_off(call->session);
    if (standby && !is_proven(call, gap))
        return WEIR_EAGAIN;
    int error = weir_session_lead(call);
    if (error != 0)
        return error;
    error = weir_pinned_ask(call, pinned);
    if (error != 0)
        return error;
    const struct weir_shown *shown = &pinned->link->shown;
    if (!shown->primary || shown->timeline < gap->timeline)
        return WEIR_EAGAIN;
    /* A standby is sent what is flushed: no crash of the primary takes that back, so its run is no matter. */
    if (shown->system != gap->system || shown->timeline > gap->timeline || (!standby && shown->run != gap->run) ||
        !weir_known_is_same(call->known, gap->timeline, shown->branch, gap->branch) ||
        weir_place_seen(shown, &place) != 0)
        return cut_off(call->session);
    if (standby) {
        place.standby = true;
        place.run = 0;
    }
    error = weir_session_add(call->session, call->known, NULL, &place);
    if (error == 0)
        gap->open = false;
    return error;
}

int weir_session_fill(struct weir_call *call)
{
    for (unsigned i = 0; i < WEIR_PINNED_COUNT; i++) {
        struct weir_gap *gap = &call->session->gaps[i];
        while (gap->open) {
            int error = fill(call, gap, i == WEIR_PINNED_REPLICA);
            if (error == WEIR_EAGAIN && weir_call_wait(call))
                continue;
            if (error == WEIR_EAGAIN && i == WEIR_PINNED_REPLICA && !is_proven(call, gap))
                return cut_off(call->session);
            if (error == WEIR_EAGAIN || error == WEIR_EDOWN)
                return weir_session_say(
                    call->session, WEIR_EBEHIND, "",
                    "a connection broke before it said how far it was, and no primary can be asked");
            if (error != 0)
                return error;
        }
    }
    return 0;
}
