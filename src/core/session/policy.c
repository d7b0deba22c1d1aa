/* SPDX-License-Identifier: Apache-2.0
 *
 * Marks the servers that may not be chosen, or for a stale read only, lets route.c choose, and decides what follows
 * from the choice: to go, to wait, to ask a server, or to end. Called by the service (serve/session_decide.c), by the
 * library (sessions/session_route.c, session_read.c) and by sim/sessions_client.c, which do the waiting. */
#include "core/session/policy.h"

#include <string.h>

#include "base/assert.h"
#include "base/checked.h"

bool weir_policy_is_fresh(const struct weir_route_server *server, uint64_t since_ns)
{
    return server->asked_ns > since_ns;
}

bool weir_policy_is_mute(const struct weir_shown *shown, const struct weir_session_token *token)
{
    return token->count > 0 && !shown->primary && !shown->streams;
}

/* ---- which servers there are ---- */

static bool is_avoided(const struct weir_policy_request *request, unsigned index)
{
    return !request->route.servers[index].shown.primary && (request->avoided >> index & 1) != 0;
}

static bool is_mute(const struct weir_policy_request *request, unsigned index)
{
    return request->caller == WEIR_POLICY_STATEMENT &&
           weir_policy_is_mute(&request->route.servers[index].shown, request->route.token);
}

/* One that is mute is there for a read that may be stale, like one that stands still. */
static void copy_servers(const struct weir_policy_request *request, struct weir_route_server *servers)
{
    bool tracked = request->route.strategy == WEIR_SESSION_TRACKED;
    memcpy(servers, request->route.servers, request->route.server_count * sizeof *servers);
    for (unsigned i = 0; i < request->route.server_count; i++) {
        struct weir_route_server *server = &servers[i];
        bool mute = server->usable && tracked && is_mute(request, i), avoided = is_avoided(request, i);
        server->frozen = (server->frozen || mute) && !avoided;
        server->usable = server->usable && !mute && !avoided;
    }
}

/* Somebody who was behind when asked last, which was before the token came. */
static bool wants_refresh(const struct weir_policy_request *request)
{
    const struct weir_route_request *route = &request->route;
    uint64_t until_ns = weir_min_u64(request->wait_ns, weir_add_sat(request->begun_ns, WEIR_POLICY_REFRESH_NS));
    if (request->caller != WEIR_POLICY_CONNECTION || request->now_ns > until_ns ||
        (route->behind != WEIR_BEHIND_OTHER && route->behind != WEIR_BEHIND_ERROR))
        return false;
    for (unsigned i = 0; i < route->server_count; i++)
        if (route->servers[i].usable && !weir_policy_is_fresh(&route->servers[i], route->came_ns))
            return true;
    return false;
}

/* ---- the choice ---- */

/* Where nobody else is left for a read that may be stale: what was avoided because it is mute says unproven to all. */
static struct weir_route choose_mute(const struct weir_policy_request *request, struct weir_route_request *route,
                                     struct weir_route_server *servers)
{
    for (unsigned i = 0; i < route->server_count; i++)
        if (request->route.servers[i].usable && is_mute(request, i))
            servers[i].frozen = true;
    return weir_route_choose(route);
}

static struct weir_route choose(const struct weir_policy_request *request, struct weir_route_request *route,
                                struct weir_route_server *servers)
{
    struct weir_route chosen;
    if (request->at_leader) { /* it waited for the replicas when it came there */
        struct weir_route_request now = *route;
        now.wait_left_ns = 0;
        chosen = weir_route_choose(&now);
        if (chosen.server != WEIR_ROUTE_NONE && !chosen.stale)
            return chosen;
    }
    chosen = weir_route_choose(route);
    if (chosen.server == WEIR_ROUTE_NONE && route->behind == WEIR_BEHIND_STALE)
        chosen = choose_mute(request, route, servers);
    /* sticky and window go there all the same */
    if (chosen.server != WEIR_ROUTE_NONE && chosen.verdict == WEIR_PLACE_OK && is_mute(request, chosen.server))
        chosen.verdict = WEIR_PLACE_UNPROVEN;
    return chosen;
}

/* ---- whether it is enough ---- */

/* Something of it was seen elsewhere than at this primary, which may not show it yet though it is in its log. */
static bool is_seen_elsewhere(const struct weir_session_token *token, const struct weir_shown *primary)
{
    for (unsigned i = 0; i < token->count; i++)
        if (token->places[i].standby || token->places[i].timeline > primary->timeline)
            return true;
    return false;
}

/* Has the primary shown a position as far as the token's, in the run that had not flushed it? If not, it may have lost
 * it, or was asked too early. */
static bool reaches(const struct weir_shown *primary, const struct weir_session_token *token)
{
    for (unsigned i = 0; i < token->count; i++) {
        const struct weir_place *place = &token->places[i];
        if (place->position > (primary->position | WEIR_POSITION_NEXT) || (place->run && place->run != primary->run))
            return false;
    }
    return true;
}

/* All that ran at a moment after the token was made is visible there; or there is no standby that could have shown it
 * before. */
static bool is_settled(const struct weir_route_request *route, uint32_t index)
{
    const struct weir_route_server *server = &route->servers[index];
    return server->shown.primary && (route->server_count == 1 || server->settled_ns > route->came_ns);
}

static bool shows_all(const struct weir_route_request *route, uint32_t index)
{
    return !is_seen_elsewhere(route->token, &route->servers[index].shown) || is_settled(route, index);
}

