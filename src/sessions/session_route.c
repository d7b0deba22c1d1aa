/* SPDX-License-Identifier: Apache-2.0
 *
 * Asks core/session/policy.c in a loop what the call does next, and does it: it has the replica asked where it is, or
 * waits for news, and at last returns the server to go to, or an error with a text for people. The rules for choosing a
 * server are in core/session/policy.c and route.c. Called by session.c for writes and by session_read.c for reads. */

#include "base/checked.h"
#include "base/timing.h"
#include "core/session/policy.h"
#include "net/postgres_ask.h"
#include "sessions/session_inside.h"

struct weir_route_request weir_call_request(const struct weir_call *call, bool write)
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
        .wall_ns = weir_timing_now(CLOCK_REALTIME),
        .window_ns = session->window_ns,
        .strategy = session->strategy,
        .behind = session->behind,
        .write = write,
    };
}

int weir_session_lost(struct weir_call *call, const char *server)
{
    return weir_session_say(call->session, WEIR_ECUTOFF, server, "what this session has seen was cut off there");
}

static struct weir_policy decide(const struct weir_call *call, bool write, bool looked)
{
    const struct weir_session *session = call->session;
    const struct weir_pinned *replica = &session->pins[WEIR_PINNED_REPLICA],
                             *leader = &session->pins[WEIR_PINNED_LEADER];
    static const struct weir_session_token none = { 0 };
    struct weir_policy_request request = {
        .route = weir_call_request(call, write),
        .caller = WEIR_POLICY_CONNECTION,
        .now_ns = weir_ask_now_ns(),
        .begun_ns = call->begun_ns,
        .wait_ns = call->until_ns,
        .give_up_ns = call->until_ns,
        .looked = looked,
        .at_leader = !write && session->at == leader && leader->version == session->version,
    };
    if (write && !weir_session_is_tracked(session))
        request.route.token = &none;
    if (replica->link)
        request.route.stay = weir_call_find(call, replica->link->server);
    return weir_policy_decide(&request);
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

static int refused(struct weir_call *call, bool write, enum weir_route_end end)
{
    struct weir_session *session = call->session;
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

static void ask_where_it_is(struct weir_call *call)
{
    const struct weir_session *session = call->session;
    uint64_t until_ns = weir_add_sat(weir_ask_now_ns(), WEIR_POLICY_REFRESH_NS);
    (void)weir_servers_ask(session->replicas->servers, session->pins[WEIR_PINNED_REPLICA].link->server,
                           weir_min_u64(weir_call_timeout(call), until_ns));
    weir_call_look(call);
}

int weir_session_find(struct weir_call *call, bool write, struct weir_route *ret_route)
{
    for (bool looked = false;; looked = true) {
        const struct weir_policy policy = decide(call, write, looked);
        switch (policy.next) {
        case WEIR_POLICY_GO:
            *ret_route = policy.route;
            return 0;
        case WEIR_POLICY_ASK:
            ask_where_it_is(call);
            break;
        case WEIR_POLICY_WAIT:
            (void)weir_call_wait(call); /* if it is late by now the policy says so */
            break;
        case WEIR_POLICY_END:
            return refused(call, write, policy.end);
        }
    }
}
