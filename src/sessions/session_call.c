/* SPDX-License-Identifier: Apache-2.0
 *
 * What one call of the application knows of the servers: a copy of the latest snapshot, taken anew after each wait and
 * each question. The copy marks as not usable the servers that the call shuns, primaries other than the leader, and
 * standbys that are cut off from the leader's history. Called by session.c, session_lead.c, session_read.c,
 * session_route.c and session_pinned.c. */
#include <stdio.h>
#include <string.h>

#include "base/checked.h"
#include "net/postgres_ask.h"
#include "sessions/session_inside.h"

int weir_session_say(struct weir_session *session, int error, const char *server, const char *text)
{
    (void)snprintf(session->fault.field, sizeof session->fault.field, "%.31s", server);
    (void)snprintf(session->fault.text, sizeof session->fault.text, "%.159s", text);
    return error;
}

/* ---- what is known of the servers ---- */

static bool is_shunned(const struct weir_call *call, uint64_t id, uint64_t asked_ns)
{
    for (unsigned i = 0; i < call->shunned_count; i++)
        if (call->shunned[i].server == id)
            return asked_ns <= call->shunned[i].since_ns || weir_ask_now_ns() >= call->until_ns;
    return false;
}

/* Has the server gone on where the leader's history left its timeline? What it shows there nobody else ever will. */
static bool is_cut_off(const struct weir_known *known, const struct weir_shown *shown, const struct weir_shown *leader)
{
    const struct weir_place place = {
        .system = shown->system, .position = shown->position, .timeline = shown->timeline, .branch = shown->branch
    };
    struct weir_shown end = *leader;
    end.position = UINT64_MAX;
    if (shown->timeline == leader->timeline)
        return !weir_known_is_same(known, leader->timeline, shown->branch, leader->branch);
    return shown->timeline != 0 && weir_place_compare(&place, &end, known) == WEIR_PLACE_LOST;
}

/* Reading there would do no harm at once; what was read could not be read anywhere else later. */
static void avoid_zombies(struct weir_call *call)
{
    uint32_t leader = weir_route_leader(call->servers, call->count);
    for (unsigned i = 0; leader != WEIR_ROUTE_NONE && i < call->count; i++)
        if (i != leader && (call->servers[i].shown.primary ||
                            is_cut_off(call->known, &call->servers[i].shown, &call->servers[leader].shown)))
            call->servers[i].usable = call->servers[i].frozen = false;
}

void weir_call_look(struct weir_call *call)
{
    struct weir_servers *servers = call->session->replicas->servers;
    if (call->snapshot)
        weir_servers_release(servers, call->snapshot);
    call->snapshot = weir_servers_look(servers);
    call->known = &call->snapshot->known;
    call->count = call->snapshot->count;
    memcpy(call->servers, call->snapshot->servers, call->count * sizeof call->servers[0]);
    for (unsigned i = 0; i < call->count; i++)
        if (is_shunned(call, call->servers[i].id, call->servers[i].asked_ns))
            call->servers[i].usable = call->servers[i].frozen = false;
    avoid_zombies(call);
}

void weir_call_begin(struct weir_call *call, struct weir_session *session)
{
    call->session = session;
    call->begun_ns = weir_ask_now_ns();
    call->until_ns = weir_add_sat(call->begun_ns, session->wait_ns);
    call->waited_ns = 0;
    call->snapshot = NULL;
    call->shunned_count = 0;
    session->fault = (struct weir_fault){ 0 };
    weir_call_look(call);
}

void weir_call_end(struct weir_call *call)
{
    weir_servers_release(call->session->replicas->servers, call->snapshot);
}

uint64_t weir_call_timeout(const struct weir_call *call)
{
    return weir_add_sat(weir_ask_now_ns(), call->session->replicas->timeout_ns);
}

bool weir_call_wait(struct weir_call *call)
{
    uint64_t from_ns = weir_ask_now_ns();
    if (from_ns >= call->until_ns)
        return false;
    (void)weir_servers_wait(call->session->replicas->servers, call->snapshot->number, call->until_ns);
    call->waited_ns += weir_sub_sat(weir_ask_now_ns(), from_ns);
    weir_call_look(call);
    return true;
}

bool weir_call_ask(struct weir_call *call, uint64_t id)
{
    int error = weir_servers_ask(call->session->replicas->servers, id, weir_call_timeout(call));
    weir_call_look(call);
    return error == 0;
}

void weir_call_shun(struct weir_call *call, uint64_t id)
{
    unsigned i = 0;
    while (i < call->shunned_count && call->shunned[i].server != id)
        i++;
    if (i == WEIR_CALL_SHUNNED_MAX)
        i = 0; /* so many have failed that the time is over */
    else if (i == call->shunned_count)
        call->shunned_count++;
    call->shunned[i].server = id;
    call->shunned[i].since_ns = weir_ask_now_ns();
    weir_call_look(call);
}

uint32_t weir_call_find(const struct weir_call *call, uint64_t id)
{
    for (unsigned i = 0; i < call->count; i++)
        if (call->servers[i].id == id)
            return i;
    return WEIR_ROUTE_NONE;
}
