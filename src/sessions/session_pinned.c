/* SPDX-License-Identifier: Apache-2.0
 *
 * The two connections that a session keeps, one to a replica and one to the leader: they are taken from the pool, asked
 * how far they are, and given back. One that was used is settled (its place is added to the token) before another takes
 * its place. If it breaks before that, a gap is left, which session_lead.c fills. Called by session.c, session_lead.c,
 * session_query.c and session_read.c. */
#include "base/assert.h"
#include "base/checked.h"
#include "base/timing.h"
#include "net/postgres_ask.h"
#include "sessions/session_inside.h"

/* Strategy physical: the time of the last commit that the server shows, by its writer's clock. */
static const char stamp_query[] =
    "SELECT (coalesce(extract(epoch FROM CASE WHEN pg_catalog.pg_is_in_recovery()"
    " THEN pg_catalog.pg_last_xact_replay_timestamp() ELSE pg_catalog.clock_timestamp() END), 0)"
    " OPERATOR(pg_catalog.*) 1000000000::numeric)::bigint";

/* ---- the token ---- */

void weir_session_gained(struct weir_session *session, struct weir_pinned *pinned)
{
    /* What the connection itself showed it goes on showing. */
    bool was_known = pinned && pinned->version == session->version;
    session->version++;
    session->gained_ns = weir_ask_now_ns();
    if (was_known)
        pinned->version = session->version;
}

bool weir_session_token_same(const struct weir_session_token *a, const struct weir_session_token *b)
{
    if (a->count != b->count || a->stamp_ns != b->stamp_ns || a->clock != b->clock)
        return false;
    for (unsigned i = 0; i < a->count; i++)
        if (!weir_place_same(&a->places[i], &b->places[i]))
            return false;
    return true;
}

int weir_session_add(struct weir_session *session, const struct weir_known *known, struct weir_pinned *pinned,
                     const struct weir_place *place)
{
    struct weir_session_token token = session->token;
    int error = weir_session_token_add(&token, place, known);
    if (error != 0)
        return weir_session_say(session, error, "token", "has seen too many histories that went apart");
    if (!weir_session_token_same(&token, &session->token)) {
        session->token = token;
        weir_session_gained(session, pinned);
    }
    return 0;
}

/* ---- losing and leaving ---- */

void weir_pinned_lose(struct weir_session *session, struct weir_pinned *pinned)
{
    struct weir_link *link = pinned->link;
    struct weir_gap *gap = &session->gaps[pinned - session->pins];
    if (!link)
        return;
    if (pinned->used && weir_session_is_tracked(session)) {
        struct weir_gap made = {
            .open = true, .server = link->server, .since_ns = weir_ask_now_ns(), .system = link->fixed.system
        };
        if (link->asked) {
            made.timeline = link->timeline;
            made.branch = link->branch;
            made.run = link->shown.primary ? link->shown.run : 0;
        }
        if (gap->open && (gap->timeline != made.timeline || gap->branch != made.branch || gap->run != made.run))
            made.timeline = 0; /* two gaps at different times: no one place is beyond both */
        *gap = made;
    }
    weir_pool_drop(session->replicas->pool, link);
    *pinned = (struct weir_pinned){ 0 };
    if (session->handed == pinned)
        session->handed = NULL;
}

void weir_pinned_leave(struct weir_session *session, struct weir_pinned *pinned)
{
    if (pinned->link)
        weir_pool_give(session->replicas->pool, pinned->link);
    *pinned = (struct weir_pinned){ 0 };
    if (session->handed == pinned)
        session->handed = NULL;
    if (session->at == pinned)
        session->at = NULL;
}

static int busy(struct weir_session *session, const struct weir_pinned *pinned)
{
    return weir_session_say(session, WEIR_EBUSY, pinned->link->name,
                            "a transaction is open on its connection, or an answer has not been read");
}

int weir_session_back(struct weir_session *session)
{
    if (!session->handed)
        return 0;
    switch (weir_link_state(session->handed->link)) {
    case WEIR_LINK_IDLE:
        break;
    case WEIR_LINK_BUSY:
        return busy(session, session->handed);
    case WEIR_LINK_BROKEN:
    default:
        weir_pinned_lose(session, session->handed);
        break;
    }
    session->handed = NULL;
    return 0;
}

/* ---- taking ---- */

/* It could not be asked: what it says is no news, and nothing is pinned. */
static int give_up(struct weir_call *call, struct weir_pinned *pinned)
{
    uint64_t server = pinned->link->server;
    (void)weir_session_say(call->session, 0, pinned->link->name, "does not answer");
    weir_pinned_lose(call->session, pinned);
    weir_call_shun(call, server);
    return WEIR_EAGAIN;
}

bool weir_pinned_is_told(const struct weir_pinned *pinned)
{
    return pinned->link->shown.timeline == 1 || pinned->link->shown.branch != 0;
}

/* A standby whose own connections cannot tell its timeline: its poller learns it, asked after them. That it is the same
 * server still, and no other that was put in its place, is told by the connection: it goes on answering. */