/* Does what is known of the chosen one say enough about it? */
static bool is_enough(const struct weir_policy_request *request, const struct weir_route *chosen)
{
    const struct weir_route_request *route = &request->route;
    if (request->caller == WEIR_POLICY_CONNECTION)
        return true;
    if (chosen->verdict == WEIR_PLACE_FOREIGN)
        return false;
    if (!chosen->leader || chosen->stale || route->token->count == 0)
        return true;
    const struct weir_route_server *server = &route->servers[chosen->server];
    if (!weir_policy_is_fresh(server, route->came_ns) && !reaches(&server->shown, route->token))
        return false;
    return route->write || shows_all(route, chosen->server);
}

/* ---- what is next ---- */

/* Who blocks waits for more than a replica that is behind: that nobody answers passes, or we have just begun. */
static bool blocks(const struct weir_policy_request *request, enum weir_place_verdict verdict)
{
    enum weir_session_behind behind = request->route.behind;
    bool patient = behind != WEIR_BEHIND_ERROR && behind != WEIR_BEHIND_OTHER;
    return request->caller == WEIR_POLICY_CONNECTION && verdict != WEIR_PLACE_LOST && verdict != WEIR_PLACE_FOREIGN &&
           (patient || !weir_route_is_any_usable(&request->route));
}

/* UNPROVEN is no matter of being behind: the next answer may tell, and so it may of a primary that is not proven. */
static bool may_wait(const struct weir_policy_request *request, const struct weir_route *chosen,
                     enum weir_route_end end)
{
    bool proposed = chosen->server != WEIR_ROUTE_NONE && !chosen->wait && end != WEIR_ROUTE_FOREIGN;
    if (request->now_ns < request->wait_ns && (chosen->wait || blocks(request, chosen->verdict)))
        return true;
    return request->now_ns < request->give_up_ns && (proposed || chosen->verdict == WEIR_PLACE_UNPROVEN);
}

/* What is known of the server where the session is may be older than the token. Before it leaves for one that was asked
 * since, or waits, that one is asked too. */
static bool must_ask(const struct weir_policy_request *request, const struct weir_route *chosen)
{
    const struct weir_route_request *route = &request->route;
    if (request->caller != WEIR_POLICY_CONNECTION || request->looked || route->write ||
        route->strategy != WEIR_SESSION_TRACKED || route->stay == WEIR_ROUTE_NONE)
        return false;
    const struct weir_route_server *there = &route->servers[route->stay];
    return (chosen->wait || chosen->server != route->stay) && there->usable &&
           !weir_policy_is_fresh(there, route->came_ns);
}

struct weir_policy weir_policy_decide(const struct weir_policy_request *request)
{
    struct weir_route_server servers[WEIR_ROUTE_SERVERS_MAX];
    struct weir_route_request route = request->route;
    weir_assert(route.server_count <= WEIR_ROUTE_SERVERS_MAX && request->wait_ns <= request->give_up_ns);
    copy_servers(request, servers);
    route.servers = servers;
    route.wait_left_ns = weir_sub_sat(request->wait_ns, request->now_ns);
    if (wants_refresh(request))
        route.behind = WEIR_BEHIND_WAIT;
    const struct weir_route chosen = choose(request, &route, servers);
    struct weir_policy policy = { .next = WEIR_POLICY_GO, .route = chosen };
    if (must_ask(request, &chosen)) {
        policy.next = WEIR_POLICY_ASK;
        policy.route = (struct weir_route){ .server = route.stay };
    } else if (chosen.server != WEIR_ROUTE_NONE && !chosen.wait && is_enough(request, &chosen)) {
        policy.shows_all = shows_all(&request->route, chosen.server);
        policy.settled = is_settled(&request->route, chosen.server);
    } else {
        policy.end = weir_route_end(&route, chosen.verdict);
        policy.next = may_wait(request, &chosen, policy.end) ? WEIR_POLICY_WAIT : WEIR_POLICY_END;
    }
    return policy;
}

/* ---- on the connection ---- */

enum weir_policy_refused weir_policy_refused(const struct weir_route_request *request, const struct weir_shown *shown,
                                             enum weir_place_verdict verdict)
{
    bool highest = shown->timeline >= weir_route_timeline(request->known, request->servers, request->server_count);
    switch (verdict) {
    case WEIR_PLACE_LOST: /* on the highest timeline that is the truth; on another it may be its own loss */
        return highest ? WEIR_POLICY_LOST : WEIR_POLICY_ELSEWHERE;
    case WEIR_PLACE_FOREIGN:
        return shown->primary ? WEIR_POLICY_FOREIGN : WEIR_POLICY_ELSEWHERE;
    case WEIR_PLACE_UNPROVEN: /* nobody can say what became of it */
        return shown->primary && highest && !weir_route_may_learn(request) ? WEIR_POLICY_LOST : WEIR_POLICY_ELSEWHERE;
    case WEIR_PLACE_OK:
    case WEIR_PLACE_BEHIND:
    case WEIR_PLACE_DIVERGED:
        break;
    }
    return WEIR_POLICY_ELSEWHERE;
}

bool weir_policy_may_stay(const struct weir_session_token *token, const struct weir_route_server *server,
                          const struct weir_known *known)
{
    if (!server->usable)
        return false;
    enum weir_place_verdict verdict = weir_session_token_compare(token, &server->shown, known);
    return verdict == WEIR_PLACE_OK || verdict == WEIR_PLACE_BEHIND || verdict == WEIR_PLACE_UNPROVEN;
}
