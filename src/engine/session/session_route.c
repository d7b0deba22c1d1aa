/* SPDX-License-Identifier: Apache-2.0 */
#include <time.h>

#include "base/checked.h"
#include "engine/session/ask.h"
#include "engine/session/session_inside.h"

/* With a policy that does not wait, each server may still be asked once how far it is now; and where the session is,
 * before it moves. */
#define REFRESH_MAX_NS UINT64_C(20000000)

/* What core/session/route is asked of the token as it is. */
static struct weir_route_request request_of(const struct weir_call *call, bool write)
{
    const struct weir_session *session = call->session;
    return (struct weir_route_request){
        .token = &session->token,
        .known = call->known,
        .servers = call->servers,
        .server_count = call->count,
        .session = session->id,
        .stay = WEIR_ROUTE_NONE,
        .came_ns = session->gained_ns,
        .wall_ns = weir_session_wall_ns(),
        .window_ns = session->window_ns,
        .wait_left_ns = weir_sub_sat(call->until_ns, weir_ask_now_ns()),
        .strategy = session->strategy,
        .behind = session->behind,
        .write = write,
    };
}

bool weir_call_may_learn(const struct weir_call *call)
{
    const struct weir_route_request request = request_of(call, false);
    return weir_route_may_learn(&request);
}

int weir_session_lost(struct weir_call *call, const char *server)
{
    return weir_session_say(call->session, WEIR_ECUTOFF, server, "what this session has seen was cut off there");
}

uint64_t weir_session_wall_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
}

/* Somebody who was behind when asked last, which was before the token came. */
static bool wants_refresh(const struct weir_call *call)
{
    const struct weir_session *session = call->session;
    if ((session->behind != WEIR_BEHIND_OTHER && session->behind != WEIR_BEHIND_ERROR) ||
        weir_ask_now_ns() > weir_min_u64(call->until_ns, weir_add_sat(call->begun_ns, REFRESH_MAX_NS)))
        return false;
    for (unsigned i = 0; i < call->count; i++)
        if (call->servers[i].usable && !weir_call_is_fresh(call, i))
            return true;
    return false;
}

static struct weir_route choose(const struct weir_call *call, bool write)
{
    const struct weir_session *session = call->session;
    const struct weir_seat *replica = &session->seats[WEIR_SEAT_REPLICA], *leader = &session->seats[WEIR_SEAT_LEADER];
    static const struct weir_session_token none = { 0 };
    struct weir_route_request request = request_of(call, write);
    if (write && !weir_session_is_tracked(session))
        request.token = &none;
    if (replica->link)
        request.stay = weir_call_find(call, replica->link->server);
    if (wants_refresh(call))
        request.behind = WEIR_BEHIND_WAIT;
    if (!write && session->at == leader && leader->link && leader->version == session->version) {
        /* It waited for the replicas when it came here: now it goes as soon as one is far enough. */
        struct weir_route_request now = request;
        now.wait_left_ns = 0;
        struct weir_route route = weir_route_choose(&now);
        if (route.server != WEIR_ROUTE_NONE && !route.stale)
            return route;
    }
    return weir_route_choose(&request);
}

static bool anybody(const struct weir_call *call)
{
    for (unsigned i = 0; i < call->count; i++)
        if (call->servers[i].usable)
            return true;
    return false;
}

/* Nobody can be read. One speaks for all: first one that stands still, which a stale read would find. */
static int down(struct weir_call *call)
{
    const struct weir_snapshot *snapshot = call->snapshot;
    unsigned said = snapshot->count;
    for (unsigned i = 0; i < snapshot->count; i++) {
        bool first = said == snapshot->count || (snapshot->servers[i].frozen && !snapshot->servers[said].frozen);
        if (snapshot->states[i].fault[0] && first)
            said = i;
    }
    if (said == snapshot->count)
        return weir_session_say(call->session, WEIR_EDOWN, "", "no server answers");
    return weir_session_say(call->session, WEIR_EDOWN, snapshot->states[said].name, snapshot->states[said].fault);
}

static int refused(struct weir_call *call, bool write, enum weir_place_verdict verdict)
{
    struct weir_session *session = call->session;
    const struct weir_route_request request = request_of(call, write);
    enum weir_route_end end = weir_route_end(&request, verdict);
    if (end == WEIR_ROUTE_LOST)
        return weir_session_lost(call, "");
    if (end == WEIR_ROUTE_FOREIGN)
        return weir_session_say(session, WEIR_EFOREIGN, "", "the servers are of another system than the token");
    if (end == WEIR_ROUTE_DOWN && write)
        return weir_session_say(session, WEIR_EDOWN, "", "no primary answers");
    if (session->fault.text[0])
        return end == WEIR_ROUTE_BEHIND ? WEIR_EBEHIND : WEIR_EDOWN;
    if (end == WEIR_ROUTE_BEHIND)
        return weir_session_say(session, WEIR_EBEHIND, "", "no server shows yet what this session has seen");
    return down(call);
}

/* What is known of the server where the session is may be older than the token. Before it leaves for one that was asked
 * since, or waits, that one is asked too. True: it was. */
static bool ask_where_it_is(struct weir_call *call)
{
    const struct weir_session *session = call->session;
    const struct weir_link *link = session->seats[WEIR_SEAT_REPLICA].link;
    uint32_t index = link && weir_session_is_tracked(session) ? weir_call_find(call, link->server) : WEIR_ROUTE_NONE;
    if (index == WEIR_ROUTE_NONE || !call->servers[index].usable || weir_call_is_fresh(call, index))
        return false;
    (void)weir_servers_ask(session->replicas->servers, link->server,
                           weir_min_u64(weir_call_timeout(call), weir_add_sat(weir_ask_now_ns(), REFRESH_MAX_NS)));
    weir_call_look(call);
    return true;
}

static bool is_where_it_is(const struct weir_call *call, const struct weir_route *route)
{
    const struct weir_link *link = call->session->seats[WEIR_SEAT_REPLICA].link;
    return link && route->server != WEIR_ROUTE_NONE && call->servers[route->server].id == link->server;
}

int weir_session_find(struct weir_call *call, bool write, struct weir_route *ret_route)
{
    enum weir_session_behind behind = call->session->behind;
    bool is_patient = behind != WEIR_BEHIND_ERROR && behind != WEIR_BEHIND_OTHER;
    bool asked = write;
    for (;;) {
        struct weir_route route = choose(call, write);
        if (!asked && (route.wait || !is_where_it_is(call, &route))) {
            asked = true;
            if (ask_where_it_is(call))
                continue;
        }
        if (!route.wait && route.server != WEIR_ROUTE_NONE) {
            *ret_route = route;
            return 0;
        }
        bool is_final = route.verdict == WEIR_PLACE_LOST || route.verdict == WEIR_PLACE_FOREIGN;
        /* That nobody answers passes, or we have just begun: it is waited for whatever the policy for those behind. */
        bool may_learn = route.verdict == WEIR_PLACE_UNPROVEN; /* by the next answer: it is no matter of being behind */
        bool waited = !is_final && (route.wait || is_patient || may_learn || !anybody(call)) && weir_call_wait(call);
        if (!waited && !route.wait)
            return refused(call, write, route.verdict);
    }
}