static int learn_timeline(struct weir_call *call, struct weir_link *link)
{
    struct weir_shown shown = link->shown;
    int error = 0;
    if (shown.timeline == 0 && !shown.primary && weir_call_ask(call, link->server)) {
        uint32_t index = weir_call_find(call, link->server);
        if (index != WEIR_ROUTE_NONE && !call->servers[index].shown.primary &&
            call->servers[index].shown.started == link->fixed.started)
            shown.timeline = call->servers[index].shown.timeline;
        error = weir_link_ask(link, weir_call_timeout(call));
    }
    if (error != 0)
        return error;
    if (shown.timeline > 1 && !shown.branch)
        shown.branch = weir_snapshot_branch(call->snapshot, &shown);
    if (shown.timeline > 1 && !shown.branch && weir_call_ask(call, link->server))
        shown.branch = weir_snapshot_branch(call->snapshot, &shown);
    link->shown = shown;
    if (shown.timeline != 0) {
        link->timeline = shown.timeline;
        link->branch = shown.branch;
    }
    return 0;
}

int weir_pinned_ask(struct weir_call *call, struct weir_pinned *pinned)
{
    int error = weir_link_ask(pinned->link, weir_call_timeout(call));
    if (error == WEIR_EBUSY)
        return busy(call->session, pinned);
    if (error != 0)
        return give_up(call, pinned);
    if (pinned->link->shown.primary)
        weir_servers_tell(call->session->replicas->servers, &pinned->link->shown);
    return learn_timeline(call, pinned->link) == 0 ? 0 : give_up(call, pinned);
}

int weir_pinned_take(struct weir_call *call, struct weir_pinned *pinned, uint32_t index)
{
    struct weir_session *session = call->session;
    const struct weir_server_state *state = &call->snapshot->states[index];
    uint64_t server = call->servers[index].id;
    struct weir_link *link;
    enum weir_link_state is = pinned->link && pinned->link->server == server ? weir_link_state(pinned->link)
                                                                             : WEIR_LINK_IDLE;
    if (is == WEIR_LINK_BUSY)
        return busy(session, pinned);
    if (is == WEIR_LINK_BROKEN) {
        weir_pinned_lose(session, pinned);
        return WEIR_EAGAIN;
    }
    if (pinned->link && pinned->link->server == server)
        return 0;
    weir_assert(!pinned->used);
    weir_pinned_leave(session, pinned);
    uint64_t until_ns = weir_max_u64(call->until_ns, weir_ask_now_ns());
    int error = weir_pool_take(session->replicas->pool, server, state->name, state->conninfo, until_ns, &link,
                               &session->fault);
    if (error == WEIR_EDOWN || error == WEIR_EPROTO) {
        weir_call_shun(call, server);
        return WEIR_EAGAIN;
    }
    if (error != 0)
        return error;
    pinned->link = link;
    return link->asked || !weir_session_has_places(session) ? 0 : weir_pinned_ask(call, pinned);
}

/* ---- settling ---- */

static int settle_clock(struct weir_call *call, struct weir_pinned *pinned)
{
    struct weir_session *session = call->session;
    bool is_lamport = session->strategy == WEIR_SESSION_LAMPORT;
    uint64_t *clock = is_lamport ? &session->token.clock : &session->token.stamp_ns, seen;
    int error = weir_link_number(pinned->link, is_lamport ? session->replicas->clock_query : stamp_query,
                                 weir_call_timeout(call), &seen);
    if (error == 0 && seen > *clock) {
        *clock = seen;
        weir_session_gained(session, pinned);
    }
    return error;
}

static int settle_place(struct weir_call *call, struct weir_pinned *pinned)
{
    struct weir_link *link = pinned->link;
    struct weir_place place;
    int error = weir_link_after(link, weir_call_timeout(call));
    if (error != 0)
        return error;
    if (learn_timeline(call, link) != 0 || !weir_pinned_is_told(pinned) || weir_place_seen(&link->shown, &place) != 0)
        return WEIR_EIO; /* nobody can tell on which timeline it was */
    return weir_session_add(call->session, call->known, pinned, &place);
}

int weir_pinned_settle(struct weir_call *call, struct weir_pinned *pinned)
{
    struct weir_session *session = call->session;
    if (!pinned->link || !pinned->used)
        return 0;
    int error = weir_session_has_places(session) ? settle_place(call, pinned) : settle_clock(call, pinned);
    if (error == WEIR_EBUSY)
        return busy(session, pinned);
    if (error == WEIR_ELIMIT)
        return error;
    if (error != 0) {
        (void)weir_session_say(session, 0, pinned->link->name, "its connection broke before it said how far it was");
        weir_pinned_lose(session, pinned);
        return WEIR_EUNKNOWN;
    }
    if (pinned->wrote)
        session->token.wrote_ns = weir_max_u64(session->token.wrote_ns, weir_timing_now(CLOCK_REALTIME));
    pinned->used = pinned->wrote = false;
    return 0;
}
