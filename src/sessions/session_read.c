/* SPDX-License-Identifier: Apache-2.0
 *
 * weir_session_read of weir/session.h. Where nothing speaks against the connection of the last read, the session stays
 * there and asks nothing. Otherwise it fills the gaps, has a server chosen (session_route.c), adds the places of its
 * other connections to the token, takes a connection, and compares what that shows with the token. A server that does
 * not pass is shunned, and another is chosen. Called by applications, session_query.c and cli/reads_work.c. */
#include "base/units.h"
#include "core/session/policy.h"
#include "sessions/session_inside.h"

/* ---- staying ---- */

static int hand_out(struct weir_call *call, struct weir_pinned *pinned, bool stale, struct weir_read *ret_read)
{
    struct weir_session *session = call->session;
    if (!stale && !session->reads_do_not_move)
        pinned->used = true;
    if (!stale)
        pinned->version = session->version;
    pinned->snapshot = call->snapshot->number;
    session->at = session->handed = pinned;
    weir_servers_count(session->replicas->servers, pinned->link->server);
    session->fault = (struct weir_fault){ 0 };
    *ret_read = (struct weir_read){ .conn = pinned->link->conn,
                                    .server = pinned->link->name,
                                    .waited_ms = (double)call->waited_ns / WEIR_NS_PER_MS,
                                    .leader = pinned == &session->pins[WEIR_PINNED_LEADER],
                                    .stale = stale };
    return 0;
}

/* Is there nothing against reading where it read last? Then nothing has to be asked. */
static bool may_stay(const struct weir_call *call)
{
    struct weir_session *session = call->session;
    struct weir_pinned *pinned = session->at;
    if (!weir_session_is_tracked(session) || !pinned || !pinned->link || pinned->version != session->version)
        return false;
    if (pinned->snapshot == call->snapshot->number)
        return true;
    uint32_t index = weir_call_find(call, pinned->link->server);
    return index != WEIR_ROUTE_NONE && pinned != &session->pins[WEIR_PINNED_LEADER] &&
           weir_policy_may_stay(&session->token, &call->servers[index], call->known);
}

/* ---- the check ---- */

static enum weir_place_verdict compare(struct weir_call *call, const struct weir_pinned *pinned)
{
    return weir_session_token_compare(&call->session->token, &pinned->link->shown, call->known);
}

/* A primary is behind for commits alone that standbys show already and it does not: what is not in its log is lost.
 * Where there is no standby, none could have shown it. */
static enum weir_place_verdict settle_primary(struct weir_call *call, struct weir_pinned *pinned)
{
    if (call->count > 1 && weir_shown_settle(pinned->link->conn, weir_call_timeout(call)) != 0)
        return WEIR_PLACE_BEHIND;
    pinned->link->shown.settled = true;
    return compare(call, pinned);
}

/* It shows all: what was seen at standbys needs no proof any more, at this primary or at one that follows it. */
static void forget_standbys(struct weir_session *session, uint64_t system)
{
    for (unsigned i = 0; i < session->token.count; i++)
        if (session->token.places[i].system == system)
            session->token.places[i].standby = false;
}

/* How the token stands to what the connection shows now. 0; WEIR_EAGAIN, WEIR_EBUSY. */
static int check(struct weir_call *call, struct weir_pinned *pinned, enum weir_place_verdict *ret_verdict)
{
    /* What it showed once it goes on showing. Less than OK may have changed. */
    if (pinned->link->asked && compare(call, pinned) == WEIR_PLACE_OK) {
        *ret_verdict = WEIR_PLACE_OK;
        return 0;
    }
    int error = weir_pinned_ask(call, pinned);
    if (error != 0)
        return error;
    enum weir_place_verdict verdict = compare(call, pinned);
    if (verdict == WEIR_PLACE_UNPROVEN) { /* a history that its poller has yet to learn */
        (void)weir_call_ask(call, pinned->link->server);
        uint32_t leader = weir_route_leader(call->servers, call->count);
        if (compare(call, pinned) == WEIR_PLACE_UNPROVEN && leader != WEIR_ROUTE_NONE)
            (void)weir_call_ask(call, call->servers[leader].id); /* or what a run had flushed */
        verdict = compare(call, pinned);
    }
    if (verdict == WEIR_PLACE_BEHIND && pinned->link->shown.primary)
        verdict = settle_primary(call, pinned);
    if (verdict == WEIR_PLACE_OK && pinned->link->shown.primary)
        forget_standbys(call->session, pinned->link->shown.system);
    *ret_verdict = verdict;
    return 0;
}

/* It did not stand the check. WEIR_EAGAIN: look for another. */
static int refuse(struct weir_call *call, const struct weir_pinned *pinned, enum weir_place_verdict verdict)
{
    const struct weir_link *link = pinned->link;
    const struct weir_route_request request = weir_call_request(call, false);
    (void)weir_session_say(call->session, 0, link->name, weir_place_verdict_name(verdict));
    switch (weir_policy_refused(&request, &link->shown, verdict)) {
    case WEIR_POLICY_LOST:
        return weir_session_lost(call, link->name);
    case WEIR_POLICY_FOREIGN:
        return weir_session_say(call->session, WEIR_EFOREIGN, link->name, "is of another system than the token");
    case WEIR_POLICY_ELSEWHERE:
        break;
    }
    weir_call_shun(call, link->server);
    return WEIR_EAGAIN;
}

/* ---- the strategies that keep clocks ---- */

/* LAMPORT: the clock is read where the read will be. */
static int check_clock(struct weir_call *call, struct weir_pinned *pinned)
{
    struct weir_session *session = call->session;
    uint64_t clock;
    if (session->strategy != WEIR_SESSION_LAMPORT || pinned->version == session->version)
        return 0;
    int error = weir_link_number(pinned->link, session->replicas->clock_query, weir_call_timeout(call), &clock);
    if (error == WEIR_EBUSY)
        return error;
    if (error == 0 && clock >= session->token.clock)
        return 0;
    uint64_t server = pinned->link->server;
    (void)weir_session_say(session, 0, pinned->link->name, error ? "does not tell its clock" : "its clock is behind");
    if (error != 0)
        weir_pinned_lose(session, pinned);
    weir_call_shun(call, server);
    return WEIR_EAGAIN;
}

/* ---- moving ---- */

/* What the other connections have shown has to be known before another is judged. WEIR_EAGAIN: it says more than
 * before: choose anew. */
static int settle_others(struct weir_call *call, const struct weir_pinned *pinned, uint64_t server)
{
    struct weir_session *session = call->session;
    uint64_t version = session->version;
    for (unsigned i = 0; i < WEIR_PINNED_COUNT; i++) {
        struct weir_pinned *other = &session->pins[i];
        if (!other->link || (other == pinned && other->link->server == server))
            continue;
        int error = weir_pinned_settle(call, other);
        if (error == WEIR_EUNKNOWN)
            return WEIR_EAGAIN;
        if (error != 0)
            return error;
    }
    return session->version == version ? 0 : WEIR_EAGAIN;
}

static int go(struct weir_call *call, const struct weir_route *route, struct weir_read *ret_read)
{
    struct weir_session *session = call->session;
    uint64_t server = call->servers[route->server].id;
    struct weir_pinned *pinned = &session->pins[route->leader ? WEIR_PINNED_LEADER : WEIR_PINNED_REPLICA];
    enum weir_place_verdict verdict = WEIR_PLACE_OK;
    int error = session->gaps[pinned - session->pins].open ? WEIR_EAGAIN : settle_others(call, pinned, server);
    if (error == 0)
        error = weir_pinned_take(call, pinned, route->server);
    if (error == 0 && !weir_session_is_tracked(session))
        error = check_clock(call, pinned);
    else if (error == 0 && !route->stale && pinned->version != session->version)
        error = check(call, pinned, &verdict);
    if (error != 0)
        return error;
    return verdict == WEIR_PLACE_OK ? hand_out(call, pinned, route->stale, ret_read) : refuse(call, pinned, verdict);
}

/* ---- choosing ---- */

static int find_and_go(struct weir_call *call, struct weir_read *ret_read)
{
    for (;;) {
        struct weir_route route;
        int error = weir_session_fill(call);
        if (error == 0)
            error = weir_session_find(call, false, &route);
        if (error == 0)
            error = go(call, &route, ret_read);
        if (error != WEIR_EAGAIN)
            return error;
    }
}

int weir_session_read(struct weir_session *session, struct weir_read *ret_read)
{
    struct weir_call call;
    struct weir_pinned *leader = &session->pins[WEIR_PINNED_LEADER];
    const struct weir_pinned *looked_at = session->handed;
    int error = weir_session_back(session);
    if (error != 0)
        return error;
    weir_call_begin(&call, session);
    if (leader->wrote)
        error = weir_pinned_settle(&call, leader);
    if (session->at && session->at->link && session->at != looked_at &&
        weir_link_state(session->at->link) == WEIR_LINK_BROKEN)
        weir_pinned_lose(session, session->at);
    bool is_whole = error == 0 && !session->gaps[WEIR_PINNED_REPLICA].open && !session->gaps[WEIR_PINNED_LEADER].open;
    if (is_whole && may_stay(&call))
        error = hand_out(&call, session->at, false, ret_read);
    else if (error == 0 || error == WEIR_EUNKNOWN)
        error = find_and_go(&call, ret_read);
    weir_call_end(&call);
    return error;
}
